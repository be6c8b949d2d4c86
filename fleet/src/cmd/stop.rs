//! `khz-fleet stop`.

use super::show;
use crate::fleet::look;
use crate::names::RobotName;
use crate::network::{Options, Role};
use anyhow::{Result, anyhow, bail};
use serde_json::Value;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
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
/// again every 50 ms, and named. Exit codes: 0 all have stopped, 1 one has not or did not answer.
#[derive(clap::Args)]
pub struct Args {
    /// The robots
    #[arg(required_unless_present = "all")]
    robots: Vec<String>,
    /// Every robot on the network
    #[arg(long, conflicts_with = "robots")]
    all: bool,
    /// How long they may take, in seconds
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    timeout: f64,
    /// Print JSON: an object for each robot
    #[arg(long)]
    json: bool,
}

/// What became of a robot.
struct Outcome {
    robot: RobotName,
    /// The tick that obeyed, or why there is none.
    tick: Result<Option<u64>, String>,
    took: Duration,
}

/// Runs the command.
pub fn run(args: &Args, network: &Options) -> Result<ExitCode> {
    if !(0.0..=3600.0).contains(&args.timeout) {
        bail!("--timeout: {} is outside 0 to 3600 s", args.timeout);
    }
    let session = network.session(Role::Visitor)?;
    let robots = match args.all {
        true => look(&session)?.into_keys().collect(),
        false => args
            .robots
            .iter()
            .map(|name| RobotName::new(name))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|why| anyhow!(why))?,
    };
    if robots.is_empty() {
        bail!("no robot is on the network");
    }
    let patience = Duration::from_secs_f64(args.timeout);
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let session = &session;
        let threads: Vec<_> =
            robots.into_iter().map(|robot| scope.spawn(move || stop(session, robot, patience))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    show(
        &outcomes
            .iter()
            .map(|outcome| if args.json { outcome.json() } else { outcome.line() })
            .collect::<String>(),
    )?;
    Ok(ExitCode::from(u8::from(outcomes.iter().any(|outcome| outcome.tick.is_err()))))
}

fn stop(session: &Session, robot: RobotName, patience: Duration) -> Outcome {
    let (answers, answered) = channel();
    let begun = Instant::now();
    let key = robot.key("stop");
    loop {
        if let Err(error) = ask(session, &key, patience, answers.clone()) {
            return Outcome { robot, tick: Err(error.to_string()), took: begun.elapsed() };
        }
        match answered.recv_timeout(AGAIN) {
            Ok(tick) => return Outcome { robot, tick, took: begun.elapsed() },
            Err(RecvTimeoutError::Timeout) if begun.elapsed() < patience => {}
            Err(_) => return Outcome { robot, tick: Err("no reply".into()), took: begun.elapsed() },
        }
    }
}

/// Asks once. An answer that says why it was refused is one; silence is none.
fn ask(
    session: &Session,
    key: &str,
    patience: Duration,
    answers: Sender<Result<Option<u64>, String>>,
) -> Result<()> {
    let callback = move |reply: Reply| {
        let answer = match reply.result() {
            Ok(sample) => read(&sample.payload().to_bytes()),
            Err(error) if *error.encoding() == Encoding::APPLICATION_JSON => {
                read(&error.payload().to_bytes())
            }
            // The network's own word: nobody answered in time.
            Err(_) => return,
        };
        let _ = answers.send(answer);
    };
    let get =
        session.get(key).priority(Priority::RealTime).express(true).timeout(patience).callback(callback);
    get.wait().map_err(|error| anyhow!("the network: {error}"))
}

fn read(bytes: &[u8]) -> Result<Option<u64>, String> {
    let answer: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("an answer that is no JSON: {error}"))?;
    match answer.get("refused").and_then(Value::as_str) {
        Some(why) => Err(format!("refused: {why}")),
        None => Ok(answer.get("tick").and_then(Value::as_u64)),
    }
}

impl Outcome {
    fn line(&self) -> String {
        let ms = self.took.as_secs_f64() * 1000.0;
        match &self.tick {
            Ok(Some(tick)) => format!("{}: stopped by tick {tick}, {ms:.1} ms\n", self.robot),
            Ok(None) => format!("{}: stopped, {ms:.1} ms\n", self.robot),
            Err(why) => format!("{}: NOT STOPPED: {why} ({ms:.0} ms)\n", self.robot),
        }
    }

    fn json(&self) -> String {
        let (done, tick, why) = match &self.tick {
            Ok(tick) => (true, *tick, None),
            Err(why) => (false, None, Some(why)),
        };
        let ms = self.took.as_secs_f64() * 1000.0;
        format!(
            "{}\n",
            serde_json::json!({ "robot": self.robot.as_str(), "done": done, "tick": tick, "why": why, "ms": ms })
        )
    }
}
