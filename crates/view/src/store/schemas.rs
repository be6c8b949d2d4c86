//! Which records and signals there are.

use super::columns::{describe, pour, width};
use khz_tlog::{DecodeError, Input, Type, Value};
use std::collections::HashMap;

/// How many signals are kept. A record with which there would be more has none.
pub const MAX_SIGNALS: usize = 4096;
/// How many records, replaced ones included.
const MAX_RECORDS: usize = 512;
/// The record made of `servo` and `command`: by how much each servo is off its command.
const ERROR: &str = "error";

/// One number over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// Its record and the path of its field, such as `servo.hip.position`.
    pub name: String,
    /// Its unit, if the schema has one.
    pub unit: Option<String>,
    /// What its values are.
    pub kind: SignalKind,
    /// Its record was not declared anew with another schema.
    pub is_current: bool,
}

/// What a signal's values are.
#[derive(Clone, Debug, PartialEq)]
pub enum SignalKind {
    /// Numbers.
    Number,
    /// 0 or 1.
    Truth,
    /// Numbers with names.
    Choice(Vec<(f64, String)>),
}

/// The declared records and their signals.
#[derive(Debug, Default)]
pub(super) struct Schemas {
    records: Vec<Record>,
    signals: Vec<Signal>,
    /// Where each signal's numbers are: record and column.
    places: Vec<(usize, usize)>,
    by_name: HashMap<String, usize>,
    errors: Option<Errors>,
}

#[derive(Debug)]
struct Record {
    name: String,
    ty: Type,
    /// Numbers in a row; 0 also if there would be too many.
    width: usize,
    first_signal: usize,
}

/// How the record of errors follows from two others.
#[derive(Debug)]
struct Errors {
    record: usize,
    servo: usize,
    command: usize,
    /// Columns of measured and commanded positions.
    pairs: Vec<(usize, usize)>,
}

/// The newest numbers of each record.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows(Vec<Vec<f64>>);

/// A sample that does not fit its schema, or is of no known record.
#[derive(Debug)]
pub(super) struct Unfit;

impl From<DecodeError> for Unfit {
    fn from(_: DecodeError) -> Self {
        Self
    }
}

impl Rows {
    pub fn resize(&mut self, widths: &[usize]) {
        self.0.extend(widths.iter().skip(self.0.len()).map(|width| vec![f64::NAN; *width]));
    }

    pub fn of(&self, record: usize) -> &[f64] {
        self.0.get(record).map_or(&[], Vec::as_slice)
    }
}

impl Schemas {
    /// The record's number, and whether its numbers had to be left out.
    pub fn declare(&mut self, name: &str, ty: &Type) -> (usize, bool) {
        if let Some(&known) = self.by_name.get(name)
            && (self.records[known].ty == *ty || self.records.len() >= MAX_RECORDS)
        {
            return (known, false);
        }
        let (number, left_out) = self.add(name, ty);
        if name == "servo" || name == "command" {
            self.derive_errors();
        }
        (number, left_out)
    }

    fn add(&mut self, name: &str, ty: &Type) -> (usize, bool) {
        if self.records.len() >= MAX_RECORDS {
            return (usize::MAX, true);
        }
        if let Some(&before) = self.by_name.get(name) {
            self.retire(before);
        }
        let (number, first_signal) = (self.records.len(), self.signals.len());
        let left_out = width(ty) > (MAX_SIGNALS - first_signal) as u64;
        if !left_out {
            describe(ty, name, None, &mut self.signals);
        }
        let width = self.signals.len() - first_signal;
        self.places.extend((0..width).map(|column| (number, column)));
        self.records.push(Record { name: name.to_owned(), ty: ty.clone(), width, first_signal });
        self.by_name.insert(name.to_owned(), number);
        (number, left_out)
    }

    fn retire(&mut self, record: usize) {
        let Record { first_signal, width, .. } = self.records[record];
        self.signals[first_signal..first_signal + width]
            .iter_mut()
            .for_each(|signal| signal.is_current = false);
        if self.errors.as_ref().is_some_and(|errors| errors.record == record) {
            self.errors = None;
        }
    }

    /// The difference of two minima is no minimum of the difference, so it is taken sample by sample.
    fn derive_errors(&mut self) {
        let by_name = |name: &str| self.by_name.get(name).copied();
        let known = by_name(ERROR);
        if known.is_some() && known != self.errors.as_ref().map(|errors| errors.record) {
            return; // The run has a record of this name.
        }
        let (Some(servo), Some(command)) = (by_name("servo"), by_name("command")) else { return };
        let position = |record: usize, joint: &str| {
            let (record, name) =
                (&self.records[record], format!("{}.{joint}.position", self.records[record].name));
            let signals = &self.signals[record.first_signal..record.first_signal + record.width];
            signals.iter().position(|signal| signal.name == name)
        };
        let Type::Object(joints) = &self.records[servo].ty else { return };
        let pair = |joint: &str| Some((position(servo, joint)?, position(command, joint)?));
        let joints = joints.iter().filter_map(|field| Some((field.name.clone(), pair(&field.name)?)));
        let (names, pairs): (Vec<_>, Vec<_>) = joints.unzip();
        let field = |name| khz_tlog::Field::new(name, Type::Float32).with_unit("rad");
        let ty = Type::Object(names.into_iter().map(field).collect());
        let (record, _) = self.add(ERROR, &ty);
        self.errors = Some(Errors { record, servo, command, pairs });
    }

    /// Reads a sample into its row. Returns the record derived from it, if there is one; its row is up to date, too.
    pub fn read(&self, record: usize, payload: &[u8], rows: &mut Rows) -> Result<Option<usize>, Unfit> {
        let (Some(known), Some(row)) = (self.records.get(record), rows.0.get_mut(record)) else {
            return Err(Unfit);
        };
        if known.width == 0 {
            Value::read(&known.ty, payload)?;
            return Ok(None);
        }
        row.clear();
        let poured = pour(&known.ty, &mut Input::new(payload), row);
        row.resize(known.width, f64::NAN);
        poured?;
        let derived = self.errors.as_ref().filter(|errors| errors.servo == record);
        if let Some(errors) = derived {
            let error = |&(measured, wanted): &(usize, usize)| {
                rows.of(errors.command)[wanted] - rows.of(record)[measured]
            };
            let values: Vec<f64> = errors.pairs.iter().map(error).collect();
            rows.0[errors.record] = values;
        }
        Ok(derived.map(|errors| errors.record))
    }

    /// Records that must be read for the signals of this one.
    pub fn sources(&self, record: usize) -> Vec<usize> {
        match &self.errors {
            Some(errors) if errors.record == record => vec![errors.servo, errors.command],
            _ => vec![record],
        }
    }

    pub fn named(&self, record: usize) -> Option<(&str, &Type)> {
        self.records.get(record).map(|record| (record.name.as_str(), &record.ty))
    }

    pub fn widths(&self) -> impl Iterator<Item = usize> {
        self.records.iter().map(|record| record.width)
    }

    /// The column of a record's field.
    pub fn column(&self, record: usize, field: &str) -> Option<usize> {
        let Record { first_signal, width, name, .. } = self.records.get(record)?;
        let is_it = |signal: &Signal| {
            let rest = signal.name.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('.'));
            rest == Some(field)
        };
        self.signals[*first_signal..first_signal + width].iter().position(is_it)
    }

    pub fn signals(&self) -> &[Signal] {
        &self.signals
    }

    pub fn signal(&self, name: &str) -> Option<u32> {
        let found = self.signals.iter().position(|signal| signal.is_current && signal.name == name);
        found.and_then(|place| u32::try_from(place).ok())
    }

    pub fn place(&self, signal: u32) -> Option<(usize, usize)> {
        self.places.get(signal as usize).copied()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.records.iter().map(|record| record.name.as_str())
    }
}
