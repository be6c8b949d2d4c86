//! One servo's frames: prepared once, patched every tick; and its replies, read into the state.
//!
//! Here the user's radians meet the servo's revolutions.

use crate::command::{PositionCommand, ServoCommand};
use crate::config::{CommandFormat, Format, QueryFormat};
use crate::state::{Refused, ServoState};
use khz_wire::command::{Command, Position, ZeroVelocity};
use khz_wire::subframe::RegisterError;
use khz_wire::{
    Address, Class, CommandTemplate, Frame, Register, Reply, ReplyLayout, Resolution, Subframe, Subframes,
};
use std::f64::consts::TAU;

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

/// The frames of one exchange in these formats, as they travel on CAN: a position command with its query, and
/// the reply to it. Lengths and identifiers are those of a real exchange; the reply's contents are zero.
pub fn exchange(address: Address, command: &CommandFormat, query: &QueryFormat) -> [Frame; 2] {
    let frame = |address: Address, len: usize| {
        Frame::new(address.id(), &[0; khz_wire::frame::MAX_PAYLOAD][..len])
            .unwrap_or_else(|| unreachable!("a reply to any query format fits a frame"))
    };
    let mut sent = frame(address, 0);
    let hold = ServoCommand::Position(PositionCommand::hold(0.0));
    Codec::new(address, command, query, Mounting::default(), 0.1).encode(&hold, 0, &mut sent);
    let answer = address.answered_by(address.destination);
    let mut reply = frame(answer, query_format(query).reply_len());
    reply.pad();
    [sent, reply]
}

/// Frames and replies of one servo.
#[derive(Debug)]
pub struct Codec {
    mounting: Mounting,
    watchdog_s: f64,
    /// Magnitudes of position (rev), velocity (rev/s) and torque (N·m) from which on a reply says "this or more".
    saturated: [f64; 3],
    /// One for each rotation of the query's reads.
    rotations: Vec<Rotation>,
}

/// Everything that depends on the order of the reads.
#[derive(Debug)]
struct Rotation {
    stop: Frame,
    damp: Frame,
    position: CommandTemplate,
    reply: ReplyLayout,
    /// First registers of the reply.
    first: u32,
    first_count: u32,
}

impl Codec {
    /// Prepares the frames of the servo at `address`.
    ///
    /// # Panics
    /// If command and query do not fit a frame; no pair of formats gets there (a test tries the largest).
    pub fn new(
        address: Address,
        command: &CommandFormat,
        query: &QueryFormat,
        mounting: Mounting,
        watchdog_s: f64,
    ) -> Self {
        let watchdog_s = sendable_watchdog(watchdog_s, command.watchdog);
        let saturated = [
            (Class::Position, query.position),
            (Class::Velocity, query.velocity),
            (Class::Torque, query.torque),
        ]
        .map(|(class, format)| format.resolution().map_or(f64::INFINITY, |format| class.greatest(format)));
        let (command, query) = (command_format(command), query_format(query));
        let rotations = (0..query.runs().count())
            .map(|by| Rotation::new(address, &command, &query.rotated(by)).expect("the longest formats fit"));
        Self { mounting, watchdog_s, saturated, rotations: rotations.collect() }
    }

    /// The frame for this command, with the reads rotated for this round.
    pub fn encode(&mut self, command: &ServoCommand, round: u64, frame: &mut Frame) {
        let target = match command {
            ServoCommand::Position(target) => self.to_servo(target),
            _ => Position::default(),
        };
        let rotation = self.rotation(round);
        let rotation = &mut self.rotations[rotation];
        *frame = match command {
            ServoCommand::Stop => rotation.stop,
            ServoCommand::Damp => rotation.damp,
            ServoCommand::Position(_) => *rotation.position.fill(&target),
        };
        frame.pad();
    }

    fn to_servo(&self, target: &PositionCommand) -> Position {
        let Mounting { sign, offset } = self.mounting;
        Position {
            position: sign * (target.position - offset) / TAU,
            velocity: sign * target.velocity / TAU,
            torque: sign * target.torque,
            kp_scale: target.kp_scale,
            kd_scale: target.kd_scale,
            max_torque: target.max_torque,
            watchdog: self.watchdog_s,
            ..Position::default()
        }
    }

    /// The rotation this round's query has, and so its reply.
    pub fn rotation(&self, round: u64) -> usize {
        (round % self.rotations.len() as u64) as usize
    }

    /// The rotation of the query this reply mirrors; `None` if it holds none of the values asked for, nor the refusal
    /// to read the first of them.
    pub fn reply_rotation(&self, payload: &[u8]) -> Option<usize> {
        Subframes::new(payload).flatten().find_map(|subframe| match subframe {
            Subframe::Reply(values) => {
                self.rotations.iter().position(|rotation| rotation.first == values.run.start)
            }
            Subframe::ReadError(error) => self.rotations.iter().position(|rotation| {
                error.register.checked_sub(rotation.first).is_some_and(|at| at < rotation.first_count)
            }),
            _ => None,
        })
    }

    /// Reads a reply of this rotation into `servo`. What the reply does not bring, because the servo refused to read it or
    /// the reply is damaged, is not known any more: NaN. Mode and fault stay.
    pub fn decode(&self, frame: &Frame, rotation: usize, servo: &mut ServoState) {
        let reply = self.rotations[rotation].reply.decode(frame).unwrap_or_default();
        let Mounting { sign, offset } = self.mounting;
        let [position, velocity, torque] = [reply.position, reply.velocity, reply.torque];
        let value = |value: Option<f64>, most: f64| unsaturated(value.unwrap_or(f64::NAN), most);
        servo.position = sign * TAU * value(position, self.saturated[0]) + offset;
        servo.velocity = sign * TAU * value(velocity, self.saturated[1]);
        servo.torque = sign * value(torque, self.saturated[2]);
        servo.voltage = reply.voltage.unwrap_or(f64::NAN);
        servo.temperature = reply.temperature.unwrap_or(f64::NAN);
        servo.mode = reply.mode.unwrap_or(servo.mode);
        servo.fault = reply.fault.unwrap_or(servo.fault);
        servo.refused = refused(&reply);
    }
}

/// The greatest number a format has says nothing but "this much or more".
fn unsaturated(value: f64, most: f64) -> f64 {
    if value.abs() >= most { f64::INFINITY.copysign(value) } else { value }
}

/// The watchdog as it is sent: 0 would mean the servo's own setting.
fn sendable_watchdog(seconds: f64, format: Format) -> f64 {
    let Some(format) = format.resolution() else { return seconds };
    // Just above a step, as what is sent is cut to whole steps.
    let least = if format == Resolution::Float { 0.0 } else { 1.001 * Class::Time.lsb(format) };
    if seconds < least { least } else { seconds }
}

fn refused(reply: &Reply) -> Option<Refused> {
    let refused = |error: RegisterError, write| Refused {
        register: Register(u16::try_from(error.register).unwrap_or(u16::MAX)),
        write,
    };
    let write = reply.write_error.map(|error| refused(error, true));
    write.or_else(|| reply.read_error.map(|error| refused(error, false)))
}

impl Rotation {
    fn new(address: Address, command: &khz_wire::Format, query: &khz_wire::Format) -> Option<Self> {
        let none = khz_wire::Format::new();
        let damp = Command::ZeroVelocity(ZeroVelocity::default());
        Some(Self {
            stop: Command::Stop.frame(address, &none, query).ok()?,
            damp: damp.frame(address, &none, query).ok()?,
            position: CommandTemplate::new(address, command, query).ok()?,
            reply: ReplyLayout::new(query).ok()?,
            first: query.runs().next()?.start,
            first_count: query.runs().next()?.count,
        })
    }
}

/// Mode and fault are always asked for, each in one read with its neighbour if that makes no frame longer.
fn query_format(query: &QueryFormat) -> khz_wire::Format {
    let beside = |neighbour| if neighbour == Format::Int16 { Format::Int16 } else { Format::Int8 };
    format(&[
        (Register::MODE, beside(query.position)),
        (Register::POSITION, query.position),
        (Register::VELOCITY, query.velocity),
        (Register::TORQUE, query.torque),
        (Register::VOLTAGE, query.voltage),
        (Register::TEMPERATURE, query.temperature),
        (Register::FAULT, beside(query.temperature)),
    ])
}

fn command_format(command: &CommandFormat) -> khz_wire::Format {
    format(&[
        (Register::COMMAND_POSITION, command.position),
        (Register::COMMAND_VELOCITY, command.velocity),
        (Register::COMMAND_TORQUE, command.torque),
        (Register::COMMAND_KP_SCALE, command.kp_scale),
        (Register::COMMAND_KD_SCALE, command.kd_scale),
        (Register::COMMAND_MAX_TORQUE, command.max_torque),
        (Register::COMMAND_WATCHDOG, command.watchdog),
    ])
}

fn format(wanted: &[(Register, Format)]) -> khz_wire::Format {
    let travels = |&(register, format): &(Register, Format)| Some((register, format.resolution()?));
    let registers: Vec<_> = wanted.iter().filter_map(travels).collect();
    khz_wire::Format::of(&registers).expect("a format holds more registers than these")
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_wire::Mode;

    fn codec(command: CommandFormat, query: QueryFormat, mounting: Mounting) -> Codec {
        Codec::new(Address::to(1, true), &command, &query, mounting, 0.1)
    }

    fn frame(codec: &mut Codec, command: &ServoCommand, round: u64) -> Vec<u8> {
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
        let mut codec = codec(format, QueryFormat::default(), Mounting::default());
        let target = PositionCommand { velocity: TAU, ..PositionCommand::hold(0.25 * TAU) };
        let expected = [
            0x01, 0, 0x0a, 0x0e, 0x20, 0, 0, 0x80, 0x3e, 0, 0, 0x80, 0x3f, 0x11, 0, 0x1f, 1, 0x13, 0x0d, 0x50,
        ];
        assert_eq!(frame(&mut codec, &ServoCommand::Position(target), 0), expected);
    }

    #[test]
    fn stop_and_damp_are_the_official_clients_and_rotate() {
        let mut codec = codec(CommandFormat::default(), QueryFormat::default(), Mounting::default());
        let mut stop = |round| frame(&mut codec, &ServoCommand::Stop, round);
        assert_eq!(stop(0), [0x01, 0, 0, 0x11, 0, 0x1f, 1, 0x13, 0x0d, 0x50, 0x50, 0x50]);
        assert_eq!(stop(1), [0x01, 0, 0, 0x1f, 1, 0x13, 0x0d, 0x11, 0, 0x50, 0x50, 0x50]);
        assert_eq!(stop(2), [0x01, 0, 0, 0x13, 0x0d, 0x11, 0, 0x1f, 1, 0x50, 0x50, 0x50]);
        let again = stop(3);
        assert_eq!(again, stop(0));
        assert_eq!(frame(&mut codec, &ServoCommand::Damp, 0)[..3], [1, 0, 12]);
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
        codec.decode(&Frame::new(0x100, &reply).unwrap(), 0, &mut servo);
        assert_eq!((servo.mode, servo.voltage, servo.temperature), (Mode::Position, 24.5, 30.0));
        assert!((servo.position - (0.5 - 0.25 * TAU)).abs() < 1e-12 && (servo.velocity + TAU).abs() < 1e-12);
        assert!((servo.torque + 0.1).abs() < 1e-7);

        assert_eq!(codec.reply_rotation(&[&rest[..], &mode, &motion].concat()), Some(2));
        assert_eq!(codec.reply_rotation(&[0x31, 0x70, 1]), None);
    }

    #[test]
    fn mode_and_fault_are_read_with_their_neighbours_where_that_is_shorter() {
        let short = Format::Int16;
        let asked = |query| {
            let mut codec = codec(CommandFormat::default(), query, Mounting::default());
            frame(&mut codec, &ServoCommand::Stop, 0)[3..].to_vec()
        };
        let motion =
            QueryFormat { position: short, velocity: short, torque: short, ..QueryFormat::default() };
        assert_eq!(asked(motion.clone()), [0x14, 4, 0, 0x13, 0x0d]);
        let health = QueryFormat { voltage: short, temperature: short, ..motion };
        assert_eq!(asked(health), [0x14, 4, 0, 0x17, 0x0d]);
    }

    #[test]
    fn a_saturated_value_is_infinite_and_no_position() {
        let short = Format::Int16;
        let query = QueryFormat { position: short, velocity: short, torque: short, ..QueryFormat::default() };
        let mounting = Mounting { sign: -1.0, offset: 0.5 };
        let codec = codec(CommandFormat::default(), query, mounting);
        let decoded = |position: i16, velocity: i16, torque: i16| {
            let mut payload = vec![0x24, 4, 0, 10, 0];
            [position, velocity, torque].iter().for_each(|v| payload.extend(v.to_le_bytes()));
            payload.extend([0x23, 0x0d, 48, 30, 0]);
            let mut servo = ServoState::UNKNOWN;
            codec.decode(&Frame::new(0x100, &payload).unwrap(), 0, &mut servo);
            [servo.position, servo.velocity, servo.torque]
        };
        let infinite = f64::INFINITY;
        assert_eq!(decoded(32_767, -32_767, 32_767), [-infinite, infinite, -infinite]);
        assert!(decoded(32_766, -32_766, 32_766).iter().all(|value| value.is_finite()));
        assert!(decoded(i16::MIN, 0, 0)[0].is_nan());
    }

    #[test]
    fn a_register_refused_leaves_nothing_old_behind() {
        let codec = codec(CommandFormat::default(), QueryFormat::default(), Mounting::default());
        let known = ServoState { position: 1.0, velocity: 2.0, voltage: 24.0, ..ServoState::UNKNOWN };
        let read = |rotation, payload: &[u8]| {
            let mut servo = known;
            assert_eq!(codec.reply_rotation(payload), Some(rotation));
            codec.decode(&Frame::new(0x100, payload).unwrap(), rotation, &mut servo);
            servo
        };
        // Mode is answered, position is refused, and the rest of the query is dropped.
        let servo = read(0, &[0x21, 0, 0x0a, 0x31, 1, 1]);
        assert_eq!(servo.refused, Some(Refused { register: Register::POSITION, write: false }));
        assert!(servo.position.is_nan() && servo.velocity.is_nan() && servo.voltage.is_nan());
        // The first read is refused, so nothing is answered: torque in the query that begins with position.
        let servo = read(1, &[0x31, 3, 1]);
        assert_eq!(servo.refused, Some(Refused { register: Register::TORQUE, write: false }));
        assert!(servo.position.is_nan());
        // A refused write of the greatest torque comes before whatever is answered.
        let motion = [0x2f, 1, 0, 0, 0x80, 0x3e, 0, 0, 0x80, 0x3f, 0xcd, 0xcc, 0xcc, 0x3d];
        let rest = [0x21, 0, 0x0a, 0x23, 0x0d, 0x31, 0x1e, 0x00];
        let servo = read(0, &[&[0x30, 0x25, 1][..], &rest[..3], &motion, &rest[3..]].concat());
        assert_eq!(servo.refused, Some(Refused { register: Register::COMMAND_MAX_TORQUE, write: true }));
        assert!((servo.position - 0.25 * TAU).abs() < 1e-9);
        assert_eq!(read(0, &[&rest[..3], &motion[..], &rest[3..]].concat()).refused, None);
    }

    #[test]
    fn a_reply_cut_off_leaves_nothing_old_behind() {
        let codec = codec(CommandFormat::default(), QueryFormat::default(), Mounting::default());
        let mut servo = ServoState { position: 1.0, ..ServoState::UNKNOWN };
        codec.decode(&Frame::new(0x100, &[0x21, 0, 0x0a, 0x2f, 1, 0]).unwrap(), 0, &mut servo);
        assert!(servo.position.is_nan());
    }

    #[test]
    fn a_short_watchdog_is_never_sent_as_the_servos_own() {
        for (format, seconds, sent) in [
            (Format::Int8, 0.008, 1.0),
            (Format::Int8, 0.1, 10.0),
            (Format::Int16, 0.0004, 1.0),
            (Format::Int16, 0.008, 8.0),
            (Format::Int32, 0.008, 8000.0),
        ] {
            let resolution = format.resolution().unwrap();
            let value = Class::Time.encode(sendable_watchdog(seconds, format), resolution);
            assert_eq!(f64::from(value.integer()), sent, "{seconds} s as {format:?}");
        }
        assert!(sendable_watchdog(f64::NAN, Format::Int8).is_nan());
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
        let mut codec = codec(command, query, Mounting::default());
        assert_eq!(frame(&mut codec, &ServoCommand::Position(PositionCommand::hold(0.0)), 0).len(), 48);
    }
}
