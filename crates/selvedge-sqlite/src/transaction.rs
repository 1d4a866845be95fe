//! Transactions: loads the rows that a decision needs, asks it, and saves its changes.
//!
//! There is one writer, so loaded rows cannot change before they are saved. The guards of a save fail only if the
//! decision used a cached row, or an id or key that is taken; then the decision is retried.

use crate::connection::failure::failure;
use crate::connection::job::JobContext;
use crate::connection::owner::Epoch;
use crate::kinds::{KINDS, Saving};
use crate::{SqliteStore, locked, wait_for};
use async_trait::async_trait;
use rusqlite::Connection;
use selvedge_core::{Changes, FlowId, Needs, Rows, Timestamp};
use selvedge_store::{
    CallMeter, Decision, Demand, Description, Error, Notification, Transaction, Transactions,
};
use std::future::ready;

#[async_trait]
impl Transactions for SqliteStore {
    fn describe(&self) -> Description {
        let durability = "Every commit is written through to the disk before it is acknowledged.";
        Description { name: "sqlite", writers: 1, shared: false, durability }
    }

    fn meter(&self) -> &CallMeter {
        &self.meter
    }

    async fn now(&self) -> Result<Timestamp, Error> {
        self.meter.measure("now", ready(Ok(self.clock.now()))).await
    }

    async fn transact(&self, decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        let mut decision = self.meter.decision(decision);
        self.meter.measure("transact", self.commit(move |context| decide(&mut *decision, context))).await
    }

    /// Does nothing: there are no other servers.
    async fn notify(&self, _: Notification) -> Result<(), Error> {
        self.meter.measure("notify", ready(Ok(()))).await
    }

    async fn next_notification(&self) -> Option<Notification> {
        None
    }

    async fn figures(&self) -> Result<Option<(i64, i64)>, Error> {
        self.meter.measure("figures", ready(Ok(Some(self.figures.so_far())))).await
    }

    async fn ping(&self) -> Result<(), Error> {
        self.write("ping", |connection, _| Epoch::read(connection).and_then(|epoch| epoch.write(connection)))
            .await
    }

    async fn close(&self) {
        self.readers.close().await;
        if let Some(thread) = self.stop_writing() {
            // If this fails the runtime is shutting down, and the thread ends by itself.
            let _ = tokio::task::spawn_blocking(move || wait_for(thread)).await;
        }
        locked(&self.lock).take();
    }
}

/// The number of tries before the caller gets [`Error::Contended`].
const TRIES: u32 = 10;

/// Runs a decision to its end.
fn decide(decision: &mut dyn Decision, context: &JobContext<'_>) -> Result<Transaction, Error> {
    let mut failed_guard = String::new();
    for again in 0..TRIES {
        let tries = again + 1;
        let mut needs = decision.begin(again);
        let changes = loop {
            let rows = load(context.connection, &needs, context.now).map_err(failure)?;
            match decision.next(rows) {
                Demand::Load(more) => needs = more,
                Demand::Save(changes) => break changes,
                Demand::Abort(reason) => return Err(Error::Failed(reason)),
            }
        };
        if changes.is_empty() {
            return Ok(Transaction { tries, ..Transaction::default() });
        }
        match save(context.connection, &changes, context.now).map_err(failure)? {
            Saved::All { entry, emptied } => return Ok(Transaction { entry, tries, emptied }),
            Saved::Refused(guard) => failed_guard = guard,
        }
        context.roll_back()?;
    }
    Err(Error::Contended(failed_guard))
}

/// Loads everything that `needs` names.
fn load(connection: &Connection, needs: &Needs, now: Timestamp) -> rusqlite::Result<Rows> {
    let mut rows = Rows { now, ..Rows::default() };
    KINDS.iter().try_for_each(|kind| (kind.load)(connection, needs, &mut rows))?;
    Ok(rows)
}

enum Saved {
    All {
        /// The number of the log entry, if there were events.
        entry: Option<i64>,
        /// Flows that are running without a live member now.
        emptied: Vec<FlowId>,
    },
    /// A guard failed, which this text names. Some changes are made and must be rolled back.
    Refused(String),
}

/// Saves all changes row by row, or stops at the first guard that fails.
fn save(connection: &Connection, changes: &Changes, now: Timestamp) -> rusqlite::Result<Saved> {
    let mut saving = Saving { now, entry: None, emptied: Vec::new() };
    for kind in KINDS {
        if let Some(guard) = (kind.save)(connection, changes, &mut saving)? {
            return Ok(Saved::Refused(guard));
        }
    }
    Ok(Saved::All { entry: saving.entry, emptied: saving.emptied })
}
