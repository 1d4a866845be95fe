//! The projection of the log: it has every event of the log once, whatever crashes, whoever writes, and whatever is deleted
//! meanwhile.

use selvedge_engine::Options;
use selvedge_engine::core::{Draft, Policy};
use selvedge_engine::store::{ProjectionLease, ProjectionPage, ProjectionStore};
use selvedge_postgres::{PostgresStore, Settings};
use selvedge_system_tests::crash::{CrashPoint, CrashProxy};
use selvedge_system_tests::feed::log;
use selvedge_system_tests::server::{Server, fence, passive_options};
use selvedge_system_tests::{PlainConnection, Sandbox, stop, wait_until};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

fn options() -> Options {
    Options { event_views: true, ..passive_options() }
}

/// Submits executions and completes one of them.
async fn work(server: &Server, count: usize) {
    server.submit_many(vec![Draft::new("kind"); count]).await;
    let claimed = server.claim_one("one").await;
    server.complete(fence(&claimed)).await.expect("the lease is held");
}

/// Returns the cursors in the view.
async fn shown(plain: &PlainConnection) -> Vec<String> {
    let rows = plain.query("select cursor from v1_events order by cursor", &[]).await;
    rows.expect("the view is read").iter().map(|row| row.get(0)).collect()
}

/// Asserts that the view has the events of the log and nothing else, and each attempt.
async fn is_complete(plain: &PlainConnection) {
    let expected: Vec<String> = log(plain).await.into_iter().map(|event| event.cursor).collect();
    assert_eq!(shown(plain).await, expected);
    let started = "select count(*) from v1_events where type = 'execution.started'";
    let ended = "select count(*) from v1_events where type = 'attempt.ended'";
    let attempts = "select count(*) from v1_attempts";
    let ended_attempts = "select count(*) from v1_attempts where outcome is not null";
    for (events, attempts) in [(started, attempts), (ended, ended_attempts)] {
        assert_eq!(plain.number(attempts, &[]).await, plain.number(events, &[]).await);
    }
}

/// Lets the lease of a dead owner pass.
async fn forget_owner(plain: &PlainConnection) {
    plain.run("update projection set owned_until = '-infinity'").await;
}

#[tokio::test]
async fn a_crash_at_any_statement_of_a_save_neither_loses_nor_repeats_a_row() {
    let sandbox = Sandbox::new();
    let other = sandbox.server("other").await;
    let plain = sandbox.plain().await;
    let crasher = CrashProxy::start(&sandbox.url("dying")).await;
    let (mut crashes, mut statements) = (0, Vec::new());
    for number in 0.. {
        let mut finished = true;
        for at in [CrashPoint::Before(number), CrashPoint::After(number)] {
            work(&other, 3).await;
            let settings = Settings { writers: 1, readers: 1, background: 1, ..sandbox.settings() };
            let store = PostgresStore::connect_with(crasher.url(), settings).await.expect("the store opens");
            let dying = Server::new(Arc::new(store), options()).await;
            forget_owner(&plain).await;
            crasher.arm(at);
            tokio::select! {
                () = crasher.has_died() => {}
                _ = dying.engine.tick("projection") => {}
            }
            let (died, counted) = crasher.revive();
            finished &= !died;
            crashes += usize::from(died);
            statements = counted;
            drop(dying);
            let next = sandbox.server_with("next", options()).await;
            forget_owner(&plain).await;
            next.tick("projection").await;
            is_complete(&plain).await;
            stop([&next.engine]).await;
        }
        if finished {
            break;
        }
    }
    assert_eq!(statements.len(), 4, "begin, lock, save and commit: {statements:?}");
    assert!(crashes >= 7, "{crashes} crashes");
    stop([&other.engine]).await;
}

#[tokio::test]
async fn servers_that_project_at_once_write_each_row_once() {
    let sandbox = Sandbox::new();
    let mut servers = Vec::new();
    for number in 0..4 {
        servers.push(sandbox.server_with(&format!("server{number}"), options()).await);
    }
    let plain = sandbox.plain().await;
    for _ in 0..20 {
        work(&servers[0], 5).await;
        // Every server believes that the lease is free.
        forget_owner(&plain).await;
        let ticks = servers.iter().map(|server| server.engine.tick("projection"));
        for tick in futures_util::future::join_all(ticks).await {
            tick.expect("the tick runs");
        }
    }
    forget_owner(&plain).await;
    servers[1].tick("projection").await;
    is_complete(&plain).await;
    stop(servers.iter().map(|server| &server.engine)).await;
}

#[tokio::test]
async fn a_superseded_owner_changes_nothing() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("store").await;
    let plain = sandbox.plain().await;
    let [first, second] = [(); 2].map(|()| ProjectionLease { owner: Uuid::new_v4(), ttl_ms: 60_000 });
    let page = |after, upto| ProjectionPage { after, upto, ..ProjectionPage::default() };
    let take = async |lease| store.take_projection(lease).await.expect("the store answers");
    let save = async |lease, page| store.save_projection(lease, page).await.expect("the store answers");
    assert_eq!(take(first).await, Some(0));
    assert_eq!(take(second).await, None);
    assert!(!save(second, page(0, 5)).await, "it is not the owner");
    assert!(save(first, page(0, 5)).await);
    assert!(!save(first, page(0, 5)).await, "the position is another one");
    forget_owner(&plain).await;
    assert_eq!(take(second).await, Some(5));
    assert!(!save(first, page(5, 7)).await, "it was superseded");
    assert_eq!(take(first).await, None);
    assert_eq!(take(second).await, Some(5));
}

#[tokio::test]
async fn events_leave_with_the_log_and_what_was_missed_is_said() {
    let sandbox = Sandbox::new();
    let window = Duration::from_secs(5 * 24 * 3600);
    let server = sandbox.server_with("server", Options { log_window: window, ..options() }).await;
    let plain = sandbox.plain().await;
    work(&server, 4).await;
    server.tick("projection").await;
    is_complete(&plain).await;
    let last = plain.number("select entry from projection", &[]).await;
    work(&server, 4).await;
    let dropped = plain.number("select max(number) from log", &[]).await;
    plain.run("update log set at = now() - interval '10 days'").await;
    server.tick("log_window").await;
    assert_eq!(shown(&plain).await, Vec::<String>::new(), "the events have left with their entries");
    work(&server, 2).await;
    server.tick("projection").await;
    let missed = "select count(*) from v1_events where type = 'log.missed' and namespace is null \
                  and (data ->> 'entries')::bigint = $1::bigint";
    assert_eq!(plain.number(missed, &[&(dropped - last)]).await, 1);
    let cursors = shown(&plain).await;
    let expected: Vec<String> = log(&plain).await.into_iter().map(|event| event.cursor).collect();
    assert_eq!(cursors[1..], expected, "the announcement comes first, then everything that is in the log");
    let ended = plain.number("select count(*) from v1_attempts where outcome = 'completed'", &[]).await;
    assert_eq!(ended, 2, "the attempt whose events were missed is not there");
    stop([&server.engine]).await;
}

#[tokio::test]
async fn an_attempt_is_deleted_with_its_execution_also_if_both_happen_at_once() {
    let sandbox = Sandbox::new();
    let server = sandbox.server_with("server", options()).await;
    let (plain, locker) = (sandbox.plain().await, sandbox.plain().await);
    let policy = Policy { retention_ms: 1, ..Policy::default() };
    for first_is_projection in [true, false] {
        let id = server.submit(Draft { policy: policy.clone(), ..Draft::new("kind") }).await;
        let claimed = server.claim_one("one").await;
        server.complete(fence(&claimed)).await.expect("the lease is held");
        let due = "select count(*) from executions where due_at <= clock_timestamp()";
        wait_until("the retention has passed", async || plain.number(due, &[]).await == 1).await;
        // Both wait for the same lock: the one that asks first is granted it first.
        let lock = "select pg_advisory_xact_lock('projected_attempts'::regclass::oid::integer, 0)";
        locker.run(&format!("begin; {lock}")).await;
        let engines = [server.engine.clone(), server.engine.clone()];
        let [one, two] =
            if first_is_projection { ["projection", "retention"] } else { ["retention", "projection"] };
        let [first, second] = engines;
        let first = tokio::spawn(async move { first.tick(one).await });
        let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted \
                       and classid = 'projected_attempts'::regclass::oid";
        wait_until("the first waits", async || plain.number(waiting, &[]).await == 1).await;
        let second = tokio::spawn(async move { second.tick(two).await });
        wait_until("the second waits", async || plain.number(waiting, &[]).await == 2).await;
        locker.run("commit").await;
        for tick in [first, second] {
            tick.await.expect("the tick does not panic").expect("the tick runs");
        }
        assert!(server.is_deleted(id).await);
        assert_eq!(plain.number("select count(*) from v1_attempts", &[]).await, 0);
    }
    stop([&server.engine]).await;
}

#[tokio::test]
async fn the_deletion_of_a_namespace_deletes_its_events() {
    let sandbox = Sandbox::new();
    let server = sandbox.server_with("server", options()).await;
    let plain = sandbox.plain().await;
    let kept = server.engine.namespace("kept").await.expect("the namespace is created");
    kept.submit(Draft::new("kind")).await.expect("it is submitted");
    server.submit_many(vec![Draft::new("kind"); 30]).await;
    server.tick("projection").await;
    let store = server.engine.store();
    while store.delete_rest_of_namespace(server.namespace.id(), 7).await.expect("rows are deleted") > 0 {}
    let count = "select count(*) from v1_events where namespace = $1";
    assert_eq!(plain.number(count, &[&"default"]).await, 0);
    assert_eq!(plain.number(count, &[&"kept"]).await, 1);
    stop([&server.engine]).await;
}
