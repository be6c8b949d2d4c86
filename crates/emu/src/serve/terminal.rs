//! One bus as a pseudo terminal.

use super::Port;
use crate::config::WireKind;
use khz_wire::Frame;
use khz_wire::fdcanusb::MAX_LINE;
use khz_wire::fdcanusb::device::Uart;
use khz_wire::serial::{self, End};
use khz_wire::slcan::{self, Adapter, Answers};
use khz_wire::text::Lines;
use rustix::event::PollFlags;
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Text kept for a client that does not read; then it gets no more.
const OUTBOX: usize = 64 * 1024;
/// Frames taken from a client ahead of the bus.
const AHEAD: usize = 64;

/// A pseudo terminal.
pub(super) struct Terminal {
    master: OwnedFd,
    /// Held open so that the terminal outlives its clients.
    _slave: OwnedFd,
    path: PathBuf,
    speech: Speech,
    frames: VecDeque<Frame>,
    out: Vec<u8>,
}

impl Terminal {
    /// Opens a terminal in raw mode that speaks as a bus of this kind does.
    pub(super) fn open(wire: Option<WireKind>) -> io::Result<Self> {
        Self::speaking(Speech::of(wire))
    }

    /// Opens one that is an slcan adapter on a bus of this kind; where bits take no time, it is for 1 and 5 Mbit/s.
    ///
    /// # Errors
    /// If the bus is no CAN bus, or the system gives no terminal.
    pub(super) fn slcan(wire: Option<WireKind>, answers: Answers) -> io::Result<Self> {
        let adapter = match wire {
            Some(WireKind::CanFd { nominal_bps, data_bps }) => Adapter::new(nominal_bps, data_bps, answers),
            Some(WireKind::Instant) => Adapter::new(1_000_000, 5_000_000, answers),
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "slcan adapters are for CAN buses")),
        };
        Self::speaking(Speech::Slcan { adapter, lines: Lines::new() })
    }

    fn speaking(speech: Speech) -> io::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let path = PathBuf::from(OsStr::from_bytes(name.as_bytes()));
        let slave = open(&path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
        let mut settings = tcgetattr(&slave)?;
        settings.make_raw();
        tcsetattr(&slave, OptionalActions::Now, &settings)?;
        rustix::io::ioctl_fionbio(&master, true)?;
        Ok(Self {
            master,
            _slave: slave,
            path,
            speech,
            frames: VecDeque::with_capacity(AHEAD),
            out: Vec::with_capacity(OUTBOX),
        })
    }
}

impl Port for Terminal {
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let mut events = PollFlags::empty();
        if self.frames.len() < AHEAD {
            events |= PollFlags::IN;
        }
        if !self.out.is_empty() {
            events |= PollFlags::OUT;
        }
        Some((self.master.as_fd(), events))
    }

    fn fill(&mut self) {
        let mut bytes = [0; 4096];
        // An error means that there is nothing to read now; the next turn asks again.
        let Ok(count) = rustix::io::read(&self.master, &mut bytes) else { return };
        self.speech.receive(&bytes[..count], &mut self.frames, &mut self.out);
    }

    fn next_frame(&mut self) -> Option<Frame> {
        self.frames.pop_front()
    }

    fn hand_back(&mut self, frame: Frame) {
        self.frames.push_front(frame);
    }

    fn report(&mut self, frame: &Frame) {
        self.speech.report(frame, &mut self.out);
    }

    fn flush(&mut self) {
        while !self.out.is_empty() {
            match rustix::io::write(&self.master, &self.out) {
                Ok(count) if count > 0 => drop(self.out.drain(..count)),
                _ => return,
            }
        }
    }
}

/// How frames become bytes.
enum Speech {
    /// Lines of text.
    Text { uart: Uart, lines: Lines<{ Uart::MAX_INPUT }> },
    /// The lines of an slcan adapter.
    Slcan { adapter: Adapter, lines: Lines<{ 2 * slcan::MAX_LINE }> },
    /// The frames of RS485.
    Serial(Box<End>),
}

impl Speech {
    fn of(wire: Option<WireKind>) -> Self {
        match wire {
            Some(WireKind::Rs485 { packets, .. }) => Self::Serial(Box::new(End::of_servos(packets))),
            _ => Self::Text { uart: Uart::new(), lines: Lines::new() },
        }
    }

    /// Takes what the client wrote; text is answered line by line.
    fn receive(&mut self, mut input: &[u8], frames: &mut VecDeque<Frame>, out: &mut Vec<u8>) {
        match self {
            Self::Text { uart, lines } => {
                while let Some(line) = lines.next(&mut input) {
                    let mut answer = [0; MAX_LINE];
                    let len = match uart.parse(line) {
                        Ok(frame) => {
                            frames.push_back(frame);
                            uart.write_ok(&mut answer)
                        }
                        Err(refusal) => uart.write_refusal(refusal, &mut answer),
                    };
                    queue(out, &answer[..len.unwrap_or(0)]);
                }
            }
            Self::Slcan { adapter, lines } => {
                while let Some((line, _)) = lines.next_ended(&mut input, |byte| byte == b'\r') {
                    let (frame, answer) = adapter.receive(line);
                    frames.extend(frame);
                    queue(out, answer);
                }
            }
            Self::Serial(end) => {
                while let Some(frame) = end.next(&mut input) {
                    frames.push_back(frame);
                }
            }
        }
    }

    fn report(&mut self, frame: &Frame, out: &mut Vec<u8>) {
        const { assert!(MAX_LINE >= serial::MAX_FRAME) };
        let mut bytes = [0; MAX_LINE];
        let len = match self {
            Self::Text { uart, .. } => uart.write_received(frame, &mut bytes),
            Self::Slcan { adapter, .. } => adapter.write_received(frame, &mut bytes),
            Self::Serial(end) => end.write(frame, &mut bytes),
        };
        queue(out, &bytes[..len.unwrap_or(0)]);
    }
}

/// All of it or nothing.
fn queue(out: &mut Vec<u8>, bytes: &[u8]) {
    if out.len() + bytes.len() <= OUTBOX {
        out.extend_from_slice(bytes);
    }
}
