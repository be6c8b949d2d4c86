//! `khz rtt record`: the remote logging service.

use super::{RECORDER_PORT, echo::end_after};
use crate::cmd::{show, stop_on_signal, warn};
use anyhow::Result;
use khz_rtt::Recorder;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Write down what any number of senders stream (`khz rtt send --stream`).
///
/// Prints one line, the address it listens on, and records until Ctrl-C. Exit code 1: something is missing in the log.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz rtt record round_trips.tlog --bind 0.0.0.0
  khz rtt record round_trips.tlog --duration 1h30m")]
pub struct Args {
    /// The log to write, which must not be there yet.
    output: PathBuf,
    /// Address to listen on. Loopback by default; 0.0.0.0 is every network of this machine.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
    /// Port to listen on; 0 lets the system choose.
    #[arg(long, default_value_t = RECORDER_PORT)]
    port: u16,
    /// The file grows no larger than this, in megabytes.
    #[arg(long, default_value_t = 10_000)]
    limit_mb: u64,
    /// End after this time, for example 10s or 1h30m; a number alone is seconds.
    #[arg(long, value_parser = crate::duration::parse_seconds)]
    duration: Option<Duration>,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

/// Records until stopped, then tells who sent what.
pub fn run(args: Args) -> Result<ExitCode> {
    let limit = args.limit_mb.saturating_mul(1_000_000);
    let recorder = Recorder::new(SocketAddr::new(args.bind, args.port), &args.output, limit)?;
    let stop = stop_on_signal()?;
    if let Some(duration) = args.duration {
        end_after(duration, stop.clone());
    }
    show(&format!("{}\n", recorder.address()?))?;
    let (recorded, logged) = recorder.run(&stop, |losses| warn(losses))?;
    if args.json {
        show(&format!("{:#}\n", json!({ "recorded": recorded, "logged": logged })))?;
    } else {
        let mut text = String::new();
        for sender in &recorded.senders {
            text += &format!(
                "{} run {:016x}: {} samples in {} batches, {} missing, {} repeated\n",
                sender.address, sender.run, sender.samples, sender.batches, sender.gaps, sender.repeated
            );
        }
        if recorded.former_senders > 0 {
            text += &format!(
                "{} more senders before: {} missing\n",
                recorded.former_senders, recorded.former_gaps
            );
        }
        text += &format!(
            "{} written, {} dropped; {} unexpected, {} damaged and {} refused datagrams\n",
            logged.written, logged.dropped, recorded.foreign, recorded.damaged, recorded.refused
        );
        show(&text)?;
    }
    let whole = logged.dropped == 0 && recorded.refused == 0 && recorded.gaps() == 0;
    Ok(ExitCode::from(u8::from(!whole)))
}
