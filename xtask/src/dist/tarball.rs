//! `khz-VERSION-MACHINE-linux.tar.gz`: unpacked anywhere, it works.

use super::files::{Tree, executable};
use super::{Machine, Release, build, c_library, fresh};
use crate::{licences, shell};
use anyhow::Result;

pub fn make(release: &Release, machine: &Machine) -> Result<()> {
    let name = format!("khz-{}-{}-linux", release.version, machine.name);
    let tree = Tree(fresh("tarball")?.join(&name));
    let program = tree.place("bin/khz")?;
    build::split(&release.build.fixed(machine)?, &program, None)?;
    executable(&program)?;
    let completions = [
        "share/bash-completion/completions/khz",
        "share/zsh/site-functions/_khz",
        "share/fish/vendor_completions.d/khz.fish",
    ];
    release.fill(&tree, "share/doc/khz", completions)?;
    terms(release, &tree)?;
    if let Some(capi) = c_library() {
        let libraries = fresh("libraries")?;
        build::libraries(&release.build.dynamic(machine)?, &libraries)?;
        shell::run(shell::command(capi.join("install.sh"), &[]).arg(&tree.0).arg(libraries))?;
        tree.copy_all(&capi.join("examples"), "share/doc/khz/capi")?;
    }
    release.pack(&tree, &name)
}

/// `khz-VERSION-licenses.tar.gz`: for distributing the static command alone.
pub fn licences(release: &Release) -> Result<()> {
    let name = format!("khz-{}-licenses", release.version);
    let tree = Tree(fresh("licenses")?.join(&name));
    terms(release, &tree)?;
    release.pack(&tree, &name)
}

/// The licences of the static command and of all that is in it.
fn terms(release: &Release, tree: &Tree) -> Result<()> {
    let own = ["LICENSE-MIT", "LICENSE-APACHE"].map(|file| shell::root().join(file));
    for file in own.into_iter().chain(licences::files()) {
        tree.copy(&file, &file.file_name().unwrap_or_default().to_string_lossy())?;
    }
    tree.write("LICENSE-musl.txt", licences::musl(&release.build.python)?)
}
