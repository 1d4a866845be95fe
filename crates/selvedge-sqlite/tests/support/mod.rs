//! A directory, a harness and plain connections for each test, and the cost of a statement.
#![allow(dead_code)]

use rusqlite::{Connection, Params, StatementStatus};
use selvedge_conformance::Harness;
use selvedge_sqlite::{SqliteStore, statements};
use std::path::PathBuf;
use std::sync::Arc;

/// A directory that is deleted with this value.
pub struct Directory(PathBuf);

impl Directory {
    /// Creates an empty directory.
    pub fn new() -> Directory {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(uuid::Uuid::new_v4().to_string());
        std::fs::create_dir_all(&path).expect("the directory is created");
        Directory(path)
    }

    /// Returns the path of a file in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the path of the database in the directory.
    pub fn database(&self) -> PathBuf {
        self.path("selvedge.db")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Best effort: it is inside the target directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Opens a store in the directory, with a harness.
pub async fn harness(directory: &Directory) -> Harness {
    let store = SqliteStore::open(&directory.database()).await;
    Harness::new(Arc::new(store.expect("the store opens"))).await
}

/// Opens a connection to the database of the directory, outside of any store.
pub fn plain_connection(directory: &Directory) -> Connection {
    Connection::open(directory.database()).expect("the file opens")
}

/// Returns the text of a statement (`noun/verb`).
pub fn text(name: &str) -> &'static str {
    let statement = statements().into_iter().find(|(file, _)| *file == name);
    statement.expect("the statement exists").1
}

/// Runs a statement and returns the number of steps of SQLite's virtual machine.
pub fn steps(connection: &Connection, name: &str, parameters: impl Params) -> i32 {
    let mut statement = connection.prepare(text(name)).expect("the statement is valid");
    let mut rows = statement.query(parameters).expect("the statement runs");
    while rows.next().expect("the row is read").is_some() {}
    drop(rows);
    statement.get_status(StatementStatus::VmStep)
}
