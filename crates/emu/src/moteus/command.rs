//! What a servo is commanded to do: the registers that count only together with a mode.

use khz_wire::{Mode, Register};

/// The command registers' values in their physical units.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Command {
    pub mode: Mode,
    pub pwm: [f64; 3],
    pub phase_v: [f64; 3],
    /// Half turns.
    pub theta: f64,
    pub voltage: f64,
    /// Half turns per second.
    pub theta_rate: f64,
    pub d_v: f64,
    pub q_v: f64,
    pub d_a: f64,
    pub q_a: f64,
    pub position: f64,
    pub velocity: f64,
    pub feedforward: f64,
    pub kp_scale: f64,
    pub kd_scale: f64,
    pub ilimit_scale: f64,
    pub max_torque: f64,
    pub stop_position: f64,
    pub timeout_s: f64,
    pub velocity_limit: f64,
    pub accel_limit: f64,
    pub fixed_voltage: f64,
    pub fixed_current: f64,
    pub ignore_bounds: bool,
    pub lower: f64,
    pub upper: f64,
}

impl Command {
    /// What a write of the mode register leaves: all else at its default.
    pub const fn new(mode: Mode) -> Self {
        Self {
            mode,
            pwm: [0.0; 3],
            phase_v: [0.0; 3],
            theta: 0.0,
            voltage: 0.0,
            theta_rate: 0.0,
            d_v: 0.0,
            q_v: 0.0,
            d_a: 0.0,
            q_a: 0.0,
            position: 0.0,
            velocity: 0.0,
            feedforward: 0.0,
            kp_scale: 1.0,
            kd_scale: 1.0,
            ilimit_scale: 1.0,
            max_torque: 100.0,
            stop_position: f64::NAN,
            timeout_s: 0.0,
            velocity_limit: f64::NAN,
            accel_limit: f64::NAN,
            fixed_voltage: f64::NAN,
            fixed_current: f64::NAN,
            ignore_bounds: false,
            lower: 0.0,
            upper: 0.0,
        }
    }

    /// A limit of speed or acceleration is active.
    pub fn is_limited(&self) -> bool {
        !self.velocity_limit.is_nan() || !self.accel_limit.is_nan()
    }

    /// The value behind a command register, if it is one. Two registers can share a value.
    #[inline(always)]
    pub fn value(&mut self, register: Register) -> Option<&mut f64> {
        let run = |first: Register| usize::from(register.0 - first.0);
        Some(match register {
            Register(0x010..=0x012) => &mut self.pwm[run(Register::PWM_PHASE_A)],
            Register(0x014..=0x016) => &mut self.phase_v[run(Register::VOLTAGE_PHASE_A)],
            Register::VFOC_THETA => &mut self.theta,
            Register::VFOC_VOLTAGE => &mut self.voltage,
            Register::D_VOLTAGE => &mut self.d_v,
            Register::Q_VOLTAGE => &mut self.q_v,
            Register::COMMAND_Q_CURRENT => &mut self.q_a,
            Register::COMMAND_D_CURRENT => &mut self.d_a,
            Register::VFOC_THETA_RATE => &mut self.theta_rate,
            Register::COMMAND_POSITION => &mut self.position,
            Register::COMMAND_VELOCITY => &mut self.velocity,
            Register::COMMAND_TORQUE | Register::WITHIN_TORQUE => &mut self.feedforward,
            Register::COMMAND_KP_SCALE | Register::WITHIN_KP_SCALE => &mut self.kp_scale,
            Register::COMMAND_KD_SCALE | Register::WITHIN_KD_SCALE => &mut self.kd_scale,
            Register::COMMAND_MAX_TORQUE | Register::WITHIN_MAX_TORQUE => &mut self.max_torque,
            Register::COMMAND_STOP_POSITION => &mut self.stop_position,
            Register::COMMAND_WATCHDOG | Register::WITHIN_WATCHDOG => &mut self.timeout_s,
            Register::COMMAND_VELOCITY_LIMIT => &mut self.velocity_limit,
            Register::COMMAND_ACCELERATION_LIMIT => &mut self.accel_limit,
            Register::COMMAND_FIXED_VOLTAGE => &mut self.fixed_voltage,
            Register::COMMAND_ILIMIT_SCALE | Register::WITHIN_ILIMIT_SCALE => &mut self.ilimit_scale,
            Register::COMMAND_FIXED_CURRENT => &mut self.fixed_current,
            Register::WITHIN_LOWER => &mut self.lower,
            Register::WITHIN_UPPER => &mut self.upper,
            _ => return None,
        })
    }
}
