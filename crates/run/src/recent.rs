//! The counts of the last ten seconds, for a run that goes on.

use crate::costs::{Costs, LateGroup, merged};
use crate::tally::{Counted, Counts};
use std::collections::VecDeque;

/// What counts as recent, s.
pub const RECENT_S: i64 = 10;

/// Counts by the second.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    seconds: VecDeque<Second>,
    newest_us: i64,
}

#[derive(Clone, Copy, Debug)]
struct Second {
    /// Which, and when its first tick came, µs.
    number: i64,
    first_us: i64,
    counts: Counts,
    costs: Costs,
}

impl Recent {
    /// Takes in a tick at this time, µs, that was counted.
    pub fn add(&mut self, time_us: i64, counted: &Counted) {
        let number = time_us.div_euclid(1_000_000);
        // A clock that was set back: what lies ahead of it is another time's.
        if self.seconds.back().is_some_and(|last| last.number > number) {
            self.seconds.clear();
        }
        if self.seconds.back().is_none_or(|last| last.number < number) {
            let (counts, costs) = (Counts::default(), Costs::default());
            self.seconds.push_back(Second { number, first_us: time_us, counts, costs });
        }
        if let Some(last) = self.seconds.back_mut() {
            last.counts.add(counted.one, counted.judged.is_some(), counted.costly.as_ref());
            counted.costly.iter().for_each(|costly| last.costs.count(costly));
        }
        self.newest_us = time_us;
        while self.seconds.front().is_some_and(|first| first.number <= number.saturating_sub(RECENT_S)) {
            self.seconds.pop_front();
        }
    }

    /// What was counted in the last [`RECENT_S`] seconds, the one under way included.
    pub fn counts(&self) -> Counts {
        let mut all = Counts::default();
        self.seconds.iter().for_each(|second| all += second.counts);
        all
    }

    /// Late ticks of these seconds and what they cost, by cause, what cost most first.
    pub fn late_groups(&self) -> Vec<LateGroup> {
        let groups: Vec<_> = self.seconds.iter().flat_map(|second| second.costs.groups()).collect();
        merged(&groups)
    }

    /// Ticks per second, over the second under way and the one before; `None` before there are two ticks.
    pub fn rate_hz(&self) -> Option<f64> {
        let lately = self.seconds.iter().skip(self.seconds.len().saturating_sub(2));
        let first_us = lately.clone().next()?.first_us;
        let ticks: u64 = lately.map(|second| second.counts.all().ticks).sum();
        let us = self.newest_us.saturating_sub(first_us);
        (us > 0 && ticks > 1).then(|| (ticks - 1) as f64 * 1e6 / us as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Stretch;

    fn one(overruns: u64) -> Counted {
        let one = Stretch { ticks: 1, overruns, ..Stretch::default() };
        Counted { one, judged: None, costly: None }
    }

    #[test]
    fn the_last_ten_seconds_count() {
        let mut recent = Recent::default();
        assert_eq!(recent.rate_hz(), None);
        for ms in 0..30_000 {
            recent.add(ms * 1000, &one(u64::from(ms == 1000 || ms == 25_000)));
        }
        let counts = recent.counts().outside;
        assert_eq!((counts.ticks, counts.overruns, recent.rate_hz()), (10_000, 1, Some(1000.0)));
    }

    #[test]
    fn a_clock_that_is_set_back_starts_anew() {
        let mut recent = Recent::default();
        [5_000_000, 0, 1000].into_iter().for_each(|time_us| recent.add(time_us, &one(0)));
        assert_eq!((recent.counts().all().ticks, recent.rate_hz()), (2, Some(1000.0)));
    }
}
