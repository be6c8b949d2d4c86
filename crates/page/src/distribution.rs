//! How often each value came: the source of percentiles, curves and histograms.
use serde::{Deserialize, Serialize};

/// Values with the number of times each was seen; nothing is filtered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<(f64, u64)>", into = "Vec<(f64, u64)>")]
pub struct Distribution {
    /// Ascending values, each with how many samples are at or below it.
    steps: Vec<(f64, u64)>,
}

impl Distribution {
    /// From samples in any order; those that are not finite are left out.
    pub fn from_samples(samples: impl IntoIterator<Item = f64>) -> Self {
        Self::from_counts(samples.into_iter().map(|v| (v, 1)))
    }

    /// From whole nanoseconds with their counts, as a histogram of times gives them.
    pub fn from_ns(counts: impl IntoIterator<Item = (i64, u64)>) -> Self {
        Self::from_counts(counts.into_iter().map(|(ns, n)| (ns as f64, n)))
    }

    /// From values with their counts, in any order.
    pub fn from_counts(counts: impl IntoIterator<Item = (f64, u64)>) -> Self {
        let mut steps: Vec<(f64, u64)> =
            counts.into_iter().filter(|(v, n)| v.is_finite() && *n > 0).collect();
        steps.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        steps.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
        let mut total = 0u64;
        for step in &mut steps {
            total = total.saturating_add(step.1);
            step.1 = total;
        }
        Self { steps }
    }

    /// How many samples there are.
    pub fn count(&self) -> u64 {
        self.steps.last().map_or(0, |s| s.1)
    }

    /// The smallest sample.
    pub fn min(&self) -> Option<f64> {
        self.steps.first().map(|s| s.0)
    }

    /// The largest sample.
    pub fn max(&self) -> Option<f64> {
        self.steps.last().map(|s| s.0)
    }

    /// The smallest value that at least the fraction `q` (0 to 1) of the samples does not exceed.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let rank = (q.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0) as u64;
        let at = self.steps.partition_point(|s| s.1 < rank);
        self.steps.get(at).or(self.steps.last()).map(|s| s.0)
    }

    /// Values with their counts, ascending.
    pub fn counts(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let before = std::iter::once(0).chain(self.steps.iter().map(|s| s.1));
        self.steps.iter().zip(before).map(|(s, before)| (s.0, s.1 - before))
    }

    /// The percentile curve: `(log10(1 / (1 - p)), value)`, as far as the number of samples allows, with the
    /// largest sample last.
    pub(super) fn curve(&self) -> Vec<(f64, f64)> {
        const PER_DECADE: f64 = 24.0;
        let Some(max) = self.max() else { return Vec::new() };
        let end = (self.count() as f64).log10();
        let inner = (0..).map(|i| f64::from(i) / PER_DECADE).take_while(|x| *x < end);
        let mut curve: Vec<(f64, f64)> =
            inner.filter_map(|x| Some((x, self.quantile(1.0 - 10f64.powf(-x))?))).collect();
        curve.push((end, max));
        curve
    }

    /// Counts in bins of this width, from the bin of the smallest sample; at most `most` bins, the last of which
    /// then takes all that lies beyond. Bins are `(lower edge, count)`.
    pub(super) fn bins(&self, width: f64, most: usize) -> Vec<(f64, u64)> {
        let Some(min) = self.min().filter(|_| width.is_finite() && width > 0.0) else { return Vec::new() };
        let first = (min / width).floor();
        let mut bins: Vec<(f64, u64)> = Vec::new();
        for (value, count) in self.counts() {
            let index = (((value / width).floor() - first) as usize).min(most.max(1) - 1);
            while bins.len() <= index {
                bins.push(((first + bins.len() as f64) * width, 0));
            }
            bins[index].1 += count;
        }
        bins
    }

    /// A round bin width that shows the bulk of the samples (up to p99) in about sixty bins.
    pub fn bin_width(&self) -> f64 {
        let (Some(low), Some(high)) = (self.min(), self.quantile(0.99)) else { return 1.0 };
        let raw = (high - low) / 60.0;
        if raw <= 0.0 {
            return 1.0;
        }
        let power = 10f64.powf(raw.log10().floor());
        [1.0, 2.0, 5.0].into_iter().map(|m| m * power).find(|w| *w >= raw).unwrap_or(10.0 * power)
    }
}

impl From<Vec<(f64, u64)>> for Distribution {
    fn from(counts: Vec<(f64, u64)>) -> Self {
        Self::from_counts(counts)
    }
}

impl From<Distribution> for Vec<(f64, u64)> {
    fn from(distribution: Distribution) -> Self {
        distribution.counts().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact() {
        let d = Distribution::from_samples((1..=1000).rev().map(f64::from));
        assert_eq!(d.count(), 1000);
        for (q, value) in [(0.0, 1.0), (0.5, 500.0), (0.9, 900.0), (0.999, 999.0), (1.0, 1000.0)] {
            assert_eq!(d.quantile(q), Some(value));
        }
    }

    #[test]
    fn nothing_has_no_quantile() {
        let d = Distribution::from_samples([f64::NAN, f64::INFINITY]);
        assert_eq!((d.count(), d.min(), d.max(), d.quantile(0.5)), (0, None, None, None));
        assert!(d.curve().is_empty());
        assert!(d.bins(1.0, 10).is_empty());
    }

    #[test]
    fn counts_merge_and_survive_json() {
        let d = Distribution::from_counts([(2.0, 3), (1.0, 1), (2.0, 4), (9.0, 0)]);
        assert_eq!(d.counts().collect::<Vec<_>>(), [(1.0, 1), (2.0, 7)]);
        let json = serde_json::to_string(&d).unwrap_or_default();
        assert_eq!(serde_json::from_str::<Distribution>(&json).ok(), Some(d));
    }

    #[test]
    fn the_curve_ends_at_the_largest_sample() {
        let d = Distribution::from_samples((1..=1000).map(f64::from));
        let curve = d.curve();
        assert_eq!(curve.first(), Some(&(0.0, 1.0)));
        assert_eq!(curve.last(), Some(&(3.0, 1000.0)));
        assert!(curve.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1));
    }

    #[test]
    fn bins_hold_every_sample() {
        let d = Distribution::from_samples([1.0, 1.5, 2.0, 7.9, 1e9]);
        assert_eq!(
            d.bins(1.0, 8),
            [(1.0, 2), (2.0, 1), (3.0, 0), (4.0, 0), (5.0, 0), (6.0, 0), (7.0, 1), (8.0, 1)]
        );
    }
}
