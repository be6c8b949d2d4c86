//! A fleet as shown on a terminal or a page: which robots are up, and how they are.

use crate::bridge::{Presence, Status};
use crate::names::{RobotName, of_key};
use anyhow::{Result, anyhow};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use zenoh::pubsub::Subscriber;
use zenoh::qos::Priority;
use zenoh::query::{ConsolidationMode, QueryTarget, Reply};
use zenoh::sample::{Sample, SampleKind};
use zenoh::{Session, Wait};

/// How long the network may take to report who is there. It reports the end, too, so a quick network causes no wait.
const PRESENCE: Duration = Duration::from_secs(5);
/// How long bridges may take to report the status of their robots.
const ANSWER: Duration = Duration::from_secs(1);
/// For how long answers of bridges are received before tokens are: on an open network any program can have thousands of tokens.
const FIRST: Duration = Duration::from_millis(500);

/// A bridge publishes its status twice a second; what is older than this is stale.
const FRESH: Duration = Duration::from_secs(3);
/// How many robots are kept, and how many bridges of each: any program on the network can make up names.
const MAX_ROBOTS: usize = 1000;
const MAX_BRIDGES: usize = 16;
/// The longest status.
const MAX_STATUS: usize = 8192;
/// How many names are listed where a user asked for another one.
const MAX_LISTED: usize = 8;

/// The message where no robot is seen. The network does not report what its access control hides.
pub const NONE_SEEN: &str =
    "no robot can be seen: none is on the network, or the router's access control does not let you see any";

/// A robot as it is seen from here.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// It has a token: its samples come.
    pub has_token: bool,
    /// Since when no bridge of it is there, if one was.
    pub gone: Option<Instant>,
    /// Its bridges: more than one for moments only.
    pub bridges: BTreeSet<String>,
    /// Who answered for it to one question: more than one is an alarm.
    pub answering: BTreeSet<String>,
    /// The last status of its bridge, and when that came.
    pub status: Option<(Status, Instant)>,
    /// It has answered before, and is named also when it is not there.
    pub is_expected: bool,
}

impl Seen {
    /// A robot that answered before, so long ago.
    pub fn expected(ago: Duration) -> Self {
        Self { gone: Instant::now().checked_sub(ago), is_expected: true, ..Self::default() }
    }

    fn note_bridge(&mut self, id: &str) {
        if self.bridges.len() < MAX_BRIDGES {
            self.bridges.insert(id.to_owned());
        }
        self.gone = None;
    }

    /// Its bridge's last status, unless that is stale.
    pub fn status(&self) -> Option<&Status> {
        self.status.as_ref().filter(|(_, came)| came.elapsed() < FRESH).map(|(status, _)| status)
    }

    /// Its process is alive and can be reached, by its token and by a fresh status of its bridge.
    pub fn is_up(&self) -> bool {
        self.has_token && self.answering.len() <= 1 && self.status().is_some_and(|status| status.up)
    }

    /// In a few words. "Unreachable" is no statement about what the robot does.
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
            status.lost().to_string(),
            last,
        ]
    }
}

/// A time that has passed, for people: `12 s`, `3 min`.
pub fn age(s: f64) -> String {
    match s {
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

/// All robots.
pub type Robots = BTreeMap<RobotName, Seen>;

/// Adds who is there now. Robots that answer come first, and tokens after them: those overtake answers on their way. If a robot has
/// answered, further tokens are waited for for a second at most, however many there are.
///
/// # Errors
/// The session is closed, or no robot answered and the network did not report in time who is there.
pub fn look(session: &Session, robots: &mut Robots) -> Result<()> {
    let begun = Instant::now();
    let (mut has_answered, mut is_late) = (false, false);
    let mut take = |found| match found {
        Found::Status(sample) => has_answered |= note_answer(robots, &sample).is_some(),
        Found::Token(sample) => note_token(robots, &sample),
        Found::Late => is_late = true,
    };
    let answers = answers(session, ANSWER)?;
    drain(&answers, begun + FIRST, &mut take);
    let tokens = tokens(session)?;
    drain(&tokens, begun + ANSWER, &mut take);
    drain(&answers, begun + ANSWER, &mut take);
    if !has_answered {
        let mut take = |found| match found {
            Found::Token(sample) => note_token(robots, &sample),
            _ => is_late = true,
        };
        drain(&tokens, begun + 2 * PRESENCE, &mut take);
        if is_late {
            return Err(presence_unknown());
        }
    }
    Ok(())
}

/// The network did not report in time who is there, so whether a robot is missing is not known.
pub fn presence_unknown() -> anyhow::Error {
    anyhow!("the network did not say within {} s who is there; try again", PRESENCE.as_secs())
}

/// Evidence that a robot is there: its bridge's answer, or a token.
pub enum Found {
    /// What its bridge answered.
    Status(Sample),
    /// The token of a robot that is up, or of a bridge.
    Token(Sample),
    /// The network did not report all of them in time: which robots are missing is not known.
    Late,
}

impl Found {
    /// The robot.
    pub fn name(&self) -> Option<RobotName> {
        match self {
            Self::Status(sample) | Self::Token(sample) => Some(of_key(sample.key_expr().as_str())?.0),
            Self::Late => None,
        }
    }
}

/// What the bridges of all robots answer, as it comes; ends when all have answered, or patience is over.
///
/// # Errors
/// The session is closed.
pub fn answers(session: &Session, patience: Duration) -> Result<Receiver<Found>> {
    let (queue, found) = channel();
    // All queryables: one that declares itself `complete` would otherwise answer instead of the bridges.
    let get = session.get("khz/*/summary").target(QueryTarget::All).consolidation(ConsolidationMode::None);
    let get = get.priority(Priority::RealTime).express(true).timeout(patience);
    get.callback(into(queue, Found::Status, false)).wait().map_err(failed)?;
    Ok(found)
}

/// The tokens of all robots and bridges, as they come; ends when these were all, or after 5 s.
///
/// # Errors
/// The session is closed.
pub fn tokens(session: &Session) -> Result<Receiver<Found>> {
    let (queue, found) = channel();
    for key in ["khz/*/@up", "khz/*/@bridge/*"] {
        let get = session.liveliness().get(key).timeout(PRESENCE);
        get.callback(into(queue.clone(), Found::Token, true)).wait().map_err(failed)?;
    }
    Ok(found)
}

fn into(
    queue: Sender<Found>,
    kind: fn(Sample) -> Found,
    must_be_all: bool,
) -> impl Fn(Reply) + Send + Sync + 'static {
    move |reply| {
        let _ = match reply.into_result() {
            Ok(sample) => queue.send(kind(sample)),
            Err(_) if must_be_all => queue.send(Found::Late),
            Err(_) => Ok(()),
        };
    }
}

/// Takes what comes, until all have answered or the time is over.
fn drain(found: &Receiver<Found>, until: Instant, take: &mut impl FnMut(Found)) {
    while let Ok(found) = found.recv_timeout(until.saturating_duration_since(Instant::now())) {
        take(found);
    }
}

/// Whether a bridge of the robot is on the network; no bridge needs to answer for this.
///
/// # Errors
/// The session is closed, or the network did not report in time who is there.
pub fn is_there(session: &Session, robot: &RobotName) -> Result<bool> {
    let replies =
        session.liveliness().get(robot.key("@bridge/*")).timeout(PRESENCE).wait().map_err(failed)?;
    any(replies.iter().map(Reply::into_result))
}

/// Whether there is a reply. Without one from a network that timed out, that is not known: an error.
fn any<S, E>(mut replies: impl Iterator<Item = Result<S, E>>) -> Result<bool> {
    replies.next().map_or(Ok(false), |reply| reply.map(|_| true).map_err(|_| presence_unknown()))
}

/// The message to a user who names a robot that is not seen.
///
/// # Errors
/// The session is closed.
pub fn no_such(session: &Session, robot: &RobotName) -> Result<String> {
    let there = tokens(session)?.into_iter().filter_map(|found| found.name()).take(MAX_ROBOTS).collect();
    Ok(not_seen(robot, &there))
}

fn not_seen(robot: &RobotName, there: &BTreeSet<RobotName>) -> String {
    let some: Vec<&str> = there.iter().map(RobotName::as_str).take(MAX_LISTED).collect();
    let more = match there.len() - some.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let there = match some.as_slice() {
        [] => "nor any other".to_owned(),
        [one] => format!("there is {one}"),
        _ => format!("there are {}{more}", some.join(", ")),
    };
    format!(
        "no robot `{robot}` can be seen on the network, {there}; or the router's access control does not let you see it"
    )
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

/// The place of a robot. A new one for which there is no room takes that of one that is neither there nor expected; one that
/// answers takes that of one that never answered.
fn entry(robots: &mut Robots, name: RobotName, speaks: bool) -> Option<&mut Seen> {
    if robots.len() >= MAX_ROBOTS && !robots.contains_key(&name) {
        let is_away = |seen: &Seen| seen.bridges.is_empty() && !seen.has_token;
        let may_go = |seen: &Seen| !seen.is_expected && (is_away(seen) || speaks && seen.status.is_none());
        let gone = robots.iter().find(|(_, seen)| may_go(seen)).map(|(name, _)| name.clone())?;
        robots.remove(&gone);
    }
    Some(robots.entry(name).or_default())
}

fn note_token(robots: &mut Robots, sample: &Sample) {
    let Some((name, rest)) = of_key(sample.key_expr().as_str()) else { return };
    let is_there = sample.kind() == SampleKind::Put;
    let Some(seen) = entry(robots, name, false) else { return };
    match rest.strip_prefix("@bridge/") {
        Some(id) if is_there => seen.note_bridge(id),
        Some(id) => {
            seen.bridges.remove(id);
            seen.gone = seen.bridges.is_empty().then(Instant::now);
        }
        None => {
            seen.has_token = is_there;
        }
    }
}

/// Notes a status that a bridge publishes without being asked.
fn note_status(robots: &mut Robots, sample: &Sample) {
    let Some((seen, status)) = read_status(robots, sample) else { return };
    seen.status = Some((status, Instant::now()));
}

/// Notes what a bridge answered. That it is there, and its robot up, needs no token then.
fn note_answer(robots: &mut Robots, sample: &Sample) -> Option<()> {
    let (seen, status) = read_status(robots, sample)?;
    if seen.answering.len() < MAX_BRIDGES {
        seen.answering.insert(status.bridge.clone());
    }
    seen.note_bridge(&status.bridge);
    seen.has_token |= status.up;
    seen.status = Some((status, Instant::now()));
    Some(())
}

fn read_status<'a>(robots: &'a mut Robots, sample: &Sample) -> Option<(&'a mut Seen, Status)> {
    let (name, _) = of_key(sample.key_expr().as_str())?;
    if sample.payload().len() > MAX_STATUS {
        return None;
    }
    let status = serde_json::from_slice::<Status>(&sample.payload().to_bytes()).ok()?;
    if status.robot != name.as_str() {
        return None;
    }
    Some((entry(robots, name, true)?, status))
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

    /// A network that took more than a second was reported to have no robot on it.
    #[test]
    fn in_an_incomplete_list_of_a_network_absence_is_unknown() {
        assert!(any([Ok(1), Ok::<_, ()>(2)].into_iter()).unwrap());
        assert!(!any::<u8, ()>([].into_iter()).unwrap());
        let late = any::<u8, _>([Err("Timeout")].into_iter()).unwrap_err().to_string();
        assert!(late.contains("did not say within 5 s who is there"), "{late}");
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
        entry(&mut robots, name(0), false).unwrap().has_token = true;
        (1..3 * MAX_ROBOTS).for_each(|n| assert!(entry(&mut robots, name(n), false).is_some()));
        assert!(robots.len() <= MAX_ROBOTS && robots.contains_key(&name(0)), "who is there stays");
        robots.values_mut().for_each(|seen| seen.has_token = true);
        assert!(entry(&mut robots, name(9999), false).is_none());
    }

    /// With 3,000 tokens without a robot on the network, no robot was listed.
    #[test]
    fn robots_that_speak_have_room_beside_any_number_of_tokens() {
        let name = |text: &str| RobotName::new(text).unwrap();
        let mut robots = Robots::from([(name("away"), Seen::expected(Duration::from_secs(9)))]);
        (0..2 * MAX_ROBOTS).for_each(|n| {
            _ = entry(&mut robots, name(&format!("r{n}")), false).map(|seen| seen.has_token = true);
        });
        entry(&mut robots, name("leg"), true).unwrap().status = Some((Status::default(), Instant::now()));
        assert!(["away", "leg"].iter().all(|robot| robots.contains_key(&name(robot))));
        assert!(robots.len() <= MAX_ROBOTS);
    }

    #[test]
    fn who_is_not_seen_may_be_kept_from_sight() {
        let message = |there: &[&str]| {
            not_seen(
                &RobotName::new("leg").unwrap(),
                &there.iter().map(|name| RobotName::new(name).unwrap()).collect(),
            )
        };
        assert!(message(&[]).starts_with(
            "no robot `leg` can be seen on the network, nor any other; or the router's access control"
        ));
        assert!(message(&["arm"]).contains("there is arm;"));
        assert!(
            message(&["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"])
                .contains("there are a, b, c, d, e, f, g, h and 2 more;")
        );
    }
}
