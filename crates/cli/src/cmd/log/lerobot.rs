//! `khz log export --format lerobot`: logs as the episodes of a dataset of LeRobot.

use super::shared::{Progress, conclude, open};
use crate::cmd::{note, show};
use anyhow::{Context, Result, bail};
use khz_export::lerobot::Lerobot;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Writes a new dataset; one that is cut off has no `meta/info.json`.
pub fn write(logs: &[PathBuf], folder: &Path, fps: u32, task: &str) -> Result<ExitCode> {
    if folder.symlink_metadata().is_ok() {
        bail!("{} is there already: a dataset of LeRobot is written into a new folder", folder.display());
    }
    let mut dataset = Lerobot::new(fps, task);
    let mut code = ExitCode::SUCCESS;
    for path in logs {
        let mut log = open(path)?;
        let mut progress = Progress::new(log.size());
        let added = dataset.add(&mut log, |at| progress.at(at));
        drop(progress);
        let episode = added.with_context(|| path.display().to_string())?;
        show(&format!("{}: {} frames in {:.3} s\n", path.display(), episode.frames, episode.seconds))?;
        if episode.left_out > 0 {
            note(format_args!(
                "{} frames are left out: not all joints were measured there",
                episode.left_out
            ));
        }
        if conclude(path, &episode.damage) != ExitCode::SUCCESS {
            code = ExitCode::from(1);
        }
    }
    dataset.write(folder)?;
    show(&format!("{}\n", folder.display()))?;
    Ok(code)
}
