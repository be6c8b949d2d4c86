//! Periodic modes: delays that come again and again, found among all that come.
//!
//! A [`Watch`] knows what is usual (median and median deviation, followed slowly) and reports each [`Excursion`] above
//! it. [`modes`] looks for excursions that resemble each other and lie equally far apart, and takes them for a mode
//! only if chance would hardly ever make such a row.
use serde::{Deserialize, Serialize};

/// A stretch of unusually long round trips.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Excursion {
    /// When it began, s since the run began.
    pub at_s: f64,
    /// From its first unusual value to its last, s; 0 for a single one.
    pub lasts_s: f64,
    /// What its longest round trip has more than the usual one, ns.
    pub added_ns: f64,
}

/// Something that comes back after equal times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Mode {
    /// Time from one to the next, s.
    pub period_s: f64,
    /// How long it typically lasts, s; 0 for a single round trip.
    pub lasts_s: f64,
    /// What it typically adds to a round trip at most, ns.
    pub added_ns: f64,
    /// How often it was seen.
    pub count: usize,
}

/// Calm values that end an excursion.
const CALM: u32 = 8;
/// Values the first idea of what is usual is made of.
const FIRST: usize = 64;
/// How many median deviations above the median a value must be to be unusual.
const UNUSUAL: f64 = 8.0;
/// And how much of the median, as clocks have a grain.
const GRAIN: f64 = 0.005;
/// How fast what is usual follows, in deviations for each value.
const PACE: f64 = 0.001;

/// Follows one value after the other. Allocates nothing.
#[derive(Debug)]
pub struct Watch {
    first: [f64; FIRST],
    seen: usize,
    median: f64,
    deviation: f64,
    open: Option<Open>,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    from_ns: i64,
    last_ns: i64,
    highest: f64,
    calm: u32,
}

impl Default for Watch {
    fn default() -> Self {
        Self { first: [0.0; FIRST], seen: 0, median: 0.0, deviation: 0.0, open: None }
    }
}

impl Watch {
    /// Looks at a value; the excursion that has ended with it, if one has.
    pub fn see(&mut self, at_ns: i64, value_ns: i64) -> Option<Excursion> {
        let value = value_ns as f64;
        if self.seen < FIRST {
            self.first[self.seen] = value;
            self.seen += 1;
            if self.seen == FIRST {
                self.begin();
            }
            return None;
        }
        let above = value - self.median;
        let unusual = above > (UNUSUAL * self.deviation).max(GRAIN * self.median);
        self.follow(above);
        match &mut self.open {
            None if unusual => {
                self.open = Some(Open { from_ns: at_ns, last_ns: at_ns, highest: above, calm: 0 });
                None
            }
            None => None,
            Some(open) if unusual => {
                (open.last_ns, open.highest, open.calm) = (at_ns, open.highest.max(above), 0);
                None
            }
            Some(open) => {
                open.calm += 1;
                let over = (open.calm >= CALM).then(|| Excursion {
                    at_s: open.from_ns as f64 / 1e9,
                    lasts_s: (open.last_ns - open.from_ns) as f64 / 1e9,
                    added_ns: open.highest,
                });
                if over.is_some() {
                    self.open = None;
                }
                over
            }
        }
    }

    fn begin(&mut self) {
        let mut values = self.first;
        values.sort_by(f64::total_cmp);
        self.median = values[FIRST / 2];
        let mut away = values.map(|value| (value - self.median).abs());
        away.sort_by(f64::total_cmp);
        self.deviation = away[FIRST / 2].max(1.0);
    }

    /// A step towards where half of the values lie on either side.
    fn follow(&mut self, above: f64) {
        let step = PACE * self.deviation;
        self.median += step * above.signum();
        self.deviation = (self.deviation + step * (above.abs() - self.deviation).signum()).max(1.0);
    }
}

/// Excursions in bounded memory: when there are too many, small ones are no longer distinguished from the usual.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<Excursion>", into = "Vec<Excursion>")]
pub struct Excursions {
    kept: Vec<Excursion>,
    floor_ns: f64,
}

/// Excursions kept at most.
const MOST: usize = 16_384;

impl Excursions {
    /// None yet, with room for as many as are kept at most.
    pub fn with_room() -> Self {
        Self { kept: Vec::with_capacity(MOST), floor_ns: 0.0 }
    }

    /// Adds one. Allocates nothing if there is room.
    pub fn push(&mut self, excursion: Excursion) {
        if excursion.added_ns < self.floor_ns {
            return;
        }
        if self.kept.len() == MOST {
            // A quarter goes at least, so that this is rare.
            let by_size = |a: &Excursion, b: &Excursion| a.added_ns.total_cmp(&b.added_ns);
            let (_, quarter, _) = self.kept.select_nth_unstable_by(MOST / 4, by_size);
            self.floor_ns = quarter.added_ns.next_up();
            self.kept.retain(|e| e.added_ns >= self.floor_ns);
        }
        self.kept.push(excursion);
    }

    /// Adds another's, which began so much later.
    pub fn absorb(&mut self, later: &Self, shift_s: f64) {
        for excursion in &later.kept {
            self.push(Excursion { at_s: excursion.at_s + shift_s, ..*excursion });
        }
    }

    /// Those kept, in any order.
    pub fn all(&self) -> &[Excursion] {
        &self.kept
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.floor_ns = 0.0;
    }
}

impl From<Vec<Excursion>> for Excursions {
    fn from(all: Vec<Excursion>) -> Self {
        let mut excursions = Self::default();
        all.into_iter().for_each(|excursion| excursions.push(excursion));
        excursions
    }
}

impl From<Excursions> for Vec<Excursion> {
    fn from(excursions: Excursions) -> Self {
        excursions.kept
    }
}

/// Modes named at most.
const MODES: usize = 8;
/// How unlikely chance must be.
const CHANCE: f64 = 1e-6;
/// How far one may be from its time, as a share of the period.
const LOOSE: f64 = 0.003;
/// How many kinds of excursions are looked through, about: each is a chance for chance.
const KINDS: f64 = 100.0;
/// How many in a row may fail to be seen.
const MISSING: u32 = 4;
/// How many that follow are looked at for a period.
const AHEAD: usize = 24;

/// The modes among excursions, the surest first.
pub fn modes(excursions: &[Excursion]) -> Vec<Mode> {
    let mut rest: Vec<Excursion> = excursions.to_vec();
    rest.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    let mut found = Vec::new();
    while found.len() < MODES {
        let rows = kinds(&rest).into_iter().filter_map(|kind| row(&rest, &kind));
        let Some(best) = rows.min_by(|a, b| a.chance.total_cmp(&b.chance)) else { break };
        let of =
            |pick: fn(&Excursion) -> f64| median(best.members.iter().map(|at| pick(&rest[*at])).collect());
        found.push(Mode {
            period_s: best.period_s,
            lasts_s: of(|e| e.lasts_s),
            added_ns: of(|e| e.added_ns),
            count: best.members.len(),
        });
        let mut at = 0;
        rest.retain(|_| {
            at += 1;
            best.members.binary_search(&(at - 1)).is_err()
        });
    }
    found
}

/// Shorter excursions are distinguished by what they add, not by how long they last.
const BRIEF_S: f64 = 0.05;

/// Groups of excursions that resemble each other: by how long they last, single ones also by what they add.
/// Groups overlap, so that no border runs through all of them.
fn kinds(all: &[Excursion]) -> Vec<Vec<usize>> {
    let pick = |wanted: &dyn Fn(&Excursion) -> bool| -> Vec<usize> {
        (0..all.len()).filter(|at| wanted(&all[*at])).collect()
    };
    let mut kinds = vec![pick(&|_| true), pick(&|e| e.lasts_s < BRIEF_S)];
    for (value, floor, factor) in [
        ((|e| e.lasts_s) as fn(&Excursion) -> f64, BRIEF_S, 2.0),
        (|e| if e.lasts_s < BRIEF_S { e.added_ns } else { f64::NAN }, 0.0, 1.5),
    ] {
        let values: Vec<f64> = all.iter().map(value).filter(|v| *v > floor).collect();
        let (low, high) = values.iter().fold((f64::MAX, 0f64), |(a, b), v| (a.min(*v), b.max(*v)));
        let mut from = low;
        while from <= high {
            kinds.push(pick(&|e| (from..from * factor).contains(&value(e))));
            from *= f64::sqrt(factor);
        }
    }
    kinds.retain(|kind| kind.len() >= 4);
    kinds.dedup();
    kinds
}

/// A row of excursions after equal times.
struct Row {
    chance: f64,
    period_s: f64,
    members: Vec<usize>,
}

/// The row that chance would make least likely, if it is too unlikely for chance.
fn row(all: &[Excursion], kind: &[usize]) -> Option<Row> {
    let times: Vec<f64> = kind.iter().map(|at| all[*at].at_s).collect();
    let span_s = times.last()? - times.first()?;
    let density = times.len() as f64 / span_s;
    let candidates = periods(&times);
    let mut best: Option<Row> = None;
    for period_s in &candidates {
        let Some(chain) = longest(&times, *period_s) else { continue };
        let (first, last) = (chain.members[0], chain.members[chain.members.len() - 1]);
        let lasts_s = times[last] - times[first];
        // The chance that something lies where the next is due, and that it does so all along the chain.
        let reach_s = 2.0 * loose(*period_s) * f64::from(chain.widest);
        let hit = 1.0 - (-density * reach_s).exp();
        let tries = KINDS * (times.len() * candidates.len()) as f64 * f64::from(MISSING + 1);
        let chance = tries * hit.powi(chain.members.len() as i32 - 1);
        let throughout = lasts_s >= 0.5 * span_s;
        if throughout && chance < CHANCE && best.as_ref().is_none_or(|best| chance < best.chance) {
            let members = chain.members.iter().map(|at| kind[*at]).collect();
            best = Some(Row { chance, period_s: lasts_s / (lasts_s / period_s).round(), members });
        }
    }
    best
}

/// How far one may be from its time: a share of the period, and a tick of slow senders.
fn loose(period_s: f64) -> f64 {
    LOOSE * period_s + (0.02 * period_s).min(0.01)
}

/// Distances that come often, as candidates for a period.
fn periods(times: &[f64]) -> Vec<f64> {
    let mut distances: Vec<f64> = Vec::new();
    for (at, from) in times.iter().enumerate() {
        distances.extend(times[at + 1..].iter().take(AHEAD).map(|to| to - from).filter(|d| *d > 0.0));
    }
    distances.sort_by(f64::total_cmp);
    // The best-filled windows of distances, each as wide as one may be off.
    let mut windows: Vec<(usize, f64)> = Vec::new();
    let (mut low, mut next) = (0, 0.0);
    for high in 0..distances.len() {
        while distances[low] < distances[high] * (1.0 - LOOSE) {
            low += 1;
        }
        let (count, middle) = (high - low + 1, distances[low + (high - low) / 2]);
        match windows.last_mut() {
            Some(last) if middle < next => {
                if count > last.0 {
                    *last = (count, middle);
                }
            }
            _ => {
                windows.push((count, middle));
                next = middle * (1.0 + LOOSE);
            }
        }
    }
    windows.sort_by_key(|window| std::cmp::Reverse(window.0));
    windows.into_iter().take(12).filter(|window| window.0 >= 3).map(|window| window.1).collect()
}

/// Times a period apart.
struct Chain {
    members: Vec<usize>,
    /// Of neighbours, the most periods between two: 1 if none is missing.
    widest: u32,
}

/// The longest row of times that are a period apart; a few may be missing here and there.
fn longest(times: &[f64], period_s: f64) -> Option<Chain> {
    let loose_s = loose(period_s);
    let mut taken = vec![false; times.len()];
    let mut best = Chain { members: Vec::new(), widest: 1 };
    for start in 0..times.len() {
        if taken[start] {
            continue;
        }
        let (mut members, mut missing, mut widest, mut last) = (vec![start], 0, 1, start);
        while let Some((found, steps)) = next(times, last, period_s, loose_s) {
            taken[found] = true;
            members.push(found);
            missing += steps - 1;
            widest = widest.max(steps);
            last = found;
        }
        // A period of which most are missing is a part of the true one.
        if members.len() > best.members.len() && missing as usize * 3 <= members.len() {
            best = Chain { members, widest };
        }
    }
    (best.members.len() >= 4).then_some(best)
}

/// What comes nearest to where the next is due after `last`, or one of those after it; and after how many periods.
fn next(times: &[f64], last: usize, period_s: f64, loose_s: f64) -> Option<(usize, u32)> {
    (1..=MISSING + 1).find_map(|steps| {
        let due_s = times[last] + period_s * f64::from(steps);
        let from = times.partition_point(|t| *t < due_s - loose_s).max(last + 1);
        let near = (from..times.len()).take_while(|at| times[*at] <= due_s + loose_s);
        let off = |at: &usize| (times[*at] - due_s).abs();
        Some((near.min_by(|a, b| off(a).total_cmp(&off(b)))?, steps))
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_emu::noise::Noise;

    /// Watches round trips at 100 Hz for so many seconds.
    fn watched(seconds: u64, mut round_trip_ns: impl FnMut(f64) -> f64) -> Vec<Excursion> {
        let mut watch = Watch::default();
        let ticks = (0..seconds * 100).map(|tick| tick as i64 * 10_000_000);
        ticks.filter_map(|at_ns| watch.see(at_ns, round_trip_ns(at_ns as f64 / 1e9) as i64)).collect()
    }

    /// The modes of HEBI Robotics' baseline: every 5.3 minutes 15 s of up to 4 µs more; exactly every 5 s one of 210 µs;
    /// about every hour ten that rise to 150 µs more.
    fn published(t: f64) -> f64 {
        let one = if t % 318.0 < 15.0 { 4_000.0 } else { 0.0 };
        let three = if t % 3_601.7 < 0.099 { 15_000.0 * ((t % 3_601.7) / 0.01 + 1.0) } else { 0.0 };
        let usual = 193_000.0 + one + three;
        if t % 5.0 < 0.009 { 210_000f64.max(usual) } else { usual }
    }

    #[test]
    fn the_published_modes_are_found() {
        let mut noise = Noise::new(1);
        let modes = modes(&watched(8 * 3_600, |t| published(t + 2.503) + noise.normal(150.0)));
        let near = |period_s: f64| modes.iter().find(|mode| (mode.period_s / period_s - 1.0).abs() < 0.01);
        let (one, two, three) = (near(318.0), near(5.0), near(3_601.7));
        let one = one.unwrap_or_else(|| panic!("no mode 1 in {modes:?}"));
        assert!((14.0..16.0).contains(&one.lasts_s), "{one:?}");
        let two = two.unwrap_or_else(|| panic!("no mode 2 in {modes:?}"));
        assert!(two.lasts_s < 0.02 && (16_000.0..18_000.0).contains(&two.added_ns), "{two:?}");
        let three = three.unwrap_or_else(|| panic!("no mode 3 in {modes:?}"));
        assert!((0.05..0.15).contains(&three.lasts_s) && three.added_ns > 130_000.0, "{three:?}");
        assert_eq!(modes.len(), 3, "{modes:?}");
    }

    #[test]
    fn noise_has_no_modes() {
        for seed in 0..10 {
            let mut noise = Noise::new(seed);
            // Heavy tails: now and then something delays a round trip, at no set time.
            let excursions = watched(1_800, |_| {
                let delayed = noise.normal(1.0) > 2.0 + seed as f64 / 10.0;
                let size = noise.normal(30_000.0).abs();
                100_000.0 + noise.normal(500.0) + if delayed { 10_000.0 + size } else { 0.0 }
            });
            assert!(excursions.len() > 50, "{}", excursions.len());
            assert_eq!(modes(&excursions), [], "seed {seed}");
        }
    }

    #[test]
    fn a_mode_is_found_among_noise() {
        let mut noise = Noise::new(3);
        let modes = modes(&watched(600, |t| {
            let delayed = if noise.normal(1.0) > 2.6 { noise.normal(40_000.0).abs() } else { 0.0 };
            let mode = if (t + 0.003) % 2.0 < 0.009 { 25_000.0 } else { 0.0 };
            100_000.0 + noise.normal(300.0) + delayed + mode
        }));
        assert_eq!(modes.len(), 1, "{modes:?}");
        assert!((modes[0].period_s - 2.0).abs() < 0.01 && modes[0].count > 200, "{modes:?}");
    }

    #[test]
    fn excursions_stay_bounded_and_the_large_ones_stay() {
        let mut excursions = Excursions::default();
        for i in 0..200_000u32 {
            let added_ns = if i == 77 { 1e9 } else { f64::from(i % 1_000) };
            excursions.push(Excursion { at_s: f64::from(i), lasts_s: 0.0, added_ns });
        }
        assert!(excursions.all().len() <= MOST);
        assert!(excursions.all().iter().any(|e| e.added_ns == 1e9));
    }

    #[test]
    fn nothing_and_equal_times_have_no_modes() {
        assert_eq!(modes(&[]), []);
        assert_eq!(modes(&[Excursion { at_s: 1.0, lasts_s: 0.0, added_ns: 5.0 }; 100]), []);
    }
}
