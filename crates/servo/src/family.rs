//! The list of families: a module for each that has `Settings`, and a line.

use crate::about::OnBus;
use crate::{ByHand, FamilySettings, Plan, Servos, cubemars, damiao, moteus, robstride};
use khz_settings::words;
use khz_wire::{Address, Frame};

macro_rules! families {
    ($($(#[doc = $doc:literal])+ $name:ident($module:ident) = $word:literal, $title:literal;)+) => {
        words! {
            /// The families of servos.
            FamilyName { $($(#[doc = $doc])+ $name = $word,)+ }
        }

        impl FamilyName {
            /// What people call its servos.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)+ }
            }
        }

        /// The family of a servo, with what a robot file says of it in that family's words.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Family { $($(#[doc = $doc])+ $name($module::Settings),)+ }

        impl Family {
            /// Its name.
            pub const fn name(&self) -> FamilyName {
                match self { $(Self::$name(_) => FamilyName::$name,)+ }
            }

            /// The settings, whatever the family.
            pub fn settings(&self) -> &dyn FamilySettings {
                match self { $(Self::$name(settings) => settings,)+ }
            }

            /// What is done with the servo by hand.
            pub fn by_hand(&self) -> &dyn ByHand {
                match self { $(Self::$name(settings) => settings,)+ }
            }
        }

        /// The servos of one bus, by family. Allocates.
        pub fn on_bus(plans: &[ServoPlan]) -> Vec<Box<dyn Servos>> {
            $(let mut $module = <$module::Settings as OnBus>::Bus::default();)+
            for plan in plans {
                match &plan.family { $(Family::$name(settings) => OnBus::add(&mut $module, &plan.of(settings)),)+ }
            }
            let all: [Box<dyn Servos>; FamilyName::ALL.len()] = [$(Box::new($module),)+];
            all.into_iter().filter(|servos| servos.turns() > 0).collect()
        }
    };
}

families! {
    /// mjbots' moteus, by its register protocol.
    Moteus(moteus) = "moteus", "moteus";
    /// Damiao (DM4310 and relatives), in MIT mode.
    Damiao(damiao) = "damiao", "Damiao";
    /// RobStride and the CyberGear, by their private protocol.
    Robstride(robstride) = "robstride", "RobStride";
    /// CubeMars (T-Motor) AK, in MIT mode.
    Cubemars(cubemars) = "cubemars", "CubeMars";
}

impl Family {
    /// The families that may be on a bus of which nobody knows, in the order in which to ask for them.
    ///
    /// Requests of one family may be commands to another, so the next is asked only if nobody has answered: to a moteus those of a
    /// Damiao are a broadcast that writes, and a motor set to classic CAN disturbs every frame of CAN-FD. A CubeMars cannot be asked
    /// without being switched off.
    pub fn possible() -> Vec<Self> {
        let damiao = |can_fd| {
            let file = damiao::DamiaoSettings { can_fd, ..damiao::DamiaoSettings::default() };
            Self::Damiao(damiao::Settings::of(&file, 0))
        };
        let robstride = Self::Robstride(robstride::Settings::of(&robstride::RobstrideSettings::default()));
        vec![Self::default(), robstride, damiao(false), damiao(true)]
    }

    /// What servos of this family may be, where no robot file says it, in the order in which to ask for them.
    pub fn named(name: FamilyName) -> Vec<Self> {
        let cubemars = Self::Cubemars(cubemars::Settings::of(&cubemars::CubemarsSettings::default()));
        Self::possible().into_iter().chain([cubemars]).filter(|family| family.name() == name).collect()
    }
}

impl Default for Family {
    fn default() -> Self {
        Self::Moteus(moteus::Settings::default())
    }
}

/// The id of the servo that a frame is a reply of, whatever its family, where nobody knows which families are on the bus.
pub fn replier(frame: &Frame) -> Option<u8> {
    Address::replier(frame)
}

/// One servo of a bus, of whichever family.
pub type ServoPlan = Plan<Family>;
