//! One servo within the cycle: its frame, whether its reply is awaited, and its counts.

use super::codec::{Codec, Mounting, Read};
use super::queries::{Answer, Queries, Symbol};
use crate::command::ServoCommand;
use crate::config::{CommandFormat, QueryFormat};
use crate::state::ServoState;
use khz_link::Received;
use khz_rt::Histogram;
use khz_wire::{Address, Frame};

/// One servo of the plan.
#[derive(Clone, Debug)]
pub struct DevicePlan {
    /// Which link.
    pub link: usize,
    /// Which of its buses.
    pub channel: u8,
    /// The servo's id, 1–126.
    pub id: u8,
    /// How it is mounted.
    pub mounting: Mounting,
    /// How commands travel.
    pub command: CommandFormat,
    /// How its state travels.
    pub query: QueryFormat,
    /// The servo stops by itself if it hears nothing this long, s. NaN: never.
    pub watchdog_s: f64,
    /// On half-duplex buses: how long to wait for this servo before asking the next.
    pub reply_timeout_ns: i64,
}

/// Counts since the start.
#[derive(Debug)]
pub struct DeviceStats {
    /// Queries sent.
    pub sent: u64,
    /// Replies in time.
    pub replied: u64,
    /// Cycles without a reply in time.
    pub missed: u64,
    /// Longest run of missed cycles.
    pub missed_in_a_row: u32,
    /// Replies to older queries, and further replies to the same one.
    pub late: u64,
    /// Of these, further replies to a query already answered: two servos may have the same id.
    pub duplicates: u64,
    /// From handing the query to the link until the reply had arrived.
    pub round_trip: Histogram,
}

/// What a received frame was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer to this cycle's query.
    Fresh,
    /// An answer to an older query, or too late.
    Late,
    /// A further answer to a query already answered.
    Duplicate,
    /// Not an answer.
    Foreign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Encoded, not sent.
    Ready,
    /// Sent, not answered.
    Awaited,
    Answered,
    /// The cycle is over.
    Ended {
        missed: bool,
    },
}

/// One servo at work.
#[derive(Debug)]
pub struct Device {
    pub lane: usize,
    codec: Codec,
    queries: Queries,
    /// Of the query in `frame`.
    symbol: Symbol,
    frame: Frame,
    phase: Phase,
    reply_timeout_ns: i64,
    missed_now: u32,
    stats: DeviceStats,
}

impl Device {
    pub fn new(plan: &DevicePlan, prefix: u16, host: u8, lane: usize) -> Self {
        let address = Address { prefix, source: host, destination: plan.id, reply: true };
        let mut codec = Codec::new(address, &plan.command, &plan.query, plan.mounting, plan.watchdog_s);
        let mut frame =
            Frame::new(address.id(), &[]).unwrap_or_else(|| unreachable!("an address has 29 bits"));
        codec.encode(&ServoCommand::Stop, 0, &mut frame);
        let stats = DeviceStats {
            sent: 0,
            replied: 0,
            missed: 0,
            missed_in_a_row: 0,
            late: 0,
            duplicates: 0,
            round_trip: Histogram::new(),
        };
        let (rotations, marks) = codec.symbols();
        Self {
            lane,
            codec,
            queries: Queries::new(rotations, marks),
            symbol: 0,
            frame,
            phase: Phase::Ended { missed: false },
            reply_timeout_ns: plan.reply_timeout_ns,
            missed_now: 0,
            stats,
        }
    }

    pub fn encode(&mut self, command: &ServoCommand) {
        self.symbol = self.queries.next();
        self.codec.encode(command, self.symbol, &mut self.frame);
        self.phase = Phase::Ready;
    }

    pub fn sent(&mut self, now_ns: i64) {
        self.queries.sent(self.symbol, now_ns);
        self.phase = Phase::Awaited;
        self.stats.sent += 1;
    }

    /// Reads a frame from this device into its state. The values are as old as the query they answer, at the most.
    pub fn take_in(&mut self, received: &Received, deadline_ns: i64, servo: &mut ServoState) -> Outcome {
        let Some(Read { symbol, refused }) = self.codec.read(received.frame.payload()) else {
            return Outcome::Foreign;
        };
        let answer = self.queries.answered(symbol, refused);
        if let (Answer::News { sent_ns, newest }, false) = (answer, refused) {
            self.codec.decode(&received.frame, symbol, servo);
            servo.at_ns = sent_ns;
            let in_time = (sent_ns..=deadline_ns).contains(&received.at_ns);
            if newest && in_time && self.phase == Phase::Awaited {
                servo.round_trip_ns = received.at_ns - sent_ns;
                self.stats.round_trip.record(servo.round_trip_ns, received.at_ns);
                self.stats.replied += 1;
                self.phase = Phase::Answered;
                return Outcome::Fresh;
            }
        }
        self.stats.late += 1;
        self.stats.duplicates += u64::from(answer == Answer::Duplicate);
        if answer == Answer::Duplicate { Outcome::Duplicate } else { Outcome::Late }
    }

    /// Ends the cycle; true if the device answered in time.
    pub fn end(&mut self) -> bool {
        let answered = self.phase == Phase::Answered;
        self.phase = Phase::Ended { missed: !answered };
        self.missed_now = if answered { 0 } else { self.missed_now + 1 };
        self.stats.missed += u64::from(!answered);
        self.stats.missed_in_a_row = self.stats.missed_in_a_row.max(self.missed_now);
        answered
    }

    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    pub fn stats(&self) -> &DeviceStats {
        &self.stats
    }

    pub fn was_missed(&self) -> bool {
        self.phase == Phase::Ended { missed: true }
    }

    pub fn reply_timeout_ns(&self) -> i64 {
        self.reply_timeout_ns
    }
}
