//! Keys of a robot file, declared once.
//!
//! A setting is declared where it is used: [`section!`] a table with its keys, [`words!`] a choice. Each gets
//! from one declaration how it is read (every mistake reported, with its place and what to write instead), its range, its
//! default, its line in the documentation ([`reference()`]), its JSON ([`serde::Serialize`]) and its JSON Schema ([`schema`]).
//!
//! ```
//! use khz_settings::{Reader, parse, section, words};
//!
//! words! {
//!     /// How to wait.
//!     Wake {
//!         /// Sleep until it is time.
//!         Sleep = "sleep",
//!         /// Never sleep.
//!         Spin = "spin",
//!     }
//! }
//!
//! section! {
//!     /// `[loop]`: how time is kept.
//!     LoopSettings {
//!         /// Ticks per second.
//!         rate_hz: f64 = 1000.0, "Hz", 1.0 => 10_000.0;
//!         /// How to wait.
//!         wake: Wake = Wake::Sleep, "";
//!         /// Name of the thread.
//!         name: String, "";
//!     }
//! }
//!
//! let read = |text| {
//!     parse(text, "robot.toml", |root, reader: &mut Reader| reader.table::<LoopSettings>(root, "loop"))
//! };
//! let (settings, warnings) = read("[loop]\nname = \"main\"\nwake = \"spin\"")?;
//! assert_eq!((settings.rate_hz, settings.wake, warnings.len()), (1000.0, Wake::Spin, 0));
//!
//! let error = read("[loop]\nwake = \"spim\"").unwrap_err();
//! assert_eq!(error.problems.len(), 2);
//! assert_eq!(error.problems[0].title, "`loop` needs the key `name`");
//! assert_eq!(error.problems[1].help, "did you mean `spin`?");
//! # Ok::<(), khz_settings::ConfigError>(())
//! ```
#![forbid(unsafe_code)]

mod key;
mod problem;
mod reader;
mod reference;
pub mod schema;
mod section;
mod values;

pub use key::{Key, Setting, Shape, Word};
pub use problem::{ConfigError, Problem};
pub use reader::{KeyPlace, Reader, join, nearest, parse, suggestion};
pub use reference::{Documented, reference, sentence};

/// Whole nanoseconds of a time, of which `unit_ns` are one: `nanoseconds(50.0, 1e6)` are 50 ms.
pub fn nanoseconds(time: f64, unit_ns: f64) -> i64 {
    (time * unit_ns).round() as i64
}

// For the macros.
#[doc(hidden)]
pub use values::{no_such_word, read_word, to_json};
#[doc(hidden)]
pub use {serde, serde_json, toml};
