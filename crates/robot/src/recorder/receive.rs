//! Taking in what other processes and machines send: `khz log record` without its socket.

use super::stream::{Datagram, Message};
use khz_tlog::received::{AHEAD_US, BEHIND_US, GAPS, MARKS, SENDERS};
use khz_tlog::{Options, Record, RecordId, Type, Writer};
use std::collections::HashMap;
use std::io::{self, Write};
use std::net::SocketAddr;

/// How many senders are listened to at once. A sender's session is 64 random bits, so who does not see its datagrams
/// can only pose as a new sender.
const MAX_SENDERS: usize = 64;
/// A silent sender makes room for a new one after this.
const SILENCE_NS: i64 = 60_000_000_000;
/// How many records one sender may have.
const MAX_RECORDS: u64 = 256;
/// How many bytes of schemas and names all senders may have together: a log with more could not be read.
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
/// A log is searched by its times. A sample whose time is more than a second ahead of the receiver's clock, or more than
/// a minute behind, therefore gets the time of its arrival; so no sender can spoil the search for the others.
pub struct Intake<W> {
    log: Writer<W>,
    limit: u64,
    sender_record: RecordId,
    gaps_record: RecordId,
    senders: HashMap<(SocketAddr, u64), Sender>,
    known: u32,
    schema_bytes: usize,
    records: u64,
    counts: IntakeCounts,
    told: HashMap<u32, u64>,
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
    /// Datagrams that came again, or so late that it cannot be told.
    pub repeated: u64,
    /// Datagrams that are none of ours, are malformed, or go beyond a limit.
    pub refused: u64,
    /// Samples whose schema has not come yet.
    pub unknown: u64,
    /// Samples that got the time of their arrival.
    pub restamped: u64,
    /// Samples not written because the log was as large as it may become.
    pub beyond: u64,
}

struct Sender {
    number: u32,
    /// The number of the first datagram that came. Those before it are not counted as lost.
    first: u64,
    /// The number after the highest seen.
    next: u64,
    /// Which of the 64 before `next` have come: bit 0 is `next - 1`.
    seen: u64,
    lost: u64,
    records: HashMap<u64, RecordId>,
    heard_ns: i64,
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
            schema_bytes: 0,
            records: 2,
            counts: IntakeCounts::default(),
            told: HashMap::new(),
        })
    }

    /// Takes a datagram in. `now_ns` is ns since the Unix epoch.
    ///
    /// # Errors
    /// Only when the log cannot be written: whatever is wrong with a datagram is counted.
    pub fn datagram(&mut self, from: SocketAddr, bytes: &[u8], now_ns: i64) -> io::Result<()> {
        // Nobody sends so many that the last number comes, behind which there is none.
        let Some(datagram) = Datagram::read(bytes).filter(|datagram| datagram.number < u64::MAX) else {
            self.counts.refused += 1;
            return Ok(());
        };
        let key = (from, datagram.session);
        if !self.senders.contains_key(&key) {
            if !self.has_room(100) {
                self.counts.beyond += 1;
                return Ok(());
            }
            if !self.admit(key, datagram.number, now_ns)? {
                self.counts.refused += 1;
                return Ok(());
            }
        }
        let Some(sender) = self.senders.get_mut(&key) else { return Ok(()) };
        match sender.arrive(datagram.number) {
            Arrival::Fresh => sender.heard_ns = now_ns,
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
            Ok(Message::Schema { record, name, schema }) => self.schema(key, record, name, schema),
            Ok(Message::Sample { record, time_us, payload }) => {
                self.sample(key, record, time_us, payload, now_ns / 1000)
            }
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
            let told = self.told.entry(sender.number).or_default();
            if *told != sender.lost {
                *told = sender.lost;
                let entry = GapsEntry { sender: sender.number, lost: sender.lost };
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
        let lost = self.counts.lost + self.senders.values().map(|sender| sender.lost).sum::<u64>();
        IntakeCounts { senders: self.known, lost, ..self.counts }
    }

    /// Whether the log has had to refuse something because of its limit.
    pub fn is_full(&self) -> bool {
        self.counts.beyond > 0
    }

    fn admit(&mut self, key: (SocketAddr, u64), number: u64, now_ns: i64) -> io::Result<bool> {
        if self.senders.len() >= MAX_SENDERS {
            let idle = self.senders.iter().min_by_key(|(_, sender)| sender.heard_ns);
            let Some((&idle, sender)) = idle.filter(|(_, s)| now_ns - s.heard_ns > SILENCE_NS) else {
                return Ok(false);
            };
            self.counts.lost += sender.lost;
            self.senders.remove(&idle);
        }
        self.known += 1;
        let address = key.0.to_string();
        let entry = SenderEntry { number: self.known, address, session: key.1, before: number };
        self.log.write(self.sender_record, Some(now_ns / 1000), &entry.to_bytes())?;
        let (seen, lost) = (0, 0);
        let records = HashMap::new();
        let sender =
            Sender { number: self.known, first: number, next: number, seen, lost, records, heard_ns: now_ns };
        self.senders.insert(key, sender);
        Ok(true)
    }

    fn schema(&mut self, key: (SocketAddr, u64), record: u64, name: &str, schema: &[u8]) -> io::Result<()> {
        let bytes = name.len() + schema.len() + 80;
        let has_room = self.has_room(bytes);
        let Some(sender) = self.senders.get_mut(&key) else { return Ok(()) };
        if sender.records.contains_key(&record) {
            return Ok(());
        }
        let fits = record < MAX_RECORDS && self.schema_bytes + bytes <= MAX_SCHEMAS;
        // A batch could hold endlessly many samples of no bytes.
        let is_good = Type::decode(schema).is_ok_and(|ty| !ty.is_batch());
        if !fits || !is_good {
            self.counts.refused += 1;
            return Ok(());
        }
        if !has_room {
            self.counts.beyond += 1;
            return Ok(());
        }
        // Whatever a sender calls its records, it takes no other's name.
        let plain = sender.number == 1 && !name.contains('@') && !MARKS.contains(&name);
        let name = if plain { name.to_owned() } else { format!("{name}@{}", sender.number) };
        match self.log.record_with(&name, schema, khz_tlog::Compression::Snappy) {
            Ok(id) => {
                self.schema_bytes += bytes;
                self.records += 1;
                sender.records.insert(record, id);
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
        match self.senders.get(&key).and_then(|sender| sender.records.get(&record)) {
            None => self.counts.unknown += 1,
            Some(_) if !self.has_room(payload.len()) => self.counts.beyond += 1,
            Some(&id) => {
                let is_believed = (now_us - BEHIND_US..=now_us + AHEAD_US).contains(&time_us);
                self.log.write(id, Some(if is_believed { time_us } else { now_us }), payload)?;
                self.counts.samples += 1;
                self.counts.restamped += u64::from(!is_believed);
            }
        }
        Ok(())
    }

    fn has_room(&self, payload: usize) -> bool {
        let beside = BLOCK_BESIDE + (self.records + 1) * RECORD_BESIDE;
        self.log.position() + payload as u64 + beside <= self.limit
    }
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
mod tests {
    use super::*;
    use khz_tlog::{Reader, Sink};

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn datagram(session: u64, number: u64, samples: &[(u64, i64)]) -> Vec<u8> {
        let mut bytes = b"KLOG\x01".to_vec();
        bytes.put(&session.to_le_bytes());
        bytes.put(&number.to_le_bytes());
        if number == 0 {
            bytes.put(&[1, 0]);
            bytes.counted(b"tick");
            bytes.counted(&Type::Bool.to_bytes());
        }
        for (record, time_us) in samples {
            bytes.put(&[2, *record as u8]);
            bytes.put(&time_us.to_le_bytes());
            bytes.counted(&[1]);
        }
        bytes
    }

    #[test]
    fn samples_of_several_senders_are_kept_apart_and_gaps_counted() {
        let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
        for number in [0, 1, 3, 2, 2, 7] {
            intake.datagram(address(1), &datagram(5, number, &[(0, number as i64)]), 0).unwrap();
        }
        intake.datagram(address(2), &datagram(5, 0, &[(0, 9), (1, 9)]), 0).unwrap();
        let (counts, log) = intake.finish(1000).unwrap();
        let expected =
            IntakeCounts { senders: 2, samples: 6, lost: 3, repeated: 1, unknown: 1, ..Default::default() };
        assert_eq!(counts, expected);
        let mut reader = Reader::open(log).unwrap();
        let mut found = Vec::new();
        while let Some(item) = reader.next().unwrap() {
            let value = item.value().unwrap();
            let told = value.at("lost").or(value.at("address")).map(|value| format!("{value:?}"));
            found.push(format!("{} {}", item.record.name(), told.unwrap_or_default()));
        }
        assert_eq!(found[0], "sender String(\"127.0.0.1:1\")");
        assert_eq!(found.iter().filter(|line| line.starts_with("tick@2")).count(), 1);
        assert!(found.contains(&"gaps Uint(3)".into()));
    }

    #[test]
    fn another_session_from_the_same_address_changes_no_gaps() {
        let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
        intake.datagram(address(1), &datagram(5, 0, &[]), 0).unwrap();
        intake.datagram(address(1), &datagram(6, 1 << 40, &[]), 0).unwrap();
        intake.datagram(address(1), &datagram(5, u64::MAX, &[]), 0).unwrap();
        intake.datagram(address(1), &datagram(5, 1, &[]), 0).unwrap();
        assert_eq!((intake.counts().lost, intake.counts().refused), (0, 1));
    }

    #[test]
    fn the_last_number_of_all_is_refused() {
        let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
        intake.datagram(address(1), &datagram(5, u64::MAX, &[]), 0).unwrap();
        assert_eq!((intake.counts().senders, intake.counts().refused), (0, 1));
        for number in [u64::MAX - 1, u64::MAX] {
            intake.datagram(address(1), &datagram(6, number, &[]), 0).unwrap();
        }
        assert_eq!((intake.counts().senders, intake.counts().lost, intake.counts().refused), (1, 0, 2));
    }

    #[test]
    fn no_more_senders_than_there_is_room_for() {
        let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
        (0..1000).for_each(|n| intake.datagram(address(1), &datagram(n, 0, &[]), 0).unwrap());
        assert_eq!((intake.senders.len(), intake.counts().refused), (MAX_SENDERS, 1000 - MAX_SENDERS as u64));
        intake.datagram(address(1), &datagram(5000, 0, &[]), SILENCE_NS + 1).unwrap();
        assert_eq!(intake.counts().senders, MAX_SENDERS as u32 + 1);
    }

    #[test]
    fn a_sender_that_is_not_heard_from_its_start_is_told_with_what_came_before() {
        let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
        for number in [70, 72, 69, 68] {
            intake.datagram(address(1), &datagram(5, number, &[]), 0).unwrap();
        }
        let (counts, log) = intake.finish(0).unwrap();
        assert_eq!(counts.lost, 1);
        let mut reader = Reader::open(log).unwrap();
        let sender = reader.next().unwrap().unwrap().value().unwrap();
        assert_eq!(sender.at("before"), Some(khz_tlog::Value::Uint(70)));
    }

    /// Samples whose times leap once made a marker each, which is much larger than they are.
    #[test]
    fn no_sender_makes_the_log_larger_than_its_limit() {
        const LIMIT: u64 = 1 << 20;
        let mut intake = Intake::new(Vec::new(), LIMIT).unwrap();
        for number in 0..200u64 {
            let mut bytes = datagram(1, number + 1, &[]);
            bytes.put(&[1]);
            bytes.varuint(number);
            bytes.counted(format!("r{number}").as_bytes());
            bytes.counted(&Type::Null.to_bytes());
            for sample in 0..5000 {
                bytes.put(&[2]);
                bytes.varuint(number);
                bytes.put(&(sample * 10_000_000_i64).to_le_bytes());
                bytes.counted(&[]);
            }
            intake.datagram(address(1), &bytes, 0).unwrap();
        }
        assert!(intake.is_full());
        let (counts, log) = intake.finish(0).unwrap();
        assert_eq!(
            counts.samples + counts.beyond + counts.unknown,
            200 * 5000 + (200 - counts_of_records(&log))
        );
        assert!((LIMIT / 2..LIMIT).contains(&(log.len() as u64)), "{}", log.len());
    }

    fn counts_of_records(log: &[u8]) -> u64 {
        Reader::open(log).unwrap().records().len() as u64 - 2
    }

    #[test]
    fn a_sender_whose_clock_is_wrong_spoils_no_search() {
        const NOW_US: i64 = 1_700_000_000_000_000;
        let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
        for number in 0..1000u64 {
            let now_us = NOW_US + number as i64 * 1000;
            let wild = [i64::MAX, i64::MIN, 0, NOW_US + 3_600_000_000][number as usize % 4];
            intake.datagram(address(1), &datagram(1, number, &[(0, wild)]), now_us * 1000).unwrap();
            intake.datagram(address(2), &datagram(2, number, &[(0, now_us - 500)]), now_us * 1000).unwrap();
        }
        let (counts, log) = intake.finish(0).unwrap();
        assert_eq!((counts.samples, counts.restamped), (2000, 1000));
        let mut reader = Reader::open(log).unwrap();
        reader.seek(NOW_US + 500_000).unwrap();
        reader.select(["tick@2"]);
        assert_eq!(reader.next().unwrap().unwrap().time_us, Some(NOW_US + 500_500));
    }

    #[test]
    fn no_sender_takes_the_name_of_another() {
        let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
        let mut bytes = datagram(1, 1, &[]);
        for (record, name) in ["tick@2", "gaps", "sender"].into_iter().enumerate() {
            bytes.put(&[1, record as u8]);
            bytes.counted(name.as_bytes());
            bytes.counted(&Type::Null.to_bytes());
        }
        intake.datagram(address(1), &bytes, 0).unwrap();
        intake.datagram(address(2), &datagram(2, 0, &[]), 0).unwrap();
        let (counts, log) = intake.finish(0).unwrap();
        assert_eq!(counts.refused, 0);
        let reader = Reader::open(log).unwrap();
        let names: Vec<_> = reader.records().iter().map(|record| record.name()).collect();
        assert_eq!(names, ["sender", "gaps", "tick@2@1", "gaps@1", "sender@1", "tick@2"]);
    }

    #[test]
    fn hostile_datagrams_are_counted() {
        let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
        let good = datagram(5, 0, &[(0, 1)]);
        for len in 0..good.len() {
            intake.datagram(address(9), &good[..len], 0).unwrap();
        }
        for (index, byte) in (0..good.len()).flat_map(|index| [0, 1, 0x7f, 0xff].map(|byte| (index, byte))) {
            let mut bad = good.clone();
            bad[index] = byte;
            intake.datagram(address(8), &bad, 0).unwrap();
        }
        let (counts, log) = intake.finish(0).unwrap();
        assert!(counts.refused > 20);
        let mut reader = Reader::open(log).unwrap();
        while reader.next().unwrap().is_some() {}
    }

    #[test]
    fn schemas_beyond_the_limit_are_refused() {
        let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
        let schema = Type::object([("x".repeat(50_000), Type::Bool)]).to_bytes();
        for number in 0..100u64 {
            let mut bytes = datagram(1, number + 1, &[]);
            bytes.put(&[1]);
            bytes.varuint(number);
            bytes.counted(format!("r{number}").as_bytes());
            bytes.counted(&schema);
            intake.datagram(address(1), &bytes, 0).unwrap();
        }
        assert!((50..70).contains(&intake.counts().refused));
        let (_, log) = intake.finish(0).unwrap();
        assert!(Reader::open(log).unwrap().is_finished());
    }
}
