//! An emulated PL011 UART at the head of an RS485 line of emulated servos.
//!
//! Registers, FIFOs and error bits as the ARM PrimeCell UART (PL011) Technical Reference Manual, ARM DDI 0183, has
//! them; every byte takes its time on the line. Not there: interrupts, DMA, modem lines, breaks, parity, and
//! what happens when both ends talk at once.

use crate::config::{BusConfig, WireKind};
use crate::family::ServoConfig;
use crate::machine::{ConfigError, WorldConfig};
use crate::world::World;
use khz_link::Link;
use khz_link::pl011::{CONTROL_ON, Registers, flag, register};
use khz_wire::rs485::{Decoder, MAX_FRAME, encode};
use khz_wire::serial::Packets;
use khz_wire::time::UartRate;
use std::collections::VecDeque;

/// Bytes each FIFO holds.
pub const FIFO: usize = 16;

const FIFO_ENABLED: u32 = 1 << 4;
const TRANSMIT_EMPTY: u32 = 1 << 7;
const RECEIVE_FULL: u32 = 1 << 6;
const BUSY: u32 = 1 << 3;
const FRAMING_ERROR: u16 = 1 << 8;
const OVERRUN: u32 = 1 << 11;

/// UARTPeriphID0 to 3 and UARTPCellID0 to 3, from offset 0xfe0 on.
const IDENTIFICATION: [u32; 8] = [0x11, 0x10, 0x14, 0x00, 0x0d, 0xf0, 0x05, 0xb1];

/// Two ends whose bit rates differ by more than this do not understand each other.
const MOST_BAUD_ERROR: f64 = 0.025;

/// The UART, the line and the servos.
pub struct Uart {
    world: World,
    clock_hz: u32,
    line: UartRate,
    is_cut: bool,
    is_held: bool,
    divisor: [u32; 2],
    /// The divisor that was there when the line register was last written, in 64ths.
    latched: u32,
    line_control: u32,
    control: u32,
    transmit: VecDeque<u8>,
    /// The byte on its way out, and when its stop bit ends.
    shift: Option<(u8, i64)>,
    sent: Decoder,
    /// Bytes of replies, and when their stop bits end.
    coming: VecDeque<(u8, i64)>,
    receive: VecDeque<u16>,
    overrun: bool,
}

impl Uart {
    /// A UART with a reference clock of `clock_hz` and servos that speak at `baud`. All servos are on bus 0.
    ///
    /// # Errors
    /// As [`World::new`].
    pub fn new(
        servos: Vec<ServoConfig>,
        turnaround_ns: i64,
        clock_hz: u32,
        baud: u32,
    ) -> Result<Self, ConfigError> {
        // The world's own wire takes next to no time: the bytes' times are kept here.
        let wire = WireKind::Rs485 { baud: u32::MAX, packets: Packets::Moteus };
        let bus = BusConfig { wire, turnaround_ns, ..BusConfig::RS485 };
        let room = servos.len().max(1) * MAX_FRAME;
        Ok(Self {
            world: World::new(&WorldConfig { buses: vec![bus], servos, ..WorldConfig::default() })?,
            clock_hz,
            line: UartRate::eight_n_one(baud),
            is_cut: false,
            is_held: false,
            divisor: [0; 2],
            latched: 0,
            line_control: 0,
            control: 0x300,
            transmit: VecDeque::with_capacity(FIFO),
            shift: None,
            sent: Decoder::new(),
            coming: VecDeque::with_capacity(room),
            receive: VecDeque::with_capacity(FIFO),
            overrun: false,
        })
    }

    /// The servos.
    pub fn world(&mut self) -> &mut World {
        &mut self.world
    }

    /// Cuts the line, or joins it again.
    pub fn cut(&mut self, is_cut: bool) {
        self.is_cut = is_cut;
    }

    /// Keeps bytes from leaving, or lets them go on, as the other end does by hardware flow control (CTS).
    pub fn hold(&mut self, is_held: bool, now_ns: i64) {
        self.advance(now_ns);
        self.is_held = is_held;
        self.start(now_ns);
    }

    fn depth(&self) -> usize {
        if self.line_control & FIFO_ENABLED != 0 { FIFO } else { 1 }
    }

    fn is_on(&self) -> bool {
        self.control & CONTROL_ON == CONTROL_ON
    }

    /// What a byte takes on our side of the line.
    fn byte_ns(&self) -> i64 {
        // Ten bits of 16 × divisor clocks each, the divisor in 64ths.
        10 * 16 * i64::from(self.latched.max(64)) * 1_000_000_000 / (64 * i64::from(self.clock_hz.max(1)))
    }

    /// Both ends agree on the length of a bit.
    fn is_in_step(&self) -> bool {
        let ours = f64::from(self.clock_hz) * 4.0 / f64::from(self.latched.max(1));
        (ours / f64::from(self.line.baud) - 1.0).abs() < MOST_BAUD_ERROR
    }

    /// Lets everything happen that is due by now.
    fn advance(&mut self, now_ns: i64) {
        while let Some((byte, end_ns)) = self.shift.filter(|(_, end_ns)| *end_ns <= now_ns) {
            self.shift = None;
            self.start(end_ns);
            self.leave(byte, end_ns);
        }
        self.collect(now_ns);
        while let Some((byte, _)) = self.coming.front().copied().filter(|(_, end_ns)| *end_ns <= now_ns) {
            self.coming.pop_front();
            self.arrive(byte);
        }
    }

    /// The next byte of the FIFO begins.
    fn start(&mut self, now_ns: i64) {
        if self.shift.is_none() && self.is_on() && !self.is_held {
            let end_ns = now_ns + self.byte_ns();
            self.shift = self.transmit.pop_front().map(|byte| (byte, end_ns));
        }
    }

    /// A byte has reached the servos.
    fn leave(&mut self, byte: u8, now_ns: i64) {
        if self.is_cut {
            return;
        }
        let byte = if self.is_in_step() { byte } else { !byte };
        if let Some(frame) = self.sent.next(&mut &[byte][..]) {
            self.collect(now_ns);
            // A queue that is full loses the frame, as a servo's would.
            let _ = self.world.send(0, &frame, now_ns);
        }
    }

    /// Puts the servos' replies on the line.
    fn collect(&mut self, now_ns: i64) {
        while let Ok(Some(reply)) = self.world.receive(now_ns) {
            let mut bytes = [0; MAX_FRAME];
            let len = encode(&reply.frame, &mut bytes).unwrap_or(0);
            for (index, byte) in bytes[..len].iter().enumerate() {
                if !self.is_cut && self.coming.len() < self.coming.capacity() {
                    self.coming.push_back((*byte, reply.at_ns + self.line.bytes_ns(index + 1)));
                }
            }
        }
    }

    /// A byte's stop bit was sampled.
    fn arrive(&mut self, byte: u8) {
        if !self.is_on() {
            return;
        }
        self.overrun = self.receive.len() >= self.depth();
        if !self.overrun {
            let data = u16::from(byte);
            self.receive.push_back(if self.is_in_step() { data } else { !data & 0xff | FRAMING_ERROR });
        }
    }

    fn flags(&self) -> u32 {
        let bit = |condition: bool, bit: u32| if condition { bit } else { 0 };
        bit(self.transmit.is_empty(), TRANSMIT_EMPTY)
            | bit(self.receive.len() >= self.depth(), RECEIVE_FULL)
            | bit(self.transmit.len() >= self.depth(), flag::TRANSMIT_FULL)
            | bit(self.receive.is_empty(), flag::RECEIVE_EMPTY)
            | bit(self.shift.is_some() || !self.transmit.is_empty(), BUSY)
    }
}

impl Registers for Uart {
    fn read(&mut self, offset: usize, now_ns: i64) -> u32 {
        self.advance(now_ns);
        match offset {
            register::DATA => {
                let overrun = if self.overrun { OVERRUN } else { 0 };
                self.receive.pop_front().map_or(0, u32::from) | overrun
            }
            register::FLAGS => self.flags(),
            register::DIVISOR => self.divisor[0],
            register::DIVISOR_64THS => self.divisor[1],
            register::LINE => self.line_control,
            register::CONTROL => self.control,
            0xfe0..=0xffc => IDENTIFICATION[(offset - 0xfe0) / 4],
            _ => 0,
        }
    }

    fn write(&mut self, offset: usize, value: u32, now_ns: i64) {
        self.advance(now_ns);
        match offset {
            register::DATA => {
                // What a full FIFO is given is lost.
                if self.transmit.len() < self.depth() {
                    self.transmit.push_back(value as u8);
                }
                self.start(now_ns);
            }
            register::ERROR_CLEAR => self.overrun = false,
            register::DIVISOR => self.divisor[0] = value & 0xffff,
            register::DIVISOR_64THS => self.divisor[1] = value & 0x3f,
            register::LINE => {
                if value & FIFO_ENABLED == 0 {
                    self.transmit.clear();
                    self.receive.clear();
                }
                self.line_control = value;
                self.latched = self.divisor[0] * 64 + self.divisor[1];
            }
            register::CONTROL => {
                self.control = value;
                self.start(now_ns);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_link::pl011::{LINE_8N1_FIFO, Pl011};
    use khz_link::rs485::Rs485;
    use khz_wire::{Address, Frame};

    const CLOCK_HZ: u32 = 48_000_000;
    const BAUD: u32 = 3_000_000;
    const BYTE_NS: i64 = 3_334;

    fn uart() -> Uart {
        Uart::new(vec![ServoConfig::new(0, 1)], 75_000, CLOCK_HZ, BAUD).unwrap()
    }

    /// Set up for 3 Mbaud by hand.
    fn set_up() -> Uart {
        let mut uart = uart();
        let values =
            [(register::DIVISOR, 1), (register::LINE, LINE_8N1_FIFO), (register::CONTROL, CONTROL_ON)];
        values.iter().for_each(|(offset, value)| uart.write(*offset, *value, 0));
        uart
    }

    fn query() -> Frame {
        Frame::new(Address::to(1, true).id(), &[0x11, 0, 0x1f, 1, 0x13, 0x0d]).unwrap()
    }

    /// Puts a query's bytes on the line.
    fn ask(uart: &mut Uart) {
        let mut bytes = [0; MAX_FRAME];
        let len = encode(&query(), &mut bytes).unwrap();
        bytes[..len].iter().for_each(|byte| uart.write(register::DATA, u32::from(*byte), 0));
    }

    #[test]
    fn seventeen_bytes_fill_the_transmitter_one_of_them_on_its_way() {
        let mut uart = set_up();
        let full = |uart: &mut Uart, now_ns| uart.read(register::FLAGS, now_ns) & flag::TRANSMIT_FULL != 0;
        for byte in 0..17 {
            assert!(!full(&mut uart, 0), "{byte}");
            uart.write(register::DATA, byte, 0);
        }
        assert!(full(&mut uart, 0));
        assert!(!full(&mut uart, BYTE_NS));
        assert_eq!(uart.read(register::FLAGS, 17 * BYTE_NS) & (BUSY | TRANSMIT_EMPTY), TRANSMIT_EMPTY);
    }

    #[test]
    fn the_seventeenth_byte_in_a_row_is_lost_and_reported() {
        let mut uart = set_up();
        ask(&mut uart);
        // The reply has 29 bytes, long in.
        let flags = uart.read(register::FLAGS, 1_000_000);
        assert_ne!(flags & RECEIVE_FULL, 0);
        let data: Vec<u32> = (0..17).map(|_| uart.read(register::DATA, 1_000_000)).collect();
        assert_eq!(data[..3].iter().map(|data| data & 0xff).collect::<Vec<_>>(), [0x54, 0xab, 0x01]);
        assert!(data.iter().all(|data| data & OVERRUN != 0));
        assert_eq!(data[16] & 0xff, 0);
    }

    #[test]
    fn a_reply_comes_byte_by_byte() {
        let mut uart = set_up();
        ask(&mut uart);
        let end_ns = 13 * BYTE_NS + 75_000;
        let empty = |uart: &mut Uart, now_ns| uart.read(register::FLAGS, now_ns) & flag::RECEIVE_EMPTY != 0;
        assert!(empty(&mut uart, end_ns));
        assert!(!empty(&mut uart, end_ns + BYTE_NS + 100));
        assert_eq!(uart.read(register::DATA, end_ns + BYTE_NS + 100), 0x54);
        assert!(empty(&mut uart, end_ns + BYTE_NS + 100));
    }

    #[test]
    fn a_divisor_counts_once_the_line_register_is_written() {
        let mut uart = set_up();
        uart.write(register::DIVISOR, 26, 0);
        ask(&mut uart);
        assert_eq!(uart.read(register::FLAGS, 1_000_000) & flag::RECEIVE_EMPTY, 0, "still 3 Mbaud");
        let mut uart = set_up();
        uart.write(register::DIVISOR, 26, 0);
        uart.write(register::LINE, LINE_8N1_FIFO, 0);
        ask(&mut uart);
        let flags = uart.read(register::FLAGS, 20_000_000);
        assert_ne!(flags & flag::RECEIVE_EMPTY, 0, "the servo understood nothing");
    }

    #[test]
    fn the_driver_sets_it_up_and_carries_a_query() {
        let line = Pl011::new(uart(), "model", CLOCK_HZ, BAUD, 0).map_err(|error| error.to_string()).unwrap();
        let mut link = Rs485::over(line);
        link.send(0, &Address::request(&query()), 0).unwrap();
        link.flush(0).unwrap();
        let came = (0..).map(|n| n * 10_000).find_map(|now_ns| link.receive(now_ns).unwrap()).unwrap();
        // 13 and 29 bytes, and the turnaround.
        assert!((214_000..234_000).contains(&came.at_ns), "{}", came.at_ns);
        assert_eq!(link.counters(0).errors, 0);
    }

    #[test]
    fn asked_too_seldom_the_driver_loses_the_reply_and_counts() {
        let line = Pl011::new(uart(), "model", CLOCK_HZ, BAUD, 0).map_err(|error| error.to_string()).unwrap();
        let mut link = Rs485::over(line);
        link.send(0, &Address::request(&query()), 0).unwrap();
        link.flush(0).unwrap();
        assert_eq!((1..50).find_map(|n| link.receive(n * 1_000_000).unwrap()), None);
        assert!(link.counters(0).errors > 0);
    }
}
