//! Keeps commands within the limits of each servo, and lowers torque when one runs hot.

use super::joint::Joint;
use super::reach::{self, Allowed, Grip, Manner, Rules, Usual};
use super::{Cause, Fixed, OutOfLimits, Shortcut, SupervisorSettings};
use crate::state::RobotState;
use khz_servo::{Doing, PositionCommand, ServoCommand, ServoState};

/// A servo that was silent for longer, and for more than a tick, may have lost its power and be back on another turn: it is
/// damped until it replies.
const RESTART_NS: i64 = 24_000_000;

/// What commands may ask of each servo, and what they asked last.
#[derive(Clone, Debug)]
pub struct Guard {
    /// What never changes.
    usual: Fixed<Vec<Usual>>,
    last: Vec<Last>,
    /// See [`Guard::leads`].
    leads: bool,
    /// Commands that were changed.
    clamped: u64,
}

/// A servo in the tick before.
#[derive(Clone, Copy, Debug)]
pub struct Last {
    /// As it was sent, rad. None: the servo was not under position control.
    pub sent: Option<f64>,
    /// As the controller asked for it, rad.
    pub asked: Option<f64>,
    /// As it was measured, rad/s; NaN if it was not commanded to move.
    pub velocity: f64,
    /// The weakest it followed its target with since it was last near it.
    pub grip: Grip,
    /// How it was to follow a target that [stayed](reach::stays) as it was asked for, and was near.
    pub steady: Shortcut<Option<Manner>>,
}

impl Default for Last {
    fn default() -> Self {
        Self { sent: None, asked: None, velocity: f64::NAN, grip: Grip::STRONGEST, steady: Shortcut(None) }
    }
}

impl Guard {
    /// For servos of these joints, which may be found so far beyond their limits, rad.
    pub fn new(joints: &[Joint], tolerance: f64) -> Self {
        let usual = Fixed(joints.iter().map(|joint| Usual::of(joint, tolerance)).collect());
        Self { usual, last: vec![Last::default(); joints.len()], leads: false, clamped: 0 }
    }

    /// Commands that were changed so far to keep a joint within its limits: cut, slowed down, or turned away from a limit.
    pub const fn clamped(&self) -> u64 {
        self.clamped
    }

    /// Where each servo was led by the last [check](Guard::check) in the place of what was asked for, rad.
    pub fn led_to(&self) -> impl Iterator<Item = Option<f64>> {
        self.last.iter().map(|last| last.sent.filter(|_| last.sent != last.asked))
    }

    /// The last [check](Guard::check) led a servo elsewhere than it was asked to; otherwise [`Guard::led_to`] has none.
    pub const fn leads(&self) -> bool {
        self.leads
    }

    /// Forgets every target: the next one starts at the measured position.
    pub fn reset(&mut self) {
        self.last.fill(Last::default());
    }

    /// Forgets the target of a servo; see [`Guard::reset`].
    pub fn forget(&mut self, servo: usize) {
        self.last[servo] = Last::default();
    }

    /// Keeps every command within its limits and lowers the torque of hot servos; `derate` is a share for all. Returns
    /// what may not be sent at all.
    pub fn check(
        &mut self,
        joints: &[Joint],
        commands: &mut [ServoCommand],
        state: &RobotState,
        settings: &SupervisorSettings,
        derate: f64,
    ) -> Option<Cause> {
        let tick = Tick {
            rules: Rules::of(settings, state),
            reported_since_ns: state.now_ns.saturating_sub(RESTART_NS.max(state.period_ns * 3 / 2)),
            answered_since_ns: state.now_ns.saturating_sub(RESTART_NS.max(state.period_ns * 5 / 2)),
            settings,
            derate,
        };
        let mut trouble = None;
        self.leads = false;
        let all = commands.iter_mut().zip(joints).zip(&*self.usual).zip(&state.servos).zip(&mut self.last);
        for (at, ((((command, joint), usual), servo), last)) in (0..).zip(all) {
            if let ServoCommand::Position(asked) = command
                && servo.at_ns >= tick.reported_since_ns
                && (reach::goes_on(joint, usual, asked, servo, last, &tick.rules)
                    || reach::stays(joint, usual, asked, servo, last, &tick.rules))
            {
                asked.max_torque = tick.most_torque(joint, asked.max_torque, servo);
                continue;
            }
            let (is_clamped, found) = tick.keep(at, command, joint, servo, last);
            self.clamped += u64::from(is_clamped);
            self.leads |= last.sent != last.asked;
            trouble = trouble.or(found);
        }
        trouble
    }
}

/// What holds for all joints in one tick.
struct Tick<'a> {
    rules: Rules,
    /// A servo that has not replied since then may be on another turn.
    reported_since_ns: i64,
    /// The same for one that replies, but reported its state last before then: it is queried for something else instead.
    answered_since_ns: i64,
    settings: &'a SupervisorSettings,
    derate: f64,
}

impl Tick<'_> {
    /// Keeps one command within the limits of its joint. Whether that changed it, and what may not be sent at all. For commands that do
    /// not [stay](reach::stays) as they are.
    #[cold]
    #[inline(never)]
    fn keep(
        &self,
        at: u16,
        command: &mut ServoCommand,
        joint: &Joint,
        servo: &ServoState,
        last: &mut Last,
    ) -> (bool, Option<Cause>) {
        let before = std::mem::take(last);
        let ServoCommand::Position(asked) = command else { return (false, None) };
        if !is_sound(asked) {
            return (false, Some(Cause::CommandNotFinite { servo: at }));
        }
        let is_current = self.is_current(servo);
        let most = asked.max_torque;
        let allowed = if is_current { reach::limit(joint, asked, servo, before, &self.rules) } else { None };
        let Some(Allowed { command: limited, target, changed, beyond, unbraked }) = allowed else {
            // A joint whose position is unknown can be braked, but not driven. One that is off and is to damp would not be switched on
            // any more.
            let is_stale_and_off = !is_current && servo.fresh && servo.doing == Doing::Off;
            *command = if is_stale_and_off { ServoCommand::Stop } else { ServoCommand::Damp };
            // A servo that does not reply is reported as such; no limit changed its command.
            return (is_current, None);
        };
        (*asked, *last) = (limited, target);
        let trips = beyond && self.settings.out_of_limits == OutOfLimits::Trip;
        let found = trips.then_some(Cause::CommandOutOfLimits { servo: at });
        let found = found.or(unbraked.then_some(Cause::TorqueNotBraked { servo: at }));
        let lack = joint.carries.lack(last.sent.is_some(), asked);
        let cannot_be_sent =
            |(quantity, value, most)| Cause::CommandNotSendable { servo: at, quantity, value, most };
        asked.max_torque = self.most_torque(joint, most, servo);
        (changed, found.or(lack.map(cannot_be_sent)))
    }

    /// Its position is of now. A servo that answers something else in this tick has not restarted meanwhile: after a miss it is asked for
    /// what shows that.
    #[inline]
    fn is_current(&self, servo: &ServoState) -> bool {
        servo.at_ns >= if servo.fresh { self.answered_since_ns } else { self.reported_since_ns }
    }

    /// The greatest torque to send. NaN: no limit, also if the controller's is beyond what its format carries.
    #[inline]
    fn most_torque(&self, joint: &Joint, asked: f64, servo: &ServoState) -> f64 {
        if joint.carries.max_torque == 0.0 {
            return f64::NAN;
        }
        let share = heat_share(servo.temperature, self.settings) * self.derate;
        let most = joint.bounds.torque_within(asked) * share;
        if !most.is_finite() {
            return f64::NAN;
        }
        // A little torque must not become none by rounding: the joint would fall.
        let least = if most > 0.0 { joint.carries.least_max_torque } else { 0.0 };
        most.max(least).min(joint.carries.max_torque)
    }
}

/// Every part is a number where it has to be. No position is needed without a position gain; a velocity and a
/// torque limit that are NaN have a meaning of their own.
pub(super) fn is_sound(command: &PositionCommand) -> bool {
    let PositionCommand { position, velocity, torque, kp_scale, kd_scale, max_torque } = *command;
    // None of the usual numbers times 0 is anything but 0.
    let are_finite = (torque * 0.0 + kp_scale * 0.0) + (kd_scale * 0.0) == 0.0;
    are_finite
        && (position.is_finite() || position.is_nan() && kp_scale == 0.0)
        && !velocity.is_infinite()
        && (max_torque.is_nan() || max_torque >= 0.0)
}

/// The share of its torque a servo may use at a temperature; all of it when the temperature is not known.
fn heat_share(celsius: f64, settings: &SupervisorSettings) -> f64 {
    let (soft, hard) = (settings.temperature_soft_c, settings.temperature_hard_c);
    if celsius > soft {
        let over = ((celsius - soft) / (hard - soft)).min(1.0);
        1.0 - over * (1.0 - settings.derate_to)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::joint::{Bounds, Limits};
    use khz_servo::moteus::{self, CommandFormat, Format};
    use khz_servo::{Family, Mounting, Quantity, ServoState};
    use khz_wire::{Class, Resolution};
    use std::f64::consts::TAU;

    const PERIOD_NS: i64 = 1_000_000;

    /// A joint at 0 with limits, seen at rest under position control.
    struct Bench {
        joints: Vec<Joint>,
        guard: Guard,
        state: RobotState,
        settings: SupervisorSettings,
    }

    impl Bench {
        fn new(bounds: Bounds) -> Self {
            Self::of(Joint { bounds, target: bounds.position, ..Joint::UNLIMITED })
        }

        fn of(joint: Joint) -> Self {
            let mut state = RobotState::unknown(1, false, PERIOD_NS);
            state.servos[0] = ServoState {
                position: 0.0,
                velocity: 0.0,
                doing: Doing::Following,
                at_ns: 0,
                ..ServoState::UNKNOWN
            };
            let (joints, settings) = (vec![joint], SupervisorSettings::default());
            Self { guard: Guard::new(&joints, settings.position_tolerance), joints, state, settings }
        }

        fn try_check(&mut self, command: PositionCommand) -> (ServoCommand, Option<Cause>) {
            let mut commands = [ServoCommand::Position(command)];
            let trouble = self.guard.check(&self.joints, &mut commands, &self.state, &self.settings, 1.0);
            (commands[0], trouble)
        }

        fn check(&mut self, command: PositionCommand) -> PositionCommand {
            match self.try_check(command) {
                (ServoCommand::Position(command), None) => command,
                other => panic!("{other:?}"),
            }
        }
    }

    const BOUNDS: Bounds = Bounds { position: [-1.0, 1.0], velocity: 2.0, torque: 5.0 };

    fn at(position: f64, velocity: f64) -> Bench {
        let mut bench = Bench::new(BOUNDS);
        (bench.state.servos[0].position, bench.state.servos[0].velocity) = (position, velocity);
        bench
    }

    fn free(velocity: f64, torque: f64, kd_scale: f64) -> PositionCommand {
        PositionCommand { velocity, torque, kp_scale: 0.0, kd_scale, ..PositionCommand::hold(f64::NAN) }
    }

    #[test]
    fn cuts_to_the_limits() {
        let mut bench = Bench::new(Bounds { velocity: f64::INFINITY, ..BOUNDS });
        let asked = PositionCommand { torque: 7.0, kp_scale: 3.0, ..PositionCommand::hold(4.0) };
        let expected = PositionCommand { torque: 5.0, max_torque: 5.0, ..PositionCommand::hold(1.0) };
        assert_eq!(bench.check(asked), expected);
        let mut bench = at(0.0, 0.0);
        assert_eq!(
            bench.check(PositionCommand { velocity: -9.0, ..PositionCommand::hold(0.0) }).velocity,
            -2.0
        );
        assert_eq!(bench.guard.clamped(), 1);
    }

    #[test]
    fn a_target_moves_at_the_greatest_speed_from_where_the_joint_is() {
        let mut bench = at(0.3, 0.0);
        let targets: Vec<_> = (0..3).map(|_| bench.check(PositionCommand::hold(-0.5)).position).collect();
        for (target, expected) in targets.iter().zip([0.298, 0.296, 0.294]) {
            assert!((target - expected).abs() < 1e-12, "{targets:?}");
        }
        assert_eq!(bench.guard.clamped(), 3);
        // A joint below the speed is not limited.
        let mut bench = at(0.3, 0.0);
        (1..100).for_each(|n| _ = bench.check(PositionCommand::hold(0.3 + 0.002 * f64::from(n))));
        assert_eq!(bench.guard.clamped(), 0);
    }

    #[test]
    fn a_target_far_ahead_of_its_joint_goes_on_unless_gain_or_torque_come_back() {
        let mut bench = at(0.0, 0.0);
        // Steps of 0.2 rad: further than the joint counts as near its target.
        bench.state.period_ns = 100 * PERIOD_NS;
        let mut target = |kp_scale, max_torque| {
            let asked = PositionCommand { kp_scale, max_torque, ..PositionCommand::hold(0.9) };
            (bench.check(asked).position * 10.0).round() / 10.0
        };
        assert_eq!([target(1.0, 5.0), target(1.0, 5.0), target(0.6, 3.0)], [0.2, 0.4, 0.6]);
        assert_eq!([target(1.0, 5.0), target(0.1, 5.0), target(0.1, 5.0)], [0.8, 0.9, 0.9]);
        assert_eq!([target(1.0, 5.0), target(1.0, 5.0)], [0.2, 0.4], "the gain came back");
        assert_eq!([target(1.0, 0.0), target(1.0, 5.0), target(1.0, 5.0)], [0.6, 0.2, 0.4], "the torque did");
    }

    #[test]
    fn a_target_waits_for_a_servo_that_is_not_on_yet() {
        let mut bench = at(0.3, 0.0);
        bench.state.servos[0].doing = Doing::Starting;
        (0..20)
            .for_each(|_| assert!((bench.check(PositionCommand::hold(0.9)).position - 0.302).abs() < 1e-12));
    }

    #[test]
    fn a_target_starts_anew_after_the_joint_was_let_go() {
        for release in [ServoCommand::Stop, ServoCommand::Damp, ServoCommand::Position(free(0.0, 0.0, 1.0))] {
            let mut bench = at(0.3, 0.0);
            bench.check(PositionCommand::hold(0.3));
            bench.state.servos[0].position = -0.6;
            let mut commands = [release];
            bench.guard.check(&bench.joints, &mut commands, &bench.state, &bench.settings, 1.0);
            assert!((bench.check(PositionCommand::hold(0.3)).position + 0.598).abs() < 1e-12);
        }
    }

    #[test]
    fn what_was_asked_before_it_was_armed_again_is_forgotten() {
        let mut bench = at(0.3, 0.0);
        bench.settings.out_of_limits = OutOfLimits::Trip;
        bench.check(PositionCommand::hold(0.3));
        bench.state.servos[0].position = -0.6;
        bench.guard.reset();
        assert_eq!(bench.check(PositionCommand::hold(-0.6)).position, -0.6);
    }

    #[test]
    fn a_joint_carried_out_of_its_limits_does_not_snap_back() {
        let mut bench = at(0.99, 0.0);
        bench.check(PositionCommand::hold(0.99));
        for position in [1.5, 3.0, 5.0] {
            bench.state.servos[0].position = position;
            let target = bench.check(PositionCommand::hold(0.99)).position;
            assert!((target - (position - 0.05 - 0.002)).abs() < 1e-12, "{target}");
        }
    }

    #[test]
    fn a_joint_of_unknown_position_is_braked_and_not_driven() {
        for position in [f64::NAN, f64::INFINITY] {
            let mut bench = at(position, 0.0);
            assert_eq!(bench.try_check(PositionCommand::hold(0.5)), (ServoCommand::Damp, None));
            assert_eq!(bench.try_check(free(1.0, 0.0, 1.0)), (ServoCommand::Damp, None));
            assert_eq!(bench.guard.clamped(), 2);
        }
    }

    #[test]
    fn velocity_shrinks_towards_a_limit_and_turns_back_beyond_it() {
        let velocity = |position, asked| at(position, 0.0).check(free(asked, 0.0, 1.0)).velocity;
        assert_eq!(velocity(0.0, 1.9), 1.9);
        assert!((velocity(0.948, 1.9) - 1.0).abs() < 1e-9);
        assert_eq!(velocity(1.0, 1.9), 0.0);
        assert!((velocity(1.0104, 1.9) + 0.2).abs() < 1e-9);
        assert_eq!([velocity(7.0, 1.9), velocity(-7.0, 0.0)], [-1.0, 1.0]);
        assert_eq!(velocity(0.999, -1.9), -1.9);
        assert!((velocity(-0.948, -1.9) + 1.0).abs() < 1e-9);
    }

    #[test]
    fn torque_ends_at_a_limit_and_a_joint_that_comes_too_fast_is_braked() {
        assert_eq!(at(0.9, 0.0).check(free(0.0, 3.0, 0.0)).torque, 3.0);
        assert!((at(0.975, 0.0).check(free(0.0, 3.0, 0.0)).torque - 1.5).abs() < 1e-9);
        assert_eq!(at(1.0, 0.0).check(free(0.0, 3.0, 0.0)).torque, 0.0);
        assert_eq!(at(1.0, 0.0).check(free(0.0, -3.0, 0.0)).torque, -3.0);
        let braked = at(0.948, 1.5).check(free(0.0, 3.0, 0.0));
        assert_eq!((braked.torque, braked.kd_scale), (0.0, 1.0));
        assert!((braked.velocity - 1.0).abs() < 1e-9);
        let braked = at(0.0, -2.5).check(free(0.0, -3.0, 0.0));
        assert_eq!((braked.torque, braked.kd_scale, braked.velocity), (0.0, 1.0, -2.0));
    }

    #[test]
    fn torque_fades_before_a_joint_is_too_fast() {
        let mut bench = at(0.0, 0.0);
        let torque = |bench: &mut Bench, velocity| {
            bench.state.servos[0].velocity = velocity;
            bench.check(free(0.0, 3.0, 0.0)).torque
        };
        assert_eq!([torque(&mut bench, 0.0), torque(&mut bench, 0.5)], [3.0, 3.0]);
        // It gained 0.6 and may gain as much twice: 0.3 too fast, where 0.2 is the most.
        assert_eq!(torque(&mut bench, 1.1), 0.0);
        assert_eq!(torque(&mut bench, 1.1), 3.0, "it gains no more");
        assert!((torque(&mut bench, 1.4) - 3.0).abs() < 1e-9);
        assert!((torque(&mut bench, 1.6) - 3.0).abs() < 1e-9);
        assert!((torque(&mut bench, 1.75) - 1.5 - 0.75).abs() < 1e-9, "0.05 too fast of 0.2");
    }

    #[test]
    fn a_little_torque_does_not_become_none_by_rounding() {
        let limits = Limits { torque: Some(0.9), ..Limits::default() };
        let command = CommandFormat { max_torque: Format::Int8, ..CommandFormat::default() };
        let mut bench = Bench::of(moteus(&limits, command, &Mounting::default()));
        bench.state.servos[0].temperature = 67.0;
        assert_eq!(bench.check(PositionCommand::hold(0.0)).max_torque, 0.5);
        assert_eq!(
            bench.check(PositionCommand { max_torque: 0.0, ..PositionCommand::hold(0.0) }).max_torque,
            0.0
        );
    }

    #[test]
    fn a_servo_silent_for_as_long_as_it_takes_to_restart_is_damped() {
        for (period_ns, silent_ms, expected) in
            [(PERIOD_NS, 24, false), (PERIOD_NS, 25, true), (50_000_000, 70, false), (50_000_000, 80, true)]
        {
            let mut bench = Bench::new(BOUNDS);
            bench.state.period_ns = period_ns;
            bench.state.now_ns = silent_ms * 1_000_000;
            let damped = bench.try_check(PositionCommand::hold(0.0)).0 == ServoCommand::Damp;
            assert_eq!(damped, expected, "{silent_ms} ms");
        }
    }

    /// It reports a mark, or its status, in place of its state: at low rates its last state is older than a restart takes.
    #[test]
    fn a_servo_that_answers_in_every_tick_is_driven_and_one_that_is_off_is_never_damped_for_it() {
        let check = |doing, fresh, silent_ms: i64| {
            let mut bench = Bench::new(BOUNDS);
            bench.state.period_ns = 16 * PERIOD_NS;
            bench.state.now_ns = silent_ms * 1_000_000;
            (bench.state.servos[0].fresh, bench.state.servos[0].doing) = (fresh, doing);
            match bench.try_check(PositionCommand::hold(0.0)).0 {
                ServoCommand::Position(_) => "driven",
                ServoCommand::Damp => "damped",
                ServoCommand::Stop => "off",
            }
        };
        let all = |doing| [(true, 40), (true, 41), (false, 25)].map(|(fresh, ms)| check(doing, fresh, ms));
        assert_eq!(all(Doing::Following), ["driven", "damped", "damped"]);
        assert_eq!(all(Doing::Off), ["driven", "off", "damped"]);
    }

    #[test]
    fn without_limits_nothing_changes() {
        let mut bench = Bench::new(Bounds::NONE);
        bench.state.servos[0].velocity = 300.0;
        for command in [PositionCommand::hold(1e6), free(1e4, -1e6, 0.0), free(f64::NAN, 0.0, 0.5)] {
            let allowed = bench.check(command);
            assert_eq!(format!("{allowed:?}"), format!("{command:?}"));
        }
        assert_eq!(bench.guard.clamped(), 0);
    }

    #[test]
    fn a_position_may_be_missing_only_without_its_gain() {
        let mut bench = Bench::new(BOUNDS);
        let not_finite = Some(Cause::CommandNotFinite { servo: 0 });
        assert_eq!(bench.try_check(PositionCommand::hold(f64::NAN)).1, not_finite);
        assert_eq!(bench.try_check(free(0.0, 0.0, 1.0)).1, None);
        let torque = PositionCommand { torque: f64::NAN, ..PositionCommand::hold(0.0) };
        assert_eq!(bench.try_check(torque).1, not_finite);
    }

    #[test]
    fn a_finite_number_that_overflows_on_the_wire_is_not_sent() {
        let mut bench = Bench::new(Bounds::NONE);
        let (_, trouble) = bench.try_check(PositionCommand { torque: 1e39, ..PositionCommand::hold(0.0) });
        let most = f64::from(f32::MAX);
        let expected = Cause::CommandNotSendable { servo: 0, quantity: Quantity::Torque, value: 1e39, most };
        assert_eq!(trouble, Some(expected));
        assert!(bench.try_check(PositionCommand::hold(1e40)).1.is_some());
        // More torque than can be written is no limit, and the greatest that can be.
        let allowed = bench.check(PositionCommand { max_torque: 1e39, ..PositionCommand::hold(0.0) });
        assert!((allowed.max_torque as f32).is_finite());
    }

    #[test]
    fn out_of_limits_trips_on_limits_and_steps_only() {
        let trips = |position, asked| {
            let mut bench = at(position, 0.0);
            bench.settings.out_of_limits = OutOfLimits::Trip;
            bench.try_check(asked).1.is_some()
        };
        assert!(trips(0.99, PositionCommand::hold(1.001)));
        assert!(trips(0.0, PositionCommand::hold(0.1)));
        assert!(trips(0.0, free(2.1, 0.0, 1.0)));
        assert!(!trips(0.99, PositionCommand::hold(1.0)));
        // At a limit, but not beyond it: slowed down.
        assert!(!trips(0.99, free(1.9, 1.0, 1.0)));
    }

    #[test]
    fn torque_sinks_between_the_soft_and_the_hard_limit() {
        let most = |celsius| {
            let mut bench = Bench::new(BOUNDS);
            bench.state.servos[0].temperature = celsius;
            bench.check(PositionCommand::hold(0.0)).max_torque
        };
        assert_eq!([most(60.0), most(f64::NAN)], [5.0, 5.0]);
        assert!((most(65.0) - 5.0 * 0.65).abs() < 1e-9);
        assert!((most(90.0) - 5.0 * 0.3).abs() < 1e-9);
    }

    /// A joint whose commands travel so.
    fn moteus(limits: &Limits, command: CommandFormat, mounting: &Mounting) -> Joint {
        let family = Family::Moteus(moteus::Settings { command, ..moteus::Settings::default() });
        Joint::new(limits, &family, mounting, None)
    }

    /// Joint angle of a target as the servo receives it.
    fn received(joint: f64, sign: f64, offset: f64, format: Resolution) -> f64 {
        let turns = sign * (joint - offset) / TAU;
        sign * TAU * Class::Position.decode(Class::Position.encode(turns, format)) + offset
    }

    #[test]
    fn a_target_at_a_limit_is_not_rounded_beyond_it() {
        let formats = [
            (Format::Int8, Resolution::Int8),
            (Format::Int16, Resolution::Int16),
            (Format::Float, Resolution::Float),
        ];
        for ((position, format), sign, offset) in formats
            .into_iter()
            .flat_map(|f| [1.0, -1.0].map(|s| (f, s)))
            .flat_map(|(f, s)| [0.0, 0.3, -1.0, 2.2].map(|offset| (f, s, offset)))
        {
            let limits = Limits { position: Some([-0.5123, 0.4987]), ..Limits::default() };
            let command = CommandFormat { position, ..CommandFormat::default() };
            let mut bench = Bench::of(moteus(&limits, command, &Mounting { sign, offset }));
            for target in [-9.0, -0.5123, 0.4987, 9.0] {
                let sent = bench.check(PositionCommand::hold(target)).position;
                let joint = received(sent, sign, offset, format);
                assert!((-0.5123..=0.4987).contains(&joint), "{joint} rad as {position:?}, {sign}, {offset}");
            }
            // Rounding is no cutting.
            assert_eq!(bench.guard.clamped(), 2);
        }
    }

    /// A command of any kind, sane or wild.
    fn any_command() -> impl proptest::strategy::Strategy<Value = ServoCommand> {
        use proptest::prelude::*;
        let value = prop_oneof![-3.0..3.0, Just(f64::NAN), -1e9..1e9];
        let parts =
            (value.clone(), value.clone(), -10.0..10.0, prop_oneof![Just(0.0), 0.0..2.0], 0.0..2.0, value);
        let position = parts.prop_map(|(position, velocity, torque, kp_scale, kd_scale, max_torque)| {
            let max_torque = f64::abs(max_torque);
            PositionCommand { position, velocity, torque, kp_scale, kd_scale, max_torque }
        });
        prop_oneof![
            8 => position.prop_map(ServoCommand::Position),
            1 => Just(ServoCommand::Stop),
            1 => Just(ServoCommand::Damp)
        ]
    }

    proptest::proptest! {
        /// Whatever is commanded and wherever the joint is, no target leaves the limits unless the joint is out there, it
        /// moves no faster than the joint may from where it was or from the joint, and nothing is beyond velocity or torque.
        #[test]
        fn no_sequence_of_commands_gets_past_the_limits(
            ticks in proptest::collection::vec((any_command(), -1.05..1.05_f64, -3.0..3.0_f64, 0..4_u8), 1..60)
        ) {
            let mut bench = at(0.0, 0.0);
            let mut last = None;
            for (command, position, velocity, mode) in ticks {
                let doing = if mode == 0 { Doing::Starting } else { Doing::Following };
                let known = ServoState { position, velocity, doing, at_ns: 0, ..ServoState::UNKNOWN };
                bench.state.servos[0] = known;
                let mut commands = [command];
                let trouble =
                    bench.guard.check(&bench.joints, &mut commands, &bench.state, &bench.settings, 1.0);
                let is_led = bench.guard.led_to().any(|led_to| led_to.is_some());
                proptest::prop_assert!(bench.guard.leads() || !is_led);
                let ServoCommand::Position(sent) = commands[0] else {
                    last = None;
                    continue;
                };
                if trouble.is_some() {
                    last = None;
                    continue;
                }
                proptest::prop_assert!(sent.torque.abs() <= 5.0 && sent.max_torque <= 5.0);
                proptest::prop_assert!(sent.velocity.is_nan() || sent.velocity.abs() <= 2.0);
                if sent.kp_scale == 0.0 {
                    last = None;
                    // Towards a limit no faster than the way that is left allows.
                    let most = (1.0 - position) / 0.052;
                    proptest::prop_assert!(sent.kd_scale == 0.0 || sent.velocity.is_nan() || sent.velocity <= most + 1e-9);
                    proptest::prop_assert!(position < 1.0 || sent.torque <= 0.0);
                    continue;
                }
                let furthest = position.abs().max(last.map_or(0.0, f64::abs)).max(1.0);
                proptest::prop_assert!(sent.position.abs() <= furthest, "{sent:?}");
                let from = [last, Some(position)].into_iter().flatten();
                let step = from.map(|from: f64| (sent.position - from).abs()).fold(f64::INFINITY, f64::min);
                proptest::prop_assert!(step <= 0.002 + 1e-12, "a step of {step} rad");
                last = Some(sent.position);
            }
        }
    }
}
