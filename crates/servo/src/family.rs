//! The list of families.

use crate::{ByHand, Carries, Exchange, Mounting, Servos, damiao, moteus};
use khz_settings::words;
use khz_wire::{Address, Frame};

words! {
    /// The families of servos.
    FamilyName {
        /// mjbots' moteus, by its register protocol.
        Moteus = "moteus",
        /// Damiao (DM4310 and relatives), in MIT mode.
        Damiao = "damiao",
    }
}

/// The family of a servo, with what a robot file says of it in that family's words.
#[derive(Clone, Debug, PartialEq)]
pub enum Family {
    /// mjbots' moteus.
    Moteus(moteus::Settings),
    /// Damiao in MIT mode.
    Damiao(damiao::Settings),
}

impl Family {
    /// The settings, whatever the family.
    pub fn settings(&self) -> &dyn FamilySettings {
        match self {
            Self::Moteus(settings) => settings,
            Self::Damiao(settings) => settings,
        }
    }

    /// What is done with the servo by hand.
    pub fn by_hand(&self) -> &dyn ByHand {
        match self {
            Self::Moteus(settings) => settings,
            Self::Damiao(settings) => settings,
        }
    }
}

impl Default for Family {
    fn default() -> Self {
        Self::Moteus(moteus::Settings::default())
    }
}

/// What a family can tell of a servo before any frame travels. Not for the tick: allocates.
pub trait FamilySettings {
    /// What can be sent to the servo and heard from it.
    fn carries(&self, mounting: &Mounting) -> Carries;

    /// The targets within `limits`, rad at the joint, that are still within them after rounding for the wire. The wrong way round if
    /// there are none.
    fn targets(&self, limits: [f64; 2], mounting: &Mounting) -> [f64; 2];

    /// The frames of one exchange with the servo of this id, the command and the reply: their lengths and identifiers are those of a
    /// real one.
    fn exchange(&self, id: u8) -> [Frame; 2];

    /// The id of the servo that a frame is a reply of, whichever it is; `None` if no servo of this family replies so. For
    /// the tick: does not allocate.
    fn replier(&self, frame: &Frame) -> Option<u8>;

    /// The numbers and names of the servo's modes.
    fn modes(&self) -> Vec<(u64, &'static str)>;

    /// What the servo does when it has heard nothing for as long as its watchdog waits, in words for people.
    fn cut_off(&self) -> &'static str;

    /// What is said to the servo before it may be driven, in order. None, as a rule.
    fn ready(&self, plan: &ServoPlan) -> Vec<Exchange> {
        let _ = plan;
        Vec::new()
    }
}

/// The id of the servo that a frame is a reply of, whatever its family, where nobody knows which families are on the bus.
pub fn replier(frame: &Frame) -> Option<u8> {
    Address::replier(frame)
}

/// One servo of a bus.
#[derive(Clone, Debug)]
pub struct ServoPlan {
    /// Its number in the robot.
    pub servo: usize,
    /// Its id on the bus.
    pub id: u8,
    /// How it is mounted.
    pub mounting: Mounting,
    /// The servo acts by itself if it hears nothing this long, s. NaN: never.
    pub watchdog_s: f64,
    /// Its family.
    pub family: Family,
}

/// The servos of one bus, by family. Allocates.
pub fn on_bus(plans: &[ServoPlan]) -> Vec<Box<dyn Servos>> {
    let mut moteus = moteus::Bus::default();
    let mut damiao = damiao::Bus::default();
    for plan in plans {
        match &plan.family {
            Family::Moteus(settings) => moteus.add(plan, settings),
            Family::Damiao(settings) => damiao.add(plan, settings),
        }
    }
    let all: [Box<dyn Servos>; 2] = [Box::new(moteus), Box::new(damiao)];
    all.into_iter().filter(|servos| servos.turns() > 0).collect()
}
