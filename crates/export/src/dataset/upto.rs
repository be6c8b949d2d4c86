//! A log that may be written on while it is read.

use khz_tlog::Source;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A log up to where it ended when it was first looked at, although it may grow meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Upto<'a> {
    pub file: &'a File,
    pub bytes: u64,
}

impl Source for Upto<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = rest.min(buf.len());
        FileExt::read_at(self.file, &mut buf[..len], offset)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }
}
