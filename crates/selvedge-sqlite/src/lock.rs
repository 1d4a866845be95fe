//! One process per file: a lock beside the database that the operating system drops with the process that has it.
//!
//! The lock file carries a note of who has it, for the message that a second opener gets. The file stays when the lock is
//! let go: deleting it would let two processes lock two different files of the same name.

use selvedge_store::Error;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The exclusive right to a database, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock of the database at `database`, or says who has it.
    pub fn take(database: &Path) -> Result<Lock, Error> {
        let path = beside(database);
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
        lock.note(None);
        Ok(lock)
    }

    /// Notes who has the lock, and where it can be reached.
    pub fn note(&mut self, address: Option<&str>) {
        let note = format!("{}\n{}\n", std::process::id(), address.unwrap_or_default());
        self.write(&note);
    }

    /// A note that cannot be written only makes the message for a second opener poorer.
    fn write(&mut self, note: &str) {
        let written = self
            .file
            .set_len(0)
            .and_then(|()| self.file.seek(SeekFrom::Start(0)))
            .and_then(|_| self.file.write_all(note.as_bytes()));
        if let Err(error) = written {
            tracing::warn!(%error, "the lock file's note could not be written");
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.write("");
    }
}

/// The lock file of a database.
fn beside(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-lock");
    path.into()
}

fn cannot_open(path: &Path, error: &std::io::Error) -> Error {
    let path = path.display();
    Error::Unavailable(format!("cannot lock {path}: {error}; the store needs a directory it may write to"))
}

fn in_use(database: &Path, file: &mut File) -> Error {
    let mut note = String::new();
    // Where the note cannot be read the message does without.
    let _ = file.read_to_string(&mut note);
    let mut lines = note.lines().map(str::trim);
    let process = match lines.next().filter(|line| !line.is_empty()) {
        Some(pid) => format!("process {pid}"),
        None => "another process".into(),
    };
    let listens = match lines.next().filter(|line| !line.is_empty()) {
        Some(address) => format!(", which listens on {address}; talk to that one, or stop it first"),
        None => "; stop that one first, or use another path".into(),
    };
    Error::InUse(format!("{} is already open in {process}{listens}", database.display()))
}
