//! `khz bus record` and `khz bus replay`: traces in candump text or pcapng; of other programs' also asc, trc and csv.

use super::open::{Links, desk, listen, robots};
use super::watch::errors;
use crate::cmd::output::{self, create};
use crate::cmd::{note, show, stop_on_signal};
use crate::duration;
use anyhow::{Context, Result, bail};
use khz_link::Received;
use khz_link::replay::{self as traces, Recorded};
use khz_link::trace::{Candump, Pcapng, Sink, Traced, Way};
use khz_rt::clock::{now_ns, realtime_ns};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Write everything the links receive to a file: pcapng if its name ends so, otherwise candump text.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz bus record socketcan:can0 -o trace.pcapng --duration 10s
  khz bus record robot.toml -o trace.log")]
pub struct RecordArgs {
    #[command(flatten)]
    links: Links,
    /// The file, which must not be there yet.
    #[arg(long, short)]
    output: PathBuf,
    /// Overwrite the file if it is there.
    #[arg(long)]
    force: bool,
    /// End after this time, for example 10s.
    #[arg(long, value_parser = duration::parse)]
    duration: Option<Duration>,
}

/// Send the frames of a trace again, with the gaps they had.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz bus replay trace.log --link socketcan:vcan0
  khz bus replay trace.pcapng --link emulated --all
  khz bus replay trace.asc --link socketcan:can0 --all")]
pub struct ReplayArgs {
    /// The trace: .pcapng, .asc, .trc or .csv (of python-can) by its name, otherwise candump text.
    trace: PathBuf,
    /// A link: KIND:TARGET, a robot file, or `emulated`; repeatable. The trace's interfaces take its buses in order.
    #[arg(long = "link", short, required = true, value_name = "LINK")]
    links: Vec<String>,
    /// Also frames that were received when the trace was made.
    #[arg(long)]
    all: bool,
}

/// Records until Ctrl-C.
pub fn record(args: RecordArgs) -> Result<ExitCode> {
    let links = args.links.all();
    if let Some(why) = traces::unwritten(&args.output) {
        bail!("{}: {why}", args.output.display());
    }
    output::spare(&args.output, &robots(&links).iter().collect::<Vec<_>>())?;
    let mut out = create(&args.output, args.force)?;
    let mut desk = listen(&links)?;
    let names = (1..=desk.buses()).map(|bus| format!("bus{bus}")).collect();
    let mut sink = sink(&args.output, &mut out, names)?;
    let stop = stop_on_signal()?;
    let (started, mut count, mut outcome) = (Instant::now(), 0_u64, Ok(()));
    let over = || stop.load(Ordering::Relaxed) || args.duration.is_some_and(|most| started.elapsed() >= most);
    while !over() && outcome.is_ok() {
        desk.receive_until(50_000_000, |bus, received| {
            count += 1;
            let item = Received { channel: bus as u8, ..received };
            outcome = sink.write(&Traced { way: Way::Received, item });
            outcome.is_err() || over()
        });
    }
    drop(sink);
    outcome.and_then(|()| out.flush()).with_context(|| args.output.display().to_string())?;
    show(&format!("{count} frames\n"))?;
    let lost: u64 = (0..desk.buses()).map(|bus| errors(&desk.counters(bus))).sum();
    if lost > 0 {
        note(format_args!(
            "{lost} errors on the buses, of which no frame is written: `khz bus watch` shows where"
        ));
    }

    Ok(ExitCode::SUCCESS)
}

fn is_pcapng(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "pcapng")
}

fn sink<'a>(path: &Path, out: &'a mut impl Write, names: Vec<String>) -> Result<Box<dyn Sink + 'a>> {
    let epoch_ns = realtime_ns() - now_ns();
    Ok(if is_pcapng(path) {
        Box::new(Pcapng::new(out, &names, epoch_ns)?)
    } else {
        Box::new(Candump::new(out, names, epoch_ns))
    })
}

/// Exit code 1 if frames could not be sent.
pub fn replay(args: &ReplayArgs) -> Result<ExitCode> {
    let mut desk = desk(&args.links)?;
    let name = args.trace.display().to_string();
    let bytes = std::fs::read(&args.trace).with_context(|| name.clone())?;
    let trace = traces::read(&args.trace, &bytes).with_context(|| name)?;
    let Recorded { frames: mut trace, errors, others } = trace;
    let whole = trace.len();
    trace.retain(|traced| args.all || traced.way == Way::Sent);
    let left_out = whole - trace.len();
    let first_ns = trace.first().map_or(0, |traced| traced.item.at_ns);
    let (begun_ns, mut sent, mut refused) = (now_ns(), 0_u64, 0_u64);
    for Traced { item, .. } in &trace {
        let due_ns = begun_ns.saturating_add(item.at_ns.saturating_sub(first_ns));
        // What comes back is taken out of the way meanwhile.
        desk.receive_until(due_ns.saturating_sub(now_ns()).max(0), |_, _| false);
        let bus = usize::from(item.channel);
        let went = bus < desk.buses() && desk.send(bus, &item.frame).and_then(|()| desk.flush()).is_ok();
        sent += u64::from(went);
        refused += u64::from(!went);
    }
    show(&format!("{sent} frames sent, {refused} refused\n"))?;
    if errors > 0 {
        note(format_args!("{errors} error frames of the trace are none that can be sent"));
    }
    if others > 0 {
        note(format_args!("{others} lines of the trace are no frames"));
    }
    if left_out > 0 {
        note(format_args!(
            "{left_out} frames are not marked as sent by the recording computer; --all sends them, too"
        ));
    }
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
