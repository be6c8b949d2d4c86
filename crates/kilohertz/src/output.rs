//! Files that commands and programs write: never over one that is there unless asked to (`--force`), and whole or not at all.
//!
//! A symbolic link counts as a file that is there. Character devices (`/dev/null`) and pipes that are open already
//! (`/dev/stdout`, `/dev/fd/63`) are written as they are. Pipes with a name (FIFOs) are refused: to open one waits for a reader.

use khz_robot::recorder::{Watched, numbered};
use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::{File, FileType, OpenOptions, Permissions};
use std::io::{self, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempPath;

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The system does not let it.
    #[error("cannot write {path}")]
    Io {
        /// Which.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It would have destroyed something, or waited for ever.
    #[error("{0}")]
    Refused(String),
}

type Result<T, E = OutputError> = std::result::Result<T, E>;

/// The system's error for a file.
fn cannot(path: &Path) -> impl Fn(io::Error) -> OutputError + Copy {
    move |source| OutputError::Io { path: path.to_owned(), source }
}

fn refused<T>(why: String) -> Result<T> {
    Err(OutputError::Refused(why))
}

/// What a part is called while it is written.
const PART: [&str; 2] = [".khz-", ".part"];

/// A part that has not been written to for this long, and is not locked, was left by a command that was killed. A command locks its
/// part right after it has made it.
const STALE: Duration = Duration::from_secs(60);

/// Names tried for a file whose own is taken.
const NAMES: u32 = 10_000;

/// What is at a path.
enum There {
    Nothing,
    /// A pipe or a device.
    Stream,
    /// A file that may be replaced: where it really is, and who may read it.
    File(PathBuf, Permissions),
}

fn there(path: &Path, force: bool) -> Result<There> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(There::Nothing),
        found => _ = found.map_err(cannot(path))?,
    }
    if let Ok(about) = path.metadata()
        && !about.is_file()
        && !about.is_dir()
    {
        return stream(path, about.file_type());
    }
    if !force {
        return refused(format!("{} is there already; --force overwrites it", path.display()));
    }
    // What must not be written must not be replaced either.
    let about = OpenOptions::new().write(true).open(path).and_then(|file| file.metadata());
    let about = about.map_err(cannot(path))?;
    // Root may open it nevertheless.
    if about.permissions().readonly() {
        return refused(format!("{} is read-only; `chmod u+w` lets it be overwritten", path.display()));
    }
    Ok(There::File(path.canonicalize().map_err(cannot(path))?, about.permissions()))
}

/// What is neither file nor folder. A pipe of our own has a name below `/proc` only, which leads nowhere.
fn stream(path: &Path, kind: FileType) -> Result<There> {
    if kind.is_char_device() || kind.is_fifo() && path.canonicalize().is_err() {
        return Ok(There::Stream);
    }
    let what = if kind.is_fifo() { "a named pipe (FIFO)" } else { "a socket or a block device" };
    refused(format!("{} is {what}; give the name of a file, or /dev/stdout", path.display()))
}

/// Whether a file can be written there, before hours of measuring or a robot's run are spent on it.
///
/// # Errors
/// If it is there and `force` is not given, or is a log, or the folder cannot be written.
pub fn check(path: &Path, force: bool) -> Result<()> {
    match there(path, force)? {
        There::Stream => Ok(()),
        There::Nothing => part_beside(path).map(drop),
        There::File(place, _) if is_log(&place) => {
            return refused(format!("{} is a log, and never overwritten; give another name", path.display()));
        }
        There::File(place, _) => part_beside(&place).map(drop),
    }
    .map_err(cannot(path))
}

/// Whether a file begins as the log of a run does: a report or a robot file is never worth one.
fn is_log(path: &Path) -> bool {
    let mut begins = [0; 4];
    // To open a pipe waits for who writes to it.
    path.is_file()
        && File::open(path)
            .and_then(|mut file| file.read_exact(&mut begins))
            .is_ok_and(|()| begins == *b"TLOG")
}

/// As [`check`], for several; none, too. None of them may be one of `inputs`, the files that the command reads.
///
/// # Errors
/// The error of the first that cannot be written, or if two of them are one file.
pub fn check_all<'a>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
    inputs: impl IntoIterator<Item = &'a PathBuf>,
    force: bool,
) -> Result<()> {
    let paths: Vec<&PathBuf> = paths.into_iter().collect();
    let inputs: Vec<&PathBuf> = inputs.into_iter().collect();
    paths.iter().try_for_each(|path| spare(path, &inputs))?;
    paths.iter().try_for_each(|path| check(path, force))?;
    distinct(&paths)
}

/// Checks that an output is none of the files that the command reads: not even `--force` may destroy them.
///
/// # Errors
/// If it is one.
pub fn spare(path: &Path, inputs: &[&PathBuf]) -> Result<()> {
    match inputs.iter().any(|input| is_input(path, input)) {
        true => refused(format!(
            "{} is read by this command and never overwritten; give the output another name",
            path.display()
        )),
        false => Ok(()),
    }
}

/// Whether an output is the file `input`.
pub fn is_input(path: &Path, input: &Path) -> bool {
    input.is_file() && is_same(path, input)
}

/// Checks that no two outputs go into one file.
///
/// # Errors
/// The first two that do.
pub fn distinct(paths: &[&PathBuf]) -> Result<()> {
    for (index, path) in paths.iter().enumerate() {
        if let Some(same) = paths[..index].iter().find(|other| is_same(other, path)) {
            let (same, path) = (same.display(), path.display());
            return refused(format!("{same} and {path} are one file; give each output a name of its own"));
        }
    }
    Ok(())
}

/// Whether two paths lead to one file, which need not be there yet. Pipes and devices can take several outputs.
pub fn is_same(one: &Path, two: &Path) -> bool {
    let real = |path: &Path| {
        path.canonicalize().or_else(|_| {
            Ok::<_, io::Error>(folder_of(path).canonicalize()?.join(path.file_name().unwrap_or_default()))
        })
    };
    match (real(one), real(two)) {
        (Ok(one), Ok(two)) => is_one_file(&one, &two),
        _ => one == two,
    }
}

fn is_one_file(one: &Path, two: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (one.metadata(), two.metadata()) {
        // Hard links.
        (Ok(one), Ok(two)) => one.is_file() && (one.dev(), one.ino()) == (two.dev(), two.ino()),
        _ => one == two,
    }
}

/// A file for what is read by others while it is written. It must not be there yet, unless `force`. Writing to it is an error once
/// it has been removed or truncated.
///
/// # Errors
/// If it is there, or cannot be made.
pub fn create(path: &Path, force: bool) -> Result<BufWriter<Watched>> {
    let file = match there(path, force)? {
        There::Nothing => File::create_new(path),
        There::Stream => OpenOptions::new().write(true).open(path),
        There::File(place, permissions) => replaced(&place, permissions),
    };
    Ok(buffered(file.and_then(Watched::new).map_err(cannot(path))?))
}

/// A new file in the place of another, which others may still read.
fn replaced(place: &Path, permissions: Permissions) -> io::Result<File> {
    let (file, part) = part_beside(place)?;
    file.set_permissions(permissions)?;
    part.persist(place)?;
    Ok(file)
}

/// Writes a whole file that is no log. If `path` is taken by now and `force` is not given, or it is a log, a number is added to the
/// name: what was measured is not lost. Returns where it is.
///
/// # Errors
/// If it cannot be written; what was there is there still.
pub fn save(path: &Path, force: bool, write: impl FnOnce(&mut Output) -> io::Result<()>) -> Result<PathBuf> {
    let mut out =
        if force && !is_log(path) { Output::new(path, true)? } else { Output::new_or_numbered(path)? };
    write(&mut out).map_err(cannot(path))?;
    out.keep_or_number()
}

fn buffered<W: Write>(out: W) -> BufWriter<W> {
    BufWriter::with_capacity(256 << 10, out)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file beside `path` whose name cannot be guessed, gone when it is dropped.
fn part_beside(path: &Path) -> io::Result<(File, TempPath)> {
    let mut builder = tempfile::Builder::new();
    // As for every new file, the user's mask takes away from it.
    builder.prefix(PART[0]).suffix(PART[1]).permissions(Permissions::from_mode(0o666));
    let folder = folder_of(path);
    folder.metadata()?;
    // Its message names a temporary path.
    let made = builder.tempfile_in(folder).map_err(|error| io::Error::from(error.kind()));
    Ok(made?.into_parts())
}

/// Locks a part until this process ends, however it ends: true unless another process has locked it.
fn hold(part: &File) -> bool {
    flock(part, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Removes the parts that killed commands have left in a folder. What cannot be removed stays.
fn sweep(folder: &Path) {
    let is_part = |name: &str| name.starts_with(PART[0]) && name.ends_with(PART[1]);
    let entries = folder.read_dir().into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_str().is_some_and(is_part)) {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let open = || OpenOptions::new().read(true).custom_flags(flags).open(entry.path()).ok();
        let Some(part) = is_file.then(open).flatten() else { continue };
        let since = part.metadata().and_then(|about| about.modified()).ok().and_then(|at| at.elapsed().ok());
        if since.is_some_and(|since| since >= STALE) && hold(&part) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// A file that takes its place once it is whole. It is written beside it, so what fails leaves nothing behind and
/// destroys nothing. A command that is killed leaves its part, and the next that writes into that folder removes it.
pub struct Output {
    out: BufWriter<File>,
    /// Where it is written meanwhile. None: at once to its place, which is no file but a pipe or a device.
    beside: Option<Beside>,
    place: PathBuf,
}

struct Beside {
    part: TempPath,
    /// It takes the place of a file.
    replaces: bool,
}

impl Output {
    /// Begins a file that must not be there yet, unless `force`.
    ///
    /// # Errors
    /// If it is there, or its folder cannot be written.
    pub fn new(path: &Path, force: bool) -> Result<Self> {
        match there(path, force)? {
            There::Nothing => Self::beside(path.to_owned(), None),
            There::File(place, permissions) => Self::beside(place, Some(permissions)),
            There::Stream => OpenOptions::new().write(true).open(path).map(|file| Self {
                out: buffered(file),
                beside: None,
                place: path.to_owned(),
            }),
        }
        .map_err(cannot(path))
    }

    /// As [`Output::new`]; what is there is left to [`Output::keep_or_number`].
    fn new_or_numbered(path: &Path) -> Result<Self> {
        match there(path, false) {
            Ok(There::Stream) => Self::new(path, false),
            _ => Self::beside(path.to_owned(), None).map_err(cannot(path)),
        }
    }

    fn beside(place: PathBuf, permissions: Option<Permissions>) -> io::Result<Self> {
        sweep(folder_of(&place));
        let (file, part) = part_beside(&place)?;
        // On a file system without locks, no other command removes it before it is stale.
        hold(&file);
        let replaces = permissions.is_some();
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        Ok(Self { out: buffered(file), beside: Some(Beside { part, replaces }), place })
    }

    /// Puts the file, which is whole, in its place.
    ///
    /// # Errors
    /// If it cannot be written, or another process has made the file meanwhile.
    pub fn keep(mut self) -> Result<()> {
        let kept = match self.beside.take() {
            None => self.out.flush(),
            Some(Beside { part, replaces }) => finished(&mut self.out).and_then(|()| {
                let kept =
                    if replaces { part.persist(&self.place) } else { part.persist_noclobber(&self.place) };
                kept.map_err(|error| error.error)
            }),
        };
        kept.map_err(cannot(&self.place))
    }

    /// As [`Output::keep`]; if another process has made the file meanwhile, under the first name with a number that is
    /// free. Returns where it is.
    fn keep_or_number(mut self) -> Result<PathBuf> {
        let Some(Beside { mut part, replaces: false }) = self.beside.take_if(|beside| !beside.replaces)
        else {
            let place = self.place.clone();
            return self.keep().map(|()| place);
        };
        finished(&mut self.out).map_err(cannot(&self.place))?;
        for number in 0..NAMES {
            let path = numbered(&self.place, number);
            match part.persist_noclobber(&path) {
                Ok(()) => return Ok(path),
                Err(error) if error.error.kind() == ErrorKind::AlreadyExists => part = error.path,
                Err(error) => return Err(cannot(&self.place)(error.error)),
            }
        }
        refused(format!("cannot write {}: there are {NAMES} files of this name", self.place.display()))
    }
}

/// The name appears only when what it names is on the disk.
fn finished(out: &mut BufWriter<File>) -> io::Result<()> {
    out.flush()?;
    out.get_ref().sync_all()
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Seek for Output {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.out.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    fn write(path: &Path, force: bool) -> Result<PathBuf> {
        save(path, force, |out| out.write_all(b"new"))
    }

    /// A file of another program, and three other ways to name it.
    fn somebodys(folder: &Path) -> [PathBuf; 4] {
        let [file, link, hard] = ["file", "link", "hard"].map(|name| folder.join(name));
        std::fs::write(&file, "another file").unwrap();
        symlink(&file, &link).unwrap();
        std::fs::hard_link(&file, &hard).unwrap();
        let around = folder.join("..").join(folder.file_name().unwrap()).join("file");
        [file, link, hard, around]
    }

    #[test]
    fn what_is_there_stays_and_the_check_says_so_beforehand() {
        let folder = tempfile::tempdir().unwrap();
        let names = somebodys(folder.path());
        let dangling = folder.path().join("dangling");
        symlink(folder.path().join("nowhere"), &dangling).unwrap();
        for path in names.iter().chain([&dangling]) {
            let error = check(path, false).unwrap_err().to_string();
            assert!(error.contains("--force overwrites it"), "{error}");
            assert!(create(path, false).is_err() && Output::new(path, false).is_err());
            let instead = write(path, false).unwrap();
            assert!(instead.to_str().unwrap().ends_with("-1"), "{instead:?}");
            assert_eq!(text(&instead), "new");
            std::fs::remove_file(instead).unwrap();
        }
        assert_eq!(text(&names[0]), "another file");
        assert!(!folder.path().join("nowhere").exists());
    }

    #[test]
    fn a_log_that_was_begun_after_the_check_keeps_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.html");
        check(&path, true).unwrap();
        std::fs::write(&path, "TLOG0003 and more").unwrap();
        assert_eq!(write(&path, true).unwrap(), folder.path().join("run-1.html"));
        assert_eq!(text(&path), "TLOG0003 and more");
        assert!(check(&path, true).is_err());
    }

    #[test]
    fn a_new_file_is_whole_or_not_there_and_readable_as_any_other() {
        let folder = tempfile::tempdir().unwrap();
        let (path, usual) = (folder.path().join("a"), folder.path().join("usual"));
        check(&path, false).unwrap();
        let failed = save(&path, false, |out| {
            out.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        assert_eq!(write(&path, false).unwrap(), path);
        std::fs::write(&usual, "").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
        assert_eq!((text(&path).as_str(), mode(&path)), ("new", mode(&usual)));
        assert_eq!(write(&path, false).unwrap(), folder.path().join("a-1"));
        assert_eq!(write(&path, true).unwrap(), path);
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        drop(create(&path, true).unwrap());
        assert_eq!((text(&path).as_str(), mode(&path) & 0o777), ("", 0o600));
    }

    /// They stayed for ever.
    #[test]
    fn parts_of_killed_commands_are_removed_and_those_of_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let part = |name: &str, age: Duration| {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(std::time::SystemTime::now() - age).unwrap();
            file
        };
        drop(part(".khz-killed.part", 2 * STALE));
        let held = part(".khz-slow.part", 2 * STALE);
        assert!(hold(&held));
        drop(part(".khz-new.part", Duration::ZERO));
        drop(part(".khz-mine", 2 * STALE));
        symlink(folder.path().join(".khz-mine"), folder.path().join(".khz-link.part")).unwrap();
        Output::new(&folder.path().join("whole"), false).unwrap().keep().unwrap();
        let mut left: Vec<_> =
            folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".khz-link.part", ".khz-mine", ".khz-new.part", ".khz-slow.part", "whole"]);
    }

    #[test]
    fn a_read_only_file_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "another file").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        assert!(check(&path, true).is_err() && write(&path, true).is_err());
        assert_eq!(text(&path), "another file");
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_found_before_the_measurement() {
        let error = check(Path::new("/no/such/folder/a.html"), false).unwrap_err();
        let expected = "cannot write /no/such/folder/a.html: No such file or directory (os error 2)";
        let why = std::error::Error::source(&error).unwrap();
        assert_eq!(format!("{error}: {why}"), expected);
    }

    #[test]
    fn a_file_that_is_read_is_not_written_under_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let names = somebodys(folder.path());
        let new = folder.path().join("new");
        for name in &names {
            let error = check_all([&new, name], [&names[0]], true).unwrap_err().to_string();
            assert!(error.contains("is read by this command and never overwritten"), "{error}");
            check_all([name], [&new], true).unwrap();
        }
        check_all([&new], [&new], false).unwrap();
    }

    #[test]
    fn a_named_pipe_is_refused_at_once_and_an_open_one_is_written() {
        use std::os::fd::AsRawFd;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        for force in [false, true] {
            let error = check(&path, force).unwrap_err().to_string();
            assert!(
                error.ends_with("is a named pipe (FIFO); give the name of a file, or /dev/stdout"),
                "{error}"
            );
            assert!(create(&path, force).is_err() && Output::new(&path, force).is_err());
        }
        let (mut reader, writer) = io::pipe().unwrap();
        let open = PathBuf::from(format!("/dev/fd/{}", writer.as_raw_fd()));
        check(&open, false).unwrap();
        write(&open, false).unwrap();
        drop(writer);
        assert_eq!(io::read_to_string(&mut reader).unwrap(), "new");
    }

    #[test]
    fn one_file_under_two_names_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let names = somebodys(folder.path());
        for name in &names {
            assert!(is_same(&names[0], name), "{name:?}");
        }
        let [new, around] = ["new", "../new"].map(|name| folder.path().join("sub").join(name));
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        assert!(is_same(&folder.path().join("new"), &around) && !is_same(&new, &around));
        assert!(check_all([&new, &new.clone()], [], false).is_err());
        assert!(check_all([&new, &around], [], false).is_ok());
        let null = PathBuf::from("/dev/null");
        assert!(check_all([&null, &null], [&null], false).is_ok());
    }
}
