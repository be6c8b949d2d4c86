//! Schemas: what a record's bytes mean.

use crate::code::{Input, Sink};
use crate::error::{DecodeError, Flaw};

/// How deep types may nest.
pub const MAX_DEPTH: usize = 32;
/// How many types one schema may consist of.
pub const MAX_NODES: usize = 65_536;
/// How many values one byte of payload may stand for. A schema beyond it (a fixed array of a billion nulls) would
/// turn a few bytes into endless work.
pub const MAX_IDLE: u64 = 4_096;

/// What a value's bytes mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Nothing; no bytes.
    Null,
    /// One byte, anything but 0 is true.
    Bool,
    /// A signed integer of fixed width.
    Int(Width),
    /// An unsigned integer of fixed width.
    Uint(Width),
    /// A signed integer of variable length. The original Python reader cannot read it.
    VarInt,
    /// An unsigned integer of variable length.
    VarUint,
    /// IEEE-754 binary32.
    Float32,
    /// IEEE-754 binary64.
    Float64,
    /// A byte string.
    Bytes,
    /// A text.
    String,
    /// Named fields, one after another.
    Object(Vec<Field>),
    /// An integer whose values have names.
    Enum {
        /// The integer's type.
        of: Box<Type>,
        /// Its named values.
        names: Vec<(i128, String)>,
    },
    /// Any number of items.
    Array(Box<Type>),
    /// A number of items that never changes.
    FixedArray(u64, Box<Type>),
    /// Any number of values under texts.
    Map(Box<Type>),
    /// One of several types.
    Union(Vec<Type>),
    /// Microseconds since 1970-01-01T00:00:00Z.
    Timestamp,
    /// Microseconds.
    Duration,
}

/// Bytes of a fixed-width integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 8 bits.
    One = 1,
    /// 16 bits.
    Two = 2,
    /// 32 bits.
    Four = 4,
    /// 64 bits.
    Eight = 8,
}

/// One field of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name. The original Python reader needs an identifier without a leading underscore.
    pub name: String,
    /// Other names, and the [unit](Self::unit). No reader looks for a field by them.
    pub aliases: Vec<String>,
    /// Its type.
    pub ty: Type,
    /// The encoded default value, if the schema has one. No reader applies it.
    pub default: Option<Vec<u8>>,
}

impl Field {
    /// A field without aliases or default.
    pub fn new(name: impl Into<String>, ty: Type) -> Self {
        Self { name: name.into(), aliases: Vec::new(), ty, default: None }
    }
}

impl Type {
    /// An object of these fields.
    pub fn object<N: Into<String>>(fields: impl IntoIterator<Item = (N, Type)>) -> Self {
        Self::Object(fields.into_iter().map(|(name, ty)| Field::new(name, ty)).collect())
    }

    /// A value that may be absent: a union of null and `ty`.
    pub fn optional(ty: Type) -> Self {
        Self::Union(vec![Self::Null, ty])
    }

    /// An enum over a variable-length unsigned integer, the form every reader knows.
    pub fn enumeration<N: Into<String>>(names: impl IntoIterator<Item = (u64, N)>) -> Self {
        let names = names.into_iter().map(|(value, name)| (i128::from(value), name.into())).collect();
        Self::Enum { of: Box::new(Self::VarUint), names }
    }

    /// Whether samples of this type are batches compressed by zstd: a [`Reader`](crate::Reader) gives what is in them.
    pub fn is_batch(&self) -> bool {
        crate::batch::inner(self).is_some()
    }

    /// Reads a schema, which is all of `bytes`.
    ///
    /// # Errors
    /// Malformed bytes, bytes behind the schema, unknown types or flags, or a schema beyond [`MAX_DEPTH`], [`MAX_NODES`] or [`MAX_IDLE`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        match Self::decode_ignoring_flags(bytes)? {
            (ty, None) => Ok(ty),
            (_, Some(flags)) => Err(flags),
        }
    }

    /// As [`decode`](Self::decode), but unknown flags and bytes behind the schema are ignored, as the original readers
    /// do. The first of them is returned beside the type: a newer program wrote the schema, or it is damaged.
    ///
    /// # Errors
    /// As [`decode`](Self::decode), except for flags and bytes behind the schema.
    pub(crate) fn decode_ignoring_flags(bytes: &[u8]) -> Result<(Self, Option<DecodeError>), DecodeError> {
        let mut parser = Parser { input: Input::new(bytes), nodes: 0, ignored: None };
        let ty = parser.ty(0)?;
        ty.check_idle().map_err(|flaw| DecodeError { at: 0, flaw })?;
        parser.end();
        Ok((ty, parser.ignored))
    }

    /// Appends the schema's bytes.
    pub fn encode(&self, out: &mut impl Sink) {
        out.varuint(self.code());
        match self {
            Self::Int(width) | Self::Uint(width) => out.put(&[*width as u8]),
            Self::Object(fields) => encode_fields(fields, out),
            Self::Enum { of, names } => {
                of.encode(out);
                out.varuint(names.len() as u64);
                for (value, name) in names {
                    encode_integer(of, *value, out);
                    out.counted(name.as_bytes());
                }
            }
            Self::Array(item) | Self::Map(item) => item.encode(out),
            Self::FixedArray(size, item) => {
                out.varuint(*size);
                item.encode(out);
            }
            Self::Union(members) => {
                members.iter().for_each(|member| member.encode(out));
                out.varuint(FINAL);
            }
            _ => {}
        }
    }

    /// The schema's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// How many bytes every value of this type has, if they all have the same number.
    pub fn fixed_size(&self) -> Option<usize> {
        match self {
            Self::Null => Some(0),
            Self::Bool => Some(1),
            Self::Int(width) | Self::Uint(width) => Some(*width as usize),
            Self::Float32 => Some(4),
            Self::Float64 | Self::Timestamp | Self::Duration => Some(8),
            Self::Object(fields) => {
                fields.iter().try_fold(0usize, |sum, field| sum.checked_add(field.ty.fixed_size()?))
            }
            Self::Enum { of, .. } => of.fixed_size(),
            Self::FixedArray(size, item) => item.fixed_size()?.checked_mul(usize::try_from(*size).ok()?),
            _ => None,
        }
    }

    /// The least number of bytes a value of this type has.
    pub(crate) fn min_size(&self) -> u64 {
        match self {
            Self::Object(fields) => {
                fields.iter().fold(0, |sum, field| field.ty.min_size().saturating_add(sum))
            }
            Self::FixedArray(0, _) => 0,
            Self::FixedArray(size, item) => item.min_size().saturating_mul(*size),
            Self::Enum { of, .. } => of.min_size(),
            other => other.fixed_size().map_or(1, |size| size as u64),
        }
    }

    /// The most values a value of this type can hold that cost no byte.
    pub(crate) fn idle(&self) -> u64 {
        match self {
            Self::Null => 1,
            Self::Object(fields) => {
                fields.iter().fold(u64::from(fields.is_empty()), |sum, f| sum.saturating_add(f.ty.idle()))
            }
            Self::FixedArray(0, _) => 1,
            Self::FixedArray(size, item) => item.idle().saturating_mul(*size),
            Self::Array(item) | Self::Map(item) => item.idle(),
            Self::Union(members) => members.iter().map(Self::idle).max().unwrap_or(0),
            Self::Enum { of, .. } => of.idle(),
            _ => 0,
        }
    }

    fn check_idle(&self) -> Result<(), Flaw> {
        match self.idle() {
            value if value > MAX_IDLE => {
                Err(Flaw::Limit { what: "values without bytes in one schema", value, limit: MAX_IDLE })
            }
            _ => Ok(()),
        }
    }

    const fn code(&self) -> u64 {
        match self {
            Self::Null => 1,
            Self::Bool => 2,
            Self::Int(_) => 3,
            Self::Uint(_) => 4,
            Self::VarInt => 5,
            Self::VarUint => 6,
            Self::Float32 => 7,
            Self::Float64 => 8,
            Self::Bytes => 9,
            Self::String => 10,
            Self::Object(_) => 16,
            Self::Enum { .. } => 17,
            Self::Array(_) => 18,
            Self::FixedArray(..) => 19,
            Self::Map(_) => 20,
            Self::Union(_) => 21,
            Self::Timestamp => 22,
            Self::Duration => 23,
        }
    }
}

/// The type code that ends a list of fields or members.
const FINAL: u64 = 0;

fn encode_fields(fields: &[Field], out: &mut impl Sink) {
    out.varuint(0);
    for field in fields {
        out.varuint(0);
        out.counted(field.name.as_bytes());
        out.varuint(field.aliases.len() as u64);
        field.aliases.iter().for_each(|alias| out.counted(alias.as_bytes()));
        field.ty.encode(out);
        out.put(&[u8::from(field.default.is_some())]);
        out.put(field.default.as_deref().unwrap_or_default());
    }
    out.put(&[0; 5]);
}

fn encode_integer(ty: &Type, value: i128, out: &mut impl Sink) {
    match ty {
        Type::VarInt => out.varint(value as i64),
        Type::VarUint => out.varuint(value as u64),
        Type::Int(width) | Type::Uint(width) => out.put(&value.to_le_bytes()[..*width as usize]),
        _ => {}
    }
}

/// Reads one integer of the given type.
pub(crate) fn decode_integer(ty: &Type, input: &mut Input<'_>) -> Result<i128, DecodeError> {
    match ty {
        Type::VarInt => input.varint().map(i128::from),
        Type::VarUint => input.varuint().map(i128::from),
        Type::Uint(width) => unsigned(*width, input).map(i128::from),
        Type::Int(width) => signed(*width, input).map(i128::from),
        _ => Err(input.error(Flaw::EnumChild)),
    }
}

pub(crate) fn unsigned(width: Width, input: &mut Input<'_>) -> Result<u64, DecodeError> {
    let mut bytes = [0; 8];
    bytes[..width as usize].copy_from_slice(input.take(width as usize)?);
    Ok(u64::from_le_bytes(bytes))
}

pub(crate) fn signed(width: Width, input: &mut Input<'_>) -> Result<i64, DecodeError> {
    let unused = 64 - 8 * width as u32;
    Ok((unsigned(width, input)? << unused) as i64 >> unused)
}

struct Parser<'a> {
    input: Input<'a>,
    nodes: usize,
    /// The first unknown flags.
    ignored: Option<DecodeError>,
}

impl Parser<'_> {
    fn ty(&mut self, depth: usize) -> Result<Type, DecodeError> {
        let start = self.input;
        match self.member(depth)? {
            Some(ty) => Ok(ty),
            None => Err(start.error(Flaw::TypeCode(FINAL))),
        }
    }

    /// One type, or `None` for the code that ends a list.
    fn member(&mut self, depth: usize) -> Result<Option<Type>, DecodeError> {
        let start = self.input;
        let within = |what, value: usize, limit: usize| match value > limit {
            true => Err(start.error(Flaw::Limit { what, value: value as u64, limit: limit as u64 })),
            false => Ok(()),
        };
        self.nodes += 1;
        within("types in one schema", self.nodes, MAX_NODES)?;
        within("nested types", depth, MAX_DEPTH)?;
        Ok(Some(match self.input.varuint()? {
            FINAL => return Ok(None),
            1 => Type::Null,
            2 => Type::Bool,
            3 => Type::Int(self.width()?),
            4 => Type::Uint(self.width()?),
            5 => Type::VarInt,
            6 => Type::VarUint,
            7 => Type::Float32,
            8 => Type::Float64,
            9 => Type::Bytes,
            10 => Type::String,
            16 => Type::Object(self.fields(depth + 1)?),
            17 => self.enumeration(depth + 1)?,
            18 => Type::Array(Box::new(self.ty(depth + 1)?)),
            19 => Type::FixedArray(self.input.varuint()?, Box::new(self.ty(depth + 1)?)),
            20 => Type::Map(Box::new(self.ty(depth + 1)?)),
            21 => Type::Union(self.members(depth + 1)?),
            22 => Type::Timestamp,
            23 => Type::Duration,
            code => return Err(start.error(Flaw::TypeCode(code))),
        }))
    }

    fn width(&mut self) -> Result<Width, DecodeError> {
        let start = self.input;
        match self.input.byte()? {
            1 => Ok(Width::One),
            2 => Ok(Width::Two),
            4 => Ok(Width::Four),
            8 => Ok(Width::Eight),
            size => Err(start.error(Flaw::IntegerSize(size))),
        }
    }

    fn fields(&mut self, depth: usize) -> Result<Vec<Field>, DecodeError> {
        self.flags("object")?;
        let mut fields = Vec::new();
        while let Some(field) = self.field(depth)? {
            fields.push(field);
        }
        Ok(fields)
    }

    fn field(&mut self, depth: usize) -> Result<Option<Field>, DecodeError> {
        self.flags("field")?;
        let name = self.text()?;
        let aliases = self.aliases()?;
        let Some(ty) = self.member(depth)? else {
            self.zero()?;
            return Ok(None);
        };
        let default = match self.input.byte()? {
            0 => None,
            _ => Some(self.default_of(&ty)?),
        };
        Ok(Some(Field { name, aliases, ty, default }))
    }

    fn default_of(&mut self, ty: &Type) -> Result<Vec<u8>, DecodeError> {
        ty.check_idle().map_err(|flaw| self.input.error(flaw))?;
        let start = self.input.position();
        crate::value::skip(ty, &mut self.input)?;
        Ok(self.input.since(start).to_vec())
    }

    fn aliases(&mut self) -> Result<Vec<String>, DecodeError> {
        (0..self.input.varuint()?).map(|_| self.counted_node().and_then(|()| self.text())).collect()
    }

    fn enumeration(&mut self, depth: usize) -> Result<Type, DecodeError> {
        let start = self.input;
        let of = self.ty(depth)?;
        if !matches!(of, Type::Int(_) | Type::Uint(_) | Type::VarInt | Type::VarUint) {
            return Err(start.error(Flaw::EnumChild));
        }
        let mut names = Vec::new();
        for _ in 0..self.input.varuint()? {
            self.counted_node()?;
            names.push((decode_integer(&of, &mut self.input)?, self.text()?));
        }
        Ok(Type::Enum { of: Box::new(of), names })
    }

    fn members(&mut self, depth: usize) -> Result<Vec<Type>, DecodeError> {
        let mut members = Vec::new();
        while let Some(member) = self.member(depth)? {
            members.push(member);
        }
        Ok(members)
    }

    /// Names cost memory like types, so they count against the same limit.
    fn counted_node(&mut self) -> Result<(), DecodeError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let (value, limit) = (self.nodes as u64, MAX_NODES as u64);
            return Err(self.input.error(Flaw::Limit {
                what: "types and names in one schema",
                value,
                limit,
            }));
        }
        Ok(())
    }

    fn text(&mut self) -> Result<String, DecodeError> {
        let start = self.input;
        let bytes = self.input.counted()?;
        Ok(std::str::from_utf8(bytes).map_err(|_| start.error(Flaw::Utf8))?.to_owned())
    }

    /// The byte that ends an object: 0. Anything else there belongs to what follows a schema that lost a byte.
    fn zero(&mut self) -> Result<(), DecodeError> {
        let start = self.input;
        if self.input.byte()? != 0 {
            self.ignored.get_or_insert(start.error(Flaw::Unsound("end of an object")));
        }
        Ok(())
    }

    /// Nothing may follow.
    fn end(&mut self) {
        if !self.input.is_empty() {
            let left = self.input.rest().len() as u64;
            self.ignored.get_or_insert(self.input.error(Flaw::Trailing { left }));
        }
    }

    fn flags(&mut self, what: &'static str) -> Result<(), DecodeError> {
        let start = self.input;
        let flags = self.input.varuint()?;
        if flags != 0 {
            self.ignored.get_or_insert(start.error(Flaw::Flags { what, flags }));
        }
        Ok(())
    }
}
