//! An emulated servo in MIT mode, whichever its family: it follows the last command it got, measures, warms up and suffers faults.
//!
//! What a family has of its own is a [`Motor`]: what it receives and sends, and what makes it switch off.

use crate::body::{Drive, JointState};
use crate::config::{Device, WireKind};
use crate::injection::{Injection, Misbehaviour};
use crate::thermal::Thermal;
use crate::twin::Twin;
use khz_servo::Doing;
use khz_wire::Frame;
use khz_wire::mit::{Codes, Scale, Special};
use std::any::Any;
use std::f64::consts::TAU;
use std::ops::Range;

/// What is a family's own of one of its servos.
pub trait Motor: Send + 'static {
    /// Gear between rotor and output.
    const GEAR: f64;
    /// The fault it reports when it is too warm; see [`Motor::fault`].
    const OVERHEATED: u32;

    /// What its codes mean.
    fn scales(&self) -> Scales;

    /// Its output is on.
    fn is_on(&self) -> bool;

    /// It has switched off by itself, and reports why.
    fn has_fault(&self) -> bool;

    /// What it may put on its joint, N·m.
    fn most_torque(&self) -> f64;

    /// Winding losses at this torque, W.
    fn winding_w(&self, torque: f64) -> f64;

    /// The frame is for this servo, which has power.
    fn takes(&self, request: &Frame) -> bool;

    /// Carries out a frame for it; what it answers.
    fn answer(&mut self, common: &mut Common, request: &Frame, wire: WireKind) -> Option<Frame>;

    /// What makes it switch off by itself, after this time.
    fn watch(&mut self, common: &mut Common, dt_s: f64);

    /// It has the fault of this code.
    fn fault(&mut self, code: u32);

    /// Switches its output off, as a host does.
    fn switch_off(&mut self);

    /// Power off and on: of its own only what was stored survives. What it is commanded is forgotten already.
    fn restart(&mut self, common: &mut Common);

    /// Time passes.
    fn pass(&mut self, dt_s: f64) {
        let _ = dt_s;
    }

    /// The position it measures, where positions go round, rad.
    fn wrapped(&self, position: f64) -> f64 {
        position
    }

    /// From now on the position it measures is greater by this, rad.
    fn shift(&self, common: &mut Common, by: f64) {
        common.offset += by;
        common.measured.position += by;
    }

    /// It has another supply voltage.
    fn supply_changed(&mut self, common: &mut Common) {
        let _ = common;
    }

    /// See [`Twin::delay_ns`].
    fn delay_ns(&self) -> i64 {
        0
    }

    /// See [`Twin::can_speak`].
    fn can_speak(&self) -> bool {
        false
    }

    /// See [`Twin::speak`].
    fn speak(&mut self, common: &Common) -> Option<Frame> {
        let _ = common;
        None
    }

    /// See [`Twin::unasked_ns`].
    fn unasked_ns(&self, common: &Common) -> Option<i64> {
        let _ = common;
        None
    }
}

/// What the codes of a servo mean.
#[derive(Clone, Copy, Debug)]
pub struct Scales {
    pub position: Scale,
    pub velocity: Scale,
    pub torque: Scale,
    pub kp: Scale,
    pub kd: Scale,
}

impl Scales {
    /// Of ranges that are symmetric, half of each: position in 16 bits, velocity and torque in 12.
    pub fn symmetric([position, velocity, torque]: [f64; 3], [kp, kd]: [Scale; 2]) -> Self {
        Self {
            position: Scale::symmetric(position, 16),
            velocity: Scale::symmetric(velocity, 12),
            torque: Scale::symmetric(torque, 12),
            kp,
            kd,
        }
    }

    /// No gains, no torque.
    fn at_rest(&self) -> Codes {
        let [position, velocity, torque] =
            [self.position, self.velocity, self.torque].map(|scale| scale.encode(0.0));
        Codes { position, velocity, torque, ..Codes::default() }
    }
}

/// What servos have, whichever their family.
#[derive(Clone, Debug)]
pub struct Common {
    pub device: Device<()>,
    /// The last one it got.
    pub command: Codes,
    /// Where its joint is.
    pub joint: JointState,
    /// Added to the joint's angle to give the position, rad.
    pub offset: f64,
    /// As measured, rad and rad/s.
    pub measured: JointState,
    pub torque: f64,
    pub thermal: Thermal,
    /// Since the last frame for it, s.
    pub silent_s: f64,
    pub injected: Injected,
}

impl Common {
    /// Position, velocity and torque as it reports them.
    pub fn codes(&self, scales: &Scales) -> [u16; 3] {
        let values = [
            (scales.position, self.measured.position),
            (scales.velocity, self.measured.velocity),
            (scales.torque, self.torque),
        ];
        values.map(|(scale, value)| {
            (if self.injected.lying { scale.last() } else { scale.encode(value) }) as u16
        })
    }

    /// Board or windings are so warm, °C.
    pub fn is_warm(&self, celsius: f64) -> bool {
        self.thermal.board_c.max(self.thermal.motor_c) >= celsius
    }

    /// Of where it is it knows the place within one turn of the rotor, as after power-up.
    pub fn forget_turns(&mut self, gear: f64) {
        let (real, turn) = (self.measured.position - self.offset, TAU / gear);
        self.offset = -(real / turn).round() * turn;
        self.measured.position = real + self.offset;
    }

    /// Measures its joint with this motor.
    pub fn measure(&mut self, joint: JointState, motor: &impl Motor) {
        self.joint = joint;
        if !self.injected.stuck {
            let position = motor.wrapped(joint.position + self.offset);
            self.measured = JointState { position, ..joint };
        }
    }
}

/// The faults put into one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Injected {
    pub silent: bool,
    pub lying: bool,
    pub stuck: bool,
    pub unpowered: bool,
    pub asleep: bool,
}

/// One servo.
#[derive(Clone, Debug)]
pub struct Servo<M> {
    common: Common,
    pub motor: M,
}

impl<M: Motor> Servo<M> {
    /// A servo that has just been switched on.
    pub fn new<S>(device: &Device<S>, motor: M) -> Self {
        let joint = JointState { position: device.mounting.to_servo(device.joint.start), velocity: 0.0 };
        let common = Common {
            device: device.of(()),
            command: motor.scales().at_rest(),
            joint,
            offset: 0.0,
            measured: joint,
            torque: 0.0,
            thermal: Thermal::new(device.ambient_c),
            silent_s: 0.0,
            injected: Injected::default(),
        };
        Self { common, motor }
    }

    /// Power off and on: temperatures and the faults put in survive, and what its family stores.
    pub fn restart(&mut self) {
        self.motor.restart(&mut self.common);
        self.common.command = self.motor.scales().at_rest();
        (self.common.torque, self.common.silent_s) = (0.0, 0.0);
    }

    fn drive(&mut self) -> Drive {
        if !self.motor.is_on() {
            self.common.torque = 0.0;
            return Drive::default();
        }
        let Codes { position, velocity, kp, kd, torque } = self.common.command;
        let scales = self.motor.scales();
        let law = Law {
            kp: scales.kp.decode(kp),
            kd: scales.kd.decode(kd),
            toward: scales.position.decode(position) - self.common.measured.position,
            velocity: scales.velocity.decode(velocity),
            torque: scales.torque.decode(torque),
        };
        let drive;
        (self.common.torque, drive) = law.drive(self.common.measured.velocity, self.motor.most_torque());
        drive
    }
}

impl<M: Motor> Twin for Servo<M> {
    fn takes(&self, request: &Frame) -> bool {
        !self.common.injected.unpowered && self.motor.takes(request)
    }

    fn answer(&mut self, request: &Frame, wire: WireKind) -> Option<Frame> {
        if !self.takes(request) {
            return None;
        }
        let reply = self.motor.answer(&mut self.common, request, wire)?;
        (!self.common.injected.silent).then_some(reply)
    }

    fn delay_ns(&self) -> i64 {
        self.motor.delay_ns()
    }

    fn can_speak(&self) -> bool {
        self.motor.can_speak()
    }

    fn speak(&mut self) -> Option<Frame> {
        let unasked = self.motor.speak(&self.common)?;
        let Injected { unpowered, silent, .. } = self.common.injected;
        (!unpowered && !silent).then_some(unasked)
    }

    fn unasked_ns(&self) -> Option<i64> {
        let Injected { unpowered, silent, .. } = self.common.injected;
        self.motor.unasked_ns(&self.common).filter(|_| !unpowered && !silent)
    }

    fn step(&mut self, joint: JointState, dt_s: f64) -> Drive {
        self.motor.pass(dt_s);
        self.common.measure(joint, &self.motor);
        if self.common.injected.unpowered {
            return Drive::default();
        }
        self.motor.watch(&mut self.common, dt_s);
        let drive = self.drive();
        let Common { device, torque, thermal, .. } = &mut self.common;
        let board_w = if self.motor.is_on() { device.thermal.board_w } else { 0.0 };
        let loss_w = [board_w, self.motor.winding_w(*torque)];
        thermal.step(&device.thermal, device.ambient_c, loss_w, dt_s * device.heat_rate);
        drive
    }

    fn inject(&mut self, injection: Injection) {
        let Self { common, motor } = self;
        match injection {
            Injection::Silent(on) => common.injected.silent = on,
            Injection::Lying(on) => common.injected.lying = on,
            Injection::Stuck(on) => common.injected.stuck = on,
            Injection::Overheated => motor.fault(M::OVERHEATED),
            Injection::Fault(code) => motor.fault(code),
            Injection::Reboot => self.restart(),
            Injection::RebootTurned(turns) => {
                self.restart();
                self.motor.shift(&mut self.common, f64::from(turns) * TAU / M::GEAR);
            }
            Injection::Jump(milliradians) => motor.shift(common, f64::from(milliradians) * 1e-3),
            Injection::Power(on) => {
                self.restart();
                self.common.injected.unpowered = !on;
            }
            Injection::Asleep(on) => {
                common.injected.asleep = on;
                if on {
                    motor.switch_off();
                }
            }
            // It has no registers in its commands and states that it could refuse; the world does that.
            Injection::RefuseRead(_) | Injection::RefuseWrite(_) | Injection::Misbehave(_) => {}
        }
    }

    fn set_supply(&mut self, volts: f64) {
        self.common.device.supply_v = volts;
        if !self.common.injected.unpowered {
            self.motor.supply_changed(&mut self.common);
        }
    }

    fn set_heat_rate(&mut self, rate: f64) {
        self.common.device.heat_rate = rate;
    }

    fn is_powered(&self) -> bool {
        !self.common.injected.unpowered
    }

    fn doing(&self) -> Doing {
        match self.motor.is_on() {
            _ if self.motor.has_fault() => Doing::Faulted,
            false => Doing::Off,
            // Without a position gain it follows nothing.
            true if self.common.command.kp == 0 => Doing::Damping,
            true => Doing::Following,
        }
    }

    fn position(&self) -> f64 {
        self.common.measured.position
    }

    fn torque(&self) -> f64 {
        self.common.torque
    }

    fn board_c(&self) -> f64 {
        self.common.thermal.board_c
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A command as numbers.
#[derive(Clone, Copy, Debug)]
struct Law {
    kp: f64,
    kd: f64,
    /// From the measured position to the commanded one, rad.
    toward: f64,
    /// Commanded, rad/s.
    velocity: f64,
    /// Added, N·m.
    torque: f64,
}

impl Law {
    /// The torque at this measured velocity, at most so much, and what it does to the joint.
    fn drive(self, measured: f64, most: f64) -> (f64, Drive) {
        let still = self.kp * self.toward + self.kd * self.velocity + self.torque;
        let torque = (still - self.kd * measured).clamp(-most, most);
        if torque.abs() < most {
            (torque, Drive { torque: still, damping: self.kd })
        } else {
            (torque, Drive { torque, damping: 0.0 })
        }
    }
}

/// The greatest id, as far as nothing else limits it.
pub const MOST_ID: u8 = 127;

/// A jump by less than this is not distinguished from a motion, rad·10⁻³.
pub const LEAST_JUMP: u16 = 150;

/// See [`crate::misbehaviour::Misbehaviours::suits`]: it has no registers in its commands and states that it could refuse, nor a value for "not measured".
pub fn suits(injection: Injection) -> bool {
    match injection {
        Injection::RefuseRead(what) | Injection::RefuseWrite(what) => what.is_none(),
        Injection::Jump(by) => by.unsigned_abs() >= LEAST_JUMP,
        Injection::Misbehave(Some(kind)) => {
            !matches!(kind, Misbehaviour::Mostly(_) | Misbehaviour::Unmeasured)
        }
        _ => true,
    }
}

/// Whether a command makes the servo follow a position; `None` if it is no command.
pub fn follows(request: &Frame) -> Option<bool> {
    let bytes = request.payload().try_into().ok()?;
    match Special::from_bytes(bytes) {
        Some(Special::Disable) => Some(false),
        Some(_) => None,
        None => Some(Codes::from_bytes(bytes).kp > 0),
    }
}

/// The reply of a servo that repeats its `first` reply; these bytes of it have the state, and not the mode.
pub fn frozen(state: Range<usize>, reply: &Frame, first: &mut Option<Frame>) -> Frame {
    if state.is_empty() {
        return *reply;
    }
    let mut frozen = *reply;
    frozen.payload_mut()[state.clone()].copy_from_slice(&first.get_or_insert(*reply).payload()[state]);
    frozen
}
