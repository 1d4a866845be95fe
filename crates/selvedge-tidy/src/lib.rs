//! Reads the repository for its own tests: which files there are, where functions begin and end, and which findings are expected.
//!
//! Each test in `tests/tidy` is a rule of the repository as a sentence. A finding names file, line and what to do. Known exceptions
//! stand in tables with their reasons, and an exception that is no longer needed is a finding itself, so the tables shrink.

mod exceptions;
mod source;
mod tree;

pub use exceptions::{Exception, compare};
pub use source::{Function, functions, masked};
pub use tree::{File, crates, files, read, root};

/// Fails with all findings, one per line.
///
/// # Panics
/// If there is a finding.
pub fn assert_none(findings: &[String]) {
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}
