//! `lease_expiry`: leases whose own first term and whose session have both lapsed. The only place that decides so.

use super::{PAGE, PAGES, Reconciler, ReconcilerContext, Tally};
use crate::Error;
use async_trait::async_trait;
use selvedge_core::Timestamp;
use selvedge_core::rules::clock::What;
use selvedge_store::Overview;
use std::time::Duration;

/// Takes lapsed leases away.
pub struct LeaseExpiry;

#[async_trait]
impl Reconciler for LeaseExpiry {
    fn name(&self) -> &'static str {
        "lease_expiry"
    }

    fn interval(&self) -> Duration {
        Duration::from_millis(1000)
    }

    fn next_due(&self, overview: &Overview) -> Option<Timestamp> {
        overview.lapsed.then_some(overview.now)
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
        let mut tally = Tally::default();
        let mut after = None;
        for _ in 0..PAGES {
            let rows = context.store.lapsed(after, PAGE).await?;
            let found = rows.len();
            after = rows.last().map(|row| row.execution);
            tally += context.act(rows, What::Lapse).await?;
            if found < PAGE as usize {
                break;
            }
        }
        Ok(tally)
    }
}
