//! `khz policy`: what an ONNX model is, and the section of a robot file for it.

use super::{BAD_INPUT, complain, show};
use anyhow::{Context, Result, anyhow};
use khz_controllers::policy::{Engine, Evaluator, read};
use khz_file::draft::policy::{LARGEST, Section, Source, of_policy};
use khz_policy::{Port, metadata, sha256};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Evaluations that are timed, and after how long no further one is.
const TIMED: usize = 200;
const LONGEST: Duration = Duration::from_secs(2);

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
    /// Show its inputs and outputs, its evaluation time on this computer, and its metadata
    #[command(after_help = "Examples:
  khz policy show robots/models/arm_policy.onnx")]
    Show(Of),
    /// Print the section `[controller]` of a robot file for it, as far as its metadata and its trainer's files beside it determine it
    ///
    /// The exit code is 1 if a line is `# not known`.
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
    let refused = |error: &dyn std::fmt::Display| {
        complain(&anyhow!("{}: {error}", path.display()));
        Ok(ExitCode::from(BAD_INPUT))
    };
    let (file, sha256) = (path.display().to_string(), sha256(&bytes));
    let model = match Evaluator::load(&bytes, Engine::Auto) {
        Ok(model) => model,
        Err(error) => return refused(&error),
    };
    match &args.command {
        Command::Show(_) => show(&table(model, &file, &sha256)?)?,
        Command::Toml(_) => {
            let section = section(path, &file, None)?;
            show(&section.text)?;
            if !section.is_complete {
                complain(&anyhow!("not all of the policy was understood: see the lines with `# not known`"));
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The section of a robot file for the model at `path`, from it and the files beside it. The robot file names the model `called`.
///
/// # Errors
/// It is no model, or one of the files cannot be read.
pub(super) fn section(path: &Path, called: &str, servos: Option<&[String]>) -> Result<Section> {
    let bytes = read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let model = Evaluator::load(&bytes, Engine::Auto).with_context(|| path.display().to_string())?;
    let metadata = metadata(&bytes).with_context(|| path.display().to_string())?;
    let mut files = Vec::new();
    let beside = beside(path);
    for file in &beside {
        let is_small = fs::metadata(file).is_ok_and(|about| about.is_file() && about.len() <= LARGEST as u64);
        let text = if is_small {
            fs::read_to_string(file).map_err(anyhow::Error::from)
        } else {
            Err(anyhow!("too large"))
        };
        files
            .push((name_of(file, &beside), text.with_context(|| format!("cannot read {}", file.display()))?));
    }
    let count = |ports: &[Port]| ports.first().map_or(0, |port| port.shape.iter().product());
    let (numbers, joints) = (count(model.inputs()), count(model.outputs()));
    let source =
        Source { numbers, joints, metadata: &metadata, called, sha256: &sha256(&bytes), files: &files };
    of_policy(&source, servos).map_err(|why| anyhow!(why))
}

/// The name of a file; with its path if another of them has the same.
fn name_of(file: &Path, all: &[PathBuf]) -> String {
    let is_one = all.iter().filter(|other| other.file_name() == file.file_name()).count() == 1;
    let name = file.file_name().filter(|_| is_one).unwrap_or(file.as_os_str());
    name.to_string_lossy().into_owned()
}

/// The model in a folder, or in one below it.
///
/// # Errors
/// There is none, or more than one.
pub(super) fn model_in(folder: &Path) -> Result<PathBuf> {
    if folder.is_file() {
        return Ok(folder.to_owned());
    }
    let mut folders = vec![folder.to_owned()];
    folders.extend(within(folder, Path::is_dir));
    let is_model = |file: &Path| file.extension().is_some_and(|end| end == "onnx");
    let mut models: Vec<PathBuf> = folders.iter().flat_map(|folder| within(folder, is_model)).collect();
    match (models.pop(), models.as_slice()) {
        (Some(model), []) => Ok(model),
        (None, _) => {
            let yaml = within(folder, is_yaml).into_iter().next();
            let yaml = yaml.as_deref().and_then(Path::file_name).map(|name| {
                format!("; there is `{}`: do you mean the folder above?", name.to_string_lossy())
            });
            let folder = folder.display();
            Err(anyhow!("{folder}: no `.onnx` in it, or in a folder of it{}", yaml.unwrap_or_default()))
        }
        (Some(last), others) => {
            let names: Vec<_> =
                others.iter().chain([&last]).map(|model| model.display().to_string()).collect();
            Err(anyhow!("more than one model; write which: {}", names.join(", ")))
        }
    }
}

/// YAML files that may be of its training: the one that is called as it is, or all beside it, in `params` of the folder above (as
/// `unitree_rl_lab` has it), and `base.yaml` there (as `rl_sar` has it).
fn beside(model: &Path) -> Vec<PathBuf> {
    let folder = model.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let own = model.with_extension("yaml");
    if own.is_file() {
        return vec![own];
    }
    let mut files = within(folder, is_yaml);
    files.extend(within(&folder.join("../params"), is_yaml));
    files.extend(Some(folder.join("../base.yaml")).filter(|base| base.is_file()));
    files
}

fn is_yaml(file: &Path) -> bool {
    file.extension().is_some_and(|end| end == "yaml" || end == "yml")
}

/// What is in a folder, in the order of its names.
fn within(folder: &Path, wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries.filter(|path| wanted(path)).collect();
    found.sort();
    found
}

fn table(mut model: Evaluator, file: &str, sha256: &str) -> Result<String> {
    let mut text = match &model {
        Evaluator::Own(own) => {
            let by =
                if own.producer().is_empty() { String::new() } else { format!(" by {}", own.producer()) };
            format!("{file}: {} parameters, opset {}{by}\n", own.parameters(), own.opset())
        }
        Evaluator::Library(..) => {
            let why = model.beyond().map_or_else(String::new, |why| format!("; {why}"));
            format!("{file}: evaluated by {}{why}\n", model.engine())
        }
    };
    let _ = writeln!(text, "  sha256     {sha256}");
    for (what, ports) in [("input ", model.inputs()), ("output", model.outputs())] {
        ports
            .iter()
            .for_each(|port| _ = writeln!(text, "  {what}     {} float32 {:?}", port.name, port.shape));
    }
    for (input, output) in model.inputs().iter().zip(model.outputs()).skip(1) {
        let _ =
            writeln!(text, "  carried    {} is what {} was in the decision before", input.name, output.name);
    }
    if let Evaluator::Own(own) = &model {
        let operators: Vec<String> =
            own.operators().iter().map(|(name, count)| format!("{count} {name}")).collect();
        let _ = writeln!(text, "  operators  {}", operators.join(", "));
    }
    let times_us = times_us(&mut model).with_context(|| file.to_owned())?;
    let count = times_us.len();
    let _ = writeln!(text, "  takes      {:.1} µs here (median of {count})", times_us[count / 2]);
    if let Evaluator::Own(own) = &model {
        own.metadata().iter().for_each(|(key, value)| _ = writeln!(text, "  {key} = {value}"));
    }
    Ok(text)
}

/// How long it takes, sorted; one time at least.
fn times_us(model: &mut Evaluator) -> Result<Vec<f64>> {
    let (first, mut times) = (Instant::now(), Vec::new());
    while times.is_empty() || times.len() < TIMED && first.elapsed() < LONGEST {
        let begun = Instant::now();
        model.run()?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}
