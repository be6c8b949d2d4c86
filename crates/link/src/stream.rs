//! Links over a byte stream: bytes out, bytes in, and what to do when the stream dies.

use crate::buffers::{Inbox, Outbox};
use crate::serial::Line;
use crate::{Counters, LinkError, Received};
use khz_wire::Frame;
use std::os::fd::BorrowedFd;

/// How frames become bytes, and bytes frames.
pub(crate) trait Speech {
    /// Writes a frame to `out`; its length, or `None` if there is no room now.
    fn write(&mut self, frame: &Frame, now_ns: i64, out: &mut [u8], counters: &mut Counters)
    -> Option<usize>;

    /// The next frame for the host; takes what is understood off the front of `input`, which was read at
    /// `read_ns`.
    fn next(&mut self, input: &mut &[u8], read_ns: i64, counters: &mut Counters) -> Option<Frame>;

    /// Gives up a frame that was begun, if its rest does not come any more after so long a silence; false if nothing was.
    /// [`Speech::next`] may find something behind it.
    fn give_up(&mut self, silent_ns: i64, counters: &mut Counters) -> bool {
        let _ = (silent_ns, counters);
        false
    }

    /// Makes the rest of a frame invalid whose beginning was written: `room` begins with that rest of `len` bytes. How much
    /// is left to be written.
    fn break_off(&self, room: &mut [u8], len: usize) -> usize;

    /// So many frames that [`Speech::write`] wrote were dropped unsent.
    fn dropped(&mut self, frames: u64) {
        let _ = frames;
    }

    /// Forgets what was under way: the stream has died.
    fn start_over(&mut self);
}

/// A line, what is spoken over it, and what waits to be written or understood: a link's one channel.
pub(crate) struct Stream<L, S> {
    pub(crate) line: L,
    pub(crate) speech: S,
    out: Outbox,
    input: Inbox,
    /// The kernel has not handed over all bytes of an earlier cycle: nothing may queue up behind them.
    is_held: bool,
    counters: Counters,
}

impl<L: Line, S: Speech> Stream<L, S> {
    /// With room for so many frames of `longest` bytes to be written at once, and `input` bytes to be read at once.
    pub(crate) fn new(line: L, speech: S, (frames, longest): (usize, usize), input: usize) -> Self {
        let (out, input) = (Outbox::new(frames * longest, frames), Inbox::new(input));
        Self { line, speech, out, input, is_held: false, counters: Counters::default() }
    }

    /// Drops what was not written. One system call, which asks the kernel how many bytes it still has.
    pub(crate) fn begin_cycle(&mut self) {
        let speech = &self.speech;
        let dropped = self.out.drop_frames(|room, len| speech.break_off(room, len));
        self.speech.dropped(dropped.whole);
        self.counters.expired += dropped.whole + u64::from(dropped.begun);
        self.is_held = self.line.unsent() > 0;
    }

    /// Drops what was not written, and what the kernel has not sent if its driver lets go of it.
    pub(crate) fn close(&mut self) -> Vec<String> {
        self.begin_cycle();
        self.line.discard().map_or_else(Vec::new, |message| vec![message])
    }

    /// Takes a frame for the next [`Stream::flush`]. No system call.
    pub(crate) fn send(&mut self, frame: &Frame, now_ns: i64) -> Result<(), LinkError> {
        if self.line.is_down() {
            return Err(LinkError::Down { errno: 0 });
        }
        let Some(len) = self.speech.write(frame, now_ns, self.out.room(), &mut self.counters) else {
            self.counters.full += 1;
            return Err(LinkError::Full);
        };
        self.out.add(len);
        Ok(())
    }

    /// One `write` of all there is. While the kernel has bytes of an earlier cycle, it is asked about them instead.
    pub(crate) fn flush(&mut self, now_ns: i64) -> Result<(), LinkError> {
        if self.out.pending().is_empty() || self.line.is_down() {
            return Ok(());
        }
        self.is_held = self.is_held && self.line.unsent() > 0;
        if self.is_held {
            return Err(LinkError::Full);
        }
        match self.line.write(self.out.pending(), now_ns) {
            Ok(len) => {
                self.counters.sent += self.out.took(len);
                Ok(())
            }
            Err(error) => Err(self.went_down(error)),
        }
    }

    /// The next frame: of what was read before, else after one `read`.
    pub(crate) fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        if self.line.is_down() {
            return Ok(None);
        }
        match self.flush(now_ns) {
            // What is held waits for the next call.
            Ok(()) | Err(LinkError::Full | LinkError::Unsupported) => {}
            Err(down @ LinkError::Down { .. }) => return Err(down),
        }
        if let Some(received) = self.parse() {
            return Ok(Some(received));
        }
        match self.line.read(self.input.room(), now_ns) {
            Ok(0) => Ok(self.give_up(now_ns)),
            Ok(len) => {
                self.input.filled(len, now_ns);
                Ok(self.parse())
            }
            Err(error) => Err(self.went_down(error)),
        }
    }

    /// As if the kernel had taken so many bytes.
    #[cfg(test)]
    pub(crate) fn took(&mut self, len: usize) {
        self.counters.sent += self.out.took(len);
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.line.fd()
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters { errors: self.counters.errors + self.line.errors(), ..self.counters }
    }

    fn parse(&mut self) -> Option<Received> {
        let at_ns = self.input.at_ns;
        let mut rest = self.input.bytes();
        let whole = rest.len();
        let frame = self.speech.next(&mut rest, at_ns, &mut self.counters);
        let used = whole - rest.len();
        self.input.take(used);
        self.counters.received += u64::from(frame.is_some());
        frame.map(|frame| Received { channel: 0, at_ns, frame })
    }

    fn give_up(&mut self, now_ns: i64) -> Option<Received> {
        while self.speech.give_up(now_ns - self.input.at_ns, &mut self.counters) {
            if let Some(received) = self.parse() {
                return Some(received);
            }
        }
        None
    }

    fn went_down(&mut self, error: LinkError) -> LinkError {
        self.out.clear();
        self.input.clear();
        self.speech.start_over();
        self.is_held = false;
        self.counters.downs += 1;
        error
    }
}
