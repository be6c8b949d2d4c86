//! One servo's frames: prepared once, patched every tick; and its replies, read into the state.
//!
//! Here the user's radians meet the servo's revolutions.

use crate::command::{PositionCommand, ServoCommand};
use crate::config::{CommandFormat, Format, QueryFormat};
use crate::state::ServoState;
use khz_wire::subframe::{Full, Run};
use khz_wire::{
    Address, Class, Fault, Frame, Mode, Register, Resolution, Subframe, Subframes, Value, Writer,
};
use std::f64::consts::TAU;

/// The reads of a query, neighbours of one resolution together. Mode and fault are always asked for.
fn runs(query: &QueryFormat) -> Vec<Run> {
    let wanted = [
        (Register::MODE, Format::Int8),
        (Register::POSITION, query.position),
        (Register::VELOCITY, query.velocity),
        (Register::TORQUE, query.torque),
        (Register::VOLTAGE, query.voltage),
        (Register::TEMPERATURE, query.temperature),
        (Register::FAULT, Format::Int8),
    ];
    let mut runs: Vec<Run> = Vec::new();
    for (register, format) in wanted {
        let (Some(resolution), start) = (format.resolution(), u32::from(register.0)) else { continue };
        match runs.last_mut() {
            Some(run) if run.resolution == resolution && run.start + run.count == start => run.count += 1,
            _ => runs.push(Run { resolution, start, count: 1, long: false }),
        }
    }
    runs
}

/// Joint ⇄ servo: joint angle = sign · servo angle + offset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mounting {
    /// 1 or −1.
    pub sign: f64,
    /// Joint angle at the servo's zero, rad.
    pub offset: f64,
}

impl Default for Mounting {
    fn default() -> Self {
        Self { sign: 1.0, offset: 0.0 }
    }
}

/// Frames and replies of one servo.
#[derive(Debug)]
pub struct Codec {
    mounting: Mounting,
    watchdog_s: f64,
    reads: Vec<Run>,
    /// One per rotation of the reads.
    stop: Vec<Frame>,
    damp: Vec<Frame>,
    position: Vec<PositionTemplate>,
}

impl Codec {
    /// Prepares the frames of the servo `id`, sent by `host` under `prefix`.
    ///
    /// # Panics
    /// If command and query do not fit 64 bytes; no pair of formats gets there (a test tries the largest).
    pub fn new(
        address: Address,
        command: &CommandFormat,
        query: &QueryFormat,
        mounting: Mounting,
        watchdog_s: f64,
    ) -> Self {
        let reads = runs(query);
        let rotations = || (0..reads.len()).map(|by| rotated(&reads, by));
        let frames = |mode: Mode| rotations().map(|reads| Self::plain(address, mode, &reads)).collect();
        let (stop, damp) = (frames(Mode::Stopped), frames(Mode::ZeroVelocity));
        let position = rotations().map(|reads| PositionTemplate::new(address, command, &reads)).collect();
        Self { mounting, watchdog_s, stop, damp, position, reads }
    }

    fn plain(address: Address, mode: Mode, reads: &[Run]) -> Frame {
        build(address, |w| {
            w.write(0, &[Value::Int8(mode as i8)])?;
            reads.iter().try_for_each(|&run| w.read(run))
        })
    }

    /// The frame for this command, with the reads rotated for this round.
    pub fn encode(&self, command: &ServoCommand, round: u64, frame: &mut Frame) {
        let rotation = (round % self.reads.len() as u64) as usize;
        match command {
            ServoCommand::Stop => *frame = self.stop[rotation],
            ServoCommand::Damp => *frame = self.damp[rotation],
            ServoCommand::Position(target) => {
                self.position[rotation].fill(self.to_servo(target), self.watchdog_s, frame);
            }
        }
    }

    fn to_servo(&self, target: &PositionCommand) -> PositionCommand {
        let Mounting { sign, offset } = self.mounting;
        PositionCommand {
            position: sign * (target.position - offset) / TAU,
            velocity: sign * target.velocity / TAU,
            torque: sign * target.torque,
            ..*target
        }
    }

    /// The rotation this round's reply will have.
    pub fn rotation(&self, round: u64) -> u64 {
        round % self.reads.len() as u64
    }

    /// The rotation of the query this reply mirrors; `None` if it holds none of the values asked for.
    pub fn reply_rotation(&self, payload: &[u8]) -> Option<u64> {
        Subframes::new(payload).flatten().find_map(|subframe| {
            let Subframe::Reply(values) = subframe else { return None };
            let place = self.reads.iter().position(|run| run.start == values.run.start)?;
            Some(place as u64)
        })
    }

    /// Reads a reply's values into `servo`. Values not asked for or not understood stay.
    pub fn decode(&self, payload: &[u8], servo: &mut ServoState) {
        for subframe in Subframes::new(payload).flatten() {
            if let Subframe::Reply(values) = subframe {
                values.iter().for_each(|(register, value)| self.take_in(register, value, servo));
            }
        }
    }

    fn take_in(&self, register: u32, value: Value, servo: &mut ServoState) {
        let Mounting { sign, offset } = self.mounting;
        match u16::try_from(register).map(Register) {
            Ok(Register::MODE) => servo.mode = Mode::from_number(value.integer()).unwrap_or(servo.mode),
            Ok(Register::POSITION) => servo.position = sign * TAU * Class::Position.decode(value) + offset,
            Ok(Register::VELOCITY) => servo.velocity = sign * TAU * Class::Velocity.decode(value),
            Ok(Register::TORQUE) => servo.torque = sign * Class::Torque.decode(value),
            Ok(Register::VOLTAGE) => servo.voltage = Class::Voltage.decode(value),
            Ok(Register::TEMPERATURE) => servo.temperature = Class::Temperature.decode(value),
            Ok(Register::FAULT) => servo.fault = Fault(value.integer() as u8),
            _ => {}
        }
    }
}

/// A position command with holes for its numbers.
#[derive(Debug)]
struct PositionTemplate {
    frame: Frame,
    /// Where each number goes: offset in the payload, class, resolution; in the order of [`numbers`].
    holes: [Option<(usize, Class, Resolution)>; NUMBERS],
}

const NUMBERS: usize = 7;

/// Registers of a position command in the order they travel.
const REGISTERS: [Register; NUMBERS] = [
    Register::COMMAND_POSITION,
    Register::COMMAND_VELOCITY,
    Register::COMMAND_TORQUE,
    Register::COMMAND_KP_SCALE,
    Register::COMMAND_KD_SCALE,
    Register::COMMAND_MAX_TORQUE,
    Register::COMMAND_WATCHDOG,
];

fn numbers(target: &PositionCommand, watchdog_s: f64) -> [f64; NUMBERS] {
    let PositionCommand { position, velocity, torque, kp_scale, kd_scale, max_torque } = *target;
    [position, velocity, torque, kp_scale, kd_scale, max_torque, watchdog_s]
}

impl PositionTemplate {
    fn new(address: Address, format: &CommandFormat, reads: &[Run]) -> Self {
        let CommandFormat { position, velocity, torque, kp_scale, kd_scale, max_torque, watchdog } = *format;
        let formats = [position, velocity, torque, kp_scale, kd_scale, max_torque, watchdog];
        let resolutions = formats.map(Format::resolution);
        let mut holes = [None; NUMBERS];
        let frame = build(address, |w| {
            w.write(0, &[Value::Int8(Mode::Position as i8)])?;
            let mut first = 0;
            while first < NUMBERS {
                first += write_run(w, &resolutions, first, &mut holes)?.max(1);
            }
            reads.iter().try_for_each(|&run| w.read(run))
        });
        Self { frame, holes }
    }

    fn fill(&self, target: PositionCommand, watchdog_s: f64, frame: &mut Frame) {
        *frame = self.frame;
        let payload = frame.payload_mut();
        for (hole, number) in self.holes.iter().zip(numbers(&target, watchdog_s)) {
            if let Some((offset, class, resolution)) = *hole {
                class.encode(number, resolution).write(&mut payload[offset..]);
            }
        }
    }
}

/// Writes the run of neighbours of one resolution that starts at `first`; how many there are, 0 if the number
/// at `first` is not sent.
fn write_run(
    w: &mut Writer<'_>,
    resolutions: &[Option<Resolution>; NUMBERS],
    first: usize,
    holes: &mut [Option<(usize, Class, Resolution)>; NUMBERS],
) -> Result<usize, Full> {
    let Some(resolution) = resolutions[first] else { return Ok(0) };
    let start = REGISTERS[first].0;
    let neighbours = (first..NUMBERS)
        .take_while(|&i| resolutions[i] == Some(resolution) && REGISTERS[i].0 - start == (i - first) as u16);
    let count = neighbours.count();
    let zero = Class::Integer.encode(0.0, resolution);
    w.write(u32::from(start), &[zero; NUMBERS][..count])?;
    for i in first..first + count {
        let offset = w.len() - (first + count - i) * resolution.size();
        holes[i] = Some((offset, REGISTERS[i].class(), resolution));
    }
    Ok(count)
}

fn rotated(runs: &[Run], by: usize) -> Vec<Run> {
    let mut runs = runs.to_vec();
    runs.rotate_left(by);
    runs
}

fn build(address: Address, write: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>) -> Frame {
    let mut buffer = [0; khz_wire::frame::MAX_PAYLOAD];
    let mut writer = Writer::new(&mut buffer);
    let result = write(&mut writer);
    debug_assert_eq!(result, Ok(()), "command and query fit a frame");
    let mut frame =
        Frame::new(address.id(), writer.written()).unwrap_or_else(|| unreachable!("64 bytes fit"));
    frame.pad();
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codec(command: CommandFormat, query: QueryFormat, mounting: Mounting) -> Codec {
        Codec::new(Address::to(1, true), &command, &query, mounting, 0.1)
    }

    fn frame(codec: &Codec, command: &ServoCommand, round: u64) -> Vec<u8> {
        let mut frame = Frame::new(0, &[]).unwrap();
        codec.encode(command, round, &mut frame);
        assert_eq!(frame.id, 0x8001);
        frame.payload().to_vec()
    }

    #[test]
    fn a_bare_position_command_is_the_official_clients() {
        // make_position(position=0.25, velocity=1.0, query=True), padded with one NOP.
        let format = CommandFormat {
            torque: Format::None,
            kp_scale: Format::None,
            kd_scale: Format::None,
            max_torque: Format::None,
            watchdog: Format::None,
            ..CommandFormat::default()
        };
        let codec = codec(format, QueryFormat::default(), Mounting::default());
        let target = PositionCommand { velocity: TAU, ..PositionCommand::hold(0.25 * TAU) };
        let expected = [
            0x01, 0, 0x0a, 0x0e, 0x20, 0, 0, 0x80, 0x3e, 0, 0, 0x80, 0x3f, 0x11, 0, 0x1f, 1, 0x13, 0x0d, 0x50,
        ];
        assert_eq!(frame(&codec, &ServoCommand::Position(target), 0), expected);
    }

    #[test]
    fn stop_and_damp_are_the_official_clients_and_rotate() {
        let codec = codec(CommandFormat::default(), QueryFormat::default(), Mounting::default());
        let stop = |round| frame(&codec, &ServoCommand::Stop, round);
        assert_eq!(stop(0), [0x01, 0, 0, 0x11, 0, 0x1f, 1, 0x13, 0x0d, 0x50, 0x50, 0x50]);
        assert_eq!(stop(1), [0x01, 0, 0, 0x1f, 1, 0x13, 0x0d, 0x11, 0, 0x50, 0x50, 0x50]);
        assert_eq!(stop(2), [0x01, 0, 0, 0x13, 0x0d, 0x11, 0, 0x1f, 1, 0x50, 0x50, 0x50]);
        assert_eq!(stop(3), stop(0));
        assert_eq!(frame(&codec, &ServoCommand::Damp, 0)[..3], [1, 0, 12]);
    }

    #[test]
    fn a_reply_tells_its_rotation_and_its_values() {
        let mounting = Mounting { sign: -1.0, offset: 0.5 };
        let codec = codec(CommandFormat::default(), QueryFormat::default(), mounting);
        // The register specification's example reply: mode 10, 0.25 rev, 1 rev/s, 0.1 N·m, 24.5 V, 30 °C.
        let motion = [0x2f, 1, 0, 0, 0x80, 0x3e, 0, 0, 0x80, 0x3f, 0xcd, 0xcc, 0xcc, 0x3d];
        let (mode, rest) = ([0x21, 0, 0x0a], [0x23, 0x0d, 0x31, 0x1e, 0x00]);
        let mut servo = ServoState::UNKNOWN;
        let reply = [&mode[..], &motion, &rest].concat();
        assert_eq!(codec.reply_rotation(&reply), Some(0));
        codec.decode(&reply, &mut servo);
        assert_eq!((servo.mode, servo.voltage, servo.temperature), (Mode::Position, 24.5, 30.0));
        assert!((servo.position - (0.5 - 0.25 * TAU)).abs() < 1e-12 && (servo.velocity + TAU).abs() < 1e-12);
        assert!((servo.torque + 0.1).abs() < 1e-7);

        assert_eq!(codec.reply_rotation(&[&rest[..], &mode, &motion].concat()), Some(2));
        assert_eq!(codec.reply_rotation(&[0x31, 1, 1]), None);
    }

    #[test]
    fn joint_and_servo_angles_are_inverse() {
        let mounting = Mounting { sign: -1.0, offset: 0.5 };
        let codec = codec(CommandFormat::default(), QueryFormat::default(), mounting);
        let servo = codec.to_servo(&PositionCommand::hold(1.25));
        let joint = mounting.sign * servo.position * TAU + mounting.offset;
        assert!((joint - 1.25).abs() < 1e-12);
    }

    #[test]
    fn the_largest_formats_fit_a_frame() {
        let float = Format::Float;
        let command = CommandFormat {
            position: float,
            velocity: float,
            torque: float,
            kp_scale: float,
            kd_scale: float,
            max_torque: float,
            watchdog: float,
        };
        let query = QueryFormat {
            position: float,
            velocity: float,
            torque: float,
            voltage: float,
            temperature: float,
        };
        let codec = codec(command, query, Mounting::default());
        assert_eq!(frame(&codec, &ServoCommand::Position(PositionCommand::hold(0.0)), 0).len(), 48);
    }
}
