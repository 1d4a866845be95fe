//! Suspension through the engine: signals and times resume an execution, in one commit with its claim if one waits.

use crate::test_server::{TestServer, claim_of, fence, ids};
use crate::{faulty_server, memory_server, soon};
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

/// Submits an execution and claims it.
async fn submit_and_claim(server: &TestServer) -> (ExecutionId, Claimed) {
    let id = server.submit(Draft::new("kind")).await;
    (id, server.claim_one("one").await)
}

async fn suspend(server: &TestServer, fence: Fence, wait: WaitDraft) -> Reported {
    let op = server.namespace.suspend(vec![wait], vec![]);
    server.report(fence, op).await.expect("the execution is suspended")
}

async fn send(
    server: &TestServer,
    id: ExecutionId,
    text: &str,
    payload: &'static str,
) -> Result<Delivered, Refusal> {
    let draft =
        SignalDraft { name: Some(text.into()), payload: Bytes::from_static(payload.as_bytes()), key: None };
    match server.namespace.signal(id, draft, &name("tester")).await {
        Ok(delivered) => Ok(delivered),
        Err(Error::Refused(refusal)) => Err(refusal),
        Err(other) => panic!("the signal is answered: {other}"),
    }
}

fn payloads(claimed: &Claimed) -> Vec<(String, String)> {
    let name_and_payload = |signal: &Signal| {
        let payload = signal.payload.clone().unwrap_or_default().to_vec();
        (signal.name.to_string(), String::from_utf8(payload).expect("the payload is text"))
    };
    claimed.signals.iter().map(name_and_payload).collect()
}

fn expected(signals: &[(&str, &str)]) -> Vec<(String, String)> {
    signals.iter().map(|(name, payload)| (name.to_string(), payload.to_string())).collect()
}

#[tokio::test]
async fn a_signal_resumes_and_hands_over_in_one_commit_when_a_claim_waits() {
    let (server, _) = memory_server().await;
    let (id, first) = submit_and_claim(&server).await;
    assert_eq!(
        suspend(&server, fence(&first), WaitDraft::new(signal("go"))).await.state,
        StateName::Suspended
    );
    let claim = server.claim_waiting(claim_of("two", 1), 1).await;
    let before = server.engine.store().log_after(0, 100).await.expect("the log is read").upto;
    let delivered = send(&server, id, "go", "{\"a\":1}").await.expect("the signal is delivered");
    assert_eq!(delivered.effect, Effect::Resumed);
    let again = soon(claim).await.expect("the task does not panic");
    assert_eq!(ids(&again), [id]);
    assert_eq!(payloads(&again[0]), expected(&[("go", "{\"a\":1}")]));
    let log = server.engine.store().log_after(before, 10).await.expect("the log is read").entries;
    assert_eq!(log.len(), 1, "signal and claim share one commit");
    server.complete(fence(&again[0])).await.expect("the lease is current");
}

#[tokio::test]
async fn a_buffered_signal_ends_the_suspension_at_once() {
    let (server, _) = memory_server().await;
    let (id, first) = submit_and_claim(&server).await;
    assert_eq!(send(&server, id, "go", "1").await.expect("the signal is delivered").effect, Effect::Buffered);
    assert_eq!(suspend(&server, fence(&first), WaitDraft::new(signal("go"))).await.state, StateName::Waiting);
    let again = server.claim_one("one").await;
    assert_eq!(payloads(&again), expected(&[("go", "1")]));
}

#[tokio::test]
async fn a_suspension_that_times_out_resumes_with_a_timeout_signal() {
    let (server, clock) = memory_server().await;
    let (id, first) = submit_and_claim(&server).await;
    let wait = WaitDraft {
        timeout_ms: Some(1000),
        on_timeout: OnTimeout::Resume,
        ..WaitDraft::new(Condition::All(vec![signal("a"), signal("b")]))
    };
    suspend(&server, fence(&first), wait).await;
    assert_eq!(send(&server, id, "a", "1").await.expect("the signal is delivered").effect, Effect::Counted);
    assert_eq!(server.tick("suspension_timeout").await.done, 0);
    clock.advance_ms(1000);
    assert_eq!(server.tick("suspension_timeout").await.done, 1);
    let again = server.claim_one("one").await;
    assert_eq!(payloads(&again), expected(&[("a", "1"), ("timeout", "null")]));
}

#[tokio::test]
async fn a_suspension_until_a_time_resumes_at_that_time() {
    let (server, clock) = memory_server().await;
    let (id, first) = submit_and_claim(&server).await;
    suspend(&server, fence(&first), WaitDraft::new(Condition::until(When::AfterMs(500)))).await;
    clock.advance_ms(500);
    assert_eq!(server.tick("delay_promoter").await.done, 1);
    assert_eq!(server.state(id).await, StateName::Waiting);
}

#[tokio::test]
async fn a_token_delivers_once_and_a_repeat_returns_the_first_reply() {
    let (server, _) = memory_server().await;
    let (id, first) = submit_and_claim(&server).await;
    let op = server
        .namespace
        .suspend(vec![WaitDraft::new(signal("approval"))], vec![WaitpointDraft::new(name("approval"))]);
    let reported = server.report(fence(&first), op.clone()).await.expect("the execution is suspended");
    let again = server.report(fence(&first), op).await.expect("the repeat is answered");
    assert_eq!(reported, again);
    let waitpoint = &reported.waitpoints[0];
    let token = server.namespace.token(waitpoint);
    let draft = |payload: &'static str| SignalDraft { name: None, payload: payload.into(), key: None };
    let delivered =
        server.engine.deliver(waitpoint.id, &token, draft("1")).await.expect("the signal is delivered");
    assert_eq!((delivered.effect, delivered.duplicate), (Effect::Resumed, false));
    let delivered =
        server.engine.deliver(waitpoint.id, &token, draft("2")).await.expect("the delivery is answered");
    assert_eq!((delivered.effect, delivered.duplicate), (Effect::Resumed, true));
    assert_eq!(server.row(id).await.detail.record.signals, 1);
    let events = server.events(id).await;
    assert!(events.contains(&"execution.resumed"), "{events:?}");
}

#[tokio::test]
async fn lists_of_records_do_not_read_the_execution() {
    let (server, faults, _) = faulty_server().await;
    let (id, _) = submit_and_claim(&server).await;
    send(&server, id, "go", "1").await.expect("the signal is delivered");
    let before = faults.row_reads();
    assert_eq!(server.namespace.signals(id, 0, 10).await.expect("signals are listed").items.len(), 1);
    assert_eq!(server.namespace.steps(id, 0, 10).await.expect("steps are listed").items.len(), 0);
    assert_eq!(server.namespace.waitpoints(id, 0, 10).await.expect("waitpoints are listed").len(), 0);
    assert_eq!(server.namespace.frames(id, None, 0, 10).await.expect("frames are listed").frames.len(), 0);
    assert_eq!(faults.row_reads(), before, "an execution may have an input of 1 MiB");
    let unknown = server.namespace.signals(ExecutionId(uuid::Uuid::from_u128(7)), 0, 10).await;
    assert!(matches!(unknown, Err(Error::Refused(Refusal::NotFound { .. }))), "{unknown:?}");
}
