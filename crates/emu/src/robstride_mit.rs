//! An emulated RobStride servo set to its MIT protocol: commands, state, faults, and nothing else.
//!
//! Made from the maker's manuals and a client (see [`khz_wire::robstride_mit`]), without the firmware. Where they leave something open,
//! it does what the same drives were recorded to do by their private protocol ([`crate::robstride`]): it answers "enable" late, is deaf
//! for a while after "set zero", and knows its place within a turn of its output after power-up. Else the assumption is
//! the one that is harder for a host: it carries out the last command it got, also one of before it was enabled, and for ever; in another
//! mode than 0 it answers commands and does not carry them out; the request that clears faults reports them once more. Requests for
//! ids, protocol, reports and storing are not answered.

use crate::body::JointState;
use crate::config::{Device, WireKind};
use crate::injection::{Injection, Misbehaviour};
use crate::misbehaviour::{FrozenReply, Misbehaviours};
use crate::mit::{self, Common, Motor as _, Scales};
use crate::twin::Family;
use khz_wire::Frame;
use khz_wire::robstride_mit::{KD, KP, MOST_ID, Reply, Request, State, frame};
use std::f64::consts::{PI, TAU};

/// Winding losses at the torque range, W.
const HEAT_AT_MOST: f64 = 50.0;
/// Below and above these it faults, V.
const SUPPLY: (f64, f64) = (12.0, 60.0);
/// How much later than other requests it answers "enable" if it is off, ns.
const ENABLE_NS: i64 = 1_300_000;
/// From when to when after "set zero" it neither receives nor sends anything, if it is off, s.
const DARK_S: [f64; 2] = [0.5, 0.567];

/// Faults, by bit.
const OVER_TEMPERATURE: u16 = 1;
const UNDER_VOLTAGE: u16 = 1 << 2;
const OVER_VOLTAGE: u16 = 1 << 3;

/// What a motor is, and how it was set up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// The identifier of its replies.
    pub host_id: u8,
    /// Half the ranges of position, velocity and torque: rad, rad/s, N·m.
    pub ranges: [f64; 3],
    /// It faults when board or windings are this warm, °C.
    pub fault_c: f64,
}

/// What is its own.
#[derive(Clone, Debug)]
pub struct Motor {
    setup: Setup,
    id: u8,
    is_on: bool,
    mode: u8,
    faults: u16,
    /// Since "set zero", s.
    zeroed_s: f64,
    /// Of the last reply.
    delay_ns: i64,
}

impl Family for Setup {
    const MOST_ID: u8 = MOST_ID;

    type Servo = mit::Servo<Motor>;

    fn switched_on(device: Device<Self>, _: u64) -> Result<Self::Servo, String> {
        let (setup, id) = (device.family, device.id);
        let motor =
            Motor { setup, id, is_on: false, mode: 0, faults: 0, zeroed_s: f64::INFINITY, delay_ns: 0 };
        let mut servo = mit::Servo::new(&device, motor);
        servo.restart();
        Ok(servo)
    }
}

impl Misbehaviours for Setup {
    /// Its states report neither whether it is on nor a fault: a host cannot be expected to notice.
    fn suits(&self, injection: Injection) -> bool {
        let is_unseen = matches!(
            injection,
            Injection::Misbehave(Some(Misbehaviour::StaysOn | Misbehaviour::Mode(_)))
                | Injection::Fault(_)
                | Injection::Overheated
        );
        mit::suits(injection) && !is_unseen
    }

    fn other_modes(&self) -> &'static [u8] {
        &[]
    }

    fn follows(&self, request: &Frame) -> Option<bool> {
        match Request::from_bytes(request.payload().try_into().ok()?)? {
            Request::Command(codes) => Some(codes.kp > 0),
            Request::Stop => Some(false),
            _ => None,
        }
    }

    fn in_mode(&self, reply: &Frame, _: u8) -> Frame {
        *reply
    }

    fn frozen(&self, reply: &Frame, first: &mut FrozenReply) -> Frame {
        mit::frozen(1..8, reply, &mut first.frame)
    }
}

impl Motor {
    /// Carries out a request; what it answers.
    fn carry_out(&mut self, common: &mut Common, request: Request) -> Reply {
        let faults = self.faults;
        match request {
            Request::Command(codes) if self.mode == 0 => common.command = codes,
            Request::Command(_) => {}
            Request::Enable if !self.is_on && faults == 0 && !common.injected.asleep => {
                (self.is_on, self.delay_ns) = (true, ENABLE_NS);
            }
            Request::Enable => {}
            Request::Stop => self.is_on = false,
            Request::SetZero => {
                common.offset = -common.joint.position;
                common.measured.position = 0.0;
                self.zeroed_s = 0.0;
            }
            Request::Faults { clear } => {
                if clear {
                    self.faults = 0;
                }
                if faults != 0 {
                    return Reply::Faults { id: self.id, faults };
                }
            }
            Request::Mode(mode) => self.mode = mode,
        }
        let [position, velocity, torque] = common.codes(&self.scales());
        let temperature = (10.0 * common.thermal.motor_c).round() as i16;
        Reply::State(State { id: self.id, position, velocity, torque, temperature })
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
        self.faults != 0
    }

    fn most_torque(&self) -> f64 {
        self.setup.ranges[2]
    }

    fn winding_w(&self, torque: f64) -> f64 {
        HEAT_AT_MOST * (torque / self.setup.ranges[2]).powi(2)
    }

    fn takes(&self, request: &Frame) -> bool {
        let is_own = request.id == u32::from(self.id) && !request.extended && !request.fd;
        let is_dark = !self.is_on && (DARK_S[0]..DARK_S[1]).contains(&self.zeroed_s);
        is_own && request.payload().len() == 8 && !is_dark
    }

    fn answer(&mut self, common: &mut Common, request: &Frame, _: WireKind) -> Option<Frame> {
        self.delay_ns = 0;
        let request = Request::from_bytes(request.payload().try_into().ok()?)?;
        Some(frame(self.setup.host_id, self.carry_out(common, request).to_bytes()))
    }

    fn watch(&mut self, common: &mut Common, dt_s: f64) {
        self.zeroed_s += dt_s;
        let volts = common.device.supply_v;
        let found = [
            (common.is_warm(self.setup.fault_c), OVER_TEMPERATURE),
            (volts < SUPPLY.0, UNDER_VOLTAGE),
            (volts > SUPPLY.1, OVER_VOLTAGE),
        ];
        let found: u16 = found.into_iter().filter_map(|(is_so, bit)| is_so.then_some(bit)).sum();
        if found != 0 {
            self.fault(found.into());
        }
    }

    fn fault(&mut self, code: u32) {
        self.faults |= code as u16;
        self.is_on = false;
    }

    fn switch_off(&mut self) {
        self.is_on = false;
    }

    /// Of where it is it knows the place within a turn of its output.
    fn restart(&mut self, common: &mut Common) {
        let position = (common.joint.position + common.offset + PI).rem_euclid(TAU) - PI;
        common.offset = position - common.joint.position;
        common.measured = JointState { position, ..common.joint };
        (self.is_on, self.mode, self.faults, self.zeroed_s) = (false, 0, 0, f64::INFINITY);
    }

    fn wrapped(&self, position: f64) -> f64 {
        let half = self.setup.ranges[0];
        (position + half).rem_euclid(2.0 * half) - half
    }

    fn shift(&self, common: &mut Common, by: f64) {
        common.offset += by;
        common.measure(common.joint, self);
    }

    fn delay_ns(&self) -> i64 {
        self.delay_ns
    }
}
