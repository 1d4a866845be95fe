//! A signal and what else ends a suspension, or the execution: a cancel, a deadline, an operator, a time.

use super::support::suspensions::{known_as, name, on};
use super::{Hold, Race};
use selvedge_engine::core::signal::Effect;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::suspension::{Condition, WaitDraft};
use selvedge_engine::core::{Draft, DueKind, ExecutionId, Policy};

#[tokio::test]
async fn a_signal_that_comes_after_a_cancel_is_refused() {
    let race = Race::new().await;
    let id = race.a.suspended(on("go")).await;
    let cancel = ("a", race.a.cancel(id));
    let (cancel, signal) = race.in_turn(Hold::Row(id), cancel, ("b", race.b.send(id, "go"))).await;
    cancel.expect("it is first");
    assert_eq!(signal.expect_err("it has ended").code(), "already_terminal");
    assert_eq!((race.a.state(id).await, race.a.signals(id).await.len()), (StateName::Cancelled, 0));
    race.end().await;
}

#[tokio::test]
async fn a_cancel_that_comes_after_a_signal_cancels_what_was_resumed() {
    let race = Race::new().await;
    let id = race.a.suspended(on("go")).await;
    let signal = ("a", race.a.send(id, "go"));
    let (signal, cancel) = race.in_turn(Hold::Row(id), signal, ("b", race.b.cancel(id))).await;
    assert_eq!(signal.expect("it is first").effect, Effect::Resumed);
    cancel.expect("it lives");
    assert_eq!(race.a.state(id).await, StateName::Cancelled);
    assert_eq!(race.a.times(id, "execution.resumed").await, 1);
    assert!(race.b.claim("one", 9).await.is_empty());
    race.end().await;
}

/// Suspended, and its deadline has passed.
async fn late(race: &Race) -> ExecutionId {
    let policy = Policy { deadline_ms: Some(1), ..Policy::default() };
    let (id, lease) = race.a.leased_of(Draft { policy, ..Draft::new("kind") }).await;
    race.a.suspend(lease, on("go")).await.expect("it holds the lease");
    race.a.is_due(id, DueKind::Deadline).await;
    id
}

#[tokio::test]
async fn a_signal_that_comes_after_the_deadline_acted_is_refused() {
    let race = Race::new().await;
    let id = late(&race).await;
    let tick = ("a", race.a.tick("execution_deadline"));
    let (tick, signal) = race.in_turn(Hold::Log, tick, ("b", race.b.send(id, "go"))).await;
    assert_eq!(tick.done, 1);
    assert_eq!(signal.expect_err("it has ended").code(), "already_terminal");
    assert_eq!((race.a.state(id).await, race.a.signals(id).await.len()), (StateName::Expired, 0));
    race.end().await;
}

#[tokio::test]
async fn a_deadline_that_finds_the_row_of_a_signal_locked_acts_on_what_was_resumed() {
    let race = Race::new().await;
    let id = late(&race).await;
    let signal = ("a", race.a.send(id, "go"));
    let (signal, tick) = race.meanwhile(Hold::Log, signal, race.b.tick("execution_deadline")).await;
    assert_eq!(signal.expect("it is first").effect, Effect::Resumed);
    assert_eq!((tick.done, tick.lost), (0, 1));
    assert_eq!(race.a.state(id).await, StateName::Waiting);
    assert_eq!(race.b.tick("execution_deadline").await.done, 1, "it has lived for too long all the same");
    assert_eq!(race.a.state(id).await, StateName::Expired);
    race.end().await;
}

#[tokio::test]
async fn a_signal_and_an_operator_resume_once_in_either_order() {
    let race = Race::new().await;
    let id = race.a.suspended(on("go")).await;
    let signal = ("a", race.a.send(id, "go"));
    let (signal, resume) = race.in_turn(Hold::Row(id), signal, ("b", race.b.resume(id))).await;
    assert_eq!(signal.expect("it is first").effect, Effect::Resumed);
    assert_eq!(resume.expect_err("it is not suspended").code(), "wrong_state");
    race.goes_on(id, &["go"]).await;
    let id = race.a.suspended(on("go")).await;
    let resume = ("a", race.a.resume(id));
    let (resume, signal) = race.in_turn(Hold::Row(id), resume, ("b", race.b.send(id, "go"))).await;
    assert_eq!(resume.expect("it is first").state.name(), StateName::Waiting);
    assert_eq!(signal.expect("it lives").effect, Effect::Buffered);
    race.is_resumed(id, 1, &[]).await;
    race.end().await;
}

#[tokio::test]
async fn a_signal_and_a_time_resume_once_in_either_order() {
    let race = Race::new().await;
    let either = || {
        let time = Condition::until(When::AfterMs(1));
        known_as("wait", WaitDraft::new(Condition::Any(vec![Condition::signal(name("go")), time])))
    };
    let waits = async || {
        let id = race.a.suspended(either()).await;
        race.a.is_due(id, DueKind::Delay).await;
        id
    };
    let id = waits().await;
    let signal = ("a", race.a.send(id, "go"));
    let (signal, tick) = race.meanwhile(Hold::Log, signal, race.b.tick("delay_promoter")).await;
    assert_eq!(signal.expect("it is first").effect, Effect::Resumed);
    assert_eq!((tick.done, tick.lost), (0, 1));
    assert_eq!(race.b.tick("delay_promoter").await.scanned, 0);
    race.goes_on(id, &["go"]).await;
    let id = waits().await;
    let tick = ("a", race.a.tick("delay_promoter"));
    let (tick, signal) = race.in_turn(Hold::Log, tick, ("b", race.b.send(id, "go"))).await;
    assert_eq!(tick.done, 1);
    assert_eq!(signal.expect("it lives").effect, Effect::Buffered);
    race.is_resumed(id, 1, &[]).await;
    assert_eq!(race.a.times(id, "step.recorded").await, 1);
    race.end().await;
}
