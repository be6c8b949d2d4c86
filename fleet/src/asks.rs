//! The way to the robot. From its bridge: the live view's connection for programs, the only one by which anything may be asked
//! of it. From elsewhere: questions over the network.

use khz_run::channel::{Answer, Denied};
use khz_view::{AskError, Connection};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use zenoh::qos::Priority;
use zenoh::sample::Sample;
use zenoh::{Session, Wait};

/// How often Ctrl-C is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// Where a robot's live view is.
#[derive(Clone, Debug)]
pub struct View {
    /// Its address.
    pub at: SocketAddr,
    /// Its token, if it has one.
    pub token: Option<String>,
}

/// For which run something is asked, and for whom.
#[derive(Clone, Debug, Default)]
pub struct Meant {
    /// The number of the run, as in the datagrams that the bridge receives.
    pub run: Option<u64>,
    /// Who asks, for the robot's log.
    pub by: Option<String>,
}

/// A connection that is made when it is needed, and made again when it broke.
pub struct Asker {
    view: Option<View>,
    connection: Option<Connection>,
}

impl Asker {
    /// One that is not connected yet.
    pub fn new(view: Option<View>) -> Self {
        Self { view, connection: None }
    }

    /// Asks. The live view refuses what is meant for another run than its own. A connection that has broken since the last time, because the robot was started anew, is made again once.
    /// Blocks, 5 s at most for each attempt.
    ///
    /// # Errors
    /// Why nothing can be asked, or what the robot refused.
    pub fn ask<T>(
        &mut self,
        meant: &Meant,
        mut what: impl FnMut(&mut Connection) -> Result<T, AskError>,
    ) -> Result<T, Denied> {
        let Some(view) = &self.view else {
            return Err("this bridge only passes samples on: start the robot with --view, and the bridge with --view ADDRESS:PORT".into());
        };
        let was_open = self.connection.is_some();
        for is_last in [!was_open, true] {
            let mut connection = match self.connection.take() {
                Some(connection) => connection,
                None => Connection::open(view.at, view.token.as_deref()).map_err(Denied::from)?,
            };
            connection.mean(meant.run);
            connection.ask_for(meant.by.as_deref());
            match what(&mut connection) {
                Err(error @ (AskError::Refused(_) | AskError::Unanswered(_))) => {
                    self.connection = Some(connection);
                    return Err(error.into());
                }
                Err(error) if is_last => return Err(error.into()),
                Err(_) => {}
                Ok(answer) => {
                    self.connection = Some(connection);
                    return Ok(answer);
                }
            }
        }
        Err(Denied::Unreachable("the live view does not answer".into()))
    }
}

/// As [`selector`], of what moves the robot: with the newest value of its clock that was received when it was decided.
pub fn selector_since(key: &str, run: u64, now_us: u64, by: &str) -> String {
    format!("{};now_us={now_us}", selector(key, Some(run), by))
}

/// A question for the robot, with the run that is meant and who asks.
pub fn selector(key: &str, run: Option<u64>, by: &str) -> String {
    // What would end the parameter or begin another one has no place in a name.
    let by: String =
        by.chars().filter(|letter| letter.is_alphanumeric() || " @._-:[]".contains(*letter)).collect();
    let run = run.map(|run| format!("run={run};")).unwrap_or_default();
    format!("{key}?{run}by={by}")
}

/// What a robot answered to a request: the tick that took it, or why it did not. Anything else is no robot's answer.
pub fn done(answer: &Value) -> Option<Result<u64, Denied>> {
    match Answer::read(answer)? {
        Answer::Done(tick) => tick.map(Ok),
        Answer::Denied(why) => Some(Err(why)),
    }
}

/// Who asks, for the robot's log.
pub fn by() -> String {
    let user = std::env::var("USER").unwrap_or_else(|_| "somebody".into());
    format!("{user}@{}", rustix::system::uname().nodename().to_string_lossy())
}

/// Why a question over the network has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    /// The robot or its bridge refused, with this reason.
    #[error("{0}")]
    Refused(String),
    /// The bridge did not reach its robot.
    #[error("its bridge does not reach it: {0}")]
    Unreachable(String),
    /// A bridge is there, and did not answer in time.
    #[error("no reply in time")]
    Late,
    /// What came is no answer of a bridge.
    #[error("its bridge's answer cannot be read; is it of another version?")]
    Nonsense,
    /// No bridge on the network may be asked.
    #[error("no answer; is the robot's bridge on the network (`khz-fleet ls`), and may you ask for this?")]
    NoReply,
    /// `stop` was set.
    #[error("interrupted")]
    Interrupted,
    /// The session is closed.
    #[error("the network: {0}")]
    Network(String),
}

impl Unanswered {
    /// Asking again changes nothing.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(_))
    }
}

/// Asks for one thing over the network, once. Blocks until the answer is there, `patience` is over or `stop` is set.
///
/// # Errors
/// There is no answer, or a refusal.
pub fn question(
    session: &Session,
    selector: &str,
    payload: Option<String>,
    priority: Priority,
    patience: Duration,
    stop: &AtomicBool,
) -> Result<Sample, Unanswered> {
    let failed = |error: zenoh::Error| Unanswered::Network(error.to_string());
    let get = session.get(selector).priority(priority).timeout(patience);
    let replies = match payload {
        Some(payload) => get.payload(payload).wait().map_err(failed)?,
        None => get.wait().map_err(failed)?,
    };
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Unanswered::Interrupted);
        }
        let reply = match replies.recv_timeout(LOOK) {
            Ok(None) => continue,
            Ok(Some(reply)) => reply,
            // All have answered, or none can any more.
            Err(_) => return Err(Unanswered::NoReply),
        };
        return reply.into_result().map_err(|error| {
            let refusal: Option<Value> = serde_json::from_slice(&error.payload().to_bytes()).ok();
            match refusal.and_then(|refusal| Answer::read(&refusal)) {
                Some(Answer::Denied(Denied::Refused(why))) => Unanswered::Refused(why),
                Some(Answer::Denied(Denied::Unreachable(why))) => Unanswered::Unreachable(why),
                _ => Unanswered::Late,
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_whole_answer_is_one() {
        assert_eq!(done(&json!({ "done": true, "tick": 7, "robot_ms": 1.9 })), Some(Ok(7)));
        for denied in [Denied::Refused("why".into()), Denied::Unreachable("why".into())] {
            assert_eq!(done(&json!(Answer::Denied(denied.clone()))), Some(Err(denied)));
        }
        for other in [
            json!({}),
            json!({ "done": true }),
            json!({ "done": false, "tick": 7 }),
            json!({ "tick": 7 }),
            json!(7),
        ] {
            assert_eq!(done(&other), None, "{other}");
        }
    }

    #[test]
    fn a_name_adds_no_parameters() {
        assert_eq!(selector("khz/a/stop", Some(7), "ann@host;run=8&x#"), "khz/a/stop?run=7;by=ann@hostrun8x");
        assert_eq!(selector("khz/a/stop", None, ""), "khz/a/stop?by=");
        assert_eq!(selector_since("khz/a/param", 7, 81, "ann"), "khz/a/param?run=7;by=ann;now_us=81");
    }
}
