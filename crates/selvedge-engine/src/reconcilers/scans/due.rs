//! Scans executions by the kind of their due time.

use crate::Error;
use crate::reconcilers::runtime::ReconcilerContext;
use crate::reconcilers::{PAGE, PAGES, Reconciler, Tally};
use async_trait::async_trait;
use selvedge_core::rules::timer::Timer;
use selvedge_core::{DueKind, Timestamp};
use selvedge_store::Overview;
use std::time::{Duration, Instant};

/// A reconciler of executions that are due for one reason.
pub struct DueScan {
    /// The name of the reconciler.
    pub name: &'static str,
    /// The reason for which the executions are due.
    pub kind: DueKind,
    /// The minimum time between the starts of two ticks.
    pub interval: Duration,
}

#[async_trait]
impl Reconciler for DueScan {
    fn name(&self) -> &'static str {
        self.name
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    fn next_due(&self, overview: &Overview) -> Option<Timestamp> {
        next_due(overview, self.kind)
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
        scan(context, self.kind).await
    }
}

/// Returns the time at which the next execution is due for this reason.
pub fn next_due(overview: &Overview, kind: DueKind) -> Option<Timestamp> {
    overview.next.iter().find(|(of, _)| *of == kind).map(|(_, at)| *at)
}

/// Runs a tick for every execution that is due for this reason, page by page.
pub async fn scan(context: &ReconcilerContext, kind: DueKind) -> Result<Tally, Error> {
    let mut pages = 0..PAGES;
    scan_while(context, kind, || pages.next().is_some()).await
}

/// Runs a tick for every execution that is due for this reason, and begins pages until this time.
pub async fn scan_until(context: &ReconcilerContext, kind: DueKind, until: Instant) -> Result<Tally, Error> {
    scan_while(context, kind, || Instant::now() < until).await
}

/// Reads the next page while the rules run for the rows of the previous one.
async fn scan_while(
    context: &ReconcilerContext,
    kind: DueKind,
    mut goes_on: impl FnMut() -> bool,
) -> Result<Tally, Error> {
    let mut tally = Tally::default();
    let mut rows = context.store.due(&context.scope, kind, None, PAGE).await?;
    while !rows.is_empty() && goes_on() {
        let after = rows.last().map(|row| (row.due_at, row.execution));
        let is_full = rows.len() == PAGE as usize;
        let (done, next) = tokio::join!(context.tick_rows(rows, Timer::Due(kind)), async {
            match is_full {
                true => context.store.due(&context.scope, kind, after, PAGE).await,
                false => Ok(Vec::new()),
            }
        });
        tally += done?;
        rows = next?;
    }
    Ok(tally)
}
