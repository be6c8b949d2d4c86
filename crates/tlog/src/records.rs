//! The records of a log, from its schemas.

use crate::batch;
use crate::block::SchemaBody;
use crate::error::{DecodeError, Error, Flaw};
use crate::record::Record;
use crate::schema::Type;
use std::collections::{HashMap, HashSet};

/// How many bytes of schemas one log may have; more would be an attempt to fill the memory.
pub const MAX_SCHEMA_BYTES: u64 = 4 << 20;

/// One record of a log.
#[derive(Debug)]
pub struct RecordInfo {
    name: String,
    identifier: u64,
    /// As it lies in the file.
    stored: Box<[u8]>,
    schema: Box<[u8]>,
    ty: Type,
    batched: bool,
    position: u64,
    last: Option<u64>,
    unknown_flags: Option<DecodeError>,
}

impl RecordInfo {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number that stands for it in the file.
    pub fn identifier(&self) -> u64 {
        self.identifier
    }

    /// What its payloads mean.
    pub fn ty(&self) -> &Type {
        &self.ty
    }

    /// The bytes of its schema.
    pub fn schema(&self) -> &[u8] {
        &self.schema
    }

    /// Whether its samples are kept in batches, compressed by zstd.
    pub fn is_zstd(&self) -> bool {
        self.batched
    }

    /// Where its schema lies.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Where its last sample lies: known with an index or after a survey.
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// Whether payloads of this record are values of `T`: the same types and field names; defaults may differ.
    pub fn holds<T: Record>(&self) -> bool {
        alike(&self.ty, &T::schema())
    }
}

/// All records seen so far.
#[derive(Debug, Default)]
pub(crate) struct Records {
    all: Vec<RecordInfo>,
    by_identifier: HashMap<u64, usize>,
    by_position: HashMap<u64, usize>,
    bytes: u64,
    batches: bool,
    selected: Option<HashSet<String>>,
}

impl Records {
    /// Takes in the schema block at `position`. A record whose schema changes has the new one from there on.
    ///
    /// Unknown flags are an error, but the record is known all the same: one changed byte must not cost its samples. So is
    /// an identifier that is not the one its record has by the index, which is believed.
    pub fn learn(&mut self, position: u64, body: SchemaBody<'_>) -> Result<(), Error> {
        let index = match self.known(position, &body) {
            Some(index) => index,
            None => self.add(position, &body)?,
        };
        let record = &self.all[index];
        self.by_identifier.insert(record.identifier, index);
        let other = (record.identifier != body.identifier)
            .then_some(DecodeError { at: 0, flaw: Flaw::Unsound("identifier: the index has another") });
        match record.unknown_flags.or(body.unknown_flags).or(other) {
            None => Ok(()),
            Some(source) => Err(Error::Block { offset: position, what: "schema", source }),
        }
    }

    pub fn select(&mut self, names: HashSet<String>) {
        self.selected = Some(names);
    }

    pub fn note_last(&mut self, identifier: u64, position: u64) {
        if let Some(&index) = self.by_identifier.get(&identifier) {
            self.all[index].last = Some(position);
        }
    }

    pub fn all(&self) -> &[RecordInfo] {
        &self.all
    }

    pub fn get(&self, identifier: u64) -> Option<&RecordInfo> {
        self.by_identifier.get(&identifier).map(|&index| &self.all[index])
    }

    pub fn named(&self, name: &str) -> Result<&RecordInfo, Error> {
        let newest = self.all.iter().rev().find(|record| record.name == name);
        newest.ok_or_else(|| Error::NoRecord { name: name.to_owned(), known: self.names() })
    }

    pub fn has_batches(&self) -> bool {
        self.batches
    }

    pub fn is_choosy(&self) -> bool {
        self.selected.is_some()
    }

    pub fn is_selected(&self, identifier: u64) -> bool {
        match (&self.selected, self.get(identifier)) {
            (Some(selected), Some(record)) => selected.contains(&record.name),
            _ => self.selected.is_none(),
        }
    }

    fn known(&self, position: u64, body: &SchemaBody<'_>) -> Option<usize> {
        let same = |index: &&usize| {
            let record = &self.all[**index];
            record.name == body.name && *record.stored == *body.schema
        };
        self.by_position.get(&position).or(self.by_identifier.get(&body.identifier).filter(same)).copied()
    }

    fn add(&mut self, position: u64, body: &SchemaBody<'_>) -> Result<usize, Error> {
        self.bytes += (body.schema.len() + body.name.len() + 64) as u64;
        if self.bytes > MAX_SCHEMA_BYTES {
            let (size, limit) = (self.bytes, MAX_SCHEMA_BYTES);
            return Err(Error::TooLarge { offset: position, what: "schemas", size, limit });
        }
        let wrong = |source| Error::Block { offset: position, what: "schema", source };
        let (outer, mut unknown_flags) = Type::decode_ignoring_flags(body.schema).map_err(wrong)?;
        // A field that only looks like a batch is an ordinary field.
        let inner = batch::inner(&outer).and_then(|schema| {
            let (ty, inside) = Type::decode_ignoring_flags(schema).ok()?;
            unknown_flags = unknown_flags.or(inside);
            Some((schema, ty))
        });
        let batched = inner.is_some();
        let (stored, ty) = inner.map_or((body.schema, None), |(schema, ty)| (schema, Some(ty)));
        // Without unknown flags, so that a copy of the record is sound.
        let clean = |ty: &Type| if unknown_flags.is_some() { ty.to_bytes().into() } else { stored.into() };
        let schema = clean(ty.as_ref().unwrap_or(&outer));
        let ty = ty.unwrap_or(outer);
        let record = RecordInfo {
            name: body.name.to_owned(),
            identifier: body.identifier,
            stored: body.schema.into(),
            schema,
            ty,
            batched,
            position,
            last: None,
            unknown_flags,
        };
        self.batches |= batched;
        self.by_position.insert(position, self.all.len());
        self.all.push(record);
        Ok(self.all.len() - 1)
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.all.iter().map(|record| record.name.escape_debug().to_string()).collect();
        match names.is_empty() {
            true => "none".into(),
            false => names.join(", "),
        }
    }
}

/// Whether two types have the same encoding and the same names.
fn alike(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Object(a), Type::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.name == b.name && alike(&a.ty, &b.ty))
        }
        (Type::Array(a), Type::Array(b)) | (Type::Map(a), Type::Map(b)) => alike(a, b),
        (Type::FixedArray(n, a), Type::FixedArray(m, b)) => n == m && alike(a, b),
        (Type::Union(a), Type::Union(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (a, b) => a == b,
    }
}
