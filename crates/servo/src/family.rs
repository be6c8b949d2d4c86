//! The list of families.

use crate::{ByHand, FamilySettings, Plan, Servos, cubemars, damiao, mit, moteus, robstride};
use khz_settings::words;
use khz_wire::{Address, Frame};

words! {
    /// The families of servos.
    FamilyName {
        /// mjbots' moteus, by its register protocol.
        Moteus = "moteus",
        /// Damiao (DM4310 and relatives), in MIT mode.
        Damiao = "damiao",
        /// RobStride and the CyberGear, by their private protocol.
        Robstride = "robstride",
        /// CubeMars (T-Motor) AK, in MIT mode.
        Cubemars = "cubemars",
    }
}

impl FamilyName {
    /// What people call its servos.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Moteus => "moteus",
            Self::Damiao => "Damiao",
            Self::Robstride => "RobStride",
            Self::Cubemars => "CubeMars",
        }
    }
}

/// The family of a servo, with what a robot file says of it in that family's words.
#[derive(Clone, Debug, PartialEq)]
pub enum Family {
    /// mjbots' moteus.
    Moteus(moteus::Settings),
    /// Damiao in MIT mode.
    Damiao(damiao::Settings),
    /// RobStride and the CyberGear.
    Robstride(robstride::Settings),
    /// CubeMars AK in MIT mode.
    Cubemars(cubemars::Settings),
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

    /// Its name.
    pub const fn name(&self) -> FamilyName {
        match self {
            Self::Moteus(_) => FamilyName::Moteus,
            Self::Damiao(_) => FamilyName::Damiao,
            Self::Robstride(_) => FamilyName::Robstride,
            Self::Cubemars(_) => FamilyName::Cubemars,
        }
    }

    /// The settings, whatever the family.
    pub fn settings(&self) -> &dyn FamilySettings {
        match self {
            Self::Moteus(settings) => settings,
            Self::Damiao(settings) => settings,
            Self::Robstride(settings) => settings,
            Self::Cubemars(settings) => settings,
        }
    }

    /// What is done with the servo by hand.
    pub fn by_hand(&self) -> &dyn ByHand {
        match self {
            Self::Moteus(settings) => settings,
            Self::Damiao(settings) => settings,
            Self::Robstride(settings) => settings,
            Self::Cubemars(settings) => settings,
        }
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

/// The servos of one bus, by family. Allocates.
pub fn on_bus(plans: &[ServoPlan]) -> Vec<Box<dyn Servos>> {
    let mut moteus = moteus::Bus::default();
    let mut damiao = mit::Bus::default();
    let mut robstride = mit::Bus::default();
    let mut cubemars = mit::Bus::default();
    for plan in plans {
        match &plan.family {
            Family::Moteus(settings) => moteus.add(&plan.of(settings)),
            Family::Damiao(settings) => damiao.add(plan, damiao::Protocol::of(&plan.of(settings))),
            Family::Robstride(settings) => robstride.add(plan, robstride::Protocol::of(&plan.of(settings))),
            Family::Cubemars(settings) => cubemars.add(plan, cubemars::Protocol::of(&plan.of(settings))),
        }
    }
    let all: [Box<dyn Servos>; 4] =
        [Box::new(moteus), Box::new(damiao), Box::new(robstride), Box::new(cubemars)];
    all.into_iter().filter(|servos| servos.turns() > 0).collect()
}
