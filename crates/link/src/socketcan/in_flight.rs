//! What the kernel and the controller still have of earlier cycles.
//!
//! A frame that was handed over cannot be taken back: it waits in the interface's queue and then in the controller until
//! another node acknowledges it. So that no more than one cycle's frames ever wait there, new ones are handed over only when
//! those of the cycles before have left. Two things show it: the kernel gives each of our frames back once the driver has
//! sent it (`CAN_RAW_RECV_OWN_MSGS`, where the driver supports it), and it knows how many bytes of the socket wait in
//! the interface's queue (`SO_MEMINFO`).

use crate::sys::can::RawFrame;
use std::collections::VecDeque;

/// A frame that was not given back after so long may have been lost by the driver: one frame is tried, ns.
const PROBE_NS: i64 = 50_000_000;

/// Frames that may be in flight; of more the oldest are forgotten.
const MOST: usize = 256;

/// Frames on their way.
pub(super) struct InFlight {
    /// The driver gives frames back; otherwise only the queue is known.
    confirms: bool,
    frames: VecDeque<RawFrame>,
    /// How many of these are of earlier cycles.
    old: usize,
    /// The interface's queue holds frames of earlier cycles.
    is_queued: bool,
    /// Since when nothing is handed over, or one frame was tried last.
    held_since_ns: Option<i64>,
}

/// How many frames may be handed over now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    All,
    /// To see whether the driver has lost count.
    One,
    None,
}

impl InFlight {
    pub(super) fn new(confirms: bool) -> Self {
        let frames = VecDeque::with_capacity(MOST);
        Self { confirms, frames, old: 0, is_queued: false, held_since_ns: None }
    }

    /// Whatever is on its way now is of an earlier cycle. `queued`: bytes in the interface's queue.
    pub(super) fn begin_cycle(&mut self, queued: usize) {
        self.old = self.frames.len();
        self.is_queued = queued > 0;
    }

    /// How many frames may be handed over; `queued` asks for the bytes in the interface's queue.
    pub(super) fn allowed(&mut self, now_ns: i64, queued: impl FnOnce() -> usize) -> Allowed {
        self.is_queued = self.is_queued && queued() > 0;
        if self.old == 0 && !self.is_queued {
            self.held_since_ns = None;
            return Allowed::All;
        }
        let since_ns = *self.held_since_ns.get_or_insert(now_ns);
        if self.is_queued || now_ns - since_ns < PROBE_NS {
            return Allowed::None;
        }
        self.held_since_ns = Some(now_ns);
        Allowed::One
    }

    /// These were handed over.
    pub(super) fn sent(&mut self, frames: &[RawFrame]) {
        if !self.confirms {
            return;
        }
        for frame in frames {
            if self.frames.len() == MOST {
                self.frames.pop_front();
                self.old = self.old.saturating_sub(1);
            }
            self.frames.push_back(*frame);
        }
    }

    /// The driver gave this frame back: it and those before it have left, or never will.
    pub(super) fn confirmed(&mut self, frame: &RawFrame) {
        if let Some(place) = self.frames.iter().rposition(|sent| sent == frame) {
            self.frames.drain(..=place);
            self.old = self.old.saturating_sub(place + 1);
        }
    }

    /// The kernel has dropped everything: the interface is down, or its controller started anew.
    pub(super) fn forget(&mut self) {
        self.frames.clear();
        (self.old, self.is_queued, self.held_since_ns) = (0, false, None);
    }

    /// Frames that were handed over and not given back.
    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_wire::Frame;

    fn frame(id: u32, byte: u8) -> RawFrame {
        RawFrame::new(&Frame::new(id, &[byte; 4]).unwrap())
    }

    #[test]
    fn nothing_is_handed_over_behind_frames_of_an_earlier_cycle() {
        let mut it = InFlight::new(true);
        it.begin_cycle(0);
        it.sent(&[frame(1, 0), frame(2, 0)]);
        // The same cycle may go on.
        assert_eq!(it.allowed(0, || 0), Allowed::All);
        it.begin_cycle(0);
        assert_eq!(it.allowed(1, || 0), Allowed::None);
        it.confirmed(&frame(1, 0));
        assert_eq!(it.allowed(1, || 0), Allowed::None);
        it.confirmed(&frame(2, 0));
        assert_eq!(it.allowed(1, || 0), Allowed::All);
    }

    #[test]
    fn an_interface_whose_driver_confirms_nothing_is_judged_by_its_queue() {
        let mut it = InFlight::new(false);
        it.sent(&[frame(1, 0)]);
        it.begin_cycle(72);
        assert_eq!(it.allowed(0, || 72), Allowed::None);
        assert_eq!(it.allowed(PROBE_NS, || 72), Allowed::None, "however long it takes");
        assert_eq!(it.allowed(PROBE_NS, || 0), Allowed::All);
        it.begin_cycle(0);
        assert_eq!(it.allowed(PROBE_NS, || unreachable!()), Allowed::All);
    }

    #[test]
    fn a_confirmation_the_driver_lost_does_not_stop_the_bus_for_good() {
        let mut it = InFlight::new(true);
        it.sent(&[frame(1, 0), frame(2, 0)]);
        it.begin_cycle(0);
        it.confirmed(&frame(1, 0));
        assert_eq!(it.allowed(0, || 0), Allowed::None);
        assert_eq!(it.allowed(PROBE_NS, || 0), Allowed::One);
        assert_eq!(it.allowed(PROBE_NS, || 0), Allowed::None, "one only");
        it.sent(&[frame(2, 0)]);
        // It looks the same as the one that was lost; both are settled by it.
        it.confirmed(&frame(2, 0));
        assert_eq!((it.allowed(PROBE_NS, || 0), it.len()), (Allowed::All, 0));
    }

    #[test]
    fn a_later_frame_that_is_confirmed_settles_those_before_it() {
        let mut it = InFlight::new(true);
        it.sent(&[frame(1, 0), frame(2, 0), frame(3, 0)]);
        it.begin_cycle(0);
        it.confirmed(&frame(3, 0));
        assert_eq!(it.allowed(0, || 0), Allowed::All);
    }
}
