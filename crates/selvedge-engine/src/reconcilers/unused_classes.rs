//! `unused_classes`: removes claim classes that were not used for days and that no execution refers to, and forgets the
//! classes that other servers have removed.

use super::runtime::ReconcilerContext;
use super::{PAGE, PAGES, Reconciler, Tally};
use crate::Error;
use crate::sync::lock;
use async_trait::async_trait;
use selvedge_core::Timestamp;
use selvedge_core::class::UNUSED_MS;
use selvedge_store::Overview;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The time between two ticks.
const INTERVAL: Duration = Duration::from_secs(3600);

/// Removes unused classes. Holds the time of the last tick; the first one runs an hour after the start.
pub struct UnusedClasses(Mutex<Instant>);

impl Default for UnusedClasses {
    fn default() -> Self {
        UnusedClasses(Mutex::new(Instant::now()))
    }
}

#[async_trait]
impl Reconciler for UnusedClasses {
    fn name(&self) -> &'static str {
        "unused_classes"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn next_due(&self, overview: &Overview) -> Option<Timestamp> {
        (lock(&self.0).elapsed() >= INTERVAL).then_some(overview.now)
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
        *lock(&self.0) = Instant::now();
        let mut removed = 0;
        for _ in 0..PAGES {
            let page = context.store.remove_unused_classes(UNUSED_MS, PAGE).await?;
            removed += page;
            if page == 0 {
                break;
            }
        }
        context.committer.registry().reload_classes().await?;
        Ok(Tally { scanned: removed, done: removed, ..Tally::default() })
    }
}
