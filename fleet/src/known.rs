//! Which robots have answered here before: one whose bridge is dead or frozen, or that is cut off, is named and not left out.

use crate::fleet::{Robots, Seen};
use crate::names::RobotName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use twox_hash::XxHash3_128;

/// For how long a robot that is away is named.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// How many robots are kept, and how long the file may be.
const MAX_ROBOTS: usize = 1000;
const MAX_BYTES: u64 = 1 << 20;

/// The robots that have answered on one network, in a file of this user.
#[derive(Debug, Default)]
pub struct Known {
    path: Option<PathBuf>,
    seen: Seconds,
}

/// When each answered last, s since 1970.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Seconds(BTreeMap<String, u64>);

impl Known {
    /// Those of the network that is reached at `endpoints`. Without a home, or with a file that cannot be read, none is known.
    pub fn of(endpoints: &str) -> Self {
        let var = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let state = var("XDG_STATE_HOME").or_else(|| Some(var("HOME")?.join(".local/state")));
        let file = format!("{:032x}.json", XxHash3_128::oneshot(endpoints.as_bytes()));
        Self::at(state.map(|state| state.join("khz-fleet").join(file)))
    }

    fn at(path: Option<PathBuf>) -> Self {
        let is_short = |path: &PathBuf| path.metadata().is_ok_and(|data| data.len() <= MAX_BYTES);
        let text = path.as_ref().filter(|path| is_short(path)).and_then(|path| std::fs::read(path).ok());
        let mut seen: Seconds = text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let oldest = now_s().saturating_sub(KEPT.as_secs());
        seen.0.retain(|name, at_s| *at_s >= oldest && RobotName::new(name).is_ok());
        Self { path, seen }
    }

    /// These have answered now.
    pub fn note<'a>(&mut self, names: impl IntoIterator<Item = &'a RobotName>) {
        for name in names {
            self.seen.0.insert(name.to_string(), now_s());
        }
        while self.seen.0.len() > MAX_ROBOTS
            && let Some(oldest) =
                self.seen.0.iter().min_by_key(|(_, at_s)| **at_s).map(|(name, _)| name.clone())
        {
            self.seen.0.remove(&oldest);
        }
        self.keep();
    }

    /// The robot is not expected any more. Returns whether it was.
    pub fn forget(&mut self, name: &RobotName) -> bool {
        let was_known = self.seen.0.remove(name.as_str()).is_some();
        self.keep();
        was_known
    }

    /// All of them, and how long ago each answered.
    pub fn all(&self) -> impl Iterator<Item = (RobotName, Duration)> + '_ {
        let ago = |at_s: u64| Duration::from_secs(now_s().saturating_sub(at_s));
        self.seen.0.iter().filter_map(move |(name, at_s)| Some((RobotName::new(name).ok()?, ago(*at_s))))
    }

    /// All of them, as if none were there.
    pub fn robots(&self) -> Robots {
        self.all().map(|(name, ago)| (name, Seen::expected(ago))).collect()
    }

    /// Notes those that answer now.
    pub fn note_answering(&mut self, robots: &Robots) {
        self.note(robots.iter().filter(|(_, seen)| seen.status().is_some()).map(|(name, _)| name));
    }

    /// Writes the file, whole or not at all. Who has no place for it has no memory.
    fn keep(&self) {
        let write = || -> Option<()> {
            let path = self.path.as_ref()?;
            let folder = path.parent()?;
            std::fs::create_dir_all(folder).ok()?;
            let file = tempfile::NamedTempFile::new_in(folder).ok()?;
            serde_json::to_writer(&file, &self.seen).ok()?;
            file.persist(path).ok().map(drop)
        };
        let _ = write();
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> RobotName {
        RobotName::new(text).unwrap()
    }

    #[test]
    fn a_robot_that_answered_is_named_until_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let known = || Known::at(Some(folder.path().join("sub/a.json")));
        known().note([&name("left"), &name("right")]);
        let robots = known().robots();
        assert_eq!(robots.keys().map(RobotName::as_str).collect::<Vec<_>>(), ["left", "right"]);
        assert!(robots[&name("left")].state().starts_with("unreachable") && !robots[&name("left")].is_up());
        assert!(known().forget(&name("left")) && !known().forget(&name("left")));
        assert_eq!(known().all().map(|(name, _)| name.to_string()).collect::<Vec<_>>(), ["right"]);
    }

    #[test]
    fn whatever_is_in_the_file_is_survived() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        for text in ["", "[1]", "{\"a\":-1}", "{\"a/b\":99999999999,\"old\":1}"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(Known::at(Some(path.clone())).all().count(), 0, "{text}");
        }
        let many: Vec<RobotName> = (0..2 * MAX_ROBOTS).map(|n| name(&format!("r{n}"))).collect();
        let mut known = Known::at(None);
        known.note(&many);
        assert_eq!(known.all().count(), MAX_ROBOTS);
    }
}
