//! What is emulated of each family: one file for each, whose `Setup` is a [`Family`].

use crate::config::Device;
use crate::misbehaviour::Misbehaviours;
use crate::moteus;
use crate::twin::{Family, Twin};
use std::ops::RangeInclusive;

macro_rules! emulated {
    ($($(#[doc = $doc:literal])+ $name:ident($module:ident) = $word:literal, $title:literal $(, $keys:ident: $of_it:literal)?;)+) => {
        /// What a servo speaks, with what is set up in it.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum FamilyConfig { $($(#[doc = $doc])+ $name(crate::$module::Setup),)+ }

        impl FamilyConfig {
            /// How its servos misbehave.
            pub fn misbehaviours(&self) -> &dyn Misbehaviours {
                match self { $(Self::$name(setup) => setup,)+ }
            }

            /// The ids its servos can have.
            pub(crate) const fn ids(&self) -> RangeInclusive<u8> {
                match self { $(Self::$name(_) => crate::$module::Setup::LEAST_ID..=crate::$module::Setup::MOST_ID,)+ }
            }
        }

        /// Builds the servo a configuration describes, just switched on.
        ///
        /// # Errors
        /// The name of a setting it does not have.
        pub(crate) fn switched_on(config: &ServoConfig, seed: u64) -> Result<Box<dyn Twin>, String> {
            match config.family { $(FamilyConfig::$name(setup) => setup_on(config.of(setup), seed),)+ }
        }
    };
}

khz_servo::families!(emulated);

fn setup_on<F: Family>(device: Device<F>, seed: u64) -> Result<Box<dyn Twin>, String> {
    Ok(Box::new(F::switched_on(device, seed)?))
}

impl Default for FamilyConfig {
    fn default() -> Self {
        Self::Moteus(moteus::Setup)
    }
}

/// One servo and the joint it drives.
pub type ServoConfig = Device<FamilyConfig>;
