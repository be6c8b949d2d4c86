//! `khz new`: a robot file to begin with, a project around it, or a model of it.

mod model;
mod project;

use super::bus::scan;
use super::output;
use super::{complain, show, tell_line, warn};
use anyhow::{Context, Result, anyhow, bail};
use khz_file::config::{ConfigError, FamilyName};
use khz_file::{RobotConfig, draft};
use khz_robot::desk::{Desk, Scan};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The largest URDF that is read, in bytes.
const LARGEST: u64 = 16 << 20;

/// Write a first robot file, a project around it, or a MuJoCo model of it
///
/// The file is checked, and its rate and formats are such that the cycle fits, as far as `khz budget` can tell. Nothing that is
/// there is overwritten without --force.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("origin").required(true).args(["from", "template", "urdf", "mjcf", "model_of"])))]
pub struct Args {
    /// Where to write the robot file, or the model; without it, robot.toml or robot.xml
    #[arg(conflicts_with_all = ["rust", "python"])]
    file: Option<PathBuf>,
    /// Write it for the servos that answer on a link: fdcanusb:/dev/ttyACM0, socketcan:can0, …; repeat it for several adapters
    #[arg(long, value_name = "LINK")]
    from: Vec<String>,
    /// With --from, ask for servos of this family only: once for all links, or once for each
    #[arg(long, value_name = FamilyName::USAGE, requires = "from", conflicts_with_all = ["template", "urdf", "mjcf", "model_of"])]
    family: Vec<FamilyName>,
    /// Copy a built-in emulated robot: pan_tilt, leg3, arm6, openarm_like, quadruped, quadruped_walk, quadruped_mujoco,
    /// quadruped_robstride or mixed
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// Write it for the rotating joints of a URDF, with their names, limits and inertia; emulated
    #[arg(long, value_name = "FILE")]
    urdf: Option<PathBuf>,
    /// Write it for the actuated joints of a MuJoCo model, with its gains, limits, IMU and keyframe; simulated in this model
    #[arg(long, value_name = "FILE")]
    mjcf: Option<PathBuf>,
    /// Write no robot file but a first MuJoCo model of the joints of this one: with their names, inertia, friction, stops, gravity
    /// and start; the rest is for you to fill in
    #[arg(long, value_name = "ROBOT", conflicts_with_all = ["rust", "python"])]
    model_of: Option<PathBuf>,
    /// Make a Rust project in this folder, with the robot file in it
    #[arg(long, value_name = "DIR", conflicts_with = "python")]
    rust: Option<PathBuf>,
    /// Where the crate `kilohertz` is, for --rust; without it, where this program was built
    #[arg(long, value_name = "PATH", requires = "rust")]
    kilohertz: Option<PathBuf>,
    /// Make a Python project in this folder, with the robot file in it
    #[arg(long, value_name = "DIR")]
    python: Option<PathBuf>,
    /// Overwrite what is there
    #[arg(long)]
    force: bool,
}

/// Writes the files, and says what to do next.
///
/// # Errors
/// There is nothing to make it of, or a file cannot be written.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(robot) = &args.model_of {
        let path = args.file.clone().unwrap_or_else(|| PathBuf::from("robot.xml"));
        model::write(robot, &path, args.force)?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = robot_path(args);
    let (text, others) = robot(args)?;
    let Drafted { text, wrong } = fitting(text, &path.display().to_string())?;
    let beside = |(name, text): &(&str, &str)| (path.with_file_name(name), (*text).to_owned());
    let others: Vec<_> = others.iter().map(beside).collect();
    let (mut files, next) = if let Some(folder) = &args.rust {
        project::rust(folder, text, args.kilohertz.as_deref())?
    } else if let Some(folder) = &args.python {
        project::python(folder, text)
    } else {
        let next = next(&path.display().to_string(), !args.from.is_empty());
        (vec![(path, text)], next)
    };
    files.extend(others);
    write(&files, args.force)?;
    if let Some(wrong) = wrong {
        show(&listed(&files))?;
        complain(&wrong.into());
        return Ok(ExitCode::FAILURE);
    }
    show(&format!("{}next:\n{}\n", listed(&files), indented(&next)))?;
    Ok(ExitCode::SUCCESS)
}

/// What to do with a new robot file; for a real one in the order of a bring-up.
fn next(path: &str, is_real: bool) -> String {
    let (check, run) = (format!("khz check {path}"), format!("khz run {path} --duration 5s"));
    if !is_real {
        return format!("{check}\n{run}");
    }
    format!(
        "{check}\n# Name the joints. Then turn each by hand and compare its angle (docs/bring-up.md, step 4).\n\
         # Then hold one joint with small limits (step 5), and then all:\n{run}"
    )
}

/// Where the robot file goes.
fn robot_path(args: &Args) -> PathBuf {
    let folder = args.rust.as_ref().or(args.python.as_ref());
    match (folder, &args.file) {
        (Some(folder), _) => folder.join("robot.toml"),
        (None, Some(file)) => file.clone(),
        (None, None) => PathBuf::from("robot.toml"),
    }
}

/// Paths from the folder of the robot file, and what is in them.
type Files = &'static [(&'static str, &'static str)];

/// A new robot file, and what is wrong with it.
struct Drafted {
    text: String,
    wrong: Option<ConfigError>,
}

/// The text of the robot file, and the files that belong to it.
fn robot(args: &Args) -> Result<(String, Files)> {
    match &args.template {
        None => Ok((drawn_up(args)?, &[])),
        Some(name) => {
            let template = draft::template(name).map_err(|error| anyhow!(error))?;
            Ok((template.text.to_owned(), template.others))
        }
    }
}

/// The text of the robot file, of what there is.
fn drawn_up(args: &Args) -> Result<String> {
    if let Some(path) = &args.urdf {
        let text = read_urdf(path).with_context(|| format!("cannot read {}", path.display()))?;
        let robot = draft::urdf::of_urdf(&text).with_context(|| path.display().to_string())?;
        if robot.contains("CHECK:") {
            tell_line(
                "some limits of this URDF say nothing of the robot: see the lines with CHECK in the file",
            );
        }
        return Ok(robot);
    }
    if let Some(model) = &args.mjcf {
        let called = seen_from(&robot_path(args), model)?;
        return draft::model::of_model(model, &called).with_context(|| model.display().to_string());
    }
    let links = &args.from;
    if links.is_empty() {
        bail!("write --from, --template, --urdf or --mjcf");
    }
    let mut desk = Desk::open_for(&args.family, links).map_err(|error| anyhow!(error))?;
    let scan = Scan { last: u8::MAX, timeout_ns: 20_000_000, together: false };
    let found = scan::everywhere(&mut desk, &scan, warn)?;
    if found.is_empty() {
        bail!("no servo answered on {}: {}", links.join(", "), scan::nobody(links));
    }
    for each in &found {
        let amiss = each.family.by_hand().amiss(&each.answer);
        amiss.map(|why| scan::amiss(each, &why)).iter().for_each(warn);
        each.twins().iter().for_each(|twins| warn(format_args!("{twins}: give each its own id")));
    }
    draft::of_found(links, &desk.places(), &found).map_err(|error| anyhow!(error))
}

/// What a robot file calls a model: by its place from there if it is in the same folder or below, else by its whole path.
fn seen_from(robot: &Path, model: &Path) -> Result<String> {
    let model = model.canonicalize().with_context(|| format!("cannot read {}", model.display()))?;
    let folder = robot.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().unwrap_or_default();
    let below = model.strip_prefix(&folder).ok().filter(|_| folder.is_absolute());
    Ok(below.unwrap_or(&model).display().to_string())
}

/// A device, or what is no URDF, may have no end.
fn read_urdf(path: &Path) -> Result<String> {
    let mut text = String::new();
    File::open(path)?.take(LARGEST + 1).read_to_string(&mut text)?;
    match text.len() as u64 {
        ..=LARGEST => Ok(text),
        _ => bail!("it is larger than 16 MiB, which no URDF is: meshes are files of their own"),
    }
}

/// The file at the rate it was made for if the cycle fits, or as near to it as it can. A file that is wrong stays as it is: its
/// owner knows what to correct.
fn fitting(text: String, name: &str) -> Result<Drafted> {
    let file = match khz_budget::File::read(&text, name) {
        Ok(file) => file,
        Err(wrong) => return Ok(Drafted { text, wrong: Some(wrong) }),
    };
    if file.predict().fits() {
        return Ok(Drafted { text, wrong: None });
    }
    let rate_hz = RobotConfig::parse(&text, name)?.timing.rate_hz;
    let fit = file.fit(rate_hz)?;
    tell_line(format_args!("with the defaults the cycle does not fit; {}", fit.text()));
    Ok(Drafted { text: fit.text, wrong: None })
}

/// Writes all of them, or none if one of them is there.
fn write(files: &[(PathBuf, String)], force: bool) -> Result<()> {
    for (path, _) in files {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        output::check(path, force)?;
    }
    for (path, text) in files {
        let mut out = output::Output::new(path, force)?;
        out.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
        out.keep()?;
    }
    Ok(())
}

fn listed(files: &[(PathBuf, String)]) -> String {
    files.iter().map(|(path, _)| format!("written: {}\n", path.display())).collect()
}

fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("  {line}\n")).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_that_is_wrong_is_kept_with_the_lines_to_correct() {
        let text = draft::template("leg3").unwrap().text.replace("rate_hz = 1000", "rate_hz = -1");
        let Drafted { text: kept, wrong } = fitting(text.clone(), "leg.toml").unwrap();
        assert_eq!(kept, text);
        assert!(wrong.unwrap().to_string().contains("leg.toml:"));
    }
}
