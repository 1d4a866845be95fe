//! The reading connections: a few, opened when they are first needed, each used by one call at a time.
//!
//! Each call is a read transaction that starts after the call was made, so it sees everything that was answered before.

use crate::connection::failure::failure;
use crate::{connection, locked};
use rusqlite::Connection;
use selvedge_store::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;

/// The most reads that run concurrently.
const READERS: u32 = 4;

/// The pool of reading connections.
#[derive(Debug)]
pub struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    /// Returns a pool for the file at `path`, without connections yet.
    pub fn new(path: PathBuf) -> Arc<Readers> {
        Arc::new(Readers {
            path,
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(READERS as usize)),
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
        let mut connection = match idle {
            Some(connection) => connection,
            None => connection::reader(&self.path)?,
        };
        let outcome = connection.transaction().and_then(|transaction| work(&transaction)).map_err(failure);
        locked(&self.idle).push(connection);
        outcome
    }

    /// Waits for running reads, refuses further ones, and closes the connections.
    pub async fn close(&self) {
        if let Ok(all) = self.permits.acquire_many(READERS).await {
            self.permits.close();
            drop(all);
        }
        locked(&self.idle).clear();
    }
}
