//! Values over time in bounded memory: every outlier stays, however long the run.
use serde::{Deserialize, Serialize};

/// Buckets a new trace has room for: a run of ten seconds at 1 kHz is kept whole.
pub const DEFAULT_BUCKETS: usize = 10_240;

/// One value over time (or over anything that grows).
///
/// Points are kept as they are until the buckets are full; then neighbouring buckets are merged two by two, each
/// keeping its smallest and its largest point. So a run of any length takes the same memory and no peak is lost.
///
/// `push` neither allocates nor blocks once the trace is made; the merge visits every bucket, once per doubling
/// of the run's length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Points", into = "Points")]
pub struct Trace {
    envelope: Envelope,
}

impl Default for Trace {
    fn default() -> Self {
        Self::new()
    }
}

impl Trace {
    /// An empty trace with room for [`DEFAULT_BUCKETS`].
    pub fn new() -> Self {
        Self::with_buckets(DEFAULT_BUCKETS)
    }

    /// An empty trace that keeps at most `buckets` (at least 2) pairs of points.
    pub fn with_buckets(buckets: usize) -> Self {
        Self { envelope: Envelope::new(1, buckets) }
    }

    /// A trace of the points `(x, y)`.
    pub fn from_points(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut trace = Self::new();
        points.into_iter().for_each(|(x, y)| trace.push(x, y));
        trace
    }

    /// A trace of values that lie `step` apart, the first at `start`.
    pub fn from_uniform(start: f64, step: f64, values: impl IntoIterator<Item = f64>) -> Self {
        Self::from_points(values.into_iter().enumerate().map(|(i, y)| (start + i as f64 * step, y)))
    }

    /// Adds a point. A `y` that is not finite is a gap in the line; a point whose `x` is not finite is left out.
    pub fn push(&mut self, x: f64, y: f64) {
        self.envelope.push(x, &[y as f32]);
    }

    /// Forgets all points and keeps the memory.
    pub fn clear(&mut self) {
        let envelope = &mut self.envelope;
        envelope.buckets.clear();
        envelope.rows.clear();
        (envelope.per_bucket, envelope.filled) = (1, 0);
    }

    /// The points kept, in order of `x`; a gap is a `y` of NaN.
    pub fn points(&self) -> Vec<(f64, f32)> {
        let points = self.envelope.points().into_iter();
        points.map(|(x, row)| (x, row.map_or(f32::NAN, |row| row[0]))).collect()
    }

    /// The same trace with at most `buckets` buckets.
    pub fn thinned(&self, buckets: usize) -> Self {
        Self { envelope: self.envelope.thinned(buckets) }
    }

    /// True when no point was ever added.
    pub fn is_empty(&self) -> bool {
        self.envelope.buckets.is_empty()
    }
}

/// Several parts of a whole over time (the phases of a tick), thinned together.
///
/// Of each bucket the rows with the smallest and the largest sum are kept, so what is drawn are always real rows.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "Rows", into = "Rows")]
pub struct StackedTrace {
    names: Vec<String>,
    envelope: Envelope,
    /// The row of a gap.
    nothing: Vec<f32>,
}

/// The row of a gap is NaN, and so not equal to itself.
impl PartialEq for StackedTrace {
    fn eq(&self, other: &Self) -> bool {
        (&self.names, &self.envelope) == (&other.names, &other.envelope)
    }
}

impl Default for StackedTrace {
    fn default() -> Self {
        Self::new(Vec::<String>::new())
    }
}

impl StackedTrace {
    /// An empty trace of these parts, from the bottom of the stack to its top.
    pub fn new(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let envelope = Envelope::new(names.len(), DEFAULT_BUCKETS);
        Self { nothing: vec![f32::NAN; names.len()], names, envelope }
    }

    /// Adds one row. Parts that are not given are zero, parts too many are left out.
    pub fn push(&mut self, x: f64, parts: &[f32]) {
        let width = self.names.len();
        self.envelope.push(x, &parts[..parts.len().min(width)]);
    }

    /// The names of the parts, bottom first.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The rows kept, in order of `x`, each with one value per name; in a gap all are NaN.
    pub fn rows(&self) -> Vec<(f64, &[f32])> {
        let points = self.envelope.points().into_iter();
        points.map(|(x, row)| (x, row.unwrap_or(&self.nothing))).collect()
    }

    /// Adds a gap.
    pub fn gap(&mut self, x: f64) {
        self.envelope.push(x, &self.nothing);
    }

    /// The same trace with at most `buckets` buckets.
    pub fn thinned(&self, buckets: usize) -> Self {
        Self { envelope: self.envelope.thinned(buckets), ..self.clone() }
    }

    /// True while every row that was added is kept.
    pub fn is_whole(&self) -> bool {
        self.envelope.per_bucket == 1
    }

    /// True when no row was ever added, or there are no parts.
    pub fn is_empty(&self) -> bool {
        self.envelope.buckets.is_empty() || self.names.is_empty()
    }
}

/// Rows in buckets that merge when they are full; the sum of a row is the key by which extremes are kept.
#[derive(Debug, Clone, PartialEq)]
struct Envelope {
    width: usize,
    capacity: usize,
    /// Points a full bucket holds; a power of two.
    per_bucket: u64,
    /// Points in the last bucket.
    filled: u64,
    buckets: Vec<Bucket>,
    /// Two rows for each bucket: its lowest, its highest.
    rows: Vec<f32>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Bucket {
    low: Extreme,
    high: Extreme,
    /// Where the first point of the bucket was that is not finite.
    gap: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Extreme {
    x: f64,
    key: f32,
}

impl Extreme {
    fn gap(self) -> Option<f64> {
        self.key.is_nan().then_some(self.x)
    }
}

impl Envelope {
    fn new(width: usize, buckets: usize) -> Self {
        let capacity = buckets.max(2).next_multiple_of(2);
        Self {
            width,
            capacity,
            per_bucket: 1,
            filled: 0,
            buckets: Vec::with_capacity(capacity),
            rows: Vec::with_capacity(capacity * 2 * width),
        }
    }

    fn push(&mut self, x: f64, row: &[f32]) {
        if !x.is_finite() {
            return;
        }
        let sum: f32 = row.iter().sum();
        let extreme = Extreme { x, key: if sum.is_finite() { sum } else { f32::NAN } };
        if self.buckets.is_empty() || self.filled == self.per_bucket {
            self.open(extreme, row);
        } else {
            self.widen(extreme, row);
        }
        self.filled += 1;
    }

    fn open(&mut self, extreme: Extreme, row: &[f32]) {
        if self.buckets.len() == self.capacity {
            self.halve();
        }
        self.buckets.push(Bucket { low: extreme, high: extreme, gap: extreme.gap() });
        self.rows.resize(self.buckets.len() * 2 * self.width, 0.0);
        let at = self.buckets.len() - 1;
        self.store(2 * at, row);
        self.store(2 * at + 1, row);
        self.filled = 0;
    }

    fn widen(&mut self, extreme: Extreme, row: &[f32]) {
        let at = self.buckets.len() - 1;
        let bucket = &mut self.buckets[at];
        bucket.gap = bucket.gap.or(extreme.gap());
        let (lower, higher) = (below(extreme, bucket.low), above(extreme, bucket.high));
        if lower {
            bucket.low = extreme;
        }
        if higher {
            bucket.high = extreme;
        }
        if lower {
            self.store(2 * at, row);
        }
        if higher {
            self.store(2 * at + 1, row);
        }
    }

    fn store(&mut self, slot: usize, row: &[f32]) {
        let kept = &mut self.rows[slot * self.width..(slot + 1) * self.width];
        kept.fill(0.0);
        kept[..row.len()].copy_from_slice(row);
    }

    /// Merges neighbours two by two; the capacity is even, so every merged bucket is full.
    fn halve(&mut self) {
        let half = self.buckets.len() / 2;
        for at in 0..half {
            let (a, b) = (self.buckets[2 * at], self.buckets[2 * at + 1]);
            let low_from_b = below(b.low, a.low);
            let high_from_b = above(b.high, a.high);
            self.buckets[at] = Bucket {
                low: if low_from_b { b.low } else { a.low },
                high: if high_from_b { b.high } else { a.high },
                gap: a.gap.or(b.gap),
            };
            self.copy_row(4 * at + 2 * usize::from(low_from_b), 2 * at);
            self.copy_row(4 * at + 1 + 2 * usize::from(high_from_b), 2 * at + 1);
        }
        self.buckets.truncate(half);
        self.rows.truncate(half * 2 * self.width);
        self.per_bucket *= 2;
    }

    fn copy_row(&mut self, from: usize, to: usize) {
        let w = self.width;
        self.rows.copy_within(from * w..(from + 1) * w, to * w);
    }

    fn row(&self, slot: usize) -> &[f32] {
        &self.rows[slot * self.width..(slot + 1) * self.width]
    }

    /// The rows kept, in order of `x`; none where a bucket held a gap beside its rows.
    fn points(&self) -> Vec<(f64, Option<&[f32]>)> {
        let mut points = Vec::with_capacity(self.buckets.len() * 2);
        for (at, bucket) in self.buckets.iter().enumerate() {
            let low = (bucket.low.x, Some(self.row(2 * at)));
            let high = (bucket.high.x, Some(self.row(2 * at + 1)));
            let (first, second) = if low.0 <= high.0 { (low, high) } else { (high, low) };
            points.push(first);
            if first.0 != second.0 {
                points.push(second);
            }
            // Where it was, so that the line ends there: behind the bucket's points it would lead across.
            if let Some(gap) = bucket.gap.filter(|_| !bucket.low.key.is_nan()) {
                points.push((gap, None));
            }
        }
        // Time that steps back would send the line back with it, and the script's search astray.
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }

    fn thinned(&self, buckets: usize) -> Self {
        let mut thin = self.clone();
        while thin.buckets.len() > buckets.max(2) {
            if thin.buckets.len() % 2 == 1 {
                thin.buckets.extend(thin.buckets.last().copied());
                thin.rows.extend_from_within(thin.rows.len() - 2 * thin.width..);
            }
            thin.halve();
        }
        thin
    }
}

/// True when `a` is the lower of the two; any number is lower than a gap.
fn below(a: Extreme, b: Extreme) -> bool {
    a.key < b.key || (b.key.is_nan() && !a.key.is_nan())
}

/// True when `a` is the higher of the two; any number is higher than a gap.
fn above(a: Extreme, b: Extreme) -> bool {
    a.key > b.key || (b.key.is_nan() && !a.key.is_nan())
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Points {
    x: Vec<f64>,
    y: Vec<Option<f32>>,
}

impl From<Points> for Trace {
    fn from(points: Points) -> Self {
        let y = points.y.into_iter().map(|y| y.map_or(f64::NAN, f64::from));
        Self::from_points(points.x.into_iter().zip(y))
    }
}

impl From<Trace> for Points {
    fn from(trace: Trace) -> Self {
        let (x, y) = trace.points().into_iter().map(|(x, y)| (x, y.is_finite().then_some(y))).unzip();
        Self { x, y }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    names: Vec<String>,
    x: Vec<f64>,
    rows: Vec<Vec<Option<f32>>>,
}

impl From<Rows> for StackedTrace {
    fn from(rows: Rows) -> Self {
        let mut trace = Self::new(rows.names);
        for (x, row) in rows.x.into_iter().zip(rows.rows) {
            let row: Vec<f32> = row.into_iter().map(|v| v.unwrap_or(f32::NAN)).collect();
            trace.push(x, &row);
        }
        trace
    }
}

impl From<StackedTrace> for Rows {
    fn from(trace: StackedTrace) -> Self {
        let finite = |row: &[f32]| row.iter().map(|v| v.is_finite().then_some(*v)).collect();
        let (x, rows) = trace.rows().into_iter().map(|(x, row)| (x, finite(row))).unzip();
        Self { names: trace.names, x, rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_short_run_is_kept_whole() {
        let trace = Trace::from_uniform(0.0, 0.5, [1.0, 3.0, 2.0]);
        assert_eq!(trace.points(), [(0.0, 1.0), (0.5, 3.0), (1.0, 2.0)]);
    }

    #[test]
    fn a_gap_stays_a_gap() {
        let trace = Trace::from_points([(0.0, 1.0), (1.0, f64::NAN), (2.0, f64::INFINITY), (3.0, 4.0)]);
        let shown: Vec<bool> = trace.points().iter().map(|p| p.1.is_finite()).collect();
        assert_eq!(shown, [true, false, false, true]);
    }

    #[test]
    fn a_gap_survives_thinning() {
        let trace =
            Trace::from_points((0..1000).map(|i| (f64::from(i), if i == 500 { f64::NAN } else { 1.0 })));
        let points = trace.thinned(16).points();
        assert!(points.len() <= 33);
        assert_eq!(points.iter().filter(|p| p.1.is_nan()).count(), 1);
    }

    #[test]
    fn no_line_leads_across_a_gap_however_thin_the_trace() {
        let mut trace = Trace::with_buckets(16);
        let mut stack = StackedTrace::new(["bus"]);
        for i in (0..1000).map(f64::from) {
            let hole = (500.0..600.0).contains(&i);
            match hole {
                false => (trace.push(i, i), stack.push(i, &[1.0])),
                true if i == 500.0 => (trace.push(550.0, f64::NAN), stack.gap(550.0)),
                true => continue,
            };
        }
        let stack = stack.thinned(16);
        let points: [Vec<(f64, bool)>; 2] = [
            trace.points().iter().map(|point| (point.0, point.1.is_nan())).collect(),
            stack.rows().iter().map(|row| (row.0, row.1[0].is_nan())).collect(),
        ];
        for points in points {
            let gap = points.iter().position(|point| point.1).unwrap();
            assert!(points[gap - 1].0 < 500.0 && points[gap + 1].0 >= 600.0, "{points:?}");
        }
    }

    #[test]
    fn ten_million_points_keep_their_one_outlier() {
        let outlier = 7_654_321;
        let mut trace = Trace::with_buckets(512);
        for i in 0..10_000_000u32 {
            trace.push(f64::from(i), if i == outlier { 1e6 } else { f64::from(i % 100) });
        }
        let points = trace.points();
        assert!(points.len() <= 1024);
        assert!(points.contains(&(f64::from(outlier), 1e6)));
    }

    #[test]
    fn a_stack_keeps_whole_rows() {
        let mut trace = StackedTrace::new(["wake", "bus"]);
        for i in 0..10_000u16 {
            let late = if i == 4321 { 900.0 } else { 1.0 };
            trace.push(f64::from(i), &[late, 2.0]);
        }
        assert!(trace.rows().contains(&(4321.0, &[900.0, 2.0][..])));
    }

    #[test]
    fn a_stack_of_nothing_and_rows_of_the_wrong_width_are_taken() {
        let mut trace = StackedTrace::default();
        trace.push(0.0, &[1.0]);
        assert!(trace.is_empty());
        let mut trace = StackedTrace::new(["a", "b"]);
        trace.push(0.0, &[1.0]);
        trace.push(1.0, &[1.0, 2.0, 3.0]);
        assert_eq!(trace.rows(), [(0.0, &[1.0, 0.0][..]), (1.0, &[1.0, 2.0][..])]);
    }

    proptest! {
        #[test]
        fn extremes_are_never_lost(values in prop::collection::vec(-1e6f64..1e6, 1..600), buckets in 2usize..40) {
            let mut trace = Trace::with_buckets(buckets);
            values.iter().enumerate().for_each(|(i, y)| trace.push(i as f64, *y));
            let kept: Vec<f32> = trace.points().iter().map(|p| p.1).collect();
            let all: Vec<f32> = values.iter().map(|y| *y as f32).collect();
            for pick in [f32::max, f32::min] {
                prop_assert_eq!(kept.iter().copied().reduce(pick), all.iter().copied().reduce(pick));
            }
            prop_assert!(kept.len() <= 2 * buckets.next_multiple_of(2));
        }

        #[test]
        fn json_brings_back_the_same_points(values in prop::collection::vec(prop::num::f64::ANY, 0..100)) {
            let trace = Trace::from_uniform(0.0, 1.0, values);
            let json = serde_json::to_string(&trace)?;
            let back: Trace = serde_json::from_str(&json)?;
            let bits = |t: &Trace| t.points().iter().map(|p| (p.0, p.1.is_finite().then_some(p.1))).collect::<Vec<_>>();
            prop_assert_eq!(bits(&back), bits(&trace));
        }
    }
}
