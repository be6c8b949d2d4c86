//! A program that sends: what is known of it, and which of its messages are in order.

use crate::lease::Claim;
use crate::message::{Points, Refused, Sender};
use crate::pace::{Pace, Recent, USUAL_NS};

/// Messages of one program in a second.
const MOST_MESSAGES: u32 = 500;

/// What is known of a program that sends.
#[derive(Clone, Debug)]
pub(super) struct Producer {
    pub sender: Sender,
    seq: Option<u64>,
    /// The time of the first point of its newest message, and of its newest point.
    first_ns: i64,
    pub newest_ns: i64,
    /// The time of the first of the targets that are one with the newest.
    since_ns: i64,
    pub pace: Pace,
    /// How long after they were owed its messages came.
    pub lateness: Recent,
    /// The second in which it has sent so many.
    pub second: (i64, u32),
    pub counts: Counts,
}

/// What became of what a program sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages taken.
    pub taken: u64,
    /// Messages refused, by [`Refused::WORDS`].
    pub refused: [u64; Refused::WORDS.len()],
    /// Points that were beyond a limit, and are at it.
    pub clamped: u64,
}

impl Counts {
    pub(super) fn add(&mut self, refused: Option<&Refused>) {
        match refused {
            None => self.taken += 1,
            Some(why) => self.refused[why.place()] += 1,
        }
    }
}

impl Producer {
    pub fn new(sender: &Sender) -> Self {
        Self {
            sender: sender.clone(),
            seq: None,
            first_ns: i64::MIN,
            newest_ns: i64::MIN,
            since_ns: i64::MIN,
            pace: Pace::default(),
            lateness: Recent::default(),
            second: (i64::MIN, 0),
            counts: Counts::default(),
        }
    }

    /// Its numbers and times begin anew.
    pub fn restart(&mut self) {
        (self.seq, self.first_ns, self.newest_ns, self.since_ns) = (None, i64::MIN, i64::MIN, i64::MIN);
        self.pace.restart();
    }

    pub fn claim(&self, place: usize) -> Claim {
        let Sender { priority, takes, .. } = self.sender;
        Claim { place, priority, takes }
    }

    pub fn count_message(&mut self, now_ns: i64) -> Result<(), Refused> {
        let (second, count) = &mut self.second;
        if now_ns.div_euclid(1_000_000_000) != *second {
            (*second, *count) = (now_ns.div_euclid(1_000_000_000), 0);
        }
        *count += 1;
        if *count > MOST_MESSAGES { Err(Refused::Flood) } else { Ok(()) }
    }

    pub fn check_order(&self, points: &Points) -> Result<(), Refused> {
        let first_ns = points.first_ns();
        match (self.seq, points.seq) {
            (Some(last), Some(seq)) if seq == last => Err(Refused::Duplicate),
            (Some(last), Some(seq)) if seq < last => Err(Refused::OutOfOrder),
            _ if first_ns < self.first_ns => Err(Refused::OutOfOrder),
            _ if points.is_single() && first_ns == self.first_ns => Err(Refused::Duplicate),
            _ => Ok(()),
        }
    }

    /// Single targets within a quarter of its cadence are one, the newest: a program that catches up sends at once what it should have sent
    /// one after the other, which is no motion.
    pub fn is_same(&self, points: &Points) -> bool {
        let cadence_ns = self.pace.cadence_ns(self.sender.every_ns).unwrap_or(USUAL_NS);
        points.is_single() && points.first_ns().saturating_sub(self.since_ns) < cadence_ns / 4
    }

    /// How long after their times its points are followed, ns; chunks are not delayed.
    pub fn delay_ns(&mut self, points: &Points, now_ns: i64, smooth: bool) -> i64 {
        if !points.is_single() {
            return 0;
        }
        self.pace.arrived(now_ns.saturating_sub(points.first_ns()));
        self.pace.delay_ns(points.first_ns(), self.sender.every_ns, smooth)
    }

    pub fn note(&mut self, points: &Points) {
        let is_same = self.is_same(points);
        self.seq = points.seq.or(self.seq);
        (self.first_ns, self.newest_ns) = (points.first_ns(), points.last_ns());
        if points.is_single() && !is_same {
            self.since_ns = points.first_ns();
            self.pace.took(points.first_ns());
        }
    }
}
