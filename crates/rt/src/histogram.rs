//! Distributions of times: every value counts, none is filtered.

use hdrhistogram::Histogram as Hdr;
use hdrhistogram::iterators::IterationValue;
use serde::{Deserialize, Serialize};

/// The highest time distinguished: one minute. Longer ones count as one minute in the percentiles; the exact
/// maximum and the mean keep their true length.
pub const HIGHEST_NS: i64 = 60_000_000_000;

/// Bins are as wide as HdrHistogram's with three digits: 1 up to here, and from each power of two on twice as wide.
const EXACT: u64 = 2048;
const EXACT_BITS: u32 = EXACT.trailing_zeros();
/// So many, the last of them above [`HIGHEST_NS`].
const BINS: usize = 27 << (EXACT_BITS - 1);

/// The bin of a time.
#[inline]
const fn bin(value: u64) -> usize {
    let doublings = 64 - EXACT_BITS - (value | (EXACT - 1)).leading_zeros();
    ((doublings as usize) << (EXACT_BITS - 1)) + (value >> doublings) as usize
}

/// The longest time that is in the same bin.
const fn bin_end(value: u64) -> u64 {
    let doublings = 64 - EXACT_BITS - (value | (EXACT - 1)).leading_zeros();
    value | ((1 << doublings) - 1)
}

/// The longest time in a bin.
const fn last_of(bin: usize) -> u64 {
    let half = (EXACT / 2) as usize;
    let doublings = (bin / half).saturating_sub(1);
    (((bin - doublings * half) as u64 + 1) << doublings) - 1
}

/// A distribution of times in nanoseconds with a relative resolution of 0.1 % (exact below 2 µs), and exact
/// minimum, maximum, mean and standard deviation. Takes about 220 kB, however many values it holds.
///
/// Realtime: allocates only in [`Histogram::new`].
#[derive(Clone, Debug)]
pub struct Histogram {
    /// An array, as the compiler then knows that every [bin] is in it.
    counts: Box<[u64; BINS]>,
    count: u64,
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
    #[must_use]
    pub fn new() -> Histogram {
        // By way of a vector: an array of this size would be made on the stack.
        let counts = vec![0; BINS].into_boxed_slice().try_into();
        let counts = counts.unwrap_or_else(|_| unreachable!("it has as many"));
        Histogram { counts, count: 0, sum: 0, sum_of_squares: 0, min: i64::MAX, max: i64::MIN, max_at: 0 }
    }

    #[inline]
    fn put(&mut self, value_ns: i64, count: u64) {
        let place = bin(value_ns.max(0) as u64);
        let place = if place < BINS { place } else { const { bin(HIGHEST_NS as u64) } };
        self.counts[place] += count;
        self.count += count;
    }

    /// Counts a time; `at` (a time or a tick number, as the caller likes) is kept for the longest.
    /// A negative time, as after a stepped clock, counts as zero in the percentiles and as itself elsewhere.
    ///
    /// Realtime: no allocation, some ten nanoseconds.
    #[inline]
    pub fn record(&mut self, value_ns: i64, at: i64) {
        self.put(value_ns, 1);
        self.extend(value_ns, value_ns, 1, at);
    }

    /// Counts the same time so many times. Not more than 2³².
    pub fn record_many(&mut self, value_ns: i64, count: u64, at: i64) {
        let count = count.min(u64::from(u32::MAX));
        if count > 0 {
            self.put(value_ns, count);
            self.extend(value_ns, value_ns, count as i64, at);
        }
    }

    /// Counts a time for an event that ran and for the `missed` planned ones before it that did not, one period apart:
    /// each of those would have waited a period longer than the next (HdrHistogram's correction of coordinated omission,
    /// with the number of missed periods known instead of guessed).
    ///
    /// Realtime: no allocation; steps once for each bin that gets a value, so at most some ten thousand times however
    /// many were missed. More than 2³² count as 2³².
    pub fn record_corrected(&mut self, value_ns: i64, period_ns: i64, missed: u64, at: i64) {
        self.record(value_ns, at);
        let mut left = missed.min(u64::from(u32::MAX)) as i64;
        let mut next_ns = value_ns;
        while left > 0 && period_ns > 0 {
            next_ns = next_ns.saturating_add(period_ns);
            let bin_end = bin_end(next_ns.max(0) as u64) as i64;
            let room = if next_ns >= HIGHEST_NS { left } else { (bin_end - next_ns) / period_ns + 1 };
            let count = room.clamp(1, left);
            let last_ns = next_ns.saturating_add(period_ns.saturating_mul(count - 1));
            self.put(next_ns, count as u64);
            self.extend(next_ns, last_ns, count, at);
            (next_ns, left) = (last_ns, left - count);
        }
    }

    /// Accounts for `count` values, equally spaced from `first_ns` to `last_ns`, outside the bins.
    #[inline]
    fn extend(&mut self, first_ns: i64, last_ns: i64, count: i64, at: i64) {
        let (first, last, count) = (i128::from(first_ns), i128::from(last_ns), i128::from(count));
        let (sum, squares) = if count == 1 { (first, first * first) } else { series(first, last, count) };
        // 2³² times, each as long as can be represented, still fit as often.
        self.sum += sum;
        // No square is negative: what does not fit is too much.
        self.sum_of_squares = self.sum_of_squares.checked_add(squares).unwrap_or_else(too_much);
        if first_ns < self.min {
            self.min = first_ns;
        }
        if last_ns > self.max {
            (self.max, self.max_at) = (last_ns, at);
        }
    }

    /// Adds all of another's values.
    pub fn add(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&*other.counts).for_each(|(count, more)| *count += more);
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.sum_of_squares = self.sum_of_squares.saturating_add(other.sum_of_squares);
        self.min = self.min.min(other.min);
        if other.max > self.max {
            (self.max, self.max_at) = (other.max, other.max_at);
        }
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.count = 0;
        (self.sum, self.sum_of_squares) = (0, 0);
        (self.min, self.max, self.max_at) = (i64::MAX, i64::MIN, 0);
    }

    /// How many values were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The time that the fraction `quantile` (0 to 1) of all values does not exceed; 0 when empty.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> i64 {
        let rank = ((quantile.min(1.0) * self.count as f64).ceil() as u64).max(1);
        let mut below = 0;
        let reaches = |count: &u64| {
            below += count;
            below >= rank
        };
        let place = self.counts.iter().position(reaches);
        place.map_or(0, |place| (last_of(place) as i64).clamp(self.min, self.max))
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
        Summary {
            count,
            min: self.min,
            mean: self.sum as f64 / count as f64,
            sigma: self.sigma(),
            p50: self.quantile(0.5),
            p90: self.quantile(0.9),
            p99: self.quantile(0.99),
            p999: self.quantile(0.999),
            p9999: self.quantile(0.9999),
            max: self.max,
            max_at: self.max_at,
        }
    }

    /// The standard deviation. Squares about zero would lose all digits in `f64` where the values are long and close
    /// together, so they are taken about the whole number next to the mean, which is exact.
    fn sigma(&self) -> f64 {
        let count = i128::from(self.count());
        let near = self.sum / count;
        let off = (self.sum - near * count) as f64 / count as f64;
        let shifted = near.saturating_mul(near).saturating_mul(count);
        let squares =
            self.sum_of_squares.saturating_add(shifted) - near.saturating_mul(self.sum).saturating_mul(2);
        (squares.max(0) as f64 / count as f64 - off * off).max(0.0).sqrt()
    }

    /// Points of the percentile curve as HdrHistogram draws it: value, quantile, and how many values do not
    /// exceed it. The finer the nearer to the maximum: `steps` points for each halving of what remains. Allocates.
    pub fn curve(&self, steps: u32) -> Vec<(i64, f64, u64)> {
        let mut below = 0;
        let point = |step: IterationValue<u64>| {
            below += step.count_since_last_iteration();
            ((step.value_iterated_to() as i64).min(self.max), step.quantile_iterated_to(), below)
        };
        self.as_hdr().iter_quantiles(steps).map(point).collect()
    }

    /// The same values as HdrHistogram counts them.
    #[expect(clippy::expect_used, reason = "constant bounds, and values within")]
    fn as_hdr(&self) -> Hdr<u64> {
        let mut values = Hdr::new_with_bounds(1, HIGHEST_NS as u64, 3).expect("constant bounds");
        for (place, count) in self.bins() {
            values.record_n(last_of(place), count).expect("it has the same bins");
        }
        values
    }

    fn bins(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.counts.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }

    /// Every distinct value held and how often it occurred, ascending: for plots and export.
    pub fn buckets(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        self.bins().map(|(place, count)| ((last_of(place) as i64).min(self.max), count))
    }

    /// [`Histogram::buckets`], which have the same quantiles as the histogram; the last value is the exact largest, also beyond what the
    /// buckets hold.
    pub fn values(&self) -> Vec<(i64, u64)> {
        let mut values: Vec<(i64, u64)> = self.buckets().collect();
        if let Some(last) = values.last_mut() {
            last.0 = self.max;
        }
        values
    }
}

/// Apart, so that what always fits is not chosen between.
#[cold]
fn too_much() -> i128 {
    i128::MAX
}

/// Sum and sum of squares of `count` equally spaced numbers, saturating.
fn series(first: i128, last: i128, count: i128) -> (i128, i128) {
    let step = (last - first) / (count - 1).max(1);
    let sum = count.saturating_mul(first + last) / 2;
    // Σ (first + i·step)², i below `count`.
    let ones = (count - 1).saturating_mul(count);
    let squares = ones.saturating_mul(2 * count - 1) / 6;
    let total = count
        .saturating_mul(first * first)
        .saturating_add((first * step).saturating_mul(ones))
        .saturating_add((step * step).saturating_mul(squares));
    (sum, total)
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
    fn the_deviation_of_long_times_close_together_keeps_its_digits() {
        // Periods of ten seconds, three of them 1 ns off: by hand, sqrt(3 · (1/1000) − (3/1000)²).
        let s = filled((0..1000).map(|n| 10_000_000_000 + i64::from(n % 334 == 1))).summary();
        assert!((s.sigma - 0.054_690_036).abs() < 1e-8, "{}", s.sigma);
        let s = filled([50_000_000_000, 50_000_000_004]).summary();
        assert_eq!(s.sigma, 2.0);
    }

    #[test]
    fn times_beyond_all_reason_are_counted_without_overflow() {
        let mut histogram = filled([i64::MAX, i64::MIN, i64::MAX, i64::MAX]);
        histogram.record_corrected(i64::MAX, i64::MAX, u64::MAX, 0);
        histogram.add(&histogram.clone());
        assert!(histogram.summary().sigma.is_finite());
        assert_eq!(histogram.summary().max, i64::MAX);
    }

    #[test]
    fn a_stall_counts_for_every_period_it_cost() {
        // Two hundred periods of 1 ms were missed; the next was 0.3 ms late.
        let mut histogram = Histogram::new();
        histogram.record_corrected(300_000, 1_000_000, 199, 7);
        let s = histogram.summary();
        assert_eq!((s.count, s.min, s.max, s.max_at), (200, 300_000, 199_300_000, 7));
        assert_eq!(s.mean, 99_800_000.0);
    }

    #[test]
    fn many_at_once_are_as_one_by_one() {
        let mut many = Histogram::new();
        many.record_many(7, 3, 2);
        many.record_many(9, 0, 5);
        let one_by_one = filled([7, 7, 7]).summary();
        assert_eq!(Summary { max_at: 0, ..many.summary() }, Summary { max_at: 0, ..one_by_one });
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
    fn values_keep_the_largest() {
        let mut histogram = Histogram::new();
        [1_234_567, 5, 70_000_000_000].into_iter().for_each(|ns| histogram.record(ns, 0));
        let values = histogram.values();
        assert_eq!((values[0], values[2]), ((5, 1), (70_000_000_000, 1)));
        assert!(values[1].0.abs_diff(1_234_567) < 1_234 && values[1].1 == 1);
        assert_eq!(Histogram::new().values(), []);
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
        let (value, quantile, count) = *histogram.curve(5).last().unwrap();
        assert_eq!((value, quantile, count), (1000, 1.0, 1000));
        assert!(histogram.curve(5).iter().all(|&(value, _, count)| value == count as i64));
    }

    #[test]
    fn bins_follow_each_other_up_to_the_last() {
        assert_eq!((bin(0), bin(EXACT), bin(EXACT + 1)), (0, EXACT as usize, EXACT as usize));
        for place in 1..BINS {
            assert_eq!((bin(last_of(place)), bin(last_of(place - 1) + 1)), (place, place));
            assert_eq!(bin_end(last_of(place - 1) + 1), last_of(place));
        }
        assert!(last_of(BINS - 1) > HIGHEST_NS as u64 && bin(u64::MAX) >= BINS);
    }

    proptest! {
        #[test]
        fn it_is_hdrhistograms(values in prop::collection::vec(prop_oneof![0i64..5_000, 0i64..70_000_000_000, any::<i64>()], 1..100)) {
            let histogram = filled(values.iter().copied());
            let mut hdr = Hdr::<u64>::new_with_bounds(1, HIGHEST_NS as u64, 3).unwrap();
            values.iter().for_each(|value| hdr.saturating_record((*value).max(0) as u64));
            let buckets = hdr.iter_recorded().map(|step| (step.value_iterated_to() as i64, step.count_at_value()));
            let max = histogram.max;
            prop_assert!(histogram.buckets().eq(buckets.map(|(value, count)| (value.min(max), count))));
            for q in [0.001, 0.5, 0.9, 0.99, 1.0, 2.0] {
                prop_assert_eq!(histogram.quantile(q), (hdr.value_at_quantile(q) as i64).clamp(histogram.min, max));
            }
            prop_assert_eq!(histogram.as_hdr(), hdr);
        }

        #[test]
        fn correcting_is_as_recording_each_missed_period(value in 0i64..2_000_000, period in 1i64..3_000_000, missed in 0u64..5_000) {
            let mut corrected = Histogram::new();
            corrected.record_corrected(value, period, missed, 1);
            let mut one_by_one = Histogram::new();
            (0..=missed as i64).for_each(|n| one_by_one.record(value + n * period, 1));
            prop_assert_eq!(corrected.summary(), one_by_one.summary());
        }

        #[test]
        fn values_have_the_quantiles_of_the_histogram(values in prop::collection::vec(0i64..50_000_000_000, 1..300)) {
            let histogram = filled(values.iter().copied());
            let listed = histogram.values();
            for q in [0.5, 0.9, 0.99, 0.999, 0.9999, 1.0] {
                let rank = ((q * values.len() as f64).ceil() as u64).max(1);
                let mut below = 0;
                let at = listed.iter().find(|(_, count)| { below += count; below >= rank });
                prop_assert_eq!(at.map(|(ns, _)| *ns), Some(histogram.quantile(q)));
            }
        }

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
