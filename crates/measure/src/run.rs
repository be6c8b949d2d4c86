//! What a run was like: the figures for a table or JSON, and the page.
//!
//! The figures come from what the loop counted; everything over time comes from the run's log, so a page can
//! also be made long after the run.

mod details;
mod from_log;
mod over_time;
pub mod page;
mod page_data;
mod table;

pub use from_log::{FromLog, FromLogError, from_log};
pub use page_data::page_data;

use crate::budget::{Inputs, Plan};
use crate::late::{LateGroup, LateReport, disturbed, groups, lost_lines, tally};
use crate::require::{Required, Requirements, amended};
use crate::run::page::PartTimes;
use crate::usual::Usual;
use crate::verdict::{Broken, Facts, Outside, judge};
use khz_page::{Verdict, duration, grouped};
use khz_robot::RobotConfig;
use khz_robot::config::Clock;
use khz_robot::launch::{Landed, LiveSummary};
use khz_robot::parts::LEARNING;
use khz_robot::recorder::SinkSummary;
use khz_robot::run::{RunStats, Stretch};
use khz_robot::supervisor::{Cause, Phase, Trigger};
use khz_rt::late::{Causes, Lost, window_at};
use khz_rt::{Grade, Passport, Policy, Report, SectionSummary, Summary};
use serde::Serialize;
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
    /// The robot has an IMU.
    #[serde(skip)]
    pub has_imu: bool,
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
    /// What was required of it, and whether it is met.
    pub required: Vec<Required>,
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
    /// What people asked of the robot while it ran: requests of a live view, and inputs of those who steered.
    pub live: LiveSummary,
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
    /// Of these, in ticks that had less of the bus cycle on the CPU than all replies usually take.
    #[serde(skip)]
    pub missed_while_off_cpu: u64,
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
            missed_while_off_cpu: stretch.missed_while_off_cpu,
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
    /// What to do about it, if it is trouble.
    #[serde(skip)]
    pub remedy: Option<&'static str>,
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
        let Landed { outcome, recording, .. } = landed;
        let stats = &outcome.stats;
        let links = khz_robot::assemble::link_names(config);
        let events: Vec<EventSummary> =
            stats.transitions.iter().map(|transition| event(config, &links, stats, transition)).collect();
        let (mut end, mut ended_well) = ending(&events);
        // Whoever stops it at once may leave it no tick under control.
        if ended_well && stats.controlled.ticks == 0 {
            ended_well = false;
            let was_active = stats.transitions.iter().any(|transition| transition.to == Phase::Active);
            end = if was_active {
                format!("never under control: it had only begun; {end}")
            } else {
                never_controlled(config, &links, outcome.machine.supervisor().lack(), &end)
            };
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
            format: FORMAT,
            version: VERSION,
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
            has_imu: config.imu.is_some(),
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
            required: Vec::new(),
            events,
            events_left_out: stats.transitions_left_out,
            servos: (0..config.servos.len()).map(|index| servo(config, landed, index)).collect(),
            passport: outcome.passport.clone(),
            log_dropped: recording.as_ref().map_or(0, |recording| recording.dropped()),
            log_error: recording.as_ref().and_then(|recording| recording.error.clone()),
            sinks: recording.as_ref().map_or_else(Vec::new, |recording| recording.sinks.clone()),
            live: landed.live,
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

    /// Checks what is required of it; what is not met comes first in the verdict.
    pub fn require(&mut self, requirements: &Requirements<Self>) {
        self.required = requirements.check(self);
        self.verdict = amended(std::mem::take(&mut self.verdict), &self.required);
    }

    /// Nothing brought the robot down, and all that was required is met.
    pub fn is_well(&self) -> bool {
        self.ended_well && self.required.iter().all(|required| required.met)
    }

    /// The verdict. `unread`: what of the log could not be read.
    fn judged(&self, config: &RobotConfig, unread: &[String]) -> Verdict {
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
            late_wakes: self.controlled.late_wakes,
            overruns: self.controlled.overruns,
            without_frame: self.ticks_without_frame,
            early_frames: self.early_frames,
            missed_replies: self.controlled.missed_replies,
            missed_while_off_cpu: self.controlled.missed_while_off_cpu,
            worst_servo: self.worst_servo(),
            outside: Outside {
                lost: self.outside.lost_periods,
                late_wakes: self.outside.late_wakes,
                overruns: self.outside.overruns,
                missed_replies: self.outside.missed_replies,
            },
            late: self.late_groups(),
            usual: self.usual_of_its_own(),
            granted: (config.timing.policy != Policy::Other).then_some(self.grade),
            broken: (!self.ended_well).then(|| broken(&self.events, &self.end)),
            late_replies: self.late_replies.saturating_sub(self.duplicates()),
            duplicates: self.duplicates(),
            unexpected_frames: self.unexpected_frames,
            imu_missed: self.imu_missed,
            warnings: warnings.collect(),
            ..Facts::default()
        })
    }
}

impl RunSummary {
    /// Late ticks by cause. Where none was judged, the ticks that lost time.
    pub fn late_groups(&self) -> Vec<LateGroup> {
        if self.late.causes.late == 0 {
            return disturbed(&self.lost_time);
        }
        let usual_ns = self.usual().map_or(0, |usual| usual.tick_ns);
        let worst = self.late.worst.iter().map(|late| (late, late.response_ns - usual_ns));
        groups(&self.late.causes, &worst.collect::<Vec<_>>(), self.late.threshold_ns)
    }

    /// What a controlled tick usually takes, up to the end that overruns count from.
    fn usual(&self) -> Option<Usual> {
        use khz_rt::Cause;
        let of = |names: &[&str]| {
            let parts = self.parts.iter().filter(|part| names.contains(&part.name.as_str()));
            parts.map(|part| part.time_ns.p50).sum()
        };
        let parts = [
            (Cause::Controller, of(&["control"])),
            (Cause::Bus, of(&["bus", "imu"])),
            (Cause::Compute, of(&["encode", "send", "supervise"])),
        ];
        Usual::of(&parts, self.late.threshold_ns)
    }

    /// The same without what others took of it: their time is no fault of the controller's.
    fn usual_of_its_own(&self) -> Option<Usual> {
        let lost = &self.lost_time.time_ns;
        let ticks = self.controlled.ticks.max(1) as i64;
        self.usual().map(|usual| usual.without((lost.preempted + lost.unaccounted) / ticks))
    }

    /// The servo that missed most replies of the whole run, and how many.
    fn worst_servo(&self) -> Option<(String, u64)> {
        let missing = self.servos.iter().filter(|servo| servo.missed > 0);
        missing.max_by_key(|servo| servo.missed).map(|servo| (servo.name.clone(), servo.missed))
    }
}

/// What brought the robot down.
fn broken(events: &[EventSummary], end: &str) -> Broken {
    let trouble = events.iter().find(|event| event.is_change() && event.trouble);
    Broken {
        after_s: trouble.filter(|event| event.from == Phase::Active.name()).map(|event| event.time_s),
        what: end.to_owned(),
        remedy: trouble.and_then(|event| event.remedy),
    }
}

/// What to do about a servo that may still be on.
const CUT_POWER: &str = "cut its power before you touch the robot, then check its wiring and firmware";

/// What to do about what brought a robot down.
fn remedy(cause: Cause) -> Option<&'static str> {
    match cause {
        // They do come, so nothing is wrong with the wiring.
        Cause::NotSeen { late: true, .. } => Some("`khz budget` shows what the buses need"),
        Cause::ControllerPreempted { .. } => Some(
            "leave a CPU free of real-time loops: pin them with `loop.cpu`, or run fewer on this computer",
        ),
        Cause::LoopHeldUp { .. } => Some(remedy_of(Trigger::Overruns)),
        Cause::ServoStillOn { .. } | Cause::ServoNotHeardOff { .. } => Some(CUT_POWER),
        _ => cause.trigger().map(remedy_of),
    }
}

const fn remedy_of(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::Operator | Trigger::Heartbeat => "check the operator's connection",
        Trigger::ServoFault => {
            "see its voltage, temperature and torque in the report, and end the cause before a new run"
        }
        Trigger::MissedReplies | Trigger::BusDown | Trigger::Stale => {
            "check power, wiring and ids with `khz bus scan`"
        }
        Trigger::Controller => "see its parts with `khz run --budget`, and what it printed",
        Trigger::Overruns => "run `khz doctor`",
        Trigger::Imu => "check the IMU's power and connection",
        Trigger::Tilt => "see the IMU in the report",
        Trigger::Command => "see the commands in the report, and correct the controller",
        Trigger::Voltage => "charge the battery, or check the supply under load",
        Trigger::Temperature => "let the servos cool, and see the torques in the report",
        Trigger::Position | Trigger::Velocity => "compare the joint in the report with its `limits`",
    }
}

/// What ended the run, and whether that was as planned. Warnings end nothing.
fn ending(events: &[EventSummary]) -> (String, bool) {
    let mut changes = events.iter().filter(|event| event.is_change());
    let trouble = changes.clone().find(|event| event.trouble);
    // What brought the robot down, not that it has arrived there.
    let down = trouble.or_else(|| changes.find(|event| event.from == "active" || event.to == "stopped"));
    let end = down.map_or_else(|| "did not end".to_owned(), EventSummary::tell);
    (end + &left_on(events), trouble.is_none())
}

/// Servos that may still be on at rest, beside one that is the reason itself: nothing else is warned of there.
fn left_on(events: &[EventSummary]) -> String {
    let left_on = events.iter().filter(|event| event.from == "fault" && event.to == "fault");
    let names: Vec<&str> = left_on.filter_map(|event| event.servo.as_deref()).collect();
    if names.is_empty() {
        String::new()
    } else {
        format!("; may still be on, cut the power: {}", names.join(", "))
    }
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
        remedy: remedy(transition.cause),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn event(from: &'static str, to: &'static str, cause: &str, trouble: bool) -> EventSummary {
        let cause = cause.to_owned();
        EventSummary { time_s: 0.0, tick: 0, from, to, cause, servo: None, bus: None, trouble, remedy: None }
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
    fn late_replies_are_not_blamed_on_the_wiring() {
        let told = |late| remedy(Cause::NotSeen { servo: 0, late });
        assert_eq!(told(true), Some("`khz budget` shows what the buses need"));
        assert_eq!(told(false), Some("check power, wiring and ids with `khz bus scan`"));
    }

    #[test]
    fn a_loop_that_was_held_up_is_not_blamed_on_the_wiring() {
        let held_up = Cause::LoopHeldUp { of: Trigger::Stale, held_up_ns: 60_000_000 };
        assert_eq!(remedy(held_up), Some("run `khz doctor`"));
        let preempted = Cause::ControllerPreempted { count: 51, took_ns: 51_000_000, waited_ns: 50_900_000 };
        assert!(remedy(preempted).unwrap().contains("`loop.cpu`"));
    }

    #[test]
    fn servos_that_may_still_be_on_are_named_at_the_end() {
        let on = |from, servo: &str| EventSummary {
            servo: Some(servo.to_owned()),
            ..event(from, "fault", "the servo is still on: cut its power", true)
        };
        let mut events = vec![
            event("active", "damping", "finished", false),
            event("damping", "stopped", "every joint stands still", false),
            on("stopped", "knee"),
        ];
        let only = ("the servo is still on: cut its power".to_owned(), false);
        assert_eq!(ending(&events), only, "and no end as planned");
        events.extend([on("fault", "hip"), on("fault", "ankle")]);
        assert_eq!(ending(&events).0, only.0 + "; may still be on, cut the power: hip, ankle");
        assert!(remedy(Cause::ServoNotHeardOff { servo: 0 }).unwrap().starts_with("cut its power"));
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
    }
}
