//! Flows, as callers see them: submitted whole, grown, cancelled, waited for, listed and drawn.

use crate::namespace::WAIT_MAX;
use crate::{Ended, Error, Namespace};
use selvedge_core::execution::ROOT;
use selvedge_core::flow::{CancelMode, Counts, FlowFilter, FlowPlace, FlowState};
use selvedge_core::graph::FlowGraph;
use selvedge_core::plan::{GraphDraft, GraphPlan, Onto};
use selvedge_core::rows::Members;
use selvedge_core::rules::Operation;
use selvedge_core::rules::flow::{CancelFlow, Settle};
use selvedge_core::rules::graft::Planned;
use selvedge_core::rules::grow::{Grow, Spawn};
use selvedge_core::rules::join::would_reopen;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::submit_flow::{FlowDraft, SubmitFlow};
use selvedge_core::{Execution, ExecutionId, Flow, FlowId, Name, Outcome, Refusal};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// How often a waiter looks, should the news of an end be lost.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The results of how many nodes that nobody waits for are shown with the end of a flow.
const RESULTS_MAX: usize = 100;

/// A flow and the executions of its nodes by name.
#[derive(Clone, Debug)]
pub struct Grown {
    /// The flow.
    pub flow: Flow,
    /// The nodes of the call, in its order.
    pub executions: Vec<(Name, ExecutionId)>,
    /// Whether it was there before.
    pub duplicate: bool,
}

/// A flow as callers see it.
#[derive(Clone, Debug)]
pub struct FlowView {
    /// Its row. A lone execution is its own flow, and is shown as one.
    pub flow: Flow,
    /// The name of its namespace.
    pub namespace: Name,
}

/// How a flow ended.
#[derive(Clone, Debug)]
pub struct FlowEnded {
    /// The flow.
    pub flow: Flow,
    /// How the nodes ended that nobody waits for, by name, the first hundred.
    pub results: Vec<(Name, Ended)>,
}

fn no_flow(id: FlowId) -> Error {
    Refusal::NotFound { what: "flow".into(), id: id.to_string() }.into()
}

impl Namespace {
    /// Submits a whole flow: all of it or nothing.
    pub async fn submit_flow(&self, draft: FlowDraft, operation: Option<Operation>) -> Result<Grown, Error> {
        let (submission, plan) = draft.check()?;
        let planned = self.plan(plan).await?;
        let names = names(&planned);
        let id = submission.id().unwrap_or_else(|| FlowId(Uuid::now_v7()));
        let submit = SubmitFlow { namespace: self.id(), id, submission, planned, operation, repeated: false };
        let done = self.insist(|repeated| SubmitFlow { repeated, ..submit.clone() }).await??;
        let executions = if done.duplicate { self.names_of(done.flow.id).await? } else { names };
        Ok(Grown { flow: done.flow, executions, duplicate: done.duplicate })
    }

    /// Adds nodes and edges to a flow.
    pub async fn grow_flow(
        &self,
        flow: FlowId,
        graph: GraphDraft,
        operation: Option<Operation>,
    ) -> Result<Grown, Error> {
        let planned = self.plan(graph.check(Onto::Flow)?).await?;
        let names = names(&planned);
        let grow = Grow { namespace: self.id(), flow, planned, operation, repeated: false };
        let flow = self.insist(|repeated| Grow { repeated, ..grow.clone() }).await??;
        // A call that was answered before is answered with the nodes it made then.
        let wanted: Vec<&Name> = names.iter().map(|(name, _)| name).collect();
        let executions = match grow.operation {
            None => names,
            Some(_) => {
                let mut all = self.names_of(flow.id).await?;
                all.retain(|(name, _)| wanted.contains(&name));
                all
            }
        };
        Ok(Grown { flow, executions, duplicate: false })
    }

    /// The report by which a running execution adds children to its flow.
    pub async fn spawn(&self, graph: GraphDraft, detach: bool) -> Result<Op, Error> {
        let planned = self.plan(graph.check(Onto::Flow)?).await?;
        Ok(Op::Spawn(Box::new(Spawn { planned, detach })))
    }

    async fn plan(&self, plan: GraphPlan) -> Result<Planned, Error> {
        let classes = self.inner().registry.intern(&plan.classes(self.id())).await?;
        let mint = |id: Option<ExecutionId>| id.unwrap_or_else(|| ExecutionId(Uuid::now_v7()));
        let ids = plan.ids().map(mint).collect();
        Ok(Planned { plan, ids, classes })
    }

    async fn names_of(&self, flow: FlowId) -> Result<Vec<(Name, ExecutionId)>, Error> {
        let named = |row: &Execution| Some((Name::trusted(row.node()?), row.id));
        Ok(self.members(flow).await?.iter().filter_map(named).collect())
    }

    /// The members of a flow, in the order in which they were submitted, without their payloads.
    async fn members(&self, flow: FlowId) -> Result<Vec<Execution>, Error> {
        let members = self.inner().store.members(Members { flow, skip: 0, limit: u32::MAX }).await?;
        Ok(members.into_iter().filter(|row| row.namespace == self.id()).collect())
    }

    /// A flow. The end of one that has no live member is settled first, so that what is shown is final.
    pub async fn flow(&self, id: FlowId) -> Result<FlowView, Error> {
        let view = |flow| FlowView { flow, namespace: self.name().clone() };
        match self.stored_flow(id).await? {
            Some(flow) if flow.is_unsettled() => {
                self.settle(id).await?;
                self.stored_flow(id).await?.map(view).ok_or_else(|| no_flow(id))
            }
            Some(flow) => Ok(view(flow)),
            None => {
                let row = self.lone(id).await?;
                if row.flow.is_none() { Ok(view(lone_flow(&row))) } else { Err(no_flow(id)) }
            }
        }
    }

    /// The execution that has the id of a flow: alone, it is its own flow.
    async fn lone(&self, id: FlowId) -> Result<Execution, Error> {
        match self.get(ExecutionId(id.0)).await {
            Err(Error::Refused(_)) => Err(no_flow(id)),
            found => Ok(found?.stored.execution),
        }
    }

    async fn stored_flow(&self, id: FlowId) -> Result<Option<Flow>, Error> {
        let flow = self.inner().store.fetch_flows(&[id]).await?.pop();
        Ok(flow.filter(|flow| flow.namespace == self.id() && !flow.detail.deleting))
    }

    async fn settle(&self, flow: FlowId) -> Result<(), Error> {
        self.run(Settle { flow }).await.map(drop)
    }

    /// A page of flows, newest first, and the place to go on from; none at the end.
    pub async fn flows(
        &self,
        filter: &FlowFilter,
        after: Option<FlowPlace>,
        limit: u32,
    ) -> Result<(Vec<FlowView>, Option<FlowPlace>), Error> {
        let mut flows = self.inner().store.list_flows(filter, after, limit + 1).await?;
        let more = flows.len() > limit as usize;
        flows.truncate(limit as usize);
        let last = flows.last().map(|flow| FlowPlace { submitted_at: flow.submitted_at, id: flow.id });
        let mut views = Vec::with_capacity(flows.len());
        for flow in flows.into_iter().filter(|flow| !flow.detail.deleting) {
            let view = match flow.is_unsettled() {
                true => self.flow(flow.id).await?,
                false => FlowView { flow, namespace: self.name().clone() },
            };
            let shown = filter.states.is_empty() || filter.states.contains(&view.flow.state);
            views.extend(shown.then_some(view));
        }
        Ok((views, last.filter(|_| more)))
    }

    /// The graph of a flow.
    pub async fn graph(&self, id: FlowId) -> Result<FlowGraph, Error> {
        if self.stored_flow(id).await?.is_none() {
            return Ok(FlowGraph::of(&[self.lone(id).await?]));
        }
        Ok(FlowGraph::of(&self.members(id).await?))
    }

    /// How a flow ended; waits for it, and gives none if it is still going.
    pub async fn flow_result(&self, id: FlowId, wait: Duration) -> Result<Option<FlowEnded>, Error> {
        let deadline = Instant::now() + wait.min(WAIT_MAX);
        let bell = self.inner().bells.wait_ended(ExecutionId(id.0));
        loop {
            let rings = bell.rings();
            tokio::pin!(rings);
            rings.as_mut().enable();
            let FlowView { flow, .. } = self.flow(id).await?;
            if flow.state != FlowState::Running {
                let results = self.results(id).await?;
                return Ok(Some(FlowEnded { flow, results }));
            }
            if Instant::now() >= deadline || self.inner().committer.is_closed() {
                return Ok(None);
            }
            tokio::select! {
                () = &mut rings => {}
                () = tokio::time::sleep_until(deadline.min(Instant::now() + LOOK_EVERY)) => {}
            }
        }
    }

    /// How the nodes ended that nobody waits for.
    async fn results(&self, flow: FlowId) -> Result<Vec<(Name, Ended)>, Error> {
        let mut members = self.members(flow).await?;
        if members.is_empty() {
            members.push(self.get(ExecutionId(flow.0)).await?.stored.execution);
        }
        let last = members.iter().filter(|row| row.wiring().downstreams.is_empty());
        let named: Vec<(ExecutionId, Name)> =
            last.map(|row| (row.id, Name::trusted(row.node().unwrap_or(ROOT)))).take(RESULTS_MAX).collect();
        let ids: Vec<ExecutionId> = named.iter().map(|(id, _)| *id).collect();
        let stored = self.inner().store.fetch(&ids).await?;
        let mut ended: HashMap<ExecutionId, Ended> = stored
            .into_iter()
            .filter_map(|stored| {
                let outcome = stored.execution.state.outcome()?;
                let error = stored.execution.detail.error;
                Some((stored.execution.id, Ended { outcome, result: stored.result, error }))
            })
            .collect();
        Ok(named.into_iter().filter_map(|(id, name)| Some((name, ended.remove(&id)?))).collect())
    }

    /// Cancels a flow. Says whether everything that the cancel is for has ended; waits for that.
    pub async fn cancel_flow(
        &self,
        id: FlowId,
        mode: CancelMode,
        reason: Option<String>,
        actor: &Name,
        wait: Duration,
    ) -> Result<(FlowView, bool), Error> {
        while self.stored_flow(id).await?.is_none() {
            if let Some(view) = self.cancel_lone(id, mode, reason.clone(), actor).await? {
                return Ok((view, true));
            }
        }
        let deadline = Instant::now() + wait.min(WAIT_MAX);
        let cancel = CancelFlow { namespace: self.id(), flow: id, mode, reason, actor: actor.clone() };
        self.run(cancel).await??;
        let bell = self.inner().bells.wait_ended(ExecutionId(id.0));
        loop {
            let rings = bell.rings();
            tokio::pin!(rings);
            rings.as_mut().enable();
            let view = self.flow(id).await?;
            let draining = view.flow.detail.cancel.as_ref().is_some_and(|cancel| cancel.draining);
            if !draining || Instant::now() >= deadline || self.inner().committer.is_closed() {
                return Ok((view, !draining));
            }
            tokio::select! {
                () = &mut rings => {}
                () = tokio::time::sleep_until(deadline.min(Instant::now() + DRAIN_LOOK)) => {}
            }
        }
    }

    /// A lone execution is its own flow. Gives none if it has moved since it was looked at: it may have become a flow.
    async fn cancel_lone(
        &self,
        id: FlowId,
        mode: CancelMode,
        reason: Option<String>,
        actor: &Name,
    ) -> Result<Option<FlowView>, Error> {
        let lone = self.lone(id).await?;
        if lone.flow.is_some() {
            return if self.stored_flow(id).await?.is_some() { Ok(None) } else { Err(no_flow(id)) };
        }
        if mode == CancelMode::All || lone.started_at.is_none() {
            let action = Action::Cancel { reason, grace_ms: 0 };
            match self.operate(lone.id, action, Some(lone.version), actor).await {
                Err(Error::Refused(Refusal::VersionMismatch { .. })) => return Ok(None),
                Err(Error::Refused(Refusal::AlreadyTerminal { .. })) => {
                    let state = lone_flow(&lone).state.as_str().into();
                    return Err(Refusal::FlowEnded { flow: id, state }.into());
                }
                done => drop(done?),
            }
        }
        Ok(Some(self.flow(id).await?))
    }

    /// Whom the replay of an execution would open again, nearest first.
    pub async fn would_reopen(&self, id: ExecutionId) -> Result<Vec<ExecutionId>, Error> {
        let view = self.get(id).await?;
        let Some(flow) = view.stored.execution.flow else { return Ok(Vec::new()) };
        let members = self.members(flow).await?.into_iter().map(|row| (row.id, row)).collect();
        Ok(would_reopen(&members, id))
    }
}

/// How often a cancel that waits looks whether it is done.
const DRAIN_LOOK: Duration = Duration::from_millis(20);

fn names(planned: &Planned) -> Vec<(Name, ExecutionId)> {
    let nodes = planned.plan.nodes().iter().map(|node| node.name.clone());
    nodes.zip(planned.ids.iter().copied()).collect()
}

/// A lone execution, as the flow that it is.
fn lone_flow(row: &Execution) -> Flow {
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
