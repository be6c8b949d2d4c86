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
    stays(joint, &Usual::of(joint, RULES.tolerance), asked, servo, last, &RULES)
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
        let (velocity, steady) = (velocity_before, Shortcut(None));
        let last = Last { sent: known(sent), asked: known(before), velocity, grip, steady };
        let rules = Rules { tolerance: most(tolerance).min(1.0), ..RULES };
        let usual = Usual::of(&joint, rules.tolerance);
        let mut target = last;
        if stays(&joint, &usual, &asked, &servo, &mut target, &rules) {
            prop_assert!(is_sound(&asked));
            prop_assert_eq!(carries.lack(true, &asked), None);
            let allowed = limit(&joint, &asked, &servo, last, &rules).unwrap();
            prop_assert!(!allowed.changed && !allowed.beyond && !allowed.unbraked);
            // As text: NaN is NaN, and -0 is not 0.
            prop_assert_eq!(format!("{:?}", allowed.command), format!("{asked:?}"));
            prop_assert_eq!(format!("{:?}", allowed.target), format!("{target:?}"));
        }
        // After a command that stayed, in the same manner or in another.
        let before = PositionCommand { position: sent, velocity: 0.0, ..asked };
        let other = PositionCommand { kp_scale: kp_before, max_torque: torque_before, ..before };
        let (before, mut last) = (if is_narrow { other } else { before }, last);
        let _ = stays(&joint, &usual, &before, &ServoState { position: sent, ..servo }, &mut last, &rules);
        let (mut short, mut long) = (last, last);
        let goes_on = goes_on(&joint, &usual, &asked, &servo, &mut short, &rules);
        if goes_on {
            prop_assert!(stays(&joint, &usual, &asked, &servo, &mut long, &rules));
            prop_assert!(short.steady.0.zip(long.steady.0).is_some_and(|(short, long)| short.is(long)));
        }
        prop_assert_eq!(format!("{short:?}"), format!("{:?}", if goes_on { long } else { last }));
    }
}

#[test]
fn most_commands_stay_as_asked() {
    let stays = |asked: PositionCommand, mut last| stays_of(&joint(), &asked, &servo(0.0, 0.1), &mut last);
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
    // The next one in the same manner in the shorter way, one in another manner not.
    let (usual, mut last) = (Usual::of(&joint(), RULES.tolerance), sent(0.0));
    let mut next = |asked| goes_on(&joint(), &usual, &asked, &servo(0.0, 0.1), &mut last, &RULES);
    assert!(!next(hold(0.0)), "the first");
    let mut last = sent(0.0);
    assert!(stays_of(&joint(), &hold(0.0), &servo(0.0, 0.1), &mut last));
    let mut next = |asked| goes_on(&joint(), &usual, &asked, &servo(0.0, 0.1), &mut last, &RULES);
    assert!(next(hold(0.0)) && !next(PositionCommand { kd_scale: 0.5, ..hold(0.0) }) && next(hold(0.0)));
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
    let torque =
        |at: f64, torque| allowed(PositionCommand { torque, ..hold(at) }, at, 0.0, sent(at)).command.torque;
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
    assert_eq!(reported(PositionCommand { velocity: 2.0, ..hold(0.75) }, 0.75, sent(0.75)), (true, false));
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
