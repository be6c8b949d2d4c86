//! A tick.

use crate::Phase;
use khz_rt::{Cause, Disturbance};
use khz_tlog::{Columns, Record};

/// A tick, as it is recorded and as everything that reports on a run sees it. Times are ns of the loop's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Record, Columns)]
pub struct Tick {
    /// Its number, from 0.
    pub number: u64,
    /// The planned time it ran for: of those passed, the latest.
    #[tlog(unit = "ns")]
    pub planned_ns: i64,
    /// The time the loop waited for. After a late wake that is before `planned_ns`.
    #[tlog(unit = "ns")]
    pub waited_for_ns: i64,
    /// The first planned time that no earlier tick ran for.
    #[tlog(unit = "ns")]
    pub due_ns: i64,
    /// When the loop began to wait: the previous tick was over and handed to the observers.
    #[tlog(unit = "ns")]
    pub ready_ns: i64,
    /// When it started: the loop woke.
    #[tlog(unit = "ns")]
    pub started_ns: i64,
    /// How late that was, from the time the loop waited for.
    #[tlog(unit = "ns")]
    pub wake_latency_ns: i64,
    /// Taking in what came since, and encoding the frames.
    #[tlog(unit = "ns")]
    pub encode_ns: i64,
    /// Handing the frames to the links.
    #[tlog(unit = "ns")]
    pub send_ns: i64,
    /// Until the last reply was decoded, or the bus deadline.
    #[tlog(unit = "ns")]
    pub collect_ns: i64,
    /// Of collecting, time in which only the IMU was still outstanding.
    #[tlog(unit = "ns")]
    pub imu_ns: i64,
    /// Supervisor and controller.
    #[tlog(unit = "ns")]
    pub decide_ns: i64,
    /// Of that, time in the controller.
    #[tlog(unit = "ns")]
    pub control_ns: i64,
    /// Handing the previous tick to the observers: recorder, statistics, live view.
    #[tlog(unit = "ns")]
    pub record_ns: i64,
    /// Loop compute time by the clock: encoding, decoding, state, supervisor, and `record_ns`. Neither links nor controller.
    #[tlog(unit = "ns", alias = "tick_cpu_ns")]
    pub loop_compute_ns: i64,
    /// The bus cycle: from the start to the last reply decoded, or to the bus deadline.
    #[tlog(unit = "ns")]
    pub cycle_ns: i64,
    /// CPU time of the thread between waking and the end.
    #[tlog(unit = "ns")]
    pub cpu_ns: i64,
    /// Between waking and the end, time the thread neither used the CPU nor slept on purpose.
    #[tlog(unit = "ns")]
    pub away_ns: i64,
    /// Of that, what fell within the bus cycle.
    #[tlog(unit = "ns")]
    pub away_in_cycle_ns: i64,
    /// Time in the run queue from the end of the previous tick to waking; 0 after a wake on time.
    #[tlog(unit = "ns")]
    pub queued_before_ns: i64,
    /// Time in the run queue from then on.
    #[tlog(unit = "ns")]
    pub queued_ns: i64,
    /// What page faults served from memory took, about.
    #[tlog(unit = "ns")]
    pub faults_ns: i64,
    /// Periods without a tick just before it.
    pub skipped: u32,
    /// Servos that were to reply and did not in time.
    pub missed: u32,
    /// Replies to older queries, and further replies to one query.
    pub late: u32,
    /// Frames that were no reply to a query.
    #[tlog(alias = "foreign")]
    pub unexpected: u32,
    /// Voluntary switches from the end of the previous tick to waking, beyond the wait for the start.
    pub blocked_before: u32,
    /// The same from then on, beyond the waits for replies.
    pub blocked: u32,
    /// Times another thread was put in its place, since the end of the previous tick.
    pub involuntary: u32,
    /// Page faults served from memory.
    pub minor_faults: u32,
    /// Page faults that read from disk, since the end of the previous tick.
    pub major_faults: u32,
    /// It ended after the next one should have started.
    pub overrun: bool,
    /// The frame that paces the loop did not come, and the timer started it.
    pub without_frame: bool,
    /// The IMU did not answer in time.
    pub imu_missed: bool,
    /// This tick and the previous one began in phase active.
    pub controlled: bool,
    /// The controller computed commands.
    pub controller_ran: bool,
    /// What it lost 50 µs or more to.
    pub cause: Loss,
    /// The phase at its end.
    pub phase: Phase,
}

/// What a tick lost most time to, as it is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Record)]
pub enum Loss {
    /// Nothing took 50 µs.
    #[default]
    #[tlog(rename = "none")]
    None = 0,
    /// Unaccounted for by the kernel.
    #[tlog(rename = "unaccounted")]
    Unaccounted = 1,
    /// Other threads had it.
    #[tlog(rename = "preempted")]
    Preempted = 2,
    /// The thread waited for a page from disk.
    #[tlog(rename = "page_fault")]
    PageFault = 3,
    /// It waited by itself, or was stopped.
    #[tlog(rename = "blocked")]
    Blocked = 4,
    /// The previous tick was not over.
    #[tlog(rename = "previous_tick")]
    PreviousTick = 5,
}

impl From<Option<Cause>> for Loss {
    fn from(cause: Option<Cause>) -> Self {
        match cause {
            Some(Cause::Unaccounted) => Self::Unaccounted,
            Some(Cause::Preempted) => Self::Preempted,
            Some(Cause::PageFault) => Self::PageFault,
            Some(Cause::Blocked) => Self::Blocked,
            Some(Cause::PreviousTick) => Self::PreviousTick,
            _ => Self::None,
        }
    }
}

impl Tick {
    /// One of which nothing is known. It counts as controlled: logs without that field have controlled ticks only.
    pub const UNKNOWN: Self = Self {
        number: 0,
        planned_ns: 0,
        waited_for_ns: 0,
        due_ns: 0,
        ready_ns: 0,
        started_ns: 0,
        wake_latency_ns: 0,
        encode_ns: 0,
        send_ns: 0,
        collect_ns: 0,
        imu_ns: 0,
        decide_ns: 0,
        control_ns: 0,
        record_ns: 0,
        loop_compute_ns: 0,
        cycle_ns: 0,
        cpu_ns: 0,
        away_ns: 0,
        away_in_cycle_ns: 0,
        queued_before_ns: 0,
        queued_ns: 0,
        faults_ns: 0,
        skipped: 0,
        missed: 0,
        late: 0,
        unexpected: 0,
        blocked_before: 0,
        blocked: 0,
        involuntary: 0,
        minor_faults: 0,
        major_faults: 0,
        overrun: false,
        without_frame: false,
        imu_missed: false,
        controlled: true,
        controller_ran: false,
        cause: Loss::None,
        phase: Phase::Init,
    };

    /// A tick from elsewhere (a log, a datagram) may have any numbers: with none that cannot be counted with. Times end 18 years
    /// from their zero, durations at 18 minutes.
    #[must_use]
    pub fn bounded(self) -> Self {
        const TIMES_NS: i64 = 1 << 59;
        const DURATIONS_NS: i64 = 1 << 40;
        let time = |ns: i64| ns.clamp(-TIMES_NS, TIMES_NS);
        let duration = |ns: i64| ns.clamp(-DURATIONS_NS, DURATIONS_NS);
        Self {
            planned_ns: time(self.planned_ns),
            waited_for_ns: time(self.waited_for_ns),
            due_ns: time(self.due_ns),
            ready_ns: time(self.ready_ns),
            started_ns: time(self.started_ns),
            wake_latency_ns: duration(self.wake_latency_ns),
            encode_ns: duration(self.encode_ns),
            send_ns: duration(self.send_ns),
            collect_ns: duration(self.collect_ns),
            imu_ns: duration(self.imu_ns),
            decide_ns: duration(self.decide_ns),
            control_ns: duration(self.control_ns),
            record_ns: duration(self.record_ns),
            loop_compute_ns: duration(self.loop_compute_ns),
            cycle_ns: duration(self.cycle_ns),
            cpu_ns: duration(self.cpu_ns),
            away_ns: duration(self.away_ns),
            away_in_cycle_ns: duration(self.away_in_cycle_ns),
            queued_before_ns: duration(self.queued_before_ns),
            queued_ns: duration(self.queued_ns),
            faults_ns: duration(self.faults_ns),
            ..self
        }
    }

    /// From the time the loop waited for to the end of the tick.
    #[inline]
    pub const fn response_ns(&self) -> i64 {
        self.started_ns
            .saturating_add(self.cycle_ns)
            .saturating_add(self.decide_ns)
            .saturating_sub(self.waited_for_ns)
    }

    /// Of the wake latency, what had passed when the loop began to wait: the previous tick was not over.
    #[inline]
    pub fn previous_ns(&self) -> i64 {
        self.ready_ns.saturating_sub(self.waited_for_ns).clamp(0, self.wake_latency_ns.max(0))
    }

    /// What kept the thread from its CPU.
    #[inline]
    pub fn disturbance(&self) -> Disturbance {
        Disturbance {
            late_ns: self.wake_latency_ns.max(0),
            previous_ns: self.previous_ns(),
            cpu_ns: self.cpu_ns,
            away_ns: self.away_ns.max(0),
            queued_before_ns: self.queued_before_ns,
            queued_ns: self.queued_ns,
            blocked_before: self.blocked_before,
            blocked: self.blocked,
            involuntary: self.involuntary,
            minor_faults: self.minor_faults,
            faults_ns: self.faults_ns,
            major_faults: self.major_faults,
        }
    }
}

impl Default for Tick {
    fn default() -> Self {
        Self::UNKNOWN
    }
}
