//! A directory of its own for each test.
#![allow(dead_code)]

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
