//! `khz-fleet bridge`.

use super::stop_on_signal;
use crate::network::{Options, Role};
use crate::settings::Settings;
use anyhow::Result;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Put a robot on the network: run this beside it
///
/// Start the robot with `khz run ROBOT.toml --stream 127.0.0.1:7400 --view`. The bridge needs nothing of the robot but these two
/// addresses; the robot never waits for it.
#[derive(clap::Args)]
pub struct Args {
    /// A file with the same settings, and which records are passed on how often
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The robot's name on the network [default: that of its robot file]
    #[arg(long)]
    name: Option<String>,
    /// Where the robot sends its samples [default: 127.0.0.1:7400]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// The robot's live view, for stop, parameters and steering
    #[arg(long, value_name = "ADDR:PORT")]
    view: Option<SocketAddr>,
    /// The view's token, if it has one. Every user of this computer can read this argument (`ps`): better use KHZ_FLEET_TOKEN
    #[arg(long, env = "KHZ_FLEET_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// A folder with the robot's logs
    #[arg(long, value_name = "FOLDER")]
    logs: Option<PathBuf>,
    /// How much of the temporary folder stretches of logs may take while they are sent, MiB [default: 64]
    #[arg(long, value_name = "MIB")]
    stretch_mib: Option<u64>,
    /// ROS_DOMAIN_ID of the topics for ROS 2 [default: 0]
    #[arg(long)]
    domain: Option<u32>,
}

/// Runs the command.
pub fn run(args: Args, network: &Options) -> Result<ExitCode> {
    let mut settings = args.config.as_deref().map_or_else(|| Ok(Settings::default()), Settings::read)?;
    settings.name = args.name.or(settings.name);
    settings.listen = args.listen.unwrap_or(settings.listen);
    settings.view = args.view.or(settings.view);
    settings.token = args.token.or(settings.token);
    settings.logs = args.logs.or(settings.logs);
    settings.stretch_mib = args.stretch_mib.unwrap_or(settings.stretch_mib);
    settings.ros.domain = args.domain.unwrap_or(settings.ros.domain);
    let settings = settings.check()?;
    // Until the router is there, Ctrl-C ends the process at once.
    let session = network.session(Role::Bridge)?;
    let stop = stop_on_signal()?;
    crate::bridge::run(settings, session, &stop)?;
    Ok(ExitCode::SUCCESS)
}
