//! `odrive` of a servo in a robot file: which firmware it has, what is between motor and joint, and how it is driven.

use khz_settings::{section, words};
use khz_wire::odrive::Line;

words! {
    /// The line of an ODrive's firmware: its messages differ.
    Firmware {
        /// 0.5.6 (ODrive v3).
        V05 = "0.5",
        /// 0.6 (Pro, S1, Micro).
        V06 = "0.6",
    }
}

impl Firmware {
    /// How its messages are laid out.
    pub const fn line(self) -> Line {
        match self {
            Self::V05 => Line::V05,
            Self::V06 => Line::V06,
        }
    }
}

section! {
    /// `odrive` of a servo with `family = "odrive"`.
    OdriveSettings {
        /// The line of its firmware; required. The drive is asked for it at the start.
        firmware: Option<Firmware> = None, "";
        /// Turns of the motor for one of the joint.
        reduction: f64 = 1.0, "", 0.01 => 1000.0;
        /// What the motor puts on its shaft for each ampere; required: as it is set in the drive (`torque_constant`).
        torque_constant: Option<f64> = None, "N·m/A", 0.0001 => 100.0;
        /// Greatest motor current. It is sent before control begins, with the greatest velocity.
        current_limit: f64 = 10.0, "A", 0.1 => 1000.0;
        /// The run does not prove that the drive has a watchdog. `true` confirms that you know that without it the motor follows its last
        /// command for ever when this computer fails.
        unwatched: bool = false, "";
        /// `flat_endpoints.json` of exactly its release and board, from its maker (firmware 0.6); from the folder of the robot file, unless
        /// it begins with `/`. With it the run sets watchdog, heartbeat and estimates itself and reads them back; the drive forgets them
        /// without power. Without it a silence proves the watchdog.
        endpoints: Option<String> = None, "";
        /// Position gain: `kp_scale` of a command is a share of it. The drive has it as `pos_gain`, `kp`/`kd`.
        kp: f64 = 20.0, "N·m/rad", 0.0 => 10_000.0;
        /// Velocity gain: `kd_scale` of a command is a share of it. The drive has it as `vel_gain`.
        kd: f64 = 0.5, "N·m·s/rad", 0.001 => 1000.0;
        /// Velocity gain while it damps.
        damping: f64 = 1.0, "N·m·s/rad", 0.01 => 1000.0;
        /// The greatest angle of the joint from the drive's zero.
        position_range: f64 = 1000.0, "rad", 0.1 => 100_000.0;
        /// The greatest velocity of the joint, at which the drive limits what the position gain asks for; a fifth above it switches off.
        /// Without the key, and at the most, 32 turns/s of the motor: what a set-point carries.
        velocity_range: Option<f64> = None, "rad/s", 0.01 => 10_000.0;
    }
}
