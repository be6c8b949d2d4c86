//! A run in figures, as a table for people.

use super::{EventSummary, RunSummary};
use crate::run::page::PartTimes;
use khz_loop::timing::Clock;
use khz_page::{counted, duration, grouped};
use khz_robot::live::LiveSummary;
use khz_robot::recorder::SinkSummary;
use khz_rt::{Grade, Summary};
use khz_run::figures::{Count, LOST_PERIODS, Of};
use khz_run::targets::{FIGURES, Fared, Figure, Value};
use std::fmt;
use std::path::PathBuf;

impl RunSummary {
    /// All figures as a table. `budget`: with the measured tick beside its prediction, part by part.
    pub fn table(&self, budget: bool) -> String {
        table(self, budget)
    }

    /// The measured tick beside its prediction, part by part; nothing in virtual time, which measures none.
    pub fn compared(&self) -> String {
        let lines = if self.clock == Clock::Real { compared(self) } else { Vec::new() };
        lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// What a person needs first: the verdict, what it is of and where its files are, in at most six lines. What was required of the run
/// has lines of its own.
impl fmt::Display for RunSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What brought a robot down is in the verdict.
        let end = if self.ended_well { format!(", {}", self.end) } else { String::new() };
        let mut lines = vec![
            self.verdict.text.clone(),
            format!("{}: {}{end}", self.robot, counted(self.all.ticks, "tick")),
            figures(self),
        ];
        lines.extend(crate::require::lines(&self.required));
        lines.extend(first_of(problems(self)));
        lines.extend(log(self));
        lines.extend(report(self));
        f.write_str(&(lines.join("\n") + "\n"))
    }
}

/// In the words of the live line.
fn figures(summary: &RunSummary) -> String {
    // Of a run that never was under control, what happened until then.
    let was_controlled = summary.controlled.ticks > 0;
    let ticks = if was_controlled { &summary.controlled } else { &summary.outside };
    let [lost, missed, overruns] = [ticks.lost_periods, ticks.missed_replies, ticks.overruns].map(grouped);
    let mut figures =
        vec![format!("{:.2} Hz", summary.rate_hz), format!("lost {lost}"), format!("missed {missed}")];
    if summary.clock == Clock::Real {
        figures.push(format!("overruns {overruns}"));
        let wake = &summary.times.wake_latency;
        figures.extend((wake.count > 0).then(|| format!("wake p99 {}", time(wake.p99))));
    }
    let cycle = &summary.times.cycle;
    figures.extend((cycle.count > 0).then(|| format!("worst cycle {}", time(cycle.max))));
    figures.join("  ")
}

/// What else went wrong, the worst first. What brought the robot down is in the verdict.
fn problems(summary: &RunSummary) -> Vec<String> {
    let mut lines: Vec<String> = summary.log_error.iter().map(|error| format!("warning: {error}")).collect();
    let warned = |event: &&EventSummary| event.trouble && !event.is_change();
    lines.extend(summary.events.iter().filter(warned).map(|event| happened("warning:", event)));
    lines.extend(summary.sinks.iter().skip(1).filter_map(about_sink));
    lines.extend(lost_requests(&summary.live));
    lines
}

/// The first line, with how many more there are.
fn first_of(lines: Vec<String>) -> Option<String> {
    let more = lines.len().saturating_sub(1) as u64;
    let first = lines.into_iter().next()?;
    Some(if more > 0 { format!("{first} (and {} more)", grouped(more)) } else { first })
}

fn table(summary: &RunSummary, budget: bool) -> String {
    let mut lines = counts(summary);
    lines.push(String::new());
    match summary.clock {
        Clock::Real => lines.extend(measured(summary, budget)),
        Clock::Virtual => lines.extend(times(summary)),
    }
    if summary.clock == Clock::Real {
        lines.extend(loop_thread(summary));
    }
    lines.extend(crate::require::lines(&summary.required));
    lines.extend(ending(summary));
    lines.join("\n") + "\n"
}

fn counts(summary: &RunSummary) -> Vec<String> {
    let ticks = &summary.controlled;
    let [lost, unaccounted] = summary.lost_lines();
    // The number ends where it does for a short label.
    let row = |label: &str, count: u64, note: String| {
        let width = 26usize.saturating_sub(label.chars().count().max(16));
        format!("{label:<16}{:>width$}{note}", grouped(count))
    };
    let mut lines = vec![
        summary.verdict.text.clone(),
        format!("{}: {} ticks, {}", summary.robot, grouped(summary.all.ticks), summary.end),
        format!("rate            {:>10.2} Hz", summary.rate_hz),
        row(
            LOST_PERIODS,
            ticks.lost_periods,
            format!(
                "    (of {} under control{})",
                grouped(ticks.periods),
                match summary.outside.lost_periods {
                    0 => String::new(),
                    lost => format!("; {} outside", grouped(lost)),
                }
            ),
        ),
    ];
    lines.extend(Count::to_show(&summary.counts()).map(|(count, message)| {
        let note = match (count.of, (count.within)(&summary.outside)) {
            (Of::Run, _) | (Of::Controlled, 0) => String::new(),
            (Of::Controlled, outside) => format!("    ({} outside control)", grouped(outside)),
        };
        row(count.label, message, note)
    }));
    lines.extend(
        [
            ("duplicate replies", summary.duplicates(), "among the late ones"),
            ("damaged frames", summary.damaged(), "refused by a checksum, or no frames"),
            (
                "bus went down",
                summary.buses.iter().map(|bus| bus.downs).sum(),
                "bus-off, interface down or adapter gone",
            ),
            ("early frames", summary.early_frames, "of those that pace the loop"),
            ("commands changed", summary.changed_commands, "to keep the joints within their limits"),
        ]
        .into_iter()
        .filter(|(_, count, _)| *count > 0)
        .map(|(label, count, what)| row(label, count, format!("    ({what})"))),
    );
    if summary.clock == Clock::Real {
        lines.push(format!("lost time, ticks{lost}"));
        lines.push(format!("unaccounted     {unaccounted}"));
    }
    lines
}

fn head() -> String {
    format!("{:<15} {:>10} {:>10} {:>10} {:>10} {:>10}", "", "p50", "p90", "p99", "p99.9", "max")
}

/// A row for each time.
fn times(summary: &RunSummary) -> Vec<String> {
    [head()].into_iter().chain(summary.times().map(|(time, s)| row(time.label, s))).collect()
}

/// What this computer took.
fn measured(summary: &RunSummary, budget: bool) -> Vec<String> {
    let mut lines = times(summary);
    if let Some(pipelined) = &summary.pipelined {
        lines.push(row("its own thread", &pipelined.elsewhere_ns));
        lines.push(row("command age", &pipelined.command_age_ns));
        let [without, ticks] = [pipelined.without_decision, pipelined.ticks].map(grouped);
        lines.push(format!("{:<15} {without:>10} of {ticks} ticks", "no decision"));
    }
    lines.push(String::new());
    lines.push(format!(
        "{:<15} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "part", "mean", "p50", "p99", "max", "in tick"
    ));
    // A part that took no time is one that this robot has not.
    lines.extend(summary.all_parts().iter().filter(|part| part.time_ns.max > 0).map(part_row));
    if budget {
        lines.push(String::new());
        lines.extend(compared(summary));
    }
    lines.push(String::new());
    let heads = ["late ticks      "].into_iter().chain(std::iter::repeat("                "));
    lines.extend(summary.late.lines().iter().zip(heads).map(|(line, head)| format!("{head}{line}")));
    lines
}

fn compared(summary: &RunSummary) -> Vec<String> {
    let head = format!("{:<15} {:>10} {:>10} {:>10}  difference", "part", "predicted", "p50", "p99");
    [head].into_iter().chain(summary.parts.iter().filter_map(budget_row)).collect()
}

/// What the loop's thread was granted, and what it was not.
fn loop_thread(summary: &RunSummary) -> Vec<String> {
    let mut lines = vec![format!("loop thread     {}", summary.grade)];
    for setting in summary.grants.lacking().filter(|_| summary.grade != Grade::RealTime) {
        let remedy = setting.remedy.as_deref().unwrap_or_default();
        lines.push(format!("                {} not granted: {remedy}", setting.name));
    }
    lines
}

/// What went wrong, and where the log and the report are.
fn ending(summary: &RunSummary) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(summary.events.iter().filter(|event| event.trouble).map(|event| {
        let word = if event.is_change() { "trouble" } else { "warning" };
        happened(&format!("{word:<15}"), event)
    }));
    if summary.events_left_out > 0 {
        lines.push(format!("                {} more between these", grouped(summary.events_left_out)));
    }
    lines.extend(log(summary));
    lines.extend(summary.log_error.as_ref().map(|error| format!("                {error}")));
    // The log is the first and has its line.
    lines.extend(summary.sinks.iter().skip(1).filter_map(about_sink));
    lines.extend(lost_requests(&summary.live));
    lines.extend(summary.targets.iter().flat_map(targets));
    lines.extend(report(summary));
    lines
}

fn happened(word: &str, event: &EventSummary) -> String {
    let tick = grouped(event.tick);
    format!("{word} at {} (tick {tick}): {}", duration(event.time_s * 1e9), event.text())
}

fn log(summary: &RunSummary) -> Option<String> {
    let dropped = match summary.log_dropped {
        0 => String::new(),
        dropped => format!(" ({} dropped)", counted(dropped, "sample")),
    };
    files(&summary.log_files).map(|files| format!("{:<15} {files}{dropped}", "log"))
}

fn report(summary: &RunSummary) -> Option<String> {
    summary.report.as_ref().map(|report| format!("{:<15} {}", "report", report.display()))
}

/// The files of a log: the first, and of several how many there are up to the last.
fn files(paths: &[PathBuf]) -> Option<String> {
    Some(match paths {
        [] => return None,
        [one] => one.display().to_string(),
        [first, .., last] => {
            let name = last.file_name().unwrap_or_default().display();
            format!("{}, {} files up to {name}", first.display(), paths.len())
        }
    })
}

/// What a sink has lost, if anything was wrong with it, and its note.
fn about_sink(sink: &SinkSummary) -> Option<String> {
    let SinkSummary { name, taken, lost, error, note } = sink;
    let why = error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    let losses = (*lost > 0 || error.is_some())
        .then(|| format!("{} of {} samples lost{why}", grouped(*lost), grouped(taken + lost)));
    let parts: Vec<String> = losses.into_iter().chain(note.clone()).collect();
    (!parts.is_empty()).then(|| format!("{name:<15} {}", parts.join("; ")))
}

/// Requests and inputs that had no effect.
fn lost_requests(LiveSummary { view, teleop, .. }: &LiveSummary) -> Option<String> {
    let counts = [
        (view.dropped, "requests dropped"),
        (view.replies_lost, "replies lost"),
        (teleop.stale, "inputs too old"),
        (teleop.invalid, "inputs invalid"),
        (teleop.others, "inputs of others than the one who steered"),
    ];
    let message: Vec<_> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", grouped(*count)))
        .collect();
    (!message.is_empty()).then(|| format!("{:<15} {}", "live requests", message.join(", ")))
}

/// How the targets of programs fared: what is not 0.
fn targets(fared: &Fared) -> impl Iterator<Item = String> + use<'_> {
    let shown = |figure: &Figure| match (figure.within)(fared) {
        Value::Count(count) => (count > 0).then(|| format!("{:<25} {:>9}", figure.label, grouped(count))),
        Value::Angle(rad) => (rad > 0.0).then(|| format!("{:<25} {rad:>9.3} rad", figure.label)),
        Value::Time(s) => (s.count > 0).then(|| row(figure.label, &s)),
    };
    FIGURES.iter().filter_map(shown)
}

fn row(name: &str, s: &Summary) -> String {
    let shown = |ns| if s.count == 0 { "–".to_owned() } else { time(ns) };
    let [p50, p90, p99, p999, max] = [s.p50, s.p90, s.p99, s.p999, s.max].map(shown);
    format!("{name:<15} {p50:>10} {p90:>10} {p99:>10} {p999:>10} {max:>10}")
}

fn part_row(part: &PartTimes) -> String {
    let s = &part.time_ns;
    let [p50, p99, max] = [s.p50, s.p99, s.max].map(time);
    format!(
        "{:<15} {:>10} {p50:>10} {p99:>10} {max:>10} {:>10}",
        part.name,
        time(s.mean as i64),
        grouped(s.max_at as u64)
    )
}

/// A part the model predicts, beside its prediction.
fn budget_row(part: &PartTimes) -> Option<String> {
    let [predicted, p50, p99] = [part.predicted_ns?, part.time_ns.p50, part.time_ns.p99].map(time);
    Some(format!("{:<15} {predicted:>10} {p50:>10} {p99:>10}  {}", part.name, part.difference()))
}

fn time(ns: i64) -> String {
    duration(ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_rotated_log_the_first_file_is_named_and_how_far_it_goes() {
        let paths = ["logs/run.tlog", "logs/run-1.tlog", "logs/run-2.tlog"].map(PathBuf::from);
        let message = [0, 1, 3].map(|count| files(&paths[..count]).unwrap_or_default());
        assert_eq!(message, ["", "logs/run.tlog", "logs/run.tlog, 3 files up to run-2.tlog"]);
    }

    #[test]
    fn what_went_wrong_is_one_line_however_much_it_is() {
        let lines = |count: usize| first_of((0..count).map(|number| format!("warning: {number}")).collect());
        assert_eq!(lines(0), None);
        assert_eq!(lines(1).as_deref(), Some("warning: 0"));
        assert_eq!(lines(1_204).as_deref(), Some("warning: 0 (and 1,203 more)"));
    }

    #[test]
    fn of_targets_the_figures_are_reported_that_are_not_0() {
        assert_eq!(targets(&Fared::default()).count(), 0);
        let fared = Fared { waits: 1, held_over: 80, largest_offset_rad: 0.25, ..Fared::default() };
        let lines: Vec<String> = targets(&fared).collect();
        assert!(
            lines.len() == 3 && lines[0].starts_with("ticks held over") && lines[0].ends_with(" 80"),
            "{lines:?}"
        );
    }

    #[test]
    fn a_distribution_without_a_value_shows_none() {
        let empty = row("wake latency", &khz_rt::Histogram::new().summary());
        assert!(empty.contains('–') && !empty.contains("0.0"), "{empty}");
    }
}
