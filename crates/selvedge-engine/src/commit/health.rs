//! The health of writes: remembers the result of the last write, and renews it by a small one while nothing else is written.

use crate::locking::lock;
use selvedge_store::{Error, Store, Transaction};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The time for which a success, and a failed ping, is believed.
const FRESH: Duration = Duration::from_secs(1);
/// The time for which the failure of a transaction is believed. Longer, because a ping may succeed where a larger
/// transaction fails, as on a disk that is almost full.
const FAILED: Duration = Duration::from_secs(5);

/// The last write, and the pings that renew it.
#[derive(Default)]
pub struct WriteHealth {
    last: Mutex<Option<LastWrite>>,
    /// Held during a ping, so that concurrent callers share one.
    pinging: tokio::sync::Mutex<()>,
}

struct LastWrite {
    believed_until: Instant,
    result: Result<(), Error>,
}

impl WriteHealth {
    /// Records the result of a transaction, if it says anything about writes: one without an entry in the log may have
    /// written nothing, and errors other than [`Error::Unavailable`] and [`Error::SchemaTooNew`] are about the transaction and not about the store.
    pub fn record(&self, result: &Result<Transaction, Error>) {
        match result {
            Ok(transaction) if transaction.entry.is_some() => self.set(Ok(()), FRESH),
            Err(error @ (Error::Unavailable(_) | Error::SchemaTooNew { .. })) => {
                self.set(Err(error.clone()), FAILED)
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// Returns the result of the last write, or of a ping if that was too long ago.
    pub async fn check(&self, store: &dyn Store) -> Result<(), Error> {
        if let Some(result) = self.believed() {
            return result;
        }
        let _pinging = self.pinging.lock().await;
        if let Some(result) = self.believed() {
            return result;
        }
        let result = store.ping().await;
        self.set(result.clone(), FRESH);
        result
    }

    fn believed(&self) -> Option<Result<(), Error>> {
        let last = lock(&self.last);
        last.as_ref().filter(|last| Instant::now() < last.believed_until).map(|last| last.result.clone())
    }

    fn set(&self, result: Result<(), Error>, time: Duration) {
        *lock(&self.last) = Some(LastWrite { believed_until: Instant::now() + time, result });
    }
}
