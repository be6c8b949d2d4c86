//! Several parts at the same time, each in a process of its own: what computes fills the time in which what runs in real time waits.

use super::done::{Done, file_name, folder};
use super::parts::{self, Lane};
use crate::shell;
use anyhow::{Context, Result};
use std::fs::File;
use std::process::Command;
use std::sync::{Condvar, Mutex};

/// Parts with a clock that run at the same time: such tests wait more than they compute.
const WITH_A_CLOCK: usize = 2;

/// How much a part of the batch gives way to the others.
const NICE: &str = "10";

/// Lines of a failed part that are repeated under its name.
const NAMED: usize = 12;

/// What has not begun, and whether one that measures is at it.
struct Queue {
    waiting: Vec<String>,
    measuring: bool,
}

/// Runs the parts; what became of them, in their order.
///
/// # Errors
/// If a part cannot be started.
pub fn run(parts: Vec<String>) -> Result<Vec<Done>> {
    std::fs::create_dir_all(folder()).context("cannot make the folder of results")?;
    let (mut batch, clock): (Vec<String>, Vec<String>) =
        parts.iter().cloned().partition(|part| parts::lane(part) == Lane::Batch);
    batch.sort_by_key(|part| parts::rank(part));
    let (batch, clock) = (Lanes::of(batch), Lanes::of(clock));
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let mut workers = vec![scope.spawn(|| batch.work(true, &done))];
        workers.extend((0..WITH_A_CLOCK).map(|_| scope.spawn(|| clock.work(false, &done))));
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| Ok(())))
    })?;
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|each| parts.iter().position(|part| *part == each.part));
    Ok(done)
}

/// Parts that several workers take one by one.
struct Lanes {
    queue: Mutex<Queue>,
    freed: Condvar,
}

impl Lanes {
    fn of(waiting: Vec<String>) -> Self {
        Self { queue: Mutex::new(Queue { waiting, measuring: false }), freed: Condvar::new() }
    }

    fn work(&self, batch: bool, done: &Mutex<Vec<Done>>) -> Result<()> {
        while let Some(part) = self.next() {
            let one = start(&part, batch)?;
            if parts::lane(&part) == Lane::Measuring {
                self.lock().measuring = false;
                self.freed.notify_all();
            }
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(one);
        }
        Ok(())
    }

    /// The next part that may run now; waits where all that are left measure and one does already.
    fn next(&self) -> Option<String> {
        let mut queue = self.lock();
        loop {
            if queue.waiting.is_empty() {
                return None;
            }
            let measures = |part: &String| parts::lane(part) == Lane::Measuring;
            let may = |part: &String| !(queue.measuring && measures(part));
            if let Some(index) = queue.waiting.iter().position(may) {
                let part = queue.waiting.remove(index);
                queue.measuring |= measures(&part);
                return Some(part);
            }
            queue = self.freed.wait(queue).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Runs a part in a process of its own; says what became of it, and if it failed all that it printed.
fn start(part: &str, batch: bool) -> Result<Done> {
    let log = folder().join(format!("{}.log", file_name(part)));
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let _ = std::fs::remove_file(Done::file(part));
    println!("{part}: begins");
    let this = std::env::current_exe().context("where is this program?")?;
    let mut command = if batch { shell::command("nice", &["-n", NICE]) } else { shell::command(&this, &[]) };
    if batch {
        command.arg(&this);
    }
    command.args(["test", part]).stdout(file.try_clone()?).stderr(file);
    wait(&mut command)?;
    let done = Done::read(part);
    let text =
        std::fs::read(&log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    if done.failed() {
        println!("{text}\n── {part} FAILED ──");
        failures(&text).for_each(|line| println!("{line}"));
        println!("run it alone: cargo xtask test {part}; what it printed: {}", log.display());
    } else {
        println!("{part}: {} s, {}", done.wall_s, done.outcome);
    }
    Ok(done)
}

fn wait(command: &mut Command) -> Result<()> {
    command.status().map(drop).context("cannot start a part")
}

/// The lines with which runners name a failed test.
fn failures(text: &str) -> impl Iterator<Item = &str> {
    let names = |line: &&str| {
        (line.starts_with("test ") && line.ends_with("... FAILED"))
            || line.starts_with("FAILED ")
            || line.starts_with("ERROR ")
            || line.starts_with("not ok - ")
            || line.starts_with("error: could not compile")
    };
    text.lines().filter(names).take(NAMED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_of_every_runner_are_named() {
        let text =
            "test a::b ... ok\ntest c ... FAILED\nFAILED tests/x.py::test_y - assert\nnot ok - can: lost\n";
        assert_eq!(failures(text).count(), 3);
    }

    #[test]
    fn two_that_measure_never_run_at_the_same_time() {
        let lanes = Lanes::of(vec!["tests/oracle".into(), "tests/rtt".into(), "tests/python".into()]);
        assert_eq!(lanes.next().as_deref(), Some("tests/oracle"));
        assert_eq!(lanes.next().as_deref(), Some("tests/python"));
        lanes.lock().measuring = false;
        assert_eq!(lanes.next().as_deref(), Some("tests/rtt"));
        assert_eq!(lanes.next(), None);
    }
}
