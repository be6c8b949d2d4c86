//! Files of one crate that need each other in a cycle: none of them can be read, moved or tested alone.

use super::source::{NamePath, Source};
use std::collections::{BTreeMap, BTreeSet};

/// A module and the file its types come from may need each other, and one more.
const MOST_FILES: usize = 3;

/// Larger cycles that still exist: one of their files, how many files they may have at most, and why. Only to be shortened.
const TOLERATED: &[(&str, usize, &str)] = &[];

/// Dependencies between files of one crate, each with a name that needs it.
type Dependencies = BTreeMap<usize, BTreeMap<usize, String>>;

/// One line per cycle of too many files, and per tolerated cycle that has shrunk.
pub(super) fn check(sources: &[Source]) -> Vec<String> {
    check_with(sources, TOLERATED)
}

fn check_with(sources: &[Source], tolerated: &[(&str, usize, &str)]) -> Vec<String> {
    let dependencies = dependencies(sources);
    let mut wrong = Vec::new();
    for cycle in cycles(sources.len(), &dependencies) {
        let permit = tolerated
            .iter()
            .find(|(file, ..)| cycle.iter().any(|&at| sources[at].file == *file))
            .map_or(MOST_FILES, |(_, most, _)| *most);
        if cycle.len() > permit {
            wrong.push(report(sources, &cycle, &dependencies));
        } else if permit > MOST_FILES && cycle.len() < permit {
            wrong.push(format!(
                "the cycle around {} has shrunk to {} files: write so in TOLERATED of xtask/src/layers/cycles.rs",
                sources[cycle[0]].file,
                cycle.len()
            ));
        }
    }
    wrong
}

fn report(sources: &[Source], cycle: &[usize], dependencies: &Dependencies) -> String {
    let mut text = format!("a cycle of {} files; at most {MOST_FILES} may need each other:", cycle.len());
    for &from in cycle {
        for (to, name) in dependencies[&from].iter().filter(|(to, _)| cycle.contains(to)) {
            text += &format!("\n    {} → {} for {name}", sources[from].file, sources[*to].file);
        }
    }
    text
}

fn dependencies(sources: &[Source]) -> Dependencies {
    let dependencies_of = |from: usize| {
        let targets = sources[from].names.iter().filter_map(|name| {
            let path = within_crate(sources, &sources[from], name)?;
            let to = definition(sources, &path, 0)?;
            // What a whole defines, its parts use: that is what nesting means.
            let is_part =
                sources[from].module.starts_with(&sources[to].module) && !sources[to].module.is_empty();
            (!is_part).then(|| (to, name.join("::")))
        });
        (from, targets.collect())
    };
    (0..sources.len()).map(dependencies_of).collect()
}

/// The path from the root of the crate; `None` if it leads elsewhere.
fn within_crate(sources: &[Source], from: &Source, name: &NamePath) -> Option<NamePath> {
    let mut module = from.module.clone();
    match name.first().map(String::as_str)? {
        "crate" => Some(name[1..].to_vec()),
        "self" => Some([&module, &name[1..]].concat()),
        "super" => {
            let up = name.iter().take_while(|name| *name == "super").count();
            module.truncate(module.len().checked_sub(up)?);
            Some([&module, &name[up..]].concat())
        }
        child => {
            module.push(child.to_owned());
            let is_child = sources.iter().any(|source| source.module == module);
            is_child.then(|| [&from.module, name.as_slice()].concat())
        }
    }
}

/// The file that defines what the path names, through the `use` items of modules on the way.
fn definition(sources: &[Source], path: &[String], depth: usize) -> Option<usize> {
    let length = (0..=path.len()).rev().find(|&length| module_at(sources, &path[..length]).is_some())?;
    let at = module_at(sources, &path[..length])?;
    let Some(name) = path.get(length) else { return Some(at) };
    if sources[at].defines.contains(name) || depth > 4 {
        return Some(at);
    }
    let imported = |import: &NamePath| {
        let mut target = within_crate(sources, &sources[at], import)?;
        match import.last()?.as_str() {
            "*" => {
                target.pop();
                target.push(name.clone());
                let found = definition(sources, &target, depth + 1)?;
                sources[found].defines.contains(name).then_some(found)
            }
            last if last == name => definition(sources, &target, depth + 1),
            _ => None,
        }
    };
    sources[at].imports.iter().find_map(imported).or(Some(at))
}

fn module_at(sources: &[Source], module: &[String]) -> Option<usize> {
    sources.iter().position(|source| source.module == module)
}

/// The sets of files each of which reaches all the others.
fn cycles(count: usize, dependencies: &Dependencies) -> Vec<Vec<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..count).map(|from| reach(from, dependencies)).collect();
    let mut seen = BTreeSet::new();
    let mut cycles = Vec::new();
    for from in 0..count {
        let cycle: Vec<usize> =
            reached[from].iter().copied().filter(|&to| reached[to].contains(&from)).collect();
        if cycle.len() > 1 && seen.insert(cycle[0]) {
            cycles.push(cycle);
        }
    }
    cycles
}

fn reach(from: usize, dependencies: &Dependencies) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        next.extend(dependencies[&at].keys().filter(|to| reached.insert(**to)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planted(files: &[(&str, &str)]) -> Vec<Source> {
        let source = |(module, text): &(&str, &str)| {
            let path = module.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
            Source::parse(format!("{module}.rs"), path, text).expect("Rust")
        };
        files.iter().map(source).collect()
    }

    const FOUR: &[(&str, &str)] = &[
        ("", "pub mod a; pub mod b; pub mod c; pub mod d;"),
        ("a", "use crate::b::B; pub struct A(B);"),
        ("b", "use crate::c; pub struct B(c::C);"),
        ("c", "pub struct C(crate::d::D);"),
        ("d", "pub use d1::D; mod d1;"),
        ("d::d1", "section! { D { a: crate::a::A; } }"),
    ];

    #[test]
    fn a_planted_cycle_is_caught() {
        let wrong = check_with(&planted(FOUR), &[]);
        assert_eq!(wrong.len(), 1);
        assert!(wrong[0].starts_with("a cycle of 4 files"), "{}", wrong[0]);
        assert!(wrong[0].contains("c.rs → d::d1.rs for crate::d::D"), "{}", wrong[0]);
    }

    #[test]
    fn three_files_may_need_each_other() {
        let mut files = FOUR.to_vec();
        files[3].1 = "pub struct C(crate::a::A);";
        assert_eq!(check_with(&planted(&files), &[]), [""; 0]);
    }

    #[test]
    fn a_tolerated_cycle_may_shrink_but_not_grow() {
        let sources = planted(FOUR);
        assert_eq!(check_with(&sources, &[("a.rs", 4, "")]), [""; 0]);
        assert!(check_with(&sources, &[("a.rs", 5, "")])[0].contains("has shrunk to 4 files"));
    }
}
