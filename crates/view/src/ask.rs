//! A small language for programs that need no stream of samples, such as `khz param`: one JSON object for each request and
//! each answer.
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
//! With `"run":7` a request is refused when that is not the present run. `"for":"ann"` names the person for whom a program
//! asks: the robot's log has `ann via ADDRESS`.

use crate::client::Speaker;
use crate::control::{Answer, Denied};
use crate::hub::{Hub, PROGRAM};
use crate::peer::{Notices, Peer, Queued, Reply};
use khz_run::channel::{Program, Question, ViewMessage};
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
    fn by(&self, whom: Option<&str>) -> String {
        let whom = whom.into_iter().flat_map(str::chars);
        let whom: String = whom.filter(|letter| !letter.is_control()).take(MAX_WHOM).collect();
        match self.me.by.strip_prefix(PROGRAM).map(str::trim_start) {
            Some(at) if !whom.is_empty() => format!("{whom} via {at}"),
            _ => self.me.by.clone(),
        }
    }

    /// The answer, unless it is the robot's.
    fn answer(&self, text: &str, hub: &Hub) -> Result<Option<ViewMessage>, Denied> {
        let Program { question, run, whom } = Program::read(text)?;
        let by = self.by(whom.as_deref());
        match question {
            // Not known yet, which is not the same as none: a run reports them with its first records.
            Question::Parameters if hub.latest("parameters").is_none() => {
                Err(Denied::Unreachable("the robot has not reported its parameters yet: ask again".into()))
            }
            Question::Parameters => Ok(Some(ViewMessage::Parameters { parameters: hub.parameters() })),
            Question::Now => Ok(Some(ViewMessage::Now { now_us: hub.now_us(), run: hub.run().session })),
            Question::Steer(teleop, now_us) => {
                let refused = hub.steer_by(&self.me, &by, run, &teleop, now_us).err();
                Ok(refused.map(|why| ViewMessage::not_steered(&why)))
            }
            Question::Ask(ask, now_us) => hub.ask_by(&self.me, &by, run, &ask, now_us).map(|_| None),
        }
    }
}

fn reply(message: &ViewMessage) -> Reply {
    Reply::Text(message.json())
}

fn denied(why: Denied) -> Reply {
    reply(&ViewMessage::Answer(Answer::Denied(why)))
}

impl Speaker for Asking {
    fn begin(&mut self, _: &Hub) -> Vec<Reply> {
        Vec::new()
    }

    fn receive_text(&mut self, text: &str, hub: &Hub) -> Vec<Reply> {
        match self.answer(text, hub) {
            Ok(messages) => messages.iter().map(reply).collect(),
            Err(why) => vec![denied(why)],
        }
    }

    fn receive_binary(&mut self, _: &[u8], _: &Hub) -> Vec<Reply> {
        vec![denied("only text is understood".into())]
    }

    fn notice(&mut self, notices: Notices, _: &Hub) -> Vec<Reply> {
        notices.answers.into_iter().map(|(_, answer)| reply(&ViewMessage::Answer(answer))).collect()
    }

    fn message(&mut self, _: &Queued) -> Option<Vec<u8>> {
        None
    }
}
