//! Resume conditions: signals, all and any, counts, times and operators; and signals that arrived before the
//! suspension.

use crate::harness::signals::{
    name, on_count, on_signal, recorded_wait, secret, signal, signal_names, suspend, with_timeout,
};
use crate::harness::{Harness, fence, new_id};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::signal::SignalDraft;
use selvedge_core::rules::timer::{Timer, TimerReply};
use selvedge_core::rules::waitpoint::WaitpointDraft;
use selvedge_core::signal::Effect;
use selvedge_core::state::StateName;
use selvedge_core::submission::When;
use selvedge_core::suspension::{Condition, Distinct, OnTimeout, ResumedBy, WaitDraft};
use selvedge_core::{Draft, DueKind, State};
use selvedge_store::ReconcilerScope;

pub async fn one_part_of_any_is_enough_and_only_its_signals_are_taken(harness: &Harness) {
    let pair = Condition::All(vec![on_signal("a"), on_signal("b")]);
    let id = harness.suspended(Condition::Any(vec![pair, on_signal("c")])).await.execution.id;
    assert_eq!(harness.signal(id, "a").await, Effect::Counted);
    assert_eq!(harness.signal(id, "c").await, Effect::Resumed);
    let claimed = harness.claim_again(id).await;
    assert_eq!(signal_names(&claimed), ["c"], "a is kept for a later wait");
    assert_eq!(
        harness.suspend(&claimed, vec![WaitDraft::new(on_signal("a"))]).await.state,
        StateName::Waiting
    );
    let claimed = harness.claim_again(id).await;
    assert_eq!(signal_names(&claimed), ["a"]);
    assert_eq!(claimed.execution.detail.record.untaken, 0);
}

pub async fn all_parts_are_awaited_in_any_order(harness: &Harness) {
    for order in [["a", "b", "c"], ["c", "b", "a"], ["b", "a", "c"]] {
        let all = Condition::All(vec![
            on_signal("a"),
            Condition::Any(vec![on_signal("b"), on_signal("x")]),
            on_signal("c"),
        ]);
        let id = harness.suspended(all).await.execution.id;
        assert_eq!(harness.signal(id, order[0]).await, Effect::Counted);
        assert_eq!(harness.signal(id, order[0]).await, Effect::Buffered, "a second one is not awaited");
        assert_eq!(harness.signal(id, order[1]).await, Effect::Counted);
        assert_eq!(harness.signal(id, order[2]).await, Effect::Resumed);
        let claimed = harness.claim_again(id).await;
        assert_eq!(signal_names(&claimed), order, "in the order of their delivery");
        let numbers: Vec<u32> = claimed.signals.iter().map(|one| one.number).collect();
        assert_eq!(numbers, [1, 3, 4]);
    }
}

pub async fn a_count_distinguishes_signals_by_name(harness: &Harness) {
    let id = harness.suspended(on_count(2, &["a", "b", "c"], Distinct::Signals)).await.execution.id;
    assert_eq!(harness.signal(id, "a").await, Effect::Counted);
    assert_eq!(harness.signal(id, "a").await, Effect::Buffered);
    assert_eq!(harness.signal(id, "d").await, Effect::Buffered);
    assert_eq!(harness.signal(id, "c").await, Effect::Resumed);
    assert_eq!(signal_names(&harness.claim_again(id).await), ["a", "c"]);
}

pub async fn a_count_distinguishes_signals_by_source(harness: &Harness) {
    let id = harness.suspended(on_count(2, &["yes"], Distinct::Sources)).await.execution.id;
    let send = async |what: &str, source: &str| {
        let sent = harness.run(harness.signal_command(id, signal(what), source)).await;
        sent.expect("it is delivered").effect
    };
    assert_eq!(send("yes", "ann").await, Effect::Counted);
    assert_eq!(send("yes", "ann").await, Effect::Buffered, "a source counts once");
    assert_eq!(send("no", "bob").await, Effect::Buffered);
    assert_eq!(send("yes", "bob").await, Effect::Resumed);
    let claimed = harness.claim_again(id).await;
    let sources: Vec<&str> = claimed.signals.iter().map(|one| one.source.as_str()).collect();
    assert_eq!(sources, ["ann", "bob"]);
}

pub async fn a_count_distinguishes_signals_by_waitpoint(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    let people = ["ann", "bob", "cyd"];
    let drafts = people.map(|one| WaitpointDraft {
        source: Some(name(&format!("{one}@example.org"))),
        signals: Some(vec![name(one), name("approved")]),
        ..WaitpointDraft::new(name(one))
    });
    let waits = vec![WaitDraft::new(on_count(2, &people, Distinct::Waitpoints))];
    let report = suspend(waits, drafts.into());
    let waitpoints = harness.report(fence(&claimed), report).await.expect("it is suspended").waitpoints;
    assert_eq!(harness.signal(id, "ann").await, Effect::Buffered, "it was not delivered through a waitpoint");
    let [ann, bob, cyd] = &waitpoints[..] else { panic!("there are three") };
    let deliver = |waitpoint, as_name: &str| {
        let token = secret(1).sign(waitpoint);
        harness.deliver_command(waitpoint, &token, SignalDraft { key: None, ..signal(as_name) })
    };
    let first = harness.run(deliver(cyd, "approved")).await.expect("it is delivered");
    assert_eq!((first.effect, first.source.as_str()), (Effect::Counted, "cyd@example.org"));
    let second = harness.run(deliver(ann, "approved")).await.expect("it is delivered");
    assert_eq!((second.effect, second.source.as_str()), (Effect::Resumed, "ann@example.org"));
    let claimed = harness.claim_again(id).await;
    let through = |one: &selvedge_core::Signal| one.waitpoint.clone();
    let arrived: Vec<_> = claimed.signals.iter().map(through).collect();
    assert_eq!(arrived, [Some((cyd.id, name("cyd"))), Some((ann.id, name("ann")))]);
    assert_eq!(signal_names(&claimed), ["approved", "approved"]);
    let late = harness.deliver(bob).await.expect_err("the vote has ended");
    assert_eq!(late.code(), "token_expired");
}

pub async fn an_awaited_time_resumes(harness: &Harness) {
    let id = harness.suspended(Condition::until(When::AfterMs(1))).await.execution.id;
    harness.advance_past(1).await;
    let found =
        harness.store.due(&ReconcilerScope::ALL, DueKind::Delay, None, 9).await.expect("rows are read");
    assert_eq!(found.iter().map(|row| row.execution).collect::<Vec<_>>(), [id]);
    harness.due(id, DueKind::Delay).await;
    assert_eq!(harness.tick(id, Timer::Due(DueKind::Delay)).await, TimerReply::NotDue);
    let claimed = harness.claim_again(id).await;
    assert!(claimed.signals.is_empty());
    // A part that holds is recorded and no longer due.
    let both = Condition::All(vec![Condition::until(When::AfterMs(1)), on_signal("go")]);
    harness.suspend(&claimed, vec![WaitDraft::new(both)]).await;
    harness.advance_past(1).await;
    harness.due(id, DueKind::Delay).await;
    assert_eq!(harness.state(id).await, StateName::Suspended);
    assert_eq!(harness.row(id).await.due(), None);
    assert_eq!(harness.tick(id, Timer::Due(DueKind::Delay)).await, TimerReply::NotDue);
    assert_eq!(harness.signal(id, "go").await, Effect::Resumed);
    // A time in the future is not due.
    let claimed = harness.claim_again(id).await;
    let far = Condition::until(When::AfterMs(3_600_000));
    assert_eq!(harness.suspend(&claimed, vec![WaitDraft::new(far)]).await.state, StateName::Suspended);
    assert_eq!(harness.tick(id, Timer::Due(DueKind::Delay)).await, TimerReply::NotDue);
}

pub async fn an_operator_satisfies_its_condition_or_resumes_any_suspension(harness: &Harness) {
    let both = Condition::All(vec![Condition::operator(), on_signal("go")]);
    let id = harness.suspended(both).await.execution.id;
    assert_eq!(harness.resume(id).await.state.name(), StateName::Suspended, "the signal has not arrived");
    assert_eq!(harness.signal(id, "go").await, Effect::Resumed);
    let claimed = harness.claim_again(id).await;
    assert_eq!(signal_names(&claimed), ["go"]);
    harness.suspend(&claimed, vec![WaitDraft::new(Condition::operator())]).await;
    assert_eq!(harness.signal(id, "anything").await, Effect::Buffered);
    assert_eq!(harness.resume(id).await.state, State::Waiting);
    let claimed = harness.claim_again(id).await;
    assert!(claimed.signals.is_empty());
    assert_eq!(claimed.execution.detail.record.resumed_by, Some(ResumedBy::Operator));
    // If no wait needs an operator, all waits end, with the signals that they have matched.
    harness
        .suspend(&claimed, vec![WaitDraft::new(Condition::All(vec![on_signal("a"), on_signal("b")]))])
        .await;
    assert_eq!(harness.signal(id, "a").await, Effect::Counted);
    assert_eq!(harness.resume(id).await.state, State::Waiting);
    let claimed = harness.claim_again(id).await;
    assert_eq!(signal_names(&claimed), ["a"]);
    let refused = async |code: &str| {
        let reply = harness.operate(id, Action::Resume).await;
        assert_eq!(reply.expect_err("it is not suspended").code(), code);
    };
    refused("wrong_state").await;
    harness.complete(&claimed, b"1").await;
    refused("already_terminal").await;
    let missing = harness.operate(new_id(), Action::Resume).await;
    assert_eq!(missing.expect_err("it does not exist").code(), "not_found");
}

pub async fn a_condition_that_holds_already_resumes_at_once(harness: &Harness) {
    let now = harness.now().await;
    for (condition, sent) in [
        (on_signal("go"), vec!["go"]),
        (Condition::All(vec![on_signal("a"), on_signal("b")]), vec!["b", "a"]),
        (Condition::Any(vec![on_signal("never"), on_signal("go")]), vec!["go"]),
        (on_count(2, &["a", "b", "c"], Distinct::Signals), vec!["c", "a"]),
        (Condition::until(When::At(now)), vec![]),
        (Condition::until(When::AfterMs(0)), vec![]),
        (Condition::children(), vec![]),
    ] {
        let claimed = harness.leased(Draft::new("kind")).await;
        let id = claimed.execution.id;
        for name in &sent {
            assert_eq!(harness.signal(id, name).await, Effect::Buffered);
        }
        let reply = harness.suspend(&claimed, vec![WaitDraft::new(condition.clone())]).await;
        assert_eq!(reply.state, StateName::Waiting, "{condition:?}");
        let claimed = harness.claim_again(id).await;
        assert_eq!(signal_names(&claimed), sent);
        assert_eq!(claimed.execution.detail.record.untaken, 0);
        harness.complete(&claimed, b"1").await;
    }
}

pub async fn early_signals_count_and_the_rest_stays_for_later(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    for name in ["a", "a", "x"] {
        harness.signal(id, name).await;
    }
    let both = Condition::All(vec![on_signal("a"), on_signal("b")]);
    assert_eq!(
        harness.suspend(&claimed, vec![WaitDraft::new(both.clone())]).await.state,
        StateName::Suspended
    );
    assert_eq!(harness.signal(id, "b").await, Effect::Resumed);
    let claimed = harness.claim_again(id).await;
    assert_eq!(signal_names(&claimed), ["a", "b"]);
    assert_eq!(harness.suspend(&claimed, vec![WaitDraft::new(both)]).await.state, StateName::Suspended);
    assert_eq!(harness.signal(id, "b").await, Effect::Resumed, "the second a was kept");
    let claimed = harness.claim_again(id).await;
    let numbers: Vec<u32> = claimed.signals.iter().map(|one| one.number).collect();
    assert_eq!(numbers, [2, 5]);
    assert_eq!(claimed.execution.detail.record.untaken, 1, "no wait took x");
}

pub async fn one_wait_of_several_is_enough_and_a_signal_counts_for_the_first_that_accepts_it(
    harness: &Harness,
) {
    let waits = vec![
        recorded_wait("both", Condition::All(vec![on_signal("a"), on_signal("b")])),
        recorded_wait("one", on_signal("a")),
        recorded_wait("other", on_signal("c")),
    ];
    let id = harness.suspended_for(waits).await.execution.id;
    assert_eq!(harness.signal(id, "a").await, Effect::Counted, "the first wait matches it");
    assert_eq!(harness.signal(id, "a").await, Effect::Resumed, "the second wait matches this one");
    let claimed = harness.claim_again(id).await;
    assert_eq!(claimed.signals.iter().map(|one| one.number).collect::<Vec<_>>(), [2]);
    assert_eq!(claimed.execution.detail.record.untaken, 1);
    assert_eq!(claimed.steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["one"]);
    // The signal that the first wait had matched is matched again by the next suspension.
    let again = vec![recorded_wait("both", Condition::All(vec![on_signal("a"), on_signal("b")]))];
    assert_eq!(harness.suspend(&claimed, again).await.state, StateName::Suspended);
    assert_eq!(harness.signal(id, "b").await, Effect::Resumed);
    assert_eq!(signal_names(&harness.claim_again(id).await), ["a", "b"]);
}

pub async fn an_invalid_suspension_is_refused_and_changes_nothing(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let before = harness.row(claimed.execution.id).await;
    let deep = (0..5).fold(on_signal("a"), |inner, _| Condition::All(vec![inner]));
    let wide = Condition::Any((0..101).map(|number| on_signal(&number.to_string())).collect());
    let one = |condition| vec![WaitDraft::new(condition)];
    for (waits, pointer) in [
        (vec![], "/waits"),
        (one(deep), "/condition/all/0/all/0/all/0/all/0/all"),
        (one(wide), "/condition"),
        (one(Condition::Any(vec![])), "/condition/any"),
        (one(on_signal("")), "/condition/signal"),
        (one(on_count(0, &["a"], Distinct::Signals)), "/condition/count/n"),
        (one(on_count(2, &["a"], Distinct::Signals)), "/condition/count/n"),
        (one(on_count(1, &[], Distinct::Sources)), "/condition/count/of"),
        (one(on_count(1, &["a", "b", "a"], Distinct::Waitpoints)), "/condition/count/of/2"),
        (one(Condition::until(When::AfterMs(-1))), "/condition/delay_ms"),
        (vec![with_timeout(-1, OnTimeout::Fail, on_signal("a"))], "/timeout_ms"),
        (vec![recorded_wait("s", on_signal("a")), recorded_wait("s", on_signal("b"))], "/waits/1/step"),
    ] {
        let refused = harness.report(fence(&claimed), suspend(waits, vec![])).await;
        let refused = refused.expect_err("it is refused");
        assert_eq!((refused.code(), refused.pointer()), ("invalid_field", Some(pointer)), "{refused}");
    }
    assert_eq!(harness.row(claimed.execution.id).await, before);
    let deepest = (0..4).fold(on_signal("a"), |inner, _| Condition::All(vec![inner]));
    assert_eq!(harness.suspend(&claimed, one(deepest)).await.state, StateName::Suspended);
    assert_eq!(harness.signal(claimed.execution.id, "a").await, Effect::Resumed);
}
