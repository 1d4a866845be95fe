//! Temporary directories with a copy of a fixture's SQLite file, opened today or in the far future.

use selvedge_conformance::fixtures::Fixture;
use selvedge_sqlite::SqliteStore;
use std::path::PathBuf;
use std::sync::Arc;

/// 2190-01-01 in microseconds since the Unix epoch: after the end of every window, retention and grace period of
/// default length, and before the times that a fixture never reaches.
const LATER_US: i64 = 6_942_585_600_000_000;

/// A temporary directory, deleted on drop.
pub struct Directory(PathBuf);

impl Directory {
    /// Creates an empty directory.
    pub fn new() -> Directory {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(uuid::Uuid::new_v4().to_string());
        std::fs::create_dir_all(&path).expect("the directory is created");
        Directory(path)
    }

    /// Creates a directory with a copy of a fixture's SQLite file.
    pub fn copy(fixture: &Fixture) -> Directory {
        let directory = Directory::new();
        std::fs::copy(fixture.path("sqlite.db"), directory.database()).expect("the file is copied");
        directory
    }

    /// Creates a copy whose store believes to be in the year 2190, so that a test does not depend on when it runs. The
    /// clock of a store never runs behind the latest time recorded in its file.
    pub fn copy_for_later(fixture: &Fixture) -> Directory {
        let directory = Self::copy(fixture);
        let file = rusqlite::Connection::open(directory.database()).expect("the file opens");
        let moved = file.execute("update log_window set at = ?1", [LATER_US]).expect("the time is set");
        assert_eq!(moved, 1);
        directory
    }

    /// Returns the path of the SQLite file.
    pub fn database(&self) -> PathBuf {
        self.0.join("selvedge.db")
    }

    /// Opens the store, which migrates its schema.
    pub async fn store(&self) -> Arc<SqliteStore> {
        Arc::new(SqliteStore::open(&self.database()).await.expect("the store opens"))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Best effort: a directory that is left behind lies in the target directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
