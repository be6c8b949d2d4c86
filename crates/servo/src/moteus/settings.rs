//! How the values of a moteus travel: `query` and `command` of a servo in a robot file.

use khz_settings::{section, words};
use khz_wire::{Class, Resolution};
use std::f64::consts::TAU;

words! {
    /// How a value travels.
    Format {
        /// Not sent or requested.
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

    /// The greatest magnitude it carries, in the joint's unit (rad, rad/s, N·m) and seen from the servo's zero.
    pub fn reach(self, class: Class) -> f64 {
        let turns = if matches!(class, Class::Position | Class::Velocity) { TAU } else { 1.0 };
        self.greatest(class) * turns
    }

    /// The least magnitude above 0 it carries, in the unit of the wire; 0 for floats, and if the value does not travel.
    pub fn step(self, class: Class) -> f64 {
        self.resolution()
            .filter(|format| *format != Resolution::Float)
            .map_or(0.0, |format| class.lsb(format))
    }
}

section! {
    /// `query` of a servo: what is requested every tick. Mode and fault are always requested.
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
    /// `command` of a servo: what is sent every tick. The mode is always sent.
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
        /// Maximum torque.
        max_torque: Format = Format::Int16, "";
        /// The watchdog; with `none` the servo's own setting applies.
        watchdog: Format = Format::Int16, "";
    }
}
