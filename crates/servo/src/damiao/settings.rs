//! `damiao` of a servo in a robot file: which motor it is, and how it is driven.

use khz_settings::{section, words};

words! {
    /// The model of a Damiao servo: what its codes mean unless it was changed.
    Model {
        /// DM3507: ±12.566 rad, 50 rad/s, 5 N·m.
        Dm3507 = "3507",
        /// DM4310: ±12.5 rad, 30 rad/s, 10 N·m.
        Dm4310 = "4310",
        /// DM4310P, or DM4310 at 48 V: ±12.5 rad, 50 rad/s, 10 N·m.
        Dm4310P = "4310P",
        /// DM4340: ±12.5 rad, 10 rad/s, 28 N·m. Some leave the factory with 8 rad/s.
        Dm4340 = "4340",
        /// DM4340P, or DM4340 at 48 V: ±12.5 rad, 10 rad/s, 28 N·m. Some leave the factory with 8 rad/s.
        Dm4340P = "4340P",
        /// DM6006: ±12.5 rad, 45 rad/s, 20 N·m.
        Dm6006 = "6006",
        /// DM6248P: ±12.566 rad, 20 rad/s, 120 N·m.
        Dm6248P = "6248P",
        /// DM8006: ±12.5 rad, 45 rad/s, 40 N·m.
        Dm8006 = "8006",
        /// DM8009 and DM8009P: ±12.5 rad, 45 rad/s, 54 N·m.
        Dm8009 = "8009",
        /// DM10010: ±12.5 rad, 20 rad/s, 200 N·m.
        Dm10010 = "10010",
        /// DM10010L: ±12.5 rad, 25 rad/s, 200 N·m.
        Dm10010L = "10010L",
        /// DMH3510: ±12.5 rad, 280 rad/s, 1 N·m.
        H3510 = "H3510",
        /// DMG6215: ±12.5 rad, 45 rad/s, 10 N·m.
        G6215 = "G6215",
        /// DMH6220: ±12.5 rad, 45 rad/s, 10 N·m.
        H6220 = "H6220",
        /// DMJH11: ±12.5 rad, 10 rad/s, 12 N·m.
        Jh11 = "JH11",
    }
}

impl Model {
    /// Half the ranges of position (rad), velocity (rad/s) and torque (N·m).
    ///
    /// From `damiao-motor` 1.0.6; `openarm_can` 9866604 and LeRobot 0.6.2 agree but for 3507 and 4340. Whatever is right: the
    /// servo is asked at the start, and the robot does not move if it reports something else.
    pub const fn ranges(self) -> [f64; 3] {
        match self {
            Self::Dm3507 => [12.566, 50.0, 5.0],
            Self::Dm4310 => [12.5, 30.0, 10.0],
            Self::Dm4310P => [12.5, 50.0, 10.0],
            Self::Dm4340 | Self::Dm4340P => [12.5, 10.0, 28.0],
            Self::Dm6006 => [12.5, 45.0, 20.0],
            Self::Dm6248P => [12.566, 20.0, 120.0],
            Self::Dm8006 => [12.5, 45.0, 40.0],
            Self::Dm8009 => [12.5, 45.0, 54.0],
            Self::Dm10010 => [12.5, 20.0, 200.0],
            Self::Dm10010L => [12.5, 25.0, 200.0],
            Self::H3510 => [12.5, 280.0, 1.0],
            Self::G6215 | Self::H6220 => [12.5, 45.0, 10.0],
            Self::Jh11 => [12.5, 10.0, 12.0],
        }
    }
}

section! {
    /// `damiao` of a servo with `family = "damiao"`.
    DamiaoSettings {
        /// The motor's model; required.
        model: Option<Model> = None, "";
        /// The identifier of its replies (its register 7), not 0. Without the key its id + 16.
        master_id: Option<u16> = None, "", 0 => 2046;
        /// Frames are CAN-FD with bit-rate switch; the motor must be set to it, too. Otherwise classic CAN.
        can_fd: bool = false, "";
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
        torque_range: Option<f64> = None, "N·m", 0.01 => 10_000.0;
    }
}
