//! Retention: executions that ended long enough ago are deleted with all their rows.

use crate::faults::{Call, Fault};
use crate::test_server::{TestServer, claim_wait};
use crate::{draft_with, faulty_server, memory_server};
use selvedge_engine::core::filter::Filter;
use selvedge_engine::core::rules::CallKey;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::{Draft, ExecutionId, Name, Policy};
use selvedge_engine::store::Error;
use std::time::Duration;

const HOUR_MS: i64 = 3_600_000;

fn kept_for_an_hour() -> Draft {
    draft_with(Policy { retention_ms: HOUR_MS, ..Policy::default() })
}

/// Submits an execution and cancels it.
async fn submit_cancelled(server: &TestServer, draft: Draft) -> ExecutionId {
    let id = server.submit(draft).await;
    server.cancel(id).await.expect("the execution is cancelled");
    id
}

/// Counts the executions with the tag.
async fn count_tagged(server: &TestServer) -> u64 {
    let filter = Filter { tags: vec!["colour:red".into()], ..Filter::all(server.namespace.id()) };
    server.namespace.count(&filter, 10).await.expect("the executions are counted")
}

#[tokio::test]
async fn retention_deletes_the_row_with_its_tags_keys_and_history_pages_and_nothing_else() {
    let (server, clock) = memory_server().await;
    let tags: std::collections::BTreeMap<_, _> = [("colour".into(), "red".into())].into();
    let short = Draft { tags: tags.clone(), unique_while_active: Some("key".into()), ..kept_for_an_hour() };
    let id = server.submit(short.clone()).await;
    for round in 0..100 {
        let set = [("note".to_string(), format!("{round:0400}"))].into();
        server.operate(id, Action::Tag { set, remove: vec![] }).await.expect("the execution is tagged");
    }
    server.cancel(id).await.expect("the execution is cancelled");
    let store = server.engine.store().clone();
    let pages = async || store.history_pages(id).await.expect("the history pages are read").len();
    assert!(pages().await > 0);
    let other = submit_cancelled(&server, Draft { tags, ..Draft::new("kind") }).await;
    clock.advance_ms(HOUR_MS - 1);
    assert_eq!((server.tick("retention").await.done, count_tagged(&server).await), (0, 2));
    clock.advance_ms(1);
    assert_eq!(server.tick("retention").await.done, 1);
    assert!(server.is_deleted(id).await && !server.is_deleted(other).await);
    assert_eq!((count_tagged(&server).await, pages().await), (1, 0));
    let again = server.namespace.submit(short).await.expect("the submission is accepted");
    assert!(!again.duplicate);
    assert_eq!(server.tick("retention").await.scanned, 0);
}

#[tokio::test]
async fn retention_continues_after_an_error() {
    let (server, faults, clock) = faulty_server().await;
    let first = submit_cancelled(&server, kept_for_an_hour()).await;
    let second = submit_cancelled(&server, kept_for_an_hour()).await;
    clock.advance_ms(HOUR_MS);
    faults.inject(Call::Due, Fault::Fail(Error::Unavailable("away".into())));
    assert!(server.engine.tick("retention").await.is_err());
    assert_eq!(server.tally("retention").errors, 1);
    faults.inject(Call::Transact, Fault::Fail(Error::Unavailable("away".into())));
    assert!(server.engine.tick("retention").await.is_err());
    assert!(!server.is_deleted(first).await);
    assert_eq!(server.tick("retention").await.done, 2);
    assert!(server.is_deleted(first).await && server.is_deleted(second).await);
}

#[tokio::test]
async fn a_row_that_cannot_be_deleted_is_quarantined_and_the_others_are_deleted() {
    let (server, faults, clock) = faulty_server().await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(submit_cancelled(&server, kept_for_an_hour()).await);
    }
    clock.advance_ms(HOUR_MS);
    // The batch of four fails and is halved twice; then the first row fails alone.
    for _ in 0..3 {
        faults.inject(Call::Transact, Fault::Fail(Error::Failed("a defect".into())));
    }
    let tick = server.tick("retention").await;
    assert!(faults.all_faults_occurred());
    assert_eq!((tick.scanned, tick.done, tick.errors), (4, 3, 1));
    let mut deleted = 0;
    for id in &ids {
        deleted += usize::from(server.is_deleted(*id).await);
    }
    assert_eq!(deleted, 3);
    let tick = server.tick("retention").await;
    assert_eq!((tick.scanned, tick.done, tick.errors), (1, 0, 0), "the failed row is quarantined");
}

#[tokio::test]
async fn expired_idempotency_keys_of_calls_are_deleted() {
    let (server, clock) = memory_server().await;
    let call_key = CallKey { key: Name::trusted("call"), digest: 1 };
    let submit = async || {
        let drafts = vec![Ok(Draft::new("kind"))];
        let submitted = server.namespace.submit_many(drafts, Some(call_key.clone())).await;
        submitted.expect("the submissions are answered").remove(0).expect("the submission is accepted")
    };
    let first = submit().await;
    assert_eq!(submit().await.execution.id, first.execution.id);
    clock.advance_ms(24 * HOUR_MS + 1);
    assert_eq!(server.tick("retention").await.done, 1);
    assert_ne!(submit().await.execution.id, first.execution.id);
    let claim = claim_wait(crate::test_server::claim_of("one", 9), Duration::ZERO);
    assert_eq!(server.namespace.claim(claim).await.expect("the claim is answered").len(), 2);
}
