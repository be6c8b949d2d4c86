//! Text for terminals. Names in logs, answers of devices, what comes from a network and names of files come from outside, and a
//! terminal obeys what they contain.

mod table;

use std::borrow::Cow;
use std::io::{self, Write};

/// Characters of a name in a table for people.
const SHOWN: usize = 64;
/// The widest column that is aligned: a text from outside may be longer than the formatter allows (65535).
const WIDEST: usize = 256;

/// A name from outside on one line: line breaks and tabs are escaped, too, so that it cannot pass for a line of ours.
pub fn name(text: &str) -> Cow<'_, str> {
    match text.contains(['\n', '\t']) {
        true => text.replace('\n', "\\u000a").replace('\t', "\\u0009").into(),
        false => text.into(),
    }
}

/// Rows with columns of equal width.
pub fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).min(WIDEST);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("  {}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// A name from outside on one line, as [`name`], and cut where it would make a table too wide to read.
pub fn shortened(text: &str) -> Cow<'_, str> {
    let name = name(text);
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &name[..end]).into(),
        None => name,
    }
}

/// A text whose lines fit `columns`, broken between words. A line goes on under its last column if it has several, such as a text beside a
/// label, and otherwise a little further in. A table that is too wide is laid out anew: its columns as narrow as they can be, and those
/// that do not fit on a second line. What is to be copied stays in one piece: a command in backquotes, a line that is a `sudo`
/// command, and lines quoted from a file.
pub fn wrapped(text: &str, columns: usize) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (mut rest, mut wrapped) = (&*lines, String::new());
    while !rest.is_empty() {
        let rows = rest.iter().take_while(|line| table::is_row(line) && !is_copied(line)).count();
        let (block, after) = rest.split_at(rows.max(1));
        match table::laid_out(block, columns) {
            Some(table) => wrapped.push_str(&table),
            None => wrapped.extend(block.iter().map(|line| wrapped_line(line, columns))),
        }
        rest = after;
    }
    wrapped
}

/// How far in a table's row goes on.
const TABLE: usize = 4;

fn wrapped_line(line: &str, columns: usize) -> Cow<'_, str> {
    if line.trim_end().chars().count() <= columns || is_copied(line) {
        return line.into();
    }
    let indent = continued_at(line, columns);
    let (mut wrapped, mut column) = (String::new(), 0);
    for (gap, word) in words(line.trim_end()) {
        let [gap_len, word_len] = [gap, word].map(|text| text.chars().count());
        let is_full = column > indent && column + gap_len + word_len > columns;
        if is_full && gap_len >= 2 {
            // The columns of a table stay under each other.
            let column_at = TABLE + gap_len.min(columns.saturating_sub(TABLE + word_len));
            wrapped = format!("{wrapped}\n{:column_at$}{word}", "");
            column = column_at + word_len;
        } else if column == 0 {
            // A row of a table may begin far to the right.
            column = gap_len.min(columns.saturating_sub(word_len)) + word_len;
            wrapped = format!("{word:>column$}");
        } else if is_full {
            // A word as long as half a line begins further to the left.
            let indent = indent.min(columns.saturating_sub(word_len));
            wrapped = format!("{wrapped}\n{:indent$}{word}", "");
            column = indent + word_len;
        } else {
            wrapped = wrapped + gap + word;
            column += gap_len + word_len;
        }
    }
    (wrapped + &line[line.trim_end().len()..]).into()
}

/// A command, or a line quoted from a file with its number before a bar.
fn is_copied(line: &str) -> bool {
    let start = line.trim_start().trim_start_matches("→ ");
    let number = start.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    start.starts_with("sudo ") || start.starts_with("--> ") || number.starts_with("| ")
}

/// Where a line goes on: at its last column within the left half, or two characters further in than it begins.
fn continued_at(line: &str, columns: usize) -> usize {
    let begins = line.chars().take_while(|c| *c == ' ').count();
    let (mut column, mut spaces, mut at) = (begins, 0, None);
    for c in line.chars().skip(begins) {
        if c != ' ' && spaces >= 2 && column <= columns / 2 {
            at = Some(column);
        }
        spaces = if c == ' ' { spaces + 1 } else { 0 };
        column += 1;
    }
    at.unwrap_or(begins + 2).min(columns / 2)
}

/// The words of a line, each with the spaces before it. What is in backquotes is one word, and a number with its unit.
fn words(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let gap = rest.len() - rest.trim_start_matches(' ').len();
        let mut is_quoted = false;
        let end = rest[gap..].find(|c: char| {
            is_quoted ^= c == '`';
            c == ' ' && !is_quoted
        });
        let end = end.map_or(rest.len(), |end| gap + end);
        let end = end + unit(&rest[..end], &rest[end..]);
        let (before, after) = rest.split_at(end);
        rest = after;
        (!before.is_empty()).then(|| before.split_at(gap))
    })
}

/// How much of what follows a number is its unit: a short word behind one space.
fn unit(number: &str, after: &str) -> usize {
    let word = after.strip_prefix(' ').filter(|_| number.ends_with(|c: char| c.is_ascii_digit()));
    let word = word.and_then(|word| word.split(' ').next());
    let is_unit = |word: &&str| {
        (1..=4).contains(&word.chars().count()) && !word.starts_with(|c: char| c.is_ascii_digit())
    };
    word.filter(is_unit).map_or(0, |unit| 1 + unit.len())
}

/// Escapes what a terminal would obey: control characters but for line breaks and tabs, and those that change the
/// direction of writing. They become `\u001b`, which is what JSON writes, so JSON stays JSON.
pub struct Printable<W> {
    out: W,
    /// The beginning of a character that a write cut in two.
    held: Vec<u8>,
}

/// A text with all of this escaped.
pub fn plain(text: &str) -> String {
    let mut printable = Printable::new(Vec::new());
    // Nothing is written but memory, and a text ends with a whole character.
    let _ = printable.write_all(text.as_bytes());
    String::from_utf8_lossy(&printable.out).into_owned()
}

impl<W: Write> Printable<W> {
    /// Escapes on the way to `out`.
    pub fn new(out: W) -> Self {
        Self { out, held: Vec::new() }
    }
}

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.held.is_empty() && bytes.iter().all(|&byte| is_plain(byte)) {
            self.out.write_all(bytes)?;
            return Ok(bytes.len());
        }
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        let mut escaped = Vec::with_capacity(all.len() + 16);
        let mut rest = all.as_slice();
        while let [first, ..] = *rest {
            match special(rest) {
                Special::No => {
                    escaped.push(first);
                    rest = &rest[1..];
                }
                Special::Cut => break,
                Special::Character(code, len) => {
                    escaped.extend_from_slice(format!("\\u{code:04x}").as_bytes());
                    rest = &rest[len..];
                }
            }
        }
        self.held = rest.to_vec();
        self.out.write_all(&escaped)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A byte that neither is nor begins anything special.
const fn is_plain(byte: u8) -> bool {
    !(byte < b' ' && byte != b'\n' && byte != b'\t' || matches!(byte, 0x7f | 0xc2 | 0xd8 | 0xe2))
}

/// What UTF-8 text begins with.
enum Special {
    No,
    /// Perhaps something special; the text ends too early.
    Cut,
    /// Its number, and its length in bytes.
    Character(u32, usize),
}

fn special(text: &[u8]) -> Special {
    match *text {
        [b'\n' | b'\t', ..] => Special::No,
        [byte @ (..b' ' | 0x7f), ..] => Special::Character(byte.into(), 1),
        [0xc2] | [0xd8] | [0xe2] | [0xe2, 0x80 | 0x81] => Special::Cut,
        // The controls beyond ASCII.
        [0xc2, byte @ 0x80..=0x9f, ..] => Special::Character(byte.into(), 2),
        // Marks that change the direction of writing, and the separators of lines and paragraphs.
        [0xd8, 0x9c, ..] => Special::Character(0x061c, 2),
        [0xe2, 0x80, byte @ (0x8e | 0x8f | 0xa8..=0xae), ..] => {
            Special::Character(0x1f80 + u32::from(byte), 3)
        }
        [0xe2, 0x81, byte @ 0xa6..=0xa9, ..] => Special::Character(0x1fc0 + u32::from(byte), 3),
        _ => Special::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same whether it is written at once or byte by byte.
    fn printable(text: &str) -> String {
        let mut at_once = Printable::new(Vec::new());
        at_once.write_all(text.as_bytes()).unwrap();
        let mut bytes = Printable::new(Vec::new());
        text.as_bytes().iter().for_each(|byte| bytes.write_all(&[*byte]).unwrap());
        assert_eq!(at_once.out, bytes.out);
        String::from_utf8(at_once.out).unwrap()
    }

    #[test]
    fn what_a_terminal_obeys_is_escaped() {
        assert_eq!(printable("a\x1b[2Jb\x07\r\x7f\0"), "a\\u001b[2Jb\\u0007\\u000d\\u007f\\u0000");
        assert_eq!(printable("\u{9b}31m\u{80}\u{9f}"), "\\u009b31m\\u0080\\u009f");
        let turns = "\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}";
        let escaped = r"\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069";
        assert_eq!(printable(turns), escaped);
    }

    #[test]
    fn text_stays_as_it_is() {
        let text = "12.3 µs · 5 °C – größer … ∞ Ø\u{a0}س日本語 🤖\n\ttab";
        assert_eq!(printable(text), text);
    }

    #[test]
    fn every_character_that_controls_is_found() {
        for character in (0..=0x2fff).filter_map(char::from_u32).filter(|c| c.is_control()) {
            let kept = printable(&character.to_string()) == character.to_string();
            assert_eq!(kept, "\n\t".contains(character), "{character:?}");
        }
    }

    #[test]
    fn a_table_has_room_for_any_text() {
        let rows = [["a".repeat(70_000), "b".into()], ["c".into(), "d".into()]];
        let text = aligned(&rows);
        assert!(text.ends_with(&format!("  c{}  d\n", " ".repeat(WIDEST - 1))));
        assert_eq!(plain("a\u{1b}[2J\u{202e}"), "a\\u001b[2J\\u202e");
    }

    /// They were cut in the middle of words at 80 columns.
    #[test]
    fn lines_are_broken_between_words_and_commands_are_not() {
        let verdict = "Held 500 Hz, but 7 replies were missed; check power, wiring and ids with `khz bus scan ./my robot.toml`.\n";
        let expected = "Held 500 Hz, but 7 replies were missed;\n  check power, wiring and ids with\n  `khz bus scan ./my robot.toml`.\n";
        assert_eq!(wrapped(verdict, 40), expected);
        assert_eq!(wrapped(verdict, 200), verdict);
        let row = "warning  kernel  with preemption model dynamic, a wake-up waits\nnote\n";
        let expected = "warning  kernel  with preemption model\n                 dynamic, a wake-up\n                 waits\nnote\n";
        assert_eq!(wrapped(row, 40), expected);
        for whole in [
            "    → sudo sysctl net.core.busy_poll=50 net.core.busy_read=50",
            " 12 | name = \"a b c d e f g h i j k l m n o p q\"",
        ] {
            assert_eq!(wrapped(whole, 40), whole);
        }
        assert_eq!(wrapped(&"x".repeat(50), 40), "x".repeat(50));
        let row =
            |cells: [&str; 4]| format!("  {:<4}{:>7}{:>9}{:>9}\n", cells[0], cells[1], cells[2], cells[3]);
        let table = row(["", "mean", "99.9 %", "max"]) + &row(["wake", "1 ms", "12 µs", "366 ms"]);
        let expected = "        mean  99.9 %\n         max\n  wake  1 ms   12 µs\n      366 ms\n";
        assert_eq!(wrapped(&table, 24), expected);
        assert_eq!(
            wrapped("  command                      287 µs\n", 20),
            "  command\n              287 µs\n"
        );
        assert_eq!(wrapped("p50 462 µs p90 86.1 ms max 1 s", 14), "p50 462 µs p90\n  86.1 ms max\n  1 s");
        for columns in 0..60 {
            let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(squeezed(&wrapped(verdict, columns)), squeezed(verdict));
        }
    }

    /// A terminal cut the names of servos in two, because their rows began far to the right.
    #[test]
    fn no_word_of_a_table_is_cut() {
        let rows = [
            ["bus", "link", "servo", "position"],
            ["front_left", "can_fd", "front_left_hip", "-0.8"],
            ["", "", "front_left_thigh", "1"],
        ];
        let table = aligned(&rows.map(|row| row.map(str::to_owned)));
        for columns in 24..80 {
            let lines = wrapped(&table, columns);
            assert!(lines.lines().all(|line| line.chars().count() <= columns), "{columns}\n{lines}");
            for word in ["front_left_thigh", "front_left_hip", "position"] {
                assert!(lines.contains(word), "{columns}\n{lines}");
            }
        }
        let expected = "  bus         link\n      servo             position\n  front_left  can_fd\n      front_left_hip    -0.8\n      \
                    front_left_thigh  1\n";
        assert_eq!(wrapped(&table, 34), expected);
        assert_eq!(wrapped("            word\n", 8), "    word\n");
    }

    #[test]
    fn what_is_beside_a_long_text_goes_below_it() {
        let table = "  twice as many buses                     gains  295 µs  2133 Hz\n  \
                       servos that answer twice as fast (all)  gains   37 µs  1377 Hz\n";
        let expected = "  twice as many buses\n      gains  295 µs  2133 Hz\n  servos that answer twice as\n    fast (all)\n      gains   37 µs  1377 Hz\n";
        assert_eq!(wrapped(table, 29), expected);
    }

    #[test]
    fn figures_stay_below_the_names_of_their_columns() {
        let row = |name: &str, numbers: [&str; 4]| {
            format!("  {name:<12}{}\n", numbers.map(|number| format!("{number:>10}")).concat())
        };
        let table = row("", ["min", "mean", "p99.9", "max"])
            + &row("wake latency", ["75.2 µs", "334 µs", "14.5 ms", "14.5 ms"])
            + &row("period", ["511 µs", "1.21 ms", "15.4 ms", "15.4 ms"]);
        let expected = "                    min     mean\n        p99.9      max\n  wake latency  75.2 µs   334 µs\n      14.5 ms  14.5 ms\n  \
                    period         511 µs  1.21 ms\n      15.4 ms  15.4 ms\n";
        assert_eq!(wrapped(&table, 36), expected);
    }

    #[test]
    fn a_name_is_one_line() {
        assert_eq!(name("imu"), "imu");
        assert_eq!(name("a\nb\tc"), r"a\u000ab\u0009c");
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        assert_eq!(shortened("imu"), "imu");
        assert_eq!(shortened(&"µ".repeat(64)), "µ".repeat(64));
        assert_eq!(shortened(&"µ".repeat(65)), "µ".repeat(64) + "…");
    }

    #[test]
    fn json_stays_json() {
        let value = serde_json::json!({ "name": "\u{9b}31m\u{202e}\u{1b}[0m" });
        let printed = printable(&value.to_string());
        assert!(printed.is_ascii());
        assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), value);
    }
}
