//! Compares the flows of a store with what the reference model knows.

use super::drive::Drive;
use super::reference::{At, Known, Left, Place};
use selvedge_core::flow::{CancelMode, FlowState};
use selvedge_core::join::{GroupDecision, Resolution};
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::report::Fence;
use selvedge_core::{Execution, FlowId, Outcome, State, Timestamp};
use selvedge_store::FlowDue;
use std::collections::BTreeSet;
use std::fmt::Debug;

/// What store and model differ in.
pub type Differ = Result<(), String>;

/// Says so where two things differ.
pub fn same<T: PartialEq + Debug>(what: impl Fn() -> String, expected: T, got: T) -> Differ {
    match expected == got {
        true => Ok(()),
        false => Err(format!("{}: expected {expected:?}, got {got:?}", what())),
    }
}

impl Drive<'_> {
    /// A claim tells how upstreams and children stand.
    pub fn compare_relatives(&self, at: At, claimed: &Claimed) -> Differ {
        let node = self.reference.node(at);
        let upstreams = node.edges.iter().map(|edge| edge.from).collect::<Vec<usize>>();
        let children = node.children.iter().map(|(child, _)| *child).collect::<Vec<usize>>();
        for (expected, got) in [(upstreams, &claimed.upstreams), (children, &claimed.children)] {
            let expected: Vec<_> = expected
                .into_iter()
                .map(|place| {
                    let outcome = self.reference.node((at.0, place)).outcome();
                    (format!("n{place}"), outcome, outcome == Some(Outcome::Completed))
                })
                .collect();
            let got: Vec<_> =
                got.iter().map(|one| (one.name.to_string(), one.outcome, one.result.is_some())).collect();
            same(|| format!("what {at:?} is shown"), expected, got)?;
        }
        Ok(())
    }

    /// Compares every flow, every node and what is left with what the model knows.
    pub async fn compare(&self) -> Differ {
        let left: Result<BTreeSet<Left>, String> =
            self.harness.outbox().await.iter().map(|row| self.left(row.name)).collect();
        same(|| "what is left to be done".into(), self.reference.left.clone(), left?)?;
        let due = self.harness.store.due_flows(FlowDue::Settle, None, 9).await.expect("due flows are read");
        let unsettled = |known: &&Known| known.state == FlowState::Running && known.live() == 0;
        let expected: BTreeSet<FlowId> =
            self.reference.flows.iter().filter(unsettled).map(|one| one.id).collect();
        same(|| "flows to settle".into(), expected, due.into_iter().map(|one| one.flow).collect())?;
        for (number, known) in self.reference.flows.iter().enumerate() {
            let harness = self.harness.flow_of(known.id);
            let flow = harness.flow().await;
            let what = |field: &'static str| move || format!("flow {number} {field}");
            same(what("state"), known.state, flow.state)?;
            let cancel =
                flow.detail.cancel.map(|cancel| (cancel.mode == CancelMode::Pending, cancel.draining));
            same(what("cancel"), known.cancel, cancel)?;
            same(what("live"), known.live() as i32, flow.counts.live())?;
            let members = harness.members().await;
            same(what("members"), known.nodes.len(), members.len())?;
            for row in &members {
                let at = *self.at.get(&row.id).ok_or_else(|| format!("{} is nobody", row.id))?;
                self.compare_row(at, row)?;
            }
        }
        Ok(())
    }

    fn compare_row(&self, at: At, row: &Execution) -> Differ {
        let node = self.reference.node(at);
        let what = |field: &'static str| move || format!("{at:?} {field}");
        let exact = |micros: i64| Timestamp::from_micros(self.start.micros() + micros);
        match (&node.place, &row.state) {
            (Place::WaitingDependencies, State::WaitingDependencies)
            | (Place::Waiting, State::Waiting)
            | (Place::Suspended, State::Suspended(_)) => {}
            (Place::Delayed(at), State::Delayed { until }) if self.reference.manual => {
                same(what("is delayed until"), exact(*at), *until)?;
            }
            (Place::Delayed(_), State::Delayed { .. }) => {}
            (Place::Active { fence, .. }, State::Active(_)) => {
                same(what("fence"), Some(*fence), Fence::of(row))?
            }
            (Place::Ended(expected), State::Terminal(got)) => same(what("outcome"), expected, got)?,
            (expected, got) => return Err(format!("{at:?}: expected {expected:?}, got {got:?}")),
        }
        same(what("generation"), node.generation, row.detail.generation)?;
        let Some(join) = &row.join else { return same(what("edges"), 0, node.edges.len()) };
        let decision = match node.runs {
            None => GroupDecision::Pending,
            Some(true) => GroupDecision::Satisfied,
            Some(false) => GroupDecision::Impossible,
        };
        same(what("decision"), decision, join.decision)?;
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
        same(what("edges"), edges, got)
    }
}
