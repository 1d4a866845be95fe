//! `log_window`: drops periods of the event log that are older than the configured window, each as a whole.

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
        Ok(Tally { scanned: dropped, done: dropped, ..Tally::default() })
    }
}
