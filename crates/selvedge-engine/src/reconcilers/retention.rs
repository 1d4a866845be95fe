//! `retention`: deletes executions and flows whose retention is over, expired idempotency keys of calls, and old
//! best-effort frames.

use super::runtime::{ReconcilerContext, RowId};
use super::scans::due;
use super::{PAGE, PAGES, Reconciler, Tally};
use crate::Error;
use crate::sync::{into_inner, lock};
use async_trait::async_trait;
use selvedge_core::rules::flow::{ForgetFlow, Forgotten};
use selvedge_core::{DueKind, Timestamp};
use selvedge_store::{FlowDue, Overview};
use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

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
        let mut tally = due::scan(context, DueKind::Retention).await?;
        tally += delete_flows(context).await?;
        let keys = context.store.delete_expired_keys(PAGE).await?;
        let frames = context.store.delete_old_frames(PAGE).await?;
        tally.scanned += keys + frames;
        tally.done += keys + frames;
        Ok(tally)
    }
}

/// Deletes flows with their members: a large flow in chunks, its own row with the last chunk. A crash in between leaves
/// a flow that is marked as being deleted and is found again.
async fn delete_flows(context: &ReconcilerContext) -> Result<Tally, Error> {
    let mut tally = Tally::default();
    let mut after = None;
    for _ in 0..PAGES {
        let flows = context.store.due_flows(FlowDue::Delete, after, PAGE).await?;
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
                    |flow| RowId::Flow(flow.flow),
                    |flow| ForgetFlow { flow: flow.flow },
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
        if found < PAGE as usize {
            break;
        }
    }
    Ok(tally)
}
