//! What each fault may and must lead to.

use super::faulty_controller;
use super::monitor::{GAINS, SMOOTH_HZ};
use super::scenario::{Event, Fault, Queue, Scenario, Style, is_coarse, is_unwatched, takes_shares};
use khz_file::RobotConfig;
use khz_file::config::ServoConfig;
use khz_loop::supervisor::{Cause, Quantity, Recover, Trigger};
use std::f64::consts::PI;

/// A request to arm counts for so long.
pub const ARMS_MS: u16 = 400;

impl Fault {
    /// It is there before the first tick.
    pub const fn is_from_the_start(self) -> bool {
        self.must_not_arm() || matches!(self, Self::WrongSign(_) | Self::PacedTooFast(_) | Self::AsksLate(_))
    }

    /// The robot must never come under control.
    pub const fn must_not_arm(self) -> bool {
        match self {
            Self::FoundOutside(..)
            | Self::FoundBeyondFormat(_)
            | Self::DuplicateId(_)
            | Self::Overloaded
            | Self::LooseContact(..) => true,
            Self::AsksLate(ms) => ms > ARMS_MS,
            _ => false,
        }
    }

    /// Nothing else goes wrong in a run with it.
    pub const fn is_alone(self) -> bool {
        self.must_not_arm() || matches!(self, Self::PacedTooFast(_))
    }

    /// All is well again by itself.
    const fn is_momentary(self) -> bool {
        matches!(
            self,
            Self::Reboot(_)
                | Self::OtherTurn(..)
                // What is sent before, a stop, clears it.
                | Self::ServoFault(_)
                | Self::PowerCut(..)
                | Self::BusHolds(..)
                | Self::HostStopped(_)
                | Self::ControllerFreezes(_)
                | Self::Jumps(..)
        )
    }

    /// The servo whose command, or whose answer to it, is what goes wrong.
    const fn obeying(self) -> Option<usize> {
        match self {
            Self::Reboot(servo)
            | Self::OtherTurn(servo, _)
            | Self::ServoFault(servo)
            | Self::Asleep(servo)
            | Self::RefusesLimit(servo)
            | Self::WatchdogActs(servo)
            | Self::Jumps(servo, _) => Some(servo),
            _ => None,
        }
    }

    /// The robot must leave control because of this, whatever else happens.
    pub fn must_end(self, robot: &RobotConfig) -> bool {
        match self {
            Self::Silent(_)
            | Self::Reboot(_)
            | Self::OtherTurn(..)
            | Self::ServoFault(_)
            | Self::Lying(_)
            | Self::Asleep(_)
            | Self::RefusesPosition(_)
            | Self::RefusesLimit(_)
            | Self::WatchdogActs(_)
            | Self::PowerCut(..)
            | Self::BusDead(_)
            | Self::BusLate(..)
            | Self::ImuGone
            | Self::BrownOut(_)
            | Self::ControllerSlow(_)
            | Self::ControllerPanics
            | Self::ControllerFails
            | Self::ControllerNan
            | Self::OperatorStop => true,
            Self::BusHolds(_, ticks, _) => ticks > 20,
            Self::HostStopped(ms) | Self::ControllerFreezes(ms) => {
                f64::from(ms) > longest_stall_s(robot) * 1e3 + 10.0
            }
            _ => self.must_not_arm() || self.is_unbearable(),
        }
    }

    /// The grace of a start applies to what it leads to.
    pub const fn has_grace(self) -> bool {
        matches!(
            self,
            Self::ImuGone
                | Self::ImuFrozen
                | Self::ControllerSlow(_)
                | Self::BusDead(_)
                | Self::BusHolds(..)
                | Self::ControllerFreezes(_)
                | Self::HostStopped(_)
        )
    }

    /// The host does not see, or not at once, what the joints do, or cannot reach them.
    pub const fn blinds(self) -> bool {
        let is_odd = matches!(self, Self::Stuck(_) | Self::Lying(_) | Self::WrongSign(_) | Self::Jumps(..));
        self.disturbs_the_wire() || self.unhinges().is_some() || is_odd
    }

    /// Frames or ticks come late or not at all, so that an answer cannot be timed.
    pub const fn disturbs_the_wire(self) -> bool {
        matches!(
            self,
            Self::Silent(_)
                | Self::BusDead(_)
                | Self::BusNoisy(..)
                | Self::BusSlow(..)
                | Self::BusLate(..)
                | Self::BusHolds(..)
                | Self::BusFlooded(..)
                | Self::PowerCut(..)
                | Self::RefusesPosition(_)
                | Self::Overloaded
                | Self::LooseContact(..)
                | Self::DuplicateId(_)
                | Self::Echoes(_)
                | Self::Altered(..)
                | Self::HostKilled
                | Self::HostStopped(_)
                | Self::HostLate(_)
                | Self::ControllerFreezes(_)
                | Self::ControllerSlow(_)
        )
    }

    /// Whether the log may name `cause` when this happened to `robot`.
    pub fn explains(self, cause: Cause, robot: &RobotConfig) -> bool {
        let Some(trigger) = cause.trigger() else { return true };
        if matches!(cause, Cause::Recovered { .. }) {
            // From nothing else.
            let stands = matches!(self, Self::HostStopped(_) | Self::ControllerFreezes(_));
            return stands && robot.supervisor.recover == Recover::On;
        }
        match self {
            Self::BusFlooded(bus, _) => flood_explains(bus, cause, trigger, robot),
            Self::Silent(_)
            | Self::BusDead(_)
            | Self::BusNoisy(..)
            | Self::BusSlow(..)
            | Self::BusLate(..)
            | Self::BusHolds(..)
            | Self::PowerCut(..)
            | Self::DuplicateId(_)
            | Self::Overloaded
            | Self::LooseContact(..) => {
                is_silence(trigger) || trigger == Trigger::ServoFault || moves(trigger)
            }
            Self::HostStopped(_) | Self::HostLate(_) | Self::ControllerFreezes(_) => {
                is_silence(trigger) || matches!(trigger, Trigger::Imu | Trigger::ServoFault) || moves(trigger)
            }
            Self::WatchdogActs(servo) => {
                trigger == Trigger::ServoFault && cause.servo().map(usize::from) == Some(servo)
            }
            Self::Reboot(_) | Self::OtherTurn(..) | Self::Asleep(_) | Self::RefusesPosition(_) => {
                matches!(trigger, Trigger::ServoFault | Trigger::MissedReplies | Trigger::Stale)
                    || moves(trigger)
            }
            Self::RefusesLimit(_) => trigger == Trigger::ServoFault,
            Self::ServoFault(_) => matches!(cause, Cause::ServoFault { .. }),
            // Servos of a family without NaN report that they are somewhere else, some of them far beyond every turn.
            Self::Lying(_) => {
                moves(trigger)
                    || matches!(
                        cause,
                        Cause::ServoNotFinite { .. }
                            | Cause::ServoSaturated { .. }
                            | Cause::ServoFault { .. }
                            | Cause::PositionJumped { .. }
                    )
            }
            // A joint that does not feel itself move is driven wherever it goes.
            Self::Stuck(_) | Self::Pushed(..) | Self::WrongSign(_) | Self::ControllerStops(_) => {
                moves(trigger)
                    || matches!(
                        cause,
                        Cause::ServoFault { .. }
                            | Cause::ServoSaturated { .. }
                            | Cause::PositionJumped { .. }
                    )
            }
            Self::FoundOutside(..) | Self::FoundBeyondFormat(_) => {
                moves(trigger) || trigger == Trigger::ServoFault
            }
            fault => fault.explains_elsewhere(cause, trigger, robot),
        }
    }

    /// As [`Self::explains`], of what happens beside servos and buses, and of misbehaviour.
    fn explains_elsewhere(self, cause: Cause, trigger: Trigger, robot: &RobotConfig) -> bool {
        match self {
            Self::ImuGone => trigger == Trigger::Imu,
            Self::BrownOut(_) => trigger == Trigger::Voltage || matches!(cause, Cause::ServoFault { .. }),
            Self::HostKilled | Self::DiskFull | Self::PacedTooFast(_) => false,
            // A robot that waits to be armed is limp.
            Self::AsksLate(_) => moves(trigger),
            Self::ControllerSlow(_) => matches!(cause, Cause::ControllerSlow { .. } | Cause::Overruns { .. }),
            Self::ControllerPanics => matches!(cause, Cause::ControllerPanicked),
            Self::ControllerFails => matches!(cause, Cause::ControllerFailed),
            Self::ControllerNan => matches!(cause, Cause::CommandNotFinite { .. }),
            Self::ControllerWild | Self::ControllerHuge => trigger == Trigger::Command || moves(trigger),
            Self::OperatorStop => matches!(cause, Cause::OperatorStop),
            // A robot that stands on soft legs falls, and not every servo takes a share of its gains.
            Self::ParametersMoved(_) => {
                robot.body.is_some() && moves(trigger) || trigger == Trigger::Command && !takes_shares(robot)
            }
            fault => fault.misbehaviour_leads_to(trigger, robot),
        }
    }
}

/// In velocity and torque control a joint may reach its limit in this time and two periods, s: the guard's.
const BRAKING_S: f64 = 0.05;
/// A joint that goes this share of `position_tolerance` beyond a limit by its lag may go all of it by what else moves it.
const NEAR: f64 = 0.5;
/// Below this rate a restart fits between two ticks, Hz.
const RESTART_HZ: f64 = 100.0;
/// Below this rate a joint driven by torque alone may gain too much speed before that is measured, Hz.
const BRAKED_HZ: f64 = 500.0;
/// Below this rate a joint with limits takes no torque, Hz: the default of `torque_control_hz`.
const TORQUE_HZ: f64 = 200.0;

/// As [`Fault::explains`], of a bus with more frames than the host can read.
fn flood_explains(bus: usize, cause: Cause, trigger: Trigger, robot: &RobotConfig) -> bool {
    let is_there = |servo: u16| robot.servos[usize::from(servo)].bus == bus;
    // Before control each of several ticks must be complete, and to read a flood takes time that a full bus has not.
    let is_start = matches!(cause, Cause::NotSeen { .. });
    // In the end, too: then too few are read in time to know that every servo is off.
    let is_end = matches!(cause, Cause::ServoNotReportedOff { .. });
    is_end || is_silence(trigger) && (is_start || cause.servo().is_none_or(is_there))
}

/// What silence on a bus, or a host that does not listen, leads to.
const fn is_silence(trigger: Trigger) -> bool {
    matches!(
        trigger,
        Trigger::MissedReplies | Trigger::Stale | Trigger::BusDown | Trigger::Overruns | Trigger::ServoFault
    )
}

/// What joints and a body that are moved against the plan lead to.
pub const fn moves(trigger: Trigger) -> bool {
    matches!(trigger, Trigger::Tilt | Trigger::Position | Trigger::Velocity)
}

/// After so long without a command all servos damp, s.
pub fn longest_watchdog_s(robot: &RobotConfig) -> f64 {
    robot.servos.iter().map(|servo| servo.watchdog_s).fold(0.0, f64::max)
}

/// So long a host may stand still and go on, s: its servos damp after a watchdog without a command, or are switched on again, or have none.
fn longest_stall_s(robot: &RobotConfig) -> f64 {
    const RECOVERS_S: f64 = 0.3;
    let watchdog_s = longest_watchdog_s(robot);
    match robot.supervisor.recover {
        _ if is_unwatched(robot) => f64::INFINITY,
        Recover::On => watchdog_s.max(RECOVERS_S),
        _ => watchdog_s,
    }
}

/// Every joint settles without much overshoot.
fn is_damped(robot: &RobotConfig) -> bool {
    const RATIO: f64 = 0.5;
    let ratio = |servo: &ServoConfig| {
        let [kp, kd] = servo.gains();
        0.5 * kd / (kp * servo.joint.whole_inertia()).sqrt().max(f64::MIN_POSITIVE)
    };
    robot.servos.iter().all(|servo| ratio(servo) >= RATIO)
}

/// How far a joint goes beyond a limit under velocity control, rad: the guard slows it down in proportion to the way that is left, and
/// its gain has it follow that with a lag, inertia by gain. Without lag it ends at the limit.
fn overshoot(servo: &ServoConfig, rate_hz: f64) -> f64 {
    const STEPS: u32 = 1000;
    let limits = &servo.limits;
    let Some(fastest) = limits.velocity.filter(|_| limits.position.is_some()) else { return 0.0 };
    let (inertia, kd) = (servo.joint.whole_inertia(), servo.gains()[1].max(1e-3));
    let (lag_s, braking_s) = (inertia / kd, BRAKING_S + 2.0 / rate_hz);
    let most = limits.torque.unwrap_or(f64::INFINITY) / inertia;
    let dt_s = 10.0 * lag_s.max(braking_s) / f64::from(STEPS);
    let (mut past, mut speed, mut furthest) = (-fastest * braking_s, fastest, 0.0_f64);
    for _ in 0..STEPS {
        speed += ((-past / braking_s - speed) / lag_s.max(dt_s)).clamp(-most, most) * dt_s;
        past += speed * dt_s;
        furthest = furthest.max(past);
    }
    furthest
}

/// How far a joint swings beyond a limit at which its target, as fast as the joint may be, comes to rest, rad. The command has no
/// velocity, so the gains brake it all the way.
fn swing(servo: &ServoConfig) -> f64 {
    /// What oscillates fastest is looked at so often.
    const PER_S: f64 = 20.0;
    const MOST: u32 = 20_000;
    let limits = &servo.limits;
    let Some(([low, high], fastest)) = limits.position.zip(limits.velocity) else { return 0.0 };
    let (inertia, [kp, kd]) = (servo.joint.whole_inertia(), servo.gains());
    let most = limits.torque.unwrap_or(f64::INFINITY);
    let quick_s = (inertia / kp.max(1e-3)).sqrt().min(inertia / kd.max(1e-3)) / PER_S;
    let slow_s = (inertia / kp.max(1e-3)).sqrt().max(kd / kp.max(1e-3));
    let until_s = (high - low) / fastest + 5.0 * slow_s;
    let dt_s = quick_s.max(until_s / f64::from(MOST));
    let (mut at, mut speed, mut furthest) = (low, 0.0, 0.0_f64);
    for step in 0..(until_s / dt_s) as u32 {
        let target = (low + fastest * f64::from(step) * dt_s).min(high);
        speed += (kp * (target - at) - kd * speed).clamp(-most, most) / inertia * dt_s;
        at += speed * dt_s;
        furthest = furthest.max(at - high);
    }
    furthest
}

/// A speed within its limit may be read as one that is too fast.
fn reads_coarsely(robot: &RobotConfig) -> bool {
    let factor = robot.supervisor.velocity_factor;
    robot.servos.iter().any(|servo| is_coarse(servo, servo.query.velocity, factor))
}

/// Started anew, the servo takes its joint to be on another turn: it knows where it is within one.
fn is_turns_away(servo: &ServoConfig) -> bool {
    let limits = servo.limits.position.unwrap_or([servo.joint.start; 2]);
    limits.into_iter().any(|limit| (limit - servo.offset).abs() > PI)
}

impl Scenario {
    /// Under torque control a joint at its greatest speed is too fast before that is measured and answered.
    fn gains_much(&self, servo: &ServoConfig, robot: &RobotConfig) -> bool {
        let late = |fault| match fault {
            Fault::ControllerSlow(us) | Fault::HostLate(us) => f64::from(us) * 1e-6,
            // To read a flood takes time, a tick at the most.
            Fault::BusFlooded(..) => 1.0 / self.rate_hz,
            _ => 0.0,
        };
        let holds_s = GAINS / self.rate_hz + self.faults().map(late).sum::<f64>();
        let gained = faulty_controller::torque(&servo.limits) / servo.joint.whole_inertia() * holds_s;
        let factor = robot.supervisor.velocity_factor - 1.0;
        servo.limits.velocity.is_some_and(|limit| gained > factor * limit)
    }

    /// Because of this fault a robot under control must leave it. Before tick `runs` its servos are not switched on yet,
    /// until tick `grace` silence is forgiven.
    pub fn must_end_by(&self, event: &Event, runs: u64, grace: u64, robot: &RobotConfig) -> bool {
        let fault = event.fault;
        // A servo that is commanded to stop has nothing to obey, and a stop clears its faults.
        let is_stopped = |servo| self.faults().any(|fault| fault == Fault::ControllerStops(servo));
        let has_passed = event.tick < runs && fault.is_momentary();
        let is_forgiven = matches!(fault, Fault::BusHolds(..)) && event.tick < grace;
        // Nor has it a watchdog that runs out while the host stands still.
        let stands = matches!(fault, Fault::HostStopped(_) | Fault::ControllerFreezes(_));
        let none_obeys = stands && (0..robot.servos.len()).all(is_stopped);
        let obeys = !fault.obeying().is_some_and(is_stopped) && !none_obeys;
        let is_hidden = matches!(fault, Fault::Jumps(..)) && self.may_have_jumped();
        fault.must_end(robot) && !has_passed && !is_forgiven && obeys && !is_hidden
    }

    /// The log may name `cause` in this tick.
    pub fn explains(&self, cause: Cause, tick: u64, robot: &RobotConfig) -> bool {
        let begun = self.events.iter().filter(|event| event.tick <= tick);
        let by_fault = begun.into_iter().any(|event| event.fault.explains(cause, robot));
        // A target that moves in large steps is followed faster than it moves on the whole.
        let jerks = self.rate_hz < SMOOTH_HZ && self.style.follows_targets();
        let gains = self.style == Style::Torque
            && (self.rate_hz < BRAKED_HZ || robot.servos.iter().any(|servo| self.gains_much(servo, robot)));
        let is_fast = jerks || gains || self.rings(robot) || reads_coarsely(robot);
        // The supervisor takes no torque in a loop that is too slow to brake what it leads to.
        let refuses = self.style == Style::Torque && self.rate_hz < TORQUE_HZ;
        // Where nothing limits it, a joint may be faster than its servo can report, and turn further.
        let runs_away = match cause {
            Cause::ServoSaturated { servo, quantity, .. } => {
                let limits = &robot.servos[usize::from(servo)].limits;
                match quantity {
                    Quantity::Velocity => {
                        limits.velocity.is_none() && matches!(self.style, Style::Steps | Style::Torque)
                    }
                    Quantity::Position => {
                        limits.position.is_none() && matches!(self.style, Style::Velocity | Style::Torque)
                    }
                    _ => false,
                }
            }
            _ => false,
        };
        // A torque is taken back by where the joint is read to be: in steps of 0.06 rad that may be late.
        let int8 = khz_file::config::Format::Int8;
        let blurred =
            self.style == Style::Torque && robot.servos.iter().any(|servo| servo.query.position == int8);
        let overshoots = self.overshoots(robot);
        let trigger = cause.trigger();
        by_fault
            || runs_away
            || blurred && trigger == Some(Trigger::Position)
            || overshoots && trigger == Some(Trigger::Position)
            || self.falls(robot) && trigger.is_some_and(moves)
            || is_fast && trigger == Some(Trigger::Velocity)
            || refuses && trigger == Some(Trigger::Command)
    }

    /// The robot must never come under control.
    pub fn must_not_arm(&self) -> bool {
        self.faults().any(Fault::must_not_arm)
    }

    /// The one bus that is flooded, if nothing else keeps replies back.
    pub fn flooded(&self) -> Option<usize> {
        let mut silent = self.faults().filter(|fault| fault.disturbs_the_wire());
        match (silent.next(), silent.next()) {
            (Some(Fault::BusFlooded(bus, _)), None) => Some(bus),
            _ => None,
        }
    }

    /// This servo restarts, which takes some longer than a drill lasts.
    pub fn restarts(&self, servo: usize) -> bool {
        self.faults().any(|fault| matches!(fault, Fault::Reboot(of) | Fault::OtherTurn(of, _) if of == servo))
    }

    /// A servo whose encoder stands still is driven wherever it goes, and so is one that reports it wrongly or does not obey.
    pub fn is_stuck(&self, servo: usize) -> bool {
        self.faults().any(|fault| fault.unhinges() == Some(servo))
    }

    /// What the servo reports was never true.
    pub fn is_untrue(&self, servo: usize) -> bool {
        self.faults().any(|fault| fault.is_untrue() == Some(servo))
    }

    /// A joint of this robot may go beyond its limits by more than they tolerate, as its file has its gains, limits and rate.
    fn overshoots(&self, robot: &RobotConfig) -> bool {
        let most = NEAR * robot.supervisor.position_tolerance;
        match self.style {
            Style::Velocity if self.rate_hz < SMOOTH_HZ => true,
            Style::Velocity | Style::Torque => {
                robot.servos.iter().any(|servo| overshoot(servo, self.rate_hz) > most)
            }
            // A target that ends at its limit leaves the joint with its speed.
            Style::Steps => self.rings(robot) || robot.servos.iter().any(|servo| swing(servo) > most),
            Style::Own | Style::Hold => false,
        }
    }

    /// A robot on legs falls over under a controller that is not its own, and the ground moves its joints.
    pub fn falls(&self, robot: &RobotConfig) -> bool {
        robot.body.is_some() && self.style != Style::Own
    }

    /// Where the gains damp little, a joint overshoots the speed at which its target moves.
    pub fn rings(&self, robot: &RobotConfig) -> bool {
        self.style == Style::Steps && !is_damped(robot)
    }

    /// A servo that restarts between two ticks executes one command from its new turn, and one that receives no commands executes some more.
    pub fn jumps_turns(&self, robot: &RobotConfig) -> bool {
        let turns = |fault| match fault {
            Fault::OtherTurn(..) => true,
            Fault::Reboot(servo) => is_turns_away(&robot.servos[servo]),
            _ => false,
        };
        let is_disturbed = || self.faults().any(Fault::disturbs_the_wire);
        self.faults().any(turns) && (self.rate_hz < RESTART_HZ || is_disturbed()) || self.may_have_jumped()
    }

    /// Torques are commanded beside or instead of positions.
    pub fn commands_torque(&self) -> bool {
        let pushes = |fault| matches!(fault, Fault::ControllerWild | Fault::ControllerHuge);
        self.style == Style::Torque || self.faults().any(pushes)
    }

    /// A constant torque may be what a servo does last: nothing limits a joint whose servo can neither be observed nor reached.
    pub fn may_push_blindly(&self, robot: &RobotConfig) -> bool {
        self.blind_s(robot) > 0.0 && self.commands_torque()
    }

    /// How long a joint may be out of sight and out of reach: until the servo's own watchdog damps it, s.
    pub fn blind_s(&self, robot: &RobotConfig) -> f64 {
        const ANSWER_S: f64 = 0.03;
        if self.faults().any(Fault::blinds) { longest_watchdog_s(robot) + ANSWER_S } else { 0.0 }
    }

    /// How late ticks begin, or how much longer than usual they take, ns.
    pub fn late_ns(&self) -> i64 {
        let late_us = |fault| match fault {
            Fault::HostLate(us) | Fault::ControllerSlow(us) => i64::from(us),
            _ => 0,
        };
        self.faults().map(late_us).sum::<i64>() * 1_000
    }

    /// Frames that a queue behind the link may deliver late, to a servo that is sent so many in a cycle. It takes as many as there are
    /// servos, but a half-duplex bus hands over one at a time, to its servos in turn: there they may be of two ticks.
    pub fn late_by_kernel(&self, half_duplex: bool, frames: u32) -> u32 {
        let kernel = |fault: &Fault| {
            matches!(fault, Fault::BusHolds(_, _, Queue::Kernel) | Fault::PowerCut(_, Queue::Kernel))
        };
        self.faults().filter(kernel).count() as u32 * if half_duplex { 2 * frames } else { frames }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joint(inertia: f64, kd: f64) -> ServoConfig {
        let text = format!(
            "[bus.main]\nlink = \"emulated\"\n[[servo]]\nname = \"joint\"\nbus = \"main\"\nid = 1\njoint.inertia = {inertia}\n\
             device.kd = {kd}\nlimits = {{ position = [-1.0, 1.0], velocity = 4.0 }}"
        );
        RobotConfig::parse(&text, "test").unwrap().servos.remove(0)
    }

    #[test]
    fn a_joint_that_lags_goes_beyond_its_limit_and_one_that_does_not_ends_there() {
        assert!(overshoot(&joint(0.01, 1.0), 1000.0) < 1e-3);
        let lags = overshoot(&joint(0.05, 1.0), 1000.0);
        // The step response of a second order with a damping ratio of 0.5.
        assert!((0.05..0.065).contains(&lags), "{lags} rad");
        assert!(overshoot(&joint(0.2, 1.0), 1000.0) > 2.0 * lags);
    }

    #[test]
    fn a_fast_joint_swings_beyond_a_limit_at_which_its_target_rests_and_a_slow_one_hardly() {
        let swings = |velocity: f64| {
            let mut joint = joint(0.02, 0.7);
            joint.settings.limits.velocity = Some(velocity);
            swing(&joint)
        };
        assert!(swings(20.0) > 0.05 && swings(1.0) < 0.01, "{} and {} rad", swings(20.0), swings(1.0));
    }
}
