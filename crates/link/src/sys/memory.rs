//! Device registers as memory.

use rustix::fs::{Mode, OFlags, open};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::path::Path;

/// A block of 32-bit registers, mapped.
pub(crate) struct Memory {
    start: *mut u32,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone and is no thread's in particular.
unsafe impl Send for Memory {}

impl Memory {
    /// Maps `len` bytes at `address` of a file, usually `/dev/mem`; the address must begin a page.
    ///
    /// # Errors
    /// The file is not there or not ours, or the kernel does not give this memory away.
    pub(crate) fn map(file: &Path, address: u64, len: usize) -> io::Result<Self> {
        let fd = open(file, OFlags::RDWR | OFlags::SYNC | OFlags::CLOEXEC, Mode::empty())?;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let start = unsafe { mmap(std::ptr::null_mut(), len, rights, MapFlags::SHARED, &fd, address) }?;
        Ok(Self { start: start.cast(), len })
    }

    /// # Panics
    /// If the offset lies outside or between two registers.
    pub(crate) fn read(&self, offset: usize) -> u32 {
        // SAFETY: `place` gives an aligned address within the mapping; volatile, as the device changes it.
        unsafe { self.place(offset).read_volatile() }
    }

    /// # Panics
    /// As [`Memory::read`].
    pub(crate) fn write(&mut self, offset: usize, value: u32) {
        // SAFETY: as in `read`.
        unsafe { self.place(offset).write_volatile(value) }
    }

    fn place(&self, offset: usize) -> *mut u32 {
        assert!(offset.is_multiple_of(4) && offset < self.len, "no register at {offset:#x}");
        self.start.wrapping_byte_add(offset)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` mapped, and no other code has the address.
        let _ = unsafe { munmap(self.start.cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stands_in_for_registers() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(8192).unwrap();
        let mut memory = Memory::map(file.path(), 4096, 4096).unwrap();
        memory.write(0x2c, 0x70);
        assert_eq!((memory.read(0x2c), memory.read(0x30)), (0x70, 0));
        drop(memory);
        let bytes = std::fs::read(file.path()).unwrap();
        assert_eq!(bytes[4096 + 0x2c..4096 + 0x30], 0x70_u32.to_ne_bytes());
    }
}
