//! Replays of nodes: a new generation begins, nodes that were skipped because of the old one reopen, and nodes that ran
//! keep their decision.

use crate::harness::flow::{FlowHarness, failure, result};
use crate::harness::{Harness, fence};
use selvedge_core::flow::{CancelMode, FlowState};
use selvedge_core::join::{GroupDecision, Resolution};
use selvedge_core::log::Event;
use selvedge_core::outbox::{OutboxKind, OutboxName};
use selvedge_core::rules::flows::join::would_reopen;
use selvedge_core::rules::flows::whole::SettleFlow;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::{Execution, ExecutionId, Fact, Outcome};
use std::collections::{BTreeSet, HashMap};

/// Returns the names of the nodes that the replay of a node would reopen.
async fn dry_run(flow: &FlowHarness, name: &str) -> BTreeSet<String> {
    let rows: HashMap<ExecutionId, Execution> =
        flow.members().await.into_iter().map(|row| (row.id, row)).collect();
    let reopened = would_reopen(&rows, flow.id(name).await);
    reopened.iter().map(|id| rows[id].node().expect("it has a name").to_owned()).collect()
}

pub async fn nodes_skipped_because_of_a_replayed_node_reopen_level_by_level(harness: &Harness) {
    let flow = harness.flow("a -> b -> c -> d; other -> c").await;
    flow.complete("other").await;
    flow.fail("a").await;
    flow.drain_and_assert("a=failed b=skipped c=skipped d=skipped other=completed").await;
    assert_eq!(flow.flow().await.state, FlowState::Failed);
    assert_eq!(dry_run(&flow, "a").await, ["b", "c", "d"].map(String::from).into());
    flow.replay("a").await;
    let row = flow.flow().await;
    assert_eq!((row.state, row.ended_at), (FlowState::Running, None), "the flow runs again");
    for (of, states) in [
        ("a", "a=waiting b=waiting_dependencies c=skipped d=skipped other=completed"),
        ("b", "a=waiting b=waiting_dependencies c=waiting_dependencies d=skipped other=completed"),
        (
            "c",
            "a=waiting b=waiting_dependencies c=waiting_dependencies d=waiting_dependencies other=completed",
        ),
    ] {
        flow.dispatch(of, OutboxKind::Edges).await;
        flow.assert_states(states).await;
    }
    for name in ["a", "b", "c", "d"] {
        flow.complete(name).await;
        harness.drain().await;
    }
    assert_eq!(flow.flow().await.state, FlowState::Completed);
    for name in ["a", "b", "c", "d"] {
        assert_eq!(flow.row(name).await.detail.generation, 1, "{name}");
    }
}

pub async fn a_node_that_reopens_after_its_flow_ended_makes_the_flow_running_again(harness: &Harness) {
    let flow = harness.flow("a! -> b").await;
    flow.complete("a").await;
    flow.drain_and_assert("a=completed b=skipped").await;
    flow.replay("a").await;
    flow.cancel_node("a").await;
    flow.assert_states("a=cancelled b=skipped").await;
    assert_eq!(harness.run(SettleFlow { flow: flow.id }).await, Some(FlowState::Failed));
    flow.dispatch("a", OutboxKind::Edges).await;
    flow.assert_states("a=cancelled b=waiting").await;
    let row = flow.flow().await;
    assert_eq!((row.state, row.ended_at), (FlowState::Running, None));
    let reopened = |event: &Event| matches!(event.fact, Fact::FlowReopened { .. });
    let events = harness.log().await.into_iter().flat_map(|(_, events)| events);
    assert_eq!(events.filter(|event| event.flow == Some(flow.id)).filter(reopened).count(), 2);
    flow.complete("b").await;
    flow.drain_and_assert("a=cancelled b=completed").await;
    assert_eq!(flow.flow().await.state, FlowState::Completed);
}

pub async fn a_node_that_ran_keeps_its_decision_when_its_upstream_is_replayed(harness: &Harness) {
    let flow = harness.flow("a -> done; a -> active; a -> waiting").await;
    flow.complete("a").await;
    harness.drain().await;
    flow.complete("done").await;
    let running = flow.claim("active").await;
    assert!(dry_run(&flow, "a").await.is_empty());
    flow.replay("a").await;
    flow.drain_and_assert("a=waiting active=active done=completed waiting=waiting").await;
    flow.fail("a").await;
    flow.drain_and_assert("a=failed active=active done=completed waiting=waiting").await;
    for name in ["done", "active", "waiting"] {
        let join = flow.row(name).await.join.expect("it has a join");
        assert_eq!((join.decision, join.edges[0].generation), (GroupDecision::Satisfied, 0), "{name}");
        assert_eq!(join.edges[0].resolution, Resolution::Holds);
    }
    flow.report(&running, Op::Complete { result: result("active") }).await;
}

pub async fn an_undecided_join_waits_for_the_new_generation(harness: &Harness) {
    let flow = harness.flow("a b -> c").await;
    flow.complete("a").await;
    harness.drain().await;
    flow.replay("a").await;
    harness.drain().await;
    flow.complete("b").await;
    flow.drain_and_assert("a=waiting b=completed c=waiting_dependencies").await;
    flow.complete("a").await;
    flow.drain_and_assert("a=completed b=completed c=waiting").await;
    let edge = flow.row("c").await.join.expect("it has a join").edges[0];
    assert_eq!((edge.resolution, edge.generation), (Resolution::Holds, 1));
}

pub async fn a_node_that_stays_impossible_for_another_reason_stays_skipped(harness: &Harness) {
    let flow = harness.flow("a b -> c -> d").await;
    flow.fail("a").await;
    flow.fail("b").await;
    flow.drain_and_assert("a=failed b=failed c=skipped d=skipped").await;
    assert!(dry_run(&flow, "a").await.is_empty());
    flow.replay("a").await;
    flow.complete("a").await;
    flow.drain_and_assert("a=completed b=failed c=skipped d=skipped").await;
    flow.replay("b").await;
    flow.drain_and_assert("a=completed b=waiting c=waiting_dependencies d=waiting_dependencies").await;
    flow.complete("b").await;
    flow.drain_and_assert("a=completed b=completed c=waiting d=waiting_dependencies").await;
}

pub async fn a_late_update_from_an_older_generation_changes_nothing(harness: &Harness) {
    let harness = &harness.another_process();
    let flow = harness.flow("a b -> c").await;
    flow.fail("a").await;
    let late = flow.left("a", OutboxKind::Edges).await.expect("the outbox has its row");
    flow.replay("a").await;
    flow.complete("a").await;
    harness.drain().await;
    let before = flow.row("c").await;
    harness.dispatch(&late).await;
    assert_eq!(flow.row("c").await, before);
    flow.assert_states("a=completed b=waiting c=waiting_dependencies").await;
    assert_eq!(before.join.expect("it has a join").edges[0].generation, 1);
}

pub async fn a_replay_that_ends_before_its_dispatch_is_propagated_with_its_outcome(harness: &Harness) {
    let flow = harness.flow("a -> b -> c").await;
    flow.fail("a").await;
    flow.drain_and_assert("a=failed b=skipped c=skipped").await;
    flow.replay("a").await;
    flow.complete("a").await;
    flow.drain_and_assert("a=completed b=waiting c=waiting_dependencies").await;
    let flow = harness.flow("a2 -> b2 -> c2").await;
    flow.fail("a2").await;
    flow.drain_and_assert("a2=failed b2=skipped c2=skipped").await;
    flow.replay("a2").await;
    flow.fail("a2").await;
    flow.drain_and_assert("a2=failed b2=skipped c2=skipped").await;
    assert_eq!(flow.flow().await.state, FlowState::Failed);
}

pub async fn a_skipped_node_cannot_be_replayed(harness: &Harness) {
    let flow = harness.flow("a -> b").await;
    flow.fail("a").await;
    harness.drain().await;
    let before = flow.row("b").await;
    let refused = flow.operate("b", Action::Replay).await.expect_err("it never ran");
    assert_eq!(refused.code(), "wrong_state");
    assert_eq!(flow.row("b").await, before);
}

pub async fn a_node_cancelled_while_waiting_for_dependencies_waits_again_after_a_replay(harness: &Harness) {
    let flow = harness.flow("a -> b; c -> d; e -> f; x").await;
    for name in ["b", "d", "f"] {
        flow.cancel_node(name).await;
    }
    flow.complete("c").await;
    flow.fail("e").await;
    harness.drain().await;
    for name in ["b", "d", "f"] {
        flow.replay(name).await;
    }
    flow.drain_and_assert(
        "a=waiting b=waiting_dependencies c=completed d=waiting e=failed f=skipped x=waiting",
    )
    .await;
    flow.complete("a").await;
    flow.drain_and_assert("a=completed b=waiting c=completed d=waiting e=failed f=skipped x=waiting").await;
}

pub async fn a_replayed_node_carries_its_upstreams_and_loses_its_old_result(harness: &Harness) {
    let flow = harness.flow("a -> b -> c").await;
    flow.complete("a").await;
    harness.drain().await;
    flow.complete("b").await;
    harness.drain().await;
    flow.replay("b").await;
    harness.drain().await;
    assert_eq!(harness.stored(flow.id("b").await).await.result, None);
    let claimed = flow.claim("b").await;
    assert_eq!(claimed.upstreams[0].result, Some(result("a")));
    assert_eq!(flow.claim("c").await.upstreams[0].outcome, None, "c keeps its decision, and b runs");
    flow.report(&claimed, failure("b")).await;
    let relative = flow.row("b").await;
    assert_eq!(relative.state.outcome(), Some(Outcome::Failed));
}

pub async fn a_replay_in_a_wide_flow_reopens_exactly_what_the_dry_run_lists(harness: &Harness) {
    let text = "a b -> c: any_of let_run; a -> d; d! -> e; d? -> f; d b -> g: quorum 1; c d -> h; h -> i";
    let flow = harness.flow(text).await;
    flow.fail("a").await;
    harness.drain().await;
    flow.cancel_node("b").await;
    harness.drain().await;
    for name in ["f"] {
        flow.complete(name).await;
    }
    harness.drain().await;
    let skipped: BTreeSet<String> = skipped(&flow).await;
    let expected = dry_run(&flow, "a").await;
    assert!(!expected.is_empty());
    flow.replay("a").await;
    harness.drain().await;
    let reopened: BTreeSet<String> = skipped.difference(&self::skipped(&flow).await).cloned().collect();
    assert_eq!(reopened, expected);
}

async fn skipped(flow: &FlowHarness) -> BTreeSet<String> {
    let members = flow.members().await;
    let skipped = members.iter().filter(|row| row.state.outcome() == Some(Outcome::Skipped));
    skipped.filter_map(|row| row.node().map(str::to_owned)).collect()
}

pub async fn a_node_that_reopens_after_the_cancellation_of_its_flow_is_cancelled(harness: &Harness) {
    for mode in [CancelMode::All, CancelMode::Pending] {
        let flow = harness.flow("a -> b -> c; other").await;
        let other = flow.claim("other").await;
        flow.fail("a").await;
        flow.drain_and_assert("a=failed b=skipped c=skipped other=active").await;
        flow.replay("a").await;
        let claimed = harness.another_process().claim(1).await;
        let complete = harness.report_command(fence(&claimed[0]), Op::Complete { result: result("a") });
        harness.another_process().run(complete).await.expect("it is accepted");
        flow.try_cancel(mode).await.expect("it is cancelled");
        // `b` is still skipped when the cancellation passes it by. The end of `a` reaches it afterwards.
        let cancellation = OutboxName { id: flow.id.0, kind: OutboxKind::Flow };
        let rows = harness.outbox().await;
        harness.dispatch(rows.iter().find(|row| row.name == cancellation).expect("it is enqueued")).await;
        let last = if mode == CancelMode::All { "cancelled" } else { "active" };
        flow.assert_states(&format!("a=completed b=skipped c=skipped other={last}")).await;
        flow.drain_and_assert(&format!("a=completed b=cancelled c=skipped other={last}")).await;
        if mode == CancelMode::Pending {
            flow.report(&other, Op::Complete { result: result("other") }).await;
        }
        assert_eq!(flow.drained_state().await, FlowState::Cancelled);
        assert_eq!(flow.row("b").await.detail.cancelled_by, None, "no operator cancelled this member");
    }
}
