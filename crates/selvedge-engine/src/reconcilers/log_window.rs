//! `log_window`: lets what is older than the window leave the event log, whole periods at a time.

use super::{Reconciler, ReconcilerContext, Tally};
use crate::Error;
use async_trait::async_trait;
use selvedge_core::Timestamp;
use selvedge_store::Overview;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often the window is looked at.
const EVERY: Duration = Duration::from_secs(600);

/// Keeps the log's window.
#[derive(Default)]
pub struct LogWindow(Mutex<Option<Instant>>);

#[async_trait]
impl Reconciler for LogWindow {
    fn name(&self) -> &'static str {
        "log_window"
    }

    fn interval(&self) -> Duration {
        EVERY
    }

    fn next_due(&self, overview: &Overview) -> Option<Timestamp> {
        let last = *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        last.is_none_or(|last| last.elapsed() >= EVERY).then_some(overview.now)
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
        let dropped = context.store.keep_log(context.log_window.as_millis() as i64).await?;
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(Instant::now());
        Ok(Tally { scanned: dropped, done: dropped, ..Tally::default() })
    }
}
