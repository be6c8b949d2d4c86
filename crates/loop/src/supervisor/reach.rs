//! What a command may ask of a joint that is where it is and as fast as it is.
//!
//! Two ways of control, two ways to keep the limits. Under position control the target is kept: within the limits, and
//! moving no faster than the joint may, from where the joint was found. In velocity and torque control there is no target,
//! so the motion is kept: the nearer the joint is to a limit, the slower it may go towards it. With next to no position gain
//! both are kept.

use super::SupervisorSettings;
use super::guard::Last;
use super::joint::{Bounds, Joint};
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
}

impl Usual {
    pub fn of(joint: &Joint) -> Self {
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
        }
    }
}

/// Whether a command stays as it was asked, as of a robot that moves within its limits nearly all do; then `last` has its target. Computes
/// what [`limit`] would, and that the command is sound and can be sent, in a third of the time; if false, those have to check.
#[inline]
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
    let is_there = measured.is_finite() && bounds.exceeded(measured, rules.tolerance).is_none();
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
    *last = Last { sent: Some(position), asked: Some(position), velocity: servo.velocity, grip };
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
        let target = Last { sent: Some(to), asked: Some(position), velocity: servo.velocity, grip };
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
mod tests {
    use super::*;
    use crate::supervisor::guard::is_sound;
    use khz_servo::Carries;
    use proptest::prelude::*;

    /// Numbers that are sums of powers of two, so that what is at a border is exactly there.
    const RULES: Rules = Rules {
        tolerance: 0.0625,
        period_s: 0.25,
        braking_s: 0.5,
        holds_s: 0.5,
        is_slow: false,
        elapsed_s: 0.25,
    };
    const BOUNDS: Bounds = Bounds { position: [-1.0, 1.0], velocity: 2.0, torque: 4.0 };

    fn joint() -> Joint {
        Joint { bounds: BOUNDS, target: BOUNDS.position, carries: Carries::EVERYTHING, timeout: None }
    }

    fn servo(position: f64, velocity: f64) -> ServoState {
        ServoState { position, velocity, doing: Doing::Following, ..ServoState::UNKNOWN }
    }

    fn sent(position: f64) -> Last {
        Last { sent: Some(position), asked: Some(position), ..Last::default() }
    }

    fn allowed(asked: PositionCommand, at: f64, velocity: f64, last: Last) -> Allowed {
        limit(&joint(), &asked, &servo(at, velocity), last, &RULES).unwrap()
    }

    fn hold(position: f64) -> PositionCommand {
        PositionCommand::hold(position)
    }

    fn stays_of(joint: &Joint, asked: &PositionCommand, servo: &ServoState, last: &mut Last) -> bool {
        stays(joint, &Usual::of(joint), asked, servo, last, &RULES)
    }

    /// A usual value, or as often as not one at a border, or none.
    fn near(usual: f64) -> impl Strategy<Value = f64> {
        let borders =
            [0.0, -0.0, 0.0625, -0.0625, 0.1, 0.2, 0.25, 0.5, 1.0, -1.0, 1.0625, 2.0, 4.0, 1e-4, f64::NAN];
        prop_oneof![
            6 => Just(usual),
            2 => prop::sample::select(borders.to_vec()),
            1 => -1.1..1.1,
            1 => prop::sample::select(vec![f64::INFINITY, f64::NEG_INFINITY, 1e300]),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn what_stays_as_asked_is_what_the_long_way_leaves(
            (position, velocity, torque) in (near(0.125), near(0.0), near(0.0)),
            (kp_scale, kd_scale, max_torque) in (near(1.0), near(1.0), near(4.0)),
            (measured, speed) in (near(0.0625), near(0.0)),
            (sent, before, velocity_before) in (near(0.0), near(0.0), near(0.0)),
            (kp_before, torque_before) in (near(1.0), near(4.0)),
            (low, target_low, fastest, tolerance) in (near(1.0), near(0.5), near(2.0), near(0.0625)),
            (carried, follows, is_narrow) in (any::<[bool; 2]>(), prop::bool::weighted(0.9), any::<bool>()),
            (zero, reach, fastest_sent, torque_sent) in (near(0.0), near(2.0), near(2.0), near(4.0)),
        ) {
            let asked = PositionCommand { position, velocity, torque, kp_scale, kd_scale, max_torque };
            let most = |value: f64| if value.is_nan() { f64::INFINITY } else { value.abs() };
            let bounds = Bounds { position: [-most(low), 1.0], velocity: most(fastest), torque: 4.0 };
            let target = [if is_narrow { -most(target_low) } else { bounds.position[0] }, 1.0];
            let carries = Carries {
                kp_scale: carried[0],
                kd_scale: carried[1],
                zero: if zero.is_finite() { zero } else { 0.0 },
                position: most(reach),
                velocity: most(fastest_sent),
                max_torque: most(torque_sent),
                ..Carries::EVERYTHING
            };
            let joint = Joint { bounds, target, carries, timeout: None };
            let doing = if follows { Doing::Following } else { Doing::Starting };
            let servo = ServoState { doing, ..servo(measured, speed) };
            let known = |value: f64| Some(value).filter(|value| !value.is_nan());
            let grip = Grip { kp_scale: most(kp_before), torque: most(torque_before) };
            let last = Last { sent: known(sent), asked: known(before), velocity: velocity_before, grip };
            let rules = Rules { tolerance: most(tolerance).min(1.0), ..RULES };
            let mut target = last;
            if stays(&joint, &Usual::of(&joint), &asked, &servo, &mut target, &rules) {
                prop_assert!(is_sound(&asked));
                prop_assert_eq!(carries.lack(true, &asked), None);
                let allowed = limit(&joint, &asked, &servo, last, &rules).unwrap();
                prop_assert!(!allowed.changed && !allowed.beyond && !allowed.unbraked);
                // As text: NaN is NaN, and -0 is not 0.
                prop_assert_eq!(format!("{:?}", allowed.command), format!("{asked:?}"));
                prop_assert_eq!(format!("{:?}", allowed.target), format!("{target:?}"));
            }
        }
    }

    #[test]
    fn most_commands_stay_as_asked() {
        let stays =
            |asked: PositionCommand, mut last| stays_of(&joint(), &asked, &servo(0.0, 0.1), &mut last);
        assert!(
            stays(hold(0.125), sent(0.0)) && stays(PositionCommand { velocity: 0.5, ..hold(0.0) }, sent(0.0))
        );
        assert!(!stays(hold(0.125), Last::default()) && !stays(hold(0.75), sent(0.0)));
        assert!(!stays(PositionCommand { torque: 1.0, ..hold(0.0) }, sent(0.0)));
        let free =
            Joint { carries: Carries { velocity: f64::INFINITY, ..Carries::EVERYTHING }, ..Joint::UNLIMITED };
        let fast = |velocity| {
            let asked = PositionCommand { velocity, ..hold(0.125) };
            stays_of(&free, &asked, &servo(0.0, 0.1), &mut sent(0.0))
        };
        assert!(fast(1e300) && !fast(f64::INFINITY) && !fast(f64::NEG_INFINITY));
        // On the way back to what can be sent, at the greatest speed.
        let joint = Joint { target: [-0.75, 0.25], ..joint() };
        let asked = PositionCommand { velocity: 0.0, ..hold(0.5) };
        assert!(!stays_of(&joint, &asked, &servo(0.5, 0.0), &mut sent(1.0)));
    }

    #[test]
    fn rules_follow_from_the_period_and_the_settings() {
        let mut state = RobotState::unknown(1, false, 5_000_000);
        let mut settings = SupervisorSettings { position_tolerance: 0.125, ..SupervisorSettings::default() };
        let rules = Rules::of(&settings, &state);
        assert_eq!((rules.tolerance, rules.period_s, rules.is_slow), (0.125, 0.005, false), "200 Hz");
        assert!((rules.braking_s - 0.06).abs() < 1e-12 && (rules.holds_s - 0.01).abs() < 1e-12);
        settings.torque_control_hz = 201.0;
        assert!(Rules::of(&settings, &state).is_slow);
        // After skipped periods, not within one.
        for (elapsed_ns, elapsed_s) in [(20_000_000, 0.02), (4_000_000, 0.005)] {
            state.elapsed_ns = elapsed_ns;
            assert!((Rules::of(&settings, &state).elapsed_s - elapsed_s).abs() < 1e-12);
        }
    }

    #[test]
    fn a_grip_is_weak_beside_more_than_twice_as_much() {
        let grip = |kp_scale, torque| Grip { kp_scale, torque };
        let weak = |of: Grip, beside| of.is_weak_beside(beside);
        assert!(!weak(grip(0.5, 2.0), grip(1.0, 4.0)));
        assert!(weak(grip(0.25, 2.0), grip(1.0, 2.0)) && weak(grip(0.5, 1.0), grip(0.5, 4.0)));
        assert!(!weak(grip(1.0, 4.0), grip(0.25, 1.0)) && !weak(grip(1.0, 4.0), grip(1.0, 7.0)));
        let least = grip(0.5, 4.0).least(grip(1.0, 2.0));
        assert_eq!((least.kp_scale, least.torque), (0.5, 2.0));
        // The smaller of the command's torque and the limit; no number is no limit.
        let of = |max_torque| Grip::of(&PositionCommand { max_torque, ..hold(0.0) }, 0.5, &joint());
        assert_eq!([1.0, 9.0, f64::NAN].map(|most| of(most).torque), [1.0, 4.0, 4.0]);
        assert_eq!(of(1.0).kp_scale, 0.5);
    }

    #[test]
    fn what_a_target_was_followed_with_counts_until_the_joint_is_near_it_again() {
        let after_weak = |at: f64| Last { grip: Grip { kp_scale: 0.25, torque: 4.0 }, ..sent(at) };
        let half = |position| PositionCommand { kp_scale: 0.5, ..hold(position) };
        let near = allowed(half(0.0625), 0.0, 0.0, after_weak(0.0)).target.grip;
        assert_eq!((near.kp_scale, near.torque), (0.5, 4.0), "at the tolerance");
        assert_eq!(allowed(half(0.5), 0.5, 0.0, after_weak(0.5)).target.grip.kp_scale, 0.5, "on it");
        // What no gain follows is no target.
        let none = PositionCommand { kp_scale: 0.0, ..hold(0.5) };
        assert_eq!(allowed(none, 0.5, 0.0, sent(0.5)).target.sent, None);
        let far = allowed(PositionCommand { kp_scale: 0.25, ..hold(0.125) }, 0.0, 0.0, sent(0.125)).target;
        assert_eq!(far.grip.kp_scale, 0.25);
        let later = allowed(PositionCommand { kp_scale: 0.5, ..hold(0.125) }, 0.0, 0.0, far).target;
        assert_eq!(later.grip.kp_scale, 0.25, "twice as much, and it is still far");
        let strong = allowed(hold(0.125), 0.0, 0.0, Last { sent: Some(0.9), ..later });
        assert_eq!(strong.command.position, 0.125, "anew from the joint, not from 0.9");
        assert_eq!(strong.target.grip.kp_scale, 1.0);
        // A servo that has no gain in its commands follows with all of it.
        let carries = Carries { kp_scale: false, ..Carries::EVERYTHING };
        let joint = Joint { carries, ..joint() };
        let none = PositionCommand { kp_scale: 0.0, ..hold(0.0) };
        let held = limit(&joint, &none, &servo(0.0, 0.0), sent(0.0), &RULES).unwrap();
        assert_eq!(held.target.sent, Some(0.0));
    }

    #[test]
    fn with_a_fifth_of_its_gain_a_joint_is_held_and_with_less_its_motion_is_kept_too() {
        // Faster than it may be: only where its motion is kept it is braked.
        let kd = |kp_scale| {
            let asked = PositionCommand { kp_scale, kd_scale: 0.5, ..hold(0.0) };
            allowed(asked, 0.0, 3.0, sent(0.0)).command.kd_scale
        };
        assert_eq!([kd(1.0), kd(0.2), kd(0.19), kd(0.0)], [0.5, 0.5, 1.0, 1.0]);
    }

    #[test]
    fn a_target_starts_where_the_joint_is_unless_the_servo_follows_it() {
        let from = |servo: &ServoState, last, could_not| start(servo, last, could_not, &RULES, &joint());
        assert_eq!(from(&servo(0.5, 0.0), sent(0.25), false), Some(0.25));
        assert_eq!(from(&servo(0.5, 0.0), sent(0.25), true), Some(0.5));
        assert_eq!(from(&servo(0.5, 0.0), Last::default(), false), Some(0.5));
        let starting = ServoState { doing: Doing::Starting, ..servo(0.5, 0.0) };
        assert_eq!(from(&starting, sent(0.25), false), Some(0.5));
        // Carried out of its limits: near the joint. At the tolerance it has not been.
        assert_eq!(from(&servo(1.0625, 0.0), sent(0.25), false), Some(0.25));
        assert_eq!(from(&servo(1.5, 0.0), sent(0.25), false), Some(1.4375));
        assert_eq!(from(&servo(-1.5, 0.0), sent(0.25), false), Some(-1.4375));
        // If its position is unknown, the target stays.
        assert_eq!(from(&servo(f64::NAN, 0.0), sent(0.25), false), Some(0.25));
        assert_eq!(from(&servo(f64::NAN, 0.0), Last::default(), false), None);
    }

    #[test]
    fn a_target_goes_no_faster_than_its_joint_and_without_a_limit_only_back_slowly() {
        let unlimited = Joint { bounds: Bounds { velocity: f64::INFINITY, ..BOUNDS }, ..joint() };
        assert_eq!(follow(&joint(), 0.5, 0.0, 0.25), 0.5, "exactly one step");
        assert_eq!([follow(&joint(), 0.75, 0.0, 0.25), follow(&joint(), -0.75, 0.0, 0.25)], [0.5, -0.5]);
        assert_eq!(follow(&joint(), 3.0, 0.75, 0.25), 1.0);
        assert_eq!(follow(&unlimited, -1.0, 1.0, 0.25), -1.0);
        assert_eq!(follow(&unlimited, 1.0, 2.0, 0.25), 1.75);
        // Beyond a limit by rounding is not outside.
        assert_eq!(follow(&unlimited, 0.0, 1.0 + 5e-5, 0.25), 0.0);
    }

    #[test]
    fn a_step_too_far_is_more_than_the_joint_can_move_and_some_slack() {
        let far = |asked, last| steps_too_far(&joint(), asked, last, &servo(0.25, 0.0), &RULES);
        // From where the joint is: half a radian, and the tolerance.
        assert!(!far(0.8125, Last::default()) && far(0.8126, Last::default()));
        assert!(!far(-0.3125, Last::default()) && far(-0.3126, Last::default()));
        // From where it was asked to: half a radian, and a thousandth of that.
        let last = Last { asked: Some(0.0), ..Last::default() };
        assert!(!far(0.5004, last) && far(0.5006, last) && far(-0.5006, last));
        // Or from where it was led instead, within the limits.
        let last = Last { sent: Some(1.25), ..last };
        assert!(!far(0.5004, last) && !far(0.4996, last) && far(1.5006, last) && far(-0.5006, last));
    }

    #[test]
    fn a_velocity_beside_a_target_leads_no_further_than_the_limit() {
        let velocity = |at, target, velocity| {
            allowed(PositionCommand { velocity, ..hold(target) }, at, 0.0, sent(target)).command.velocity
        };
        // What is left of the way, in half a second.
        assert_eq!([velocity(0.75, 0.75, 2.0), velocity(-0.75, -0.75, -2.0)], [0.5, -0.5]);
        assert_eq!([velocity(0.75, 0.75, -2.0), velocity(-0.75, -0.75, 2.0)], [-2.0, 2.0]);
        assert_eq!([velocity(0.0, 0.0, 1.5), velocity(0.75, 0.75, 0.25)], [1.5, 0.25]);
        // At a limit and beyond it there is no way left, but back.
        assert_eq!([velocity(1.0, 0.875, 1.0), velocity(-1.0, -0.875, -1.0)], [0.0, 0.0]);
        assert_eq!([velocity(1.0, 0.875, -1.0), velocity(-1.0, -0.875, 1.0)], [-1.0, 1.0]);
        assert_eq!([velocity(1.0, 1.0, f64::NAN), velocity(-1.0, -1.0, f64::NAN)], [0.0, 0.0]);
        assert!(velocity(0.0, 0.0, f64::NAN).is_nan());
    }

    #[test]
    fn a_torque_beside_a_target_is_gone_at_the_tolerance() {
        let torque = |at: f64, torque| {
            allowed(PositionCommand { torque, ..hold(at) }, at, 0.0, sent(at)).command.torque
        };
        assert_eq!([torque(0.96875, 2.0), torque(1.0, 2.0), torque(1.03125, 2.0)], [2.0, 2.0, 1.0]);
        assert_eq!([torque(1.0625, 2.0), torque(1.25, 2.0)], [0.0, 0.0]);
        assert_eq!([torque(-1.03125, -2.0), torque(-1.25, -2.0)], [-1.0, 0.0]);
        assert_eq!([torque(1.03125, -2.0), torque(-1.03125, 2.0)], [-2.0, 2.0]);
    }

    #[test]
    fn without_a_target_torque_fades_towards_the_limit_and_a_fast_joint_is_braked() {
        let free = |at: f64, speed: f64, velocity, torque, kd_scale| {
            let asked = PositionCommand { velocity, torque, kp_scale: 0.0, kd_scale, ..hold(f64::NAN) };
            let command = allowed(asked, at, speed, Last::default()).command;
            [command.velocity, command.torque, command.kd_scale]
        };
        assert_eq!(free(0.96875, 0.0, 0.0, 2.0, 0.0)[1], 1.0);
        assert_eq!(free(-0.96875, 0.0, 0.0, -2.0, 0.0)[1], -1.0);
        assert_eq!([free(0.9375, 0.0, 0.0, 2.0, 0.0)[1], free(1.5, 0.0, 0.0, 2.0, 0.0)[1]], [2.0, 0.0]);
        assert_eq!([free(0.96875, 0.0, 0.0, -2.0, 0.0)[1], free(1.5, 0.0, 0.0, -2.0, 0.0)[1]], [-2.0, -2.0]);
        // Half a radian in half a second: 1 rad/s.
        assert_eq!(free(0.5, 1.0, 2.0, 0.0, 0.5), [1.0, 0.0, 0.5]);
        assert_eq!(free(0.5, 1.5, 2.0, 3.0, 0.5), [1.0, 0.0, 1.0]);
        assert_eq!(free(0.5, 1.5, 0.25, 0.0, 0.5), [0.25, 0.0, 1.0]);
        assert_eq!(free(-0.5, -1.0, -2.0, 0.0, 0.5), [-1.0, 0.0, 0.5]);
        assert_eq!(free(0.5, 1.5, 0.5, -3.0, 0.0), [1.0, -3.0, 1.0]);
        assert_eq!(free(-0.5, -1.5, -2.0, -3.0, 0.5), [-1.0, 0.0, 1.0]);
        assert_eq!(free(-0.5, -1.5, -0.5, 3.0, 0.0), [-1.0, 3.0, 1.0]);
        // Velocities within what is allowed stay as they are, a missing one too.
        assert_eq!(free(0.5, 0.0, 0.75, 0.0, 1.0)[0], 0.75);
        assert!(free(0.5, 0.0, f64::NAN, 0.0, 1.0)[0].is_nan());
        assert_eq!(free(1.25, 0.0, f64::NAN, 0.0, 1.0)[0], -0.5, "back");
        assert_eq!(free(0.5, 0.0, 2.0, 0.0, 0.0)[0], 2.0, "without a gain a velocity drives nothing");
    }

    #[test]
    fn a_joint_with_limits_in_an_unknown_position_is_not_driven() {
        let free = PositionCommand { kp_scale: 0.0, ..hold(f64::NAN) };
        let at = |position: [f64; 2]| {
            let joint = Joint { bounds: Bounds { position, ..BOUNDS }, ..joint() };
            limit(&joint, &free, &servo(f64::NAN, 0.0), Last::default(), &RULES).is_some()
        };
        let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
        assert_eq!([[-1.0, 1.0], [-1.0, high], [low, 1.0], [low, high]].map(at), [false, false, false, true]);
    }

    #[test]
    fn a_joint_outside_its_limits_may_only_go_back_and_slowly() {
        assert_eq!(speeds(&joint(), 0.0, &RULES), [-2.0, 2.0]);
        assert_eq!(speeds(&joint(), 0.75, &RULES), [-2.0, 0.5]);
        assert_eq!(speeds(&joint(), 1.25, &RULES), [-2.0, -0.5]);
        assert_eq!([speeds(&joint(), 9.0, &RULES)[1], speeds(&joint(), -9.0, &RULES)[0]], [-1.0, 1.0]);
        assert_eq!(speeds(&joint(), f64::NAN, &RULES), [-2.0, 2.0]);
    }

    #[test]
    fn a_joint_may_go_on_gaining_as_it_did_or_no_more() {
        let last = |velocity| Last { velocity, ..Last::default() };
        assert_eq!(soon(&servo(0.0, 1.0), last(0.75)), [1.0, 1.5]);
        assert_eq!(soon(&servo(0.0, 1.0), last(1.25)), [0.5, 1.0]);
        assert_eq!(soon(&servo(0.0, 1.0), last(f64::NAN)), [1.0, 1.0]);
    }

    #[test]
    fn a_torque_fades_over_a_tenth_of_the_greatest_speed_and_of_5_rad_s_at_most() {
        let band = |velocity: f64| {
            let joint = Joint { bounds: Bounds { velocity, ..BOUNDS }, ..joint() };
            let torque = |torque, speeds| eased(torque, speeds, [-1.0, 1.0], &joint);
            [
                torque(4.0, [1.0, 1.0]),
                torque(4.0, [0.0, 1.0625]),
                torque(-4.0, [-1.0625, 0.0]),
                torque(4.0, [0.0, 9.0]),
            ]
        };
        assert_eq!(band(1.25), [4.0, 2.0, -2.0, 0.0]);
        assert_eq!(band(20.0).map(|torque| (torque * 8.0).round() / 8.0), [4.0, 3.5, -3.5, 0.0]);
        let joint = joint();
        // In the other direction it brakes.
        assert_eq!(eased(-4.0, [3.0, 3.0], [-1.0, 1.0], &joint), -4.0);
    }

    #[test]
    fn what_was_changed_and_what_is_beyond_the_limits_is_reported() {
        let reported = |asked, at, last| {
            let allowed = allowed(asked, at, 0.0, last);
            (allowed.changed, allowed.beyond)
        };
        assert_eq!(reported(hold(0.25), 0.25, sent(0.25)), (false, false));
        assert_eq!(reported(hold(1.0), 1.0, sent(1.0)), (false, false));
        assert_eq!(reported(hold(1.125), 1.0, sent(1.0)), (true, true));
        for asked in [
            PositionCommand { velocity: 3.0, ..hold(0.0) },
            PositionCommand { torque: -5.0, ..hold(0.0) },
            PositionCommand { kp_scale: 1.5, ..hold(0.0) },
            PositionCommand { kd_scale: 1.5, ..hold(0.0) },
            PositionCommand { kp_scale: -1.0, ..hold(0.0) },
        ] {
            assert_eq!(reported(asked, 0.0, sent(0.0)), (true, true), "{asked:?}");
        }
        assert!(
            reported(PositionCommand { velocity: f64::NAN, ..hold(1.0) }, 1.0, sent(1.0)).0,
            "no number becomes 0"
        );
        // Slowed down, but not beyond a limit.
        assert_eq!(
            reported(PositionCommand { velocity: 2.0, ..hold(0.75) }, 0.75, sent(0.75)),
            (true, false)
        );
        assert!(reported(PositionCommand { torque: 2.0, ..hold(1.03125) }, 1.03125, sent(1.0)).0);
    }

    #[test]
    fn a_torque_that_could_not_be_braked_is_reported_on_joints_with_limits() {
        let carries = Carries { velocity_asked: false, ..Carries::EVERYTHING };
        let unbraked = |joint: &Joint, asked: PositionCommand, is_slow| {
            let rules = Rules { is_slow, ..RULES };
            limit(joint, &asked, &servo(0.0, 0.0), sent(0.0), &rules).unwrap().unbraked
        };
        let (push, blind) = (PositionCommand { torque: 1.0, ..hold(0.0) }, Joint { carries, ..joint() });
        let free = PositionCommand { kp_scale: 0.0, ..push };
        assert!(!unbraked(&joint(), push, false) && unbraked(&joint(), push, true));
        assert!(!unbraked(&joint(), hold(0.0), true), "no torque");
        assert!(!unbraked(&Joint::UNLIMITED, push, true), "no limits");
        assert!(!unbraked(&blind, push, false) && unbraked(&blind, free, false));
        assert!(!unbraked(&joint(), free, false));
    }
}
