//! A frame with what a link has to know of it, so that no link has to parse it.

use crate::frame::Frame;

/// A frame to send, where it goes, and what it brings.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What is sent.
    pub frame: &'a Frame,
    /// The device meant; all on the bus if `None`.
    pub to: Option<u8>,
    /// How many replies it brings; [`Request::UNKNOWN`] if unknown.
    pub replies: u16,
}

impl Request<'_> {
    /// The number of replies to a question to all whose number is unknown.
    pub const UNKNOWN: u16 = u16::MAX;

    /// The same, to be kept for later.
    pub const fn kept(&self) -> Kept {
        Kept { frame: *self.frame, to: self.to, replies: self.replies }
    }
}

/// A [`Request`] that waits for its time.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// What is sent.
    pub frame: Frame,
    /// The device meant, as in [`Request::to`].
    pub to: Option<u8>,
    /// How many replies it brings, as in [`Request::replies`].
    pub replies: u16,
}

impl Kept {
    /// The request, now that its time has come.
    pub const fn request(&self) -> Request<'_> {
        Request { frame: &self.frame, to: self.to, replies: self.replies }
    }
}
