use super::{json, number, text};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use std::fmt;

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done, in this tick.
    Done(Option<u64>),
    /// It was not.
    Denied(Denied),
}

/// Why something that was asked was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The robot or what stands before it refused: asking again brings nothing.
    Refused(String),
    /// The robot was not reached, or did not answer: its run may be ending, or another one about to begin.
    Unreachable(String),
}

/// An answer with the number of its request, as the request had it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reply {
    /// The number.
    pub id: Value,
    /// What became of it.
    #[serde(flatten)]
    pub answer: Answer,
}

/// An answer as it is written: `{"done": true, "tick": 7}`, `{"refused": "why"}` or `{"unreachable": "why"}`.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Wire {
    #[serde(skip_serializing)]
    id: Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    done: Value,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "tick")]
    tick: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    refused: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    unreachable: Option<String>,
}

fn tick<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Option<u64>>, D::Error> {
    number(from).map(Some)
}

impl Wire {
    fn answer(self) -> Option<Answer> {
        let denied = self.refused.map(Denied::Refused).or(self.unreachable.map(Denied::Unreachable));
        match denied {
            Some(why) => Some(Answer::Denied(why)),
            None => (self.done == Value::Bool(true)).then(|| Answer::Done(self.tick.flatten())),
        }
    }
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let wire = match self.clone() {
            Self::Done(tick) => Wire { done: true.into(), tick: Some(tick), ..Wire::default() },
            Self::Denied(Denied::Refused(why)) => Wire { refused: Some(why), ..Wire::default() },
            Self::Denied(Denied::Unreachable(why)) => Wire { unreachable: Some(why), ..Wire::default() },
        };
        wire.serialize(to)
    }
}

impl Answer {
    /// Reads a message, if it is an answer.
    pub fn read(message: &Value) -> Option<Self> {
        Wire::deserialize(message).ok()?.answer()
    }

    /// As JSON.
    pub fn json(&self) -> String {
        json(self)
    }
}

impl Reply {
    /// Reads the bytes of a message, if it is a reply.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let wire = Wire::deserialize(value).ok()?;
        Some(Self { id: wire.id.clone(), answer: wire.answer()? })
    }

    /// As JSON.
    pub fn json(&self) -> String {
        json(self)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(why: Denied) -> Answer {
        Answer::Denied(why)
    }

    #[test]
    fn a_reply_is_the_json_of_the_documentation() {
        for (answer, text) in [
            (Answer::Done(Some(48211)), r#"{"id":17,"done":true,"tick":48211}"#),
            (Answer::Done(None), r#"{"id":17,"done":true,"tick":null}"#),
            (denied("no".into()), r#"{"id":17,"refused":"no"}"#),
            (denied(Denied::Unreachable("far".into())), r#"{"id":17,"unreachable":"far"}"#),
        ] {
            let reply = Reply { id: 17.into(), answer };
            assert_eq!(reply.json(), text);
            assert_eq!(Reply::read(text.as_bytes()), Some(reply));
        }
        // A viewer that gives no number gets none.
        let reply = Reply { id: Value::Null, answer: Answer::Done(Some(7)) };
        assert_eq!(reply.json(), r#"{"id":null,"done":true,"tick":7}"#);
    }

    #[test]
    fn what_is_no_reply_is_none() {
        for bad in [
            &b"{}"[..],
            b"{",
            b"[]",
            b"7",
            br#"{"id":1}"#,
            br#"{"id":1,"done":7}"#,
            br#"{"id":1,"refused":7}"#,
            b"\xff",
        ] {
            assert_eq!(Reply::read(bad), None);
        }
        let odd = Reply::read(br#"{"id":1,"done":true,"tick":-3,"more":[]}"#);
        assert_eq!(odd.map(|reply| reply.answer), Some(Answer::Done(None)));
    }
}
