//! `khz log record`: a log of what other processes and machines send.

use super::shared::create;
use crate::cmd::{print, stop_on_signal, warn};
use anyhow::{Context, Result};
use khz_robot::recorder::{Disk, Files, Intake, IntakeCounts, Watched};
use khz_rt::clock::realtime_ns;
use serde_json::json;
use std::io::{self, BufWriter, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the buffers change sides.
const TURN: Duration = Duration::from_millis(50);
/// How long the receiving thread waits for a datagram before it looks whether to end.
const PATIENCE: Duration = Duration::from_millis(100);
/// After a stop, what is in the socket already is still taken, up to so many datagrams.
const MOST_AFTER_STOP: usize = 10_000;
/// What may wait for the disk. When there is more the disk has stood still for long, and datagrams are dropped.
const BUFFER: usize = 64 << 20;

/// Receive samples by UDP and write them to a log, until interrupted
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz log record --listen 0.0.0.0:7400 -o robots.tlog
  khz log record --listen 0.0.0.0:7400 -o robots.tlog --duration 1h30m --strict")]
pub struct Args {
    /// The address to receive at, such as 0.0.0.0:7400; port 0 takes a free one
    #[arg(long, value_name = "ADDR")]
    listen: SocketAddr,
    /// The log
    #[arg(short, long)]
    output: PathBuf,
    /// Overwrite the log if it is there
    #[arg(long)]
    force: bool,
    /// End after this long
    #[arg(long, value_parser = crate::duration::parse)]
    duration: Option<Duration>,
    /// End before the log has more MiB than this
    #[arg(long, value_name = "MIB", default_value_t = 16 << 10)]
    limit: u64,
    /// End when the disk has less free MiB than this
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    keep_free: u64,
    /// Record only what comes from this IP address; repeatable
    #[arg(long, value_name = "IP")]
    from: Vec<IpAddr>,
    /// Exit with code 1 if the log lacks anything that was sent
    #[arg(long)]
    strict: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What the receiving thread fills while the writing one empties its twin.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// From whom, up to which byte, and when.
    ends: Vec<(SocketAddr, usize, i64)>,
    dropped: u64,
}

impl Batch {
    fn push(&mut self, from: SocketAddr, datagram: &[u8]) {
        // Each costs memory however small it is.
        let beside = (self.ends.len() + 1) * size_of::<(SocketAddr, usize, i64)>();
        if self.bytes.len() + datagram.len() + beside > BUFFER {
            self.dropped += 1;
            return;
        }
        self.bytes.extend_from_slice(datagram);
        self.ends.push((from, self.bytes.len(), realtime_ns()));
    }

    /// Datagrams that came, whether they found room or not.
    fn count(&self) -> u64 {
        self.ends.len() as u64 + self.dropped
    }

    fn clear(&mut self) {
        *self =
            Self { bytes: std::mem::take(&mut self.bytes), ends: std::mem::take(&mut self.ends), dropped: 0 };
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let socket = UdpSocket::bind(args.listen).with_context(|| format!("cannot listen at {}", args.listen))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut intake = Intake::new(create(&args.output, args.force)?, args.limit << 20)?;
    let stop = stop_on_signal()?;
    print(&format!("listening at {}\n", socket.local_addr()?));
    let batch = Mutex::new(Batch::default());
    let written = || format!("writing {}", args.output.display());
    let (mut dropped, why) = std::thread::scope(|scope| {
        scope.spawn(|| receive(&socket, &args.from, &batch, &stop));
        let outcome = write(&args, &mut intake, &batch, &stop);
        stop.store(true, Ordering::Relaxed);
        outcome
    })
    .with_context(written)?;
    // The receiving thread is gone; what it took last is still here.
    match why {
        None => dropped += pour(&batch, &mut intake, &mut Batch::default()).with_context(written)?,
        Some(_) => dropped += batch.into_inner().unwrap_or_else(PoisonError::into_inner).count(),
    }
    let (counts, out) = intake.finish(realtime_ns()).with_context(written)?;
    let whole = counts.is_whole() && dropped == 0;
    summarise(&args, &counts, out.get_ref().written(), dropped, whole)?;
    match why {
        None => Ok(ExitCode::from(u8::from(args.strict && !whole))),
        Some(why) => {
            warn(format_args!("ended early: {why}"));
            Ok(ExitCode::from(1))
        }
    }
}

/// Takes datagrams until `stop` is set, and then those that have come by then.
fn receive(socket: &UdpSocket, from_only: &[IpAddr], batch: &Mutex<Batch>, stop: &AtomicBool) {
    let mut datagram = vec![0; 65_536];
    // A sender that goes on must not keep this running.
    let mut still = MOST_AFTER_STOP;
    while still > 0 {
        let over = stop.load(Ordering::Relaxed);
        if over && still == MOST_AFTER_STOP && socket.set_nonblocking(true).is_err() {
            break;
        }
        still -= usize::from(over);
        match socket.recv_from(&mut datagram) {
            Ok((_, from)) if !from_only.is_empty() && !from_only.contains(&from.ip()) => {}
            Ok((len, from)) => {
                batch.lock().unwrap_or_else(PoisonError::into_inner).push(from, &datagram[..len])
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if over {
                    break;
                }
            }
            // Such as an earlier answer of ours that was not delivered: the next call may succeed.
            Err(_) => std::thread::sleep(PATIENCE),
        }
    }
}

/// Writes until asked to stop. Returns the dropped datagrams, and why it ended if it was not asked to.
fn write(
    args: &Args,
    intake: &mut Intake<BufWriter<Watched>>,
    batch: &Mutex<Batch>,
    stop: &AtomicBool,
) -> io::Result<(u64, Option<String>)> {
    let started = Instant::now();
    let mut full = Batch::default();
    let mut dropped = 0;
    let mut notices = Notices::default();
    loop {
        let last =
            stop.load(Ordering::Relaxed) || args.duration.is_some_and(|most| started.elapsed() >= most);
        dropped += pour(batch, intake, &mut full)?;
        if intake.is_full() {
            return Ok((dropped, Some(format!("the log has reached its limit of {} MiB", args.limit))));
        }
        intake.flush(realtime_ns())?;
        // Also while nothing comes.
        intake.destination().get_ref().check()?;
        notices.look(intake.counts(), dropped, started.elapsed());
        if last {
            return Ok((dropped, None));
        }
        if let Some(why) = short_of_room(&args.output, args.keep_free) {
            return Ok((dropped, Some(why)));
        }
        std::thread::sleep(TURN);
    }
}

/// How often losses are reported while recording.
const NOTICE: Duration = Duration::from_secs(2);

/// Reports losses while they happen, so that something can be done.
#[derive(Default)]
struct Notices {
    reported: IntakeCounts,
    dropped: u64,
    next: Duration,
}

impl Notices {
    fn look(&mut self, counts: IntakeCounts, dropped: u64, at: Duration) {
        if at < self.next {
            return;
        }
        if let Some(text) = self.text(counts, dropped) {
            warn(&text);
            (self.reported, self.dropped, self.next) = (counts, dropped, at + NOTICE);
        }
    }

    /// What was lost since the last report.
    fn text(&self, counts: IntakeCounts, dropped: u64) -> Option<String> {
        let before = &self.reported;
        let losses = [
            (counts.lost.saturating_sub(before.lost), "datagrams lost on the way"),
            (dropped - self.dropped, "datagrams dropped: the disk is too slow"),
            (counts.no_room - before.no_room, "refused: too many senders or schemas (use --from IP)"),
            (
                (counts.refused - before.refused) - (counts.no_room - before.no_room),
                "datagrams or schemas refused: malformed, or of another protocol",
            ),
            (
                counts.beyond_share - before.beyond_share,
                "samples of an address that has had its share of --limit",
            ),
            (counts.unknown - before.unknown, "samples without a schema"),
            (counts.unfit - before.unfit, "samples refused: they do not fit their schema"),
        ];
        let message: Vec<String> = losses
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        (!message.is_empty()).then(|| message.join("; "))
    }
}

/// Writes what was received, as far as the log's limit allows. Returns the dropped datagrams.
fn pour(batch: &Mutex<Batch>, intake: &mut Intake<impl io::Write>, full: &mut Batch) -> io::Result<u64> {
    full.clear();
    std::mem::swap(&mut *batch.lock().unwrap_or_else(PoisonError::into_inner), full);
    let mut start = 0;
    for (number, &(from, end, at_ns)) in full.ends.iter().enumerate() {
        if intake.is_full() {
            return Ok(full.count() - number as u64);
        }
        intake.datagram(from, &full.bytes[start..end], at_ns)?;
        start = end;
    }
    Ok(full.dropped)
}

fn short_of_room(path: &Path, keep_mib: u64) -> Option<String> {
    let free = Files.free_bytes(path).ok()? >> 20;
    (free < keep_mib).then(|| format!("the disk has {free} MiB free, and {keep_mib} are to be kept"))
}

fn summarise(args: &Args, counts: &IntakeCounts, bytes: u64, dropped: u64, whole: bool) -> Result<()> {
    let &IntakeCounts {
        senders,
        samples,
        lost,
        repeated,
        refused,
        unknown,
        unfit,
        restamped,
        beyond_share,
        evicted,
        ..
    } = counts;
    let path = args.output.display();
    let text = match args.json {
        true => json!({
            "log": args.output, "bytes": bytes, "senders": senders, "samples": samples, "lost": lost,
            "repeated": repeated, "refused": refused, "unknown": unknown, "unfit": unfit, "restamped": restamped,
            "dropped": dropped, "beyond_share": beyond_share, "evicted": evicted,
            "whole": whole,
        })
        .to_string(),
        false => format!(
            "{path}: {bytes} bytes, {samples} samples of {senders} senders; datagrams: {lost} lost, {repeated} \
             repeated, {refused} refused, {dropped} dropped here; samples: {unknown} without a schema, {unfit} refused \
             that do not fit theirs, {restamped} with the time of their arrival (their clock differs too much), \
             {beyond_share} beyond their address's share of --limit; {evicted} other senders sent no sample"
        ),
    };
    crate::cmd::show(&(text + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_reported_while_recording_and_once() {
        let mut notices = Notices::default();
        let counts = IntakeCounts { lost: 3, refused: 5, no_room: 4, ..IntakeCounts::default() };
        let text = notices.text(counts, 0).unwrap_or_default();
        assert!(text.contains("3 datagrams lost") && text.contains("4 refused: too many"), "{text}");
        assert!(text.contains("1 datagrams or schemas refused"), "{text}");
        notices.look(counts, 0, Duration::ZERO);
        assert_eq!(notices.text(counts, 0), None);
    }

    #[test]
    fn a_disk_that_stands_still_costs_bounded_memory_even_for_empty_datagrams() {
        let mut batch = Batch::default();
        let from = SocketAddr::from(([127, 0, 0, 1], 1));
        (0..4_000_000).for_each(|_| batch.push(from, &[]));
        assert!(batch.dropped > 0 && batch.ends.len() * size_of_val(&batch.ends[0]) <= BUFFER);
        let (kept, dropped) = (batch.ends.len() as u64, batch.dropped);
        assert_eq!(kept + dropped, 4_000_000);
        batch.clear();
        batch.push(from, &[1]);
        assert_eq!((batch.ends.len(), batch.dropped), (1, 0));
    }
}
