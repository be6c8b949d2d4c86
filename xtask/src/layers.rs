//! Checks that dependencies between the workspace's crates point to a lower layer.
//!
//! Ordinary and build dependencies must point strictly downwards. Development dependencies may also look
//! sideways (a test of the log may use the clock) but not up: what needs an upper layer to be tested is
//! tested there. Crates of one group (`tlog` and its derive macro) count as one.
//!
//! In addition, [`names`] defines which names a crate must not use, and [`cycles`] limits dependency cycles between
//! the files of one crate.

mod cycles;
mod names;
mod source;

use crate::shell;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;

/// Every crate of the workspace: its name, its group, and the group's layer.
const CRATES: &[(&str, &str, u8)] = &[
    ("khz-settings", "settings", 0),
    ("khz-wire", "wire", 1),
    ("khz-tlog", "tlog", 1),
    ("khz-tlog-derive", "tlog", 1),
    ("khz-rt", "rt", 1),
    ("khz-page", "page", 1),
    ("khz-policy", "policy", 1),
    ("khz-onnxruntime", "onnxruntime", 2),
    ("khz-servo", "servo", 2),
    ("khz-run", "run", 2),
    ("khz-record", "record", 2),
    ("khz-link", "link", 2),
    ("khz-emu", "emu", 3),
    ("khz-loop", "loop", 3),
    ("khz-mujoco", "mujoco", 4),
    ("khz-controllers", "controllers", 4),
    ("khz-targets", "targets", 4),
    ("khz-file", "file", 5),
    ("khz-robot", "robot", 6),
    ("khz-budget", "budget", 7),
    ("khz-drill", "drill", 7),
    ("khz-identify", "identify", 7),
    ("khz-rtt", "rtt", 7),
    ("khz-export", "export", 7),
    ("khz-report", "report", 8),
    ("khz-measure", "measure", 9),
    ("khz-view", "view", 9),
    ("kilohertz", "kilohertz", 9),
    ("kilohertz-cli", "cli", 10),
    ("kilohertz-python", "python", 10),
    ("khz-capi", "capi", 10),
    ("khz-suite", "suite", 11),
    ("khz-bench", "bench", 11),
    ("khz-proofs", "proofs", 11),
    ("xtask", "xtask", 11),
];

/// Checks the workspace and reports what it found.
///
/// # Errors
/// If `cargo metadata` cannot be run or read.
pub fn run() -> Result<bool> {
    let metadata = metadata()?;
    let mut wrong = upward_dependencies(&metadata)?;
    wrong.extend(wrong_names(&metadata)?);
    for line in &wrong {
        eprintln!("layers: {line}");
    }
    if wrong.is_empty() {
        println!("layers: every dependency points downwards, no forbidden name, no large cycle");
    }
    Ok(wrong.is_empty())
}

/// Forbidden names in the whole workspace, and cycles within its crates.
fn wrong_names(metadata: &Value) -> Result<Vec<String>> {
    let root = metadata["workspace_root"].as_str().context("cargo metadata names no root")?;
    let mut all = Vec::new();
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let manifest = package["manifest_path"].as_str().context("a package without a manifest")?;
        let folder = Path::new(manifest).parent().context("a manifest without a folder")?;
        let mut sources = source::read_crate(Path::new(root), folder)?;
        wrong.extend(cycles::check(&sources));
        all.append(&mut sources);
    }
    wrong.extend(names::check(&all));
    Ok(wrong)
}

/// What cargo knows of the workspace's packages.
///
/// # Errors
/// If cargo cannot be run, or what it prints not be read.
pub fn metadata() -> Result<Value> {
    let text = shell::output(&mut shell::cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
    serde_json::from_str(&text).context("cargo metadata printed no JSON")
}

/// One line for each dependency that does not point downwards, and for each crate without a place.
fn upward_dependencies(metadata: &Value) -> Result<Vec<String>> {
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let ours: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().context("a package without a name")?;
        if place(name).is_none() {
            wrong.push(format!("{name} is in no layer: add a line to CRATES in xtask/src/layers.rs"));
        }
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        for dependency in dependencies {
            let target = dependency["name"].as_str().context("a dependency without a name")?;
            if ours.contains(&target) && !points_down(name, target, dependency["kind"].as_str()) {
                wrong.push(message(name, target));
            }
        }
    }
    Ok(wrong)
}

/// Whether `from` may depend on `to`. `kind` is what cargo calls it: none for ordinary, `dev`, or `build`.
fn points_down(from: &str, to: &str, kind: Option<&str>) -> bool {
    let (Some((from_group, from)), Some((to_group, to))) = (place(from), place(to)) else { return false };
    from_group == to_group || from > to || (from == to && kind == Some("dev"))
}

fn place(name: &str) -> Option<(&'static str, u8)> {
    CRATES.iter().find(|(crate_name, ..)| *crate_name == name).map(|(_, group, layer)| (*group, *layer))
}

fn message(from: &str, to: &str) -> String {
    let layer = |name| place(name).map_or("?".into(), |(_, layer)| layer.to_string());
    format!("{from} (layer {}) must not depend on {to} (layer {})", layer(from), layer(to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn planted(from: &str, to: &str, kind: Option<&str>) -> Vec<String> {
        let mut metadata = metadata().expect("cargo metadata");
        let packages = metadata["packages"].as_array_mut().expect("packages");
        let package = packages.iter_mut().find(|package| package["name"] == from).expect("our crate");
        let dependencies = package["dependencies"].as_array_mut().expect("dependencies");
        dependencies.push(json!({ "name": to, "kind": kind }));
        upward_dependencies(&metadata).expect("readable metadata")
    }

    #[test]
    fn the_workspace_points_downwards() {
        assert_eq!(upward_dependencies(&metadata().expect("cargo metadata")).expect("readable"), [""; 0]);
    }

    #[test]
    fn the_workspace_names_nothing_forbidden_and_has_no_large_cycle() {
        assert_eq!(wrong_names(&metadata().expect("cargo metadata")).expect("readable"), [""; 0]);
    }

    #[test]
    fn the_table_of_the_architecture_has_every_crate_in_its_layer() {
        let text = std::fs::read_to_string(shell::root().join("ARCHITECTURE.md")).expect("the page");
        let row = |line: &str| {
            let (layer, rest) = line.strip_prefix("| ")?.split_once(' ')?;
            Some((rest.split('`').nth(1)?.to_owned(), layer.parse().ok()?))
        };
        let mut written: Vec<(String, u8)> = text.lines().filter_map(row).collect();
        let mut known: Vec<(String, u8)> =
            CRATES.iter().map(|(_, group, layer)| ((*group).to_owned(), *layer)).collect();
        written.sort_unstable();
        known.sort_unstable();
        known.dedup();
        assert_eq!(written, known);
    }

    #[test]
    fn a_planted_upward_dependency_is_caught() {
        let wrong = planted("khz-wire", "khz-link", None);
        assert_eq!(wrong, ["khz-wire (layer 1) must not depend on khz-link (layer 2)"]);
    }

    #[test]
    fn sideways_is_for_tests_only() {
        assert_eq!(planted("khz-tlog", "khz-rt", Some("dev")), [""; 0]);
        assert_eq!(planted("khz-tlog", "khz-rt", None).len(), 1);
        assert_eq!(planted("khz-tlog", "khz-rt", Some("build")).len(), 1);
    }

    #[test]
    fn upward_is_not_even_for_tests() {
        assert_eq!(planted("khz-link", "khz-emu", Some("dev")).len(), 1);
    }

    #[test]
    fn a_crate_without_a_place_is_reported() {
        let metadata = json!({ "packages": [{ "name": "khz-new", "dependencies": [] }] });
        assert_eq!(upward_dependencies(&metadata).expect("readable").len(), 1);
    }
}
