//! The root secret, kept in a file beside the database: `FILE-secret`, which only the owner can read.
//!
//! It is not in the database, so that a copy of the database signs no tokens. A database of an earlier version that has a
//! secret goes on using it: tokens that were signed with it stay valid.
//!
//! The file has the format of `SELVEDGE_SECRET_FILE`: the secret and one line end. It is complete, and on the disk, before its
//! name exists. Only this process has the database open, and one call at a time makes the file.

use crate::connection::files::{create_private, with_suffix};
use crate::kinds::Kind;
use crate::sql::{self, statements};
use crate::{SqliteStore, locked};
use async_trait::async_trait;
use rusqlite::Connection;
use selvedge_store::{Error, RootSecret, SecretPlace, SecretStore};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

pub(crate) const KIND: Kind = Kind { statements: STATEMENTS, ..Kind::EMPTY };

statements! {
    KEPT_SECRET_READ = "kept_secret/read";
}

/// The end of the name of the file.
pub const SUFFIX: &str = "-secret";
/// The largest file, in bytes.
const LIMIT: u64 = 64 * 1024;

/// Held while a file is made.
static MAKING: Mutex<()> = Mutex::new(());

/// Returns the root secret in the database, which only files of earlier versions have.
pub fn kept(connection: &Connection) -> rusqlite::Result<Option<Vec<u8>>> {
    sql::row(connection, &KEPT_SECRET_READ, (), |found| found.get(0))
}

impl SqliteStore {
    /// Returns the root secret: that of the database, or else that of the file, which is made from `new` if there is none.
    async fn keep_secret(&self, new: &[u8]) -> Result<RootSecret, Error> {
        if let Some(bytes) = self.readers.read(kept).await? {
            return Ok(RootSecret { bytes, place: SecretPlace::Store });
        }
        let (path, new) = (path_of(&self.path), new.to_vec());
        let read = tokio::task::spawn_blocking(move || read_or_make(path, &new)).await;
        read.unwrap_or_else(|error| Err(Error::Failed(format!("the secret was not read: {error}"))))
    }
}

#[async_trait]
impl SecretStore for SqliteStore {
    async fn root_secret(&self, new: &[u8]) -> Result<RootSecret, Error> {
        self.meter.measure("root_secret", self.keep_secret(new)).await
    }
}

pub fn path_of(database: &Path) -> PathBuf {
    with_suffix(database, SUFFIX)
}

fn read_or_make(path: PathBuf, new: &[u8]) -> Result<RootSecret, Error> {
    let _making = locked(&MAKING);
    let bytes = match read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => make(&path, new).map(|()| new.to_vec()),
        read => read,
    };
    let failed = |error: io::Error| {
        Error::Failed(format!(
            "the root secret in {} cannot be read or made: {error}; make the file readable and the directory writable for \
             this user, or set SELVEDGE_SECRET",
            path.display()
        ))
    };
    Ok(RootSecret { bytes: bytes.map_err(failed)?, place: SecretPlace::File(path) })
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LIMIT).read_to_end(&mut bytes)?;
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    Ok(bytes)
}

/// Writes the file under another name, waits for the disk, and gives it its name.
fn make(path: &Path, secret: &[u8]) -> io::Result<()> {
    let draft = with_suffix(path, "-new");
    // Left by a process that has crashed.
    match std::fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = create_private(&draft)?;
    // Readers remove one line end, and this is one after any secret.
    file.write_all(secret)?;
    file.write_all(if secret.ends_with(b"\r") { b"\r\n" } else { b"\n" })?;
    file.sync_all()?;
    std::fs::rename(&draft, path)?;
    sync_directory(path)
}

#[cfg(unix)]
fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}
