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
//! | `policy` | once, if a controller decides less often than the loop ticks | [`Policy`]: its pace, its model, and what its numbers mean |
//! | `decision` | on each of its decisions that is followed or ends the run because it is late | [`Decision`]: when, its observation, its action |
//! | `parameters` | once | [`Parameters`]: what may be changed live, with the start values |
//! | `robot` | once | [`Robot`]: the robot file and the computer, so that the log explains itself |
//!
//! Units are SI: rad, rad/s, N·m, m/s². The schemas name them, so that every log and export has them. A field may be
//! added at the end of a record; none may change or go.

mod events;
mod policy;
mod servo;
mod targets;
mod tick;

pub use events::{Event, Parameter, Teleop};
pub use policy::{Decision, Each, Policy, Term};
pub use servo::{Code, Command, CommandKind, Imu, Servo};
pub use targets::{Aim, Following, Stage, Targets};
pub use tick::{Loss, Tick};

use khz_tlog::{Columns, Field, Record, Type};

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
    /// The clock the loop ran by, even if the file has another.
    pub clock: String,
    /// Where the robot file was, as it was named; empty if it was a text, or is built in.
    pub path: String,
    /// How its joints lie to each other, as JSON: `docs/log-format.md`. Empty if its shape is not known.
    pub skeleton: String,
}

/// A record that every run has: its name, what its fields are named after, and its schema. Where they are named after servos, the schema
/// is that of one servo.
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
        // Its fields are a robot's.
        (Type::Object(_), Type::Object(ours)) if ours.is_empty() => true,
        (ty, ours) => ty.to_bytes() == ours.to_bytes(),
    })
}

/// Every record that a run has.
pub const KNOWN: [Known; 14] = [
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
    Known { name: "policy", key: None, schema: Policy::schema },
    Known { name: "decision", key: None, schema: Decision::schema },
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
    fn a_decision_is_read_as_it_was_written() {
        let term = Term { name: "joint_pos".into(), len: 2, ..Term::default() };
        let policy =
            Policy { terms: vec![term], joints: vec!["hip".into(), "knee".into()], ..Policy::default() };
        let (observation, action) = (Each(vec![0.1, f32::MAX]), Each(vec![-0.0, 1.5]));
        let numbers =
            Decision { number: u64::MAX, of_tick: 40, in_tick: 41, took_ns: 7, ..Decision::default() };
        let decision = Decision {
            late: 1,
            missed: 2,
            clipped: 3,
            failed: true,
            carried: u64::MAX - 1,
            observation,
            action,
            cut: Each(vec![true, false]),
            ..numbers
        };
        let (schema, bytes) = (Decision::schema_of(&policy), decision.to_bytes());
        let read = Value::read(&schema, &bytes).map(|value| Decision::read(&value));
        assert_eq!(read, Ok(decision.clone()));
        assert_eq!(KNOWN[13].unknown_in(&schema), None, "its names are a robot's");
        let mut copied = Decision::default();
        copied.copy_from(&decision);
        assert_eq!(copied, decision);
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
