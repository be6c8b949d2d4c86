//! Carries out plans: a thread set up as planned, its load beside it.

use super::load::LoadError;
use super::plan::{Plan, PlanError, Work};
use super::recording::{Recording, Sample, WORK};
use super::result::Measurement;
use khz_report::late::LateReport;
use khz_rt::clock::thread_cpu_ns;
use khz_rt::late::{Observer, Window, window_at};
use khz_rt::{
    Counts, KernelTrace, Pacer, Passport, Report, SetupError, Sleeps, ThreadMonitor, Usage, Waiter, now_ns,
};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Why a measurement did not come about.
#[derive(Debug, thiserror::Error)]
pub enum JitterError {
    /// The plan asks for the impossible.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The thread could not be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The load could not be started or did not last.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The kernel had no thread or timer to give.
    #[error("the kernel refuses a thread or timer")]
    Kernel(#[from] std::io::Error),
    /// The kernel cannot be traced.
    #[error("cannot trace the kernel")]
    Trace(#[source] std::io::Error),
    /// More raw samples asked for than memory should hold.
    #[error(
        "{0} raw samples are too many to keep: shorten the run to at most {MOST_SAMPLES} ticks, or leave them out"
    )]
    Samples(u64),
    /// The measuring thread panicked.
    #[error("the measuring thread broke down")]
    Broken,
}

/// Half a gigabyte.
const MOST_SAMPLES: u64 = 4_000_000;
/// What the machine does while the load gets going is not measured.
const SETTLE: std::time::Duration = std::time::Duration::from_millis(500);

/// What goes on, to be read from another thread, and the way to end it early.
#[derive(Debug, Default)]
pub struct Watch {
    /// Ticks done in all stretches.
    pub ticks: AtomicU64,
    /// Longest wake latency so far.
    pub worst_ns: AtomicI64,
    /// Set it to end the run after the present tick.
    pub stop: AtomicBool,
}

/// One plan being carried out, in one stretch or several.
pub struct Experiment {
    plan: Plan,
    recording: Recording,
    usual_work_ns: i64,
    /// On `CLOCK_MONOTONIC`, where the measured time would have begun without the pauses between stretches.
    start_ns: i64,
    measured_ns: i64,
    cpu_ns: i64,
    guard_ns: i64,
    counts: Counts,
    usage: Usage,
    stopped_ns: i64,
    setup: Option<Report>,
    late: Vec<LateReport>,
    trace: bool,
    events: Vec<String>,
}

impl Experiment {
    /// Makes ready; with `raw` it keeps every sample.
    ///
    /// # Errors
    /// If the plan is impossible or there are too many samples to keep.
    pub fn new(plan: Plan, raw: bool) -> Result<Experiment, JitterError> {
        plan.check()?;
        if raw && plan.ticks > MOST_SAMPLES {
            return Err(JitterError::Samples(plan.ticks));
        }
        let usual_work_ns = usual_work_ns(plan.work);
        Ok(Experiment {
            recording: Recording::new(
                plan.period_ns,
                plan.late_ns(),
                usual_work_ns,
                raw.then_some(plan.ticks),
            ),
            plan,
            usual_work_ns,
            start_ns: 0,
            measured_ns: 0,
            cpu_ns: 0,
            guard_ns: 0,
            counts: Counts::default(),
            usage: Usage::default(),
            stopped_ns: 0,
            setup: None,
            late: Vec::new(),
            trace: false,
            events: Vec::new(),
        })
    }

    /// Also traces the kernel on the plan's CPU until the first late tick of the experiment. That costs time, so the
    /// other ticks are a little later than without.
    #[must_use]
    pub fn traced(self) -> Experiment {
        Experiment { trace: true, ..self }
    }

    /// What is measured.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Measures `ticks` more ticks under the plan's load; `worker` as in [`super::Load::start`].
    ///
    /// # Errors
    /// If the load cannot be started, the thread not be set up, or the load ended early.
    pub fn measure(&mut self, ticks: u64, worker: &[String], watch: &Watch) -> Result<(), JitterError> {
        let mut load = self.plan.load.start(worker)?;
        std::thread::sleep(SETTLE);
        load.check()?;
        let first = self.recording.ticks();
        let result = self.stretch(ticks, watch);
        // Locking is the process's; the next stretch may be that of an ordinary thread.
        khz_rt::unlock_memory();
        self.explain(first, &result?);
        Ok(load.check()?)
    }

    fn stretch(&mut self, ticks: u64, watch: &Watch) -> Result<Vec<Window>, JitterError> {
        // Before the measuring thread exists, so that the observer inherits nothing from it.
        let observer = Observer::start(Some(self.plan.cpu.unwrap_or(0)))?;
        let before = Usage::read();
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("khz-jitter".into());
            let thread = thread.spawn_scoped(scope, || self.run(ticks, watch))?;
            thread.join().map_err(|_| JitterError::Broken)?
        })?;
        self.usage = self.usage.plus(&Usage::read().since(&before));
        let (windows, stopped_ns) = observer.finish();
        self.stopped_ns += stopped_ns;
        Ok(windows)
    }

    /// The measuring thread.
    fn run(&mut self, ticks: u64, watch: &Watch) -> Result<(), JitterError> {
        let granted = self.plan.setup().apply()?;
        let mut waiter = Waiter::on(self.plan.clock, self.plan.wake)?;
        let mut trace = self.start_trace()?;
        let mut monitor = ThreadMonitor::new();
        let clock = self.plan.clock;
        let first_ns = clock.now_ns() + self.plan.period_ns;
        let mut pacer = Pacer::new(self.plan.period_ns, self.plan.overrun, first_ns);
        self.recording.begin(first_ns, self.measured_ns);
        let (start_ns, cpu_ns) = (now_ns(), thread_cpu_ns());
        // As the recording has it: from the first planned time on.
        self.start_ns = start_ns + self.plan.period_ns - self.measured_ns;
        let mut ready_ns = clock.now_ns();
        for number in 0..ticks {
            let planned_ns = pacer.deadline_ns();
            let woke_ns = waiter.wait_until(planned_ns);
            let Some(tick) = pacer.woke(woke_ns) else {
                // The stall that ends a run belongs to its figures.
                let tick = pacer.clone().resume();
                monitor.woke(now_ns(), tick.late_ns, ready_ns - planned_ns);
                let sleeps = Sleeps { before: u32::from(waiter.slept()), ..Sleeps::default() };
                let disturbance = monitor.done(now_ns(), sleeps);
                let sample = Sample { withheld: true, ..Sample::of(&tick, woke_ns, woke_ns, woke_ns) };
                self.recording.woke(sample, disturbance);
                break;
            };
            let monotonic_ns = now_ns();
            monitor.woke(monotonic_ns, tick.late_ns, ready_ns - planned_ns);
            let begun_ns = clock.now_ns();
            self.plan.work.run(number);
            let done_ns = clock.now_ns();
            let sleeps = Sleeps { before: u32::from(waiter.slept()), ..Sleeps::default() };
            let disturbance = monitor.done(now_ns(), sleeps);
            let overruns = pacer.counts().overruns;
            pacer.finished(done_ns);
            let overrun = pacer.counts().overruns > overruns;
            let sample = Sample { overrun, ..Sample::of(&tick, woke_ns, begun_ns, done_ns) };
            let late = self.recording.tick(sample, monotonic_ns, disturbance);
            if let Some(trace) = trace.as_mut().filter(|_| late) {
                trace.stop();
            }
            watch.ticks.fetch_add(1, Ordering::Relaxed);
            watch.worst_ns.fetch_max(tick.late_ns, Ordering::Relaxed);
            ready_ns = clock.now_ns();
            if watch.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        self.measured_ns += now_ns() - start_ns;
        self.cpu_ns += thread_cpu_ns() - cpu_ns;
        self.guard_ns = waiter.guard().ns();
        self.counts = self.counts.plus(pacer.counts());
        self.setup = Some(granted.report.clone());
        if let Some(trace) = trace.filter(KernelTrace::is_stopped) {
            self.events = trace.events(MOST_EVENTS);
        }
        Ok(())
    }

    fn start_trace(&self) -> Result<Option<KernelTrace>, JitterError> {
        let wanted = self.trace && self.events.is_empty();
        let cpu = self.plan.cpu.unwrap_or(0);
        wanted.then(|| KernelTrace::start(cpu)).transpose().map_err(JitterError::Trace)
    }

    /// Joins the late ticks of the last stretch with what the machine did at their time.
    fn explain(&mut self, first: u64, windows: &[Window]) {
        let worst = self.recording.late.worst();
        for tick in worst.iter().filter(|tick| tick.number >= first) {
            let at_ns = tick.at_ns - self.start_ns;
            let part = if tick.part == Some(WORK) { "work" } else { "wake" };
            self.late.push(LateReport::new(tick, at_ns, part, window_at(windows, tick.at_ns)));
        }
    }

    /// The figures.
    #[must_use]
    pub fn finish(mut self) -> (Measurement, Recording) {
        self.late.sort_by_key(|late| std::cmp::Reverse(late.response_ns));
        self.late.truncate(MOST_LATE);
        self.late.sort_by_key(|late| late.tick);
        let run = Measurement {
            required: Vec::new(),
            verdict_saved: None,
            name: self.plan.name(),
            cpu_percent: 100.0 * self.cpu_ns as f64 / (self.measured_ns.max(1)) as f64,
            duration_ns: self.measured_ns,
            usual_work_ns: self.usual_work_ns,
            guard_ns: (self.plan.wake == khz_rt::Wake::Hybrid).then_some(self.guard_ns),
            definitions: super::result::DEFINITIONS,
            wake_latency_ns: self.recording.wake.summary(),
            start_delay_ns: self.recording.start_delay.summary(),
            period_ns: self.recording.period.summary(),
            execution_ns: self.recording.execution.summary(),
            response_ns: self.recording.response.summary(),
            counts: self.counts,
            late_threshold_ns: self.recording.late.threshold_ns() + self.usual_work_ns,
            causes: self.recording.late.causes(),
            late_groups: self.recording.costs.groups(),
            lost_time: self.recording.lost,
            late: self.late,
            kernel_events: self.events,
            setup: self.setup,
            passport: Passport::read(),
            usage: self.usage,
            stopped_ns: self.stopped_ns,
            histograms: super::result::Histograms::of(&self.recording),
            wake_trace: self.recording.wake_trace.clone(),
            execution_trace: self.recording.execution_trace.clone(),
            plan: self.plan,
        };
        (run, self.recording)
    }
}

/// Kernel events kept of those before a late tick.
const MOST_EVENTS: usize = 200;
/// Late ticks listed in a result.
const MOST_LATE: usize = 100;

/// The shortest of some runs of the work on this thread as it is: the one nothing came between.
fn usual_work_ns(work: Work) -> i64 {
    let timed = |number| {
        let start_ns = now_ns();
        work.run(number);
        now_ns() - start_ns
    };
    (0..50).map(timed).min().unwrap_or(0)
}

#[cfg(test)]
impl Experiment {
    /// Ticks that never happened, for tests of what is made of the figures.
    pub(super) fn pretend(&mut self, ticks: i64) {
        let period_ns = self.plan.period_ns;
        // What the clock under test is ahead of the monotonic one.
        let ahead_ns = match self.plan.clock {
            khz_rt::clock::Clock::Monotonic => 0,
            khz_rt::clock::Clock::Realtime => 1_700_000_000_000_000_000,
        };
        self.recording.begin(ahead_ns, 0);
        for number in 0..ticks {
            let planned_ns = ahead_ns + number * period_ns;
            let (woke_ns, done_ns) = (planned_ns + 1_000 * number, planned_ns + 400_000);
            let sample = Sample::in_time(planned_ns, woke_ns, woke_ns, done_ns);
            let disturbance =
                khz_rt::Disturbance { late_ns: 1_000 * number, ..khz_rt::Disturbance::default() };
            self.recording.tick(sample, woke_ns - ahead_ns, disturbance);
        }
        self.measured_ns = ticks * period_ns;
        self.counts.ticks = ticks as u64;
        self.explain(
            0,
            &[Window {
                end_ns: 200_000_000,
                length_ns: 300_000_000,
                steal_ns: 10_000_000,
                interrupts: vec![("27 net".into(), 9)],
            }],
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_rt::clock::Clock;

    #[test]
    fn late_ticks_of_either_clock_show_what_the_machine_did_meanwhile() {
        let late = [Clock::Monotonic, Clock::Realtime].map(|clock| {
            let plan = Plan { clock, ..Plan::default() };
            let mut experiment = Experiment::new(plan, false).unwrap();
            experiment.pretend(3);
            experiment.finish().0.late
        });
        assert!(late[0].iter().any(|late| late.window.is_some()), "{late:?}");
        assert_eq!(late[0], late[1]);
    }
}
