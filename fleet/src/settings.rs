//! Settings of a bridge: from its file, and from its command line.

use crate::names::RobotName;
use crate::thin::Rule;
use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The greatest rate of ROS topics, Hz: `docs/fleet.md` has the reason.
const MAX_ROS_HZ: f64 = 200.0;

/// The most of the temporary folder, MiB.
const MAX_STRETCH_MIB: u64 = 1 << 20;

/// Settings of a bridge.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The robot's name on the network; without it, that of its robot file.
    pub name: Option<String>,
    /// Where the robot's recorder sends its samples (`log.stream`).
    pub listen: SocketAddr,
    /// The robot's live view (`khz run --view`), for stop, parameters and steering.
    pub view: Option<SocketAddr>,
    /// The view's token, if it has one.
    pub token: Option<String>,
    /// A folder with the robot's logs.
    pub logs: Option<PathBuf>,
    /// How much of the temporary folder stretches of logs may take while they are sent, MiB.
    pub stretch_mib: u64,
    /// How many samples of each record are passed on.
    pub records: BTreeMap<String, Rule>,
    /// Records whose least and greatest values between two samples are passed on, too.
    pub ranges: Vec<String>,
    /// What ROS 2 gets.
    pub ros: Ros,
}

/// What ROS 2 gets.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ros {
    /// Whether it gets anything.
    pub enabled: bool,
    /// ROS_DOMAIN_ID.
    pub domain: u32,
    /// How often joint states and IMU, Hz; at most 200.
    pub rate_hz: f64,
}

impl Default for Ros {
    fn default() -> Self {
        Self { enabled: true, domain: 0, rate_hz: 100.0 }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: None,
            listen: ([127, 0, 0, 1], 7400).into(),
            view: None,
            token: None,
            logs: None,
            stretch_mib: 64,
            records: BTreeMap::new(),
            ranges: vec!["tick".into(), "servo".into()],
            ros: Ros::default(),
        }
    }
}

impl Settings {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or what is wrong with it and where.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let settings: Self = toml::from_str(&text).with_context(|| format!("in {}", path.display()))?;
        settings.check().with_context(|| format!("in {}", path.display()))
    }

    /// Checks what the types alone do not ensure.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(self) -> Result<Self> {
        for (record, rule) in &self.records {
            rule.check().map_err(|why| anyhow!("records.{record}: {why}"))?;
        }
        if !(0.1..=MAX_ROS_HZ).contains(&self.ros.rate_hz) {
            bail!("ros.rate_hz: {} is outside 0.1 to {MAX_ROS_HZ}", self.ros.rate_hz);
        }
        if !(1..=MAX_STRETCH_MIB).contains(&self.stretch_mib) {
            bail!("stretch_mib: {} is outside 1 to {MAX_STRETCH_MIB}", self.stretch_mib);
        }
        self.name.as_deref().map(RobotName::new).transpose().map_err(|why| anyhow!(why))?;
        if let Some(logs) = &self.logs
            && !logs.is_dir()
        {
            bail!("logs: {} is no folder", logs.display());
        }
        Ok(self)
    }

    /// The settings that name records which are not among these.
    pub fn unknown(&self, names: &[&str]) -> Vec<String> {
        let rules = self.records.keys().map(|name| ("records", name));
        let ranges = self.ranges.iter().map(|name| ("ranges", name));
        rules
            .chain(ranges)
            .filter(|(_, name)| !names.contains(&name.as_str()))
            .map(|(key, name)| format!("{key}: `{name}`"))
            .collect()
    }

    /// How many samples of a record are passed on.
    pub fn rule(&self, record: &str) -> Rule {
        self.records.get(record).copied().unwrap_or_else(|| Rule::usual(record))
    }

    /// Whether the least and greatest values of a record are passed on.
    pub fn has_ranges(&self, record: &str) -> bool {
        self.ranges.iter().any(|known| known == record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        let settings: Settings = toml::from_str(text).map_err(|error| error.to_string())?;
        settings.check().map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_says_what_is_passed_on() {
        let settings = read(
            "name = 'quad1'\nlisten = '127.0.0.1:7401'\n[records]\nservo = { rate_hz = 10.0 }\nevent = 'every'\nimu = 'off'\n\
             [ros]\nrate_hz = 20.0",
        )
        .unwrap();
        assert_eq!(settings.rule("servo"), Rule::RateHz(10.0));
        assert_eq!((settings.rule("imu"), settings.rule("event")), (Rule::Off, Rule::Every));
        assert_eq!(settings.rule("mine"), Rule::RateHz(50.0));
        assert!(settings.has_ranges("servo") && !settings.has_ranges("imu"));
    }

    #[test]
    fn the_file_of_the_documentation_is_one() {
        let page = include_str!("../../docs/fleet.md");
        let block = page
            .split_once("title=\"bridge.toml\"\n")
            .and_then(|(_, rest)| rest.split("```").next())
            .unwrap();
        let settings = read(block).unwrap();
        assert_eq!((settings.rule("battery"), settings.name.as_deref()), (Rule::Change, Some("quad1")));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("nmae = 'x'", "nmae"),
            ("name = 'a b'", "a b"),
            ("listen = '7400'", "listen"),
            ("[records]\nservo = { rate_hz = -1.0 }", "records.servo"),
            ("[ros]\nrate_hz = 1000.0", "ros.rate_hz"),
            ("logs = '/nowhere/at/all'", "/nowhere/at/all"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
