//! Foxglove's websocket protocol, for Foxglove itself, Lichtblick and PlotJuggler.
//!
//! Statuses of level 1 and 2 interrupt people: PlotJuggler shows each in a dialog. They are answers to a request that
//! cannot be carried out, and go to the client that made it.

use crate::client::Speaker;
use crate::control::{Answer, Ask, Parameter, ValueKind};
use crate::hub::Hub;
use crate::peer::{Notices, Peer, Queued, Reply};
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// How many subscriptions a client may have, and of how many parameters it may want the changes.
const MAX_SUBSCRIPTIONS: usize = 1024;
const MAX_WATCHED: usize = 1024;
/// The longest name or id that is kept of what a client sends.
const MAX_NAME: usize = 256;
const SERVICES: [(u32, &str, Ask); 2] = [(1, "/stop", Ask::Stop), (2, "/arm", Ask::Arm)];

/// A client that speaks it.
pub(crate) struct Foxglove {
    me: Arc<Peer>,
    /// The highest channel it knows of.
    advertised: u64,
    channels: Vec<u64>,
    subscriptions: HashMap<u32, u64>,
    /// The subscription of each channel.
    subscribed: HashMap<u64, u32>,
    watched: HashSet<String>,
    /// Requests of the robot, by their numbers.
    waiting: HashMap<u64, Waiting>,
}

/// What a client waits for.
enum Waiting {
    Set { id: Option<String>, names: Vec<String> },
    Call { service: u32, call: u32, encoding: Encoding },
}

#[derive(Clone, Copy)]
enum Encoding {
    Json,
    Cdr,
}

/// What cannot be done, for the person at the viewer.
type Refused = String;

impl Foxglove {
    pub fn new(me: Arc<Peer>) -> Self {
        Self {
            me,
            advertised: 0,
            channels: Vec::new(),
            subscriptions: HashMap::new(),
            subscribed: HashMap::new(),
            watched: HashSet::new(),
            waiting: HashMap::new(),
        }
    }

    fn server_info(hub: &Hub) -> Reply {
        let run = hub.run();
        let services = run.can_be_asked.then_some("services");
        let capabilities: Vec<&str> =
            ["parameters", "parametersSubscribe"].into_iter().chain(services).collect();
        text(&json!({
            "op": "serverInfo",
            "name": "khz view",
            "capabilities": capabilities,
            "supportedEncodings": ["json", "cdr"],
            "metadata": { "khz": env!("CARGO_PKG_VERSION") },
            "sessionId": run.session.unwrap_or_default().to_string(),
        }))
    }

    /// Advertises channels that the client does not know of, all in one message: PlotJuggler offers only what it knows when
    /// its user chooses.
    fn advertise(&mut self, hub: &Hub) -> Option<Reply> {
        let (new, last) = hub.advertised(self.advertised);
        self.advertised = last;
        self.channels.extend(new.iter().filter_map(|channel| channel["id"].as_u64()));
        (!new.is_empty()).then(|| text(&json!({ "op": "advertise", "channels": new })))
    }

    /// Another run: other channels, and nothing is subscribed to.
    fn begin_anew(&mut self, hub: &Hub) -> Vec<Reply> {
        let old = std::mem::take(&mut self.channels);
        self.subscriptions.clear();
        self.subscribed.clear();
        let gone = (!old.is_empty()).then(|| text(&json!({ "op": "unadvertise", "channelIds": old })));
        gone.into_iter().chain([Self::server_info(hub)]).chain(self.advertise(hub)).collect()
    }

    fn receive(&mut self, text: &str, hub: &Hub) -> Result<Vec<Reply>, Refused> {
        let message: Value =
            serde_json::from_str(text).map_err(|error| format!("Invalid message: {error}"))?;
        match message["op"].as_str() {
            Some("subscribe") => return Ok(self.subscribe(&message, hub)),
            Some("unsubscribe") => self.unsubscribe(&message, hub),
            Some("getParameters") => {
                let wanted: HashSet<&str> = names(&message["parameterNames"]).collect();
                let is_wanted = |name: &str| wanted.is_empty() || wanted.contains(name);
                return Ok(vec![values(hub, is_wanted, message["id"].as_str())]);
            }
            Some("setParameters") => return self.set(&message, hub),
            Some("subscribeParameterUpdates") => {
                for name in names(&message["parameterNames"]).filter(|name| name.len() <= MAX_NAME) {
                    if self.watched.len() < MAX_WATCHED {
                        self.watched.insert(name.to_owned());
                    }
                }
            }
            Some("unsubscribeParameterUpdates") => {
                names(&message["parameterNames"]).for_each(|name| _ = self.watched.remove(name));
            }
            Some("advertise" | "unadvertise") => {
                return Err("Server does not support clientPublish capability".into());
            }
            Some(op) => return Err(format!("Invalid message: unknown op {}", shortened(op))),
            None => return Err("Invalid message: no op".into()),
        }
        Ok(Vec::new())
    }

    fn subscribe(&mut self, message: &Value, hub: &Hub) -> Vec<Reply> {
        let wanted = message["subscriptions"].as_array().into_iter().flatten();
        let results = wanted.map(|one| {
            let id = one["id"].as_u64().and_then(|id| u32::try_from(id).ok());
            let (id, channel) = id
                .zip(one["channelId"].as_u64())
                .ok_or("Invalid message: a subscription has id and channelId")?;
            self.subscribe_one(id, channel, hub)
        });
        results.filter_map(Result::err).map(|why| status(2, &why)).collect()
    }

    fn subscribe_one(&mut self, id: u32, channel: u64, hub: &Hub) -> Result<(), Refused> {
        if self.subscriptions.contains_key(&id) {
            return Err(format!("Subscription ID was already used: {id}; ignoring subscription"));
        }
        if self.subscribed.contains_key(&channel) {
            return Err(format!("Client is already subscribed to channel: {channel}; ignoring subscription"));
        }
        if self.subscriptions.len() >= MAX_SUBSCRIPTIONS {
            return Err(format!("a client can have {MAX_SUBSCRIPTIONS} subscriptions"));
        }
        if !hub.subscribe(channel, &self.me) {
            return Err(format!("Unknown channel ID: {channel}"));
        }
        self.subscriptions.insert(id, channel);
        self.subscribed.insert(channel, id);
        Ok(())
    }

    fn unsubscribe(&mut self, message: &Value, hub: &Hub) {
        let ids = message["subscriptionIds"].as_array().into_iter().flatten();
        for id in ids.filter_map(Value::as_u64).filter_map(|id| u32::try_from(id).ok()) {
            if let Some(channel) = self.subscriptions.remove(&id) {
                self.subscribed.remove(&channel);
                hub.unsubscribe(channel, &self.me);
            }
        }
    }

    fn set(&mut self, message: &Value, hub: &Hub) -> Result<Vec<Reply>, Refused> {
        let wanted = message["parameters"].as_array().into_iter().flatten();
        let wanted: Map<String, Value> =
            wanted.filter_map(|one| Some((one["name"].as_str()?.to_owned(), one["value"].clone()))).collect();
        let names: Vec<String> = wanted.keys().cloned().collect();
        let id = message["id"].as_str().filter(|id| id.len() <= MAX_NAME).map(str::to_owned);
        match hub.ask(&self.me, &Ask::Set(wanted), Some(self.me.knows_us())) {
            Ok(request) => {
                self.waiting.insert(request, Waiting::Set { id, names });
                Ok(Vec::new())
            }
            Err(why) => Ok(after_set(hub, &id, &names, Some(&why.to_string()))),
        }
    }

    /// A binary message: only service requests are understood.
    fn call(&mut self, bytes: &[u8], hub: &Hub) -> Result<Vec<Reply>, Refused> {
        let request = ServiceRequest::read(bytes).ok_or("Invalid message: not a service request")?;
        let ServiceRequest { service, call, encoding } = request;
        let fail = |why: &str| {
            vec![text(
                &json!({ "op": "serviceCallFailure", "serviceId": service, "callId": call, "message": why }),
            )]
        };
        let Some((_, _, ask)) = SERVICES.iter().find(|(id, ..)| *id == service) else {
            return Ok(fail("Unknown service"));
        };
        let encoding = match encoding {
            b"json" => Encoding::Json,
            b"cdr" => Encoding::Cdr,
            _ => return Ok(fail("the encodings are json and cdr")),
        };
        match hub.ask(&self.me, ask, Some(self.me.knows_us())) {
            Ok(request) => {
                self.waiting.insert(request, Waiting::Call { service, call, encoding });
                Ok(Vec::new())
            }
            Err(why) => Ok(vec![service_response(service, call, encoding, &Answer::Denied(why))]),
        }
    }

    fn answered(&mut self, id: u64, answer: &Answer, hub: &Hub) -> Vec<Reply> {
        match (self.waiting.remove(&id), answer) {
            (Some(Waiting::Set { id, names }), Answer::Done(_)) => after_set(hub, &id, &names, None),
            (Some(Waiting::Set { id, names }), Answer::Denied(why)) => {
                after_set(hub, &id, &names, Some(&why.to_string()))
            }
            (Some(Waiting::Call { service, call, encoding }), answer) => {
                vec![service_response(service, call, encoding, answer)]
            }
            (None, _) => Vec::new(),
        }
    }

    /// The values of parameters that changed, as far as the client wants them.
    fn changed(&self, changed: &BTreeSet<usize>, hub: &Hub) -> Option<Reply> {
        let all = hub.parameters();
        let wanted =
            changed.iter().filter_map(|at| all.get(*at)).filter(|one| self.watched.contains(&one.name));
        let wanted: Vec<Value> = wanted.map(value).collect();
        (!wanted.is_empty()).then(|| text(&json!({ "op": "parameterValues", "parameters": wanted })))
    }
}

impl Speaker for Foxglove {
    fn begin(&mut self, hub: &Hub) -> Vec<Reply> {
        let services = hub.run().can_be_asked.then(services);
        [Self::server_info(hub)].into_iter().chain(self.advertise(hub)).chain(services).collect()
    }

    fn proves_age_by_pongs(&self) -> bool {
        true
    }

    fn receive_text(&mut self, text: &str, hub: &Hub) -> Vec<Reply> {
        self.receive(text, hub).unwrap_or_else(|why| vec![status(2, &why)])
    }

    fn receive_binary(&mut self, bytes: &[u8], hub: &Hub) -> Vec<Reply> {
        self.call(bytes, hub).unwrap_or_else(|why| vec![status(2, &why)])
    }

    fn notice(&mut self, notices: Notices, hub: &Hub) -> Vec<Reply> {
        let mut replies = if notices.run { self.begin_anew(hub) } else { Vec::new() };
        if notices.channels {
            replies.extend(self.advertise(hub));
        }
        for (id, answer) in &notices.answers {
            replies.extend(self.answered(*id, answer, hub));
        }
        replies.extend(self.changed(&notices.parameters, hub));
        replies
    }

    fn message(&mut self, message: &Queued) -> Option<Vec<u8>> {
        let subscription = self.subscribed.get(&message.channel)?;
        let mut frame = Vec::with_capacity(13 + message.bytes.len());
        frame.push(1);
        frame.extend(subscription.to_le_bytes());
        frame.extend((message.time_us.max(0) as u64).saturating_mul(1000).to_le_bytes());
        frame.extend_from_slice(&message.bytes);
        Some(frame)
    }
}

struct ServiceRequest<'a> {
    service: u32,
    call: u32,
    encoding: &'a [u8],
}

impl<'a> ServiceRequest<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&[2])?;
        let (service, rest) = rest.split_first_chunk()?;
        let (call, rest) = rest.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        let encoding = rest.get(..u32::from_le_bytes(*len) as usize)?;
        Some(Self { service: u32::from_le_bytes(*service), call: u32::from_le_bytes(*call), encoding })
    }
}

/// As `std_srvs/srv/Trigger`: what was asked was done, or not, and why.
fn service_response(service: u32, call: u32, encoding: Encoding, answer: &Answer) -> Reply {
    let (success, message) = match answer {
        Answer::Done(Some(tick)) => (true, format!("taken by tick {tick}")),
        Answer::Done(None) => (true, String::new()),
        Answer::Denied(why) => (false, why.to_string()),
    };
    let (name, payload) = match encoding {
        Encoding::Json => {
            ("json", json!({ "success": success, "message": message }).to_string().into_bytes())
        }
        Encoding::Cdr => {
            let mut bytes = vec![0, 1, 0, 0, u8::from(success), 0, 0, 0];
            bytes.extend((message.len() as u32 + 1).to_le_bytes());
            bytes.extend(message.as_bytes());
            bytes.push(0);
            ("cdr", bytes)
        }
    };
    let mut frame = vec![3];
    frame.extend(service.to_le_bytes());
    frame.extend(call.to_le_bytes());
    frame.extend((name.len() as u32).to_le_bytes());
    frame.extend(name.as_bytes());
    frame.extend(payload);
    Reply::Binary(frame)
}

fn services() -> Reply {
    let side = |name: &str, schema: &str| json!({ "encoding": "cdr", "schemaName": name, "schemaEncoding": "ros2msg", "schema": schema });
    let service = |(id, name, _): &(u32, &str, Ask)| {
        json!({
            "id": id, "name": name, "type": "std_srvs/srv/Trigger",
            "request": side("std_srvs/srv/Trigger_Request", ""),
            "response": side("std_srvs/srv/Trigger_Response", "bool success\nstring message\n"),
        })
    };
    text(&json!({ "op": "advertiseServices", "services": SERVICES.iter().map(service).collect::<Vec<_>>() }))
}

/// What follows an attempt to set parameters: their values in force, and why they are not others.
fn after_set(hub: &Hub, id: &Option<String>, names: &[String], refused: Option<&str>) -> Vec<Reply> {
    let in_force = values(hub, |name| names.iter().any(|one| one == name), id.as_deref());
    refused.map(|why| status(1, why)).into_iter().chain([in_force]).collect()
}

fn values(hub: &Hub, is_wanted: impl Fn(&str) -> bool, id: Option<&str>) -> Reply {
    let all = hub.parameters();
    let wanted: Vec<Value> = all.iter().filter(|one| is_wanted(&one.name)).map(value).collect();
    let mut message = json!({ "op": "parameterValues", "parameters": wanted });
    if let Some(id) = id {
        message["id"] = id.into();
    }
    text(&message)
}

fn value(parameter: &Parameter) -> Value {
    let mut value = json!({ "name": parameter.name, "value": parameter.json(parameter.value) });
    if parameter.kind == ValueKind::Float {
        // Keeps 36.0 from becoming an integer.
        value["type"] = "float64".into();
    }
    value
}

fn names(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn status(level: u8, message: &str) -> Reply {
    text(&json!({ "op": "status", "level": level, "message": message }))
}

fn text(value: &Value) -> Reply {
    Reply::Text(value.to_string())
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}
