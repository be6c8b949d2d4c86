//! Fuzz targets, replayed and run with the stable compiler: coverage instrumentation is a code generation
//! pass that `rustc` has on every channel, so neither nightly nor another program is needed.

use crate::shell;
use crate::tally::Tally;
use anyhow::{Context, Result, anyhow, bail};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Cargo's name of this machine: with it, flags do not reach build scripts.
const HOST: &str = "x86_64-unknown-linux-gnu";

const INSTRUMENTED: &str = "--cfg fuzzing -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks \
    -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Runs the named targets (all if none is named); true if none found a fault.
///
/// # Errors
/// On a wrong argument.
pub fn run(words: &[String]) -> Result<bool> {
    let (names, seconds) = parse(words)?;
    let tally = targets(&names, seconds)?;
    println!("{tally}");
    Ok(tally.failed == 0)
}

/// Replays the corpus of each target, then fuzzes each for some seconds (0 for none). Several run at the same time.
///
/// # Errors
/// If a name is no target's, or a tool cannot be started.
pub fn targets(names: &[String], seconds: u32) -> Result<Tally> {
    let all = all();
    if let Some(name) = names.iter().find(|name| !all.contains(name)) {
        bail!("no fuzz target is called `{name}`; there are: {}", all.join(", "));
    }
    seed()?;
    let chosen: Vec<&String> =
        all.iter().filter(|target| names.is_empty() || names.contains(target)).collect();
    build(&chosen)?;
    let next = AtomicUsize::new(0);
    let work = || -> Result<Tally> {
        let mut tally = Tally::default();
        while let Some(target) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            let sound = shell::succeeds(&mut replay(target))? && (seconds == 0 || fuzz(target, seconds)?);
            println!("fuzz {target}: {}", if sound { "ok" } else { "FAILED" });
            tally += Tally { passed: u32::from(sound), failed: u32::from(!sound), skipped: 0 };
        }
        Ok(tally)
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let mut tally = Tally::default();
        for worker in workers {
            tally += worker.join().map_err(|_| anyhow!("a worker of the fuzz targets panicked"))??;
        }
        Ok(tally)
    })
}

/// The names of all targets.
pub fn all() -> Vec<String> {
    shell::entries("fuzz/fuzz_targets").iter().map(|file| shell::stem(file)).collect()
}

fn parse(words: &[String]) -> Result<(Vec<String>, u32)> {
    let mut names = Vec::new();
    let mut seconds = 0;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seconds" => {
                let value = words.next().context("--seconds wants a number")?;
                seconds = value.parse().with_context(|| format!("--seconds {value}: not a number"))?;
            }
            flag if flag.starts_with('-') => bail!("no such option: {flag}"),
            name => names.push(name.to_owned()),
        }
    }
    Ok((names, seconds))
}

/// Writes the vectors as seeds into each corpus.
fn seed() -> Result<()> {
    shell::run(&mut shell::command("python3", &["fuzz/seed.py"]))
}

fn replay(target: &str) -> Command {
    let mut command = runner(target);
    command.args(["-runs=0", "-verbosity=0"]).args(corpus(target));
    command
}

fn fuzz(target: &str, seconds: u32) -> Result<bool> {
    let found = folder().join("found").join(target);
    std::fs::create_dir_all(&found).with_context(|| format!("cannot make {}", found.display()))?;
    let artifacts = shell::root().join("fuzz/artifacts").join(target);
    std::fs::create_dir_all(&artifacts).with_context(|| format!("cannot make {}", artifacts.display()))?;
    let mut command = runner(target);
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()));
    if shell::in_ci() {
        // A commit is judged by what it changes, not by what chance turns up today.
        command.arg("-seed=1");
    }
    // What is found goes to the first folder; the seeds behind it are only read.
    command
        .args(["-rss_limit_mb=2048", "-timeout=10", "-verbosity=0", "-print_final_stats=1"])
        .arg(found)
        .args(corpus(target));
    shell::succeeds(&mut command)
}

/// Compiles all of them at once; clippy is their compiler, and a warning an error.
fn build(targets: &[&String]) -> Result<()> {
    let arguments = ["build", "--quiet", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", HOST];
    let mut command = shell::cargo(&arguments);
    targets.iter().for_each(|target| {
        command.args(["--bin", target.as_str()]);
    });
    command.arg("--target-dir").arg(folder()).env("RUSTFLAGS", INSTRUMENTED);
    if !shell::is_clean(&mut command)? {
        bail!("the fuzz targets do not compile, or not without warnings");
    }
    Ok(())
}

fn runner(target: &str) -> Command {
    shell::command(folder().join(HOST).join("release").join(target), &[])
}

/// Where instrumented programs are: flags of their own make everything anew.
fn folder() -> std::path::PathBuf {
    shell::target().join("fuzz")
}

fn corpus(target: &str) -> Option<std::path::PathBuf> {
    Some(shell::root().join("fuzz/corpus").join(target)).filter(|folder| folder.is_dir())
}
