//! Flows for tests: written as sketches, with nodes addressed by name, and an outbox whose rows can be aged.

use super::server::{Server, claim_of, claim_wait, fence};
use super::{PlainConnection, wait_until};
use selvedge_conformance::{Sketch, invariants};
use selvedge_engine::GrownFlow;
use selvedge_engine::ReconcilerScope;
use selvedge_engine::core::filter::Payloads;
use selvedge_engine::core::flow::FlowState;
use selvedge_engine::core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_engine::core::plan::GraphDraft;
use selvedge_engine::core::rules::claim::Claimed;
use selvedge_engine::core::rules::flows::submit::FlowDraft;
use selvedge_engine::core::rules::report::{Fence, Op};
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{ExecutionId, FailureClass, FlowId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A flow and the executions of its nodes.
#[derive(Clone)]
pub struct Flow {
    /// The server through which the flow is read.
    pub server: Server,
    /// The id of the flow.
    pub id: FlowId,
    /// The executions of its nodes, by name.
    pub nodes: BTreeMap<String, ExecutionId>,
}

/// Returns the draft of a sketched flow (see `Sketch`). All nodes have one kind, so that one claim can take them all.
pub fn flow_draft(text: &str) -> FlowDraft {
    Sketch::from(text).of_kind("kind").0
}

/// Returns a report of a permanent failure.
pub fn permanent_failure() -> Op {
    Op::Fail { message: "it broke".into(), class: FailureClass::Permanent, retry_after_ms: None }
}

/// Returns the name of a claimed node.
pub fn name(claimed: &Claimed) -> String {
    claimed.execution.node().unwrap_or_default().to_owned()
}

impl Server {
    /// Submits a sketched flow.
    pub async fn flow(&self, text: &str) -> Flow {
        self.flow_of(flow_draft(text)).await
    }

    /// Submits a flow.
    pub async fn flow_of(&self, draft: FlowDraft) -> Flow {
        let grown = self.namespace.submit_flow(draft, None).await.expect("the request is accepted");
        assert!(!grown.duplicate);
        Flow::new(self, grown)
    }

    /// Claims all waiting executions. Returns their fences by node name.
    pub async fn claim_nodes(&self, instance: &str) -> BTreeMap<String, Fence> {
        let claimed = self.claim(instance, 1000).await;
        claimed.iter().map(|one| (name(one), fence(one))).collect()
    }

    /// Claims and completes executions until these flows have ended. Returns the claims.
    pub async fn run_to_end(&self, flows: &[FlowId]) -> Vec<Claimed> {
        let (mut done, mut next) = (Vec::new(), 0);
        wait_until("the flows end", async || {
            let claim = claim_wait(claim_of("finisher", 64), Duration::from_millis(20));
            let claimed = self.namespace.claim(claim).await.expect("the claim is answered");
            for one in &claimed {
                self.complete(fence(one)).await.expect("the lease is held");
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

    /// Returns the state of a flow.
    pub async fn flow_state(&self, id: FlowId) -> FlowState {
        self.namespace.flow(id).await.expect("the flow exists").flow.state
    }

    /// Returns all outbox rows.
    pub async fn outbox(&self) -> Vec<OutboxRow> {
        let mut rows = Vec::new();
        for kind in OutboxKind::ALL {
            let found = self.engine.store().outbox(&ReconcilerScope::ALL, kind, 0, None, 10_000).await;
            rows.extend(found.expect("the outbox is read"));
        }
        rows
    }

    /// Ages all outbox rows and runs the reconcilers until the outbox is empty and no flow is due to be settled.
    /// Returns the number of rounds.
    pub async fn reconcile(&self, plain: &PlainConnection) -> usize {
        for round in 0.. {
            let left =
                "select (select count(*) from outbox) + (select count(*) from flows where due_kind = 1)";
            if plain.number(left, &[]).await == 0 {
                return round;
            }
            assert!(round < 1000, "the outbox never gets empty");
            age_outbox(plain).await;
            for reconciler in ["dependency", "edge_cancel_dispatcher", "edge_cancel_reconciler"] {
                let tally = self.tick(reconciler).await;
                assert_eq!((tally.errors, tally.panics), (0, 0), "{reconciler}: {tally:?}");
            }
        }
        unreachable!("the loop returns")
    }
}

/// Makes all outbox rows and all flows that are due to be settled an hour older.
pub async fn age_outbox(plain: &PlainConnection) {
    plain.run("update outbox set at = at - interval '1 hour'").await;
    plain.run("update flows set due_at = due_at - interval '1 hour' where due_kind = 1").await;
}

impl Flow {
    /// Returns the flow that a call created.
    pub fn new(server: &Server, grown: GrownFlow) -> Flow {
        let nodes = grown.executions.into_iter().map(|(name, id)| (name.to_string(), id));
        Flow { server: server.clone(), id: grown.flow.id, nodes: nodes.collect() }
    }

    /// Returns the same flow, read through another server.
    pub fn through(&self, server: &Server) -> Flow {
        Flow { server: server.clone(), ..self.clone() }
    }

    /// Returns the graph of a sketch that grows this flow: nodes that exist are not created again.
    pub fn onto(&self, text: &str) -> GraphDraft {
        let existing: BTreeSet<&str> = self.nodes.keys().map(String::as_str).collect();
        let mut graph = flow_draft(text).graph;
        graph.nodes.retain(|node| !existing.contains(node.name.as_str()));
        graph
    }

    /// Grows the flow by a sketch. Returns the grown flow, or the error.
    pub async fn grow(&self, text: &str) -> Result<Flow, selvedge_engine::Error> {
        let grown = self.server.namespace.grow_flow(self.id, self.onto(text), None).await?;
        let mut nodes = self.nodes.clone();
        nodes.extend(Flow::new(&self.server, grown).nodes);
        Ok(Flow { nodes, ..self.clone() })
    }

    /// Returns the state of a node.
    pub async fn state(&self, node: &str) -> StateName {
        self.server.state(self.nodes[node]).await
    }

    /// Returns the states of its nodes: `a:completed b:waiting`.
    pub async fn states(&self) -> String {
        let ids: Vec<ExecutionId> = self.nodes.values().copied().collect();
        let stored =
            self.server.engine.store().fetch(&ids, Payloads::NONE).await.expect("the nodes are read");
        let states: BTreeMap<ExecutionId, &str> =
            stored.iter().map(|one| (one.execution.id, one.execution.state.name().as_str())).collect();
        let words: Vec<String> =
            self.nodes.iter().map(|(name, id)| format!("{name}:{}", states[id])).collect();
        words.join(" ")
    }

    /// Waits until a node is in a state.
    pub async fn reaches(&self, node: &str, state: StateName) {
        wait_until(&format!("{node} is {state:?}"), async || self.state(node).await == state).await;
    }

    /// Counts the decisions of a node's edge group.
    pub async fn decisions(&self, node: &str) -> usize {
        let events = self.server.events(self.nodes[node]).await;
        events.iter().filter(|kind| **kind == "group.decided").count()
    }

    /// Returns the outbox row of this kind for a node, or for the flow itself.
    pub async fn outbox_row(&self, node: &str, kind: OutboxKind) -> Option<OutboxRow> {
        let id = if kind == OutboxKind::Flow { self.id.0 } else { self.nodes[node].0 };
        self.server.outbox().await.into_iter().find(|row| row.name == OutboxName { id, kind })
    }
}

/// Checks the invariants of all rows and of the whole log, and stops the servers.
pub async fn check_and_stop(servers: &[&Server]) {
    check_invariants(servers[0]).await;
    super::stop(servers.iter().map(|server| &server.engine)).await;
}

/// Checks the invariants of all rows and of the whole log.
pub async fn check_invariants(server: &Server) {
    let broken = invariants::check(&**server.engine.store()).await;
    assert!(broken.is_empty(), "invariants are broken: {broken:#?}");
}
