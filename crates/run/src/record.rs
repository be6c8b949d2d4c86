//! The records of a run.
//!
//! | record | when | what |
//! |---|---|---|
//! | `tick` | every tick | [`Tick`]: its times and their parts, what kept the thread from its CPU, counts, phase |
//! | `servo` | every tick | an object per servo, under its name: [`Servo`], measured values |
//! | `command` | every tick | an object per servo, under its name: [`Command`], what will be sent next |
//! | `imu` | every tick, if there is one | [`Imu`] |
//! | `event` | on each change of phase | [`Event`] |
//! | `parameter` | on each change of a parameter | [`Parameter`] |
//! | `teleop` | on each input of a person who steers | [`Teleop`] |
//! | `targets` | on each message of a program that sends targets | [`Targets`] |
//! | `stage` | every tick of a controller that follows targets | [`Following`] |
//! | `aim` | the same | an object per servo, under its name: [`Aim`] |
//! | `parameters` | once | [`Parameters`]: what may be changed live, with the start values |
//! | `robot` | once | [`Robot`]: the robot file and the computer, so that the log explains itself |
//!
//! Units are SI: rad, rad/s, N·m, m/s². The schemas name them, so that every log and export has them. A field may be
//! added at the end of a record; none may change or go.

use crate::Phase;
use khz_rt::{Cause, Disturbance};
use khz_tlog::{Columns, DecodeError, Field, Input, Record, Sink, Type};
use std::borrow::Cow;

/// A tick, as it is recorded and as everything that tells of a run sees it. Times are ns of the loop's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Record, Columns)]
pub struct Tick {
    /// Its number, from 0.
    pub number: u64,
    /// The planned time it ran for: of those passed, the latest.
    #[tlog(unit = "ns")]
    pub planned_ns: i64,
    /// The time the loop waited for. After a late wake that is before `planned_ns`.
    #[tlog(unit = "ns")]
    pub waited_for_ns: i64,
    /// The first planned time that no earlier tick ran for.
    #[tlog(unit = "ns")]
    pub due_ns: i64,
    /// When the loop began to wait: the previous tick was over and handed to the observers.
    #[tlog(unit = "ns")]
    pub ready_ns: i64,
    /// When it started: the loop woke.
    #[tlog(unit = "ns")]
    pub started_ns: i64,
    /// How late that was, from the time the loop waited for.
    #[tlog(unit = "ns")]
    pub wake_latency_ns: i64,
    /// Taking in what came since, and encoding the frames.
    #[tlog(unit = "ns")]
    pub encode_ns: i64,
    /// Handing the frames to the links.
    #[tlog(unit = "ns")]
    pub send_ns: i64,
    /// Until the last reply was decoded, or the bus deadline.
    #[tlog(unit = "ns")]
    pub collect_ns: i64,
    /// Of collecting, time in which only the IMU was still outstanding.
    #[tlog(unit = "ns")]
    pub imu_ns: i64,
    /// Supervisor and controller.
    #[tlog(unit = "ns")]
    pub decide_ns: i64,
    /// Of that, time in the controller.
    #[tlog(unit = "ns")]
    pub control_ns: i64,
    /// Handing the previous tick to the observers: recorder, statistics, live view.
    #[tlog(unit = "ns")]
    pub record_ns: i64,
    /// Loop compute time by the clock: encoding, decoding, state, supervisor, and `record_ns`. Neither links nor controller.
    #[tlog(unit = "ns", alias = "tick_cpu_ns")]
    pub loop_compute_ns: i64,
    /// The bus cycle: from the start to the last reply decoded, or to the bus deadline.
    #[tlog(unit = "ns")]
    pub cycle_ns: i64,
    /// CPU time of the thread between waking and the end.
    #[tlog(unit = "ns")]
    pub cpu_ns: i64,
    /// Between waking and the end, time the thread neither used the CPU nor slept on purpose.
    #[tlog(unit = "ns")]
    pub away_ns: i64,
    /// Of that, what fell within the bus cycle.
    #[tlog(unit = "ns")]
    pub away_in_cycle_ns: i64,
    /// Time in the run queue from the end of the previous tick to waking; 0 after a wake on time.
    #[tlog(unit = "ns")]
    pub queued_before_ns: i64,
    /// Time in the run queue from then on.
    #[tlog(unit = "ns")]
    pub queued_ns: i64,
    /// What page faults served from memory took, about.
    #[tlog(unit = "ns")]
    pub faults_ns: i64,
    /// Periods without a tick just before it.
    pub skipped: u32,
    /// Servos that were to reply and did not in time.
    pub missed: u32,
    /// Replies to older queries, and further replies to one query.
    pub late: u32,
    /// Frames that were no reply to a query.
    #[tlog(alias = "foreign")]
    pub unexpected: u32,
    /// Voluntary switches from the end of the previous tick to waking, beyond the wait for the start.
    pub blocked_before: u32,
    /// The same from then on, beyond the waits for replies.
    pub blocked: u32,
    /// Times another thread was put in its place, since the end of the previous tick.
    pub involuntary: u32,
    /// Page faults served from memory.
    pub minor_faults: u32,
    /// Page faults that read from disk, since the end of the previous tick.
    pub major_faults: u32,
    /// It ended after the next one should have started.
    pub overrun: bool,
    /// The frame that paces the loop did not come, and the timer started it.
    pub without_frame: bool,
    /// The IMU did not answer in time.
    pub imu_missed: bool,
    /// This tick and the previous one began in phase active.
    pub controlled: bool,
    /// The controller computed commands.
    pub controller_ran: bool,
    /// What it lost 50 µs or more to.
    pub cause: Loss,
    /// The phase at its end.
    pub phase: Phase,
}

/// What a tick lost most time to, as it is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Record)]
pub enum Loss {
    /// Nothing took 50 µs.
    #[default]
    #[tlog(rename = "none")]
    None = 0,
    /// Unaccounted for by the kernel.
    #[tlog(rename = "unaccounted")]
    Unaccounted = 1,
    /// Other threads had it.
    #[tlog(rename = "preempted")]
    Preempted = 2,
    /// The thread waited for a page from disk.
    #[tlog(rename = "page_fault")]
    PageFault = 3,
    /// It waited by itself, or was stopped.
    #[tlog(rename = "blocked")]
    Blocked = 4,
    /// The previous tick was not over.
    #[tlog(rename = "previous_tick")]
    PreviousTick = 5,
}

impl From<Option<Cause>> for Loss {
    fn from(cause: Option<Cause>) -> Self {
        match cause {
            Some(Cause::Unaccounted) => Self::Unaccounted,
            Some(Cause::Preempted) => Self::Preempted,
            Some(Cause::PageFault) => Self::PageFault,
            Some(Cause::Blocked) => Self::Blocked,
            Some(Cause::PreviousTick) => Self::PreviousTick,
            _ => Self::None,
        }
    }
}

impl Tick {
    /// One of which nothing is known. Logs that do not say which ticks were controlled have controlled ones only.
    pub const UNKNOWN: Self = Self {
        number: 0,
        planned_ns: 0,
        waited_for_ns: 0,
        due_ns: 0,
        ready_ns: 0,
        started_ns: 0,
        wake_latency_ns: 0,
        encode_ns: 0,
        send_ns: 0,
        collect_ns: 0,
        imu_ns: 0,
        decide_ns: 0,
        control_ns: 0,
        record_ns: 0,
        loop_compute_ns: 0,
        cycle_ns: 0,
        cpu_ns: 0,
        away_ns: 0,
        away_in_cycle_ns: 0,
        queued_before_ns: 0,
        queued_ns: 0,
        faults_ns: 0,
        skipped: 0,
        missed: 0,
        late: 0,
        unexpected: 0,
        blocked_before: 0,
        blocked: 0,
        involuntary: 0,
        minor_faults: 0,
        major_faults: 0,
        overrun: false,
        without_frame: false,
        imu_missed: false,
        controlled: true,
        controller_ran: false,
        cause: Loss::None,
        phase: Phase::Init,
    };

    /// A tick from elsewhere (a log, a datagram) may have any numbers: with none that cannot be counted with. Times end 18 years
    /// from their zero, durations at 18 minutes.
    #[must_use]
    pub fn bounded(self) -> Self {
        const TIMES_NS: i64 = 1 << 59;
        const DURATIONS_NS: i64 = 1 << 40;
        let time = |ns: i64| ns.clamp(-TIMES_NS, TIMES_NS);
        let duration = |ns: i64| ns.clamp(-DURATIONS_NS, DURATIONS_NS);
        Self {
            planned_ns: time(self.planned_ns),
            waited_for_ns: time(self.waited_for_ns),
            due_ns: time(self.due_ns),
            ready_ns: time(self.ready_ns),
            started_ns: time(self.started_ns),
            wake_latency_ns: duration(self.wake_latency_ns),
            encode_ns: duration(self.encode_ns),
            send_ns: duration(self.send_ns),
            collect_ns: duration(self.collect_ns),
            imu_ns: duration(self.imu_ns),
            decide_ns: duration(self.decide_ns),
            control_ns: duration(self.control_ns),
            record_ns: duration(self.record_ns),
            loop_compute_ns: duration(self.loop_compute_ns),
            cycle_ns: duration(self.cycle_ns),
            cpu_ns: duration(self.cpu_ns),
            away_ns: duration(self.away_ns),
            away_in_cycle_ns: duration(self.away_in_cycle_ns),
            queued_before_ns: duration(self.queued_before_ns),
            queued_ns: duration(self.queued_ns),
            faults_ns: duration(self.faults_ns),
            ..self
        }
    }

    /// From the time the loop waited for to the end of the tick.
    #[inline]
    pub const fn response_ns(&self) -> i64 {
        self.started_ns
            .saturating_add(self.cycle_ns)
            .saturating_add(self.decide_ns)
            .saturating_sub(self.waited_for_ns)
    }

    /// Of the wake latency, what had passed when the loop began to wait: the previous tick was not over.
    #[inline]
    pub fn previous_ns(&self) -> i64 {
        self.ready_ns.saturating_sub(self.waited_for_ns).clamp(0, self.wake_latency_ns.max(0))
    }

    /// What kept the thread from its CPU.
    #[inline]
    pub fn disturbance(&self) -> Disturbance {
        Disturbance {
            late_ns: self.wake_latency_ns.max(0),
            previous_ns: self.previous_ns(),
            cpu_ns: self.cpu_ns,
            away_ns: self.away_ns.max(0),
            queued_before_ns: self.queued_before_ns,
            queued_ns: self.queued_ns,
            blocked_before: self.blocked_before,
            blocked: self.blocked,
            involuntary: self.involuntary,
            minor_faults: self.minor_faults,
            faults_ns: self.faults_ns,
            major_faults: self.major_faults,
        }
    }
}

impl Default for Tick {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

/// What was measured of a servo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
pub struct Servo {
    /// Where the joint is.
    #[tlog(unit = "rad")]
    pub position: f32,
    /// How fast it turns.
    #[tlog(unit = "rad/s")]
    pub velocity: f32,
    /// What it applies.
    #[tlog(unit = "N·m")]
    pub torque: f32,
    /// The supply.
    #[tlog(unit = "V")]
    pub voltage: f32,
    /// The motor or its driver, whichever the servo reports.
    #[tlog(unit = "°C")]
    pub temperature: f32,
    /// What it does.
    pub doing: Code,
    /// The mode it reports, by its family's number.
    pub mode: Code,
    /// Its fault code; 0 is none.
    pub fault: u32,
    /// It replied in this tick.
    pub fresh: bool,
    /// How old these values are at the end of the bus cycle.
    #[tlog(unit = "us")]
    pub age_us: u32,
    /// From handing the query to the link until its reply arrived. The periods of a loop are a second at the most.
    #[tlog(unit = "ns")]
    pub round_trip_ns: u32,
}

/// A number whose names the schema has: those of a family of servos.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Code(pub u8);

impl Record for Code {
    fn schema() -> Type {
        Type::enumeration([(0, "unknown")])
    }

    #[inline]
    fn encode(&self, out: &mut impl Sink) {
        out.varuint(self.0.into());
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        Ok(Self(input.varuint()? as u8))
    }
}

impl Servo {
    /// Its schema with the names of what a servo does, and of a family's modes.
    pub fn schema_with(doing: &Type, modes: &Type) -> Type {
        let named = |field: Field| match field.name.as_str() {
            "doing" => Field::new("doing", doing.clone()),
            "mode" => Field::new("mode", modes.clone()),
            _ => field,
        };
        match Self::schema() {
            Type::Object(fields) => Type::Object(fields.into_iter().map(named).collect()),
            other => other,
        }
    }
}

/// What the next tick will send to a servo. Values that a command does not have are NaN.
#[derive(Clone, Copy, Debug, PartialEq, Record)]
pub struct Command {
    /// Which command.
    pub kind: CommandKind,
    /// Where to.
    #[tlog(unit = "rad")]
    pub position: f32,
    /// How fast.
    #[tlog(unit = "rad/s")]
    pub velocity: f32,
    /// What to apply besides.
    #[tlog(unit = "N·m")]
    pub torque: f32,
    /// Share of the servo's position gain.
    pub kp_scale: f32,
    /// Share of its velocity gain.
    pub kd_scale: f32,
    /// What it may apply at most.
    #[tlog(unit = "N·m")]
    pub max_torque: f32,
}

/// Which command a servo gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Record)]
pub enum CommandKind {
    /// Output off.
    #[tlog(rename = "stop")]
    Stop = 0,
    /// Brake.
    #[tlog(rename = "damp")]
    Damp = 1,
    /// Move or hold.
    #[tlog(rename = "position")]
    Position = 2,
}

/// What the IMU measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
pub struct Imu {
    /// A quaternion.
    pub attitude: [f32; 4],
    /// How fast the body turns, about x, y, z.
    #[tlog(unit = "rad/s")]
    pub rate: [f32; 3],
    /// Its acceleration along x, y, z.
    #[tlog(unit = "m/s²")]
    pub acceleration: [f32; 3],
    /// It was read in this tick.
    pub fresh: bool,
    /// How old these values are at the end of the bus cycle.
    #[tlog(unit = "us")]
    pub age_us: u32,
}

/// A change of phase; or, with equal phases, something that was warned of or derated for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Record)]
pub struct Event<'a> {
    /// In which tick.
    pub tick: u64,
    /// The phase left.
    pub from: Cow<'a, str>,
    /// The phase entered.
    pub to: Cow<'a, str>,
    /// Why.
    pub cause: Cow<'a, str>,
    /// The servo it is about, or empty.
    pub servo: Cow<'a, str>,
    /// Not part of a run that ends as planned.
    pub trouble: bool,
}

/// A change of a parameter.
#[derive(Clone, Debug, Default, PartialEq, Record)]
pub struct Parameter<'a> {
    /// The tick that took it.
    pub tick: u64,
    /// Its name.
    pub name: Cow<'a, str>,
    /// The value from then on.
    pub value: f64,
    /// The value before.
    pub before: f64,
    /// Who asked for it.
    pub by: Cow<'a, str>,
}

/// An input of a person who steers, within the limits.
#[derive(Clone, Debug, Default, PartialEq, Record)]
pub struct Teleop<'a> {
    /// The tick that took it.
    pub tick: u64,
    /// Forwards.
    #[tlog(unit = "m/s")]
    pub forward: f32,
    /// To the left.
    #[tlog(unit = "m/s")]
    pub left: f32,
    /// Turning, to the left.
    #[tlog(unit = "rad/s")]
    pub turn: f32,
    /// Height of the body above its usual one.
    #[tlog(unit = "m")]
    pub height: f32,
    /// Roll of the body.
    #[tlog(unit = "rad")]
    pub roll: f32,
    /// Pitch of the body.
    #[tlog(unit = "rad")]
    pub pitch: f32,
    /// How old it was when the tick took it.
    #[tlog(unit = "us")]
    pub age_us: u32,
    /// Who sent it.
    pub by: Cow<'a, str>,
}

/// A message of a program that sends targets, when it arrived.
#[derive(Clone, Debug, Default, PartialEq, Record)]
pub struct Targets<'a> {
    /// Who sent it.
    pub by: Cow<'a, str>,
    /// Its number among those of its program, and one more; 0: it has none.
    pub seq: u64,
    /// Its points; 0: it could not be read.
    pub points: u32,
    /// When the first is to be reached, by the loop's clock.
    #[tlog(unit = "ns")]
    pub first_ns: i64,
    /// When the last is.
    #[tlog(unit = "ns")]
    pub last_ns: i64,
    /// How long after the time of its first point it arrived; below 0: so long before.
    #[tlog(unit = "ns")]
    pub late_ns: i64,
    /// How wrong its times may be, because its clock is another one.
    #[tlog(unit = "ns")]
    pub clock_ns: i64,
    /// Numbers that were beyond a limit, and are at it.
    pub clamped: u32,
    /// Why nothing of it is taken; empty: it is.
    pub refused: Cow<'a, str>,
}

/// Where the targets of a robot stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Record)]
pub struct Following {
    /// The tick.
    pub tick: u64,
    /// On time, or since when not.
    pub stage: Stage,
    /// How long ago the newest point was due; below 0: so long until then.
    #[tlog(unit = "us")]
    pub age_us: i64,
    /// Whoever sends has said that it would be silent.
    pub meant: bool,
}

/// Where targets stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Record)]
pub enum Stage {
    /// Nobody sends any.
    #[default]
    #[tlog(rename = "idle")]
    Idle = 0,
    /// The next point is known.
    #[tlog(rename = "on_time")]
    OnTime = 1,
    /// It goes on after the newest point, and comes to rest.
    #[tlog(rename = "held_over")]
    HeldOver = 2,
    /// It stands where it came to rest.
    #[tlog(rename = "waiting")]
    Waiting = 3,
    /// It has been standing for longer than `silent_s`.
    #[tlog(rename = "silent")]
    Silent = 4,
}

/// How a servo is led to its targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
pub struct Aim {
    /// Where its targets have it now.
    #[tlog(unit = "rad")]
    pub target: f32,
    /// How far beside that it is led, after a curve was replaced.
    #[tlog(unit = "rad")]
    pub offset: f32,
    /// Both together: what its command follows, within the limits.
    #[tlog(unit = "rad")]
    pub reference: f32,
}

/// What may be changed live.
#[derive(Clone, Debug, Default, PartialEq, Eq, Record)]
pub struct Parameters {
    /// JSON: an object per parameter, with its value at the start.
    pub text: String,
}

/// What ran, where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Record)]
pub struct Robot {
    /// The robot's name.
    pub name: String,
    /// Its robot file.
    pub file: String,
    /// The computer, as JSON.
    pub passport: String,
    /// The clock the loop ran by, whatever the file says of it.
    pub clock: String,
    /// Where the robot file was, as it was named; empty if it was a text, or is built in.
    pub path: String,
    /// How its joints lie to each other, as JSON: `docs/log-format.md`. Empty if nothing tells its shape.
    pub skeleton: String,
}

/// A record that every run has: its name, what has a row of its own in tables if its fields have, and its schema. Of what is
/// named after servos, the schema of one.
pub struct Known {
    /// Its name.
    pub name: &'static str,
    /// What its fields are named after.
    pub key: Option<&'static str>,
    /// Its fields.
    pub schema: fn() -> Type,
}

impl Known {
    /// The first field of a log's record that this version does not know, or knows as something else: the log is of a newer version, or
    /// its schema, which no checksum guards, is damaged. Allocates.
    #[must_use]
    pub fn unknown_in(&self, ty: &Type) -> Option<String> {
        let Type::Object(fields) = ty else { return Some(String::new()) };
        let Some(_) = self.key else { return self.unknown_of(fields).map(str::to_owned) };
        fields.iter().find_map(|servo| match &servo.ty {
            Type::Object(fields) => Some(format!("{}.{}", servo.name, self.unknown_of(fields)?)),
            _ => Some(servo.name.clone()),
        })
    }

    fn unknown_of<'a>(&self, fields: &'a [Field]) -> Option<&'a str> {
        let ours = (self.schema)();
        fields.iter().find(|field| !is_known(field, &ours)).map(|field| field.name.as_str())
    }
}

/// Whether a record has such a field. What the values of an enum are called is its writer's.
fn is_known(field: &Field, ours: &Type) -> bool {
    let Type::Object(ours) = ours else { return false };
    let place = Tick::place(&field.name).filter(|_| ours.len() == Tick::FIELDS.len());
    let same = ours.iter().position(|ours| ours.name == field.name).or(place).and_then(|at| ours.get(at));
    same.is_some_and(|same| match (&field.ty, &same.ty) {
        (Type::Enum { of, .. }, Type::Enum { of: ours, .. }) => of == ours,
        (ty, ours) => ty.to_bytes() == ours.to_bytes(),
    })
}

/// Every record that a run has.
pub const KNOWN: [Known; 12] = [
    Known { name: "tick", key: None, schema: Tick::schema },
    Known { name: "servo", key: Some("servo"), schema: Servo::schema },
    Known { name: "command", key: Some("servo"), schema: Command::schema },
    Known { name: "imu", key: None, schema: Imu::schema },
    Known { name: "event", key: None, schema: Event::schema },
    Known { name: "parameter", key: None, schema: Parameter::schema },
    Known { name: "teleop", key: None, schema: Teleop::schema },
    Known { name: "parameters", key: None, schema: Parameters::schema },
    Known { name: "robot", key: None, schema: Robot::schema },
    Known { name: "targets", key: None, schema: Targets::schema },
    Known { name: "stage", key: None, schema: Following::schema },
    Known { name: "aim", key: Some("servo"), schema: Aim::schema },
];

/// The schema of a record with an object per servo.
pub fn per_servo<'a>(servos: impl IntoIterator<Item = (&'a str, Type)>) -> Type {
    Type::Object(servos.into_iter().map(|(name, ty)| Field::new(name, ty)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_tlog::{Value, Width};

    #[test]
    fn every_physical_quantity_of_a_run_has_its_unit() {
        let units = |ty: &Type| {
            ty.units().into_iter().map(|(path, unit)| format!("{path} {unit}")).collect::<Vec<_>>()
        };
        let motion = ["position rad", "velocity rad/s", "torque N·m"];
        let servo = ["voltage V", "temperature °C", "age_us us", "round_trip_ns ns"];
        assert_eq!(units(&Servo::schema()), [&motion[..], &servo].concat());
        assert_eq!(units(&Command::schema()), [&motion[..], &["max_torque N·m"]].concat());
        assert_eq!(units(&Imu::schema()), ["rate rad/s", "acceleration m/s²", "age_us us"]);
        let in_ns = Tick::FIELDS.iter().filter(|field| field.name.ends_with("_ns"));
        assert_eq!(
            units(&Tick::schema()),
            in_ns.map(|field| format!("{} ns", field.name)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_tick_is_read_from_logs_that_call_its_fields_otherwise() {
        let old = Type::object([
            ("foreign", Type::VarUint),
            ("tick_cpu_ns", Type::VarInt),
            ("number", Type::VarUint),
        ]);
        let mut tick = Tick::UNKNOWN;
        tick.read(&Value::read(&old, &[3, 8, 7]).unwrap_or(Value::Null));
        assert_eq!((tick.unexpected, tick.loop_compute_ns, tick.number, tick.controlled), (3, 4, 7, true));
    }

    /// One changed bit in a name made every reply one that was not missed, and the verdict good.
    #[test]
    fn a_field_that_no_version_has_is_found() {
        let changed = |record: usize, from: &str, to: &str| {
            let known = &KNOWN[record];
            let schema = (known.schema)();
            let schema = if known.key.is_some() { per_servo([("hip", schema)]) } else { schema };
            let bytes = schema.to_bytes();
            let at = bytes.windows(from.len()).position(|window| window == from.as_bytes());
            let mut damaged = bytes.clone();
            let at = at.unwrap_or_else(|| panic!("{from}"));
            damaged[at..at + to.len()].copy_from_slice(to.as_bytes());
            known.unknown_in(&Type::decode(&damaged).unwrap_or(Type::Null))
        };
        assert_eq!(changed(0, "missed", "misqed").as_deref(), Some("misqed"));
        assert_eq!(changed(1, "fresh", "frexh").as_deref(), Some("hip.frexh"));
        assert_eq!(changed(4, "trouble", "troubld").as_deref(), Some("troubld"));
        assert_eq!(changed(0, "skipped", "skipped"), None);
        let renamed = Type::object([("foreign", Type::Uint(Width::Four))]);
        assert_eq!(KNOWN[0].unknown_in(&renamed), None, "an older version's name");
        let narrow = Type::object([("missed", Type::Uint(Width::Two))]);
        assert_eq!(KNOWN[0].unknown_in(&narrow).as_deref(), Some("missed"), "another type");
    }

    #[test]
    fn every_field_of_a_tick_says_what_it_is() {
        assert!(Tick::FIELDS.iter().all(|field| !field.about.is_empty()));
        assert_eq!(Tick::WIDTH, Some(8 * 22 + 4 * 9 + 5 + 2), "it goes into the ring in one piece");
    }

    #[test]
    fn what_a_servo_does_is_named_by_its_family() {
        let names = |name| Type::enumeration([(0, name)]);
        let Type::Object(fields) = Servo::schema_with(&names("off"), &names("stopped")) else {
            panic!("an object")
        };
        assert_eq!([&fields[5].ty, &fields[6].ty], [&names("off"), &names("stopped")]);
    }
}
