//! A robot's name belongs to one bridge.

use crate::names::RobotName;
use crate::network::LEASE_MS;
use anyhow::{Result, anyhow, bail};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::Subscriber;
use zenoh::sample::SampleKind;
use zenoh::{Session, Wait};

/// How long a bridge that seems to have the name may take to go: one that froze goes with its lease.
const PATIENCE: Duration = Duration::from_millis(2 * LEASE_MS);
const LOOK: Duration = Duration::from_millis(100);
/// How long the network may take to say who has the name.
const ANSWER: Duration = Duration::from_secs(1);

/// The claim of this bridge to its robot's name.
pub struct Claim {
    name: RobotName,
    own: String,
    others: Arc<Mutex<BTreeSet<String>>>,
    _token: LivelinessToken,
    _watch: Subscriber<()>,
}

impl Claim {
    /// Claims a name. If another bridge has it, waits for a few seconds for that to go. `None`: stopped meanwhile.
    ///
    /// # Errors
    /// Another bridge has the name.
    pub fn make(session: &Session, name: &RobotName, stop: &AtomicBool) -> Result<Option<Self>> {
        let since = Instant::now();
        while let Some(other) = present(session, name)? {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            if since.elapsed() > PATIENCE {
                return Err(taken(name, &other));
            }
            std::thread::sleep(LOOK);
        }
        let own = session.zid().to_string();
        let others = Arc::new(Mutex::new(BTreeSet::new()));
        let token = session.liveliness().declare_token(name.key(&format!("@bridge/{own}"))).wait();
        let token = token.map_err(|error| anyhow!("cannot claim the name {name}: {error}"))?;
        let (noted, me) = (others.clone(), own.clone());
        let watch = session
            .liveliness()
            .declare_subscriber(name.key("@bridge/*"))
            .history(true)
            .callback(move |sample| {
                let id = id(sample.key_expr().as_str()).to_owned();
                let mut others = noted.lock().unwrap_or_else(PoisonError::into_inner);
                match sample.kind() {
                    SampleKind::Put if id != me => others.insert(id),
                    _ => others.remove(&id),
                };
            })
            .wait()
            .map_err(|error| anyhow!("cannot watch the name {name}: {error}"))?;
        Ok(Some(Self { name: name.clone(), own, others, _token: token, _watch: watch }))
    }

    /// Whether the name is still this bridge's. Two that claimed it at the same time, or on two networks that have become
    /// one, see each other here; the one with the lesser id stays.
    ///
    /// # Errors
    /// It is the other's.
    pub fn check(&self) -> Result<()> {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        match others.first() {
            Some(other) if *other < self.own => bail!(taken(&self.name, other)),
            _ => Ok(()),
        }
    }
}

fn taken(name: &RobotName, other: &str) -> anyhow::Error {
    anyhow!(
        "another bridge has the name {name} (Zenoh id {other}): this one leaves the network, so that nobody takes one robot for \
         the other. Give this robot a name of its own: `[robot] name` of its file, or --name"
    )
}

fn id(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or_default()
}

/// A bridge that has the name.
fn present(session: &Session, name: &RobotName) -> Result<Option<String>> {
    let replies = session.liveliness().get(name.key("@bridge/*")).timeout(ANSWER).wait();
    let replies = replies.map_err(|error| anyhow!("cannot ask who has the name {name}: {error}"))?;
    Ok(replies.iter().find_map(|reply| Some(id(reply.result().ok()?.key_expr().as_str()).to_owned())))
}
