//! The way from a thread that must not wait to the recorder's thread: a bounded ring of bytes with one writer and
//! one reader. A sample lies in it as its length, its record, its time and its payload.

use crate::records::{Counts, RecordId};
use khz_tlog::{Record, Sink, Slice};
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
    /// Those [gathered](Tap::gather_with), and room for one more of any length.
    samples: Box<[u8]>,
    /// Bytes of them.
    gathered: usize,
    counts: Arc<Counts>,
}

/// So long a tap of virtual time waits for room at a time, and so often.
const ROOM_LOOK: Duration = Duration::from_micros(200);
const ROOM_LOOKS: u32 = 10_000;

impl Tap {
    /// Records encoded bytes, stamped with the loop's clock. False: dropped.
    #[inline]
    pub fn push(&mut self, record: RecordId, now_ns: i64, payload: &[u8]) -> bool {
        self.push_with(record, now_ns, |out| out.put(payload))
    }

    /// Records what `encode` puts into the slice. False: dropped, because there was no room or because it is larger than
    /// [`MAX_SAMPLE`].
    #[inline]
    pub fn push_with(&mut self, record: RecordId, now_ns: i64, encode: impl FnOnce(&mut Slice<'_>)) -> bool {
        self.gather_with(record, now_ns, encode) & self.hand_over()
    }

    /// Records a value. False: dropped.
    #[inline]
    pub fn push_value(&mut self, record: RecordId, now_ns: i64, value: &impl Record) -> bool {
        self.push_with(record, now_ns, |out| value.encode(out))
    }

    /// As [`Tap::push_with`], but for those that are handed over together: the recorder gets them with [`Tap::hand_over`], or with the next
    /// sample that is pushed. To hand over four costs little more than one. False: dropped, because it is larger than [`MAX_SAMPLE`].
    #[inline]
    pub fn gather_with(
        &mut self,
        record: RecordId,
        now_ns: i64,
        encode: impl FnOnce(&mut Slice<'_>),
    ) -> bool {
        if self.samples.len() - self.gathered < HEAD + MAX_SAMPLE {
            self.hand_over();
        }
        let Some((head, payload)) = self.samples[self.gathered..].split_first_chunk_mut::<HEAD>() else {
            return self.drop_one(record);
        };
        let mut slice = Slice::new(&mut payload[..MAX_SAMPLE]);
        encode(&mut slice);
        let Some(len) = slice.written().map(<[u8]>::len) else { return self.drop_one(record) };
        *head = Head { len, record, time_ns: now_ns }.bytes();
        self.gathered += HEAD + len;
        true
    }

    /// As [`Tap::gather_with`], of a value.
    #[inline]
    pub fn gather_value(&mut self, record: RecordId, now_ns: i64, value: &impl Record) -> bool {
        self.gather_with(record, now_ns, |out| value.encode(out))
    }

    /// Hands over what was gathered. False: some of it was dropped.
    pub fn hand_over(&mut self) -> bool {
        let gathered = std::mem::take(&mut self.gathered);
        self.ring.push_entire_slice(&self.samples[..gathered]).is_ok() || self.hand_over_each(gathered)
    }

    /// One by one, as not all of so many bytes fit.
    #[cold]
    fn hand_over_each(&mut self, gathered: usize) -> bool {
        let (mut from, mut are_all_in) = (0, true);
        while let Some(bytes) = self.samples[from..gathered].first_chunk() {
            let Head { len, record, .. } = Head::of(*bytes);
            let sample = from..from + HEAD + len;
            from = sample.end;
            let fits = self.ring.slots() >= sample.len()
                || self.counts.are_patient() && self.waits_for(sample.len());
            let is_in = fits && self.ring.push_entire_slice(&self.samples[sample]).is_ok();
            are_all_in &= is_in || self.drop_one(record);
        }
        are_all_in
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

    #[cold]
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

impl Head {
    #[inline]
    fn bytes(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&(self.len as u32).to_le_bytes());
        bytes[4..6].copy_from_slice(&self.record.0.to_le_bytes());
        bytes[6..].copy_from_slice(&self.time_ns.to_le_bytes());
        bytes
    }

    fn of([a, b, c, d, e, f, time @ ..]: [u8; HEAD]) -> Self {
        Self {
            len: u32::from_le_bytes([a, b, c, d]) as usize,
            record: RecordId(u16::from_le_bytes([e, f])),
            time_ns: i64::from_le_bytes(time),
        }
    }
}

/// Makes both ends of a ring, its memory touched.
pub(super) fn ring(bytes: usize, counts: Arc<Counts>) -> (Tap, Drain) {
    let (mut producer, consumer) = RingBuffer::new(bytes.max(HEAD + MAX_SAMPLE));
    if let Ok(mut chunk) = producer.write_chunk_uninit(producer.slots()) {
        khz_rt::touch(chunk.as_mut_slices().0);
    }
    let samples = vec![0; 2 * (HEAD + MAX_SAMPLE)].into_boxed_slice();
    let drain = Drain { ring: consumer, payload: vec![0; MAX_SAMPLE] };
    (Tap { ring: producer, samples, gathered: 0, counts }, drain)
}

impl Drain {
    /// The oldest sample that has not been taken.
    pub fn peek(&mut self) -> Option<Head> {
        let chunk = self.ring.read_chunk(HEAD).ok()?;
        let mut bytes = [0; HEAD];
        copy(chunk.as_slices(), &mut bytes);
        Some(Head::of(bytes))
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
    fn samples_gathered_come_out_as_those_that_are_pushed() {
        let (mut tap, mut drain) = ends();
        for n in 0..2000u16 {
            let payloads = [1, 2, 3].map(|part| vec![n as u8; usize::from(n) % 300 * part]);
            for (part, payload) in (0..).zip(&payloads) {
                assert!(tap.gather_with(RecordId(part), n.into(), |out| out.put(payload)));
                assert_eq!(drain.peek(), None, "not handed over yet");
            }
            // With the next one that is pushed, too.
            assert!(if n % 2 == 0 { tap.hand_over() } else { tap.push(RecordId(3), n.into(), &[]) });
            for (part, payload) in (0..).zip(&payloads) {
                let head = drain.peek().unwrap();
                assert_eq!((head.record, head.time_ns), (RecordId(part), n.into()));
                assert_eq!(drain.take(head), payload);
            }
            let last = if n % 2 == 0 { None } else { drain.peek() };
            assert_eq!(last.map(|head| drain.take(head).len()), (n % 2 == 1).then_some(0));
        }
        assert_eq!(drain.peek(), None);
    }

    #[test]
    fn of_samples_gathered_those_that_fit_are_handed_over() {
        let (mut tap, mut drain) = ends();
        assert!(tap.push(RecordId(5), 0, &[0; 40]));
        let half = vec![1; MAX_SAMPLE / 2 - 20];
        let mut gather =
            |record, payload: &[u8]| tap.gather_with(RecordId(record), 1, |out| out.put(payload));
        assert!(gather(0, &half) && gather(1, &[1]) && gather(2, &half));
        assert!(!gather(4, &vec![1; MAX_SAMPLE + 1]), "longer than any may be");
        assert!(gather(3, &[3]));
        assert!(!tap.hand_over() && tap.hand_over());
        assert_eq!([0, 1, 2, 3, 4].map(|record| tap.counts.dropped(record)), [0, 0, 1, 0, 1]);
        for (record, len) in [(5, 40), (0, half.len()), (1, 1), (3, 1)] {
            let head = drain.peek().unwrap();
            assert_eq!((head.record, drain.take(head).len()), (RecordId(record), len));
        }
        // So many that the buffer has no room for another.
        let half = vec![1; MAX_SAMPLE / 2];
        let mut gather = || tap.gather_with(RecordId(5), 2, |out| out.put(&half));
        assert!(gather() && gather() && gather());
        assert_eq!(tap.counts.dropped(5), 1, "two were handed over before the third, of which one fits");
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
