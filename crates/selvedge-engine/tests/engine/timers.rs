//! Everything that time causes: delays, timeouts, deadlines, start-by times, expired leases, and the limits on retries
//! and interruptions.

use crate::test_server::{TestServer, complete_op, fail_op, fence};
use crate::{draft_with, memory_server};
use selvedge_engine::Tally;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::{Backoff, Draft, ExecutionId, FailureClass, Outcome, Policy, Retry, State};

/// The tally of a tick that found nothing.
const IDLE: Tally = Tally { ticks: 1, scanned: 0, done: 0, filtered: 0, superseded: 0, errors: 0, panics: 0 };

fn retrying(max_retries: u32, max_interruptions: u32) -> Policy {
    let backoff = Backoff::Fixed { delay_ms: 1000 };
    Policy {
        retry: Retry { max_retries, max_interruptions, backoff, ..Retry::default() },
        ..Policy::default()
    }
}

/// Asserts that an execution is terminal and not claimable.
async fn assert_ended(server: &TestServer, id: ExecutionId, outcome: Outcome) {
    assert_eq!(server.row(id).await.state, State::Terminal(outcome));
    assert!(server.claim("late", 9).await.is_empty(), "a terminal execution is not claimable");
}

#[tokio::test]
async fn a_delayed_execution_becomes_claimable_when_its_delay_is_over_and_not_before() {
    let (server, clock) = memory_server().await;
    let id = server.submit(Draft { delay: Some(When::AfterMs(1000)), ..Draft::new("kind") }).await;
    clock.advance_ms(999);
    assert_eq!(server.tick("delay_promoter").await, IDLE);
    assert!(server.claim("one", 1).await.is_empty());
    clock.advance_ms(1);
    assert_eq!(server.tick("delay_promoter").await.done, 1);
    assert_eq!(server.claim_one("one").await.execution.id, id);
    assert_eq!(server.tick("delay_promoter").await, IDLE);
}

#[tokio::test]
async fn a_retry_waits_for_its_back_off_and_the_last_failure_fails_the_execution() {
    let (server, clock) = memory_server().await;
    let id = server.submit(draft_with(retrying(2, 100))).await;
    for retries in 1..=2 {
        let lease = fence(&server.claim_one("one").await);
        assert_eq!(
            server.report(lease, fail_op()).await.expect("the lease is current").state,
            StateName::Delayed
        );
        assert_eq!(server.row(id).await.detail.retries, retries);
        clock.advance_ms(999);
        assert_eq!(server.tick("delay_promoter").await, IDLE);
        assert!(server.claim("one", 1).await.is_empty(), "the back-off is not bypassed");
        clock.advance_ms(1);
        server.tick("delay_promoter").await;
    }
    let lease = fence(&server.claim_one("one").await);
    assert_eq!(server.report(lease, fail_op()).await.expect("the lease is current").state, StateName::Failed);
    assert_ended(&server, id, Outcome::Failed).await;
    assert_eq!(server.attempts(id).await, [Some("failed"); 3]);
}

#[tokio::test]
async fn a_permanent_failure_is_not_retried_and_a_worker_may_set_the_retry_delay() {
    let (server, clock) = memory_server().await;
    let id = server.submit(draft_with(retrying(9, 100))).await;
    let fail = |class, retry_after_ms| Op::Fail { message: "no".into(), class, retry_after_ms };
    let lease = fence(&server.claim_one("one").await);
    server.report(lease, fail(FailureClass::Transient, Some(5))).await.expect("the lease is current");
    clock.advance_ms(5);
    assert_eq!(server.tick("delay_promoter").await.done, 1);
    let lease = fence(&server.claim_one("one").await);
    server.report(lease, fail(FailureClass::Permanent, Some(5))).await.expect("the lease is current");
    assert_ended(&server, id, Outcome::Failed).await;
}

#[tokio::test]
async fn an_attempt_that_exceeds_its_timeout_is_retried_despite_renewals_and_the_last_one_fails() {
    let (server, clock) = memory_server().await;
    let policy = Policy { attempt_timeout_ms: Some(60_000), ..retrying(1, 100) };
    let id = server.submit(draft_with(policy)).await;
    for (attempt, state) in [StateName::Delayed, StateName::Failed].into_iter().enumerate() {
        let lease = fence(&server.claim_one("one").await);
        for _ in 0..5 {
            clock.advance_ms(10_000);
            assert_eq!(server.heartbeat("one", &[lease]).await.renewed, [lease]);
            assert_eq!(server.tick("attempt_timeout").await, IDLE);
        }
        clock.advance_ms(10_000);
        assert_eq!(server.tick("attempt_timeout").await.done, 1);
        assert_eq!(server.state(id).await, state);
        assert_eq!(server.complete(lease).await.expect_err("the lease was lost").code(), "stale_lease");
        assert_eq!(server.attempts(id).await, vec![Some("timeout"); attempt + 1]);
        clock.advance_ms(1000);
        server.tick("delay_promoter").await;
    }
    let error = server.row(id).await.detail.error.expect("the error is recorded");
    assert_eq!(error.class, FailureClass::Timeout);
    assert_ended(&server, id, Outcome::Failed).await;
}

#[tokio::test]
async fn a_deadline_expires_waiting_delayed_and_active_executions() {
    let (server, clock) = memory_server().await;
    let policy = Policy { deadline_ms: Some(5000), ..Policy::default() };
    let active = server.submit(draft_with(policy.clone())).await;
    let lease = fence(&server.claim_one("one").await);
    let waiting = server.submit(draft_with(policy.clone())).await;
    let delayed = server.submit(Draft { delay: Some(When::AfterMs(60_000)), ..draft_with(policy) }).await;
    clock.advance_ms(4999);
    assert_eq!(server.tick("execution_deadline").await, IDLE);
    clock.advance_ms(1);
    assert_eq!(server.tick("execution_deadline").await.done, 3);
    for id in [active, waiting, delayed] {
        assert_ended(&server, id, Outcome::Expired).await;
    }
    assert_eq!(server.complete(lease).await.expect_err("the execution has ended").code(), "stale_lease");
    assert_eq!(server.heartbeat("one", &[lease]).await.lost.len(), 1);
}

#[tokio::test]
async fn start_by_expires_an_execution_that_has_not_started_and_no_other() {
    let (server, clock) = memory_server().await;
    let policy = Policy { start_by_ms: Some(1000), ..Policy::default() };
    let [started, waiting] = server.submit_many(vec![draft_with(policy); 2]).await[..] else {
        panic!("two executions")
    };
    let lease = fence(&server.claim_one("one").await);
    server.report(lease, Op::Release).await.expect("the lease is current");
    clock.advance_ms(1000);
    assert_eq!(server.tick("execution_deadline").await.done, 1);
    assert_eq!(server.state(waiting).await, StateName::Expired);
    assert_eq!(server.claim_one("two").await.execution.id, started);
}

#[tokio::test]
async fn with_zero_interruptions_allowed_an_execution_runs_at_most_once() {
    let (server, clock) = memory_server().await;
    let id = server.submit(draft_with(retrying(3, 0))).await;
    server.claim_one("dies").await;
    clock.advance_ms(30_001);
    assert_eq!(server.tick("lease_expiry").await.done, 1);
    assert_ended(&server, id, Outcome::Expired).await;
    assert_eq!(server.attempts(id).await, [Some("interrupted")]);
}

#[tokio::test]
async fn an_interruption_costs_no_retry_and_backs_off_from_the_second_on() {
    let (server, clock) = memory_server().await;
    let id = server.submit(draft_with(retrying(0, 2))).await;
    for state in [StateName::Waiting, StateName::Delayed, StateName::Expired] {
        server.claim_one("dies").await;
        clock.advance_ms(30_001);
        assert_eq!(server.tick("lease_expiry").await.done, 1);
        let row = server.row(id).await;
        assert_eq!((row.state.name(), row.detail.retries), (state, 0));
        clock.advance_ms(1000);
        server.tick("delay_promoter").await;
    }
    assert_ended(&server, id, Outcome::Expired).await;
}

#[tokio::test]
async fn a_lease_lives_while_heartbeats_name_it_and_expires_otherwise() {
    let (server, clock) = memory_server().await;
    let [named, unnamed] = server.submit_many(vec![Draft::new("kind"); 2]).await[..] else {
        panic!("two executions")
    };
    let lease = fence(&server.claim_one("one").await);
    let claim = crate::test_server::claim_of("silent", 1);
    assert_eq!(server.claim_as(claim).await[0].execution.id, unnamed);
    for _ in 0..4 {
        clock.advance_ms(10_000);
        server.heartbeat("one", &[lease]).await;
        // A claim does not renew the session.
        assert!(server.claim("silent", 1).await.is_empty());
    }
    let tick = server.tick("lease_expiry").await;
    assert_eq!((tick.scanned, tick.done), (1, 1));
    assert_eq!(server.state(unnamed).await, StateName::Waiting);
    assert_eq!(server.state(named).await, StateName::Active);
    server.report(lease, complete_op()).await.expect("the lease is current");
}
