//! Benches: each is one file of `crates/bench/src/bin`, run alone, its figures printed with the steal time.

use crate::{debian, fleet, instructions, package, shell, venv};
use anyhow::{Result, bail};

const FOLDER: &str = "crates/bench/src/bin";

/// Runs the named benches (all if none is named); false if one broke. A goal that is not met is a figure to
/// read, not a failure.
///
/// # Errors
/// On a wrong argument, or if the benches cannot be built.
pub fn run(words: &[String]) -> Result<bool> {
    if let Some((_, rest)) = words.split_first().filter(|(name, _)| *name == "instructions") {
        return instructions::bench(&rest.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let all: Vec<String> = shell::entries(FOLDER).iter().map(|file| shell::stem(file)).collect();
    let (flags, names): (Vec<&String>, Vec<&String>) = words.iter().partition(|word| word.starts_with('-'));
    if let Some(flag) = flags.iter().find(|flag| !["--list", "--quick"].contains(&flag.as_str())) {
        bail!("no such option: {flag}");
    }
    if let Some(name) = names.iter().find(|name| !all.contains(name)) {
        bail!("no bench is called `{name}`; there are: {}", all.join(", "));
    }
    if flags.iter().any(|flag| *flag == "--list") {
        let lines: String = all.iter().map(|name| format!("{name:<12} {}\n", summary(name))).collect();
        shell::print(&format!(
            "{lines}instructions [--write] [--cache-sim] [ROW…]  instructions of a tick, against {}\n",
            instructions::TABLE
        ));
        return Ok(true);
    }
    let quick = flags.iter().any(|flag| *flag == "--quick");
    let chosen = all.iter().filter(|name| names.is_empty() || names.contains(name));
    chosen.map(|name| bench(name, quick)).try_fold(true, |sound, one| Ok(sound & one?))
}

fn bench(name: &str, quick: bool) -> Result<bool> {
    if let Err(why) = debian::provide(&format!("{FOLDER}/{name}.rs")) {
        println!("bench {name}: {why}");
    }
    let build =
        ["build", "--quiet", "--profile", "dist", "--package", "kilohertz-cli", "--package", "khz-bench"];
    let library = if name == "cpp" { &["--package", "khz-capi", "--lib"][..] } else { &[] };
    shell::run(shell::cargo(&build).args(["--bin", "khz", "--bin", name]).args(library))?;
    let mut command = shell::command(shell::program("dist", name), &[]);
    if quick {
        command.arg("--quick");
    }
    let with_package = ["attribution", "sim"].contains(&name) || name.ends_with("python");
    match if with_package { package::with_package("dist") } else { venv::python() } {
        Ok(python) => {
            // As when the environment is activated: what looks for a package of it finds it.
            let environment =
                python.parent().and_then(std::path::Path::parent).map(std::path::Path::to_owned);
            command.env("PYTHON", python);
            environment.map(|folder| command.env("VIRTUAL_ENV", folder));
        }
        Err(error) => println!("bench {name}: no Python environment: {error:#}"),
    }
    command.env("KHZ", shell::program("dist", "khz")).env("KHZ_LIBRARY", shell::program("dist", ""));
    if name == "fleet" {
        command.env("KHZ_FLEET", fleet::program()?);
    }
    println!("bench {name}: steal {} before", steal());
    let sound = shell::succeeds(&mut command)?;
    println!("bench {name}: steal {} after", steal());
    Ok(sound)
}

/// The first line of the bench's own page.
fn summary(name: &str) -> String {
    let text = std::fs::read_to_string(shell::root().join(FOLDER).join(format!("{name}.rs")));
    let line = text.ok().and_then(|text| text.lines().next().map(str::to_owned));
    line.unwrap_or_default().trim_start_matches("//! ").to_owned()
}

/// Time the hypervisor gave to others since the machine started, in its own ticks (hundredths of a second).
fn steal() -> String {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let steal = text.lines().next().and_then(|line| line.split_whitespace().nth(8));
    steal.map_or("unknown".into(), |ticks| format!("{ticks} ticks"))
}
