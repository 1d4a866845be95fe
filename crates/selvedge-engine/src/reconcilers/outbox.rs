//! `dependency`, `edge_cancel_dispatcher` and `edge_cancel_reconciler`: the work that commits left in the outbox, and flows
//! whose end is to be settled. The dispatcher of the server that left it is quicker, unless it has died.

use super::{PAGE, PAGES, Reconciler, ReconcilerContext, Tally};
use crate::Error;
use async_trait::async_trait;
use selvedge_core::outbox::{OutboxKind, OutboxRow};
use selvedge_core::rules::dispatch::{Dispatch, Dispatched};
use selvedge_core::rules::flow::Settle;
use selvedge_core::{ExecutionId, Timestamp};
use selvedge_store::{FlowDue, Overview};
use std::time::Duration;

/// Works off the outbox.
pub struct Outbox {
    name: &'static str,
    kinds: &'static [OutboxKind],
    interval: Duration,
    /// How long a row is left to the dispatcher of the server that wrote it.
    stale_ms: i64,
    only_close: bool,
    settles: bool,
}

/// Completions that were not dispatched, children and members that were not cancelled, parents that were not told, ends that
/// were not settled.
pub fn dependency() -> Outbox {
    Outbox {
        name: "dependency",
        kinds: &[OutboxKind::Edges, OutboxKind::Children, OutboxKind::Flow, OutboxKind::Parent],
        interval: Duration::from_millis(1000),
        stale_ms: 1000,
        only_close: false,
        settles: true,
    }
}

/// Siblings that were not cancelled.
pub fn edge_cancel_dispatcher() -> Outbox {
    Outbox {
        name: "edge_cancel_dispatcher",
        kinds: &[OutboxKind::Siblings],
        interval: Duration::from_millis(1000),
        stale_ms: 1000,
        only_close: false,
        settles: false,
    }
}

/// Groups whose cancellation was interrupted after its last sibling had ended: closed. The rest is left.
pub fn edge_cancel_reconciler() -> Outbox {
    Outbox {
        name: "edge_cancel_reconciler",
        kinds: &[OutboxKind::Siblings],
        interval: Duration::from_secs(10),
        stale_ms: 10_000,
        only_close: true,
        settles: false,
    }
}

#[async_trait]
impl Reconciler for Outbox {
    fn name(&self) -> &'static str {
        self.name
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    fn next_due(&self, overview: &Overview) -> Option<Timestamp> {
        let outbox = overview.outbox.iter().filter(|(kind, _)| self.kinds.contains(kind)).map(|(_, at)| *at);
        let flows = overview.flows.iter().filter(|(kind, _)| self.settles && *kind == FlowDue::Settle);
        outbox.chain(flows.map(|(_, at)| *at)).min().map(|at| at.plus_ms(self.stale_ms))
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
        let mut tally = Tally::default();
        for kind in self.kinds {
            let mut after = None;
            for _ in 0..PAGES {
                let rows = context.store.outbox(*kind, self.stale_ms, after, PAGE).await?;
                let found = rows.len();
                after = rows.last().map(|row| (row.at, row.name.id));
                tally += self.dispatch(context, rows).await?;
                if found < PAGE as usize {
                    break;
                }
            }
        }
        if self.settles {
            tally += settle(context, self.stale_ms).await?;
        }
        Ok(tally)
    }
}

impl Outbox {
    async fn dispatch(&self, context: &ReconcilerContext, rows: Vec<OutboxRow>) -> Result<Tally, Error> {
        let ours = |row: &OutboxRow| context.scope.covers(row.namespace, &row.tags);
        let id = |row: &OutboxRow| ExecutionId(row.name.id);
        let dispatch = |row: OutboxRow| Dispatch { row, only_close: self.only_close };
        context
            .give(rows, ours, id, dispatch, |dispatched| match dispatched {
                Ok(Dispatched::Advanced { .. }) => Ok(true),
                Ok(Dispatched::Nothing) => Ok(false),
                Err(refusal) => Err(refusal.to_string()),
            })
            .await
    }
}

async fn settle(context: &ReconcilerContext, stale_ms: i64) -> Result<Tally, Error> {
    let mut tally = Tally::default();
    let mut after = None;
    for _ in 0..PAGES {
        let mut flows = context.store.due_flows(FlowDue::Settle, after, PAGE).await?;
        let found = flows.len();
        after = flows.last().map(|flow| (flow.due_at, flow.flow));
        let now = context.store.overview().await?.now;
        flows.retain(|flow| flow.due_at.plus_ms(stale_ms) <= now);
        tally += context
            .give(
                flows,
                |flow| context.scope.covers(flow.namespace, &flow.tags),
                |flow| ExecutionId(flow.flow.0),
                |flow| Settle { flow: flow.flow },
                |settled| Ok(settled.is_some()),
            )
            .await?;
        if found < PAGE as usize {
            break;
        }
    }
    Ok(tally)
}
