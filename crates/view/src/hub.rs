//! Where everything meets: what the robot sends, what clients want of it, and what they ask of the robot.

use crate::control::{Answer, Ask, Denied, Parameter, Robot, Teleop, ValueKind, answer, input, request};
use crate::intake::{Counts, Intake, Known, News};
use crate::peer::{CHANGES, Peer, PerSecond};
use crate::slots::{Limits, Origin, who_leaves};
use crate::standard::{Level, Status};
use crate::store::{DEFAULT_BUDGET, Log, Store};
use crate::topics::Topics;
use khz_tlog::{RecordInfo, Type, Value};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many clients there may be, in all and of one address, which is one computer or one tunnel.
const SLOTS: Limits = Limits { slots: 64, of_one: 32 };
/// Those that are just coming have as many slots, and those that have to leave count until they have left.
const MAX_CLIENTS: usize = 3 * SLOTS.slots;
/// Requests of all clients together that change something within a second: fewer than the robot looks at.
const CHANGES_OF_ALL: u32 = 400;
/// How many requests may wait for an answer: of one client, of all, and those of one client that stop; and how long they do.
const MAX_PENDING: usize = 64;
const MAX_PENDING_OF_ALL: usize = 256;
const MAX_STOPS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(2);
/// What the name of a client begins with that only asks.
pub(crate) const PROGRAM: &str = "program";

/// A robot's run as this server knows it. All of it can be used from any thread.
///
/// Code that needs the store and something else locks them one after the other: while the store is held no sample comes
/// in.
#[derive(Debug)]
pub struct Hub {
    state: Mutex<State>,
    store: Mutex<Store>,
    /// Apart from the rest: refusing a request takes no lock that others wait for.
    changes: Mutex<PerSecond>,
    started: Instant,
    /// What the clock showed then, µs.
    started_us: u64,
    next_client: AtomicU64,
    next_request: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    run: RunState,
    intake: Intake,
    parameters: Vec<Parameter>,
    /// The tick that took the value in force of each.
    taken: Vec<u64>,
    clients: BTreeMap<u64, Arc<Peer>>,
    robot: Option<Arc<Robot>>,
    pending: BTreeMap<u64, Pending>,
    /// Answers that cannot be read.
    refused: u64,
    topics: Topics,
}

/// How a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunState {
    /// The number its recorder drew; none before the first datagram.
    pub session: Option<u64>,
    /// When the last datagram came, by [`Hub::now_us`].
    pub received_us: Option<u64>,
    /// The robot has ended it.
    pub is_over: bool,
    /// Requests reach the robot.
    pub can_be_asked: bool,
}

#[derive(Debug)]
struct Pending {
    client: Arc<Peer>,
    since: Instant,
    ask: Ask,
}

impl Default for Hub {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            store: Mutex::default(),
            changes: Mutex::default(),
            started: Instant::now(),
            started_us: somewhen_us(),
            next_client: AtomicU64::new(1),
            next_request: AtomicU64::new(1),
        }
    }
}

/// Where the clock of a server begins, µs: anywhere within 2⁵¹, which JSON carries, so that a time of an earlier run is none of this one.
/// Where the system has no random numbers, it is the wall clock.
fn somewhen_us() -> u64 {
    let mut bytes = [0; 8];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK);
    let wall = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |elapsed| elapsed.as_micros() as u64);
    if got == Ok(bytes.len()) { u64::from_le_bytes(bytes) >> 13 } else { wall }
}

/// What clients use.
impl Hub {
    /// The history. Hold it briefly.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the run stands.
    pub fn run(&self) -> RunState {
        let state = self.state();
        RunState { can_be_asked: state.robot.is_some() && !state.run.is_over, ..state.run }
    }

    /// The records so far, each with its newest sample.
    pub fn records(&self) -> Vec<Known> {
        self.state().intake.records().to_vec()
    }

    /// The newest sample of a record: its time, its type and its bytes.
    pub fn latest(&self, name: &str) -> Option<(i64, Type, Vec<u8>)> {
        let state = self.state();
        let record = state.intake.records().iter().find(|record| record.name == name)?;
        let (time_us, payload) = record.latest.clone()?;
        Some((time_us, record.ty.clone(), payload))
    }

    /// The robot's parameters with the values in force.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.state().parameters.clone()
    }

    /// What became of everything received.
    pub fn counts(&self) -> Counts {
        let state = self.state();
        state.counts(&state.intake)
    }

    /// The clients: who they are, and how many messages each has lost.
    pub fn clients(&self) -> Vec<(String, u64)> {
        self.state().clients.values().map(|client| (client.by.clone(), client.lost())).collect()
    }

    /// Whether it is watched: by a page or a viewer. Programs that only ask (`khz param`, `khz-fleet`) do not.
    pub fn is_watched(&self) -> bool {
        self.state().clients.values().any(|client| !client.by.starts_with(PROGRAM))
    }

    /// This server's clock, µs.
    pub fn now_us(&self) -> u64 {
        self.started_us + u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX / 2)
    }

    /// Asks something of the robot. Returns the number of the request, which will come back with the answer. `now_us` is the
    /// newest time of [`now_us`](Self::now_us) that the client had received when it was decided: the request is at least as old
    /// as that. A stop needs none.
    ///
    /// # Errors
    /// Why the robot cannot be asked.
    pub fn ask(&self, client: &Arc<Peer>, ask: &Ask, now_us: Option<u64>) -> Result<u64, Denied> {
        self.ask_by(client, &client.by, None, ask, now_us)
    }

    /// As [`ask`](Self::ask), with the name of who asks, and the number of the run that is meant.
    pub(crate) fn ask_by(
        &self,
        client: &Arc<Peer>,
        by: &str,
        run: Option<u64>,
        ask: &Ask,
        now_us: Option<u64>,
    ) -> Result<u64, Denied> {
        if *ask != Ask::Stop {
            self.may_change(client)?;
        }
        let age_ms = match (ask, now_us) {
            (Ask::Stop, _) => None,
            (_, Some(now_us)) => Some(self.age_ms(now_us)?),
            (_, None) => {
                return Err("what moves the robot needs `now_us`, the newest time of this live view that was received".into());
            }
        };
        let mut state = self.state();
        let robot = state.robot_of(run)?;
        state.may_wait(client, ask)?;
        let id = self.next_request.fetch_add(1, Ordering::Relaxed);
        let request = request(id, by, ask.clone(), age_ms);
        if *ask == Ask::Stop {
            robot.send_stop(&request)?
        } else {
            robot.send(&request)?
        }
        state.pending.insert(id, Pending { client: client.clone(), since: Instant::now(), ask: ask.clone() });
        Ok(id)
    }

    /// Passes on what steers the robot. `now_us` is the newest time of [`now_us`](Self::now_us) that the operator's side
    /// had received when it was decided: the input is at least as old as that. One in the future is none.
    ///
    /// # Errors
    /// Why it does not reach the robot.
    pub fn steer(&self, client: &Peer, teleop: &Teleop, now_us: u64) -> Result<(), Denied> {
        self.steer_by(client, &client.by, None, teleop, now_us)
    }

    /// As [`steer`](Self::steer), with the name of who steers, and the number of the run that is meant.
    pub(crate) fn steer_by(
        &self,
        client: &Peer,
        by: &str,
        run: Option<u64>,
        teleop: &Teleop,
        now_us: u64,
    ) -> Result<(), Denied> {
        let age_ms = self.age_ms(now_us)?;
        if !client.may_steer(self.now_us()) {
            return Err("too many inputs within a second".into());
        }
        let robot = self.state().robot_of(run)?;
        robot.send(&input(by, *teleop, age_ms))
    }

    /// Whether a request that changes something is one too many. First of all: a flood of refusals delays no other client.
    fn may_change(&self, client: &Peer) -> Result<(), Denied> {
        let now_us = self.now_us();
        if !client.may_change(now_us) {
            let why =
                format!("too many requests: a client may change parameters or arm {CHANGES} times a second");
            return Err(why.into());
        }
        let mut all = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        match all.admit(now_us, CHANGES_OF_ALL) {
            true => Ok(()),
            false => Err(format!("too many requests of all clients: they may change parameters or arm {CHANGES_OF_ALL} times a second").into()),
        }
    }

    /// How old that is at most which was decided when its sender knew this time of the hub.
    fn age_ms(&self, now_us: u64) -> Result<f64, Denied> {
        let age_us = self.now_us().checked_sub(now_us).ok_or("the request is from the future")?;
        Ok(age_us as f64 / 1000.0)
    }

    /// A client comes, and another leaves if there is no slot. Nothing: too many have not left yet that have to.
    pub(crate) fn join(&self, by: String, from: IpAddr) -> std::io::Result<Option<Arc<Peer>>> {
        let client = Arc::new(Peer::new(self.next_client.fetch_add(1, Ordering::Relaxed), by, from)?);
        client.comes(self.now_us());
        let mut state = self.state();
        if state.clients.len() >= MAX_CLIENTS {
            return Ok(None);
        }
        state.make_room(Origin::of(from), self.now_us());
        state.clients.insert(client.id, client.clone());
        Ok(Some(client))
    }

    pub(crate) fn leave(&self, client: &Peer) {
        let mut state = self.state();
        state.clients.remove(&client.id);
        state.topics.leave(client);
        state.pending.retain(|_, pending| pending.client.id != client.id);
    }

    /// Subscribes to a channel. Returns whether there is such a channel.
    pub(crate) fn subscribe(&self, channel: u64, client: &Arc<Peer>) -> bool {
        let state = &mut *self.state();
        state.topics.subscribe(channel, client, state.intake.records())
    }

    pub(crate) fn unsubscribe(&self, channel: u64, client: &Peer) {
        self.state().topics.unsubscribe(channel, client);
    }

    /// The channels with ids above `above`, as they are advertised, and the highest id.
    pub(crate) fn advertised(&self, above: u64) -> (Vec<serde_json::Value>, u64) {
        self.state().topics.advertised(above)
    }

    /// Ends every client.
    pub(crate) fn close(&self) {
        self.state().clients.values().for_each(|client| client.close());
    }

    /// Answers requests that the robot has not.
    pub(crate) fn expire(&self) {
        let mut state = self.state();
        // The first ones are the oldest.
        let old: Vec<u64> = state
            .pending
            .iter()
            .take_while(|(_, pending)| pending.since.elapsed() >= PATIENCE)
            .map(|(id, _)| *id)
            .collect();
        let why = format!("the robot did not answer within {} s", PATIENCE.as_secs());
        let silent = Answer::Denied(Denied::Unreachable(why));
        old.into_iter().for_each(|id| state.answered(id, silent.clone()));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What comes from the robot.
impl Hub {
    /// Requests can be sent to `robot` from now on.
    pub fn connect(&self, robot: Robot) {
        self.state().robot = Some(Arc::new(robot));
    }

    /// Takes in a datagram of samples or answers. Whatever is wrong with it is counted.
    pub fn datagram(&self, bytes: &[u8]) {
        if is_answer(bytes) {
            let mut state = self.state();
            match answer(bytes) {
                Some((id, answer)) => state.answered(id, answer),
                None => state.refused += 1,
            }
            return;
        }
        let mut taken = Vec::new();
        let is_new = self.state().take_in(bytes, self.now_us(), &mut taken);
        // One lock after the other: a client that searches the store does not delay one that only wants the newest.
        let mut store = self.store();
        if is_new {
            *store = Store::default();
        }
        for news in taken {
            match news {
                Taken::Record(place, name, ty) => store.declare(place, &name, &ty),
                Taken::Sample(place, time_us, payload) => store.sample(place, time_us, &payload),
            }
        }
    }

    /// From now on the history is that of a log, and the store reads it.
    pub(crate) fn show_log(&self, log: Log) {
        *self.store() = Store::of_log(log, DEFAULT_BUDGET);
    }

    /// Updates the present state from a sample of a log, whose records are numbered by their places.
    pub(crate) fn item(&self, record: &RecordInfo, time_us: i64, payload: &[u8]) {
        let mut state = self.state();
        let mut intake = std::mem::take(&mut state.intake);
        intake.item(record, time_us, payload, |intake, news| state.note(intake, news));
        state.intake = intake;
    }

    /// The robot sends nothing any more.
    pub fn end(&self) {
        self.state().end();
    }
}

impl State {
    /// Has one leave if there is no slot for one more.
    fn make_room(&self, from: Origin, now_us: u64) {
        let staying = self.clients.values().filter(|client| !client.is_over());
        let slots: Vec<_> = staying.map(|client| client.slot(self.is_stopping(client), now_us)).collect();
        let leaving = who_leaves(&slots, from, SLOTS).and_then(|id| self.clients.get(&id));
        leaving.into_iter().for_each(|client| client.close());
    }

    fn pending_of(&self, client: &Peer, is_stop: bool) -> usize {
        let of_client = self.pending.values().filter(|pending| pending.client.id == client.id);
        of_client.filter(|pending| (pending.ask == Ask::Stop) == is_stop).count()
    }

    fn is_stopping(&self, client: &Peer) -> bool {
        self.pending_of(client, true) > 0
    }

    /// Whether one more request may wait for an answer. Whatever else waits, the robot is stopped.
    fn may_wait(&self, client: &Peer, ask: &Ask) -> Result<(), Denied> {
        let of_client = self.pending_of(client, *ask == Ask::Stop);
        match ask {
            Ask::Stop if of_client >= MAX_STOPS => Err(Denied::Unreachable(format!(
                "{MAX_STOPS} requests of yours to stop are under way, and the robot has answered none of them yet"
            ))),
            Ask::Stop => Ok(()),
            _ if of_client >= MAX_PENDING => {
                Err(format!("{MAX_PENDING} requests wait for an answer already").into())
            }
            _ if self.pending.len() >= MAX_PENDING_OF_ALL => Err(format!(
                "{MAX_PENDING_OF_ALL} requests of all clients wait for an answer already; try again"
            )
            .into()),
            _ => Ok(()),
        }
    }

    fn robot(&self) -> Result<Arc<Robot>, Denied> {
        match &self.robot {
            Some(_) if self.run.is_over => Err(Denied::Unreachable("the run has ended".into())),
            Some(robot) => Ok(robot.clone()),
            None => Err(
                "this viewer only receives what the robot sends; use the one that `khz run --view` starts"
                    .into(),
            ),
        }
    }

    /// The robot, if the run that is meant is the present one.
    fn robot_of(&self, run: Option<u64>) -> Result<Arc<Robot>, Denied> {
        match run {
            Some(run) if self.run.session != Some(run) => {
                Err("another run than the one that is meant is at this live view".into())
            }
            _ => self.robot(),
        }
    }

    /// Takes in what concerns the present, and lists what the store wants. Returns whether another run has begun.
    fn take_in(&mut self, datagram: &[u8], now_us: u64, taken: &mut Vec<Taken>) -> bool {
        let mut intake = std::mem::take(&mut self.intake);
        let mut is_new = false;
        let is_sound = intake.take(datagram, |intake, news| {
            is_new |= news == News::Run;
            self.note(intake, news);
            taken.extend(Taken::of(intake, news));
        });
        self.intake = intake;
        if is_sound {
            self.run.received_us = Some(now_us);
        }
        is_new
    }

    /// Updates the present state from a datagram or a sample of a log.
    fn note(&mut self, intake: &Intake, news: News) {
        match news {
            News::Run => {
                self.run = RunState { session: intake.session(), ..RunState::default() };
                self.parameters.clear();
                self.topics.clear();
                self.clients.values().for_each(|client| client.notify(|notices| notices.run = true));
            }
            News::Record(_) => {
                self.topics.declare(intake.records());
                self.clients.values().for_each(|client| client.notify(|notices| notices.channels = true));
            }
            News::Sample(place) => self.sample(intake, place),
            News::End => self.end(),
        }
    }

    fn counts(&self, intake: &Intake) -> Counts {
        let counts = intake.counts();
        Counts { refused: counts.refused + self.refused, ..counts }
    }

    fn sample(&mut self, intake: &Intake, place: usize) {
        let known = &intake.records()[place];
        let Some((time_us, payload)) = &known.latest else { return };
        if let Some(change) = Change::of(known, payload) {
            self.change(change);
        }
        let counts = self.counts(intake);
        let Self { topics, clients, .. } = self;
        topics.sample(place, intake.records(), *time_us, payload, || about_view(&counts, clients));
    }

    fn change(&mut self, change: Change) {
        let changed = match change {
            Change::All(all) => {
                self.parameters = all;
                self.taken = vec![0; self.parameters.len()];
                0..self.parameters.len()
            }
            Change::One(name, value, tick) => {
                let Some(at) = self.parameters.iter().position(|known| known.name == name) else { return };
                if tick < self.taken[at] {
                    return;
                }
                (self.parameters[at].value, self.taken[at]) = (Some(value), tick);
                at..at + 1
            }
        };
        for client in self.clients.values() {
            client.notify(|notices| notices.parameters.extend(changed.clone()));
        }
    }

    fn answered(&mut self, id: u64, answer: Answer) {
        if let Some(pending) = self.pending.remove(&id) {
            // The sample that reports it may still be on its way.
            if let (Ask::Set(values), Answer::Done(Some(tick))) = (&pending.ask, &answer) {
                let values =
                    values.iter().filter_map(|(name, value)| Some((name, ValueKind::number(value)?)));
                values.for_each(|(name, value)| self.change(Change::One(name.clone(), value, *tick)));
            }
            pending.client.notify(|notices| notices.answers.push((id, answer)));
        }
    }

    fn end(&mut self) {
        self.run.is_over = true;
        let waiting: Vec<u64> = self.pending.keys().copied().collect();
        let over = Answer::Denied(Denied::Unreachable("the run has ended".into()));
        waiting.into_iter().for_each(|id| self.answered(id, over.clone()));
    }
}

/// What the store wants: a record or a sample, with its place among the records.
enum Taken {
    Record(usize, String, Type),
    Sample(usize, i64, Vec<u8>),
}

impl Taken {
    fn of(intake: &Intake, news: News) -> Option<Self> {
        match news {
            News::Record(place) => {
                let known = &intake.records()[place];
                Some(Self::Record(place, known.name.clone(), known.ty.clone()))
            }
            News::Sample(place) => {
                let (time_us, payload) = intake.records()[place].latest.as_ref()?;
                Some(Self::Sample(place, *time_us, payload.clone()))
            }
            News::Run | News::End => None,
        }
    }
}

/// Whether a datagram is an answer to a request, and no samples.
pub(crate) fn is_answer(bytes: &[u8]) -> bool {
    bytes.first() == Some(&b'{')
}

/// How this server is, for viewers that show it.
fn about_view(counts: &Counts, clients: &BTreeMap<u64, Arc<Peer>>) -> Status {
    let lost: Vec<_> = clients.values().map(|client| (client.by.clone(), client.lost())).collect();
    let is_whole =
        counts.lost + counts.refused + counts.unfit == 0 && lost.iter().all(|(_, lost)| *lost == 0);
    let (level, message) = if is_whole { (Level::Ok, "nothing lost") } else { (Level::Warn, "samples lost") };
    let received = ("datagrams lost from the robot".to_owned(), counts.lost.to_string());
    let sent = lost.into_iter().map(|(by, lost)| (format!("messages lost to {by}"), lost.to_string()));
    let values = std::iter::once(received).chain(sent).collect();
    Status { level, name: "live view".into(), message: message.into(), values }
}

enum Change {
    All(Vec<Parameter>),
    /// A name, its value, and the tick that took it.
    One(String, f64, u64),
}

impl Change {
    /// The change of parameters in a sample, if it is of one of their records.
    fn of(known: &Known, payload: &[u8]) -> Option<Self> {
        if !["parameters", "parameter"].contains(&known.name.as_str()) {
            return None;
        }
        let value = Value::read(&known.ty, payload).ok()?;
        let number = |field| value.at(field).and_then(|value| value.number());
        match (value.at("text"), value.at("name")) {
            (Some(Value::String(text)), _) if known.name == "parameters" => {
                Some(Self::All(Parameter::list(text)))
            }
            (_, Some(Value::String(name))) if known.name == "parameter" => {
                Some(Self::One(name.to_owned(), number("value")?, number("tick")? as u64))
            }
            _ => None,
        }
    }
}
