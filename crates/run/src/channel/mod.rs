//! The live channel: what may be asked of a running robot, and what it answers, as JSON at both ends.
//!
//! | between | a request | its answer |
//! |---|---|---|
//! | the robot and its live view, over a socket pair; and `khz-fleet view`, which stands for a robot elsewhere | [`Request`] | [`Reply`] |
//! | the live view and programs: `khz param`, `khz-fleet`, your own (`khz.ask.v1`) | [`Question`] | [`ViewMessage`] |
//!
//! What comes from the other end may be anything: a field of the wrong type counts as one that is not there, one that is not known
//! is ignored, and a request to stop is one whatever else is in it. What is read is as long as the message, which each reader
//! limits ([`MAX_REQUEST`]).

mod answer;
mod parameter;
mod program;
mod request;
mod teleop;

pub use answer::{Answer, Denied, Reply};
pub use parameter::{Parameter, ValueKind};
pub use program::{Program, Question, ViewMessage};
pub use request::{Ask, MAX_REQUEST, Request, What};
pub use teleop::Teleop;

use serde_json::Value;

fn number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    use serde::Deserialize;
    Ok(Value::deserialize(from)?.as_u64())
}

fn text<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    use serde::Deserialize;
    Ok(match Value::deserialize(from)? {
        Value::String(text) => Some(text),
        _ => None,
    })
}

/// A value that is there, even if it is null.
fn any<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    use serde::Deserialize;
    Value::deserialize(from).map(Some)
}

fn json(value: &impl serde::Serialize) -> String {
    // Nothing here has keys that are no texts, or a serializer of its own that fails.
    serde_json::to_string(value).unwrap_or_default()
}
