//! The reading connections: a few, opened when they are first needed, each used by one call at a time.
//!
//! Each call is a read transaction that starts after the call was made, so it sees everything that was answered before.

use crate::connection::failure::failure;
use crate::connection::lock::Lock;
use crate::{connection, locked};
use rusqlite::Connection;
use selvedge_store::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;

/// The most reads that run concurrently.
const READERS: u32 = 4;

#[derive(Debug)]
pub struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Reader>>,
    permits: Arc<Semaphore>,
    /// None after the close.
    lock: Mutex<Option<Arc<Lock>>>,
}

#[derive(Debug)]
struct Reader {
    // Closed before the lock is released.
    connection: Connection,
    _lock: Option<Arc<Lock>>,
}

impl Readers {
    /// Returns a pool for the file at `path`, without connections yet. Each of them keeps the lock alive.
    pub fn new(path: PathBuf, lock: Arc<Lock>) -> Arc<Readers> {
        Arc::new(Readers {
            path,
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(READERS as usize)),
            lock: Mutex::new(Some(lock)),
        })
    }

    /// Runs `work` in a read transaction on a blocking thread.
    pub async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let permit = self.permits.clone().acquire_owned().await;
        let permit = permit.map_err(|_| Error::Unavailable("the store is closed".into()))?;
        let readers = self.clone();
        let read = tokio::task::spawn_blocking(move || {
            let outcome = readers.read_blocking(work);
            drop(permit);
            outcome
        });
        read.await.unwrap_or_else(|error| Err(Error::Failed(format!("a read did not finish: {error}"))))
    }

    fn read_blocking<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        let idle = locked(&self.idle).pop();
        let mut reader = match idle {
            Some(reader) => reader,
            None => self.open()?,
        };
        let outcome =
            reader.connection.transaction().and_then(|transaction| work(&transaction)).map_err(failure);
        locked(&self.idle).push(reader);
        outcome
    }

    fn open(&self) -> Result<Reader, Error> {
        let lock = locked(&self.lock).clone();
        Ok(Reader { connection: connection::reader(&self.path)?, _lock: lock })
    }

    /// Waits for running reads, refuses further ones, and closes the connections.
    pub async fn close(&self) {
        if let Ok(all) = self.permits.acquire_many(READERS).await {
            self.permits.close();
            drop(all);
        }
        locked(&self.idle).clear();
        locked(&self.lock).take();
    }
}
