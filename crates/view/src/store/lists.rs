//! What happened once: changes of phase, changes of parameters, and the robot's description.

use crate::control::Parameter;
use khz_tlog::Value;
use std::collections::VecDeque;

/// So many entries of a list are kept.
const KEPT: usize = 1000;
/// So many bytes of a text are kept.
const LONGEST: usize = 300;
/// So many bytes of a robot file are kept.
const LONGEST_FILE: usize = 200_000;
/// So many parameters a run may have.
const MAX_PARAMETERS: usize = 256;

/// The newest entries of a list that may go on for ever.
#[derive(Clone, Debug)]
pub struct List<T> {
    entries: VecDeque<T>,
    left_out: u64,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), left_out: 0 }
    }
}

impl<T> List<T> {
    pub(super) fn push(&mut self, entry: T) {
        if self.entries.len() == KEPT {
            self.entries.pop_front();
            self.left_out += 1;
        }
        self.entries.push_back(entry);
    }

    /// How many there have been.
    pub fn count(&self) -> u64 {
        self.left_out + self.entries.len() as u64
    }

    /// Those from number `from` on that are kept, oldest first. The first of all was number 0.
    pub fn since(&self, from: u64) -> impl DoubleEndedIterator<Item = &T> {
        let skip = usize::try_from(from.saturating_sub(self.left_out)).unwrap_or(usize::MAX);
        self.entries.iter().skip(skip)
    }
}

/// A change of phase, or a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, µs since 1970.
    pub at_us: i64,
    /// In which tick.
    pub tick: u64,
    /// The phase before.
    pub from: String,
    /// The phase after.
    pub to: String,
    /// Why.
    pub cause: String,
    /// The servo it is about, or nothing.
    pub servo: String,
    /// Something was wrong.
    pub is_trouble: bool,
}

/// A change of a parameter, in the tick that took it.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// When, µs since 1970.
    pub at_us: i64,
    /// The tick from which on it is in force.
    pub tick: u64,
    /// The parameter.
    pub name: String,
    /// Its value since.
    pub value: f64,
    /// Its value before.
    pub before: f64,
    /// Who asked for it.
    pub by: String,
}

/// The robot as the log describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Robot {
    /// Its name.
    pub name: String,
    /// The robot file.
    pub file: String,
    /// The clock the loop ran by: `real` or `virtual`.
    pub clock: String,
    /// How its joints lie to each other, as JSON; empty if its shape is not known.
    pub skeleton: String,
}

#[derive(Debug, Default)]
pub(super) struct Lists {
    pub events: List<Event>,
    pub changes: List<Change>,
    pub parameters: Vec<Parameter>,
    pub robot: Option<Robot>,
}

/// Whether [`Lists::take`] takes records of this name.
pub(super) fn is_listed(name: &str) -> bool {
    matches!(name, "event" | "parameter" | "parameters" | "robot")
}

impl Lists {
    pub fn take(&mut self, record: &str, at_us: i64, value: &Value<'_>) {
        match record {
            "event" => self.events.push(event(at_us, value)),
            "parameter" => self.change(Change {
                at_us,
                tick: number(value, "tick") as u64,
                name: text(value, "name", LONGEST),
                value: number(value, "value"),
                before: number(value, "before"),
                by: text(value, "by", LONGEST),
            }),
            "parameters" => self.declare(&text(value, "text", LONGEST_FILE)),
            _ => {
                self.robot = Some(Robot {
                    name: text(value, "name", LONGEST),
                    file: text(value, "file", LONGEST_FILE),
                    clock: text(value, "clock", LONGEST),
                    skeleton: text(value, "skeleton", LONGEST_FILE),
                });
            }
        }
    }

    fn change(&mut self, change: Change) {
        let changed = self.parameters.iter_mut().filter(|parameter| parameter.name == change.name);
        changed.for_each(|parameter| parameter.value = Some(change.value));
        self.changes.push(change);
    }

    /// The declarations are repeated for who comes late; the values in force are newer than theirs.
    fn declare(&mut self, json: &str) {
        self.parameters = Parameter::list(json);
        self.parameters.truncate(MAX_PARAMETERS);
        for parameter in &mut self.parameters {
            let newest = self.changes.since(0).rfind(|change| change.name == parameter.name);
            parameter.value = newest.map(|change| change.value).or(parameter.value);
        }
    }
}

fn event(at_us: i64, value: &Value<'_>) -> Event {
    Event {
        at_us,
        tick: number(value, "tick") as u64,
        from: text(value, "from", LONGEST),
        to: text(value, "to", LONGEST),
        cause: text(value, "cause", LONGEST),
        servo: text(value, "servo", LONGEST),
        is_trouble: number(value, "trouble") != 0.0,
    }
}

fn number(value: &Value<'_>, field: &str) -> f64 {
    value.at(field).and_then(|value| value.number()).unwrap_or(0.0)
}

/// A text field, cut where it is too long.
fn text(value: &Value<'_>, field: &str, longest: usize) -> String {
    match value.at(field) {
        Some(Value::String(text)) => {
            let end = (0..=longest.min(text.len())).rfind(|end| text.is_char_boundary(*end)).unwrap_or(0);
            text[..end].to_owned()
        }
        _ => String::new(),
    }
}
