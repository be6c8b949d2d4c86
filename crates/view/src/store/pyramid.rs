//! Minima and maxima of everything, in buckets that grow with what they hold.

use super::Span;

/// Levels of buckets: from 1 µs to 2^55 µs. A few of the longest cover all times there are.
pub const LEVELS: u32 = 56;
/// The finest level of a pyramid for everything: 1.024 ms.
const FINEST: u32 = 10;
/// What one bucket of one signal takes.
const BYTES: usize = 8;
/// However many signals there are, so many buckets are kept.
const FEWEST: usize = 64;

/// Least and greatest value of a signal in a bucket; [`EMPTY`] before the first.
type Bucket = [f32; 2];

const EMPTY: Bucket = [f32::INFINITY, f32::NEG_INFINITY];

/// Buckets of all signals. When there are more than its memory holds, two become one.
#[derive(Debug)]
pub(super) struct Pyramid {
    budget: usize,
    level: u32,
    /// The number of the first bucket; none before the first sample.
    first: Option<i64>,
    /// How many buckets there are between the first and the last.
    count: usize,
    /// Numbers in all rows together.
    width: usize,
    /// By record and column. A signal has no buckets behind its last value.
    columns: Vec<Vec<Vec<Bucket>>>,
}

impl Pyramid {
    pub fn new(budget: usize) -> Self {
        Self::from_level(budget, FINEST)
    }

    /// With buckets no finer than this.
    pub fn from_level(budget: usize, level: u32) -> Self {
        Self { budget, level: level.min(LEVELS - 1), first: None, count: 0, width: 0, columns: Vec::new() }
    }

    pub fn level(&self) -> u32 {
        self.level
    }

    /// Makes room for records of so many numbers.
    pub fn resize(&mut self, widths: &[usize]) {
        self.columns.extend(widths.iter().skip(self.columns.len()).map(|width| vec![Vec::new(); *width]));
        self.width = widths.iter().sum();
        while self.count > self.most() && self.level < LEVELS - 1 {
            self.double();
        }
    }

    /// How many buckets may be kept.
    fn most(&self) -> usize {
        (self.budget / (self.width.max(1) * BYTES)).max(FEWEST)
    }

    pub fn push(&mut self, record: usize, time_us: i64, row: &[f64]) {
        let Some(place) = self.place(time_us) else { return };
        let Some(columns) = self.columns.get_mut(record) else { return };
        for (buckets, &value) in columns.iter_mut().zip(row) {
            if value.is_nan() {
                continue;
            }
            if buckets.len() <= place {
                buckets.resize(place + 1, EMPTY);
            }
            let [min, max] = &mut buckets[place];
            (*min, *max) = (min.min(value as f32), max.max(value as f32));
        }
    }

    /// Where in the columns a time's bucket is; makes room for it.
    fn place(&mut self, time_us: i64) -> Option<usize> {
        loop {
            let bucket = time_us >> self.level;
            let first = *self.first.get_or_insert(bucket);
            let last = (first + self.count as i64 - 1).max(bucket);
            let needed = usize::try_from(last - first.min(bucket) + 1).ok()?;
            if needed <= self.most() {
                if bucket < first {
                    self.open_front(usize::try_from(first - bucket).ok()?);
                }
                self.count = self.count.max(needed);
                return usize::try_from(bucket - self.first?).ok();
            }
            if self.level == LEVELS - 1 {
                return None;
            }
            self.double();
        }
    }

    /// Puts empty buckets before the first. More than asked for if there is room, because who goes back once may go back
    /// again.
    fn open_front(&mut self, needed: usize) {
        let more = (self.most() / 8).min(self.most() - self.count - needed);
        let shift = needed + more;
        for buckets in self.columns.iter_mut().flatten().filter(|buckets| !buckets.is_empty()) {
            buckets.splice(0..0, std::iter::repeat_n(EMPTY, shift));
        }
        self.first = self.first.map(|first| first - shift as i64);
        self.count += shift;
    }

    fn double(&mut self) {
        let Some(first) = self.first else {
            self.level += 1;
            return;
        };
        let odd = first.rem_euclid(2) as usize;
        for buckets in self.columns.iter_mut().flatten().filter(|buckets| !buckets.is_empty()) {
            let joined = (buckets.len() + odd).div_ceil(2);
            for place in 0..joined {
                let at = |place: Option<usize>| {
                    place.and_then(|place| buckets.get(place)).copied().unwrap_or(EMPTY)
                };
                let [a, b] = [at((2 * place).checked_sub(odd)), at((2 * place + 1).checked_sub(odd))];
                buckets[place] = [a[0].min(b[0]), a[1].max(b[1])];
            }
            buckets.truncate(joined);
            buckets.shrink_to(joined * 2);
        }
        self.first = Some(first.div_euclid(2));
        self.count = (self.count + odd).div_ceil(2);
        self.level += 1;
    }

    /// Puts a signal's values into the buckets of a span, as far as there are any, and returns at what level they are:
    /// not finer than the span's.
    pub fn fill(&self, record: usize, column: usize, span: Span, min: &mut [f32], max: &mut [f32]) -> u32 {
        let level = self.level.max(span.level);
        let buckets = self.columns.get(record).and_then(|columns| columns.get(column));
        let (Some(first), Some(buckets)) = (self.first, buckets) else { return level };
        for (number, (min, max)) in (span.from..).zip(min.iter_mut().zip(max)) {
            let (from, to) = self.own(number, span.level);
            let place = |bucket: i64| usize::try_from(bucket - first).unwrap_or(0).min(buckets.len());
            for [low, high] in &buckets[place(from)..place(to)] {
                // An empty bucket changes nothing; nor does NaN, which is nothing so far.
                if low <= high {
                    (*min, *max) = (min.min(*low), max.max(*high));
                }
            }
        }
        level
    }

    /// The buckets that make up, or contain, bucket `number` of a level: first, and behind the last.
    fn own(&self, number: i64, level: u32) -> (i64, i64) {
        match level.checked_sub(self.level) {
            Some(finer) => (number << finer, (number + 1) << finer),
            None => {
                let around = number >> (self.level - level);
                (around, around + 1)
            }
        }
    }
}
