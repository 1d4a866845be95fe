//! `retention`: deletes executions and flows that ended long enough ago, keys of calls that have expired, and
//! best-effort frames that are too old.

use super::{PAGE, PAGES, Reconciler, ReconcilerContext, Tally, due::work_through};
use crate::Error;
use async_trait::async_trait;
use selvedge_core::rules::flow::{ForgetFlow, Forgotten};
use selvedge_core::{DueKind, ExecutionId, Timestamp};
use selvedge_store::{FlowDue, Overview};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Deletes what has been kept long enough.
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
        let due = overview.next.iter().find(|(kind, _)| *kind == DueKind::Retention).map(|(_, at)| *at);
        let flows = overview.flows.iter().filter(|(kind, _)| *kind == FlowDue::Delete).map(|(_, at)| *at);
        if overview.stale { Some(overview.now) } else { flows.chain(due).min() }
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
        let mut tally = work_through(context, DueKind::Retention).await?;
        tally += delete_flows(context).await?;
        let keys = context.store.delete_expired_keys(PAGE).await?;
        let frames = context.store.delete_old_frames(PAGE).await?;
        tally.scanned += keys + frames;
        tally.done += keys + frames;
        Ok(tally)
    }
}

/// Deletes flows with their members: a large one in chunks, the flow itself with the last.
async fn delete_flows(context: &ReconcilerContext) -> Result<Tally, Error> {
    let mut tally = Tally::default();
    let mut after = None;
    for _ in 0..PAGES {
        let flows = context.store.due_flows(FlowDue::Delete, after, PAGE).await?;
        let found = flows.len();
        after = flows.last().map(|flow| (flow.due_at, flow.flow));
        let mut rest = flows;
        while !rest.is_empty() {
            let more = Mutex::new(HashSet::new());
            let again = rest.clone();
            tally += context
                .give(
                    rest,
                    |flow| context.scope.covers(flow.namespace, &flow.tags),
                    |flow| ExecutionId(flow.flow.0),
                    |flow| ForgetFlow { flow: flow.flow },
                    |forgotten| {
                        if let Some(Forgotten { flow, goes_on: true }) = forgotten {
                            more.lock().unwrap_or_else(PoisonError::into_inner).insert(flow);
                        }
                        Ok(forgotten.is_some())
                    },
                )
                .await?;
            let more = more.into_inner().unwrap_or_else(PoisonError::into_inner);
            rest = again.into_iter().filter(|flow| more.contains(&flow.flow)).collect();
        }
        if found < PAGE as usize {
            break;
        }
    }
    Ok(tally)
}
