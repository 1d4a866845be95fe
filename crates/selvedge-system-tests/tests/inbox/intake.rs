//! Committed rows are taken in once: beside open transactions, by several servers, and after crashes.

use crate::{count, refusal_events, submitted, take_in};
use selvedge_engine::Options;
use selvedge_engine::core::inbox::InboxRow;
use selvedge_engine::core::{ExecutionId, FlowId};
use selvedge_engine::store::{Notification, Transactions};
use selvedge_postgres::{PostgresStore, Settings};
use selvedge_system_tests::crash::{CrashPoint, CrashProxy};
use selvedge_system_tests::server::{Server, passive_options};
use selvedge_system_tests::{LONG, Sandbox, joined, stop, wait_until};
use std::sync::Arc;
use tokio::time::timeout;

#[tokio::test]
async fn a_submission_commits_with_the_transaction_and_a_rollback_leaves_nothing() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let sql = sandbox.plain().await;
    sql.run("create table orders (id integer, execution uuid)").await;
    sql.run("begin").await;
    sql.run("insert into orders select 1, submit('k')").await;
    take_in(&server).await;
    assert_eq!(count(&server.namespace).await, 0, "an open transaction has submitted nothing");
    sql.run("rollback").await;
    take_in(&server).await;
    assert_eq!(count(&server.namespace).await, 0, "nor has one that was rolled back");

    sql.run("begin; insert into orders select 2, submit('k'); savepoint s; insert into orders select 3, submit('k')").await;
    sql.run("rollback to s; commit").await;
    take_in(&server).await;
    assert_eq!(count(&server.namespace).await, 1);
    let row = sql.query_one("select execution from orders", &[]).await.expect("the order is there");
    server.namespace.get(ExecutionId(row.get(0))).await.expect("the order names its execution");
    assert_eq!(sql.number("select count(*) from inbox", &[]).await, 0);
}

#[tokio::test]
async fn a_transaction_that_stays_open_delays_only_itself() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let store = server.engine.store().clone();
    let (open, sql) = (sandbox.plain().await, sandbox.plain().await);
    open.run("begin").await;
    let late = submitted(&open, "submit('late')").await;
    for round in 1..=3 {
        submitted(&sql, "submit('k')").await;
        assert!(store.glance().await.expect("the glance succeeds").due.of::<InboxRow>().is_some());
        take_in(&server).await;
        assert_eq!(count(&server.namespace).await, round);
        // From here on the server looks only for transactions that had not ended.
        assert_eq!(store.glance().await.expect("the glance succeeds").due.of::<InboxRow>(), None);
    }
    open.run("commit").await;
    assert!(store.glance().await.expect("the glance succeeds").due.of::<InboxRow>().is_some());
    take_in(&server).await;
    server.namespace.get(ExecutionId(late)).await.expect("it was taken in");
    assert_eq!(store.glance().await.expect("the glance succeeds").due.of::<InboxRow>(), None);
}

#[tokio::test]
async fn a_running_server_finds_submissions_by_itself() {
    let sandbox = Sandbox::new();
    let options = Options { notifications: false, ..Options::default() };
    let server = sandbox.server_with("server", options).await;
    let sql = sandbox.plain().await;
    for _ in 0..3 {
        let id = ExecutionId(submitted(&sql, "submit('k')").await);
        wait_until("it is taken in", async || server.namespace.get(id).await.is_ok()).await;
    }
    stop([&server.engine]).await;
}

#[tokio::test]
async fn a_submission_that_asks_for_it_notifies_the_servers_when_it_commits() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("listener").await;
    let sql = sandbox.plain().await;
    let next = tokio::spawn({
        let store = store.clone();
        async move { store.next_notification().await }
    });
    let text = "select count(*) from pg_stat_activity where query like 'listen %' || current_schema() || '%'";
    wait_until("it listens", async || sql.number(text, &[]).await > 0).await;
    sql.run("begin; select submit('k', notify => true); rollback").await;
    sql.run("select submit('k')").await;
    sql.run("begin; select submit('k', notify => true) from generate_series(1, 100); commit").await;
    let next = timeout(LONG, joined(next)).await.expect("it is notified");
    assert_eq!(next, Some(Notification { inbox: true, ..Notification::default() }));
    assert_eq!(sql.number("select count(*) from inbox", &[]).await, 101);
}

#[tokio::test]
async fn two_servers_take_in_ten_thousand_submissions_of_one_statement_once_each() {
    let sandbox = Sandbox::new();
    let (one, other) = (sandbox.server("one").await, sandbox.server("other").await);
    let sql = sandbox.plain().await;
    sql.run("select count(submit('k' || n % 7, input => to_json(n))) from generate_series(1, 10000) as n")
        .await;
    let drain = |server: Server| {
        tokio::spawn(async move {
            let mut done = 0;
            loop {
                let tally = server.engine.tick("inbox").await.expect("the tick succeeds");
                done += tally.done;
                if tally.scanned == 0 {
                    return done;
                }
            }
        })
    };
    let tasks = [drain(one.clone()), drain(other.clone())];
    let mut done = 0;
    for task in tasks {
        done += joined(task).await;
    }
    assert_eq!(done, 10_000, "each was taken in by one of them");
    assert_eq!(count(&one.namespace).await, 10_000);
    assert_eq!(sql.number("select count(*) from inbox", &[]).await, 0);
    let inputs =
        "select count(distinct convert_from(input, 'UTF8')::integer) from executions where version = 1";
    assert_eq!(sql.number(inputs, &[]).await, 10_000);
}

#[tokio::test]
async fn a_repeated_submission_is_the_first_one() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let sql = sandbox.plain().await;
    let id = submitted(&sql, "submit('k', idempotency_key => 'key')").await;
    let call = format!("submit('k', id => '{id}', idempotency_key => 'key')");
    assert_eq!(submitted(&sql, &call).await, id);
    submitted(&sql, "submit('k', idempotency_key => 'key')").await;
    take_in(&server).await;
    assert_eq!(count(&server.namespace).await, 1);
    assert_eq!(refusal_events(&server.namespace).await, []);
    submitted(&sql, "submit('other', idempotency_key => 'key')").await;
    take_in(&server).await;
    let events = refusal_events(&server.namespace).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].data["code"], "idempotency_mismatch");
}

#[tokio::test]
async fn a_crash_at_any_statement_neither_loses_nor_repeats_a_submission() {
    let sandbox = Sandbox::new();
    let proxy = CrashProxy::start(&sandbox.url("mortal")).await;
    let settings = Settings { writers: 1, readers: 1, ..sandbox.settings() };
    let store = PostgresStore::connect_with(proxy.url(), settings).await.expect("the store opens");
    let mortal = Server::new(Arc::new(store), passive_options()).await;
    let server = sandbox.server("server").await;
    let sql = sandbox.plain().await;
    let (mut statement, mut rounds) = (0, 0);
    loop {
        let (mut crashed, mut reached) = (false, 0);
        for point in [CrashPoint::Before(statement), CrashPoint::After(statement)] {
            rounds += 1;
            let execution = submitted(&sql, "submit('k')").await;
            let flow = submitted(&sql, r#"submit_flow('{"nodes": [{"name": "a", "kind": "k"}]}')"#).await;
            submitted(&sql, "submit('k', budgets => '[\"none\"]')").await;
            proxy.arm(point);
            tokio::select! {
                _ = mortal.engine.tick("inbox") => {}
                () = proxy.has_died() => {}
            }
            take_in(&server).await;
            let (died, statements) = proxy.revive();
            (crashed, reached) = (crashed || died, statements.len());
            server.namespace.get(ExecutionId(execution)).await.expect("the execution was taken in");
            server.namespace.flow(FlowId(flow)).await.expect("the flow was taken in");
            assert_eq!(count(&server.namespace).await, 2 * rounds, "{point:?}");
            assert_eq!(refusal_events(&server.namespace).await.len(), rounds, "{point:?}");
            assert_eq!(sql.number("select count(*) from inbox", &[]).await, rounds as i64, "{point:?}");
        }
        if !crashed {
            assert!(reached > 4, "the transaction has statements at which it can crash");
            return;
        }
        statement += 1;
    }
}
