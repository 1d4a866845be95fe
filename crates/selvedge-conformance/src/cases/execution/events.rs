//! The event log: one entry per transaction, in order, and a reader that follows it misses nothing.

use crate::harness::concurrently;
use crate::harness::runner::RulePair;
use crate::harness::{Harness, Worker, new_id};
use selvedge_core::Draft;
use selvedge_core::rules::heartbeat::Heartbeat;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::worker::Depart;
use selvedge_core::state::StateName;
use selvedge_core::transition::Cause;
use selvedge_core::{ExecutionId, Fact, Name};
use selvedge_store::{Head, LogLimit};
use std::time::{Duration, Instant};

pub async fn every_transaction_that_changes_an_execution_writes_one_entry(harness: &Harness) {
    let mut expected = Vec::new();
    let submit = harness.submit_command(vec![Draft::new("kind"); 3]).await;
    let (replies, transaction) = harness.transact(submit).await;
    expected.push((transaction.entry.expect("it wrote an entry"), 3));
    let ids: Vec<ExecutionId> =
        replies.into_iter().map(|reply| reply.expect("it is accepted").execution.id).collect();
    let claim = harness.claim_command(&Worker::new("one"), 2);
    let (_, transaction) = harness.transact(claim).await;
    expected.push((transaction.entry.expect("it wrote an entry"), 2));
    let raise = harness.operate_command(ids[0], Action::Prioritise { priority: 1 });
    let (_, transaction) = harness.transact(raise).await;
    expected.push((transaction.entry.expect("it wrote an entry"), 1));
    let log = harness.log().await;
    let got: Vec<(i64, usize)> = log.iter().map(|(number, events)| (*number, events.len())).collect();
    assert_eq!(got, expected);
    assert!(got.is_sorted() && got[0].0 > 0);
}

pub async fn events_of_one_transaction_are_logged_in_their_order(harness: &Harness) {
    let submit = harness.submit_command(vec![Draft::new("kind"); 3]).await;
    let ids: Vec<ExecutionId> = submit.items.iter().map(|item| item.id).collect();
    let claim = harness.claim_command(&Worker::new("one"), 2);
    harness.run(RulePair(submit, claim)).await.1.expect("it is not refused");
    let log = harness.log().await;
    let got: Vec<_> =
        log[0].1.iter().map(|event| (event.execution, event.fact.cause(), event.version)).collect();
    let expected = [
        (Some(ids[0]), Some(Cause::Submit), Some(1)),
        (Some(ids[1]), Some(Cause::Submit), Some(1)),
        (Some(ids[2]), Some(Cause::Submit), Some(1)),
        (Some(ids[0]), Some(Cause::Claim), Some(2)),
        (Some(ids[1]), Some(Cause::Claim), Some(2)),
    ];
    assert_eq!(got, expected);
    assert!(log[0].1.iter().all(|event| event.namespace == harness.namespace));
}

pub async fn a_renewal_is_logged_and_a_new_session_is_not(harness: &Harness) {
    let claim = harness.claim_command(&Worker::new("one"), 1);
    let (_, transaction) = harness.transact(claim).await;
    assert_eq!(transaction.entry, None, "a new session is not an event");
    let claimed = harness.leased(Draft::new("kind")).await;
    let beat = Heartbeat {
        namespace: harness.namespace,
        instance: Name::trusted("one"),
        incarnation: None,
        leases: vec![crate::harness::fence(&claimed)],
        waits_since: None,
    };
    let (_, transaction) = harness.transact(beat).await;
    let log = harness.log().await;
    let (number, events) = log.last().expect("there are entries");
    assert_eq!(Some(*number), transaction.entry);
    assert!(matches!(events[0].fact, Fact::Renewed { .. }));
    assert_eq!((events[0].execution, events[0].version), (None, None));
    let depart = Depart { namespace: harness.namespace, instance: Name::trusted("one"), incarnation: None };
    let (leases, transaction) = harness.transact(depart).await;
    assert_eq!((leases, transaction.entry), (Ok(vec![crate::harness::fence(&claimed)]), None));
}

pub async fn the_log_is_read_in_pages(harness: &Harness) {
    let beginning = harness.store.log_after(0, 10).await.expect("the log is read");
    assert!(beginning.entries.is_empty() && beginning.oldest == 0);
    for _ in 0..7 {
        harness.submit(Draft::new("kind")).await;
    }
    let whole = harness.store.log_after(0, 100).await.expect("the log is read");
    assert_eq!(whole.entries.len(), 7);
    assert!(whole.entries.is_sorted_by(|a, b| a.number < b.number));
    assert!(whole.upto >= whole.entries[6].number);
    let (mut paged, mut after) = (Vec::new(), 0);
    for expected in [3, 3, 1, 0, 0] {
        let page = harness.store.log_after(after, 3).await.expect("the log is read");
        assert_eq!(page.entries.len(), expected);
        assert!(page.upto >= after, "the final part of the log never shrinks");
        after = page.upto;
        paged.extend(page.entries);
    }
    assert_eq!(paged, whole.entries, "a reader that continues after `upto` misses nothing");
    let second = whole.entries[1].number;
    let rest = harness.store.log_after(second, 100).await.expect("the log is read");
    assert_eq!(rest.entries, whole.entries[2..]);
}

pub async fn a_page_of_the_log_is_bounded_in_bytes(harness: &Harness) {
    for _ in 0..7 {
        harness.submit(Draft::new("kind")).await;
    }
    let whole = harness.store.log_after(0, 100).await.expect("the log is read");
    assert!(!whole.is_full);
    let size = whole.entries[0].body.len() as u32;
    assert!(whole.entries.iter().all(|entry| entry.body.len() as u32 == size), "all entries are alike");
    // The first entry does not count. A page ends with the entry that reaches the limit.
    for (bytes, expected, is_full) in
        [(1, 2, true), (size, 2, true), (size + 1, 3, true), (3 * size, 4, true), (6 * size + 1, 7, false)]
    {
        let limit = LogLimit { entries: 100, bytes };
        let page = harness.store.log_page(0, limit).await.expect("the log is read");
        assert_eq!(page.entries, whole.entries[..expected], "{bytes} of {size}");
        assert_eq!((page.upto, page.is_full), (whole.entries[expected - 1].number, is_full));
    }
    let limit = LogLimit { entries: 3, bytes: 100 * size };
    let page = harness.store.log_page(0, limit).await.expect("the log is read");
    assert_eq!((page.entries.len(), page.is_full), (3, true));
}

pub async fn the_head_of_an_execution_is_read_alone(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let head = harness.store.head(claimed.execution.id).await.expect("the head is read");
    let expected = Head { namespace: harness.namespace, epoch: 1, state: StateName::Active };
    assert_eq!(head, Some(expected));
    let unknown = harness.store.head(new_id()).await.expect("the head is read");
    assert_eq!(unknown, None);
}

/// Follows the log until `expected` entries were read, for at most 30 seconds.
async fn follow(harness: Harness, expected: usize) -> Vec<i64> {
    let (mut numbers, mut after) = (Vec::new(), 0);
    let since = Instant::now();
    while numbers.len() < expected && since.elapsed() < Duration::from_secs(30) {
        let page = harness.store.log_after(after, 5).await.expect("the log is read");
        after = page.upto;
        numbers.extend(page.entries.iter().map(|entry| entry.number));
        tokio::task::yield_now().await;
    }
    numbers
}

pub async fn a_reader_that_follows_concurrent_writers_sees_every_entry_once_and_in_order(harness: &Harness) {
    const WRITERS: usize = 8;
    const EACH: usize = 12;
    let readers: Vec<_> = (0..2).map(|_| tokio::spawn(follow(harness.clone(), WRITERS * EACH))).collect();
    let writers = concurrently(WRITERS, |_| {
        let harness = harness.clone();
        async move {
            for _ in 0..EACH {
                harness.submit(Draft::new("kind")).await;
            }
        }
    });
    writers.await;
    let expected: Vec<i64> = harness.log().await.into_iter().map(|(number, _)| number).collect();
    assert_eq!(expected.len(), WRITERS * EACH);
    for reader in readers {
        assert_eq!(reader.await.expect("the reader does not panic"), expected);
    }
}
