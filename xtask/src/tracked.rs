//! Files that belong to everybody name no one's machine: no home folders, no registry hosts.

use crate::shell;
use anyhow::Result;

/// What no tracked file may contain, and why. Written in halves, so that this file passes its own check.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/Us", "ers/"), "a path of one machine"),
    (concat!("pypi", ".org"), "a registry host"),
    (concat!("pythonhosted", ".org"), "a registry host"),
    (concat!("index.crates", ".io"), "a registry host"),
    (concat!("static.crates", ".io"), "a registry host"),
    (concat!("registry.npmjs", ".org"), "a registry host"),
    (concat!("deb.debian", ".org"), "a registry host"),
    (concat!("security.debian", ".org"), "a registry host"),
];

/// Checks every tracked text file and reports what it found.
///
/// # Errors
/// If `git` cannot list the files.
pub fn run() -> Result<bool> {
    let files = shell::output(&mut shell::command("git", &["ls-files", "-z"]))?;
    let mut clean = true;
    for file in files.split_terminator('\0') {
        // A file deleted but not yet committed, or one that is no text, has no lines to look at.
        let Ok(text) = std::fs::read_to_string(shell::root().join(file)) else { continue };
        for (line, found, why) in findings(&text) {
            eprintln!("tracked: {file}:{line}: `{found}` is {why}");
            clean = false;
        }
    }
    if clean {
        println!("tracked: no file names a machine or a registry");
    }
    Ok(clean)
}

fn findings(text: &str) -> impl Iterator<Item = (usize, &'static str, &'static str)> {
    text.lines().enumerate().flat_map(|(index, line)| {
        FORBIDDEN
            .iter()
            .filter(move |(needle, _)| line.contains(needle))
            .map(move |(needle, why)| (index + 1, *needle, *why))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_folder_is_found_with_its_line() {
        let text = format!("one\nsee {}ada/robot.toml\n", concat!("/ho", "me/"));
        let found: Vec<_> = findings(&text).collect();
        assert_eq!(found, [(2, concat!("/ho", "me/"), "a path of one machine")]);
    }

    #[test]
    fn the_lock_file_s_source_is_no_registry_host() {
        let line = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
        assert_eq!(findings(line).count(), 0);
    }
}
