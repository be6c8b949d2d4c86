//! The live channel: what a viewer, a process of its own, asks of a running robot, over one socket pair (`SOCK_SEQPACKET`).
//!
//! To the viewer go the recorder's datagrams, as by `log.stream`, and replies; from it come requests ([`khz_run::channel`]). A thread at normal priority serves it; a viewer that is stuck or dead
//! delays nothing, and the robot goes on.

use khz_loop::console::Console;
use khz_loop::parameters::{LiveParameters, ParameterError, Receipt, source};
use khz_loop::requests::{self, Made};
use khz_loop::steer::{InputCounts, Steering};
use khz_loop::supervisor::Phase;
use khz_loop::waited::{PATIENCE_NS, Waited, wait};
use khz_rt::now_ns;
use khz_run::channel::{Answer, Ask, MAX_REQUEST, Reply, Request, Teleop, What};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Requests that are looked at within a second.
const PER_SECOND: u32 = 1000;
/// How long the thread waits at most while a reply is due, ns.
const SOON_NS: i64 = 2_000_000;
/// How long a robot may take to arm before that is refused: longer than its supervisor keeps the request.
const ARMING_NS: i64 = 600_000_000;
/// Replies that may be due at once, and stops among them for which there is room beside.
const DUE: usize = 256;
const STOPS: usize = 1024;

/// What became of requests and replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LiveCounts {
    /// Requests that were looked at, inputs included.
    pub requests: u64,
    /// Requests dropped or refused unread: too many in a second, too long, or not JSON.
    pub dropped: u64,
    /// Replies that the viewer did not take.
    pub replies_lost: u64,
}

/// What people asked of a robot while it ran.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct LiveSummary {
    /// Requests of the live view.
    pub view: LiveCounts,
    /// Inputs of those who steered.
    pub teleop: InputCounts,
    /// Targets of programs, of a robot that follows them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<khz_targets::Standing>,
}

/// What requests are about.
pub(crate) struct Wiring {
    pub parameters: LiveParameters,
    /// Virtual time has no steering.
    pub steering: Option<Steering>,
    pub console: Arc<Console>,
    pub stop: Arc<AtomicBool>,
}

/// Serves a viewer on its own thread until dropped.
pub(crate) struct Channel {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<LiveCounts>>,
}

impl Channel {
    pub fn start(socket: OwnedFd, wiring: Wiring) -> io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let work = move || Answers::new(socket, wiring).serve(&ended);
        let thread = Some(thread::Builder::new().name("khz-live".to_owned()).spawn(work)?);
        Ok(Self { over, thread })
    }

    /// Answers what is due and ends.
    pub fn finish(mut self) -> LiveCounts {
        self.end()
    }

    fn end(&mut self) -> LiveCounts {
        self.over.store(true, Ordering::Relaxed);
        // It does not panic.
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.end();
    }
}

/// A reply that is due.
enum Due {
    Change(Receipt),
    /// Asked to arm, at this time.
    Arming(i64),
}

struct Answers {
    socket: OwnedFd,
    wiring: Wiring,
    due: Vec<(Value, Due)>,
    /// Who asked to stop: answered when a tick has obeyed, before all others.
    stops: Vec<Value>,
    /// Replies for which the socket had no room between the samples yet.
    unsent: VecDeque<String>,
    waited: Waited,
    /// Begin of the second, and how many requests came in it.
    second: (i64, u32),
    counts: LiveCounts,
}

impl Answers {
    fn new(socket: OwnedFd, wiring: Wiring) -> Self {
        let (due, stops, unsent, waited) = (Vec::new(), Vec::new(), VecDeque::new(), Waited::new());
        let (second, counts) = ((i64::MIN, 0), LiveCounts::default());
        Self { socket, wiring, due, stops, unsent, waited, second, counts }
    }

    /// Until it is over or the viewer is gone.
    fn serve(mut self, over: &AtomicBool) -> LiveCounts {
        // What comes from now on did not wait before the robot was there.
        let mut is_there = self.look(now_ns());
        while is_there && !over.load(Ordering::Relaxed) {
            let is_idle = self.due.is_empty() && self.stops.is_empty() && self.unsent.is_empty();
            wait(&self.socket, if is_idle { PATIENCE_NS } else { SOON_NS });
            is_there = self.look(now_ns());
            self.settle(now_ns());
        }
        self.settle(now_ns());
        self.counts.replies_lost += self.unsent.len() as u64;
        self.counts
    }

    /// Takes all that waits; returns whether the viewer is there.
    fn look(&mut self, now_ns: i64) -> bool {
        // A longer one is cut off, and looks longer than it may be.
        let mut bytes = [0; MAX_REQUEST + 1];
        for _ in 0..PER_SECOND {
            match recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok((len, _)) => self.receive(&bytes[..len], now_ns),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                    self.waited.found_nothing(now_ns);
                    return true;
                }
                Err(_) => return false,
            }
        }
        true
    }

    fn receive(&mut self, bytes: &[u8], now_ns: i64) {
        let is_within_rate = self.is_within_rate(now_ns);
        let Some(request) = Request::read(bytes) else {
            self.counts.dropped += 1;
            return;
        };
        // A request to stop is always obeyed, however many others there are.
        if request.what == What::Ask(Ask::Stop) {
            return self.stop(request.id);
        }
        if !is_within_rate {
            return self.drop(&request);
        }
        self.counts.requests += 1;
        if let What::Steer(input) = request.what {
            return self.steer(&request, input, now_ns);
        }
        match self.act(&request, now_ns) {
            Ok(due) if self.due.len() < DUE => self.due.push((request.id, due)),
            Ok(_) => self.counts.replies_lost += 1,
            Err(error) => self.refuse(&request.id, &error),
        }
    }

    fn stop(&mut self, id: Value) {
        self.counts.requests += 1;
        self.wiring.stop.store(true, Ordering::Relaxed);
        if self.stops.len() < STOPS {
            self.stops.push(id);
        } else {
            self.counts.replies_lost += 1;
        }
    }

    /// One beyond the rate; of an input the newest counts, and there will be others.
    fn drop(&mut self, request: &Request) {
        self.counts.dropped += 1;
        if !matches!(request.what, What::Steer(_)) {
            let why = format!("the robot looks at {PER_SECOND} requests a second; try again");
            self.refuse(&request.id, &ParameterError(why));
        }
    }

    fn is_within_rate(&mut self, now_ns: i64) -> bool {
        if now_ns.saturating_sub(self.second.0) >= 1_000_000_000 {
            self.second = (now_ns, 0);
        }
        self.second.1 += 1;
        self.second.1 <= PER_SECOND
    }

    fn steer(&self, request: &Request, input: Option<Teleop>, now_ns: i64) {
        let Some(steering) = &self.wiring.steering else { return };
        steering.steer_as_read(input, self.decided_ns(request, now_ns), now_ns, source(request.by()));
    }

    /// When a request was decided, at the latest. One without its age may be of any age.
    fn decided_ns(&self, request: &Request, now_ns: i64) -> i64 {
        now_ns.saturating_sub(request.age_ns().saturating_add(self.waited.at_most_ns(now_ns)))
    }

    fn act(&self, request: &Request, now_ns: i64) -> Result<Due, ParameterError> {
        let made = Made { decided_ns: self.decided_ns(request, now_ns), phase: None };
        match &request.what {
            What::Ask(Ask::Set(changes)) => {
                let phase = Some(self.wiring.console.seen().1);
                Ok(Due::Change(self.set(request.by(), changes, Made { phase, ..made }, now_ns)?))
            }
            What::Ask(Ask::Arm) => {
                self.wiring.console.arm_as(made, now_ns)?;
                Ok(Due::Arming(now_ns))
            }
            _ => {
                Err(ParameterError("a request has `set`, `do` (\"stop\" or \"arm\") or `teleop`".to_owned()))
            }
        }
    }

    fn set(
        &self,
        by: &str,
        changes: &Map<String, Value>,
        made: Made,
        now_ns: i64,
    ) -> Result<Receipt, ParameterError> {
        requests::Request::Change.admit(made, now_ns, self.wiring.console.seen().1)?;
        let parameters = &self.wiring.parameters;
        let number = |(name, value): (&'_ String, &Value)| parameters.read(name, value);
        let values = changes.iter().map(number).collect::<Result<Vec<_>, _>>()?;
        let changes: Vec<_> = changes.keys().map(String::as_str).zip(values).collect();
        parameters.set_all_as(by, &changes, made)
    }

    /// Sends the replies whose time has come.
    fn settle(&mut self, now_ns: i64) {
        self.settle_stops();
        self.send();
        for (id, due) in std::mem::take(&mut self.due) {
            match due.fate(&self.wiring.console, now_ns) {
                Ok(Some(tick)) => self.done(&id, tick),
                Ok(None) => self.due.push((id, due)),
                Err(error) => self.refuse(&id, &error),
            }
        }
    }

    /// Answers the stops when a tick has obeyed, before whatever else waits.
    fn settle_stops(&mut self) {
        let (tick, phase) = self.wiring.console.seen();
        if matches!(phase, Phase::Damping | Phase::Stopped | Phase::Fault) {
            let replies = self.stops.drain(..).map(|id| done(&id, tick));
            replies.rev().for_each(|reply| self.unsent.push_front(reply));
        }
    }

    fn done(&mut self, id: &Value, tick: u64) {
        self.reply(done(id, tick));
    }

    fn refuse(&mut self, id: &Value, error: &ParameterError) {
        let answer = Answer::Denied(error.0.as_str().into());
        self.reply(Reply { id: id.clone(), answer }.json());
    }

    fn reply(&mut self, reply: String) {
        if self.unsent.len() >= DUE {
            self.counts.replies_lost += 1;
            return;
        }
        self.unsent.push_back(reply);
        self.send();
    }

    /// Sends replies, as far as there is room.
    fn send(&mut self) {
        while let Some(reply) = self.unsent.front() {
            match send(&self.socket, reply.as_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::AGAIN) => return,
                sent => self.counts.replies_lost += u64::from(sent.is_err()),
            }
            self.unsent.pop_front();
        }
    }
}

impl Due {
    /// The tick that did what was asked; `None`: none has yet.
    fn fate(&self, console: &Console, now_ns: i64) -> Result<Option<u64>, ParameterError> {
        match self {
            Self::Change(receipt) => receipt.tick(),
            Self::Arming(since_ns) => match console.seen() {
                (_, Phase::Idle) if now_ns - since_ns < ARMING_NS => Ok(None),
                (tick, Phase::Armed | Phase::Active) => Ok(Some(tick)),
                _ => Err(ParameterError(
                    "the robot did not arm within 0.4 s of the request: every servo must reply, within its limits, and an \
                     operator's heartbeat arrive if one is expected"
                        .to_owned(),
                )),
            },
        }
    }
}

fn done(id: &Value, tick: u64) -> String {
    Reply { id: id.clone(), answer: Answer::Done(Some(tick)) }.json()
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_loop::parameters::{Intake, Parameter};
    use khz_loop::timing::Clock;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use serde_json::json;

    /// What answers, the loop's end of it and the viewer's.
    fn answers() -> (Answers, Intake, OwnedFd) {
        let (viewer, robot) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let (intake, parameters) = Intake::new(vec![Parameter::float("kp", 0.4, 0.0..=2.0)], Clock::Real);
        let (console, stop) = (Arc::new(Console::new(Clock::Real)), Arc::default());
        (Answers::new(robot, Wiring { parameters, steering: None, console, stop }), intake, viewer)
    }

    fn replies(viewer: &OwnedFd) -> Vec<String> {
        let mut bytes = [0; MAX_REQUEST];
        let mut next =
            || recv(viewer, &mut bytes, RecvFlags::DONTWAIT).ok().map(|(len, _)| bytes[..len].to_vec());
        std::iter::from_fn(|| next().map(|reply| String::from_utf8(reply).unwrap())).collect()
    }

    /// It was dropped without a reply, and the viewer reported that the robot does not answer.
    #[test]
    fn a_request_beyond_the_rate_is_refused() {
        let (mut answers, _intake, viewer) = answers();
        let stick = br#"{"teleop": {}, "age_ms": 1}"#;
        (0..PER_SECOND).for_each(|_| answers.receive(stick, 0));
        answers.receive(br#"{"id": 1, "set": {"kp": 1}, "age_ms": 1}"#, 0);
        answers.receive(stick, 0);
        let replies = replies(&viewer);
        assert!(replies.len() == 1 && replies[0].contains("1000 requests a second"), "{replies:?}");
        assert_eq!((answers.counts.requests, answers.counts.dropped), (u64::from(PER_SECOND), 2));
    }

    /// Its reply was the 257th, and lost.
    #[test]
    fn stops_are_answered_first_whatever_else_is_due() {
        let (mut answers, _intake, viewer) = answers();
        // A busy viewer: nothing goes out.
        while send(&answers.socket, b"KLOG", SendFlags::DONTWAIT).is_ok() {}
        (0..2 * DUE)
            .for_each(|id| answers.receive(json!({ "id": id, "do": "nothing" }).to_string().as_bytes(), 0));
        (0..2 * STOPS)
            .for_each(|id| answers.receive(json!({ "id": id, "do": "stop" }).to_string().as_bytes(), 0));
        assert!(answers.wiring.stop.load(Ordering::Relaxed));
        answers.settle(0);
        assert_eq!(answers.unsent.len(), DUE, "no tick has obeyed yet");
        answers.wiring.console.show(7, Phase::Damping);
        answers.settle(0);
        assert_eq!(answers.unsent.len(), DUE + STOPS, "as many as there is room for");
        while recv(&viewer, &mut [0; 16], RecvFlags::DONTWAIT).is_ok() {}
        answers.settle(0);
        assert_eq!(replies(&viewer)[..2], [done(&json!(0), 7), done(&json!(1), 7)]);
    }
}
