//! The embedded store: one SQLite file, one engine process, one writer thread.
//!
//! - `connection/`: the file. `lock` and `owner` keep other processes out, `damage` and `files` find damaged and replaced
//!   files, `schema` migrates, `writer` is the thread that owns the one writing connection and commits everything that is
//!   queued at once, `readers` are a few connections that only read;
//! - `transaction`: a decision in a transaction;
//! - `kinds/`: one file for each noun of the contract: its statements and columns, its part of loading and saving, and its
//!   reads outside of transactions;
//! - `sql`: what the kinds share to define statements and columns, and to run them; `row`: reading values from columns;
//! - `clock`: the store's time, which never goes back; `diagnosis/`: the examination of a file from outside.
//!
//! Only the files in `sql/` and `migrations/` contain statements about rows. A crash at any instruction leaves the file as of
//! the last commit, and only commits are answered.

mod clock;
mod connection;
pub mod diagnosis;
mod kinds;
mod row;
mod sql;
mod transaction;

#[doc(hidden)]
pub use sql::texts as statements;

use clock::Clock;
use connection::failure::failure;
use connection::files::{self, Files};
use connection::job::{self, Job, JobContext};
use connection::lock::Lock;
use connection::owner::Epoch;
use connection::readers::Readers;
use connection::schema;
use connection::writer::{Claim, Figures, Writer};
use rusqlite::Connection;
use selvedge_core::Timestamp;
use selvedge_store::{CallMeter, Error, Migrated};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Runs the migrations that the file at `path` lacks, as opening it does. The file is created if it does not exist; no other
/// process may have it open.
pub async fn migrate(path: &Path) -> Result<Migrated, Error> {
    let path = path.to_owned();
    let migrated = tokio::task::spawn_blocking(move || {
        let path = connection::locate(&path)?;
        let lock = Lock::acquire(&path)?;
        files::check_name(&path)?;
        let migrated = schema::migrate(&mut connection::writer(&path)?)?;
        lock.write_owner(None);
        Ok(migrated)
    });
    migrated.await.unwrap_or_else(|error| Err(Error::Failed(format!("the file was not migrated: {error}"))))
}

/// A store in one SQLite file. Dropping it waits for all queued writes and releases the file;
/// [`close`](selvedge_store::Transactions::close) does the same without blocking the thread.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    clock: Arc<Clock>,
    readers: Arc<Readers>,
    figures: Arc<Figures>,
    writer: Mutex<Option<WriterThread>>,
    lock: Mutex<Option<Arc<Lock>>>,
    meter: CallMeter,
}

/// The writer's thread and the queue of its jobs.
#[derive(Debug)]
struct WriterThread {
    jobs: Sender<Box<dyn Job>>,
    thread: JoinHandle<()>,
}

impl SqliteStore {
    /// Opens the store in the file at `path`, which is created if it does not exist. The directory must exist. No other
    /// process may have the file open.
    pub async fn open(path: &Path) -> Result<SqliteStore, Error> {
        let path = path.to_owned();
        let opened = tokio::task::spawn_blocking(move || SqliteStore::open_blocking(&path)).await;
        opened.unwrap_or_else(|error| Err(Error::Failed(format!("the store was not opened: {error}"))))
    }

    fn open_blocking(path: &Path) -> Result<SqliteStore, Error> {
        let path: PathBuf = connection::locate(path)?;
        let lock = Lock::acquire(&path)?;
        files::check_name(&path)?;
        let mut connection = connection::writer(&path).map_err(|error| match error {
            Error::BadAddress(why) => Error::BadAddress(format!("{}: {why}", path.display())),
            other => other,
        })?;
        schema::migrate(&mut connection)?;
        lock.write_owner(None);
        let claim = Claim { epoch: Epoch::raise(&mut connection)?, files: Files::of(&path)? };
        let floor = connection.query_row(&clock::CLOCK_READ_FLOOR, (), |row| row.get(0)).map_err(failure)?;
        files::warn_of_readable(&path);
        let clock = Arc::new(Clock::starting_at(floor));
        let figures = Arc::new(Figures::default());
        let writer = Writer::new(connection, claim, clock.clone(), figures.clone())?;
        let (jobs, queue) = channel();
        let held = lock.clone();
        let thread = std::thread::Builder::new()
            .name("selvedge-sqlite".into())
            .spawn(move || {
                writer.run(&queue);
                drop(held);
            })
            .map_err(|error| Error::Unavailable(format!("the writer's thread did not start: {error}")))?;
        Ok(SqliteStore {
            clock,
            readers: Readers::new(path.clone(), lock.clone()),
            path,
            figures,
            writer: Mutex::new(Some(WriterThread { jobs, thread })),
            lock: Mutex::new(Some(lock)),
            meter: CallMeter::default(),
        })
    }

    /// Writes the address at which this process listens to the owner file, for the error that another process gets when it
    /// tries to open the store.
    pub fn set_address(&self, address: &str) {
        if let Some(lock) = locked(&self.lock).as_ref() {
            lock.write_owner(Some(address));
        }
    }

    /// Reads with a reader, and reports the call to the meter.
    async fn read<T: Send + 'static>(
        &self,
        call: &'static str,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        self.meter.measure(call, self.readers.read(query)).await
    }

    /// Writes with the writer, and reports the call to the meter.
    async fn write<T: Send + 'static>(
        &self,
        call: &'static str,
        work: impl FnOnce(&Connection, Timestamp) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let work = |context: &JobContext<'_>| work(context.connection, context.now).map_err(failure);
        self.meter.measure(call, self.commit(work)).await
    }

    /// Sends a job to the writer and waits until it is committed.
    async fn commit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&JobContext<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (job, answer) = job::job(work);
        let sent = locked(&self.writer).as_ref().is_some_and(|writer| writer.jobs.send(job).is_ok());
        if !sent {
            return Err(Error::Unavailable("the store is closed".into()));
        }
        answer.await.unwrap_or_else(|_| Err(Error::Unavailable("the writer's thread has ended".into())))
    }

    /// Accepts no more jobs, and returns the thread to wait for.
    fn stop_writing(&self) -> Option<JoinHandle<()>> {
        locked(&self.writer).take().map(|writer| writer.thread)
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        if let Some(thread) = self.stop_writing() {
            wait_for(thread);
        }
    }
}

/// Waits for the writer's thread, unless this is that thread: a decision may own the last handle of its own store.
fn wait_for(thread: JoinHandle<()>) {
    if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
        tracing::error!("the writer's thread panicked");
    }
}

/// Locks a mutex, poisoned or not: no panic leaves the values in this crate half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
