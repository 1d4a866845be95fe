//! A signal and the timeout of a suspension, for each timeout policy: the first that locks the row wins, and the other
//! has no effect.

use super::{Block, BusyWriter, Race};
use selvedge_engine::core::signal::Effect;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::step::WaitResult;
use selvedge_engine::core::suspension::{OnTimeout, ResumedBy};
use selvedge_engine::core::{DueKind, ExecutionId};
use selvedge_system_tests::server::fence;
use selvedge_system_tests::suspensions::{carried_signals, for_signal, recorded_as, with_timeout};

const TIMEOUT: &str = "suspension_timeout";

/// Suspends an execution through `a` for the signal `go` and waits until its timeout has passed.
async fn overdue(race: &Race, on_timeout: OnTimeout) -> ExecutionId {
    let id = race.a.suspended(recorded_as("wait", with_timeout(1, on_timeout, for_signal("go")))).await;
    race.a.is_due(id, DueKind::SuspensionTimeout).await;
    id
}

/// Returns the cause that ended the wait, from its recorded step.
async fn ended_by(race: &Race, id: ExecutionId) -> Option<ResumedBy> {
    let steps = race.a.steps(id).await;
    assert_eq!(steps.len(), 1);
    steps[0].result.as_deref().and_then(WaitResult::decode).map(|waited| waited.resumed_by)
}

#[tokio::test]
async fn a_signal_that_locks_the_row_before_the_timeout_ends_the_suspension() {
    let race = Race::new().await;
    for on_timeout in OnTimeout::ALL {
        let id = overdue(&race, on_timeout).await;
        let signal = ("a", race.a.send(id, "go"));
        let (signal, tick) = race.meanwhile(Block::Commits, signal, race.b.tick(TIMEOUT)).await;
        assert_eq!(signal.expect("the execution is live").effect, Effect::Resumed, "{on_timeout:?}");
        assert_eq!(
            (tick.scanned, tick.done, tick.superseded),
            (1, 0, 1),
            "{on_timeout:?}: the other transaction has locked it"
        );
        assert_eq!(race.b.tick(TIMEOUT).await.scanned, 0, "{on_timeout:?}");
        assert_eq!(ended_by(&race, id).await, Some(ResumedBy::Condition));
        race.resumes(id, &["go"]).await;
    }
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_signal_that_comes_after_a_timeout_that_ended_the_execution_is_refused() {
    let race = Race::new().await;
    let ends = [
        (OnTimeout::Fail, StateName::Failed),
        (OnTimeout::Cancel, StateName::Cancelled),
        (OnTimeout::Expire, StateName::Expired),
    ];
    for (on_timeout, state) in ends {
        let id = overdue(&race, on_timeout).await;
        let tick = ("a", race.a.tick(TIMEOUT));
        let (tick, signal) = race.in_turn(Block::Commits, tick, ("b", race.b.send(id, "go"))).await;
        assert_eq!(tick.done, 1, "{on_timeout:?}");
        assert_eq!(signal.expect_err("the execution has ended").code(), "already_terminal", "{on_timeout:?}");
        assert_eq!((race.a.state(id).await, race.a.signals(id).await.len()), (state, 0));
        assert_eq!(race.a.count_events(id, "execution.resumed").await, 0);
        assert_eq!(ended_by(&race, id).await, None, "the condition was not satisfied");
        assert!(race.b.claim("one", 9).await.is_empty());
    }
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_signal_that_comes_after_a_timeout_that_resumed_the_execution_counts_for_the_next_suspension() {
    let race = Race::new().await;
    let id = overdue(&race, OnTimeout::Resume).await;
    let tick = ("a", race.a.tick(TIMEOUT));
    let (tick, signal) = race.in_turn(Block::Commits, tick, ("b", race.b.send(id, "go"))).await;
    assert_eq!(tick.done, 1);
    assert_eq!(signal.expect("the execution is live").effect, Effect::Buffered);
    assert_eq!(ended_by(&race, id).await, Some(ResumedBy::Timeout));
    let claimed = race.is_resumed(id, 1, &["timeout"]).await;
    let again = race.a.suspend(fence(&claimed), for_signal("go")).await.expect("the lease is held");
    assert_eq!(again.state, StateName::Waiting);
    race.is_resumed(id, 2, &["go"]).await;
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_signal_that_comes_after_an_escalated_timeout_ends_the_suspension() {
    let race = Race::new().await;
    let id = overdue(&race, OnTimeout::Escalate).await;
    let tick = ("a", race.a.tick(TIMEOUT));
    let (tick, signal) = race.in_turn(Block::Commits, tick, ("b", race.b.send(id, "go"))).await;
    assert_eq!(tick.done, 1);
    assert_eq!(signal.expect("the execution is live").effect, Effect::Resumed);
    assert_eq!(race.a.count_events(id, "execution.escalated").await, 1);
    race.resumes(id, &["go"]).await;
    race.check_and_stop().await;
}

#[tokio::test]
async fn two_servers_that_find_the_same_overdue_suspension_act_once() {
    let race = Race::new().await;
    for on_timeout in OnTimeout::ALL {
        let id = overdue(&race, on_timeout).await;
        let (first, second) =
            race.meanwhile(Block::Commits, ("a", race.a.tick(TIMEOUT)), race.b.tick(TIMEOUT)).await;
        assert_eq!((first.done, second.done, second.superseded), (1, 0, 1), "{on_timeout:?}");
        assert_eq!(race.b.tick(TIMEOUT).await.scanned, 0, "{on_timeout:?}");
        // Submission, claim, suspension, and the timeout.
        assert_eq!(race.a.row(id).await.version, 4, "{on_timeout:?}");
        race.a.cancel(id).await.map(drop).unwrap_or_default();
    }
    race.check_and_stop().await;
}

/// Another server has read that the suspension is overdue, and acts after the execution was resumed and claimed.
#[tokio::test]
async fn a_timeout_found_before_the_resume_does_nothing_to_the_active_attempt() {
    let race = Race::new().await;
    let narrow = race.sandbox.single_writer_server("narrow").await;
    narrow.tick(TIMEOUT).await;
    for on_timeout in OnTimeout::ALL {
        let id = overdue(&race, on_timeout).await;
        let busy = BusyWriter::keep(&race, &narrow).await;
        let since = race.sandbox.now().await;
        let acts_late = async {
            race.sandbox.has_read("narrow", "executions/list_due", &since).await;
            assert_eq!(race.a.send(id, "go").await.expect("the execution is live").effect, Effect::Resumed);
            let claimed = race.b.claim_again(id).await;
            assert_eq!(carried_signals(&claimed), ["go"]);
            busy.release().await;
            claimed
        };
        let (tick, claimed) = tokio::join!(narrow.tick(TIMEOUT), acts_late);
        assert_eq!((tick.scanned, tick.done, tick.superseded), (1, 0, 1), "{on_timeout:?}");
        let row = race.a.row(id).await;
        assert_eq!((row.state.name(), row.version), (StateName::Active, claimed.execution.version));
        race.b.complete(fence(&claimed)).await.expect("the lease is held");
        assert_eq!(race.a.attempts(id).await, [Some("suspended"), Some("completed")]);
    }
    narrow.engine.shutdown().await;
    race.check_and_stop().await;
}

/// As above, but the execution is suspended again, with a timeout of its own.
#[tokio::test]
async fn a_timeout_found_before_the_resume_does_nothing_to_the_next_suspension() {
    let race = Race::new().await;
    let narrow = race.sandbox.single_writer_server("narrow").await;
    narrow.tick(TIMEOUT).await;
    let id = overdue(&race, OnTimeout::Fail).await;
    let busy = BusyWriter::keep(&race, &narrow).await;
    let since = race.sandbox.now().await;
    let acts_late = async {
        race.sandbox.has_read("narrow", "executions/list_due", &since).await;
        race.a.send(id, "go").await.expect("the execution is live");
        let lease = fence(&race.b.claim_again(id).await);
        let wait = with_timeout(60_000, OnTimeout::Fail, for_signal("go"));
        let suspended = race.b.suspend(lease, wait).await.expect("the lease is held");
        assert_eq!(suspended.state, StateName::Suspended);
        busy.release().await;
    };
    let (tick, ()) = tokio::join!(narrow.tick(TIMEOUT), acts_late);
    assert_eq!((tick.scanned, tick.done, tick.superseded), (1, 0, 1));
    assert_eq!(race.a.state(id).await, StateName::Suspended);
    race.b.send(id, "go").await.expect("the execution is live");
    race.is_resumed(id, 2, &["go"]).await;
    narrow.engine.shutdown().await;
    race.check_and_stop().await;
}
