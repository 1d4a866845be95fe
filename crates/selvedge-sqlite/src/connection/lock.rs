//! One process per file: a lock file beside the database, whose lock the operating system releases when the process ends.
//!
//! The lock file names its owner, for the error that a second process gets. It is never deleted: otherwise two processes
//! could hold locks on two different files of the same name.

use selvedge_store::Error;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The exclusive right to use a database, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Acquires the lock of the database at `database`, or fails with an error that names its owner.
    pub fn acquire(database: &Path) -> Result<Lock, Error> {
        let path = lock_file(database);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| cannot_open(&path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(database, &mut file)),
            Err(TryLockError::Error(error)) => return Err(cannot_open(&path, &error)),
        }
        let mut lock = Lock { file };
        lock.write_owner(None);
        Ok(lock)
    }

    /// Writes this process, and the address at which it listens, to the lock file.
    pub fn write_owner(&mut self, address: Option<&str>) {
        let owner = format!("{}\n{}\n", std::process::id(), address.unwrap_or_default());
        self.write(&owner);
    }

    /// Replaces the text of the lock file. A failure is only logged: the lock holds without it.
    fn write(&mut self, text: &str) {
        let written = self
            .file
            .set_len(0)
            .and_then(|()| self.file.seek(SeekFrom::Start(0)))
            .and_then(|_| self.file.write_all(text.as_bytes()));
        if let Err(error) = written {
            tracing::warn!(%error, "the owner could not be written to the lock file");
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.write("");
    }
}

/// Returns the path of a database's lock file.
fn lock_file(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-lock");
    path.into()
}

fn cannot_open(path: &Path, error: &std::io::Error) -> Error {
    let path = path.display();
    Error::Unavailable(format!("cannot lock {path}: {error}; the store needs a directory it may write to"))
}

fn in_use(database: &Path, file: &mut File) -> Error {
    let mut owner = String::new();
    // An unreadable lock file only makes the message shorter.
    let _ = file.read_to_string(&mut owner);
    let mut lines = owner.lines().map(str::trim);
    let process = match lines.next().filter(|line| !line.is_empty()) {
        Some(pid) => format!("process {pid}"),
        None => "another process".into(),
    };
    let advice = match lines.next().filter(|line| !line.is_empty()) {
        Some(address) => format!(", which listens on {address}; connect to it, or stop it first"),
        None => "; stop it first, or use another path".into(),
    };
    Error::InUse(format!("{} is already open in {process}{advice}", database.display()))
}
