//! An emulated Feetech servo of the STS or SMS series: control table with its EEPROM lock, modes, protections, answers in turn.
//!
//! Made from copies of the maker's manual and tables (see [`khz_wire::feetech`]), without the firmware. Its motor is a
//! [`PositionServo`]: it saturates in voltage, and moves its own goal no faster than a limit. Where sources leave something open, the assumption is
//! the one that is harder for a host: a servo that is asked with others answers only when the one before it has, and else stays silent; a write
//! that it does not take is answered like any other; what has switched it off lasts until it is restarted, and so does an overload; a reboot is
//! not answered. With its torque on, at a duty of 0, it brakes: the current of its motor flows. It has no watchdog.
//! Not there: mode 3 (steps), accelerations, the dead zones, least torque and integral gain of its law, the D gain, moves in a given time,
//! backup.

mod answer;
mod misbehaviour;
mod table;

use crate::body::{Drive, JointState};
use crate::config::{Device, WireKind};
use crate::dynamixel::{Injected, STEPS, steps, whole};
use crate::injection::Injection;
use crate::position_servo::{PositionServo, VoltageLaw};
use crate::thermal::Thermal;
use crate::twin::{Family, Twin};
use answer::Waiting;
use khz_servo::Doing;
use khz_wire::Frame;
use khz_wire::feetech::{MOST_ID, Status, address as at};
use std::any::Any;
use std::f64::consts::TAU;
use table::Table;

/// Restarted, it is deaf for so long, s.
const RESTART_S: f64 = 0.8;
/// The step of its currents, A.
const CURRENT_STEP: f64 = 0.0065;
/// Duty for each unit of the speed loop's P gain, s/rad.
pub const SPEED_GAIN: f64 = 0.02;

/// Bits of its conditions.
const VOLTAGE: u8 = 0x01;
const OVERHEATING: u8 = 0x04;
const OVERCURRENT: u8 = 0x08;
const OVERLOAD: u8 = 0x20;

/// Operating modes.
mod mode {
    pub const POSITION: u8 = 0;
    pub const SPEED: u8 = 1;
    pub const PWM: u8 = 2;
}

/// What a servo is, and how it was left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// The number of its model.
    pub model: u16,
    /// Its firmware.
    pub firmware: [u8; 2],
    /// Its operating mode.
    pub mode: u8,
    /// Return delay time, 2 µs.
    pub return_delay: u8,
    /// Place of its baud rate in [`khz_wire::feetech::BAUDS`].
    pub baud: u8,
    /// Its greatest and least voltage, 0.1 V.
    pub volts: [u8; 2],
    /// Its motor; its gain is that of a position P gain of 1.
    pub motor: VoltageLaw,
    /// It overheats when its board is this warm, °C.
    pub fault_c: f64,
}

/// An STS3215 of 7.4 V. Motor and gain are fitted to one (Rhoban/bam, `feetech_sts3215_7_4V/m1`); its goal's speed and delay are what
/// public recordings of the smaller of two Feetech servos have in common.
pub const STS3215: VoltageLaw = VoltageLaw {
    kt: 1.2116,
    resistance: 2.676,
    sag_resistance: 0.0,
    gain: 0.166,
    duty_limit: 0.97,
    goal_speed: Some(4.9),
    delay_ms: 35.0,
};

impl Default for Setup {
    /// An STS3215 that has left its maker.
    fn default() -> Self {
        Self {
            model: 777,
            firmware: [3, 10],
            mode: mode::POSITION,
            return_delay: 0,
            baud: 0,
            volts: [80, 40],
            motor: STS3215,
            fault_c: 70.0,
        }
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

/// One servo.
#[derive(Clone, Debug)]
pub struct Servo {
    setup: Setup,
    device: Device<()>,
    table: Table,
    motor: PositionServo,
    joint: JointState,
    /// Added to the joint's angle, rad: what was put into it, and whole turns.
    offset: f64,
    /// Where it takes itself to be, rad from the middle of its encoder's turn.
    measured: JointState,
    duty: f64,
    torque: f64,
    thermal: Thermal,
    /// Conditions that last.
    failed: u8,
    /// It has been overloaded for so long, and has had too much current, s.
    strained_s: [f64; 2],
    deaf_s: f64,
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
            motor: PositionServo::new(setup.motor, joint.position),
            joint,
            offset: 0.0,
            measured: joint,
            duty: 0.0,
            torque: 0.0,
            thermal: Thermal::new(device.ambient_c),
            failed: 0,
            strained_s: [0.0; 2],
            deaf_s: 0.0,
            waiting: None,
            registered: None,
            delay_ns: 0,
            injected: Injected::default(),
        };
        servo.restart();
        servo.deaf_s = 0.0;
        servo
    }

    /// Power off and on: what is kept in EEPROM survives, temperatures, and the faults put in.
    fn restart(&mut self) {
        self.table.restart();
        (self.waiting, self.registered) = (None, None);
        (self.duty, self.torque, self.failed, self.strained_s) = (0.0, 0.0, 0, [0.0; 2]);
        self.deaf_s = RESTART_S;
        self.forget_turns();
        self.table.put(at::GOAL_POSITION, self.present());
        self.refresh();
    }

    fn forget_turns(&mut self) {
        self.offset -= ((self.joint.position + self.offset) / TAU + 0.5).floor() * TAU;
        self.measure(self.joint);
        self.motor.forget(self.measured.position);
    }

    fn measure(&mut self, joint: JointState) {
        self.joint = joint;
        if !self.injected.stuck {
            self.measured = JointState { position: joint.position + self.offset, ..joint };
        }
    }

    /// The position it reports, steps: of one turn, unless it is set to many.
    fn present(&self) -> i32 {
        let steps_from_zero = steps(self.measured.position) - self.table.get(at::HOMING_OFFSET);
        if self.table.has_many_turns() { steps_from_zero } else { steps_from_zero.rem_euclid(STEPS as i32) }
    }

    /// A reported position as an angle, by the shorter way from where it is.
    fn angle(&self, reported: i32) -> f64 {
        self.measured.position + f64::from(reported - self.present()) * TAU / STEPS
    }

    /// Writes what it measures into its table.
    fn refresh(&mut self) {
        let lying = self.injected.lying;
        let reported = |value: i32| if lying { i32::MAX } else { value };
        let speed = whole(self.measured.velocity / TAU * STEPS, i32::MAX.into()) as i32;
        let current = (self.torque / self.setup.motor.kt / CURRENT_STEP).abs() as i32;
        self.table.put(at::PRESENT_POSITION, reported(self.present()));
        self.table.put(at::PRESENT_SPEED, reported(speed));
        self.table.put(at::PRESENT_LOAD, reported((self.duty * 1000.0).round() as i32));
        self.table.put(at::PRESENT_VOLTAGE, (10.0 * self.device.supply_v).round() as i32);
        self.table.put(at::PRESENT_TEMPERATURE, self.thermal.board_c.round() as i32);
        self.table.put(at::STATUS, self.conditions().into());
        self.table.put(at::MOVING, (speed != 0).into());
        self.table.put(at::PRESENT_CURRENT, current);
        self.table.put(at::REGISTERED, self.registered.is_some().into());
    }

    fn is_on(&self) -> bool {
        self.table.get(at::TORQUE_ENABLE) == 1
    }

    /// One that stays off whatever it is commanded reports so.
    fn sleep(&mut self) {
        if self.injected.asleep {
            self.table.put(at::TORQUE_ENABLE, 0);
        }
    }

    /// How it is: what lasts, and its voltage now.
    fn conditions(&self) -> u8 {
        let limits = [at::MIN_VOLTAGE, at::MAX_VOLTAGE].map(|limit| f64::from(self.table.get(limit)) / 10.0);
        let is_fed = (limits[0]..=limits[1]).contains(&self.device.supply_v);
        self.failed | if is_fed { 0 } else { VOLTAGE }
    }

    /// Conditions that make it let go; an overload leaves it some torque.
    fn fail(&mut self, bits: u8) {
        self.failed |= bits;
        let unloads = self.table.get(at::UNLOAD_CONDITIONS) as u8;
        if self.failed & unloads & !OVERLOAD != 0 {
            self.table.put(at::TORQUE_ENABLE, 0);
        }
    }

    /// What protects it.
    fn watch(&mut self, dt_s: f64) {
        let get = |address| f64::from(self.table.get(address));
        let current = (self.torque / self.setup.motor.kt).abs();
        let strained = [
            (self.duty.abs() * 100.0 >= get(at::OVERLOAD_TORQUE), get(at::PROTECTION_TIME), OVERLOAD),
            (current >= get(at::PROTECTION_CURRENT) * CURRENT_STEP, get(at::OVERCURRENT_TIME), OVERCURRENT),
        ];
        let hottest = self.setup.fault_c.min(get(at::MAX_TEMPERATURE));
        let mut bits = if self.thermal.board_c >= hottest { OVERHEATING } else { 0 };
        for ((is_strained, centiseconds, bit), since_s) in strained.into_iter().zip(&mut self.strained_s) {
            *since_s = if is_strained { *since_s + dt_s } else { 0.0 };
            bits |= if *since_s > centiseconds * 0.01 { bit } else { 0 };
        }
        if bits != 0 {
            self.fail(bits);
        }
    }

    /// A goal is there: of a turn within its limits.
    fn aim(&mut self) {
        let goal = self.table.goal();
        self.motor.aim(self.angle(goal));
    }

    /// How much of the supply its motor may get.
    fn most_duty(&self) -> f64 {
        let limit = f64::from(self.table.get(at::TORQUE_LIMIT)) / 1000.0;
        let is_overloaded = self.failed & OVERLOAD != 0;
        let spared =
            if is_overloaded { f64::from(self.table.get(at::PROTECTIVE_TORQUE)) / 100.0 } else { 1.0 };
        self.setup.motor.duty_limit * limit.min(spared)
    }

    /// Its law as its table has it.
    fn law(&self) -> VoltageLaw {
        let motor = self.setup.motor;
        let most = f64::from(self.table.get(at::GOAL_SPEED).abs()) * TAU / STEPS;
        let own = motor.goal_speed.unwrap_or(f64::INFINITY);
        let goal_speed = if most > 0.0 { most.min(own) } else { own };
        VoltageLaw {
            gain: motor.gain * f64::from(self.table.get(at::POSITION_P)),
            duty_limit: self.most_duty(),
            goal_speed: goal_speed.is_finite().then_some(goal_speed),
            ..motor
        }
    }

    /// What it does to its joint.
    fn drive(&mut self, dt_s: f64) -> Drive {
        if !self.is_on() {
            self.motor.forget(self.measured.position);
            (self.duty, self.torque) = (0.0, 0.0);
            return Drive::default();
        }
        let (supply, motor, most) = (self.device.supply_v, self.setup.motor, self.most_duty());
        let drive = match self.table.get(at::MODE) as u8 {
            mode::SPEED => {
                let wanted = f64::from(self.table.get(at::GOAL_SPEED)) * TAU / STEPS;
                let gain = SPEED_GAIN * f64::from(self.table.get(at::SPEED_P));
                let duty = motor.kt * wanted / supply + gain * (wanted - self.measured.velocity);
                self.duty = duty.clamp(-most, most);
                motor.driven(supply, self.duty)
            }
            mode::PWM => {
                self.duty = (f64::from(self.table.get(at::GOAL_TIME)) / 1000.0).clamp(-most, most);
                motor.driven(supply, self.duty)
            }
            _ => {
                self.motor.set_law(self.law());
                let drive = self.motor.step(self.measured, supply, dt_s);
                self.duty = self.motor.duty(self.measured.position);
                drive
            }
        };
        self.torque = drive.torque - drive.damping * self.measured.velocity;
        drive
    }

    /// From now on the position it measures is greater by this, rad.
    fn shift(&mut self, by: f64) {
        self.offset += by;
        self.measured.position += by;
        self.refresh();
    }

    /// A register as it is now, by the address where its item begins; 0 if none does.
    pub fn register(&self, address: u8) -> i32 {
        self.table.get(address)
    }
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
        self.sleep();
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
        self.deaf_s = (self.deaf_s - dt_s).max(0.0);
        let drive = self.drive(dt_s);
        self.watch(dt_s);
        let current = self.torque / self.setup.motor.kt;
        let board_w = if self.is_on() { self.device.thermal.board_w } else { 0.0 };
        let loss_w = [board_w, current * current * self.setup.motor.resistance];
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
                self.sleep();
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
            Injection::RefuseRead(_) | Injection::RefuseWrite(_) | Injection::Misbehave(_) => {}
        }
    }

    fn set_supply(&mut self, volts: f64) {
        self.device.supply_v = volts;
    }

    fn set_heat_rate(&mut self, rate: f64) {
        self.device.heat_rate = rate;
    }

    fn is_powered(&self) -> bool {
        !self.injected.unpowered
    }

    fn doing(&self) -> Doing {
        match self.failed {
            0 if !self.is_on() => Doing::Off,
            0 => Doing::Following,
            _ => Doing::Faulted,
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
