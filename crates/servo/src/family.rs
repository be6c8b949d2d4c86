//! The list of families: a module for each that has `Settings`, and a line.
//!
//! [`families!`](crate::families!) hands the list on: code that needs something of each family does not compile until it has that.

use crate::about::OnBus;
use crate::{ByHand, FamilySettings, ServoPlan, Servos, moteus};
use khz_settings::words;
use khz_wire::{Address, Frame};
use std::path::Path;

/// Hands the list of families to a macro of the caller: what documents each, its name, its module, how it is written, what people
/// call its servos, and its table of a servo in a robot file, if it has one, with what that is for.
#[macro_export]
macro_rules! families {
    ($of_each:ident) => {
        $of_each! {
            /// mjbots' moteus, by its register protocol.
            Moteus(moteus) = "moteus", "moteus";
            /// Damiao (DM4310 and relatives), in MIT mode.
            Damiao(damiao) = "damiao", "Damiao", DamiaoSettings: "Model, ranges and gains of a Damiao servo.";
            /// RobStride and the CyberGear, by their private protocol.
            Robstride(robstride) = "robstride", "RobStride", RobstrideSettings: "Model, ranges and gains of a RobStride servo or CyberGear.";
            /// RobStride set to its MIT protocol.
            RobstrideMit(robstride_mit) = "robstride_mit", "RobStride MIT", RobstrideMitSettings: "Model, ranges and gains of a RobStride servo set to its MIT protocol.";
            /// CubeMars (T-Motor) AK, in MIT mode.
            Cubemars(cubemars) = "cubemars", "CubeMars", CubemarsSettings: "Model, ranges and gains of a CubeMars servo.";
            /// MyActuator RMD, in motion mode.
            Rmd(rmd) = "rmd", "RMD", RmdSettings: "Model, protocol and gains of an RMD motor.";
            /// ODrive, by CANSimple.
            Odrive(odrive) = "odrive", "ODrive", OdriveSettings: "Firmware, gearing and gains of an ODrive.";
            /// Dynamixel of the X series, by protocol 2.0.
            Dynamixel(dynamixel) = "dynamixel", "Dynamixel", DynamixelSettings: "Model, mode and gains of a Dynamixel servo.";
            /// Feetech of the STS and SMS series.
            Feetech(feetech) = "feetech", "Feetech", FeetechSettings: "Model, motor and gains of a Feetech servo.";
        }
    };
}

macro_rules! named {
    ($($(#[doc = $doc:literal])+ $name:ident($module:ident) = $word:literal, $title:literal $(, $keys:ident: $of_it:literal)?;)+) => {
        words! {
            /// The families of servos.
            FamilyName { $($(#[doc = $doc])+ $name = $word,)+ }
        }

        impl FamilyName {
            /// What people call its servos.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)+ }
            }

            /// How all of them are written, for the usage of commands.
            pub const USAGE: &'static str = concat!($("|", $word),+).split_at(1).1;

            const fn asked(self) -> Option<u8> {
                match self { $(Self::$name => <crate::$module::Settings as OnBus>::ASKED,)+ }
            }
        }

        /// The family of a servo, with its keys in a robot file, in that family's terms.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Family { $($(#[doc = $doc])+ $name(crate::$module::Settings),)+ }

        impl Family {
            /// Its name.
            pub const fn name(&self) -> FamilyName {
                match self { $(Self::$name(_) => FamilyName::$name,)+ }
            }

            /// What servos of this family may be, where no robot file gives it, in the order in which to ask for them.
            pub fn named(name: FamilyName) -> Vec<Self> {
                match name {
                    $(FamilyName::$name => <crate::$module::Settings as OnBus>::unknown().into_iter().map(Self::$name).collect(),)+
                }
            }

            /// The settings, whatever the family.
            pub fn settings(&self) -> &dyn FamilySettings {
                match self { $(Self::$name(settings) => settings,)+ }
            }

            /// The same, with the file that gives which number each of its settings has (`flat_endpoints.json` of an ODrive); `None`: its
            /// settings have no such numbers.
            pub fn with_endpoints(self, path: &Path) -> Option<Self> {
                match self { $(Self::$name(settings) => settings.with_endpoints(path).map(Self::$name),)+ }
            }

            /// What is done with the servo by hand.
            pub fn by_hand(&self) -> &dyn ByHand {
                match self { $(Self::$name(settings) => settings,)+ }
            }
        }

        /// The servos of one bus, by family. Allocates.
        pub fn on_bus(plans: &[ServoPlan<Family>]) -> Vec<Box<dyn Servos>> {
            $(let mut $module = <crate::$module::Settings as OnBus>::Bus::default();)+
            for plan in plans {
                match &plan.family { $(Family::$name(settings) => OnBus::add(&mut $module, &plan.of(settings)),)+ }
            }
            let all: [Box<dyn Servos>; FamilyName::ALL.len()] = [$(Box::new($module),)+];
            all.into_iter().filter(|servos| servos.turns() > 0).collect()
        }
    };
}

families!(named);

impl Family {
    /// The families that may be on a bus whose families are unknown, in the order in which to ask for them.
    ///
    /// Requests of one family may be commands to another, so the next is asked only if there was no reply: to a moteus those of a
    /// Damiao are a broadcast that writes, and a motor set to classic CAN disturbs every frame of CAN-FD.
    pub fn possible() -> Vec<Self> {
        let mut asked: Vec<_> = FamilyName::ALL.iter().filter(|name| name.asked().is_some()).collect();
        asked.sort_by_key(|name| name.asked());
        asked.into_iter().flat_map(|&name| Self::named(name)).collect()
    }
}

impl Default for Family {
    fn default() -> Self {
        Self::Moteus(moteus::Settings::default())
    }
}

/// The id of the servo that sent a reply, whatever its family, where the families on the bus are unknown.
pub fn replier(frame: &Frame) -> Option<u8> {
    Address::replier(frame)
}
