//! Shutdown: waiting calls return, accepted calls get their reply, and the time it takes is bounded.

use crate::faults::{Call, Fault, Faults};
use crate::test_server::{self, TestServer, claim_of, claim_wait, fence, passive_options};
use crate::{TIMEOUT, faulty_server, memory_server, soon, until};
use selvedge_engine::core::Draft;
use selvedge_engine::core::submission::When;
use selvedge_engine::{Aborted, Error, Options};
use selvedge_memory::MemoryStore;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn waiting_claims_return_empty() {
    for _ in 0..50 {
        let server = TestServer::new(Arc::new(MemoryStore::new()), passive_options()).await;
        let mut claims = Vec::new();
        for number in 1..=8 {
            claims.push(server.claim_waiting(claim_of(&format!("worker{number}"), 1), number).await);
        }
        assert_eq!(server.engine.shutdown().await, Aborted(0));
        for claim in claims {
            let claimed = tokio::time::timeout(TIMEOUT, claim).await.expect("every claim returns");
            assert!(claimed.expect("the task does not panic").is_empty());
        }
    }
}

#[tokio::test]
async fn waiting_heartbeats_results_and_claims_of_draining_workers_return() {
    let (server, _) = memory_server().await;
    let id = server.submit(Draft::new("kind")).await;
    let lease = fence(&server.claim_one("one").await);
    let namespace = server.namespace.clone();
    let beat = tokio::spawn(async move { namespace.heartbeat("one", None, vec![lease], 3 * TIMEOUT).await });
    until("the heartbeat waits", async || server.engine.activity().0 >= 3).await;
    let namespace = server.namespace.clone();
    let result = tokio::spawn(async move { namespace.result(id, 3 * TIMEOUT).await });
    server.claim("draining", 1).await;
    server
        .namespace
        .drain_worker("draining", &test_server::operator())
        .await
        .expect("the drain request is accepted");
    let draining = server.claim_waiting(claim_of("draining", 1), 0).await;
    until("the claim waits", async || server.engine.activity().0 >= 6).await;
    server.engine.shutdown().await;
    assert!(matches!(soon(beat).await.expect("the task does not panic"), Ok(_) | Err(Error::Closed)));
    assert!(
        !matches!(soon(result).await.expect("the task does not panic"), Ok(Some(_))),
        "the execution has not ended"
    );
    assert!(soon(draining).await.expect("the task does not panic").is_empty());
}

#[tokio::test]
async fn accepted_calls_get_their_reply_and_later_calls_are_refused() {
    let (server, faults, _) = faulty_server().await;
    faults.block_transactions();
    let submitter = server.clone();
    let submit = tokio::spawn(async move { submitter.namespace.submit(Draft::new("kind")).await });
    tokio::task::yield_now().await;
    let engine = server.engine.clone();
    let shutdown = tokio::spawn(async move { engine.shutdown().await });
    until("the engine refuses calls", async || {
        let claim = claim_wait(claim_of("late", 1), Duration::ZERO);
        matches!(
            tokio::time::timeout(Duration::from_millis(5), server.namespace.claim(claim)).await,
            Ok(Err(Error::Closed))
        )
    })
    .await;
    assert!(!shutdown.is_finished(), "the shutdown waits for the accepted submission");
    faults.unblock_transactions();
    soon(submit).await.expect("the task does not panic").expect("the submission is accepted");
    assert_eq!(soon(shutdown).await.expect("the task does not panic"), Aborted(0));
    let late = server.namespace.submit(Draft::new("kind")).await;
    assert!(matches!(late, Err(Error::Closed)));
}

#[tokio::test]
async fn a_second_shutdown_does_nothing() {
    let (server, _) = memory_server().await;
    assert_eq!(server.engine.shutdown().await, Aborted(0));
    assert_eq!(soon(server.engine.shutdown()).await, Aborted(0));
    let store = Arc::new(MemoryStore::new());
    let running = TestServer::new(store, Options { reconcilers: true, ..passive_options() }).await;
    assert_eq!(soon(running.engine.shutdown()).await, Aborted(0));
    assert_eq!(soon(running.engine.shutdown()).await, Aborted(0));
}

/// Starts a server with a short grace period and background reconcilers, on a store with injectable faults.
async fn short_grace_server() -> (TestServer, Arc<Faults>) {
    let (store, faults) = Faults::of(MemoryStore::new());
    let options = Options { reconcilers: true, grace: Duration::from_millis(50), ..passive_options() };
    (TestServer::new(store, options).await, faults)
}

#[tokio::test]
async fn a_tick_that_hangs_is_aborted_after_the_grace_period_and_counted() {
    let (server, faults) = short_grace_server().await;
    faults.inject(Call::Due, Fault::Hang);
    server.submit(Draft { delay: Some(When::AfterMs(1)), ..Draft::new("kind") }).await;
    until("the tick hangs", async || faults.all_faults_occurred()).await;
    let started = Instant::now();
    assert_eq!(soon(server.engine.shutdown()).await, Aborted(1));
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_hanging_transaction_does_not_block_the_shutdown_forever() {
    let (server, faults) = short_grace_server().await;
    faults.inject(Call::Transact, Fault::Hang);
    let stuck = server.clone();
    let submit = tokio::spawn(async move { stuck.namespace.submit(Draft::new("kind")).await });
    until("the submission hangs", async || faults.all_faults_occurred()).await;
    let claim = server.clone();
    let claim =
        tokio::spawn(async move { claim.namespace.claim(claim_wait(claim_of("one", 1), 3 * TIMEOUT)).await });
    tokio::task::yield_now().await;
    soon(server.engine.shutdown()).await;
    claim.abort();
    submit.abort();
}

#[tokio::test]
async fn a_shutdown_takes_no_longer_than_the_grace_period_if_nothing_returns() {
    let (store, faults) = Faults::of(MemoryStore::new());
    let grace = Duration::from_millis(400);
    let options = Options { reconcilers: true, grace, ..passive_options() };
    let server = TestServer::new(store, options).await;
    faults.inject(Call::Due, Fault::Hang);
    server.submit(Draft { delay: Some(When::AfterMs(1)), ..Draft::new("kind") }).await;
    until("the tick hangs", async || faults.all_faults_occurred()).await;
    faults.inject(Call::Transact, Fault::Hang);
    faults.inject(Call::Overview, Fault::Hang);
    let stuck = server.clone();
    let submit = tokio::spawn(async move { stuck.namespace.submit(Draft::new("kind")).await });
    until("the rest hangs", async || faults.all_faults_occurred()).await;
    let started = Instant::now();
    assert_eq!(soon(server.engine.shutdown()).await, Aborted(1));
    assert!(started.elapsed() < grace * 2, "{:?}", started.elapsed());
    submit.abort();
}

#[tokio::test]
async fn a_hanging_query_for_due_rows_does_not_block_the_shutdown_forever() {
    let (store, faults) = Faults::of(MemoryStore::new());
    faults.inject(Call::Overview, Fault::Hang);
    let options = Options { reconcilers: true, grace: Duration::from_millis(50), ..passive_options() };
    let server = TestServer::new(store, options).await;
    until("the query hangs", async || faults.all_faults_occurred()).await;
    soon(server.engine.shutdown()).await;
}
