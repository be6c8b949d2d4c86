//! The PL011 UART, driven by its registers: the path of the article's part 3, for the Raspberry Pi's own UART.
//!
//! The kernel's driver hands bytes over when its interrupt, its FIFO's fill and its scheduler allow; this one looks
//! into the FIFO itself, as often as it is asked. The price is a CPU that asks all the time: the FIFO holds 16
//! bytes, 53 µs at 3 Mbaud, and what comes after is lost. A [`Pl011`] is a [`Line`], so that
//! [`crate::rs485::Rs485`] speaks over it as over any port.
//!
//! Facts from the ARM PrimeCell UART (PL011) Technical Reference Manual, ARM DDI 0183, chapter 3. Never run on
//! hardware: tested against the model in `khz_emu::pl011`.

mod mapped;

use crate::serial::Line;
use crate::{LinkError, OpenError};
pub use mapped::Mapped;

/// A block of 32-bit registers: memory, or a model of the device. Time is of no interest to memory.
pub trait Registers: Send {
    /// Reads the register at this byte offset. May change the device: reading data takes it out of the FIFO.
    fn read(&mut self, offset: usize, now_ns: i64) -> u32;

    /// Writes the register at this byte offset.
    fn write(&mut self, offset: usize, value: u32, now_ns: i64);
}

/// Byte offsets of the registers (chapter 3.2).
pub mod register {
    /// UARTDR: a byte to send; or one received, with its error bits.
    pub const DATA: usize = 0x00;
    /// UARTECR: any write clears the receive errors.
    pub const ERROR_CLEAR: usize = 0x04;
    /// UARTFR.
    pub const FLAGS: usize = 0x18;
    /// UARTIBRD: whole part of the baud divisor.
    pub const DIVISOR: usize = 0x24;
    /// UARTFBRD: its fraction in 64ths. Both take effect when [`LINE`] is written.
    pub const DIVISOR_64THS: usize = 0x28;
    /// `UARTLCR_H`.
    pub const LINE: usize = 0x2c;
    /// UARTCR.
    pub const CONTROL: usize = 0x30;
    /// UARTIMSC: interrupts let through.
    pub const INTERRUPT_MASK: usize = 0x38;
    /// UARTICR.
    pub const INTERRUPT_CLEAR: usize = 0x44;
    /// UARTDMACR.
    pub const DMA: usize = 0x48;
    /// Size of the block.
    pub const SPACE: usize = 0x1000;
}

/// Bits of [`register::FLAGS`].
pub mod flag {
    /// The receive FIFO is empty.
    pub const RECEIVE_EMPTY: u32 = 1 << 4;
    /// The transmit FIFO is full.
    pub const TRANSMIT_FULL: u32 = 1 << 5;
}

/// Bits 8 to 11 of [`register::DATA`]: framing, parity, break, overrun.
pub const DATA_ERRORS: u32 = 0xf00;
/// `UARTLCR_H`: 8 bits, FIFOs on; no parity, one stop bit.
pub const LINE_8N1_FIFO: u32 = 3 << 5 | 1 << 4;
/// UARTCR: UART, transmitter and receiver on.
pub const CONTROL_ON: u32 = 1 | 1 << 8 | 1 << 9;
/// All interrupts, in UARTICR.
const ALL_INTERRUPTS: u32 = 0x7ff;

/// How far the baud rate may be off what was asked for: a receiver that samples in the middle of the tenth bit
/// stands 5 %, shared by both ends.
const MOST_BAUD_ERROR: f64 = 0.02;

/// A PL011 at work.
pub struct Pl011<R> {
    registers: R,
    errors: u64,
}

impl<R: Registers> Pl011<R> {
    /// Sets the UART up: 8N1, FIFOs on, no interrupts, no DMA. `clock_hz` is its reference clock (UARTCLK).
    ///
    /// # Errors
    /// The clock cannot be divided to this baud rate; `target` names the device in the message.
    pub fn new(
        mut registers: R,
        target: &str,
        clock_hz: u32,
        baud: u32,
        now_ns: i64,
    ) -> Result<Self, OpenError> {
        let (whole, part) = divisor(clock_hz, baud).ok_or_else(|| {
            let problem = format!("a clock of {clock_hz} Hz cannot make {baud} baud");
            let advice = "choose a baud rate up to a sixteenth of the clock, or raise the clock \
                          (`init_uart_clock` in /boot/config.txt)";
            OpenError::new(target, &problem, advice)
        })?;
        let mut write = |offset, value| registers.write(offset, value, now_ns);
        write(register::CONTROL, 0);
        // Without FIFOs for a moment, so that what they held is gone.
        write(register::LINE, 0);
        write(register::INTERRUPT_MASK, 0);
        write(register::DMA, 0);
        write(register::DIVISOR, whole);
        write(register::DIVISOR_64THS, part);
        write(register::LINE, LINE_8N1_FIFO);
        write(register::INTERRUPT_CLEAR, ALL_INTERRUPTS);
        write(register::ERROR_CLEAR, 0);
        write(register::CONTROL, CONTROL_ON);
        Ok(Self { registers, errors: 0 })
    }

    fn has(&mut self, flag: u32, now_ns: i64) -> bool {
        self.registers.read(register::FLAGS, now_ns) & flag != 0
    }
}

/// Whole part and 64ths of the divisor: clock ÷ (16 × baud) (chapter 3.3.6), if one comes near enough.
fn divisor(clock_hz: u32, baud: u32) -> Option<(u32, u32)> {
    let baud = u64::from(baud).max(1);
    let in_64ths = (u64::from(clock_hz) * 4 + baud / 2) / baud;
    let exact = f64::from(clock_hz) * 4.0 / baud as f64;
    let is_near = (in_64ths as f64 / exact - 1.0).abs() <= MOST_BAUD_ERROR;
    let is_possible = (64..=65535 * 64).contains(&in_64ths);
    (is_near && is_possible).then_some(((in_64ths / 64) as u32, (in_64ths % 64) as u32))
}

impl<R: Registers> Line for Pl011<R> {
    fn read(&mut self, into: &mut [u8], now_ns: i64) -> Result<usize, LinkError> {
        let mut count = 0;
        for slot in into {
            if self.has(flag::RECEIVE_EMPTY, now_ns) {
                break;
            }
            let data = self.registers.read(register::DATA, now_ns);
            // A damaged byte keeps its place: the checksum of its frame shows the damage.
            self.errors += u64::from(data & DATA_ERRORS != 0);
            *slot = data as u8;
            count += 1;
        }
        Ok(count)
    }

    fn write(&mut self, bytes: &[u8], now_ns: i64) -> Result<usize, LinkError> {
        let mut count = 0;
        for byte in bytes {
            if self.has(flag::TRANSMIT_FULL, now_ns) {
                break;
            }
            self.registers.write(register::DATA, u32::from(*byte), now_ns);
            count += 1;
        }
        Ok(count)
    }

    fn is_polled(&self) -> bool {
        true
    }

    fn errors(&self) -> u64 {
        self.errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_are_the_manuals() {
        // The manual's own example: 4 MHz and 230400 baud give 1 and 5/64.
        assert_eq!(divisor(4_000_000, 230_400), Some((1, 5)));
        assert_eq!(divisor(48_000_000, 3_000_000), Some((1, 0)));
        assert_eq!(divisor(48_000_000, 115_200), Some((26, 3)));
        assert_eq!(divisor(3_000_000, 9600), Some((19, 34)));
    }

    #[test]
    fn what_the_clock_cannot_make_is_refused() {
        for (clock_hz, baud) in [(48_000_000, 4_000_000), (3_000_000, 3_000_000), (0, 9600), (48_000_000, 0)]
        {
            assert_eq!(divisor(clock_hz, baud), None, "{clock_hz} Hz, {baud} baud");
        }
        assert_eq!(divisor(u32::MAX, 300), None);
    }
}
