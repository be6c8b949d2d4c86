//! Everything a release has, in `dist/`: static commands, wheels and a source distribution, Debian packages, tarballs,
//! the list of what is in them, and checksums.
//!
//! Compilers and linkers for other machines and older C libraries are zig's, which is a Python package: nothing but the
//! tests' environment is installed. Times of files are those of the commit; packages and archives are the same bytes whenever
//! and in whichever folder they are made.

mod build;
mod debian;
mod files;
mod sbom;
mod tarball;
mod wheel;

use crate::{licences, shell};
use anyhow::{Context, Result, bail};
use build::Build;
pub use build::target_library;
use files::Tree;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The default output folder.
const FOLDER: &str = "dist";
const SUMS: &str = "SHA256SUMS";

/// The profile of what the tests run: as a release, but compiled quickly.
pub const QUICK: &str = "quick";

/// A machine it is made for.
pub struct Machine {
    /// As Rust and Linux call it.
    pub name: &'static str,
    /// As Debian calls it.
    debian: &'static str,
    /// The oldest C library of the wheels, the Debian package and the C library.
    glibc: &'static str,
}

const MACHINES: [Machine; 2] = [
    Machine { name: "x86_64", debian: "amd64", glibc: "2.17" },
    Machine { name: "aarch64", debian: "arm64", glibc: "2.28" },
];

impl Machine {
    /// The one this runs on.
    fn this() -> Result<&'static Self> {
        let name = std::env::consts::ARCH;
        MACHINES
            .iter()
            .find(|machine| machine.name == name)
            .with_context(|| format!("no packages are made for {name}"))
    }

    /// Rust's name of the machine with glibc.
    fn gnu(&self) -> String {
        format!("{}-unknown-linux-gnu", self.name)
    }
}

/// One kind of thing in `dist/`, made for a machine or once for all.
enum Part {
    Each(fn(&Release, &Machine) -> Result<()>),
    Once(fn(&Release) -> Result<()>),
}

const PARTS: [(&str, Part); 9] = [
    ("khz", Part::Each(khz)),
    ("licenses", Part::Once(tarball::licences)),
    ("tarball", Part::Each(tarball::make)),
    ("deb", Part::Each(debian::make)),
    ("deb-source", Part::Once(debian::source)),
    ("wheel", Part::Each(wheel::make)),
    ("lerobot", Part::Once(wheel::lerobot)),
    ("sdist", Part::Once(wheel::source)),
    ("sbom", Part::Once(sbom::make)),
];

const USAGE: &str = "usage: cargo xtask dist [PART…] [--machine x86_64|aarch64] [--profile dist|release|quick] [--out FOLDER]
parts: khz (static, with its debug symbols), licenses (of all in it), tarball, deb, deb-source, wheel, lerobot (its plug-in), sdist, sbom; all of them, for all machines, if none is named";

/// What every part needs to know.
pub struct Release {
    version: String,
    /// Seconds of the commit's time: that of every file.
    epoch: String,
    /// Where it all goes.
    out: PathBuf,
    build: Build,
}

/// Makes the named parts (all if none is named) and the checksums of whatever is then in the folder.
///
/// # Errors
/// On a wrong name, or if something cannot be built.
pub fn run(words: &[String]) -> Result<bool> {
    let (mut parts, mut machines) = (Vec::new(), Vec::new());
    let (mut profile, mut out) = ("dist".to_owned(), FOLDER.to_owned());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value\n{USAGE}"));
        match word.as_str() {
            "--machine" => machines.push(value()?.clone()),
            "--profile" => profile.clone_from(value()?),
            "--out" => out.clone_from(value()?),
            part if PARTS.iter().any(|(name, _)| *name == part) => parts.push(part.to_owned()),
            other => bail!("no part is called `{other}`\n{USAGE}"),
        }
    }
    if let Some(unknown) = machines.iter().find(|name| MACHINES.iter().all(|each| each.name != **name)) {
        bail!("{unknown} is no machine of a release\n{USAGE}");
    }
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        bail!("a release is made on x86_64 Linux: its programs write their own man pages and completions");
    }
    let release = Release::new(&profile, &out)?;
    let wanted = |name: &str, names: &[String]| names.is_empty() || names.iter().any(|each| each == name);
    for (name, part) in PARTS.iter().filter(|(name, _)| wanted(name, &parts)) {
        println!("\n── {name} ──");
        match part {
            Part::Once(make) => make(&release)?,
            Part::Each(make) => {
                for machine in MACHINES.iter().filter(|machine| wanted(machine.name, &machines)) {
                    make(&release, machine).with_context(|| format!("{name} for {}", machine.name))?;
                }
            }
        }
    }
    sums(&release.out)?;
    Ok(true)
}

/// The static command of this machine, as `profile` compiles it.
///
/// # Errors
/// If the tests' environment cannot be had, or it cannot be built.
pub fn program(profile: &str) -> Result<PathBuf> {
    Build::new(profile)?.fixed(Machine::this()?)
}

/// An integration test as one file that needs no library, compiled of what the static command was.
///
/// # Errors
/// As [`program`].
pub fn test(profile: &str, package: &str, test: &str) -> Result<PathBuf> {
    Build::new(profile)?.fixed_test(Machine::this()?, package, test)
}

/// The folder with the command and the C library of this machine's packages: the tests run those, so nothing is compiled
/// twice.
///
/// # Errors
/// As [`program`].
pub fn library(profile: &str) -> Result<PathBuf> {
    Build::new(profile)?.dynamic(Machine::this()?)
}

/// An example of a package, compiled of what [`library`] is.
///
/// # Errors
/// As [`program`].
pub fn example(profile: &str, package: &str, example: &str) -> Result<PathBuf> {
    Build::new(profile)?.example(Machine::this()?, package, example)
}

/// The Python package for this machine, without the command, in `out`.
///
/// # Errors
/// As [`program`].
pub fn module(profile: &str, out: &Path) -> Result<()> {
    wheel::module(&Build::new(profile)?, Machine::this()?, out)
}

/// The plug-in for `LeRobot`, in `out`; returns its wheel.
///
/// # Errors
/// If the tests' environment cannot be had, or it cannot be packed.
pub fn plugin(out: &Path) -> Result<PathBuf> {
    wheel::plugin(out)?;
    let name = format!("lerobot_robot_kilohertz-{}-py3-none-any.whl", env!("CARGO_PKG_VERSION"));
    Ok(out.join(name))
}

impl Release {
    fn new(profile: &str, out: &str) -> Result<Self> {
        let out = shell::root().join(out);
        std::fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
        licences::write()?;
        let build = Build::new(profile)?;
        Ok(Self { version: env!("CARGO_PKG_VERSION").to_owned(), epoch: build.epoch.clone(), out, build })
    }

    /// A command with the time that packers give to files.
    fn dated(&self, mut command: Command) -> Command {
        command.env("SOURCE_DATE_EPOCH", &self.epoch).env("TZ", "UTC").env("LC_ALL", "C");
        command
    }

    /// What both the tarball and the Debian package hold beside the program: manual, completions, robots, licences.
    fn fill(&self, tree: &Tree, doc: &str, [bash, zsh, fish]: [&str; 3]) -> Result<()> {
        let own = self.build.native()?;
        let own = |words: &[&str]| shell::command(&own, words);
        shell::output(own(&["man"]).arg(tree.folder("share/man/man1")?))?;
        for (shell, file) in [("bash", bash), ("zsh", zsh), ("fish", fish)] {
            tree.write(file, shell::output(&mut own(&["completions", shell]))?)?;
        }
        let robots = shell::root().join("robots");
        tree.copy_all(&robots, &format!("{doc}/robots"))?;
        for file in ["README.md", "CHANGELOG.md"] {
            tree.copy(&shell::root().join(file), &format!("{doc}/{file}"))?;
        }
        Ok(())
    }

    /// Packs a tree as `NAME.tar.gz`, so that its bytes depend on its content alone.
    fn pack(&self, tree: &Tree, name: &str) -> Result<()> {
        let folder = tree.0.parent().unwrap_or(&tree.0);
        let archive = self.out.join(format!("{name}.tar.gz"));
        let words = [
            "--sort=name",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
            "--format=gnu",
            "--use-compress-program=gzip -9n",
        ];
        let mut tar = self.dated(shell::command("tar", &words));
        tar.arg(format!("--mtime=@{}", self.epoch)).arg("--create").arg("--file").arg(archive).arg(name);
        shell::run(tar.current_dir(folder))
    }
}

/// The static command, and its debug symbols in a file of its own.
fn khz(release: &Release, machine: &Machine) -> Result<()> {
    let built = release.build.fixed(machine)?;
    let stripped = release.out.join(format!("khz-{}-{}-linux", release.version, machine.name));
    let symbols = stripped.with_file_name(format!("khz-{}-{}-linux.debug", release.version, machine.name));
    build::split(&built, &stripped, Some(&symbols))?;
    let megabytes = std::fs::metadata(&stripped)?.len() as f64 / 1e6;
    println!("figure static_khz_{} {megabytes:.2} MB goal 8", machine.name);
    Ok(())
}

/// Checksums of everything there, by name, as `sha256sum --check` reads them.
fn sums(folder: &Path) -> Result<()> {
    let files = std::fs::read_dir(folder)?.flatten().map(|entry| entry.file_name());
    let mut names: Vec<_> = files.filter(|name| name != SUMS).collect();
    names.sort();
    let sums = shell::output(Command::new("sha256sum").args(&names).current_dir(folder))?;
    print!("\n{sums}");
    std::fs::write(folder.join(SUMS), sums).context("cannot write the checksums")
}

/// A new, empty folder below `target/dist`.
fn fresh(name: &str) -> Result<PathBuf> {
    let folder = shell::target().join("dist-trees").join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// The C library's folder in the workspace, once it is there.
fn c_library() -> Option<PathBuf> {
    Some(shell::root().join("capi")).filter(|folder: &PathBuf| Path::new(folder).join("Cargo.toml").is_file())
}
