//! What is slow by nature, for a machine that has the night: it prints what it ran, and when each part last passed.

use crate::test::parts;
use crate::{debian, dist, instructions, lints, package, prove, shell, venv};
use anyhow::{Context, Error, Result, bail};
use std::path::PathBuf;

/// Ten times as many as the suite runs, from another seed.
const SCENARIOS: &str = "100000";

/// What reads datasets, and what the tests of that need.
const ENGINES: [&str; 7] = [
    "pyspark==4.3.0",
    "ray[data]==2.60.0",
    "duckdb==2.0.0",
    "polars==2.1.0",
    "pandas",
    "pytest",
    "pytest-timeout",
];

/// `LeRobot` is 8 GB, and what the tests of it need. numpy is as old as it asks for.
const LEROBOT: [&str; 4] = ["lerobot==0.4.4", "pytest==9.2.0", "pytest-timeout==2.4.0", "pandas"];

/// A part, what it does, and how.
struct Part {
    name: &'static str,
    does: &'static str,
    run: fn() -> Result<bool>,
}

const PARTS: &[Part] = &[
    Part { name: "campaign", does: "100,000 runs with faults", run: campaign },
    Part {
        name: "dist",
        does: "everything of a release, in its own profile, for all machines; tried, aarch64 under qemu",
        run: packages,
    },
    Part {
        name: "doc",
        does: "the pages of all crates, programs and Python's module too",
        run: lints::whole_documentation,
    },
    Part { name: "engines", does: "datasets read by Spark and Ray", run: engines },
    Part {
        name: "instructions",
        does: "instructions of a tick, every row of the table",
        run: || instructions::bench(&[]),
    },
    Part {
        name: "sentences",
        does: "what runs say of themselves, ten seeds of each case; with UPDATE=1 it writes docs/time.md",
        run: sentences,
    },
    Part {
        name: "lerobot",
        does: "LeRobot's own commands and loader, and the plug-in's tests with LeRobot in the place of stubs",
        run: lerobot,
    },
    Part { name: "package", does: "every package as a registry gets it, compiled from that", run: registry },
    Part {
        name: "policies",
        does: "the bits of policies, in builds for AVX2 and, under qemu, aarch64",
        run: policies,
    },
    Part { name: "robstride", does: "K-Scale's crate, compiled, against an emulated servo", run: robstride },
    Part {
        name: "targets",
        does: "a day of random programs, not one command cut by the guard",
        run: targets,
    },
    Part {
        name: "walk",
        does: "the trained quadruped for a minute in MuJoCo under pushes, in virtual and in real time",
        run: walk,
    },
    Part { name: "prove", does: "exploration with two events, loom, miri, mutants", run: || prove::run(&[]) },
];

/// Runs the named parts (all if none is named); true if all passed.
///
/// # Errors
/// If a name is no part's.
pub fn run(words: &[String]) -> Result<bool> {
    if words.iter().any(|word| word == "--list") {
        let line = |part: &Part| format!("{:<12} {}; {}\n", part.name, part.does, last(part.name));
        shell::print(&PARTS.iter().map(line).collect::<String>());
        return Ok(true);
    }
    if let Some(word) = words.iter().find(|word| PARTS.iter().all(|part| part.name != **word)) {
        bail!("no part is called `{word}`: cargo xtask nightly --list names them");
    }
    let mut passed = true;
    let mut lines = Vec::new();
    for part in PARTS.iter().filter(|part| words.is_empty() || words.iter().any(|word| word == part.name)) {
        println!("\n── {}: {} ──", part.name, part.does);
        let sound = (part.run)().unwrap_or_else(|error| {
            eprintln!("{}: {error:#}", part.name);
            false
        });
        lines.push(format!(
            "{}: {}; before that it {}",
            part.name,
            if sound { "passed" } else { "FAILED" },
            last(part.name)
        ));
        if sound {
            note(part.name)?;
        }
        passed &= sound;
    }
    println!("\n── summary ──\n{}", lines.join("\n"));
    Ok(passed)
}

fn campaign() -> Result<bool> {
    let words = ["drill", "campaign", "--seed", "1000000", "--scenarios", SCENARIOS];
    shell::succeeds(&mut shell::command(parts::khz()?, &words))
}

/// Also what the suite leaves out where only this machine's are built: `KHZ_DIST` is not set.
fn packages() -> Result<bool> {
    for tests in ["tests/dist", "nightly"] {
        debian::provide(tests).map_err(Error::msg)?;
    }
    dist::run(&[])?;
    let khz = format!("dist/khz-{}-x86_64-linux", env!("CARGO_PKG_VERSION"));
    let mut command = shell::command(venv::python()?, &["-m", "pytest", "tests/dist"]);
    shell::succeeds(command.env("KHZ_SLOW", "1").env("KHZ", shell::root().join(khz)))
}

/// `cargo package` compiles each from its own archive, with the others' archives as its registry.
fn registry() -> Result<bool> {
    let mut words = vec!["package", "--workspace", "--all-features"];
    for unpublished in ["khz-bench", "khz-suite", "khz-proofs", "xtask", "kilohertz-python"] {
        words.extend(["--exclude", unpublished]);
    }
    shell::succeeds(&mut shell::command("cargo", &words))
}

fn sentences() -> Result<bool> {
    let mut command = parts::pytest("tests/oracle/test_sentences.py")?;
    shell::succeeds(command.args(["-s"]).env("KHZ_SLOW", "1"))
}

fn walk() -> Result<bool> {
    shell::succeeds(parts::pytest("tests/python/test_trained.py")?.env("KHZ_SLOW", "1"))
}

/// The same vectors in every build, each optimised: that of the suite is not, and adds one number after the other.
fn policies() -> Result<bool> {
    const ARM: &str = "aarch64-unknown-linux-musl";
    debian::provide("nightly").map_err(Error::msg)?;
    dist::target_library(ARM)?;
    let builds = [
        ("x86_64-unknown-linux-gnu", ""),
        ("x86_64-unknown-linux-gnu", "-C target-cpu=x86-64-v3"),
        (ARM, ""),
    ];
    let passes = |(target, flags): (&str, &str)| {
        println!("{target} {flags}");
        let words = ["test", "--release", "--package", "khz-policy", "--test", "all", "--target", target];
        let mut command = shell::cargo(&words);
        // Apart, so that other flags compile nothing anew. Rust brings what a static program is linked with.
        command.env("CARGO_TARGET_DIR", shell::target().join("bits")).env("RUSTFLAGS", flags);
        command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld");
        command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER", "qemu-aarch64-static");
        shell::succeeds(&mut command)
    };
    let passed = builds.into_iter().map(passes).collect::<Result<Vec<_>>>()?;
    Ok(passed.into_iter().all(|passed| passed))
}

fn robstride() -> Result<bool> {
    let mut command = parts::pytest("tests/links/test_robstride_crate.py")?;
    shell::succeeds(command.env("KHZ_SLOW", "1"))
}

fn targets() -> Result<bool> {
    let words = [
        "test",
        "--package",
        "khz-robot",
        "--test",
        "virtual_time",
        "--",
        "--ignored",
        "--nocapture",
        "a_day_of",
    ];
    shell::succeeds(&mut shell::command("cargo", &words))
}

/// In an environment of its own: the two engines are a gigabyte.
fn engines() -> Result<bool> {
    debian::provide("tests/dataset/test_engines.py").map_err(Error::msg)?;
    let folder = shell::target().join("engines");
    let python = folder.join("bin/python");
    if !python.is_file() {
        shell::run(shell::command("python3", &["-m", "venv"]).arg(&folder))?;
    }
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    shell::fetch(shell::command(&python, &install).args(ENGINES))?;
    let tests = ["-m", "pytest", "tests/dataset/test_engines.py"];
    shell::succeeds(shell::command(&python, &tests).env("KHZ_SLOW", "1").env("KHZ", parts::khz()?))
}

/// In an environment of its own, kept for all clones: it takes 4 to 10 minutes to make.
fn lerobot() -> Result<bool> {
    let _one = shell::lock(&shell::kept(), "lerobot")?;
    let folder = shell::kept().join("lerobot");
    let (python, stamp) = (folder.join("bin/python"), folder.join("installed.txt"));
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == LEROBOT.join("\n")) {
        println!("LeRobot is in {}", folder.display());
    } else {
        shell::run(shell::command("python3", &["-m", "venv", "--clear"]).arg(&folder))?;
        shell::fetch(shell::command(&python, &install).args(LEROBOT))?;
        std::fs::write(&stamp, LEROBOT.join("\n")).context("cannot write the environment's stamp")?;
    }
    let ours = [package::wheel(dist::QUICK)?, dist::plugin(&shell::target().join("plugin"))?];
    shell::run(shell::command(&python, &install).args(["--force-reinstall", "--no-deps"]).args(ours))?;
    let mut tests = shell::command(&python, &["-m", "pytest", "tests/lerobot"]);
    shell::succeeds(tests.env("KHZ_SLOW", "1").env("KHZ", parts::khz()?))
}

/// The day and the commit of a part's last success on this machine.
fn last(part: &str) -> String {
    let text = std::fs::read_to_string(file(part)).unwrap_or_default();
    if text.is_empty() {
        "never passed on this machine".into()
    } else {
        format!("last passed {}", text.trim())
    }
}

fn note(part: &str) -> Result<()> {
    let commit = shell::output(&mut shell::command("git", &["log", "-1", "--format=%h"]))?;
    let day = shell::output(&mut shell::command("date", &["--utc", "+%Y-%m-%d"]))?;
    std::fs::create_dir_all(file(part).with_file_name("")).context("cannot make the folder of results")?;
    std::fs::write(file(part), format!("on {} at {}\n", day.trim(), commit.trim()))
        .context("cannot note the success")
}

fn file(part: &str) -> PathBuf {
    shell::kept().join("nightly").join(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_part_is_refused() {
        assert!(run(&["magic".into()]).is_err());
        assert!(run(&["--list".into()]).unwrap());
    }
}
