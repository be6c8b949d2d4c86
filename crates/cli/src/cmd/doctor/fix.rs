//! `khz doctor --fix`: runs the commands that fix what was found, each after a yes.

use crate::cmd::{show, warn};
use anyhow::{Context, Result, bail};
use khz_measure::doctor::{Finding, Level};
use std::io::{self, BufRead, IsTerminal};
use std::process::{Command, ExitCode};

/// Shows the commands and runs each that is wanted. Exit code 1 if one failed.
///
/// # Errors
/// Without root, or without a terminal to ask on.
pub fn run(findings: &[Finding], yes: bool) -> Result<ExitCode> {
    let fixes: Vec<(&Finding, &str)> =
        findings.iter().filter_map(|finding| Some((finding, command(finding)?))).collect();
    if fixes.is_empty() {
        show("nothing that a command fixes by itself\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    if !rustix::process::geteuid().is_root() {
        bail!("fixing needs root: sudo {} doctor --fix{}", program(), if yes { " --yes" } else { "" });
    }
    if !yes && !io::stdin().is_terminal() {
        bail!("there is no terminal to ask on: give --yes to run every command");
    }
    let mut failed = false;
    for (finding, command) in fixes {
        let note = finding.fix.as_ref().and_then(|fix| fix.note.as_ref());
        let note = note.map(|note| format!("  ({note})\n")).unwrap_or_default();
        show(&format!("{}\n  {command}\n{note}", finding.what))?;
        if yes || is_wanted()? {
            failed |= !succeeds(command)?;
        }
    }
    Ok(ExitCode::from(u8::from(failed)))
}

/// How to fix a finding by a command alone.
fn command(finding: &Finding) -> Option<&str> {
    finding.fix.as_ref()?.command.as_deref().filter(|_| finding.level > Level::Good)
}

/// A line on what can be fixed.
pub fn hint(findings: &[Finding]) -> String {
    match findings.iter().filter_map(command).count() {
        0 => String::new(),
        1 => "\n`khz doctor --fix` runs the command for 1 of them".into(),
        count => format!("\n`khz doctor --fix` runs the commands for {count} of them"),
    }
}

fn is_wanted() -> Result<bool> {
    show("Run it? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Runs a command of ours in a shell, as its user would.
fn succeeds(command: &str) -> Result<bool> {
    let status = Command::new("sh").args(["-c", command]).status().context("cannot run `sh`")?;
    if !status.success() {
        warn(format_args!("this failed ({status}): {command}"));
    }
    Ok(status.success())
}

fn program() -> String {
    std::env::current_exe().map_or_else(|_| "khz".into(), |path| khz_page::for_shell(&path.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_measure::doctor::Fix;

    fn finding(level: Level, fix: Fix) -> Finding {
        Finding { topic: "cpu", level, what: String::new(), why: "", fix: Some(fix) }
    }

    #[test]
    fn only_what_a_command_fixes_alone_is_run() {
        let governor = "echo performance | sudo tee /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
        let (alone, note) = (Fix::command(governor), Some("and take it out of /etc/fstab".to_owned()));
        let advice = Fix { command: None, note: note.clone(), root: true };
        assert_eq!(command(&finding(Level::Note, alone.clone())), Some(governor));
        assert_eq!(command(&finding(Level::Note, Fix { note, ..alone.clone() })), Some(governor));
        assert_eq!(command(&finding(Level::Note, advice)), None);
        assert_eq!(command(&finding(Level::Good, alone.clone())), None);
        assert!(hint(&[finding(Level::Note, alone)]).contains("for 1 of them"));
    }
}
