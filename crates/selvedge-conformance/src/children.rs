//! Children: an execution that has spawned some waits until they ended, however and in whatever order that becomes known.
#![allow(missing_docs)]

use super::flow_harness::{FlowHarness, failure, result};
use super::harness::{Harness, fence};
use super::side_by_side;
use super::signal_harness::{on, result_of, suspend, waiting};
use super::sketch::graph;
use super::worker::Worker;
use selvedge_core::flow::FlowState;
use selvedge_core::outbox::OutboxKind;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::clock::{Ticked, What};
use selvedge_core::rules::dispatch::Dispatched;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use selvedge_core::suspension::{Condition, OnTimeout, WaitDraft};
use selvedge_core::{Draft, DueKind, FlowId, Outcome};
use std::collections::BTreeSet;

/// A claimed execution of kind `root`, and the flow of what it spawns.
async fn parent(harness: &Harness) -> (Claimed, FlowHarness) {
    let claimed = harness.leased(Draft::new("root")).await;
    let flow = harness.flow_of(FlowId(claimed.execution.id.0));
    (claimed, flow)
}

/// The report that suspends until the children have ended.
fn join() -> Op {
    suspend(vec![WaitDraft::new(Condition::children())], vec![])
}

/// Whether a dispatch changed something.
fn changed(dispatched: Dispatched) -> u32 {
    match dispatched {
        Dispatched::Advanced { changed, .. } => changed,
        Dispatched::Nothing => 0,
    }
}

pub async fn a_parent_goes_on_when_its_last_child_has_ended_and_sees_them_all(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "a b -> c").await;
    assert_eq!(flow.report(&root, join()).await.state, StateName::Suspended);
    for name in ["a", "b"] {
        flow.complete(name).await;
        harness.drain().await;
        assert_eq!(flow.row("root").await.state.name(), StateName::Suspended);
    }
    flow.complete("c").await;
    flow.stands("a=completed b=completed c=completed root=suspended").await;
    let left = flow.left("root", OutboxKind::Parent).await.expect("the news came with the end");
    assert_eq!(harness.dispatch(&left).await, Dispatched::Advanced { changed: 1, rest: None });
    assert_eq!(harness.dispatch(&left).await, Dispatched::Nothing);
    flow.stands("a=completed b=completed c=completed root=waiting").await;
    let again = flow.claim("root").await;
    let seen: Vec<_> =
        again.children.iter().map(|one| (one.name.as_str(), one.outcome, one.result.clone())).collect();
    let done = |name| (name, Some(Outcome::Completed), Some(result(name)));
    assert_eq!(seen, [done("a"), done("b"), done("c")]);
    flow.report(&again, Op::Complete { result: "1".into() }).await;
    assert_eq!(flow.ends().await, FlowState::Completed);
}

pub async fn children_that_ended_before_the_suspension_make_it_ready_at_once(harness: &Harness) {
    for dispatched in [true, false] {
        let (root, flow) = parent(harness).await;
        flow.spawn(&root, "a b").await;
        for name in ["a", "b"] {
            flow.complete(name).await;
        }
        if dispatched {
            assert_eq!(changed(flow.dispatch("root", OutboxKind::Parent).await), 0, "it does not wait yet");
        }
        assert_eq!(flow.report(&root, join()).await.state, StateName::Waiting);
        let before = flow.row("root").await;
        harness.drain().await;
        assert_eq!(flow.row("root").await, before, "late news changes nothing");
        assert_eq!(flow.claim("root").await.children.len(), 2);
    }
}

pub async fn the_end_of_a_child_is_not_missed_in_whatever_order_it_becomes_known(harness: &Harness) {
    // Letters stand for: the parent suspends, the child ends, what is left for the parent is dispatched.
    for order in ["SED", "ESD", "EDS", "EDSD", "SDED", "EDDSD", "SEDD"] {
        let (root, flow) = parent(harness).await;
        flow.spawn(&root, "child").await;
        let mut lately = None;
        for letter in order.chars() {
            match letter {
                'S' => drop(flow.report(&root, join()).await),
                'E' => flow.complete("child").await,
                _ => {
                    let left = flow.left("root", OutboxKind::Parent).await.or(lately.clone());
                    if let Some(left) = left {
                        harness.dispatch(&left).await;
                        lately = Some(left);
                    }
                }
            }
        }
        assert_eq!(flow.row("root").await.state.name(), StateName::Waiting, "after {order}");
        let again = flow.claim("root").await;
        assert_eq!(again.execution.detail.record.suspensions, 1);
        flow.report(&again, Op::Complete { result: "1".into() }).await;
        assert_eq!(flow.ends().await, FlowState::Completed);
    }
}

pub async fn a_dispatch_that_was_lost_is_made_up_for_by_the_next(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "a b").await;
    flow.report(&root, join()).await;
    flow.complete("a").await;
    let early = flow.left("root", OutboxKind::Parent).await.expect("a has ended");
    flow.complete("b").await;
    let rows = harness.outbox().await;
    let about = rows.iter().filter(|row| row.name.kind == OutboxKind::Parent).count();
    assert_eq!(about, 1, "one row stands for all that is to be told");
    assert_eq!(changed(harness.dispatch(&early).await), 1, "it looks at how things stand");
    flow.stands("a=completed b=completed root=waiting").await;
}

pub async fn however_a_child_ends_it_has_ended(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "done broken dropped late; broken -> skipped").await;
    flow.report(&root, join()).await;
    flow.complete("done").await;
    flow.fail("broken").await;
    flow.cancel_node("dropped").await;
    harness.drain().await;
    flow.stands("broken=failed done=completed dropped=cancelled late=waiting root=suspended skipped=skipped")
        .await;
    let short = Worker { kinds: Some(vec!["late".into()]), ttl_ms: 1, ..Worker::new("flow") };
    let late = harness.claim_as(&short, 1).await.remove(0);
    flow.report(&late, failure("late")).await;
    flow.comes_to("broken=failed done=completed dropped=cancelled late=failed root=waiting skipped=skipped")
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

pub async fn a_child_that_is_tried_again_has_not_ended(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "child").await;
    flow.report(&root, join()).await;
    let child = flow.claim("child").await;
    let class = selvedge_core::FailureClass::Transient;
    flow.report(&child, Op::Fail { message: "again".into(), class, retry_after_ms: Some(0) }).await;
    assert!(flow.left("root", OutboxKind::Parent).await.is_none());
    flow.comes_to("child=waiting root=suspended").await;
    flow.complete("child").await;
    flow.comes_to("child=completed root=waiting").await;
}

pub async fn detached_children_are_not_waited_for(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    let free = graph("free", &BTreeSet::new());
    flow.try_spawn(&root, free, true).await.expect("it is spawned");
    assert_eq!(flow.report(&root, join()).await.state, StateName::Waiting, "there is nobody to wait for");
    let again = flow.claim("root").await;
    flow.spawn(&again, "bound").await;
    assert_eq!(flow.report(&again, join()).await.state, StateName::Suspended);
    flow.complete("bound").await;
    flow.comes_to("bound=completed free=waiting root=waiting").await;
    let last = flow.claim("root").await;
    let seen: Vec<_> = last.children.iter().map(|one| (one.name.as_str(), one.outcome)).collect();
    assert_eq!(seen, [("free", None), ("bound", Some(Outcome::Completed))], "a claim tells of both");
    flow.report(&last, Op::Complete { result: "1".into() }).await;
    flow.complete("free").await;
    assert_eq!(flow.ends().await, FlowState::Completed);
}

pub async fn children_are_one_part_of_what_is_waited_for(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "child").await;
    let both = Condition::All(vec![Condition::children(), on("go")]);
    let waits = vec![waiting("both", both), waiting("either", on("stop"))];
    flow.report(&root, suspend(waits, vec![])).await;
    flow.complete("child").await;
    assert_eq!(changed(flow.dispatch("root", OutboxKind::Parent).await), 1);
    assert_eq!(flow.row("root").await.state.name(), StateName::Suspended, "the signal is still to come");
    harness.signal(root.execution.id, "go").await;
    let again = flow.claim("root").await;
    assert_eq!(again.steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["both"]);
    // Of one that was told once, a child that is opened again takes nothing back.
    flow.report(
        &again,
        suspend(vec![WaitDraft::new(Condition::All(vec![Condition::children(), on("on")]))], vec![]),
    )
    .await;
    flow.replay("child").await;
    harness.drain().await;
    harness.signal(root.execution.id, "on").await;
    flow.stands("child=waiting root=waiting").await;
}

pub async fn the_step_of_a_join_is_recorded_by_the_dispatch(harness: &Harness) {
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

pub async fn a_parent_that_waits_in_vain_for_its_children_takes_them_along(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "child").await;
    let wait = WaitDraft {
        timeout_ms: Some(0),
        on_timeout: OnTimeout::Fail,
        ..WaitDraft::new(Condition::children())
    };
    flow.report(&root, suspend(vec![wait], vec![])).await;
    harness.due(root.execution.id, DueKind::SuspensionTimeout).await;
    flow.comes_to("child=cancelled root=failed").await;
    assert_eq!(flow.flow().await.state, FlowState::Failed);
    flow.replay("root").await;
    let again = flow.claim("root").await;
    assert_eq!(flow.report(&again, join()).await.state, StateName::Waiting, "they have ended since");
}

pub async fn a_suspended_child_is_cancelled_with_its_parent_and_one_with_its_flow(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "child").await;
    let child = flow.claim("child").await;
    flow.report(&child, suspend(vec![WaitDraft::new(on("never"))], vec![])).await;
    flow.report(&root, failure("root")).await;
    flow.comes_to("child=cancelled root=failed").await;
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "child").await;
    flow.report(&root, join()).await;
    flow.try_cancel(selvedge_core::flow::CancelMode::Pending).await.expect("it is cancelled");
    flow.comes_to("child=cancelled root=waiting").await;
    let again = flow.claim("root").await;
    flow.report(&again, suspend(vec![WaitDraft::new(on("never"))], vec![])).await;
    flow.try_cancel(selvedge_core::flow::CancelMode::All).await.expect("it is cancelled");
    flow.comes_to("child=cancelled root=cancelled").await;
}

pub async fn children_that_end_at_once_while_their_parent_suspends_are_not_missed(harness: &Harness) {
    for round in 0..6 {
        let (root, flow) = parent(harness).await;
        flow.spawn(&root, "a b c").await;
        let mut claimed = Vec::new();
        for name in ["a", "b", "c"] {
            claimed.push(flow.claim(name).await);
        }
        let sides = side_by_side(5, |side| {
            let (harness, root, claimed) = (harness.clone(), root.clone(), claimed.clone());
            async move {
                match side {
                    0 => drop(harness.report(fence(&root), join()).await.expect("it is suspended")),
                    4 => drop(harness.drain().await),
                    child => {
                        let done = Op::Complete { result: "1".into() };
                        harness.report(fence(&claimed[child - 1]), done).await.expect("it is completed");
                    }
                }
            }
        });
        sides.await;
        flow.comes_to("a=completed b=completed c=completed root=waiting").await;
        let again = flow.claim("root").await;
        assert!(again.children.iter().all(|one| one.outcome == Some(Outcome::Completed)), "in round {round}");
        flow.report(&again, Op::Complete { result: "1".into() }).await;
        harness.drain().await;
    }
}

pub async fn a_parent_that_is_no_longer_suspended_is_left_alone(harness: &Harness) {
    let (root, flow) = parent(harness).await;
    flow.spawn(&root, "child").await;
    flow.report(&root, join()).await;
    flow.complete("child").await;
    let left = flow.left("root", OutboxKind::Parent).await.expect("it has ended");
    harness.resume(root.execution.id).await;
    let again = flow.claim("root").await;
    let before = flow.row("root").await;
    assert_eq!(harness.dispatch(&left).await, Dispatched::Advanced { changed: 0, rest: None });
    assert_eq!(flow.row("root").await, before);
    assert_eq!(harness.tick(root.execution.id, What::Due(DueKind::Delay)).await, Ticked::NotDue);
    flow.report(&again, Op::Complete { result: "1".into() }).await;
    let refused = flow.operate("root", Action::Resume).await.expect_err("it has ended");
    assert_eq!(refused.code(), "already_terminal");
}
