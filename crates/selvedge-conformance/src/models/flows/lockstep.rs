//! Runs the same commands on a store and on the reference model of flows, and compares them after each.

use super::super::compare::{Comparison, expect_equal};
use super::apply::{Addition, Answer};
use super::command::{DELAY_MS, FlowCommand, LONG_MS, NodeSpec, PolicySpec, ReportKind, TTL_MS};
use super::past::SeenGraph;
use super::reference::{Node, NodeRef, NodeState, OutboxEntry, Reference};
use crate::harness::runner::WithDownstreams;
use crate::harness::subject::Advance;
use crate::harness::worker::Worker;
use crate::harness::{Harness, new_id};
use selvedge_core::Rule;
use selvedge_core::flow::CancelMode;
use selvedge_core::join::{JoinPolicy, OnSatisfied};
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::plan::{EdgeDraft, GraphDraft, GraphTarget, GroupDraft, NodeDraft};
use selvedge_core::rules::flows::dispatch::Dispatched;
use selvedge_core::rules::flows::grow::{Grow, Spawn};
use selvedge_core::rules::flows::submit::{FlowDraft, SubmitFlow};
use selvedge_core::rules::flows::whole::SettleFlow;
use selvedge_core::rules::operator::{Action, Operate};
use selvedge_core::rules::report::{self, Fence};
use selvedge_core::rules::suspend::Suspend;
use selvedge_core::rules::timer::{FireTimer, Timer, TimerReply};
use selvedge_core::submission::When;
use selvedge_core::suspension::{Condition, WaitDraft};
use selvedge_core::{
    Backoff, Draft, DueKind, ExecutionId, FailureClass, FlowId, Outcome, Refusal, Timestamp,
};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The maximum number of flows in one sequence.
const MAX_FLOWS: usize = 3;

/// A store and the reference model, after the same commands.
pub struct Lockstep<'a> {
    pub(super) harness: &'a Harness,
    advance: Option<Advance>,
    pub(super) reference: Reference,
    pub(super) start: Timestamp,
    pub(super) at: BTreeMap<ExecutionId, NodeRef>,
    dispatched: Vec<OutboxRow>,
    /// The graph of each flow after the changes of each moment.
    pub(super) graphs: BTreeMap<(usize, Timestamp), SeenGraph>,
    /// True once an end was not propagated with the command that caused it.
    pub(super) has_delay: bool,
}

impl<'a> Lockstep<'a> {
    /// Starts with an empty model.
    pub async fn new(harness: &'a Harness, advance: Option<Advance>) -> Self {
        let reference = Reference { manual: advance.is_some(), ..Reference::default() };
        let (start, at, dispatched) = (harness.now().await, BTreeMap::new(), Vec::new());
        Lockstep {
            harness,
            advance,
            reference,
            start,
            at,
            dispatched,
            graphs: BTreeMap::new(),
            has_delay: false,
        }
    }

    /// Runs one command on both and compares them.
    pub async fn run(&mut self, command: &FlowCommand) -> Comparison {
        match command {
            FlowCommand::Advance { ms } => {
                if let Some(advance) = &self.advance {
                    advance(*ms);
                    self.reference.now += ms * 1000;
                }
            }
            FlowCommand::Submit { nodes } if self.reference.flows.len() < MAX_FLOWS => {
                self.submit(nodes).await?
            }
            FlowCommand::Submit { .. } => {}
            FlowCommand::Grow { flow, nodes, into } => {
                let flow = flow % self.reference.flows.len();
                let addition = Addition::of(self.reference.flows[flow].nodes.len(), nodes, into, new_id);
                self.grow(flow, addition).await?;
            }
            FlowCommand::Spawn { lease, nodes, detach } => {
                let Some((at, fence)) = self.choose_lease(*lease, |_| true) else { return Ok(()) };
                self.spawn(at, fence, nodes, *detach).await?;
            }
            FlowCommand::Claim => self.claim().await?,
            FlowCommand::Report { lease, op, propagate } => self.report(*lease, *op, *propagate).await?,
            FlowCommand::Cancel { node, propagate } => {
                let at = self.choose_node(*node, Node::is_live);
                let action = Action::Cancel { reason: None, grace_ms: 0 };
                let got = self.run_rule(self.operate(at, action), at, *propagate).await;
                let expected = self.reference.cancel(at, *propagate);
                expect_equal(|| format!("cancel {at:?}"), expected, answer(got))?;
            }
            FlowCommand::Replay { node, propagate } => {
                let at = self
                    .choose_node(*node, |node| !node.is_live() && node.outcome() != Some(Outcome::Skipped));
                let got = self.run_rule(self.operate(at, Action::Replay), at, *propagate).await;
                let expected = self.reference.replay(at, *propagate);
                expect_equal(|| format!("replay {at:?}"), expected, answer(got))?;
            }
            FlowCommand::PassDeadline { node, propagate } => {
                let at = self.choose_node(*node, |node| node.spec.expires && node.is_live());
                let got = self.tick(at, Timer::Due(DueKind::Deadline), *propagate).await;
                expect_equal(
                    || format!("pass the deadline of {at:?}"),
                    self.reference.pass_deadline(at, *propagate),
                    got,
                )?;
            }
            FlowCommand::ExpireLease { node, propagate } => {
                let at = self.choose_node(*node, |node| matches!(node.state, NodeState::Active { .. }));
                let got = self.tick(at, Timer::LeaseExpiry, *propagate).await;
                expect_equal(
                    || format!("expire the lease of {at:?}"),
                    self.reference.expire_lease(at, *propagate),
                    got,
                )?;
            }
            FlowCommand::DelayOver { node } => {
                let at = self.choose_node(*node, |node| matches!(node.state, NodeState::Delayed(_)));
                let got = self.tick(at, Timer::Due(DueKind::Delay), false).await;
                expect_equal(|| format!("delay over {at:?}"), self.reference.delay_over(at), got)?;
            }
            FlowCommand::CancelFlow { flow, pending } => {
                self.cancel_flow(flow % self.reference.flows.len(), *pending).await?;
            }
            FlowCommand::Dispatch { row } => {
                let rows = self.harness.outbox().await;
                if let Some(row) = row.checked_rem(rows.len()).map(|index| rows[index].clone()) {
                    self.dispatch(row).await?;
                }
            }
            FlowCommand::DispatchAgain { row } => {
                if let Some(index) = row.checked_rem(self.dispatched.len()) {
                    self.dispatch(self.dispatched[index].clone()).await?;
                }
            }
            FlowCommand::Settle { flow } => self.settle(flow % self.reference.flows.len()).await?,
        }
        self.compare().await
    }

    async fn report(&mut self, lease: usize, op: ReportKind, propagate: bool) -> Comparison {
        // Prefers parents for waiting on children, and children for ending.
        let likely = |node: &Node| match op {
            ReportKind::AwaitChildren => !node.children.is_empty(),
            ReportKind::Complete | ReportKind::FailPermanently => node.parent.is_some(),
            ReportKind::FailTransiently | ReportKind::Delay | ReportKind::Release => true,
        };
        let Some((at, fence)) = self.choose_lease(lease, likely) else { return Ok(()) };
        let report = self.harness.report_command(fence, core_op(op, self.reference.manual));
        self.run_rule(report, at, propagate).await.map_err(|refusal| refusal.to_string())?;
        self.reference.report(at, op, propagate);
        Ok(())
    }

    async fn cancel_flow(&mut self, flow: usize, pending: bool) -> Comparison {
        let mode = if pending { CancelMode::Pending } else { CancelMode::All };
        let got = self.harness.flow_of(self.reference.flows[flow].id).try_cancel(mode).await;
        let expected = self.reference.cancel_flow(flow, pending);
        expect_equal(|| format!("cancel flow {flow}"), expected, answer(got))
    }

    /// Dispatches the whole outbox in an order that `seed` chooses, settles every flow, and compares.
    pub async fn drain(&mut self, seed: usize) -> Comparison {
        for round in 0.. {
            let rows = self.harness.outbox().await;
            let Some(index) = (seed + round * 7).checked_rem(rows.len()) else { break };
            self.dispatch(rows[index].clone()).await?;
            if round > 20_000 {
                return Err("the outbox never drains".into());
            }
        }
        self.compare().await?;
        for flow in 0..self.reference.flows.len() {
            self.settle(flow).await?;
        }
        self.compare().await
    }

    /// Chooses a node: for an even index one for which `likely` is true, if there is one, else any.
    fn choose_node(&self, index: usize, likely: impl Fn(&Node) -> bool) -> NodeRef {
        let all = self.reference.all();
        let chosen: Vec<NodeRef> =
            all.iter().copied().filter(|at| likely(self.reference.node(*at))).collect();
        match (index % 2, (index / 2).checked_rem(chosen.len())) {
            (0, Some(index)) => chosen[index],
            _ => all[index / 2 % all.len()],
        }
    }

    /// Chooses a live lease: for an even index of a node for which `likely` is true, if there is one, else any.
    fn choose_lease(&self, index: usize, likely: impl Fn(&Node) -> bool) -> Option<(NodeRef, Fence)> {
        let leased = self.reference.all().into_iter().filter_map(|at| match self.reference.node(at).state {
            NodeState::Active { fence, .. } => Some((at, fence)),
            _ => None,
        });
        let leased: Vec<(NodeRef, Fence)> = leased.collect();
        let chosen: Vec<_> = leased.iter().filter(|(at, _)| likely(self.reference.node(*at))).collect();
        match (index % 2, (index / 2).checked_rem(chosen.len())) {
            (0, Some(index)) => Some(*chosen[index]),
            _ => (index / 2).checked_rem(leased.len()).map(|index| leased[index]),
        }
    }

    /// Runs a rule on a node, with its downstreams loaded if `propagate` is true.
    async fn run_rule<R: Rule>(&self, rule: R, at: NodeRef, propagate: bool) -> R::Reply {
        match propagate {
            true => self.harness.run(WithDownstreams { rule, of: self.reference.node(at).id }).await,
            // Another process has no cached downstreams.
            false => self.harness.another_process().run(rule).await,
        }
    }

    fn operate(&self, at: NodeRef, action: Action) -> Operate {
        self.harness.operate_command(self.reference.node(at).id, action)
    }

    async fn tick(&self, at: NodeRef, what: Timer, propagate: bool) -> bool {
        let tick = FireTimer { execution: self.reference.node(at).id, timer: what };
        self.run_rule(tick, at, propagate).await == Ok(TimerReply::Fired)
    }

    fn index_nodes(&mut self, flow: usize) {
        let nodes = self.reference.flows[flow].nodes.iter().enumerate();
        self.at.extend(nodes.map(|(index, node)| (node.id, (flow, index))));
    }

    async fn submit(&mut self, specs: &[NodeSpec]) -> Comparison {
        let addition = Addition::of(0, specs, &[], new_id);
        let id = FlowId(Uuid::now_v7());
        let graph = self.graph(0, &addition);
        let draft = FlowDraft { id: Some(id.0), graph, ..FlowDraft::default() };
        let (submission, plan) = draft.check().map_err(|refusal| refusal.to_string())?;
        let planned = self.harness.planned(plan).await;
        let namespace = self.harness.namespace;
        let submit =
            SubmitFlow { namespace, id, submission, planned, actor: None, call_key: None, repeated: false };
        self.harness.run(submit).await.map_err(|refusal| refusal.to_string())?;
        self.reference.submit(id, &addition);
        self.index_nodes(self.reference.flows.len() - 1);
        Ok(())
    }

    async fn grow(&mut self, flow: usize, addition: Addition) -> Comparison {
        if addition.nodes.is_empty() && addition.into.is_empty() {
            return Ok(());
        }
        let graph = self.graph(self.reference.flows[flow].nodes.len(), &addition);
        let plan = graph.check(GraphTarget::ExistingFlow).map_err(|refusal| refusal.to_string())?;
        let planned = self.harness.planned(plan).await;
        let (namespace, id) = (self.harness.namespace, self.reference.flows[flow].id);
        let got = self.harness.run(Grow { namespace, flow: id, planned, actor: None, repeated: false }).await;
        let expected = self.reference.grow(flow, &addition);
        self.index_nodes(flow);
        expect_equal(|| format!("grow {flow} by {addition:?}"), expected, answer(got))
    }

    async fn spawn(&mut self, parent: NodeRef, fence: Fence, specs: &[NodeSpec], detach: bool) -> Comparison {
        let existing = self.reference.flows[parent.0].nodes.len();
        let addition = Addition::of(existing, specs, &[], new_id);
        let plan = self
            .graph(existing, &addition)
            .check(GraphTarget::ExistingFlow)
            .map_err(|refusal| refusal.to_string())?;
        let planned = self.harness.planned(plan).await;
        let spawn = report::Op::Spawn(Box::new(Spawn { planned, detach, actor: None }));
        let got = self.harness.report(fence, spawn).await;
        let expected = self.reference.spawn(parent, &addition, detach);
        self.index_nodes(parent.0);
        expect_equal(|| format!("{parent:?} spawns {addition:?}"), expected, answer(got))
    }

    fn graph(&self, existing: usize, addition: &Addition) -> GraphDraft {
        let name = |index: usize| format!("n{index}");
        let mut graph = GraphDraft::default();
        for (index, (id, spec, upstreams)) in addition.nodes.iter().enumerate() {
            let to = name(existing + index);
            graph
                .nodes
                .push(NodeDraft { name: to.clone(), draft: node_draft(*id, spec, self.reference.manual) });
            for (from, when) in upstreams {
                graph.edges.push(EdgeDraft { from: name(*from), to: to.clone(), when: *when });
            }
            let on = |let_run| if let_run { OnSatisfied::LetRun } else { OnSatisfied::CancelRemaining };
            let policy = match spec.policy {
                PolicySpec::All => JoinPolicy::AllOf,
                PolicySpec::Any { let_run } => JoinPolicy::AnyOf { on_satisfied: on(let_run) },
                PolicySpec::Quorum { k, let_run } => {
                    JoinPolicy::Quorum { k: k.min(upstreams.len()) as u32, on_satisfied: on(let_run) }
                }
            };
            if !upstreams.is_empty() {
                graph.groups.push(GroupDraft { node: to, policy });
            }
        }
        for (from, to, when) in &addition.into {
            graph.edges.push(EdgeDraft { from: name(*from), to: name(*to), when: *when });
        }
        graph
    }

    async fn claim(&mut self) -> Comparison {
        let worker = Worker { ttl_ms: TTL_MS, ..Worker::new("model") };
        let claimed = self.harness.claim_as(&worker, 1).await;
        let waiting =
            self.reference.all().into_iter().any(|at| self.reference.node(at).state == NodeState::Waiting);
        expect_equal(|| "an execution is waiting".into(), waiting, !claimed.is_empty())?;
        let Some(claimed) = claimed.first() else { return Ok(()) };
        let at = self.at[&claimed.execution.id];
        expect_equal(
            || format!("{at:?} is claimed"),
            NodeState::Waiting,
            self.reference.node(at).state.clone(),
        )?;
        self.compare_relatives(at, claimed)?;
        let fence = Fence::of(&claimed.execution).ok_or("a claimed execution has no lease")?;
        let claimed_at = self.reference.now;
        let node = self.reference.node_mut(at);
        (node.state, node.started) = (NodeState::Active { fence, claimed_at }, true);
        Ok(())
    }

    async fn dispatch(&mut self, row: OutboxRow) -> Comparison {
        let got = self.harness.dispatch(&row).await != Dispatched::Nothing;
        let entry = self.outbox_entry(row.name)?;
        expect_equal(|| format!("dispatch {entry:?}"), self.reference.dispatch(entry), got)?;
        self.dispatched.push(row);
        Ok(())
    }

    pub(super) fn outbox_entry(&self, name: OutboxName) -> Result<OutboxEntry, String> {
        let at = match name.kind {
            OutboxKind::Flow => {
                self.reference.flows.iter().position(|flow| flow.id.0 == name.id).map(|flow| (flow, 0))
            }
            OutboxKind::Edges | OutboxKind::Siblings | OutboxKind::Children | OutboxKind::Parent => {
                self.at.get(&ExecutionId(name.id)).copied()
            }
        };
        at.map(|at| (name.kind, at)).ok_or_else(|| format!("the model does not know {name:?}"))
    }

    async fn settle(&mut self, flow: usize) -> Comparison {
        let got = self.harness.run(SettleFlow { flow: self.reference.flows[flow].id }).await;
        expect_equal(|| format!("settle {flow}"), self.reference.settle(flow), got)
    }
}

fn answer<T>(reply: Result<T, Refusal>) -> Answer {
    reply.map(drop).map_err(|refusal| refusal.code())
}

fn node_draft(id: ExecutionId, spec: &NodeSpec, manual: bool) -> Draft {
    let mut draft = Draft { id: Some(id.0), ..Draft::new("kind") };
    draft.delay = spec.delayed.then_some(When::AfterMs(if manual { DELAY_MS } else { LONG_MS }));
    draft.policy.deadline_ms = spec.expires.then_some(0);
    draft.policy.retry.max_retries = 1000;
    draft.policy.retry.max_interruptions = if spec.fragile { 0 } else { 1000 };
    draft.policy.retry.backoff = Backoff::Fixed { delay_ms: 0 };
    draft
}

fn core_op(op: ReportKind, manual: bool) -> report::Op {
    let fail = |class, retry_after_ms| report::Op::Fail { message: "it broke".into(), class, retry_after_ms };
    match op {
        ReportKind::Complete => report::Op::Complete { result: "\"done\"".into() },
        ReportKind::FailPermanently => fail(FailureClass::Permanent, None),
        ReportKind::FailTransiently => fail(FailureClass::Transient, Some(0)),
        ReportKind::Delay => {
            report::Op::Delay { until: When::AfterMs(if manual { DELAY_MS } else { LONG_MS }) }
        }
        ReportKind::Release => report::Op::Release,
        ReportKind::AwaitChildren => {
            let waits = vec![WaitDraft::new(Condition::children())];
            report::Op::Suspend(Box::new(Suspend {
                waits,
                waitpoints: Vec::new(),
                fingerprint: 0,
                default_timeout_ms: None,
            }))
        }
    }
}
