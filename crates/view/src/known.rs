//! A record as its newest sample has it.

use khz_tlog::Type;

/// A record of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// What its samples are.
    pub ty: Type,
    /// The newest sample: its time, µs since the Unix epoch, and its bytes.
    pub latest: Option<(i64, Vec<u8>)>,
    /// How many samples have come.
    pub samples: u64,
}
