//! Structures whose fields can be listed, read and set by name: settings and telemetry.
//!
//! One list of fields per structure yields its console text, its schema and its binary form.

/// A structure with named fields in a fixed order.
pub trait Record {
    /// Shows every field to `each`, in order.
    fn fields(&mut self, each: &mut dyn FnMut(&'static str, Field<'_>));
}

/// One field, by its type on the wire.
pub enum Field<'a> {
    /// One byte, 0 or 1.
    Bool(&'a mut bool),
    /// An integer of this many bytes.
    Unsigned(u8, &'a mut dyn Number),
    /// An integer of this many bytes.
    Signed(u8, &'a mut dyn Number),
    /// A binary32.
    Float(&'a mut f32),
    /// A number with names; those without a name are sent as numbers all the same.
    Enum(&'a mut u8, &'static [&'static str]),
    /// An integer that may be missing.
    MaybeInt(&'a mut Option<i64>),
    /// A float that may be missing.
    MaybeFloat(&'a mut Option<f32>),
    /// A structure.
    Object(&'a mut dyn Record),
    /// As many of one type, always the same number.
    List(&'a mut dyn List),
}

/// An integer seen through the widest one.
pub trait Number {
    /// Its value.
    fn number(&self) -> i64;
    /// Cuts the number down to the integer's width, as a C cast does.
    fn put(&mut self, number: i64);
}

/// A fixed number of fields of one type.
pub trait List {
    /// How many.
    fn count(&self) -> usize;
    /// One of them; `index` is less than [`List::count`].
    fn item(&mut self, index: usize) -> Field<'_>;
}

/// A type that can be a field.
pub trait AsField {
    /// Itself as a field.
    fn field(&mut self) -> Field<'_>;
}

macro_rules! integers {
    ($($kind:ident: $($integer:ty)*;)*) => {$($(
        impl Number for $integer {
            fn number(&self) -> i64 {
                *self as i64
            }
            fn put(&mut self, number: i64) {
                *self = number as Self;
            }
        }
        impl AsField for $integer {
            fn field(&mut self) -> Field<'_> {
                Field::$kind(size_of::<Self>() as u8, self)
            }
        }
    )*)*};
}

integers! {
    Unsigned: u8 u16 u32 u64;
    Signed: i8 i16 i32 i64;
}

impl AsField for bool {
    fn field(&mut self) -> Field<'_> {
        Field::Bool(self)
    }
}

impl AsField for f32 {
    fn field(&mut self) -> Field<'_> {
        Field::Float(self)
    }
}

impl AsField for Option<i64> {
    fn field(&mut self) -> Field<'_> {
        Field::MaybeInt(self)
    }
}

impl AsField for Option<f32> {
    fn field(&mut self) -> Field<'_> {
        Field::MaybeFloat(self)
    }
}

impl<T: AsField, const N: usize> List for [T; N] {
    fn count(&self) -> usize {
        N
    }

    fn item(&mut self, index: usize) -> Field<'_> {
        self[index].field()
    }
}

impl<T: AsField, const N: usize> AsField for [T; N] {
    fn field(&mut self) -> Field<'_> {
        Field::List(self)
    }
}

/// Defines a structure with defaults whose fields are a [`Record`]; names are as the servo spells them.
macro_rules! record {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty = $default:expr),* $(,)? }) => {
        $(#[$doc])*
        #[allow(missing_docs, non_snake_case)]
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(pub $field: $type),*
        }
        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }
        impl $crate::moteus::record::Record for $name {
            fn fields(&mut self, each: &mut dyn FnMut(&'static str, $crate::moteus::record::Field<'_>)) {
                $(each($crate::moteus::record::plain(stringify!($field)), $crate::moteus::record::AsField::field(&mut self.$field));)*
            }
        }
        impl $crate::moteus::record::AsField for $name {
            fn field(&mut self) -> $crate::moteus::record::Field<'_> {
                $crate::moteus::record::Field::Object(self)
            }
        }
    };
}
pub(crate) use record;

/// A field's name without Rust's mark for a name that is also a keyword.
pub(crate) fn plain(name: &'static str) -> &'static str {
    name.strip_prefix("r#").unwrap_or(name)
}

/// Calls `act` with the field at a dotted path such as `pid_position.kp` or `uuid.3`; false if there is none.
pub fn at(record: &mut dyn Record, path: &str, act: &mut dyn FnMut(Field<'_>)) -> bool {
    let (head, rest) = split(path);
    let mut found = false;
    record.fields(&mut |name, field| {
        if name == head {
            found = descend(field, rest, act);
        }
    });
    found
}

fn descend(field: Field<'_>, path: &str, act: &mut dyn FnMut(Field<'_>)) -> bool {
    match field {
        Field::Object(object) if !path.is_empty() => at(object, path, act),
        Field::List(list) if !path.is_empty() => {
            let (head, rest) = split(path);
            match head.parse::<usize>() {
                Ok(index) if index < list.count() => descend(list.item(index), rest, act),
                _ => false,
            }
        }
        Field::Object(_) | Field::List(_) => false,
        leaf => {
            act(leaf);
            path.is_empty()
        }
    }
}

fn split(path: &str) -> (&str, &str) {
    path.split_once('.').unwrap_or((path, ""))
}
