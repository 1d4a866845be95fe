//! Cancel: at once, or with a grace period in which the worker is asked to cancel and may still complete.

use crate::test_server::{TestServer, complete_op, fail_op, fence};
use crate::{TIMEOUT, memory_server, soon, until};
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::{Fence, Op};
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::{Draft, ExecutionId};
use selvedge_memory::Clock;

fn cancel_with_grace(grace_ms: i64) -> Action {
    Action::Cancel { reason: Some("enough".into()), grace_ms }
}

/// Returns an active execution whose worker is asked to cancel within five seconds.
async fn cancel_requested() -> (TestServer, Clock, ExecutionId, Fence) {
    let (server, clock) = memory_server().await;
    let id = server.submit(Draft::new("kind")).await;
    let lease = fence(&server.claim_one("one").await);
    server.operate(id, cancel_with_grace(5000)).await.expect("the cancel request is accepted");
    (server, clock, id, lease)
}

#[tokio::test]
async fn a_waiting_heartbeat_returns_a_cancel_request_at_once() {
    let (server, _) = memory_server().await;
    let id = server.submit(Draft::new("kind")).await;
    let lease = fence(&server.claim_one("one").await);
    let namespace = server.namespace.clone();
    let beat = tokio::spawn(async move { namespace.heartbeat("one", None, vec![lease], 3 * TIMEOUT).await });
    until("the heartbeat waits", async || server.engine.activity().0 >= 3).await;
    server.operate(id, cancel_with_grace(5000)).await.expect("the cancel request is accepted");
    let heartbeat = soon(beat).await.expect("the task does not panic").expect("the heartbeat is answered");
    assert_eq!((heartbeat.renewed, heartbeat.cancel_requested), (vec![lease], vec![lease]));
    assert_eq!(server.state(id).await, StateName::Active);
    assert!(server.events(id).await.contains(&"execution.cancel_requested"));
}

#[tokio::test]
async fn a_completion_within_the_grace_period_completes_the_execution() {
    let (server, clock, id, lease) = cancel_requested().await;
    clock.advance_ms(4999);
    server.tick("execution_deadline").await;
    server.complete(lease).await.expect("the lease is current");
    assert_eq!(server.state(id).await, StateName::Completed);
    clock.advance_ms(9999);
    assert_eq!(server.tick("execution_deadline").await.scanned, 0);
}

#[tokio::test]
async fn the_execution_is_cancelled_when_the_grace_period_ends() {
    let (server, clock, id, lease) = cancel_requested().await;
    clock.advance_ms(5000);
    assert_eq!(server.tick("execution_deadline").await.done, 1);
    assert_eq!(server.state(id).await, StateName::Cancelled);
    assert_eq!(server.attempts(id).await, [Some("cancelled")]);
    assert_eq!(server.complete(lease).await.expect_err("the execution has ended").code(), "stale_lease");
    let events = server.namespace.execution_events(id).await.expect("the events are read");
    let last = events.last().expect("there are events");
    assert_eq!((last.kind, last.actor.as_deref()), ("execution.cancelled", Some("operator")));
}

#[tokio::test]
async fn every_end_of_the_attempt_within_the_grace_period_except_completion_cancels_the_execution() {
    let delay = Op::Delay { until: When::AfterMs(1) };
    for op in [fail_op(), Op::Release, delay] {
        let (server, _, id, lease) = cancel_requested().await;
        let reported = server.report(lease, op).await.expect("the lease is current");
        assert_eq!(reported.state, StateName::Cancelled);
        assert_eq!(server.state(id).await, StateName::Cancelled);
    }
    let (server, clock, id, _) = cancel_requested().await;
    server.operate(id, Action::Revoke { reason: None }).await.expect("the lease is revoked");
    assert_eq!(server.state(id).await, StateName::Cancelled);
    let (server, _, id, _) = cancel_requested().await;
    server.namespace.remove_worker("one", None).await.expect("the worker is known");
    assert_eq!(server.state(id).await, StateName::Cancelled);
    clock.advance_ms(1);
}

#[tokio::test]
async fn only_a_shorter_grace_period_replaces_the_current_one() {
    let (server, clock, id, _) = cancel_requested().await;
    let version = server.row(id).await.version;
    server.operate(id, cancel_with_grace(60_000)).await.expect("the second cancel request is accepted");
    assert_eq!(server.row(id).await.version, version);
    server.operate(id, cancel_with_grace(10)).await.expect("the cancel request is accepted");
    clock.advance_ms(10);
    assert_eq!(server.tick("execution_deadline").await.done, 1);
    assert_eq!(server.state(id).await, StateName::Cancelled);
}

#[tokio::test]
async fn waiting_and_delayed_executions_are_cancelled_at_once_despite_a_grace_period() {
    let (server, _) = memory_server().await;
    let waiting = server.submit(Draft::new("kind")).await;
    let delayed = server.submit(Draft { delay: Some(When::AfterMs(9)), ..Draft::new("kind") }).await;
    for id in [waiting, delayed] {
        server.operate(id, cancel_with_grace(5000)).await.expect("the execution is cancelled");
        assert_eq!(server.state(id).await, StateName::Cancelled);
        let version = server.row(id).await.version;
        server.cancel(id).await.expect("cancelling again is accepted");
        assert_eq!(server.row(id).await.version, version);
    }
}

#[tokio::test]
async fn a_completed_execution_cannot_be_cancelled() {
    let (server, _) = memory_server().await;
    let id = server.submit(Draft::new("kind")).await;
    let lease = fence(&server.claim_one("one").await);
    server.report(lease, complete_op()).await.expect("the lease is current");
    assert_eq!(server.cancel(id).await.expect_err("the execution has ended").code(), "already_terminal");
    assert_eq!(server.state(id).await, StateName::Completed);
}
