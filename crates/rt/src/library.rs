//! Shared libraries that are opened at run time: where they are on this computer.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A library that comes with a Python package, and what it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLibrary {
    /// What people call it.
    pub name: &'static str,
    /// The variable of the environment that names it, or a folder to search.
    pub variable: &'static str,
    /// The package.
    pub package: &'static str,
    /// Its file without what stands behind the first dot, as `libmujoco`.
    pub file: &'static str,
}

/// Why a library cannot be opened, whatever is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Absent {
    /// There is none, with the loader's message.
    #[error(
        "{} is not installed: run `pip install {}` in the active Python environment, or set {} to {}.so or its folder ({})",
        .0.name, .0.package, .0.variable, .0.file, .1
    )]
    Missing(&'static SharedLibrary, String),
    /// The variable names what is not there.
    #[error("{} is {}, where there is no {}.so", .0.variable, .1.display(), .0.file)]
    Named(&'static SharedLibrary, PathBuf),
    /// This program opens no libraries at all: linked statically there is no loader in the process, and musl's `dlopen` always fails, with a
    /// text that names no cause.
    #[error(
        "this khz is the static program, which cannot open libraries such as {}: use the one of `pip install kilohertz`, of the Debian \
         package or of your own build",
        .0.name
    )]
    Static(&'static SharedLibrary),
}

impl SharedLibrary {
    /// Where to look, the first that is there wins: the variable, the package of the active Python environment, that of `python3`, the
    /// loader. Allocates, and may run `python3`.
    ///
    /// # Errors
    /// The variable names no file, or this program opens none.
    pub fn find(&'static self) -> Result<PathBuf, Absent> {
        if cfg!(target_feature = "crt-static") {
            return Err(Absent::Static(self));
        }
        if let Some(named) = env::var_os(self.variable).filter(|named| !named.is_empty()) {
            let named = PathBuf::from(named);
            let found = if named.is_dir() { self.within(&named) } else { Some(named.clone()) };
            return found.filter(|path| path.is_file()).ok_or(Absent::Named(self, named));
        }
        // Left to the loader.
        Ok(self.of_python().unwrap_or_else(|| PathBuf::from(format!("{}.so", self.file))))
    }

    /// The library of the package in the active Python environment, or of `python3`.
    fn of_python(&self) -> Option<PathBuf> {
        let active = env::var_os("VIRTUAL_ENV").map(|folder| Path::new(&folder).join("bin/python"));
        let mut pythons = active.into_iter().chain([PathBuf::from("python3")]);
        pythons.find_map(|python| self.within(&folder_of(self.package, python.as_os_str())?))
    }

    /// The library in a folder: that of the package, or of an archive of a release (`lib/`).
    fn within(&self, folder: &Path) -> Option<PathBuf> {
        let is_library = |path: &PathBuf| {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            let end = name.strip_prefix(self.file).unwrap_or_default();
            end.starts_with(".so") || (end.starts_with('.') && end.ends_with(".dylib"))
        };
        ["", "lib", "capi", self.package].iter().find_map(|below| {
            let files = folder.join(below).read_dir().ok()?.flatten().map(|entry| entry.path());
            // What waits for a writer, as a FIFO does, is none.
            files.filter(|path| path.is_file() && is_library(path)).max()
        })
    }
}

/// Whether a file is a part of a library: the loader would map what is not there, and the process end by a signal.
pub fn is_cut_off(path: &Path) -> bool {
    let Ok(mut file) = File::open(path) else { return false };
    let mut head = [0; 64];
    if file.read_exact(&mut head).is_err() || !head.starts_with(b"\x7fELF\x02\x01") {
        return false;
    }
    // Of the header of a 64-bit file, little-endian: where the table of sections begins, its entries' size and their number. It
    // is at the end of the file.
    let small = |at: usize| u64::from(u16::from_le_bytes([head[at], head[at + 1]]));
    let start = head[0x28..0x30].iter().rev().fold(0, |sum: u64, &byte| (sum << 8) | u64::from(byte));
    let end = start.saturating_add(small(0x3a) * small(0x3c));
    file.metadata().is_ok_and(|file| file.len() < end)
}

/// The folder of a Python package, which is not imported.
fn folder_of(package: &str, python: &OsStr) -> Option<PathBuf> {
    let ask = format!(
        "import importlib.util as u; s = u.find_spec('{package}'); \
         print(s.submodule_search_locations[0] if s else '')"
    );
    let mut command = Command::new(python);
    // Not from the current folder, in which there may be one of this name.
    let asked = command.args(["-I", "-c", &ask]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let folder = String::from_utf8(asked.ok()?.stdout).ok()?;
    Some(PathBuf::from(folder.trim())).filter(|folder| folder.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MUJOCO: SharedLibrary =
        SharedLibrary { name: "MuJoCo", variable: "KHZ_MUJOCO", package: "mujoco", file: "libmujoco" };

    #[test]
    fn a_library_that_is_cut_off_is_noticed() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libmujoco.so");
        for (length, is_part) in [(whole.len(), false), (whole.len() - 1, true), (64, true), (63, false)] {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(is_cut_off(&path), is_part, "{length} of {} bytes", whole.len());
        }
    }

    #[test]
    fn a_library_is_found_in_the_folder_of_a_package_and_of_a_release() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(MUJOCO.within(folder.path()), None);
        std::fs::create_dir(folder.path().join("lib")).unwrap();
        std::fs::write(folder.path().join("lib/libmujoco.so.3.17.0"), "").unwrap();
        assert_eq!(MUJOCO.within(folder.path()).unwrap(), folder.path().join("lib/libmujoco.so.3.17.0"));
        std::fs::write(folder.path().join("libmujoco.so.4.0.0"), "").unwrap();
        assert_eq!(MUJOCO.within(folder.path()).unwrap(), folder.path().join("libmujoco.so.4.0.0"));
        std::fs::write(folder.path().join("libmujoco_more.so"), "").unwrap();
        assert_eq!(MUJOCO.within(folder.path()).unwrap(), folder.path().join("libmujoco.so.4.0.0"));
    }
}
