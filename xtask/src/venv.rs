//! The Python environment of the tests: `.venv`, with exactly what the two files of requirements pin.

use crate::shell;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of pinned packages, and the other options of `pip install`.
const REQUIREMENTS: [(&str, &[&str]); 2] =
    [("tests/requirements.txt", &[]), ("tests/requirements-alone.txt", &["--no-deps"])];

/// What is installed in an environment: the version of Python, and the requirements.
const STAMP: &str = "installed.txt";

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
    let interpreter = shell::output(&mut shell::command("python3", &["--version"]))?;
    let wanted = interpreter + &REQUIREMENTS.iter().map(read).collect::<Result<String>>()?;
    let fresh = |folder: &Path| {
        let installed = std::fs::read_to_string(folder.join(STAMP));
        folder.join("bin/python").is_file() && installed.is_ok_and(|installed| installed == wanted)
    };
    if fresh(&folder) {
        return Ok(python);
    }
    let _one = shell::lock(&shell::kept(), "environment")?;
    if fresh(&folder) {
        return Ok(python);
    }
    let kept = shell::kept().join("venv");
    if fresh(&kept) && copied(&kept, &folder) {
        return Ok(python);
    }
    fill(&folder, &wanted)?;
    // The next clone takes it from there; where it cannot be kept it is made anew.
    copied(&folder, &kept);
    Ok(python)
}

/// What the pages of the site are built with.
const PAGES: [&str; 3] = ["Sphinx", "furo", "myst-parser"];

/// The Python of the environment, if there is one, or of a small one with [`PAGES`] alone, in the versions of the other.
///
/// # Errors
/// As [`python`].
pub fn pages() -> Result<PathBuf> {
    let whole = shell::root().join(".venv");
    if whole.join(STAMP).is_file() {
        return Ok(whole.join("bin/python"));
    }
    let folder = shell::target().join("site-venv");
    let python = folder.join("bin/python");
    let pins =
        std::fs::read_to_string(shell::root().join(REQUIREMENTS[0].0)).context("cannot read the pins")?;
    if std::fs::read_to_string(folder.join(STAMP)).is_ok_and(|installed| installed == pins) {
        return Ok(python);
    }
    shell::run(shell::command("python3", &["-m", "venv", "--clear"]).arg(&folder))?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    shell::fetch(shell::command(&python, &install).args(["-c", REQUIREMENTS[0].0]).args(PAGES))?;
    std::fs::write(folder.join(STAMP), pins).context("cannot write the environment's stamp")?;
    Ok(python)
}

/// Makes the environment anew.
fn fill(folder: &Path, wanted: &str) -> Result<()> {
    shell::run(shell::command("python3", &["-m", "venv", "--clear"]).arg(folder))?;
    for (file, flags) in REQUIREMENTS {
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", file];
        shell::fetch(shell::command(folder.join("bin/python"), &install).args(flags))?;
    }
    std::fs::write(folder.join(STAMP), wanted).context("cannot write the environment's stamp")
}

/// Puts a copy of an environment in the place of another; the same files where the file system has links. Programs in it name the Python of the
/// environment they were installed in, so those are written anew.
fn copied(from: &Path, to: &Path) -> bool {
    // Complete when it has its name: an interrupted copy is none.
    let part = to.with_extension("part");
    let emptied = || [to, &part].iter().for_each(|folder| drop(std::fs::remove_dir_all(folder)));
    let copy = |how: &str| {
        emptied();
        shell::succeeds(Command::new("cp").arg(how).args([from, &part])).unwrap_or(false)
    };
    if !(copy("-al") || copy("-a")) {
        return false;
    }
    let Ok(programs) = std::fs::read_dir(part.join("bin")) else { return false };
    programs.flatten().for_each(|program| {
        renamed(&program.path(), from, to);
    });
    std::fs::rename(part, to).is_ok()
}

/// Lets a script name the Python of its new environment; none if it is no script that names the old one.
fn renamed(script: &Path, from: &Path, to: &Path) -> Option<()> {
    let text = std::fs::read_to_string(script).ok()?;
    let rest = text.strip_prefix(&format!("#!{}/", from.display()))?;
    let mode = std::fs::metadata(script).ok()?.permissions();
    // A new file: the old one may be a link to that of the other environment.
    std::fs::remove_file(script).ok()?;
    std::fs::write(script, format!("#!{}/{rest}", to.display())).ok()?;
    std::fs::set_permissions(script, mode).ok()
}
