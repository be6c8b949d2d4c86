//! Text for people: results on stdout, everything else on stderr.
//!
//! Names in logs, answers of devices and names of files come from outside, and a terminal obeys what they contain. So
//! everything printed goes through [`Printable`]. Nothing here panics when the output is not read: a closed pipe, a full disk or a
//! terminal that is gone must not end a command that has a robot to bring down.

use super::colour;
use anyhow::{Context, Result};
use khz_page::Level;
pub use khz_view::text::{Printable, aligned, name, shortened};
use khz_view::text::{plain, wrapped};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;

/// Writes results to stdout; a reader that has seen enough (`| head`) is no error.
///
/// # Errors
/// If stdout cannot be written.
pub fn show(text: &str) -> Result<()> {
    match write(&mut io::stdout().lock(), text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Writes results for people to stdout, as [`show`]: a terminal gets lines as wide as it is, broken between words.
///
/// # Errors
/// If stdout cannot be written.
pub fn show_text(text: &str) -> Result<()> {
    show(&laid_out(text, io::stdout()))
}

/// As [`show_text`], of a text that begins with a verdict, which gets the colour of its level.
///
/// # Errors
/// If stdout cannot be written.
pub fn show_judged(level: Level, text: &str) -> Result<()> {
    let (verdict, rest) = text.split_once('\n').unwrap_or((text, ""));
    let mut out = io::stdout().lock();
    if !colour::is_wanted(&out) {
        drop(out);
        return show_text(text);
    }
    let verdict = colour::judged(level, &laid_out(&plain(verdict), &out));
    match out.write_all(verdict.as_bytes()) {
        Ok(()) => show_text(rest),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(error).context("cannot write to standard output"),
    }
}

/// In lines as wide as the terminal. What will be escaped is escaped before it is measured.
fn laid_out(text: &str, terminal: impl AsFd) -> String {
    match khz_rt::columns(terminal) {
        Some(columns) => wrapped(&plain(text), columns),
        None => text.to_owned(),
    }
}

/// Writes to stderr, as far as it can be written, in lines as wide as the terminal.
pub fn print(text: &str) {
    let mut out = io::stderr().lock();
    let text = laid_out(text, &out);
    // A closed stderr cannot be reported.
    let _ = write(&mut out, &text);
}

/// Writes a whole text, with colours where they are wanted.
fn write(out: &mut impl anstream::stream::RawStream, text: &str) -> io::Result<()> {
    if !colour::is_wanted(out) {
        Printable::new(&mut *out).write_all(text.as_bytes())?;
        return out.flush();
    }
    let mut printable = Vec::new();
    Printable::new(&mut printable).write_all(text.as_bytes())?;
    out.write_all(colour::paint(&String::from_utf8_lossy(&printable)).as_bytes())?;
    out.flush()
}

/// Writes a line to stderr, as far as it can be written.
pub fn print_line(text: impl std::fmt::Display) {
    print(&format!("{text}\n"));
}

/// Reports an error and its causes on stderr.
pub fn complain(error: &anyhow::Error) {
    print_line(complaint(error));
}

/// An error and its causes, as they are reported.
pub fn complaint(error: &anyhow::Error) -> String {
    let text = joined(error);
    // The problems of a robot file are labelled as errors and warnings already.
    let is_labelled = ["error: ", "warning: "].iter().any(|prefix| text.starts_with(prefix));
    format!("{}{text}", if is_labelled { "" } else { "error: " })
}

/// An error and its causes, without those that are in its own text: some libraries put them there, and others do not.
fn joined(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Reports on stderr what went wrong and ended nothing.
pub fn warn(text: impl std::fmt::Display) {
    print_line(format_args!("warning: {text}"));
}

/// Prints a note on stderr.
pub fn note(text: impl std::fmt::Display) {
    print_line(format_args!("note: {text}"));
}

/// Writes our own text, which moves the cursor, to stderr: lines that show progress. As [`print`] in all else.
pub fn show_progress(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_reported_once() {
        let cause = || io::Error::other("disk full");
        // Some errors have their cause in their own text, and others do not.
        let error = anyhow::Error::new(khz_tlog::Error::Io { offset: 7, source: cause() }).context("a.tlog");
        assert_eq!(joined(&error), "a.tlog: byte 7: disk full");
        assert_eq!(joined(&anyhow::Error::new(cause()).context("cannot write")), "cannot write: disk full");
    }
}
