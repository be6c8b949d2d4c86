//! `[controller]` with `name = "follow"`: joints of one arm follow those of another, which a hand leads. Positions go one way, torques back
//! if they are wanted.
//!
//! ```text
//! leader, measured ──► tracker ──► reference ──► as a target's ──► follower
//! leader, torque ◄──────────── feedback ◄──────────────────────── torque, measured
//! ```
//! A leader is not moved on: it is limp, but for its damping and for the torque that it is given back.

use crate::Motion;
use crate::axis::{ANYWHERE, Share};
use crate::controller::{Joint, LastTick, Moment, around, due_ns, shown};
use crate::curve::{Curve, Knot, Shape};
use crate::inbox::Inbox;
use crate::message::Stage;
use crate::plan::Status;
use crate::settings::TargetsConfig;
use khz_loop::controller::{ControlError, Controller, RobotInfo};
use khz_loop::feed::Feed;
use khz_loop::state::RobotState;
use khz_rt::Writer;
use khz_run::record::Following;
use khz_servo::{PositionCommand, ServoCommand, ServoState};
use khz_settings::{nanoseconds, section};

section! {
    /// `[controller]` with `name = "follow"`: joints of one arm follow those of another one of the same robot file, which a hand leads.
    FollowConfig {
        /// The joints that are led by hand; they are limp.
        leader: Vec<String>, "";
        /// The joint that follows each of them, in the same order.
        follower: Vec<String>, "";
        /// How far a follower goes per rad of its leader, below 0 where it is mirrored: one number for all, or one each.
        scale: Vec<f64> = vec![1.0], "", -100.0 => 100.0;
        /// Where a follower is when its leader is at 0: one number for all, or one each.
        offset: Vec<f64> = vec![0.0], "rad", -10_000.0 => 10_000.0;
        /// Share of its velocity gain that brakes a leader.
        leader_damping: f64 = 0.0, "", 0.0 => 1.0;
        /// Share of a follower's torque that its leader is given back. 0: none. With a long delay the pair swings (docs/targets.md).
        feedback: f64 = 0.0, "", 0.0 => 1.0;
        /// The most that a leader is given back, and no more than its `limits.torque`; with `feedback` one of both is needed.
        feedback_torque: Option<f64> = None, "N·m", 0.001 => 1000.0;
        /// A follower that cannot follow is led no further than this from where it is.
        lead_rad: f64 = 0.2, "rad", 0.001 => 100.0;
        /// As long as a follower is further than this from where its leader has it, at the start, nothing follows. Without it the follower
        /// goes there.
        align_rad: Option<f64> = None, "rad", 0.0 => 100.0;
        /// How fast a follower goes to its leader when they are apart, as a multiple of what is usual: a quarter of its velocity and an
        /// eighth of its acceleration.
        catch_up: f64 = 1.0, "", 0.01 => 8.0;
        /// A follower whose leader does not reply comes to rest within this time.
        hold_over_s: f64 = 0.08, "s", 0.001 => 1.0;
        /// A leader that does not reply for so long is the trigger `targets`.
        silent_s: f64 = 1.0, "s", 0.0 => 3600.0;
    }
}

/// A position that is further from what was expected than this is another one, rad: no hand is so fast between two ticks.
const JUMP: f64 = 0.1;
/// How fast the tracker follows what is measured, rad/s: at 20 rad/s² it is 1 mrad behind, and the steps of a 16-bit position are felt no more.
const BANDWIDTH: f64 = 150.0;
/// A leader is on time if it replied within so many periods: a reply may be missed.
const PERIODS: i64 = 3;
/// The steps of a leader's position are caught up within this time, s.
const EASE_S: f64 = 0.01;
/// The torque that is given back comes and goes within this time, s.
const FADE_S: f64 = 0.05;

/// A leader and its follower, by their places in the robot file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Who leads.
    pub leader: usize,
    /// Who follows.
    pub follower: usize,
    /// Follower's rad per rad of the leader.
    pub scale: f64,
    /// rad.
    pub offset: f64,
}

impl FollowConfig {
    /// The pairs, of a robot whose joints have these names.
    ///
    /// # Errors
    /// The key that is wrong, and why. Allocates.
    pub fn pairs(&self, joints: &[&str]) -> Result<Vec<Pair>, (&'static str, String)> {
        let Self { leader, follower, .. } = self;
        if leader.is_empty() || leader.len() != follower.len() {
            let [leaders, followers] = [leader.len(), follower.len()];
            return Err(("follower", format!("{leaders} joints lead, and {followers} follow")));
        }
        let place = |key: &'static str, name: &String| {
            let found = joints.iter().position(|joint| joint == name);
            found.ok_or_else(|| (key, format!("no servo is called `{name}`")))
        };
        let of = |key: &'static str, names: &[String]| -> Result<Vec<usize>, _> {
            names.iter().map(|name| place(key, name)).collect()
        };
        let [leaders, followers] = [of("leader", leader)?, of("follower", follower)?];
        let all: Vec<usize> = leaders.iter().chain(&followers).copied().collect();
        if let Some((_, &twice)) = all.iter().enumerate().find(|(at, place)| all[..*at].contains(place)) {
            return Err(("follower", format!("`{}` is there twice", joints[twice])));
        }
        let [scale, offset] =
            [each("scale", &self.scale, leaders.len())?, each("offset", &self.offset, leaders.len())?];
        let pairs = leaders.into_iter().zip(followers).zip(scale.into_iter().zip(offset));
        Ok(pairs
            .map(|((leader, follower), (scale, offset))| Pair { leader, follower, scale, offset })
            .collect())
    }

    /// The most torque, N·m, that a leader with this limit is given back; `None`: not set.
    pub fn most_torque(&self, limit: Option<f64>) -> Option<f64> {
        [self.feedback_torque, limit].into_iter().flatten().reduce(f64::min)
    }

    fn targets(&self) -> TargetsConfig {
        let Self { catch_up, hold_over_s, silent_s, .. } = *self;
        TargetsConfig { catch_up, hold_over_s, silent_s, ..TargetsConfig::default() }
    }
}

/// One number for all, or one each.
fn each(key: &'static str, numbers: &[f64], count: usize) -> Result<Vec<f64>, (&'static str, String)> {
    match *numbers {
        [one] => Ok(vec![one; count]),
        _ if numbers.len() == count => Ok(numbers.to_vec()),
        _ => Err((key, format!("{} numbers for {count} joints; write one, or one each", numbers.len()))),
    }
}

/// One arm follows another.
///
/// # Realtime contract
/// As every controller: it neither allocates nor locks nor waits.
pub struct Follow {
    config: FollowConfig,
    shape: Shape,
    shares: [Share; 2],
    silent_ns: i64,
    inbox: Inbox,
    feed: Feed,
    shown: Vec<Writer<Status>>,
    status: Status,
    /// All of the robot; those of leaders only know their limits.
    joints: Vec<Joint>,
    links: Vec<Link>,
    /// They follow; before, a leader is too far away.
    is_engaged: bool,
    last: LastTick,
}

/// A pair at work.
struct Link {
    pair: Pair,
    tracker: Tracker,
    /// Where the follower is to be: a single point, and what follows it.
    curve: Curve,
    /// Of the torque that is given back, 0 to 1.
    felt: f64,
}

/// Where a leader is, and how fast, by what is measured of it.
#[derive(Clone, Copy, Debug, Default)]
struct Tracker {
    at: Motion,
    at_ns: Option<i64>,
}

/// The result of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    /// Nothing: it is no newer than the last one, or no number.
    None,
    /// The leader has moved on.
    Moved,
    /// It has not replied for some time.
    Again,
    /// It is somewhere else.
    Elsewhere,
}

impl Follow {
    /// The controller, and a handle to read how it stands. No other targets are taken. Allocates.
    pub fn new(config: &FollowConfig) -> (Self, Inbox) {
        let targets = config.targets();
        let (_, inbox) = Inbox::new(&targets);
        let follow = Self {
            config: config.clone(),
            shape: targets.shape(),
            shares: [targets.replaced(), targets.resumed()],
            silent_ns: nanoseconds(config.silent_s, 1e9),
            inbox: inbox.clone(),
            feed: Feed::new(),
            shown: Vec::new(),
            status: Status::default(),
            joints: Vec::new(),
            links: Vec::new(),
            is_engaged: false,
            last: LastTick::default(),
        };
        (follow, inbox)
    }

    /// What the supervisor is to watch.
    pub fn feed(&self) -> Feed {
        self.feed.clone()
    }
}

impl Controller for Follow {
    fn prepare(&mut self, robot: &RobotInfo) -> Result<(), ControlError> {
        let names: Vec<&str> = robot.joints.iter().map(|joint| joint.name.as_str()).collect();
        let wrong = |(key, why): (&str, String)| ControlError(format!("`controller.{key}`: {why}").into());
        let pairs = self.config.pairs(&names).map_err(wrong)?;
        let dt = robot.period_ns as f64 * 1e-9;
        self.joints = robot.joints.iter().map(|joint| Joint::new(joint, dt)).collect::<Result<_, _>>()?;
        let most = |pair: &Pair| self.config.most_torque(robot.joints[pair.leader].limits.torque);
        if let Some(pair) = pairs.iter().find(|pair| self.config.feedback > 0.0 && most(pair).is_none()) {
            let text =
                format!("`feedback` needs `feedback_torque`, or `limits.torque` of `{}`", names[pair.leader]);
            return Err(ControlError(text.into()));
        }
        for pair in &pairs {
            self.joints[pair.leader].most_torque = most(pair).unwrap_or(0.0);
        }
        pairs.iter().for_each(|pair| self.joints[pair.follower].axis.ease(EASE_S));
        self.links = pairs.into_iter().map(Link::new).collect();
        (self.status, self.shown) = shown(&self.inbox, &self.joints, robot);
        Ok(())
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        for (joint, servo) in self.joints.iter_mut().zip(&state.servos) {
            joint.begin(servo, state.dt());
            joint.near = ANYWHERE;
        }
        self.links.iter_mut().for_each(Link::begin);
        self.is_engaged = false;
        self.feed.nothing_expected();
        self.status.begin();
        self.last.begin(state);
        self.status.show(state, &mut self.shown);
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let (now_ns, dt) = (due_ns(state), state.dt());
        let jump = self.last.has_jumped(state).then_some(self.shares[1]);
        for link in &mut self.links {
            let range = *self.joints[link.pair.follower].axis.range();
            let leader = as_logged(&state.servos[link.pair.leader], state.now_ns);
            link.track(&leader, &range, self.shares, PERIODS * state.period_ns);
        }
        self.is_engaged |= self.are_aligned();
        self.status.following = Following { tick: state.tick, ..Following::default() };
        for (at, (joint, command)) in self.joints.iter_mut().zip(&mut *commands).enumerate() {
            let link = self.links.iter().find(|link| link.pair.follower == at);
            let curve = link.map(|link| &link.curve).filter(|_| self.is_engaged);
            joint.near = link.map_or(ANYWHERE, |_| around(state.servos[at].position, self.config.lead_rad));
            joint.go_on_from(state.led_to[at], dt);
            let moment = Moment { now_ns, dt, jump, is_led: true };
            let (asked, is_anew) = joint.step(curve, self.shape, &state.servos[at], moment);
            let asked = joint.not_leading_out(asked, state.servos[at].position);
            *command = ServoCommand::Position(asked);
            self.status.lead(at, &joint.axis, is_anew, asked.position);
        }
        for link in &mut self.links {
            let (leader, follower) = (link.pair.leader, &state.servos[link.pair.follower]);
            let is_felt = self.is_engaged && follower.fresh && link.is_current(now_ns, state.period_ns);
            let most = self.joints[leader].most_torque;
            let torque = link.torque(follower.torque, is_felt, self.config.feedback, most, dt);
            commands[leader] =
                ServoCommand::Position(limp(link.tracker.at.position, self.config.leader_damping, torque));
            (self.status.target[leader], self.status.offset[leader]) = (link.tracker.at.position, 0.0);
            self.status.command[leader] = link.tracker.at.position;
        }
        self.report(now_ns, state);
        Ok(())
    }
}

impl Follow {
    /// Every leader replies, and each follower near enough to where it is to be.
    fn are_aligned(&self) -> bool {
        let most = self.config.align_rad.unwrap_or(f64::INFINITY);
        self.links.iter().all(|link| {
            let at = self.joints[link.pair.follower].axis.reference().position;
            link.curve.0.first().is_some_and(|knot| (knot.at.position - at).abs() <= most)
        })
    }

    fn report(&mut self, now_ns: i64, state: &RobotState) {
        let received_ns = self.links.iter().map(|link| link.tracker.at_ns.unwrap_or(i64::MIN)).min();
        let received_ns = received_ns.filter(|_| self.is_engaged);
        let on_time_ns = PERIODS * state.period_ns;
        match received_ns {
            Some(received_ns) => self.feed.expect(received_ns, self.silent_ns),
            None => self.feed.nothing_expected(),
        }
        let age_ns = received_ns
            .map_or(0, |received_ns| now_ns.saturating_sub(received_ns.saturating_add(on_time_ns)));
        let stage = match age_ns {
            _ if received_ns.is_none() => Stage::Waiting,
            ..=0 => Stage::OnTime,
            over_ns if over_ns <= self.shape.hold_over_ns => Stage::HeldOver,
            over_ns if over_ns <= self.silent_ns => Stage::Waiting,
            _ => Stage::Silent,
        };
        self.status.note(stage, age_ns, received_ns.is_none());
        self.status.show(state, &mut self.shown);
    }
}

/// Where a servo is and since when, with the digits that the log keeps: `khz replay` leads the follower the same.
fn as_logged(servo: &ServoState, now_ns: i64) -> ServoState {
    let age_ns = now_ns.saturating_sub(servo.at_ns);
    let at_ns = if servo.is_known() { now_ns - age_ns / 1000 * 1000 } else { servo.at_ns };
    ServoState { position: f64::from(servo.position as f32), at_ns, ..*servo }
}

/// The command of a leader: moved on by nothing but a torque.
fn limp(position: f64, damping: f64, torque: f64) -> PositionCommand {
    PositionCommand { torque, kp_scale: 0.0, kd_scale: damping, ..PositionCommand::hold(position) }
}

impl Link {
    fn new(pair: Pair) -> Self {
        Self { pair, tracker: Tracker::default(), curve: Curve(Vec::with_capacity(1)), felt: 0.0 }
    }

    fn begin(&mut self) {
        self.tracker = Tracker::default();
        self.curve.0.clear();
        self.felt = 0.0;
    }

    /// What is measured of the leader becomes the reference of the follower.
    fn track(&mut self, leader: &ServoState, range: &crate::Range, shares: [Share; 2], on_time_ns: i64) {
        let news = self.tracker.see(leader, on_time_ns);
        let last = self.curve.0.pop();
        let (piece, share) = last.map_or((0, shares[0]), |knot| (knot.piece, knot.share));
        let (piece, share) = match news {
            News::None => {
                self.curve.0.extend(last);
                return;
            }
            News::Moved => (piece, share),
            News::Again => (piece.wrapping_add(1), shares[1]),
            News::Elsewhere => (piece.wrapping_add(1), shares[0]),
        };
        let at = self.pair.led(self.tracker.at, range);
        let due_ns = self.tracker.at_ns.unwrap_or(0);
        self.curve.0.push(Knot { due_ns, at, torque: 0.0, gains: [1.0; 2], piece, share, is_given: true });
    }

    fn is_current(&self, now_ns: i64, period_ns: i64) -> bool {
        self.tracker.at_ns.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) <= (PERIODS + 1) * period_ns)
    }

    /// What the leader is given of its follower's torque, at most `most`.
    fn torque(&mut self, of_follower: f64, is_felt: bool, feedback: f64, most: f64, dt: f64) -> f64 {
        let is_felt = is_felt && of_follower.is_finite();
        let step = dt / FADE_S;
        self.felt = if is_felt { (self.felt + step).min(1.0) } else { (self.felt - step).max(0.0) };
        // The power that the follower gives is taken from the leader.
        let whole = if of_follower.is_finite() { -feedback * self.pair.scale * of_follower } else { 0.0 };
        self.felt * whole.clamp(-most, most)
    }
}

impl Pair {
    /// Where the follower is to be, within its range.
    fn led(&self, leader: Motion, range: &crate::Range) -> Motion {
        let [low, high] = range.position;
        let position = self.scale * leader.position + self.offset;
        let within = position.max(low).min(high);
        let velocity = (self.scale * leader.velocity).clamp(-range.velocity, range.velocity);
        Motion { position: within, velocity: if within == position { velocity } else { 0.0 } }
    }
}

impl Tracker {
    fn see(&mut self, servo: &ServoState, on_time_ns: i64) -> News {
        let ServoState { position, at_ns, .. } = *servo;
        if !position.is_finite() || !servo.is_known() {
            return News::None;
        }
        let Some(last_ns) = self.at_ns.filter(|&last_ns| last_ns <= at_ns) else {
            (self.at, self.at_ns) = (Motion::still(position), Some(at_ns));
            return News::Elsewhere;
        };
        if at_ns == last_ns {
            return News::None;
        }
        self.at_ns = Some(at_ns);
        let apart = (at_ns - last_ns) as f64 * 1e-9;
        let expected = self.at.carried_on(apart);
        let off = position - expected.position;
        if at_ns - last_ns > on_time_ns {
            self.at = Motion::still(position);
            return News::Again;
        }
        if off.abs() > JUMP {
            self.at = Motion::still(position);
            return News::Elsewhere;
        }
        // Critically damped.
        let stays = (-BANDWIDTH * apart).exp();
        let (of_position, of_velocity) = (1.0 - stays * stays, (1.0 - stays) * (1.0 - stays));
        self.at = Motion {
            position: expected.position + of_position * off,
            velocity: expected.velocity + of_velocity * off / apart,
        };
        News::Moved
    }
}
