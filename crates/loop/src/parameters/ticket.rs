//! Requests on their way into the loop, and the ticks that took them on their way back. `proofs/tests/ticket.rs` tries every
//! order in which two threads can do that: requests are taken in their order and whole, and a thread that sees that one was taken
//! sees its tick and what the loop did before it published that.
//!
//! # Realtime contract
//! The loop neither allocates nor locks nor waits.

use crate::sync::{Arc, AtomicBool, AtomicU64, Consumer, Ordering, Producer, RingBuffer};

/// The end that asks.
pub struct Asking<T> {
    ring: Producer<T>,
    asked: u64,
    answers: Arc<Answers>,
}

/// The loop's end.
pub struct Taking<T> {
    ring: Consumer<T>,
    taken: u64,
    answers: Arc<Answers>,
}

/// Which requests were taken, and when.
pub struct Answers {
    taken: AtomicU64,
    /// Of the newest requests, each at its number modulo their count.
    ticks: Vec<AtomicU64>,
    /// The loop has looked for a request at least once.
    begun: AtomicBool,
    over: AtomicBool,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It waits to be taken.
    Waiting,
    /// It was taken in this tick. If that was not asked for long, in this one at the latest.
    Taken(u64),
    /// It did not count any more when a tick looked at it.
    Refused,
    /// The loop has ended and did not take it.
    Over,
}

/// Instead of its tick, of a request that did not count any more.
const REFUSED: u64 = u64::MAX;

/// Both ends, with room for so many requests; the ticks of so many are remembered.
pub fn tickets<T>(room: usize, remembered: usize) -> (Asking<T>, Taking<T>) {
    let (producer, consumer) = RingBuffer::new(room);
    let ticks = (0..remembered).map(|_| AtomicU64::new(0)).collect();
    let answers = Arc::new(Answers {
        taken: AtomicU64::new(0),
        ticks,
        begun: AtomicBool::new(false),
        over: AtomicBool::new(false),
    });
    let asking = Asking { ring: producer, asked: 0, answers: Arc::clone(&answers) };
    (asking, Taking { ring: consumer, taken: 0, answers })
}

impl<T> Asking<T> {
    /// Asks; gives the request's number, or nothing if there is no room.
    pub fn ask(&mut self, request: T) -> Option<u64> {
        self.ring.push(request).ok()?;
        self.asked += 1;
        Some(self.asked)
    }

    /// What will become of the requests.
    pub fn answers(&self) -> Arc<Answers> {
        Arc::clone(&self.answers)
    }
}

impl<T> Taking<T> {
    /// Takes the oldest request and has `act` do what it asks, in this tick; `act` returns whether it did.
    pub fn take(&mut self, tick: u64, act: impl FnOnce(&T) -> bool) {
        self.answers.begun.store(true, Ordering::Relaxed);
        let Ok(request) = self.ring.pop() else { return };
        let tick = if act(&request) { tick } else { REFUSED };
        self.taken += 1;
        let at = self.taken as usize % self.answers.ticks.len();
        self.answers.ticks[at].store(tick, Ordering::Relaxed);
        self.answers.taken.store(self.taken, Ordering::Release);
    }
}

impl<T> Drop for Taking<T> {
    fn drop(&mut self) {
        self.answers.over.store(true, Ordering::Release);
    }
}

impl Answers {
    /// What became of the request of this number.
    pub fn fate(&self, number: u64) -> Fate {
        // In this order: what was taken before the loop ended was taken.
        let over = self.is_over();
        if self.taken.load(Ordering::Acquire) >= number {
            return match self.ticks[number as usize % self.ticks.len()].load(Ordering::Relaxed) {
                REFUSED => Fate::Refused,
                tick => Fate::Taken(tick),
            };
        }
        if over { Fate::Over } else { Fate::Waiting }
    }

    /// The loop has had a tick: what is asked from now on waits for the next one, and not for its start.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// The loop has ended.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}
