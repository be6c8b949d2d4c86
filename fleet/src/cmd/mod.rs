//! The commands.

mod bridge;
mod demo;
mod logs;
mod ls;
mod param;
mod router;
mod stop;
mod top;
mod view;
mod with_parent;

use crate::network;
use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Robots of Kilohertz on Zenoh: a bridge beside each robot, and commands to watch, stop and tune them over the network.
#[derive(Parser)]
#[command(name = "khz-fleet", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    network: network::Options,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bridge(bridge::Args),
    Router(router::Args),
    Ls(ls::Args),
    Top(top::Args),
    Stop(stop::Args),
    Param(param::Args),
    Logs(logs::Args),
    View(view::Args),
    Demo(demo::Args),
    WithParent(with_parent::Args),
}

/// Runs the command line.
///
/// # Errors
/// What went wrong.
pub fn run() -> Result<ExitCode> {
    let Cli { network, command } = Cli::parse();
    // Zenoh's own messages, if RUST_LOG is set.
    zenoh::try_init_log_from_env();
    match command {
        Command::Bridge(args) => bridge::run(args, &network),
        Command::Router(args) => router::run(args, &network),
        Command::Ls(args) => ls::run(&args, &network),
        Command::Top(args) => top::run(&args, &network),
        Command::Stop(args) => stop::run(&args, &network),
        Command::Param(args) => param::run(&args, &network),
        Command::Logs(args) => logs::run(&args, &network),
        Command::View(args) => view::run(args, &network),
        Command::Demo(args) => demo::run(&args, &network),
        Command::WithParent(args) => with_parent::run(&args),
    }
}

/// Set by Ctrl-C and SIGTERM; a second one ends the process at once.
fn stop_on_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())
            .context("cannot catch signals")?;
        signal_hook::flag::register(signal, stop.clone()).context("cannot catch signals")?;
    }
    Ok(stop)
}

/// Set by Ctrl-C and SIGTERM, however often.
fn signalled() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, stop.clone()).context("cannot catch signals")?;
    }
    Ok(stop)
}

/// Writes to stdout.
///
/// # Errors
/// The reader is gone. One that left on purpose (`| head`) needs no message: see [`is_gone`].
fn show(text: &str) -> Result<()> {
    write_raw(&khz_view::text::plain(text))
}

fn write_raw(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write")
}

/// Whether a command failed because the reader of its output is gone.
pub fn is_gone(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
