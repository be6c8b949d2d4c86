//! `[imu]`, `[controller]`, `[log]`, `[emulation]` and `[body]`.

use crate::controller::{HoldParameters, SineParameters, StandAndSquatParameters, WalkParameters};
use crate::links::LinkKind;
use khz_settings::Problem;
use khz_settings::{Key, Reader, section, suggestion, words};
use toml::de::DeTable;

words! {
    /// Where the IMU is.
    ImuLink {
        /// Emulated in this process.
        Emulated = "emulated",
        /// On the pi3hat.
        Pi3hat = "pi3hat",
        /// In a device behind Ethernet, which sends its reading along with its reply.
        Udp = "udp",
    }
}

impl ImuLink {
    /// The kind of the link it is on.
    pub const fn kind(self) -> LinkKind {
        match self {
            Self::Emulated => LinkKind::Emulated,
            Self::Pi3hat => LinkKind::Pi3hat,
            Self::Udp => LinkKind::Udp,
        }
    }
}

section! {
    /// `[imu]`: the inertial measurement unit. Without the table there is none.
    ImuConfig {
        /// Where it is.
        link: ImuLink, "";
        /// Mounting: yaw, pitch and roll from the body to the IMU. Only for `pi3hat`.
        mounting: [f64; 3] = [0.0; 3], "rad", -7.0 => 7.0;
    }
}

words! {
    /// The controllers that come with the program.
    ControllerKind {
        /// Hold every joint at its initial position.
        Hold = "hold",
        /// Swing every joint around its initial position, with a rising frequency.
        Sine = "sine",
        /// A quadruped stands up and squats, or trots in place. Legs are groups of three servos: hip, thigh, knee.
        StandAndSquat = "stand_and_squat",
        /// A quadruped stands up and walks as an operator wants (`[teleop]`). Legs are groups of three servos: hip, thigh, knee.
        Walk = "walk",
    }
}

/// Which controller runs, and how.
#[derive(Clone, Debug, PartialEq)]
pub enum ControllerConfig {
    /// Hold every joint at its initial position.
    Hold(HoldParameters),
    /// Swing every joint.
    Sine(SineParameters),
    /// Stand up and squat.
    StandAndSquat(StandAndSquatParameters),
    /// Stand up and walk.
    Walk(WalkParameters),
}

section! {
    /// The keys every `[controller]` has.
    ControllerSection {
        /// Which controller runs.
        name: ControllerKind = ControllerKind::Hold, "";
    }
}

impl ControllerKind {
    /// The keys of `[controller]` with this name.
    pub const fn keys(self) -> &'static [Key] {
        match self {
            Self::Hold => HoldParameters::KEYS,
            Self::Sine => SineParameters::KEYS,
            Self::StandAndSquat => StandAndSquatParameters::KEYS,
            Self::Walk => WalkParameters::KEYS,
        }
    }

    fn read(self, table: &DeTable<'_>, reader: &mut Reader) -> ControllerConfig {
        const PATH: &str = "controller";
        match self {
            Self::Hold => ControllerConfig::Hold(HoldParameters::default().over(table, PATH, reader)),
            Self::Sine => ControllerConfig::Sine(SineParameters::default().over(table, PATH, reader)),
            Self::StandAndSquat => {
                ControllerConfig::StandAndSquat(StandAndSquatParameters::default().over(table, PATH, reader))
            }
            Self::Walk => ControllerConfig::Walk(WalkParameters::default().over(table, PATH, reader)),
        }
    }
}

impl ControllerConfig {
    /// Which controller it is.
    pub const fn kind(&self) -> ControllerKind {
        match self {
            Self::Hold(_) => ControllerKind::Hold,
            Self::Sine(_) => ControllerKind::Sine,
            Self::StandAndSquat(_) => ControllerKind::StandAndSquat,
            Self::Walk(_) => ControllerKind::Walk,
        }
    }
}

impl Default for ControllerConfig {
    fn default() -> Self {
        Self::Hold(HoldParameters::default())
    }
}

/// Reads `[controller]`: its name first, which says what the other keys are.
pub(super) fn read_controller(table: &DeTable<'_>, reader: &mut Reader) -> ControllerConfig {
    let section = ControllerSection::default().over(table, "controller", reader);
    if table.get("name").is_some() && reader.span("controller.name").is_none() {
        return ControllerConfig::default();
    }
    let known: Vec<_> =
        ControllerSection::KEYS.iter().chain(section.name.keys()).map(|key| key.name).collect();
    for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
        let problem = Problem::error(
            format!("controller.{}", key.get_ref()),
            format!("unknown key `{}` for the controller `{}`", key.get_ref(), section.name),
        )
        .at(key.span(), "no such key here")
        .help(suggestion(key.get_ref(), &known, "the keys here are"));
        reader.problems.push(problem);
    }
    section.name.read(table, reader)
}
