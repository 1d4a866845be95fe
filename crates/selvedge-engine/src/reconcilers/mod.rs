//! The reconcilers: each repairs one thing that time or a crash can break.
//!
//! A reconciler finds rows through an index without locking them, and runs a rule for each; the rule looks again with the row
//! locked. So any number of servers run them side by side, a bad row is set aside and
//! starves nothing, and nothing happens twice. Which there are: this folder's files.

mod due;
mod gates;
mod lease_expiry;
mod log_window;
mod outbox;
mod retention;
mod set_aside;
mod supervisor;
mod worker_liveness;

pub use supervisor::{Aborted, Supervisor};

use crate::Error;
use crate::committer::Committer;
use crate::task::{answer, post};
use async_trait::async_trait;
use selvedge_core::rules::clock::{Tick, Ticked, What};
use selvedge_core::{ExecutionId, NamespaceId, Rule, Timestamp};
use selvedge_store::{DueRow, Overview, Store};
use set_aside::SetAside;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How many rows one scan finds at most.
const PAGE: u32 = 500;
/// How many pages one tick works through at most.
const PAGES: u32 = 20;

/// Which executions the reconcilers of an engine look after, so that a fleet can be split. Every part that is given must
/// match.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReconcilerScope {
    /// Those of this namespace.
    pub namespace: Option<NamespaceId>,
    /// Those with this tag.
    pub tag: Option<(String, String)>,
}

impl ReconcilerScope {
    fn covers(&self, namespace: NamespaceId, tags: &BTreeMap<String, String>) -> bool {
        self.namespace.is_none_or(|ours| ours == namespace)
            && self.tag.as_ref().is_none_or(|(name, value)| tags.get(name) == Some(value))
    }
}

/// What ticks have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Ticks that ran.
    pub ticks: u64,
    /// Rows that were found.
    pub scanned: u64,
    /// Rows that were acted on.
    pub done: u64,
    /// Rows that another server looks after.
    pub filtered: u64,
    /// Rows that another server was quicker with, or that were not due after all.
    pub lost: u64,
    /// Rows that failed and were set aside, and ticks that failed whole.
    pub errors: u64,
    /// Ticks that panicked.
    pub panics: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.ticks += other.ticks;
        self.scanned += other.scanned;
        self.done += other.done;
        self.filtered += other.filtered;
        self.lost += other.lost;
        self.errors += other.errors;
        self.panics += other.panics;
    }
}

/// One reconciler.
#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// Its name.
    fn name(&self) -> &'static str;
    /// How long after one tick the next begins at the earliest.
    fn interval(&self) -> Duration;
    /// When it has something to do next, as the overview shows it; none for nothing known.
    fn next_due(&self, overview: &Overview) -> Option<Timestamp>;
    /// One tick: bounded work.
    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error>;
}

/// What reconcilers work with.
pub struct ReconcilerContext {
    /// The store, for scans.
    pub store: Arc<dyn Store>,
    /// Runs the rules.
    pub committer: Arc<Committer>,
    /// Which rows are ours.
    pub scope: ReconcilerScope,
    /// Bad rows.
    pub set_aside: SetAside,
    /// How long the log keeps what happened.
    pub log_window: Duration,
}

/// All reconcilers.
fn all() -> Vec<Arc<dyn Reconciler>> {
    vec![
        Arc::new(lease_expiry::LeaseExpiry),
        Arc::new(due::attempt_timeout()),
        Arc::new(due::delay_promoter()),
        Arc::new(due::execution_deadline()),
        Arc::new(due::suspension_timeout()),
        Arc::new(due::waitpoint_expiry()),
        Arc::new(gates::gate_release()),
        Arc::new(gates::budget_reset()),
        Arc::new(outbox::dependency()),
        Arc::new(outbox::edge_cancel_dispatcher()),
        Arc::new(outbox::edge_cancel_reconciler()),
        Arc::new(worker_liveness::WorkerLiveness),
        Arc::new(retention::Retention),
        Arc::new(log_window::LogWindow::default()),
    ]
}

impl ReconcilerContext {
    /// Runs a rule for each row and counts the results.
    async fn act(&self, rows: Vec<DueRow>, what: What) -> Result<Tally, Error> {
        self.give(
            rows,
            |row| self.scope.covers(row.namespace, &row.tags),
            |row| row.execution,
            |row| Tick { execution: row.execution, what },
            |ticked| match ticked {
                Ok(Ticked::Done) => Ok(true),
                Ok(Ticked::Lost | Ticked::NotDue) => Ok(false),
                Err(refusal) => Err(refusal.to_string()),
            },
        )
        .await
    }

    /// The same for rows of any kind: `covered` says whether a row is ours, `id` under which id a bad one is set aside,
    /// `done` whether the reply means that something was done, or what was wrong with the row.
    async fn give<T, R: Rule>(
        &self,
        rows: Vec<T>,
        covered: impl Fn(&T) -> bool,
        id: impl Fn(&T) -> ExecutionId,
        rule: impl Fn(T) -> R,
        done: impl Fn(R::Reply) -> Result<bool, String>,
    ) -> Result<Tally, Error> {
        let mut tally = Tally { scanned: rows.len() as u64, ..Tally::default() };
        let mut waiting = Vec::new();
        let mut tasks = Vec::new();
        for row in rows {
            let id = id(&row);
            if !covered(&row) {
                tally.filtered += 1;
            } else if !self.set_aside.holds(id) {
                let (task, reply) = post(rule(row));
                tasks.push(task);
                waiting.push((id, reply));
            }
        }
        if tasks.is_empty() {
            return Ok(tally);
        }
        self.committer.enqueue(tasks)?;
        for (id, reply) in waiting {
            let failed = match answer(reply).await {
                Err(Error::Closed) => return Err(Error::Closed),
                Err(Error::Store(error)) if error.is_transient() => return Err(error.into()),
                Err(error) => error.to_string(),
                Ok(reply) => match done(reply) {
                    Ok(true) => {
                        tally.done += 1;
                        continue;
                    }
                    Ok(false) => {
                        tally.lost += 1;
                        continue;
                    }
                    Err(failed) => failed,
                },
            };
            tally.errors += 1;
            let pause = self.set_aside.add(id);
            tracing::error!(%id, failed, ?pause, "a row cannot be dealt with; set aside");
        }
        Ok(tally)
    }
}
