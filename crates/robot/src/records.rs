//! The records of a run: their schemas, and how a tick becomes their bytes.
//!
//! | record | when | what |
//! |---|---|---|
//! | `tick` | every tick | its times and their parts, what kept the thread from its CPU, counts, supervisor phase |
//! | `servo` | every tick | one object per servo, under its name: measured values |
//! | `command` | every tick | one object per servo, under its name: what will be sent next |
//! | `imu` | every tick, if there is one | attitude, rate, acceleration, age |
//! | `event` | on each change of phase | from, to, cause, servo |
//! | `parameter` | on each change of a parameter | tick, name, value, value before, who asked |
//! | `teleop` | on each input of a person who steers | tick, what is asked for, how old it is, who sent it |
//! | `parameters` | once | what may be changed live, with the start values |
//! | `robot` | once | the robot file and the computer, so that the log explains itself |
//!
//! Units are SI: rad, rad/s, N·m, m/s². The schemas name them, so that every log and export has them.

use crate::assemble::link_names;
use crate::config::{Clock, RobotConfig, ServoConfig};
use crate::parameters::{Parameter, Taken};
use crate::recorder::{Plan, RecordId, RecorderError, Tap};
use crate::run::{Observer, Tick};
use crate::state::{ImuState, Teleop};
use crate::steer::Input;
use crate::supervisor::{Phase, Transition};
use arrayvec::ArrayString;
use khz_servo::{Doing, Family, PositionCommand, ServoCommand, ServoState};
use khz_tlog::{Field, Sink, Type, Width};
use std::fmt::Write;

const FLOAT: Type = Type::Float32;
const I64: Type = Type::Int(Width::Eight);
const U64: Type = Type::Uint(Width::Eight);
const U32: Type = Type::Uint(Width::Four);

/// Records every tick of a run.
pub struct RunLog {
    tap: Tap,
    tick: RecordId,
    servo: RecordId,
    command: RecordId,
    imu: Option<RecordId>,
    event: RecordId,
    parameter: RecordId,
    teleop: RecordId,
    parameters: Vec<String>,
    names: Vec<String>,
    links: Vec<String>,
}

impl RunLog {
    /// Declares the records of a run of this robot and takes the loop's ring.
    ///
    /// # Errors
    /// If the plan has records of these names already.
    pub fn declare(plan: &mut Plan, config: &RobotConfig) -> Result<Self, RecorderError> {
        let names: Vec<String> = config.servos.iter().map(|servo| servo.name.clone()).collect();
        let of_servos = || names.iter().map(String::as_str);
        let families: Vec<_> = of_servos().zip(config.servos.iter().map(ServoConfig::family)).collect();
        Ok(Self {
            tick: plan.record("tick", &tick_schema())?,
            servo: plan
                .record("servo", &servo_schema(families.iter().map(|(name, family)| (*name, family))))?,
            command: plan.record("command", &command_schema(of_servos()))?,
            imu: config.imu.as_ref().map(|_| plan.record("imu", &imu_schema())).transpose()?,
            event: plan.record("event", &event_schema())?,
            parameter: plan.record("parameter", &parameter_schema())?,
            teleop: plan.record("teleop", &teleop_schema())?,
            parameters: Vec::new(),
            tap: plan.tap(config.log.ring_mib as usize * 1024 * 1024),
            names,
            links: link_names(config),
        })
    }

    /// Changes of these parameters are recorded by their names.
    #[must_use]
    pub fn with_parameters(self, list: &[Parameter]) -> Self {
        Self { parameters: list.iter().map(|parameter| parameter.name.clone()).collect(), ..self }
    }

    fn name(&self, servo: Option<u16>) -> &str {
        servo.and_then(|servo| self.names.get(usize::from(servo))).map_or("", String::as_str)
    }
}

impl Observer for RunLog {
    /// Copies the tick into the recorder's ring; what does not fit is dropped and counted there.
    fn tick(&mut self, tick: &Tick<'_>) {
        let (machine, at_ns) = (tick.machine, tick.timing.started_ns);
        let state = machine.state();
        self.tap.push_with(self.tick, at_ns, |out| write_tick(tick, out));
        self.tap.push_with(self.servo, at_ns, |out| write_servos(&state.servos, state.now_ns, out));
        self.tap.push_with(self.command, at_ns, |out| write_commands(machine.commands(), out));
        if let (Some(record), Some(imu)) = (self.imu, &state.imu) {
            self.tap.push_with(record, at_ns, |out| write_imu(imu, state.now_ns, out));
        }
        for change in machine.changes() {
            let name = self.parameters.get(usize::from(change.parameter)).map_or("", String::as_str);
            self.tap.push_with(self.parameter, at_ns, |out| write_parameter(tick.number, name, change, out));
        }
        if let Some(input) = machine.input() {
            let age_ns = state.teleop.age_ns;
            self.tap.push_with(self.teleop, at_ns, |out| write_teleop(tick.number, input, age_ns, out));
        }
        for transition in machine.transitions() {
            let mut event = [0; 512];
            let mut out = khz_tlog::Slice::new(&mut event);
            write_event(transition, &self.links, self.name(transition.cause.servo()), &mut out);
            if let Some(bytes) = out.written() {
                self.tap.push(self.event, transition.at_ns, bytes);
            }
        }
    }
}

/// Schema of `robot`.
pub fn robot_schema() -> Type {
    let text = |name| (name, Type::String);
    Type::object([text("name"), text("file"), text("passport"), text("clock")])
}

/// The bytes of a `robot` record: the robot file's text, the computer's passport as JSON, and the clock the loop ran by,
/// whatever the file says of it.
pub fn robot_record(name: &str, file: &str, passport: &str, clock: Clock) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in [name, file, passport, clock.word()] {
        bytes.counted(text.as_bytes());
    }
    bytes
}

/// Schema of `tick`. `docs/metrics.md` says how the figures of a run follow from it.
pub fn tick_schema() -> Type {
    let causes = [
        (0, "none"),
        (1, "unaccounted"),
        (2, "preempted"),
        (3, "page_fault"),
        (4, "blocked"),
        (5, "previous_tick"),
    ];
    let durations = DURATIONS.iter().map(|name| Field::new(*name, I64).with_unit("ns"));
    let counts = COUNTS.iter().map(|name| Field::new(*name, U32));
    let rest = [
        ("overrun", Type::Bool),
        ("without_frame", Type::Bool),
        ("imu_missed", Type::Bool),
        ("controlled", Type::Bool),
        ("controller_ran", Type::Bool),
        ("cause", Type::enumeration(causes)),
        ("phase", Type::enumeration(Phase::ALL.map(|phase| (phase as u64, phase.name())))),
    ];
    let rest = rest.into_iter().map(|(name, ty)| Field::new(name, ty));
    Type::Object([Field::new("number", U64)].into_iter().chain(durations).chain(counts).chain(rest).collect())
}

/// Times and durations of a `tick` record, in their order.
const DURATIONS: [&str; 21] = [
    "planned_ns",
    "waited_for_ns",
    "due_ns",
    "ready_ns",
    "started_ns",
    "wake_latency_ns",
    "encode_ns",
    "send_ns",
    "collect_ns",
    "imu_ns",
    "decide_ns",
    "control_ns",
    "record_ns",
    "loop_compute_ns",
    "cycle_ns",
    "cpu_ns",
    "away_ns",
    "away_in_cycle_ns",
    "queued_before_ns",
    "queued_ns",
    "faults_ns",
];

/// Counts of a `tick` record, in their order.
const COUNTS: [&str; 9] = [
    "skipped",
    "missed",
    "late",
    "unexpected",
    "blocked_before",
    "blocked",
    "involuntary",
    "minor_faults",
    "major_faults",
];

/// Writes a `tick` record.
pub fn write_tick(tick: &Tick<'_>, out: &mut impl Sink) {
    out.put(&tick.number.to_le_bytes());
    out.put(durations(tick).map(i64::to_le_bytes).as_flattened());
    out.put(counts(tick).map(u32::to_le_bytes).as_flattened());
    let (timing, imu_missed) = (&tick.timing, tick.machine.result().imu_missed);
    let flags = [tick.overrun, tick.without_frame, imu_missed, timing.controlled, timing.controller_ran];
    out.put(&flags.map(u8::from));
    out.varuint(match tick.disturbance.cause() {
        Some(khz_rt::Cause::Unaccounted) => 1,
        Some(khz_rt::Cause::Preempted) => 2,
        Some(khz_rt::Cause::PageFault) => 3,
        Some(khz_rt::Cause::Blocked) => 4,
        Some(khz_rt::Cause::PreviousTick) => 5,
        _ => 0,
    });
    out.varuint(tick.machine.phase() as u64);
}

fn durations(tick: &Tick<'_>) -> [i64; DURATIONS.len()] {
    let (timing, lost) = (&tick.timing, &tick.disturbance);
    [
        timing.planned_ns,
        timing.waited_for_ns,
        timing.due_ns,
        timing.ready_ns,
        timing.started_ns,
        timing.wake_latency_ns(),
        timing.encoded_ns - timing.started_ns,
        timing.sent_ns - timing.encoded_ns,
        timing.collected_ns - timing.sent_ns,
        timing.imu_ns,
        timing.decided_ns - timing.collected_ns,
        timing.control_ns,
        timing.record_ns,
        timing.own_ns,
        timing.cycle_ns(),
        lost.cpu_ns,
        lost.away_ns,
        tick.away_in_cycle_ns,
        lost.queued_before_ns,
        lost.queued_ns,
        lost.faults_ns,
    ]
}

fn counts(tick: &Tick<'_>) -> [u32; COUNTS.len()] {
    let (result, lost) = (tick.machine.result(), &tick.disturbance);
    [
        u32::try_from(tick.skipped).unwrap_or(u32::MAX),
        u32::from(result.missed),
        result.late,
        result.foreign,
        lost.blocked_before,
        lost.blocked,
        lost.involuntary,
        lost.minor_faults,
        lost.major_faults,
    ]
}

/// Schema of `servo`: one object per servo.
pub fn servo_schema<'a>(servos: impl IntoIterator<Item = (&'a str, &'a Family)>) -> Type {
    let doing = || Type::enumeration(Doing::ALL.map(|doing| (doing as u64, doing.name())));
    let servo = |family: &Family| {
        Type::Object(vec![
            Field::new("position", FLOAT).with_unit("rad"),
            Field::new("velocity", FLOAT).with_unit("rad/s"),
            Field::new("torque", FLOAT).with_unit("N·m"),
            Field::new("voltage", FLOAT).with_unit("V"),
            Field::new("temperature", FLOAT).with_unit("°C"),
            Field::new("doing", doing()),
            Field::new("mode", Type::enumeration(family.settings().modes())),
            Field::new("fault", U32),
            Field::new("fresh", Type::Bool),
            Field::new("age_us", U32).with_unit("us"),
            // The periods of a loop are a second at the most, and a reply in time takes less.
            Field::new("round_trip_ns", U32).with_unit("ns"),
        ])
    };
    Type::object(servos.into_iter().map(|(name, family)| (name, servo(family))))
}

/// Writes a `servo` record.
pub fn write_servos(servos: &[ServoState], now_ns: i64, out: &mut impl Sink) {
    for servo in servos {
        put_floats([servo.position, servo.velocity, servo.torque, servo.voltage, servo.temperature], out);
        out.varuint(servo.doing as u64);
        out.varuint(servo.mode.number.into());
        out.put(&servo.fault.code.to_le_bytes());
        out.put(&[u8::from(servo.fresh)]);
        out.put(&micros(servo.age_ns(now_ns)).to_le_bytes());
        out.put(&u32::try_from(servo.round_trip_ns).unwrap_or(u32::MAX).to_le_bytes());
    }
}

/// Schema of `command`: one object per servo.
pub fn command_schema<'a>(names: impl IntoIterator<Item = &'a str>) -> Type {
    let command = || {
        Type::Object(vec![
            Field::new("kind", Type::enumeration([(0, "stop"), (1, "damp"), (2, "position")])),
            Field::new("position", FLOAT).with_unit("rad"),
            Field::new("velocity", FLOAT).with_unit("rad/s"),
            Field::new("torque", FLOAT).with_unit("N·m"),
            Field::new("kp_scale", FLOAT),
            Field::new("kd_scale", FLOAT),
            Field::new("max_torque", FLOAT).with_unit("N·m"),
        ])
    };
    Type::object(names.into_iter().map(|name| (name, command())))
}

/// Writes a `command` record. Fields of commands that have none are NaN.
pub fn write_commands(commands: &[ServoCommand], out: &mut impl Sink) {
    const NONE: PositionCommand = PositionCommand {
        position: f64::NAN,
        velocity: f64::NAN,
        torque: f64::NAN,
        kp_scale: f64::NAN,
        kd_scale: f64::NAN,
        max_torque: f64::NAN,
    };
    for command in commands {
        let (kind, target) = match command {
            ServoCommand::Stop => (0, NONE),
            ServoCommand::Damp => (1, NONE),
            ServoCommand::Position(target) => (2, *target),
        };
        let PositionCommand { position, velocity, torque, kp_scale, kd_scale, max_torque } = target;
        out.varuint(kind);
        put_floats([position, velocity, torque, kp_scale, kd_scale, max_torque], out);
    }
}

/// Schema of `imu`.
pub fn imu_schema() -> Type {
    let floats = |count| Type::FixedArray(count, Box::new(FLOAT));
    Type::Object(vec![
        Field::new("attitude", floats(4)),
        Field::new("rate", floats(3)).with_unit("rad/s"),
        Field::new("acceleration", floats(3)).with_unit("m/s²"),
        Field::new("fresh", Type::Bool),
        Field::new("age_us", U32).with_unit("us"),
    ])
}

/// Writes an `imu` record.
pub fn write_imu(imu: &ImuState, now_ns: i64, out: &mut impl Sink) {
    let sample = &imu.sample;
    put_floats(sample.attitude, out);
    put_floats(sample.rate, out);
    put_floats(sample.acceleration, out);
    out.put(&[u8::from(imu.fresh)]);
    out.put(&micros(imu.age_ns(now_ns)).to_le_bytes());
}

/// Schema of `event`.
pub fn event_schema() -> Type {
    Type::object([
        ("tick", U64),
        ("from", Type::String),
        ("to", Type::String),
        ("cause", Type::String),
        ("servo", Type::String),
        ("trouble", Type::Bool),
    ])
}

/// Writes an `event` record; `servo` is the name of the servo it is about, or empty. The only record that
/// is formatted as text; written once per change of phase.
pub fn write_event(transition: &Transition, links: &[String], servo: &str, out: &mut impl Sink) {
    let mut cause = CutOff(ArrayString::<120>::new());
    // It is reported in full elsewhere.
    let _ = write!(cause, "{}", transition.cause.told(links));
    out.put(&transition.tick.to_le_bytes());
    for text in [transition.from.name(), transition.to.name(), cause.0.as_str(), servo] {
        out.counted(text.as_bytes());
    }
    out.put(&[u8::from(transition.cause.is_trouble())]);
}

/// Schema of `parameters`.
pub fn parameters_schema() -> Type {
    Type::object([("text", Type::String)])
}

/// The bytes of a `parameters` record: JSON, one object per parameter, with its value now.
pub fn parameters_record(list: &[Parameter]) -> Vec<u8> {
    let list: serde_json::Value = list.iter().map(Parameter::described).collect();
    let mut bytes = Vec::new();
    bytes.counted(list.to_string().as_bytes());
    bytes
}

/// Schema of `parameter`.
pub fn parameter_schema() -> Type {
    let (value, text) = (Type::Float64, Type::String);
    Type::object([
        ("tick", U64),
        ("name", text.clone()),
        ("value", value.clone()),
        ("before", value),
        ("by", text),
    ])
}

/// Writes a `parameter` record.
pub fn write_parameter(tick: u64, name: &str, change: &Taken, out: &mut impl Sink) {
    out.put(&tick.to_le_bytes());
    out.counted(name.as_bytes());
    out.put(&change.value.to_le_bytes());
    out.put(&change.before.to_le_bytes());
    out.counted(change.by.as_bytes());
}

/// Schema of `teleop`.
pub fn teleop_schema() -> Type {
    let value = |name, unit| Field::new(name, FLOAT).with_unit(unit);
    Type::Object(vec![
        Field::new("tick", U64),
        value("forward", "m/s"),
        value("left", "m/s"),
        value("turn", "rad/s"),
        value("height", "m"),
        value("roll", "rad"),
        value("pitch", "rad"),
        Field::new("age_us", U32).with_unit("us"),
        Field::new("by", Type::String),
    ])
}

/// Writes a `teleop` record.
pub fn write_teleop(tick: u64, input: &Input, age_ns: i64, out: &mut impl Sink) {
    let Teleop { forward, left, turn, height, roll, pitch, .. } = input.wanted;
    out.put(&tick.to_le_bytes());
    put_floats([forward, left, turn, height, roll, pitch], out);
    out.put(&micros(age_ns).to_le_bytes());
    out.counted(input.by.as_bytes());
}

/// A text that ends where there is no more room.
struct CutOff<const N: usize>(ArrayString<N>);

impl<const N: usize> Write for CutOff<N> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        text.chars().try_for_each(|char| self.0.try_push(char)).map_err(|_| std::fmt::Error)
    }
}

/// In one piece: to put each by itself takes several times as long, and this is done in every tick.
fn put_floats<const N: usize>(values: [f64; N], out: &mut impl Sink) {
    out.put(values.map(|value| (value as f32).to_le_bytes()).as_flattened());
}

fn micros(ns: i64) -> u32 {
    u32::try_from(ns / 1000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::Cause;

    /// The last words of the paths of fields and what units these have.
    fn units(ty: &Type) -> Vec<(String, &str)> {
        let last = |path: String| path.rsplit('.').next().unwrap_or_default().to_owned();
        ty.units().into_iter().map(|(path, unit)| (last(path), unit)).collect()
    }

    #[test]
    fn every_physical_quantity_of_a_run_has_its_unit() {
        let motion =
            [("position", "rad"), ("velocity", "rad/s"), ("torque", "N·m")].map(|(n, u)| (n.to_owned(), u));
        let more = |pairs: &[(&str, &'static str)]| {
            pairs.iter().map(|(n, u)| ((*n).to_owned(), *u)).collect::<Vec<_>>()
        };
        let servo =
            more(&[("voltage", "V"), ("temperature", "°C"), ("age_us", "us"), ("round_trip_ns", "ns")]);
        let family = Family::Moteus(khz_servo::moteus::Settings::default());
        assert_eq!(units(&servo_schema([("hip", &family)])), [&motion[..], &servo].concat());
        assert_eq!(units(&command_schema(["hip"])), [&motion[..], &more(&[("max_torque", "N·m")])].concat());
        let imu = more(&[("rate", "rad/s"), ("acceleration", "m/s²"), ("age_us", "us")]);
        assert_eq!(units(&imu_schema()), imu);
        assert_eq!(units(&tick_schema()), DURATIONS.map(|name| (name.to_owned(), "ns")));
    }

    #[test]
    fn a_cause_too_long_for_its_record_is_cut_off() {
        let transition = Transition {
            tick: 7,
            at_ns: 0,
            from: Phase::Active,
            to: Phase::Damping,
            cause: Cause::BusDown { link: 0 },
            deadline_ns: None,
            last_good_ns: 0,
        };
        let links = [format!("the link of buses {}", "ä".repeat(100))];
        let mut out = Vec::new();
        write_event(&transition, &links, "", &mut out);
        let text = String::from_utf8_lossy(&out);
        assert!(text.contains("the link of buses ääää") && !text.contains("is down"), "{text}");
    }
}
