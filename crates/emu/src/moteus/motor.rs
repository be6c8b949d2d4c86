//! Torque, current and voltage of the motor, seen from the output, and what limits them.

use super::Servo;
use super::settings::{ServoSettings, Settings};
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
/// A phase reaches half the bus voltage from its middle.
const HALF_BUS: f64 = 0.5;
/// What moving the middle of three phases gains: 2/√3.
const SVPWM: f64 = 1.1547;
/// Each PWM period leaves this long at either end for measuring the currents, at the factory's gain of 20, s.
const SAMPLE_S: f64 = 1.5e-6;
/// The PWM rate can be set between these, Hz.
const PWM_HZ: (f64, f64) = (15_000.0, 60_000.0);
/// The PWM rate for which the board's power limit is given, Hz.
const POWER_PWM_HZ: f64 = 30_000.0;
/// The board's power limit (hardware family 0, revision 8): so many watts up to so many volts, falling to so many.
const BOARD_POWER: [(f64, f64); 2] = [(30.0, 900.0), (38.0, 400.0)];

/// The motor with its gear.
#[derive(Clone, Copy, Debug)]
pub struct Motor {
    /// N·m at the output per A.
    kt: f64,
    /// Back EMF per output speed, V/(rad/s).
    emf: f64,
    resistance: f64,
    /// H, D and Q axis.
    inductance: [f64; 2],
    /// Electrical turns per output turn.
    pole_pairs: f64,
    pwm_hz: f64,
    /// Of half the bus voltage, what a phase reaches from its middle.
    phase_share: f64,
    /// Back EMF per output speed, V/(rev/s).
    emf_of_turns: f64,
    ease: Ease,
}

/// Where no limit of the current is anywhere near, whatever the supply: nearly always a servo is there, and [`Servo::limit_current`] has nothing
/// to work out. Of each limit it leaves so much that rounding does not matter.
#[derive(Clone, Copy, Debug)]
struct Ease {
    /// No warmer, °C.
    board_c: f64,
    motor_c: f64,
    /// No more, A.
    amperes: f64,
    /// Slower, rev/s.
    speed: f64,
    /// Of the bus voltage for resistance and back EMF together.
    share_of_bus: f64,
    /// No more back EMF, V.
    emf_v: f64,
    /// No more from the bus per [`THREE_PHASES`], W.
    watts: f64,
}

impl Ease {
    /// Every limit is near.
    const NONE: Self = Self {
        board_c: f64::NEG_INFINITY,
        motor_c: 0.0,
        amperes: 0.0,
        speed: 0.0,
        share_of_bus: 0.0,
        emf_v: 0.0,
        watts: 0.0,
    };

    fn new(settings: &ServoSettings, motor: &Motor) -> Self {
        let warm = |fault: f32, margin: f32| match f64::from(margin) {
            margin if margin > 0.0 => f64::from(fault) - margin,
            _ => f64::NEG_INFINITY,
        };
        let without = f64::from(settings.motor_fault_temperature);
        let motor_c = warm(settings.motor_fault_temperature, settings.motor_temperature_margin);
        let [_, (_, board_w)] = BOARD_POWER;
        let watts = f64::from(settings.max_power_W).min(board_w * motor.pwm_hz / POWER_PWM_HZ).max(0.0);
        let product = watts / THREE_PHASES;
        Self {
            board_c: warm(settings.fault_temperature, settings.temperature_margin),
            motor_c: if without.is_nan() { f64::INFINITY } else { motor_c },
            amperes: f64::from(settings.max_current_A),
            speed: f64::from(settings.max_velocity),
            share_of_bus: 0.99 * motor.most_volts(1.0),
            emf_v: (4.0 * motor.resistance * product).sqrt(),
            watts: 0.5 * product,
        }
    }
}

impl Motor {
    /// The motor these settings describe.
    pub fn new(settings: &Settings) -> Self {
        let kv = f64::from(settings.motor.Kv);
        let (kt, emf) =
            if kv > 0.0 && kv.is_finite() { (KT_KV / kv, EMF_KV / kv) } else { (UNCONFIGURED_KT, 0.0) };
        let ratio = settings.motor_position.ratio();
        let motor = Self {
            kt: kt / ratio,
            emf: emf / (TAU * ratio),
            resistance: f64::from(settings.motor.resistance_ohm).max(1e-6),
            inductance: [settings.motor.inductance_d_H, settings.motor.inductance_q_H].map(f64::from),
            pole_pairs: f64::from(settings.motor.poles) * 0.5 / ratio,
            pwm_hz: f64::from(settings.servo.pwm_rate_hz).max(PWM_HZ.0).min(PWM_HZ.1),
            phase_share: 0.0,
            emf_of_turns: 0.0,
            ease: Ease::NONE,
        };
        let phase_share = 2.0 * motor.most_duty() - 1.0;
        let motor = Self { phase_share, emf_of_turns: motor.emf * TAU, ..motor };
        Self { ease: Ease::new(&settings.servo, &motor), ..motor }
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

    /// What D and Q voltage do at an output speed in rad/s, once the currents have settled: the drive, and the D
    /// current. The Q current is that of the drive's torque.
    pub fn voltage_drive(&self, d_v: f64, q_v: f64, speed: f64) -> (Drive, f64) {
        let omega = speed * self.pole_pairs;
        let [d_ohm, q_ohm] = self.inductance.map(|henry| omega * henry);
        let share = 1.0 / (self.resistance * self.resistance + d_ohm * q_ohm);
        let d_a = share * (self.resistance * d_v + q_ohm * (q_v - self.emf * speed));
        let torque = self.torque(share * (self.resistance * q_v - d_ohm * d_v));
        (Drive { torque, damping: self.torque(share * self.resistance * self.emf) }, d_a)
    }

    /// Electrical angle of an output position, in turns.
    pub fn electrical(&self, output: f64) -> f64 {
        output * self.pole_pairs
    }

    /// The greatest duty cycle of a phase; the least is as far from 0.
    pub fn most_duty(&self) -> f64 {
        1.0 - SAMPLE_S * 2.0 * self.pwm_hz
    }

    /// The greatest voltage from the middle of the bus voltage that a phase reaches; below half of it, as the
    /// ends of a PWM period are needed to measure.
    fn most_phase_volts(&self, bus_v: f64) -> f64 {
        bus_v * HALF_BUS * self.phase_share
    }

    /// The longest voltage vector.
    pub fn most_volts(&self, bus_v: f64) -> f64 {
        SVPWM * self.most_phase_volts(bus_v)
    }

    /// The greatest speed the firmware commands, rev/s: where the back EMF is what a phase reaches.
    pub fn fastest(&self, bus_v: f64) -> f64 {
        if self.emf == 0.0 { f64::INFINITY } else { self.most_phase_volts(bus_v) / self.emf_of_turns }
    }

    /// The board's own power limit, W.
    fn board_power(&self, bus_v: f64) -> f64 {
        let [(low_v, most), (high_v, least)] = BOARD_POWER;
        let share = ((bus_v - low_v) / (high_v - low_v)).clamp(0.0, 1.0);
        (most + share * (least - most)) * self.pwm_hz / POWER_PWM_HZ
    }

    /// The Q current towards `asked` that takes `watts` from the bus, or gives as many back, at an output speed.
    fn current_of_power(&self, asked: f64, watts: f64, speed: f64) -> f64 {
        // 1.5 · (R·i + e)·i = ±P for the size i of the current and the back EMF e against it.
        let (ohm, emf) = (self.resistance, self.emf * speed * asked.signum());
        let product = watts / THREE_PHASES;
        let size = match emf * emf - 4.0 * ohm * product {
            // While it brakes the power goes through a greatest one, which is too much.
            braking if emf < 0.0 && braking > 0.0 => (-emf - braking.sqrt()) / (2.0 * ohm),
            _ => ((emf * emf + 4.0 * ohm * product).sqrt() - emf) / (2.0 * ohm),
        };
        size.min(asked.abs()).copysign(asked)
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
    /// have been applied, in the order of the firmware; reports the last limit that bites as fault code.
    pub(super) fn limit_current(&mut self, asked: f64, ignore_bounds: bool) -> f64 {
        if self.is_at_ease(asked, ignore_bounds) { asked } else { self.limited_current(asked, ignore_bounds) }
    }

    /// No limit is near: [`Servo::limited_current`] would leave this current as it is, and report nothing.
    #[inline]
    fn is_at_ease(&self, asked: f64, ignore_bounds: bool) -> bool {
        let (status, bounds, ease) = (&self.status, &self.settings.servopos, &self.motor.ease);
        let beyond = || {
            status.position < f64::from(bounds.position_min)
                || status.position > f64::from(bounds.position_max)
        };
        let (amperes, emf_v) = (asked.abs(), (self.motor.emf_of_turns * status.velocity).abs());
        let volts = self.motor.resistance * amperes + emf_v;
        (ignore_bounds || !beyond())
            && status.velocity.abs() < ease.speed
            && self.thermal.board_c <= ease.board_c
            && self.motor_temperature() <= ease.motor_c
            && amperes <= ease.amperes
            && emf_v <= ease.emf_v
            && volts <= ease.share_of_bus * status.bus_v
            && volts * amperes <= ease.watts
    }

    fn limited_current(&mut self, asked: f64, ignore_bounds: bool) -> f64 {
        let limited = if ignore_bounds { Limited(asked, Fault::NONE) } else { self.bound_current(asked) };
        let limited = self.overspeed_current(limited);
        let limited = self.warm_current(limited);
        let limited = self.power_current(limited);
        let limited = self.voltage_current(limited);
        self.report(limited)
    }

    /// The D current that is left of `asked`.
    pub(super) fn limit_d_current(&mut self, asked: f64) -> f64 {
        let limited = self.warm_current(Limited(asked, Fault::NONE));
        self.report(limited)
    }

    fn report(&mut self, limited: Limited) -> f64 {
        if limited.1 != Fault::NONE {
            self.status.fault = limited.1;
        }
        limited.0
    }

    /// Beyond a position bound a current further out shrinks.
    fn bound_current(&self, asked: f64) -> Limited {
        let bounds = &self.settings.servopos;
        let beyond = if asked > 0.0 {
            self.status.position - f64::from(bounds.position_max)
        } else {
            f64::from(bounds.position_min) - self.status.position
        };
        if asked == 0.0 || beyond.is_nan() || beyond <= 0.0 {
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
        let motor = share(
            self.motor_temperature(),
            settings.motor_fault_temperature,
            settings.motor_temperature_margin,
        );
        let (share, why) = if motor > board { (motor, 101) } else { (board, 100) };
        let most = f64::from(settings.max_current_A);
        if share.is_nan() || share <= 0.0 {
            return asked.within(most, 99);
        }
        // At the fault temperature, if not before, the servo faults; without a margin this leaps from nothing to all.
        let derated = most + share.min(1.0) * (f64::from(settings.derate_current_A) - most);
        asked.within(derated.clamp(0.0, most.max(0.0)), why)
    }

    /// The power limit in force, W.
    pub(super) fn most_power(&self) -> f64 {
        let settings = &self.settings.servo;
        let (configured, board) =
            (f64::from(settings.max_power_W), self.motor.board_power(self.status.bus_v));
        match configured {
            watts if !watts.is_finite() => board,
            watts if settings.override_board_max_power => watts,
            watts => watts.min(board),
        }
    }

    fn power_current(&self, asked: Limited) -> Limited {
        let speed = self.status.velocity * TAU;
        let allowed = self.motor.current_of_power(asked.0, self.most_power().max(0.0), speed);
        if allowed == asked.0 || asked.0.is_nan() { asked } else { Limited(allowed, Fault(97)) }
    }

    /// The bus voltage less the back EMF drives no more than this.
    fn voltage_current(&self, asked: Limited) -> Limited {
        let emf = self.motor.emf * self.status.velocity * TAU;
        let most = self.motor.most_volts(self.status.bus_v);
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
    use super::super::Setup;
    use super::*;
    use crate::family::ServoConfig;
    use crate::noise::Noise;

    #[test]
    fn electrical_and_mechanical_power_agree() {
        let motor = Motor::new(&Settings::default());
        let (amperes, speed) = (3.0, 7.0);
        let mechanical = motor.torque(amperes) * speed;
        let electrical = THREE_PHASES * motor.emf * speed * amperes;
        assert!((mechanical / electrical - 1.0).abs() < 0.001);
    }

    #[test]
    fn a_power_limit_holds_while_it_drives_and_while_it_brakes() {
        let motor = Motor::new(&Settings::default());
        let power = |amperes: f64, speed: f64| {
            THREE_PHASES * (motor.resistance * amperes + motor.emf * speed) * amperes
        };
        for (asked, speed, watts) in [
            (50.0, 10.0, 100.0),
            (-50.0, -10.0, 100.0),
            (50.0, 0.0, 30.0),
            (-50.0, 10.0, 20.0),
            (50.0, -10.0, 20.0),
        ] {
            let allowed = motor.current_of_power(asked, watts, speed);
            assert!(
                (power(allowed, speed).abs() - watts).abs() < 1e-6,
                "{asked} A at {speed} rad/s: {allowed} A"
            );
            assert!(allowed.abs() < asked.abs() && allowed * asked > 0.0);
        }
        assert_eq!(motor.current_of_power(2.0, 100.0, 10.0), 2.0, "below the limit nothing changes");
    }

    /// Settings from the factory's to ones that no motor has, and every state there is within and beyond them.
    #[test]
    fn at_ease_no_limit_changes_a_current_or_reports() {
        let mut noise = Noise::new(1);
        let (mut easy, mut limited) = (0, 0);
        for _ in 0..20_000 {
            let mut settings = Settings::default();
            let mut of = |values: &[f32]| values[noise.bits() as usize % values.len()];
            let servo = &mut settings.servo;
            servo.max_power_W = of(&[f32::NAN, 450.0, 20.0, 0.0, -5.0]);
            servo.override_board_max_power = of(&[0.0, 1.0]) > 0.0;
            servo.fault_temperature = of(&[75.0, 30.0, f32::NAN]);
            servo.temperature_margin = of(&[25.0, 25.0, 0.0, -3.0, f32::NAN]);
            servo.enable_motor_temperature = of(&[0.0, 1.0]) > 0.0;
            servo.motor_fault_temperature = of(&[f32::NAN, 75.0, 30.0]);
            servo.motor_temperature_margin = of(&[20.0, 20.0, 0.0, -3.0, f32::NAN]);
            servo.max_current_A = of(&[100.0, 100.0, 5.0, -1.0, f32::NAN]);
            servo.max_velocity = of(&[500.0, 500.0, 1.0, f32::NAN]);
            servo.pwm_rate_hz = of(&[30_000.0, 15_000.0, 60_000.0]) as u16;
            settings.motor.Kv = of(&[16.4, 16.4, 300.0, 0.0]);
            settings.motor.resistance_ohm = of(&[0.047, 0.047, 3.0, 0.0]);
            settings.motor_position.rotor_to_output_ratio = of(&[1.0, 0.125, -1.0]);
            settings.servopos.position_min = of(&[-1.0, -0.01, f32::NAN]);
            settings.servopos.position_max = of(&[1.0, 0.01, f32::NAN]);
            let (supply, ignores_bounds) =
                (of(&[24.0, 36.0, 50.0, 4.0, 0.0, f32::NAN]), of(&[0.0, 1.0]) > 0.0);
            let mut servo = Servo::boot(ServoConfig::new(0, 1).of(Setup), settings);
            servo.status.bus_v = f64::from(supply);
            for _ in 0..10 {
                let mut spread = |most: f64| noise.normal(most) * 10_f64.powi((noise.bits() % 9) as i32 - 7);
                servo.status.position = spread(1.0);
                servo.status.velocity = spread(10.0);
                (servo.thermal.board_c, servo.thermal.motor_c) = (25.0 + spread(20.0), 25.0 + spread(20.0));
                servo.status.fault = Fault::NONE;
                let asked = spread(100.0);
                let is_easy = servo.is_at_ease(asked, ignores_bounds);
                let left = servo.limited_current(asked, ignores_bounds);
                let is_left = left.to_bits() == asked.to_bits() && servo.status.fault == Fault::NONE;
                assert!(is_left || !is_easy, "{asked} A, left {left}: {servo:?}");
                (easy, limited) = (easy + u32::from(is_easy), limited + u32::from(!is_left));
            }
        }
        assert!(easy > 1_000 && limited > 10_000, "{easy}, {limited}");
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
