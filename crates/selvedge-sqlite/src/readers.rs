//! The connections that read: a few, opened when first needed, each used by one call at a time.
//!
//! Each call is one read transaction of its own, begun after the call: so it sees everything that was answered before.

use crate::connection;
use crate::failure::failure;
use rusqlite::Connection;
use selvedge_store::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// How many reads run side by side.
const READERS: u32 = 4;

/// The connections that read.
#[derive(Debug)]
pub struct Readers {
    path: PathBuf,
    free: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    /// Readers of the file at `path`; none is opened yet.
    pub fn of(path: PathBuf) -> Arc<Readers> {
        Arc::new(Readers {
            path,
            free: Mutex::default(),
            permits: Arc::new(Semaphore::new(READERS as usize)),
        })
    }

    /// Runs `work` in a read transaction, off the caller's thread.
    pub async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let closed = || Error::Unavailable("the store was closed".into());
        let permit = self.permits.clone().acquire_owned().await;
        let permit = permit.map_err(|_| closed())?;
        let readers = self.clone();
        let read = tokio::task::spawn_blocking(move || {
            let outcome = readers.read_here(work);
            drop(permit);
            outcome
        });
        read.await.unwrap_or_else(|error| Err(Error::Failed(format!("a read did not end: {error}"))))
    }

    fn read_here<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        let free = self.free().pop();
        let mut connection = match free {
            Some(connection) => connection,
            None => connection::reader(&self.path)?,
        };
        let outcome = connection.transaction().and_then(|transaction| work(&transaction)).map_err(failure);
        self.free().push(connection);
        outcome
    }

    /// Waits for the reads under way, lets no other begin, and closes the connections.
    pub async fn close(&self) {
        if let Ok(all) = self.permits.acquire_many(READERS).await {
            self.permits.close();
            drop(all);
        }
        self.free().clear();
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
