//! The kernel's watchdog (`/dev/watchdog`): a timer, most often in hardware, that resets the machine unless it is fed.

use crate::sys;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// An open watchdog. It counts from the moment it is opened, and goes on when this is dropped: only
/// [`Watchdog::disarm`] stops it.
///
/// Facts: Linux, `Documentation/watchdog/watchdog-api.rst`.
#[derive(Debug)]
pub struct Watchdog {
    file: File,
}

impl Watchdog {
    /// Opens a watchdog and starts it. `timeout_s`: how long it waits for food; without one the driver decides.
    /// A pipe (FIFO) that has a reader will do for a trial, without a timeout.
    ///
    /// # Errors
    /// If it cannot be opened, is neither a device nor a pipe, or does not take the timeout.
    pub fn open(path: &Path, timeout_s: Option<u32>) -> io::Result<Self> {
        // A file that happens to have this name must not be written over.
        let kind = path.metadata()?.file_type();
        if !kind.is_char_device() && !kind.is_fifo() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "this is no watchdog, not even a device",
            ));
        }
        let file = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        let mut watchdog = Self { file };
        if let Some(seconds) = timeout_s
            && let Err(error) = sys::set_watchdog_timeout(watchdog.file.as_fd(), seconds)
        {
            watchdog.disarm()?;
            let what = format!("cannot set its timeout to {seconds} s: {error}");
            return Err(io::Error::new(error.kind(), what));
        }
        Ok(watchdog)
    }

    /// Feeds it. One system call, which the driver answers at once.
    ///
    /// # Errors
    /// The driver's error.
    pub fn feed(&mut self) -> io::Result<()> {
        self.file.write_all(b"\0")
    }

    /// Disarms it with the magic character that drivers accept for closing (a driver built with "nowayout" accepts none).
    ///
    /// # Errors
    /// The driver's error; the watchdog then goes on.
    pub fn disarm(&mut self) -> io::Result<()> {
        self.file.write_all(b"V")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::io::Read;

    #[test]
    fn feeds_and_says_good_bye() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watchdog");
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        // Read and write, so that opening does not wait for the other end.
        let mut reader = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut watchdog = Watchdog::open(&path, None).unwrap();
        watchdog.feed().unwrap();
        watchdog.feed().unwrap();
        watchdog.disarm().unwrap();
        let mut written = [0; 3];
        reader.read_exact(&mut written).unwrap();
        assert_eq!(&written, b"\0\0V");
    }

    #[test]
    fn a_watchdog_that_takes_no_timeout_is_stopped_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watchdog");
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let mut reader = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let error = Watchdog::open(&path, Some(5)).unwrap_err();
        assert!(error.to_string().contains("timeout to 5 s"), "{error}");
        let mut written = [0; 1];
        reader.read_exact(&mut written).unwrap();
        assert_eq!(&written, b"V");
    }

    #[test]
    fn an_ordinary_file_is_left_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "precious").unwrap();
        assert!(Watchdog::open(file.path(), None).is_err());
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "precious");
    }
}
