//! `gate_release` and `budget_reset`: gates that are open while something is held by them, gates whose window has room again,
//! budgets whose period is over, and budgets that are used up and stop what runs.

use super::{PAGE, PAGES, Reconciler, ReconcilerContext, Tally};
use crate::Error;
use async_trait::async_trait;
use selvedge_core::filter::{Filter, Place};
use selvedge_core::gate::GateKind;
use selvedge_core::gate::draws::draws_on;
use selvedge_core::rules::gates::budget::Breach;
use selvedge_core::rules::gates::check::CheckGate;
use selvedge_core::state::StateName;
use selvedge_core::{ExecutionId, Gate, Timestamp};
use selvedge_store::Overview;
use std::time::Duration;
use uuid::Uuid;

/// Looks at gates that are due.
pub struct Gates {
    name: &'static str,
    interval: Duration,
    /// Whether it looks at budgets whose period is over, or at all others.
    resets: bool,
}

/// Gates that may be open and hold something.
pub fn gate_release() -> Gates {
    Gates { name: "gate_release", interval: Duration::from_millis(20), resets: false }
}

/// Budgets whose period is over: their usage is set back to nothing.
pub fn budget_reset() -> Gates {
    Gates { name: "budget_reset", interval: Duration::from_millis(1000), resets: true }
}

#[async_trait]
impl Reconciler for Gates {
    fn name(&self) -> &'static str {
        self.name
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    fn next_due(&self, overview: &Overview) -> Option<Timestamp> {
        overview.gates
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
        let mut tally = Tally::default();
        let mut after = None;
        for _ in 0..PAGES {
            let mut gates = context.store.due_gates(after, PAGE).await?;
            let found = gates.len();
            let overview = context.store.overview().await?;
            let now = overview.now;
            if found == 0 && after.is_none() && overview.gates.is_some_and(|due| due <= now) {
                // One is due that cannot be read: there is nothing to do for it, and so no hurry.
                tally.scanned += 1;
            }
            after = gates.last().and_then(|gate| Some((gate.due_at?, gate.id())));
            let resets = |gate: &Gate| {
                gate.name.kind == GateKind::Budget && gate.state.resets_at.is_some_and(|at| at <= now)
            };
            gates.retain(|gate| resets(gate) == self.resets);
            for gate in gates.iter().filter(|gate| gate.state.stops && covers(context, gate)) {
                tally += stop(context, gate).await?;
            }
            tally += look(context, gates).await?;
            if found < PAGE as usize || after.is_none() {
                break;
            }
        }
        Ok(tally)
    }
}

/// Whether a gate is ours to look at. It has no tags: whatever those of the executions are that we look after, all of them wait
/// for the gates of their namespace.
fn covers(context: &ReconcilerContext, gate: &Gate) -> bool {
    context.scope.namespace.is_none_or(|ours| ours == gate.name.namespace)
}

async fn look(context: &ReconcilerContext, gates: Vec<Gate>) -> Result<Tally, Error> {
    context
        .give(
            gates,
            |gate| covers(context, gate),
            // A bad one is set aside by an id like that of an execution.
            |gate: &Gate| ExecutionId(Uuid::from_u64_pair(0, gate.id().0 as u64)),
            |gate| CheckGate { stopped: gate.state.stops, gate: gate.name, now: false },
            |looked| Ok(looked.released > 0 || looked.goes_on),
        )
        .await
}

/// Stops what runs and draws on a budget that is used up. Nothing new starts meanwhile, so there is an end to it.
async fn stop(context: &ReconcilerContext, gate: &Gate) -> Result<Tally, Error> {
    let mut tally = Tally::default();
    let running = Filter { states: vec![StateName::Active], ..Filter::all(gate.name.namespace) };
    let mut after: Option<Place> = None;
    loop {
        let page = context.store.list(&running, after, PAGE).await?;
        let found = page.len();
        let last = page.last().map(|stored| &stored.execution);
        after = last.map(|row| Place { submitted_at: row.submitted_at, id: row.id });
        let drawing: Vec<_> =
            page.into_iter().map(|stored| stored.execution).filter(|row| draws_on(row, &gate.name)).collect();
        tally += context
            .give(
                drawing,
                |_| true,
                |row| row.id,
                |row| Breach { execution: row.id, gate: gate.name.clone() },
                |stopped| stopped.map_err(|refusal| refusal.to_string()),
            )
            .await?;
        if found < PAGE as usize {
            return Ok(tally);
        }
    }
}
