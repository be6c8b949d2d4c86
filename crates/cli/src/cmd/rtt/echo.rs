//! `khz rtt echo`: the device.

use super::PORT;
use crate::cmd::{print_line, show, stop_on_signal};
use anyhow::Result;
use khz_rtt::{Echo, Receive};
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Act as the device: send every request back.
///
/// Prints one line, the address it listens on, and answers until Ctrl-C. Only whole requests of `khz rtt send` are
/// answered, never with more bytes than came.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz rtt echo --bind 0.0.0.0
  khz rtt echo --receive spin --priority 80 --cpu 3")]
pub struct Args {
    /// Address to listen on. Loopback by default; 0.0.0.0 is every network of this machine.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
    /// Port to listen on; 0 lets the system choose.
    #[arg(long, default_value_t = PORT)]
    port: u16,
    /// How to wait for requests: block, hybrid (spin a moment, then block) or spin (takes a whole CPU).
    #[arg(long, default_value = "block")]
    receive: Receive,
    /// Real-time priority, 1 to 98; 0 for an ordinary thread.
    #[arg(long, default_value_t = 0)]
    priority: u8,
    /// The only CPU to run on.
    #[arg(long)]
    cpu: Option<usize>,
    /// End after this time, for example 10s or 1h30m; a number alone is seconds.
    #[arg(long, value_parser = crate::duration::parse_seconds)]
    duration: Option<Duration>,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

/// Answers until stopped, then prints its counts.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut echo = Echo::bind(SocketAddr::new(args.bind, args.port), args.receive)?;
    let stop = stop_on_signal()?;
    if let Some(duration) = args.duration {
        end_after(duration, stop.clone());
    }
    show(&format!("{}\n", echo.address()?))?;
    let _granted = super::setup(args.priority, args.cpu).apply()?;
    let counts = echo.run(&stop)?;
    if args.json {
        show(&format!("{}\n", json!(counts)))?;
    } else {
        print_line(format_args!(
            "{} requests answered; {} unexpected, {} damaged, {} replies and {} unsent answers counted",
            counts.answered, counts.foreign, counts.damaged, counts.replies, counts.unsent
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Sets `stop` after this time.
pub(super) fn end_after(duration: Duration, stop: std::sync::Arc<AtomicBool>) {
    std::thread::spawn(move || {
        std::thread::sleep(duration);
        stop.store(true, Ordering::Relaxed);
    });
}
