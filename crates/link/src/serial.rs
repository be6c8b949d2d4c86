//! A serial port as links need it: raw, non-blocking, at any baud rate, opened again after it was unplugged.

use crate::claim::{claim_node, is_taken, taken_node};
use crate::identity::{self, Guard, Identity, LatencyTimer, SYS};
use crate::reopen::Reopener;
use crate::sys::tty;
use crate::{LinkError, OpenError};
use khz_settings::words;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::termios::{
    OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcsetattr,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How to name a serial adapter permanently.
const BY_ID: &str =
    "write its name in /dev/serial/by-id/ into the robot file, so that names cannot be swapped";

/// How long the last bytes may take to leave when the port is closed, ms.
const LEAVING_MS: u32 = 20;

/// A serial line: bytes out and bytes in, without waiting.
pub trait Line: Send {
    /// The line is lost and not yet back. Takes it up again if it is.
    fn is_down(&mut self) -> bool {
        false
    }

    /// Takes what has come into `into`; how much, 0 if nothing.
    ///
    /// # Errors
    /// [`LinkError::Down`] once per loss.
    fn read(&mut self, into: &mut [u8], now_ns: i64) -> Result<usize, LinkError>;

    /// Hands over as much of `bytes` as there is room for; how much.
    ///
    /// # Errors
    /// As [`Line::read`].
    fn write(&mut self, bytes: &[u8], now_ns: i64) -> Result<usize, LinkError>;

    /// Bytes written that the kernel has not handed over yet, as far as its driver knows.
    fn unsent(&mut self) -> usize {
        0
    }

    /// Has the kernel drop what it has not handed over; returns what that was. Not for the loop: may wait some milliseconds.
    fn discard(&mut self) -> Option<String> {
        None
    }

    /// A sentence if its adapter holds received bytes back, with the cure.
    fn holds_back(&self) -> Option<String> {
        None
    }

    /// Sets its baud rate; `None`: as it was opened. Not for the loop: may wait for bytes to leave.
    ///
    /// # Errors
    /// [`LinkError::Unsupported`] if it cannot be set, [`LinkError::Down`] if the line is lost.
    fn set_baud(&mut self, baud: Option<u32>) -> Result<(), LinkError> {
        let _ = baud;
        Err(LinkError::Unsupported)
    }

    /// A descriptor that becomes readable when something has come; `None` while the line is lost, and always
    /// for lines no kernel feeds.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Nothing reports when data has arrived: poll all the time.
    fn is_polled(&self) -> bool {
        false
    }

    /// Bytes so far that came with an error of the line (framing, parity, overrun).
    fn errors(&self) -> u64 {
        0
    }
}

/// How to set a serial port up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bits per second, 8N1. Pseudo terminals and USB adapters like the fdcanusb ignore it.
    pub baud: u32,
    /// Who switches a half-duplex line between sending and receiving.
    pub direction: Direction,
}

words! {
    /// Who turns the line around.
    Direction {
        /// The driver, if it can; otherwise the adapter.
        Auto = "auto",
        /// The kernel's driver, with `TIOCSRS485`.
        Kernel = "kernel",
        /// The adapter does it by itself.
        Adapter = "adapter",
    }
}

/// What the driver granted beyond the baud rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// `ASYNC_LOW_LATENCY` is on: bytes come at once, not after a latency timer of up to 16 ms.
    pub low_latency: bool,
    /// The driver switches the direction of the RS485 transceiver.
    pub rs485: bool,
}

/// A serial port of the kernel, open or being opened again.
pub struct Port {
    name: String,
    fd: Option<OwnedFd>,
    granted: Granted,
    /// Its baud rate as it was opened; `None`: it was set before it was opened.
    baud: Option<u32>,
    /// Vendor and product, if it is a USB device.
    usb: Option<(u16, u16)>,
    /// A sentence if its adapter holds received bytes back, with the cure.
    held: Option<String>,
    /// Why another device under the same name was not taken.
    refusal: Arc<OnceLock<String>>,
    reopener: Option<Reopener>,
}

impl Port {
    /// Opens and sets up the port at `path`, for this process alone.
    pub(crate) fn open(path: &Path, settings: Settings) -> Result<Self, OpenError> {
        Self::open_in(Path::new(SYS), path, settings, |_| Ok(()))
    }

    /// The same, and `greet` sends the device what it must receive first, also whenever the port is opened again. It may wait.
    pub(crate) fn open_and_greet(
        path: &Path,
        settings: Settings,
        greet: impl Fn(BorrowedFd<'_>) -> io::Result<()> + Send + 'static,
    ) -> Result<Self, OpenError> {
        Self::open_in(Path::new(SYS), path, settings, greet)
    }

    /// The same, with the kernel's description of devices somewhere else.
    fn open_in(
        sys: &Path,
        path: &Path,
        settings: Settings,
        greet: impl Fn(BorrowedFd<'_>) -> io::Result<()> + Send + 'static,
    ) -> Result<Self, OpenError> {
        let target = path.display().to_string();
        let (fd, granted) = open_port(path, settings).map_err(|error| explain(path, &error))?;
        greet(fd.as_fd())
            .map_err(|error| OpenError::new(&target, &error, "is it the adapter that the file names?"))?;
        let identity = Identity::of_tty(sys, fd.as_fd());
        let (usb, refusal) = (identity.usb, Arc::new(OnceLock::new()));
        let held = identity::latency_timer(sys, fd.as_fd()).map(|timer| held_back(&target, &timer));
        let guard = Guard::new(&target, identity, BY_ID, Arc::clone(&refusal));
        let (path, sys) = (path.to_owned(), sys.to_owned());
        let again = move || {
            let (fd, _) = open_port(&path, settings)?;
            guard.check(&Identity::of_tty(&sys, fd.as_fd()))?;
            greet(fd.as_fd()).map(|()| fd)
        };
        let reopener = Reopener::new(again).map_err(|error| OpenError::new(&target, &error, "try again"))?;
        let baud = Some(settings.baud);
        Ok(Self { name: target, fd: Some(fd), granted, baud, usb, held, refusal, reopener: Some(reopener) })
    }

    /// Takes a descriptor that is already set up and non-blocking; it is not opened again when it dies.
    pub(crate) fn from_fd(fd: OwnedFd) -> Self {
        let granted = Granted { low_latency: false, rs485: false };
        let (name, refusal) = ("the line".into(), Arc::default());
        Self { name, fd: Some(fd), granted, baud: None, usb: None, held: None, refusal, reopener: None }
    }

    pub(crate) fn granted(&self) -> Granted {
        self.granted
    }

    /// The USB vendor and product of the adapter; `None` if it is none.
    pub(crate) fn usb(&self) -> Option<(u16, u16)> {
        self.usb
    }

    fn lose(&mut self, error: Errno) -> LinkError {
        let dead = self.fd.take();
        match &mut self.reopener {
            Some(reopener) => reopener.lost(dead),
            None => drop(dead),
        }
        LinkError::down(error)
    }
}

impl Line for Port {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    fn is_down(&mut self) -> bool {
        if self.fd.is_none() {
            self.fd = self.reopener.as_mut().and_then(Reopener::poll);
        }
        self.fd.is_none()
    }

    /// One system call.
    fn read(&mut self, into: &mut [u8], _: i64) -> Result<usize, LinkError> {
        let Some(fd) = &self.fd else { return Err(LinkError::Down { errno: 0 }) };
        match rustix::io::read(fd, into) {
            // The other end hung up: nothing received is EAGAIN.
            Ok(0) => Err(self.lose(Errno::IO)),
            Ok(len) => Ok(len),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(self.lose(error)),
        }
    }

    /// One system call.
    fn unsent(&mut self) -> usize {
        self.fd.as_ref().map_or(0, |fd| tty::unsent(fd.as_fd()))
    }

    fn holds_back(&self) -> Option<String> {
        self.held.clone()
    }

    fn set_baud(&mut self, baud: Option<u32>) -> Result<(), LinkError> {
        let Some(fd) = &self.fd else { return Err(LinkError::Down { errno: 0 }) };
        let baud = baud.or(self.baud).ok_or(LinkError::Unsupported)?;
        let mut termios = tcgetattr(fd).map_err(LinkError::down)?;
        set_raw(&mut termios, baud).map_err(|_| LinkError::Unsupported)?;
        tcsetattr(fd, OptionalActions::Flush, &termios).map_err(|_| LinkError::Unsupported)
    }

    fn discard(&mut self) -> Option<String> {
        if let Some(refusal) = self.refusal.get().filter(|_| self.fd.is_none()) {
            return Some(refusal.clone());
        }
        // The last frames may just be on the line.
        let has_left = (0..LEAVING_MS).any(|_| {
            let has_left = self.unsent() == 0;
            if !has_left {
                std::thread::sleep(Duration::from_millis(1));
            }
            has_left
        });
        let unsent = self.unsent();
        let fd = self.fd.as_ref().filter(|_| !has_left && unsent > 0)?;
        let dropped = tcflush(fd, QueueSelector::OFlush).is_ok();
        let what = if dropped { "were discarded" } else { "may still be sent once it takes bytes again" };
        Some(format!("{}: {unsent} bytes of the last frames were not sent and {what}", self.name))
    }

    /// One system call.
    fn write(&mut self, bytes: &[u8], _: i64) -> Result<usize, LinkError> {
        let Some(fd) = &self.fd else { return Err(LinkError::Down { errno: 0 }) };
        match rustix::io::write(fd, bytes) {
            Ok(len) => Ok(len),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(self.lose(error)),
        }
    }
}

/// Opens a port for this process alone, and leaves it to the caller.
pub(crate) fn claim(path: &Path, settings: Settings) -> Result<OwnedFd, OpenError> {
    let opened = open_port(path, settings).map(|(fd, _)| fd);
    opened.map_err(|error| explain(path, &error))
}

fn open_port(path: &Path, settings: Settings) -> io::Result<(OwnedFd, Granted)> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = open(path, flags, Mode::empty())?;
    claim_node(&fd)?;
    let mut termios = tcgetattr(&fd)?;
    set_raw(&mut termios, settings.baud)?;
    tcsetattr(&fd, OptionalActions::Flush, &termios)?;
    let low_latency = tty::set_low_latency(fd.as_fd()).is_ok();
    let rs485 = settings.direction != Direction::Adapter && tty::set_rs485(fd.as_fd()).is_ok();
    if settings.direction == Direction::Kernel && !rs485 {
        let what = "the driver cannot switch the direction of the line (TIOCSRS485)";
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    Ok((fd, Granted { low_latency, rs485 }))
}

fn set_raw(termios: &mut Termios, baud: u32) -> io::Result<()> {
    termios.make_raw();
    // One byte makes a read succeed; with 0, an empty port could not be distinguished from an unplugged one.
    termios.special_codes[SpecialCodeIndex::VMIN] = 1;
    termios.special_codes[SpecialCodeIndex::VTIME] = 0;
    termios.set_speed(baud)?;
    Ok(())
}

fn held_back(name: &str, timer: &LatencyTimer) -> String {
    let LatencyTimer { port, ms } = timer;
    format!(
        "{name} holds received bytes back for up to {ms} ms (the latency timer of its adapter), so that replies come late: `echo 1 | sudo tee \
         /sys/bus/usb-serial/devices/{port}/latency_timer` sets it to 1 ms"
    )
}

fn explain(path: &Path, error: &io::Error) -> OpenError {
    let target = &path.display().to_string();
    if is_taken(error) {
        return taken_node(path);
    }
    if error.kind() == io::ErrorKind::Unsupported && error.raw_os_error().is_none() {
        let advice = "write `direction = \"adapter\"` if the adapter does it by itself";
        return OpenError::new(target, error, advice);
    }
    let advice = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT) => "is it plugged in? `ls -l /dev/serial/by-id/` lists what there is",
        Some(Errno::ACCESS) => "let your user in: `sudo usermod -aG dialout $USER`, then log in again",
        Some(Errno::BUSY) => "another program has it for itself: `fuser -v` shows which",
        Some(Errno::NOTTY) => "this is no serial port",
        Some(Errno::INVAL) => "the driver refuses this baud rate; choose another",
        _ => "see `dmesg | tail`",
    };
    OpenError::new(target, error, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::os::unix::fs::symlink;

    /// A pseudo terminal under a name of our choice; its master.
    fn plug_in(name: &Path) -> OwnedFd {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let slave = ptsname(&master, Vec::new()).unwrap();
        let _ = std::fs::remove_file(name);
        symlink(slave.to_str().unwrap(), name).unwrap();
        master
    }

    const SETTINGS: Settings = Settings { baud: 3_000_000, direction: Direction::Auto };

    #[test]
    fn bytes_pass_untouched_both_ways() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("tty");
        let master = plug_in(&name);
        let mut port = Port::open(&name, SETTINGS).unwrap();
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(port.write(&bytes, 0), Ok(256));
        let mut back = [0; 512];
        assert_eq!(rustix::io::read(&master, &mut back), Ok(256));
        assert_eq!(back[..256], bytes);
        assert_eq!(port.read(&mut back, 0), Ok(0));
        rustix::io::write(&master, &bytes).unwrap();
        assert_eq!(port.read(&mut back, 0), Ok(256));
        assert_eq!(back[..256], bytes);
        // A pseudo terminal grants neither.
        assert_eq!(port.granted(), Granted { low_latency: false, rs485: false });
    }

    #[test]
    fn comes_back_after_it_was_unplugged() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("tty");
        let master = plug_in(&name);
        let mut port = Port::open(&name, SETTINGS).unwrap();
        drop(master);
        assert!(matches!(port.read(&mut [0; 8], 0), Err(LinkError::Down { .. })));
        assert!(port.is_down());
        let master = plug_in(&name);
        // Ends when the reopener has found it, however long that takes.
        while port.is_down() {
            std::thread::yield_now();
        }
        assert_eq!(port.write(b"hello", 0), Ok(5));
        let mut back = [0; 8];
        assert_eq!(rustix::io::read(&master, &mut back), Ok(5));
    }

    /// What sysfs calls the device behind a terminal.
    fn number(name: &Path) -> String {
        let rdev = rustix::fs::stat(name).unwrap().st_rdev;
        format!("dev/char/{}:{}/device", rustix::fs::major(rdev), rustix::fs::minor(rdev))
    }

    #[test]
    fn another_adapter_that_got_the_name_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, name) = (folder.path().canonicalize().unwrap(), folder.path().join("ttyACM0"));
        let sys = folder.join("sys");
        let master = plug_in(&name);
        identity::tests::plug_in(&sys, "1-1", "A", &number(&name));
        let mut port = Port::open_in(&sys, &name, SETTINGS, |_| Ok(())).unwrap();
        assert_eq!(port.usb(), Some((0x1209, 0x2323)));
        // Of its neighbour the terminal stays, so that it cannot be given the number of the first.
        let other = plug_in(&name);
        identity::tests::plug_in(&sys, "1-2", "B", &number(&name));
        drop(master);
        assert!(matches!(port.read(&mut [0; 8], 0), Err(LinkError::Down { .. })));
        while port.refusal.get().is_none() {
            assert!(port.is_down(), "the other adapter was taken");
            std::thread::yield_now();
        }
        let message = port.discard().unwrap();
        assert!(message.contains("found USB device 1209:2323 with serial number B"), "{message}");
        assert!(message.contains("expected USB device 1209:2323 with serial number A"), "{message}");
        assert!(message.contains("/dev/serial/by-id/"), "{message}");
        // The first one comes back at another port.
        let again = plug_in(&name);
        identity::tests::plug_in(&sys, "1-3", "A", &number(&name));
        drop(other);
        std::fs::remove_dir_all(sys.join("bus/usb/devices/1-1").canonicalize().unwrap()).unwrap();
        while port.is_down() {
            std::thread::yield_now();
        }
        assert_eq!(port.write(b"hello", 0), Ok(5));
        assert_eq!(rustix::io::read(&again, &mut [0; 8]), Ok(5));
    }

    #[test]
    fn an_adapter_that_holds_bytes_back_is_known_by_its_timer() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, name) = (folder.path().canonicalize().unwrap(), folder.path().join("tty"));
        let sys = folder.join("sys");
        let _master = plug_in(&name);
        let (link, device) = (sys.join(number(&name)), sys.join("devices/ttyUSB3"));
        std::fs::create_dir_all(&device).unwrap();
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&device, &link).unwrap();
        let held = |ms: &str| {
            std::fs::write(device.join("latency_timer"), ms).unwrap();
            Port::open_in(&sys, &name, SETTINGS, |_| Ok(())).unwrap().holds_back()
        };
        let message = held("16\n").unwrap();
        assert!(
            message.contains("up to 16 ms") && message.contains("devices/ttyUSB3/latency_timer`"),
            "{message}"
        );
        assert_eq!(held("1\n"), None);
    }

    #[test]
    fn one_port_has_one_user() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("tty");
        let _master = plug_in(&name);
        let _first = Port::open(&name, SETTINGS).unwrap();
        let error = Port::open(&name, SETTINGS).map(|_| ()).unwrap_err();
        assert_eq!(error.problem, "in use by this program itself");
    }

    #[test]
    fn errors_state_what_to_do() {
        let error = Port::open(Path::new("/dev/no-such-port"), SETTINGS).map(|_| ()).unwrap_err();
        assert!(error.to_string().starts_with("/dev/no-such-port: "), "{error}");
        assert!(error.advice.contains("by-id"));
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Port::open(file.path(), SETTINGS).map(|_| ()).unwrap_err();
        assert_eq!(error.advice, "this is no serial port");
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("tty");
        let _master = plug_in(&name);
        let wanted = Settings { direction: Direction::Kernel, ..SETTINGS };
        let error = Port::open(&name, wanted).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("TIOCSRS485") && error.advice.contains("adapter"), "{error}");
        let by_itself = Settings { direction: Direction::Adapter, ..SETTINGS };
        assert!(Port::open(&name, by_itself).is_ok());
    }
}
