//! UDP round trips against sockperf's ping-pong, forty devices, and the memory of a long run.
//!
//! The program itself takes words that choose parts: `loopback`, `veth`, `forty`, `memory`, and of the comparisons
//! `unpaced`, `unpaced_spin`, `unpaced_block`, `paced`, `paced_spin`.
#![allow(missing_docs, clippy::print_stdout)]

use anyhow::{Context, Result, bail};
use khz_bench::{Bench, Samples, timed_ns};
use khz_rtt::{Ledger, Packet, PacketKind, Turn, modes};
use serde_json::Value;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// Rounds of each comparison, and seconds of each run in it.
const ROUNDS: usize = 10;
const SECONDS: f64 = 2.0;
const PRIORITY: &str = "80";

fn main() -> Result<()> {
    let bench = Bench::from_args();
    if wanted(&["loopback"]) {
        let loopback =
            Place { name: "loopback", address: "127.0.0.1", near: String::new(), far: String::new() };
        compare(&bench, &loopback)?;
    }
    if wanted(&["veth"]) {
        match Veth::make() {
            Ok(veth) => compare(&bench, &veth.place())?,
            Err(error) => println!("not measured on veth: {error:#}"),
        }
    }
    if wanted(&["forty"])
        && let Err(error) = forty(&bench)
    {
        println!("forty devices not measured: {error:#}");
    }
    if wanted(&["memory"]) {
        hundred_million(&bench);
    }
    Ok(())
}

/// Whether one of these is among the words of the command line, or none of its kind is.
fn wanted(names: &[&str]) -> bool {
    const PARTS: [&str; 4] = ["loopback", "veth", "forty", "memory"];
    let of_kind = |word: &String| PARTS.contains(&word.as_str()) == PARTS.contains(&names[0]);
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).filter(of_kind).collect();
    words.is_empty() || words.iter().any(|word| names.contains(&word.as_str()))
}

/// Where client and server run: the namespaces' names, empty for this one.
struct Place {
    name: &'static str,
    address: &'static str,
    near: String,
    far: String,
}

/// How the clients measure.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    paced: bool,
    receive: &'static str,
    wake: &'static str,
    goal: f64,
}

/// Ours as it is without options, and ours spinning, which is what sockperf does between its ticks. Blocking on
/// both sides shows the same code path.
const WAYS: [Way; 5] = [
    Way { name: "unpaced", paced: false, receive: "hybrid", wake: "hybrid", goal: 1.0 },
    Way { name: "unpaced_spin", paced: false, receive: "spin", wake: "hybrid", goal: 1.0 },
    Way { name: "unpaced_block", paced: false, receive: "block", wake: "hybrid", goal: 1.0 },
    Way { name: "paced", paced: true, receive: "hybrid", wake: "hybrid", goal: 0.9 },
    Way { name: "paced_spin", paced: true, receive: "spin", wake: "spin", goal: 0.9 },
];

/// Median and 99th percentile of a run, ns.
type Pair = (f64, f64);

fn compare(bench: &Bench, place: &Place) -> Result<()> {
    let khz = std::env::var("KHZ").unwrap_or_else(|_| "target/release/khz".into());
    let port = "17755";
    let _ours = Server::start(
        &place.far,
        &[&khz, "rtt", "echo", "--bind", place.address, "--port", port, "--priority", PRIORITY],
    )?;
    let _peer = Server::start(&place.far, &["chrt", "-f", PRIORITY, "sockperf", "sr", "-i", place.address])?;
    std::thread::sleep(std::time::Duration::from_millis(500));
    for way in WAYS.into_iter().filter(|way| wanted(&[way.name])) {
        let (mut our_tails, mut peer_tails, mut broken) = (Vec::new(), Vec::new(), None);
        let keep =
            |result: Result<Pair>, tails: &mut Vec<f64>, broken: &mut Option<anyhow::Error>| match result {
                Ok((median, tail)) => {
                    tails.push(tail);
                    median
                }
                Err(error) => {
                    *broken = Some(error);
                    f64::NAN
                }
            };
        let fault = std::cell::RefCell::new(&mut broken);
        let (ours, peer) = bench.interleave(
            ROUNDS,
            || keep(run_ours(&khz, place, way, port), &mut our_tails, &mut fault.borrow_mut()),
            || keep(run_peer(place, way), &mut peer_tails, &mut fault.borrow_mut()),
        );
        if let Some(error) = broken {
            return Err(error);
        }
        let (our_tails, peer_tails) = (Samples::new(our_tails), Samples::new(peer_tails));
        let name = format!("rtt_{}_{}", place.name, way.name);
        println!(
            "{name}: p50 {:.0} against {:.0} ns, p99 {:.0} against {:.0} ns",
            ours.median(),
            peer.median(),
            our_tails.median(),
            peer_tails.median()
        );
        bench.ratio(&format!("{name}_p50"), ours.median() / peer.median(), way.goal);
        bench.ratio(&format!("{name}_p99"), our_tails.median() / peer_tails.median(), way.goal);
    }
    Ok(())
}

fn run_ours(khz: &str, place: &Place, way: Way, port: &str) -> Result<Pair> {
    let target = format!("{}:{port}", place.address);
    let (rate, ticks) = if way.paced { ("1000", SECONDS * 1e3) } else { ("0", SECONDS * 2e4) };
    let ticks = format!("{ticks}");
    let words = [
        khz,
        "rtt",
        "send",
        &target,
        "--rate",
        rate,
        "--ticks",
        &ticks,
        "--receive",
        way.receive,
        "--wake",
        way.wake,
        "--priority",
        PRIORITY,
        "--json",
    ];
    let results: Value = serde_json::from_str(&output_whatever(&place.near, &words)?)?;
    let at = |q: &str| results["round_trip_ns"][q].as_f64().with_context(|| format!("no {q} in the results"));
    Ok((at("p50")?, at("p99")?))
}

fn run_peer(place: &Place, way: Way) -> Result<Pair> {
    let seconds = format!("{}", SECONDS as u32);
    let mut words = vec![
        "chrt",
        "-f",
        PRIORITY,
        "sockperf",
        "ping-pong",
        "-i",
        place.address,
        "-m",
        "200",
        "-t",
        &seconds,
        "--full-rtt",
    ];
    if way.paced {
        words.push("--mps=1000");
    }
    if way.receive == "spin" {
        words.push("--nonblocked");
    }
    let text = output(&place.near, &words)?;
    let at =
        |percent: &str| percentile(&text, percent).with_context(|| format!("sockperf named no {percent}"));
    Ok((at("50.000")?, at("99.000")?))
}

/// A line such as `---> percentile 99.000 =   23.456`, in µs, among colours and prefixes.
fn percentile(text: &str, percent: &str) -> Option<f64> {
    let wanted = format!("percentile {percent}");
    let line = text.lines().find(|line| line.contains(&wanted))?;
    Some(line.rsplit('=').next()?.trim().parse::<f64>().ok()? * 1e3)
}

/// The forty devices of the study: one broadcast against asking one after the other.
fn forty(bench: &Bench) -> Result<()> {
    let khz = std::env::var("KHZ").unwrap_or_else(|_| "target/release/khz".into());
    let lab = |name: &str, seconds: usize| -> Result<Value> {
        let seconds = format!("{}", bench.rounds(seconds));
        let words = [
            "rtt",
            "lab",
            "--devices",
            "40",
            "--only",
            name,
            "--duration",
            &seconds,
            "--json",
            "--force",
            "--report",
        ];
        let words: Vec<&str> =
            [khz.as_str()].into_iter().chain(words).chain(["target/rtt-lab.html"]).collect();
        let mut message: Value =
            serde_json::from_str(&output_whatever("", &words)?).context("the lab printed nothing")?;
        Ok(message["experiments"][name].take())
    };
    let broadcast = lab("all by broadcast, 1 kHz", 60)?;
    let singly = lab("all singly, 100 Hz", 20)?;
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let (at_once_ns, singly_ns) = (number(&broadcast["cycle_ns"]["p50"]), number(&singly["cycle_ns"]["p50"]));
    println!("forty devices: cycle p50 {at_once_ns:.0} ns by broadcast, {singly_ns:.0} ns singly");
    let counts = &broadcast["counts"];
    println!(
        "forty devices by broadcast: {} sent, {} answered, {} lost, {} late, {} incomplete of {} ticks, {} ns stolen",
        counts["sent"],
        counts["answered"],
        broadcast["lost"],
        counts["late"],
        broadcast["incomplete_ticks"],
        broadcast["ticks"],
        broadcast["steal_ns"]
    );
    bench.ratio("rtt_forty_broadcast_cycle_p50", at_once_ns / singly_ns, 0.6);
    bench.figure("rtt_forty_lost", number(&broadcast["lost"]), "answers", 0.0);
    Ok(())
}

/// The accounting of a run with forty devices and 100 million answers: its memory, and the cost of an answer.
fn hundred_million(bench: &Bench) {
    let devices: Vec<SocketAddr> = (1..=40).map(|last| ([10, 0, 0, last], 7755).into()).collect();
    let ticks = bench.rounds(2_500_000) as u64;
    let mut ledger = Ledger::new(1, 0, &devices);
    let total_ns = timed_ns(|| {
        for sequence in 0..ticks {
            let now_ns = sequence as i64 * 1_000_000;
            let ends_ns = now_ns + 1_000_000;
            let (planned_ns, begun_ns, period_ns) = (now_ns, now_ns, 1_000_000);
            ledger.tick(Turn { sequence, planned_ns, begun_ns, ends_ns, period_ns, ..Turn::default() });
            (0..devices.len()).for_each(|device| ledger.asks(device, now_ns));
            let reply = Packet { kind: PacketKind::Reply, run: 1, sequence, sent_ns: now_ns, held_ns: 500 };
            for (at, device) in devices.iter().enumerate() {
                let took_ns = 100_000 + (sequence as i64 * 7_919 + at as i64 * 104_729) % 90_000;
                ledger.receive(&reply, *device, now_ns + took_ns);
            }
            ledger.done(now_ns);
        }
    });
    let analysed_ns = timed_ns(|| {
        let tally = ledger.tally();
        let tails =
            tally.devices.iter().filter_map(|device| device.round_trip.measured().values.quantile(0.9999));
        println!("p99.99 of {} devices, {} modes", tails.count(), modes(tally.excursions.all()).len());
    });
    println!("analysed in {:.0} ms", analysed_ns / 1e6);
    let answers = ticks as f64 * devices.len() as f64;
    println!("{answers:.0} measurements booked");
    bench.figure("rtt_book_one_answer", total_ns / answers, "ns", 300.0);
    bench.figure("rtt_hundred_million_memory", peak_mb(), "MB", 1000.0);
}

/// The most memory this process ever had (proc(5), VmHWM).
fn peak_mb() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kb.map_or(f64::NAN, |kb| kb / 1e3)
}

/// A program in a namespace.
fn command(space: &str, words: &[&str]) -> Command {
    let prefix: &[&str] = if space.is_empty() { &[] } else { &["ip", "netns", "exec", space] };
    let all: Vec<&str> = prefix.iter().chain(words).copied().collect();
    let mut command = Command::new(all[0]);
    command.args(&all[1..]).stdin(Stdio::null());
    command
}

fn output(space: &str, words: &[&str]) -> Result<String> {
    let output = command(space, words).output().with_context(|| format!("cannot run {}", words[0]))?;
    if !output.status.success() {
        bail!("{} failed: {}", words.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// As [`output`], of a program whose exit code is a finding.
fn output_whatever(space: &str, words: &[&str]) -> Result<String> {
    let output = command(space, words).output().with_context(|| format!("cannot run {}", words[0]))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A program that runs until dropped.
struct Server(Child);

impl Server {
    fn start(space: &str, words: &[&str]) -> Result<Self> {
        let mut command = command(space, words);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Self(child.with_context(|| format!("cannot start {}", words[0]))?))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two namespaces and a veth pair between them, gone when dropped.
struct Veth {
    near: String,
    far: String,
}

impl Veth {
    fn make() -> Result<Self> {
        let space = |end: &str| format!("khzbench-{}-{end}", std::process::id());
        let veth = Self { near: space("near"), far: space("far") };
        let (near, far) = (veth.near.as_str(), veth.far.as_str());
        for words in [
            vec!["ip", "netns", "add", near],
            vec!["ip", "netns", "add", far],
            vec!["ip", "-n", near, "link", "add", "v0", "type", "veth", "peer", "name", "v0", "netns", far],
            vec!["ip", "-n", near, "addr", "add", "10.78.0.1/24", "dev", "v0"],
            vec!["ip", "-n", far, "addr", "add", "10.78.0.2/24", "dev", "v0"],
            vec!["ip", "-n", near, "link", "set", "v0", "up"],
            vec!["ip", "-n", far, "link", "set", "v0", "up"],
        ] {
            output("", &words)?;
        }
        Ok(veth)
    }

    fn place(&self) -> Place {
        Place { name: "veth", address: "10.78.0.2", near: self.near.clone(), far: self.far.clone() }
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        for space in [&self.near, &self.far] {
            let _ = output("", &["ip", "netns", "del", space]);
        }
    }
}
