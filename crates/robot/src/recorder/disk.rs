//! The disk, as the recorder needs it.

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, statvfs};
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::Path;

/// How far ahead a file's room is reserved: large enough to be rare, small enough to be quick.
const AHEAD: u64 = 16 << 20;

/// After how much the kernel is asked to begin bringing it to the disk. By itself it lets gigabytes come together first,
/// and then the disk is busy for seconds.
const BEGIN: u64 = 4 << 20;

/// Where a recording's files are made. [`Files`] is the machine's own.
pub trait Disk: Send {
    /// Makes a file that is not there yet.
    ///
    /// # Errors
    /// `AlreadyExists`, so that the next name is tried; or whatever else is wrong.
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Output>>;

    /// Free bytes on the disk that `path` lies on.
    ///
    /// # Errors
    /// What the system says.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// A file being written.
pub trait Output: Write + Send {
    /// Forces what was written onto the disk.
    ///
    /// # Errors
    /// What the system says.
    fn sync(&mut self) -> io::Result<()>;

    /// Called once after the last write. Returns the file's length.
    ///
    /// # Errors
    /// What the system says.
    fn close(&mut self) -> io::Result<u64>;
}

/// The machine's file systems. Files are reserved ahead in large pieces, so that writing rarely waits for the file
/// system to find room; the reservation lies behind the file's end and is given back when it is closed. What is written
/// starts on its way to the disk at once, so that the disk works while the log is being put together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files;

impl Disk for Files {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Output>> {
        let file = File::options().write(true).create_new(true).open(path)?;
        Ok(Box::new(Reserved { file, written: 0, reserved: 0, begun: 0 }))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let stat = statvfs(directory)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

struct Reserved {
    file: File,
    written: u64,
    reserved: u64,
    /// Up to where it is on its way to the disk.
    begun: u64,
}

impl Write for Reserved {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.written + bytes.len() as u64 > self.reserved {
            // Some file systems cannot; then they find room as they go, as ever.
            let _ = fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.reserved, AHEAD);
            self.reserved += AHEAD;
        }
        let written = self.file.write(bytes)?;
        self.written += written as u64;
        if self.written - self.begun >= BEGIN {
            // To be told that pages are not needed any more, Linux begins to write those that are dirty, and does not
            // wait. Where it does not, nothing is lost.
            let _ =
                fadvise(&self.file, self.begun, NonZeroU64::new(self.written - self.begun), Advice::DontNeed);
            self.begun = self.written;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for Reserved {
    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn close(&mut self) -> io::Result<u64> {
        self.file.set_len(self.written)?;
        Ok(self.written)
    }
}
