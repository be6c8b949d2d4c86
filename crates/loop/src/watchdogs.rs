//! Watchdogs outside the robot: the kernel's (`/dev/watchdog`) and systemd's, fed as long as the loop ticks.
//!
//! The servos' own watchdogs are fed by the loop's commands, these by a thread that looks whether the loop has ticked
//! since it looked last. When the loop hangs, or the process is frozen or gone, all of them starve alike.
//!
//! # Realtime contract
//! The tick only stores two numbers ([`Pulse`]); devices and sockets are the thread's affair.

mod pulse;
mod settings;

pub use pulse::Pulse;
pub use settings::WatchdogSettings;

use crate::run::{Observer, Tick};
use crate::supervisor::Phase;
use khz_rt::Watchdog;
use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the thread looks at least.
const LOOK: Duration = Duration::from_millis(100);

/// The loop's end of a [`Pulse`].
pub struct Pulsing(Arc<Pulse>);

impl Observer for Pulsing {
    fn tick(&mut self, tick: &Tick<'_>) {
        self.0.beat(tick.record.number + 1, tick.machine.phase());
    }
}

/// Why there is no watchdog.
#[derive(Debug, thiserror::Error)]
pub enum WatchdogError {
    /// The device cannot be used.
    #[error("[watchdog] device = \"{path}\": {error}")]
    Device {
        /// Its path.
        path: String,
        /// The kernel's error.
        error: io::Error,
    },
    /// systemd requests notifications, but cannot be notified.
    #[error("NOTIFY_SOCKET={path}: {error}; set `systemd = false` in [watchdog] to run without it")]
    Systemd {
        /// The socket.
        path: String,
        /// The kernel's error.
        error: io::Error,
    },
    /// No thread to feed them.
    #[error("cannot start the thread that feeds the watchdogs: {0}")]
    Thread(io::Error),
}

/// Open watchdogs, and the thread that feeds them.
///
/// Dropped when the run ended in order, or never began: stops the kernel's watchdog and notifies systemd.
pub struct Watchdogs {
    pulse: Arc<Pulse>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdogs {
    /// Opens what the robot file and systemd ask for and feeds it as long as [`Pulsing`] receives ticks; `None` if neither
    /// asks for anything. `period_ns` is the loop's.
    ///
    /// # Errors
    /// What cannot be opened.
    pub fn start(settings: &WatchdogSettings, period_ns: i64) -> Result<Option<Self>, WatchdogError> {
        let systemd = env::var_os("NOTIFY_SOCKET").filter(|path| settings.systemd && !path.is_empty());
        let systemd = systemd.map(|path| Systemd::at(&path)).transpose()?;
        let device = settings.device.as_ref().map(|path| {
            let opened = Watchdog::open(Path::new(path), settings.timeout_s);
            opened.map_err(|error| WatchdogError::Device { path: path.clone(), error })
        });
        let device = device.transpose()?;
        if device.is_none() && systemd.is_none() {
            return Ok(None);
        }
        let (pulse, over) = (Arc::<Pulse>::default(), Arc::<AtomicBool>::default());
        let (fed_by, ended) = (Arc::clone(&pulse), Arc::clone(&over));
        let keeper = Keeper { pulse: fed_by, device, systemd, over: ended, fed_at: 0, reported: None };
        // A tick must fall between two looks.
        let every = LOOK.max(Duration::from_nanos(period_ns.unsigned_abs().saturating_mul(2)));
        let thread = thread::Builder::new().name("khz-watchdogs".to_owned()).spawn(move || keeper.run(every));
        Ok(Some(Self { pulse, over, thread: Some(thread.map_err(WatchdogError::Thread)?) }))
    }

    /// The loop's end of it.
    pub fn pulsing(&self) -> Pulsing {
        Pulsing(Arc::clone(&self.pulse))
    }

    /// Goes on as long as the loop ticks, and stops no watchdog.
    pub fn leave(mut self) {
        self.thread = None;
    }
}

impl Drop for Watchdogs {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.over.store(true, Ordering::Release);
        thread.thread().unpark();
        // It does not panic; if it did, the watchdog would do its work.
        let _ = thread.join();
    }
}

/// The thread that feeds.
struct Keeper {
    pulse: Arc<Pulse>,
    device: Option<Watchdog>,
    systemd: Option<Systemd>,
    over: Arc<AtomicBool>,
    /// Ticks when it fed last.
    fed_at: u64,
    /// The phase last reported to systemd; `None`: it has not been notified yet that the robot runs.
    reported: Option<Phase>,
}

impl Keeper {
    fn run(mut self, every: Duration) {
        while !self.over.load(Ordering::Acquire) {
            thread::park_timeout(every);
            self.look();
        }
        self.call_off();
    }

    /// What cannot be stopped or reported now cannot be repaired here either: the run is over.
    fn call_off(&mut self) {
        self.device.iter_mut().for_each(|device| _ = device.disarm());
        self.systemd.iter().for_each(|systemd| _ = systemd.notify("STOPPING=1"));
    }

    fn look(&mut self) {
        let ticks = self.pulse.ticks();
        if ticks == self.fed_at {
            return;
        }
        self.fed_at = ticks;
        // A device that takes no food runs out, which is what it is for.
        self.device.iter_mut().for_each(|device| _ = device.feed());
        let Some(systemd) = &self.systemd else { return };
        let phase = self.pulse.phase();
        let ready = if self.reported.is_none() { "READY=1\n" } else { "" };
        if self.reported == Some(phase) {
            systemd.notify("WATCHDOG=1");
        } else if systemd.notify(&format!("{ready}WATCHDOG=1\nSTATUS={}", phase.name())) {
            self.reported = Some(phase);
        }
    }
}

/// The service manager's socket: one datagram per message (`sd_notify(3)`).
struct Systemd(UnixDatagram);

impl Systemd {
    fn at(path: &OsStr) -> Result<Self, WatchdogError> {
        let open = || {
            let socket = UnixDatagram::unbound()?;
            // A device that does not read must not keep the other watchdog from being fed.
            socket.set_nonblocking(true)?;
            match path.as_bytes() {
                [b'@', name @ ..] => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
                _ => socket.connect(path)?,
            }
            Ok(Self(socket))
        };
        open().map_err(|error| WatchdogError::Systemd { path: path.display().to_string(), error })
    }

    /// Whether it took the message.
    fn notify(&self, message: &str) -> bool {
        self.0.send(message.as_bytes()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_is_fed_only_while_the_loop_ticks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_nonblocking(true).unwrap();
        let received = || {
            let mut message = [0; 64];
            manager.recv(&mut message).map(|len| String::from_utf8_lossy(&message[..len]).into_owned()).ok()
        };
        let pulse = Arc::new(Pulse::default());
        let systemd = Systemd::at(path.as_os_str()).unwrap();
        let mut keeper = Keeper {
            pulse: Arc::clone(&pulse),
            device: None,
            systemd: Some(systemd),
            over: Arc::default(),
            fed_at: 0,
            reported: None,
        };
        keeper.look();
        assert_eq!(received(), None);
        pulse.beat(1, Phase::Init);
        keeper.look();
        assert_eq!(received().as_deref(), Some("READY=1\nWATCHDOG=1\nSTATUS=init"));
        keeper.look();
        assert_eq!(received(), None);
        pulse.beat(2, Phase::Init);
        keeper.look();
        assert_eq!(received().as_deref(), Some("WATCHDOG=1"));
        pulse.beat(3, Phase::Active);
        keeper.look();
        assert_eq!(received().as_deref(), Some("WATCHDOG=1\nSTATUS=active"));
        keeper.call_off();
        assert_eq!(received().as_deref(), Some("STOPPING=1"));
    }

    #[test]
    fn a_manager_that_does_not_read_delays_nothing_and_receives_the_phase_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let systemd = Systemd::at(path.as_os_str()).unwrap();
        while systemd.notify("full") {}
        let pulse = Arc::new(Pulse::default());
        let (device, over) = (None, Arc::default());
        let mut keeper = Keeper {
            pulse: Arc::clone(&pulse),
            device,
            systemd: Some(systemd),
            over,
            fed_at: 0,
            reported: None,
        };
        pulse.beat(1, Phase::Active);
        keeper.look();
        assert_eq!(keeper.reported, None);
        manager.set_nonblocking(true).unwrap();
        while manager.recv(&mut [0; 64]).is_ok() {}
        pulse.beat(2, Phase::Active);
        keeper.look();
        assert_eq!(keeper.reported, Some(Phase::Active));
    }
}
