//! Transfers over the kernel's SPI devices (linux/spi/spidev.h).

use super::check;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The data part of a transfer.
pub(crate) enum Data<'a> {
    Read(&'a mut [u8]),
    Write(&'a [u8]),
}

/// `struct spi_ioc_transfer`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Transfer {
    send: u64,
    receive: u64,
    len: u32,
    speed_hz: u32,
    delay_us: u16,
    bits_per_word: u8,
    release_select: u8,
    send_bits: u8,
    receive_bits: u8,
    word_delay_us: u8,
    padding: u8,
}

/// `_IOW('k', number, size)`.
const fn request(number: u32, size: usize) -> u32 {
    1 << 30 | (size as u32) << 16 | (b'k' as u32) << 8 | number
}

/// The hat wants this long between chip select, address and data, µs.
const HOLD_US: u16 = 3;

/// Clock low when idle, sampled on its first edge; 8 bits.
///
/// # Errors
/// The driver's refusal.
pub(crate) fn set_mode_0(fd: BorrowedFd<'_>) -> io::Result<()> {
    let mode = 0_u8;
    // SAFETY: `SPI_IOC_WR_MODE` reads one byte from the pointer, which `mode` is.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request(1, 1) as _, &raw const mode) })
}

/// Selects the device, sends the address, then moves the data.
///
/// # Errors
/// The driver's refusal.
pub(crate) fn transfer(fd: BorrowedFd<'_>, address: u8, data: Data<'_>, speed_hz: u32) -> io::Result<()> {
    let part = Transfer { speed_hz, bits_per_word: 8, ..Transfer::default() };
    let hold = Transfer { delay_us: HOLD_US, ..part };
    let data = match data {
        Data::Read(into) => Transfer { receive: into.as_mut_ptr() as u64, len: into.len() as u32, ..part },
        Data::Write(bytes) => Transfer { send: bytes.as_ptr() as u64, len: bytes.len() as u32, ..part },
    };
    let parts = [hold, Transfer { send: &raw const address as u64, len: 1, ..hold }, data];
    // SAFETY: the request carries the size of three transfers, which `parts` are; the buffers they name have
    // the lengths they give and outlive the call, and what is read into is borrowed mutably.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request(0, size_of_val(&parts)) as _, parts.as_ptr()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_kernels() {
        assert_eq!(size_of::<Transfer>(), 32);
        assert_eq!(request(1, 1), 0x4001_6b01);
        assert_eq!(request(0, 96), 0x4060_6b00);
    }
}
