//! The window of the log: days are dropped whole and in time, nobody waits for it, and what has no day of its own is kept too.

mod support;

use selvedge_conformance::Harness;
use selvedge_engine::core::Draft;
use selvedge_engine::store::{Entries, Store};
use selvedge_postgres::PostgresStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{Plain, Sandbox};

const DAY_MS: i64 = 24 * 3_600_000;

/// Partitions, but for the default one.
const DAYS: &str = "select count(*) from pg_inherits where inhparent = 'log'::regclass and inhrelid <> 'log_default'::regclass";
/// Those of today and three days after it.
const DAYS_TO_COME: &str = "
select count(to_regclass('log_' || to_char(day, 'YYYYMMDD')))
from generate_series(now() at time zone 'UTC', now() at time zone 'UTC' + interval '3 days', interval '1 day') as day";

async fn read(store: &PostgresStore, after: i64) -> Entries {
    store.log_after(after, 100).await.expect("the log is read")
}

fn numbers(page: &Entries) -> Vec<i64> {
    page.entries.iter().map(|entry| entry.number).collect()
}

async fn keep(store: &PostgresStore, keep_ms: i64) -> u64 {
    store.keep_log(keep_ms).await.expect("the window is kept")
}

/// Writes an entry of so many days ago.
async fn write(plain: &Plain, days_ago: i32) -> i64 {
    let text =
        "insert into log (at, body) values (now() - $1::integer * interval '1 day', '') returning number";
    plain.number(text, &[&days_ago]).await
}

/// Makes the partition of so many days ago.
async fn make_day(plain: &Plain, days_ago: i32) {
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

/// Drops the partition of today, as if nobody had made it in time.
async fn drop_today(plain: &Plain) {
    let text = "do $$ begin
                  execute 'drop table log_' || to_char(now() at time zone 'UTC', 'YYYYMMDD');
                end $$";
    plain.run(text).await;
}

#[tokio::test]
async fn a_store_that_was_opened_has_the_days_to_come_and_entries_go_to_them() {
    let sandbox = Sandbox::new();
    let (store, plain) = (sandbox.store("store").await, sandbox.plain().await);
    assert_eq!(plain.number(DAYS, &[]).await, 4);
    assert_eq!(plain.number(DAYS_TO_COME, &[]).await, 4);
    let harness = Harness::new(store.clone()).await;
    harness.submit(Draft::new("kind")).await;
    write(&plain, -3).await;
    assert_eq!(plain.number("select count(*) from log_default", &[]).await, 0);
    drop_today(&plain).await;
    keep(&store, DAY_MS).await;
    assert_eq!(plain.number(DAYS_TO_COME, &[]).await, 4, "what is missing is made");
    drop_today(&plain).await;
    sandbox.store("other").await;
    assert_eq!(plain.number(DAYS_TO_COME, &[]).await, 4, "also by whoever opens the store");
}

#[tokio::test]
async fn a_day_is_dropped_when_all_of_it_has_left_the_window() {
    let sandbox = Sandbox::new();
    let (store, plain) = (sandbox.store("store").await, sandbox.plain().await);
    let mut written = Vec::new();
    for days_ago in [12, 10, 9, 2] {
        make_day(&plain, days_ago).await;
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
    assert_eq!(plain.number(DAYS, &[]).await, 5, "two days ago, and those to come");
    assert_eq!(keep(&store, 5 * DAY_MS).await, 0);
    let other = sandbox.store("other").await;
    assert_eq!(read(&other, 0).await, read(&store, 0).await, "every server knows");
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
        make_day(&plain, days_ago).await;
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
        dropped += one.await.expect("it does not panic");
    }
    assert_eq!(dropped + keep(&stores[0], 5 * DAY_MS).await, 4);
    assert_eq!(read(&stores[1], 0).await.oldest, last + 1);
}

#[tokio::test]
async fn who_holds_the_log_makes_the_drop_give_up_soon_and_it_is_done_the_next_time() {
    let sandbox = Sandbox::new();
    let (store, plain) = (sandbox.store("store").await, sandbox.plain().await);
    make_day(&plain, 10).await;
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
        assert_eq!(numbers(&read(&store, 0).await), [written], "nothing of it is gone");
    }
    assert_eq!(keep(&store, 5 * DAY_MS).await, 1);
    let page = read(&store, 0).await;
    assert_eq!((numbers(&page), page.oldest), (vec![], written + 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_does_not_wait_behind_a_drop_that_waits() {
    let sandbox = Sandbox::new();
    let (keeper, writer) = (sandbox.store("keeper").await, sandbox.store("writer").await);
    let plain = sandbox.plain().await;
    let harness = Harness::new(writer.clone()).await;
    harness.submit(Draft::new("kind")).await;
    make_day(&plain, 10).await;
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
    keeping.await.expect("it gives up every time");
    assert!(slowest < Duration::from_millis(800), "{slowest:?}");
    assert_eq!(writer.conflicts(), 0, "nobody had to begin again");
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
    assert_eq!(numbers(&read(&store, 0).await), [old[0], old[1], today], "it is read like any other");
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
async fn an_entry_on_its_way_to_the_default_partition_when_its_day_gets_one_is_written_there() {
    let sandbox = Sandbox::new();
    let (store, plain, other) = (sandbox.store("store").await, sandbox.plain().await, sandbox.plain().await);
    let harness = Harness::new(store.clone()).await;
    drop_today(&plain).await;
    plain.run("begin").await;
    make_day_beside_writers(&plain).await;
    let submit = tokio::spawn({
        let harness = harness.clone();
        async move { harness.submit(Draft::new("kind")).await }
    });
    sandbox.waits_for_lock("store", 1).await;
    plain.run("commit").await;
    submit.await.expect("it is accepted");
    assert_eq!(other.number("select count(*) from log_default", &[]).await, 0);
    assert_eq!(read(&store, 0).await.entries.len(), 1);
    assert_eq!(store.conflicts(), 1, "it was begun again");
}

/// Makes the partition of today as the store does.
async fn make_day_beside_writers(plain: &Plain) {
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

/// A schema as it was before the log had partitions.
async fn without_partitions(sandbox: &Sandbox) -> Plain {
    let plain = sandbox.plain().await;
    plain.run(&format!("create schema {}", sandbox.schema)).await;
    plain.run(include_str!("../src/migrations/0001_foundation.sql")).await;
    plain.run(include_str!("../src/migrations/0002_flows.sql")).await;
    plain
        .run(
            "create table schema_version (version integer not null, minimum_reader integer not null);
             insert into schema_version values (2, 2);",
        )
        .await;
    plain
}

#[tokio::test]
async fn what_was_logged_before_there_were_partitions_is_carried_over_and_leaves_in_time() {
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
    assert_eq!(keep(&store, 15 * DAY_MS).await, 0, "not all of it has left");
    assert_eq!(keep(&store, 5 * DAY_MS).await, 1);
    let page = read(&store, 0).await;
    assert_eq!((numbers(&page), page.oldest), (vec![23], 22));
}

#[tokio::test]
async fn a_log_that_was_written_to_today_or_is_ahead_of_time_is_carried_over_too() {
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
        assert_eq!(plain.number(DAYS, &[]).await, i64::from(4 - days_ahead), "the rest of the days to come");
    }
}
