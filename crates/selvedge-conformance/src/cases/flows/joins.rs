//! Joins: edge conditions, join policies, and the cancellation of siblings that are no longer needed.

use crate::harness::Harness;
use crate::harness::flow::{failure, result};
use crate::harness::sketch::Sketch;
use selvedge_core::Outcome;
use selvedge_core::flow::FlowState;
use selvedge_core::join::{GroupDecision, Resolution};
use selvedge_core::outbox::OutboxKind;
use selvedge_core::rules::flows::dispatch::Dispatched;
use selvedge_core::rules::report::Op;
use selvedge_core::submission::When;

pub async fn an_edge_holds_when_its_upstreams_outcome_matches_its_condition(harness: &Harness) {
    for (outcome, on_success, on_failure) in [
        (Outcome::Completed, "waiting", "skipped"),
        (Outcome::Failed, "skipped", "waiting"),
        (Outcome::Cancelled, "skipped", "waiting"),
        (Outcome::Expired, "skipped", "waiting"),
    ] {
        let sketch = Sketch::from("a -> s; a! -> f; a? -> z");
        let flow = harness.flow(sketch.each(|draft| draft.policy.retry.max_interruptions = 0)).await;
        flow.end("a", outcome).await;
        let a = flow.row("a").await.state.name().as_str();
        flow.drain_and_assert(&format!("a={a} f={on_failure} s={on_success} z=waiting")).await;
    }
}

pub async fn a_skip_propagates_like_a_completion(harness: &Harness) {
    let flow = harness.flow("a -> b -> c -> d; b! -> never; c? -> always").await;
    flow.fail("a").await;
    flow.drain_and_assert("a=failed always=waiting b=skipped c=skipped d=skipped never=skipped").await;
    assert!(flow.row("d").await.ended_at.is_some());
}

pub async fn all_of_waits_for_every_edge_and_is_impossible_after_the_first_dead_one(harness: &Harness) {
    let flow = harness.flow("a b c -> all; a b c -> none").await;
    flow.complete("a").await;
    flow.complete("b").await;
    let pending = "a=completed all=waiting_dependencies b=completed c=waiting none=waiting_dependencies";
    flow.drain_and_assert(pending).await;
    flow.complete("c").await;
    flow.drain_and_assert("a=completed all=waiting b=completed c=completed none=waiting").await;
    let flow = harness.flow("a b c -> none").await;
    flow.fail("b").await;
    flow.drain_and_assert("a=waiting b=failed c=waiting none=skipped").await;
    flow.complete("a").await;
    flow.drain_and_assert("a=completed b=failed c=waiting none=skipped").await;
}

pub async fn any_of_runs_after_the_first_edge_that_holds_and_cancels_the_rest(harness: &Harness) {
    let flow = harness.flow("a b c d -> e: any_of").await;
    flow.fail("a").await;
    harness.drain().await;
    let running = flow.claim("c").await;
    flow.complete("b").await;
    flow.drain_and_assert("a=failed b=completed c=cancelled d=cancelled e=waiting").await;
    let refused = harness.report(crate::harness::fence(&running), Op::Release).await;
    assert_eq!(refused.expect_err("it was cancelled").code(), "stale_lease");
    let flow = harness.flow("a b -> e: any_of").await;
    flow.fail("a").await;
    flow.drain_and_assert("a=failed b=waiting e=waiting_dependencies").await;
    flow.cancel_node("b").await;
    flow.drain_and_assert("a=failed b=cancelled e=skipped").await;
}

pub async fn a_quorum_runs_when_enough_edges_hold_and_is_skipped_when_too_few_can(harness: &Harness) {
    let flow = harness.flow("a b c d -> e: quorum 2").await;
    flow.complete("a").await;
    flow.drain_and_assert("a=completed b=waiting c=waiting d=waiting e=waiting_dependencies").await;
    flow.complete("b").await;
    flow.drain_and_assert("a=completed b=completed c=cancelled d=cancelled e=waiting").await;
    let flow = harness.flow("a b c d -> e: quorum 3").await;
    flow.fail("a").await;
    flow.drain_and_assert("a=failed b=waiting c=waiting d=waiting e=waiting_dependencies").await;
    flow.fail("d").await;
    flow.drain_and_assert("a=failed b=waiting c=waiting d=failed e=skipped").await;
}

pub async fn let_run_does_not_cancel_the_rest(harness: &Harness) {
    for policy in ["any_of let_run", "quorum 1 let_run"] {
        let flow = harness.flow(Sketch::from(&*format!("a b c -> e: {policy}"))).await;
        flow.complete("a").await;
        flow.drain_and_assert("a=completed b=waiting c=waiting e=waiting").await;
        for name in ["b", "c", "e"] {
            flow.complete(name).await;
        }
        assert_eq!(flow.drained_state().await, FlowState::Completed);
    }
}

pub async fn a_satisfied_join_cancels_siblings_in_every_state(harness: &Harness) {
    let sketch = Sketch::from("x -> dependent; waiting delayed active dependent won -> e: any_of");
    let flow = harness.flow(sketch.node("delayed", |one| one.delay = Some(When::AfterMs(3_600_000)))).await;
    flow.claim("active").await;
    flow.complete("won").await;
    let expected = "active=cancelled delayed=cancelled dependent=cancelled e=waiting waiting=cancelled won=completed x=waiting";
    flow.drain_and_assert(expected).await;
    let join = flow.row("e").await.join.expect("it has a join");
    let counts = [Resolution::Holds, Resolution::Dead, Resolution::Pending].map(|one| join.count(one));
    assert_eq!(counts, [1, 4, 0], "late outcomes were counted too");
}

pub async fn a_sibling_that_another_undecided_join_needs_is_not_cancelled(harness: &Harness) {
    let flow = harness.flow("a b c -> e: any_of; b x -> f").await;
    flow.complete("a").await;
    flow.drain_and_assert("a=completed b=waiting c=cancelled e=waiting f=waiting_dependencies x=waiting")
        .await;
    flow.complete("b").await;
    flow.complete("x").await;
    flow.drain_and_assert("a=completed b=completed c=cancelled e=waiting f=waiting x=completed").await;
}

pub async fn a_sibling_is_cancelled_once_the_other_join_has_decided_too(harness: &Harness) {
    let flow = harness.flow("a b -> e: any_of; c b -> f: any_of; b -> g; x -> g").await;
    flow.fail("x").await;
    flow.drain_and_assert(
        "a=waiting b=waiting c=waiting e=waiting_dependencies f=waiting_dependencies g=skipped x=failed",
    )
    .await;
    flow.complete("a").await;
    flow.drain_and_assert(
        "a=completed b=waiting c=waiting e=waiting f=waiting_dependencies g=skipped x=failed",
    )
    .await;
    flow.complete("c").await;
    flow.drain_and_assert("a=completed b=cancelled c=completed e=waiting f=waiting g=skipped x=failed").await;
}

pub async fn a_join_that_comes_to_need_a_sibling_before_its_cancellation_keeps_it(harness: &Harness) {
    let harness = &harness.another_process();
    let flow = harness.flow("a b -> e: any_of").await;
    flow.complete("a").await;
    assert!(matches!(flow.dispatch("a", OutboxKind::Edges).await, Dispatched::Advanced { .. }));
    flow.grow("b -> f").await;
    flow.drain_and_assert("a=completed b=waiting e=waiting f=waiting_dependencies").await;
    flow.complete("b").await;
    flow.drain_and_assert("a=completed b=completed e=waiting f=waiting").await;
}

pub async fn siblings_that_ended_meanwhile_are_not_changed(harness: &Harness) {
    let harness = &harness.another_process();
    let flow = harness.flow("a b c -> e: any_of").await;
    flow.complete("a").await;
    flow.dispatch("a", OutboxKind::Edges).await;
    flow.complete("b").await;
    flow.fail("c").await;
    let before = [flow.row("b").await, flow.row("c").await];
    flow.dispatch("e", OutboxKind::Siblings).await;
    assert_eq!([flow.row("b").await, flow.row("c").await], before);
    flow.drain_and_assert("a=completed b=completed c=failed e=waiting").await;
}

pub async fn a_join_decides_once_however_many_upstreams_end_later(harness: &Harness) {
    let flow = harness.flow("a b c -> e: any_of let_run").await;
    let claimed = [flow.claim("a").await, flow.claim("b").await, flow.claim("c").await];
    flow.report_and_propagate(&claimed[0], Op::Complete { result: result("a") }).await;
    let decided = flow.row("e").await;
    let (decided_at, order) = (decided.version, decided.ready_order);
    flow.report_and_propagate(&claimed[1], Op::Complete { result: result("b") }).await;
    flow.report_and_propagate(&claimed[2], failure("c")).await;
    let row = flow.row("e").await;
    assert_eq!(
        (row.version, row.ready_order),
        (decided_at + 2, order),
        "its edges were updated, and nothing else"
    );
    let join = row.join.expect("it has a join");
    assert_eq!((join.count(Resolution::Holds), join.count(Resolution::Dead)), (2, 1));
    assert_eq!(join.decision, GroupDecision::Satisfied);
}

pub async fn upstreams_that_end_concurrently_are_all_counted(harness: &Harness) {
    const UPSTREAMS: usize = 16;
    let names: Vec<String> = (0..UPSTREAMS).map(|index| format!("u{index}")).collect();
    for propagated in [true, false] {
        let flow = harness.flow(&*format!("{} -> e", names.join(" "))).await;
        let tasks = crate::harness::concurrently(UPSTREAMS, |task| {
            let (flow, name) = (flow.clone(), names[task].clone());
            async move {
                let claimed = flow.claim(&name).await;
                let op = Op::Complete { result: result(&name) };
                match propagated {
                    true => flow.report_and_propagate(&claimed, op).await,
                    false => flow.report(&claimed, op).await,
                };
                if !propagated {
                    flow.harness.drain().await;
                }
            }
        });
        tasks.await;
        harness.drain().await;
        let row = flow.row("e").await;
        assert_eq!(row.state, selvedge_core::State::Waiting, "{:?}", row.join);
        assert_eq!(flow.claim("e").await.upstreams.len(), UPSTREAMS);
    }
}
