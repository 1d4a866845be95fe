//! The lifecycle of a store: it answers, its callers may drop a call at any time, and it can be closed.

use crate::harness::runner::run_rule;
use crate::harness::{Harness, new_id};
use selvedge_core::{Changes, Draft};
use std::future::Future;
use std::pin::pin;
use std::task::Poll;

pub async fn a_store_answers_and_can_be_closed_twice(harness: &Harness) {
    harness.store.ping().await.expect("it answers");
    let description = harness.store.describe();
    assert!(!description.name.is_empty() && description.writers > 0);
    harness.store.notify(Default::default()).await.expect("a notification may be empty");
    harness.submit(Draft::new("kind")).await;
    let figures = harness.store.figures().await.expect("figures are read");
    assert!(figures.is_none_or(|(commits, bytes)| commits > 0 && bytes >= 0));
    // Nothing is checked after this case, because the store is closed; the suite closes it a second time.
    harness.save(Changes::default()).await;
    harness.store.close().await;
}

/// Polls a future at most `times` times, then drops it. Returns none if it was not done by then.
async fn polled<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut remaining = times;
    std::future::poll_fn(move |context| {
        if remaining == 0 {
            return Poll::Ready(None);
        }
        remaining -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

pub async fn a_call_dropped_at_any_moment_saves_all_or_nothing(harness: &Harness) {
    for times in 0..25 {
        let draft = Draft {
            id: Some(new_id().0),
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
        assert!(done.is_none() || again.duplicate, "an acknowledged submission exists");
        assert_eq!(harness.row(id).await, again.execution);
        assert_eq!(again.execution.version, 1);
    }
}
