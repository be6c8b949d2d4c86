//! A robot's name belongs to one bridge, and so does the name that ROS 2 gets.

use crate::bridge::{Status, eprint_line};
use crate::names::RobotName;
use crate::network::LEASE_MS;
use anyhow::{Result, anyhow, bail};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::Subscriber;
use zenoh::sample::{Sample, SampleKind};
use zenoh::{Session, Wait};

/// How long a bridge that seems to have the name may take to go: one that froze goes with its lease.
const PATIENCE: Duration = Duration::from_millis(2 * LEASE_MS);
const LOOK: Duration = Duration::from_millis(100);
/// How long the network may take to report who has the name.
const ANSWER: Duration = Duration::from_secs(1);

/// The claim of this bridge to its robot's name, or to the name that ROS 2 gets.
pub struct Claim {
    taken: String,
    own: String,
    others: Ids,
    /// The bridges that publish the status of a robot of this name: a token without a bridge claims nothing. `None`: they are not known.
    seen: Option<Ids>,
    /// Of whom it was reported that they are ignored.
    ignored: Mutex<BTreeSet<String>>,
    _token: LivelinessToken,
    _watch: Subscriber<()>,
    _statuses: Option<Subscriber<()>>,
}

/// Some bridges, by their ids.
type Ids = Arc<Mutex<BTreeSet<String>>>;
/// How many there may be.
const MAX_IDS: usize = 64;
/// The longest status.
const MAX_STATUS: usize = 8192;

fn lock(ids: &Mutex<BTreeSet<String>>) -> MutexGuard<'_, BTreeSet<String>> {
    ids.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Claim {
    /// Claims a robot's name. If another bridge has it, waits for a few seconds for that to go. `None`: stopped meanwhile.
    ///
    /// # Errors
    /// Another bridge has the name.
    pub fn make(session: &Session, name: &RobotName, stop: &AtomicBool) -> Result<Option<Self>> {
        let taken = format!(
            "another bridge has the name {name}: this one leaves the network, so that the two robots cannot be confused. Give \
             this robot a name of its own: `[robot] name` of its file, or --name"
        );
        Self::at(session, &name.key("@bridge"), Some(&name.key("@status")), taken, stop)
    }

    /// Claims the name that a robot has in a domain of ROS 2, in the same way: several names of robots become one there.
    ///
    /// # Errors
    /// Another bridge has the name.
    pub fn make_ros(
        session: &Session,
        name: &RobotName,
        domain: u32,
        stop: &AtomicBool,
    ) -> Result<Option<Self>> {
        let ros = name.ros();
        let taken = format!(
            "another bridge's robot has the same name in ROS 2 as {name}: {ros}, because names there have only letters, digits and `_`. \
             This bridge leaves the network, so that their topics do not mix. Give this robot another name (`[robot] name` of its \
             file, or --name), another domain (--domain), or no topics for ROS 2 (`[ros] enabled = false` in the file of --config)"
        );
        Self::at(session, &RobotName::ros_key(domain, &ros), None, taken, stop)
    }

    /// Claims what is at `key`; each bridge has its own token below it, and publishes the robot's status at `status`.
    fn at(
        session: &Session,
        key: &str,
        status: Option<&str>,
        taken: String,
        stop: &AtomicBool,
    ) -> Result<Option<Self>> {
        let since = Instant::now();
        let (seen, statuses) = status.map(|status| listen(session, status)).transpose()?.unzip();
        while let Some(other) = present(session, key)? {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            if since.elapsed() > PATIENCE {
                if seen.as_ref().is_some_and(|seen| !lock(seen).contains(&other)) {
                    break;
                }
                bail!("{taken} (Zenoh id {other})");
            }
            std::thread::sleep(LOOK);
        }
        let own = session.zid().to_string();
        let others = Ids::default();
        let token = session.liveliness().declare_token(format!("{key}/{own}")).wait();
        let token = token.map_err(|error| anyhow!("cannot claim {key}: {error}"))?;
        let (noted, me) = (others.clone(), own.clone());
        let watch = session
            .liveliness()
            .declare_subscriber(format!("{key}/*"))
            .history(true)
            .callback(move |sample| {
                let id = id(sample.key_expr().as_str()).to_owned();
                let mut others = lock(&noted);
                match sample.kind() {
                    SampleKind::Put if id != me && others.len() < MAX_IDS => others.insert(id),
                    _ => others.remove(&id),
                };
            })
            .wait()
            .map_err(|error| anyhow!("cannot watch {key}: {error}"))?;
        let ignored = Mutex::default();
        Ok(Some(Self {
            taken,
            own,
            others,
            seen,
            ignored,
            _token: token,
            _watch: watch,
            _statuses: statuses,
        }))
    }

    /// Whether the name is still this bridge's. Two that claimed it at the same time, or on two networks that have become
    /// one, see each other here; the one with the lesser id stays. A program with a token that publishes no status is no bridge.
    ///
    /// # Errors
    /// It is the other's.
    pub fn check(&self) -> Result<()> {
        let others = lock(&self.others);
        for other in others.range::<String, _>(..&self.own) {
            if self.seen.as_ref().is_none_or(|seen| lock(seen).contains(other)) {
                bail!("{} (Zenoh id {other})", self.taken);
            }
            let mut ignored = lock(&self.ignored);
            if ignored.len() < MAX_IDS && ignored.insert(other.clone()) {
                eprint_line(&format!(
                    "another program claims this robot's name (Zenoh id {other}) and is ignored: no bridge answers there"
                ));
            }
        }
        Ok(())
    }
}

/// Notes who publishes at `status`.
fn listen(session: &Session, status: &str) -> Result<(Ids, Subscriber<()>)> {
    let seen = Ids::default();
    let noted = seen.clone();
    let callback = move |sample: Sample| {
        if sample.payload().len() > MAX_STATUS {
            return;
        }
        let status: Option<Status> = serde_json::from_slice(&sample.payload().to_bytes()).ok();
        let mut noted = lock(&noted);
        if let Some(status) = status
            && noted.len() < MAX_IDS
        {
            noted.insert(status.bridge);
        }
    };
    let subscriber = session.declare_subscriber(status.to_owned()).callback(callback).wait();
    Ok((seen, subscriber.map_err(|error| anyhow!("cannot watch {status}: {error}"))?))
}

fn id(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or_default()
}

/// A bridge that has a token below a key.
fn present(session: &Session, key: &str) -> Result<Option<String>> {
    let replies = session.liveliness().get(format!("{key}/*")).timeout(ANSWER).wait();
    let replies = replies.map_err(|error| anyhow!("cannot ask who has {key}: {error}"))?;
    Ok(replies.iter().find_map(|reply| Some(id(reply.result().ok()?.key_expr().as_str()).to_owned())))
}
