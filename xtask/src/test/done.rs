//! What became of a part, and how a part in a process of its own reports it.

use super::times;
use crate::shell;
use crate::tally::Tally;
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::time::Instant;

/// What became of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ran(Tally),
    NotRun(String),
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ran(tally) => tally.fmt(out),
            Self::NotRun(why) => write!(out, "not run: {why}"),
        }
    }
}

/// A part that is over.
#[derive(Clone, Debug)]
pub struct Done {
    pub part: String,
    pub outcome: Outcome,
    pub wall_s: u64,
    /// Processor time of the part and of all it started.
    pub cpu_s: u64,
    /// What it printed, if not to this terminal.
    pub log: Option<PathBuf>,
}

impl Done {
    /// Where a part leaves its result for the process that started it.
    pub fn file(part: &str) -> PathBuf {
        folder().join(format!("{}.result", file_name(part)))
    }

    /// Of this process, which began with it.
    pub fn since(part: &str, outcome: Outcome, start: Instant) -> Self {
        let (wall_s, cpu_s) = (start.elapsed().as_secs(), times::processor_s().unwrap_or(0));
        Self { part: part.to_owned(), outcome, wall_s, cpu_s, log: None }
    }

    /// Leaves the result for the process that started this one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn leave(&self) -> Result<()> {
        let outcome = match &self.outcome {
            Outcome::Ran(tally) => format!("ran {} {} {}", tally.passed, tally.failed, tally.skipped),
            Outcome::NotRun(why) => format!("not-run {why}"),
        };
        std::fs::create_dir_all(folder()).context("cannot make the folder of results")?;
        let text = format!("{} {} {outcome}\n", self.wall_s, self.cpu_s);
        std::fs::write(Self::file(&self.part), text).context("cannot write the result")
    }

    /// What a part left; a part that left nothing has failed.
    pub fn read(part: &str) -> Self {
        let text = std::fs::read_to_string(Self::file(part)).unwrap_or_default();
        Self::parse(part, &text).unwrap_or(Self {
            part: part.to_owned(),
            outcome: Outcome::Ran(Tally { failed: 1, ..Tally::default() }),
            wall_s: 0,
            cpu_s: 0,
            log: None,
        })
    }

    fn parse(part: &str, text: &str) -> Option<Self> {
        let mut words = text.trim_end().splitn(4, ' ');
        let (wall_s, cpu_s) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let outcome = match (words.next()?, words.next()?) {
            ("not-run", why) => Outcome::NotRun(why.to_owned()),
            ("ran", counts) => {
                let mut counts = counts.split(' ').map(str::parse::<u32>);
                let mut next = || counts.next()?.ok();
                Outcome::Ran(Tally { passed: next()?, failed: next()?, skipped: next()? })
            }
            _ => return None,
        };
        Some(Self { part: part.to_owned(), outcome, wall_s, cpu_s, log: None })
    }

    /// Whether this fails the whole.
    pub fn failed(&self) -> bool {
        match &self.outcome {
            Outcome::Ran(tally) => tally.failed > 0,
            Outcome::NotRun(_) => shell::in_ci(),
        }
    }
}

/// Where parts that run beside others leave what they print, and their results.
pub fn folder() -> PathBuf {
    shell::target().join("test")
}

/// A part's name as that of a file.
pub fn file_name(part: &str) -> String {
    part.replace('/', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_read_as_it_was_left() {
        let done = Done::parse("rust", "12 34 ran 5 0 1\n").unwrap();
        assert_eq!((done.wall_s, done.cpu_s), (12, 34));
        assert_eq!(done.outcome, Outcome::Ran(Tally { passed: 5, failed: 0, skipped: 1 }));
        let why = Done::parse("vm", "0 0 not-run no qemu: type `apt-get install …`\n").unwrap();
        assert_eq!(why.outcome, Outcome::NotRun("no qemu: type `apt-get install …`".into()));
        assert!(Done::parse("vm", "").is_none());
    }
}
