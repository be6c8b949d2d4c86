//! The loop's end: follows the newest curves.

use crate::Motion;
use crate::axis::{ANYWHERE, Axis, Share};
use crate::curve::{Curve, Sample, Shape};
use crate::inbox::{Inbox, JointTargets};
use crate::limiter::Range;
use crate::mean::{self, MOST};
use crate::message::Stage;
use crate::plan::{Plan, Status};
use crate::settings::TargetsConfig;
use crate::sticks::Sticks;
use khz_loop::controller::{ControlError, Controller, JointInfo, RobotInfo};
use khz_loop::feed::Feed;
use khz_loop::state::RobotState;
use khz_loop::steer::TeleopConfig;
use khz_rt::{Reader, Writer};
use khz_run::record::Following;
use khz_servo::{PositionCommand, ServoCommand, ServoState};
use khz_settings::nanoseconds;

/// Gains change by no more than 1, and torques by no more than their limit, within this time, s.
const FADE_S: f64 = 0.05;

/// Commands stay so far within the limits of position, rad: the supervisor's guard lets no command lead to a limit that it cannot be
/// rounded to, nor a velocity that reaches it within two periods.
const INSET: f64 = 1e-3;

/// And so much below those of velocity, as a share: rounding would be beyond.
const BELOW: f64 = 1e-9;

/// A joint that is held is jogged no further from where it is than this, rad.
const LEAD: f64 = 0.2;

/// With less than this share of its position gain a joint hardly follows: where it is led means nothing.
const LIMP: f64 = 0.2;

/// Follows the targets of programs beside the loop: `[controller]` with `name = "targets"`.
///
/// Before the first target, and for joints without targets, it holds what it was started with.
///
/// # Realtime contract
/// As every controller: it neither allocates nor locks nor waits.
pub struct Targets {
    shape: Shape,
    resumed: Share,
    silent_ns: i64,
    inbox: Inbox,
    feed: Feed,
    plans: Reader<Plan>,
    /// For those who send, and for the log.
    shown: Vec<Writer<Status>>,
    status: Status,
    joints: Vec<Joint>,
    sticks: Sticks,
    last: LastTick,
}

/// When a joint is led, and by whom.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    /// When its command arrives, ns.
    pub now_ns: i64,
    /// A period, s.
    pub dt: f64,
    /// How it goes on after periods were lost since the last call.
    pub jump: Option<Share>,
    /// A program leads it, or is silent as it has announced.
    pub is_led: bool,
}

/// A joint that is led.
pub(crate) struct Joint {
    pub axis: Axis,
    /// Least and greatest position, rad.
    limits: [f64; 2],
    /// It is led no further than this, rad.
    pub near: [f64; 2],
    /// The piece that it follows; `None`: it holds.
    piece: Option<u32>,
    /// Its program fell silent while it was limp: it holds where it was then.
    stands: bool,
    torque: f64,
    /// Greatest torque, N·m.
    pub most_torque: f64,
    gains: [f64; 2],
}

impl Targets {
    /// The loop's end, and the one of those who send. `teleop` is what a full stick asks for. Allocates.
    pub fn new(settings: &TargetsConfig, teleop: &TeleopConfig) -> (Self, Inbox) {
        let (plans, inbox) = Inbox::new(settings);
        let targets = Self {
            shape: settings.shape(),
            resumed: settings.resumed(),
            silent_ns: nanoseconds(settings.silent_s, 1e9),
            inbox: inbox.clone(),
            feed: Feed::new(),
            plans,
            shown: Vec::new(),
            status: Status::default(),
            joints: Vec::new(),
            sticks: Sticks::new(&settings.sticks, teleop),
            last: LastTick::default(),
        };
        (targets, inbox)
    }

    /// What the supervisor is to watch.
    pub fn feed(&self) -> Feed {
        self.feed.clone()
    }
}

impl Controller for Targets {
    fn prepare(&mut self, robot: &RobotInfo) -> Result<(), ControlError> {
        let dt = robot.period_ns as f64 * 1e-9;
        self.sticks.prepare(robot)?;
        self.joints = robot.joints.iter().map(|joint| Joint::new(joint, dt)).collect::<Result<_, _>>()?;
        (self.status, self.shown) = shown(&self.inbox, &self.joints, robot);
        Ok(())
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        for (joint, servo) in self.joints.iter_mut().zip(&state.servos) {
            joint.begin(servo, state.dt());
        }
        self.feed.nothing_expected();
        self.sticks.begin();
        self.status.begin();
        self.last.begin(state);
        self.status.show(state, &mut self.shown);
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let (now_ns, dt) = (due_ns(state), state.dt());
        if self.sticks.look(&state.teleop) {
            self.status.begin();
        }
        self.status.is_steered = self.sticks.is_held();
        let plan = self.plans.read();
        // What was sent before a start, or before an operator had the sticks, moves nothing after it.
        let is_current = plan.epoch == self.status.epoch;
        let jump = self.last.has_jumped(state).then_some(self.resumed);
        let stage = if is_current { stage(plan, self.shape, self.silent_ns, now_ns) } else { Stage::Idle };
        let is_meant = plan.hold_until_ns >= now_ns;
        // A program that is gone holds nothing: its joints are to stand.
        let is_led = matches!(stage, Stage::OnTime | Stage::HeldOver) || is_meant && stage != Stage::Idle;
        let moment = Moment { now_ns, dt, jump, is_led };
        self.status.following = Following { tick: state.tick, ..Following::default() };
        for (at, (joint, command)) in self.joints.iter_mut().zip(commands).enumerate() {
            let curve = plan.curves.get(at).filter(|_| is_current);
            joint.go_on_from(state.led_to[at], dt);
            let servo = &state.servos[at];
            let (asked, is_anew) = match self.status.is_steered {
                true => (joint.jog(self.sticks.share(at, &state.teleop), servo, dt), false),
                false => joint.step(curve, self.shape, servo, moment),
            };
            let asked = joint.not_leading_out(asked, servo.position);
            *command = ServoCommand::Position(asked);
            self.status.lead(at, &joint.axis, is_anew, asked.position);
        }
        let age_ns = if stage == Stage::Idle { 0 } else { now_ns - plan.end_ns };
        match stage {
            Stage::Idle => self.feed.nothing_expected(),
            _ => self.feed.expect(plan.owed_ns(), self.silent_ns),
        }
        self.status.note(stage, age_ns, is_meant);
        self.status.show(state, &mut self.shown);
        Ok(())
    }
}

/// When the references of the last tick were due, ns.
#[derive(Default)]
pub(crate) struct LastTick(i64);

impl LastTick {
    /// The first tick is that of this state.
    pub(crate) fn begin(&mut self, state: &RobotState) {
        self.0 = due_ns(state) - state.period_ns;
    }

    /// Periods were lost since the last call.
    pub(crate) fn has_jumped(&mut self, state: &RobotState) -> bool {
        let now_ns = due_ns(state);
        let since_ns = now_ns - std::mem::replace(&mut self.0, now_ns);
        (since_ns - state.period_ns).abs() > state.period_ns / 2
    }
}

/// The status, and where it is published: for programs that send, and for the log.
pub(crate) fn shown(inbox: &Inbox, joints: &[Joint], robot: &RobotInfo) -> (Status, Vec<Writer<Status>>) {
    let count = joints.len();
    let (offset, limited, measured) = (vec![0.0; count], vec![0; count], vec![[f64::NAN; 3]; count]);
    let (measured_ns, command) = (vec![i64::MIN; count], vec![f64::NAN; count]);
    let target = offset.clone();
    let whole = Status { target, offset, limited, measured, measured_ns, command, ..Status::default() };
    let [(shown, status), (logged, log)] = [(); 2].map(|()| khz_rt::newest(&whole));
    let named = joints.iter().zip(&robot.joints).map(|(joint, info)| JointTargets {
        name: info.name.clone(),
        velocity: joint.axis.range().velocity,
        acceleration: joint.axis.range().acceleration,
        position: joint.limits,
        torque: joint.most_torque,
        lead_ns: (joint.axis.delay() * robot.period_ns as f64) as i64,
    });
    let mut inbox = inbox.lock();
    (inbox.joints, inbox.status, inbox.log) = (named.collect(), Some(status), Some(log));
    (whole, vec![shown, logged])
}

impl Status {
    /// Reports to them how it stands after this state.
    pub(crate) fn show(&mut self, state: &RobotState, to: &mut [Writer<Self>]) {
        (self.tick, self.now_ns) = (state.tick, state.now_ns);
        for (at, servo) in state.servos.iter().enumerate() {
            self.measured[at] = [servo.position, servo.velocity, servo.torque];
            self.measured_ns[at] = servo.at_ns;
        }
        for shown in to {
            shown.value().clone_from(self);
            shown.publish();
        }
    }

    /// Another start of the controller.
    pub(crate) fn begin(&mut self) {
        self.epoch = self.epoch.wrapping_add(1).max(1);
        self.following = Following::default();
        (self.stage, self.age_ns) = (Stage::Idle, 0);
    }

    /// A joint in this tick: led as `axis` has it, and sent to `command`, rad.
    pub(crate) fn lead(&mut self, at: usize, axis: &Axis, is_anew: bool, command: f64) {
        self.command[at] = command;
        self.target[at] = axis.reference().position;
        self.offset[at] = axis.offset();
        self.limited[at] += u64::from(axis.is_limited());
        let now = &mut self.following;
        now.anew += u16::from(is_anew);
        now.limited += u16::from(axis.is_limited());
        now.offset = now.offset.max(axis.offset().abs() as f32);
    }

    /// Where the targets stand in this tick.
    pub(crate) fn note(&mut self, stage: Stage, age_ns: i64, is_meant: bool) {
        (self.stage, self.age_ns) = (stage, age_ns);
        let now = &mut self.following;
        (now.stage, now.age_us, now.meant) = (stage.into(), age_ns / 1000, is_meant);
        self.course.tick(now);
    }
}

/// No further from there; anywhere, if its position is unknown.
pub(crate) fn around(measured: f64, most: f64) -> [f64; 2] {
    if measured.is_finite() { [measured - most, measured + most] } else { ANYWHERE }
}

/// When the commands of this tick arrive, by the plan: they are sent in the next one.
pub(crate) fn due_ns(state: &RobotState) -> i64 {
    state.planned_ns + state.period_ns
}

fn stage(plan: &Plan, shape: Shape, silent_ns: i64, now_ns: i64) -> Stage {
    if !plan.is_expected && now_ns > plan.end_ns.saturating_add(shape.hold_over_ns) {
        return Stage::Idle;
    }
    match now_ns - plan.end_ns {
        ..=0 => Stage::OnTime,
        over_ns if over_ns <= shape.hold_over_ns => Stage::HeldOver,
        _ if now_ns.saturating_sub(plan.owed_ns()) <= silent_ns => Stage::Waiting,
        _ => Stage::Silent,
    }
}

impl Joint {
    pub(crate) fn new(
        JointInfo { name, limits, torque, .. }: &JointInfo,
        dt: f64,
    ) -> Result<Self, ControlError> {
        let motion = limits.velocity.zip(limits.greatest_acceleration()).zip(limits.greatest_jerk());
        let Some(((velocity, acceleration), jerk)) = motion else {
            let text = format!("smooth motion needs `limits.velocity` of every servo, and `{name}` has none");
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
        let most_torque = torque.unwrap_or(f64::INFINITY);
        let (limits, near) = (limits_of_position, ANYWHERE);
        Ok(Self { axis, limits, near, piece: None, stands: false, torque: 0.0, most_torque, gains: [1.0; 2] })
    }

    /// It moves as it was measured.
    pub(crate) fn begin(&mut self, servo: &ServoState, dt: f64) {
        self.start_where_it_is(servo, dt);
        (self.piece, self.stands, self.torque, self.gains) = (None, false, 0.0, [1.0; 2]);
    }

    fn start_where_it_is(&mut self, servo: &ServoState, dt: f64) {
        let velocity = if servo.velocity.is_finite() { servo.velocity } else { 0.0 };
        self.axis.begin(Motion { position: servo.position, velocity }, dt);
    }

    /// Torque and gains go on towards these. A joint that was limp is led from where it is when its gain comes back, which is anywhere: whether it is.
    fn fade(&mut self, torque: f64, gains: [f64; 2], servo: &ServoState, dt: f64) -> bool {
        let fade = |from: f64, to: f64, most: f64| from + (to - from).clamp(-most, most);
        let was_limp = self.gains[0] < LIMP && gains[0] > self.gains[0] && servo.position.is_finite();
        if was_limp {
            self.start_where_it_is(servo, dt);
        }
        self.torque = fade(self.torque, torque, self.most_torque * dt / FADE_S);
        self.gains = [0, 1].map(|gain| fade(self.gains[gain], gains[gain], dt / FADE_S));
        was_limp
    }

    /// Where the supervisor led it in the place of its last command, if it did.
    pub(crate) fn go_on_from(&mut self, led_to: Option<f64>, dt: f64) {
        if let Some(position) = led_to {
            self.axis.go_on_from(position, dt);
        }
    }

    /// The command of this tick, in which it is to move with this share of its greatest velocity, with all its gain and no torque of a program, but
    /// is led no further than [`LEAD`] from where it is. What leads it changes its velocity no faster than the joint may: so nothing has to
    /// catch up.
    fn jog(&mut self, share: f64, servo: &ServoState, dt: f64) -> PositionCommand {
        self.fade(0.0, [1.0; 2], servo, dt);
        let (range, reference) = (self.axis.range(), self.axis.reference());
        let change = range.acceleration * dt;
        let wanted = share * range.velocity;
        let mut velocity = reference.velocity + (wanted - reference.velocity).clamp(-change, change);
        if (reference.position - servo.position) * velocity.signum() >= LEAD {
            velocity = 0.0;
        }
        let [low, high] = range.position;
        let position = (reference.position + velocity * dt).max(low).min(high);
        let velocity = if position == low || position == high { 0.0 } else { velocity };
        // A joint at rest carries its weight, however far it sags.
        let near = if share == 0.0 { ANYWHERE } else { around(servo.position, LEAD) };
        let out = self.axis.step_near(Motion { position, velocity }, None, near, dt);
        self.axis.stay_near();
        self.command(out)
    }

    /// The command of this tick, and whether the reference is another one than before.
    pub(crate) fn step(
        &mut self,
        curve: Option<&Curve>,
        shape: Shape,
        servo: &ServoState,
        Moment { now_ns, dt, jump, is_led }: Moment,
    ) -> (PositionCommand, bool) {
        let sample = curve.and_then(|curve| curve.sample(shape, now_ns));
        let gains = sample.filter(|_| is_led).map_or([1.0; 2], |sample| sample.gains);
        let was_limp = self.fade(sample.map_or(0.0, |sample| sample.torque), gains, servo, dt);
        // A joint that was limp when its program fell silent may be anywhere: it stands there.
        self.stands = !is_led && (self.stands || was_limp);
        let Some(Sample { at, piece, share, .. }) = sample.filter(|_| !self.stands) else {
            // It comes to rest where it was when it was started, or let go of.
            self.piece = None;
            let position = self.axis.reference().position;
            let out = self.axis.step(Motion::still(position), None, dt);
            return (self.command(out), false);
        };
        let anew = (self.piece != Some(piece)).then_some(share).or(jump);
        self.piece = Some(piece);
        let out = self.axis.step_near(at, anew.or(was_limp.then_some(share)), self.near, dt);
        (self.command(out), anew.is_some())
    }

    /// A joint that is beyond a limit, by its weight or its swing, is not sent on.
    pub(crate) fn not_leading_out(&self, command: PositionCommand, measured: f64) -> PositionCommand {
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
