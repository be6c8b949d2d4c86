//! `khz-fleet router`.

use super::stop_on_signal;
use crate::bridge::eprint_line;
use crate::network::{Options, Role};
use anyhow::Result;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Run a Zenoh router: where bridges, operators and ROS 2 meet
///
/// It is an ordinary one; zenohd and that of rmw_zenoh serve as well. Listens at --router, for this computer alone unless a
/// configuration (--zenoh) has authentication.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_: Args, network: &Options) -> Result<ExitCode> {
    let stop = stop_on_signal()?;
    let session = network.session(Role::Router)?;
    eprint_line(&format!("router {} is listening", session.zid()));
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(ExitCode::SUCCESS)
}
