//! The disk, as the recorder needs it.

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, statvfs};
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;
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
    /// The error of the system.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// Why a file cannot be written on, inside an [`io::Error`]: another program removed or cut it. Another can be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Gone {
    /// It has no name any more.
    #[error("the file was removed meanwhile, and what was written is lost")]
    Removed,
    /// It is shorter than what was written.
    #[error("the file was cut to {len} of {written} bytes meanwhile")]
    Cut {
        /// Its bytes.
        len: u64,
        /// Those that were written.
        written: u64,
    },
}

impl Gone {
    /// If it is one.
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

/// A new file that is being written, and notices when it is removed or truncated: each write reports that before it writes.
pub struct Watched {
    file: File,
    /// The file system counts names.
    has_links: bool,
    written: u64,
}

impl Watched {
    /// A file to which nothing is written yet.
    ///
    /// # Errors
    /// The error of the system.
    pub fn new(file: File) -> io::Result<Self> {
        let has_links = file.metadata()?.nlink() > 0;
        Ok(Self { file, has_links, written: 0 })
    }

    /// Checks that the file still exists and is as long as what was written. A renamed file passes, and so does every pipe or device.
    ///
    /// # Errors
    /// An error with [`Gone`] in it, or the error of the system.
    pub fn check(&self) -> io::Result<()> {
        let about = self.file.metadata()?;
        if self.has_links && about.nlink() == 0 {
            return Err(io::Error::other(Gone::Removed));
        }
        if about.is_file() && about.len() < self.written {
            return Err(io::Error::other(Gone::Cut { len: about.len(), written: self.written }));
        }
        Ok(())
    }

    /// How many bytes were written.
    pub fn written(&self) -> u64 {
        self.written
    }
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        let written = self.file.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A file being written. [`Write::write`] reports, too, when it is [`Gone`].
pub trait Output: Write + Send {
    /// Forces what was written onto the disk.
    ///
    /// # Errors
    /// The error of the system.
    fn sync(&mut self) -> io::Result<()>;

    /// Called once after the last write. Returns the file's length.
    ///
    /// # Errors
    /// The error of the system, or that the file is [`Gone`].
    fn close(&mut self) -> io::Result<u64>;
}

/// The machine's file systems. Files are reserved ahead in large pieces, so that writing rarely waits for the file
/// system to find room; the reservation lies behind the file's end and is given back when it is closed. What is written
/// starts on its way to the disk at once, so that the disk works while the log is being put together.
///
/// A file that is removed or truncated meanwhile is an error of the next write or of the end, instead of a log with
/// a hole or without a name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files;

impl Disk for Files {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Output>> {
        if path.metadata().is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            return Err(io::Error::other("it is a device or a pipe, and a log needs a file"));
        }
        let file = File::options().write(true).create_new(true).open(path)?;
        Ok(Box::new(Reserved { out: Watched::new(file)?, reserved: 0, begun: 0 }))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let stat = statvfs(directory)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

struct Reserved {
    out: Watched,
    reserved: u64,
    /// Up to where it is on its way to the disk.
    begun: u64,
}

impl Write for Reserved {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.out.written + bytes.len() as u64 > self.reserved {
            // Some file systems cannot; then they find room as they go, as ever.
            let _ = fallocate(&self.out.file, FallocateFlags::KEEP_SIZE, self.reserved, AHEAD);
            self.reserved += AHEAD;
        }
        let written = self.out.write(bytes)?;
        let begun = self.out.written - self.begun;
        if begun >= BEGIN {
            // When it learns that pages are not needed any more, Linux begins to write those that are dirty, and does not
            // wait. Where it does not, nothing is lost.
            let _ = fadvise(&self.out.file, self.begun, NonZeroU64::new(begun), Advice::DontNeed);
            self.begun = self.out.written;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for Reserved {
    fn sync(&mut self) -> io::Result<()> {
        self.out.file.sync_data()
    }

    fn close(&mut self) -> io::Result<u64> {
        self.out.check()?;
        self.out.file.set_len(self.out.written)?;
        Ok(self.out.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of the end of a file to which `meanwhile` happens, with and without another write after it.
    fn ends(meanwhile: impl Fn(&Path)) -> [Result<u64, String>; 2] {
        [false, true].map(|writes| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("run.tlog");
            let mut output = Files.create(&path).unwrap();
            output.write_all(b"begin").unwrap();
            meanwhile(&path);
            let written = if writes { output.write_all(b"end") } else { Ok(()) };
            written.and_then(|()| output.close()).map_err(|error| error.to_string())
        })
    }

    #[test]
    fn a_file_removed_or_truncated_while_it_is_written_is_an_error() {
        for end in ends(|path| std::fs::remove_file(path).unwrap()) {
            assert!(end.unwrap_err().contains("removed"));
        }
        for end in ends(|path| _ = File::create(path).unwrap()) {
            assert_eq!(end.unwrap_err(), "the file was cut to 0 of 5 bytes meanwhile");
        }
        // One that only got another name is whole.
        assert_eq!(ends(|path| std::fs::rename(path, path.with_extension("old")).unwrap()), [Ok(5), Ok(8)]);
    }

    /// `--log /dev/full` once made the file `/dev/full-1`.
    #[test]
    fn a_device_is_no_place_for_a_log_and_a_file_that_is_there_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("run.tlog");
        std::fs::write(&there, "another file").unwrap();
        let kind = |path: &Path| Files.create(path).map(drop).unwrap_err().kind();
        assert_eq!(kind(Path::new("/dev/full")), io::ErrorKind::Other);
        // Another name is tried for it.
        assert_eq!(kind(&there), io::ErrorKind::AlreadyExists);
        assert_eq!(kind(folder.path()), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&there).unwrap(), "another file");
    }
}
