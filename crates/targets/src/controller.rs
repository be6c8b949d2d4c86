//! The loop's end: follows the newest curves.

use crate::Motion;
use crate::axis::{Axis, Share};
use crate::curve::{Curve, Sample, Shape};
use crate::desk::{Desk, JointTargets};
use crate::limiter::Range;
use crate::mean::{self, MOST};
use crate::message::Stage;
use crate::plan::{Plan, Status};
use crate::settings::TargetsConfig;
use khz_loop::controller::{ControlError, Controller, JointInfo, RobotInfo};
use khz_loop::feed::Feed;
use khz_loop::state::RobotState;
use khz_rt::{Reader, Writer};
use khz_servo::{PositionCommand, ServoCommand};
use khz_settings::nanoseconds;

/// Gains change by no more than 1, and torques by no more than their limit, within this time, s.
const FADE_S: f64 = 0.05;

/// Commands stay so far within the limits of position, rad: the supervisor's guard lets no command lead to a limit that it cannot be
/// rounded to, nor a velocity that reaches it within two periods.
const INSET: f64 = 1e-3;

/// And so much below those of velocity, as a share: rounding would be beyond.
const BELOW: f64 = 1e-9;

/// Follows the targets of programs beside the loop: `[controller]` with `name = "targets"`.
///
/// Before the first target, and for joints that nobody sends targets for, it holds what it was started with.
///
/// # Realtime contract
/// As every controller: it neither allocates nor locks nor waits.
pub struct Targets {
    shape: Shape,
    resumed: Share,
    silent_ns: i64,
    desk: Desk,
    feed: Feed,
    plans: Reader<Plan>,
    /// For those who send, and for the log.
    shown: Vec<Writer<Status>>,
    status: Status,
    joints: Vec<Joint>,
    /// The time of the last tick's references.
    last_ns: i64,
}

struct Joint {
    axis: Axis,
    /// Least and greatest position, rad.
    limits: [f64; 2],
    /// The piece that it follows; `None`: it holds.
    piece: Option<u32>,
    torque: f64,
    /// Greatest torque, N·m.
    most_torque: f64,
    gains: [f64; 2],
}

impl Targets {
    /// The loop's end, and the one of those who send. Allocates.
    pub fn new(settings: &TargetsConfig) -> (Self, Desk) {
        let (plans, desk) = Desk::new(settings);
        let targets = Self {
            shape: settings.shape(),
            resumed: settings.resumed(),
            silent_ns: nanoseconds(settings.silent_s, 1e9),
            desk: desk.clone(),
            feed: Feed::new(),
            plans,
            shown: Vec::new(),
            status: Status::default(),
            joints: Vec::new(),
            last_ns: 0,
        };
        (targets, desk)
    }

    /// What the supervisor is to watch.
    pub fn feed(&self) -> Feed {
        self.feed.clone()
    }
}

impl Controller for Targets {
    fn prepare(&mut self, robot: &RobotInfo) -> Result<(), ControlError> {
        let dt = robot.period_ns as f64 * 1e-9;
        self.joints = robot.joints.iter().map(|joint| Joint::new(joint, dt)).collect::<Result<_, _>>()?;
        let count = self.joints.len();
        let (offset, limited, measured) = (vec![0.0; count], vec![0; count], vec![[f64::NAN; 3]; count]);
        self.status = Status { target: offset.clone(), offset, limited, measured, ..Status::default() };
        let [(shown, status), (logged, log)] = [(); 2].map(|()| khz_rt::newest(&self.status));
        self.shown = vec![shown, logged];
        let named = self.joints.iter().zip(&robot.joints).map(|(joint, info)| JointTargets {
            name: info.name.clone(),
            velocity: joint.axis.range().velocity,
            position: joint.limits,
            torque: joint.most_torque,
            lead_ns: (joint.axis.delay() * robot.period_ns as f64) as i64,
        });
        let mut desk = self.desk.lock();
        (desk.joints, desk.status, desk.log) = (named.collect(), Some(status), Some(log));
        Ok(())
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        for (joint, servo) in self.joints.iter_mut().zip(&state.servos) {
            let velocity = if servo.velocity.is_finite() { servo.velocity } else { 0.0 };
            joint.begin(Motion { position: servo.position, velocity }, state.dt());
        }
        self.feed.nothing_expected();
        self.status.epoch = self.status.epoch.wrapping_add(1).max(1);
        (self.status.stage, self.status.age_ns) = (Stage::Idle, 0);
        self.last_ns = due_ns(state) - state.period_ns;
        self.show(state);
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let (now_ns, dt) = (due_ns(state), state.dt());
        let plan = self.plans.read();
        // What was sent before a start moves nothing after it.
        let is_current = plan.epoch == self.status.epoch;
        let has_jumped = (now_ns - self.last_ns - state.period_ns).abs() > state.period_ns / 2;
        self.last_ns = now_ns;
        let jump = has_jumped.then_some(self.resumed);
        for (at, (joint, command)) in self.joints.iter_mut().zip(commands).enumerate() {
            let curve = plan.curves.get(at).filter(|_| is_current);
            let (asked, is_anew) = joint.step(curve, self.shape, now_ns, jump, dt);
            *command = ServoCommand::Position(joint.not_leading_out(asked, state.servos[at].position));
            self.status.anchored += u64::from(is_anew);
            self.status.target[at] = joint.axis.reference().position;
            self.status.offset[at] = joint.axis.offset();
            self.status.limited[at] += u64::from(joint.axis.is_limited());
        }
        let stage = if is_current { stage(plan, self.shape, self.silent_ns, now_ns) } else { Stage::Idle };
        let age_ns = if stage == Stage::Idle { 0 } else { now_ns - plan.end_ns };
        match stage {
            Stage::Idle => self.feed.nothing_expected(),
            _ => self.feed.expect(plan.end_ns.max(plan.hold_until_ns), self.silent_ns),
        }
        self.status.note(stage, age_ns, plan.hold_until_ns >= now_ns);
        self.show(state);
        Ok(())
    }
}

impl Targets {
    fn show(&mut self, state: &RobotState) {
        (self.status.tick, self.status.now_ns) = (state.tick, state.now_ns);
        for (measured, servo) in self.status.measured.iter_mut().zip(&state.servos) {
            *measured = [servo.position, servo.velocity, servo.torque];
        }
        for shown in &mut self.shown {
            shown.value().clone_from(&self.status);
            shown.publish();
        }
    }
}

/// When the commands of this tick arrive, by the plan: they are sent in the next one.
fn due_ns(state: &RobotState) -> i64 {
    state.planned_ns + state.period_ns
}

fn stage(plan: &Plan, shape: Shape, silent_ns: i64, now_ns: i64) -> Stage {
    if !plan.is_expected && now_ns > plan.end_ns.saturating_add(shape.hold_over_ns) {
        return Stage::Idle;
    }
    match now_ns - plan.end_ns {
        ..=0 => Stage::OnTime,
        over_ns if over_ns <= shape.hold_over_ns => Stage::HeldOver,
        over_ns if over_ns <= silent_ns || now_ns <= plan.hold_until_ns => Stage::Waiting,
        _ => Stage::Silent,
    }
}

impl Status {
    fn note(&mut self, stage: Stage, age_ns: i64, is_meant: bool) {
        self.held_over += u64::from(stage == Stage::HeldOver);
        self.waits += u64::from(stage == Stage::Waiting && self.stage != Stage::Waiting && !is_meant);
        if stage != Stage::Idle && !is_meant {
            self.longest_ns = self.longest_ns.max(age_ns);
        }
        (self.stage, self.age_ns, self.is_meant) = (stage, age_ns, is_meant);
    }
}

impl Joint {
    fn new(JointInfo { name, limits }: &JointInfo, dt: f64) -> Result<Self, ControlError> {
        let motion = limits.velocity.zip(limits.greatest_acceleration()).zip(limits.greatest_jerk());
        let Some(((velocity, acceleration), jerk)) = motion else {
            let text = format!("`targets` needs `limits.velocity` of every servo, and `{name}` has none");
            return Err(ControlError(text.into()));
        };
        let ticks = mean::ticks(acceleration, jerk, dt);
        if ticks > MOST {
            let text =
                format!("`limits.jerk` of `{name}` needs a mean of {ticks} ticks, and {MOST} are the most");
            return Err(ControlError(text.into()));
        }
        let limits_of_position = limits.position.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
        let [low, high] = limits_of_position;
        let inset = (INSET + 2.0 * acceleration * dt * dt).min((high - low) / 4.0);
        let range =
            Range { velocity: velocity * (1.0 - BELOW), acceleration, position: [low + inset, high - inset] };
        let axis = Axis::new(range, ticks);
        let most_torque = limits.torque.unwrap_or(f64::INFINITY);
        Ok(Self { axis, limits: limits_of_position, piece: None, torque: 0.0, most_torque, gains: [1.0; 2] })
    }

    fn begin(&mut self, at: Motion, dt: f64) {
        self.axis.begin(at, dt);
        (self.piece, self.torque, self.gains) = (None, 0.0, [1.0; 2]);
    }

    /// The command of this tick, and whether the reference is another one than before.
    fn step(
        &mut self,
        curve: Option<&Curve>,
        shape: Shape,
        now_ns: i64,
        jump: Option<Share>,
        dt: f64,
    ) -> (PositionCommand, bool) {
        let Some(Sample { at, torque, gains, piece, share, .. }) =
            curve.and_then(|curve| curve.sample(shape, now_ns))
        else {
            // It comes to rest where it was when it was started.
            let position = self.axis.reference().position;
            let out = self.axis.step(Motion::still(position), None, dt);
            return (self.command(out), false);
        };
        let anew = (self.piece != Some(piece)).then_some(share).or(jump);
        self.piece = Some(piece);
        let fade = |from: f64, to: f64, most: f64| from + (to - from).clamp(-most, most);
        self.torque = fade(self.torque, torque, self.most_torque * dt / FADE_S);
        self.gains = [0, 1].map(|gain| fade(self.gains[gain], gains[gain], dt / FADE_S));
        let out = self.axis.step(at, anew, dt);
        (self.command(out), anew.is_some())
    }

    /// A joint that is beyond a limit, by its weight or its swing, is not sent on.
    fn not_leading_out(&self, command: PositionCommand, measured: f64) -> PositionCommand {
        let [low, high] = self.limits;
        let least = if measured <= low { 0.0 } else { f64::NEG_INFINITY };
        let most = if measured >= high { 0.0 } else { f64::INFINITY };
        PositionCommand { velocity: command.velocity.max(least).min(most), ..command }
    }

    fn command(&self, Motion { position, velocity }: Motion) -> PositionCommand {
        let [kp_scale, kd_scale] = self.gains;
        let velocity = velocity.clamp(-self.axis.range().velocity, self.axis.range().velocity);
        PositionCommand {
            velocity,
            torque: self.torque,
            kp_scale,
            kd_scale,
            ..PositionCommand::hold(position)
        }
    }
}
