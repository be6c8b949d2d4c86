//! Watches joints and servos from the devices' side of the wire, and remembers where they really were.
//!
//! Frames show what was commanded; what injures a person is a joint. So the limits are checked on the joints of the emulated
//! body: a joint counts as *driven* while its servo's torque does work on it. Motion by gravity, contact or a push is
//! not held against the robot.

use super::fleet::ScenarioRobot;
use super::scenario::{Fault, Scenario};
use super::violation::{Invariant, Violated};
use khz_emu::twin::STEP_NS;
use khz_emu::{JointState, Probe, Twin, WireKind};
use khz_file::RobotConfig;
use khz_file::config::ServoConfig;
use khz_loop::{Occasion, RobotState};
use khz_wire::Frame;
use std::f64::consts::TAU;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Commands remembered per servo; one that is not among them is older.
const COMMANDS: usize = 32;
/// Steps of history at the least: 64 ms; and so many periods.
const HISTORY: usize = 256;
/// See [`HISTORY`].
const PERIODS: i64 = 4;
/// A joint must be driven too fast or too far for so many steps in a row: half a millisecond.
const STEPS: u8 = 2;
/// Work that counts, W.
const LEAST_POWER: f64 = 0.05;
/// The supervisor's trigger acts at this multiple of `limits.velocity`.
const TRIGGER: f64 = 1.5;
/// Where the supervisor may not see it, or its gains damp little, a joint that follows a target overshoots its speed so far.
const UNSEEN: f64 = 2.0;
/// Below this rate a target moves in steps so large that a joint which follows it is too fast between them, Hz.
pub const SMOOTH_HZ: f64 = 65.0;
/// A torque drives a joint for so many periods before the answer to what it leads to: one until that is measured, one until the
/// next command.
pub const GAINS: f64 = 2.0;
/// One without a limit, which is so great that what happens before a period's measurement counts: three.
const UNLIMITED_GAINS: f64 = 1.5;
/// A joint that was pushed, by a person or by the ground, swings back so many times faster (seen: 1.67, pushed with more than its own torque at
/// 50 Hz).
const THROWN: f64 = 1.7;
/// In a slow loop a joint is so many times faster whose controller's parameters were moved, because its target goes on in another way from one
/// large step to the next (seen: 1.006), or whose servo does not keep its limit of torque (seen: 1.03).
const MOVED: f64 = 1.1;
/// How fast a joint may be was seen, not computed: campaigns of other scenarios went 2 % further.
const SEEN: f64 = 1.03;
/// The torque of a servo without its own limit, N·m: the emulated motor's at 100 A, behind its gear.
const UNLIMITED: f64 = 33.0;
/// The greatest torque with which a servo damps (`servo.timeout_max_torque_Nm` from the factory), N·m.
const DAMPING_TORQUE: f64 = 5.0;
/// How far outside the limits a joint may be found, rad.
const TOLERANCE: f64 = 0.05;

/// What the devices' side saw so far.
pub struct Monitor {
    joints: Vec<Joint>,
    servos: Vec<Vec<Made>>,
    /// Positions as the servos measure them, revolutions: a ring of so many steps.
    history: Vec<f64>,
    steps: usize,
    /// When the newest step was.
    stepped_ns: i64,
    period_ns: i64,
    /// How long two ticks take at the most, ns: late ones take longer.
    two_ticks_ns: i64,
    /// How many commands of each servo may still be late because a queue behind the link kept them.
    excused: Vec<u32>,
    violated: Option<Violated>,
    /// Highest share of the speed allowed, over all joints.
    pub peak_speed: f64,
}

/// What a loop of this rate makes of its limits.
#[derive(Clone, Copy)]
struct Drive {
    /// How long a command may hold until what comes of it is answered, s.
    answer_s: f64,
    /// For so long a joint gains speed by its torque, s. None does that follows a target or a speed.
    gains_s: f64,
    /// For so long a joint that is carried out of its limits is driven on by its velocity command, s.
    carried_s: f64,
    /// So many times faster is a joint that follows the steps of a target, or swings back after a push.
    swings: f64,
    /// Joints overshoot the speed of their targets.
    rings: bool,
}

impl Drive {
    fn of(scenario: &Scenario, robot: &RobotConfig) -> Self {
        let period_s = robot.timing.period_ns() as f64 * 1e-9;
        let answer_s = GAINS * period_s;
        let gains_s = if scenario.commands_torque() { answer_s } else { 0.0 };
        let steps = (SMOOTH_HZ * period_s).max(1.0).sqrt();
        let is_pushed = scenario.faults().any(|fault| matches!(fault, Fault::Pushed(..)));
        let is_thrown = is_pushed || scenario.falls(robot);
        let is_moved = scenario.rate_hz < SMOOTH_HZ
            && scenario
                .faults()
                .any(|fault| matches!(fault, Fault::ParametersMoved(..) | Fault::RefusesLimit(..)));
        let swings = match () {
            () if is_thrown => steps * THROWN,
            () if is_moved => steps * MOVED,
            () => steps,
        };
        let carried_s = if is_pushed && !scenario.style.follows_targets() { answer_s } else { 0.0 };
        Self { answer_s, gains_s, carried_s, swings, rings: scenario.rings(robot) }
    }

    /// A servo whose position jumps drives its joint back with all its torque until the next command; so does one that was off within one
    /// long period, and whose target went on meanwhile; or one that reports by turns that it follows and that it does not, whose target starts anew
    /// each time from where its joint was a long period ago.
    fn of_joint(&self, scenario: &Scenario, servo: usize) -> Self {
        let is_slow = scenario.rate_hz < SMOOTH_HZ;
        let jumps = scenario.faults().any(|fault| match fault {
            Fault::Jumps(of, _) => of == servo,
            Fault::Reboot(of) | Fault::MostlyOtherMode(of, _) => of == servo && is_slow,
            _ => false,
        });
        Self { gains_s: if jumps { self.answer_s } else { self.gains_s }, ..*self }
    }
}

/// What is allowed to one joint.
struct Joint {
    name: String,
    /// The servo of the file it is taken for.
    servo: usize,
    sign: f64,
    offset: f64,
    /// Its servo does not feel it move: it is driven wherever it goes.
    is_stuck: bool,
    /// What its servo reports was never true.
    is_untrue: bool,
    fastest: f64,
    low: f64,
    high: f64,
    /// Least change of a position the host can see, rev.
    resolution: f64,
    too_fast: u8,
    too_far: u8,
    /// Where and how fast the supervisor must see that the joint is beyond its limits.
    seen: Seen,
}

/// What the supervisor's triggers must see.
struct Seen {
    low: f64,
    high: f64,
    speed: f64,
    /// Steps in a row in which there was something to see.
    steps: u32,
}

/// A command as the host made it.
#[derive(Clone, Copy)]
struct Made {
    hash: u64,
    at_ns: i64,
}

impl Monitor {
    /// Watches the devices of `robot` in a run of `scenario`.
    pub fn new(robot: &ScenarioRobot, scenario: &Scenario) -> Self {
        let file = &robot.file;
        let anywhere = scenario.may_push_blindly(file) || scenario.jumps_turns(file);
        let blind_s = if anywhere { f64::INFINITY } else { scenario.blind_s(file) };
        let drive = Drive::of(scenario, file);
        let joints = robot.stands_for.iter().map(|&servo| {
            // The file counts; what its joint is made of is what is really there.
            let (file, real) = (&robot.file.servos[servo], &robot.real.servos[servo]);
            let (is_stuck, is_untrue) = (scenario.is_stuck(servo), scenario.is_untrue(servo));
            let drive = drive.of_joint(scenario, servo);
            Joint { is_stuck, is_untrue, ..Joint::new(servo, file, real, &drive, blind_s) }
        });
        let joints: Vec<_> = joints.collect();
        let wires = robot.file.world().buses;
        let late = |joint: &Joint| {
            let servo = &robot.file.servos[joint.servo];
            let is_half_duplex = matches!(wires[servo.bus].wire, WireKind::Rs485 { .. });
            let (family, occasion) = (servo.family(), Occasion::Changing);
            // Of one that is commanded with others every packet is for all of them.
            let frames = match family.settings().group() {
                Some(_) => family.settings().question(&[servo.id], occasion).len(),
                None => 1 + family.settings().besides(servo.id, occasion).len(),
            };
            scenario.late_by_kernel(is_half_duplex, frames as u32)
        };
        let servos = robot.file.servos.len();
        let steps = HISTORY.max((PERIODS * robot.file.timing.period_ns() / STEP_NS) as usize);
        Self {
            servos: vec![Vec::with_capacity(COMMANDS); servos],
            history: vec![f64::NAN; steps * servos],
            steps,
            stepped_ns: 0,
            period_ns: robot.file.timing.period_ns(),
            two_ticks_ns: 2 * robot.file.timing.period_ns() + scenario.late_ns(),
            excused: joints.iter().map(late).collect(),
            joints,
            violated: None,
            peak_speed: 0.0,
        }
    }

    /// What was seen first that must not be.
    pub fn take(&mut self) -> Option<Violated> {
        self.violated.take()
    }

    /// The host has made a command for a servo of the file.
    pub fn made(&mut self, servo: usize, frame: &Frame, at_ns: i64) {
        let made = &mut self.servos[servo];
        if made.len() == COMMANDS {
            made.remove(0);
        }
        made.push(Made { hash: hash(frame), at_ns });
    }

    fn violate(&mut self, invariant: Invariant, what: String) {
        self.violated.get_or_insert(Violated { invariant, what });
    }

    /// Compares what the host takes for the state with what was true. A value may be older than its age by one period:
    /// its query and its reply travel.
    pub fn compare(&mut self, state: &RobotState) {
        for index in 0..self.servos.len() {
            let (servo, joint) = (&state.servos[index], &self.joints[index]);
            let age_ns = servo.age_ns(state.now_ns);
            if joint.is_untrue
                || !servo.position.is_finite()
                || age_ns > (self.steps as i64 - 16) * STEP_NS - self.period_ns
            {
                continue;
            }
            let message = (servo.position - joint.offset) * joint.sign / TAU;
            let oldest_ns = servo.at_ns - self.period_ns - STEP_NS;
            let (least, most) = self.range(index, oldest_ns);
            if message < least - joint.resolution || message > most + joint.resolution {
                let name = &joint.name;
                let what = format!(
                    "{name}: {:.4} rad is reported to be {:.2} ms old, but since then it was between {:.4} and {:.4} rad",
                    message * TAU,
                    age_ns as f64 * 1e-6,
                    least * TAU,
                    most * TAU
                );
                return self.violate(Invariant::StateAge, what);
            }
        }
    }

    /// The least and the greatest position of a servo since `oldest_ns`, revolutions.
    fn range(&self, servo: usize, oldest_ns: i64) -> (f64, f64) {
        let steps = ((self.stepped_ns - oldest_ns) / STEP_NS).clamp(0, self.steps as i64 - 1);
        let newest = self.stepped_ns / STEP_NS;
        let past = (0..=steps).map(|back| self.history[self.slot(newest - back) + servo]);
        past.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), at| (least.min(at), most.max(at)))
    }

    /// A joint has been beyond its limits, or too fast, for so many ticks: which, and for how long.
    pub fn beyond(&self, ticks: u32) -> Option<&str> {
        let steps = (i64::from(ticks) * self.period_ns / STEP_NS) as u32;
        self.joints.iter().find(|joint| joint.seen.steps > steps).map(|joint| joint.name.as_str())
    }

    fn slot(&self, step: i64) -> usize {
        step.rem_euclid(self.steps as i64) as usize * self.servos.len()
    }

    fn judge(&mut self, index: usize, servo: &dyn Twin, state: JointState) {
        let joint = &mut self.joints[index];
        if joint.is_stuck {
            return;
        }
        let driven = servo.torque() * state.velocity > LEAST_POWER;
        let (angle, velocity) = (joint.sign * state.position + joint.offset, joint.sign * state.velocity);
        let seen = &mut joint.seen;
        let is_seen = angle < seen.low || angle > seen.high || velocity.abs() > seen.speed;
        seen.steps = if is_seen { seen.steps.saturating_add(1) } else { 0 };
        let outward = (angle > joint.high && velocity > 0.0) || (angle < joint.low && velocity < 0.0);
        let count = |is: bool, count: u8| if is { count.saturating_add(1) } else { 0 };
        joint.too_fast = count(driven && velocity.abs() > joint.fastest, joint.too_fast);
        joint.too_far = count(driven && outward, joint.too_far);
        if driven {
            self.peak_speed = self.peak_speed.max(velocity.abs() / joint.fastest);
        }
        let name = &joint.name;
        let doing = servo.doing().name();
        if joint.too_fast == STEPS {
            let what = format!(
                "{name} is driven at {velocity:.2} rad/s, allowed are {:.2} ({doing}, at {angle:.2} rad)",
                joint.fastest
            );
            self.violate(Invariant::JointSpeed, what);
        } else if joint.too_far == STEPS {
            let what = format!(
                "{name} is driven outward at {angle:.3} rad and {velocity:.2} rad/s, allowed are {:.3} to {:.3} rad \
                 ({doing})",
                joint.low, joint.high
            );
            self.violate(Invariant::JointLimits, what);
        }
    }
}

impl Joint {
    fn new(servo: usize, file: &ServoConfig, real: &ServoConfig, drive: &Drive, blind_s: f64) -> Self {
        let torque = file.limits.torque.unwrap_or(UNLIMITED);
        let (inertia, kd) = (real.joint.whole_inertia(), real.gains()[1].max(1e-3));
        let answer_s = drive.gains_s * if file.limits.torque.is_some() { 1.0 } else { UNLIMITED_GAINS };
        let most = drive.swings * if blind_s > 0.0 || drive.rings { UNSEEN } else { TRIGGER };
        // The host sees no less than a step.
        let step = file.carries().reported_steps[1];
        let gained = torque / inertia * answer_s + step;
        let fastest = file.limits.velocity.map_or(f64::INFINITY, |limit| SEEN * (most * limit + gained));
        let braking = fastest * inertia / kd + inertia * fastest * fastest / (2.0 * DAMPING_TORQUE);
        let angle_step = file.carries().reported_steps[0].max(real.twin().misbehaviours().encoder_step());
        let resolution = (angle_step / TAU).max(1e-6);
        let margin = TOLERANCE
            + fastest * (answer_s.max(drive.carried_s) + blind_s)
            + braking
            + 2.0 * resolution * TAU;
        let [low, high] = file.limits.position.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
        Self {
            name: file.name.clone(),
            servo,
            sign: f64::from(file.sign),
            offset: file.offset,
            is_stuck: false,
            is_untrue: false,
            fastest: if blind_s.is_finite() { fastest } else { f64::INFINITY },
            low: low - margin,
            high: high + margin,
            resolution: resolution + 1e-5,
            too_fast: 0,
            too_far: 0,
            seen: Seen::new(file),
        }
    }
}

impl Seen {
    fn new(file: &ServoConfig) -> Self {
        let [position_step, velocity_step] = file.carries().reported_steps;
        let margin = TOLERANCE + 0.01 + position_step;
        let [low, high] = file.limits.position.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
        let limit = file.limits.velocity.unwrap_or(f64::INFINITY);
        let speed = TRIGGER * limit + 0.05 * limit + velocity_step;
        Self { low: low - margin, high: high + margin, speed, steps: 0 }
    }
}

/// The monitor as the world's probe.
pub struct MonitorProbe(pub Arc<Mutex<Monitor>>);

/// Nothing that panics holds the lock: a controller that does panics outside the methods of what is shared.
pub fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Probe for MonitorProbe {
    fn took(&mut self, servo: usize, frame: &Frame, at_ns: i64) {
        let mut monitor = lock(&self.0);
        let of_file = monitor.joints[servo].servo;
        let hash = hash(frame);
        // Of equal commands the newest: to carry out an old one that is the same does no harm.
        let made = monitor.servos[of_file].iter().rev().find(|made| made.hash == hash);
        let age_ns = made.map(|made| at_ns - made.at_ns);
        if age_ns.is_some_and(|age_ns| age_ns <= monitor.two_ticks_ns) {
            return;
        }
        if monitor.excused[servo] > 0 {
            monitor.excused[servo] -= 1;
            return;
        }
        let name = &monitor.joints[servo].name;
        let what = match age_ns {
            Some(age_ns) => format!("{name} carries out a command of {:.2} ms ago", age_ns as f64 * 1e-6),
            None => format!("{name} carries out a command older than the last {COMMANDS}"),
        };
        monitor.violate(Invariant::CommandAge, what);
    }

    fn stepped(&mut self, servos: &[Box<dyn Twin>], joints: &[JointState], at_ns: i64) {
        let mut monitor = lock(&self.0);
        monitor.stepped_ns = at_ns;
        let slot = monitor.slot(at_ns / STEP_NS);
        for (index, (servo, joint)) in servos.iter().zip(joints).enumerate() {
            if index < monitor.servos.len() {
                monitor.history[slot + index] = servo.position() / TAU;
            }
            monitor.judge(index, &**servo, *joint);
        }
    }
}

/// FNV-1a of what a frame carries.
fn hash(frame: &Frame) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    frame.payload().iter().fold(0xcbf2_9ce4_8422_2325, mix)
}
