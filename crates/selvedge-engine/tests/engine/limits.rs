//! What time does: delays, timeouts, deadlines, start-bys, lapsed leases, and the limits on retries and interruptions.

use crate::side::{Side, done, failed, fence};
use crate::{on_memory, with};
use selvedge_engine::Tally;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::{Backoff, Draft, ExecutionId, FailureClass, Outcome, Policy, Retry, State};

const IDLE: Tally = Tally { ticks: 1, scanned: 0, done: 0, filtered: 0, lost: 0, errors: 0, panics: 0 };

fn retrying(max_retries: u32, max_interruptions: u32) -> Policy {
    let backoff = Backoff::Fixed { delay_ms: 1000 };
    Policy {
        retry: Retry { max_retries, max_interruptions, backoff, ..Retry::default() },
        ..Policy::default()
    }
}

async fn is_ended(side: &Side, id: ExecutionId, outcome: Outcome) {
    assert_eq!(side.row(id).await.state, State::Terminal(outcome));
    assert!(side.claim("late", 9).await.is_empty(), "what has ended is not claimed");
}

#[tokio::test]
async fn a_delayed_execution_becomes_ready_when_its_delay_is_over_and_not_before() {
    let (side, clock) = on_memory().await;
    let id = side.submit(Draft { delay: Some(When::AfterMs(1000)), ..Draft::new("kind") }).await;
    clock.advance_ms(999);
    assert_eq!(side.tick("delay_promoter").await, IDLE);
    assert!(side.claim("one", 1).await.is_empty());
    clock.advance_ms(1);
    assert_eq!(side.tick("delay_promoter").await.done, 1);
    assert_eq!(side.claim_one("one").await.execution.id, id);
    assert_eq!(side.tick("delay_promoter").await, IDLE);
}

#[tokio::test]
async fn a_retry_waits_for_its_back_off_and_the_last_one_ends_as_failed() {
    let (side, clock) = on_memory().await;
    let id = side.submit(with(retrying(2, 100))).await;
    for retries in 1..=2 {
        let lease = fence(&side.claim_one("one").await);
        assert_eq!(side.report(lease, failed()).await.expect("it holds the lease").state, StateName::Delayed);
        assert_eq!(side.row(id).await.detail.retries, retries);
        clock.advance_ms(999);
        assert_eq!(side.tick("delay_promoter").await, IDLE);
        assert!(side.claim("one", 1).await.is_empty(), "the back-off is not bypassed");
        clock.advance_ms(1);
        side.tick("delay_promoter").await;
    }
    let lease = fence(&side.claim_one("one").await);
    assert_eq!(side.report(lease, failed()).await.expect("it holds the lease").state, StateName::Failed);
    is_ended(&side, id, Outcome::Failed).await;
    assert_eq!(side.attempts(id).await, [Some("failed"); 3]);
}

#[tokio::test]
async fn a_permanent_failure_is_not_retried_and_a_worker_may_name_the_wait_itself() {
    let (side, clock) = on_memory().await;
    let id = side.submit(with(retrying(9, 100))).await;
    let fail = |class, retry_after_ms| Op::Fail { message: "no".into(), class, retry_after_ms };
    let lease = fence(&side.claim_one("one").await);
    side.report(lease, fail(FailureClass::Transient, Some(5))).await.expect("it holds the lease");
    clock.advance_ms(5);
    assert_eq!(side.tick("delay_promoter").await.done, 1);
    let lease = fence(&side.claim_one("one").await);
    side.report(lease, fail(FailureClass::Permanent, Some(5))).await.expect("it holds the lease");
    is_ended(&side, id, Outcome::Failed).await;
}

#[tokio::test]
async fn an_attempt_that_runs_too_long_is_retried_however_well_it_renews_and_the_last_one_fails() {
    let (side, clock) = on_memory().await;
    let policy = Policy { attempt_timeout_ms: Some(60_000), ..retrying(1, 100) };
    let id = side.submit(with(policy)).await;
    for (attempt, state) in [StateName::Delayed, StateName::Failed].into_iter().enumerate() {
        let lease = fence(&side.claim_one("one").await);
        for _ in 0..5 {
            clock.advance_ms(10_000);
            assert_eq!(side.beat("one", &[lease]).await.renewed, [lease]);
            assert_eq!(side.tick("attempt_timeout").await, IDLE);
        }
        clock.advance_ms(10_000);
        assert_eq!(side.tick("attempt_timeout").await.done, 1);
        assert_eq!(side.state(id).await, state);
        assert_eq!(side.complete(lease).await.expect_err("it was taken away").code(), "stale_lease");
        assert_eq!(side.attempts(id).await, vec![Some("timeout"); attempt + 1]);
        clock.advance_ms(1000);
        side.tick("delay_promoter").await;
    }
    let error = side.row(id).await.detail.error.expect("it says why");
    assert_eq!(error.class, FailureClass::Timeout);
    is_ended(&side, id, Outcome::Failed).await;
}

#[tokio::test]
async fn a_deadline_ends_an_execution_as_expired_whether_it_waits_is_delayed_or_runs() {
    let (side, clock) = on_memory().await;
    let policy = Policy { deadline_ms: Some(5000), ..Policy::default() };
    let runs = side.submit(with(policy.clone())).await;
    let lease = fence(&side.claim_one("one").await);
    let waits = side.submit(with(policy.clone())).await;
    let delayed = side.submit(Draft { delay: Some(When::AfterMs(60_000)), ..with(policy) }).await;
    clock.advance_ms(4999);
    assert_eq!(side.tick("execution_deadline").await, IDLE);
    clock.advance_ms(1);
    assert_eq!(side.tick("execution_deadline").await.done, 3);
    for id in [runs, waits, delayed] {
        is_ended(&side, id, Outcome::Expired).await;
    }
    assert_eq!(side.complete(lease).await.expect_err("it has ended").code(), "stale_lease");
    assert_eq!(side.beat("one", &[lease]).await.lost.len(), 1);
}

#[tokio::test]
async fn one_that_has_not_started_by_its_time_expires_and_one_that_has_does_not() {
    let (side, clock) = on_memory().await;
    let policy = Policy { start_by_ms: Some(1000), ..Policy::default() };
    let [started, waits] = side.submit_many(vec![with(policy); 2]).await[..] else { panic!("two") };
    let lease = fence(&side.claim_one("one").await);
    side.report(lease, Op::Release).await.expect("it holds the lease");
    clock.advance_ms(1000);
    assert_eq!(side.tick("execution_deadline").await.done, 1);
    assert_eq!(side.state(waits).await, StateName::Expired);
    assert_eq!(side.claim_one("two").await.execution.id, started);
}

#[tokio::test]
async fn without_interruptions_an_execution_is_run_at_most_once() {
    let (side, clock) = on_memory().await;
    let id = side.submit(with(retrying(3, 0))).await;
    side.claim_one("dies").await;
    clock.advance_ms(30_001);
    assert_eq!(side.tick("lease_expiry").await.done, 1);
    is_ended(&side, id, Outcome::Expired).await;
    assert_eq!(side.attempts(id).await, [Some("interrupted")]);
}

#[tokio::test]
async fn an_interruption_costs_no_retry_is_at_once_ready_and_backs_off_from_the_second_on() {
    let (side, clock) = on_memory().await;
    let id = side.submit(with(retrying(0, 2))).await;
    for state in [StateName::Waiting, StateName::Delayed, StateName::Expired] {
        side.claim_one("dies").await;
        clock.advance_ms(30_001);
        assert_eq!(side.tick("lease_expiry").await.done, 1);
        let row = side.row(id).await;
        assert_eq!((row.state.name(), row.detail.retries), (state, 0));
        clock.advance_ms(1000);
        side.tick("delay_promoter").await;
    }
    is_ended(&side, id, Outcome::Expired).await;
}

#[tokio::test]
async fn a_lease_lives_while_its_worker_names_it_and_lapses_when_nobody_does() {
    let (side, clock) = on_memory().await;
    let [named, unnamed] = side.submit_many(vec![Draft::new("kind"); 2]).await[..] else { panic!("two") };
    let lease = fence(&side.claim_one("one").await);
    let brief = crate::side::claim_of("brief", 1);
    assert_eq!(side.claim_as(brief).await[0].execution.id, unnamed);
    for _ in 0..4 {
        clock.advance_ms(10_000);
        side.beat("one", &[lease]).await;
        // Claims alone renew nothing.
        assert!(side.claim("brief", 1).await.is_empty());
    }
    let tick = side.tick("lease_expiry").await;
    assert_eq!((tick.scanned, tick.done), (1, 1));
    assert_eq!(side.state(unnamed).await, StateName::Waiting);
    assert_eq!(side.state(named).await, StateName::Active);
    side.report(lease, done()).await.expect("it holds the lease");
}
