//! The sentence at the top of the page.

use crate::store::{Counts, Event, RECENT_S, Store};

/// How good it is, as the page's colours are called, and why.
pub(super) fn verdict(store: &Store, is_over: bool) -> (&'static str, String) {
    let ticks = store.ticks();
    let Some((_, now_us)) = store.extent_us() else {
        return (
            "note",
            if store.is_log() { "the log is empty" } else { "waiting for the first sample" }.into(),
        );
    };
    if ticks.counts().ticks == 0 {
        return ("note", "no record of ticks".into());
    }
    let last = store.events().since(0).next_back();
    if let Some(event) = trouble(store) {
        let servo = if event.servo.is_empty() { String::new() } else { format!(" ({})", event.servo) };
        return ("bad", format!("{} in tick {}: {}{servo}", event.to, event.tick, event.cause));
    }
    let is_past = is_over || store.is_log();
    let (counts, late, when) = match is_past {
        true => (ticks.counts(), ticks.late().count(), String::new()),
        false => (ticks.recent(), ticks.recently_late(now_us), format!(" in the last {RECENT_S} s")),
    };
    let wrong = wrong(&counts, late);
    let (level, what) = match wrong.as_slice() {
        [] => ("good", "no late tick, no missed reply".to_owned()),
        wrong => (if is_one_percent(&counts) { "bad" } else { "warning" }, wrong.join(", ")),
    };
    let end = match last.filter(|_| is_over) {
        Some(event) if event.to == "stopped" => format!("stopped ({}); ", event.cause),
        _ if is_over => "the run has ended; ".to_owned(),
        _ => String::new(),
    };
    let newest = ticks.late().since(0).next_back().filter(|_| late > 0 && !is_past);
    let newest = newest.map(|late| {
        let (us, cause) = (late.excess_ns / 1e3, &late.cause);
        format!("; the newest: tick {}, {us:.0} µs late, {cause}", late.tick)
    });
    (level, format!("{end}{what}{when}{}", newest.unwrap_or_default()))
}

/// What brought the robot down and has not been overcome.
fn trouble(store: &Store) -> Option<&Event> {
    let since_active = store.events().since(0).rev().take_while(|event| event.to != "active");
    since_active.filter(|event| event.is_trouble && event.from != event.to).last()
}

/// Whether so many periods were lost that the verdict on a run would be `bad`, too (`docs/metrics.md`).
fn is_one_percent(counts: &Counts) -> bool {
    counts.skipped > 0 && counts.skipped * 100 >= counts.controlled + counts.skipped
}

fn wrong(counts: &Counts, late: u64) -> Vec<String> {
    let all = [
        (counts.skipped, "lost period", "lost periods"),
        (counts.overruns, "overrun", "overruns"),
        (late, "late tick", "late ticks"),
        (counts.missed, "missed reply", "missed replies"),
        (counts.imu_missed, "missed IMU reading", "missed IMU readings"),
        (counts.unexpected, "unexpected frame", "unexpected frames"),
    ];
    let some = all.into_iter().filter(|(count, _, _)| *count > 0);
    some.map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many })).collect()
}
