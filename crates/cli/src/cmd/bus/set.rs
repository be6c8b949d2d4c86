//! `khz bus set-zero`, `set-id`, `set-watchdog` and `set`: a servo's settings, changed by hand.

use crate::cmd::{complain, note, print, print_line, show};
use crate::duration::parse_seconds;
use anyhow::{Context, Result, anyhow, bail};
use khz_file::config::FamilyName;
use khz_robot::desk::{Answer, Desk, DeskError, DeskServo, Setting};
use serde_json::json;
use std::io::{self, BufRead, IsTerminal};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Make the present position of a servo its zero.
///
/// Its output must be off. The command shows what it will do and asks first; it succeeds if the servo confirms the change afterwards.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz bus set-zero robot.toml knee
  khz bus set-zero slcan:/dev/ttyACM0 3 --family robstride --store")]
pub struct ZeroArgs {
    #[command(flatten)]
    target: Target,
}

/// Give a servo another id.
///
/// Its output must be off, and no other servo on the bus may have the id. The command shows what it will do and asks first;
/// it succeeds if the servo replies under its new id.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz bus set-id socketcan:can0 1 3 --store
  khz bus set-id slcan:/dev/ttyACM0 127 3 --family robstride --store
  khz bus set-id robot.toml knee 5 --store")]
pub struct IdArgs {
    #[command(flatten)]
    target: Target,
    /// The new id.
    new: u8,
}

/// Set how long a servo waits for a frame before it acts by itself.
///
/// `khz run` sets the watchdogs of most servos at every start (`watchdog_s`): for those this command is of use to other programs only.
/// RMD motors need it once, and keep it. The servo's output must be off. The command shows what it will do and asks first; it
/// succeeds if the servo confirms the change afterwards.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz bus set-watchdog robot.toml knee 100ms
  khz bus set-watchdog slcan:/dev/ttyACM0 3 0.1 --family robstride --store")]
pub struct WatchdogArgs {
    #[command(flatten)]
    target: Target,
    /// Time without a frame, in s, or with its unit (100ms); 0: it never acts by itself.
    #[arg(value_parser = parse_seconds)]
    time: Duration,
}

/// Write a register (parameter) of a Damiao or RobStride servo, an acceleration of an RMD, a setting of an ODrive, or an item of a Dynamixel or Feetech.
///
/// Its output must be off. The command shows what it will do and asks first; it succeeds if the servo confirms the change afterwards.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz bus set slcan:/dev/ttyACM0 3 zero_sta=1 --store --family robstride
  khz bus set robot.toml knee OC_Value=0.8 --store
  khz bus set socketcan:can0 3 axis0.config.can.heartbeat_msg_rate_ms=20 --family odrive --endpoints flat_endpoints.json
  khz bus set robot.toml knee 0x7029=1 --store        by its number")]
pub struct RegisterArgs {
    #[command(flatten)]
    target: Target,
    /// The register, by its name in the maker's manual or its number, and its value in the servo's own units.
    #[arg(value_name = "NAME=VALUE", value_parser = assignment)]
    assignment: (String, f64),
}

fn assignment(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, for example zero_sta=1")?;
    let value = value.trim().parse().map_err(|_| format!("{value}: the value is no number"))?;
    Ok((name.trim().to_owned(), value))
}

/// The register of this name or number.
fn register(servo: &DeskServo, name: &str) -> Result<u16> {
    let number = match name.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => name.parse().ok(),
    };
    number.map_or_else(|| Ok(servo.register(name)?), Ok)
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
    #[arg(long, value_name = FamilyName::USAGE)]
    family: Option<FamilyName>,
    /// `flat_endpoints.json` of exactly the release and board of an ODrive (firmware 0.6): its settings then have names
    #[arg(long, value_name = "FILE")]
    endpoints: Option<PathBuf>,
    /// Store the settings in the servo, so that it keeps them without power
    #[arg(long)]
    store: bool,
    /// Do it without asking
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
    run(&args.target, false, |_| Ok(Setting::Zero))
}

/// `khz bus set-id`.
pub fn id(args: &IdArgs) -> Result<ExitCode> {
    run(&args.target, true, |_| Ok(Setting::Id(args.new)))
}

/// `khz bus set-watchdog`.
pub fn watchdog(args: &WatchdogArgs) -> Result<ExitCode> {
    run(&args.target, false, |_| Ok(Setting::Watchdog(args.time.as_secs_f64())))
}

/// `khz bus set`.
pub fn register_of(args: &RegisterArgs) -> Result<ExitCode> {
    let (name, value) = &args.assignment;
    run(&args.target, false, |servo| Ok(Setting::Register(register(servo, name)?, *value)))
}

/// A search that takes longer is announced, s.
const PATIENCE_S: f64 = 2.0;

/// Exit code 1 if the servo refuses, or without a yes. `searches`: others on its bus are asked for, also where a file has it.
fn run(
    target: &Target,
    searches: bool,
    setting: impl FnOnce(&DeskServo) -> Result<Setting>,
) -> Result<ExitCode> {
    let mut desk = Desk::open_for(target.family.as_slice(), std::slice::from_ref(&target.link))
        .map_err(|error| anyhow!(error))?;
    // To look at such a servo is to do something to it.
    let does = desk.scan_does();
    if !does.is_empty() {
        does.into_iter().for_each(note);
        if !target.yes && !is_wanted("Ask it? [y/N] ")? {
            print_line("nothing was asked or changed");
            return Ok(ExitCode::FAILURE);
        }
    }
    let timeout_ns = i64::from(target.timeout_ms) * 1_000_000;
    let bus = target.bus.map(|bus| bus.get() - 1);
    let searched = bus.filter(|bus| *bus < desk.buses()).or((desk.buses() == 1).then_some(0));
    let search_s = searched.map_or(0.0, |bus| desk.longest_search_s(bus, timeout_ns));
    if (target.servo.parse::<u8>().is_ok() || searches) && search_s > PATIENCE_S {
        note(format!("if the servo does not reply, every id is asked, which takes up to {search_s:.0} s"));
    }
    let servo = desk.named(&target.servo, bus, timeout_ns)?;
    let servo = match &target.endpoints {
        Some(path) => servo.with_endpoints(path)?,
        None => servo,
    };
    let setting = setting(&servo)?;
    let before = match desk.may_set(&servo, setting, target.store, timeout_ns) {
        Ok(before) => before,
        Err(error) => return refused(error),
    };
    print(&announcement(&desk, &servo, setting, target.store, &before));
    if !target.yes && !is_wanted("Do it? [y/N] ")? {
        print_line("nothing was changed");
        return Ok(ExitCode::FAILURE);
    }
    match desk.set(&servo, setting, target.store, timeout_ns) {
        Ok(after) => {
            let text = if target.json { described } else { changed };
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
fn announcement(desk: &Desk, servo: &DeskServo, setting: Setting, store: bool, before: &Answer) -> String {
    let (id, family) = (servo.servo.id, servo.servo.family.by_hand());
    let mut text =
        format!("{} ({}, id {id} on bus {}): ", servo.name, servo.servo.family.name(), desk.name(servo.bus));
    match setting {
        Setting::Zero => {
            let position = rounded(before.position);
            text += &format!(
                "its present position, {position:.3} rad, becomes 0.\n  Every position changes by that: `limits` and `offset` in \
                 robot files, and targets of programs, then mean other angles.\n"
            );
            let takes_s = family.zero_takes_s();
            if takes_s > 0.0 {
                text += &format!(
                    "  That takes {takes_s} s, in which it may not answer: run nothing on it meanwhile.\n"
                );
            }
        }
        Setting::Id(new) if new == id => {
            text += &format!("it keeps id {id}.\n");
            text += &family.changes_with_id(new).map(|line| format!("  But {line}.\n")).unwrap_or_default();
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
            text += if !family.run_sets_watchdog() {
                "  `khz run` cannot change it: the robot file's `watchdog_s` has to be the same.\n"
            } else {
                "  `khz run` sets its own (`watchdog_s`) at every start.\n"
            };
        }
        Setting::Register(number, value) => {
            let now = before.registers.get(&number).map_or("unknown".to_owned(), f64::to_string);
            text += &format!("its {} becomes {value}; now it is {now}.\n", family.called(number));
        }
    }
    let keeps = match setting {
        Setting::Register(number, _) => family.keeps_register(number),
        Setting::Watchdog(_) => !family.run_sets_watchdog(),
        Setting::Zero | Setting::Id(_) => family.keeps_what_is_set(),
    };
    text += match store {
        true => "  With --store it keeps this and all its other settings without power.\n",
        false if keeps => "  It keeps this without power.\n",
        false if family.store(id).is_err() => "  It forgets this when it loses power.\n",
        false => "  Without --store it may forget this when it loses power.\n",
    };
    text
}

fn is_wanted(question: &str) -> Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("there is no terminal to ask on: give --yes to do it");
    }
    print(question);
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn changed(servo: &DeskServo, setting: Setting, store: bool, after: &Answer) -> String {
    let what = match setting {
        Setting::Zero => format!("joint position {:.3} rad", rounded(after.position)),
        Setting::Id(_) => format!("id {}", after.id),
        Setting::Watchdog(_) => format!("watchdog {} s", after.watchdog_s.unwrap_or(f64::NAN)),
        Setting::Register(number, _) => {
            let value = after.registers.get(&number).copied().unwrap_or(f64::NAN);
            format!("{} = {value}", servo.servo.family.by_hand().called(number))
        }
    };
    let mode = after.mode.map_or("unknown", |mode| mode.name);
    format!("{}: {what}, mode {mode}{}\n", servo.name, if store { ", stored" } else { "" })
}

/// A position to three places, and never −0.
fn rounded(position: Option<f64>) -> f64 {
    (position.unwrap_or(f64::NAN) * 1e3).round() / 1e3 + 0.0
}

fn described(servo: &DeskServo, setting: Setting, store: bool, after: &Answer) -> String {
    let set = match setting {
        Setting::Zero => "zero",
        Setting::Id(_) => "id",
        Setting::Watchdog(_) => "watchdog",
        Setting::Register(..) => "register",
    };
    let register = match setting {
        Setting::Register(number, _) => json!({ "number": number, "value": after.registers.get(&number) }),
        _ => serde_json::Value::Null,
    };
    let line = json!({
        "set": set, "bus": servo.bus + 1, "name": servo.name, "family": servo.servo.family.name().word(), "id": after.id,
        "mode": after.mode.map(|mode| mode.name), "position": after.position, "watchdog_s": after.watchdog_s, "register": register,
        "stored": store,
    });
    format!("{line}\n")
}
