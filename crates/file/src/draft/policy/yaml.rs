//! YAML as trainers write it: lists and maps of text, in the order of the file.

use saphyr_parser::{Event, Parser, ScalarStyle};
use std::collections::BTreeSet;
use std::fmt;

/// The largest file that is read, bytes, and how deep lists and maps may lie in each other.
pub const LARGEST: usize = 1 << 20;
const DEEPEST: usize = 64;

/// A value. Tags are dropped.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Yaml {
    Null,
    Text(String),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

/// A list or map that is not finished, the key that waits for its value, and all of its keys.
struct Open {
    value: Yaml,
    key: Option<String>,
    keys: BTreeSet<String>,
}

impl Open {
    fn new(value: Yaml) -> Self {
        Self { value, key: None, keys: BTreeSet::new() }
    }
}

impl Yaml {
    /// The one document of a text.
    ///
    /// # Errors
    /// It is no YAML, too large, too deep, refers to itself (`*`), has a key twice or a second document: what, and in which line.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LARGEST {
            return Err(format!("it is larger than {LARGEST} bytes"));
        }
        let mut open: Vec<Open> = Vec::new();
        let mut document = None;
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| error.to_string())?;
            let line = span.start.line();
            let done = match event {
                Event::SequenceStart(..) | Event::MappingStart(..) if open.len() == DEEPEST => {
                    return Err(format!("line {line}: more than {DEEPEST} lists and maps in each other"));
                }
                Event::SequenceStart(..) => {
                    open.push(Open::new(Self::List(Vec::new())));
                    continue;
                }
                Event::MappingStart(..) => {
                    open.push(Open::new(Self::Map(Vec::new())));
                    continue;
                }
                Event::SequenceEnd | Event::MappingEnd => open.pop().map_or(Self::Null, |open| open.value),
                Event::Scalar(text, style, ..) => scalar(&text, style),
                Event::Alias(_) => return Err(format!("line {line}: an alias (`*`), which is not followed")),
                Event::DocumentStart(_) if document.is_some() => {
                    return Err(format!("line {line}: a second document; only one is read"));
                }
                _ => continue,
            };
            let Some(within) = open.last_mut() else {
                document = Some(done);
                continue;
            };
            match (&mut within.value, within.key.take()) {
                (Self::List(list), _) => list.push(done),
                (Self::Map(map), Some(key)) => map.push((key, done)),
                (_, _) => match done {
                    Self::Text(key) if !within.keys.insert(key.clone()) => {
                        return Err(format!("line {line}: the key `{key}` for the second time"));
                    }
                    Self::Text(key) => within.key = Some(key),
                    _ => return Err(format!("line {line}: a key that is no text")),
                },
            }
        }
        Ok(document.unwrap_or(Self::Null))
    }

    /// What is behind a key.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(map) = self else { return None };
        map.iter().find(|(known, value)| known == key && *value != Self::Null).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        let Self::Map(map) = self else { return None };
        map.iter_mut().find(|(known, value)| known == key && *value != Self::Null).map(|(_, value)| value)
    }

    /// Takes out what is behind a key.
    pub(super) fn take(&mut self, key: &str) -> Option<Self> {
        self.get_mut(key).map(|value| std::mem::replace(value, Self::Null))
    }

    /// It has neither text nor number.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Text(_) => false,
            Self::List(list) => list.iter().all(Self::is_empty),
            Self::Map(map) => map.iter().all(|(_, value)| value.is_empty()),
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(super) fn number(&self) -> Option<f64> {
        self.text()?.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// A number from 0 without a fraction, as large as a place in a list.
    pub(super) fn whole(&self) -> Option<usize> {
        let number = self.number()?;
        let is_whole = number.fract() == 0.0 && (0.0..=1e6).contains(&number);
        is_whole.then_some(number as usize)
    }

    /// Finite numbers; one that stands alone is a list of one.
    pub(super) fn numbers(&self) -> Option<Vec<f64>> {
        match self {
            Self::List(list) => list.iter().map(Self::number).collect(),
            _ => self.number().map(|number| vec![number]),
        }
    }

    pub(super) fn texts(&self) -> Option<Vec<String>> {
        self.list()?.iter().map(|item| item.text().map(str::to_owned)).collect()
    }

    pub(super) fn list(&self) -> Option<&[Self]> {
        if let Self::List(list) = self { Some(list) } else { None }
    }

    pub(super) fn map(&self) -> Option<&[(String, Self)]> {
        if let Self::Map(map) = self { Some(map) } else { None }
    }
}

/// On one line.
impl fmt::Display for Yaml {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Text(text) => f.write_str(text),
            Self::List(list) => {
                let items: Vec<_> = list.iter().map(Self::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Self::Map(map) => {
                let items: Vec<_> = map.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                write!(f, "{{{}}}", items.join(", "))
            }
        }
    }
}

fn scalar(text: &str, style: ScalarStyle) -> Yaml {
    match (style, text) {
        (ScalarStyle::Plain, "" | "~" | "null" | "Null" | "NULL") => Yaml::Null,
        _ => Yaml::Text(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_maps_of_text_in_their_order() {
        let read = Yaml::parse("b: [1, -2.5e1]\na:\n- x: ~\n- !!python/object/apply:slice [null]\n").unwrap();
        assert_eq!(read.get("b").and_then(Yaml::numbers), Some(vec![1.0, -25.0]));
        let keys: Vec<_> = read.map().unwrap().iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["b", "a"]);
        let list = read.get("a").and_then(Yaml::list).unwrap();
        assert_eq!((list[0].get("x"), &list[1]), (None, &Yaml::List(vec![Yaml::Null])));
        assert_eq!(Yaml::parse(""), Ok(Yaml::Null));
    }

    #[test]
    fn what_is_hostile_is_refused() {
        let [deep, deeper] = [100, 1000].map(|count| "[".repeat(count));
        for (text, why) in [
            ("a: &x [1]\nb: [*x, *x]", "line 2: an alias"),
            (deep.as_str(), "more than 64"),
            (deeper.as_str(), "recursion limit"),
            ("{[1]: 2}", "no text"),
            ("a: [", "line"),
            ("a: 1\nb: 2\na: 3", "line 3: the key `a` for the second time"),
            ("---\na: 1\n---\na: 2", "a second document"),
        ] {
            let error = Yaml::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(Yaml::parse(&" ".repeat(LARGEST + 1)).unwrap_err().contains("larger"));
    }
}
