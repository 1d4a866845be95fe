//! `log_window`: drops periods of the event log that are older than the configured window, each as a whole.

use super::runtime::ReconcilerContext;
use super::{Reconciler, Tally};
use crate::Error;
use crate::sync::lock;
use async_trait::async_trait;
use selvedge_core::Timestamp;
use selvedge_store::Overview;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The time between two ticks.
const INTERVAL: Duration = Duration::from_secs(600);

/// Drops old periods of the event log. Holds the time of the last tick.
#[derive(Default)]
pub struct LogWindow(Mutex<Option<Instant>>);

#[async_trait]
impl Reconciler for LogWindow {
    fn name(&self) -> &'static str {
        "log_window"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn next_due(&self, overview: &Overview) -> Option<Timestamp> {
        let last = *lock(&self.0);
        last.is_none_or(|last| last.elapsed() >= INTERVAL).then_some(overview.now)
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
        let dropped = context.store.drop_old_log(context.log_window.as_millis() as i64).await?;
        *lock(&self.0) = Some(Instant::now());
        Ok(Tally { scanned: dropped, done: dropped, ..Tally::default() })
    }
}
