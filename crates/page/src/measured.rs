//! A duration over time, and all its values.
use super::{Distribution, Trace};
use serde::{Deserialize, Serialize};

/// A duration measured once per tick, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Over time.
    pub trace: Trace,
    /// All values, however long the run.
    pub values: Distribution,
}

impl Measured {
    /// From what was traced and what was counted while the loop ran.
    pub fn new(trace: Trace, values: Distribution) -> Self {
        Self { trace, values }
    }

    /// Adds what was measured later, its times shifted by so many seconds.
    pub fn absorb(&mut self, later: &Self, shift_s: f64) {
        let shifted = later.trace.points().into_iter().map(|(x, y)| (x + shift_s, y));
        let points = self.trace.points().into_iter().chain(shifted);
        self.trace = Trace::from_points(points.map(|(x, y)| (x, f64::from(y))));
        self.values = Distribution::from_counts(self.values.counts().chain(later.values.counts()));
    }

    /// From the time of each tick in seconds and its value in nanoseconds.
    pub fn from_points(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut trace = Trace::new();
        let values = points.into_iter().map(|(x, y)| {
            trace.push(x, y);
            y
        });
        let values = Distribution::from_samples(values);
        Self { trace, values }
    }
}
