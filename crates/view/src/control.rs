//! What may be asked of the robot, and what it answers.

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{SendFlags, send};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::fmt;
use std::os::fd::OwnedFd;

/// The longest request.
pub const MAX_REQUEST: usize = 4096;

/// One of the robot's parameters, as its record `parameters` declares it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// What its values are.
    #[serde(rename = "type", default)]
    pub kind: Kind,
    /// The unit of its values, if they have one.
    #[serde(default)]
    pub unit: String,
    /// The smallest value.
    #[serde(default)]
    pub min: Option<f64>,
    /// The largest value.
    #[serde(default)]
    pub max: Option<f64>,
    /// The value it has if nobody sets it.
    #[serde(default, deserialize_with = "number_or_truth")]
    pub default: Option<f64>,
    /// What it does.
    #[serde(default)]
    pub text: String,
    /// The value in force: that of the last tick that took one.
    #[serde(default, deserialize_with = "number_or_truth")]
    pub value: Option<f64>,
}

/// What the values of a parameter are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Any number.
    #[default]
    Float,
    /// Integers.
    Integer,
    /// True or false; 1 and 0 in records.
    Boolean,
}

impl Kind {
    /// Its name in the record `parameters`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Integer => "integer",
            Self::Boolean => "boolean",
        }
    }
}

fn number_or_truth<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    Ok(number(&Value::deserialize(from)?))
}

/// A number, or a truth value as 1 or 0.
pub(crate) fn number(value: &Value) -> Option<f64> {
    value.as_bool().map(f64::from).or_else(|| value.as_f64())
}

impl Parameter {
    /// A value of it as JSON.
    pub fn json(&self, value: Option<f64>) -> Value {
        match (self.kind, value) {
            (_, None) => Value::Null,
            (Kind::Boolean, Some(value)) => (value != 0.0).into(),
            (Kind::Integer, Some(value)) if value.abs() < 9e15 => (value as i64).into(),
            (_, Some(value)) => value.into(),
        }
    }
}

/// The parameters in a `parameters` record's text. One that cannot be read is left out.
pub(crate) fn parameters(text: &str) -> Vec<Parameter> {
    let all: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    all.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect()
}

/// Something asked of the robot.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// New values of parameters, all or none of which are taken.
    Set(Map<String, Value>),
    /// Stop: the operator's stop.
    Stop,
    /// Arm, if the robot waits for that.
    Arm,
}

impl Ask {
    /// As the robot reads it. `age_ms` is how long ago it was decided, at the least recent; without it only a stop counts.
    pub(crate) fn json(&self, id: u64, by: &str, age_ms: Option<f64>) -> String {
        match self {
            Self::Set(values) => json!({ "id": id, "by": by, "set": values, "age_ms": age_ms }),
            Self::Stop => json!({ "id": id, "by": by, "do": "stop" }),
            Self::Arm => json!({ "id": id, "by": by, "do": "arm", "age_ms": age_ms }),
        }
        .to_string()
    }
}

/// What the robot answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done, in this tick.
    Done(Option<u64>),
    /// It did not.
    Denied(Denied),
}

/// Why something that was asked was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The robot or what stands before it refused: asking again brings nothing.
    Refused(String),
    /// The robot was not reached, or not heard: its run may be ending, or another one about to begin.
    Unreachable(String),
}

impl Denied {
    /// As an answer: `{"refused": "why"}`, `{"unreachable": "why"}`.
    pub fn json(&self) -> Value {
        match self {
            Self::Refused(why) => json!({ "refused": why }),
            Self::Unreachable(why) => json!({ "unreachable": why }),
        }
    }

    /// What an answer says, if it is one of these.
    pub fn read(answer: &Value) -> Option<Self> {
        let text = |key: &str| answer.get(key).and_then(Value::as_str).map(str::to_owned);
        text("refused").map(Self::Refused).or_else(|| text("unreachable").map(Self::Unreachable))
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Refused(why) | Self::Unreachable(why)) = self;
        f.write_str(why)
    }
}

impl From<String> for Denied {
    fn from(why: String) -> Self {
        Self::Refused(why)
    }
}

impl From<&str> for Denied {
    fn from(why: &str) -> Self {
        Self::Refused(why.to_owned())
    }
}

/// Reads an answer: the request's number, and what became of it.
pub(crate) fn answer(bytes: &[u8]) -> Option<(u64, Answer)> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let id = value.get("id")?.as_u64()?;
    match (Denied::read(&value), value.get("done").and_then(Value::as_bool)) {
        (Some(why), _) => Some((id, Answer::Denied(why))),
        (None, Some(true)) => Some((id, Answer::Done(value.get("tick").and_then(Value::as_u64)))),
        _ => None,
    }
}

/// What steers the robot, from the person at the stick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, serde::Serialize)]
#[serde(default)]
pub struct Teleop {
    /// m/s.
    pub forward: f64,
    /// m/s.
    pub left: f64,
    /// rad/s.
    pub turn: f64,
    /// m.
    pub height: f64,
    /// rad.
    pub roll: f64,
    /// rad.
    pub pitch: f64,
}

impl Teleop {
    pub(crate) fn json(&self, by: &str, age_ms: f64) -> String {
        json!({ "by": by, "teleop": self, "age_ms": age_ms }).to_string()
    }
}

/// The way to the robot: the socket by which its samples come. Sending never waits.
#[derive(Debug)]
pub struct Robot(OwnedFd);

/// What the kernel keeps of requests that the robot has not read, bytes; it doubles them, and a request costs it 800 or more.
const ROOM: usize = 64 << 10;
/// The same with stops, which have room when nothing else has; as far as the kernel grants it.
const ROOM_WITH_STOPS: usize = 256 << 10;

impl Robot {
    /// Requests go to `socket`.
    pub fn new(socket: OwnedFd) -> Self {
        let robot = Self(socket);
        robot.set_room(ROOM);
        robot
    }

    /// Sends what can wait.
    pub(crate) fn send(&self, text: &str) -> Result<(), Denied> {
        if text.len() > MAX_REQUEST {
            return Err(format!("the request has {} bytes; {MAX_REQUEST} are the most", text.len()).into());
        }
        self.put(text).map_err(|errno| {
            Denied::Unreachable(match errno {
                Errno::AGAIN => "the robot takes no more requests at the moment; try again".into(),
                _ => "the run has ended".into(),
            })
        })
    }

    /// Sends a stop, for which there is room though the robot has not read what came before.
    pub(crate) fn send_stop(&self, text: &str) -> Result<(), Denied> {
        self.put(text).or_else(|_| {
            self.set_room(ROOM_WITH_STOPS);
            let sent = self.put(text);
            self.set_room(ROOM);
            sent
        }).map_err(|errno| Denied::Unreachable(match errno {
            Errno::AGAIN => "the robot reads nothing, stops neither: hundreds of them wait; use the emergency stop".into(),
            _ => "the run has ended".into(),
        }))
    }

    fn put(&self, text: &str) -> Result<(), Errno> {
        send(&self.0, text.as_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL).map(drop)
    }

    /// What is in the socket already stays there.
    fn set_room(&self, bytes: usize) {
        // A kernel that does not allow it has as much room as it has.
        let _ = set_socket_send_buffer_size(&self.0, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read_of_the_parameters_is() {
        let text = r#"[{"name":"kp","type":"float","unit":"N·m/rad","min":0,"max":2,"default":1,"text":"gain","value":0.5},
            {"name":"on","type":"boolean","default":true,"value":false}, {"name":"odd","type":"colour"}, 7]"#;
        let all = parameters(text);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].max, all[0].value, all[0].json(all[0].value)), (Some(2.0), Some(0.5), json!(0.5)));
        assert_eq!((all[1].default, all[1].json(all[1].value)), (Some(1.0), json!(false)));
        assert_eq!(parameters("{"), []);
    }

    #[test]
    fn answers_are_read() {
        assert_eq!(answer(br#"{"id":17,"done":true,"tick":48211}"#), Some((17, Answer::Done(Some(48211)))));
        let refused = answer(br#"{"id":18,"refused":"kp: 7 is outside 0 to 2"}"#);
        assert_eq!(refused, Some((18, Answer::Denied("kp: 7 is outside 0 to 2".into()))));
        for bad in [&b"{}"[..], b"{", br#"{"id":1}"#, br#"{"id":-1,"done":true}"#, br#"{"id":1,"done":7}"#] {
            assert_eq!(answer(bad), None);
        }
    }
}
