//! What goes wrong, when, and with which robot: drawn from a seed.

use super::fleet::{Fleet, Member};
use super::misbehaviour;
use khz_emu::injection::{Injection, Refused};
use khz_emu::noise::Noise;
use khz_file::RobotConfig;
use khz_file::config::{Format, ServoConfig};
use khz_loop::supervisor::Recover;
use khz_wire::{Class, Resolution};
use serde::Serialize;
use std::f64::consts::TAU;
use std::fmt;

/// Something that goes wrong. Servos and buses by their number in the robot file.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// A servo sends nothing any more.
    Silent(usize),
    /// A servo loses power for a moment.
    Reboot(usize),
    /// A servo loses power for a moment, and its position is wrong by so many turns when it is back.
    OtherTurn(usize, i8),
    /// A servo faults.
    ServoFault(usize),
    /// A servo reports NaN.
    Lying(usize),
    /// A servo's encoder stands still.
    Stuck(usize),
    /// A servo stays in mode 0 whatever it is commanded.
    Asleep(usize),
    /// A servo answers reads of its position with an error.
    RefusesPosition(usize),
    /// A servo refuses the torque limit and the watchdog it is sent.
    RefusesLimit(usize),
    /// A person pushes a joint for 100 ms, with this many percent of its torque limit.
    Pushed(usize, i16),
    /// All servos lose power for this many ticks: an emergency stop that is released again. Frames are lost meanwhile, or
    /// the buses' queues stand still.
    PowerCut(u16, Queue),
    /// A bus is gone.
    BusDead(usize),
    /// Frames on a bus are damaged, this share of them in percent.
    BusNoisy(usize, u8),
    /// Replies on a bus come later by up to this many µs.
    BusSlow(usize, u16),
    /// Replies on a bus come this many ticks late.
    BusLate(usize, u8),
    /// A bus takes commands but carries none of them for so many ticks.
    BusHolds(usize, u16, Queue),
    /// Another host floods a bus with frames, so many per millisecond.
    BusFlooded(usize, u16),
    /// The IMU does not answer.
    ImuGone,
    /// The supply sags to this many volts.
    BrownOut(u8),
    /// The host's process is gone.
    HostKilled,
    /// The host's process is stopped for this many ms, then goes on.
    HostStopped(u16),
    /// Ticks start late by this many µs, for 30 ticks.
    HostLate(u16),
    /// The disk is full.
    DiskFull,
    /// The controller does not return for this many ms, once.
    ControllerFreezes(u16),
    /// The controller takes this many µs in every tick.
    ControllerSlow(u16),
    /// The controller panics.
    ControllerPanics,
    /// The controller returns an error.
    ControllerFails,
    /// The controller commands NaN.
    ControllerNan,
    /// The controller commands far more than the limits allow.
    ControllerWild,
    /// The controller commands numbers that are finite, but not in 32 bits.
    ControllerHuge,
    /// The controller switches one servo off, which it may.
    ControllerStops(usize),
    /// The operator stops the robot.
    OperatorStop,
    /// From now on a person moves a parameter of the controller anywhere in its range, every so many ticks.
    ParametersMoved(u16),
    /// From the start: a joint is found outside its limits by this many hundredths of a radian.
    FoundOutside(usize, i16),
    /// From the start: a joint is found beyond what the format of its position can carry.
    FoundBeyondFormat(usize),
    /// From the start: the file has the wrong sign for a servo.
    WrongSign(usize),
    /// From the start: a second servo has the same id on the same bus.
    DuplicateId(usize),
    /// From the start: the bus cycle is longer than the time it has.
    Overloaded,
    /// From the start: a bus carries commands in one of so many ticks, and loses them in the others.
    LooseContact(usize, u8),
    /// From the start: the robot waits for an operator, and each request to arm arrives twice: so many ms late, and once more later.
    AsksLate(u16),
    /// From the start: frames pace the loop, so many percent of its rate. Nothing else goes wrong in such a run.
    PacedTooFast(u16),
    /// A servo goes on with the last command it followed: it neither damps nor stops, and reports so.
    StaysOn(usize),
    /// A servo reports this mode of its family, whatever it does.
    OtherMode(usize, u8),
    /// A servo reports so in four of five replies.
    MostlyOtherMode(usize, u8),
    /// A servo repeats its present reply for ever.
    Frozen(usize),
    /// A servo answers everything twice.
    Echoes(usize),
    /// One bit of a servo's replies is altered, in so many percent of them, and checksums hold.
    Altered(usize, u8),
    /// A servo's voltage and temperature are no numbers.
    Unmeasured(usize),
    /// A servo's position jumps by so many thousandths of a radian; by less than 150 in several ticks one after another.
    Jumps(usize, i16),
    /// A servo's watchdog acts although it is fed: it refuses targets in silence.
    WatchdogActs(usize),
    /// The IMU repeats its newest reading.
    ImuFrozen,
}

/// What happens to commands on a bus that carries none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Queue {
    /// They are lost.
    Lost,
    /// The link keeps them, and drops what is of an earlier tick.
    Link,
    /// A queue behind the link keeps those of one tick and refuses more. When the bus carries frames again, these come
    /// first: they cannot be called back.
    Kernel,
}

/// How the robot is controlled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// By the controller of the robot file.
    Own,
    /// Every joint is held where it was found.
    Hold,
    /// Targets step to places within and beyond the limits.
    Steps,
    /// Velocity control, towards both ends in turn.
    Velocity,
    /// Torque control, towards both ends in turn.
    Torque,
}

/// How values travel, for all servos alike; `None`: as the robot file sets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Formats {
    /// Position, velocity and torque in commands.
    #[serde(serialize_with = "word")]
    pub command: Option<Format>,
    /// Position, velocity and torque in replies.
    #[serde(serialize_with = "word")]
    pub query: Option<Format>,
}

fn word<S: serde::Serializer>(format: &Option<Format>, serializer: S) -> Result<S::Ok, S::Error> {
    format.map(|format| format.to_string()).serialize(serializer)
}

/// A fault and its tick.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Event {
    /// When.
    pub tick: u64,
    /// What.
    pub fault: Fault,
}

/// One run: a robot, how it is controlled, and up to three faults; the parameters of its own controller may be moved besides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// Seed it was drawn from; gives the same scenario again.
    pub seed: u64,
    /// Number of the robot in the fleet, and its name.
    pub robot: (usize, String),
    /// How it is controlled.
    pub style: Style,
    /// Ticks per second.
    pub rate_hz: f64,
    /// How values travel.
    pub formats: Formats,
    /// What goes wrong, in order.
    pub events: Vec<Event>,
}

/// Rates of robots that are drawn at several, Hz.
const RATES: [f64; 12] =
    [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 500.0, 1000.0, 1000.0, 1000.0, 2000.0, 2000.0];

/// Random choices.
pub(super) struct Dice(pub Noise);

impl Dice {
    pub fn pick(&mut self, n: u64) -> u64 {
        self.0.bits() % n.max(1)
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.pick(choices.len() as u64) as usize]
    }
}

impl Scenario {
    /// Draws one for a robot of `fleet`.
    pub fn draw(seed: u64, fleet: &Fleet) -> Self {
        let mut dice = Dice(Noise::new(seed));
        let robot = fleet.pick(dice.pick(fleet.weight()));
        let member = &fleet.members[robot];
        let style = Style::draw(&mut dice, member);
        let rate_hz = if member.any_rate { dice.one_of(&RATES) } else { member.config.timing.rate_hz };
        let formats = Formats::draw(&mut dice, member);
        let count = 1 + dice.pick(3);
        let mut events: Vec<Event> = (0..count).map(|_| Event::draw(&mut dice, member, rate_hz)).collect();
        // A robot that must not arm shall not come to that because something else changes what is wrong with it.
        if let Some(alone) = events.iter().find(|event| event.fault.is_alone()).copied() {
            events = vec![alone];
        } else if style == Style::Own && dice.pick(6) == 0 {
            let (every, span) = (1 + dice.pick(500) as u16, member.span(rate_hz));
            let tick = span.from + dice.pick(span.to - span.from);
            events.push(Event { tick, fault: Fault::ParametersMoved(every) });
        }
        events.sort_by_key(|event| event.tick);
        misbehaviour::draw(seed, &mut events, &member.config, rate_hz);
        events.splice(..0, late_requests(seed, &events));
        events.extend(stall(seed, member, rate_hz, &events));
        events.sort_by_key(|event| event.tick);
        Self { seed, robot: (robot, member.config.name.clone()), style, rate_hz, formats, events }
    }

    /// A robot of `fleet` as its file has it, and nothing goes wrong.
    pub fn undisturbed(robot: usize, fleet: &Fleet) -> Self {
        let config = &fleet.members[robot].config;
        Self {
            seed: 0,
            robot: (robot, config.name.clone()),
            style: Style::Own,
            rate_hz: config.timing.rate_hz,
            formats: Formats { command: None, query: None },
            events: Vec::new(),
        }
    }

    /// What goes wrong.
    pub fn faults(&self) -> impl Iterator<Item = Fault> + '_ {
        self.events.iter().map(|event| event.fault)
    }

    /// Requests to arm come so late, ns, if the robot waits for one.
    pub fn asks_late_ns(&self) -> Option<i64> {
        self.faults().find_map(|fault| match fault {
            Fault::AsksLate(ms) => Some(i64::from(ms) * 1_000_000),
            _ => None,
        })
    }

    /// Frames pace the loop, so many percent of its rate.
    pub fn paced(&self) -> Option<u16> {
        self.faults().find_map(|fault| match fault {
            Fault::PacedTooFast(percent) => Some(percent),
            _ => None,
        })
    }
}

impl Style {
    /// Every joint follows a target position.
    pub fn follows_targets(self) -> bool {
        matches!(self, Self::Own | Self::Hold | Self::Steps)
    }

    fn draw(dice: &mut Dice, member: &Member) -> Self {
        const ALL: [Style; 8] = [
            Style::Own,
            Style::Own,
            Style::Hold,
            Style::Steps,
            Style::Steps,
            Style::Velocity,
            Style::Torque,
            Style::Torque,
        ];
        let style = dice.one_of(&ALL);
        // Servos that follow positions with all their gains take neither velocities nor torques, and others no positions.
        let style = match (takes_positions(&member.config), takes_shares(&member.config)) {
            (false, _) => Self::Own,
            (true, false) if !style.follows_targets() => Self::Hold,
            _ => style,
        };
        // A robot on legs falls over under any controller but its own, which is soon the only thing that happens.
        if member.config.body.is_some() && dice.pick(4) > 0 { Self::Own } else { style }
    }
}

impl Formats {
    fn draw(dice: &mut Dice, member: &Member) -> Self {
        const ALL: [Option<Format>; 8] = [
            None,
            None,
            None,
            Some(Format::Int16),
            Some(Format::Int16),
            Some(Format::Int8),
            Some(Format::Float),
            Some(Format::Int32),
        ];
        // On a full bus only the short ones leave time for everybody.
        let choices = if member.is_full { &ALL[..6] } else { &ALL[..] };
        let (command, query) = (dice.one_of(choices), dice.one_of(choices));
        let servos = &member.config.servos;
        let has_formats = servos.iter().all(|servo| servo.in_file().facts().has_formats);
        let suits_command = |format: &Format| servos.iter().all(|servo| suits_command(servo, *format));
        let suits_query = |format: &Format| servos.iter().all(|servo| suits_query(member, servo, *format));
        Self {
            command: command.filter(|_| has_formats).filter(suits_command),
            query: query.filter(|_| has_formats).filter(suits_query),
        }
    }
}

/// A servo may have a fault that it does not report.
fn hides_faults(robot: &RobotConfig) -> bool {
    robot.servos.iter().any(|servo| !servo.twin().misbehaviours().suits(Injection::Overheated))
}

/// A servo holds its last target for ever when no command comes.
pub fn is_unwatched(robot: &RobotConfig) -> bool {
    robot.servos.iter().any(|servo| !servo.in_file().facts().has_watchdog)
}

/// Every servo can be commanded with a share of its gains.
pub fn takes_shares(robot: &RobotConfig) -> bool {
    robot.servos.iter().all(|servo| servo.carries().kp_scale && servo.carries().kd_scale)
}

/// Every servo can be commanded with a position.
fn takes_positions(robot: &RobotConfig) -> bool {
    robot.servos.iter().all(|servo| servo.carries().position > 0.0)
}

/// A servo can be commanded in this format: it carries the limits, and makes no frame longer.
fn suits_command(servo: &ServoConfig, format: Format) -> bool {
    let (limits, own) = (&servo.limits, &servo.command);
    let torque = limits.torque.is_none_or(|limit| limit < format.reach(Class::Torque));
    carries(servo, format, 0.0) && torque && is_no_longer(format, [own.position, own.velocity, own.torque])
}

/// A servo can be asked in this format: as [`suits_command`], and the least speed is not too fast already.
fn suits_query(member: &Member, servo: &ServoConfig, format: Format) -> bool {
    let (settings, own) = (&member.config.supervisor, &servo.query);
    let fine = !is_coarse(servo, format, settings.velocity_factor);
    fine && carries(servo, format, settings.position_tolerance)
        && is_no_longer(format, [own.position, own.velocity, own.torque])
}

/// A format carries the limits of position and velocity, and what is `beyond` the former.
fn carries(servo: &ServoConfig, format: Format, beyond: f64) -> bool {
    let limits = &servo.limits;
    let furthest = limits.position.into_iter().flatten().map(|limit| (limit - servo.offset).abs() + beyond);
    let mut furthest = furthest.chain([(servo.joint.start - servo.offset).abs()]);
    let velocity = limits.velocity.is_none_or(|limit| limit < format.reach(Class::Velocity));
    furthest.all(|furthest| furthest < format.reach(Class::Position)) && velocity
}

/// Rounded to a step of this format, a speed within its limit may be read as one that is too fast.
pub fn is_coarse(servo: &ServoConfig, format: Format, velocity_factor: f64) -> bool {
    let margin = servo.limits.velocity.map_or(f64::INFINITY, |limit| (velocity_factor - 1.0) * limit);
    0.5 * format.step(Class::Velocity) * TAU > margin
}

/// Three values in this format are no longer than in those of the file.
fn is_no_longer(format: Format, own: [Format; 3]) -> bool {
    let len = |format: Format| format.resolution().map_or(0, Resolution::size);
    3 * len(format) <= own.into_iter().map(len).sum()
}

impl Event {
    fn draw(dice: &mut Dice, member: &Member, rate_hz: f64) -> Self {
        let fault = Fault::draw(dice, member, rate_hz);
        // What servos cannot be brought down from that have no watchdog, or do not even report whether they are on: docs/safety.md.
        let facts = || member.config.servos.iter().map(|servo| servo.in_file().facts());
        let is_blind = facts().any(|facts| !facts.has_watchdog && !facts.reports_on);
        let is_fault = matches!(fault, Fault::ServoFault(_) | Fault::BrownOut(_));
        let leaves_out = is_blind && fault.needs_a_watchdog_or_a_report()
            || is_fault && hides_faults(&member.config)
            || fault == Fault::HostKilled && is_unwatched(&member.config);
        let fault = if leaves_out { Fault::OperatorStop } else { fault };
        // One in four while the robot starts.
        let span = member.span(rate_hz);
        let from = if dice.pick(4) == 0 { 1 } else { span.from };
        let tick = from + dice.pick(span.to - from);
        let tick = match fault {
            fault if fault.is_from_the_start() => 0,
            // At any time, also while the robot comes down and at the very end.
            Fault::PowerCut(..) if dice.pick(2) == 0 => tick + dice.pick(span.longest - tick),
            _ => tick,
        };
        Self { tick, fault }
    }
}

impl Fault {
    /// Only a watchdog ends it, or is lost by it, or replies come later than can be known without registers; or only a servo that reports that it
    /// is off.
    const fn needs_a_watchdog_or_a_report(self) -> bool {
        matches!(
            self,
            Self::HostKilled
                | Self::HostStopped(_)
                | Self::ControllerFreezes(_)
                | Self::BusDead(_)
                | Self::PowerCut(..)
                | Self::BusNoisy(..)
                | Self::BusHolds(..)
                | Self::BusLate(..)
                | Self::Asleep(_)
                | Self::Reboot(_)
                | Self::OtherTurn(..)
        )
    }

    fn draw(dice: &mut Dice, member: &Member, rate_hz: f64) -> Self {
        let kind = dice.pick(40);
        let servo = dice.pick(member.config.servos.len() as u64) as usize;
        let bus = dice.pick(member.config.buses.len() as u64) as usize;
        let size = dice.pick(1000) as u16;
        let signed = size as i16 - 500;
        let is_simple = member.config.body.is_none();
        let refuses = Injection::RefuseRead(Some(Refused::Position));
        let has_registers = member.config.servos[servo].twin().misbehaviours().suits(refuses);
        let goes_round = member.config.servos[servo].in_file().facts().within_turn;
        // A MuJoCo model starts where its keyframe has it.
        let is_placed = member.config.body.as_ref().is_none_or(|body| body.mujoco().is_none());
        let is_limited = is_placed && member.config.servos[servo].limits.position.is_some();
        match kind {
            0 => Self::Silent(servo),
            1 => Self::Reboot(servo),
            2 => Self::ServoFault(servo),
            3 => Self::Lying(servo),
            4 => Self::Stuck(servo),
            5 => Self::BusDead(bus),
            6 => Self::BusNoisy(bus, (size / 10) as u8),
            7 => Self::BusSlow(bus, size),
            8 if member.config.imu.is_some() => Self::ImuGone,
            9 => Self::BrownOut(sagging(5 + size / 167, member.config.emulation.supply_v)),
            10 => Self::HostKilled,
            11 => Self::HostStopped(1 + size / 2),
            12 => Self::HostLate(size * 2),
            13 => Self::ControllerPanics,
            14 => Self::ControllerFails,
            15 => Self::ControllerNan,
            16 => Self::ControllerWild,
            17 => Self::DiskFull,
            18 => Self::ControllerFreezes(1 + size / 2),
            19 => Self::ControllerSlow((f64::from(600 + size) * 1000.0 / rate_hz) as u16),
            20 => Self::OtherTurn(servo, if signed < 0 { -1 } else { 1 }),
            21 => Self::Asleep(servo),
            22 if has_registers => Self::RefusesPosition(servo),
            23 if has_registers => Self::RefusesLimit(servo),
            24 => Self::Pushed(servo, signed / 2),
            25 | 26 => Self::power_cut(dice, size, rate_hz),
            27 | 28 => Self::BusLate(bus, 1 + (size % 10) as u8),
            29 | 30 => Self::bus_holds(dice, bus, size, rate_hz),
            31 => Self::BusFlooded(bus, 20 + size * 4),
            32 => Self::ControllerHuge,
            33 => Self::ControllerStops(servo),
            // What goes round at the end of its range cannot be found beyond it.
            34 if is_simple && !goes_round => Self::FoundBeyondFormat(servo),
            34 | 35 if is_limited => {
                Self::FoundOutside(servo, if signed < 0 { signed - 20 } else { signed + 20 })
            }
            36 if is_simple => Self::DuplicateId(servo),
            36 | 38 => Self::WrongSign(servo),
            37 if member.any_rate && size.is_multiple_of(2) => Self::Overloaded,
            // One complete tick at a time is enough for a robot whose file sets that.
            37 if member.config.supervisor.answer_ticks > 1 => Self::LooseContact(bus, 2 + (size % 5) as u8),
            39 if is_simple => Self::PacedTooFast(110 + size / 3),
            _ => Self::OperatorStop,
        }
    }

    fn power_cut(dice: &mut Dice, size: u16, rate_hz: f64) -> Self {
        let [short, long] = in_ticks(size, rate_hz);
        match dice.pick(3) {
            0 => Self::PowerCut(short, Queue::Kernel),
            1 => Self::PowerCut(long, Queue::Link),
            _ => Self::PowerCut(long, Queue::Lost),
        }
    }

    fn bus_holds(dice: &mut Dice, bus: usize, size: u16, rate_hz: f64) -> Self {
        let [short, long] = in_ticks(size, rate_hz);
        match dice.pick(2) {
            0 => Self::BusHolds(bus, short, Queue::Kernel),
            _ => Self::BusHolds(bus, long, Queue::Link),
        }
    }
}

/// One scenario in so many has an operator whose requests to arm come late.
const LATE_REQUESTS: u64 = 12;
/// They are drawn from a stream of their own, so that seeds without them stay as they are.
const REQUESTS_SALT: u64 = 0xa5c5;

fn late_requests(seed: u64, events: &[Event]) -> Option<Event> {
    let mut dice = Dice(Noise::new(seed ^ REQUESTS_SALT));
    let is_drawn = dice.pick(LATE_REQUESTS) == 0 && !events.iter().any(|event| event.fault.is_alone());
    is_drawn.then(|| Event { tick: 0, fault: Fault::AsksLate(dice.pick(800) as u16) })
}

/// A robot that recovers from stalls has one in every other scenario, longer than its watchdogs; drawn from a stream of its own, too.
const STALLS_SALT: u64 = 0x57a1;

fn stall(seed: u64, member: &Member, rate_hz: f64, events: &[Event]) -> Option<Event> {
    let mut dice = Dice(Noise::new(seed ^ STALLS_SALT));
    let supervisor = &member.config.supervisor;
    let is_drawn = supervisor.recover == Recover::On && dice.pick(2) == 0;
    let watchdog_s = member.config.servos.iter().map(|servo| servo.watchdog_s).fold(f64::INFINITY, f64::min);
    let span = member.span(rate_hz);
    let (tick, ms) =
        (span.from + dice.pick(span.to - span.from), (watchdog_s * 1e3) as u16 + dice.pick(60) as u16);
    let stall = Event { tick, fault: Fault::HostStopped(ms) };
    (is_drawn && !events.iter().any(|event| event.fault.is_alone())).then_some(stall)
}

/// So many volts of the usual supply of 24 V, of that of a smaller robot in proportion.
fn sagging(volts: u16, supply_v: f64) -> u8 {
    (f64::from(volts) * (supply_v / 24.0).min(1.0)) as u8
}

/// Ticks for which a bus carries nothing: a few, 0.1 s at the most at low rates, and many. What waits in a queue behind the
/// link can only be overtaken while the loop still runs, so that a queue is for the few.
fn in_ticks(size: u16, rate_hz: f64) -> [u16; 2] {
    let slower = (rate_hz / 1000.0).min(1.0);
    let ticks = |size: u16, slower: f64| 1 + (f64::from(size) * slower) as u16;
    [ticks(size % 100, slower), ticks(size, slower.max(0.05))]
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {} at {} Hz, {:?}", self.seed, self.robot.1, self.rate_hz, self.style)?;
        let format =
            |format: Option<Format>| format.map_or("its own".to_owned(), |format| format.to_string());
        let Formats { command, query } = self.formats;
        if command.or(query).is_some() {
            write!(f, ", command {}, query {}", format(command), format(query))?;
        }
        write!(f, ";")?;
        self.events.iter().try_for_each(|event| write!(f, " {:?} in tick {}", event.fault, event.tick))
    }
}
