//! The stores that earlier builds wrote and that are checked in: every later build must open and understand them.
//!
//! Each version has a directory under `crates/selvedge-conformance/fixtures`, named `v1`, `v2` and so on. Its files:
//!
//! - `sqlite.db`: the SQLite file;
//! - `postgres.sql`: the Postgres schema [`SCHEMA`] with its rows, as statements that any driver can run;
//! - `sqlite.json`, `postgres.json`: what the build that wrote the store read from it over HTTP, and notes.
//!
//! A directory is written once and never changed. CONTRIBUTING.md says how to add one.
#![allow(missing_docs)]

use std::path::{Path, PathBuf};

/// The Postgres schema that `postgres.sql` creates.
pub const SCHEMA: &str = "selvedge_fixture";

/// The stores of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixture {
    /// Its number.
    pub version: u32,
    directory: PathBuf,
}

impl Fixture {
    /// The path of one of its files.
    pub fn path(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }

    /// The text of one of its files.
    pub fn text(&self, file: &str) -> String {
        let path = self.path(file);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

/// All fixtures, oldest first. Panics where there are none, so that no test passes because it had nothing to do.
pub fn all() -> Vec<Fixture> {
    let entries = std::fs::read_dir(root()).expect("the directory of the fixtures is there");
    let mut found: Vec<Fixture> = entries
        .filter_map(|entry| {
            let directory = entry.expect("an entry is read").path();
            let name = directory.file_name()?.to_str()?.to_owned();
            Some(Fixture { version: name.strip_prefix('v')?.parse().ok()?, directory })
        })
        .collect();
    assert!(!found.is_empty(), "there is no fixture");
    found.sort_by_key(|fixture| fixture.version);
    found
}

/// The newest fixture: the one that must contain every kind of row that this build writes.
pub fn newest() -> Fixture {
    all().pop().expect("there is a fixture")
}

/// Creates the directory for a further version. The number is one more than that of the newest, so no existing directory is
/// written to.
pub fn create_next() -> Fixture {
    let existing = std::fs::read_dir(root()).is_ok_and(|mut entries| entries.next().is_some());
    let version = if existing { newest().version + 1 } else { 1 };
    let directory = root().join(format!("v{version}"));
    std::fs::create_dir_all(root()).expect("the directory of the fixtures can be made");
    std::fs::create_dir(&directory).expect("the directory of the version is new");
    Fixture { version, directory }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}
