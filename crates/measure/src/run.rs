//! What a run was like: the figures for a table or JSON, and the page.
//!
//! The figures come from what the loop counted; everything over time comes from the run's log, so a page can
//! also be made long after the run.

use crate::budget::{Inputs, Plan};
use crate::late::{LateReport, tally};
use crate::report::run::{Device, Event, Fact, Grant, Joint, Measured, PartTimes, RunData, Verdict};
use crate::report::{Distribution, Figure, Level, StackedTrace, Trace, duration};
use khz_robot::RobotConfig;
use khz_robot::launch::Landed;
use khz_robot::run::RunStats;
use khz_rt::late::{Causes, window_at};
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
    /// Ticks run.
    pub ticks: u64,
    /// Ticks per second, from the first start to the last.
    pub rate_hz: f64,
    /// The configured rate.
    pub target_rate_hz: f64,
    /// Replies missed, by all servos together.
    pub missed_replies: u64,
    /// Of these, in ticks in which the loop was kept from its CPU.
    pub missed_in_disturbed_ticks: u64,
    /// Replies to older queries.
    pub late_replies: u64,
    /// Frames that were no reply to us.
    pub foreign_frames: u64,
    /// IMU readings missed.
    pub imu_missed: u64,
    /// Ticks that ended after the next should have begun.
    pub overruns: u64,
    /// Periods without a tick.
    pub skipped: u64,
    /// Ticks the timer started because the frame that paces the loop did not come.
    pub ticks_without_frame: u64,
    /// Ticks in which the loop was kept from its CPU, by whomever.
    pub disturbed_ticks: u64,
    /// Of these, ticks in which nobody the kernel knows had it.
    pub steal_ticks: u64,
    /// Time the hypervisor took from all CPUs together, as the kernel accounts it.
    pub steal_ns: i64,
    /// How late ticks began.
    pub wake_latency_ns: Summary,
    /// From the start of a tick to its last reply.
    pub cycle_ns: Summary,
    /// Our own work per tick: encoding, decoding, state, supervisor, handing over to the recorder; neither the
    /// links (nor the devices emulated behind them) nor the controller.
    pub tick_cpu_ns: Summary,
    /// Time in the controller per tick.
    pub control_ns: Summary,
    /// Of that, by the sections the controller names, or the modules it is a chain of. `max_at` is a tick's number.
    pub modules: Vec<SectionSummary>,
    /// The time of the ticks, part by part, beside the prediction. Of `time_ns`, `max_at` is the worst tick's number.
    pub parts: Vec<PartTimes>,
    /// Late ticks, and what made them late.
    pub late: LateTicks,
    /// What the loop's thread was granted.
    pub grade: Grade,
    /// Requested and granted, setting by setting.
    pub grants: Report,
    /// How it ended.
    pub end: String,
    /// Whether it ended as planned; what was only warned of does not count.
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
    /// The log, its first file if there are several.
    pub log: Option<PathBuf>,
    /// The page.
    pub report: Option<PathBuf>,
}

/// Late ticks and what made them late.
#[derive(Clone, Debug, Serialize)]
pub struct LateTicks {
    /// From how much over the usual end on a tick is late.
    pub threshold_ns: i64,
    /// How many were, by what the kernel knows of each.
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
    /// Replies to older queries.
    pub late: u64,
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
        let (mut end, ended_well) = ending(&events);
        if let Some(failure) = outcome.machine.failure() {
            end = format!("{end}: {failure}");
        }
        Self {
            robot: config.name.clone(),
            ticks: stats.ticks,
            rate_hz: stats.rate_hz(),
            target_rate_hz: config.timing.rate_hz,
            missed_replies: stats.missed_replies,
            missed_in_disturbed_ticks: stats.missed_in_disturbed,
            late_replies: stats.late_replies,
            foreign_frames: stats.foreign_frames,
            imu_missed: stats.imu_missed,
            overruns: stats.overruns,
            skipped: stats.skipped,
            ticks_without_frame: stats.without_frame,
            disturbed_ticks: stats.disturbed_ticks,
            steal_ticks: stats.steal_ticks,
            steal_ns: outcome.usage.steal_total_ns(),
            wake_latency_ns: stats.wake_latency.summary(),
            cycle_ns: stats.cycle.summary(),
            tick_cpu_ns: stats.tick_cpu.summary(),
            control_ns: stats.control.summary(),
            modules: outcome.modules.clone(),
            parts: parts(config, landed),
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
            log: recording.as_ref().and_then(|recording| recording.paths.first().cloned()),
            report: None,
        }
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
        causes: outcome.parts.causes,
        worst: outcome.parts.late.iter().map(report).collect(),
    }
}

impl LateTicks {
    /// Counts and threshold, then the worst three, a line each.
    pub fn lines(&self) -> Vec<String> {
        let threshold = duration(self.threshold_ns as f64);
        let mut worst: Vec<_> = self.worst.iter().collect();
        worst.sort_by_key(|late| std::cmp::Reverse(late.response_ns));
        let counts = format!("{} (over the usual by more than {threshold})", tally(&self.causes));
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
        match (&self.servo, &self.bus) {
            (Some(servo), Some(bus)) => format!("{} ({servo} on bus {bus})", self.cause),
            _ => self.cause.clone(),
        }
    }
}

fn event(
    config: &RobotConfig,
    links: &[String],
    stats: &RunStats,
    transition: &khz_robot::supervisor::Transition,
) -> EventSummary {
    let servo = transition.cause.servo().and_then(|servo| config.servos.get(usize::from(servo)));
    EventSummary {
        time_s: (transition.at_ns - stats.first_ns) as f64 * 1e-9,
        tick: transition.tick,
        from: transition.from.name(),
        to: transition.to.name(),
        cause: transition.cause.told(links).to_string(),
        servo: servo.map(|servo| servo.name.clone()),
        bus: servo.map(|servo| config.buses[servo.bus].name.clone()),
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
        subtitle: format!("{} ticks on {}", summary.ticks, summary.passport.cpu),
        verdict: verdict(summary, &over_time.unread),
        figures: figures(summary),
        period_ns: config.timing.period_ns(),
        wake: Measured::new(over_time.wake, &stats.wake_latency),
        cycle: Measured::new(over_time.cycle, &stats.cycle),
        cpu: Measured::new(over_time.cpu, &stats.tick_cpu),
        phases: over_time.phases,
        parts: summary.all_parts(),
        late: summary.late.worst.clone(),
        late_counts: format!(
            "Of {} ticks late were {} (later than usual by more than {}).",
            summary.ticks,
            tally(&summary.late.causes),
            duration(summary.late.threshold_ns as f64)
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
        errors: 0,
        round_trip: Distribution::from(&landed.outcome.machine.cycle().stats(index).round_trip),
    }
}

/// `unread`: what of the log could not be read.
fn verdict(summary: &RunSummary, unread: &[String]) -> Verdict {
    let mut reasons = Vec::new();
    let mut level = Level::Good;
    let mut blame = |bad: bool, at_least: Level, reason: String| {
        if bad {
            level = level.max(at_least);
            reasons.push(reason);
        }
    };
    let missed = summary.missed_replies - summary.missed_in_disturbed_ticks;
    blame(!summary.ended_well, Level::Bad, format!("It ended with: {}.", summary.end));
    if let Some(warning) = summary.events.iter().find(|event| event.trouble && !event.is_change()) {
        blame(true, Level::Warning, format!("It was warned of: {}.", warning.tell()));
    }
    blame(missed > 0, Level::Bad, format!("{missed} replies were missed in ticks nothing disturbed."));
    blame(
        summary.missed_in_disturbed_ticks > 0,
        Level::Warning,
        format!("{} replies were missed in disturbed ticks.", summary.missed_in_disturbed_ticks),
    );
    blame(summary.overruns > 0, Level::Warning, format!("{} ticks overran.", summary.overruns));
    blame(
        summary.ticks_without_frame > 0,
        Level::Warning,
        format!(
            "{} ticks were started by the timer, without the frame that paces them.",
            summary.ticks_without_frame
        ),
    );
    blame(
        summary.log_dropped > 0,
        Level::Warning,
        format!("{} samples were not recorded.", summary.log_dropped),
    );
    if let Some(error) = &summary.log_error {
        blame(true, Level::Warning, format!("The log is not whole: {error}."));
    }
    for damage in unread {
        blame(
            true,
            Level::Warning,
            format!("The plots do not show what follows in a damaged log: {damage}."),
        );
    }
    blame(
        summary.grade != Grade::RealTime,
        Level::Warning,
        format!("The loop's thread was {}, not real-time.", summary.grade),
    );
    Verdict { level, grade: summary.grade.to_string(), reasons }
}

fn figures(summary: &RunSummary) -> Vec<Figure> {
    let us = |ns: i64| format!("{:.1} µs", ns as f64 / 1e3);
    let tail = |s: &Summary| format!("p99 {}, max {}", us(s.p99), us(s.max));
    let judged = |label: &str, value: String, note: String, good: bool| Figure {
        note,
        level: if good { Level::Good } else { Level::Warning },
        ..Figure::new(label, value)
    };
    let measured = |label: &str, s: &Summary| Figure { note: tail(s), ..Figure::new(label, us(s.p50)) };
    let off = (summary.rate_hz - summary.target_rate_hz).abs();
    vec![
        judged(
            "rate",
            format!("{:.2} Hz", summary.rate_hz),
            format!("of {} Hz", summary.target_rate_hz),
            off <= summary.target_rate_hz * 1e-4,
        ),
        judged(
            "missed replies",
            summary.missed_replies.to_string(),
            format!("{} in disturbed ticks", summary.missed_in_disturbed_ticks),
            summary.missed_replies == 0,
        ),
        measured("wake latency", &summary.wake_latency_ns),
        measured("bus cycle", &summary.cycle_ns),
        measured("own work per tick", &summary.tick_cpu_ns),
        judged(
            "overruns",
            summary.overruns.to_string(),
            format!("{} periods skipped", summary.skipped),
            summary.overruns == 0,
        ),
        judged(
            "disturbed ticks",
            summary.disturbed_ticks.to_string(),
            format!("{} stolen", summary.steal_ticks),
            summary.disturbed_ticks == 0,
        ),
    ]
}

fn passport(summary: &RunSummary) -> Vec<Fact> {
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
        fact("stolen by the hypervisor", format!("{:.1} ms", summary.steal_ns as f64 / 1e6)),
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
        self.cpu.push(time_s, ns("tick_cpu_ns"));
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
