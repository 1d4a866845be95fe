//! The harness of a flow: helpers that act on its nodes by name.

use super::runner::WithDownstreams;
use super::sketch::{Sketch, graph};
use super::worker::Worker;
use super::{Harness, fence, new_id};
use bytes::Bytes;
use selvedge_core::flow::{CancelMode, FlowState};
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::plan::{GraphDraft, GraphPlan, GraphTarget};
use selvedge_core::rows::Members;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::flows::dispatch::{Dispatch, Dispatched};
use selvedge_core::rules::flows::graft::PlannedGraph;
use selvedge_core::rules::flows::grow::{Grow, Spawn};
use selvedge_core::rules::flows::submit::{FlowSubmitted, SubmitFlow};
use selvedge_core::rules::flows::whole::{CancelFlow, SettleFlow};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::{Op, Reported};
use selvedge_core::rules::timer::{Timer, TimerReply};
use selvedge_core::table::Request;
use selvedge_core::{
    Class, DueKind, Execution, ExecutionId, FailureClass, Flow, FlowId, Name, Needs, Outcome, Refusal,
};
use selvedge_store::{FlowDue, ReconcilerScope};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// More rows than any case has.
const ALL: u32 = 100_000;

/// A flow in a store.
#[derive(Clone)]
pub struct FlowHarness {
    /// The harness of the store.
    pub harness: Harness,
    pub id: FlowId,
}

impl Harness {
    /// Adds ids and classes for its nodes to a plan.
    pub async fn planned(&self, plan: GraphPlan) -> PlannedGraph {
        let wanted = plan.classes(self.namespace);
        let distinct: BTreeSet<Class> = wanted.iter().cloned().collect();
        let known = self.intern(distinct.into_iter().collect()).await;
        let classes = wanted.iter().map(|class| known.find(class).expect("its class is interned"));
        let ids = plan.ids().map(|id| id.unwrap_or_else(new_id)).collect();
        PlannedGraph { classes: classes.collect(), ids, plan }
    }

    /// Returns the command that submits a flow, or the refusal of an invalid sketch.
    pub async fn submit_flow_command(&self, sketch: impl Into<Sketch>) -> Result<SubmitFlow, Refusal> {
        let (submission, plan) = sketch.into().0.check()?;
        Ok(SubmitFlow {
            namespace: self.namespace,
            id: submission.id().unwrap_or_else(|| FlowId(Uuid::now_v7())),
            submission,
            planned: self.planned(plan).await,
            actor: None,
            call_key: None,
            repeated: false,
        })
    }

    /// Submits a flow and returns the reply, which may be a refusal.
    pub async fn try_submit_flow(&self, sketch: impl Into<Sketch>) -> Result<FlowSubmitted, Refusal> {
        let command = self.submit_flow_command(sketch).await?;
        self.run(command).await
    }

    /// Submits a flow.
    pub async fn flow(&self, sketch: impl Into<Sketch>) -> FlowHarness {
        let id = self.try_submit_flow(sketch).await.expect("the flow is accepted").flow.id;
        self.flow_of(id)
    }

    /// Returns the harness of an existing flow.
    pub fn flow_of(&self, id: FlowId) -> FlowHarness {
        FlowHarness { harness: self.clone(), id }
    }

    /// Returns all rows of the outbox.
    pub async fn outbox(&self) -> Vec<OutboxRow> {
        let mut rows = Vec::new();
        for kind in OutboxKind::ALL {
            rows.extend(
                self.store
                    .outbox(&ReconcilerScope::ALL, kind, 0, None, ALL)
                    .await
                    .expect("the outbox is read"),
            );
        }
        rows
    }

    /// Dispatches one chunk of an outbox row.
    pub async fn dispatch(&self, row: &OutboxRow) -> Dispatched {
        let dispatch = Dispatch { row: row.clone(), only_close: false };
        self.run(dispatch).await.expect("no row is unreadable")
    }

    /// Dispatches the outbox until it is empty and settles the flows that ended. Returns the number of transactions.
    pub async fn drain(&self) -> usize {
        let mut done = 0;
        loop {
            let rows = self.outbox().await;
            for row in &rows {
                self.dispatch(row).await;
            }
            let due = self
                .store
                .due_flows(&ReconcilerScope::ALL, FlowDue::Settle, None, ALL)
                .await
                .expect("due flows are read");
            for one in &due {
                self.run(SettleFlow { flow: one.flow }).await;
            }
            if rows.is_empty() && due.is_empty() {
                return done;
            }
            done += rows.len() + due.len();
            assert!(done < 100_000, "the outbox never drains");
        }
    }
}

impl FlowHarness {
    /// Returns the flow's row.
    pub async fn flow(&self) -> Flow {
        self.find().await.expect("the flow exists")
    }

    /// Returns the flow's row, if it exists.
    pub async fn find(&self) -> Option<Flow> {
        self.harness.store.fetch_flows(&[self.id]).await.expect("flows are read").pop()
    }

    /// Returns the flow's members, in the order of their submission.
    pub async fn members(&self) -> Vec<Execution> {
        let all = Members { flow: self.id, skip: 0, limit: ALL };
        self.harness.store.members(all).await.expect("members are read")
    }

    /// Returns the execution of a node.
    pub async fn id(&self, name: &str) -> ExecutionId {
        let nodes = vec![(self.id, Name::trusted(name))];
        let rows = self.harness.load(Needs { nodes: Request::reading(nodes), ..Needs::default() }).await;
        let found = rows.nodes.first().map(|(_, _, id)| *id);
        found.unwrap_or_else(|| panic!("there is no node {name}"))
    }

    /// Returns the row of a node.
    pub async fn row(&self, name: &str) -> Execution {
        self.harness.row(self.id(name).await).await
    }

    /// Returns the public states of all nodes by name: `a=completed b=waiting`.
    pub async fn states(&self) -> String {
        let members = self.members().await;
        let states: BTreeMap<&str, &str> = members
            .iter()
            .map(|row| (row.node().expect("it has a name"), row.state.name().as_str()))
            .collect();
        let words: Vec<String> = states.iter().map(|(name, state)| format!("{name}={state}")).collect();
        words.join(" ")
    }

    /// Asserts the states of all nodes, in the form of [`states`](Self::states).
    #[track_caller]
    pub fn assert_states(&self, expected: &str) -> impl Future<Output = ()> {
        let (flow, expected) = (self.clone(), expected.to_owned());
        let caller = std::panic::Location::caller();
        async move { assert_eq!(flow.states().await, expected, "at {caller}") }
    }

    /// Drains the outbox, then asserts the states of all nodes.
    #[track_caller]
    pub fn drain_and_assert(&self, expected: &str) -> impl Future<Output = ()> {
        let (flow, expected) = (self.clone(), expected.to_owned());
        let caller = std::panic::Location::caller();
        async move {
            flow.harness.drain().await;
            assert_eq!(flow.states().await, expected, "at {caller}");
        }
    }

    /// Drains the outbox and returns the flow's state.
    pub async fn drained_state(&self) -> FlowState {
        self.harness.drain().await;
        self.flow().await.state
    }

    /// Claims a node, which must be waiting and of the kind of its name.
    pub async fn claim(&self, name: &str) -> Claimed {
        self.claim_for(name, 30_000).await
    }

    async fn claim_for(&self, name: &str, ttl_ms: i64) -> Claimed {
        let worker = Worker { kinds: Some(vec![name.into()]), ttl_ms, ..Worker::new("flow") };
        let mut claimed = self.harness.claim_as(&worker, 1).await;
        assert_eq!(claimed.len(), 1, "{name} can be claimed");
        assert_eq!(claimed[0].execution.flow, Some(self.id));
        claimed.remove(0)
    }

    /// Completes a node with its own name as the result.
    pub async fn complete(&self, name: &str) {
        let claimed = self.claim(name).await;
        self.report(&claimed, Op::Complete { result: result(name) }).await;
    }

    /// Fails a node permanently.
    pub async fn fail(&self, name: &str) {
        let claimed = self.claim(name).await;
        self.report(&claimed, failure(name)).await;
    }

    /// Reports `op` of a claimed node.
    pub async fn report(&self, claimed: &Claimed, op: Op) -> Reported {
        self.harness.report(fence(claimed), op).await.expect("it is accepted")
    }

    /// Reports `op` of a claimed node and propagates the end to its downstreams in the same transaction.
    pub async fn report_and_propagate(&self, claimed: &Claimed, op: Op) -> Reported {
        let report = self.harness.report_command(fence(claimed), op);
        let propagating = WithDownstreams { rule: report, of: claimed.execution.id };
        self.harness.run(propagating).await.expect("it is accepted")
    }

    /// Acts as an operator on a node and returns the reply.
    pub async fn operate(&self, name: &str, action: Action) -> Result<Execution, Refusal> {
        self.harness.operate(self.id(name).await, action).await
    }

    /// Cancels a node without grace.
    pub async fn cancel_node(&self, name: &str) {
        let cancel = Action::Cancel { reason: None, grace_ms: 0 };
        self.operate(name, cancel).await.expect("it is cancelled");
    }

    /// Replays a node.
    pub async fn replay(&self, name: &str) {
        self.operate(name, Action::Replay).await.expect("it is replayed");
    }

    /// Applies a due action or a lease expiry to a node.
    pub async fn tick(&self, name: &str, what: Timer) -> TimerReply {
        self.harness.tick(self.id(name).await, what).await
    }

    /// Ends a waiting node, whose policy allows no interruption, with this outcome. Panics for `Skipped`.
    pub async fn end(&self, name: &str, outcome: Outcome) {
        match outcome {
            Outcome::Completed => self.complete(name).await,
            Outcome::Failed => self.fail(name).await,
            Outcome::Cancelled => self.cancel_node(name).await,
            Outcome::Expired => {
                self.claim_for(name, 1).await;
                self.expire_lease(name).await;
            }
            Outcome::Skipped => panic!("a node is skipped by its upstreams"),
        }
    }

    /// Lets the lease of a node expire whose time to live is a millisecond.
    pub async fn expire_lease(&self, name: &str) {
        self.harness.advance_past(1).await;
        assert_eq!(self.tick(name, Timer::LeaseExpiry).await, TimerReply::Fired);
    }

    /// Applies the due action of this kind to a node.
    pub async fn due(&self, name: &str, kind: DueKind) {
        assert_eq!(self.tick(name, Timer::Due(kind)).await, TimerReply::Fired, "{kind:?} of {name}");
    }

    /// Returns the command that grows the flow.
    pub async fn grow_command(&self, graph: GraphDraft) -> Result<Grow, Refusal> {
        let planned = self.harness.planned(graph.check(GraphTarget::ExistingFlow)?).await;
        Ok(Grow { namespace: self.harness.namespace, flow: self.id, planned, actor: None, repeated: false })
    }

    /// Grows the flow by a graph and returns the reply.
    pub async fn try_grow_with(&self, graph: GraphDraft) -> Result<Flow, Refusal> {
        let command = self.grow_command(graph).await?;
        self.harness.run(command).await
    }

    /// Grows the flow by a sketched graph and returns the reply. Names of existing nodes refer to those nodes.
    pub async fn try_grow(&self, text: &str) -> Result<Flow, Refusal> {
        self.try_grow_with(self.sketched(text).await).await
    }

    /// Grows the flow by a sketched graph.
    pub async fn grow(&self, text: &str) {
        self.try_grow(text).await.expect("it grows");
    }

    /// Returns a sketched graph in which names of existing nodes refer to those nodes.
    pub async fn sketched(&self, text: &str) -> GraphDraft {
        let members = self.members().await;
        graph(text, &members.iter().filter_map(|row| row.node().map(str::to_owned)).collect())
    }

    /// Spawns a graph from a claimed execution and returns the reply.
    pub async fn try_spawn(
        &self,
        parent: &Claimed,
        children: GraphDraft,
        detach: bool,
    ) -> Result<Reported, Refusal> {
        let planned = self.harness.planned(children.check(GraphTarget::ExistingFlow)?).await;
        self.harness.report(fence(parent), Op::Spawn(Box::new(Spawn { planned, detach, actor: None }))).await
    }

    /// Spawns a sketched graph from a claimed execution.
    pub async fn spawn(&self, parent: &Claimed, text: &str) {
        let children = graph(text, &BTreeSet::new());
        self.try_spawn(parent, children, false).await.expect("they are spawned");
    }

    /// Requests the cancellation of the flow and returns the reply.
    pub async fn try_cancel(&self, mode: CancelMode) -> Result<Flow, Refusal> {
        let cancel = CancelFlow {
            namespace: self.harness.namespace,
            flow: self.id,
            mode,
            reason: Some("enough".into()),
            actor: Name::trusted("operator"),
        };
        self.harness.run(cancel).await
    }

    /// Returns the outbox row of a node.
    pub async fn left(&self, name: &str, kind: OutboxKind) -> Option<OutboxRow> {
        let name = OutboxName { id: self.id(name).await.0, kind };
        self.harness.outbox().await.into_iter().find(|row| row.name == name)
    }

    /// Dispatches one chunk of the outbox row of a node.
    pub async fn dispatch(&self, name: &str, kind: OutboxKind) -> Dispatched {
        let row = self.left(name, kind).await;
        self.harness.dispatch(&row.unwrap_or_else(|| panic!("{name} has no outbox row of {kind:?}"))).await
    }
}

/// Returns the result of a node that completes.
pub fn result(name: &str) -> Bytes {
    format!("\"{name} is done\"").into()
}

/// Returns a report of a permanent failure.
pub fn failure(name: &str) -> Op {
    Op::Fail { message: format!("{name} broke"), class: FailureClass::Permanent, retry_after_ms: None }
}
