//! An emulated CubeMars (T-Motor) AK servo in MIT mode: commands, special codes, state, and nothing else.
//!
//! Made from a client of real ones and the maker's manual (see [`khz_wire::cubemars`]), without the firmware. Where they say
//! nothing the assumption is the one that is harder for a host: a servo that is enabled carries out the last command it got, also
//! one of before, and for ever unless a watchdog was set with the maker's tool; after "set zero" it is not only silent for a
//! second but deaf; its zero is lost with the power. An error switches it off until it is enabled without its cause.

use crate::body::{Drive, JointState};
use crate::config::{Device, WireKind};
use crate::injection::{Injection, Lie};
use crate::lies::{Lies, Said};
use crate::mit::{self, Injected, Law, offset_within_rotor_turn};
use crate::thermal::Thermal;
use crate::twin::{Family, Twin};
use khz_servo::Doing;
use khz_wire::Frame;
use khz_wire::cubemars::{State, frame};
use khz_wire::mit::{Codes, KD, KP, Scale, Special};
use std::any::Any;

/// Winding losses at the torque range, W.
const HEAT_AT_MOST: f64 = 50.0;
/// Below and above these it faults, V.
const SUPPLY: (f64, f64) = (16.0, 60.0);
/// Gear between rotor and output: the position is known within one turn of the rotor.
const GEAR: f64 = 9.0;
/// It hears and says nothing so long after "set zero", s.
const ZERO_S: f64 = 1.0;

/// Numbers of [`State::error`].
const OVER_TEMPERATURE: u8 = 1;
const OVER_VOLTAGE: u8 = 3;
const UNDER_VOLTAGE: u8 = 4;

/// How a CubeMars motor was set up with its maker's tool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// The identifier of its replies; may be its own id.
    pub reply_id: u16,
    /// Half the ranges of position, velocity and torque: rad, rad/s, N·m.
    pub ranges: [f64; 3],
    /// It faults when board or windings are this warm, °C.
    pub fault_c: f64,
    /// It switches off when it was sent nothing for so long, s; 0: never.
    pub watchdog_s: f64,
}

/// One servo.
#[derive(Clone, Debug)]
pub struct Servo {
    config: Device<Setup>,
    is_on: bool,
    error: u8,
    command: Codes,
    /// Added to the joint's angle to give the position, rad.
    offset: f64,
    /// As measured, rad and rad/s.
    measured: JointState,
    torque: f64,
    thermal: Thermal,
    /// Since the last frame for it, s.
    unheard_s: f64,
    /// It is deaf for so long, s.
    deaf_s: f64,
    injected: Injected,
}

impl Lies for Setup {
    /// Whether it is on it does not tell.
    fn suits(&self, injection: Injection) -> bool {
        mit::suits(injection) && injection != Injection::Lie(Some(Lie::StaysOn))
    }

    /// It tells no mode: an error without a name.
    fn other_modes(&self) -> &'static [u8] {
        &[7]
    }

    fn follows(&self, request: &Frame) -> Option<bool> {
        mit::follows(request)
    }

    fn in_mode(&self, reply: &Frame, mode: u8) -> Frame {
        let mut lied = *reply;
        lied.payload_mut()[7] = mode;
        lied
    }

    fn frozen(&self, reply: &Frame, said: &mut Said) -> Frame {
        // The last byte has the error.
        mit::frozen(1..7, reply, &mut said.frame)
    }
}

impl Servo {
    fn new(config: Device<Setup>) -> Self {
        let mut servo = Self {
            measured: JointState { position: config.mounting.to_servo(config.joint.start), velocity: 0.0 },
            thermal: Thermal::new(config.ambient_c),
            config,
            is_on: false,
            error: 0,
            command: Codes::default(),
            offset: 0.0,
            torque: 0.0,
            unheard_s: 0.0,
            deaf_s: 0.0,
            injected: Injected::default(),
        };
        servo.command = servo.at_rest();
        servo
    }

    /// Of position, velocity and torque.
    fn scales(&self) -> [Scale; 3] {
        let [position, velocity, torque] = self.config.family.ranges;
        [Scale::symmetric(position, 16), Scale::symmetric(velocity, 12), Scale::symmetric(torque, 12)]
    }

    /// No gains, no torque.
    fn at_rest(&self) -> Codes {
        let [position, velocity, torque] = self.scales().map(|scale| scale.encode(0.0));
        Codes { position, velocity, torque, ..Codes::default() }
    }

    fn carry_out(&mut self, bytes: [u8; 8]) {
        match Special::from_bytes(bytes) {
            Some(Special::Enable) => {
                self.error = self.cause();
                self.is_on = self.error == 0 && !self.injected.asleep;
            }
            Some(Special::Disable) => self.is_on = false,
            Some(Special::SetZero) => {
                self.offset -= self.measured.position;
                self.measured.position = 0.0;
                self.deaf_s = ZERO_S;
            }
            Some(Special::Clear) => {}
            None => self.command = Codes::from_bytes(bytes),
        }
    }

    fn state(&self) -> State {
        let values = [self.measured.position, self.measured.velocity, self.torque];
        let codes = self.scales().into_iter().zip(values);
        let mut codes =
            codes.map(|(scale, value)| if self.injected.lying { scale.last() } else { scale.encode(value) });
        let mut next = || codes.next().unwrap_or_default();
        State {
            id: self.config.id,
            position: next(),
            velocity: next(),
            torque: next(),
            temperature: Some(self.thermal.motor_c.round().clamp(0.0, 255.0) as u8),
            error: self.error,
        }
    }

    /// What keeps it from being switched on; 0: nothing.
    fn cause(&self) -> u8 {
        match self.config.supply_v {
            _ if self.thermal.board_c.max(self.thermal.motor_c) >= self.config.family.fault_c => {
                OVER_TEMPERATURE
            }
            volts if volts > SUPPLY.1 => OVER_VOLTAGE,
            volts if volts < SUPPLY.0 => UNDER_VOLTAGE,
            _ => 0,
        }
    }

    fn fault(&mut self, error: u8) {
        (self.error, self.is_on) = (error, false);
    }

    /// Power off and on. The position is known again within one turn of the rotor.
    fn reboot(&mut self) {
        let real = self.measured.position - self.offset;
        self.offset = offset_within_rotor_turn(real, GEAR);
        self.measured.position = real + self.offset;
        self.command = self.at_rest();
        (self.is_on, self.error, self.torque) = (false, 0, 0.0);
        (self.unheard_s, self.deaf_s) = (0.0, 0.0);
    }

    fn measure(&mut self, joint: JointState) {
        if !self.injected.stuck {
            self.measured = JointState { position: joint.position + self.offset, ..joint };
        }
    }

    /// What makes it switch off by itself.
    fn watch(&mut self, dt_s: f64) {
        self.deaf_s = (self.deaf_s - dt_s).max(0.0);
        self.unheard_s += dt_s;
        let cause = self.cause();
        if cause != 0 {
            self.fault(cause);
        }
        if self.config.family.watchdog_s > 0.0 && self.unheard_s > self.config.family.watchdog_s {
            self.is_on = false;
        }
    }

    fn drive(&mut self) -> Drive {
        if !self.is_on {
            self.torque = 0.0;
            return Drive::default();
        }
        let Codes { position, velocity, kp, kd, torque } = self.command;
        let [positions, velocities, torques] = self.scales();
        let law = Law {
            kp: KP.decode(kp),
            kd: KD.decode(kd),
            toward: positions.decode(position) - self.measured.position,
            velocity: velocities.decode(velocity),
            torque: torques.decode(torque),
        };
        let most = self.config.family.ranges[2];
        let drive;
        (self.torque, drive) = law.drive(self.measured.velocity, most);
        drive
    }
}

impl Family for Setup {
    const MOST_ID: u8 = mit::MOST_ID;

    type Servo = Servo;

    fn switched_on(device: Device<Self>, _: u64) -> Result<Servo, String> {
        Ok(Servo::new(device))
    }
}

impl Twin for Servo {
    fn takes(&self, request: &Frame) -> bool {
        let is_own = request.id == u32::from(self.config.id) && !request.extended && !request.fd;
        is_own && request.payload().len() == 8 && self.deaf_s == 0.0 && !self.injected.unpowered
    }

    fn answer(&mut self, request: &Frame, _: WireKind) -> Option<Frame> {
        if !self.takes(request) {
            return None;
        }
        self.carry_out(request.payload().try_into().ok()?);
        self.unheard_s = 0.0;
        (!self.injected.silent).then(|| frame(self.config.family.reply_id.into(), self.state().to_bytes()))
    }

    fn step(&mut self, joint: JointState, dt_s: f64) -> Drive {
        self.measure(joint);
        if self.injected.unpowered {
            return Drive::default();
        }
        self.watch(dt_s);
        let drive = self.drive();
        let flow = &self.config.thermal;
        let board_w = if self.is_on { flow.board_w } else { 0.0 };
        let winding_w = HEAT_AT_MOST * (self.torque / self.config.family.ranges[2]).powi(2);
        self.thermal.step(flow, self.config.ambient_c, [board_w, winding_w], dt_s * self.config.heat_rate);
        drive
    }

    fn inject(&mut self, injection: Injection) {
        match injection {
            Injection::Silent(on) => self.injected.silent = on,
            Injection::Lying(on) => self.injected.lying = on,
            Injection::Stuck(on) => self.injected.stuck = on,
            Injection::Overheated => self.fault(OVER_TEMPERATURE),
            Injection::Fault(code) => self.fault(code as u8),
            Injection::Reboot => self.reboot(),
            Injection::RebootTurned(turns) => {
                self.reboot();
                let by = f64::from(turns) * std::f64::consts::TAU / GEAR;
                self.offset += by;
                self.measured.position += by;
            }
            Injection::Jump(milliradians) => {
                let by = f64::from(milliradians) * 1e-3;
                self.offset += by;
                self.measured.position += by;
            }
            Injection::Power(on) => {
                self.reboot();
                self.injected.unpowered = !on;
            }
            Injection::Asleep(on) => {
                self.injected.asleep = on;
                self.is_on &= !on;
            }
            // It has no registers that it could refuse.
            Injection::RefuseRead(_) | Injection::RefuseWrite(_) | Injection::Lie(_) => {}
        }
    }

    fn set_supply(&mut self, volts: f64) {
        self.config.supply_v = volts;
    }

    fn set_heat_rate(&mut self, rate: f64) {
        self.config.heat_rate = rate;
    }

    fn is_powered(&self) -> bool {
        !self.injected.unpowered
    }

    fn doing(&self) -> Doing {
        match self.is_on {
            _ if self.error != 0 => Doing::Faulted,
            false => Doing::Off,
            // Without a position gain it follows nothing.
            true if self.command.kp == 0 => Doing::Damping,
            true => Doing::Following,
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
