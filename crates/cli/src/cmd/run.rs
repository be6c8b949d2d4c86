//! `khz run`: the main job.

mod live;

use super::{BAD_INPUT, complain, output, show, stop_on_signal, tell_line};
use anyhow::{Context, Result, bail};
use khz_measure::jitter::duration_ns;
use khz_measure::report::run::PartTimes;
use khz_measure::run::{RunSummary, page_data};
use khz_measure::verdict::grouped;
use khz_robot::RobotConfig;
use khz_robot::config::QUADRUPED;
use khz_robot::launch::{Landed, Launch};
use khz_robot::recorder::SinkSummary;
use khz_robot::session::SessionError;
use khz_robot::tick::Failure;
use khz_rt::{Grade, Summary};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run a robot: every servo and the IMU, every tick, until its time is over or Ctrl-C.
///
/// Without a file an emulated quadruped of 12 servos stands up and squats at 1 kHz. Shows a live line, then a
/// table; writes a log and an HTML report. Ctrl-C brings the robot down gently.
///
/// Exit codes: 0 the run ended as planned, 1 something brought the robot down or it never came under control, 2 bad
/// input. A log that is not whole is
/// told, and changes no code.
#[derive(clap::Args)]
pub struct Args {
    /// The robot file; without it, the built-in quadruped.
    robot: Option<PathBuf>,
    /// Bring the robot down after this time, for example 30s. Without it: 10 s for the built-in quadruped,
    /// until Ctrl-C for a file.
    #[arg(long, value_parser = duration_ns)]
    duration: Option<i64>,
    /// Lay the measured tick beside its prediction, part by part. The report and the JSON always do.
    #[arg(long)]
    budget: bool,
    /// Print one JSON object instead of the table.
    #[arg(long)]
    json: bool,
    /// The log; replaces `log.path` of the robot file, and is written even if `log.enabled` is false there.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Send everything that is recorded by UDP too, to `khz log record --listen` at HOST:PORT; replaces
    /// `log.stream` of the robot file. The log is written, too, even if `log.enabled` is false there.
    #[arg(long, value_name = "HOST:PORT")]
    stream: Option<String>,
    /// The report, which must not be there yet; by default the log's name with `.html`, and a number if that is taken.
    #[arg(long, value_name = "FILE", conflicts_with = "no_report")]
    report: Option<PathBuf>,
    /// Overwrite the file of --report if it is there. Logs are never overwritten.
    #[arg(long, requires = "report")]
    force: bool,
    /// Write no report.
    #[arg(long)]
    no_report: bool,
    /// The CPU of the loop's thread; replaces `loop.cpu` of the robot file.
    #[arg(long)]
    cpu: Option<u32>,
    /// Refuse to run with less than what the robot file asks of the kernel.
    #[arg(long)]
    strict: bool,
}

const DEFAULT_DURATION_NS: i64 = 10_000_000_000;

/// Runs the robot and tells how it went.
pub fn run(args: Args) -> Result<ExitCode> {
    let (text, mut config) = match read(args.robot.as_deref()) {
        Ok(robot) => robot,
        Err(error) => {
            tell_line(format_args!("{error:#}"));
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    config.warnings.iter().for_each(tell_line);
    override_with(&mut config, &args);
    check_outputs(&args, &config)?;

    let stop = stop_on_signal()?;
    // The live line must not stop a robot that runs in the background.
    khz_rt::ignore_tostop().context("cannot ignore SIGTTOU")?;
    let duration_ns = args.duration.or(args.robot.is_none().then_some(DEFAULT_DURATION_NS));
    let mut launch = Launch::start(&config, &text, None, duration_ns, stop)?;
    live::watch(&mut launch.session);
    let landed = match launch.land() {
        Err(SessionError::Setup(error)) => {
            complain(&error.into());
            return Ok(ExitCode::from(BAD_INPUT));
        }
        landed => landed?,
    };
    landed.outcome.unsent.iter().for_each(tell_line);
    let mut summary = RunSummary::of(&config, &landed);
    if let Some(Failure::Panic(panic)) = landed.outcome.machine.failure() {
        complain(&anyhow::anyhow!("the controller panicked: {panic}"));
    }
    write_report(&args, &config, &text, &landed, &mut summary);
    tell(&args, &summary);
    Ok(ExitCode::from(u8::from(!summary.ended_well)))
}

/// The robot file's text and what it says. It is read once: it may be a pipe, and must not change in between.
fn read(path: Option<&Path>) -> Result<(String, RobotConfig)> {
    let Some(path) = path else { return Ok((QUADRUPED.to_owned(), RobotConfig::quadruped())) };
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the robot file {name}"))?;
    let config = RobotConfig::parse(&text, &name)?;
    Ok((text, config))
}

fn override_with(config: &mut RobotConfig, args: &Args) {
    // Whoever asks for samples wants them recorded, whatever the file says.
    config.log.enabled |= args.log.is_some() || args.stream.is_some();
    if let Some(log) = &args.log {
        config.log.path = log.display().to_string();
    }
    if let Some(to) = &args.stream {
        config.log.stream = Some(to.clone());
    }
    config.timing.cpu = args.cpu.or(config.timing.cpu);
    config.timing.strict |= args.strict;
}

/// That a report of a name of its own can be written, before the robot moves.
fn check_outputs(args: &Args, config: &RobotConfig) -> Result<()> {
    output::check_all(&args.report, &args.robot, args.force)?;
    let log = Some(Path::new(&config.log.path)).filter(|_| config.log.enabled);
    match args.report.as_deref().filter(|report| log.is_some_and(|log| output::is_same(report, log))) {
        Some(report) => bail!("{} is the log, too; give --report another name", report.display()),
        None => Ok(()),
    }
}

/// Makes the page. A page that cannot be made is told, and does not undo the run.
fn write_report(args: &Args, config: &RobotConfig, text: &str, landed: &Landed, summary: &mut RunSummary) {
    let beside_log = || summary.log.as_ref().map(|log| log.with_extension("html"));
    let Some(path) = args.report.clone().or_else(beside_log).filter(|_| !args.no_report) else { return };
    // The log may have got another name than was asked for, or several.
    let mut logs = landed.recording.iter().flat_map(|recording| &recording.paths);
    let force = args.force && !logs.any(|log| output::is_same(log, &path));
    let page = page_data(config, text, landed, summary).page();
    match output::save(&path, force, |file| write!(file, "{page}")).context("cannot write the report") {
        Ok(path) => summary.report = Some(path),
        Err(error) => complain(&error),
    }
}

/// The run was what it was, whether or not anybody can read about it: that changes no exit code.
fn tell(args: &Args, summary: &RunSummary) {
    let text = match args.json {
        true => serde_json::to_string(summary).map(|json| json + "\n").map_err(Into::into),
        false => Ok(table(summary, args.budget)),
    };
    if let Err(error) = text.and_then(|text| show(&text)) {
        complain(&error);
    }
}

/// The table after a run.
fn table(summary: &RunSummary, budget: bool) -> String {
    let ticks = &summary.controlled;
    let [lost, unaccounted] = summary.lost_lines();
    let mut lines = vec![
        format!("{}: {} ticks, {}", summary.robot, summary.ticks, summary.end),
        format!("rate            {:>10.3} Hz: {}", summary.rate_hz, summary.verdict.headline),
        format!(
            "lost periods    {:>10}    (of {} controlled; {} outside; {} late wakes)",
            grouped(ticks.lost_periods),
            grouped(ticks.periods),
            grouped(summary.outside.lost_periods),
            grouped(summary.late_wakes)
        ),
        format!(
            "missed replies  {:>10}    ({} while off CPU), late {} ({} of them duplicates), unexpected frames {}, IMU {}",
            summary.missed_replies,
            summary.missed_while_off_cpu,
            summary.late_replies,
            summary.duplicates(),
            summary.unexpected_frames,
            summary.imu_missed
        ),
        format!(
            "overruns        {:>10}    ({} periods skipped, {} ticks without their pacing frame, {} such frames too early)",
            summary.overruns, summary.skipped, summary.ticks_without_frame, summary.early_frames
        ),
        format!("lost time, ticks{lost}"),
        format!("unaccounted     {unaccounted}"),
        String::new(),
        format!("{:<15} {:>10} {:>10} {:>10} {:>10} {:>10}", "", "p50", "p90", "p99", "p99.9", "max"),
    ];
    let durations: [(&str, &Summary); 7] = [
        ("wake latency", &summary.wake_latency_ns),
        ("start delay", &summary.start_delay_ns),
        ("period", &summary.period_ns),
        ("bus cycle", &summary.cycle_ns),
        ("loop compute", &summary.loop_compute_ns),
        ("CPU time", &summary.cpu_ns),
        ("controller", &summary.control_ns),
    ];
    lines.extend(durations.map(|(name, s)| row(name, s)));
    lines.push(String::new());
    lines.push(format!(
        "{:<15} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "part", "mean", "p50", "p99", "max", "in tick"
    ));
    lines.extend(summary.all_parts().iter().map(part_row));
    if budget {
        lines.push(String::new());
        lines.push(format!("{:<15} {:>10} {:>10} {:>10}  difference", "part", "predicted", "p50", "p99"));
        lines.extend(summary.parts.iter().filter_map(budget_row));
    }
    lines.push(String::new());
    let late = summary.late.lines();
    lines.extend(
        late.iter()
            .zip(["late ticks      "].into_iter().chain(std::iter::repeat("                ")))
            .map(|(line, head)| format!("{head}{line}")),
    );
    if summary.changed_commands > 0 {
        let count = grouped(summary.changed_commands);
        lines.push(format!("commands changed{count:>10}    (to keep the joints within their limits)"));
    }
    lines.push(format!("loop thread     {}", summary.grade));
    for setting in summary.grants.lacking().filter(|_| summary.grade != Grade::RealTime) {
        let remedy = setting.remedy.as_deref().unwrap_or_default();
        lines.push(format!("                {} not granted: {remedy}", setting.name));
    }
    lines.extend(summary.events.iter().filter(|event| event.trouble).map(|event| {
        let word = if event.is_change() { "trouble" } else { "warning" };
        format!("{word:<15} at {:.3} s (tick {}): {}", event.time_s, event.tick, event.tell())
    }));
    if summary.events_left_out > 0 {
        lines.push(format!("                {} more between these", summary.events_left_out));
    }
    lines.extend(summary.log.as_ref().map(|log| {
        let dropped = summary.log_dropped;
        format!("log             {} ({dropped} samples dropped)", log.display())
    }));
    lines.extend(summary.log_error.as_ref().map(|error| format!("                {error}")));
    // The log is the first and has its line.
    lines.extend(summary.sinks.iter().skip(1).filter_map(lossy));
    lines.extend(summary.report.as_ref().map(|report| format!("report          {}", report.display())));
    lines.join("\n") + "\n"
}

/// What a sink has lost, if anything was wrong with it.
fn lossy(sink: &SinkSummary) -> Option<String> {
    let SinkSummary { name, taken, lost, error } = sink;
    let why = error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    let line = || format!("{name:<15} {lost} of {} samples lost{why}", taken + lost);
    (*lost > 0 || error.is_some()).then(line)
}

fn row(name: &str, s: &Summary) -> String {
    let shown = |ns| if s.count == 0 { "–".to_owned() } else { micros(ns) };
    let [p50, p90, p99, p999, max] = [s.p50, s.p90, s.p99, s.p999, s.max].map(shown);
    format!("{name:<15} {p50:>10} {p90:>10} {p99:>10} {p999:>10} {max:>10}")
}

fn part_row(part: &PartTimes) -> String {
    let s = &part.time_ns;
    let [p50, p99, max] = [s.p50, s.p99, s.max].map(micros);
    format!("{:<15} {:>10} {p50:>10} {p99:>10} {max:>10} {:>10}", part.name, micros(s.mean as i64), s.max_at)
}

/// A part the model predicts, beside its prediction.
fn budget_row(part: &PartTimes) -> Option<String> {
    let [predicted, p50, p99] = [part.predicted_ns?, part.time_ns.p50, part.time_ns.p99].map(micros);
    Some(format!("{:<15} {predicted:>10} {p50:>10} {p99:>10}  {}", part.name, part.difference()))
}

fn micros(ns: i64) -> String {
    format!("{:.1} µs", ns as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_without_a_value_shows_none() {
        let empty = row("wake latency", &khz_rt::Histogram::new().summary());
        assert!(empty.contains('–') && !empty.contains("0.0"), "{empty}");
    }
}
