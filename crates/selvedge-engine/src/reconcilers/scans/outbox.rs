//! Scans outbox rows, and flows that are to be settled. Normally the dispatcher of the server that wrote them is
//! faster; these scans find what a crash left.

use crate::Error;
use crate::reconcilers::runtime::ReconcilerContext;
use crate::reconcilers::{PAGE, PAGES, Reconciler, Tally};
use async_trait::async_trait;
use selvedge_core::Timestamp;
use selvedge_core::outbox::{OutboxKind, OutboxRow};
use selvedge_core::rules::flows::dispatch::{Dispatch, Dispatched};
use selvedge_core::rules::flows::whole::SettleFlow;
use selvedge_store::{FlowDue, Overview};
use std::time::Duration;

/// A reconciler of outbox rows.
pub struct OutboxScan {
    /// The name of the reconciler.
    pub name: &'static str,
    /// The kinds of rows that it handles.
    pub kinds: &'static [OutboxKind],
    /// The minimum time between the starts of two ticks.
    pub interval: Duration,
    /// The age, in milliseconds, below which a row is left to the dispatcher of the server that wrote it.
    pub stale_ms: i64,
    /// Closes edge groups whose siblings have all ended, and leaves other rows unchanged; see [`Dispatch::only_close`].
    pub only_close: bool,
    /// Also settles flows without a live member.
    pub settles: bool,
}

#[async_trait]
impl Reconciler for OutboxScan {
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
                let rows = context.store.outbox(&context.scope, *kind, self.stale_ms, after, PAGE).await?;
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

impl OutboxScan {
    async fn dispatch(&self, context: &ReconcilerContext, rows: Vec<OutboxRow>) -> Result<Tally, Error> {
        let covered = |row: &OutboxRow| context.scope.covers(row.namespace, &row.tags);
        let id = |row: &OutboxRow| row.name;
        let dispatch = |row: OutboxRow| Dispatch { row, only_close: self.only_close };
        context
            .run_for_each(rows, covered, id, dispatch, |dispatched| match dispatched {
                Ok(Dispatched::Advanced { .. }) => Ok(true),
                Ok(Dispatched::Nothing) => Ok(false),
                Err(refusal) => Err(refusal.to_string()),
            })
            .await
    }
}

/// Settles flows that have had no live member for at least `stale_ms`.
async fn settle(context: &ReconcilerContext, stale_ms: i64) -> Result<Tally, Error> {
    let mut tally = Tally::default();
    let mut after = None;
    for _ in 0..PAGES {
        let mut flows = context.store.due_flows(&context.scope, FlowDue::Settle, after, PAGE).await?;
        let found = flows.len();
        after = flows.last().map(|flow| (flow.due_at, flow.flow));
        let now = context.store.now().await?;
        flows.retain(|flow| flow.due_at.plus_ms(stale_ms) <= now);
        tally += context
            .run_for_each(
                flows,
                |flow| context.scope.covers(flow.namespace, &flow.tags),
                |flow| flow.flow,
                |flow| SettleFlow { flow: flow.flow },
                |settled| Ok(settled.is_some()),
            )
            .await?;
        if found < PAGE as usize {
            break;
        }
    }
    Ok(tally)
}
