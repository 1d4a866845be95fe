//! Flows: submitted as a whole, grown, listed, drawn as a graph, and waited for.

mod cancel;
mod record;

pub use record::*;

use crate::Error;
use crate::namespace::{Ended, Namespace, WAIT_MAX};
use selvedge_core::execution::ROOT;
use selvedge_core::filter::Payloads;
use selvedge_core::flow::{Counts, FlowFilter, FlowListPosition, FlowState};
use selvedge_core::graph::FlowGraph;
use selvedge_core::plan::{GraphDraft, GraphPlan, GraphTarget};
use selvedge_core::rows::Members;
use selvedge_core::rules::CallKey;
use selvedge_core::rules::flows::graft::PlannedGraph;
use selvedge_core::rules::flows::grow::{Grow, Spawn};
use selvedge_core::rules::flows::join::would_reopen;
use selvedge_core::rules::flows::submit::{FlowDraft, SubmitFlow};
use selvedge_core::rules::flows::whole::SettleFlow;
use selvedge_core::rules::keyed::{Answered, Keyed};
use selvedge_core::rules::report::Op;
use selvedge_core::{ClassId, Execution, ExecutionId, Flow, FlowId, Name, Outcome, Refusal};
use selvedge_store::within_page;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// The maximum time between two reads of a waiting call, in case the notification of an end is lost.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of nodes whose results are returned with the end of a flow.
const RESULTS_MAX: usize = 100;

/// A flow, and the executions of the nodes that a call added.
#[derive(Clone, Debug)]
pub struct GrownFlow {
    pub flow: Flow,
    /// The name and the execution of each node of the call, in its order.
    pub executions: Vec<(Name, ExecutionId)>,
    /// True if the flow existed before its submission, or if the same call was answered before.
    pub duplicate: bool,
}

/// A flow as callers see it.
#[derive(Clone, Debug)]
pub struct FlowView {
    /// The row. A lone execution is its own flow and is shown as one.
    pub flow: Flow,
    pub namespace: Name,
}

/// The end of a flow.
#[derive(Clone, Debug)]
pub struct FlowEnded {
    pub flow: Flow,
    /// The ends of the nodes without downstreams, by name; at most 100.
    pub results: Vec<(Name, Ended)>,
    /// The nodes among them whose results were left out, because all of them together are too large.
    pub left_out: Vec<(Name, ExecutionId)>,
}

/// The ends of nodes, and the executions whose results were left out.
type NodeResults = (Vec<(Name, Ended)>, Vec<(Name, ExecutionId)>);

/// Mints the ids that the caller of a plan did not choose.
pub(crate) fn planned_graph(plan: GraphPlan, classes: Vec<ClassId>) -> PlannedGraph {
    let mint = |id: Option<ExecutionId>| id.unwrap_or_else(|| ExecutionId(Uuid::now_v7()));
    let ids = plan.ids().map(mint).collect();
    PlannedGraph { plan, ids, classes }
}

pub(in crate::namespace) fn no_flow(id: FlowId) -> Error {
    Refusal::NotFound { what: "flow".into(), id: id.to_string() }.into()
}

impl Namespace {
    /// Submits a flow as a whole: all of its nodes or none.
    pub async fn submit_flow(
        &self,
        mut draft: FlowDraft,
        call_key: Option<CallKey>,
    ) -> Result<GrownFlow, Error> {
        self.add_defaults_to_graph(&mut draft.graph).await?;
        draft.server_window_ms = self.inner().options.defaults.idempotency_window_ms;
        let (submission, plan) = draft.check()?;
        let planned = self.plan(plan).await?;
        let nodes = planned_nodes(&planned);
        let id = submission.id().unwrap_or_else(|| FlowId(Uuid::now_v7()));
        let (namespace, actor) = (self.id(), self.actor.clone());
        let submit = SubmitFlow { namespace, id, submission, planned, actor, call_key, repeated: false };
        let done = self.run_with_retry(|repeated| SubmitFlow { repeated, ..submit.clone() }).await??;
        let executions = if done.duplicate { self.named_members(done.flow.id).await? } else { nodes };
        Ok(GrownFlow { flow: done.flow, executions, duplicate: done.duplicate })
    }

    /// Adds nodes and edges to a flow.
    pub async fn grow_flow(
        &self,
        flow: FlowId,
        mut graph: GraphDraft,
        call_key: Option<CallKey>,
    ) -> Result<GrownFlow, Error> {
        self.add_defaults_to_graph(&mut graph).await?;
        let planned = self.plan(graph.check(GraphTarget::ExistingFlow)?).await?;
        let nodes = planned_nodes(&planned);
        let (namespace, actor) = (self.id(), self.actor.clone());
        let rule = Grow { namespace, flow, planned, actor, repeated: false };
        let grow = Keyed { call_key, rule, keeps_refusals: false };
        let retried = AtomicBool::new(false);
        let grown = self.run_with_retry(|repeated| {
            retried.store(repeated, Ordering::Relaxed);
            Keyed { rule: Grow { repeated, ..grow.rule.clone() }, ..grow.clone() }
        });
        let Answered { done: flow, duplicate } = grown.await??;
        // A call with a key may repeat an earlier one. It then returns the nodes that the earlier call created.
        let wanted: Vec<&Name> = nodes.iter().map(|(name, _)| name).collect();
        let executions = match grow.call_key {
            None => nodes,
            Some(_) => {
                let mut all = self.named_members(flow.id).await?;
                all.retain(|(name, _)| wanted.contains(&name));
                all
            }
        };
        // The retry of this very call finds the key that its first try wrote.
        let duplicate = duplicate && !retried.load(Ordering::Relaxed);
        Ok(GrownFlow { flow, executions, duplicate })
    }

    /// Creates the report by which an active execution adds children to its flow.
    pub async fn spawn(&self, mut graph: GraphDraft, detach: bool) -> Result<Op, Error> {
        self.add_defaults_to_graph(&mut graph).await?;
        let planned = self.plan(graph.check(GraphTarget::ExistingFlow)?).await?;
        Ok(Op::Spawn(Box::new(Spawn { planned, detach, actor: self.actor.clone() })))
    }

    /// Interns the classes of a plan and mints the ids that the caller did not choose.
    async fn plan(&self, plan: GraphPlan) -> Result<PlannedGraph, Error> {
        let classes = self.inner().registry.intern(&plan.classes(self.id())).await?;
        Ok(planned_graph(plan, classes))
    }

    async fn named_members(&self, flow: FlowId) -> Result<Vec<(Name, ExecutionId)>, Error> {
        let named = |row: &Execution| Some((Name::trusted(row.node()?), row.id));
        Ok(self.members(flow).await?.iter().filter_map(named).collect())
    }

    /// Returns the members of a flow in the order of their submission, without their payloads.
    pub(in crate::namespace) async fn members(&self, flow: FlowId) -> Result<Vec<Execution>, Error> {
        let members = self.inner().store.members(Members { flow, skip: 0, limit: u32::MAX }).await?;
        Ok(members.into_iter().filter(|row| row.namespace == self.id()).collect())
    }

    /// Returns a flow. A flow without a live member is settled first, so that the state shown is final.
    pub async fn flow(&self, id: FlowId) -> Result<FlowView, Error> {
        let view = |flow| FlowView { flow, namespace: self.name().clone() };
        match self.stored_flow(id).await? {
            Some(flow) if flow.is_unsettled() => {
                self.settle(id).await?;
                self.stored_flow(id).await?.map(view).ok_or_else(|| no_flow(id))
            }
            Some(flow) => Ok(view(flow)),
            None => {
                let row = self.same_id_execution(id).await?;
                if row.flow.is_none() { Ok(view(lone_flow(&row))) } else { Err(no_flow(id)) }
            }
        }
    }

    /// Returns the execution that has the id of a flow. If it is alone, it is its own flow.
    pub(in crate::namespace) async fn same_id_execution(&self, id: FlowId) -> Result<Execution, Error> {
        match self.row(ExecutionId(id.0)).await {
            Err(Error::Refused(_)) => Err(no_flow(id)),
            found => found,
        }
    }

    /// Returns the row of a flow. None if there is none, or if it is being deleted.
    pub(in crate::namespace) async fn stored_flow(&self, id: FlowId) -> Result<Option<Flow>, Error> {
        let flow = self.inner().store.fetch_flows(&[id]).await?.pop();
        Ok(flow.filter(|flow| flow.namespace == self.id() && !flow.detail.deleting))
    }

    async fn settle(&self, flow: FlowId) -> Result<(), Error> {
        self.run(SettleFlow { flow }).await.map(drop)
    }

    /// Returns a page of flows, newest first, and the place to continue from; none on the last page.
    pub async fn flows(
        &self,
        filter: &FlowFilter,
        after: Option<FlowListPosition>,
        limit: u32,
    ) -> Result<(Vec<FlowView>, Option<FlowListPosition>), Error> {
        let mut flows = self.inner().store.list_flows(filter, after, limit + 1).await?;
        let more = flows.len() > limit as usize;
        flows.truncate(limit as usize);
        let last = flows.last().map(|flow| FlowListPosition { submitted_at: flow.submitted_at, id: flow.id });
        let mut views = Vec::with_capacity(flows.len());
        for flow in flows.into_iter().filter(|flow| !flow.detail.deleting) {
            let view = match flow.is_unsettled() {
                true => self.flow(flow.id).await?,
                false => FlowView { flow, namespace: self.name().clone() },
            };
            // Settling may have moved the flow to a state that the filter excludes.
            let shown = filter.states.is_empty() || filter.states.contains(&view.flow.state);
            views.extend(shown.then_some(view));
        }
        Ok((views, last.filter(|_| more)))
    }

    /// Returns the graph of a flow.
    pub async fn graph(&self, id: FlowId) -> Result<FlowGraph, Error> {
        if self.stored_flow(id).await?.is_none() {
            return Ok(FlowGraph::of(&[self.same_id_execution(id).await?]));
        }
        Ok(FlowGraph::of(&self.members(id).await?))
    }

    /// Waits for the end of a flow and returns it. None if it has not ended within `wait`.
    pub async fn flow_result(&self, id: FlowId, wait: Duration) -> Result<Option<FlowEnded>, Error> {
        let deadline = Instant::now() + wait.min(WAIT_MAX);
        let waiter = self.inner().waiters.register_end(ExecutionId(id.0));
        loop {
            let woken = waiter.woken();
            tokio::pin!(woken);
            woken.as_mut().enable();
            let FlowView { flow, .. } = self.flow(id).await?;
            if flow.state != FlowState::Running {
                let (results, left_out) = self.results(id).await?;
                return Ok(Some(FlowEnded { flow, results, left_out }));
            }
            if Instant::now() >= deadline || self.inner().committer.is_closed() {
                return Ok(None);
            }
            tokio::select! {
                () = &mut woken => {}
                () = tokio::time::sleep_until(deadline.min(Instant::now() + READ_INTERVAL)) => {}
            }
        }
    }

    /// Returns the ends of the nodes without downstreams, and those whose results are left out: each page of results is
    /// bounded in bytes.
    async fn results(&self, flow: FlowId) -> Result<NodeResults, Error> {
        let mut members = self.members(flow).await?;
        if members.is_empty() {
            members.push(self.row(ExecutionId(flow.0)).await?);
        }
        let last = members.iter().filter(|row| row.wiring().downstreams.is_empty());
        let named: Vec<(ExecutionId, Name)> =
            last.map(|row| (row.id, Name::trusted(row.node().unwrap_or(ROOT)))).take(RESULTS_MAX).collect();
        let ids: Vec<ExecutionId> = named.iter().map(|(id, _)| *id).collect();
        let (store, results) = (&self.inner().store, Payloads { input: false, result: true });
        let sizes: HashMap<ExecutionId, u64> =
            store.payload_sizes(&ids, results).await?.into_iter().collect();
        let size = |id: &&ExecutionId| sizes.get(*id).map_or(0, |size| *size as usize);
        let (whole, others) = ids.split_at(within_page(&ids, size).count());
        let mut stored = store.fetch(whole, results).await?;
        stored.extend(store.fetch(others, Payloads::NONE).await?);
        let left_out = named[whole.len()..].iter().filter(|(id, _)| size(&id) > 0);
        let left_out = left_out.map(|(id, name)| (name.clone(), *id)).collect();
        let mut ended: HashMap<ExecutionId, Ended> = stored
            .into_iter()
            .filter_map(|stored| {
                let outcome = stored.execution.state.outcome()?;
                let error = stored.execution.detail.error;
                Some((stored.execution.id, Ended { outcome, result: stored.result, error }))
            })
            .collect();
        let ends = named.into_iter().filter_map(|(id, name)| Some((name, ended.remove(&id)?)));
        Ok((ends.collect(), left_out))
    }

    /// Returns the executions that a replay of this one would reopen, nearest first.
    pub async fn would_reopen(&self, id: ExecutionId) -> Result<Vec<ExecutionId>, Error> {
        let Some(flow) = self.row(id).await?.flow else { return Ok(Vec::new()) };
        let members = self.members(flow).await?.into_iter().map(|row| (row.id, row)).collect();
        Ok(would_reopen(&members, id))
    }
}

/// Returns the name and the execution of each planned node.
fn planned_nodes(planned: &PlannedGraph) -> Vec<(Name, ExecutionId)> {
    let nodes = planned.plan.nodes().iter().map(|node| node.name.clone());
    nodes.zip(planned.ids.iter().copied()).collect()
}

/// Shows a lone execution as a flow.
pub(in crate::namespace) fn lone_flow(row: &Execution) -> Flow {
    let mut counts = Counts::default();
    counts.add(row.state.name(), 1);
    Flow {
        version: row.version,
        state: match row.state.outcome() {
            None => FlowState::Running,
            Some(Outcome::Completed | Outcome::Skipped) => FlowState::Completed,
            Some(Outcome::Failed | Outcome::Expired) => FlowState::Failed,
            Some(Outcome::Cancelled) => FlowState::Cancelled,
        },
        ended_at: row.ended_at,
        counts,
        ..Flow::alone(row)
    }
}
