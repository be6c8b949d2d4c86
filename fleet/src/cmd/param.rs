//! `khz-fleet param`.

use super::{show, stop_on_signal};
use crate::asks::{Unanswered, by, question, selector, selector_since};
use crate::bridge::{Presence, Status, eprint_line};
use crate::fleet::{age, is_there, no_such};
use crate::names::RobotName;
use crate::network::{Options, Role};
use anyhow::{Context, Result, anyhow, bail};
use khz_view::parameters;
use khz_view::text::shortened;
use serde_json::{Map, Value};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use zenoh::qos::Priority;
use zenoh::sample::Sample;
use zenoh::{Session, Wait};

/// How long a bridge may take to report its robot's status.
const SOON: Duration = Duration::from_secs(3);
/// How long a robot may take to answer: its bridge gives it 5 s, twice if their connection has broken.
const ANSWER: Duration = Duration::from_secs(11);

/// List, read and set the parameters of a robot
///
/// The robot checks a new value, takes it at the start of a tick, and records it with that tick and its sender. Its answer is
/// printed. A value reaches only the run that was active when the command was given.
///
/// Exit codes: 0 done, 1 the robot refused or did not answer, 2 no request could be sent.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz-fleet param quad1                  all, with their units and ranges
  khz-fleet param quad1 kp_scale
  khz-fleet param quad1 kp_scale 0.4")]
pub struct Args {
    /// The robot
    robot: String,
    /// The parameter
    parameter: Option<String>,
    /// Its new value: a number, true or false
    #[arg(requires = "parameter", value_parser = parameters::value, allow_negative_numbers = true)]
    value: Option<Value>,
    /// Print parameters as JSON
    #[arg(long, conflicts_with = "value")]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args, network: &Options) -> Result<ExitCode> {
    let robot = RobotName::new(&args.robot).map_err(|why| anyhow!(why))?;
    let stop = stop_on_signal()?;
    let session = network.session(Role::Visitor)?;
    if !is_there(&session, &robot)? {
        bail!(no_such(&session, &robot)?);
    }
    let was_sent = args.value.is_some();
    let answer = present(&session, &robot, &stop)
        .map_err(|why| (why, false))
        .and_then(|run| ask(&session, &robot, run, args, &stop).map_err(|why| (why, was_sent)));
    let answer = match answer {
        Ok(sample) => serde_json::from_slice(&sample.payload().to_bytes()).unwrap_or_default(),
        Err((Unanswered::Network(why), _)) => bail!("the network: {why}"),
        Err((why, was_sent)) => {
            eprint_line(&format!("{robot}: {}", explained(&why, was_sent)));
            return Ok(ExitCode::from(1));
        }
    };
    match text(&answer, args) {
        Ok(text) => show(&text).map(|()| ExitCode::SUCCESS),
        Err(why) => {
            eprint_line(&format!("{robot}: {why:#}"));
            Ok(ExitCode::from(1))
        }
    }
}

/// The robot's present run. A value that arrives late must not reach another one.
fn present(session: &Session, robot: &RobotName, stop: &AtomicBool) -> Result<u64, Unanswered> {
    let status = question(session, &robot.key("summary"), None, Priority::InteractiveHigh, SOON, stop)?;
    let status: Status =
        serde_json::from_slice(&status.payload().to_bytes()).map_err(|_| Unanswered::Nonsense)?;
    if status.robot != robot.as_str() {
        return Err(Unanswered::Nonsense);
    }
    if status.state == Presence::Ended {
        let ago = status.silent_s.map(|s| format!(", ended {} ago", age(s))).unwrap_or_default();
        return Err(Unanswered::Refused(format!("its run is over{ago}")));
    }
    status.run.ok_or_else(|| Unanswered::Unreachable("it has received nothing from the robot".into()))
}

fn ask(
    session: &Session,
    robot: &RobotName,
    run: u64,
    args: &Args,
    stop: &AtomicBool,
) -> Result<Sample, Unanswered> {
    let values = args.parameter.clone().zip(args.value.clone());
    let values = values.map(|pair| Value::Object(Map::from_iter([pair])).to_string());
    let key = match &values {
        None => selector(&robot.key("param"), Some(run), &by()),
        Some(_) => selector_since(&robot.key("param"), run, clock(session, robot, run)?, &by()),
    };
    question(session, &key, values, Priority::InteractiveHigh, ANSWER, stop)
}

/// The robot's clock, by which it knows how old the new value is when it arrives.
fn clock(session: &Session, robot: &RobotName, run: u64) -> Result<u64, Unanswered> {
    let failed = |error: zenoh::Error| Unanswered::Network(error.to_string());
    let values = session.declare_subscriber(robot.key("@clock")).wait().map_err(failed)?;
    let until = Instant::now() + SOON;
    while let Ok(Some(sample)) = values.recv_deadline(until) {
        let value: Value = serde_json::from_slice(&sample.payload().to_bytes()).unwrap_or_default();
        if value["run"].as_u64() == Some(run)
            && let Some(now_us) = value["now_us"].as_u64()
        {
            return Ok(now_us);
        }
    }
    Err(Unanswered::Unreachable("its live view's clock is not received".into()))
}

/// The message to a user who got no answer.
fn explained(why: &Unanswered, was_sent: bool) -> String {
    let known = match why {
        // It was not passed on, or not answered in time; which of them is not known.
        Unanswered::Late | Unanswered::Unreachable(_) | Unanswered::Interrupted if was_sent => {
            "; whether the value was taken is not known: read it"
        }
        _ => "",
    };
    match why {
        Unanswered::Refused(why) => format!("refused: {why}"),
        why => format!("{why}{known}"),
    }
}

/// An answer, as it is printed.
fn text(answer: &Value, args: &Args) -> Result<String> {
    if args.value.is_some() {
        if answer.get("done") != Some(&Value::Bool(true)) {
            bail!("an answer that is no robot's: {}", shortened(&answer.to_string()));
        }
        let tick = answer.get("tick").and_then(Value::as_u64);
        return Ok(tick.map_or_else(|| "taken\n".to_owned(), |tick| format!("taken by tick {tick}\n")));
    }
    let all = answer.as_array().context("an answer that is no list of parameters")?;
    let Some(name) = &args.parameter else {
        return Ok(if args.json { format!("{answer:#}\n") } else { parameters::table(all) });
    };
    let known = |one: &&Value| one.get("name").and_then(Value::as_str) == Some(name);
    let names: Vec<_> = all.iter().filter_map(|one| Some(shortened(one.get("name")?.as_str()?))).collect();
    let one = all.iter().find(known).with_context(|| match names.as_slice() {
        [] => format!("the robot has no parameter `{name}`, nor any other"),
        _ => format!("the robot has no parameter `{name}`; it has {}", names.join(", ")),
    })?;
    Ok(if args.json {
        format!("{one:#}\n")
    } else {
        format!("{}\n", one.get("value").unwrap_or(&Value::Null))
    })
}
