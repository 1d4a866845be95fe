//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Directories whose files nobody writes by hand: builds and installed packages.
const SKIPPED: [&str; 5] = ["target", "node_modules", "dist", ".venv", "venv"];
/// Stores as earlier builds wrote them.
const FIXTURES: &str = "crates/selvedge-conformance/fixtures";

/// A text file.
#[derive(Clone, Debug)]
pub struct File {
    /// The path below the root, with `/`.
    pub path: String,
    pub text: String,
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the content of a file of the repository.
///
/// # Panics
/// If there is no such text file.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns all files with this extension, sorted by path. Hidden directories are left out.
pub fn files(extension: &str) -> Vec<File> {
    let mut found = Vec::new();
    walk("", extension, &mut found);
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

/// Returns the names of the crates, sorted.
pub fn crates() -> Vec<String> {
    entries("crates").into_iter().filter(|(_, is_directory)| *is_directory).map(|(name, _)| name).collect()
}

fn walk(directory: &str, extension: &str, found: &mut Vec<File>) {
    for (name, is_directory) in entries(directory) {
        let path = if directory.is_empty() { name.clone() } else { format!("{directory}/{name}") };
        let is_skipped = name.starts_with('.') || SKIPPED.contains(&name.as_str()) || path == FIXTURES;
        if is_directory && !is_skipped {
            walk(&path, extension, found);
        } else if !is_directory && Path::new(&name).extension().is_some_and(|found| found == extension) {
            found.push(File { text: read(&path), path });
        }
    }
}

/// Returns the names in a directory, sorted, and which of them are directories. Links are not followed.
fn entries(directory: &str) -> Vec<(String, bool)> {
    let list = fs::read_dir(root().join(directory)).unwrap_or_else(|error| panic!("{directory}: {error}"));
    let mut entries: Vec<(String, bool)> = list
        .map(|entry| {
            let entry = entry.expect("a directory can be read");
            let kind = entry.file_type().expect("an entry has a type");
            (entry.file_name().to_string_lossy().into_owned(), kind.is_dir())
        })
        .collect();
    entries.sort();
    entries
}
