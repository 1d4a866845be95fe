//! Compares the flows of a store with the reference model.

use super::super::compare::{Comparison, expect_equal};
use super::lockstep::Lockstep;
use super::reference::{ModelFlow, NodeRef, NodeState, OutboxEntry};
use selvedge_core::flow::{CancelMode, FlowState};
use selvedge_core::join::{GroupDecision, Resolution};
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::report::Fence;
use selvedge_core::{Execution, FlowId, Outcome, State, Timestamp};
use selvedge_store::{FlowDue, ReconcilerScope};
use std::collections::BTreeSet;

impl Lockstep<'_> {
    /// Compares the upstreams and children that a claim carries.
    pub fn compare_relatives(&self, at: NodeRef, claimed: &Claimed) -> Comparison {
        let node = self.reference.node(at);
        let upstreams = node.edges.iter().map(|edge| edge.from).collect::<Vec<usize>>();
        let children = node.children.iter().map(|(child, _)| *child).collect::<Vec<usize>>();
        for (expected, got) in [(upstreams, &claimed.upstreams), (children, &claimed.children)] {
            let expected: Vec<_> = expected
                .into_iter()
                .map(|index| {
                    let outcome = self.reference.node((at.0, index)).outcome();
                    (format!("n{index}"), outcome, outcome == Some(Outcome::Completed))
                })
                .collect();
            let got: Vec<_> =
                got.iter().map(|one| (one.name.to_string(), one.outcome, one.result.is_some())).collect();
            expect_equal(|| format!("the relatives of {at:?}"), expected, got)?;
        }
        Ok(())
    }

    /// Compares every flow, every node and the outbox with the model.
    pub async fn compare(&mut self) -> Comparison {
        let outbox: Result<BTreeSet<OutboxEntry>, String> =
            self.harness.outbox().await.iter().map(|row| self.outbox_entry(row.name)).collect();
        expect_equal(|| "the outbox".into(), self.reference.outbox.clone(), outbox?)?;
        let due = self
            .harness
            .store
            .due_flows(&ReconcilerScope::ALL, FlowDue::Settle, None, 9)
            .await
            .expect("due flows are read");
        let unsettled = |known: &&ModelFlow| known.state == FlowState::Running && known.live() == 0;
        let expected: BTreeSet<FlowId> =
            self.reference.flows.iter().filter(unsettled).map(|one| one.id).collect();
        expect_equal(|| "flows to settle".into(), expected, due.into_iter().map(|one| one.flow).collect())?;
        let mut flows = Vec::new();
        for (number, known) in self.reference.flows.iter().enumerate() {
            let harness = self.harness.flow_of(known.id);
            let flow = harness.flow().await;
            let what = |field: &'static str| move || format!("flow {number} {field}");
            expect_equal(what("state"), known.state, flow.state)?;
            let cancel =
                flow.detail.cancel.map(|cancel| (cancel.mode == CancelMode::Pending, cancel.draining));
            expect_equal(what("cancel"), known.cancel, cancel)?;
            expect_equal(what("live"), known.live() as i32, flow.counts.live())?;
            let members = harness.members().await;
            expect_equal(what("members"), known.nodes.len(), members.len())?;
            for row in &members {
                let at =
                    *self.at.get(&row.id).ok_or_else(|| format!("the model does not know {}", row.id))?;
                self.compare_row(at, row)?;
            }
            flows.push(members);
        }
        for (number, members) in flows.iter().enumerate() {
            self.compare_past(number, members).await?;
        }
        Ok(())
    }

    fn compare_row(&self, at: NodeRef, row: &Execution) -> Comparison {
        let node = self.reference.node(at);
        let what = |field: &'static str| move || format!("{at:?} {field}");
        let exact = |micros: i64| Timestamp::from_micros(self.start.micros() + micros);
        match (&node.state, &row.state) {
            (NodeState::WaitingDependencies, State::WaitingDependencies)
            | (NodeState::Waiting, State::Waiting)
            | (NodeState::Suspended, State::Suspended(_)) => {}
            (NodeState::Delayed(at), State::Delayed { until }) if self.reference.manual => {
                expect_equal(what("is delayed until"), exact(*at), *until)?;
            }
            (NodeState::Delayed(_), State::Delayed { .. }) => {}
            (NodeState::Active { fence, .. }, State::Active(_)) => {
                expect_equal(what("fence"), Some(*fence), Fence::of(row))?
            }
            (NodeState::Ended(expected), State::Terminal(got)) => {
                expect_equal(what("outcome"), expected, got)?
            }
            (expected, got) => return Err(format!("{at:?}: expected {expected:?}, got {got:?}")),
        }
        expect_equal(what("generation"), node.generation, row.detail.generation)?;
        let Some(join) = &row.join else { return expect_equal(what("edges"), 0, node.edges.len()) };
        let decision = match node.runs {
            None => GroupDecision::Pending,
            Some(true) => GroupDecision::Satisfied,
            Some(false) => GroupDecision::Impossible,
        };
        expect_equal(what("decision"), decision, join.decision)?;
        let edges: Vec<(Resolution, u32)> = node
            .edges
            .iter()
            .map(|edge| match edge.holds() {
                None => (Resolution::Pending, edge.generation),
                Some(true) => (Resolution::Holds, edge.generation),
                Some(false) => (Resolution::Dead, edge.generation),
            })
            .collect();
        let got = join.edges.iter().map(|edge| (edge.resolution, edge.generation)).collect();
        expect_equal(what("edges"), edges, got)
    }
}
