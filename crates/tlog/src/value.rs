//! Reading values by their schema, without copying.

use crate::code::Input;
use crate::error::{DecodeError, Flaw};
use crate::schema::{Field, MAX_IDLE, Type, decode_integer, signed, unsigned};

/// One value, read in place: texts, bytes and everything composite borrow the payload.
///
/// A union reads as the member it holds, so an absent optional value is [`Value::Null`].
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// Nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// A signed integer of any width.
    Int(i64),
    /// An unsigned integer of any width.
    Uint(u64),
    /// A binary32 number.
    Float32(f32),
    /// A binary64 number.
    Float64(f64),
    /// A byte string, or a text that is not UTF-8.
    Bytes(&'a [u8]),
    /// A text.
    String(&'a str),
    /// Named fields.
    Object(Object<'a>),
    /// An integer and its name.
    Enum(Symbol<'a>),
    /// Items of one type.
    Array(Items<'a>),
    /// Values of one type under texts.
    Map(Entries<'a>),
    /// Microseconds since 1970-01-01T00:00:00Z; `i64::MAX` and `i64::MIN` stand for ±infinity and
    /// `i64::MIN + 1` for "no time".
    Timestamp(i64),
    /// Microseconds, with the same special values.
    Duration(i64),
}

/// An enum's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// The number.
    pub value: i128,
    /// Its name, if the schema has one.
    pub name: Option<&'a str>,
}

impl<'a> Value<'a> {
    /// Reads the payload of a record whose schema is `ty`; bytes after the value are ignored, as every reader does.
    ///
    /// # Errors
    /// When the payload does not fit the schema. Everything inside the value has been checked then, so the
    /// iterators of composite values cannot fail later.
    pub fn read(ty: &'a Type, payload: &'a [u8]) -> Result<Self, DecodeError> {
        Self::next(ty, &mut Input::new(payload))
    }

    /// Reads one value from the front of `input`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn next(ty: &'a Type, input: &mut Input<'a>) -> Result<Self, DecodeError> {
        Ok(match ty {
            Type::Null => Self::Null,
            Type::Bool => Self::Bool(input.byte()? != 0),
            Type::Int(width) => Self::Int(signed(*width, input)?),
            Type::Uint(width) => Self::Uint(unsigned(*width, input)?),
            Type::VarInt => Self::Int(input.varint()?),
            Type::VarUint => Self::Uint(input.varuint()?),
            Type::Float32 => Self::Float32(f32::from_le_bytes(input.array()?)),
            Type::Float64 => Self::Float64(f64::from_le_bytes(input.array()?)),
            Type::Bytes => Self::Bytes(input.counted()?),
            Type::String => text(input.counted()?),
            Type::Object(fields) => Self::Object(Object { fields, rest: extent(ty, input)? }),
            Type::Enum { of, names } => Self::Enum(symbol(decode_integer(of, input)?, names)),
            Type::Array(item) => {
                let bytes = extent(ty, input)?;
                Self::Array(Items::counted(item, bytes)?)
            }
            Type::FixedArray(left, item) => {
                Self::Array(Items { item, left: *left, rest: Input::new(extent(ty, input)?) })
            }
            Type::Map(item) => Self::Map(Entries(Items::counted(item, extent(ty, input)?)?)),
            Type::Union(members) => Self::next(member(members, input)?, input)?,
            Type::Timestamp => Self::Timestamp(i64::from_le_bytes(input.array()?)),
            Type::Duration => Self::Duration(i64::from_le_bytes(input.array()?)),
        })
    }

    /// The value as a number: integers, floats, truth values, enums, and times in seconds.
    pub fn number(&self) -> Option<f64> {
        Some(match *self {
            Self::Bool(value) => f64::from(u8::from(value)),
            Self::Int(value) => value as f64,
            Self::Uint(value) => value as f64,
            Self::Float32(value) => f64::from(value),
            Self::Float64(value) => value,
            Self::Enum(symbol) => symbol.value as f64,
            Self::Timestamp(us) | Self::Duration(us) => us as f64 / 1e6,
            _ => return None,
        })
    }

    /// The value at a path such as `front_left_hip.position` or `joints.3.torque`.
    pub fn at(&self, path: &str) -> Option<Value<'a>> {
        path.split('.').try_fold(*self, |value, step| match value {
            Self::Object(object) => object.field(step),
            Self::Array(mut items) => items.nth(step.parse().ok()?),
            Self::Map(mut entries) => entries.find(|(key, _)| *key == step).map(|(_, value)| value),
            _ => None,
        })
    }
}

/// Values are equal when they print alike; NaN equals NaN.
impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Uint(a), Self::Uint(b)) => a == b,
            (Self::Float32(a), Self::Float32(b)) => a.to_bits() == b.to_bits(),
            (Self::Float64(a), Self::Float64(b)) => a.to_bits() == b.to_bits(),
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Object(a), Self::Object(b)) => a.eq(b),
            (Self::Enum(a), Self::Enum(b)) => a == b,
            (Self::Array(a), Self::Array(b)) => a.eq(b),
            (Self::Map(a), Self::Map(b)) => a.eq(b),
            (Self::Timestamp(a), Self::Timestamp(b)) | (Self::Duration(a), Self::Duration(b)) => a == b,
            _ => false,
        }
    }
}

/// The fields of an object, in their order: an iterator of names and values.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    fields: &'a [Field],
    rest: &'a [u8],
}

impl<'a> Object<'a> {
    /// The value of one field.
    pub fn field(&self, name: &str) -> Option<Value<'a>> {
        let mut input = Input::new(self.rest);
        for field in self.fields {
            if field.name == name {
                return Value::next(&field.ty, &mut input).ok();
            }
            skip(&field.ty, &mut input).ok()?;
        }
        None
    }
}

impl<'a> Iterator for Object<'a> {
    type Item = (&'a str, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (field, fields) = self.fields.split_first()?;
        let mut input = Input::new(self.rest);
        let value = Value::next(&field.ty, &mut input).ok()?;
        (self.fields, self.rest) = (fields, input.rest());
        Some((&field.name, value))
    }
}

/// The items of an array.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a> {
    item: &'a Type,
    left: u64,
    rest: Input<'a>,
}

impl<'a> Items<'a> {
    fn counted(item: &'a Type, bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut rest = Input::new(bytes);
        let left = rest.varuint()?;
        Ok(Self { item, left, rest })
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Value::next(self.item, &mut self.rest).ok()
    }
}

/// The entries of a map: an iterator of texts and values.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a>(Items<'a>);

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a str, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.left = self.0.left.checked_sub(1)?;
        let key = std::str::from_utf8(self.0.rest.counted().ok()?).ok()?;
        Some((key, Value::next(self.0.item, &mut self.0.rest).ok()?))
    }
}

/// Steps over one value, checking it.
pub(crate) fn skip(ty: &Type, input: &mut Input<'_>) -> Result<(), DecodeError> {
    match ty {
        Type::VarInt | Type::VarUint => input.varuint().map(|_| ()),
        Type::Bytes | Type::String => input.counted().map(|_| ()),
        Type::Object(fields) => fields.iter().try_for_each(|field| skip(&field.ty, input)),
        Type::Enum { of, .. } => skip(of, input),
        Type::Array(item) => {
            let count = count(item, 0, input)?;
            skip_all(item, count, input)
        }
        Type::FixedArray(size, item) => skip_all(item, *size, input),
        Type::Map(item) => (0..count(item, 1, input)?).try_for_each(|_| {
            let start = *input;
            std::str::from_utf8(input.counted()?).map_err(|_| start.error(Flaw::Utf8))?;
            skip(item, input)
        }),
        Type::Union(members) => skip(member(members, input)?, input),
        scalar => input.take(scalar.fixed_size().unwrap_or(0)).map(|_| ()),
    }
}

fn skip_all(item: &Type, count: u64, input: &mut Input<'_>) -> Result<(), DecodeError> {
    if count == 0 {
        return Ok(());
    }
    match item.fixed_size() {
        Some(size) => {
            let needed = count.saturating_mul(size as u64);
            input.take(usize::try_from(needed).unwrap_or(usize::MAX)).map(|_| ())
        }
        None => (0..count).try_for_each(|_| skip(item, input)),
    }
}

/// Reads a number of items and checks that there can be so many.
pub(crate) fn count(item: &Type, key: u64, input: &mut Input<'_>) -> Result<u64, DecodeError> {
    let start = *input;
    let count = input.varuint()?;
    let left = input.rest().len() as u64;
    match (count, item.min_size() + key) {
        (0, _) => Ok(0),
        (_, 0) => match count.saturating_mul(item.idle().max(1)) {
            value if value > MAX_IDLE => {
                Err(start.error(Flaw::Limit { what: "values without bytes", value, limit: MAX_IDLE }))
            }
            _ => Ok(count),
        },
        (_, size) if count.saturating_mul(size) > left => {
            Err(start.error(Flaw::Short { needed: count.saturating_mul(size), left }))
        }
        _ => Ok(count),
    }
}

fn extent<'a>(ty: &Type, input: &mut Input<'a>) -> Result<&'a [u8], DecodeError> {
    let start = input.position();
    skip(ty, input)?;
    Ok(input.since(start))
}

fn member<'a>(members: &'a [Type], input: &mut Input<'_>) -> Result<&'a Type, DecodeError> {
    let start = *input;
    let index = input.varuint()?;
    let found = usize::try_from(index).ok().and_then(|index| members.get(index));
    found.ok_or_else(|| start.error(Flaw::UnionIndex { index, members: members.len() }))
}

fn symbol(value: i128, names: &[(i128, String)]) -> Symbol<'_> {
    let name = names.iter().find(|(number, _)| *number == value).map(|(_, name)| name.as_str());
    Symbol { value, name }
}

fn text(bytes: &[u8]) -> Value<'_> {
    std::str::from_utf8(bytes).map_or(Value::Bytes(bytes), Value::String)
}
