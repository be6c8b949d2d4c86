//! Distributions of times: every value counts, none is filtered.

use hdrhistogram::Histogram as Hdr;
use serde::{Deserialize, Serialize};

/// The highest time told apart: one minute. Longer ones count as one minute in the percentiles; the exact
/// maximum and the mean keep their true length.
pub const HIGHEST_NS: i64 = 60_000_000_000;

/// A distribution of times in nanoseconds with a relative resolution of 0.1 % (exact below 2 µs), and exact
/// minimum, maximum, mean and standard deviation. Takes about 220 kB, however many values it holds.
///
/// Realtime: allocates only in [`Histogram::new`].
#[derive(Clone, Debug)]
pub struct Histogram {
    values: Hdr<u64>,
    sum: i128,
    sum_of_squares: i128,
    min: i64,
    max: i64,
    max_at: i64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl Histogram {
    /// An empty one.
    ///
    /// # Panics
    /// Never: the bounds are constants within what the algorithm takes.
    #[must_use]
    #[expect(clippy::expect_used, reason = "constant bounds")]
    pub fn new() -> Histogram {
        let values = Hdr::new_with_bounds(1, HIGHEST_NS as u64, 3).expect("constant bounds");
        Histogram { values, sum: 0, sum_of_squares: 0, min: i64::MAX, max: i64::MIN, max_at: 0 }
    }

    /// Counts a time; `at` (a time or a tick number, as the caller likes) is kept for the longest.
    /// A negative time, as after a stepped clock, counts as zero in the percentiles and as itself elsewhere.
    ///
    /// Realtime: no allocation, some ten nanoseconds.
    #[inline]
    pub fn record(&mut self, value_ns: i64, at: i64) {
        self.values.saturating_record(value_ns.max(0) as u64);
        let value = i128::from(value_ns);
        self.sum += value;
        self.sum_of_squares += value * value;
        self.min = self.min.min(value_ns);
        if value_ns > self.max {
            (self.max, self.max_at) = (value_ns, at);
        }
    }

    /// Adds all of another's values.
    ///
    /// # Panics
    /// Never: all histograms have the same bounds.
    #[expect(clippy::expect_used, reason = "equal bounds")]
    pub fn add(&mut self, other: &Histogram) {
        self.values.add(&other.values).expect("equal bounds");
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
        self.min = self.min.min(other.min);
        if other.max > self.max {
            (self.max, self.max_at) = (other.max, other.max_at);
        }
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.values.reset();
        (self.sum, self.sum_of_squares) = (0, 0);
        (self.min, self.max, self.max_at) = (i64::MAX, i64::MIN, 0);
    }

    /// How many values were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.values.len()
    }

    /// The time that the fraction `quantile` (0 to 1) of all values does not exceed; 0 when empty.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> i64 {
        if self.count() == 0 {
            return 0;
        }
        (self.values.value_at_quantile(quantile) as i64).clamp(self.min, self.max)
    }

    /// The longest and when it came, if anything was recorded.
    #[must_use]
    pub fn max(&self) -> Option<(i64, i64)> {
        (self.count() > 0).then_some((self.max, self.max_at))
    }

    /// The figures people compare; all zero when empty.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let count = self.count();
        if count == 0 {
            return Summary::default();
        }
        let mean = self.sum as f64 / count as f64;
        Summary {
            count,
            min: self.min,
            mean,
            sigma: (self.sum_of_squares as f64 / count as f64 - mean * mean).max(0.0).sqrt(),
            p50: self.quantile(0.5),
            p90: self.quantile(0.9),
            p99: self.quantile(0.99),
            p999: self.quantile(0.999),
            p9999: self.quantile(0.9999),
            max: self.max,
            max_at: self.max_at,
        }
    }

    /// Points of the percentile curve as HdrHistogram draws it: value, quantile, and how many values do not
    /// exceed it. The finer the nearer to the maximum: `steps` points for each halving of what remains.
    pub fn curve(&self, steps: u32) -> impl Iterator<Item = (i64, f64, u64)> + '_ {
        let mut below = 0;
        self.values.iter_quantiles(steps).map(move |step| {
            below += step.count_since_last_iteration();
            ((step.value_iterated_to() as i64).min(self.max), step.quantile_iterated_to(), below)
        })
    }

    /// Every distinct value held and how often it occurred, ascending: for plots and export.
    pub fn buckets(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        self.values
            .iter_recorded()
            .map(|step| ((step.value_iterated_to() as i64).min(self.max), step.count_at_value()))
    }
}

/// The figures of a [`Histogram`], in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of values.
    pub count: u64,
    /// The shortest.
    pub min: i64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation (of the population).
    pub sigma: f64,
    /// Half of all values do not exceed this.
    pub p50: i64,
    /// 90 % do not exceed this.
    pub p90: i64,
    /// 99 % do not exceed this.
    pub p99: i64,
    /// 99.9 % do not exceed this.
    pub p999: i64,
    /// 99.99 % do not exceed this.
    pub p9999: i64,
    /// The longest, exactly.
    pub max: i64,
    /// The time or tick number given with the longest.
    pub max_at: i64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(values: impl IntoIterator<Item = i64>) -> Histogram {
        let mut histogram = Histogram::new();
        for (at, value) in values.into_iter().enumerate() {
            histogram.record(value, at as i64);
        }
        histogram
    }

    #[test]
    fn percentiles_of_one_to_a_thousand_are_exact() {
        let s = filled(1..=1000).summary();
        assert_eq!((s.min, s.p50, s.p90, s.p99, s.p999, s.p9999, s.max), (1, 500, 900, 990, 999, 1000, 1000));
        assert_eq!((s.count, s.mean, s.max_at), (1000, 500.5, 999));
        assert!((s.sigma - 288.674_990).abs() < 1e-5);
    }

    #[test]
    fn nothing_recorded_is_all_zero() {
        assert_eq!(Histogram::new().summary(), Summary::default());
        assert_eq!(Histogram::new().max(), None);
    }

    #[test]
    fn one_outlier_in_a_million_is_kept_with_its_tick() {
        let s = filled((0..1_000_000).map(|n| if n == 123_456 { 7_520_123 } else { 12_000 })).summary();
        assert_eq!((s.max, s.max_at), (7_520_123, 123_456));
        assert!((s.p9999 - 12_000).abs() <= 12);
    }

    #[test]
    fn a_value_beyond_the_range_and_a_negative_one_stay_exact_at_the_ends() {
        let s = filled([-5_000, 90_000_000_000]).summary();
        assert_eq!((s.min, s.max, s.mean), (-5_000, 90_000_000_000, 44_999_997_500.0));
    }

    #[test]
    fn adding_is_as_recording_in_one() {
        let (mut left, right) = (filled([1, 2, 3_000_000]), filled([9, 4_000_000]));
        left.add(&right);
        let both = filled([1, 2, 3_000_000, 9, 4_000_000]);
        assert_eq!(Summary { max_at: 0, ..left.summary() }, Summary { max_at: 0, ..both.summary() });
    }

    #[test]
    fn the_curve_ends_at_the_last_value_with_all_counted() {
        let histogram = filled(1..=1000);
        let (value, quantile, count) = histogram.curve(5).last().unwrap();
        assert_eq!((value, quantile, count), (1000, 1.0, 1000));
        assert!(histogram.curve(5).all(|(value, _, count)| value == count as i64));
    }

    proptest! {
        #[test]
        fn quantiles_are_within_a_thousandth_of_the_sorted_list(mut values in prop::collection::vec(0i64..50_000_000_000, 1..300), q in 0.0f64..=1.0) {
            let histogram = filled(values.iter().copied());
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1];
            prop_assert!((histogram.quantile(q) - exact).abs() <= exact / 1000 + 1);
        }
    }
}
