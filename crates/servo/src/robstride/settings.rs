//! `robstride` of a servo in a robot file: which motor it is, and how it is driven.

use khz_settings::{section, words};

words! {
    /// The model of a RobStride servo.
    Model {
        /// RS00: 33 rad/s and 14 N·m by its manual, 50 and 17 by its maker's Python package.
        Rs00 = "RS00",
        /// RS01: 44 rad/s, 17 N·m.
        Rs01 = "RS01",
        /// RS02: 44 rad/s, 17 N·m.
        Rs02 = "RS02",
        /// RS03: 60 N·m; 20 rad/s by its manual and as measured on five of them, 50 by its maker's Python package.
        Rs03 = "RS03",
        /// RS04: 15 rad/s, 120 N·m.
        Rs04 = "RS04",
        /// RS05: 50 rad/s and 5.5 N·m by its manual, 33 and 17 by its maker's Python package.
        Rs05 = "RS05",
        /// RS06: 50 rad/s and 36 N·m by its manual, 20 and 60 by its maker's Python package.
        Rs06 = "RS06",
        /// EL05: 50 rad/s; 6 N·m by the text of its manual, 5.5 by the program in it.
        El05 = "EL05",
        /// Xiaomi's CyberGear: 30 rad/s, 12 N·m.
        CyberGear = "CyberGear",
    }
}

/// What is known of a model. Where two sources differ, they are two numbers: the manual's, and that of the maker's Python package.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// Half the range of velocities, rad/s.
    pub velocity: [f64; 2],
    /// Of torques, N·m.
    pub torque: [f64; 2],
    /// The greatest torque limit its manual allows, N·m.
    pub limit: f64,
    /// The greatest gains of position and velocity: N·m/rad, N·m·s/rad.
    pub gains: [f64; 2],
}

impl Model {
    /// What is known of it: manuals of 2026-04-28 (section 4.1.2), `robstride-dynamics` 0.0.1, `motorbridge` 0.5.6, CyberGear's manual.
    pub const fn facts(self) -> Facts {
        let (velocity, torque, limit, gains) = match self {
            Self::Rs00 => ([33.0, 50.0], [14.0, 17.0], 14.0, SMALL),
            Self::Rs01 => ([44.0; 2], [17.0; 2], 17.0, SMALL),
            Self::Rs02 => ([44.0; 2], [17.0; 2], 14.0, SMALL),
            Self::Rs03 => ([20.0, 50.0], [60.0; 2], 60.0, LARGE),
            Self::Rs04 => ([15.0; 2], [120.0; 2], 120.0, LARGE),
            Self::Rs05 => ([50.0, 33.0], [5.5, 17.0], 5.5, SMALL),
            Self::Rs06 => ([50.0, 20.0], [36.0, 60.0], 36.0, LARGE),
            Self::El05 => ([50.0; 2], [6.0, 5.5], 6.0, SMALL),
            Self::CyberGear => ([30.0; 2], [12.0; 2], 12.0, SMALL),
        };
        Facts { velocity, torque, limit, gains }
    }
}

const SMALL: [f64; 2] = [500.0, 5.0];
const LARGE: [f64; 2] = [5000.0, 100.0];

section! {
    /// `robstride` of a servo with `family = "robstride"`.
    RobstrideSettings {
        /// The motor's model; required.
        model: Option<Model> = None, "";
        /// The id of this computer on the bus; no servo has it.
        host_id: u8 = 253, "", 1 => 253;
        /// Position gain: `kp_scale` of a command is a share of it.
        kp: f64 = 20.0, "N·m/rad", 0.0 => 5000.0;
        /// Velocity gain: `kd_scale` of a command is a share of it.
        kd: f64 = 0.5, "N·m·s/rad", 0.0 => 100.0;
        /// Velocity gain while it damps.
        damping: f64 = 1.0, "N·m·s/rad", 0.01 => 100.0;
        /// Half the range of positions. Without the key two turns; firmware before 0.0.2.6 has 12.5.
        position_range: Option<f64> = None, "rad", 0.1 => 1000.0;
        /// The greatest velocity that can be represented. Required where sources differ on the model's.
        velocity_range: Option<f64> = None, "rad/s", 0.1 => 1000.0;
        /// The greatest torque that can be represented. Required where sources differ on the model's.
        torque_range: Option<f64> = None, "N·m", 0.01 => 1000.0;
        /// The motor's own torque limit (its parameter 0x700B), where it was set to another than the model's greatest: a motor that reports
        /// another one is not driven, as it may be another model.
        torque_limit: Option<f64> = None, "N·m", 0.01 => 1000.0;
        /// The watchdog of a CyberGear is not set and not checked: without this computer it may follow its last command for ever.
        unwatched: bool = false, "";
    }
}
