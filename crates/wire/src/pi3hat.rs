//! The pi3hat's SPI registers: blobs of bytes, for the host and for an emulated hat.
//!
//! Three processors hang on the SPI buses; each access is one address byte and the register's bytes. Facts
//! from mjbots/pi3hat `fw/can_bridge.h`, `fw/imu.h`, `fw/device_info.h` and `docs/reference.md`. Numbers are
//! little endian, CAN identifiers big endian. Decoders give `None` for bytes that are too few or impossible.

use crate::frame::{Frame, MAX_PAYLOAD, PADDING, padded_len};

/// Register addresses.
pub mod register {
    #![allow(missing_docs)]
    pub const PROTOCOL_VERSION: u8 = 0;
    pub const INTERFACE_TYPE: u8 = 1;
    pub const RECEIVE_STATUS: u8 = 2;
    pub const RECEIVE_FRAME: u8 = 3;
    pub const SEND_LONG_ID: u8 = 4;
    pub const SEND_SHORT_ID: u8 = 5;
    pub const ERROR_STATUS: u8 = 6;
    /// Of port 0; port 1 follows.
    pub const READ_CAN_CONFIG: u8 = 7;
    /// Of port 0; port 1 follows.
    pub const WRITE_CAN_CONFIG: u8 = 9;
    pub const IMU_VERSION: u8 = 32;
    pub const RAW_IMU: u8 = 33;
    pub const ATTITUDE: u8 = 34;
    pub const READ_IMU_CONFIG: u8 = 35;
    pub const WRITE_IMU_CONFIG: u8 = 36;
    pub const RF_VERSION: u8 = 48;
    pub const READ_RF_ID: u8 = 49;
    pub const WRITE_RF_ID: u8 = 50;
    pub const WRITE_RF_SLOT: u8 = 51;
    pub const RF_STATUS: u8 = 52;
    /// Of slot 0; those of slots 1 to 14 follow.
    pub const READ_RF_SLOT: u8 = 64;
    pub const READY: u8 = 96;
    pub const DEVICE_INFO: u8 = 97;
    pub const PERFORMANCE: u8 = 100;
}

/// What register 32 reads.
pub const IMU_VERSION: u8 = 0x20;
/// What register 48 reads.
pub const RF_VERSION: u8 = 0x10;
/// What register 1 reads.
pub const INTERFACE_TYPE: u8 = 1;

/// The most bytes a frame takes in registers 3, 4 and 5.
pub const MAX_BLOB: usize = 5 + MAX_PAYLOAD;

/// Register 2, receive status: for each of the six oldest waiting frames the bytes to read from register 3,
/// 0 for none; then a check byte.
pub fn encode_receive_status(sizes: [u8; 6]) -> [u8; 7] {
    let [a, b, c, d, e, f] = sizes;
    [a, b, c, d, e, f, !sum(&sizes)]
}

/// Reads six sizes, and checks them if the seventh byte was read too.
pub fn decode_receive_status(bytes: &[u8]) -> Option<[u8; 6]> {
    let (sizes, check) = bytes.split_first_chunk::<6>()?;
    check.first().is_none_or(|&check| check == !sum(sizes)).then_some(*sizes)
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum: u8, &byte| sum.wrapping_add(byte))
}

/// Writes register 3, a received frame, as the hat does; its length, or `None` if `out` is too small.
pub fn encode_received(port: u8, frame: &Frame, out: &mut [u8]) -> Option<usize> {
    let payload = frame.payload();
    let out = out.get_mut(..5 + payload.len())?;
    out[0] = port << 7 | (payload.len() as u8 + 1);
    out[1..5].copy_from_slice(&frame.id.to_be_bytes());
    out[5..].copy_from_slice(payload);
    Some(out.len())
}

/// Reads register 3: the port (0 or 1) and the frame. `None` if no frame was waiting.
///
/// The hat does not report the frame's format, so it counts as CAN-FD with bit-rate switch, and as extended
/// if its identifier needs it.
pub fn decode_received(bytes: &[u8]) -> Option<(u8, Frame)> {
    let ([first, i0, i1, i2, i3], payload) = bytes.split_first_chunk::<5>()?;
    let size = usize::from((first & 0x7f).checked_sub(1)?);
    let frame = Frame::new(u32::from_be_bytes([*i0, *i1, *i2, *i3]), payload.get(..size)?)?;
    Some((first >> 7, frame))
}

/// Writes a frame to send, padded: the register to write (5, or 4 for an identifier of more than 16 bits) and
/// the length. `None` if `out` is too small; [`MAX_BLOB`] always is enough.
pub fn encode_send(port: u8, frame: &Frame, out: &mut [u8]) -> Option<(u8, usize)> {
    let payload = frame.payload();
    let size = padded_len(payload.len());
    let [high, low] = [frame.id >> 16, frame.id & 0xffff].map(|half| (half as u16).to_be_bytes());
    let (register, id_len) =
        if frame.id > 0xffff { (register::SEND_LONG_ID, 4) } else { (register::SEND_SHORT_ID, 2) };
    let out = out.get_mut(..1 + id_len + size)?;
    out[0] = port << 7 | size as u8;
    let (id, data) = out[1..].split_at_mut(id_len);
    id.copy_from_slice(&[high[0], high[1], low[0], low[1]][4 - id_len..]);
    data[..payload.len()].copy_from_slice(payload);
    data[payload.len()..].fill(PADDING);
    Some((register, 1 + id_len + size))
}

/// Reads what was written to register 4 or 5: port and frame, bytes beyond the announced size ignored. The
/// frame's format is the port's configuration's, except that identifiers from 2048 on are extended.
pub fn decode_send(register: u8, bytes: &[u8], config: &CanConfig) -> Option<(u8, Frame)> {
    let (&first, rest) = bytes.split_first()?;
    let (id, payload) = match register {
        register::SEND_SHORT_ID => {
            let (id, payload) = rest.split_first_chunk()?;
            (u32::from(u16::from_be_bytes(*id)), payload)
        }
        register::SEND_LONG_ID => {
            let (id, payload) = rest.split_first_chunk()?;
            (u32::from_be_bytes(*id), payload)
        }
        _ => return None,
    };
    let mut frame = Frame::new(id, payload.get(..usize::from(first & 0x7f))?)?;
    frame.fd = config.fd;
    frame.brs = config.fd && config.bit_rate_switch;
    Some((first >> 7, frame))
}

/// One bit timing; −1 in a field means "from the bit rate".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitTiming {
    /// Clock divider.
    pub prescaler: i8,
    /// Time quanta.
    pub sync_jump_width: i8,
    /// Time quanta.
    pub segment_1: i8,
    /// Time quanta.
    pub segment_2: i8,
}

impl BitTiming {
    /// Everything from the bit rate.
    pub const AUTOMATIC: Self = Self { prescaler: -1, sync_jump_width: -1, segment_1: -1, segment_2: -1 };

    fn bytes(self) -> [u8; 4] {
        [self.prescaler, self.sync_jump_width, self.segment_1, self.segment_2].map(|v| v as u8)
    }

    fn of(bytes: [u8; 4]) -> Self {
        let [prescaler, sync_jump_width, segment_1, segment_2] = bytes.map(|v| v as i8);
        Self { prescaler, sync_jump_width, segment_1, segment_2 }
    }
}

/// Registers 7–10, the configuration of a CAN port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanConfig {
    /// Nominal bit rate, bit/s.
    pub nominal: i32,
    /// Data bit rate, bit/s.
    pub data: i32,
    /// CAN-FD frames (else classic).
    pub fd: bool,
    /// Data phase at the data bit rate.
    pub bit_rate_switch: bool,
    /// Repeat unacknowledged frames.
    pub automatic_retransmission: bool,
    /// Listen and acknowledge only.
    pub restricted_mode: bool,
    /// Listen only.
    pub bus_monitor: bool,
    /// Overrides of the nominal bit timing.
    pub nominal_timing: BitTiming,
    /// Overrides of the data bit timing.
    pub data_timing: BitTiming,
    /// ms after which unacknowledged frames are dropped; from protocol version 4 on.
    pub cancel_all_ms: u32,
}

impl CanConfig {
    /// What the host library asks for on every port.
    pub const HOST_DEFAULT: Self = Self {
        nominal: 1_000_000,
        data: 5_000_000,
        fd: true,
        bit_rate_switch: true,
        automatic_retransmission: true,
        restricted_mode: false,
        bus_monitor: false,
        nominal_timing: BitTiming::AUTOMATIC,
        data_timing: BitTiming::AUTOMATIC,
        cancel_all_ms: 50,
    };

    /// What the fifth port (JC5) is set to until configured.
    pub const PORT_5_DEFAULT: Self =
        Self { nominal: 125_000, data: 125_000, fd: false, bit_rate_switch: false, ..Self::HOST_DEFAULT };

    /// Bytes of the register in a protocol version: none before 3, then 21, from 4 on 25.
    pub const fn len(version: u8) -> usize {
        match version {
            0..=2 => 0,
            3 => 21,
            _ => 25,
        }
    }

    /// All 25 bytes; [`CanConfig::len`] gives how many of them the version has.
    pub fn encode(&self) -> [u8; 25] {
        let flags = [
            self.fd,
            self.bit_rate_switch,
            self.automatic_retransmission,
            self.restricted_mode,
            self.bus_monitor,
        ];
        let mut out = [0; 25];
        out[0..4].copy_from_slice(&self.nominal.to_le_bytes());
        out[4..8].copy_from_slice(&self.data.to_le_bytes());
        out[8..13].copy_from_slice(&flags.map(u8::from));
        out[13..17].copy_from_slice(&self.nominal_timing.bytes());
        out[17..21].copy_from_slice(&self.data_timing.bytes());
        out[21..25].copy_from_slice(&self.cancel_all_ms.to_le_bytes());
        out
    }

    /// Reads the 21 or 25 bytes a version has; of 21 the cancel time is the default.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let (nominal, data) = (fields.i32()?, fields.i32()?);
        let [fd, bit_rate_switch, automatic_retransmission, restricted_mode, bus_monitor] =
            fields.take::<5>()?.map(|flag| flag != 0);
        let nominal_timing = BitTiming::of(fields.take()?);
        let data_timing = BitTiming::of(fields.take()?);
        let cancel_all_ms =
            if fields.0.is_empty() { Self::HOST_DEFAULT.cancel_all_ms } else { fields.u32()? };
        Some(Self {
            nominal,
            data,
            fd,
            bit_rate_switch,
            automatic_retransmission,
            restricted_mode,
            bus_monitor,
            nominal_timing,
            data_timing,
            cancel_all_ms,
        })
    }
}

/// Half of register 6: what went wrong on a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorStatus {
    /// Activity, bits 7–6; last data-phase error, bits 5–3; last error, bits 2–0.
    pub codes: u8,
    /// Bit 3 protocol exception, bit 2 bus off, bit 1 warning, bit 0 error passive.
    pub flags: u8,
    /// Receive error counter.
    pub receive_errors: u8,
    /// Transmit error counter.
    pub transmit_errors: u8,
    /// Recoveries from bus off; wraps.
    pub bus_offs: u8,
}

impl ErrorStatus {
    /// Register 6, both ports.
    pub fn encode(ports: [Self; 2]) -> [u8; 12] {
        let mut out = [0; 12];
        for (out, port) in out.as_chunks_mut::<6>().0.iter_mut().zip(ports) {
            *out = [port.codes, port.flags, port.receive_errors, port.transmit_errors, port.bus_offs, 0];
        }
        out
    }

    /// Reads register 6.
    pub fn decode(bytes: &[u8]) -> Option<[Self; 2]> {
        let (ports, _) = bytes.first_chunk::<12>()?.as_chunks::<6>();
        let port = |&[codes, flags, receive_errors, transmit_errors, bus_offs, _]: &[u8; 6]| Self {
            codes,
            flags,
            receive_errors,
            transmit_errors,
            bus_offs,
        };
        Some([port(ports.first()?), port(ports.get(1)?)])
    }
}

/// Register 34, the attitude. Axes: x forward, y right, z down.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Attitude {
    /// What the filter took, in 10 µs.
    pub computation_10us: u8,
    /// Quaternion w, x, y, z as the filter has it: not normalised.
    pub attitude: [f32; 4],
    /// °/s.
    pub rate_dps: [f32; 3],
    /// m/s², without gravity.
    pub acceleration: [f32; 3],
    /// Estimated gyro bias, °/s.
    pub bias_dps: [f32; 3],
    /// 1 σ of the quaternion's components.
    pub attitude_sigma: [f32; 4],
    /// 1 σ of the bias, °/s.
    pub bias_sigma_dps: [f32; 3],
    /// Times the filter started anew.
    pub errors: u32,
    /// 0 none, 1 NaN in the state, 2 NaN in a measurement.
    pub last_error: u32,
}

impl Attitude {
    /// Bytes a host reads for attitude, rate and acceleration.
    pub const SHORT: usize = 42;
    /// Bytes a host reads for all but the error counters.
    pub const DETAILED: usize = 86;

    /// The whole register, with its "present" byte set.
    pub fn encode(&self) -> [u8; 90] {
        let floats = [
            &self.attitude[..],
            &self.rate_dps,
            &self.acceleration,
            &self.bias_dps,
            &self.attitude_sigma,
            &self.bias_sigma_dps,
        ];
        let mut out = [0; 90];
        (out[0], out[1]) = (1, self.computation_10us);
        for (place, value) in out[2..82].as_chunks_mut::<4>().0.iter_mut().zip(floats.into_iter().flatten()) {
            *place = value.to_le_bytes();
        }
        out[82..86].copy_from_slice(&self.errors.to_le_bytes());
        out[86..90].copy_from_slice(&self.last_error.to_le_bytes());
        out
    }

    /// Reads 42 bytes or more; fields that were not read are 0. `None` also if there is no new sample.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let [present, computation_10us] = fields.take()?;
        if present & 1 == 0 {
            return None;
        }
        Some(Self {
            computation_10us,
            attitude: fields.floats()?,
            rate_dps: fields.floats()?,
            acceleration: fields.floats()?,
            bias_dps: fields.floats().unwrap_or_default(),
            attitude_sigma: fields.floats().unwrap_or_default(),
            bias_sigma_dps: fields.floats().unwrap_or_default(),
            errors: fields.u32().unwrap_or_default(),
            last_error: fields.u32().unwrap_or_default(),
        })
    }
}

/// Register 33, the IMU without filter, after the mounting rotation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RawImu {
    /// °/s.
    pub rate_dps: [f32; 3],
    /// m/s², gravity included.
    pub acceleration: [f32; 3],
}

impl RawImu {
    /// The register, with its "present" word set.
    pub fn encode(&self) -> [u8; 26] {
        let mut out = [0; 26];
        out[0] = 1;
        let values = self.rate_dps.iter().chain(&self.acceleration);
        for (place, value) in out[2..].as_chunks_mut::<4>().0.iter_mut().zip(values) {
            *place = value.to_le_bytes();
        }
        out
    }

    /// Reads the register; `None` also if there is no new sample.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let present = u16::from_le_bytes(fields.take()?);
        let raw = Self { rate_dps: fields.floats()?, acceleration: fields.floats()? };
        (present != 0).then_some(raw)
    }
}

/// Registers 35 and 36, how the IMU is mounted and how often it is sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImuConfig {
    /// Mounting angle, degrees.
    pub roll_deg: f32,
    /// Mounting angle, degrees.
    pub pitch_deg: f32,
    /// Mounting angle, degrees.
    pub yaw_deg: f32,
    /// Samples per second: 100, 200, 400 or 1000.
    pub rate_hz: u32,
}

impl ImuConfig {
    /// What the hat starts with.
    pub const FIRMWARE_DEFAULT: Self = Self { roll_deg: 0.0, pitch_deg: 90.0, yaw_deg: -90.0, rate_hz: 400 };
    /// What the host library asks for.
    pub const HOST_DEFAULT: Self = Self { roll_deg: 0.0, pitch_deg: 0.0, yaw_deg: 0.0, rate_hz: 400 };

    /// The register.
    pub fn encode(&self) -> [u8; 16] {
        let mut out = [0; 16];
        let words = [self.roll_deg, self.pitch_deg, self.yaw_deg].map(f32::to_le_bytes);
        for (place, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word;
        }
        out[12..].copy_from_slice(&self.rate_hz.to_le_bytes());
        out
    }

    /// Reads the register.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let [roll_deg, pitch_deg, yaw_deg] = fields.floats()?;
        Some(Self { roll_deg, pitch_deg, yaw_deg, rate_hz: fields.u32()? })
    }
}

/// Register 96: what waits to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// A CAN frame.
    pub can: bool,
    /// An IMU sample.
    pub imu: bool,
    /// The radio's receive counters, two bits per slot.
    pub rf: u32,
}

impl Ready {
    /// The register.
    pub fn encode(&self) -> [u8; 6] {
        let [a, b, c, d] = self.rf.to_le_bytes();
        [self.can.into(), self.imu.into(), a, b, c, d]
    }

    /// Reads two bytes or more; the radio's counters are 0 if not read.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let [can, imu] = fields.take()?.map(|flag: u8| flag != 0);
        Some(Self { can, imu, rf: fields.u32().unwrap_or_default() })
    }
}

/// Register 97: what a processor runs on and with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Of the firmware.
    pub git_hash: [u8; 20],
    /// Built from changed sources.
    pub dirty: bool,
    /// Of the chip.
    pub serial: [u8; 12],
}

impl DeviceInfo {
    /// The register.
    pub fn encode(&self) -> [u8; 33] {
        let mut out = [0; 33];
        out[..20].copy_from_slice(&self.git_hash);
        out[20] = self.dirty.into();
        out[21..].copy_from_slice(&self.serial);
        out
    }

    /// Reads the register.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let git_hash = fields.take()?;
        let [dirty] = fields.take()?;
        Some(Self { git_hash, dirty: dirty != 0, serial: fields.take()? })
    }
}

/// Register 100: main-loop rounds per millisecond, average and minimum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Performance {
    /// Over the last window.
    pub average: u32,
    /// In the last window.
    pub minimum: u32,
}

impl Performance {
    /// The register.
    pub fn encode(&self) -> [u8; 8] {
        let [[a, b, c, d], [e, f, g, h]] = [self.average, self.minimum].map(u32::to_le_bytes);
        [a, b, c, d, e, f, g, h]
    }

    /// Reads the register.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self { average: fields.u32()?, minimum: fields.u32()? })
    }
}

/// Takes fields off the front.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_le_bytes)
    }

    fn floats<const N: usize>(&mut self) -> Option<[f32; N]> {
        let mut floats = [0.0; N];
        for float in &mut floats {
            *float = f32::from_le_bytes(self.take()?);
        }
        Some(floats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receive_status_is_checked_where_it_was_read() {
        let sizes = [8, 0, 0, 0, 0, 200];
        let bytes = encode_receive_status(sizes);
        assert_eq!(bytes[6], 208 ^ 0xff);
        assert_eq!(decode_receive_status(&bytes), Some(sizes));
        assert_eq!(decode_receive_status(&bytes[..6]), Some(sizes));
        assert_eq!(decode_receive_status(&bytes[..5]), None);
        assert_eq!(decode_receive_status(&[8, 0, 0, 0, 0, 200, 0]), None);
    }

    #[test]
    fn frames_of_the_trace() {
        let mut out = [0; MAX_BLOB];
        let mut sends = |port, id, payload: &[u8], register, expected: &[u8]| {
            let frame = Frame::new(id, payload).unwrap();
            let (to, len) = encode_send(port, &frame, &mut out).unwrap();
            assert_eq!((to, &out[..len]), (register, expected));
            let (back_port, back) = decode_send(to, &out[..len], &CanConfig::HOST_DEFAULT).unwrap();
            assert_eq!((back_port, back.id, &back.payload()[..payload.len()]), (port, id, payload));
        };
        sends(0, 0x8001, &[0x13, 0x00], 5, &[0x02, 0x80, 0x01, 0x13, 0x00]);
        sends(1, 0x8004, &[0x13, 0, 0x11], 5, &[0x83, 0x80, 0x04, 0x13, 0x00, 0x11]);
        let expected = b"\x0c\0\x01\0\x05\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x50";
        sends(0, 0x1_0005, &[0x11; 11], 4, expected);

        let reply = Frame::new(0x400, &[0x21, 0, 0x0a]).unwrap();
        let len = encode_received(1, &reply, &mut out).unwrap();
        assert_eq!(out[..len], [0x84, 0, 0, 4, 0, 0x21, 0, 0x0a]);
        assert_eq!(decode_received(&out[..len]), Some((1, reply)));
        assert_eq!(decode_received(&[0; 69]), None);
        assert_eq!(decode_received(&out[..len - 1]), None);
    }

    #[test]
    fn configurations_of_both_versions() {
        let bytes = CanConfig::HOST_DEFAULT.encode();
        let expected =
            b"\x40\x42\x0f\0\x40\x4b\x4c\0\x01\x01\x01\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x32\0\0\0";
        assert_eq!(&bytes, expected);
        assert_eq!(CanConfig::decode(&bytes), Some(CanConfig::HOST_DEFAULT));
        assert_eq!(CanConfig::decode(&bytes[..21]), Some(CanConfig::HOST_DEFAULT));
        assert_eq!((CanConfig::len(2), CanConfig::len(3), CanConfig::len(4)), (0, 21, 25));
        for len in (0..21).chain(22..25) {
            assert_eq!(CanConfig::decode(&bytes[..len]), None);
        }
        let port_5 = CanConfig::PORT_5_DEFAULT;
        assert_eq!(port_5.encode()[..10], *b"\x48\xe8\x01\0\x48\xe8\x01\0\0\0");
    }

    #[test]
    fn the_imu_blobs_survive_the_round_trip() {
        let attitude = Attitude {
            attitude: [1.0, 0.0, -0.5, 0.25],
            rate_dps: [1.0, 2.0, 3.0],
            bias_sigma_dps: [0.0, 0.0, 7.0],
            last_error: 2,
            ..Attitude::default()
        };
        let bytes = attitude.encode();
        assert_eq!(Attitude::decode(&bytes), Some(attitude));
        let short = Attitude { bias_sigma_dps: [0.0; 3], last_error: 0, ..attitude };
        assert_eq!(Attitude::decode(&bytes[..Attitude::SHORT]), Some(short));
        assert_eq!(Attitude::decode(&[0; 42]), None);
        assert_eq!(Attitude::decode(&bytes[..41]), None);

        let raw = RawImu { rate_dps: [1.0, 2.0, 3.0], acceleration: [0.0, 0.0, -9.81] };
        assert_eq!(RawImu::decode(&raw.encode()), Some(raw));
        let config = ImuConfig::FIRMWARE_DEFAULT;
        assert_eq!(&config.encode(), b"\0\0\0\0\0\0\xb4\x42\0\0\xb4\xc2\x90\x01\0\0");
        assert_eq!(ImuConfig::decode(&config.encode()), Some(config));
    }

    #[test]
    fn the_small_blobs_survive_the_round_trip() {
        let status = ErrorStatus { codes: 1, flags: 2, receive_errors: 3, transmit_errors: 4, bus_offs: 5 };
        let both = [status, ErrorStatus::default()];
        assert_eq!(ErrorStatus::encode(both), [1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(ErrorStatus::decode(&ErrorStatus::encode(both)), Some(both));
        let ready = Ready { can: true, imu: false, rf: 0x0102_0304 };
        assert_eq!(Ready::decode(&ready.encode()), Some(ready));
        assert_eq!(Ready::decode(&[0, 1]), Some(Ready { imu: true, ..Ready::default() }));
        let info = DeviceInfo { git_hash: [1; 20], dirty: true, serial: [2; 12] };
        assert_eq!(DeviceInfo::decode(&info.encode()), Some(info));
        let performance = Performance { average: 300, minimum: 250 };
        assert_eq!(Performance::decode(&performance.encode()), Some(performance));
    }
}
