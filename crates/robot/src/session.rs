//! A whole run: opens the links, starts the recorder and the loop's thread, and returns the outcome.

use crate::live::LiveSummary;
use crate::recorder::Summary;
use khz_loop::parameters::Parameter;
use khz_loop::ready::NotReady;
use khz_loop::run::{Observer, RunOptions, RunStats, Tick, run};
use khz_loop::tick::Machine;
use khz_loop::time::{RealTime, Receive, Time, VirtualTime};
use khz_loop::timing::{Clock, LoopConfig};
use khz_rt::late::{self, Window};
use khz_rt::panics::{self, Panic};
use khz_rt::{
    Grade, Granted, Overrun, Passport, Report, SectionSummary, Setup, SetupError, Usage, Waiter, Wake,
};
use khz_run::record;
use khz_run::tally::Pace;
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

/// Ticks the live view may fall behind before it misses some.
const LIVE_TICKS: usize = 4096;

/// How the loop's thread is to run.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// Real time, or virtual time from 0, in which nothing below about the thread counts.
    pub clock: Clock,
    /// Scheduling, memory, CPU.
    pub setup: Setup,
    /// How to wait for the start of a tick.
    pub wake: Wake,
    /// How to wait for replies.
    pub receive: Receive,
    /// The period.
    pub period_ns: i64,
    /// What happens after a tick that took too long.
    pub overrun: Overrun,
    /// The loop is paced by the machine's frame; this much later than expected the timer takes over. `None`: paced by
    /// the timer.
    pub frame_patience_ns: Option<i64>,
    /// A tick that ends this much later than usual is late and explained.
    pub late_ns: i64,
    /// After this long the robot is brought down; `None`: only by [`Session::stop`].
    pub duration_ns: Option<i64>,
}

impl SessionSettings {
    /// As `[loop]` has them.
    pub fn of(timing: &LoopConfig, receive: Receive, duration_ns: Option<i64>) -> Self {
        Self {
            clock: timing.clock,
            setup: timing.thread(),
            wake: timing.wake,
            receive,
            period_ns: timing.period_ns(),
            overrun: timing.overrun,
            frame_patience_ns: timing.frame_patience_ns(),
            late_ns: timing.late_ns(),
            duration_ns,
        }
    }
}

/// Why a run could not begin.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The thread was not granted what it asked for, or asked for what there is not.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// No timer or no thread.
    #[error("cannot start the loop: {0}")]
    Io(#[from] std::io::Error),
    /// A servo is not ready to be driven.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// It was stopped before it began.
    #[error(
        "asked to stop while servos that were left on were let down: the run did not begin. Every servo was commanded to switch off; one that \
         does not reply may still be on"
    )]
    Stopped,
    /// The loop's thread ended by a panic: a bug.
    #[error("the loop panicked, which is a bug in kilohertz: {0}")]
    Panicked(String),
}

/// A run under way. Dropped, it brings the robot down and blocks until that is done, as [`Session::wait`] does after
/// [`Session::stop`]: a robot without a handle could not be stopped.
pub struct Session {
    stop: Arc<AtomicBool>,
    live: Consumer<record::Tick>,
    /// What people at the robot must know before its first tick.
    notes: mpsc::Receiver<String>,
    /// The loop; `None` once its end was waited for.
    thread: Option<JoinHandle<Result<AtRest, SessionError>>>,
    usage: Usage,
    watch: Option<late::Observer>,
    clock: Clock,
    pace: Pace,
    late_ns: i64,
}

/// What the loop's thread gives back.
type AtRest = (Machine, RunStats, Report);

/// How a run went.
pub struct Outcome {
    /// The machine at rest, with its counts.
    pub machine: Machine,
    /// The loop's statistics.
    pub stats: RunStats,
    /// Where the controller's time went, by sections it named; those of a [`Chain`](khz_loop::controller::Chain) are its modules.
    pub modules: Vec<SectionSummary>,
    /// What the loop's CPU did meanwhile besides, in short windows; empty if the loop was not bound to one.
    pub windows: Vec<Window>,
    /// For how long the whole process seems to have been stopped: see [`late::Observer::finish`].
    pub stopped_ns: i64,
    /// What the loop's thread asked for and was granted.
    pub grants: Report,
    /// The computer it ran on.
    pub passport: Passport,
    /// What happened on that computer meanwhile.
    pub usage: Usage,
    /// Commands that were handed over and may not have reached the servos, in lines for people; none, as a rule.
    pub unsent: Vec<String>,
    /// What was recorded; `None` without a log and a live view.
    pub recording: Option<Summary>,
    /// The controller's parameters, with their last values.
    pub parameters: Vec<Parameter>,
    /// What was asked of it live.
    pub live: LiveSummary,
}

impl Outcome {
    /// Of a loop alone, without figures of the computer.
    pub fn of(mut machine: Machine, stats: RunStats, grants: Report) -> Self {
        Self {
            modules: machine.controller_profile(),
            machine,
            stats,
            windows: Vec::new(),
            stopped_ns: 0,
            grants,
            passport: Passport::default(),
            usage: Usage::default(),
            unsent: Vec::new(),
            recording: None,
            parameters: Vec::new(),
            live: LiveSummary::default(),
        }
    }
}

impl Session {
    /// Starts the loop on its own thread. `stop` ends it gently when set; `others` are called in every tick.
    ///
    /// # Errors
    /// If there is no thread or no timer. What the thread is not granted is an error of [`Session::wait`].
    pub fn start(
        mut machine: Machine,
        mut others: Vec<Box<dyn Observer + Send>>,
        settings: SessionSettings,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, SessionError> {
        let usage = Usage::read();
        // Before the loop's thread exists, so that it inherits nothing from it.
        let clock = settings.clock;
        let watch = match clock {
            Clock::Real => Some(late::Observer::start(settings.setup.cpu)?),
            Clock::Virtual => None,
        };
        let (producer, live) = RingBuffer::new(LIVE_TICKS);
        let (sender, notes) = mpsc::channel();
        let late_ns = settings.late_ns;
        let pace = Pace { period_ns: settings.period_ns, by_sensor: settings.frame_patience_ns.is_some() };
        let options = RunOptions {
            period_ns: settings.period_ns,
            overrun: settings.overrun,
            frame_patience_ns: settings.frame_patience_ns,
            duration_ns: settings.duration_ns,
            stop: Arc::clone(&stop),
        };
        let work = move || -> Result<AtRest, SessionError> {
            // The run may have been dropped meanwhile.
            let mut note = |text| _ = sender.send(text);
            let mut stats = RunStats::new(settings.late_ns);
            let mut live = Live(producer);
            let mut observers: Vec<&mut dyn Observer> = vec![&mut stats, &mut live];
            observers.extend(others.iter_mut().map(|other| -> &mut dyn Observer { other.as_mut() }));
            let grants = match clock {
                Clock::Real => {
                    let granted: Granted = settings.setup.apply()?;
                    let mut time = RealTime::new(Waiter::new(settings.wake)?, settings.receive);
                    begin(&mut machine, &mut time, &mut note, &options.stop)?;
                    run(&mut machine, &mut time, &options, &mut observers);
                    granted.report.clone()
                }
                Clock::Virtual => {
                    let mut time = VirtualTime::new(0);
                    begin(&mut machine, &mut time, &mut note, &options.stop)?;
                    run(&mut machine, &mut time, &options, &mut observers);
                    Report { thread: "virtual time".to_owned(), grade: Grade::Ordinary, settings: Vec::new() }
                }
            };
            Ok((machine, stats, grants))
        };
        // A panic is not printed: the thread must end, even when its output is not read.
        let work = move || {
            let mut panic = Panic::new();
            panics::catch(&mut panic, work).unwrap_or_else(|| Err(SessionError::Panicked(panic.to_string())))
        };
        let thread = thread::Builder::new().name("khz-loop".to_owned()).spawn(work)?;
        Ok(Self { stop, live, notes, thread: Some(thread), usage, watch, clock, pace, late_ns })
    }

    /// The clock it runs by.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// What starts its ticks.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// From how much over the usual response on a tick is late.
    pub fn late_ns(&self) -> i64 {
        self.late_ns
    }

    /// Brings the robot down gently.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The next tick not looked at yet, if any.
    pub fn live(&mut self) -> Option<record::Tick> {
        self.live.pop().ok()
    }

    /// What people at the robot must know of its start and have not been told yet, if anything.
    pub fn note(&self) -> Option<String> {
        self.notes.try_recv().ok()
    }

    /// The loop has ended; [`Session::wait`] will not block.
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Blocks until the robot is down.
    ///
    /// # Errors
    /// If the loop never ran.
    pub fn wait(mut self) -> Result<Outcome, SessionError> {
        self.end()
    }

    /// As [`Session::wait`], once.
    pub(crate) fn end(&mut self) -> Result<Outcome, SessionError> {
        let (mut machine, stats, grants) = self.join()?;
        let unsent = machine.close_links(now_ns(self.clock, &machine));
        let usage = Usage::read().since(&self.usage);
        let (windows, stopped_ns) = self.watch.take().map(late::Observer::finish).unwrap_or_default();
        let passport = Passport::read();
        Ok(Outcome { windows, stopped_ns, passport, usage, unsent, ..Outcome::of(machine, stats, grants) })
    }

    /// Its end was waited for.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.thread.is_none()
    }

    fn join(&mut self) -> Result<AtRest, SessionError> {
        let ended = self.thread.take().map(JoinHandle::join).and_then(Result::ok);
        ended.unwrap_or_else(|| Err(SessionError::Panicked("no message".to_owned())))
    }
}

/// Makes every servo ready.
fn begin(
    machine: &mut Machine,
    time: &mut impl Time,
    note: &mut dyn FnMut(String),
    stop: &AtomicBool,
) -> Result<(), SessionError> {
    if machine.make_ready_telling(time, note, stop)? { Ok(()) } else { Err(SessionError::Stopped) }
}

/// The time a machine's links have reached at least.
fn now_ns(clock: Clock, machine: &Machine) -> i64 {
    match clock {
        Clock::Real => khz_rt::now_ns(),
        Clock::Virtual => machine.state().now_ns,
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
        if let Ok((mut machine, ..)) = self.join() {
            machine.close_links(now_ns(self.clock, &machine));
        }
    }
}

/// Hands ticks to the live line; those it has no room for are dropped.
struct Live(Producer<record::Tick>);

impl Observer for Live {
    fn tick(&mut self, tick: &Tick<'_>) {
        let _ = self.0.push(tick.record);
    }
}
