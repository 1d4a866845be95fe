//! `lease_expiry`: expires leases whose first term and whose session have both run out. No other code expires leases.

use super::runtime::ReconcilerContext;
use super::{PAGE, PAGES, Reconciler, Tally};
use crate::Error;
use async_trait::async_trait;
use selvedge_core::Timestamp;
use selvedge_core::rules::timer::Timer;
use selvedge_store::Overview;
use std::time::Duration;

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
        overview.expired_leases.then_some(overview.now)
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
        let mut tally = Tally::default();
        let mut after = None;
        for _ in 0..PAGES {
            let rows = context.store.expired_leases(&context.scope, after, PAGE).await?;
            let found = rows.len();
            after = rows.last().map(|row| row.execution);
            tally += context.tick_rows(rows, Timer::LeaseExpiry).await?;
            if found < PAGE as usize {
                break;
            }
        }
        Ok(tally)
    }
}
