//! The plain values: numbers, text, and arrays of them.

use crate::key::{Key, Setting, Shape};
use crate::reader::{KeyPlace, Reader, example, suggestion};
use serde::Serialize;
use serde_json::Value;
use toml::Spanned;
use toml::de::DeValue;

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
    const SHAPE: Shape = Shape::Number;

    fn read(base: Self, value: &Spanned<DeValue<'_>>, at: &KeyPlace<'_>, reader: &mut Reader) -> Self {
        match number(value.get_ref()) {
            None => reader.wrong_type(value, at),
            Some(number) if number.is_finite() && in_range(number, at.key) => return number,
            Some(_) => reader.out_of_range(value, at),
        }
        base
    }
}

macro_rules! integer_settings {
    ($($type:ty),*) => {$(
        impl Setting for $type {
            const SHAPE: Shape = Shape::Integer;

            fn read(base: Self, value: &Spanned<DeValue<'_>>, at: &KeyPlace<'_>, reader: &mut Reader) -> Self {
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
        }
    )*};
}

integer_settings!(u8, i8, u16, u32, u64);

impl Setting for bool {
    const SHAPE: Shape = Shape::Boolean;

    fn read(base: Self, value: &Spanned<DeValue<'_>>, at: &KeyPlace<'_>, reader: &mut Reader) -> Self {
        value.get_ref().as_bool().unwrap_or_else(|| {
            reader.wrong_type(value, at);
            base
        })
    }
}

impl Setting for String {
    const SHAPE: Shape = Shape::Text;

    fn read(base: Self, value: &Spanned<DeValue<'_>>, at: &KeyPlace<'_>, reader: &mut Reader) -> Self {
        match value.get_ref().as_str() {
            None => reader.wrong_type(value, at),
            Some("") => reader.empty(value, at),
            Some(text) => return text.to_owned(),
        }
        base
    }
}

impl<T: Setting> Setting for Option<T> {
    const SHAPE: Shape = T::SHAPE;

    fn read(base: Self, value: &Spanned<DeValue<'_>>, at: &KeyPlace<'_>, reader: &mut Reader) -> Self {
        Some(T::read(base.unwrap_or_default(), value, at, reader))
    }
}

impl<T: Setting, const N: usize> Setting for [T; N]
where
    Self: Default + Serialize,
{
    const SHAPE: Shape = Shape::Array(&T::SHAPE, N);

    fn read(mut base: Self, value: &Spanned<DeValue<'_>>, at: &KeyPlace<'_>, reader: &mut Reader) -> Self {
        match value.get_ref().as_array() {
            Some(array) if array.len() == N => {
                for (i, (slot, value)) in base.iter_mut().zip(array.iter()).enumerate() {
                    let at = KeyPlace { path: format!("{}[{i}]", at.path), key: at.key };
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
}

impl<T: Setting> Setting for Vec<T> {
    const SHAPE: Shape = Shape::List(&T::SHAPE);

    fn read(base: Self, value: &Spanned<DeValue<'_>>, at: &KeyPlace<'_>, reader: &mut Reader) -> Self {
        let Some(array) = value.get_ref().as_array() else {
            reader.wrong_type(value, at);
            return base;
        };
        let read = |(i, value)| {
            let at = KeyPlace { path: format!("{}[{i}]", at.path), key: at.key };
            T::read(T::default(), value, &at, reader)
        };
        array.iter().enumerate().map(read).collect()
    }
}

/// Which of `words` is written; `None` and a report if it is none.
#[doc(hidden)]
pub fn read_word(
    value: &Spanned<DeValue<'_>>,
    at: &KeyPlace<'_>,
    reader: &mut Reader,
    words: &[&str],
) -> Option<usize> {
    let Some(text) = value.get_ref().as_str() else {
        reader.wrong_type(value, at);
        return None;
    };
    let found = words.iter().position(|word| *word == text);
    if found.is_none() {
        let help = suggestion(text, words, "write one of");
        reader.refuse(value, at, "not one of them".to_owned(), help);
    }
    found
}

/// The message about `text`, which is none of `words`.
#[doc(hidden)]
pub fn no_such_word(text: &str, words: &[&str]) -> String {
    format!("`{text}` is none of `{}`", words.join("`, `"))
}

/// A default as JSON; null if JSON has no such value.
#[doc(hidden)]
pub fn to_json<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
