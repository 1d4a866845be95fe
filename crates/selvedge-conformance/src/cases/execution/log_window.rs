//! The window of the event log: old entries are dropped from its start, and a cursor before it has expired.
//!
//! A store drops whole periods, whose length is its own choice. So cases ask for a window that reaches far into the past, or for
//! one that ends in the future, so that all entries written so far are dropped.

use crate::harness::Harness;
use crate::harness::concurrently;
use selvedge_core::Draft;
use selvedge_store::Entries;
use std::time::Duration;

const DAY_MS: i64 = 24 * 3_600_000;
/// A window that contains no entry written so far, however long a period is.
const NOTHING_MS: i64 = -2 * DAY_MS;
/// Greater than the number of any entry.
const NEWEST: i64 = i64::MAX - 1;

/// Writes `count` entries and returns their numbers.
async fn write(harness: &Harness, count: usize) -> Vec<i64> {
    let mut numbers = Vec::new();
    for _ in 0..count {
        let submit = harness.submit_command(vec![Draft::new("kind")]).await;
        let (_, transaction) = harness.transact(submit).await;
        numbers.push(transaction.entry.expect("it wrote an entry"));
    }
    numbers
}

async fn read(harness: &Harness, after: i64) -> Entries {
    harness.store.log_after(after, 100).await.expect("the log is read")
}

fn numbers(page: &Entries) -> Vec<i64> {
    page.entries.iter().map(|entry| entry.number).collect()
}

pub async fn no_entry_is_dropped_before_its_time(harness: &Harness) {
    assert_eq!(harness.drop_old_log(DAY_MS).await, 0, "an empty log has nothing to drop");
    let written = write(harness, 5).await;
    let before = read(harness, 0).await;
    for keep_ms in [7 * DAY_MS, 60_000, i64::MAX] {
        assert_eq!(harness.drop_old_log(keep_ms).await, 0);
    }
    assert_eq!(read(harness, 0).await, before);
    assert_eq!((numbers(&before), before.oldest), (written, 0), "nothing was dropped");
}

pub async fn dropped_entries_are_not_read_and_a_cursor_before_them_has_expired(harness: &Harness) {
    let old = write(harness, 5).await;
    assert!(harness.drop_old_log(NOTHING_MS).await > 0);
    let page = read(harness, 0).await;
    assert_eq!((numbers(&page), page.oldest), (vec![], old[4] + 1));
    let new = write(harness, 3).await;
    assert!(new[0] > old[4], "numbers continue");
    for after in [0, old[1], old[3], old[4]] {
        let page = read(harness, after).await;
        assert_eq!((numbers(&page), page.oldest), (new.clone(), old[4] + 1), "after {after}");
        assert_eq!(page.upto, new[2]);
        assert_eq!(
            page.oldest > after + 1,
            after < old[4],
            "a cursor at the last dropped entry has not expired"
        );
    }
    assert_eq!(numbers(&read(harness, new[0]).await), new[1..]);
    assert_eq!(harness.drop_old_log(7 * DAY_MS).await, 0);
    assert_eq!(numbers(&read(harness, 0).await), new, "new entries are kept");
}

pub async fn numbers_continue_after_all_entries_were_dropped(harness: &Harness) {
    assert_eq!(read(harness, NEWEST).await.upto, 0);
    let mut newest = 0;
    for round in 0..3 {
        let written = write(harness, 3).await;
        assert!(written[0] > newest, "round {round}");
        newest = written[2];
        assert_eq!(read(harness, NEWEST).await.upto, newest);
        harness.drop_old_log(NOTHING_MS).await;
        let end = read(harness, NEWEST).await;
        assert_eq!((end.upto, end.oldest), (newest, newest + 1), "the end of an empty log does not move");
        let rest = read(harness, newest).await;
        assert_eq!((rest.entries.len(), rest.upto), (0, newest));
    }
}

pub async fn concurrent_calls_drop_a_period_of_the_log_once(harness: &Harness) {
    let old = write(harness, 4).await;
    let keep = concurrently(4, |_| {
        let harness = harness.clone();
        async move { harness.drop_old_log(NOTHING_MS).await }
    });
    assert!(keep.await.iter().sum::<u64>() > 0);
    let new = write(harness, 1).await;
    let page = read(harness, 0).await;
    assert_eq!((numbers(&page), page.oldest), (new, old[3] + 1));
}

pub async fn a_reader_that_follows_the_log_while_its_window_is_kept_misses_nothing(harness: &Harness) {
    const WRITERS: usize = 4;
    const EACH: usize = 10;
    let follower = tokio::spawn({
        let harness = harness.clone();
        async move {
            let (mut seen, mut after) = (Vec::new(), 0);
            while seen.len() < WRITERS * EACH {
                let page = read(&harness, after).await;
                assert!(page.oldest <= after + 1, "no entry is dropped before it was read");
                after = page.upto;
                seen.extend(numbers(&page));
                tokio::task::yield_now().await;
            }
            seen
        }
    });
    let tasks = concurrently(WRITERS + 1, |task| {
        let harness = harness.clone();
        async move {
            match task {
                WRITERS => {
                    for _ in 0..EACH {
                        harness.drop_old_log(DAY_MS).await;
                    }
                    vec![]
                }
                _ => write(&harness, EACH).await,
            }
        }
    });
    let mut written: Vec<i64> = tasks.await.into_iter().flatten().collect();
    written.sort_unstable();
    let seen = tokio::time::timeout(Duration::from_secs(30), follower).await;
    assert_eq!(seen.expect("the follower finishes").expect("it does not panic"), written);
}
