//! The texts about ends: the error and the attempts, the operator and the reason, the limit, and the upstream.

use crate::causes::CAUSES;
use crate::scene::{Scene, Situation, now};
use selvedge_core::explain::{Code, Explanation, Reference, ReferenceKind};
use selvedge_core::fact::{self, Fact, LeaseRef, Next};
use selvedge_core::suspension::OnTimeout;
use selvedge_core::{LeaseId, Name, Outcome};
use uuid::Uuid;

fn message(explanation: &Explanation, code: Code) -> &str {
    let found = explanation.reasons.iter().find(|reason| reason.code == code);
    &found.unwrap_or_else(|| panic!("{code} is missing: {explanation:#?}")).message
}

fn lease() -> LeaseRef {
    let (worker, instance) = (Name::trusted("w"), Name::trusted("i"));
    LeaseRef { id: LeaseId(Uuid::from_u128(8)), epoch: 3, worker, instance }
}

#[test]
fn a_failed_execution_names_its_last_error_and_its_attempts() {
    let mut scene = Scene::new(Situation::Failed);
    (scene.row.epoch, scene.row.detail.retries) = (4, 3);
    let explanation = scene.explain();
    assert_eq!(explanation.state, "failed");
    assert_eq!(message(&explanation, Code::Ended), "It ended as failed after 4 attempts");
    assert_eq!(
        message(&explanation, Code::Failed),
        "Last error, of class transient, after 3 of 3 retries: boom"
    );
    assert_eq!(explanation.reasons[0].until, scene.row.delete_at());
}

#[test]
fn a_cancelled_execution_names_the_operator_and_the_reason() {
    let scene = Scene::new(Situation::Cancelled);
    assert_eq!(message(&scene.explain(), Code::Cancelled), "It was cancelled by ada: a typing error");
}

#[test]
fn a_cancellation_that_the_worker_carried_out_names_the_request() {
    let mut scene = Scene::new(Situation::Cancelled);
    scene.row.history = Default::default();
    let request =
        Fact::CancelRequested(fact::CancelRequested { reason: Some("too late".into()), until: now() });
    scene.record(request, Some("bob"));
    let next = Next::Terminal(Outcome::Cancelled);
    scene.record(Fact::Released(fact::Released { lease: lease(), next, digest: None }), None);
    assert_eq!(message(&scene.explain(), Code::Cancelled), "It was cancelled by bob: too late");
}

#[test]
fn an_expired_execution_names_the_limit() {
    let next = Next::Terminal(Outcome::Expired);
    let on_timeout = OnTimeout::Expire;
    for (fact, expected) in [
        (Fact::StartByPassed(fact::StartByPassed {}), "It did not start in time"),
        (Fact::DeadlinePassed(fact::DeadlinePassed { lease: None }), "Its deadline passed"),
        (
            Fact::LeaseExpired(fact::LeaseExpired { lease: lease(), next }),
            "3 workers died while running this without progress, and at most 5 further attempts were allowed",
        ),
        (
            Fact::SuspensionTimedOut(fact::SuspensionTimedOut { suspension: 1, on_timeout, next }),
            "Timed out after waiting 5 ms",
        ),
    ] {
        let mut scene = Scene::new(Situation::Expired);
        scene.row.detail.interruptions = 2;
        scene.row.detail.error = Some(crate::scene::error("timed out after waiting 5 ms"));
        scene.row.history = Default::default();
        scene.record(fact, None);
        // A line that does not end the execution is passed over.
        scene.record(Fact::Tagged(fact::Tagged { set: Default::default(), remove: Vec::new() }), None);
        assert_eq!(message(&scene.explain(), Code::Expired), expected);
    }
}

#[test]
fn a_skipped_execution_names_the_upstream_with_its_outcome_and_error() {
    let mut scene = Scene::new(Situation::Skipped);
    for cause in CAUSES.iter().filter(|cause| cause.situations == [Situation::Skipped]) {
        (cause.set)(&mut scene);
    }
    let explanation = scene.explain();
    assert_eq!(message(&explanation, Code::Skipped), "It needed 1 upstream: 1 edge is dead");
    assert_eq!(
        message(&explanation, Code::UpstreamEnded),
        "Upstream “fetch” ended as failed (no route); its edge needs success"
    );
    assert_eq!(
        message(&explanation, Code::SkipOrigin),
        "The skipping began with “login”, which ended as failed"
    );
}

#[test]
fn a_line_names_its_head_and_whether_a_worker_can_run_it() {
    let mut scene = Scene::new(Situation::InLine);
    let head = CAUSES.iter().find(|cause| cause.code == Code::LineHead).expect("the head is a cause");
    (head.set)(&mut scene);
    let named = message(&scene.explain(), Code::LineHead).to_owned();
    assert!(named.ends_with("it is waiting for a worker, and 1 live worker can run it"), "{named}");
    scene.gates[0].active = 0;
    assert_eq!(scene.explain().reasons[0].code, Code::GateOpen, "the head has left, and the next moves up");
    scene.gates[0].active = 1;
    scene.sessions.clear();
    let explanation = scene.explain();
    let named = message(&explanation, Code::LineHead);
    assert!(named.ends_with("it is waiting for a worker, and no live worker can run it"), "{named}");
    let worker = explanation.reasons.iter().find(|reason| reason.code == Code::NoWorkerInLane);
    let lane = Reference::new(ReferenceKind::Lane, "default");
    assert_eq!(worker.and_then(|reason| reason.reference.clone()), Some(lane));
}

#[test]
fn a_reserve_above_the_limit_has_no_end_even_if_the_budget_resets() {
    let mut scene = Scene::new(Situation::Waiting);
    let cause = CAUSES.iter().find(|cause| cause.code == Code::ReserveExceedsLimit).expect("it is a cause");
    (cause.set)(&mut scene);
    scene.gates[0].state.resets_at = Some(now().plus_ms(1));
    let explanation = scene.explain();
    assert_eq!(
        (explanation.reasons[0].code, explanation.reasons[0].until),
        (Code::ReserveExceedsLimit, None)
    );
    assert_eq!(explanation.next_change, None);
}
