//! Where `khz` is.

use std::path::PathBuf;

/// The program `khz`: that of the environment variable KHZ, one beside this program, or the one in PATH.
pub fn khz() -> PathBuf {
    let named = std::env::var_os("KHZ").filter(|named| !named.is_empty()).map(PathBuf::from);
    let beside = || {
        let own = std::env::current_exe().ok()?;
        Some(own.parent()?.join("khz")).filter(|path| path.is_file())
    };
    named.or_else(beside).unwrap_or_else(|| "khz".into())
}
