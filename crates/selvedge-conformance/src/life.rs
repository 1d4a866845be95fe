//! The life of a store: it answers, its callers may go away in the middle, and it can be closed.
#![allow(missing_docs)]

use super::harness::{Harness, mint};
use super::rule::run_rule;
use selvedge_core::Draft;
use std::future::Future;
use std::pin::pin;
use std::task::Poll;

pub async fn a_store_answers_and_can_be_closed_twice(harness: &Harness) {
    harness.store.ping().await.expect("it answers");
    let description = harness.store.describe();
    assert!(!description.name.is_empty() && description.writers > 0);
    harness.store.announce(Default::default()).await.expect("news may be empty");
    harness.submit(Draft::new("kind")).await;
    let figures = harness.store.figures().await.expect("figures are read");
    assert!(figures.is_none_or(|(commits, bytes)| commits > 0 && bytes >= 0));
}

/// Polls a future so many times at most; none if it was not done by then, and is dropped.
async fn polled<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut left = times;
    std::future::poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

pub async fn a_caller_that_goes_away_at_any_moment_leaves_all_or_nothing(harness: &Harness) {
    for times in 0..25 {
        let draft = Draft {
            id: Some(mint().0),
            tags: [("times".into(), times.to_string())].into(),
            idempotency_key: Some(format!("key{times}")),
            ..Draft::new("kind")
        };
        let command = harness.submit_command(vec![draft.clone()]).await;
        let id = command.items[0].id;
        let done = polled(run_rule(&harness.store, command), times).await;
        if let Some(done) = &done {
            assert!(done.is_ok());
        }
        let again = harness.try_submit(draft).await.expect("it is accepted");
        assert!(done.is_none() || again.duplicate, "what was answered is there");
        assert_eq!(harness.row(id).await, again.execution);
        assert_eq!(again.execution.version, 1);
    }
}
