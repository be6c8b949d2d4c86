//! Commands as plain numbers, for languages that fill arrays: a mode and six values per servo.
//!
//! # Realtime contract
//! Nothing here allocates, locks or waits.

use khz_servo::{PositionCommand, ServoCommand};

/// [`ServoCommand::Stop`]: output off.
pub const STOP: u8 = 0;
/// [`ServoCommand::Damp`]: damping.
pub const DAMP: u8 = 1;
/// [`ServoCommand::Position`]: follows the position.
pub const POSITION: u8 = 2;
/// [`ServoCommand::Position`] without a position: velocity and torque alone; position and position gain are ignored.
pub const VELOCITY: u8 = 3;

/// A value no servo can follow.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{field} is {value}; {want}")]
pub struct Wrong {
    /// Which value.
    pub field: &'static str,
    /// What it is.
    pub value: f64,
    /// What it must be, in words.
    pub want: &'static str,
}

/// The command of a mode and its values.
///
/// # Errors
/// The first value that no servo can follow.
pub fn read(mode: u8, target: PositionCommand) -> Result<ServoCommand, Wrong> {
    let PositionCommand { mut position, velocity, torque, mut kp_scale, kd_scale, max_torque } = target;
    match mode {
        STOP => return Ok(ServoCommand::Stop),
        DAMP => return Ok(ServoCommand::Damp),
        POSITION => {}
        // Without a position the position gain has nothing to act on, and the supervisor insists that it is 0.
        VELOCITY => (position, kp_scale) = (f64::NAN, 0.0),
        other => {
            let want = "it must be 0 (stop), 1 (damp), 2 (position) or 3 (velocity)";
            return Err(Wrong { field: "mode", value: f64::from(other), want });
        }
    }
    let command = PositionCommand { position, velocity, torque, kp_scale, kd_scale, max_torque };
    match is_good(&command, mode == VELOCITY) {
        true => Ok(ServoCommand::Position(command)),
        false => Err(wrong(&command, mode == VELOCITY)),
    }
}

/// Whether a servo can follow all of it. Every tick asks this for every servo: texts are for when it cannot.
fn is_good(command: &PositionCommand, is_free: bool) -> bool {
    let PositionCommand { position, velocity, torque, kp_scale, kd_scale, max_torque } = *command;
    (is_free || position.is_finite())
        && velocity.is_finite()
        && torque.is_finite()
        && (0.0..=1.0).contains(&kp_scale)
        && (0.0..=1.0).contains(&kd_scale)
        && (max_torque.is_nan() || max_torque >= 0.0)
}

/// The first value of it that no servo can follow.
#[cold]
fn wrong(command: &PositionCommand, is_free: bool) -> Wrong {
    let PositionCommand { position, velocity, torque, kp_scale, kd_scale, max_torque } = *command;
    let finite = "it must be a finite number";
    let scale = "it must be between 0 and 1";
    let (field, value, want) = if !(is_free || position.is_finite()) {
        ("position", position, finite)
    } else if !velocity.is_finite() {
        ("velocity", velocity, finite)
    } else if !torque.is_finite() {
        ("torque", torque, finite)
    } else if !(0.0..=1.0).contains(&kp_scale) {
        ("kp_scale", kp_scale, scale)
    } else if !(0.0..=1.0).contains(&kd_scale) {
        ("kd_scale", kd_scale, scale)
    } else {
        ("max_torque", max_torque, "it must not be negative; NaN is the servo's own limit")
    };
    Wrong { field, value, want }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_and_its_values_become_a_command() {
        let target = PositionCommand { torque: 0.5, ..PositionCommand::hold(0.25) };
        assert_eq!(read(STOP, target), Ok(ServoCommand::Stop));
        assert_eq!(read(DAMP, target), Ok(ServoCommand::Damp));
        let Ok(ServoCommand::Position(read_back)) = read(POSITION, target) else { panic!("no position") };
        assert_eq!((read_back.position, read_back.torque, read_back.kp_scale), (0.25, 0.5, 1.0));
        let Ok(ServoCommand::Position(free)) = read(VELOCITY, PositionCommand::hold(f64::NAN)) else {
            panic!("no velocity")
        };
        assert!(free.position.is_nan() && free.kp_scale == 0.0);
    }

    #[test]
    fn what_no_servo_can_follow_is_named() {
        let hold = PositionCommand::hold(0.0);
        for (field, mode, target) in [
            ("mode", 4, hold),
            ("position", POSITION, PositionCommand::hold(f64::NAN)),
            ("velocity", VELOCITY, PositionCommand { velocity: f64::INFINITY, ..hold }),
            ("torque", POSITION, PositionCommand { torque: f64::NAN, ..hold }),
            ("kp_scale", POSITION, PositionCommand { kp_scale: 1.5, ..hold }),
            ("kd_scale", POSITION, PositionCommand { kd_scale: -0.5, ..hold }),
            ("max_torque", POSITION, PositionCommand { max_torque: -1.0, ..hold }),
        ] {
            assert_eq!(read(mode, target).map_err(|wrong| wrong.field), Err(field));
        }
    }
}
