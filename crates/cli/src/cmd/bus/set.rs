//! `khz bus set-zero`, `set-id` and `set-watchdog`: a servo's settings, changed by hand.

use super::open::desk;
use crate::cmd::{complain, show, tell, tell_line};
use anyhow::{Context, Result, bail};
use khz_robot::config::FamilyName;
use khz_robot::desk::{Answer, Desk, DeskError, Seat, Setting};
use serde_json::json;
use std::io::{self, BufRead, IsTerminal};
use std::num::NonZeroUsize;
use std::process::ExitCode;

/// Make the present position of a servo its zero.
///
/// Its output must be off. What it will do is shown first and done after a yes; success is what the servo says afterwards.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz bus set-zero robot.toml knee
  khz bus set-zero socketcan:can0 3 --store")]
pub struct ZeroArgs {
    #[command(flatten)]
    target: Target,
}

/// Give a servo another id.
///
/// Its output must be off, and no other servo on the bus may have the id. What it will do is shown first and done after a yes;
/// success is what the servo says under its new id.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz bus set-id socketcan:can0 1 3 --store
  khz bus set-id robot.toml knee 5 --store")]
pub struct IdArgs {
    #[command(flatten)]
    target: Target,
    /// The id it gets.
    new: u8,
}

/// Set how long a servo waits for a frame before it acts by itself.
///
/// `khz run` sets the watchdogs of its servos at every start (`watchdog_s`); this is for other programs. The servo's output must be
/// off. What it will do is shown first and done after a yes; success is what the servo says afterwards.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz bus set-watchdog robot.toml knee 0.1
  khz bus set-watchdog socketcan:can0 3 0.1 --store")]
pub struct WatchdogArgs {
    #[command(flatten)]
    target: Target,
    /// Time without a frame, s; 0: it never acts by itself.
    seconds: f64,
}

/// Which servo, and how.
#[derive(clap::Args)]
struct Target {
    /// The link: KIND:TARGET, a robot file, or `emulated`
    link: String,
    /// The servo: its name in the robot file, or its id
    servo: String,
    /// The number of its bus, counted from 1, if the link has several
    #[arg(long)]
    bus: Option<NonZeroUsize>,
    /// The family of the servos, on links that no robot file describes
    #[arg(long, value_name = "moteus|damiao")]
    family: Option<FamilyName>,
    /// Make the servo keep its settings when it loses its power
    #[arg(long)]
    store: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// How long to wait for each reply, ms.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    timeout_ms: u16,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `khz bus set-zero`.
pub fn zero(args: &ZeroArgs) -> Result<ExitCode> {
    run(&args.target, Setting::Zero)
}

/// `khz bus set-id`.
pub fn id(args: &IdArgs) -> Result<ExitCode> {
    run(&args.target, Setting::Id(args.new))
}

/// `khz bus set-watchdog`.
pub fn watchdog(args: &WatchdogArgs) -> Result<ExitCode> {
    run(&args.target, Setting::Watchdog(args.seconds))
}

/// Exit code 1 if the servo refuses, or nobody says yes.
fn run(target: &Target, setting: Setting) -> Result<ExitCode> {
    let mut desk = desk(std::slice::from_ref(&target.link))?;
    if let Some(family) = target.family {
        desk.expect(family);
    }
    let timeout_ns = i64::from(target.timeout_ms) * 1_000_000;
    let servo = desk.named(&target.servo, target.bus.map(|bus| bus.get() - 1), timeout_ns)?;
    let before = match desk.may_set(&servo, setting, target.store, timeout_ns) {
        Ok(before) => before,
        Err(error) => return refused(error),
    };
    tell(&announcement(&desk, &servo, setting, target.store, &before));
    if !target.yes && !is_wanted()? {
        tell_line("nothing was changed");
        return Ok(ExitCode::FAILURE);
    }
    match desk.set(&servo, setting, target.store, timeout_ns) {
        Ok(after) => {
            let text = if target.json { described } else { told };
            show(&text(&servo, setting, target.store, &after))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => refused(error),
    }
}

/// What a family cannot do is wrong usage; what a servo does not do is a failure.
fn refused(error: DeskError) -> Result<ExitCode> {
    if matches!(error, DeskError::Impossible(_)) {
        return Err(error.into());
    }
    complain(&error.into());
    Ok(ExitCode::FAILURE)
}

/// What will be done, to which servo, and what it means for the robot.
fn announcement(desk: &Desk, servo: &Seat, setting: Setting, store: bool, before: &Answer) -> String {
    let (id, family) = (servo.servo.id, servo.servo.family.by_hand());
    let mut text =
        format!("{} ({}, id {id} on bus {}): ", servo.name, servo.servo.family.name(), desk.name(servo.bus));
    match setting {
        Setting::Zero => {
            let position = before.position.unwrap_or(f64::NAN);
            text += &format!(
                "its present position, {position:.3} rad, becomes 0.\n  Every position changes by that: `limits` and `offset` in \
                 robot files, and targets of programs, mean other places then.\n"
            );
            let takes_s = family.zero_takes_s();
            if takes_s > 0.0 {
                text += &format!(
                    "  That takes it {takes_s} s, in which it may not answer: run nothing on it meanwhile.\n"
                );
            }
        }
        Setting::Id(new) => {
            text += &format!("its id becomes {new}.\n");
            text += &family.changes_with_id(new).map(|line| format!("  Also, {line}.\n")).unwrap_or_default();
            text += &format!(
                "  Robot files and programs that ask for id {id} do not find it any more.\n  If two servos have id {id}, both take \
                 the new one: leave only one connected.\n"
            );
        }
        Setting::Watchdog(seconds) => {
            text += &if seconds > 0.0 {
                format!("after {seconds} s without a frame it acts by itself.\n")
            } else {
                "it never acts by itself: without a program or a cable it follows its last command for ever.\n".to_owned()
            };
            text += "  `khz run` sets its own (`watchdog_s`) at every start.\n";
        }
    }
    text += if store {
        "  It keeps all its settings as they are then when it loses its power.\n"
    } else {
        "  Without --store it may forget that when it loses its power.\n"
    };
    text
}

fn is_wanted() -> Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("there is no terminal to ask on: give --yes to do it");
    }
    tell("Do it? [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn told(servo: &Seat, setting: Setting, store: bool, after: &Answer) -> String {
    let what = match setting {
        Setting::Zero => format!("joint position {:.3} rad", after.position.unwrap_or(f64::NAN)),
        Setting::Id(_) => format!("id {}", after.id),
        Setting::Watchdog(_) => format!("watchdog {} s", after.watchdog_s.unwrap_or(f64::NAN)),
    };
    let mode = after.mode.map_or("unknown", |mode| mode.name);
    format!("{}: {what}, {mode}{}\n", servo.name, if store { ", stored" } else { "" })
}

fn described(servo: &Seat, setting: Setting, store: bool, after: &Answer) -> String {
    let set = match setting {
        Setting::Zero => "zero",
        Setting::Id(_) => "id",
        Setting::Watchdog(_) => "watchdog",
    };
    let line = json!({
        "set": set, "bus": servo.bus + 1, "name": servo.name, "family": servo.servo.family.name().word(), "id": after.id,
        "mode": after.mode.map(|mode| mode.name), "position": after.position, "watchdog_s": after.watchdog_s, "stored": store,
    });
    format!("{line}\n")
}
