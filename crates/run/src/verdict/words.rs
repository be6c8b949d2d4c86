//! What words a verdict: what happened, and why.

use super::causes::*;
use super::cures::cure_of_group;
use super::{BAD_SHARE, CHANGED_SHARE, Facts, SENSOR_OFF, SlowBus, held, off_rate};
use crate::commands::SCAN;
use crate::costs::LateGroup;
use khz_page::{Level, Verdict, counted, duration, grouped};
use khz_rt::{Cause, Grade};

pub(super) fn failures(facts: &Facts) -> impl Iterator<Item = String> {
    let broken = facts.broken.as_ref().map(|broken| format!("It ended with: {}.", broken.what));
    broken.into_iter().chain(stopped(facts).map(|stopped| format!("It {stopped}.")))
}

pub(super) fn lost(facts: &Facts) -> Option<(Level, String)> {
    let share = facts.lost as f64 / facts.periods.max(1) as f64;
    let level = if share >= BAD_SHARE { Level::Bad } else { Level::Warning };
    let (lost, periods) = (counted(facts.lost, "period"), grouped(facts.periods));
    match (facts.periods, facts.lost) {
        (0, _) if facts.broken.is_some() => None,
        (0, _) => Some((Level::Warning, "The robot was never controlled.".into())),
        (_, 0) if held(facts) => None,
        (_, 0) => Some((Level::Warning, format!("The rate was {:.2} Hz.", facts.rate_hz))),
        _ => Some((level, format!("{lost} of {periods} passed without a tick."))),
    }
}

pub(super) fn late_ticks(facts: &Facts) -> impl Iterator<Item = String> {
    let found = [
        (facts.late_wakes, format!("{} started a period or more late.", counted(facts.late_wakes, "tick"))),
        (facts.overruns, format!("{} overran.", counted(facts.overruns, "tick"))),
    ];
    occurred(found).chain(outside(facts))
}

/// What happened while motors were switched on, or while coming down.
pub(super) fn outside(facts: &Facts) -> Option<String> {
    let outside = &facts.outside;
    let of = missed_outside(facts);
    let worst = (outside.worst_servo.as_ref(), outside.worst_bus.as_ref());
    let missed = missed_text(of, worst, fits_well(facts), "") + &quiet(outside.quiet, of.all());
    let late = beyond(facts, late_outside(facts), of.late);
    let found = [
        (outside.lost, format!("{} passed without a tick", counted(outside.lost, "period"))),
        (
            outside.late_wakes,
            format!("{} started a period or more late", counted(outside.late_wakes, "tick")),
        ),
        (outside.overruns, format!("{} overran", counted(outside.overruns, "tick"))),
        (outside.missed_replies, missed),
        (late, format!("{} late", were(late, "reply", "replies"))),
    ];
    let message: Vec<String> = occurred(found).collect();
    let when = match facts.begins_late || facts.has_gaps {
        true => "during start-up, while coming down, or just after ticks that are not in the log",
        false => "during start-up or while coming down",
    };
    (!message.is_empty()).then(|| format!("{} {when}.", message.join(", ")))
}

pub(super) fn missed_replies(facts: &Facts) -> impl Iterator<Item = (Level, String)> {
    let clean = clean_misses(facts);
    let (off, computing) = (facts.missed_while_off_cpu, facts.missed_while_computing);
    let worst = (facts.worst_servo.as_ref(), facts.worst_bus.as_ref());
    let message = missed_text(missed(facts), worst, fits_well(facts), &never_fits(facts));
    let message = format!("{message}{}{}.", quiet(facts.quiet, clean), on_the_wire(facts));
    let reasons = [
        (clean, Level::Bad, message),
        (
            off,
            Level::Warning,
            format!("{} missed while the loop was off its CPU.", were(off, "reply", "replies")),
        ),
        (
            computing,
            Level::Warning,
            format!("{} missed because computing took too long.", were(computing, "reply", "replies")),
        ),
    ];
    reasons.into_iter().filter(|(count, ..)| *count > 0).map(|(_, level, reason)| (level, reason))
}

/// What a miss cost besides where nothing but a state can be asked for.
fn quiet(queries: u64, missed: u64) -> String {
    let them = if missed == 1 { "it" } else { "them" };
    match queries {
        0 => String::new(),
        queries => format!(", and after {them} {} not sent", were(queries, "query", "queries")),
    }
}

/// What happened on the wire meanwhile: `, and bus main went down twice, and 8 frames were damaged`.
fn on_the_wire(facts: &Facts) -> String {
    wire_faults(facts).into_iter().map(|fault| format!(", and {fault}")).collect()
}

pub(super) fn wire_faults(facts: &Facts) -> Vec<String> {
    let damaged =
        (facts.damaged_frames > 0).then(|| were(facts.damaged_frames, "frame", "frames") + " damaged");
    facts.downs.iter().map(went_down).chain(damaged).collect()
}

fn went_down((bus, times): &(String, u64)) -> String {
    match times {
        1 => format!("bus {bus} went down once"),
        2 => format!("bus {bus} went down twice"),
        times => format!("bus {bus} went down {} times", grouped(*times)),
    }
}

/// Who missed most replies: a servo, and of several buses one, each with how many.
type Worst<'a> = (Option<&'a (String, u64)>, Option<&'a (String, u64)>);

/// What became of missed replies, and whose they were. `fits`: there is time enough for all of them; `why`: what makes them late, if that
/// is known.
fn missed_text(missed: Missed, (servo, bus): Worst<'_>, fits: bool, why: &str) -> String {
    let (all, Missed { late, unasked, gone }) = (missed.all(), missed);
    let stands_out = |(_, count): &&(String, u64)| count * 3 >= all * 2;
    let bus = bus.filter(stands_out);
    let colon = if why.is_empty() { "" } else { ": " };
    match late {
        0 if unasked == 0 => {
            format!("{} missed{}{colon}{why}", were(all, "reply", "replies"), whose(all, servo, bus, "by"))
        }
        // Where the time is too short for all, who missed most need not be who is late most.
        _ if late == all => {
            let servo = servo.filter(|_| fits).filter(stands_out);
            format!("{} late{}{colon}{why}", were(all, "reply", "replies"), whose(all, servo, bus, "all by"))
        }
        _ => {
            let found = [(late, "came late"), (unasked, "were not requested"), (gone, "did not come")];
            let shares = found.into_iter().filter(|(count, _)| *count > 0);
            let shares: Vec<String> =
                shares.map(|(count, what)| format!("{} {what}", grouped(count))).collect();
            let (missed, whose) = (were(all, "reply", "replies"), whose(all, None, bus, ""));
            format!("{missed} missed{whose}, of which {}{colon}{why}", shares.join(", "))
        }
    }
}

/// ` by knee on bus left`, ` on bus left (most often by knee: 4)`.
fn whose(all: u64, servo: Option<&(String, u64)>, bus: Option<&(String, u64)>, by: &str) -> String {
    let has_all = |of: &&(String, u64)| of.1 == all;
    let on = bus.filter(has_all).map_or(String::new(), |(bus, _)| format!(" on bus {bus}"));
    if let Some((servo, _)) = servo.filter(has_all) {
        return if by == "by" { format!(" by {servo}{on}") } else { format!(" ({by} {servo}{on})") };
    }
    let on_bus =
        bus.filter(|_| on.is_empty()).map(|(bus, count)| format!("on bus {bus}: {}", grouped(*count)));
    let by_servo = servo.map(|(servo, count)| format!("by {servo}: {}", grouped(*count)));
    let most: Vec<String> = on_bus.into_iter().chain(by_servo).collect();
    if most.is_empty() { on } else { format!("{on} (most often {})", most.join(", ")) }
}

/// The cycle is longer than its deadline.
pub(super) fn never_fits(facts: &Facts) -> String {
    let (needed_ns, left_ns) = facts.cycle_ns.filter(|_| fits_not(facts)).unwrap_or_default();
    let [needed, left] = [needed_ns, left_ns].map(|ns| duration(ns as f64));
    if needed_ns == 0 {
        String::new()
    } else {
        let fits = facts.slow_bus.as_ref().map_or(String::new(), fits);
        format!("the longest bus cycle needs {needed}, its deadline leaves {left}{fits}")
    }
}

/// ` (bus main: up to 820 Hz fit with 5 % to spare)`.
fn fits(bus: &SlowBus) -> String {
    let SlowBus { name, fits_hz, with_later_deadline, .. } = bus;
    let later = if *with_later_deadline { " and a later `loop.bus_deadline_us`" } else { "" };
    format!(" (bus {name}: up to {fits_hz} Hz fit with 5 % to spare{later})")
}

/// What brought a robot down, or kept it from control, is that replies come late.
pub(super) fn never_came_in_time(facts: &Facts) -> String {
    let was_controlled = facts.broken.as_ref().is_some_and(|broken| broken.after_s.is_some());
    let count = match was_controlled {
        // What came late while it came down is not what brought it there.
        true => {
            Some(missed(facts).late).filter(|late| *late > 0).unwrap_or_else(|| late_under_control(facts))
        }
        false => facts.late_replies,
    };
    let late = if count > 0 { format!("{} late", were(count, "reply", "replies")) } else { String::new() };
    match is_broken_by_late_replies(facts) {
        true if fits_not(facts) && count > 0 => format!("; {late}: {}", never_fits(facts)),
        true if fits_not(facts) => format!("; {}", never_fits(facts)),
        true if count > 0 => format!("; {late}"),
        _ => String::new(),
    }
}

/// What makes a run that lost nothing worse than it looks.
pub(super) fn quality(facts: &Facts) -> impl Iterator<Item = String> {
    [late_starts(facts), sensor_off(facts), changed(facts), not_done(facts)].into_iter().flatten()
}

pub(super) fn late_starts(facts: &Facts) -> Option<String> {
    let (p99_ns, _) = facts.wake_ns.filter(|(p99_ns, late_ns)| p99_ns > late_ns && !facts.virtual_time)?;
    let (p99, period) = (duration(p99_ns as f64), duration(period_ns(facts) as f64));
    Some(format!("1 % of the ticks started {p99} late or more, of a period of {period}."))
}

pub(super) fn sensor_off(facts: &Facts) -> Option<String> {
    let is_off = facts.sensor_paced && facts.periods > 0 && off_rate(facts) > SENSOR_OFF && held(facts);
    is_off
        .then(|| format!("The sensor paces the loop at {:.1} Hz, not {} Hz.", facts.rate_hz, facts.target_hz))
}

pub(super) fn changed(facts: &Facts) -> Option<String> {
    let (changed, commands) = facts.changed?;
    (changed > 0 && changed as f64 >= CHANGED_SHARE * commands as f64).then(|| {
        let (changed, commands) = (grouped(changed), counted(commands, "command"));
        format!("{changed} of {commands} were changed to keep the joints within their limits.")
    })
}

pub(super) fn not_done(facts: &Facts) -> Option<String> {
    let (not_done, ticks, age_ns) = facts.not_done.filter(|(not_done, ..)| *not_done > 0)?;
    let (not_done, ticks, age) = (grouped(not_done), counted(ticks, "tick"), duration(age_ns as f64));
    Some(format!("The controller was not done in {not_done} of {ticks}: commands were up to {age} old."))
}

/// What was wrong on the buses though every servo was answered for.
pub(super) fn blemishes(facts: &Facts) -> impl Iterator<Item = String> {
    // Those of start-up and of coming down are reported with them.
    let late_replies = beyond(facts, late_under_control(facts), missed(facts).late);
    let late = were(late_replies, "reply", "replies");
    let duplicates = match facts.duplicates {
        1 => "1 reply was a duplicate".to_owned(),
        replies => format!("{} replies were duplicates", grouped(replies)),
    };
    let unexpected = were(facts.unexpected_frames, "frame", "frames");
    let imu = were(facts.imu_missed, "IMU reading", "IMU readings");
    let unpaced = were(facts.without_frame, "tick", "ticks");
    let early = were(facts.early_frames, "pace frame", "pace frames");
    // Beside missed replies it is reported with them.
    let wire = if clean_misses(facts) == 0 { wire_faults(facts) } else { Vec::new() };
    let wire = wire.into_iter().map(|fault| capitalized(&fault) + ".");
    let others = occurred([
        (late_replies, format!("{late} late: to the query of an earlier tick.")),
        (facts.duplicates, format!("{duplicates}: two servos may have the same id.")),
        (
            facts.late_or_duplicates,
            format!(
                "{} late or duplicates: a log does not tell which.",
                were(facts.late_or_duplicates, "reply", "replies")
            ),
        ),
        (
            facts.unexpected_frames,
            format!("{unexpected} no reply to a query: something else may send on the bus."),
        ),
        (facts.imu_missed, format!("{imu} missed.")),
        (facts.without_frame, format!("{unpaced} started by the timer, without a pace frame.")),
        (facts.early_frames, format!("{early} too early to start a tick: {}.", early_advice(facts))),
    ]);
    wire.chain(others)
}

fn capitalized(text: &str) -> String {
    text.strip_prefix("bus ").map_or_else(|| text.to_owned(), |rest| format!("Bus {rest}"))
}

/// Late replies besides those that were reported as missed in time. A few more are those of queries that were reported as a whole.
fn beyond(facts: &Facts, late: u64, message: u64) -> u64 {
    let more = late.saturating_sub(message);
    if more * 100 <= missed(facts).late + missed_outside(facts).late { 0 } else { more }
}

/// Of a sensor that is faster than the loop, or of one whose frames come bunched: those leave as many ticks without one.
pub(super) fn early_advice(facts: &Facts) -> &'static str {
    let bunched = facts.without_frame as f64 + SENSOR_OFF * facts.periods as f64;
    if facts.early_frames as f64 > bunched {
        "set `loop.rate_hz` to the sensor's rate"
    } else {
        "they came bunched, so look for what delays them (`khz doctor` knows the delays of adapters)"
    }
}

pub(super) fn occurred<const N: usize>(found: [(u64, String); N]) -> impl Iterator<Item = String> {
    found.into_iter().filter(|(count, _)| *count > 0).map(|(_, reason)| reason)
}

/// What the thread asked for and was not granted.
pub(super) fn set_up(facts: &Facts) -> Option<String> {
    let grade = facts.granted.filter(|grade| *grade != Grade::RealTime && !facts.virtual_time)?;
    Some(match grade {
        Grade::Ordinary => "The loop thread was not granted real-time scheduling.".into(),
        _ => "The loop thread was not granted all it asked for.".into(),
    })
}

/// `stopped on an overrun after 1 of 2,000 ticks`, if it did.
pub(super) fn stopped(facts: &Facts) -> Option<String> {
    let (ticks, planned) = facts.stopped?;
    Some(format!("stopped on an overrun after {} of {} ticks", grouped(ticks), grouped(planned)))
}

pub(super) fn headline(facts: &Facts) -> String {
    if let Some(broken) = &facts.broken {
        return match broken.after_s {
            Some(after_s) => format!("came down after {}", duration(after_s * 1e9)),
            None if facts.begins_late => "not under control in these files".into(),
            None => "never under control".into(),
        };
    }
    let clean = clean_misses(facts);
    // A missed reply is bad: a badge must name it beside the rate.
    let replies = if clean == 1 { "reply" } else { "replies" };
    let shares = missed(facts);
    let missed = match shares.late == clean {
        true => format!(", {} {replies} late", grouped(clean)),
        false if shares.are_both() => {
            format!(", missed {} {replies}, {} of them late", grouped(clean), grouped(shares.late))
        }
        false => format!(", missed {} {replies}", grouped(clean)),
    };
    rate(facts) + if clean > 0 { &missed } else { "" }
}

/// Whether the rate was held, and by how much not.
pub(super) fn rate(facts: &Facts) -> String {
    let target = facts.target_hz;
    if let Some(stopped) = stopped(facts) {
        return format!("did not hold {target} Hz: {stopped}");
    }
    match (facts.periods, facts.lost) {
        (0, _) => format!("never ran at {target} Hz"),
        (_, 0) if held(facts) && facts.virtual_time => format!("held {target} Hz of virtual time"),
        (_, 0) if sensor_off(facts).is_some() => format!("held its sensor's rate of {:.1} Hz", facts.rate_hz),
        (_, 0) if held(facts) => format!("held {target} Hz"),
        (_, 0) => format!("did not hold {target} Hz: ran at {:.2} Hz", facts.rate_hz),
        (periods, lost) => {
            format!("did not hold {target} Hz: lost {} of {}", grouped(lost), counted(periods, "period"))
        }
    }
}

/// What the sentence begins with: what broke comes first, then whether the rate was held.
pub(super) fn what(facts: &Facts, verdict: &Verdict) -> String {
    let rate = rate(facts);
    let real_time = set_up(facts).filter(|_| verdict.held).map_or("", |_| " without real-time scheduling");
    match &facts.broken {
        Some(broken) => {
            let late = never_came_in_time(facts);
            let wire = match broken.remedy {
                Some(SCAN) => on_the_wire(facts),
                // A servo behind a bus that is down cannot report that it is off.
                _ if broken.what.contains("may still be on") => {
                    facts.downs.iter().map(|of| format!("; {}", went_down(of))).collect()
                }
                _ => String::new(),
            };
            let what = format!("{}{wire}{late}", broken.what);
            match broken.after_s {
                // What has several parts is a sentence of its own.
                Some(_) if what.contains("; ") => {
                    format!("{}: {what}. It {rate} until then", verdict.headline)
                }
                Some(_) => format!("{}: {what}; it {rate} until then", verdict.headline),
                None => what,
            }
        }
        None if verdict.held => format!("{rate}{real_time}{}", but(verdict, real_time.is_empty())),
        None if facts.lost > 0 && facts.stopped.is_none() => {
            format!("{rate} ({:.2} %)", 100.0 * facts.lost as f64 / facts.periods.max(1) as f64)
        }
        None => rate,
    }
}

/// Nothing is known of a rate that was held for so few ticks.
pub(super) fn too_short(facts: &Facts) -> Option<String> {
    let is_reported = facts.too_short && facts.broken.is_none() && facts.stopped.is_none();
    let were = if facts.periods == 1 { "is" } else { "are" };
    is_reported
        .then(|| format!("{} under control {were} too few to judge.", counted(facts.periods, "period")))
}

/// How many problems are left out.
pub(super) fn and_more(problems: usize) -> String {
    if problems > 0 { format!(" (and {})", counted(problems as u64, "more problem")) } else { String::new() }
}

/// What a reader has to know although the rate was held.
pub(super) fn but(verdict: &Verdict, real_time: bool) -> String {
    let Some(first) = verdict.reasons.first().filter(|_| verdict.level > Level::Note) else {
        return String::new();
    };
    // That the thread is not real-time is the last reason, and already in the sentence.
    let more = verdict.reasons.len() - 1 - usize::from(!real_time);
    let more = and_more(more);
    format!(", but {}{more}", within(first))
}

/// A reason within a sentence.
pub(super) fn within(reason: &str) -> String {
    let reason = reason.trim_end_matches('.');
    let lower = [
        ("The ", "the "),
        ("This ", "this "),
        ("Bus ", "bus "),
        ("No ", "no "),
        ("Warned of: ", "with a warning: "),
    ];
    let lower =
        lower.iter().find_map(|(upper, lower)| Some(format!("{lower}{}", reason.strip_prefix(upper)?)));
    lower.unwrap_or_else(|| reason.to_owned())
}

/// What cost most: lost periods, or else overruns, late wakes, or late ticks.
pub(super) fn cause(facts: &Facts) -> Option<String> {
    if let Some(usual) = too_slow(facts) {
        return Some(usual.because(period_ns(facts)));
    }
    let is_late = is_late(facts) || late_starts(facts).is_some();
    let group = leading(facts).filter(|_| is_late && facts.broken.is_none())?;
    let (share, all) = (grouped(cost(group, facts)), counted(all_costs(facts), weight(facts).1));
    let worst = group.worst_ns.map_or(String::new(), |ns| format!(", worst {}", duration(ns as f64)));
    Some(format!("{} ({share} of {all}{worst})", because(facts, group)))
}

/// Other causes that cost a good part of it, each with its share and its cure: ` Another 6 periods were lost because …; …`.
pub(super) fn others(facts: &Facts) -> Option<String> {
    let led = leading(facts)?;
    let (mut causes, mut cures) = (vec![because(facts, led)], vec![cure_of_group(facts, led)]);
    let mut text = String::new();
    for group in seconds(facts) {
        let (because, cure) = (because(facts, group), cure_of_group(facts, group));
        if causes.contains(&because) {
            continue;
        }
        let count = cost(group, facts);
        let [one, many] = match weight(facts).1 {
            "lost period" => ["period was lost", "periods were lost"],
            "overrun" => ["tick overran", "ticks overran"],
            "late wake" => ["tick started late", "ticks started late"],
            _ => ["tick was late", "ticks were late"],
        };
        let what = if count == 1 {
            format!(" Another {one}")
        } else {
            format!(" Another {} {many}", grouped(count))
        };
        let worst = group.worst_ns.map_or(String::new(), |ns| format!(" (worst {})", duration(ns as f64)));
        let cure_text = if cures.contains(&cure) { String::new() } else { format!("; {cure}") };
        text += &format!("{what} because {because}{worst}{cure_text}.");
        causes.push(because);
        cures.push(cure);
    }
    (!text.is_empty()).then_some(text)
}

pub(super) fn because(facts: &Facts, group: &LateGroup) -> &'static str {
    if let Some(explained) = explained(facts, group) {
        return explained.words();
    }
    match group.cause {
        Cause::PreviousTick => "the tick before overran",
        Cause::Preempted => "other threads had its CPU",
        Cause::Blocked => {
            "the thread was blocked (a lock such as Python's, a file, a sleep, or the process was stopped)"
        }
        Cause::PageFault => "of page faults",
        Cause::Unaccounted if facts.stops.has_old_freezer => {
            "of time unaccounted for: hypervisor, SMI, interrupts off or a frozen control group"
        }
        Cause::Unaccounted => "of time unaccounted for: hypervisor, SMI or interrupts off",
        // It computes elsewhere: what was long is handing over.
        Cause::Controller if facts.is_elsewhere => COMPUTING,
        Cause::Controller => "the controller took too long",
        Cause::Bus => "replies took too long",
        Cause::Compute => COMPUTING,
    }
}

const COMPUTING: &str = "computing took too long";

pub(super) fn were(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one} was") } else { format!("{} {many} were", grouped(count)) }
}
