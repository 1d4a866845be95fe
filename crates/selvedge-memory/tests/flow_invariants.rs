//! The invariant checker finds violations in flows: each test corrupts one thing in a sound store and expects a
//! message.

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

/// Returns a sound flow in which `a` completed, `b` failed, `c` and `p` are active, `s` was skipped, `w` waits for its
/// dependencies, `r` is waiting, and `p` has spawned `child`.
async fn sound_flow() -> FlowHarness {
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

/// Saves changes and asserts that the checker reports `message`.
async fn assert_found(flow: &FlowHarness, message: &str, changes: Changes) {
    flow.harness.save(changes).await;
    let violations = invariants::check(&*flow.harness.store).await;
    assert!(violations.iter().any(|what| what.contains(message)), "{message:?} is not in {violations:#?}");
}

/// Edits the row of a node in a sound flow and asserts that the checker reports `message`.
async fn assert_edited_node_found(message: &str, name: &str, edit: impl FnOnce(&mut Execution)) {
    let flow = sound_flow().await;
    let before = flow.row(name).await;
    let mut execution = before.clone();
    edit(&mut execution);
    let (expected_version, result) = (before.version, ResultChange::Keep);
    let updated = vec![Updated { execution, expected_version, result, rewired: true, input: None }];
    assert_found(&flow, message, Changes { executions: Guarded::updating(updated), ..Changes::default() })
        .await;
}

/// Edits the row of a sound flow and asserts that the checker reports `message`.
async fn assert_edited_flow_found(message: &str, edit: impl FnOnce(&mut Flow)) {
    let flow = sound_flow().await;
    let before = flow.flow().await;
    let mut after = before.clone();
    edit(&mut after);
    assert_found(
        &flow,
        message,
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
    edit(&mut row.join.as_mut().expect("it has a join").edges[place]);
}

fn decide(row: &mut Execution, decision: GroupDecision) {
    row.join.as_mut().expect("it has a join").decision = decision;
}

#[tokio::test]
async fn an_edge_that_is_listed_at_one_end_only_is_found() {
    assert_edited_node_found("its upstream lists it 0 times", "a", |row| {
        rewire(row, |wiring| wiring.downstreams.clear())
    })
    .await;
    assert_edited_node_found("does not list it as an upstream", "r", |row| {
        rewire(row, |wiring| wiring.upstreams.clear())
    })
    .await;
    assert_edited_node_found("3 upstreams, but 1 edges hold, 0 are dead, 1 are pending", "w", |row| {
        rewire(row, |wiring| wiring.upstreams.push(wiring.upstreams[0]));
    })
    .await;
}

#[tokio::test]
async fn a_child_that_is_listed_at_one_end_only_is_found() {
    assert_edited_node_found("its parent does not list it as a child", "p", |row| {
        rewire(row, |wiring| wiring.children.clear())
    })
    .await;
    assert_edited_node_found("does not name it as the parent", "child", |row| {
        let mut spec = (*row.spec).clone();
        spec.node.as_mut().expect("it is a assert_edited_node_found").parent = None;
        row.spec = Arc::new(spec);
    })
    .await;
}

#[tokio::test]
async fn an_edge_with_a_resolution_that_never_happened_is_found() {
    assert_edited_node_found("that generation ended as Some(Completed)", "w", |row| {
        edge(row, 0, |edge| edge.resolution = Resolution::Dead);
    })
    .await;
    assert_edited_node_found("that generation ended as None", "w", |row| {
        edge(row, 0, |edge| edge.generation = 7)
    })
    .await;
    assert_edited_node_found("the outbox has no row that will propagate it", "w", |row| {
        edge(row, 0, |edge| edge.resolution = Resolution::Pending)
    })
    .await;
    assert_edited_node_found("by the event log the edge from", "w", |row| {
        edge(row, 0, |edge| edge.resolution = Resolution::Pending)
    })
    .await;
}

#[tokio::test]
async fn a_decision_that_contradicts_its_policy_is_found() {
    assert_edited_node_found("its join decided Satisfied, its edges mean Pending", "w", |row| {
        decide(row, GroupDecision::Satisfied)
    })
    .await;
    assert_edited_node_found("its join decided Impossible, its edges mean Satisfied", "r", |row| {
        decide(row, GroupDecision::Impossible)
    })
    .await;
    assert_edited_node_found("its join decided Pending, its edges mean Satisfied", "r", |row| {
        decide(row, GroupDecision::Pending)
    })
    .await;
    assert_edited_node_found("by the event log the decision is Impossible", "s", |row| {
        decide(row, GroupDecision::Pending)
    })
    .await;
}

#[tokio::test]
async fn an_execution_that_ran_and_was_skipped_is_found() {
    assert_edited_node_found("its join decided Impossible", "s", |row| {
        row.started_at = Some(row.submitted_at)
    })
    .await;
    assert_edited_node_found("its join decided Satisfied", "r", |row| {
        row.state = State::Terminal(Outcome::Skipped);
        row.ended_at = Some(row.submitted_at);
    })
    .await;
}

#[tokio::test]
async fn a_completion_that_was_lost_from_the_outbox_is_found() {
    let flow = sound_flow().await;
    flow.cancel_node("c").await;
    assert_eq!(invariants::check(&*flow.harness.store).await, Vec::<String>::new());
    let outbox_removed = flow.harness.outbox().await.into_iter().map(|row| row.name);
    assert_found(
        &flow,
        "the outbox has no row that will propagate it",
        Changes { outbox: Entries::removing(outbox_removed), ..Changes::default() },
    )
    .await;
}

#[tokio::test]
async fn children_whose_cancellation_was_lost_from_the_outbox_are_found() {
    let flow = sound_flow().await;
    flow.cancel_node("p").await;
    let outbox_removed = flow.harness.outbox().await.into_iter().map(|row| row.name);
    assert_found(
        &flow,
        "is still live",
        Changes { outbox: Entries::removing(outbox_removed), ..Changes::default() },
    )
    .await;
}

#[tokio::test]
async fn counts_that_differ_from_the_members_are_found() {
    let flow = sound_flow().await;
    let mut more = Counts::default();
    more.add(StateName::Expired, 1);
    let counted = vec![(flow.id, more)];
    assert_found(
        &flow,
        "0 members are Expired, and it counts 1",
        Changes {
            unread: UnreadWrites { flow_counts: counted, ..UnreadWrites::default() },
            ..Changes::default()
        },
    )
    .await;
}

#[tokio::test]
async fn a_flow_state_that_contradicts_the_members_is_found() {
    assert_edited_flow_found("its state is Completed, ended at", |flow| flow.state = FlowState::Completed)
        .await;
    assert_edited_flow_found("its state is Running, ended at Some", |flow| {
        flow.ended_at = Some(flow.submitted_at)
    })
    .await;
    let flow = sound_flow().await;
    for name in ["c", "p", "r"] {
        flow.cancel_node(name).await;
    }
    assert_eq!(flow.drained_state().await, FlowState::Failed);
    let before = flow.flow().await;
    let after = Flow { state: FlowState::Completed, ..before.clone() };
    let flows_updated = vec![(after, before.version)];
    assert_found(
        &flow,
        "should be Failed",
        Changes { flows: Guarded::updating(flows_updated), ..Changes::default() },
    )
    .await;
}

#[tokio::test]
async fn a_member_that_cannot_be_found_by_name_is_found() {
    let flow = sound_flow().await;
    let before = flow.row("r").await;
    let (expected_version, result) = (before.version, ResultChange::Keep);
    let execution = Execution { priority: before.priority + 1, ..before };
    let changes = Changes {
        nodes: Entries::removing([(flow.id, Name::trusted("r"))]),
        executions: Guarded::updating([Updated {
            execution,
            expected_version,
            result,
            rewired: false,
            input: None,
        }]),
        ..Changes::default()
    };
    assert_found(&flow, "cannot be found by name", changes).await;
}
