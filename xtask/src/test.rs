//! Every test of the project with one command: Rust, the Python judges, fuzz corpora, the virtual machine.
//!
//! Each part is a process of its own (`cargo xtask test PART`), so several run at the same time. A part that cannot run here is named
//! with the reason and the remedy; in continuous integration (`CI=true`) it is a failure, so that nothing is silently left
//! out where it matters.

pub mod done;
mod failed;
mod lanes;
pub mod parts;
mod quick;
pub mod times;
mod watch;

use crate::shell;
use crate::tally::Tally;
use anyhow::{Result, bail};
use done::Done;
pub use done::Outcome;
use std::time::Instant;

const HELP: &str = "usage: cargo xtask test [PART…] [--times]

Without a part it runs all of them. As root it first installs the Debian packages that are missing. A file of Python tests, or one test, is
named as pytest names it: tests/rtt/test_rtt.py::test_a_port_in_use_is_named

  --list   names the parts, what each is, and what it took (tests/times.tsv)
  --times  writes what they take into that table

cargo xtask test quick [--list] [--base REV]

Runs lints, and the tests of what changed since the branch left main, or since REV. It names other parts that read the change, too.

  --list   only names what would run";

/// Runs the named parts (all if none is named); true if nothing failed. A file of Python tests, or a test in one, may be
/// named as pytest names it.
///
/// # Errors
/// If a name is no part's.
pub fn run(words: &[String]) -> Result<bool> {
    let parts = parts::all();
    match words {
        [word] if word == "--list" => {
            shell::print(&list(&parts));
            return Ok(true);
        }
        [.., word] if ["--help", "-h"].contains(&word.as_str()) => {
            shell::print(&format!("{HELP}\n"));
            return Ok(true);
        }
        [word, rest @ ..] if word == "quick" => return quick::run(rest),
        _ => {}
    }
    let (flags, names): (Vec<&String>, Vec<&String>) = words.iter().partition(|word| word.starts_with("--"));
    if let Some(word) = names.iter().find(|word| !parts.iter().any(|part| parts::is_of(word, part))) {
        bail!("no part is called `{word}`; there are: quick, {}", parts.join(", "));
    }
    if let Some(flag) = flags.iter().find(|flag| **flag != "--times") {
        bail!("no such option: {flag}");
    }
    let done = match names.as_slice() {
        [] => lanes::run(parts)?,
        [part] => vec![one(part)],
        names => lanes::run(names.iter().map(|name| (*name).clone()).collect())?,
    };
    if !flags.is_empty() {
        times::write(&done)?;
    }
    Ok(summarise(&done))
}

/// The parts, with their times and what each is.
fn list(parts: &[String]) -> String {
    let line = |part: &String| format!("{part:<17}{:>4} s  {}\n", times::wall_s(part), parts::about(part));
    let lines: String = parts.iter().map(line).collect();
    format!("{lines}{:<17}        what a change touches: {}\n", "quick", quick::USAGE)
}

/// Runs one part in this process, and leaves what became of it for the one that started it.
fn one(part: &str) -> Done {
    println!("\n── {part} ──");
    let start = Instant::now();
    let outcome = parts::run(part).unwrap_or_else(|error| {
        eprintln!("{part}: {error:#}");
        Outcome::Ran(Tally { failed: 1, ..Tally::default() })
    });
    let done = Done::since(part, outcome, start);
    if let Err(error) = done.leave() {
        eprintln!("{part}: {error:#}");
    }
    done
}

fn summarise(done: &[Done]) -> bool {
    let mut sum = Tally::default();
    println!("\n── summary (wall, processor time) ──");
    for each in done {
        let Done { part, wall_s, cpu_s, .. } = each;
        match &each.outcome {
            Outcome::Ran(tally) => {
                println!("{part} ({wall_s} s, {cpu_s} s): {tally}");
                sum += *tally;
            }
            Outcome::NotRun(why) if shell::in_ci() => {
                println!("{part}: NOT RUN, a failure here: {why}");
                sum.failed += 1;
            }
            Outcome::NotRun(why) => {
                println!("{part}: not run: {why}");
                sum.skipped += 1;
            }
        }
    }
    times::grown(done).iter().for_each(|line| println!("{line}"));
    // One that ran in this process has reported it itself.
    for each in done.iter().filter(|each| each.failed() && each.log.is_some()) {
        println!("{}", failed::lines(each));
    }
    println!("{sum}");
    sum.failed == 0 && sum.ran()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(tally: Tally) -> Done {
        Done { part: "rust".into(), outcome: Outcome::Ran(tally), wall_s: 0, cpu_s: 0, log: None }
    }

    #[test]
    fn nothing_run_is_no_success() {
        assert!(!summarise(&[ran(Tally::default())]));
        assert!(summarise(&[ran(Tally { passed: 1, ..Tally::default() })]));
    }
}
