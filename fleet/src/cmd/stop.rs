//! `khz-fleet stop`.

use super::show;
use crate::asks::{by, done, selector};
use crate::bridge::{Presence, Status};
use crate::fleet::{age, names, no_such};
use crate::names::RobotName;
use crate::network::{Options, Role};
use anyhow::{Result, anyhow, bail};
use khz_view::control::Denied;
use khz_view::text::name;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use zenoh::bytes::Encoding;
use zenoh::qos::Priority;
use zenoh::query::Reply;
use zenoh::{Session, Wait};

/// How often a robot is asked again until it answers.
const AGAIN: Duration = Duration::from_millis(50);

/// Stop robots, as Ctrl-C at the robot does
///
/// A convenience, never an emergency stop: it depends on a network and three processes. A robot that does not answer is asked
/// again every 50 ms, and named. Ends when all robots say that they are at rest. Exit codes: 0 all are at rest, 1 one is not or
/// did not answer, 2 nothing could be asked.
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
    let session = network.session(Role::Visitor)?;
    let robots = match args.all {
        true => names(&session)?,
        false => args
            .robots
            .iter()
            .map(|name| RobotName::new(name))
            .collect::<Result<BTreeSet<_>, _>>()
            .map_err(|why| anyhow!(why))?,
    };
    if robots.is_empty() {
        bail!("no robot is on the network");
    }
    let patience = Duration::from_secs_f64(args.timeout);
    let by = by();
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let (session, by) = (&session, by.as_str());
        let threads: Vec<_> =
            robots.into_iter().map(|robot| scope.spawn(move || stop(session, robot, by, patience))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    show(
        &outcomes
            .iter()
            .map(|outcome| if args.json { outcome.json() } else { outcome.line() })
            .collect::<String>(),
    )?;
    Ok(ExitCode::from(u8::from(outcomes.iter().any(|outcome| outcome.rest.is_err()))))
}

/// What came back: how a robot is, or what became of the stop.
enum News {
    Status(Box<Status>),
    Stop(Result<u64, Denied>),
}

/// Stops a robot, and waits until it says that it is at rest. Its status comes first: it says which run is there, and a stop that
/// arrives late must not reach another one.
fn stop(session: &Session, robot: RobotName, by: &str, patience: Duration) -> Outcome {
    let begun = Instant::now();
    let mut outcome =
        Outcome { robot, tick: None, taken: None, rest: Err(String::new()), took: Duration::ZERO };
    outcome.rest = ask_until(session, &mut outcome, by, begun, patience);
    outcome.took = begun.elapsed();
    outcome
}

fn ask_until(
    session: &Session,
    outcome: &mut Outcome,
    by: &str,
    begun: Instant,
    patience: Duration,
) -> Result<String, String> {
    let robot = outcome.robot.clone();
    let (news, came) = channel();
    let (mut run, mut phase, mut unreachable) = (None, None, None);
    loop {
        let left = patience.saturating_sub(begun.elapsed()).max(AGAIN);
        ask(session, &robot.key("summary"), left, &news).map_err(|error| error.to_string())?;
        if let (Some(run), None) = (run, outcome.tick) {
            ask(session, &selector(&robot.key("stop"), Some(run), by), left, &news)
                .map_err(|error| error.to_string())?;
        }
        let again = Instant::now() + AGAIN;
        loop {
            match came.recv_timeout(again.saturating_duration_since(Instant::now())) {
                Ok(News::Status(status)) if status.robot == robot.as_str() => {
                    let is_first = run.is_none();
                    // Nothing has come from the robot yet: which run would be meant?
                    let Some(present) = status.run else {
                        unreachable = Some("it has received nothing from the robot".into());
                        continue;
                    };
                    if !is_first && run != Some(present) {
                        return Err("its run is over, and another one has begun".into());
                    }
                    if let Some(rest) = rest(&status, is_first) {
                        return Ok(rest);
                    }
                    phase = Some(status.health.phase.clone());
                    run = Some(present);
                    if is_first {
                        // Now the stop.
                        break;
                    }
                }
                Ok(News::Status(_)) => {}
                Ok(News::Stop(_)) if outcome.tick.is_some() => {}
                Ok(News::Stop(Ok(tick))) => {
                    (outcome.tick, outcome.taken) = (Some(tick), Some(begun.elapsed()));
                }
                // It may have come to rest by itself meanwhile: its next status says so. Otherwise it is refused.
                Ok(News::Stop(Err(Denied::Refused(why)))) => {
                    if !why.contains("at rest") {
                        return Err(format!("refused: {why}"));
                    }
                }
                // A run that is just ending has no live view any more: its next status says so, too.
                Ok(News::Stop(Err(Denied::Unreachable(why)))) => unreachable = Some(why),
                Err(_) => break,
            }
        }
        if begun.elapsed() >= patience {
            return Err(match (outcome.tick, phase) {
                (None, _) if let Some(why) = unreachable => format!("its bridge does not reach it: {why}"),
                (Some(_), phase) => format!("not at rest yet: it is in phase {}", phase.unwrap_or_default()),
                (None, Some(_)) => "no reply to Stop, though its bridge answers: may you stop robots? \
                    The router's access control says who may"
                    .into(),
                // Only now: a network that is slow to say who is there must not keep a stop back.
                (None, None) => match names(session) {
                    Ok(there) if !there.contains(&robot) => no_such(&robot, &there),
                    _ => "no reply from its bridge".into(),
                },
            });
        }
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

/// Asks once. An answer that says why it was refused is one; silence is none, and neither is what no bridge says.
fn ask(session: &Session, key: &str, patience: Duration, news: &Sender<News>) -> Result<()> {
    let news = news.clone();
    let callback = move |reply: Reply| {
        let bytes = match reply.result() {
            Ok(sample) => sample.payload().to_bytes(),
            Err(error) if *error.encoding() == Encoding::APPLICATION_JSON => error.payload().to_bytes(),
            // The network's own word: nobody answered in time.
            Err(_) => return,
        };
        let Ok(answer) = serde_json::from_slice::<Value>(&bytes) else { return };
        let said = match done(&answer) {
            Some(answer) => Some(News::Stop(answer)),
            None => serde_json::from_value(answer).ok().map(|status| News::Status(Box::new(status))),
        };
        said.into_iter().for_each(|said| _ = news.send(said));
    };
    let get =
        session.get(key).priority(Priority::RealTime).express(true).timeout(patience).callback(callback);
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
