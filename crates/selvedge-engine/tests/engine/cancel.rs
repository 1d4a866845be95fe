//! Cancel: at once, or with a grace period in which the worker is told and may still finish.

use crate::side::{Side, done, failed, fence};
use crate::{LONG, on_memory, soon, until};
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::{Fence, Op};
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::{Draft, ExecutionId};
use selvedge_memory::Clock;

fn with_grace(grace_ms: i64) -> Action {
    Action::Cancel { reason: Some("enough".into()), grace_ms }
}

/// A leased execution whose worker is asked to cancel within five seconds.
async fn asked() -> (Side, Clock, ExecutionId, Fence) {
    let (side, clock) = on_memory().await;
    let id = side.submit(Draft::new("kind")).await;
    let lease = fence(&side.claim_one("one").await);
    side.operate(id, with_grace(5000)).await.expect("it is asked");
    (side, clock, id, lease)
}

#[tokio::test]
async fn a_worker_is_told_at_once_that_it_is_asked_to_cancel() {
    let (side, _) = on_memory().await;
    let id = side.submit(Draft::new("kind")).await;
    let lease = fence(&side.claim_one("one").await);
    let namespace = side.namespace.clone();
    let beat = tokio::spawn(async move { namespace.heartbeat("one", vec![lease], 3 * LONG).await });
    until("the heartbeat waits", async || side.engine.activity().0 >= 3).await;
    side.operate(id, with_grace(5000)).await.expect("it is asked");
    let told = soon(beat).await.expect("it does not panic").expect("it is answered");
    assert_eq!((told.renewed, told.cancel_requested), (vec![lease], vec![lease]));
    assert_eq!(side.state(id).await, StateName::Active);
    assert!(side.events(id).await.contains(&"execution.cancel_requested"));
}

#[tokio::test]
async fn a_completion_within_the_grace_period_is_a_success() {
    let (side, clock, id, lease) = asked().await;
    clock.advance_ms(4999);
    side.tick("execution_deadline").await;
    side.complete(lease).await.expect("it may still finish");
    assert_eq!(side.state(id).await, StateName::Completed);
    clock.advance_ms(9999);
    assert_eq!(side.tick("execution_deadline").await.scanned, 0);
}

#[tokio::test]
async fn when_the_grace_period_is_over_it_is_cancelled() {
    let (side, clock, id, lease) = asked().await;
    clock.advance_ms(5000);
    assert_eq!(side.tick("execution_deadline").await.done, 1);
    assert_eq!(side.state(id).await, StateName::Cancelled);
    assert_eq!(side.attempts(id).await, [Some("cancelled")]);
    assert_eq!(side.complete(lease).await.expect_err("it has ended").code(), "stale_lease");
    let events = side.namespace.execution_events(id).await.expect("its events are read");
    let last = events.last().expect("there are some");
    assert_eq!((last.kind, last.actor.as_deref()), ("execution.cancelled", Some("operator")));
}

#[tokio::test]
async fn whatever_ends_the_attempt_within_the_grace_period_but_success_cancels_it() {
    let put_off = Op::Delay { until: When::AfterMs(1) };
    for op in [failed(), Op::Release, put_off] {
        let (side, _, id, lease) = asked().await;
        let reported = side.report(lease, op).await.expect("it holds the lease");
        assert_eq!(reported.state, StateName::Cancelled);
        assert_eq!(side.state(id).await, StateName::Cancelled);
    }
    let (side, clock, id, _) = asked().await;
    side.operate(id, Action::Revoke { reason: None }).await.expect("it is revoked");
    assert_eq!(side.state(id).await, StateName::Cancelled);
    let (side, _, id, _) = asked().await;
    side.namespace.remove_worker("one").await.expect("it is known");
    assert_eq!(side.state(id).await, StateName::Cancelled);
    clock.advance_ms(1);
}

#[tokio::test]
async fn a_shorter_grace_period_takes_the_place_of_a_longer_one_and_no_other_does() {
    let (side, clock, id, _) = asked().await;
    let version = side.row(id).await.version;
    side.operate(id, with_grace(60_000)).await.expect("it is asked already");
    assert_eq!(side.row(id).await.version, version);
    side.operate(id, with_grace(10)).await.expect("it is asked");
    clock.advance_ms(10);
    assert_eq!(side.tick("execution_deadline").await.done, 1);
    assert_eq!(side.state(id).await, StateName::Cancelled);
}

#[tokio::test]
async fn what_waits_is_cancelled_at_once_whatever_the_grace_period() {
    let (side, _) = on_memory().await;
    let ready = side.submit(Draft::new("kind")).await;
    let delayed = side.submit(Draft { delay: Some(When::AfterMs(9)), ..Draft::new("kind") }).await;
    for id in [ready, delayed] {
        side.operate(id, with_grace(5000)).await.expect("it is cancelled");
        assert_eq!(side.state(id).await, StateName::Cancelled);
        let version = side.row(id).await.version;
        side.cancel(id).await.expect("it is cancelled already");
        assert_eq!(side.row(id).await.version, version);
    }
}

#[tokio::test]
async fn what_has_ended_otherwise_cannot_be_cancelled() {
    let (side, _) = on_memory().await;
    let id = side.submit(Draft::new("kind")).await;
    let lease = fence(&side.claim_one("one").await);
    side.report(lease, done()).await.expect("it holds the lease");
    assert_eq!(side.cancel(id).await.expect_err("it has ended").code(), "already_terminal");
    assert_eq!(side.state(id).await, StateName::Completed);
}
