//! The bridge beside a robot: what its recorder sends goes on the network, and what is asked there is answered.
//!
//! One thread receives, one puts on the network ([`Bridge::run`]), one puts what is rare, and one each answers what is asked
//! ([`crate::serve`]). The robot waits for none of them.

use crate::asks::View;
use crate::claim::Claim;
use crate::health::{Health, Watch};
use crate::names::RobotName;
use crate::outlets::Outlets;
use crate::publication::{Publication, Rare};
use crate::recent::Recent;
use crate::settings::Settings;
use anyhow::{Context, Result, anyhow};
use khz_tlog::Value;
use khz_view::control::Denied;
use khz_view::{Counts, Intake, News, Senders};
use serde::{Deserialize, Serialize};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use zenoh::liveliness::LivelinessToken;
use zenoh::{Session, Wait};

/// A robot that sends nothing for so long is not alive: its recorder sends many times a second.
const SILENCE: Duration = Duration::from_secs(1);
/// How often the bridge publishes its status.
const STATUS: Duration = Duration::from_millis(500);
/// How often it looks whether anything is due.
const LOOK: Duration = Duration::from_millis(50);
/// How many datagrams may wait to be taken in: half a second of a large robot.
const WAITING: usize = 2048;
/// The largest datagram.
const MAX: usize = 65_536;
/// What the kernel may keep while the bridge does something else, as far as it grants it.
const KERNEL_BYTES: usize = 4 << 20;

/// How a robot and its bridge are: published at `khz/<robot>/@status` twice a second.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// The robot's name.
    pub robot: String,
    /// The computer's name.
    pub host: String,
    /// The bridge: its number on the network, as its token has it.
    #[serde(default)]
    pub bridge: String,
    /// The bridge's version.
    pub version: String,
    /// The robot's process is alive: its samples come.
    pub up: bool,
    /// Stop, parameters and steering reach the robot.
    pub commands: bool,
    /// Where it stands: see [`Presence`].
    #[serde(default)]
    pub state: Presence,
    /// For how long nothing has come from the robot, s; by the bridge's own clock.
    #[serde(default)]
    pub silent_s: Option<f64>,
    /// Why the robot came down: the cause of its last change of phase for a reason that is trouble, in this run.
    #[serde(default)]
    pub cause: Option<String>,
    /// The run: the number its recorder drew.
    pub run: Option<u64>,
    /// The newest sample's age when this was written, by the clock of the robot's computer, s.
    pub age_s: Option<f64>,
    /// How its loop is.
    pub health: Health,
    /// In one sentence.
    pub verdict: String,
    /// What became of everything received from the robot.
    pub received: Received,
    /// Messages put on the network, and rare ones dropped before it.
    pub sent: u64,
    /// See [`sent`](Self::sent).
    pub dropped: u64,
}

impl Status {
    /// Everything that did not come through: samples and messages lost, dropped, refused, or of unexpected senders.
    pub fn lost(&self) -> u64 {
        let Received { samples: _, lost, behind, refused, others } = self.received;
        [lost, behind, refused, others, self.dropped].into_iter().fold(0, u64::saturating_add)
    }

    /// How the robot itself is at this moment.
    pub fn update(&mut self, robot: &Robot) {
        self.state = robot.presence();
        self.up = self.state == Presence::Up;
        self.silent_s = robot.last_received.map(|last_received| last_received.elapsed().as_secs_f64());
        self.cause.clone_from(&robot.cause);
        self.run = robot.intake.session();
        self.health = robot.watch.health();
        self.verdict.clone_from(&self.health.verdict);
        let Counts { samples, lost, refused, unknown, unfit } = robot.intake.counts();
        self.received = Received { samples, lost, refused: refused + unknown + unfit, ..self.received };
        let newest_us =
            robot.intake.records().iter().filter_map(|known| Some(known.latest.as_ref()?.0)).max();
        let now_us = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as i64;
        self.age_s = newest_us.map(|newest| (now_us - newest) as f64 / 1e6);
    }

    /// Whether the servos' outputs are off for good in this run: it has stopped, or is in fault.
    pub fn is_at_rest(&self) -> bool {
        is_at_rest(&self.health.phase)
    }
}

fn is_at_rest(phase: &str) -> bool {
    ["stopped", "fault"].contains(&phase)
}

/// Where a robot stands, as its bridge sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// No sample has come yet.
    #[default]
    Waiting,
    /// Its samples come.
    Up,
    /// It has reported that its run is over.
    Ended,
    /// Its samples stopped coming without a reported end: it is dead, frozen or cut off.
    Silent,
}

/// What became of everything received from the robot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// Samples taken in.
    pub samples: u64,
    /// Datagrams that never came.
    pub lost: u64,
    /// Datagrams dropped because the bridge did not keep up.
    pub behind: u64,
    /// Datagrams and samples that cannot be read or go beyond a limit.
    pub refused: u64,
    /// Datagrams of other senders.
    pub others: u64,
}

/// What is known of the robot.
#[derive(Debug, Default)]
pub struct Robot {
    /// What its recorder sent.
    pub intake: Intake,
    /// How its loop is.
    pub watch: Watch,
    /// Its last seconds.
    pub recent: Recent,
    /// Messages put on the network in runs before.
    sent: u64,
    last_received: Option<Instant>,
    is_over: bool,
    /// The name in the robot file of the first run, once it is known, and whether that of the present run is known to be the
    /// same.
    own: Option<String>,
    is_known: bool,
    cause: Option<String>,
}

impl Robot {
    /// Whether its process is alive.
    pub fn is_up(&self) -> bool {
        self.presence() == Presence::Up
    }

    /// Where it stands.
    pub fn presence(&self) -> Presence {
        match self.last_received {
            None => Presence::Waiting,
            Some(_) if self.is_over => Presence::Ended,
            // Another run, which may be another robot's: its name comes with its first datagrams, or within 10 s.
            Some(_) if self.own.is_some() && !self.is_known => Presence::Waiting,
            Some(last_received) if last_received.elapsed() < SILENCE => Presence::Up,
            Some(_) => Presence::Silent,
        }
    }

    /// The run for which something is asked: the present one.
    ///
    /// # Errors
    /// Why the robot is not asked: it streams nothing, or is not known to be the one of this bridge.
    pub fn run(&self) -> Result<u64, Denied> {
        let why = match (self.intake.session(), self.presence()) {
            (Some(run), presence) if presence != Presence::Waiting => return Ok(run),
            (Some(_), _) => "a new run has begun, and which robot's it is is not known yet; try again",
            (None, _) => {
                "the bridge has received nothing from the robot: start it with --stream to the bridge's address"
            }
        };
        Err(Denied::Unreachable(why.into()))
    }

    /// If the outputs are off for good in this run: how that came, in words.
    pub fn rest(&self) -> Option<String> {
        let phase = self.watch.health().phase;
        let why = self.cause.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default();
        match phase.as_str() {
            "fault" => Some(format!("it is in fault and at rest{why}")),
            "stopped" => Some(format!("it has stopped and is at rest{why}")),
            _ if self.is_over => Some(format!("its run is over{why}")),
            _ => None,
        }
    }

    /// Notes what a sample has about the robot itself. Returns the robot's name if it is another robot than before.
    fn note(&mut self, record: &str, value: &Value<'_>) -> Option<String> {
        let text = |field| match value.at(field)? {
            Value::String(text) => Some(text.to_owned()),
            _ => None,
        };
        match record {
            "robot" => {
                let name = text("name")?;
                if self.own.get_or_insert_with(|| name.clone()) != &name {
                    return Some(name);
                }
                self.is_known = true;
            }
            "event" if matches!(value.at("trouble"), Some(Value::Bool(true))) => {
                let servo = text("servo").filter(|servo| !servo.is_empty());
                let servo = servo.map(|servo| format!(" ({servo})")).unwrap_or_default();
                self.cause = text("cause").map(|cause| format!("{cause}{servo}"));
            }
            _ => {}
        }
        None
    }
}

/// What all threads of a bridge share.
pub struct Shared {
    /// The robot's name on the network.
    pub name: RobotName,
    /// The bridge's settings.
    pub settings: Settings,
    /// The session.
    pub session: Session,
    robot: Mutex<Robot>,
    inbox: Arc<Inbox>,
    status: Mutex<Option<Status>>,
}

impl Shared {
    /// What is known of the robot. Hold it briefly.
    pub fn robot(&self) -> MutexGuard<'_, Robot> {
        self.robot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The robot's live view.
    pub fn view(&self) -> Option<View> {
        self.settings.view.map(|at| View { at, token: self.settings.token.clone() })
    }

    /// The status published last.
    pub fn status(&self) -> Option<Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Runs a bridge until `stop`. Blocks.
///
/// # Errors
/// It cannot start, or another bridge has the robot's name.
pub fn run(settings: Settings, session: Session, stop: &AtomicBool) -> Result<()> {
    let inbox = Arc::new(Inbox::default());
    let datagrams = receive(settings.listen, inbox.clone())?;
    eprint_line(&format!("receiving at {}", settings.listen));
    let mut robot = Robot::default();
    let Some(name) = name(&settings, &datagrams, &mut robot, stop)? else { return Ok(()) };
    let Some(claim) = Claim::make(&session, &name, stop)? else { return Ok(()) };
    let mut claims = vec![claim];
    if settings.ros.enabled {
        let Some(claim) = Claim::make_ros(&session, &name, settings.ros.domain, stop)? else { return Ok(()) };
        claims.push(claim);
    }
    let shared = Arc::new(Shared {
        name,
        settings,
        session,
        robot: Mutex::new(robot),
        inbox,
        status: Mutex::new(None),
    });
    let mut bridge = Bridge::new(shared.clone(), claims)?;
    bridge.put_status();
    crate::serve::start(&shared)?;
    eprint_line(&format!("the bridge of {} is on the network", shared.name));
    bridge.run(&datagrams, stop)
}

/// The robot's name, once it is known. `None`: stopped before.
fn name(
    settings: &Settings,
    datagrams: &Receiver<Vec<u8>>,
    robot: &mut Robot,
    stop: &AtomicBool,
) -> Result<Option<RobotName>> {
    if let Some(name) = &settings.name {
        return RobotName::new(name).map(Some).map_err(|why| anyhow!(why));
    }
    eprint_line("waiting for the robot to say its name (it does every 10 s; --name goes on at once)");
    while !stop.load(Ordering::Relaxed) {
        let Ok(datagram) = datagrams.recv_timeout(LOOK) else { continue };
        robot.intake.take(&datagram, |_, _| ());
        if let Some(name) = text(&robot.intake, "robot", "name") {
            (robot.own, robot.is_known) = (Some(name.clone()), true);
            robot.last_received = Some(Instant::now());
            return RobotName::new(&name).map(Some).map_err(|why| anyhow!(why));
        }
    }
    Ok(None)
}

fn other_robot(shared: &Shared, other: &str) -> anyhow::Error {
    let Shared { name, settings, .. } = shared;
    anyhow!(
        "the robot `{other}` sends to {} now, and this bridge is that of {name}: it leaves the network, so that the two \
         robots cannot be confused. Start a bridge for `{other}`, best at addresses of its own",
        settings.listen
    )
}

/// A text in the newest sample of a record.
pub fn text(intake: &Intake, record: &str, field: &str) -> Option<String> {
    let known = intake.records().iter().find(|known| known.name == record)?;
    let (_, payload) = known.latest.as_ref()?;
    match Value::read(&known.ty, payload).ok()?.at(field)? {
        Value::String(text) => Some(text.to_owned()),
        _ => None,
    }
}

struct Bridge {
    shared: Arc<Shared>,
    claims: Vec<Claim>,
    rare: Rare,
    outlets: Option<Outlets>,
    up: Option<LivelinessToken>,
    status: Publication,
    /// Everything as it comes, for programs that show the robot's page: only while one does.
    stream: Publication,
    last_status: Instant,
    host: String,
    /// Whether the records that the settings name were compared with the robot's.
    is_checked: bool,
}

impl Bridge {
    fn new(shared: Arc<Shared>, claims: Vec<Claim>) -> Result<Self> {
        let identity = format!("{}/@status", shared.session.zid());
        let key = shared.name.key("@status");
        let status = Publication::new(&shared.session, key, &identity, Some("application/json".into()))?;
        let identity = format!("{}/@stream", shared.session.zid());
        let stream = Publication::new(&shared.session, shared.name.key("@stream"), &identity, None)?;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let rare = Rare::start().context("cannot start a thread")?;
        let last_status = Instant::now();
        Ok(Self {
            shared,
            claims,
            rare,
            outlets: None,
            up: None,
            status,
            stream,
            last_status,
            host,
            is_checked: false,
        })
    }

    fn run(mut self, datagrams: &Receiver<Vec<u8>>, stop: &AtomicBool) -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            match datagrams.recv_timeout(LOOK) {
                Ok(datagram) => {
                    self.take(&datagram)?;
                    if self.stream.is_wanted() {
                        self.stream.put(0, datagram);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(anyhow!(
                        "nothing can be received at {} any more",
                        self.shared.settings.listen
                    ));
                }
            }
            self.look()?;
        }
        Ok(())
    }

    /// Takes in a datagram, and puts on the network what of it is due.
    fn take(&mut self, datagram: &[u8]) -> Result<()> {
        let shared = self.shared.clone();
        let mut due = Vec::new();
        let mut result = Ok(());
        {
            let robot = &mut *shared.robot();
            let mut intake = std::mem::take(&mut robot.intake);
            let is_sound = intake.take(datagram, |intake, news| {
                if result.is_err() {
                    return;
                }
                match news {
                    News::Run => {
                        robot.sent += self.outlets.take().map_or(0, |outlets| outlets.sent());
                        (robot.watch, robot.recent) = (Watch::default(), Recent::default());
                        (robot.is_over, robot.is_known, robot.cause) = (false, false, None);
                    }
                    News::Record(_) => {}
                    News::Sample(place) => {
                        let known = &intake.records()[place];
                        let Some((time_us, payload)) = &known.latest else { return };
                        robot.recent.keep(place, *time_us, payload);
                        if ["tick", "robot", "event"].contains(&known.name.as_str())
                            && let Ok(value) = Value::read(&known.ty, payload)
                        {
                            match known.name.as_str() {
                                "tick" => robot.watch.tick(*time_us, &value),
                                name => {
                                    if let Some(other) = robot.note(name, &value) {
                                        result = Err(other_robot(&shared, &other));
                                        return;
                                    }
                                }
                            }
                        }
                        // Nothing goes out under the name of a robot that it may not be of.
                        if robot.own.is_some() && !robot.is_known {
                            return;
                        }
                        match self.outlets(&shared) {
                            Ok(outlets) => result = outlets.sample(intake, place, &mut due),
                            Err(error) => result = Err(error),
                        }
                    }
                    News::End => robot.is_over = true,
                }
            });
            robot.intake = intake;
            if is_sound {
                robot.last_received = Some(Instant::now());
            }
        }
        result?;
        // Published only now, without the lock on the robot: a request need not wait for the network.
        if let Some(outlets) = &mut self.outlets {
            due.into_iter().for_each(|message| outlets.put(message));
        }
        Ok(())
    }

    fn outlets(&mut self, shared: &Shared) -> Result<&mut Outlets> {
        if self.outlets.is_none() {
            self.outlets = Some(Outlets::new(shared, self.rare.clone())?);
        }
        self.outlets.as_mut().ok_or_else(|| anyhow!("no outlets"))
    }

    /// What is due by time: the token, and the status.
    fn look(&mut self) -> Result<()> {
        self.claims.iter().try_for_each(Claim::check)?;
        let is_up = self.shared.robot().is_up();
        if is_up && self.up.is_none() {
            let key = self.shared.name.key("@up");
            let token = self.shared.session.liveliness().declare_token(key).wait();
            self.up = Some(token.map_err(|error| anyhow!("cannot declare that the robot is up: {error}"))?);
            if let Some(outlets) = &mut self.outlets {
                outlets.show()?;
            }
        }
        if !is_up && self.up.take().is_some() {
            // ROS 2's graph shows no publishers of a robot that is gone.
            if let Some(outlets) = &mut self.outlets {
                outlets.hide();
            }
            self.put_status();
        }
        if self.last_status.elapsed() >= STATUS {
            self.put_status();
        }
        Ok(())
    }

    /// Reports once which records of the settings the robot does not have: a misspelt name has no other effect.
    fn check_records(&mut self) {
        let robot = self.shared.robot();
        if self.is_checked || !robot.is_known {
            return;
        }
        self.is_checked = true;
        let names: Vec<&str> = robot.intake.records().iter().map(|known| known.name.as_str()).collect();
        for unknown in self.shared.settings.unknown(&names) {
            eprint_line(&format!("{unknown}: the robot has no such record; it has {}", names.join(", ")));
        }
    }

    fn put_status(&mut self) {
        self.check_records();
        self.last_status = Instant::now();
        let status = self.make_status();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if let Ok(bytes) = serde_json::to_vec(&status) {
            self.status.put(now.as_micros() as i64, bytes);
        }
        *self.shared.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    }

    fn make_status(&self) -> Status {
        let robot = self.shared.robot();
        let inbox = &self.shared.inbox;
        let mut status = Status {
            robot: self.shared.name.to_string(),
            host: self.host.clone(),
            bridge: self.shared.session.zid().to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commands: self.shared.settings.view.is_some(),
            received: Received {
                behind: inbox.behind.load(Ordering::Relaxed),
                others: inbox.others.load(Ordering::Relaxed),
                ..Received::default()
            },
            sent: robot.sent + self.outlets.as_ref().map_or(0, Outlets::sent),
            dropped: self.rare.dropped(),
            ..Status::default()
        };
        status.update(&robot);
        status
    }
}

/// What the receiving thread counts.
#[derive(Debug, Default)]
struct Inbox {
    behind: AtomicU64,
    others: AtomicU64,
}

/// Receives on a thread of its own.
fn receive(at: SocketAddr, inbox: Arc<Inbox>) -> Result<Receiver<Vec<u8>>> {
    let socket =
        UdpSocket::bind(at).with_context(|| format!("cannot receive at {at}: is another bridge there?"))?;
    // Beyond the system's limit only with CAP_NET_ADMIN; else as much as is granted.
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, KERNEL_BYTES).is_err() {
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, KERNEL_BYTES);
    }
    let (queue, datagrams) = sync_channel(WAITING);
    std::thread::Builder::new()
        .name("fleet-receive".into())
        .spawn(move || pass_on(&socket, &queue, &inbox))
        .context("cannot start a thread")?;
    Ok(datagrams)
}

fn pass_on(socket: &UdpSocket, queue: &SyncSender<Vec<u8>>, inbox: &Inbox) {
    let mut buffer = vec![0; MAX];
    let mut senders = Senders::new(None, SILENCE);
    loop {
        let (len, from) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            // The other end of the channel sees that it is over.
            Err(_) => return,
        };
        if senders.admit(from, &buffer[..len], Instant::now()).is_err() {
            inbox.others.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        match queue.try_send(buffer[..len].to_vec()) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                inbox.behind.fetch_add(1, Ordering::Relaxed);
            }
            Err(TrySendError::Disconnected(_)) => return,
        }
    }
}

/// Prints to the terminal. If that is closed, the line is dropped.
pub fn eprint_line(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "khz-fleet: {}", khz_view::text::plain(&khz_view::text::name(text)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_tlog::{Sink, Type};

    fn datagram(session: u64, messages: &[u8]) -> Vec<u8> {
        [&b"KLOG\x01"[..], &session.to_le_bytes(), &0u64.to_le_bytes(), messages].concat()
    }

    fn message() -> Vec<u8> {
        let mut bytes = vec![1, 0];
        bytes.counted(b"a");
        bytes.counted(&Type::Bool.to_bytes());
        bytes
    }

    #[test]
    fn a_run_begins_right_after_another_has_ended() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap();
        let (queue, datagrams) = sync_channel(WAITING);
        let inbox = Arc::new(Inbox::default());
        let counts = inbox.clone();
        std::thread::spawn(move || pass_on(&socket, &queue, &counts));
        let [first, second] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let next = || datagrams.recv_timeout(Duration::from_secs(20)).unwrap();
        first.send_to(&datagram(1, &message()), at).unwrap();
        assert_eq!(next(), datagram(1, &message()));
        // Meanwhile no other sender.
        second.send_to(&datagram(2, &message()), at).unwrap();
        first.send_to(&datagram(1, &[]), at).unwrap();
        assert_eq!(next(), datagram(1, &[]));
        assert_eq!(inbox.others.load(Ordering::Relaxed), 1);
        second.send_to(&datagram(2, &message()), at).unwrap();
        assert_eq!(next(), datagram(2, &message()));
    }
}
