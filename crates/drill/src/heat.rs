//! The experiment: an hour of trotting in the sun, until a servo is too hot; several reactions, and how hard the robot
//! comes down.
//!
//! Heat is slow and motion quick, so heat flows many times as fast as everything else ([`Sun::heat_rate`]): a trot that
//! repeats itself every 0.4 s warms the servos as much per minute of heat either way. From the moment the robot comes down
//! heat flows at its own speed.

use super::fall::{DrillError, Fall, GOAL, body_is_sound, plot};
use super::rig::Rig;
use khz_file::RobotConfig;
use khz_file::config::{ControllerConfig, RobotBody};
use khz_loop::Doing;
use khz_loop::supervisor::{Phase, Reaction};
use khz_loop::time::VirtualTime;
use khz_page::{Axis, Cell, Column, Level, Page, Plot, Section, Table, Trace, Verdict};
use khz_robot::assemble::controller;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// How long it trots, minutes of heat.
const MINUTES: f64 = 60.0;
/// Ticks to stand up, and to watch it come down.
const RISE: u64 = 3_000;
const WATCH: u64 = 4_000;
/// Feet are lifted so high, m, each once in so many seconds.
const LIFT_M: f64 = 0.03;
const STEP_S: f64 = 0.4;
/// Added to the body in the last experiments, kg.
const PAYLOAD_KG: f64 = 5.0;
/// A supervisor that does not look at temperature: no servo gets so warm, °C.
const NEVER_C: [f64; 2] = [190.0, 200.0];
/// What the servos of a factory do: so far below their fault they begin to lower their own current, °C.
const FACTORY_MARGIN_C: f64 = 25.0;

/// The surroundings. The defaults are estimates: a warm day, and the sun on 50 cm² of dark housing.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sun {
    /// Temperature of the air, °C.
    pub ambient_c: f64,
    /// What the sun gives each servo's housing, W.
    pub sun_w: f64,
    /// Heat flows this many times as fast as everything else; more than 0.
    pub heat_rate: f64,
}

impl Default for Sun {
    fn default() -> Self {
        Self { ambient_c: 25.0, sun_w: 3.0, heat_rate: 30.0 }
    }
}

/// How one robot fared.
#[derive(Clone, Debug, Serialize)]
pub struct Walk {
    /// Name of the reaction.
    pub name: &'static str,
    /// When a servo faulted, minutes.
    pub fault_min: Option<f64>,
    /// When the supervisor brought the robot down, minutes.
    pub down_min: Option<f64>,
    /// The warmest board of all, °C.
    pub hottest_c: f64,
    /// Least height of the trunk while it trotted, m.
    pub height: f64,
    /// Speed of the trunk when it first touched the ground, m/s; none if it never did.
    pub contact_speed: Option<f64>,
    /// Ratio of that speed to the power cut's under the same load.
    pub of_power_cut: Option<f64>,
    /// How it came down, if it did.
    pub fall: Option<Fall>,
    /// Minute by minute.
    pub minutes: Vec<Minute>,
}

/// The end of a minute, or of the trot.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Minute {
    /// When.
    pub minute: f64,
    /// The warmest board, °C.
    pub hottest_c: f64,
    /// Height of the trunk then, m.
    pub height: f64,
}

/// What is done about heat.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    /// After a fault.
    servo_fault: Reaction,
    /// From `temperature_soft_c` and `temperature_hard_c` of the robot file on; `None`: nothing.
    temperature: Option<Reaction>,
    /// Of the servos themselves.
    margin_c: f64,
    payload_kg: f64,
}

/// The experiments on the quadruped of `config`, each on its own thread. The first two are the fault without and with
/// our reaction; in those that lower torque, the robot file's `[supervisor]` sets from where on. The servos do not lower
/// their own current, except in the two that are named so.
///
/// # Errors
/// If the robot cannot be emulated, has no body, or its controller is not `stand_and_squat`.
pub fn experiments(config: &RobotConfig, sun: Sun) -> Result<Vec<Walk>, DrillError> {
    experiments_watched(config, sun, &AtomicU64::new(0))
}

/// Minutes of heat in all experiments together.
pub const ALL_MINUTES: u64 = 8 * MINUTES as u64;

/// As [`experiments`]; `done` counts the minutes of heat that are over, of [`ALL_MINUTES`].
///
/// # Errors
/// As [`experiments`].
pub fn experiments_watched(
    config: &RobotConfig,
    sun: Sun,
    done: &AtomicU64,
) -> Result<Vec<Walk>, DrillError> {
    let reactions = &config.supervisor.reactions;
    let cut = Way {
        name: POWER_CUT,
        servo_fault: Reaction::Stop,
        temperature: None,
        margin_c: 0.0,
        payload_kg: 0.0,
    };
    let ours = Way { servo_fault: reactions.servo_fault, ..cut };
    let derating = Way { temperature: Some(reactions.temperature), ..ours };
    let ways = [
        cut,
        Way { name: OURS, ..ours },
        Way { name: DERATING, ..derating },
        Way { name: "torque lowered, going on", temperature: Some(Reaction::Warn), ..ours },
        Way { name: "servos lower their own", margin_c: FACTORY_MARGIN_C, ..ours },
        Way { name: BOTH, margin_c: FACTORY_MARGIN_C, ..derating },
        Way { name: "payload, power cut", payload_kg: PAYLOAD_KG, ..cut },
        Way { name: PAYLOAD_DERATING, payload_kg: PAYLOAD_KG, ..derating },
    ];
    walks(config, sun, &ways, done)
}

const POWER_CUT: &str = "power cut to all";
const OURS: &str = "ours, after the fault";
const DERATING: &str = "torque lowered first";
const BOTH: &str = "both lower it";
const PAYLOAD_DERATING: &str = "payload, torque lowered";

fn walks(config: &RobotConfig, sun: Sun, ways: &[Way], done: &AtomicU64) -> Result<Vec<Walk>, DrillError> {
    let walks: Result<Vec<_>, _> = std::thread::scope(|scope| {
        let threads: Vec<_> = ways.iter().map(|way| scope.spawn(|| walk(config, sun, *way, done))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(Err(DrillError::Panicked))).collect()
    });
    let mut walks = walks?;
    let speeds: Vec<_> = walks.iter().map(|walk| walk.contact_speed).collect();
    for (walk, (way, speed)) in walks.iter_mut().zip(ways.iter().zip(&speeds)) {
        let cut =
            ways.iter().position(|cut| cut.servo_fault == Reaction::Stop && cut.payload_kg == way.payload_kg);
        walk.of_power_cut = speed.zip(cut.and_then(|cut| speeds[cut])).map(|(ours, cut)| ours / cut);
    }
    Ok(walks)
}

/// The robot of `config` in the sun.
fn exposed(config: &RobotConfig, sun: Sun, way: Way) -> Result<RobotConfig, DrillError> {
    let mut config = config.clone();
    match config.body.as_mut().ok_or(DrillError::NoBody)? {
        RobotBody::Quadruped(body) => body.mass += way.payload_kg,
        RobotBody::Mujoco(body) => body.payload += way.payload_kg,
    }
    config.emulation.ambient_c = sun.ambient_c;
    for servo in &mut config.servos {
        servo.settings.heat.sun_w = sun.sun_w;
        servo.settings.device.temperature_margin = way.margin_c;
    }
    let ControllerConfig::StandAndSquat(legs) = &mut config.controller else {
        return Err(DrillError::NoTrot);
    };
    (legs.squat_m, legs.lift_m, legs.step_s) = (0.0, LIFT_M, STEP_S);
    let supervisor = &mut config.supervisor;
    supervisor.reactions.servo_fault = way.servo_fault;
    match way.temperature {
        Some(reaction) => supervisor.reactions.temperature = reaction,
        None => [supervisor.temperature_soft_c, supervisor.temperature_hard_c] = NEVER_C,
    }
    Ok(config)
}

fn walk(config: &RobotConfig, sun: Sun, way: Way, done: &AtomicU64) -> Result<Walk, DrillError> {
    let config = exposed(config, sun, way)?;
    let mut rig = Rig::new(&config, controller(&config.controller), &[], VirtualTime::new(0))?;
    (0..RISE).for_each(|_| _ = rig.tick(None, 0));
    body_is_sound(&rig)?;
    let stood_ns = rig.now_ns();
    begin(&rig, sun.heat_rate, stood_ns);
    let per_tick = config.timing.period_ns() as f64 * 1e-9 / 60.0 * sun.heat_rate;
    let mut walk = Walk {
        name: way.name,
        fault_min: None,
        down_min: None,
        hottest_c: sun.ambient_c,
        height: f64::INFINITY,
        contact_speed: None,
        of_power_cut: None,
        fall: None,
        minutes: Vec::new(),
    };
    for tick in 1..=(MINUTES / per_tick).round() as u64 {
        rig.tick(None, 0);
        let minute = tick as f64 * per_tick;
        let is_down = rig.machine.phase() != Phase::Active;
        let is_over = minute.floor() > (minute - per_tick).floor();
        done.fetch_add(u64::from(is_over), Ordering::Relaxed);
        walk.look(&rig, minute, is_down || is_over);
        if is_down {
            walk.down_min = Some(minute);
            walk.come_down(&mut rig);
            done.fetch_add((MINUTES - minute).max(0.0) as u64, Ordering::Relaxed);
            break;
        }
    }
    body_is_sound(&rig)?;
    Ok(walk)
}

/// From now on heat flows so fast, and peaks count.
fn begin(rig: &Rig, heat_rate: f64, now_ns: i64) {
    let mut stage = rig.stage();
    stage.world.set_heat_rate(heat_rate, now_ns);
    stage.world.body_mut().forget_peaks();
}

impl Walk {
    fn look(&mut self, rig: &Rig, minute: f64, note: bool) {
        let stage = rig.stage();
        let boards = stage.world.servos().iter().map(|servo| servo.board_c());
        let hottest_c = boards.fold(f64::NEG_INFINITY, f64::max);
        self.hottest_c = self.hottest_c.max(hottest_c);
        if stage.world.servos().iter().any(|servo| servo.doing() == Doing::Faulted) {
            self.fault_min.get_or_insert(minute);
        }
        let Some(forces) = stage.world.body().forces() else { return };
        self.height = self.height.min(forces.height);
        self.contact_speed = forces.contact_speed;
        if note {
            self.minutes.push(Minute { minute, hottest_c, height: forces.height });
        }
    }

    fn come_down(&mut self, rig: &mut Rig) {
        let begun_ns = rig.now_ns();
        begin(rig, 1.0, begun_ns);
        let mut fall = Fall::new(self.name);
        fall.look(rig, begun_ns);
        // Heat has no moment to count from.
        fall.reaction_ms = None;
        for _ in 0..WATCH {
            rig.tick(None, 0);
            fall.look(rig, begun_ns);
        }
        // A robot that was too weak to stand may have touched the ground before.
        self.contact_speed = self.contact_speed.or(fall.contact_speed);
        self.fall = Some(fall);
    }
}

/// The experiments as a page.
pub fn page(walks: &[Walk], sun: Sun) -> Page {
    let over_the_hour = |title: &str, unit: &str, of: fn(&Minute) -> f64| {
        let plot = Plot::lines(title, Axis::new("time", "min"), Axis::new(title, unit));
        walks.iter().fold(plot, |plot, walk| {
            let points = walk.minutes.iter().map(|minute| (minute.minute, of(minute)));
            plot.line(walk.name, &Trace::from_points(points))
        })
    };
    let mut table = Table::new([
        Column::text("reaction"),
        Column::number("servo faults", "min"),
        Column::number("robot comes down", "min"),
        Column::number("hottest", "°C").worst_is_high(),
        Column::number("least height", "m"),
        Column::number("contact", "m/s").worst_is_high(),
        Column::number("of the power cut's", "").worst_is_high(),
        Column::number("peak force", "N").worst_is_high(),
        Column::text("cause"),
    ]);
    for walk in walks {
        let fall = walk.fall.as_ref();
        table = table.row([
            Cell::from(walk.name),
            Cell::from(walk.fault_min),
            Cell::from(walk.down_min),
            Cell::from(walk.hottest_c),
            Cell::from(walk.height),
            Cell::from(walk.contact_speed),
            Cell::from(walk.of_power_cut),
            Cell::from(fall.map(|fall| fall.peak_force)),
            Cell::from(fall.and_then(|fall| fall.cause.clone()).unwrap_or_default()),
        ]);
    }
    let falls: Vec<&Fall> = walks.iter().filter_map(|walk| walk.fall.as_ref()).collect();
    Page::new("Thermal run")
        .verdict(&verdict(walks))
        .subtitle(about(sun))
        .section(Section::new("Summary").with(table))
        .section(
            Section::new("The hour")
                .with(over_the_hour("warmest board", "°C", |minute| minute.hottest_c))
                .with(over_the_hour("height of the trunk", "m", |minute| minute.height)),
        )
        .section(
            Section::new("Coming down")
                .with(plot("height of the trunk", "m", falls.iter().copied(), |fall| &fall.height))
                .with(plot("vertical speed", "m/s", falls.iter().copied(), |fall| &fall.speed))
                .with(plot("force of the ground", "N", falls.iter().copied(), |fall| &fall.force)),
        )
}

/// The verdict: whether lowering torque in time keeps servos from faulting, and the robot from falling.
pub fn verdict(walks: &[Walk]) -> Verdict {
    let of = |name: &str| walks.iter().find(|walk| walk.name == name);
    let (Some(cut), Some(derating)) = (of(POWER_CUT), of(DERATING)) else { return Verdict::default() };
    let gentle = derating.of_power_cut.is_none_or(|share| share <= GOAL);
    let held = derating.fault_min.is_none() && gentle;
    let verdict = Verdict {
        level: if held { Level::Good } else { Level::Warning },
        held,
        headline: if held { "no fault, no fall".into() } else { "not gentle enough".into() },
        ..Verdict::default()
    };
    let cut = match (cut.fault_min, cut.contact_speed) {
        (Some(minute), Some(speed)) => {
            format!("a servo faults after {minute:.1} min and the robot falls at {speed:.2} m/s")
        }
        (Some(minute), None) => format!("a servo faults after {minute:.1} min"),
        (None, _) => "no servo faults".into(),
    };
    let derated = match (derating.fault_min, derating.down_min, derating.of_power_cut) {
        (Some(minute), ..) => format!("a servo faults after {minute:.1} min all the same"),
        (None, Some(minute), Some(share)) => {
            format!(
                "the robot is let down after {minute:.1} min at {share:.2} of that speed, and no servo faults"
            )
        }
        (None, Some(minute), None) => {
            format!("the robot is let down after {minute:.1} min, and no servo faults")
        }
        (None, None, _) => "it trots on, and no servo faults".into(),
    };
    verdict.sentence(&format!("power cut to all: {cut}; torque lowered first: {derated}"))
}

/// What was done, in two sentences.
pub fn about(sun: Sun) -> String {
    let Sun { ambient_c, sun_w, heat_rate } = sun;
    format!(
        "An emulated quadruped trots on the spot for {MINUTES} minutes in air of {ambient_c} °C, {sun_w} W of sun on each \
         servo. Heat flows {heat_rate} times as fast as the robot moves, and at its own speed once it comes down."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_ends_in_a_fall_only_where_the_power_is_cut() {
        // Quicker heat for a quicker test.
        let sun = Sun { heat_rate: 120.0, ..Sun::default() };
        let walks = experiments(&RobotConfig::quadruped(), sun).unwrap();
        let of = |name: &str| walks.iter().find(|walk| walk.name == name).unwrap();
        let (cut, ours, derating) = (of(POWER_CUT), of(OURS), of(DERATING));
        let fault_min = cut.fault_min.expect("without derating a servo faults");
        assert!((20.0..60.0).contains(&fault_min), "{fault_min}");
        assert!(cut.contact_speed.unwrap() > 0.8);

        assert_eq!(ours.fault_min, cut.fault_min, "the same until the fault");
        assert!(ours.of_power_cut.unwrap() <= 0.35, "{:?}", ours.of_power_cut);

        assert_eq!(derating.fault_min, None);
        assert!(derating.down_min.unwrap() < fault_min, "brought down before the fault");
        assert!(derating.of_power_cut.unwrap() <= 0.35, "{:?}", derating.of_power_cut);
        let cause = derating.fall.as_ref().unwrap().cause.as_deref().unwrap();
        assert!(cause.contains("°C"), "{cause}");

        for name in ["torque lowered, going on", "servos lower their own", BOTH] {
            let walk = of(name);
            assert_eq!((walk.fault_min, walk.down_min, walk.contact_speed), (None, None, None), "{name}");
        }
        let payload = of(PAYLOAD_DERATING);
        assert_eq!(payload.fault_min, None);
        assert!(payload.of_power_cut.unwrap() <= 0.35, "{:?}", payload.of_power_cut);
    }
}
