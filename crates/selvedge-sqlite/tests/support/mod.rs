//! A directory of its own for each test, and what a statement costs.
#![allow(dead_code)]

use rusqlite::{Connection, Params, StatementStatus};
use selvedge_sqlite::statements;
use std::path::PathBuf;

/// A directory that goes when it is dropped.
pub struct Directory(PathBuf);

impl Directory {
    /// A new empty directory.
    pub fn new() -> Directory {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(uuid::Uuid::new_v4().to_string());
        std::fs::create_dir_all(&path).expect("a directory can be made");
        Directory(path)
    }

    /// The path of something in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The path of the database in it.
    pub fn database(&self) -> PathBuf {
        self.path("selvedge.db")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What is left behind is in the target directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A statement by the name of its file.
pub fn text(name: &str) -> &'static str {
    let statement = statements().into_iter().find(|(file, _)| *file == name);
    statement.expect("there is such a statement").1
}

/// How many steps SQLite's machine takes for a statement.
pub fn steps(connection: &Connection, name: &str, parameters: impl Params) -> i32 {
    let mut statement = connection.prepare(text(name)).expect("the statement is understood");
    let mut rows = statement.query(parameters).expect("the statement runs");
    while rows.next().expect("a row is read").is_some() {}
    drop(rows);
    statement.get_status(StatementStatus::VmStep)
}
