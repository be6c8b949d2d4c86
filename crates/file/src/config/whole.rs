//! `[robot]`, `[imu]`, `[controller]`, `[log]`, `[emulation]` and `[body]`.

use super::BodyConfig;
use crate::links::LinkKind;
use khz_controllers::{
    ExciteParameters, HoldParameters, PolicyConfig, SineParameters, StandAndSquatParameters, WalkParameters,
};
use khz_settings::Problem;
use khz_settings::{Key, Reader, section, suggestion, words};
use khz_targets::FollowConfig;
use std::ops::Range;
use toml::de::DeTable;

section! {
    /// `[robot]`: the name of the machine.
    RobotSection {
        /// Name of the machine, for logs and reports.
        name: String = "robot".to_owned(), "";
    }
}

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
    /// What simulates the mechanics of an emulated robot.
    BodyKind {
        /// The quadruped of this program: a rigid trunk on legs without mass.
        Quadruped = "quadruped",
        /// A MuJoCo model; libmujoco must be installed (`pip install mujoco`).
        Mujoco = "mujoco",
    }
}

section! {
    /// The key every `[body]` has. Without the table there is no ground, and the joints do not affect each other.
    BodySection {
        /// What simulates the mechanics.
        kind: BodyKind = BodyKind::Quadruped, "";
    }
}

section! {
    /// `[body]` with `kind = "mujoco"`: the servos move the joints of a MuJoCo model, each the one of its name or of its
    /// `model_joint`. Inertia, friction and stops are the model's; the servos' `joint` is not used.
    MujocoConfig {
        /// MJCF or URDF file; from the folder of the robot file, unless it begins with `/`.
        model: String, "";
        /// Keyframe in which the robot starts. Without it, as the model is drawn.
        keyframe: Option<String> = None, "";
        /// Site where the IMU is. The trunk is the first body that has a free joint, and the site is in line with it.
        imu_site: String = "imu".to_owned(), "";
        /// Mass that the trunk carries beside the model's; its inertia is left out.
        payload: f64 = 0.0, "kg", 0.0 => 1000.0;
        /// Friction of all contacts, instead of the model's. Their `solref` and `solimp` then are MuJoCo's defaults. With less than
        /// the smallest value MuJoCo's contacts become unstable.
        friction: Option<f64> = None, "", 0.001 => 10.0;
        /// Touch sensor of the trunk, by which a drill notices that it fell. Read by MuJoCo 3.5 and later.
        trunk_touch: String = "trunk_touch".to_owned(), "";
    }
}

/// What simulates the mechanics of an emulated robot, and how.
#[derive(Clone, Debug, PartialEq)]
pub enum RobotBody {
    /// This program.
    Quadruped(BodyConfig),
    /// MuJoCo.
    Mujoco(MujocoConfig),
}

impl BodyKind {
    /// The keys of `[body]` of this kind.
    pub const fn keys(self) -> &'static [Key] {
        match self {
            Self::Quadruped => BodyConfig::KEYS,
            Self::Mujoco => MujocoConfig::KEYS,
        }
    }
}

impl RobotBody {
    /// What simulates it.
    pub const fn kind(&self) -> BodyKind {
        match self {
            Self::Quadruped(_) => BodyKind::Quadruped,
            Self::Mujoco(_) => BodyKind::Mujoco,
        }
    }

    /// MuJoCo's, if that simulates it.
    pub const fn mujoco(&self) -> Option<&MujocoConfig> {
        match self {
            Self::Quadruped(_) => None,
            Self::Mujoco(mujoco) => Some(mujoco),
        }
    }
}

words! {
    /// The controllers that come with the program.
    ControllerKind {
        /// Hold every joint at its initial position.
        Hold = "hold",
        /// Swing every joint around its initial position, with a rising frequency.
        Sine = "sine",
        /// Move one joint after another, gently and within its limits, for a recording that `khz identify` can use.
        Excite = "excite",
        /// A quadruped stands up and squats, or trots in place. Legs are groups of three servos: hip, thigh, knee.
        StandAndSquat = "stand_and_squat",
        /// A quadruped stands up and walks as an operator wants (`[teleop]`). Legs are groups of three servos: hip, thigh, knee.
        Walk = "walk",
        /// Follow the targets of programs beside the loop, smoothly and within limits (`[targets]`).
        Targets = "targets",
        /// A trained policy, an ONNX model, decides where joints go.
        Policy = "policy",
        /// Joints of one arm follow those of another one, which a hand leads.
        Follow = "follow",
    }
}

/// Which controller runs, and how.
#[derive(Clone, Debug, PartialEq)]
pub enum ControllerConfig {
    /// Hold every joint at its initial position.
    Hold(HoldParameters),
    /// Swing every joint.
    Sine(SineParameters),
    /// Move one joint after another for `khz identify`.
    Excite(ExciteParameters),
    /// Stand up and squat.
    StandAndSquat(StandAndSquatParameters),
    /// Stand up and walk.
    Walk(WalkParameters),
    /// Follow targets, by `[targets]`.
    Targets,
    /// A trained policy decides.
    Policy(Box<PolicyConfig>),
    /// One arm follows another.
    Follow(Box<FollowConfig>),
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
            Self::Excite => ExciteParameters::KEYS,
            Self::StandAndSquat => StandAndSquatParameters::KEYS,
            Self::Walk => WalkParameters::KEYS,
            Self::Targets => &[],
            Self::Policy => PolicyConfig::KEYS,
            Self::Follow => FollowConfig::KEYS,
        }
    }

    fn read(self, table: &DeTable<'_>, reader: &mut Reader) -> ControllerConfig {
        const PATH: &str = "controller";
        match self {
            Self::Hold => ControllerConfig::Hold(HoldParameters::default().over(table, PATH, reader)),
            Self::Sine => ControllerConfig::Sine(SineParameters::default().over(table, PATH, reader)),
            Self::Excite => ControllerConfig::Excite(ExciteParameters::default().over(table, PATH, reader)),
            Self::StandAndSquat => {
                ControllerConfig::StandAndSquat(StandAndSquatParameters::default().over(table, PATH, reader))
            }
            Self::Walk => ControllerConfig::Walk(WalkParameters::default().over(table, PATH, reader)),
            Self::Targets => ControllerConfig::Targets,
            Self::Policy => {
                ControllerConfig::Policy(Box::new(PolicyConfig::default().over(table, PATH, reader)))
            }
            Self::Follow => {
                ControllerConfig::Follow(Box::new(FollowConfig::default().over(table, PATH, reader)))
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
            Self::Excite(_) => ControllerKind::Excite,
            Self::StandAndSquat(_) => ControllerKind::StandAndSquat,
            Self::Walk(_) => ControllerKind::Walk,
            Self::Targets => ControllerKind::Targets,
            Self::Policy(_) => ControllerKind::Policy,
            Self::Follow(_) => ControllerKind::Follow,
        }
    }
}

impl Default for ControllerConfig {
    fn default() -> Self {
        Self::Hold(HoldParameters::default())
    }
}

/// Reads `[controller]`: its name first, which determines the other keys.
pub(super) fn read_controller(
    table: &DeTable<'_>,
    span: Range<usize>,
    reader: &mut Reader,
) -> ControllerConfig {
    let section = ControllerSection::default().over(table, "controller", reader);
    if table.get("name").is_some() && reader.span("controller.name").is_none() {
        return ControllerConfig::default();
    }
    let chosen = format!("the controller `{}`", section.name);
    refuse_unknown(table, "controller", &chosen, [ControllerSection::KEYS, section.name.keys()], reader);
    reader.require(table, span, "controller", section.name.keys(), &[]);
    section.name.read(table, reader)
}

/// Reads `[body]`: its kind first, which determines the other keys.
pub(super) fn read_body(table: &DeTable<'_>, span: Range<usize>, reader: &mut Reader) -> RobotBody {
    const PATH: &str = "body";
    let section = BodySection::default().over(table, PATH, reader);
    if table.get("kind").is_some() && reader.span("body.kind").is_none() {
        return RobotBody::Quadruped(BodyConfig::default());
    }
    let chosen = format!("a body of the kind `{}`", section.kind);
    refuse_unknown(table, PATH, &chosen, [BodySection::KEYS, section.kind.keys()], reader);
    match section.kind {
        BodyKind::Quadruped => RobotBody::Quadruped(BodyConfig::default().over(table, PATH, reader)),
        BodyKind::Mujoco => {
            reader.require(table, span, PATH, MujocoConfig::KEYS, &[]);
            RobotBody::Mujoco(MujocoConfig::default().over(table, PATH, reader))
        }
    }
}

/// Reports keys that what was chosen does not have.
fn refuse_unknown(table: &DeTable<'_>, path: &str, chosen: &str, keys: [&[Key]; 2], reader: &mut Reader) {
    let known: Vec<_> = keys.into_iter().flatten().map(|key| key.name).collect();
    for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
        let title = format!("unknown key `{}` for {chosen}", key.get_ref());
        let problem = Problem::error(format!("{path}.{}", key.get_ref()), title)
            .at(key.span(), "no such key here")
            .help(suggestion(key.get_ref(), &known, "the keys here are"));
        reader.problems.push(problem);
    }
}
