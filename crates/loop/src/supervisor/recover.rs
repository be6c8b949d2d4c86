//! Goes on after a stall that was longer than the watchdogs of servos: they are switched on again where they are.
//!
//! A loop that was held up comes back to servos that have switched themselves off, and nothing is broken. One that damps instead is left
//! to that: what clears its timeout leaves it limp if anything comes between. What follows is the
//! start of a run once more, within the run and with narrower limits: every servo is damped and read; those whose watchdog has expired
//! are stopped, which clears that; they are switched on by the servo's own dialogue, which reads the run's mark first; the first target
//! is the measured position with the preload that the joint had before. Meanwhile the controller is not asked. What is not as it should
//! be, or takes too long, brings the robot down as without it.

use super::joint::{Joint, Timeout};
use super::settings::LONGEST_RECOVERED_NS;
use super::watch::is_reported;
use super::{Cause, Observation};
use crate::state::RobotState;
use arrayvec::ArrayVec;
use khz_servo::{Doing, PositionCommand, ServoCommand, ServoState};
use std::fmt;

/// A joint that has moved farther since it was last seen under control, rad, …
const MOVED: f64 = 0.05;
/// … or moves faster while it is not held, rad/s, is not switched on again.
const FASTEST: f64 = 1.0;
/// So many recoveries are allowed …
const MOST: usize = 3;
/// … in this time, ns.
const AGAIN_NS: i64 = 60_000_000_000;
/// A step that takes longer has failed, ns.
const STEP_NS: i64 = 50_000_000;
/// Servos report a stall at most this many periods after it: its cycle may be lost, and a register be read first.
const LOOKS: i64 = 5;
/// From which share of the position gain on, …
const WEAKEST: f64 = 0.3;
/// … and in which time the gains come back, ns.
const FADE_NS: i64 = 100_000_000;

/// What is being done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    None,
    /// All are damped, until every one has replied.
    Reading,
    /// Those that have timed out are stopped, until they report that they are off.
    Stopping,
    /// All are commanded to hold, until every one does.
    Enabling,
    /// The controller commands, with gains that come back.
    Fading,
}

/// The loop stood still.
#[derive(Clone, Copy, Debug, Default)]
struct Stall {
    /// When it was noticed.
    since_ns: i64,
    for_ns: i64,
}

/// A joint when it was last seen under control.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Where it was, rad; NaN: it was not under position control.
    position: f64,
    /// How far its target was from it, rad, and the torque that went with it, N·m.
    preload: f64,
    torque: f64,
    /// Where it is held when it is switched on again, rad.
    target: f64,
    /// It is to be switched on again.
    is_off: bool,
}

impl Held {
    const NOT: Self = Self { position: f64::NAN, preload: 0.0, torque: 0.0, target: f64::NAN, is_off: false };
}

/// When it recovered. `Debug` shows how often.
#[derive(Clone, Default)]
struct Past(ArrayVec<i64, MOST>);

impl fmt::Debug for Past {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.len().fmt(f)
    }
}

/// How far a recovery is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// The controller is not asked yet.
    GoesOn,
    /// The controller goes on.
    Done(Cause),
    /// This brought it about, and was not recovered from.
    Failed(Cause),
}

/// What it takes to go on after a stall.
#[derive(Clone, Debug)]
pub struct Recovery {
    step: Step,
    /// When the step began.
    since_ns: i64,
    /// The last that some watchdog cannot have outlasted.
    stall: Option<Stall>,
    /// All of them since every servo was last seen under control; for ever if that is too long to recover from.
    lost: Stall,
    /// What would have brought the robot down; meaningless while no recovery is under way.
    cause: Cause,
    held: Vec<Held>,
    past: Past,
}

impl Recovery {
    /// Of a robot of these joints; `None` if one of them has a servo that cannot be switched on again.
    pub fn of(joints: &[Joint]) -> Option<Self> {
        joints.iter().all(|joint| joint.timeout.is_some()).then(|| Self {
            step: Step::None,
            since_ns: 0,
            stall: None,
            lost: Stall::default(),
            cause: Cause::Still,
            held: vec![Held::NOT; joints.len()],
            past: Past::default(),
        })
    }

    /// The controller is not asked.
    pub const fn is_running(&self) -> bool {
        matches!(self.step, Step::Reading | Step::Stopping | Step::Enabling)
    }

    /// A servo that is stopped may be commanded to clear what its watchdog has left.
    pub const fn is_clearing(&self) -> bool {
        matches!(self.step, Step::Stopping)
    }

    /// The servos that are.
    pub fn stopped(&self) -> impl Iterator<Item = usize> + '_ {
        self.held.iter().enumerate().filter(|(_, held)| held.is_off).map(|(at, _)| at)
    }

    /// Control is over.
    pub fn end(&mut self) {
        (self.step, self.stall, self.cause) = (Step::None, None, Cause::Still);
        self.lost = Stall::default();
        self.held.fill(Held::NOT);
    }

    /// What an end is laid to as long as the joints are not held again.
    pub fn unfinished(&self) -> Option<Cause> {
        self.is_running().then_some(self.cause)
    }

    /// Adds to the time without the loop, and remembers that it was longer than a watchdog, until all that is over.
    pub fn look(&mut self, joints: &[Joint], state: &RobotState, seen: &Observation) {
        let since_ns = self.lost.since_ns;
        if !self.is_running() {
            self.stall.take_if(|stall| state.now_ns - stall.since_ns > LOOKS * state.period_ns);
            let is_held = |servo: &ServoState| servo.doing == Doing::Following && servo.at_ns > since_ns;
            if self.stall.is_none() && state.servos.iter().all(is_held) {
                self.lost = Stall::default();
            }
        }
        if seen.held_up_ns <= state.period_ns {
            return;
        }
        let sum_ns = self.lost.for_ns.saturating_add(seen.held_up_ns);
        let for_ns = if sum_ns <= LONGEST_RECOVERED_NS { sum_ns } else { i64::MAX };
        self.lost = Stall { since_ns: state.now_ns, for_ns };
        let expires = |joint: &Joint| joint.timeout.is_some_and(|it| explains(seen.held_up_ns, it, state));
        if is_reported(seen.held_up_ns, state.period_ns) && joints.iter().any(expires) {
            self.stall = Some(Stall { since_ns: state.now_ns, for_ns: seen.held_up_ns });
        }
    }

    /// The servo's watchdog has expired because of the stall, and its joint is to be held again.
    pub fn excuses(&self, at: usize, joint: &Joint, state: &RobotState) -> bool {
        let servo = &state.servos[at];
        let is_early = match self.step {
            Step::None | Step::Reading => true,
            Step::Stopping => self.held[at].is_off,
            Step::Enabling | Step::Fading => false,
        };
        let explained = |it: Timeout| {
            let reported = (servo.doing, servo.fault.code) == (it.doing, it.fault);
            reported && self.stall.is_some_and(|stall| explains(stall.for_ns, it, state))
        };
        is_early && joint.timeout.is_some_and(explained)
    }

    /// Begins, if it may: `cause` brings the robot down otherwise.
    pub fn begin(&mut self, cause: Cause, now_ns: i64) -> bool {
        self.past.0.retain(|at_ns| now_ns - *at_ns <= AGAIN_NS);
        let begins = self.stall.is_some()
            && self.lost.for_ns <= LONGEST_RECOVERED_NS
            && self.step == Step::None
            && !self.past.0.is_full()
            && self.held.iter().all(|held| held.position.is_finite());
        if begins {
            self.past.0.push(now_ns);
            self.cause = cause;
            self.enter(Step::Reading, now_ns);
        }
        begins
    }

    fn enter(&mut self, step: Step, now_ns: i64) {
        (self.step, self.since_ns) = (step, now_ns);
    }

    /// Takes a tick in, in which nothing else is wrong.
    pub fn advance(&mut self, joints: &[Joint], state: &RobotState, seen: &Observation) -> Progress {
        let stands_again = is_reported(seen.held_up_ns, state.period_ns);
        if stands_again || self.lost.for_ns > LONGEST_RECOVERED_NS {
            return Progress::Failed(self.cause);
        }
        let all = || self.held.iter().zip(joints).zip(&state.servos);
        if !all().all(|((held, joint), servo)| is_where_it_was(held, joint, servo)) {
            return Progress::Failed(self.cause);
        }
        let (taken_ns, most_ns) = (state.now_ns - self.since_ns, STEP_NS.max(2 * state.period_ns));
        if taken_ns > most_ns {
            return Progress::Failed(self.cause);
        }
        // Replies to what was sent in this step.
        let news = |servo: &ServoState| servo.fresh && servo.at_ns > self.since_ns;
        let done = all().all(|((held, _), servo)| {
            let is_there = match self.step {
                Step::Stopping if held.is_off => servo.doing == Doing::Off && servo.fault.code == 0,
                Step::Enabling => servo.doing == Doing::Following,
                _ => true,
            };
            is_there && news(servo)
        });
        if !done {
            return if taken_ns >= most_ns { Progress::Failed(self.cause) } else { Progress::GoesOn };
        }
        let next = match self.step {
            Step::Reading => {
                for (at, joint) in joints.iter().enumerate() {
                    self.held[at].is_off = self.excuses(at, joint, state);
                }
                Step::Stopping
            }
            Step::Stopping => {
                for ((held, joint), servo) in self.held.iter_mut().zip(joints).zip(&state.servos) {
                    let [low, high] = joint.target;
                    held.target = (servo.position + held.preload).max(low).min(high);
                }
                Step::Enabling
            }
            _ => Step::Fading,
        };
        self.enter(next, state.now_ns);
        if next != Step::Fading {
            return Progress::GoesOn;
        }
        self.cause = Cause::Still;
        Progress::Done(self.recovered(state))
    }

    /// From how long without the loop it recovered, and which joint has moved most.
    fn recovered(&self, state: &RobotState) -> Cause {
        let moved = self.held.iter().zip(&state.servos).map(|(held, servo)| servo.position - held.position);
        let most = (0_u16..).zip(moved).max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
        let (servo, moved) = most.unwrap_or((0, 0.0));
        Cause::Recovered { servo, moved, held_up_ns: self.lost.for_ns }
    }

    /// The commands of this tick in place of the controller's, or its own, weaker.
    pub fn command(&mut self, commands: &mut [ServoCommand], state: &RobotState) {
        if self.step == Step::None {
            return;
        }
        let faded = (state.now_ns - self.since_ns) as f64 / FADE_NS as f64;
        let share = WEAKEST + (1.0 - WEAKEST) * faded.clamp(0.0, 1.0);
        for (at, command) in commands.iter_mut().enumerate() {
            let (held, servo) = (&self.held[at], &state.servos[at]);
            *command = match self.step {
                Step::Stopping if held.is_off => ServoCommand::Stop,
                Step::Enabling => ServoCommand::Position(weaker(holding(held, servo), WEAKEST)),
                Step::Fading => match *command {
                    ServoCommand::Position(asked) => ServoCommand::Position(weaker(asked, share)),
                    other => other,
                },
                _ => ServoCommand::Damp,
            };
        }
        if self.step == Step::Fading && faded >= 1.0 {
            self.step = Step::None;
        }
    }

    /// Remembers the joints as they are held. Right after a stall they are known as before it, but for those that the controller has let
    /// go since.
    pub fn remember(&mut self, joints: &[Joint], commands: &[ServoCommand], state: &RobotState) {
        if self.step != Step::None {
            return;
        }
        let is_stalled = self.stall.is_some();
        let all = self.held.iter_mut().zip(commands).zip(joints).zip(&state.servos);
        for (((held, command), joint), servo) in all {
            *held = match command {
                // A servo that has not replied for as long as the stall is commanded to damp, whatever the controller commands.
                ServoCommand::Damp if is_stalled => *held,
                ServoCommand::Position(command) if command.kp_scale > 0.0 && is_stalled => *held,
                ServoCommand::Position(command)
                    if command.kp_scale > 0.0 && servo.doing == Doing::Following =>
                {
                    let most = joint.timeout.map_or(0.0, |it| it.reach);
                    let preload = (command.position - servo.position).max(-most).min(most);
                    Held { position: servo.position, preload, torque: command.torque, ..Held::NOT }
                }
                _ => Held::NOT,
            };
        }
    }
}

/// A stall of this length is as long as the servo waits for a command. The last one came up to a period before, and the next one
/// travels.
fn explains(held_up_ns: i64, timeout: Timeout, state: &RobotState) -> bool {
    held_up_ns + 2 * state.period_ns >= timeout.after_ns
}

/// Nor has it moved faster than it may while nothing holds it.
fn is_where_it_was(held: &Held, joint: &Joint, servo: &ServoState) -> bool {
    let moved = (servo.position - held.position).abs();
    let is_slow = servo.doing == Doing::Following || servo.velocity.abs() <= FASTEST;
    moved <= MOVED && is_slow && joint.bounds.exceeded(servo.position, 0.0).is_none()
}

/// Holds the joint where it is, as it was held. The first command that it follows takes its velocity over.
fn holding(held: &Held, servo: &ServoState) -> PositionCommand {
    let velocity = if servo.doing == Doing::Following { 0.0 } else { servo.velocity };
    PositionCommand { velocity, torque: held.torque, ..PositionCommand::hold(held.target) }
}

fn weaker(command: PositionCommand, share: f64) -> PositionCommand {
    PositionCommand { kp_scale: share * command.kp_scale, ..command }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_NS: i64 = 50_000_000;

    fn after(held_up_ns: i64) -> Recovery {
        let timeout = Timeout { after_ns: 2 * PERIOD_NS, doing: Doing::Off, fault: 0, reach: 1.0 };
        let joints = [Joint { timeout: Some(timeout), ..Joint::UNLIMITED }];
        let mut recovery = Recovery::of(&joints).unwrap();
        let state = RobotState::unknown(1, false, PERIOD_NS);
        recovery.look(&joints, &state, &Observation { held_up_ns, ..Observation::default() });
        recovery
    }

    /// The exploration found it: a joint that the controller had let go between two stalls was to be held again where it was before.
    #[test]
    fn a_joint_that_was_let_go_since_a_stall_is_not_held_again() {
        let joints = [Joint { timeout: None, ..Joint::UNLIMITED }];
        let begins = |between: ServoCommand| {
            let mut recovery = after(3 * PERIOD_NS);
            recovery.held[0] = Held { position: 0.0, ..Held::NOT };
            recovery.remember(&joints, &[between], &RobotState::unknown(1, false, PERIOD_NS));
            recovery.begin(Cause::Still, 0)
        };
        assert!(begins(ServoCommand::Position(PositionCommand::hold(0.0))) && begins(ServoCommand::Damp));
        let weightless = PositionCommand { kp_scale: 0.0, ..PositionCommand::hold(0.0) };
        assert!(!begins(ServoCommand::Stop) && !begins(ServoCommand::Position(weightless)));
    }

    /// In a slow loop a watchdog is as long as two periods: every tick that was a little late explained that its servo had timed out.
    #[test]
    fn a_tick_that_is_a_little_late_is_no_stall_however_short_a_watchdog_is() {
        let is_stall =
            [1_000, PERIOD_NS, 3 * PERIOD_NS - 1, 3 * PERIOD_NS].map(|ns| after(ns).stall.is_some());
        assert_eq!(is_stall, [false, false, false, true]);
    }
}
