//! The results of transactions that the committer remembers: whether the store accepts writes, and how long the parts of
//! a failed batch may take.
//!
//! Writes: the result of the last one, renewed by a small one while nothing else is written.
//!
//! A batch that fails as a whole is halved until the failing rule is alone. If it failed because a statement waited, each
//! part would wait as long as the whole, one after the other. So the parts have little patience, and share a time limit:
//! what is left when it has passed fails too. One rule that waits is found in less than that. If a lock covers a whole
//! table, or the store is overloaded, every caller is refused soon, and retries.

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

/// The time limit of each statement of a part.
const PATIENCE: Duration = Duration::from_millis(500);
/// The time limit of all parts of a batch that met a lock. Stores wait for a lock for a fifth of their patience, so ten parts
/// can fail.
const LOCKED_LIMIT: Duration = Duration::from_secs(1);
/// The time limit of all parts of a batch that may have waited behind such a batch.
const CONTENDED_LOCKED_LIMIT: Duration = Duration::from_millis(500);
/// The time limit of all parts of a batch with a statement that took too long.
const SLOW_LIMIT: Duration = Duration::from_secs(5);
/// The time for which later batches have less patience too, after a batch of which nothing was committed because of locks:
/// they may have waited behind it.
const CONTENDED_FOR: Duration = Duration::from_secs(1);
/// The time limit of each statement of those batches.
const CONTENDED_PATIENCE: Duration = Duration::from_millis(1500);

/// The parts of one batch.
pub struct Halving<'a> {
    contention: &'a Contention,
    patience: Option<Duration>,
    locked_limit: Duration,
    /// The end of the time limit, and the error of a part that waited.
    waited: Option<(Instant, Error)>,
    committed: bool,
}

/// Records that recent batches could not commit because of locks.
#[derive(Default)]
pub struct Contention(Mutex<Option<Instant>>);

impl Contention {
    /// Starts a batch.
    pub fn start(&self) -> Halving<'_> {
        let is_contended = lock(&self.0).is_some_and(|until| Instant::now() < until);
        let (patience, locked_limit) = match is_contended {
            true => (Some(CONTENDED_PATIENCE), CONTENDED_LOCKED_LIMIT),
            false => (None, LOCKED_LIMIT),
        };
        Halving { contention: self, patience, locked_limit, waited: None, committed: false }
    }
}

impl Halving<'_> {
    /// The time limit of each statement of the next part.
    pub fn patience(&self) -> Option<Duration> {
        self.patience
    }

    /// Returns the error with which the remaining parts fail, if the time limit has passed.
    pub fn is_over(&self) -> Option<Error> {
        self.waited.as_ref().filter(|(until, _)| Instant::now() >= *until).map(|(_, error)| error.clone())
    }

    /// Takes note of a commit.
    pub fn commit(&mut self) {
        self.committed = true;
    }

    /// Takes note of a failure. Reports whether it helps to halve the part.
    pub fn fail(&mut self, error: &Error) -> bool {
        let limit = match error {
            Error::Contended(_) => self.locked_limit,
            Error::TooSlow(_) => SLOW_LIMIT,
            Error::Unavailable(_) | Error::SchemaTooNew { .. } => return false,
            Error::InUse(_) | Error::BadAddress(_) | Error::Failed(_) => {
                return true;
            }
        };
        self.patience = Some(PATIENCE);
        self.waited.get_or_insert_with(|| (Instant::now() + limit, error.clone()));
        true
    }
}

impl Drop for Halving<'_> {
    fn drop(&mut self) {
        let is_contended = !self.committed && matches!(self.waited, Some((_, Error::Contended(_))));
        *lock(&self.contention.0) = is_contended.then(|| Instant::now() + CONTENDED_FOR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_little_patience_only_after_a_wait() {
        let contention = Contention::default();
        let mut halving = contention.start();
        assert!(halving.fail(&Error::Failed("a defect".into())));
        assert_eq!((halving.patience(), halving.is_over().is_some()), (None, false));
        assert!(!halving.fail(&Error::Unavailable("away".into())));
        assert_eq!(halving.patience(), None);
        assert!(halving.fail(&Error::TooSlow("slow".into())));
        assert_eq!(halving.patience(), Some(PATIENCE));
        assert!(halving.is_over().is_none(), "the time limit has just begun");
    }

    #[test]
    fn after_a_batch_that_met_only_locks_the_next_one_has_less_patience() {
        let contention = Contention::default();
        let mut halving = contention.start();
        halving.fail(&Error::Contended("locked".into()));
        drop(halving);
        let mut halving = contention.start();
        assert_eq!(halving.patience(), Some(CONTENDED_PATIENCE));
        halving.commit();
        drop(halving);
        assert_eq!(contention.start().patience(), None);
    }
}
