//! What a run was like: the figures for a table or JSON, and the page.
//!
//! The figures come from what the loop counted; everything over time comes from the run's log, so a page can
//! also be made long after the run.

mod details;
mod facts;
mod from_log;
mod missing;
mod over_time;
pub mod page;
mod page_data;
mod table;

pub use from_log::{FromLog, FromLogError, from_log};
pub use page_data::page_data;

use crate::late::{LateReport, lost_lines, tally};
use crate::require::{Extent, Required, Requirements, amended};
use crate::run::page::PartTimes;
pub(crate) use facts::controller_error;
use facts::{Known, Unlogged, ending, facts, fits_not, trouble, warned};
use khz_budget::{Inputs, TickPlan};
use khz_file::RobotConfig;
use khz_file::config::BusConfig;
use khz_loop::run::RunStats;
use khz_loop::supervisor::{Cause, Phase};
use khz_loop::timing::Clock;
use khz_page::{Verdict, duration, grouped};
use khz_robot::live::LiveSummary;
use khz_robot::recorder::SinkSummary;
use khz_robot::session::Outcome;
use khz_rt::late::{Causes, Lost, Window, window_at};
use khz_rt::{Grade, Passport, Report, SectionSummary, Summary};
use khz_run::costs::LateGroup;
use khz_run::decisions::Decided;
use khz_run::figures::{Time, Times};
use khz_run::late::{LEARNING, PARTS};
use khz_run::tally::{Counts, Pace, Stretch, Tally};
use khz_run::targets::Fared;
use khz_run::verdict::{Facts, Stops, judge};
use serde::Serialize;
use std::ops::Deref;
use std::path::PathBuf;

/// What marks JSON as the result of a run.
pub const FORMAT: &str = "khz-run";
/// Grows when a field is renamed or removed, or when what it means changes; fields may be added without.
pub const VERSION: u32 = 1;

/// A run in figures. Its fields and their meaning are part of the interface of `khz run --json`.
#[derive(Clone, Debug, Serialize)]
pub struct RunSummary {
    /// Always [`FORMAT`].
    pub format: &'static str,
    /// Always [`VERSION`].
    pub version: u32,
    /// Name of the robot.
    pub robot: String,
    /// The clock it ran by: `real`, or `virtual`, whose times are not those of this computer.
    pub clock: Clock,
    /// Whether it held its rate, and why it is no better.
    pub verdict: Verdict,
    /// What that is made of.
    #[serde(skip)]
    facts: Facts,
    /// The counts of all ticks.
    #[serde(flatten)]
    pub all: Stretch,
    /// Ticks per second of the controlled time; of the whole run where there is none.
    pub rate_hz: f64,
    /// The configured rate.
    pub target_rate_hz: f64,
    /// The controlled ticks: the loop was in phase active at the start of this tick and the one before.
    pub controlled: TickSummary,
    /// All other ticks: the start, and coming down.
    pub outside: TickSummary,
    /// The robot has an IMU.
    #[serde(skip)]
    pub has_imu: bool,
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
    /// Its times, of the controlled ticks unless their definitions name others.
    #[serde(flatten)]
    pub times: Times<Summary>,
    /// What a controller on its own thread (`loop.mode = "pipelined"`) did; `null` without one.
    pub pipelined: Option<Pipelined>,
    /// How the decisions of a policy fared, and which joints were cut; `null` of others.
    pub decided: Option<Decided>,
    /// Of `control_ns`, by the sections the controller names, or the modules it is a chain of. `max_at` is a tick's number.
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
    /// What was required of it, and whether it is met.
    pub required: Vec<Required>,
    /// Changes of phase, and what was warned of or derated for. Of very many the first and the last; the log has all.
    pub events: Vec<EventSummary>,
    /// How many were left out between these.
    pub events_left_out: u64,
    /// The servos.
    pub servos: Vec<ServoSummary>,
    /// The buses.
    pub buses: Vec<BusSummary>,
    /// The computer.
    pub passport: Passport,
    /// Samples the recorder had to drop; of a write that failed, all that was under way.
    pub log_dropped: u64,
    /// Why the log is not whole: what was wrong with the disk. It changes neither `end` nor `ended_well`.
    pub log_error: Option<String>,
    /// Where samples went: the log, then the stream if there is one and sinks of the program's own.
    pub sinks: Vec<SinkSummary>,
    /// What people asked of the robot while it ran: requests of a live view, and inputs of those who steered.
    pub live: LiveSummary,
    /// How the targets of programs fared, of a robot that follows them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<Fared>,
    /// The log, its first file if there are several.
    pub log: Option<PathBuf>,
    /// All its files, oldest first.
    pub log_files: Vec<PathBuf>,
    /// The page.
    pub report: Option<PathBuf>,
}

/// Some of the ticks of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TickSummary {
    /// Their counts.
    #[serde(flatten)]
    pub counts: Stretch,
    /// Planned periods: with a tick and without.
    pub periods: u64,
    /// Of these, without a tick.
    pub lost_periods: u64,
    /// From the start of the tick before the first to the start of the last.
    pub duration_ns: i64,
}

impl TickSummary {
    fn of(counts: Stretch, pace: Pace) -> Self {
        let lost_periods = counts.lost_periods(pace);
        Self { counts, periods: counts.ticks + lost_periods, lost_periods, duration_ns: counts.span_ns }
    }

    /// The stretches outside the controlled time do not follow each other, so what fell between them is no lost period.
    fn outside(tally: &Tally, pace: Pace) -> Self {
        let outside = tally.outside();
        Self { duration_ns: outside.span_ns, ..Self::of(Stretch { span_ns: 0, ..outside }, pace) }
    }
}

impl Deref for TickSummary {
    type Target = Stretch;

    fn deref(&self) -> &Stretch {
        &self.counts
    }
}

/// What a controller on its own thread did, in the ticks in which it was to decide.
#[derive(Clone, Debug, Serialize)]
pub struct Pipelined {
    /// Such ticks.
    pub ticks: u64,
    /// Of these, ticks without a new decision: the commands of before stayed.
    pub without_decision: u64,
    /// How long its jobs took, of those that were done.
    pub elsewhere_ns: Summary,
    /// How old commands were when they were sent, from the start of the tick whose state they are of.
    pub command_age_ns: Summary,
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
    /// The same and what they cost, by cause, what cost most first. A tick that cost something counts here late or not.
    pub by_cause: Vec<LateGroup>,
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
    /// Of these, cycles in which it was asked nothing after a miss, so that what it still answers cannot be mistaken.
    pub quiet: u64,
    /// Longest run of these.
    pub missed_in_a_row: u32,
    /// Replies to older queries, and further replies to one query.
    pub late: u64,
    /// Of these, further replies to one query: two servos may have the same id.
    pub duplicates: u64,
    /// From handing the query to the link until the reply had arrived.
    pub round_trip_ns: Summary,
}

/// What a bus's link counted that is no servo's.
#[derive(Clone, Debug, Serialize)]
pub struct BusSummary {
    /// Its name.
    pub name: String,
    /// Received pieces that were no valid frame: checksum, syntax, length.
    pub damaged: u64,
    /// Error frames, bus errors and errors of the operating system.
    pub errors: u64,
    /// Times the bus went down: bus-off, its interface down, its adapter gone.
    pub downs: u64,
}

impl RunSummary {
    /// Where its report goes by default; `None` without a log.
    pub fn report_beside_log(&self) -> Option<PathBuf> {
        self.log.as_ref().map(|log| log.with_extension("html"))
    }

    /// The figures of a run of this robot, and its verdict.
    pub fn of(config: &RobotConfig, outcome: &Outcome) -> Self {
        let counted = Self::counted(config, outcome);
        let names: Vec<String> = counted.servos.iter().map(|servo| servo.name.clone()).collect();
        let (end, ended_well) = ended(config, outcome, &counted.events, (&counted.servos, &names));
        let known = Known {
            config: Some(config),
            tally: &outcome.stats.tally,
            pace: pace(config),
            virtual_time: config.timing.clock == Clock::Virtual,
            events: &counted.events,
            end: &end,
            ended_well,
            servos: &names,
        };
        let facts = facts(&known, &unlogged(outcome, &counted.servos, &counted.buses));
        let decided = facts.decisions.clone();
        let summary = Self { facts, decided, end, ended_well, ..counted };
        Self { verdict: summary.judged(&[]), ..summary }
    }

    /// What was counted and measured; how the run ended and its verdict are missing.
    fn counted(config: &RobotConfig, outcome: &Outcome) -> Self {
        let (stats, tally, recording) = (&outcome.stats, &outcome.stats.tally, &outcome.recording);
        let (pace, lost, steal_ns) = (pace(config), tally.lost, outcome.usage.steal_total_ns());
        let steal_of = |cpu: u32| outcome.usage.steal_ns.get(cpu as usize).copied();
        let steal_loop_cpu_ns = config.timing.cpu.and_then(steal_of);
        let steal_at_most_ns = lost.steal_at_most_ns(steal_loop_cpu_ns.unwrap_or(steal_ns));
        Self {
            format: FORMAT,
            version: VERSION,
            robot: config.name.clone(),
            clock: config.timing.clock,
            verdict: Verdict::default(),
            facts: Facts::default(),
            all: tally.all(),
            rate_hz: tally.counter.rate_hz(),
            target_rate_hz: config.timing.rate_hz,
            controlled: TickSummary::of(tally.controlled(), pace),
            outside: TickSummary::outside(tally, pace),
            has_imu: config.imu.is_some(),
            early_frames: stats.early_frames,
            changed_commands: outcome.machine.supervisor().clamped(),
            lost_time: lost,
            steal_ns,
            steal_loop_cpu_ns,
            steal_at_most_ns,
            unexplained_ns: lost.time_ns.unaccounted - steal_at_most_ns,
            times: tally.times.summaries(),
            pipelined: pipelined(stats),
            decided: None,
            modules: outcome.modules.clone(),
            parts: parts(config, outcome),
            wake_latency_outside_ns: tally.wake_latency_outside.summary(),
            late: late(outcome),
            grade: outcome.grants.grade,
            grants: outcome.grants.clone(),
            end: String::new(),
            ended_well: false,
            required: Vec::new(),
            events: events(config, outcome),
            events_left_out: stats.transitions_left_out,
            servos: servos(config, outcome),
            buses: buses(config, outcome),
            passport: outcome.passport.clone(),
            log_dropped: recording.as_ref().map_or(0, |recording| recording.dropped()),
            log_error: recording.as_ref().and_then(|recording| recording.error.clone()),
            sinks: recording.as_ref().map_or_else(Vec::new, |recording| recording.sinks.clone()),
            live: outcome.live.clone(),
            targets: outcome.live.targets.as_ref().map(|standing| standing.fared.clone()),
            log: recording.as_ref().and_then(|recording| recording.paths.first().cloned()),
            log_files: recording.as_ref().map_or_else(Vec::new, |recording| recording.paths.clone()),
            report: None,
        }
    }

    /// What the controlled ticks lost, and how much of it the kernel accounts for: a line each, without its label.
    pub fn lost_lines(&self) -> [String; 2] {
        lost_lines(&self.lost_time, self.steal_loop_cpu_ns.unwrap_or(self.steal_ns))
    }

    /// Its counts, under control and outside.
    pub fn counts(&self) -> Counts {
        Counts { controlled: self.controlled.counts, outside: self.outside.counts }
    }

    /// The times this run has.
    pub fn times(&self) -> impl Iterator<Item = (&'static Time, &Summary)> {
        Time::to_show(&self.times, self.clock == Clock::Virtual)
    }

    /// Frames that were damaged, on all buses.
    pub fn damaged(&self) -> u64 {
        self.buses.iter().map(|bus| bus.damaged).sum()
    }

    /// Further replies to one query, of all servos.
    pub fn duplicates(&self) -> u64 {
        self.servos.iter().map(|servo| servo.duplicates).sum()
    }

    /// Checks what is required of it; what is not met comes first in the verdict. A run that was to last for `asked_ns` and ended
    /// before meets nothing, unless a duration is required.
    pub fn require(&mut self, requirements: &Requirements<Self>, asked_ns: Option<i64>) {
        let (ticks, duration_ns) = (self.controlled.ticks, self.controlled.duration_ns);
        let is_over = self.events.iter().any(|event| event.cause == Cause::TimeOver.to_string());
        let lasted = duration(duration_ns as f64);
        let early = match asked_ns.filter(|_| !is_over) {
            Some(asked_ns) => {
                Some(format!("it ended after {lasted} under control, of {}", duration(asked_ns as f64)))
            }
            None => (!self.ended_well).then(|| format!("it did not end well, after {lasted} under control")),
        };
        self.required = requirements.check_over(self, &Extent { early, ..Extent::of(ticks, duration_ns) });
        self.verdict = amended(std::mem::take(&mut self.verdict), &self.required);
    }

    /// How long it lasted: from its first tick until it left control, to half a period, as `--duration` counts; of one that never did,
    /// its controlled time.
    pub fn lasted_ns(&self) -> i64 {
        let left = self.events.iter().find(|event| event.is_change() && event.from == Phase::Active.name());
        left.map_or(self.controlled.duration_ns, |left| (left.time_s * 1e9) as i64 + self.period_ns() / 2)
    }

    fn period_ns(&self) -> i64 {
        (1e9 / self.target_rate_hz).round() as i64
    }

    /// Nothing brought the robot down, and all that was required is met.
    pub fn is_well(&self) -> bool {
        self.ended_well && self.required.iter().all(|required| required.met)
    }

    /// The verdict. `unread`: what of the log could not be read.
    fn judged(&self, unread: &[String]) -> Verdict {
        let warned = warned(&self.events, &self.facts.late, self.period_ns());
        let dropped = (self.log_dropped > 0)
            .then(|| format!("{} samples were not recorded.", grouped(self.log_dropped)));
        let damaged = unread
            .iter()
            .map(|damage| format!("The plots do not show what follows in a damaged log: {damage}."));
        let lossy = self.sinks.iter().skip(1).filter(|sink| sink.lost > 0 || sink.error.is_some());
        let lossy = lossy.map(|sink| {
            let why = sink.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
            format!("The sink {} lost {} samples{why}.", sink.name, grouped(sink.lost))
        });
        let incomplete = self.log_error.as_ref().map(|error| format!("The log is incomplete: {error}."));
        let unknown = dropped.into_iter().chain(lossy).chain(incomplete).chain(damaged).collect();
        judge(&Facts { warnings: warned.into_iter().collect(), unknown, ..self.facts.clone() })
    }
}

fn pipelined(stats: &RunStats) -> Option<Pipelined> {
    let khz_loop::stats::Pipelined { ticks, without_decision, elsewhere, command_age } = &stats.pipelined;
    (*ticks > 0).then(|| Pipelined {
        ticks: *ticks,
        without_decision: *without_decision,
        elsewhere_ns: elsewhere.summary(),
        command_age_ns: command_age.summary(),
    })
}

/// What starts the ticks of this robot.
fn pace(config: &RobotConfig) -> Pace {
    Pace { period_ns: config.timing.period_ns(), by_sensor: config.timing.pace_bus.is_some() }
}

/// What of a run its log does not know.
fn unlogged(outcome: &Outcome, servos: &[ServoSummary], buses: &[BusSummary]) -> Unlogged {
    let commands = outcome.stats.tally.controlled().ticks * servos.len() as u64;
    Unlogged {
        early_frames: outcome.stats.early_frames,
        duplicates: servos.iter().map(|servo| servo.duplicates).sum(),
        ambiguous: 0,
        corrupt: buses.iter().map(|bus| bus.damaged).sum(),
        downs: buses.iter().filter(|bus| bus.downs > 0).map(|bus| (bus.name.clone(), bus.downs)).collect(),
        unasked: servos.iter().map(ServoSummary::unasked).sum(),
        changed: Some((outcome.machine.supervisor().clamped(), commands)),
        not_done: pipelined(&outcome.stats).map(|of| (of.without_decision, of.ticks, of.command_age_ns.max)),
        granted: Some(outcome.grants.grade),
        stops: Stops::of(
            &outcome.usage,
            outcome.stopped_ns,
            outcome.grants.grade,
            outcome.passport.rt_share_percent,
        ),
        targets: outcome.live.targets.as_ref().map(|standing| standing.fared.clone()),
    }
}

/// What the links counted, bus by bus.
fn buses(config: &RobotConfig, outcome: &Outcome) -> Vec<BusSummary> {
    let links = outcome.machine.links();
    let of = |(bus, (link, channel)): (&BusConfig, (usize, u8))| {
        let counters = links.get(link)?.counters(channel);
        Some(BusSummary {
            name: bus.name.clone(),
            damaged: counters.corrupt,
            errors: counters.errors,
            downs: counters.downs,
        })
    };
    config.buses.iter().zip(outcome.machine.buses().places.iter().copied()).filter_map(of).collect()
}

/// How a run ended, with what was missing, and whether that is as planned.
fn ended(
    config: &RobotConfig,
    outcome: &Outcome,
    events: &[EventSummary],
    (servos, names): (&[ServoSummary], &[String]),
) -> (String, bool) {
    let tally = &outcome.stats.tally;
    let lack = lack(config, outcome);
    let (mut end, ended_well) = ending(events, tally.controlled().ticks, lack.clone());
    if !ended_well {
        let of_bus: Vec<_> = servos.iter().map(|servo| (&*servo.name, &*servo.bus)).collect();
        end = missing::together(end, trouble(events), tally, &of_bus);
        let lost = missing::lost(config, &outcome.machine);
        let (of_robot, of_run) = ((&config.buses[..], &lost[..]), (events, servos));
        end = missing::named(&end, lack.as_deref(), of_run, of_robot, fits_not(config));
        let down = trouble(events).map(EventSummary::text);
        if let Some(message) = down.or(lack).filter(|_| servos.iter().all(|of| of.replied > 0)) {
            end = missing::sometimes(&end, &message, tally, names);
        }
        end = missing::late_together(&end, tally, &of_bus);
    }
    (end, ended_well)
}

/// What a robot that was never armed lacked.
fn lack(config: &RobotConfig, outcome: &Outcome) -> Option<String> {
    let cause = outcome.machine.supervisor().lack()?;
    Some(on_servo(outcome.machine.explained(cause, None).to_string(), servo_and_bus(config, cause)))
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

/// The measured parts, each beside its prediction.
fn parts(config: &RobotConfig, outcome: &Outcome) -> Vec<PartTimes> {
    let predicted = TickPlan::of(config, Inputs::of(config)).predict().parts;
    let part = |measured: &khz_rt::SectionSummary| PartTimes {
        name: measured.name.clone(),
        time_ns: measured.time,
        predicted_ns: predicted.iter().find(|part| part.name == measured.name).map(|part| part.ns),
    };
    outcome.stats.tally.parts().iter().map(part).collect()
}

fn late(outcome: &Outcome) -> LateTicks {
    let tally = &outcome.stats.tally;
    late_ticks(tally, |at_ns| window_at(&outcome.windows, at_ns))
}

/// The late ticks of a tally, with what the machine did meanwhile where that is known.
fn late_ticks<'a>(tally: &Tally, window: impl Fn(i64) -> Option<&'a Window>) -> LateTicks {
    let report = |tick: &khz_rt::late::LateTick| {
        let part = tick.part.map_or("none", |part| PARTS[part]);
        LateReport::new(tick, tick.at_ns - tally.counter.first_ns(), part, window(tick.at_ns))
    };
    LateTicks {
        threshold_ns: tally.counter.late_ns(),
        judged: tally.counter.judged(),
        causes: tally.counter.causes(),
        by_cause: tally.counter.late_groups(),
        worst: tally.worst().iter().map(report).collect(),
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

impl ServoSummary {
    /// Queries that were due and not sent: the bus had no time for them. Cycles are answered or missed, and most of the others
    /// are those of a servo that is switching on.
    fn unasked(&self) -> u64 {
        (self.replied + self.missed - self.quiet).saturating_sub(self.sent)
    }
}

impl EventSummary {
    /// The phase changed; otherwise it was a warning.
    pub fn is_change(&self) -> bool {
        self.from != self.to
    }

    /// Cause, servo and bus in one line.
    pub fn text(&self) -> String {
        on_servo(self.cause.clone(), self.servo.as_deref().zip(self.bus.as_deref()))
    }
}

fn events(config: &RobotConfig, outcome: &Outcome) -> Vec<EventSummary> {
    let first_ns = outcome.stats.tally.counter.first_ns();
    let event = |transition: &khz_loop::supervisor::Transition| {
        let place = servo_and_bus(config, transition.cause);
        EventSummary {
            time_s: (transition.at_ns - first_ns) as f64 * 1e-9,
            tick: transition.tick,
            from: transition.from.name(),
            to: transition.to.name(),
            cause: outcome.machine.explained(transition.cause, Some(transition.tick)).to_string(),
            servo: place.map(|(servo, _)| servo.to_owned()),
            bus: place.map(|(_, bus)| bus.to_owned()),
            trouble: transition.cause.is_trouble(),
        }
    };
    outcome.stats.transitions.iter().map(event).collect()
}

fn servos(config: &RobotConfig, outcome: &Outcome) -> Vec<ServoSummary> {
    (0..config.servos.len()).map(|index| servo(config, outcome, index)).collect()
}

fn servo(config: &RobotConfig, outcome: &Outcome, index: usize) -> ServoSummary {
    let servo = &config.servos[index];
    let stats = outcome.machine.cycle().stats(index);
    ServoSummary {
        name: servo.name.clone(),
        bus: config.buses[servo.bus].name.clone(),
        sent: stats.sent,
        replied: stats.replied,
        missed: stats.missed,
        quiet: stats.quiet,
        missed_in_a_row: stats.missed_in_a_row,
        late: stats.late,
        duplicates: stats.duplicates,
        round_trip_ns: stats.round_trip.summary(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_too_short_to_judge_a_tick_does_not_say_that_none_was_late() {
        let late = |judged| LateTicks {
            threshold_ns: 5_000_000,
            judged,
            causes: Causes::default(),
            by_cause: Vec::new(),
            worst: Vec::new(),
        };
        assert_eq!(late(0).lines(), ["none judged: the first 100 controlled ticks are not"]);
        assert_eq!(
            late(1_900).lines(),
            ["0 of 1,900 judged (later than usual by more than 5 ms; the first 100 are not judged): none"]
        );
    }
}
