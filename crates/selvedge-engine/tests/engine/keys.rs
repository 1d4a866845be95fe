//! Idempotency keys, unique keys and ids chosen by the caller.

use crate::test_server::{TestServer, fence};
use crate::{draft_with, memory_server};
use selvedge_engine::Error;
use selvedge_engine::core::rules::submit::Submitted;
use selvedge_engine::core::{Draft, Policy, Refusal};

const HOUR_MS: i64 = 3_600_000;

fn idempotent() -> Draft {
    Draft { idempotency_key: Some("key".into()), ..Draft::new("kind") }
}

fn unique() -> Draft {
    Draft { unique_while_active: Some("key".into()), ..Draft::new("kind") }
}

async fn submit(server: &TestServer, draft: Draft) -> Result<Submitted, Refusal> {
    server.namespace.submit(draft).await.map_err(|error| match error {
        Error::Refused(refusal) => refusal,
        other => panic!("the submission is answered: {other}"),
    })
}

#[tokio::test]
async fn submitting_again_with_an_idempotency_key_returns_the_existing_execution_as_a_duplicate() {
    let (server, _) = memory_server().await;
    let first = submit(&server, idempotent()).await.expect("the submission is accepted");
    assert!(!first.duplicate);
    let second = submit(&server, idempotent()).await.expect("the submission is accepted");
    assert_eq!((second.duplicate, second.execution.id), (true, first.execution.id));
    let lease = fence(&server.claim_one("one").await);
    server.complete(lease).await.expect("the lease is current");
    let third = submit(&server, idempotent()).await.expect("the submission is accepted");
    assert_eq!((third.duplicate, third.execution.id), (true, first.execution.id), "the execution has ended");
    let elsewhere = server.engine.namespace("elsewhere").await.expect("the namespace is created");
    assert!(!elsewhere.submit(idempotent()).await.expect("the submission is accepted").duplicate);
}

#[tokio::test]
async fn the_same_idempotency_key_with_different_content_is_refused() {
    let (server, _) = memory_server().await;
    let first = submit(&server, idempotent()).await.expect("the submission is accepted");
    let other = Draft { priority: 3, ..idempotent() };
    let refused = submit(&server, other).await.expect_err("the content differs");
    assert_eq!((refused.code(), refused.pointer()), ("idempotency_mismatch", Some("/idempotency_key")));
    assert_eq!(server.row(first.execution.id).await.version, 1);
}

#[tokio::test]
async fn an_idempotency_key_can_be_reused_after_its_window_but_not_before_the_execution_has_ended() {
    let (server, clock) = memory_server().await;
    let keyed = Draft { idempotency_window_ms: Some(HOUR_MS), ..idempotent() };
    let first = submit(&server, keyed.clone()).await.expect("the submission is accepted").execution.id;
    clock.advance_ms(HOUR_MS + 1);
    let again = submit(&server, keyed.clone()).await.expect("the submission is accepted");
    assert_eq!((again.duplicate, again.execution.id), (true, first), "the execution has not ended");
    server.cancel(first).await.expect("the execution is cancelled");
    let second = submit(&server, keyed.clone()).await.expect("the submission is accepted");
    assert!(!second.duplicate && second.execution.id != first);
    server.cancel(second.execution.id).await.expect("the execution is cancelled");
    clock.advance_ms(HOUR_MS - 1);
    assert!(
        submit(&server, keyed.clone()).await.expect("the submission is accepted").duplicate,
        "the window is still open"
    );
    clock.advance_ms(1);
    assert!(!submit(&server, keyed).await.expect("the submission is accepted").duplicate);
}

#[tokio::test]
async fn the_default_idempotency_window_is_a_day() {
    let (server, clock) = memory_server().await;
    let first = submit(&server, idempotent()).await.expect("the submission is accepted").execution.id;
    server.cancel(first).await.expect("the execution is cancelled");
    clock.advance_ms(24 * HOUR_MS - 1);
    assert!(submit(&server, idempotent()).await.expect("the submission is accepted").duplicate);
    clock.advance_ms(1);
    assert!(!submit(&server, idempotent()).await.expect("the submission is accepted").duplicate);
}

#[tokio::test]
async fn retention_keeps_an_execution_within_the_window_of_its_idempotency_key() {
    let (server, clock) = memory_server().await;
    let policy = Policy { retention_ms: 0, ..Policy::default() };
    let keyed = Draft { idempotency_key: Some("key".into()), ..draft_with(policy) };
    let first = submit(&server, keyed.clone()).await.expect("the submission is accepted").execution.id;
    server.cancel(first).await.expect("the execution is cancelled");
    clock.advance_ms(24 * HOUR_MS - 1);
    assert_eq!(server.tick("retention").await.done, 0);
    assert!(submit(&server, keyed).await.expect("the submission is accepted").duplicate);
    clock.advance_ms(1);
    assert_eq!(server.tick("retention").await.done, 1);
    assert!(server.is_deleted(first).await);
}

#[tokio::test]
async fn submitting_again_with_a_unique_key_returns_the_existing_execution_while_it_is_not_terminal() {
    let (server, _) = memory_server().await;
    let first = submit(&server, unique()).await.expect("the submission is accepted").execution.id;
    let other = Draft { priority: 3, ..unique() };
    for _ in 0..2 {
        let second = submit(&server, other.clone()).await.expect("different content is no conflict");
        assert_eq!((second.duplicate, second.execution.id), (true, first));
    }
    let lease = fence(&server.claim_one("one").await);
    assert!(
        submit(&server, other.clone()).await.expect("the submission is accepted").duplicate,
        "the execution is active"
    );
    server.complete(lease).await.expect("the lease is current");
    let third = submit(&server, other).await.expect("the submission is accepted");
    assert!(!third.duplicate && third.execution.id != first);
    assert!(submit(&server, unique()).await.expect("the submission is accepted").duplicate);
}

#[tokio::test]
async fn a_caller_chosen_id_creates_one_execution() {
    let (server, _) = memory_server().await;
    let draft = Draft { id: Some(uuid::Uuid::now_v7()), ..Draft::new("kind") };
    let first = submit(&server, draft.clone()).await.expect("the submission is accepted");
    assert_eq!((first.execution.id.0, first.duplicate), (draft.id.expect("the draft has an id"), false));
    assert!(submit(&server, draft.clone()).await.expect("the submission is accepted").duplicate);
    let other = Draft { priority: 1, ..draft };
    let refused = submit(&server, other).await.expect_err("the content differs");
    assert_eq!((refused.code(), refused.pointer()), ("idempotency_mismatch", Some("/id")));
}
