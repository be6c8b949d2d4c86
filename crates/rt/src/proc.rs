//! Reading what the kernel reports in `/proc` and `/sys`.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the file system the facts are read from: the real one, or a directory that stands for another
/// machine, so that everything read this way can be tested.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// This machine.
    #[must_use]
    pub fn system() -> Root {
        Root::at("/")
    }

    /// A directory laid out like a root.
    #[must_use]
    pub fn at(directory: impl Into<PathBuf>) -> Root {
        Root(directory.into())
    }

    /// Whether this is the running machine and not a picture of one.
    #[must_use]
    pub fn is_system(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// The real path of an absolute path.
    #[must_use]
    pub fn path(&self, absolute: &str) -> PathBuf {
        self.0.join(absolute.trim_start_matches('/'))
    }

    /// A file's text without trailing blanks, or `None` if it cannot be read.
    #[must_use]
    pub fn read(&self, absolute: &str) -> Option<String> {
        let bytes = fs::read(self.path(absolute)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\0', ' ']).to_owned())
    }

    /// A file holding one integer.
    #[must_use]
    pub fn number(&self, absolute: &str) -> Option<i64> {
        self.read(absolute)?.trim().parse().ok()
    }

    /// Names in a directory, sorted; none if it cannot be read.
    #[must_use]
    pub fn list(&self, absolute: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(absolute)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Whether a path exists.
    #[must_use]
    pub fn has(&self, absolute: &str) -> bool {
        self.path(absolute).exists()
    }
}

/// The value of a `Key: value` line, as in `/proc/self/status` or `/proc/meminfo`.
#[must_use]
pub fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':')).map(str::trim)
}

/// The CPUs named by a list such as `0-3,8`; unreadable parts name none.
#[must_use]
pub fn cpu_list(text: &str) -> Vec<usize> {
    let part = |part: &str| {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            // No machine has more CPUs than this; a nonsense range must not fill the memory.
            (Ok(first), Ok(last)) if last < 65_536 => first..last + 1,
            _ => 0..0,
        }
    };
    text.split(',').flat_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(cpu_list("0-3,8"), [0, 1, 2, 3, 8]);
        assert_eq!(cpu_list("5"), [5]);
        for nothing in ["", "x", "3-", "-", "0-99999999999", "(null)"] {
            assert!(cpu_list(nothing).is_empty(), "{nothing}");
        }
    }

    #[test]
    fn fields() {
        let text = "MemTotal:       24 kB\nVmLck:\t  8 kB\nmodel name\t: AMD EPYC\n";
        assert_eq!(field(text, "VmLck"), Some("8 kB"));
        assert_eq!(field(text, "model name"), Some("AMD EPYC"));
        assert_eq!(field(text, "Mem"), None);
    }
}
