//! The page, and what it asks.
//!
//! The page asks about thirty times a second for what is new, and for the stretch of history it shows, at the resolution
//! of its screen. Nothing is sent to it that it has not asked for, except answers of the robot: so a slow page asks less
//! often, and nothing piles up. Requests and answers are JSON; a window of history is binary: a head of 32 bytes (`id`
//! u32, `level` u32, `from` f64, buckets u32, signals u32, 1 if it is complete u32, 0 u32), then for each signal the minima
//! and the maxima of its buckets as f32, all little endian.

mod messages;
#[cfg(test)]
mod tests;
mod verdict;

use crate::control::{Answer, Ask, Teleop};
use crate::hub::Hub;
use crate::peer::{Peer, Reply};
use crate::store::Span;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, LazyLock};

/// The page: one file that loads nothing.
pub(crate) static HTML: LazyLock<String> = LazyLock::new(|| {
    let parts = [
        ("/* style */", [khz_page::PALETTE, khz_page::CHART_STYLE, include_str!("assets/live.css"), "", ""]),
        (
            "/* script */",
            [
                khz_page::NUMBERS,
                khz_page::CHART,
                khz_page::SKELETON,
                include_str!("assets/plots.js"),
                include_str!("assets/live.js"),
            ],
        ),
    ];
    let html = include_str!("assets/live.html").to_owned();
    parts.iter().fold(html, |html, (place, texts)| html.replacen(place, &texts.concat(), 1))
});

/// How many numbers one window may have.
const MAX_VALUES: usize = 1 << 19;
/// How many requests to the robot are remembered until they are answered.
const MAX_WAITING: usize = 256;

/// A page somewhere that is connected.
#[derive(Debug)]
pub struct PageClient {
    me: Arc<Peer>,
    /// The page's numbers of the requests that the robot has not answered.
    waiting: HashMap<u64, f64>,
}

/// What a page may ask.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
enum Question {
    /// What kind of run this is.
    Run,
    /// What is new behind these numbers of entries.
    News {
        #[serde(default)]
        events: u64,
        #[serde(default)]
        late: u64,
        #[serde(default)]
        changes: u64,
    },
    /// A stretch of history.
    Window {
        id: u32,
        level: u32,
        from: f64,
        count: usize,
        signals: Vec<u32>,
    },
    /// What moves the robot has the newest time of the server that the page knew.
    Set {
        id: f64,
        now_us: u64,
        values: Map<String, Value>,
    },
    Stop {
        id: f64,
    },
    Arm {
        id: f64,
        now_us: u64,
    },
    /// The input of the stick, and the newest time of the server that the page knew.
    Steer {
        now_us: u64,
        teleop: Teleop,
    },
}

impl PageClient {
    /// One that has asked nothing yet.
    pub fn new(me: Arc<Peer>) -> Self {
        Self { me, waiting: HashMap::new() }
    }

    /// Answers what the page asks. It comes from outside: anything may be in it.
    pub fn receive(&mut self, text: &str, hub: &Hub) -> Vec<Reply> {
        match serde_json::from_str(text) {
            Ok(question) => self.answer(question, hub).into_iter().collect(),
            Err(error) => vec![reply(&json!({ "tell": "mistake", "text": error.to_string() }))],
        }
    }

    /// The robot has answered request `id` of this page (the number [`Hub::ask`] gave).
    pub fn answered(&mut self, id: u64, answer: &Answer) -> Vec<Reply> {
        self.waiting.remove(&id).map(|id| of_robot(id, answer)).into_iter().collect()
    }

    fn answer(&mut self, question: Question, hub: &Hub) -> Option<Reply> {
        match question {
            Question::Run => Some(reply(&messages::run(hub))),
            Question::News { events, late, changes } => {
                Some(reply(&messages::news(hub, &self.me, [events, late, changes])))
            }
            Question::Window { id, level, from, count, signals } => {
                Some(window(hub, id, Span { level, from: from as i64, count }, &signals))
            }
            Question::Set { id, now_us, values } => self.ask(hub, id, &Ask::Set(values), Some(now_us)),
            Question::Stop { id } => self.ask(hub, id, &Ask::Stop, None),
            Question::Arm { id, now_us } => self.ask(hub, id, &Ask::Arm, Some(now_us)),
            Question::Steer { now_us, teleop } => {
                let refused = hub.steer(&self.me, &teleop, now_us).err()?;
                Some(reply(&json!({ "tell": "steering", "refused": refused.to_string() })))
            }
        }
    }

    /// Passes a request on; the answer comes later, unless the robot cannot be asked.
    fn ask(&mut self, hub: &Hub, id: f64, ask: &Ask, now_us: Option<u64>) -> Option<Reply> {
        // The hub answers every request in the end, so these are answered, too; it limits the stops.
        if self.waiting.len() >= MAX_WAITING && *ask != Ask::Stop {
            return Some(of_robot(id, &Answer::Denied("too many requests wait for an answer".into())));
        }
        match hub.ask(&self.me, ask, now_us) {
            Ok(number) => {
                self.waiting.insert(number, id);
                None
            }
            Err(why) => Some(of_robot(id, &Answer::Denied(why))),
        }
    }
}

fn of_robot(id: f64, answer: &Answer) -> Reply {
    reply(&match answer {
        Answer::Done(tick) => json!({ "tell": "answer", "id": id, "done": true, "tick": tick }),
        Answer::Denied(why) => json!({ "tell": "answer", "id": id, "refused": why.to_string() }),
    })
}

fn reply(value: &Value) -> Reply {
    let mut text = String::new();
    // Writing to a text cannot fail.
    _ = write!(text, "{value}");
    Reply::Text(text)
}

fn window(hub: &Hub, id: u32, span: Span, signals: &[u32]) -> Reply {
    let count = span.count.min(MAX_VALUES / 2 / signals.len().max(1));
    let window = hub.store().window(Span { count, ..span }, signals);
    let shown = signals.len().min(crate::store::MAX_WINDOW_SIGNALS);
    let buckets = window.values.len().checked_div(2 * shown).unwrap_or(0);
    let mut bytes = Vec::with_capacity(32 + 4 * window.values.len());
    [id, window.level].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes.extend((span.from as f64).to_le_bytes());
    let rest = [buckets as u32, shown as u32, u32::from(window.is_complete), 0];
    rest.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    window.values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
    Reply::Binary(bytes)
}
