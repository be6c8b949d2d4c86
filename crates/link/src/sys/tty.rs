//! Serial driver settings beyond termios: low latency and RS485 direction control.

use super::check;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `ASYNC_LOW_LATENCY` of linux/tty_flags.h.
const ASYNC_LOW_LATENCY: libc::c_int = 1 << 13;

/// `struct serial_struct` of linux/serial.h.
#[repr(C)]
struct Serial {
    kind: libc::c_int,
    line: libc::c_int,
    port: libc::c_uint,
    irq: libc::c_int,
    flags: libc::c_int,
    xmit_fifo_size: libc::c_int,
    custom_divisor: libc::c_int,
    baud_base: libc::c_int,
    close_delay: libc::c_ushort,
    io_type: libc::c_char,
    reserved_char: libc::c_char,
    hub6: libc::c_int,
    closing_wait: libc::c_ushort,
    closing_wait2: libc::c_ushort,
    iomem_base: *mut libc::c_uchar,
    iomem_reg_shift: libc::c_ushort,
    port_high: libc::c_uint,
    iomap_base: libc::c_ulong,
}

/// `ASYNC_CLOSING_WAIT_NONE` of linux/serial.h: closing does not wait for unsent bytes.
const CLOSING_WAIT_NONE: libc::c_ushort = 65535;

/// Asks the driver to hand received bytes over at once, and not to linger when closed.
///
/// # Errors
/// The driver's refusal; `ENOTTY` from pseudo terminals and drivers that have no such setting.
pub(crate) fn set_low_latency(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: all fields are integers or a raw pointer that is never followed here; zero is valid for each.
    let mut serial: Serial = unsafe { std::mem::zeroed() };
    // SAFETY: the request wants a pointer to a `serial_struct`, which `serial` is, for the length of the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGSERIAL, &raw mut serial) })?;
    serial.flags |= ASYNC_LOW_LATENCY;
    serial.closing_wait = CLOSING_WAIT_NONE;
    // SAFETY: as above; the kernel only reads the structure.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCSSERIAL, &raw const serial) })
}

/// Bytes the driver has taken and not sent yet (`TIOCOUTQ`); 0 if it does not report them, as for pseudo terminals.
pub(crate) fn unsent(fd: BorrowedFd<'_>) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request wants a pointer to an `int`, which `bytes` is, for the length of the call.
    let asked = check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) });
    asked.map_or(0, |()| usize::try_from(bytes).unwrap_or(0))
}

/// `struct serial_rs485` of linux/serial.h.
#[repr(C)]
#[derive(Default)]
struct Rs485 {
    flags: u32,
    delay_before_send_ms: u32,
    delay_after_send_ms: u32,
    padding: [u32; 5],
}

/// `SER_RS485_ENABLED | SER_RS485_RTS_ON_SEND` of linux/serial.h.
const RS485_RTS_ON_SEND: u32 = 1 | 1 << 1;

/// Asks the driver to raise RTS while it sends, and not to receive its own bytes.
///
/// # Errors
/// The driver's refusal; `ENOTTY` from drivers that leave the direction to the hardware.
pub(crate) fn set_rs485(fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut settings = Rs485 { flags: RS485_RTS_ON_SEND, ..Rs485::default() };
    // SAFETY: the request wants a pointer to a `serial_rs485`, which `settings` is, for the length of the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCSRS485, &raw mut settings) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn structures_have_the_kernels_size() {
        assert_eq!(size_of::<Serial>(), 72);
        assert_eq!(size_of::<Rs485>(), 32);
    }
}
