//! Locks held by others and statements that take too long: callers are refused in time, the culprit alone fails, and the
//! store keeps its connections and bounds.

use futures_util::future::join_all;
use selvedge_conformance::{Harness, run_rule};
use selvedge_engine::Error as EngineError;
use selvedge_engine::core::filter::Payloads;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Fence;
use selvedge_engine::core::{ClassId, Draft, ExecutionId};
use selvedge_engine::store::{Error, ExecutionReads, Transactions};
use selvedge_postgres::{Settings, testing};
use selvedge_system_tests::server::{Server, fence, passive_options};
use selvedge_system_tests::{LONG, PlainConnection, Sandbox};
use std::time::{Duration, Instant};

/// The longest that a caller waits for an answer while a lock is in the way.
const SOON: Duration = Duration::from_secs(5);

/// Starts a server with one writer, so that calls that arrive together share a batch.
async fn server_with(sandbox: &Sandbox, settings: Settings) -> Server {
    let store = sandbox.store_with("server", Settings { writers: 1, ..settings }).await;
    Server::new(store, passive_options()).await
}

fn is_refused_for_now<T>(answer: &Result<T, EngineError>) -> bool {
    matches!(answer, Err(EngineError::Store(error)) if error.is_transient())
}

#[tokio::test]
async fn while_a_table_is_locked_reads_and_writes_are_refused_in_time() {
    let sandbox = Sandbox::new();
    let server = server_with(&sandbox, sandbox.settings()).await;
    let id = server.submit(Draft::new("kind")).await;
    let plain = sandbox.plain().await;
    plain.run("begin; lock table executions in access exclusive mode").await;
    let since = Instant::now();
    let read = server.namespace.get(id).await;
    assert!(matches!(&read, Err(EngineError::Store(Error::Contended(_)))), "{:?}", read.err());
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());

    let since = Instant::now();
    let answers = join_all((0..100).map(|_| server.namespace.submit(Draft::new("kind")))).await;
    assert!(answers.iter().all(is_refused_for_now));
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    plain.release().await;
    server.submit(Draft::new("kind")).await;
    server.engine.shutdown().await;
}

/// Reports the end of leases together. Returns the executions whose report failed for now.
async fn refused_reports(server: &Server, leases: &[(ExecutionId, Fence)]) -> Vec<ExecutionId> {
    let reports = leases.iter().map(|(id, lease)| async move {
        let complete = selvedge_system_tests::server::complete_op();
        let report = server.namespace.report(vec![Ok((*lease, None, complete))], None).await;
        assert!(report.is_ok() || is_refused_for_now(&report), "{:?}", report.err());
        report.is_err().then_some(*id)
    });
    join_all(reports).await.into_iter().flatten().collect()
}

#[tokio::test]
async fn of_a_batch_only_the_rule_fails_whose_row_another_session_has_locked() {
    let sandbox = Sandbox::new();
    let server = server_with(&sandbox, sandbox.settings()).await;
    server.submit_many(vec![Draft::new("kind"); 32]).await;
    let claimed = server.claim("one", 32).await;
    let leases: Vec<_> = claimed.iter().map(|one| (one.execution.id, fence(one))).collect();
    let culprit = leases[20].0;
    let plain = sandbox.plain().await;
    plain.lock_execution(culprit).await;
    let since = Instant::now();
    assert_eq!(refused_reports(&server, &leases).await, [culprit]);
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    plain.release().await;
    assert_eq!(refused_reports(&server, &leases[20..21]).await, []);
    server.engine.shutdown().await;
}

/// Makes every insertion of this tag take longer than any statement may.
async fn slow_down(plain: &PlainConnection, tag: &str) {
    plain
        .run(&format!(
            "create function wait_long() returns trigger language plpgsql as
               $$ begin perform pg_sleep(60); return new; end $$;
             create trigger wait_long before insert on tags for each row
               when (new.tag like '%{tag}%') execute function wait_long()"
        ))
        .await;
}

#[tokio::test]
async fn of_a_batch_only_the_rule_fails_whose_statement_takes_too_long() {
    let sandbox = Sandbox::new();
    let settings = Settings { statement_timeout: Duration::from_secs(1), ..sandbox.settings() };
    let server = server_with(&sandbox, settings).await;
    server.submit(Draft::new("kind")).await;
    slow_down(&sandbox.plain().await, "culprit").await;
    let submissions = (0..32).map(|number| {
        let tag = if number == 20 { "culprit" } else { "innocent" };
        let draft = Draft { tags: [("who".into(), tag.into())].into(), ..Draft::new("kind") };
        server.namespace.submit(draft)
    });
    let answers = tokio::time::timeout(LONG, join_all(submissions)).await.expect("all are answered");
    for (number, answer) in answers.iter().enumerate() {
        match answer {
            Err(EngineError::Store(Error::TooSlow(_))) => assert_eq!(number, 20),
            Err(error) => panic!("{number}: {error}"),
            Ok(_) => assert_ne!(number, 20),
        }
    }
    server.engine.shutdown().await;
}

#[tokio::test]
async fn a_lock_timeout_while_loading_drops_neither_the_connection_nor_the_bounds() {
    let sandbox = Sandbox::new();
    let settings = Settings { writers: 1, lock_timeout: Duration::from_millis(50), ..sandbox.settings() };
    let store = sandbox.store_with("store", settings).await;
    let harness = Harness::new(store.clone()).await;
    let id = harness.submit(Draft::new("kind")).await.id;
    let class = ClassId(1);
    testing::refresh_bounds(&store, &[class]).await.expect("the bounds are raised");
    let bound = testing::bound(&store, class, 0);
    assert!(bound.is_some());
    let plain = sandbox.plain().await;
    let backends = "select coalesce(sum(pid), 0)::bigint from pg_stat_activity where application_name = $1";
    let name = format!("{}_store", sandbox.schema);
    let before = plain.number(backends, &[&name]).await;
    let locker = sandbox.plain().await;
    locker.lock_execution(id).await;
    let cancel = Action::Cancel { reason: None, grace_ms: 0 };
    let answer = run_rule(&harness.store, harness.operate_command(id, cancel)).await;
    assert!(matches!(answer, Err(Error::Contended(_))), "the lock was in the way");
    sandbox.is_idle("store").await;
    locker.release().await;
    harness.submit(Draft::new("kind")).await;
    assert_eq!(plain.number(backends, &[&name]).await, before, "the same connections");
    assert_eq!(testing::bound(&store, class, 0), bound);
    store.close().await;
}

#[tokio::test]
async fn a_read_whose_caller_gave_up_is_cancelled_and_its_connection_is_not_lent_while_busy() {
    let sandbox = Sandbox::new();
    let settings = Settings { readers: 1, lock_timeout: LONG, ..sandbox.settings() };
    let store = sandbox.store_with("store", settings).await;
    let plain = sandbox.plain().await;
    plain.run("begin; lock table executions in access exclusive mode").await;
    let read = tokio::spawn({
        let store = store.clone();
        async move { store.fetch(&[ExecutionId(uuid::Uuid::nil())], Payloads::ALL).await }
    });
    sandbox.waits_for_lock("store", 1).await;
    read.abort();
    let since = Instant::now();
    store.ping().await.expect("another connection answers");
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    sandbox.waits_for_lock("store", 0).await;
    plain.release().await;
    store.close().await;
}
