//! A fleet as somebody at a terminal or a page sees it: which robots are up, and how they are.

use crate::bridge::{Presence, Status};
use crate::names::{RobotName, of_key};
use crate::ros::read_attachment;
use anyhow::{Result, anyhow};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use zenoh::pubsub::Subscriber;
use zenoh::query::{ConsolidationMode, QueryTarget};
use zenoh::sample::{Sample, SampleKind};
use zenoh::{Session, Wait};

/// How long the network may take to say who is there.
const ANSWER: Duration = Duration::from_secs(1);

/// A bridge says how things are twice a second; what is older says nothing about now.
const FRESH: Duration = Duration::from_secs(3);
/// How many robots are kept in mind, and how many bridges of each: names cost whoever makes them up nothing.
const MAX_ROBOTS: usize = 1000;
const MAX_BRIDGES: usize = 16;
/// The longest status.
const MAX_STATUS: usize = 8192;

/// A robot as it is seen from here.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Its token says that its samples come.
    pub has_token: bool,
    /// Since when no bridge of it is there, if one was.
    pub gone: Option<Instant>,
    /// Its bridges: more than one for moments only.
    pub bridges: BTreeSet<String>,
    /// Who answered for it to one question: more than one is an alarm.
    pub answering: BTreeSet<String>,
    /// What its bridge said last, and when that came.
    pub status: Option<(Status, Instant)>,
    /// Statuses that did not come.
    pub lost: u64,
    /// The number of its last status.
    pub number: Option<i64>,
}

impl Seen {
    /// Its bridge's last word, unless that is too old to say anything about now.
    pub fn status(&self) -> Option<&Status> {
        self.status.as_ref().filter(|(_, came)| came.elapsed() < FRESH).map(|(status, _)| status)
    }

    /// Its process is alive and can be reached: its token, its bridge's last word and the age of that say the same.
    pub fn is_up(&self) -> bool {
        self.has_token && self.answering.len() <= 1 && self.status().is_some_and(|status| status.up)
    }

    /// In a few words. "Unreachable" says nothing about what the robot does.
    pub fn state(&self) -> String {
        let ago = |what: &str, s: Option<f64>| match s {
            Some(s) => format!("{what} {} ago", age(s)),
            None => what.to_owned(),
        };
        match self.status() {
            _ if self.answering.len() > 1 => format!("ALARM: {} bridges answer", self.answering.len()),
            _ if self.bridges.is_empty() => {
                ago("unreachable", self.gone.map(|since| since.elapsed().as_secs_f64())).replace(" ago", "")
            }
            None => "no answer".into(),
            Some(status) => match status.state {
                _ if self.is_up() => "up".into(),
                Presence::Up => "up?".into(),
                Presence::Ended => ago("ended", status.silent_s),
                Presence::Silent => ago("silent", status.silent_s).replace(" ago", ""),
                Presence::Waiting => "no samples".into(),
            },
        }
    }

    /// What tables and pages have of it: phase, rate, worst wake latency, losses, and what was in the last ten seconds. Figures
    /// are those of a robot that is up.
    pub fn figures(&self, none: &str) -> [String; 5] {
        let Some(status) = self.status() else { return [(); 5].map(|()| none.to_owned()) };
        let (health, is_up) = (&status.health, self.is_up());
        let now = |text: String| if is_up { text } else { none.to_owned() };
        let phase = if health.phase.is_empty() { none.to_owned() } else { health.phase.clone() };
        let last = match (&status.cause, is_up) {
            (Some(cause), _) if !is_up || status.is_at_rest() => cause.clone(),
            (_, true) => status.verdict.clone(),
            (_, false) => none.to_owned(),
        };
        [
            phase,
            now(format!("{:.0} Hz", health.rate_hz)),
            now(format!("{:.0} µs", health.recent.worst_wake_us)),
            status.lost().saturating_add(self.lost).to_string(),
            last,
        ]
    }
}

/// A time that has passed, as somebody says it.
pub fn age(s: f64) -> String {
    match s {
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
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
    // All of them: one that says it knows everything (`complete`) would else answer instead of the bridges.
    let replies =
        session.get("khz/*/summary").target(QueryTarget::All).consolidation(ConsolidationMode::None);
    let replies = replies.timeout(ANSWER).wait().map_err(failed)?;
    for sample in replies.iter().filter_map(|reply| reply.into_result().ok()) {
        if let Some(bridge) = note_status(&mut robots, &sample)
            && let Some((name, _)) = of_key(sample.key_expr().as_str())
            && let Some(seen) = robots.get_mut(&name)
            && seen.answering.len() < MAX_BRIDGES
        {
            seen.answering.insert(bridge);
        }
    }
    Ok(robots)
}

/// The robots that have a bridge on the network. No bridge needs to answer for this. Blocks for a second at most.
///
/// # Errors
/// The session is closed.
pub fn names(session: &Session) -> Result<BTreeSet<RobotName>> {
    let replies = session.liveliness().get("khz/*/@bridge/*").timeout(ANSWER).wait().map_err(failed)?;
    let keys = replies.iter().filter_map(|reply| reply.into_result().ok());
    Ok(keys.filter_map(|sample| Some(of_key(sample.key_expr().as_str())?.0)).take(MAX_ROBOTS).collect())
}

/// What is said to somebody who names a robot that is not there.
pub fn no_such(name: &RobotName, there: &BTreeSet<RobotName>) -> String {
    let there: Vec<&str> = there.iter().map(RobotName::as_str).collect();
    match there.as_slice() {
        [] => format!("no robot `{name}` on the network, nor any other"),
        [one] => format!("no robot `{name}` on the network; there is {one}"),
        _ => format!("no robot `{name}` on the network; there are {}", there.join(", ")),
    }
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
            .callback(move |sample| _ = note_status(&mut lock(&noted), &sample))
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

/// The place of a robot. A new one for which there is no room takes that of one that has left, or has none.
fn entry(robots: &mut Robots, name: RobotName) -> Option<&mut Seen> {
    if robots.len() >= MAX_ROBOTS && !robots.contains_key(&name) {
        let gone = robots.iter().find(|(_, seen)| seen.bridges.is_empty() && !seen.has_token);
        let gone = gone.map(|(name, _)| name.clone())?;
        robots.remove(&gone);
    }
    Some(robots.entry(name).or_default())
}

fn note_token(robots: &mut Robots, sample: &Sample) {
    let Some((name, rest)) = of_key(sample.key_expr().as_str()) else { return };
    let is_there = sample.kind() == SampleKind::Put;
    let Some(seen) = entry(robots, name) else { return };
    match rest.strip_prefix("@bridge/") {
        Some(id) if is_there => {
            if seen.bridges.len() < MAX_BRIDGES {
                seen.bridges.insert(id.to_owned());
            }
            seen.gone = None;
        }
        Some(id) => {
            seen.bridges.remove(id);
            seen.gone = seen.bridges.is_empty().then(Instant::now);
        }
        None => {
            seen.has_token = is_there;
        }
    }
}

/// Notes what a bridge says of its robot. Returns which bridge that is.
fn note_status(robots: &mut Robots, sample: &Sample) -> Option<String> {
    let (name, _) = of_key(sample.key_expr().as_str())?;
    if sample.payload().len() > MAX_STATUS {
        return None;
    }
    let status = serde_json::from_slice::<Status>(&sample.payload().to_bytes()).ok()?;
    if status.robot != name.as_str() {
        return None;
    }
    let seen = entry(robots, name)?;
    let bridge = status.bridge.clone();
    seen.status = Some((status, Instant::now()));
    let number =
        sample.attachment().and_then(|bytes| read_attachment(&bytes.to_bytes())).map(|(number, _)| number);
    if let (Some(before), Some(number)) = (seen.number, number) {
        seen.lost = seen.lost.saturating_add(missed(before, number));
    }
    seen.number = number.or(seen.number);
    Some(bridge)
}

/// How many statuses did not come between two numbers, which may be any: a bridge that was started anew counts from 1.
fn missed(before: i64, number: i64) -> u64 {
    let gap = number.checked_sub(before).and_then(|gap| gap.checked_sub(1));
    gap.and_then(|gap| u64::try_from(gap).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::{Health, Tally};

    pub(crate) fn status(state: Presence, silent_s: f64, phase: &str, cause: Option<&str>) -> Status {
        Status {
            robot: "quad1".into(),
            host: "nuc".into(),
            bridge: "7".into(),
            version: "0".into(),
            up: state == Presence::Up,
            commands: true,
            state,
            silent_s: Some(silent_s),
            cause: cause.map(str::to_owned),
            run: Some(1),
            age_s: Some(silent_s),
            health: Health {
                rate_hz: 999.7,
                phase: phase.into(),
                recent: Tally { worst_wake_us: 61.2, ..Tally::default() },
                run: Tally::default(),
                verdict: String::new(),
            },
            verdict: "clean".into(),
            received: crate::bridge::Received { samples: 9, lost: 1, behind: 2, refused: 3, others: 4 },
            sent: 1,
            dropped: 5,
        }
    }

    fn seen(status: Status) -> Seen {
        let bridges = BTreeSet::from(["7".to_owned()]);
        Seen { has_token: status.up, bridges, status: Some((status, Instant::now())), ..Seen::default() }
    }

    #[test]
    fn old_figures_are_not_shown_as_if_live() {
        let up = seen(status(Presence::Up, 0.0, "active", None));
        assert_eq!((up.state().as_str(), up.is_up()), ("up", true));
        assert_eq!(up.figures("-"), ["active", "1000 Hz", "61 µs", "15", "clean"]);
        let ended = seen(status(Presence::Ended, 540.0, "fault", Some("servo 5 did not reply")));
        assert_eq!((ended.state().as_str(), ended.is_up()), ("ended 9 min ago", false));
        assert_eq!(ended.figures("-"), ["fault", "-", "-", "15", "servo 5 did not reply"]);
        let silent = seen(status(Presence::Silent, 4.0, "active", None));
        assert_eq!((silent.state().as_str(), &silent.figures("-")[4]), ("silent 4 s", &"-".to_owned()));
        assert_eq!(Seen::default().state(), "unreachable");
    }

    #[test]
    fn a_token_alone_makes_no_robot_up() {
        let mut robot = seen(status(Presence::Silent, 4.0, "active", None));
        robot.has_token = true;
        assert!(!robot.is_up());
        let mut robot = seen(status(Presence::Up, 0.0, "active", None));
        robot.has_token = false;
        assert!(!robot.is_up() && robot.state() == "up?");
        robot.status = None;
        robot.has_token = true;
        assert!(!robot.is_up() && robot.state() == "no answer");
    }

    /// One of them ended the thread that notes all robots.
    #[test]
    fn made_up_numbers_are_no_losses() {
        assert_eq!([missed(4, 5), missed(4, 7), missed(9, 1)], [0, 2, 0]);
        for (before, number) in [(0, i64::MIN), (i64::MAX, i64::MIN), (i64::MIN, i64::MAX), (1, i64::MIN + 1)]
        {
            assert_eq!(missed(before, number), 0);
        }
    }

    #[test]
    fn several_that_answer_for_one_robot_are_an_alarm() {
        let mut robot = seen(status(Presence::Up, 0.0, "active", None));
        robot.answering = ["a", "b"].map(str::to_owned).into();
        assert_eq!((robot.state().as_str(), robot.is_up()), ("ALARM: 2 bridges answer", false));
    }

    #[test]
    fn made_up_names_cost_bounded_memory() {
        let mut robots = Robots::new();
        let name = |n: usize| RobotName::new(&format!("r{n}")).unwrap();
        entry(&mut robots, name(0)).unwrap().has_token = true;
        (1..3 * MAX_ROBOTS).for_each(|n| assert!(entry(&mut robots, name(n)).is_some()));
        assert!(robots.len() <= MAX_ROBOTS && robots.contains_key(&name(0)), "who is there stays");
        robots.values_mut().for_each(|seen| seen.has_token = true);
        assert!(entry(&mut robots, name(9999)).is_none());
    }
}
