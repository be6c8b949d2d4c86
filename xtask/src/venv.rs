//! The Python environment of the tests: `.venv`, with exactly what the two files of requirements pin.

use crate::{licences, shell};
use anyhow::{Context, Result};
use std::path::PathBuf;

/// Files of pinned packages, and what else `pip install` is told.
const REQUIREMENTS: [(&str, &[&str]); 2] =
    [("tests/requirements.txt", &[]), ("tests/requirements-alone.txt", &["--no-deps"])];

/// The environment's Python, made and filled if it is not up to date.
///
/// # Errors
/// If Python, its `venv` module or a pinned package cannot be had.
pub fn python() -> Result<PathBuf> {
    let folder = shell::root().join(".venv");
    let python = folder.join("bin/python");
    let read = |(file, _): &(&str, _)| {
        std::fs::read_to_string(shell::root().join(file)).with_context(|| format!("cannot read {file}"))
    };
    let wanted = REQUIREMENTS.iter().map(read).collect::<Result<String>>()?;
    let stamp = folder.join("installed.txt");
    if python.is_file() && std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    shell::run(&mut shell::command("python3", &["-m", "venv", "--clear", ".venv"]))?;
    for (file, flags) in REQUIREMENTS {
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", file];
        shell::fetch(shell::command(&python, &install).args(flags))?;
    }
    std::fs::write(&stamp, wanted).context("cannot write the environment's stamp")?;
    Ok(python)
}

/// Builds the Python package in a profile (`release`, `dist`), with the licences of everything in it; returns the wheel.
///
/// # Errors
/// As [`python`], or if the package cannot be built.
pub fn wheel(profile: &str) -> Result<PathBuf> {
    licences::write()?;
    let python = python()?;
    let wheels = shell::root().join("target/wheels");
    // Wheels of former builds must not be installed instead.
    let _ = std::fs::remove_dir_all(&wheels);
    let build =
        ["-m", "maturin", "build", "--quiet", "--profile", profile, "--manifest-path", "python/Cargo.toml"];
    let mut build = shell::command(&python, &build);
    shell::run(shell::remapped(build.args(["--strip", "--out", "target/wheels"]))?)?;
    shell::entries("target/wheels").pop().context("maturin made no wheel")
}

/// Builds the Python package and installs it into the environment; returns the environment's Python.
///
/// # Errors
/// As [`wheel`], or if it cannot be installed.
pub fn with_package(profile: &str) -> Result<PathBuf> {
    let (python, wheel) = (python()?, wheel(profile)?);
    let install = ["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps"];
    shell::run(shell::command(&python, &install).arg(wheel))?;
    Ok(python)
}
