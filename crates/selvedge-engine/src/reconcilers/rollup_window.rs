//! `rollup_window`: deletes minute rollups that are older than 24 hours.

use super::runtime::ReconcilerContext;
use super::{DELETE_FOR, Reconciler, Tally};
use crate::Error;
use async_trait::async_trait;
use selvedge_core::Timestamp;
use selvedge_core::rollup::KEPT_MS;
use selvedge_store::Overview;
use std::time::{Duration, Instant};

/// The time between two ticks.
const INTERVAL: Duration = Duration::from_secs(300);
/// The maximum number of rollups that one statement deletes.
const DELETED_PAGE: u32 = 2000;

/// Deletes old rollups.
pub struct RollupWindow;

#[async_trait]
impl Reconciler for RollupWindow {
    fn name(&self) -> &'static str {
        "rollup_window"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn next_due(&self, overview: &Overview) -> Option<Timestamp> {
        Some(overview.now)
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
        let until = Instant::now() + DELETE_FOR;
        let mut tally = Tally::default();
        loop {
            let deleted = context.store.delete_old_rollups(KEPT_MS, DELETED_PAGE).await?;
            tally.scanned += deleted;
            tally.done += deleted;
            if deleted < u64::from(DELETED_PAGE) || Instant::now() >= until {
                return Ok(tally);
            }
        }
    }
}
