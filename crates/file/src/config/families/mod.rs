//! The keys of each family's servos in a robot file: a file for each, and one list.
//!
//! A new family is a file here whose type, named as the family is, implements [`InFile`]. The checks, the reference, the command
//! line and the emulation follow; what the file leaves out does not compile.

mod cubemars;
mod damiao;
mod dynamixel;
mod feetech;
mod formats;
pub(crate) mod line;
mod mit;
mod moteus;
mod odrive;
mod rmd;
mod robstride;
mod robstride_mit;

use crate::config::{RobotConfig, ServoConfig, ServoSettings};
use khz_emu::{FamilyConfig, VoltageLaw};
use khz_servo::identifiers::Identifier;
use khz_servo::{Carries, Family, FamilyName, ServoPlan};
use khz_settings::{Documented, Problem, Reader, nearest};
use std::ops::Range;
use std::path::Path;

macro_rules! in_files {
    ($($(#[doc = $doc:literal])+ $name:ident($module:ident) = $word:literal, $title:literal $(, $keys:ident: $of_it:literal)?;)+) => {
        /// The family of this name.
        pub fn in_file(name: FamilyName) -> &'static dyn InFile {
            match name { $(FamilyName::$name => &$module::$name,)+ }
        }
    };
}

khz_servo::families!(in_files);

/// The lines of a robot file for a usual servo of this family, with more keys of its own table behind what it must have.
pub fn usual_servo(name: FamilyName, more: &str) -> String {
    match in_file(name).facts().example {
        "" => format!("family = \"{name}\"\n"),
        keys => format!("family = \"{name}\"\n{name} = {{ {keys}{more} }}\n"),
    }
}

/// What is so of all servos of a family.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Keys of a servo that mean something for this family only.
    pub own_keys: &'static [&'static str],
    /// Its own tables: title, what each is for, keys.
    pub tables: &'static [Documented],
    /// What a file must have of one of its servos in its own table, of a usual one.
    pub example: &'static str,
    /// Its gains travel with every command, so that the file has those of real servos.
    pub sends_gains: bool,
    /// The switch that makes it speak CAN-FD, where its servos have one.
    pub fd_switch: Option<[&'static str; 2]>,
    /// The only bit rate its servos leave the factory with, bit/s.
    pub factory_bit_rate: Option<u32>,
    /// A greatest torque travels to its servos (`limits.torque`).
    pub limits_torque: bool,
    /// Its values travel in formats that a file may choose (`query`, `command`).
    pub has_formats: bool,
    /// Its frames are those of the register protocol, so that a link for no others carries them.
    pub by_registers: bool,
    /// It knows its angle within a turn only: a joint found further from the servo's zero reads as one within.
    pub within_turn: bool,
    /// It is asked nothing for a while after it missed a request.
    pub rests_after_miss: bool,
    /// What a host that falls silent leaves moving: whether the servo moves its target on with the velocity of the last command.
    pub moves_target_on: bool,
    /// A watchdog of `watchdog_s` is set in it, or is known to be.
    pub has_watchdog: bool,
    /// It reports whether its output is on.
    pub reports_on: bool,
    /// Why an id is refused that others could have, and the cure, where that is not its number alone.
    pub ids_refused: Option<(&'static str, &'static str)>,
}

/// The keys of one family's servos in a robot file, and what follows from them.
pub trait InFile: Sync {
    /// What is so of all its servos.
    fn facts(&self) -> &'static Facts;

    /// The family, with the keys of a servo in its terms.
    fn family(&self, servo: &ServoSettings) -> Family;

    /// Position and velocity gain, N·m/rad and N·m·s/rad. Of a family whose servos keep their own they are the emulated servo's.
    fn gains(&self, servo: &ServoSettings) -> [f64; 2];

    /// The keys of both: what they are as written may have other units.
    fn gain_keys(&self) -> [&'static str; 2] {
        ["kp", "kd"]
    }

    /// How it follows positions, if it does so by its voltage: its law, as it will be set, and the share of its duty that it may use.
    fn voltage_law(&self, servo: &ServoSettings) -> Option<(VoltageLaw, f64)> {
        let _ = servo;
        None
    }

    /// Where the file has `goal_speed` or `delay_ms` of an emulated servo that has such a thing, with what it is without the key.
    fn goal_law<'a>(&self, servo: &'a mut ServoSettings, key: &str) -> Option<&'a mut f64> {
        let _ = (servo, key);
        None
    }

    /// The greatest torque that the emulated servo gives, N·m, whatever it is commanded; infinite where it has no limit of its own.
    fn most_torque(&self, servo: &ServoSettings) -> f64 {
        let _ = servo;
        f64::INFINITY
    }

    /// The velocity gain with which it is damped, N·m·s/rad, where the file has one for that.
    fn damping<'a>(&self, servo: &'a mut ServoSettings) -> Option<&'a mut f64>;

    /// The model, where the family has models and the file names one.
    fn model(&self, servo: &ServoSettings) -> Option<&'static str>;

    /// Its frames are CAN-FD.
    fn speaks_fd(&self, servo: &ServoSettings) -> bool;

    /// Heat may lower its torque: its temperature is asked for, and its greatest torque is sent.
    fn derates(&self, servo: &ServoSettings) -> bool;

    /// The greatest supply that it bears, V, where that depends on its model.
    fn most_v(&self, _: &ServoSettings) -> f64 {
        f64::INFINITY
    }

    /// The emulated servo. The motor is as in the file: a real one that differs is detected during start-up.
    fn twin(&self, servo: &ServoConfig) -> FamilyConfig;

    /// Checks files that it names, which count from this folder.
    fn check_beside(&self, i: usize, servo: &ServoConfig, folder: &Path, reader: &mut Reader) {
        let _ = (i, servo, folder, reader);
    }

    /// Checks the keys of a servo of this family.
    fn check(&self, robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader);
}

/// Why servos of two families cannot share a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// One speaks CAN-FD, the other does not.
    Format,
    /// A frame that both know.
    Identifier(Identifier),
}

impl ServoConfig {
    /// Why this servo cannot share a bus with one of another family; `None` if it can. Those of one family are checked by that.
    pub fn clash(&self, other: &Self) -> Option<Clash> {
        if self.family == other.family {
            return None;
        }
        let identifiers = |servo: &Self| servo.family().settings().identifiers(servo.id);
        let (own, others) = (identifiers(self), identifiers(other));
        let shared = own.iter().find_map(|own| others.iter().find_map(|other| own.shared(*other)));
        let format = (self.speaks_fd() != other.speaks_fd()).then_some(Clash::Format);
        format.or(shared.map(Clash::Identifier))
    }

    /// Its keys, and what follows from them, in its family's terms.
    pub fn in_file(&self) -> &'static dyn InFile {
        in_file(self.family)
    }

    /// Its family, with its keys in that family's terms.
    pub fn family(&self) -> Family {
        self.in_file().family(self)
    }

    /// What can be sent to it and received from it.
    pub fn carries(&self) -> Carries {
        self.family().settings().carries(&self.mounting())
    }

    /// Position and velocity gain, N·m/rad and N·m·s/rad: see [`InFile::gains`].
    pub fn gains(&self) -> [f64; 2] {
        self.in_file().gains(self)
    }

    /// How it follows positions, if it does so by its voltage: see [`InFile::voltage_law`].
    pub fn voltage_law(&self) -> Option<(VoltageLaw, f64)> {
        self.in_file().voltage_law(self)
    }

    /// The greatest torque that the emulated servo gives, N·m: see [`InFile::most_torque`].
    pub fn most_torque(&self) -> f64 {
        self.in_file().most_torque(self)
    }

    /// The model, where its family has models and the file names one.
    pub fn model(&self) -> Option<&'static str> {
        self.in_file().model(self)
    }

    /// The emulated servo, as [`InFile::twin`] has it.
    pub fn twin(&self) -> FamilyConfig {
        self.in_file().twin(self)
    }

    /// Its frames are CAN-FD.
    pub fn speaks_fd(&self) -> bool {
        self.in_file().speaks_fd(self)
    }

    /// What its family needs to know of it; `servo` is its number in the robot.
    pub fn plan(&self, servo: usize) -> ServoPlan<Family> {
        let (id, watchdog_s) = (self.id, self.watchdog_s);
        ServoPlan { servo, id, mounting: self.mounting(), watchdog_s, family: self.family() }
    }
}

/// Keys of a servo that mean something for one family only.
pub(crate) fn own_keys() -> impl Iterator<Item = (&'static str, FamilyName)> {
    FamilyName::ALL
        .iter()
        .flat_map(|&name| in_file(name).facts().own_keys.iter().map(move |&key| (key, name)))
}

/// Checks whether a file fits the families of its servos.
pub(crate) fn check(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    check_keys(robot, i, servo, reader);
    check_bus(robot, i, servo, reader);
    check_id(i, servo, reader);
    in_file(servo.family).check(robot, i, servo, reader);
}

/// Every `family` was read: what follows from one that is misspelled, or whose key is, is no problem of its own.
pub(crate) fn are_known(reader: &Reader) -> bool {
    let misread = |problem: &Problem| {
        let key = problem.key.rsplit_once('.').filter(|(table, _)| {
            *table == "servo_defaults" || table.starts_with("servo[") && table.ends_with(']')
        });
        key.is_some_and(|(_, key)| nearest(key, &ServoSettings::names()) == Some("family"))
    };
    !reader.problems.iter().any(misread)
}

/// Checks the files that servos name, which count from the folder of the robot file.
pub(crate) fn check_beside(robot: &RobotConfig, folder: Option<&Path>, reader: &mut Reader) {
    let Some(folder) = folder else { return };
    for (i, servo) in robot.servos.iter().enumerate() {
        in_file(servo.family).check_beside(i, servo, folder, reader);
    }
}

/// Where a key of a servo is written, if it is.
pub(crate) fn written(i: usize, key: &str, reader: &Reader) -> Option<Range<usize>> {
    let own = reader.span(&format!("servo[{i}].{key}"));
    own.or_else(|| reader.span(&format!("servo_defaults.{key}")))
}

/// So much of a figure stands in a sentence.
const FIGURES: f64 = 1e4;

/// A least value for a sentence that was computed, such as two periods: no rounding makes it too small.
fn at_least(value: f64) -> f64 {
    (FIGURES * value - 1e-6).ceil() / FIGURES
}

/// A greatest value for a sentence that was computed: no rounding makes it too great.
fn at_most(value: f64) -> f64 {
    (FIGURES * value + 1e-6).floor() / FIGURES
}

/// Gains of the emulated servo, which other families have among their own keys.
const GAINS: [&str; 2] = ["device.kp", "device.kd"];

/// A key that the servo's family does not have would be dropped silently.
fn check_keys(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    for (key, family) in own_keys().filter(|(_, family)| *family != servo.family) {
        let of_all = !robot.servos.iter().any(|servo| servo.family == family);
        let shared = reader.span(&format!("servo_defaults.{key}")).filter(|_| of_all);
        if let Some(span) = reader.span(&format!("servo[{i}].{key}")).or(shared) {
            let title = format!("`{key}` is for servos with `family = \"{family}\"`");
            let help = if key == family.word() {
                format!("write `family = \"{family}\"`, or remove it")
            } else if GAINS.contains(&key) {
                let own = servo.family.word();
                format!("write `{own}.kp` and `{own}.kd`: its gains travel with every command")
            } else {
                "remove it".to_owned()
            };
            let problem = Problem::error(format!("servo[{i}].{key}"), title)
                .at(span, format!("the family of `{}` is {}", servo.name, servo.family))
                .help(help);
            reader.problems.push(problem);
        }
    }
}

/// Families share a bus where no frame of one means something to another.
fn check_bus(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let beside = robot.servos[..i].iter().filter(|other| other.bus == servo.bus);
    let clash = beside.filter_map(|other| Some((other, servo.clash(other)?))).next();
    let span = written(i, "family", reader).or_else(|| reader.span(&format!("servo[{i}].name")));
    if let (Some((other, clash)), Some(span)) = (clash, span) {
        let (name, bus) = (&servo.name, &servo.settings.bus);
        let (title, help) = match clash {
            Clash::Format => {
                let title = format!(
                    "CAN and CAN-FD on bus `{bus}`: servos that speak CAN destroy every CAN-FD frame"
                );
                (title, "put them on buses of their own".to_owned())
            }
            Clash::Identifier(id) => {
                let title = format!(
                    "frames with identifier {id} on bus `{bus}` are of `{}` and of `{name}`",
                    other.name
                );
                (title, "give one of them another id (docs/servos.md says which identifiers a family has), or put them on buses of their own".to_owned())
            }
        };
        let problem = Problem::error(format!("servo[{i}].family"), title)
            .at(
                span,
                format!(
                    "`{name}` is of family {}, `{}` of family {}",
                    servo.family, other.name, other.family
                ),
            )
            .help(help);
        reader.problems.push(problem);
    }
}

/// Every family has its own ids.
fn check_id(i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let ids = servo.family().by_hand().ids();
    if !ids.contains(&servo.id)
        && let Some(span) = written(i, "id", reader)
    {
        let is_low = servo.id < *ids.start();
        let refused = in_file(servo.family).facts().ids_refused.filter(|_| !is_low);
        let (title, help) = refused.map_or_else(
            || {
                let title = format!("no {} has this id", servo.family.title());
                (title, format!("ids are from {} to {}", ids.start(), ids.end()))
            },
            |(title, help)| (title.to_owned(), help.to_owned()),
        );
        let label =
            if is_low { format!("less than {}", ids.start()) } else { format!("more than {}", ids.end()) };
        let problem = Problem::error(format!("servo[{i}].id"), title).at(span, label).help(help);
        reader.problems.push(problem);
    }
}
