//! Connections to the file: its path, and the settings of the writing and the reading connections.

pub mod damage;
pub mod failure;
pub mod files;
pub mod job;
pub mod lock;
pub mod owner;
pub mod readers;
pub mod schema;
pub mod writer;

use failure::failure;
use rusqlite::{Connection, OpenFlags};
use selvedge_store::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The most statements that a connection keeps prepared: more than there are.
const PREPARED_STATEMENTS: usize = 256;
/// The longest wait for a lock on the file. No other process of ours writes, so only other programs cause such waits, for
/// example a backup.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the canonical path of a store, so that the files beside the database have the same names in every process. Fails
/// if the path cannot be a store.
pub fn locate(path: &Path) -> Result<PathBuf, Error> {
    let shown = path.display();
    if path.as_os_str().is_empty() || path == Path::new(":memory:") {
        return Err(Error::BadAddress(format!(
            "{shown:?} is not the path of a file; name one, or use the memory store"
        )));
    }
    if path.is_dir() {
        return Err(Error::BadAddress(format!(
            "{shown} is a directory; name a file in it, such as {}",
            path.join("selvedge.db").display()
        )));
    }
    if let Ok(found) = path.canonicalize() {
        return Ok(found);
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = path.file_name().ok_or_else(|| Error::BadAddress(format!("{shown} does not name a file")))?;
    match directory.canonicalize() {
        Ok(found) if found.is_dir() => Ok(found.join(name)),
        _ => Err(Error::BadAddress(format!(
            "the directory {} does not exist; create it, or name another path for the store",
            directory.display()
        ))),
    }
}

/// Opens the writing connection. Commits wait for the disk. A database of another program, and a damaged one, is refused
/// before it is changed.
pub fn writer(path: &Path) -> Result<Connection, Error> {
    let mut connection = open(path, OpenFlags::SQLITE_OPEN_CREATE)?;
    schema::check(&connection)?;
    damage::check(&mut connection, damage::CHECK_LIMIT)?;
    // The writer checkpoints by itself. The log is cut to 64 MiB after a checkpoint; the page cache has 64 MiB.
    let settings = "
        pragma journal_mode = wal;
        pragma synchronous = full;
        pragma fullfsync = on;
        pragma checkpoint_fullfsync = on;
        pragma wal_autocheckpoint = 0;
        pragma journal_size_limit = 67108864;
        pragma cache_size = -65536;
    ";
    connection.execute_batch(settings).map_err(failure)?;
    Ok(connection)
}

/// Opens a connection that only reads, with a page cache of 16 MiB.
pub fn reader(path: &Path) -> Result<Connection, Error> {
    let connection = open(path, OpenFlags::empty())?;
    let settings = "
        pragma query_only = on;
        pragma cache_size = -16384;
    ";
    connection.execute_batch(settings).map_err(failure)?;
    Ok(connection)
}

fn open(path: &Path, more: OpenFlags) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    let connection = Connection::open_with_flags(path, flags)
        .map_err(|error| Error::Unavailable(format!("cannot open {}: {error}", path.display())))?;
    connection.set_prepared_statement_cache_capacity(PREPARED_STATEMENTS);
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failure)?;
    connection.execute_batch("pragma temp_store = memory; pragma foreign_keys = off;").map_err(failure)?;
    Ok(connection)
}
