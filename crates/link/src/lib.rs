//! Links move frames with timestamps between this computer and the devices on a bus.
//!
//! A [`Link`] is one adapter: a CAN interface, a serial port, a pi3hat with its five buses, a UDP socket, or
//! an emulated machine. An adapter has one or more *channels*; a channel is one bus. Nothing here knows what
//! a frame means, and nothing here waits: a link is asked with the present time and answers at once. The caller
//! decides whether to sleep, poll or spin, with [`Link::fd`] and [`Link::next_event_ns`] as hints.
//!
//! Times are nanoseconds of `CLOCK_MONOTONIC` (or of virtual time, for emulated links).
//!
//! | module | what it moves frames over |
//! |---|---|
//! | [`fdcanusb`] | the fdcanusb USB adapter, and moteus's own UART |
//! | [`pi3hat`] | the five buses and the IMU of a pi3hat |
//! | [`pl011`] | nothing by itself: a UART driven by its registers, which can carry [`rs485`] |
//! | [`rs485`] | a half-duplex serial line |
//! | [`slcan`] | CANable and other adapters that speak lines of text |
//! | [`socketcan`] | CAN interfaces of the kernel |
//! | [`udp`] | devices behind Ethernet |
//! | [`faults`] | any link, with scripted loss, delay, duplication, corruption, reordering, bus-off |
//! | [`trace`] | any link, with every frame copied aside for candump text or pcapng |
//! | [`replay`] | a recorded trace |

pub mod faults;
pub mod fdcanusb;
pub mod pi3hat;
pub mod pl011;
pub mod replay;
pub mod rs485;
pub mod serial;
pub mod slcan;
pub mod socketcan;
pub mod trace;
pub mod udp;

mod buffers;
mod claim;
mod forward;
mod identity;
mod reopen;
mod stamp;
mod stream;
mod sys;

pub use claim::Role;
pub use sys::stamps;

#[cfg(test)]
mod testing;

use khz_wire::Frame;
pub use khz_wire::Request;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// The device of which a frame received on a channel is a reply, `None` if it is none. The families of servos provide it
/// for the links that need it. Neither allocates nor blocks.
pub type Replier = Box<dyn Fn(u8, &Frame) -> Option<u8> + Send>;

/// One adapter with its buses.
///
/// # Realtime contract
/// After construction no method allocates, locks, prints or blocks; each makes at most the system calls its
/// page names. `now_ns` never decreases from call to call.
pub trait Link: Send {
    /// What the adapter can do; constant for its life.
    fn capabilities(&self) -> Capabilities;

    /// Only one query may be outstanding on this channel (no arbitration: RS485); constant for the link's life. Links
    /// whose channels differ, and wrappers around links, answer for each.
    fn half_duplex(&self, channel: u8) -> bool {
        let _ = channel;
        self.capabilities().half_duplex
    }

    /// A control cycle begins: what was taken in an earlier one and not handed to the wire yet is dropped and counted in
    /// [`Counters::expired`]. A command lives for one cycle, so that a bus that carries nothing for a while and then
    /// everything does not carry old commands. No system call, unless the link's page names one.
    ///
    /// The bus cycle calls it before its first [`Link::send`]. A link or wrapper that keeps frames beyond
    /// [`Link::flush`], and every wrapper around another link, must implement it.
    fn begin_cycle(&mut self, now_ns: i64) {
        let _ = now_ns;
    }

    /// Takes a frame for a channel: sends it, or keeps it until [`Link::flush`]. Where it goes and what it brings is in the
    /// request, not for the link to read from the frame.
    ///
    /// # Errors
    /// [`LinkError::Full`] if there is no room now (the frame is not taken; it may be offered again),
    /// [`LinkError::Down`] if the bus cannot carry frames at present.
    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError>;

    /// Hands everything taken by [`Link::send`] to the wire; call it after the last frame of a burst.
    ///
    /// # Errors
    /// As [`Link::send`].
    fn flush(&mut self, now_ns: i64) -> Result<(), LinkError> {
        let _ = now_ns;
        Ok(())
    }

    /// The next received frame, oldest first, or `None` if there is none by now.
    ///
    /// # Errors
    /// [`LinkError::Down`] once per loss; the link tries to recover by itself on later calls.
    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError>;

    /// When something may next be received, if the link knows (emulated links do): no earlier call of
    /// [`Link::receive`] will give anything, unless [`Link::fd`] is there and becomes readable. A time that has passed
    /// means at any moment: ask again.
    fn next_event_ns(&self) -> Option<i64> {
        None
    }

    /// A descriptor that becomes readable when something can be received, for links a kernel feeds.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The adapter's own IMU, if it has one.
    fn imu(&mut self) -> Option<&mut dyn Imu> {
        None
    }

    /// What the adapter reports about itself and its buses, in lines for people. Not for the loop: allocates, and may take some
    /// milliseconds.
    ///
    /// # Errors
    /// [`LinkError::Down`] if it cannot be asked.
    fn about(&mut self) -> Result<Vec<String>, LinkError> {
        Ok(Vec::new())
    }

    /// A sentence if the adapter speaks another protocol than this kind of link, with what to write instead; asked if nothing that came
    /// from it was understood. Not for the loop: it queries the adapter.
    fn misnamed(&mut self) -> Option<String> {
        None
    }

    /// A sentence if the adapter holds received frames back so long that they are too late, with the cure, where the system knows. Not for
    /// the loop: allocates.
    fn holds_back(&self) -> Option<String> {
        None
    }

    /// Sets the bit rate of its bus (of CAN-FD, of arbitration), to look for devices at another one; `None`: as it was opened. Not for
    /// the loop: waits for the adapter.
    ///
    /// # Errors
    /// [`LinkError::Unsupported`] if this link cannot, or has no such rate; [`LinkError::Down`] if it cannot be asked.
    fn set_bit_rate(&mut self, bits_per_second: Option<u32>) -> Result<(), LinkError> {
        let _ = bits_per_second;
        Err(LinkError::Unsupported)
    }

    /// The host has no more to send: drops what was not handed over, and returns in lines for people what was and may
    /// still reach the devices. Not for the loop: allocates, and may wait some milliseconds.
    fn close(&mut self, now_ns: i64) -> Vec<String> {
        self.begin_cycle(now_ns);
        Vec::new()
    }

    /// What happened so far on a channel.
    fn counters(&self, channel: u8) -> Counters;
}

impl<L: Link + ?Sized> Link for Box<L> {
    forward_link!(it => **it; capabilities, half_duplex, begin_cycle, send, flush, receive, next_event_ns, fd, imu, about,
        misnamed, holds_back, set_bit_rate, close, counters);
}

/// A frame and when it came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Received {
    /// The bus it came from.
    pub channel: u8,
    /// When its last bit arrived, as exactly as the link knows it (kernel timestamp where there is one).
    pub at_ns: i64,
    /// What came.
    pub frame: Frame,
}

/// What an adapter can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The kind of link, as the configuration names it.
    pub kind: &'static str,
    /// Number of buses; channels are `0..channels`.
    pub channels: u8,
    /// Only one query may be outstanding on some channel: see [`Link::half_duplex`].
    pub half_duplex: bool,
    /// Frames per channel that may be in flight before [`LinkError::Full`] is to be expected.
    pub in_flight: u16,
    /// Runs in virtual or emulated time, without hardware.
    pub emulated: bool,
}

/// Why a link could not do what was asked. Holds no text, so that it costs nothing in a tick; `Display` writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// No room at present: the queue of the adapter or kernel is full (`ENOBUFS`, `EAGAIN`).
    #[error(
        "transmit queue full: nothing takes the frames; check the adapter's power, the bus's termination, and that `link` names what \
         the adapter speaks"
    )]
    Full,
    /// The bus cannot carry frames: unplugged, interface down, bus off. Carries the OS error, 0 if none.
    #[error("link down{}: plug the adapter in, or bring the interface up", of_system(*errno))]
    Down {
        /// The operating system's error number.
        errno: i32,
    },
    /// The frame cannot be carried by this kind of link.
    #[error(
        "this link cannot carry the frame (CAN-FD on classic CAN, a remote frame, or too long); set adapter and `link` up for CAN-FD, or use shorter formats"
    )]
    Unsupported,
}

impl LinkError {
    /// A system call failed because the bus cannot carry frames.
    pub(crate) fn down(errno: Errno) -> Self {
        Self::Down { errno: errno.raw_os_error() }
    }
}

/// What the system calls an error; nothing for 0.
fn of_system(errno: i32) -> String {
    if errno == 0 { String::new() } else { format!(" ({})", std::io::Error::from_raw_os_error(errno)) }
}

/// Why a link could not be opened, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{target}: {problem}; {advice}")]
pub struct OpenError {
    /// The device, interface or address.
    pub target: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to do.
    pub advice: String,
}

impl OpenError {
    pub(crate) fn new(target: &str, problem: &dyn std::fmt::Display, advice: &str) -> Self {
        Self { target: target.into(), problem: problem.to_string(), advice: advice.into() }
    }
}

/// Counts since the link was opened. Nothing is ever lost without one of these growing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames handed to the wire.
    pub sent: u64,
    /// Frames received whole.
    pub received: u64,
    /// Frames refused because a queue was full.
    pub full: u64,
    /// Frames taken and dropped unsent, because the next cycle began before the wire took them.
    pub expired: u64,
    /// Received pieces that were no valid frame (checksum, syntax, length).
    pub corrupt: u64,
    /// Error frames, bus errors and OS errors.
    pub errors: u64,
    /// Times the bus went down.
    pub downs: u64,
    /// Replies to older requests, or to none, dropped (only links with sequence numbers recognize them: UDP).
    pub stale: u64,
    /// Received from an address that is not the device's, dropped (UDP).
    pub unexpected: u64,
}

/// An inertial measurement unit read once per tick.
pub trait Imu {
    /// Starts a reading. Links that can only read synchronously do the reading here.
    ///
    /// # Errors
    /// [`LinkError::Down`] if the IMU cannot be asked.
    fn request(&mut self, now_ns: i64) -> Result<(), LinkError>;

    /// The reading asked for, once it is there by now.
    ///
    /// # Errors
    /// [`LinkError::Down`] if the reading failed.
    fn poll(&mut self, now_ns: i64) -> Result<Option<ImuSample>, LinkError>;
}

/// The attitude an IMU reports, of length 1. All zeros, an IMU that is not ready, have no direction: NaN.
fn unit([w, x, y, z]: [f64; 4]) -> [f64; 4] {
    let norm = (w * w + x * x + y * y + z * z).sqrt();
    [w, x, y, z].map(|part| part / norm)
}

/// One reading of an IMU, in the body frame (x forward, y left, z up).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImuSample {
    /// When it was taken or received.
    pub at_ns: i64,
    /// Attitude as a unit quaternion w, x, y, z (body → world); NaN if the IMU reports none.
    pub attitude: [f64; 4],
    /// Angular rate, rad/s.
    pub rate: [f64; 3],
    /// Acceleration without gravity, m/s².
    pub acceleration: [f64; 3],
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error for a frame that the link does not carry once had no advice.
    #[test]
    fn every_error_says_what_to_do() {
        for error in [LinkError::Full, LinkError::Down { errno: 19 }, LinkError::Unsupported] {
            let message = error.to_string();
            let verbs = ["; check ", "; set ", ": plug "];
            assert!(verbs.iter().any(|verb| message.contains(verb)), "{message}");
        }
    }
}
