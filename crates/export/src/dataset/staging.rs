//! Files that are written beside a dataset and take their places in it when they are whole.

use super::error::DatasetError;
use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The folder of a dataset in which files are written. Readers of tables never look there.
const FOLDER: &str = "_tmp";
const LOCK: &str = "lock";
/// How the folders in it begin.
const PREFIX: &str = "export-";
const ALONE: FlockOperation = FlockOperation::LockExclusive;

/// Its owner alone changes the dataset. It ends with the process, however that ends.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "held until it is dropped")] File);

impl Lock {
    /// Waits until it is free: as long as others take to rename their files.
    pub fn wait(dataset: &Path) -> Result<Self, DatasetError> {
        let path = folder(dataset)?.join(LOCK);
        let file = options().create(true).open(&path).map_err(DatasetError::at("write", &path))?;
        flock(&file, ALONE).map_err(|error| DatasetError::at("lock", &path)(error.into()))?;
        Ok(Self(file))
    }
}

/// The folder of a dataset in which files are written, made if it is not there.
pub(super) fn folder(dataset: &Path) -> Result<PathBuf, DatasetError> {
    let folder = dataset.join(FOLDER);
    std::fs::create_dir_all(&folder).map_err(DatasetError::at("make", &folder))?;
    Ok(folder)
}

/// How a lock is opened: neither elsewhere through a link, nor waiting for who reads a pipe.
fn options() -> std::fs::OpenOptions {
    let mut options = File::options();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.truncate(false).write(true).custom_flags(flags.bits().cast_signed());
    options
}

/// Whether a folder has nothing, or nothing but what an export that was killed early has left.
pub(super) fn is_unused(dataset: &Path) -> std::io::Result<bool> {
    for entry in std::fs::read_dir(dataset)? {
        let entry = entry?;
        if entry.file_name() != FOLDER {
            return Ok(false);
        }
        // Another program's folder of the same name has no such lock.
        let mut inside = std::fs::read_dir(entry.path())?;
        if inside.next().is_some() && !entry.path().join(LOCK).is_file() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A folder for the files of one log, gone when it is dropped. What a killed process has left is removed by the next.
#[derive(Debug)]
pub(super) struct Staging {
    folder: TempDir,
    /// The owner of this lock may remove the folder.
    _mine: File,
    count: usize,
}

impl Staging {
    pub fn new(dataset: &Path) -> Result<Self, DatasetError> {
        let _lock = Lock::wait(dataset)?;
        let all = dataset.join(FOLDER);
        remove_abandoned(&all).map_err(DatasetError::at("clear", &all))?;
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&all);
        let folder =
            folder.map_err(|error| DatasetError::at("make a folder in", &all)(error.kind().into()))?;
        let path = folder.path().join(LOCK);
        let mine = options().create(true).open(&path).map_err(DatasetError::at("write", &path))?;
        flock(&mine, ALONE).map_err(|error| DatasetError::at("lock", &path)(error.into()))?;
        Ok(Self { folder, _mine: mine, count: 0 })
    }

    /// A new file.
    pub fn file(&mut self) -> Result<(PathBuf, BufWriter<Closed>), DatasetError> {
        self.count += 1;
        let path = self.folder.path().join(format!("{}.part", self.count));
        File::create_new(&path).map_err(DatasetError::at("write", &path))?;
        Ok((path.clone(), BufWriter::with_capacity(256 << 10, Closed(path))))
    }

    /// Writes a whole file and puts it in its place, in the stead of what is there.
    pub fn put(&mut self, place: &Path, bytes: &[u8]) -> Result<(), DatasetError> {
        self.put_from(place, bytes)
    }

    /// The same with what a reader gives.
    pub fn put_from(&mut self, place: &Path, mut from: impl Read) -> Result<(), DatasetError> {
        let (path, mut file) = self.file()?;
        std::io::copy(&mut from, &mut file).map_err(DatasetError::at("write", &path))?;
        whole(&path, file)?;
        in_place(&path, place)
    }
}

/// A file that is open only while it is written to: a log may have more tables than a process may have files open.
#[derive(Debug)]
pub(super) struct Closed(PathBuf);

impl Write for Closed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // All at once: each call opens the file.
        File::options().append(true).open(&self.0)?.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes what is left of a file to the disk: its name must not appear sooner.
pub(super) fn whole(path: &Path, mut file: BufWriter<Closed>) -> Result<(), DatasetError> {
    file.flush().and_then(|()| File::open(path)?.sync_all()).map_err(DatasetError::at("write", path))
}

/// Gives a file its place, in the stead of what is there.
pub(super) fn in_place(path: &Path, place: &Path) -> Result<(), DatasetError> {
    let folder = place.parent().unwrap_or(place);
    std::fs::create_dir_all(folder).map_err(DatasetError::at("make", folder))?;
    std::fs::rename(path, place).map_err(DatasetError::at("write", place))?;
    // The name is on the disk, too.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(DatasetError::at("write", folder))
}

/// Removes what killed exports have left, and nothing that others may have put there: only real folders of our names.
fn remove_abandoned(all: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(all)? {
        let entry = entry?;
        // Not through a link.
        if entry.file_type()?.is_dir() && entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
        {
            match remove_if_abandoned(&entry.path()) {
                // Another export removes its own folder without the dataset's lock, also while it is looked at.
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Removes a folder with a lock that is free, or with nothing but parts of files: a lock is made under the dataset's,
/// which the caller has, and who removes a folder of its own may remove the lock first.
fn remove_if_abandoned(folder: &Path) -> std::io::Result<()> {
    let is_abandoned = match options().open(folder.join(LOCK)) {
        Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
        Err(error) => error.kind() == ErrorKind::NotFound && has_only_parts(folder)?,
    };
    if is_abandoned { std::fs::remove_dir_all(folder) } else { Ok(()) }
}

fn has_only_parts(folder: &Path) -> std::io::Result<bool> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let is_part = Path::new(&entry.file_name()).extension().is_some_and(|end| end == "part");
        if !is_part || !entry.file_type()?.is_file() {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An export that was killed between making its folder and its lock left the folder for ever.
    #[test]
    fn what_was_left_without_a_lock_is_removed_and_what_is_not_ours_stays()
    -> Result<(), Box<dyn std::error::Error>> {
        let dataset = tempfile::tempdir()?;
        let all = dataset.path().join(FOLDER);
        let folder = |name: &str, files: &[&str]| {
            let folder = all.join(name);
            std::fs::create_dir_all(&folder)?;
            files.iter().try_for_each(|file| std::fs::write(folder.join(file), b"x"))
        };
        folder(&format!("{PREFIX}empty"), &[])?;
        folder(&format!("{PREFIX}parts"), &["1.part", "2.part"])?;
        folder(&format!("{PREFIX}others"), &["1.part", "notes.txt"])?;
        folder("mine", &[])?;
        let staging = Staging::new(dataset.path())?;
        let mut left: Vec<_> =
            std::fs::read_dir(&all)?.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<_>>()?;
        let own = staging.folder.path().file_name().ok_or("it has a name")?.to_owned();
        left.retain(|name| *name != own && name != LOCK);
        left.sort();
        assert_eq!(
            left,
            [format!("{PREFIX}others").as_str(), "mine"].map(std::ffi::OsString::from).as_slice()
        );
        Ok(())
    }

    /// Four exports at once: one went while another looked whether it was abandoned, and that one failed.
    #[test]
    fn a_folder_that_goes_while_it_is_looked_at_is_no_failure() -> Result<(), Box<dyn std::error::Error>> {
        let dataset = tempfile::tempdir()?;
        let all = folder(dataset.path())?;
        std::thread::scope(|scope| {
            let others = scope.spawn(|| {
                for _ in 0..1_000 {
                    drop(tempfile::Builder::new().prefix(PREFIX).tempdir_in(&all));
                }
            });
            while !others.is_finished() {
                remove_abandoned(&all)?;
            }
            Ok::<_, std::io::Error>(())
        })?;
        Ok(())
    }
}
