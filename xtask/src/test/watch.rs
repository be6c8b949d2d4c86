//! What reads each file: the crates it is part of, the tests from outside, and code that names it.

use super::{parts, times};
use crate::{layers, shell};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What reads a file.
#[derive(Clone, Copy)]
enum By {
    /// The tests of a crate.
    Crate(&'static str),
    /// A file of Python tests that is quick whatever its folder takes.
    File(&'static str),
    /// A part of the suite, run here if it is short.
    Part(&'static str),
    /// Every part.
    All,
    /// The lints, which always run.
    Lints,
    /// People: it is run by hand.
    Hand,
}
use By::{All, Crate, File, Hand, Lints, Part};

const SITE: By = File("tests/docs/test_site.py");

/// Beginnings of paths, and what reads what lies there, besides its own crate and tests. All that fit count.
const READ_BY: &[(&str, &[By])] = &[
    ("docs/", &[SITE]),
    ("README.md", &[SITE]),
    ("CHANGELOG.md", &[SITE]),
    ("ARCHITECTURE.md", &[SITE, Crate("xtask")]),
    ("CONTRIBUTING.md", &[Lints]),
    ("crates/view/src/assets/", &[File("tests/browser/test_live.py")]),
    ("crates/page/src/assets/", &[File("tests/browser/test_live.py")]),
    ("crates/page/", &[File("tests/browser/test_reports.py")]),
    ("crates/tlog", &[Part("tests/python-log")]),
    ("robots/", &[Crate("khz-file"), Crate("kilohertz-cli")]),
    ("robots/models/", &[Part("tests/mujoco"), Part("tests/policy")]),
    ("vectors/tlog/", &[Crate("khz-tlog"), Part("tests/python-log")]),
    ("vectors/README.md", &[Lints]),
    ("capi/", &[Part("tests/capi")]),
    ("python/", &[Part("tests/python")]),
    ("python/lerobot/", &[Part("tests/lerobot")]),
    ("python/backend.py", &[Part("tests/dist")]),
    ("python/pyproject.toml", &[Part("tests/dist")]),
    ("fleet/", &[Part("tests/fleet")]),
    ("fuzz/", &[Part("fuzz")]),
    ("vm/", &[Part(parts::GUEST)]),
    ("packaging/", &[Part("tests/dist")]),
    ("LICENSE", &[File("tests/dist/test_reuse.py")]),
    ("REUSE.toml", &[File("tests/dist/test_reuse.py")]),
    ("tests/instructions.tsv", &[Part("instructions")]),
    ("tests/times.tsv", &[Crate("xtask")]),
    ("tests/conftest.py", &[All]),
    ("tests/pytest.ini", &[All]),
    ("tests/requirements", &[All]),
    ("tests/robots.py", &[All]),
    ("tests/firmware/", &[Hand]),
    ("tests/identify/", &[Hand]),
    ("Cargo.", &[All]),
    (".cargo/", &[All]),
    (".ci/", &[All]),
    ("clippy.toml", &[Lints]),
    ("deny.toml", &[Lints]),
    ("rustfmt.toml", &[Lints]),
    (".git", &[Lints]),
];

/// Where a file is read by what names it.
const BY_NAME: [&str; 3] = ["robots/", "vectors/", "docs/"];

/// The figures of a run in virtual time, recomputed by another implementation: for every change of a crate of the loop.
pub const ORACLE: &str = "tests/oracle/test_virtual.py";

/// Crates without a part in a run.
const BESIDE_A_RUN: [&str; 5] = ["xtask", "khz-bench", "khz-page", "khz-view", "khz-rtt"];

/// Tests of a part that takes longer are named, not run, unless they changed themselves.
const SHORT_S: u64 = 120;

/// What a change touches.
#[derive(Debug, Default)]
pub struct Watchers {
    /// Crates, for their own tests.
    pub crates: BTreeSet<String>,
    /// Tests from outside, and short parts.
    pub tests: BTreeSet<String>,
    /// What reads the change, too, and takes too long to be run here.
    pub later: BTreeSet<String>,
    /// Files that every part reads.
    pub by_all: BTreeSet<String>,
    /// Files that only people run.
    pub by_hand: BTreeSet<String>,
    /// Files that nothing is known to read.
    pub unknown: BTreeSet<String>,
}

impl Watchers {
    /// Of these files.
    ///
    /// # Errors
    /// If cargo or git cannot be run.
    pub fn of(files: &[String]) -> Result<Self> {
        let folders = folders()?;
        let mut all = Self::default();
        for file in files {
            all.add(file, &folders)?;
        }
        if !all.by_all.is_empty() || all.crates.iter().any(|name| !BESIDE_A_RUN.contains(&name.as_str())) {
            all.tests.insert(ORACLE.into());
        }
        // Deleted tests cannot run.
        all.tests.retain(|test| is_there(test));
        all.later.retain(|test| is_there(test) && !all.tests.contains(test));
        Ok(all)
    }

    fn add(&mut self, file: &str, folders: &[(PathBuf, String)]) -> Result<()> {
        let own = folders.iter().find(|(folder, _)| Path::new(file).starts_with(folder));
        let own_tests = tests_of(file);
        let readers = if is_read_by_name(file) { readers(file)? } else { Vec::new() };
        let by: Vec<&By> =
            READ_BY.iter().filter(|(path, _)| file.starts_with(path)).flat_map(|(_, by)| *by).collect();
        if own.is_none() && own_tests.is_none() && readers.is_empty() && by.is_empty() {
            self.unknown.insert(file.to_owned());
        }
        self.crates.extend(own.map(|(_, name)| name.clone()));
        // A test that changed is run, however long its folder takes.
        match own_tests {
            Some(tests) if tests == file => _ = self.tests.insert(tests),
            Some(folder) => self.insert(folder),
            None => {}
        }
        for reader in readers {
            match folders.iter().find(|(folder, _)| Path::new(&reader).starts_with(folder)) {
                Some((_, name)) => _ = self.crates.insert(name.clone()),
                None => tests_of(&reader).into_iter().for_each(|tests| self.insert(tests)),
            }
        }
        by.into_iter().for_each(|by| self.read_by(file, *by));
        if is_page(file) {
            self.tests.insert(format!("{SNIPPETS}[{file}]"));
        }
        Ok(())
    }

    fn read_by(&mut self, file: &str, by: By) {
        _ = match by {
            Crate(name) => self.crates.insert(name.to_owned()),
            File(tests) => self.tests.insert(tests.to_owned()),
            Part(part) => {
                self.insert(part.to_owned());
                true
            }
            All => self.by_all.insert(file.to_owned()),
            Hand => self.by_hand.insert(file.to_owned()),
            Lints => true,
        };
    }

    fn insert(&mut self, tests: String) {
        let part = parts::all().into_iter().find(|part| parts::is_of(&tests, part));
        let is_short = part.is_some_and(|part| times::wall_s(&part) <= SHORT_S);
        if is_short { &mut self.tests } else { &mut self.later }.insert(tests);
    }

    /// What will run.
    pub fn runs(&self) -> String {
        lists(&[("tests of crates", &self.crates), ("tests from outside", &self.tests)])
    }

    /// What reads the change, too, and how to run it.
    pub fn left(&self) -> String {
        lists(&[
            ("not run here, they take minutes (cargo xtask test PART)", &self.later),
            ("not run here, every part reads these (cargo xtask test)", &self.by_all),
            ("not run here, xtask/src/test/watch.rs has no rule for these (cargo xtask test)", &self.unknown),
            ("run by hand only", &self.by_hand),
        ])
    }

    /// How much is not run although it reads the change.
    pub fn left_out(&self) -> u32 {
        (self.later.len() + self.by_all.len() + self.unknown.len()) as u32
    }
}

fn lists(lists: &[(&str, &BTreeSet<String>)]) -> String {
    let list = |(title, names): &(&str, &BTreeSet<String>)| {
        let lines: String = names.iter().map(|name| format!("  {name}\n")).collect();
        if lines.is_empty() { lines } else { format!("{title}:\n{lines}") }
    };
    lists.iter().map(list).collect()
}

/// The test of one page's commands and snippets.
const SNIPPETS: &str = "tests/docs/test_snippets.py::test_every_snippet_of_the_page_works";

/// Whether [`SNIPPETS`] has this page.
fn is_page(file: &str) -> bool {
    let of_docs = file.strip_prefix("docs/").is_some_and(|name| name.ends_with(".md") && !name.contains('/'));
    (of_docs || ["README.md", "python/README.md"].contains(&file)) && shell::root().join(file).exists()
}

fn is_there(test: &str) -> bool {
    let file = test.split("::").next().unwrap_or_default();
    !file.starts_with("tests/") || shell::root().join(file).exists()
}

/// The Python tests that a file of `tests` belongs to: itself, or of what its tests share, their folder.
fn tests_of(file: &str) -> Option<String> {
    let part = parts::all().into_iter().find(|part| parts::is_of(file, part))?;
    let name = file.rsplit('/').next()?;
    Some(if name.starts_with("test_") && name.ends_with(".py") { file.to_owned() } else { part })
}

fn is_read_by_name(file: &str) -> bool {
    !file.ends_with("/README.md") && BY_NAME.iter().any(|folder| file.starts_with(folder))
}

/// Code with the file's name at the end of a string.
fn readers(file: &str) -> Result<Vec<String>> {
    let name = format!("{}\"", file.rsplit('/').next().unwrap_or_default());
    let words =
        ["grep", "--untracked", "-lF", "-e", &name, "--", "*.rs", "*.py", ":!xtask/src/test/watch.rs"];
    // It exits with 1 if there is none.
    let found = shell::command("git", &words).output().context("cannot start git")?;
    Ok(String::from_utf8_lossy(&found.stdout).lines().map(str::to_owned).collect())
}

/// The workspace's crates by their folders.
fn folders() -> Result<Vec<(PathBuf, String)>> {
    let metadata = layers::metadata()?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let folder = |package: &serde_json::Value| {
        let manifest = Path::new(package["manifest_path"].as_str().context("a package without a manifest")?);
        let folder = manifest.parent().context("a manifest without a folder")?;
        let folder = folder.strip_prefix(shell::root()).unwrap_or(folder).to_owned();
        Ok((folder, package["name"].as_str().context("a package without a name")?.to_owned()))
    };
    packages.iter().map(folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(file: &str) -> Watchers {
        Watchers::of(&[file.to_owned()]).unwrap()
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn every_tracked_file_is_read_by_something() {
        let files = shell::output(&mut shell::command("git", &["ls-files"])).unwrap();
        let files: Vec<String> = files.lines().map(str::to_owned).collect();
        assert_eq!(Watchers::of(&files).unwrap().unknown, set(&[]));
    }

    #[test]
    fn what_the_table_names_exists() {
        let (folders, parts) = (folders().unwrap(), parts::all());
        for (path, by) in READ_BY {
            for by in *by {
                match by {
                    Crate(name) => assert!(folders.iter().any(|(_, known)| known == name), "{path}: {name}"),
                    File(file) => assert!(shell::root().join(file).is_file(), "{path}: {file}"),
                    Part(part) => assert!(parts.iter().any(|known| known == part), "{path}: {part}"),
                    All | Lints | Hand => {}
                }
            }
        }
    }

    #[test]
    fn a_page_is_read_by_the_site_and_its_own_snippets() {
        let watchers = of("docs/bring-up.md");
        assert_eq!(watchers.crates, set(&[]));
        let snippets = format!("{SNIPPETS}[docs/bring-up.md]");
        assert_eq!(watchers.tests, set(&["tests/docs/test_site.py", &snippets]));
    }

    #[test]
    fn a_page_that_a_crate_writes_is_read_by_it() {
        assert!(of("docs/metrics.md").crates.contains("khz-run"));
    }

    #[test]
    fn a_crate_of_the_loop_is_watched_by_the_oracle() {
        let watchers = of("crates/wire/src/lib.rs");
        assert_eq!(watchers.crates, set(&["khz-wire"]));
        assert!(watchers.tests.contains(ORACLE));
    }

    #[test]
    fn robot_files_and_vectors_are_read_by_the_crates_that_name_them() {
        let robot = of("robots/so101.toml").crates;
        assert!(
            ["khz-file", "kilohertz-cli", "khz-budget"].iter().all(|name| robot.contains(*name)),
            "{robot:?}"
        );
        assert_eq!(of("vectors/robstride_mit.json").crates, set(&["khz-emu", "khz-wire"]));
    }

    #[test]
    fn a_changed_test_is_run_and_what_tests_share_runs_their_folder() {
        assert!(of("tests/python/test_env.py").tests.contains("tests/python/test_env.py"));
        assert!(of("tests/schema/test_schema.py").tests.contains("tests/schema/test_schema.py"));
        assert!(of("tests/policy/conftest.py").tests.contains("tests/policy"));
        assert!(of("tests/python/conftest.py").later.contains("tests/python"));
    }

    #[test]
    fn what_every_part_reads_is_said_and_tried_once() {
        let watchers = of("tests/conftest.py");
        assert_eq!((watchers.by_all, watchers.tests), (set(&["tests/conftest.py"]), set(&[ORACLE])));
    }

    #[test]
    fn a_file_without_a_rule_is_said() {
        let watchers = of("unheard/of.txt");
        assert_eq!((watchers.unknown, watchers.tests), (set(&["unheard/of.txt"]), set(&[])));
    }
}
