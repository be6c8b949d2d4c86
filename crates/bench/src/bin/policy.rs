//! What a trained policy costs the loop: the quadruped of `khz run` at 1 kHz by a policy of 412,044 parameters at 50 Hz, against its own
//! controller without one.
//!
//! Both run in turns, in real time. The policy has the layers of Unitree's for the G1 and random weights; its robot stands.
#![forbid(unsafe_code)]

#[path = "../../../policy/tests/all/onnx.rs"]
#[allow(dead_code, reason = "more than this needs")]
mod onnx;

use anyhow::{Context, Result, bail};
use khz_bench::{Bench, Samples};
use onnx::{Graph, whole};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Of a run that ends early.
const ATTEMPTS: usize = 5;

/// What it sees, two hidden layers and a third, and the joints.
const LAYERS: [usize; 5] = [480, 512, 256, 128, 12];

/// Sees 48 numbers of each of ten decisions.
const OBSERVE: &str = "observe = [
    { term = \"projected_gravity\", history = 10 },
    { term = \"base_ang_vel\", history = 10 },
    { term = \"phase\", offsets = [0.0, 2.1, 4.2], history = 10 },
    { term = \"joint_pos\", history = 10 },
    { term = \"joint_vel\", scale = [0.05], history = 10 },
    { term = \"last_action\", history = 10 },
]
";

fn main() -> Result<()> {
    let bench = Bench::from_args();
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("policy.onnx"), model())?;
    let robots = [robot(folder.path(), true)?, robot(folder.path(), false)?];
    let mut seen: [[Vec<f64>; 3]; 2] = Default::default();
    for round in 0..bench.rounds(20) {
        for place in 0..2 {
            let of = (place + round) % 2;
            let report = run(&robots[of], folder.path(), of == 0)?;
            for (values, name) in
                seen[of].iter_mut().zip(["wake_latency_ns", "loop_compute_ns", "decision_ns"])
            {
                values.extend(report[name]["p99"].as_f64());
            }
        }
    }
    let [[wake, compute, decision], [wake_without, compute_without, _]] = seen.map(|run| run.map(median));
    bench.figure("policy_decision_p99", decision / 1e3, "us", f64::INFINITY);
    bench.figure("policy_wake_p99", wake / 1e3, "us", f64::INFINITY);
    bench.figure("policy_loop_compute_p99", compute / 1e3, "us", f64::INFINITY);
    bench.ratio("policy_wake_p99_to_without", wake / wake_without, 1.05);
    bench.ratio("policy_loop_compute_p99_to_without", compute / compute_without, 1.05);
    Ok(())
}

/// NaN, if nothing was measured.
fn median(values: Vec<f64>) -> f64 {
    if values.is_empty() { f64::NAN } else { Samples::new(values).median() }
}

/// The quadruped of the repository, with the policy or as it is.
fn robot(folder: &Path, has_policy: bool) -> Result<PathBuf> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/quadruped_policy.toml");
    let text = std::fs::read_to_string(file).context("no robots/quadruped_policy.toml")?;
    let part = |from: &str, to: &str| -> Result<&str> {
        let start = text.find(from).with_context(|| format!("no {from}"))?;
        let end = text.find(to).with_context(|| format!("no {to}"))?;
        Ok(&text[start..end])
    };
    let controller = match has_policy {
        true => {
            let kept = part("rate_hz = 50", "[[controller.observe]]")?;
            format!(
                "[controller]\nname = \"policy\"\nmodel = \"policy.onnx\"\n{kept}{OBSERVE}[controller.action]\nscale = [0.01]\n"
            )
        }
        false => "[controller]\nname = \"stand_and_squat\"\nlink_m = 0.15\nstand_m = 0.22\nsquat_m = 0.0\nrise_s = 1.0\n".to_owned(),
    };
    let text = text.replace(part("[controller]", "[supervisor]")?, &format!("{controller}\n"));
    let path = folder.join(if has_policy { "policy.toml" } else { "without.toml" });
    std::fs::write(&path, text)?;
    Ok(path)
}

/// The summary of six seconds. A run that others on this computer ended is made again.
fn run(robot: &Path, folder: &Path, has_policy: bool) -> Result<Value> {
    for _ in 0..ATTEMPTS {
        let khz = std::env::var("KHZ").unwrap_or_else(|_| "khz".into());
        let mut command = Command::new(khz);
        command.arg("run").arg(robot).args(["--duration", "6s", "--json", "--no-report"]);
        let output = command.current_dir(folder).stdin(Stdio::null()).output().context("cannot start khz")?;
        let message = || format!("no summary of the run: {}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).with_context(message)?;
        let decisions = report["decisions"].as_u64().unwrap_or_default();
        if output.status.success() && (decisions > 100) == has_policy {
            return Ok(report);
        }
    }
    bail!("{ATTEMPTS} runs in a row ended early: is the computer busy?")
}

/// Layers with `Elu` between them, and weights that keep the numbers small.
fn model() -> Vec<u8> {
    let mut random = 42_u64;
    let mut weights = |count: usize, inputs: usize| -> Vec<f32> {
        let one = |_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((random >> 40) as f32 / (1 << 23) as f32 - 1.0) / (inputs as f32).sqrt()
        };
        (0..count).map(one).collect()
    };
    let [inputs, .., outputs] = LAYERS.map(|size| size as u64);
    let mut graph = Graph::default().input("obs", &[1, inputs]).output("actions", &[1, outputs]);
    let mut before = "obs".to_owned();
    for (number, pair) in LAYERS.windows(2).enumerate() {
        let [from, to] = [pair[0], pair[1]];
        let is_last = number + 2 == LAYERS.len();
        let [w, b, sum, out] = ["w", "b", "sum", "out"].map(|name| format!("{name}{number}"));
        let sum = if is_last { "actions".to_owned() } else { sum };
        graph = graph
            .floats(&w, &[to as u64, from as u64], &weights(from * to, from))
            .floats(&b, &[to as u64], &weights(to, from))
            .node_with("Gemm", &[&before, &w, &b], &[&sum], &[whole("transB", 1)]);
        if !is_last {
            graph = graph.node("Elu", &[&sum], &[&out]);
        }
        before = out;
    }
    graph.file()
}
