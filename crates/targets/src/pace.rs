//! How often a program sends single targets, and how late they arrive: so long after their times they are followed, so that
//! the next one is known in time.

/// Times whose differences are the cadence.
const TIMES: usize = 17;
/// Arrivals that are remembered.
const ARRIVALS: usize = 128;
/// The cadence of a program of which nothing is known.
pub(crate) const USUAL_NS: i64 = 33_333_333;
/// Periods until a target is followed: with 1 of them, 845 of 8000 ticks were held over at 30 Hz with 5 ms of jitter; with these, 40.
const PERIODS: f64 = 1.25;
/// The same, when both neighbours are to be known …
const SMOOTH_PERIODS: f64 = 2.05;
/// … before a segment is so near that a tick may be on it already, ns.
pub(crate) const SETTLED_NS: i64 = 2_000_000;
/// No target is followed later than this.
const MOST_NS: i64 = 200_000_000;
/// The delay changes by no more than this share of the time.
const SLEW: i64 = 20;

/// The newest times of something, ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    /// The newest last.
    values: Vec<i64>,
    most_ns: i64,
}

impl Recent {
    pub fn saw(&mut self, value_ns: i64) {
        if self.values.len() == ARRIVALS {
            self.values.remove(0);
        }
        self.values.push(value_ns.max(0));
        self.most_ns = self.most_ns.max(value_ns);
    }

    /// The middle, all but one in a hundred, and of all that ever came the most, ns.
    pub fn figures(&self) -> [i64; 3] {
        let mut sorted = self.values.clone();
        sorted.sort_unstable();
        let count = sorted.len();
        let of = |at: usize| sorted.get(at).copied().unwrap_or(0);
        [of(count / 2), of((count * 99 / 100).min(count.saturating_sub(1 + count / 100))), self.most_ns]
    }
}

/// What is known of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    /// The newest times of its targets, the newest last.
    times: Vec<i64>,
    /// How long after their times they arrived.
    lateness: Recent,
    delay_ns: Option<i64>,
}

impl Pace {
    /// It was silent: its times are no evidence of what comes.
    pub fn restart(&mut self) {
        self.times.clear();
        self.delay_ns = None;
    }

    /// A target arrived so long after its time.
    pub fn arrived(&mut self, late_ns: i64) {
        self.lateness.saw(late_ns);
    }

    /// A target for this time was taken.
    pub fn took(&mut self, at_ns: i64) {
        if self.times.len() == TIMES {
            self.times.remove(0);
        }
        self.times.push(at_ns);
    }

    /// How often it sends, ns, as declared or else by its own times; those of its arrivals would be those of the network.
    pub fn cadence_ns(&self, declared_ns: Option<i64>) -> Option<i64> {
        let mut apart: Vec<i64> = self.times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        apart.sort_unstable();
        declared_ns.or(apart.get(apart.len() / 2).copied())
    }

    /// How long after its time the target for `at_ns` is followed, ns.
    pub fn delay_ns(&mut self, at_ns: i64, declared_ns: Option<i64>, smooth: bool) -> i64 {
        let cadence_ns = self.cadence_ns(declared_ns).unwrap_or(USUAL_NS);
        let (periods, more_ns) = if smooth { (SMOOTH_PERIODS, SETTLED_NS) } else { (PERIODS, 0) };
        let [_, late_ns, _] = self.lateness.figures();
        let wanted_ns = ((cadence_ns as f64 * periods) as i64).saturating_add(late_ns + more_ns).min(MOST_NS);
        let delay_ns = match (self.delay_ns, self.times.last()) {
            (Some(delay_ns), Some(last_ns)) => {
                let most_ns = at_ns.saturating_sub(*last_ns).max(0) / SLEW;
                wanted_ns.clamp(delay_ns - most_ns, delay_ns + most_ns)
            }
            _ => wanted_ns,
        };
        self.delay_ns = Some(delay_ns);
        delay_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn sent(pace: &mut Pace, at_ms: i64, late_ms: i64) -> i64 {
        pace.arrived(late_ms * MS);
        let delay_ns = pace.delay_ns(at_ms * MS, None, false);
        pace.took(at_ms * MS);
        delay_ns / MS
    }

    #[test]
    fn a_change_of_rate_is_learned_in_eight_points_and_nothing_jumps() {
        let (mut pace, mut at_ms) = (Pace::default(), 0);
        for _ in 0..40 {
            sent(&mut pace, at_ms, 0);
            at_ms += 10;
        }
        assert_eq!(pace.cadence_ns(None), Some(10 * MS));
        let mut last = pace.delay_ns.unwrap_or(0);
        for _ in 0..9 {
            sent(&mut pace, at_ms, 0);
            let delay_ns = pace.delay_ns.unwrap_or(0);
            assert!((delay_ns - last).abs() <= 33 * MS / 20, "{last} {delay_ns}");
            (last, at_ms) = (delay_ns, at_ms + 33);
        }
        assert_eq!(pace.cadence_ns(None), Some(33 * MS));
    }

    #[test]
    fn one_that_was_late_does_not_count_and_two_in_a_hundred_do() {
        let mut pace = Pace::default();
        for number in 0..100 {
            sent(&mut pace, number * 33, if number == 50 { 65 } else { 1 });
        }
        assert_eq!(pace.lateness.figures(), [MS, MS, 65 * MS]);
        sent(&mut pace, 3300, 65);
        assert_eq!(pace.lateness.figures(), [MS, 65 * MS, 65 * MS]);
    }

    #[test]
    fn what_is_declared_counts_and_no_delay_is_longer_than_a_fifth_of_a_second() {
        let mut pace = Pace::default();
        assert_eq!(pace.delay_ns(0, Some(20 * MS), false), 25 * MS);
        assert_eq!(pace.cadence_ns(Some(20 * MS)), Some(20 * MS));
        assert_eq!(Pace::default().delay_ns(0, Some(1000 * MS), true), MOST_NS);
    }
}
