//! Reads every frame on the wires and judges the host by them alone. It reads the register protocol only; other servos are
//! judged by what their joints do.

use khz_file::RobotConfig;
use khz_link::Received;
use khz_loop::supervisor::Limits;
use khz_wire::{Address, Frame, Mode, Register, Subframe, Subframes, Value};
use std::f64::consts::TAU;

/// A joint found so far outside its limits is led back from there (`position_tolerance`), rad.
const LED_BACK: f64 = 0.05;

/// What the wires carried so far.
pub struct WireMonitor {
    servos: Vec<Watched>,
    /// When a fault was first reported to the host.
    pub fault_reported_ns: Option<i64>,
    /// When each servo was first commanded something gentler than to follow a position after that.
    answered_ns: Vec<Option<i64>>,
    /// The first command beyond the limits.
    pub beyond: Option<String>,
}

struct Watched {
    name: String,
    bus: u8,
    id: u8,
    limits: Limits,
    sign: f64,
    offset: f64,
}

impl WireMonitor {
    pub fn new(config: &RobotConfig) -> Self {
        let watched = |servo: &khz_file::config::ServoConfig| Watched {
            name: servo.name.clone(),
            bus: servo.bus as u8,
            id: servo.id,
            limits: servo.limits.clone(),
            sign: f64::from(servo.sign),
            offset: servo.offset,
        };
        let is_read = |servo: &&khz_file::config::ServoConfig| servo.in_file().facts().by_registers;
        let servos: Vec<_> = config.servos.iter().filter(is_read).map(watched).collect();
        Self { answered_ns: vec![None; servos.len()], servos, fault_reported_ns: None, beyond: None }
    }

    /// A frame from the host.
    pub fn sent(&mut self, channel: u8, frame: &Frame, now_ns: i64) {
        let id = Address::from_id(frame.id).destination;
        let Some(index) = self.servos.iter().position(|servo| servo.bus == channel && servo.id == id) else {
            return;
        };
        let mut mode = None;
        for subframe in Subframes::new(frame.payload()).flatten() {
            let Subframe::Write(values) = subframe else { continue };
            for (register, value) in values.iter() {
                if register == u32::from(Register::MODE.0) {
                    mode = Some(value.integer());
                }
                let Ok(register) = u16::try_from(register) else { continue };
                if let Some(what) = self.servos[index].beyond(Register(register), value) {
                    self.beyond.get_or_insert(what);
                }
            }
        }
        let gentle = mode.is_some_and(|mode| mode != Mode::Position as i32);
        if self.fault_reported_ns.is_some() && gentle {
            self.answered_ns[index].get_or_insert(now_ns);
        }
    }

    /// A frame to the host.
    pub fn received(&mut self, received: &Received) {
        if self.servos.is_empty() {
            return;
        }
        let message = Subframes::new(received.frame.payload()).flatten().any(|subframe| match subframe {
            Subframe::Reply(values) => values.iter().any(|(register, value)| {
                register == u32::from(Register::MODE.0) && value.integer() == Mode::Fault as i32
            }),
            _ => false,
        });
        if message {
            self.fault_reported_ns.get_or_insert(received.at_ns);
        }
    }

    /// From the first fault on the wire until the last servo was commanded to damp or stop.
    pub fn reaction_ns(&self) -> Option<i64> {
        let reported_ns = self.fault_reported_ns?;
        let last = self.answered_ns.iter().copied().collect::<Option<Vec<i64>>>()?.into_iter().max()?;
        Some(last - reported_ns)
    }
}

/// Position, velocity or torque at the end of its format, or beyond that of a float.
fn is_cut(register: Register, value: Value) -> bool {
    let commanded = [
        Register::COMMAND_POSITION,
        Register::COMMAND_VELOCITY,
        Register::COMMAND_TORQUE,
        Register::COMMAND_MAX_TORQUE,
    ];
    let ends = match value {
        Value::Int8(value) => value.unsigned_abs() == 127,
        Value::Int16(value) => value.unsigned_abs() == 32_767,
        Value::Int32(value) => value.unsigned_abs() == 2_147_483_647,
        Value::Float(value) => value.is_infinite(),
    };
    ends && commanded.contains(&register)
}

impl Watched {
    /// What is too much about a value written to the servo, if something is.
    fn beyond(&self, register: Register, value: Value) -> Option<String> {
        if is_cut(register, value) {
            return Some(format!(
                "{}: cut to the end of its format in register {:#05x}",
                self.name, register.0
            ));
        }
        // One step of the coarsest format: values are truncated, not rounded, on the wire.
        let number = register.class().decode(value);
        let step = register.class().lsb(value.resolution());
        let slack = if step < 1.0 { step } else { 1e-5 * number.abs().max(1.0) };
        let over = |size: f64, limit: Option<f64>| limit.is_some_and(|limit| size > limit + slack * TAU);
        let too_much = match register {
            Register::COMMAND_POSITION => {
                let angle = self.sign * number * TAU + self.offset;
                let slack = LED_BACK + slack * TAU;
                self.limits.position.is_some_and(|[low, high]| angle < low - slack || angle > high + slack)
            }
            Register::COMMAND_VELOCITY => over((number * TAU).abs(), self.limits.velocity),
            Register::COMMAND_TORQUE | Register::COMMAND_MAX_TORQUE => over(number.abs(), self.limits.torque),
            _ => false,
        };
        // Only position commands obey these limits; damping has the servo's own.
        too_much.then(|| format!("{}: {number} written to register {:#05x}", self.name, register.0))
    }
}
