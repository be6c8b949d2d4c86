//! The ticks of a run, one after another, from its log.

use super::decided::Engine;
use super::{Ended, ReplayError};
use crate::run::controller_error;
use khz_loop::state::{ImuState, MOST_SIGNALS, Signal, Teleop};
use khz_loop::supervisor::Phase;
use khz_loop::{Doing, Fault, Mode, PositionCommand, RobotState, ServoCommand, ServoState};
use khz_rt::Passport;
use khz_run::record::Decision;
use khz_tlog::{Reader, Type, Value};
use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;

/// A log, to be gone through once.
pub struct Recording {
    /// Name of the robot.
    pub name: String,
    /// Text of its robot file; empty if the log lacks it.
    pub text: String,
    /// The joints, in the order of the log.
    pub joints: Vec<String>,
    /// Ticks that the log lacks, or a part of them; they are left out.
    pub incomplete: u64,
    /// The number of the last tick.
    last: Option<u64>,
    ticks: Samples<Tick>,
    servos: Samples<Vec<Measured>>,
    commands: Samples<Vec<ServoCommand>>,
    imu: Option<Samples<Reading>>,
    teleop: Option<Samples<(u64, Teleop)>>,
    parameters: Option<Samples<Change>>,
    /// Decisions of a policy, and the policy.
    pub decisions: Option<(VecDeque<Decision>, Named)>,
    /// That the controller gave up, if it did.
    pub ended: Option<Ended>,
    steered: Option<(i64, Teleop)>,
    started_ns: Option<i64>,
}

/// A recorded tick.
pub struct Recorded {
    /// What the controller saw.
    pub state: RobotState,
    /// What was sent in the next tick.
    pub commands: Vec<ServoCommand>,
    /// The controller computed these.
    pub controller_ran: bool,
    /// The phase after the tick.
    pub phase: Phase,
    /// Parameters that changed before the controller ran.
    pub changes: Vec<Change>,
}

/// A change of a parameter.
#[derive(Clone, Debug)]
pub struct Change {
    /// The tick that took it.
    pub tick: u64,
    /// Which.
    pub name: String,
    /// Its value from then on.
    pub value: f64,
}

/// Times of a tick and what happened in it.
#[derive(Clone, Copy)]
struct Tick {
    number: u64,
    planned_ns: i64,
    started_ns: i64,
    now_ns: i64,
    controller_ran: bool,
    phase: Phase,
}

/// A servo's state, and how old it was.
#[derive(Clone, Copy)]
struct Measured {
    state: ServoState,
    age_us: u32,
}

struct Reading {
    imu: ImuState,
    age_us: u32,
}

impl Recording {
    /// Opens the log of a run.
    ///
    /// # Errors
    /// It cannot be read, or it is not the log of a run with all that a replay needs.
    pub fn open(path: &Path) -> Result<Self, ReplayError> {
        let robot =
            Samples::open_if_there(path, "robot", robot)?.map(|mut robot| robot.next()).transpose()?;
        let [name, text, passport] = robot.flatten().map(|(_, robot)| robot).unwrap_or_default();
        let passport = serde_json::from_str::<Passport>(&passport);
        let cpu = passport.map(|passport| passport.cpu).unwrap_or_default();
        let servos = Samples::open(path, "servo", measured)?;
        let joints = servos.joints();
        Ok(Self {
            name,
            text,
            joints,
            incomplete: 0,
            last: None,
            ticks: Samples::open(path, "tick", tick)?,
            servos,
            commands: Samples::open(path, "command", commands)?,
            imu: Samples::open_if_there(path, "imu", reading)?,
            teleop: Samples::open_if_there(path, "teleop", teleop)?,
            parameters: Samples::open_if_there(path, "parameter", change)?,
            decisions: decisions(path, cpu)?,
            ended: ended(path)?,
            steered: None,
            started_ns: None,
        })
    }

    /// The log has no end: it is cut off, or still being written.
    pub fn is_cut_off(&self) -> bool {
        !self.ticks.reader.is_finished()
    }

    /// The next tick that is complete; `None` after the last. `period_ns` is the loop's.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn next(&mut self, period_ns: i64) -> Result<Option<Recorded>, ReplayError> {
        loop {
            let Some((time_us, tick)) = self.ticks.next()? else { return Ok(None) };
            let before = self.last.replace(tick.number);
            self.incomplete += before.map_or(0, |before| tick.number.saturating_sub(before + 1));
            let (servos, commands) = (self.servos.at(time_us)?, self.commands.at(time_us)?);
            let imu = self.imu.as_mut().map(|imu| imu.at(time_us)).transpose()?;
            let changes = self.changes(tick.number)?;
            let teleop = self.teleop(&tick)?;
            let elapsed_ns =
                self.started_ns.replace(tick.started_ns).map(|before_ns| tick.started_ns - before_ns);
            let (Some(servos), Some(commands)) = (servos, commands) else {
                self.incomplete += 1;
                continue;
            };
            let state = RobotState {
                tick: tick.number,
                planned_ns: tick.planned_ns,
                started_ns: tick.started_ns,
                now_ns: tick.now_ns,
                period_ns,
                elapsed_ns: elapsed_ns.unwrap_or(period_ns),
                servos: servos.into_iter().map(|servo| servo.at(tick.now_ns)).collect(),
                led_to: vec![None; commands.len()],
                imu: imu.flatten().map(|reading| reading.at(tick.now_ns)),
                teleop,
                // A replay knows which parameters they are.
                signals: [Signal::NONE; MOST_SIGNALS],
            };
            let Tick { controller_ran, phase, .. } = tick;
            return Ok(Some(Recorded { state, commands, controller_ran, phase, changes }));
        }
    }

    fn changes(&mut self, tick: u64) -> Result<Vec<Change>, ReplayError> {
        let mut changes = Vec::new();
        let Some(parameters) = &mut self.parameters else { return Ok(changes) };
        while let Some((_, change)) = parameters.next_if(|change| change.tick <= tick)? {
            changes.push(change);
        }
        Ok(changes)
    }

    /// The newest steering input; older with each tick.
    fn teleop(&mut self, tick: &Tick) -> Result<Teleop, ReplayError> {
        if let Some(teleop) = &mut self.teleop {
            while let Some((_, (_, input))) = teleop.next_if(|(number, _)| *number <= tick.number)? {
                self.steered = Some((tick.now_ns - input.age_ns, input));
            }
        }
        Ok(self
            .steered
            .map_or(Teleop::NONE, |(at_ns, input)| Teleop { age_ns: tick.now_ns - at_ns, ..input }.fresh()))
    }
}

impl Measured {
    fn at(self, now_ns: i64) -> ServoState {
        let at_ns = since(self.age_us, now_ns);
        ServoState { at_ns, ..self.state }
    }
}

impl Reading {
    fn at(self, now_ns: i64) -> ImuState {
        let mut imu = self.imu;
        imu.sample.at_ns = since(self.age_us, now_ns);
        imu
    }
}

/// The time of what has this age; the greatest stands for what was never there.
fn since(age_us: u32, now_ns: i64) -> i64 {
    if age_us == u32::MAX { i64::MIN } else { now_ns - i64::from(age_us) * 1000 }
}

type Read<T> = fn(Value<'_>) -> Option<T>;

/// The samples of one record with their times, µs. Damage is stepped over: the ticks it holds are not complete.
struct Samples<T> {
    reader: Reader<File>,
    record: &'static str,
    read: Read<T>,
    next: Option<(i64, T)>,
}

impl<T> Samples<T> {
    fn open(path: &Path, record: &'static str, read: Read<T>) -> Result<Self, ReplayError> {
        let wrong = |why: String| ReplayError::Read { path: path.display().to_string(), why };
        let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
        let mut reader = Reader::open(file).map_err(|error| wrong(error.to_string()))?;
        reader.survey().map_err(|error| wrong(error.to_string()))?;
        if reader.record(record).is_err() {
            return Err(ReplayError::NoRecord { path: path.display().to_string(), record });
        }
        reader.select([record]);
        Ok(Self { reader, record, read, next: None })
    }

    fn open_if_there(path: &Path, record: &'static str, read: Read<T>) -> Result<Option<Self>, ReplayError> {
        match Self::open(path, record, read) {
            Err(ReplayError::NoRecord { .. }) => Ok(None),
            other => other.map(Some),
        }
    }

    /// The fields of the record: in a record of servos, their names.
    fn joints(&self) -> Vec<String> {
        match self.reader.record(self.record).map(|record| record.ty()) {
            Ok(Type::Object(fields)) => fields.iter().map(|field| field.name.clone()).collect(),
            _ => Vec::new(),
        }
    }

    fn next(&mut self) -> Result<Option<(i64, T)>, ReplayError> {
        if let Some(next) = self.next.take() {
            return Ok(Some(next));
        }
        loop {
            let error = match self.reader.next() {
                Ok(None) => return Ok(None),
                Ok(Some(item)) => match item.value() {
                    Ok(value) => match (item.time_us, (self.read)(value)) {
                        (Some(time_us), Some(sample)) => return Ok(Some((time_us, sample))),
                        _ => return Err(ReplayError::Unfit { record: self.record }),
                    },
                    Err(error) => error,
                },
                Err(error) => error,
            };
            self.reader.step_over(error).map_err(|error| ReplayError::Damaged(error.to_string()))?;
        }
    }

    fn next_if(&mut self, wanted: impl FnOnce(&T) -> bool) -> Result<Option<(i64, T)>, ReplayError> {
        self.next = self.next()?;
        Ok(self.next.take_if(|(_, sample)| wanted(sample)))
    }

    /// The sample of this time; those before are gone.
    fn at(&mut self, time_us: i64) -> Result<Option<T>, ReplayError> {
        while let Some((at_us, sample)) = self.next()? {
            if at_us == time_us {
                return Ok(Some(sample));
            }
            if at_us > time_us {
                self.next = Some((at_us, sample));
                break;
            }
        }
        Ok(None)
    }
}

fn robot(value: Value<'_>) -> Option<[String; 3]> {
    Some([text(&value, "name")?, text(&value, "file")?, text(&value, "passport").unwrap_or_default()])
}

fn text(value: &Value<'_>, field: &str) -> Option<String> {
    match value.at(field)? {
        Value::String(text) => Some(text.to_owned()),
        _ => None,
    }
}

fn tick(value: Value<'_>) -> Option<Tick> {
    let ns = |field| match value.at(field)? {
        Value::Int(ns) => Some(ns),
        _ => None,
    };
    let started_ns = ns("started_ns")?;
    Some(Tick {
        number: value.at("number")?.number()? as u64,
        planned_ns: ns("planned_ns")?,
        started_ns,
        now_ns: started_ns + ns("encode_ns")? + ns("send_ns")? + ns("collect_ns")?,
        controller_ran: value.at("controller_ran")? == Value::Bool(true),
        phase: *Phase::ALL.get(value.at("phase")?.number()? as usize)?,
    })
}

/// How the numbers of a decision are called, and which model made it.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// SHA-256 of the model; empty: the log does not have it.
    pub sha256: String,
    /// Who evaluated it.
    pub engine: Engine,
    /// Each number of an observation: its term, and which of the term's it is.
    pub seen: Vec<(String, usize)>,
    /// The joints.
    pub actions: Vec<String>,
    /// Ticks in which the run ended because a decision was late, as none is here.
    pub lost_in: Vec<u64>,
}

/// All that were followed: there are some tens a second.
fn decisions(path: &Path, cpu: String) -> Result<Option<(VecDeque<Decision>, Named)>, ReplayError> {
    let Some(mut samples) = Samples::open_if_there(path, "decision", |value| Some(Decision::read(&value)))?
    else {
        return Ok(None);
    };
    let mut named = Named::default();
    if let Ok(Type::Object(fields)) = samples.reader.record("decision").map(|record| record.ty()) {
        let of = |name: &str| match fields.iter().find(|field| field.name == name).map(|field| &field.ty) {
            Some(Type::Object(fields)) => fields.clone(),
            _ => Vec::new(),
        };
        named.actions = of("action").into_iter().map(|field| field.name).collect();
        for term in of("observation") {
            let Type::FixedArray(len, _) = term.ty else { continue };
            named.seen.extend((0..len as usize).map(|element| (term.name.clone(), element)));
        }
    }
    let policy = Samples::open_if_there(path, "policy", |value| {
        Some([text(&value, "sha256")?, text(&value, "engine").unwrap_or_default()])
    })?;
    if let Some((_, [sha256, name])) = policy.map(|mut policy| policy.next()).transpose()?.flatten() {
        (named.sha256, named.engine) = (sha256, Engine { name, cpu });
    }
    let mut all = VecDeque::new();
    while let Some((_, decision)) = samples.next()? {
        match decision.is_lost() {
            true => named.lost_in.push(decision.in_tick),
            false => all.push_back(decision),
        }
    }
    Ok(Some((all, named)))
}

/// How the run ended, if its controller gave up.
fn ended(path: &Path) -> Result<Option<Ended>, ReplayError> {
    let event = |value: Value<'_>| match (value.at("tick")?.number(), value.at("cause")?) {
        (Some(tick), Value::String(cause)) => Some((tick as u64, cause.to_owned())),
        _ => None,
    };
    let Some(mut events) = Samples::open_if_there(path, "event", event)? else { return Ok(None) };
    while let Some((_, (tick, cause))) = events.next()? {
        if let Some(why) = controller_error(&cause) {
            return Ok(Some(Ended { tick, why: why.to_owned() }));
        }
    }
    Ok(None)
}

/// The fields of an object as numbers, in their order.
fn numbers(value: Value<'_>) -> Vec<f64> {
    let Value::Object(fields) = value else { return Vec::new() };
    fields.filter_map(|(_, value)| value.number()).collect()
}

fn objects<T>(value: Value<'_>, read: impl Fn(&[f64]) -> Option<T>) -> Option<Vec<T>> {
    let Value::Object(servos) = value else { return None };
    servos.map(|(_, servo)| read(&numbers(servo))).collect()
}

fn measured(value: Value<'_>) -> Option<Vec<Measured>> {
    objects(value, |numbers| {
        let &[
            position,
            velocity,
            torque,
            voltage,
            temperature,
            doing,
            mode,
            fault,
            fresh,
            age_us,
            round_trip_ns,
        ] = numbers
        else {
            return None;
        };
        let state = ServoState {
            position,
            velocity,
            torque,
            voltage,
            temperature,
            doing: *Doing::ALL.get(doing as usize)?,
            mode: Mode { number: mode as u8, name: "recorded" },
            fault: Fault { code: fault as u32, text: "recorded" },
            fresh: fresh != 0.0,
            round_trip_ns: round_trip_ns as i64,
            ..ServoState::UNKNOWN
        };
        Some(Measured { state, age_us: age_us as u32 })
    })
}

fn commands(value: Value<'_>) -> Option<Vec<ServoCommand>> {
    objects(value, |numbers| {
        let &[kind, position, velocity, torque, kp_scale, kd_scale, max_torque] = numbers else {
            return None;
        };
        Some(match kind as u8 {
            0 => ServoCommand::Stop,
            1 => ServoCommand::Damp,
            _ => {
                let target = PositionCommand { position, velocity, torque, kp_scale, kd_scale, max_torque };
                ServoCommand::Position(target)
            }
        })
    })
}

fn reading(value: Value<'_>) -> Option<Reading> {
    let mut imu = ImuState { sample: ImuState::NONE, fresh: value.at("fresh")? == Value::Bool(true) };
    let fill = |out: &mut [f64], field: &str| -> Option<()> {
        let Value::Array(items) = value.at(field)? else { return None };
        out.iter_mut().zip(items).for_each(|(out, item)| *out = item.number().unwrap_or(f64::NAN));
        Some(())
    };
    fill(&mut imu.sample.attitude, "attitude")?;
    fill(&mut imu.sample.rate, "rate")?;
    fill(&mut imu.sample.acceleration, "acceleration")?;
    Some(Reading { imu, age_us: value.at("age_us")?.number()? as u32 })
}

fn teleop(value: Value<'_>) -> Option<(u64, Teleop)> {
    let number = |field| value.at(field)?.number();
    let input = Teleop {
        forward: number("forward")?,
        left: number("left")?,
        turn: number("turn")?,
        height: number("height")?,
        roll: number("roll")?,
        pitch: number("pitch")?,
        age_ns: number("age_us")? as i64 * 1000,
    };
    Some((number("tick")? as u64, input))
}

fn change(value: Value<'_>) -> Option<Change> {
    let Value::String(name) = value.at("name")? else { return None };
    let number = |field| value.at(field)?.number();
    Some(Change { tick: number("tick")? as u64, name: name.to_owned(), value: number("value")? })
}
