//! The one guarded transaction helper.
//!
//! Two round trips: `begin` and the loads, then the saves and `commit`. Any error in between leaves the transaction
//! aborted on the server, so the `commit` that is already on the wire ends it without effect. If the future is dropped at
//! any await, or an answer never arrives, the connection is closed and does not return to the pool: no transaction stays
//! open.

use crate::connection::{failure, is_conflict, no_connection};
use crate::save::Saved;
use crate::{PostgresStore, load, save};
use deadpool_postgres::Object;
use selvedge_core::{Needs, Rows};
use selvedge_store::{Decision, Demand, Error, Transaction};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_postgres::error::SqlState;

/// The number of tries before a transaction fails as contended.
const TRIES: u32 = 12;
/// The number of tries that end with a lock timeout before a transaction fails as contended.
const LOCK_TRIES: u32 = 2;

/// Counters of transactions.
#[derive(Default)]
pub struct Counters {
    conflicts: AtomicU64,
}

impl Counters {
    /// Returns the number of retries.
    pub fn conflicts(&self) -> u64 {
        self.conflicts.load(Ordering::Relaxed)
    }
}

/// A connection inside a transaction. Dropping it before the end closes the connection.
pub struct Guarded {
    client: Option<Object>,
    ended: bool,
}

impl Guarded {
    fn new(client: Object) -> Self {
        Guarded { client: Some(client), ended: false }
    }

    /// Returns the connection.
    pub fn client(&self) -> &Object {
        self.client.as_ref().expect("the connection is there until the guard is dropped")
    }

    /// Marks the transaction as over: the server has answered the last statement, and the connection can be reused.
    fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let (Some(client), false) = (self.client.take(), self.ended) {
            drop(Object::take(client));
        }
    }
}

/// The reason why one try failed.
pub enum Failed {
    /// Another transaction was in the way: retry.
    Conflict(tokio_postgres::Error),
    /// A permanent error.
    Error(Error),
}

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Self {
        if is_conflict(&error) { Failed::Conflict(error) } else { Failed::Error(failure(error)) }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed::Error(error)
    }
}

impl PostgresStore {
    /// Runs a decision, and retries while other transactions are in the way.
    pub(crate) async fn run(&self, mut decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        let (mut again, mut waits) = (0, 0);
        loop {
            match self.attempt(decision.as_mut(), again).await {
                Ok(Saved { entry, emptied }) => {
                    return Ok(Transaction { entry, tries: again + 1, emptied });
                }
                Err(Failed::Error(error)) => return Err(error),
                Err(Failed::Conflict(error)) => {
                    again += 1;
                    self.tries.conflicts.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!(again, %error, "a transaction is begun again");
                    let waited = error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE);
                    waits += u32::from(waited);
                    if again >= TRIES || waits >= LOCK_TRIES {
                        return Err(Error::Contended(error.to_string()));
                    }
                    // The first retry is immediate, because usually a cached row has changed. Later ones back off.
                    if again > 1 {
                        tokio::time::sleep(Duration::from_millis(1 << again.min(6))).await;
                    }
                }
            }
        }
    }

    async fn attempt(&self, decision: &mut dyn Decision, again: u32) -> Result<Saved, Failed> {
        // The decision begins after the connection is there: a new one drops the caches that the decision uses.
        let client = self.writers.get().await.map_err(no_connection)?;
        let needs = guard_panic(|| decision.begin(again))?;
        let epoch = self.bounds.epoch();
        let guarded = Guarded::new(client);
        let mut rows = self.load(&guarded, &needs, true).await?;
        let began = rows.now;
        loop {
            match guard_panic(|| decision.next(rows))? {
                Demand::Load(needs) => rows = self.load(&guarded, &needs, false).await?,
                Demand::Abort(reason) => {
                    guarded.client().batch_execute("rollback").await?;
                    guarded.end();
                    return Err(Error::Failed(reason).into());
                }
                Demand::Save(changes) if changes.is_empty() => {
                    guarded.client().batch_execute("rollback").await?;
                    guarded.end();
                    return Ok(Saved::default());
                }
                Demand::Save(changes) => {
                    let pairs = self.bounds.to_write(&changes, began);
                    let answer = save::save_and_commit(guarded.client(), &changes, &pairs).await?;
                    return match answer {
                        Ok(saved) => {
                            guarded.end();
                            self.bounds.wrote(epoch, pairs);
                            Ok(saved)
                        }
                        // The server has answered with an error: the commit on the wire has ended the transaction without
                        // effect.
                        Err(error) if error.code().is_some() => {
                            guarded.end();
                            Err(error.into())
                        }
                        Err(error) => Err(error.into()),
                    };
                }
            }
        }
    }

    async fn load(&self, guarded: &Guarded, needs: &Needs, begins: bool) -> Result<Rows, Failed> {
        let rows = load::load(guarded.client(), needs, begins, self.writers_key, &self.bounds).await?;
        self.history.learn_classes(&rows.found.classes);
        if !needs.queries.candidates.is_empty() {
            self.bounds.refresh_soon(&self.pool, self.writers_key);
        }
        Ok(rows)
    }
}

/// Runs rules. A panic fails only this transaction.
fn guard_panic<T>(rules: impl FnOnce() -> T) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(rules)).map_err(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no text");
        Error::Failed(format!("the decision panicked: {text}"))
    })
}
