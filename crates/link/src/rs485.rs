//! The RS485 bus of the older servos: 3 Mbaud, one talker at a time.
//!
//! There is no arbitration, so the caller keeps to one outstanding query
//! ([`Link::half_duplex`]) and sends the next the moment the reply has been received. The link finds
//! the frames in whatever the line carries: noise and torn frames cost only themselves.

use crate::pl011::Pl011;
use crate::serial::{Direction, Granted, Line, Port, Settings};
use crate::stream::{Speech, Stream};
use crate::{Capabilities, Counters, Link, LinkError, OpenError, Received};
use khz_settings::{section, words};
use khz_wire::serial::{End, MAX_FRAME, Packets};
use khz_wire::{Frame, Request};
use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// A frame whose rest has not come after so much silence never will, ns: USB adapters hold back what does not fill a packet, by themselves for
/// 16 ms.
const SILENCE_NS: i64 = 20_000_000;

/// Frames without reply that may go out in one burst.
const BURST: usize = 32;

words! {
    /// What drives a serial port.
    Rs485Driver {
        /// The kernel.
        Tty = "tty",
        /// This process, which polls the registers of a PL011 UART (`/dev/ttyAMA0` of a Raspberry Pi) all the time.
        /// Needs root and its own CPU.
        Pl011 = "pl011",
    }
}

words! {
    /// What frames are on a serial line.
    SerialProtocol {
        /// Those of moteus servos (mjlib).
        Moteus = "moteus",
        /// Packets of Dynamixel servos (protocol 2.0).
        Dynamixel = "dynamixel",
        /// Packets of Feetech's STS and SMS servos.
        Feetech = "feetech",
    }
}

impl SerialProtocol {
    /// The same, as a codec.
    pub const fn packets(self) -> Packets {
        match self {
            Self::Moteus => Packets::Moteus,
            Self::Dynamixel => Packets::Dynamixel,
            Self::Feetech => Packets::Feetech,
        }
    }
}

section! {
    /// A bus with `link = "rs485"`.
    Rs485Link {
        /// The serial device.
        path: String, "";
        /// Line speed.
        baud: u32 = 3_000_000, "bit/s", 9600 => 12_000_000;
        /// What its servos speak.
        protocol: SerialProtocol = SerialProtocol::Moteus, "";
        /// What switches between sending and receiving. With `driver = "pl011"` it is always the adapter.
        direction: Direction = Direction::Auto, "";
        /// What drives the serial port.
        driver: Rs485Driver = Rs485Driver::Tty, "";
    }
}

impl Rs485Link {
    /// The line at this path, with the defaults.
    pub fn at(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_string_lossy().into_owned(), ..Self::default() }
    }

    /// Opens the line with its driver. Nothing is sent.
    ///
    /// # Errors
    /// As [`Rs485::open`] and [`Pl011::open`].
    pub fn open(&self) -> Result<Box<dyn Link>, OpenError> {
        Ok(match self.driver {
            Rs485Driver::Tty => Box::new(Rs485::open(self)?),
            Rs485Driver::Pl011 => {
                Box::new(Rs485::speaking(Pl011::open(&self.path, self.baud)?, self.protocol.packets()))
            }
        })
    }
}

/// One RS485 line: a link with one channel, over the kernel's serial port or another [`Line`].
///
/// # Realtime contract
/// As [`Link`]. Over a kernel's port [`Link::begin_cycle`] makes one `ioctl`, [`Link::send`] makes no system call, [`Link::flush`] one `write`,
/// [`Link::receive`] at most one `read` (and a `write` while the kernel did not take all of a burst).
pub struct Rs485<L = Port> {
    stream: Stream<L, Speaker>,
}

impl Rs485 {
    /// Opens the line over the kernel's serial port, whatever its `driver`. Nothing is sent.
    ///
    /// # Errors
    /// The port is not there, in use, not ours to open, or cannot do this baud rate or direction.
    pub fn open(link: &Rs485Link) -> Result<Self, OpenError> {
        let settings = Settings { baud: link.baud, direction: link.direction };
        let port = Port::open(Path::new(&link.path), settings)?;
        Ok(Self::speaking(port, link.protocol.packets()))
    }

    /// Speaks over a descriptor that is already set up and non-blocking. When it dies, so does the link.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self::over(Port::from_fd(fd))
    }

    /// What the serial driver granted.
    pub fn granted(&self) -> Granted {
        self.stream.line.granted()
    }
}

impl<L: Line> Rs485<L> {
    /// Speaks over a line that is set up, the frames of moteus servos.
    pub fn over(line: L) -> Self {
        Self::speaking(line, Packets::Moteus)
    }

    /// The same, in these packets.
    pub fn speaking(line: L, packets: Packets) -> Self {
        let speaker =
            Speaker { end: End::new(packets), spoken: VecDeque::with_capacity(BURST), asks_anew: false };
        Self { stream: Stream::new(line, speaker, (BURST, MAX_FRAME), 4096) }
    }
}

/// The frames of the line.
struct Speaker {
    end: End,
    /// The last frames of ours, to know their echo.
    spoken: VecDeque<Frame>,
    /// Something was sent since bytes were looked at last: the rest of a frame begun before does not come any more.
    asks_anew: bool,
}

impl Speaker {
    fn remember(&mut self, frame: &Frame) {
        if self.spoken.len() == BURST {
            self.spoken.pop_front();
        }
        self.spoken.push_back(*frame);
    }

    /// The next frame that is not the echo of one of ours.
    fn find(&mut self, input: &mut &[u8], counters: &mut Counters) -> Option<Frame> {
        let corrupt = self.end.corrupt();
        let is_echo = |frame: &Frame| self.spoken.iter().any(|spoken| is_same(spoken, frame));
        let found = std::iter::from_fn(|| self.end.next(input)).find(|frame| !is_echo(frame));
        counters.corrupt += self.end.corrupt() - corrupt;
        found
    }

    fn give_up_begun(&mut self, counters: &mut Counters) -> bool {
        let given_up = self.end.give_up();
        counters.corrupt += u64::from(given_up);
        given_up
    }
}

impl Speech for Speaker {
    fn write(&mut self, frame: &Frame, _: i64, out: &mut [u8], _: &mut Counters) -> Option<usize> {
        let len = self.end.write(frame, out)?;
        self.remember(frame);
        self.asks_anew = true;
        Some(len)
    }

    fn next(&mut self, input: &mut &[u8], _: i64, counters: &mut Counters) -> Option<Frame> {
        while self.asks_anew && input.is_empty() {
            // What is behind the lead-in of one begun may be a frame.
            if let Some(frame) = self.find(&mut &[][..], counters) {
                return Some(frame);
            }
            self.asks_anew = self.give_up_begun(counters);
        }
        self.find(input, counters)
    }

    /// A frame begun long ago is given up; what is behind its lead-in may be a frame.
    fn give_up(&mut self, silent_ns: i64, counters: &mut Counters) -> bool {
        silent_ns >= SILENCE_NS && self.give_up_begun(counters)
    }

    /// Servos wait for the rest of a frame for ever, so it is sent, with a checksum that is wrong.
    fn break_off(&self, room: &mut [u8], len: usize) -> usize {
        if let Some(last) = room.get_mut(len.saturating_sub(1)) {
            *last = !*last;
        }
        len
    }

    fn start_over(&mut self) {
        self.end = End::new(self.end.packets());
        self.asks_anew = false;
    }
}

/// Of a frame this much travels; some adapters receive what they send.
fn is_same(one: &Frame, other: &Frame) -> bool {
    (one.id, one.payload()) == (other.id, other.payload())
}

impl<L: Line> Link for Rs485<L> {
    fn capabilities(&self) -> Capabilities {
        Capabilities { kind: "rs485", channels: 1, half_duplex: true, in_flight: 1, emulated: false }
    }

    fn begin_cycle(&mut self, _: i64) {
        self.stream.begin_cycle();
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        let packets = self.stream.speech.end.packets();
        // A request to all that wants replies makes every device talk at once.
        let all_at_once = request.to.is_none() && request.replies > 0 && !packets.answers_in_order();
        if channel != 0 || !packets.carries(request.frame) || all_at_once {
            return Err(LinkError::Unsupported);
        }
        self.stream.send(request.frame, now_ns)
    }

    fn flush(&mut self, now_ns: i64) -> Result<(), LinkError> {
        self.stream.flush(now_ns)
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        self.stream.receive(now_ns)
    }

    fn next_event_ns(&self) -> Option<i64> {
        // A polled line has no event to wait for: something may come at any moment.
        self.stream.line.is_polled().then_some(0)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.stream.fd()
    }

    fn holds_back(&self) -> Option<String> {
        self.stream.line.holds_back()
    }

    /// Not of moteus servos, which have one rate.
    fn set_bit_rate(&mut self, bits_per_second: Option<u32>) -> Result<(), LinkError> {
        match self.stream.speech.end.packets() {
            Packets::Moteus => Err(LinkError::Unsupported),
            Packets::Dynamixel | Packets::Feetech => self.stream.line.set_baud(bits_per_second),
        }
    }

    fn close(&mut self, _: i64) -> Vec<String> {
        self.stream.close()
    }

    fn counters(&self, _: u8) -> Counters {
        self.stream.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_wire::Address;
    use khz_wire::address::BROADCAST;
    use khz_wire::rs485::{Decoder, encode};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    /// A link and the other end of its line.
    fn wired() -> (Rs485, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (Rs485::from_fd(ours.into()), theirs)
    }

    fn query() -> Frame {
        Frame::new(0x8001, &[0x11, 0, 0x1f, 1, 0x13, 0x0d]).unwrap()
    }

    /// The query and its reply as mjlib writes them.
    const QUERY: &[u8] = &[0x54, 0xab, 0x80, 0x01, 6, 0x11, 0, 0x1f, 1, 0x13, 0x0d, 0x89, 0xcb];
    const REPLY: &[u8] = &[0x54, 0xab, 0x01, 0x00, 7, 0x41, 1, 4, 0x4f, 0x4b, 0x0d, 0x0a, 0xd7, 0x1b];

    #[test]
    fn queries_and_replies_have_the_known_bytes() {
        let (mut link, mut line) = wired();
        link.send(0, &Address::request(&query()), 0).unwrap();
        link.flush(0).unwrap();
        let mut received = [0; 64];
        assert_eq!(line.read(&mut received).unwrap(), QUERY.len());
        assert_eq!(&received[..QUERY.len()], QUERY);
        line.write_all(REPLY).unwrap();
        let received = link.receive(7).unwrap().unwrap();
        assert_eq!((received.frame.id, received.at_ns), (0x100, 7));
        assert_eq!(received.frame.payload(), &REPLY[5..12]);
    }

    #[test]
    fn our_own_echo_is_not_a_reply() {
        let (mut link, mut line) = wired();
        link.send(0, &Address::request(&query()), 0).unwrap();
        link.flush(0).unwrap();
        line.write_all(&[QUERY, REPLY].concat()).unwrap();
        assert_eq!(link.receive(0).unwrap().unwrap().frame.id, 0x100);
        assert_eq!(link.counters(0).received, 1);
    }

    #[test]
    fn the_echo_of_a_whole_burst_is_no_reply_and_a_reply_of_the_same_address_is() {
        let (mut link, mut line) = wired();
        for id in 1..=3 {
            let stop = Frame::new(id, &[1, 0, 0]).unwrap();
            link.send(0, &Request { frame: &stop, to: Some(id as u8), replies: 0 }, 0).unwrap();
        }
        link.flush(0).unwrap();
        let mut received = [0; 128];
        let len = line.read(&mut received).unwrap();
        // A family whose servos answer with the identifier they were asked by.
        let answer = Frame::new(2, &[0x41, 1, 4]).unwrap();
        let answer_len = encode(&answer, &mut received[len..]).unwrap();
        line.write_all(&received[..len + answer_len]).unwrap();
        assert_eq!(link.receive(0).unwrap().unwrap().frame, answer);
        assert_eq!((link.receive(0), link.counters(0).received), (Ok(None), 1));
    }

    #[test]
    fn noise_costs_only_itself() {
        let (mut link, mut line) = wired();
        let mut bad = REPLY.to_vec();
        bad[6] ^= 1;
        line.write_all(&[&b"\x54\x00noise\x54"[..], &bad, REPLY].concat()).unwrap();
        assert_eq!(link.receive(0).unwrap().unwrap().frame.payload(), &REPLY[5..12]);
        assert!(link.counters(0).corrupt > 0);
        assert_eq!(link.receive(0), Ok(None));
    }

    #[test]
    fn a_torn_frame_is_given_up_after_silence() {
        let (mut link, mut line) = wired();
        line.write_all(&[&[0x54, 0xab, 1, 0, 60], REPLY].concat()).unwrap();
        assert_eq!(link.receive(0), Ok(None));
        assert_eq!(link.receive(SILENCE_NS - 1), Ok(None));
        assert_eq!(link.receive(SILENCE_NS).unwrap().unwrap().frame.payload(), &REPLY[5..12]);
    }

    #[test]
    fn a_torn_frame_is_given_up_with_the_next_query() {
        let (mut link, mut line) = wired();
        line.write_all(&[&[0x54, 0xab, 1, 0, 60], REPLY].concat()).unwrap();
        assert_eq!(link.receive(0), Ok(None));
        link.send(0, &Address::request(&query()), 1).unwrap();
        for _ in 0..2 {
            assert_eq!(link.receive(1).unwrap().unwrap().frame.payload(), &REPLY[5..12]);
            assert_eq!((link.receive(1), link.counters(0).corrupt), (Ok(None), 1));
            line.write_all(REPLY).unwrap();
        }
    }

    /// USB adapters deliver 62 bytes at a time, and the rest some milliseconds later.
    #[test]
    fn replies_that_come_in_pieces_are_whole() {
        use khz_wire::{dynamixel, feetech};
        let ids = [1, 2, 3, 4, 5, 6];
        for packets in [Packets::Dynamixel, Packets::Feetech] {
            let (ours, mut line) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let mut link = Rs485::speaking(Port::from_fd(ours.into()), packets);
            let mut servos = End::of_servos(packets);
            let (asked, replies): (_, Vec<_>) = match packets {
                Packets::Dynamixel => (
                    dynamixel::sync_read(126, 15, &ids, true),
                    (0..)
                        .zip(&ids)
                        .filter_map(|(place, &id)| {
                            dynamixel::Status { id, alert: false, error: 0, data: &[id; 15] }.block(place)
                        })
                        .collect(),
                ),
                _ => (
                    feetech::sync_read(56, 15, &ids),
                    ids.iter()
                        .filter_map(|&id| feetech::Status { id, conditions: 0, data: &[id; 15] }.packet())
                        .collect(),
                ),
            };
            link.send(0, &Request { frame: &asked.unwrap(), to: None, replies: 6 }, 0).unwrap();
            link.flush(0).unwrap();
            let (mut bytes, mut answers) = ([0; 256], Vec::new());
            let len = line.read(&mut bytes).unwrap();
            assert_eq!(servos.next(&mut &bytes[..len]), asked);
            for reply in replies {
                let len = servos.write(&reply, &mut bytes).unwrap();
                answers.extend_from_slice(&bytes[..len]);
            }
            let (mut now_ns, mut count) = (0, 0);
            for piece in answers.chunks(62) {
                line.write_all(piece).unwrap();
                // Some looks find nothing.
                for _ in 0..4 {
                    count += std::iter::from_fn(|| link.receive(now_ns).unwrap()).count();
                    now_ns += 4_000_000;
                }
            }
            assert_eq!((count, link.counters(0).corrupt), (6, 0), "{packets:?}");
        }
    }

    #[test]
    fn what_the_bus_cannot_carry_is_refused() {
        let (mut link, _line) = wired();
        let all = Frame::new(Address::to(BROADCAST, true).id(), &[0x50]).unwrap();
        assert_eq!(link.send(0, &Address::request(&all), 0), Err(LinkError::Unsupported));
        let stop_all = Frame::new(Address::to(BROADCAST, false).id(), &[1, 0, 0]).unwrap();
        assert_eq!(link.send(0, &Address::request(&stop_all), 0), Ok(()));
        let prefixed = Frame::new(1 << 16 | 1, &[0x50]).unwrap();
        assert_eq!(link.send(0, &Address::request(&prefixed), 0), Err(LinkError::Unsupported));
    }

    #[test]
    fn a_frame_that_was_begun_ends_with_a_wrong_checksum() {
        for written in 1..QUERY.len() {
            let (mut link, mut line) = wired();
            link.send(0, &Address::request(&query()), 0).unwrap();
            // As if the kernel had taken so much.
            link.stream.took(written);
            link.begin_cycle(1);
            link.send(0, &Address::request(&query()), 1).unwrap();
            link.flush(1).unwrap();
            let mut received = [0; 64];
            let len = line.read(&mut received).unwrap();
            let whole = [&QUERY[..written], &received[..len]].concat();
            let mut decoder = Decoder::new();
            let mut rest = &whole[..];
            assert!(decoder.next(&mut rest).is_some(), "the next one");
            assert_eq!((decoder.next(&mut rest), decoder.corrupt()), (None, 1));
            assert_eq!((link.counters(0).sent, link.counters(0).expired), (1, 1));
        }
    }

    #[test]
    fn six_servos_answer_one_question_and_a_lost_byte_costs_one_of_them() {
        use khz_wire::dynamixel::{Status, sync_read};
        let (ours, mut line) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut link = Rs485::speaking(Port::from_fd(ours.into()), Packets::Dynamixel);
        let mut servos = End::of_servos(Packets::Dynamixel);
        let ids = [1, 2, 3, 4, 5, 6];
        for (cycle, fast) in (0..).zip([false, true]) {
            let asked = sync_read(126, 10, &ids, fast).unwrap();
            link.send(0, &Request { frame: &asked, to: None, replies: 6 }, cycle).unwrap();
            link.flush(cycle).unwrap();
            let mut received = [0; 256];
            let len = line.read(&mut received).unwrap();
            assert_eq!(servos.next(&mut &received[..len]), Some(asked));
            // The adapter receives its own bytes, too.
            let mut answers = received[..len].to_vec();
            let mut lost = 0;
            for (place, &id) in (0..).zip(&ids) {
                let status = Status { id, alert: false, error: 0, data: &[id; 10] };
                let frame = if fast { status.block(place) } else { status.packet() }.unwrap();
                let len = servos.write(&frame, &mut received).unwrap();
                answers.extend(&received[..len]);
                if id == 3 {
                    lost = answers.len() - 5;
                }
            }
            answers[lost] ^= 0x10;
            line.write_all(&answers).unwrap();
            let received = std::iter::from_fn(|| link.receive(cycle).unwrap());
            let from: Vec<u8> = received.map(|received| Status::parse(&received.frame).unwrap().id).collect();
            assert_eq!(from, [1, 2, 4, 5, 6], "{fast}");
            assert_eq!(link.counters(0).corrupt, 1 + cycle as u64);
        }
        // A frame of another protocol is not sent.
        let short = Frame::new(1, &[1]).unwrap();
        assert_eq!(link.send(0, &Address::request(&short), 2), Err(LinkError::Unsupported));
    }

    #[test]
    fn a_dead_line_is_reported_once() {
        let (mut link, line) = wired();
        drop(line);
        assert!(matches!(link.receive(0), Err(LinkError::Down { .. })));
        assert_eq!(link.receive(1), Ok(None));
        assert_eq!(link.counters(0).downs, 1);
    }
}
