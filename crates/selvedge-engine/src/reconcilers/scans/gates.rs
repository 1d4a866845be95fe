//! Scans gates that are due: gates that may release what they hold, budgets, and lanes that count what is active.

use crate::Error;
use crate::namespace::gates::adoption::adopt_active;
use crate::reconcilers::runtime::ReconcilerContext;
use crate::reconcilers::{PAGE, PAGES, Reconciler, Tally};
use async_trait::async_trait;
use selvedge_core::filter::{Filter, ListPosition, Payloads};
use selvedge_core::gate::GateKind;
use selvedge_core::gate::draws::draws_on;
use selvedge_core::rules::gates::budget::Breach;
use selvedge_core::rules::gates::check::CheckGate;
use selvedge_core::state::StateName;
use selvedge_core::{Gate, Timestamp};
use selvedge_store::Overview;
use std::time::Duration;

/// The due gates that a reconciler handles.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DueGates {
    /// Budgets whose period has ended.
    EndedPeriods,
    Others,
}

/// A reconciler of due gates.
pub struct GateScan {
    /// The name of the reconciler.
    pub name: &'static str,
    /// The minimum time between the starts of two ticks.
    pub interval: Duration,
    /// The gates that it handles.
    pub gates: DueGates,
}

#[async_trait]
impl Reconciler for GateScan {
    fn name(&self) -> &'static str {
        self.name
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    fn next_due(&self, overview: &Overview) -> Option<Timestamp> {
        overview.due.of::<Gate>()
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
        let mut tally = Tally::default();
        let mut after = None;
        for _ in 0..PAGES {
            let mut gates = context.store.due_gates(&context.scope, after, PAGE).await?;
            let found = gates.len();
            let now = context.store.now().await?;
            if found == 0 && after.is_none() {
                // The only due gate is unreadable, or out of scope. Counted as found, so that the supervisor backs off.
                let due = context.store.overview().await?.due.of::<Gate>();
                tally.scanned += u64::from(due.is_some_and(|due| due <= now));
            }
            after = gates.last().and_then(|gate| Some((gate.due_at?, gate.id())));
            gates.retain(|gate| due_gates(gate, now) == self.gates);
            for gate in gates.iter().filter(|gate| gate.state.stops && covers(context, gate)) {
                tally += stop_active(context, gate).await?;
            }
            for gate in gates.iter().filter(|gate| covers(context, gate)) {
                if let Some(count) = gate.state.adoption {
                    tally.done +=
                        adopt_active(&*context.store, &context.committer, &gate.name, count).await?;
                }
            }
            // A lane holds no execution. Locking it among other gates would break the order: lanes come before them.
            gates.retain(|gate| gate.name.kind != GateKind::Lane);
            tally += release(context, gates).await?;
            if found < PAGE as usize || after.is_none() {
                break;
            }
        }
        Ok(tally)
    }
}

fn due_gates(gate: &Gate, now: Timestamp) -> DueGates {
    let ended = gate.name.kind == GateKind::Budget && gate.state.resets_at.is_some_and(|at| at <= now);
    if ended { DueGates::EndedPeriods } else { DueGates::Others }
}

/// Reports whether a gate is in scope. Gates have no tags: executions with any tags pass the gates of their namespace,
/// so a scope with a tag covers all of them.
fn covers(context: &ReconcilerContext, gate: &Gate) -> bool {
    context.scope.covers_namespace(gate.name.namespace)
}

/// Runs [`CheckGate`] for each gate, which resets a budget whose period has ended and releases executions.
async fn release(context: &ReconcilerContext, gates: Vec<Gate>) -> Result<Tally, Error> {
    context
        .run_for_each(
            gates,
            |gate| covers(context, gate),
            |gate: &Gate| gate.id(),
            |gate| CheckGate { stopped: gate.state.stops, gate: gate.name, now: false },
            |looked_at| Ok(looked_at.released > 0 || looked_at.goes_on),
        )
        .await
}

/// Stops the active executions that draw on a used-up budget. The budget admits no new ones meanwhile, so this ends.
async fn stop_active(context: &ReconcilerContext, gate: &Gate) -> Result<Tally, Error> {
    let mut tally = Tally::default();
    let active = Filter { states: vec![StateName::Active], ..Filter::all(gate.name.namespace) };
    let mut after: Option<ListPosition> = None;
    loop {
        let page = context.store.list(&active, after, PAGE, Payloads::NONE).await?;
        after = page.next;
        let rows = page.rows.into_iter().map(|stored| stored.execution);
        let drawing: Vec<_> = rows.filter(|row| draws_on(row, &gate.name)).collect();
        tally += context
            .run_for_each(
                drawing,
                |_| true,
                |row| row.id,
                |row| Breach { execution: row.id, gate: gate.name.clone() },
                |stopped| stopped.map_err(|refusal| refusal.to_string()),
            )
            .await?;
        if after.is_none() {
            return Ok(tally);
        }
    }
}
