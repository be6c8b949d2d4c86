//! What is kept of each tick. Pure: the times are arguments, so that known times in give exact figures out.

use khz_page::Trace;
use khz_rt::late::{LateLog, LateTick, Lost};
use khz_rt::{Cause, Disturbance, Histogram, Tick};
use khz_run::costs::{Costly, Costs};
use serde::{Deserialize, Serialize};

/// The times of one tick, `i64` nanoseconds of the clock measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The time it waited for.
    pub planned_ns: i64,
    /// When it woke.
    pub woke_ns: i64,
    /// When its work began: after waking and the reading of the thread's own counters.
    pub begun_ns: i64,
    /// When its work was done.
    pub done_ns: i64,
    /// The first planned time that no earlier tick ran for; `missed` of them, one period apart, got no tick.
    pub due_ns: i64,
    /// Planned times without a tick since the tick before.
    pub missed: u64,
    /// Whether its work was done after the next planned time.
    pub overrun: bool,
    /// It ended the run (`--overrun stop`): it woke, and did no work.
    #[serde(default)]
    pub withheld: bool,
}

impl Sample {
    /// A tick as the pacer has it, that woke, began and was done at these times, without an overrun.
    #[must_use]
    pub fn of(tick: &Tick, woke_ns: i64, begun_ns: i64, done_ns: i64) -> Sample {
        let planned_ns = woke_ns - tick.late_ns;
        Sample {
            planned_ns,
            woke_ns,
            begun_ns,
            done_ns,
            due_ns: tick.due_ns,
            missed: tick.skipped,
            overrun: false,
            withheld: false,
        }
    }

    /// A tick that missed nothing.
    #[must_use]
    pub fn in_time(planned_ns: i64, woke_ns: i64, begun_ns: i64, done_ns: i64) -> Sample {
        Sample { planned_ns, woke_ns, begun_ns, done_ns, due_ns: planned_ns, ..Sample::default() }
    }

    /// From the last planned time this tick makes up for to waking; from each of the `missed` before it was a period more.
    #[must_use]
    pub fn start_delay_ns(&self, period_ns: i64) -> i64 {
        let missed_ns = period_ns.saturating_mul(i64::try_from(self.missed).unwrap_or(i64::MAX));
        self.woke_ns.saturating_sub(self.due_ns).saturating_sub(missed_ns)
    }

    /// From the time waited for to waking.
    #[must_use]
    pub fn wake_latency_ns(&self) -> i64 {
        self.woke_ns - self.planned_ns
    }

    /// From the beginning to the end of the work.
    #[must_use]
    pub fn execution_ns(&self) -> i64 {
        self.done_ns - self.begun_ns
    }

    /// From the time waited for to the end of the work, without the reading of the thread's counters between
    /// waking and work, which a loop that is not being measured would not do.
    #[must_use]
    pub fn response_ns(&self) -> i64 {
        self.wake_latency_ns() + self.execution_ns()
    }
}

/// Part of a tick that was late.
pub(super) const WORK: usize = 0;

/// All that is kept of a run, in memory that does not grow with it (but for raw samples, if asked for).
pub struct Recording {
    /// Time waited for → waking, of every tick that ran.
    pub wake: Histogram,
    /// Planned time → waking of the first tick at or after it, of every planned period.
    pub start_delay: Histogram,
    /// Waking → next waking.
    pub period: Histogram,
    /// Beginning → end of the work.
    pub execution: Histogram,
    /// Time waited for → end of the work.
    pub response: Histogram,
    /// The late ones.
    pub late: LateLog,
    /// What they cost.
    pub costs: Costs,
    /// What held the tick before up.
    before: Cause,
    /// Ticks that lost time, and to what.
    pub lost: Lost,
    /// Wake latency over time, seconds and nanoseconds.
    pub wake_trace: Trace,
    /// Execution time over time.
    pub execution_trace: Trace,
    samples: Vec<(Sample, Disturbance)>,
    keep_samples: bool,
    period_ns: i64,
    usual_work_ns: i64,
    ticks: u64,
    /// Maps the clock to time since the start of the run, without the pauses between its stretches.
    start_ns: i64,
    last_woke_ns: Option<i64>,
}

impl Recording {
    /// Makes room. A tick is late if it ends more than `late_ns` after its usual work would have ended.
    /// With `raw` it also keeps that many samples.
    #[must_use]
    pub fn new(period_ns: i64, late_ns: i64, usual_work_ns: i64, raw: Option<u64>) -> Recording {
        Recording {
            wake: Histogram::new(),
            start_delay: Histogram::new(),
            period: Histogram::new(),
            execution: Histogram::new(),
            response: Histogram::new(),
            late: LateLog::new(late_ns, 100),
            costs: Costs::default(),
            before: Cause::PreviousTick,
            lost: Lost::default(),
            wake_trace: Trace::new(),
            execution_trace: Trace::new(),
            samples: Vec::with_capacity(raw.unwrap_or(0) as usize),
            keep_samples: raw.is_some(),
            period_ns,
            usual_work_ns,
            ticks: 0,
            start_ns: 0,
            last_woke_ns: None,
        }
    }

    /// A stretch of ticks begins, planned from `first_ns`, after `measured_ns` of earlier stretches.
    pub fn begin(&mut self, first_ns: i64, measured_ns: i64) {
        self.start_ns = first_ns - measured_ns;
        self.last_woke_ns = None;
    }

    /// Takes in a tick that woke at `monotonic_ns` of `CLOCK_MONOTONIC`, whatever clock it was measured by; true if it was
    /// late.
    ///
    /// Realtime: no allocation, some tens of nanoseconds (once in a while a few microseconds, when the traces
    /// make room).
    #[inline]
    pub fn tick(&mut self, sample: Sample, monotonic_ns: i64, disturbance: Disturbance) -> bool {
        let at_ns = sample.woke_ns - self.start_ns;
        let (latency_ns, execution_ns) = (sample.wake_latency_ns(), sample.execution_ns());
        self.woke(sample, disturbance);
        self.execution.record(execution_ns, at_ns);
        self.response.record(sample.response_ns(), at_ns);
        if let Some(last_ns) = self.last_woke_ns.replace(sample.woke_ns) {
            self.period.record(sample.woke_ns - last_ns, at_ns);
        }
        self.execution_trace.push(at_ns as f64 * 1e-9, execution_ns as f64);
        let part = (execution_ns - self.usual_work_ns > latency_ns).then_some(WORK);
        let number = self.ticks;
        self.ticks += 1;
        let response_ns = sample.response_ns();
        let usual_ns = self.usual_work_ns;
        let (at_ns, own) = (monotonic_ns, Cause::Compute);
        let tick = LateTick { number, at_ns, response_ns, usual_ns, part, own, disturbance };
        let is_late = self.late.record(tick);
        self.weigh(&sample, &tick, is_late);
        is_late
    }

    /// What a tick cost, as [`khz_run::late`] follows it to what held it up.
    fn weigh(&mut self, sample: &Sample, tick: &LateTick, is_late: bool) {
        let (cause, before) = (tick.cause(), self.before);
        let followed = |cause| if cause == Cause::PreviousTick { before } else { cause };
        self.before = followed(cause);
        let late_wake = sample.wake_latency_ns() >= self.period_ns;
        if is_late || sample.overrun || sample.missed > 0 || late_wake {
            self.costs.count(&Costly {
                number: tick.number,
                response_ns: tick.response_ns,
                late: is_late.then_some((cause, tick.response_ns - tick.usual_ns)),
                late_in_a_row: is_late.into(),
                was_stopped: cause == Cause::Blocked && tick.disturbance.was_stopped(),
                root: followed(cause),
                start: followed(Disturbance { away_ns: 0, ..tick.disturbance }.shares().largest().0),
                lost_periods: sample.missed,
                late_wake,
                overrun: sample.overrun,
            });
        }
    }

    /// What every wake has, also the one that ended the run and did no work: when it was, and what it lost.
    #[inline]
    pub fn woke(&mut self, sample: Sample, disturbance: Disturbance) {
        let at_ns = sample.woke_ns - self.start_ns;
        self.wake.record(sample.wake_latency_ns(), at_ns);
        let delay_ns = sample.start_delay_ns(self.period_ns);
        self.start_delay.record_corrected(delay_ns, self.period_ns, sample.missed, at_ns);
        self.lost.record(&disturbance);
        self.wake_trace.push(at_ns as f64 * 1e-9, sample.wake_latency_ns() as f64);
        if self.keep_samples && self.samples.len() < self.samples.capacity() {
            self.samples.push((sample, disturbance));
        }
    }

    /// Ticks taken in.
    #[must_use]
    pub fn ticks(&self) -> u64 {
        self.ticks
    }

    /// The raw samples, as many as there was room for, and what kept each from the CPU.
    #[must_use]
    pub fn samples(&self) -> &[(Sample, Disturbance)] {
        &self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_rt::{Overrun, Pacer};

    const MS: i64 = 1_000_000;

    fn played(ticks: impl IntoIterator<Item = (i64, i64)>) -> (Recording, Pacer) {
        let mut pacer = Pacer::new(MS, Overrun::Skip, 0);
        let mut recording = Recording::new(MS, MS / 10, 0, Some(1_000_000));
        recording.begin(0, 0);
        let mut now_ns: i64 = 0;
        for (late_ns, work_ns) in ticks {
            let woke_ns = pacer.deadline_ns().max(now_ns) + late_ns;
            let tick = pacer.woke(woke_ns).unwrap();
            now_ns = woke_ns + work_ns;
            let disturbance = Disturbance { late_ns: tick.late_ns, ..Disturbance::default() };
            recording.tick(Sample::of(&tick, woke_ns, woke_ns, now_ns), woke_ns, disturbance);
            pacer.finished(now_ns);
        }
        (recording, pacer)
    }

    #[test]
    fn known_latencies_in_exact_percentiles_out() {
        let (recording, pacer) = played((1..=1000).map(|n| (n, 500)));
        let wake = recording.wake.summary();
        assert_eq!(
            (wake.min, wake.p50, wake.p90, wake.p99, wake.p999, wake.max),
            (1, 500, 900, 990, 999, 1000)
        );
        let period = recording.period.summary();
        assert_eq!((period.count, period.mean), (999, (MS + 1) as f64));
        assert_eq!(recording.response.summary().max, 1500);
        assert_eq!(recording.execution.summary().sigma, 0.0);
        assert_eq!(pacer.counts().overruns, 0);
    }

    #[test]
    fn an_overrun_of_two_and_a_half_periods_shows_once_in_each_metric() {
        let (recording, pacer) = played([(0, 0), (0, 2 * MS + MS / 2), (0, 0), (0, 0)]);
        assert_eq!(
            (recording.execution.summary().max, recording.response.summary().max),
            (2_500_000, 2_500_000)
        );
        assert_eq!((recording.period.summary().max, recording.period.summary().min), (3 * MS, MS));
        assert_eq!(recording.wake.summary().max, 0);
        assert_eq!((pacer.counts().overruns, pacer.counts().skipped), (1, 2));
        assert_eq!(recording.late.worst()[0].part, Some(WORK));
    }

    #[test]
    fn a_missed_tick_is_a_late_wake_of_its_full_length() {
        let (recording, pacer) = played([(0, 0), (1_700_000, 0), (0, 0)]);
        assert_eq!(recording.wake.summary().max, 1_700_000);
        assert_eq!((pacer.counts().late_wakes, pacer.counts().skipped), (1, 1));
        assert_eq!(recording.late.worst()[0].part, None);
        assert_eq!(recording.wake.summary().max_at, 2_700_000);
    }

    #[test]
    fn the_stall_that_ends_a_run_is_in_its_distributions() {
        let mut recording = Recording::new(MS, MS / 10, 0, None);
        recording.begin(0, 0);
        recording.tick(Sample::in_time(0, 1_000, 1_000, 2_000), 1_000, Disturbance::default());
        let stall = Disturbance { late_ns: 7_100_000, ..Disturbance::default() };
        let withheld = Sample {
            planned_ns: MS,
            woke_ns: 8_100_000,
            begun_ns: 8_100_000,
            done_ns: 8_100_000,
            due_ns: MS,
            missed: 7,
            withheld: true,
            ..Sample::default()
        };
        recording.woke(withheld, stall);
        let (wake, delay) = (recording.wake.summary(), recording.start_delay.summary());
        assert_eq!((wake.max, delay.count, delay.max), (7_100_000, 1 + 8, 7_100_000));
        assert_eq!((recording.lost.ticks, recording.lost.time_ns.unaccounted), (1, 7_100_000));
        assert_eq!((recording.ticks(), recording.execution.count()), (1, 1));
    }

    #[test]
    fn percentiles_over_planned_periods_count_those_that_were_lost() {
        // Of 1000 ticks twenty woke 7.1 ms late, for eight planned periods each.
        let (recording, pacer) =
            played((0..1000).map(|n| (if n % 50 == 25 { 7_100_000 } else { 1_000 }, 500)));
        let (wake, delay) = (recording.wake.summary(), recording.start_delay.summary());
        assert_eq!((wake.count, delay.count), (1000, 1000 + 20 * 7));
        assert_eq!(pacer.counts().skipped, 140);
        assert_eq!((wake.p90, delay.p50), (1_000, 1_000));
        assert!(delay.p90 > 1_000_000 && delay.p99 > 6_000_000, "{delay:?}");
        assert_eq!((wake.max, delay.max), (7_100_000, 7_100_000));
        assert_eq!((recording.lost.ticks, recording.lost.time_ns.unaccounted), (20, 20 * 7_100_000));
    }

    #[test]
    fn a_wake_latency_above_the_threshold_of_a_short_period_is_no_work() {
        let mut recording = Recording::new(100_000, 10_000, 0, None);
        recording.begin(0, 0);
        let late = Disturbance { late_ns: 12_000, ..Disturbance::default() };
        recording.tick(Sample::in_time(0, 12_000, 12_000, 12_100), 12_000, late);
        let causes = recording.late.causes();
        assert_eq!((causes.late, causes.unaccounted, causes.compute), (1, 1, 0));
    }

    #[test]
    fn a_clock_set_back_is_a_negative_latency_and_not_lost() {
        let mut recording = Recording::new(MS, MS, 0, None);
        recording.begin(0, 0);
        recording.tick(Sample::in_time(MS, -4 * MS, -4 * MS, -4 * MS), MS, Disturbance::default());
        let wake = recording.wake.summary();
        assert_eq!((wake.min, wake.max, wake.mean), (-5 * MS, -5 * MS, -5e6));
    }

    #[test]
    fn a_pause_between_stretches_is_no_period_and_no_time() {
        let mut recording = Recording::new(MS, MS, 0, None);
        for (first_ns, measured_ns) in [(0, 0), (100 * MS, 2 * MS)] {
            recording.begin(first_ns, measured_ns);
            for n in 0..2 {
                let woke_ns = first_ns + n * MS;
                recording.tick(
                    Sample::in_time(woke_ns, woke_ns, woke_ns, woke_ns + measured_ns + n),
                    woke_ns,
                    Disturbance::default(),
                );
            }
        }
        assert_eq!((recording.period.count(), recording.period.summary().max), (2, MS));
        assert_eq!(recording.execution.summary().max_at, 3 * MS);
    }
}
