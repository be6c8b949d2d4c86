//! Serves a [`World`] to other processes in real time: each bus on a pseudo terminal.
//!
//! | bus | what its terminal speaks |
//! |---|---|
//! | CAN-FD, instant | the text of moteus's own serial port ([`khz_wire::fdcanusb`]): any fdcanusb client can open it, the official Python client does |
//! | RS485 | the line's own frames ([`khz_wire::rs485`]) |
//!
//! A terminal carries bytes at once; what they cost on the wire is added before the answer comes. One thread
//! owns the machine and all its terminals.

mod terminal;

use crate::world::World;
use khz_link::{Link, LinkError};
use khz_rt::clock::now_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use terminal::Terminal;

/// The emulated machine never falls further behind than this, ns.
const LONGEST_SLEEP_NS: i64 = 5_000_000;

/// A machine with its terminals.
pub struct Server {
    world: World,
    terminals: Vec<Terminal>,
}

impl Server {
    /// Opens one terminal per bus.
    ///
    /// # Errors
    /// If the system gives no pseudo terminal.
    pub fn new(world: World) -> io::Result<Self> {
        let buses = world.capabilities().channels;
        let terminals = (0..buses)
            .map(|bus| Terminal::open(world.bus(bus).map(|config| config.wire)))
            .collect::<io::Result<_>>()?;
        Ok(Self { world, terminals })
    }

    /// What to open for each bus, in order.
    pub fn endpoints(&self) -> impl Iterator<Item = &Path> {
        self.terminals.iter().map(Terminal::path)
    }

    /// The machine, to put faults into it.
    pub fn world(&mut self) -> &mut World {
        &mut self.world
    }

    /// Serves until `stop` is set (looked at every few milliseconds) or, if given, until `until_ns` on the
    /// monotonic clock.
    ///
    /// # Errors
    /// What the system reports on waiting; clients cannot cause one.
    pub fn run(&mut self, stop: &AtomicBool, until_ns: Option<i64>) -> io::Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let now_ns = now_ns();
            if until_ns.is_some_and(|until_ns| until_ns <= now_ns) {
                break;
            }
            self.turn(now_ns);
            self.wait(until_ns)?;
        }
        Ok(())
    }

    /// Passes everything on that can be passed on now.
    fn turn(&mut self, now_ns: i64) {
        for (channel, terminal) in self.terminals.iter_mut().enumerate() {
            while let Some(frame) = terminal.next_frame() {
                if self.world.send(channel as u8, &frame, now_ns) == Err(LinkError::Full) {
                    terminal.hand_back(frame);
                    break;
                }
            }
        }
        while let Ok(Some(received)) = self.world.receive(now_ns) {
            if let Some(terminal) = self.terminals.get_mut(usize::from(received.channel)) {
                terminal.report(&received.frame);
            }
        }
        self.terminals.iter_mut().for_each(Terminal::flush);
    }

    /// Waits until a client wrote, could read, or something happens in the machine.
    fn wait(&mut self, until_ns: Option<i64>) -> io::Result<()> {
        let now_ns = now_ns();
        let events = [self.world.next_event_ns(), until_ns];
        let next_ns = events.into_iter().flatten().min().unwrap_or(i64::MAX);
        let sleep_ns = next_ns.saturating_sub(now_ns).clamp(0, LONGEST_SLEEP_NS);
        let timeout = Timespec { tv_sec: 0, tv_nsec: sleep_ns };
        let mut fds: Vec<PollFd<'_>> = self.terminals.iter().map(Terminal::interest).collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let readable: Vec<bool> = fds.iter().map(|fd| fd.revents().intersects(PollFlags::IN)).collect();
        for (terminal, _) in self.terminals.iter_mut().zip(readable).filter(|(_, readable)| *readable) {
            terminal.fill();
        }
        Ok(())
    }
}
