//! The window of the log in a file: old entries are deleted in chunks, and numbers and the clock continue.

use crate::support::Directory;
use rusqlite::Connection;
use selvedge_conformance::Harness;
use selvedge_core::Draft;
use selvedge_sqlite::SqliteStore;
use selvedge_store::{Entries, LogStore, Transactions};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const DAY_MS: i64 = 24 * 3_600_000;

async fn open(directory: &Directory) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open(&directory.database()).await.expect("the store opens"))
}

async fn read(store: &SqliteStore, after: i64) -> Entries {
    store.log_after(after, 100).await.expect("the log is read")
}

fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
    since.as_micros() as i64
}

/// Creates a closed file with entries that are two days old, and ten current ones.
async fn filled(directory: &Directory, old: i64) {
    open(directory).await.close().await;
    let file = Connection::open(directory.database()).expect("the file opens");
    file.execute(
        "with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ?1 + 10)
         insert into log (at, body)
         select iif(n <= ?1, ?2 + n, ?3 + n), x'00'
         from numbers",
        [old, now_micros() - 2 * DAY_MS * 1000, now_micros() - 1_000_000],
    )
    .expect("the log is filled");
}

#[tokio::test]
async fn exactly_the_entries_before_the_window_are_deleted_however_many_chunks_that_takes() {
    for old in [0, 1, 999, 1000, 1001, 2500] {
        let directory = Directory::new();
        filled(&directory, old).await;
        let store = open(&directory).await;
        assert_eq!(store.drop_old_log(3 * DAY_MS).await.expect("old entries are dropped"), 0);
        assert_eq!(store.drop_old_log(DAY_MS).await.expect("old entries are dropped"), old as u64);
        let page = read(&store, 0).await;
        let oldest = if old == 0 { 0 } else { old + 1 };
        assert_eq!((page.entries.len(), page.oldest, page.upto), (10, oldest, old + 10));
        assert_eq!(page.entries[0].number, old + 1);
        assert_eq!(store.drop_old_log(DAY_MS).await.expect("old entries are dropped"), 0);
    }
}

#[tokio::test]
async fn numbers_and_the_clock_continue_after_everything_was_dropped_and_the_file_was_reopened() {
    let directory = Directory::new();
    filled(&directory, 5).await;
    let file = Connection::open(directory.database()).expect("the file opens");
    let tomorrow = now_micros() + DAY_MS * 1000;
    file.execute("update log set at = ?1 where number = 15", [tomorrow]).expect("the row is updated");
    let store = open(&directory).await;
    assert_eq!(store.drop_old_log(-2 * DAY_MS).await.expect("old entries are dropped"), 15);
    store.close().await;
    drop(store);
    let store = open(&directory).await;
    let end = read(&store, i64::MAX - 1).await;
    assert_eq!((end.upto, end.oldest), (15, 16));
    let harness = Harness::new(store.clone()).await;
    assert!(harness.now().await.micros() >= tomorrow, "the clock does not go back");
    harness.submit(Draft::new("kind")).await;
    let page = read(&store, 0).await;
    assert_eq!((page.entries[0].number, page.oldest), (16, 16));
}

#[tokio::test]
async fn writes_are_served_between_two_chunks() {
    let directory = Directory::new();
    filled(&directory, 20_000).await;
    let store = open(&directory).await;
    let keeping = tokio::spawn({
        let store = store.clone();
        async move { store.drop_old_log(DAY_MS).await }
    });
    let harness = Harness::new(store.clone()).await;
    let mut during = 0;
    while !keeping.is_finished() {
        harness.submit(Draft::new("kind")).await;
        during += 1;
    }
    let dropped = keeping.await.expect("the task does not panic").expect("old entries are dropped");
    assert_eq!(dropped, 20_000);
    assert!(during > 1, "{during} were written meanwhile");
}
