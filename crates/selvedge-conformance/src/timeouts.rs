//! Waits that are too long, and that what has gone on cannot time out any more: whichever comes first is what happens.
#![allow(missing_docs)]

use super::harness::Harness;
use super::rows::is_read_everywhere;
use super::rule::Both;
use super::side_by_side;
use super::signal_harness::{at_most, carried, on, result_of, signal, waiting};
use selvedge_core::execution::Execution;
use selvedge_core::fact::Notice;
use selvedge_core::rules::clock::{Tick, Ticked, What};
use selvedge_core::signal::{ENGINE, Effect, TIMEOUT};
use selvedge_core::state::StateName;
use selvedge_core::suspension::{Condition, OnTimeout, ResumedBy, WaitDraft};
use selvedge_core::{Draft, DueKind, ExecutionId, Fact, FailureClass, Outcome, Policy, State};

const TIMEOUT_DUE: What = What::Due(DueKind::SuspensionTimeout);

/// One that is suspended, and whose wait is too long at once.
async fn overdue(harness: &Harness, on_timeout: OnTimeout) -> ExecutionId {
    let policy = Policy { retention_ms: 0, ..Policy::default() };
    let claimed = harness.leased(Draft { policy, ..Draft::new("kind") }).await;
    let waits = vec![at_most(0, on_timeout, Condition::All(vec![on("a"), on("b")]))];
    assert_eq!(harness.suspend(&claimed, waits).await.state, StateName::Suspended);
    claimed.execution.id
}

/// What the log tells of an execution.
async fn facts(harness: &Harness, id: ExecutionId) -> Vec<Fact> {
    let events = harness.log().await.into_iter().flat_map(|(_, events)| events);
    events.filter(|event| event.execution == Some(id)).map(|event| event.fact).collect()
}

pub async fn a_wait_that_is_too_long_ends_the_execution_as_it_asked(harness: &Harness) {
    for (on_timeout, outcome) in [
        (OnTimeout::Fail, Outcome::Failed),
        (OnTimeout::Cancel, Outcome::Cancelled),
        (OnTimeout::Expire, Outcome::Expired),
    ] {
        let id = overdue(harness, on_timeout).await;
        harness.signal(id, "a").await;
        let found = harness.store.due(DueKind::SuspensionTimeout, None, 9).await.expect("is read");
        assert_eq!(found.iter().map(|row| row.execution).collect::<Vec<_>>(), [id]);
        harness.due(id, DueKind::SuspensionTimeout).await;
        let row = harness.row(id).await;
        assert_eq!(row.state, State::Terminal(outcome));
        let error = row.detail.error.clone().expect("it says why");
        assert_eq!(error.class, FailureClass::Timeout);
        assert!(error.message.contains("in vain"), "{}", error.message);
        is_read_everywhere(harness, &row).await;
        assert_eq!(harness.tick(id, TIMEOUT_DUE).await, Ticked::NotDue, "once is enough");
        let refused = harness.try_signal(id, signal("b")).await.expect_err("it has ended");
        assert_eq!(refused.code(), "already_terminal");
        assert_eq!(harness.row(id).await, row);
        // It is kept no longer than any other that has ended.
        harness.due(id, DueKind::Retention).await;
        assert!(harness.find(id).await.is_none() && harness.signals(id).await.is_empty());
    }
}

pub async fn a_wait_that_is_too_long_may_let_it_go_on_and_the_claim_says_so(harness: &Harness) {
    let id = overdue(harness, OnTimeout::Resume).await;
    assert_eq!(harness.signal(id, "b").await, Effect::Counted);
    harness.due(id, DueKind::SuspensionTimeout).await;
    for _ in 0..2 {
        let claimed = harness.claim_again(id).await;
        assert_eq!(carried(&claimed), ["b", TIMEOUT], "what had come, and that the time was over");
        let told = &claimed.signals[1];
        assert_eq!((told.source.as_str(), told.payload.as_deref()), (ENGINE, Some(&b"null"[..])));
        assert_eq!(claimed.execution.detail.record.resumed_by, Some(ResumedBy::Timeout));
        let release = selvedge_core::rules::report::Op::Release;
        harness.report(super::harness::fence(&claimed), release).await.expect("it is released");
    }
    assert_eq!(harness.signals(id).await.len(), 1, "what the engine says is no signal of anybody's");
    let claimed = harness.claim_again(id).await;
    harness.suspend(&claimed, vec![WaitDraft::new(on("go"))]).await;
    harness.signal(id, "go").await;
    assert_eq!(carried(&harness.claim_again(id).await), ["go"]);
}

pub async fn a_wait_that_is_escalated_stays_and_is_told_of_once(harness: &Harness) {
    let id = overdue(harness, OnTimeout::Escalate).await;
    harness.due(id, DueKind::SuspensionTimeout).await;
    let row = harness.row(id).await;
    assert_eq!((row.state.name(), row.due()), (StateName::Suspended, None));
    is_read_everywhere(harness, &row).await;
    assert_eq!(harness.tick(id, TIMEOUT_DUE).await, Ticked::NotDue);
    let told = |fact: &&Fact| matches!(fact, Fact::Noticed { notice: Notice::Escalated(0) });
    assert_eq!(facts(harness, id).await.iter().filter(told).count(), 1);
    assert_eq!(harness.signal(id, "a").await, Effect::Counted);
    assert_eq!(harness.signal(id, "b").await, Effect::Resumed, "it waits as before");
    assert_eq!(carried(&harness.claim_again(id).await), ["a", "b"]);
}

pub async fn the_timeout_of_one_wait_leaves_what_the_others_have_heard(harness: &Harness) {
    let waits = vec![
        WaitDraft { timeout_ms: Some(3_600_000), ..waiting("long", Condition::All(vec![on("a"), on("b")])) },
        WaitDraft {
            timeout_ms: Some(0),
            on_timeout: OnTimeout::Resume,
            ..waiting("short", Condition::All(vec![on("c"), on("d")]))
        },
    ];
    let id = harness.suspended_for(waits).await.execution.id;
    for name in ["a", "c"] {
        assert_eq!(harness.signal(id, name).await, Effect::Counted);
    }
    harness.due(id, DueKind::SuspensionTimeout).await;
    let claimed = harness.claim_again(id).await;
    assert_eq!(carried(&claimed), ["c", TIMEOUT]);
    assert_eq!(claimed.execution.detail.record.untaken, 1, "a is kept for the one that is still open");
    let recorded: Vec<&str> = claimed.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(recorded, ["short"]);
    assert!(result_of(&claimed.steps[0]).contains("\"resumed_by\":\"timeout\""));
    // The other one is waited for since it was begun, and its signal is heard again.
    let begun = harness.steps(id).await[0].started_at;
    let again =
        WaitDraft { timeout_ms: Some(3_600_000), ..waiting("long", Condition::All(vec![on("a"), on("b")])) };
    harness.suspend(&claimed, vec![again]).await;
    assert_eq!(harness.waits(id).await[0].timeout_at, Some(begun.plus_ms(3_600_000)));
    assert_eq!(harness.signal(id, "b").await, Effect::Resumed);
    assert_eq!(carried(&harness.claim_again(id).await), ["a", "b"]);
}

pub async fn a_time_that_came_before_the_timeout_comes_first(harness: &Harness) {
    let now = harness.now().await;
    let time = Condition::All(vec![Condition::until(selvedge_core::submission::When::At(now)), on("go")]);
    let sooner = Condition::until(selvedge_core::submission::When::AfterMs(0));
    let waits =
        vec![at_most(0, OnTimeout::Fail, Condition::All(vec![sooner, on("x")])), WaitDraft::new(time)];
    let id = harness.suspended_for(waits).await.execution.id;
    // Both had come when it was suspended: only the timeout is left.
    assert_eq!(harness.row(id).await.due().map(|due| due.kind), Some(DueKind::SuspensionTimeout));
    let claimed = {
        harness.signal(id, "go").await;
        harness.claim_again(id).await
    };
    let late = Condition::until(selvedge_core::submission::When::AfterMs(1));
    harness.suspend(&claimed, vec![at_most(1, OnTimeout::Fail, late)]).await;
    harness.pass(1).await;
    assert_eq!(
        harness.tick(id, TIMEOUT_DUE).await,
        Ticked::NotDue,
        "the time comes first where they are the same"
    );
    harness.due(id, DueKind::Delay).await;
    assert_eq!(harness.state(id).await, StateName::Waiting);
}

/// What a reconciler found due before something else happened acts on nothing.
async fn acts_on_nothing(harness: &Harness, found: &[Tick], row: &Execution) {
    for tick in found {
        let ticked = harness.run(tick.clone()).await.expect("the row can be read");
        assert_eq!(ticked, Ticked::NotDue, "{tick:?}");
    }
    assert_eq!(&harness.row(row.id).await, row);
}

pub async fn a_suspension_timeout_does_not_touch_what_was_resumed_before_it(harness: &Harness) {
    for on_timeout in OnTimeout::ALL {
        let id = overdue(harness, on_timeout).await;
        let found = harness.store.due(DueKind::SuspensionTimeout, None, 9).await.expect("is read");
        let found: Vec<Tick> =
            found.iter().map(|row| Tick { execution: row.execution, what: TIMEOUT_DUE }).collect();
        assert_eq!(found.iter().map(|tick| tick.execution).collect::<Vec<_>>(), [id]);
        for name in ["a", "b"] {
            harness.signal(id, name).await;
        }
        acts_on_nothing(harness, &found, &harness.row(id).await).await;
        let claimed = harness.claim_again(id).await;
        acts_on_nothing(harness, &found, &harness.row(id).await).await;
        // Also when it waits again: for this one there is time.
        harness.suspend(&claimed, vec![at_most(3_600_000, OnTimeout::Fail, on("c"))]).await;
        acts_on_nothing(harness, &found, &harness.row(id).await).await;
        harness.signal(id, "c").await;
        let claimed = harness.claim_again(id).await;
        harness.complete(&claimed, b"1").await;
        acts_on_nothing(harness, &found, &harness.row(id).await).await;
        harness.due(id, DueKind::Retention).await;
    }
}

pub async fn a_signal_and_a_timeout_that_come_at_once_do_one_thing(harness: &Harness) {
    for round in 0..12 {
        let on_timeout = OnTimeout::ALL[round % 4];
        let claimed = harness.leased(Draft::new("kind")).await;
        let id = claimed.execution.id;
        harness.suspend(&claimed, vec![at_most(0, on_timeout, on("go"))]).await;
        let done = side_by_side(4, |side| {
            let harness = harness.clone();
            async move {
                match side % 2 {
                    0 => harness.tick(id, TIMEOUT_DUE).await == Ticked::Done,
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
        assert_eq!(facts(harness, id).await.iter().filter(resumes).count(), 1);
        for claimed in harness.claim(1).await {
            harness.complete(&claimed, b"1").await;
        }
        assert!(harness.row(id).await.state.outcome().is_some());
    }
}

pub async fn a_tick_and_a_signal_in_one_transaction_do_one_thing(harness: &Harness) {
    for (on_timeout, expected) in [
        (OnTimeout::Fail, "already_terminal"),
        (OnTimeout::Resume, "buffered"),
        (OnTimeout::Escalate, "resumed"),
    ] {
        let claimed = harness.leased(Draft::new("kind")).await;
        let id = claimed.execution.id;
        harness.suspend(&claimed, vec![at_most(0, on_timeout, on("go"))]).await;
        let tick = Tick { execution: id, what: TIMEOUT_DUE };
        let deliver = harness.signal_command(id, signal("go"), "caller");
        let (ticked, delivered) = harness.run(Both(tick.clone(), deliver)).await;
        assert_eq!(ticked, Ok(Ticked::Done));
        let came = delivered.map_or_else(|refusal| refusal.code(), |delivered| delivered.effect.as_str());
        assert_eq!(came, expected);
        assert_eq!(harness.run(tick).await, Ok(Ticked::NotDue));
        for claimed in harness.claim(1).await {
            harness.complete(&claimed, b"1").await;
        }
    }
}
