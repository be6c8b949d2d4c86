//! Compiles for other machines and older C libraries, with zig as the C compiler and linker.

use super::Machine;
use crate::{shell, venv};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a release is compiled.
pub struct Build {
    /// Of cargo: `dist`, or `release` where it must go quickly.
    pub profile: String,
    /// Seconds of the commit's time, for C's `__DATE__`.
    pub epoch: String,
    /// Of the environment with cargo-zigbuild, maturin and zig.
    pub python: PathBuf,
}

impl Build {
    /// With the tests' environment, and the time of the commit.
    pub fn new(profile: &str) -> Result<Self> {
        let epoch = shell::output(&mut shell::command("git", &["log", "-1", "--format=%ct"]))?;
        Ok(Self { profile: profile.to_owned(), epoch: epoch.trim().to_owned(), python: venv::python()? })
    }

    /// The command as one file that needs nothing (musl).
    pub fn fixed(&self, machine: &Machine) -> Result<PathBuf> {
        let target = format!("{}-unknown-linux-musl", machine.name);
        self.package("kilohertz-cli", &target, &target, "khz")
    }

    /// The command for the C library of the machine's wheels: it can open others, such as MuJoCo.
    pub fn dynamic(&self, machine: &Machine) -> Result<PathBuf> {
        let target = format!("{}-unknown-linux-gnu", machine.name);
        self.package("kilohertz-cli", &format!("{target}.{}", machine.glibc), &target, "khz")
    }

    /// The folder with the C library for the same.
    pub fn library(&self, machine: &Machine) -> Result<PathBuf> {
        let target = format!("{}-unknown-linux-gnu", machine.name);
        let file = self.package("khz-capi", &format!("{target}.{}", machine.glibc), &target, "libkhz.so")?;
        Ok(file.parent().context("a library in no folder")?.to_owned())
    }

    /// The command for this machine.
    pub fn native(&self) -> Result<PathBuf> {
        self.fixed(&super::MACHINES[0])
    }

    /// A command that compiles, with zig where it looks for it, and without this machine's paths in what it makes.
    pub fn compiling(&self, program: &str) -> Result<Command> {
        let folder = self.python.parent().context("the environment's Python lies in no folder")?;
        let mut command = shell::command(folder.join(program), &[]);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
        command
            .env("PATH", std::env::join_paths(folders)?)
            .env("SOURCE_DATE_EPOCH", &self.epoch)
            .env("KHZ_PASSED_ON", "1");
        shell::remapped(&mut command)?;
        Ok(command)
    }

    fn package(&self, package: &str, target: &str, folder: &str, file: &str) -> Result<PathBuf> {
        shell::run(&mut shell::command("rustup", &["--quiet", "target", "add", folder]))?;
        let mut command = self.compiling("cargo-zigbuild")?;
        command.args(["zigbuild", "--locked", "--quiet", "--profile", &self.profile, "--target", target]);
        shell::run(command.args(["--package", package, "--all-features"]))?;
        Ok(shell::program(&format!("{folder}/{}", self.profile), file))
    }
}

/// Copies a program without its symbols; these go to a file of their own, which debuggers find beside it.
pub fn split(program: &Path, stripped: &Path, symbols: Option<&Path>) -> Result<()> {
    if let Some(symbols) = symbols {
        shell::run(objcopy()?.arg("--only-keep-debug").args([program, symbols]))?;
    }
    shell::run(objcopy()?.arg("--strip-all").args([program, stripped]))?;
    let Some(symbols) = symbols else { return Ok(()) };
    // It is looked for by its name alone, but read here.
    let (folder, name) = (symbols.parent(), symbols.file_name());
    let link = format!("--add-gnu-debuglink={}", Path::new(name.context("no name")?).display());
    shell::run(objcopy()?.current_dir(folder.context("no folder")?).arg(link).arg(stripped))
}

/// The toolchain's own, which knows every machine's programs.
fn objcopy() -> Result<Command> {
    let root = shell::output(&mut shell::command("rustc", &["--print", "sysroot"]))?;
    let root = Path::new(root.trim());
    let program = root.join("lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-objcopy");
    let mut command = shell::command(program, &[]);
    command.env("LD_LIBRARY_PATH", root.join("lib"));
    Ok(command)
}
