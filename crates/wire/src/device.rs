//! The device's side: a request comes in, registers are written and read, a reply goes out.
//!
//! The rules, and their order, are those of mjbots/mjlib `mjlib/multiplex/micro_server.cc`, so that a host
//! sees from an emulated servo what it sees from a real one, also where it asks for nonsense. Code that plays
//! the device implements [`RegisterFile`].

mod forms;

pub use forms::Forms;

use crate::address::{Address, BROADCAST};
use crate::frame::{Frame, MAX_PAYLOAD};
use crate::register::Register;
use crate::subframe::{Poll, RegisterError, RegisterRun, Stream, Subframe, Subframes, Values, Writer};
use crate::subframe::{read_varuint, varuint_len};
use crate::value::{Resolution, Value};

/// What is behind the protocol: registers and byte streams.
pub trait RegisterFile {
    /// The register's present value.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] if it is not there, or not readable in this resolution.
    fn read(&mut self, register: Register, resolution: Resolution) -> Result<Value, Refusal>;

    /// Takes a value. What belongs to the motor command waits for [`RegisterFile::complete`].
    ///
    /// The UUID mask (0x154–0x157) never comes here: [`Server`] compares it with [`RegisterFile::uuid`].
    ///
    /// # Errors
    /// [`Refusal`]; parsing of the frame goes on all the same.
    fn write(&mut self, register: Register, value: Value) -> Result<(), Refusal>;

    /// Takes a value that is known in its unit ([`crate::Class::decode`]), as [`RegisterFile::write`] would; false, changing nothing, if
    /// it is to be asked with [`RegisterFile::write`]. This is the short way for what a loop writes in every tick.
    #[inline]
    fn take(&mut self, register: Register, quantity: f64) -> bool {
        let _ = (register, quantity);
        false
    }

    /// The register's present value in its unit, of which [`crate::Class::encode`] makes what [`RegisterFile::read`] gives in any
    /// resolution; `None` if it is to be asked with that. This is the short way for what a loop reads in every tick.
    #[inline]
    fn give(&mut self, register: Register) -> Option<f64> {
        let _ = register;
        None
    }

    /// The whole frame was accepted: a command collected from its writes takes effect now.
    fn complete(&mut self);

    /// The device's unique number.
    fn uuid(&self) -> [u8; 16];

    /// The pending output of a stream channel (1–3), oldest byte first, or `None` if there is no such channel.
    ///
    /// More may be appended between calls, but nothing may vanish except through [`RegisterFile::consume`].
    fn output(&mut self, channel: u32) -> Option<&[u8]> {
        let _ = channel;
        None
    }

    /// The first `count` bytes of the channel's output have arrived at the host.
    fn consume(&mut self, channel: u32, count: usize) {
        let _ = (channel, count);
    }

    /// Bytes for a stream channel that [`RegisterFile::output`] knows.
    fn input(&mut self, channel: u32, data: &[u8]) {
        let _ = (channel, data);
    }
}

/// Why a register was not read or written; the number travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// No such register, a value it does not take, or not readable in this resolution.
    Unknown = 1,
    /// It exists but cannot be written.
    NotWritable = 2,
}

/// The error code of a read whose reply would not fit.
const REPLY_TOO_LONG: u32 = 2;

/// A subframe is processed only while the reply has room for this many bytes: five of a varuint, two of a
/// CRC and 16 of slack (`kResponseTailReserve`).
const RESERVE: usize = 23;

/// Stream channels a device can have, 1 to 3: console and two UART tunnels.
const CHANNELS: usize = 3;

/// One device's end of the protocol: the state its stream channels keep between frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Server {
    flows: [Flow; CHANNELS],
}

/// A flow-controlled channel.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Number of the last block sent.
    number: u8,
    /// Bytes of it that wait for acknowledgement; 0 if none do.
    pending: usize,
}

impl Server {
    /// Freshly booted.
    pub const fn new() -> Self {
        Self { flows: [Flow { number: 0, pending: 0 }; CHANNELS] }
    }

    /// Answers a frame from a CAN bus, if it is for the device `id` with this prefix and wants an answer.
    ///
    /// The reply is padded; it switches the bit rate if the request did, and is CAN-FD if the request was or
    /// if it is longer than 8 bytes. Frames with an 11-bit identifier cannot carry a prefix, so theirs is
    /// not compared. `forms` makes it quicker the next time, and changes no byte.
    pub fn answer_frame(
        &mut self,
        request: &Frame,
        id: u8,
        prefix: u16,
        file: &mut impl RegisterFile,
        forms: &mut Forms,
    ) -> Option<Frame> {
        let address = Address::from_id(request.id);
        let mine = address.destination == id || address.destination == BROADCAST;
        if !mine || (request.extended && address.prefix != prefix) {
            return None;
        }
        let mut payload = [0; MAX_PAYLOAD];
        let form = if address.reply { forms.of(request.buffer(), request.payload().len()) } else { None };
        let straight = form.map_or(Err(0), |form| form.answer(request.buffer(), file, &mut payload));
        let len = match straight {
            Ok(len) => {
                file.complete();
                len
            }
            Err(taken) => self.answer_rest(request.payload(), address.reply, file, &mut payload, taken)?,
        };
        let mut reply = Frame::new(Address { prefix, ..address.answered_by(id) }.id(), &payload[..len])?;
        reply.pad();
        reply.brs = request.brs;
        reply.fd = request.fd || len > 8;
        Some(reply)
    }

    /// Processes a payload addressed to this device; the length of the answer in `reply`, or `None` if there
    /// is nothing to send: no reply was wanted, or the frame was for another UUID. An empty answer is one.
    ///
    /// `reply` is the longest payload the transport carries (64 bytes on CAN-FD) and is not padded.
    pub fn answer(
        &mut self,
        request: &[u8],
        wants_reply: bool,
        file: &mut impl RegisterFile,
        reply: &mut [u8],
    ) -> Option<usize> {
        self.answer_rest(request, wants_reply, file, reply, 0)
    }

    /// As [`Server::answer`], of a request of whose values the device has taken the first `taken`.
    fn answer_rest(
        &mut self,
        request: &[u8],
        wants_reply: bool,
        file: &mut impl RegisterFile,
        reply: &mut [u8],
        taken: usize,
    ) -> Option<usize> {
        let reply = Writer::new(reply);
        let mut exchange = Exchange { flows: &mut self.flows, file, reply, wants_reply, taken };
        if exchange.process(request) == Err(Stop::Discard) {
            return None;
        }
        let len = exchange.reply.len();
        file.complete();
        wants_reply.then_some(len)
    }

    /// Drops blocks that were sent with flow control and never acknowledged, as after a while without polls.
    ///
    /// Real devices keep them for ever, and give them to the next client, which may fail on them.
    pub fn forget_unacknowledged(&mut self, file: &mut impl RegisterFile) {
        for (channel, flow) in (1..).zip(&mut self.flows) {
            file.consume(channel, core::mem::take(&mut flow.pending));
        }
    }
}

/// Why the rest of a frame is not processed.
#[derive(Debug, PartialEq, Eq)]
enum Stop {
    /// What was produced is sent.
    Rest,
    /// Nothing is sent.
    Discard,
}

/// One frame being answered.
struct Exchange<'a, F> {
    flows: &'a mut [Flow; CHANNELS],
    file: &'a mut F,
    reply: Writer<'a>,
    wants_reply: bool,
    /// Of the next values that are written, so many have been already.
    taken: usize,
}

impl<F: RegisterFile> Exchange<'_, F> {
    fn process(&mut self, request: &[u8]) -> Result<(), Stop> {
        let mut subframes = Subframes::new(request);
        while self.reply.space() >= RESERVE {
            if let Some(operands) = self.skipped_read(subframes.rest()) {
                subframes = Subframes::new(operands);
                continue;
            }
            let Some(Ok(subframe)) = subframes.next() else { break };
            self.subframe(subframe)?;
        }
        Ok(())
    }

    /// Without a reply to write to, the device skips a read's opcode only: its operands are taken for
    /// opcodes. What follows such a read.
    fn skipped_read<'r>(&self, rest: &'r [u8]) -> Option<&'r [u8]> {
        if self.wants_reply {
            return None;
        }
        let (opcode, len) = read_varuint(rest)?;
        (0x10..0x20).contains(&opcode).then(|| &rest[len..])
    }

    fn subframe(&mut self, subframe: Subframe<'_>) -> Result<(), Stop> {
        match subframe {
            Subframe::Write(values) => self.write(values),
            Subframe::Read(run) => self.read(run),
            Subframe::StreamToDevice(stream) => {
                self.flow(stream.channel)?;
                self.file.input(stream.channel, stream.data);
                self.poll(Poll { channel: stream.channel, max: u32::MAX })
            }
            Subframe::StreamPoll(poll) => self.poll(poll),
            Subframe::FlowPoll(number, poll) => self.flow_poll(number, poll),
            Subframe::Nop => Ok(()),
            // Only a device may send these.
            Subframe::Reply(_)
            | Subframe::WriteError(_)
            | Subframe::ReadError(_)
            | Subframe::StreamToHost(_)
            | Subframe::FlowToHost(..) => Err(Stop::Rest),
        }
    }

    fn write(&mut self, values: Values<'_>) -> Result<(), Stop> {
        for (register, value) in values.iter() {
            let has_room = self.reply.space() >= RESERVE;
            if let Err(refusal) = self.write_one(register, value)?
                && self.wants_reply
                && has_room
            {
                let error = RegisterError { register, code: refusal as u32 };
                self.reply.write_error(error).map_err(|_| Stop::Rest)?;
            }
        }
        Ok(())
    }

    fn write_one(&mut self, register: u32, value: Value) -> Result<Result<(), Refusal>, Stop> {
        if self.taken > 0 {
            self.taken -= 1;
            return Ok(Ok(()));
        }
        let Ok(number) = u16::try_from(register) else { return Ok(Err(Refusal::Unknown)) };
        let Some(word @ 0..4) = number.checked_sub(Register::UUID_MASK.0) else {
            return Ok(self.file.write(Register(number), value));
        };
        let Value::Int32(mask) = value else { return Ok(Err(Refusal::Unknown)) };
        let uuid = self.file.uuid();
        let own = uuid.as_chunks::<4>().0[usize::from(word)];
        if mask.to_le_bytes() == own { Ok(Ok(())) } else { Err(Stop::Discard) }
    }

    fn read(&mut self, run: RegisterRun) -> Result<(), Stop> {
        let head = 1 + if run.long { varuint_len(run.count) } else { 0 } + varuint_len(run.start);
        let needed = (run.count as usize).saturating_mul(run.resolution.size()).saturating_add(head);
        if needed > self.reply.space() {
            let error = RegisterError { register: run.start, code: REPLY_TOO_LONG };
            return self.reply.read_error(error).map_err(|_| Stop::Rest);
        }
        let before = self.reply.len();
        self.reply.reply_head(run).map_err(|_| Stop::Rest)?;
        for register in (0..run.count).map(|i| run.start.wrapping_add(i)) {
            let value = u16::try_from(register)
                .map_err(|_| Refusal::Unknown)
                .and_then(|number| self.file.read(Register(number), run.resolution));
            match value {
                Ok(value) => self.reply.value(value).map_err(|_| Stop::Rest)?,
                Err(refusal) => {
                    self.reply.truncate(before);
                    let _ = self.reply.read_error(RegisterError { register, code: refusal as u32 });
                    return Err(Stop::Rest);
                }
            }
        }
        Ok(())
    }

    /// The channel's state, if the device has the channel.
    fn flow(&mut self, channel: u32) -> Result<&mut Flow, Stop> {
        self.file.output(channel).ok_or(Stop::Rest)?;
        let index = channel.checked_sub(1).ok_or(Stop::Rest)?;
        self.flows.get_mut(index as usize).ok_or(Stop::Rest)
    }

    fn poll(&mut self, poll: Poll) -> Result<(), Stop> {
        self.flow(poll.channel)?;
        if self.wants_reply {
            let count = self.send(poll, None)?;
            if count > 0 {
                self.file.consume(poll.channel, count);
                self.flow(poll.channel)?.pending = 0;
            }
        }
        Ok(())
    }

    fn flow_poll(&mut self, received: u8, poll: Poll) -> Result<(), Stop> {
        let Flow { number, pending } = *self.flow(poll.channel)?;
        if !self.wants_reply {
            return Ok(());
        }
        if pending > 0 && received != number {
            return self.send_again(poll.channel, number, pending);
        }
        self.file.consume(poll.channel, pending);
        let number = number.wrapping_add(1);
        let pending = self.send(poll, Some(number))?;
        *self.flow(poll.channel)? = Flow { number, pending };
        Ok(())
    }

    fn send_again(&mut self, channel: u32, number: u8, pending: usize) -> Result<(), Stop> {
        let output = self.file.output(channel).unwrap_or(&[]);
        let data = &output[..pending.min(output.len())];
        self.reply.flow_to_host(number, Stream { channel, data }).map_err(|_| Stop::Rest)
    }

    /// Puts as much of the channel's output in the reply as the poll, the reply and the device allow.
    fn send(&mut self, poll: Poll, number: Option<u8>) -> Result<usize, Stop> {
        let Poll { channel, max } = poll;
        let head = 1 + varuint_len(channel) + usize::from(number.is_some());
        let room = self.reply.space().saturating_sub(head + RESERVE);
        let output = self.file.output(channel).unwrap_or(&[]);
        let data = &output[..output.len().min(max as usize).min(room)];
        let stream = Stream { channel, data };
        let written = match number {
            None => self.reply.stream_to_host(stream),
            Some(number) => self.reply.flow_to_host(number, stream),
        };
        written.map(|()| data.len()).map_err(|_| Stop::Rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Register n reads as n; 0x111 is unknown, 0x001 read-only, 0x150 a 32-bit word, as in the server the
    /// samples were taken from.
    #[derive(Default)]
    struct Sample {
        written: [Option<(Register, Value)>; 4],
        writes: usize,
        completed: usize,
        console: &'static [u8],
        received: usize,
    }

    impl RegisterFile for Sample {
        fn read(&mut self, register: Register, resolution: Resolution) -> Result<Value, Refusal> {
            match (register, resolution) {
                (Register(0x111), _) => Err(Refusal::Unknown),
                (Register::UUID, Resolution::Int8) => Err(Refusal::Unknown),
                (Register(n), Resolution::Int8) => Ok(Value::Int8(n as i8)),
                (Register(n), Resolution::Int16) => Ok(Value::Int16(n as i16)),
                (Register(n), Resolution::Int32) => Ok(Value::Int32(i32::from(n))),
                (Register(n), Resolution::Float) => Ok(Value::Float(f32::from(n))),
            }
        }

        fn write(&mut self, register: Register, value: Value) -> Result<(), Refusal> {
            match register {
                Register(0x111) => return Err(Refusal::Unknown),
                Register::POSITION => return Err(Refusal::NotWritable),
                _ => {}
            }
            if let Some(slot) = self.written.get_mut(self.writes) {
                *slot = Some((register, value));
            }
            self.writes += 1;
            Ok(())
        }

        fn complete(&mut self) {
            self.completed += 1;
        }

        fn uuid(&self) -> [u8; 16] {
            *b"0123456789abcdef"
        }

        fn output(&mut self, channel: u32) -> Option<&[u8]> {
            (channel == 1).then_some(self.console)
        }

        fn consume(&mut self, _: u32, count: usize) {
            self.console = &self.console[count..];
        }

        fn input(&mut self, _: u32, data: &[u8]) {
            self.received += data.len();
        }
    }

    fn exchange(server: &mut Server, file: &mut Sample, request: &[u8]) -> ([u8; 64], usize) {
        let mut reply = [0; 64];
        let len = server.answer(request, true, file, &mut reply).unwrap();
        (reply, len)
    }

    #[track_caller]
    fn replies(request: &[u8], expected: &[u8]) {
        let (reply, len) = exchange(&mut Server::new(), &mut Sample::default(), request);
        assert_eq!(&reply[..len], expected);
    }

    #[test]
    fn a_frame_without_query_bit_takes_read_operands_for_opcodes() {
        let mut file = Sample::default();
        let request = [0x11, 0x00, 0x01, 0x00, 0x0a];
        // 11 is skipped; 00 01 00 0a is then "write 1 int8 from 0x00", value 10.
        assert_eq!(Server::new().answer(&request, false, &mut file, &mut [0; 64]), None);
        assert_eq!(file.written[0], Some((Register::MODE, Value::Int8(10))));
        assert_eq!((file.writes, file.completed), (1, 1));
    }

    #[test]
    fn a_foreign_uuid_silences_the_device_and_its_command() {
        let mut file = Sample::default();
        let other = [0x0d, 0xd4, 0x02, 0, 0, 0, 0];
        let request = [0x09, 0xd4, 0x02, b'0', b'1', b'2', b'4', 0x01, 0x00, 0x0a, 0x11, 0x00];
        assert_eq!(Server::new().answer(&request, true, &mut file, &mut [0; 64]), None);
        assert_eq!((file.writes, file.completed), (0, 0));
        replies(&other, &[0x30, 0xd4, 0x02, 0x01]);
        let request = [0x09, 0xd4, 0x02, b'0', b'1', b'2', b'3', 0x11, 0x00];
        replies(&request, &[0x21, 0x00, 0x00]);
    }

    #[test]
    fn a_reply_that_would_not_fit_is_refused_and_parsing_goes_on() {
        replies(&[0x1c, 0x10, 0x00, 0x11, 0x05], &[0x31, 0x00, 0x02, 0x21, 0x05, 0x05]);
        // The last register there is, and the one after it.
        replies(&[0x12, 0xff, 0xff, 0xff, 0xff, 0x0f], &[0x31, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x01]);
        let all = [0x1c, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x00];
        replies(&all, &[0x31, 0x00, 0x02]);
    }

    #[test]
    fn nothing_starts_when_fewer_than_23_bytes_are_left() {
        // 39 + 3 = 42 bytes used, 22 left: the write behind is not done.
        let mut file = Sample::default();
        let request = [0x10, 39, 0x00, 0x01, 0x00, 0x0a];
        let (_, len) = exchange(&mut Server::new(), &mut file, &request);
        assert_eq!((len, file.writes), (42, 0));
        let (_, len) = exchange(&mut Server::new(), &mut file, &[0x10, 38, 0x00, 0x01, 0x00, 0x0a]);
        assert_eq!((len, file.writes), (41, 1));
    }

    #[test]
    fn many_write_errors_stop_being_reported_but_not_being_parsed() {
        let mut request = [0x01; 64];
        request[..3].copy_from_slice(&[0x00, 61, 0x01]);
        let mut file = Sample::default();
        let (_, len) = exchange(&mut Server::new(), &mut file, &request);
        assert_eq!((len, file.writes), (3, 60));
        for triple in request.chunks_exact_mut(3) {
            triple.copy_from_slice(&[0x01, 0x01, 0x00]);
        }
        let (_, len) = exchange(&mut Server::new(), &mut Sample::default(), &request[..63]);
        assert_eq!(len, 42);
    }

    #[test]
    fn the_console_is_polled_in_blocks_of_39() {
        let mut file = Sample { console: &[b'x'; 45], ..Sample::default() };
        let mut server = Server::new();
        let (reply, len) = exchange(&mut server, &mut file, &[0x42, 0x01, 0x3d]);
        assert_eq!((&reply[..3], len), (&[0x41, 0x01, 39][..], 42));
        let (reply, len) = exchange(&mut server, &mut file, &[0x40, 0x01, 0x02, b'a', b'b']);
        assert_eq!((&reply[..3], len, file.received), (&[0x41, 0x01, 6][..], 9, 2));
        replies(&[0x42, 0x09, 0x3d], &[]);
    }

    #[test]
    fn flow_control_repeats_what_was_not_acknowledged() {
        let mut file = Sample { console: b"OK\r\n", ..Sample::default() };
        let mut server = Server::new();
        let mut poll = |number, max, expected: &[u8]| {
            let (reply, len) = exchange(&mut server, &mut file, &[0x44, 0x01, number, max]);
            assert_eq!(&reply[..len], expected);
        };
        poll(0, 1, b"\x43\x01\x01\x01O");
        poll(0, 0x3d, b"\x43\x01\x01\x01O");
        poll(1, 0x3d, b"\x43\x01\x02\x03K\r\n");
        poll(1, 0x3d, b"\x43\x01\x02\x03K\r\n");
        poll(2, 0x3d, b"\x43\x01\x03\x00");
    }

    #[test]
    fn a_plain_poll_repeats_a_pending_block_and_releases_it() {
        let mut file = Sample { console: b"OK", ..Sample::default() };
        let mut server = Server::new();
        exchange(&mut server, &mut file, &[0x44, 0x01, 0x00, 0x3d]);
        let (reply, len) = exchange(&mut server, &mut file, &[0x42, 0x01, 0x3d]);
        assert_eq!(&reply[..len], b"\x41\x01\x02OK");
        let (reply, len) = exchange(&mut server, &mut file, &[0x42, 0x01, 0x3d]);
        assert_eq!(&reply[..len], b"\x41\x01\x00");

        file.console = b"again";
        exchange(&mut server, &mut file, &[0x44, 0x01, 0x00, 0x3d]);
        server.forget_unacknowledged(&mut file);
        assert_eq!(file.console, b"");
    }

    #[test]
    fn frames_are_answered_in_kind() {
        let answer = |request: &Frame| {
            Server::new().answer_frame(request, 5, 0, &mut Sample::default(), &mut Forms::default())
        };
        let mut request = Frame::new(0x8005, &[0x11, 0x00]).unwrap();
        assert_eq!(answer(&request), Frame::new(0x500, &[0x21, 0x00, 0x00]));
        request.fd = false;
        request.brs = false;
        let reply = answer(&request).unwrap();
        assert!(!reply.fd && !reply.brs);

        let mut long = Frame::new(0x8005, &[0x1f, 0x00]).unwrap();
        (long.fd, long.brs) = (false, false);
        let reply = answer(&long).unwrap();
        assert_eq!((reply.fd, reply.payload().len(), reply.payload()[14]), (true, 16, 0x50));

        for (id, answered) in [(0x8006, false), (0x807f, true), (0x0005, false), (0x1_8005, false)] {
            assert_eq!(answer(&Frame::new(id, &[0x11, 0x00]).unwrap()).is_some(), answered, "{id:x}");
        }
        let empty = answer(&Frame::new(0x8005, &[0x50]).unwrap()).unwrap();
        assert!(empty.payload().is_empty());
    }

    /// Subframes of requests: writes and reads that are taken and refused, an error in their middle, padding, a stream.
    const PIECES: [&[u8]; 14] = [
        &[0x01, 0x00, 0x0a],
        &[0x0e, 0x20, 1, 2, 3, 4, 5, 6, 7, 8],
        &[0x04, 0x03, 0x24, 1, 2, 3, 4, 5, 6],
        &[0x05, 0x25, 9, 9],
        &[0x01, 0x01, 0x05],
        &[0x01, 0x91, 0x02, 0x05],
        &[0x11, 0x00],
        &[0x1f, 0x01],
        &[0x13, 0x0d],
        &[0x14, 0x06, 0x20],
        &[0x12, 0x90, 0x02],
        &[0x50],
        &[0x42, 0x01, 0x3d],
        &[0x60],
    ];

    #[test]
    fn a_form_known_already_changes_no_byte_and_no_write() {
        let mut seed = 1_u32;
        let mut next = move |most: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as usize % most
        };
        let mut forms = Forms::default();
        let mut known = 0;
        for _ in 0..20_000 {
            let (mut request, mut len) = ([0; 64], 0);
            for _ in 0..1 + next(5) {
                // The usual ones more often than those that end a request.
                let piece = PIECES[next(PIECES.len()).min(next(PIECES.len()))];
                if let Some(room) = request.get_mut(len..len + piece.len()) {
                    room.copy_from_slice(piece);
                    len += piece.len();
                }
            }
            known += usize::from(forms.of(&request, len).is_some());
            let [mut usual, mut quick] = [Sample::default(), Sample::default()];
            let mut reply = [0; 64];
            let reply_len = Server::new().answer(&request[..len], true, &mut usual, &mut reply).unwrap();
            let frame = Frame::new(0x8005, &request[..len]).unwrap();
            let mut expected = Frame::new(0x500, &reply[..reply_len]).unwrap();
            expected.pad();
            let answered = Server::new().answer_frame(&frame, 5, 0, &mut quick, &mut forms);
            assert_eq!(answered, Some(expected), "{:x?}", &request[..len]);
            assert_eq!(
                (quick.written, quick.writes),
                (usual.written, usual.writes),
                "{:x?}",
                &request[..len]
            );
            assert_eq!(quick.completed, usual.completed);
        }
        assert!(known > 5_000, "{known}");
    }

    #[test]
    fn answers_like_the_reference_server() {
        replies(
            &[0x11, 0, 0x14, 2, 1, 0x10, 2, 0x0f],
            &[0x21, 0, 0, 0x24, 2, 1, 1, 0, 2, 0, 0x20, 2, 0x0f, 0x0f, 0x10],
        );
        replies(&[0x12, 0x91, 0x02, 0x11, 0x00], &[0x31, 0x91, 0x02, 0x01]);
        replies(
            &[0x01, 0x91, 0x02, 0x05, 0x01, 0x01, 0x02, 0x11, 0x00, 0x11, 0x00],
            &[0x30, 0x91, 0x02, 0x01, 0x30, 0x01, 0x02, 0x21, 0x00, 0x00, 0x21, 0x00, 0x00],
        );
        replies(&[0x11, 0xd0, 0x02, 0x11, 0xd8, 0x02], &[0x31, 0xd0, 0x02, 0x01]);
        replies(&[0x50], &[]);
        replies(&[0x14, 0x00, 0x02], &[0x24, 0x00, 0x02]);
        replies(&[0x11, 0x00, 0x60, 0x11, 0x00], &[0x21, 0x00, 0x00]);
        replies(&[0x11, 0x00, 0x0d, 0x20, 0x00, 0x00, 0x80], &[0x21, 0x00, 0x00]);
        replies(&[0x91, 0x00, 0x11], &[0x21, 0x11, 0x11]);
    }
}
