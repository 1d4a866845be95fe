//! Shutdown: whoever waits returns, what was accepted is answered, and it takes a bounded time.

use crate::faulty::{Call, Fault, Faulty};
use crate::side::{self, Side, claim_of, fence, quiet, waiting};
use crate::{LONG, on_faulty, on_memory, soon, until};
use selvedge_engine::core::Draft;
use selvedge_engine::core::submission::When;
use selvedge_engine::{Aborted, Error, Options};
use selvedge_memory::MemoryStore;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn claims_that_wait_return_with_nothing() {
    for _ in 0..50 {
        let side = Side::new(Arc::new(MemoryStore::new()), quiet()).await;
        let mut claims = Vec::new();
        for number in 1..=8 {
            claims.push(side.claim_waiting(claim_of(&format!("worker{number}"), 1), number).await);
        }
        assert_eq!(side.engine.shutdown().await, Aborted(0));
        for claim in claims {
            let claimed = tokio::time::timeout(LONG, claim).await.expect("nobody waits in vain");
            assert!(claimed.expect("nobody panics").is_empty());
        }
    }
}

#[tokio::test]
async fn heartbeats_results_and_the_claims_of_workers_that_drain_return_as_well() {
    let (side, _) = on_memory().await;
    let id = side.submit(Draft::new("kind")).await;
    let lease = fence(&side.claim_one("one").await);
    let namespace = side.namespace.clone();
    let beat = tokio::spawn(async move { namespace.heartbeat("one", vec![lease], 3 * LONG).await });
    until("the heartbeat waits", async || side.engine.activity().0 >= 3).await;
    let namespace = side.namespace.clone();
    let result = tokio::spawn(async move { namespace.result(id, 3 * LONG).await });
    side.claim("draining", 1).await;
    side.namespace.drain_worker("draining", &side::operator()).await.expect("it is asked");
    let draining = side.claim_waiting(claim_of("draining", 1), 0).await;
    until("the claim waits", async || side.engine.activity().0 >= 6).await;
    side.engine.shutdown().await;
    assert!(matches!(soon(beat).await.expect("it does not panic"), Ok(_) | Err(Error::Closed)));
    assert!(!matches!(soon(result).await.expect("it does not panic"), Ok(Some(_))), "it has not ended");
    assert!(soon(draining).await.expect("it does not panic").is_empty());
}

#[tokio::test]
async fn what_was_accepted_is_answered_and_what_comes_later_is_refused() {
    let (side, store, _) = on_faulty().await;
    store.shut();
    let submitter = side.clone();
    let submit = tokio::spawn(async move { submitter.namespace.submit(Draft::new("kind")).await });
    tokio::task::yield_now().await;
    let engine = side.engine.clone();
    let shutdown = tokio::spawn(async move { engine.shutdown().await });
    until("it is closed", async || {
        let claim = waiting(claim_of("late", 1), Duration::ZERO);
        matches!(
            tokio::time::timeout(Duration::from_millis(5), side.namespace.claim(claim)).await,
            Ok(Err(Error::Closed))
        )
    })
    .await;
    assert!(!shutdown.is_finished(), "it waits for what was accepted");
    store.open();
    soon(submit).await.expect("it does not panic").expect("it is accepted");
    assert_eq!(soon(shutdown).await.expect("it does not panic"), Aborted(0));
    let late = side.namespace.submit(Draft::new("kind")).await;
    assert!(matches!(late, Err(Error::Closed)));
}

#[tokio::test]
async fn a_second_shutdown_is_a_no_op() {
    let (side, _) = on_memory().await;
    assert_eq!(side.engine.shutdown().await, Aborted(0));
    assert_eq!(soon(side.engine.shutdown()).await, Aborted(0));
    let store = Arc::new(MemoryStore::new());
    let running = Side::new(store, Options { reconcilers: true, ..quiet() }).await;
    assert_eq!(soon(running.engine.shutdown()).await, Aborted(0));
    assert_eq!(soon(running.engine.shutdown()).await, Aborted(0));
}

/// An engine with a short grace period whose reconcilers run, on a store whose calls can be made to fail.
async fn impatient() -> (Side, Arc<Faulty>) {
    let store = Arc::new(Faulty::new(MemoryStore::new()));
    let options = Options { reconcilers: true, grace: Duration::from_millis(50), ..quiet() };
    (Side::new(store.clone(), options).await, store)
}

#[tokio::test]
async fn a_reconciler_that_does_not_end_is_aborted_after_the_grace_period_and_counted() {
    let (side, store) = impatient().await;
    store.next(Call::Due, Fault::Hang);
    side.submit(Draft { delay: Some(When::AfterMs(1)), ..Draft::new("kind") }).await;
    until("the tick hangs", async || store.is_spent()).await;
    let begun = Instant::now();
    assert_eq!(soon(side.engine.shutdown()).await, Aborted(1));
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_store_that_never_answers_does_not_keep_a_shutdown_for_ever() {
    let (side, store) = impatient().await;
    store.next(Call::Transact, Fault::Hang);
    let stuck = side.clone();
    let submit = tokio::spawn(async move { stuck.namespace.submit(Draft::new("kind")).await });
    until("the submission hangs", async || store.is_spent()).await;
    let claim = side.clone();
    let claim =
        tokio::spawn(async move { claim.namespace.claim(waiting(claim_of("one", 1), 3 * LONG)).await });
    tokio::task::yield_now().await;
    soon(side.engine.shutdown()).await;
    claim.abort();
    submit.abort();
}

#[tokio::test]
async fn a_look_at_what_is_due_that_never_returns_does_not_keep_a_shutdown_for_ever() {
    let store = Arc::new(Faulty::new(MemoryStore::new()));
    store.next(Call::Overview, Fault::Hang);
    let options = Options { reconcilers: true, grace: Duration::from_millis(50), ..quiet() };
    let side = Side::new(store.clone(), options).await;
    until("the look hangs", async || store.is_spent()).await;
    soon(side.engine.shutdown()).await;
}
