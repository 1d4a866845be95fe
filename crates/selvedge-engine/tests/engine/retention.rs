//! Retention: what ended long enough ago is deleted with everything that is only about it.

use crate::faulty::{Call, Fault};
use crate::side::{Side, waiting};
use crate::{on_faulty, on_memory, with};
use selvedge_engine::core::filter::Filter;
use selvedge_engine::core::rules::Operation;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::{Draft, ExecutionId, Name, Policy};
use selvedge_engine::store::Error;
use std::time::Duration;

const HOUR_MS: i64 = 3_600_000;

fn kept_for_an_hour() -> Draft {
    with(Policy { retention_ms: HOUR_MS, ..Policy::default() })
}

async fn cancelled(side: &Side, draft: Draft) -> ExecutionId {
    let id = side.submit(draft).await;
    side.cancel(id).await.expect("it is cancelled");
    id
}

async fn tagged(side: &Side) -> u64 {
    let filter = Filter { tag: Some("colour:red".into()), ..Filter::all(side.namespace.id()) };
    side.namespace.count(&filter, 10).await.expect("they are counted")
}

#[tokio::test]
async fn retention_deletes_the_row_its_tags_keys_and_pages_and_nothing_else() {
    let (side, clock) = on_memory().await;
    let tags: std::collections::BTreeMap<_, _> = [("colour".into(), "red".into())].into();
    let short = Draft { tags: tags.clone(), unique_while_active: Some("key".into()), ..kept_for_an_hour() };
    let id = side.submit(short.clone()).await;
    for round in 0..100 {
        let set = [("note".to_string(), format!("{round:0400}"))].into();
        side.operate(id, Action::Tag { set, remove: vec![] }).await.expect("it is tagged");
    }
    side.cancel(id).await.expect("it is cancelled");
    let store = side.engine.store().clone();
    let pages = async || store.history_pages(id).await.expect("pages are read").len();
    assert!(pages().await > 0);
    let other = cancelled(&side, Draft { tags, ..Draft::new("kind") }).await;
    clock.advance_ms(HOUR_MS - 1);
    assert_eq!((side.tick("retention").await.done, tagged(&side).await), (0, 2));
    clock.advance_ms(1);
    assert_eq!(side.tick("retention").await.done, 1);
    assert!(side.is_gone(id).await && !side.is_gone(other).await);
    assert_eq!((tagged(&side).await, pages().await), (1, 0));
    let again = side.namespace.submit(short).await.expect("it is accepted");
    assert!(!again.duplicate);
    assert_eq!(side.tick("retention").await.scanned, 0);
}

#[tokio::test]
async fn retention_goes_on_after_an_error() {
    let (side, store, clock) = on_faulty().await;
    let first = cancelled(&side, kept_for_an_hour()).await;
    let second = cancelled(&side, kept_for_an_hour()).await;
    clock.advance_ms(HOUR_MS);
    store.next(Call::Due, Fault::Fail(Error::Unavailable("away".into())));
    assert!(side.engine.tick("retention").await.is_err());
    assert_eq!(side.tally("retention").errors, 1);
    store.next(Call::Transact, Fault::Fail(Error::Unavailable("away".into())));
    assert!(side.engine.tick("retention").await.is_err());
    assert!(!side.is_gone(first).await);
    assert_eq!(side.tick("retention").await.done, 2);
    assert!(side.is_gone(first).await && side.is_gone(second).await);
}

#[tokio::test]
async fn one_row_that_cannot_be_deleted_is_set_aside_and_the_others_go() {
    let (side, store, clock) = on_faulty().await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(cancelled(&side, kept_for_an_hour()).await);
    }
    clock.advance_ms(HOUR_MS);
    // The batch of four fails, is halved, halved again, and the first alone fails for good.
    for _ in 0..3 {
        store.next(Call::Transact, Fault::Fail(Error::Failed("a defect".into())));
    }
    let tick = side.tick("retention").await;
    assert!(store.is_spent());
    assert_eq!((tick.scanned, tick.done, tick.errors), (4, 3, 1));
    let mut gone = 0;
    for id in &ids {
        gone += usize::from(side.is_gone(*id).await);
    }
    assert_eq!(gone, 3);
    let tick = side.tick("retention").await;
    assert_eq!((tick.scanned, tick.done, tick.errors), (1, 0, 0), "it is left alone for a while");
}

#[tokio::test]
async fn keys_of_calls_that_have_expired_are_deleted() {
    let (side, clock) = on_memory().await;
    let operation = Operation { key: Name::trusted("call"), digest: 1 };
    let submit = async || {
        let drafts = vec![Ok(Draft::new("kind"))];
        let submitted = side.namespace.submit_many(drafts, Some(operation.clone())).await;
        submitted.expect("it is answered").remove(0).expect("it is accepted")
    };
    let first = submit().await;
    assert_eq!(submit().await.execution.id, first.execution.id);
    clock.advance_ms(24 * HOUR_MS + 1);
    assert_eq!(side.tick("retention").await.done, 1);
    assert_ne!(submit().await.execution.id, first.execution.id);
    let claim = waiting(crate::side::claim_of("one", 9), Duration::ZERO);
    assert_eq!(side.namespace.claim(claim).await.expect("it is answered").len(), 2);
}
