//! The robots of a campaign, and how a scenario changes them.

use super::defect::Defect;
use super::scenario::{Fault, Scenario};
use khz_emu::{ConfigError, World};
use khz_file::RobotConfig;
use khz_file::config::{ControllerConfig, FamilyName, Format, usual_servo};
use khz_loop::supervisor::Arming;

/// Robots a campaign draws from.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// The robots.
    pub members: Vec<Member>,
}

/// One robot of a fleet.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its file, with times that keep runs short.
    pub config: RobotConfig,
    /// How often it is drawn, compared to the others.
    pub weight: u64,
    /// It is drawn at several rates.
    pub any_rate: bool,
    /// Longer formats than those of its file do not fit into its bus cycle.
    pub is_full: bool,
    /// The ticks of its runs at 1 kHz.
    span: Span,
}

/// The ticks of a run.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Faults begin between these ticks: the robot is past its start and moves.
    pub from: u64,
    /// See `from`.
    pub to: u64,
    /// If the robot is still under control in this tick, the run's time is over.
    pub over: u64,
    /// No run is longer.
    pub longest: u64,
}

/// Slower loops than this have runs of fewer ticks, Hz.
const SLOW_HZ: f64 = 500.0;
/// Ticks a run has at the least before faults begin, while they do, until its time is over, and to come down.
const LEAST: [u64; 4] = [20, 40, 20, 150];

impl Span {
    /// At another rate than 1 kHz. The times of start and descent are seconds, so slow loops have fewer ticks, as far as
    /// the supervisor's counts of ticks allow it.
    fn at(self, rate_hz: f64) -> Self {
        if rate_hz >= SLOW_HZ {
            return self;
        }
        let ticks = |at_1_khz: u64, least: u64| ((at_1_khz as f64 * rate_hz / 1000.0) as u64).max(least);
        let from = ticks(self.from, LEAST[0]);
        let to = from + ticks(self.to - self.from, LEAST[1]);
        let over = to + ticks(self.over - self.to, LEAST[2]);
        Self { from, to, over, longest: over + ticks(self.longest - self.over, LEAST[3]) }
    }
}

/// One joint, alone on its bus.
const SOLO: &str = r#"
    [robot]
    name = "solo"
    [bus.main]
    link = "emulated"
    [[servo]]
    name = "joint"
    bus = "main"
    id = 1
    limits = { position = [-0.5, 0.5], velocity = 2.0, torque = 2.0 }
    joint = { inertia = 0.01, viscous = 0.01, coulomb = 0.02 }
    [controller]
    name = "hold"
"#;

/// Two joints, each on its own bus.
const PAIR: &str = r#"
    [robot]
    name = "pair"
    [bus.left]
    link = "emulated"
    [bus.right]
    link = "emulated"
    [servo_defaults]
    limits = { position = [-1.0, 1.5], velocity = 5.0, torque = 3.0 }
    joint = { inertia = 0.01, viscous = 0.01, coulomb = 0.02, gravity = 0.3 }
    [[servo]]
    name = "left"
    bus = "left"
    id = 1
    [[servo]]
    name = "right"
    bus = "right"
    id = 1
    sign = -1
    offset = 0.3
    [controller]
    name = "sine"
    amplitude = 0.3
    from_hz = 1.0
    to_hz = 2.0
    sweep_s = 1.0
"#;

/// Two wheels that turn for ever, on a serial bus.
const WHEELS: &str = r#"
    [robot]
    name = "wheels"
    [bus.main]
    link = "emulated"
    wire = "rs485"
    baud = 3000000
    [servo_defaults]
    bus = "main"
    limits = { velocity = 10.0 }
    joint = { inertia = 0.02, viscous = 0.02, coulomb = 0.05 }
    [[servo]]
    name = "left"
    id = 1
    [[servo]]
    name = "right"
    id = 2
    sign = -1
    [controller]
    name = "sine"
    amplitude = 0.5
    from_hz = 1.0
    to_hz = 2.0
    sweep_s = 1.0
"#;

/// A servo that knows its angle within half a turn of its zero reports angles up to this one correctly, rad.
const WITHIN_TURN: f64 = 3.0;

const OPENARM: &str = include_str!("../robots/openarm_like.toml");
const ROBSTRIDE: &str = include_str!("../robots/quadruped_robstride.toml");
const RMD: &str = include_str!("../robots/arm_rmd.toml");
const ODRIVE: &str = include_str!("../robots/legs_odrive.toml");
const KOCH: &str = include_str!("../robots/koch.toml");
const SO101: &str = include_str!("../robots/so101.toml");
const FOLLOWED: &str = include_str!("../robots/leader_follower.toml");
const MIXED: &str = include_str!("../robots/mixed.toml");

/// Two servos of a family, for one that no other robot has.
fn two_of(family: FamilyName) -> String {
    let servos = usual_servo(family, ", kp = 30, kd = 1");
    format!(
        r#"
    [robot]
    name = "{family}"
    [bus.main]
    link = "emulated"
    [servo_defaults]
    bus = "main"
    {servos}
    limits = {{ position = [-1.5, 1.5], velocity = 5.0 }}
    joint = {{ inertia = 0.02, viscous = 0.02, coulomb = 0.05 }}
    [[servo]]
    name = "hip"
    id = 1
    [[servo]]
    name = "knee"
    id = 2
    sign = -1
    [controller]
    name = "sine"
    amplitude = 0.4
    from_hz = 0.5
    to_hz = 1.0
    sweep_s = 1.0
"#
    )
}

/// Three Dynamixel servos as fast as their line allows: each command but a stop is answered by none.
const FINGER: &str = r#"
    [robot]
    name = "finger"
    [bus.main]
    link = "emulated"
    wire = "dynamixel"
    baud = 4000000
    turnaround_us = 4
    [emulation]
    supply_v = 5
    [supervisor]
    voltage_low_v = 4
    [servo_defaults]
    bus = "main"
    family = "dynamixel"
    dynamixel = { model = "XL330-M288", torque_constant = 0.35, position_p = 400 }
    limits = { position = [-1.0, 1.0], velocity = 6.0 }
    joint = { inertia = 0.001, viscous = 0.01, coulomb = 0.01 }
    watchdog_s = 0.06
    [[servo]]
    name = "base"
    id = 1
    [[servo]]
    name = "middle"
    id = 2
    sign = -1
    [[servo]]
    name = "tip"
    id = 3
    [controller]
    name = "sine"
    amplitude = 0.4
    from_hz = 1.0
    to_hz = 2.0
    sweep_s = 1.0
"#;

impl Fleet {
    /// Only this robot.
    pub fn of(robot: &RobotConfig) -> Self {
        Self { members: vec![Member::new(robot, 1, false)] }
    }

    /// Tries whether every robot can be emulated.
    pub(super) fn emulate(&self) -> Result<(), ConfigError> {
        self.members.iter().try_for_each(|member| member.config.emulate().map(drop))
    }

    /// The built-in quadruped, arm and camera head, single joints and wheels, and robots of all other families.
    ///
    /// # Panics
    /// Never: a test reads the same texts.
    pub fn built_in() -> Self {
        let read = |text: &str, name: &str| match RobotConfig::parse(text, name) {
            Ok(robot) => robot,
            Err(error) => panic!("{error}"),
        };
        let mut members = vec![
            Member::new(&RobotConfig::quadruped(), 6, false),
            Member::new(&read(include_str!("../robots/arm.toml"), "arm.toml"), 2, false),
            Member::new(&read(include_str!("../robots/pan_tilt.toml"), "pan_tilt.toml"), 2, false),
            Member::new(&read(SOLO, "solo"), 3, true),
            Member::new(&read(PAIR, "pair"), 3, true),
            Member::new(&read(WHEELS, "wheels"), 2, false),
            Member::new(&read(OPENARM, "openarm_like.toml"), 2, false),
            Member::new(&read(ROBSTRIDE, "quadruped_robstride.toml"), 2, false),
            Member::new(&read(MIXED, "mixed.toml"), 1, false),
            Member::new(&read(RMD, "arm_rmd.toml"), 1, false),
            Member::new(&read(ODRIVE, "legs_odrive.toml"), 1, false),
            Member::new(&read(FOLLOWED, "leader_follower.toml"), 1, false),
            Member::new(&read(KOCH, "koch.toml"), 1, false),
            Member::new(&read(FINGER, "finger"), 1, true),
            Member::new(&read(SO101, "so101.toml"), 1, false),
        ];
        for &family in FamilyName::ALL {
            let is_of_it = |member: &Member| member.config.servos.iter().any(|servo| servo.family == family);
            if !members.iter().any(is_of_it) {
                members.push(Member::new(&read(&two_of(family), family.word()), 1, false));
            }
        }
        Self { members }
    }

    /// The sum of all weights.
    pub fn weight(&self) -> u64 {
        self.members.iter().map(|member| member.weight).sum()
    }

    /// The robot at this place among the weights.
    pub(super) fn pick(&self, mut place: u64) -> usize {
        for (index, member) in self.members.iter().enumerate() {
            match place.checked_sub(member.weight) {
                None => return index,
                Some(rest) => place = rest,
            }
        }
        0
    }
}

impl Member {
    fn new(robot: &RobotConfig, weight: u64, any_rate: bool) -> Self {
        let mut config = robot.clone();
        let stands = config.body.is_some();
        let supervisor = &mut config.supervisor;
        supervisor.damping_s = if stands { 0.5 } else { 0.2 };
        supervisor.grace_s = if stands { 0.3 } else { 0.1 };
        supervisor.still_s = supervisor.still_s.min(supervisor.grace_s);
        supervisor.answer_s = supervisor.answer_s.min(0.3);
        if let ControllerConfig::StandAndSquat(legs) = &mut config.controller {
            legs.rise_s = 0.5;
            legs.period_s = 0.6;
        }
        let [from, to, longest] = if stands { [650, 900, 1_700] } else { [150, 350, 1_400] };
        let is_full = (0..config.buses.len()).any(|bus| config.servos_on(bus).count() > 2);
        let span = Span { from, to, over: to + 150, longest };
        Self { config, weight, any_rate, is_full, span }
    }

    /// The ticks of a run at this rate.
    pub fn span(&self, rate_hz: f64) -> Span {
        self.span.at(rate_hz)
    }
}

/// Another rate, with servos that wait long enough for it.
fn set_rate(robot: &mut RobotConfig, rate_hz: f64) {
    /// Periods from one command to the next, with one lost, and then some.
    const PERIODS: f64 = 2.5;
    robot.timing.rate_hz = rate_hz;
    for servo in &mut robot.servos {
        let watchdog_s = &mut servo.settings.watchdog_s;
        *watchdog_s = watchdog_s.max(PERIODS / rate_hz);
    }
}

/// What a scenario makes of a robot.
pub struct ScenarioRobot {
    /// What the machine is built from: the robot file.
    pub file: RobotConfig,
    /// What its supervisor reads: the same, unless a defect is planted.
    pub supervised: RobotConfig,
    /// What the devices are built from: how the robot really is.
    pub real: RobotConfig,
    /// The servo of the file each emulated servo is taken for.
    pub stands_for: Vec<usize>,
}

impl ScenarioRobot {
    /// The robot of a scenario, with a defect.
    pub fn new(fleet: &Fleet, scenario: &Scenario, defect: &dyn Defect) -> Self {
        let mut real = fleet.members[scenario.robot.0].config.clone();
        set_rate(&mut real, scenario.rate_hz);
        for servo in &mut real.servos {
            let (command, query) = (&mut servo.settings.command, &mut servo.settings.query);
            if let Some(format) = scenario.formats.command {
                [command.position, command.velocity, command.torque] = [format; 3];
            }
            if let Some(format) = scenario.formats.query {
                [query.position, query.velocity, query.torque] = [format; 3];
            }
        }
        let stands_for = (0..real.servos.len()).collect();
        let mut robot = Self { file: real.clone(), supervised: real.clone(), real, stands_for };
        scenario.faults().for_each(|fault| robot.spoil(fault));
        robot.supervised = robot.file.clone();
        defect.change(&mut robot.supervised);
        robot
    }

    /// What is wrong from the start.
    fn spoil(&mut self, fault: Fault) {
        match fault {
            Fault::FoundOutside(servo, hundredths) => self.start_outside(servo, f64::from(hundredths) * 0.01),
            Fault::FoundBeyondFormat(servo) => self.start_beyond_format(servo),
            Fault::AsksLate(_) => self.file.supervisor.arming = Arming::Operator,
            Fault::WrongSign(servo) => self.file.servos[servo].settings.sign *= -1,
            Fault::DuplicateId(servo) => {
                let mut twin = self.real.servos[servo].clone();
                twin.settings.name.push_str("_twin");
                self.real.servos.push(twin);
                self.stands_for.push(servo);
            }
            Fault::Overloaded => {
                for config in [&mut self.file, &mut self.real] {
                    config.timing.rate_hz = 8000.0;
                    config.timing.bus_deadline_us = Some(100.0);
                }
            }
            _ => {}
        }
    }

    fn start_outside(&mut self, servo: usize, by: f64) {
        let within_turn = self.real.servos[servo].in_file().facts().within_turn;
        let settings = &mut self.real.servos[servo].settings;
        let Some([low, high]) = settings.limits.position else { return };
        let start = if by < 0.0 { low + by } else { high + by };
        // One that knows its angle within a turn finds a joint that is further outside within its limits: only stops keep it from that.
        let reads = [settings.offset - WITHIN_TURN, settings.offset + WITHIN_TURN];
        let start = if within_turn { start.clamp(reads[0], reads[1]) } else { start };
        settings.joint.start = start;
        // It must not fall back into its limits before a slow loop has looked five times.
        settings.joint.gravity = 0.0;
        settings.joint.stops = settings.joint.stops.map(|[a, b]| [a.min(start - 0.1), b.max(start + 0.1)]);
    }

    fn start_beyond_format(&mut self, servo: usize) {
        for config in [&mut self.file, &mut self.real] {
            let settings = &mut config.servos[servo].settings;
            settings.query.position = Format::Int16;
            settings.joint.start = settings.offset + 40.0;
            settings.joint.gravity = 0.0;
            settings.joint.stops = None;
            settings.limits.position = None;
        }
    }

    /// The devices, with the body if the file describes one.
    pub fn world(&self) -> Result<World, ConfigError> {
        self.real.emulate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_file::config::ServoConfig;

    #[test]
    fn every_robot_of_the_fleet_is_read_and_emulated() {
        for member in Fleet::built_in().members {
            // Of motors without a watchdog there is a warning each.
            let is_unwatched = |servo: &ServoConfig| {
                let facts = servo.in_file().facts();
                facts.sends_gains && !facts.has_watchdog
            };
            let expected = member.config.servos.iter().filter(|servo| is_unwatched(servo)).count();
            assert_eq!(member.config.warnings.len(), expected, "{:?}", member.config.warnings);
            member.config.emulate().unwrap();
        }
    }

    #[test]
    fn every_robot_is_drawn_as_often_as_its_weight_says() {
        let fleet = Fleet::built_in();
        let mut drawn = vec![0; fleet.members.len()];
        (0..fleet.weight()).for_each(|place| drawn[fleet.pick(place)] += 1);
        assert_eq!(drawn, fleet.members.iter().map(|member| member.weight).collect::<Vec<_>>());
    }
}
