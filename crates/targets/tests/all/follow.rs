//! A follower and its leader, in virtual time: the test sets what is measured, and checks what is commanded.

use crate::limits::{Judge, Random};
use crate::robot::{MS, limits};
use khz_loop::controller::{ControlError, Controller, JointInfo, RobotInfo};
use khz_loop::feed::Feed;
use khz_loop::state::RobotState;
use khz_servo::{PositionCommand, ServoCommand};
use khz_targets::{Follow, FollowConfig, Inbox, Motion, Range, Stage};

const JERK: f64 = 4000.0;
const PERIOD_S: f64 = 1e-3;

/// The leader is joint 0, the follower joint 1; joint 2 belongs to neither.
struct Pair {
    controller: Follow,
    inbox: Inbox,
    feed: Feed,
    state: RobotState,
    commands: Vec<ServoCommand>,
    /// Where the follower cannot go on; it is where it is commanded otherwise.
    stuck_at: Option<f64>,
}

fn config() -> FollowConfig {
    FollowConfig { leader: vec!["hand".into()], follower: vec!["arm".into()], ..FollowConfig::default() }
}

fn info() -> RobotInfo {
    let joint = |name: &str| JointInfo {
        name: name.to_owned(),
        limits: limits(JERK),
        gains: None,
        torque: limits(JERK).torque,
    };
    let joints = ["hand", "arm", "other"].map(joint).into();
    RobotInfo { name: "pair".into(), period_ns: MS, joints, has_imu: false, parameters: Vec::new() }
}

impl Pair {
    /// Started, with the leader at this place and all others at 0.
    fn new(config: &FollowConfig, leader: f64) -> Self {
        let (mut controller, inbox) = Follow::new(config);
        controller.prepare(&info()).unwrap();
        let mut state = RobotState::unknown(3, false, MS);
        for (servo, position) in state.servos.iter_mut().zip([leader, 0.0, 0.0]) {
            (servo.position, servo.velocity, servo.torque) = (position, 0.0, 0.0);
            (servo.at_ns, servo.fresh) = (0, true);
        }
        let (feed, commands) = (controller.feed(), vec![ServoCommand::Stop; 3]);
        let mut pair = Self { controller, inbox, feed, state, commands, stuck_at: None };
        pair.set_time(10_000 * MS);
        pair.controller.start(&pair.state).unwrap();
        pair
    }

    fn set_time(&mut self, ns: i64) {
        (self.state.planned_ns, self.state.started_ns, self.state.now_ns) = (ns, ns, ns);
    }

    /// The leader was measured there; not at all without a place.
    fn tick(&mut self, leader: Option<f64>) {
        let now_ns = self.state.planned_ns + MS;
        self.set_time(now_ns);
        self.state.tick += 1;
        let (arm, stuck_at) = (self.asked(1), self.stuck_at);
        for (at, servo) in self.state.servos.iter_mut().enumerate() {
            servo.fresh = at != 0 || leader.is_some();
            if servo.fresh {
                servo.at_ns = now_ns;
            }
            match (at, leader) {
                (0, Some(place)) => servo.position = place,
                (1, _) => servo.position = stuck_at.unwrap_or(arm.unwrap_or(0.0)),
                _ => {}
            }
        }
        self.controller.update(&self.state, &mut self.commands).unwrap();
        assert!(self.command(1).position.is_finite() && self.command(1).velocity.is_finite());
    }

    fn asked(&self, joint: usize) -> Option<f64> {
        if let ServoCommand::Position(command) = self.commands[joint] { Some(command.position) } else { None }
    }

    fn command(&self, joint: usize) -> PositionCommand {
        let ServoCommand::Position(command) = self.commands[joint] else { panic!("{:?}", self.commands) };
        command
    }

    /// So many ticks with the leader at rest; the greatest speed and acceleration of the follower.
    fn rest(&mut self, leader: f64, ticks: usize) -> [f64; 2] {
        let mut most = [0.0_f64; 2];
        let mut last = self.asked(1).map_or(0.0, |_| self.command(1).velocity);
        for _ in 0..ticks {
            self.tick(Some(leader));
            let velocity = self.command(1).velocity;
            most = [most[0].max(velocity.abs()), most[1].max((velocity - last).abs() / PERIOD_S)];
            last = velocity;
        }
        most
    }

    fn stage(&self) -> Stage {
        self.inbox.standing().status.stage
    }
}

#[test]
fn a_leader_that_stands_elsewhere_is_gone_to_as_a_slow_move_of_its_own() {
    let mut pair = Pair::new(&config(), 1.0);
    let [fastest, hardest] = pair.rest(1.0, 4000);
    assert!(fastest <= 6.0 / 4.0 + 1e-6 && hardest <= 40.0 / 8.0 + 1e-6, "{fastest} {hardest}");
    assert!((pair.command(1).position - 1.0).abs() < 1e-3, "{:?}", pair.command(1));
    assert_eq!((pair.command(2).position, pair.stage()), (0.0, Stage::OnTime));
}

#[test]
fn with_align_rad_nothing_follows_before_the_leader_is_near() {
    let mut pair = Pair::new(&FollowConfig { align_rad: Some(0.1), ..config() }, 1.0);
    assert_eq!(pair.rest(1.0, 500), [0.0; 2]);
    assert_eq!((pair.stage(), pair.feed.silent_ns(i64::MAX - 1)), (Stage::Waiting, None));
    let fared = pair.inbox.standing().fared;
    assert_eq!((fared.followed, fared.apart), (0, 500));
    for tick in 0..1000 {
        pair.tick(Some(1.0 - 1e-3 * f64::from(tick)));
    }
    pair.rest(0.0, 500);
    assert_eq!(pair.stage(), Stage::OnTime);
    pair.rest(0.5, 4000);
    assert!((pair.command(1).position - 0.5).abs() < 1e-3, "it follows anywhere from then on");
    assert_eq!(pair.inbox.standing().fared.waits, 0);
}

/// A mirrored follower with another zero, at a tenth of the swing's period behind by the delay of its jerk limit.
#[test]
fn a_follower_is_behind_by_no_more_than_what_its_jerk_takes() {
    let mirrored = FollowConfig { scale: vec![-0.5], offset: vec![0.2], ..config() };
    let mut pair = Pair::new(&mirrored, 0.4);
    let hand = |tick: i32| 0.4 + 0.5 * (4.0 * f64::from(tick) * PERIOD_S).sin();
    let mut most = 0.0_f64;
    for tick in 0..4000 {
        pair.tick(Some(hand(tick)));
        // A / J, and a command arrives in the tick after.
        let then = -0.5 * hand(tick - 9) + 0.2;
        if tick > 1000 {
            most = most.max((pair.command(1).position - then).abs());
        }
    }
    assert!(most < 2e-3, "{most}");
}

/// Those of a 16-bit position: two fifths of all ticks were at the limit of the acceleration.
#[test]
fn the_steps_of_what_is_measured_are_not_followed_as_hard_as_may_be() {
    let mut pair = Pair::new(&config(), 0.0);
    for tick in 0..4000 {
        let hand = 0.5 * (2.0 * f64::from(tick) * PERIOD_S).sin();
        pair.tick(Some((hand / 3.8e-4).round() * 3.8e-4));
    }
    let limited = pair.inbox.standing().status.limited[1];
    assert!(limited < 100, "{limited}");
}

#[test]
fn a_leader_that_does_not_reply_is_held_over_then_waited_for_and_then_missed() {
    let mut pair = Pair::new(&config(), 0.0);
    let hand = |tick: i32| 1.0 * f64::from(tick) * PERIOD_S;
    (0..1000).for_each(|tick| pair.tick(Some(hand(tick))));
    assert!((pair.command(1).velocity - 1.0).abs() < 0.05, "{:?}", pair.command(1));
    let from = pair.command(1).position;
    let stages: Vec<Stage> = (0..1200)
        .map(|_| {
            pair.tick(None);
            pair.stage()
        })
        .collect();
    let count = |stage: Stage| stages.iter().filter(|&&other| other == stage).count();
    assert!(count(Stage::OnTime) <= 4 && (78..=82).contains(&count(Stage::HeldOver)), "{stages:?}");
    assert!(count(Stage::Silent) > 100 && pair.feed.silent_ns(pair.state.now_ns).is_some());
    let beyond = pair.command(1).position - from;
    assert!((0.0..0.07).contains(&beyond) && pair.command(1).velocity.abs() < 1e-6, "{beyond}");
    // Back, and elsewhere meanwhile: it goes there, but never faster than what an offset may take beside nothing.
    let there = pair.command(1).position + 1.0;
    let [fastest, hardest] = pair.rest(there, 3000);
    assert!(fastest <= 3.0 + 1e-6 && hardest <= 20.0 + 1e-6, "{fastest} {hardest}");
    assert!(
        (pair.command(1).position - there).abs() < 1e-3 && pair.feed.silent_ns(pair.state.now_ns).is_none()
    );
}

#[test]
fn what_is_no_number_is_ignored() {
    let mut pair = Pair::new(&config(), 0.3);
    pair.rest(0.3, 2000);
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        (0..40).for_each(|_| pair.tick(Some(number)));
        assert_eq!(pair.stage(), Stage::HeldOver);
        assert!((pair.command(1).position - 0.3).abs() < 1e-3);
        assert!((pair.command(0).position - 0.3).abs() < 1e-7, "as the log has it");
        pair.rest(0.3, 200);
        assert_eq!(pair.stage(), Stage::OnTime);
    }
    let mut unknown = Pair::new(&config(), f64::NAN);
    assert_eq!(unknown.rest(f64::NAN, 100), [0.0; 2]);
}

/// Hands that jump, stop, shake, go silent, and followers that are stuck now and then.
#[test]
fn random_leaders_never_lead_a_follower_beyond_its_limits() {
    let mut random = Random::new();
    for _ in 0..40 {
        let mut pair = Pair::new(&config(), random.within(-4.0, 4.0));
        let (mut judge, mut hand) = (Judge::new(Motion::still(0.0)), Motion::default());
        for _ in 0..3000 {
            match random.whole(0, 200) {
                0 => hand.position = random.within(-7.0, 7.0),
                1..=5 => hand.velocity = random.within(-9.0, 9.0),
                6 => pair.stuck_at = pair.asked(1).map(|at| at + random.within(-0.5, 0.5)),
                7..=9 => pair.stuck_at = None,
                _ => {}
            }
            hand.position = (hand.position + hand.velocity * PERIOD_S).clamp(-7.0, 7.0);
            let shaken = hand.position + random.within(-1e-3, 1e-3);
            let leader = match random.whole(0, 20) {
                0 => None,
                1 if random.whole(0, 10) == 0 => Some(f64::NAN),
                _ => Some(shaken),
            };
            for _ in 0..if random.whole(0, 500) == 0 { random.whole(1, 200) } else { 1 } {
                pair.tick(leader);
                judge.see(pair.command(1).position);
            }
        }
        judge.check_range(Range { velocity: 6.0, acceleration: 40.0, position: [-3.0, 3.0] }, JERK);
    }
}

#[test]
fn a_follower_that_is_stuck_is_led_no_further_and_does_not_lunge_when_it_is_free() {
    let mut pair = Pair::new(&config(), 0.0);
    pair.rest(0.0, 100);
    pair.stuck_at = Some(0.1);
    for tick in 0..2000 {
        pair.tick(Some(f64::from(tick) * PERIOD_S));
        // As far as it goes on while it brakes from the leader's 1 rad/s.
        let ahead = pair.command(1).position - 0.1;
        assert!(ahead <= 0.2 + 1.0 / 80.0 + 1e-2, "{ahead}");
    }
    assert!((pair.command(1).position - 0.3).abs() < 1e-3, "it presses as far as `lead_rad`");
    // What the leader does out there is not felt.
    (0..500).for_each(|tick| pair.tick(Some(2.0 - f64::from(tick) * PERIOD_S)));
    assert!((pair.command(1).position - 0.3).abs() < 1e-3, "{:?}", pair.command(1));
    pair.stuck_at = None;
    let [fastest, hardest] = pair.rest(1.5, 4000);
    assert!(fastest <= 1.5 + 1e-6 && hardest <= 5.0 + 1e-6, "{fastest} {hardest}");
    assert!((pair.command(1).position - 1.5).abs() < 1e-3);
}

#[test]
fn a_leader_is_limp_and_is_given_a_bounded_share_of_what_its_follower_exerts() {
    let mirrored = FollowConfig { scale: vec![-1.0], feedback: 0.5, leader_damping: 0.1, ..config() };
    let mut pair = Pair::new(&mirrored, 0.0);
    let mut last = 0.0;
    for (torque, given) in [(2.0, 1.0), (-4.0, -2.0), (1e9, 10.0), (-1e9, -10.0), (f64::NAN, 0.0), (0.0, 0.0)]
    {
        for _ in 0..60 {
            pair.state.servos[1].torque = torque;
            pair.tick(Some(0.0));
            let PositionCommand { torque, kp_scale, kd_scale, .. } = pair.command(0);
            assert!((kp_scale, kd_scale) == (0.0, 0.1) && torque.abs() <= 10.0);
            last = torque;
        }
        assert!((last - given).abs() < 1e-9, "{torque}: {last}");
    }
    pair.state.servos[1].torque = 2.0;
    (0..60).for_each(|_| pair.tick(Some(0.0)));
    (0..60).for_each(|_| pair.tick(None));
    assert_eq!(pair.command(0).torque, 0.0, "a leader that does not reply is given nothing");
}

#[test]
fn pairs_that_cannot_be_are_reported() {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let with = |leader: &[&str], follower: &[&str]| FollowConfig {
        leader: names(leader),
        follower: names(follower),
        ..FollowConfig::default()
    };
    let refusal = |config: FollowConfig| match Follow::new(&config).0.prepare(&info()) {
        Err(ControlError(text)) => text.into_owned(),
        Ok(()) => String::new(),
    };
    assert!(refusal(with(&[], &[])).contains("0 joints lead, and 0 follow"));
    assert!(refusal(with(&["hand"], &[])).contains("1 joints lead, and 0 follow"));
    assert!(refusal(with(&["hand"], &["hand"])).contains("`hand` is there twice"));
    assert!(refusal(with(&["hand"], &["foot"])).contains("no servo is called `foot`"));
    let scaled = FollowConfig { scale: vec![1.0, 2.0], ..config() };
    assert!(refusal(scaled).contains("2 numbers for 1 joints"));
    let unlimited = FollowConfig { feedback: 0.1, ..config() };
    assert_eq!((refusal(config()), refusal(unlimited.clone())), (String::new(), String::new()));
    let mut info = info();
    info.joints[0].limits.torque = None;
    let text = Follow::new(&unlimited).0.prepare(&info).unwrap_err().0;
    assert!(text.contains("`feedback` needs `feedback_torque`, or `limits.torque` of `hand`"), "{text}");
}
