//! What starts a tick: the timer, or a frame from outside.
//!
//! A sensor head that keeps the time sends one frame a period. A loop paced by it runs when the frame is there,
//! so that it works on the newest reading. When the frame does not come the timer takes over: the loop goes on at
//! its rate, and the ticks without a frame are counted. Frames that come too often start no tick and are counted, too.

use crate::cycle::PACED;
use crate::tick::Machine;
use crate::time::Time;
use arrayvec::ArrayVec;
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
    /// The planned time it runs for, the latest of those passed; or the arrival of its frame. Of a tick whose frame did not
    /// come, when the patience was over: until then the loop waited on purpose.
    pub planned_ns: i64,
    /// The time the loop waited for; after a late wake that is before `planned_ns`. With frames: the arrival of the one
    /// that should have ended the wait.
    pub waited_for_ns: i64,
    /// The first planned time that no earlier tick ran for; `skipped` planned times from here on got no tick. Of a tick whose
    /// frame did not come, when the frame was expected.
    pub due_ns: i64,
    /// When the loop woke.
    pub woke_ns: i64,
    /// Periods without a tick, or frames without one, since the tick before.
    pub skipped: u64,
    /// Its frame did not come.
    pub without_frame: bool,
    /// Frames since the tick before that came too early for a tick.
    pub early_frames: u64,
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
    /// By the timer, or by a frame that may come `frame_patience_ns` late. The first tick is one period after `now_ns`.
    pub fn new(period_ns: i64, overrun: Overrun, frame_patience_ns: Option<i64>, now_ns: i64) -> Self {
        let first_ns = now_ns + period_ns;
        match frame_patience_ns {
            None => Self::Timer(Pacer::new(period_ns, overrun, first_ns)),
            Some(patience_ns) => Self::Frame(FramePacer {
                pacer: PacketPacer::new(period_ns, patience_ns, first_ns),
                patience_ns,
                period_ns,
                planned_ns: first_ns,
                stop_on_overrun: overrun == Overrun::Stop,
                stopped: false,
            }),
        }
    }

    /// Waits for the next tick; `None` once an overrun has stopped the loop.
    pub fn wait(&mut self, machine: &mut Machine, time: &mut impl Time) -> Option<Start> {
        match self {
            Self::Timer(pacer) => {
                time.wait_for_tick(pacer.deadline_ns());
                let woke_ns = time.now_ns();
                pacer.woke(woke_ns).map(|tick| timed(tick, woke_ns))
            }
            Self::Frame(frames) if frames.stopped => None,
            Self::Frame(frames) => Some(frames.wait(machine, time)),
        }
    }

    /// Goes on after an overrun has stopped the loop, as a loop that skips: at once, and then in phase.
    pub fn resume(&mut self, machine: &mut Machine, time: &mut impl Time) -> Start {
        match self {
            Self::Timer(pacer) => timed(pacer.resume(), time.now_ns()),
            Self::Frame(frames) => {
                (frames.stopped, frames.stop_on_overrun) = (false, false);
                frames.wait(machine, time)
            }
        }
    }

    /// Call this when the tick was done; true if it overran.
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

/// A tick the timer started.
fn timed(tick: khz_rt::Tick, woke_ns: i64) -> Start {
    Start {
        planned_ns: tick.planned_ns,
        waited_for_ns: woke_ns - tick.late_ns,
        due_ns: tick.due_ns,
        woke_ns,
        skipped: tick.skipped,
        without_frame: false,
        early_frames: 0,
    }
}

impl FramePacer {
    fn wait(&mut self, machine: &mut Machine, time: &mut impl Time) -> Start {
        let early = self.pacer.counts().early;
        let start = self.next(machine, time);
        self.planned_ns = start.planned_ns;
        Start { early_frames: self.pacer.counts().early - early, ..start }
    }

    fn next(&mut self, machine: &mut Machine, time: &mut impl Time) -> Start {
        let mut deadline_ns = self.pacer.deadline_ns();
        while let Some(frames) = machine.wait_for_frame(time, deadline_ns) {
            let due = |&at_ns: &i64| self.pacer.packet(at_ns).is_some();
            let due: ArrayVec<i64, PACED> = frames.at_ns.into_iter().filter(due).collect();
            if let (Some(&first_ns), Some((&planned_ns, older))) = (due.first(), due.split_last()) {
                // The first ended the wait. A frame after the deadline did not: the deadline had.
                let waited_for_ns = first_ns.min(deadline_ns);
                let skipped = older.len() as u64 + frames.older;
                let start = self.start(planned_ns, waited_for_ns, skipped, time.now_ns());
                return self.after_absence(start, deadline_ns);
            }
            deadline_ns = self.pacer.deadline_ns();
        }
        let woke_ns = time.now_ns();
        let tick = self.pacer.timeout(woke_ns);
        let start = self.start(tick.planned_ns + self.patience_ns, deadline_ns, tick.skipped, woke_ns);
        // It was due with its frame; the patience is a delay of its start like any other.
        Start { without_frame: true, due_ns: tick.due_ns, ..start }
    }

    /// A tick whose frame came after `deadline_ns`: the loop was not there when the timer should have taken over. Many links
    /// know only when a frame was read, so all that came meanwhile seem to have come at the end; the periods passed all the same.
    fn after_absence(&self, start: Start, deadline_ns: i64) -> Start {
        let expected_ns = deadline_ns - self.patience_ns;
        let passed = (start.planned_ns - expected_ns) / self.period_ns;
        if start.planned_ns > deadline_ns && passed as u64 > start.skipped {
            return Start { skipped: passed as u64, due_ns: expected_ns, ..start };
        }
        start
    }

    fn start(&self, planned_ns: i64, waited_for_ns: i64, skipped: u64, woke_ns: i64) -> Start {
        let due_ns = planned_ns - self.period_ns.saturating_mul(skipped as i64);
        Start { planned_ns, waited_for_ns, due_ns, woke_ns, skipped, without_frame: false, early_frames: 0 }
    }
}
