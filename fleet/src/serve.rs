//! What may be asked of a robot over the network, and what it answers. Every kind of question has a thread: reading a
//! log does not delay Stop.

use crate::asks::{Asker, Meant};
use crate::bridge::{Shared, eprint_line, text};
use crate::logs::{Beside, Logs, Stretch};
use crate::operator::drive;
use crate::outlets::cdr;
use crate::ros::{Gid, attachment};
use anyhow::{Context, Result, anyhow};
use khz_export::ros2::{Integers, Messages};
use khz_run::channel::{self, Denied};
use serde_json::{Map, Value, json};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use zenoh::Wait;
use zenoh::bytes::Encoding;
use zenoh::query::Query;

/// How many questions of one kind may wait; further ones are refused at once.
const WAITING: usize = 32;
/// The longest payload of a question.
const MAX_PAYLOAD: usize = 4096;
/// How long findings of the doctor are good for.
const FINDINGS: Duration = Duration::from_secs(60);
/// How often stretches of logs are looked after.
const TIDY: Duration = Duration::from_secs(10);
/// How many seconds of the log are sent by default.
const RECENT_S: f64 = 5.0;

/// What may be asked of several robots at once.
const SUMMARY: &str = "summary";
const JSON: &str = "application/json";

/// An answer: bytes of a kind, and what is attached to them.
struct Answer {
    bytes: Vec<u8>,
    kind: String,
    beside: Option<Vec<u8>>,
}

impl Answer {
    fn json(value: &Value) -> Self {
        Self { bytes: value.to_string().into_bytes(), kind: JSON.into(), beside: None }
    }

    fn of(bytes: impl Into<Vec<u8>>, kind: &str) -> Self {
        Self { bytes: bytes.into(), kind: kind.into(), beside: None }
    }
}

/// Starts to answer, until the process ends.
///
/// # Errors
/// The session is closed, or there can be no threads.
pub fn start(shared: &Arc<Shared>) -> Result<()> {
    let mut stopper = Asker::new(shared.view());
    answer(shared, "stop", move |shared, query| stop(shared, &mut stopper, query))?;
    let mut setter = Asker::new(shared.view());
    answer(shared, "param/*", move |shared, query| parameter(shared, &mut setter, query))?;
    let mut asker = Asker::new(shared.view());
    answer(shared, "param", move |shared, query| parameters(shared, &mut asker, query))?;
    let most = shared.settings.stretch_mib << 20;
    let logs = shared.settings.logs.clone().map(|folder| Arc::new(Logs::new(folder, most)));
    logs.iter().try_for_each(tidy)?;
    let listed = logs.clone();
    answer(shared, "log", move |_, _| Ok(Answer::json(&json!(listed.as_deref().ok_or(NO_LOGS)?.list()?))))?;
    answer_logs(shared, logs)?;
    answer(shared, "recent", recent)?;
    answer(shared, "file", |shared, _| {
        let file = text(&shared.robot().intake, "robot", "file");
        file.map(|file| Answer::of(file, "application/toml"))
            .ok_or("the robot has not sent its file yet; it does every 10 s".into())
    })?;
    answer(shared, SUMMARY, |shared, _| summary(shared))?;
    let mut findings = None;
    answer(shared, "doctor", move |_, _| doctor(&mut findings))?;
    answer(shared, "schema/*", schema)?;
    answer(shared, "newest/*", newest)?;
    answer(shared, "@beginning", |shared, _| beginning(shared))?;
    let driver = shared.clone();
    std::thread::Builder::new()
        .name("fleet-operator".into())
        .spawn(move || {
            if let Err(error) = drive(&driver) {
                eprint_line(&format!("steering is not possible: {error:#}"));
            }
        })
        .context("cannot start a thread")?;
    Ok(())
}

const NO_LOGS: &str = "this bridge has no logs: start it with --logs FOLDER";

/// Answers what is asked at a key of the robot, on a thread of its own.
fn answer(
    shared: &Arc<Shared>,
    rest: &'static str,
    how: impl FnMut(&Shared, &Query) -> Result<Answer, Denied> + Send + 'static,
) -> Result<()> {
    let ask = work(shared, rest, rest == SUMMARY, how)?;
    listen(shared, rest, move |query| ask.put(query))
}

/// Pieces of logs: cutting a stretch takes as long as reading its log, and downloads of whole logs do not wait for that.
fn answer_logs(shared: &Arc<Shared>, logs: Option<Arc<Logs>>) -> Result<()> {
    let stretches = logs.clone();
    let cut = work(shared, "cut", false, move |_, query| stretch(stretches.as_deref(), query))?;
    let whole = work(shared, "log", false, move |_, query| piece(logs.as_deref(), query))?;
    listen(shared, "log/*", move |query| {
        let is_cut = ["from", "to"].into_iter().any(|name| query.parameters().get(name).is_some());
        if is_cut { cut.put(query) } else { whole.put(query) }
    })
}

/// What waits for a thread that answers.
struct Questions(SyncSender<Query>);

impl Questions {
    fn put(&self, query: Query) {
        if let Err(TrySendError::Full(query)) = self.0.try_send(query) {
            // Not a refusal by the robot: a program that repeats Stop goes on until the robot answers.
            refuse(&query, &Denied::Unreachable("too many ask at the same time; try again".into()));
        }
    }
}

/// Has what is asked at a key of the robot put somewhere, until the process ends.
fn listen(shared: &Arc<Shared>, rest: &str, put: impl Fn(Query) + Send + Sync + 'static) -> Result<()> {
    let key = shared.name.key(rest);
    let queryable = shared.session.declare_queryable(key.clone()).callback(put).background().wait();
    queryable.map_err(|error| anyhow!("cannot answer at {key}: {error}"))
}

/// Starts a thread that answers.
fn work(
    shared: &Arc<Shared>,
    name: &str,
    looks: bool,
    mut how: impl FnMut(&Shared, &Query) -> Result<Answer, Denied> + Send + 'static,
) -> Result<Questions> {
    let (queue, questions) = sync_channel::<Query>(WAITING);
    let (shared, name) = (shared.clone(), format!("fleet-{}", name.split('/').next().unwrap_or(name)));
    let work = move || serve(&questions, &shared, looks, &mut how);
    std::thread::Builder::new().name(name).spawn(work).context("cannot start a thread")?;
    Ok(Questions(queue))
}

fn serve(
    questions: &Receiver<Query>,
    shared: &Shared,
    looks: bool,
    how: &mut impl FnMut(&Shared, &Query) -> Result<Answer, Denied>,
) {
    for query in questions {
        // A query for everything (`khz/**`) wants to look: it must stop or set nothing.
        if query.key_expr().is_wild() && !looks {
            continue;
        }
        if query.payload().is_some_and(|payload| payload.len() > MAX_PAYLOAD) {
            refuse(&query, &format!("a question has {MAX_PAYLOAD} bytes at the most").into());
            continue;
        }
        match how(shared, &query) {
            Ok(answer) => reply(shared, &query, answer),
            Err(why) => refuse(&query, &why),
        }
    }
}

/// The key of a reply is that of the question, unless that asked of several robots at once: only the summary answers then.
fn reply(shared: &Shared, query: &Query, answer: Answer) {
    let asked = query.key_expr();
    let key = if asked.is_wild() { shared.name.key(SUMMARY) } else { asked.to_string() };
    let reply = query.reply(key, answer.bytes).encoding(Encoding::from(answer.kind));
    // Who asked may be gone.
    let _ = match answer.beside {
        Some(beside) => reply.attachment(beside).wait(),
        None => reply.wait(),
    };
}

fn refuse(query: &Query, why: &Denied) {
    let _ =
        query.reply_err(channel::Answer::Denied(why.clone()).json()).encoding(Encoding::from(JSON)).wait();
}

fn stop(shared: &Shared, robot: &mut Asker, query: &Query) -> Result<Answer, Denied> {
    let begun = Instant::now();
    let meant = meant(shared, query)?;
    if let Some(rest) = shared.robot().rest() {
        return Err(rest.into());
    }
    let tick =
        robot.ask(&meant, khz_view::Connection::stop)?.ok_or("the robot did not say which tick stops it")?;
    let took_ms = begun.elapsed().as_secs_f64() * 1000.0;
    Ok(Answer::json(&json!({ "done": true, "tick": tick, "robot_ms": took_ms })))
}

/// The parameters of a question: `run` is the run that is meant, `by` who asks. A question that was under way
/// for long, through a bridge or a network that was frozen, does not reach the next run.
fn meant(shared: &Shared, query: &Query) -> Result<Meant, Denied> {
    let run = shared.robot().run()?;
    let asked = query.parameters();
    match asked.get("run").map(|text| text.parse::<u64>()) {
        Some(Err(_)) => Err("`run` is the number that `@status` has".into()),
        Some(Ok(asked)) if asked != run => {
            Err("the run that was asked is over; another one has begun".into())
        }
        _ => Ok(Meant { run: Some(run), by: asked.get("by").map(str::to_owned) }),
    }
}

/// All parameters, or with a payload several new values: all are taken, or none.
fn parameters(shared: &Shared, robot: &mut Asker, query: &Query) -> Result<Answer, Denied> {
    match payload(query)? {
        Some(Value::Object(values)) => set(robot, &meant(shared, query)?, query, &values),
        Some(_) => Err("write the new values as a JSON object: {\"kp_scale\": 0.4}".into()),
        None => Ok(Answer::json(&Value::Array(
            robot.ask(&meant(shared, query)?, khz_view::Connection::parameters)?,
        ))),
    }
}

/// One parameter, or with a payload its new value.
fn parameter(shared: &Shared, robot: &mut Asker, query: &Query) -> Result<Answer, Denied> {
    let name = last_part(query)?;
    if let Some(value) = payload(query)? {
        return set(robot, &meant(shared, query)?, query, &Map::from_iter([(name.to_owned(), value)]));
    }
    let all = robot.ask(&meant(shared, query)?, khz_view::Connection::parameters)?;
    let one = all.into_iter().find(|known| known.get("name").and_then(Value::as_str) == Some(name));
    one.map(|one| Answer::json(&one)).ok_or_else(|| format!("the robot has no parameter `{name}`").into())
}

/// Changes what moves the robot: how old the question is, its view finds out, as of a steering input.
fn set(
    robot: &mut Asker,
    meant: &Meant,
    query: &Query,
    values: &Map<String, Value>,
) -> Result<Answer, Denied> {
    let now_us = query.parameters().get("now_us").and_then(|text| text.parse().ok());
    let now_us = now_us.ok_or("a new value needs `now_us`: the newest one that `@clock` had")?;
    let tick = robot.ask(meant, |connection| connection.set_since(values, now_us))?;
    Ok(Answer::json(&json!({ "done": true, "tick": tick })))
}

fn payload(query: &Query) -> Result<Option<Value>, String> {
    let Some(payload) = query.payload().filter(|payload| !payload.is_empty()) else { return Ok(None) };
    let value = serde_json::from_slice(&payload.to_bytes());
    value.map(Some).map_err(|error| format!("the payload is no JSON: {error}"))
}

/// What a question's key ends with.
fn last_part(query: &Query) -> Result<&str, String> {
    let key = query.key_expr();
    match key.as_str().rsplit('/').next() {
        Some(part) if !part.is_empty() && !part.contains('*') => Ok(part),
        _ => Err("ask for one at a time: the key ends with a name".into()),
    }
}

/// Looks after the stretches of logs that were cut, on a thread of its own.
fn tidy(logs: &Arc<Logs>) -> Result<()> {
    let logs = Arc::downgrade(logs);
    let work = move || {
        while let Some(logs) = logs.upgrade() {
            logs.tidy(Instant::now());
            drop(logs);
            std::thread::sleep(TIDY);
        }
    };
    std::thread::Builder::new().name("fleet-tidy".into()).spawn(work).context("cannot start a thread")?;
    Ok(())
}

fn piece(logs: Option<&Logs>, query: &Query) -> Result<Answer, Denied> {
    let offset = number(query, "offset")?.unwrap_or(0.0);
    Ok(pieced(logs.ok_or(NO_LOGS)?.piece(last_part(query)?, offset as u64)?))
}

fn stretch(logs: Option<&Logs>, query: &Query) -> Result<Answer, Denied> {
    let stretch = Stretch { from_s: number(query, "from")?, to_s: number(query, "to")? };
    let offset = number(query, "offset")?.unwrap_or(0.0);
    let cut = number(query, "cut")?.map(|cut| cut as u64);
    Ok(pieced(logs.ok_or(NO_LOGS)?.piece_of(last_part(query)?, &stretch, offset as u64, cut)?))
}

fn pieced((bytes, beside): (Vec<u8>, Beside)) -> Answer {
    let beside = Some(json!(beside).to_string().into_bytes());
    Answer { bytes, kind: "application/octet-stream".into(), beside }
}

fn number(query: &Query, name: &str) -> Result<Option<f64>, String> {
    let Some(text) = query.parameters().get(name) else { return Ok(None) };
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.map(Some).ok_or_else(|| format!("`{name}={text}`: {text} is no number"))
}

fn recent(shared: &Shared, query: &Query) -> Result<Answer, Denied> {
    let seconds = number(query, "s")?.unwrap_or(RECENT_S);
    let (last, records) = {
        let robot = shared.robot();
        (robot.recent.last(seconds), robot.intake.records().to_vec())
    };
    // Stop asks for the robot, too, and must not wait for megabytes.
    last.log(&records)
        .map(|log| Answer::of(log, "application/octet-stream"))
        .map_err(|error| error.to_string().into())
}

fn summary(shared: &Shared) -> Result<Answer, Denied> {
    let status = shared.status();
    let mut status =
        status.ok_or(Denied::Unreachable("nothing is known yet; try again in a second".into()))?;
    // Not as it was half a second ago: a run that has begun since is not at rest.
    status.update(&shared.robot());
    Ok(Answer::json(&json!(status)))
}

/// The doctor's findings for the bridge's computer, which is the robot's.
fn doctor(known: &mut Option<(Instant, Result<Value, String>)>) -> Result<Answer, Denied> {
    if known.as_ref().is_none_or(|(since, _)| since.elapsed() > FINDINGS) {
        *known = Some((Instant::now(), examine()));
    }
    match known {
        Some((_, Ok(findings))) => Ok(Answer::json(findings)),
        Some((_, Err(why))) => Err(why.clone().into()),
        None => Err("no findings".into()),
    }
}

fn examine() -> Result<Value, String> {
    let khz = crate::programs::khz();
    let out = Command::new(&khz).args(["doctor", "--json"]).stdin(std::process::Stdio::null()).output();
    let out = out.map_err(|error| format!("cannot start {}: {error}", khz.display()))?;
    serde_json::from_slice(&out.stdout).map_err(|error| format!("{} doctor --json: {error}", khz.display()))
}

/// The definition of a record's messages (ros2msg).
fn schema(shared: &Shared, query: &Query) -> Result<Answer, Denied> {
    let name = last_part(query)?;
    let robot = shared.robot();
    let mut messages = Messages::default();
    for known in robot.intake.records() {
        let (message, definition) = messages.declare(&known.name, &known.ty, Integers::Rounded);
        if khz_export::plain(&known.name) == name {
            let beside = Some(json!({ "name": message }).to_string().into_bytes());
            return Ok(Answer { bytes: definition.into_bytes(), kind: "text/plain;ros2msg".into(), beside });
        }
    }
    Err(format!("the robot has no record `{name}`").into())
}

/// What a viewer that comes late needs to read the datagrams of `@stream`: each with its length in front (u32, little endian).
fn beginning(shared: &Shared) -> Result<Answer, Denied> {
    let datagrams = shared.robot().intake.beginning();
    let framed = datagrams.iter().flat_map(|one| [&(one.len() as u32).to_le_bytes()[..], one].concat());
    Ok(Answer::of(framed.collect::<Vec<u8>>(), "application/octet-stream"))
}

/// The newest sample of a record, for programs that joined later.
fn newest(shared: &Shared, query: &Query) -> Result<Answer, Denied> {
    let name = last_part(query)?;
    let robot = shared.robot();
    let known = robot.intake.records().iter().find(|known| khz_export::plain(&known.name) == name);
    let known = known.ok_or_else(|| format!("the robot has no record `{name}`"))?;
    let (time_us, payload) =
        known.latest.as_ref().ok_or_else(|| format!("no sample of `{name}` has come yet"))?;
    let bytes =
        cdr(&known.ty, payload).ok_or_else(|| format!("the newest sample of `{name}` cannot be read"))?;
    let beside =
        attachment(known.samples as i64, time_us.saturating_mul(1000), Gid::of(query.key_expr().as_str()));
    let (message, _) = Messages::default().declare(&known.name, &known.ty, Integers::Rounded);
    Ok(Answer { bytes, kind: format!("application/cdr;{message}"), beside: Some(beside.to_vec()) })
}
