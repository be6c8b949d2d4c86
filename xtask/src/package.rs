//! The Python package: built for the tests, and installed into their environment.

use crate::{dist, licences, shell, venv};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::Command;

/// Builds the Python package in a profile (`release`, `dist`), with the licences of everything in it; returns the wheel.
///
/// # Errors
/// As [`venv::python`], or if the package cannot be built.
pub fn wheel(profile: &str) -> Result<PathBuf> {
    licences::write()?;
    let wheels = shell::target().join("wheels");
    let fresh = shell::target().join("wheels-fresh");
    let _ = std::fs::remove_dir_all(&fresh);
    dist::module(profile, &fresh)?;
    let mut made = std::fs::read_dir(&fresh).context("maturin made no wheel")?.flatten();
    let made = made.next().context("maturin made no wheel")?;
    std::fs::create_dir_all(&wheels).context("cannot make the folder of wheels")?;
    // Wheels of former builds must not be installed instead; the one that is replaced is never missing: tests may be reading it.
    let others = std::fs::read_dir(&wheels).context("cannot read the folder of wheels")?.flatten();
    for other in others.filter(|other| other.file_name() != made.file_name()) {
        let _ = std::fs::remove_file(other.path());
    }
    let wheel = wheels.join(made.file_name());
    std::fs::rename(made.path(), &wheel).context("cannot put the wheel in its place")?;
    Ok(wheel)
}

/// Builds the Python package and installs it into the environment; returns the environment's Python. One process at a time, and
/// only a package that has changed: others may be using what is installed.
///
/// # Errors
/// As [`wheel`], or if it cannot be installed.
pub fn with_package(profile: &str) -> Result<PathBuf> {
    let python = venv::python()?;
    let _one = shell::lock(&shell::target(), "package")?;
    let wheel = wheel(profile)?;
    let sum = shell::output(Command::new("sha256sum").arg(&wheel))?;
    let stamp = shell::root().join(".venv/package.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == sum) {
        return Ok(python);
    }
    let install = ["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps"];
    shell::run(shell::command(&python, &install).arg(wheel))?;
    std::fs::write(&stamp, sum).context("cannot write the package's stamp")?;
    Ok(python)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Needed by others' crates alone, of which few are compiled twice.
    const LEFT: &str = "num-integer";

    /// The features with which each package is compiled, for this machine or while compiling, by name and version.
    fn features(edges: &str, packages: &[&str]) -> BTreeMap<String, Vec<String>> {
        let words = ["tree", "--offline", "--edges", edges, "--prefix", "none", "--format", "{p}|{f}"];
        let tree = shell::output(shell::cargo(&words).args(packages)).unwrap();
        let mut features: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (package, with) in tree.lines().filter_map(|line| line.trim_end_matches(" (*)").split_once('|')) {
            features.entry(package.into()).or_default().push(with.into());
        }
        features.values_mut().for_each(|with| {
            with.sort();
            with.dedup();
        });
        features
    }

    #[test]
    fn command_and_package_are_compiled_of_the_same_crates() {
        evened_out(
            "normal",
            &["--package", "kilohertz-cli", "--package", "khz-capi"],
            "kilohertz-python",
            "python",
        );
    }

    #[test]
    fn the_guest_s_command_and_test_are_compiled_of_the_same_crates() {
        evened_out("normal,dev", &["--package", "kilohertz-cli"], "khz-suite", "suite");
    }

    /// Whether what a package in `folder` shares with the command is compiled once for both.
    fn evened_out(edges: &str, command: &[&str], package: &str, folder: &str) {
        let command = features("normal", &[command, &["--all-features"]].concat());
        let other = features(edges, &["--package", package]);
        for (package, with) in other.iter().filter(|(name, _)| !name.starts_with(LEFT)) {
            let same = command.get(package).is_none_or(|of_command| of_command == with);
            assert!(
                same,
                "{package}: {with:?} in {folder}, {:?} in the command; {folder}/Cargo.toml evens them out",
                command[package]
            );
        }
    }
}
