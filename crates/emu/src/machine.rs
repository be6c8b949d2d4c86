//! A whole machine: its buses, servos and IMU, and what can be wrong with them.

use crate::config::{BusConfig, ImuConfig};
use crate::family::ServoConfig;

/// An emulated machine: its buses, servos and IMU.
#[derive(Clone, Debug, Default)]
pub struct WorldConfig {
    /// The buses; a servo names one by its index, which is also its channel on the link.
    pub buses: Vec<BusConfig>,
    /// The servos, in the order in which a body counts its joints.
    pub servos: Vec<ServoConfig>,
    /// The IMU, if there is one.
    pub imu: Option<ImuConfig>,
    /// Seed of all noise; equal seeds and equal inputs give equal bytes.
    pub seed: u64,
}

/// Why a [`crate::World`] cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A servo names a bus that is not there.
    #[error("servo {servo}: bus {bus} does not exist; there are {buses}")]
    NoSuchBus {
        /// Index of the servo.
        servo: usize,
        /// The bus it names.
        bus: usize,
        /// How many there are.
        buses: usize,
    },
    /// What simulates the body cannot.
    #[error("[body] {0}")]
    Body(String),
    /// A servo id no device can have.
    #[error("servo {servo}: id {id} is not between {least} and {most}")]
    BadId {
        /// Index of the servo.
        servo: usize,
        /// The id.
        id: u8,
        /// The least id of its family.
        least: u8,
        /// The greatest.
        most: u8,
    },
    /// A joint without inertia, or with end stops the wrong way round.
    #[error("servo {servo}: {what}")]
    BadJoint {
        /// Index of the servo.
        servo: usize,
        /// What is wrong and what would be right.
        what: &'static str,
    },
    /// A setting the servo does not have.
    #[error("servo {servo}: no setting is called {name:?}")]
    NoSuchSetting {
        /// Index of the servo.
        servo: usize,
        /// What was asked for.
        name: String,
    },
    /// A bit rate of zero.
    #[error("bus {bus}: the bit rate must be more than 0")]
    BadRate {
        /// Index of the bus.
        bus: usize,
    },
    /// More buses than a link has channels.
    #[error("{0} buses; at most 255 are possible")]
    TooManyBuses(usize),
}

impl WorldConfig {
    /// Everything that does not need the servos' settings.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.buses.len() > 255 {
            return Err(ConfigError::TooManyBuses(self.buses.len()));
        }
        for (bus, config) in self.buses.iter().enumerate() {
            if !config.wire.runs() {
                return Err(ConfigError::BadRate { bus });
            }
        }
        self.servos.iter().enumerate().try_for_each(|(servo, config)| self.check_servo(servo, config))
    }

    fn check_servo(&self, servo: usize, config: &ServoConfig) -> Result<(), ConfigError> {
        let buses = self.buses.len();
        if config.bus >= buses {
            return Err(ConfigError::NoSuchBus { servo, bus: config.bus, buses });
        }
        let ids = config.family.ids();
        if !ids.contains(&config.id) {
            let (least, most) = ids.into_inner();
            return Err(ConfigError::BadId { servo, id: config.id, least, most });
        }
        let [low, high] = config.joint.stops.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
        match config.joint {
            joint if joint.inertia.is_nan() || joint.inertia <= 0.0 => {
                Err(ConfigError::BadJoint { servo, what: "the inertia must be more than 0" })
            }
            joint if !(low..=high).contains(&joint.start) => {
                Err(ConfigError::BadJoint { servo, what: "the joint must start between its end stops" })
            }
            _ => Ok(()),
        }
    }
}
