//! Colours for people: what is worst stands out. Text comes here last, when what a terminal would obey is escaped.
//!
//! A terminal gets them unless `NO_COLOR` is set, a pipe only with `CLICOLOR_FORCE`.

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use khz_page::Level;
use khz_run::figures::{COUNTS, LOST_PERIODS};
use std::borrow::Cow;

const BAD: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const NOTE: Style = AnsiColor::Cyan.on_default();
const GOOD: Style = AnsiColor::Green.on_default();

/// What a line begins with, and how that looks.
const BEGINNINGS: [(&str, Style); 11] = [
    ("error:", BAD),
    ("BAD ", BAD),
    ("VIOLATION ", BAD),
    ("violated: ", BAD),
    ("warning:", WARNING),
    ("WARNING ", WARNING),
    ("note:", NOTE),
    ("note ", NOTE),
    ("good ", GOOD),
    ("fit for 1 kHz", GOOD),
    ("not fit for 1 kHz", BAD),
];

/// Whether what is written to `stream` may have colours.
pub fn is_wanted(stream: &impl RawStream) -> bool {
    AutoStream::choice(stream) != ColorChoice::Never
}

/// A verdict in the colour of its level, row by row.
pub fn judged(level: Level, verdict: &str) -> String {
    let style = match level {
        Level::Good => GOOD.bold(),
        Level::Note => NOTE.bold(),
        Level::Warning => WARNING,
        Level::Bad => BAD,
    };
    verdict.lines().map(|line| format!("{style}{line}{style:#}\n")).collect()
}

/// The text with its colours.
pub fn paint(text: &str) -> String {
    text.split_inclusive('\n').map(paint_line).collect()
}

fn paint_line(line: &str) -> Cow<'_, str> {
    let beginning = BEGINNINGS.iter().find(|(beginning, _)| line.starts_with(beginning));
    let (length, style) = match beginning {
        Some((beginning, style)) => (beginning.len(), *style),
        None => match wrong_count(line) {
            Some(length) => (length, WARNING),
            None => return line.into(),
        },
    };
    let (painted, rest) = line.split_at(length);
    format!("{style}{painted}{style:#}{rest}").into()
}

/// The length of label and count, if the line has a count that should be 0.
fn wrong_count(line: &str) -> Option<usize> {
    let labels = std::iter::once(LOST_PERIODS).chain(COUNTS.iter().map(|count| count.label));
    let mut rest = labels.filter_map(|label| line.strip_prefix(label));
    let count = rest.find(|rest| rest.starts_with(' '))?.trim_start();
    let digits = count.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(count.len());
    (digits > 0 && &count[..digits] != "0").then(|| line.len() - count.len() + digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wrong_stands_out() {
        assert_eq!(paint("good     cpu  fine\nplain\n"), "\x1b[32mgood \x1b[0m    cpu  fine\nplain\n");
        assert_eq!(paint("error: x"), "\x1b[1m\x1b[31merror:\x1b[0m x");
        assert_eq!(
            paint("missed replies    1,203    (5"),
            "\x1b[1m\x1b[33mmissed replies    1,203\x1b[0m    (5"
        );
        for plain in ["missed replies    0    (0", "overruns", "an error: x", "notes"] {
            assert_eq!(paint(plain), plain);
        }
    }
}
