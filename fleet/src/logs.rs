//! A robot's logs: which there are, and a log or a stretch of one in pieces that the receiver asks for one by one.

use anyhow::{Result, anyhow};
use khz_tlog::{Copier, Reader};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};
use twox_hash::XxHash3_128;

/// Bytes of a piece at most.
pub const PIECE: u64 = 1 << 20;
/// How many bytes of their beginning distinguish logs.
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
    stretches: Mutex<Stretches>,
}

/// The stretches that are being sent, in files without a name.
#[derive(Debug)]
struct Stretches {
    cuts: Vec<Cut>,
    /// How many there have been.
    count: u64,
    /// How many bytes they may have together.
    most: u64,
}

#[derive(Debug)]
struct Cut {
    name: String,
    stretch: Stretch,
    file: File,
    beside: Beside,
    /// When a piece of it was asked for last.
    asked: Instant,
}

/// How long a stretch is kept without a request for a piece: its receiver is gone by then.
const KEPT: Duration = Duration::from_secs(30);

impl Logs {
    /// The logs in `folder`. Stretches that are being sent have `most` bytes together.
    pub fn new(folder: PathBuf, most: u64) -> Self {
        Self { folder, stretches: Mutex::new(Stretches { cuts: Vec::new(), count: 0, most }) }
    }

    fn stretches(&self) -> MutexGuard<'_, Stretches> {
        self.stretches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back the room of stretches whose receivers have gone.
    pub fn tidy(&self, now: Instant) {
        self.stretches().cuts.retain(|cut| now.duration_since(cut.asked) < KEPT);
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

    /// The piece of a log at `offset`, with what it is part of.
    ///
    /// # Errors
    /// There is no such log, or it cannot be read.
    pub fn piece(&self, name: &str, offset: u64) -> Result<(Vec<u8>, Beside), String> {
        let whole = self.log(name)?;
        let read = || {
            let size = whole.metadata()?.len();
            read(&whole, Beside { offset, size, cut: mark(&whole)? })
        };
        read().map_err(|error| self.cannot(name, &error))
    }

    /// The piece at `offset` of a stretch of a log. The stretch is cut when its first piece is asked for, which takes as long as
    /// reading the log, and given back with its last. Pieces at other offsets are those of `cut`; `None`: of the newest cut of the same stretch.
    ///
    /// # Errors
    /// There is no such log or stretch, it cannot be read, or there is no room for the stretch.
    pub fn piece_of(
        &self,
        name: &str,
        stretch: &Stretch,
        offset: u64,
        cut: Option<u64>,
    ) -> Result<(Vec<u8>, Beside), String> {
        let cut = if offset == 0 { self.begin(name, stretch)? } else { self.find(name, stretch, cut)? };
        let (bytes, beside) =
            read(&cut.file, Beside { offset, ..cut.beside }).map_err(|error| self.cannot(name, &error))?;
        if offset.saturating_add(bytes.len() as u64) < beside.size {
            self.stretches().cuts.push(Cut { asked: Instant::now(), ..cut });
        }
        Ok((bytes, beside))
    }

    /// Cuts a stretch.
    fn begin(&self, name: &str, stretch: &Stretch) -> Result<Cut, String> {
        let log = self.log(name)?;
        let (most, others) = {
            let stretches = self.stretches();
            (stretches.most, stretches.cuts.iter().map(|cut| cut.beside.size).sum::<u64>())
        };
        let room = most.saturating_sub(others);
        let (file, size) = cut(log, stretch, room).map_err(|error| match is_too_large(&error) {
            true if others > 0 => {
                format!("{} MiB of stretches are being sent to others; try again in a minute", others >> 20)
            }
            true => format!(
                "the stretch has more than {} MiB, for which the robot's temporary folder has no room (`stretch_mib`): ask for a \
                 shorter one, or for the whole log, which is not copied there",
                most >> 20
            ),
            false => self.cannot(name, &error),
        })?;
        let mut stretches = self.stretches();
        stretches.count += 1;
        let beside = Beside { offset: 0, size, cut: stretches.count };
        Ok(Cut { name: name.to_owned(), stretch: stretch.clone(), file, beside, asked: Instant::now() })
    }

    /// A stretch that is being sent, which is then not among the others.
    fn find(&self, name: &str, stretch: &Stretch, wanted: Option<u64>) -> Result<Cut, String> {
        let mut stretches = self.stretches();
        let is_it = |cut: &Cut| match wanted {
            Some(wanted) => cut.beside.cut == wanted,
            None => cut.name == name && cut.stretch == *stretch,
        };
        let at = stretches.cuts.iter().rposition(is_it);
        let at = at.ok_or("the stretch is not kept any more; ask for it from its beginning")?;
        Ok(stretches.cuts.remove(at))
    }

    fn log(&self, name: &str) -> Result<File, String> {
        let path = self.folder.join(name);
        if !is_log(name) || !path.symlink_metadata().is_ok_and(|about| about.is_file()) {
            return Err(format!("there is no log `{name}` in {}", self.folder.display()));
        }
        File::open(&path).map_err(|error| self.cannot(name, &error))
    }

    fn cannot(&self, name: &str, error: &dyn std::fmt::Display) -> String {
        format!("cannot read {}: {error}", self.folder.join(name).display())
    }
}

fn is_log(name: &str) -> bool {
    name.ends_with(".tlog") && crate::names::is_part(name) && !name.starts_with('.')
}

/// Distinguishes a log from a later one with its name: by the file, and by how it begins, which does not change while it grows.
fn mark(log: &File) -> io::Result<u64> {
    let mut bytes = vec![0; HEAD];
    let about = log.metadata()?;
    match log.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => bytes.clear(),
        read => read?,
    }
    bytes.extend(about.ino().to_le_bytes());
    Ok(XxHash3_128::oneshot(&bytes) as u64)
}

fn read(file: &File, beside: Beside) -> io::Result<(Vec<u8>, Beside)> {
    let len = beside.size.saturating_sub(beside.offset).min(PIECE);
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, beside.offset)?;
    Ok((bytes, beside))
}

/// Records of which a stretch has everything before it.
const BEFORE: [&str; 4] = ["robot", "parameters", "parameter", "event"];

/// Takes so many bytes and no more.
struct Bounded(File, u64);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1 = self.1.checked_sub(bytes.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        self.0.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn is_too_large(error: &anyhow::Error) -> bool {
    let error = match error.downcast_ref() {
        Some(khz_tlog::Error::Write(error)) => Some(error),
        _ => error.downcast_ref::<io::Error>(),
    };
    error.is_some_and(|error| error.kind() == io::ErrorKind::FileTooLarge)
}

/// Copies a stretch of no more than `room` bytes to a file without a name; returns it with its size.
fn cut(log: File, stretch: &Stretch, room: u64) -> Result<(File, u64)> {
    let mut log = Reader::open(log)?;
    let first_us = log.next()?.and_then(|item| item.time_us).unwrap_or(0);
    log.rewind();
    let at = |seconds: f64| first_us.saturating_add((seconds * 1e6) as i64);
    let (from_us, to_us) = (stretch.from_s.map_or(i64::MIN, at), stretch.to_s.map_or(i64::MAX, at));
    let mut copier = Copier::new(BufWriter::new(Bounded(tempfile::tempfile()?, room)))?;
    let (mut last_us, mut copied) = (first_us, 0_u64);
    while let Some(item) = log.next()? {
        let time_us = item.time_us.unwrap_or(first_us);
        last_us = last_us.max(time_us);
        let is_within = (from_us..=to_us).contains(&time_us);
        copied += u64::from(is_within);
        // Earlier samples without which the stretch cannot be understood: the robot, the parameters in force, the changes of phase.
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
    let Bounded(mut file, _) = out.into_inner().map_err(io::IntoInnerError::into_error)?;
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

    const ROOM: u64 = 100 << 20;

    fn all(mut piece: impl FnMut(u64) -> Result<(Vec<u8>, Beside), String>) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            let (piece, beside) = piece(bytes.len() as u64).unwrap();
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
        let logs = Logs::new(folder.path().into(), ROOM);
        let listed = logs.list().unwrap();
        assert_eq!(listed.len(), 2);
        let whole = std::fs::read(folder.path().join("long.tlog")).unwrap();
        assert!(whole.len() as u64 > PIECE);
        assert_eq!(all(|offset| logs.piece("long.tlog", offset)), whole);
    }

    #[test]
    fn another_log_of_the_same_name_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.tlog");
        write(&path, 100_000);
        let logs = Logs::new(folder.path().into(), ROOM);
        let cut = |offset| logs.piece("run.tlog", offset).unwrap().1.cut;
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
        let logs = Logs::new(folder.path().into(), ROOM);
        let stretch = Stretch { from_s: Some(10.0), to_s: Some(70.5) };
        let mut log = Reader::open(all(|offset| logs.piece_of("run.tlog", &stretch, offset, None))).unwrap();
        let mut times = Vec::new();
        while let Some(item) = log.next().unwrap() {
            times.push(item.time_us.unwrap());
        }
        let stretch = Stretch { from_s: Some(4000.0), to_s: None };
        let why = logs.piece_of("run.tlog", &stretch, 0, None).unwrap_err();
        assert!(why.contains("from 0 to 100.0 s"), "{why}");
        assert_eq!((times.len(), times[0], times[times.len() - 1]), (60_501, 15_000_000, 75_500_000));
    }

    /// It stayed in the temporary folder, which may be memory, until the next one was cut.
    #[test]
    fn a_stretch_is_given_back_when_it_is_sent_or_no_longer_requested() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("run.tlog"), 100_000);
        let logs = Logs::new(folder.path().to_owned(), ROOM);
        let kept = || logs.stretches().cuts.len();
        let stretch = Stretch { from_s: Some(0.1), to_s: None };
        assert!(logs.piece_of("run.tlog", &stretch, 0, None).unwrap().1.size > PIECE);
        logs.tidy(Instant::now());
        assert_eq!(kept(), 1);
        logs.tidy(Instant::now() + KEPT);
        assert_eq!(kept(), 0);
        let why = logs.piece_of("run.tlog", &stretch, PIECE, None).unwrap_err();
        assert!(why.contains("from its beginning"), "{why}");
        all(|offset| logs.piece_of("run.tlog", &stretch, offset, None));
        assert_eq!(kept(), 0);
    }

    /// The second one that asked ended the download of the first.
    #[test]
    fn two_receivers_of_stretches_do_not_disturb_each_other() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("run.tlog"), 100_000);
        let logs = Logs::new(folder.path().to_owned(), ROOM);
        let stretch = Stretch { from_s: Some(1.0), to_s: None };
        let [one, two] = [(); 2].map(|()| logs.piece_of("run.tlog", &stretch, 0, None).unwrap().1);
        assert_ne!(one.cut, two.cut);
        let next = |cut| logs.piece_of("run.tlog", &stretch, PIECE, Some(cut)).unwrap().1.cut;
        assert_eq!([next(one.cut), next(two.cut)], [one.cut, two.cut]);
    }

    /// A robot's memory was full: its temporary folder is often there.
    #[test]
    fn a_stretch_that_is_too_long_is_refused_with_what_to_ask_instead() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("run.tlog"), 100_000);
        let logs = Logs::new(folder.path().to_owned(), 2 << 20);
        let ask =
            |from_s| logs.piece_of("run.tlog", &Stretch { from_s: Some(from_s), to_s: Some(90.0) }, 0, None);
        let why = ask(0.0).unwrap_err();
        assert!(
            why.contains("more than 2 MiB") && why.contains("a shorter one, or for the whole log"),
            "{why}"
        );
        ask(30.0).unwrap();
        let why = ask(30.0).unwrap_err();
        assert!(why.contains("being sent to others; try again"), "{why}");
    }

    #[test]
    fn nothing_else_can_be_had() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret.txt"), "x").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link.tlog")).unwrap();
        std::fs::write(folder.path().join("broken.tlog"), "no log").unwrap();
        let logs = Logs::new(folder.path().into(), ROOM);
        for name in ["secret.txt", "../secret.tlog", "link.tlog", "none.tlog", "", "/etc/passwd"] {
            assert!(logs.piece(name, 0).is_err(), "{name}");
        }
        let stretch = Stretch { from_s: Some(f64::NAN), to_s: Some(f64::INFINITY) };
        assert!(logs.piece_of("broken.tlog", &stretch, 0, None).is_err());
        assert!(logs.piece("broken.tlog", u64::MAX).unwrap().0.is_empty());
    }
}
