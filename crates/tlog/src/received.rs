//! Logs of what came over a network: how they are marked, and what order their samples have.

/// The record with the senders. A log with this record and [`GAPS`] holds samples of senders with clocks of their own.
pub const SENDERS: &str = "sender";
/// The record with what was lost on the way.
pub const GAPS: &str = "gaps";
/// The records that mark such a log, samples or not.
pub const MARKS: [&str; 2] = [SENDERS, GAPS];
/// How far ahead of the receiver's clock a sample may be, µs: clocks differ.
pub const AHEAD_US: i64 = 1_000_000;
/// How old a sample may be when it arrives, µs: its sender may have waited for its own disk. One that is older, or
/// further ahead, has the time of its arrival instead.
pub const BEHIND_US: i64 = 60_000_000;
