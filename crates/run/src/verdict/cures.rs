//! What to do about what was found.

use super::causes::*;
use super::words::{changed, late_starts, not_done, sensor_off, set_up, wire_faults};
use super::{Facts, Uncontrolled, held};
use crate::commands::{BUDGET, CONTROLLER, DOCTOR, SCAN};
use crate::costs::LateGroup;
use khz_rt::Cause;

/// What to do about replies that were missed: of some that came late and others that did not come, both.
pub(super) fn bus_remedy(facts: &Facts) -> Option<String> {
    cure_of(missed(facts), facts)
}

/// What to do about what went wrong during start-up and while coming down.
fn outside_remedy(facts: &Facts) -> Option<String> {
    let Uncontrolled { lost, late_wakes, overruns, .. } = facts.outside;
    cure_of(missed_outside(facts), facts)
        .or_else(|| (lost + late_wakes + overruns > 0).then(|| DOCTOR.into()))
}

fn cure_of(missed: Missed, facts: &Facts) -> Option<String> {
    let needs_time = missed.late + missed.unasked > 0 || missed.gone > 0 && fits_not(facts);
    match (needs_time, missed.gone > 0 && !is_lost_for_time(facts)) {
        (true, true) => Some(format!("{}; {SCAN}", late_cure(facts))),
        (true, false) => Some(late_cure(facts).into()),
        (false, true) => Some(SCAN.into()),
        (false, false) => None,
    }
}

/// What to do about late replies: where the cycle fits, what the buses need is not why.
fn late_cure(facts: &Facts) -> &'static str {
    if fits_well(facts) { facts.medium.delays() } else { BUDGET }
}

pub(super) fn remedy(facts: &Facts) -> Option<String> {
    if let Some(broken) = &facts.broken {
        let of_late = is_broken_by_late_replies(facts) || broken.remedy == Some(BUDGET);
        let remedy = if of_late { Some(late_cure(facts)) } else { broken.remedy };
        // Of a start-up that was not over only what happened on the buses is known.
        let others = || outside_remedy(facts).or_else(|| quality_remedy(facts).map(str::to_owned));
        return remedy.map(str::to_owned).or_else(others);
    }
    if let Some(usual) = too_slow(facts) {
        return Some(usual.remedy().into());
    }
    let is_late = is_late(facts) || facts.stopped.is_some() || late_starts(facts).is_some();
    match leading(facts).filter(|_| is_late) {
        // What did not come is no matter of time.
        Some(LateGroup { cause: Cause::Bus, .. }) if held(facts) && set_up(facts).is_none() => {
            bus_remedy(facts).or_else(|| Some(late_cure(facts).into()))
        }
        Some(group) => Some(cure_of_group(facts, group).into()),
        None if is_late => Some(DOCTOR.into()),
        None => {
            let quality = || quality_remedy(facts).map(str::to_owned);
            let others = || quality().or_else(|| set_up(facts).map(|_| DOCTOR.to_owned()));
            // In the order of their sentences.
            bus_remedy(facts).or_else(|| outside_remedy(facts)).or_else(others)
        }
    }
}

/// What to do about ticks that were late or cost something, by their cause.
pub(super) fn cure_of_group(facts: &Facts, group: &LateGroup) -> &'static str {
    if let Some(explained) = explained(facts, group) {
        return explained.remedy();
    }
    match group.cause {
        _ if set_up(facts).is_some() => DOCTOR,
        Cause::Controller if !facts.is_elsewhere => CONTROLLER,
        Cause::Bus => late_cure(facts),
        Cause::Blocked => "keep locks, files and sleeps out of the tick",
        _ => DOCTOR,
    }
}

pub(super) fn quality_remedy(facts: &Facts) -> Option<&'static str> {
    let held_up = (facts.missed_while_off_cpu + facts.missed_while_computing > 0).then(String::new);
    let duplicates = (facts.duplicates + facts.late_or_duplicates > 0).then(String::new);
    let remedies = [
        (held_up, DOCTOR),
        (late_starts(facts), DOCTOR),
        (sensor_off(facts), "set `loop.rate_hz` to the sensor's rate"),
        (
            changed(facts),
            "see the commands in the report, and correct the controller or the joints' `limits`",
        ),
        (not_done(facts), "lower `loop.rate_hz`, or make the controller faster"),
        (duplicates, SCAN),
        (wire_faults(facts).first().cloned(), SCAN),
    ];
    remedies.into_iter().find(|(found, _)| found.is_some()).map(|(_, remedy)| remedy)
}
