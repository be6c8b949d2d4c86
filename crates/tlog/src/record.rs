//! Rust types that can be logged.

use crate::code::{Input, Sink, Slice};
use crate::error::{DecodeError, Flaw};
use crate::schema::{Type, Width};
use std::borrow::Cow;

/// A type with a schema: it can be written to a log and read back.
///
/// Derive it for structs (an object of their fields) and for enums without data (an enum). A type made of numbers,
/// enums and arrays of them encodes without allocating, into a [`Slice`](crate::Slice) for example.
pub trait Record: Sized {
    /// How many bytes it has, if that is always the same and it can be packed with what stands beside it.
    const WIDTH: Option<usize> = None;

    /// What its bytes mean.
    fn schema() -> Type;

    /// Appends its bytes.
    fn encode(&self, out: &mut impl Sink);

    /// Writes its bytes, where it has a [`Record::WIDTH`]; `out` has that many.
    #[inline]
    fn pack(&self, out: &mut [u8]) {
        self.encode(&mut Slice::new(out));
    }

    /// Reads it from the front of `input`.
    ///
    /// # Errors
    /// When the bytes are too short or are no such value.
    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError>;

    /// Its bytes.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }
}

/// The bytes of fields that stand side by side; `None` if one of them may have more or fewer.
#[doc(hidden)]
pub const fn width_of(fields: &[Option<usize>]) -> Option<usize> {
    let (mut sum, mut at) = (0, 0);
    while at < fields.len() {
        match fields[at] {
            Some(width) => sum += width,
            None => return None,
        }
        at += 1;
    }
    Some(sum)
}

/// The bytes of those that always have as many.
#[doc(hidden)]
pub const fn packed(fields: &[Option<usize>]) -> usize {
    let (mut sum, mut at) = (0, 0);
    while at < fields.len() {
        if let Some(width) = fields[at] {
            sum += width;
        }
        at += 1;
    }
    sum
}

macro_rules! plain {
    ($($rust:ty => $ty:expr;)*) => {$(
        impl Record for $rust {
            const WIDTH: Option<usize> = Some(size_of::<$rust>());

            fn schema() -> Type {
                $ty
            }

            #[inline]
            fn encode(&self, out: &mut impl Sink) {
                out.put(&self.to_le_bytes());
            }

            #[inline(always)]
            fn pack(&self, out: &mut [u8]) {
                // A store, where a copy of a slice would be a call.
                if let Some(out) = out.first_chunk_mut() {
                    *out = self.to_le_bytes();
                }
            }

            fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
                input.array().map(Self::from_le_bytes)
            }
        }
    )*};
}

plain! {
    i8 => Type::Int(Width::One);
    i16 => Type::Int(Width::Two);
    i32 => Type::Int(Width::Four);
    i64 => Type::Int(Width::Eight);
    u8 => Type::Uint(Width::One);
    u16 => Type::Uint(Width::Two);
    u32 => Type::Uint(Width::Four);
    u64 => Type::Uint(Width::Eight);
    f32 => Type::Float32;
    f64 => Type::Float64;
}

impl Record for () {
    fn schema() -> Type {
        Type::Null
    }

    fn encode(&self, _: &mut impl Sink) {}

    fn decode(_: &mut Input<'_>) -> Result<Self, DecodeError> {
        Ok(())
    }
}

impl Record for bool {
    const WIDTH: Option<usize> = Some(1);

    fn schema() -> Type {
        Type::Bool
    }

    #[inline]
    fn encode(&self, out: &mut impl Sink) {
        out.put(&[u8::from(*self)]);
    }

    #[inline(always)]
    fn pack(&self, out: &mut [u8]) {
        out[0] = u8::from(*self);
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        Ok(input.byte()? != 0)
    }
}

impl Record for String {
    fn schema() -> Type {
        Type::String
    }

    fn encode(&self, out: &mut impl Sink) {
        out.counted(self.as_bytes());
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        let start = *input;
        let bytes = input.counted()?.to_vec();
        String::from_utf8(bytes).map_err(|_| start.error(Flaw::Utf8))
    }
}

/// Borrowed where it is written, owned where it is read.
impl Record for Cow<'_, str> {
    fn schema() -> Type {
        Type::String
    }

    fn encode(&self, out: &mut impl Sink) {
        out.counted(self.as_bytes());
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        String::decode(input).map(Cow::Owned)
    }
}

impl<T: Record> Record for Option<T> {
    fn schema() -> Type {
        Type::optional(T::schema())
    }

    fn encode(&self, out: &mut impl Sink) {
        out.put(&[u8::from(self.is_some())]);
        if let Some(value) = self {
            value.encode(out);
        }
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        let start = *input;
        match input.varuint()? {
            0 => Ok(None),
            1 => T::decode(input).map(Some),
            index => Err(start.error(Flaw::UnionIndex { index, members: 2 })),
        }
    }
}

impl<T: Record> Record for Vec<T> {
    fn schema() -> Type {
        Type::Array(Box::new(T::schema()))
    }

    fn encode(&self, out: &mut impl Sink) {
        out.varuint(self.len() as u64);
        self.iter().for_each(|item| item.encode(out));
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        let mut items = Vec::new();
        for _ in 0..crate::value::count(&T::schema(), 0, input)? {
            items.push(T::decode(input)?);
        }
        Ok(items)
    }
}

impl<T: Record, const N: usize> Record for [T; N] {
    const WIDTH: Option<usize> = match T::WIDTH {
        Some(width) => Some(N * width),
        None => None,
    };

    fn schema() -> Type {
        Type::FixedArray(N as u64, Box::new(T::schema()))
    }

    #[inline]
    fn encode(&self, out: &mut impl Sink) {
        self.iter().for_each(|item| item.encode(out));
    }

    #[inline(always)]
    fn pack(&self, out: &mut [u8]) {
        let width = T::WIDTH.unwrap_or(1);
        self.iter().zip(out.chunks_exact_mut(width)).for_each(|(item, out)| item.pack(out));
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        let start = *input;
        let items = (0..N).map(|_| T::decode(input)).collect::<Result<Vec<_>, _>>()?;
        items.try_into().map_err(|_| start.error(Flaw::Value("array")))
    }
}

/// A byte string. (A `Vec<u8>` is an array of integers.)
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Record for Bytes {
    fn schema() -> Type {
        Type::Bytes
    }

    fn encode(&self, out: &mut impl Sink) {
        out.counted(&self.0);
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        Ok(Self(input.counted()?.to_vec()))
    }
}

macro_rules! micros {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name {
            /// Microseconds.
            pub us: i64,
        }

        impl Record for $name {
            fn schema() -> Type {
                Type::$name
            }

            fn encode(&self, out: &mut impl Sink) {
                self.us.encode(out);
            }

            fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
                Ok(Self { us: i64::decode(input)? })
            }
        }
    )*};
}

micros! {
    /// A time: microseconds since 1970-01-01T00:00:00Z.
    Timestamp;
    /// A span of time.
    Duration;
}
