//! What is sent to a page about a run, as JSON.

use super::verdict::verdict;
use crate::control::Parameter;
use crate::hub::Hub;
use crate::peer::Peer;
use crate::store::{
    Change, Event, LateTick, List, MAX_BUCKETS, MAX_WINDOW_SIGNALS, Signal, SignalKind, Store,
};
use khz_run::figures::{Count, LOST_PERIODS};
use khz_run::tally::Counts;
use khz_tlog::{Type, Value as Sample};
use serde_json::{Value, json};

/// At most so many entries of a list at once; the next question gets the others.
const AT_ONCE: usize = 200;

/// What stays as it is: the robot, its signals and parameters.
pub(super) fn run(hub: &Hub) -> Value {
    let session = hub.run().session;
    let store = hub.store();
    let signals: Vec<Value> = store.signals().iter().map(signal).collect();
    let robot = store.robot().map(|robot| {
        let skeleton = serde_json::from_str::<Value>(&robot.skeleton).ok();
        json!({ "name": robot.name, "file": robot.file, "clock": robot.clock, "skeleton": skeleton })
    });
    json!({
        "tell": "run",
        "signature": signature(session, &store),
        "is_log": store.is_log(),
        "robot": robot,
        "signals": signals,
        "records": store.records().collect::<Vec<_>>(),
        "parameters": store.parameters().iter().map(parameter).collect::<Vec<_>>(),
        "most_signals": MAX_WINDOW_SIGNALS,
        "most_buckets": MAX_BUCKETS,
    })
}

/// What changes. `seen`: how many events, late ticks and changes of parameters the page knows.
pub(super) fn news(hub: &Hub, me: &Peer, seen: [u64; 3]) -> Value {
    let (run, received, now_us) = (hub.run(), hub.counts(), hub.now_us());
    let steered = hub.latest("teleop").and_then(|(at_us, ty, sample)| steered(at_us, &ty, &sample));
    let store = hub.store();
    let steered = steered.zip(store.extent_us()).map(|((at_us, mut steered), (_, last_us))| {
        steered["age_ms"] = json!(last_us.saturating_sub(store.shifted_us(at_us)) as f64 / 1e3);
        steered
    });
    let (ticks, losses) = (store.ticks(), store.losses());
    let (level, text) = verdict(&store, run.is_over);
    let counts = ticks.counts();
    let values =
        store.parameters().iter().map(|parameter| (parameter.name.clone(), parameter.json(parameter.value)));
    json!({
        "tell": "news",
        "signature": signature(run.session, &store),
        "now_us": now_us,
        "age_ms": run.received_us.map(|received_us| now_us.saturating_sub(received_us) as f64 / 1e3),
        "is_over": run.is_over,
        "is_controllable": run.can_be_asked,
        "share_read": store.share_read(),
        "extent_us": store.extent_us().map(|(first, last)| [first, last]),
        "verdict": { "level": level, "text": text },
        "phase": ticks.phase().map(khz_run::Phase::name),
        "rate_hz": ticks.rate_hz(),
        "period_ns": ticks.period_ns(),
        "counts": {
            "ticks": counts.all().ticks,
            "unrecorded": ticks.unrecorded(),
            "shown": shown(&counts, ticks.lost_periods(&counts)),
        },
        "parameters": values.collect::<serde_json::Map<_, _>>(),
        "you": me.by,
        "steered": steered,
        "events": list(store.events(), seen[0], event),
        "late": list(ticks.late(), seen[1], late),
        "changes": list(store.changes(), seen[2], change),
        "losses": {
            "datagrams": received.lost,
            "refused": received.refused,
            "early": received.unknown,
            "unfit": received.unfit.max(losses.unfit),
            "damaged": losses.damaged,
            "clock_set": losses.clock_set,
            "records": losses.records_left_out,
            "messages": me.lost(),
        },
    })
}

/// The counts that a page shows, by key and label.
fn shown(counts: &Counts, lost_periods: u64) -> Vec<Value> {
    let tile = |key, label, count| json!({ "key": key, "label": label, "count": count });
    let lost = tile("lost_periods", LOST_PERIODS, lost_periods);
    [lost]
        .into_iter()
        .chain(Count::to_show(counts).map(|(of, message)| tile(of.key, of.label, message)))
        .collect()
}

/// The newest input of a person who steers: when a tick took it, and what the page shows of it.
fn steered(at_us: i64, ty: &Type, sample: &[u8]) -> Option<(i64, Value)> {
    let value = Sample::read(ty, sample).ok()?;
    let number = |field| value.at(field).and_then(|value| value.number());
    let Some(Sample::String(by)) = value.at("by") else { return None };
    let [forward, left, turn] = ["forward", "left", "turn"].map(number);
    Some((at_us, json!({ "by": by, "forward": forward?, "left": left?, "turn": turn? })))
}

/// Changes whenever [`run`] does.
fn signature(session: Option<u64>, store: &Store) -> String {
    let (signals, parameters) = (store.signals().len(), store.parameters().len());
    let current = store.signals().iter().filter(|signal| signal.is_current).count();
    let session = session.map(|session| session.to_string()).unwrap_or_default();
    format!("{session}.{signals}.{current}.{parameters}.{}", store.robot().is_some())
}

/// Entries behind the last one seen. `next` is what to ask for then.
fn list<T>(list: &List<T>, seen: u64, json: fn(&T) -> Value) -> Value {
    let entries: Vec<Value> = list.since(seen).take(AT_ONCE).map(json).collect();
    let more = list.since(seen).count() - entries.len();
    json!({ "count": list.count(), "next": list.count() - more as u64, "entries": entries })
}

fn signal(signal: &Signal) -> Value {
    let (kind, names) = match &signal.kind {
        SignalKind::Number => ("number", None),
        SignalKind::Truth => ("truth", None),
        SignalKind::Choice(names) => ("choice", Some(names)),
    };
    json!({ "name": signal.name, "unit": signal.unit, "kind": kind, "names": names, "is_current": signal.is_current })
}

fn parameter(parameter: &Parameter) -> Value {
    json!({
        "name": parameter.name,
        "kind": parameter.kind,
        "unit": parameter.unit,
        "text": parameter.text,
        "min": parameter.min,
        "max": parameter.max,
        "default": parameter.json(parameter.default),
    })
}

fn event(event: &Event) -> Value {
    json!({
        "at_us": event.at_us,
        "tick": event.tick,
        "from": event.from,
        "to": event.to,
        "cause": event.cause,
        "servo": event.servo,
        "is_trouble": event.is_trouble,
    })
}

fn late(late: &LateTick) -> Value {
    json!({
        "at_us": late.at_us,
        "tick": late.tick,
        "response_ns": late.response_ns,
        "excess_ns": late.excess_ns,
        "wake_ns": late.wake_ns,
        "part": late.part,
        "cause": late.cause,
        "is_overrun": late.is_overrun,
    })
}

fn change(change: &Change) -> Value {
    json!({
        "at_us": change.at_us,
        "tick": change.tick,
        "name": change.name,
        "value": change.value,
        "before": change.before,
        "by": change.by,
    })
}
