//! Everything kept, nothing ever waits for the disk. Knows no robots.
//!
//! The tick hands its samples to a [`Tap`]: a bounded ring it shares with the recorder's thread alone. That
//! thread, at normal priority, gives them to [`Sink`]s: the TLOG0003 log, the network, and sinks of your own. When the disk is too slow for too long the ring fills
//! up; then samples are dropped, and each drop is counted, in the [`Summary`] and in the log itself (record
//! `recorder`). What the tick calls allocates nothing, locks nothing, makes no system call and never waits.
//!
//! ```no_run
//! use khz_record::{LogConfig, RecorderBuilder};
//! use khz_tlog::Type;
//!
//! let mut builder = RecorderBuilder::new(LogConfig::default());
//! let battery = builder.record("battery", &Type::object([("volts", Type::Float32)]))?;
//! let mut tap = builder.tap(16 << 20);
//! let recorder = builder.start()?;
//! tap.push(battery, khz_rt::now_ns(), &24.5f32.to_le_bytes());
//! println!("{:?}", recorder.finish());
//! # Ok::<(), khz_record::RecorderError>(())
//! ```
//!
//! # Values of your own
//!
//! Names, types and units are declared before the start; deriving [`khz_tlog::Record`] takes them from a struct. To have
//! them in the log of a robot's run, hand the builder to `kilohertz::Robot::builder`; `own_records.rs` in the
//! examples of that crate does.
//!
//! # Sinks of your own
//!
//! ```
//! use khz_record::{Declared, LogConfig, RecorderBuilder, RecordId, Sink, SinkResult};
//! use khz_tlog::Record;
//! use std::sync::mpsc::{Sender, channel};
//!
//! #[derive(Record)]
//! struct Battery {
//!     #[tlog(unit = "V")]
//!     voltage: f32,
//! }
//!
//! /// Passes on every sample, with the name of its record.
//! struct Tail(Vec<String>, Sender<(String, Vec<u8>)>);
//!
//! impl Sink for Tail {
//!     fn name(&self) -> &str {
//!         "tail"
//!     }
//!
//!     fn begin(&mut self, records: &[Declared], _epoch_ns: i64) -> SinkResult {
//!         self.0 = records.iter().map(|record| record.name.clone()).collect();
//!         Ok(())
//!     }
//!
//!     fn sample(&mut self, record: RecordId, _time_ns: i64, payload: &[u8]) -> SinkResult {
//!         Ok(self.1.send((self.0[record.index()].clone(), payload.to_vec()))?)
//!     }
//! }
//!
//! # let folder = tempfile::tempdir()?;
//! # let log = LogConfig { path: folder.path().join("a.tlog").display().to_string(), keep_free_mib: 0, ..Default::default() };
//! let (sender, receiver) = channel();
//! let mut builder = RecorderBuilder::new(log);
//! let battery = builder.record("battery", &Battery::schema())?;
//! let mut tap = builder.tap(1 << 20);
//! builder.sink(Box::new(Tail(Vec::new(), sender)))?;
//! let recorder = builder.start()?;
//! tap.push_value(battery, khz_rt::now_ns(), &Battery { voltage: 24.5 });
//! assert_eq!(receiver.recv()?, ("battery".to_owned(), 24.5f32.to_le_bytes().to_vec()));
//! let summary = recorder.finish();
//! assert_eq!((summary.records[0].written, summary.sinks[1].taken), (1, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod builder;
mod disk;
mod error;
mod file;
mod lane;
mod marks;
mod plotjuggler;
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

pub use builder::{Recorder, RecorderBuilder, Sync};
pub use disk::{Disk, Files, Gone, Output, Watched};
pub use error::RecorderError;
pub use file::numbered;
pub use receive::{Intake, IntakeCounts};
pub use records::{Declared, MAX_RECORDS, RecordId};
pub use settings::{Compression, LogConfig};
pub use sink::{Sink, SinkResult, SinkSummary};
pub use stream::{Datagram, Message};
pub use summary::{RecordSummary, Summary};
pub use tap::{MAX_SAMPLE, Tap};
