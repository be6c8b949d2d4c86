//! `khz doctor --fix`: runs the commands that fix what was found, each after a yes.

use crate::cmd::{show, warn};
use anyhow::{Context, Result, bail};
use khz_measure::doctor::{Finding, Level};
use std::io::{self, BufRead, IsTerminal};
use std::process::{Command, ExitCode};

/// Where a command begins that this can run; others are advice, or need a reboot or an editor.
const ROOT: &str = "sudo ";

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
        show(&format!("{}\n  {command}\n", finding.what))?;
        if yes || is_wanted()? {
            failed |= !succeeds(command)?;
        }
    }
    Ok(ExitCode::from(u8::from(failed)))
}

/// How to fix a finding by a command alone: one line that needs root and no reboot.
fn command(finding: &Finding) -> Option<&str> {
    let command = finding.mend.as_ref()?.command.as_str();
    let alone = command.starts_with(ROOT) && !command.contains("reboot") && !command.contains('\n');
    (finding.level > Level::Good && alone).then_some(command)
}

/// A line that says what can be fixed.
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
    std::env::current_exe()
        .map_or_else(|_| "khz".into(), |path| khz_measure::doctor::for_shell(&path.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_measure::doctor::Mend;

    fn finding(level: Level, command: &str) -> Finding {
        let mend = Some(Mend { command: command.into(), root: true });
        Finding { topic: "cpu", level, what: String::new(), why: "", mend }
    }

    #[test]
    fn only_what_a_command_fixes_alone_is_run() {
        let sysctl = "sudo sysctl kernel.timer_migration=0";
        assert_eq!(command(&finding(Level::Note, sysctl)), Some(sysctl));
        for (level, text) in [
            (Level::Good, sysctl),
            (Level::Warning, "sudo apt install linux-image-rt-amd64 && sudo reboot"),
            (Level::Note, "add to the kernel's command line (then sudo update-grub): isolcpus=1"),
        ] {
            assert_eq!(command(&finding(level, text)), None, "{text}");
        }
        assert!(hint(&[finding(Level::Note, sysctl)]).contains("for 1 of them"));
    }
}
