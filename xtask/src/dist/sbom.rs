//! `khz-VERSION.cdx.json`: what is compiled into the programs and libraries, as CycloneDX.
//!
//! Made of what cargo knows and the licences' list takes, so that both name the same packages. cargo-cyclonedx would have to be compiled
//! first, lists the packages of one target, and names the folders of this machine.

use super::Release;
use crate::licences::Programs;
use crate::{licences, shell};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The schema that is followed.
const SPECIFICATION: &str = "1.6";

/// Its kin for `khz-fleet`, which users build, come with its licences.
pub fn make(release: &Release) -> Result<()> {
    let others = vec![standard_library()?, musl(&licences::musl_version(&release.build.python)?)];
    let whole = "Kilohertz: the command, the C library and the Python package";
    write(release, "khz", &document(release, "khz", whole, &licences::RELEASE, others)?)?;
    let robots = "Kilohertz: many robots on Zenoh";
    let fleet = document(release, "khz-fleet", robots, &licences::FLEET, vec![standard_library()?])?;
    write(release, "khz-fleet", &fleet)?;
    let file = release.out.join(format!("khz-fleet-{}-licenses.txt", release.version));
    std::fs::write(&file, licences::text(&licences::FLEET)?)
        .with_context(|| format!("cannot write {}", file.display()))
}

fn write(release: &Release, name: &str, document: &str) -> Result<()> {
    let file = release.out.join(format!("{name}-{}.cdx.json", release.version));
    std::fs::write(&file, format!("{document}\n")).with_context(|| format!("cannot write {}", file.display()))
}

/// Of `programs`, and of `others` that cargo does not know.
fn document(
    release: &Release,
    name: &str,
    what: &str,
    programs: &Programs,
    others: Vec<Value>,
) -> Result<String> {
    let (linked, checksums) = (programs.linked()?, checksums(&programs.lock()?));
    // `cargo tree` writes `name v1.0.0 (folder)`, and the folder only of ours.
    let references: BTreeMap<String, String> = linked
        .keys()
        .map(|line| {
            let name = line.split(" (").next().unwrap_or_default().replace(" v", "@");
            let ours = line.contains('(');
            (name.clone(), if ours { name } else { format!("pkg:cargo/{}", name.replace('+', "%2B")) })
        })
        .collect();
    let components: Vec<Value> = linked
        .iter()
        .filter_map(|(line, licence)| component(line, licence, &references, &checksums))
        .collect();
    let roots = programs.packages.iter().map(|name| format!("{name}@{}", release.version));
    let roots: Vec<Value> =
        roots.map(Value::from).chain(others.iter().map(|other| other["bom-ref"].clone())).collect();
    let mut graph = graph(&programs.metadata()?, &references)?;
    graph.push(json!({ "ref": "release", "dependsOn": roots }));
    let when = shell::output(
        shell::command("date", &["--utc", "+%Y-%m-%dT%H:%M:%SZ", "--date"])
            .arg(format!("@{}", release.epoch)),
    )?;
    let document = json!({
        "$schema": format!("http://cyclonedx.org/schema/bom-{SPECIFICATION}.schema.json"),
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "version": 1,
        "metadata": {
            "timestamp": when.trim(),
            "component": {
                "type": "application", "bom-ref": "release", "name": name, "version": release.version,
                "description": what,
                "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            },
        },
        "components": components.into_iter().chain(others).collect::<Vec<_>>(),
        "dependencies": graph,
    });
    serde_json::to_string_pretty(&document).context("the list of packages")
}

/// A package as a line of `cargo tree` names it.
fn component(
    line: &str,
    licence: &str,
    references: &BTreeMap<String, String>,
    checksums: &BTreeMap<String, String>,
) -> Option<Value> {
    let (name, version) = line.split(" (").next()?.split_once(" v")?;
    let id = format!("{name}@{version}");
    let reference = references.get(&id)?;
    let licence = licence.replace('/', " OR ");
    let mut component = json!({
        "type": "library", "bom-ref": reference, "name": name, "version": version,
        "licenses": [{ "expression": licence }],
    });
    // Ours are in no registry.
    if reference.starts_with("pkg:") {
        component["purl"] = reference.as_str().into();
    }
    if let Some(sum) = checksums.get(&id) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    Some(component)
}

const STANDARD: &str = "rust-std";
const MUSL: &str = "musl";

/// The C library in the static commands.
fn musl(version: &str) -> Value {
    json!({
        "type": "library", "bom-ref": MUSL, "name": MUSL, "version": version,
        "description": "in the static command only", "licenses": [{ "expression": "MIT" }],
    })
}

/// The standard library of the toolchain, which cargo does not count.
fn standard_library() -> Result<Value> {
    let version = shell::output(&mut shell::command("rustc", &["--version", "--verbose"]))?;
    let release =
        version.lines().find_map(|line| line.strip_prefix("release: ")).context("rustc has no release")?;
    Ok(json!({
        "type": "library", "bom-ref": STANDARD, "name": STANDARD, "version": release,
        "licenses": [{ "expression": "(MIT OR Apache-2.0) AND MIT AND Apache-2.0 WITH LLVM-exception" }],
    }))
}

/// Which of the packages use which.
fn graph(metadata: &Value, references: &BTreeMap<String, String>) -> Result<Vec<Value>> {
    let packages = metadata["packages"].as_array().context("cargo metadata without packages")?;
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo metadata without dependencies")?;
    let mut by_id = BTreeMap::new();
    for package in packages {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        if let Some(reference) = references.get(&format!("{}@{}", text("name"), text("version"))) {
            by_id.insert(text("id"), reference.as_str());
        }
    }
    let normal = |dep: &&Value| {
        dep["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
    };
    let mut graph = BTreeMap::new();
    for node in nodes {
        let Some(from) = by_id.get(node["id"].as_str().unwrap_or_default()) else { continue };
        let deps = node["deps"].as_array().into_iter().flatten().filter(normal);
        let to: BTreeSet<&str> = deps.filter_map(|dep| by_id.get(dep["pkg"].as_str()?).copied()).collect();
        graph.insert(from, json!({ "ref": from, "dependsOn": to }));
    }
    Ok(graph.into_values().collect())
}

/// `name@version` to the checksum in the lock file.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let entry = |text: &str| {
        let field = |key: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""))?;
            value.strip_suffix('"')
        };
        Some((format!("{}@{}", field("name")?, field("version")?), field("checksum")?.to_owned()))
    };
    lock.split("[[package]]").filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_packages_of_others() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"00ff\"\n\n\
                    [[package]]\nname = \"ours\"\nversion = \"0.1.0\"\ndependencies = [\n \"a\",\n]\n";
        assert_eq!(checksums(lock), BTreeMap::from([("a@1.0.0".into(), "00ff".into())]));
    }

    #[test]
    fn only_what_is_linked_is_in_the_graph() {
        let package = |name: &str| json!({ "id": format!("#{name}"), "name": name, "version": "1.0.0" });
        let dep =
            |name: &str, kind: Value| json!({ "pkg": format!("#{name}"), "dep_kinds": [{ "kind": kind }] });
        let deps = [dep("used", Value::Null), dep("tool", "build".into()), dep("test", "dev".into())];
        let nodes = json!([{ "id": "#own", "deps": deps }, { "id": "#used", "deps": [] }, { "id": "#tool", "deps": [] }]);
        let packages = ["own", "used", "tool", "test"].map(package);
        let metadata = json!({ "packages": packages, "resolve": { "nodes": nodes } });
        let references = ["own", "used", "test"].map(|name| (format!("{name}@1.0.0"), name.to_owned()));
        let graph = graph(&metadata, &references.into_iter().collect()).unwrap();
        let expected =
            [json!({ "ref": "own", "dependsOn": ["used"] }), json!({ "ref": "used", "dependsOn": [] })];
        assert_eq!(graph, expected);
    }
}
