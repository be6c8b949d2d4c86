//! What failed, and how it is run alone: of what a runner printed.

use super::done::Done;
use crate::shell;

/// Failed tests that are named; of more the number is.
const NAMED: usize = 5;

/// A failed test: its name, and the command that runs it alone.
#[derive(Debug, PartialEq, Eq)]
struct Failed {
    name: String,
    alone: String,
}

/// Three lines of a part that failed: which tests, how the first of them is run alone, and where all is that it printed.
pub fn lines(done: &Done) -> String {
    let part = &done.part;
    let tests = tests(part, &printed(done));
    let names: Vec<&str> = tests.iter().take(NAMED).map(|test| test.name.as_str()).collect();
    let more = match tests.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let alone = tests.first().map_or_else(|| format!("cargo xtask test {part}"), |test| test.alone.clone());
    let mut text = format!("{part} FAILED: {}{more}\n  alone: {alone}", names.join(", "));
    if let Some(log) = &done.log {
        let log = log.strip_prefix(shell::root()).unwrap_or(log);
        text += &format!("\n  all that it printed: {}", log.display());
    }
    text
}

/// What a part printed, as far as it was kept.
pub fn printed(done: &Done) -> String {
    let read = |log| std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    done.log.as_ref().and_then(|log| read(log).ok()).unwrap_or_default()
}

/// The tests that failed, by the lines with which the runner of a part names them.
fn tests(part: &str, text: &str) -> Vec<Failed> {
    if part == "rust" {
        return rust(text);
    }
    let after =
        |start: &str| text.lines().filter_map(move |line| line.strip_prefix(start)).collect::<Vec<_>>();
    match part {
        "vm" => after("not ok - ").into_iter().map(guest).collect(),
        "fuzz" => after("fuzz ").into_iter().filter_map(target).collect(),
        _ => ["FAILED ", "ERROR "].iter().flat_map(|start| after(start)).map(python).collect(),
    }
}

/// `cargo test` names the tests of a program that failed, and then the program.
fn rust(text: &str) -> Vec<Failed> {
    let mut failed = Vec::new();
    let mut names = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED")) {
            names.push(name);
        } else if let Some(rest) = line.strip_prefix("error: test failed, to rerun pass `") {
            let program = rest.trim_end_matches('`');
            failed.extend(names.drain(..).map(|name| {
                // A documentation test has spaces in its name, and the number of a line.
                let name = name.split(" - ").next().unwrap_or(name).to_owned();
                let alone = format!("cargo test --all-features {program} -- {name}");
                Failed { name, alone }
            }));
        } else if line.starts_with("error: could not compile") {
            failed.push(Failed {
                name: line.to_owned(),
                alone: "cargo test --workspace --all-features --no-run".into(),
            });
        }
    }
    failed
}

/// pytest: `tests/x/test_y.py::test_z - why`.
fn python(line: &str) -> Failed {
    let name = line.split(" - ").next().unwrap_or(line).to_owned();
    Failed { alone: format!("cargo xtask test '{name}'"), name }
}

/// A check of a guest's script: `script: what`.
fn guest(line: &str) -> Failed {
    let script = line.split(':').next().unwrap_or(line);
    Failed { name: line.trim_end().to_owned(), alone: format!("cargo xtask vm {script}") }
}

/// `target: FAILED`.
fn target(line: &str) -> Option<Failed> {
    let name = line.strip_suffix(": FAILED")?;
    Some(Failed { name: name.to_owned(), alone: format!("cargo xtask fuzz {name} --seconds 5") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(part: &str, text: &str) -> Vec<String> {
        tests(part, text).into_iter().map(|test| test.alone).collect()
    }

    #[test]
    fn a_failed_test_of_every_runner_can_be_run_alone() {
        let text = "test a::b ... ok\ntest c ... FAILED\nerror: test failed, to rerun pass `-p khz-robot --test launch`\n\
                    test crates/rt/src/lib.rs - now (line 3) ... FAILED\nerror: test failed, to rerun pass `--doc`\n";
        let expected = [
            "cargo test --all-features -p khz-robot --test launch -- c",
            "cargo test --all-features --doc -- crates/rt/src/lib.rs",
        ];
        assert_eq!(alone("rust", text), expected);
        let text = "FAILED tests/x/test_y.py::test_z[a b] - assert 1 == 2\nERROR tests/x/test_w.py\n";
        let expected =
            ["cargo xtask test 'tests/x/test_y.py::test_z[a b]'", "cargo xtask test 'tests/x/test_w.py'"];
        assert_eq!(alone("tests/x", text), expected);
        assert_eq!(alone("vm", "ok - can: up\nnot ok - can: lost\r\n"), ["cargo xtask vm can"]);
        assert_eq!(
            alone("fuzz", "fuzz tlog: ok\nfuzz frame: FAILED\n"),
            ["cargo xtask fuzz frame --seconds 5"]
        );
    }

    #[test]
    fn what_does_not_compile_is_named() {
        let failed = rust("error: could not compile `khz-rt` (lib) due to 1 previous error\n");
        assert_eq!(failed[0].name, "error: could not compile `khz-rt` (lib) due to 1 previous error");
    }
}
