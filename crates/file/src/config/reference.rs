//! Every table of a robot file, for its documentation.

use super::families::in_file;
use super::*;
use khz_controllers::policy::settings::{ActionConfig, HistoryConfig, ObserveConfig};
use khz_settings::Documented;

const BEFORE_LINKS: &[Documented] = &[
    ("`[robot]`", RobotSection::ABOUT, RobotSection::KEYS),
    ("`[loop]`", LoopConfig::ABOUT, LoopConfig::KEYS),
    ("`[bus.NAME]`", BusSection::ABOUT, BusSection::KEYS),
];

const AFTER_LINKS: &[Documented] = &[
    ("`[bus.NAME.faults]`", FaultsConfig::ABOUT, FaultsConfig::KEYS),
    ("`events` of `[bus.NAME.faults]`", FaultEvent::ABOUT, FaultEvent::KEYS),
    ("`[pi3hat]`", Pi3hatConfig::ABOUT, Pi3hatConfig::KEYS),
    ("`[[servo]]` and `[servo_defaults]`", ServoSettings::ABOUT, ServoSettings::KEYS),
    ("`limits` of a servo", Limits::ABOUT, Limits::KEYS),
];

const AFTER_FAMILIES: &[Documented] = &[
    ("`joint` of a servo", JointConfig::ABOUT, JointConfig::KEYS),
    ("`uncertainty` of a servo", Uncertainty::ABOUT, Uncertainty::KEYS),
    ("`device` of a servo", DeviceConfig::ABOUT, DeviceConfig::KEYS),
    ("`heat` of a servo", HeatConfig::ABOUT, HeatConfig::KEYS),
    ("`[imu]`", ImuConfig::ABOUT, ImuConfig::KEYS),
    ("`[controller]`", ControllerSection::ABOUT, ControllerSection::KEYS),
    ("`[controller]` with `name = \"hold\"`", HoldParameters::ABOUT, HoldParameters::KEYS),
    ("`[controller]` with `name = \"sine\"`", SineParameters::ABOUT, SineParameters::KEYS),
    ("`[controller]` with `name = \"excite\"`", ExciteParameters::ABOUT, ExciteParameters::KEYS),
    (
        "`[controller]` with `name = \"stand_and_squat\"`",
        StandAndSquatParameters::ABOUT,
        StandAndSquatParameters::KEYS,
    ),
    ("`[controller]` with `name = \"walk\"`", WalkParameters::ABOUT, WalkParameters::KEYS),
    ("`[controller]` with `name = \"policy\"`", PolicyConfig::ABOUT, PolicyConfig::KEYS),
    ("`[[controller.observe]]`", ObserveConfig::ABOUT, ObserveConfig::KEYS),
    ("`[controller.history]`", HistoryConfig::ABOUT, HistoryConfig::KEYS),
    ("`[controller.action]`", ActionConfig::ABOUT, ActionConfig::KEYS),
    ("`[controller]` with `name = \"follow\"`", FollowConfig::ABOUT, FollowConfig::KEYS),
    ("`[parameters]`", ParameterSettings::ABOUT, ParameterSettings::KEYS),
    ("`[targets]`", TargetsConfig::ABOUT, TargetsConfig::KEYS),
    ("`[targets.sticks]`", SticksConfig::ABOUT, SticksConfig::KEYS),
    ("`[teleop]`", TeleopConfig::ABOUT, TeleopConfig::KEYS),
    ("`[supervisor]`", SupervisorSettings::ABOUT, SupervisorSettings::KEYS),
    ("`[supervisor.reactions]`", Reactions::ABOUT, Reactions::KEYS),
    ("`[watchdog]`", WatchdogSettings::ABOUT, WatchdogSettings::KEYS),
    ("`[log]`", LogConfig::ABOUT, LogConfig::KEYS),
    ("`[emulation]`", EmulationConfig::ABOUT, EmulationConfig::KEYS),
    ("`[body]`", BodySection::ABOUT, BodySection::KEYS),
    ("`[body]` with `kind = \"quadruped\"`", BodyConfig::ABOUT, BodyConfig::KEYS),
    ("`[body]` with `kind = \"mujoco\"`", MujocoConfig::ABOUT, MujocoConfig::KEYS),
];

/// Every key with its values, default and meaning, as Markdown.
pub fn reference() -> String {
    let families =
        FamilyName::ALL.iter().map(|&name| in_file(name).facts().tables).collect::<Vec<_>>().concat();
    khz_settings::reference(
        &[BEFORE_LINKS, LinkKind::TABLES, AFTER_LINKS, &families, AFTER_FAMILIES].concat(),
    )
}
