//! `khz rtt send`: the sender.

use super::PORT;
use super::require::figures;
use crate::cmd::progress::left;
use crate::cmd::{BAD_INPUT, complain, note, output, print_line, show, show_progress, stop_on_signal, warn};
use anyhow::{Context, Result, bail};
use khz_page::{Distribution, duration};
use khz_report::require::{Required, Requirements, amended, lines};
use khz_rt::Wake;
use khz_rtt::{
    Ask, Checkpoints, Live, Log, Logged, Network, Plan, Receive, Results, Sender, Tap, compare_receive,
    comparison_page,
};
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Send requests to devices at a fixed rate and measure their round trips.
///
/// Exit code 0: every planned request was sent and answered. 1: some were not. 2: it could not be measured.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz rtt send 192.168.1.10 --duration 60s --report one.html --save one.json
  khz rtt send 192.168.1.10 192.168.1.11 --rate 500 --link-mbit 100
  khz rtt send 192.168.1.255 --ask broadcast --expect 12
  khz rtt send 192.168.1.10 --compare-receive")]
pub struct Args {
    /// The devices, as HOST or HOST:PORT; for `--ask broadcast` the broadcast address.
    #[arg(required = true)]
    targets: Vec<String>,
    /// Ticks per second; 0 for the next as soon as all have answered.
    #[arg(long, default_value_t = 1000.0, allow_negative_numbers = true)]
    rate: f64,
    /// Duration, for example 10s or 1h30m; a number alone is seconds. With `--rate 0` give `--ticks` instead.
    #[arg(long, default_value = "10s", value_parser = crate::duration::parse_seconds)]
    duration: Duration,
    /// How many ticks to plan, instead of a duration; those the sender is too late for are counted as never asked.
    #[arg(long)]
    ticks: Option<u64>,
    /// Bytes of a datagram, 48 to 65507.
    #[arg(long, default_value_t = 200)]
    payload: usize,
    /// How to send: together (all requests, then all answers), singly (one after the other), broadcast.
    #[arg(long, default_value = "together")]
    ask: Ask,
    /// Devices that have to answer a broadcast; by default, as many as have answered before.
    #[arg(long, default_value_t = 0)]
    expect: usize,
    /// How to wait for answers: block, hybrid (spin a moment, then block) or spin.
    #[arg(long, default_value = "hybrid")]
    receive: Receive,
    /// Time for which the kernel polls the network card when nothing is there (SO_BUSY_POLL), µs.
    #[arg(long, default_value_t = 0, value_name = "US")]
    busy_poll: u32,
    /// Run with each way of receiving in turns (block, hybrid, spin, busy polling) and compare them.
    #[arg(long, conflicts_with_all = ["log", "stream", "save"])]
    compare_receive: bool,
    /// Use timestamps of the kernel (and of the network card, if it has them), to separate time in the stack from
    /// time on the wire.
    #[arg(long)]
    stamps: bool,
    /// How to wait for the tick: sleep, hybrid, spin, timerfd or sigwait.
    #[arg(long, default_value = "hybrid")]
    wake: Wake,
    /// Real-time priority, 1 to 98; 0 for an ordinary thread.
    #[arg(long, default_value_t = 80)]
    priority: u8,
    /// The only CPU to run on.
    #[arg(long)]
    cpu: Option<usize>,
    /// Address and port to send from.
    #[arg(long)]
    bind: Option<SocketAddr>,
    /// Mbit/s of this computer's link: with it, the measurement is compared with the computed time on the wire.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4_000))]
    link_mbit: Option<u32>,
    /// Mbit/s of the devices' links, if they differ.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4_000), requires = "link_mbit")]
    device_mbit: Option<u32>,
    /// Store-and-forward switches between this computer and the devices.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=100), requires = "link_mbit")]
    switches: u32,
    /// Delay of each switch in each direction besides storing the datagram, µs.
    #[arg(long, default_value_t = 0.0, requires = "link_mbit")]
    switch_delay_us: f64,
    /// Limits of the measurement, as NAME=LIMIT,… (lost=0,planned_p99=1ms); exit code 1 if one is not met. `help` lists the
    /// names.
    #[arg(long, value_name = "NAME=LIMIT,…", value_parser = |text: &str| Requirements::parse(text, &figures()))]
    require: Option<Requirements<Results>>,
    /// A name for the results.
    #[arg(long, default_value = "round trips")]
    name: String,
    /// Write the HTML report here, which must not be there yet.
    #[arg(long)]
    report: Option<PathBuf>,
    /// Write the results here, for comparing them later; must not be there yet, unless --resume continues it.
    #[arg(long)]
    save: Option<PathBuf>,
    /// Save the results so far to the file of --save at this interval.
    #[arg(long, value_name = "SECONDS", requires = "save", value_parser = clap::value_parser!(u32).range(1..))]
    checkpoint: Option<u32>,
    /// Continue from the file of --save, if it is there, with the remaining ticks.
    #[arg(long, requires = "save")]
    resume: bool,
    /// Log every round trip to this file, which must not be there yet.
    #[arg(long)]
    log: Option<PathBuf>,
    /// Overwrite the files of --report and --save if they are there.
    #[arg(long)]
    force: bool,
    /// Stream every round trip to `khz log record` at this HOST or HOST:PORT; without a port, 7756.
    #[arg(long)]
    stream: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Measures, then shows the results.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut plan = plan(&args)?;
    check_outputs(&args)?;
    let stop = stop_on_signal()?;
    if args.compare_receive {
        return compare(&args, &plan, &stop);
    }
    let before = if args.resume { earlier(&args, &plan)? } else { None };
    if let Some(before) = &before {
        let made = before.planned.as_ref().map_or(before.ticks, |planned| planned.periods);
        plan.ticks = plan.ticks.saturating_sub(made);
        note(format_args!("going on after {made} planned ticks, {} are left", plan.ticks));
    }
    let mut sender = Sender::new(plan.clone())?;
    let (tap, log) = logged(&args)?.unzip();
    if let Some(tap) = tap {
        sender = sender.log_to(tap);
    }
    let mut saved = Saved { replaces: args.force || before.is_some() };
    let results = watched(sender, &plan, &stop, Whole { args: &args, saved: &mut saved, results: before })?;
    let required = required(&args, &results);
    // What was measured is worth more than any of these: that one fails costs none of the others.
    let mut kept = true;
    let mut keep = |outcome: Result<()>| {
        if let Err(error) = outcome {
            complain(&error);
            kept = false;
        }
    };
    if let Some(path) = &args.save {
        keep(saved.write(path, &results));
    }
    if let Some(log) = log {
        let logged = log.finish().context("the log is not whole");
        keep(logged.map(|Logged { written, dropped }| {
            if args.log.is_some() {
                print_line(format_args!("{written} round trips logged, {dropped} dropped"));
            }
        }));
    }
    if let Some(path) = &args.report {
        let page = results.page().verdict(&amended(results.verdict(), &required));
        let saved = output::save(path, args.force, |file| write!(file, "{page}"));
        keep(saved.map(drop).map_err(Into::into));
    }
    show(&if args.json {
        format!("{:#}\n", summary(&results, &required))
    } else {
        table(&results, &required)
    })?;
    if let Some(silence) = silence(&results) {
        warn(silence);
    }
    if !kept {
        return Ok(ExitCode::from(BAD_INPUT));
    }
    let met = required.iter().all(|required| required.met);
    Ok(ExitCode::from(u8::from(!met || !results.problems().is_empty())))
}

/// Where every round trip goes, if anywhere.
fn logged(args: &Args) -> Result<Option<(Tap, Log)>> {
    let to = args.stream.as_ref().map(|to| resolve(to, super::RECORDER_PORT)).transpose()?;
    if args.log.is_none() && to.is_none() {
        return Ok(None);
    }
    let begun = Log::begin(args.log.as_deref(), to);
    let what = || match &args.log {
        Some(path) => format!("cannot begin the log {}", path.display()),
        None => "cannot stream the round trips".to_owned(),
    };
    begun.with_context(what).map(Some)
}

/// What is required, and whether it is met.
fn required(args: &Args, results: &Results) -> Vec<Required> {
    args.require.as_ref().map_or_else(Vec::new, |requirements| requirements.check(results))
}

/// What to do when no answer came and nothing else shows why.
fn silence(results: &Results) -> Option<String> {
    let counts = results.counts();
    let unexplained = counts.answered == 0 && counts.sent > 0 && counts.refused + counts.unreachable == 0;
    unexplained.then(|| match counts.echoed {
        0 => format!(
            "no answer: {} sent, none came back. Check address and port, that the device is on (`khz rtt echo` on a \
             computer), and firewalls on the way",
            counts.sent
        ),
        echoed => format!(
            "no answer: of {} sent, {echoed} came back unchanged, as from a plain echo. Run `khz rtt echo` on the device; a \
             program of your own must set the kind to reply (docs/ethernet.md)",
            counts.sent
        ),
    })
}

fn network(args: &Args) -> Option<Network> {
    const MBIT: u32 = 1_000_000;
    let link = args.link_mbit?;
    Some(Network {
        sender_bits_per_second: link * MBIT,
        device_bits_per_second: args.device_mbit.unwrap_or(link) * MBIT,
        switches: args.switches,
        switch_delay_ns: (args.switch_delay_us * 1e3).clamp(0.0, 1e9) as i64,
    })
}

fn plan(args: &Args) -> Result<Plan> {
    let targets = args.targets.iter().map(|target| resolve(target, PORT)).collect::<Result<Vec<_>>>()?;
    let rate_hz = (args.rate != 0.0).then_some(args.rate);
    let by_duration = || match rate_hz {
        Some(rate) => Ok((args.duration.as_secs_f64() * rate).max(1.0) as u64),
        None => bail!("without a rate say how many --ticks to make"),
    };
    Ok(Plan {
        name: args.name.clone(),
        ask: args.ask,
        expect: args.expect,
        rate_hz,
        ticks: args.ticks.map_or_else(by_duration, Ok)?,
        payload: args.payload,
        receive: args.receive,
        wake: args.wake,
        setup: super::setup(args.priority, args.cpu),
        bind: args.bind,
        network: network(args),
        stamps: args.stamps,
        busy_poll_us: args.busy_poll,
        ..Plan::new(targets)
    })
}

fn resolve(target: &str, port: u16) -> Result<SocketAddr> {
    let found = match target.parse::<SocketAddr>() {
        Ok(address) => return Ok(address),
        Err(_) => target.to_socket_addrs().or_else(|_| (target, port).to_socket_addrs()),
    };
    let found = found.with_context(|| format!("no such host: {target}"))?.next();
    found.with_context(|| format!("no address is known for {target}"))
}

/// Every way of receiving, side by side.
fn compare(args: &Args, plan: &Plan, stop: &AtomicBool) -> Result<ExitCode> {
    let runs = compare_receive(plan, stop)?;
    if let Some(path) = &args.report {
        let page = comparison_page(&runs);
        output::save(path, args.force, |file| write!(file, "{page}"))?;
    }
    if args.json {
        let all = runs.iter().map(|run| (run.name.clone(), summary(run, &required(args, run))));
        show(&format!("{:#}\n", Value::Object(all.collect())))?;
    } else {
        let head: String = QUANTILES.iter().map(|(label, _)| format!("{:>11}", heading(label))).collect();
        let mut text = format!("{:<26}{head}{:>8}{:>13}\n", "over planned periods", "lost", "never asked");
        for run in &runs {
            let missed = run.planned.as_ref().map_or(0, |planned| planned.missed);
            text += &format!("{:<26}{}{:>8}{missed:>13}\n", run.name, planned_row(run), run.counts().lost());
            lines(&required(args, run))
                .chain(run.notes.iter().cloned())
                .for_each(|line| text += &format!("  {line}\n"));
        }
        show(&text)?;
    }
    let met = |run: &Results| required(args, run).iter().all(|required| required.met);
    let whole = runs.iter().all(|run| run.problems().is_empty() && met(run));
    Ok(ExitCode::from(u8::from(!whole)))
}

/// What an earlier run saved, if it saved anything.
fn earlier(args: &Args, plan: &Plan) -> Result<Option<Results>> {
    let Some(path) = args.save.as_deref().filter(|path| path.exists()) else { return Ok(None) };
    let named = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", named()))?;
    let results =
        Results::from_json(&text).map_err(|why| anyhow::anyhow!("cannot go on from {}: {why}", named()))?;
    if let Err(why) = results.goes_on_with(plan) {
        bail!("cannot go on from {}: {why}; name another file for --save", named());
    }
    Ok(Some(results))
}

/// Checks that each output can be written and does not exist yet, except one that is resumed.
fn check_outputs(args: &Args) -> Result<()> {
    output::check_all(&args.report, [], args.force)?;
    output::check_all(&args.log, [], false)?;
    let goes_on = |path: &&PathBuf| args.resume && path.exists();
    output::check_all(args.save.iter().filter(|path| !goes_on(path)), [], args.force)?;
    let all: Vec<&PathBuf> = [&args.report, &args.log, &args.save].into_iter().flatten().collect();
    Ok(output::distinct(&all)?)
}

/// Writes results whole or not at all: a file from before stays until the new one is complete.
struct Saved {
    /// The file that is there is ours, or may be overwritten.
    replaces: bool,
}

impl Saved {
    fn write(&mut self, path: &Path, results: &Results) -> Result<()> {
        let text = serde_json::to_string(results)?;
        output::save(path, self.replaces, |file| file.write_all(text.as_bytes()))?;
        self.replaces = true;
        Ok(())
    }
}

/// What was measured so far, by this run and by those before it.
struct Whole<'a> {
    args: &'a Args,
    saved: &'a mut Saved,
    results: Option<Results>,
}

impl Whole<'_> {
    fn add(&mut self, more: Results) {
        match &mut self.results {
            Some(results) => results.absorb(&more),
            None => self.results = Some(more),
        }
    }

    /// Looks at the run again and again until it is done, and saves what there is. What cannot be saved now may be at
    /// the next checkpoint, or at the end.
    fn keep(&mut self, checkpoints: &mut Checkpoints, every: Duration, done: &AtomicBool) {
        let mut asked = Instant::now();
        while !done.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
            if asked.elapsed() >= every {
                checkpoints.ask();
                asked = Instant::now();
            }
            self.look(checkpoints);
        }
        self.look(checkpoints);
    }

    fn look(&mut self, checkpoints: &mut Checkpoints) {
        let Some(more) = checkpoints.look() else { return };
        self.add(more);
        let (Some(path), Some(results)) = (&self.args.save, &mut self.results) else { return };
        if let Err(error) = self.saved.write(path, results) {
            let note = format!("a checkpoint could not be saved: {error:#}");
            if !results.notes.contains(&note) {
                results.notes.push(note);
            }
        }
    }
}

/// Runs with a live line on the terminal, and checkpoints if they are wanted.
fn watched(sender: Sender, plan: &Plan, stop: &AtomicBool, mut whole: Whole<'_>) -> Result<Results> {
    let (live, done) = (Live::default(), AtomicBool::new(false));
    let every = whole.args.checkpoint.map(|seconds| Duration::from_secs(seconds.into()));
    let (sender, mut checkpoints) = match every {
        None => (sender, None),
        Some(_) => {
            let (sender, checkpoints) = sender.checkpoints();
            (sender, Some(checkpoints))
        }
    };
    let rest = std::thread::scope(|scope| {
        if std::io::stderr().is_terminal() {
            scope.spawn(|| {
                let started = Instant::now();
                while !done.load(Ordering::Relaxed) {
                    show_live(&live, plan, started.elapsed());
                }
                show_progress("\r\x1b[K");
            });
        }
        let keeper = checkpoints.as_mut().zip(every).map(|(checkpoints, every)| {
            let (whole, done) = (&mut whole, &done);
            scope.spawn(move || whole.keep(checkpoints, every, done))
        });
        let rest = sender.run(stop, &live);
        done.store(true, Ordering::Relaxed);
        if let Some(Err(panic)) = keeper.map(|keeper| keeper.join()) {
            std::panic::resume_unwind(panic);
        }
        rest
    })?;
    whole.add(match &checkpoints {
        Some(checkpoints) => checkpoints.rest(rest),
        None => rest,
    });
    whole.results.context("nothing was measured")
}

fn show_live(live: &Live, plan: &Plan, elapsed: Duration) {
    std::thread::sleep(Duration::from_millis(250));
    let (ticks, missed) = (live.ticks.load(Ordering::Relaxed), live.missed.load(Ordering::Relaxed));
    let left = left((ticks + missed) as f64 / plan.ticks.max(1) as f64, elapsed);
    show_progress(&format!(
        "\r\x1b[K{ticks} of {} ticks, {missed} never asked, {} answers, {} incomplete, worst {}{left}",
        plan.ticks,
        live.answered.load(Ordering::Relaxed),
        live.incomplete.load(Ordering::Relaxed),
        duration(live.worst_ns.load(Ordering::Relaxed) as f64),
    ));
}

const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("p9999", 0.9999), ("max", 1.0)];

/// `p99.9`, as people write what JSON has as `p999`.
fn heading(label: &str) -> String {
    match label.strip_prefix("p99") {
        Some(rest) if !rest.is_empty() => format!("p99.{rest}"),
        _ => label.to_owned(),
    }
}

fn percentiles(values: &Distribution) -> Value {
    QUANTILES.iter().map(|(label, q)| ((*label).to_owned(), json!(values.quantile(*q)))).collect()
}

/// A line of percentiles.
fn row(values: &Distribution) -> String {
    cells(|q| values.quantile(q), "—")
}

/// A line of the percentiles over planned periods.
fn planned_row(results: &Results) -> String {
    cells(|q| results.planned.as_ref()?.round_trip_ns(q), "no answer")
}

fn cells(value: impl Fn(f64) -> Option<f64>, none: &str) -> String {
    let cells = QUANTILES.iter().map(|(_, q)| value(*q).map_or(none.to_owned(), duration));
    cells.map(|cell| format!("{cell:>11}")).collect()
}

pub(super) fn summary(results: &Results, required: &[Required]) -> Value {
    let counts = results.counts();
    let device = |d: &khz_rtt::DeviceResults| {
        json!({ "address": d.address, "counts": d.counts, "lost": d.counts.lost(),
                "round_trip_ns": percentiles(&d.round_trip.values) })
    };
    let mut summary = json!({
        "verdict": amended(results.verdict(), required),
        "required": required,
        "ticks": results.ticks,
        "incomplete_ticks": results.incomplete,
        "counts": counts,
        "lost": counts.lost(),
        "unexpected": results.unexpected,
        "unattended": results.unattended,
        "round_trip_ns": percentiles(&results.round_trips()),
        "cycle_ns": percentiles(&results.cycle.values),
        "late_tick_ns": percentiles(&results.late_ticks.values),
        "devices": results.devices.iter().map(device).collect::<Vec<_>>(),
        "stack_p50_ns": results.stack().into_iter().map(|(what, ns)| (what, json!(ns))).collect::<serde_json::Map<_, _>>(),
        "modes": results.modes(),
        "notes": results.notes,
        "theory": results.theory(),
        "shares": results.shares(),
        "steal_ns": results.steal_ns,
        "grade": results.setup.grade,
    });
    if let (Some(summary), Some(planned)) = (summary.as_object_mut(), &results.planned) {
        let of_planned =
            QUANTILES.iter().map(|(label, q)| ((*label).to_owned(), json!(planned.round_trip_ns(*q))));
        let cycle =
            QUANTILES.iter().map(|(label, q)| ((*label).to_owned(), json!(results.cycle_planned_ns(*q))));
        summary.extend([
            ("planned_ticks".into(), json!(planned.periods)),
            ("missed_ticks".into(), json!(planned.missed)),
            ("duration_ns".into(), json!(planned.duration_ns)),
            ("achieved_rate_hz".into(), json!(planned.achieved_rate_hz(results.ticks))),
            ("round_trip_planned_ns".into(), of_planned.collect()),
            ("late_tick_planned_ns".into(), percentiles(&planned.late)),
            ("cycle_planned_ns".into(), cycle.collect()),
        ]);
    }
    summary
}

/// The counts, in sentences.
fn headline(results: &Results) -> String {
    let counts = results.counts();
    let (devices, plural) = (results.devices.len(), if results.devices.len() == 1 { "" } else { "s" });
    let mut text = format!("{devices} device{plural}, ");
    match &results.planned {
        None => text += &format!("{} ticks\n", results.ticks),
        Some(planned) => {
            text += &format!(
                "{} of {} planned ticks asked ({} never asked) in {}",
                results.ticks,
                planned.periods,
                planned.missed,
                duration(planned.duration_ns as f64)
            );
            let achieved = planned.achieved_rate_hz(results.ticks);
            text += &achieved.map_or(String::new(), |rate| format!(", {rate:.1} Hz"));
            text += &results.rate_hz.map_or("\n".into(), |rate| format!(" of {rate} Hz\n"));
        }
    }
    text += &format!(
        "{} sent, {} answered, {} lost, {} late, {} duplicates, {} out of order, {} corrupt; {} unexpected datagrams\n",
        counts.sent,
        counts.answered,
        counts.lost(),
        counts.late,
        counts.duplicates,
        counts.out_of_order,
        counts.corrupt,
        results.unexpected.total(),
    );
    if results.incomplete > 0 {
        let (incomplete, ticks) = (results.incomplete, results.ticks);
        text += &format!("{incomplete} of {ticks} ticks incomplete: an answer was late or lost\n");
    }
    for (count, what) in [
        (counts.refused, "refused (ICMP port unreachable)"),
        (counts.unreachable, "unreachable (ICMP)"),
        (counts.echoed, "returned unchanged (a plain echo)"),
        (counts.unsent, "not sent"),
    ] {
        if count > 0 {
            text += &format!("{count} questions {what}\n");
        }
    }
    text
}

pub(super) fn table(results: &Results, required: &[Required]) -> String {
    let verdict = amended(results.verdict(), required);
    let mut text = format!("{}\n{}\n", verdict.text, headline(results));
    let head: String = QUANTILES.iter().map(|(label, _)| format!("{:>11}", heading(label))).collect();
    text += &format!("{:<24}{head}\n", "");
    let trips = results.round_trips();
    let rows = [
        ("round trip", &trips),
        ("whole cycle, complete", &results.cycle.values),
        ("late tick", &results.late_ticks.values),
    ];
    for (name, values) in rows {
        text += &format!("{name:<24}{}\n", row(values));
    }
    if let Some(planned) = &results.planned {
        let cycle = cells(|q| results.cycle_planned_ns(q), "no answer");
        text += &format!("{:<24}{cycle}\n", "whole cycle, planned");
        text += &format!("{:<24}{}\n", "round trip over planned", planned_row(results));
        text += &format!("{:<24}{}\n", "late tick over planned", row(&planned.late));
    }
    for (at, (what, ns)) in [results.account(), results.stack()].concat().into_iter().enumerate() {
        let blank = if at == 0 { "\n" } else { "" };
        text += &format!("{blank}{:>11}  {what}\n", duration(ns));
    }
    for (at, mode) in results.modes().iter().enumerate() {
        text += &format!(
            "\nperiodic mode {}: every {}, lasts {}, adds up to {}, seen {} times",
            at + 1,
            duration(mode.period_s * 1e9),
            if mode.lasts_s > 0.0 { duration(mode.lasts_s * 1e9) } else { "one tick".into() },
            duration(mode.added_ns),
            mode.count
        );
    }
    lines(required).for_each(|line| text += &format!("\n{line}"));
    results.notes.iter().for_each(|note| text += &format!("\nnote: {note}"));
    text + &format!(
        "\nsteal meanwhile {}; sending thread {}\n",
        duration(results.steal_ns as f64),
        results.setup.grade
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_headed_as_people_write_them() {
        let headings = QUANTILES.map(|(label, _)| heading(label));
        assert_eq!(headings, ["p50", "p90", "p99", "p99.9", "p99.99", "max"]);
    }
}
