//! Files that are written beside a dataset and take their places in it when they are whole.

use super::error::DatasetError;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The folder of a dataset in which files are written. Readers of tables never look there.
const FOLDER: &str = "_tmp";
const LOCK: &str = "lock";
const ALONE: FlockOperation = FlockOperation::LockExclusive;

/// Whoever has it is the only one that changes the dataset. It ends with the process, however that ends.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "held until it is dropped")] File);

impl Lock {
    /// Waits until nobody else has it: as long as others take to rename their files.
    pub fn wait(dataset: &Path) -> Result<Self, DatasetError> {
        let folder = dataset.join(FOLDER);
        std::fs::create_dir_all(&folder).map_err(DatasetError::at("make", &folder))?;
        let path = folder.join(LOCK);
        let file = open(&path).map_err(DatasetError::at("write", &path))?;
        flock(&file, ALONE).map_err(|error| DatasetError::at("lock", &path)(error.into()))?;
        Ok(Self(file))
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    File::options().create(true).truncate(false).write(true).open(path)
}

/// A folder for the files of one log, gone when it is dropped. What a killed process has left is removed by the next.
#[derive(Debug)]
pub(super) struct Staging {
    folder: TempDir,
    /// Who may remove the folder: whoever gets this lock.
    _mine: File,
    count: usize,
}

impl Staging {
    pub fn new(dataset: &Path) -> Result<Self, DatasetError> {
        let _lock = Lock::wait(dataset)?;
        let all = dataset.join(FOLDER);
        remove_abandoned(&all).map_err(DatasetError::at("clear", &all))?;
        let folder = tempfile::Builder::new().prefix("export-").tempdir_in(&all);
        let folder =
            folder.map_err(|error| DatasetError::at("make a folder in", &all)(error.kind().into()))?;
        let path = folder.path().join(LOCK);
        let mine = open(&path).map_err(DatasetError::at("write", &path))?;
        flock(&mine, ALONE).map_err(|error| DatasetError::at("lock", &path)(error.into()))?;
        Ok(Self { folder, _mine: mine, count: 0 })
    }

    /// A new file.
    pub fn file(&mut self) -> Result<(PathBuf, BufWriter<File>), DatasetError> {
        self.count += 1;
        let path = self.folder.path().join(format!("{}.part", self.count));
        let file = File::create_new(&path).map_err(DatasetError::at("write", &path))?;
        Ok((path, BufWriter::with_capacity(256 << 10, file)))
    }

    /// Writes a whole file and puts it in its place, in the stead of what is there.
    pub fn put(&mut self, place: &Path, bytes: &[u8]) -> Result<(), DatasetError> {
        let (path, mut file) = self.file()?;
        file.write_all(bytes).map_err(DatasetError::at("write", &path))?;
        whole(&path, file)?;
        in_place(&path, place)
    }
}

/// Writes what is left of a file to the disk: its name must not appear sooner.
pub(super) fn whole(path: &Path, mut file: BufWriter<File>) -> Result<(), DatasetError> {
    file.flush().and_then(|()| file.get_ref().sync_all()).map_err(DatasetError::at("write", path))
}

/// Gives a file its place, in the stead of what is there.
pub(super) fn in_place(path: &Path, place: &Path) -> Result<(), DatasetError> {
    let folder = place.parent().unwrap_or(place);
    std::fs::create_dir_all(folder).map_err(DatasetError::at("make", folder))?;
    std::fs::rename(path, place).map_err(DatasetError::at("write", place))?;
    // The name is on the disk, too.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(DatasetError::at("write", folder))
}

fn remove_abandoned(all: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(all)? {
        let folder = entry?.path();
        let Ok(lock) = open(&folder.join(LOCK)) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            match std::fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}
