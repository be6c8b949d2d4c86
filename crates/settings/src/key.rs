//! What is known of one key, and of the values it takes.

use crate::reader::{KeyPlace, Reader};
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use toml::Spanned;
use toml::de::DeValue;

/// One key of a section: the one source of its parsing, its messages, its documentation and its schema.
#[derive(Clone, Copy, Debug)]
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
    /// What may be written.
    pub shape: Shape,
    /// The default; null if there is none.
    pub default: fn() -> Value,
}

/// A word to choose, and what it means, line by line.
pub type Word = (&'static str, &'static [&'static str]);

/// What a value looks like.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// `true` or `false`.
    Boolean,
    /// A number without a fraction.
    Integer,
    /// A number.
    Number,
    /// Text, not empty.
    Text,
    /// One of these.
    Words(&'static [Word]),
    /// So many of these.
    Array(&'static Shape, usize),
    /// Any number of these.
    List(&'static Shape),
    /// A table with these keys.
    Table(&'static [Key]),
}

/// A value that can stand in a robot file. [`section!`](crate::section) and [`words!`](crate::words) make more of them.
pub trait Setting: Clone + Default + Serialize {
    /// What may be written.
    const SHAPE: Shape;

    /// Reads `value`. What it leaves out, or has wrong, stays as in `base`; what is wrong is reported to `reader`.
    fn read(base: Self, value: &Spanned<DeValue<'_>>, at: &KeyPlace<'_>, reader: &mut Reader) -> Self;
}

impl Shape {
    /// The keys, if it is a table or a list of tables.
    pub const fn keys(self) -> &'static [Key] {
        match self {
            Self::Table(keys) => keys,
            Self::Array(of, _) | Self::List(of) => of.keys(),
            _ => &[],
        }
    }

    /// What each of a list is; itself, if it is none.
    pub const fn each(self) -> Self {
        match self {
            Self::Array(of, _) | Self::List(of) => *of,
            one => one,
        }
    }

    /// The words to choose from, if it is one of a set or a list of them.
    pub const fn words(self) -> &'static [Word] {
        match self {
            Self::Words(words) => words,
            Self::Array(of, _) | Self::List(of) => of.words(),
            _ => &[],
        }
    }
}

impl fmt::Display for Shape {
    /// "a number"
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("`true` or `false`"),
            Self::Integer => f.write_str("a whole number"),
            Self::Number => f.write_str("a number"),
            Self::Text => f.write_str("a string"),
            Self::Words(words) => {
                let words: Vec<String> = words.iter().map(|(word, _)| format!("`\"{word}\"`")).collect();
                write!(f, "one of {}", words.join(", "))
            }
            Self::Array(of, count) => write!(f, "an array of {count} {}", of.plural()),
            Self::List(of) => write!(f, "an array of {}", of.plural()),
            Self::Table(_) => f.write_str("a table"),
        }
    }
}

impl Shape {
    /// "numbers"
    const fn plural(self) -> &'static str {
        match self {
            Self::Boolean => "booleans",
            Self::Integer => "whole numbers",
            Self::Number => "numbers",
            Self::Text | Self::Words(_) => "strings",
            Self::Array(..) | Self::List(_) => "arrays",
            Self::Table(_) => "tables",
        }
    }
}

impl Key {
    /// A table under its heading.
    pub const fn table(name: &'static str, keys: &'static [Self]) -> Self {
        let shape = Shape::Table(keys);
        Self { name, unit: "", range: None, required: false, doc: &[], shape, default: || Value::Null }
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
        format!("{}{range}{unit}", self.shape)
    }

    /// The default as it would be written in the file; empty if there is none, or if it is a table.
    pub fn default_text(&self) -> String {
        as_toml(&(self.default)())
    }
}

fn as_toml(value: &Value) -> String {
    match value {
        Value::Null | Value::Object(_) => String::new(),
        Value::String(text) if text.is_empty() => String::new(),
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => format!("[{}]", items.iter().map(as_toml).collect::<Vec<_>>().join(", ")),
        Value::Number(number) if number.is_f64() => as_float(number.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    }
}

fn as_float(number: f64) -> String {
    if number.fract() == 0.0 { format!("{number:.1}") } else { number.to_string() }
}
