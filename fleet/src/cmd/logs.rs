//! `khz-fleet logs`.

use super::{show, stop_on_signal};
use crate::asks::{Unanswered, question};
use crate::fleet::{age, is_there, no_such};
use crate::logs::{Beside, Listed};
use crate::names::{RobotName, is_part};
use crate::network::{Options, Role};
use anyhow::{Context, Result, anyhow, bail};
use khz_view::text::{name, plain};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::NamedTempFile;
use zenoh::Session;
use zenoh::qos::Priority;

/// How long a robot may take to answer; cutting a stretch out of a long log takes a while.
const ANSWER: Duration = Duration::from_secs(60);
/// How long an ordinary answer may take.
const SOON: Duration = Duration::from_secs(3);
/// How often a piece is asked for that does not come.
const ATTEMPTS: u32 = 3;
/// How many seconds a bridge keeps.
const RECENT_S: f64 = 30.0;

/// List a robot's logs, or download one or a stretch of one
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz-fleet logs quad1
  khz-fleet logs quad1 run-7.tlog --from 10 --to 12 -o fall.tlog
  khz-fleet logs quad1 --recent 5                      the last 5 s of the present run")]
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
    #[arg(long, value_name = "SECONDS", conflicts_with = "log", allow_negative_numbers = true)]
    recent: Option<f64>,
    /// The new file [default: ROBOT-LOG, or ROBOT-recent.tlog]. It must not be there yet
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, network: &Options) -> Result<ExitCode> {
    let robot = RobotName::new(&args.robot).map_err(|why| anyhow!(why))?;
    if let (Some(from), Some(to)) = (args.from, args.to)
        && from > to
    {
        bail!("--from {from} is after --to {to}");
    }
    let stop = stop_on_signal()?;
    let session = network.session(Role::Visitor)?;
    if !is_there(&session, &robot)? {
        bail!(no_such(&session, &robot)?);
    }
    match (&args.log, args.recent, &args.output) {
        (Some(log), ..) => download(&session, &robot, log, args, &stop),
        (None, Some(seconds), output) => {
            if !(0.0..=RECENT_S).contains(&seconds) {
                bail!("--recent: {seconds} is outside 0 to {RECENT_S} s: a bridge keeps no more");
            }
            let output = output.clone().unwrap_or_else(|| format!("{robot}-recent.tlog").into());
            let mut file = Download::start(output)?;
            let (bytes, _) = ask(&session, &robot.key("recent"), &format!("s={seconds}"), ANSWER, &stop)?;
            file.write(&bytes)?;
            file.finish(bytes.len() as u64)
        }
        _ => list(&session, &robot, &stop),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn list(session: &Session, robot: &RobotName, stop: &AtomicBool) -> Result<()> {
    let (bytes, _) = ask(session, &robot.key("log"), "", SOON, stop)?;
    let logs: Vec<Listed> = serde_json::from_slice(&bytes).context("an answer that is no list of logs")?;
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let line = |log: &Listed| {
        let ago = age(now_s.saturating_sub(log.modified_s) as f64);
        format!(
            "{:>12.1}  {:>12}  {}\n",
            log.size as f64 / 1e6,
            format!("{ago} ago"),
            plain(&name(&log.name))
        )
    };
    let head = format!("{:>12}  {:>12}  {}\n", "SIZE (MB)", "WRITTEN", "LOG");
    show(&std::iter::once(head).chain(logs.iter().map(line)).collect::<String>())
}

fn download(session: &Session, robot: &RobotName, log: &str, args: &Args, stop: &AtomicBool) -> Result<()> {
    if !is_part(log) {
        bail!("`{log}` is no name of a log: `khz-fleet logs {robot}` lists them");
    }
    let output = args.output.clone().unwrap_or_else(|| format!("{robot}-{log}").into());
    let mut file = Download::start(output)?;
    let size = pieces(session, robot, log, args, &mut file, stop)?;
    file.finish(size)
}

/// A file that gets its name when it is whole: half a log would be taken for a whole one. Dropped before, it is removed.
struct Download {
    file: NamedTempFile,
    output: PathBuf,
}

impl Download {
    fn start(output: PathBuf) -> Result<Self> {
        if output.symlink_metadata().is_ok() {
            bail!("{} is there already: remove it, or name another file with -o", output.display());
        }
        let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or_else(|| Path::new("."));
        let usual = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        let file = tempfile::Builder::new()
            .prefix(".khz-fleet-")
            .suffix(".part")
            .permissions(usual)
            .tempfile_in(folder);
        let file = file.with_context(|| format!("cannot make a file in {}", folder.display()))?;
        Ok(Self { file, output })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).with_context(|| format!("cannot write {}", self.output.display()))
    }

    fn finish(self, size: u64) -> Result<()> {
        let Self { file, output } = self;
        file.persist_noclobber(&output)
            .with_context(|| format!("cannot give the download its name {}", output.display()))?;
        show(&format!("{}: {size} bytes\n", output.display()))
    }
}

fn pieces(
    session: &Session,
    robot: &RobotName,
    log: &str,
    args: &Args,
    file: &mut Download,
    stop: &AtomicBool,
) -> Result<u64> {
    let key = robot.key(&format!("log/{log}"));
    let stretch = [("from", args.from), ("to", args.to)];
    let stretch: String =
        stretch.iter().filter_map(|(name, value)| Some(format!("{name}={};", (*value)?))).collect();
    let (mut offset, mut whole): (u64, Option<Beside>) = (0, None);
    loop {
        // Others may have stretches cut meanwhile.
        let cut = whole.filter(|_| !stretch.is_empty()).map(|whole| format!("cut={};", whole.cut));
        let asked = format!("{stretch}{}offset={offset}", cut.unwrap_or_default());
        let (bytes, beside) = ask_again(session, &key, &asked, stop)?;
        let beside: Beside =
            serde_json::from_slice(&beside).context("a piece that does not say what it is part of")?;
        let first = *whole.get_or_insert(beside);
        if beside.offset != offset || beside.cut != first.cut {
            bail!("{log} has changed on {robot} meanwhile; try again");
        }
        if beside.size < first.size {
            bail!("{log} has become shorter on {robot} meanwhile; try again");
        }
        // A log that still grows ends where it ended when the download began.
        let len = bytes.len().min(usize::try_from(first.size - offset).unwrap_or(usize::MAX));
        file.write(&bytes[..len])?;
        offset += len as u64;
        if offset >= first.size {
            return Ok(offset);
        }
        if len == 0 {
            bail!("{robot}: {log} ends after {offset} of {} bytes", first.size);
        }
    }
}

fn ask_again(
    session: &Session,
    key: &str,
    parameters: &str,
    stop: &AtomicBool,
) -> Result<(Vec<u8>, Vec<u8>)> {
    for _ in 1..ATTEMPTS {
        match ask(session, key, parameters, ANSWER, stop) {
            // A bridge that refused may have read the whole log first, and would refuse again.
            Err(error) if !error.downcast_ref().is_some_and(Unanswered::is_refused) => {}
            answer => return answer,
        }
    }
    ask(session, key, parameters, ANSWER, stop)
}

/// Asks for one thing; returns it with what was beside it.
fn ask(
    session: &Session,
    key: &str,
    parameters: &str,
    patience: Duration,
    stop: &AtomicBool,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let selector = format!("{key}?{parameters}");
    let answer = question(session, &selector, None, Priority::Background, patience, stop);
    let sample = answer.map_err(|error| match error {
        Unanswered::Interrupted => anyhow!("interrupted; nothing is kept of the download"),
        error => anyhow!(error).context(key.to_owned()),
    })?;
    let beside = sample.attachment().map(|bytes| bytes.to_bytes().into_owned()).unwrap_or_default();
    Ok((sample.payload().to_bytes().into_owned(), beside))
}
