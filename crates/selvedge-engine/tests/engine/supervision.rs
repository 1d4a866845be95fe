//! The supervisor: reconcilers continue after failures and panics, and handle only rows in their scope.

use crate::faults::{Call, Fault, Faults};
use crate::test_server::{TestServer, complete_op, fence, passive_options};
use crate::{faulty_server, memory_server, soon, until};
use selvedge_engine::core::Draft;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::store::{Error, Store};
use selvedge_engine::{Options, ReconcilerScope};
use selvedge_memory::MemoryStore;
use std::sync::Arc;
use std::time::Duration;

/// A draft with a delay of one millisecond.
fn briefly_delayed() -> Draft {
    Draft { delay: Some(When::AfterMs(1)), ..Draft::new("kind") }
}

/// Starts a server with background reconcilers, on a store with injectable faults.
async fn reconciling_server() -> (TestServer, Arc<Faults>) {
    let (store, faults) = Faults::of(MemoryStore::new());
    let server = TestServer::new(store, Options { reconcilers: true, ..passive_options() }).await;
    (server, faults)
}

/// Asserts that the background reconcilers run: a delayed execution is promoted.
async fn assert_reconcilers_run(server: &TestServer) {
    let id = server.submit(briefly_delayed()).await;
    until("the delayed execution is promoted", async || server.state(id).await == StateName::Waiting).await;
}

#[tokio::test]
async fn a_tick_that_panics_is_caught_and_counted_and_the_next_one_runs() {
    let (server, faults, clock) = faulty_server().await;
    let id = server.submit(briefly_delayed()).await;
    clock.advance_ms(1);
    faults.inject(Call::Due, Fault::Panic);
    let error = server.engine.tick("delay_promoter").await.expect_err("the tick panicked");
    assert!(error.to_string().contains("delay_promoter panicked"), "{error}");
    let tally = server.tally("delay_promoter");
    assert_eq!((tally.ticks, tally.panics, tally.errors), (1, 1, 1));
    assert_eq!(server.tick("delay_promoter").await.done, 1);
    assert_eq!(server.state(id).await, StateName::Waiting);
}

#[tokio::test]
async fn a_reconciler_continues_after_a_tick_that_panicked_or_failed() {
    let (server, faults) = reconciling_server().await;
    faults.inject(Call::Due, Fault::Panic);
    faults.inject(Call::Due, Fault::Fail(Error::Unavailable("away".into())));
    assert_reconcilers_run(&server).await;
    assert!(faults.all_faults_occurred(), "both faults have occurred");
    let tally = server.tally("delay_promoter");
    assert_eq!((tally.panics, tally.errors), (1, 2));
    server.engine.shutdown().await;
}

#[tokio::test]
async fn reconcilers_continue_after_the_query_for_due_rows_failed_or_panicked() {
    for fault in [Fault::Fail(Error::Unavailable("away".into())), Fault::Panic] {
        let (store, faults) = Faults::of(MemoryStore::new());
        faults.inject(Call::Overview, fault);
        let server = TestServer::new(store, Options { reconcilers: true, ..passive_options() }).await;
        until("the fault has occurred", async || faults.all_faults_occurred()).await;
        assert_reconcilers_run(&server).await;
        server.engine.shutdown().await;
    }
}

#[tokio::test]
async fn a_scan_or_a_query_that_never_returns_is_aborted_and_the_reconcilers_continue() {
    for call in [Call::Due, Call::Overview] {
        let (store, faults) = Faults::of(MemoryStore::new());
        faults.inject(call, Fault::Hang);
        let tick_timeout = Duration::from_millis(50);
        let options = Options { reconcilers: true, tick_timeout, ..passive_options() };
        let server = TestServer::new(store, options).await;
        assert_reconcilers_run(&server).await;
        assert!(faults.all_faults_occurred(), "{call:?} did not return");
        server.engine.shutdown().await;
    }
}

#[tokio::test]
async fn a_rule_that_fails_permanently_fails_no_other_rule_of_its_batch() {
    let (server, faults, _) = faulty_server().await;
    server.submit_many(vec![Draft::new("kind"); 6]).await;
    let leases: Vec<_> = server.claim("one", 6).await.iter().map(fence).collect();
    faults.block_transactions();
    let mut reports = Vec::new();
    for lease in leases {
        let namespace = server.namespace.clone();
        reports.push(tokio::spawn(async move {
            namespace.report(vec![Ok((lease, None, complete_op()))], None).await
        }));
        // The first report forms a batch of its own; the others queue up behind it.
        tokio::task::yield_now().await;
    }
    // The first batch fails; then the batch of the others, then its first half, then the first rule of that.
    for _ in 0..4 {
        faults.inject(Call::Transact, Fault::Fail(Error::Failed("a defect".into())));
    }
    faults.unblock_transactions();
    let mut failed = 0;
    for report in reports {
        match soon(report).await.expect("the task does not panic") {
            Ok((results, _)) => assert!(results[0].is_ok()),
            Err(_) => failed += 1,
        }
    }
    assert!(faults.all_faults_occurred());
    assert_eq!(failed, 2, "the first report, and the first of the second batch");
}

#[tokio::test]
async fn ticking_an_unknown_reconciler_is_refused_with_its_name() {
    let (server, _) = memory_server().await;
    let error = server.engine.tick("gardener").await.expect_err("the name is unknown");
    assert!(error.to_string().contains("gardener"), "{error}");
}

#[tokio::test]
async fn reconcilers_skip_rows_outside_of_their_scope() {
    let clock = crate::manual_clock();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::with_clock(clock.clone()));
    let all = TestServer::new(store.clone(), passive_options()).await;
    let mine = [("team".to_string(), "mine".to_string())];
    let scope = ReconcilerScope { namespace: Some(all.namespace.id()), tag: Some(mine[0].clone()) };
    let scoped = TestServer::new(store, Options { scope, ..passive_options() }).await;
    let elsewhere = all.engine.namespace("elsewhere").await.expect("the namespace is created");
    let tagged = Draft { tags: mine.into(), ..briefly_delayed() };
    let id = all.submit(tagged.clone()).await;
    all.submit(briefly_delayed()).await;
    elsewhere.submit(tagged).await.expect("the submission is accepted");
    clock.advance_ms(1);
    let tick = scoped.tick("delay_promoter").await;
    assert_eq!((tick.scanned, tick.done, tick.filtered), (1, 1, 0));
    assert_eq!(scoped.state(id).await, StateName::Waiting);
    assert_eq!(all.tick("delay_promoter").await.done, 2);
}
