//! `log_window`: drops periods of the event log that are older than the configured window, each as a whole, and then their
//! events in the projection.

use super::projection::delete_left_over;
use super::runtime::ReconcilerContext;
use super::{Reconciler, Tally};
use crate::Error;
use async_trait::async_trait;
use selvedge_core::Timestamp;
use selvedge_store::Overview;
use std::time::Duration;

/// Drops old periods of the event log.
pub struct LogWindow;

#[async_trait]
impl Reconciler for LogWindow {
    fn name(&self) -> &'static str {
        "log_window"
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn next_due(&self, overview: &Overview) -> Option<Timestamp> {
        Some(overview.now)
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
        let dropped = context.store.drop_old_log(context.log_window.as_millis() as i64).await?;
        let left_over = delete_left_over(context).await?;
        let done = dropped + left_over;
        Ok(Tally { scanned: done, done, ..Tally::default() })
    }
}
