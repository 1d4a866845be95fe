//! Why executions do not run: everything around one is read here, and core says what it means.

use crate::{Error, Namespace, View};
use selvedge_core::explain::{Explanation, Surroundings, explain};
use selvedge_core::filter::Filter;
use selvedge_core::gate::draws::lane_gate;
use selvedge_core::gate::{Gate, GateId, GateKind, GateName};
use selvedge_core::join::Resolution;
use selvedge_core::state::StateName;
use selvedge_core::{Execution, ExecutionId, State};

/// How far the executions that come before are counted.
const AHEAD_BOUND: u64 = 1000;
/// How many of the upstreams that it waits for are named.
const UPSTREAMS_MAX: usize = 10;
/// Among how many that run the holders of a gate are looked for.
const RUNNING_MAX: u32 = 500;

impl Namespace {
    /// Why an execution does not run, and when that will change.
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
        let running = self.running_around(&view, &gates).await?;
        let upstreams = self.open_upstreams(row).await?;
        let around = Surroundings {
            class: &view.class,
            sessions: &sessions,
            upstreams: &upstreams,
            gates: &gates,
            running: &running,
            ahead: ahead.filter(|ahead| *ahead < AHEAD_BOUND),
            now: self.now().await?,
        };
        Ok(explain(row, &around))
    }

    /// The lane of one that is ready, and the gate that another one waits for, with the whole that it is a part of.
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

    /// The newest executions that run and may hold these gates: those of the same lane, or all.
    async fn running_around(&self, view: &View, gates: &[Gate]) -> Result<Vec<Execution>, Error> {
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
        let running = self.inner().store.list(&filter, None, RUNNING_MAX).await?;
        Ok(running.into_iter().map(|stored| stored.execution).collect())
    }

    /// The first upstreams that a blocked execution still waits for.
    async fn open_upstreams(&self, row: &Execution) -> Result<Vec<Execution>, Error> {
        let Some(join) = row.join.as_ref().filter(|_| row.state == State::WaitingDependencies) else {
            return Ok(Vec::new());
        };
        let edges = row.wiring().upstreams.iter().zip(&join.edges);
        let open = edges.filter(|(_, edge)| edge.resolution == Resolution::Pending);
        let ids: Vec<ExecutionId> =
            open.map(|(upstream, _)| upstream.execution).take(UPSTREAMS_MAX).collect();
        Ok(self.inner().store.fetch(&ids).await?.into_iter().map(|stored| stored.execution).collect())
    }
}
