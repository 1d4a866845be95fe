//! Claims start at a bound, below which no row is waiting: no execution is missed, whichever server makes it waiting and
//! however late it commits, and index entries of earlier claims are not scanned again.

use selvedge_conformance::Harness;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::{ClassId, Draft, Timestamp};
use selvedge_postgres::{PostgresStore, testing};
use selvedge_system_tests::{PlainConnection, Sandbox, wait_until};
use std::collections::HashMap;
use std::sync::Arc;
use tokio_postgres::SimpleQueryMessage;

fn of_priority(priority: i64) -> Draft {
    Draft { priority, ..Draft::new("kind") }
}

/// Refreshes bounds until that of a pair has passed this time.
async fn has_passed(store: &PostgresStore, class: ClassId, priority: i16, time: Timestamp) {
    wait_until("the bound has passed the time", async || {
        testing::refresh_bounds(store, &[class]).await.expect("the bounds are refreshed");
        testing::bound(store, class, priority).is_some_and(|bound| bound > time)
    })
    .await;
}

/// Opens a store with a harness.
async fn server(sandbox: &Sandbox, who: &str) -> (Arc<PostgresStore>, Harness) {
    let store = sandbox.store(who).await;
    // Opens all connections first, because every new one clears the bounds.
    let harness = Harness::new(store.clone()).await;
    (store, harness)
}

#[tokio::test]
async fn an_execution_of_a_transaction_that_began_early_and_commits_late_is_claimed_after_later_ones() {
    let sandbox = Sandbox::new();
    let (store, a) = server(&sandbox, "a").await;
    let (_, b) = server(&sandbox, "b").await;
    let plain = sandbox.plain().await;
    let class = a.submit(Draft::new("kind")).await.class;
    assert_eq!(a.claim(1).await.len(), 1);
    // The late transaction waits for a key that another one may be about to write.
    let key = format!(
        "begin; insert into keys values ({}, 2, 'late', gen_random_uuid(), 0, '', null)",
        a.namespace.0
    );
    plain.run(&key).await;
    let late = tokio::spawn(async move {
        b.submit(Draft { unique_while_active: Some("late".into()), ..Draft::new("kind") }).await
    });
    sandbox.waits_for_lock("b", 1).await;
    let later = a.submit(Draft::new("kind")).await;
    assert_eq!(a.claim(9).await.len(), 1);
    // Long enough that the bound would be beyond the late execution, if its transaction did not count.
    let observer = sandbox.plain().await;
    let text = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint";
    wait_until("300 ms have passed", async || {
        observer.number(text, &[]).await > later.ready_order.micros() + 300_000
    })
    .await;
    testing::refresh_bounds(&store, &[class]).await.expect("the bounds are refreshed");
    let bound = testing::bound(&store, class, 0).expect("there is one");
    assert!(a.claim(9).await.is_empty());
    plain.release().await;
    let late = late.await.expect("the request is accepted");
    assert!(late.ready_order < later.ready_order);
    assert!(bound <= late.ready_order, "the bound stays behind open transactions");
    let claimed = a.claim(9).await;
    assert_eq!(claimed.iter().map(|one| one.execution.id).collect::<Vec<_>>(), [late.id]);
    has_passed(&store, class, 0, later.ready_order).await;
}

#[tokio::test]
async fn an_old_execution_whose_priority_another_server_changes_is_claimed_with_its_new_priority() {
    let sandbox = Sandbox::new();
    let (store, a) = server(&sandbox, "a").await;
    let (_, b) = server(&sandbox, "b").await;
    let old = a.submit(of_priority(0)).await;
    let high = a.submit(of_priority(5)).await;
    assert_eq!(a.claim(1).await[0].execution.id, high.id);
    has_passed(&store, old.class, 5, old.ready_order).await;
    b.operate(old.id, Action::Prioritise { priority: 5 }).await.expect("the priority is raised");
    let claimed = a.claim(1).await;
    assert_eq!(claimed.iter().map(|one| one.execution.id).collect::<Vec<_>>(), [old.id]);
    has_passed(&store, old.class, 5, old.ready_order).await;
}

#[tokio::test]
async fn a_tag_on_a_waiting_execution_leaves_bounds_unchanged() {
    let sandbox = Sandbox::new();
    let (_, a) = server(&sandbox, "a").await;
    let ready = a.submit(of_priority(0)).await;
    let plain = sandbox.plain().await;
    let generation = "select generation from class_priorities";
    assert_eq!(plain.number(generation, &[]).await, 0);
    let tag = Action::Tag { set: [("a".into(), "b".into())].into(), remove: Vec::new() };
    a.operate(ready.id, tag).await.expect("the tag is set");
    assert_eq!(plain.number(generation, &[]).await, 0);
    a.operate(ready.id, Action::Prioritise { priority: 5 }).await.expect("the priority is raised");
    a.operate(ready.id, Action::Prioritise { priority: 0 }).await.expect("the priority is lowered");
    assert_ne!(plain.number(&format!("{generation} where priority = 0"), &[]).await, 0);
}

#[tokio::test]
async fn an_execution_of_a_priority_that_another_server_uses_first_is_claimed() {
    let sandbox = Sandbox::new();
    let (store, a) = server(&sandbox, "a").await;
    let (_, b) = server(&sandbox, "b").await;
    let first = a.submit(of_priority(0)).await;
    assert_eq!(a.claim(1).await.len(), 1);
    has_passed(&store, first.class, 0, first.ready_order).await;
    for priority in [7, -7] {
        let other = b.submit(of_priority(priority)).await;
        assert_eq!(a.claim(1).await[0].execution.id, other.id);
    }
}

/// Returns the number of pages that a claim reads with these bounds, on a connection with loaded caches.
async fn pages(sandbox: &Sandbox, class: ClassId, bounds: &str) -> i64 {
    let client =
        testing::connect(&sandbox.url("explains"), &sandbox.settings()).await.expect("the connection opens");
    let statements: HashMap<_, _> = testing::statements().into_iter().collect();
    let claim = format!("execute asked('{{{}}}', {bounds}, '{{1}}', '{{10}}', '{{}}', 1000)", class.0);
    let text = format!(
        "begin; prepare asked as {}; {claim}; explain (analyze, buffers, timing off) {claim}; rollback",
        statements["executions/lock_candidates"]
    );
    let answers = client.simple_query(&text).await.expect("the plan is returned");
    let lines = answers.iter().filter_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    // The first line about buffers is that of the whole plan.
    let buffers =
        lines.map(str::trim).find(|line| line.starts_with("Buffers: shared")).expect("there is one");
    let read = buffers.split([' ', '=']).filter_map(|word| word.parse::<i64>().ok());
    read.sum()
}

async fn hold_a_snapshot(plain: &PlainConnection) {
    plain.run("begin isolation level repeatable read; select from executions limit 1").await;
}

#[tokio::test]
async fn claims_do_not_scan_claimed_entries_again_while_a_foreign_session_holds_an_old_snapshot() {
    let sandbox = Sandbox::new();
    let (store, a) = server(&sandbox, "a").await;
    let plain = sandbox.plain().await;
    let class = a.submit(Draft::new("kind")).await.class;
    hold_a_snapshot(&plain).await;
    let last = a.submit_all(vec![Draft::new("kind"); 4000]).await.pop().expect("there are submissions");
    let mut claimed = 0;
    while claimed < 4001 {
        claimed += a.claim(100).await.len();
    }
    // Claims alone refresh bounds.
    wait_until("claims have moved the bound", async || {
        assert!(a.claim(1).await.is_empty());
        testing::bound(&store, class, 0).is_some_and(|bound| bound > last.ready_order)
    })
    .await;
    let next = a.submit(Draft::new("kind")).await;
    let without = pages(&sandbox, class, "'{}', '{}', '{}'").await;
    let with = pages(&sandbox, class, &testing::bound_arguments(&store, class)).await;
    assert!(with * 10 < without, "{with} pages with bounds, {without} without");
    assert_eq!(a.claim(1).await[0].execution.id, next.id);
    plain.release().await;
}
