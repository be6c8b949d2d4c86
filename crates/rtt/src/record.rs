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
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Senders a recorder keeps accounts for: in total, and per IP address. One that was silent for long gives up its place;
/// batches of further ones are refused and counted.
const MOST_SENDERS: usize = 1024;
const MOST_OF_ADDRESS: usize = 256;
/// A sender silent for so long gives up its place to a new one.
const SILENCE_NS: i64 = 60_000_000_000;
/// Places given up that are still told one by one; of more only the sums.
const MOST_FORMER: usize = 1024;
/// How often losses are reported while recording.
const NOTICE_NS: i64 = 2_000_000_000;
/// How long to wait before looking whether to stop.
const PATIENCE_NS: i64 = 100_000_000;

/// Told to stop, what is in the socket already is still taken, up to so many datagrams.
pub(super) const MOST_AFTER_STOP: usize = 10_000;

/// Takes batches from any number of senders. The socket is emptied by the thread that calls [`Recorder::run`], the
/// disk is the business of another: the two share a ring, so a slow disk never starves the socket.
pub struct Recorder {
    socket: Socket,
    tap: Tap,
    log: Log,
    accounts: Accounts,
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
    /// Batches of senders for which there was no place. Their samples are not in the log.
    pub refused: u64,
    /// Senders that gave up their place and are no longer told one by one, and what is missing of them.
    pub former_senders: u64,
    /// Batches missing of those.
    pub former_gaps: u64,
}

impl Recorded {
    /// Batches that are missing, of all senders.
    pub fn gaps(&self) -> u64 {
        self.senders.iter().fold(self.former_gaps, |sum, sender| sum.saturating_add(sender.gaps))
    }

    /// What is missing since `before`, in a sentence; none if nothing is.
    fn losses_since(&self, before: &(u64, u64, u64)) -> Option<String> {
        let &(gaps, refused, unreadable) = before;
        let losses = [
            (self.gaps().saturating_sub(gaps), "batches missing"),
            (self.refused - refused, "batches refused: too many senders"),
            (self.foreign + self.damaged - unreadable, "datagrams that cannot be read"),
        ];
        let told =
            losses.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let told: Vec<String> = told.collect();
        (!told.is_empty()).then(|| told.join("; "))
    }
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
    #[serde(skip)]
    heard_ns: i64,
    /// Its place was given to another; should it come again, it has a new one.
    #[serde(skip)]
    former: bool,
    next: u64,
    /// Which of the 64 batches before `next` have come, the newest lowest.
    seen: u64,
}

#[derive(Debug, Default)]
struct Accounts {
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
            Log::of_streams(path, limit).map_err(|source| RttError::Log { path: path.to_owned(), source })?;
        Ok(Self { socket, tap, log, accounts: Accounts::default() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the kernel will not say.
    pub fn address(&self) -> Result<SocketAddr, RttError> {
        Ok(self.socket.inner().local_addr()?)
    }

    /// Records until told to stop; what is lost meanwhile is reported to `notice`, every two seconds at most.
    ///
    /// # Errors
    /// If the socket or the disk breaks.
    pub fn run(
        mut self,
        stop: &AtomicBool,
        mut notice: impl FnMut(&str),
    ) -> Result<(Recorded, Logged), RttError> {
        let (mut noticed, mut notice_ns) = ((0, 0, 0), 0);
        let mut buffer = vec![0; LARGEST + 1];
        let mut still = MOST_AFTER_STOP;
        while still > 0 {
            if stop.load(Ordering::Relaxed) {
                still -= 1;
            }
            if now_ns() >= notice_ns
                && let recorded = &self.accounts.recorded
                && let Some(losses) = recorded.losses_since(&noticed)
            {
                notice(&losses);
                noticed = (recorded.gaps(), recorded.refused, recorded.foreign + recorded.damaged);
                notice_ns = now_ns() + NOTICE_NS;
            }
            let Some(Came { length, from, .. }) = self.socket.receive(&mut buffer, now_ns() + PATIENCE_NS)?
            else {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                continue;
            };
            let Some(batch) = self.accounts.take(&buffer[..length], from, now_ns()) else { continue };
            let (time_ns, sender) = (realtime_ns(), address_bytes(from));
            batch.for_each(|sample| self.tap.put(time_ns, &RoundTrip { sender, ..sample }));
        }
        Ok((self.accounts.recorded, self.log.finish().map_err(RttError::LogNotWhole)?))
    }
}

impl Accounts {
    /// The batch in a datagram, if it is one that has not come before.
    fn take<'a>(&mut self, datagram: &'a [u8], from: SocketAddr, now_ns: i64) -> Option<Received<'a>> {
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
        let Some(sender) = self.sender(from, batch.run, now_ns) else {
            self.recorded.refused += 1;
            return None;
        };
        sender.count(batch.number, usize::from(datagram[7]) as u64).then_some(batch)
    }

    fn sender(&mut self, address: SocketAddr, run: u64, now_ns: i64) -> Option<&mut SenderBooks> {
        let index = match self.index.get(&(address, run)) {
            Some(index) => *index,
            None => {
                if !self.make_room(address.ip(), now_ns) {
                    return None;
                }
                let senders = &mut self.recorded.senders;
                senders.push(SenderBooks::new(address, run));
                self.index.insert((address, run), senders.len() - 1);
                senders.len() - 1
            }
        };
        let sender = self.recorded.senders.get_mut(index)?;
        sender.heard_ns = now_ns;
        Some(sender)
    }

    /// Whether there is a place for one more sender of this address; one long silent gives up its own.
    fn make_room(&mut self, ip: IpAddr, now_ns: i64) -> bool {
        let senders = &self.recorded.senders;
        let present = || senders.iter().enumerate().filter(|(_, sender)| !sender.former);
        let crowded = present().filter(|(_, sender)| sender.address.ip() == ip).count() >= MOST_OF_ADDRESS;
        if self.index.len() < MOST_SENDERS && !crowded {
            return true;
        }
        let may_leave = present().filter(|(_, sender)| !crowded || sender.address.ip() == ip);
        let idle = may_leave.min_by_key(|(_, sender)| sender.heard_ns);
        let Some((leaves, sender)) = idle.filter(|(_, sender)| now_ns - sender.heard_ns > SILENCE_NS) else {
            return false;
        };
        self.index.remove(&(sender.address, sender.run));
        self.recorded.senders[leaves].former = true;
        self.forget();
        true
    }

    /// Drops the oldest of those who gave up their place, once there are too many to be reported one by one.
    fn forget(&mut self) {
        let senders = &mut self.recorded.senders;
        if senders.len() - self.index.len() <= MOST_FORMER {
            return;
        }
        let Some(oldest) = senders.iter().position(|sender| sender.former) else { return };
        let gone = senders.remove(oldest);
        self.recorded.former_senders += 1;
        self.recorded.former_gaps = self.recorded.former_gaps.saturating_add(gone.gaps);
        self.index.values_mut().filter(|index| **index > oldest).for_each(|index| *index -= 1);
    }
}

impl SenderBooks {
    fn new(address: SocketAddr, run: u64) -> Self {
        let (batches, gaps, repeated, samples, next, seen) = (0, 0, 0, 0, 0, 0);
        let (heard_ns, former) = (0, false);
        Self { address, run, batches, gaps, repeated, samples, heard_ns, former, next, seen }
    }

    /// Accounts a batch; false if it came before.
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
    use proptest::prelude::*;

    fn from(last: u8) -> SocketAddr {
        ([10, 0, 0, last], 1).into()
    }

    fn batch(batch: &mut Batch) -> Vec<u8> {
        batch.push(&sample(1));
        batch.take().unwrap_or_default().to_vec()
    }

    #[test]
    fn gaps_are_counted_for_each_sender_apart() {
        let (mut accounts, mut sender) = (Accounts::default(), Batch::new(7));
        let batches: Vec<Vec<u8>> = (0..6).map(|_| batch(&mut sender)).collect();
        for (at, who) in [(0, 1), (1, 2), (4, 1), (2, 1), (4, 1)] {
            accounts.take(&batches[at], from(who), 0);
        }
        let told: Vec<_> =
            accounts.recorded.senders.iter().map(|s| (s.batches, s.gaps, s.repeated)).collect();
        assert_eq!(told, [(3, 2, 1), (1, 1, 0)]);
    }

    #[test]
    fn forgery_and_noise_are_counted_and_change_nothing() {
        let mut accounts = Accounts::default();
        let good = batch(&mut Batch::new(7));
        let mut damaged = good.clone();
        damaged[40] ^= 1;
        accounts.take(&good, from(1), 0);
        accounts.take(&damaged, from(1), 0);
        accounts.take(b"hello", from(1), 0);
        // Another run from the same address has its own accounts.
        accounts.take(&batch(&mut Batch::new(8)), from(1), 0);
        let r = &accounts.recorded;
        assert_eq!((r.foreign, r.damaged, r.senders.len(), r.senders[0].gaps), (1, 1, 2, 0));
    }

    #[test]
    fn one_address_takes_a_quarter_of_the_places_and_the_silent_give_up_theirs() {
        let mut accounts = Accounts::default();
        for run in 0..MOST_OF_ADDRESS as u64 + 5 {
            accounts.take(&batch(&mut Batch::new(run)), from(1), 0);
        }
        assert_eq!((accounts.recorded.senders.len(), accounts.recorded.refused), (MOST_OF_ADDRESS, 5));
        for last in 2..10 {
            (0..MOST_OF_ADDRESS as u64)
                .for_each(|run| _ = accounts.take(&batch(&mut Batch::new(run)), from(last), 0));
        }
        assert_eq!(accounts.index.len(), MOST_SENDERS);
        assert!(accounts.take(&batch(&mut Batch::new(9999)), from(99), SILENCE_NS).is_none());
        for run in 0..3 * MOST_SENDERS as u64 {
            let now_ns = (run as i64 + 1) * (SILENCE_NS + 1);
            assert!(accounts.take(&batch(&mut Batch::new(run)), from(99), now_ns).is_some());
        }
        assert!(accounts.recorded.senders.len() <= MOST_SENDERS + MOST_FORMER);
        assert!(accounts.recorded.former_senders > 0);
        let found = accounts.index.iter().all(|((address, run), at)| {
            accounts.recorded.senders.get(*at).is_some_and(|s| (s.address, s.run) == (*address, *run))
        });
        assert!(found, "every place leads to its sender");
    }

    #[test]
    fn losses_are_told_while_recording() {
        let mut accounts = Accounts::default();
        accounts.take(b"hello", from(1), 0);
        assert_eq!(
            accounts.recorded.losses_since(&(0, 0, 0)).as_deref(),
            Some("1 datagrams that cannot be read")
        );
        assert_eq!(accounts.recorded.losses_since(&(0, 0, 1)), None);
    }

    proptest! {
        /// Whatever comes, memory is bounded and nothing panics.
        #[test]
        fn any_datagrams_are_taken(
            all in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..200), any::<bool>(), 0u8..9, any::<i64>()), 0..60)
        ) {
            let mut accounts = Accounts::default();
            for (noise, sound, last, now_ns) in all {
                let bytes = if sound { batch(&mut Batch::new(noise.len() as u64 % 5)) } else { noise };
                accounts.take(&bytes, from(last), now_ns.clamp(i64::MIN / 2, i64::MAX / 2));
            }
            prop_assert!(accounts.index.len() <= MOST_SENDERS);
        }
    }

    /// It was reported as a failure of the socket.
    #[test]
    fn a_log_that_is_removed_meanwhile_is_told() {
        let Ok(folder) = tempfile::tempdir() else { panic!("no temporary folder") };
        let path = folder.path().join("a.tlog");
        let recorder = Recorder::new(([127, 0, 0, 1], 0).into(), &path, u64::MAX);
        let recorder = recorder.unwrap_or_else(|e| panic!("{e}"));
        assert!(std::fs::remove_file(path).is_ok());
        let Err(RttError::LogNotWhole(why)) = recorder.run(&AtomicBool::new(true), |_| ()) else {
            panic!("the log is gone")
        };
        assert!(why.to_string().contains("removed meanwhile"), "{why}");
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
        let (recorded, logged) =
            recorder.run(&AtomicBool::new(true), |_| ()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((recorded.senders[0].samples, recorded.senders[0].gaps, logged.written), (100, 0, 100));
    }
}
