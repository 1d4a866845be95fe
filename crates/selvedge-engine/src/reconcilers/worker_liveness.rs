//! `worker_liveness`: deletes sessions that hold no lease and have not been seen for a long time.

use super::runtime::ReconcilerContext;
use super::{DELETE_FOR, PAGE, Reconciler, Tally};
use crate::Error;
use async_trait::async_trait;
use selvedge_core::Timestamp;
use selvedge_core::rules::worker::ForgetSessions;
use selvedge_core::session::FORGET_MS;
use selvedge_store::Overview;
use std::time::{Duration, Instant};

/// Deletes sessions of departed workers.
pub struct WorkerLiveness;

#[async_trait]
impl Reconciler for WorkerLiveness {
    fn name(&self) -> &'static str {
        "worker_liveness"
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn next_due(&self, overview: &Overview) -> Option<Timestamp> {
        overview.stale.then_some(overview.now)
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
        let until = Instant::now() + DELETE_FOR;
        let mut tally = Tally::default();
        loop {
            let sessions = context.store.unseen_sessions(FORGET_MS, PAGE).await?;
            let scanned = sessions.len() as u64;
            if sessions.is_empty() {
                return Ok(tally);
            }
            let done = context.committer.run(ForgetSessions { sessions }).await? as u64;
            tally += Tally { scanned, done, superseded: scanned - done, ..Tally::default() };
            // The store returns the same sessions again if none was deleted.
            if scanned < u64::from(PAGE) || done == 0 || Instant::now() >= until {
                return Ok(tally);
            }
        }
    }
}
