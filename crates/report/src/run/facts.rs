//! What the verdict on a run is made of: from the run itself, or from its log.

use super::{EventSummary, missing};
use khz_budget::{Inputs, Prediction, TickPlan};
use khz_file::RobotConfig;
use khz_file::config::{BusConfig, ControllerConfig, LinkConfig, Mode, ServoConfig};
use khz_loop::supervisor::Cause::OperatorStop;
use khz_loop::supervisor::Phase;
use khz_page::{duration, has_percentile};
use khz_rt::{Cause, Grade, Policy};
use khz_run::Usual;
use khz_run::costs::LateGroup;
use khz_run::decisions::Decided;
use khz_run::tally::{Counter, Pace, Tally, stands_out};
use khz_run::targets::Fared;
use khz_run::verdict::{
    BUDGET, Broken, CONTROLLER, DOCTOR, Explained, Facts, Medium, RobotFile, SCAN, SlowBus, Stops,
    Uncontrolled, explained,
};

/// What a run and its log both know.
pub(super) struct Known<'a> {
    /// The robot file; a log may lack it.
    pub config: Option<&'a RobotConfig>,
    pub tally: &'a Tally,
    pub pace: Pace,
    pub virtual_time: bool,
    pub events: &'a [EventSummary],
    pub end: &'a str,
    pub ended_well: bool,
    /// Names of the servos, in their order.
    pub servos: &'a [String],
}

/// What only the run itself knows.
#[derive(Default)]
pub(super) struct Unlogged {
    pub early_frames: u64,
    /// Further replies to one query: in a log they are among the late replies.
    pub duplicates: u64,
    /// In a log: all late replies, where it does not show which of them are duplicates.
    pub ambiguous: u64,
    /// Frames that the links could not read.
    pub corrupt: u64,
    /// Buses that went down, and how often.
    pub downs: Vec<(String, u64)>,
    /// Queries that were due and not sent.
    pub unasked: u64,
    /// Commands changed to keep joints within their limits, of how many.
    pub changed: Option<(u64, u64)>,
    /// Ticks without a decision of a controller on its own thread, of how many, and the oldest command used.
    pub not_done: Option<(u64, u64, i64)>,
    /// What the loop's thread was granted.
    pub granted: Option<Grade>,
    pub stops: Stops,
    /// How the targets of programs fared.
    pub targets: Option<Fared>,
}

/// The facts, without warnings.
pub(super) fn facts(known: &Known<'_>, unlogged: &Unlogged) -> Facts {
    let Known { config, tally, pace, .. } = *known;
    let base = Facts::of(&tally.counter.counts, pace, tally.counter.rate_hz(), tally.counter.late_groups());
    let missed_replies = tally.all().missed_replies;
    let asked_for_more = config.is_none_or(|config| config.timing.policy != Policy::Other);
    let wake = tally.times.wake_latency.summary();
    let worst_servo = |controlled| {
        let (servo, count) = tally.worst_servo(controlled, known.servos.len())?;
        Some((known.servos.get(servo)?.clone(), count))
    };
    let worst_bus = |controlled| worst_bus(config?, tally.missed_of(controlled));
    let prediction = config.filter(|_| missed_replies > 0).map(predict);
    let is_known = unlogged.ambiguous == 0;
    let late = |replies: u64| if is_known { replies } else { 0 };
    let facts = Facts {
        target_hz: config.map_or(base.target_hz, |config| config.timing.rate_hz),
        virtual_time: known.virtual_time,
        is_elsewhere: config.is_some_and(computes_elsewhere),
        early_frames: unlogged.early_frames,
        worst_servo: worst_servo(true),
        worst_bus: worst_bus(true),
        medium: config.map_or(Medium::Any, |config| medium(config, tally)),
        outside: Uncontrolled {
            worst_servo: worst_servo(false),
            worst_bus: worst_bus(false),
            late_replies: late(base.outside.late_replies),
            quiet: tally.quiet(false),
            ..base.outside
        },
        quiet: tally.quiet(true),
        too_short: tally.controlled().ticks > 0 && tally.counter.judged() == 0,
        unasked: unlogged.unasked,
        cycle_ns: prediction.as_ref().map(cycle_ns),
        slow_bus: config.zip(prediction.as_ref()).and_then(|(config, predicted)| slow_bus(config, predicted)),
        wake_ns: has_percentile(wake.count, 0.99).then(|| (wake.p99, tally.counter.late_ns())),
        changed: unlogged.changed,
        not_done: unlogged.not_done,
        stops: unlogged.stops,
        usual: usual_of_its_own(tally),
        granted: unlogged.granted.filter(|_| asked_for_more),
        late_replies: late(base.late_replies.saturating_sub(unlogged.duplicates)),
        late_or_duplicates: unlogged.ambiguous,
        duplicates: unlogged.duplicates,
        damaged_frames: unlogged.corrupt,
        downs: unlogged.downs.clone(),
        decisions: decided(config, tally),
        targets: unlogged.targets.clone().map(|fared| Fared { leaders: leaders(config), ..fared }),
        file: config.map_or(RobotFile::Unknown, |config| config.file.clone()),
        ..base
    };
    Facts { broken: (!known.ended_well).then(|| broken(known, unlogged.corrupt, &facts)), ..facts }
}

/// How the decisions of a policy fared, with the names of its joints.
pub(super) fn decided(config: Option<&RobotConfig>, tally: &Tally) -> Option<Decided> {
    let joints = match config.map(|config| &config.controller) {
        Some(ControllerConfig::Policy(policy)) => policy.joints.clone(),
        _ => tally.decided.joints.clone(),
    };
    (tally.decided.made > 0).then(|| Decided { joints, ..tally.decided.clone() })
}

fn computes_elsewhere(config: &RobotConfig) -> bool {
    config.timing.mode == Mode::Pipelined || matches!(config.controller, ControllerConfig::Policy(_))
}

/// The joints that lead, where an arm follows another.
fn leaders(config: Option<&RobotConfig>) -> Vec<String> {
    match config.map(|config| &config.controller) {
        Some(ControllerConfig::Follow(follow)) => follow.leader.clone(),
        _ => Vec::new(),
    }
}

/// Of several buses the one whose servos missed more replies than by chance, and how many.
fn worst_bus(config: &RobotConfig, missed: &[u64]) -> Option<(String, u64)> {
    let (bus, count) = worst_of_buses(config, missed).filter(|_| config.buses.len() > 1)?;
    let servos = config.servos.iter().filter(|servo| servo.bus == bus).count();
    let share = servos as f64 / config.servos.len() as f64;
    stands_out(count, missed.iter().sum(), share).then(|| (config.buses[bus].name.clone(), count))
}

fn worst_of_buses(config: &RobotConfig, missed: &[u64]) -> Option<(usize, u64)> {
    let mut buses = vec![0; config.buses.len()];
    config.servos.iter().zip(missed).for_each(|(servo, missed)| buses[servo.bus] += missed);
    buses.into_iter().enumerate().filter(|(_, missed)| *missed > 0).max_by_key(|(_, missed)| *missed)
}

/// What carries the frames of the bus where most replies were missed, or of all buses.
fn medium(config: &RobotConfig, tally: &Tally) -> Medium {
    let of = |bus: &BusConfig| match &bus.link {
        LinkConfig::Udp(_) => Medium::Network,
        LinkConfig::Rs485(_) => Medium::Serial,
        link if link.bus().moteus_only().is_some() => Medium::Serial,
        link if link.is_emulated() && !link.bus().has_checksum() => Medium::Any,
        _ => Medium::Can,
    };
    let worst = worst_of_buses(config, tally.missed_of(true))
        .or_else(|| worst_of_buses(config, tally.missed_of(false)));
    let mut media = config.buses.iter().map(of);
    match worst {
        Some((bus, _)) => of(&config.buses[bus]),
        None => media.next().filter(|first| media.all(|medium| medium == *first)).unwrap_or_default(),
    }
}

fn predict(config: &RobotConfig) -> Prediction {
    TickPlan::of(config, Inputs::of(config)).predict()
}

/// What the longest bus cycle is predicted to need, and until when its replies count.
const fn cycle_ns(predicted: &Prediction) -> (i64, i64) {
    (predicted.cycle_ns, predicted.counts_until_ns)
}

/// The bus cycle is predicted to be longer than its deadline allows.
pub(super) fn fits_not(config: &RobotConfig) -> bool {
    let (needed_ns, left_ns) = cycle_ns(&predict(config));
    needed_ns > left_ns
}

/// The bus that is in use longest, where the cycle does not fit.
fn slow_bus(config: &RobotConfig, predicted: &Prediction) -> Option<SlowBus> {
    let (needed_ns, left_ns) = cycle_ns(predicted);
    let (bus, share) = predicted.buses.iter().enumerate().max_by_key(|(_, bus)| bus.busy_ns)?;
    let is_asked_with_others = |servo: &ServoConfig| servo.family().settings().group().is_some();
    let (fits_hz, with_later_deadline) = predicted.spared_rate_hz();
    (needed_ns > left_ns).then(|| SlowBus {
        name: share.name.clone(),
        fits_hz,
        with_later_deadline,
        in_turn: config.servos_on(bus).any(|(_, servo)| is_asked_with_others(servo)),
    })
}

/// What a controlled tick usually takes, up to the end that overruns count from, without what others took of it: their time
/// is no fault of the controller's.
fn usual_of_its_own(tally: &Tally) -> Option<Usual> {
    let parts = tally.parts();
    let of = |names: &[&str]| {
        let parts = parts.iter().filter(|part| names.contains(&part.name.as_str()));
        parts.map(|part| part.time.p50).sum()
    };
    let parts = [
        (Cause::Controller, of(&["control"])),
        (Cause::Bus, of(&["bus", "imu"])),
        (Cause::Compute, of(&["encode", "send", "supervise"])),
    ];
    let lost = &tally.lost.time_ns;
    let taken_ns = lost.preempted + lost.blocked + lost.page_fault + lost.unaccounted;
    let ticks = tally.controlled().ticks.max(1) as i64;
    Usual::of(&parts, tally.counter.late_ns()).map(|usual| usual.without(taken_ns / ticks))
}

/// What brought the robot down.
fn broken(known: &Known<'_>, corrupt: u64, facts: &Facts) -> Broken {
    let Known { config, events, end, .. } = *known;
    let trouble = trouble(events);
    // Trouble may also come while the robot comes down as planned.
    let from_control = events.iter().find(|event| event.is_change() && event.from == Phase::Active.name());
    let after_s = from_control.map(|event| event.time_s);
    // Where computing alone takes too long, replies that are too late follow from it.
    let too_slow =
        known.tally.usual_outside().filter(|usual| trouble.is_none() && usual.most == Cause::Compute);
    if let Some(usual) = too_slow.filter(|usual| usual.tick_ns > known.pace.period_ns) {
        let what = format!("never under control: {}", usual.because(known.pace.period_ns));
        return Broken { after_s, what, remedy: Some(usual.remedy()) };
    }
    // Commands that do not come are no fault of the servo's.
    let named = trouble.filter(|event| controller_error(&event.cause).is_none());
    let follows = named.filter(|event| OF_A_HOLD_UP.iter().any(|words| event.cause.contains(words)));
    let groups = known.tally.counter.late_groups();
    let near = |event: &EventSummary| held_up(&known.tally.counter, known.pace.period_ns, event.tick);
    if let Some((held_up_ns, cause)) = follows.and_then(near) {
        let group = groups.iter().find(|group| group.cause == cause);
        let explained = group.and_then(|group| explained(facts, group));
        let why = explained.map_or(String::new(), |explained| format!(": {}", explained.words()));
        let what = format!("{end}, after the loop was held up for {}{why}", duration(held_up_ns as f64));
        return Broken { after_s, what, remedy: Some(explained.map_or(DOCTOR, Explained::remedy)) };
    }
    // Where a frame in a thousand ticks is damaged, so may be the one with the value.
    let damaged = corrupt + facts.unexpected_frames;
    let is_value = named.is_some_and(|event| OF_A_VALUE.iter().any(|words| event.cause.contains(words)));
    if is_value && damaged * 1000 >= known.tally.all().ticks.max(1) {
        let what = format!("{end}, perhaps of a frame that was damaged, or no reply to a query");
        return Broken { after_s, what, remedy: Some(SCAN) };
    }
    // A remedy for what was missing is better than one for the event it caused.
    let cause = trouble.map_or(end, |event| &event.cause);
    let remedy = match controller_error(cause) {
        Some(controller_error) => remedy_of_its_own(controller_error),
        None => missing::remedy(end).or_else(|| remedy(cause)),
    };
    let remedy = starved(config, remedy);
    Broken { after_s, what: end.to_owned(), remedy }
}

/// What brought the robot down.
pub(super) fn trouble(events: &[EventSummary]) -> Option<&EventSummary> {
    events.iter().find(|event| event.is_change() && event.trouble)
}

/// How long the loop was held up in or just before a tick, if that was for some periods, and by what.
fn held_up(counter: &Counter, period_ns: i64, tick: u64) -> Option<(i64, Cause)> {
    counter.longest_near(tick).filter(|(ns, _)| *ns >= 3 * period_ns)
}

/// What was warned of first, or that a stall was recovered from, as a sentence. A stall has one length: that of its tick, as beside its
/// cause.
pub(super) fn warned(events: &[EventSummary], late: &[LateGroup], period_ns: i64) -> Option<String> {
    let mut all = events.iter().filter(|event| event.trouble && !event.is_change());
    let first = all.clone().next()?;
    let event = all.find(|event| event.cause.starts_with(RECOVERED)).unwrap_or(first);
    let stall = stall_of(late, period_ns, event.tick).filter(|_| event.cause.starts_with(HELD_UP));
    let message = stall.map_or_else(|| event.text(), |ns| format!("{HELD_UP} {}", duration(ns as f64)));
    let more = match events.iter().filter(|event| event.trouble && !event.is_change()).count() {
        0 | 1 => String::new(),
        2 => " (and 1 more warning)".to_owned(),
        all => format!(" (and {} more warnings)", all - 1),
    };
    Some(format!("Warned of: {message}{more}."))
}

/// How long a stall was that was warned of in this tick, if it is one of those named beside their causes.
fn stall_of(groups: &[LateGroup], period_ns: i64, tick: u64) -> Option<i64> {
    let near =
        groups.iter().filter(|group| group.worst_tick.is_some_and(|worst| tick.wrapping_sub(worst) <= 5));
    near.filter_map(|group| group.worst_ns).max().filter(|ns| *ns >= 3 * period_ns)
}

/// Buses that went down by the events alone, and how often; a moment's outage is no event.
pub(super) fn downs(config: &RobotConfig, events: &[EventSummary]) -> Vec<(String, u64)> {
    let of = |bus: &BusConfig| {
        let cause = format!("bus {} is down", bus.name);
        (bus.name.clone(), events.iter().filter(|event| event.cause == cause).count() as u64)
    };
    config.buses.iter().map(of).filter(|(_, times)| *times > 0).collect()
}

/// How the supervisor reports a stall.
const HELD_UP: &str = "the loop was held up for";

/// The remedy, or that of replies that come late or not at all because the loop spins for them.
fn starved(config: Option<&RobotConfig>, remedy: Option<&'static str>) -> Option<&'static str> {
    let may =
        config.is_some_and(RobotConfig::may_starve_its_replies) && matches!(remedy, Some(SCAN | BUDGET));
    if may { Some(POLL) } else { remedy }
}

/// How a run ended, and whether that was as planned: nothing brought the robot down, and it came under control. `lack`: what
/// kept it from that, if it is known.
pub(super) fn ending(events: &[EventSummary], controlled: u64, lack: Option<String>) -> (String, bool) {
    let mut changes = events.iter().filter(|event| event.is_change());
    let trouble = changes.clone().find(|event| event.trouble);
    // What brought the robot down, not that it has arrived there.
    let down = trouble.or_else(|| changes.find(|event| event.from == "active" || event.to == "stopped"));
    let end = down.map_or_else(|| "did not end".to_owned(), EventSummary::text) + &left_on(events);
    if trouble.is_some() || controlled > 0 {
        return (end, trouble.is_none());
    }
    // A run that is stopped at once may have no tick under control.
    let had_begun = events.iter().any(|event| event.to == Phase::Active.name());
    if down.is_some_and(|down| down.cause == OperatorStop.to_string()) && !had_begun {
        let lack = lack.map_or_else(String::new, |lack| format!(": {lack}"));
        return (format!("{end} {TOO_EARLY}{lack}"), false);
    }
    let lack = if had_begun { Some("it had only begun".to_owned()) } else { lack };
    if end == FINISHED {
        let lack = lack.map_or_else(String::new, |lack| format!(": {lack}"));
        return (format!("{end} {TOO_EARLY}{lack}"), false);
    }
    let never = lack.map_or_else(|| NEVER.to_owned(), |lack| format!("never under control: {lack}"));
    (format!("{never}; {end}"), false)
}

/// The end of a run whose time was over.
const FINISHED: &str = "finished";

/// How the end of a run ends that was stopped during start-up: by Ctrl-C, another signal, or from a page.
pub(super) const TOO_EARLY: &str = "before it was under control";

/// How the end of a run begins that did not come under control, if the reason is not known.
pub(super) const NEVER: &str = "never under control: start-up was not over";

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

/// For replies that are missing or too late, where `receive` is `spin`.
const POLL: &str = "write `receive = \"poll\"` in `[loop]`: a loop that spins can keep the kernel from delivering the bytes of a serial \
                    port; if that is not it, check power, wiring and ids with `khz bus scan FILE`";

/// What a servo reports that received no command in time.
const WATCHDOG: &str = "the servo's own watchdog";

/// What a servo reports, or seems to report where a frame is damaged on its way.
const OF_A_VALUE: [&str; 8] = [
    "a value that is not a number",
    "beyond what its replies carry",
    "position jumped",
    "the position stays",
    "supply at",
    "°C",
    "rad, limit",
    "rad/s, limit",
];

/// How an event begins of a stall that was recovered from.
const RECOVERED: &str = "recovered after";

/// What follows where the loop was held up: depending on its family, a servo whose watchdog expired reports that, has a fault, or seems to
/// have restarted.
const OF_A_HOLD_UP: [&str; 4] = [WATCHDOG, "(communication lost)", "the servo restarted", "a tick overran"];

/// The error of a controller that gave up; older logs do not have it.
pub(crate) fn controller_error(cause: &str) -> Option<&str> {
    ["the controller failed: ", "the controller panicked: "]
        .iter()
        .find_map(|words| cause.strip_prefix(words))
}

/// What to do about a controller that gave up with this error, which is enough if there is nothing to do.
fn remedy_of_its_own(error: &str) -> Option<&'static str> {
    const WRONG_OUTPUT: &str = "the log's last `decision` has what it saw: compare that, the scales and the order of joints with the training";
    const IMU: &str = "check the IMU's power and connection";
    const REMEDIES: [(&str, Option<&str>); 9] = [
        (
            "its decisions are late",
            Some("raise `delay_ticks`, take a smaller model, or leave a CPU to the thread that decides"),
        ),
        ("it says ", Some(WRONG_OUTPUT)),
        ("it carries ", Some(WRONG_OUTPUT)),
        ("its observation has ", Some("see that value in the report: not every servo reports all of them")),
        ("its signal ", Some("look why its program stopped sending, or begin it before the run")),
        ("onnxruntime says", Some("try another version of onnxruntime")),
        ("the robot is tilted", None),
        ("the robot turns", None),
        ("it sees the IMU", Some(IMU)),
    ];
    let known = REMEDIES.into_iter().find(|(words, _)| error.starts_with(words));
    known.map_or(Some("correct the controller, or end the cause that it gives"), |(_, remedy)| remedy)
}

/// What to do about what brought a robot down, by how the supervisor calls it: a log has no more of it.
fn remedy(cause: &str) -> Option<&'static str> {
    const SERVO: &str =
        "see its voltage, temperature and torque in the report, and end the cause before a new run";
    const FAILED: &str = "see what it printed";
    const COMMAND: &str = "see the commands in the report, and correct the controller";
    const CUT_POWER: &str = "cut its power before you touch the robot, then check its wiring and firmware";
    const REMEDIES: [(&str, &str); 42] = [
        ("may still be on", CUT_POWER),
        ("the servo is still on", CUT_POWER),
        ("position jumped", SERVO),
        ("the position stays", SERVO),
        ("which cannot be", SCAN),
        ("so nothing can react to it", "update the servo's firmware, or do without the value in `query`"),
        ("replies come too late", BUDGET),
        (
            "the controller was preempted",
            "leave a CPU free of real-time loops: pin them with `loop.cpu`, or run fewer on this computer",
        ),
        ("the loop was held up", DOCTOR),
        ("overran", DOCTOR),
        ("overruns in a row", DOCTOR),
        ("heartbeat", "check the operator's connection"),
        (
            "no targets",
            "look why the program stopped sending; `hold` tells the robot that it will be silent for a while",
        ),
        ("answers more than it is asked", SCAN),
        ("servo fault", SERVO),
        (WATCHDOG, SERVO),
        ("the servo restarted", SERVO),
        ("the servo reports", SERVO),
        ("a frame was damaged", SCAN),
        ("the servo refused", SERVO),
        ("the servo stays", SERVO),
        ("the servo is not seen to", SCAN),
        ("beyond what its replies carry", SERVO),
        ("no reply in time for", SCAN),
        // In logs of before.
        ("replies missed in a row", SCAN),
        ("no reply during start-up", SCAN),
        ("two replies to one query", SCAN),
        (" ms old", SCAN),
        ("the controller failed", FAILED),
        ("the controller panicked", FAILED),
        ("the controller took too long", CONTROLLER),
        (
            "IMU",
            "check the IMU's power and connection, and with `khz check FILE` that its reading fits the deadline",
        ),
        ("the body leans", "see the IMU in the report"),
        ("a command is", COMMAND),
        ("a torque on a joint", COMMAND),
        ("was commanded", COMMAND),
        ("cannot be sent", COMMAND),
        ("supply at", "charge the battery, or check the supply under load"),
        ("°C", "let the servos cool, and see the torques in the report"),
        ("rad, limit", "compare the joint in the report with its `limits`"),
        ("rad/s, limit", "compare the joint in the report with its `limits`"),
        ("is down", SCAN),
    ];
    REMEDIES.into_iter().find(|(words, _)| cause.contains(words)).map(|(_, remedy)| remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_loop::Mode;
    use khz_loop::supervisor::{Cause, Trigger};
    use std::sync::LazyLock;

    fn event(from: &str, to: &str, cause: &str, trouble: bool) -> EventSummary {
        let phase =
            |name| Phase::ALL.map(Phase::name).into_iter().find(|phase| *phase == name).unwrap_or("init");
        let (from, to, cause) = (phase(from), phase(to), cause.to_owned());
        EventSummary { time_s: 0.0, tick: 0, from, to, cause, servo: None, bus: None, trouble }
    }

    /// "Held up for 14.3 ms" stood beside "worst 15.1 ms", of one stall.
    #[test]
    fn a_stall_that_is_warned_of_has_one_length() {
        let stall = LateGroup {
            cause: khz_rt::Cause::Preempted,
            ticks: 1,
            lost_ns: 15_000_000,
            stopped_ns: 0,
            lost_periods: 15,
            overruns: 1,
            late_wakes: 1,
            worst_ns: Some(15_100_000),
            worst_tick: Some(7),
        };
        let warning = Cause::LoopHeldUp { of: Trigger::Overruns, held_up_ns: 14_300_000 }.to_string();
        let message = |tick| {
            let event = EventSummary { tick, ..event("active", "active", &warning, true) };
            warned(&[event], &[stall], 1_000_000)
        };
        assert_eq!(message(8).as_deref(), Some("Warned of: the loop was held up for 15.1 ms."));
        assert_eq!(message(80).as_deref(), Some("Warned of: the loop was held up for 14.3 ms."));
    }

    #[test]
    fn what_brings_a_robot_down_has_a_remedy_that_fits() {
        let remedy_of = |cause: Cause| remedy(&cause.to_string()).unwrap_or_default();
        // Those that come too late do come, so nothing is wrong with the wiring.
        assert!(remedy_of(Cause::NotSeen { servo: 0, late: true }).contains("khz budget"));
        assert!(remedy_of(Cause::NotSeen { servo: 0, late: false }).contains("khz bus scan"));
        assert_eq!(
            remedy_of(Cause::LoopHeldUp { of: Trigger::Stale, held_up_ns: 60_000_000 }),
            "run `khz doctor`"
        );
        let preempted = Cause::ControllerPreempted { count: 51, took_ns: 51_000_000, waited_ns: 50_900_000 };
        assert!(remedy_of(preempted).contains("`loop.cpu`"));
        for (cause, words) in [
            (Cause::HeartbeatLost { age_ns: 1 }, "operator"),
            (Cause::ServoTimedOut { servo: 0 }, "end the cause"),
            (Cause::ServoReset { servo: 0 }, "end the cause"),
            (Cause::ServoNotFinite { servo: 0 }, "end the cause"),
            (Cause::PositionOutOfLimits { servo: 0, position: 2.0, limit: 1.0 }, "`limits`"),
            (Cause::TooFast { servo: 0, velocity: 2.0, limit: 1.0 }, "`limits`"),
            (Cause::MissedReplies { servo: 0, count: 10 }, "khz bus scan"),
            (Cause::Stale { servo: 0, age_ns: 20_000_000 }, "khz bus scan"),
            (Cause::DuplicateReplies { servo: 0 }, "khz bus scan"),
            (Cause::BusDown { link: 0 }, "khz bus scan"),
            (Cause::Overruns { count: 1 }, "khz doctor"),
            (Cause::Overruns { count: 5 }, "khz doctor"),
            (Cause::ImuSilent { age_ns: 1 }, "IMU's power"),
            (Cause::ImuNotFinite, "IMU's power"),
            (Cause::Tilt { angle: 1.0 }, "IMU in the report"),
            (Cause::CommandNotFinite { servo: 0 }, "correct the controller"),
            (Cause::CommandOutOfLimits { servo: 0 }, "correct the controller"),
            (Cause::TorqueNotBraked { servo: 0 }, "correct the controller"),
            (Cause::ControllerFailed, "printed"),
            (Cause::ControllerPanicked, "printed"),
            (Cause::ControllerSlow { count: 3, took_ns: 1 }, "pipelined"),
            (Cause::VoltageLow { servo: 0, volts: 9.0 }, "battery"),
            (Cause::Hot { servo: 0, celsius: 90.0 }, "cool"),
            (Cause::Hot { servo: 0, celsius: 434.6 }, "khz bus scan"),
            (Cause::VoltageLow { servo: 0, volts: 0.2 }, "khz bus scan"),
            (Cause::ServoNotReportedOff { servo: 0 }, "cut its power"),
            (Cause::ServoStillOn { servo: 0, mode: Mode::UNKNOWN }, "cut its power"),
            (Cause::ServoNotObeying { servo: 0, mode: Mode::UNKNOWN }, "end the cause"),
            (Cause::ServoNotObeying { servo: 0, mode: Mode::UNREPORTED }, "khz bus scan"),
            (Cause::PositionJumped { servo: 0, from: 0.0, to: 1.0 }, "end the cause"),
            (Cause::PositionJumped { servo: 0, from: 1.0, to: 1.0 }, "end the cause"),
            (Cause::ImuFrozen { for_ns: 1 }, "IMU's power"),
            (Cause::VoltageUnknown { servo: 0 }, "firmware"),
            (Cause::TemperatureUnknown { servo: 0 }, "firmware"),
        ] {
            assert!(remedy_of(cause).contains(words), "{cause}: {}", remedy_of(cause));
        }
    }

    /// An ONNX model prints nothing, and its error is none of the supervisor's.
    #[test]
    fn a_controller_that_gave_up_has_a_remedy_for_its_error() {
        let remedy_of = |error: &str| {
            let cause = format!("{}: {error}", Cause::ControllerFailed);
            let events = [event("active", "damping", &cause, true)];
            let facts = Facts { unexpected_frames: 9, ..Facts::default() };
            let broken = broken(&known(None, &events, &cause), 1_000, &facts);
            assert_eq!(broken.what, cause);
            broken.remedy
        };
        for (error, words) in [
            ("it says NaN for the joint `elbow`", "last `decision`"),
            (
                "it says more than `action.clip` in 3 decisions in a row (`max_clipped`): 5 for the joint `elbow`",
                "training",
            ),
            ("it carries inf to the next decision, in its output `h`", "last `decision`"),
            (
                "its decisions are late, `max_late` in a row: they take longer than `delay_ticks`",
                "`delay_ticks`",
            ),
            ("its observation has NaN: term `joint_torque`, of the joint `elbow`", "in the report"),
            ("its signal `lift` was never set: start the program that sends it first", "its program"),
            ("onnxruntime says: Invalid Feed", "another version of onnxruntime"),
            ("it sees the IMU, which has no reading yet", "IMU's power"),
            // Errors of others are not explained.
            (
                "walk raised ValueError('supply at 9 V, IMU at 90 °C, rad, limit, a tick overran')",
                "correct the controller",
            ),
            ("no reply during start-up, says the planner", "correct the controller"),
        ] {
            assert!(
                remedy_of(error)
                    .is_some_and(|remedy_of| remedy_of.contains(words) && !remedy_of.contains("printed")),
                "{error}: {:?}",
                remedy_of(error)
            );
        }
        assert_eq!(remedy_of("the robot is tilted by more than 60°: put it upright"), None);
    }

    fn known<'a>(config: Option<&'a RobotConfig>, events: &'a [EventSummary], end: &'a str) -> Known<'a> {
        static TALLY: LazyLock<Tally> = LazyLock::new(|| Tally::new(100_000));
        let (tally, pace) = (&*TALLY, Pace::default());
        Known { config, tally, pace, virtual_time: false, events, end, ended_well: false, servos: &[] }
    }

    #[test]
    fn of_a_stall_the_verdict_says_that_it_was_recovered_from() {
        let held_up = Cause::LoopHeldUp { of: Trigger::Overruns, held_up_ns: 60_000_000 };
        let recovered = Cause::Recovered { servo: 1, moved: -0.0011, held_up_ns: 61_000_000 };
        let events = [held_up, recovered].map(|cause| event("active", "active", &cause.to_string(), true));
        let warning = |events: &[EventSummary]| warned(events, &[], 1_000_000).unwrap();
        assert!(warning(&events).contains("recovered after 61 ms without the loop, moved 1.1 mrad"));
        assert!(warning(&events[..1]).contains("the loop was held up for 60.0 ms"));
    }

    #[test]
    fn a_servo_that_timed_out_while_the_loop_was_held_up_is_not_blamed_whatever_its_family() {
        let pace = Pace { period_ns: 1_000_000, by_sensor: false };
        let mut tally = Tally::new(100_000);
        for number in 0..300_u64 {
            // The one that ended the run is not the longest.
            let held_up_ns = match number {
                150 => 120_000_000,
                250 => 100_000_000,
                _ => 0,
            };
            let planned_ns = number as i64 * pace.period_ns;
            let started_ns = planned_ns + held_up_ns;
            let skipped = (held_up_ns / pace.period_ns - 1).max(0) as u32;
            let tick = khz_run::record::Tick {
                number,
                planned_ns,
                waited_for_ns: planned_ns,
                due_ns: planned_ns,
                started_ns,
                wake_latency_ns: held_up_ns,
                controlled: true,
                skipped,
                ..khz_run::record::Tick::UNKNOWN
            };
            tally.count(&tick, pace);
        }
        let end = |tick, cause: &str, stopped_ns| {
            let events = [EventSummary { tick, ..event("active", "damping", cause, true) }];
            let stops = Stops { stopped_ns, ..Stops::default() };
            let facts = Facts { stops, late: tally.counter.late_groups(), ..Facts::default() };
            broken(&Known { tally: &tally, pace, ..known(None, &events, cause) }, 0, &facts)
        };
        // Overruns are of the loop itself, if it may not overrun at all.
        for cause in [
            Cause::ServoTimedOut { servo: 0 }.to_string(),
            Cause::ServoReset { servo: 0 }.to_string(),
            Cause::Overruns { count: 1 }.to_string(),
            "servo fault 13 (communication lost)".to_owned(),
        ] {
            let shown = end(251, &cause, 0);
            assert_eq!(shown.what, format!("{cause}, after the loop was held up for 100 ms"));
            assert_eq!(shown.remedy, Some(DOCTOR));
            assert_eq!(end(290, &cause, 0).what, cause);
            let shown = end(251, &cause, 215_000_000);
            assert!(shown.what.ends_with("held up for 100 ms: it was stopped from outside (a signal, a debugger, a frozen control group)"));
            assert!(
                shown.remedy.is_some_and(|remedy| remedy.starts_with("keep whatever stops")),
                "{shown:?}"
            );
        }
        assert_eq!(
            end(251, "joint at 2.000 rad, limit 1.000 rad", 0).what,
            "joint at 2.000 rad, limit 1.000 rad"
        );
    }

    /// "434.6 °C: let the servos cool" stood where frames were seen to be damaged.
    #[test]
    fn a_value_among_damaged_frames_is_not_the_servos_for_certain() {
        let down = |cause: &str, corrupt, unexpected_frames| {
            let events = [event("active", "damping", cause, true)];
            let facts = Facts { unexpected_frames, ..Facts::default() };
            broken(&known(None, &events, cause), corrupt, &facts)
        };
        let hot = down("434.6 °C (s1 on bus main)", 1_200, 3);
        let what = "434.6 °C (s1 on bus main), perhaps of a frame that was damaged, or no reply to a query";
        assert_eq!((hot.what.as_str(), hot.remedy), (what, Some(SCAN)));
        let cool = down("434.6 °C (s1 on bus main)", 0, 0);
        assert!(
            cool.what == "434.6 °C (s1 on bus main)"
                && cool.remedy.is_some_and(|remedy| remedy.contains("cool"))
        );
        assert_eq!(down("no reply in time for 10 ticks", 5, 5).what, "no reply in time for 10 ticks");
    }

    /// With the defaults the bytes come, as the loop sleeps until the kernel has some.
    #[test]
    fn a_loop_that_spins_beside_a_serial_port_is_advised_to_poll() {
        let of = |receive: &str, link: &str, cause: &str| {
            let servo = "[[servo]]\nname = \"knee\"\nbus = \"legs\"\nid = 1\n";
            let file = format!("[loop]\nreceive = \"{receive}\"\n[bus.legs]\n{link}\n{servo}");
            let config = RobotConfig::parse(&file, "leg.toml").unwrap();
            let down = [event("active", "damping", cause, true)];
            broken(&known(Some(&config), &down, cause), 0, &Facts::default()).remedy.unwrap_or_default()
        };
        let (serial, missed) = ("link = \"rs485\"\npath = \"/dev/ttyUSB0\"", "no reply in time for 5 ticks");
        assert!(of("spin", serial, missed).contains("write `receive = \"poll\"` in `[loop]`"));
        assert!(of("spin", serial, "no reply during start-up").contains("`receive = \"poll\"`"));
        assert!(!of("poll", serial, missed).contains("receive"));
        assert!(!of("spin", "link = \"emulated\"", missed).contains("receive"));
        assert!(!of("spin", serial, "supply at 9.0 V").contains("receive"));
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
        assert_eq!(ending(&events, 9, None), only, "and no end as planned");
        events.extend([on("fault", "hip"), on("fault", "ankle")]);
        assert_eq!(ending(&events, 9, None).0, only.0 + "; may still be on, cut the power: hip, ankle");
    }

    #[test]
    fn a_warning_is_not_what_ended_a_run() {
        let mut events = vec![
            event("armed", "active", "controller started", false),
            event("active", "active", "supply at 10.0 V", true),
            event("active", "damping", "finished", false),
            event("damping", "stopped", "every joint stands still", false),
        ];
        assert_eq!(ending(&events, 9, None), ("finished".to_owned(), true));
        assert_eq!(ending(&events[..2], 9, None), ("did not end".to_owned(), true));
        events[2] = event("active", "damping", "no reply in time for 10 ticks", true);
        assert_eq!(ending(&events, 9, None), ("no reply in time for 10 ticks".to_owned(), false));
    }

    #[test]
    fn trouble_after_a_planned_end_does_not_mean_that_it_was_never_under_control() {
        let mut events = [
            event("active", "damping", "finished", false),
            event("damping", "fault", "the servo did not say often enough that it is off", true),
        ];
        events[0].time_s = 2.0;
        let (end, well) = ending(&events, 9, None);
        assert!(
            !well && broken(&known(None, &events, &end), 0, &Facts::default()).after_s == Some(2.0),
            "{end}"
        );
    }

    #[test]
    fn a_run_without_a_controlled_tick_did_not_end_well() {
        let stopped = [event("init", "stopped", "stopped by the operator", false)];
        let lack = Some("no reply during start-up (knee on bus left)".to_owned());
        let (end, well) = ending(&stopped, 0, lack);
        assert_eq!(
            end,
            "stopped by the operator before it was under control: no reply during start-up (knee on bus left)"
        );
        let remedy = broken(&known(None, &stopped, &end), 0, &Facts::default()).remedy;
        assert!(!well && remedy.is_some_and(|remedy| remedy.contains("khz bus scan")));
        // Ctrl-C in start-up: nothing else is known to have been wrong.
        let (end, well) = ending(&stopped, 0, None);
        assert_eq!((end.as_str(), well), ("stopped by the operator before it was under control", false));
        let over = [event("init", "stopped", "finished", false)];
        assert_eq!(ending(&over, 0, None).0, "finished before it was under control");
    }
}
