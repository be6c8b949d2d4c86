//! Units of fields.
//!
//! The format has no place for a unit, but a field may have aliases, which every reader reads and none uses. So the unit
//! of a field is the first of its aliases that begins with `unit:`, such as `unit:rad/s`, and goes wherever the schema
//! goes. It holds for the numbers of the field, also in arrays, maps and unions; the fields of an object have units of
//! their own.

use crate::schema::{Field, Type};

/// How an alias that is a unit begins.
const PREFIX: &str = "unit:";

impl Field {
    /// The same field with a unit: a plain symbol such as `rad`, `N·m`, `m/s²`, `°C` or `ns`.
    #[must_use]
    pub fn with_unit(mut self, unit: &str) -> Self {
        self.aliases.insert(0, format!("{PREFIX}{unit}"));
        self
    }

    /// Its unit, if the schema has one.
    pub fn unit(&self) -> Option<&str> {
        self.aliases.iter().find_map(|alias| alias.strip_prefix(PREFIX))
    }
}

impl Type {
    /// The paths of all fields that have a unit, and their units. A path leads through arrays, maps and unions without
    /// a step of its own: `joints.position`.
    pub fn units(&self) -> Vec<(String, &str)> {
        let mut units = Vec::new();
        collect(self, "", &mut units);
        units
    }
}

fn collect<'a>(ty: &'a Type, path: &str, units: &mut Vec<(String, &'a str)>) {
    match ty {
        Type::Object(fields) => {
            for field in fields {
                let dot = if path.is_empty() { "" } else { "." };
                let path = format!("{path}{dot}{}", field.name);
                units.extend(field.unit().map(|unit| (path.clone(), unit)));
                collect(&field.ty, &path, units);
            }
        }
        Type::Array(item) | Type::FixedArray(_, item) | Type::Map(item) => collect(item, path, units),
        Type::Union(members) => members.iter().for_each(|member| collect(member, path, units)),
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
}
