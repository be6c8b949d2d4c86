//! What can be subscribed to, and who subscribes: each message is encoded once, if it has a subscriber.

use crate::intake::Known;
use crate::peer::{Peer, Queued};
use crate::standard::{self, Standard, Status, TickSummary};
use khz_export::plain;
use khz_export::ros2::{self, Integers, Messages};
use khz_tlog::Value;
use serde_json::{Map, Value as Json, json};
use std::collections::VecDeque;
use std::sync::Arc;

/// How many changes of phase a new subscriber is shown.
const EVENTS: usize = 100;

/// All channels of a run.
#[derive(Default)]
pub(crate) struct Topics {
    channels: Vec<Channel>,
    /// The channels fed by each record.
    fed: Vec<Vec<usize>>,
    messages: Messages,
    /// Ids are not used again in another run.
    next: u64,
    ticks: TickSummary,
    events: VecDeque<Queued>,
}

struct Channel {
    id: u64,
    record: usize,
    what: What,
    advertised: Json,
    subscribers: Vec<Arc<Peer>>,
    sent_us: Option<i64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// The record itself.
    Record,
    Standard(Standard),
}

impl Topics {
    /// Another run: other channels.
    pub fn clear(&mut self) {
        *self = Self { next: self.next, ..Self::default() };
    }

    /// Adds the channels of a record, the last one of `records`.
    pub fn declare(&mut self, records: &[Known]) {
        let Some((record, known)) = records.iter().enumerate().next_back() else { return };
        let (message, definition) = self.messages.declare(&known.name, &known.ty, Integers::Rounded);
        let units = known.ty.units().into_iter();
        let units: Map<String, Json> =
            units.map(|(path, unit)| (format!("unit.{}", plain(&path)), unit.into())).collect();
        let topic = format!("/{}", plain(&known.name));
        let mut fed = vec![self.add(record, What::Record, &topic, &message, &definition, units)];
        for standard in Standard::of(&known.name, &known.ty) {
            let (topic, message) = (standard.topic(), standard.message());
            let what = What::Standard(standard);
            fed.push(self.add(record, what, topic, message, &standard.definition(), Map::new()));
        }
        self.fed.push(fed);
    }

    fn add(
        &mut self,
        record: usize,
        what: What,
        topic: &str,
        message: &str,
        definition: &str,
        metadata: Map<String, Json>,
    ) -> usize {
        self.next += 1;
        let advertised = json!({
            "id": self.next, "topic": topic, "encoding": "cdr", "schemaName": message, "schemaEncoding": "ros2msg",
            "schema": definition, "metadata": metadata,
        });
        let (subscribers, sent_us) = (Vec::new(), None);
        self.channels.push(Channel { id: self.next, record, what, advertised, subscribers, sent_us });
        self.channels.len() - 1
    }

    /// The channels with ids above `above`, as they are advertised, and the highest id.
    pub fn advertised(&self, above: u64) -> (Vec<Json>, u64) {
        let new = self.channels.iter().filter(|channel| channel.id > above);
        (new.map(|channel| channel.advertised.clone()).collect(), self.next)
    }

    /// Subscribes; the newest message comes at once, of events the last ones. Returns whether there is such a channel.
    pub fn subscribe(&mut self, id: u64, peer: &Arc<Peer>, records: &[Known]) -> bool {
        let Some(at) = self.channels.iter().position(|channel| channel.id == id) else { return false };
        if self.channels[at].what == What::Standard(Standard::Events) {
            self.events.iter().for_each(|event| peer.push(event.clone()));
        } else if self.channels[at].what != What::Standard(Standard::Diagnostics)
            && let Some((time_us, payload)) = &records[self.channels[at].record].latest
            && let Some(bytes) = self.encode(at, records, *time_us, payload, &[])
        {
            peer.push(Queued { channel: id, time_us: *time_us, bytes: bytes.into() });
        }
        self.channels[at].subscribers.push(peer.clone());
        true
    }

    pub fn unsubscribe(&mut self, id: u64, peer: &Peer) {
        let channels = self.channels.iter_mut().filter(|channel| channel.id == id);
        channels.for_each(|channel| channel.subscribers.retain(|one| one.id != peer.id));
        peer.forget(id);
    }

    /// A client has left.
    pub fn leave(&mut self, peer: &Peer) {
        self.channels.iter_mut().for_each(|channel| channel.subscribers.retain(|one| one.id != peer.id));
    }

    /// Passes on a sample of a record to the subscribers of what is made of it. `view` is how this server is.
    pub fn sample(
        &mut self,
        record: usize,
        records: &[Known],
        time_us: i64,
        payload: &[u8],
        view: impl Fn() -> Status,
    ) {
        for at in self.fed.get(record).cloned().unwrap_or_default() {
            let what = self.channels[at].what;
            if what == What::Standard(Standard::Events) {
                self.keep_event(at, records, time_us, payload);
            }
            if self.channels[at].subscribers.is_empty() || !self.is_due(at, records, time_us, payload) {
                continue;
            }
            let about_view =
                if what == What::Standard(Standard::Diagnostics) { vec![view()] } else { Vec::new() };
            let Some(bytes) = self.encode(at, records, time_us, payload, &about_view) else { continue };
            let channel = &self.channels[at];
            let message = Queued { channel: channel.id, time_us, bytes: bytes.into() };
            channel.subscribers.iter().for_each(|peer| peer.push(message.clone()));
            if what == What::Standard(Standard::Diagnostics) {
                self.ticks = TickSummary::default();
            }
        }
    }

    fn keep_event(&mut self, at: usize, records: &[Known], time_us: i64, payload: &[u8]) {
        let Some(bytes) = self.encode(at, records, time_us, payload, &[]) else { return };
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(Queued { channel: self.channels[at].id, time_us, bytes: bytes.into() });
    }

    /// Whether it is time for a message of a channel that has fewer of them than its record has samples.
    fn is_due(&mut self, at: usize, records: &[Known], time_us: i64, payload: &[u8]) -> bool {
        let channel = &mut self.channels[at];
        let What::Standard(standard) = channel.what else { return true };
        if standard == Standard::Diagnostics
            && let Ok(value) = Value::read(&records[channel.record].ty, payload)
        {
            self.ticks.add(time_us, &value);
        }
        let since_us = channel.sent_us.map_or(i64::MAX, |sent| time_us.saturating_sub(sent));
        // A clock that was set back starts anew.
        if (0..standard.period_us()).contains(&since_us) {
            return false;
        }
        channel.sent_us = Some(time_us);
        true
    }

    fn encode(
        &self,
        at: usize,
        records: &[Known],
        time_us: i64,
        payload: &[u8],
        view: &[Status],
    ) -> Option<Vec<u8>> {
        let channel = &self.channels[at];
        let ty = &records[channel.record].ty;
        let What::Standard(standard) = channel.what else {
            let mut bytes = Vec::with_capacity(payload.len() * 2);
            ros2::encode(ty, payload, Integers::Rounded, &mut bytes).ok()?;
            return Some(bytes);
        };
        let value = Value::read(ty, payload).ok()?;
        match standard {
            Standard::JointStates => standard::joint_states(time_us, &value),
            Standard::Imu => standard::imu(time_us, &value),
            Standard::Tf => standard::tf(time_us, &value),
            Standard::Events => standard::event(time_us, &value),
            Standard::Diagnostics => standard::diagnostics(time_us, &self.statuses(records, time_us, view)),
        }
    }

    /// How the loop, this server and the servos are.
    fn statuses(&self, records: &[Known], time_us: i64, view: &[Status]) -> Vec<Status> {
        let servos = records.iter().find(|record| record.name == "servo");
        let servos = servos.and_then(|record| {
            let (_, payload) = record.latest.as_ref()?;
            Some(standard::servos(&Value::read(&record.ty, payload).ok()?))
        });
        let own = std::iter::once(self.ticks.status(time_us)).chain(view.iter().cloned());
        own.chain(servos.unwrap_or_default()).collect()
    }
}

impl std::fmt::Debug for Topics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Topics").field("channels", &self.channels.len()).finish_non_exhaustive()
    }
}
