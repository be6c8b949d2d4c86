//! From a run to what its page shows.

use super::over_time::OverTime;
use super::page::{Device, Event, Fact, Grant, RunData};
use super::{EventSummary, LateTicks, RunSummary, TickSummary};
use crate::late::tally as causes;
use crate::require::amended;
use khz_file::RobotConfig;
use khz_file::config::RobotFile;
use khz_loop::timing::Clock;
use khz_page::{Distribution, Figure, Level, Measured, calendar, counted, duration, grouped};
use khz_robot::session::Outcome;
use khz_rt::{Passport, Report, Summary};
use khz_run::figures::{Count, LOST_PERIODS, Of};
use khz_run::late::LEARNING;
use khz_run::tally::{Counts, Stretch};
use khz_run::targets::{FIGURES, Fared, Value};

/// Everything the page of a run shows. `text` is the robot file. Of every file of the log, damage costs only what lies
/// behind it, and the verdict reports it.
pub fn page_data(config: &RobotConfig, text: &str, outcome: &Outcome, summary: &RunSummary) -> RunData {
    let paths = outcome.recording.as_ref().map_or(&[][..], |recording| &recording.paths);
    let over_time = OverTime::read(paths, config);
    let tally = &outcome.stats.tally;
    RunData {
        title: format!(
            "{}: {} at {} Hz",
            config.name,
            counted(config.servos.len() as u64, "servo"),
            config.timing.rate_hz
        ),
        subtitle: subtitle(Some(&config.file), &summary.all, Some(&summary.passport), summary.clock),
        verdict: amended(summary.judged(&over_time.unread), &summary.required),
        figures: figures(summary),
        period_ns: config.timing.period_ns(),
        bus_deadline_ns: config.timing.bus_deadline_ns(),
        wake: Measured::new(over_time.wake, Distribution::from_ns(tally.times.wake_latency.values())),
        cycle: Measured::new(over_time.cycle, Distribution::from_ns(tally.times.cycle.values())),
        cpu: Measured::new(over_time.cpu, Distribution::from_ns(tally.times.loop_compute.values())),
        start_delay: Distribution::from_ns(tally.times.start_delay.values()),
        phases: over_time.phases,
        parts: if summary.clock == Clock::Real { summary.all_parts() } else { Vec::new() },
        late_groups: summary.late.by_cause.clone(),
        late: summary.late.worst.clone(),
        late_counts: late_counts(&summary.late),
        joints: over_time.joints,
        skeleton: over_time.skeleton,
        attitude: over_time.attitude,
        details: over_time.details.finish(),
        events: summary.events.iter().map(page_event).collect(),
        events_left_out: summary.events_left_out,
        changes: over_time.changes,
        changes_left_out: over_time.changes_left_out,
        devices: (0..config.servos.len()).map(|index| device(summary, outcome, index)).collect(),
        passport: passport(summary),
        grants: grants(&summary.grants),
        config: text.to_owned(),
    }
}

/// Which robot file, when, where and how long: what distinguishes one report from another.
pub(super) fn subtitle(
    file: Option<&RobotFile>,
    all: &Stretch,
    passport: Option<&Passport>,
    clock: Clock,
) -> String {
    let file = match file {
        Some(RobotFile::At(path)) => Some(path.clone()),
        Some(RobotFile::BuiltIn) => Some("the built-in robot".to_owned()),
        _ => None,
    };
    let taken_us = passport.map_or(0, |passport| passport.taken_ns / 1000);
    // To the minute.
    let date = (taken_us > 0).then(|| format!("{} UTC", calendar(taken_us)[..16].replace('T', " ")));
    let place = match (clock, passport) {
        (Clock::Virtual, _) => "virtual time: says nothing about this computer's timing".to_owned(),
        (Clock::Real, Some(passport)) if passport.host.is_empty() => passport.cpu.clone(),
        (Clock::Real, Some(passport)) => format!("{} ({})", passport.host, passport.cpu),
        (Clock::Real, None) => "unknown computer".to_owned(),
    };
    let length = format!("{:.1} s, {}", all.span_ns as f64 / 1e9, counted(all.ticks, "tick"));
    let parts = [file, date, Some(length), Some(place)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// How many ticks were late, in a sentence.
pub(super) fn late_counts(late: &LateTicks) -> String {
    format!(
        "{} of {} judged ticks were later than usual by more than {}: {}. The first {LEARNING} controlled ticks are not judged.",
        grouped(late.causes.late),
        grouped(late.judged),
        duration(late.threshold_ns as f64),
        causes(&late.causes)
    )
}

pub(super) fn page_event(event: &EventSummary) -> Event {
    let change = event.is_change();
    Event {
        time_s: event.time_s,
        level: match (event.trouble, change) {
            (true, true) => Level::Bad,
            (true, false) => Level::Warning,
            (false, _) => Level::Note,
        },
        what: if change { format!("{} → {}", event.from, event.to) } else { format!("still {}", event.to) },
        detail: event.text(),
    }
}

fn device(summary: &RunSummary, outcome: &Outcome, index: usize) -> Device {
    let servo = &summary.servos[index];
    Device {
        name: servo.name.clone(),
        bus: servo.bus.clone(),
        sent: servo.sent,
        replied: servo.replied,
        missed: servo.missed,
        late: Some(servo.late),
        duplicates: Some(servo.duplicates),
        round_trip: Distribution::from_ns(outcome.machine.cycle().stats(index).round_trip.values()),
    }
}

/// In virtual time nothing of this computer's was measured, so it is not shown.
fn figures(summary: &RunSummary) -> Vec<Figure> {
    let asked = format!("asked for {} Hz", summary.target_rate_hz);
    let mut figures = count_tiles(&summary.counts(), summary.rate_hz, asked, &summary.controlled);
    let changed = grouped(summary.changed_commands);
    figures.push(judged(
        "commands changed",
        changed,
        "to keep the joints within their limits".to_owned(),
        summary.changed_commands == 0,
    ));
    figures.extend(summary.times().map(|(time, s)| time_tile(time.label, s)));
    figures.extend(summary.targets.iter().flat_map(target_tiles));
    match summary.clock {
        Clock::Real => figures.extend(of_computer(summary)),
        Clock::Virtual => {
            figures
                .push(Figure::new("clock", "virtual time").note("says nothing about this computer's timing"));
        }
    }
    figures
}

fn judged(label: &str, value: String, note: String, good: bool) -> Figure {
    Figure { note, level: if good { Level::Good } else { Level::Warning }, ..Figure::new(label, value) }
}

/// A tile for a time.
pub(super) fn time_tile(label: &str, s: &Summary) -> Figure {
    let ns = |ns: i64| duration(ns as f64);
    match s.count {
        0 => Figure::new(label, "–").note("no value"),
        // The worst is what a reader must not miss: one hole of 88 ms leaves every percentile as it was.
        _ => Figure::new(label, ns(s.max)).note(format!("longest; p50 {}, p99 {}", ns(s.p50), ns(s.p99))),
    }
}

/// Tiles for the targets of programs: what is not 0.
pub(super) fn target_tiles(fared: &Fared) -> impl Iterator<Item = Figure> + use<'_> {
    FIGURES.iter().filter_map(|figure| match (figure.within)(fared) {
        Value::Count(0) => None,
        Value::Count(count) => Some(Figure::new(figure.label, grouped(count))),
        Value::Time(s) => (s.count > 0).then(|| time_tile(figure.label, &s)),
        Value::Angle(rad) => (rad > 0.0).then(|| Figure::new(figure.label, format!("{rad:.3} rad"))),
    })
}

/// Tiles for rate and counts; what happened outside control stands beside the controlled ticks' own.
pub(super) fn count_tiles(counts: &Counts, rate_hz: f64, asked: String, ticks: &TickSummary) -> Vec<Figure> {
    let held = ticks.lost_periods == 0 && ticks.periods > 0;
    let mut tiles = vec![
        judged("rate", format!("{rate_hz:.2} Hz"), asked, held),
        judged(
            LOST_PERIODS,
            grouped(ticks.lost_periods),
            format!("of {}", grouped(ticks.periods)),
            ticks.lost_periods == 0,
        ),
    ];
    tiles.extend(Count::to_show(counts).map(|(count, message)| {
        let note = match count.of {
            Of::Controlled => format!("{} outside control", grouped((count.within)(&counts.outside))),
            Of::Run => "of the whole run".to_owned(),
        };
        judged(count.label, grouped(message), note, message == 0)
    }));
    tiles
}

/// What was measured of this computer.
fn of_computer(summary: &RunSummary) -> Vec<Figure> {
    let lost = &summary.lost_time;
    vec![
        judged(
            "preempted ticks",
            grouped(lost.causes.preempted),
            format!(
                "{} lost time in all, {} of them unaccounted",
                grouped(lost.ticks),
                lost.causes.unaccounted
            ),
            lost.ticks == 0,
        ),
        Figure::new("loop thread", summary.grade.to_string()).note("what the kernel granted; no verdict"),
    ]
}

fn passport(summary: &RunSummary) -> Vec<Fact> {
    let steal = Fact {
        key: "steal".to_owned(),
        value: format!("{:.1} ms, counted by the kernel in steps of 10 ms", summary.steal_ns as f64 / 1e6),
        level: Level::Note,
    };
    let mut facts = computer(&summary.passport, summary.clock);
    facts.extend((summary.clock == Clock::Real).then_some(steal));
    facts
}

/// The computer, if its timing was measured.
pub(super) fn computer(p: &Passport, clock: Clock) -> Vec<Fact> {
    if clock == Clock::Virtual {
        let value = "virtual time: this computer's timing was not measured".to_owned();
        return vec![Fact { key: "clock".to_owned(), value, level: Level::Note }];
    }
    let level = if p.realtime_kernel { Level::Good } else { Level::Warning };
    let fact = |key: &str, value: String| Fact { key: key.to_owned(), value, level: Level::Note };
    let or_none = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
    vec![
        fact("kernel", p.kernel.clone()),
        Fact { level, ..fact("preemption", p.preemption.clone()) },
        fact("CPU", format!("{} (online: {})", p.cpu, p.cpus_online)),
        fact("isolated CPUs", or_none(&p.cpus_isolated)),
        fact("frequency governor", or_none(&p.governors.join(", "))),
        fact("clock source", p.clocksource.clone()),
        fact("hypervisor", p.hypervisor.clone().unwrap_or_else(|| "none".to_owned())),
        fact("memory", format!("{} MiB", p.memory_kb / 1024)),
        fact("real-time share of a second", format!("{} %", p.rt_share_percent)),
    ]
}

fn grants(report: &Report) -> Vec<Grant> {
    let grant = |setting: &khz_rt::Setting| Grant {
        thread: report.thread.clone(),
        setting: setting.name.clone(),
        requested: setting.requested.clone(),
        granted: setting.granted.clone(),
        ok: setting.ok,
    };
    report.settings.iter().map(grant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_begins_with_the_worst_and_has_the_words_of_the_terminal() {
        let mut histogram = khz_rt::Histogram::new();
        (0..1000).for_each(|ns| histogram.record(5_000 + ns, 0));
        histogram.record(88_000_000, 0);
        let tile = time_tile("wake latency", &histogram.summary());
        assert_eq!((tile.value.as_str(), tile.note.as_str()), ("88 ms", "longest; p50 5.5 µs, p99 5.99 µs"));
    }

    #[test]
    fn a_warning_is_shown_as_such() {
        let event = |to| EventSummary {
            time_s: 0.0,
            tick: 0,
            from: "active",
            to,
            cause: String::new(),
            servo: None,
            bus: None,
            trouble: true,
        };
        assert_eq!(
            ["active", "damping"].map(|to| page_event(&event(to)).level),
            [Level::Warning, Level::Bad]
        );
    }
}
