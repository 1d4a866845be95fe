//! Opening the file: where it is, and how connections to it are set up.

use crate::failure::failure;
use crate::schema;
use rusqlite::{Connection, OpenFlags};
use selvedge_store::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How many statements a connection keeps prepared: more than there are.
const STATEMENTS: usize = 256;
/// Nobody else writes, so this covers only what other programs do to the file, such as a backup.
const BUSY: Duration = Duration::from_secs(10);

/// The one true path of a store, so that two names of one file meet at the same lock; or what is wrong with the path.
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

/// The connection that writes. Commits wait for the disk. A file that is not ours is not touched.
pub fn writer(path: &Path) -> Result<Connection, Error> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_CREATE)?;
    schema::check(&connection)?;
    let set_up = "
        pragma journal_mode = wal;
        pragma synchronous = full;
        pragma fullfsync = on;
        pragma checkpoint_fullfsync = on;
        pragma wal_autocheckpoint = 0;
        pragma journal_size_limit = 67108864;
        pragma cache_size = -65536;
    ";
    connection.execute_batch(set_up).map_err(failure)?;
    Ok(connection)
}

/// A connection that only reads.
pub fn reader(path: &Path) -> Result<Connection, Error> {
    let connection = open(path, OpenFlags::empty())?;
    let set_up = "
        pragma query_only = on;
        pragma cache_size = -16384;
    ";
    connection.execute_batch(set_up).map_err(failure)?;
    Ok(connection)
}

fn open(path: &Path, more: OpenFlags) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    let connection = Connection::open_with_flags(path, flags)
        .map_err(|error| Error::Unavailable(format!("cannot open {}: {error}", path.display())))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.busy_timeout(BUSY).map_err(failure)?;
    connection.execute_batch("pragma temp_store = memory; pragma foreign_keys = off;").map_err(failure)?;
    Ok(connection)
}
