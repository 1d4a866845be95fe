//! Suspension through the engine: signals wake what waits, in one commit where a claim waits; no wake-up is lost.

use crate::side::{Side, claim_of, fence, ids};
use crate::{on_memory, soon};
use bytes::Bytes;
use selvedge_engine::Error;
use selvedge_engine::core::rules::claim::Claimed;
use selvedge_engine::core::rules::report::{Fence, Reported};
use selvedge_engine::core::rules::signal::{Delivered, SignalDraft};
use selvedge_engine::core::rules::waitpoint::WaitpointDraft;
use selvedge_engine::core::signal::Effect;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::suspension::{Condition, OnTimeout, WaitDraft};
use selvedge_engine::core::{Draft, ExecutionId, Name, Refusal, Signal};

fn name(text: &str) -> Name {
    Name::trusted(text)
}

fn signal(text: &str) -> Condition {
    Condition::signal(name(text))
}

async fn claimed(side: &Side) -> (ExecutionId, Claimed) {
    let id = side.submit(Draft::new("kind")).await;
    (id, side.claim_one("one").await)
}

async fn suspend(side: &Side, fence: Fence, wait: WaitDraft) -> Reported {
    let op = side.namespace.suspend(vec![wait], vec![]);
    side.report(fence, op).await.expect("it is suspended")
}

async fn send(side: &Side, id: ExecutionId, text: &str, payload: &'static str) -> Result<Delivered, Refusal> {
    let draft =
        SignalDraft { name: Some(text.into()), payload: Bytes::from_static(payload.as_bytes()), key: None };
    match side.namespace.signal(id, draft, &name("tester")).await {
        Ok(delivered) => Ok(delivered),
        Err(Error::Refused(refusal)) => Err(refusal),
        Err(other) => panic!("the signal is answered: {other}"),
    }
}

fn payloads(claimed: &Claimed) -> Vec<(String, String)> {
    let told = |signal: &Signal| {
        let payload = signal.payload.clone().unwrap_or_default().to_vec();
        (signal.name.to_string(), String::from_utf8(payload).expect("is text"))
    };
    claimed.signals.iter().map(told).collect()
}

fn told(signals: &[(&str, &str)]) -> Vec<(String, String)> {
    signals.iter().map(|(name, payload)| (name.to_string(), payload.to_string())).collect()
}

#[tokio::test]
async fn a_signal_resumes_and_hands_over_in_one_commit_when_a_claim_waits() {
    let (side, _) = on_memory().await;
    let (id, first) = claimed(&side).await;
    assert_eq!(suspend(&side, fence(&first), WaitDraft::new(signal("go"))).await.state, StateName::Suspended);
    let claim = side.claim_waiting(claim_of("two", 1), 1).await;
    let before = side.engine.store().log_after(0, 100).await.expect("the log is read").upto;
    let delivered = send(&side, id, "go", "{\"a\":1}").await.expect("it is delivered");
    assert_eq!(delivered.effect, Effect::Resumed);
    let again = soon(claim).await.expect("it is answered");
    assert_eq!(ids(&again), [id]);
    assert_eq!(payloads(&again[0]), told(&[("go", "{\"a\":1}")]));
    let log = side.engine.store().log_after(before, 10).await.expect("the log is read").entries;
    assert_eq!(log.len(), 1, "one commit");
    side.complete(fence(&again[0])).await.expect("it holds the lease");
}

#[tokio::test]
async fn a_signal_that_came_first_lets_the_suspension_end_at_once() {
    let (side, _) = on_memory().await;
    let (id, first) = claimed(&side).await;
    assert_eq!(send(&side, id, "go", "1").await.expect("it is delivered").effect, Effect::Buffered);
    assert_eq!(suspend(&side, fence(&first), WaitDraft::new(signal("go"))).await.state, StateName::Waiting);
    let again = side.claim_one("one").await;
    assert_eq!(payloads(&again), told(&[("go", "1")]));
}

#[tokio::test]
async fn a_suspension_that_times_out_resumes_with_a_signal_that_says_so() {
    let (side, clock) = on_memory().await;
    let (id, first) = claimed(&side).await;
    let wait = WaitDraft {
        timeout_ms: Some(1000),
        on_timeout: OnTimeout::Resume,
        ..WaitDraft::new(Condition::All(vec![signal("a"), signal("b")]))
    };
    suspend(&side, fence(&first), wait).await;
    assert_eq!(send(&side, id, "a", "1").await.expect("it is delivered").effect, Effect::Counted);
    assert_eq!(side.tick("suspension_timeout").await.done, 0);
    clock.advance_ms(1000);
    assert_eq!(side.tick("suspension_timeout").await.done, 1);
    let again = side.claim_one("one").await;
    assert_eq!(payloads(&again), told(&[("a", "1"), ("timeout", "null")]));
}

#[tokio::test]
async fn a_time_resumes_and_a_deadline_ends() {
    let (side, clock) = on_memory().await;
    let (id, first) = claimed(&side).await;
    suspend(&side, fence(&first), WaitDraft::new(Condition::until(When::AfterMs(500)))).await;
    clock.advance_ms(500);
    assert_eq!(side.tick("delay_promoter").await.done, 1);
    assert_eq!(side.state(id).await, StateName::Waiting);
}

#[tokio::test]
async fn a_token_delivers_once_and_a_repeat_gets_the_first_answer() {
    let (side, _) = on_memory().await;
    let (id, first) = claimed(&side).await;
    let op = side
        .namespace
        .suspend(vec![WaitDraft::new(signal("approval"))], vec![WaitpointDraft::new(name("approval"))]);
    let reported = side.report(fence(&first), op.clone()).await.expect("it is suspended");
    let again = side.report(fence(&first), op).await.expect("the same answer");
    assert_eq!(reported, again);
    let waitpoint = &reported.waitpoints[0];
    let token = side.namespace.token(waitpoint);
    let draft = |payload: &'static str| SignalDraft { name: None, payload: payload.into(), key: None };
    let delivered = side.engine.deliver(waitpoint.id, &token, draft("1")).await.expect("it is delivered");
    assert_eq!((delivered.effect, delivered.duplicate), (Effect::Resumed, false));
    let delivered = side.engine.deliver(waitpoint.id, &token, draft("2")).await.expect("it is answered");
    assert_eq!((delivered.effect, delivered.duplicate), (Effect::Resumed, true));
    assert_eq!(side.row(id).await.detail.record.signals, 1);
    let events = side.events(id).await;
    assert!(events.contains(&"execution.resumed"), "{events:?}");
}
