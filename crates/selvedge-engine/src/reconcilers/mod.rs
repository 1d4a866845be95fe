//! The reconcilers: each repairs one thing that time or a crash can break.
//!
//! A reconciler finds rows through an index without locking them and runs a rule for each; the rule checks again with
//! the row locked. So any number of servers can run the same reconciler, and each repair happens once. A row that fails
//! is quarantined and blocks no other. Each reconciler has a file of its name in this folder; `scans` holds their
//! common page-by-page scans, `runtime` runs them.

mod attempt_timeout;
mod budget_reset;
mod bulk_jobs;
mod coverage;
mod delay_promoter;
mod dependency;
mod edge_cancel_dispatcher;
mod edge_cancel_reconciler;
mod execution_deadline;
mod gate_release;
mod inbox;
mod lease_expiry;
mod log_window;
mod projection;
mod retention;
mod rollup_window;
mod runtime;
mod scans;
mod schedule;
mod suspension_timeout;
mod unused_classes;
mod waitpoint_expiry;
mod worker_liveness;

pub use coverage::Coverage;
pub use runtime::{Aborted, ReconcilerContext, ReconcilerStatus, Supervisor};

use crate::Error;
use async_trait::async_trait;
use selvedge_core::Timestamp;
use selvedge_store::Overview;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The maximum number of rows per page of a scan.
const PAGE: u32 = 500;
/// The maximum number of pages per tick.
const PAGES: u32 = 20;
/// The time after which a tick that deletes rows begins no further page. The next tick continues at once.
const DELETE_FOR: Duration = Duration::from_secs(5);

/// All reconcilers. `event_views` switches the projection on.
fn all(event_views: bool) -> Vec<Arc<dyn Reconciler>> {
    vec![
        Arc::new(lease_expiry::LeaseExpiry),
        Arc::new(attempt_timeout::ATTEMPT_TIMEOUT),
        Arc::new(delay_promoter::DELAY_PROMOTER),
        Arc::new(execution_deadline::EXECUTION_DEADLINE),
        Arc::new(suspension_timeout::SUSPENSION_TIMEOUT),
        Arc::new(waitpoint_expiry::WAITPOINT_EXPIRY),
        Arc::new(gate_release::GATE_RELEASE),
        Arc::new(budget_reset::BUDGET_RESET),
        Arc::new(schedule::Schedules),
        Arc::new(dependency::DEPENDENCY),
        Arc::new(edge_cancel_dispatcher::EDGE_CANCEL_DISPATCHER),
        Arc::new(edge_cancel_reconciler::EDGE_CANCEL_RECONCILER),
        Arc::new(worker_liveness::WorkerLiveness),
        Arc::new(retention::Retention),
        Arc::new(bulk_jobs::BulkJobs),
        Arc::new(inbox::Inbox),
        Arc::new(projection::Projection::new(event_views)),
        Arc::new(log_window::LogWindow),
        Arc::new(rollup_window::RollupWindow),
        Arc::new(unused_classes::UnusedClasses),
    ]
}

#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// Its name, as operators and metrics show it.
    fn name(&self) -> &'static str;
    /// The minimum time between the starts of two ticks, unless [`Intervals`] sets another one.
    fn interval(&self) -> Duration;
    /// Reports whether the first tick runs one interval after the start, and not at once.
    fn waits_first(&self) -> bool {
        false
    }
    /// The time at which the next row is due, according to the overview. None if no row is known.
    fn next_due(&self, overview: &Overview) -> Option<Timestamp>;
    /// Runs one tick: a bounded amount of work.
    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error>;
}

/// The intervals of reconcilers that differ from their defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intervals(BTreeMap<&'static str, Duration>);

/// A name that no reconciler has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no reconciler {name:?}; there are {}", .known.join(", "))]
pub struct UnknownReconciler {
    name: String,
    known: Vec<&'static str>,
}

impl Intervals {
    /// Sets the minimum time between the starts of two ticks of a reconciler.
    pub fn set(&mut self, name: &str, interval: Duration) -> Result<(), UnknownReconciler> {
        let known: Vec<&'static str> = all(false).iter().map(|reconciler| reconciler.name()).collect();
        match known.iter().find(|known| **known == name) {
            Some(known) => {
                self.0.insert(known, interval);
                Ok(())
            }
            None => Err(UnknownReconciler { name: name.to_owned(), known }),
        }
    }

    /// Returns the interval of a reconciler.
    fn of(&self, reconciler: &dyn Reconciler) -> Duration {
        self.0.get(reconciler.name()).copied().unwrap_or_else(|| reconciler.interval())
    }
}

/// Counters of one or several ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Ticks that ran.
    pub ticks: u64,
    /// Rows that were found.
    pub scanned: u64,
    /// Rows that were repaired.
    pub done: u64,
    /// Rows that a scan returned although they are outside of this engine's scope.
    pub filtered: u64,
    /// Rows that another server had repaired or locked, or that were no longer due.
    pub superseded: u64,
    /// Rows that failed and were quarantined, and ticks that failed as a whole.
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
        self.superseded += other.superseded;
        self.errors += other.errors;
        self.panics += other.panics;
    }
}
