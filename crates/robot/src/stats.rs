//! What a run was like, counted as it goes. `docs/metrics.md` defines every figure.

use crate::run::{Observer, Tick};
use crate::supervisor::Transition;
use khz_rt::late::Lost;
use khz_rt::{DISTURBED_NS, Histogram, RunningMedian};

/// So many transitions are kept from the beginning of a run, and as many from its end.
const KEPT: usize = 32;

/// What a run was like.
///
/// Distributions are of the *controlled* ticks ([`TickTiming::controlled`](crate::tick::TickTiming::controlled)): the
/// robot's start and its coming down are counted apart, in `outside`.
#[derive(Clone, Debug)]
pub struct RunStats {
    /// Ticks run.
    pub ticks: u64,
    /// Ticks that ended after the next one should have started.
    pub overruns: u64,
    /// Periods without a tick.
    pub skipped: u64,
    /// Ticks that started a period or more after the time the loop waited for.
    pub late_wakes: u64,
    /// Ticks the timer started because the frame that paces the loop did not come.
    pub without_frame: u64,
    /// Frames that pace the loop but came too early for a tick: the sensor is faster than the loop's rate.
    pub early_frames: u64,
    /// Replies missed, by all servos together.
    pub missed_replies: u64,
    /// Of these, in ticks that had less of the bus cycle on the CPU than all replies usually take.
    pub missed_while_off_cpu: u64,
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
    /// The controlled ticks.
    pub controlled: Stretch,
    /// All others.
    pub outside: Stretch,
    /// From the time the loop waited for to the start, per controlled tick.
    pub wake_latency: Histogram,
    /// The same of the other ticks.
    pub wake_latency_outside: Histogram,
    /// From each planned time to the start of the first tick at or after it: a period without a tick counts, too.
    pub start_delay: Histogram,
    /// From start to start.
    pub period: Histogram,
    /// From the start of a tick to its last reply.
    pub cycle: Histogram,
    /// Loop compute time per tick, by the clock.
    pub loop_compute: Histogram,
    /// CPU time of the thread per tick, waiting for replies by spinning included.
    pub cpu: Histogram,
    /// Time in the controller, per tick in which it computed commands.
    pub control: Histogram,
    /// Controlled ticks that lost time, and to what.
    pub lost: Lost,
    /// Changes of phase and warnings, oldest first. Of very many the first 32 and the last 32: how it began, and
    /// what ended it.
    pub transitions: Vec<Transition>,
    /// How many were left out between these.
    pub transitions_left_out: u64,
    /// From the start of a tick to its last reply, of ticks that got all.
    all_replies: RunningMedian,
}

/// Some of the ticks of a run, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// Ticks run.
    pub ticks: u64,
    /// Periods without a tick before one of these.
    pub skipped: u64,
    /// Ticks that started a period or more after the time the loop waited for.
    pub late_wakes: u64,
    /// Ticks that ended after the next one should have started.
    pub overruns: u64,
    /// Replies missed.
    pub missed_replies: u64,
    /// Of these, in ticks that had less of the bus cycle on the CPU than all replies usually take.
    pub missed_while_off_cpu: u64,
    /// From the start of the tick before each to the start of it, summed.
    pub span_ns: i64,
    /// They were paced by a sensor's frames, not by the timer.
    pub sensor_paced: bool,
}

impl Stretch {
    /// Ticks per second. NaN without a tick.
    pub fn rate_hz(&self) -> f64 {
        if self.span_ns > 0 { self.ticks as f64 / self.span_ns as f64 * 1e9 } else { f64::NAN }
    }

    /// Planned periods that passed without a tick: those skipped, or those by which the ticks fell behind a clock of this
    /// period (after changing the phase), if these are more. A sensor plans by its own clock: a slow one loses no period.
    pub fn lost_periods(&self, period_ns: i64) -> u64 {
        if self.sensor_paced {
            return self.skipped;
        }
        let passed = (self.span_ns + period_ns / 2) / period_ns.max(1);
        self.skipped.max((passed.max(0) as u64).saturating_sub(self.ticks))
    }

    fn take(&mut self, tick: &Tick<'_>, late_wake: bool, off_cpu: bool, span_ns: i64) {
        let missed = u64::from(tick.machine.result().missed);
        self.ticks += 1;
        self.skipped += tick.skipped;
        self.late_wakes += u64::from(late_wake);
        self.overruns += u64::from(tick.overrun);
        self.missed_replies += missed;
        self.missed_while_off_cpu += if off_cpu { missed } else { 0 };
        self.span_ns += span_ns;
        self.sensor_paced = tick.sensor_paced;
    }
}

impl RunStats {
    /// Nothing run yet. All memory the statistics need is taken here.
    pub fn new() -> Self {
        Self {
            ticks: 0,
            overruns: 0,
            skipped: 0,
            late_wakes: 0,
            without_frame: 0,
            early_frames: 0,
            missed_replies: 0,
            missed_while_off_cpu: 0,
            late_replies: 0,
            foreign_frames: 0,
            imu_missed: 0,
            first_ns: 0,
            last_ns: 0,
            controlled: Stretch::default(),
            outside: Stretch::default(),
            wake_latency: Histogram::new(),
            wake_latency_outside: Histogram::new(),
            start_delay: Histogram::new(),
            period: Histogram::new(),
            cycle: Histogram::new(),
            loop_compute: Histogram::new(),
            cpu: Histogram::new(),
            control: Histogram::new(),
            lost: Lost::default(),
            transitions: Vec::with_capacity(2 * KEPT),
            transitions_left_out: 0,
            all_replies: RunningMedian::default(),
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

    /// Ticks per second of the controlled time; of the whole run where there is none. NaN with fewer than two ticks.
    pub fn rate_hz(&self) -> f64 {
        if self.controlled.ticks > 0 {
            self.controlled.rate_hz()
        } else if self.ticks < 2 {
            f64::NAN
        } else {
            (self.ticks - 1) as f64 / (self.last_ns - self.first_ns) as f64 * 1e9
        }
    }

    fn count(&mut self, tick: &Tick<'_>) {
        let result = tick.machine.result();
        let timing = &tick.timing;
        let span_ns = if self.ticks == 0 { 0 } else { timing.started_ns - self.last_ns };
        let late_wake = timing.wake_latency_ns() >= tick.machine.state().period_ns;
        let off_cpu = self.was_off_cpu(tick);
        if self.ticks == 0 {
            self.first_ns = timing.started_ns;
        }
        self.last_ns = timing.started_ns;
        self.ticks += 1;
        self.overruns += u64::from(tick.overrun);
        self.skipped += tick.skipped;
        self.late_wakes += u64::from(late_wake);
        self.without_frame += u64::from(tick.without_frame);
        self.early_frames += tick.early_frames;
        self.missed_replies += u64::from(result.missed);
        self.missed_while_off_cpu += if off_cpu { u64::from(result.missed) } else { 0 };
        self.late_replies += u64::from(result.late);
        self.foreign_frames += u64::from(result.foreign);
        self.imu_missed += u64::from(result.imu_missed);
        let stretch = if timing.controlled { &mut self.controlled } else { &mut self.outside };
        stretch.take(tick, late_wake, off_cpu, span_ns);
        if timing.controlled {
            self.period.record(span_ns, timing.started_ns);
        }
    }

    /// Whether the loop had less time than all replies usually take, because it was kept from its CPU. A tick that misses a
    /// reply waits until the bus deadline, many times as long as usual, so being away for a while proves nothing.
    fn was_off_cpu(&mut self, tick: &Tick<'_>) -> bool {
        let (timing, away_ns) = (&tick.timing, tick.away_in_cycle_ns);
        let usual_ns = self.all_replies.ns();
        if tick.machine.result().missed == 0 {
            self.all_replies.record(timing.cycle_ns() - timing.imu_ns);
        }
        away_ns >= DISTURBED_NS && usual_ns.is_some_and(|usual_ns| timing.cycle_ns() - away_ns < usual_ns)
    }

    fn measure(&mut self, tick: &Tick<'_>) {
        let timing = &tick.timing;
        let (at_ns, period_ns) = (timing.started_ns, tick.machine.state().period_ns);
        if timing.controller_ran {
            self.control.record(timing.control_ns, at_ns);
        }
        if !timing.controlled {
            return self.wake_latency_outside.record(timing.wake_latency_ns(), at_ns);
        }
        let missed_ns = period_ns.saturating_mul(i64::try_from(tick.skipped).unwrap_or(i64::MAX));
        let delay_ns = timing.started_ns.saturating_sub(timing.due_ns).saturating_sub(missed_ns);
        self.start_delay.record_corrected(delay_ns, period_ns, tick.skipped, at_ns);
        self.wake_latency.record(timing.wake_latency_ns(), at_ns);
        self.cycle.record(timing.cycle_ns(), at_ns);
        self.loop_compute.record(timing.own_ns, at_ns);
        self.cpu.record(tick.disturbance.cpu_ns, at_ns);
        self.lost.record(&tick.disturbance);
    }
}

impl Default for RunStats {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for RunStats {
    fn tick(&mut self, tick: &Tick<'_>) {
        self.count(tick);
        self.measure(tick);
        tick.machine.transitions().iter().for_each(|transition| self.keep(*transition));
    }
}
