//! Instructions of a tick: counted by callgrind, held against the table in the repository.
//!
//! The ticks are those of `crates/robot/examples/instructions.rs`, in virtual time. What would make the counts vary is pinned: the
//! environment, and with it the stack, is empty, and libc takes the same routines on every x86-64 processor.

use crate::tally::Tally;
use crate::test::Outcome;
use crate::{debian, dist, shell};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Its page.
const SOURCE: &str = "crates/robot/examples/instructions.rs";
/// The table: row, instructions of a tick in the loop, in the controller, in the emulator.
pub const TABLE: &str = "tests/instructions.tsv";
/// Ticks of a row that are counted, as in [`SOURCE`].
const TICKS: u64 = 50;
/// A row has grown if a tick takes this much more than in the table.
const GROWN: f64 = 1.03;
/// Has libc take what every x86-64 processor can do.
const PLAIN: &str =
    "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-AVX_Fast_Unaligned_Load,-FMA,-FMA4,-ERMS,-FSRM";
/// Rows of every test run; `cargo xtask nightly` counts all.
const GATED: [&str; 7] = [
    "quadruped-12+recorder",
    "moteus-12+recorder",
    "moteus-24+recorder",
    "damiao-12+recorder",
    "robstride-12+recorder",
    "cubemars-12+recorder",
    "moteus-12+recorder+viewer",
];

/// `cargo xtask bench instructions [--write] [--cache-sim] [ROW…]`: counts rows, all if none is named; true if none has grown.
///
/// # Errors
/// If valgrind is missing, the ticks cannot be built, or a row does not exist.
pub fn bench(words: &[&str]) -> Result<bool> {
    let (flags, rows): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with("--"));
    if let Some(flag) = flags.iter().find(|flag| !["--write", "--cache-sim"].contains(flag)) {
        bail!("no such option: {flag}");
    }
    provide().map_err(anyhow::Error::msg)?;
    let folder = count(&rows, flags.contains(&"--cache-sim"))?;
    if flags.contains(&"--cache-sim") {
        println!("by function: callgrind_annotate {}", folder.join("ticks.2").display());
        return Ok(true);
    }
    let counted = read(&folder, &rows)?;
    let verdict = compare(&table()?, &counted);
    print!("{}", verdict.text);
    if flags.contains(&"--write") {
        write(counted)?;
        return Ok(true);
    }
    Ok(verdict.failed == 0)
}

/// The part of the tests: the rows of [`GATED`].
///
/// # Errors
/// If the ticks cannot be built or counted.
pub fn gated() -> Result<Outcome> {
    if let Err(why) = provide() {
        return Ok(Outcome::NotRun(why));
    }
    let Verdict { text, passed, failed } = compare(&table()?, &read(&count(&GATED, false)?, &GATED)?);
    print!("{text}");
    Ok(Outcome::Ran(Tally { passed, failed, skipped: 0 }))
}

fn provide() -> Result<(), String> {
    debian::provide(SOURCE)
}

/// Instructions of a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    /// Of the loop's thread, without the next two.
    own: u64,
    controller: u64,
    emulator: u64,
}

/// Runs the ticks of these rows under callgrind; the folder with two dumps for each, one of before and one of its ticks.
fn count(rows: &[&str], with_caches: bool) -> Result<PathBuf> {
    let program = dist::example(dist::QUICK, "khz-robot", "instructions")?;
    let folder = shell::target().join("instructions");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).context("cannot make the folder of the counts")?;
    let mut command = Command::new(shell::which("valgrind").context("valgrind is not installed")?);
    command.env_clear().env("GLIBC_TUNABLES", PLAIN);
    command.args([
        "--tool=callgrind",
        "--collect-atstart=no",
        "--compress-strings=no",
        "--compress-pos=no",
        "--quiet",
    ]);
    command.args(["--toggle-collect=instructions::counted*", "--dump-before=instructions::boundary*"]);
    if with_caches {
        command.args(["--cache-sim=yes", "--branch-sim=yes"]);
    }
    command.arg(format!("--callgrind-out-file={}", folder.join("ticks").display()));
    command.arg(program).args(rows);
    std::fs::write(folder.join("rows"), shell::output(&mut command)?).context("cannot write the rows")?;
    Ok(folder)
}

/// The counts of all rows that were run, by name.
fn read(folder: &Path, wanted: &[&str]) -> Result<BTreeMap<String, Count>> {
    let rows = std::fs::read_to_string(folder.join("rows"))?;
    if let Some(row) = wanted.iter().find(|wanted| !rows.lines().any(|row| row == **wanted)) {
        bail!("no row is called `{row}`: {SOURCE} has them");
    }
    let count = |(index, row): (usize, &str)| {
        let file = folder.join(format!("ticks.{}", 2 * index + 2));
        let dump = std::fs::read_to_string(&file).with_context(|| format!("no counts of {row}"))?;
        Ok((row.to_owned(), of_dump(&dump).with_context(|| format!("no totals in {}", file.display()))?))
    };
    rows.lines().enumerate().map(count).collect()
}

/// The instructions of a tick in a dump: all of it, less what the methods of the two types took that stand for others.
fn of_dump(dump: &str) -> Option<Count> {
    let totals: u64 = dump.lines().find_map(|line| line.strip_prefix("totals: "))?.trim().parse().ok()?;
    let (mut within, mut sums) = (None, [0; 2]);
    for line in dump.lines() {
        if let Some(function) = line.strip_prefix("fn=") {
            within = ["<instructions::Users as ", "<instructions::Apart as "]
                .iter()
                .position(|apart| function.starts_with(apart));
        } else if let Some(sum) = within.and_then(|apart| sums.get_mut(apart)) {
            // A line's own cost, or behind `calls=` that of all a call did.
            let mut cells = line.split(' ');
            let is_cost = cells.next().is_some_and(|cell| cell.parse::<u64>().is_ok());
            *sum += cells.next().filter(|_| is_cost).and_then(|cell| cell.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    let [controller, emulator] = sums.map(|sum| sum / TICKS);
    Some(Count { own: (totals / TICKS).checked_sub(controller + emulator)?, controller, emulator })
}

/// How rows compare with the table.
struct Verdict {
    text: String,
    passed: u32,
    failed: u32,
}

fn compare(table: &BTreeMap<String, Count>, counted: &BTreeMap<String, Count>) -> Verdict {
    let mut verdict = Verdict { text: String::new(), passed: 0, failed: 0 };
    for (row, now) in counted {
        let was = table.get(row);
        let grown = |of: fn(&Count) -> u64| was.is_none_or(|was| of(now) as f64 > of(was) as f64 * GROWN);
        let is_grown = grown(|count| count.own) || grown(|count| count.emulator);
        let before = was.map_or("not in the table".to_owned(), |was| {
            format!("table {:>7} {:>7} {:>8}", was.own, was.controller, was.emulator)
        });
        let Count { own, controller, emulator } = now;
        let mark = if is_grown { "  GROWN" } else { "" };
        let _ = writeln!(
            verdict.text,
            "{row:<28} loop {own:>7} controller {controller:>6} emulator {emulator:>8}; {before}{mark}"
        );
        *if is_grown { &mut verdict.failed } else { &mut verdict.passed } += 1;
    }
    if verdict.failed > 0 {
        let _ = writeln!(
            verdict.text,
            "more than 3 % above {TABLE}: find out why (`callgrind_annotate target/instructions/ticks.N`), or write \
             it anew with `cargo xtask bench instructions --write` and say in the commit what it is spent on"
        );
    }
    verdict
}

fn table() -> Result<BTreeMap<String, Count>> {
    let text = std::fs::read_to_string(shell::root().join(TABLE)).unwrap_or_default();
    text.lines().skip(1).map(|line| row(line).with_context(|| format!("{TABLE}: no row: {line}"))).collect()
}

fn row(line: &str) -> Option<(String, Count)> {
    let mut cells = line.split('\t');
    let row = cells.next()?.to_owned();
    let mut number = || cells.next()?.parse().ok();
    Some((row, Count { own: number()?, controller: number()?, emulator: number()? }))
}

/// Writes these rows anew; others stay.
fn write(counted: BTreeMap<String, Count>) -> Result<()> {
    let mut all = table()?;
    all.extend(counted);
    let mut text = "row\tloop\tcontroller\temulator\n".to_owned();
    for (row, Count { own, controller, emulator }) in &all {
        let _ = writeln!(text, "{row}\t{own}\t{controller}\t{emulator}");
    }
    std::fs::write(shell::root().join(TABLE), text).with_context(|| format!("cannot write {TABLE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_is_split_at_the_types_that_stand_for_others() {
        let dump = "events: Ir\nfn=instructions::counted\n10 500\ncfn=<instructions::Apart as Link>::send'2\ncalls=2 0\n11 1000\n\n\
                    fn=<instructions::Apart as Link>::send'2\n20 100\ncfn=World::send\ncalls=2 0\n21 900\n\nfn=World::send\n5 900\n\n\
                    fn=<instructions::Users as Controller>::update\n7 50\n\ntotals: 6050\n";
        assert_eq!(of_dump(dump), Some(Count { own: 100, controller: 1, emulator: 20 }));
        assert_eq!(of_dump("fn=a\n1 1\n"), None);
    }

    #[test]
    fn a_row_that_is_not_in_the_table_or_has_grown_fails() {
        let rows = |own| BTreeMap::from([("a".to_owned(), Count { own, controller: 9, emulator: 1000 })]);
        let verdict = |table, now| compare(&table, &now);
        assert_eq!(verdict(rows(1000), rows(1030)).failed, 0);
        assert_eq!(verdict(rows(1000), rows(1031)).failed, 1);
        assert_eq!(verdict(BTreeMap::new(), rows(1)).failed, 1);
    }
}
