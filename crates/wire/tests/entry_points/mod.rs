//! Every parser of the crate behind one signature: untrusted bytes. The fuzz targets and the replay
//! test call the same functions, so what one finds the other keeps.
#![allow(dead_code)]

use khz_wire::device::{Refusal, RegisterFile, Server};
use khz_wire::fdcanusb::{Dialect, device, host};
use khz_wire::text::Lines;
use khz_wire::{
    Format, Frame, Register, Reply, ReplyLayout, Resolution, Subframes, Value, pi3hat, rs485, slcan, udp,
};

/// Takes any bytes; panics if the parser breaks its word.
pub type EntryPoint = fn(&[u8]);

/// Name and function of each.
pub const ALL: [(&str, EntryPoint); 16] = [
    ("subframes", subframes),
    ("fdcanusb", fdcanusb),
    ("rs485", rs485),
    ("slcan", slcan),
    ("server", server),
    ("reply_layout", reply_layout),
    ("pi3hat", pi3hat),
    ("udp", udp),
    ("damiao", damiao),
    ("robstride", robstride),
    ("robstride_mit", robstride_mit),
    ("cubemars", cubemars),
    ("rmd", rmd),
    ("odrive", odrive),
    ("dynamixel", dynamixel),
    ("feetech", feetech),
];

/// Iterates; the rest never grows.
pub fn subframes(bytes: &[u8]) {
    let mut subframes = Subframes::new(bytes);
    let mut left = bytes.len() + 1;
    while subframes.next().is_some() {
        // The last error is yielded once and leaves nothing.
        assert!(subframes.rest().len() < left || subframes.rest().is_empty());
        left = subframes.rest().len();
    }
}

/// Cuts lines, and hands each to host and device; frames that are understood survive the way back.
pub fn fdcanusb(bytes: &[u8]) {
    let (mut lines, mut input, mut uart) = (Lines::<{ host::MAX_INPUT }>::new(), bytes, device::Uart::new());
    while let Some(line) = lines.next(&mut input) {
        let _ = uart.parse(line);
        let mut out = [0; khz_wire::fdcanusb::MAX_LINE];
        for dialect in [Dialect::Adapter, Dialect::Uart] {
            let _ = host::parse(line, dialect);
            if let Ok(frame) = device::Adapter.parse(line) {
                let len = host::write_send(&frame, dialect, &mut out).expect("a parsed frame has data");
                let sent = out[..len - 1].to_vec();
                let mut padded = frame;
                padded.pad();
                if dialect == Dialect::Adapter {
                    assert_eq!(device::Adapter.parse(&sent), Ok(padded));
                }
            }
        }
    }
}

/// Cuts lines, and hands each to host and adapter; frames that are understood survive the way back.
pub fn slcan(bytes: &[u8]) {
    let (mut lines, mut input) = (Lines::<{ slcan::MAX_LINE }>::new(), bytes);
    let mut adapter = slcan::Adapter::new(1_000_000, 5_000_000, slcan::Answers::Lawicel);
    while let Some((line, _)) = lines.next_ended(&mut input, slcan::is_end) {
        let mut out = [0; slcan::MAX_LINE];
        if let Ok(slcan::Line::Frame(frame)) = slcan::parse(line) {
            let len = slcan::write(&frame, &mut out).expect("a parsed frame has a length CAN has");
            assert_eq!(slcan::parse(&out[..len - 1]), Ok(slcan::Line::Frame(frame)));
        }
        let (frame, answer) = adapter.receive(line);
        assert!(!answer.is_empty());
        if let Some(frame) = frame {
            assert!(adapter.write_received(&frame, &mut out).is_some());
        }
    }
}

/// Decodes in one piece and byte by byte; both find the same frames.
pub fn rs485(bytes: &[u8]) {
    let collect = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let (mut decoder, mut frames) = (rs485::Decoder::new(), Vec::new());
        for mut piece in pieces {
            while let Some(frame) = decoder.next(&mut piece) {
                frames.push(frame);
            }
        }
        (frames, decoder.discarded())
    };
    assert_eq!(collect(&mut core::iter::once(bytes)), collect(&mut bytes.chunks(1)));
}

/// A register file that answers everything.
struct Anything {
    console: [u8; 100],
    used: usize,
}

impl RegisterFile for Anything {
    fn read(&mut self, register: Register, resolution: Resolution) -> Result<Value, Refusal> {
        if register.0 % 7 == 6 {
            return Err(Refusal::Unknown);
        }
        Ok(register.class().encode(f64::from(register.0), resolution))
    }

    fn write(&mut self, register: Register, _: Value) -> Result<(), Refusal> {
        if register.0 % 5 == 4 { Err(Refusal::NotWritable) } else { Ok(()) }
    }

    fn complete(&mut self) {}

    fn uuid(&self) -> [u8; 16] {
        [0; 16]
    }

    fn output(&mut self, channel: u32) -> Option<&[u8]> {
        (channel == 1).then(|| &self.console[self.used..])
    }

    fn consume(&mut self, _: u32, count: usize) {
        self.used += count;
    }
}

/// Serves the bytes as requests of at most 64, with and without reply; every reply parses.
pub fn server(bytes: &[u8]) {
    let (mut server, mut file) = (Server::new(), Anything { console: [b'x'; 100], used: 0 });
    for request in bytes.chunks(64) {
        let mut reply = [0; 64];
        assert_eq!(server.answer(request, false, &mut file, &mut reply), None);
        if let Some(len) = server.answer(request, true, &mut file, &mut reply) {
            assert!(Subframes::new(&reply[..len]).all(|subframe| subframe.is_ok()), "{request:02x?}");
        }
    }
}

/// Decodes as the reply to the default query; the straight way and the parser agree.
pub fn reply_layout(bytes: &[u8]) {
    let layout = ReplyLayout::new(&Format::default_query()).expect("the default query is answerable");
    let Some(frame) = Frame::new(0x100, &bytes[..bytes.len().min(64)]) else { return };
    let (straight, parsed) = (layout.decode(&frame), Reply::parse(frame.payload()));
    // NaN is not equal to itself, so compare what is printed.
    assert_eq!(format!("{straight:?}"), format!("{parsed:?}"));
}

/// Reads the bytes as every register.
pub fn pi3hat(bytes: &[u8]) {
    let _ = pi3hat::decode_receive_status(bytes);
    let _ = pi3hat::Attitude::decode(bytes);
    let _ = pi3hat::RawImu::decode(bytes);
    let _ = pi3hat::ImuConfig::decode(bytes);
    let _ = pi3hat::CanConfig::decode(bytes);
    let _ = pi3hat::ErrorStatus::decode(bytes);
    let _ = pi3hat::DeviceInfo::decode(bytes);
    let _ = pi3hat::Performance::decode(bytes);
    let _ = pi3hat::Ready::decode(bytes);
    let mut out = [0; pi3hat::MAX_BLOB];
    if let Some((port, frame)) = pi3hat::decode_received(bytes) {
        let len = pi3hat::encode_received(port, &frame, &mut out).expect("room for any frame");
        assert_eq!(out[..len], bytes[..len]);
    }
    for register in [pi3hat::register::SEND_SHORT_ID, pi3hat::register::SEND_LONG_ID] {
        if let Some((port, frame)) = pi3hat::decode_send(register, bytes, &pi3hat::CanConfig::HOST_DEFAULT) {
            assert!(port < 2);
            assert!(pi3hat::encode_send(port, &frame, &mut out).is_some());
        }
    }
}

/// Parses, and writes what was understood: the same bytes.
pub fn udp(bytes: &[u8]) {
    let Ok(datagram) = udp::Datagram::parse(bytes) else { return };
    let mut buffer = vec![0; bytes.len()];
    let mut writer = udp::Writer::new(datagram.header, &mut buffer).expect("as long as what was read");
    for (channel, frame) in datagram.frames() {
        writer.push(channel, &frame).expect("as long as what was read");
    }
    assert_eq!(writer.written(), bytes);
}

/// Parses as every kind of Damiao frame; what was understood is written as the same bytes.
pub fn damiao(bytes: &[u8]) {
    use khz_wire::damiao::{Access, RegisterReply, Special, State};
    use khz_wire::mit::Codes;
    let _ = Access::parse(bytes);
    if let Some(state) = State::parse(bytes) {
        assert_eq!(state.to_bytes(), bytes);
    }
    let id = bytes.first().copied().unwrap_or_default();
    if let Some(reply) = RegisterReply::parse(bytes, id) {
        assert_eq!(reply.to_bytes(id), bytes);
        let _ = reply.number();
    }
    if let Ok(command) = <[u8; 8]>::try_from(bytes) {
        let codes = Codes::from_bytes(command);
        assert_eq!(codes.to_bytes(), command);
        assert_eq!(Special::from_bytes(codes.beside_special_codes().to_bytes()), None);
    }
}

/// Parses as every kind of RobStride frame, the identifier first; what was understood survives the way back.
pub fn robstride(bytes: &[u8]) {
    use khz_wire::robstride::{Reply, Request, State, kind, parameter, parts};
    let Some((id, payload)) = bytes.split_first_chunk() else { return };
    let id = u32::from_be_bytes(*id) & 0x1fff_ffff;
    let Some(mut frame) = Frame::classic(id, &payload[..payload.len().min(8)]) else { return };
    frame.extended = true;
    if let Some((request, to, host)) = Request::parse(&frame) {
        let written = request.to_frame(to, host.unwrap_or_default());
        assert_eq!(Request::parse(&written), Some((request, to, host)));
    }
    if let Some(state) = State::parse(&frame) {
        let (kind, ..) = parts(&frame).expect("a state has parts");
        assert_eq!(state.to_frame(kind), frame);
        assert_eq!(Reply::parse(&frame).is_some(), kind == kind::STATE);
    }
    if let Some(reply) = Reply::parse(&frame) {
        assert_eq!(Reply::parse(&reply.to_frame()).map(|again| again.to_frame()), Some(reply.to_frame()));
        if let Reply::Value { parameter, value: Some(value), .. } = reply {
            let _ = parameter::value(parameter, parameter::number(parameter, value));
        }
    }
    if let Some((id, version)) = Reply::version(&frame) {
        let written = Reply::Version { id, host: 0, version }.to_frame();
        assert_eq!(Reply::version(&written), Some((id, version)));
    }
}

/// Parses as a state; what was understood is written as the same bytes.
pub fn cubemars(bytes: &[u8]) {
    use khz_wire::cubemars::{State, error_name};
    if let Some(state) = State::parse(bytes) {
        assert_eq!(state.to_bytes()[..bytes.len()], *bytes);
        assert!(!error_name(state.error).is_empty());
    }
}

/// Reads the bytes as a message and as a reply in motion mode.
pub fn rmd(bytes: &[u8]) {
    use khz_wire::rmd::{Message, Motion, Status, error_name, state};
    let Some(message) = Message::parse(bytes) else {
        assert_eq!(bytes.first().and_then(|&id| state(id, bytes)), None);
        return;
    };
    assert_eq!(message.to_bytes(), *bytes);
    assert_eq!(Motion::parse(message).to_message(message.command), message);
    if let Some(status) = Status::parse(message) {
        assert_eq!(Status::parse(status.to_message()), Some(status));
        assert!(!error_name(status.errors).is_empty());
    }
    if let Some(state) = state(bytes[0], bytes) {
        assert_eq!(state.to_bytes(), *bytes);
    }
}

/// Reads the bytes as every message of an ODrive.
pub fn odrive(bytes: &[u8]) {
    use khz_wire::odrive::{Address, Heartbeat, InputPos, Line, Sdo, Version, filled, two_words, words};
    if let Some(both) = two_words(bytes) {
        assert_eq!(words(both), *bytes);
        let beat = Heartbeat::parse(bytes).unwrap();
        assert_eq!(beat.to_bytes(), *bytes);
        for line in [Line::V05, Line::V06] {
            assert!(beat.errors == 0 || beat.has_error(line) && !line.error_name(beat.errors).is_empty());
        }
        assert_eq!(Version::parse(bytes).unwrap().to_bytes(), *bytes);
    }
    if let Some(whole) = filled(bytes, 4) {
        assert_eq!(InputPos::from_bytes(whole).to_bytes(), whole);
    }
    if let Some(sdo) = Sdo::parse(bytes) {
        assert_eq!(Sdo::parse(&sdo.to_bytes()), Some(sdo));
    }
    if let Some(address) = Address::parse(bytes) {
        assert_eq!(Address::parse(&address.to_bytes()), Some(address));
    }
}

/// Decodes in one piece and byte by byte, as the answers to a sync read and to a fast one; both find the same packets, and those are written
/// as bytes that are read as the same.
pub fn dynamixel(bytes: &[u8]) {
    use khz_wire::dynamixel::{Decoder, MAX_PACKET, asked, encode, place, sync_read, wire_len, written};
    let request = |fast| sync_read(132, 4, &[1, 2, 3], fast).unwrap();
    for asked_before in [None, Some(request(false)), Some(request(true))] {
        let collect = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let (mut decoder, mut frames) = (Decoder::new(), Vec::new());
            asked_before.iter().for_each(|request| decoder.expect(request));
            for mut piece in pieces {
                while let Some(frame) = decoder.next(&mut piece) {
                    frames.push(frame);
                }
            }
            while decoder.give_up() {}
            (frames, decoder.corrupt())
        };
        let (frames, corrupt) = collect(&mut core::iter::once(bytes));
        assert_eq!((&frames, corrupt), (&collect(&mut bytes.chunks(1)).0, collect(&mut bytes.chunks(1)).1));
        for frame in frames {
            let _ = (asked(&frame).count(), written(&frame, 1));
            let mut out = [0; MAX_PACKET];
            match encode(&frame, &mut out) {
                Some(len) => {
                    assert_eq!(wire_len(&frame), len);
                    assert_eq!(Decoder::new().next(&mut &out[..len]), Some(frame));
                }
                None => assert!(place(&frame).is_some()),
            }
        }
    }
}

/// Decodes in one piece and byte by byte, as a servo and as a host that has asked; both find the same packets, and those are written as
/// bytes that are read as the same.
pub fn feetech(bytes: &[u8]) {
    use khz_wire::feetech::{Decoder, End, MAX_PACKET, asked, encode, read, sync_read, wire_len, written};
    let sync = sync_read(56, 2, &[1, 2, 3]).unwrap();
    for (end, request) in [(End::Servo, None), (End::Host, Some(read(1, 56, 4))), (End::Host, Some(sync))] {
        let decoder = || {
            let mut decoder = Decoder::new(end);
            request.iter().for_each(|request| decoder.expect(request));
            decoder
        };
        let collect = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let (mut decoder, mut frames) = (decoder(), Vec::new());
            for mut piece in pieces {
                while let Some(frame) = decoder.next(&mut piece) {
                    frames.push(frame);
                }
            }
            (frames, decoder.corrupt())
        };
        let whole = collect(&mut core::iter::once(bytes));
        assert_eq!(whole, collect(&mut bytes.chunks(1)));
        for frame in whole.0 {
            let _ = (asked(&frame), written(&frame, 1));
            let mut out = [0; MAX_PACKET];
            let len = encode(&frame, &mut out).unwrap();
            assert_eq!(wire_len(&frame), len);
            assert_eq!(decoder().next(&mut &out[..len]), Some(frame));
        }
    }
}

/// Reads the bytes as a request to a RobStride in its MIT protocol, and as its reply: what is understood survives the way back.
pub fn robstride_mit(bytes: &[u8]) {
    use khz_wire::robstride_mit::{Reply, Request, fault_name};
    if let Some(request) = bytes.first_chunk().and_then(|bytes| Request::from_bytes(*bytes)) {
        let sent = request.to_bytes();
        assert_eq!(Request::from_bytes(sent).map(Request::to_bytes), Some(sent));
    }
    let Some(reply) = Reply::parse(bytes) else { return };
    assert_eq!(Reply::parse(&reply.to_bytes()), Some(reply));
    if let Reply::Faults { faults, .. } = reply {
        assert!(!fault_name(faults.trailing_zeros()).is_empty());
    }
}
