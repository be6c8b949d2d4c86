//! A policy and its decisions.

use khz_tlog::{DecodeError, Field, Input, Record, Sink, Type, Value};

/// A trained policy: its model, and what its numbers mean. Lists are in the policy's order; of another controller that decides less often
/// than the loop ticks they are empty.
#[derive(Clone, Debug, Default, PartialEq, Record)]
pub struct Policy {
    /// The model's file, as the robot file names it.
    pub model: String,
    /// The SHA-256 of the model.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
    /// What evaluates it, and in which version.
    pub engine: String,
    /// Its operators, each with how many there are.
    pub operators: String,
    /// What it sees.
    pub terms: Vec<Term>,
    /// The servo of each joint.
    pub joints: Vec<String>,
    /// The default posture.
    #[tlog(unit = "rad")]
    pub default: Vec<f64>,
    /// The model's output is multiplied by this, …
    pub scale: Vec<f64>,
    /// … and this is added.
    pub offset: Vec<f64>,
    /// Shares of the servos' position gains, …
    pub kp_scale: Vec<f64>,
    /// … and of their velocity gains.
    pub kd_scale: Vec<f64>,
    /// Ticks from one decision to the next.
    pub every: u64,
    /// From the tick whose state it sees to the tick that follows its decision.
    pub delay: u64,
    /// So many late ones in a row are an error.
    pub max_late: u32,
}

/// One term of what a policy sees.
#[derive(Clone, Debug, Default, PartialEq, Record)]
pub struct Term {
    /// Its name in records, which no other term has.
    pub name: String,
    /// Where it begins in the observation, if it is put together term by term.
    pub offset: u32,
    /// Its numbers in one decision.
    pub len: u32,
    /// Of so many decisions.
    pub history: u32,
    /// Least and greatest value before it is scaled; none: any.
    pub clip: Vec<[f32; 2]>,
    /// What it is multiplied by.
    pub scale: Vec<f32>,
}

/// A decision, when it began to be followed, or when the run ended because it was not there.
#[derive(Clone, Debug, Default, PartialEq, Record)]
pub struct Decision {
    /// Its number, from 1.
    pub number: u64,
    /// The tick whose state it is of.
    pub of_tick: u64,
    /// The first tick whose commands follow it, or that in which the run ended.
    pub in_tick: u64,
    /// How long it took; 0 if it was made within the tick, or where time stands still.
    #[tlog(unit = "ns")]
    pub took_ns: i64,
    /// So many ticks later than it was due.
    pub late: u32,
    /// Decisions that were not made since the one before, because one was under way.
    pub missed: u32,
    /// Numbers of it that were beyond `action.clip`.
    pub clipped: u32,
    /// It failed: its observation or its action is not finite, or it was so late that the run ended before it was there.
    pub failed: bool,
    /// A hash of what is carried to the next decision; 0: nothing is.
    pub carried: u64,
    /// Its observation, as it goes into the model, the newest of each term: an object with the terms' numbers, by name.
    pub observation: Each<f32>,
    /// Its action, before it is clipped and scaled: an object with a number for each joint, by name.
    pub action: Each<f32>,
    /// Joints whose commands were cut by limits since the decision before.
    pub cut: Each<bool>,
}

impl Decision {
    /// It is one, and is followed from this tick on.
    #[must_use]
    pub const fn begins_in(&self, tick: u64) -> bool {
        self.number > 0 && self.in_tick == tick
    }

    /// It was not there when the run ended because of that: its observation and action are not known.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        self.failed && self.late > 0 && self.took_ns == 0
    }

    /// As a log has it; what that lacks is 0. Allocates.
    #[must_use]
    pub fn read(value: &Value<'_>) -> Self {
        let number = |field| value.at(field).and_then(|value| value.number()).unwrap_or_default();
        let whole = |field| match value.at(field) {
            Some(Value::Uint(whole)) => whole,
            _ => 0,
        };
        let (mut observation, mut action, mut cut) = (Vec::new(), Vec::new(), Vec::new());
        value.at("observation").iter().for_each(|value| floats(value, &mut observation));
        value.at("action").iter().for_each(|value| floats(value, &mut action));
        if let Some(Value::Object(joints)) = value.at("cut") {
            cut.extend(joints.map(|(_, is_cut)| is_cut == Value::Bool(true)));
        }
        Self {
            number: whole("number"),
            of_tick: whole("of_tick"),
            in_tick: whole("in_tick"),
            took_ns: number("took_ns") as i64,
            late: number("late") as u32,
            missed: number("missed") as u32,
            clipped: number("clipped") as u32,
            failed: value.at("failed") == Some(Value::Bool(true)),
            carried: whole("carried"),
            observation: Each(observation),
            action: Each(action),
            cut: Each(cut),
        }
    }

    /// The same as another, in the memory there is, if that has had one as long.
    pub fn copy_from(&mut self, other: &Self) {
        let [mut observation, mut action] =
            [&mut self.observation, &mut self.action].map(|each| std::mem::take(&mut each.0));
        let mut cut = std::mem::take(&mut self.cut.0);
        observation.clone_from(&other.observation.0);
        action.clone_from(&other.action.0);
        cut.clone_from(&other.cut.0);
        *self = Self { observation: Each(observation), action: Each(action), cut: Each(cut), ..*other };
    }

    /// Its schema for a policy.
    #[must_use]
    pub fn schema_of(policy: &Policy) -> Type {
        let terms = policy.terms.iter().map(|term| {
            let numbers = Type::FixedArray(term.len.into(), Box::new(Type::Float32));
            Field::new(term.name.as_str(), numbers)
        });
        let terms = Type::Object(terms.collect());
        let joints = |ty: Type| {
            Type::Object(policy.joints.iter().map(|name| Field::new(name.as_str(), ty.clone())).collect())
        };
        let named = |field: Field| match field.name.as_str() {
            "observation" => Field::new("observation", terms.clone()),
            "action" => Field::new("action", joints(Type::Float32)),
            "cut" => Field::new("cut", joints(Type::Bool)),
            _ => field,
        };
        match Self::schema() {
            Type::Object(fields) => Type::Object(fields.into_iter().map(named).collect()),
            other => other,
        }
    }
}

/// The numbers of a value, bit by bit.
fn floats(value: &Value<'_>, into: &mut Vec<f32>) {
    match *value {
        Value::Float32(number) => into.push(number),
        Value::Object(fields) => fields.for_each(|(_, value)| floats(&value, into)),
        Value::Array(items) => items.for_each(|value| floats(&value, into)),
        _ => {}
    }
}

/// Values whose names the schema has, as many as it has. Without it none is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Each<T>(pub Vec<T>);

impl<T: Record> Record for Each<T> {
    fn schema() -> Type {
        Type::Object(Vec::new())
    }

    #[inline]
    fn encode(&self, out: &mut impl Sink) {
        self.0.iter().for_each(|value| value.encode(out));
    }

    fn decode(_: &mut Input<'_>) -> Result<Self, DecodeError> {
        Ok(Self(Vec::new()))
    }
}
