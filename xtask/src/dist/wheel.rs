//! The Python package: wheels with the module and the command, and the source distribution.

use super::files::{Tree, executable};
use super::{Machine, Release, build, fresh};
use crate::{shell, venv};
use anyhow::Result;

/// The command's place for maturin, which installs what is there into `bin`.
const SCRIPTS: &str = "python/kilohertz._native.data/scripts";

pub fn make(release: &Release, machine: &Machine) -> Result<()> {
    let program = Tree(shell::root().join(SCRIPTS)).place("khz")?;
    build::split(&release.build.dynamic(machine)?.join("khz"), &program, None)?;
    executable(&program)?;
    let made = module(&release.build, machine, &release.out);
    // Another machine's must not get into the next wheel, nor into those of the tests.
    std::fs::remove_dir_all(shell::root().join("python/kilohertz._native.data"))?;
    made
}

/// The module and what lies in [`SCRIPTS`].
///
/// # Errors
/// If it cannot be built.
pub fn module(build: &build::Build, machine: &Machine, out: &std::path::Path) -> Result<()> {
    let tag = format!("manylinux_{}", machine.glibc.replace('.', "_"));
    let mut maturin = build.compiling_for("maturin", machine)?;
    maturin.args([
        "build",
        "--quiet",
        "--zig",
        "--strip",
        "--manifest-path",
        "python/Cargo.toml",
        "--locked",
    ]);
    maturin.args(["--profile", &build.profile, "--target", &machine.gnu(), "--compatibility", &tag]);
    shell::run(maturin.arg("--out").arg(out))
}

/// The plug-in for `LeRobot`: Python alone.
pub fn lerobot(release: &Release) -> Result<()> {
    plugin(&release.out)
}

/// As [`lerobot`], in a folder.
///
/// # Errors
/// If the tests' environment cannot be had, or it cannot be packed.
pub fn plugin(out: &std::path::Path) -> Result<()> {
    let words = ["-m", "hatchling", "build", "--target", "wheel", "--directory"];
    let mut pack = shell::command(venv::python()?, &words);
    pack.arg(out).env("SOURCE_DATE_EPOCH", build::EPOCH).current_dir(shell::root().join("python/lerobot"));
    shell::run(&mut pack)
}

/// maturin packs the module's own crates. The command's are added, and the files that crates take from other folders.
pub fn source(release: &Release) -> Result<()> {
    let folder = fresh("sdist")?;
    let mut maturin = release.build.compiling("maturin")?;
    shell::run(maturin.args(["sdist", "--manifest-path", "python/Cargo.toml", "--out"]).arg(&folder))?;
    let name = format!("kilohertz-{}", release.version);
    let archive = format!("{name}.tar.gz");
    shell::run(shell::command("tar", &["--extract", "--file", &archive]).current_dir(&folder))?;
    let tree = Tree(folder.join(&name));
    for crate_folder in shell::entries("crates").iter().filter(|folder| folder.is_dir()) {
        let at = format!("crates/{}", shell::stem(crate_folder));
        // Benches are run in a clone.
        if at != "crates/bench" && !tree.0.join(&at).exists() {
            tree.copy_all(crate_folder, &at)?;
        }
    }
    for file in ["docs/reports.md", "docs/log-format.md"] {
        tree.copy(&shell::root().join(file), file)?;
    }
    tree.copy_all(&shell::root().join("robots"), "robots")?;
    release.pack(&tree, &name)
}
