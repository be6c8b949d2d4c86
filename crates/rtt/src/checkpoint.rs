//! Looking at a run while it goes on, without disturbing it.
//!
//! There are two tallies. The sender writes to one. A reader hands it the other, empty, and at the end of its tick the
//! sender exchanges them. The sender never waits, and the reader gets a tally that is not being written: a double buffer with
//! the roles of a writer–reader phaser. With one writer, two rings of one slot each are enough.
use super::ledger::Ledger;
use super::plan::Plan;
use super::results::Results;
use super::tally::Tally;
use khz_rt::{Report, Usage};
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::{Arc, OnceLock};

/// What is known once a run has begun.
#[derive(Debug)]
pub(super) struct Began {
    pub(super) setup: Report,
    pub(super) begun_ns: i64,
}

/// The sender's side.
#[derive(Debug)]
pub(super) struct Exchange {
    empty: Consumer<Box<Tally>>,
    full: Producer<Box<Tally>>,
    began: Arc<OnceLock<Began>>,
}

impl Exchange {
    pub(super) fn begin(&self, began: Began) {
        // A sender runs once, so nothing is there yet.
        let _ = self.began.set(began);
    }

    /// Exchanges the tallies if a reader has asked. Never waits.
    pub(super) fn serve(&mut self, ledger: &mut Ledger) {
        if let Ok(mut tally) = self.empty.pop() {
            ledger.exchange(&mut tally);
            // There is only one tally on its way, and the ring has a slot for it.
            let _ = self.full.push(tally);
        }
    }
}

/// The reader's side: on another thread, as often as it likes.
#[derive(Debug)]
pub struct Checkpoints {
    empty: Producer<Box<Tally>>,
    full: Consumer<Box<Tally>>,
    began: Arc<OnceLock<Began>>,
    /// The empty tally, unless the sender has it.
    spare: Option<Box<Tally>>,
    plan: Plan,
    notes: Vec<String>,
    stolen_before: Usage,
    reported_steal_ns: i64,
}

impl Checkpoints {
    pub(super) fn new(plan: &Plan, notes: &[String]) -> (Exchange, Self) {
        let (empty, empties) = RingBuffer::new(1);
        let (fulls, full) = RingBuffer::new(1);
        let began = Arc::new(OnceLock::new());
        let devices = if plan.ask == super::Ask::Broadcast { &[][..] } else { &plan.targets };
        let spare = Some(Box::new(Tally::new(devices.iter().copied())));
        let exchange = Exchange { empty: empties, full: fulls, began: began.clone() };
        let (plan, notes) = (plan.clone(), notes.to_vec());
        let stolen_before = Usage::read();
        (exchange, Self { empty, full, began, spare, plan, notes, stolen_before, reported_steal_ns: 0 })
    }

    /// Asks the sender for what it has; [`Checkpoints::look`] gets it, a tick later at the earliest.
    pub fn ask(&mut self) {
        if let Some(spare) = self.spare.take()
            && let Err(rtrb::PushError::Full(spare)) = self.empty.push(spare)
        {
            self.spare = Some(spare);
        }
    }

    /// What the sender measured since the last look, once it has answered.
    pub fn look(&mut self) -> Option<Results> {
        let mut tally = self.full.pop().ok()?;
        let began = self.began.get()?;
        let steal_ns = Usage::read().since(&self.stolen_before).steal_total_ns() - self.reported_steal_ns;
        self.reported_steal_ns += steal_ns;
        let results = Results::new(&self.plan, &tally, &began.setup, began.begun_ns, steal_ns);
        tally.clear();
        self.spare = Some(tally);
        Some(Results { notes: self.notes.clone(), ..results })
    }

    /// The rest of the run: what the sender returned at its end, without the steal that was reported before.
    pub fn rest(&self, results: Results) -> Results {
        Results { steal_ns: (results.steal_ns - self.reported_steal_ns).max(0), ..results }
    }
}
