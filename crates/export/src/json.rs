//! Values as JSON.

use khz_tlog::Value;
use std::fmt::{self, Display, Formatter};

/// A value that displays as JSON, on one line.
///
/// NaN becomes `null` and the infinities the texts `Infinity` and `-Infinity`, as JSON has no such numbers; bytes a text of hexadecimal digits, enums their name (their number if
/// it has none), timestamps and durations microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Json<'a>(pub Value<'a>);

impl Display for Json<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) | Value::Timestamp(value) | Value::Duration(value) => write!(f, "{value}"),
            Value::Uint(value) => write!(f, "{value}"),
            Value::Float32(value) if value.is_finite() => write!(f, "{value}"),
            Value::Float64(value) if value.is_finite() => write!(f, "{value}"),
            Value::Float32(value) => not_finite(f, value.into()),
            Value::Float64(value) => not_finite(f, value),
            Value::Bytes(bytes) => {
                f.write_str("\"")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str("\"")
            }
            Value::String(text) => Text(text).fmt(f),
            Value::Enum(symbol) => match symbol.name {
                Some(name) => Text(name).fmt(f),
                None => write!(f, "{}", symbol.value),
            },
            Value::Object(fields) => object(f, fields),
            Value::Map(entries) => object(f, entries),
            Value::Array(items) => {
                f.write_str("[")?;
                for (index, item) in items.enumerate() {
                    f.write_str(if index == 0 { "" } else { "," })?;
                    Json(item).fmt(f)?;
                }
                f.write_str("]")
            }
        }
    }
}

fn not_finite(f: &mut Formatter<'_>, value: f64) -> fmt::Result {
    f.write_str(match value {
        f64::INFINITY => "\"Infinity\"",
        f64::NEG_INFINITY => "\"-Infinity\"",
        _ => "null",
    })
}

fn object<'a>(f: &mut Formatter<'_>, fields: impl Iterator<Item = (&'a str, Value<'a>)>) -> fmt::Result {
    f.write_str("{")?;
    for (index, (name, value)) in fields.enumerate() {
        write!(f, "{}{}:{}", if index == 0 { "" } else { "," }, Text(name), Json(value))?;
    }
    f.write_str("}")
}

/// A text that displays as a JSON string.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(pub &'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                control if control < ' ' => write!(f, "\\u{:04x}", control as u32)?,
                other => write!(f, "{other}")?,
            }
        }
        f.write_str("\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_tlog::Type;

    #[test]
    fn texts_and_numbers_are_json() {
        assert_eq!(Text("a\"\\\n").to_string(), r#""a\"\\\u000a""#);
        assert_eq!(Json(Value::Float32(f32::NAN)).to_string(), "null");
        assert_eq!(Json(Value::Float32(0.1)).to_string(), "0.1");
        assert_eq!(Json(Value::Bytes(&[0, 255])).to_string(), "\"00ff\"");
    }

    #[test]
    fn infinities_are_not_null() {
        let texts = [f64::INFINITY, f64::NEG_INFINITY].map(|value| Json(Value::Float64(value)).to_string());
        assert_eq!(texts, ["\"Infinity\"", "\"-Infinity\""]);
        assert_eq!(Json(Value::Float32(f32::INFINITY)).to_string(), texts[0]);
    }

    #[test]
    fn composites_are_json() {
        let ty =
            Type::object([("a", Type::Array(Box::new(Type::Bool))), ("b", Type::Map(Box::new(Type::Bool)))]);
        let value = Value::read(&ty, &[2, 0, 1, 1, 1, b'k', 1]).unwrap();
        assert_eq!(Json(value).to_string(), r#"{"a":[false,true],"b":{"k":true}}"#);
    }
}
