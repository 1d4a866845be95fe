//! Replay: what has ended runs again in a new generation, and its history is kept.

use crate::side::{fence, ids};
use crate::{on_memory, soon, with};
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, Policy, Retry};

#[tokio::test]
async fn a_replayed_execution_runs_again_in_a_new_generation_and_keeps_its_history() {
    let (side, _) = on_memory().await;
    let id = side.submit(Draft::new("kind")).await;
    let first = fence(&side.claim_one("one").await);
    side.complete(first).await.expect("it holds the lease");
    let row = side.operate(id, Action::Replay).await.expect("it is replayed");
    assert_eq!((row.state.name(), row.detail.generation, row.ended_at), (StateName::Waiting, 1, None));
    let stored = side.stored(id).await;
    assert_eq!((stored.result, stored.input.as_ref()), (None, &b"null"[..]));
    assert_eq!(
        side.complete(first).await.map(|done| done.state),
        Ok(StateName::Completed),
        "it was so reported"
    );
    assert_eq!(side.state(id).await, StateName::Waiting, "and that changes nothing");
    let second = side.claim_one("two").await;
    assert_eq!((second.execution.id, second.execution.attempt()), (id, Some(1)));
    let again = Op::Complete { result: "\"again\"".into() };
    side.report(fence(&second), again).await.expect("it holds the lease");
    let ended =
        soon(side.namespace.result(id, crate::LONG)).await.expect("it is read").expect("it has ended");
    assert_eq!(ended.result.as_deref(), Some(&b"\"again\""[..]));
    assert_eq!(side.attempts(id).await, [Some("completed"), Some("completed")]);
    let events = side.namespace.execution_events(id).await.expect("its events are read");
    let replayed = events.iter().find(|event| event.kind == "execution.replayed").expect("it is told");
    assert_eq!(replayed.actor.as_deref(), Some("operator"));
}

#[tokio::test]
async fn a_replay_starts_with_fresh_retries_interruptions_and_deadline() {
    let (side, clock) = on_memory().await;
    let retry = Retry { max_retries: 0, max_interruptions: 1, ..Retry::default() };
    let policy = Policy { retry, deadline_ms: Some(100_000), start_by_ms: Some(90_000), ..Policy::default() };
    let id = side.submit(with(policy)).await;
    for _ in 0..2 {
        side.claim_one("dies").await;
        clock.advance_ms(30_001);
        assert_eq!(side.tick("lease_expiry").await.done, 1);
    }
    assert_eq!(side.state(id).await, StateName::Expired);
    clock.advance_ms(100_000);
    side.operate(id, Action::Replay).await.expect("it is replayed");
    assert_eq!(side.row(id).await.detail.interruptions, 0);
    assert_eq!(side.tick("execution_deadline").await.scanned, 0, "its deadline counts from the replay");
    assert_eq!(ids(&side.claim("one", 1).await), [id]);
    clock.advance_ms(100_000);
    assert_eq!(side.tick("execution_deadline").await.done, 1);
    assert_eq!(side.state(id).await, StateName::Expired);
}

#[tokio::test]
async fn only_what_has_ended_can_be_replayed() {
    let (side, _) = on_memory().await;
    let id = side.submit(Draft::new("kind")).await;
    assert_eq!(side.operate(id, Action::Replay).await.expect_err("it waits").code(), "wrong_state");
    side.claim_one("one").await;
    assert_eq!(side.operate(id, Action::Replay).await.expect_err("it runs").code(), "wrong_state");
}

#[tokio::test]
async fn a_replay_is_refused_while_another_is_active_with_its_unique_key() {
    let (side, _) = on_memory().await;
    let unique = || Draft { unique_while_active: Some("key".into()), ..Draft::new("kind") };
    let first = side.submit(unique()).await;
    side.cancel(first).await.expect("it is cancelled");
    let second = side.submit(unique()).await;
    assert_ne!(first, second);
    let refused = side.operate(first, Action::Replay).await.expect_err("the other is active");
    assert!(refused.to_string().contains(&second.to_string()), "{refused}");
    side.cancel(second).await.expect("it is cancelled");
    side.operate(first, Action::Replay).await.expect("nobody is in the way");
    let third = side.namespace.submit(unique()).await.expect("it is accepted");
    assert_eq!((third.execution.id, third.duplicate), (first, true));
}
