//! Thousands of runs with faults drawn at random, and what must hold in every one of them.
//!
//! Checked on every step, by what is on the wires and by the emulated servos themselves:
//! - no command beyond a servo's limits reaches a servo;
//! - the state machine never leaves its graph, and damping ends in its time;
//! - a robot that must come down leaves control within 60 ticks;
//! - from a fault on the wire to the last damping command: one tick and the bus cycle, if the host is not late;
//! - at rest no servo that can be reached is on, and none follows a position;
//! - the cause in the log is one of the troubles that happened;
//! - every sample of a recording is written or counted as dropped, though the disk be full.

use super::disk::Recording;
use super::fall::DrillError;
use super::rig::Rig;
use super::scenario::{Event, Scenario, Trouble};
use khz_emu::Injection;
use khz_link::faults::{Direction, Fault as WireFault, Kind};
use khz_robot::command::{PositionCommand, ServoCommand};
use khz_robot::config::ControllerConfig;
use khz_robot::supervisor::{Cause, Phase, Transition};
use khz_robot::time::VirtualTime;
use khz_robot::{ControlError, Controller, RobotConfig, RobotState};
use khz_wire::{Fault, Mode};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

/// Troubles begin between these ticks: the robot is past its start and moves.
const FROM: u64 = 650;
const TO: u64 = 900;
/// A robot that must come down leaves control within this many ticks.
const ANSWER_TICKS: u64 = 60;
/// No run is longer.
const LONGEST: u64 = 1_600;

/// What came of the whole campaign.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Campaign {
    /// Runs.
    pub scenarios: u64,
    /// Seed of the first; the others follow.
    pub seed: u64,
    /// Runs in which something did not hold.
    pub violations: Vec<Violation>,
    /// Runs in which the robot left control because of trouble.
    pub brought_down: u64,
    /// From a fault on the wire to the last servo's damping command, µs, over the runs in which nothing else keeps frames or ticks back.
    pub reaction_us: Option<Reaction>,
}

/// Percentiles.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Reaction {
    /// How many.
    pub count: usize,
    /// Median.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
    /// The longest.
    pub max: f64,
    /// What is allowed: one tick plus the bus cycle.
    pub allowed: f64,
}

/// Something that did not hold.
#[derive(Clone, Debug, Serialize)]
pub struct Violation {
    /// Replays it: `khz drill campaign --scenarios 1 --seed SEED`.
    pub seed: u64,
    /// What happened in it.
    pub scenario: String,
    /// What did not hold.
    pub what: String,
}

/// What came of one run.
struct Verdict {
    what: Option<String>,
    brought_down: bool,
    reaction_ns: Option<i64>,
}

/// Runs `scenarios` scenarios with the seeds `seed`, `seed + 1`, …, on all CPUs.
///
/// # Errors
/// If the robot cannot be emulated.
pub fn campaign(robot: &RobotConfig, scenarios: u64, seed: u64) -> Result<Campaign, DrillError> {
    let robot = prepared(robot);
    robot.emulate()?;
    let next = AtomicU64::new(0);
    let work = || {
        let mut verdicts = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= scenarios {
                return verdicts;
            }
            let seed = seed.wrapping_add(index);
            let scenario = Scenario::draw(seed, robot.servos.len(), robot.buses.len(), FROM, TO);
            verdicts.push((run(&robot, &scenario), scenario));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let verdicts = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        handles.into_iter().flat_map(|handle| handle.join().unwrap_or_default()).collect::<Vec<_>>()
    });
    Ok(summary(&robot, scenarios, seed, verdicts))
}

fn summary(robot: &RobotConfig, scenarios: u64, seed: u64, verdicts: Vec<(Verdict, Scenario)>) -> Campaign {
    let mut campaign = Campaign { scenarios, seed, ..Campaign::default() };
    if (verdicts.len() as u64) < scenarios {
        let what = "a run panicked: a bug".to_owned();
        campaign.violations.push(Violation { seed, scenario: String::new(), what });
    }
    let mut reactions = Vec::new();
    for (verdict, scenario) in verdicts {
        campaign.brought_down += u64::from(verdict.brought_down);
        reactions.extend(verdict.reaction_ns);
        if let Some(what) = verdict.what {
            campaign.violations.push(Violation { seed: scenario.seed, scenario: scenario.to_string(), what });
        }
    }
    campaign.violations.sort_by_key(|violation| violation.seed);
    reactions.sort_unstable();
    let at = |q: f64| nearest_rank(&reactions, q) as f64 * 1e-3;
    campaign.reaction_us = (!reactions.is_empty()).then(|| Reaction {
        count: reactions.len(),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: at(1.0),
        allowed: allowed_ns(robot) as f64 * 1e-3,
    });
    campaign
}

/// The smallest of sorted values that at least the share `q` of them does not exceed.
///
/// # Panics
/// If there are none.
fn nearest_rank(sorted: &[i64], q: f64) -> i64 {
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

fn allowed_ns(robot: &RobotConfig) -> i64 {
    robot.timing.period_ns() + robot.timing.bus_deadline_ns()
}

/// The robot, quicker on its feet so that runs are short, and damped for half a second.
fn prepared(robot: &RobotConfig) -> RobotConfig {
    let mut robot = robot.clone();
    robot.supervisor.damping_s = 0.5;
    robot.supervisor.grace_s = 0.3;
    if let ControllerConfig::StandAndSquat(legs) = &mut robot.controller {
        legs.rise_s = 0.5;
        legs.period_s = 0.6;
    }
    robot
}

fn run(robot: &RobotConfig, scenario: &Scenario) -> Verdict {
    let (mischief, time) = (Arc::new(Mischief::default()), VirtualTime::new(0));
    let inner = khz_robot::assemble::controller(&robot.controller);
    let controller = Box::new(Saboteur { inner, mischief: Arc::clone(&mischief), time: time.clone() });
    let faults: Vec<_> = scenario.events.iter().filter_map(|event| on_wire(event, robot)).collect();
    let fills = scenario.events.iter().any(|event| event.trouble == Trouble::DiskFull);
    let begun = Rig::new(robot, controller, &faults, time).map_err(|error| error.to_string());
    let recording = fills.then(|| Recording::start(robot)).transpose().map_err(|error| error.to_string());
    match begun.and_then(|rig| Ok((rig, recording?))) {
        Ok((rig, recording)) => {
            let (log, tick, late) = (Vec::new(), 0, 0);
            Run { robot, scenario, rig, mischief, recording, log, tick, late }.judge()
        }
        Err(what) => Verdict { what: Some(what), brought_down: false, reaction_ns: None },
    }
}

/// Troubles of the wires run by script; their time begins with the first call of the link.
fn on_wire(event: &Event, robot: &RobotConfig) -> Option<WireFault> {
    let from_ns = event.tick as i64 * robot.timing.period_ns();
    let (bus, fault) = match event.trouble {
        Trouble::BusDead(bus) => (bus, WireFault::new(Kind::BusOff)),
        Trouble::BusNoisy(bus, percent) => {
            // The checksum of the frame finds the damage; what is left of it is a loss.
            (bus, WireFault { probability: f64::from(percent) * 0.01, ..WireFault::new(Kind::Loss) })
        }
        Trouble::BusSlow(bus, us) => {
            let kind = Kind::Delay { ns: 0, jitter_ns: i64::from(us) * 1000 };
            (bus, WireFault { direction: Direction::FromDevices, ..WireFault::new(kind) })
        }
        _ => return None,
    };
    Some(WireFault { from_ns, channel: Some(bus as u8), ..fault })
}

/// One run under way.
struct Run<'a> {
    robot: &'a RobotConfig,
    scenario: &'a Scenario,
    rig: Rig,
    mischief: Arc<Mischief>,
    /// Only where the disk fills.
    recording: Option<Recording>,
    log: Vec<Transition>,
    tick: u64,
    /// How late ticks start, µs, and for how many more.
    late: u32,
}

impl Run<'_> {
    fn judge(mut self) -> Verdict {
        let what = self.go().err();
        let unwritten = self.recording.take().and_then(|recording| recording.finish().err());
        let brought_down = self
            .log
            .iter()
            .any(|transition| transition.from == Phase::Active && transition.to != Phase::Active);
        let clean = self.scenario.events.iter().all(|event| !event.trouble.disturbs_the_wire());
        let reaction_ns = self.rig.stage().spy.reaction_ns().filter(|_| clean);
        let slow = reaction_ns.filter(|&ns| ns > allowed_ns(self.robot));
        let slow = slow.map(|ns| format!("a fault was answered only after {} µs", ns / 1000));
        Verdict { what: what.or(slow).or(unwritten), brought_down, reaction_ns }
    }

    fn go(&mut self) -> Result<(), String> {
        let mut late_us = 0;
        while self.tick < LONGEST && !self.rig.machine.is_settled() {
            let (scenario, tick) = (self.scenario, self.tick);
            for event in scenario.events.iter().filter(|event| event.tick == tick) {
                match event.trouble {
                    Trouble::HostKilled => return self.host_is_gone(),
                    Trouble::HostStopped(ms) => self.rig.freeze(i64::from(ms) * 1_000_000),
                    Trouble::HostLate(us) => (late_us, self.late) = (us, 30),
                    trouble => self.begin(trouble),
                }
            }
            let late_ns = if self.late > 0 { i64::from(late_us) * 1000 } else { 0 };
            self.late = self.late.saturating_sub(1);
            let stop = self.mischief.has(OPERATOR).then_some(Cause::OperatorStop);
            let timing = self.rig.tick(stop, late_ns);
            self.recording.iter_mut().for_each(|recording| recording.tick(tick, timing, &self.rig.machine));
            self.check_step()?;
            self.tick += 1;
        }
        self.check_end()
    }

    fn begin(&mut self, trouble: Trouble) {
        let now_ns = self.rig.now_ns();
        let mut stage = self.rig.stage();
        let servos = self.robot.servos.len();
        match trouble {
            Trouble::Silent(servo) => stage.world.inject(servo, Injection::Silent(true), now_ns),
            Trouble::Reboot(servo) => stage.world.inject(servo, Injection::Reboot, now_ns),
            Trouble::Fault(servo) => {
                stage.world.inject(servo, Injection::Fault(Fault::OVER_TEMPERATURE), now_ns)
            }
            Trouble::Lying(servo) => stage.world.inject(servo, Injection::Lying(true), now_ns),
            Trouble::Stuck(servo) => stage.world.inject(servo, Injection::Stuck(true), now_ns),
            Trouble::ImuGone => stage.world.lose_imu(true),
            Trouble::BrownOut(volts) => {
                (0..servos).for_each(|servo| stage.world.set_supply(servo, f64::from(volts), now_ns));
            }
            Trouble::DiskFull => self.recording.iter().for_each(Recording::fill_the_disk),
            Trouble::ControllerFreezes(ms) => {
                self.mischief.freeze_ns.store(i64::from(ms) * 1_000_000, Ordering::Relaxed)
            }
            Trouble::ControllerSlow(us) => {
                self.mischief.slow_ns.store(i64::from(us) * 1_000, Ordering::Relaxed)
            }
            Trouble::ControllerPanics => self.mischief.begin(PANIC),
            Trouble::ControllerFails => self.mischief.begin(FAIL),
            Trouble::ControllerNan => self.mischief.begin(NAN),
            Trouble::ControllerWild => self.mischief.begin(WILD),
            Trouble::OperatorStop => self.mischief.begin(OPERATOR),
            Trouble::BusDead(_)
            | Trouble::BusNoisy(..)
            | Trouble::BusSlow(..)
            | Trouble::HostKilled
            | Trouble::HostStopped(_)
            | Trouble::HostLate(_) => {}
        }
    }

    fn check_step(&mut self) -> Result<(), String> {
        if let Some(beyond) = self.rig.stage().spy.beyond.take() {
            return Err(format!("beyond the limits: {beyond}"));
        }
        for transition in self.rig.machine.transitions() {
            let Transition { from, to, cause, .. } = *transition;
            if from != to && !from.leads_to(to) {
                return Err(format!("no way from {from:?} to {to:?}"));
            }
            if cause.is_trouble() && self.tick >= FROM && !self.explained(transition) {
                return Err(format!("the log says \"{cause}\", which did not happen"));
            }
            self.log.push(*transition);
        }
        let active = self.rig.machine.phase() == Phase::Active;
        let overdue = |event: &Event| event.trouble.must_end() && self.tick > event.tick + ANSWER_TICKS;
        match self.scenario.events.iter().find(|event| active && overdue(event)) {
            Some(event) => Err(format!("still in control {ANSWER_TICKS} ticks after {:?}", event.trouble)),
            None => Ok(()),
        }
    }

    /// A host that is stopped or late cannot look at the clock meanwhile.
    fn longest_pause_ns(&self) -> i64 {
        let pause = |event: &Event| match event.trouble {
            Trouble::HostStopped(ms) | Trouble::ControllerFreezes(ms) => i64::from(ms) * 1_000_000,
            Trouble::HostLate(us) | Trouble::ControllerSlow(us) => i64::from(us) * 1_000,
            _ => 0,
        };
        self.robot.timing.period_ns() * 2 + self.scenario.events.iter().map(pause).sum::<i64>()
    }

    fn explained(&self, transition: &Transition) -> bool {
        let begun = self.scenario.events.iter().filter(|event| event.tick <= self.tick);
        begun.into_iter().any(|event| event.trouble.explains(transition.cause))
    }

    fn check_end(&mut self) -> Result<(), String> {
        let must_end = self.scenario.events.iter().any(|event| event.trouble.must_end());
        if must_end && !self.rig.machine.is_settled() {
            return Err(format!("not at rest after {} ticks, but {:?}", self.tick, self.rig.machine.phase()));
        }
        if !self.rig.machine.is_settled() {
            return Ok(());
        }
        let damping = self.log.iter().find(|transition| transition.to == Phase::Damping);
        let rest = self.log.iter().find(|transition| transition.to.is_over());
        if let (Some(damping), Some(rest)) = (damping, rest)
            && damping.deadline_ns.is_some_and(|ns| rest.at_ns > ns + self.longest_pause_ns())
        {
            return Err("damping took longer than it may".to_owned());
        }
        let unreachable = |servo: usize| {
            let bus = self.robot.servos[servo].bus;
            self.scenario.events.iter().any(|event| match event.trouble {
                Trouble::BusDead(dead) => dead == bus,
                Trouble::BusNoisy(noisy, _) => noisy == bus,
                _ => false,
            })
        };
        // What cannot be reached has run out of its watchdog by itself.
        self.rig.freeze(150_000_000);
        for (index, servo) in self.rig.stage().world.servos().iter().enumerate() {
            let mode = servo.status().mode;
            let name = &self.robot.servos[index].name;
            if mode == Mode::Position {
                return Err(format!("{name} still follows a position at rest"));
            }
            if mode.is_active() && !unreachable(index) {
                return Err(format!("{name} keeps its output on at rest, in mode {mode:?}"));
            }
        }
        Ok(())
    }

    /// No tick comes any more: the servos must damp by themselves.
    fn host_is_gone(&mut self) -> Result<(), String> {
        let watchdog_s = self.robot.servos.iter().map(|servo| servo.watchdog_s).fold(0.0, f64::max);
        self.rig.freeze((watchdog_s * 1e9) as i64 + 20_000_000);
        let stage = self.rig.stage();
        let obeying = stage.world.servos().iter().position(|servo| servo.status().mode == Mode::Position);
        match obeying {
            Some(servo) => Err(format!("{} goes on without a host", self.robot.servos[servo].name)),
            None => Ok(()),
        }
    }
}

const PANIC: u8 = 1;
const FAIL: u8 = 2;
const NAN: u8 = 4;
const WILD: u8 = 8;
const OPERATOR: u8 = 16;

/// What the controller and the operator are up to.
#[derive(Default)]
struct Mischief {
    /// Bits of the above.
    kinds: AtomicU8,
    /// How long the next update takes.
    freeze_ns: AtomicI64,
    /// How long every update takes.
    slow_ns: AtomicI64,
}

impl Mischief {
    fn begin(&self, kind: u8) {
        self.kinds.fetch_or(kind, Ordering::Relaxed);
    }

    fn has(&self, kind: u8) -> bool {
        self.kinds.load(Ordering::Relaxed) & kind != 0
    }
}

/// The robot's controller, until it misbehaves as told.
struct Saboteur {
    inner: Box<dyn Controller>,
    mischief: Arc<Mischief>,
    time: VirtualTime,
}

impl Controller for Saboteur {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.inner.start(state)
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.inner.update(state, commands)?;
        let spoil = |commands: &mut [ServoCommand], value: f64| {
            let command = PositionCommand { velocity: value, torque: value, ..PositionCommand::hold(value) };
            commands.fill(ServoCommand::Position(command));
        };
        let mischief = &self.mischief;
        let took_ns =
            mischief.freeze_ns.swap(0, Ordering::Relaxed) + mischief.slow_ns.load(Ordering::Relaxed);
        self.time.elapse(took_ns);
        assert!(!mischief.has(PANIC), "a bug, for the drill");
        if mischief.has(FAIL) {
            return Err("given up, for the drill".into());
        }
        if mischief.has(NAN) {
            spoil(commands, f64::NAN);
        } else if mischief.has(WILD) {
            spoil(commands, if state.tick.is_multiple_of(2) { 1e6 } else { -1e6 });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_reactions_are_never_rounded_down() {
        let hundred: Vec<i64> = (1..=100).collect();
        assert_eq!([0.0, 0.5, 0.99, 0.999, 1.0].map(|q| nearest_rank(&hundred, q)), [1, 50, 99, 100, 100]);
        assert_eq!([0.5, 0.99].map(|q| nearest_rank(&[3, 9], q)), [3, 9]);
        assert_eq!(nearest_rank(&[7], 0.5), 7);
    }

    #[test]
    fn nothing_is_violated_in_a_short_campaign() {
        let campaign = campaign(&RobotConfig::quadruped(), 24, 1).unwrap();
        assert!(campaign.violations.is_empty(), "{:#?}", campaign.violations);
        assert!(campaign.brought_down > 10);
    }

    /// The supervisor is told to overlook faults, which the campaign must find; its seed gives the same again.
    #[test]
    fn a_planted_violation_is_found_and_replays_from_its_seed() {
        let mut robot = RobotConfig::quadruped();
        robot.supervisor.reactions.servo_fault = khz_robot::config::Reaction::Warn;
        let found = campaign(&robot, 24, 1).unwrap().violations;
        let planted = found.iter().find(|violation| violation.what.contains("still in control"));
        let planted = planted.unwrap_or_else(|| panic!("{found:#?}"));
        let again = campaign(&robot, 1, planted.seed).unwrap().violations;
        assert_eq!(again.len(), 1);
        assert_eq!((&again[0].what, &again[0].scenario), (&planted.what, &planted.scenario));
    }

    #[test]
    fn a_seed_always_draws_the_same() {
        let draw = |seed| Scenario::draw(seed, 12, 4, FROM, TO);
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
