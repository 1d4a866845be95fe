//! Timeouts of waits: the first of a timeout and a resume takes effect, and a resumed execution cannot time out.

use crate::cases::execution::rows::assert_read_everywhere;
use crate::harness::Harness;
use crate::harness::concurrently;
use crate::harness::runner::RulePair;
use crate::harness::signals::{on_signal, recorded_wait, result_of, signal, signal_names, with_timeout};
use selvedge_core::execution::Execution;
use selvedge_core::fact::{self, SuspensionNotice};
use selvedge_core::rules::timer::{FireTimer, Timer, TimerReply};
use selvedge_core::signal::{ENGINE, Effect, TIMEOUT};
use selvedge_core::state::StateName;
use selvedge_core::suspension::{Condition, OnTimeout, ResumedBy, WaitDraft};
use selvedge_core::{Draft, DueKind, ExecutionId, Fact, FailureClass, Outcome, Policy, State};
use selvedge_store::ReconcilerScope;

const TIMEOUT_DUE: Timer = Timer::Due(DueKind::SuspensionTimeout);

/// Suspends an execution whose timeout is due at once.
async fn overdue(harness: &Harness, on_timeout: OnTimeout) -> ExecutionId {
    let policy = Policy { retention_ms: 0, ..Policy::default() };
    let claimed = harness.leased(Draft { policy, ..Draft::new("kind") }).await;
    let waits = vec![with_timeout(0, on_timeout, Condition::All(vec![on_signal("a"), on_signal("b")]))];
    assert_eq!(harness.suspend(&claimed, waits).await.state, StateName::Suspended);
    claimed.execution.id
}

pub async fn a_timeout_ends_the_execution_with_the_requested_outcome(harness: &Harness) {
    for (on_timeout, outcome) in [
        (OnTimeout::Fail, Outcome::Failed),
        (OnTimeout::Cancel, Outcome::Cancelled),
        (OnTimeout::Expire, Outcome::Expired),
    ] {
        let id = overdue(harness, on_timeout).await;
        harness.signal(id, "a").await;
        let found = harness
            .store
            .due(&ReconcilerScope::ALL, DueKind::SuspensionTimeout, None, 9)
            .await
            .expect("rows are read");
        assert_eq!(found.iter().map(|row| row.execution).collect::<Vec<_>>(), [id]);
        harness.due(id, DueKind::SuspensionTimeout).await;
        let row = harness.row(id).await;
        assert_eq!(row.state, State::Terminal(outcome));
        let error = row.detail.error.clone().expect("it has an error");
        assert_eq!(error.class, FailureClass::Timeout);
        assert!(error.message.contains("timed out"), "{}", error.message);
        assert_read_everywhere(harness, &row).await;
        assert_eq!(harness.tick(id, TIMEOUT_DUE).await, TimerReply::NotDue, "it is applied once");
        let refused = harness.try_signal(id, signal("b")).await.expect_err("it has ended");
        assert_eq!(refused.code(), "already_terminal");
        assert_eq!(harness.row(id).await, row);
        // Its retention is that of any ended execution.
        harness.due(id, DueKind::Retention).await;
        assert!(harness.find(id).await.is_none() && harness.signals(id).await.is_empty());
    }
}

pub async fn a_timeout_may_resume_and_the_claim_says_so(harness: &Harness) {
    let id = overdue(harness, OnTimeout::Resume).await;
    assert_eq!(harness.signal(id, "b").await, Effect::Counted);
    harness.due(id, DueKind::SuspensionTimeout).await;
    for _ in 0..2 {
        let claimed = harness.claim_again(id).await;
        assert_eq!(signal_names(&claimed), ["b", TIMEOUT], "the matched signal and the timeout");
        let timeout = &claimed.signals[1];
        assert_eq!((timeout.source.as_str(), timeout.payload.as_deref()), (ENGINE, Some(&b"null"[..])));
        assert_eq!(claimed.execution.detail.record.resumed_by, Some(ResumedBy::Timeout));
        let release = selvedge_core::rules::report::Op::Release;
        harness.report(crate::harness::fence(&claimed), release).await.expect("it is released");
    }
    assert_eq!(harness.signals(id).await.len(), 1, "the engine's timeout signal is not stored");
    let claimed = harness.claim_again(id).await;
    harness.suspend(&claimed, vec![WaitDraft::new(on_signal("go"))]).await;
    harness.signal(id, "go").await;
    assert_eq!(signal_names(&harness.claim_again(id).await), ["go"]);
}

pub async fn an_escalated_wait_stays_and_is_reported_once(harness: &Harness) {
    let id = overdue(harness, OnTimeout::Escalate).await;
    harness.due(id, DueKind::SuspensionTimeout).await;
    let row = harness.row(id).await;
    assert_eq!((row.state.name(), row.due()), (StateName::Suspended, None));
    assert_read_everywhere(harness, &row).await;
    assert_eq!(harness.tick(id, TIMEOUT_DUE).await, TimerReply::NotDue);
    let escalated = |fact: &&Fact| {
        matches!(fact, Fact::Noticed(fact::Noticed { notice: SuspensionNotice::Escalated(0) }))
    };
    assert_eq!(harness.facts_of(id).await.iter().filter(escalated).count(), 1);
    assert_eq!(harness.signal(id, "a").await, Effect::Counted);
    assert_eq!(harness.signal(id, "b").await, Effect::Resumed, "it waits as before");
    assert_eq!(signal_names(&harness.claim_again(id).await), ["a", "b"]);
}

pub async fn the_timeout_of_one_wait_keeps_the_signals_of_the_others(harness: &Harness) {
    let waits = vec![
        WaitDraft {
            timeout_ms: Some(3_600_000),
            ..recorded_wait("long", Condition::All(vec![on_signal("a"), on_signal("b")]))
        },
        WaitDraft {
            timeout_ms: Some(0),
            on_timeout: OnTimeout::Resume,
            ..recorded_wait("short", Condition::All(vec![on_signal("c"), on_signal("d")]))
        },
    ];
    let id = harness.suspended_for(waits).await.execution.id;
    for name in ["a", "c"] {
        assert_eq!(harness.signal(id, name).await, Effect::Counted);
    }
    harness.due(id, DueKind::SuspensionTimeout).await;
    let claimed = harness.claim_again(id).await;
    assert_eq!(signal_names(&claimed), ["c", TIMEOUT]);
    assert_eq!(claimed.execution.detail.record.untaken, 1, "a is kept for the open wait");
    let recorded: Vec<&str> = claimed.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(recorded, ["short"]);
    assert!(result_of(&claimed.steps[0]).contains("\"resumed_by\":\"timeout\""));
    // The other wait keeps its start, and its signal is matched again.
    let begun = harness.steps(id).await[0].started_at;
    let again = WaitDraft {
        timeout_ms: Some(3_600_000),
        ..recorded_wait("long", Condition::All(vec![on_signal("a"), on_signal("b")]))
    };
    harness.suspend(&claimed, vec![again]).await;
    assert_eq!(harness.waits(id).await[0].timeout_at, Some(begun.plus_ms(3_600_000)));
    assert_eq!(harness.signal(id, "b").await, Effect::Resumed);
    assert_eq!(signal_names(&harness.claim_again(id).await), ["a", "b"]);
}

pub async fn a_time_before_the_timeout_is_applied_first(harness: &Harness) {
    let now = harness.now().await;
    let time =
        Condition::All(vec![Condition::until(selvedge_core::submission::When::At(now)), on_signal("go")]);
    let sooner = Condition::until(selvedge_core::submission::When::AfterMs(0));
    let waits = vec![
        with_timeout(0, OnTimeout::Fail, Condition::All(vec![sooner, on_signal("x")])),
        WaitDraft::new(time),
    ];
    let id = harness.suspended_for(waits).await.execution.id;
    // Both times were reached when it was suspended: only the timeout is due.
    assert_eq!(harness.row(id).await.due().map(|due| due.kind), Some(DueKind::SuspensionTimeout));
    let claimed = {
        harness.signal(id, "go").await;
        harness.claim_again(id).await
    };
    let late = Condition::until(selvedge_core::submission::When::AfterMs(1));
    harness.suspend(&claimed, vec![with_timeout(1, OnTimeout::Fail, late)]).await;
    harness.advance_past(1).await;
    assert_eq!(
        harness.tick(id, TIMEOUT_DUE).await,
        TimerReply::NotDue,
        "a time takes precedence over an equal timeout"
    );
    harness.due(id, DueKind::Delay).await;
    assert_eq!(harness.state(id).await, StateName::Waiting);
}

/// Applies ticks that were found due before the execution changed, and asserts that they change nothing.
async fn assert_ticks_change_nothing(harness: &Harness, found: &[FireTimer], row: &Execution) {
    for tick in found {
        let ticked = harness.run(tick.clone()).await.expect("the row can be read");
        assert_eq!(ticked, TimerReply::NotDue, "{tick:?}");
    }
    assert_eq!(&harness.row(row.id).await, row);
}

pub async fn a_timeout_does_not_change_an_execution_that_was_resumed_before_it(harness: &Harness) {
    for on_timeout in OnTimeout::ALL {
        let id = overdue(harness, on_timeout).await;
        let found = harness
            .store
            .due(&ReconcilerScope::ALL, DueKind::SuspensionTimeout, None, 9)
            .await
            .expect("rows are read");
        let found: Vec<FireTimer> =
            found.iter().map(|row| FireTimer { execution: row.execution, timer: TIMEOUT_DUE }).collect();
        assert_eq!(found.iter().map(|tick| tick.execution).collect::<Vec<_>>(), [id]);
        for name in ["a", "b"] {
            harness.signal(id, name).await;
        }
        assert_ticks_change_nothing(harness, &found, &harness.row(id).await).await;
        let claimed = harness.claim_again(id).await;
        assert_ticks_change_nothing(harness, &found, &harness.row(id).await).await;
        // Also when it is suspended again, with a timeout in the future.
        harness.suspend(&claimed, vec![with_timeout(3_600_000, OnTimeout::Fail, on_signal("c"))]).await;
        assert_ticks_change_nothing(harness, &found, &harness.row(id).await).await;
        harness.signal(id, "c").await;
        let claimed = harness.claim_again(id).await;
        harness.complete(&claimed, b"1").await;
        assert_ticks_change_nothing(harness, &found, &harness.row(id).await).await;
        harness.due(id, DueKind::Retention).await;
    }
}

pub async fn a_concurrent_signal_and_timeout_have_one_effect(harness: &Harness) {
    for round in 0..12 {
        let on_timeout = OnTimeout::ALL[round % 4];
        let claimed = harness.leased(Draft::new("kind")).await;
        let id = claimed.execution.id;
        harness.suspend(&claimed, vec![with_timeout(0, on_timeout, on_signal("go"))]).await;
        let done = concurrently(4, |task| {
            let harness = harness.clone();
            async move {
                match task % 2 {
                    0 => harness.tick(id, TIMEOUT_DUE).await == TimerReply::Fired,
                    _ => harness
                        .try_signal(id, signal("go"))
                        .await
                        .is_ok_and(|sent| sent.effect == Effect::Resumed),
                }
            }
        });
        let done = done.await.into_iter().filter(|done| *done).count();
        assert_eq!(done, 1, "the suspension ended once");
        let resumes = |fact: &&Fact| matches!(fact, Fact::Resumed { .. } | Fact::SuspensionTimedOut { .. });
        assert_eq!(harness.facts_of(id).await.iter().filter(resumes).count(), 1);
        for claimed in harness.claim(1).await {
            harness.complete(&claimed, b"1").await;
        }
        assert!(harness.row(id).await.state.outcome().is_some());
    }
}

pub async fn a_timeout_and_a_signal_in_one_transaction_have_one_effect(harness: &Harness) {
    for (on_timeout, expected) in [
        (OnTimeout::Fail, "already_terminal"),
        (OnTimeout::Resume, "buffered"),
        (OnTimeout::Escalate, "resumed"),
    ] {
        let claimed = harness.leased(Draft::new("kind")).await;
        let id = claimed.execution.id;
        harness.suspend(&claimed, vec![with_timeout(0, on_timeout, on_signal("go"))]).await;
        let tick = FireTimer { execution: id, timer: TIMEOUT_DUE };
        let deliver = harness.signal_command(id, signal("go"), "caller");
        let (ticked, delivered) = harness.run(RulePair(tick.clone(), deliver)).await;
        assert_eq!(ticked, Ok(TimerReply::Fired));
        let effect = delivered.map_or_else(|refusal| refusal.code(), |delivered| delivered.effect.as_str());
        assert_eq!(effect, expected);
        assert_eq!(harness.run(tick).await, Ok(TimerReply::NotDue));
        for claimed in harness.claim(1).await {
            harness.complete(&claimed, b"1").await;
        }
    }
}
