//! Trials with the supervisor alone, on states that are made for it.

use super::whole::LOAD;
use khz_file::RobotConfig;
use khz_file::config::ServoConfig;
use khz_link::ImuSample;
use khz_loop::state::{ImuState, RobotState};
use khz_loop::supervisor::{Cause, Observation, Phase, Reaction, Supervisor};
use khz_loop::timing::Mode;
use khz_loop::{Doing, PositionCommand, ServoCommand, ServoState};
use khz_robot::assemble;

/// A robot that must come down leaves control within so many ticks, …
const ANSWER_TICKS: u64 = 60;
/// … or this time, if that is longer, s.
const ANSWER_S: f64 = 0.07;
/// How long an operator may be silent, s.
const OPERATOR_S: f64 = 2.0;
/// A robot that leans so far is about to lie on its side, rad.
const ABOUT_TO_LIE: f64 = 1.4;
/// How long an IMU may repeat a reading, s.
const FROZEN_S: f64 = 0.2;
/// A servo may have a fault by itself below this supply, V, …
const SAGGING_V: f64 = 9.0;
/// … and at this temperature, °C: a moteus from the factory.
const FAULT_C: f64 = 75.0;
/// So far below the temperature at which it is to come down a servo is when all is well, K.
const COOL_K: f64 = 40.0;
/// How far beyond its limits a joint may be found, rad, …
const FOUND: f64 = 0.05;
/// … and where it is tried.
const FOUND_AT: [f64; 10] = [0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 1.9, 3.0, 6.0];
/// Joints that move are damped for so long at least, s.
const DAMPED_S: f64 = 1.0;
/// So fast they move, rad/s.
const MOVING: f64 = 0.5;

/// A supervisor, and the robot it is to see.
struct Bench {
    supervisor: Supervisor,
    state: RobotState,
    seen: Observation,
    commands: Vec<ServoCommand>,
    /// A servo when all is well.
    well: Vec<ServoState>,
    heartbeat: bool,
}

impl Bench {
    fn new(robot: &RobotConfig) -> Self {
        let (servos, settings) = (robot.servos.len(), robot.supervisor_settings());
        let well = |servo: &ServoConfig| {
            let carries = servo.carries();
            ServoState {
                position: servo.limits.position.map_or(0.0, |[low, high]| 0.5 * (low + high)),
                velocity: 0.0,
                torque: 0.0,
                voltage: if carries.voltage_asked { settings.voltage_low_v + 10.0 } else { f64::NAN },
                temperature: if carries.temperature_asked {
                    settings.temperature_hard_c - COOL_K
                } else {
                    f64::NAN
                },
                ..ServoState::UNKNOWN
            }
        };
        let well = robot.servos.iter().map(well).collect();
        Self {
            supervisor: assemble::supervisor(robot),
            state: RobotState::unknown(servos, robot.imu.is_some(), robot.timing.period_ns()),
            seen: Observation::default(),
            commands: vec![ServoCommand::Stop; servos],
            well,
            heartbeat: settings.heartbeat_ns().is_some(),
        }
    }

    /// Under control, after the grace of a start; `None` if it does not come to that.
    fn under_control(robot: &RobotConfig) -> Option<Self> {
        let mut bench = Self::new(robot);
        bench.arm(robot, |_, _| {})?;
        bench.state.now_ns += robot.supervisor_settings().grace_ns();
        (bench.tick(|_| {}) == Phase::Active).then_some(bench)
    }

    /// Ticks until it is under control. `spoil` has the number of the tick.
    fn arm(&mut self, robot: &RobotConfig, mut spoil: impl FnMut(&mut Self, u64)) -> Option<()> {
        let most = u64::from(robot.supervisor.answer_ticks) + 20;
        (0..most).find(|&tick| {
            if self.supervisor.phase() == Phase::Idle {
                self.supervisor.arm();
            }
            self.tick(|bench| spoil(bench, tick)) == Phase::Active
        })?;
        Some(())
    }

    /// One tick in which all is well, but for what `spoil` does to it.
    fn tick(&mut self, spoil: impl FnOnce(&mut Self)) -> Phase {
        self.state.now_ns += self.state.period_ns;
        let now_ns = self.state.now_ns;
        let doing = match self.supervisor.phase() {
            Phase::Armed | Phase::Active => Doing::Following,
            Phase::Damping => Doing::Damping,
            _ => Doing::Off,
        };
        for (servo, well) in self.state.servos.iter_mut().zip(&self.well) {
            *servo = ServoState { doing, at_ns: now_ns, fresh: true, ..*well };
        }
        if let Some(imu) = &mut self.state.imu {
            *imu = ImuState { sample: reading([1.0, 0.0, 0.0, 0.0], self.state.tick, now_ns), fresh: true };
        }
        self.seen = Observation { heartbeat_age_ns: self.heartbeat.then_some(0), ..Observation::default() };
        for (command, servo) in self.commands.iter_mut().zip(&self.well) {
            *command = ServoCommand::Position(PositionCommand::hold(servo.position));
        }
        spoil(self);
        self.supervisor.observe(&self.state, &self.seen);
        self.supervisor.controller_started(&self.state);
        self.supervisor.govern(&mut self.commands, &self.state);
        self.supervisor.take_transitions();
        self.state.tick += 1;
        self.supervisor.phase()
    }

    /// Seconds until it leaves control, at most `most_s`; `None`: it does not.
    fn leaves_control(&mut self, most_s: f64, mut spoil: impl FnMut(&mut Self)) -> Option<f64> {
        let ticks = ((most_s / self.state.dt()) as u64).max(1);
        let ticks = (1..=ticks).find(|_| self.tick(&mut spoil) != Phase::Active)?;
        Some(ticks as f64 * self.state.dt())
    }

    fn every_servo(&mut self, change: impl Fn(&mut ServoState)) {
        self.state.servos.iter_mut().for_each(change);
    }
}

/// What an IMU reads, with the noise of this tick.
fn reading(attitude: [f64; 4], tick: u64, at_ns: i64) -> ImuSample {
    ImuSample { at_ns, attitude, rate: [tick as f64 * 1e-9; 3], acceleration: [0.0; 3] }
}

/// This goes on under control for longer than is promised.
fn goes_on(
    robot: &RobotConfig,
    what: &str,
    promised_s: f64,
    spoil: impl FnMut(&mut Bench),
) -> Option<String> {
    /// So many times the promise is looked at.
    const LONGEST: f64 = 20.0;
    let after_s = Bench::under_control(robot)?.leaves_control(LONGEST * promised_s, spoil);
    let reached = match after_s {
        Some(after_s) if after_s <= promised_s => return None,
        Some(after_s) => format!("brings the robot down only after {after_s:.3} s"),
        None => format!("does not bring the robot down within {:.1} s", LONGEST * promised_s),
    };
    Some(format!("{what} {reached}; {promised_s:.3} s is promised"))
}

fn answer_s(robot: &RobotConfig) -> f64 {
    ANSWER_S.max(ANSWER_TICKS as f64 * robot.timing.period_ns() as f64 * 1e-9)
}

pub fn silent_servo(robot: &RobotConfig) -> Option<String> {
    let mut since_ns = None;
    goes_on(robot, "a servo that is silent", answer_s(robot), |bench| {
        let at_ns = *since_ns.get_or_insert(bench.state.now_ns);
        (bench.state.servos[0].fresh, bench.state.servos[0].at_ns) = (false, at_ns);
        bench.seen.cycle.missed = 1;
    })
}

pub fn late_loop(robot: &RobotConfig) -> Option<String> {
    goes_on(robot, "a loop that is late in every tick", answer_s(robot), |bench| bench.seen.overrun = true)
}

pub fn slow_controller(robot: &RobotConfig) -> Option<String> {
    let is_inline = robot.timing.mode == Mode::Inline;
    goes_on(robot, "a controller that takes two periods in every tick", answer_s(robot), |bench| {
        bench.seen.control_ns = 2 * bench.state.period_ns;
        bench.seen.overrun = is_inline;
    })
}

pub fn silent_imu(robot: &RobotConfig) -> Option<String> {
    robot.imu.as_ref()?;
    let mut last = None;
    goes_on(robot, "an IMU that is silent", answer_s(robot), |bench| {
        let sample = *last.get_or_insert(bench.state.imu.map_or(ImuState::NONE, |imu| imu.sample));
        bench.state.imu = Some(ImuState { sample, fresh: false });
    })
}

pub fn frozen_imu(robot: &RobotConfig) -> Option<String> {
    robot.imu.as_ref()?;
    let promised_s = FROZEN_S.max(12.0 * robot.timing.period_ns() as f64 * 1e-9);
    goes_on(robot, "an IMU that repeats one reading", promised_s, |bench| {
        let sample = reading([1.0, 0.0, 0.0, 0.0], 0, bench.state.now_ns);
        bench.state.imu = Some(ImuState { sample, fresh: true });
    })
}

pub fn on_its_side(robot: &RobotConfig) -> Option<String> {
    robot.imu.as_ref()?;
    let what = format!("a robot that leans {ABOUT_TO_LIE} rad, about to lie on its side,");
    let (sin, cos) = (0.5 * ABOUT_TO_LIE).sin_cos();
    goes_on(robot, &what, answer_s(robot), |bench| {
        let sample = reading([cos, sin, 0.0, 0.0], bench.state.tick, bench.state.now_ns);
        bench.state.imu = Some(ImuState { sample, fresh: true });
    })
}

pub fn silent_operator(robot: &RobotConfig) -> Option<String> {
    robot.supervisor.heartbeat_ms?;
    let age_ns = (OPERATOR_S * 1e9) as i64;
    let mut bench = Bench::under_control(robot)?;
    let goes_on = bench.tick(|bench| bench.seen.heartbeat_age_ns = Some(age_ns)) == Phase::Active;
    goes_on.then(|| {
        format!(
            "a robot whose operator has been silent for {OPERATOR_S:.0} s goes on; that is the most promised"
        )
    })
}

pub fn low_voltage(robot: &RobotConfig) -> Option<String> {
    // Servos that are made for less are none of those it is promised of.
    let is_asked =
        |servo: &ServoConfig| servo.carries().voltage_asked && servo.in_file().most_v(servo) > SAGGING_V;
    let asked = robot.servos.iter().any(is_asked) && robot.emulation.supply_v > SAGGING_V;
    let mut bench = Bench::under_control(robot).filter(|_| asked)?;
    let sags = |servo: &mut ServoState| servo.voltage = servo.voltage.min(SAGGING_V);
    let goes_on = bench.tick(|bench| bench.every_servo(sags)) == Phase::Active;
    goes_on.then(|| {
        format!("a robot whose supply sags to {SAGGING_V} V goes on, until servos fail; to come down before is promised")
    })
}

pub fn hot_servo(robot: &RobotConfig) -> Option<String> {
    let asked = robot.servos.iter().any(|servo| servo.carries().temperature_asked);
    let mut bench = Bench::under_control(robot).filter(|_| asked)?;
    let heats = |servo: &mut ServoState| servo.temperature = FAULT_C;
    let goes_on = bench.tick(|bench| bench.every_servo(heats)) == Phase::Active;
    goes_on.then(|| {
        format!(
            "a robot whose servos are at {FAULT_C} °C, where a moteus from the factory has a fault, goes on; to come down before is \
             promised"
        )
    })
}

/// The farthest place at which a joint outside its limits is armed.
pub fn found_outside(robot: &RobotConfig) -> Option<String> {
    let index = robot.servos.iter().position(|servo| servo.limits.position.is_some())?;
    let [_, high] = robot.servos[index].limits.position?;
    let is_armed = |by: &&f64| {
        let mut bench = Bench::new(robot);
        bench.well[index].position = high + **by;
        bench.arm(robot, |_, _| {}).is_some()
    };
    let at = high + FOUND_AT.iter().rev().find(is_armed)?;
    let promised = high + FOUND;
    Some(format!(
        "a joint found at {at} rad is armed, although its limit is {high} rad; {promised} rad is promised"
    ))
}

/// Replies come in one of two ticks.
pub fn loose_contact(robot: &RobotConfig) -> Option<String> {
    let mut bench = Bench::new(robot);
    bench.arm(robot, |bench, tick| {
        if tick.is_multiple_of(2) {
            bench.every_servo(|servo| servo.fresh = false);
            bench.seen.cycle.missed = 1;
        }
    })?;
    Some("a robot whose servos reply in one of two ticks is armed; to wait for several complete ticks in a row is promised".into())
}

/// A robot that goes on with less torque has enough for a load, and less than it has when all is well.
pub fn derated(robot: &RobotConfig) -> Option<String> {
    type Spoil = fn(&mut Bench);
    let reactions = &robot.supervisor.reactions;
    let derates = |reaction: Reaction| reaction == Reaction::Derate;
    // What goes wrong, and whether it is to lower the torque.
    let wrong: [(&str, bool, Spoil); 6] = [
        ("a servo has a fault", derates(reactions.servo_fault), |bench| {
            bench.state.servos[0].doing = Doing::Faulted;
        }),
        ("the supply sags", derates(reactions.voltage), |bench| {
            bench.every_servo(|servo| servo.voltage = servo.voltage.min(SAGGING_V));
        }),
        ("a servo is hot", derates(reactions.temperature), |bench| {
            bench.every_servo(|servo| servo.temperature = FAULT_C);
        }),
        ("servos are almost too hot", true, |bench| {
            bench.every_servo(|servo| servo.temperature += COOL_K - 0.1);
        }),
        ("a servo is silent", derates(reactions.stale), |bench| {
            bench.state.servos[0].fresh = false;
            bench.state.servos[0].at_ns = 0;
        }),
        ("the loop is late", derates(reactions.overruns), |bench| bench.seen.overrun = true),
    ];
    let torque = |command: &ServoCommand| match command {
        ServoCommand::Position(command) => command.max_torque,
        _ => f64::NAN,
    };
    let has_all = |(command, servo): (&ServoCommand, &ServoConfig)| {
        servo.limits.torque.is_some_and(|most| torque(command) >= most)
    };
    wrong.into_iter().find_map(|(what, is_derated, spoil)| {
        let mut bench = Bench::under_control(robot)?;
        let ticks = u64::from(robot.supervisor.overruns).min(ANSWER_TICKS);
        if !(0..=ticks).all(|_| bench.tick(spoil) == Phase::Active) {
            return None;
        }
        let share = |(command, servo): (&ServoCommand, &ServoConfig)| {
            let most = servo.limits.torque.filter(|most| *most > 0.0)?;
            Some(torque(command) / most).filter(|share| *share < LOAD)
        };
        let left = bench.commands.iter().zip(&robot.servos).filter_map(share).min_by(f64::total_cmp);
        if let Some(left) = left {
            return Some(format!(
                "a robot goes on with {:.1} % of its torque when {what}: it drops; to come down by damping is promised",
                100.0 * left
            ));
        }
        let keeps_all = is_derated && bench.commands.iter().zip(&robot.servos).any(has_all);
        keeps_all.then(|| format!("a robot goes on with all of its torque when {what}; to go on with less is promised"))
    })
}

/// How robots without a body come down is unknown: their joints go on moving.
pub fn moving_joints(robot: &RobotConfig) -> Option<String> {
    let mut bench = Bench::under_control(robot).filter(|_| robot.body.is_none())?;
    bench.tick(|bench| bench.seen.stop = Some(Cause::OperatorStop));
    let moves = |bench: &mut Bench| bench.every_servo(|servo| servo.velocity = MOVING);
    let ticks = (DAMPED_S / bench.state.dt()) as u64;
    let ticks = (1..=ticks).find(|_| bench.tick(moves).is_over())?;
    let after_s = ticks as f64 * bench.state.dt();
    Some(format!(
        "outputs are switched off {after_s:.2} s after the robot is to come down, while joints move at {MOVING} rad/s: it drops; to damp \
         them for {DAMPED_S:.0} s at least is promised"
    ))
}
