//! Explains why an execution does not run: loads everything around it; core derives the reasons.

use super::{Namespace, View};
use crate::Error;
use selvedge_core::explain::{ExplainContext, Explanation, explain};
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::gate::draws::lane_gate;
use selvedge_core::gate::{Gate, GateId, GateKind, GateName};
use selvedge_core::join::Resolution;
use selvedge_core::state::StateName;
use selvedge_core::{Execution, ExecutionId, State};

/// The bound up to which the executions ahead are counted.
const AHEAD_BOUND: u64 = 1000;
/// The maximum number of unresolved upstreams that are named.
const UPSTREAMS_MAX: usize = 10;
/// The maximum number of active executions searched for the holders of a gate.
const ACTIVE_MAX: u32 = 500;

impl Namespace {
    /// Explains why an execution does not run, and when that may change.
    pub async fn explain(&self, id: ExecutionId) -> Result<Explanation, Error> {
        let view = self.get(id).await?;
        let store = &self.inner().store;
        let row = &view.stored.execution;
        let sessions = store.sessions(Some(self.id())).await?;
        let ahead = match row.state {
            State::Waiting => Some(store.ahead_of(row, AHEAD_BOUND).await?),
            _ => None,
        };
        let gates = self.gates_around(&view).await?;
        let active = self.active_around(&view, &gates).await?;
        let upstreams = self.unresolved_upstreams(row).await?;
        let around = ExplainContext {
            class: &view.class,
            sessions: &sessions,
            upstreams: &upstreams,
            gates: &gates,
            running: &active,
            ahead: ahead.filter(|ahead| *ahead < AHEAD_BOUND),
            now: self.now().await?,
        };
        Ok(explain(row, &around))
    }

    /// Loads the lane of a waiting execution, or the gate that an execution waits for. A part comes with its budget.
    async fn gates_around(&self, view: &View) -> Result<Vec<Gate>, Error> {
        let row = &view.stored.execution;
        let lane = (row.state == State::Waiting).then(|| lane_gate(self.id(), &view.class.lane).id());
        let gate = row.state.gate().into_iter();
        let gate = gate.flat_map(|gate| [gate.id(), GateName { part: None, ..gate.clone() }.id()]);
        let mut ids: Vec<GateId> = lane.into_iter().chain(gate).collect();
        ids.sort_unstable();
        ids.dedup();
        match ids.is_empty() {
            true => Ok(Vec::new()),
            false => Ok(self.inner().store.fetch_gates(&ids).await?),
        }
    }

    /// Loads the newest active executions that may occupy these gates. For a lane that limits: those of the lane.
    async fn active_around(&self, view: &View, gates: &[Gate]) -> Result<Vec<Execution>, Error> {
        let limits = |gate: &Gate| gate.config.as_ref().is_some_and(|config| config.concurrency.is_some());
        let filter = Filter { states: vec![StateName::Active], ..Filter::all(self.id()) };
        let filter = match view.stored.execution.state.gate() {
            Some(gate) if gate.kind != GateKind::Fair => filter,
            None if gates.iter().any(limits) => {
                let lane = Some(view.class.lane.as_str());
                Filter { classes: Some(self.inner().registry.of(self.id(), lane, None)), ..filter }
            }
            Some(_) | None => return Ok(Vec::new()),
        };
        let active = self.inner().store.list(&filter, None, ACTIVE_MAX, Payloads::NONE).await?;
        Ok(active.rows.into_iter().map(|stored| stored.execution).collect())
    }

    /// Loads the first upstreams whose edges are unresolved, if the execution waits for dependencies.
    async fn unresolved_upstreams(&self, row: &Execution) -> Result<Vec<Execution>, Error> {
        let Some(join) = row.join.as_ref().filter(|_| row.state == State::WaitingDependencies) else {
            return Ok(Vec::new());
        };
        let edges = row.wiring().upstreams.iter().zip(&join.edges);
        let pending = edges.filter(|(_, edge)| edge.resolution == Resolution::Pending);
        let ids: Vec<ExecutionId> =
            pending.map(|(upstream, _)| upstream.execution).take(UPSTREAMS_MAX).collect();
        Ok(self.inner().store.fetch(&ids).await?.into_iter().map(|stored| stored.execution).collect())
    }
}
