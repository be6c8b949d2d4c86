//! The history of a run.

use khz_tlog::Type;

/// The history of a run.
#[derive(Debug, Default)]
pub struct Store {}

impl Store {
    /// Takes in a record of the run: its number, name and type.
    pub fn declare(&mut self, _record: usize, _name: &str, _ty: &Type) {}

    /// Takes in a sample that fits its record's type.
    pub fn sample(&mut self, _record: usize, _time_us: i64, _payload: &[u8]) {}
}
