//! Records read field by field, by their names: of another version, or of another program.

use crate::value::Value;

/// A flat record whose fields can be set one by one. Derive it beside [`Record`](crate::Record).
///
/// A reader of logs meets records of other versions, in which fields are missing, are more, stand in another order or have
/// other names; [`Columns::read`] takes what there is.
pub trait Columns: Sized {
    /// The fields, in their order.
    const FIELDS: &'static [FieldInfo];

    /// Sets a field, by its place in [`Columns::FIELDS`], if the value fits it.
    fn set(&mut self, field: usize, value: &Value<'_>);

    /// The place of the field that a log calls `name`.
    fn place(name: &str) -> Option<usize> {
        Self::FIELDS.iter().position(|field| field.name == name || field.aliases.contains(&name))
    }

    /// Sets every field that `value`, an object, has; the others stay.
    fn read(&mut self, value: &Value<'_>) {
        let Value::Object(fields) = *value else { return };
        let mut next = 0;
        for (name, value) in fields {
            // Nearly always in the order of the fields.
            let is_next = Self::FIELDS.get(next).is_some_and(|field| field.name == name);
            let place = if is_next { Some(next) } else { Self::place(name) };
            let Some(place) = place else { continue };
            self.set(place, &value);
            next = place + 1;
        }
    }
}

/// What is known of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    /// Its name in the log.
    pub name: &'static str,
    /// What other versions call it.
    pub aliases: &'static [&'static str],
    /// What it is: the documentation of the field.
    pub about: &'static str,
}

/// What a field of a flat record can be.
pub trait Scalar: Sized {
    /// Reads it from any value that stands for it.
    fn of(value: &Value<'_>) -> Option<Self>;
}

macro_rules! integers {
    ($($rust:ty)*) => {$(
        impl Scalar for $rust {
            fn of(value: &Value<'_>) -> Option<Self> {
                match *value {
                    Value::Int(value) => value.try_into().ok(),
                    Value::Uint(value) => value.try_into().ok(),
                    // A float beyond the range becomes its end.
                    _ => value.number().filter(|number| !number.is_nan()).map(|number| number as $rust),
                }
            }
        }
    )*};
}

integers! { i8 i16 i32 i64 u8 u16 u32 u64 }

impl Scalar for f64 {
    fn of(value: &Value<'_>) -> Option<Self> {
        value.number()
    }
}

impl Scalar for f32 {
    fn of(value: &Value<'_>) -> Option<Self> {
        value.number().map(|number| number as f32)
    }
}

impl Scalar for bool {
    fn of(value: &Value<'_>) -> Option<Self> {
        value.number().map(|number| number != 0.0)
    }
}

impl<T: Scalar + Copy + Default, const N: usize> Scalar for [T; N] {
    fn of(value: &Value<'_>) -> Option<Self> {
        let Value::Array(items) = *value else { return None };
        let mut all = [T::default(); N];
        let mut filled = all.iter_mut().zip(items);
        filled.try_for_each(|(into, item)| T::of(&item).map(|item| *into = item))?;
        Some(all)
    }
}
