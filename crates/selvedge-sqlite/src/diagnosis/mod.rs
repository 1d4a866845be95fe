//! Examines a store from outside, for `selvedge doctor`.
//!
//! The file is opened for reading only and the lock of its owner is not touched, so the examination is safe beside a running
//! server. It finds the owner in the list of locks that Linux publishes. A file that nobody has open and that has no
//! write-ahead log is read as immutable: otherwise SQLite would create its auxiliary files beside it.
//!
//! While a process has the file open, only SQLite opens it here: closing any other descriptor would release the locks that
//! this very process may hold on it (see `connection/lock`).

mod disk;
mod owner;

use crate::connection::damage::{self, Searched};
use crate::connection::failure::failure;
use crate::connection::files::with_suffix;
use crate::connection::{locate, schema};
use crate::kinds::{api_keys, secret};
use owner::Owner;
use rusqlite::{Connection, OpenFlags};
use selvedge_store::{Error, Finding, Level, SchemaVersion};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// The size of the header of a file, the place of the versions for writing and reading in it, and their values for a
/// write-ahead log.
const HEADER_BYTES: usize = 100;
const MODES: Range<usize> = 18..20;
const WAL_MODE: [u8; 2] = [2, 2];
/// The longest wait for a lock on the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// The values from which on the examination reports something.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The longest search for damaged pages. Default: 5 s.
    pub search_time: Duration,
    /// The size of the write-ahead log, in bytes. The writer keeps it below 64 MiB unless a reader prevents that. Default:
    /// 128 MiB.
    pub log_bytes: u64,
    /// The free space of the disk, in bytes. Default: 1 GiB; a tenth of it is an error.
    pub free_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { search_time: damage::CHECK_LIMIT, log_bytes: 128 << 20, free_bytes: 1 << 30 }
    }
}

/// Examines the store in the file at `path`.
pub async fn diagnose(path: &Path, limits: &Limits) -> Vec<Finding> {
    let (path, limits) = (path.to_owned(), limits.clone());
    let examined = tokio::task::spawn_blocking(move || examine(&path, &limits)).await;
    examined.unwrap_or_else(|error| vec![Finding::unknown("file", error)])
}

/// Returns the version of the schema of the file at `path`: 0 if there is no file. Changes nothing.
pub async fn schema_version(path: &Path) -> Result<SchemaVersion, Error> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let path = locate(&path)?;
        if !path.exists() {
            return Ok(schema::of_new_file());
        }
        schema::read_version(&open(&path, &Owner::find(&path))?)
    });
    read.await.unwrap_or_else(|error| Err(Error::Failed(format!("the file was not read: {error}"))))
}

fn examine(path: &Path, limits: &Limits) -> Vec<Finding> {
    let path = match locate(path) {
        Ok(path) => path,
        Err(error) => return vec![Finding::new("file", Level::Error, error.to_string(), "correct --store")],
    };
    let length = match std::fs::metadata(&path) {
        Ok(metadata) => metadata.len(),
        Err(error) => {
            let message = format!("{}: {error}", path.display());
            let remedy =
                "check --store, or create the store by starting a server: selvedge serve --store sqlite:PATH";
            return vec![Finding::new("file", Level::Error, message, remedy)];
        }
    };
    let owner = Owner::find(&path);
    if length == 0 && !owner.is_running() {
        let message = format!(
            "{} has no byte: its content was lost, or no server has created the store yet",
            path.display()
        );
        let remedy = "restore it from a backup, or remove it to start a new store";
        return vec![Finding::new("file", Level::Error, message, remedy)];
    }
    let mut findings = vec![
        Finding::ok("file", format!("{} has {} MiB", path.display(), length >> 20)),
        owner.finding(),
        disk::permissions(&path),
        disk::file_system(&path),
        disk::free_space(&path, limits.free_bytes),
        log_size(&path, limits.log_bytes),
    ];
    match open(&path, &owner) {
        Ok(mut connection) => {
            findings.extend(content(&mut connection, limits));
            findings.push(journal(&connection, &path, is_idle(&path, &owner)));
        }
        Err(error) => findings.push(unreadable(&error)),
    }
    findings
}

fn open(path: &Path, owner: &Owner) -> Result<Connection, Error> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let name = uri(path, is_idle(path, owner));
    let connection = Connection::open_with_flags(name, flags).map_err(failure)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failure)?;
    connection.execute_batch("pragma query_only = on; pragma temp_store = memory;").map_err(failure)?;
    Ok(connection)
}

/// Reports whether nobody has the file open and all commits are in the file itself.
fn is_idle(path: &Path, owner: &Owner) -> bool {
    !owner.is_running() && !with_suffix(path, "-wal").exists()
}

/// Returns the path as a URI of SQLite, in which `?`, `#` and `%` have a meaning.
fn uri(path: &Path, is_immutable: bool) -> String {
    let path = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let parameters = if is_immutable { "?immutable=1" } else { "" };
    format!("file:{path}{parameters}")
}

/// Checks what the file contains.
fn content(connection: &mut Connection, limits: &Limits) -> Vec<Finding> {
    let version = schema::read_version(connection);
    // An older schema may lack tables that the check of the secret reads.
    let is_readable =
        version.as_ref().is_ok_and(|version| !version.needs_migration() && !version.is_too_new());
    let mut findings = vec![version.map_or_else(|error| unreadable(&error), SchemaVersion::finding)];
    if is_readable {
        findings.push(secret(connection));
    }
    findings.push(match damage::search(connection, limits.search_time) {
        Ok(Searched::Sound) => Finding::ok("damage", "no page is damaged"),
        Ok(Searched::Stopped) => {
            let seconds = limits.search_time.as_secs();
            let message =
                format!("no damaged page was found within {seconds} s; the file is larger than that");
            Finding::new(
                "damage",
                Level::Notice,
                message,
                "sqlite3 PATH 'pragma quick_check' searches the whole file",
            )
        }
        Err(error) => unreadable(&error),
    });
    findings
}

/// Checks that a copy of the file does not contain the root secret.
fn secret(connection: &Connection) -> Finding {
    let read = || {
        let kept = secret::kept(connection)?;
        Ok((kept.is_some(), !api_keys::list(connection, None, 1)?.is_empty()))
    };
    match read() {
        Ok((is_in_store, has_api_keys)) => Finding::secret(is_in_store, has_api_keys),
        Err::<_, rusqlite::Error>(error) => Finding::unknown("secret", error),
    }
}

fn unreadable(error: &Error) -> Finding {
    let remedy = "restore a backup, or save what is readable: sqlite3 PATH .recover | sqlite3 NEW_PATH";
    match error {
        Error::Failed(text) => Finding::new("damage", Level::Error, text.clone(), remedy),
        Error::BadAddress(text) => Finding::new("file", Level::Error, text.clone(), "check --store"),
        other => Finding::new(
            "file",
            Level::Error,
            other.to_string(),
            "check the permissions of the file and its directory",
        ),
    }
}

/// Checks the journal mode. Of an immutable file only the header tells it.
fn journal(connection: &Connection, path: &Path, is_immutable: bool) -> Finding {
    let uses_log = match is_immutable {
        true => {
            let mut header = [0; HEADER_BYTES];
            let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
            read.map(|()| header[MODES] == WAL_MODE).map_err(|error| error.to_string())
        }
        false => {
            let mode = connection.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0));
            mode.map(|mode| mode == "wal").map_err(|error| error.to_string())
        }
    };
    match uses_log {
        Ok(true) => Finding::ok("journal", "the file uses a write-ahead log"),
        Ok(false) => {
            let message = "the file uses a rollback journal; servers use a write-ahead log";
            Finding::new("journal", Level::Notice, message, "start a server, which changes the mode")
        }
        Err(error) => Finding::unknown("journal", error),
    }
}

fn log_size(path: &Path, limit: u64) -> Finding {
    let bytes = std::fs::metadata(with_suffix(path, "-wal")).map_or(0, |metadata| metadata.len());
    let mib = bytes >> 20;
    if bytes < limit {
        return Finding::ok("log_size", format!("the write-ahead log has {mib} MiB"));
    }
    let message = format!(
        "the write-ahead log has {mib} MiB: a program that reads the file for long keeps it from shrinking"
    );
    Finding::new(
        "log_size",
        Level::Warning,
        message,
        "end other programs that have the file open: fuser PATH",
    )
}
