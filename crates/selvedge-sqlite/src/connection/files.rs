//! The identity of the files of an open database.
//!
//! SQLite keeps its files open and does not notice when they are deleted or replaced. It would go on committing to a
//! write-ahead log that no later process finds. So the writer compares the files at the paths with those that it opened.

use selvedge_store::Error;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// A file, whatever its name. Known on Unix only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// Returns the id of the file at a path.
    pub fn of(path: &Path) -> io::Result<Option<FileId>> {
        std::fs::metadata(path).map(|metadata| FileId::new(&metadata))
    }

    /// Returns the id of an open file.
    pub fn of_file(file: &File) -> io::Result<Option<FileId>> {
        file.metadata().map(|metadata| FileId::new(&metadata))
    }

    #[cfg(unix)]
    fn new(metadata: &Metadata) -> Option<FileId> {
        use std::os::unix::fs::MetadataExt;
        Some(FileId { device: metadata.dev(), inode: metadata.ino() })
    }

    #[cfg(not(unix))]
    fn new(_: &Metadata) -> Option<FileId> {
        None
    }
}

/// Refuses a name of a database if the write-ahead log of another name in the same directory holds commits: SQLite would
/// not see them, and later apply them to a changed database.
pub fn check_name(database: &Path) -> Result<(), Error> {
    let Ok(metadata) = std::fs::metadata(database) else { return Ok(()) };
    let Some(id) = FileId::new(&metadata).filter(|_| has_other_names(&metadata)) else { return Ok(()) };
    let names = database.parent().and_then(|directory| std::fs::read_dir(directory).ok());
    for entry in names.into_iter().flatten().flatten() {
        let other = entry.path();
        let is_same = other != database && FileId::of(&other).is_ok_and(|found| found == Some(id));
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let log = with_suffix(&other, "-wal");
        if is_same && !is_link && std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
            let (name, log) = (database.display(), log.display());
            return Err(Error::BadAddress(format!(
                "{name} is also {}, and {log} holds commits; open the store under that name",
                other.display()
            )));
        }
    }
    Ok(())
}

#[cfg(unix)]
fn has_other_names(metadata: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(metadata) > 1
}

#[cfg(not(unix))]
fn has_other_names(_: &Metadata) -> bool {
    false
}

/// Returns the path of a file beside a database.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// The files beside a database that contain rows or secrets. Their paths end with these.
const PRIVATE: [&str; 4] = ["", "-wal", "-shm", crate::kinds::secret::SUFFIX];

/// Opens a file for reading and writing. If it does not exist, it is created for the owner alone, whatever the umask: SQLite
/// gives the files beside a database the mode of the database.
pub fn open_or_create_private(path: &Path) -> io::Result<File> {
    private(OpenOptions::new().read(true).write(true).create(true).truncate(false)).open(path)
}

/// Creates a file for the owner alone. Fails if it exists.
pub fn create_private(path: &Path) -> io::Result<File> {
    private(OpenOptions::new().write(true).create_new(true)).open(path)
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Returns the files of a database that others than the owner can read or write.
pub fn readable_by_others(database: &Path) -> Vec<PathBuf> {
    let paths = PRIVATE.map(|suffix| with_suffix(database, suffix)).into_iter();
    paths.filter(|path| mode(path) & 0o066 != 0).collect()
}

/// Returns the command that makes files private.
pub fn chmod(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    format!("chmod 0600 {}", paths.join(" "))
}

/// Warns of files that were created readable for others. They are left as they are: someone may need to read them.
pub fn warn_of_readable(database: &Path) {
    let paths = readable_by_others(database);
    if !paths.is_empty() {
        tracing::warn!(
            "other users of this machine can read or write files of the store, which contain work, digests of keys and \
             perhaps the root secret; unless this is intended: {}",
            chmod(&paths)
        );
    }
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode())
}

#[cfg(not(unix))]
fn mode(_: &Path) -> u32 {
    0
}

/// The files of an open database. Empty for a database in memory.
#[derive(Debug, Default)]
pub struct Files(Vec<(PathBuf, Option<FileId>)>);

/// Files that were deleted or replaced while the database was open.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// The path of the first one.
    pub path: PathBuf,
    /// True if only the write-ahead log or its index is missing, and nothing has taken its place. Copying the log, which
    /// SQLite still has open, into the database then saves every commit.
    pub is_log_missing: bool,
}

impl Files {
    /// Returns the files of a database in WAL mode that has been written to.
    pub fn of(database: &Path) -> Result<Files, Error> {
        let ids = ["", "-wal", "-shm"].map(|suffix| {
            let path = with_suffix(database, suffix);
            let id = FileId::of(&path)
                .map_err(|error| Error::Unavailable(format!("cannot read {}: {error}", path.display())));
            id.map(|id| (path, id))
        });
        ids.into_iter().collect::<Result<_, Error>>().map(Files)
    }

    /// Returns the files that are no longer at their paths. A path that cannot be read counts as unchanged.
    pub fn loss(&self) -> Option<Loss> {
        let mut lost = self.0.iter().enumerate().filter(|(_, (path, id))| match FileId::of(path) {
            Ok(found) => found != *id,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        });
        let (index, (path, _)) = lost.next()?;
        let is_empty =
            |(path, _): &(PathBuf, _)| std::fs::metadata(path).map_or(true, |found| found.len() == 0);
        let is_log_missing = index > 0 && self.0.get(1).is_some_and(|log| index > 1 || is_empty(log));
        Some(Loss { path: path.clone(), is_log_missing })
    }
}
