//! The disk of a file: its permissions, its file system and its free space.

use crate::connection::files::{chmod, readable_by_others};
use selvedge_store::{Finding, Level};
use std::path::Path;

/// File systems of networks, by the names in the list of mounts. Their locks do not hold.
const NETWORK: [&str; 9] = ["9p", "afs", "ceph", "cifs", "fuse.sshfs", "nfs", "nfs4", "smb3", "virtiofs"];
/// File systems in memory.
const MEMORY: [&str; 2] = ["ramfs", "tmpfs"];

/// Checks that this user can write the file, and that no other user can read it or the files beside it.
pub fn permissions(path: &Path) -> Finding {
    if let Err(error) = check_writable(path) {
        let message = format!("this user cannot write the file: {error}");
        return Finding::new(
            "permissions",
            Level::Warning,
            message,
            "run the doctor and the server as the owner of the file",
        );
    }
    let readable = readable_by_others(path);
    if !readable.is_empty() {
        let message = "other users of this machine can read or write files of the store, which contain work, digests of keys and \
                       perhaps the root secret";
        return Finding::new("permissions", Level::Warning, message, chmod(&readable));
    }
    Finding::ok("permissions", "this user can write the file, and no other user can read it")
}

/// Fails if this user cannot write the file. Does not open it.
#[cfg(unix)]
fn check_writable(path: &Path) -> Result<(), rustix::io::Errno> {
    rustix::fs::access(path, rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK)
}

#[cfg(not(unix))]
fn check_writable(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// Checks that the file is on a local disk.
pub fn file_system(path: &Path) -> Finding {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    match mounted(&mounts, path) {
        Some(kind) => about_file_system(kind),
        None => Finding::unknown("file_system", "the system publishes no list of mounts"),
    }
}

fn about_file_system(kind: &str) -> Finding {
    if NETWORK.contains(&kind) {
        let message = format!("the file is on the network file system {kind}, whose locks may not hold");
        return Finding::new("file_system", Level::Notice, message, "move the file to a local disk");
    }
    if MEMORY.contains(&kind) {
        let message = format!("the file is on {kind}, which is lost when the machine restarts");
        return Finding::new("file_system", Level::Warning, message, "move the file to a disk");
    }
    Finding::ok("file_system", format!("the file is on {kind}"))
}

/// Returns the kind of the file system of a path: of the longest mount point that contains it.
fn mounted<'a>(mounts: &'a str, path: &Path) -> Option<&'a str> {
    let parsed = mounts.lines().filter_map(|line| {
        // Number, parent, device, root, mount point, options, …, a hyphen, the kind.
        let point = line.split(' ').nth(4)?.replace("\\040", " ");
        let kind = line.split_once(" - ")?.1.split(' ').next()?;
        Some((point, kind))
    });
    // Of two mounts on the same point the later one counts.
    let inside = parsed.filter(|(point, _)| path.starts_with(point));
    inside.max_by_key(|(point, _)| point.len()).map(|(_, kind)| kind)
}

/// Checks the free space of the disk.
#[cfg(unix)]
pub fn free_space(path: &Path, limit: u64) -> Finding {
    let directory = path.parent().unwrap_or(path);
    let space = match rustix::fs::statvfs(directory) {
        Ok(space) => space,
        Err(error) => return Finding::unknown("disk", error),
    };
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let message = format!("the disk has {} MiB free", free >> 20);
    let remedy = "free or add disk space; servers refuse writes when the disk is full";
    match free {
        free if free < limit / 10 => Finding::new("disk", Level::Error, message, remedy),
        free if free < limit => Finding::new("disk", Level::Warning, message, remedy),
        _ => Finding::ok("disk", message),
    }
}

#[cfg(not(unix))]
pub fn free_space(_: &Path, _: u64) -> Finding {
    Finding::unknown("disk", "this system does not tell")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_decides_about_the_file_system() {
        let mounts = "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:5 / /srv/my\\040data rw shared:1 - nfs4 host:/a rw\n3 1 0:6 / /s rw - tmpfs none rw\n";
        assert_eq!(mounted(mounts, Path::new("/srv/my data/a.db")), Some("nfs4"));
        assert_eq!(mounted(mounts, Path::new("/srv/a.db")), Some("ext4"));
        assert_eq!(mounted("", Path::new("/a.db")), None);
        let levels = ["nfs4", "tmpfs", "ext4"].map(|kind| about_file_system(kind).level);
        assert_eq!(levels, [Level::Notice, Level::Warning, Level::Ok]);
    }
}
