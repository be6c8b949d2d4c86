//! `[imu]`, `[controller]`, `[log]`, `[emulation]` and `[body]`.

use crate::controller::{SineParameters, StandAndSquatParameters};
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

section! {
    /// `[imu]`: the inertial measurement unit. Without the table there is none.
    ImuConfig {
        /// Where it is.
        link: ImuLink, "";
        /// How it is mounted: yaw, pitch and roll from the body to the IMU. Only for `pi3hat`.
        mounting: [f64; 3] = [0.0; 3], "rad", -7.0 => 7.0;
    }
}

words! {
    /// The controllers that come with the program.
    ControllerKind {
        /// Hold every joint where it was found.
        Hold = "hold",
        /// Swing every joint around where it was found, with a rising frequency.
        Sine = "sine",
        /// A quadruped stands up and squats, or trots on the spot. Legs are groups of three servos: hip, thigh, knee.
        StandAndSquat = "stand_and_squat",
    }
}

/// Which controller runs, and how.
#[derive(Clone, Debug, PartialEq)]
pub enum ControllerConfig {
    /// Hold every joint where it was found.
    Hold(HoldParameters),
    /// Swing every joint.
    Sine(SineParameters),
    /// Stand up and squat.
    StandAndSquat(StandAndSquatParameters),
}

section! {
    /// The keys every `[controller]` has.
    ControllerSection {
        /// Which controller runs.
        name: ControllerKind = ControllerKind::Hold, "";
    }
}

section! {
    /// `[controller]` with `name = "hold"`: nothing to set.
    HoldParameters {}
}

words! {
    /// How records are compressed.
    Compression {
        /// With snappy: every reader of the format understands it.
        Snappy = "snappy",
        /// Not at all.
        None = "none",
    }
}

section! {
    /// `[log]`: the record of every tick.
    LogConfig {
        /// File to write, relative to the working directory. An existing file of this name is kept: a number is
        /// added.
        path: String = "run.tlog".to_owned(), "";
        /// Write a log at all.
        enabled: bool = true, "";
        /// Memory between the loop and the disk. When it is full, records are dropped and counted.
        ring_mib: u32 = 16, "MiB", 1 => 4096;
        /// How records are compressed.
        compression: Compression = Compression::Snappy, "";
        /// Records that are compressed by zstd instead, many samples together: about half of what snappy makes of them.
        /// Readers that are not of this project see them as byte strings.
        zstd: Vec<String> = Vec::new(), "";
        /// Begin a new file when this one is so large.
        rotate_mib: Option<u32> = None, "MiB", 1 => 1_000_000;
        /// Begin a new file after this time.
        rotate_s: Option<f64> = None, "s", 1.0 => 1e9;
        /// Stop writing, and count, when the disk has less room than this.
        keep_free_mib: u32 = 256, "MiB", 0 => 1_000_000;
        /// Send everything that is recorded by UDP too, to `khz log record` at this address, `HOST:PORT`.
        stream: Option<String> = None, "";
    }
}

impl ControllerKind {
    /// The keys of `[controller]` with this name.
    pub const fn keys(self) -> &'static [Key] {
        match self {
            Self::Hold => HoldParameters::KEYS,
            Self::Sine => SineParameters::KEYS,
            Self::StandAndSquat => StandAndSquatParameters::KEYS,
        }
    }

    fn read(self, table: &DeTable<'_>, reader: &mut Reader) -> ControllerConfig {
        const PATH: &str = "controller";
        match self {
            Self::Hold => ControllerConfig::Hold(HoldParameters {}),
            Self::Sine => ControllerConfig::Sine(SineParameters::default().over(table, PATH, reader)),
            Self::StandAndSquat => {
                ControllerConfig::StandAndSquat(StandAndSquatParameters::default().over(table, PATH, reader))
            }
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
        }
    }
}

impl Default for ControllerConfig {
    fn default() -> Self {
        Self::Hold(HoldParameters {})
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
