//! A small language for programs that ask and tell little, such as `khz param`: one JSON object for each request and each
//! answer.
//!
//! | request | answer |
//! |---|---|
//! | `{"parameters":true}` | `{"parameters":[…]}`: as the record `parameters`, with the values in force |
//! | `{"set":{"kp_scale":0.4},"now_us":81234567}` | `{"done":true,"tick":48211}` or `{"refused":"why"}`, or `{"unreachable":"why"}` |
//! | `{"do":"stop"}`, `{"do":"arm","now_us":81234567}` | the same |
//! | `{"now":true}` | `{"now_us":81234567,"run":7}`: this server's clock, and the number of the run, null before the first sample |
//! | `{"steer":{"forward":0.3},"now_us":81234567}` | none, or `{"steer":false,"refused":"why"}` |
//!
//! `now_us` is the newest clock that was received: what moves the robot is at least as old as that, and refused when it is too old.
//! With `"run":7` a request is refused when that is not the present run. `"for":"ann"` says for whom a program asks: the
//! robot's log has `ann via ADDRESS`.

use crate::client::Speaker;
use crate::control::{Answer, Ask, Denied, Parameter, Teleop};
use crate::hub::{Hub, PROGRAM};
use crate::peer::{Notices, Peer, Queued, Reply};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Letters of the name of whom a program asks for; further ones are left out.
const MAX_WHOM: usize = 80;

/// A program that asks.
pub(crate) struct Asking {
    me: Arc<Peer>,
}

impl Asking {
    pub fn new(me: Arc<Peer>) -> Self {
        Self { me }
    }

    /// Who asks, for the robot's log.
    fn by(&self, request: &Value) -> String {
        let whom: String = request.get("for").and_then(Value::as_str).map_or_else(String::new, |whom| {
            whom.chars().filter(|letter| !letter.is_control()).take(MAX_WHOM).collect()
        });
        match self.me.by.strip_prefix(PROGRAM).map(str::trim_start) {
            Some(at) if !whom.is_empty() => format!("{whom} via {at}"),
            _ => self.me.by.clone(),
        }
    }

    /// The answer, unless it is the robot's.
    fn answer(&self, text: &str, hub: &Hub) -> Result<Option<Value>, Denied> {
        let request: Value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
        if request.get("parameters").is_some() {
            return Ok(Some(
                json!({ "parameters": hub.parameters().iter().map(declaration).collect::<Vec<_>>() }),
            ));
        }
        if request.get("now").is_some() {
            return Ok(Some(json!({ "now_us": hub.now_us(), "run": hub.run().session })));
        }
        let run = request.get("run").and_then(Value::as_u64);
        let by = self.by(&request);
        if let Some(teleop) = request.get("steer") {
            let teleop = Teleop::deserialize(teleop).map_err(|error| format!("steer: {error}"))?;
            let now_us = request.get("now_us").and_then(Value::as_u64).ok_or("an input needs `now_us`")?;
            // Marked: it answers no request, and may come between one and its answer.
            let refused = hub.steer_by(&self.me, &by, run, &teleop, now_us).err();
            return Ok(refused.map(|why| json!({ "steer": false, "refused": why.to_string() })));
        }
        let now_us = request.get("now_us").and_then(Value::as_u64);
        hub.ask_by(&self.me, &by, run, &read(&request)?, now_us).map(|_| None)
    }
}

fn read(request: &Value) -> Result<Ask, String> {
    match (request.get("set"), request.get("do").and_then(Value::as_str)) {
        (Some(Value::Object(values)), None) => Ok(Ask::Set(values.clone())),
        (None, Some("stop")) => Ok(Ask::Stop),
        (None, Some("arm")) => Ok(Ask::Arm),
        _ => Err("not understood; one of parameters, set, do, now, steer".into()),
    }
}

/// A parameter as the record `parameters` has it, with the value in force.
fn declaration(parameter: &Parameter) -> Value {
    json!({
        "name": parameter.name,
        "type": parameter.kind.word(),
        "unit": parameter.unit,
        "min": parameter.json(parameter.min),
        "max": parameter.json(parameter.max),
        "default": parameter.json(parameter.default),
        "text": parameter.text,
        "value": parameter.json(parameter.value),
    })
}

fn denied(why: &Denied) -> Reply {
    Reply::Text(why.json().to_string())
}

impl Speaker for Asking {
    fn begin(&mut self, _: &Hub) -> Vec<Reply> {
        Vec::new()
    }

    fn hear_text(&mut self, text: &str, hub: &Hub) -> Vec<Reply> {
        match self.answer(text, hub) {
            Ok(answer) => answer.map(|answer| Reply::Text(answer.to_string())).into_iter().collect(),
            Err(why) => vec![denied(&why)],
        }
    }

    fn hear_binary(&mut self, _: &[u8], _: &Hub) -> Vec<Reply> {
        vec![denied(&"only text is understood".into())]
    }

    fn notice(&mut self, notices: Notices, _: &Hub) -> Vec<Reply> {
        let reply = |answer| match answer {
            Answer::Done(tick) => Reply::Text(json!({ "done": true, "tick": tick }).to_string()),
            Answer::Denied(why) => denied(&why),
        };
        notices.answers.into_iter().map(|(_, answer)| reply(answer)).collect()
    }

    fn message(&mut self, _: &Queued) -> Option<Vec<u8>> {
        None
    }
}
