//! Drives a store and the reference model of flows through the same steps, and compares them after each.

use super::command::{DELAY_MS, LONG_MS, NodeSpec, Op, Policy, Step, TTL_MS};
use super::compare::{Differ, same};
use super::moves::{Addition, Answer};
use super::reference::{At, Left, Node, Place, Reference};
use crate::harness::{Harness, mint};
use crate::rule::Propagating;
use crate::subject::Advance;
use crate::worker::Worker;
use selvedge_core::Rule;
use selvedge_core::flow::CancelMode;
use selvedge_core::join::{JoinPolicy, OnSatisfied};
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::plan::{EdgeDraft, GraphDraft, GroupDraft, NodeDraft, Onto};
use selvedge_core::rules::clock::{Tick, Ticked, What};
use selvedge_core::rules::dispatch::Dispatched;
use selvedge_core::rules::flow::Settle;
use selvedge_core::rules::grow::{Grow, Spawn};
use selvedge_core::rules::operator::{Action, Operate};
use selvedge_core::rules::report::{self, Fence};
use selvedge_core::rules::submit_flow::{FlowDraft, SubmitFlow};
use selvedge_core::rules::suspend::Suspend;
use selvedge_core::submission::When;
use selvedge_core::suspension::{Condition, WaitDraft};
use selvedge_core::{
    Backoff, Draft, DueKind, ExecutionId, FailureClass, FlowId, Outcome, Refusal, Timestamp,
};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The most flows of one sequence.
const FLOWS: usize = 3;

/// A store and the reference model on their way.
pub struct Drive<'a> {
    pub(super) harness: &'a Harness,
    advance: Option<Advance>,
    pub(super) reference: Reference,
    pub(super) start: Timestamp,
    pub(super) at: BTreeMap<ExecutionId, At>,
    dispatched: Vec<OutboxRow>,
}

impl<'a> Drive<'a> {
    /// At the beginning.
    pub async fn new(harness: &'a Harness, advance: Option<Advance>) -> Self {
        let reference = Reference { manual: advance.is_some(), ..Reference::default() };
        let (start, at, dispatched) = (harness.now().await, BTreeMap::new(), Vec::new());
        Drive { harness, advance, reference, start, at, dispatched }
    }

    /// Goes one step, and compares.
    pub async fn step(&mut self, step: &Step) -> Differ {
        match step {
            Step::Advance { ms } => {
                if let Some(advance) = &self.advance {
                    advance(*ms);
                    self.reference.now += ms * 1000;
                }
            }
            Step::Submit { nodes } if self.reference.flows.len() < FLOWS => self.submit(nodes).await?,
            Step::Submit { .. } => {}
            Step::Grow { flow, nodes, into } => {
                let flow = flow % self.reference.flows.len();
                let addition = Addition::of(self.reference.flows[flow].nodes.len(), nodes, into, mint);
                self.grow(flow, addition).await?;
            }
            Step::Spawn { lease, nodes, detach } => {
                let Some((at, fence)) = self.lease(*lease, |_| true) else { return Ok(()) };
                self.spawn(at, fence, nodes, *detach).await?;
            }
            Step::Claim => self.claim().await?,
            Step::Report { lease, op, tell } => {
                // What waits for children most often has some, and these end most often.
                let likely = |node: &Node| match op {
                    Op::Join => !node.children.is_empty(),
                    Op::Complete | Op::FailForGood => node.parent.is_some(),
                    Op::FailForNow | Op::Delay | Op::Release => true,
                };
                let Some((at, fence)) = self.lease(*lease, likely) else { return Ok(()) };
                let report = self.harness.report_command(fence, reported(*op, self.reference.manual));
                self.told(report, at, *tell).await.map_err(|refusal| refusal.to_string())?;
                self.reference.report(at, *op, *tell);
            }
            Step::Cancel { node, tell } => {
                let at = self.likely(*node, Node::is_live);
                let action = Action::Cancel { reason: None, grace_ms: 0 };
                let got = self.told(self.operate(at, action), at, *tell).await;
                let expected = self.reference.cancel(at, *tell);
                same(|| format!("cancel {at:?}"), expected, code(got))?;
            }
            Step::Replay { node, tell } => {
                let at =
                    self.likely(*node, |node| !node.is_live() && node.outcome() != Some(Outcome::Skipped));
                let got = self.told(self.operate(at, Action::Replay), at, *tell).await;
                let expected = self.reference.replay(at, *tell);
                same(|| format!("replay {at:?}"), expected, code(got))?;
            }
            Step::Expire { node, tell } => {
                let at = self.likely(*node, |node| node.spec.expires && node.is_live());
                let got = self.tick(at, What::Due(DueKind::Deadline), *tell).await;
                same(|| format!("expire {at:?}"), self.reference.expire(at, *tell), got)?;
            }
            Step::Lapse { node, tell } => {
                let at = self.likely(*node, |node| matches!(node.place, Place::Active { .. }));
                let got = self.tick(at, What::Lapse, *tell).await;
                same(|| format!("lapse {at:?}"), self.reference.lapse(at, *tell), got)?;
            }
            Step::DelayOver { node } => {
                let at = self.likely(*node, |node| matches!(node.place, Place::Delayed(_)));
                let got = self.tick(at, What::Due(DueKind::Delay), false).await;
                same(|| format!("delay over {at:?}"), self.reference.delay_over(at), got)?;
            }
            Step::CancelFlow { flow, pending } => {
                let flow = flow % self.reference.flows.len();
                let mode = if *pending { CancelMode::Pending } else { CancelMode::All };
                let got = self.harness.flow_of(self.reference.flows[flow].id).try_cancel(mode).await;
                let expected = self.reference.cancel_flow(flow, *pending);
                same(|| format!("cancel flow {flow}"), expected, code(got))?;
            }
            Step::Dispatch { row } => {
                let rows = self.harness.outbox().await;
                if let Some(row) = row.checked_rem(rows.len()).map(|index| rows[index].clone()) {
                    self.dispatch(row).await?;
                }
            }
            Step::DispatchAgain { row } => {
                if let Some(index) = row.checked_rem(self.dispatched.len()) {
                    self.dispatch(self.dispatched[index].clone()).await?;
                }
            }
            Step::Settle { flow } => self.settle(flow % self.reference.flows.len()).await?,
        }
        self.compare().await
    }

    /// Does all that is left, in an order that `seed` chooses, settles every flow, and compares.
    pub async fn drain(&mut self, seed: usize) -> Differ {
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

    /// A node: for an even number one that is `likely` to be acted on, else any.
    fn likely(&self, index: usize, likely: impl Fn(&Node) -> bool) -> At {
        let all = self.reference.all();
        let chosen: Vec<At> = all.iter().copied().filter(|at| likely(self.reference.node(*at))).collect();
        match (index % 2, (index / 2).checked_rem(chosen.len())) {
            (0, Some(index)) => chosen[index],
            _ => all[index / 2 % all.len()],
        }
    }

    /// A live lease: for an even index one of a node that is `likely`, where there is one, else any.
    fn lease(&self, index: usize, likely: impl Fn(&Node) -> bool) -> Option<(At, Fence)> {
        let leased = self.reference.all().into_iter().filter_map(|at| match self.reference.node(at).place {
            Place::Active { fence, .. } => Some((at, fence)),
            _ => None,
        });
        let leased: Vec<(At, Fence)> = leased.collect();
        let chosen: Vec<_> = leased.iter().filter(|(at, _)| likely(self.reference.node(*at))).collect();
        match (index % 2, (index / 2).checked_rem(chosen.len())) {
            (0, Some(index)) => Some(*chosen[index]),
            _ => (index / 2).checked_rem(leased.len()).map(|index| leased[index]),
        }
    }

    /// Runs a rule about a node, with its downstreams at hand or without.
    async fn told<R: Rule>(&self, rule: R, at: At, tell: bool) -> R::Reply {
        match tell {
            true => self.harness.run(Propagating { rule, of: self.reference.node(at).id }).await,
            // Another process knows nothing of the downstreams.
            false => self.harness.elsewhere().run(rule).await,
        }
    }

    fn operate(&self, at: At, action: Action) -> Operate {
        self.harness.operate_command(self.reference.node(at).id, action)
    }

    async fn tick(&self, at: At, what: What, tell: bool) -> bool {
        let tick = Tick { execution: self.reference.node(at).id, what };
        self.told(tick, at, tell).await == Ok(Ticked::Done)
    }

    fn remember(&mut self, flow: usize) {
        let nodes = self.reference.flows[flow].nodes.iter().enumerate();
        self.at.extend(nodes.map(|(place, node)| (node.id, (flow, place))));
    }

    async fn submit(&mut self, specs: &[NodeSpec]) -> Differ {
        let addition = Addition::of(0, specs, &[], mint);
        let id = FlowId(Uuid::now_v7());
        let graph = self.graph(0, &addition);
        let draft = FlowDraft { id: Some(id.0), graph, ..FlowDraft::default() };
        let (submission, plan) = draft.check().map_err(|refusal| refusal.to_string())?;
        let planned = self.harness.planned(plan).await;
        let namespace = self.harness.namespace;
        let submit = SubmitFlow { namespace, id, submission, planned, operation: None, repeated: false };
        self.harness.run(submit).await.map_err(|refusal| refusal.to_string())?;
        self.reference.submit(id, &addition);
        self.remember(self.reference.flows.len() - 1);
        Ok(())
    }

    async fn grow(&mut self, flow: usize, addition: Addition) -> Differ {
        if addition.nodes.is_empty() && addition.into.is_empty() {
            return Ok(());
        }
        let graph = self.graph(self.reference.flows[flow].nodes.len(), &addition);
        let plan = graph.check(Onto::Flow).map_err(|refusal| refusal.to_string())?;
        let planned = self.harness.planned(plan).await;
        let (namespace, id) = (self.harness.namespace, self.reference.flows[flow].id);
        let got =
            self.harness.run(Grow { namespace, flow: id, planned, operation: None, repeated: false }).await;
        let expected = self.reference.grow(flow, &addition);
        self.remember(flow);
        same(|| format!("grow {flow} by {addition:?}"), expected, code(got))
    }

    async fn spawn(&mut self, parent: At, fence: Fence, specs: &[NodeSpec], detach: bool) -> Differ {
        let there = self.reference.flows[parent.0].nodes.len();
        let addition = Addition::of(there, specs, &[], mint);
        let plan = self.graph(there, &addition).check(Onto::Flow).map_err(|refusal| refusal.to_string())?;
        let planned = self.harness.planned(plan).await;
        let spawn = report::Op::Spawn(Box::new(Spawn { planned, detach }));
        let got = self.harness.report(fence, spawn).await;
        let expected = self.reference.spawn(parent, &addition, detach);
        self.remember(parent.0);
        same(|| format!("{parent:?} spawns {addition:?}"), expected, code(got))
    }

    fn graph(&self, there: usize, addition: &Addition) -> GraphDraft {
        let name = |place: usize| format!("n{place}");
        let mut graph = GraphDraft::default();
        for (index, (id, spec, upstreams)) in addition.nodes.iter().enumerate() {
            let to = name(there + index);
            graph.nodes.push(NodeDraft { name: to.clone(), draft: draft(*id, spec, self.reference.manual) });
            for (from, when) in upstreams {
                graph.edges.push(EdgeDraft { from: name(*from), to: to.clone(), when: *when });
            }
            let on = |let_run| if let_run { OnSatisfied::LetRun } else { OnSatisfied::CancelRemaining };
            let policy = match spec.policy {
                Policy::All => JoinPolicy::AllOf,
                Policy::Any { let_run } => JoinPolicy::AnyOf { on_satisfied: on(let_run) },
                Policy::Quorum { k, let_run } => {
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

    async fn claim(&mut self) -> Differ {
        let worker = Worker { ttl_ms: TTL_MS, ..Worker::new("model") };
        let claimed = self.harness.claim_as(&worker, 1).await;
        let ready =
            self.reference.all().into_iter().any(|at| self.reference.node(at).place == Place::Waiting);
        same(|| "something is ready".into(), ready, !claimed.is_empty())?;
        let Some(claimed) = claimed.first() else { return Ok(()) };
        let at = self.at[&claimed.execution.id];
        same(|| format!("{at:?} is claimed"), Place::Waiting, self.reference.node(at).place.clone())?;
        self.compare_relatives(at, claimed)?;
        let fence = Fence::of(&claimed.execution).ok_or("it was claimed and is not leased")?;
        let claimed_at = self.reference.now;
        let node = self.reference.node_mut(at);
        (node.place, node.started) = (Place::Active { fence, claimed_at }, true);
        Ok(())
    }

    async fn dispatch(&mut self, row: OutboxRow) -> Differ {
        let got = self.harness.dispatch(&row).await != Dispatched::Nothing;
        let left = self.left(row.name)?;
        same(|| format!("dispatch {left:?}"), self.reference.dispatch(left), got)?;
        self.dispatched.push(row);
        Ok(())
    }

    pub(super) fn left(&self, name: OutboxName) -> Result<Left, String> {
        let at = match name.kind {
            OutboxKind::Flow => {
                self.reference.flows.iter().position(|flow| flow.id.0 == name.id).map(|flow| (flow, 0))
            }
            OutboxKind::Edges | OutboxKind::Siblings | OutboxKind::Children | OutboxKind::Parent => {
                self.at.get(&ExecutionId(name.id)).copied()
            }
        };
        at.map(|at| (name.kind, at)).ok_or_else(|| format!("{name:?} is about nobody"))
    }

    async fn settle(&mut self, flow: usize) -> Differ {
        let got = self.harness.run(Settle { flow: self.reference.flows[flow].id }).await;
        same(|| format!("settle {flow}"), self.reference.settle(flow), got)
    }
}

fn code<T>(reply: Result<T, Refusal>) -> Answer {
    reply.map(drop).map_err(|refusal| refusal.code())
}

fn draft(id: ExecutionId, spec: &NodeSpec, manual: bool) -> Draft {
    let mut draft = Draft { id: Some(id.0), ..Draft::new("kind") };
    draft.delay = spec.delayed.then_some(When::AfterMs(if manual { DELAY_MS } else { LONG_MS }));
    draft.policy.deadline_ms = spec.expires.then_some(0);
    draft.policy.retry.max_retries = 1000;
    draft.policy.retry.max_interruptions = if spec.fragile { 0 } else { 1000 };
    draft.policy.retry.backoff = Backoff::Fixed { delay_ms: 0 };
    draft
}

fn reported(op: Op, manual: bool) -> report::Op {
    let fail = |class, retry_after_ms| report::Op::Fail { message: "it broke".into(), class, retry_after_ms };
    match op {
        Op::Complete => report::Op::Complete { result: "\"done\"".into() },
        Op::FailForGood => fail(FailureClass::Permanent, None),
        Op::FailForNow => fail(FailureClass::Transient, Some(0)),
        Op::Delay => report::Op::Delay { until: When::AfterMs(if manual { DELAY_MS } else { LONG_MS }) },
        Op::Release => report::Op::Release,
        Op::Join => {
            let waits = vec![WaitDraft::new(Condition::children())];
            report::Op::Suspend(Box::new(Suspend { waits, waitpoints: Vec::new(), fingerprint: 0 }))
        }
    }
}
