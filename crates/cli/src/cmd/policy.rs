//! `khz policy`: what an ONNX model is, and the section of a robot file for it.

use super::{BAD_INPUT, complain, show};
use anyhow::{Context, Result, anyhow};
use khz_controllers::policy::{draft, read};
use khz_policy::{Model, sha256};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Evaluations that are timed.
const TIMED: usize = 200;

/// Look into a trained policy, an ONNX model
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz policy show robots/models/arm_policy.onnx
  khz policy toml policy.onnx >> robot.toml")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show what it takes and gives, how long it takes here, and what its file says of it
    #[command(after_help = "Examples:
  khz policy show robots/models/arm_policy.onnx")]
    Show(Of),
    /// Print the section `[controller]` of a robot file for it, as far as its file says what belongs there
    #[command(after_help = "Examples:
  khz policy toml policy.onnx
  khz policy toml policy.onnx >> robot.toml")]
    Toml(Of),
}

#[derive(clap::Args)]
struct Of {
    /// The ONNX file
    model: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// If the file cannot be read or the result not be written.
pub fn run(args: &Args) -> Result<ExitCode> {
    let (Command::Show(Of { model: path }) | Command::Toml(Of { model: path })) = &args.command;
    let bytes = read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let model = match Model::parse(&bytes) {
        Ok(model) => model,
        Err(error) => {
            complain(&anyhow!("{}: {error}", path.display()));
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    let (file, sha256) = (path.display().to_string(), sha256(&bytes));
    match args.command {
        Command::Show(_) => show(&table(model, &file, &sha256))?,
        Command::Toml(_) => show(&draft(&model, &file, &sha256))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn table(mut model: Model, file: &str, sha256: &str) -> String {
    let by = if model.producer().is_empty() { String::new() } else { format!(" by {}", model.producer()) };
    let mut text = format!("{file}: {} parameters, opset {}{by}\n", model.parameters(), model.opset());
    let _ = writeln!(text, "  sha256     {sha256}");
    for (what, ports) in [("input ", model.inputs()), ("output", model.outputs())] {
        ports
            .iter()
            .for_each(|port| _ = writeln!(text, "  {what}     {} float32 {:?}", port.name, port.shape));
    }
    let operators: Vec<String> =
        model.operators().iter().map(|(name, count)| format!("{count} {name}")).collect();
    let _ = writeln!(text, "  operators  {}", operators.join(", "));
    let _ = writeln!(text, "  takes      {:.1} µs here (median of {TIMED})", median_us(&mut model));
    for (key, value) in model.metadata() {
        let _ = writeln!(text, "  {key} = {value}");
    }
    text
}

fn median_us(model: &mut Model) -> f64 {
    let mut times: Vec<_> = (0..TIMED)
        .map(|_| {
            let begun = Instant::now();
            model.run();
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[TIMED / 2].as_secs_f64() * 1e6
}
