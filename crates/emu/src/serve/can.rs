//! One bus on a CAN interface of the kernel: any program that opens the interface meets the servos.

use super::Port;
use khz_link::socketcan::{SocketCan, SocketcanLink};
use khz_link::{Link, OpenError, Role};
use khz_rt::clock::now_ns;
use khz_wire::{Address, Frame};
use rustix::event::PollFlags;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Mutex;

/// The servos' end of an interface.
pub(super) struct CanPort {
    interface: String,
    link: SocketCan,
    back: Option<Frame>,
}

impl CanPort {
    /// Opens the interface.
    pub(super) fn open(interface: &str) -> Result<Self, OpenError> {
        Ok(Self {
            interface: interface.into(),
            link: SocketCan::open_as(Role::Devices, &SocketcanLink::at(interface))?,
            back: None,
        })
    }

    /// Takes a socket that is already connected, and cannot be had again.
    pub(super) fn over(fd: OwnedFd) -> io::Result<Self> {
        let fd = Mutex::new(Some(fd));
        let once = move || fd.lock().ok().and_then(|mut fd| fd.take()).ok_or(io::ErrorKind::NotFound.into());
        Ok(Self { interface: String::new(), link: SocketCan::over(true, once)?, back: None })
    }
}

impl Port for CanPort {
    fn path(&self) -> PathBuf {
        self.interface.clone().into()
    }

    fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.link.fd().map(|fd| (fd, PollFlags::IN))
    }

    fn fill(&mut self) {}

    fn next_frame(&mut self) -> Option<Frame> {
        // The link recovers by itself from an interface that went down; until then nothing comes.
        self.back.take().or_else(|| Some(self.link.receive(now_ns()).ok()??.frame))
    }

    fn hand_back(&mut self, frame: Frame) {
        self.back = Some(frame);
    }

    fn report(&mut self, frame: &Frame) {
        // On an interface that is down or full, the reply is lost, as on a real bus.
        let _ = self.link.send(0, &Address::request(frame), now_ns());
    }

    fn flush(&mut self) {
        let _ = self.link.flush(now_ns());
    }
}
