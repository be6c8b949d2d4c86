//! The clock of a program on another computer, by what was received both ways.
//!
//! What it sends at `t` arrives later, so the difference of the clocks is at most arrival − t; what it received of the robot's clock was sent
//! before, so it is at least that − the time of reception. The middle of both is wrong by at most half of what is between them. Clocks drift: what
//! was seen some time ago bounds by so much less.

/// How much faster a clock may run than another one: without this the bound is wrong after seconds.
const DRIFT: f64 = 100e-6;
/// Bounds are kept by the second, for as long as this.
const SECONDS: usize = 10;

/// What is known of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockMap {
    upper: Bound,
    lower: Bound,
}

/// The tightest values of the last seconds, with the times at which they were seen.
#[derive(Clone, Debug, Default)]
struct Bound([Option<(i64, i64)>; SECONDS]);

impl Bound {
    /// Less is tighter.
    fn see(&mut self, value_ns: i64, now_ns: i64) {
        let second = now_ns.div_euclid(1_000_000_000);
        let slot = &mut self.0[second.rem_euclid(SECONDS as i64) as usize];
        let is_old = |at_ns: i64| at_ns.div_euclid(1_000_000_000) != second;
        if slot
            .is_none_or(|(before_ns, at_ns)| is_old(at_ns) || value_ns <= loosened(before_ns, now_ns - at_ns))
        {
            *slot = Some((value_ns, now_ns));
        }
    }

    fn at(&self, now_ns: i64) -> Option<i64> {
        let is_kept = |&(_, at_ns): &(i64, i64)| now_ns - at_ns < SECONDS as i64 * 1_000_000_000;
        let seen = self.0.iter().flatten().filter(|seen| is_kept(seen));
        seen.map(|&(value_ns, at_ns)| loosened(value_ns, now_ns - at_ns)).min()
    }
}

fn loosened(value_ns: i64, age_ns: i64) -> i64 {
    value_ns.saturating_add((age_ns as f64 * DRIFT) as i64)
}

impl ClockMap {
    /// A message of `sent_ns`, by its clock, arrived at `now_ns`, by the robot's.
    pub fn arrived(&mut self, sent_ns: i64, now_ns: i64) {
        self.upper.see(now_ns.saturating_sub(sent_ns), now_ns);
    }

    /// It received at `received_ns`, by its clock, what the robot sent at `robot_ns`.
    pub fn received(&mut self, robot_ns: i64, received_ns: i64, now_ns: i64) {
        if robot_ns <= now_ns {
            self.lower.see(received_ns.saturating_sub(robot_ns), now_ns);
        }
    }

    /// What is to be added to its times for the robot's, and how wrong that may be, ns; `None`: it received nothing, or its times are impossible.
    pub fn offset_ns(&self, now_ns: i64) -> Option<(i64, i64)> {
        let (upper, lower) = (self.upper.at(now_ns)?, -self.lower.at(now_ns)?);
        (lower <= upper).then(|| (lower + (upper - lower) / 2, (upper - lower) / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Its clock is 5000 s ahead and 50 ppm fast; there and back between 2 and 12 ms.
    #[test]
    fn the_difference_is_within_its_bound() {
        let (mut map, mut last) = (ClockMap::default(), None);
        let its = |robot_ns: i64| robot_ns + 5_000_000 * MS + robot_ns / 20_000;
        for number in 0..2000_i64 {
            let sent_ns = number * 33 * MS;
            let there_ns = 2 * MS + (number * 7919) % 10 * MS;
            let back_ns = 2 * MS + (number * 104_729) % 10 * MS;
            let now_ns = sent_ns + there_ns;
            map.arrived(its(sent_ns), now_ns);
            if let Some((robot_ns, received_ns)) = last {
                map.received(robot_ns, received_ns, now_ns);
            }
            last = Some((now_ns, its(now_ns + back_ns)));
            if number > 100 {
                let (offset_ns, bound_ns) = map.offset_ns(now_ns).expect("both ways");
                let true_ns = now_ns - its(now_ns);
                assert!(
                    (offset_ns - true_ns).abs() <= bound_ns && bound_ns < 4 * MS,
                    "{offset_ns} {true_ns} {bound_ns}"
                );
            }
        }
    }

    #[test]
    fn who_received_nothing_has_no_clock_and_neither_who_received_what_is_to_come() {
        let mut map = ClockMap::default();
        map.arrived(0, 10);
        assert_eq!(map.offset_ns(10), None);
        map.received(1000, 5, 10);
        assert_eq!(map.offset_ns(10), None);
        map.received(9, 5, 10);
        assert_eq!(map.offset_ns(10), Some((7, 3)));
    }
}
