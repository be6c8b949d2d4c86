//! An emulated Dynamixel servo of the X series: control table, modes, bus watchdog, hardware errors, answers in turn.
//!
//! Made from the maker's manual (see [`khz_wire::dynamixel`]), without the firmware. Where that leaves something open, the assumption is the one
//! that is harder for a host: a servo that is asked with others answers only when the one before it has, and else stays silent; each answer of a
//! sync read takes its return delay; only packets that name it feed its watchdog, and torque enable survives a trip; a goal that was written while
//! the torque was off is followed as soon as that is on; it knows its turns until a restart. Not there: the reverse direction and profiles in time
//! of its drive mode, secondary ids, PWM slope, homing, startup configuration, backup, overload, profile accelerations.

mod answer;
mod misbehaviour;
mod table;

use crate::body::{Drive, JointState};
use crate::config::{Device, WireKind};
use crate::injection::{Injection, Refused};
use crate::position_servo::{PositionServo, VoltageLaw};
use crate::thermal::Thermal;
use crate::twin::{Family, Twin};
use answer::Waiting;
use khz_servo::Doing;
use khz_wire::Frame;
use khz_wire::dynamixel::{MOST_ID, Model, Status, address as at};
use std::any::Any;
use std::f64::consts::TAU;
use table::Table;

/// Steps of a turn; the middle of them is the servo's zero.
pub(crate) const STEPS: f64 = 4096.0;
pub(crate) const MIDDLE: f64 = 2048.0;
/// A step of its velocities, rad/s.
const VELOCITY_STEP: f64 = 0.229 * TAU / 60.0;
/// Steps of the full duty.
const FULL_DUTY: f64 = 885.0;
/// A unit of the watchdog, s.
const WATCHDOG_S: f64 = 0.02;
/// Restarted, it is deaf for so long, s.
const RESTART_S: f64 = 0.25;
/// Winding losses at its greatest torque, W.
const HEAT_AT_MOST: f64 = 10.0;
/// N·m·s/rad at its shaft without any gain: what the motor's back-EMF damps.
pub const BACK_EMF: f64 = 0.05;
/// N·m·s/rad of a unit of the position D gain.
pub const D_GAIN: f64 = 0.001;
/// N·m·s/rad of a unit of the velocity P gain.
pub const VELOCITY_GAIN: f64 = 0.02;

/// Bits of the hardware error status.
const VOLTAGE: u8 = 0x01;
const OVERHEATING: u8 = 0x04;

/// Operating modes.
mod mode {
    pub const CURRENT: u8 = 0;
    pub const VELOCITY: u8 = 1;
    pub const POSITION: u8 = 3;
    pub const MANY_TURNS: u8 = 4;
    pub const CURRENT_POSITION: u8 = 5;
    pub const PWM: u8 = 16;
}

/// What a servo is, and how it was left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// The number of its model.
    pub model: u16,
    /// Its firmware.
    pub firmware: u8,
    /// Its operating mode.
    pub mode: u8,
    /// Return delay time, 2 µs.
    pub return_delay: u8,
    /// Place of its baud rate in [`khz_wire::dynamixel::BAUDS`].
    pub baud: u8,
    /// Torque for each unit of its currents, N·m.
    pub torque_per_step: f64,
    /// Stiffness for each unit of the position P gain, N·m/rad; without a motor.
    pub stiffness_per_step: f64,
    /// Its motor, where it is known: positions are followed by its voltage. Its gain is that of a position P gain of 1.
    pub motor: Option<VoltageLaw>,
    /// It overheats when its board is this warm, °C.
    pub fault_c: f64,
}

impl Default for Setup {
    /// An XM430-W350 that has left its maker, but for the baud rate, in position mode.
    fn default() -> Self {
        Self {
            model: 1020,
            firmware: 46,
            mode: mode::POSITION,
            return_delay: 250,
            baud: 3,
            torque_per_step: 0.0048,
            stiffness_per_step: 0.01,
            motor: None,
            fault_c: 80.0,
        }
    }
}

impl Setup {
    /// What its current is limited to, as it leaves its maker, in steps.
    pub fn most_current(&self) -> u16 {
        match self.model() {
            Some(model) if model.indirect_data == 208 => 1750,
            Some(Model { current_step: None, .. }) => 1000,
            _ => 1193,
        }
    }

    /// What it is supplied with, at least and at most, as it leaves its maker, V.
    pub fn volts(&self) -> [f64; 2] {
        self.model().map_or([9.5, 16.0], |model| model.volts)
    }

    /// What its maker's figures are for, V.
    pub fn nominal_v(&self) -> f64 {
        self.model().map_or(12.0, Model::nominal_v)
    }

    fn is_small(&self) -> bool {
        self.model().is_some_and(|model| model.indirect_data == 208)
    }

    fn model(&self) -> Option<&'static Model> {
        Model::numbered(self.model)
    }
}

impl Family for Setup {
    const MOST_ID: u8 = MOST_ID;
    const LEAST_ID: u8 = 0;

    type Servo = Servo;

    fn switched_on(device: Device<Self>, _: u64) -> Result<Self::Servo, String> {
        Ok(Servo::new(&device))
    }
}

/// The faults put into one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Injected {
    pub silent: bool,
    pub lying: bool,
    pub stuck: bool,
    pub unpowered: bool,
    pub asleep: bool,
}

/// One servo.
#[derive(Clone, Debug)]
pub struct Servo {
    setup: Setup,
    device: Device<()>,
    table: Table,
    joint: JointState,
    /// Added to the joint's angle, rad: whole turns, or what was put into it.
    offset: f64,
    /// Where it takes itself to be, rad.
    measured: JointState,
    /// Where its profile is, rad.
    trajectory: f64,
    /// What a motor that is known adds: goals take effect late, and move within a limit.
    late: Option<PositionServo>,
    torque: f64,
    thermal: Thermal,
    /// Since the last packet that named it, s.
    silent_s: f64,
    deaf_s: f64,
    /// Since it was switched on, s.
    since_s: f64,
    /// The answer that is due when another servo has answered.
    waiting: Option<Waiting>,
    /// A write that an action carries out.
    registered: Option<Frame>,
    delay_ns: i64,
    injected: Injected,
}

impl Servo {
    fn new(device: &Device<Setup>) -> Self {
        let setup = device.family;
        let joint = JointState { position: device.mounting.to_servo(device.joint.start), velocity: 0.0 };
        let mut servo = Self {
            setup,
            device: device.of(()),
            table: Table::new(device.id, &setup),
            joint,
            offset: 0.0,
            measured: joint,
            trajectory: joint.position,
            late: setup.motor.map(|motor| PositionServo::new(motor, joint.position)),
            torque: 0.0,
            thermal: Thermal::new(device.ambient_c),
            silent_s: 0.0,
            deaf_s: 0.0,
            since_s: 0.0,
            waiting: None,
            registered: None,
            delay_ns: 0,
            injected: Injected::default(),
        };
        servo.restart();
        servo.deaf_s = 0.0;
        servo
    }

    /// Power off and on: what is in EEPROM survives, temperatures, and the faults put in.
    fn restart(&mut self) {
        self.table.restart(&self.setup);
        (self.waiting, self.registered) = (None, None);
        (self.torque, self.silent_s, self.since_s, self.deaf_s) = (0.0, 0.0, 0.0, RESTART_S);
        // It knows its place within a turn only.
        let turns = ((self.joint.position + self.offset) / TAU + 0.5).floor();
        self.offset -= turns * TAU;
        self.measure(self.joint);
        self.stay();
        self.table.put(at::GOAL_POSITION, i64::from(steps(self.measured.position)));
        self.refresh();
    }

    fn measure(&mut self, joint: JointState) {
        self.joint = joint;
        if !self.injected.stuck {
            self.measured = JointState { position: joint.position + self.offset, ..joint };
        }
    }

    /// Writes what it measures into its table.
    fn refresh(&mut self) {
        let lying = self.injected.lying;
        let reported = |value: i64, most: i64| if lying { most } else { value };
        let current = self.torque / self.setup.torque_per_step.max(f64::MIN_POSITIVE);
        self.table.put(at::PRESENT_CURRENT, reported(whole(current, i16::MAX.into()), i16::MAX.into()));
        let velocity = whole(self.measured.velocity / VELOCITY_STEP, i32::MAX.into());
        self.table.put(at::PRESENT_VELOCITY, reported(velocity, i32::MAX.into()));
        self.table.put(at::PRESENT_POSITION, reported(steps(self.measured.position).into(), i32::MAX.into()));
        self.table.put(at::POSITION_TRAJECTORY, steps(self.trajectory).into());
        self.table.put(at::PRESENT_INPUT_VOLTAGE, whole(10.0 * self.device.supply_v, u16::MAX.into()));
        self.table.put(at::PRESENT_TEMPERATURE, whole(self.thermal.board_c, u8::MAX.into()));
        self.table.put(at::REALTIME_TICK, (self.since_s * 1e3) as i64 % 32_768);
        let threshold = self.table.get(at::MOVING_THRESHOLD);
        self.table.put(at::MOVING, (velocity.abs() > threshold).into());
    }

    fn is_on(&self) -> bool {
        self.table.get(at::TORQUE_ENABLE) != 0
    }

    fn has_error(&self) -> bool {
        self.table.get(at::HARDWARE_ERROR_STATUS) != 0
    }

    fn fail(&mut self, bits: u8) {
        let errors = self.table.get(at::HARDWARE_ERROR_STATUS) | i64::from(bits);
        self.table.put(at::HARDWARE_ERROR_STATUS, errors);
        if errors & self.table.get(at::SHUTDOWN) != 0 {
            self.table.put(at::TORQUE_ENABLE, 0);
        }
    }

    /// What makes it stop by itself.
    fn watch(&mut self, dt_s: f64) {
        self.silent_s += dt_s;
        let limit_s = self.table.get(at::BUS_WATCHDOG) as f64 * WATCHDOG_S;
        if self.is_on() && limit_s > 0.0 && self.silent_s >= limit_s && !self.table.has_tripped() {
            self.table.trip();
            self.stay();
        }
        if self.thermal.board_c >= self.setup.fault_c.min(self.table.get(at::TEMPERATURE_LIMIT) as f64) {
            self.fail(OVERHEATING);
        }
    }

    /// Where it is to be, rad.
    fn goal(&self) -> f64 {
        if self.table.has_tripped() { self.trajectory } else { radians(self.table.get(at::GOAL_POSITION)) }
    }

    /// Its profile goes on.
    fn follow_profile(&mut self, dt_s: f64) {
        let (mut goal, most) = (self.goal(), self.table.get(at::PROFILE_VELOCITY) as f64 * VELOCITY_STEP);
        if let Some(late) = &mut self.late {
            late.aim(goal);
            late.pass(dt_s);
            goal = late.goal();
        }
        let way = goal - self.trajectory;
        self.trajectory += if most > 0.0 { way.clamp(-most * dt_s, most * dt_s) } else { way };
    }

    /// It is where its goal is, and nothing is on its way.
    fn stay(&mut self) {
        self.trajectory = self.measured.position;
        self.late.iter_mut().for_each(|late| late.forget(self.trajectory));
    }

    fn most_torque(&self) -> f64 {
        self.table.get(at::CURRENT_LIMIT) as f64 * self.setup.torque_per_step
    }

    /// The most torque where no current is limited: what a motor then gives follows from its voltage.
    fn unlimited(&self) -> f64 {
        self.setup.motor.map_or_else(|| self.most_torque(), |_| f64::INFINITY)
    }

    /// What its motor does at this duty, −1 to 1.
    fn turned_by(&self, duty: f64) -> Drive {
        let unknown = || Drive { torque: duty * self.most_torque(), damping: BACK_EMF };
        self.setup.motor.map_or_else(unknown, |motor| motor.driven(self.device.supply_v, duty))
    }

    /// How it follows its position, with at most this share of its duty.
    fn following(&self, share: f64) -> Drive {
        let [p, d] = [at::POSITION_P_GAIN, at::POSITION_D_GAIN].map(|gain| self.table.get(gain) as f64);
        let error = self.trajectory - self.measured.position;
        let Some(motor) = self.setup.motor else {
            return Drive {
                torque: self.setup.stiffness_per_step * p * error,
                damping: BACK_EMF + d * D_GAIN,
            };
        };
        let most = motor.duty_limit * share;
        let drive = self.turned_by((motor.gain * p * error).clamp(-most, most));
        Drive { damping: drive.damping + d * D_GAIN, ..drive }
    }

    /// What it does to its joint.
    fn drive(&mut self, dt_s: f64) -> Drive {
        if !self.is_on() {
            self.stay();
            self.torque = 0.0;
            return Drive::default();
        }
        self.follow_profile(dt_s);
        let tripped = self.table.has_tripped();
        let current = self.table.get(at::GOAL_CURRENT) as f64 * self.setup.torque_per_step;
        let share = self.table.get(at::GOAL_PWM) as f64 / FULL_DUTY;
        let (still, damping, most) = match self.table.get(at::OPERATING_MODE) as u8 {
            mode::CURRENT if tripped => (0.0, 0.0, 0.0),
            mode::CURRENT => (current, 0.0, self.most_torque()),
            mode::PWM => {
                let Drive { torque, damping } = self.turned_by(if tripped { 0.0 } else { share });
                (torque, damping, self.unlimited())
            }
            mode::VELOCITY => {
                let wanted =
                    if tripped { 0 } else { self.table.get(at::GOAL_VELOCITY) } as f64 * VELOCITY_STEP;
                let gain = self.table.get(at::VELOCITY_P_GAIN) as f64 * VELOCITY_GAIN;
                (gain * wanted, gain + BACK_EMF, self.most_torque() * share.abs())
            }
            mode => {
                let Drive { torque, damping } = self.following(share.abs());
                let limits_current = mode == mode::CURRENT_POSITION && !tripped;
                let most = if limits_current { current.abs() } else { self.unlimited() };
                // The duty of a motor is limited already.
                (torque, damping, if self.setup.motor.is_some() { most } else { most * share.abs() })
            }
        };
        self.torque = (still - damping * self.measured.velocity).clamp(-most, most);
        if self.torque.abs() < most {
            Drive { torque: still, damping }
        } else {
            Drive { torque: self.torque, damping: 0.0 }
        }
    }
}

/// The nearest whole number, at most so far from 0.
pub(crate) fn whole(value: f64, most: i64) -> i64 {
    (value.round() as i64).clamp(-most - 1, most)
}

/// An angle in steps.
pub(crate) fn steps(angle: f64) -> i32 {
    (angle / TAU * STEPS + MIDDLE).round() as i32
}

/// Steps as an angle.
fn radians(steps: i64) -> f64 {
    (steps as f64 - MIDDLE) * TAU / STEPS
}

impl Twin for Servo {
    fn takes(&self, request: &Frame) -> bool {
        !self.injected.unpowered && self.deaf_s <= 0.0 && self.is_named(request)
    }

    fn answer(&mut self, request: &Frame, wire: WireKind) -> Option<Frame> {
        if self.injected.unpowered || self.deaf_s > 0.0 {
            return None;
        }
        let answer = match Status::parse(request) {
            Some(status) => self.another_answered(status.id),
            None => self.carry_out(request, wire),
        };
        if self.injected.asleep {
            self.table.put(at::TORQUE_ENABLE, 0);
        }
        answer.filter(|_| !self.injected.silent)
    }

    fn delay_ns(&self) -> i64 {
        self.delay_ns
    }

    fn step(&mut self, joint: JointState, dt_s: f64) -> Drive {
        self.measure(joint);
        if self.injected.unpowered {
            return Drive::default();
        }
        (self.deaf_s, self.since_s) = ((self.deaf_s - dt_s).max(0.0), self.since_s + dt_s);
        self.watch(dt_s);
        let drive = self.drive(dt_s);
        let board_w = if self.is_on() { self.device.thermal.board_w } else { 0.0 };
        let share = self.torque / self.most_torque().max(f64::MIN_POSITIVE);
        let loss_w = [board_w, HEAT_AT_MOST * share * share];
        self.thermal.step(&self.device.thermal, self.device.ambient_c, loss_w, dt_s * self.device.heat_rate);
        self.refresh();
        drive
    }

    fn inject(&mut self, injection: Injection) {
        match injection {
            Injection::Silent(on) => self.injected.silent = on,
            Injection::Lying(on) => self.injected.lying = on,
            Injection::Stuck(on) => self.injected.stuck = on,
            Injection::Asleep(on) => {
                self.injected.asleep = on;
                self.table.put(at::TORQUE_ENABLE, self.table.get(at::TORQUE_ENABLE) & i64::from(!on));
            }
            Injection::Overheated => self.fail(OVERHEATING),
            Injection::Fault(code) => self.fail(code as u8),
            Injection::Reboot => self.restart(),
            Injection::RebootTurned(turns) => {
                self.restart();
                self.shift(f64::from(turns) * TAU);
            }
            Injection::Jump(milliradians) => self.shift(f64::from(milliradians) * 1e-3),
            Injection::Power(on) => {
                self.restart();
                self.injected.unpowered = !on;
            }
            // By its watchdog, which acts although it is fed.
            Injection::RefuseWrite(Some(Refused::Position)) => {
                self.table.trip();
                self.stay();
            }
            Injection::RefuseRead(_) | Injection::RefuseWrite(_) | Injection::Misbehave(_) => {}
        }
    }

    fn set_supply(&mut self, volts: f64) {
        self.device.supply_v = volts;
        let limits =
            [at::MIN_VOLTAGE_LIMIT, at::MAX_VOLTAGE_LIMIT].map(|limit| self.table.get(limit) as f64 / 10.0);
        if !(limits[0]..=limits[1]).contains(&volts) {
            self.fail(VOLTAGE);
        }
    }

    fn set_heat_rate(&mut self, rate: f64) {
        self.device.heat_rate = rate;
    }

    fn is_powered(&self) -> bool {
        !self.injected.unpowered
    }

    fn doing(&self) -> Doing {
        match self.table.get(at::OPERATING_MODE) as u8 {
            _ if self.has_error() => Doing::Faulted,
            _ if !self.is_on() => Doing::Off,
            _ if self.table.has_tripped() => Doing::TimedOut,
            mode::POSITION | mode::MANY_TURNS | mode::CURRENT_POSITION
                if self.table.get(at::POSITION_P_GAIN) == 0 =>
            {
                Doing::Damping
            }
            _ => Doing::Following,
        }
    }

    fn position(&self) -> f64 {
        self.measured.position
    }

    fn torque(&self) -> f64 {
        self.torque
    }

    fn board_c(&self) -> f64 {
        self.thermal.board_c
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Servo {
    /// From now on the position it measures is greater by this, rad.
    fn shift(&mut self, by: f64) {
        self.offset += by;
        self.measured.position += by;
        self.refresh();
    }

    /// A register as it is now, by the address where its item begins; 0 if none does.
    pub fn register(&self, address: u16) -> i64 {
        self.table.get(address)
    }
}
