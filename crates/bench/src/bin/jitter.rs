//! Wake latency against cyclictest, on the same CPU in turns; what recording a tick costs.
//!
//! Each round runs cyclictest and `khz jitter` with the sleep and the hybrid strategy, in changing order, at
//! SCHED_FIFO 80 and 1 kHz on the last CPU. Compared are the medians over the rounds of each run's percentile.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)] // Figures on standard output are what benches are for.

use khz_bench::{Bench, Samples};
use khz_measure::jitter::{Recording, Sample};
use khz_rt::{Disturbance, Histogram};
use std::error::Error;
use std::process::Command;

/// Ticks of one run: enough for a p99, short enough for many turns.
const TICKS: u32 = 2_000;
const ROUNDS: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let bench = Bench::from_args();
    recording(&bench);
    memory(&bench);
    latency(&bench)
}

/// The percentiles of one run, ns, and the CPU its thread took, percent.
#[derive(Default)]
struct Runs {
    p50: Vec<f64>,
    p99: Vec<f64>,
    cpu: Vec<f64>,
}

impl Runs {
    fn add(&mut self, (p50, p99, cpu): (f64, f64, f64)) {
        self.p50.push(p50);
        self.p99.push(p99);
        self.cpu.push(cpu);
    }
}

fn latency(bench: &Bench) -> Result<(), Box<dyn Error>> {
    let cpu = std::thread::available_parallelism()?.get() - 1;
    let (mut peer, mut sleep, mut hybrid) = (Runs::default(), Runs::default(), Runs::default());
    for round in 0..bench.rounds(ROUNDS) {
        for turn in 0..3 {
            match (round + turn) % 3 {
                0 => peer.add(cyclictest(cpu)?),
                1 => sleep.add(khz("sleep", cpu)?),
                _ => hybrid.add(khz("hybrid", cpu)?),
            }
        }
    }
    let median = |values: &[f64]| Samples::new(values.to_vec()).median();
    let ratio = |ours: &[f64], peer: &[f64]| median(ours) / median(peer);
    println!(
        "cyclictest p50 {:.0} ns p99 {:.0} ns; sleep p50 {:.0} p99 {:.0}; hybrid p50 {:.0} p99 {:.0}",
        median(&peer.p50),
        median(&peer.p99),
        median(&sleep.p50),
        median(&sleep.p99),
        median(&hybrid.p50),
        median(&hybrid.p99)
    );
    bench.ratio("jitter_sleep_p50", ratio(&sleep.p50, &peer.p50), 1.1);
    bench.ratio("jitter_sleep_p99", ratio(&sleep.p99, &peer.p99), 1.1);
    bench.ratio("jitter_hybrid_p50", ratio(&hybrid.p50, &peer.p50), 0.05);
    bench.ratio("jitter_hybrid_p99", ratio(&hybrid.p99, &peer.p99), 0.3);
    bench.figure("jitter_hybrid_cpu", median(&hybrid.cpu), "percent", 8.0);
    Ok(())
}

fn khz(wake: &str, cpu: usize) -> Result<(f64, f64, f64), Box<dyn Error>> {
    let program = std::env::var("KHZ").unwrap_or_else(|_| "khz".into());
    let (ticks, cpu) = (TICKS.to_string(), cpu.to_string());
    let words = ["jitter", "--json", "--strict", "--wake", wake, "--ticks", &ticks, "--cpu", &cpu];
    let output = Command::new(program).args(words).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let results: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let run = &results["runs"][0];
    let number = |value: &serde_json::Value| value.as_f64().ok_or("khz jitter gave no figure");
    let wake = &run["wake_latency_ns"];
    Ok((number(&wake["p50"])?, number(&wake["p99"])?, number(&run["cpu_percent"])?))
}

/// With `-v -N` cyclictest prints every latency in nanoseconds, as `thread: cycle: latency`.
fn cyclictest(cpu: usize) -> Result<(f64, f64, f64), Box<dyn Error>> {
    let (loops, cpu) = (format!("-l{TICKS}"), format!("-a{cpu}"));
    let output = Command::new("cyclictest")
        .args(["-m", "-p80", "-i1000", "-t1", "-v", "-N", &loops, &cpu])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let latency = |line: &str| line.rsplit_once(':')?.1.trim().parse::<f64>().ok();
    let values: Vec<f64> =
        text.lines().filter(|line| line.matches(':').count() == 2).filter_map(latency).collect();
    if values.len() < TICKS as usize / 2 {
        return Err(format!(
            "cyclictest gave {} latencies: {}",
            values.len(),
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    let values = Samples::new(values);
    Ok((values.percentile(50.0), values.percentile(99.0), 0.0))
}

/// What taking in one measured tick costs: four histograms, two traces, the log of late ticks.
fn recording(bench: &Bench) {
    const TICKS: i64 = 100_000;
    let mut costs = Vec::new();
    for _ in 0..bench.rounds(50) {
        let mut recording = Recording::new(1_000_000, 100_000, 0, None);
        recording.begin(0, 0);
        let cost_ns = khz_bench::timed_ns(|| {
            for tick in 0..TICKS {
                let planned_ns = tick * 1_000_000;
                let woke_ns = planned_ns + 10_000 + tick % 977;
                let sample = Sample::in_time(planned_ns, woke_ns, woke_ns + 30, woke_ns + 9_000);
                recording.tick(sample, woke_ns, Disturbance::default());
            }
        });
        costs.push(cost_ns / TICKS as f64);
    }
    bench.figure("jitter_record_tick", Samples::new(costs).median(), "ns", 100.0);
}

/// A hundred million samples must take no more memory than the first.
fn memory(bench: &Bench) {
    let mut histogram = Histogram::new();
    histogram.record(1, 0);
    let before_kb = resident_kb();
    for sample in 0..bench.rounds(100_000_000) as i64 {
        histogram.record((sample * 7_919) % 50_000_000, sample);
    }
    let summary = std::hint::black_box(histogram.summary());
    let grown_mb = (resident_kb() - before_kb) / 1024.0;
    bench.figure(&format!("jitter_memory_{}_samples", summary.count), grown_mb, "MB", 1.0);
}

fn resident_kb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}
