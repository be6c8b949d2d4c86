//! Counting the results that runners print at their end: cargo test, pytest, the guest's checks, and our own plain line.

use std::ops::AddAssign;

/// How many tests passed, failed and were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: u32,
    pub failed: u32,
    pub skipped: u32,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

impl Tally {
    /// The sum of every closing line in what a runner printed.
    pub fn of(text: &str) -> Self {
        let mut sum = Self { passed: tap(text, "ok - "), failed: tap(text, "not ok - "), skipped: 0 };
        text.lines().filter(|line| is_closing(line)).for_each(|line| sum += Self::of_line(line));
        sum
    }

    /// As [`Tally::of`]; a runner that failed without counting a failure counts as one.
    pub fn of_runner(succeeded: bool, text: &str) -> Self {
        let mut tally = Self::of(text);
        if !succeeded && tally.failed == 0 {
            tally.failed = 1;
        }
        tally
    }

    /// Whether any test ran.
    pub fn ran(&self) -> bool {
        self.passed + self.failed > 0
    }

    fn of_line(line: &str) -> Self {
        let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
        let mut tally = Self::default();
        for pair in words.windows(2) {
            let Ok(count) = pair[0].parse::<u32>() else { continue };
            match pair[1] {
                "passed" => tally.passed += count,
                "failed" | "error" | "errors" => tally.failed += count,
                "skipped" | "ignored" => tally.skipped += count,
                _ => {}
            }
        }
        tally
    }
}

/// Lines of the Test Anything Protocol that begin so; a serial console ends them in its own way.
fn tap(text: &str, start: &str) -> u32 {
    text.lines().filter(|line| line.starts_with(start)).count() as u32
}

/// `test result: …` (cargo test), `=== … in 1.2s ===` (pytest), `N passed, N failed…` (ours).
fn is_closing(line: &str) -> bool {
    let line = line.trim_end();
    let pytest = line.starts_with('=') && line.ends_with('=') && line.contains(" in ");
    let plain = line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(" passed, ");
    line.starts_with("test result: ") || pytest || plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_runner_s_closing_line_is_read() {
        let text = "\
running 3 tests
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
============ 1 failed, 5 passed, 2 skipped, 1 error in 12.34s ============
7 passed, 1 failed, 0 skipped
ok - can: candump saw it\r
not ok - can: it came back\r
";
        assert_eq!(Tally::of(text), Tally { passed: 17, failed: 6, skipped: 3 });
    }

    #[test]
    fn what_a_test_prints_is_not_counted() {
        let text = "cycle 3 passed 12 failed frames\n=== header ===\nhost: 5 passed\n";
        assert_eq!(Tally::of(text), Tally::default());
    }

    #[test]
    fn a_runner_that_breaks_without_a_count_is_a_failure() {
        assert_eq!(Tally::of_runner(false, "error: could not compile").failed, 1);
        assert_eq!(Tally::of_runner(true, "2 passed, 0 failed").failed, 0);
    }
}
