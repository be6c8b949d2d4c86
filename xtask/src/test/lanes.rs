//! Several parts at the same time, each in a process of its own: what computes fills the time in which what runs in real time waits.

use super::done::{Done, file_name, folder};
use super::failed;
use super::parts::{self, Lane};
use super::times;
use crate::shell;
use anyhow::{Context, Result};
use std::cmp::Reverse;
use std::fs::File;
use std::sync::{Condvar, Mutex, PoisonError};

/// Parts with a clock that run at the same time: such tests wait more than they compute.
const WITH_A_CLOCK: usize = 4;

/// How much a part of the batch gives way to the others. Not more: beside two busy programs of others a niceness of 10 left it a tenth of a
/// CPU, and packages, which the judges wait for, took longer than all else.
const NICE: &str = "3";

/// What has not begun, and what others have to wait for.
struct Queue {
    waiting: Vec<String>,
    /// One that measures is at it.
    measuring: bool,
    /// Parts that build what others test, and are not done.
    building: Vec<String>,
}

impl Queue {
    /// Whether this part has to wait.
    fn holds_up(&self, part: &str) -> bool {
        let measures = parts::lane(part) == Lane::Measuring;
        let needed = parts::needs(part);
        self.measuring && measures || self.building.iter().any(|builds| needed.contains(&builds.as_str()))
    }
}

/// Runs the parts; what became of them, in their order.
///
/// # Errors
/// If a part cannot be started.
pub fn run(parts: Vec<String>) -> Result<Vec<Done>> {
    std::fs::create_dir_all(folder()).context("cannot make the folder of results")?;
    let (mut batch, mut clock): (Vec<String>, Vec<String>) =
        parts.iter().cloned().partition(|part| parts::lane(part) == Lane::Batch);
    batch.sort_by_key(|part| parts::rank(part));
    // Unit tests first, then the longest: nothing long is alone at the end.
    clock.sort_by_cached_key(|part| (part != parts::UNITS, Reverse(times::wall_s(part))));
    let (batch, clock) = (Lanes::of(batch.clone(), batch.clone()), Lanes::of(clock, batch));
    let done = Mutex::new(Vec::new());
    let compute = || -> Result<()> {
        while let Some(part) = batch.next() {
            // Everything else waits for the packages.
            let nice = part != parts::PACKAGES;
            let one = start(&part, nice);
            [&batch, &clock].into_iter().for_each(|lanes| lanes.built(&part));
            done.lock().unwrap_or_else(PoisonError::into_inner).push(one?);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let mut workers = vec![scope.spawn(compute)];
        // Once nothing with a clock is left, what is left of the batch has the other processors, too.
        workers.extend((0..WITH_A_CLOCK).map(|_| scope.spawn(|| clock.work(&done).and_then(|()| compute()))));
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| Ok(())))
    })?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|each| parts.iter().position(|part| *part == each.part));
    Ok(done)
}

/// Parts that several workers take one by one.
struct Lanes {
    queue: Mutex<Queue>,
    freed: Condvar,
}

impl Lanes {
    fn of(waiting: Vec<String>, building: Vec<String>) -> Self {
        Self { queue: Mutex::new(Queue { waiting, measuring: false, building }), freed: Condvar::new() }
    }

    fn work(&self, done: &Mutex<Vec<Done>>) -> Result<()> {
        while let Some(part) = self.next() {
            let one = start(&part, false)?;
            if parts::lane(&part) == Lane::Measuring {
                self.lock().measuring = false;
                self.freed.notify_all();
            }
            done.lock().unwrap_or_else(PoisonError::into_inner).push(one);
        }
        Ok(())
    }

    /// What this part builds is there, or cannot be built: what needs it reports that then.
    fn built(&self, part: &str) {
        self.lock().building.retain(|builds| builds != part);
        self.freed.notify_all();
    }

    /// The next part that may run now; waits while all that are left have to.
    fn next(&self) -> Option<String> {
        let mut queue = self.lock();
        loop {
            if queue.waiting.is_empty() {
                return None;
            }
            if let Some(index) = queue.waiting.iter().position(|part| !queue.holds_up(part)) {
                let part = queue.waiting.remove(index);
                queue.measuring |= parts::lane(&part) == Lane::Measuring;
                return Some(part);
            }
            queue = self.freed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a part in a process of its own; returns what became of it. In continuous integration all that a failed part printed is repeated:
/// nothing else is kept there.
fn start(part: &str, nice: bool) -> Result<Done> {
    let log = folder().join(format!("{}.log", file_name(part)));
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let _ = std::fs::remove_file(Done::file(part));
    println!("{part}: begins");
    let this = std::env::current_exe().context("where is this program?")?;
    let mut command = if nice { shell::command("nice", &["-n", NICE]) } else { shell::command(&this, &[]) };
    if nice {
        command.arg(&this);
    }
    command.args(["test", part]).stdout(file.try_clone()?).stderr(file);
    command.status().context("cannot start a part")?;
    let done = Done { log: Some(log), ..Done::read(part) };
    match done.failed() {
        true if shell::in_ci() => println!("{}\n{}", failed::printed(&done), failed::lines(&done)),
        true => println!("{}", failed::lines(&done)),
        false => println!("{part}: {} s, {}", done.wall_s, done.outcome),
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_that_measure_never_run_at_the_same_time() {
        let lanes =
            Lanes::of(vec!["tests/oracle".into(), "tests/rtt".into(), "tests/python".into()], Vec::new());
        assert_eq!(lanes.next().as_deref(), Some("tests/oracle"));
        assert_eq!(lanes.next().as_deref(), Some("tests/python"));
        lanes.lock().measuring = false;
        assert_eq!(lanes.next().as_deref(), Some("tests/rtt"));
        assert_eq!(lanes.next(), None);
    }

    #[test]
    fn what_tests_something_waits_until_it_is_built() {
        let waiting = ["tests/fleet", "tests/dist", "rust"].map(str::to_owned).into();
        let lanes = Lanes::of(waiting, ["packages", "fleet", "fuzz"].map(str::to_owned).into());
        assert_eq!(lanes.next().as_deref(), Some("rust"));
        lanes.built("packages");
        assert_eq!(lanes.next().as_deref(), Some("tests/dist"));
        lanes.built("fleet");
        assert_eq!(lanes.next().as_deref(), Some("tests/fleet"));
    }
}
