//! Compiles for other machines and older C libraries, with zig as the C compiler and linker.

use super::files::Tree;
use super::{MACHINES, Machine};
use crate::{shell, venv};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of what is compiled: C's `__DATE__`, the times in a wheel. No commit's: cargo would compile all C sources, and what uses them, anew for
/// every commit.
pub const EPOCH: &str = "1767225600";

/// The command and the C library.
const PASSED_ON: [&str; 4] = ["--package", "kilohertz-cli", "--package", "khz-capi"];

/// How a release is compiled.
pub struct Build {
    /// Of cargo: `dist`, or `release` where it must go quickly.
    pub profile: String,
    /// Seconds of the commit's time, for archives.
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
        let command = self.compiling("cargo-zigbuild")?;
        Ok(self.packages(command, &["--package", "kilohertz-cli"], &target, &target)?.join("khz"))
    }

    /// An integration test as one file that needs nothing (musl).
    pub fn fixed_test(&self, machine: &Machine, package: &str, test: &str) -> Result<PathBuf> {
        let target = format!("{}-unknown-linux-musl", machine.name);
        let mut command = self.compiling("cargo-zigbuild")?;
        command.args([
            "test",
            "--no-run",
            "--locked",
            "--quiet",
            "--profile",
            &self.profile,
            "--target",
            &target,
        ]);
        command.args(["--package", package, "--test", test, "--message-format", "json-render-diagnostics"]);
        let messages = shell::output(&mut command)?;
        let mut executables = messages.lines().filter_map(|line| {
            let message: serde_json::Value = serde_json::from_str(line).ok()?;
            message["executable"].as_str().map(PathBuf::from)
        });
        executables.next_back().with_context(|| format!("{package} has no test {test}"))
    }

    /// The folder with the command and the C library for the glibc of the machine's wheels: they can open others, such as
    /// MuJoCo. Both at once, so that they share what they compile.
    pub fn dynamic(&self, machine: &Machine) -> Result<PathBuf> {
        self.passed_on(machine, &[])
    }

    /// An example of a package, compiled of what [`Build::dynamic`] is.
    pub fn example(&self, machine: &Machine, package: &str, example: &str) -> Result<PathBuf> {
        let folder = self.passed_on(machine, &["--package", package, "--example", example])?;
        Ok(folder.join("examples").join(example))
    }

    /// Compiles [`PASSED_ON`], or with `more` what that names beside it.
    fn passed_on(&self, machine: &Machine, more: &[&str]) -> Result<PathBuf> {
        let command = self.compiling_for("cargo-zigbuild", machine)?;
        let target = format!("{}.{}", machine.gnu(), machine.glibc);
        self.packages(command, &[PASSED_ON.as_slice(), more].concat(), &target, &machine.gnu())
    }

    /// The command for this machine.
    pub fn native(&self) -> Result<PathBuf> {
        self.fixed(&MACHINES[0])
    }

    /// A command that compiles, with zig where it looks for it, and without this machine's paths in what it makes.
    pub fn compiling(&self, program: &str) -> Result<Command> {
        let folder = self.folder()?;
        let mut command = shell::command(folder.join(program), &[]);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
        command
            .env("PATH", std::env::join_paths(folders)?)
            .env("SOURCE_DATE_EPOCH", EPOCH)
            .env("KHZ_PASSED_ON", "1");
        shell::remapped(&mut command)?;
        Ok(command)
    }

    /// As [`Build::compiling`], for a machine's glibc, with tools that it names. cargo-zigbuild and maturin would each take scripts of
    /// their own, and cargo compiles everything anew for a linker at another path.
    pub fn compiling_for(&self, program: &str, machine: &Machine) -> Result<Command> {
        let mut command = self.compiling(program)?;
        let tools = Tree(shell::target().join("zig").join(machine.name));
        let zig = self.folder()?.join("cargo-zigbuild");
        // As cargo-zigbuild's own: without `-g` zig drops the symbols, which are wanted in a file of their own.
        let c = format!("-- -g -fno-sanitize=all -target {}-linux-gnu.{}", machine.name, machine.glibc);
        let target = machine.gnu().replace('-', "_");
        for (name, tool, words) in
            [("CC", "cc", &*c), ("CXX", "c++", &c), ("AR", "ar", "--"), ("RANLIB", "ranlib", "--")]
        {
            tools.script(tool, format!("#!/bin/sh\nexec '{}' zig {tool} {words} \"$@\"\n", zig.display()))?;
            command.env(format!("{name}_{target}"), tools.0.join(tool));
        }
        command.env(format!("CARGO_TARGET_{}_LINKER", target.to_uppercase()), tools.0.join("cc"));
        Ok(command)
    }

    /// The folder of the environment's programs.
    fn folder(&self) -> Result<&Path> {
        self.python.parent().context("the environment's Python lies in no folder")
    }

    /// Compiles the packages that are named; the folder with what they are.
    fn packages(&self, mut command: Command, words: &[&str], target: &str, folder: &str) -> Result<PathBuf> {
        target_library(folder)?;
        command.args(["zigbuild", "--locked", "--quiet", "--profile", &self.profile, "--target", target]);
        shell::run(command.args(words).arg("--all-features"))?;
        Ok(shell::program(&format!("{folder}/{}", self.profile), ""))
    }
}

/// Has Rust's library for a target installed; several processes at once would be in each other's way.
pub fn target_library(target: &str) -> Result<()> {
    let _one = shell::lock(&shell::kept(), "rustup")?;
    shell::run(&mut shell::command("rustup", &["--quiet", "target", "add", target]))
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

/// Copies both C libraries into a folder, without what only a debugger wants: that names folders of this machine.
pub fn libraries(from: &Path, to: &Path) -> Result<()> {
    for (library, strip) in [("libkhz.so", "--strip-all"), ("libkhz.a", "--strip-debug")] {
        shell::run(objcopy()?.arg(strip).args([from.join(library), to.join(library)]))?;
    }
    Ok(())
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
