//! A directory of its own for each SQLite file, and a copy of the file of a fixture in it, opened today or in the far future.

use selvedge_conformance::fixtures::Fixture;
use selvedge_sqlite::SqliteStore;
use std::path::PathBuf;
use std::sync::Arc;

/// 2190-01-01 in microseconds of the Unix epoch: long after every window, retention and grace period of a default length, and
/// before the times that a fixture never reaches.
const LATER_US: i64 = 6_942_585_600_000_000;

/// A directory that goes when it is dropped.
pub struct Directory(PathBuf);

impl Directory {
    /// A new empty directory.
    pub fn new() -> Directory {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(uuid::Uuid::new_v4().to_string());
        std::fs::create_dir_all(&path).expect("a directory can be made");
        Directory(path)
    }

    /// A directory with a copy of the file of a fixture.
    pub fn copy(fixture: &Fixture) -> Directory {
        let directory = Directory::new();
        std::fs::copy(fixture.path("sqlite.db"), directory.database()).expect("the file is copied");
        directory
    }

    /// The same, with the clock of the store in the year 2190: what a test finds there does not depend on when it runs. A store
    /// never goes behind the time that its file shows to have passed.
    pub fn copy_for_later(fixture: &Fixture) -> Directory {
        let directory = Self::copy(fixture);
        let file = rusqlite::Connection::open(directory.database()).expect("the file opens");
        let moved = file.execute("update log_window set at = ?1", [LATER_US]).expect("the time is set");
        assert_eq!(moved, 1);
        directory
    }

    /// The path of the file in it.
    pub fn database(&self) -> PathBuf {
        self.0.join("selvedge.db")
    }

    /// Opens the store in it, which brings the schema up to date.
    pub async fn store(&self) -> Arc<SqliteStore> {
        Arc::new(SqliteStore::open(&self.database()).await.expect("the store opens"))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What is left behind is in the target directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
