//! The one guarded transaction helper.
//!
//! Two round trips: `begin` and the loads, then the saves and `commit`. Any error in between leaves the transaction
//! aborted on the server, so the `commit` that is already on the wire ends it without effect; otherwise it is rolled back,
//! and the connection is used again. If the future is dropped at any await, or an answer never arrives, the connection is
//! closed and does not return to the pool: no transaction stays open.

use crate::connection::{Connection, StatementError, Verdict, failure};
use crate::kinds::{Begin, Saved};
use crate::{PostgresStore, kinds};
use async_trait::async_trait;
use selvedge_core::{NamespaceId, Needs, Rows, Timestamp};
use selvedge_store::{
    CallMeter, Decision, Demand, Description, Error, Notification, Transaction, Transactions,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of tries before a transaction fails as contended.
const TRIES: u32 = 12;
/// The number of tries that end with a lock timeout before a transaction fails as contended.
const LOCK_TRIES: u32 = 2;

#[derive(Default)]
pub struct Counters {
    conflicts: AtomicU64,
}

impl Counters {
    pub fn conflicts(&self) -> u64 {
        self.conflicts.load(Ordering::Relaxed)
    }
}

/// The reason why one try failed.
pub enum Failed {
    /// Another transaction was in the way: retry.
    Conflict(StatementError),
    Error(Error),
}

impl From<StatementError> for Failed {
    fn from(error: StatementError) -> Self {
        match error.verdict() {
            Verdict::Retry | Verdict::Locked => Failed::Conflict(error),
            Verdict::Halve | Verdict::Unavailable | Verdict::CheckAddress | Verdict::Internal => {
                Failed::Error(failure(error))
            }
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed::Error(error)
    }
}

#[async_trait]
impl Transactions for PostgresStore {
    fn describe(&self) -> Description {
        let durability = "Every commit is in the write-ahead log on disk before it is acknowledged; with synchronous standbys, \
                          there as well.";
        Description { name: "postgres", writers: self.settings.writers, shared: true, durability }
    }

    fn lineage(&self) -> u64 {
        self.lineage.number()
    }

    fn meter(&self) -> &CallMeter {
        &self.meter
    }

    async fn now(&self) -> Result<Timestamp, Error> {
        self.meter.measure("now", self.read_time()).await
    }

    async fn bring_forward(&self, time: Timestamp) -> Result<bool, Error> {
        self.meter.measure("bring_forward", self.carry_on_from(time)).await
    }

    async fn transact(&self, decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        let decision = self.meter.decision(decision);
        self.meter.measure("transact", self.run(decision)).await
    }

    async fn notify(&self, notification: Notification) -> Result<(), Error> {
        self.meter.measure("notify", self.notify(notification)).await
    }

    async fn next_notification(&self) -> Option<Notification> {
        Some(self.listener.lock().await.next().await)
    }

    async fn figures(&self) -> Result<Option<(i64, i64)>, Error> {
        let text = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint, \
                    pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
        let rows = self.meter.measure("figures", self.query(text, &[])).await?;
        Ok(rows.first().map(|row| (row.get(0), row.get(1))))
    }

    async fn announce_coverage(&self, namespace: Option<NamespaceId>) {
        self.hold_coverage(namespace).await
    }

    async fn coverage(&self) -> Result<Vec<Option<NamespaceId>>, Error> {
        self.meter.measure("coverage", self.list_coverage()).await
    }

    async fn ping(&self) -> Result<(), Error> {
        // A row lock is a write: it is refused where writes are, and its commit waits for the disk. It leaves no dead row.
        let text = "select 1 from schema_version for update skip locked";
        self.meter.measure("ping", self.query(text, &[])).await.map(drop)
    }

    async fn close(&self) {
        for connections in [&self.writers, &self.readers, &self.background] {
            connections.close();
        }
    }
}

impl PostgresStore {
    /// Runs a decision, and retries while other transactions are in the way.
    async fn run(&self, mut decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        // A decision with little patience has waited before.
        let lock_tries = if decision.patience().is_some() { 1 } else { LOCK_TRIES };
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
                    waits += u32::from(error.verdict() == Verdict::Locked);
                    if again >= TRIES || waits >= lock_tries {
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
        let connection = self.writers.get().await?;
        let needs = guard_panic(|| decision.begin(again))?;
        connection.enter_transaction();
        let result = self.decide_and_save(&connection, decision, needs).await;
        if result.is_err() {
            connection.roll_back().await;
        }
        result
    }

    async fn decide_and_save(
        &self,
        connection: &Connection,
        decision: &mut dyn Decision,
        needs: Needs,
    ) -> Result<Saved, Failed> {
        let epoch = self.bounds.epoch();
        let begin = Begin { writers_key: self.writers_key, patience: decision.patience() };
        let mut rows = self.load(connection, &needs, Some(begin)).await?;
        let began = rows.now;
        loop {
            match guard_panic(|| decision.next(rows))? {
                Demand::Load(needs) => rows = self.load(connection, &needs, None).await?,
                Demand::Abort(reason) => return Err(Error::Failed(reason).into()),
                Demand::Save(changes) if changes.is_empty() => {
                    connection.roll_back().await;
                    return Ok(Saved::default());
                }
                Demand::Save(changes) => {
                    let pairs = self.bounds.to_write(&changes, began, &self.lineage);
                    let answer = kinds::save_and_commit(connection, &changes, &pairs, &self.lineage).await?;
                    // An error that the server has answered: the commit on the wire has ended the transaction without effect.
                    if answer.as_ref().err().is_none_or(|error| error.code().is_some()) {
                        connection.leave_transaction();
                    }
                    let saved = answer?;
                    self.bounds.wrote(epoch, pairs);
                    return Ok(saved);
                }
            }
        }
    }

    async fn load(
        &self,
        connection: &Connection,
        needs: &Needs,
        begin: Option<Begin>,
    ) -> Result<Rows, Failed> {
        let rows = kinds::load(connection, needs, begin, self.writers_key, &self.bounds).await?;
        self.lineage.learn_classes(&rows.found.classes);
        if !needs.queries.candidates.is_empty() {
            self.bounds.refresh_soon(&self.background, self.writers_key);
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
