//! `khz bus`: talk to the devices on any link, by hand.

mod open;
pub mod scan;
mod send;
mod set;
mod spi;
mod traces;
mod watch;

use anyhow::Result;
use std::process::ExitCode;

/// Talk to the devices on any link
///
/// Find them, send frames, watch, record and replay; set a servo's zero, id, watchdog and registers.
///
/// LINK is `KIND:TARGET` (`socketcan:can0`, `fdcanusb:/dev/fdcanusb`, `rs485:/dev/ttyUSB0`,
/// `udp:192.168.1.255:7000`), `pi3hat`, a robot file, `emulated`, or `emulated:pi3hat`. Buses are counted from 1, over all
/// links given.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Scan(scan::Args),
    Send(send::Args),
    Watch(watch::Args),
    Info(open::Args),
    Spi(spi::Args),
    SetZero(set::ZeroArgs),
    SetId(set::IdArgs),
    SetWatchdog(set::WatchdogArgs),
    Set(set::RegisterArgs),
    Record(traces::RecordArgs),
    Replay(traces::ReplayArgs),
}

/// Does it.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.action {
        Action::Scan(args) => scan::run(&args),
        Action::Send(args) => send::run(&args),
        Action::Watch(args) => watch::run(&args),
        Action::Info(args) => open::info(&args),
        Action::Spi(args) => spi::run(&args),
        Action::SetZero(args) => set::zero(&args),
        Action::SetId(args) => set::id(&args),
        Action::SetWatchdog(args) => set::watchdog(&args),
        Action::Set(args) => set::register_of(&args),
        Action::Record(args) => traces::record(args),
        Action::Replay(args) => traces::replay(&args),
    }
}
