//! The loop: one [`Machine::tick`] per period until the robot is down.

use crate::pace::{Pace, Start};
use crate::supervisor::{Cause, Transition};
use crate::tick::{Machine, TickTiming};
use crate::time::Time;
use khz_rt::{Disturbance, Histogram, Overrun};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Someone who wants to know about every tick: the recorder, the statistics, a live view.
pub trait Observer {
    /// Told after each tick. As bound as the tick itself: no allocation, lock, print or wait.
    fn tick(&mut self, tick: &Tick<'_>);
}

/// A finished tick.
pub struct Tick<'a> {
    /// Its number, from 0.
    pub number: u64,
    /// When its parts were done.
    pub timing: TickTiming,
    /// What kept the thread from its CPU in it.
    pub disturbance: Disturbance,
    /// Periods that were skipped just before it.
    pub skipped: u64,
    /// The frame that paces the loop did not come, and the timer started it.
    pub without_frame: bool,
    /// Whether it ended after the next one should have started.
    pub overrun: bool,
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

/// Runs until the robot is down. Blocks; everything that has to be allocated must be before.
pub fn run(
    machine: &mut Machine,
    time: &mut impl Time,
    options: &RunOptions,
    observers: &mut [&mut dyn Observer],
) {
    let now_ns = time.now_ns();
    let first_ns = now_ns + options.period_ns;
    let mut pace = Pace::new(options, now_ns);
    let mut record_ns = 0;
    let mut overran = None;
    while !machine.is_settled() {
        let Some(Start { planned_ns, missed, without_frame }) = pace.wait(machine, time) else {
            // Stopping on an overrun still means coming down gently, in phase, from here on.
            overran = Some(Cause::Overruns { count: 1 });
            pace = Pace::new(&RunOptions { overrun: Overrun::Skip, ..options.clone() }, time.now_ns());
            continue;
        };
        time.woke(planned_ns);
        let stop = stop_cause(options, planned_ns - first_ns, overran);
        let number = machine.state().tick;
        let mut timing = machine.tick(time, planned_ns, stop);
        timing.record_ns = record_ns;
        timing.own_ns += record_ns;
        let overrun = pace.finished(timing.decided_ns);
        let disturbance = time.disturbance();
        let tick = Tick { number, timing, disturbance, skipped: missed, without_frame, overrun, machine };
        let from_ns = time.now_ns();
        observers.iter_mut().for_each(|observer| observer.tick(&tick));
        record_ns = time.now_ns() - from_ns;
    }
}

/// Who asks to stop. The operator first, whose reaction may be the graver one.
fn stop_cause(options: &RunOptions, elapsed_ns: i64, overran: Option<Cause>) -> Option<Cause> {
    if options.stop.load(Ordering::Relaxed) {
        return Some(Cause::OperatorStop);
    }
    overran.or_else(|| {
        options.duration_ns.is_some_and(|duration_ns| elapsed_ns >= duration_ns).then_some(Cause::TimeOver)
    })
}

/// So many transitions are kept from the beginning of a run, and as many from its end.
const KEPT: usize = 32;

/// What a run was like.
#[derive(Clone, Debug)]
pub struct RunStats {
    /// Ticks run.
    pub ticks: u64,
    /// Ticks in which the thread was kept from its CPU.
    pub disturbed_ticks: u64,
    /// Of these, ticks in which nobody the kernel knows had the CPU: stolen by the hypervisor, most likely.
    pub steal_ticks: u64,
    /// Ticks that ended after the next one should have started.
    pub overruns: u64,
    /// Periods without a tick.
    pub skipped: u64,
    /// Ticks the timer started because the frame that paces the loop did not come.
    pub without_frame: u64,
    /// Replies missed, by all servos together.
    pub missed_replies: u64,
    /// Of these, in ticks that were disturbed.
    pub missed_in_disturbed: u64,
    /// Replies to older queries.
    pub late_replies: u64,
    /// Frames that were no reply to us.
    pub foreign_frames: u64,
    /// IMU readings missed.
    pub imu_missed: u64,
    /// Start of the first tick.
    pub first_ns: i64,
    /// Start of the last tick.
    pub last_ns: i64,
    /// How late ticks started.
    pub wake_latency: Histogram,
    /// From the start of a tick to its last reply.
    pub cycle: Histogram,
    /// Our own work per tick.
    pub tick_cpu: Histogram,
    /// Time in the controller.
    pub control: Histogram,
    /// Changes of phase and warnings, oldest first. Of very many the first 32 and the last 32: how it began, and
    /// what ended it.
    pub transitions: Vec<Transition>,
    /// How many were left out between these.
    pub transitions_left_out: u64,
}

impl RunStats {
    /// Nothing run yet. All memory the statistics need is taken here.
    pub fn new() -> Self {
        Self {
            ticks: 0,
            disturbed_ticks: 0,
            steal_ticks: 0,
            overruns: 0,
            skipped: 0,
            without_frame: 0,
            missed_replies: 0,
            missed_in_disturbed: 0,
            late_replies: 0,
            foreign_frames: 0,
            imu_missed: 0,
            first_ns: 0,
            last_ns: 0,
            wake_latency: Histogram::new(),
            cycle: Histogram::new(),
            tick_cpu: Histogram::new(),
            control: Histogram::new(),
            transitions: Vec::with_capacity(2 * KEPT),
            transitions_left_out: 0,
        }
    }

    /// Keeps a transition in the memory there is.
    fn keep(&mut self, transition: Transition) {
        if self.transitions.len() == 2 * KEPT {
            self.transitions.remove(KEPT);
            self.transitions_left_out += 1;
        }
        self.transitions.push(transition);
    }

    /// Ticks per second, from the first start to the last. NaN with fewer than two ticks.
    pub fn rate_hz(&self) -> f64 {
        if self.ticks < 2 {
            f64::NAN
        } else {
            (self.ticks - 1) as f64 / (self.last_ns - self.first_ns) as f64 * 1e9
        }
    }
}

impl Default for RunStats {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for RunStats {
    fn tick(&mut self, tick: &Tick<'_>) {
        let TickTiming { started_ns, own_ns, control_ns, .. } = tick.timing;
        let result = tick.machine.result();
        let disturbed = tick.disturbance.cause().is_some();
        if self.ticks == 0 {
            self.first_ns = started_ns;
        }
        self.last_ns = started_ns;
        self.ticks += 1;
        self.disturbed_ticks += u64::from(disturbed);
        self.steal_ticks += u64::from(tick.disturbance.cause() == Some(khz_rt::Cause::Stolen));
        self.overruns += u64::from(tick.overrun);
        self.skipped += tick.skipped;
        self.without_frame += u64::from(tick.without_frame);
        self.missed_replies += u64::from(result.missed);
        self.missed_in_disturbed += if disturbed { u64::from(result.missed) } else { 0 };
        self.late_replies += u64::from(result.late);
        self.foreign_frames += u64::from(result.foreign);
        self.imu_missed += u64::from(result.imu_missed);
        self.wake_latency.record(tick.timing.wake_latency_ns(), started_ns);
        self.cycle.record(tick.timing.cycle_ns(), started_ns);
        self.tick_cpu.record(own_ns, started_ns);
        self.control.record(control_ns, started_ns);
        tick.machine.transitions().iter().for_each(|transition| self.keep(*transition));
    }
}
