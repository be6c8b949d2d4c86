//! JSON Schema of keys, for editors: completion, the meaning of a key under the cursor, and mistakes while writing.
//!
//! Draft 7, which the editors of TOML understand. It knows what single keys may be; what does not fit together is known
//! to the checks of a robot file only.

use crate::key::{Key, Shape};
use crate::reference::sentence;
use serde_json::{Map, Value, json};

/// The version of the language: of `$schema`.
pub const DRAFT: &str = "http://json-schema.org/draft-07/schema#";

/// A table with these keys and no others; the keys without a default must be there.
pub fn table<'a>(keys: impl IntoIterator<Item = &'a Key>) -> Value {
    let keys: Vec<&Key> = keys.into_iter().collect();
    let properties: Map<String, Value> = keys.iter().map(|key| (key.name.to_owned(), value(key))).collect();
    let required: Vec<&str> = keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// The same, with what the table is for, line by line.
pub fn section(about: &[&str], keys: &[Key]) -> Value {
    with(table(keys), "description", sentence(about).into())
}

/// The same table, none of whose keys must be there: they may be given elsewhere.
pub fn optional(mut table: Value) -> Value {
    table.as_object_mut().map(|table| table.remove("required"));
    table
}

/// The same table, whose key `name` has this value only: one of several tables that differ by it.
pub fn selected(mut table: Value, name: &str, value: &str) -> Value {
    table["properties"][name] = json!({ "const": value });
    table
}

/// The value of a key.
pub fn value(key: &Key) -> Value {
    let mut schema = shape(key.shape, key.range);
    let unit = if key.unit.is_empty() { String::new() } else { format!(" ({})", key.unit) };
    schema = with(schema, "description", (sentence(key.doc) + &unit).into());
    match (key.default)() {
        // A table has its defaults key by key.
        Value::Null | Value::Object(_) => schema,
        default => with(schema, "default", default),
    }
}

fn with(mut schema: Value, name: &str, value: Value) -> Value {
    schema[name] = value;
    schema
}

fn shape(shape: Shape, range: Option<(f64, f64)>) -> Value {
    match shape {
        Shape::Boolean => json!({ "type": "boolean" }),
        Shape::Integer => within(json!({ "type": "integer" }), range, |limit| json!(limit as i64)),
        Shape::Number => within(json!({ "type": "number" }), range, |limit| json!(limit)),
        Shape::Text => json!({ "type": "string", "minLength": 1 }),
        Shape::Words(words) => {
            let word = |(word, doc): &(&str, &[&str])| json!({ "const": word, "description": sentence(doc) });
            json!({ "oneOf": words.iter().map(word).collect::<Vec<_>>() })
        }
        Shape::Array(of, count) => {
            json!({ "type": "array", "items": self::shape(*of, range), "minItems": count, "maxItems": count })
        }
        Shape::List(of) => json!({ "type": "array", "items": self::shape(*of, range) }),
        Shape::Table(keys) => table(keys),
    }
}

fn within(schema: Value, range: Option<(f64, f64)>, limit: impl Fn(f64) -> Value) -> Value {
    let Some((low, high)) = range else { return schema };
    let schema = if low.is_finite() { with(schema, "minimum", limit(low)) } else { schema };
    if high.is_finite() { with(schema, "maximum", limit(high)) } else { schema }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::words! {
        /// A choice.
        Wake {
            /// Sleep.
            Sleep = "sleep",
            /// Spin.
            Spin = "spin",
        }
    }

    crate::section! {
        /// `[loop]`: how time is kept.
        Loop {
            /// Ticks.
            rate_hz: f64 = 1000.0, "Hz", 1.0 => 10_000.0;
            /// How to wait.
            wake: Wake = Wake::Spin, "";
            /// Limits.
            limits: Option<[u8; 2]> = None, "", 0 => 9;
            /// Its name.
            name: String, "";
        }
    }

    #[test]
    fn a_section_is_an_object_with_its_keys() {
        let schema = section(Loop::ABOUT, Loop::KEYS);
        assert_eq!(schema["required"], json!(["name"]));
        assert_eq!(schema["additionalProperties"], false);
        let keys = &schema["properties"];
        let rate = json!({
            "type": "number", "minimum": 1.0, "maximum": 10_000.0, "default": 1000.0, "description": "Ticks. (Hz)",
        });
        assert_eq!(keys["rate_hz"], rate);
        assert_eq!(keys["wake"]["oneOf"][1], json!({ "const": "spin", "description": "Spin." }));
        assert_eq!(keys["limits"]["items"], json!({ "type": "integer", "minimum": 0, "maximum": 9 }));
        assert_eq!((&keys["limits"]["minItems"], &keys["limits"]["default"]), (&json!(2), &Value::Null));
    }

    #[test]
    fn effective_values_are_json() {
        let values = serde_json::to_value(Loop { limits: Some([1, 2]), ..Loop::default() }).unwrap();
        assert_eq!(values, json!({ "rate_hz": 1000.0, "wake": "spin", "limits": [1, 2], "name": "" }));
    }

    #[test]
    fn a_word_is_read_from_text_and_json() {
        assert_eq!("spin".parse(), Ok(Wake::Spin));
        assert_eq!("spim".parse::<Wake>(), Err("`spim` is none of `sleep`, `spin`".to_owned()));
        assert_eq!(serde_json::from_value::<Wake>(json!("sleep")).unwrap(), Wake::Sleep);
    }
}
