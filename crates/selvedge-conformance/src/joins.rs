//! Joins on a store: conditions, policies, and what becomes of the siblings of what is no longer needed.
#![allow(missing_docs)]

use super::flow_harness::{failure, result};
use super::harness::Harness;
use super::sketch::Sketch;
use selvedge_core::Outcome;
use selvedge_core::flow::FlowState;
use selvedge_core::join::{GroupDecision, Resolution};
use selvedge_core::outbox::OutboxKind;
use selvedge_core::rules::dispatch::Dispatched;
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
        let a = flow.row("a").await.state.name().public();
        flow.comes_to(&format!("a={a} f={on_failure} s={on_success} z=waiting")).await;
    }
}

pub async fn a_skip_is_a_completion_that_goes_further(harness: &Harness) {
    let flow = harness.flow("a -> b -> c -> d; b! -> never; c? -> always").await;
    flow.fail("a").await;
    flow.comes_to("a=failed always=waiting b=skipped c=skipped d=skipped never=skipped").await;
    assert!(flow.row("d").await.ended_at.is_some());
}

pub async fn all_of_waits_for_every_edge_and_is_impossible_with_the_first_dead_one(harness: &Harness) {
    let flow = harness.flow("a b c -> all; a b c -> none").await;
    flow.complete("a").await;
    flow.complete("b").await;
    let open = "a=completed all=waiting_dependencies b=completed c=waiting none=waiting_dependencies";
    flow.comes_to(open).await;
    flow.complete("c").await;
    flow.comes_to("a=completed all=waiting b=completed c=completed none=waiting").await;
    let flow = harness.flow("a b c -> none").await;
    flow.fail("b").await;
    flow.comes_to("a=waiting b=failed c=waiting none=skipped").await;
    flow.complete("a").await;
    flow.comes_to("a=completed b=failed c=waiting none=skipped").await;
}

pub async fn any_of_runs_with_the_first_that_holds_and_cancels_the_rest(harness: &Harness) {
    let flow = harness.flow("a b c d -> e: any_of").await;
    flow.fail("a").await;
    harness.drain().await;
    let running = flow.claim("c").await;
    flow.complete("b").await;
    flow.comes_to("a=failed b=completed c=cancelled d=cancelled e=waiting").await;
    let refused = harness.report(super::harness::fence(&running), Op::Release).await;
    assert_eq!(refused.expect_err("it was cancelled").code(), "stale_lease");
    let flow = harness.flow("a b -> e: any_of").await;
    flow.fail("a").await;
    flow.comes_to("a=failed b=waiting e=waiting_dependencies").await;
    flow.cancel_node("b").await;
    flow.comes_to("a=failed b=cancelled e=skipped").await;
}

pub async fn a_quorum_runs_when_enough_hold_and_is_skipped_when_too_few_can(harness: &Harness) {
    let flow = harness.flow("a b c d -> e: quorum 2").await;
    flow.complete("a").await;
    flow.comes_to("a=completed b=waiting c=waiting d=waiting e=waiting_dependencies").await;
    flow.complete("b").await;
    flow.comes_to("a=completed b=completed c=cancelled d=cancelled e=waiting").await;
    let flow = harness.flow("a b c d -> e: quorum 3").await;
    flow.fail("a").await;
    flow.comes_to("a=failed b=waiting c=waiting d=waiting e=waiting_dependencies").await;
    flow.fail("d").await;
    flow.comes_to("a=failed b=waiting c=waiting d=failed e=skipped").await;
}

pub async fn let_run_leaves_the_rest_running(harness: &Harness) {
    for policy in ["any_of let_run", "quorum 1 let_run"] {
        let flow = harness.flow(Sketch::from(&*format!("a b c -> e: {policy}"))).await;
        flow.complete("a").await;
        flow.comes_to("a=completed b=waiting c=waiting e=waiting").await;
        for name in ["b", "c", "e"] {
            flow.complete(name).await;
        }
        assert_eq!(flow.ends().await, FlowState::Completed);
    }
}

pub async fn a_satisfied_group_cancels_siblings_in_every_state(harness: &Harness) {
    let sketch = Sketch::from("x -> blocked; ready delayed leased blocked won -> e: any_of");
    let flow = harness.flow(sketch.node("delayed", |one| one.delay = Some(When::AfterMs(3_600_000)))).await;
    flow.claim("leased").await;
    flow.complete("won").await;
    let expected = "blocked=cancelled delayed=cancelled e=waiting leased=cancelled ready=cancelled won=completed x=waiting";
    flow.comes_to(expected).await;
    let join = flow.row("e").await.join.expect("it has edges");
    let counts = [Resolution::Holds, Resolution::Dead, Resolution::Pending].map(|one| join.count(one));
    assert_eq!(counts, [1, 4, 0], "what came late was counted too");
}

pub async fn a_sibling_that_another_undecided_group_needs_is_left_alone(harness: &Harness) {
    let flow = harness.flow("a b c -> e: any_of; b x -> f").await;
    flow.complete("a").await;
    flow.comes_to("a=completed b=waiting c=cancelled e=waiting f=waiting_dependencies x=waiting").await;
    flow.complete("b").await;
    flow.complete("x").await;
    flow.comes_to("a=completed b=completed c=cancelled e=waiting f=waiting x=completed").await;
}

pub async fn a_sibling_is_cancelled_once_the_other_group_has_decided_too(harness: &Harness) {
    let flow = harness.flow("a b -> e: any_of; c b -> f: any_of; b -> g; x -> g").await;
    flow.fail("x").await;
    flow.comes_to(
        "a=waiting b=waiting c=waiting e=waiting_dependencies f=waiting_dependencies g=skipped x=failed",
    )
    .await;
    flow.complete("a").await;
    flow.comes_to("a=completed b=waiting c=waiting e=waiting f=waiting_dependencies g=skipped x=failed")
        .await;
    flow.complete("c").await;
    flow.comes_to("a=completed b=cancelled c=completed e=waiting f=waiting g=skipped x=failed").await;
}

pub async fn a_group_that_comes_to_need_a_sibling_before_it_is_cancelled_keeps_it(harness: &Harness) {
    let harness = &harness.elsewhere();
    let flow = harness.flow("a b -> e: any_of").await;
    flow.complete("a").await;
    assert!(matches!(flow.dispatch("a", OutboxKind::Edges).await, Dispatched::Advanced { .. }));
    flow.grow("b -> f").await;
    flow.comes_to("a=completed b=waiting e=waiting f=waiting_dependencies").await;
    flow.complete("b").await;
    flow.comes_to("a=completed b=completed e=waiting f=waiting").await;
}

pub async fn siblings_that_ended_meanwhile_are_not_touched(harness: &Harness) {
    let harness = &harness.elsewhere();
    let flow = harness.flow("a b c -> e: any_of").await;
    flow.complete("a").await;
    flow.dispatch("a", OutboxKind::Edges).await;
    flow.complete("b").await;
    flow.fail("c").await;
    let before = [flow.row("b").await, flow.row("c").await];
    flow.dispatch("e", OutboxKind::Siblings).await;
    assert_eq!([flow.row("b").await, flow.row("c").await], before);
    flow.comes_to("a=completed b=completed c=failed e=waiting").await;
}

pub async fn a_decision_is_taken_once_however_many_arrive_after_it(harness: &Harness) {
    let flow = harness.flow("a b c -> e: any_of let_run").await;
    let claimed = [flow.claim("a").await, flow.claim("b").await, flow.claim("c").await];
    flow.report_and_tell(&claimed[0], Op::Complete { result: result("a") }).await;
    let decided = flow.row("e").await;
    let (decided_at, order) = (decided.version, decided.ready_order);
    flow.report_and_tell(&claimed[1], Op::Complete { result: result("b") }).await;
    flow.report_and_tell(&claimed[2], failure("c")).await;
    let row = flow.row("e").await;
    assert_eq!((row.version, row.ready_order), (decided_at + 2, order), "it heard, and that was all");
    let join = row.join.expect("it has edges");
    assert_eq!((join.count(Resolution::Holds), join.count(Resolution::Dead)), (2, 1));
    assert_eq!(join.decision, GroupDecision::Satisfied);
}

pub async fn upstreams_that_end_at_once_are_all_counted(harness: &Harness) {
    const UPSTREAMS: usize = 16;
    let names: Vec<String> = (0..UPSTREAMS).map(|index| format!("u{index}")).collect();
    for told in [true, false] {
        let flow = harness.flow(&*format!("{} -> e", names.join(" "))).await;
        let sides = super::side_by_side(UPSTREAMS, |side| {
            let (flow, name) = (flow.clone(), names[side].clone());
            async move {
                let claimed = flow.claim(&name).await;
                let op = Op::Complete { result: result(&name) };
                match told {
                    true => flow.report_and_tell(&claimed, op).await,
                    false => flow.report(&claimed, op).await,
                };
                if !told {
                    flow.harness.drain().await;
                }
            }
        });
        sides.await;
        harness.drain().await;
        let row = flow.row("e").await;
        assert_eq!(row.state, selvedge_core::State::Waiting, "{:?}", row.join);
        assert_eq!(flow.claim("e").await.upstreams.len(), UPSTREAMS);
    }
}
