//! Results as a person at a terminal reads them.

use super::result::Measurement;
use khz_page::{duration, grouped};
use khz_report::late::{lost_lines, tally};
use khz_rt::Summary;
use std::fmt::Write;

/// The figures of one run, with what to know before believing them.
#[must_use]
pub fn run(run: &Measurement) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_run(run, &mut out);
    out
}

fn write_run(run: &Measurement, out: &mut String) -> std::fmt::Result {
    let (plan, ns) = (&run.plan, |ns: i64| duration(ns as f64));
    let cpu = plan.cpu.map_or(String::new(), |cpu| format!(", CPU {cpu}"));
    writeln!(out, "{}", run.verdict().text)?;
    writeln!(
        out,
        "{}{cpu}: {} of {} ticks of {}, work {}",
        run.name,
        grouped(run.counts.ticks),
        grouped(plan.ticks),
        ns(plan.period_ns),
        plan.work
    )?;
    write_times(run, out)?;
    write_late(run, out)?;
    let guard = run.guard_ns.map_or(String::new(), |guard| format!(", guard {}", ns(guard)));
    writeln!(
        out,
        "CPU {:.1} %{guard}, steal {} on all CPUs, thread {}",
        run.cpu_percent,
        ns(run.usage.steal_total_ns()),
        run.grade()
    )?;
    for setting in run.setup.iter().flat_map(|setup| setup.lacking()) {
        let remedy = setting.remedy.as_deref().unwrap_or_default();
        writeln!(
            out,
            "not granted: {} ({} → {}): {remedy}",
            setting.name, setting.requested, setting.granted
        )?;
    }
    khz_report::require::lines(&run.required).try_for_each(|line| writeln!(out, "{line}"))?;
    for warning in run.warnings() {
        writeln!(out, "note: {warning}")?;
    }
    let mut worst: Vec<_> = run.late.iter().collect();
    worst.sort_by_key(|late| std::cmp::Reverse(late.response_ns));
    for late in worst.iter().take(3) {
        writeln!(out, "{}", late.line())?;
    }
    for event in run.kernel_events.iter().rev().take(20).rev() {
        writeln!(out, "  {event}")?;
    }
    Ok(())
}

fn write_times(run: &Measurement, out: &mut String) -> std::fmt::Result {
    let heading = ["", "min", "mean", "σ", "p50", "p90", "p99", "p99.9", "p99.99", "max", "at"];
    row(out, heading.map(str::to_owned))?;
    let metrics = [
        ("wake latency", &run.wake_latency_ns),
        ("start delay", &run.start_delay_ns),
        ("period", &run.period_ns),
        ("execution", &run.execution_ns),
        ("response", &run.response_ns),
    ];
    metrics.iter().try_for_each(|(name, summary)| row(out, cells(name, summary)))
}

fn write_late(run: &Measurement, out: &mut String) -> std::fmt::Result {
    let counts = &run.counts;
    writeln!(out, "rate {:.2} Hz", run.rate_hz())?;
    writeln!(
        out,
        "overruns {}, lost periods {} of {}, late wakes {}",
        grouped(counts.overruns),
        grouped(counts.skipped),
        grouped(run.periods()),
        grouped(counts.late_wakes)
    )?;
    let (late, over) = (grouped(run.causes.late), duration(run.late_threshold_ns as f64));
    writeln!(out, "late ticks {late} (over {over}): {}", tally(&run.causes))?;
    let [ticks, time] = lost_lines(&run.lost_time, run.steal_ns());
    writeln!(out, "ticks that lost time {}\nunaccounted {}", ticks.trim_start(), time.trim_start())
}

fn cells(name: &str, s: &Summary) -> [String; 11] {
    if s.count == 0 {
        let mut cells = ["–"; 11].map(str::to_owned);
        name.clone_into(&mut cells[0]);
        return cells;
    }
    let ns = |ns: i64| duration(ns as f64);
    [
        name.to_owned(),
        ns(s.min),
        duration(s.mean),
        duration(s.sigma),
        ns(s.p50),
        ns(s.p90),
        ns(s.p99),
        ns(s.p999),
        ns(s.p9999),
        ns(s.max),
        ns(s.max_at),
    ]
}

fn row(out: &mut String, cells: [String; 11]) -> std::fmt::Result {
    write!(out, "  {:<13}", cells[0])?;
    cells[1..].iter().try_for_each(|cell| write!(out, "{cell:>9}"))?;
    writeln!(out)
}

/// One line per run, to compare them.
#[must_use]
pub fn comparison(runs: &[Measurement]) -> String {
    let mut out = String::new();
    let _ = write_comparison(runs, &mut out);
    out
}

fn write_comparison(runs: &[Measurement], out: &mut String) -> std::fmt::Result {
    writeln!(out, "{}", super::page::verdict(runs).text)?;
    // Names come from files; the formatter allows no more than 65535 columns.
    let widest = runs.iter().map(|run| run.name.chars().count()).max().unwrap_or(0).min(256);
    writeln!(
        out,
        "{:<widest$} {:>9}{:>9}{:>9}{:>9}{:>9}{:>8}{:>7}{:>7}  thread",
        "start delay", "mean", "σ", "p50", "p99", "max", "lost", "late", "CPU %"
    )?;
    for run in runs {
        let s = &run.start_delay_ns;
        writeln!(
            out,
            "{:<widest$} {:>9}{:>9}{:>9}{:>9}{:>9}{:>8}{:>7}{:>7.1}  {}",
            run.name,
            duration(s.mean),
            duration(s.sigma),
            duration(s.p50 as f64),
            duration(s.p99 as f64),
            duration(s.max as f64),
            grouped(run.counts.skipped),
            grouped(run.causes.late),
            run.cpu_percent,
            run.grade()
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::jitter::{Experiment, Plan};

    #[test]
    fn a_distribution_without_a_value_shows_none() {
        let run = Experiment::new(Plan::default(), false).unwrap().finish().0;
        let text = super::run(&run);
        let period = text.lines().find(|line| line.trim_start().starts_with("period")).unwrap();
        assert!(period.contains('–') && !period.contains("0 ns"), "{period}");
    }
}
