//! What a command may ask of a joint that is where it is and as fast as it is.
//!
//! Two ways of control, two ways to keep the limits. Under position control the target is kept: within the limits, and
//! moving no faster than the joint may, from where the joint was found. In velocity and torque control there is no target,
//! so the motion is kept: the nearer the joint is to a limit, the slower it may go towards it. With next to no position gain
//! both are kept.

use super::guard::Last;
use super::joint::{Bounds, Joint};
use super::{Shortcut, SupervisorSettings};
use crate::state::RobotState;
use khz_servo::Doing;
use khz_servo::PositionCommand;
use khz_servo::ServoState;

/// At a high rate; see [`Rules::braking_s`]. The servo's velocity gain brakes a joint; this is longer than its time constant
/// (inertia by gain: 10 to 45 ms), so that the joint follows.
const BRAKING_S: f64 = 0.05;

/// How fast a joint outside its limits is brought back in velocity and torque control, and under position control if it has
/// no greatest speed, rad/s.
const RETURN: f64 = 1.0;

/// With less than this share of its position gain a joint hardly follows its target: its motion is kept too.
const WEAK: f64 = 0.2;

/// Torque fades over this share of a joint's greatest speed, …
const FADE: f64 = 0.1;

/// … which counts as no more than this, rad/s.
const FASTEST_FADE: f64 = 5.0;

/// A target may be this far beyond a limit by rounding, rad.
const ROUNDING: f64 = 1e-4;

/// Torque or gain that is so many times as much as while the joint stayed behind its target starts the target anew where the
/// joint is.
const STRONGER: f64 = 2.0;

/// How strongly a servo follows its target.
#[derive(Clone, Copy, Debug)]
pub struct Grip {
    /// Share of its position gain.
    kp_scale: f64,
    /// Greatest torque, N·m; infinite if there is none.
    torque: f64,
}

impl Grip {
    /// Beside which none is stronger.
    pub const STRONGEST: Self = Self { kp_scale: f64::INFINITY, torque: f64::INFINITY };

    fn of(command: &PositionCommand, kp_scale: f64, joint: &Joint) -> Self {
        Self { kp_scale, torque: joint.bounds.torque_within(command.max_torque) }
    }

    /// Much weaker than another: the target may have gone where the joint could not follow.
    fn is_weak_beside(self, other: Self) -> bool {
        other.kp_scale > STRONGER * self.kp_scale || other.torque > STRONGER * self.torque
    }

    fn least(self, other: Self) -> Self {
        Self { kp_scale: self.kp_scale.min(other.kp_scale), torque: self.torque.min(other.torque) }
    }
}

/// How a servo is to follow its target: torque, gains and greatest torque, bit by bit.
#[derive(Clone, Copy)]
pub struct Manner([u64; 4]);

impl Manner {
    #[inline]
    const fn of(command: &PositionCommand) -> Self {
        let PositionCommand { torque, kp_scale, kd_scale, max_torque, .. } = *command;
        Self([torque.to_bits(), kp_scale.to_bits(), kd_scale.to_bits(), max_torque.to_bits()])
    }

    /// Not `==`, for which the numbers of a command would be put into memory first.
    #[inline]
    const fn is(self, Self(other): Self) -> bool {
        let Self(own) = self;
        (own[0] ^ other[0]) | (own[1] ^ other[1]) | (own[2] ^ other[2]) | (own[3] ^ other[3]) == 0
    }
}

/// What holds for all joints in one tick.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How far beyond its limits a joint may be found, rad.
    tolerance: f64,
    /// How long a target may move at its greatest speed, s.
    period_s: f64,
    /// In velocity and torque control a joint may be so fast that it would reach its limit in this time, s.
    braking_s: f64,
    /// How long a command may hold before the next has its effect, s.
    holds_s: f64,
    /// The loop is too slow to brake a joint that a torque drives, also against its position gain.
    is_slow: bool,
    /// How long it may have moved since the controller's last turn, s: longer after skipped periods.
    elapsed_s: f64,
}

impl Rules {
    pub fn of(settings: &SupervisorSettings, state: &RobotState) -> Self {
        Self {
            tolerance: settings.position_tolerance,
            period_s: state.dt(),
            braking_s: BRAKING_S + 2e-9 * state.period_ns as f64,
            // What is measured is a period old when the command arrives, which holds for another.
            holds_s: 2e-9 * state.period_ns as f64,
            is_slow: (state.period_ns as f64) * settings.torque_control_hz > 1e9,
            elapsed_s: state.elapsed_ns.max(state.period_ns) as f64 * 1e-9,
        }
    }
}

/// A command within the limits.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    pub command: PositionCommand,
    /// For the next tick.
    pub target: Last,
    /// It is not what was asked.
    pub changed: bool,
    /// What was asked is beyond the limits themselves.
    pub beyond: bool,
    /// A torque was asked for that could not be braked in time.
    pub unbraked: bool,
}

/// Which commands a joint can follow as they are.
#[derive(Clone, Copy, Debug)]
pub struct Usual {
    /// Positions that are within its limits, also once they have been rounded, and can be sent, rad.
    position: [f64; 2],
    /// The greatest velocity that is, rad/s.
    velocity: f64,
    /// Where it may be found, rad; no infinity is among them.
    found: [f64; 2],
}

impl Usual {
    /// It may be found so far beyond its limits, rad.
    pub fn of(joint: &Joint, tolerance: f64) -> Self {
        let Joint { bounds, target, carries, .. } = joint;
        // A step less than the sum, which rounds differently from the difference that limits what can be sent.
        let sent = match carries.position {
            0.0 => [f64::INFINITY, f64::NEG_INFINITY],
            most => [(carries.zero - most).next_up(), (carries.zero + most).next_down()],
        };
        let [low, high] = [0, 1].map(|end| [bounds.position[end], target[end], sent[end]]);
        Self {
            position: [
                low.into_iter().fold(f64::NEG_INFINITY, f64::max),
                high.into_iter().fold(f64::INFINITY, f64::min),
            ],
            // An infinite one is none, also where there is no limit and nothing is sent.
            velocity: bounds.velocity.min(carries.velocity).min(f64::MAX),
            found: bounds.found(tolerance),
        }
    }
}

/// Whether a command [stays], of a joint that was near its last target and is near this, in the manner it was asked to follow that: so do
/// nearly all, and most of what [`stays`] looks at is the same as in the tick before. If false, [`stays`] has to check.
#[inline]
pub fn goes_on(
    joint: &Joint,
    usual: &Usual,
    asked: &PositionCommand,
    servo: &ServoState,
    last: &mut Last,
    rules: &Rules,
) -> bool {
    let (PositionCommand { position, velocity, .. }, measured) = (*asked, servo.position);
    let (Some(sent), Shortcut(Some(manner))) = (last.sent, last.steady) else { return false };
    // Comparisons with NaN are false. Where the last target was sent as it was asked, one step is as long as the other.
    let goes_on = manner.is(Manner::of(asked))
        && servo.doing == Doing::Following
        && position >= usual.position[0]
        && position <= usual.position[1]
        && measured >= usual.found[0]
        && measured <= usual.found[1]
        && velocity.abs() <= usual.velocity
        && (position - sent).abs() <= joint.bounds.velocity * rules.period_s
        && (position - measured).abs() <= rules.tolerance
        && leads_on(joint, asked, measured, rules);
    if goes_on {
        (last.sent, last.asked, last.velocity) = (Some(position), Some(position), servo.velocity);
    }
    goes_on
}

/// Whether a command stays as it was asked, as of a robot that moves within its limits nearly all do; then `last` has its target. Computes
/// what [`limit`] would, and that the command is sound and can be sent, in a third of the time; if false, those have to check.
// Within its caller it would take the registers of the shorter way.
#[inline(never)]
pub fn stays(
    joint: &Joint,
    usual: &Usual,
    asked: &PositionCommand,
    servo: &ServoState,
    last: &mut Last,
    rules: &Rules,
) -> bool {
    let PositionCommand { position, velocity, torque, kp_scale, kd_scale, max_torque } = *asked;
    let (Joint { bounds, carries, .. }, measured) = (joint, servo.position);
    let (Some(sent), Some(asked_before)) = (last.sent, last.asked) else { return false };
    let share = 0.0..=1.0;
    // Comparisons with NaN are false.
    let is_whole = position >= usual.position[0]
        && position <= usual.position[1]
        && velocity.abs() <= usual.velocity
        && torque == 0.0
        && share.contains(&kp_scale)
        && share.contains(&kd_scale)
        && (max_torque.is_nan() || max_torque >= 0.0);
    let travels = (carries.kp_scale || kp_scale == 1.0)
        && (carries.kd_scale || kd_scale == 1.0)
        && (carries.max_torque != 0.0 || max_torque.is_nan());
    let is_driven = kp_scale >= WEAK && servo.doing == Doing::Following;
    let is_there = measured >= usual.found[0] && measured <= usual.found[1];
    if !(is_whole && travels && is_driven && is_there) {
        return false;
    }
    let grip = Grip::of(asked, kp_scale, joint);
    let step = bounds.velocity * rules.elapsed_s;
    if last.grip.is_weak_beside(grip)
        || (position - sent).abs() > target_speed(joint, sent) * rules.period_s
        || (position - asked_before).abs() > step + 1e-3 * step
        || !leads_on(joint, asked, measured, rules)
    {
        return false;
    }
    let is_near = (position - measured).abs() <= rules.tolerance;
    let grip = if is_near { grip } else { grip.least(last.grip) };
    let steady = Shortcut(is_near.then_some(Manner::of(asked)));
    *last = Last { sent: Some(position), asked: Some(position), velocity: servo.velocity, grip, steady };
    true
}

/// The velocity of a command whose position can be sent is within its [leeway].
#[inline]
fn leads_on(joint: &Joint, asked: &PositionCommand, measured: f64, rules: &Rules) -> bool {
    let PositionCommand { position, velocity, .. } = *asked;
    let ([low, high], [least, most]) = (joint.bounds.position, joint.target);
    let (left, is_out) = if velocity > 0.0 {
        (most - position, measured >= high)
    } else {
        (position - least, measured <= low)
    };
    velocity == 0.0 || !is_out && velocity.abs() <= left / rules.holds_s
}

/// Keeps a command within the limits; `None` if that needs the position of the joint and it is unknown.
// Within its caller it would take the registers of the short way.
#[inline(never)]
pub fn limit(
    joint: &Joint,
    asked: &PositionCommand,
    servo: &ServoState,
    last: Last,
    rules: &Rules,
) -> Option<Allowed> {
    let bounds = &joint.bounds;
    let cut = PositionCommand {
        velocity: asked.velocity.clamp(-bounds.velocity, bounds.velocity),
        torque: asked.torque.clamp(-bounds.torque, bounds.torque),
        kp_scale: asked.kp_scale.clamp(0.0, 1.0),
        kd_scale: asked.kd_scale.clamp(0.0, 1.0),
        ..*asked
    };
    let (kp_scale, position) = (if joint.carries.kp_scale { cut.kp_scale } else { 1.0 }, asked.position);
    let held = kp_scale > 0.0 && !position.is_nan();
    let weak = !held || kp_scale < WEAK;
    let (command, target) = if held {
        let grip = Grip::of(&cut, kp_scale, joint);
        let could_not_follow = last.grip.is_weak_beside(grip);
        let from = start(servo, last, could_not_follow, rules, joint)?;
        let to = follow(joint, position, from, rules.period_s);
        let is_near = (to - servo.position).abs() <= rules.tolerance;
        let grip = if is_near || could_not_follow { grip } else { grip.least(last.grip) };
        let (sent, asked, velocity) = (Some(to), Some(position), servo.velocity);
        let target = Last { sent, asked, velocity, grip, steady: Shortcut(None) };
        (feed_forward(joint, PositionCommand { position: to, ..cut }, servo, last, rules), target)
    } else {
        // A target that no gain follows, or none; but it must be one that can be sent.
        let command = PositionCommand { position: within(position, joint.target), ..cut };
        (command, Last { velocity: servo.velocity, ..Last::default() })
    };
    let command = if weak { approach(joint, command, servo, last, rules)? } else { command };
    let limited_torque = command.torque != 0.0 && bounds.limit_motion();
    let unbraked = limited_torque && (rules.is_slow || weak && !joint.carries.velocity_asked);
    let is_cut = cut.velocity != asked.velocity && !asked.velocity.is_nan()
        || cut.torque != asked.torque
        || cut.kp_scale != asked.kp_scale
        || cut.kd_scale != asked.kd_scale;
    let beyond = is_cut
        || bounds.exceeded(position, 0.0).is_some()
        || held && steps_too_far(joint, position, last, servo, rules);
    // Rounding for the wire is no change.
    let rounded = PositionCommand { position: within(position, joint.target), ..*asked };
    let changed = beyond || !same(&command, &rounded);
    Some(Allowed { command, target, changed, beyond, unbraked })
}

/// Where the target moves from: its last place, but the joint's own while the servo does not follow it yet, or could not until
/// now. Of a joint that was carried out of its limits the target stays near, so that it does not snap back when it is let go.
fn start(
    servo: &ServoState,
    last: Last,
    could_not_follow: bool,
    rules: &Rules,
    joint: &Joint,
) -> Option<f64> {
    let measured = servo.position;
    if !measured.is_finite() {
        return last.sent;
    }
    match last.sent {
        Some(sent) if servo.doing == Doing::Following && !could_not_follow => {
            let carried = joint.bounds.exceeded(measured, rules.tolerance).is_some();
            let near = [measured - rules.tolerance, measured + rules.tolerance];
            Some(if carried { within(sent, near) } else { sent })
        }
        _ => Some(measured),
    }
}

/// The next target on the way from `from`, rad.
fn follow(joint: &Joint, asked: f64, from: f64, period_s: f64) -> f64 {
    let goal = within(asked, joint.target);
    let step = target_speed(joint, from) * period_s;
    if (goal - from).abs() <= step { goal } else { from + step.copysign(goal - from) }
}

/// How fast a target moves from here, rad/s.
#[inline]
fn target_speed(joint: &Joint, from: f64) -> f64 {
    match joint.bounds.velocity {
        f64::INFINITY if joint.bounds.exceeded(from, ROUNDING).is_some() => RETURN,
        velocity => velocity,
    }
}

/// The controller's target moved further than a joint at its greatest speed could; the first counts from the measured
/// position. One that goes to where the joint was led in its place is none.
fn steps_too_far(joint: &Joint, asked: f64, last: Last, servo: &ServoState, rules: &Rules) -> bool {
    let led_to = last.sent.map_or(f64::INFINITY, |sent| within(sent, joint.target));
    let from = last.asked.unwrap_or(servo.position);
    let from = if (asked - led_to).abs() < (asked - from).abs() { led_to } else { from };
    let step = joint.bounds.velocity * rules.elapsed_s;
    // A little more, for a controller that moves just as fast; and a joint that sags while its servo starts.
    let slack = if last.asked.is_none() { rules.tolerance } else { 1e-3 * step };
    (asked - from).abs() > step + slack
}

/// Velocity and torque that go with a target: none leads out of the limits, and none drives on a joint that is or soon will be
/// too fast, or too fast for the way that is left.
fn feed_forward(
    joint: &Joint,
    command: PositionCommand,
    servo: &ServoState,
    last: Last,
    rules: &Rules,
) -> PositionCommand {
    let PositionCommand { position, velocity, torque, .. } = command;
    let fits = leeway(joint, position, servo.position, rules);
    let ends = fits[0] == 0.0 || fits[1] == 0.0;
    let velocity = within(if ends { zero_if_nan(velocity) } else { velocity }, fits);
    let torque = if torque == 0.0 { torque } else { drive(joint, torque, servo, last, rules) };
    PositionCommand { velocity, torque, ..command }
}

/// Between which velocities a target may be moved on from this position, rad/s: the servo does so until the next command.
fn leeway(joint: &Joint, position: f64, measured: f64, rules: &Rules) -> [f64; 2] {
    let [low, high] = joint.bounds.position;
    let [least, most] = joint.target;
    let way = |left: f64, is_out: bool| if is_out { 0.0 } else { left.max(0.0) / rules.holds_s };
    [-way(position - least, measured <= low), way(most - position, measured >= high)]
}

/// The torque of [`feed_forward`].
fn drive(joint: &Joint, torque: f64, servo: &ServoState, last: Last, rules: &Rules) -> f64 {
    let ([low, high], measured) = (joint.bounds.position, servo.position);
    // Gone at the tolerance, where the robot would be brought down.
    let share = |left: f64| (left / rules.tolerance).clamp(0.0, 1.0);
    let outside = if torque > 0.0 { measured - high } else { low - measured };
    let torque = if outside > 0.0 { torque * share(rules.tolerance - outside) } else { torque };
    let allowed = speeds(joint, measured, rules);
    eased(torque, soon(servo, last), [allowed[0].min(0.0), allowed[1].max(0.0)], joint)
}

/// Velocity and torque control, and position control with next to no gain.
fn approach(
    joint: &Joint,
    command: PositionCommand,
    servo: &ServoState,
    last: Last,
    rules: &Rules,
) -> Option<PositionCommand> {
    let [low, high] = joint.bounds.position;
    let measured = servo.position;
    if !measured.is_finite() && (low.is_finite() || high.is_finite()) {
        return None;
    }
    let [least, most] = speeds(joint, measured, rules);
    let PositionCommand { mut velocity, mut torque, mut kd_scale, .. } = command;
    let left = if torque > 0.0 { high - measured } else { measured - low };
    if left < rules.tolerance {
        torque *= (left / rules.tolerance).max(0.0);
    }
    torque = eased(torque, soon(servo, last), [least, most], joint);
    if servo.velocity > most || servo.velocity < least {
        // Too fast: brake, and do not push on.
        let limit = if servo.velocity > most { most } else { least };
        torque = if servo.velocity > most { torque.min(0.0) } else { torque.max(0.0) };
        velocity = if kd_scale > 0.0 { within(zero_if_nan(velocity), [least, most]) } else { limit };
        kd_scale = 1.0;
    } else if kd_scale > 0.0 {
        let slowed = within(zero_if_nan(velocity), [least, most]);
        velocity = if slowed == zero_if_nan(velocity) { velocity } else { slowed };
    }
    Some(PositionCommand { velocity, torque, kd_scale, ..command })
}

/// Between which speeds a joint at this position may be, rad/s: slower the nearer it is to a limit. Of one outside its limits
/// these lead back, slowly.
fn speeds(joint: &Joint, measured: f64, rules: &Rules) -> [f64; 2] {
    let Bounds { position: [low, high], velocity, .. } = joint.bounds;
    let back = velocity.min(RETURN);
    let speed = |left: f64| match left / rules.braking_s {
        // No limits, or their distance is unknown.
        speed if speed.is_nan() => velocity,
        speed => speed.clamp(-back, velocity),
    };
    [-speed(measured - low), speed(high - measured)]
}

/// The least and the greatest speed a joint may have when the next command has its effect: it may go on gaining as it did in
/// the last tick, or go on no more.
fn soon(servo: &ServoState, last: Last) -> [f64; 2] {
    let gained = servo.velocity - last.velocity;
    let gained = if gained.is_finite() { 2.0 * gained } else { 0.0 };
    [servo.velocity + gained.min(0.0), servo.velocity + gained.max(0.0)]
}

/// A torque, fading where it drives a joint beyond these speeds, so that none is switched on and off by a velocity that
/// trembles.
fn eased(torque: f64, [slowest, fastest]: [f64; 2], [least, most]: [f64; 2], joint: &Joint) -> f64 {
    let beyond = if torque > 0.0 { fastest - most } else { least - slowest };
    let band = FADE * joint.bounds.velocity.min(FASTEST_FADE);
    if beyond > 0.0 { torque * (1.0 - beyond / band).max(0.0) } else { torque }
}

/// NaN stays NaN. Unlike [`f64::clamp`] it takes any bounds.
fn within(value: f64, [low, high]: [f64; 2]) -> f64 {
    if value < low {
        low
    } else if value > high {
        high
    } else {
        value
    }
}

fn zero_if_nan(velocity: f64) -> f64 {
    if velocity.is_nan() { 0.0 } else { velocity }
}

fn same(a: &PositionCommand, b: &PositionCommand) -> bool {
    let equal = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
    equal(a.position, b.position)
        && equal(a.velocity, b.velocity)
        && a.torque == b.torque
        && a.kp_scale == b.kp_scale
        && a.kd_scale == b.kd_scale
}

#[cfg(test)]
mod tests;
