//! An emulated Damiao servo: MIT commands, special codes, registers, status, watchdog.
//!
//! Made from the clients that talk to real ones (see [`khz_wire::damiao`]), without the firmware. Where they say nothing the
//! assumption is the one that is harder for a host: a servo that is enabled carries out the last command it got, also one of before;
//! registers are written while it is enabled, too, and act at once; every command, code or register request for it feeds its
//! watchdog; a servo whose time is over switches its output off and says "communication lost" until it is commanded to clear.

use crate::body::{Drive, JointState};
use crate::config::{Device, WireKind};
use crate::injection::Injection;
use crate::lies::{Lies, Said};
use crate::mit::{self, Injected, Law, offset_within_rotor_turn};
use crate::thermal::Thermal;
use crate::twin::{Family, Twin};
use khz_servo::Doing;
use khz_wire::Frame;
use khz_wire::damiao::{
    self, Access, REGISTERS, RegisterReply, Special, State, TIMEOUT_PER_S, register, status,
};
use khz_wire::mit::{Codes, KD, KP, Scale};
use std::any::Any;
use std::ops::Range;

/// Numbers of registers.
const COUNT: usize = 82;
/// Winding losses per torque squared, W/(N·m)²: a motor of the 4310's size.
const HEAT_PER_TORQUE2: f64 = 0.5;
/// Below and above these it faults, V.
const SUPPLY: (f64, f64) = (15.0, 60.0);
/// Gear between rotor and output: the position is known within one turn of the rotor.
const GEAR: f64 = 10.0;

/// How a Damiao motor leaves the factory, or was set since.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// The identifier of its replies.
    pub master_id: u16,
    /// It speaks CAN-FD.
    pub can_fd: bool,
    /// Half the ranges of position, velocity and torque: rad, rad/s, N·m.
    pub ranges: [f64; 3],
    /// It faults when board or rotor are this warm, °C.
    pub fault_c: f64,
}

/// One servo.
#[derive(Clone, Debug)]
pub struct Servo {
    config: Device<Setup>,
    registers: [[u8; 4]; COUNT],
    /// What survives a loss of power.
    saved: [[u8; 4]; COUNT],
    status: u8,
    command: Codes,
    /// Added to the joint's angle to give the position, rad.
    offset: f64,
    /// As measured, rad and rad/s.
    measured: JointState,
    torque: f64,
    thermal: Thermal,
    /// Since the last frame for it, s.
    unheard_s: f64,
    injected: Injected,
}

impl Setup {
    /// The bytes of a reply that tell the state; the first one has the status. None of a reply about registers.
    fn state(reply: &Frame) -> Range<usize> {
        let is_state = RegisterReply::parse(reply.payload(), reply.payload()[0]).is_none();
        if is_state { 1..8 } else { 0..0 }
    }
}

impl Lies for Setup {
    fn suits(&self, injection: Injection) -> bool {
        mit::suits(injection)
    }

    /// A status without a name.
    fn other_modes(&self) -> &'static [u8] {
        &[7]
    }

    fn follows(&self, request: &Frame) -> Option<bool> {
        mit::follows(request).filter(|_| request.id != REGISTERS)
    }

    fn in_mode(&self, reply: &Frame, mode: u8) -> Frame {
        let mut lied = *reply;
        if !Self::state(reply).is_empty() {
            lied.payload_mut()[0] = mode << 4 | reply.payload()[0] & 0xf;
        }
        lied
    }

    fn frozen(&self, reply: &Frame, said: &mut Said) -> Frame {
        mit::frozen(Self::state(reply), reply, &mut said.frame)
    }
}

impl Servo {
    fn new(config: Device<Setup>) -> Self {
        let motor = &config.family;
        let mut registers = [[0; 4]; COUNT];
        let mut set = |register: u8, value: [u8; 4]| registers[usize::from(register)] = value;
        let integers = [
            (register::MASTER_ID, motor.master_id.into()),
            (register::ID, config.id.into()),
            (register::CONTROL_MODE, 1),
            (register::SOFTWARE, 5017),
            (register::POLE_PAIRS, 14),
            (register::BIT_RATE, if motor.can_fd { 9 } else { 4 }),
        ];
        integers.into_iter().for_each(|(register, value): (u8, u32)| set(register, value.to_le_bytes()));
        let ranges = [register::POSITION_RANGE, register::VELOCITY_RANGE, register::TORQUE_RANGE];
        ranges.into_iter().zip(motor.ranges).for_each(|(register, range)| set(register, float(range)));
        let mut servo = Self {
            measured: JointState { position: config.mounting.to_servo(config.joint.start), velocity: 0.0 },
            thermal: Thermal::new(config.ambient_c),
            config,
            registers,
            saved: registers,
            status: status::DISABLED,
            command: Codes::default(),
            offset: 0.0,
            torque: 0.0,
            unheard_s: 0.0,
            injected: Injected::default(),
        };
        servo.command = servo.at_rest();
        servo
    }

    fn id(&self) -> u8 {
        self.registers[usize::from(register::ID)][0]
    }

    fn integer(&self, register: u8) -> u32 {
        u32::from_le_bytes(self.registers[usize::from(register)])
    }

    fn scale(&self, register: u8, bits: u32) -> Scale {
        let most = f64::from(f32::from_le_bytes(self.registers[usize::from(register)]));
        Scale::symmetric(most, bits)
    }

    fn position(&self) -> Scale {
        self.scale(register::POSITION_RANGE, 16)
    }

    fn velocity(&self) -> Scale {
        self.scale(register::VELOCITY_RANGE, 12)
    }

    fn torque_scale(&self) -> Scale {
        self.scale(register::TORQUE_RANGE, 12)
    }

    /// A frame to its own identifier: a code, or a command.
    fn command(&mut self, bytes: [u8; 8]) {
        match Special::from_bytes(bytes) {
            Some(Special::Enable) if self.status == status::DISABLED && !self.injected.asleep => {
                self.status = status::ENABLED;
            }
            Some(Special::Disable) if self.status == status::ENABLED => self.status = status::DISABLED,
            Some(Special::Clear) if self.status != status::ENABLED => self.status = status::DISABLED,
            Some(Special::SetZero) => self.offset -= self.measured.position,
            Some(_) => {}
            None if self.integer(register::CONTROL_MODE) == 1 => self.command = Codes::from_bytes(bytes),
            None => {}
        }
    }

    /// No gains, no torque.
    fn at_rest(&self) -> Codes {
        Codes {
            position: self.position().encode(0.0),
            velocity: self.velocity().encode(0.0),
            torque: self.torque_scale().encode(0.0),
            ..Codes::default()
        }
    }

    fn state(&self) -> State {
        let lying = self.injected.lying;
        State {
            id: self.id(),
            status: self.status,
            position: if lying { u16::MAX } else { self.position().encode(self.measured.position) },
            velocity: if lying { 0xfff } else { self.velocity().encode(self.measured.velocity) },
            torque: if lying { 0xfff } else { self.torque_scale().encode(self.torque) },
            board: byte(self.thermal.board_c),
            rotor: byte(self.thermal.motor_c),
        }
    }

    fn access(&mut self, access: Access) -> [u8; 8] {
        let id = self.id();
        let reply = |asked, register, value| RegisterReply { asked, register, value }.to_bytes(id);
        match access {
            Access::Refresh => self.state().to_bytes(),
            Access::Store => {
                if self.status == status::DISABLED {
                    self.saved = self.registers;
                }
                reply(damiao::STORE, 1, [0; 4])
            }
            Access::Read(register) => reply(damiao::READ, register, self.read(register)),
            Access::Write(register, value) => {
                if is_writable(register) {
                    self.registers[usize::from(register)] = value;
                }
                reply(damiao::WRITE, register, value)
            }
        }
    }

    fn read(&self, register: u8) -> [u8; 4] {
        match register {
            register::VOLTAGE => float(self.config.supply_v),
            register::BOARD => float(self.thermal.board_c),
            register::ROTOR => float(self.thermal.motor_c),
            _ => self.registers.get(usize::from(register)).copied().unwrap_or_default(),
        }
    }

    /// Power off and on: what was saved survives, temperatures and the faults put in. The position is known again within one
    /// turn of the rotor.
    fn reboot(&mut self) {
        let real = self.measured.position - self.offset;
        self.offset = offset_within_rotor_turn(real, GEAR);
        self.measured.position = real + self.offset;
        self.registers = self.saved;
        self.command = self.at_rest();
        (self.status, self.torque, self.unheard_s) = (status::DISABLED, 0.0, 0.0);
    }

    fn measure(&mut self, joint: JointState) {
        if !self.injected.stuck {
            self.measured = JointState { position: joint.position + self.offset, ..joint };
        }
    }

    /// What makes it switch off by itself.
    fn watch(&mut self, dt_s: f64) {
        self.unheard_s += dt_s;
        let timeout_s = f64::from(self.integer(register::TIMEOUT)) / TIMEOUT_PER_S;
        let volts = self.config.supply_v;
        let fault = if self.thermal.board_c >= self.config.family.fault_c {
            Some(status::BOARD_TOO_WARM)
        } else if self.thermal.motor_c >= self.config.family.fault_c {
            Some(status::ROTOR_TOO_WARM)
        } else if volts < SUPPLY.0 {
            Some(status::UNDER_VOLTAGE)
        } else if volts > SUPPLY.1 {
            Some(status::OVER_VOLTAGE)
        } else if self.status == status::ENABLED && timeout_s > 0.0 && self.unheard_s > timeout_s {
            Some(status::LOST_COMMUNICATION)
        } else {
            None
        };
        if let Some(fault) = fault {
            self.status = fault;
        }
    }

    fn drive(&mut self) -> Drive {
        if self.status != status::ENABLED {
            self.torque = 0.0;
            return Drive::default();
        }
        let Codes { position, velocity, kp, kd, torque } = self.command;
        let law = Law {
            kp: KP.decode(kp),
            kd: KD.decode(kd),
            toward: self.position().decode(position) - self.measured.position,
            velocity: self.velocity().decode(velocity),
            torque: self.torque_scale().decode(torque),
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
        let id = self.id();
        let is_own = match request.id {
            REGISTERS => Access::parse(request.payload()).is_some_and(|(to, _)| to == u16::from(id)),
            other => other == u32::from(id),
        };
        // In the wrong format a motor hears noise.
        is_own && !request.extended && request.fd == self.config.family.can_fd && !self.injected.unpowered
    }

    fn answer(&mut self, request: &Frame, _: WireKind) -> Option<Frame> {
        if !self.takes(request) {
            return None;
        }
        let reply = if request.id == REGISTERS {
            self.access(Access::parse(request.payload())?.1)
        } else {
            self.command(request.payload().try_into().ok()?);
            self.state().to_bytes()
        };
        self.unheard_s = 0.0;
        let master_id = self.integer(register::MASTER_ID);
        (!self.injected.silent).then(|| damiao::frame(master_id, self.config.family.can_fd, reply))
    }

    fn step(&mut self, joint: JointState, dt_s: f64) -> Drive {
        self.measure(joint);
        if self.injected.unpowered {
            return Drive::default();
        }
        self.watch(dt_s);
        let drive = self.drive();
        let flow = &self.config.thermal;
        let board_w = if self.status == status::ENABLED { flow.board_w } else { 0.0 };
        let winding_w = HEAT_PER_TORQUE2 * self.torque * self.torque;
        self.thermal.step(flow, self.config.ambient_c, [board_w, winding_w], dt_s * self.config.heat_rate);
        drive
    }

    fn inject(&mut self, injection: Injection) {
        match injection {
            Injection::Silent(on) => self.injected.silent = on,
            Injection::Lying(on) => self.injected.lying = on,
            Injection::Stuck(on) => self.injected.stuck = on,
            Injection::Overheated => self.status = status::BOARD_TOO_WARM,
            Injection::Fault(code) => self.status = (code & 0xf) as u8,
            Injection::Reboot => self.reboot(),
            Injection::RebootTurned(turns) => {
                self.reboot();
                let by = f64::from(turns) * std::f64::consts::TAU / GEAR;
                self.offset += by;
                self.measured.position += by;
            }
            Injection::Power(on) => {
                self.reboot();
                self.injected.unpowered = !on;
            }
            Injection::Asleep(on) => {
                self.injected.asleep = on;
                if on {
                    self.status = status::DISABLED;
                }
            }
            Injection::Jump(milliradians) => {
                let by = f64::from(milliradians) * 1e-3;
                self.offset += by;
                self.measured.position += by;
            }
            // It has no registers in its commands and states that it could refuse; the world has a liar.
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
        match self.status {
            status::DISABLED => Doing::Off,
            // Without a position gain it follows nothing.
            status::ENABLED if self.command.kp == 0 => Doing::Damping,
            status::ENABLED => Doing::Following,
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

fn float(value: f64) -> [u8; 4] {
    (value as f32).to_le_bytes()
}

/// A temperature as it travels; below zero from above.
fn byte(celsius: f64) -> u8 {
    (celsius.round().clamp(-55.0, 200.0) as i16) as u8
}

/// What is measured or belongs to the hardware cannot be written.
fn is_writable(register: u8) -> bool {
    matches!(register, 0..=10 | 21..=35)
}
