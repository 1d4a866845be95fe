//! Children: a parent waits until its children have ended, in whatever order that becomes known.

use crate::harness::concurrently;
use crate::harness::flow::{FlowHarness, failure, result};
use crate::harness::signals::{on_signal, recorded_wait, result_of, suspend};
use crate::harness::sketch::graph;
use crate::harness::worker::Worker;
use crate::harness::{Harness, fence};
use selvedge_core::flow::FlowState;
use selvedge_core::outbox::OutboxKind;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::flows::dispatch::Dispatched;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::timer::{Timer, TimerReply};
use selvedge_core::state::StateName;
use selvedge_core::suspension::{Condition, OnTimeout, WaitDraft};
use selvedge_core::{Draft, DueKind, FlowId, Outcome};
use std::collections::BTreeSet;

/// Returns a claimed execution of kind `root` and the flow that its spawns create.
async fn parent(harness: &Harness) -> (Claimed, FlowHarness) {
    let claimed = harness.leased(Draft::new("root")).await;
    let flow = harness.flow_of(FlowId(claimed.execution.id.0));
    (claimed, flow)
}

/// Returns the report that suspends until the children have ended.
fn await_children() -> Op {
    suspend(vec![WaitDraft::new(Condition::children())], vec![])
}

/// Returns the number of executions that a dispatch changed.
fn changed(dispatched: Dispatched) -> u32 {
    match dispatched {
        Dispatched::Advanced { changed, .. } => changed,
        Dispatched::Nothing => 0,
    }
}

pub async fn a_parent_resumes_when_its_last_child_has_ended_and_sees_them_all(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "a b -> c").await;
    assert_eq!(flow.report(&root, await_children()).await.state, StateName::Suspended);
    for name in ["a", "b"] {
        flow.complete(name).await;
        harness.drain().await;
        assert_eq!(flow.row("root").await.state.name(), StateName::Suspended);
    }
    flow.complete("c").await;
    flow.assert_states("a=completed b=completed c=completed root=suspended").await;
    let left = flow.left("root", OutboxKind::Parent).await.expect("the end enqueued the notification");
    assert_eq!(harness.dispatch(&left).await, Dispatched::Advanced { changed: 1, rest: None });
    assert_eq!(harness.dispatch(&left).await, Dispatched::Nothing);
    flow.assert_states("a=completed b=completed c=completed root=waiting").await;
    let again = flow.claim("root").await;
    let seen: Vec<_> =
        again.children.iter().map(|one| (one.name.as_str(), one.outcome, one.result.clone())).collect();
    let done = |name| (name, Some(Outcome::Completed), Some(result(name)));
    assert_eq!(seen, [done("a"), done("b"), done("c")]);
    flow.report(&again, Op::Complete { result: "1".into() }).await;
    assert_eq!(flow.drained_state().await, FlowState::Completed);
}

pub async fn children_that_ended_before_the_suspension_resume_at_once(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "a b").await;
    for name in ["a", "b"] {
        flow.complete(name).await;
    }
    assert_eq!(flow.report(&root, await_children()).await.state, StateName::Waiting);
    assert_eq!(harness.drain().await, 0);
    assert_eq!(flow.claim("root").await.children.len(), 2);
}

pub async fn the_end_of_a_child_that_nobody_awaits_enqueues_nothing(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "a b c d").await;
    flow.complete("a").await;
    assert_eq!(harness.outbox().await, [], "the parent is active");
    flow.report(&root, suspend(vec![WaitDraft::new(on_signal("go"))], vec![])).await;
    flow.complete("b").await;
    assert_eq!(harness.outbox().await, [], "the parent waits for a signal");
    harness.signal(root.execution.id, "go").await;
    let again = flow.claim("root").await;
    flow.report(&again, await_children()).await;
    harness.drain().await;
    let awaited = flow.row("c").await.detail.end_awaited;
    assert_ne!(awaited, flow.row("d").await.detail.end_awaited, "the parent awaits the end of one child");
    let (first, last) = if awaited { ("d", "c") } else { ("c", "d") };
    flow.complete(first).await;
    assert_eq!(harness.outbox().await, [], "the parent awaits the other child");
    flow.complete(last).await;
    assert_eq!(changed(flow.dispatch("root", OutboxKind::Parent).await), 1);
    flow.assert_states("a=completed b=completed c=completed d=completed root=waiting").await;
}

pub async fn a_child_that_reopens_is_awaited_again(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "a b").await;
    flow.report(&root, await_children()).await;
    harness.drain().await;
    let (awaited, other) = if flow.row("a").await.detail.end_awaited { ("a", "b") } else { ("b", "a") };
    flow.complete(other).await;
    flow.complete(awaited).await;
    flow.replay(awaited).await;
    flow.replay(other).await;
    harness.drain().await;
    assert_eq!(flow.row("root").await.state.name(), StateName::Suspended);
    flow.complete(other).await;
    harness.drain().await;
    assert_eq!(flow.row("root").await.state.name(), StateName::Suspended);
    flow.complete(awaited).await;
    flow.drain_and_assert("a=completed b=completed root=waiting").await;
}

pub async fn a_parent_looks_at_its_children_a_few_times_in_whatever_order_they_end(harness: &Harness) {
    const CHILDREN: usize = 40;
    let names: Vec<String> = (0..CHILDREN).map(|number| format!("c{number:02}")).collect();
    for backwards in [false, true] {
        let (root, flow) = parent(harness).await;
        flow.spawn(&root, &names.join(" ")).await;
        flow.report(&root, await_children()).await;
        let mut dispatches = harness.drain().await;
        for index in 0..CHILDREN {
            let index = if backwards { CHILDREN - 1 - index } else { index };
            flow.complete(&names[index]).await;
            dispatches += harness.drain().await;
        }
        assert_eq!(flow.row("root").await.state.name(), StateName::Waiting);
        // About log2(40) = 5 are expected: each time half of the live children have ended. More than 20 of 40 would happen
        // once in a million runs.
        assert!(dispatches <= 20, "{dispatches} dispatches");
        let again = flow.claim("root").await;
        flow.report(&again, Op::Complete { result: "1".into() }).await;
        harness.drain().await;
    }
}

pub async fn the_end_of_a_child_is_not_missed_in_any_order_of_dispatches(harness: &Harness) {
    // S: the parent suspends. E: the child ends. D: the notification of the parent is dispatched.
    for order in ["SED", "ESD", "EDS", "EDSD", "SDED", "EDDSD", "SEDD"] {
        let (root, flow) = parent(harness).await;
        flow.spawn(&root, "child").await;
        let mut previous = None;
        for letter in order.chars() {
            match letter {
                'S' => drop(flow.report(&root, await_children()).await),
                'E' => flow.complete("child").await,
                _ => {
                    let left = flow.left("root", OutboxKind::Parent).await.or(previous.clone());
                    if let Some(left) = left {
                        harness.dispatch(&left).await;
                        previous = Some(left);
                    }
                }
            }
        }
        assert_eq!(flow.row("root").await.state.name(), StateName::Waiting, "after {order}");
        let again = flow.claim("root").await;
        assert_eq!(again.execution.detail.record.suspensions, 1);
        flow.report(&again, Op::Complete { result: "1".into() }).await;
        assert_eq!(flow.drained_state().await, FlowState::Completed);
    }
}

pub async fn one_dispatch_covers_all_children_that_have_ended(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "a b").await;
    flow.report(&root, await_children()).await;
    flow.complete("a").await;
    let early = flow.left("root", OutboxKind::Parent).await.expect("a has ended");
    flow.complete("b").await;
    let rows = harness.outbox().await;
    let notifications = rows.iter().filter(|row| row.name.kind == OutboxKind::Parent).count();
    assert_eq!(notifications, 1, "one row covers all notifications of a parent");
    assert_eq!(changed(harness.dispatch(&early).await), 1, "the dispatch reads the current states");
    flow.assert_states("a=completed b=completed root=waiting").await;
}

pub async fn every_outcome_of_a_child_counts_as_its_end(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "done broken dropped late; broken -> skipped").await;
    flow.report(&root, await_children()).await;
    flow.complete("done").await;
    flow.fail("broken").await;
    flow.cancel_node("dropped").await;
    harness.drain().await;
    flow.assert_states(
        "broken=failed done=completed dropped=cancelled late=waiting root=suspended skipped=skipped",
    )
    .await;
    let short = Worker { kinds: Some(vec!["late".into()]), ttl_ms: 1, ..Worker::new("flow") };
    let late = harness.claim_as(&short, 1).await.remove(0);
    flow.report(&late, failure("late")).await;
    flow.drain_and_assert(
        "broken=failed done=completed dropped=cancelled late=failed root=waiting skipped=skipped",
    )
    .await;
    let again = flow.claim("root").await;
    let seen: Vec<_> = again.children.iter().map(|one| (one.name.as_str(), one.outcome)).collect();
    let expected = [
        ("done", Some(Outcome::Completed)),
        ("broken", Some(Outcome::Failed)),
        ("dropped", Some(Outcome::Cancelled)),
        ("late", Some(Outcome::Failed)),
        ("skipped", Some(Outcome::Skipped)),
    ];
    assert_eq!(seen, expected);
    assert_eq!(again.children[1].error.as_ref().map(|error| error.message.as_str()), Some("broken broke"));
}

pub async fn a_retried_child_has_not_ended(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "child").await;
    flow.report(&root, await_children()).await;
    harness.drain().await;
    let child = flow.claim("child").await;
    let class = selvedge_core::FailureClass::Transient;
    flow.report(&child, Op::Fail { message: "again".into(), class, retry_after_ms: Some(0) }).await;
    assert!(flow.left("root", OutboxKind::Parent).await.is_none());
    flow.drain_and_assert("child=waiting root=suspended").await;
    flow.complete("child").await;
    flow.drain_and_assert("child=completed root=waiting").await;
}

pub async fn detached_children_are_not_awaited(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    let free = graph("free", &BTreeSet::new());
    flow.try_spawn(&root, free, true).await.expect("it is spawned");
    assert_eq!(
        flow.report(&root, await_children()).await.state,
        StateName::Waiting,
        "there is no child to wait for"
    );
    let again = flow.claim("root").await;
    flow.spawn(&again, "bound").await;
    assert_eq!(flow.report(&again, await_children()).await.state, StateName::Suspended);
    flow.complete("bound").await;
    flow.drain_and_assert("bound=completed free=waiting root=waiting").await;
    let last = flow.claim("root").await;
    let seen: Vec<_> = last.children.iter().map(|one| (one.name.as_str(), one.outcome)).collect();
    assert_eq!(seen, [("free", None), ("bound", Some(Outcome::Completed))], "a claim carries both");
    flow.report(&last, Op::Complete { result: "1".into() }).await;
    flow.complete("free").await;
    assert_eq!(flow.drained_state().await, FlowState::Completed);
}

pub async fn children_may_be_one_part_of_a_condition(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "child").await;
    let both = Condition::All(vec![Condition::children(), on_signal("go")]);
    let waits = vec![recorded_wait("both", both), recorded_wait("either", on_signal("stop"))];
    flow.report(&root, suspend(waits, vec![])).await;
    flow.complete("child").await;
    assert_eq!(changed(flow.dispatch("root", OutboxKind::Parent).await), 1);
    assert_eq!(flow.row("root").await.state.name(), StateName::Suspended, "the signal has not arrived");
    harness.signal(root.execution.id, "go").await;
    let again = flow.claim("root").await;
    assert_eq!(again.steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["both"]);
    // A child that reopens does not revoke a condition that already held.
    flow.report(
        &again,
        suspend(vec![WaitDraft::new(Condition::All(vec![Condition::children(), on_signal("on")]))], vec![]),
    )
    .await;
    flow.replay("child").await;
    harness.drain().await;
    harness.signal(root.execution.id, "on").await;
    flow.assert_states("child=waiting root=waiting").await;
}

pub async fn the_step_of_a_wait_for_children_is_recorded_by_the_dispatch(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "child").await;
    let step = Some((selvedge_core::Name::trusted("join"), selvedge_core::step::StepKind::Join));
    let wait = WaitDraft { step, ..WaitDraft::new(Condition::children()) };
    flow.report(&root, suspend(vec![wait], vec![])).await;
    flow.complete("child").await;
    harness.drain().await;
    let again = flow.claim("root").await;
    assert_eq!(again.steps.len(), 1);
    assert_eq!(result_of(&again.steps[0]), r#"{"resumed_by":"condition","signals":[]}"#);
}

pub async fn a_parent_that_times_out_cancels_its_children(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "child").await;
    let wait = WaitDraft {
        timeout_ms: Some(0),
        on_timeout: OnTimeout::Fail,
        ..WaitDraft::new(Condition::children())
    };
    flow.report(&root, suspend(vec![wait], vec![])).await;
    harness.due(root.execution.id, DueKind::SuspensionTimeout).await;
    flow.drain_and_assert("child=cancelled root=failed").await;
    assert_eq!(flow.flow().await.state, FlowState::Failed);
    flow.replay("root").await;
    let again = flow.claim("root").await;
    assert_eq!(
        flow.report(&again, await_children()).await.state,
        StateName::Waiting,
        "they have ended meanwhile"
    );
}

pub async fn a_suspended_execution_is_cancelled_with_its_parent_or_its_flow(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "child").await;
    let child = flow.claim("child").await;
    flow.report(&child, suspend(vec![WaitDraft::new(on_signal("never"))], vec![])).await;
    flow.report(&root, failure("root")).await;
    flow.drain_and_assert("child=cancelled root=failed").await;
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "child").await;
    flow.report(&root, await_children()).await;
    flow.try_cancel(selvedge_core::flow::CancelMode::Pending).await.expect("it is cancelled");
    flow.drain_and_assert("child=cancelled root=waiting").await;
    let again = flow.claim("root").await;
    flow.report(&again, suspend(vec![WaitDraft::new(on_signal("never"))], vec![])).await;
    flow.try_cancel(selvedge_core::flow::CancelMode::All).await.expect("it is cancelled");
    flow.drain_and_assert("child=cancelled root=cancelled").await;
}

pub async fn children_that_end_while_their_parent_suspends_are_not_missed(harness: &Harness) {
    for round in 0..6 {
        let (root, flow) = parent(harness).await;
        flow.spawn(&root, "a b c").await;
        let mut claimed = Vec::new();
        for name in ["a", "b", "c"] {
            claimed.push(flow.claim(name).await);
        }
        let tasks = concurrently(5, |task| {
            let (harness, root, claimed) = (harness.clone(), root.clone(), claimed.clone());
            async move {
                match task {
                    0 => drop(harness.report(fence(&root), await_children()).await.expect("it is suspended")),
                    4 => drop(harness.drain().await),
                    child => {
                        let done = Op::Complete { result: "1".into() };
                        harness.report(fence(&claimed[child - 1]), done).await.expect("it is completed");
                    }
                }
            }
        });
        tasks.await;
        flow.drain_and_assert("a=completed b=completed c=completed root=waiting").await;
        let again = flow.claim("root").await;
        assert!(again.children.iter().all(|one| one.outcome == Some(Outcome::Completed)), "in round {round}");
        flow.report(&again, Op::Complete { result: "1".into() }).await;
        harness.drain().await;
    }
}

pub async fn a_parent_that_is_no_longer_suspended_is_not_changed(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "child").await;
    flow.report(&root, await_children()).await;
    flow.complete("child").await;
    let left = flow.left("root", OutboxKind::Parent).await.expect("it has ended");
    harness.resume(root.execution.id).await;
    let again = flow.claim("root").await;
    let before = flow.row("root").await;
    assert_eq!(harness.dispatch(&left).await, Dispatched::Advanced { changed: 0, rest: None });
    assert_eq!(flow.row("root").await, before);
    assert_eq!(harness.tick(root.execution.id, Timer::Due(DueKind::Delay)).await, TimerReply::NotDue);
    flow.report(&again, Op::Complete { result: "1".into() }).await;
    let refused = flow.operate("root", Action::Resume).await.expect_err("it has ended");
    assert_eq!(refused.code(), "already_terminal");
}
