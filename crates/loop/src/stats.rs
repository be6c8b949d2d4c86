//! The account of a run, kept by the loop as it goes: the tally, and what no record of a tick has.

use crate::controller::Beside;
use crate::run::{Observer, Tick};
use crate::supervisor::Transition;
use khz_rt::Histogram;
use khz_run::tally::Tally;
use std::ops::Deref;

/// So many transitions are kept from the beginning of a run, and as many from its end.
const KEPT: usize = 32;

/// What a controller on its own thread did, in the ticks in which it was to decide.
#[derive(Clone, Debug, Default)]
pub struct Pipelined {
    /// Such ticks.
    pub ticks: u64,
    /// Of these, ticks without a new decision: the commands of before stayed.
    pub without_decision: u64,
    /// How long its jobs took, of those that were done.
    pub elsewhere: Histogram,
    /// How old the commands were when the next tick sent them, from the start of the tick whose state they are of.
    pub command_age: Histogram,
}

impl Pipelined {
    fn count(&mut self, beside: &Beside, at_ns: i64, period_ns: i64) {
        self.ticks += 1;
        match beside.is_behind {
            true => self.without_decision += 1,
            false => self.elsewhere.record(beside.took_ns, at_ns),
        }
        if let Some(of_ns) = beside.of_ns {
            self.command_age.record(at_ns + period_ns - of_ns, at_ns);
        }
    }
}

/// What a run was like.
#[derive(Clone, Debug)]
pub struct RunStats {
    /// What was counted.
    pub tally: Tally,
    /// What a controller on its own thread did.
    pub pipelined: Pipelined,
    /// Frames that pace the loop but came too early for a tick: the sensor is faster than the loop's rate.
    pub early_frames: u64,
    /// Changes of phase and warnings, oldest first. Of very many the first 32 and the last 32: how it began, and
    /// what ended it.
    pub transitions: Vec<Transition>,
    /// How many were left out between these.
    pub transitions_left_out: u64,
}

impl RunStats {
    /// Nothing run yet. A tick whose response exceeds the usual one by more than `late_ns` is late. All memory the statistics
    /// need is taken here.
    pub fn new(late_ns: i64) -> Self {
        Self {
            tally: Tally::new(late_ns),
            pipelined: Pipelined::default(),
            early_frames: 0,
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
}

impl Deref for RunStats {
    type Target = Tally;

    fn deref(&self) -> &Tally {
        &self.tally
    }
}

impl Observer for RunStats {
    fn tick(&mut self, tick: &Tick<'_>) {
        self.tally.count(&tick.record, tick.pace);
        self.early_frames += tick.early_frames;
        if let Some(beside) = tick.machine.beside() {
            self.pipelined.count(&beside, tick.record.started_ns, tick.pace.period_ns);
        }
        if let Some(decided) = tick.machine.decided() {
            self.tally.decide(decided);
        }
        if tick.record.missed > 0 {
            tick.machine.cycle().missed().for_each(|servo| self.tally.missed_by(servo));
        }
        let quiet = tick.machine.result().quiet;
        if quiet > 0 {
            self.tally.kept_quiet(quiet.into());
        }
        tick.machine.transitions().iter().for_each(|transition| self.keep(*transition));
    }
}
