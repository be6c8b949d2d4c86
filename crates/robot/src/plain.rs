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

/// The command that mode and values say.
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
    let finite = "it must be a finite number";
    let scale = "it must be between 0 and 1";
    let checks = [
        ("position", position, mode == VELOCITY || position.is_finite(), finite),
        ("velocity", velocity, velocity.is_finite(), finite),
        ("torque", torque, torque.is_finite(), finite),
        ("kp_scale", kp_scale, (0.0..=1.0).contains(&kp_scale), scale),
        ("kd_scale", kd_scale, (0.0..=1.0).contains(&kd_scale), scale),
        (
            "max_torque",
            max_torque,
            max_torque.is_nan() || max_torque >= 0.0,
            "it must not be negative; NaN is the servo's own limit",
        ),
    ];
    if let Some(&(field, value, _, want)) = checks.iter().find(|(_, _, good, _)| !good) {
        return Err(Wrong { field, value, want });
    }
    let command = PositionCommand { position, velocity, torque, kp_scale, kd_scale, max_torque };
    Ok(ServoCommand::Position(command))
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
