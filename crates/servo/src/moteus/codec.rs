//! One servo's frames: prepared once, patched every tick; and its replies, read into the state.
//!
//! Here the user's radians meet the servo's revolutions.

use super::misread;
use super::queries::Symbol;
use super::{CommandFormat, Format, QueryFormat, Settings};
use crate::{Doing, Mounting, Occasion, PositionCommand, Refused, ServoCommand, ServoState};
use arrayvec::ArrayVec;
use khz_wire::command::{Command, Position, ZeroVelocity};
use khz_wire::frame::MAX_PAYLOAD;
use khz_wire::subframe::{RegisterError, opcode};
use khz_wire::{
    Address, Class, CommandTemplate, Fault, Frame, Layout, Mode, Reading, Register, Reply, ReplyLayout,
    Resolution, Subframe, Subframes, Target, Value,
};
use std::f64::consts::TAU;
use std::ops::Range;

/// The frames of one exchange in these formats, as they travel on CAN: a command with its query, and the reply to it. Lengths and
/// identifiers are those of a real exchange; the reply's contents are zero. After a loss with a mark, if its queries can have one.
pub fn exchange(address: Address, settings: &Settings, occasion: Occasion) -> [Frame; 2] {
    let frame = |address: Address, len: usize| {
        Frame::new(address.id(), &[0; MAX_PAYLOAD][..len])
            .unwrap_or_else(|| unreachable!("a reply to any query format fits a frame"))
    };
    let mut sent = frame(address, 0);
    let command = match occasion {
        Occasion::Stopped => ServoCommand::Stop,
        _ => ServoCommand::Position(PositionCommand::hold(0.0)),
    };
    let mut codec = Codec::new(address, settings, Mounting::default(), 0.1);
    let (rotations, marks) = codec.symbols();
    let is_marked = occasion == Occasion::AfterLoss && marks > 0;
    codec.encode(&command, if is_marked { rotations as Symbol } else { 0 }, &mut sent);
    let answer = address.answered_by(address.destination);
    let marked_len = if is_marked { MARKED_LEN } else { 0 };
    let mut reply = frame(answer, query_format(&settings.query).reply_len() + marked_len);
    reply.pad();
    [sent, reply]
}

/// Registers that mark a query by being read first, as int8. None is among those of any query, reading them does nothing,
/// and firmware has had the first ones the longest. Not 0x0c: before most queries a servo that misreads them writes its mode.
const MARKS: [u8; 41] = [
    0x04, 0x05, 0x06, 0x07, 0x0a, 0x0b, 0x30, 0x31, 0x32, 0x33, 0x34, 0x38, 0x39, 0x3a, 0x3b, 0x3c, 0x3d,
    0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x58, 0x5c, 0x5d, 0x5e, 0x5f, 0x60, 0x61, 0x62, 0x63, 0x64, 0x68,
    0x69, 0x6a, 0x6b, 0x6c, 0x72, 0x71, 0x70,
];

/// A mark's read in the query: opcode and register.
const MARK_LEN: usize = 2;
/// A mark in the reply: opcode, register and value.
const MARKED_LEN: usize = 3;

/// Frames and replies of one servo.
#[derive(Debug)]
pub struct Codec {
    mounting: Mounting,
    /// Of a servo's revolution in the joint's radians.
    scale: f64,
    /// Magnitudes of position (rev), velocity (rev/s) and torque (N·m) from which on a reply means "this or more".
    saturated: [f64; 3],
    /// One for each rotation of the query's reads.
    rotations: Vec<Rotation>,
    /// Bytes the reads take in a frame.
    reads_len: usize,
    /// Marks of its queries; none if the frames have no room for one.
    marks: ArrayVec<u8, { MARKS.len() }>,
}

/// The symbol of the query a reply answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    pub symbol: Symbol,
    /// The servo does not read the register that marks the query, and so left out the rest.
    pub refused: bool,
}

/// Everything that depends on the order of the reads.
#[derive(Debug)]
struct Rotation {
    /// Padded, as are the others.
    stop: Frame,
    damp: Frame,
    position: CommandTemplate,
    /// Bytes before the reads of a frame that only sets the mode, and of a position.
    mode_len: usize,
    position_len: usize,
    reply: ReplyLayout,
    /// Of a reply of a servo that follows, and reports no fault.
    following: Layout,
    readings: Readings,
    /// First registers of the reply.
    first: u32,
    first_count: u32,
}

impl Codec {
    /// Prepares the frames of the servo at `address`.
    ///
    /// # Panics
    /// If command and query do not fit a frame; no pair of formats gets there (a test tries the largest).
    pub fn new(address: Address, settings: &Settings, mounting: Mounting, watchdog_s: f64) -> Self {
        let Settings { command, query } = settings;
        let watchdog_s = sendable_watchdog(watchdog_s, command.watchdog);
        let saturated = [
            (Class::Position, query.position),
            (Class::Velocity, query.velocity),
            (Class::Torque, query.torque),
        ]
        .map(|(class, format)| format.resolution().map_or(f64::INFINITY, |format| class.greatest(format)));
        let (command, query) = (command_format(command), query_format(query));
        let reads_len = query.query_len();
        let rotation = |by| Rotation::new(address, watchdog_s, &command, &query.rotated(by));
        let rotations = (0..query.runs().count()).map(|by| rotation(by).expect("the longest formats fit"));
        let mut rotations: Vec<_> = rotations.collect();
        rotations.retain(|rotation| rotation.is_harmless(reads_len, None));
        let longest = rotations.iter().map(|rotation| rotation.position_len + reads_len).max();
        let fits =
            longest.is_some_and(|len| len + MARK_LEN <= MAX_PAYLOAD) && query.is_answerable_after(MARKED_LEN);
        let is_harmless =
            |&mark: &u8| rotations.first().is_some_and(|first| first.is_harmless(reads_len, Some(mark)));
        let marks = MARKS.into_iter().filter(|_| fits).filter(is_harmless).collect();
        Self { mounting, scale: mounting.sign * TAU, saturated, rotations, reads_len, marks }
    }

    /// How many rotations and marks its queries can have as symbols.
    pub fn symbols(&self) -> (usize, usize) {
        (self.rotations.len(), self.marks.len())
    }

    /// The frame for this command, with a query of this symbol. Inlined, as it is called for every command.
    #[inline(always)]
    pub fn encode(&mut self, command: &ServoCommand, symbol: Symbol, frame: &mut Frame) {
        let (at, mark) = self.rotation_and_mark(symbol);
        let commands_len = match command {
            ServoCommand::Position(target) => {
                let target = self.to_servo(target);
                let rotation = &mut self.rotations[at];
                *frame = *rotation.position.fill(&target);
                rotation.position_len
            }
            ServoCommand::Stop | ServoCommand::Damp => {
                let rotation = &self.rotations[at];
                *frame = if *command == ServoCommand::Damp { rotation.damp } else { rotation.stop };
                rotation.mode_len
            }
        };
        if let Some(register) = mark {
            put_mark(register, commands_len..commands_len + self.reads_len, frame);
        }
    }

    fn rotation_and_mark(&self, symbol: Symbol) -> (usize, Option<u8>) {
        let symbol = usize::from(symbol);
        match symbol.checked_sub(self.rotations.len()) {
            None => (symbol, None),
            Some(mark) => (0, self.marks.get(mark).copied()),
        }
    }

    fn to_servo(&self, target: &PositionCommand) -> Target {
        let Mounting { sign, offset } = self.mounting;
        Target {
            position: sign * (target.position - offset) / TAU,
            velocity: sign * target.velocity / TAU,
            torque: sign * target.torque,
            kp_scale: target.kp_scale,
            kd_scale: target.kd_scale,
            max_torque: target.max_torque,
        }
    }

    /// Where the values of this reply are, if it is one as was asked for by the query of this symbol, of a servo that follows and reports no
    /// fault. So are nearly all of a robot under control.
    #[inline]
    pub fn following(&self, frame: &Frame, symbol: Symbol) -> Option<&Readings> {
        let rotation = self.rotations.get(usize::from(symbol))?;
        rotation.following.is_of(frame).then_some(&rotation.readings)
    }

    /// Puts the values of such a reply into `servo`. Inlined, as it is called for nearly every reply.
    #[inline(always)]
    pub fn put_following(&self, readings: &Readings, frame: &Frame, servo: &mut ServoState) {
        self.put_measured(&readings.measured(frame), servo);
        // Nearly always it followed before, and nothing was wrong: then what follows leaves all as it is.
        if servo.doing != Doing::Following || servo.fault.code != 0 || servo.refused.is_some() {
            put_mode(Some(Mode::Position as i32), Some(Fault::NONE), None, servo);
        }
    }

    /// Where the values of this reply are, if it is one as was asked for by the query of this symbol.
    pub fn straight(&self, frame: &Frame, symbol: Symbol) -> Option<&Readings> {
        let rotation = self.rotations.get(usize::from(symbol))?;
        rotation.reply.fits(frame).then_some(&rotation.readings)
    }

    /// The symbol of the query this reply mirrors, or refuses; `None` if it begins with none of them.
    #[cold]
    pub fn read(&self, payload: &[u8]) -> Option<Read> {
        if let Some(rotation) = self.rotations.iter().position(|rotation| rotation.reply.begins(payload)) {
            return Some(Read { symbol: rotation as Symbol, refused: false });
        }
        let (register, refused) = Subframes::new(payload).flatten().find_map(|subframe| match subframe {
            Subframe::Reply(values) => Some((values.run.start, false)),
            Subframe::ReadError(error) => Some((error.register, true)),
            _ => None,
        })?;
        let begins = |rotation: &Rotation| match refused {
            false => rotation.first == register,
            true => (rotation.first..rotation.first + rotation.first_count).contains(&register),
        };
        if let Some(rotation) = self.rotations.iter().position(begins) {
            return Some(Read { symbol: rotation as Symbol, refused: false });
        }
        let mark = self.marks.iter().position(|&mark| u32::from(mark) == register)?;
        Some(Read { symbol: (self.rotations.len() + mark) as Symbol, refused })
    }

    /// Reads a reply to a query of this symbol into `servo`. What the reply does not bring, because the servo refused to
    /// read it or the reply is damaged, is not known any more: NaN. Mode and fault stay.
    #[cold]
    pub fn decode(&self, frame: &Frame, symbol: Symbol, servo: &mut ServoState) {
        let Rotation { reply, readings, .. } = &self.rotations[self.rotation_and_mark(symbol).0];
        let values = match reply.fits(frame) {
            true => readings.of_reply(frame),
            false => Values::of_parts(&Reply::parse(frame.payload()).unwrap_or_default()),
        };
        self.put(&values, servo);
    }

    /// Puts the values of a reply into `servo`.
    pub fn put(&self, values: &Values, servo: &mut ServoState) {
        self.put_measured(&values.measured, servo);
        put_mode(values.mode, values.fault, values.refused, servo);
    }

    #[inline(always)]
    fn put_measured(&self, measured: &Measured, servo: &mut ServoState) {
        let Mounting { sign, offset } = self.mounting;
        servo.position = self.scale * unsaturated(measured.position, self.saturated[0]) + offset;
        servo.velocity = self.scale * unsaturated(measured.velocity, self.saturated[1]);
        servo.torque = sign * unsaturated(measured.torque, self.saturated[2]);
        servo.voltage = measured.voltage;
        servo.temperature = measured.temperature;
    }
}

/// Puts into `servo` what it does, what is wrong with it, and what it refuses.
#[inline(never)]
fn put_mode(number: Option<i32>, fault: Option<Fault>, refused: Option<Refused>, servo: &mut ServoState) {
    // What was refused stays as it was last read; anything else that is no mode is never commanded.
    if number.is_some() || refused.is_none() {
        (servo.doing, servo.mode) = mode(number);
    }
    if fault == Some(Fault::NONE) {
        servo.fault = crate::Fault::NONE;
    } else if let Some(fault) = fault {
        servo.fault = crate::Fault { code: fault.0.into(), text: fault.name() };
        // The firmware sets both at once, so one of them is a lie, and its output may be on. One that damps is left to it.
        if fault.switches_off() && servo.doing.is_on() && servo.doing != Doing::Damping {
            servo.doing = Doing::Other;
        }
    }
    servo.refused = refused;
}

/// The request commands its servo: it writes a mode, without which no register of a command takes effect.
pub fn commands(request: &Frame) -> bool {
    let is_mode = |subframe: Subframe<'_>| match subframe {
        Subframe::Write(values) => values.run.start == u32::from(Register::MODE.0),
        _ => false,
    };
    Subframes::new(request.payload()).flatten().any(is_mode)
}

/// The mode of this number.
fn mode(number: Option<i32>) -> (Doing, crate::Mode) {
    match number.and_then(Mode::from_number) {
        Some(mode) => (doing(mode), crate::Mode { number: mode as u8, name: mode.name() }),
        None => (Doing::Other, crate::Mode { number: number.unwrap_or(-1) as u8, ..crate::Mode::UNKNOWN }),
    }
}

/// What a loop has to know of a mode.
const fn doing(mode: Mode) -> Doing {
    match mode {
        Mode::Stopped => Doing::Off,
        Mode::Fault => Doing::Faulted,
        Mode::Enabling | Mode::Calibrating | Mode::CalibrationComplete => Doing::Starting,
        Mode::Position => Doing::Following,
        Mode::ZeroVelocity => Doing::Damping,
        Mode::PositionTimeout => Doing::TimedOut,
        Mode::Pwm
        | Mode::Voltage
        | Mode::VoltageFoc
        | Mode::VoltageDq
        | Mode::Current
        | Mode::StayWithin
        | Mode::MeasureInductance
        | Mode::Brake => Doing::Other,
    }
}

/// What a reply measures, in the servo's units; NaN if absent.
#[derive(Debug)]
pub struct Measured {
    position: f64,
    velocity: f64,
    torque: f64,
    voltage: f64,
    temperature: f64,
}

/// The values of a reply.
pub struct Values {
    measured: Measured,
    mode: Option<i32>,
    fault: Option<Fault>,
    refused: Option<Refused>,
}

/// Where each of [`Values`] is in a reply as it was asked for.
#[derive(Debug)]
pub struct Readings {
    position: Reading,
    velocity: Reading,
    torque: Reading,
    voltage: Reading,
    temperature: Reading,
    mode: Reading,
    fault: Reading,
    usual: Option<Usual>,
}

/// Where what is measured is in the usual formats: motion as floats side by side, voltage and temperature as bytes. They are read at once,
/// without a look at each one's format.
#[derive(Debug)]
struct Usual {
    motion: u8,
    health: u8,
}

impl Usual {
    fn of(layout: &ReplyLayout) -> Option<Self> {
        let [position, velocity, torque] = [Register::POSITION, Register::VELOCITY, Register::TORQUE]
            .map(|register| layout.place(register, Resolution::Float));
        let [voltage, temperature] = [Register::VOLTAGE, Register::TEMPERATURE]
            .map(|register| layout.place(register, Resolution::Int8));
        let (motion, health) = (position?, voltage?);
        let are_beside = [velocity?, torque?, temperature?] == [motion + 4, motion + 8, health + 1];
        are_beside.then_some(Self { motion, health })
    }

    #[inline]
    fn measured(&self, frame: &Frame) -> Option<Measured> {
        let [p0, p1, p2, p3, v0, v1, v2, v3, t0, t1, t2, t3] = *frame.bytes_at(self.motion)?;
        let float = |bytes| f64::from(f32::from_le_bytes(bytes));
        let [voltage, temperature] = frame.bytes_at::<2>(self.health)?.map(|byte| Value::Int8(byte as i8));
        Some(Measured {
            position: float([p0, p1, p2, p3]),
            velocity: float([v0, v1, v2, v3]),
            torque: float([t0, t1, t2, t3]),
            voltage: Class::Voltage.decode(voltage),
            temperature: Class::Temperature.decode(temperature),
        })
    }
}

impl Readings {
    fn of(layout: &ReplyLayout) -> Self {
        Self {
            usual: Usual::of(layout),
            position: layout.reading(Register::POSITION),
            velocity: layout.reading(Register::VELOCITY),
            torque: layout.reading(Register::TORQUE),
            voltage: layout.reading(Register::VOLTAGE),
            temperature: layout.reading(Register::TEMPERATURE),
            mode: layout.reading(Register::MODE),
            fault: layout.reading(Register::FAULT),
        }
    }

    /// What a reply of this layout measures. Inlined: values that are handed over lie in memory.
    #[inline(always)]
    fn measured(&self, frame: &Frame) -> Measured {
        match self.usual.as_ref().and_then(|usual| usual.measured(frame)) {
            Some(measured) => measured,
            None => self.measured_each(frame),
        }
    }

    fn measured_each(&self, frame: &Frame) -> Measured {
        Measured {
            position: self.position.value(frame),
            velocity: self.velocity.value(frame),
            torque: self.torque.value(frame),
            voltage: self.voltage.value(frame),
            temperature: self.temperature.value(frame),
        }
    }

    /// The values of a reply of this layout.
    pub fn of_reply(&self, frame: &Frame) -> Values {
        Values {
            measured: self.measured(frame),
            // Always asked for.
            mode: Some(self.mode.integer(frame)),
            fault: Some(Fault(self.fault.integer(frame) as u8)),
            refused: None,
        }
    }
}

impl Values {
    /// Of a reply that is not as was asked for: something was refused, or it is damaged.
    #[cold]
    fn of_parts(reply: &Reply) -> Self {
        let known = |value: Option<f64>| value.unwrap_or(f64::NAN);
        Self {
            measured: Measured {
                position: known(reply.position),
                velocity: known(reply.velocity),
                torque: known(reply.torque),
                voltage: known(reply.voltage),
                temperature: known(reply.temperature),
            },
            mode: reply.mode_number,
            fault: reply.fault,
            refused: refused(reply),
        }
    }
}

/// The greatest number of a format means "this much or more".
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
    let refused = |error: RegisterError, write| {
        let register = Register(u16::try_from(error.register).unwrap_or(u16::MAX));
        Refused { register: register.0, name: register.entry().map_or("unknown", |entry| entry.name), write }
    };
    let write = reply.write_error.map(|error| refused(error, true));
    write.or_else(|| reply.read_error.map(|error| refused(error, false)))
}

impl Rotation {
    fn new(
        address: Address,
        watchdog_s: f64,
        command: &khz_wire::Format,
        query: &khz_wire::Format,
    ) -> Option<Self> {
        let none = khz_wire::Format::new();
        let damp = Command::ZeroVelocity(ZeroVelocity::default());
        let mut stop = Command::Stop.frame(address, &none, query).ok()?;
        let mut damp = damp.frame(address, &none, query).ok()?;
        let always = Position { watchdog: watchdog_s, ..Position::default() };
        let position = CommandTemplate::new(address, &always, command, query).ok()?;
        let before_reads = |frame: &Frame| frame.payload().len().checked_sub(query.query_len());
        let (mode_len, position_len) = (before_reads(&stop)?, before_reads(position.frame())?);
        stop.pad();
        damp.pad();
        let reply = ReplyLayout::new(query).ok()?;
        Some(Self {
            stop,
            damp,
            position: position.padded(),
            mode_len,
            position_len,
            readings: Readings::of(&reply),
            following: reply.with(&[(Register::MODE, Mode::Position as u8 as f64), (Register::FAULT, 0.0)]),
            reply,
            first: query.runs().next()?.start,
            first_count: query.runs().next()?.count,
        })
    }

    /// No frame of it, its query marked by this register, harms a servo that misreads it.
    fn is_harmless(&self, reads_len: usize, register: Option<u8>) -> bool {
        let (mode, position) = (self.mode_len, self.position_len);
        let all = [(&self.stop, mode), (&self.damp, mode), (self.position.frame(), position)];
        all.into_iter().all(|(frame, commands_len)| {
            let (mut frame, reads) = (*frame, commands_len..commands_len + reads_len);
            register.into_iter().for_each(|register| put_mark(register, reads.clone(), &mut frame));
            misread::is_harmless(&frame.payload()[commands_len..])
        })
    }
}

/// Puts the read of this register before the others, which are there in the frame, and pads it anew.
#[cold]
fn put_mark(register: u8, reads: Range<usize>, frame: &mut Frame) {
    let payload = frame.payload();
    let mut marked = ArrayVec::<u8, MAX_PAYLOAD>::new();
    for part in [&payload[..reads.start], &[opcode::READ | 1, register], &payload[reads]] {
        // There is room: otherwise there are no marks.
        let _ = marked.try_extend_from_slice(part);
    }
    if let Some(longer) = Frame::new(frame.id, &marked) {
        *frame = longer;
    }
    frame.pad();
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

    fn codec(command: CommandFormat, query: QueryFormat, mounting: Mounting) -> Codec {
        Codec::new(Address::to(1, true), &Settings { command, query }, mounting, 0.1)
    }

    fn frame(codec: &mut Codec, command: &ServoCommand, symbol: Symbol) -> Vec<u8> {
        let mut frame = Frame::new(0, &[]).unwrap();
        codec.encode(command, symbol, &mut frame);
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
        let mut stop = |symbol| frame(&mut codec, &ServoCommand::Stop, symbol);
        assert_eq!(stop(0), [0x01, 0, 0, 0x11, 0, 0x1f, 1, 0x13, 0x0d, 0x50, 0x50, 0x50]);
        assert_eq!(stop(1), [0x01, 0, 0, 0x1f, 1, 0x13, 0x0d, 0x11, 0, 0x50, 0x50, 0x50]);
        assert_eq!(stop(2), [0x01, 0, 0, 0x13, 0x0d, 0x11, 0, 0x1f, 1, 0x50, 0x50, 0x50]);
        // Register 4 marks it, then the reads of rotation 0.
        assert_eq!(stop(3), [0x01, 0, 0, 0x11, 0x04, 0x11, 0, 0x1f, 1, 0x13, 0x0d, 0x50]);
        assert_eq!(frame(&mut codec, &ServoCommand::Damp, 0)[..3], [1, 0, 12]);
    }

    #[test]
    fn a_reply_has_its_rotation_and_its_values() {
        let mounting = Mounting { sign: -1.0, offset: 0.5 };
        let codec = codec(CommandFormat::default(), QueryFormat::default(), mounting);
        // The register specification's example reply: mode 10, 0.25 rev, 1 rev/s, 0.1 N·m, 24.5 V, 30 °C.
        let motion = [0x2f, 1, 0, 0, 0x80, 0x3e, 0, 0, 0x80, 0x3f, 0xcd, 0xcc, 0xcc, 0x3d];
        let (mode, rest) = ([0x21, 0, 0x0a], [0x23, 0x0d, 0x31, 0x1e, 0x00]);
        let mut servo = ServoState::UNKNOWN;
        let reply = [&mode[..], &motion, &rest].concat();
        let read = |symbol, refused| Some(Read { symbol, refused });
        assert_eq!(codec.read(&reply), read(0, false));
        codec.decode(&Frame::new(0x100, &reply).unwrap(), 0, &mut servo);
        assert_eq!((servo.doing, servo.mode.name), (Doing::Following, "position"));
        assert_eq!((servo.voltage, servo.temperature), (24.5, 30.0));
        assert!((servo.position - (0.5 - 0.25 * TAU)).abs() < 1e-12 && (servo.velocity + TAU).abs() < 1e-12);
        assert!((servo.torque + 0.1).abs() < 1e-7);

        assert_eq!(codec.read(&[&rest[..], &mode, &motion].concat()), read(2, false));
        assert_eq!(codec.read(&[0x31, 1, 1]), read(1, false));
        assert_eq!(codec.read(&[0x31, 0x77, 1]), None);
        assert_eq!(codec.read(&[&[0x21, 0x07, 0x50][..], &reply].concat()), read(6, false));
        assert_eq!(codec.read(&[0x31, 0x07, 1]), read(6, true));
        // The first read decides: this answers a query of another host.
        assert_eq!(codec.read(&[&[0x21, 0x78, 0][..], &reply].concat()), None);
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
    fn a_number_that_is_no_mode_is_not_the_mode_before_it() {
        let codec = codec(CommandFormat::default(), QueryFormat::default(), Mounting::default());
        let motion = [0x2f, 1, 0, 0, 0x80, 0x3e, 0, 0, 0x80, 0x3f, 0xcd, 0xcc, 0xcc, 0x3d];
        for (number, doing, name) in
            [(10, Doing::Following, "position"), (15, Doing::Other, "brake"), (42, Doing::Other, "unknown")]
        {
            let mut servo = ServoState { doing: Doing::Following, ..ServoState::UNKNOWN };
            let reply = [&[0x21, 0, number][..], &motion, &[0x23, 0x0d, 0x31, 0x1e, 0x00]].concat();
            codec.decode(&Frame::new(0x100, &reply).unwrap(), 0, &mut servo);
            assert_eq!((servo.doing, servo.mode), (doing, crate::Mode { number, name }));
        }
    }

    /// The last one counted, so that a servo that follows could report beside it that it is off.
    #[test]
    fn a_reply_with_two_modes_is_of_a_servo_in_neither() {
        let codec = codec(CommandFormat::default(), QueryFormat::default(), Mounting::default());
        let motion = [0x2f, 1, 0, 0, 0x80, 0x3e, 0, 0, 0x80, 0x3f, 0xcd, 0xcc, 0xcc, 0x3d];
        let rest = [0x23, 0x0d, 0x31, 0x1e, 0x00];
        let doing = |parts: &[&[u8]]| {
            let mut servo = ServoState { doing: Doing::Off, ..ServoState::UNKNOWN };
            codec.decode(&Frame::new(0x100, &parts.concat()).unwrap(), 0, &mut servo);
            servo.doing
        };
        let [off, follows, unknown] = [0, 10, 42].map(|mode| [0x21, 0, mode]);
        assert_eq!(doing(&[&off, &motion, &rest]), Doing::Off);
        assert_eq!(doing(&[&off, &motion, &rest, &off]), Doing::Off, "the same twice");
        for two in [[off, follows], [follows, off], [unknown, off], [off, unknown]] {
            assert_eq!(doing(&[&two[0], &motion, &rest, &two[1]]), Doing::Other, "{two:?}");
            assert_eq!(doing(&[&two[0], &motion, &two[1], &off]), Doing::Other, "{two:?} and off");
            // A refusal beside it does not hide it.
            assert_eq!(doing(&[&two[0], &[0x31, 1, 1], &two[1]]), Doing::Other, "{two:?}");
        }
    }

    #[test]
    fn a_fault_beside_a_mode_that_is_on_is_no_such_mode() {
        let codec = codec(CommandFormat::default(), QueryFormat::default(), Mounting::default());
        let motion = [0x2f, 1, 0, 0, 0x80, 0x3e, 0, 0, 0x80, 0x3f, 0xcd, 0xcc, 0xcc, 0x3d];
        // 33 is a fault; from 96 on the code names what limits the servo.
        for (mode, fault, doing) in [
            (10, 0, Doing::Following),
            (10, 33, Doing::Other),
            (12, 33, Doing::Damping),
            (10, 96, Doing::Following),
            (0, 33, Doing::Off),
            (1, 33, Doing::Faulted),
        ] {
            let mut servo = ServoState::UNKNOWN;
            let reply = [&[0x21, 0, mode][..], &motion, &[0x23, 0x0d, 0x31, 0x1e, fault]].concat();
            codec.decode(&Frame::new(0x100, &reply).unwrap(), 0, &mut servo);
            assert_eq!((servo.doing, servo.fault.code), (doing, fault.into()), "mode {mode}");
        }
    }

    /// Also where it says the same as the one before, which is read in a shorter way.
    #[test]
    fn what_a_servo_does_is_what_its_newest_reply_says() {
        let codec = codec(CommandFormat::default(), QueryFormat::default(), Mounting::default());
        let motion = [0x2f, 1, 0, 0, 0x80, 0x3e, 0, 0, 0x80, 0x3f, 0xcd, 0xcc, 0xcc, 0x3d];
        let reply = |mode, fault| [&[0x21, 0, mode][..], &motion, &[0x23, 0x0d, 0x31, 0x1e, fault]].concat();
        let refusal = vec![0x21, 0, 10, 0x31, 1, 1];
        let replies: Vec<_> =
            (0..=255).flat_map(|mode| [0, 33, 96].map(|fault| reply(mode, fault))).collect();
        let padded = |payload: &[u8]| {
            let mut frame = Frame::new(0x100, payload).unwrap();
            frame.pad();
            frame
        };
        let after = |mut servo: ServoState, payload: &[u8]| {
            codec.decode(&padded(payload), 0, &mut servo);
            servo
        };
        let says = |servo: ServoState| (servo.doing, servo.mode, servo.fault, servo.refused);
        let following = padded(&reply(10, 0));
        let readings = codec.following(&following, 0).unwrap();
        for before in replies.iter().chain([&refusal]) {
            let before = after(ServoState::UNKNOWN, before);
            for reply in &replies {
                assert_eq!(says(after(before, reply)), says(after(ServoState::UNKNOWN, reply)), "{before:?}");
            }
            let mut short = before;
            codec.put_following(readings, &following, &mut short);
            assert_eq!(short, after(before, following.payload()), "{before:?}");
        }
        let others = replies.iter().filter(|other| codec.following(&padded(other), 0).is_none());
        assert_eq!(others.count(), replies.len() - 1, "one alone is of a servo that follows without a fault");
    }

    #[test]
    fn a_register_refused_leaves_nothing_old_behind() {
        let codec = codec(CommandFormat::default(), QueryFormat::default(), Mounting::default());
        let known = ServoState { position: 1.0, velocity: 2.0, voltage: 24.0, ..ServoState::UNKNOWN };
        let read = |symbol, payload: &[u8]| {
            let mut servo = known;
            assert_eq!(codec.read(payload), Some(Read { symbol, refused: false }));
            codec.decode(&Frame::new(0x100, payload).unwrap(), symbol, &mut servo);
            servo
        };
        // Mode is answered, position is refused, and the rest of the query is dropped.
        let servo = read(0, &[0x21, 0, 0x0a, 0x31, 1, 1]);
        assert_eq!(
            servo.refused.map(|refused| (refused.register, refused.write)),
            Some((Register::POSITION.0, false))
        );
        assert!(servo.position.is_nan() && servo.velocity.is_nan() && servo.voltage.is_nan());
        // The first read is refused, so nothing is answered: torque in the query that begins with position.
        let servo = read(1, &[0x31, 3, 1]);
        assert_eq!(
            servo.refused.map(|refused| (refused.register, refused.write)),
            Some((Register::TORQUE.0, false))
        );
        assert!(servo.position.is_nan());
        // A refused write of the greatest torque comes before whatever is answered.
        let motion = [0x2f, 1, 0, 0, 0x80, 0x3e, 0, 0, 0x80, 0x3f, 0xcd, 0xcc, 0xcc, 0x3d];
        let rest = [0x21, 0, 0x0a, 0x23, 0x0d, 0x31, 0x1e, 0x00];
        let servo = read(0, &[&[0x30, 0x25, 1][..], &rest[..3], &motion, &rest[3..]].concat());
        assert_eq!(
            servo.refused.map(|refused| (refused.register, refused.write)),
            Some((Register::COMMAND_MAX_TORQUE.0, true))
        );
        assert!((servo.position - 0.25 * TAU).abs() < 1e-9);
        assert_eq!(read(0, &[&rest[..3], &motion[..], &rest[3..]].concat()).refused, None);
    }

    /// Where all formats are the usual ones, all are read at once.
    #[test]
    fn what_is_measured_does_not_depend_on_how_it_is_read() {
        let short = QueryFormat { torque: Format::Int16, ..QueryFormat::default() };
        let silent = QueryFormat { voltage: Format::None, ..QueryFormat::default() };
        for (query, is_usual) in [(QueryFormat::default(), true), (short, false), (silent, false)] {
            let codec = codec(CommandFormat::default(), query, Mounting::default());
            for rotation in &codec.rotations {
                assert_eq!(rotation.readings.usual.is_some(), is_usual);
                for seed in 0..=u8::MAX {
                    let bytes: Vec<u8> = (0..64).map(|at: u8| at.wrapping_mul(37) ^ seed).collect();
                    let frame = Frame::new(0x100, &bytes).unwrap();
                    let [short, long] =
                        [rotation.readings.measured(&frame), rotation.readings.measured_each(&frame)];
                    assert_eq!(format!("{short:?}"), format!("{long:?}"));
                }
            }
        }
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

    #[test]
    fn the_longest_formats_leave_room_for_marks() {
        let (a, b) = (Format::Float, Format::Int32);
        let command = CommandFormat {
            position: a,
            velocity: b,
            torque: a,
            kp_scale: b,
            kd_scale: a,
            max_torque: b,
            watchdog: a,
        };
        let query = QueryFormat { position: a, velocity: b, torque: a, voltage: b, temperature: a };
        let mut codec = codec(command, query, Mounting::default());
        let (rotations, marks) = codec.symbols();
        assert_eq!(marks, MARKS.len());
        let hold = ServoCommand::Position(PositionCommand::hold(0.0));
        let plain = frame(&mut codec, &hold, 0);
        let marked = frame(&mut codec, &hold, rotations as Symbol);
        let at = marked.windows(2).position(|pair| pair == [0x11, 0x04]).unwrap();
        assert_eq!([&marked[..at], &marked[at + 2..]].concat()[..60], plain[..60]);
    }

    /// Every query there can be has orders and marks enough that a servo that misreads them is not harmed.
    #[test]
    fn no_query_harms_a_servo_that_misreads_it() {
        let formats = [Format::None, Format::Int8, Format::Int16, Format::Int32, Format::Float];
        for number in 0..formats.len().pow(5) {
            let format = |place| formats[number / formats.len().pow(place) % formats.len()];
            let [position, velocity, torque, voltage, temperature] = [0, 1, 2, 3, 4].map(format);
            let query = QueryFormat { position, velocity, torque, voltage, temperature };
            let mut codec = codec(CommandFormat::default(), query.clone(), Mounting::default());
            let (rotations, marks) = codec.symbols();
            assert!(rotations > 1 && marks > 30, "{query:?}: {rotations} orders and {marks} marks");
            for symbol in 0..rotations + marks {
                let stop = frame(&mut codec, &ServoCommand::Stop, symbol as Symbol);
                assert!(misread::is_harmless(&stop[3..]), "{query:?}: {stop:02x?}");
            }
        }
    }
}
