//! What a run learned: saved, shown, compared.
mod page;
mod verdict;

use super::modes::{Excursions, Mode, modes};
use super::plan::Plan;
use super::planned::{PlannedResults, of_all};
use super::tally::{DeviceTally, Split, Tally};
use super::theory::{Network, Shares, Theory};
use super::{Ask, Counts, Receive, Unattended, Unexpected};
use khz_page::{Distribution, Measured};
use khz_rt::{Passport, Report, Wake};
use serde::{Deserialize, Serialize};

/// The results of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// What kind of results these are, and of which version of this program's format.
    pub format: String,
    /// The name of the run.
    pub name: String,
    /// How the devices were asked.
    pub ask: Ask,
    /// How answers were waited for.
    pub receive: Receive,
    /// Ticks per second asked for.
    pub rate_hz: Option<f64>,
    /// Bytes of a datagram.
    pub payload: usize,
    /// How the sender waited for its ticks; not in results saved before 2026-11-22.
    #[serde(default)]
    pub wake: Option<Wake>,
    /// For how long the kernel polled the network card, µs; not in results saved before 2026-11-22.
    #[serde(default)]
    pub busy_poll_us: Option<u32>,
    /// The network between, if it was given: for the theory beside the measurement.
    #[serde(default)]
    pub network: Option<Network>,
    /// When the run began, ns since 1970.
    #[serde(default)]
    pub begun_ns: i64,
    /// What was asked for and not to be had, and why.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Ticks in which was asked.
    pub ticks: u64,
    /// The same over all planned periods; results saved before 2026-11-22 have none of this.
    #[serde(default)]
    pub planned: Option<PlannedResults>,
    /// Ticks that did not get all their answers in time.
    pub incomplete: u64,
    /// From a tick's first question to its last answer, of ticks that got all, ns.
    pub cycle: Measured,
    /// How late the sender's own ticks began after the time waited for, ns.
    pub late_ticks: Measured,
    /// Device by device.
    pub devices: Vec<DeviceResults>,
    /// Cycles that took unusually long.
    #[serde(default)]
    pub excursions: Excursions,
    /// Round trips split by the kernel's own times, if it was asked for them.
    #[serde(default)]
    pub split: Option<SplitResults>,
    /// What came and was no answer of this run.
    #[serde(alias = "strangers")]
    pub unexpected: Unexpected,
    /// Answers that came while the sender waited for its next tick.
    #[serde(default)]
    pub unattended: Unattended,
    /// What lets no more answers through where it is known that the devices are there, and what to do.
    #[serde(default)]
    pub limit: Option<String>,
    /// CPU time the hypervisor gave to others meanwhile, over all CPUs, ns.
    pub steal_ns: i64,
    /// The machine.
    pub passport: Passport,
    /// What the sending thread was granted.
    pub setup: Report,
}

/// The results of one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceResults {
    /// Its address.
    pub address: String,
    /// What became of the questions.
    pub counts: Counts,
    /// Its round trips, ns.
    pub round_trip: Measured,
    /// How long it held the requests, by its own clock, ns.
    pub held: Distribution,
}

/// As [`Split`], all ns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitResults {
    /// From the program to the kernel's handing the question to the network card.
    pub out: Distribution,
    /// From there to the answer's arrival in the kernel.
    pub between: Distribution,
    /// From there to the program.
    pub back: Distribution,
    /// From the card's sending to its receiving, by the card's clock; empty if no card reports it.
    pub card: Distribution,
    /// Round trips that could not be split.
    pub missing: u64,
}

impl From<&Split> for SplitResults {
    fn from(split: &Split) -> Self {
        Self {
            out: Distribution::from_ns(split.out.values()),
            between: Distribution::from_ns(split.between.values()),
            back: Distribution::from_ns(split.back.values()),
            card: Distribution::from_ns(split.card.values()),
            missing: split.missing,
        }
    }
}

impl SplitResults {
    fn absorb(&mut self, later: &Self) {
        for (mine, other) in [
            (&mut self.out, &later.out),
            (&mut self.between, &later.between),
            (&mut self.back, &later.back),
            (&mut self.card, &later.card),
        ] {
            *mine = Distribution::from_counts(mine.counts().chain(other.counts()));
        }
        self.missing += later.missing;
    }

    /// The parts with their names.
    fn parts(&self) -> [(&'static str, &Distribution); 4] {
        [
            ("program to network card (kernel's time)", &self.out),
            ("wire, switches and device (kernel's times)", &self.between),
            ("network card to program (kernel's time)", &self.back),
            ("wire, switches and device (the card's own times)", &self.card),
        ]
    }
}

/// The format of [`Results`] as JSON.
const FORMAT: &str = "khz-rtt-1";

impl Results {
    /// Of what was counted since `begun_ns` (since 1970).
    pub(super) fn new(plan: &Plan, tally: &Tally, setup: &Report, begun_ns: i64, steal_ns: i64) -> Self {
        Self {
            format: FORMAT.into(),
            name: plan.name.clone(),
            ask: plan.ask,
            receive: plan.receive,
            rate_hz: plan.rate_hz,
            payload: plan.payload,
            wake: Some(plan.wake),
            busy_poll_us: Some(plan.busy_poll_us),
            network: plan.network,
            begun_ns,
            notes: Vec::new(),
            ticks: tally.ticks,
            planned: Some(PlannedResults::new(tally)),
            incomplete: tally.incomplete,
            cycle: tally.cycle.measured(),
            late_ticks: tally.late_ticks.measured(),
            devices: tally.devices.iter().map(DeviceResults::new).collect(),
            excursions: tally.excursions.clone(),
            split: plan.stamps.then(|| (&tally.split).into()),
            unexpected: tally.unexpected,
            unattended: tally.unattended,
            limit: None,
            steal_ns,
            passport: Passport::read(),
            setup: setup.clone(),
        }
    }

    /// Whether a text was saved by `khz rtt`, of whatever version.
    pub fn is_saved_as(text: &str) -> bool {
        text.trim_start().starts_with("{\"format\":\"khz-rtt-")
    }

    /// Reads what was saved as JSON.
    ///
    /// # Errors
    /// If it is damaged, or was not saved by `khz rtt`, or by another version of it.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|e| format!("not whole JSON: {e}"))?;
        match value.get("format").and_then(|f| f.as_str()) {
            Some(FORMAT) => serde_json::from_value(value).map_err(|e| format!("not results of khz rtt: {e}")),
            Some(other) => Err(format!("results of format `{other}`; this program reads `{FORMAT}`")),
            None => Err("not results of khz rtt: it has no `format`".into()),
        }
    }

    /// All round trips of all devices.
    pub fn round_trips(&self) -> Distribution {
        Distribution::from_counts(self.devices.iter().flat_map(|d| d.round_trip.values.counts()))
    }

    /// All counts of all devices.
    pub fn counts(&self) -> Counts {
        let mut all = Counts::default();
        self.devices.iter().for_each(|device| all += device.counts);
        all
    }

    /// Adds what was measured later with the same plan, on the time axis of this.
    pub fn absorb(&mut self, later: &Self) {
        let shift_s = (later.begun_ns - self.begun_ns) as f64 / 1e9;
        self.ticks += later.ticks;
        self.incomplete += later.incomplete;
        self.cycle.absorb(&later.cycle, shift_s);
        self.late_ticks.absorb(&later.late_ticks, shift_s);
        for device in &later.devices {
            match self.devices.iter_mut().find(|known| known.address == device.address) {
                Some(known) => known.absorb(device, shift_s),
                None => self.devices.push(device.clone()),
            }
        }
        self.excursions.absorb(&later.excursions, shift_s);
        match (&mut self.split, &later.split) {
            (Some(split), Some(later)) => split.absorb(later),
            (None, Some(later)) => self.split = Some(later.clone()),
            (_, None) => {}
        }
        self.unexpected += later.unexpected;
        self.unattended += later.unattended;
        self.planned = match (self.planned.take(), &later.planned) {
            (Some(planned), Some(later)) => Some(planned.and(later)),
            // Of a part nothing is known.
            _ => None,
        };
        self.steal_ns += later.steal_ns;
        if let Some(note) = set_ups_differ(&self.setup, &later.setup) {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
            // The grade of the whole holds for each part: it is the lowest.
            if later.setup.grade < self.setup.grade {
                self.setup = later.setup.clone();
            }
        }
        for note in &later.notes {
            if !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
    }

    /// Whether a run of this plan can go on from these results.
    ///
    /// # Errors
    /// What differs.
    pub fn goes_on_with(&self, plan: &Plan) -> Result<(), String> {
        let differs = |what: &str, was: String, is: String| {
            if was == is { Ok(()) } else { Err(format!("{what} was {was} and is now {is}")) }
        };
        differs("the way of asking", self.ask.word().into(), plan.ask.word().into())?;
        differs("the rate", format!("{:?}", self.rate_hz), format!("{:?}", plan.rate_hz))?;
        differs("the payload", self.payload.to_string(), plan.payload.to_string())?;
        differs("the way of receiving", self.receive.word().into(), plan.receive.word().into())?;
        if let Some(wake) = self.wake {
            differs("the way of waiting for a tick (--wake)", wake.to_string(), plan.wake.to_string())?;
        }
        if let Some(us) = self.busy_poll_us {
            differs("--busy-poll", us.to_string(), plan.busy_poll_us.to_string())?;
        }
        let network = |network: Option<Network>| network.map_or("not specified".into(), |n| n.to_string());
        differs("the network", network(self.network), network(plan.network))?;
        let stamps = |stamps: bool| if stamps { "on" } else { "off" };
        differs("--stamps", stamps(self.split.is_some()).into(), stamps(plan.stamps).into())?;
        let mut targets: Vec<String> = plan.targets.iter().map(ToString::to_string).collect();
        let mut devices: Vec<String> = self.devices.iter().map(|device| device.address.clone()).collect();
        targets.sort_unstable();
        devices.sort_unstable();
        // Who answers a broadcast is not in the plan.
        if plan.ask == Ask::Broadcast {
            Ok(())
        } else {
            differs("the devices", devices.join(" "), targets.join(" "))
        }
    }

    /// The periodic modes among the cycles that took unusually long.
    pub fn modes(&self) -> Vec<Mode> {
        modes(self.excursions.all())
    }

    /// What was not as it should be though every question was answered, empty if nothing: `225 late, 225 of 300 ticks
    /// incomplete`.
    pub fn warnings(&self) -> String {
        let counts = self.counts();
        let counted = [(counts.late, "late"), (counts.duplicates, "duplicates"), (counts.corrupt, "corrupt")];
        let counted =
            counted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let incomplete =
            (self.incomplete > 0).then(|| format!("{} of {} ticks incomplete", self.incomplete, self.ticks));
        counted.chain(incomplete).collect::<Vec<_>>().join(", ")
    }

    /// The time within which the fraction `q` of all planned ticks had all their answers, ns; none if fewer ever had. Ticks
    /// of a broadcast that had still to find out who answers are left out.
    pub fn cycle_planned_ns(&self, q: f64) -> Option<f64> {
        let missed = self.planned.as_ref().map_or(0, |planned| planned.missed);
        of_all(&self.cycle.values, self.cycle.values.count() + self.incomplete + missed, q)
    }

    /// What kept the run from being whole, empty if it was: `3 lost, 20 never asked`.
    pub fn problems(&self) -> String {
        let missed = self.planned.as_ref().map_or(0, |planned| planned.missed);
        let problems =
            [(self.counts().lost(), "lost"), (missed, "never asked"), (self.counts().unsent, "not sent")];
        let message =
            problems.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let message: Vec<String> = message.collect();
        if message.is_empty() && self.counts().answered == 0 {
            "no answer".into()
        } else {
            message.join(", ")
        }
    }

    /// What the wire alone takes, if the network is known.
    pub fn theory(&self) -> Option<Theory> {
        self.network.map(|network| network.theory(self.payload, self.devices.len()))
    }

    /// The typical round trip taken apart, if the network is known and anyone answered. The answers of many devices
    /// asked at once also wait for each other, which is in the rest.
    pub fn shares(&self) -> Option<Shares> {
        let held = Distribution::from_counts(self.devices.iter().flat_map(|d| d.held.counts()));
        Some(Shares::new(&self.theory()?, self.round_trips().quantile(0.5)?, held.quantile(0.5)?))
    }
}

/// What a reader must know of results of two parts whose threads got different things of the kernel.
fn set_ups_differ(earlier: &Report, later: &Report) -> Option<String> {
    let grades = (earlier.grade != later.grade)
        .then(|| format!("sending thread {} and {}", earlier.grade, later.grade))
        .into_iter();
    let settings = earlier.settings.iter().filter_map(|was| {
        let is = later.settings.iter().find(|is| is.name == was.name)?;
        (was.granted != is.granted).then(|| format!("{} {} and {}", was.name, was.granted, is.granted))
    });
    let differences: Vec<String> = grades.chain(settings).collect();
    (!differences.is_empty())
        .then(|| format!("the parts of this measurement had different set-ups: {}", differences.join(", ")))
}

impl DeviceResults {
    fn new(device: &DeviceTally) -> Self {
        Self {
            address: device.address.to_string(),
            counts: device.counts,
            round_trip: device.round_trip.measured(),
            held: Distribution::from_ns(device.held.values()),
        }
    }

    fn absorb(&mut self, later: &Self, shift_s: f64) {
        self.counts += later.counts;
        self.round_trip.absorb(&later.round_trip, shift_s);
        self.held = Distribution::from_counts(self.held.counts().chain(later.held.counts()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let plan = Plan::new(vec![([127, 0, 0, 1], 7755).into()]);
        let tally = Tally::new(plan.targets.iter().copied());
        let setup = Report { thread: "t".into(), grade: khz_rt::Grade::Ordinary, settings: Vec::new() };
        Results { passport: Passport::default(), ..Results::new(&plan, &tally, &setup, 0, 0) }
    }

    /// Results of one answered question at this time.
    fn answered(begun_ns: i64, round_trip_ns: i64) -> Results {
        let mut results = results();
        results.begun_ns = begun_ns;
        results.ticks = 1;
        results.cycle = Measured::from_points([(0.5, round_trip_ns as f64)]);
        let device = &mut results.devices[0];
        device.counts = Counts { sent: 1, answered: 1, ..Counts::default() };
        device.round_trip = Measured::from_points([(0.5, round_trip_ns as f64)]);
        results
    }

    #[test]
    fn what_comes_later_is_added_at_its_time() {
        let mut whole = answered(1_000_000_000, 100);
        whole.absorb(&answered(61_000_000_000, 300));
        assert_eq!((whole.ticks, whole.counts().answered, whole.devices.len()), (2, 2, 1));
        assert_eq!(whole.cycle.trace.points(), [(0.5, 100.0), (60.5, 300.0)]);
        assert_eq!((whole.round_trips().count(), whole.round_trips().max()), (2, Some(300.0)));
    }

    #[test]
    fn another_plan_does_not_go_on() {
        let plan = Plan::new(vec![([127, 0, 0, 1], 7755).into()]);
        assert_eq!(results().goes_on_with(&plan), Ok(()));
        let gigabit = Network {
            sender_bits_per_second: 1_000_000_000,
            device_bits_per_second: 1_000_000_000,
            switches: 1,
            switch_delay_ns: 0,
        };
        for (plan, words) in [
            (Plan { payload: 100, ..plan.clone() }, "payload was 200 and is now 100"),
            (Plan { rate_hz: None, ..plan.clone() }, "rate"),
            (Plan { wake: Wake::Spin, ..plan.clone() }, "--wake) was hybrid and is now spin"),
            (Plan { busy_poll_us: 50, ..plan.clone() }, "--busy-poll was 0 and is now 50"),
            (Plan { stamps: true, ..plan.clone() }, "--stamps was off and is now on"),
            (Plan { network: Some(gigabit), ..plan.clone() }, "the network was not specified and is now"),
            (Plan::new(vec![([127, 0, 0, 2], 7755).into()]), "devices"),
        ] {
            let why = results().goes_on_with(&plan).err().unwrap_or_default();
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn parts_with_different_set_ups_are_not_labelled_with_that_of_the_last() {
        let mut whole = answered(1_000_000_000, 100);
        let mut later = answered(61_000_000_000, 100);
        later.setup.grade = khz_rt::Grade::RealTime;
        whole.absorb(&later);
        whole.absorb(&later);
        assert_eq!(whole.setup.grade, khz_rt::Grade::Ordinary);
        let note =
            "the parts of this measurement had different set-ups: sending thread ordinary and real-time";
        assert_eq!(whole.notes, [note]);
        // The other way round the grade is the lower one, too.
        later.absorb(&answered(121_000_000_000, 100));
        assert_eq!((later.setup.grade, later.notes.len()), (khz_rt::Grade::Ordinary, 1));
    }

    #[test]
    fn what_is_saved_comes_back() {
        let text = serde_json::to_string(&results()).unwrap_or_default();
        assert!(Results::is_saved_as(&text));
        let back = Results::from_json(&text).map(|back| serde_json::to_string(&back).unwrap_or_default());
        assert_eq!(back, Ok(text));
    }

    /// Saved by the version before the figures over planned periods.
    #[test]
    fn results_saved_before_are_read_and_their_gaps_left_open() {
        let mut old: serde_json::Value = serde_json::to_value(results()).unwrap_or_default();
        let counts = serde_json::json!({"foreign": 3, "other_runs": 0, "requests": 0, "unknown_devices": 0, "never_asked": 0});
        if let Some(fields) = old.as_object_mut() {
            for new in ["planned", "unattended", "unexpected", "wake", "busy_poll_us"] {
                fields.remove(new);
            }
            fields.insert("strangers".into(), counts);
        }
        let mut old = Results::from_json(&old.to_string()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((old.unexpected.other_protocol, &old.planned), (3, &None));
        old.absorb(&answered(1, 100));
        assert_eq!(old.planned, None, "of the first part nobody knows");
        assert!(crate::comparison_page(&[old, results()]).to_string().contains("never asked"));
    }

    #[test]
    fn every_truncation_and_another_version_are_refused() {
        let text = serde_json::to_string(&results()).unwrap_or_default();
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            assert!(Results::from_json(&text[..end]).is_err(), "cut at {end}");
        }
        let other = text.replacen(FORMAT, "khz-rtt-0", 1);
        assert!(Results::from_json(&other).is_err_and(|e| e.contains("khz-rtt-0")));
        assert!(Results::from_json("{}").is_err_and(|e| e.contains("format")));
    }

    /// Of four ticks three got their answer after their period: each was answered.
    #[test]
    fn a_run_whose_answers_were_late_is_not_good_and_has_no_fast_cycle() {
        let mut late = answered(0, 229_000);
        (late.ticks, late.incomplete) = (4, 3);
        late.devices[0].counts = Counts { sent: 4, answered: 4, late: 3, ..Counts::default() };
        let verdict = late.verdict();
        assert_eq!(verdict.level, khz_page::Level::Warning);
        assert_eq!(verdict.headline, "all answered, 3 late, 3 of 4 ticks incomplete");
        assert_eq!([0.25, 0.5, 0.99].map(|q| late.cycle_planned_ns(q)), [Some(229_000.0), None, None]);
        let page = late.page().to_string();
        assert!(page.contains("incomplete ticks") && !page.contains("all answered in time"), "{page}");
    }

    #[test]
    fn every_note_is_on_the_page() {
        let notes = vec!["first note".into(), "second note".into()];
        let page = Results { notes, ..results() }.page().to_string();
        assert!(page.contains("first note") && page.contains("second note"));
    }

    #[test]
    fn a_run_without_an_answer_has_a_page() {
        let page = crate::comparison_page(&[results(), results()]).to_string();
        assert!(page.contains("Side by side"));
        assert!(results().page().to_string().contains("no answer"));
    }
}
