//! One emulated moteus: registers, modes, watchdog, control loop, motor and temperature.
//!
//! | module | what |
//! |---|---|
//! | [`registers`] | register number ⇄ value |
//! | [`modes`] | what leads from mode to mode, faults included |
//! | [`watchdog`] | the time a command stays valid |
//! | [`control`] | the torque asked for in each mode |
//! | [`trajectory`] | how the control position moves towards its target |
//! | [`motor`] | torque ⇄ current ⇄ voltage, and everything that limits them |
//! | [`misbehaviour`] | what it sends and receives when it misbehaves |
//! | [`settings`] | what can be configured |
//! | [`telemetry`] | what it reports about itself on its console |
//! | `console` | the text console itself |
//! | `aux` | pins of the auxiliary connectors |
//!
//! Facts come from mjbots/moteus at commit db1a762 (firmware 1.1), read and described anew.

mod aux;
pub mod command;
mod console;
pub mod control;
pub mod misbehaviour;
pub mod modes;
pub mod motor;
mod protocol;
pub mod record;
pub mod registers;
pub mod settings;
pub mod telemetry;
pub mod trajectory;
pub mod watchdog;

use crate::body::{Drive, JointState};
use crate::config::{Device, WireKind};
use crate::injection::{Injection, Refused};
use crate::thermal::Thermal;
use crate::twin::{Family, Twin};
use aux::AuxPort;
use command::Command;
use console::Console;
use control::{Law, Pid};
use khz_servo::Doing;
use khz_wire::address::BROADCAST;
use khz_wire::device::{Forms, Server};
use khz_wire::{Fault, Frame, Mode, Register};
use motor::{Motor, loss};
use settings::Settings;
use std::any::Any;
use std::f64::consts::TAU;
use trajectory::Trajectory;

/// How the position is referenced (register 0x00c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// Relative to where it was switched on.
    Relative = 0,
    /// Known within one turn of the rotor.
    Rotor = 1,
    /// Known at the output.
    Output = 2,
}

/// What a servo measures and does; revolutions, N·m, A, V, W.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Status {
    pub mode: Mode,
    pub fault: Fault,
    pub home: Home,
    pub position: f64,
    pub velocity: f64,
    pub velocity_filtered: f64,
    pub torque: f64,
    pub torque_error: f64,
    /// The torque the position loop asks for, within the commanded limit but before the current limits.
    pub control_torque: f64,
    pub q_a: f64,
    pub d_a: f64,
    pub power_w: f64,
    pub bus_v: f64,
    /// Time left until the watchdog acts, s; NaN is for ever.
    pub timeout_s: f64,
    /// Time left in a transient mode, s.
    pub transient_s: f64,
}

/// One emulated servo.
#[derive(Clone, Debug)]
pub struct Servo {
    config: Device<Setup>,
    settings: Settings,
    /// What survives a reboot.
    saved: Settings,
    /// The values of the registers, including what never took effect.
    written: Command,
    /// A mode was written in the present frame.
    commanded: bool,
    /// What is being carried out.
    active: Command,
    status: Status,
    pid: Pid,
    trajectory: Trajectory,
    thermal: Thermal,
    /// Of the settings, as the motor is.
    law: Law,
    motor: Motor,
    applied: Applied,
    /// Added to the joint's revolutions to give the position.
    offset: f64,
    clock: Clock,
    aux: [AuxPort; 2],
    injected: Injected,
    server: Server,
    /// Of requests so far; taken out while one is answered.
    forms: Option<Box<Forms>>,
    console: Console,
}

/// The servo's own notion of time.
#[derive(Clone, Debug)]
struct Clock {
    /// Nanoseconds since it was switched on.
    ns: i64,
    trim: i32,
}

/// How the motor was driven in this control period.
#[derive(Clone, Copy, Debug, Default)]
struct Applied {
    /// A current was asked for, not a voltage: only then the firmware works out its power.
    regulated: bool,
    /// How far the angle at which the servo measures its currents is ahead of the rotor, rad.
    ahead: f64,
}

/// Faults put in from outside.
#[derive(Clone, Debug, Default)]
struct Injected {
    silent: bool,
    lying: bool,
    stuck: bool,
    unpowered: bool,
    asleep: bool,
    refused_read: Option<Register>,
    refused_write: Option<Register>,
}

/// What is set up in a moteus is among the settings of its [`Device`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup;

impl Family for Setup {
    const MOST_ID: u8 = BROADCAST - 1;

    type Servo = Servo;

    fn switched_on(device: Device<Self>, _: u64) -> Result<Servo, String> {
        let mut settings = Settings::default();
        settings.id.id = device.id;
        settings.uuid.uuid = device.uuid;
        for (name, value) in &device.settings {
            if !settings.set(name, value) {
                return Err(name.clone());
            }
        }
        Ok(Servo::boot(device, settings))
    }
}

impl Servo {
    fn boot(config: Device<Setup>, settings: Settings) -> Self {
        let stopped = Command::new(Mode::Stopped);
        Self {
            status: Status {
                mode: Mode::Stopped,
                fault: Fault::NONE,
                home: Home::Rotor,
                position: config.mounting.to_servo(config.joint.start) / TAU,
                velocity: 0.0,
                velocity_filtered: 0.0,
                torque: 0.0,
                torque_error: 0.0,
                control_torque: 0.0,
                q_a: 0.0,
                d_a: 0.0,
                power_w: 0.0,
                bus_v: config.supply_v,
                timeout_s: 0.0,
                transient_s: 0.0,
            },
            thermal: Thermal::new(config.ambient_c),
            config,
            law: Law::new(&settings),
            motor: Motor::new(&settings),
            saved: settings.clone(),
            settings,
            written: stopped,
            commanded: false,
            active: stopped,
            pid: Pid::default(),
            trajectory: Trajectory::default(),
            applied: Applied::default(),
            offset: 0.0,
            clock: Clock { ns: 0, trim: 0 },
            aux: Default::default(),
            injected: Injected::default(),
            server: Server::new(),
            forms: Some(Box::default()),
            console: Console::new(),
        }
    }

    /// Its id on the bus.
    pub fn id(&self) -> u8 {
        self.settings.id.id
    }

    /// What it measures and does.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// What it is configured to.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How warm it is.
    pub fn thermal(&self) -> &Thermal {
        &self.thermal
    }

    /// Takes its position for another, so many turns of the rotor away.
    fn turn(&mut self, turns: f64) {
        let by = turns * self.saved.motor_position.ratio();
        self.offset += by;
        self.status.position += by;
    }

    /// Power off and on: only what was saved, the temperatures and the faults put in survive. The position
    /// is known again only within one turn of the rotor.
    fn reboot(&mut self) {
        let turned = self.status.position - self.offset;
        let ratio = self.saved.motor_position.ratio();
        let thermal = self.thermal.clone();
        let injected = self.injected.clone();
        *self = Self::boot(self.config.clone(), self.saved.clone());
        self.offset = -(turned / ratio).round() * ratio;
        self.status.position = turned + self.offset;
        self.thermal = thermal;
        self.injected = injected;
    }

    fn seconds(&self) -> f64 {
        self.clock.ns as f64 * 1e-9
    }

    fn measure(&mut self, joint: JointState, dt_s: f64) {
        if !self.injected.stuck {
            self.status.position = joint.position / TAU + self.offset;
            self.status.velocity = joint.velocity / TAU;
        }
        let blend = (dt_s * VELOCITY_FILTER_HZ).min(1.0);
        self.status.velocity_filtered += blend * (self.status.velocity - self.status.velocity_filtered);
    }

    /// Currents, power and heat that come from what was just applied.
    fn account(&mut self, drive: Drive, joint: JointState, dt_s: f64) {
        let torque = drive.torque - drive.damping * joint.velocity;
        let on = self.torque_on();
        if !on {
            self.status.torque_error = 0.0;
            self.status.d_a = 0.0;
        }
        let (d_a, q_a) = (self.status.d_a, if on { self.motor.current(torque) } else { 0.0 });
        // Nearly always the servo knows where its rotor is.
        let ahead = self.applied.ahead;
        let (sine, cosine) = if ahead == 0.0 { (ahead, 1.0) } else { ahead.sin_cos() };
        self.status.d_a = d_a * cosine + q_a * sine;
        self.status.q_a = q_a * cosine - d_a * sine;
        self.status.torque = self.motor.torque(self.status.q_a);

        let flow = &self.config.thermal;
        let winding_w = self.motor.heat(q_a, d_a) * self.thermal.resistance();
        let board_w = if on { flow.board_w + loss(flow.board_ohm, q_a, d_a) } else { 0.0 };
        if !on {
            self.status.power_w = 0.0;
        } else if self.applied.regulated {
            self.status.power_w = winding_w + torque * joint.velocity;
        }
        self.thermal.step(flow, self.config.ambient_c, [board_w, winding_w], dt_s * self.config.heat_rate);
    }
}

/// Cut-off of the velocity that a NaN position captures, rad/s.
const VELOCITY_FILTER_HZ: f64 = 100.0;

impl Twin for Servo {
    fn takes(&self, request: &Frame) -> bool {
        self.is_addressed(request)
    }

    fn answer(&mut self, request: &Frame, wire: WireKind) -> Option<Frame> {
        self.reply(request, wire)
    }

    fn step(&mut self, joint: JointState, dt_s: f64) -> Drive {
        if self.injected.unpowered {
            self.measure(joint, dt_s);
            return Drive::default();
        }
        // Rounded, without the call that `round` is.
        self.clock.ns += (dt_s * 1e9 + 0.5) as i64;
        self.measure(joint, dt_s);
        self.count_down(dt_s);
        self.step_mode(dt_s);
        if self.status.mode != Mode::Fault {
            self.status.fault = Fault::NONE;
        }
        let drive = self.control(dt_s);
        self.account(drive, joint, dt_s);
        drive
    }

    fn set_heat_rate(&mut self, rate: f64) {
        self.config.heat_rate = rate;
    }

    fn set_supply(&mut self, volts: f64) {
        self.config.supply_v = volts;
        self.status.bus_v = volts;
    }

    fn inject(&mut self, injection: Injection) {
        match injection {
            Injection::Silent(on) => self.injected.silent = on,
            Injection::Lying(on) => self.injected.lying = on,
            Injection::Stuck(on) => self.injected.stuck = on,
            Injection::Overheated => self.fail(Fault::OVER_TEMPERATURE),
            Injection::Fault(code) => self.fail(Fault(code as u8)),
            Injection::Reboot => self.reboot(),
            Injection::RebootTurned(turns) => {
                self.reboot();
                self.turn(f64::from(turns));
            }
            Injection::Power(on) => {
                // What it starts as when the power is back is what it is without: off.
                self.reboot();
                self.injected.unpowered = !on;
            }
            Injection::Jump(milliradians) => {
                let by = f64::from(milliradians) * 1e-3 / TAU;
                self.offset += by;
                self.status.position += by;
            }
            // The world does that (`tamper`).
            Injection::Misbehave(_) => {}
            Injection::RefuseRead(what) => self.injected.refused_read = what.map(register_read),
            Injection::RefuseWrite(what) => self.injected.refused_write = what.map(register_written),
            Injection::Asleep(on) => {
                self.injected.asleep = on;
                if on {
                    self.apply(command::Command::new(Mode::Stopped));
                }
            }
        }
    }

    fn is_powered(&self) -> bool {
        !self.injected.unpowered
    }

    fn doing(&self) -> Doing {
        match self.status.mode {
            Mode::Position => Doing::Following,
            Mode::PositionTimeout => Doing::TimedOut,
            Mode::ZeroVelocity => Doing::Damping,
            Mode::Fault => Doing::Faulted,
            mode if mode.is_active() => Doing::Other,
            _ => Doing::Off,
        }
    }

    fn position(&self) -> f64 {
        self.status.position * TAU
    }

    fn torque(&self) -> f64 {
        self.status.torque
    }

    fn board_c(&self) -> f64 {
        self.thermal.board_c
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn register_read(what: Refused) -> Register {
    match what {
        Refused::Position => Register::POSITION,
        Refused::MaxTorque => Register::COMMAND_MAX_TORQUE,
    }
}

fn register_written(what: Refused) -> Register {
    match what {
        Refused::Position => Register::COMMAND_POSITION,
        Refused::MaxTorque => Register::COMMAND_MAX_TORQUE,
    }
}
