//! A signal and everything else that ends a suspension or the execution: a cancel, a deadline, an operator, a time.

use super::{Block, Race};
use selvedge_engine::core::signal::Effect;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::suspension::{Condition, WaitDraft};
use selvedge_engine::core::{Draft, DueKind, ExecutionId, Policy};
use selvedge_system_tests::suspensions::{for_signal, name, recorded_as};

#[tokio::test]
async fn a_signal_that_comes_after_a_cancel_is_refused() {
    let race = Race::new().await;
    let id = race.a.suspended(for_signal("go")).await;
    let cancel = ("a", race.a.cancel(id));
    let (cancel, signal) = race.in_turn(Block::Row(id), cancel, ("b", race.b.send(id, "go"))).await;
    cancel.expect("the first call succeeds");
    assert_eq!(signal.expect_err("the execution has ended").code(), "already_terminal");
    assert_eq!((race.a.state(id).await, race.a.signals(id).await.len()), (StateName::Cancelled, 0));
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_cancel_that_comes_after_a_signal_cancels_the_resumed_execution() {
    let race = Race::new().await;
    let id = race.a.suspended(for_signal("go")).await;
    let signal = ("a", race.a.send(id, "go"));
    let (signal, cancel) = race.in_turn(Block::Row(id), signal, ("b", race.b.cancel(id))).await;
    assert_eq!(signal.expect("the first call succeeds").effect, Effect::Resumed);
    cancel.expect("the execution is live");
    assert_eq!(race.a.state(id).await, StateName::Cancelled);
    assert_eq!(race.a.count_events(id, "execution.resumed").await, 1);
    assert!(race.b.claim("one", 9).await.is_empty());
    race.check_and_stop().await;
}

/// Submits an execution that is suspended and whose deadline has passed.
async fn late(race: &Race) -> ExecutionId {
    let policy = Policy { deadline_ms: Some(1), ..Policy::default() };
    let (id, lease) = race.a.leased_of(Draft { policy, ..Draft::new("kind") }).await;
    race.a.suspend(lease, for_signal("go")).await.expect("the lease is held");
    race.a.is_due(id, DueKind::Deadline).await;
    id
}

#[tokio::test]
async fn a_signal_that_comes_after_the_deadline_acted_is_refused() {
    let race = Race::new().await;
    let id = late(&race).await;
    let tick = ("a", race.a.tick("execution_deadline"));
    let (tick, signal) = race.in_turn(Block::Commits, tick, ("b", race.b.send(id, "go"))).await;
    assert_eq!(tick.done, 1);
    assert_eq!(signal.expect_err("the execution has ended").code(), "already_terminal");
    assert_eq!((race.a.state(id).await, race.a.signals(id).await.len()), (StateName::Expired, 0));
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_deadline_that_finds_the_row_of_a_signal_locked_acts_on_the_resumed_execution() {
    let race = Race::new().await;
    let id = late(&race).await;
    let signal = ("a", race.a.send(id, "go"));
    let (signal, tick) = race.meanwhile(Block::Commits, signal, race.b.tick("execution_deadline")).await;
    assert_eq!(signal.expect("the first call succeeds").effect, Effect::Resumed);
    assert_eq!((tick.done, tick.superseded), (0, 1));
    assert_eq!(race.a.state(id).await, StateName::Waiting);
    assert_eq!(race.b.tick("execution_deadline").await.done, 1, "the deadline has still passed");
    assert_eq!(race.a.state(id).await, StateName::Expired);
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_signal_and_an_operator_resume_once_in_either_order() {
    let race = Race::new().await;
    let id = race.a.suspended(for_signal("go")).await;
    let signal = ("a", race.a.send(id, "go"));
    let (signal, resume) = race.in_turn(Block::Row(id), signal, ("b", race.b.resume(id))).await;
    assert_eq!(signal.expect("the first call succeeds").effect, Effect::Resumed);
    assert_eq!(resume.expect_err("the execution is not suspended").code(), "wrong_state");
    race.resumes(id, &["go"]).await;
    let id = race.a.suspended(for_signal("go")).await;
    let resume = ("a", race.a.resume(id));
    let (resume, signal) = race.in_turn(Block::Row(id), resume, ("b", race.b.send(id, "go"))).await;
    assert_eq!(resume.expect("the first call succeeds").state.name(), StateName::Waiting);
    assert_eq!(signal.expect("the execution is live").effect, Effect::Buffered);
    race.is_resumed(id, 1, &[]).await;
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_signal_and_a_time_resume_once_in_either_order() {
    let race = Race::new().await;
    let either = || {
        let time = Condition::until(When::AfterMs(1));
        recorded_as("wait", WaitDraft::new(Condition::Any(vec![Condition::signal(name("go")), time])))
    };
    let waits = async || {
        let id = race.a.suspended(either()).await;
        race.a.is_due(id, DueKind::Delay).await;
        id
    };
    let id = waits().await;
    let signal = ("a", race.a.send(id, "go"));
    let (signal, tick) = race.meanwhile(Block::Commits, signal, race.b.tick("delay_promoter")).await;
    assert_eq!(signal.expect("the first call succeeds").effect, Effect::Resumed);
    assert_eq!((tick.done, tick.superseded), (0, 1));
    assert_eq!(race.b.tick("delay_promoter").await.scanned, 0);
    race.resumes(id, &["go"]).await;
    let id = waits().await;
    let tick = ("a", race.a.tick("delay_promoter"));
    let (tick, signal) = race.in_turn(Block::Commits, tick, ("b", race.b.send(id, "go"))).await;
    assert_eq!(tick.done, 1);
    assert_eq!(signal.expect("the execution is live").effect, Effect::Buffered);
    race.is_resumed(id, 1, &[]).await;
    assert_eq!(race.a.count_events(id, "step.recorded").await, 1);
    race.check_and_stop().await;
}
