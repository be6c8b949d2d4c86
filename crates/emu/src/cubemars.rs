//! An emulated CubeMars (T-Motor) AK servo in MIT mode: commands, special codes, state, and nothing else.
//!
//! Made from a client of real ones and the maker's manual (see [`khz_wire::cubemars`]), without the firmware. Where they
//! leave something open, the assumption is the one that is harder for a host: a servo that is enabled carries out the last command it got, also
//! one of before, and for ever unless a watchdog was set with the maker's tool; after "set zero" it is not only silent for a
//! second but deaf; its zero is lost with the power. An error switches it off until it is enabled without its cause.

use crate::config::{Device, WireKind};
use crate::injection::{Injection, Misbehaviour};
use crate::misbehaviour::{FrozenReply, Misbehaviours};
use crate::mit::{self, Common, Motor as _, Scales};
use crate::twin::Family;
use khz_wire::Frame;
use khz_wire::cubemars::{State, frame};
use khz_wire::mit::{Codes, KD, KP, Special};

/// Winding losses at the torque range, W.
const HEAT_AT_MOST: f64 = 50.0;
/// Below and above these it faults, V.
const SUPPLY: (f64, f64) = (16.0, 60.0);
/// For this long after "set zero" it neither receives nor sends anything, s.
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

/// What is a CubeMars's own.
#[derive(Clone, Debug)]
pub struct Motor {
    setup: Setup,
    id: u8,
    is_on: bool,
    error: u8,
    /// It is deaf for so long, s.
    deaf_s: f64,
}

impl Family for Setup {
    const MOST_ID: u8 = mit::MOST_ID;

    type Servo = mit::Servo<Motor>;

    fn switched_on(device: Device<Self>, _: u64) -> Result<Self::Servo, String> {
        let motor = Motor { setup: device.family, id: device.id, is_on: false, error: 0, deaf_s: 0.0 };
        Ok(mit::Servo::new(&device, motor))
    }
}

impl Misbehaviours for Setup {
    /// It does not report whether it is on.
    fn suits(&self, injection: Injection) -> bool {
        mit::suits(injection) && injection != Injection::Misbehave(Some(Misbehaviour::StaysOn))
    }

    /// It reports no mode: an error without a name.
    fn other_modes(&self) -> &'static [u8] {
        &[7]
    }

    fn follows(&self, request: &Frame) -> Option<bool> {
        mit::follows(request)
    }

    fn in_mode(&self, reply: &Frame, mode: u8) -> Frame {
        let mut altered = *reply;
        altered.payload_mut()[7] = mode;
        altered
    }

    fn frozen(&self, reply: &Frame, first: &mut FrozenReply) -> Frame {
        // The last byte has the error.
        mit::frozen(1..7, reply, &mut first.frame)
    }
}

impl Motor {
    fn carry_out(&mut self, common: &mut Common, bytes: [u8; 8]) {
        match Special::from_bytes(bytes) {
            Some(Special::Enable) => {
                self.error = self.cause(common);
                self.is_on = self.error == 0 && !common.injected.asleep;
            }
            Some(Special::Disable) => self.is_on = false,
            Some(Special::SetZero) => {
                common.offset -= common.measured.position;
                common.measured.position = 0.0;
                self.deaf_s = ZERO_S;
            }
            Some(Special::Clear) => {}
            None => common.command = Codes::from_bytes(bytes),
        }
    }

    fn state(&self, common: &Common) -> State {
        let [position, velocity, torque] = common.codes(&self.scales());
        let temperature = Some(common.thermal.motor_c.round().clamp(0.0, 255.0) as u8);
        State { id: self.id, position, velocity, torque, temperature, error: self.error }
    }

    /// What keeps it from being switched on; 0: nothing.
    fn cause(&self, common: &Common) -> u8 {
        match common.device.supply_v {
            _ if common.is_warm(self.setup.fault_c) => OVER_TEMPERATURE,
            volts if volts > SUPPLY.1 => OVER_VOLTAGE,
            volts if volts < SUPPLY.0 => UNDER_VOLTAGE,
            _ => 0,
        }
    }
}

impl mit::Motor for Motor {
    const GEAR: f64 = 9.0;
    const OVERHEATED: u32 = OVER_TEMPERATURE as u32;

    fn scales(&self) -> Scales {
        Scales::symmetric(self.setup.ranges, [KP, KD])
    }

    fn is_on(&self) -> bool {
        self.is_on
    }

    fn has_fault(&self) -> bool {
        self.error != 0
    }

    fn most_torque(&self) -> f64 {
        self.setup.ranges[2]
    }

    fn winding_w(&self, torque: f64) -> f64 {
        HEAT_AT_MOST * (torque / self.setup.ranges[2]).powi(2)
    }

    fn takes(&self, request: &Frame) -> bool {
        let is_own = request.id == u32::from(self.id) && !request.extended && !request.fd;
        is_own && request.payload().len() == 8 && self.deaf_s == 0.0
    }

    fn answer(&mut self, common: &mut Common, request: &Frame, _: WireKind) -> Option<Frame> {
        self.carry_out(common, request.payload().try_into().ok()?);
        common.silent_s = 0.0;
        Some(frame(self.setup.reply_id.into(), self.state(common).to_bytes()))
    }

    fn watch(&mut self, common: &mut Common, dt_s: f64) {
        self.deaf_s = (self.deaf_s - dt_s).max(0.0);
        common.silent_s += dt_s;
        let cause = self.cause(common);
        if cause != 0 {
            self.fault(cause.into());
        }
        if self.setup.watchdog_s > 0.0 && common.silent_s > self.setup.watchdog_s {
            self.is_on = false;
        }
    }

    fn fault(&mut self, code: u32) {
        (self.error, self.is_on) = (code as u8, false);
    }

    fn switch_off(&mut self) {
        self.is_on = false;
    }

    fn restart(&mut self, common: &mut Common) {
        common.forget_turns(Self::GEAR);
        (self.is_on, self.error, self.deaf_s) = (false, 0, 0.0);
    }
}
