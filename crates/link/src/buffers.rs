//! Bytes on their way to and from a stream, in memory taken once.

use std::collections::VecDeque;

/// What may be added to a frame that is broken off.
const SPARE: usize = 256;

/// Frames to be written, as bytes.
pub(crate) struct Outbox {
    buffer: Box<[u8]>,
    begin: usize,
    end: usize,
    /// Where the frame at `begin` starts.
    start: usize,
    /// Where each frame ends that is not written whole.
    ends: VecDeque<usize>,
    /// The first of them was broken off and counts no more.
    is_broken: bool,
}

impl Outbox {
    /// Room for `size` bytes in `frames` frames.
    pub(crate) fn new(size: usize, frames: usize) -> Self {
        Self {
            buffer: vec![0; size + SPARE].into(),
            begin: 0,
            end: 0,
            start: 0,
            ends: VecDeque::with_capacity(frames + 1),
            is_broken: false,
        }
    }

    /// Where the next frame goes; nowhere if there are too many.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        let end = self.buffer.len() - SPARE;
        if self.ends.len() == self.ends.capacity() || self.end > end {
            return &mut [];
        }
        &mut self.buffer[self.end..end]
    }

    /// A frame of this length was put into the room.
    pub(crate) fn add(&mut self, len: usize) {
        self.end += len;
        self.ends.push_back(self.end);
    }

    pub(crate) fn pending(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    /// So many bytes were written; how many frames are whole by that.
    pub(crate) fn took(&mut self, len: usize) -> u64 {
        self.begin += len;
        let mut whole = 0;
        while let Some(end) = self.ends.front().copied().filter(|end| *end <= self.begin) {
            self.ends.pop_front();
            self.start = end;
            whole += u64::from(!std::mem::take(&mut self.is_broken));
        }
        if self.begin == self.end {
            self.clear();
        }
        whole
    }

    /// Drops all frames; how many. The rest of one that is partly written stays, changed by `break_off` so that no receiver
    /// takes it for whole: it gets the room from there on and the length of the rest, and returns the length of what it leaves.
    pub(crate) fn drop_frames(&mut self, break_off: impl FnOnce(&mut [u8], usize) -> usize) -> Dropped {
        let frames = self.ends.len() as u64;
        let was_broken = self.is_broken;
        let Some(end) = self.ends.front().copied().filter(|_| self.begin > self.start) else {
            self.clear();
            return Dropped { whole: frames, begun: false };
        };
        self.ends.truncate(1);
        if !was_broken {
            let len = break_off(&mut self.buffer[self.begin..], end - self.begin);
            self.end = self.begin + len;
            self.ends[0] = self.end;
            self.is_broken = true;
        } else {
            self.end = end;
        }
        Dropped { whole: frames - 1, begun: !was_broken }
    }

    pub(crate) fn clear(&mut self) {
        (self.begin, self.end, self.start, self.is_broken) = (0, 0, 0, false);
        self.ends.clear();
    }
}

/// What an [`Outbox`] dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// Frames of which nothing was written.
    pub(crate) whole: u64,
    /// One that was partly written, now broken off.
    pub(crate) begun: bool,
}

/// Bytes that were read and not yet parsed.
pub(crate) struct Inbox {
    buffer: Box<[u8]>,
    begin: usize,
    end: usize,
    /// When they were read.
    pub(crate) at_ns: i64,
}

impl Inbox {
    /// Room for `size` bytes.
    pub(crate) fn new(size: usize) -> Self {
        Self { buffer: vec![0; size].into(), begin: 0, end: 0, at_ns: 0 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    pub(crate) fn take(&mut self, len: usize) {
        self.begin += len;
    }

    /// All of the buffer; only when everything was taken.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    pub(crate) fn filled(&mut self, len: usize, now_ns: i64) {
        (self.begin, self.end, self.at_ns) = (0, len, now_ns);
    }

    pub(crate) fn clear(&mut self) {
        (self.begin, self.end) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(frames: &[&[u8]]) -> Outbox {
        let mut out = Outbox::new(64, 8);
        for frame in frames {
            out.room()[..frame.len()].copy_from_slice(frame);
            out.add(frame.len());
        }
        out
    }

    #[test]
    fn whole_frames_are_counted_as_they_are_written() {
        let mut out = with(&[b"abc", b"def"]);
        assert_eq!((out.took(2), out.took(1), out.took(2), out.took(1)), (0, 1, 0, 1));
        assert_eq!(out.pending(), b"");
    }

    #[test]
    fn frames_not_begun_are_dropped_and_one_begun_is_broken_off() {
        let cut = |rest: &mut [u8], len: usize| {
            assert_eq!((&rest[..len], rest.len() > 1), (&b"c"[..], true));
            rest[..2].copy_from_slice(b"!\n");
            2
        };
        let mut out = with(&[b"abc", b"def", b"ghi"]);
        assert_eq!(out.took(2), 0);
        assert_eq!(out.drop_frames(cut), Dropped { whole: 2, begun: true });
        assert_eq!(out.pending(), b"!\n");
        // It is not broken off twice, and what is added meanwhile goes again.
        out.room()[..1].copy_from_slice(b"x");
        out.add(1);
        assert_eq!(out.drop_frames(|_, _| unreachable!()), Dropped { whole: 1, begun: false });
        assert_eq!(out.pending(), b"!\n");
        assert_eq!(out.took(2), 0);
        assert_eq!(with(&[b"abc"]).drop_frames(|_, _| unreachable!()), Dropped { whole: 1, begun: false });
    }

    #[test]
    fn there_is_no_room_for_too_many_frames() {
        let mut out = Outbox::new(64, 1);
        for _ in 0..out.ends.capacity() {
            assert!(!out.room().is_empty());
            out.add(1);
        }
        assert!(out.room().is_empty());
    }
}
