//! How punctually a thread with a period wakes and works on this machine.
//!
//! A [`Plan`] is what to measure; an [`Experiment`] carries it out; [`Results`] hold the figures, which
//! [`text`](run_text), [`page`](results_page), [`csv`] and [`hgrm`] show. Several plans are measured in turns by
//! [`measure_in_turns`].
//!
//! The metrics are defined in [`Sample`] and in `docs/time.md`.

mod export;
mod load;
mod matrix;
mod measure;
mod page;
mod plan;
mod recording;
mod require;
mod result;
mod text;

pub use export::{csv, hgrm};
pub use load::{Load, LoadError, Running, Worker};
pub use matrix::{ASSIGNMENT, Axes, measure_in_turns};
pub use measure::{Experiment, JitterError, Watch};
pub use page::{page as results_page, verdict as results_verdict};
pub use plan::{Plan, PlanError, Work};
pub use recording::{Recording, Sample};
pub use require::required;
pub use result::{Buckets, FORMAT, Histograms, Measurement, Results, ResultsError, VERSION};
pub use text::{comparison as comparison_text, run as run_text};
