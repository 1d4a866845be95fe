//! The checker of the invariants finds what is wrong with flows: each test breaks one thing in a sound store and looks for
//! the words.

use selvedge_conformance::{FlowHarness, Harness, invariants};
use selvedge_core::flow::{Counts, FlowState};
use selvedge_core::join::{Edge, GroupDecision, Resolution};
use selvedge_core::rows::UnreadWrites;
use selvedge_core::rows::{ResultChange, Updated};
use selvedge_core::state::StateName;
use selvedge_core::table::{Entries, Guarded};
use selvedge_core::wiring::Wiring;
use selvedge_core::{Changes, Execution, Flow, Name, Outcome, State};
use selvedge_memory::MemoryStore;
use std::sync::Arc;

/// A flow in which `a` succeeded, `b` failed, `c` runs, `s` was skipped, `w` waits and `r` is ready.
async fn sound() -> FlowHarness {
    let harness = Harness::new(Arc::new(MemoryStore::new())).await;
    let flow = harness.flow("a -> r; b -> s; a c -> w; p").await;
    flow.complete("a").await;
    flow.fail("b").await;
    flow.claim("c").await;
    let parent = flow.claim("p").await;
    flow.spawn(&parent, "child").await;
    harness.drain().await;
    assert_eq!(invariants::check(&*harness.store).await, Vec::<String>::new());
    flow
}

/// Saves changes to a sound store; the checker says so in these words.
async fn is_found(flow: &FlowHarness, words: &str, changes: Changes) {
    flow.harness.save(changes).await;
    let broken = invariants::check(&*flow.harness.store).await;
    assert!(broken.iter().any(|what| what.contains(words)), "{words:?} is not in {broken:#?}");
}

/// Edits the row of a node without a fact.
async fn node(words: &str, name: &str, edit: impl FnOnce(&mut Execution)) {
    let flow = sound().await;
    let before = flow.row(name).await;
    let mut execution = before.clone();
    edit(&mut execution);
    let (expected_version, result) = (before.version, ResultChange::Keep);
    let updated = vec![Updated { execution, expected_version, result, rewired: true }];
    is_found(&flow, words, Changes { executions: Guarded::updating(updated), ..Changes::default() }).await;
}

/// Edits the row of the flow.
async fn whole(words: &str, edit: impl FnOnce(&mut Flow)) {
    let flow = sound().await;
    let before = flow.flow().await;
    let mut after = before.clone();
    edit(&mut after);
    is_found(
        &flow,
        words,
        Changes { flows: Guarded::updating([(after, before.version)]), ..Changes::default() },
    )
    .await;
}

fn rewire(row: &mut Execution, edit: impl FnOnce(&mut Wiring)) {
    let mut wiring = row.wiring().clone();
    edit(&mut wiring);
    row.wiring = Some(Arc::new(wiring));
}

fn edge(row: &mut Execution, place: usize, edit: impl FnOnce(&mut Edge)) {
    edit(&mut row.join.as_mut().expect("it has edges").edges[place]);
}

fn decide(row: &mut Execution, decision: GroupDecision) {
    row.join.as_mut().expect("it has edges").decision = decision;
}

#[tokio::test]
async fn an_edge_that_only_one_end_knows_is_found() {
    node("its upstream knows it 0 times", "a", |row| rewire(row, |wiring| wiring.downstreams.clear())).await;
    node("does not know that it waits for it", "r", |row| rewire(row, |wiring| wiring.upstreams.clear()))
        .await;
    node("1 pending of 3", "w", |row| {
        rewire(row, |wiring| wiring.upstreams.push(wiring.upstreams[0]));
    })
    .await;
}

#[tokio::test]
async fn a_child_that_only_one_end_knows_is_found() {
    node("its parent does not know it", "p", |row| rewire(row, |wiring| wiring.children.clear())).await;
    node("does not know that it was spawned by it", "child", |row| {
        let mut spec = (*row.spec).clone();
        spec.node.as_mut().expect("it is a node").parent = None;
        row.spec = Arc::new(spec);
    })
    .await;
}

#[tokio::test]
async fn an_edge_that_counts_what_never_happened_is_found() {
    node("that generation ended as Some(Success)", "w", |row| {
        edge(row, 0, |edge| edge.resolution = Resolution::Dead);
    })
    .await;
    node("that generation ended as None", "w", |row| edge(row, 0, |edge| edge.generation = 7)).await;
    node("nothing is left to tell it", "w", |row| edge(row, 0, |edge| edge.resolution = Resolution::Pending))
        .await;
    node("by its log the edge from", "w", |row| edge(row, 0, |edge| edge.resolution = Resolution::Pending))
        .await;
}

#[tokio::test]
async fn a_decision_that_its_policy_does_not_give_is_found() {
    node("its group decided Satisfied, its edges say Pending", "w", |row| {
        decide(row, GroupDecision::Satisfied)
    })
    .await;
    node("its group decided Impossible, its edges say Satisfied", "r", |row| {
        decide(row, GroupDecision::Impossible)
    })
    .await;
    node("its group decided Pending, its edges say Satisfied", "r", |row| {
        decide(row, GroupDecision::Pending)
    })
    .await;
    node("by its log the decision is Impossible", "s", |row| decide(row, GroupDecision::Pending)).await;
}

#[tokio::test]
async fn what_ran_and_was_skipped_is_found() {
    node("its group decided Impossible", "s", |row| row.started_at = Some(row.submitted_at)).await;
    node("its group decided Satisfied", "r", |row| {
        row.state = State::Terminal(Outcome::Skipped);
        row.ended_at = Some(row.submitted_at);
    })
    .await;
}

#[tokio::test]
async fn a_completion_that_was_lost_from_the_outbox_is_found() {
    let flow = sound().await;
    flow.cancel_node("c").await;
    assert_eq!(invariants::check(&*flow.harness.store).await, Vec::<String>::new());
    let outbox_removed = flow.harness.outbox().await.into_iter().map(|row| row.name);
    is_found(
        &flow,
        "nothing is left to tell it",
        Changes { outbox: Entries::removing(outbox_removed), ..Changes::default() },
    )
    .await;
}

#[tokio::test]
async fn children_whose_cancel_was_lost_from_the_outbox_are_found() {
    let flow = sound().await;
    flow.cancel_node("p").await;
    let outbox_removed = flow.harness.outbox().await.into_iter().map(|row| row.name);
    is_found(&flow, "lives on", Changes { outbox: Entries::removing(outbox_removed), ..Changes::default() })
        .await;
}

#[tokio::test]
async fn counts_that_are_not_those_of_the_members_are_found() {
    let flow = sound().await;
    let mut more = Counts::default();
    more.add(StateName::Expired, 1);
    let counted = vec![(flow.id, more)];
    is_found(
        &flow,
        "0 Expired, not 1",
        Changes {
            unread: UnreadWrites { flow_counts: counted, ..UnreadWrites::default() },
            ..Changes::default()
        },
    )
    .await;
}

#[tokio::test]
async fn a_state_that_is_not_the_flows_is_found() {
    whole("it is Completed since", |flow| flow.state = FlowState::Completed).await;
    whole("it is Running since Some", |flow| flow.ended_at = Some(flow.submitted_at)).await;
    let flow = sound().await;
    for name in ["c", "p", "r"] {
        flow.cancel_node(name).await;
    }
    assert_eq!(flow.ends().await, FlowState::Failed);
    let before = flow.flow().await;
    let after = Flow { state: FlowState::Completed, ..before.clone() };
    let flows_updated = vec![(after, before.version)];
    is_found(&flow, "not Failed", Changes { flows: Guarded::updating(flows_updated), ..Changes::default() })
        .await;
}

#[tokio::test]
async fn a_member_that_is_not_found_by_its_name_is_found() {
    let flow = sound().await;
    let before = flow.row("r").await;
    let (expected_version, result) = (before.version, ResultChange::Keep);
    let execution = Execution { priority: before.priority + 1, ..before };
    let changes = Changes {
        nodes: Entries::removing([(flow.id, Name::trusted("r"))]),
        executions: Guarded::updating([Updated { execution, expected_version, result, rewired: false }]),
        ..Changes::default()
    };
    is_found(&flow, "not found by their names", changes).await;
}
