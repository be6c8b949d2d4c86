//! A folder that becomes an archive: files with the modes they will have.

use crate::shell;
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const PLAIN: u32 = 0o644;
const PROGRAM: u32 = 0o755;

/// The folder; paths in it are relative.
pub struct Tree(pub PathBuf);

impl Tree {
    /// A folder in it, made with those above it.
    pub fn folder(&self, at: &str) -> Result<PathBuf> {
        let folder = self.0.join(at);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    /// Where a file goes, its folder made.
    pub fn place(&self, at: &str) -> Result<PathBuf> {
        self.folder(at.rsplit_once('/').map_or("", |(folder, _)| folder))?;
        Ok(self.0.join(at))
    }

    /// A file with this content.
    pub fn write(&self, at: &str, content: impl AsRef<[u8]>) -> Result<()> {
        let place = self.place(at)?;
        fs::write(&place, content).with_context(|| format!("cannot write {}", place.display()))?;
        mode(&place, PLAIN)
    }

    /// As [`Tree::write`], to be executed.
    pub fn script(&self, at: &str, content: impl AsRef<[u8]>) -> Result<()> {
        self.write(at, content)?;
        mode(&self.0.join(at), PROGRAM)
    }

    /// A file as it is.
    pub fn copy(&self, from: &Path, at: &str) -> Result<()> {
        self.write(at, fs::read(from).with_context(|| format!("cannot read {}", from.display()))?)
    }

    /// A folder with all that git tracks in it. To git a link to another folder is a file: what that folder has is copied.
    pub fn copy_all(&self, from: &Path, at: &str) -> Result<()> {
        let listed = shell::output(shell::command("git", &["ls-files", "-z"]).current_dir(from))?;
        listed.split_terminator('\0').try_for_each(|file| {
            let (from, at) = (from.join(file), format!("{at}/{file}"));
            if from.is_dir() { self.copy_all(&from, &at) } else { self.copy(&from, &at) }
        })
    }

    /// Every file in it, relative and sorted.
    pub fn files(&self) -> Result<Vec<String>> {
        let found = shell::output(
            shell::command("find", &[".", "-type", "f", "-printf", r"%P\n"]).current_dir(&self.0),
        )?;
        let mut files: Vec<String> = found.lines().map(str::to_owned).collect();
        files.sort();
        Ok(files)
    }

    /// Compresses files in place, without their names and times.
    pub fn compress(&self, files: &[String]) -> Result<()> {
        shell::output(shell::command("gzip", &["-9n", "--"]).args(files).current_dir(&self.0)).map(drop)
    }
}

fn mode(file: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(file, fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the mode of {}", file.display()))
}

/// Makes a file executable by all.
pub fn executable(file: &Path) -> Result<()> {
    mode(file, PROGRAM)
}
