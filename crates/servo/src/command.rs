//! The commands of the loop to the servos. SI units: radians, N·m.

/// One servo's command for the next tick.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ServoCommand {
    /// Output off. Also clears a fault.
    #[default]
    Stop,
    /// Zero velocity: damping without holding a position.
    Damp,
    /// Follow a position and velocity, adding a torque.
    Position(PositionCommand),
}

/// Position control: torque = kp·(position error) + kd·(velocity error) + torque, limited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PositionCommand {
    /// Target, rad. NaN, with `kp_scale` 0: wherever the joint is (velocity and torque control).
    pub position: f64,
    /// Target velocity, rad/s. NaN counts as 0.
    pub velocity: f64,
    /// Feed-forward torque, N·m.
    pub torque: f64,
    /// Fraction of the servo's configured position gain, 0–1.
    pub kp_scale: f64,
    /// Fraction of the servo's configured velocity gain, 0–1.
    pub kd_scale: f64,
    /// Largest torque, N·m. NaN: the servo's own limit.
    pub max_torque: f64,
}

impl PositionCommand {
    /// Hold `position` (rad) with full gains and the servo's own torque limit.
    pub const fn hold(position: f64) -> Self {
        Self { position, velocity: 0.0, torque: 0.0, kp_scale: 1.0, kd_scale: 1.0, max_torque: f64::NAN }
    }
}
