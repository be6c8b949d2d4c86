//! The sentence at the top of the page.

use crate::store::{Event, LateTick, Store};
use khz_page::{Level, counted, grouped};
use khz_run::recent::RECENT_S;
use khz_run::verdict::judge;

/// How good it is, as the page's colours are called, and why.
pub(super) fn verdict(store: &Store, is_over: bool) -> (&'static str, String) {
    let ticks = store.ticks();
    if store.extent_us().is_none() {
        return (
            "note",
            if store.is_log() { "the log is empty" } else { "waiting for the first sample" }.into(),
        );
    };
    if ticks.counts().all().ticks == 0 {
        return ("note", "no record of ticks".into());
    }
    let last = store.events().since(0).next_back();
    if let Some(event) = trouble(store) {
        return ("bad", format!("{} in tick {}: {}{}", event.to, event.tick, event.cause, servo(event)));
    }
    let is_past = is_over || store.is_log();
    let (facts, counts, when) = match is_past {
        true => (ticks.facts(), ticks.counts(), String::new()),
        false => (ticks.recent_facts(), ticks.recent(), format!("last {RECENT_S} s: ")),
    };
    // Before it is armed and after it has come down, nothing has to hold a rate.
    let (level, what) = match facts.periods {
        0 => ("note", "not under control".to_owned()),
        _ => {
            let verdict = judge(&facts);
            (verdict.level.word(), verdict.text.trim_end_matches('.').to_owned())
        }
    };
    let end = match last.filter(|_| is_over) {
        Some(event) if event.to == "stopped" => format!("stopped ({}); ", event.cause),
        _ if is_over => "the run has ended; ".to_owned(),
        _ => String::new(),
    };
    let newest = ticks.late().since(0).next_back().filter(|_| !is_past);
    let (late, warned) = (late(counts.all().late, newest), warned(store));
    let level = if warned.is_empty() || level == Level::Bad.word() { level } else { Level::Warning.word() };
    (level, format!("{end}{when}{what}{late}{warned}"))
}

/// What was warned of since the robot was put under control, the newest in words.
fn warned(store: &Store) -> String {
    let warned = since_active(store).filter(|event| event.is_trouble && event.from == event.to);
    let (mut warned, mut more) = (warned, String::new());
    let Some(event) = warned.next() else { return more };
    let others = warned.count() as u64;
    if others > 0 {
        more = format!(" (and {} before)", grouped(others));
    }
    format!("; warned in tick {} of: {}{}{more}", event.tick, event.cause, servo(event))
}

fn servo(event: &Event) -> String {
    if event.servo.is_empty() { String::new() } else { format!(" ({})", event.servo) }
}

/// The late ticks, also where they cost nothing and the verdict is silent about them.
fn late(count: u64, newest: Option<&LateTick>) -> String {
    let newest = newest.map(|late| {
        let (us, part, cause) = (late.excess_ns / 1000, late.part, late.cause);
        format!(", the newest: tick {} by {us} µs in {part}, {cause}", late.tick)
    });
    match count {
        0 => String::new(),
        _ => format!("; {}{}", counted(count, "late tick"), newest.unwrap_or_default()),
    }
}

/// What brought the robot down and has not been overcome.
fn trouble(store: &Store) -> Option<&Event> {
    since_active(store).filter(|event| event.is_trouble && event.from != event.to).last()
}

/// The events since control last began, the newest first. A warning changes no phase.
fn since_active(store: &Store) -> impl Iterator<Item = &Event> {
    store.events().since(0).rev().take_while(|event| event.to != "active" || event.from == event.to)
}
