//! Where libmujoco is on this computer.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names the library, or a folder to search.
pub const VARIABLE: &str = "KHZ_MUJOCO";

/// Prints the folder of the Python package, without importing it.
const ASK_PYTHON: &str = "import importlib.util as u; s = u.find_spec('mujoco'); \
     print(s.submodule_search_locations[0] if s else '')";

/// Where to look, the first that is there wins. `Err`: the variable names no file.
pub fn library() -> Result<PathBuf, PathBuf> {
    if let Some(named) = env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        return if named.is_dir() { within(&named).ok_or(named) } else { exists(named) };
    }
    // Left to the loader.
    Ok(of_python().unwrap_or_else(|| PathBuf::from("libmujoco.so")))
}

fn exists(path: PathBuf) -> Result<PathBuf, PathBuf> {
    if path.is_file() { Ok(path) } else { Err(path) }
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

/// The library of the `mujoco` package of the active Python environment, or of `python3`.
fn of_python() -> Option<PathBuf> {
    let active = env::var_os("VIRTUAL_ENV").map(|folder| Path::new(&folder).join("bin/python"));
    let pythons = active.into_iter().chain([PathBuf::from("python3")]);
    pythons.filter_map(|python| folder_of_package(python.as_os_str())).find_map(|folder| within(&folder))
}

fn folder_of_package(python: &OsStr) -> Option<PathBuf> {
    let mut command = Command::new(python);
    // Not from the current folder, in which there may be one of this name.
    let asked = command.args(["-I", "-c", ASK_PYTHON]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let said = String::from_utf8(asked.ok()?.stdout).ok()?;
    Some(PathBuf::from(said.trim())).filter(|folder| folder.is_dir())
}

/// The library in a folder: that of the package, or of an archive of a release (`lib/`).
fn within(folder: &Path) -> Option<PathBuf> {
    let is_library = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.starts_with("libmujoco.so") || (name.starts_with("libmujoco.") && name.ends_with(".dylib"))
    };
    [folder.to_owned(), folder.join("lib"), folder.join("mujoco")].iter().find_map(|folder| {
        let files = folder.read_dir().ok()?.flatten().map(|entry| entry.path());
        // What waits for somebody to write, as a FIFO does, is none.
        files.filter(|path| path.is_file() && is_library(path)).max()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(within(folder.path()), None);
        std::fs::create_dir(folder.path().join("lib")).unwrap();
        std::fs::write(folder.path().join("lib/libmujoco.so.3.17.0"), "").unwrap();
        assert_eq!(within(folder.path()).unwrap(), folder.path().join("lib/libmujoco.so.3.17.0"));
        std::fs::write(folder.path().join("libmujoco.so.4.0.0"), "").unwrap();
        assert_eq!(within(folder.path()).unwrap(), folder.path().join("libmujoco.so.4.0.0"));
    }
}
