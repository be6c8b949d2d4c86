//! What a run was like: the figures for a table or JSON, and the page.
//!
//! The figures come from what the loop counted; everything over time comes from the run's log, so a page can
//! also be made long after the run.

pub mod page;
mod table;

use crate::budget::{Inputs, Plan};
use crate::late::{LateReport, lost_lines, tally};
use crate::run::page::{Device, Event, Fact, Grant, Joint, PartTimes, RunData};
use crate::verdict::{Facts, Verdict, judge};
use khz_page::{Distribution, Figure, Level, Measured, StackedTrace, Trace, duration, grouped};
use khz_robot::RobotConfig;
use khz_robot::config::Clock;
use khz_robot::launch::Landed;
use khz_robot::parts::LEARNING;
use khz_robot::recorder::SinkSummary;
use khz_robot::run::{RunStats, Stretch};
use khz_robot::supervisor::{Cause, Phase};
use khz_rt::late::{Causes, Lost, window_at};
use khz_rt::{Grade, Passport, Report, SectionSummary, Summary};
use khz_tlog::{Reader, Value};
use serde::Serialize;
use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A run in figures. Its fields and their meaning are part of the interface of `khz run --json`.
#[derive(Clone, Debug, Serialize)]
pub struct RunSummary {
    /// Name of the robot.
    pub robot: String,
    /// The clock it ran by: `real`, or `virtual`, which says nothing about this computer.
    pub clock: Clock,
    /// Whether it held its rate, and why it is no better.
    pub verdict: Verdict,
    /// Ticks run.
    pub ticks: u64,
    /// Ticks per second of the controlled time; of the whole run where there is none.
    pub rate_hz: f64,
    /// The configured rate.
    pub target_rate_hz: f64,
    /// The controlled ticks: the loop was in phase active at the start of this tick and the one before.
    pub controlled: Ticks,
    /// All other ticks: the start, and coming down.
    pub outside: Ticks,
    /// Replies missed, by all servos together.
    pub missed_replies: u64,
    /// Of these, in ticks that had less of the bus cycle on the CPU than all replies usually take.
    pub missed_while_off_cpu: u64,
    /// Replies to older queries.
    pub late_replies: u64,
    /// Frames that were no reply to a query.
    pub unexpected_frames: u64,
    /// IMU readings missed.
    pub imu_missed: u64,
    /// Ticks that ended after the next should have begun.
    pub overruns: u64,
    /// Periods without a tick, as the overrun policy counts them.
    pub skipped: u64,
    /// Ticks that started a period or more after the time the loop waited for.
    pub late_wakes: u64,
    /// Ticks the timer started because the frame that paces the loop did not come.
    pub ticks_without_frame: u64,
    /// Frames that pace the loop but came too early to start a tick.
    pub early_frames: u64,
    /// Commands that were changed to keep a joint within its limits: cut, slowed down, or turned away from a limit.
    pub changed_commands: u64,
    /// Controlled ticks that lost 50 µs or more to one cause, by cause, and the time they lost.
    pub lost_time: Lost,
    /// Time the hypervisor took from all CPUs together, as the kernel counts it in steps of 10 ms.
    pub steal_ns: i64,
    /// The same of the loop's CPU, where it has one.
    pub steal_loop_cpu_ns: Option<i64>,
    /// Of `lost_time.time_ns.unaccounted`, how much may have been steal: no more than the kernel counted.
    pub steal_at_most_ns: i64,
    /// The rest of it.
    pub unexplained_ns: i64,
    /// From the time the loop waited for to the start of the tick. This and the following are of the controlled ticks.
    pub wake_latency_ns: Summary,
    /// From each planned time to the start of the first tick at or after it: a period without a tick counts, too.
    pub start_delay_ns: Summary,
    /// From the start of a tick to the start of the next.
    pub period_ns: Summary,
    /// From the start of a tick to its last reply.
    pub cycle_ns: Summary,
    /// Loop compute time by the clock, time preempted meanwhile included: encoding, decoding, state, supervisor, handing
    /// over to the recorder; neither the links (nor the devices emulated behind them) nor the controller.
    pub loop_compute_ns: Summary,
    /// CPU time of the loop's thread from the start of a tick to its end; waiting for replies by spinning is in it.
    pub cpu_ns: Summary,
    /// Time in the controller, of the ticks in which it computed commands.
    pub control_ns: Summary,
    /// Of that, by the sections the controller names, or the modules it is a chain of. `max_at` is a tick's number.
    pub modules: Vec<SectionSummary>,
    /// The time of the ticks, part by part, beside the prediction. Of `time_ns`, `max_at` is the worst tick's number.
    pub parts: Vec<PartTimes>,
    /// As `wake_latency_ns`, of the ticks outside the controlled time.
    pub wake_latency_outside_ns: Summary,
    /// Late ticks, and what made them late.
    pub late: LateTicks,
    /// What the loop's thread was granted.
    pub grade: Grade,
    /// Requested and granted, setting by setting.
    pub grants: Report,
    /// How it ended.
    pub end: String,
    /// Whether the robot came under control and the run ended as planned; what was only warned of does not count.
    pub ended_well: bool,
    /// Changes of phase, and what was warned of or derated for. Of very many the first and the last; the log has all.
    pub events: Vec<EventSummary>,
    /// How many were left out between these.
    pub events_left_out: u64,
    /// The servos.
    pub servos: Vec<ServoSummary>,
    /// The computer.
    pub passport: Passport,
    /// Samples the recorder had to drop; of a write that failed, all that was under way.
    pub log_dropped: u64,
    /// Why the log is not whole: what was wrong with the disk. It changes neither `end` nor `ended_well`.
    pub log_error: Option<String>,
    /// Where samples went: the log, then the stream if there is one and sinks of the program's own.
    pub sinks: Vec<SinkSummary>,
    /// The log, its first file if there are several.
    pub log: Option<PathBuf>,
    /// The page.
    pub report: Option<PathBuf>,
}

/// Some of the ticks of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ticks {
    /// Ticks run.
    pub ticks: u64,
    /// Planned periods: with a tick and without.
    pub periods: u64,
    /// Of these, without a tick.
    pub lost_periods: u64,
    /// Ticks that started a period or more after the time the loop waited for.
    pub late_wakes: u64,
    /// Ticks that ended after the next should have begun.
    pub overruns: u64,
    /// Replies missed.
    pub missed_replies: u64,
    /// From the start of the tick before the first to the start of the last.
    pub duration_ns: i64,
}

impl Ticks {
    fn of(stretch: &Stretch, period_ns: i64) -> Self {
        let lost_periods = stretch.lost_periods(period_ns);
        Self {
            ticks: stretch.ticks,
            periods: stretch.ticks + lost_periods,
            lost_periods,
            late_wakes: stretch.late_wakes,
            overruns: stretch.overruns,
            missed_replies: stretch.missed_replies,
            duration_ns: stretch.span_ns,
        }
    }
}

/// Late ticks and what made them late.
#[derive(Clone, Debug, Serialize)]
pub struct LateTicks {
    /// From how much over the usual end on a tick is late.
    pub threshold_ns: i64,
    /// Controlled ticks that were judged: all but the first hundred, until which what is usual is not known.
    pub judged: u64,
    /// How many of these were late, by what the kernel knows of each.
    pub causes: Causes,
    /// The worst, by number.
    pub worst: Vec<LateReport>,
}

/// A change of phase; or, with equal phases, something that was warned of or derated for.
#[derive(Clone, Debug, Serialize)]
pub struct EventSummary {
    /// Seconds since the first tick.
    pub time_s: f64,
    /// In which tick.
    pub tick: u64,
    /// The phase left.
    pub from: &'static str,
    /// The phase entered.
    pub to: &'static str,
    /// Why.
    pub cause: String,
    /// The servo it is about.
    pub servo: Option<String>,
    /// The bus that servo is on.
    pub bus: Option<String>,
    /// Not part of a run that ends as planned.
    pub trouble: bool,
}

/// One servo's counts.
#[derive(Clone, Debug, Serialize)]
pub struct ServoSummary {
    /// Its name.
    pub name: String,
    /// Its bus.
    pub bus: String,
    /// Queries sent.
    pub sent: u64,
    /// Replies in time.
    pub replied: u64,
    /// Cycles without.
    pub missed: u64,
    /// Longest run of these.
    pub missed_in_a_row: u32,
    /// Replies to older queries, and further replies to one query.
    pub late: u64,
    /// Of these, further replies to one query: two servos may have the same id.
    pub duplicates: u64,
    /// From handing the query to the link until the reply had arrived.
    pub round_trip_ns: Summary,
}

impl RunSummary {
    /// The figures of a run of this robot.
    pub fn of(config: &RobotConfig, landed: &Landed) -> Self {
        let Landed { outcome, recording } = landed;
        let stats = &outcome.stats;
        let links = khz_robot::assemble::link_names(config);
        let events: Vec<EventSummary> =
            stats.transitions.iter().map(|transition| event(config, &links, stats, transition)).collect();
        let (mut end, mut ended_well) = ending(&events);
        // Whoever stops it at once may leave it no tick under control.
        let was_active = stats.transitions.iter().any(|transition| transition.to == Phase::Active);
        if ended_well && !was_active {
            ended_well = false;
            end = never_controlled(config, &links, outcome.machine.supervisor().lack(), &end);
        }
        if let Some(failure) = outcome.machine.failure() {
            end = format!("{end}: {failure}");
        }
        let period_ns = config.timing.period_ns();
        let steal = &outcome.usage.steal_ns;
        let steal_loop_cpu_ns = config.timing.cpu.and_then(|cpu| steal.get(cpu as usize)).copied();
        let steal_ns = outcome.usage.steal_total_ns();
        let lost = stats.lost;
        let steal_at_most_ns = lost.steal_at_most_ns(steal_loop_cpu_ns.unwrap_or(steal_ns));
        let mut summary = Self {
            robot: config.name.clone(),
            clock: config.timing.clock,
            verdict: Verdict::default(),
            ticks: stats.ticks,
            rate_hz: stats.rate_hz(),
            target_rate_hz: config.timing.rate_hz,
            controlled: Ticks::of(&stats.controlled, period_ns),
            // Its stretches do not follow each other, so what fell between them is no lost period.
            outside: Ticks {
                duration_ns: stats.outside.span_ns,
                ..Ticks::of(&Stretch { span_ns: 0, ..stats.outside }, period_ns)
            },
            missed_replies: stats.missed_replies,
            missed_while_off_cpu: stats.missed_while_off_cpu,
            late_replies: stats.late_replies,
            unexpected_frames: stats.foreign_frames,
            imu_missed: stats.imu_missed,
            overruns: stats.overruns,
            skipped: stats.skipped,
            late_wakes: stats.late_wakes,
            ticks_without_frame: stats.without_frame,
            early_frames: stats.early_frames,
            changed_commands: outcome.machine.supervisor().clamped(),
            lost_time: lost,
            steal_ns,
            steal_loop_cpu_ns,
            steal_at_most_ns,
            unexplained_ns: lost.time_ns.unaccounted - steal_at_most_ns,
            wake_latency_ns: stats.wake_latency.summary(),
            start_delay_ns: stats.start_delay.summary(),
            period_ns: stats.period.summary(),
            cycle_ns: stats.cycle.summary(),
            loop_compute_ns: stats.loop_compute.summary(),
            cpu_ns: stats.cpu.summary(),
            control_ns: stats.control.summary(),
            modules: outcome.modules.clone(),
            parts: parts(config, landed),
            wake_latency_outside_ns: stats.wake_latency_outside.summary(),
            late: late(landed),
            grade: outcome.grants.grade,
            grants: outcome.grants.clone(),
            end,
            ended_well,
            events,
            events_left_out: stats.transitions_left_out,
            servos: (0..config.servos.len()).map(|index| servo(config, landed, index)).collect(),
            passport: outcome.passport.clone(),
            log_dropped: recording.as_ref().map_or(0, |recording| recording.dropped()),
            log_error: recording.as_ref().and_then(|recording| recording.error.clone()),
            sinks: recording.as_ref().map_or_else(Vec::new, |recording| recording.sinks.clone()),
            log: recording.as_ref().and_then(|recording| recording.paths.first().cloned()),
            report: None,
        };
        summary.verdict = summary.judged(config, &[]);
        summary
    }

    /// What the controlled ticks lost, and how much of it the kernel accounts for: a line each, without its label.
    pub fn lost_lines(&self) -> [String; 2] {
        lost_lines(&self.lost_time, self.steal_loop_cpu_ns.unwrap_or(self.steal_ns))
    }

    /// Further replies to one query, of all servos.
    pub fn duplicates(&self) -> u64 {
        self.servos.iter().map(|servo| servo.duplicates).sum()
    }

    /// The verdict. `unread`: what of the log could not be read.
    fn judged(&self, config: &RobotConfig, unread: &[String]) -> Verdict {
        let failures = (!self.ended_well).then(|| format!("It ended with: {}.", self.end));
        let warned = self.events.iter().find(|event| event.trouble && !event.is_change());
        let dropped =
            (self.log_dropped > 0).then(|| format!("{} samples were not recorded.", self.log_dropped));
        let damaged = unread
            .iter()
            .map(|damage| format!("The plots do not show what follows in a damaged log: {damage}."));
        let lossy = self.sinks.iter().skip(1).filter(|sink| sink.lost > 0 || sink.error.is_some());
        let lossy = lossy.map(|sink| {
            let why = sink.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
            format!("The sink {} lost {} samples{why}.", sink.name, sink.lost)
        });
        let warnings = warned
            .map(|event| format!("Warned of: {}.", event.tell()))
            .into_iter()
            .chain(dropped)
            .chain(lossy)
            .chain(self.log_error.as_ref().map(|error| format!("The log is incomplete: {error}.")))
            .chain(damaged);
        judge(&Facts {
            target_hz: self.target_rate_hz,
            rate_hz: self.rate_hz,
            sensor_paced: config.timing.pace_bus.is_some(),
            virtual_time: self.clock == Clock::Virtual,
            periods: self.controlled.periods,
            lost: self.controlled.lost_periods,
            lost_outside: self.outside.lost_periods,
            late_wakes: self.late_wakes,
            overruns: self.overruns,
            without_frame: self.ticks_without_frame,
            early_frames: self.early_frames,
            missed_replies: self.missed_replies,
            missed_while_off_cpu: self.missed_while_off_cpu,
            late_replies: self.late_replies.saturating_sub(self.duplicates()),
            duplicates: self.duplicates(),
            unexpected_frames: self.unexpected_frames,
            imu_missed: self.imu_missed,
            failures: failures.into_iter().collect(),
            warnings: warnings.collect(),
            ..Facts::default()
        })
    }
}

/// What ended the run, and whether that was as planned. Warnings end nothing.
fn ending(events: &[EventSummary]) -> (String, bool) {
    let mut changes = events.iter().filter(|event| event.is_change());
    let trouble = changes.clone().find(|event| event.trouble);
    // What brought the robot down, not that it has arrived there.
    let down = trouble.or_else(|| changes.find(|event| event.from == "active" || event.to == "stopped"));
    (down.map_or_else(|| "did not end".to_owned(), EventSummary::tell), trouble.is_none())
}

/// How a run ended in which nothing was wrong but that the robot was never armed.
fn never_controlled(config: &RobotConfig, links: &[String], lack: Option<Cause>, end: &str) -> String {
    let lack = lack.map_or_else(
        || "start-up was not over".to_owned(),
        |cause| on_servo(cause.told(links).to_string(), servo_and_bus(config, cause)),
    );
    format!("never under control: {lack}; {end}")
}

/// The names of the servo that a cause is about, and of its bus.
fn servo_and_bus(config: &RobotConfig, cause: Cause) -> Option<(&str, &str)> {
    let servo = config.servos.get(usize::from(cause.servo()?))?;
    Some((&servo.name, &config.buses[servo.bus].name))
}

fn on_servo(cause: String, place: Option<(&str, &str)>) -> String {
    match place {
        Some((servo, bus)) => format!("{cause} ({servo} on bus {bus})"),
        None => cause,
    }
}

/// The measured parts, each beside what the model says of it.
fn parts(config: &RobotConfig, landed: &Landed) -> Vec<PartTimes> {
    let predicted = Plan::of(config, Inputs::of(config)).predict().parts;
    let part = |measured: &khz_rt::SectionSummary| PartTimes {
        name: measured.name.clone(),
        time_ns: measured.time,
        predicted_ns: predicted.iter().find(|part| part.name == measured.name).map(|part| part.ns),
    };
    landed.outcome.parts.parts.iter().filter(|part| part.time.count > 0).map(part).collect()
}

fn late(landed: &Landed) -> LateTicks {
    let outcome = &landed.outcome;
    let report = |tick: &khz_rt::late::LateTick| {
        let part = tick.part.and_then(|part| outcome.parts.parts.get(part));
        let part = part.map_or("none", |part| part.name.as_str());
        let window = window_at(&outcome.windows, tick.at_ns);
        LateReport::new(tick, tick.at_ns - outcome.stats.first_ns, part, window)
    };
    LateTicks {
        threshold_ns: outcome.parts.threshold_ns,
        judged: outcome.parts.judged,
        causes: outcome.parts.causes,
        worst: outcome.parts.late.iter().map(report).collect(),
    }
}

impl LateTicks {
    /// Counts and threshold, then the worst three, a line each.
    pub fn lines(&self) -> Vec<String> {
        let mut worst: Vec<_> = self.worst.iter().collect();
        worst.sort_by_key(|late| std::cmp::Reverse(late.response_ns));
        let counts = if self.judged == 0 {
            format!("none judged: the first {LEARNING} controlled ticks are not")
        } else {
            let (late, judged) = (grouped(self.causes.late), grouped(self.judged));
            let threshold = duration(self.threshold_ns as f64);
            let causes = tally(&self.causes);
            format!(
                "{late} of {judged} judged (later than usual by more than {threshold}; the first {LEARNING} are not \
                 judged): {causes}"
            )
        };
        std::iter::once(counts).chain(worst.iter().take(3).map(|late| late.line())).collect()
    }
}

impl RunSummary {
    /// The parts of the tick, then those of the controller as `control: NAME`.
    pub fn all_parts(&self) -> Vec<PartTimes> {
        let of_controller = self.modules.iter().map(|module| PartTimes {
            name: format!("control: {}", module.name),
            time_ns: module.time,
            predicted_ns: None,
        });
        self.parts.iter().cloned().chain(of_controller).collect()
    }
}

impl EventSummary {
    /// The phase changed; otherwise it was a warning.
    pub fn is_change(&self) -> bool {
        self.from != self.to
    }

    /// Cause, servo and bus in one line.
    pub fn tell(&self) -> String {
        on_servo(self.cause.clone(), self.servo.as_deref().zip(self.bus.as_deref()))
    }
}

fn event(
    config: &RobotConfig,
    links: &[String],
    stats: &RunStats,
    transition: &khz_robot::supervisor::Transition,
) -> EventSummary {
    let place = servo_and_bus(config, transition.cause);
    EventSummary {
        time_s: (transition.at_ns - stats.first_ns) as f64 * 1e-9,
        tick: transition.tick,
        from: transition.from.name(),
        to: transition.to.name(),
        cause: transition.cause.told(links).to_string(),
        servo: place.map(|(servo, _)| servo.to_owned()),
        bus: place.map(|(_, bus)| bus.to_owned()),
        trouble: transition.cause.is_trouble(),
    }
}

fn servo(config: &RobotConfig, landed: &Landed, index: usize) -> ServoSummary {
    let servo = &config.servos[index];
    let stats = landed.outcome.machine.cycle().stats(index);
    ServoSummary {
        name: servo.name.clone(),
        bus: config.buses[servo.bus].name.clone(),
        sent: stats.sent,
        replied: stats.replied,
        missed: stats.missed,
        missed_in_a_row: stats.missed_in_a_row,
        late: stats.late,
        duplicates: stats.duplicates,
        round_trip_ns: stats.round_trip.summary(),
    }
}

/// Parts of a tick, in their order.
const PHASES: [&str; 7] = ["encode", "send", "bus", "imu", "control", "supervise", "record"];

/// Everything the page of a run shows. `text` is the robot file. Of every file of the log, damage costs only what lies
/// behind it, and the verdict says so.
pub fn page_data(config: &RobotConfig, text: &str, landed: &Landed, summary: &RunSummary) -> RunData {
    let paths = landed.recording.as_ref().map_or(&[][..], |recording| &recording.paths);
    let over_time = OverTime::read(paths, config);
    let stats = &landed.outcome.stats;
    RunData {
        title: format!("{}: {} servos at {} Hz", config.name, config.servos.len(), config.timing.rate_hz),
        subtitle: match summary.clock {
            Clock::Real => format!("{} ticks on {}", summary.ticks, summary.passport.cpu),
            Clock::Virtual => {
                format!("{} ticks of virtual time: nothing here tells of a computer's timing", summary.ticks)
            }
        },
        verdict: summary.judged(config, &over_time.unread),
        figures: figures(summary),
        period_ns: config.timing.period_ns(),
        wake: Measured::new(over_time.wake, Distribution::from_ns(stats.wake_latency.values())),
        cycle: Measured::new(over_time.cycle, Distribution::from_ns(stats.cycle.values())),
        cpu: Measured::new(over_time.cpu, Distribution::from_ns(stats.loop_compute.values())),
        start_delay: Distribution::from_ns(stats.start_delay.values()),
        phases: over_time.phases,
        parts: if summary.clock == Clock::Real { summary.all_parts() } else { Vec::new() },
        late: summary.late.worst.clone(),
        late_counts: format!(
            "{} of {} judged ticks were later than usual by more than {}: {}. The first {LEARNING} controlled ticks are not \
             judged.",
            grouped(summary.late.causes.late),
            grouped(summary.late.judged),
            duration(summary.late.threshold_ns as f64),
            tally(&summary.late.causes)
        ),
        joints: over_time.joints,
        events: summary.events.iter().map(page_event).collect(),
        events_left_out: summary.events_left_out,
        devices: (0..config.servos.len()).map(|index| device(summary, landed, index)).collect(),
        passport: passport(summary),
        grants: grants(&summary.grants),
        config: text.to_owned(),
    }
}

fn page_event(event: &EventSummary) -> Event {
    let change = event.is_change();
    Event {
        time_s: event.time_s,
        level: match (event.trouble, change) {
            (true, true) => Level::Bad,
            (true, false) => Level::Warning,
            (false, _) => Level::Note,
        },
        what: if change { format!("{} → {}", event.from, event.to) } else { format!("still {}", event.to) },
        detail: event.tell(),
    }
}

fn device(summary: &RunSummary, landed: &Landed, index: usize) -> Device {
    let servo = &summary.servos[index];
    Device {
        name: servo.name.clone(),
        bus: servo.bus.clone(),
        sent: servo.sent,
        replied: servo.replied,
        missed: servo.missed,
        late: servo.late,
        duplicates: servo.duplicates,
        round_trip: Distribution::from_ns(landed.outcome.machine.cycle().stats(index).round_trip.values()),
    }
}

/// In virtual time nothing of this computer's was measured, so it is not shown.
fn figures(summary: &RunSummary) -> Vec<Figure> {
    let of_computer = [
        "wake latency",
        "start delay, all planned periods",
        "loop compute time",
        "preempted ticks",
        "loop thread",
    ];
    let mut figures = all_figures(summary);
    if summary.clock == Clock::Virtual {
        figures.retain(|figure| !of_computer.contains(&figure.label.as_str()));
        figures.push(Figure::new("clock", "virtual time").note("says nothing about this computer's timing"));
    }
    figures
}

fn all_figures(summary: &RunSummary) -> Vec<Figure> {
    let us = |ns: i64| format!("{:.1} µs", ns as f64 / 1e3);
    let tail = |s: &Summary| match s.count {
        0 => "no value".to_owned(),
        _ => format!("p99 {}, max {}", us(s.p99), us(s.max)),
    };
    let judged = |label: &str, value: String, note: String, good: bool| Figure {
        note,
        level: if good { Level::Good } else { Level::Warning },
        ..Figure::new(label, value)
    };
    let measured = |label: &str, s: &Summary| Figure {
        note: tail(s),
        ..Figure::new(label, if s.count == 0 { "–".to_owned() } else { us(s.p50) })
    };
    let ticks = &summary.controlled;
    let lost = &summary.lost_time;
    vec![
        judged(
            "rate",
            format!("{:.2} Hz", summary.rate_hz),
            summary.verdict.headline.clone(),
            ticks.lost_periods == 0 && summary.verdict.headline.starts_with("held"),
        ),
        judged(
            "lost periods",
            grouped(ticks.lost_periods),
            format!("of {}; {} late wakes", grouped(ticks.periods), grouped(ticks.late_wakes)),
            ticks.lost_periods == 0 && ticks.late_wakes == 0,
        ),
        judged(
            "missed replies",
            summary.missed_replies.to_string(),
            format!("{} while off CPU", summary.missed_while_off_cpu),
            summary.missed_replies == 0,
        ),
        judged(
            "late replies",
            grouped(summary.late_replies),
            format!("{} of them duplicates", grouped(summary.duplicates())),
            summary.late_replies == 0,
        ),
        judged(
            "unexpected frames",
            grouped(summary.unexpected_frames),
            "no reply to a query".to_owned(),
            summary.unexpected_frames == 0,
        ),
        judged(
            "missed IMU readings",
            grouped(summary.imu_missed),
            format!("of {} ticks", grouped(summary.ticks)),
            summary.imu_missed == 0,
        ),
        judged(
            "commands changed",
            grouped(summary.changed_commands),
            "to keep the joints within their limits".to_owned(),
            summary.changed_commands == 0,
        ),
        measured("wake latency", &summary.wake_latency_ns),
        measured("start delay, all planned periods", &summary.start_delay_ns),
        measured("bus cycle", &summary.cycle_ns),
        measured("loop compute time", &summary.loop_compute_ns),
        judged(
            "overruns",
            summary.overruns.to_string(),
            format!("{} periods skipped", summary.skipped),
            summary.overruns == 0,
        ),
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
    if summary.clock == Clock::Virtual {
        let value = "virtual time: this computer's timing was not measured".to_owned();
        return vec![Fact { key: "clock".to_owned(), value, level: Level::Note }];
    }
    let p = &summary.passport;
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
        fact(
            "steal",
            format!("{:.1} ms, counted by the kernel in steps of 10 ms", summary.steal_ns as f64 / 1e6),
        ),
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

/// What the log says over time. Bounded memory, however long the run.
struct OverTime {
    wake: Trace,
    cycle: Trace,
    cpu: Trace,
    phases: StackedTrace,
    joints: Vec<Joint>,
    first_us: Option<i64>,
    /// Which files could not be read to their end, and why.
    unread: Vec<String>,
}

impl OverTime {
    fn new(config: &RobotConfig) -> Self {
        let joint = |servo: &khz_robot::config::ServoConfig| Joint {
            name: servo.name.clone(),
            unit: "rad".to_owned(),
            commanded: Trace::new(),
            measured: Trace::new(),
            limits: servo.limits.position.map(|[low, high]| (low, high)),
        };
        Self {
            wake: Trace::new(),
            cycle: Trace::new(),
            cpu: Trace::new(),
            phases: StackedTrace::new(PHASES),
            joints: config.servos.iter().map(joint).collect(),
            first_us: None,
            unread: Vec::new(),
        }
    }

    /// What the files of a log say, the oldest first.
    fn read(paths: &[PathBuf], config: &RobotConfig) -> Self {
        let mut over_time = Self::new(config);
        for path in paths {
            if let Err(error) = over_time.add(path) {
                over_time.unread.push(format!("{}: {error}", path.display()));
            }
        }
        over_time
    }

    fn add(&mut self, path: &Path) -> Result<(), Box<dyn Error>> {
        let mut reader = Reader::open(File::open(path)?)?;
        reader.select(["tick", "servo", "command"]);
        while let Some(item) = reader.next()? {
            let Some(time_us) = item.time_us else { continue };
            let first_us = *self.first_us.get_or_insert(time_us);
            let time_s = (time_us - first_us) as f64 * 1e-6;
            let name = item.record.name().to_owned();
            let value = item.value()?;
            match name.as_str() {
                "tick" => self.tick(time_s, &value),
                "servo" => self.joints(time_s, &value, |joint| &mut joint.measured),
                _ => self.joints(time_s, &value, |joint| &mut joint.commanded),
            }
        }
        Ok(())
    }

    fn tick(&mut self, time_s: f64, value: &Value<'_>) {
        let ns = |name: &str| value.at(name).and_then(|value| value.number()).unwrap_or(f64::NAN);
        self.wake.push(time_s, ns("wake_latency_ns"));
        self.cycle.push(time_s, ns("cycle_ns"));
        // Logs before 2026-11-22 have it by its old name.
        let compute = value.at("loop_compute_ns").or_else(|| value.at("tick_cpu_ns"));
        self.cpu.push(time_s, compute.and_then(|value| value.number()).unwrap_or(f64::NAN));
        let (control, imu) = (ns("control_ns"), ns("imu_ns"));
        let (bus, supervise) = (ns("collect_ns") - imu, ns("decide_ns") - control);
        let parts = [ns("encode_ns"), ns("send_ns"), bus, imu, control, supervise, ns("record_ns")];
        self.phases.push(time_s, &parts.map(|part| part as f32));
    }

    fn joints(&mut self, time_s: f64, value: &Value<'_>, trace: impl Fn(&mut Joint) -> &mut Trace) {
        let Value::Object(joints) = value else { return };
        for joint in &mut self.joints {
            let position = joints.field(&joint.name).and_then(|servo| servo.at("position")?.number());
            trace(joint).push(time_s, position.unwrap_or(f64::NAN));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(from: &'static str, to: &'static str, cause: &str, trouble: bool) -> EventSummary {
        let cause = cause.to_owned();
        EventSummary { time_s: 0.0, tick: 0, from, to, cause, servo: None, bus: None, trouble }
    }

    #[test]
    fn a_run_too_short_to_judge_a_tick_does_not_say_that_none_was_late() {
        let late = |judged| LateTicks {
            threshold_ns: 5_000_000,
            judged,
            causes: Causes::default(),
            worst: Vec::new(),
        };
        assert_eq!(late(0).lines(), ["none judged: the first 100 controlled ticks are not"]);
        assert_eq!(
            late(1_900).lines(),
            ["0 of 1,900 judged (later than usual by more than 5 ms; the first 100 are not judged): none"]
        );
    }

    #[test]
    fn a_warning_is_not_what_ended_a_run() {
        let mut events = vec![
            event("armed", "active", "controller started", false),
            event("active", "active", "supply at 10.0 V", true),
            event("active", "damping", "the run's time is over", false),
            event("damping", "stopped", "every joint stands still", false),
        ];
        assert_eq!(ending(&events), ("the run's time is over".to_owned(), true));
        assert_eq!(ending(&events[..2]), ("did not end".to_owned(), true));
        events[2] = event("active", "damping", "10 replies missed in a row", true);
        assert_eq!(ending(&events), ("10 replies missed in a row".to_owned(), false));
        assert_eq!(
            (page_event(&events[1]).level, page_event(&events[2]).level),
            (Level::Warning, Level::Bad)
        );
    }

    /// A log of a hundred ticks, the first of this number, cut after `share` of its bytes.
    fn log(folder: &Path, from: i64, share: f64) -> PathBuf {
        let path = folder.join(format!("{from}.tlog"));
        let mut log = khz_tlog::Writer::new(Vec::new(), khz_tlog::Options::default()).unwrap();
        let latency = [("wake_latency_ns", khz_tlog::Type::Int(khz_tlog::Width::Four))];
        let tick = log.record("tick", &khz_tlog::Type::object(latency)).unwrap();
        for number in from..from + 100 {
            log.write(tick, Some(number * 1000), &(number as i32).to_le_bytes()).unwrap();
        }
        let bytes = log.finish().unwrap();
        std::fs::write(&path, &bytes[..(bytes.len() as f64 * share) as usize]).unwrap();
        path
    }

    #[test]
    fn the_page_shows_every_file_of_a_log_and_of_a_damaged_one_what_is_before_the_damage() {
        let folder = tempfile::tempdir().unwrap();
        let robot = RobotConfig::quadruped();
        let whole = [log(folder.path(), 0, 1.0), log(folder.path(), 100, 1.0)];
        let page = OverTime::read(&whole, &robot);
        assert_eq!((page.wake.points().len(), page.unread.len()), (200, 0));
        assert!(
            page.wake.points().iter().all(|&(time_s, ns)| (time_s * 1000.0 - f64::from(ns)).abs() < 1e-6)
        );

        let [first, last] = whole;
        let damaged = [first, log(folder.path(), 300, 0.3), folder.path().join("gone.tlog"), last];
        let page = OverTime::read(&damaged, &robot);
        assert!((210..280).contains(&page.wake.points().len()), "{}", page.wake.points().len());
        assert!(
            page.unread[0].contains("300.tlog") && page.unread[1].contains("gone.tlog"),
            "{:?}",
            page.unread
        );
        assert_eq!(page.unread.len(), 2);
    }
}
