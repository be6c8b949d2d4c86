//! An emulated MyActuator RMD motor: motion mode, messages, brake, watchdog, errors, restarts, reply time.
//!
//! Made from the maker's "Servo Motor Control Protocol V4.2", two clients and published measurements (see [`khz_wire::rmd`]), without
//! the firmware. Where they leave something open, the assumption is the one that is harder for a host: the first command that moves it switches it
//! on, whatever was sent before; an error that vanishes lets it move again as it was commanded last; every frame for it feeds its
//! watchdog, which acts with the output off, too; it knows its angle within one turn of its output after a restart; a brake that is not
//! released keeps its joint free of torque, but answers as if it moved.

use crate::body::JointState;
use crate::config::{Device, WireKind};
use crate::injection::Injection;
use crate::misbehaviour::{FrozenReply, Misbehaviours};
use crate::mit::{self, Common, Motor as _, Scales};
use crate::twin::{Family, STEP_NS};
use khz_wire::Frame;
use khz_wire::mit::{Codes, KD, KP};
use khz_wire::rmd::{
    self, ALL, IDS, LASTING, MOST_ID, MOTION_REPLIES, MOTIONS, Message, Motion, REPLIES, REQUESTS, State,
    Status, V44, command, function, hundredths, radians,
};
use std::f64::consts::TAU;

/// Winding losses at the torque range, W.
const HEAT_AT_MOST: f64 = 50.0;
/// Below and above these it faults, V.
const SUPPLY: (f64, f64) = (12.0, 60.0);
/// Pulses of a turn.
const PULSES: f64 = 65_536.0;
/// N·m/A of its output, to report a current.
const TORQUE_CONSTANT: f64 = 1.5;
/// The gains of the commands that have none.
const OWN_GAINS: [f64; 2] = [50.0, 1.0];
/// An error that vanishes by itself does so after this, s.
const PASSING_S: f64 = 0.5;
/// Restarted, it is deaf for so long, s.
const RESTART_S: f64 = 1.1;
/// A brake takes so long to be released, s.
const BRAKE_S: f64 = 0.1;
/// Period at which it reports that its watchdog has acted, ns.
const CUT_OFF_NS: i64 = 1_000_000_000;

/// Bits of its errors.
const LOW_VOLTAGE: u16 = 0x0004;
const OVER_VOLTAGE: u16 = 0x0008;
const MOTOR_TEMPERATURE: u16 = 0x1000;

/// What an RMD motor is, and how it was left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// What it calls itself.
    pub name: [u8; 7],
    /// Of its firmware.
    pub date: u32,
    /// Half the ranges of position, velocity and torque: rad, rad/s, N·m.
    pub ranges: [f64; 3],
    /// It faults when board or windings are this warm, °C.
    pub fault_c: f64,
    /// Its watchdog as it was set once, ms; 0: none, as it leaves the factory.
    pub watchdog_ms: u32,
    /// It has a brake.
    pub brake: bool,
    /// From a command to its reply, beyond the turnaround of its bus, ns.
    pub reply_delay_ns: i64,
}

/// What is kept without power.
#[derive(Clone, Copy, Debug)]
struct Rom {
    id: u8,
    watchdog_ms: u32,
    /// Added to the joint's angle, rad.
    zero: f64,
    accelerations: [[u8; 4]; 4],
}

/// What is an RMD's own.
#[derive(Clone, Debug)]
pub struct Motor {
    setup: Setup,
    rom: Rom,
    /// As it was at the last start.
    id: u8,
    /// A command that moves it came, and no "off" since.
    is_commanded: bool,
    /// The brake is released.
    is_released: bool,
    /// Until the brake is released, s, and how often that is reported then.
    brake_s: f64,
    releases: u8,
    /// Errors that stay until a restart.
    lasting: u16,
    /// Those that vanish, and when, s.
    passing: (u16, f64),
    /// Causes that are there now.
    causes: u16,
    /// Its watchdog has acted, and nothing was received since; the next time to report so, ns.
    cut_off_ns: Option<i64>,
    /// It listens to its own id only.
    filters: bool,
    /// What it sends by itself: the command, its period and the next time, ns.
    unasked: Option<(u8, i64, i64)>,
    /// It is deaf for so long, s.
    deaf_s: f64,
    /// It restarts after the present request.
    restarts: bool,
    /// Since the emulation began, and its own start, ns.
    now_ns: i64,
    started_ns: i64,
}

impl Family for Setup {
    const MOST_ID: u8 = MOST_ID;

    type Servo = mit::Servo<Motor>;

    fn switched_on(device: Device<Self>, _: u64) -> Result<Self::Servo, String> {
        let motor = Motor::new(device.id, device.family);
        let mut servo = mit::Servo::new(&device, motor);
        servo.restart();
        servo.motor.deaf_s = 0.0;
        Ok(servo)
    }
}

impl Misbehaviours for Setup {
    fn suits(&self, injection: Injection) -> bool {
        mit::suits(injection)
    }

    /// It reports no mode: an error.
    fn other_modes(&self) -> &'static [u8] {
        &[0x10]
    }

    fn follows(&self, request: &Frame) -> Option<bool> {
        if is_motion(request) {
            return mit::follows(request);
        }
        let is_off = request.payload().first() == Some(&command::OFF);
        (is_off && request.id > REQUESTS && request.id <= ALL).then_some(false)
    }

    fn in_mode(&self, reply: &Frame, mode: u8) -> Frame {
        let mut altered = *reply;
        if reply.id < MOTION_REPLIES && reply.payload().first() == Some(&command::STATUS) {
            altered.payload_mut()[6] = mode;
        }
        altered
    }

    fn frozen(&self, reply: &Frame, first: &mut FrozenReply) -> Frame {
        let state = if reply.id > MOTION_REPLIES { 1..6 } else { 0..0 };
        mit::frozen(state, reply, &mut first.frame)
    }
}

fn is_motion(request: &Frame) -> bool {
    (MOTIONS + 1..=MOTIONS + u32::from(MOST_ID)).contains(&request.id)
}

impl Motor {
    fn new(id: u8, setup: Setup) -> Self {
        let accelerations = [10_000_u32.to_le_bytes(); 4];
        Self {
            setup,
            rom: Rom { id, watchdog_ms: setup.watchdog_ms, zero: 0.0, accelerations },
            id,
            is_commanded: false,
            is_released: !setup.brake,
            brake_s: 0.0,
            releases: 0,
            lasting: 0,
            passing: (0, 0.0),
            causes: 0,
            cut_off_ns: None,
            filters: true,
            unasked: None,
            deaf_s: 0.0,
            restarts: false,
            now_ns: 0,
            started_ns: 0,
        }
    }

    fn errors(&self) -> u16 {
        self.lasting | self.passing.0 | self.causes
    }

    fn off(&mut self) {
        (self.is_commanded, self.is_released, self.brake_s, self.releases) =
            (false, !self.setup.brake, 0.0, 0);
    }

    /// Follows these codes from now on.
    fn follow(&mut self, common: &mut Common, codes: Codes) {
        common.command = codes;
        self.is_commanded = !common.injected.asleep;
    }

    fn state(&self, common: &Common) -> State {
        let [position, velocity, torque] = common.codes(&self.scales());
        State { id: self.id, position, velocity, torque, temperature: None, error: 0 }
    }

    fn motion(&self, common: &Common, command: u8) -> Message {
        let JointState { position, velocity } = common.measured;
        let whole = |value: f64| value.round().clamp(f64::from(i16::MIN), f64::from(i16::MAX)) as i16;
        Motion {
            celsius: celsius(common),
            current: whole(100.0 * common.torque / TORQUE_CONSTANT),
            speed: whole(velocity.to_degrees()),
            angle: whole(position.to_degrees()),
        }
        .to_message(command)
    }

    fn status(&self, common: &Common) -> Message {
        let (volts, errors) = (common.device.supply_v, self.errors());
        Status { celsius: celsius(common), released: self.is_on(), volts, errors }.to_message()
    }

    /// A command that has no gains: those are its own.
    fn move_by(&mut self, common: &mut Common, asked: Message) {
        let Scales { position, velocity, torque, kp, kd } = self.scales();
        let rest = Codes {
            position: position.encode(common.measured.position),
            velocity: velocity.encode(0.0),
            torque: torque.encode(0.0),
            ..Codes::default()
        };
        let [own_kp, own_kd] = [kp.encode(OWN_GAINS[0]), kd.encode(OWN_GAINS[1])];
        let angle = radians(asked.number());
        let to = |angle: f64| Codes { position: position.encode(angle), kp: own_kp, kd: own_kd, ..rest };
        let amperes = f64::from(i16::from_le_bytes([asked.value[0], asked.value[1]])) / 100.0;
        let codes = match asked.command {
            command::CURRENT => Codes { torque: torque.encode(amperes * TORQUE_CONSTANT), ..rest },
            command::SPEED => Codes { velocity: velocity.encode(angle), kd: own_kd, ..rest },
            command::POSITION | command::WITHIN_TURN => to(angle),
            command::INCREMENT => to(common.measured.position + angle),
            _ => to(common.measured.position),
        };
        self.follow(common, codes);
    }

    /// Carries out a message; what it answers.
    fn carry_out(&mut self, common: &mut Common, asked: Message) -> Option<Message> {
        if let Some(answer) = self.value(common, asked) {
            return Some(answer);
        }
        match asked.command {
            command::WRITE_ACCELERATION => self.rom.accelerations[usize::from(asked.index & 3)] = asked.value,
            command::ZERO_HERE => {
                self.rom.zero = -common.joint.position;
                return Some(Message::with(asked.command, pulses(common.measured.position)));
            }
            command::ZERO_AT => self.rom.zero = -f64::from(asked.number()) / PULSES * TAU,
            command::OFF => self.off(),
            command::RESET => {
                self.restarts = true;
                return None;
            }
            command::RELEASE if self.setup.brake && !self.is_released => {
                self.brake_s = if self.brake_s > 0.0 { self.brake_s } else { BRAKE_S };
                self.releases += 1;
                return None;
            }
            command::BRAKE => self.is_released = !self.setup.brake,
            command::WATCHDOG => self.rom.watchdog_ms = asked.unsigned(),
            command::FUNCTION if asked.index == function::ID => self.rom.id = asked.value[0],
            command::FUNCTION if asked.index == function::ID_FILTER => self.filters = asked.number() != 0,
            command::UNASKED => self.send_unasked(asked),
            command::CURRENT
            | command::SPEED
            | command::POSITION
            | command::WITHIN_TURN
            | command::INCREMENT => {
                self.move_by(common, asked);
                return Some(self.motion(common, asked.command));
            }
            command::HOLD => self.move_by(common, asked),
            command::RELEASE | command::FUNCTION => {}
            other if command::WRITE_GAIN.contains(&other) => {}
            _ => return None,
        }
        Some(asked)
    }

    /// What it answers to a message that only reads; `None` to any other.
    fn value(&self, common: &Common, asked: Message) -> Option<Message> {
        let here = common.measured.position;
        let number = match asked.command {
            command::STATUS => return Some(self.status(common)),
            command::MOTION => return Some(self.motion(common, asked.command)),
            command::MODEL => return Some(self.name(asked)),
            command::ENCODER | command::POWER | command::READ_GAIN => return Some(asked),
            command::PHASES => return Some(Message { index: celsius(common) as u8, ..asked }),
            command::TURN_ANGLE => {
                let [low, high] = (hundredths(here).rem_euclid(36_000) as u16).to_le_bytes();
                return Some(Message { value: [0, 0, low, high], ..Message::of(asked.command) });
            }
            command::READ_ACCELERATION => {
                let value = self.rom.accelerations[usize::from(asked.index & 3)];
                return Some(Message { value, ..asked });
            }
            command::ANGLE if common.injected.lying => i32::MAX,
            command::ANGLE => hundredths(here),
            command::RUNTIME => ((self.now_ns - self.started_ns) / 1_000_000) as i32,
            command::VERSION => self.setup.date as i32,
            command::MODE => 3 << 24,
            other if command::PULSES.contains(&other) => pulses(here),
            _ => return None,
        };
        Some(Message::with(asked.command, number))
    }

    fn send_unasked(&mut self, asked: Message) {
        let [period, _] = [u16::from_le_bytes([asked.value[0], 0]), 0];
        let period_ns = 10_000_000 * i64::from(period.max(1));
        let is_on = asked.limit as u8 == 2;
        self.unasked = is_on.then_some((asked.index, period_ns, self.now_ns + period_ns));
    }

    /// In protocol V4.4 in blocks of five characters, if it is asked so.
    fn name(&self, asked: Message) -> Message {
        let [n0, n1, n2, n3, n4, n5, n6] = self.setup.name;
        if self.setup.date < V44 {
            let limit = u16::from_le_bytes([n1, n2]);
            return Message { command: command::MODEL, index: n0, limit, value: [n3, n4, n5, n6] };
        }
        let block = usize::from(asked.limit as u8) * 5;
        let byte = |at: usize| self.setup.name.get(block + at).copied().unwrap_or(0);
        let limit = u16::from_le_bytes([asked.limit as u8, byte(0)]);
        Message { command: command::MODEL, index: 1, limit, value: [byte(1), byte(2), byte(3), byte(4)] }
    }

    fn reply(&self, message: Message) -> Frame {
        rmd::frame(REPLIES + u32::from(self.id), message)
    }

    /// Reading and writing ids, which every motor answers at the same identifier: what another answers there is no request.
    fn identify(&mut self, asked: Message) -> Option<Frame> {
        let writes = asked.limit as u8 == 0;
        if asked.command != command::ID
            || !writes && asked.number() != 0
            || writes && self.rom.id == asked.value[3]
        {
            return None;
        }
        if writes {
            self.rom.id = asked.value[3];
        }
        let text = (REPLIES + u32::from(self.id)) as i32;
        Some(rmd::frame(
            IDS,
            if writes { asked } else { Message { value: (text << 16).to_le_bytes(), ..asked } },
        ))
    }

    /// What it sends unasked.
    fn unasked(&mut self, common: &Common) -> Option<Frame> {
        if self.releases > 0 && self.is_released {
            self.releases -= 1;
            return Some(self.reply(Message::of(command::RELEASE)));
        }
        if let Some(due_ns) = self.cut_off_ns.filter(|due_ns| *due_ns <= self.now_ns) {
            self.cut_off_ns = Some(due_ns + CUT_OFF_NS);
            return Some(self.reply(Message::of(command::CUT_OFF)));
        }
        let (command, period_ns, due_ns) = self.unasked.filter(|(_, _, due_ns)| *due_ns <= self.now_ns)?;
        self.unasked = Some((command, period_ns, due_ns + period_ns));
        let text = match command {
            command::STATUS => self.status(common),
            command::ANGLE => Message::with(command, hundredths(common.measured.position)),
            other => self.motion(common, other),
        };
        Some(self.reply(text))
    }
}

fn pulses(radians: f64) -> i32 {
    (radians / TAU * PULSES).round() as i32
}

fn celsius(common: &Common) -> i8 {
    common.thermal.motor_c.round().clamp(-128.0, 127.0) as i8
}

impl mit::Motor for Motor {
    const GEAR: f64 = 9.0;
    const OVERHEATED: u32 = MOTOR_TEMPERATURE as u32;

    fn scales(&self) -> Scales {
        let [position, velocity, torque] = rmd::scales(self.setup.ranges);
        Scales { position, velocity, torque, kp: KP, kd: KD }
    }

    fn is_on(&self) -> bool {
        self.is_commanded && self.is_released && self.errors() == 0
    }

    fn has_fault(&self) -> bool {
        self.errors() != 0
    }

    fn most_torque(&self) -> f64 {
        self.setup.ranges[2]
    }

    fn winding_w(&self, torque: f64) -> f64 {
        HEAT_AT_MOST * (torque / self.setup.ranges[2]).powi(2)
    }

    fn takes(&self, request: &Frame) -> bool {
        let id = u32::from(self.id);
        let is_meant =
            [REQUESTS + id, MOTIONS + id, IDS].contains(&request.id) || request.id == ALL && !self.filters;
        is_meant && !request.extended && !request.fd && request.payload().len() == 8 && self.deaf_s == 0.0
    }

    fn answer(&mut self, common: &mut Common, request: &Frame, _: WireKind) -> Option<Frame> {
        let (asked, id) = (Message::parse(request.payload())?, u32::from(self.id));
        common.silent_s = 0.0;
        if self.cut_off_ns.take().is_some() {
            let from = if is_motion(request) { MOTION_REPLIES } else { REPLIES };
            return Some(rmd::frame(from + id, asked));
        }
        let reply = if is_motion(request) {
            self.follow(common, Codes::from_bytes(asked.to_bytes()));
            Some(khz_wire::cubemars::frame(MOTION_REPLIES + id, self.state(common).to_bytes()))
        } else if request.id == IDS {
            self.identify(asked)
        } else {
            self.carry_out(common, asked).map(|text| self.reply(text))
        };
        if std::mem::take(&mut self.restarts) {
            self.restart(common);
        }
        // While it sends by itself it answers nothing.
        reply.filter(|_| self.unasked.is_none())
    }

    fn watch(&mut self, common: &mut Common, dt_s: f64) {
        self.deaf_s = (self.deaf_s - dt_s).max(0.0);
        common.silent_s += dt_s;
        let watchdog_s = f64::from(self.rom.watchdog_ms) * 1e-3;
        if watchdog_s > 0.0 && common.silent_s > watchdog_s && self.cut_off_ns.is_none() {
            self.off();
            self.cut_off_ns = Some(self.now_ns);
        }
        let volts = common.device.supply_v;
        let found = [
            (common.is_warm(self.setup.fault_c), MOTOR_TEMPERATURE),
            (volts < SUPPLY.0, LOW_VOLTAGE),
            (volts > SUPPLY.1, OVER_VOLTAGE),
        ];
        self.causes = found.into_iter().filter_map(|(is_so, bit)| is_so.then_some(bit)).sum();
        if self.causes != 0 {
            self.passing = (self.passing.0 | self.causes, PASSING_S);
        }
        self.passing.1 -= dt_s;
        if self.passing.1 <= 0.0 {
            self.passing = (0, 0.0);
        }
        if self.brake_s > 0.0 {
            self.brake_s -= dt_s;
            self.is_released = self.brake_s <= 0.0;
        }
    }

    fn fault(&mut self, code: u32) {
        let errors = code as u16;
        self.lasting |= errors & LASTING;
        if errors & !LASTING != 0 {
            self.passing = (self.passing.0 | errors & !LASTING, PASSING_S);
        }
    }

    fn switch_off(&mut self) {
        self.off();
    }

    /// Of where it is it knows the place within a turn of its output.
    fn restart(&mut self, common: &mut Common) {
        self.off();
        self.id = self.rom.id;
        (self.lasting, self.passing, self.causes) = (0, (0, 0.0), 0);
        (self.cut_off_ns, self.unasked, self.filters, self.deaf_s) = (None, None, true, RESTART_S);
        self.started_ns = self.now_ns;
        common.command = Codes::default();
        let turns = ((common.joint.position + self.rom.zero) / TAU).round();
        common.offset = self.rom.zero - turns * TAU;
        common.measured = JointState { position: common.joint.position + common.offset, ..common.joint };
    }

    fn pass(&mut self, dt_s: f64) {
        self.now_ns += (dt_s * 1e9).round() as i64;
    }

    fn supply_changed(&mut self, common: &mut Common) {
        self.watch(common, 0.0);
    }

    fn delay_ns(&self) -> i64 {
        self.setup.reply_delay_ns
    }

    fn can_speak(&self) -> bool {
        true
    }

    fn speak(&mut self, common: &Common) -> Option<Frame> {
        if self.deaf_s > 0.0 {
            return None;
        }
        self.unasked(common)
    }

    fn unasked_ns(&self, common: &Common) -> Option<i64> {
        let nanoseconds = |seconds: f64| (seconds * 1e9) as i64;
        let watchdog_s = f64::from(self.rom.watchdog_ms) * 1e-3;
        let cuts = (watchdog_s > 0.0).then(|| nanoseconds(watchdog_s - common.silent_s));
        let off = self.cut_off_ns.map(|due_ns| due_ns - self.now_ns);
        let sends = self.unasked.map(|(_, _, due_ns)| due_ns - self.now_ns);
        let brakes = (self.releases > 0).then(|| nanoseconds(self.brake_s));
        let first_ns = [off.or(cuts), sends, brakes].into_iter().flatten().min()?;
        Some(first_ns.max(STEP_NS))
    }
}
