//! Explains why an execution does not run: loads everything around it; core derives the reasons.
//!
//! Every read is bounded and takes no lock.

use super::drawn_budgets;
use crate::Error;
use crate::namespace::{FlowView, Namespace, View};
use selvedge_core::explain::flow::{FlowContext, explain_flow};
use selvedge_core::explain::{ExplainContext, Explanation, explain};
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::flow::FlowState;
use selvedge_core::gate::draws::{lane_gate, slots_of};
use selvedge_core::gate::{Gate, GateId, GateKind, GateName};
use selvedge_core::join::Resolution;
use selvedge_core::state::StateName;
use selvedge_core::{Execution, ExecutionId, FlowId, Outcome, Session, State, Timestamp};
use std::collections::BTreeSet;
use tokio::try_join;

/// The bound up to which the executions ahead are counted.
const AHEAD_BOUND: u64 = 1000;
/// The maximum number of upstreams that are named.
const UPSTREAMS_MAX: usize = 10;
/// The maximum number of skipped executions that are followed to the one with which the skipping began.
const SKIPS_MAX: usize = 20;
/// The maximum number of open members of a flow that are explained.
const OPEN_MAX: u32 = 10;
/// The maximum number of failed members of a flow that are named.
const FAILED_MAX: u32 = 50;
/// The maximum number of their downstreams that are loaded.
const DOWNSTREAMS_MAX: usize = 500;
/// The states of open members that wait for something other than their upstreams.
const STARTABLE: [StateName; 5] =
    [StateName::Held, StateName::Suspended, StateName::Waiting, StateName::Delayed, StateName::Active];
/// The maximum number of active executions searched for the holders of a gate.
const ACTIVE_MAX: u32 = 500;

impl Namespace {
    /// Explains why an execution does not run, and when that may change.
    pub async fn explain(&self, id: ExecutionId) -> Result<Explanation, Error> {
        let view = self.view_row(self.stored(id, Payloads::NONE).await?).await?;
        let (gates, now) = try_join!(self.gates_around(&view), self.now())?;
        self.explain_view(&view, &gates, now).await
    }

    /// Explains an execution among the gates around it.
    pub(super) async fn explain_view(
        &self,
        view: &View,
        gates: &[Gate],
        now: Timestamp,
    ) -> Result<Explanation, Error> {
        let row = &view.stored.execution;
        let (sessions, ahead, head, active, (upstreams, origin)) = try_join!(
            self.sessions_around(row),
            self.ahead_of(row),
            self.head_of_line(row, gates),
            self.active_around(view, gates),
            self.upstreams_around(row),
        )?;
        let around = ExplainContext {
            class: &view.class,
            sessions: &sessions,
            upstreams: &upstreams,
            origin: origin.as_ref(),
            gates,
            head: head.as_ref(),
            running: &active,
            ahead: ahead.filter(|ahead| *ahead < AHEAD_BOUND),
            now,
        };
        Ok(explain(row, &around))
    }

    /// Loads the sessions of the namespace: nothing for an execution that has ended.
    async fn sessions_around(&self, row: &Execution) -> Result<Vec<Session>, Error> {
        match row.state.outcome() {
            None => Ok(self.inner().store.sessions(Some(self.id())).await?),
            Some(_) => Ok(Vec::new()),
        }
    }

    async fn ahead_of(&self, row: &Execution) -> Result<Option<u64>, Error> {
        match row.state {
            State::Waiting => Ok(Some(self.inner().store.ahead_of(row, AHEAD_BOUND).await?)),
            _ => Ok(None),
        }
    }

    /// Explains why a flow has not ended, or how its final state came about.
    pub async fn explain_flow(&self, id: FlowId) -> Result<Explanation, Error> {
        let FlowView { flow, .. } = self.flow(id).await?;
        if self.stored_flow(id).await?.is_none() {
            let explanation = self.explain(ExecutionId(id.0)).await?;
            return Ok(Explanation { state: flow.state.as_str(), ..explanation });
        }
        let mut around = FlowContext::default();
        if flow.state == FlowState::Running {
            let mut open = self.members_in(id, &STARTABLE, OPEN_MAX).await?;
            let left = OPEN_MAX - open.len() as u32;
            open.extend(self.members_in(id, &[StateName::WaitingDependencies], left).await?);
            for row in open {
                let explanation = self.explain(row.id).await?;
                around.open.push((row, explanation));
            }
        }
        let mut failed = vec![StateName::Failed, StateName::Expired];
        failed.extend(flow.detail.member_cancelled.then_some(StateName::Cancelled));
        around.failed = self.members_in(id, &failed, FAILED_MAX).await?;
        let downstreams = around.failed.iter().flat_map(|row| row.wiring().downstreams.iter());
        let ids: BTreeSet<ExecutionId> = downstreams.map(|one| one.execution).take(DOWNSTREAMS_MAX).collect();
        let rows = self.rows(&ids.into_iter().collect::<Vec<_>>()).await?;
        around.downstreams = rows.into_iter().map(|row| (row.id, row)).collect();
        Ok(explain_flow(&flow, &around))
    }

    /// Loads the newest members of a flow in these states.
    async fn members_in(
        &self,
        flow: FlowId,
        states: &[StateName],
        limit: u32,
    ) -> Result<Vec<Execution>, Error> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let filter = Filter { flow: Some(flow), states: states.to_vec(), ..Filter::all(self.id()) };
        let members = self.inner().store.list(&filter, None, limit, Payloads::NONE).await?;
        Ok(members.rows.into_iter().map(|stored| stored.execution).collect())
    }

    /// Loads executions in the order of their ids in `ids`.
    async fn rows(&self, ids: &[ExecutionId]) -> Result<Vec<Execution>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.inner().store.fetch(ids, Payloads::NONE).await?;
        let mut rows: Vec<Execution> = rows.into_iter().map(|stored| stored.execution).collect();
        rows.sort_by_key(|row| ids.iter().position(|id| *id == row.id));
        Ok(rows)
    }

    /// Loads the gates that an execution draws on and the gate that holds it. A part comes with its budget. Nothing for
    /// an execution that is active or has ended.
    pub(super) async fn gates_around(&self, view: &View) -> Result<Vec<Gate>, Error> {
        let row = &view.stored.execution;
        if matches!(row.state, State::Active(_) | State::Terminal(_)) {
            return Ok(Vec::new());
        }
        let lane = lane_gate(self.id(), &view.class.lane);
        let slots = slots_of(row).map(|(name, _)| name);
        let holding = row.state.gate().into_iter();
        let holding = holding.flat_map(|gate| [gate.clone(), GateName { part: None, ..gate.clone() }]);
        let names = [lane].into_iter().chain(slots).chain(drawn_budgets(view)).chain(holding);
        let mut ids: Vec<GateId> = names.map(|name| name.id()).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(self.inner().store.fetch_gates(&ids).await?)
    }

    /// Loads the head of the fairness line that holds the execution, if the line has one.
    async fn head_of_line(&self, row: &Execution, gates: &[Gate]) -> Result<Option<Execution>, Error> {
        let Some(name) = row.state.gate().filter(|gate| gate.kind == GateKind::Fair) else {
            return Ok(None);
        };
        let line = gates.iter().find(|gate| gate.name == *name && gate.active > 0);
        let head = line.and_then(|line| line.state.head);
        Ok(self.rows(head.as_slice()).await?.pop())
    }

    /// Loads the newest active executions that may occupy these gates, if the execution could be claimed otherwise. If
    /// only its lane is occupied: those of the lane.
    async fn active_around(&self, view: &View, gates: &[Gate]) -> Result<Vec<Execution>, Error> {
        if !matches!(view.stored.execution.state, State::Waiting | State::Held(_)) {
            return Ok(Vec::new());
        }
        let limits = |gate: &Gate| gate.config.as_ref().is_some_and(|config| config.concurrency.is_some());
        let is_occupied = |gate: &&Gate| match gate.name.kind {
            GateKind::Lane | GateKind::Quota => gate.active > 0 && limits(gate),
            GateKind::Key => gate.active > 0,
            GateKind::Budget => !gate.state.reserved.is_empty(),
            GateKind::Fair => false,
        };
        let occupied: Vec<&Gate> = gates.iter().filter(is_occupied).collect();
        if occupied.is_empty() {
            return Ok(Vec::new());
        }
        let mut filter = Filter { states: vec![StateName::Active], ..Filter::all(self.id()) };
        if occupied.iter().all(|gate| gate.name.kind == GateKind::Lane) {
            let lane = Some(view.class.lane.as_str());
            filter.classes = Some(self.inner().registry.of(self.id(), lane, None));
        }
        let active = self.inner().store.list(&filter, None, ACTIVE_MAX, Payloads::NONE).await?;
        Ok(active.rows.into_iter().map(|stored| stored.execution).collect())
    }

    /// Loads the first upstreams that keep the execution from running: those with pending edges if it waits for
    /// dependencies, those with dead edges if it was skipped; and the execution with which the skipping began.
    async fn upstreams_around(&self, row: &Execution) -> Result<(Vec<Execution>, Option<Execution>), Error> {
        let resolution = match row.state {
            State::WaitingDependencies => Resolution::Pending,
            State::Terminal(Outcome::Skipped) => Resolution::Dead,
            _ => return Ok((Vec::new(), None)),
        };
        let upstreams = self.rows(&upstreams_with(row, resolution)).await?;
        let origin = self.origin_of_skip(row, &upstreams).await?;
        Ok((upstreams, origin))
    }

    /// Follows a skipped upstream to the execution with which the skipping began. None if no upstream was skipped, or
    /// the beginning is further away than the bound.
    async fn origin_of_skip(
        &self,
        row: &Execution,
        upstreams: &[Execution],
    ) -> Result<Option<Execution>, Error> {
        let all_skipped = upstreams.iter().all(Execution::is_skipped);
        let Some(mut next) = upstreams.first().filter(|_| row.is_skipped() && all_skipped).cloned() else {
            return Ok(None);
        };
        for _ in 0..SKIPS_MAX {
            if !next.is_skipped() {
                return Ok(Some(next));
            }
            let dead = upstreams_with(&next, Resolution::Dead);
            let Some(upstream) = self.rows(&dead[..dead.len().min(1)]).await?.pop() else { break };
            next = upstream;
        }
        Ok(None)
    }
}

/// Returns the first upstreams whose edges have this resolution.
fn upstreams_with(row: &Execution, resolution: Resolution) -> Vec<ExecutionId> {
    let Some(join) = &row.join else { return Vec::new() };
    let edges = row.wiring().upstreams.iter().zip(&join.edges);
    let matching = edges.filter(|(_, edge)| edge.resolution == resolution);
    matching.map(|(upstream, _)| upstream.execution).take(UPSTREAMS_MAX).collect()
}
