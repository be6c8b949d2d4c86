//! What can happen in one tick, and every combination of it up to a number of events at once.

use khz_link::ImuSample;
use khz_loop::state::{ImuState, RobotState};
use khz_loop::supervisor::{Cause, Observation, Phase, Recover, SupervisorSettings};
use khz_loop::{Doing, Fault, Mode, PositionCommand, Refused, ServoCommand, ServoState};

/// Something that is not as it should be, or a request, in one tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    Servo(usize, ServoEvent),
    Overrun,
    SlowController,
    /// The controller is late because its thread waited for a CPU.
    PreemptedController,
    /// The loop was held up before this tick, long enough to be reported.
    HeldUp,
    LinkDown,
    /// Two replies to one query.
    AnsweredTwice,
    /// Such replies again and again.
    Intruded,
    Stop(Cause),
    OperatorSilent,
    TargetsSilent,
    Imu(ImuEvent),
    Arm,
    Controller(Cause),
    Command(usize, CommandEvent),
}

/// What a servo may do instead of replying in time that it is well, moving, and in the mode it was commanded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServoEvent {
    /// No reply in this tick; there was one in the tick before.
    Missed,
    /// No reply for longer than `stale_ms`.
    Stale,
    /// It has never replied.
    Unknown,
    Fault,
    TimedOut,
    /// Mode 0, whatever it was commanded to.
    Off,
    /// Running, whatever it was commanded to.
    Runs,
    PositionNan,
    VelocityNan,
    /// Its position is beyond what its format carries.
    Saturated,
    /// It refused a register of the last command.
    Refused,
    /// Far outside its position limits.
    OutOfLimits,
    /// Much faster than its velocity limit.
    Fast,
    Still,
    LowVoltage,
    Hot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImuEvent {
    Silent,
    Nan,
    Tilted,
}

/// What the controller may command instead of holding a position within the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandEvent {
    Nan,
    Infinite,
    OutOfLimits,
    StopJoint,
    DampJoint,
}

impl Event {
    /// Every event of a robot with `servos` servos.
    pub fn all(servos: usize) -> Vec<Self> {
        use CommandEvent as Command;
        use ServoEvent as Servo;
        let servo = [
            Servo::Missed,
            Servo::Stale,
            Servo::Unknown,
            Servo::Fault,
            Servo::TimedOut,
            Servo::Off,
            Servo::Runs,
            Servo::PositionNan,
            Servo::VelocityNan,
            Servo::Saturated,
            Servo::Refused,
            Servo::OutOfLimits,
            Servo::Fast,
            Servo::Still,
            Servo::LowVoltage,
            Servo::Hot,
        ];
        let command =
            [Command::Nan, Command::Infinite, Command::OutOfLimits, Command::StopJoint, Command::DampJoint];
        let mut all = vec![
            Self::Overrun,
            Self::SlowController,
            Self::PreemptedController,
            Self::HeldUp,
            Self::LinkDown,
            Self::AnsweredTwice,
            Self::Intruded,
            Self::Stop(Cause::OperatorStop),
            Self::Stop(Cause::TimeOver),
            Self::OperatorSilent,
            Self::TargetsSilent,
            Self::Imu(ImuEvent::Silent),
            Self::Imu(ImuEvent::Nan),
            Self::Imu(ImuEvent::Tilted),
            Self::Arm,
            Self::Controller(Cause::ControllerFailed),
            Self::Controller(Cause::ControllerPanicked),
        ];
        for index in 0..servos {
            all.extend(servo.map(|event| Self::Servo(index, event)));
            all.extend(command.map(|event| Self::Command(index, event)));
        }
        all
    }

    /// Whether both can happen in one tick.
    fn agrees_with(self, other: Self) -> bool {
        match (self, other) {
            (Self::SlowController, Self::PreemptedController)
            | (Self::PreemptedController, Self::SlowController) => false,
            (Self::Servo(a, _), Self::Servo(b, _)) | (Self::Command(a, _), Self::Command(b, _)) => a != b,
            (a, b) => std::mem::discriminant(&a) != std::mem::discriminant(&b),
        }
    }
}

/// Every set of at most `most` events that can happen in one tick; the first is the tick in which all is well.
pub fn combinations(servos: usize, most: usize) -> Vec<Vec<Event>> {
    let all = Event::all(servos);
    let mut sets = vec![Vec::new()];
    let mut ends = vec![0];
    let mut at = 0;
    while at < sets.len() {
        for (index, &event) in all.iter().enumerate().skip(ends[at]) {
            let fits =
                sets[at].len() < most && sets[at].iter().all(|other: &Event| event.agrees_with(*other));
            if fits {
                let mut set = sets[at].clone();
                set.push(event);
                sets.push(set);
                ends.push(index + 1);
            }
        }
        at += 1;
    }
    sets
}

/// So long, in periods, the loop is held up: longer than servos wait, and not too long to recover from.
pub const HELD_UP_PERIODS: i64 = 5;

/// The inputs of one tick.
pub struct Tick {
    pub state: RobotState,
    pub seen: Observation,
    pub commands: Vec<ServoCommand>,
    pub arm: bool,
    /// Why the controller gives up, if it does.
    pub controller: Option<Cause>,
}

impl Tick {
    pub fn new(servos: usize, period_ns: i64) -> Self {
        Self {
            state: RobotState::unknown(servos, true, period_ns),
            seen: Observation::default(),
            commands: vec![ServoCommand::Stop; servos],
            arm: false,
            controller: None,
        }
    }

    /// All is well but for the events. `phase` is the one before this tick: it determines what the servos do.
    pub fn set(&mut self, phase: Phase, now_ns: i64, events: &[Event], settings: &SupervisorSettings) {
        let mode = match phase {
            Phase::Active => Doing::Following,
            Phase::Damping => Doing::Damping,
            _ => Doing::Off,
        };
        self.state.now_ns = now_ns;
        self.state.servos.fill(well(mode, now_ns));
        self.state.imu = Some(upright(now_ns));
        self.seen =
            Observation { heartbeat_age_ns: settings.heartbeat_ns().map(|_| 0), ..Observation::default() };
        self.commands.fill(ServoCommand::Position(PositionCommand::hold(0.0)));
        self.arm = false;
        self.controller = None;
        events.iter().for_each(|&event| self.apply(event, settings));
    }

    fn apply(&mut self, event: Event, settings: &SupervisorSettings) {
        let now_ns = self.state.now_ns;
        match event {
            Event::Servo(index, event) => self.servo(index, event, settings),
            Event::Overrun => self.seen.overrun = true,
            Event::SlowController => self.seen.control_ns = settings.controller_ns() + 1,
            Event::PreemptedController => {
                let late_ns = settings.controller_ns() + 1;
                (self.seen.control_ns, self.seen.control_waited_ns) = (late_ns, late_ns);
            }
            Event::HeldUp => self.seen.held_up_ns = HELD_UP_PERIODS * self.state.period_ns,
            Event::LinkDown => self.seen.cycle.links_down = 1,
            Event::AnsweredTwice => self.seen.cycle.answered_twice = Some(0),
            Event::Intruded => {
                (self.seen.cycle.answered_twice, self.seen.cycle.intruded) = (Some(0), Some(0));
            }
            Event::Stop(cause) => self.seen.stop = Some(cause),
            Event::TargetsSilent => self.seen.targets_silent_ns = Some(1),
            Event::OperatorSilent => {
                self.seen.heartbeat_age_ns = settings.heartbeat_ns().map(|limit_ns| limit_ns + 1);
            }
            Event::Imu(event) => {
                let imu = self.state.imu.get_or_insert(upright(now_ns));
                match event {
                    ImuEvent::Silent => {
                        *imu = ImuState { fresh: false, ..upright(now_ns - settings.imu_silent_ns() - 1) };
                    }
                    ImuEvent::Nan => imu.sample.rate[0] = f64::NAN,
                    ImuEvent::Tilted => imu.sample.attitude = [0.0, 1.0, 0.0, 0.0],
                }
            }
            Event::Arm => self.arm = true,
            Event::Controller(cause) => self.controller = Some(cause),
            Event::Command(index, event) => self.commands[index] = command(event),
        }
    }

    fn servo(&mut self, index: usize, event: ServoEvent, settings: &SupervisorSettings) {
        let (now_ns, period_ns) = (self.state.now_ns, self.state.period_ns);
        let servo = &mut self.state.servos[index];
        match event {
            ServoEvent::Missed => (servo.fresh, servo.at_ns) = (false, now_ns - period_ns),
            ServoEvent::Stale => (servo.fresh, servo.at_ns) = (false, now_ns - settings.stale_ns() - 1),
            ServoEvent::Unknown => *servo = ServoState::UNKNOWN,
            ServoEvent::Fault => (servo.doing, servo.fault) = (Doing::Faulted, HOT),
            ServoEvent::TimedOut => {
                (servo.doing, servo.fault) = match settings.recover {
                    Recover::On => (Doing::Faulted, LOST_COMMUNICATION),
                    Recover::Off => (Doing::TimedOut, servo.fault),
                };
            }
            ServoEvent::Off => servo.doing = Doing::Off,
            ServoEvent::Runs => servo.doing = Doing::Following,
            ServoEvent::PositionNan => servo.position = f64::NAN,
            ServoEvent::VelocityNan => servo.velocity = f64::NAN,
            ServoEvent::Saturated => servo.position = f64::INFINITY,
            ServoEvent::Refused => servo.refused = Some(REFUSED),
            ServoEvent::OutOfLimits => servo.position = 2.0,
            ServoEvent::Fast => servo.velocity = 100.0,
            ServoEvent::Still => servo.velocity = 0.0,
            ServoEvent::LowVoltage => servo.voltage = settings.voltage_low_v - 1.0,
            ServoEvent::Hot => servo.temperature = settings.temperature_hard_c,
        }
    }
}

/// What a servo may refuse.
const REFUSED: Refused = Refused { register: 1, name: "position", write: false };
/// What a Damiao reports once its watchdog has expired; a moteus, the servo explored otherwise, is not switched on again.
const LOST_COMMUNICATION: Fault = Fault { code: 13, text: "communication lost" };
const HOT: Fault = Fault { code: 38, text: "over temperature" };

/// In time, healthy, and moving: a robot that never comes to rest by itself.
fn well(doing: Doing, at_ns: i64) -> ServoState {
    let (position, velocity, torque) = (0.0, 1.0, 0.0);
    let (voltage, temperature) = (24.0, 30.0);
    ServoState {
        position,
        velocity,
        torque,
        voltage,
        temperature,
        doing,
        mode: Mode::UNKNOWN,
        at_ns,
        fresh: true,
        ..ServoState::UNKNOWN
    }
}

fn upright(at_ns: i64) -> ImuState {
    // The noise of a sensor.
    let rate = [(at_ns / 1_000_000 % 1_000) as f64 * 1e-6; 3];
    let sample = ImuSample { at_ns, attitude: [1.0, 0.0, 0.0, 0.0], rate, acceleration: [0.0; 3] };
    ImuState { sample, fresh: true }
}

fn command(event: CommandEvent) -> ServoCommand {
    match event {
        CommandEvent::Nan => ServoCommand::Position(PositionCommand::hold(f64::NAN)),
        CommandEvent::Infinite => ServoCommand::Position(PositionCommand::hold(f64::INFINITY)),
        CommandEvent::OutOfLimits => ServoCommand::Position(PositionCommand::hold(5.0)),
        CommandEvent::StopJoint => ServoCommand::Stop,
        CommandEvent::DampJoint => ServoCommand::Damp,
    }
}
