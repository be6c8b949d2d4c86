//! What is recorded, and the counts of what was not.

use khz_tlog::Type;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How many records one recording may have.
pub const MAX_RECORDS: usize = 256;

/// A record of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordId(pub(super) u16);

impl RecordId {
    /// Where it is among the records, in the order of their declaration.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// A record of the recording, as it was declared.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// What its samples are.
    pub ty: Type,
}

/// What the threads count together. Every number has one meaning and is only added to, so no order among them
/// matters and all accesses are relaxed.
pub(super) struct Counts {
    pub dropped: [AtomicU64; MAX_RECORDS],
    /// A producer that finds the ring full may wait for room.
    patient: AtomicBool,
}

impl Counts {
    pub fn new() -> Self {
        Self { dropped: [const { AtomicU64::new(0) }; MAX_RECORDS], patient: AtomicBool::new(false) }
    }

    pub fn be_patient(&self) {
        self.patient.store(true, Ordering::Relaxed);
    }

    pub fn are_patient(&self) -> bool {
        self.patient.load(Ordering::Relaxed)
    }

    pub fn drop_one(&self, RecordId(index): RecordId) {
        self.dropped[usize::from(index)].fetch_add(1, Ordering::Relaxed);
    }

    pub fn dropped(&self, index: usize) -> u64 {
        self.dropped[index].load(Ordering::Relaxed)
    }

    pub fn all_dropped(&self) -> u64 {
        (0..MAX_RECORDS).map(|index| self.dropped(index)).sum()
    }
}
