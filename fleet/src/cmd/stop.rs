//! `khz-fleet stop`.

use super::show;
use crate::asks::{by, done, selector};
use crate::bridge::{Presence, Status, eprint_line};
use crate::fleet::{Found, NONE_SEEN, age, answers, is_there, no_such, presence_unknown, tokens};
use crate::names::RobotName;
use crate::network::{Options, Role};
use anyhow::{Result, anyhow, bail};
use khz_view::control::Denied;
use khz_view::text::name;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use zenoh::bytes::Encoding;
use zenoh::qos::Priority;
use zenoh::query::{ConsolidationMode, QueryTarget, Reply};
use zenoh::{Session, Wait};

/// How often a robot is asked again until it answers.
const AGAIN: Duration = Duration::from_millis(50);
/// How many robots are stopped at once: any program on an open network can make up names.
const MAX_ROBOTS: usize = 2000;
/// How many of those are asked that have a token and did not answer at once.
const MAX_SILENT: usize = 64;
/// How long a robot is asked that was here and is not.
const AWAY: Duration = Duration::from_secs(1);
/// A robot counts as at rest only if no other report comes for this long.
const REPORTED_AGAIN: Duration = Duration::from_millis(500);
/// How many programs that answer for one robot are distinguished.
const MAX_ANSWERING: usize = 8;

/// Stop robots, as Ctrl-C at the robot does
///
/// A convenience, never an emergency stop: it depends on a network and three processes. The request is repeated every 50 ms until the
/// robot answers; one that does not is named. With --all, a robot that has answered here within the last 24 h and is missing is named,
/// too. Ends when all robots report that they are at rest.
///
/// Exit codes: 0 all are at rest, 1 one is not, did not answer or may not have received the stop, 2 no stop could be sent.
#[derive(clap::Args)]
pub struct Args {
    /// The robots; or --all
    #[arg(required_unless_present = "all")]
    robots: Vec<String>,
    /// Every robot on the network
    #[arg(long, conflicts_with = "robots")]
    all: bool,
    /// How long they may take to answer and come to rest, in seconds
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS")]
    timeout: f64,
    /// Print JSON: an object for each robot
    #[arg(long)]
    json: bool,
}

/// What became of a robot.
struct Outcome {
    robot: RobotName,
    /// The tick that took the stop; none if it was at rest before.
    tick: Option<u64>,
    /// When that was known.
    taken: Option<Duration>,
    /// How the robot is at rest, or why it is not known to be.
    rest: Result<String, String>,
    took: Duration,
}

/// Runs the command.
pub fn run(args: &Args, network: &Options) -> Result<ExitCode> {
    if !(0.0..=3600.0).contains(&args.timeout) {
        bail!("--timeout: {} is outside 0 to 3600 s", args.timeout);
    }
    let robots: Result<BTreeSet<RobotName>, _> =
        args.robots.iter().map(|name| RobotName::new(name)).collect();
    let robots = robots.map_err(|why| anyhow!(why))?;
    let session = network.session(Role::Visitor)?;
    let mut known = network.known()?;
    let asking = Asking {
        session: &session,
        by: by(),
        patience: Duration::from_secs_f64(args.timeout),
        here: Mutex::default(),
    };
    let (outcomes, are_all) = match args.all {
        true => asking.stop_all(known.all().map(|(robot, _)| robot))?,
        false => (asking.stop(robots), true),
    };
    let (code, warning) = ended(&outcomes, are_all)?;
    known.note(outcomes.iter().filter(|outcome| outcome.rest.is_ok()).map(|outcome| &outcome.robot));
    show(
        &outcomes
            .iter()
            .map(|outcome| if args.json { outcome.json() } else { outcome.line() })
            .collect::<String>(),
    )?;
    warning.as_deref().into_iter().for_each(eprint_line);
    Ok(ExitCode::from(code))
}

/// The exit code, and what is to be printed beside the outcomes. `are_all`: the network has reported all robots.
fn ended(outcomes: &[Outcome], are_all: bool) -> Result<(u8, Option<String>)> {
    if outcomes.is_empty() {
        return Err(if are_all { anyhow!(NONE_SEEN) } else { presence_unknown() });
    }
    let is_well = are_all && outcomes.iter().all(|outcome| outcome.rest.is_ok());
    let warning = (!are_all).then(|| format!("NOT ALL ROBOTS MAY HAVE BEEN ASKED: {}", presence_unknown()));
    Ok((u8::from(!is_well), warning))
}

/// What came back: how a robot is, or what became of the stop.
enum News {
    Status(Box<Status>),
    Stop(Result<u64, Denied>),
}

/// What the stops of all robots share.
struct Asking<'a> {
    session: &'a Session,
    by: String,
    patience: Duration,
    /// Of all robots, which are here.
    here: Mutex<BTreeMap<RobotName, Here>>,
}

/// Whether a robot is here that may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Here {
    /// It was before, and is asked.
    Asked,
    /// It was before, and has not answered.
    Away,
    /// It answered, or has a token.
    There,
}

impl Asking<'_> {
    /// Stops these robots, each on a thread of its own.
    fn stop(&self, robots: impl IntoIterator<Item = RobotName>) -> Vec<Outcome> {
        std::thread::scope(|scope| {
            let start = |robot| scope.spawn(move || self.stop_one(robot));
            let threads: Vec<_> = robots.into_iter().map(start).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        })
    }

    /// Stops those that were here before, and all that answer, from the moment they do. Only then it is asked which tokens there are,
    /// so that no number of them keeps a stop back: some of those that have one and did not answer are asked, too, and the rest named.
    /// Also returns whether these were all, as far as the network reported.
    fn stop_all(&self, known: impl Iterator<Item = RobotName>) -> Result<(Vec<Outcome>, bool)> {
        let (begun, mut unasked, mut are_all) = (Instant::now(), Vec::new(), true);
        let outcomes = std::thread::scope(|scope| {
            let start = |robot| scope.spawn(move || self.stop_one(robot));
            let mut threads = Vec::new();
            for robot in known {
                self.here().insert(robot.clone(), Here::Asked);
                threads.push(start(robot));
            }
            for robot in answers(self.session, AWAY)?.into_iter().filter_map(|found| found.name()) {
                if self.is_new(&robot) {
                    threads.push(start(robot));
                }
            }
            // Tokens overtake what robots answer to their stops.
            std::thread::sleep(AWAY.saturating_sub(begun.elapsed()));
            let mut silent = 0;
            for found in tokens(self.session)? {
                are_all &= !matches!(found, Found::Late);
                let Some(robot) = found.name() else { continue };
                if self.is_new(&robot) {
                    silent += 1;
                    if silent <= MAX_SILENT { threads.push(start(robot)) } else { unasked.push(robot) }
                }
            }
            Ok::<_, anyhow::Error>(
                threads.into_iter().filter_map(|thread| thread.join().ok()).collect::<Vec<_>>(),
            )
        })?;
        let no_reply = |robot| {
            let rest = Err("no reply from its bridge".into());
            Outcome { robot, tick: None, taken: None, rest, took: self.patience }
        };
        let outcomes = unasked.into_iter().map(no_reply).chain(outcomes);
        // Of one that was away and came back, the second counts.
        let outcomes: BTreeMap<_, _> = outcomes.map(|one| (one.robot.clone(), one)).collect();
        Ok((outcomes.into_values().collect(), are_all))
    }

    /// Notes that a robot is here. Returns whether it is not being stopped yet.
    fn is_new(&self, robot: &RobotName) -> bool {
        let mut here = self.here();
        if here.len() >= MAX_ROBOTS && !here.contains_key(robot) {
            return false;
        }
        here.insert(robot.clone(), Here::There).is_none_or(|before| before == Here::Away)
    }

    /// Whether a robot is given up that was here before and has not answered.
    fn is_given_up(&self, robot: &RobotName) -> bool {
        match self.here().get_mut(robot) {
            Some(here @ Here::Asked) => {
                *here = Here::Away;
                true
            }
            _ => false,
        }
    }

    /// Stops a robot, and waits until it reports that it is at rest. Its status comes first: it has the number of the run, and a stop that
    /// arrives late must not reach another one.
    fn stop_one(&self, robot: RobotName) -> Outcome {
        let begun = Instant::now();
        let outcome =
            Outcome { robot, tick: None, taken: None, rest: Err(String::new()), took: Duration::ZERO };
        let mut stopping =
            Stopping { asking: self, begun, outcome, reported: Reported::default(), unreachable: None };
        stopping.outcome.rest = stopping.ask_until();
        stopping.outcome.took = begun.elapsed();
        stopping.outcome
    }

    fn here(&self) -> MutexGuard<'_, BTreeMap<RobotName, Here>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stop under way.
struct Stopping<'a> {
    asking: &'a Asking<'a>,
    begun: Instant,
    outcome: Outcome,
    reported: Reported,
    /// Why its bridge does not reach it.
    unreachable: Option<String>,
}

impl Stopping<'_> {
    fn ask_until(&mut self) -> Result<String, String> {
        let (news, came) = channel();
        loop {
            self.ask_all(&news).map_err(|error| error.to_string())?;
            let again = Instant::now() + AGAIN;
            while let Ok(news) = came.recv_timeout(again.saturating_duration_since(Instant::now())) {
                let was_known = !self.reported.runs.is_empty();
                if let Some(rest) = self.take(news)? {
                    return Ok(rest);
                }
                // The run is known: now the stop.
                if !was_known && !self.reported.runs.is_empty() {
                    break;
                }
            }
            if self.begun.elapsed() >= self.asking.patience {
                return Err(self.why_not());
            }
            // It may come back, but the others' outcome does not wait for that for long.
            if self.begun.elapsed() >= AWAY
                && self.reported.runs.is_empty()
                && self.asking.is_given_up(&self.outcome.robot)
            {
                return Err("it was here within the last 24 h, and cannot be seen now".into());
            }
        }
    }

    /// Asks how the robot is, and stops it, once it is known which run that is.
    fn ask_all(&self, news: &Sender<News>) -> Result<()> {
        let robot = &self.outcome.robot;
        let Asking { session, by, patience, .. } = self.asking;
        let left = patience.saturating_sub(self.begun.elapsed()).max(AGAIN);
        ask(session, &robot.key("summary"), left, news)?;
        // When several answer, it is not known whose answer to a stop it was.
        if self.outcome.tick.is_none() || self.reported.alarm.is_some() {
            let runs: BTreeSet<u64> = self.reported.runs.values().copied().collect();
            runs.into_iter()
                .try_for_each(|run| ask(session, &selector(&robot.key("stop"), Some(run), by), left, news))?;
        }
        Ok(())
    }

    /// How the robot is at rest, when that is known.
    fn take(&mut self, news: News) -> Result<Option<String>, String> {
        match news {
            News::Status(status) if status.robot == self.outcome.robot.as_str() => {
                if status.run.is_none() {
                    // Nothing has come from the robot yet: which run would be meant?
                    self.unreachable = Some("it has received nothing from the robot".into());
                    return Ok(None);
                }
                return self.reported.note(&status, Instant::now());
            }
            News::Stop(Ok(tick)) if self.outcome.tick.is_none() => {
                (self.outcome.tick, self.outcome.taken) = (Some(tick), Some(self.begun.elapsed()));
            }
            // It may have come to rest by itself meanwhile: its next status reports that. Otherwise it is refused, unless another program
            // answered.
            News::Stop(Err(Denied::Refused(why)))
                if self.outcome.tick.is_none()
                    && self.reported.alarm.is_none()
                    && !why.contains("at rest") =>
            {
                return Err(format!("refused: {why}"));
            }
            // A run that is just ending has no live view any more: its next status reports that, too.
            News::Stop(Err(Denied::Unreachable(why))) if self.outcome.tick.is_none() => {
                self.unreachable = Some(why)
            }
            _ => {}
        }
        Ok(None)
    }

    fn why_not(&self) -> String {
        let robot = &self.outcome.robot;
        match (self.outcome.tick, &self.reported.phase) {
            _ if let Some(alarm) = &self.reported.alarm => alarm.clone(),
            (None, _) if let Some(why) = &self.unreachable => format!("its bridge does not reach it: {why}"),
            (Some(_), phase) => {
                format!("not at rest yet: it is in phase {}", phase.as_deref().unwrap_or_default())
            }
            (None, Some(_)) => "no reply to Stop, though its bridge answers: may you stop robots? \
                The router's access control says who may"
                .into(),
            // Only now: a network that is slow to report who is there must not delay a stop.
            (None, None) if is_there(self.asking.session, robot).is_ok_and(|there| !there) => {
                no_such(self.asking.session, robot).unwrap_or_else(|error| error.to_string())
            }
            (None, None) => "no reply from its bridge".into(),
        }
    }
}

/// The reports of the programs that answer for a robot. On a network without access control that can be any program.
#[derive(Debug, Default)]
struct Reported {
    /// The run that each of them named first.
    runs: BTreeMap<String, u64>,
    phase: Option<String>,
    /// When the robot was first reported at rest.
    rest_since: Option<Instant>,
    /// Why none of it can be believed.
    alarm: Option<String>,
}

impl Reported {
    /// Notes a status. Returns how the robot is at rest, once that was reported again after a while and nothing else came in between.
    fn note(&mut self, status: &Status, now: Instant) -> Result<Option<String>, String> {
        let Some(run) = status.run else { return Ok(None) };
        let is_first = self.runs.is_empty();
        if self.runs.len() < MAX_ANSWERING {
            self.runs.entry(status.bridge.clone()).or_insert(run);
        }
        let rest = rest(status, self.phase.is_none());
        if self.runs.len() > 1 {
            self.raise(format!("{} bridges answer for it", self.runs.len()));
        } else if self.rest_since.is_some() && rest.is_none() {
            self.raise("it is said to be at rest and not to be, in one run".into());
        } else if !is_first && self.runs.values().all(|known| *known != run) && self.alarm.is_none() {
            return Err("its run is over, and another one has begun".into());
        }
        if rest.is_none() {
            self.phase = Some(status.health.phase.clone());
            return Ok(None);
        }
        let since = *self.rest_since.get_or_insert(now);
        Ok(rest.filter(|_| self.alarm.is_none() && now.duration_since(since) >= REPORTED_AGAIN))
    }

    fn raise(&mut self, what: String) {
        self.alarm.get_or_insert_with(|| {
            format!(
                "ALARM: {what}. Another program on the network may answer for this robot, so it is not known whether it stopped: use its \
                 emergency stop, and a network with access control"
            )
        });
    }
}

/// How a robot is at rest, if it is.
fn rest(status: &Status, is_first: bool) -> Option<String> {
    let why = status.cause.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default();
    let since = match status.silent_s {
        Some(s) if is_first && status.state == Presence::Ended => format!(", ended {} ago", age(s)),
        _ => String::new(),
    };
    match status.health.phase.as_str() {
        "stopped" if is_first => Some(format!("at rest already: stopped{since}")),
        "stopped" => Some("at rest".into()),
        "fault" => Some(format!("at rest, in fault{since}{why}")),
        _ if status.state == Presence::Ended => Some(format!("its run is over{since}{why}")),
        _ => None,
    }
}

/// Asks once. A refusal with its reason is an answer; silence is none, and neither is what no bridge sends.
fn ask(session: &Session, key: &str, patience: Duration, news: &Sender<News>) -> Result<()> {
    let news = news.clone();
    let callback = move |reply: Reply| {
        let bytes = match reply.result() {
            Ok(sample) => sample.payload().to_bytes(),
            Err(error) if *error.encoding() == Encoding::APPLICATION_JSON => error.payload().to_bytes(),
            // An error of the network itself: no answer in time.
            Err(_) => return,
        };
        let Ok(answer) = serde_json::from_slice::<Value>(&bytes) else { return };
        let answered = match done(&answer) {
            Some(answer) => Some(News::Stop(answer)),
            None => serde_json::from_value(answer).ok().map(|status| News::Status(Box::new(status))),
        };
        answered.into_iter().for_each(|answered| _ = news.send(answered));
    };
    // All queryables, and all their answers: one that declares itself `complete` would otherwise be asked instead of the bridge.
    let get = session.get(key).target(QueryTarget::All).consolidation(ConsolidationMode::None);
    let get = get.priority(Priority::RealTime).express(true).timeout(patience).callback(callback);
    get.wait().map_err(|error| anyhow!("the network: {error}"))
}

impl Outcome {
    fn line(&self) -> String {
        let s = self.took.as_secs_f64();
        let taken = match (self.tick, self.taken) {
            (Some(tick), Some(after)) => {
                format!("stop taken by tick {tick} after {:.1} ms, ", after.as_secs_f64() * 1000.0)
            }
            _ => String::new(),
        };
        match &self.rest {
            Ok(rest) => format!("{}: {taken}{} ({s:.1} s)\n", self.robot, name(rest)),
            Err(why) if self.tick.is_some() => format!("{}: {taken}{} ({s:.1} s)\n", self.robot, name(why)),
            Err(why) => format!("{}: NOT STOPPED: {} ({s:.1} s)\n", self.robot, name(why)),
        }
    }

    fn json(&self) -> String {
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let (rest, why) = match &self.rest {
            Ok(how) => (true, how),
            Err(why) => (false, why),
        };
        let taken_ms = self.taken.map(ms);
        format!(
            "{}\n",
            serde_json::json!({
                "robot": self.robot.as_str(), "at_rest": rest, "tick": self.tick, "why": why, "taken_ms": taken_ms,
                "ms": ms(self.took)
            })
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Health;

    fn status(bridge: &str, run: u64, phase: &str) -> Status {
        let health = Health { phase: phase.into(), ..Health::default() };
        Status { bridge: bridge.into(), run: Some(run), health, ..Status::default() }
    }

    /// Takes statuses that are a little more than half of [`REPORTED_AGAIN`] apart.
    fn reported(all: &[(&str, u64, &str)]) -> (Reported, Vec<Result<Option<String>, String>>) {
        let (mut reported, begun) = (Reported::default(), Instant::now());
        let note = |(n, &(bridge, run, phase)): (usize, &(&str, u64, &str))| {
            reported.note(&status(bridge, run, phase), begun + REPORTED_AGAIN * 6 * n as u32 / 10)
        };
        let results = all.iter().enumerate().map(note).collect();
        (reported, results)
    }

    #[test]
    fn a_robot_is_at_rest_when_nothing_contradicts_for_a_while() {
        let (_, results) =
            reported(&[("a", 7, "active"), ("a", 7, "stopped"), ("a", 7, "stopped"), ("a", 7, "stopped")]);
        assert_eq!(results[..3], [Ok(None), Ok(None), Ok(None)]);
        assert_eq!(results[3], Ok(Some("at rest".into())));
        let (_, results) = reported(&[("a", 7, "active"), ("a", 8, "active")]);
        assert!(results[1].as_ref().is_err_and(|why| why.contains("another one has begun")));
    }

    /// Merging two changes once lost it, and `stop --all` ended as if all had been asked.
    #[test]
    fn a_network_that_does_not_say_who_is_there_is_no_success() {
        let outcome = |rest| Outcome {
            robot: RobotName::new("dog").unwrap(),
            tick: Some(1),
            taken: None,
            rest,
            took: Duration::ZERO,
        };
        let stopped = [outcome(Ok("at rest".into()))];
        assert_eq!(ended(&stopped, true).unwrap(), (0, None));
        assert_eq!(ended(&[outcome(Err("refused".into()))], true).unwrap(), (1, None));
        let (code, warning) = ended(&stopped, false).unwrap();
        assert!(code == 1 && warning.is_some_and(|warning| warning.contains("did not say")));
        let none = |are_all| ended(&[], are_all).unwrap_err().to_string();
        assert!(none(false).contains("did not say") && none(true).contains(NONE_SEEN));
    }

    /// A forged answer ended `khz-fleet stop` with "at rest" and code 0, while the robot went on.
    #[test]
    fn answers_that_differ_are_an_alarm_and_no_rest() {
        for all in [
            // Another program answers, too; or claims to be the same one.
            [("x", 7, "stopped"), ("a", 7, "active"), ("x", 7, "stopped"), ("x", 7, "stopped")],
            [("a", 7, "stopped"), ("a", 7, "active"), ("a", 7, "stopped"), ("a", 7, "stopped")],
            [("x", 9, "active"), ("a", 7, "active"), ("a", 7, "stopped"), ("a", 7, "stopped")],
        ] {
            let (reported, results) = reported(&all);
            assert!(results.iter().all(|result| *result == Ok(None)), "{results:?}");
            assert!(reported.alarm.is_some_and(|alarm| alarm.starts_with("ALARM")), "{all:?}");
        }
        let (reported, _) = reported(&[("x", 9, "active"), ("a", 7, "active")]);
        assert_eq!(reported.runs.into_values().collect::<Vec<_>>(), [7, 9], "each of them is asked to stop");
    }
}
