//! `cargo xtask`: the project's chores, so that no command line has to be remembered.
//!
//! | chore | does |
//! |---|---|
//! | `test [PART…]` | installs what the tests need, builds, runs every test, ends in one plain line |
//! | `test quick` | lints and tests of what a branch changes |
//! | `nightly [PART…]` | what is slow by nature |
//! | `lints` | formatting, clippy, documentation, layers, tracked files, hazards |
//! | `layers` | fails on a dependency between our crates that does not point to a lower layer |
//! | `bench [NAME…]` | runs benches and their peers interleaved and prints ratios and figures |
//! | `performance` | writes the table of `docs/performance.md` from its results |
//! | `vm [NAME…]` | boots a real-time kernel in a virtual machine and runs the guest scripts in it |
//! | `fuzz [TARGET…]` | replays the corpus of each fuzz target, then fuzzes it for a while |
//! | `dist [PART…]` | builds everything a release has, in `dist/` |
//! | `wheel` | builds the Python package with the licences of everything in it, as `target/wheels/*.whl` |
//! | `site` | builds the pages of the documentation as a site in `target/site`; `--all`: the pictures, the Python package's pages and those of the Rust crates, too |
//! | `mutants [FILE…]` | whether a test fails for every change of one expression in the supervisor |
//! | `prove [NAME…]` | proofs that are too slow for every commit: exploration, loom, miri, mutants |
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)] // The chores print to the terminal that started them.

mod bench;
mod debian;
mod dist;
mod fleet;
mod fuzz;
mod hazards;
mod instructions;
mod layers;
mod licences;
mod lints;
mod mutants;
mod nightly;
mod package;
mod performance;
mod prove;
mod shell;
mod site;
mod tally;
mod test;
mod tracked;
mod venv;
mod vm;

use anyhow::{Result, bail};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask CHORE

  test [PART…]               install what the tests need, build, run every test (--list names the parts, --times
                             writes the table of their times); of Python also a file, or a test in one
  test quick [--base REV]    lints and tests of what changed since the branch left main (--list names them)
  nightly [PART…]            what is slow by nature (--list names the parts, and when each last passed)
  lints [--times]            formatting, clippy, documentation, layers, tracked files, hazards
  layers                     check that dependencies between our crates point downwards
  bench [NAME…] [--quick]    measure against peers (--list names the benches)
  performance                write the table of docs/performance.md from docs/performance.tsv
  vm [NAME…]                 run guest scripts on a real-time kernel with CAN (--list names them)
  fuzz [TARGET…] [--seconds N]  replay each corpus, then fuzz for N seconds (default 0)
  dist [PART…]               build everything a release has: dist/ (--help lists the parts)
  wheel                      build the Python package and the licences of what it contains: target/wheels/*.whl
  site [--all]               build the documentation as a site: target/site/index.html; its pages alone, or all
  mutants [FILE…]            try every change of one expression in the supervisor (reach guard watch mod)
  prove [NAME…]              proofs too slow for every commit (--list names them)";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match chore(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn chore(words: &[String]) -> Result<bool> {
    if let Some(out) = std::env::var_os(lints::AS_RUSTDOC) {
        return lints::document(words, &out);
    }
    let Some((chore, rest)) = words.split_first() else { bail!("which chore?\n{USAGE}") };
    match chore.as_str() {
        "test" => test::run(rest),
        "nightly" => nightly::run(rest),
        "lints" => lints::run(rest),
        "layers" => layers::run(),
        "bench" => bench::run(rest),
        "vm" => vm::run(rest),
        "fuzz" => fuzz::run(rest),
        "mutants" => mutants::run(rest),
        "performance" => performance::write(),
        "prove" => prove::run(rest),
        "dist" => dist::run(rest),
        "site" => site::build(rest),
        "wheel" => package::wheel("dist").map(|wheel| {
            println!("{}", wheel.display());
            true
        }),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(true)
        }
        other => bail!("no chore is called `{other}`\n{USAGE}"),
    }
}
