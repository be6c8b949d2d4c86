//! `khz new`: a robot file to begin with, and a project around it.

mod project;

use super::output;
use super::{show, tell_line};
use anyhow::{Context, Result, anyhow, bail};
use khz_measure::budget;
use khz_robot::RobotConfig;
use khz_robot::config::FamilyName;
use khz_robot::desk::{Desk, Scan};
use khz_robot::draft;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The largest URDF that is read, in bytes.
const LARGEST: u64 = 16 << 20;

/// Make a robot file to begin with, and a project around it
///
/// The file is checked, and its rate and formats are such that the cycle fits, as far as `khz budget` can tell. Nothing that is
/// there is overwritten without --force.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("origin").required(true).args(["from", "template", "urdf"])))]
pub struct Args {
    /// Where to write the robot file; robot.toml without it
    #[arg(conflicts_with_all = ["rust", "python"])]
    file: Option<PathBuf>,
    /// Of the servos that answer on a link: fdcanusb:/dev/ttyACM0, socketcan:can0, …
    #[arg(long, value_name = "LINK")]
    from: Option<String>,
    /// With --from, ask for servos of this family only
    #[arg(long, value_name = "moteus|damiao|robstride|cubemars", requires = "from")]
    family: Option<FamilyName>,
    /// A robot that comes with the program: pan_tilt, leg3, arm6, openarm_like, quadruped, quadruped_robstride or mixed, emulated
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// Of the joints of a URDF that turn: names, limits and inertia; emulated
    #[arg(long, value_name = "FILE")]
    urdf: Option<PathBuf>,
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
    let text = fitting(robot(args)?)?;
    let (files, next) = if let Some(folder) = &args.rust {
        project::rust(folder, text, args.kilohertz.as_deref())?
    } else if let Some(folder) = &args.python {
        project::python(folder, text)
    } else {
        let file = args.file.clone().unwrap_or_else(|| PathBuf::from("robot.toml"));
        let next = format!("khz check {0}\nkhz run {0} --duration 5s", file.display());
        (vec![(file, text)], next)
    };
    write(&files, args.force)?;
    show(&format!("{}next:\n{}\n", listed(&files), indented(&next)))?;
    Ok(ExitCode::SUCCESS)
}

/// The text of the robot file.
fn robot(args: &Args) -> Result<String> {
    if let Some(name) = &args.template {
        return draft::template(name)
            .map(|template| template.text.to_owned())
            .map_err(|error| anyhow!(error));
    }
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
    let Some(link) = &args.from else { bail!("write --from, --template or --urdf") };
    let mut desk = Desk::open(&[link]).map_err(|error| anyhow!(error))?;
    if let Some(family) = args.family {
        desk.expect(family);
    }
    let scan = Scan { last: u8::MAX, timeout_ns: 20_000_000, together: false };
    let mut found = Vec::new();
    for bus in 0..desk.buses() {
        found.extend(desk.scan(bus, &scan)?);
    }
    if found.is_empty() {
        bail!("no servo answered on {link}: are they powered, terminated, and at the bus's bit rates?");
    }
    draft::of_found(link, &found).map_err(|error| anyhow!(error))
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

/// The file at the rate it was made for if the cycle fits, or as near to it as it can.
fn fitting(text: String) -> Result<String> {
    let file = budget::File::read(&text, "the new robot file")?;
    if file.predict().fits() {
        return Ok(text);
    }
    let rate_hz = RobotConfig::parse(&text, "the new robot file")?.timing.rate_hz;
    let fit = file.fit(rate_hz)?;
    tell_line(format_args!("with the defaults the cycle does not fit; {}", fit.text()));
    Ok(fit.text)
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
