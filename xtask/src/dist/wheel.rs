//! The Python package: wheels with the module and the command, and the source distribution.

use super::files::{Tree, executable};
use super::{FOLDER, Machine, Release, build};
use crate::shell;
use anyhow::Result;

/// The command's place for maturin, which installs what is there into `bin`.
const SCRIPTS: &str = "python/kilohertz.data/scripts";

pub fn make(release: &Release, machine: &Machine) -> Result<()> {
    let program = Tree(shell::root().join(SCRIPTS)).place("khz")?;
    build::split(&release.build.dynamic(machine)?, &program, None)?;
    executable(&program)?;
    let target = format!("{}-unknown-linux-gnu", machine.name);
    let made = wheel(release, &target, &format!("manylinux_{}", machine.glibc.replace('.', "_")));
    // Another machine's must not get into the next wheel, nor into those of the tests.
    std::fs::remove_dir_all(shell::root().join("python/kilohertz.data"))?;
    made
}

fn wheel(release: &Release, target: &str, tag: &str) -> Result<()> {
    let mut maturin = release.build.compiling("maturin")?;
    maturin.args(["build", "--quiet", "--zig", "--strip", "--manifest-path", "python/Cargo.toml", "--locked"]);
    maturin.args(["--profile", &release.build.profile, "--target", target, "--compatibility", tag]);
    shell::run(maturin.args(["--out", FOLDER]))
}

pub fn source(release: &Release) -> Result<()> {
    let mut maturin = release.build.compiling("maturin")?;
    shell::run(maturin.args(["sdist", "--quiet", "--manifest-path", "python/Cargo.toml", "--out", FOLDER]))
}
