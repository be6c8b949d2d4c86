//! `[[servo]]`: one joint with the servo that drives it.

use khz_emu::{DeviceConfig, HeatConfig, JointConfig};
use khz_settings::{section, words};
use khz_wire::{Class, Resolution};

/// One servo, with the defaults of `[servo_defaults]` filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct ServoConfig {
    /// Index of its bus in [`super::RobotConfig::buses`].
    pub bus: usize,
    /// What the file says about it.
    pub settings: ServoSettings,
}

impl std::ops::Deref for ServoConfig {
    type Target = ServoSettings;

    fn deref(&self) -> &ServoSettings {
        &self.settings
    }
}

section! {
    /// One `[[servo]]`, or `[servo_defaults]` for what they have in common (all keys but `name` and `id`).
    ServoSettings {
        /// Name of the joint: letters, digits and `_`, first a letter. It names the joint in logs and programs.
        name: String, "";
        /// Name of the bus the servo is on.
        bus: String, "";
        /// The servo's id on its bus (`id.id` in its own configuration).
        id: u8, "", 1 => 126;
        /// Direction of the joint: −1 if it turns against the servo. `joint = sign × servo + offset`.
        sign: i8 = 1, "", -1 => 1;
        /// Joint angle at the servo's zero.
        offset: f64 = 0.0, "rad", -100.0 => 100.0;
        /// What the joint may do.
        limits: Limits = Limits::default(), "";
        /// The servo damps by itself when it has heard no command for this long.
        watchdog_s: f64 = 0.1, "s", 0.002 => 30.0;
        /// How its state travels.
        query: QueryFormat = QueryFormat::default(), "";
        /// How commands travel.
        command: CommandFormat = CommandFormat::default(), "";
        /// The emulated joint; real servos ignore it.
        joint: JointConfig = JointConfig::default(), "";
        /// The emulated servo; real servos keep their own settings.
        device: DeviceConfig = DeviceConfig::default(), "";
        /// How the emulated servo warms up.
        heat: HeatConfig = HeatConfig::default(), "";
    }
}

section! {
    /// `limits` of a servo. What is not written is not limited. How each limit is kept is in safety.md.
    Limits {
        /// Least and greatest joint angle. A joint found outside is not armed, one that leaves them under control is brought
        /// down (`position_tolerance`); targets are kept within.
        position: Option<[f64; 2]> = None, "rad", -10_000.0 => 10_000.0;
        /// Greatest speed of the joint: a target moves no faster, and a joint that does is brought down (`velocity_factor`).
        /// Without it a target may jump.
        velocity: Option<f64> = None, "rad/s", 0.001 => 1000.0;
        /// Greatest torque.
        torque: Option<f64> = None, "N·m", 0.001 => 1000.0;
    }
}

words! {
    /// How a value travels.
    Format {
        /// It is not sent or asked for.
        None = "none",
        /// One byte.
        Int8 = "int8",
        /// Two bytes.
        Int16 = "int16",
        /// Four bytes, scaled.
        Int32 = "int32",
        /// Four bytes, floating point.
        Float = "float",
    }
}

impl Format {
    /// The wire's word for it; `None` if the value does not travel.
    pub const fn resolution(self) -> Option<Resolution> {
        match self {
            Self::None => None,
            Self::Int8 => Some(Resolution::Int8),
            Self::Int16 => Some(Resolution::Int16),
            Self::Int32 => Some(Resolution::Int32),
            Self::Float => Some(Resolution::Float),
        }
    }

    /// The greatest magnitude it carries, in the unit of the wire; 0 if the value does not travel.
    pub fn greatest(self, class: Class) -> f64 {
        self.resolution().map_or(0.0, |format| class.greatest(format))
    }

    /// The least magnitude above 0 it carries, in the unit of the wire; 0 for floats, and if the value does not travel.
    pub fn step(self, class: Class) -> f64 {
        self.resolution()
            .filter(|format| *format != Resolution::Float)
            .map_or(0.0, |format| class.lsb(format))
    }
}

section! {
    /// `query` of a servo: what it is asked every tick. Mode and fault are always asked.
    QueryFormat {
        /// Position; cannot be `none`.
        position: Format = Format::Float, "";
        /// Velocity.
        velocity: Format = Format::Float, "";
        /// Torque.
        torque: Format = Format::Float, "";
        /// Supply voltage.
        voltage: Format = Format::Int8, "";
        /// Temperature of the servo's board.
        temperature: Format = Format::Int8, "";
    }
}

section! {
    /// `command` of a servo: what it is told every tick. The mode is always sent.
    CommandFormat {
        /// Target position.
        position: Format = Format::Float, "";
        /// Target velocity.
        velocity: Format = Format::Float, "";
        /// Feed-forward torque.
        torque: Format = Format::Float, "";
        /// Scale of the position gain.
        kp_scale: Format = Format::Int8, "";
        /// Scale of the velocity gain.
        kd_scale: Format = Format::Int8, "";
        /// Greatest torque.
        max_torque: Format = Format::Int16, "";
        /// The watchdog; with `none` the servo's own setting counts.
        watchdog: Format = Format::Int16, "";
    }
}
