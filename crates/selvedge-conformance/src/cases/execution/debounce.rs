//! Debounced submissions: while an execution waits for quiet, a further submission replaces its input and restarts its delay.

use crate::harness::{Harness, concurrently};
use bytes::Bytes;
use selvedge_core::filter::Payloads;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::submit::Submitted;
use selvedge_core::rules::timer::{FireTimer, Timer};
use selvedge_core::submission::Debounce;
use selvedge_core::{Draft, DueKind, ExecutionId, Refusal, State, Timestamp};
use std::collections::BTreeSet;

const HOUR_MS: i64 = 3_600_000;

fn draft(input: &str, delay_ms: i64, max_ms: Option<i64>) -> Draft {
    let debounce = Debounce { key: "key é".to_owned(), delay_ms, max_ms };
    Draft { input: Bytes::from(input.to_owned()), debounce: Some(debounce), ..Draft::new("kind") }
}

async fn submit(harness: &Harness, draft: Draft) -> Submitted {
    harness.try_submit(draft).await.expect("the submission is accepted")
}

fn until(submitted: &Submitted) -> Timestamp {
    match submitted.execution.state {
        State::Delayed { until } => until,
        ref other => panic!("it is {other:?}"),
    }
}

async fn input(harness: &Harness, id: ExecutionId) -> Bytes {
    let stored = harness.store.fetch(&[id], Payloads::ALL).await.expect("the execution is read");
    stored.into_iter().next().expect("it exists").input
}

pub async fn a_further_submission_replaces_the_input_and_restarts_the_delay(harness: &Harness) {
    let first = submit(harness, draft("1", HOUR_MS, None)).await;
    assert_eq!((first.duplicate, first.debounced), (false, false));
    assert_eq!(until(&first).ms_since(first.execution.submitted_at), HOUR_MS);
    // Small, large, and small again: large inputs may be stored elsewhere.
    for text in ["2".to_owned(), format!("\"{}\"", "x".repeat(300_000)), "3".to_owned()] {
        let before = harness.now().await;
        let next = submit(harness, draft(&text, 2 * HOUR_MS, None)).await;
        assert_eq!((next.duplicate, next.debounced, next.execution.id), (true, true, first.execution.id));
        assert!(until(&next).ms_since(before) >= 2 * HOUR_MS);
        assert_eq!(input(harness, first.execution.id).await, text.as_bytes());
    }
    let row = harness.row(first.execution.id).await;
    assert_eq!((row.version, row.submitted_at), (4, first.execution.submitted_at));
    assert!(row.waits_for_quiet());
}

pub async fn the_start_is_delayed_by_at_most_the_maximum(harness: &Harness) {
    let first = submit(harness, draft("1", HOUR_MS, Some(90 * 60_000))).await;
    let second = submit(harness, draft("2", HOUR_MS, Some(HOUR_MS))).await;
    assert!(until(&second).ms_since(first.execution.submitted_at) < 90 * 60_000);
    let third = submit(harness, draft("3", 3 * HOUR_MS, None)).await;
    let limit = first.execution.submitted_at.plus_ms(90 * 60_000);
    assert_eq!((until(&third), third.execution.id), (limit, first.execution.id), "the first one decides");
}

pub async fn a_submission_after_the_quiet_creates_another_execution(harness: &Harness) {
    let first = submit(harness, draft("1", 1, None)).await.execution.id;
    harness.advance_past(1).await;
    let fired = harness.run(FireTimer { execution: first, timer: Timer::Due(DueKind::Delay) }).await;
    assert!(fired.is_ok(), "{fired:?}");
    assert_eq!(harness.row(first).await.state, State::Waiting);
    let second = submit(harness, draft("2", HOUR_MS, None)).await;
    assert_eq!((second.duplicate, second.execution.id == first), (false, false));
    assert_eq!(input(harness, first).await, "1");
    // From now on the key is that of the second one. A cancelled one does not wait for quiet either.
    let third = submit(harness, draft("3", HOUR_MS, None)).await;
    assert_eq!((third.debounced, third.execution.id), (true, second.execution.id));
    let cancel = Action::Cancel { reason: None, grace_ms: 0 };
    harness.operate(second.execution.id, cancel).await.expect("it is cancelled");
    assert!(!submit(harness, draft("4", HOUR_MS, None)).await.duplicate);
}

pub async fn an_execution_that_was_tried_does_not_wait_for_quiet_again(harness: &Harness) {
    let first = submit(harness, draft("1", 1, None)).await.execution.id;
    harness.advance_past(1).await;
    harness.run(FireTimer { execution: first, timer: Timer::Due(DueKind::Delay) }).await.expect("it is due");
    let claimed = harness.claim(1).await.remove(0);
    harness.operate(first, Action::Revoke { reason: None }).await.expect("the lease is revoked");
    let until = selvedge_core::submission::When::AfterMs(HOUR_MS);
    harness.operate(first, Action::Reschedule { until }).await.expect("it is delayed");
    assert_eq!(claimed.execution.id, first);
    assert!(!submit(harness, draft("2", HOUR_MS, None)).await.duplicate);
    assert_eq!(input(harness, first).await, "1");
}

pub async fn a_submission_of_another_kind_or_lane_is_refused(harness: &Harness) {
    submit(harness, draft("1", HOUR_MS, None)).await;
    for other in [
        Draft { kind: "other".into(), ..draft("2", HOUR_MS, None) },
        Draft { lane: "other".into(), ..draft("2", HOUR_MS, None) },
        Draft { capabilities: vec!["gpu".into()], ..draft("2", HOUR_MS, None) },
    ] {
        let refusal = harness.try_submit(other).await.expect_err("it is refused");
        assert!(
            matches!(&refusal, Refusal::IdempotencyMismatch { pointer, .. } if pointer == "/debounce/key"),
            "{refusal:?}"
        );
    }
    // Another namespace has keys of its own.
    let foreign = harness.in_namespace("foreign").await;
    assert!(!submit(&foreign, draft("2", HOUR_MS, None)).await.duplicate);
}

pub async fn submissions_of_one_batch_are_debounced_in_order(harness: &Harness) {
    let drafts = (1..=5).map(|number| draft(&number.to_string(), HOUR_MS, None)).collect();
    let submit = harness.submit_command(drafts).await;
    let replies: Vec<Submitted> =
        harness.run(submit).await.into_iter().map(|reply| reply.expect("it is accepted")).collect();
    let ids: BTreeSet<ExecutionId> = replies.iter().map(|reply| reply.execution.id).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(
        replies.iter().map(|reply| reply.debounced).collect::<Vec<_>>(),
        [false, true, true, true, true]
    );
    assert_eq!(input(harness, replies[0].execution.id).await, "5");
}

pub async fn concurrent_submissions_create_one_execution(harness: &Harness) {
    let replies = concurrently(8, |number| {
        let harness = harness.clone();
        async move { submit(&harness, draft(&number.to_string(), HOUR_MS, None)).await }
    })
    .await;
    let ids: BTreeSet<ExecutionId> = replies.iter().map(|reply| reply.execution.id).collect();
    let created = replies.iter().filter(|reply| !reply.duplicate).count();
    assert_eq!((ids.len(), created), (1, 1));
    let id = replies[0].execution.id;
    assert_eq!(harness.row(id).await.version, 8);
    let newest = replies.iter().position(|reply| reply.execution.version == 8).expect("one came last");
    assert_eq!(input(harness, id).await, newest.to_string());
}

pub async fn a_repeat_with_an_idempotency_key_changes_nothing(harness: &Harness) {
    let keyed =
        |input: &str, key: &str| Draft { idempotency_key: Some(key.into()), ..draft(input, HOUR_MS, None) };
    let first = submit(harness, keyed("1", "a")).await;
    let second = submit(harness, keyed("2", "b")).await;
    assert!(second.debounced);
    submit(harness, keyed("3", "c")).await;
    for (input, key) in [("1", "a"), ("2", "b"), ("3", "c")] {
        let again = submit(harness, keyed(input, key)).await;
        assert_eq!((again.duplicate, again.debounced, again.execution.id), (true, false, first.execution.id));
    }
    assert_eq!(input(harness, first.execution.id).await, "3");
    assert_eq!(harness.row(first.execution.id).await.version, 3);
}
