//! The owner of a file: the process that has locked it, without touching the lock.

use crate::connection::files::with_suffix;
use selvedge_store::Finding;
use std::path::Path;

/// The owner file and the locks of a database.
pub struct Owner {
    /// The process and the address in the owner file; empty after an orderly end.
    process: String,
    address: String,
    /// True if a process has locked the file. None where the system does not tell.
    is_locked: Option<bool>,
}

impl Owner {
    /// Reads the owner file and the list of locks.
    pub fn find(database: &Path) -> Owner {
        let text = std::fs::read_to_string(with_suffix(database, "-lock")).unwrap_or_default();
        let mut lines = text.lines().map(str::trim);
        let (process, address) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        Owner { process: process.into(), address: address.into(), is_locked: is_locked(database) }
    }

    /// Reports whether a process has the file open. Where the system does not tell, the owner file decides.
    pub fn is_running(&self) -> bool {
        self.is_locked.unwrap_or(!self.process.is_empty())
    }

    /// Returns the finding about the owner.
    pub fn finding(&self) -> Finding {
        let message = match (self.is_running(), self.process.as_str(), self.address.as_str()) {
            (true, "", _) => "a process has the file open".into(),
            (true, process, "") => format!("process {process} has the file open"),
            (true, process, address) => format!("process {process} serves the file at {address}"),
            (false, "", _) => "no server has the file open".into(),
            (false, process, _) => {
                format!(
                    "no server has the file open; the last one, process {process}, ended without closing it"
                )
            }
        };
        Finding::ok("owner", message)
    }
}

/// Reports whether a process holds an `flock` on a file. Linux lists all locks with the inodes of their files.
#[cfg(target_os = "linux")]
fn is_locked(path: &Path) -> Option<bool> {
    use std::os::unix::fs::MetadataExt;
    let inode = std::fs::metadata(path).ok()?.ino().to_string();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let is_ours = |line: &str| {
        let mut words = line.split_whitespace();
        line.contains(" FLOCK ")
            && words.any(|word| word.rsplit(':').next() == Some(&inode) && word.contains(':'))
    };
    Some(locks.lines().any(is_ours))
}

#[cfg(not(target_os = "linux"))]
fn is_locked(_: &Path) -> Option<bool> {
    None
}
