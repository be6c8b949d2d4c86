//! `khz doctor`: is this machine fit for a loop at 1 kHz?

mod fix;

use super::{show, show_text};
use anyhow::{Context, Result};
use khz_link::socketcan::interface::{self, Finding as CanFinding, Interface};
use khz_measure::doctor::{self, Finding, Fix, Level, Machine};
use khz_rt::proc::Root;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Check whether this machine is fit for 1 kHz, and fix what is not
///
/// Exit code 0: fit; 1: with warnings; 3: something makes 1 kHz impossible or unsafe; 2: wrong usage.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz doctor --quiet
  sudo khz doctor --fix
  khz doctor --setup --robot /etc/kilohertz/robot.toml")]
pub struct Args {
    /// Print one JSON object
    #[arg(long, conflicts_with = "setup")]
    json: bool,
    /// Only problems
    #[arg(long, short)]
    quiet: bool,
    /// Show each command that fixes something, and run it after a yes
    #[arg(long, conflicts_with_all = ["json", "setup", "root"])]
    fix: bool,
    /// With --fix: run them without asking
    #[arg(long, requires = "fix")]
    yes: bool,
    /// Write a systemd unit, limits and udev rules for running without root to this directory
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "kilohertz-setup")]
    setup: Option<PathBuf>,
    /// The user the robot runs as [default: you]
    #[arg(long, requires = "setup")]
    user: Option<String>,
    /// The robot file the unit runs
    #[arg(long, requires = "setup", value_name = "ROBOT.toml", default_value = "/etc/kilohertz/robot.toml")]
    robot: PathBuf,
    /// Examine the machine whose /proc and /sys lie in this directory
    #[arg(long, hide = true, value_name = "DIR")]
    root: Option<PathBuf>,
}

/// Exit code when something makes a loop at 1 kHz impossible.
const BAD: u8 = 3;

/// Runs the command.
///
/// # Errors
/// If the set-up files cannot be written.
pub fn run(args: Args) -> Result<ExitCode> {
    if let Some(directory) = &args.setup {
        return write_setup(directory, &args);
    }
    let findings = findings(args.root.as_deref());
    if args.fix {
        return fix::run(&findings, args.yes);
    }
    let worst = doctor::worst(&findings);
    if args.json {
        show(&format!("{:#}\n", serde_json::json!({ "grade": worst, "findings": findings })))?;
    } else {
        show_text(&text(&findings, worst, args.quiet))?;
    }
    Ok(match worst {
        Level::Good | Level::Note => ExitCode::SUCCESS,
        Level::Warning => ExitCode::FAILURE,
        Level::Bad => ExitCode::from(BAD),
    })
}

fn findings(root: Option<&Path>) -> Vec<Finding> {
    let Some(directory) = root else {
        let mut findings = doctor::examine(&Machine::here());
        findings.extend(can());
        doctor::sort(&mut findings);
        return findings;
    };
    doctor::examine(&Machine::at(Root::at(directory)))
}

/// What the CAN interfaces' own link finds wrong with them.
fn can() -> Vec<Finding> {
    let names = interface::list();
    let interfaces = names.iter().filter_map(|name| Interface::read(name).ok());
    interfaces.flat_map(|interface| interface_findings(&interface, interface.findings())).collect()
}

fn interface_findings(interface: &Interface, found: Vec<CanFinding>) -> Vec<Finding> {
    let name = &interface.name;
    if found.is_empty() {
        let (kind, why) = if interface.carries_fd() {
            ("CAN-FD", "Servos answer only at the bit rates they are set to.")
        } else {
            (
                "classic CAN",
                "moteus servos, and others that are set to CAN-FD, need it: `khz bus info` has the command.",
            )
        };
        return vec![Finding {
            topic: "can",
            level: Level::Good,
            what: format!("{name} is set up for {kind}"),
            why,
            fix: None,
        }];
    }
    let finding = |can: CanFinding| Finding {
        topic: "can",
        level: if can.fatal { Level::Bad } else { Level::Warning },
        what: format!("{name}: {}", can.what),
        why: can.why,
        fix: Some(Fix::command(can.command)),
    };
    found.into_iter().map(finding).collect()
}

fn text(findings: &[Finding], worst: Level, quiet: bool) -> String {
    let shown = findings.iter().filter(|finding| !quiet || finding.level != Level::Good);
    let lines: String = shown.map(|finding| format!("{finding}\n")).collect();
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let verdict = match worst {
        Level::Good => "fit for 1 kHz",
        Level::Note => "fit for 1 kHz; some things could be better",
        Level::Warning => "1 kHz will run, with late ticks now and then",
        Level::Bad => "not fit for 1 kHz as it is",
    };
    let (bad, warnings, notes) = (count(Level::Bad), count(Level::Warning), count(Level::Note));
    format!("{lines}\n{verdict} ({bad} bad, {warnings} warnings, {notes} notes){}\n", fix::hint(findings))
}

/// The user who calls, also through sudo. Neither root nor an empty name: a unit with either runs as root.
fn caller() -> Option<String> {
    let names = ["SUDO_USER", "USER"].into_iter().filter_map(|variable| std::env::var(variable).ok());
    names.into_iter().find(|name| !name.is_empty() && name != "root")
}

fn write_setup(directory: &Path, args: &Args) -> Result<ExitCode> {
    let user = args.user.clone().or_else(caller);
    let user = user.context("for which user? give --user NAME (root, if that is meant)")?;
    let program = std::env::current_exe().context("cannot find this program's path")?;
    let robot =
        std::path::absolute(&args.robot).with_context(|| format!("where is {}?", args.robot.display()))?;
    let files = doctor::files(&user, &program, &robot)?;
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    for file in &files {
        let path = directory.join(file.name);
        let context =
            || format!("cannot write {}: remove the old one or give another directory", path.display());
        let mut written = std::fs::File::create_new(&path).with_context(context)?;
        written.write_all(file.text.as_bytes()).with_context(context)?;
    }
    let commands = doctor::install_commands(&files, &directory.display().to_string()).join("\n");
    show(&format!("Written to {}. Read the files, then install them:\n\n{commands}\n", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_can_interface_lacks_is_bad_when_fatal() {
        let found = CanFinding {
            fatal: true,
            what: "down".into(),
            why: "It must be up.",
            command: "sudo ip link".into(),
        };
        let can0 = Interface { name: "can0".into(), mtu: 16, ..Interface::default() };
        let findings = interface_findings(&can0, vec![found]);
        assert_eq!((findings[0].level, findings[0].what.as_str()), (Level::Bad, "can0: down"));
        let [good] = &interface_findings(&can0, Vec::new())[..] else { panic!() };
        assert_eq!((good.level, good.what.as_str()), (Level::Good, "can0 is set up for classic CAN"));
    }

    #[test]
    fn the_text_ends_with_the_verdict() {
        let text = text(&[], Level::Good, false);
        assert!(text.ends_with("fit for 1 kHz (0 bad, 0 warnings, 0 notes)\n"));
    }
}
