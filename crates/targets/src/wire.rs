//! Messages as JSON: what programs in any language send to `[targets] from`.
//!
//! ```json
//! {"from":"policy","seq":17,"t":48211000,"heard":[48200500,48210900],"joints":["elbow"],"at":[48211000,48244333],"position":[[0.30],[0.31]]}
//! {"from":"policy","hold_s":30}
//! {"from":"policy","release":true}
//! ```
//! Times are µs. `velocity`, `torque`, `kp_scale` and `kd_scale` are rows as `position` has them; one point without `at` is meant for now, and
//! its row may stand alone. `priority`, `take`, `rate_hz` describe the sender; `"state":true` asks for what was measured, and
//! `"status":true` for the state of all senders.

use crate::clock::ClockMap;
use crate::inbox::{Account, Inbox, Standing};
use crate::message::{Points, Refused, Sender};
use crate::names::IN_PROCESS;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::{self, Formatter};

/// Times of a clock that is known worse than this are none, ns.
const CLEAR_NS: i64 = 20_000_000;
/// Names of one connection whose clocks are remembered.
const MOST_CLOCKS: usize = 16;
/// The longest message that is read.
pub(crate) const MOST_BYTES: usize = 64 << 10;

/// The sender on one connection, or from one address.
pub struct Peer {
    /// By their names.
    clocks: BTreeMap<String, ClockMap>,
    /// Its number among those of a Unix socket. With UDP the end of a program goes unnoticed: there a name is enough.
    connection: Option<u64>,
}

impl Peer {
    /// One whose end will be noticed, and whose times are those of the robot's clock.
    pub fn connected(inbox: &Inbox) -> Self {
        Self { clocks: BTreeMap::new(), connection: Some(inbox.connection()) }
    }

    /// The programs of the robot's own process.
    pub fn in_process() -> Self {
        Self { clocks: BTreeMap::new(), connection: Some(IN_PROCESS) }
    }

    /// One by UDP.
    pub fn elsewhere() -> Self {
        Self { clocks: BTreeMap::new(), connection: None }
    }

    /// Its times are those of the robot's clock: it is on the robot's computer.
    fn shares_clock(&self) -> bool {
        self.connection.is_some()
    }

    /// It is gone, and lets go of the robot, and of its names.
    pub fn end(&mut self, inbox: &Inbox) {
        self.connection.take().into_iter().for_each(|connection| inbox.hang_up(connection));
    }

    /// Takes a message that arrived at `arrived_ns`; the answer is sent at once.
    pub fn answer(&mut self, inbox: &Inbox, bytes: &[u8], arrived_ns: i64) -> Value {
        if bytes.len() > MOST_BYTES {
            let why = format!("it is longer than {MOST_BYTES} bytes, the most that a message may have");
            return refused(None, &Refused::Invalid(why));
        }
        let message = match serde_json::from_slice::<Message>(bytes) {
            Ok(Message(message)) => message,
            Err(error) if error.is_data() => return refused(None, &Refused::Invalid(error.to_string())),
            Err(error) => return refused(None, &Refused::Invalid(format!("this is no JSON: {error}"))),
        };
        let seq = message.get("seq").and_then(Value::as_u64);
        let outcome = sender(&message).map_err(Refused::Invalid).and_then(|sender| {
            let outcome = self.take(inbox, &sender, &message, arrived_ns);
            outcome
                .inspect_err(|(why, is_counted)| {
                    if !is_counted {
                        inbox.refuse(&sender, why, arrived_ns);
                    }
                })
                .map_err(|(why, _)| why)
        });
        match outcome {
            Ok(()) => with_seq(taken(inbox, &message), seq),
            Err(why) => refused(seq, &why),
        }
    }

    /// With the reason of a refusal, whether the inbox has counted it.
    fn take(
        &mut self,
        inbox: &Inbox,
        sender: &Sender,
        message: &Map<String, Value>,
        arrived_ns: i64,
    ) -> Result<(), (Refused, bool)> {
        let invalid = |why: String| (Refused::Invalid(why), false);
        check_keys(message).map_err(invalid)?;
        if !self.clocks.contains_key(&sender.name) {
            if self.clocks.len() == MOST_CLOCKS {
                return Err(invalid(format!("more than {MOST_CLOCKS} names on one connection")));
            }
            self.clocks.insert(sender.name.clone(), ClockMap::default());
        }
        // A program that only asks may have any name.
        if ["position", "hold_s", "release"].iter().any(|key| message.contains_key(*key)) {
            let claim = |connection| inbox.claim(&sender.name, connection);
            self.connection.map_or(Ok(()), claim).map_err(|why| (why, false))?;
        }
        if message.get("release") == Some(&Value::Bool(true)) {
            inbox.release(&sender.name);
            return Ok(());
        }
        let hold_ns = hold_ns(message).map_err(invalid)?;
        if message.contains_key("position") {
            self.lay(inbox, sender, message, arrived_ns)?;
        }
        // Behind the points, which end any silence that was meant. Without either it asks how the robot stands.
        if let Some(hold_ns) = hold_ns {
            inbox.hold(&sender.name, hold_ns, arrived_ns);
        }
        Ok(())
    }

    /// As [`Peer::take`], of points.
    fn lay(
        &mut self,
        inbox: &Inbox,
        sender: &Sender,
        message: &Map<String, Value>,
        arrived_ns: i64,
    ) -> Result<(), (Refused, bool)> {
        let invalid = |why: String| (Refused::Invalid(why), false);
        let (at_ns, is_chunk) = self.times(&sender.name, message, arrived_ns).map_err(|why| (why, false))?;
        let points = points(message, at_ns, is_chunk).map_err(invalid)?;
        let sender = &Sender { clock_ns: self.clock_ns(&sender.name, arrived_ns), ..sender.clone() };
        inbox.send(sender, &points, arrived_ns).map_err(|why| (why, true))
    }

    /// When each point is to be reached, by the robot's clock.
    fn times(
        &mut self,
        name: &str,
        message: &Map<String, Value>,
        arrived_ns: i64,
    ) -> Result<(Vec<i64>, bool), Refused> {
        let invalid = |key: &str| Refused::Invalid(format!("`{key}` must be whole µs"));
        let time = |value: &Value| value.as_i64().and_then(|us| us.checked_mul(1000));
        let sent = message.get("t").map(|t| time(t).ok_or_else(|| invalid("t"))).transpose()?;
        let at = match message.get("at").map(|at| at.as_array().ok_or_else(|| invalid("at"))).transpose()? {
            Some(at) => Some(
                at.iter().map(|at| time(at).ok_or_else(|| invalid("at"))).collect::<Result<Vec<_>, _>>()?,
            ),
            None => None,
        };
        let is_chunk = at.as_ref().is_some_and(|at| at.len() > 1);
        let offset_ns = self.offset_ns(name, message, sent, arrived_ns)?;
        let now_ns = sent.map_or(arrived_ns, |sent_ns| sent_ns.saturating_add(offset_ns).min(arrived_ns));
        let at_ns = at.map_or_else(
            || vec![now_ns],
            |at| at.into_iter().map(|at_ns| at_ns.saturating_add(offset_ns)).collect(),
        );
        Ok((at_ns, is_chunk))
    }

    /// How wrong its times may be.
    fn clock_ns(&self, name: &str, now_ns: i64) -> i64 {
        let clock = self.clocks.get(name).filter(|_| !self.shares_clock());
        clock.and_then(|clock| clock.offset_ns(now_ns)).map_or(0, |(_, bound_ns)| bound_ns)
    }

    /// What is to be added to its times. One on another computer proves by what it received how old they are; without proof they are too old.
    fn offset_ns(
        &mut self,
        name: &str,
        message: &Map<String, Value>,
        sent: Option<i64>,
        arrived_ns: i64,
    ) -> Result<i64, Refused> {
        if self.shares_clock() {
            return Ok(0);
        }
        let (Some(sent_ns), Some(clock)) = (sent, self.clocks.get_mut(name)) else {
            return Err(Refused::Clock);
        };
        clock.arrived(sent_ns, arrived_ns);
        let times = message.get("heard").ok_or(Refused::Clock)?.as_array().and_then(|pair| match &pair[..] {
            [robot, received] => robot.as_i64()?.checked_mul(1000).zip(received.as_i64()?.checked_mul(1000)),
            _ => None,
        });
        let (robot_ns, received_ns) =
            times.ok_or_else(|| Refused::Invalid("`heard` must be two times in µs".to_owned()))?;
        clock.received(robot_ns, received_ns, arrived_ns);
        match clock.offset_ns(arrived_ns) {
            Some((offset_ns, bound_ns)) if bound_ns <= CLEAR_NS => Ok(offset_ns),
            _ => Err(Refused::Clock),
        }
    }
}

/// A JSON object in which no key is there twice.
struct Message(Map<String, Value>);

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Keys)
    }
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = Message;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Message, A::Error> {
        let mut message = Map::new();
        while let Some((key, value)) = entries.next_entry::<String, Value>()? {
            if message.contains_key(&key) {
                return Err(A::Error::custom(format_args!("`{key}` is there twice")));
            }
            message.insert(key, value);
        }
        Ok(Message(message))
    }
}

/// What a message may contain.
const KEYS: [&str; 18] = [
    "from", "seq", "t", "heard", "joints", "at", "position", "velocity", "torque", "kp_scale", "kd_scale",
    "priority", "take", "rate_hz", "state", "status", "hold_s", "release",
];

/// What is not understood might be meant: nothing of such a message is taken.
fn check_keys(message: &Map<String, Value>) -> Result<(), String> {
    if let Some(key) = message.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let instead = khz_settings::suggestion(key, &KEYS, "there are");
        return Err(format!("there is no key `{key}`: {instead}"));
    }
    let is_flag = |key: &&str| message.get(*key).is_none_or(Value::is_boolean);
    if let Some(key) = ["take", "state", "status", "release"].iter().find(|key| !is_flag(key)) {
        return Err(format!("`{key}` must be true or false"));
    }
    if message.contains_key("release")
        && let Some(other) = ["position", "hold_s"].iter().find(|key| message.contains_key(**key))
    {
        return Err(format!("a message has `{other}` or `release`, not both"));
    }
    check_rows(message)
}

/// Other values of points without positions would be lost.
fn check_rows(message: &Map<String, Value>) -> Result<(), String> {
    let rows = ["at", "joints", "velocity", "torque", "kp_scale", "kd_scale"];
    match rows.iter().find(|key| message.contains_key(**key)) {
        Some(key) if !message.contains_key("position") => Err(format!("`{key}` needs `position`")),
        _ => Ok(()),
    }
}

fn sender(message: &Map<String, Value>) -> Result<Sender, String> {
    let name =
        message.get("from").and_then(Value::as_str).filter(|name| !name.is_empty() && name.len() <= 64);
    let name = name.ok_or("`from` must be the name of who sends, of at most 64 bytes")?;
    if name.contains(char::is_control) {
        return Err("`from` must be a name, without control characters".to_owned());
    }
    let mut sender = Sender::new(name);
    if let Some(priority) = message.get("priority") {
        let priority = priority.as_u64().and_then(|priority| u8::try_from(priority).ok());
        sender.priority = priority.filter(|priority| *priority <= 9).ok_or("`priority` must be 0 to 9")?;
    }
    sender.takes = message.get("take") == Some(&Value::Bool(true));
    if let Some(rate) = message.get("rate_hz") {
        let hz =
            rate.as_f64().filter(|hz| (0.1..=1000.0).contains(hz)).ok_or("`rate_hz` must be 0.1 to 1000")?;
        sender.every_ns = Some((1e9 / hz) as i64);
    }
    Ok(sender)
}

/// How long it means to be silent, if it states that.
fn hold_ns(message: &Map<String, Value>) -> Result<Option<i64>, String> {
    let Some(hold) = message.get("hold_s") else { return Ok(None) };
    let seconds = hold.as_f64().filter(|seconds| *seconds >= 0.0);
    let seconds = seconds.ok_or("`hold_s` must be a number of seconds, 0 or more")?;
    Ok(Some((seconds.min(1e9) * 1e9) as i64))
}

fn points(message: &Map<String, Value>, at_ns: Vec<i64>, is_chunk: bool) -> Result<Points, String> {
    let seq = message.get("seq").map(|seq| seq.as_u64().ok_or("`seq` must be a whole number")).transpose()?;
    let name = |name: &Value| name.as_str().map(str::to_owned).ok_or("`joints` must be names".to_owned());
    let joints = match message.get("joints") {
        None => Vec::new(),
        Some(joints) => {
            let joints =
                joints.as_array().filter(|joints| !joints.is_empty()).ok_or("`joints` must be names")?;
            joints.iter().map(name).collect::<Result<_, _>>()?
        }
    };
    let rows = |key: &str| message.get(key).map_or(Ok(Vec::new()), |value| rows(key, value, is_chunk));
    Ok(Points {
        seq,
        joints,
        at_ns,
        position: rows("position")?,
        velocity: rows("velocity")?,
        torque: rows("torque")?,
        kp_scale: rows("kp_scale")?,
        kd_scale: rows("kd_scale")?,
    })
}

/// A row for each point, or the one row of a single point.
fn rows(key: &str, value: &Value, is_chunk: bool) -> Result<Vec<Vec<f64>>, String> {
    let wrong = || format!("`{key}` must be a row of numbers for each point");
    let numbers = |row: &Value| -> Option<Vec<f64>> { row.as_array()?.iter().map(Value::as_f64).collect() };
    let alone = (!is_chunk).then(|| numbers(value)).flatten();
    match alone {
        Some(row) => Ok(vec![row]),
        None => {
            value.as_array().ok_or_else(wrong)?.iter().map(|row| numbers(row).ok_or_else(wrong)).collect()
        }
    }
}

fn refused(seq: Option<u64>, why: &Refused) -> Value {
    let mut answer = json!({ "refused": why.to_string() });
    match why {
        Refused::Held(by) => answer["by"] = json!(by),
        Refused::Invalid(text) => answer["why"] = json!(text),
        _ => {}
    }
    with_seq(answer, seq)
}

fn taken(inbox: &Inbox, message: &Map<String, Value>) -> Value {
    let asks = |key| message.get(key) == Some(&Value::Bool(true));
    let standing = if asks("status") { inbox.standing() } else { inbox.seen() };
    let status = &standing.status;
    let mut answer = json!({ "tick": status.tick, "stage": status.stage.word() });
    if asks("state") {
        answer["state"] = state(&standing);
    }
    if asks("status") {
        answer["status"] = json!(standing);
    }
    answer
}

/// What was measured, and what was sent; `null` where there is nothing yet.
fn state(Standing { status, joints, limits, phase, .. }: &Standing) -> Value {
    let of = |value: usize| -> Vec<f64> { status.measured.iter().map(|measured| measured[value]).collect() };
    let age_us = |at_ns: &i64| (*at_ns != i64::MIN).then(|| (status.now_ns - at_ns) / 1000);
    let is_limited = |limits: &&[f64; 2]| limits.iter().all(|limit| limit.is_finite());
    let limits: Vec<_> = limits.iter().map(|limits| Some(limits).filter(is_limited)).collect();
    json!({
        "joints": joints, "position": of(0), "velocity": of(1), "torque": of(2),
        "age": status.measured_ns.iter().map(age_us).collect::<Vec<_>>(),
        "command": status.command, "limits": limits, "at": status.now_ns / 1000,
        "phase": phase.map(khz_loop::supervisor::Phase::name),
    })
}

/// Times are in seconds.
impl Serialize for Standing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        to_json(self).serialize(serializer)
    }
}

fn to_json(Standing { status, joints, accounts, fared, .. }: &Standing) -> Value {
    let seconds = |ns: i64| ns as f64 * 1e-9;
    let by_joint = |values: &[f64]| -> BTreeMap<&str, f64> {
        joints.iter().map(String::as_str).zip(values.iter().copied()).collect()
    };
    let account = |account: &Account| {
        let counts = &account.counts;
        let refused = Refused::WORDS.iter().zip(counts.refused).filter(|(_, count)| *count > 0);
        let [p50, p99, most] = account.lateness_ns.map(seconds);
        let fields = json!({
            "holds": account.holds, "taken": counts.taken, "clamped": counts.clamped,
            "refused": refused.collect::<BTreeMap<_, _>>(),
            "cadence_s": account.cadence_ns.map(seconds),
            "lateness_s": { "p50": p50, "p99": p99, "max": most },
        });
        (account.name.clone(), fields)
    };
    json!({
        "stage": status.stage.word(), "age_s": seconds(status.age_ns), "held_over_ticks": fared.held_over,
        "longest_late_s": seconds(fared.lateness_ns.max), "waits": fared.waits, "silences": fared.silences, "anchored": fared.anchored,
        "offset": by_joint(&status.offset), "limited_ticks": status.limited,
        "programs": accounts.iter().map(account).collect::<BTreeMap<_, _>>(),
    })
}

fn with_seq(mut answer: Value, seq: Option<u64>) -> Value {
    if let Some(seq) = seq {
        answer["seq"] = json!(seq);
    }
    answer
}
