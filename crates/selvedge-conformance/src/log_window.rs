//! The window of the log: what is older leaves it, from the beginning on, and a reader that comes too late can tell.
//!
//! A store drops whole periods, whose length is its own affair. So cases ask for a window that reaches far into the past, or one
//! that ends far in the future, which lets everything go that was written so far.
#![allow(missing_docs)]

use super::Harness;
use super::side_by_side;
use selvedge_core::Draft;
use selvedge_store::Entries;
use std::time::Duration;

const DAY_MS: i64 = 24 * 3_600_000;
/// Everything that was written has left this window, however long a period is.
const NOTHING_MS: i64 = -2 * DAY_MS;
/// Greater than any number.
const NEWEST: i64 = i64::MAX - 1;

/// Writes so many entries; gives their numbers.
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

pub async fn nothing_leaves_the_log_before_its_time(harness: &Harness) {
    assert_eq!(harness.keep_log(DAY_MS).await, 0, "an empty log has nothing to drop");
    let written = write(harness, 5).await;
    let before = read(harness, 0).await;
    for keep_ms in [7 * DAY_MS, 60_000, i64::MAX] {
        assert_eq!(harness.keep_log(keep_ms).await, 0);
    }
    assert_eq!(read(harness, 0).await, before);
    assert_eq!((numbers(&before), before.oldest), (written, 0), "nothing was dropped");
}

pub async fn what_has_left_the_log_is_gone_and_a_cursor_before_it_can_tell(harness: &Harness) {
    let old = write(harness, 5).await;
    assert!(harness.keep_log(NOTHING_MS).await > 0);
    let page = read(harness, 0).await;
    assert_eq!((numbers(&page), page.oldest), (vec![], old[4] + 1));
    let new = write(harness, 3).await;
    assert!(new[0] > old[4], "numbers go on");
    for after in [0, old[1], old[3], old[4]] {
        let page = read(harness, after).await;
        assert_eq!((numbers(&page), page.oldest), (new.clone(), old[4] + 1), "after {after}");
        assert_eq!(page.upto, new[2]);
        assert_eq!(page.oldest > after + 1, after < old[4], "after the last that is gone nothing is missing");
    }
    assert_eq!(numbers(&read(harness, new[0]).await), new[1..]);
    assert_eq!(harness.keep_log(7 * DAY_MS).await, 0);
    assert_eq!(numbers(&read(harness, 0).await), new, "what is new stays");
}

pub async fn numbers_go_on_from_a_log_that_everything_has_left(harness: &Harness) {
    assert_eq!(read(harness, NEWEST).await.upto, 0);
    let mut newest = 0;
    for round in 0..3 {
        let written = write(harness, 3).await;
        assert!(written[0] > newest, "round {round}");
        newest = written[2];
        assert_eq!(read(harness, NEWEST).await.upto, newest);
        harness.keep_log(NOTHING_MS).await;
        let end = read(harness, NEWEST).await;
        assert_eq!((end.upto, end.oldest), (newest, newest + 1), "the end of an empty log is where it was");
        let rest = read(harness, newest).await;
        assert_eq!((rest.entries.len(), rest.upto), (0, newest));
    }
}

pub async fn several_sides_that_keep_the_log_at_once_drop_it_once(harness: &Harness) {
    let old = write(harness, 4).await;
    let keep = side_by_side(4, |_| {
        let harness = harness.clone();
        async move { harness.keep_log(NOTHING_MS).await }
    });
    assert!(keep.await.iter().sum::<u64>() > 0);
    let new = write(harness, 1).await;
    let page = read(harness, 0).await;
    assert_eq!((numbers(&page), page.oldest), (new, old[3] + 1));
}

pub async fn who_follows_the_log_while_it_is_kept_misses_nothing(harness: &Harness) {
    const WRITERS: usize = 4;
    const EACH: usize = 10;
    let follower = tokio::spawn({
        let harness = harness.clone();
        async move {
            let (mut seen, mut after) = (Vec::new(), 0);
            while seen.len() < WRITERS * EACH {
                let page = read(&harness, after).await;
                assert!(page.oldest <= after + 1, "nothing is dropped before it was read");
                after = page.upto;
                seen.extend(numbers(&page));
                tokio::task::yield_now().await;
            }
            seen
        }
    });
    let sides = side_by_side(WRITERS + 1, |side| {
        let harness = harness.clone();
        async move {
            match side {
                WRITERS => {
                    for _ in 0..EACH {
                        harness.keep_log(DAY_MS).await;
                    }
                    vec![]
                }
                _ => write(&harness, EACH).await,
            }
        }
    });
    let mut written: Vec<i64> = sides.await.into_iter().flatten().collect();
    written.sort_unstable();
    let seen = tokio::time::timeout(Duration::from_secs(30), follower).await;
    assert_eq!(seen.expect("it comes to the end").expect("it does not panic"), written);
}
