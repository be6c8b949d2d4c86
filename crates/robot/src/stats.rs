//! The account of a run, kept by the loop as it goes: the tally, and what no record of a tick has.

use crate::run::{Observer, Tick};
use crate::supervisor::Transition;
use khz_run::tally::Tally;
use std::ops::Deref;

/// So many transitions are kept from the beginning of a run, and as many from its end.
const KEPT: usize = 32;

/// What a run was like.
#[derive(Clone, Debug)]
pub struct RunStats {
    /// What was counted.
    pub tally: Tally,
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
        if tick.record.missed > 0 {
            tick.machine.cycle().missed().for_each(|servo| self.tally.missed_by(servo));
        }
        tick.machine.transitions().iter().for_each(|transition| self.keep(*transition));
    }
}
