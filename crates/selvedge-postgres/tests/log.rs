//! Reading the log while others write: nothing is missed, nothing is read twice, and nobody who does not write holds it back.

mod support;

use selvedge_conformance::{Harness, Worker};
use selvedge_engine::core::log::unpack;
use selvedge_engine::core::{Draft, ExecutionId};
use selvedge_engine::store::Store;
use selvedge_postgres::{PostgresStore, Settings};
use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use support::{Plain, Sandbox, WRITERS_KEY};

/// What a reader has seen: the numbers, and the executions that were submitted.
#[derive(Default)]
struct Seen {
    numbers: Vec<i64>,
    submitted: Vec<ExecutionId>,
}

impl Seen {
    /// Reads on by pages of this size until the log ends; says whether there was something.
    async fn read_on(&mut self, store: &PostgresStore, limit: u32) -> bool {
        let mut any = false;
        loop {
            let after = self.numbers.last().copied().unwrap_or(0);
            let page = store.log_after(after, limit).await.expect("the log is read");
            assert!(page.upto >= after);
            if page.entries.is_empty() {
                return any;
            }
            any = true;
            for entry in page.entries {
                self.numbers.push(entry.number);
                let born = |event: &&selvedge_engine::core::log::Event| event.version == Some(1);
                let events = unpack(&entry.body).expect("it can be read");
                self.submitted.extend(events.iter().filter(born).filter_map(|event| event.execution));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_that_follows_eight_writers_misses_nothing_and_reads_nothing_twice() {
    let sandbox = Sandbox::new();
    let settings = Settings { writers: 4, ..sandbox.settings() };
    let stores = [sandbox.store_with("a", settings.clone()).await, sandbox.store_with("b", settings).await];
    let reading = sandbox.store("reader").await;
    let ended = Arc::new(AtomicBool::new(false));
    let reader = {
        let ended = ended.clone();
        tokio::spawn(async move {
            let mut seen = Seen::default();
            loop {
                let last = ended.load(Ordering::SeqCst);
                let any = seen.read_on(&reading, 7).await;
                if last && !any {
                    return seen;
                }
            }
        })
    };
    let mut writers = Vec::new();
    for number in 0..8 {
        let harness = Harness::new(stores[number % 2].clone()).await;
        writers.push(tokio::spawn(async move {
            let mut written = Vec::new();
            for round in 0..40 {
                written.push(harness.submit(Draft::new("kind")).await.id);
                if round % 4 == 0 {
                    let worker = Worker::new(&format!("worker{number}"));
                    for claimed in harness.claim_as(&worker, 2).await {
                        harness.complete(&claimed, b"1").await;
                    }
                }
            }
            written
        }));
    }
    let mut written = HashSet::new();
    for writer in writers {
        written.extend(writer.await.expect("it does not panic"));
    }
    ended.store(true, Ordering::SeqCst);
    let seen = reader.await.expect("it does not panic");
    assert!(seen.numbers.windows(2).all(|pair| pair[0] < pair[1]), "in order, and none twice");
    assert_eq!(seen.submitted.len(), written.len(), "every submission once");
    assert_eq!(seen.submitted.into_iter().collect::<HashSet<_>>(), written);
    let entries = sandbox.plain().await.number("select count(*) from log", &[]).await;
    assert_eq!(seen.numbers.len() as i64, entries, "every entry");
}

async fn numbers(store: &PostgresStore, after: i64) -> Vec<i64> {
    let page = store.log_after(after, 100).await.expect("the log is read");
    page.entries.into_iter().map(|entry| entry.number).collect()
}

/// Begins a transaction that writes as ours do: the shared lock, a number, and then it stays open.
async fn begin_writing(plain: &Plain) -> i64 {
    plain.run(&format!("begin; select pg_advisory_xact_lock_shared({WRITERS_KEY})")).await;
    let text = "insert into log (at, body) values (clock_timestamp(), '') returning number";
    plain.number(text, &[]).await
}

#[tokio::test]
async fn whoever_writes_to_the_log_holds_the_lock_that_readers_look_for() {
    let sandbox = Sandbox::new();
    let (side, plain) = (sandbox.side("side").await, sandbox.plain().await);
    plain.run(&format!("begin; select pg_advisory_xact_lock({WRITERS_KEY})")).await;
    let submitter = side.clone();
    let submit = tokio::spawn(async move { submitter.submit(Draft::new("kind")).await });
    sandbox.waits_for_lock("side", 1).await;
    assert_eq!(plain.number("select count(*) from log", &[]).await, 0);
    plain.release().await;
    submit.await.expect("it is accepted");
    side.engine.shutdown().await;
}

#[tokio::test]
async fn what_comes_after_a_number_that_may_still_appear_is_not_read_yet() {
    let sandbox = Sandbox::new();
    let (store, plain) = (sandbox.store("store").await, sandbox.plain().await);
    let harness = Harness::new(store.clone()).await;
    harness.submit(Draft::new("kind")).await;
    let open = begin_writing(&plain).await;
    harness.submit(Draft::new("kind")).await;
    assert_eq!(numbers(&store, 0).await, [open - 1], "the gap may still be filled");
    let page = store.log_after(i64::MAX - 1, 1).await.expect("the log is read");
    assert_eq!(page.upto, open - 1, "what is new begins before the gap");
    plain.run("commit").await;
    assert_eq!(numbers(&store, open - 1).await, [open, open + 1]);
    store.close().await;
}

#[tokio::test]
async fn a_number_that_was_rolled_back_is_passed() {
    let sandbox = Sandbox::new();
    let (store, plain) = (sandbox.store("store").await, sandbox.plain().await);
    let harness = Harness::new(store.clone()).await;
    let gone = begin_writing(&plain).await;
    plain.release().await;
    harness.submit(Draft::new("kind")).await;
    assert_eq!(numbers(&store, 0).await, [gone + 1]);
    assert_eq!(numbers(&store, 0).await, [gone + 1], "by every reader, again and again");
    let other = sandbox.store("other").await;
    assert_eq!(numbers(&other, 0).await, [gone + 1]);
    assert_eq!(other.log_after(i64::MAX - 1, 1).await.expect("the log is read").upto, gone + 1);
}

#[tokio::test]
async fn a_transaction_of_somebody_else_that_stays_open_does_not_hold_the_log_back() {
    let sandbox = Sandbox::new();
    let (store, plain, writing) =
        (sandbox.store("store").await, sandbox.plain().await, sandbox.plain().await);
    let harness = Harness::new(store.clone()).await;
    plain.run("create table foreign_to_us (a integer); begin; insert into foreign_to_us values (1)").await;
    let gone = begin_writing(&writing).await;
    writing.release().await;
    harness.submit(Draft::new("kind")).await;
    assert_eq!(numbers(&store, 0).await, [gone + 1]);
    plain.release().await;
    store.close().await;
}

#[tokio::test]
async fn a_writer_that_comes_after_the_gap_was_seen_does_not_hold_the_log_back() {
    let sandbox = Sandbox::new();
    let settings = Settings { readers: 1, ..sandbox.settings() };
    let store = sandbox.store_with("store", settings).await;
    let (plain, later) = (sandbox.plain().await, sandbox.plain().await);
    let harness = Harness::new(store.clone()).await;
    // A first gap, so that the reader has looked for writers before.
    let gone = begin_writing(&plain).await;
    plain.release().await;
    harness.submit(Draft::new("kind")).await;
    assert_eq!(numbers(&store, 0).await, [gone + 1]);
    let open = begin_writing(&plain).await;
    harness.submit(Draft::new("kind")).await;
    let since = sandbox.now().await;
    let reader = {
        let store = store.clone();
        tokio::spawn(async move { numbers(&store, open - 1).await })
    };
    sandbox.has_read("store", "-- The transactions that may still fill", &since).await;
    begin_writing(&later).await;
    plain.run("commit").await;
    assert_eq!(reader.await.expect("it does not panic"), [open, open + 1]);
    later.release().await;
    store.close().await;
}

#[tokio::test]
async fn what_another_reader_settles_meanwhile_says_nothing_of_a_page_that_was_read_before() {
    let sandbox = Sandbox::new();
    let settings = Settings { readers: 2, ..sandbox.settings() };
    let store = sandbox.store_with("store", settings).await;
    let plain = sandbox.plain().await;
    let harness = Harness::new(store.clone()).await;
    // Both connections have run the statements before, after a first gap.
    let gone = begin_writing(&plain).await;
    plain.release().await;
    harness.submit(Draft::new("kind")).await;
    let both = tokio::join!(numbers(&store, 0), numbers(&store, 0));
    assert_eq!(both, (vec![gone + 1], vec![gone + 1]));
    let open = begin_writing(&plain).await;
    harness.submit(Draft::new("kind")).await;
    let since = sandbox.now().await;
    let settling = {
        let store = store.clone();
        tokio::spawn(async move { numbers(&store, open - 1).await })
    };
    sandbox.has_read("store", "-- The transactions that may still fill", &since).await;
    // Asked, and answered before the writer commits; looked at only when the other reader has settled the gap.
    let since = sandbox.now().await;
    let mut late = std::pin::pin!(numbers(&store, open - 1));
    let asked = std::future::poll_fn(|context| Poll::Ready(late.as_mut().poll(context).is_pending())).await;
    assert!(asked, "the answer takes a while");
    sandbox.has_read("store", "-- A page of the log", &since).await;
    plain.run("commit").await;
    assert_eq!(settling.await.expect("it does not panic"), [open, open + 1]);
    assert_eq!(late.await, [open, open + 1]);
    store.close().await;
}
