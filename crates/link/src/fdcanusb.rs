//! The fdcanusb adapter over USB, and its checksummed variant on a UART or pseudo terminal.
//!
//! All frames of a burst go out in one write; several are in flight at once (the adapter queues 32). Each
//! command is answered by `OK` or `ERR`, counted; lost answers are given up after 200 ms, as the official
//! Python client does, also while others come.

use crate::serial::{Direction, Granted, Port, Settings};
use crate::slcan;
use crate::stream::{Speech, Stream};
use crate::{Capabilities, Counters, Link, LinkError, OpenError, Received};
use khz_settings::section;
use khz_wire::fdcanusb::host::{FromAdapter, MAX_INPUT, parse, write_send};
use khz_wire::fdcanusb::{Dialect, MAX_LINE};
use khz_wire::text::Lines;
use khz_wire::{Frame, Request};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// Commands the adapter queues (mjbots/fdcanusb `fw/can_manager.cc`).
const IN_FLIGHT: u16 = 32;

/// An answer that has not come by then never will, ns.
const ANSWER_TIMEOUT_NS: i64 = 200_000_000;

/// Vendor and product of the adapter: new and old.
const ADAPTERS: [(u16, u16); 2] = [(0x1209, 0x2323), (0x0483, 0x5740)];

section! {
    /// A bus with `link = "fdcanusb"`.
    FdcanusbLink {
        /// The serial device; `/dev/serial/by-id/…` does not change between boots.
        path: String, "";
        /// Line speed, for adapters on a UART; USB adapters ignore it.
        baud: u32 = 921_600, "bit/s", 9600 => 12_000_000;
        /// Every line carries a checksum: required on a UART, not supported by USB adapters. Without the key it is
        /// on, except for known USB adapters.
        checksum: Option<bool> = None, "";
        /// Send the data phase at the data bit rate.
        bit_rate_switch: bool = true, "";
    }
}

impl FdcanusbLink {
    /// The adapter at this path, with the defaults.
    pub fn at(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_string_lossy().into_owned(), ..Self::default() }
    }
}

/// One fdcanusb: one link with one channel.
///
/// # Realtime contract
/// As [`Link`]. [`Link::begin_cycle`] makes one `ioctl`, [`Link::send`] no system call, [`Link::flush`] one `write`, [`Link::receive`] at most
/// one `read` (and a `write` while the kernel did not take all of a burst).
pub struct Fdcanusb {
    stream: Stream<Port, Text>,
}

impl Fdcanusb {
    /// Opens the adapter. Nothing is sent.
    ///
    /// # Errors
    /// The port is not there, in use, or not ours to open.
    pub fn open(link: &FdcanusbLink) -> Result<Self, OpenError> {
        let settings = Settings { baud: link.baud, direction: Direction::Adapter };
        let port = Port::open(Path::new(&link.path), settings)?;
        // As the official clients decide: a USB device that is an fdcanusb speaks plainly, everything else with checksums.
        let is_adapter = || port.usb().is_some_and(|id| ADAPTERS.contains(&id));
        let checksum = link.checksum.unwrap_or_else(|| !is_adapter());
        let dialect = if checksum { Dialect::Uart } else { Dialect::Adapter };
        Ok(Self::on(port, dialect, link.bit_rate_switch))
    }

    /// Speaks over a descriptor that is already set up and non-blocking. When it dies, so does the link.
    pub fn from_fd(fd: OwnedFd, dialect: Dialect) -> Self {
        Self::on(Port::from_fd(fd), dialect, true)
    }

    fn on(port: Port, dialect: Dialect, bit_rate_switch: bool) -> Self {
        let (lines, answers) = (Lines::new(), Answers::default());
        let text = Text { dialect, bit_rate_switch, lines, answers, is_silent: true };
        Self { stream: Stream::new(port, text, (usize::from(IN_FLIGHT), MAX_LINE), 8192) }
    }

    /// Plain or with checksums.
    pub fn dialect(&self) -> Dialect {
        self.stream.speech.dialect
    }

    /// The adapter's answers to commands, so many lines at most. Frames that come meanwhile are dropped.
    fn asked(&self, commands: &[u8], count: usize) -> Result<Vec<String>, LinkError> {
        let fd = self.stream.fd().ok_or(LinkError::Down { errno: 0 })?;
        let is_answer = |line: &&[u8]| !line.is_empty() && !line.starts_with(b"rcv ");
        let whole = |answers: &[u8]| answers.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines = |answers: &[u8]| -> Vec<String> {
            let lines =
                answers[..whole(answers)].split(|byte| matches!(byte, b'\r' | b'\n')).filter(is_answer);
            lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect()
        };
        rustix::io::write(fd, commands).map_err(LinkError::down)?;
        let answers = slcan::read_until(fd, slcan::ANSWER, |answers| lines(answers).len() >= count)
            .map_err(LinkError::down)?;
        Ok(lines(&answers))
    }

    /// What the serial driver granted.
    pub fn granted(&self) -> Granted {
        self.stream.line.granted()
    }
}

impl Link for Fdcanusb {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kind: "fdcanusb",
            channels: 1,
            half_duplex: false,
            in_flight: IN_FLIGHT,
            emulated: false,
        }
    }

    fn begin_cycle(&mut self, _: i64) {
        self.stream.begin_cycle();
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        if channel != 0 || request.frame.payload().is_empty() {
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

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.stream.fd()
    }

    /// The bit rates and the state of the bus, or what the adapter speaks instead.
    fn about(&mut self) -> Result<Vec<String>, LinkError> {
        if self.dialect() == Dialect::Adapter {
            let answers = self.asked(b"conf get can.bitrate\nconf get can.fd_bitrate\ncan status\n", 3)?;
            if let [nominal, data, status] = &answers[..] {
                let rates = format!("fdcanusb: bit rate {nominal} bit/s, data phase {data} bit/s");
                return Ok(vec![rates, format!("fdcanusb: status {}", state(status))]);
            }
        }
        Ok(self.misnamed().into_iter().collect())
    }

    /// An slcan adapter is asked for its version.
    fn misnamed(&mut self) -> Option<String> {
        let misnamed =
            || "the adapter answers as slcan, not as an fdcanusb: write `link = \"slcan\"`".to_owned();
        (self.stream.speech.is_silent && slcan::answers(self.stream.fd()?)).then(misnamed)
    }

    /// In the adapter's memory, and not where it keeps its settings.
    fn set_bit_rate(&mut self, bits_per_second: Option<u32>) -> Result<(), LinkError> {
        if self.dialect() != Dialect::Adapter {
            // Behind a servo's own serial port there is no adapter.
            return Err(LinkError::Unsupported);
        }
        let setting = bits_per_second.map_or("load".to_owned(), |rate| format!("set can.bitrate {rate}"));
        let answers = self.asked(format!("can off\nconf {setting}\ncan on\n").as_bytes(), 3)?;
        self.stream.speech.start_over();
        // The first is refused by a bus that is off.
        let is_set = answers.len() == 3 && answers[1..].iter().all(|answer| answer == "OK");
        if is_set { Ok(()) } else { Err(LinkError::Unsupported) }
    }

    fn close(&mut self, _: i64) -> Vec<String> {
        let mut message = self.stream.close();
        // What was asked of it was not understood.
        if self.stream.counters().sent > 0 {
            message.extend(self.misnamed());
        }
        message
    }

    fn counters(&self, _: u8) -> Counters {
        self.stream.counters()
    }
}

/// The answer to `can status` in words.
fn state(status: &str) -> String {
    let flags = [("busoff=1", "bus off"), ("err=1", "error passive"), ("warn=1", "error warning")];
    let has = |flag: &str| {
        status.split(' ').any(|word| word == flag)
            || flag == "busoff=1" && status.starts_with("ERR not in BusOn")
    };
    slcan::errors(flags.iter().filter(|(flag, _)| has(flag)).map(|(_, name)| *name), true)
}

/// The adapter's lines of text.
struct Text {
    dialect: Dialect,
    bit_rate_switch: bool,
    lines: Lines<MAX_INPUT>,
    answers: Answers,
    /// No line of an fdcanusb has come.
    is_silent: bool,
}

impl Speech for Text {
    fn write(
        &mut self,
        frame: &Frame,
        now_ns: i64,
        out: &mut [u8],
        counters: &mut Counters,
    ) -> Option<usize> {
        counters.errors += self.answers.give_up(now_ns);
        if self.answers.outstanding >= IN_FLIGHT {
            return None;
        }
        let mut frame = *frame;
        frame.brs &= self.bit_rate_switch;
        let len = write_send(&frame, self.dialect, out)?;
        self.answers.expect(now_ns);
        Some(len)
    }

    fn next(&mut self, input: &mut &[u8], read_ns: i64, counters: &mut Counters) -> Option<Frame> {
        loop {
            let dropped = self.lines.dropped();
            let line = self.lines.next(input)?;
            let parsed = parse(line, self.dialect);
            self.is_silent &= matches!(parsed, Ok(FromAdapter::Other) | Err(_));
            match parsed {
                Ok(FromAdapter::Received(frame)) => return Some(frame),
                Ok(FromAdapter::Ok) => self.answers.came(read_ns),
                Ok(FromAdapter::Error(text)) => {
                    self.answers.came(read_ns);
                    counters.errors += 1;
                    // A device that wants checksums says so; the official clients switch permanently, too.
                    if text.windows(8).any(|word| word.eq_ignore_ascii_case(b"checksum")) {
                        self.dialect = Dialect::Uart;
                    }
                }
                Ok(FromAdapter::Other) => {}
                Err(_) => counters.corrupt += 1,
            }
            counters.corrupt += self.lines.dropped() - dropped;
        }
    }

    /// Every adapter refuses a line that ends in `!`, wherever it was cut: it is no digit, no flag and no checksum.
    fn break_off(&self, room: &mut [u8], _: usize) -> usize {
        room[..2].copy_from_slice(b"!\n");
        2
    }

    fn dropped(&mut self, frames: u64) {
        let frames = u16::try_from(frames).unwrap_or(u16::MAX);
        self.answers.outstanding = self.answers.outstanding.saturating_sub(frames);
    }

    fn start_over(&mut self) {
        self.lines.clear();
        self.answers = Answers::default();
    }
}

/// Commands whose `OK` or `ERR` has not come.
///
/// Answers name no command, so a lost one cannot be distinguished from those that follow it: under traffic it only keeps the count
/// from ever reaching zero. Between two bursts it does, as the adapter answers within a millisecond or two.
#[derive(Clone, Copy, Debug, Default)]
struct Answers {
    outstanding: u16,
    /// When the last came, or the first after none was outstanding went out.
    since_ns: i64,
    /// The fewest that were outstanding since then.
    fewest: u16,
    fewest_since_ns: i64,
}

impl Answers {
    fn expect(&mut self, now_ns: i64) {
        if self.outstanding == 0 {
            self.since_ns = now_ns;
            (self.fewest, self.fewest_since_ns) = (1, now_ns);
        }
        self.outstanding += 1;
    }

    fn came(&mut self, now_ns: i64) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.since_ns = now_ns;
        self.fewest = self.fewest.min(self.outstanding);
    }

    /// Gives up on answers that are overdue; how many.
    fn give_up(&mut self, now_ns: i64) -> u64 {
        let lost = if now_ns - self.since_ns >= ANSWER_TIMEOUT_NS {
            self.outstanding
        } else if now_ns - self.fewest_since_ns >= ANSWER_TIMEOUT_NS {
            self.fewest
        } else {
            return 0;
        };
        self.outstanding -= lost;
        (self.fewest, self.fewest_since_ns) = (self.outstanding, now_ns);
        u64::from(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_wire::Address;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    /// A link and the other end of its wire.
    fn wired(dialect: Dialect) -> (Fdcanusb, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (Fdcanusb::from_fd(ours.into(), dialect), theirs)
    }

    fn frame(id: u32, payload: &[u8]) -> Frame {
        Frame::new(id, payload).unwrap()
    }

    fn receive(wire: &mut UnixStream) -> String {
        let mut buffer = [0; 16384];
        let len = wire.read(&mut buffer).unwrap();
        String::from_utf8(buffer[..len].to_vec()).unwrap()
    }

    #[test]
    fn a_burst_is_one_write() {
        let (mut link, mut wire) = wired(Dialect::Uart);
        link.send(0, &Address::request(&frame(0x8001, &[0x11, 0, 0x1f, 1, 0x13, 0x0d])), 0).unwrap();
        link.send(0, &Address::request(&frame(0x807f, &[0x18, 4, 0xd0, 2, 0x11, 0xd8, 2])), 0).unwrap();
        link.flush(0).unwrap();
        let lines = "can send 8001 11001F01130D BF *AD\ncan send 807f 1804D00211D802 BF *7F\n";
        assert_eq!(receive(&mut wire), lines);
    }

    #[test]
    fn without_bit_rate_switch_no_frame_has_it() {
        let (ours, mut wire) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut link = Fdcanusb::on(Port::from_fd(ours.into()), Dialect::Adapter, false);
        link.send(0, &Address::request(&frame(0x8001, &[0x11, 0])), 0).unwrap();
        link.flush(0).unwrap();
        assert_eq!(receive(&mut wire), "can send 8001 1100 bF\n");
    }

    #[test]
    fn takes_frames_out_of_a_torn_stream() {
        let (mut link, mut wire) = wired(Dialect::Adapter);
        wire.write_all(b"OK\r\nrcv 0100 2100 E B F r x-1\r\nrcv 02").unwrap();
        let first = link.receive(5).unwrap().unwrap();
        assert_eq!((first.frame.id, first.frame.payload(), first.at_ns), (0x100, &[0x21, 0][..], 5));
        assert_eq!(link.receive(6), Ok(None));
        wire.write_all(b"00 50 E B F r\r\n").unwrap();
        assert_eq!(link.receive(7).unwrap().unwrap().frame.id, 0x200);
        assert_eq!(link.counters(0).received, 2);
    }

    #[test]
    fn damaged_lines_are_counted_and_cost_only_themselves() {
        let (mut link, mut wire) = wired(Dialect::Uart);
        let good = "rcv 00000100 21000a2f010000803e0000803fcdcccc3d230d311e005050 *0F\r\n";
        wire.write_all(b"rcv 00000100 21 *00\r\nrcv 0100 21\r\nnoise\r\n").unwrap();
        wire.write_all(good.as_bytes()).unwrap();
        assert_eq!(link.receive(0).unwrap().unwrap().frame.id, 0x100);
        assert_eq!(link.counters(0).corrupt, 3);
    }

    #[test]
    fn an_adapter_that_speaks_slcan_is_named_when_nothing_was_understood() {
        let warned = |answer: &'static [u8]| {
            let (mut link, mut wire) = wired(Dialect::Adapter);
            link.send(0, &Address::request(&frame(0x8001, &[0x11, 0])), 0).unwrap();
            link.flush(0).unwrap();
            let theirs = std::thread::spawn(move || {
                let (mut received, mut bytes) = (Vec::new(), [0; 1024]);
                while !received.ends_with(b"V\r") {
                    let len = wire.read(&mut bytes).unwrap();
                    received.extend(&bytes[..len]);
                }
                wire.write_all(answer).unwrap();
                wire
            });
            let message = link.close(0);
            theirs.join().unwrap();
            message
        };
        assert_eq!(
            warned(b"\x07V1013\r"),
            ["the adapter answers as slcan, not as an fdcanusb: write `link = \"slcan\"`"]
        );
        assert_eq!(warned(b"ERR unknown command\r\n"), [""; 0]);
        let (mut link, mut wire) = wired(Dialect::Adapter);
        link.send(0, &Address::request(&frame(0x8001, &[0x11, 0])), 0).unwrap();
        link.flush(0).unwrap();
        wire.write_all(b"OK\r\n").unwrap();
        assert_eq!(link.receive(0), Ok(None));
        receive(&mut wire);
        // An adapter that has answered is not asked.
        assert_eq!((link.misnamed(), link.close(0)), (None, vec![]));
        wire.set_nonblocking(true).unwrap();
        assert!(wire.read(&mut [0]).is_err());
    }

    /// An adapter with these answers, in their order; what it was asked.
    fn with_answers<T>(answers: &'static [u8], ask: impl FnOnce(&mut Fdcanusb) -> T) -> (T, String) {
        let (mut link, mut wire) = wired(Dialect::Adapter);
        wire.write_all(answers).unwrap();
        let message = ask(&mut link);
        (message, receive(&mut wire))
    }

    #[test]
    fn bit_rates_and_state_of_the_bus_are_asked_for() {
        let answers = b"1000000\r\nrcv 0100 21 E B F r x-1\r\n5000000\r\nlec=2 dlec=7 err=1 warn=1 busoff=0 pexc=0 tdc=0\r\n";
        let (message, asked) = with_answers(answers, |link| link.about().unwrap());
        let status = "fdcanusb: status error passive, error warning; check the bit rate, the termination and the wires";
        assert_eq!(message, ["fdcanusb: bit rate 1000000 bit/s, data phase 5000000 bit/s", status]);
        assert_eq!(asked, "conf get can.bitrate\nconf get can.fd_bitrate\ncan status\n");
        assert_eq!(state("ERR not in BusOn"), "bus off; check the bit rate, the termination and the wires");
        assert_eq!(state("lec=0 dlec=0 err=0 warn=0 busoff=0 pexc=0 tdc=0"), "no errors");
    }

    #[test]
    fn another_bit_rate_is_set_in_memory_and_the_stored_one_loaded_again() {
        let set = |answers, rate| with_answers(answers, |link| link.set_bit_rate(rate));
        let commands = "can off\nconf set can.bitrate 500000\ncan on\n".to_owned();
        assert_eq!(set(b"OK\r\nOK\r\nOK\r\n", Some(500_000)), (Ok(()), commands.clone()));
        let refused = b"ERR already in BusOff\r\nERR error setting\r\nOK\r\n";
        assert_eq!(set(refused, Some(500_000)), (Err(LinkError::Unsupported), commands));
        let stored = b"ERR already in BusOff\r\nOK\r\nOK\r\n";
        assert_eq!(set(stored, None), (Ok(()), "can off\nconf load\ncan on\n".to_owned()));
        // A servo's own serial port.
        assert_eq!(wired(Dialect::Uart).0.set_bit_rate(Some(500_000)), Err(LinkError::Unsupported));
    }

    #[test]
    fn a_complaint_about_checksums_turns_them_on() {
        let (mut link, mut wire) = wired(Dialect::Adapter);
        wire.write_all(b"ERR checksum *B8\r\n").unwrap();
        assert_eq!(link.receive(0), Ok(None));
        assert_eq!((link.dialect(), link.counters(0).errors), (Dialect::Uart, 1));
    }

    #[test]
    fn thirty_two_commands_are_in_flight_and_lost_answers_given_up() {
        let (mut link, mut wire) = wired(Dialect::Adapter);
        let command = frame(0x8001, &[0x50; 64]);
        (0..32).for_each(|_| link.send(0, &Address::request(&command), 0).unwrap());
        assert_eq!(link.send(0, &Address::request(&command), 0), Err(LinkError::Full));
        link.flush(0).unwrap();
        wire.write_all(b"OK\r\nOK\r\n").unwrap();
        assert_eq!(link.receive(1), Ok(None));
        (0..2).for_each(|_| link.send(0, &Address::request(&command), 1).unwrap());
        assert_eq!(link.send(0, &Address::request(&command), 1), Err(LinkError::Full));
        assert_eq!(link.send(0, &Address::request(&command), 1 + ANSWER_TIMEOUT_NS), Ok(()));
        link.flush(1 + ANSWER_TIMEOUT_NS).unwrap();
        let counters = link.counters(0);
        assert_eq!((counters.sent, counters.full, counters.errors), (35, 2, 32));
    }

    #[test]
    fn lost_answers_are_given_up_while_others_come() {
        let (mut link, mut wire) = wired(Dialect::Adapter);
        let mut lost = 0;
        // 20 s of cycles of twelve commands at 1 kHz; of every hundredth cycle one answer is lost.
        for cycle in 0..20_000 {
            let now_ns = cycle * 1_000_000;
            assert_eq!(link.receive(now_ns), Ok(None));
            for id in 0x8001..=0x800c {
                assert_eq!(
                    link.send(0, &Address::request(&frame(id, &[0x11, 0])), now_ns),
                    Ok(()),
                    "cycle {cycle}"
                );
            }
            link.flush(now_ns).unwrap();
            receive(&mut wire);
            let is_lost = cycle % 100 == 0;
            lost += u64::from(is_lost);
            wire.write_all(&b"OK\r\n".repeat(if is_lost { 11 } else { 12 })).unwrap();
            assert_eq!(link.receive(now_ns + 500_000), Ok(None));
        }
        // Those of the last 400 ms are still outstanding.
        assert!((lost - 4..=lost).contains(&link.counters(0).errors), "{:?}", link.counters(0));
    }

    #[test]
    fn a_pipeline_that_is_seldom_empty_has_lost_nothing() {
        let (mut link, mut wire) = wired(Dialect::Adapter);
        let mut answered = 0;
        // One more command goes out before the answer to the last has come; now and then all are there.
        for n in 0..1_000_u32 {
            let now_ns = i64::from(n) * 1_000_000;
            link.send(0, &Address::request(&frame(0x8001, &[0x11, 0])), now_ns).unwrap();
            link.flush(now_ns).unwrap();
            receive(&mut wire);
            let come = if n % 100 == 99 { n + 1 } else { n };
            wire.write_all(&b"OK\r\n".repeat((come - answered) as usize)).unwrap();
            answered = come;
            assert_eq!(link.receive(now_ns + 500_000), Ok(None));
        }
        assert_eq!(link.counters(0).errors, 0);
    }

    /// A wire that takes no more bytes, and the link in front of it; the bytes of other programs are `.`.
    fn blocked() -> (Fdcanusb, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        while (&ours).write(b".").is_ok() {}
        (Fdcanusb::from_fd(ours.into(), Dialect::Adapter), theirs)
    }

    /// All that is on the wire, without the dots.
    fn all_received(wire: &mut UnixStream) -> String {
        wire.set_nonblocking(true).unwrap();
        let mut text = Vec::new();
        let _ = wire.read_to_end(&mut text);
        String::from_utf8(text).unwrap().trim_start_matches('.').to_owned()
    }

    #[test]
    fn a_wire_that_takes_nothing_for_many_cycles_carries_no_old_command() {
        let (mut link, mut wire) = blocked();
        for cycle in 0..50 {
            link.begin_cycle(cycle);
            for servo in 1..=3 {
                link.send(0, &Address::request(&frame(0x8000 + servo, &[cycle as u8])), cycle).unwrap();
            }
            let _ = link.flush(cycle);
            assert_eq!(link.receive(cycle), Ok(None));
        }
        assert_eq!(all_received(&mut wire), "");
        assert_eq!(link.receive(50), Ok(None));
        assert_eq!(
            all_received(&mut wire),
            "can send 8001 31 BF\ncan send 8002 31 BF\ncan send 8003 31 BF\n"
        );
        let counters = link.counters(0);
        assert_eq!((counters.sent, counters.expired, counters.errors), (3, 49 * 3, 0));
    }

    #[test]
    fn bytes_of_an_earlier_cycle_in_the_kernel_let_nothing_queue_up_behind_them() {
        let (mut link, mut wire) = wired(Dialect::Adapter);
        for cycle in 0..5 {
            link.begin_cycle(cycle);
            link.send(0, &Address::request(&frame(0x8001, &[cycle as u8])), cycle).unwrap();
            assert_eq!(link.flush(cycle), if cycle == 0 { Ok(()) } else { Err(LinkError::Full) });
        }
        assert_eq!(all_received(&mut wire), "can send 8001 00 BF\n", "what the kernel had");
        assert_eq!(link.receive(5), Ok(None));
        assert_eq!(all_received(&mut wire), "can send 8001 04 BF\n");
    }

    #[test]
    fn bytes_the_kernel_still_has_at_the_end_are_reported() {
        let (mut link, mut wire) = wired(Dialect::Adapter);
        link.send(0, &Address::request(&frame(0x8001, &[1])), 0).unwrap();
        link.flush(0).unwrap();
        let message = link.close(1).concat();
        assert!(message.contains("bytes of the last frames were not sent"), "{message}");
        all_received(&mut wire);
        assert_eq!(link.close(2), Vec::<String>::new());
    }

    #[test]
    fn a_line_that_was_begun_is_broken_off() {
        let line = "can send 8001 1122 BF\n";
        for written in 1..line.len() {
            let (mut link, mut wire) = wired(Dialect::Adapter);
            link.send(0, &Address::request(&frame(0x8001, &[0x11, 0x22])), 0).unwrap();
            // As if the kernel had taken so much.
            link.stream.took(written);
            link.begin_cycle(1);
            link.send(0, &Address::request(&frame(0x8002, &[0x33])), 1).unwrap();
            link.flush(1).unwrap();
            assert_eq!(all_received(&mut wire), "!\ncan send 8002 33 BF\n");
            assert_eq!((link.counters(0).sent, link.counters(0).expired), (1, 1));
        }
    }

    #[test]
    fn a_dead_wire_is_reported_once() {
        let (mut link, wire) = wired(Dialect::Adapter);
        drop(wire);
        assert!(matches!(link.receive(0), Err(LinkError::Down { .. })));
        assert_eq!(link.receive(1), Ok(None));
        assert!(matches!(link.send(0, &Address::request(&frame(1, &[1])), 2), Err(LinkError::Down { .. })));
        assert_eq!(link.counters(0).downs, 1);
    }

    #[test]
    fn what_no_adapter_sends_is_refused() {
        let (mut link, _wire) = wired(Dialect::Adapter);
        assert_eq!(link.send(0, &Address::request(&frame(1, &[])), 0), Err(LinkError::Unsupported));
        assert_eq!(link.send(1, &Address::request(&frame(1, &[1])), 0), Err(LinkError::Unsupported));
    }
}
