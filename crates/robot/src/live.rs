//! The live channel: what a viewer, a process of its own, asks of a running robot, over one socket pair (`SOCK_SEQPACKET`).
//!
//! To the viewer go the recorder's datagrams, as by `log.stream`, and replies; from it come requests, all JSON.
//! `docs/log-format.md` has the words. A thread at normal priority serves it; a viewer that is stuck or dead
//! delays nobody, and the robot goes on.

use crate::config::Clock;
use crate::door::{Made, Request};
use crate::parameters::{LiveParameters, ParameterError, Receipt, source};
use crate::steer::Steering;
use crate::supervisor::Phase;
use crate::waited::{PATIENCE_NS, Waited, wait};
use khz_rt::now_ns;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

/// The longest request.
const MOST: usize = 4096;
/// Requests that are looked at within a second.
const PER_SECOND: u32 = 1000;
/// How long the thread waits at most while a reply is due, ns.
const SOON_NS: i64 = 2_000_000;
/// How long a robot may take to arm before that is refused: longer than its supervisor keeps the request.
const ARMING_NS: i64 = 600_000_000;
/// Replies that may be due at once.
const DUE: usize = 256;

/// Nobody has asked.
const NEVER: i64 = i64::MIN;

/// What people beside the loop see of it, and whether they asked it to arm.
#[derive(Debug)]
pub struct Console {
    tick: AtomicU64,
    phase: AtomicU8,
    /// When the request to arm was decided that no tick has taken yet.
    arm_ns: AtomicI64,
    clock: Clock,
}

impl Console {
    /// Of a loop that has not ticked yet, and runs by this clock.
    pub const fn new(clock: Clock) -> Self {
        Self { tick: AtomicU64::new(0), phase: AtomicU8::new(0), arm_ns: AtomicI64::new(NEVER), clock }
    }

    /// The number of the last tick, and the phase after it.
    pub fn seen(&self) -> (u64, Phase) {
        let phase = usize::from(self.phase.load(Ordering::Relaxed));
        (self.tick.load(Ordering::Relaxed), Phase::ALL[phase.min(Phase::ALL.len() - 1)])
    }

    /// Asks the robot to arm, with `supervisor.arming = "operator"`. Counts for 0.4 s from now.
    ///
    /// # Errors
    /// It does not wait for that.
    pub fn arm(&self) -> Result<(), ParameterError> {
        let made = Made::now(self.clock);
        self.arm_as(made, made.decided_ns)
    }

    /// As [`Console::arm`], of a request that was made some time before `now_ns`.
    pub(crate) fn arm_as(&self, made: Made, now_ns: i64) -> Result<(), ParameterError> {
        Request::Arm.admit(made, now_ns, self.seen().1)?;
        self.arm_ns.store(made.decided_ns, Ordering::Relaxed);
        Ok(())
    }

    /// When the request to arm was decided that came since the last tick. Neither allocates nor waits.
    pub(crate) fn asked_to_arm(&self) -> Option<i64> {
        let is_asked = self.arm_ns.load(Ordering::Relaxed) != NEVER;
        is_asked.then(|| self.arm_ns.swap(NEVER, Ordering::Relaxed))
    }

    /// After a tick. Neither allocates nor waits.
    pub(crate) fn show(&self, tick: u64, phase: Phase) {
        self.tick.store(tick, Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Relaxed);
    }
}

/// What became of requests and replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LiveCounts {
    /// Requests that were looked at, inputs included.
    pub requests: u64,
    /// Requests dropped: too many in a second, too long, or not JSON.
    pub dropped: u64,
    /// Replies that the viewer did not take.
    pub replies_lost: u64,
}

/// What requests are about.
pub(crate) struct Wiring {
    pub parameters: LiveParameters,
    /// Nobody steers in virtual time.
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
        let work = move || Desk::new(socket, wiring).serve(&ended);
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
    /// Asked to stop: answered when a tick has obeyed.
    Stopping,
    /// Asked to arm, at this time.
    Arming(i64),
}

struct Desk {
    socket: OwnedFd,
    wiring: Wiring,
    due: Vec<(Value, Due)>,
    /// Replies for which the socket had no room between the samples yet.
    unsent: VecDeque<String>,
    waited: Waited,
    /// Begin of the second, and how many requests came in it.
    second: (i64, u32),
    counts: LiveCounts,
}

impl Desk {
    fn new(socket: OwnedFd, wiring: Wiring) -> Self {
        let (due, unsent, waited) = (Vec::new(), VecDeque::new(), Waited::new());
        Self { socket, wiring, due, unsent, waited, second: (i64::MIN, 0), counts: LiveCounts::default() }
    }

    /// Until it is over or the viewer is gone.
    fn serve(mut self, over: &AtomicBool) -> LiveCounts {
        // What comes from now on did not wait before the robot was there.
        let mut is_there = self.look(now_ns());
        while is_there && !over.load(Ordering::Relaxed) {
            let is_idle = self.due.is_empty() && self.unsent.is_empty();
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
        let mut bytes = [0; MOST + 1];
        for _ in 0..PER_SECOND {
            match recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok((len, _)) => self.hear(&bytes[..len], now_ns),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                    self.waited.found_nothing(now_ns);
                    return true;
                }
                Err(_) => return false,
            }
        }
        true
    }

    fn hear(&mut self, bytes: &[u8], now_ns: i64) {
        let is_within_rate = self.is_within_rate(now_ns);
        let request = if bytes.len() <= MOST { serde_json::from_slice(bytes).ok() } else { None };
        // A request to stop is always obeyed, however many others there are.
        let is_due = |request: &Map<String, Value>| is_within_rate || what(request) == Some("stop");
        let Some(request) = request.filter(is_due) else {
            self.counts.dropped += 1;
            return;
        };
        self.counts.requests += 1;
        if let Some(input) = request.get("teleop") {
            return self.steer(&request, input, now_ns);
        }
        let id = request.get("id").cloned().unwrap_or_default();
        match self.act(&request, now_ns) {
            Ok(due) if self.due.len() < DUE => self.due.push((id, due)),
            Ok(_) => self.counts.replies_lost += 1,
            Err(error) => self.refuse(&id, &error),
        }
    }

    fn is_within_rate(&mut self, now_ns: i64) -> bool {
        if now_ns.saturating_sub(self.second.0) >= 1_000_000_000 {
            self.second = (now_ns, 0);
        }
        self.second.1 += 1;
        self.second.1 <= PER_SECOND
    }

    fn steer(&self, request: &Map<String, Value>, input: &Value, now_ns: i64) {
        let Some(steering) = &self.wiring.steering else { return };
        steering.steer_by(input, self.decided_ns(request, now_ns), now_ns, source(by(request)));
    }

    /// When a request was decided, at the latest. One that does not say how old it is may be of any age.
    fn decided_ns(&self, request: &Map<String, Value>, now_ns: i64) -> i64 {
        let age_ms = request.get("age_ms").and_then(Value::as_f64).filter(|age_ms| *age_ms >= 0.0);
        let age_ns = age_ms.map_or(i64::MAX, |age_ms| (age_ms * 1e6) as i64);
        now_ns.saturating_sub(age_ns.saturating_add(self.waited.at_most_ns(now_ns)))
    }

    fn act(&self, request: &Map<String, Value>, now_ns: i64) -> Result<Due, ParameterError> {
        let made = Made { decided_ns: self.decided_ns(request, now_ns), phase: None };
        if let Some(changes) = request.get("set").and_then(Value::as_object) {
            let phase = Some(self.wiring.console.seen().1);
            return Ok(Due::Change(self.set(by(request), changes, Made { phase, ..made }, now_ns)?));
        }
        match what(request) {
            Some("stop") => {
                self.wiring.stop.store(true, Ordering::Relaxed);
                Ok(Due::Stopping)
            }
            Some("arm") => {
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
        Request::Change.admit(made, now_ns, self.wiring.console.seen().1)?;
        let parameters = &self.wiring.parameters;
        let number = |(name, value): (&'_ String, &Value)| parameters.read(name, value);
        let values = changes.iter().map(number).collect::<Result<Vec<_>, _>>()?;
        let changes: Vec<_> = changes.keys().map(String::as_str).zip(values).collect();
        parameters.set_all_as(by, &changes, made)
    }

    /// Sends the replies whose time has come.
    fn settle(&mut self, now_ns: i64) {
        self.send();
        for (id, due) in std::mem::take(&mut self.due) {
            match due.fate(&self.wiring.console, now_ns) {
                Ok(Some(tick)) => self.done(&id, tick),
                Ok(None) => self.due.push((id, due)),
                Err(error) => self.refuse(&id, &error),
            }
        }
    }

    fn done(&mut self, id: &Value, tick: u64) {
        self.reply(&json!({ "id": id, "done": true, "tick": tick }));
    }

    fn refuse(&mut self, id: &Value, error: &ParameterError) {
        self.reply(&json!({ "id": id, "refused": error.0 }));
    }

    fn reply(&mut self, reply: &Value) {
        if self.unsent.len() == DUE {
            self.counts.replies_lost += 1;
            return;
        }
        self.unsent.push_back(reply.to_string());
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
            Self::Stopping => match console.seen() {
                (_, Phase::Init | Phase::Idle | Phase::Armed | Phase::Active) => Ok(None),
                (tick, Phase::Damping | Phase::Stopped | Phase::Fault) => Ok(Some(tick)),
            },
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

/// What a request wants done.
fn what(request: &Map<String, Value>) -> Option<&str> {
    request.get("do").and_then(Value::as_str)
}

fn by(request: &Map<String, Value>) -> &str {
    request.get("by").and_then(Value::as_str).unwrap_or("viewer")
}
