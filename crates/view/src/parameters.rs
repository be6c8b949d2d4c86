//! Parameters for people: what [`Connection::parameters`](crate::Connection::parameters) returns as a table, and values as they are typed.

use crate::text::{name, shortened};
use serde_json::Value;
use std::fmt::Write;

/// A value as a user types it: a number, `true` or `false`.
///
/// # Errors
/// It is neither.
pub fn value(text: &str) -> Result<Value, String> {
    let number = |text: &str| Some(Value::Number(serde_json::Number::from_f64(text.parse().ok()?)?));
    // `.5` and `+1` are no JSON.
    let value: Option<Value> = serde_json::from_str(text.trim()).ok().or_else(|| number(text.trim()));
    value
        .filter(|value| value.is_number() || value.is_boolean())
        .ok_or_else(|| format!("{text} is neither a number nor true or false"))
}

/// A table of parameters with their values in force, units, ranges and defaults, a line each.
pub fn table(all: &[Value]) -> String {
    if all.is_empty() {
        return "the robot has no parameters\n".to_owned();
    }
    let text = |one: &Value, key: &str| match &one[key] {
        Value::String(text) if key == "text" => name(text).into_owned(),
        Value::String(text) => shortened(text).into_owned(),
        Value::Null => "–".to_owned(),
        // Computed limits are shown with as many digits as are useful.
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or_else(String::new, |number| format!("{:?}", (number * 1e6).round() / 1e6))
        }
        other => shortened(&other.to_string()).into_owned(),
    };
    let range = |one: &Value| match one["type"] == "boolean" {
        true => "true or false".to_owned(),
        false => format!("{} to {}", text(one, "min"), text(one, "max")),
    };
    let head = ["name", "value", "unit", "range", "default", "what it does"].map(str::to_owned);
    let rows = all.iter().map(|one| {
        [
            text(one, "name"),
            text(one, "value"),
            text(one, "unit"),
            range(one),
            text(one, "default"),
            text(one, "text"),
        ]
    });
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut out = String::new();
    for row in &rows {
        for (cell, width) in row.iter().zip(widths) {
            _ = write!(out, "{cell:width$}  ");
        }
        _ = writeln!(out, "{}", row[5]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_numbers_or_truth() {
        assert_eq!(value(" 0.4"), Ok(json!(0.4)));
        assert_eq!(value("-3"), Ok(json!(-3)));
        assert_eq!(value("true"), Ok(json!(true)));
        assert_eq!([value(".5"), value("+1")], [Ok(json!(0.5)), Ok(json!(1.0))]);
        for bad in ["", "fast", "[1]", "NaN", "inf", "0x1", "\"1\"", "null"] {
            assert!(value(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_table_has_the_ranges() {
        let all =
            [json!({ "name": "kp", "type": "float", "unit": "", "min": 0.0, "max": 1.0, "default": 1.0,
            "value": 0.5, "text": "stiff\nness" })];
        let text = table(&all);
        assert!(text.contains("kp    0.5          0.0 to 1.0  1.0      stiff\\u000aness"), "{text}");
        assert!(table(&[]).contains("no parameters"));
        // The formatter allows no wider column.
        let long = "a".repeat(70_000);
        let text = table(&[
            json!({ "name": long, "unit": long, "min": long, "max": [long], "value": { &long: 1 } }),
        ]);
        assert!(text.lines().all(|line| line.len() < 1000), "{text}");
    }
}
