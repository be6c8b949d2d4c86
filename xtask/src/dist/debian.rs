//! `khz_VERSION_ARCH.deb`: the command with its service, rights and names of adapters; and `khz_VERSION.dsc`, from which Debian's tools
//! build it.

use super::files::{Tree, executable};
use super::{Machine, Release, build, fresh};
use crate::{licences, shell};
use anyhow::{Context, Result};
use std::fmt::Write;

const DOC: &str = "share/doc/khz";
/// Of our own files in `packaging`: where each goes.
const INSTALLED: [(&str, &str); 4] = [
    ("khz@.service", "lib/systemd/system/khz@.service"),
    ("udev.rules", "lib/udev/rules.d/70-kilohertz.rules"),
    ("limits.conf", "etc/security/limits.d/kilohertz.conf"),
    ("sysctl.conf", "etc/sysctl.d/60-kilohertz.conf"),
];
/// Of `packaging/deb`: what runs when it is installed and removed.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

pub fn make(release: &Release, machine: &Machine) -> Result<()> {
    let root = Tree(fresh("deb")?);
    let usr = Tree(root.folder("usr")?);
    let program = usr.place("bin/khz")?;
    build::split(&release.build.dynamic(machine)?.join("khz"), &program, None)?;
    executable(&program)?;
    let completions = [
        "share/bash-completion/completions/khz",
        "share/zsh/vendor-completions/_khz",
        "share/fish/vendor_completions.d/khz.fish",
    ];
    release.fill(&usr, DOC, completions)?;
    let ours = shell::root().join("packaging");
    for (file, at) in INSTALLED {
        root.copy(&ours.join(file), at)?;
    }
    root.folder("etc/kilohertz")?;
    documents(release, &usr)?;
    control(release, machine, &root)?;
    let archive = release.out.join(format!("khz_{}_{}.deb", release.version, machine.debian));
    let words = ["--root-owner-group", "-Zxz", "--build"];
    shell::run(release.dated(shell::command("dpkg-deb", &words)).arg(&root.0).arg(archive))
}

/// As Debian has them: the changelog under its name, compressed; licences; compressed pages of the manual.
fn documents(release: &Release, usr: &Tree) -> Result<()> {
    let at = |name: &str| format!("{DOC}/{name}");
    std::fs::remove_file(usr.0.join(at("CHANGELOG.md")))?;
    usr.copy(&shell::root().join("CHANGELOG.md"), &at("NEWS.md"))?;
    usr.write(&at("changelog"), changelog(release, "NEWS.md")?)?;
    usr.copy(&shell::root().join("packaging/deb/copyright"), &at("copyright"))?;
    usr.copy(&shell::root().join("packaging/deb/lintian-overrides"), "share/lintian/overrides/khz")?;
    for file in licences::files() {
        usr.copy(&file, &at(&file.file_name().unwrap_or_default().to_string_lossy()))?;
    }
    let compressed = |file: &String| {
        let name = file.strip_prefix(&format!("{DOC}/")).unwrap_or_default();
        file.starts_with("share/man/")
            || matches!(name, "changelog" | "NEWS.md")
            || name.starts_with("LICENSE-")
    };
    let files: Vec<String> = usr.files()?.into_iter().filter(compressed).collect();
    usr.compress(&files)
}

fn changelog(release: &Release, news: &str) -> Result<String> {
    let mut date = shell::command("date", &["--utc", "--rfc-email", "--date"]);
    let date = shell::output(date.arg(format!("@{}", release.epoch)))?;
    let (version, maintainer) = (&release.version, maintainer()?);
    Ok(format!("khz ({version}) unstable; urgency=medium\n\n  * See {news}.\n\n -- {maintainer}  {date}"))
}

/// The source package: what is tracked, and how Debian's tools build the same files of it.
pub fn source(release: &Release) -> Result<()> {
    let (folder, name) = (fresh("deb-source")?, format!("khz-{}", release.version));
    let tree = Tree(folder.join(&name));
    let (archive, prefix) = (folder.join("all.tar"), format!("--prefix={name}/"));
    let mut git = shell::command("git", &["archive", "--format=tar", &prefix]);
    shell::run(git.arg("--output").arg(&archive).arg("HEAD"))?;
    shell::run(shell::command("tar", &["--extract", "--file"]).arg(&archive).current_dir(&folder))?;
    let ours = shell::root().join("packaging/deb");
    let ours = |file: &str| {
        std::fs::read_to_string(ours.join(file)).with_context(|| format!("packaging/deb/{file}"))
    };
    let binary = ours("control")?;
    let description = binary.find("Description:").context("packaging/deb/control has no description")?;
    tree.write("debian/control", ours("source/control")? + &binary[description..])?;
    let install =
        |(file, at): &(&str, &str)| format!("\tinstall -D -m 644 packaging/{file} debian/khz/{at}\n");
    let install: String = INSTALLED.iter().map(install).collect();
    tree.script("debian/rules", ours("source/rules")?.replace("@INSTALL@\n", &install))?;
    tree.write("debian/changelog", changelog(release, "CHANGELOG.md")?)?;
    tree.write("debian/source/format", "3.0 (native)\n")?;
    tree.write("debian/source/lintian-overrides", ours("source/lintian-overrides")?)?;
    tree.write("debian/copyright", ours("copyright")?)?;
    for script in SCRIPTS {
        tree.write(&format!("debian/khz.{script}"), ours(script)? + "#DEBHELPER#\n")?;
    }
    shell::run(release.dated(shell::command("dpkg-source", &["--build", &name])).current_dir(&folder))?;
    for file in ["dsc", "tar.xz"].map(|end| format!("khz_{}.{end}", release.version)) {
        std::fs::copy(folder.join(&file), release.out.join(&file))
            .with_context(|| format!("cannot copy {file}"))?;
    }
    Ok(())
}

fn maintainer() -> Result<String> {
    let control = std::fs::read_to_string(shell::root().join("packaging/deb/control"))?;
    let line = control.lines().find_map(|line| line.strip_prefix("Maintainer: "));
    line.map(str::to_owned).context("packaging/deb/control names no maintainer")
}

fn control(release: &Release, machine: &Machine, root: &Tree) -> Result<()> {
    let ours = shell::root().join("packaging/deb");
    let files: Vec<String> = root.files()?;
    let sizes =
        files.iter().map(|file| std::fs::metadata(root.0.join(file)).map(|data| data.len().div_ceil(1024)));
    let size = sizes.sum::<std::io::Result<u64>>()?;
    let fields = [
        ("@VERSION@", release.version.clone()),
        ("@ARCH@", machine.debian.to_owned()),
        ("@SIZE@", size.to_string()),
        ("@GLIBC@", machine.glibc.to_owned()),
    ];
    let template = std::fs::read_to_string(ours.join("control")).context("packaging/deb/control")?;
    let filled = fields.iter().fold(template, |text, (from, to)| text.replace(from, to));
    let mut sums = String::new();
    for file in files.iter().filter(|file| !file.starts_with("etc/")) {
        let sum = shell::output(shell::command("md5sum", &[]).arg(file).current_dir(&root.0))?;
        writeln!(sums, "{}", sum.trim_end())?;
    }
    root.write("DEBIAN/control", filled)?;
    root.write("DEBIAN/md5sums", sums)?;
    root.copy(&ours.join("conffiles"), "DEBIAN/conffiles")?;
    SCRIPTS.iter().try_for_each(|name| {
        root.script(
            &format!("DEBIAN/{name}"),
            std::fs::read(ours.join(name)).with_context(|| format!("packaging/deb/{name}"))?,
        )
    })
}
