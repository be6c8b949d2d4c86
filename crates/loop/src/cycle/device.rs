//! One servo within the cycle: whether its reply is outstanding, and its counts.

use khz_rt::Histogram;
use khz_servo::{Doubled, Family, ServoPlan, ServoState};

/// One servo of the plan.
#[derive(Clone, Debug)]
pub struct DevicePlan {
    /// The servo's name, for messages.
    pub name: String,
    /// Which link.
    pub link: usize,
    /// Which of its buses.
    pub channel: u8,
    /// The servo; its number is its place in the plan.
    pub servo: ServoPlan<Family>,
    /// On half-duplex buses: how long to wait for this servo at least before asking the next. What is left of the cycle is waited, too.
    pub reply_timeout_ns: i64,
}

/// Counts since the start.
#[derive(Debug)]
pub struct DeviceStats {
    /// Queries sent.
    pub sent: u64,
    /// Replies in time.
    pub replied: u64,
    /// Cycles in which it was to reply and did not in time, and those in which it was kept quiet: its state was as old after both.
    pub missed: u64,
    /// Of these, cycles in which it was asked nothing after a miss, so that what it still answers cannot be mistaken.
    pub quiet: u64,
    /// Longest run of missed cycles.
    pub missed_in_a_row: u32,
    /// Replies to older queries, and further replies to the same one.
    pub late: u64,
    /// Of these, further replies to a query already answered: two servos may have the same id.
    pub duplicates: u64,
    /// From handing the query to the link until the reply had arrived.
    pub round_trip: Histogram,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not asked yet.
    Ready,
    /// Asked, not answered.
    Awaited,
    Answered,
    /// The cycle is over.
    Ended {
        missed: bool,
    },
}

/// One servo at work.
#[derive(Debug)]
pub struct Device {
    pub lane: usize,
    phase: Phase,
    excused: bool,
    is_quiet: bool,
    reply_timeout_ns: i64,
    missed_now: u32,
    doubled: Doubled,
    stats: DeviceStats,
}

impl Device {
    pub fn new(lane: usize, reply_timeout_ns: i64) -> Self {
        let stats = DeviceStats {
            sent: 0,
            replied: 0,
            missed: 0,
            quiet: 0,
            missed_in_a_row: 0,
            late: 0,
            duplicates: 0,
            round_trip: Histogram::new(),
        };
        Self {
            lane,
            phase: Phase::Ended { missed: false },
            excused: false,
            is_quiet: false,
            reply_timeout_ns,
            missed_now: 0,
            doubled: Doubled::default(),
            stats,
        }
    }

    pub fn begin(&mut self) {
        self.phase = Phase::Ready;
        self.excused = false;
        self.is_quiet = false;
        self.doubled.forgive();
    }

    /// It is no miss if it does not answer in this cycle: it is switching on.
    pub fn excuse(&mut self) {
        self.excused = true;
    }

    /// A reply has come, to this cycle's query or to an older one: whether it is taken for the former, as long as no other comes.
    #[cold]
    pub fn unclear(&mut self, sent_ns: i64, at_ns: i64, deadline_ns: i64) -> bool {
        let is_first = self.phase == Phase::Awaited && !self.excused;
        let in_time = is_first && (sent_ns..=deadline_ns).contains(&at_ns);
        self.excused |= in_time;
        in_time
    }

    /// So far it is no miss if it does not answer in this cycle.
    pub const fn is_excused(&self) -> bool {
        self.excused
    }

    /// It is asked nothing in this cycle.
    pub fn keep_quiet(&mut self) {
        self.is_quiet = true;
    }

    /// Everything was sent that asks for its state.
    pub fn asked(&mut self) {
        self.phase = Phase::Awaited;
        self.stats.sent += 1;
    }

    /// The answer to this cycle's query has come: true if it is the first and in time, and so fresh.
    pub fn answered(&mut self, sent_ns: i64, at_ns: i64, deadline_ns: i64, state: &mut ServoState) -> bool {
        let in_time = (sent_ns..=deadline_ns).contains(&at_ns) && self.phase == Phase::Awaited;
        if in_time {
            state.round_trip_ns = at_ns - sent_ns;
            self.stats.round_trip.record(state.round_trip_ns, at_ns);
            self.stats.replied += 1;
            self.phase = Phase::Answered;
        }
        in_time
    }

    /// A reply has come that is not fresh.
    pub fn late(&mut self, is_duplicate: bool) {
        self.stats.late += 1;
        self.stats.duplicates += u64::from(is_duplicate);
        if is_duplicate {
            self.doubled.count();
        }
    }

    /// Its further replies of late.
    pub fn doubled(&self) -> Doubled {
        self.doubled
    }

    /// Ends the cycle: whether the device answered in time, and whether that is a miss if it did not. Who was asked nothing missed
    /// nothing, but has no state either, and is counted with those that did.
    #[inline]
    pub fn end(&mut self) -> (bool, bool) {
        let answered = self.phase == Phase::Answered;
        self.phase = Phase::Ended { missed: !answered };
        if answered || self.excused {
            self.missed_now = 0;
            return (answered, false);
        }
        self.missed_now += 1;
        self.stats.missed += 1;
        self.stats.quiet += u64::from(self.is_quiet);
        self.stats.missed_in_a_row = self.stats.missed_in_a_row.max(self.missed_now);
        (false, !self.is_quiet)
    }

    pub fn stats(&self) -> &DeviceStats {
        &self.stats
    }

    pub fn is_awaited(&self) -> bool {
        self.phase == Phase::Awaited
    }

    /// It was to answer in the last cycle and did not, and is not switching on.
    pub fn is_missing(&self) -> bool {
        self.missed_now > 0 && !self.is_quiet
    }

    pub fn was_missed(&self) -> bool {
        self.phase == Phase::Ended { missed: true }
    }

    pub fn reply_timeout_ns(&self) -> i64 {
        self.reply_timeout_ns
    }
}
