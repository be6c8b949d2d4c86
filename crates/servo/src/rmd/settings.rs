//! `rmd` of a servo in a robot file: which motor it is, and how it is driven.

use khz_settings::{section, words};
use khz_wire::rmd::{OLD_TORQUE, V44};

words! {
    /// The model of a MyActuator RMD motor, as it names itself without what comes behind the number.
    Model {
        /// RMD-X4.
        X4 = "X4",
        /// RMD-X6: 60 N·m with protocol V4.4.
        X6 = "X6",
        /// RMD-X8: 129 N·m with protocol V4.4.
        X8 = "X8",
        /// RMD-X10.
        X10 = "X10",
        /// RMD-X12.
        X12 = "X12",
        /// RMD-X15.
        X15 = "X15",
    }
}

words! {
    /// The protocol of the firmware: what the codes of motion mode mean depends on it.
    Protocol {
        /// Firmware before 2026042402: ±12.5 rad, and ±24 N·m whichever the model.
        Old = "V4.2",
        /// From 2026042402 on: ±12.566 rad, and the model's greatest torque.
        V44 = "V4.4",
    }
}

impl Protocol {
    /// The protocol of firmware of this date.
    pub const fn of(date: u32) -> Self {
        if date >= V44 { Self::V44 } else { Self::Old }
    }

    /// A date of firmware that has it.
    pub const fn date(self) -> u32 {
        match self {
            Self::Old => V44 - 1,
            Self::V44 => V44,
        }
    }

    /// Half the range of torques of this model, N·m, if it is known.
    ///
    /// V4.4: measured by almond-bot/axol on an X6 and an X8; not published for the others.
    pub const fn torque(self, model: Model) -> Option<f64> {
        match (self, model) {
            (Self::Old, _) => Some(OLD_TORQUE),
            (Self::V44, Model::X6) => Some(60.0),
            (Self::V44, Model::X8) => Some(129.0),
            (Self::V44, _) => None,
        }
    }
}

/// From a command to its reply in the motor, µs, as it was measured of an X8-Pro V2.
pub const REPLY_DELAY_US: f64 = 800.0;

section! {
    /// `rmd` of a servo with `family = "rmd"`.
    RmdSettings {
        /// The motor's model; required. The motor is asked for it at the start.
        model: Option<Model> = None, "";
        /// The protocol of its firmware; required. The motor is asked for its date at the start: the wrong one scales torques by 2.5 (X6)
        /// or 5.4 (X8). `khz bus scan` shows it.
        protocol: Option<Protocol> = None, "";
        /// The run does not prove that the motor has a watchdog. `true` confirms that you know that without it the motor follows its last
        /// command for ever when this computer fails.
        unwatched: bool = false, "";
        /// What the motor takes from a command to its reply, beyond the turnaround of its bus. Without the key 800, as was measured of an
        /// X8-Pro V2; loops faster than 400 Hz need it.
        reply_delay_us: Option<f64> = None, "µs", 0.0 => 5000.0;
        /// Position gain: `kp_scale` of a command is a share of it.
        kp: f64 = 20.0, "N·m/rad", 0.0 => 500.0;
        /// Velocity gain: `kd_scale` of a command is a share of it.
        kd: f64 = 0.5, "N·m·s/rad", 0.0 => 5.0;
        /// Velocity gain while it damps.
        damping: f64 = 1.0, "N·m·s/rad", 0.01 => 5.0;
        /// The greatest velocity that can be represented. Without the key 45, taken for the output's: the manual does not specify of which
        /// shaft, and velocities are compared with positions in motion.
        velocity_range: Option<f64> = None, "rad/s", 0.1 => 1000.0;
        /// The greatest torque that can be represented; required with protocol V4.4, but for X6 and X8.
        torque_range: Option<f64> = None, "N·m", 0.01 => 10_000.0;
    }
}
