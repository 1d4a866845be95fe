//! Idempotency keys and uniqueness keys.

use crate::side::{Side, fence};
use crate::{on_memory, with};
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

async fn submit(side: &Side, draft: Draft) -> Result<Submitted, Refusal> {
    side.namespace.submit(draft).await.map_err(|error| match error {
        Error::Refused(refusal) => refusal,
        other => panic!("the submission is answered: {other}"),
    })
}

#[tokio::test]
async fn a_second_submission_with_an_idempotency_key_returns_the_first_and_says_so() {
    let (side, _) = on_memory().await;
    let first = submit(&side, idempotent()).await.expect("it is accepted");
    assert!(!first.duplicate);
    let second = submit(&side, idempotent()).await.expect("it is accepted");
    assert_eq!((second.duplicate, second.execution.id), (true, first.execution.id));
    let lease = fence(&side.claim_one("one").await);
    side.complete(lease).await.expect("it holds the lease");
    let third = submit(&side, idempotent()).await.expect("it is accepted");
    assert_eq!((third.duplicate, third.execution.id), (true, first.execution.id), "also after its end");
    let elsewhere = side.engine.namespace("elsewhere").await.expect("it is there");
    assert!(!elsewhere.submit(idempotent()).await.expect("it is accepted").duplicate);
}

#[tokio::test]
async fn the_same_idempotency_key_with_other_content_is_refused() {
    let (side, _) = on_memory().await;
    let first = submit(&side, idempotent()).await.expect("it is accepted");
    let other = Draft { priority: 3, ..idempotent() };
    let refused = submit(&side, other).await.expect_err("it is other work");
    assert_eq!((refused.code(), refused.pointer()), ("idempotency_mismatch", Some("/idempotency_key")));
    assert_eq!(side.row(first.execution.id).await.version, 1);
}

#[tokio::test]
async fn an_idempotency_key_is_free_again_after_its_window_and_not_before_the_end_of_the_execution() {
    let (side, clock) = on_memory().await;
    let keyed = Draft { idempotency_window_ms: Some(HOUR_MS), ..idempotent() };
    let first = submit(&side, keyed.clone()).await.expect("it is accepted").execution.id;
    clock.advance_ms(HOUR_MS + 1);
    let again = submit(&side, keyed.clone()).await.expect("it is accepted");
    assert_eq!((again.duplicate, again.execution.id), (true, first), "it is still active");
    side.cancel(first).await.expect("it is cancelled");
    let second = submit(&side, keyed.clone()).await.expect("it is accepted");
    assert!(!second.duplicate && second.execution.id != first);
    side.cancel(second.execution.id).await.expect("it is cancelled");
    clock.advance_ms(HOUR_MS - 1);
    assert!(submit(&side, keyed.clone()).await.expect("it is accepted").duplicate, "within its window");
    clock.advance_ms(1);
    assert!(!submit(&side, keyed).await.expect("it is accepted").duplicate);
}

#[tokio::test]
async fn the_window_is_a_day_unless_it_is_given() {
    let (side, clock) = on_memory().await;
    let first = submit(&side, idempotent()).await.expect("it is accepted").execution.id;
    side.cancel(first).await.expect("it is cancelled");
    clock.advance_ms(24 * HOUR_MS - 1);
    assert!(submit(&side, idempotent()).await.expect("it is accepted").duplicate);
    clock.advance_ms(1);
    assert!(!submit(&side, idempotent()).await.expect("it is accepted").duplicate);
}

#[tokio::test]
async fn retention_does_not_delete_an_execution_while_its_idempotency_key_stands_for_it() {
    let (side, clock) = on_memory().await;
    let policy = Policy { retention_ms: 0, ..Policy::default() };
    let keyed = Draft { idempotency_key: Some("key".into()), ..with(policy) };
    let first = submit(&side, keyed.clone()).await.expect("it is accepted").execution.id;
    side.cancel(first).await.expect("it is cancelled");
    clock.advance_ms(24 * HOUR_MS - 1);
    assert_eq!(side.tick("retention").await.done, 0);
    assert!(submit(&side, keyed).await.expect("it is accepted").duplicate);
    clock.advance_ms(1);
    assert_eq!(side.tick("retention").await.done, 1);
    assert!(side.is_gone(first).await);
}

#[tokio::test]
async fn a_second_submission_with_a_unique_key_is_the_first_while_that_is_active() {
    let (side, _) = on_memory().await;
    let first = submit(&side, unique()).await.expect("it is accepted").execution.id;
    let other = Draft { priority: 3, ..unique() };
    for _ in 0..2 {
        let second = submit(&side, other.clone()).await.expect("other content is no conflict");
        assert_eq!((second.duplicate, second.execution.id), (true, first));
    }
    let lease = fence(&side.claim_one("one").await);
    assert!(submit(&side, other.clone()).await.expect("it is accepted").duplicate, "also while it runs");
    side.complete(lease).await.expect("it holds the lease");
    let third = submit(&side, other).await.expect("it is accepted");
    assert!(!third.duplicate && third.execution.id != first);
    assert!(submit(&side, unique()).await.expect("it is accepted").duplicate);
}

#[tokio::test]
async fn an_id_of_the_callers_own_makes_one_execution() {
    let (side, _) = on_memory().await;
    let draft = Draft { id: Some(uuid::Uuid::now_v7()), ..Draft::new("kind") };
    let first = submit(&side, draft.clone()).await.expect("it is accepted");
    assert_eq!((first.execution.id.0, first.duplicate), (draft.id.expect("it has one"), false));
    assert!(submit(&side, draft.clone()).await.expect("it is accepted").duplicate);
    let other = Draft { priority: 1, ..draft };
    let refused = submit(&side, other).await.expect_err("it is other work");
    assert_eq!((refused.code(), refused.pointer()), ("idempotency_mismatch", Some("/id")));
}
