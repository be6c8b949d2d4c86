//! What a robot's recorder sends, datagram by datagram: records with their types, samples that fit them, and a count of
//! everything that is missing or wrong.

use khz_record::{Datagram, Message};
use khz_tlog::{RecordInfo, Sink, Type, Value};
use std::collections::HashMap;

/// How many records a run may have, and how many bytes of names and schemas.
const MAX_RECORDS: usize = 256;
const MAX_SCHEMAS: usize = 2 << 20;

/// A record of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// What its samples are.
    pub ty: Type,
    /// The newest sample: its time, µs since 1970, and its bytes.
    pub latest: Option<(i64, Vec<u8>)>,
    /// How many samples have come.
    pub samples: u64,
}

/// What became of everything received in this run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Samples taken in.
    pub samples: u64,
    /// Datagrams that never came.
    pub lost: u64,
    /// Datagrams and messages that cannot be read, or go beyond a limit.
    pub refused: u64,
    /// Samples whose schema has not come yet.
    pub unknown: u64,
    /// Samples that do not fit their schema.
    pub unfit: u64,
}

/// What a datagram brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Another run begins: everything known is gone.
    Run,
    /// A record, by its place in [`Intake::records`].
    Record(usize),
    /// A sample of that record, now its newest.
    Sample(usize),
    /// The robot has ended the run.
    End,
}

/// Takes in datagrams.
#[derive(Debug, Default)]
pub struct Intake {
    session: Option<u64>,
    next: Option<u64>,
    numbers: HashMap<u64, usize>,
    records: Vec<Known>,
    schema_bytes: usize,
    counts: Counts,
}

impl Intake {
    /// The run: the number its recorder drew.
    pub fn session(&self) -> Option<u64> {
        self.session
    }

    /// The records so far.
    pub fn records(&self) -> &[Known] {
        &self.records
    }

    /// What became of everything received in this run.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What the recorder sent at the beginning of this run, as datagrams: the records with their types, and the samples of those
    /// that have one alone. A receiver that gets them can read on at once.
    pub fn beginning(&self) -> Vec<Vec<u8>> {
        let (Some(session), Some(next)) = (self.session, self.next) else { return Vec::new() };
        let mut numbers: Vec<(u64, usize)> =
            self.numbers.iter().map(|(number, place)| (*number, *place)).collect();
        numbers.sort_unstable_by_key(|(_, place)| *place);
        let messages = numbers.into_iter().map(|(number, place)| {
            let known = &self.records[place];
            let mut bytes = vec![1];
            bytes.varuint(number);
            bytes.counted(known.name.as_bytes());
            bytes.counted(&known.ty.to_bytes());
            if let (1, Some((time_us, payload))) = (known.samples, &known.latest) {
                bytes.push(2);
                bytes.varuint(number);
                bytes.put(&time_us.to_le_bytes());
                bytes.counted(payload);
            }
            bytes
        });
        // With the number of the newest one: a receiver counts none of them as lost.
        let head = [&b"KLOG\x01"[..], &session.to_le_bytes(), &next.saturating_sub(1).to_le_bytes()].concat();
        messages.map(|message| [head.as_slice(), &message].concat()).collect()
    }

    /// Takes in a datagram from any sender, and calls `each` with what it brings. Returns whether it is one of a recorder.
    pub fn take(&mut self, bytes: &[u8], mut each: impl FnMut(&Self, News)) -> bool {
        let Some(datagram) = Datagram::read(bytes) else {
            self.counts.refused += 1;
            return false;
        };
        if self.session != Some(datagram.session) {
            *self = Self { session: Some(datagram.session), ..Self::default() };
            each(self, News::Run);
        }
        let expected = self.next.unwrap_or(datagram.number);
        self.counts.lost += datagram.number.saturating_sub(expected);
        self.next = Some(datagram.number.saturating_add(1).max(expected));
        let mut messages = 0;
        for message in datagram {
            messages += 1;
            let news = match message {
                Ok(Message::Schema { record, name, schema }) => {
                    let ty = || Type::decode(schema).ok();
                    self.declare(record, name, schema.len(), ty).map(News::Record)
                }
                Ok(Message::Sample { record, time_us, payload }) => {
                    self.sample(record, time_us, payload).map(News::Sample)
                }
                Err(_) => {
                    self.counts.refused += 1;
                    None
                }
            };
            news.into_iter().for_each(|news| each(self, news));
        }
        if messages == 0 {
            each(self, News::End);
        }
        true
    }

    /// Takes in a sample of a log, whose records are numbered by their places in it.
    pub(crate) fn item(
        &mut self,
        record: &RecordInfo,
        time_us: i64,
        payload: &[u8],
        mut each: impl FnMut(&Self, News),
    ) {
        let ty = || Some(record.ty().clone());
        let place = self.declare(record.position(), record.name(), 0, ty);
        place.into_iter().for_each(|place| each(self, News::Record(place)));
        let place = self.sample(record.position(), time_us, payload);
        place.into_iter().for_each(|place| each(self, News::Sample(place)));
    }

    fn declare(
        &mut self,
        record: u64,
        name: &str,
        schema_bytes: usize,
        ty: impl FnOnce() -> Option<Type>,
    ) -> Option<usize> {
        if self.numbers.contains_key(&record) {
            return None;
        }
        let bytes = self.schema_bytes + name.len() + schema_bytes;
        let has_room = self.records.len() < MAX_RECORDS && bytes <= MAX_SCHEMAS;
        let is_new = self.records.iter().all(|known| known.name != name);
        let Some(ty) = ty().filter(|_| has_room && is_new) else {
            self.counts.refused += 1;
            return None;
        };
        self.schema_bytes = bytes;
        let place = self.records.len();
        self.records.push(Known { name: name.to_owned(), ty, latest: None, samples: 0 });
        self.numbers.insert(record, place);
        Some(place)
    }

    fn sample(&mut self, record: u64, time_us: i64, payload: &[u8]) -> Option<usize> {
        let Some(&place) = self.numbers.get(&record) else {
            self.counts.unknown += 1;
            return None;
        };
        let known = &mut self.records[place];
        if Value::read(&known.ty, payload).is_err() {
            self.counts.unfit += 1;
            return None;
        }
        // Records that are there once are sent again, for receivers that came late.
        let is_repeated = |(time, bytes): &(i64, Vec<u8>)| *time == time_us && bytes == payload;
        if known.samples == 1 && known.latest.as_ref().is_some_and(is_repeated) {
            return None;
        }
        known.samples += 1;
        self.counts.samples += 1;
        let (time, bytes) = known.latest.get_or_insert_default();
        *time = time_us;
        bytes.clear();
        bytes.extend_from_slice(payload);
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram as the recorder sends it (`docs/log-format.md`).
    fn datagram(session: u64, number: u64, messages: &[&[u8]]) -> Vec<u8> {
        let head = [&b"KLOG\x01"[..], &session.to_le_bytes(), &number.to_le_bytes()].concat();
        [head, messages.concat()].concat()
    }

    fn schema(record: u8, name: &str, ty: &Type) -> Vec<u8> {
        let mut bytes = vec![1, record];
        bytes.counted(name.as_bytes());
        bytes.counted(&ty.to_bytes());
        bytes
    }

    fn sample(record: u8, time_us: i64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![2, record];
        bytes.put(&time_us.to_le_bytes());
        bytes.counted(payload);
        bytes
    }

    fn volts() -> Type {
        Type::object([("volts", Type::Float64)])
    }

    fn news(intake: &mut Intake, bytes: &[u8]) -> Vec<News> {
        let mut all = Vec::new();
        intake.take(bytes, |_, news| all.push(news));
        all
    }

    #[test]
    fn a_run_is_taken_in_and_what_is_lost_counted() {
        let mut intake = Intake::default();
        let of = |value: f64| sample(3, 1000, &value.to_le_bytes());
        let first = datagram(7, 0, &[&schema(3, "battery", &volts()), &of(24.0)]);
        assert_eq!(news(&mut intake, &first), [News::Run, News::Record(0), News::Sample(0)]);
        // The only sample of a record comes again every ten seconds; it is no other.
        assert_eq!(news(&mut intake, &datagram(7, 1, &[&of(24.0)])), []);
        assert_eq!(news(&mut intake, &datagram(7, 4, &[&of(23.0)])), [News::Sample(0)]);
        assert_eq!(intake.counts(), Counts { samples: 2, lost: 2, ..Counts::default() });
        assert_eq!(news(&mut intake, &datagram(7, 5, &[])), [News::End]);
        assert_eq!(news(&mut intake, &datagram(8, 0, &[&of(1.0)])), [News::Run]);
        assert_eq!(intake.counts(), Counts { unknown: 1, ..Counts::default() });
        assert!(intake.records().is_empty());
    }

    #[test]
    fn who_comes_late_receives_the_beginning() {
        let mut intake = Intake::default();
        let of = |value: f64| sample(3, 1000, &value.to_le_bytes());
        intake.take(
            &datagram(7, 5, &[&schema(3, "battery", &volts()), &schema(4, "empty", &volts()), &of(24.0)]),
            |_, _| (),
        );
        let mut late = Intake::default();
        for datagram in intake.beginning() {
            late.take(&datagram, |_, _| ());
        }
        assert_eq!((late.session(), late.counts().samples, late.counts().lost), (Some(7), 1, 0));
        assert_eq!(
            late.records().iter().map(|known| known.name.as_str()).collect::<Vec<_>>(),
            ["battery", "empty"]
        );
        assert_eq!(news(&mut late, &datagram(7, 6, &[&of(23.0)])), [News::Sample(0)]);
        assert_eq!(late.counts().lost, 0);
        assert_eq!(Intake::default().beginning(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn whatever_is_wrong_is_counted() {
        let mut intake = Intake::default();
        assert!(!intake.take(b"KLOG", |_, _| ()));
        let bad = datagram(7, 0, &[&schema(0, "a", &volts()), &sample(0, 1, &[1, 2]), &[9]]);
        assert_eq!(news(&mut intake, &bad), [News::Run, News::Record(0)]);
        let again = datagram(7, 1, &[&schema(1, "a", &volts()), &schema(2, "b", &Type::Null)[..4]]);
        assert_eq!(news(&mut intake, &again), []);
        assert_eq!(intake.counts(), Counts { unfit: 1, refused: 3, ..Counts::default() });
        for len in 0..bad.len() {
            intake.take(&bad[..len], |_, _| ());
        }
    }
}
