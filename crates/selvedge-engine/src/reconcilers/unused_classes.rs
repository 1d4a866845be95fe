//! `unused_classes`: removes claim classes that were not used for days and that no execution refers to, and forgets the
//! classes that other servers have removed.

use super::runtime::ReconcilerContext;
use super::{PAGE, PAGES, Reconciler, Tally};
use crate::Error;
use async_trait::async_trait;
use selvedge_core::Timestamp;
use selvedge_core::class::UNUSED_MS;
use selvedge_store::Overview;
use std::time::Duration;

/// Removes unused classes.
pub struct UnusedClasses;

#[async_trait]
impl Reconciler for UnusedClasses {
    fn name(&self) -> &'static str {
        "unused_classes"
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(3600)
    }

    fn waits_first(&self) -> bool {
        true
    }

    fn next_due(&self, overview: &Overview) -> Option<Timestamp> {
        Some(overview.now)
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
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
