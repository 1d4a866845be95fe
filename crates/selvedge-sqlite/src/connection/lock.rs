//! One process per file: a lock of the operating system on the database file itself, until the process ends.
//!
//! The lock belongs to the file and not to a path, so a second process finds it through a hard link, a bind mount or a
//! linked directory, and whatever happened to the files beside the database. It is an `flock`. On Linux that does not
//! interact with SQLite's own `fcntl` locks, so other programs can read the file and back it up.
//!
//! When a process closes any descriptor of a file, it loses all its `fcntl` locks on that file. So this descriptor is
//! opened before SQLite opens the file, and closed after all connections are. For the same reason a second store in the
//! same process is refused before it opens the file.
//!
//! A database without a byte is one that was truncated, or the first start of a store crashed before it wrote the first page.
//! So the owner file says in its third line, before the database is created, that it is being created; that line goes when the
//! first page is there. An empty database without it is refused.
//!
//! The owner file beside the database names the owner, for the error that a second process gets. It is locked, too: other
//! systems do not separate the two kinds of locks, and builds before this one know no other lock.

use super::files::{FileId, open_or_create_private, with_suffix};
use crate::locked;
use selvedge_store::Error;
use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};

/// The line of the owner file of a database that is being created.
const CREATING: &str = "creating";

/// The database files that this process has locked.
static OPEN: LazyLock<Mutex<HashSet<FileId>>> = LazyLock::new(Mutex::default);

/// The exclusive right to use a database, until it is dropped. Every connection keeps it alive.
#[derive(Debug)]
pub struct Lock {
    owner: OwnerFile,
    /// None while it is dropped.
    database: Option<File>,
    id: Option<FileId>,
}

impl Lock {
    /// Acquires the lock of the database at `path`, which is created if it does not exist, or fails with an error that names
    /// its owner.
    pub fn acquire(path: &Path) -> Result<Arc<Lock>, Error> {
        let mut open = locked(&OPEN);
        let owner = OwnerFile::open(path)?;
        if FileId::of(path).is_ok_and(|id| id.is_some_and(|id| open.contains(&id))) {
            return Err(owner.in_use(path));
        }
        take(&owner.file, path, &owner)?;
        let is_empty = owner.check_content(path)?;
        if is_empty {
            let written = owner.write(&format!("{}\n\n{CREATING}\n", std::process::id()));
            written.and_then(|()| owner.file.sync_all()).map_err(|error| cannot_lock(path, &error))?;
        }
        let database = open_or_create_private(path).map_err(|error| cannot_lock(path, &error))?;
        if cfg!(target_os = "linux") {
            take(&database, path, &owner)?;
        }
        let id = FileId::of_file(&database).map_err(|error| cannot_lock(path, &error))?;
        open.extend(id);
        let lock = Lock { owner, database: Some(database), id };
        if !is_empty {
            lock.write_owner(None);
        }
        Ok(Arc::new(lock))
    }

    /// Writes this process, and the address at which it listens, to the owner file. The database must have its first page.
    /// A failure is only logged: the lock holds without it.
    pub fn write_owner(&self, address: Option<&str>) {
        let owner = format!("{}\n{}\n", std::process::id(), address.unwrap_or_default());
        if let Err(error) = self.owner.write(&owner) {
            tracing::warn!(%error, "the owner could not be written to the lock file");
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let is_empty =
            self.database.as_ref().and_then(|file| file.metadata().ok()).is_some_and(|file| file.len() == 0);
        let owner = if is_empty { format!("\n\n{CREATING}\n") } else { String::new() };
        if let Err(error) = self.owner.write(&owner) {
            tracing::warn!(%error, "the owner could not be removed from the lock file");
        }
        // Closed before another store of this process may open the file: later, the close would release its locks.
        let mut open = locked(&OPEN);
        drop(self.database.take());
        if let Some(id) = self.id {
            open.remove(&id);
        }
    }
}

/// The file beside a database that names its owner. It is never deleted: otherwise two processes could hold locks on two
/// different files of the same name.
#[derive(Debug)]
struct OwnerFile {
    file: File,
}

impl OwnerFile {
    fn open(database: &Path) -> Result<OwnerFile, Error> {
        let path = with_suffix(database, "-lock");
        let file = open_or_create_private(&path).map_err(|error| cannot_lock(&path, &error))?;
        Ok(OwnerFile { file })
    }

    /// Replaces the text of the file.
    fn write(&self, text: &str) -> std::io::Result<()> {
        let mut file = &self.file;
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(text.as_bytes())
    }

    /// Reports whether the database has no byte, or does not exist. Fails if it lost its content.
    fn check_content(&self, database: &Path) -> Result<bool, Error> {
        match std::fs::metadata(database) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            Ok(found) if found.is_file() && found.len() == 0 => {}
            // A file that cannot be examined is refused when it is opened, with that error.
            Ok(_) | Err(_) => return Ok(false),
        }
        let mut text = String::new();
        let read = (&self.file).read_to_string(&mut text);
        read.map_err(|error| cannot_lock(database, &error))?;
        match text.lines().nth(2) == Some(CREATING) {
            true => Ok(true),
            false => Err(Error::BadAddress(format!("{} {EMPTY}", database.display()))),
        }
    }

    /// Returns the error for a database that another store has locked.
    fn in_use(&self, database: &Path) -> Error {
        let mut owner = String::new();
        // An unreadable file only makes the message shorter.
        let _ = (&self.file).read_to_string(&mut owner);
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
}

/// The refusal of an empty file, after its path.
pub const EMPTY: &str = "is empty, and no store was being created there: its content was lost, or another program made the file. \
                         Restore it from a backup, or remove it to start a new store";

/// Locks a file, or fails with an error that names the owner of the database.
fn take(file: &File, database: &Path, owner: &OwnerFile) -> Result<(), Error> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(owner.in_use(database)),
        Err(TryLockError::Error(error)) => Err(cannot_lock(database, &error)),
    }
}

fn cannot_lock(path: &Path, error: &std::io::Error) -> Error {
    let path = path.display();
    Error::Unavailable(format!(
        "cannot lock {path}: {error}; the store needs a directory on a local disk that it may write to"
    ))
}
