//! What starts a tick: the timer, or a frame from outside.
//!
//! A sensor head that keeps the time sends one frame a period. A loop paced by it runs when the frame is there,
//! so that it works on the newest reading. When the frame does not come the timer takes over: the loop goes on at
//! its rate, and the ticks without a frame are counted.

use crate::run::RunOptions;
use crate::tick::Machine;
use crate::time::Time;
use khz_rt::{Overrun, Pacer, PacketPacer};

/// Starts the ticks of a loop.
pub(crate) enum Pace {
    /// By the timer.
    Timer(Pacer),
    /// By a frame, by the timer only where none comes.
    Frame(FramePacer),
}

/// The start of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// What it was planned for: the timer, or the arrival of its frame.
    pub planned_ns: i64,
    /// Periods without a tick, or frames without one, since the tick before.
    pub missed: u64,
    /// Its frame did not come.
    pub without_frame: bool,
}

/// Starts a tick per frame.
pub(crate) struct FramePacer {
    pacer: PacketPacer,
    patience_ns: i64,
    period_ns: i64,
    planned_ns: i64,
    stop_on_overrun: bool,
    stopped: bool,
}

impl Pace {
    /// The first tick is one period after `now_ns`.
    pub fn new(options: &RunOptions, now_ns: i64) -> Self {
        let first_ns = now_ns + options.period_ns;
        match options.frame_patience_ns {
            None => Self::Timer(Pacer::new(options.period_ns, options.overrun, first_ns)),
            Some(patience_ns) => Self::Frame(FramePacer {
                pacer: PacketPacer::new(options.period_ns, patience_ns, first_ns),
                patience_ns,
                period_ns: options.period_ns,
                planned_ns: first_ns,
                stop_on_overrun: options.overrun == Overrun::Stop,
                stopped: false,
            }),
        }
    }

    /// Waits for the next tick; `None` once an overrun has stopped the loop.
    pub fn wait(&mut self, machine: &mut Machine, time: &mut impl Time) -> Option<Start> {
        match self {
            Self::Timer(pacer) => {
                time.wait_for_tick(pacer.deadline_ns());
                let tick = pacer.woke(time.now_ns())?;
                Some(Start { planned_ns: tick.planned_ns, missed: tick.missed, without_frame: false })
            }
            Self::Frame(frames) => frames.wait(machine, time),
        }
    }

    /// To be told when the tick was done; true if it overran.
    pub fn finished(&mut self, now_ns: i64) -> bool {
        match self {
            Self::Timer(pacer) => {
                let before = pacer.counts().overruns;
                pacer.finished(now_ns);
                pacer.counts().overruns > before
            }
            Self::Frame(frames) => {
                let overrun = now_ns > frames.planned_ns + frames.period_ns;
                frames.stopped |= overrun && frames.stop_on_overrun;
                overrun
            }
        }
    }
}

impl FramePacer {
    fn wait(&mut self, machine: &mut Machine, time: &mut impl Time) -> Option<Start> {
        if self.stopped {
            return None;
        }
        let frame = machine.wait_for_frame(time, self.pacer.deadline_ns());
        let start = match frame {
            Some(frame) => {
                let tick = self.pacer.packet(frame.at_ns);
                Start { planned_ns: frame.at_ns, missed: tick.missed + frame.older, without_frame: false }
            }
            None => {
                let tick = self.pacer.timeout(time.now_ns());
                let planned_ns = tick.planned_ns + self.patience_ns;
                Start { planned_ns, missed: tick.missed, without_frame: true }
            }
        };
        self.planned_ns = start.planned_ns;
        Some(start)
    }
}
