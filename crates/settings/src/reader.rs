//! Reads a robot file: finds keys, remembers where they stood, and collects everything that is wrong.

use crate::key::{Key, Setting};
use crate::problem::{ConfigError, Problem};
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads the text of a file called `name`: `read` takes what it needs from the root table and reports problems. Returns
/// what it made and the warnings, ready to be shown.
///
/// # Errors
/// The text is no TOML, or something was reported that is more than a warning; see [`ConfigError`].
pub fn parse<T>(
    text: &str,
    name: &str,
    read: impl FnOnce(&DeTable<'_>, &mut Reader) -> T,
) -> Result<(T, Vec<String>), ConfigError> {
    let mut reader = Reader::default();
    let (root, errors) = DeTable::parse_recoverable(text);
    let made = if errors.is_empty() {
        Some(read(root.get_ref(), &mut reader))
    } else {
        reader.problems.extend(errors.iter().map(syntax_error));
        None
    };
    let mut problems = reader.problems;
    problems.iter_mut().for_each(|problem| problem.locate(text));
    problems.sort_by_key(Problem::start);
    match made {
        Some(made) if problems.iter().all(|problem| problem.warning) => {
            Ok((made, problems.iter().map(|problem| problem.render(text, name)).collect()))
        }
        _ => Err(ConfigError::new(problems, text, name)),
    }
}

fn syntax_error(error: &toml::de::Error) -> Problem {
    let title = error.message().lines().collect::<Vec<_>>().join("; ");
    let problem =
        Problem::error("", title).help("a robot file is TOML: `key = value` under `[table]` headings");
    match error.span() {
        Some(span) => problem.at(span, "here"),
        None => problem,
    }
}

/// Which key is being read.
#[derive(Debug)]
pub struct KeyPlace<'a> {
    /// With its tables: `servo[2].id`.
    pub path: String,
    /// The key.
    pub key: &'a Key,
}

impl KeyPlace<'_> {
    /// What is to stand here: of a value within a list, what each of that is.
    fn expected(&self) -> String {
        let name = self.path.rsplit('.').next().unwrap_or_default();
        let shape = (0..name.matches('[').count()).fold(self.key.shape, |shape, _| shape.each());
        Key { shape, ..*self.key }.expected()
    }
}

/// Collects what is wrong and where everything stood.
#[derive(Debug, Default)]
pub struct Reader {
    /// What is wrong so far.
    pub problems: Vec<Problem>,
    spans: BTreeMap<String, Range<usize>>,
}

impl Reader {
    /// One key of a table, or `base` if it is not written or wrong.
    pub fn value<T: Setting>(&mut self, table: &DeTable<'_>, path: &str, key: &Key, base: T) -> T {
        let Some(value) = table.get(key.name) else { return base };
        let at = KeyPlace { path: join(path, key.name), key };
        let before = self.problems.len();
        let read = T::read(base, value, &at, self);
        if self.problems.len() == before {
            self.spans.insert(at.path, value.span());
        }
        read
    }

    /// A table of the root; defaults if it is not there.
    pub fn table<T: Setting>(&mut self, root: &DeTable<'_>, name: &'static str) -> T {
        self.value(root, "", &Key::table(name, T::SHAPE.keys()), T::default())
    }

    /// Where the value of a key stands, if it was written and was right.
    pub fn span(&self, path: &str) -> Option<Range<usize>> {
        self.spans.get(path).cloned()
    }

    /// Remembers the place of something that is no single key.
    pub fn remember(&mut self, path: String, span: Range<usize>) {
        self.spans.insert(path, span);
    }

    /// Reports every key of `table` that is not in `known`, with the nearest one that is.
    pub fn refuse_unknown(&mut self, table: &DeTable<'_>, path: &str, known: &[&str]) {
        for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            let name = key.get_ref();
            let place = if path.is_empty() { "the top level".to_owned() } else { format!("`{path}`") };
            let problem = Problem::error(join(path, name), format!("unknown key `{name}` in {place}"))
                .at(key.span(), "no such key here")
                .help(suggestion(name, known, "the keys here are"));
            self.problems.push(problem);
        }
    }

    /// Reports every required key that is neither in `table` nor `given` elsewhere.
    pub fn require(
        &mut self,
        table: &DeTable<'_>,
        span: Range<usize>,
        path: &str,
        keys: &[Key],
        given: &[&str],
    ) {
        for key in keys.iter().filter(|key| key.required) {
            if table.get(key.name).is_none() && !given.contains(&key.name) {
                let title = format!("`{path}` needs the key `{}`", key.name);
                let problem = Problem::error(join(path, key.name), title)
                    .at(span.clone(), format!("`{}` is missing here", key.name))
                    .help(format!("write `{} = …`: {}", key.name, key.expected()));
                self.problems.push(problem);
            }
        }
    }

    /// Reports a value of another type than the key has.
    pub fn wrong_type(&mut self, value: &Spanned<DeValue<'_>>, at: &KeyPlace<'_>) {
        let found = type_name(value.get_ref());
        let problem =
            Problem::error(&at.path, format!("`{}` must be {}, not {found}", at.path, at.expected()))
                .at(value.span(), format!("this is {found}"))
                .help(example(at.key));
        self.problems.push(problem);
    }

    /// Reports a text that is empty.
    pub fn empty(&mut self, value: &Spanned<DeValue<'_>>, at: &KeyPlace<'_>) {
        let problem = Problem::error(&at.path, format!("`{}` must not be empty", at.path))
            .at(value.span(), "this is empty")
            .help(example(at.key));
        self.problems.push(problem);
    }

    /// Reports a value outside the range of the key.
    pub fn out_of_range(&mut self, value: &Spanned<DeValue<'_>>, at: &KeyPlace<'_>) {
        let problem = Problem::error(&at.path, format!("`{}` is out of range", at.path))
            .at(value.span(), format!("must be {}", at.expected()))
            .help(example(at.key));
        self.problems.push(problem);
    }

    /// Reports a value the key cannot have; `label` is what is wrong with it, `help` what to write instead.
    pub fn refuse(&mut self, value: &Spanned<DeValue<'_>>, at: &KeyPlace<'_>, label: String, help: String) {
        let problem = Problem::error(&at.path, format!("`{}` must be {}", at.path, at.expected()))
            .at(value.span(), label)
            .help(help);
        self.problems.push(problem);
    }
}

/// How the key could be written.
pub(crate) fn example(key: &Key) -> String {
    match (key.default_text(), key.shape.keys().first()) {
        (default, None) if default.is_empty() => {
            format!("write `{} = …` with {}", key.name, key.expected())
        }
        (default, Some(first)) if default.is_empty() => {
            format!("write `{} = {{ {} = … }}`", key.name, first.name)
        }
        (default, _) => format!("for example `{} = {default}`, the default", key.name),
    }
}

/// The path of a key within a table; the root has the empty path.
pub fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// "did you mean …?", or the list if nothing is near.
pub fn suggestion(name: &str, valid: &[&str], otherwise: &str) -> String {
    match nearest(name, valid) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None if valid.is_empty() => String::new(),
        None => format!("{otherwise} `{}`", valid.join("`, `")),
    }
}

/// The valid name most like `name`, if one is at all like it.
pub fn nearest<'a>(name: &str, valid: &[&'a str]) -> Option<&'a str> {
    let name = name.to_lowercase();
    // Equally distant names are distinguished by their beginning: `lop` is rather `loop` than `log`.
    let distance = |candidate: &str| {
        let candidate = candidate.to_lowercase();
        let likeness = (strsim::jaro_winkler(&name, &candidate) * 1000.0) as i32;
        (strsim::damerau_levenshtein(&name, &candidate), -likeness)
    };
    let ((least, _), candidate) = valid.iter().map(|candidate| (distance(candidate), *candidate)).min()?;
    let contained = valid.iter().find(|candidate| {
        name.len() >= 3 && candidate.len() >= 3 && (candidate.contains(&name) || name.contains(*candidate))
    });
    let is_near = least <= name.chars().count().max(3) / 3 && is_near_part_by_part(&name, candidate);
    let is_near = is_near && !is_another_number(&name, candidate);
    if is_near { Some(candidate) } else { contained.copied() }
}

/// Models that differ by their numbers alone are other models: an `RS03` is no mistyped `RS00`.
fn is_another_number(name: &str, candidate: &str) -> bool {
    let (candidate, is_digit) = (candidate.to_lowercase(), |c: char| c.is_ascii_digit());
    name.len() == candidate.len()
        && name
            .chars()
            .zip(candidate.chars())
            .all(|(one, other)| one == other || is_digit(one) && is_digit(other))
}

/// Of two names of as many words no word is another: `base_lin_vel` is no mistyped `base_ang_vel`.
fn is_near_part_by_part(name: &str, candidate: &str) -> bool {
    let (words, others) = (name.split('_'), candidate.split('_'));
    words.clone().count() != others.clone().count()
        || words.zip(others).all(|(word, other)| {
            strsim::damerau_levenshtein(word, &other.to_lowercase()) < word.chars().count().max(3)
        })
}

fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_name_with_another_word_in_it_is_not_suggested() {
        let names = ["base_ang_vel", "joint_vel"];
        assert_eq!(nearest("base_lin_vel", &names), None, "a policy would be given the wrong quantity");
        assert_eq!(nearest("base_agn_vel", &names), Some("base_ang_vel"));
        assert_eq!(nearest("RS03", &["RS00", "RS01"]), None, "another motor, with other scales");
        assert_eq!(nearest("RS0", &["RS00", "EL05"]), Some("RS00"));
    }
}
