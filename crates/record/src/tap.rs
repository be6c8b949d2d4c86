//! The way from a thread that must not wait to the recorder's thread: a bounded ring of bytes with one writer and
//! one reader. A sample lies in it as its length, its record, its time and its payload.

use crate::records::{Counts, RecordId};
use khz_tlog::{Record, Slice};
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;
use std::time::Duration;

/// The largest sample a tap takes.
pub const MAX_SAMPLE: usize = 64 << 10;
/// Length, record and time.
const HEAD: usize = 14;

/// Where one thread puts its samples.
///
/// All its functions: no allocation, no lock, no system call, no wait; the cost is that of copying the sample twice.
/// When the ring is full the sample is dropped and counted, and they return false.
pub struct Tap {
    ring: Producer<u8>,
    sample: Box<[u8]>,
    counts: Arc<Counts>,
}

/// So long a tap of virtual time waits for room at a time, and so often.
const ROOM_LOOK: Duration = Duration::from_micros(200);
const ROOM_LOOKS: u32 = 10_000;

impl Tap {
    /// Records encoded bytes, stamped with the loop's clock. False: dropped.
    #[inline]
    pub fn push(&mut self, record: RecordId, now_ns: i64, payload: &[u8]) -> bool {
        if payload.len() > MAX_SAMPLE {
            return self.drop_one(record);
        }
        self.sample[HEAD..HEAD + payload.len()].copy_from_slice(payload);
        self.push_sample(record, now_ns, payload.len())
    }

    /// Records what `encode` puts into the slice. False: dropped, because there was no room or because it is larger than
    /// [`MAX_SAMPLE`].
    #[inline]
    pub fn push_with(&mut self, record: RecordId, now_ns: i64, encode: impl FnOnce(&mut Slice<'_>)) -> bool {
        let mut slice = Slice::new(&mut self.sample[HEAD..]);
        encode(&mut slice);
        match slice.written().map(<[u8]>::len) {
            Some(len) => self.push_sample(record, now_ns, len),
            None => self.drop_one(record),
        }
    }

    /// Records a value. False: dropped.
    #[inline]
    pub fn push_value(&mut self, record: RecordId, now_ns: i64, value: &impl Record) -> bool {
        self.push_with(record, now_ns, |out| value.encode(out))
    }

    fn push_sample(&mut self, record: RecordId, now_ns: i64, len: usize) -> bool {
        self.sample[..4].copy_from_slice(&(len as u32).to_le_bytes());
        self.sample[4..6].copy_from_slice(&record.0.to_le_bytes());
        self.sample[6..HEAD].copy_from_slice(&now_ns.to_le_bytes());
        let sample = HEAD + len;
        if self.ring.push_entire_slice(&self.sample[..sample]).is_ok() {
            return true;
        }
        let has_room = self.counts.are_patient() && self.waits_for(sample);
        has_room && self.ring.push_entire_slice(&self.sample[..sample]).is_ok() || self.drop_one(record)
    }

    /// In virtual time only: waits for room, and returns whether there is some now.
    #[cold]
    fn waits_for(&self, bytes: usize) -> bool {
        let has_room = || self.ring.slots() >= bytes;
        for _ in 0..ROOM_LOOKS {
            if has_room() || self.ring.is_abandoned() {
                break;
            }
            std::thread::sleep(ROOM_LOOK);
        }
        has_room()
    }

    fn drop_one(&self, record: RecordId) -> bool {
        self.counts.drop_one(record);
        false
    }
}

/// The other end of a tap.
pub(super) struct Drain {
    ring: Consumer<u8>,
    payload: Vec<u8>,
}

/// What is known of a sample before it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    len: usize,
    pub record: RecordId,
    pub time_ns: i64,
}

/// Makes both ends of a ring, its memory touched.
pub(super) fn ring(bytes: usize, counts: Arc<Counts>) -> (Tap, Drain) {
    let (mut producer, consumer) = RingBuffer::new(bytes.max(HEAD + MAX_SAMPLE));
    if let Ok(mut chunk) = producer.write_chunk_uninit(producer.slots()) {
        khz_rt::touch(chunk.as_mut_slices().0);
    }
    let sample = vec![0; HEAD + MAX_SAMPLE].into_boxed_slice();
    let drain = Drain { ring: consumer, payload: vec![0; MAX_SAMPLE] };
    (Tap { ring: producer, sample, counts }, drain)
}

impl Drain {
    /// The oldest sample that has not been taken.
    pub fn peek(&mut self) -> Option<Head> {
        let chunk = self.ring.read_chunk(HEAD).ok()?;
        let mut bytes = [0; HEAD];
        copy(chunk.as_slices(), &mut bytes);
        let [a, b, c, d, e, f, time @ ..] = bytes;
        Some(Head {
            len: u32::from_le_bytes([a, b, c, d]) as usize,
            record: RecordId(u16::from_le_bytes([e, f])),
            time_ns: i64::from_le_bytes(time),
        })
    }

    /// Takes the sample that was peeked at.
    pub fn take(&mut self, head: Head) -> &[u8] {
        let payload = &mut self.payload[..head.len];
        // Head and payload were pushed as one, so a reader that saw the head finds the payload.
        if let Ok(chunk) = self.ring.read_chunk(HEAD + head.len) {
            let (one, two) = chunk.as_slices();
            let cut = HEAD.min(one.len());
            copy((&one[cut..], &two[HEAD - cut..]), payload);
            chunk.commit_all();
        }
        payload
    }
}

/// Which ring has the oldest sample.
pub(super) fn oldest(drains: &mut [Drain]) -> Option<(usize, Head)> {
    let heads = drains.iter_mut().enumerate().filter_map(|(index, drain)| Some((index, drain.peek()?)));
    heads.min_by_key(|(_, head)| head.time_ns)
}

fn copy((one, two): (&[u8], &[u8]), target: &mut [u8]) {
    let (front, back) = target.split_at_mut(one.len());
    front.copy_from_slice(one);
    back.copy_from_slice(two);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends() -> (Tap, Drain) {
        ring(0, Arc::new(Counts::new()))
    }

    #[test]
    fn samples_come_out_as_they_went_in_however_they_wrap() {
        let (mut tap, mut drain) = ends();
        for n in 0..5000u16 {
            let payload = vec![n as u8; usize::from(n) % 300];
            assert!(tap.push(RecordId(n % 7), i64::from(n), &payload));
            let head = drain.peek().unwrap();
            assert_eq!((head.record, head.time_ns), (RecordId(n % 7), i64::from(n)));
            assert_eq!(drain.take(head), payload);
        }
        assert_eq!(drain.peek(), None);
    }

    #[test]
    fn what_does_not_fit_is_counted_and_nothing_else_is_hurt() {
        let (mut tap, mut drain) = ends();
        let half = vec![1; MAX_SAMPLE / 2];
        assert!(tap.push(RecordId(3), 1, &half));
        assert!(!tap.push(RecordId(3), 2, &vec![2; MAX_SAMPLE]));
        assert!(!tap.push(RecordId(4), 2, &vec![2; MAX_SAMPLE + 1]));
        assert!(tap.push(RecordId(3), 3, &[3]));
        assert_eq!((tap.counts.dropped(3), tap.counts.dropped(4), tap.counts.all_dropped()), (1, 1, 2));
        let head = drain.peek().unwrap();
        assert_eq!(drain.take(head), half);
        let head = drain.peek().unwrap();
        assert_eq!((head.time_ns, drain.take(head)), (3, &[3][..]));
    }
}
