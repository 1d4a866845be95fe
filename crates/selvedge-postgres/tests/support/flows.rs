//! Flows on Postgres: drawn as text, their nodes called by name, and time that passes for what is left to be done.

use super::test_server::{TestServer, claim_of, claim_wait, fence};
use super::{Plain, until};
use selvedge_conformance::{Sketch, invariants};
use selvedge_engine::Grown;
use selvedge_engine::core::flow::FlowState;
use selvedge_engine::core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_engine::core::plan::GraphDraft;
use selvedge_engine::core::rules::claim::Claimed;
use selvedge_engine::core::rules::report::{Fence, Op};
use selvedge_engine::core::rules::submit_flow::FlowDraft;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{ExecutionId, FailureClass, FlowId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A flow and the executions of its nodes.
#[derive(Clone)]
pub struct Flow {
    /// Through which engine it is looked at.
    pub side: TestServer,
    /// The flow.
    pub id: FlowId,
    /// Its nodes by name.
    pub nodes: BTreeMap<String, ExecutionId>,
}

/// What is drawn (see `Sketch`); every node is of one kind, so that one claim takes them all.
pub fn drawn(text: &str) -> FlowDraft {
    Sketch::from(text).of_kind("kind").0
}

/// A failure for good.
pub fn broken() -> Op {
    Op::Fail { message: "it broke".into(), class: FailureClass::Permanent, retry_after_ms: None }
}

/// The name of a claimed node.
pub fn name(claimed: &Claimed) -> String {
    claimed.execution.node().unwrap_or_default().to_owned()
}

impl TestServer {
    /// Submits a flow that is drawn.
    pub async fn flow(&self, text: &str) -> Flow {
        self.flow_of(drawn(text)).await
    }

    /// Submits a flow.
    pub async fn flow_of(&self, draft: FlowDraft) -> Flow {
        let grown = self.namespace.submit_flow(draft, None).await.expect("it is accepted");
        assert!(!grown.duplicate);
        Flow::new(self, grown)
    }

    /// Claims everything that is ready, by the names of the nodes.
    pub async fn claim_nodes(&self, instance: &str) -> BTreeMap<String, Fence> {
        let claimed = self.claim(instance, 1000).await;
        claimed.iter().map(|one| (name(one), fence(one))).collect()
    }

    /// Completes whatever can be claimed, until nothing of these flows is live. Gives what was claimed.
    pub async fn work_off(&self, flows: &[FlowId]) -> Vec<Claimed> {
        let (mut done, mut next) = (Vec::new(), 0);
        until("the flows end", async || {
            let claim = claim_wait(claim_of("finisher", 64), Duration::from_millis(20));
            let claimed = self.namespace.claim(claim).await.expect("the claim is answered");
            for one in &claimed {
                self.complete(fence(one)).await.expect("it holds the lease");
            }
            done.extend(claimed);
            while next < flows.len() && self.flow_state(flows[next]).await != FlowState::Running {
                next += 1;
            }
            next == flows.len()
        })
        .await;
        done
    }

    /// The state of a flow.
    pub async fn flow_state(&self, id: FlowId) -> FlowState {
        self.namespace.flow(id).await.expect("the flow is there").flow.state
    }

    /// Everything in the outbox.
    pub async fn outbox(&self) -> Vec<OutboxRow> {
        let mut rows = Vec::new();
        for kind in OutboxKind::ALL {
            let found = self.engine.store().outbox(kind, 0, None, 10_000).await;
            rows.extend(found.expect("the outbox is read"));
        }
        rows
    }

    /// Lets the reconcilers do everything that is left to be done; time passes for each row at once. Says how many rounds
    /// that took.
    pub async fn reconcile(&self, plain: &Plain) -> usize {
        for round in 0.. {
            let left =
                "select (select count(*) from outbox) + (select count(*) from flows where due_kind = 1)";
            if plain.number(left, &[]).await == 0 {
                return round;
            }
            assert!(round < 1000, "what is left to be done never ends");
            age(plain).await;
            for reconciler in ["dependency", "edge_cancel_dispatcher", "edge_cancel_reconciler"] {
                let tally = self.tick(reconciler).await;
                assert_eq!((tally.errors, tally.panics), (0, 0), "{reconciler}: {tally:?}");
            }
        }
        unreachable!("it returns")
    }
}

/// Lets an hour pass for everything that is left to be done.
pub async fn age(plain: &Plain) {
    plain.run("update outbox set at = at - interval '1 hour'").await;
    plain.run("update flows set due_at = due_at - interval '1 hour' where due_kind = 1").await;
}

impl Flow {
    /// The flow that a call made.
    pub fn new(side: &TestServer, grown: Grown) -> Flow {
        let nodes = grown.executions.into_iter().map(|(name, id)| (name.to_string(), id));
        Flow { side: side.clone(), id: grown.flow.id, nodes: nodes.collect() }
    }

    /// The same flow, looked at through another engine.
    pub fn through(&self, side: &TestServer) -> Flow {
        Flow { side: side.clone(), ..self.clone() }
    }

    /// What is drawn onto its nodes: those that are there are not made anew.
    pub fn onto(&self, text: &str) -> GraphDraft {
        let there: BTreeSet<&str> = self.nodes.keys().map(String::as_str).collect();
        let mut graph = drawn(text).graph;
        graph.nodes.retain(|node| !there.contains(node.name.as_str()));
        graph
    }

    /// Grows it by what is drawn, and gives the answer.
    pub async fn grow(&self, text: &str) -> Result<Flow, selvedge_engine::Error> {
        let grown = self.side.namespace.grow_flow(self.id, self.onto(text), None).await?;
        let mut nodes = self.nodes.clone();
        nodes.extend(Flow::new(&self.side, grown).nodes);
        Ok(Flow { nodes, ..self.clone() })
    }

    /// The state of a node.
    pub async fn state(&self, node: &str) -> StateName {
        self.side.state(self.nodes[node]).await
    }

    /// How its nodes stand: `a:completed b:waiting`.
    pub async fn states(&self) -> String {
        let ids: Vec<ExecutionId> = self.nodes.values().copied().collect();
        let stored = self.side.engine.store().fetch(&ids).await.expect("the nodes are read");
        let states: BTreeMap<ExecutionId, &str> =
            stored.iter().map(|one| (one.execution.id, one.execution.state.name().as_str())).collect();
        let words: Vec<String> =
            self.nodes.iter().map(|(name, id)| format!("{name}:{}", states[id])).collect();
        words.join(" ")
    }

    /// Waits until a node is in a state.
    pub async fn becomes(&self, node: &str, state: StateName) {
        until(&format!("{node} is {state:?}"), async || self.state(node).await == state).await;
    }

    /// How often the group of a node decided.
    pub async fn decisions(&self, node: &str) -> usize {
        let events = self.side.events(self.nodes[node]).await;
        events.iter().filter(|kind| **kind == "group.decided").count()
    }

    /// The row of the outbox about a node, or about the flow itself.
    pub async fn left(&self, node: &str, kind: OutboxKind) -> Option<OutboxRow> {
        let id = if kind == OutboxKind::Flow { self.id.0 } else { self.nodes[node].0 };
        self.side.outbox().await.into_iter().find(|row| row.name == OutboxName { id, kind })
    }
}

/// Checks everything that must hold of all rows and the whole log, and stops the engines.
pub async fn end(sides: &[&TestServer]) {
    holds(sides[0]).await;
    super::stop(sides.iter().map(|side| &side.engine)).await;
}

/// Checks everything that must hold of all rows and the whole log.
pub async fn holds(side: &TestServer) {
    let broken = invariants::check(&**side.engine.store()).await;
    assert!(broken.is_empty(), "invariants are broken: {broken:#?}");
}
