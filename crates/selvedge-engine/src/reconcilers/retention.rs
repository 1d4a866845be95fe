//! `retention`: deletes executions that ended long enough ago, and keys of calls that have expired.

use super::{Bench, PAGE, Reconciler, Tally, due::work_through};
use crate::Error;
use async_trait::async_trait;
use selvedge_core::{DueKind, Timestamp};
use selvedge_store::Overview;
use std::time::Duration;

/// Deletes what has been kept long enough.
pub struct Retention;

#[async_trait]
impl Reconciler for Retention {
    fn name(&self) -> &'static str {
        "retention"
    }

    fn interval(&self) -> Duration {
        Duration::from_millis(1000)
    }

    fn next_due(&self, overview: &Overview) -> Option<Timestamp> {
        let due = overview.next.iter().find(|(kind, _)| *kind == DueKind::Retention).map(|(_, at)| *at);
        if overview.stale { Some(overview.now) } else { due }
    }

    async fn tick(&self, bench: &Bench) -> Result<Tally, Error> {
        let mut tally = work_through(bench, DueKind::Retention).await?;
        let keys = bench.store.delete_expired_keys(PAGE).await?;
        tally.scanned += keys;
        tally.done += keys;
        Ok(tally)
    }
}
