//! `gate_release` and `budget_reset`: gates that are open while something is held by them, gates whose window has room again,
//! budgets whose period is over, and budgets that are used up and stop what runs.

use super::{Bench, PAGE, PAGES, Reconciler, Tally};
use crate::Error;
use crate::command::{Command, Reply};
use async_trait::async_trait;
use selvedge_core::filter::{Filter, Place};
use selvedge_core::gate::GateKind;
use selvedge_core::rules::admit::LookAtGate;
use selvedge_core::rules::budget::{Breach, draws_on};
use selvedge_core::state::StateName;
use selvedge_core::{ExecutionId, Gate, Timestamp};
use selvedge_store::Overview;
use std::collections::BTreeMap;
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

    async fn tick(&self, bench: &Bench) -> Result<Tally, Error> {
        let mut tally = Tally::default();
        let mut after = None;
        for _ in 0..PAGES {
            let mut gates = bench.store.due_gates(after, PAGE).await?;
            let found = gates.len();
            after = gates.last().and_then(|gate| Some((gate.due_at?, gate.id())));
            let now = bench.store.overview().await?.now;
            let resets = |gate: &Gate| {
                gate.name.kind == GateKind::Budget && gate.state.resets_at.is_some_and(|at| at <= now)
            };
            gates.retain(|gate| resets(gate) == self.resets);
            for gate in gates.iter().filter(|gate| gate.state.stops) {
                tally += stop(bench, gate).await?;
            }
            tally += look(bench, gates).await?;
            if found < PAGE as usize || after.is_none() {
                break;
            }
        }
        Ok(tally)
    }
}

async fn look(bench: &Bench, gates: Vec<Gate>) -> Result<Tally, Error> {
    bench
        .give(
            gates,
            |gate| bench.scope.covers(gate.name.namespace, &BTreeMap::new()),
            // A bad one is set aside by an id like that of an execution.
            |gate: &Gate| ExecutionId(Uuid::from_u64_pair(0, gate.id().0 as u64)),
            |gate| {
                let stopped = gate.state.stops;
                Command::LookAtGate(LookAtGate { gate: gate.name, stopped, now: false })
            },
            |reply| match reply {
                Reply::LookAtGate(released) => Ok(released > 0),
                other => Err(format!("{other:?}")),
            },
        )
        .await
}

/// Stops what runs and draws on a budget that is used up. Nothing new starts meanwhile, so there is an end to it.
async fn stop(bench: &Bench, gate: &Gate) -> Result<Tally, Error> {
    let mut tally = Tally::default();
    let running = Filter { states: vec![StateName::Leased], ..Filter::all(gate.name.namespace) };
    let mut after: Option<Place> = None;
    loop {
        let page = bench.store.list(&running, after, PAGE).await?;
        let found = page.len();
        let last = page.last().map(|stored| &stored.execution);
        after = last.map(|row| Place { submitted_at: row.submitted_at, id: row.id });
        let drawing: Vec<_> =
            page.into_iter().map(|stored| stored.execution).filter(|row| draws_on(row, &gate.name)).collect();
        tally += bench
            .give(
                drawing,
                |row| bench.scope.covers(row.namespace, &row.tags),
                |row| row.id,
                |row| Command::Breach(Breach { execution: row.id, gate: gate.name.clone() }),
                |reply| match reply {
                    Reply::Breach(Ok(stopped)) => Ok(stopped),
                    other => Err(format!("{other:?}")),
                },
            )
            .await?;
        if found < PAGE as usize {
            return Ok(tally);
        }
    }
}
