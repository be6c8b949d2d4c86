//! Where a log is read from.

use crate::error::Error;
use std::fs::File;
use std::io;

/// Bytes that can be read at any offset: a file, or memory.
pub trait Source {
    /// Reads into `buf` from `offset`; fewer bytes than asked for only when there are no more, or for no reason.
    ///
    /// # Errors
    /// Those of the system.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// How many bytes there are now.
    ///
    /// # Errors
    /// Those of the system.
    fn size(&self) -> io::Result<u64>;
}

impl Source for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, buf, offset)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl Source for [u8] {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|start| self.get(start..)).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

impl Source for Vec<u8> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.as_slice().read_at(buf, offset)
    }

    fn size(&self) -> io::Result<u64> {
        self.as_slice().size()
    }
}

impl<S: Source + ?Sized> Source for &S {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buf, offset)
    }

    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }
}

/// A part of a source held in memory: reading on from it costs one large read now and then.
pub(crate) struct Window<S> {
    source: S,
    size: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<S: Source> Window<S> {
    pub fn new(source: S) -> Result<Self, Error> {
        let size = source.size().map_err(|source| Error::Io { offset: 0, source })?;
        Ok(Self { source, size, start: 0, bytes: Vec::new() })
    }

    pub fn into_source(self) -> S {
        self.source
    }

    /// How long the source was when last asked.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Asks again how long the source is.
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.size = self.source.size().map_err(|source| Error::Io { offset: self.size, source })?;
        Ok(())
    }

    /// The `len` bytes at `offset`, fewer at the end; if they are not in memory, at least `ahead` are read.
    pub fn at(&mut self, offset: u64, len: usize, ahead: usize) -> Result<&[u8], Error> {
        let len = self.size.saturating_sub(offset).min(len as u64) as usize;
        if !self.holds(offset, len) {
            self.load(offset, len.max(ahead))?;
        }
        let from = (offset - self.start) as usize;
        Ok(&self.bytes[from..self.bytes.len().min(from + len)])
    }

    pub fn holds(&self, offset: u64, len: usize) -> bool {
        let end = self.start + self.bytes.len() as u64;
        offset >= self.start && offset + len as u64 <= end
    }

    fn load(&mut self, offset: u64, len: usize) -> Result<(), Error> {
        let len = self.size.saturating_sub(offset).min(len as u64) as usize;
        self.start = offset;
        self.bytes.resize(len, 0);
        let mut filled = 0;
        while filled < len {
            match self.source.read_at(&mut self.bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    self.bytes.clear();
                    return Err(Error::Io { offset, source });
                }
            }
        }
        self.bytes.truncate(filled);
        Ok(())
    }
}
