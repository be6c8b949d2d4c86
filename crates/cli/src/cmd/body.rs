//! `khz body`: the mechanics of a robot file as a model for a simulator.

use super::output::{self, Output};
use super::robot_file::RobotFile;
use super::show;
use anyhow::{Result, bail};
use khz_robot::RobotConfig;
use khz_robot::config::RobotBody;
use khz_robot::draft::mjcf;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write a first MuJoCo model of the emulated joints
///
/// The joints have the names of the servos, with the inertia, friction, stops, gravity and start of `joint`; a body of kind
/// `quadruped` has its sizes and mass. The rest is for you to fill in.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz body --mjcf robot.toml -o robot.xml")]
pub struct Args {
    /// The robot file; without it, the built-in quadruped
    robot: Option<PathBuf>,
    /// As MJCF, for MuJoCo
    #[arg(long, required = true)]
    mjcf: bool,
    /// The file to write; without it, standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file if it is there
    #[arg(long)]
    force: bool,
}

/// Writes the model, and says how to use it.
///
/// # Errors
/// The robot file is wrong, or the model cannot be written.
pub fn run(args: &Args) -> Result<ExitCode> {
    output::check_all(&args.output, &args.robot, args.force)?;
    let RobotFile { text, name } = RobotFile::read(args.robot.as_deref())?;
    let robot = RobotConfig::parse(&text, &name)?;
    if let Some(body) = robot.body.as_ref().and_then(RobotBody::mujoco) {
        bail!("{name} has a model already, {}: write one for a robot file without it", body.model);
    }
    let model = mjcf(&robot);
    let Some(path) = &args.output else {
        show(&model)?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut out = Output::new(path, args.force)?;
    out.write_all(model.as_bytes())?;
    out.keep()?;
    // In a robot file a path counts from its folder.
    let whole = std::path::absolute(path)?;
    show(&format!(
        "written to {}; in the robot file:\n\n  [body]\n  kind = \"mujoco\"\n  model = \"{}\"\n  keyframe = \"start\"\n",
        path.display(),
        whole.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}
