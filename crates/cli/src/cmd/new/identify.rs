//! `khz new --identify`: a robot file whose controller makes the recording that `khz identify` needs.

use crate::cmd::output::{self, Output};
use crate::cmd::robot_file::RobotFile;
use crate::cmd::show;
use anyhow::{Context, Result};
use khz_file::RobotConfig;
use khz_file::config::ControllerKind;
use khz_file::edit::{rewritten, set, table};
use khz_page::for_shell;
use std::io::Write;
use std::path::PathBuf;

/// Writes the robot file with the other controller, and says what to do with it.
///
/// # Errors
/// The robot file is wrong, has a joint without limits, or the new one cannot be written.
pub fn write(robot: &PathBuf, path: &PathBuf, force: bool) -> Result<()> {
    output::check_all([path], [robot], force)?;
    let RobotFile { text, name } = RobotFile::read(Some(robot))?;
    let first = RobotConfig::parse(&text, &name)?.servos.first().map(|servo| servo.name.clone());
    let text = rewritten(&text, |file| {
        file.remove("controller");
        set(&mut table(file, "controller")["name"], &ControllerKind::Excite.word().into());
    })?;
    RobotConfig::parse(&text, &path.display().to_string())
        .with_context(|| format!("{name} cannot be excited"))?;
    let mut out = Output::new(path, force)?;
    out.write_all(text.as_bytes())?;
    out.keep()?;
    let [robot, new] = [robot, path].map(|path| for_shell(&path.display().to_string()));
    show(&format!(
        "written: {new}: it moves one joint after another, within the limits of {robot}\nnext, with room around the robot:\n  \
         khz run {new} --log identify.tlog\n  khz identify identify.tlog --joint {} --robot {robot} --write\n",
        first.unwrap_or_default(),
    ))
}
