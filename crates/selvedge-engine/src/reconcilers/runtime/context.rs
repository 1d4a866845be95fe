//! The context of a tick: runs one rule per row, counts the results and quarantines the rows that fail.

use super::quarantine::{Quarantine, RowId};
use crate::commit::{Committer, new_task, receive};
use crate::reconcilers::Tally;
use crate::{Error, ServerDefaults};
use selvedge_core::Rule;
use selvedge_core::rules::timer::{FireTimer, Timer, TimerReply};
use selvedge_store::{DueRow, Error as StoreError, ReconcilerScope, Store};
use std::sync::Arc;
use std::time::Duration;

/// Everything that reconcilers work with.
pub struct ReconcilerContext {
    /// The store, for scans.
    pub store: Arc<dyn Store>,
    /// Runs the rules.
    pub committer: Arc<Committer>,
    /// The rows that this engine handles.
    pub scope: ReconcilerScope,
    /// Rows that failed.
    pub quarantine: Quarantine,
    /// The values that apply where neither a caller nor its namespace gives one.
    pub defaults: ServerDefaults,
    /// Creates a namespace when a submission from SQL names it.
    pub create_namespaces: bool,
    /// The time for which the event log keeps its entries.
    pub log_window: Duration,
}

impl ReconcilerContext {
    /// Runs a [`FireTimer`] for each due row and counts the results.
    pub async fn tick_rows(&self, rows: Vec<DueRow>, what: Timer) -> Result<Tally, Error> {
        self.run_for_each(
            rows,
            |row| self.scope.covers(row.namespace, &row.tags),
            |row| RowId::Execution(row.execution),
            |row| FireTimer { execution: row.execution, timer: what },
            |ticked| match ticked {
                Ok(TimerReply::Fired) => Ok(true),
                Ok(TimerReply::Superseded | TimerReply::NotDue) => Ok(false),
                Err(refusal) => Err(refusal.to_string()),
            },
        )
        .await
    }

    /// Runs a rule for each row of any kind and counts the results. `covered` tests whether a row is in scope, `id`
    /// identifies it in the quarantine, and `done` reads the reply: true if the row was repaired, or the failure.
    pub async fn run_for_each<T, R: Rule>(
        &self,
        rows: Vec<T>,
        covered: impl Fn(&T) -> bool,
        id: impl Fn(&T) -> RowId,
        rule: impl Fn(T) -> R,
        done: impl Fn(R::Reply) -> Result<bool, String>,
    ) -> Result<Tally, Error> {
        let mut tally = Tally { scanned: rows.len() as u64, ..Tally::default() };
        let mut replies = Vec::new();
        let mut tasks = Vec::new();
        for row in rows {
            let id = id(&row);
            if !covered(&row) {
                tally.filtered += 1;
            } else if !self.quarantine.contains(id) {
                let (task, reply) = new_task(rule(row));
                tasks.push(task);
                replies.push((id, reply));
            }
        }
        if tasks.is_empty() {
            return Ok(tally);
        }
        self.committer.enqueue(tasks)?;
        for (id, reply) in replies {
            let failure = match receive(reply).await {
                Err(Error::Closed) => return Err(Error::Closed),
                // The batch was halved: this row alone takes too long.
                Err(Error::Store(error @ StoreError::TooSlow(_))) => error.to_string(),
                Err(Error::Store(error)) if error.is_transient() => return Err(error.into()),
                Err(error) => error.to_string(),
                Ok(reply) => match done(reply) {
                    Ok(true) => {
                        tally.done += 1;
                        continue;
                    }
                    Ok(false) => {
                        tally.superseded += 1;
                        continue;
                    }
                    Err(failure) => failure,
                },
            };
            tally.errors += 1;
            let pause = self.quarantine.add(id);
            tracing::error!(?id, failure, ?pause, "a row cannot be reconciled; it is quarantined");
        }
        Ok(tally)
    }
}
