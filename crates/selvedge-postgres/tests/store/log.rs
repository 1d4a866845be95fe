//! Reading the log while others write: no entry is missed or read twice, and only writers of the log can delay a reader.

use selvedge_conformance::{Harness, Worker};
use selvedge_engine::core::log::unpack;
use selvedge_engine::core::{Draft, ExecutionId};
use selvedge_engine::store::{LogStore, Transactions};
use selvedge_postgres::{PostgresStore, Settings};
use selvedge_system_tests::{PlainConnection, Sandbox, WRITERS_KEY};
use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// The numbers that a reader has read, and the executions that were submitted in them.
#[derive(Default)]
struct Seen {
    numbers: Vec<i64>,
    submitted: Vec<ExecutionId>,
}

impl Seen {
    /// Reads pages of this size to the end of the log. Reports whether there were entries.
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
                let events = unpack(&entry.body).expect("the entry is readable");
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
        written.extend(writer.await.expect("the task does not panic"));
    }
    ended.store(true, Ordering::SeqCst);
    let seen = reader.await.expect("the task does not panic");
    assert!(seen.numbers.windows(2).all(|pair| pair[0] < pair[1]), "numbers rise, and none is repeated");
    assert_eq!(seen.submitted.len(), written.len(), "every submission is read once");
    assert_eq!(seen.submitted.into_iter().collect::<HashSet<_>>(), written);
    let entries = sandbox.plain().await.number("select count(*) from log", &[]).await;
    assert_eq!(seen.numbers.len() as i64, entries, "every entry is read");
}

async fn numbers(store: &PostgresStore, after: i64) -> Vec<i64> {
    let page = store.log_after(after, 100).await.expect("the log is read");
    page.entries.into_iter().map(|entry| entry.number).collect()
}

/// Begins a transaction that writes like the store: takes the shared lock, draws a number, and stays open.
async fn begin_writing(plain: &PlainConnection) -> i64 {
    plain.run(&format!("begin; select pg_advisory_xact_lock_shared({WRITERS_KEY})")).await;
    let text = "insert into log (at, body) values (clock_timestamp(), '') returning number";
    plain.number(text, &[]).await
}

#[tokio::test]
async fn every_writer_of_the_log_takes_the_lock_that_readers_check() {
    let sandbox = Sandbox::new();
    let (server, plain) = (sandbox.server("server").await, sandbox.plain().await);
    plain.run(&format!("begin; select pg_advisory_xact_lock({WRITERS_KEY})")).await;
    let submitter = server.clone();
    let submit = tokio::spawn(async move { submitter.submit(Draft::new("kind")).await });
    sandbox.waits_for_lock("server", 1).await;
    assert_eq!(plain.number("select count(*) from log", &[]).await, 0);
    plain.release().await;
    submit.await.expect("the request is accepted");
    server.engine.shutdown().await;
}

#[tokio::test]
async fn entries_after_a_number_that_may_still_appear_are_not_read_yet() {
    let sandbox = Sandbox::new();
    let (store, plain) = (sandbox.store("store").await, sandbox.plain().await);
    let harness = Harness::new(store.clone()).await;
    harness.submit(Draft::new("kind")).await;
    let open = begin_writing(&plain).await;
    harness.submit(Draft::new("kind")).await;
    assert_eq!(numbers(&store, 0).await, [open - 1], "the gap may still be filled");
    let page = store.log_after(i64::MAX - 1, 1).await.expect("the log is read");
    assert_eq!(page.upto, open - 1, "the newest settled number is before the gap");
    plain.run("commit").await;
    assert_eq!(numbers(&store, open - 1).await, [open, open + 1]);
    store.close().await;
}

#[tokio::test]
async fn a_number_that_was_rolled_back_is_skipped() {
    let sandbox = Sandbox::new();
    let (store, plain) = (sandbox.store("store").await, sandbox.plain().await);
    let harness = Harness::new(store.clone()).await;
    let gone = begin_writing(&plain).await;
    plain.release().await;
    harness.submit(Draft::new("kind")).await;
    assert_eq!(numbers(&store, 0).await, [gone + 1]);
    assert_eq!(numbers(&store, 0).await, [gone + 1], "a second read returns the same");
    let other = sandbox.store("other").await;
    assert_eq!(numbers(&other, 0).await, [gone + 1]);
    assert_eq!(other.log_after(i64::MAX - 1, 1).await.expect("the log is read").upto, gone + 1);
}

#[tokio::test]
async fn an_open_transaction_of_another_program_does_not_delay_the_log() {
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
async fn a_writer_that_starts_after_the_gap_was_seen_does_not_delay_the_log() {
    let sandbox = Sandbox::new();
    let settings = Settings { readers: 1, ..sandbox.settings() };
    let store = sandbox.store_with("store", settings).await;
    let (plain, later) = (sandbox.plain().await, sandbox.plain().await);
    let harness = Harness::new(store.clone()).await;
    // A first gap, so that the connection has run the statement before.
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
    sandbox.has_read("store", "writers/list", &since).await;
    begin_writing(&later).await;
    plain.run("commit").await;
    assert_eq!(reader.await.expect("the task does not panic"), [open, open + 1]);
    later.release().await;
    store.close().await;
}

#[tokio::test]
async fn a_number_that_another_reader_settles_later_does_not_apply_to_an_earlier_page() {
    let sandbox = Sandbox::new();
    let settings = Settings { readers: 2, ..sandbox.settings() };
    let store = sandbox.store_with("store", settings).await;
    let plain = sandbox.plain().await;
    let harness = Harness::new(store.clone()).await;
    // Both connections have run the statements before, because of a first gap.
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
    sandbox.has_read("store", "writers/list", &since).await;
    // Sent and answered before the writer commits, but read only after the other reader has settled the gap.
    let since = sandbox.now().await;
    let mut late = std::pin::pin!(numbers(&store, open - 1));
    let asked = std::future::poll_fn(|context| Poll::Ready(late.as_mut().poll(context).is_pending())).await;
    assert!(asked, "the answer is pending");
    sandbox.has_read("store", "log/list", &since).await;
    plain.run("commit").await;
    assert_eq!(settling.await.expect("the task does not panic"), [open, open + 1]);
    assert_eq!(late.await, [open, open + 1]);
    store.close().await;
}
