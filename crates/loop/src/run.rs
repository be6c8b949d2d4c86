//! The loop: one [`Machine::tick`] per period until the robot is down.

use crate::pace::{Pace, Start};
use crate::supervisor::Cause;
use crate::tick::{Machine, TickTiming};
use crate::time::Time;
use crate::timing::LoopConfig;
use khz_rt::{Disturbance, Overrun};
use khz_run::record;
use khz_run::tally::Pace as Paced;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use crate::stats::RunStats;

/// Someone who wants to know about every tick: the recorder, the statistics, a live view.
pub trait Observer {
    /// Called after each tick. As bound as the tick itself: no allocation, lock, print or wait.
    fn tick(&mut self, tick: &Tick<'_>);
}

/// A finished tick.
pub struct Tick<'a> {
    /// What is recorded of it.
    pub record: record::Tick,
    /// What starts the loop's ticks.
    pub pace: Paced,
    /// Frames that pace the loop but came too early for a tick, since the tick before.
    pub early_frames: u64,
    /// The machine after it.
    pub machine: &'a Machine,
}

/// How long to run and who may end it.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The period.
    pub period_ns: i64,
    /// What happens after a tick that took too long.
    pub overrun: Overrun,
    /// The loop is paced by the machine's [`crate::cycle::PaceFrame`]; this much later than expected the timer takes
    /// over. `None`: paced by the timer.
    pub frame_patience_ns: Option<i64>,
    /// After this long the robot is brought down; `None`: only by `stop`.
    pub duration_ns: Option<i64>,
    /// Set to bring the robot down: the operator, a signal handler.
    pub stop: Arc<AtomicBool>,
}

impl RunOptions {
    /// A loop that keeps the time of a robot file, until `stop` is set or the time is over.
    pub fn of(timing: &LoopConfig, duration_ns: Option<i64>, stop: Arc<AtomicBool>) -> Self {
        Self {
            period_ns: timing.period_ns(),
            overrun: timing.overrun,
            frame_patience_ns: timing.frame_patience_ns(),
            duration_ns,
            stop,
        }
    }
}

/// Runs until the robot is down. Blocks; everything that has to be allocated must be before.
pub fn run(
    machine: &mut Machine,
    time: &mut impl Time,
    options: &RunOptions,
    observers: &mut [&mut dyn Observer],
) {
    let mut ticks = Ticks::new(options, time);
    while !machine.is_settled() {
        let begun = ticks.look(machine, time, options);
        ticks.act(begun, machine, time, observers);
    }
}

/// The ticks of a run, one after another, each in two parts, for a caller that decides between them. [`run`] loops over them.
pub struct Ticks {
    pace: Pace,
    first_ns: i64,
    /// When the loop began to wait.
    ready_ns: i64,
    /// What the observers of the tick before took.
    record_ns: i64,
    overran: Option<Cause>,
    paced: Paced,
}

/// A tick whose controller has not run yet.
pub struct Begun {
    start: Start,
    number: u64,
    timing: TickTiming,
}

impl Ticks {
    /// None run yet; the first begins a period from now.
    pub fn new(options: &RunOptions, time: &mut impl Time) -> Self {
        let ready_ns = time.now_ns();
        Self {
            pace: Pace::new(options.period_ns, options.overrun, options.frame_patience_ns, ready_ns),
            first_ns: ready_ns + options.period_ns,
            ready_ns,
            record_ns: 0,
            overran: None,
            paced: Paced { period_ns: options.period_ns, by_sensor: options.frame_patience_ns.is_some() },
        }
    }

    /// Waits for the next tick, and runs it up to the controller. Allocates nothing.
    pub fn look(&mut self, machine: &mut Machine, time: &mut impl Time, options: &RunOptions) -> Begun {
        let start = self.pace.wait(machine, time).unwrap_or_else(|| {
            // Stopping on an overrun still means coming down gently, in phase, from here on.
            self.overran = Some(Cause::Overruns { count: 1 });
            self.pace.resume(machine, time)
        });
        let elapsed_ns = start.planned_ns - self.first_ns;
        let is_over =
            machine.is_finished() || options.duration_ns.is_some_and(|most_ns| elapsed_ns >= most_ns);
        let stop = stop_cause(options, is_over, self.overran);
        let (number, mut timing) = (machine.state().tick, start.timing(self.ready_ns));
        time.woke(timing.started_ns, timing.wake_latency_ns().max(0), timing.previous_ns());
        machine.look(time, &mut timing, stop);
        Begun { start, number, timing }
    }

    /// Runs the rest of a tick, and notifies the observers. Allocates nothing, unless one of them or the controller does.
    pub fn act(
        &mut self,
        begun: Begun,
        machine: &mut Machine,
        time: &mut impl Time,
        observers: &mut [&mut dyn Observer],
    ) {
        let Begun { start, number, mut timing } = begun;
        machine.act(time, &mut timing);
        timing.record_ns = self.record_ns;
        timing.own_ns += self.record_ns;
        let overrun = self.pace.finished(timing.decided_ns);
        let record = record::Tick {
            number,
            overrun,
            skipped: u32::try_from(start.skipped).unwrap_or(u32::MAX),
            without_frame: start.without_frame,
            ..recorded(&timing, &time.disturbance(), time.away_in_cycle_ns(), machine)
        };
        let tick = Tick { record, pace: self.paced, early_frames: start.early_frames, machine };
        let from_ns = time.now_ns();
        observers.iter_mut().for_each(|observer| observer.tick(&tick));
        self.ready_ns = time.now_ns();
        self.record_ns = self.ready_ns - from_ns;
    }
}

/// What is recorded of a tick, but for how it was paced.
#[inline]
pub fn recorded(
    timing: &TickTiming,
    counted: &Disturbance,
    away_in_cycle_ns: i64,
    machine: &Machine,
) -> record::Tick {
    let (late_ns, previous_ns) = (timing.wake_latency_ns().max(0), timing.previous_ns());
    let lost = Disturbance { late_ns, previous_ns, ..*counted };
    let result = machine.result();
    record::Tick {
        number: 0,
        planned_ns: timing.planned_ns,
        waited_for_ns: timing.waited_for_ns,
        due_ns: timing.due_ns,
        ready_ns: timing.ready_ns,
        started_ns: timing.started_ns,
        wake_latency_ns: timing.wake_latency_ns(),
        encode_ns: timing.encoded_ns - timing.started_ns,
        send_ns: timing.sent_ns - timing.encoded_ns,
        collect_ns: timing.collected_ns - timing.sent_ns,
        imu_ns: timing.imu_ns,
        decide_ns: timing.decided_ns - timing.collected_ns,
        control_ns: timing.control_ns,
        record_ns: timing.record_ns,
        loop_compute_ns: timing.own_ns,
        cycle_ns: timing.collected_ns - timing.started_ns,
        cpu_ns: lost.cpu_ns,
        away_ns: lost.away_ns,
        away_in_cycle_ns,
        queued_before_ns: lost.queued_before_ns,
        queued_ns: lost.queued_ns,
        faults_ns: lost.faults_ns,
        skipped: 0,
        missed: result.missed.into(),
        late: result.late,
        unexpected: result.foreign,
        blocked_before: lost.blocked_before,
        blocked: lost.blocked,
        involuntary: lost.involuntary,
        minor_faults: lost.minor_faults,
        major_faults: lost.major_faults,
        overrun: false,
        without_frame: false,
        imu_missed: result.imu_missed,
        controlled: timing.controlled,
        controller_ran: timing.controller_ran,
        cause: lost.cause().into(),
        phase: machine.phase(),
    }
}

impl Start {
    /// What is known of a tick when it starts. The loop began to wait for it at `ready_ns`.
    fn timing(&self, ready_ns: i64) -> TickTiming {
        TickTiming {
            waited_for_ns: self.waited_for_ns,
            due_ns: self.due_ns,
            ready_ns,
            ..TickTiming::at(self.planned_ns, self.woke_ns)
        }
    }
}

/// Who asks to stop. The operator first, whose reaction may be the graver one.
fn stop_cause(options: &RunOptions, is_over: bool, overran: Option<Cause>) -> Option<Cause> {
    if options.stop.load(Ordering::Relaxed) {
        return Some(Cause::OperatorStop);
    }
    overran.or(is_over.then_some(Cause::TimeOver))
}
