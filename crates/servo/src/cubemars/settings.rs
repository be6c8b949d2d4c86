//! `cubemars` of a servo in a robot file: which motor it is, and how it is driven.

use khz_settings::{section, words};

words! {
    /// The model of a CubeMars AK servo.
    Model {
        /// AK60-6: 50 rad/s, 15 N·m.
        Ak60x6 = "AK60-6",
        /// AK70-10: 50 rad/s, 25 N·m.
        Ak70x10 = "AK70-10",
        /// AK80-6: 76 rad/s, 12 N·m.
        Ak80x6 = "AK80-6",
        /// AK80-9: 50 rad/s, 18 N·m.
        Ak80x9 = "AK80-9",
        /// AK80-64: 8 rad/s, 144 N·m.
        Ak80x64 = "AK80-64",
        /// AK10-9: 50 rad/s, 65 N·m.
        Ak10x9 = "AK10-9",
    }
}

impl Model {
    /// Half the ranges of position (rad), velocity (rad/s) and torque (N·m).
    ///
    /// From `TMotorCANControl` 1.2.6. Firmware versions differ: a user's sketch for the AK60-6 has 65 rad/s and 18 N·m.
    pub const fn ranges(self) -> [f64; 3] {
        let (velocity, torque) = match self {
            Self::Ak60x6 => (50.0, 15.0),
            Self::Ak70x10 => (50.0, 25.0),
            Self::Ak80x6 => (76.0, 12.0),
            Self::Ak80x9 => (50.0, 18.0),
            Self::Ak80x64 => (8.0, 144.0),
            Self::Ak10x9 => (50.0, 65.0),
        };
        [12.5, velocity, torque]
    }
}

section! {
    /// `cubemars` of a servo with `family = "cubemars"`.
    CubemarsSettings {
        /// The motor's model; required.
        model: Option<Model> = None, "";
        /// The identifier of its replies (its maker calls it "master id"); the motor's own id is possible.
        reply_id: u16 = 0, "", 0 => 2046;
        /// Required: no host can read or set the watchdog of a CubeMars; its maker's tool can ("CAN timeout"). `true` confirms that you know
        /// that without it the motor follows its last command for ever when this computer fails.
        unwatched: bool = false, "";
        /// Position gain: `kp_scale` of a command is a share of it.
        kp: f64 = 20.0, "N·m/rad", 0.0 => 500.0;
        /// Velocity gain: `kd_scale` of a command is a share of it.
        kd: f64 = 0.5, "N·m·s/rad", 0.0 => 5.0;
        /// Velocity gain while it damps.
        damping: f64 = 1.0, "N·m·s/rad", 0.01 => 5.0;
        /// Half the range of positions. Without the key the model's value applies, as for the next two.
        position_range: Option<f64> = None, "rad", 0.1 => 1000.0;
        /// The greatest velocity that can be represented.
        velocity_range: Option<f64> = None, "rad/s", 0.1 => 1000.0;
        /// The greatest torque that can be represented.
        torque_range: Option<f64> = None, "N·m", 0.01 => 1000.0;
    }
}
