//! Reports: one self-contained HTML page each.
//!
//! A [`Page`] has [`Section`]s, a section has blocks: [`Plot`], [`Gantt`], [`Ranges`], [`Table`], [`KeyValues`],
//! [`Figure`]s, [`Robot`], [`Comparison`]. Values over time go through a [`Trace`], which keeps every outlier in bounded
//! memory; distributions through a [`Distribution`]. The page asks nothing of the network.
//!
//! ```
//! use khz_page::{Axis, Level, Page, Plot, Section, Trace};
//! let wake = Trace::from_uniform(0.0, 0.001, (0..1000).map(|i| 2_000.0 + f64::from(i % 7) * 100.0));
//! let page = Page::new("One second").badge(Level::Good, "grade A").section(
//!     Section::new("Wake latency")
//!         .text("How late each tick woke.")
//!         .with(Plot::over_time("wake latency", Axis::new("latency", "ns")).line("wake", &wake)),
//! );
//! assert!(page.to_string().starts_with("<!doctype html>"));
//! ```
#![forbid(unsafe_code)]

mod compare;
mod distribution;
mod gantt;
mod markup;
mod measured;
mod page;
mod plot;
mod ranges;
mod robot;
mod table;
mod trace;
mod verdict;

pub use compare::{Better, Comparison, alike, has_percentile, share};
pub use distribution::Distribution;
pub use gantt::{Bar, Gantt};
use markup::duration_unit;
pub use markup::{Text, calendar, duration, duration_ns, for_shell, grouped, number, quantity};
pub use measured::Measured;
pub use page::{Block, CHART, CHART_STYLE, NUMBERS, PALETTE, Page, SKELETON, Section};
pub use plot::{Axis, Plot, Stroke};
pub use ranges::Ranges;
pub use robot::Robot;
use serde::{Deserialize, Serialize};
pub use table::{Cell, Column, Figure, KeyValues, Table};
pub use trace::{DEFAULT_BUCKETS, StackedTrace, Trace};
pub use verdict::{Verdict, counted};

/// Colours that distinguish lines and bars, before they repeat.
const COLOURS: usize = 8;

/// How good something is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Good,
    /// Worth knowing, neither good nor bad.
    #[default]
    Note,
    /// To be looked at.
    Warning,
    /// Failed.
    Bad,
}

impl Level {
    fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Bad => "bad",
        }
    }

    /// The level as a word in a table; nothing for what is neither good nor bad.
    pub fn word(self) -> &'static str {
        if self == Self::Note { "" } else { self.class() }
    }
}

/// The example in the documentation compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/reports.md")]
struct Documentation;
