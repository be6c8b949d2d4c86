//! What each mode does with the motor.

use super::command::Command;
use super::settings::Settings;
use super::trajectory::{Capture, Confines, Target, reachable};
use super::{Applied, Servo};
use crate::body::Drive;
use khz_wire::{Fault, Mode};
use std::f64::consts::TAU;

/// More than any motor has, N·m or A: only settings of a motor that cannot exist lead here.
const IMPOSSIBLE: f64 = 1e9;
/// The firmware's sine counts turns in whole numbers up to here.
const MOST_TURNS: f64 = 2_147_483_648.0;

/// The position loop's state; N·m.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Pid {
    pub integral: f64,
    pub error: f64,
    pub error_rate: f64,
    pub p: f64,
    pub d: f64,
    pub command: f64,
}

/// Of the settings, what the position loop computes with in every period, as the numbers it computes with.
#[derive(Clone, Copy, Debug)]
pub struct Law {
    kp: f64,
    ki: f64,
    kd: f64,
    iratelimit: f64,
    ilimit: f64,
    sign: f64,
    inertia: f64,
    /// Errors of the velocity below this count as none, rev/s.
    dead_zone: f64,
    /// Slower than this counts as standing, rev/s.
    standing: f64,
    position_slip: f64,
    velocity_slip: f64,
    /// Position bounds, rev.
    lower: f64,
    upper: f64,
    fault_position_error: f64,
    fault_velocity_error: f64,
}

impl Law {
    /// The law that these settings give.
    pub fn new(settings: &Settings) -> Self {
        let (servo, bounds, gains) = (&settings.servo, &settings.servopos, &settings.servo.pid_position);
        Self {
            kp: gains.kp.into(),
            ki: gains.ki.into(),
            kd: gains.kd.into(),
            iratelimit: gains.iratelimit.into(),
            ilimit: gains.ilimit.into(),
            sign: gains.sign.into(),
            inertia: servo.inertia_feedforward.into(),
            dead_zone: servo.velocity_threshold.into(),
            standing: servo.velocity_zero_capture_threshold.into(),
            position_slip: servo.max_position_slip.into(),
            velocity_slip: servo.max_velocity_slip.into(),
            lower: reachable(bounds.position_min.into()),
            upper: reachable(bounds.position_max.into()),
            fault_position_error: servo.fault_position_error.into(),
            fault_velocity_error: servo.fault_velocity_error.into(),
        }
    }
}

/// How strongly the position loop acts.
#[derive(Clone, Copy, Debug)]
struct Scale {
    kp: f64,
    kd: f64,
    ilimit: f64,
}

impl Scale {
    const NONE: Self = Self { kp: 0.0, kd: 0.0, ilimit: 0.0 };
    const FULL: Self = Self { kp: 1.0, kd: 1.0, ilimit: 1.0 };
}

/// What the position loop acts with, besides its target.
#[derive(Clone, Copy, Debug)]
struct Effort {
    scale: Scale,
    /// N·m; NaN is no limit.
    max_torque: f64,
    /// N·m.
    feedforward: f64,
    ignore_bounds: bool,
    /// A fixed current or voltage of the command replaces the loop.
    open_loop: Option<OpenLoop>,
}

/// A vector turned along the control position, without encoder.
#[derive(Clone, Copy, Debug)]
enum OpenLoop {
    Current(f64),
    Voltage(f64),
}

impl Effort {
    /// What the servo does on its own account: within its position bounds and with the encoder, whatever the
    /// last command asked for.
    const fn own(scale: Scale, max_torque: f64) -> Self {
        Self { scale, max_torque, feedforward: 0.0, ignore_bounds: false, open_loop: None }
    }

    /// What a command asks for.
    fn of(command: &Command) -> Self {
        let open_loop = if !command.fixed_current.is_nan() {
            Some(OpenLoop::Current(command.fixed_current))
        } else if !command.fixed_voltage.is_nan() {
            Some(OpenLoop::Voltage(command.fixed_voltage))
        } else {
            None
        };
        Self {
            scale: Scale { kp: command.kp_scale, kd: command.kd_scale, ilimit: command.ilimit_scale },
            max_torque: command.max_torque,
            feedforward: command.feedforward,
            ignore_bounds: command.ignore_bounds,
            open_loop,
        }
    }
}

impl Pid {
    /// Starts afresh.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The torque against an error in position and velocity.
    fn apply(&mut self, law: &Law, error: f64, rate: f64, scale: Scale, dt_s: f64) -> f64 {
        let most = law.iratelimit * dt_s;
        let update = error * law.ki * dt_s;
        let update = if most > 0.0 { update.clamp(-most, most) } else { update };
        let ilimit = (law.ilimit * scale.ilimit).abs();
        self.integral = (self.integral + update).max(-ilimit).min(ilimit);
        self.error = error;
        self.error_rate = rate;
        self.p = scale.kp * law.kp * error;
        self.d = scale.kd * law.kd * rate;
        self.command = law.sign * (self.p + self.d + self.integral);
        self.command
    }
}

impl Servo {
    /// One control period in the present mode.
    pub(super) fn control(&mut self, dt_s: f64) -> Drive {
        self.status.control_torque = 0.0;
        self.status.d_a = 0.0;
        self.applied = Applied::default();
        let drive = match self.status.mode {
            Mode::Stopped
            | Mode::Fault
            | Mode::Enabling
            | Mode::Calibrating
            | Mode::CalibrationComplete
            | Mode::MeasureInductance => Drive::default(),
            Mode::Pwm => self.phases(self.active.pwm),
            Mode::Voltage => self.balanced(self.active.phase_v),
            Mode::VoltageFoc => {
                self.active.theta += self.active.theta_rate * dt_s;
                let volts = limit(self.active.voltage, self.motor.most_volts(self.status.bus_v));
                self.turned_voltage(volts, counted(0.5 * self.active.theta))
            }
            Mode::VoltageDq => self.motor_ready(|servo| {
                let most = servo.motor.most_volts(servo.status.bus_v);
                let (d_v, q_v) = (limit(servo.active.d_v, most), limit(servo.active.q_v, most));
                servo.voltage(d_v, q_v)
            }),
            Mode::Current => self.motor_ready(Self::current),
            Mode::Position => self.position_loop(Effort::of(&self.active), dt_s),
            Mode::PositionTimeout => self.timeout(dt_s),
            Mode::ZeroVelocity => self.zero_velocity(dt_s),
            Mode::StayWithin => self.stay_within(dt_s),
            Mode::Brake => self.voltage(0.0, 0.0),
        };
        if self.is_possible(drive) { drive } else { self.shorted() }
    }

    /// What the joint and the heat are worked out from is a number of some size.
    fn is_possible(&self, drive: Drive) -> bool {
        let [torque, damping] = [drive.torque, drive.damping];
        [torque, damping, self.status.d_a, self.applied.ahead].iter().all(|value| value.abs() < IMPOSSIBLE)
    }

    /// What a NaN leads to, whether commanded or configured: it goes through the firmware's loop into the duty cycles
    /// of all phases, where it counts as 0, so the windings are shorted. A current loop also takes it for too little
    /// voltage, and its power is NaN.
    fn shorted(&mut self) -> Drive {
        if self.applied.regulated {
            self.status.fault = Fault(98);
            self.status.power_w = f64::NAN;
        }
        self.applied = Applied::default();
        let drive = self.voltage(0.0, 0.0);
        if self.is_possible(drive) {
            return drive;
        }
        self.status.d_a = 0.0;
        Drive::default()
    }

    /// Only damping, with the last command's kd scale.
    fn zero_velocity(&mut self, dt_s: f64) -> Drive {
        let scale = Scale { kd: self.active.kd_scale, ..Scale::NONE };
        let effort = Effort::own(scale, f64::from(self.settings.servo.timeout_max_torque_Nm));
        self.aside(Target::HOLD, |servo| servo.position_loop(effort, dt_s))
    }

    fn timeout(&mut self, dt_s: f64) -> Drive {
        match self.settings.servo.timeout_mode {
            10 => {
                let settings = &self.settings.servo;
                let target = Target {
                    velocity_limit: f64::from(settings.default_velocity_limit),
                    accel_limit: f64::from(settings.default_accel_limit),
                    ..Target::HOLD
                };
                self.aside(target, |servo| servo.position_loop(Effort::own(Scale::FULL, 100.0), dt_s))
            }
            12 => self.zero_velocity(dt_s),
            15 => self.voltage(0.0, 0.0),
            _ => Drive::default(),
        }
    }

    fn stay_within(&mut self, dt_s: f64) -> Drive {
        let (measured, lower, upper) = (self.status.position, self.active.lower, self.active.upper);
        let effort = Effort::of(&self.active);
        let held = if measured < lower {
            lower
        } else if measured > upper {
            upper
        } else {
            let effort = Effort { scale: Scale::NONE, ..effort };
            let limits = self.trajectory.target;
            let target = Target {
                velocity_limit: limits.velocity_limit,
                accel_limit: limits.accel_limit,
                ..Target::HOLD
            };
            self.release();
            return self.aside(target, |servo| servo.position_loop(effort, dt_s));
        };
        let target = Target { position: Some(reachable(held)), ..Target::HOLD };
        self.aside(target, |servo| servo.position_loop(effort, dt_s))
    }

    /// Runs `act` towards another target, which does not replace the commanded one.
    fn aside(&mut self, target: Target, act: impl FnOnce(&mut Self) -> Drive) -> Drive {
        let commanded = std::mem::replace(&mut self.trajectory.target, target);
        let drive = act(self);
        self.trajectory.target = commanded;
        drive
    }

    /// Position, velocity and feed-forward, within all limits.
    fn position_loop(&mut self, effort: Effort, dt_s: f64) -> Drive {
        let capture = Capture {
            position: self.status.position,
            velocity: self.status.velocity_filtered,
            threshold: self.law.standing,
        };
        let fastest = self.motor.fastest(self.status.bus_v);
        let velocity = self.trajectory.step(capture, fastest, dt_s);
        let velocity = self.trajectory.confine(&self.confines(&effort), velocity);
        let position = self.trajectory.position.unwrap_or(capture.position);
        if let Some(open_loop) = effort.open_loop {
            return self.open_loop(open_loop, position, velocity);
        }
        let inertia = TAU * self.trajectory.acceleration * self.law.inertia;
        let rate = dead_zone(self.status.velocity - velocity, self.law.dead_zone);
        let error = self.status.position - position;
        let asked = self.pid.apply(&self.law, error, rate, effort.scale, dt_s) + effort.feedforward + inertia;
        if self.runs_away() {
            return Drive::default();
        }
        self.motor_ready(|servo| servo.torque_within(asked, &effort))
    }

    /// What holds the control position back.
    fn confines(&self, effort: &Effort) -> Confines {
        let unless = |off: bool, limit: f64| if off { f64::NAN } else { limit };
        let open_loop = effort.open_loop.is_some();
        Confines {
            measured: (self.status.position, self.status.velocity),
            position_slip: unless(open_loop, self.law.position_slip),
            velocity_slip: unless(open_loop, self.law.velocity_slip),
            lower: unless(effort.ignore_bounds, self.law.lower),
            upper: unless(effort.ignore_bounds, self.law.upper),
        }
    }

    /// Torque `asked` within the command's and the motor's limits. What stays inside all of them gives its
    /// damping part to the joint to integrate.
    fn torque_within(&mut self, asked: f64, effort: &Effort) -> Drive {
        let limited = limit(asked, effort.max_torque);
        // NaN is not limited.
        if limited != asked && !asked.is_nan() {
            self.status.fault = Fault(102);
        }
        self.status.control_torque = limited;
        self.applied.regulated = true;
        self.status.torque_error = self.status.torque - limited;
        let wanted = self.motor.current(limited);
        let amperes = self.limit_current(wanted, effort.ignore_bounds);
        let torque = self.motor.torque(amperes);
        let kd = self.law.kd * effort.scale.kd / TAU;
        let damping = if limited == asked && amperes == wanted { kd.max(0.0) } else { 0.0 };
        Drive { torque: torque + damping * self.status.velocity * TAU, damping }
    }

    /// The configuration may fault a servo that is too far off or too fast.
    fn runs_away(&mut self) -> bool {
        let fault = if self.pid.error.abs() > self.law.fault_position_error {
            Fault(49)
        } else if self.pid.error_rate.abs() > self.law.fault_velocity_error {
            Fault(50)
        } else {
            return false;
        };
        self.fail(fault);
        true
    }

    /// A fixed vector at the control position's angle; what the servo then reports as its position and velocity.
    fn open_loop(&mut self, vector: OpenLoop, position: f64, velocity: f64) -> Drive {
        let angle = self.motor.electrical(position - self.offset);
        let ahead = self.ahead_of_rotor(angle);
        let drive = match vector {
            OpenLoop::Voltage(volts) => self.balanced(three_phases(volts, angle)),
            OpenLoop::Current(amperes) => self.motor_ready(|servo| {
                let amperes = servo.limit_d_current(amperes);
                servo.applied.regulated = true;
                servo.status.d_a = amperes * ahead.cos();
                Drive { torque: servo.motor.torque(amperes * ahead.sin()), damping: 0.0 }
            }),
        };
        self.applied.ahead = ahead;
        self.status.position = position - self.offset;
        self.status.velocity = velocity;
        drive
    }

    fn current(&mut self) -> Drive {
        let ignore_bounds = self.active.ignore_bounds;
        let q_a = self.limit_current(self.active.q_a, ignore_bounds);
        self.status.d_a = self.limit_d_current(self.active.d_a);
        self.applied.regulated = true;
        Drive { torque: self.motor.torque(q_a), damping: 0.0 }
    }

    /// Three phase voltages around the middle of the bus voltage.
    fn balanced(&mut self, volts: [f64; 3]) -> Drive {
        let duty = volts.map(|volts| volts / self.status.bus_v);
        let (low, high) = duty.iter().fold((f64::MAX, f64::MIN), |(low, high), &d| (low.min(d), high.max(d)));
        let offset = 0.5 * (low + high) - 0.5;
        self.phases(duty.map(|duty| duty - offset))
    }

    /// Three duty cycles within those of the PWM: their common part does nothing.
    fn phases(&mut self, duty: [f64; 3]) -> Drive {
        let most = self.motor.most_duty();
        // The timer counts in whole numbers, of which NaN becomes 0.
        let within = |duty: f64| if duty.is_nan() { 0.0 } else { duty.max(1.0 - most).min(most) };
        let [a, b, c] = duty.map(|duty| within(duty) * self.status.bus_v);
        let (x, y) = ((2.0 * a - b - c) / 3.0, (b - c) / 3.0_f64.sqrt());
        self.turned_voltage(x.hypot(y), y.atan2(x) / TAU)
    }

    /// A voltage at an electrical angle, in turns.
    fn turned_voltage(&mut self, volts: f64, angle: f64) -> Drive {
        let ahead = self.ahead_of_rotor(angle);
        self.voltage(volts * ahead.cos(), volts * ahead.sin())
    }

    /// How far an electrical angle in turns is ahead of the rotor, rad.
    fn ahead_of_rotor(&self, angle: f64) -> f64 {
        TAU * (angle - self.motor.electrical(self.status.position - self.offset))
    }

    /// D and Q voltage at the rotor.
    fn voltage(&mut self, d_v: f64, q_v: f64) -> Drive {
        let (drive, d_a) = self.motor.voltage_drive(d_v, q_v, self.status.velocity * TAU);
        self.status.d_a = d_a;
        drive
    }

    /// Torque modes need a calibrated motor.
    fn motor_ready(&mut self, act: impl FnOnce(&mut Self) -> Drive) -> Drive {
        if self.settings.motor.poles == 0 {
            self.fail(Fault(36));
            return Drive::default();
        }
        act(self)
    }
}

/// `value` within ±`most`; a NaN `most` is no limit.
fn limit(value: f64, most: f64) -> f64 {
    if value < -most {
        -most
    } else if value > most {
        most
    } else {
        value
    }
}

/// An angle in turns as the firmware's sine takes it, which works with whole numbers.
fn counted(turns: f64) -> f64 {
    match turns {
        nan if nan.is_nan() => 0.0,
        countable if countable.abs() < MOST_TURNS => countable,
        _ => 0.5,
    }
}

/// The phase voltages of a vector at an electrical angle, in turns.
fn three_phases(volts: f64, angle: f64) -> [f64; 3] {
    [0.0, 1.0, 2.0].map(|third| volts * (TAU * (angle - third / 3.0)).cos())
}

fn dead_zone(value: f64, width: f64) -> f64 {
    if value.abs() < width { 0.0 } else { value }
}
