//! An emulated Damiao servo: MIT commands, special codes, registers, status, watchdog.
//!
//! Made from the clients that talk to real ones (see [`khz_wire::damiao`]), without the firmware. Where they leave something open, the
//! assumption is the one that is harder for a host: a servo that is enabled carries out the last command it got, also one of before;
//! registers are written while it is enabled, too, and act at once; every command, code or register request for it feeds its
//! watchdog; a servo whose time is over switches its output off and reports "communication lost" until it is commanded to clear.

use crate::config::{Device, WireKind};
use crate::injection::Injection;
use crate::misbehaviour::{FrozenReply, Misbehaviours};
use crate::mit::{self, Common, Motor as _, Scales};
use crate::twin::Family;
use khz_wire::Frame;
use khz_wire::damiao::{
    self, Access, REGISTERS, RegisterReply, Special, State, TIMEOUT_PER_S, register, status,
};
use khz_wire::mit::{Codes, KD, KP, Scale};
use std::ops::Range;

/// Numbers of registers.
const COUNT: usize = 82;
/// Winding losses per torque squared, W/(N·m)²: a motor of the 4310's size.
const HEAT_PER_TORQUE2: f64 = 0.5;
/// Below and above these it faults, V.
const SUPPLY: (f64, f64) = (15.0, 60.0);

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

/// What is a Damiao's own.
#[derive(Clone, Debug)]
pub struct Motor {
    setup: Setup,
    registers: [[u8; 4]; COUNT],
    /// What survives a loss of power.
    saved: [[u8; 4]; COUNT],
    status: u8,
}

impl Family for Setup {
    const MOST_ID: u8 = mit::MOST_ID;

    type Servo = mit::Servo<Motor>;

    fn switched_on(device: Device<Self>, _: u64) -> Result<Self::Servo, String> {
        Ok(mit::Servo::new(&device, Motor::new(device.id, device.family)))
    }
}

impl Setup {
    /// The bytes of a reply with the state; the first one has the status. None of a reply about registers.
    fn state(reply: &Frame) -> Range<usize> {
        let is_state = RegisterReply::parse(reply.payload(), reply.payload()[0]).is_none();
        if is_state { 1..8 } else { 0..0 }
    }
}

impl Misbehaviours for Setup {
    fn suits(&self, injection: Injection) -> bool {
        mit::suits(injection)
    }

    fn has_fault(&self, code: u32) -> bool {
        u8::try_from(code).is_ok_and(|code| code > status::ENABLED && status::ALL.contains(&code))
    }

    /// A status without a name.
    fn other_modes(&self) -> &'static [u8] {
        &[7]
    }

    fn follows(&self, request: &Frame) -> Option<bool> {
        mit::follows(request).filter(|_| request.id != REGISTERS)
    }

    fn in_mode(&self, reply: &Frame, mode: u8) -> Frame {
        let mut altered = *reply;
        if !Self::state(reply).is_empty() {
            altered.payload_mut()[0] = mode << 4 | reply.payload()[0] & 0xf;
        }
        altered
    }

    fn frozen(&self, reply: &Frame, first: &mut FrozenReply) -> Frame {
        mit::frozen(Self::state(reply), reply, &mut first.frame)
    }
}

impl Motor {
    fn new(id: u8, setup: Setup) -> Self {
        let mut registers = [[0; 4]; COUNT];
        let mut set = |register: u8, value: [u8; 4]| registers[usize::from(register)] = value;
        let integers = [
            (register::MASTER_ID, setup.master_id.into()),
            (register::ID, id.into()),
            (register::CONTROL_MODE, 1),
            (register::SOFTWARE, 5017),
            (register::POLE_PAIRS, 14),
            (register::BIT_RATE, if setup.can_fd { 9 } else { 4 }),
        ];
        integers.into_iter().for_each(|(register, value): (u8, u32)| set(register, value.to_le_bytes()));
        let ranges = [register::POSITION_RANGE, register::VELOCITY_RANGE, register::TORQUE_RANGE];
        ranges.into_iter().zip(setup.ranges).for_each(|(register, range)| set(register, float(range)));
        Self { setup, registers, saved: registers, status: status::DISABLED }
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

    /// A frame to its own identifier: a code, or a command.
    fn command(&mut self, common: &mut Common, bytes: [u8; 8]) {
        match Special::from_bytes(bytes) {
            Some(Special::Enable) if self.status == status::DISABLED && !common.injected.asleep => {
                self.status = status::ENABLED;
            }
            Some(Special::Disable) if self.status == status::ENABLED => self.status = status::DISABLED,
            Some(Special::Clear) if self.status != status::ENABLED => self.status = status::DISABLED,
            Some(Special::SetZero) => common.offset -= common.measured.position,
            Some(_) => {}
            None if self.integer(register::CONTROL_MODE) == 1 => common.command = Codes::from_bytes(bytes),
            None => {}
        }
    }

    fn state(&self, common: &Common) -> State {
        let [position, velocity, torque] = common.codes(&self.scales());
        State {
            id: self.id(),
            status: self.status,
            position,
            velocity,
            torque,
            board: byte(common.thermal.board_c),
            rotor: byte(common.thermal.motor_c),
        }
    }

    fn access(&mut self, common: &Common, access: Access) -> [u8; 8] {
        let id = self.id();
        let reply = |asked, register, value| RegisterReply { asked, register, value }.to_bytes(id);
        match access {
            Access::Refresh => self.state(common).to_bytes(),
            Access::Store => {
                if self.status == status::DISABLED {
                    self.saved = self.registers;
                }
                reply(damiao::STORE, 1, [0; 4])
            }
            Access::Read(register) => reply(damiao::READ, register, self.read(common, register)),
            Access::Write(register, value) => {
                if is_writable(register) {
                    self.registers[usize::from(register)] = value;
                }
                reply(damiao::WRITE, register, value)
            }
        }
    }

    fn read(&self, common: &Common, register: u8) -> [u8; 4] {
        match register {
            register::VOLTAGE => float(common.device.supply_v),
            register::BOARD => float(common.thermal.board_c),
            register::ROTOR => float(common.thermal.motor_c),
            _ => self.registers.get(usize::from(register)).copied().unwrap_or_default(),
        }
    }
}

impl mit::Motor for Motor {
    const GEAR: f64 = 10.0;
    const OVERHEATED: u32 = status::BOARD_TOO_WARM as u32;

    fn scales(&self) -> Scales {
        Scales {
            position: self.scale(register::POSITION_RANGE, 16),
            velocity: self.scale(register::VELOCITY_RANGE, 12),
            torque: self.scale(register::TORQUE_RANGE, 12),
            kp: KP,
            kd: KD,
        }
    }

    fn is_on(&self) -> bool {
        self.status == status::ENABLED
    }

    fn has_fault(&self) -> bool {
        !matches!(self.status, status::DISABLED | status::ENABLED)
    }

    fn most_torque(&self) -> f64 {
        self.setup.ranges[2]
    }

    fn winding_w(&self, torque: f64) -> f64 {
        HEAT_PER_TORQUE2 * torque * torque
    }

    fn takes(&self, request: &Frame) -> bool {
        let id = self.id();
        let is_own = match request.id {
            REGISTERS => Access::parse(request.payload()).is_some_and(|(to, _)| to == u16::from(id)),
            other => other == u32::from(id),
        };
        // In the wrong format a motor receives noise.
        is_own && !request.extended && request.fd == self.setup.can_fd
    }

    fn answer(&mut self, common: &mut Common, request: &Frame, _: WireKind) -> Option<Frame> {
        let reply = if request.id == REGISTERS {
            self.access(common, Access::parse(request.payload())?.1)
        } else {
            self.command(common, request.payload().try_into().ok()?);
            self.state(common).to_bytes()
        };
        common.silent_s = 0.0;
        Some(damiao::frame(self.integer(register::MASTER_ID), self.setup.can_fd, reply))
    }

    fn watch(&mut self, common: &mut Common, dt_s: f64) {
        common.silent_s += dt_s;
        let timeout_s = f64::from(self.integer(register::TIMEOUT)) / TIMEOUT_PER_S;
        let volts = common.device.supply_v;
        let fault = if common.thermal.board_c >= self.setup.fault_c {
            Some(status::BOARD_TOO_WARM)
        } else if common.thermal.motor_c >= self.setup.fault_c {
            Some(status::ROTOR_TOO_WARM)
        } else if volts < SUPPLY.0 {
            Some(status::UNDER_VOLTAGE)
        } else if volts > SUPPLY.1 {
            Some(status::OVER_VOLTAGE)
        } else if self.is_on() && timeout_s > 0.0 && common.silent_s > timeout_s {
            Some(status::LOST_COMMUNICATION)
        } else {
            None
        };
        self.status = fault.unwrap_or(self.status);
    }

    fn fault(&mut self, code: u32) {
        // One that it does not have changes nothing: four bits of it could switch the motor on.
        if let Some(status) = u8::try_from(code).ok().filter(|status| status::ALL.contains(status)) {
            self.status = status;
        }
    }

    fn switch_off(&mut self) {
        self.status = status::DISABLED;
    }

    fn restart(&mut self, common: &mut Common) {
        common.forget_turns(Self::GEAR);
        self.registers = self.saved;
        self.status = status::DISABLED;
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
