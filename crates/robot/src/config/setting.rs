//! How one key is read: its type, its range, and what to tell who wrote something else.

use super::problem::Problem;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One key of a section: the one source of its parsing, its error messages and its documentation.
#[derive(Clone, Copy)]
pub struct Key {
    /// As written in the file.
    pub name: &'static str,
    /// Unit, empty if it has none.
    pub unit: &'static str,
    /// Least and greatest value, for numbers.
    pub range: Option<(f64, f64)>,
    /// The key has no default.
    pub required: bool,
    /// What it means, line by line.
    pub doc: &'static [&'static str],
    /// What may be written: "a number".
    pub kind: fn() -> String,
    /// The default, as it would be written in the file; empty if there is none.
    pub default: fn() -> String,
    /// The keys of the table, if the value is one.
    pub keys: &'static [Key],
    /// The words to choose from, if the value is one of a set, each with its meaning.
    pub words: &'static [Word],
}

/// A word to choose, and what it means, line by line.
pub type Word = (&'static str, &'static [&'static str]);

impl Key {
    /// A table under its heading.
    pub(super) const fn table(name: &'static str, keys: &'static [Self]) -> Self {
        let kind = || "a table".to_owned();
        Self {
            name,
            unit: "",
            range: None,
            required: false,
            doc: &[],
            kind,
            default: String::new,
            keys,
            words: &[],
        }
    }

    /// What may be written, with range and unit.
    pub fn expected(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        let number = |x: f64| if x.abs() >= 1e15 { format!("{x:e}") } else { x.to_string() };
        let range = match self.range {
            None => String::new(),
            Some((low, high)) if high == f64::INFINITY => format!(" of at least {}", number(low)),
            Some((low, high)) => format!(" from {} to {}", number(low), number(high)),
        };
        format!("{}{range}{unit}", (self.kind)())
    }
}

/// A value that can stand in a robot file.
pub(super) trait Setting: Clone + Default {
    /// What may be written: "a number".
    fn kind() -> String;

    /// Reads `value`; whatever it does not say, or says wrongly, stays as in `base`.
    fn read(base: Self, value: &Spanned<DeValue<'_>>, at: &Place<'_>, reader: &mut Reader) -> Self;

    /// As it would be written in a file.
    fn show(&self) -> String;

    /// The keys of the table, if it is one.
    const KEYS: &'static [Key] = &[];

    /// The words to choose from, if it is one of a set.
    const MEANINGS: &'static [Word] = &[];
}

/// Which key is being read.
pub(super) struct Place<'a> {
    pub path: String,
    pub key: &'a Key,
}

/// Collects what is wrong and where everything stood.
#[derive(Default)]
pub(super) struct Reader {
    pub problems: Vec<Problem>,
    spans: BTreeMap<String, Range<usize>>,
}

impl Reader {
    /// One key of a table, or `base` if it is not written or wrong.
    pub fn value<T: Setting>(&mut self, table: &DeTable<'_>, path: &str, key: &Key, base: T) -> T {
        let Some(value) = table.get(key.name) else { return base };
        let at = Place { path: join(path, key.name), key };
        let before = self.problems.len();
        let read = T::read(base, value, &at, self);
        if self.problems.len() == before {
            self.spans.insert(at.path, value.span());
        }
        read
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

    pub fn wrong_type(&mut self, value: &Spanned<DeValue<'_>>, at: &Place<'_>) {
        let found = type_name(value.get_ref());
        let problem =
            Problem::error(&at.path, format!("`{}` must be {}, not {found}", at.path, at.key.expected()))
                .at(value.span(), format!("this is {found}"))
                .help(example(at.key));
        self.problems.push(problem);
    }

    pub fn out_of_range(&mut self, value: &Spanned<DeValue<'_>>, at: &Place<'_>) {
        let problem = Problem::error(&at.path, format!("`{}` is out of range", at.path))
            .at(value.span(), format!("must be {}", at.key.expected()))
            .help(example(at.key));
        self.problems.push(problem);
    }

    pub fn refuse(&mut self, value: &Spanned<DeValue<'_>>, at: &Place<'_>, label: String, help: String) {
        let problem = Problem::error(&at.path, format!("`{}` must be {}", at.path, at.key.expected()))
            .at(value.span(), label)
            .help(help);
        self.problems.push(problem);
    }
}

fn example(key: &Key) -> String {
    match (key.default)() {
        default if default.is_empty() && key.keys.is_empty() => {
            format!("write `{} = …` with {}", key.name, key.expected())
        }
        default if default.is_empty() => format!("write `{} = {{ {} = … }}`", key.name, key.keys[0].name),
        default => format!("for example `{} = {default}`, the default", key.name),
    }
}

pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// "did you mean …?", or the list if nothing is near.
pub(super) fn suggestion(name: &str, valid: &[&str], otherwise: &str) -> String {
    match nearest(name, valid) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None if valid.is_empty() => String::new(),
        None => format!("{otherwise} `{}`", valid.join("`, `")),
    }
}

/// The valid name most like `name`, if one is at all like it.
fn nearest<'a>(name: &str, valid: &[&'a str]) -> Option<&'a str> {
    let name = name.to_lowercase();
    // Equally distant names are told apart by their beginning: `lop` is rather `loop` than `log`.
    let distance = |candidate: &str| {
        let candidate = candidate.to_lowercase();
        let likeness = (strsim::jaro_winkler(&name, &candidate) * 1000.0) as i32;
        (strsim::damerau_levenshtein(&name, &candidate), -likeness)
    };
    let ((least, _), candidate) = valid.iter().map(|candidate| (distance(candidate), *candidate)).min()?;
    let contained = valid.iter().find(|candidate| {
        name.len() >= 3 && candidate.len() >= 3 && (candidate.contains(&name) || name.contains(*candidate))
    });
    if least <= name.chars().count().max(3) / 3 { Some(candidate) } else { contained.copied() }
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

fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok().map(|n| n as f64),
        DeValue::Float(n) => n.as_str().parse().ok(),
        _ => None,
    }
}

fn in_range(value: f64, key: &Key) -> bool {
    key.range.is_none_or(|(low, high)| low <= value && value <= high)
}

impl Setting for f64 {
    fn kind() -> String {
        "a number".to_owned()
    }

    fn read(base: Self, value: &Spanned<DeValue<'_>>, at: &Place<'_>, reader: &mut Reader) -> Self {
        match number(value.get_ref()) {
            None => reader.wrong_type(value, at),
            Some(number) if number.is_finite() && in_range(number, at.key) => return number,
            Some(_) => reader.out_of_range(value, at),
        }
        base
    }

    fn show(&self) -> String {
        if self.fract() == 0.0 { format!("{self:.1}") } else { self.to_string() }
    }
}

macro_rules! integer_settings {
    ($($type:ty),*) => {$(
        impl Setting for $type {
            fn kind() -> String {
                "a whole number".to_owned()
            }

            fn read(base: Self, value: &Spanned<DeValue<'_>>, at: &Place<'_>, reader: &mut Reader) -> Self {
                let DeValue::Integer(digits) = value.get_ref() else {
                    reader.wrong_type(value, at);
                    return base;
                };
                match <$type>::from_str_radix(digits.as_str(), digits.radix()) {
                    Ok(number) if in_range(number as f64, at.key) => number,
                    _ => {
                        reader.out_of_range(value, at);
                        base
                    }
                }
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

integer_settings!(u8, i8, u32, u64);

impl Setting for bool {
    fn kind() -> String {
        "`true` or `false`".to_owned()
    }

    fn read(base: Self, value: &Spanned<DeValue<'_>>, at: &Place<'_>, reader: &mut Reader) -> Self {
        value.get_ref().as_bool().unwrap_or_else(|| {
            reader.wrong_type(value, at);
            base
        })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for String {
    fn kind() -> String {
        "a string".to_owned()
    }

    fn read(base: Self, value: &Spanned<DeValue<'_>>, at: &Place<'_>, reader: &mut Reader) -> Self {
        match value.get_ref().as_str() {
            None => reader.wrong_type(value, at),
            Some("") => reader.refuse(value, at, "this is empty".to_owned(), example(at.key)),
            Some(text) => return text.to_owned(),
        }
        base
    }

    fn show(&self) -> String {
        if self.is_empty() { String::new() } else { format!("{self:?}") }
    }
}

impl<T: Setting> Setting for Option<T> {
    fn kind() -> String {
        T::kind()
    }

    fn read(base: Self, value: &Spanned<DeValue<'_>>, at: &Place<'_>, reader: &mut Reader) -> Self {
        Some(T::read(base.unwrap_or_default(), value, at, reader))
    }

    fn show(&self) -> String {
        self.as_ref().map(T::show).unwrap_or_default()
    }

    const KEYS: &'static [Key] = T::KEYS;
    const MEANINGS: &'static [Word] = T::MEANINGS;
}

impl<T: Setting, const N: usize> Setting for [T; N]
where
    Self: Default,
{
    fn kind() -> String {
        format!("{N} times {}", T::kind())
    }

    fn read(mut base: Self, value: &Spanned<DeValue<'_>>, at: &Place<'_>, reader: &mut Reader) -> Self {
        match value.get_ref().as_array() {
            Some(array) if array.len() == N => {
                for (i, (slot, value)) in base.iter_mut().zip(array.iter()).enumerate() {
                    let at = Place { path: format!("{}[{i}]", at.path), key: at.key };
                    *slot = T::read(slot.clone(), value, &at, reader);
                }
            }
            Some(array) => {
                let label = format!("these are {} values", array.len());
                reader.refuse(value, at, label, example(at.key));
            }
            None => reader.wrong_type(value, at),
        }
        base
    }

    fn show(&self) -> String {
        let items: Vec<_> = self.iter().map(T::show).collect();
        format!("[{}]", items.join(", "))
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn kind() -> String {
        format!("a list of {}", T::kind())
    }

    fn read(base: Self, value: &Spanned<DeValue<'_>>, at: &Place<'_>, reader: &mut Reader) -> Self {
        let Some(array) = value.get_ref().as_array() else {
            reader.wrong_type(value, at);
            return base;
        };
        let read = |(i, value)| {
            let at = Place { path: format!("{}[{i}]", at.path), key: at.key };
            T::read(T::default(), value, &at, reader)
        };
        array.iter().enumerate().map(read).collect()
    }

    fn show(&self) -> String {
        let items: Vec<_> = self.iter().map(T::show).collect();
        format!("[{}]", items.join(", "))
    }

    const KEYS: &'static [Key] = T::KEYS;
    const MEANINGS: &'static [Word] = T::MEANINGS;
}

/// A closed set of words, as an enum. The first is the `Default` of the type.
macro_rules! words {
    ($(#[doc = $about:literal])+ $name:ident { $($(#[doc = $doc:literal])+ $word:ident = $text:literal,)+ }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[doc = $doc])+ $word,)+ }

        impl $name {
            /// Every word, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$word),+];
            const WORDS: &'static [&'static str] = &[$($text),+];

            /// As written in a robot file.
            pub const fn word(self) -> &'static str {
                Self::WORDS[self as usize]
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::ALL[0]
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }

        impl $crate::config::setting::Setting for $name {
            fn kind() -> String {
                format!("one of `{}`", [$(concat!("\"", $text, "\"")),+].join("`, `"))
            }

            fn read(
                base: Self,
                value: &toml::Spanned<toml::de::DeValue<'_>>,
                at: &$crate::config::setting::Place<'_>,
                reader: &mut $crate::config::setting::Reader,
            ) -> Self {
                let Some(text) = value.get_ref().as_str() else {
                    reader.wrong_type(value, at);
                    return base;
                };
                match Self::WORDS.iter().position(|word| *word == text) {
                    Some(at) => Self::ALL[at],
                    None => {
                        let help = $crate::config::setting::suggestion(text, Self::WORDS, "write one of");
                        reader.refuse(value, at, "not one of them".to_owned(), help);
                        base
                    }
                }
            }

            fn show(&self) -> String {
                format!("\"{}\"", self.word())
            }

            const MEANINGS: &'static [$crate::config::setting::Word] = &[$(($text, &[$($doc),+])),+];
        }
    };
}

/// A table with fixed keys, as a struct: each line is a key with its type, default, unit and range.
/// A key without a default is required.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $name:ident {
            $($(#[doc = $doc:literal])+ $field:ident: $type:ty $(= $default:expr)?, $unit:literal $(, $low:expr => $high:expr)?;)*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $type,)*
        }

        impl $name {
            /// What the table is for, line by line.
            pub const ABOUT: &'static [&'static str] = &[$($about),+];

            /// Every key of the table.
            pub const KEYS: &'static [$crate::config::Key] = &[$($crate::config::Key {
                name: stringify!($field),
                unit: $unit,
                range: { #[allow(unused_mut, unused_assignments)] let mut range = None; $(range = Some(($low as f64, $high as f64));)? range },
                required: { #[allow(unused_mut, unused_assignments)] let mut required = true; $(let _ = stringify!($default); required = false;)? required },
                doc: &[$($doc),+],
                kind: <$type as $crate::config::setting::Setting>::kind,
                default: || {
                    let default: Option<$type> = section!(@optional $($default)?);
                    default.map(|value| $crate::config::setting::Setting::show(&value)).unwrap_or_default()
                },
                keys: <$type as $crate::config::setting::Setting>::KEYS,
                words: <$type as $crate::config::setting::Setting>::MEANINGS,
            }),*];

            /// The table's keys over `self`; unknown and missing keys are not looked for.
            #[allow(unused_variables, unused_mut)]
            pub(in $crate::config) fn over(
                mut self,
                table: &toml::de::DeTable<'_>,
                path: &str,
                reader: &mut $crate::config::setting::Reader,
            ) -> Self {
                let mut keys = Self::KEYS.iter();
                $(if let Some(key) = keys.next() {
                    self.$field = reader.value(table, path, key, self.$field);
                })*
                self
            }

            /// The names of the keys.
            #[allow(dead_code)]
            pub(in $crate::config) fn names() -> Vec<&'static str> {
                Self::KEYS.iter().map(|key| key.name).collect()
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: section!(@or_default $type $(, $default)?),)* }
            }
        }

        impl $crate::config::setting::Setting for $name {
            fn kind() -> String {
                "a table".to_owned()
            }

            fn read(
                base: Self,
                value: &toml::Spanned<toml::de::DeValue<'_>>,
                at: &$crate::config::setting::Place<'_>,
                reader: &mut $crate::config::setting::Reader,
            ) -> Self {
                let Some(table) = value.get_ref().as_table() else {
                    reader.wrong_type(value, at);
                    return base;
                };
                reader.refuse_unknown(table, &at.path, &Self::names());
                reader.require(table, value.span(), &at.path, Self::KEYS, &[]);
                base.over(table, &at.path, reader)
            }

            fn show(&self) -> String {
                String::new()
            }

            const KEYS: &'static [$crate::config::Key] = Self::KEYS;
        }
    };
    (@optional) => { None };
    (@optional $default:expr) => { Some($default) };
    (@or_default $type:ty) => { <$type>::default() };
    (@or_default $type:ty, $default:expr) => { $default };
}

pub(super) use {section, words};
