//! The window of the log: days are dropped as a whole and in time, readers and writers do not wait, and entries without a
//! partition of their day are kept too.

use selvedge_conformance::Harness;
use selvedge_engine::core::Draft;
use selvedge_engine::store::{Entries, LogStore};
use selvedge_postgres::PostgresStore;
use selvedge_system_tests::{PlainConnection, Sandbox};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const DAY_MS: i64 = 24 * 3_600_000;

/// Counts partitions, except the default one.
const DAYS: &str = "select count(*) from pg_inherits where inhparent = 'log'::regclass and inhrelid <> 'log_default'::regclass";
/// Counts the partitions of today and the next three days.
const COMING_DAYS: &str = "
select count(to_regclass('log_' || to_char(day, 'YYYYMMDD')))
from generate_series(now() at time zone 'UTC', now() at time zone 'UTC' + interval '3 days', interval '1 day') as day";

async fn read(store: &PostgresStore, after: i64) -> Entries {
    store.log_after(after, 100).await.expect("the log is read")
}

fn numbers(page: &Entries) -> Vec<i64> {
    page.entries.iter().map(|entry| entry.number).collect()
}

async fn keep(store: &PostgresStore, keep_ms: i64) -> u64 {
    store.drop_old_log(keep_ms).await.expect("old entries are dropped")
}

/// Writes an entry with a time some days ago.
async fn write(plain: &PlainConnection, days_ago: i32) -> i64 {
    let text =
        "insert into log (at, body) values (now() - $1::integer * interval '1 day', '') returning number";
    plain.number(text, &[&days_ago]).await
}

/// Creates the partition of a day in the past.
async fn create_day(plain: &PlainConnection, days_ago: i32) {
    plain
        .run(&format!(
            "do $$
             declare
               day timestamp := date_trunc('day', now() at time zone 'UTC') - {days_ago} * interval '1 day';
             begin
               execute format(
                 'create table %I partition of log for values from (%L) to (%L)', 'log_' || to_char(day, 'YYYYMMDD'),
                 day at time zone 'UTC', (day + interval '1 day') at time zone 'UTC'
               );
             end
             $$"
        ))
        .await;
}

/// Drops the partition of today, as if no server had created it in time.
async fn drop_today(plain: &PlainConnection) {
    let text = "do $$ begin
                  execute 'drop table log_' || to_char(now() at time zone 'UTC', 'YYYYMMDD');
                end $$";
    plain.run(text).await;
}

#[tokio::test]
async fn an_opened_store_has_partitions_for_the_coming_days_and_entries_use_them() {
    let sandbox = Sandbox::new();
    let (store, plain) = (sandbox.store("store").await, sandbox.plain().await);
    assert_eq!(plain.number(DAYS, &[]).await, 4);
    assert_eq!(plain.number(COMING_DAYS, &[]).await, 4);
    let harness = Harness::new(store.clone()).await;
    harness.submit(Draft::new("kind")).await;
    write(&plain, -3).await;
    assert_eq!(plain.number("select count(*) from log_default", &[]).await, 0);
    drop_today(&plain).await;
    keep(&store, DAY_MS).await;
    assert_eq!(plain.number(COMING_DAYS, &[]).await, 4, "missing partitions are created");
    drop_today(&plain).await;
    sandbox.store("other").await;
    assert_eq!(plain.number(COMING_DAYS, &[]).await, 4, "opening a store creates them too");
}

#[tokio::test]
async fn a_day_is_dropped_when_all_of_it_has_left_the_window() {
    let sandbox = Sandbox::new();
    let (store, plain) = (sandbox.store("store").await, sandbox.plain().await);
    let mut written = Vec::new();
    for days_ago in [12, 10, 9, 2] {
        create_day(&plain, days_ago).await;
        for _ in 0..3 {
            written.push(write(&plain, days_ago).await);
        }
    }
    written.push(write(&plain, 0).await);
    assert_eq!(keep(&store, 20 * DAY_MS).await, 0);
    assert_eq!((numbers(&read(&store, 0).await), read(&store, 0).await.oldest), (written.clone(), 0));
    assert_eq!(keep(&store, 11 * DAY_MS).await, 1);
    let page = read(&store, 0).await;
    assert_eq!((numbers(&page), page.oldest), (written[3..].to_vec(), written[2] + 1));
    assert_eq!(keep(&store, 5 * DAY_MS).await, 2);
    let page = read(&store, written[0]).await;
    assert_eq!((numbers(&page), page.oldest), (written[9..].to_vec(), written[8] + 1));
    assert_eq!(plain.number(DAYS, &[]).await, 5, "two days ago, today and the coming days");
    assert_eq!(keep(&store, 5 * DAY_MS).await, 0);
    let other = sandbox.store("other").await;
    assert_eq!(read(&other, 0).await, read(&store, 0).await, "every server has the same window");
}

#[tokio::test]
async fn servers_that_drop_the_same_days_at_once_drop_each_once() {
    let sandbox = Sandbox::new();
    let plain = sandbox.plain().await;
    let mut stores = Vec::new();
    for who in ["a", "b", "c"] {
        stores.push(sandbox.store(who).await);
    }
    let mut last = 0;
    for days_ago in [12, 11, 10, 9] {
        create_day(&plain, days_ago).await;
        last = write(&plain, days_ago).await;
    }
    let keeping: Vec<_> = stores
        .iter()
        .map(|store| {
            let store = store.clone();
            tokio::spawn(async move { keep(&store, 5 * DAY_MS).await })
        })
        .collect();
    let mut dropped = 0;
    for one in keeping {
        dropped += one.await.expect("the task does not panic");
    }
    assert_eq!(dropped + keep(&stores[0], 5 * DAY_MS).await, 4);
    assert_eq!(read(&stores[1], 0).await.oldest, last + 1);
}

#[tokio::test]
async fn a_drop_gives_up_soon_if_the_log_is_locked_and_succeeds_the_next_time() {
    let sandbox = Sandbox::new();
    let (store, plain) = (sandbox.store("store").await, sandbox.plain().await);
    create_day(&plain, 10).await;
    let written = write(&plain, 10).await;
    for holds in [
        "begin; select count(*) from log",
        "begin; insert into log (at, body) values (now(), '')",
        "begin; lock table log_default in access share mode",
    ] {
        plain.run(holds).await;
        let since = Instant::now();
        assert_eq!(keep(&store, 5 * DAY_MS).await, 0, "{holds}");
        assert!(since.elapsed() < Duration::from_secs(2), "{:?}: {holds}", since.elapsed());
        plain.release().await;
        assert_eq!(numbers(&read(&store, 0).await), [written], "no entry is dropped");
    }
    assert_eq!(keep(&store, 5 * DAY_MS).await, 1);
    let page = read(&store, 0).await;
    assert_eq!((numbers(&page), page.oldest), (vec![], written + 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_does_not_wait_behind_a_waiting_drop() {
    let sandbox = Sandbox::new();
    let (keeper, writer) = (sandbox.store("keeper").await, sandbox.store("writer").await);
    let plain = sandbox.plain().await;
    let harness = Harness::new(writer.clone()).await;
    harness.submit(Draft::new("kind")).await;
    create_day(&plain, 10).await;
    plain.run("begin; select count(*) from log").await;
    let ended = Arc::new(AtomicBool::new(false));
    let keeping = tokio::spawn({
        let ended = ended.clone();
        async move {
            while !ended.load(Ordering::SeqCst) {
                assert_eq!(keep(&keeper, 5 * DAY_MS).await, 0);
            }
        }
    });
    let mut slowest = Duration::ZERO;
    for _ in 0..5 {
        sandbox.waits_for_lock("keeper", 1).await;
        let since = Instant::now();
        harness.submit(Draft::new("kind")).await;
        slowest = slowest.max(since.elapsed());
        read(&writer, 0).await;
    }
    ended.store(true, Ordering::SeqCst);
    keeping.await.expect("every try gives up");
    assert!(slowest < Duration::from_millis(800), "{slowest:?}");
    assert_eq!(writer.conflicts(), 0, "no transaction was retried");
    plain.release().await;
}

#[tokio::test]
async fn an_entry_of_a_day_without_a_partition_is_kept_until_it_leaves_the_window() {
    let sandbox = Sandbox::new();
    let (store, plain) = (sandbox.store("store").await, sandbox.plain().await);
    let harness = Harness::new(store.clone()).await;
    let old = [write(&plain, 20).await, write(&plain, 10).await];
    drop_today(&plain).await;
    harness.submit(Draft::new("kind")).await;
    let today = old[1] + 1;
    assert_eq!(plain.number("select count(*) from log_default", &[]).await, 3);
    assert_eq!(
        numbers(&read(&store, 0).await),
        [old[0], old[1], today],
        "entries of the default partition are read too"
    );
    assert_eq!(keep(&store, 30 * DAY_MS).await, 0);
    harness.submit(Draft::new("kind")).await;
    assert_eq!(plain.number("select count(*) from log_default", &[]).await, 4, "the day stays there");
    assert_eq!(keep(&store, 15 * DAY_MS).await, 1);
    let page = read(&store, 0).await;
    assert_eq!((numbers(&page), page.oldest), (vec![old[1], today, today + 1], old[0] + 1));
    assert_eq!(keep(&store, 5 * DAY_MS).await, 1);
    let page = read(&store, 0).await;
    assert_eq!((numbers(&page), page.oldest), (vec![today, today + 1], old[1] + 1));
    assert_eq!(plain.number("select count(*) from log_default", &[]).await, 2);
}

#[tokio::test]
async fn an_entry_routed_to_the_default_partition_while_its_day_is_attached_is_written_to_its_day() {
    let sandbox = Sandbox::new();
    let (store, plain, other) = (sandbox.store("store").await, sandbox.plain().await, sandbox.plain().await);
    let harness = Harness::new(store.clone()).await;
    drop_today(&plain).await;
    plain.run("begin").await;
    create_day_like_the_store(&plain).await;
    let submit = tokio::spawn({
        let harness = harness.clone();
        async move { harness.submit(Draft::new("kind")).await }
    });
    sandbox.waits_for_lock("store", 1).await;
    plain.run("commit").await;
    submit.await.expect("the request is accepted");
    assert_eq!(other.number("select count(*) from log_default", &[]).await, 0);
    assert_eq!(read(&store, 0).await.entries.len(), 1);
    assert_eq!(store.conflicts(), 1, "the transaction was retried");
}

/// Creates the partition of today like the store does.
async fn create_day_like_the_store(plain: &PlainConnection) {
    plain
        .run(
            "do $$
             declare
               day timestamp := date_trunc('day', now() at time zone 'UTC');
               name text := 'log_' || to_char(day, 'YYYYMMDD');
             begin
               execute format('create table %I (like log including all)', name);
               execute format(
                 'alter table log attach partition %I for values from (%L) to (%L)', name,
                 day at time zone 'UTC', (day + interval '1 day') at time zone 'UTC'
               );
             end
             $$",
        )
        .await;
}

/// Creates a schema from before the log had partitions.
async fn without_partitions(sandbox: &Sandbox) -> PlainConnection {
    let plain = sandbox.plain().await;
    plain.run(&format!("create schema {}", sandbox.schema)).await;
    plain.run(include_str!("../../src/migrations/0001_foundation.sql")).await;
    plain.run(include_str!("../../src/migrations/0002_flows.sql")).await;
    plain
        .run(
            "create table schema_version (version integer not null, minimum_reader integer not null);
             insert into schema_version values (2, 2);",
        )
        .await;
    plain
}

#[tokio::test]
async fn a_log_from_before_partitions_is_carried_over_and_leaves_the_window_in_time() {
    let sandbox = Sandbox::new();
    let plain = without_partitions(&sandbox).await;
    let old = "insert into log (at, body) select now() - n * interval '1 day', 'old' from generate_series(30, 10, -1) as n";
    plain.run(old).await;
    plain.run("begin; insert into log (at, body) values (now(), ''); rollback").await;
    let store = sandbox.store("store").await;
    let page = read(&store, 0).await;
    assert_eq!((numbers(&page), page.oldest), ((1..=21).collect::<Vec<_>>(), 0));
    assert!(page.entries.iter().all(|entry| &entry.body[..] == b"old"));
    let harness = Harness::new(store.clone()).await;
    harness.submit(Draft::new("kind")).await;
    assert_eq!(numbers(&read(&store, 20).await), [21, 23], "no number is drawn twice");
    assert_eq!(plain.number("select count(*) from log_default", &[]).await, 0);
    assert_eq!(keep(&store, 15 * DAY_MS).await, 0, "some entries are still inside the window");
    assert_eq!(keep(&store, 5 * DAY_MS).await, 1);
    let page = read(&store, 0).await;
    assert_eq!((numbers(&page), page.oldest), (vec![23], 22));
}

#[tokio::test]
async fn a_log_with_entries_of_today_or_of_the_future_is_carried_over_too() {
    for days_ahead in [0, 2] {
        let sandbox = Sandbox::new();
        let plain = without_partitions(&sandbox).await;
        write(&plain, 1).await;
        write(&plain, -days_ahead).await;
        let store = sandbox.store("store").await;
        let harness = Harness::new(store.clone()).await;
        harness.submit(Draft::new("kind")).await;
        assert_eq!(numbers(&read(&store, 0).await), [1, 2, 3], "{days_ahead}");
        keep(&store, 5 * DAY_MS).await;
        assert_eq!(plain.number("select count(*) from log_default", &[]).await, 0);
        assert_eq!(
            plain.number(DAYS, &[]).await,
            i64::from(4 - days_ahead),
            "partitions for the other coming days"
        );
    }
}
