//! `khz-fleet logs`.

use super::show;
use crate::logs::{Beside, Listed};
use crate::names::{RobotName, is_part};
use crate::network::{Options, Role};
use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use zenoh::qos::Priority;
use zenoh::{Session, Wait};

/// How long a robot may take to answer; cutting a stretch out of a long log takes a while.
const ANSWER: Duration = Duration::from_secs(60);
/// How long an ordinary answer may take.
const SOON: Duration = Duration::from_secs(3);
/// How often a piece is asked for that does not come.
const ATTEMPTS: u32 = 3;

/// List a robot's logs, or download one or a stretch of one
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz-fleet logs quad1
  khz-fleet logs quad1 run-7.tlog --from 10 --to 12 -o fall.tlog
  khz-fleet logs quad1 --recent 5 -o now.tlog          the last 5 s of the present run")]
pub struct Args {
    /// The robot
    robot: String,
    /// The log
    log: Option<String>,
    /// From this time on, in seconds from the log's first sample
    #[arg(long, value_name = "SECONDS", requires = "log")]
    from: Option<f64>,
    /// Up to this time
    #[arg(long, value_name = "SECONDS", requires = "log")]
    to: Option<f64>,
    /// The last seconds of the present run, as the bridge has them: 30 s or 16 MiB at most
    #[arg(long, value_name = "SECONDS", conflicts_with = "log", requires = "output")]
    recent: Option<f64>,
    /// The new file [default: ROBOT-LOG]. It must not be there yet
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, network: &Options) -> Result<ExitCode> {
    let robot = RobotName::new(&args.robot).map_err(|why| anyhow!(why))?;
    let session = network.session(Role::Visitor)?;
    match (&args.log, args.recent, &args.output) {
        (Some(log), ..) => download(&session, &robot, log, args),
        (None, Some(seconds), Some(output)) => {
            let (bytes, _) = ask(&session, &robot.key("recent"), &format!("s={seconds}"), ANSWER)?;
            create(output)?
                .write_all(&bytes)
                .with_context(|| format!("cannot write {}", output.display()))?;
            show(&format!("{}: {} bytes\n", output.display(), bytes.len()))
        }
        _ => list(&session, &robot),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn list(session: &Session, robot: &RobotName) -> Result<()> {
    let (bytes, _) = ask(session, &robot.key("log"), "", SOON)?;
    let logs: Vec<Listed> = serde_json::from_slice(&bytes).context("an answer that is no list of logs")?;
    show(&logs.iter().map(|log| format!("{:>14}  {}\n", log.size, log.name)).collect::<String>())
}

fn download(session: &Session, robot: &RobotName, log: &str, args: &Args) -> Result<()> {
    if !is_part(log) {
        bail!("`{log}` is no name of a log: `khz-fleet logs {robot}` lists them");
    }
    let output = args.output.clone().unwrap_or_else(|| format!("{robot}-{log}").into());
    let mut file = create(&output)?;
    let result = pieces(session, robot, log, args, &mut file);
    if result.is_err() {
        // Half a log would be taken for a whole one.
        let _ = std::fs::remove_file(&output);
    }
    show(&format!("{}: {} bytes\n", output.display(), result?))
}

fn pieces(
    session: &Session,
    robot: &RobotName,
    log: &str,
    args: &Args,
    file: &mut std::fs::File,
) -> Result<u64> {
    let key = robot.key(&format!("log/{log}"));
    let stretch = [("from", args.from), ("to", args.to)];
    let stretch: String =
        stretch.iter().filter_map(|(name, value)| Some(format!("{name}={};", (*value)?))).collect();
    let (mut offset, mut whole): (u64, Option<Beside>) = (0, None);
    loop {
        let (bytes, beside) = ask_again(session, &key, &format!("{stretch}offset={offset}"))?;
        let beside: Beside =
            serde_json::from_slice(&beside).context("a piece that does not say what it is part of")?;
        let first = *whole.get_or_insert(beside);
        if beside.offset != offset || beside.cut != first.cut {
            bail!("{robot} has cut {log} anew meanwhile, for somebody else; try again");
        }
        // A log that still grows ends where it ended when the download began.
        let len = bytes.len().min(usize::try_from(first.size - offset).unwrap_or(usize::MAX));
        file.write_all(&bytes[..len]).context("cannot write")?;
        offset += len as u64;
        if offset >= first.size {
            return Ok(offset);
        }
        if len == 0 {
            bail!("{robot}: {log} ends after {offset} of {} bytes", first.size);
        }
    }
}

fn ask_again(session: &Session, key: &str, parameters: &str) -> Result<(Vec<u8>, Vec<u8>)> {
    for _ in 1..ATTEMPTS {
        if let Ok(piece) = ask(session, key, parameters, ANSWER) {
            return Ok(piece);
        }
    }
    ask(session, key, parameters, ANSWER)
}

/// Asks for one thing; returns it with what was beside it.
fn ask(session: &Session, key: &str, parameters: &str, patience: Duration) -> Result<(Vec<u8>, Vec<u8>)> {
    let get = session.get(format!("{key}?{parameters}")).priority(Priority::Background).timeout(patience);
    let replies = get.wait().map_err(|error| anyhow!("the network: {error}"))?;
    match replies.iter().next().map(|reply| reply.into_result()) {
        Some(Ok(sample)) => {
            let beside = sample.attachment().map(|bytes| bytes.to_bytes().into_owned()).unwrap_or_default();
            Ok((sample.payload().to_bytes().into_owned(), beside))
        }
        Some(Err(error)) => {
            let said: Option<Value> = serde_json::from_slice(&error.payload().to_bytes()).ok();
            let why = said.and_then(|said| Some(said.get("refused")?.as_str()?.to_owned()));
            bail!("{key}: {}", why.unwrap_or_else(|| "no reply in time".into()))
        }
        None => bail!(
            "{key}: nobody answers; is the robot's bridge on the network (`khz-fleet ls`), and may you ask for this?"
        ),
    }
}

fn create(path: &Path) -> Result<std::fs::File> {
    std::fs::File::create_new(path).with_context(|| format!("cannot make {}", path.display()))
}
