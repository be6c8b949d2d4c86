//! Taking in what other processes and machines send: `khz log record` without its socket.

use crate::stream::{Datagram, Message};
use khz_tlog::received::{AHEAD_US, BEHIND_US, GAPS, MARKS, SENDERS};
use khz_tlog::{Options, Record, RecordId, Type, Value, Writer};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

/// How many senders are listened to at once. A sender's session is 53 random bits, so who does not see its datagrams
/// can only pose as a new sender.
const MAX_SENDERS: usize = 64;
/// How many of them may have one IP address.
const MAX_OF_ADDRESS: usize = 32;
/// How many may wait for their first valid sample, in all and of one IP address. One more takes the place of the oldest.
const MAX_CANDIDATES: usize = 64;
const MAX_CANDIDATES_OF_ADDRESS: usize = 8;
/// How many bytes of schemas a sender may announce before its first valid sample.
const MAX_ANNOUNCED: usize = 256 << 10;
/// A silent sender makes room for a new one after this.
const SILENCE_NS: i64 = 60_000_000_000;
/// How many records one sender may have.
const MAX_RECORDS: u64 = 256;
/// How many bytes of schemas and names all senders may have together: a log with more could not be read, and what is
/// written cannot be taken back. No IP address gets more than a quarter of what the others have left of it.
const MAX_SCHEMAS: usize = 2 << 20;
/// A larger step in a sender's numbers is no gap but a mistake, and so is the datagram.
const MAX_STEP: u64 = 1 << 32;
/// What a block may need beside its payload, which does not grow, and the marker behind it.
const BLOCK_BESIDE: u64 = 64;
/// What each record may need in a marker, and in the index at the end.
const RECORD_BESIDE: u64 = 20 + 20;

/// A log fed by datagrams. Beside the senders' records it has `sender` (who is who) and `gaps` (what was lost). The
/// first sender's records keep their names, those of the n-th have `@n` behind them.
///
/// A sender is one from its first valid sample on: before that nothing of it is written, it has no number, and whoever
/// comes next may take its place. No IP address can use up the senders, the schemas, or the bytes of the log that others
/// need: it gets half of the senders, a quarter of the schemas left, and three quarters of the log once there is another.
///
/// A log is searched by its times. A sample whose time is more than a second ahead of the receiver's clock, or more than
/// a minute behind, therefore gets the time of its arrival; so no sender can spoil the search for the others.
pub struct Intake<W> {
    log: Writer<W>,
    limit: u64,
    sender_record: RecordId,
    gaps_record: RecordId,
    senders: HashMap<(SocketAddr, u64), Sender>,
    known: u32,
    /// What each IP address with a sender has used.
    used: HashMap<IpAddr, Used>,
    schema_bytes: usize,
    records: u64,
    counts: IntakeCounts,
    reported: HashMap<u32, u64>,
}

/// What became of all datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntakeCounts {
    /// Senders there were.
    pub senders: u32,
    /// Samples written.
    pub samples: u64,
    /// Datagrams that never came.
    pub lost: u64,
    /// Datagrams that arrived twice, or too late to know.
    pub repeated: u64,
    /// Datagrams that are none of ours, are malformed, or go beyond a limit.
    pub refused: u64,
    /// Samples whose schema has not come yet.
    pub unknown: u64,
    /// Samples that do not fit their schema, and so cannot be read.
    pub unfit: u64,
    /// Samples that got the time of their arrival.
    pub restamped: u64,
    /// Samples not written because the log was as large as it may become.
    pub beyond: u64,
    /// Samples not written because their address had its share of the log, and others need the rest.
    pub beyond_share: u64,
    /// Datagrams and schemas of those refused, because there was no room for another sender or schema.
    pub no_room: u64,
    /// Senders that were forgotten before they had sent a valid sample.
    pub evicted: u64,
}

impl IntakeCounts {
    /// Whether anything that was sent is missing in the log, as far as can be known.
    pub fn is_whole(&self) -> bool {
        self.lost + self.refused + self.unknown + self.unfit + self.beyond + self.beyond_share == 0
    }
}

/// What one IP address has used.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    schemas: usize,
    log: u64,
}

/// A record a sender announced before its first valid sample.
struct Announced {
    record: u64,
    name: String,
    schema: Vec<u8>,
}

struct Sender {
    /// None until its first valid sample.
    number: Option<u32>,
    announced: Vec<Announced>,
    /// The number of the first datagram that came. Those before it are not counted as lost.
    first: u64,
    /// The number after the highest seen.
    next: u64,
    /// Which of the 64 before `next` have come: bit 0 is `next - 1`.
    seen: u64,
    lost: u64,
    records: HashMap<u64, Taken>,
    received_ns: i64,
}

/// A record that is written.
struct Taken {
    id: RecordId,
    ty: Type,
    /// Its samples, as far as that matters: one that is the only one may come again.
    samples: Samples,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Samples {
    None,
    /// Time and bytes of it, hashed: a sender may have many large ones.
    One(u64),
    Several,
}

impl Samples {
    /// Whether this is the only sample once more. If not, it is noted.
    fn has(&mut self, time_us: i64, payload: &[u8]) -> bool {
        let mut hash = DefaultHasher::new();
        (time_us, payload).hash(&mut hash);
        let new = Self::One(hash.finish());
        let is_known = *self == new;
        *self = if *self == Self::None || is_known { new } else { Self::Several };
        is_known
    }
}

#[derive(Record)]
struct SenderEntry {
    number: u32,
    address: String,
    session: u64,
    /// Datagrams it had sent before the first that came.
    before: u64,
}

#[derive(Record)]
struct GapsEntry {
    sender: u32,
    lost: u64,
}

impl<W: Write> Intake<W> {
    /// Begins a log in `out` that takes no sample with which it could become larger than `limit` bytes.
    ///
    /// # Errors
    /// When it cannot be written; so for every function here.
    pub fn new(out: W, limit: u64) -> io::Result<Self> {
        // Markers by bytes alone: a sender whose clock leaps must not make one of every sample.
        let mut log = Writer::new(out, Options { marker_period_us: 0, ..Options::default() })?;
        let sender_record = log.record(SENDERS, &SenderEntry::schema())?;
        let gaps_record = log.record(GAPS, &GapsEntry::schema())?;
        Ok(Self {
            log,
            limit,
            sender_record,
            gaps_record,
            senders: HashMap::new(),
            known: 0,
            used: HashMap::new(),
            schema_bytes: 0,
            records: 2,
            counts: IntakeCounts::default(),
            reported: HashMap::new(),
        })
    }

    /// Takes a datagram in. `now_ns` is ns since the Unix epoch.
    ///
    /// # Errors
    /// Only when the log cannot be written: whatever is wrong with a datagram is counted.
    pub fn datagram(&mut self, from: SocketAddr, bytes: &[u8], now_ns: i64) -> io::Result<()> {
        // No sender sends so many that the last number comes, behind which there is none.
        let Some(datagram) = Datagram::read(bytes).filter(|datagram| datagram.number < u64::MAX) else {
            self.counts.refused += 1;
            return Ok(());
        };
        let key = (from, datagram.session);
        if !self.senders.contains_key(&key) {
            self.introduce(key, datagram.number, now_ns);
        }
        let Some(sender) = self.senders.get_mut(&key) else { return Ok(()) };
        match sender.arrive(datagram.number) {
            Arrival::Fresh => sender.received_ns = now_ns,
            Arrival::Repeated => {
                self.counts.repeated += 1;
                return Ok(());
            }
            Arrival::Absurd => {
                self.counts.refused += 1;
                return Ok(());
            }
        }
        datagram.into_iter().try_for_each(|message| match message {
            Ok(Message::Schema { record, name, schema }) => self.announce(key, record, name, schema),
            Ok(Message::Sample { record, time_us, payload }) => match self.fits(key, record, payload) {
                Some(true) => {
                    self.admit(key, now_ns)?;
                    self.sample(key, record, time_us, payload, now_ns / 1000)
                }
                Some(false) => {
                    self.counts.unfit += 1;
                    Ok(())
                }
                None => {
                    self.counts.unknown += 1;
                    Ok(())
                }
            },
            Err(_) => {
                self.counts.refused += 1;
                Ok(())
            }
        })
    }

    /// Writes what was lost since the last time, and has everything written so far leave the process. Call it about
    /// ten times a second.
    ///
    /// # Errors
    /// When the log cannot be written.
    pub fn flush(&mut self, now_ns: i64) -> io::Result<()> {
        for sender in self.senders.values() {
            let Some(number) = sender.number else { continue };
            let reported = self.reported.entry(number).or_default();
            if *reported != sender.lost {
                *reported = sender.lost;
                let entry = GapsEntry { sender: number, lost: sender.lost };
                self.log.write(self.gaps_record, Some(now_ns / 1000), &entry.to_bytes())?;
            }
        }
        self.log.destination().flush()
    }

    /// Ends the log.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self, now_ns: i64) -> io::Result<(IntakeCounts, W)> {
        self.flush(now_ns)?;
        let counts = self.counts();
        Ok((counts, self.log.finish()?))
    }

    /// The counts so far.
    pub fn counts(&self) -> IntakeCounts {
        let admitted = self.senders.values().filter(|sender| sender.number.is_some());
        let lost = self.counts.lost + admitted.map(|sender| sender.lost).sum::<u64>();
        IntakeCounts { senders: self.known, lost, ..self.counts }
    }

    /// Where the log is written to.
    pub fn destination(&mut self) -> &mut W {
        self.log.destination()
    }

    /// Whether the log has had to refuse something because of its limit.
    pub fn is_full(&self) -> bool {
        self.counts.beyond > 0
    }

    /// A new address, which may become a sender.
    fn introduce(&mut self, key: (SocketAddr, u64), first: u64, now_ns: i64) {
        let waiting = |ip: Option<IpAddr>| {
            let candidates = self.senders.iter().filter(|(_, sender)| sender.number.is_none());
            let mut found: Vec<_> =
                candidates.filter(|((from, _), _)| ip.is_none_or(|ip| from.ip() == ip)).collect();
            found.sort_unstable_by_key(|(key, sender)| (sender.received_ns, **key));
            (found.len(), found.first().map(|(key, _)| **key))
        };
        let (of_address, oldest_of_address) = waiting(Some(key.0.ip()));
        let (all, oldest) = waiting(None);
        let leaves = match () {
            () if of_address >= MAX_CANDIDATES_OF_ADDRESS => oldest_of_address,
            () if all >= MAX_CANDIDATES => oldest,
            () => None,
        };
        if let Some(leaves) = leaves {
            self.senders.remove(&leaves);
            self.counts.evicted += 1;
        }
        let (number, announced, next, seen, lost) = (None, Vec::new(), first, 0, 0);
        let sender = Sender {
            number,
            announced,
            first,
            next,
            seen,
            lost,
            records: HashMap::new(),
            received_ns: now_ns,
        };
        self.senders.insert(key, sender);
    }

    /// Notes a record of a candidate, or writes that of a sender.
    fn announce(&mut self, key: (SocketAddr, u64), record: u64, name: &str, schema: &[u8]) -> io::Result<()> {
        let Some(sender) = self.senders.get_mut(&key) else { return Ok(()) };
        if sender.number.is_some() {
            return self.schema(key, record, name, schema);
        }
        if sender.announced.iter().any(|known| known.record == record) {
            return Ok(());
        }
        let bytes: usize = sender.announced.iter().map(|known| known.name.len() + known.schema.len()).sum();
        if record >= MAX_RECORDS || bytes + name.len() + schema.len() > MAX_ANNOUNCED {
            self.counts.refused += 1;
            return Ok(());
        }
        sender.announced.push(Announced { record, name: name.to_owned(), schema: schema.to_owned() });
        Ok(())
    }

    /// Whether a sample fits the schema that its sender has sent for it; `None` if there is no good one.
    fn fits(&self, key: (SocketAddr, u64), record: u64, payload: &[u8]) -> Option<bool> {
        let sender = self.senders.get(&key)?;
        if let Some(taken) = sender.records.get(&record) {
            return Some(Value::read(&taken.ty, payload).is_ok());
        }
        let announced = sender.announced.iter().find(|known| known.record == record)?;
        usable(&announced.schema).map(|ty| Value::read(&ty, payload).is_ok())
    }

    /// Makes a candidate that has sent a valid sample a sender, if there is room for it.
    fn admit(&mut self, key: (SocketAddr, u64), now_ns: i64) -> io::Result<()> {
        if self.senders.get(&key).is_none_or(|sender| sender.number.is_some()) {
            return Ok(());
        }
        if !self.has_room(100) {
            self.counts.beyond += 1;
            return Ok(());
        }
        if !self.make_room(key.0.ip(), now_ns) {
            self.counts.refused += 1;
            self.counts.no_room += 1;
            return Ok(());
        }
        self.known += 1;
        let Some(sender) = self.senders.get_mut(&key) else { return Ok(()) };
        sender.number = Some(self.known);
        let announced = std::mem::take(&mut sender.announced);
        let (address, before) = (key.0.to_string(), sender.first);
        let entry = SenderEntry { number: self.known, address, session: key.1, before };
        self.log.write(self.sender_record, Some(now_ns / 1000), &entry.to_bytes())?;
        announced.iter().try_for_each(|known| self.schema(key, known.record, &known.name, &known.schema))
    }

    /// Whether there is a place for one more sender of this address. One that is long silent gives up its own.
    fn make_room(&mut self, ip: IpAddr, now_ns: i64) -> bool {
        let admitted = || self.senders.iter().filter(|(_, sender)| sender.number.is_some());
        let of_address = admitted().filter(|((from, _), _)| from.ip() == ip).count();
        let crowded = of_address >= MAX_OF_ADDRESS;
        if admitted().count() < MAX_SENDERS && !crowded {
            return true;
        }
        let may_leave = admitted().filter(|((from, _), _)| !crowded || from.ip() == ip);
        let idle = may_leave.min_by_key(|(_, sender)| sender.received_ns);
        let Some((&idle, sender)) = idle.filter(|(_, s)| now_ns - s.received_ns > SILENCE_NS) else {
            return false;
        };
        self.counts.lost += sender.lost;
        self.senders.remove(&idle);
        true
    }

    fn schema(&mut self, key: (SocketAddr, u64), record: u64, name: &str, schema: &[u8]) -> io::Result<()> {
        let bytes = name.len() + schema.len() + 80;
        let has_room = self.has_room(bytes);
        let used = self.used.entry(key.0.ip()).or_default();
        let others = self.schema_bytes - used.schemas;
        let fits = record < MAX_RECORDS && used.schemas + bytes <= (MAX_SCHEMAS - others) / 4;
        let Some(sender) = self.senders.get_mut(&key) else { return Ok(()) };
        let Some(number) = sender.number.filter(|_| !sender.records.contains_key(&record)) else {
            return Ok(());
        };
        let Some(ty) = usable(schema).filter(|_| fits) else {
            self.counts.refused += 1;
            self.counts.no_room += u64::from(!fits);
            return Ok(());
        };
        if !has_room {
            self.counts.beyond += 1;
            return Ok(());
        }
        // Whatever a sender calls its records, it takes no other's name.
        let plain = number == 1 && !name.contains('@') && !MARKS.contains(&name);
        let name = if plain { name.to_owned() } else { format!("{name}@{number}") };
        match self.log.record_with(&name, schema, khz_tlog::Compression::Snappy) {
            Ok(id) => {
                self.schema_bytes += bytes;
                used.schemas += bytes;
                self.records += 1;
                sender.records.insert(record, Taken { id, ty, samples: Samples::None });
            }
            // Two records of one name.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.counts.refused += 1,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn sample(
        &mut self,
        key: (SocketAddr, u64),
        record: u64,
        time_us: i64,
        payload: &[u8],
        now_us: i64,
    ) -> io::Result<()> {
        match self.senders.get(&key).and_then(|sender| Some(sender.records.get(&record)?.id)) {
            None => self.counts.unknown += 1,
            Some(_) if !self.has_room(payload.len()) => self.counts.beyond += 1,
            Some(_) if self.is_beyond_share(key.0.ip(), payload.len()) => self.counts.beyond_share += 1,
            Some(id) => {
                let known = self.senders.get_mut(&key).and_then(|sender| sender.records.get_mut(&record));
                if known.is_some_and(|record| record.samples.has(time_us, payload)) {
                    return Ok(());
                }
                let used = self.used.entry(key.0.ip()).or_default();
                used.log += payload.len() as u64 + BLOCK_BESIDE;
                let is_believed = (now_us - BEHIND_US..=now_us + AHEAD_US).contains(&time_us);
                self.log.write(id, Some(if is_believed { time_us } else { now_us }), payload)?;
                self.counts.samples += 1;
                self.counts.restamped += u64::from(!is_believed);
            }
        }
        Ok(())
    }

    /// Whether this address has had its three quarters of the log, as far as there are others.
    fn is_beyond_share(&self, ip: IpAddr, payload: usize) -> bool {
        let used = self.used.get(&ip).map_or(0, |used| used.log);
        self.used.len() > 1 && used + payload as u64 + BLOCK_BESIDE > self.limit / 4 * 3
    }

    fn has_room(&self, payload: usize) -> bool {
        let beside = BLOCK_BESIDE + (self.records + 1) * RECORD_BESIDE;
        self.log.position() + payload as u64 + beside <= self.limit
    }
}

/// The type of a schema whose samples are taken. A batch could hold endlessly many samples of no bytes.
fn usable(schema: &[u8]) -> Option<Type> {
    Type::decode(schema).ok().filter(|ty| !ty.is_batch())
}

enum Arrival {
    Fresh,
    Repeated,
    Absurd,
}

impl Sender {
    /// Accounts for the number of a datagram.
    fn arrive(&mut self, number: u64) -> Arrival {
        if number >= self.next {
            let step = number - self.next;
            if step >= MAX_STEP {
                return Arrival::Absurd;
            }
            self.lost += step;
            self.seen = self.seen.checked_shl((step + 1).min(64) as u32).unwrap_or(0) | 1;
            self.next = number + 1;
            return Arrival::Fresh;
        }
        let back = self.next - 1 - number;
        if back >= 64 || self.seen & (1 << back) != 0 {
            return Arrival::Repeated;
        }
        self.seen |= 1 << back;
        if number > self.first {
            self.lost -= 1;
        }
        Arrival::Fresh
    }
}

#[cfg(test)]
mod tests;
