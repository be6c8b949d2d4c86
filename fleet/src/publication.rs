//! A key and what is put there, numbered so that receivers see what they miss.

use crate::ros::{Gid, attachment};
use anyhow::{Result, anyhow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use zenoh::bytes::Encoding;
use zenoh::pubsub::Publisher;
use zenoh::qos::{CongestionControl, Priority};
use zenoh::{Session, Wait};

/// How many rare messages may wait for the network.
const WAITING: usize = 256;

/// A key and what is put there.
pub struct Publication {
    publisher: Arc<Publisher<'static>>,
    gid: Gid,
    number: i64,
    rare: Option<Rare>,
}

impl Publication {
    /// Of messages of which the next makes up for one that is lost. `identity` is a text no other publication has.
    ///
    /// # Errors
    /// The key is not valid, or the session is closed.
    pub fn new(session: &Session, key: String, identity: &str, encoding: Option<String>) -> Result<Self> {
        let gid = Gid::of(identity);
        let publisher = declare(session, key, encoding, CongestionControl::Drop, Priority::Data)?;
        Ok(Self { publisher, gid, number: 0, rare: None })
    }

    /// Of messages that are rare and matter one by one: they wait for the network, on a thread of their own.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn rare(
        session: &Session,
        key: String,
        identity: &str,
        encoding: Option<String>,
        rare: &Rare,
    ) -> Result<Self> {
        let gid = Gid::of(identity);
        let publisher = declare(session, key, encoding, CongestionControl::Block, Priority::DataHigh)?;
        Ok(Self { publisher, gid, number: 0, rare: Some(rare.clone()) })
    }

    /// Puts a message. Waits 5 ms at most for a network that does not keep up, and then drops it: its number is missing.
    pub fn put(&mut self, time_us: i64, bytes: Vec<u8>) {
        self.number += 1;
        let beside = attachment(self.number, time_us.saturating_mul(1000), self.gid);
        match &self.rare {
            Some(rare) => rare.put(Message { publisher: self.publisher.clone(), bytes, beside }),
            None => send(Message { publisher: self.publisher.clone(), bytes, beside }),
        }
    }

    /// Whether it has a subscriber.
    pub fn is_wanted(&self) -> bool {
        self.publisher.matching_status().wait().is_ok_and(|status| status.matching())
    }

    /// How many messages were put.
    pub fn count(&self) -> i64 {
        self.number
    }
}

fn declare(
    session: &Session,
    key: String,
    encoding: Option<String>,
    congestion: CongestionControl,
    priority: Priority,
) -> Result<Arc<Publisher<'static>>> {
    let encoding = encoding.map_or_else(Encoding::default, Encoding::from);
    let publisher = session
        .declare_publisher(key.clone())
        .encoding(encoding)
        .congestion_control(congestion)
        .priority(priority)
        .express(true)
        .wait();
    publisher.map(Arc::new).map_err(|error| anyhow!("cannot publish {key}: {error}"))
}

struct Message {
    publisher: Arc<Publisher<'static>>,
    bytes: Vec<u8>,
    beside: [u8; 33],
}

/// It fails only when the session is closed, and then the bridge ends.
fn send(message: Message) {
    let _ = message.publisher.put(message.bytes).attachment(&message.beside[..]).wait();
}

/// The thread that puts rare messages.
#[derive(Clone)]
pub struct Rare {
    queue: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl Rare {
    /// Starts it. It ends with the last of its publications.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start() -> std::io::Result<Self> {
        let (queue, waiting) = sync_channel(WAITING);
        std::thread::Builder::new()
            .name("fleet-rare".into())
            .spawn(move || waiting.into_iter().for_each(send))?;
        Ok(Self { queue, dropped: Arc::default() })
    }

    fn put(&self, message: Message) {
        if self.queue.try_send(message).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many were dropped because too many waited.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
