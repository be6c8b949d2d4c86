//! Torque, current and voltage of the motor, seen from the output, and what limits them.

use super::Servo;
use super::settings::Settings;
use crate::body::Drive;
use khz_wire::Fault;
use std::f64::consts::TAU;

/// Torque constant of a motor whose Kv is not configured, N·m/A.
const UNCONFIGURED_KT: f64 = 0.1;
/// N·m/A × Kv: √3/2 × 60/2π.
const KT_KV: f64 = 8.27;
/// Volts per rotor turn per second × Kv: 60/√3.
const EMF_KV: f64 = 34.64;
/// Power for peak amplitudes of three phases.
const THREE_PHASES: f64 = 1.5;
/// Share of the bus voltage that reaches a phase.
const VOLTAGE_RATIO: f64 = 0.5;

/// The motor with its gear.
#[derive(Clone, Copy, Debug)]
pub struct Motor {
    /// N·m at the output per A.
    kt: f64,
    /// Back EMF per output speed, V/(rad/s).
    emf: f64,
    resistance: f64,
    /// Electrical turns per output turn.
    pole_pairs: f64,
}

impl Motor {
    /// The motor these settings describe.
    pub fn new(settings: &Settings) -> Self {
        let kv = f64::from(settings.motor.Kv);
        let ratio = match f64::from(settings.motor_position.rotor_to_output_ratio) {
            0.0 => 1.0,
            ratio => ratio,
        };
        Self {
            kt: if kv > 0.0 { KT_KV / kv } else { UNCONFIGURED_KT } / ratio,
            emf: if kv > 0.0 { EMF_KV / kv } else { 0.0 } / (TAU * ratio),
            resistance: f64::from(settings.motor.resistance_ohm).max(1e-6),
            pole_pairs: f64::from(settings.motor.poles) * 0.5 / ratio,
        }
    }

    /// Q current that gives a torque.
    pub fn current(&self, torque: f64) -> f64 {
        torque / self.kt
    }

    /// Torque that a Q current gives.
    pub fn torque(&self, current: f64) -> f64 {
        current * self.kt
    }

    /// Watts lost in cold windings.
    pub fn heat(&self, q_a: f64, d_a: f64) -> f64 {
        loss(self.resistance, q_a, d_a)
    }

    /// Current of a voltage across a standing winding.
    pub fn stall_current(&self, volts: f64) -> f64 {
        volts / self.resistance
    }

    /// A Q voltage: its torque at standstill, less what the back EMF takes at speed.
    pub fn voltage_drive(&self, volts: f64) -> Drive {
        let damping = self.torque(self.emf) / self.resistance;
        Drive { torque: self.torque(self.stall_current(volts)), damping }
    }

    /// A current turned to a fixed electrical angle (in turns): it pulls the rotor there, as a magnet would.
    pub fn held_drive(&self, amperes: f64, angle: f64, output: f64) -> Drive {
        let pull = (TAU * (angle - output * self.pole_pairs)).sin();
        Drive { torque: self.torque(amperes * pull), ..self.voltage_drive(0.0) }
    }

    /// Electrical angle of an output position, in turns.
    pub fn electrical(&self, output: f64) -> f64 {
        output * self.pole_pairs
    }

    /// The greatest speed at which any torque is left, rev/s.
    pub fn fastest(&self, bus_v: f64) -> f64 {
        if self.emf == 0.0 { f64::INFINITY } else { bus_v * VOLTAGE_RATIO / (self.emf * TAU) }
    }
}

/// Watts lost in a resistance per phase.
pub fn loss(ohm: f64, q_a: f64, d_a: f64) -> f64 {
    THREE_PHASES * ohm * (q_a * q_a + d_a * d_a)
}

/// A current, and why it is not the one asked for.
#[derive(Clone, Copy, Debug)]
struct Limited(f64, Fault);

impl Limited {
    /// Within ±`most`; the innermost reason stays unless this limit bites.
    fn within(self, most: f64, why: u8) -> Self {
        if self.0 > most {
            Self(most, Fault(why))
        } else if self.0 < -most {
            Self(-most, Fault(why))
        } else {
            self
        }
    }
}

impl Servo {
    /// The Q current that is left of `asked` after position bounds, speed, temperature, power and voltage
    /// have had their say, in the order of the firmware; reports the last limit that bites as fault code.
    pub(super) fn limit_current(&mut self, asked: f64) -> f64 {
        let limited = self.bound_current(asked);
        let limited = self.overspeed_current(limited);
        let limited = self.warm_current(limited);
        let limited = self.power_current(limited);
        let limited = self.voltage_current(limited);
        if limited.1 != Fault::NONE {
            self.status.fault = limited.1;
        }
        limited.0
    }

    /// Beyond a position bound, no current further out than a short way.
    fn bound_current(&self, asked: f64) -> Limited {
        let bounds = &self.settings.servopos;
        let beyond = if asked > 0.0 {
            self.status.position - f64::from(bounds.position_max)
        } else {
            f64::from(bounds.position_min) - self.status.position
        };
        if self.active.ignore_bounds || asked == 0.0 || beyond.is_nan() || beyond <= 0.0 {
            return Limited(asked, Fault::NONE);
        }
        let left = 1.0 - beyond / f64::from(self.settings.servo.position_derate);
        Limited(asked * left.max(0.0), Fault(103))
    }

    fn overspeed_current(&self, asked: Limited) -> Limited {
        let settings = &self.settings.servo;
        let beyond = self.status.velocity.abs() - f64::from(settings.max_velocity);
        if beyond < 0.0 || self.status.velocity * asked.0 < 0.0 {
            return asked;
        }
        let left = 1.0 - beyond / f64::from(settings.max_velocity_derate);
        asked.within((left * f64::from(settings.max_current_A)).max(0.0), 96)
    }

    /// Near the highest temperature the greatest current shrinks.
    fn warm_current(&self, asked: Limited) -> Limited {
        let settings = &self.settings.servo;
        let share = |now: f64, fault: f32, margin: f32| {
            (now - (f64::from(fault) - f64::from(margin))) / f64::from(margin)
        };
        let board = share(self.thermal.board_c, settings.fault_temperature, settings.temperature_margin);
        let motor =
            share(self.thermal.motor_c, settings.motor_fault_temperature, settings.motor_temperature_margin);
        let (share, why) = if motor > board { (motor, 101) } else { (board, 100) };
        let most = f64::from(settings.max_current_A);
        if share.is_nan() || share <= 0.0 {
            return asked.within(most, 99);
        }
        // At the fault temperature, if not before, the servo faults; without a margin this leaps from nothing to all.
        let derated = most + share.min(1.0) * (f64::from(settings.derate_current_A) - most);
        asked.within(derated.clamp(0.0, most.max(0.0)), why)
    }

    fn power_current(&self, asked: Limited) -> Limited {
        let most = f64::from(self.settings.servo.max_power_W);
        let speed = self.status.velocity * TAU;
        let power = (self.motor.torque(asked.0) * speed + self.motor.heat(asked.0, 0.0)).abs();
        if power > most { Limited(asked.0 * most / power, Fault(97)) } else { asked }
    }

    /// The bus voltage less the back EMF drives no more than this.
    fn voltage_current(&self, asked: Limited) -> Limited {
        let emf = self.motor.emf * self.status.velocity * TAU;
        let most = self.status.bus_v * VOLTAGE_RATIO;
        let current = |volts: f64| (volts - emf) / self.motor.resistance;
        // The control loop cannot be made to push harder against the motion than asked, only less along it.
        if asked.0 > 0.0 && asked.0 > current(most) {
            Limited(current(most).max(0.0), Fault(98))
        } else if asked.0 < 0.0 && asked.0 < current(-most) {
            Limited(current(-most).min(0.0), Fault(98))
        } else {
            asked
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn electrical_and_mechanical_power_agree() {
        let motor = Motor::new(&Settings::default());
        let (amperes, speed) = (3.0, 7.0);
        let mechanical = motor.torque(amperes) * speed;
        let electrical = THREE_PHASES * motor.emf * speed * amperes;
        assert!((mechanical / electrical - 1.0).abs() < 0.001);
    }

    #[test]
    fn a_gear_multiplies_torque_and_divides_speed() {
        let mut settings = Settings::default();
        let direct = Motor::new(&settings);
        settings.motor_position.rotor_to_output_ratio = 0.125;
        let geared = Motor::new(&settings);
        assert!((geared.torque(1.0) / direct.torque(1.0) - 8.0).abs() < 1e-9);
        assert!((direct.fastest(24.0) / geared.fastest(24.0) - 8.0).abs() < 1e-9);
    }
}
