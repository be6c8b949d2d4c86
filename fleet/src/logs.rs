//! A robot's logs: which there are, and a log or a stretch of one in pieces that the receiver asks for one by one.

use anyhow::{Result, anyhow};
use khz_tlog::{Copier, Reader};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::time::{Duration, Instant, UNIX_EPOCH};
use twox_hash::XxHash3_128;

/// Bytes of a piece at most.
pub const PIECE: u64 = 1 << 20;
/// How many bytes of its beginning tell one log from another.
const HEAD: usize = 4096;
/// How many logs are listed.
const MAX_LISTED: usize = 1000;

/// A log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its file name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// When it was last written to, s since 1970.
    pub modified_s: u64,
}

/// Which part of a log: seconds from its first sample; neither is all of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stretch {
    /// From this time on.
    pub from_s: Option<f64>,
    /// Up to this time.
    pub to_s: Option<f64>,
}

/// What a piece is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    /// Where the piece begins.
    pub offset: u64,
    /// Bytes of the whole.
    pub size: u64,
    /// Which whole: it changes when the stretch had to be cut again, or another file has the log's name. Pieces of two do not fit
    /// together.
    pub cut: u64,
}

/// The logs in a folder.
#[derive(Debug)]
pub struct Logs {
    folder: PathBuf,
    /// The stretch cut last, without a name in the file system.
    cut: Option<Cut>,
    cuts: u64,
}

#[derive(Debug)]
struct Cut {
    name: String,
    stretch: Stretch,
    file: File,
    size: u64,
    /// When a piece of it was asked for last.
    asked: Instant,
}

/// How long a stretch is kept that nobody asks for: its receiver is gone.
const KEPT: Duration = Duration::from_secs(30);

impl Logs {
    /// The logs in `folder`.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, cut: None, cuts: 0 }
    }

    /// Gives back the room of a stretch whose receiver has gone.
    pub fn tidy(&mut self, now: Instant) {
        self.cut.take_if(|cut| now.duration_since(cut.asked) >= KEPT);
    }

    /// The logs, the newest first.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, String> {
        let cannot = |error| format!("cannot read {}: {error}", self.folder.display());
        let mut all: Vec<Listed> = std::fs::read_dir(&self.folder)
            .map_err(cannot)?
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name().into_string().ok().filter(|name| is_log(name))?;
                let about = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
                let modified_s = about.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_secs();
                Some(Listed { name, size: about.len(), modified_s })
            })
            .collect();
        all.sort_by(|a, b| (b.modified_s, &a.name).cmp(&(a.modified_s, &b.name)));
        all.truncate(MAX_LISTED);
        Ok(all)
    }

    /// The piece of a log at `offset`, with what it is part of. A stretch is cut when its first piece is asked for, which
    /// takes as long as reading it.
    ///
    /// # Errors
    /// There is no such log, or it cannot be read.
    pub fn piece(&mut self, name: &str, stretch: &Stretch, offset: u64) -> Result<(Vec<u8>, Beside), String> {
        let path = self.folder.join(name);
        if !is_log(name) || !path.symlink_metadata().is_ok_and(|about| about.is_file()) {
            return Err(format!("there is no log `{name}` in {}", self.folder.display()));
        }
        let cannot = |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", path.display());
        let whole = File::open(&path).map_err(|error| cannot(&error))?;
        if *stretch == Stretch::default() {
            let size = whole.metadata().map_err(|error| cannot(&error))?.len();
            let cut = mark(&whole).map_err(|error| cannot(&error))?;
            return read(&whole, Beside { offset, size, cut }).map_err(|error| cannot(&error));
        }
        let is_ready = self.cut.as_ref().is_some_and(|cut| cut.name == name && cut.stretch == *stretch);
        // From its beginning it is another download, of a log that may have grown.
        if !is_ready || offset == 0 {
            self.cut = None;
            let (file, size) = cut(whole, stretch).map_err(|error| cannot(&error))?;
            self.cuts += 1;
            let asked = Instant::now();
            self.cut = Some(Cut { name: name.to_owned(), stretch: stretch.clone(), file, size, asked });
        }
        let Some(cut) = &mut self.cut else { return Err(cannot(&"the stretch is gone")) };
        cut.asked = Instant::now();
        read(&cut.file, Beside { offset, size: cut.size, cut: self.cuts }).map_err(|error| cannot(&error))
    }
}

fn is_log(name: &str) -> bool {
    name.ends_with(".tlog") && crate::names::is_part(name) && !name.starts_with('.')
}

/// Tells a log from another one that gets its name: by the file, and by how it begins, which does not change while it grows.
fn mark(log: &File) -> std::io::Result<u64> {
    let mut bytes = vec![0; HEAD];
    let about = log.metadata()?;
    match log.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => bytes.clear(),
        read => read?,
    }
    bytes.extend(about.ino().to_le_bytes());
    Ok(XxHash3_128::oneshot(&bytes) as u64)
}

fn read(file: &File, beside: Beside) -> std::io::Result<(Vec<u8>, Beside)> {
    let len = beside.size.saturating_sub(beside.offset).min(PIECE);
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, beside.offset)?;
    Ok((bytes, beside))
}

/// Records of which a stretch has everything before it.
const BEFORE: [&str; 4] = ["robot", "parameters", "parameter", "event"];

/// Copies a stretch to a file without a name; returns it with its size.
fn cut(log: File, stretch: &Stretch) -> Result<(File, u64)> {
    let mut log = Reader::open(log)?;
    let first_us = log.next()?.and_then(|item| item.time_us).unwrap_or(0);
    log.rewind();
    let at = |seconds: f64| first_us.saturating_add((seconds * 1e6) as i64);
    let (from_us, to_us) = (stretch.from_s.map_or(i64::MIN, at), stretch.to_s.map_or(i64::MAX, at));
    let mut copier = Copier::new(BufWriter::new(tempfile::tempfile()?))?;
    let (mut last_us, mut copied) = (first_us, 0_u64);
    while let Some(item) = log.next()? {
        let time_us = item.time_us.unwrap_or(first_us);
        last_us = last_us.max(time_us);
        let is_within = (from_us..=to_us).contains(&time_us);
        copied += u64::from(is_within);
        // What was said before and explains the stretch: the robot, the parameters in force, the changes of phase.
        if is_within || time_us < from_us && BEFORE.contains(&item.record.name()) {
            copier.copy(&item)?;
        }
    }
    if copied == 0 {
        return Err(anyhow!(
            "nothing was recorded then: the log is from 0 to {:.1} s",
            (last_us - first_us) as f64 / 1e6
        ));
    }
    let mut out = copier.finish()?;
    out.flush()?;
    let mut file = out.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    let size = file.seek(SeekFrom::End(0))?;
    Ok((file, size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_tlog::{Options, Type, Writer};

    fn write(path: &std::path::Path, samples: i64) {
        let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
        let ty = Type::object([("n", Type::Float64)]);
        let id = log.record("n", &ty).unwrap();
        (0..samples)
            .for_each(|n| log.write(id, Some(5_000_000 + 1000 * n), &(n as f64).to_le_bytes()).unwrap());
        std::fs::write(path, log.finish().unwrap()).unwrap();
    }

    fn all(logs: &mut Logs, name: &str, stretch: &Stretch) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            let (piece, beside) = logs.piece(name, stretch, bytes.len() as u64).unwrap();
            bytes.extend(piece);
            if bytes.len() as u64 == beside.size {
                return bytes;
            }
        }
    }

    #[test]
    fn a_log_comes_in_pieces() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("long.tlog"), 100_000);
        write(&folder.path().join("a b.tlog"), 1);
        std::fs::write(folder.path().join("notes.txt"), "").unwrap();
        let mut logs = Logs::new(folder.path().into());
        let listed = logs.list().unwrap();
        assert_eq!(listed.len(), 2);
        let whole = std::fs::read(folder.path().join("long.tlog")).unwrap();
        assert!(whole.len() as u64 > PIECE);
        assert_eq!(all(&mut logs, "long.tlog", &Stretch::default()), whole);
    }

    #[test]
    fn another_log_of_the_same_name_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.tlog");
        write(&path, 100_000);
        let mut logs = Logs::new(folder.path().into());
        let mut cut = |offset| logs.piece("run.tlog", &Stretch::default(), offset).unwrap().1.cut;
        let first = cut(0);
        let mut growing = File::options().append(true).open(&path).unwrap();
        growing.write_all(b"more").unwrap();
        assert_eq!(cut(PIECE), first, "one that grows is the same");
        std::fs::write(&path, vec![1; 3_000_000]).unwrap();
        assert_ne!(cut(PIECE), first);
    }

    #[test]
    fn a_stretch_is_a_log() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("run.tlog"), 100_000);
        let mut logs = Logs::new(folder.path().into());
        let stretch = Stretch { from_s: Some(10.0), to_s: Some(70.5) };
        let mut log = Reader::open(all(&mut logs, "run.tlog", &stretch)).unwrap();
        let mut times = Vec::new();
        while let Some(item) = log.next().unwrap() {
            times.push(item.time_us.unwrap());
        }
        let stretch = Stretch { from_s: Some(4000.0), to_s: None };
        let why = logs.piece("run.tlog", &stretch, 0).unwrap_err();
        assert!(why.contains("from 0 to 100.0 s"), "{why}");
        assert_eq!((times.len(), times[0], times[times.len() - 1]), (60_501, 15_000_000, 75_500_000));
    }

    /// It stayed in the temporary folder, which may be memory, until the next one was cut.
    #[test]
    fn a_stretch_that_nobody_asks_for_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("run.tlog"), 1000);
        let mut logs = Logs::new(folder.path().to_owned());
        let stretch = Stretch { from_s: Some(0.1), to_s: None };
        logs.piece("run.tlog", &stretch, 0).unwrap();
        logs.tidy(Instant::now());
        assert!(logs.cut.is_some());
        logs.tidy(Instant::now() + KEPT);
        assert!(logs.cut.is_none());
    }

    #[test]
    fn nothing_else_can_be_had() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret.txt"), "x").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link.tlog")).unwrap();
        std::fs::write(folder.path().join("broken.tlog"), "no log").unwrap();
        let mut logs = Logs::new(folder.path().into());
        for name in ["secret.txt", "../secret.tlog", "link.tlog", "none.tlog", "", "/etc/passwd"] {
            assert!(logs.piece(name, &Stretch::default(), 0).is_err(), "{name}");
        }
        let stretch = Stretch { from_s: Some(f64::NAN), to_s: Some(f64::INFINITY) };
        assert!(logs.piece("broken.tlog", &stretch, 0).is_err());
        assert!(logs.piece("broken.tlog", &Stretch::default(), u64::MAX).unwrap().0.is_empty());
    }
}
