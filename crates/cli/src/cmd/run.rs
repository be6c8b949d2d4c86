//! `khz run`: the main job.

use super::check::advice::{missing_limits, without_positions};
use super::{BAD_INPUT, complain, complaint, note, output, print_line, show, show_judged, view, warn};
use anyhow::{Context, Result, bail};
use khz_file::RobotConfig;
use khz_file::config::ControllerKind;
use khz_file::found;
use khz_loop::timing::Clock;
use khz_page::duration_ns;
use khz_report::require::{Requirements, of_run};
use khz_report::run::RunSummary;
use khz_robot::session::SessionError;
use kilohertz::{Finished, Overrides, Robot, live, stop_on_signal, viewer};
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Run a robot until --duration is over or Ctrl-C
///
/// Each tick commands and reads every servo, and reads the IMU.
///
/// Without a file an emulated quadruped of 12 servos stands up and squats at 1 kHz. Shows a live line, then the
/// verdict in a few lines; writes a log and an HTML report. Ctrl-C brings the robot down gently.
///
/// Exit codes: 0 the run ended as planned, 1 something brought the robot down, it never came under control or did not meet
/// --require, or the file of --report could not be written, 2 bad input. An incomplete log is reported; the exit code stays the same.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz run                                          the emulated quadruped, for 10 s
  khz run robot.toml                               until Ctrl-C
  khz run robot.toml --duration 1h30m --cpu 3 --strict
  khz run robot.toml --virtual --duration 60s      as fast as the CPU computes it
  khz run robot.toml --json > run.json
  khz run --open                                   look at the report afterwards
  khz run --view --open                            watch it and tune it in the browser")]
#[command(group(clap::ArgGroup::new("named").args(["report", "save_parameters"]).multiple(true)))]
pub struct Args {
    /// The robot file; without it, the built-in quadruped.
    robot: Option<PathBuf>,
    /// Bring the robot down after this time, for example 30s. Without it: 10 s for the built-in quadruped,
    /// until Ctrl-C for a file.
    #[arg(long, value_parser = duration_ns)]
    duration: Option<i64>,
    /// Compare the measured tick with the predicted one, part by part. The report and the JSON always do.
    #[arg(long)]
    budget: bool,
    /// Print one JSON object instead of the verdict.
    #[arg(long)]
    json: bool,
    /// Print all figures: counts, times, the parts of the tick, late ticks, what the loop's thread was granted.
    #[arg(long, short, conflicts_with = "json")]
    verbose: bool,
    /// The log; replaces `log.path` of the robot file, and is written even if `log.enabled` is false there.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Send everything that is recorded by UDP too, to `khz log record --listen` at HOST:PORT; replaces
    /// `log.stream` of the robot file. The log is written, too, even if `log.enabled` is false there.
    #[arg(long, value_name = "HOST:PORT")]
    stream: Option<String>,
    /// Receive targets there, `unix:PATH` or `udp:ADDRESS:PORT`; replaces `targets.from` of the robot file.
    #[arg(long, value_name = "FROM", conflicts_with = "virtual_time")]
    targets: Option<String>,
    /// The report, which must not be there yet; by default the log's name with `.html`, and a number if that is taken.
    #[arg(long, value_name = "FILE", conflicts_with = "no_report")]
    report: Option<PathBuf>,
    /// Overwrite the files of --report and --save-parameters if they are there. Logs are never overwritten.
    #[arg(long, requires = "named")]
    force: bool,
    /// Save the parameters as they are at the end: as `[parameters]` in a new file, or in the robot file, if FILE is that;
    /// its comments stay.
    #[arg(long, value_name = "FILE")]
    save_parameters: Option<PathBuf>,
    /// Write no report.
    #[arg(long)]
    no_report: bool,
    /// Run in virtual time, as fast as the CPU computes it: for emulated robots. The run is repeatable and does not measure
    /// this computer. Replaces `loop.clock` of the robot file.
    #[arg(long = "virtual", conflicts_with_all = ["cpu", "strict", "budget", "stream"])]
    virtual_time: bool,
    /// The CPU of the loop's thread; replaces `loop.cpu` of the robot file.
    #[arg(long)]
    cpu: Option<u32>,
    /// Requirements, as NAME=LIMIT,… (rate=999.9,missed=0,wake_p99=100us); exit code 1 if one is not met. `help` lists
    /// the names.
    #[arg(long, value_name = "NAME=LIMIT,…", value_parser = |text: &str| Requirements::parse(text, &of_run()))]
    require: Option<Requirements<RunSummary>>,
    /// Watch it live: prints the address of a page, which Foxglove, Lichtblick, PlotJuggler and `khz param` can use, too. At
    /// ADDR, or for this computer alone; other addresses need the token in the printed link. The page stays readable
    /// after the run, until it is closed.
    #[arg(long, value_name = "ADDR[:PORT]", num_args = 0..=1, require_equals = true, value_parser = viewer::address,
        default_missing_value = "127.0.0.1", conflicts_with = "virtual_time")]
    view: Option<SocketAddr>,
    /// Open the page of --view in the browser, or, without --view, the report when the run is over.
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    allowed: view::Allowed,
    /// Refuse to run with less than what the robot file asks of the kernel.
    #[arg(long)]
    strict: bool,
}

impl Args {
    /// The report is to be opened; with --view it is the live page.
    const fn opens_report(&self) -> bool {
        self.open && self.view.is_none()
    }
}

const DEFAULT_DURATION_NS: i64 = 10_000_000_000;

/// How long a run that is asked to end waits until its verdict is read, and how often it looks whether it is asked to.
const UNREAD: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

/// Runs the robot and prints how it went.
pub fn run(args: Args) -> Result<ExitCode> {
    let robot = match read(args.robot.as_deref()) {
        Ok(robot) => robot,
        Err(error) => {
            complain(&error);
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    robot.warnings().iter().for_each(print_line);
    if !robot.config().is_emulated() {
        missing_limits(robot.config()).iter().for_each(print_line);
    }
    without_positions(robot.config()).iter().for_each(print_line);
    let robot = robot.with(overrides(&args));
    check_outputs(&args, robot.config())?;
    check_targets(&args, robot.config())?;

    // The live line must not stop a robot that runs in the background.
    khz_rt::ignore_tostop().context("cannot ignore SIGTTOU")?;
    let duration_ns = args.duration.or(args.robot.is_none().then_some(DEFAULT_DURATION_NS));
    let stop = stop_on_signal()?;
    let mut robot = viewed(robot, &args)?;
    (robot.options().duration_ns, robot.options().stop) = (duration_ns, stop.clone());
    let mut run = robot.start()?;
    run.not_drawn().iter().for_each(warn);
    if duration_ns.is_none() && io::stderr().is_terminal() {
        note("it runs until Ctrl-C; with `--duration 10s` it comes down by itself");
    }
    live::watch(&mut run);
    let view = run.take_view();
    let mut finished = match run.finish() {
        Err(kilohertz::Error::Session(SessionError::Setup(error))) => {
            complain(&error.into());
            return Ok(ExitCode::from(BAD_INPUT));
        }
        Err(error @ kilohertz::Error::Session(SessionError::Stopped)) => {
            complain(&error.into());
            return Ok(ExitCode::FAILURE);
        }
        finished => finished?,
    };
    if let Some(requirements) = &args.require {
        finished.summary.require(requirements, duration_ns);
    }
    let written = [write_report(&args, &mut finished), save_parameters(&args, &finished)];
    let lines = lines(&finished, written);
    // Another program may have the robot now, however long it takes until the verdict is read.
    let summary = finished.into_summary();
    let is_well = summary.is_well() && (summary.report.is_some() || args.report.is_none());
    until_printed(&stop, move || {
        lines.iter().for_each(print_line);
        print_summary(&args, &summary);
        if let Some(report) = summary.report.as_ref().filter(|_| args.opens_report()) {
            view::open_page(&report.to_string_lossy());
        }
        view.into_iter().for_each(live::announce_view_end);
    })?;
    Ok(ExitCode::from(u8::from(!is_well)))
}

/// Lines printed before the verdict.
fn lines(finished: &Finished, written: [Result<Option<String>>; 2]) -> Vec<String> {
    let mut lines = finished.unsent().to_vec();
    if let Some(panic) = finished.panic() {
        lines.push(complaint(&anyhow::anyhow!("the controller panicked: {panic}")));
    }
    lines.extend(
        written.into_iter().filter_map(|it| it.map_err(|error| complaint(&error)).unwrap_or_else(Some)),
    );
    lines
}

/// Prints how the run went. A stopped terminal (Ctrl-S), or a pipe without a reader, delays the end of the process: by two seconds
/// once a signal asks it to end, otherwise without limit.
fn until_printed(stop: &AtomicBool, print: impl FnOnce() + Send + 'static) -> Result<()> {
    let (done, message) = std::sync::mpsc::channel::<()>();
    std::thread::Builder::new().name("khz-tell".into()).spawn(move || {
        let _done = done;
        print();
    })?;
    let mut patience = UNREAD;
    while patience > Duration::ZERO && message.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        if stop.load(Ordering::Relaxed) {
            patience = patience.saturating_sub(LOOK);
        }
    }
    Ok(())
}

/// The robot. Its file is read once: it may be a pipe, and must not change in between.
fn read(path: Option<&Path>) -> Result<Robot> {
    let Some(path) = path else { return Ok(Robot::quadruped()) };
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| {
        let address = if viewer::address(&name).is_ok() { "; for an address write --view=ADDR" } else { "" };
        format!("cannot read the robot file {name}{address}")
    })?;
    Ok(Robot::read(RobotConfig::of_file(&text, &name)?, text))
}

/// No other controller reads targets: a program that sends them would wait for an answer for ever.
fn check_targets(args: &Args, config: &RobotConfig) -> Result<()> {
    if args.targets.is_some() && config.controller.kind() != ControllerKind::Targets {
        bail!("--targets is for robots that follow targets: write `name = \"targets\"` below [controller]");
    }
    Ok(())
}

fn overrides(args: &Args) -> Overrides {
    Overrides {
        log: args.log.clone(),
        stream: args.stream.clone(),
        targets: args.targets.clone(),
        clock: args.virtual_time.then_some(Clock::Virtual),
        cpu: args.cpu,
        strict: args.strict,
        ..Overrides::default()
    }
}

/// The robot, with where it is to be seen.
fn viewed(robot: Robot, args: &Args) -> Result<Robot> {
    let Some(at) = args.view else {
        return if args.allowed.is_default() {
            Ok(robot)
        } else {
            bail!("--token, --token-file and --allow-origin are for --view")
        };
    };
    let (token, origins) = (args.allowed.token()?, args.allowed.allow_origin.clone());
    let itself = std::env::current_exe().context("cannot find the program of this process")?;
    Ok(robot.view(viewer::Options { at, open: args.open, token, origins, program: Some(itself) }))
}

/// Checks, before the robot moves, that a report with a name of its own can be written.
fn check_outputs(args: &Args, config: &RobotConfig) -> Result<()> {
    output::check_all(&args.report, &args.robot, args.force)?;
    if args.opens_report() && (args.no_report || args.report.is_none() && !config.log.enabled) {
        bail!("--open opens the report, and this run writes none; give --report FILE");
    }
    if let Some(path) = args.save_parameters.as_deref() {
        output::check(path, args.force || is_the_robot_file(args, path))?;
    }
    let log = Some(Path::new(&config.log.path)).filter(|_| config.log.enabled);
    match args.report.as_deref().filter(|report| log.is_some_and(|log| output::is_same(report, log))) {
        Some(report) => bail!("{} is the log, too; give --report another name", report.display()),
        None => Ok(()),
    }
}

/// Makes the page. One that cannot be made does not undo the run.
fn write_report(args: &Args, finished: &mut Finished) -> Result<Option<String>> {
    let path = args.report.clone().or_else(|| finished.summary.report_beside_log());
    if let Some(path) = path.filter(|_| !args.no_report) {
        finished.report_over(&path, args.force).context("cannot write the report")?;
    }
    Ok(None)
}

fn is_the_robot_file(args: &Args, path: &Path) -> bool {
    args.robot.as_deref().is_some_and(|robot| output::is_same(robot, path))
}

/// What was found while the robot ran, and where it is now. If it cannot be written, the run counts all the same.
fn save_parameters(args: &Args, finished: &Finished) -> Result<Option<String>> {
    let Some(path) = &args.save_parameters else { return Ok(None) };
    let (parameters, before) = (finished.parameters(), &finished.config.parameters);
    let save = || -> Result<PathBuf> {
        let is_robot = is_the_robot_file(args, path);
        let parameters = if is_robot {
            found::into_file(&finished.text, parameters, before)?
        } else {
            found::table(parameters, before)
        };
        Ok(output::save(path, args.force || is_robot, |file| write!(file, "{parameters}"))?)
    };
    let path = save().context("cannot save the parameters")?;
    let whither = if is_the_robot_file(args, &path) {
        ""
    } else {
        ": put them into the robot file in place of its [parameters]"
    };
    Ok(Some(format!("the parameters are in {}{whither}", path.display())))
}

/// Prints the summary. If that fails, the exit code stays that of the run.
fn print_summary(args: &Args, summary: &RunSummary) {
    let message = match (args.json, args.verbose) {
        (true, _) => serde_json::to_string(summary).map_err(Into::into).and_then(|json| show(&(json + "\n"))),
        (_, true) => show_judged(summary.verdict.level, &summary.table(args.budget)),
        _ => {
            let compared = if args.budget { format!("\n{}", summary.compared()) } else { String::new() };
            show_judged(summary.verdict.level, &(summary.to_string() + &compared))
        }
    };
    if let Err(error) = message {
        complain(&error);
    }
}
