//! Servos and sensors that misbehave: when they are drawn, and what that may and must lead to.

use super::scenario::{Dice, Event, Fault, Scenario};
use khz_emu::injection::Refused;
use khz_emu::noise::Noise;
use khz_emu::{Injection, Misbehaviour};
use khz_file::config::RobotConfig;
use khz_loop::supervisor::Trigger;

/// One scenario in so many has one.
const RARELY: u64 = 5;
/// Below this rate a position that jumps is not distinguished from one that moves, Hz.
const JUMPS_HZ: f64 = 100.0;
/// What is less than this is no jump by itself, rad·10⁻³: it comes in so many ticks one after another.
const A_JUMP: u16 = 150;
const SLICES: u64 = 6;
/// They are drawn from a stream of their own, so that seeds without one stay as they are.
const SALT: u64 = 0x11e5;

/// In a scenario of this seed one of the faults may be one of these instead.
pub fn draw(seed: u64, events: &mut Vec<Event>, robot: &RobotConfig, rate_hz: f64) {
    let mut dice = Dice(Noise::new(seed ^ SALT));
    let Some(event) = events.first_mut().filter(|event| !event.fault.is_alone()) else { return };
    if dice.pick(RARELY) > 0 {
        return;
    }
    let Some(fault) = drawn(&mut dice, robot, rate_hz) else { return };
    event.fault = fault;
    event.tick = event.tick.max(1);
    // Such a fault hides what else is wrong with its servo, and what only its servo could report.
    let hides = fault.injection().map(|(servo, _)| servo);
    let servo_of = |fault: Fault| match fault {
        Fault::RefusesLimit(servo) => Some(servo),
        Fault::BrownOut(_) if robot.servos.len() == 1 => Some(0),
        fault => fault.injection().map(|(servo, _)| servo),
    };
    let hidden = |event: &Event| hides.is_some() && servo_of(event.fault) == hides;
    let mut first = true;
    // What it hides is not drawn; itself is the first.
    events.retain(|event| std::mem::take(&mut first) || !hidden(event));
}

fn drawn(dice: &mut Dice, robot: &RobotConfig, rate_hz: f64) -> Option<Fault> {
    let number = dice.pick(robot.servos.len() as u64) as usize;
    let (family, size) = (robot.servos[number].twin(), dice.pick(1000));
    let modes = family.misbehaviours().other_modes();
    let mode = modes.get(size as usize % modes.len().max(1));
    let suits = |fault: &Fault| {
        fault.injection().is_none_or(|(_, injection)| family.misbehaviours().suits(injection))
    };
    let drawn = match dice.pick(8) {
        0 => [Some(Fault::StaysOn(number)), None],
        1 => [
            mode.filter(|_| size >= 500).map(|mode| Fault::MostlyOtherMode(number, *mode)),
            mode.map(|mode| Fault::OtherMode(number, *mode)),
        ],
        2 => [Some(Fault::Frozen(number)), None],
        3 => [Some(Fault::Echoes(number)), None],
        4 => [Some(Fault::Altered(number, (size / 10) as u8)), None],
        5 => [Some(Fault::Unmeasured(number)), Some(Fault::WatchdogActs(number))],
        // Not noticed where nothing but the greatest velocity limits how far a joint may have moved.
        6 if rate_hz >= JUMPS_HZ => [
            size.is_multiple_of(3).then_some(Fault::Jumps(number, if size < 500 { -145 } else { 145 })),
            Some(Fault::Jumps(number, if size < 500 { -300 - size as i16 } else { 300 + size as i16 / 2 })),
        ],
        7 => [robot.imu.is_some().then_some(Fault::ImuFrozen), None],
        _ => [None, None],
    };
    drawn.into_iter().flatten().find(suits)
}

impl Fault {
    /// A fault of one servo, as the emulator knows it.
    pub(super) fn injection(self) -> Option<(usize, Injection)> {
        Some(match self {
            Self::Silent(servo) => (servo, Injection::Silent(true)),
            Self::Reboot(servo) => (servo, Injection::Reboot),
            Self::OtherTurn(servo, turns) => (servo, Injection::RebootTurned(turns)),
            Self::ServoFault(servo) => (servo, Injection::Overheated),
            Self::Lying(servo) => (servo, Injection::Lying(true)),
            Self::Stuck(servo) => (servo, Injection::Stuck(true)),
            Self::Asleep(servo) => (servo, Injection::Asleep(true)),
            Self::RefusesPosition(servo) => (servo, Injection::RefuseRead(Some(Refused::Position))),
            Self::WatchdogActs(servo) => (servo, Injection::RefuseWrite(Some(Refused::Position))),
            fault => return fault.misbehaviour(),
        })
    }

    const fn misbehaviour(self) -> Option<(usize, Injection)> {
        let (servo, misbehaviour) = match self {
            Self::StaysOn(servo) => (servo, Misbehaviour::StaysOn),
            Self::OtherMode(servo, mode) => (servo, Misbehaviour::Mode(mode)),
            Self::MostlyOtherMode(servo, mode) => (servo, Misbehaviour::Mostly(mode)),
            Self::Frozen(servo) => (servo, Misbehaviour::Frozen),
            Self::Echoes(servo) => (servo, Misbehaviour::Twice),
            Self::Altered(servo, percent) => (servo, Misbehaviour::Altered(percent)),
            Self::Unmeasured(servo) => (servo, Misbehaviour::Unmeasured),
            Self::Jumps(servo, milliradians) => return Some((servo, Injection::Jump(milliradians))),
            _ => return None,
        };
        Some((servo, Injection::Misbehave(Some(misbehaviour))))
    }

    /// In how many ticks one after another it happens.
    pub(super) const fn slices(self) -> u64 {
        match self {
            Self::Jumps(_, by) if by.unsigned_abs() < A_JUMP => SLICES,
            _ => 1,
        }
    }

    /// The servo goes where it cannot be observed or controlled: its joint is no evidence about the host.
    pub(super) const fn unhinges(self) -> Option<usize> {
        match self {
            Self::Stuck(servo) | Self::StaysOn(servo) | Self::Frozen(servo) | Self::Altered(servo, _) => {
                Some(servo)
            }
            _ => None,
        }
    }

    /// What the servo reports was never true.
    pub(super) const fn is_untrue(self) -> Option<usize> {
        match self {
            Self::Frozen(servo) | Self::Altered(servo, _) => Some(servo),
            _ => None,
        }
    }

    /// A misbehaviour with which the robot must not stay under control.
    pub(super) const fn is_unbearable(self) -> bool {
        matches!(
            self,
            Self::OtherMode(..)
                | Self::MostlyOtherMode(..)
                | Self::Echoes(_)
                | Self::Unmeasured(_)
                | Self::Jumps(..)
                | Self::ImuFrozen
        )
    }

    /// Whether a misbehaviour may lead to what this trigger watches.
    pub(super) fn misbehaviour_leads_to(self, trigger: Trigger, robot: &RobotConfig) -> bool {
        let moves = matches!(trigger, Trigger::Tilt | Trigger::Position | Trigger::Velocity);
        let silence = matches!(trigger, Trigger::MissedReplies | Trigger::Stale | Trigger::ServoFault);
        match self {
            Self::OtherMode(..) => trigger == Trigger::ServoFault,
            // In the end it does not report often enough that it is off.
            Self::MostlyOtherMode(..) => matches!(trigger, Trigger::ServoFault | Trigger::MissedReplies),
            // One that reports its state in heartbeats may not have reported by the end that it is on.
            Self::StaysOn(_) if trigger == Trigger::MissedReplies => true,
            Self::StaysOn(_) | Self::Jumps(..) => trigger == Trigger::ServoFault || moves,
            Self::Frozen(_) => silence || moves,
            Self::Echoes(_) => silence || robot.body.is_some() && moves,
            Self::Altered(..) => {
                silence
                    || moves
                    || matches!(trigger, Trigger::Voltage | Trigger::Temperature | Trigger::BusDown)
            }
            Self::Unmeasured(_) => matches!(trigger, Trigger::Voltage | Trigger::Temperature),
            Self::ImuFrozen => trigger == Trigger::Imu,
            _ => false,
        }
    }
}

impl Scenario {
    /// A position that jumped, and that the host may not have noticed: replies came late or not at all just then.
    pub(super) fn may_have_jumped(&self) -> bool {
        let jumps = self.faults().any(|fault| matches!(fault, Fault::Jumps(..)));
        jumps && self.faults().any(|fault| !matches!(fault, Fault::Jumps(..)) && fault.disturbs_the_wire())
    }
}
