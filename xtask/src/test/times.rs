//! What each part took: the table in the repository, and which parts have grown since.

use super::done::{Done, Outcome};
use crate::shell;
use anyhow::{Context, Result};
use std::path::PathBuf;

/// The table: part, seconds it ran, seconds of processor time; of a fresh clone. A line before it has the day, the commit and the machine
/// of the last run that wrote it.
const TABLE: &str = "tests/times.tsv";

/// A part has grown if it took this much more processor time than in the table …
const GROWN: f64 = 1.2;

/// … and by so many seconds: short parts vary.
const AT_LEAST_S: u64 = 10;

/// Processor time of this process and of all processes it waited for, in seconds.
pub fn processor_s() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name in parentheses: utime, stime, cutime and cstime are fields 14 to 17 (proc(5)), in hundredths of a second.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(ticks / 100)
}

/// A line for each part that took a fifth more processor time than in the table. Processor time depends on the machine, too, so this
/// is a note and no failure.
pub fn grown(done: &[Done]) -> Vec<String> {
    let table = std::fs::read_to_string(file()).unwrap_or_default();
    let before = |part: &str| rows(&table).find(|(name, ..)| *name == part).map(|(_, _, cpu_s)| cpu_s);
    let line = |each: &Done| {
        let was = before(&each.part)?;
        let more = each.cpu_s as f64 > was as f64 * GROWN && each.cpu_s >= was + AT_LEAST_S;
        more.then(|| {
            format!("{} has grown: {} s of processor time, {was} s in {TABLE}", each.part, each.cpu_s)
        })
    };
    done.iter().filter_map(line).collect()
}

/// Writes the rows of these parts; those of others stay.
///
/// # Errors
/// If the table cannot be written.
pub fn write(done: &[Done]) -> Result<()> {
    let table = std::fs::read_to_string(file()).unwrap_or_default();
    let ran = |each: &&Done| matches!(each.outcome, Outcome::Ran(_));
    let mut lines: Vec<String> = done
        .iter()
        .filter(ran)
        .map(|each| format!("{}\t{}\t{}", each.part, each.wall_s, each.cpu_s))
        .collect();
    let others = rows(&table).filter(|(name, ..)| !done.iter().any(|each| each.part == *name));
    lines.extend(others.map(|(name, wall_s, cpu_s)| format!("{name}\t{wall_s}\t{cpu_s}")));
    lines.sort();
    std::fs::write(file(), format!("# {}\npart\twall_s\tcpu_s\n{}\n", origin()?, lines.join("\n")))
        .context("cannot write the table")
}

/// Day, commit and machine.
fn origin() -> Result<String> {
    let of = |program, words: &[&str]| shell::output(&mut shell::command(program, words));
    let (day, commit) = (of("date", &["--utc", "+%Y-%m-%d"])?, of("git", &["rev-parse", "--short", "HEAD"])?);
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let (model, cpus) = (model.map_or("unknown", |(_, model)| model), std::thread::available_parallelism()?);
    Ok(format!("{} at {}, {cpus} CPUs: {model}", day.trim(), commit.trim()))
}

/// How long a part ran, in seconds; one that is new counts as short.
pub fn wall_s(part: &str) -> u64 {
    let table = std::fs::read_to_string(file()).unwrap_or_default();
    rows(&table).find(|(name, ..)| *name == part).map_or(0, |(_, wall_s, _)| wall_s)
}

fn rows(table: &str) -> impl Iterator<Item = (&str, u64, u64)> {
    // The lines before the parts have no numbers.
    table.lines().filter_map(|line| {
        let mut cells = line.split('\t');
        Some((cells.next()?, cells.next()?.parse().ok()?, cells.next()?.parse().ok()?))
    })
}

fn file() -> PathBuf {
    shell::root().join(TABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read() {
        let rows: Vec<_> = rows(
            "# 2026-11-28 at 4338ff4b, 2 CPUs: one\npart\twall_s\tcpu_s\nrust\t300\t700\nvm\t200\t250\n",
        )
        .collect();
        assert_eq!(rows, [("rust", 300, 700), ("vm", 200, 250)]);
    }

    #[test]
    fn this_process_has_used_some_time() {
        assert!(processor_s().is_some());
    }
}
