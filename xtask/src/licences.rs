//! The licences of everything that is linked into the Python package and the command, as two files for what is passed on.
//!
//! The texts are those that the crates carry, C sources below them included, and for Rust's standard library and what it
//! brings along those of the toolchain. Nothing of this is kept in the repository.

use crate::shell;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the file is made. The Python package takes all `LICENSE-*` beside its `pyproject.toml`.
const FILE: &str = "python/LICENSE-THIRD-PARTY.txt";
const LIBRARY: &str = "python/LICENSE-RUST-LIBRARY.html";

/// The standard library itself and what stands in its repository; all else it brings along is named by the toolchain.
const OWN: &[&str] = &[
    "alloc",
    "compiler_builtins",
    "core",
    "panic_abort",
    "panic_unwind",
    "proc_macro",
    "profiler_builtins",
    "rustc_std_workspace_alloc",
    "rustc_std_workspace_core",
    "rustc_std_workspace_std",
    "std",
    "std_detect",
    "sysroot",
    "test",
    "unwind",
];

/// The texts to which the standard library's own terms refer, as the toolchain has them.
const TEXTS: &[&str] = &["Apache-2.0", "LLVM-exception", "MIT", "Unicode-3.0"];

/// Packages that carry no text of their licence: the licence, which the toolchain has, and the notice of their
/// repository (binrw), of their source files (flatbuffers, stabby, zenoh) or of other code of the same authors (mcap); where none is written,
/// their authors.
const WITHOUT_TEXT: &[(&str, &str, &str)] = &[
    ("binrw ", "MIT", "(c) jam1garner and other contributors"),
    ("flatbuffers ", "Apache-2.0", "2018 Google Inc. All rights reserved"),
    ("keyed-set ", "Apache-2.0", "Pierre Avital"),
    ("lz4_flex ", "MIT", "Pascal Seitz, Arthur Silva, ticki"),
    ("mcap ", "MIT", "(c) Foxglove Technologies Inc"),
    ("stabby", "Apache-2.0", "(c) 2023 ZettaScale Technology"),
    ("token-cell ", "Apache-2.0", "Pierre Avital"),
    ("validated_struct ", "Apache-2.0", "Pierre Avital"),
    ("zenoh", "Apache-2.0", "(c) 2023 ZettaScale Technology"),
];

/// Licences that ask for no more than their text.
const PERMITTED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

const HEAD: &str = "Kilohertz itself is licensed under MIT OR Apache-2.0. Its compiled parts contain the packages below, under
the terms that follow their names, and the Rust standard library, whose terms and those of what it brings along are in
LICENSE-RUST-LIBRARY.html. Most of it is MIT OR Apache-2.0; its compiler_builtins, with parts of LLVM and musl, is
MIT AND Apache-2.0 WITH LLVM-exception AND (MIT OR Apache-2.0).
";

/// Programs and libraries that are linked from one lock file.
pub struct Programs {
    /// Their workspace, below the root.
    pub workspace: &'static str,
    /// Their packages.
    pub packages: &'static [&'static str],
    /// Packages that may ask for more than their text, and their licence: they are used unchanged, and everybody can have their source.
    exceptions: &'static [(&'static str, &'static str)],
}

/// What a release has.
pub const RELEASE: Programs =
    Programs { workspace: "", packages: &["kilohertz-cli", "khz-capi", "kilohertz-python"], exceptions: &[] };

/// `khz-fleet`; fleet/deny.toml has the same exceptions.
pub const FLEET: Programs = Programs {
    workspace: "fleet",
    packages: &["khz-fleet"],
    exceptions: &[("option-ext", "MPL-2.0"), ("webpki-roots", "CDLA-Permissive-2.0")],
};

/// A package that is linked into ours.
struct Linked {
    /// Name and version.
    name: String,
    licence: String,
    folder: PathBuf,
}

/// Writes the files.
///
/// # Errors
/// If a package's licence asks for more than its text, or a package carries none.
pub fn write() -> Result<()> {
    let library = library()?;
    std::fs::write(shell::root().join(LIBRARY), library)
        .with_context(|| format!("cannot write {LIBRARY}"))?;
    std::fs::write(shell::root().join(FILE), text(&RELEASE)?).with_context(|| format!("cannot write {FILE}"))
}

/// The licences of what is linked into these programs.
///
/// # Errors
/// If a package's licence asks for more than its text, or a package carries none.
pub fn text(of: &Programs) -> Result<String> {
    let mut names_by_text = BTreeMap::<String, BTreeSet<String>>::new();
    for package in &foreign(of)? {
        if !of.permits(&package.name, &package.licence) {
            bail!(
                "{} is licensed under {:?}: replace it, or meet its terms in what is passed on and add it to xtask/src/licences.rs",
                package.name,
                package.licence
            );
        }
        let texts = match texts(&package.folder)? {
            texts if texts.is_empty() => standard(&package.name)?.into_iter().collect(),
            texts => texts,
        };
        if texts.is_empty() {
            bail!("{} carries no licence text in {}", package.name, package.folder.display());
        }
        for text in texts {
            names_by_text.entry(text).or_default().insert(format!("{} ({})", package.name, package.licence));
        }
    }
    Ok(page(&names_by_text))
}

/// Whether the licences of the fleet's program are in order: of what a release has, its making shows it.
///
/// # Errors
/// If cargo does not know its dependencies.
pub fn run() -> Result<bool> {
    text(&FLEET).map(|_| true).or_else(|error| {
        eprintln!("{error:#}");
        Ok(false)
    })
}

/// The files that [`write()`] makes.
pub fn files() -> [PathBuf; 2] {
    [FILE, LIBRARY].map(|file| shell::root().join(file))
}

/// The terms of the C library in static programs (musl), as zig has them, which brings that library along.
///
/// # Errors
/// If they are not where zig keeps them.
pub fn musl(python: &Path) -> Result<String> {
    of_musl(python, "COPYRIGHT")
}

/// The version of the C library in static programs, as zig's copy of its sources states it.
///
/// # Errors
/// If it is not where zig keeps it.
pub fn musl_version(python: &Path) -> Result<String> {
    let header = of_musl(python, "src/internal/version.h")?;
    let version = header.split('"').nth(1).context("zig's musl has no version in src/internal/version.h")?;
    Ok(version.to_owned())
}

/// A file of zig's sources of musl.
fn of_musl(python: &Path, name: &str) -> Result<String> {
    let find = "import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / 'lib/libc/musl')";
    let file = Path::new(shell::output(&mut shell::command(python, &["-c", find]))?.trim()).join(name);
    std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

/// The toolchain's page about its standard library, with what that brings along but the page does not name.
fn library() -> Result<String> {
    let whole = toolchains("COPYRIGHT.html")?;
    let own = toolchains("COPYRIGHT-library.html")?;
    let mut page = completed(&own, &whole, &brought(ask("target-libdir")?.trim())?)?;
    for text in TEXTS {
        page += &format!("<h3>{text}</h3>\n<pre>\n{}</pre>\n", toolchains(&format!("licenses/{text}.txt"))?);
    }
    Ok(page)
}

fn ask(what: &str) -> Result<String> {
    shell::output(&mut shell::command("rustc", &["--print", what]))
}

/// A file of the toolchain's documentation.
fn toolchains(name: &str) -> Result<String> {
    let path = Path::new(ask("sysroot")?.trim()).join("share/doc/rust").join(name);
    std::fs::read_to_string(&path).with_context(|| format!("the toolchain has no {}", path.display()))
}

/// The text for a package that carries none, if it is known to.
fn standard(package: &str) -> Result<Option<String>> {
    let Some((_, licence, whose)) = WITHOUT_TEXT.iter().find(|(name, ..)| package.starts_with(name)) else {
        return Ok(None);
    };
    let text = toolchains(&format!("licenses/{licence}.txt"))?;
    Ok(Some(format!("Copyright {whose}. The package carries no text; this is that of {licence}:\n\n{text}")))
}

/// The crates in a toolchain's folder of libraries that are not its own.
fn brought(folder: &str) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {folder}"))?.flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let name = file.strip_suffix(".rlib").and_then(|file| file.strip_prefix("lib")?.rsplit_once('-'));
        names.extend(name.map(|(name, _)| name.to_owned()).filter(|name| !OWN.contains(&name.as_str())));
    }
    Ok(names)
}

/// `page` with the sections of `whole` about those of `crates` of which it has none.
fn completed(page: &str, whole: &str, crates: &BTreeSet<String>) -> Result<String> {
    let mut completed = page.to_owned();
    for name in crates.iter().filter(|name| sections(page, name).is_empty()) {
        let missing = sections(whole, name);
        if missing.is_empty() {
            bail!(
                "the toolchain does not say how {name} is licensed, which its standard library brings along"
            );
        }
        completed += &missing.concat();
    }
    Ok(completed)
}

/// The sections of a toolchain's page about all versions of a crate.
fn sections(page: &str, name: &str) -> Vec<String> {
    const TITLE: &str = "<h3>📦 ";
    let is_about = |section: &&str| {
        let title = section.split("</h3>").next().unwrap_or_default().replace('-', "_");
        let version = title.strip_prefix(name).and_then(|rest| rest.strip_prefix('_'));
        version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    };
    let whole = |section: &str| format!("{TITLE}{}", section.split("</body>").next().unwrap_or_default());
    page.split(TITLE).skip(1).filter(is_about).map(whole).collect()
}

fn page(names_by_text: &BTreeMap<String, BTreeSet<String>>) -> String {
    let rule = "=".repeat(80);
    let mut sections: Vec<_> = names_by_text.iter().map(|(text, names)| (names, text)).collect();
    sections.sort();
    let mut page = HEAD.to_owned();
    for (names, text) in sections {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        page += &format!("\n{rule}\n{}\n{rule}\n\n{}\n", names.join("\n"), text.trim_end());
    }
    page
}

impl Programs {
    fn permits(&self, package: &str, licence: &str) -> bool {
        let name = package.split(' ').next().unwrap_or_default();
        permitted(licence) || self.exceptions.contains(&(name, licence))
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = shell::cargo(arguments);
        command.current_dir(shell::root().join(self.workspace));
        command
    }

    /// What is linked into them, ours and others', as `cargo tree` writes it, with its licence; what only runs while it is
    /// compiled is not.
    ///
    /// # Errors
    /// If cargo does not know the dependencies.
    pub fn linked(&self) -> Result<BTreeMap<String, String>> {
        let mut tree = self.cargo(&["tree", "--locked", "--all-features", "-e", "normal,no-proc-macro"]);
        tree.args(["--prefix", "none", "--format", "{p}|{l}"]);
        self.packages.iter().for_each(|package| _ = tree.args(["-p", package]));
        let tree = shell::output(&mut tree)?;
        let lines = tree.lines().filter_map(|line| line.trim_end_matches(" (*)").split_once('|'));
        Ok(lines.map(|(name, licence)| (name.to_owned(), licence.to_owned())).collect())
    }

    /// What cargo knows of all packages.
    ///
    /// # Errors
    /// If it does not.
    pub fn metadata(&self) -> Result<serde_json::Value> {
        let words = ["metadata", "--locked", "--all-features", "--format-version", "1"];
        serde_json::from_str(&shell::output(&mut self.cargo(&words))?).context("cargo metadata")
    }

    /// Their lock file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn lock(&self) -> Result<String> {
        let file = shell::root().join(self.workspace).join("Cargo.lock");
        std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    }
}

/// Whether one of the alternatives of an SPDX expression is permitted, for each of its parts.
fn permitted(licence: &str) -> bool {
    let plain = licence.replace(['(', ')'], "").replace('/', " OR ");
    plain.split(" AND ").all(|part| part.split(" OR ").any(|each| PERMITTED.contains(&each.trim())))
}

/// Of what is linked, that of others.
fn foreign(of: &Programs) -> Result<Vec<Linked>> {
    let folders = folders(of)?;
    // Our own are shown with their folder.
    let foreign = of.linked()?.into_iter().filter(|(name, _)| !name.contains('('));
    let linked = foreign.map(|(name, licence)| {
        let folder = folders.get(&name).with_context(|| format!("cargo metadata does not know {name}"))?;
        Ok(Linked { folder: folder.clone(), name, licence })
    });
    linked.collect()
}

/// Where the sources of each package are, by name and version as `cargo tree` writes them.
fn folders(of: &Programs) -> Result<BTreeMap<String, PathBuf>> {
    let metadata = of.metadata()?;
    let packages = metadata["packages"].as_array().context("cargo metadata without packages")?;
    let folder = |package: &serde_json::Value| {
        let text = |key: &str| package[key].as_str();
        let folder = Path::new(text("manifest_path")?).parent()?.to_owned();
        Some((format!("{} v{}", text("name")?, text("version")?), folder))
    };
    Ok(packages.iter().filter_map(folder).collect())
}

/// The licence texts in a package's folder and in those directly below it, where C sources have theirs.
fn texts(folder: &Path) -> Result<BTreeSet<String>> {
    let mut texts = texts_in(folder)?;
    for entry in std::fs::read_dir(folder)?.flatten().filter(|entry| entry.path().is_dir()) {
        texts.extend(texts_in(&entry.path())?);
    }
    Ok(texts)
}

/// `COPYING` counts where there is nothing else: beside `LICENSE` it explains the choice, or is the GPL not chosen.
fn texts_in(folder: &Path) -> Result<BTreeSet<String>> {
    let files = |beginnings: &[&str]| -> Result<BTreeSet<String>> {
        let mut texts = BTreeSet::new();
        for entry in std::fs::read_dir(folder)?.flatten().filter(|entry| entry.path().is_file()) {
            let name = entry.file_name().to_string_lossy().to_uppercase();
            if beginnings.iter().any(|beginning| name.starts_with(beginning)) {
                let bytes = std::fs::read(entry.path())?;
                texts.insert(String::from_utf8_lossy(&bytes).replace("\r\n", "\n").trim().to_owned());
            }
        }
        Ok(texts)
    };
    let found = files(&["LICENSE", "LICENCE", "NOTICE", "COPYRIGHT", "UNLICENSE"])?;
    if found.is_empty() { files(&["COPYING"]) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_that_asks_for_more_than_its_text_is_refused() {
        for licence in ["MIT", "MIT/Apache-2.0", "(MIT OR GPL-2.0) AND Unicode-3.0", "Unlicense OR MIT"] {
            assert!(permitted(licence), "{licence}");
        }
        for licence in ["MPL-2.0", "MIT AND LGPL-2.1", "GPL-2.0 OR MPL-2.0", ""] {
            assert!(!permitted(licence), "{licence}");
        }
    }

    /// The licences of what Zenoh brings along were not checked.
    #[test]
    fn what_asks_for_more_in_the_fleet_is_named() {
        assert!(
            FLEET.permits("option-ext v0.2.0", "MPL-2.0") && !RELEASE.permits("option-ext v0.2.0", "MPL-2.0")
        );
        assert!(
            !FLEET.permits("another v1.0.0", "MPL-2.0")
                && FLEET.permits("zenoh v1.10.2", "EPL-2.0 OR Apache-2.0")
        );
        let denied = std::fs::read_to_string(shell::root().join("fleet/deny.toml")).unwrap();
        for (name, licence) in FLEET.exceptions {
            assert!(denied.contains(&format!("{{ crate = \"{name}\", allow = [\"{licence}\"] }}")), "{name}");
        }
    }

    /// The wheel's files named none of those, though all of them are in its library.
    #[test]
    fn what_the_standard_library_brings_along_had_no_licence() {
        let page = "<h1>x</h1><h3>📦 gimli-0.32.3</h3>gimli's";
        let whole = "<h3>📦 object-0.36</h3>old<h3>📦 object-store-1</h3>other<h3>📦 object-0.37</h3>new</body></html>";
        let crates = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let found = completed(page, whole, &crates(&["gimli", "object"])).unwrap();
        let objects = "<h3>📦 object-0.36</h3>old<h3>📦 object-0.37</h3>new";
        assert_eq!(found, format!("{page}{objects}"));
        assert!(completed(page, whole, &crates(&["unheard_of"])).is_err());
    }

    #[test]
    fn a_text_stands_once_behind_all_who_use_it() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let texts = [("text one".to_owned(), names(&["b", "c"])), ("text two".to_owned(), names(&["a"]))];
        let page = page(&texts.into_iter().collect());
        let order: Vec<_> =
            ["\na\n", "text two", "\nb\nc\n", "text one"].iter().map(|part| page.find(part)).collect();
        assert!(order.is_sorted() && order[0].is_some(), "{page}");
    }
}
