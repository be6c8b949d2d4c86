//! A client as the rest of the server sees it: where to put what is for it. Nothing here grows without bound, however
//! little the client reads.

use crate::control::Answer;
use crate::slots::{Origin, Slot};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many bytes of messages wait for a client. Beyond it the oldest are dropped, and counted.
pub(crate) const MAX_QUEUED: usize = 4 << 20;
/// What a queued message costs beside its bytes.
const MESSAGE_BESIDE: usize = 64;

/// What a client is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A text message.
    Text(String),
    /// A binary message.
    Binary(Vec<u8>),
}

/// A message of a channel, encoded once for all clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queued {
    pub channel: u64,
    pub time_us: i64,
    pub bytes: Arc<[u8]>,
}

/// What happened that a client may have to know.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Notices {
    /// Answers to its requests.
    pub answers: Vec<(u64, Answer)>,
    /// Parameters with new values, by their place in the list.
    pub parameters: BTreeSet<usize>,
    /// There are other channels than before.
    pub channels: bool,
    /// Another run has begun.
    pub run: bool,
}

/// A client.
#[derive(Debug)]
pub struct Peer {
    /// Its number, never used twice.
    pub id: u64,
    /// Who it is, for the robot's log: what speaks there, and from which address.
    pub by: String,
    from: Origin,
    inbox: Mutex<Inbox>,
    bell: OwnedFd,
    is_over: AtomicBool,
    /// See [`Peer::knows`].
    knows_us: AtomicU64,
    came_us: AtomicU64,
    /// When it last sent something or took what it was sent; 0: never.
    active_us: AtomicU64,
    steers: Mutex<PerSecond>,
    changes: Mutex<PerSecond>,
}

/// A client keeps its slot for so long after it last sent something or took what it was sent, or, before that, after it connected, µs.
const FRESH_US: u64 = 1_000_000;
/// Inputs of a stick that count within a second; one every 50 ms is usual.
const STEERS: u32 = 200;
/// Requests to set parameters or to arm that are passed on within a second; a slider of the page sends ten.
pub(crate) const CHANGES: u32 = 100;

/// How many there were within a second.
#[derive(Debug, Default)]
pub(crate) struct PerSecond {
    second: u64,
    count: u32,
}

impl PerSecond {
    /// Counts one more; returns whether it is one of the first `most` of its second.
    pub fn admit(&mut self, now_us: u64, most: u32) -> bool {
        let second = now_us / 1_000_000;
        if self.second != second {
            *self = Self { second, count: 0 };
        }
        self.count = self.count.saturating_add(1);
        self.count <= most
    }
}

#[derive(Debug, Default)]
struct Inbox {
    notices: Notices,
    queue: Queue,
}

impl Peer {
    /// A client that has been sent nothing yet.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    pub fn new(id: u64, by: String, from: IpAddr) -> std::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (inbox, steers, changes) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (is_over, knows_us, active_us) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let from = Origin::of(from);
        let came_us = AtomicU64::new(0);
        Ok(Self { id, by, from, inbox, bell, is_over, knows_us, came_us, active_us, steers, changes })
    }

    /// It is admitted now, so nothing that it sends can have been decided earlier.
    pub(crate) fn comes(&self, now_us: u64) {
        self.came_us.store(now_us, Ordering::Relaxed);
        self.knows(now_us);
    }

    /// It has sent something, or has taken what it was sent.
    pub(crate) fn is_active(&self, now_us: u64) {
        self.active_us.store(now_us.max(1), Ordering::Relaxed);
    }

    /// Its slot among the others.
    pub(crate) fn slot(&self, is_stopping: bool, now_us: u64) -> Slot {
        let (came_us, active_us) =
            (self.came_us.load(Ordering::Relaxed), self.active_us.load(Ordering::Relaxed));
        let is_fresh = now_us.saturating_sub(came_us.max(active_us)) < FRESH_US;
        let active_us = Some(active_us).filter(|active_us| *active_us > 0);
        Slot { client: self.id, from: self.from, active_us, is_stopping, is_fresh }
    }

    /// The client has confirmed what was sent to it at this time of the hub, so whatever it sends next is newer than that.
    pub(crate) fn knows(&self, now_us: u64) {
        self.knows_us.fetch_max(now_us, Ordering::Relaxed);
    }

    /// The newest such time: for clients whose requests cannot carry it.
    pub(crate) fn knows_us(&self) -> u64 {
        self.knows_us.load(Ordering::Relaxed)
    }

    /// Whether another input of its stick may be passed on: a flood of them must not keep others' requests from the robot.
    pub(crate) fn may_steer(&self, now_us: u64) -> bool {
        self.steers.lock().unwrap_or_else(PoisonError::into_inner).admit(now_us, STEERS)
    }

    /// The same for requests that change something. Refusing one takes no lock that others wait for.
    pub(crate) fn may_change(&self, now_us: u64) -> bool {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).admit(now_us, CHANGES)
    }

    /// Adds a message; the oldest of the channel with most of the room leave if there is too little.
    pub(crate) fn push(&self, message: Queued) {
        let was_empty = {
            let mut inbox = self.inbox();
            let was_empty = inbox.queue.is_empty();
            inbox.queue.push(message);
            was_empty
        };
        if was_empty {
            self.ring();
        }
    }

    pub(crate) fn notify(&self, note: impl FnOnce(&mut Notices)) {
        note(&mut self.inbox().notices);
        self.ring();
    }

    pub(crate) fn notices(&self) -> Notices {
        std::mem::take(&mut self.inbox().notices)
    }

    /// Takes messages of about `bytes` bytes, in their order.
    pub(crate) fn take(&self, bytes: usize, out: &mut Vec<Queued>) {
        self.inbox().queue.take(bytes, out);
    }

    /// Forgets what is queued of a channel.
    pub(crate) fn forget(&self, channel: u64) {
        self.inbox().queue.forget(channel);
    }

    /// How many messages it has lost, of all channels.
    pub fn lost(&self) -> u64 {
        self.inbox().queue.lost
    }

    /// Its thread shall end.
    pub(crate) fn close(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.ring();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Readable when there is something new.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Before it looks: what comes from now on rings again.
    pub(crate) fn silence(&self) {
        // Nothing there: it has not rung.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }

    fn ring(&self) {
        // Only a counter that is full cannot be added to, and that one rings.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Messages in their order, of which those of any channel can be dropped.
#[derive(Debug, Default)]
struct Queue {
    messages: BTreeMap<u64, Queued>,
    channels: HashMap<u64, OfChannel>,
    next: u64,
    bytes: usize,
    lost: u64,
}

#[derive(Debug, Default)]
struct OfChannel {
    numbers: VecDeque<u64>,
    bytes: usize,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    fn push(&mut self, message: Queued) {
        let of = self.channels.entry(message.channel).or_default();
        of.numbers.push_back(self.next);
        of.bytes += cost(&message);
        self.bytes += cost(&message);
        self.messages.insert(self.next, message);
        self.next += 1;
        while self.bytes > MAX_QUEUED && self.drop_one() {}
    }

    /// Drops the oldest message of the channel with the most bytes.
    fn drop_one(&mut self) -> bool {
        let largest = self.channels.iter().max_by_key(|(_, of)| of.bytes).map(|(channel, _)| *channel);
        let Some(channel) = largest else { return false };
        let oldest = self.channels.get(&channel).and_then(|of| of.numbers.front().copied());
        if oldest.and_then(|number| self.remove(number)).is_none() {
            return false;
        }
        self.lost += 1;
        true
    }

    /// Removes a message that is the oldest of its channel.
    fn remove(&mut self, number: u64) -> Option<Queued> {
        let message = self.messages.remove(&number)?;
        self.bytes -= cost(&message);
        if let Some(of) = self.channels.get_mut(&message.channel) {
            of.numbers.pop_front();
            of.bytes -= cost(&message);
        }
        Some(message)
    }

    fn take(&mut self, bytes: usize, out: &mut Vec<Queued>) {
        let mut taken = 0;
        while taken < bytes
            && let Some(number) = self.messages.first_key_value().map(|(number, _)| *number)
            && let Some(message) = self.remove(number)
        {
            taken += cost(&message);
            out.push(message);
        }
    }

    fn forget(&mut self, channel: u64) {
        while let Some(number) = self.channels.get(&channel).and_then(|of| of.numbers.front().copied()) {
            self.remove(number);
        }
        self.channels.remove(&channel);
    }
}

fn cost(message: &Queued) -> usize {
    message.bytes.len() + MESSAGE_BESIDE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(channel: u64, time_us: i64, len: usize) -> Queued {
        Queued { channel, time_us, bytes: vec![0; len].into() }
    }

    #[test]
    fn so_many_count_within_a_second() {
        let mut second = PerSecond::default();
        let admitted = |second: &mut PerSecond, now_us| (0..5).filter(|_| second.admit(now_us, 3)).count();
        assert_eq!(admitted(&mut second, 0), 3);
        assert_eq!(admitted(&mut second, 999_999), 0);
        assert_eq!(admitted(&mut second, 1_000_000), 3);
    }

    #[test]
    fn a_client_that_never_reads_keeps_the_newest_of_each_channel() {
        let peer = Peer::new(1, "test".into(), [127, 0, 0, 1].into()).unwrap();
        peer.push(message(9, 0, 100));
        (0..100_000).for_each(|at| peer.push(message(at as u64 % 2, at, 1000)));
        let mut out = Vec::new();
        peer.take(usize::MAX, &mut out);
        assert_eq!(
            (out[0].channel, out[out.len() - 1].time_us),
            (9, 99_999),
            "the rare channel lost nothing"
        );
        assert!(out.windows(2).skip(1).all(|pair| pair[0].time_us < pair[1].time_us));
        let bytes: usize = out.iter().map(cost).sum();
        assert!(bytes <= MAX_QUEUED && bytes > MAX_QUEUED - 2000, "{bytes}");
        assert_eq!(peer.lost(), 100_001 - out.len() as u64);
    }

    #[test]
    fn a_message_larger_than_all_room_is_dropped() {
        let peer = Peer::new(1, "test".into(), [127, 0, 0, 1].into()).unwrap();
        peer.push(message(1, 0, MAX_QUEUED + 1));
        let mut out = Vec::new();
        peer.take(usize::MAX, &mut out);
        assert_eq!((out.len(), peer.lost()), (0, 1));
    }

    #[test]
    fn what_a_client_does_not_want_any_more_is_forgotten() {
        let peer = Peer::new(1, "test".into(), [127, 0, 0, 1].into()).unwrap();
        (0..10).for_each(|at| peer.push(message(at % 2, at as i64, 8)));
        peer.forget(0);
        let mut out = Vec::new();
        peer.take(usize::MAX, &mut out);
        assert_eq!(out.iter().map(|message| message.time_us).collect::<Vec<_>>(), [1, 3, 5, 7, 9]);
    }
}
