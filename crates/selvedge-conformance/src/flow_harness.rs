//! The harness of a flow: short words for what cases do to its nodes, by their names.

use super::harness::{Harness, fence, mint};
use super::rule::Propagating;
use super::sketch::{Sketch, graph};
use super::worker::Worker;
use bytes::Bytes;
use selvedge_core::flow::{CancelMode, FlowState};
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::plan::{GraphDraft, GraphPlan, Onto};
use selvedge_core::rows::Members;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::clock::{Ticked, What};
use selvedge_core::rules::dispatch::{Dispatch, Dispatched};
use selvedge_core::rules::flow::{CancelFlow, Settle};
use selvedge_core::rules::graft::Planned;
use selvedge_core::rules::grow::{Grow, Spawn};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::{Op, Reported};
use selvedge_core::rules::submit_flow::{FlowSubmitted, SubmitFlow};
use selvedge_core::table::Request;
use selvedge_core::{
    Class, DueKind, Execution, ExecutionId, FailureClass, Flow, FlowId, Name, Needs, Outcome, Refusal,
};
use selvedge_store::FlowDue;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// More members than any flow of a case has.
const ALL: u32 = 100_000;

/// A flow on its harness.
#[derive(Clone)]
pub struct FlowHarness {
    /// The harness.
    pub harness: Harness,
    /// The flow.
    pub id: FlowId,
}

impl Harness {
    /// A plan with ids and classes for its nodes.
    pub async fn planned(&self, plan: GraphPlan) -> Planned {
        let wanted = plan.classes(self.namespace);
        let distinct: BTreeSet<Class> = wanted.iter().cloned().collect();
        let known = self.intern(distinct.into_iter().collect()).await;
        let classes = wanted.iter().map(|class| known.find(class).expect("its class is interned"));
        let ids = plan.ids().map(|id| id.unwrap_or_else(mint)).collect();
        Planned { classes: classes.collect(), ids, plan }
    }

    /// The command that submits a flow, or why it is refused before it gets that far.
    pub async fn submit_flow_command(&self, sketch: impl Into<Sketch>) -> Result<SubmitFlow, Refusal> {
        let (submission, plan) = sketch.into().0.check()?;
        Ok(SubmitFlow {
            namespace: self.namespace,
            id: submission.id().unwrap_or_else(|| FlowId(Uuid::now_v7())),
            submission,
            planned: self.planned(plan).await,
            operation: None,
            repeated: false,
        })
    }

    /// Submits a flow and gives the answer.
    pub async fn try_submit_flow(&self, sketch: impl Into<Sketch>) -> Result<FlowSubmitted, Refusal> {
        let command = self.submit_flow_command(sketch).await?;
        self.run(command).await
    }

    /// Submits a flow.
    pub async fn flow(&self, sketch: impl Into<Sketch>) -> FlowHarness {
        let id = self.try_submit_flow(sketch).await.expect("the flow is accepted").flow.id;
        self.flow_of(id)
    }

    /// The harness of a flow that is there.
    pub fn flow_of(&self, id: FlowId) -> FlowHarness {
        FlowHarness { harness: self.clone(), id }
    }

    /// Everything in the outbox.
    pub async fn outbox(&self) -> Vec<OutboxRow> {
        let mut rows = Vec::new();
        for kind in OutboxKind::ALL {
            rows.extend(self.store.outbox(kind, 0, None, ALL).await.expect("the outbox is read"));
        }
        rows
    }

    /// Does a chunk of a row of the outbox.
    pub async fn dispatch(&self, row: &OutboxRow) -> Dispatched {
        let dispatch = Dispatch { row: row.clone(), only_close: false };
        self.run(dispatch).await.expect("every row can be read")
    }

    /// Does everything that is left to be done, and settles the flows that ended; says how many transactions that took.
    pub async fn drain(&self) -> usize {
        let mut done = 0;
        loop {
            let rows = self.outbox().await;
            for row in &rows {
                self.dispatch(row).await;
            }
            let due = self.store.due_flows(FlowDue::Settle, None, ALL).await.expect("due flows are read");
            for one in &due {
                self.run(Settle { flow: one.flow }).await;
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
    /// Its row.
    pub async fn flow(&self) -> Flow {
        self.find().await.expect("the flow is there")
    }

    /// Its row, if it is there.
    pub async fn find(&self) -> Option<Flow> {
        self.harness.store.fetch_flows(&[self.id]).await.expect("flows are read").pop()
    }

    /// Its members, in the order of their submission.
    pub async fn members(&self) -> Vec<Execution> {
        let all = Members { flow: self.id, skip: 0, limit: ALL };
        self.harness.store.members(all).await.expect("members are read")
    }

    /// The execution of a node.
    pub async fn id(&self, name: &str) -> ExecutionId {
        let nodes = vec![(self.id, Name::trusted(name))];
        let rows = self.harness.load(Needs { nodes: Request::reading(nodes), ..Needs::default() }).await;
        let found = rows.nodes.first().map(|(_, _, id)| *id);
        found.unwrap_or_else(|| panic!("there is no node {name}"))
    }

    /// The row of a node.
    pub async fn row(&self, name: &str) -> Execution {
        self.harness.row(self.id(name).await).await
    }

    /// How its nodes stand: `a=completed b=waiting`, in the order of their names and with the public words.
    pub async fn states(&self) -> String {
        let members = self.members().await;
        let states: BTreeMap<&str, &str> = members
            .iter()
            .map(|row| (row.node().expect("it has a name"), row.state.name().public()))
            .collect();
        let words: Vec<String> = states.iter().map(|(name, state)| format!("{name}={state}")).collect();
        words.join(" ")
    }

    /// Asserts how its nodes stand.
    #[track_caller]
    pub fn stands(&self, expected: &str) -> impl Future<Output = ()> {
        let (flow, expected) = (self.clone(), expected.to_owned());
        let caller = std::panic::Location::caller();
        async move { assert_eq!(flow.states().await, expected, "at {caller}") }
    }

    /// Does everything that is left to be done, and asserts how its nodes stand after that.
    #[track_caller]
    pub fn comes_to(&self, expected: &str) -> impl Future<Output = ()> {
        let (flow, expected) = (self.clone(), expected.to_owned());
        let caller = std::panic::Location::caller();
        async move {
            flow.harness.drain().await;
            assert_eq!(flow.states().await, expected, "at {caller}");
        }
    }

    /// Its state, after everything that is left to be done was.
    pub async fn ends(&self) -> FlowState {
        self.harness.drain().await;
        self.flow().await.state
    }

    /// Claims a node, which must be ready and of the kind of its name.
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

    /// Fails a node for good.
    pub async fn fail(&self, name: &str) {
        let claimed = self.claim(name).await;
        self.report(&claimed, failure(name)).await;
    }

    /// Reports on a claimed node.
    pub async fn report(&self, claimed: &Claimed, op: Op) -> Reported {
        self.harness.report(fence(claimed), op).await.expect("it is accepted")
    }

    /// Reports on a claimed node, and tells its downstreams in the same transaction.
    pub async fn report_and_tell(&self, claimed: &Claimed, op: Op) -> Reported {
        let report = self.harness.report_command(fence(claimed), op);
        let hopping = Propagating { rule: report, of: claimed.execution.id };
        self.harness.run(hopping).await.expect("it is accepted")
    }

    /// Acts as an operator on a node.
    pub async fn operate(&self, name: &str, action: Action) -> Result<Execution, Refusal> {
        self.harness.operate(self.id(name).await, action).await
    }

    /// Cancels a node at once.
    pub async fn cancel_node(&self, name: &str) {
        let cancel = Action::Cancel { reason: None, grace_ms: 0 };
        self.operate(name, cancel).await.expect("it is cancelled");
    }

    /// Runs a node again.
    pub async fn replay(&self, name: &str) {
        self.operate(name, Action::Replay).await.expect("it is replayed");
    }

    /// Lets time act on a node.
    pub async fn tick(&self, name: &str, what: What) -> Ticked {
        self.harness.tick(self.id(name).await, what).await
    }

    /// Ends a ready node, whose policy allows no interruption, in this way. None of the ways skips it.
    pub async fn end(&self, name: &str, outcome: Outcome) {
        match outcome {
            Outcome::Completed => self.complete(name).await,
            Outcome::Failed => self.fail(name).await,
            Outcome::Cancelled => self.cancel_node(name).await,
            Outcome::Expired => {
                self.claim_for(name, 1).await;
                self.lapse(name).await;
            }
            Outcome::Skipped => panic!("a node is skipped by its upstreams"),
        }
    }

    /// Lets the lease of a node lapse that lives for a millisecond.
    pub async fn lapse(&self, name: &str) {
        self.harness.pass(1).await;
        assert_eq!(self.tick(name, What::Lapse).await, Ticked::Done);
    }

    /// Lets what is due of this kind happen to a node.
    pub async fn due(&self, name: &str, kind: DueKind) {
        assert_eq!(self.tick(name, What::Due(kind)).await, Ticked::Done, "{kind:?} of {name}");
    }

    /// The command that grows it.
    pub async fn grow_command(&self, graph: GraphDraft) -> Result<Grow, Refusal> {
        let planned = self.harness.planned(graph.check(Onto::Flow)?).await;
        Ok(Grow {
            namespace: self.harness.namespace,
            flow: self.id,
            planned,
            operation: None,
            repeated: false,
        })
    }

    /// Grows it by a graph and gives the answer.
    pub async fn try_grow_by(&self, graph: GraphDraft) -> Result<Flow, Refusal> {
        let command = self.grow_command(graph).await?;
        self.harness.run(command).await
    }

    /// Grows it by what is drawn and gives the answer. Nodes that are there are not made anew.
    pub async fn try_grow(&self, text: &str) -> Result<Flow, Refusal> {
        self.try_grow_by(self.drawn(text).await).await
    }

    /// Grows it by what is drawn.
    pub async fn grow(&self, text: &str) {
        self.try_grow(text).await.expect("it grows");
    }

    /// What is drawn, onto the nodes that are there.
    pub async fn drawn(&self, text: &str) -> GraphDraft {
        let members = self.members().await;
        graph(text, &members.iter().filter_map(|row| row.node().map(str::to_owned)).collect())
    }

    /// Lets a claimed execution spawn a graph, and gives the answer.
    pub async fn try_spawn(
        &self,
        parent: &Claimed,
        children: GraphDraft,
        detach: bool,
    ) -> Result<Reported, Refusal> {
        let planned = self.harness.planned(children.check(Onto::Flow)?).await;
        self.harness.report(fence(parent), Op::Spawn(Box::new(Spawn { planned, detach }))).await
    }

    /// Lets a claimed execution spawn what is drawn.
    pub async fn spawn(&self, parent: &Claimed, text: &str) {
        let children = graph(text, &BTreeSet::new());
        self.try_spawn(parent, children, false).await.expect("they are spawned");
    }

    /// Asks for the cancel of the flow.
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

    /// The row of the outbox about a node.
    pub async fn left(&self, name: &str, kind: OutboxKind) -> Option<OutboxRow> {
        let name = OutboxName { id: self.id(name).await.0, kind };
        self.harness.outbox().await.into_iter().find(|row| row.name == name)
    }

    /// Dispatches what is left to be done about a node.
    pub async fn dispatch(&self, name: &str, kind: OutboxKind) -> Dispatched {
        let row = self.left(name, kind).await;
        self.harness.dispatch(&row.unwrap_or_else(|| panic!("nothing is left of {name}"))).await
    }
}

/// The result of a node that completes.
pub fn result(name: &str) -> Bytes {
    format!("\"{name} is done\"").into()
}

/// A failure that is not tried again.
pub fn failure(name: &str) -> Op {
    Op::Fail { message: format!("{name} broke"), class: FailureClass::Permanent, retry_after_ms: None }
}
