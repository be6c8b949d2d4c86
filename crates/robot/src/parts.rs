//! Where the time of ticks goes, part by part, and which part made a tick late.
//!
//! | part | is |
//! |---|---|
//! | `wake` | from the time the loop waited for, or the end of the tick before if that was later, until the tick started |
//! | `previous tick` | from the time waited for until the tick before had ended and been handed over, if that was later |
//! | `encode` | taking in what came since, and encoding the frames |
//! | `send` | handing them to the links |
//! | `bus` | until the last servo's reply was decoded, or the bus deadline |
//! | `imu` | after that, waiting for the IMU alone |
//! | `control` | the controller; only ticks in which it computed commands |
//! | `supervise` | the supervisor, and bookkeeping |
//! | `record` | handing the tick before over to recorder, statistics and live view |
//!
//! Of the controlled ticks ([`TickTiming::controlled`]) alone.

use crate::run::{Observer, Tick};
use crate::tick::TickTiming;
use khz_rt::late::{Causes, LateLog, LateTick};
use khz_rt::{Cause, Profile, SectionId, SectionSummary};

/// The parts of our own, in the order of a tick. Those up to [`LAST_IN_TICK`] add up to the response.
const NAMES: [&str; 9] =
    ["wake", "previous tick", "encode", "send", "bus", "imu", "control", "supervise", "record"];
const PREVIOUS: usize = 1;
const BUS: usize = 4;
const IMU: usize = 5;
const CONTROL: usize = 6;
const LAST_IN_TICK: usize = 7;
const RECORD: usize = 8;
/// Not shown: from the time waited for to the end.
const RESPONSE: &str = "response";

/// Controlled ticks after which what is usual is known; until then none is judged.
pub const LEARNING: u64 = 100;

/// Late ticks kept.
const MOST_LATE: usize = 100;

/// Profiles every tick of a run and blames late ticks on their parts.
///
/// # Realtime contract
/// Allocates only in [`TickProfile::new`]: some 220 kB per part.
pub struct TickProfile {
    profile: Profile,
    parts: [SectionId; NAMES.len()],
    response: SectionId,
    late: LateLog,
    /// Ticks profiled.
    ticks: u64,
    /// The part of the last tick that was most over its usual time.
    blamed_before: Option<SectionId>,
}

/// The time of the ticks of a run, part by part.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// The figures of each part, in the order of a tick; a part never entered has a count of 0.
    pub parts: Vec<SectionSummary>,
    /// From how much over the usual response on a tick counts as late.
    pub threshold_ns: i64,
    /// Ticks that were judged: all controlled ones but the first [`LEARNING`].
    pub judged: u64,
    /// How many of these were late, by what the kernel knows of each.
    pub causes: Causes,
    /// The worst of them, by number; [`LateTick::part`] is an index of `parts`.
    pub late: Vec<LateTick>,
}

impl TickProfile {
    /// Nothing profiled yet. A tick whose response exceeds the usual one by more than `late_ns` is late.
    pub fn new(late_ns: i64) -> Self {
        let mut profile = Profile::new();
        let parts = NAMES.map(|name| profile.section(name));
        let response = profile.section(RESPONSE);
        let late = LateLog::new(late_ns, MOST_LATE);
        Self { profile, parts, response, late, ticks: 0, blamed_before: None }
    }

    /// What the run was like. Not for the tick: allocates.
    pub fn finish(&self) -> Parts {
        let mut parts = self.profile.summary();
        parts.retain(|part| part.name != RESPONSE);
        Parts {
            parts,
            threshold_ns: self.late.threshold_ns(),
            judged: self.ticks.saturating_sub(LEARNING),
            causes: self.late.causes(),
            late: self.late.worst(),
        }
    }

    /// The part this tick is late by.
    fn blame(&self, timing: &TickTiming, before_ns: i64) -> Option<SectionId> {
        let (part, _) = self.profile.blame_of(|id| id.index() <= LAST_IN_TICK)?;
        match part.index() {
            PREVIOUS if timing.record_ns * 2 > before_ns => Some(self.parts[RECORD]),
            PREVIOUS => self.blamed_before.or(Some(part)),
            _ => Some(part),
        }
    }
}

impl Observer for TickProfile {
    fn tick(&mut self, tick: &Tick<'_>) {
        let timing = &tick.timing;
        if !timing.controlled {
            return;
        }
        let before_ns = timing.previous_ns();
        let times = [
            timing.wake_latency_ns() - before_ns,
            before_ns,
            timing.encoded_ns - timing.started_ns,
            timing.sent_ns - timing.encoded_ns,
            timing.collected_ns - timing.sent_ns - timing.imu_ns,
            timing.imu_ns,
            timing.control_ns,
            timing.decided_ns - timing.collected_ns - timing.control_ns,
            timing.record_ns,
        ];
        for (part, ns) in self.parts.into_iter().zip(times) {
            if part.index() != CONTROL || timing.controller_ran {
                self.profile.add(part, ns);
            }
        }
        self.profile.add(self.response, timing.response_ns());
        self.ticks += 1;
        if self.ticks > LEARNING {
            self.judge(tick, before_ns);
        }
        self.profile.tick(tick.number);
    }
}

impl TickProfile {
    fn judge(&mut self, tick: &Tick<'_>, before_ns: i64) {
        let part = self.blame(&tick.timing, before_ns).map(SectionId::index);
        let own = match part {
            Some(BUS | IMU) => Cause::Bus,
            Some(CONTROL) => Cause::Controller,
            _ => Cause::Compute,
        };
        self.late.record(LateTick {
            number: tick.number,
            at_ns: tick.timing.started_ns,
            response_ns: tick.timing.response_ns(),
            usual_ns: self.profile.usual_ns(self.response),
            part,
            own,
            disturbance: tick.disturbance,
        });
        self.blamed_before = part.map(|part| self.parts[part]);
    }
}
