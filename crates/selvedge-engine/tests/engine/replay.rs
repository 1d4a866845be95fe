//! Replay: a terminal execution runs again in a new generation and keeps its history.

use crate::test_server::{fence, ids};
use crate::{draft_with, memory_server, soon};
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, Policy, Retry};

#[tokio::test]
async fn a_replayed_execution_runs_again_in_a_new_generation_and_keeps_its_history() {
    let (server, _) = memory_server().await;
    let id = server.submit(Draft::new("kind")).await;
    let first = fence(&server.claim_one("one").await);
    server.complete(first).await.expect("the lease is current");
    let row = server.operate(id, Action::Replay).await.expect("the execution is replayed");
    assert_eq!((row.state.name(), row.detail.generation, row.ended_at), (StateName::Waiting, 1, None));
    let stored = server.stored(id).await;
    assert_eq!((stored.result, stored.input.as_ref()), (None, &b"null"[..]));
    assert_eq!(
        server.complete(first).await.map(|done| done.state),
        Ok(StateName::Completed),
        "the repeated report returns its first reply"
    );
    assert_eq!(server.state(id).await, StateName::Waiting, "the repeated report changes nothing");
    let second = server.claim_one("two").await;
    assert_eq!((second.execution.id, second.execution.attempt()), (id, Some(1)));
    let again = Op::Complete { result: "\"again\"".into() };
    server.report(fence(&second), again).await.expect("the lease is current");
    let ended = soon(server.namespace.result(id, crate::TIMEOUT))
        .await
        .expect("the result is read")
        .expect("the execution has ended");
    assert_eq!(ended.result.as_deref(), Some(&b"\"again\""[..]));
    assert_eq!(server.attempts(id).await, [Some("completed"), Some("completed")]);
    let events = server.namespace.execution_events(id).await.expect("the events are read");
    let replayed =
        events.iter().find(|event| event.kind == "execution.replayed").expect("the event is in the log");
    assert_eq!(replayed.actor.as_deref(), Some("operator"));
}

#[tokio::test]
async fn a_replay_starts_with_fresh_retries_interruptions_and_deadline() {
    let (server, clock) = memory_server().await;
    let retry = Retry { max_retries: 0, max_interruptions: 1, ..Retry::default() };
    let policy = Policy { retry, deadline_ms: Some(100_000), start_by_ms: Some(90_000), ..Policy::default() };
    let id = server.submit(draft_with(policy)).await;
    for _ in 0..2 {
        server.claim_one("dies").await;
        clock.advance_ms(30_001);
        assert_eq!(server.tick("lease_expiry").await.done, 1);
    }
    assert_eq!(server.state(id).await, StateName::Expired);
    clock.advance_ms(100_000);
    server.operate(id, Action::Replay).await.expect("the execution is replayed");
    assert_eq!(server.row(id).await.detail.interruptions, 0);
    assert_eq!(server.tick("execution_deadline").await.scanned, 0, "the deadline counts from the replay");
    assert_eq!(ids(&server.claim("one", 1).await), [id]);
    clock.advance_ms(100_000);
    assert_eq!(server.tick("execution_deadline").await.done, 1);
    assert_eq!(server.state(id).await, StateName::Expired);
}

#[tokio::test]
async fn only_terminal_executions_can_be_replayed() {
    let (server, _) = memory_server().await;
    let id = server.submit(Draft::new("kind")).await;
    assert_eq!(
        server.operate(id, Action::Replay).await.expect_err("the execution is waiting").code(),
        "wrong_state"
    );
    server.claim_one("one").await;
    assert_eq!(
        server.operate(id, Action::Replay).await.expect_err("the execution is active").code(),
        "wrong_state"
    );
}

#[tokio::test]
async fn a_replay_is_refused_while_another_execution_with_its_unique_key_is_not_terminal() {
    let (server, _) = memory_server().await;
    let unique = || Draft { unique_while_active: Some("key".into()), ..Draft::new("kind") };
    let first = server.submit(unique()).await;
    server.cancel(first).await.expect("the execution is cancelled");
    let second = server.submit(unique()).await;
    assert_ne!(first, second);
    let refused = server.operate(first, Action::Replay).await.expect_err("another execution has the key");
    assert!(refused.to_string().contains(&second.to_string()), "{refused}");
    server.cancel(second).await.expect("the execution is cancelled");
    server.operate(first, Action::Replay).await.expect("no other execution has the key");
    let third = server.namespace.submit(unique()).await.expect("the submission is accepted");
    assert_eq!((third.execution.id, third.duplicate), (first, true));
}
