//! `retention`: deletes executions and flows whose retention is over, expired idempotency keys of calls, and old
//! best-effort frames.
//!
//! A tick deletes page by page until nothing is left or its time is over; the next tick then continues at once. The four
//! kinds of rows are deleted side by side, so that none waits for a backlog of another.

use super::runtime::ReconcilerContext;
use super::scans::due;
use super::{DELETE_FOR, PAGE, Reconciler, Tally};
use crate::Error;
use crate::locking::{into_inner, lock};
use async_trait::async_trait;
use selvedge_core::rules::flows::whole::{ForgetFlow, Forgotten};
use selvedge_core::{DueKind, Timestamp};
use selvedge_store::{FlowDue, Overview};
use std::collections::HashSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The maximum number of keys or frames that one statement deletes.
const DELETED_PAGE: u32 = 2000;

/// Deletes rows whose retention is over.
pub struct Retention;

#[async_trait]
impl Reconciler for Retention {
    fn name(&self) -> &'static str {
        "retention"
    }

    fn interval(&self) -> Duration {
        Duration::from_millis(1000)
    }

    fn next_due(&self, overview: &Overview) -> Option<Timestamp> {
        let executions = due::next_due(overview, DueKind::Retention);
        let flows = overview.flows.iter().filter(|(kind, _)| *kind == FlowDue::Delete).map(|(_, at)| *at);
        if overview.stale { Some(overview.now) } else { flows.chain(executions).min() }
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
        let until = Instant::now() + DELETE_FOR;
        let (executions, flows, keys, frames) = tokio::join!(
            due::scan_until(context, DueKind::Retention, until),
            delete_flows(context, until),
            delete_pages(until, || context.store.delete_expired_keys(DELETED_PAGE)),
            delete_pages(until, || context.store.delete_old_frames(DELETED_PAGE)),
        );
        let mut tally = executions?;
        tally += flows?;
        tally += keys?;
        tally += frames?;
        Ok(tally)
    }
}

/// Deletes pages of rows until one is not full or the time is over.
async fn delete_pages<F>(until: Instant, delete: impl Fn() -> F) -> Result<Tally, Error>
where
    F: Future<Output = Result<u64, selvedge_store::Error>>,
{
    let mut tally = Tally::default();
    loop {
        let deleted = delete().await?;
        tally.scanned += deleted;
        tally.done += deleted;
        if deleted < u64::from(DELETED_PAGE) || Instant::now() >= until {
            return Ok(tally);
        }
    }
}

/// Deletes flows with their members: a large flow in chunks, its own row with the last chunk. A crash in between leaves
/// a flow that is marked as being deleted and is found again.
async fn delete_flows(context: &ReconcilerContext, until: Instant) -> Result<Tally, Error> {
    let mut tally = Tally::default();
    let mut after = None;
    loop {
        let flows = context.store.due_flows(&context.scope, FlowDue::Delete, after, PAGE).await?;
        let found = flows.len();
        after = flows.last().map(|flow| (flow.due_at, flow.flow));
        let mut remaining = flows;
        while !remaining.is_empty() {
            let unfinished = Mutex::new(HashSet::new());
            let candidates = remaining.clone();
            tally += context
                .run_for_each(
                    remaining,
                    |flow| context.scope.covers(flow.namespace, &flow.tags),
                    |flow| flow.flow,
                    |flow| ForgetFlow { flow: flow.flow, at_once: false },
                    |forgotten| {
                        if let Some(Forgotten { flow, goes_on: true }) = forgotten {
                            lock(&unfinished).insert(flow);
                        }
                        Ok(forgotten.is_some())
                    },
                )
                .await?;
            let unfinished = into_inner(unfinished);
            remaining = candidates.into_iter().filter(|flow| unfinished.contains(&flow.flow)).collect();
        }
        if found < PAGE as usize || Instant::now() >= until {
            return Ok(tally);
        }
    }
}
