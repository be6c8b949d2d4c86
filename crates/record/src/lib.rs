//! Everything kept, nothing ever waits for the disk. Knows no robots.
//!
//! The tick hands its samples to a [`Tap`]: a bounded ring it shares with nobody but the recorder's thread. That
//! thread, at normal priority, makes a TLOG0003 log of them. When the disk is too slow for too long the ring fills
//! up; then samples are dropped, and each drop is counted, in the [`Summary`] and in the log itself (record
//! `recorder`). What the tick calls allocates nothing, locks nothing, makes no system call and never waits.
//!
//! ```no_run
//! use khz_record::{LogConfig, Plan};
//! use khz_tlog::Type;
//!
//! let mut plan = Plan::new(LogConfig::default());
//! let battery = plan.record("battery", &Type::object([("volts", Type::Float32)]))?;
//! let mut tap = plan.tap(16 << 20);
//! let recorder = plan.start()?;
//! tap.push(battery, khz_rt::now_ns(), &24.5f32.to_le_bytes());
//! println!("{:?}", recorder.finish());
//! # Ok::<(), khz_record::RecorderError>(())
//! ```
#![forbid(unsafe_code)]

mod disk;
mod error;
mod file;
mod lane;
mod plan;
mod receive;
mod records;
mod settings;
mod sink;
mod stream;
mod summary;
mod sync;
mod tap;
#[cfg(test)]
mod tests;
mod until;
mod work;

pub use disk::{Disk, Files, Output};
pub use error::RecorderError;
pub use file::numbered;
pub use plan::{Plan, Recorder, Sync};
pub use receive::{Intake, IntakeCounts};
pub use records::{Declared, MAX_RECORDS, RecordId};
pub use settings::{Compression, LogConfig};
pub use sink::{Sink, SinkResult, SinkSummary};
pub use summary::{RecordSummary, Summary};
pub use tap::{MAX_SAMPLE, Tap};
