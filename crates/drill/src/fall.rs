//! The experiment: the same fault, several reactions, and how hard the robot comes down.

use super::rig::Rig;
use khz_emu::Injection;
use khz_file::RobotConfig;
use khz_link::faults::{Fault as WireFault, FaultEffect};
use khz_loop::supervisor::{Cause, Phase, Reaction};
use khz_loop::time::VirtualTime;
use khz_page::{Axis, Cell, Column, Level, Page, Plot, Section, Table, Trace, Verdict};
use khz_robot::assemble::controller;
use serde::Serialize;

/// The servo that fails: a knee, which carries most.
const SERVO: usize = 2;
/// When the fault begins, and how long to watch from then on, in ticks.
const AT: u64 = 3_000;
const WATCH: u64 = 4_000;

/// How the robot came down.
#[derive(Clone, Debug, Serialize)]
pub struct Fall {
    /// Name of the fault and the reaction.
    pub name: &'static str,
    /// Speed of the trunk when it first touched the ground, m/s; none if it never did.
    pub contact_speed: Option<f64>,
    /// Greatest force of the ground, N.
    pub peak_force: f64,
    /// Greatest torque the ground put on a joint, N·m; none if the body cannot compute it.
    pub peak_torque: Option<f64>,
    /// What the supervisor answered to, if it did.
    pub cause: Option<String>,
    /// From the fault to damping, ms.
    pub reaction_ms: Option<f64>,
    /// Height of the trunk, m, by time in s from the fault.
    #[serde(skip)]
    pub height: Trace,
    /// Vertical speed, m/s.
    #[serde(skip)]
    pub speed: Trace,
    /// Force of the ground, N.
    #[serde(skip)]
    pub force: Trace,
}

/// What goes wrong.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fault {
    Overheated,
    HostCrash,
    DeadBus,
    BrownOut,
}

/// The experiments on the quadruped of `config`: the first three are one fault and three reactions.
///
/// # Errors
/// If the robot cannot be emulated, or has no body: see `[body]` of the robot file.
pub fn experiments(config: &RobotConfig) -> Result<Vec<Fall>, DrillError> {
    let with = |change: &dyn Fn(&mut RobotConfig)| {
        let mut config = config.clone();
        change(&mut config);
        config
    };
    let cut = with(&|config| config.supervisor.reactions.servo_fault = Reaction::Stop);
    // Zero velocity for a fixed time, as the article's robot did; ours also ends when all stands still.
    let zero = with(&|config| config.supervisor.still_velocity = 0.0);
    let deaf = with(&|config| config.servos.iter_mut().for_each(|servo| servo.settings.watchdog_s = 30.0));
    let sag = with(&|config| config.supervisor.reactions.voltage = Reaction::Stop);
    [
        (POWER_CUT, &cut, Fault::Overheated),
        ("zero velocity on the others", &zero, Fault::Overheated),
        (OURS, config, Fault::Overheated),
        ("host crash, servo watchdog", config, Fault::HostCrash),
        ("host crash, no watchdog", &deaf, Fault::HostCrash),
        ("one dead bus", config, Fault::DeadBus),
        ("brown-out, power cut", &sag, Fault::BrownOut),
        ("brown-out, Kilohertz default", config, Fault::BrownOut),
    ]
    .into_iter()
    .map(|(name, config, fault)| fall(name, config, fault, |_| false))
    .collect()
}

/// Of one of them, the speed of the trunk when it first touches the ground.
///
/// # Errors
/// As [`experiments`].
pub(super) fn contact_speed(config: &RobotConfig, fault: Fault) -> Result<Option<f64>, DrillError> {
    Ok(fall(OURS, config, fault, |fall| fall.contact_speed.is_some())?.contact_speed)
}

/// Why a drill cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum DrillError {
    /// The emulated devices could not be built.
    #[error(transparent)]
    Emulation(#[from] khz_emu::ConfigError),
    /// Nothing can fall.
    #[error("this robot has no body; add a [body] table, see docs/configuration.md")]
    NoBody,
    /// How it comes down would be unknown.
    #[error(
        "the body does not tell when its trunk touches the ground: a MuJoCo model needs a free joint and a touch sensor \
         on its trunk, by the name in `body.trunk_touch`, and MuJoCo 3.5 or newer to read it"
    )]
    NoTouch,
    /// What it did is no physics any more.
    #[error("the simulated body moves no more: {0}")]
    Failed(String),
    /// Nothing can trot.
    #[error("this robot does not trot; the drill needs `name = \"stand_and_squat\"` in [controller]")]
    NoTrot,
    /// A bug.
    #[error("an experiment panicked: a bug")]
    Panicked,
}

/// Until enough is known of it.
fn fall(
    name: &'static str,
    config: &RobotConfig,
    fault: Fault,
    is_known: fn(&Fall) -> bool,
) -> Result<Fall, DrillError> {
    if config.body.is_none() {
        return Err(DrillError::NoBody);
    }
    let at_ns = AT as i64 * config.timing.period_ns();
    let dead = WireFault { from_ns: at_ns, channel: Some(0), ..WireFault::new(FaultEffect::BusOff) };
    let faults = if fault == Fault::DeadBus { vec![dead] } else { Vec::new() };
    let mut rig = Rig::new(config, controller(&config.controller), &faults, VirtualTime::new(0))?;
    for _ in 0..AT {
        rig.tick(None, 0);
    }
    let begun_ns = rig.now_ns();
    begin(&rig, fault, begun_ns, config.servos.len());
    let mut fall = Fall::new(name);
    for _ in 0..WATCH {
        if fault == Fault::HostCrash {
            rig.freeze(config.timing.period_ns());
        } else {
            rig.tick(None, 0);
        }
        fall.look(&mut rig, begun_ns);
        if is_known(&fall) {
            break;
        }
    }
    body_is_sound(&rig)?;
    Ok(fall)
}

/// The body's account of its fall is correct.
pub(super) fn body_is_sound(rig: &Rig) -> Result<(), DrillError> {
    let stage = rig.stage();
    let body = stage.world.body();
    match body.failed() {
        Some(why) => Err(DrillError::Failed(why.to_owned())),
        None if body.forces().is_none() => Err(DrillError::NoTouch),
        None => Ok(()),
    }
}

fn begin(rig: &Rig, fault: Fault, now_ns: i64, servos: usize) {
    let mut stage = rig.stage();
    stage.world.body_mut().forget_peaks();
    match fault {
        Fault::Overheated => stage.world.inject(SERVO, Injection::Overheated, now_ns),
        Fault::BrownOut => (0..servos).for_each(|servo| stage.world.set_supply(servo, 9.0, now_ns)),
        Fault::HostCrash | Fault::DeadBus => {}
    }
}

impl Fall {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            contact_speed: None,
            peak_force: 0.0,
            peak_torque: None,
            cause: None,
            reaction_ms: None,
            height: Trace::new(),
            speed: Trace::new(),
            force: Trace::new(),
        }
    }

    /// After each tick from `begun_ns` on.
    pub(super) fn look(&mut self, rig: &mut Rig, begun_ns: i64) {
        let now_ns = rig.now_ns();
        let seconds = (now_ns - begun_ns) as f64 * 1e-9;
        if self.cause.is_none()
            && let Some(transition) =
                rig.machine.transitions().iter().find(|transition| transition.cause.is_trouble())
        {
            self.cause = Some(describe(transition.cause, &rig.names));
            self.reaction_ms =
                (transition.to != Phase::Active).then(|| (transition.at_ns - begun_ns) as f64 * 1e-6);
        }
        let Some(forces) = rig.stage().world.body().forces() else { return };
        self.contact_speed = forces.contact_speed;
        self.peak_force = forces.peak_ground;
        self.peak_torque = forces.peak_joint;
        self.height.push(seconds, forces.height);
        self.speed.push(seconds, forces.vertical_speed);
        self.force.push(seconds, forces.ground);
    }
}

fn describe(cause: Cause, names: &[String]) -> String {
    match cause.servo().and_then(|servo| names.get(usize::from(servo))) {
        Some(name) => format!("{name}: {cause}"),
        None => cause.to_string(),
    }
}

/// Our contact speed over that of the power cut; the goal is at most 0.35.
pub fn ratio(falls: &[Fall]) -> Option<f64> {
    let speed = |name: &str| falls.iter().find(|fall| fall.name == name)?.contact_speed;
    Some(speed(OURS)? / speed(POWER_CUT)?)
}

/// The verdict: how much gentler the robot comes down than with the power cut.
pub fn verdict(falls: &[Fall]) -> Verdict {
    let ratio = ratio(falls);
    let speed = |name: &str| falls.iter().find(|fall| fall.name == name).and_then(|fall| fall.contact_speed);
    let speeds = speed(OURS).zip(speed(POWER_CUT));
    let verdict = Verdict {
        level: if ratio.is_some_and(|ratio| ratio <= GOAL) { Level::Good } else { Level::Warning },
        held: ratio.is_some_and(|ratio| ratio <= GOAL),
        headline: ratio.map_or("no contact".into(), |ratio| format!("{ratio:.2} of the power cut's speed")),
        ..Verdict::default()
    };
    verdict.sentence(&match speeds {
        Some((ours, cut)) => format!(
            "the robot touches the ground at {ours:.2} m/s with Kilohertz's default and at {cut:.2} m/s with a power cut \
             to all: {:.2} of it (goal: at most {GOAL})",
            ours / cut
        ),
        None => "the robot did not touch the ground in both cases, so there is nothing to compare".into(),
    })
}

/// At most this share of the power cut's speed.
pub(super) const GOAL: f64 = 0.35;
const OURS: &str = "Kilohertz default";
const POWER_CUT: &str = "power cut to all";

/// One line per fall, from the fault on.
pub(super) fn plot<'a>(
    title: &str,
    unit: &str,
    falls: impl IntoIterator<Item = &'a Fall>,
    trace: fn(&Fall) -> &Trace,
) -> Plot {
    let plot = Plot::over_time(title, Axis::new(title, unit));
    falls.into_iter().fold(plot, |plot, fall| plot.line(fall.name, trace(fall)))
}

/// The experiments as a page.
pub fn page(falls: &[Fall]) -> Page {
    let mut table = Table::new([
        Column::text("fault and reaction"),
        Column::number("contact", "m/s").worst_is_high(),
        Column::number("peak force", "N").worst_is_high(),
        Column::number("peak torque", "N·m").worst_is_high(),
        Column::text("cause"),
    ]);
    for fall in falls {
        table = table.row([
            Cell::from(fall.name),
            Cell::from(fall.contact_speed),
            Cell::from(fall.peak_force),
            Cell::from(fall.peak_torque),
            Cell::from(fall.cause.clone().unwrap_or_default()),
        ]);
    }
    let three = &falls[..falls.len().min(3)];
    let rest = &falls[falls.len().min(3)..];
    let plots = |falls: &[Fall]| {
        [
            plot("height of the trunk", "m", falls, |fall| &fall.height),
            plot("vertical speed", "m/s", falls, |fall| &fall.speed),
            plot("force of the ground", "N", falls, |fall| &fall.force),
        ]
    };
    let section = |title: &str, text: &str, falls: &[Fall]| {
        plots(falls).into_iter().fold(Section::new(title).text(text), Section::with)
    };
    Page::new("How the robot comes down")
        .verdict(&verdict(falls))
        .subtitle("An emulated quadruped squats; after 3 s something breaks.")
        .section(Section::new("Summary").with(table))
        .section(section(
            "One servo faults, three reactions",
            "The knee of the front left leg reports too much heat. Power cut to all servos; zero velocity on the \
             others for a fixed time; the supervisor's default.",
            three,
        ))
        .section(section("Other faults", "The host is gone, a bus is dead, the supply sags to 9 V.", rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_reaction_lets_the_robot_down_gently() {
        let falls = experiments(&RobotConfig::quadruped()).unwrap();
        let of = |name: &str| falls.iter().find(|fall| fall.name == name).unwrap();
        assert!(of("power cut to all").contact_speed.unwrap() > 0.8, "{falls:?}");
        let verdict = verdict(&falls);
        assert!(verdict.held && verdict.text.contains("with Kilohertz's default"), "{verdict:?}");
        assert!(of(OURS).reaction_ms.unwrap() <= 2.0);
        assert!(of(OURS).peak_force < of("power cut to all").peak_force);
        // Not even a robot that stands for no time is switched off before it has come down.
        let mut hasty = RobotConfig::quadruped();
        hasty.supervisor.still_s = 0.0;
        let hasty = contact_speed(&hasty, Fault::Overheated).unwrap().unwrap();
        assert!(hasty < 1.3 * of(OURS).contact_speed.unwrap(), "{hasty} m/s");
        let fed = of("host crash, servo watchdog");
        assert!(fed.contact_speed.unwrap() < 0.35 * of("power cut to all").contact_speed.unwrap());
    }
}
