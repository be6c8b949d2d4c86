//! A fleet as somebody at a terminal or a page sees it: which robots are up, and how they are.

use crate::bridge::Status;
use crate::names::{RobotName, of_key};
use crate::ros::read_attachment;
use anyhow::{Result, anyhow};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use zenoh::pubsub::Subscriber;
use zenoh::sample::{Sample, SampleKind};
use zenoh::{Session, Wait};

/// How long the network may take to say who is there.
const ANSWER: Duration = Duration::from_secs(1);

/// A robot as it is seen from here.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Its process is alive, and can be reached.
    pub is_up: bool,
    /// Since when it is not, if it was.
    pub gone: Option<Instant>,
    /// Its bridges: more than one for moments only.
    pub bridges: BTreeSet<String>,
    /// What its bridge said last, and when that came.
    pub status: Option<(Status, Instant)>,
    /// Statuses that did not come.
    pub lost: u64,
    /// The number of its last status.
    pub number: Option<i64>,
}

impl Seen {
    /// One word or two. "Unreachable" says nothing about what the robot does.
    pub fn state(&self) -> String {
        match (self.is_up, self.bridges.is_empty(), self.gone) {
            (true, ..) => "up".into(),
            (false, false, _) => "down".into(),
            (false, true, Some(since)) => format!("unreachable {:.0} s", since.elapsed().as_secs_f64()),
            (false, true, None) => "unreachable".into(),
        }
    }
}

/// All robots.
pub type Robots = BTreeMap<RobotName, Seen>;

/// Who is there now. Blocks for a second at most.
///
/// # Errors
/// The session is closed.
pub fn look(session: &Session) -> Result<Robots> {
    let mut robots = Robots::new();
    for key in ["khz/*/@up", "khz/*/@bridge/*"] {
        let replies = session.liveliness().get(key).timeout(ANSWER).wait().map_err(failed)?;
        for sample in replies.iter().filter_map(|reply| reply.into_result().ok()) {
            note_token(&mut robots, &sample);
        }
    }
    let replies = session.get("khz/*/summary").timeout(ANSWER).wait().map_err(failed)?;
    for sample in replies.iter().filter_map(|reply| reply.into_result().ok()) {
        note_status(&mut robots, &sample);
    }
    Ok(robots)
}

/// Watches a fleet until dropped.
pub struct Watch {
    robots: Arc<Mutex<Robots>>,
    _subscribers: [Subscriber<()>; 3],
}

impl Watch {
    /// Begins.
    ///
    /// # Errors
    /// The session is closed.
    pub fn start(session: &Session) -> Result<Self> {
        let robots = Arc::new(Mutex::new(Robots::new()));
        let token = |key: &'static str| {
            let robots = robots.clone();
            let callback = move |sample: Sample| note_token(&mut lock(&robots), &sample);
            session
                .liveliness()
                .declare_subscriber(key)
                .history(true)
                .callback(callback)
                .wait()
                .map_err(failed)
        };
        let noted = robots.clone();
        let status = session
            .declare_subscriber("khz/*/@status")
            .callback(move |sample| note_status(&mut lock(&noted), &sample))
            .wait()
            .map_err(failed)?;
        let subscribers = [token("khz/*/@up")?, token("khz/*/@bridge/*")?, status];
        Ok(Self { robots, _subscribers: subscribers })
    }

    /// The robots seen so far.
    pub fn robots(&self) -> MutexGuard<'_, Robots> {
        lock(&self.robots)
    }
}

fn lock(robots: &Mutex<Robots>) -> MutexGuard<'_, Robots> {
    robots.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(error: zenoh::Error) -> anyhow::Error {
    anyhow!("the network: {error}")
}

fn note_token(robots: &mut Robots, sample: &Sample) {
    let Some((name, rest)) = of_key(sample.key_expr().as_str()) else { return };
    let is_there = sample.kind() == SampleKind::Put;
    let seen = robots.entry(name).or_default();
    match rest.strip_prefix("@bridge/") {
        Some(id) if is_there => {
            seen.bridges.insert(id.to_owned());
        }
        Some(id) => {
            seen.bridges.remove(id);
        }
        None => {
            seen.is_up = is_there;
            seen.gone = (!is_there).then(Instant::now);
        }
    }
}

fn note_status(robots: &mut Robots, sample: &Sample) {
    let Some((name, _)) = of_key(sample.key_expr().as_str()) else { return };
    let Ok(status) = serde_json::from_slice::<Status>(&sample.payload().to_bytes()) else { return };
    let seen = robots.entry(name).or_default();
    seen.status = Some((status, Instant::now()));
    let number =
        sample.attachment().and_then(|bytes| read_attachment(&bytes.to_bytes())).map(|(number, _)| number);
    if let (Some(before), Some(number)) = (seen.number, number) {
        // A bridge that was started anew counts from 1.
        seen.lost += u64::try_from(number - before - 1).unwrap_or(0);
    }
    seen.number = number.or(seen.number);
}
