//! What each mode does with the motor.

use super::Servo;
use super::settings::PidPosition;
use super::trajectory::{Capture, Target};
use crate::body::Drive;
use khz_wire::{Fault, Mode};
use std::f64::consts::TAU;

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

impl Pid {
    /// Starts afresh.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The torque against an error in position and velocity.
    fn apply(&mut self, gains: &PidPosition, error: f64, rate: f64, scale: Scale, dt_s: f64) -> f64 {
        let most = f64::from(gains.iratelimit) * dt_s;
        let update = error * f64::from(gains.ki) * dt_s;
        let update = if most > 0.0 { update.clamp(-most, most) } else { update };
        let ilimit = (f64::from(gains.ilimit) * scale.ilimit).abs();
        self.integral = (self.integral + update).max(-ilimit).min(ilimit);
        self.error = error;
        self.error_rate = rate;
        self.p = scale.kp * f64::from(gains.kp) * error;
        self.d = scale.kd * f64::from(gains.kd) * rate;
        self.command = f64::from(gains.sign) * (self.p + self.d + self.integral);
        self.command
    }
}

impl Servo {
    /// One control period in the present mode.
    pub(super) fn control(&mut self, dt_s: f64) -> Drive {
        self.status.control_torque = 0.0;
        match self.status.mode {
            Mode::Stopped
            | Mode::Fault
            | Mode::Enabling
            | Mode::Calibrating
            | Mode::CalibrationComplete
            | Mode::MeasureInductance => Drive::default(),
            Mode::Pwm => self.phases(self.active.pwm.map(|pwm| pwm * self.status.bus_v)),
            Mode::Voltage => self.phases(self.active.phase_v),
            Mode::VoltageFoc => {
                self.active.theta += self.active.theta_rate * dt_s;
                self.held(self.active.voltage, 0.5 * self.active.theta)
            }
            Mode::VoltageDq => self.motor_ready(|servo| servo.motor.voltage_drive(servo.active.q_v)),
            Mode::Current => self.motor_ready(|servo| servo.current(servo.active.q_a)),
            Mode::Position => self.position(dt_s),
            Mode::PositionTimeout => self.timeout(dt_s),
            Mode::ZeroVelocity => self.zero_velocity(dt_s),
            Mode::StayWithin => self.stay_within(dt_s),
            Mode::Brake => self.motor.voltage_drive(0.0),
        }
    }

    fn position(&mut self, dt_s: f64) -> Drive {
        let active = &self.active;
        let scale = Scale { kp: active.kp_scale, kd: active.kd_scale, ilimit: active.ilimit_scale };
        self.position_loop(scale, active.max_torque, active.feedforward, dt_s)
    }

    /// Only damping, with the last command's kd scale.
    fn zero_velocity(&mut self, dt_s: f64) -> Drive {
        let scale = Scale { kd: self.active.kd_scale, ..Scale::NONE };
        self.aside(Target::HOLD, |servo| {
            servo.position_loop(scale, f64::from(servo.settings.servo.timeout_max_torque_Nm), 0.0, dt_s)
        })
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
                self.aside(target, |servo| servo.position_loop(Scale::FULL, 100.0, 0.0, dt_s))
            }
            12 => self.zero_velocity(dt_s),
            15 => self.motor.voltage_drive(0.0),
            _ => Drive::default(),
        }
    }

    fn stay_within(&mut self, dt_s: f64) -> Drive {
        let active = &self.active;
        let (measured, lower, upper) = (self.status.position, active.lower, active.upper);
        let held = if measured < lower {
            lower
        } else if measured > upper {
            upper
        } else {
            let (most, feedforward) = (active.max_torque, active.feedforward);
            self.release();
            return self
                .aside(Target::HOLD, |servo| servo.position_loop(Scale::NONE, most, feedforward, dt_s));
        };
        self.trajectory.target = Target { position: Some(held), ..Target::HOLD };
        self.position(dt_s)
    }

    /// Runs `act` towards another target, which does not replace the commanded one.
    fn aside(&mut self, target: Target, act: impl FnOnce(&mut Self) -> Drive) -> Drive {
        let commanded = std::mem::replace(&mut self.trajectory.target, target);
        let drive = act(self);
        self.trajectory.target = commanded;
        drive
    }

    /// Position, velocity and feed-forward, within all limits.
    fn position_loop(&mut self, scale: Scale, most: f64, feedforward: f64, dt_s: f64) -> Drive {
        let capture = Capture {
            position: self.status.position,
            velocity: self.status.velocity_filtered,
            threshold: f64::from(self.settings.servo.velocity_zero_capture_threshold),
        };
        let fastest = self.motor.fastest(self.status.bus_v);
        let (position, velocity) = self.trajectory.step(capture, fastest, dt_s);
        let (position, velocity) = self.slip(position, velocity);
        if let Some(open_loop) = self.open_loop(position, velocity) {
            return open_loop;
        }
        let settings = &self.settings.servo;
        let inertia = TAU * self.trajectory.acceleration * f64::from(settings.inertia_feedforward);
        let rate = dead_zone(self.status.velocity - velocity, f64::from(settings.velocity_threshold));
        let error = self.status.position - position;
        let asked = self.pid.apply(&settings.pid_position, error, rate, scale, dt_s) + feedforward + inertia;
        if self.runs_away() {
            return Drive::default();
        }
        self.motor_ready(|servo| servo.torque_within(asked, most, scale.kd))
    }

    /// Torque `asked` within ±`most` and the motor's limits. What stays inside all of them gives its
    /// damping part to the joint to integrate.
    fn torque_within(&mut self, asked: f64, most: f64, kd_scale: f64) -> Drive {
        let limited = limit(asked, most);
        if limited != asked {
            self.status.fault = Fault(102);
        }
        let amperes = self.limit_current(self.motor.current(limited));
        let torque = self.motor.torque(amperes);
        self.status.control_torque = torque;
        let kd = f64::from(self.settings.servo.pid_position.kd) * kd_scale / TAU;
        let damping = if torque == asked { kd.max(0.0) } else { 0.0 };
        Drive { torque: torque + damping * self.status.velocity * TAU, damping }
    }

    /// The configuration may fault a servo that is too far off or too fast.
    fn runs_away(&mut self) -> bool {
        let settings = &self.settings.servo;
        let fault = if self.pid.error.abs() > f64::from(settings.fault_position_error) {
            Fault(49)
        } else if self.pid.error_rate.abs() > f64::from(settings.fault_velocity_error) {
            Fault(50)
        } else {
            return false;
        };
        self.fail(fault);
        true
    }

    /// The control position may be kept near the measured one.
    fn slip(&mut self, position: f64, velocity: f64) -> (f64, f64) {
        let settings = &self.settings.servo;
        let near = |value: f64, measured: f64, most: f32| match f64::from(most) {
            most if most.is_finite() && most >= 0.0 => value.clamp(measured - most, measured + most),
            _ => value,
        };
        let position = near(position, self.status.position, settings.max_position_slip);
        let velocity = near(velocity, self.status.velocity, settings.max_velocity_slip);
        self.trajectory.position = Some(position);
        self.trajectory.velocity = Some(velocity);
        (position, velocity)
    }

    /// A fixed voltage or current turned along the control position, without encoder.
    fn open_loop(&mut self, position: f64, velocity: f64) -> Option<Drive> {
        let amperes = if self.active.fixed_current.is_finite() {
            self.active.fixed_current
        } else if self.active.fixed_voltage.is_finite() {
            self.motor.stall_current(self.active.fixed_voltage)
        } else {
            return None;
        };
        let drive = self.motor.held_drive(amperes, self.motor.electrical(position), self.status.position);
        self.status.d_a = amperes;
        self.status.position = position;
        self.status.velocity = velocity;
        Some(drive)
    }

    fn current(&mut self, q_a: f64) -> Drive {
        let amperes = self.limit_current(q_a);
        let torque = self.motor.torque(amperes);
        self.status.d_a = self.active.d_a;
        self.status.control_torque = torque;
        Drive { torque, damping: 0.0 }
    }

    /// Three phase voltages: their common part does nothing.
    fn phases(&mut self, [a, b, c]: [f64; 3]) -> Drive {
        let (x, y) = ((2.0 * a - b - c) / 3.0, (b - c) / 3.0_f64.sqrt());
        self.held(x.hypot(y), y.atan2(x) / TAU)
    }

    fn held(&mut self, volts: f64, angle: f64) -> Drive {
        self.motor.held_drive(self.motor.stall_current(volts), angle, self.status.position)
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

fn dead_zone(value: f64, width: f64) -> f64 {
    if value.abs() < width { 0.0 } else { value }
}
