//! CAN adapters that speak lines of text over a serial port: CANable and its clones, Lawicel's CAN232 and CANUSB.
//!
//! Adapters answer every line, some lines, or nothing, so answers are never waited for or counted on; a bell, which refuses
//! something, counts as an error. Some firmwares execute what an earlier line left in their buffer: an empty line, or one cut short,
//! sends an old frame again (normaldotcom/canable2-fw). So no line is ever empty or shortened: what was begun and must not be sent any
//! more is made longer than any adapter's buffer, and then dropped by it.

use crate::serial::{Direction, Line as _, Port, Settings};
use crate::stream::{Speech, Stream};
use crate::{Capabilities, Counters, Link, LinkError, OpenError, Received};
use khz_settings::section;
use khz_wire::slcan::{BELL, Line, MAX_LINE, data_command, is_end, nominal_command, parse, write};
use khz_wire::text::Lines;
use khz_wire::{Frame, Request};
use rustix::io::Errno;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// Frames the first CANable queues, the smallest of the known adapters.
const IN_FLIGHT: u16 = 28;

/// Frames written at once, at most: what CANable 2 queues.
const BURST: usize = 64;

/// Longer than the buffer of any known adapter (165 bytes), and no command of any: what it ends is dropped.
const FLUSH: [u8; 201] = {
    let mut line = [b'#'; 201];
    line[200] = b'\r';
    line
};

/// How long an adapter takes to answer, at most: 200 bytes at 9600 bit/s, and some more.
pub(crate) const ANSWER: Duration = Duration::from_millis(400);

/// How long an answer is waited for that not every adapter gives.
const REPLY_TIME: Duration = Duration::from_millis(60);

section! {
    /// A bus with `link = "slcan"`: a CANable, or another adapter that speaks lines of text.
    SlcanLink {
        /// The serial device; `/dev/serial/by-id/…` does not change between boots.
        path: String, "";
        /// Line speed, for adapters on a UART; USB adapters ignore it.
        baud: u32 = 115_200, "bit/s", 9600 => 12_000_000;
        /// Bit rate of the bus, of arbitration where it is CAN-FD: 10, 20, 50, 100, 125, 250, 500 or 1000 kbit/s.
        nominal_bit_rate: u32 = 1_000_000, "bit/s", 10_000 => 1_000_000;
        /// Bit rate of the data phase, for adapters that speak CAN-FD: 0.5, 1, 2, 4, 5 or 8 Mbit/s (CANable 2: 2 or 5). Without the
        /// key the bus carries classic CAN frames only.
        data_bit_rate: Option<u32> = None, "bit/s", 500_000 => 8_000_000;
    }
}

impl SlcanLink {
    /// The adapter at this path, with the defaults.
    pub fn at(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_string_lossy().into_owned(), ..Self::default() }
    }

    /// The commands that set the bit rates and open the channel.
    ///
    /// # Errors
    /// Which bit rate no adapter has, and which there are.
    pub fn greeting(&self) -> Result<Vec<u8>, (String, &'static str)> {
        let refused = |key, rate: u32, rates| (format!("no adapter has {rate} bit/s (`{key}`)"), rates);
        let rates = "write 10, 20, 50, 100, 125, 250, 500 or 1000 kbit/s, in bit/s";
        let nominal = nominal_command(self.nominal_bit_rate);
        let nominal = nominal.ok_or_else(|| refused("nominal_bit_rate", self.nominal_bit_rate, rates))?;
        let mut greeting = nominal.to_vec();
        if let Some(rate) = self.data_bit_rate {
            let rates = "write 0.5, 1, 2, 4, 5 or 8 Mbit/s, in bit/s";
            greeting.extend(data_command(rate).ok_or_else(|| refused("data_bit_rate", rate, rates))?);
        }
        greeting.extend(b"O\r");
        Ok(greeting)
    }
}

/// One slcan adapter: one link with one channel.
///
/// # Realtime contract
/// As [`Link`]. [`Link::begin_cycle`] makes one `ioctl`, [`Link::send`] no system call, [`Link::flush`] one `write`, [`Link::receive`] at most
/// one `read` (and a `write` while the kernel did not take all of a burst).
pub struct Slcan {
    stream: Stream<Port, Text>,
    /// As it was opened, and the bit rate that it has now.
    link: SlcanLink,
    bit_rate: u32,
}

impl Slcan {
    /// Opens the adapter, sets its bit rates and opens its channel; also when it comes back after it was unplugged. Waits for the
    /// adapter's answers, 0.8 s at most.
    ///
    /// # Errors
    /// The port is not there, in use, or not ours to open; the adapter refuses a bit rate.
    pub fn open(link: &SlcanLink) -> Result<Self, OpenError> {
        let greeting = link.greeting().map_err(|(what, rates)| OpenError::new(&link.path, &what, rates))?;
        let settings = Settings { baud: link.baud, direction: Direction::Adapter };
        let port = Port::open_and_greet(Path::new(&link.path), settings, move |fd| greet(fd, &greeting))?;
        Ok(Self::on(port, link.clone()))
    }

    /// Speaks over a descriptor that is already set up and non-blocking, to an adapter whose channel is open. When it dies, so does
    /// the link.
    pub fn from_fd(fd: OwnedFd, has_fd: bool) -> Self {
        let link = SlcanLink { data_bit_rate: has_fd.then_some(5_000_000), ..SlcanLink::default() };
        Self::on(Port::from_fd(fd), link)
    }

    fn on(port: Port, link: SlcanLink) -> Self {
        let text = Text { lines: Lines::new() };
        let bit_rate = link.nominal_bit_rate;
        Self { stream: Stream::new(port, text, (BURST, MAX_LINE), 8192), link, bit_rate }
    }

    fn line(&self) -> Result<BorrowedFd<'_>, LinkError> {
        self.stream.fd().ok_or(LinkError::down(Errno::NODEV))
    }
}

/// Brings the adapter into a known state: what another program left in its buffer is dropped, its channel is closed, its bit rates are
/// set, and the channel is opened.
fn greet(fd: BorrowedFd<'_>, greeting: &[u8]) -> io::Result<()> {
    // Not empty lines, as other programs send: a CANable repeats its last frame for each. Both may be refused.
    let refusal = ask(fd, &[&FLUSH[..], b"C\r"].concat())?;
    if lines(&refusal).any(|line| line.starts_with(b"ERR")) {
        let what = "it answers as an fdcanusb, not as slcan: write `link = \"fdcanusb\"`";
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    if ask(fd, greeting)?.contains(&BELL) {
        let what = "the adapter refuses the bit rates; not every one speaks CAN-FD (`data_bit_rate`)";
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    Ok(())
}

/// Writes commands, and the question for the version behind them: every known adapter answers that one, and in order. What came until
/// then, or until nothing more is to be expected.
fn ask(fd: BorrowedFd<'_>, commands: &[u8]) -> io::Result<Vec<u8>> {
    let commands = [commands, b"V\r"].concat();
    if rustix::io::write(fd, &commands)? < commands.len() {
        return Err(io::Error::new(io::ErrorKind::WouldBlock, "it takes no bytes"));
    }
    let has_version =
        |answers: &[u8]| answers.ends_with(b"\r") && answers.split(|byte| is_end(*byte)).any(is_version);
    Ok(read_until(fd, ANSWER, has_version)?)
}

/// What comes until it is all, or for so long.
pub(crate) fn read_until(
    fd: BorrowedFd<'_>,
    most: Duration,
    is_all: impl Fn(&[u8]) -> bool,
) -> Result<Vec<u8>, Errno> {
    let mut answers = Vec::new();
    let begun = Instant::now();
    // By the clock: what another program has left unread may be more than a thousand bytes for each millisecond.
    while begun.elapsed() < most {
        let mut bytes = [0; 1024];
        match rustix::io::read(fd, &mut bytes) {
            Ok(len) => answers.extend(&bytes[..len]),
            Err(Errno::AGAIN | Errno::INTR) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(error),
        }
        if is_all(&answers) {
            break;
        }
    }
    Ok(answers)
}

/// What the adapter answers to one command, within [`REPLY_TIME`]; many answer none.
fn reply_to(fd: BorrowedFd<'_>, command: &[u8]) -> Result<String, Errno> {
    rustix::io::write(fd, command)?;
    let answer = read_until(fd, REPLY_TIME, |_| false)?;
    // Frames may come meanwhile.
    let reply = lines(&answer).find(|line| line.len() > 1 && !matches!(parse(line), Ok(Line::Frame(_))));
    Ok(reply.map(|line| String::from_utf8_lossy(line).trim().to_owned()).unwrap_or_default())
}

/// The status flags of Lawicel's command `F`, by their bits.
const FLAGS: [(u8, &str); 7] = [
    (0, "receive queue full"),
    (1, "transmit queue full"),
    (2, "error warning"),
    (3, "data overrun"),
    (5, "error passive"),
    (6, "arbitration lost"),
    (7, "bus error"),
];

/// Flags that a wrong bit rate raises, and a bus without another device or without termination.
const OF_THE_BUS: u8 = 1 << 2 | 1 << 5 | 1 << 7;

/// The answer to `F` in words.
fn status(answer: &str) -> Option<String> {
    let flags = u8::from_str_radix(answer.strip_prefix('F')?, 16).ok()?;
    let raised = FLAGS.iter().filter(|(bit, _)| flags & 1 << bit != 0).map(|(_, name)| *name);
    Some(errors(raised, flags & OF_THE_BUS != 0))
}

/// What an adapter reports, in words. `of_the_bus`: some of it is raised by a wrong bit rate, and by a bus without another device.
pub(crate) fn errors<'a>(names: impl Iterator<Item = &'a str>, of_the_bus: bool) -> String {
    let names: Vec<_> = names.collect();
    let advice = if of_the_bus { "; check the bit rate, the termination and the wires" } else { "" };
    if names.is_empty() { "no errors".to_owned() } else { names.join(", ") + advice }
}

/// Whether what is at the other end answers as an adapter of this kind, whatever was written to it before. Waits for the answer, 0.4 s at most.
pub(crate) fn answers(fd: BorrowedFd<'_>) -> bool {
    let Ok(answers) = ask(fd, &FLUSH) else { return false };
    // A terminal without a reader may only echo what it was sent.
    let is_ours = |line: &[u8]| line.starts_with(b"#") || line == b"V" || line.starts_with(b"can send");
    let is_other = |line: &[u8]| [&b"OK"[..], b"ERR", b"rcv"].iter().any(|word| line.starts_with(word));
    let others: Vec<&[u8]> = lines(&answers).filter(|line| !is_ours(line)).collect();
    !others.iter().any(|line| is_other(line))
        && (answers.contains(&BELL) || others.into_iter().any(is_version))
}

fn lines(answers: &[u8]) -> impl Iterator<Item = &[u8]> {
    answers.split(|byte| is_end(*byte) || *byte == b'\n').filter(|line| !line.is_empty())
}

/// Adapters write what they like, for example the name of a commit, but no frame and no acknowledgement.
fn is_version(line: &[u8]) -> bool {
    line.len() > 1 && !matches!(parse(line), Ok(Line::Frame(_)))
}

impl Link for Slcan {
    fn capabilities(&self) -> Capabilities {
        Capabilities { kind: "slcan", channels: 1, half_duplex: false, in_flight: IN_FLIGHT, emulated: false }
    }

    fn holds_back(&self) -> Option<String> {
        self.stream.line.holds_back()
    }

    fn begin_cycle(&mut self, _: i64) {
        self.stream.begin_cycle();
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        if channel != 0 || request.frame.fd && self.link.data_bit_rate.is_none() {
            return Err(LinkError::Unsupported);
        }
        let mut frame = *request.frame;
        if frame.fd {
            // As the other links do: adapters know only the lengths of CAN-FD.
            frame.pad();
        } else if frame.payload().len() > 8 {
            return Err(LinkError::Unsupported);
        }
        self.stream.send(&frame, now_ns)
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

    fn set_bit_rate(&mut self, bits_per_second: Option<u32>) -> Result<(), LinkError> {
        let bit_rate = bits_per_second.unwrap_or(self.link.nominal_bit_rate);
        let link = SlcanLink { nominal_bit_rate: bit_rate, ..self.link.clone() };
        let greeting = link.greeting().map_err(|_| LinkError::Unsupported)?;
        let refused = |error: io::Error| {
            error.raw_os_error().map_or(LinkError::Unsupported, |errno| LinkError::Down { errno })
        };
        greet(self.line()?, &greeting).map_err(refused)?;
        self.bit_rate = bit_rate;
        Ok(())
    }

    /// Closes the adapter's channel, too.
    fn close(&mut self, now_ns: i64) -> Vec<String> {
        let lines = self.stream.close();
        // Behind a line that may have been begun.
        let goodbye = [&FLUSH[..], b"C\r"].concat();
        let _ = self.stream.line.write(&goodbye, now_ns);
        lines
    }

    fn counters(&self, _: u8) -> Counters {
        self.stream.counters()
    }

    fn about(&mut self) -> Result<Vec<String>, LinkError> {
        let fd = self.line()?;
        let data = self.link.data_bit_rate.map(|rate| format!(", data phase {rate} bit/s"));
        let opened = format!("slcan: opened at {} bit/s{}", self.bit_rate, data.unwrap_or_default());
        let asked = |command: &[u8]| reply_to(fd, command).map_err(LinkError::down);
        // What was begun is dropped, with what it leaves in the adapter's buffer.
        let _ = asked(&FLUSH)?;
        let firmware = asked(b"V\r")?;
        let (serial, flags, errors) = (asked(b"N\r")?, asked(b"F\r")?, asked(b"E\r")?);
        let serial = serial.strip_prefix('N').filter(|serial| !serial.is_empty()).map(str::to_owned);
        let errors =
            errors.rsplit_once("Register: ").map(|(_, register)| format!("error register {register}"));
        let firmware = if firmware.is_empty() { None } else { Some(firmware) };
        let line = |what: &str, value: Option<String>| {
            format!("slcan: {what} {}", value.as_deref().unwrap_or("not reported by this adapter"))
        };
        Ok(vec![
            opened,
            line("firmware", firmware),
            line("serial number", serial),
            line("status", status(&flags).or(errors)),
        ])
    }
}

/// The adapter's lines of text.
struct Text {
    lines: Lines<{ 2 * MAX_LINE }>,
}

impl Speech for Text {
    fn write(&mut self, frame: &Frame, _: i64, out: &mut [u8], _: &mut Counters) -> Option<usize> {
        write(frame, out)
    }

    fn next(&mut self, input: &mut &[u8], _: i64, counters: &mut Counters) -> Option<Frame> {
        loop {
            let dropped = self.lines.dropped();
            let (line, end) = self.lines.next_ended(input, is_end)?;
            let parsed = parse(line);
            counters.corrupt += self.lines.dropped() - dropped;
            match parsed {
                _ if end == BELL => counters.errors += 1,
                Ok(Line::Frame(frame)) => return Some(frame),
                Ok(Line::BusError) => counters.errors += 1,
                Ok(Line::Other) => {}
                Err(_) => counters.corrupt += 1,
            }
        }
    }

    /// Shortened it would be filled up with an older frame's bytes, so it is made too long instead.
    fn break_off(&self, room: &mut [u8], _: usize) -> usize {
        room[..FLUSH.len()].copy_from_slice(&FLUSH);
        FLUSH.len()
    }

    fn start_over(&mut self) {
        self.lines.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_wire::Address;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    /// A link and the other end of its wire.
    fn wired() -> (Slcan, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (Slcan::from_fd(ours.into(), true), theirs)
    }

    fn sent(wire: &mut UnixStream) -> String {
        let mut buffer = [0; 16384];
        let len = wire.read(&mut buffer).unwrap();
        String::from_utf8(buffer[..len].to_vec()).unwrap()
    }

    /// What came unread since another program had ended was given up after 1 kB for each millisecond; the rest, with what the adapter
    /// had refused of old, was taken for its answer to the bit rates.
    #[test]
    fn an_answer_is_found_behind_megabytes_that_were_not_read() {
        let (host, mut adapter) = UnixStream::pair().unwrap();
        host.set_nonblocking(true).unwrap();
        let writer = std::thread::spawn(move || {
            adapter.write_all(&b"t18180000000101030100\r".repeat(300_000)).unwrap();
            adapter.write_all(b"V1013\r").unwrap();
        });
        let answers = read_until(std::os::fd::AsFd::as_fd(&host), Duration::from_secs(5), |answers| {
            answers.ends_with(b"V1013\r")
        })
        .unwrap();
        assert!(answers.len() > 6_000_000, "{}", answers.len());
        drop(host);
        writer.join().unwrap();
    }

    #[test]
    fn a_burst_is_one_write() {
        let (mut link, mut wire) = wired();
        let enable = Frame::classic(1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc]).unwrap();
        let query = Frame::new(0x8001, &[0x11, 0, 0x1f]).unwrap();
        for frame in [&enable, &query] {
            link.send(0, &Address::request(frame), 0).unwrap();
        }
        link.flush(0).unwrap();
        assert_eq!(sent(&mut wire), "t0018FFFFFFFFFFFFFFFC\rB00008001311001F\r");
    }

    /// What is reported about an adapter that answers these commands so.
    fn about(answers: &'static [(&'static str, &'static str)]) -> Vec<String> {
        let (mut link, mut wire) = wired();
        let adapter = std::thread::spawn(move || {
            let mut line = String::new();
            let mut byte = [0];
            while wire.read(&mut byte).is_ok_and(|len| len == 1) {
                line.push(char::from(byte[0]));
                if byte[0] == b'\r' {
                    let answer = answers.iter().find(|(command, _)| *command == line.trim_end());
                    wire.write_all(answer.map_or("\x07", |(_, answer)| answer).as_bytes()).unwrap();
                    line.clear();
                }
            }
        });
        let about = link.about().unwrap();
        drop(link);
        adapter.join().unwrap();
        about
    }

    /// It was not asked at all.
    #[test]
    fn firmware_serial_number_and_errors_are_reported() {
        let lawicel = about(&[("V", "V1013\r"), ("N", "t0010\rNA123\r"), ("F", "F84\r")]);
        let wrong =
            "slcan: status error warning, bus error; check the bit rate, the termination and the wires";
        let opened = "slcan: opened at 1000000 bit/s, data phase 5000000 bit/s";
        assert_eq!(lawicel, [opened, "slcan: firmware V1013", "slcan: serial number A123", wrong]);
        let canable = about(&[("V", "CANable2 b158aa7 github.com\r"), ("E", "CANable Error Register: 1F")]);
        let expected = [
            "opened at 1000000 bit/s, data phase 5000000 bit/s",
            "firmware CANable2 b158aa7 github.com",
            "serial number not reported by this adapter",
            "status error register 1F",
        ];
        assert_eq!(canable, expected.map(|line| format!("slcan: {line}")));
        assert_eq!(status("F00").as_deref(), Some("no errors"));
    }

    #[test]
    fn an_adapter_without_can_fd_is_given_none() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut link = Slcan::from_fd(ours.into(), false);
        let query = Frame::new(0x8001, &[0x11, 0]).unwrap();
        assert_eq!(link.send(0, &Address::request(&query), 0), Err(LinkError::Unsupported));
    }

    #[test]
    fn frames_are_found_among_answers_and_damage() {
        let (mut link, mut wire) = wired();
        wire.write_all(b"\rz\rt0118117FFF7FF7FF1E1F\r\x07t0118117F\rZ\rt011").unwrap();
        let first = link.receive(5).unwrap().unwrap();
        assert_eq!((first.frame.id, first.frame.fd, first.at_ns), (0x11, false, 5));
        assert_eq!(link.receive(6), Ok(None));
        wire.write_all(b"8117FFF7FF7FF1E1F0010\r").unwrap();
        assert_eq!(link.receive(7).unwrap().unwrap().frame, first.frame);
        let counters = link.counters(0);
        assert_eq!((counters.received, counters.errors, counters.corrupt), (2, 1, 1));
    }

    #[test]
    fn a_line_that_was_begun_is_never_sent_shortened() {
        let line = "t0018FFFFFFFFFFFFFFFC\r";
        for written in 1..line.len() {
            let (mut link, mut wire) = wired();
            let enable = Frame::classic(1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc]).unwrap();
            link.send(0, &Address::request(&enable), 0).unwrap();
            // As if the kernel had taken so much.
            link.stream.took(written);
            link.begin_cycle(1);
            link.send(0, &Address::request(&Frame::classic(2, &[]).unwrap()), 1).unwrap();
            link.flush(1).unwrap();
            let rest = sent(&mut wire);
            let (broken, next) = rest.split_once('\r').unwrap();
            assert!(broken.len() >= 200 && broken.bytes().all(|byte| byte == b'#'), "{rest}");
            assert_eq!(next, "t0020\r");
        }
    }

    #[test]
    fn the_channel_is_closed_at_the_end() {
        let (mut link, mut wire) = wired();
        assert_eq!(link.close(0), Vec::<String>::new());
        assert!(sent(&mut wire).ends_with("#\rC\r"));
    }

    /// An adapter that answers each line by `answer`, on a thread.
    fn answering(answer: impl Fn(&[u8]) -> &'static [u8] + Send + 'static) -> OwnedFd {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        std::thread::spawn(move || {
            let (mut line, mut byte) = (Vec::new(), [0]);
            while theirs.read_exact(&mut byte).is_ok() {
                match byte[0] {
                    b'\r' => drop((theirs.write_all(answer(&line)), line.clear())),
                    byte => line.push(byte),
                }
            }
        });
        ours.into()
    }

    /// A port with the wrong `link` in the robot file was "transmit queue full".
    #[test]
    fn what_an_adapter_speaks_is_recognised() {
        use std::os::fd::AsFd;
        let version = |answer: &'static [u8]| move |line: &[u8]| if line == b"V" { answer } else { b"\x07" };
        let fdcanusb = answering(|_| b"ERR unknown command\r\n");
        assert!(greet(fdcanusb.as_fd(), b"S8\rO\r").unwrap_err().to_string().contains("as an fdcanusb"));
        assert!(!answers(fdcanusb.as_fd()) && !answers(answering(|_| b"").as_fd()));
        assert!(
            answers(answering(version(b"V1013\r")).as_fd())
                && answers(answering(version(b"b158aa7\r")).as_fd())
        );
    }

    #[test]
    fn another_bit_rate_is_set_and_the_one_of_the_file_again() {
        let (sender, received) = std::sync::mpsc::channel();
        let fd = answering(move |line| {
            let _ = sender.send(String::from_utf8_lossy(line).into_owned());
            if line == b"V" { b"V1013\r" } else { b"\r" }
        });
        let mut link = Slcan::from_fd(fd, false);
        let mut set = |rate| {
            let set = link.set_bit_rate(rate);
            let commands = received.try_iter().filter(|line| !line.starts_with('#') && line != "V");
            (set, commands.collect::<Vec<_>>().join(" "))
        };
        assert_eq!(set(Some(500_000)), (Ok(()), "C S6 O".to_owned()));
        assert_eq!(set(None), (Ok(()), "C S8 O".to_owned()));
        assert_eq!(set(Some(800_000)), (Err(LinkError::Unsupported), String::new()));
    }

    #[test]
    fn a_bit_rate_that_adapters_disagree_on_is_refused() {
        let link = SlcanLink { nominal_bit_rate: 800_000, ..SlcanLink::at("/dev/null") };
        assert!(link.greeting().unwrap_err().0.contains("800000 bit/s (`nominal_bit_rate`)"));
        let link = SlcanLink { data_bit_rate: Some(5_000_000), ..SlcanLink::at("/dev/null") };
        assert_eq!(link.greeting().unwrap(), b"S8\rY5\rO\r");
    }
}
