//! Units of fields.
//!
//! The format has no place for a unit, but a field may have aliases, which every reader reads and none uses. So the unit
//! of a field is the first of its aliases that is `unit:` and a symbol, such as `unit:rad/s`, and goes wherever the schema
//! goes. It holds for the numbers of the field, also in arrays, maps and unions; the fields of an object have units of
//! their own.
//!
//! Units go into headings, comments and metadata of other formats. So a symbol has 1 to 64 bytes and nothing that a
//! terminal or a reader of lines obeys.

use crate::schema::{Field, Type};
use std::collections::HashMap;

/// How an alias that is a unit begins.
const PREFIX: &str = "unit:";
/// The longest symbol, bytes.
const LONGEST: usize = 64;

impl Field {
    /// The same field with a unit: a plain symbol such as `rad`, `N·m`, `m/s²`, `°C` or `ns`.
    #[must_use]
    pub fn with_unit(mut self, unit: &str) -> Self {
        self.aliases.insert(0, format!("{PREFIX}{unit}"));
        self
    }

    /// Its unit, if the schema has one.
    pub fn unit(&self) -> Option<&str> {
        self.aliases.iter().filter_map(|alias| alias.strip_prefix(PREFIX)).find(|unit| is_symbol(unit))
    }
}

impl Type {
    /// The paths of all fields that have a unit, and their units. A path leads through arrays, maps and unions without
    /// a step of its own: `joints.position`. Where it leads to several fields, in members of a union for example, these
    /// must have the same unit.
    pub fn units(&self) -> Vec<(String, &str)> {
        let mut fields = Vec::new();
        collect(self, "", &mut fields);
        let mut agreed = HashMap::new();
        for (path, unit) in &fields {
            let known = agreed.entry(path.clone()).or_insert(*unit);
            *known = known.filter(|_| known == unit);
        }
        let unit = |(path, _)| agreed.remove(&path).flatten().map(|unit| (path, unit));
        fields.into_iter().filter_map(unit).collect()
    }
}

fn is_symbol(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len()) && !text.contains(is_obeyed)
}

/// Whether a terminal or a reader of lines obeys a character instead of showing it: control characters, line and
/// paragraph separators, and marks that change the direction of writing.
pub const fn is_obeyed(c: char) -> bool {
    matches!(c, '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn collect<'a>(ty: &'a Type, path: &str, fields: &mut Vec<(String, Option<&'a str>)>) {
    match ty {
        Type::Object(members) => {
            for field in members {
                let dot = if path.is_empty() { "" } else { "." };
                let path = format!("{path}{dot}{}", field.name);
                fields.push((path.clone(), field.unit()));
                collect(&field.ty, &path, fields);
            }
        }
        Type::Array(item) | Type::FixedArray(_, item) | Type::Map(item) => collect(item, path, fields),
        Type::Union(members) => members.iter().for_each(|member| collect(member, path, fields)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_goes_through_the_schemas_bytes() {
        let joint = Type::Object(vec![
            Field::new("position", Type::Float32).with_unit("rad"),
            Field::new("mode", Type::Bool),
        ]);
        let ty = Type::Object(vec![
            Field::new("joints", Type::Array(Box::new(joint))),
            Field { aliases: vec!["old".into()], ..Field::new("at", Type::Float64) }.with_unit("s"),
        ]);
        let read = Type::decode(&ty.to_bytes()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read.units(), [("joints.position".to_owned(), "rad"), ("at".to_owned(), "s")]);
        assert_eq!(read, ty);
    }

    fn number(name: &str, aliases: &[&str]) -> Field {
        let aliases = aliases.iter().map(|alias| (*alias).to_owned()).collect();
        Field { aliases, ..Field::new(name, Type::Float32) }
    }

    /// An export took it for the channel's unit, which a reader of lines could then not read.
    #[test]
    fn an_alias_that_no_unit_looks_like_was_one() {
        let long = format!("unit:{}", "x".repeat(LONGEST + 1));
        for alias in [
            "unit:",
            "unit:\u{2028}x",
            "unit:x\u{2029}",
            "unit:\u{1b}[31m",
            "unit:\u{202e}V",
            "unit:V\n",
            &long,
        ] {
            let (alone, before) = (number("x", &[alias]), number("x", &[alias, "unit:V"]));
            assert_eq!((alone.unit(), before.unit()), (None, Some("V")), "{alias:?}");
        }
        for unit in ["rad", "N·m", "m/s²", "µm", "% of 1 h", &long[5..5 + LONGEST]] {
            let field = number("x", &["old", &format!("unit:{unit}")]);
            assert_eq!(field.unit(), Some(unit));
        }
    }

    #[test]
    fn of_several_units_of_one_path_the_last_won() {
        let object = |alias: &str| Type::Object(vec![number("x", &[alias])]);
        let either = |a, b| Type::object([("u", Type::Union(vec![object(a), object(b)]))]);
        let same = either("unit:rad", "unit:rad");
        assert_eq!(same.units(), [("u.x".to_owned(), "rad")]);
        for (a, b) in [("unit:rad", "unit:deg"), ("unit:rad", "none"), ("none", "unit:rad")] {
            assert!(either(a, b).units().is_empty(), "{a} and {b}");
        }
        let twice =
            Type::Object(vec![number("x", &["unit:m"]), number("x", &["unit:s"]), number("y", &["unit:V"])]);
        assert_eq!(twice.units(), [("y".to_owned(), "V")]);
    }
}
