//! `attempt_timeout`, `delay_promoter`, `execution_deadline`, `suspension_timeout` and `waitpoint_expiry`: what stands in a
//! row's due column, one kind each.

use super::{PAGE, PAGES, Reconciler, ReconcilerContext, Tally};
use crate::Error;
use async_trait::async_trait;
use selvedge_core::rules::clock::What;
use selvedge_core::{DueKind, Timestamp};
use selvedge_store::Overview;
use std::time::Duration;

/// Deals with one kind of due rows.
pub struct Due {
    name: &'static str,
    kind: DueKind,
    interval: Duration,
}

/// An attempt beyond its timeout: it ends, and is retried or is the last.
pub fn attempt_timeout() -> Due {
    Due { name: "attempt_timeout", kind: DueKind::AttemptTimeout, interval: Duration::from_millis(2000) }
}

/// A delay that is over, or a time that came: ready.
pub fn delay_promoter() -> Due {
    Due { name: "delay_promoter", kind: DueKind::Delay, interval: Duration::from_millis(20) }
}

/// A deadline, a start-by or a grace period that is over.
pub fn execution_deadline() -> Due {
    Due { name: "execution_deadline", kind: DueKind::Deadline, interval: Duration::from_millis(100) }
}

/// A suspension past its limit: its timeout behaviour is applied.
pub fn suspension_timeout() -> Due {
    Due {
        name: "suspension_timeout",
        kind: DueKind::SuspensionTimeout,
        interval: Duration::from_millis(2000),
    }
}

/// Waitpoints whose time is over.
pub fn waitpoint_expiry() -> Due {
    Due { name: "waitpoint_expiry", kind: DueKind::WaitpointExpiry, interval: Duration::from_millis(1000) }
}

#[async_trait]
impl Reconciler for Due {
    fn name(&self) -> &'static str {
        self.name
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    fn next_due(&self, overview: &Overview) -> Option<Timestamp> {
        overview.next.iter().find(|(kind, _)| *kind == self.kind).map(|(_, at)| *at)
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
        work_through(context, self.kind).await
    }
}

/// Works through what is due of a kind, page by page.
pub async fn work_through(context: &ReconcilerContext, kind: DueKind) -> Result<Tally, Error> {
    let mut tally = Tally::default();
    let mut after = None;
    for _ in 0..PAGES {
        let rows = context.store.due(kind, after, PAGE).await?;
        let found = rows.len();
        after = rows.last().map(|row| (row.due_at, row.execution));
        tally += context.act(rows, What::Due(kind)).await?;
        if found < PAGE as usize {
            break;
        }
    }
    Ok(tally)
}
