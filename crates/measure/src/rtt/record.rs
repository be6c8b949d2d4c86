//! The remote logging service: senders stream their samples to it, it writes them down.
use super::RttError;
use super::log::{Log, Logged, Tap};
use super::packet::Refusal;
use super::sample::{Batch, LARGEST, Received, RoundTrip, address_bytes};
use super::socket::{Came, Receive, Socket};
use khz_rt::clock::realtime_ns;
use khz_rt::now_ns;
use serde::Serialize;
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Senders a recorder keeps books for; batches of further ones are refused and counted.
const MOST_SENDERS: usize = 1024;
/// How long to wait before looking whether to stop.
const PATIENCE_NS: i64 = 100_000_000;

/// Told to stop, what is in the socket already is still taken, up to so many datagrams.
pub(super) const MOST_AFTER_STOP: usize = 10_000;

/// Takes batches from any number of senders. The socket is emptied by the thread that calls [`Recorder::run`], the
/// disk is the business of another: the two share a ring, so a slow disk never starves the socket.
#[derive(Debug)]
pub struct Recorder {
    socket: Socket,
    tap: Tap,
    log: Log,
    books: Books,
}

/// What a recorder has seen.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Recorded {
    /// Sender by sender, in the order they came.
    pub senders: Vec<SenderBooks>,
    /// Datagrams of another make.
    pub foreign: u64,
    /// Damaged ones, and those of another version.
    pub damaged: u64,
    /// Batches of senders beyond the most that are kept apart.
    pub refused: u64,
}

/// What one run of one sender told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SenderBooks {
    /// Its address.
    pub address: SocketAddr,
    /// Its run.
    pub run: u64,
    /// Batches that came.
    pub batches: u64,
    /// Batches that are missing among them; those that come late are taken off again.
    pub gaps: u64,
    /// Batches that came twice, or long after others.
    pub repeated: u64,
    /// Samples that came.
    pub samples: u64,
    next: u64,
    /// Which of the 64 batches before `next` have come, the newest lowest.
    seen: u64,
}

#[derive(Debug, Default)]
struct Books {
    index: HashMap<(SocketAddr, u64), usize>,
    recorded: Recorded,
}

impl Recorder {
    /// Listens on an address and begins a log of at most `limit` bytes.
    ///
    /// # Errors
    /// If the address or the file cannot be had.
    pub fn new(address: SocketAddr, path: &Path, limit: u64) -> Result<Self, RttError> {
        let socket =
            Socket::bind(address, Receive::Block).map_err(|source| RttError::Bind { address, source })?;
        let (tap, log) =
            Log::create(path, limit).map_err(|source| RttError::Log { path: path.to_owned(), source })?;
        Ok(Self { socket, tap, log, books: Books::default() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the kernel will not say.
    pub fn address(&self) -> Result<SocketAddr, RttError> {
        Ok(self.socket.inner().local_addr()?)
    }

    /// Records until told to stop.
    ///
    /// # Errors
    /// If the socket or the disk breaks.
    pub fn run(mut self, stop: &AtomicBool) -> Result<(Recorded, Logged), RttError> {
        let mut buffer = vec![0; LARGEST + 1];
        let mut still = MOST_AFTER_STOP;
        while still > 0 {
            if stop.load(Ordering::Relaxed) {
                still -= 1;
            }
            let Some(Came { length, from, .. }) = self.socket.receive(&mut buffer, now_ns() + PATIENCE_NS)?
            else {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                continue;
            };
            let Some(batch) = self.books.take(&buffer[..length], from) else { continue };
            let (time_ns, sender) = (realtime_ns(), address_bytes(from));
            batch.for_each(|sample| self.tap.put(time_ns, RoundTrip { sender, ..sample }));
        }
        Ok((self.books.recorded, self.log.finish()?))
    }
}

impl Books {
    /// The batch in a datagram, if it is one that has not come before.
    fn take<'a>(&mut self, datagram: &'a [u8], from: SocketAddr) -> Option<Received<'a>> {
        let batch = match Received::read(datagram) {
            Ok(batch) => batch,
            Err(Refusal::Foreign) => {
                self.recorded.foreign += 1;
                return None;
            }
            Err(_) => {
                self.recorded.damaged += 1;
                return None;
            }
        };
        let Some(sender) = self.sender(from, batch.run) else {
            self.recorded.refused += 1;
            return None;
        };
        sender.count(batch.number, usize::from(datagram[7]) as u64).then_some(batch)
    }

    fn sender(&mut self, address: SocketAddr, run: u64) -> Option<&mut SenderBooks> {
        let senders = &mut self.recorded.senders;
        let index = match self.index.get(&(address, run)) {
            Some(index) => *index,
            None if senders.len() == MOST_SENDERS => return None,
            None => {
                let (batches, gaps, repeated, samples, next, seen) = (0, 0, 0, 0, 0, 0);
                senders.push(SenderBooks { address, run, batches, gaps, repeated, samples, next, seen });
                self.index.insert((address, run), senders.len() - 1);
                senders.len() - 1
            }
        };
        senders.get_mut(index)
    }
}

impl SenderBooks {
    /// Books a batch; false if it came before.
    fn count(&mut self, number: u64, samples: u64) -> bool {
        if number >= self.next {
            let skipped = number - self.next;
            self.gaps = self.gaps.saturating_add(skipped);
            self.seen = if skipped < 63 { (self.seen << (skipped + 1)) | 1 } else { 1 };
            self.next = number.saturating_add(1);
        } else {
            let age = self.next - 1 - number;
            if age >= 64 || self.seen & (1 << age) != 0 {
                self.repeated += 1;
                return false;
            }
            self.seen |= 1 << age;
            self.gaps = self.gaps.saturating_sub(1);
        }
        self.batches += 1;
        self.samples += samples;
        true
    }
}

/// Streams samples to a recorder, a batch at a time. What the kernel does not take at once is lost, and the
/// recorder sees the gap.
#[derive(Debug)]
pub struct Stream {
    socket: UdpSocket,
    batch: Batch,
}

impl Stream {
    /// To the recorder at this address.
    ///
    /// # Errors
    /// If no socket can be had.
    pub(super) fn new(recorder: SocketAddr, run: u64) -> Result<Self, RttError> {
        let any: SocketAddr = if recorder.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
        let socket = UdpSocket::bind(any).map_err(|source| RttError::Bind { address: any, source })?;
        socket.connect(recorder)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, batch: Batch::new(run) })
    }

    /// Adds a sample; sends when the batch is full.
    pub(super) fn put(&mut self, sample: &RoundTrip) {
        if self.batch.push(sample) {
            self.send();
        }
    }

    /// Sends what there is.
    pub(super) fn send(&mut self) {
        if let Some(bytes) = self.batch.take() {
            let _ = self.socket.send(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::sample;
    use super::*;

    fn from(last: u8) -> SocketAddr {
        ([10, 0, 0, last], 1).into()
    }

    fn batch(batch: &mut Batch) -> Vec<u8> {
        batch.push(&sample(1));
        batch.take().unwrap_or_default().to_vec()
    }

    #[test]
    fn gaps_are_counted_for_each_sender_apart() {
        let (mut books, mut sender) = (Books::default(), Batch::new(7));
        let batches: Vec<Vec<u8>> = (0..6).map(|_| batch(&mut sender)).collect();
        for (at, who) in [(0, 1), (1, 2), (4, 1), (2, 1), (4, 1)] {
            books.take(&batches[at], from(who));
        }
        let told: Vec<_> = books.recorded.senders.iter().map(|s| (s.batches, s.gaps, s.repeated)).collect();
        assert_eq!(told, [(3, 2, 1), (1, 1, 0)]);
    }

    #[test]
    fn forgery_and_noise_are_counted_and_change_nothing() {
        let mut books = Books::default();
        let good = batch(&mut Batch::new(7));
        let mut damaged = good.clone();
        damaged[40] ^= 1;
        books.take(&good, from(1));
        books.take(&damaged, from(1));
        books.take(b"hello", from(1));
        // Another run from the same address has books of its own.
        books.take(&batch(&mut Batch::new(8)), from(1));
        let r = &books.recorded;
        assert_eq!((r.foreign, r.damaged, r.senders.len(), r.senders[0].gaps), (1, 1, 2, 0));
    }

    #[test]
    fn senders_beyond_the_most_are_refused() {
        let mut books = Books::default();
        for run in 0..MOST_SENDERS as u64 + 5 {
            books.take(&batch(&mut Batch::new(run)), from(1));
        }
        assert_eq!((books.recorded.senders.len(), books.recorded.refused), (MOST_SENDERS, 5));
    }

    #[test]
    fn what_is_streamed_is_recorded() {
        let Ok(folder) = tempfile::tempdir() else { panic!("no temporary folder") };
        let path = folder.path().join("a.tlog");
        let recorder = Recorder::new(([127, 0, 0, 1], 0).into(), &path, u64::MAX);
        let recorder = recorder.unwrap_or_else(|e| panic!("{e}"));
        let address = recorder.address().unwrap_or_else(|e| panic!("{e}"));
        let mut stream = Stream::new(address, 7).unwrap_or_else(|e| panic!("{e}"));
        (0..100).for_each(|i| stream.put(&sample(i)));
        stream.send();
        // All is in the socket's buffer already, and taken although it is time to stop.
        let (recorded, logged) = recorder.run(&AtomicBool::new(true)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((recorded.senders[0].samples, recorded.senders[0].gaps, logged.written), (100, 0, 100));
    }
}
