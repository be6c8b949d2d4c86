//! Records compressed by zstd: many samples as one.
//!
//! The format has no flag for zstd, and alone a sample of some hundred bytes hardly shrinks. So the samples of such a
//! record are put together, some tens of kilobytes or a second of them, and lie in the file as one sample of another
//! record, which every reader of the format can read as what it is: an object whose one field, `zstd`, holds bytes.
//! The field's default value is the schema of what is in there.
//!
//! The bytes are one zstd frame of: time of the first sample (i64), then for each sample how much later than the one
//! before it is (varint, µs) and its payload with its length before it.

use crate::code::{Input, Sink};
use crate::error::{DecodeError, Flaw};
use crate::schema::{Field, Type};
use std::io;

/// The name of the one field.
const FIELD: &str = "zstd";
/// With so many bytes a batch is full; the last sample may go beyond.
pub const MAX_BYTES: usize = 64 << 10;
/// How long samples are put together at most, µs.
pub const MAX_SPAN_US: i64 = 1_000_000;
/// The level at which zstd itself is meant to be used.
const LEVEL: i32 = 3;

/// The schema under which a record with this schema lies in the file.
pub fn outer(schema: &[u8]) -> Vec<u8> {
    let mut default = Vec::with_capacity(schema.len() + 4);
    default.counted(schema);
    let field = Field { default: Some(default), ..Field::new(FIELD, Type::Bytes) };
    Type::Object(vec![field]).to_bytes()
}

/// The schema of the samples in a record of this type, if it is one of batches.
pub fn inner(ty: &Type) -> Option<&[u8]> {
    let Type::Object(fields) = ty else { return None };
    match fields.as_slice() {
        [Field { name, ty: Type::Bytes, default: Some(default), .. }] if name == FIELD => {
            Input::new(default).counted().ok()
        }
        _ => None,
    }
}

/// Samples being put together.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    last_us: i64,
    newest_us: i64,
}

impl Batch {
    /// The newest time in it.
    pub fn newest_us(&self) -> i64 {
        self.newest_us
    }

    pub fn push(&mut self, time_us: i64, payload: &[u8]) {
        if self.bytes.is_empty() {
            self.bytes.put(&time_us.to_le_bytes());
            (self.last_us, self.newest_us) = (time_us, time_us);
        }
        self.newest_us = self.newest_us.max(time_us);
        self.bytes.varint(time_us.wrapping_sub(self.last_us));
        self.bytes.counted(payload);
        self.last_us = time_us;
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.bytes.len() >= MAX_BYTES
    }

    /// The payload that holds them all; the batch is empty then.
    pub fn finish(&mut self) -> io::Result<Vec<u8>> {
        let frame = zstd::bulk::compress(&self.bytes, LEVEL)?;
        self.bytes.clear();
        let mut payload = Vec::with_capacity(frame.len() + 4);
        payload.counted(&frame);
        Ok(payload)
    }
}

/// Decompresses a batch's payload into `room`, which it makes no larger than `most`.
pub fn unpack(payload: &[u8], room: &mut Vec<u8>, most: u64) -> Result<(), DecodeError> {
    let mut input = Input::new(payload);
    let frame = input.counted()?;
    let wrong = || input.error(Flaw::Value("frame of zstd"));
    // The writer's frames have their size in the header.
    let size = zstd::zstd_safe::get_frame_content_size(frame).ok().flatten().ok_or_else(wrong)?;
    if size > most {
        return Err(input.error(Flaw::Limit { what: "bytes of a batch", value: size, limit: most }));
    }
    room.clear();
    room.reserve(size as usize);
    let mut decompressor = zstd::bulk::Decompressor::new().map_err(|_| wrong())?;
    // There may be room for a second frame behind the first.
    let len = decompressor.decompress_to_buffer(frame, room).map_err(|_| wrong())?;
    if len as u64 == size { Ok(()) } else { Err(wrong()) }
}

/// How far a batch has been read.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    at: usize,
    time_us: i64,
}

impl Cursor {
    pub fn new(batch: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Input::new(batch);
        Ok(Self { time_us: i64::from_le_bytes(input.array()?), at: input.position() })
    }

    /// The next sample: its time and where its payload lies.
    pub fn next(&mut self, batch: &[u8]) -> Result<Option<(i64, std::ops::Range<usize>)>, DecodeError> {
        let mut input = Input::new(&batch[self.at..]);
        if input.is_empty() {
            return Ok(None);
        }
        self.time_us = self.time_us.wrapping_add(input.varint()?);
        let len = input.counted()?.len();
        self.at += input.position();
        Ok(Some((self.time_us, self.at - len..self.at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(frame: &[u8]) -> Vec<u8> {
        let mut payload = Vec::new();
        payload.counted(frame);
        payload
    }

    fn frame() -> Vec<u8> {
        zstd::bulk::compress(&[7; 1000], LEVEL).unwrap()
    }

    /// Whether it is refused, with how much memory.
    fn refused(frame: &[u8], mut room: Vec<u8>) -> bool {
        let is_refused = unpack(&payload(frame), &mut room, 2000).is_err();
        assert!(room.capacity() <= 4000, "{} bytes", room.capacity());
        is_refused
    }

    #[test]
    fn a_frame_that_is_not_what_it_says_is_refused() {
        let sound = frame();
        assert!(!refused(&sound, Vec::new()));
        for room in [0, 4000] {
            let refused = |frame: &[u8]| refused(frame, Vec::with_capacity(room));
            assert!((0..sound.len()).all(|cut| refused(&sound[..cut])), "cut");
            assert!(refused(&[sound.clone(), frame()].concat()), "two frames");
            assert!(refused(&zstd::bulk::compress(&[7; 2001], LEVEL).unwrap()), "too large");
            assert!(refused(&zstd::stream::encode_all(&[7; 1000][..], LEVEL).unwrap()), "of unknown size");
            // The size stands in two bytes behind magic and descriptor, less 256.
            let mut false_size = sound.clone();
            assert_eq!(false_size[5..7], 744u16.to_le_bytes());
            for size in [0, 743, 745, u16::MAX] {
                false_size[5..7].copy_from_slice(&size.to_le_bytes());
                assert!(refused(&false_size), "{size}");
            }
        }
    }

    #[test]
    fn a_batch_of_anything_is_read_to_an_end_or_an_error() {
        let mut batch = Batch::default();
        (0..50).for_each(|n| batch.push(n * 1000, &[n as u8; 9]));
        for at in 0..batch.bytes.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = batch.bytes.clone();
                bytes[at] = value;
                let mut cursor = Cursor::new(&bytes).unwrap();
                while let Ok(Some((_, payload))) = cursor.next(&bytes) {
                    assert!(payload.end <= bytes.len());
                }
            }
        }
        assert!(Cursor::new(&[0; 7]).is_err());
    }
}
