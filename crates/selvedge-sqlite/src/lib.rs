//! The embedded store: one SQLite file, one engine process, one writer thread.
//!
//! - `writer`: the thread that owns the writing connection; everything that waits shares one commit;
//! - `decide`, `load`, `save`, `save_flow`: a decision in a transaction;
//! - `stream`: streams and their frames; `record`: signals, steps and waitpoints; `gates`: gates, what they hold, and the
//!   ledger; `log_window`: what leaves the log;
//! - `readers`: a few connections for everything that only reads;
//! - `schema`, `connection`, `lock`: the file, and that only one process has it;
//! - `clock`: the time, kept from stepping back.
//!
//! Only the files in `sql/` and `migrations/` contain statements about rows; `sql` names them. A crash at any
//! instruction leaves the file as of the last commit: nothing was answered that is not in it.

mod candidates;
mod clock;
mod connection;
mod decide;
mod due;
mod failure;
mod flow;
mod gates;
mod job;
mod list;
mod load;
mod lock;
mod log_window;
mod names;
mod read;
mod readers;
mod record;
mod row;
mod save;
mod save_flow;
mod schema;
mod sql;
mod store;
mod stream;
mod writer;

#[doc(hidden)]
pub use sql::statements;

use clock::Clock;
use failure::failure;
use job::{Desk, Job};
use lock::Lock;
use readers::Readers;
use selvedge_store::Error;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use writer::{Figures, Writer};

/// A store in one SQLite file. Dropping it waits for what was sent to the writer, and lets go of the file;
/// [`close`](selvedge_store::Store::close) does the same without blocking the thread.
#[derive(Debug)]
pub struct SqliteStore {
    clock: Arc<Clock>,
    readers: Arc<Readers>,
    figures: Arc<Figures>,
    writer: Mutex<Option<Running>>,
    lock: Mutex<Option<Lock>>,
}

/// The writer's thread, and the way to it.
#[derive(Debug)]
struct Running {
    jobs: Sender<Box<dyn Job>>,
    thread: JoinHandle<()>,
}

impl SqliteStore {
    /// Opens the store in the file at `path`, which is made if there is none. The directory must exist. No other process
    /// may have the file open.
    pub async fn open(path: &Path) -> Result<SqliteStore, Error> {
        let path = path.to_owned();
        let opened = tokio::task::spawn_blocking(move || SqliteStore::open_here(&path)).await;
        opened.unwrap_or_else(|error| Err(Error::Failed(format!("opening did not end: {error}"))))
    }

    fn open_here(path: &Path) -> Result<SqliteStore, Error> {
        let path: PathBuf = connection::locate(path)?;
        let lock = Lock::take(&path)?;
        let mut connection = connection::writer(&path).map_err(|error| match error {
            Error::BadAddress(why) => Error::BadAddress(format!("{}: {why}", path.display())),
            other => other,
        })?;
        schema::migrate(&mut connection)?;
        let floor = connection.query_row(&sql::CLOCK_FLOOR, (), |row| row.get(0)).map_err(failure)?;
        let clock = Arc::new(Clock::starting_at(floor));
        let figures = Arc::new(Figures::default());
        let writer = Writer::new(connection, clock.clone(), figures.clone())?;
        let (jobs, received) = channel();
        let thread = std::thread::Builder::new()
            .name("selvedge-sqlite".into())
            .spawn(move || writer.run(&received))
            .map_err(|error| Error::Unavailable(format!("the writer's thread did not start: {error}")))?;
        Ok(SqliteStore {
            clock,
            readers: Readers::of(path),
            figures,
            writer: Mutex::new(Some(Running { jobs, thread })),
            lock: Mutex::new(Some(lock)),
        })
    }

    /// Notes the address at which this process listens, for whoever tries to open the file meanwhile.
    pub fn set_address(&self, address: &str) {
        if let Some(lock) = held(&self.lock).as_mut() {
            lock.note(Some(address));
        }
    }

    /// Sends work to the writer and waits until it is committed.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Desk<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (job, answer) = job::job(work);
        let sent = held(&self.writer).as_ref().is_some_and(|running| running.jobs.send(job).is_ok());
        if !sent {
            return Err(Error::Unavailable("the store was closed".into()));
        }
        let lost = |_| Err(Error::Unavailable("the writer went away".into()));
        answer.await.unwrap_or_else(lost)
    }

    /// Lets no more work be sent, and gives back the thread to wait for.
    fn stop_writing(&self) -> Option<JoinHandle<()>> {
        held(&self.writer).take().map(|running| running.thread)
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        if let Some(thread) = self.stop_writing() {
            wait_for(thread);
        }
    }
}

/// Waits for the writer's thread, unless this is that thread: a decision may hold the last handle of its own store.
fn wait_for(thread: JoinHandle<()>) {
    if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
        tracing::error!("the writer's thread panicked");
    }
}

/// What a mutex guards; no panic while it was held leaves it half changed.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
