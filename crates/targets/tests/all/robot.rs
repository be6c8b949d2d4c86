//! A robot that goes where it is commanded, in virtual time.

use khz_loop::controller::{Controller, JointInfo, RobotInfo};
use khz_loop::feed::Feed;
use khz_loop::state::RobotState;
use khz_loop::steer::TeleopConfig;
use khz_loop::supervisor::Limits;
use khz_servo::{PositionCommand, ServoCommand};
use khz_targets::{Inbox, Points, Refused, Sender, Status, Targets, TargetsConfig};

pub const MS: i64 = 1_000_000;
/// When the first tick is.
pub const START_MS: i64 = 10_000;

pub struct Robot {
    pub inbox: Inbox,
    pub feed: Feed,
    controller: Targets,
    pub state: RobotState,
    commands: Vec<ServoCommand>,
    joints: Vec<JointInfo>,
}

pub fn limits(jerk: f64) -> Limits {
    Limits {
        position: Some([-3.0, 3.0]),
        velocity: Some(6.0),
        acceleration: Some(40.0),
        jerk: Some(jerk),
        torque: Some(10.0),
    }
}

/// An arm of three joints.
pub fn info(jerk: f64, torque: Option<f64>) -> RobotInfo {
    let joint = |name: &str| JointInfo { name: name.to_owned(), limits: limits(jerk), gains: None, torque };
    RobotInfo {
        name: "arm".to_owned(),
        period_ns: MS,
        joints: ["shoulder", "elbow", "wrist"].map(joint).into(),
        has_imu: false,
        parameters: Vec::new(),
    }
}

impl Robot {
    /// Started, with three joints at 0.
    pub fn new(settings: &TargetsConfig, jerk: f64) -> Self {
        let mut robot = Self::at_rest(settings, jerk);
        robot.start();
        robot
    }

    /// Started, with joints that have no limit of torque.
    pub fn without_torque() -> Self {
        let mut robot = Self::of(&TargetsConfig::default(), 4000.0, None);
        robot.start();
        robot
    }

    /// Not started yet.
    pub fn at_rest(settings: &TargetsConfig, jerk: f64) -> Self {
        Self::of(settings, jerk, limits(jerk).torque)
    }

    fn of(settings: &TargetsConfig, jerk: f64, torque: Option<f64>) -> Self {
        let info = info(jerk, torque);
        let (mut controller, inbox) = Targets::new(settings, &TeleopConfig::default());
        controller.prepare(&info).unwrap();
        let mut state = RobotState::unknown(3, false, MS);
        for servo in &mut state.servos {
            (servo.position, servo.velocity, servo.torque) = (0.0, 0.0, 0.0);
        }
        let commands = vec![ServoCommand::Stop; 3];
        let (feed, joints) = (controller.feed(), info.joints);
        let mut robot = Self { inbox, feed, controller, state, commands, joints };
        robot.set_time(START_MS * MS);
        robot
    }

    fn set_time(&mut self, planned_ns: i64) {
        (self.state.planned_ns, self.state.started_ns, self.state.now_ns) =
            (planned_ns, planned_ns, planned_ns);
    }

    pub fn start(&mut self) {
        self.controller.start(&self.state).unwrap();
    }

    /// Now, ms.
    pub fn now_ms(&self) -> i64 {
        self.state.now_ns / MS
    }

    /// The next tick, `lost` ticks late; joints are where they were commanded.
    pub fn tick_after(&mut self, lost: i64) {
        self.set_time(self.state.planned_ns + (1 + lost) * MS);
        self.state.tick += 1;
        self.controller.update(&self.state, &mut self.commands).unwrap();
        for (servo, command) in self.state.servos.iter_mut().zip(&self.commands) {
            if let ServoCommand::Position(command) = command {
                (servo.position, servo.velocity) = (command.position, command.velocity);
            }
        }
    }

    pub fn ticks(&mut self, count: i64) {
        (0..count).for_each(|_| self.tick_after(0));
    }

    pub fn command(&self, joint: usize) -> PositionCommand {
        match self.commands[joint] {
            ServoCommand::Position(command) => command,
            other => panic!("{other:?}"),
        }
    }

    /// Where it is commanded, or stands without a command.
    pub fn command_or_rest(&self, joint: usize) -> f64 {
        match self.commands[joint] {
            ServoCommand::Position(command) => command.position,
            _ => self.state.servos[joint].position,
        }
    }

    /// As it is commanded to move, or stands without a command.
    pub fn velocity_or_rest(&self, joint: usize) -> f64 {
        match self.commands[joint] {
            ServoCommand::Position(command) => command.velocity,
            _ => 0.0,
        }
    }

    pub fn position(&self, joint: usize) -> f64 {
        self.command(joint).position
    }

    pub fn limits(&self) -> &Limits {
        &self.joints[0].limits
    }

    pub fn status(&self) -> Status {
        self.inbox.status()
    }

    /// All joints at one position, at so many ms from now.
    pub fn send(&self, name: &str, points: &[(i64, f64)]) -> Result<(), Refused> {
        self.send_as(&Sender::new(name), &self.points(points))
    }

    pub fn send_as(&self, sender: &Sender, points: &Points) -> Result<(), Refused> {
        self.inbox.send(sender, points, self.state.now_ns)
    }

    pub fn points(&self, points: &[(i64, f64)]) -> Points {
        let at_ns = points.iter().map(|(ms, _)| self.state.now_ns + ms * MS).collect();
        Points::new(at_ns, points.iter().map(|&(_, position)| vec![position; 3]).collect())
    }

    /// Messages of `name` refused for this reason.
    pub fn refused(&self, name: &str, why: &Refused) -> u64 {
        let accounts = self.inbox.standing().accounts;
        let account = accounts.iter().find(|account| account.name == name);
        account.map_or(0, |account| account.counts.refused[why.place()])
    }
}
