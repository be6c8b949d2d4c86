//! Where the time of a tick goes: named sections, and which of them made a tick long.

use crate::histogram::{Histogram, Summary};
use serde::{Deserialize, Serialize};

/// Times named sections of a tick.
///
/// ```
/// use khz_rt::Profile;
/// let mut profile = Profile::new();
/// let filter = profile.section("filter");
/// for (tick, took_ns) in [(0, 900), (1, 7_000), (2, 1_000)] {
///     profile.begin(filter, 0);
///     profile.end(filter, took_ns);
///     profile.tick(tick);
/// }
/// let filter = &profile.summary()[0];
/// assert_eq!((filter.time.p50, filter.time.max, filter.time.max_at), (1_000, 7_000, 1));
/// ```
///
/// Realtime: only [`Profile::section`] allocates. Time is given by the caller, so one reading of the clock
/// can end one section and begin the next.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    sections: Vec<Section>,
}

/// One step of a running median is this part of it.
const MEDIAN_STEPS: i64 = 64;

/// What a time usually is: begins with the first value and goes a step of 1/64 of itself (at least 1 ns) towards each
/// further one, so it is near the median after some hundred. Reading a median off a histogram takes too long for a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunningMedian(Option<i64>);

impl RunningMedian {
    /// Of no value yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(None)
    }

    /// Takes in a value, ns.
    #[inline]
    pub fn record(&mut self, ns: i64) {
        let step = |usual_ns: i64| (ns - usual_ns).signum() * (usual_ns / MEDIAN_STEPS).max(1);
        self.0 = Some(self.0.map_or(ns, |usual_ns| usual_ns + step(usual_ns)));
    }

    /// What is usual, ns; `None` before the first value.
    #[inline]
    #[must_use]
    pub fn ns(self) -> Option<i64> {
        self.0
    }
}

/// A section of a [`Profile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionId(usize);

impl SectionId {
    /// Its place in [`Profile::summary`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

#[derive(Clone, Debug)]
struct Section {
    name: String,
    times: Histogram,
    usual: RunningMedian,
    begun_ns: i64,
    /// Summed within the tick, for sections entered more than once.
    spent_ns: i64,
    entered: bool,
}

impl Profile {
    /// One without sections.
    #[must_use]
    pub fn new() -> Profile {
        Profile::default()
    }

    /// Adds a section, or finds the one of that name. Takes about 220 kB; not for the tick.
    pub fn section(&mut self, name: &str) -> SectionId {
        let known = self.sections.iter().position(|section| section.name == name);
        SectionId(known.unwrap_or_else(|| {
            let times = Histogram::new();
            self.sections.push(Section {
                name: name.to_owned(),
                times,
                usual: RunningMedian::default(),
                begun_ns: 0,
                spent_ns: 0,
                entered: false,
            });
            self.sections.len() - 1
        }))
    }

    /// The section begins.
    #[inline]
    pub fn begin(&mut self, SectionId(index): SectionId, now_ns: i64) {
        self.sections[index].begun_ns = now_ns;
        self.sections[index].entered = true;
    }

    /// The section ends; may be entered again in the same tick.
    #[inline]
    pub fn end(&mut self, SectionId(index): SectionId, now_ns: i64) {
        let section = &mut self.sections[index];
        section.spent_ns += now_ns - section.begun_ns;
    }

    /// The section took this long, for callers that time it themselves.
    #[inline]
    pub fn add(&mut self, SectionId(index): SectionId, ns: i64) {
        self.sections[index].spent_ns += ns;
        self.sections[index].entered = true;
    }

    /// The tick is over: records what each section entered took in it.
    #[inline]
    pub fn tick(&mut self, number: u64) {
        for section in self.sections.iter_mut().filter(|section| section.entered) {
            section.usual.record(section.spent_ns);
            section.times.record(section.spent_ns, number as i64);
            (section.spent_ns, section.entered) = (0, false);
        }
    }

    /// The section that exceeds its usual time (a running median) by most in the present tick, and by how
    /// much: to be asked before [`Profile::tick`] when the tick was late. `None` if none is over it.
    #[must_use]
    pub fn blame(&self) -> Option<(SectionId, i64)> {
        self.blame_of(|_| true)
    }

    /// As [`Profile::blame`], among some of the sections.
    #[must_use]
    pub fn blame_of(&self, wanted: impl Fn(SectionId) -> bool) -> Option<(SectionId, i64)> {
        let entered = self.sections.iter().enumerate().filter(|(_, section)| section.entered);
        let excess = entered
            .map(|(index, section)| (SectionId(index), section.spent_ns - section.usual.ns().unwrap_or(0)))
            .filter(|&(id, ns)| ns > 0 && wanted(id));
        excess.max_by_key(|&(_, ns)| ns)
    }

    /// What a section usually takes: a running median, good to some percent. 0 before its first tick.
    #[inline]
    #[must_use]
    pub fn usual_ns(&self, SectionId(index): SectionId) -> i64 {
        self.sections[index].usual.ns().unwrap_or(0)
    }

    /// A section's name.
    #[must_use]
    pub fn name(&self, SectionId(index): SectionId) -> &str {
        &self.sections[index].name
    }

    /// The figures of every section, in the order they were added.
    #[must_use]
    pub fn summary(&self) -> Vec<SectionSummary> {
        let summary =
            |section: &Section| SectionSummary { name: section.name.clone(), time: section.times.summary() };
        self.sections.iter().map(summary).collect()
    }
}

/// The figures of one section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SectionSummary {
    /// Its name.
    pub name: String,
    /// Time per tick in which it was entered; `max_at` is the number of its worst tick.
    pub time: Summary,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_entered_twice_counts_once_per_tick_with_the_sum() {
        let mut profile = Profile::new();
        let send = profile.section("send");
        for (from, to) in [(0, 100), (500, 700)] {
            profile.begin(send, from);
            profile.end(send, to);
        }
        profile.tick(0);
        let time = profile.summary()[0].time;
        assert_eq!((time.count, time.max), (1, 300));
    }

    #[test]
    fn the_section_furthest_over_its_median_is_blamed() {
        let mut profile = Profile::new();
        let (bus, control) = (profile.section("bus"), profile.section("controller"));
        let mut run = |bus_ns, control_ns, number| {
            profile.begin(bus, 0);
            profile.end(bus, bus_ns);
            profile.begin(control, bus_ns);
            profile.end(control, bus_ns + control_ns);
            let blame = profile.blame().map(|(id, ns)| (profile.name(id).to_owned(), ns));
            profile.tick(number);
            blame
        };
        for number in 0..9 {
            run(400, 50, number);
        }
        assert_eq!(run(420, 300, 9), Some(("controller".into(), 250)));
        assert_eq!(run(400, 50, 10), None);
    }

    #[test]
    fn the_usual_time_follows_the_median_and_not_the_mean() {
        let mut profile = Profile::new();
        let work = profile.section("work");
        for number in 0..5_000 {
            profile
                .add(work, if number % 4 == 3 { 900_000 } else { 10_000 + (number * 7_919 % 1_000) as i64 });
            profile.tick(number);
        }
        // Three quarters are spread over 10 to 11 µs, and the mean is far above them.
        assert!((10_000..11_500).contains(&profile.usual_ns(work)), "{}", profile.usual_ns(work));
    }

    #[test]
    fn the_same_name_is_the_same_section() {
        let mut profile = Profile::new();
        assert_eq!(profile.section("imu"), profile.section("imu"));
        assert_eq!(profile.summary().len(), 1);
    }
}
