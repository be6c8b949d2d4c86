//! `khz new --model-of`: the joints of a robot file as a model for a simulator.

use crate::cmd::output::{self, Output};
use crate::cmd::robot_file::RobotFile;
use crate::cmd::show;
use anyhow::{Result, bail};
use khz_file::RobotConfig;
use khz_file::config::RobotBody;
use khz_file::draft::mjcf;
use std::io::Write;
use std::path::PathBuf;

/// Writes the model of a robot file, and prints how to use it.
///
/// # Errors
/// The robot file is wrong, or the model cannot be written.
pub fn write(robot: &PathBuf, model: &PathBuf, force: bool) -> Result<()> {
    output::check_all([model], [robot], force)?;
    let RobotFile { text, name } = RobotFile::read(Some(robot))?;
    let robot = RobotConfig::parse(&text, &name)?;
    if let Some(body) = robot.body.as_ref().and_then(RobotBody::mujoco) {
        bail!("{name} has a model already, {}: write one for a robot file without it", body.model);
    }
    let mut out = Output::new(model, force)?;
    out.write_all(mjcf(&robot).as_bytes())?;
    out.keep()?;
    // In a robot file a path counts from its folder.
    let whole = std::path::absolute(model)?;
    show(&format!(
        "written: {}\nin the robot file:\n\n  [body]\n  kind = \"mujoco\"\n  model = \"{}\"\n  keyframe = \"start\"\n",
        model.display(),
        whole.display()
    ))
}
