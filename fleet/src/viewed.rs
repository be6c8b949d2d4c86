//! A robot elsewhere behind a live view here: its samples come over the network, and what a page asks goes back.

use crate::asks::{done, selector, selector_since};
use crate::names::RobotName;
use anyhow::{Result, anyhow};
use khz_run::channel::{Answer, Ask, Denied, MAX_REQUEST, Reply, Request, Teleop, What};
use khz_view::Hub;
use khz_view::control::Robot;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use zenoh::pubsub::Subscriber;
use zenoh::qos::Priority;
use zenoh::query::{QueryTarget, Reply as NetworkReply};
use zenoh::{Session, Wait};

/// How long a robot may take to answer.
const ANSWER: Duration = Duration::from_secs(2);
/// How long clock values are kept: an input older than 0.3 s counts for nothing anyway.
const KEPT: Duration = Duration::from_secs(2);

/// A robot elsewhere, shown here until this is dropped.
pub struct Viewed {
    /// Its run.
    pub hub: Arc<Hub>,
    _subscribers: [Subscriber<()>; 2],
}

impl Viewed {
    /// Begins to show a robot.
    ///
    /// # Errors
    /// The session is closed, or the system has no socket or thread left.
    pub fn start(session: &Session, robot: &RobotName) -> Result<Self> {
        let failed = |error: zenoh::Error| anyhow!("the network: {error}");
        let hub = Arc::new(Hub::default());
        let clock = Arc::new(Mutex::new(Clock::default()));
        let noted = clock.clone();
        let clocks = session
            .declare_subscriber(robot.key("@clock"))
            .callback(move |sample| {
                let Ok(value) = serde_json::from_slice::<Value>(&sample.payload().to_bytes()) else { return };
                let number = |name| value.get(name).and_then(Value::as_u64);
                if let (Some(now_us), Some(run)) = (number("now_us"), number("run")) {
                    noted.lock().unwrap_or_else(PoisonError::into_inner).note(now_us, run, Instant::now());
                }
            })
            .wait()
            .map_err(failed)?;
        let (here, there) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let asked =
            Asked { session: session.clone(), robot: robot.clone(), hub: Arc::downgrade(&hub), clock };
        std::thread::Builder::new().name("fleet-asked".into()).spawn(move || asked.serve(&there))?;
        let taking = hub.clone();
        let stream = session
            .declare_subscriber(robot.key("@stream"))
            .callback(move |sample| {
                // The datagrams have numbers of their own: the hub sees what is missing.
                taking.datagram(&sample.payload().to_bytes());
            })
            .wait()
            .map_err(failed)?;
        let beginning = hub.clone();
        let callback = move |reply: NetworkReply| {
            if let Ok(sample) = reply.result() {
                framed(&sample.payload().to_bytes(), |datagram| beginning.datagram(datagram));
            }
        };
        session.get(robot.key("@beginning")).timeout(ANSWER).callback(callback).wait().map_err(failed)?;
        hub.connect(Robot::new(here));
        Ok(Self { hub, _subscribers: [clocks, stream] })
    }
}

/// Gives each datagram that has its length in front to `each`, as far as they are whole.
fn framed(mut bytes: &[u8], mut each: impl FnMut(&[u8])) {
    while let Some((len, rest)) = bytes.split_first_chunk() {
        let Some((datagram, rest)) = rest.split_at_checked(u32::from_le_bytes(*len) as usize) else { return };
        each(datagram);
        bytes = rest;
    }
}

/// The clock of the robot's own view, as it came.
#[derive(Debug, Default)]
struct Clock(VecDeque<(Instant, u64, u64)>);

impl Clock {
    fn note(&mut self, now_us: u64, run: u64, at: Instant) {
        self.0.push_back((at, now_us, run));
        while self.0.front().is_some_and(|(came, ..)| at.duration_since(*came) > KEPT) {
            self.0.pop_front();
        }
    }

    /// The newest value that was here when an input was decided, and its run.
    fn at(&self, decided: Instant) -> Option<(u64, u64)> {
        self.0.iter().rev().find(|(came, ..)| *came <= decided).map(|(_, now_us, run)| (*now_us, *run))
    }
}

/// Passes on what pages ask.
struct Asked {
    session: Session,
    robot: RobotName,
    /// Weak: the hub has the other end of the socket, and the pages that show it keep it alive.
    hub: Weak<Hub>,
    clock: Arc<Mutex<Clock>>,
}

impl Asked {
    /// Until the hub is gone, which has the other end of the socket.
    fn serve(self, socket: &OwnedFd) {
        let mut bytes = [0; MAX_REQUEST + 1];
        while let Ok((len @ 1.., _)) = recv(socket, &mut bytes, RecvFlags::empty()) {
            if let Some(request) = Request::read(&bytes[..len]) {
                self.pass_on(&request);
            }
        }
    }

    fn pass_on(&self, request: &Request) {
        if let What::Steer(input) = request.what {
            return input.into_iter().for_each(|teleop| self.steer(request, teleop));
        }
        let Some(id) = request.id.as_u64() else { return };
        let by = request.by();
        match &request.what {
            What::Ask(Ask::Set(values)) => match self.seen(request) {
                Some((now_us, run)) => {
                    let key = selector_since(&self.robot.key("param"), run, now_us, by);
                    let values = json!(values).to_string();
                    self.ask(id, key, Some(values), Priority::InteractiveHigh);
                }
                None => self
                    .refuse(id, "the request came too late, or the robot's clock is not received; ask again"),
            },
            What::Ask(Ask::Stop) => {
                // What comes late must not reach another run than the one that the page shows.
                let run = self.hub.upgrade().and_then(|hub| hub.run().session);
                self.ask(id, selector(&self.robot.key("stop"), run, by), None, Priority::RealTime);
            }
            _ => self.refuse(id, "a robot is armed by a person who stands beside it, not over the network"),
        }
    }

    fn ask(&self, id: u64, key: String, payload: Option<String>, priority: Priority) {
        let hub = self.hub.clone();
        let callback = move |reply: NetworkReply| {
            let bytes = match reply.result() {
                Ok(sample) => sample.payload().to_bytes().into_owned(),
                Err(error) => error.payload().to_bytes().into_owned(),
            };
            let answer: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            let answer = match done(&answer) {
                Some(Ok(tick)) => Answer::Done(Some(tick)),
                Some(Err(why)) => Answer::Denied(why),
                None => Answer::Denied(Denied::Unreachable("the robot cannot be reached".into())),
            };
            answered(&hub, id, &answer);
        };
        // All queryables: one that declares itself `complete` would otherwise be asked instead of the bridge.
        let get =
            self.session.get(key).target(QueryTarget::All).priority(priority).express(true).timeout(ANSWER);
        let asked = match payload {
            Some(payload) => get.payload(payload).callback(callback).wait(),
            None => get.callback(callback).wait(),
        };
        if let Err(error) = asked {
            self.refuse(id, &format!("the network: {error}"));
        }
    }

    fn refuse(&self, id: u64, why: &str) {
        answered(&self.hub, id, &Answer::Denied(why.into()));
    }

    /// A request has its age on this computer. The robot measures age by its own clock, so this returns the newest of its times that was
    /// known here when the request was decided, and its run.
    fn seen(&self, request: &Request) -> Option<(u64, u64)> {
        let age_ms = request.age_ms.filter(|age| (0.0..1e6).contains(age))?;
        let decided = Instant::now().checked_sub(Duration::from_secs_f64(age_ms / 1000.0))?;
        self.clock.lock().unwrap_or_else(PoisonError::into_inner).at(decided)
    }

    fn steer(&self, request: &Request, teleop: Teleop) {
        let Some((now_us, run)) = self.seen(request) else { return };
        let mut input = json!(teleop);
        // Two viewers may have pages with the same address.
        input["by"] = json!(format!("{} {}", request.by(), self.session.zid()));
        input["now_us"] = json!(now_us);
        input["run"] = json!(run);
        let put = self.session.put(self.robot.key("operator"), input.to_string());
        // The robot stands still when inputs stay away.
        let _ = put.priority(Priority::InteractiveHigh).express(true).wait();
    }
}

fn answered(hub: &Weak<Hub>, id: u64, answer: &Answer) {
    if let Some(hub) = hub.upgrade() {
        hub.datagram(Reply { id: id.into(), answer: answer.clone() }.json().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_as_old_as_what_it_was_decided_on() {
        let (mut clock, begun) = (Clock::default(), Instant::now());
        let at = |ms| begun + Duration::from_millis(ms);
        (0..5).for_each(|n| clock.note(1_000_000 + 50_000 * n, 7, at(50 * n)));
        assert_eq!(clock.at(at(120)), Some((1_100_000, 7)));
        assert_eq!(clock.at(at(1000)), Some((1_200_000, 7)));
        clock.note(9, 7, at(5000));
        assert_eq!((clock.at(at(4000)), clock.0.len()), (None, 1));
    }

    #[test]
    fn datagrams_are_framed() {
        let mut all = Vec::new();
        framed(&[2, 0, 0, 0, 7, 8, 1, 0, 0, 0, 9, 5, 0, 0, 0, 1], |one| all.push(one.to_vec()));
        assert_eq!(all, [vec![7, 8], vec![9]]);
        framed(&[255; 9], |_| panic!("none is whole"));
    }
}
