//! Payload ⇄ sub-frames: reads, writes, replies, errors and streams.
//!
//! A payload is a run of sub-frames without header or length. See the table of opcodes in
//! `docs/protocol.md`.

use crate::value::{Resolution, Value};

/// One sub-frame, borrowed from a payload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Subframe<'a> {
    /// Host → device: set consecutive registers.
    Write(Values<'a>),
    /// Host → device: send me consecutive registers.
    Read(RegisterRun),
    /// Device → host: consecutive registers.
    Reply(Values<'a>),
    /// Device → host: a register could not be written.
    WriteError(RegisterError),
    /// Device → host: a register could not be read.
    ReadError(RegisterError),
    /// Host → device: bytes for a stream channel.
    StreamToDevice(Stream<'a>),
    /// Device → host: bytes of a stream channel.
    StreamToHost(Stream<'a>),
    /// Host → device: give me what the channel has.
    StreamPoll(Poll),
    /// Device → host: bytes of a stream channel under a packet number.
    FlowToHost(u8, Stream<'a>),
    /// Host → device: the last packet number received, and how much more to send.
    FlowPoll(u8, Poll),
    /// Padding.
    Nop,
}

/// Consecutive registers of one resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterRun {
    /// Type of every value.
    pub resolution: Resolution,
    /// First register.
    pub start: u32,
    /// How many registers.
    pub count: u32,
    /// The count travels as a field of its own, even where the opcode could hold it. Replies mirror this.
    pub long: bool,
}

/// Consecutive registers with their values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Values<'a> {
    /// Which registers. `count` is what the sub-frame claims; see [`Values::iter`].
    pub run: RegisterRun,
    bytes: &'a [u8],
}

impl<'a> Values<'a> {
    /// Register number and value, for as many whole values as the payload really holds.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Value)> + Clone + use<'a> {
        let RegisterRun { resolution, start, .. } = self.run;
        let (mut rest, mut next) = (self.bytes, Some(start));
        core::iter::from_fn(move || {
            let (register, value) = (next?, Value::read(resolution, rest)?);
            rest = &rest[resolution.size()..];
            next = register.checked_add(1);
            Some((register, value))
        })
    }

    /// The values' bytes, whole values only.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// A register the device refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterError {
    /// Which register.
    pub register: u32,
    /// 1 unknown or not acceptable, 2 not writable (or: the reply would not fit).
    pub code: u32,
}

/// Bytes of a stream channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream<'a> {
    /// 1 console, 2 and 3 the auxiliary ports' UARTs.
    pub channel: u32,
    /// What the channel carries.
    pub data: &'a [u8],
}

/// A request for bytes of a stream channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// 1 console, 2 and 3 the auxiliary ports' UARTs.
    pub channel: u32,
    /// The most bytes wanted.
    pub max: u32,
}

/// Why the rest of a payload cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubframeError {
    /// The payload ends within a sub-frame.
    Truncated,
    /// No sub-frame starts with this opcode.
    UnknownOpcode(u32),
}

impl core::fmt::Display for SubframeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Truncated => f.write_str("payload ends within a sub-frame"),
            Self::UnknownOpcode(opcode) => write!(f, "unknown opcode 0x{opcode:02x}"),
        }
    }
}

impl core::error::Error for SubframeError {}

/// Opcodes; see [`Subframe`].
pub mod opcode {
    #![allow(missing_docs)]
    pub const WRITE: u8 = 0x00;
    pub const READ: u8 = 0x10;
    pub const REPLY: u8 = 0x20;
    pub const WRITE_ERROR: u8 = 0x30;
    pub const READ_ERROR: u8 = 0x31;
    pub const STREAM_TO_DEVICE: u8 = 0x40;
    pub const STREAM_TO_HOST: u8 = 0x41;
    pub const STREAM_POLL: u8 = 0x42;
    pub const FLOW_TO_HOST: u8 = 0x43;
    pub const FLOW_POLL: u8 = 0x44;
    pub const NOP: u8 = 0x50;
}

/// Reads a payload sub-frame by sub-frame; stops at the first error, which it yields once.
///
/// A write or reply whose values are cut off is yielded with the whole values that are there (a device
/// applies those), and the error follows.
#[derive(Clone, Debug)]
pub struct Subframes<'a> {
    rest: &'a [u8],
    failed: Option<SubframeError>,
}

impl<'a> Subframes<'a> {
    /// Reads `payload` from its start.
    pub const fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload, failed: None }
    }

    /// What has not been read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn byte(&mut self) -> Result<u8, SubframeError> {
        let (&byte, rest) = self.rest.split_first().ok_or(SubframeError::Truncated)?;
        self.rest = rest;
        Ok(byte)
    }

    #[inline]
    fn varuint(&mut self) -> Result<u32, SubframeError> {
        let (value, used) = read_varuint(self.rest).ok_or(SubframeError::Truncated)?;
        self.rest = &self.rest[used..];
        Ok(value)
    }

    #[inline]
    fn run(&mut self, opcode: u8) -> Result<RegisterRun, SubframeError> {
        let long = opcode & 3 == 0;
        let count = if long { self.varuint()? } else { u32::from(opcode & 3) };
        Ok(RegisterRun {
            resolution: Resolution::from_code(opcode >> 2),
            start: self.varuint()?,
            count,
            long,
        })
    }

    fn values(&mut self, opcode: u8) -> Result<Values<'a>, SubframeError> {
        let run = self.run(opcode)?;
        let size = run.resolution.size();
        let claimed = (run.count as usize).saturating_mul(size);
        let held = if claimed <= self.rest.len() { claimed } else { self.rest.len() / size * size };
        let (bytes, rest) = self.rest.split_at(held);
        self.rest = rest;
        if held < claimed {
            self.failed = Some(SubframeError::Truncated);
        }
        Ok(Values { run, bytes })
    }

    fn error(&mut self) -> Result<RegisterError, SubframeError> {
        Ok(RegisterError { register: self.varuint()?, code: self.varuint()? })
    }

    fn stream_data(&mut self, channel: u32) -> Result<Stream<'a>, SubframeError> {
        let len = self.varuint()? as usize;
        let (data, rest) = self.rest.split_at_checked(len).ok_or(SubframeError::Truncated)?;
        self.rest = rest;
        Ok(Stream { channel, data })
    }

    #[inline]
    fn parse(&mut self) -> Result<Subframe<'a>, SubframeError> {
        let code = self.varuint()?;
        let Ok(short) = u8::try_from(code) else { return Err(SubframeError::UnknownOpcode(code)) };
        Ok(match short {
            0x00..=0x0f => Subframe::Write(self.values(short)?),
            0x10..=0x1f => Subframe::Read(self.run(short)?),
            0x20..=0x2f => Subframe::Reply(self.values(short)?),
            opcode::WRITE_ERROR => Subframe::WriteError(self.error()?),
            opcode::READ_ERROR => Subframe::ReadError(self.error()?),
            opcode::STREAM_TO_DEVICE => {
                let channel = self.varuint()?;
                Subframe::StreamToDevice(self.stream_data(channel)?)
            }
            opcode::STREAM_TO_HOST => {
                let channel = self.varuint()?;
                Subframe::StreamToHost(self.stream_data(channel)?)
            }
            opcode::STREAM_POLL => {
                Subframe::StreamPoll(Poll { channel: self.varuint()?, max: self.varuint()? })
            }
            opcode::FLOW_TO_HOST => {
                let channel = self.varuint()?;
                let number = self.byte()?;
                Subframe::FlowToHost(number, self.stream_data(channel)?)
            }
            opcode::FLOW_POLL => {
                let channel = self.varuint()?;
                let number = self.byte()?;
                Subframe::FlowPoll(number, Poll { channel, max: self.varuint()? })
            }
            opcode::NOP => Subframe::Nop,
            _ => return Err(SubframeError::UnknownOpcode(code)),
        })
    }
}

impl<'a> Iterator for Subframes<'a> {
    type Item = Result<Subframe<'a>, SubframeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            self.rest = &[];
            return Some(Err(error));
        }
        if self.rest.is_empty() {
            return None;
        }
        let parsed = self.parse();
        if parsed.is_err() {
            self.rest = &[];
        }
        Some(parsed)
    }
}

/// Writes sub-frames into a buffer. A sub-frame that does not fit is refused whole.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

/// The sub-frame does not fit the rest of the buffer; nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl core::fmt::Display for Full {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("sub-frame does not fit the payload")
    }
}

impl core::error::Error for Full {}

impl<'a> Writer<'a> {
    /// Writes from the start of `buffer`.
    pub const fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, len: 0 }
    }

    /// Bytes written so far.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Nothing written yet.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes left.
    pub const fn space(&self) -> usize {
        self.buffer.len() - self.len
    }

    /// What was written.
    pub fn written(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// Takes back everything after the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Sets consecutive registers, all of the first value's resolution. Nothing for an empty slice.
    pub fn write(&mut self, start: u32, values: &[Value]) -> Result<(), Full> {
        self.values(opcode::WRITE, start, values)
    }

    /// Answers with consecutive registers, all of the first value's resolution. Nothing for an empty slice.
    pub fn reply(&mut self, start: u32, values: &[Value]) -> Result<(), Full> {
        self.values(opcode::REPLY, start, values)
    }

    fn values(&mut self, base: u8, start: u32, values: &[Value]) -> Result<(), Full> {
        let Some(first) = values.first() else { return Ok(()) };
        let count = values.len() as u32;
        let run = RegisterRun { resolution: first.resolution(), start, count, long: count > 3 };
        self.all_or_nothing(|w| {
            w.head(base, run)?;
            values.iter().try_for_each(|&value| w.value(value))
        })
    }

    /// Asks for consecutive registers.
    pub fn read(&mut self, run: RegisterRun) -> Result<(), Full> {
        self.all_or_nothing(|w| w.head(opcode::READ, run))
    }

    /// Opens a write of consecutive registers; their values follow with [`Writer::value`].
    pub fn write_head(&mut self, run: RegisterRun) -> Result<(), Full> {
        self.all_or_nothing(|w| w.head(opcode::WRITE, run))
    }

    /// Opens a reply to `run`, in the same form; its values follow with [`Writer::value`].
    pub fn reply_head(&mut self, run: RegisterRun) -> Result<(), Full> {
        self.all_or_nothing(|w| w.head(opcode::REPLY, run))
    }

    /// One bare value.
    pub fn value(&mut self, value: Value) -> Result<(), Full> {
        let used = value.write(&mut self.buffer[self.len..]).ok_or(Full)?;
        self.len += used;
        Ok(())
    }

    /// A register the device refuses to write.
    pub fn write_error(&mut self, error: RegisterError) -> Result<(), Full> {
        self.numbers(&[u32::from(opcode::WRITE_ERROR), error.register, error.code])
    }

    /// A register the device refuses to read.
    pub fn read_error(&mut self, error: RegisterError) -> Result<(), Full> {
        self.numbers(&[u32::from(opcode::READ_ERROR), error.register, error.code])
    }

    /// Bytes for a stream channel of the device.
    pub fn stream_to_device(&mut self, stream: Stream<'_>) -> Result<(), Full> {
        self.stream(opcode::STREAM_TO_DEVICE, None, stream)
    }

    /// Bytes of a stream channel, from the device.
    pub fn stream_to_host(&mut self, stream: Stream<'_>) -> Result<(), Full> {
        self.stream(opcode::STREAM_TO_HOST, None, stream)
    }

    /// Bytes of a stream channel under a packet number, from the device.
    pub fn flow_to_host(&mut self, number: u8, stream: Stream<'_>) -> Result<(), Full> {
        self.stream(opcode::FLOW_TO_HOST, Some(number), stream)
    }

    /// Asks for bytes of a stream channel.
    pub fn stream_poll(&mut self, poll: Poll) -> Result<(), Full> {
        self.numbers(&[u32::from(opcode::STREAM_POLL), poll.channel, poll.max])
    }

    /// Acknowledges packet `number` of a stream channel and asks for the next.
    pub fn flow_poll(&mut self, number: u8, poll: Poll) -> Result<(), Full> {
        self.all_or_nothing(|w| {
            w.numbers(&[u32::from(opcode::FLOW_POLL), poll.channel])?;
            w.bytes(&[number])?;
            w.varuint(poll.max)
        })
    }

    /// One byte of padding.
    pub fn nop(&mut self) -> Result<(), Full> {
        self.bytes(&[opcode::NOP])
    }

    fn stream(&mut self, opcode: u8, number: Option<u8>, stream: Stream<'_>) -> Result<(), Full> {
        self.all_or_nothing(|w| {
            w.numbers(&[u32::from(opcode), stream.channel])?;
            number.map_or(Ok(()), |number| w.bytes(&[number]))?;
            w.varuint(stream.data.len() as u32)?;
            w.bytes(stream.data)
        })
    }

    fn head(&mut self, base: u8, run: RegisterRun) -> Result<(), Full> {
        let long = run.long || !(1..=3).contains(&run.count);
        let opcode = base | (run.resolution as u8) << 2 | if long { 0 } else { run.count as u8 };
        self.bytes(&[opcode])?;
        if long {
            self.varuint(run.count)?;
        }
        self.varuint(run.start)
    }

    fn numbers(&mut self, numbers: &[u32]) -> Result<(), Full> {
        self.all_or_nothing(|w| numbers.iter().try_for_each(|&number| w.varuint(number)))
    }

    fn all_or_nothing(&mut self, write: impl FnOnce(&mut Self) -> Result<(), Full>) -> Result<(), Full> {
        let before = self.len;
        write(self).inspect_err(|_| self.len = before)
    }

    fn varuint(&mut self, value: u32) -> Result<(), Full> {
        self.len += write_varuint(value, &mut self.buffer[self.len..]).ok_or(Full)?;
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.buffer[self.len..].get_mut(..bytes.len()).ok_or(Full)?.copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }
}

/// A varuint from the front of `bytes`: its value and length. `None` if it is cut off.
///
/// Five bytes whose last still promises more read as `u32::MAX`, as on the device.
#[inline]
pub fn read_varuint(bytes: &[u8]) -> Option<(u32, usize)> {
    match bytes.first() {
        // Nearly all there are.
        Some(&byte) if byte < 0x80 => Some((u32::from(byte), 1)),
        _ => read_long_varuint(bytes),
    }
}

fn read_long_varuint(bytes: &[u8]) -> Option<(u32, usize)> {
    let mut value = 0_u64;
    for (i, &byte) in bytes.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((value as u32, i + 1));
        }
    }
    (bytes.len() >= 5).then_some((u32::MAX, 5))
}

/// Writes a varuint to the front of `bytes`; its length, or `None` if it does not fit.
#[inline]
pub fn write_varuint(value: u32, bytes: &mut [u8]) -> Option<usize> {
    if value < 0x80 {
        *bytes.first_mut()? = value as u8;
        return Some(1);
    }
    let len = varuint_len(value);
    let target = bytes.get_mut(..len)?;
    for (i, byte) in target.iter_mut().enumerate() {
        let more = if i + 1 < len { 0x80 } else { 0 };
        *byte = (value >> (7 * i)) as u8 & 0x7f | more;
    }
    Some(len)
}

/// Bytes a varuint takes.
pub const fn varuint_len(value: u32) -> usize {
    match value {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        0x4000..=0x1f_ffff => 3,
        0x20_0000..=0xfff_ffff => 4,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_default_position_command_with_query() {
        // The official Python client's make_position(position=0.25, velocity=1.0, query=True).
        let mut buffer = [0; 64];
        let mut w = Writer::new(&mut buffer);
        w.write(0, &[Value::Int8(10)]).unwrap();
        w.write(0x20, &[Value::Float(0.25), Value::Float(1.0)]).unwrap();
        let read = |resolution, start, count| RegisterRun { resolution, start, count, long: false };
        w.read(read(Resolution::Int8, 0, 1)).unwrap();
        w.read(read(Resolution::Float, 1, 3)).unwrap();
        w.read(read(Resolution::Int8, 0x0d, 3)).unwrap();
        let expected =
            [0x01, 0, 0x0a, 0x0e, 0x20, 0, 0, 0x80, 0x3e, 0, 0, 0x80, 0x3f, 0x11, 0, 0x1f, 1, 0x13, 0x0d];
        assert_eq!(w.written(), expected);
    }

    #[test]
    fn a_cut_off_write_still_yields_its_whole_values() {
        let mut subframes = Subframes::new(&[0x06, 0x20, 1, 0, 2]);
        let Some(Ok(Subframe::Write(values))) = subframes.next() else { panic!("a write") };
        assert!(values.iter().eq([(0x20, Value::Int16(1))]));
        assert_eq!(subframes.next(), Some(Err(SubframeError::Truncated)));
        assert_eq!(subframes.next(), None);
    }

    #[test]
    fn an_unknown_opcode_ends_reading() {
        let mut subframes = Subframes::new(&[0x50, 0x60, 0x50]);
        assert_eq!(subframes.next(), Some(Ok(Subframe::Nop)));
        assert_eq!(subframes.next(), Some(Err(SubframeError::UnknownOpcode(0x60))));
        assert_eq!(subframes.next(), None);
    }

    #[test]
    fn what_does_not_fit_leaves_nothing_behind() {
        let mut buffer = [0; 4];
        let mut w = Writer::new(&mut buffer);
        assert_eq!(w.write(0x20, &[Value::Float(1.0)]), Err(Full));
        assert!(w.is_empty());
    }

    #[test]
    fn varuints_of_the_manual() {
        let mut buffer = [0; 5];
        for (value, bytes) in [
            (0x0f, &[0x0f][..]),
            (0x80, &[0x80, 1]),
            (0x130, &[0xb0, 2]),
            (u32::MAX, &[255, 255, 255, 255, 15]),
        ] {
            let len = write_varuint(value, &mut buffer).unwrap();
            assert_eq!(&buffer[..len], bytes);
            assert_eq!(read_varuint(bytes), Some((value, bytes.len())));
        }
        assert_eq!(read_varuint(&[0xff; 5]), Some((u32::MAX, 5)));
        assert_eq!(read_varuint(&[0x80]), None);
    }
}
