//! What the verdict on a run is made of: from the run itself, or from its log.

mod remedies;

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
    BUDGET, Broken, DOCTOR, Explained, Facts, Medium, RobotFile, SCAN, SlowBus, Stops, Uncontrolled,
    explained,
};
pub(crate) use remedies::controller_error;
use remedies::{OF_A_HOLD_UP, OF_A_VALUE, OF_AN_ORDER, POLL, RECOVERED, remedy, remedy_of_its_own};

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
    (predicted.needed_ns(), predicted.counts_until_ns)
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
    // A servo that does not get a question's number answers it as if it were the one before.
    let is_order = trouble.is_some_and(|event| OF_AN_ORDER.iter().any(|words| event.cause.contains(words)));
    let fits = facts.cycle_ns.is_none_or(|(needed_ns, left_ns)| needed_ns <= left_ns);
    if is_order && fits && corrupt > facts.late_replies + facts.duplicates {
        let what = format!("{end}, perhaps because frames were damaged");
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

/// What brought the robot down, or went wrong while it came down as planned.
pub(super) fn trouble(events: &[EventSummary]) -> Option<&EventSummary> {
    events.iter().find(|event| event.is_change() && event.trouble)
}

/// Why a robot came down in which something went wrong only then.
pub(super) fn planned(events: &[EventSummary]) -> Option<&EventSummary> {
    let is_down =
        |phase: &str| [Phase::Damping, Phase::Stopped, Phase::Fault].iter().any(|is| is.name() == phase);
    let at = events.iter().position(|event| event.is_change() && event.trouble)?;
    let descent = events[..at].iter().rfind(|event| is_down(event.to) && !is_down(event.from));
    descent.filter(|_| is_down(events[at].from))
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
    let trouble = trouble(events);
    // What brought the robot down, not that it has arrived there.
    let down = trouble.or_else(|| changes.find(|event| event.from == "active" || event.to == "stopped"));
    let reason = planned(events).map_or_else(String::new, |planned| format!("{}, and then ", planned.cause));
    let end = down.map_or_else(|| "did not end".to_owned(), |down| reason + &down.text()) + &left_on(events);
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

#[cfg(test)]
mod tests;
