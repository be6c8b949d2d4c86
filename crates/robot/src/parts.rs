//! Where the time of ticks goes, part by part, and which part made a tick late.
//!
//! | part | is |
//! |---|---|
//! | `wake` | from the planned start, or the end of the tick before if that was later, until the tick started |
//! | `tick before` | from the planned start until the tick before had ended and been handed over, if that was later |
//! | `encode` | taking in what came since, and encoding the frames |
//! | `send` | handing them to the links |
//! | `bus` | until the last servo's reply was decoded, or the bus deadline |
//! | `imu` | after that, waiting for the IMU alone |
//! | `control` | the controller |
//! | `supervise` | the supervisor, and bookkeeping |
//! | `record` | handing the tick before over to recorder, statistics and live view |

use crate::run::{Observer, Tick};
use crate::tick::TickTiming;
use khz_rt::late::{Causes, LateLog, LateTick};
use khz_rt::{Profile, SectionId, SectionSummary};

/// The parts of our own, in the order of a tick. Those up to [`LAST_IN_TICK`] add up to the response.
const NAMES: [&str; 9] =
    ["wake", "tick before", "encode", "send", "bus", "imu", "control", "supervise", "record"];
const TICK_BEFORE: usize = 1;
const LAST_IN_TICK: usize = 7;
const RECORD: usize = 8;
/// Not shown: from the planned start to the end.
const RESPONSE: &str = "response";

/// Ticks after which what is usual is known; until then none counts as late.
const LEARNING: u64 = 100;

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
    /// End of the last tick.
    ended_ns: i64,
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
    /// How many ticks were late, by what the kernel knows of each.
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
        Self { profile, parts, response, late, ended_ns: i64::MIN / 2, blamed_before: None }
    }

    /// What the run was like. Not for the tick: allocates.
    pub fn finish(&self) -> Parts {
        let mut parts = self.profile.summary();
        parts.retain(|part| part.name != RESPONSE);
        Parts {
            parts,
            threshold_ns: self.late.threshold_ns(),
            causes: self.late.causes(),
            late: self.late.worst(),
        }
    }

    /// The part this tick is late by.
    fn blame(&self, timing: &TickTiming, before_ns: i64) -> Option<SectionId> {
        let (part, _) = self.profile.blame_of(|id| id.index() <= LAST_IN_TICK)?;
        match part.index() {
            TICK_BEFORE if timing.record_ns * 2 > before_ns => Some(self.parts[RECORD]),
            TICK_BEFORE => self.blamed_before.or(Some(part)),
            _ => Some(part),
        }
    }
}

impl Observer for TickProfile {
    fn tick(&mut self, tick: &Tick<'_>) {
        let timing = &tick.timing;
        // The loop was ready for this tick once the one before had been handed over.
        let before_ns = (self.ended_ns + timing.record_ns - timing.planned_ns).max(0);
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
            self.profile.add(part, ns);
        }
        let response_ns = timing.decided_ns - timing.planned_ns;
        self.profile.add(self.response, response_ns);
        if tick.number >= LEARNING {
            let usual_ns = self.profile.usual_ns(self.response);
            let part = self.blame(timing, before_ns);
            self.late.record(LateTick {
                number: tick.number,
                at_ns: timing.started_ns,
                response_ns,
                usual_ns,
                part: part.map(SectionId::index),
                disturbance: tick.disturbance,
            });
            self.blamed_before = part;
        }
        self.profile.tick(tick.number);
        self.ended_ns = timing.decided_ns;
    }
}
