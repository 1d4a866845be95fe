//! What is waited for: signals, all and any of them, counts, times, the operator's word; and what has come before.
#![allow(missing_docs)]

use super::harness::{Harness, fence, mint};
use super::signal_harness::{at_most, carried, count, name, on, secret, signal, suspend, waiting};
use selvedge_core::rules::clock::{Ticked, What};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::signal::SignalDraft;
use selvedge_core::rules::waitpoint::WaitpointDraft;
use selvedge_core::signal::Effect;
use selvedge_core::state::StateName;
use selvedge_core::submission::When;
use selvedge_core::suspension::{Condition, Distinct, OnTimeout, ResumedBy, WaitDraft};
use selvedge_core::{Draft, DueKind, State};

pub async fn one_part_of_any_is_enough_and_only_what_it_took_is_taken(harness: &Harness) {
    let pair = Condition::All(vec![on("a"), on("b")]);
    let id = harness.suspended(Condition::Any(vec![pair, on("c")])).await.execution.id;
    assert_eq!(harness.signal(id, "a").await, Effect::Counted);
    assert_eq!(harness.signal(id, "c").await, Effect::Resumed);
    let claimed = harness.claim_again(id).await;
    assert_eq!(carried(&claimed), ["c"], "a is kept for a wait that is yet to come");
    assert_eq!(harness.suspend(&claimed, vec![WaitDraft::new(on("a"))]).await.state, StateName::Waiting);
    let claimed = harness.claim_again(id).await;
    assert_eq!(carried(&claimed), ["a"]);
    assert_eq!(claimed.execution.detail.record.untaken, 0);
}

pub async fn all_parts_are_waited_for_in_any_order(harness: &Harness) {
    for order in [["a", "b", "c"], ["c", "b", "a"], ["b", "a", "c"]] {
        let all = Condition::All(vec![on("a"), Condition::Any(vec![on("b"), on("x")]), on("c")]);
        let id = harness.suspended(all).await.execution.id;
        assert_eq!(harness.signal(id, order[0]).await, Effect::Counted);
        assert_eq!(harness.signal(id, order[0]).await, Effect::Buffered, "the same again is not waited for");
        assert_eq!(harness.signal(id, order[1]).await, Effect::Counted);
        assert_eq!(harness.signal(id, order[2]).await, Effect::Resumed);
        let claimed = harness.claim_again(id).await;
        assert_eq!(carried(&claimed), order, "in the order of their delivery");
        let numbers: Vec<u32> = claimed.signals.iter().map(|one| one.number).collect();
        assert_eq!(numbers, [1, 3, 4]);
    }
}

pub async fn a_count_tells_signals_apart_by_their_names(harness: &Harness) {
    let id = harness.suspended(count(2, &["a", "b", "c"], Distinct::Signals)).await.execution.id;
    assert_eq!(harness.signal(id, "a").await, Effect::Counted);
    assert_eq!(harness.signal(id, "a").await, Effect::Buffered);
    assert_eq!(harness.signal(id, "d").await, Effect::Buffered);
    assert_eq!(harness.signal(id, "c").await, Effect::Resumed);
    assert_eq!(carried(&harness.claim_again(id).await), ["a", "c"]);
}

pub async fn a_count_tells_signals_apart_by_who_sent_them(harness: &Harness) {
    let id = harness.suspended(count(2, &["yes"], Distinct::Sources)).await.execution.id;
    let send = async |what: &str, source: &str| {
        let sent = harness.run(harness.signal_command(id, signal(what), source)).await;
        sent.expect("it is delivered").effect
    };
    assert_eq!(send("yes", "ann").await, Effect::Counted);
    assert_eq!(send("yes", "ann").await, Effect::Buffered, "one voice counts once");
    assert_eq!(send("no", "bob").await, Effect::Buffered);
    assert_eq!(send("yes", "bob").await, Effect::Resumed);
    let claimed = harness.claim_again(id).await;
    let sources: Vec<&str> = claimed.signals.iter().map(|one| one.source.as_str()).collect();
    assert_eq!(sources, ["ann", "bob"]);
}

pub async fn a_count_tells_signals_apart_by_the_waitpoints_through_which_they_came(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    let people = ["ann", "bob", "cyd"];
    let drafts = people.map(|one| WaitpointDraft {
        source: Some(name(&format!("{one}@example.org"))),
        ..WaitpointDraft::new(name(one))
    });
    let waits = vec![WaitDraft::new(count(2, &people, Distinct::Waitpoints))];
    let report = suspend(waits, drafts.into());
    let waitpoints = harness.report(fence(&claimed), report).await.expect("it is suspended").waitpoints;
    assert_eq!(harness.signal(id, "ann").await, Effect::Buffered, "it came through no waitpoint");
    let [ann, bob, cyd] = &waitpoints[..] else { panic!("there are three") };
    let told = |waitpoint, as_name: &str| {
        let token = secret(1).sign(waitpoint);
        harness.deliver_command(waitpoint, &token, SignalDraft { key: None, ..signal(as_name) })
    };
    let first = harness.run(told(cyd, "approved")).await.expect("it is delivered");
    assert_eq!((first.effect, first.source.as_str()), (Effect::Counted, "cyd@example.org"));
    let second = harness.run(told(ann, "approved")).await.expect("it is delivered");
    assert_eq!((second.effect, second.source.as_str()), (Effect::Resumed, "ann@example.org"));
    let claimed = harness.claim_again(id).await;
    let through = |one: &selvedge_core::Signal| one.waitpoint.clone();
    let came: Vec<_> = claimed.signals.iter().map(through).collect();
    assert_eq!(came, [Some((cyd.id, name("cyd"))), Some((ann.id, name("ann")))]);
    assert_eq!(carried(&claimed), ["approved", "approved"]);
    let late = harness.deliver(bob).await.expect("the third may speak too");
    assert_eq!(late.effect, Effect::Buffered);
}

pub async fn a_time_that_is_waited_for_comes(harness: &Harness) {
    let id = harness.suspended(Condition::until(When::AfterMs(1))).await.execution.id;
    harness.pass(1).await;
    let found = harness.store.due(DueKind::Delay, None, 9).await.expect("is read");
    assert_eq!(found.iter().map(|row| row.execution).collect::<Vec<_>>(), [id]);
    harness.due(id, DueKind::Delay).await;
    assert_eq!(harness.tick(id, What::Due(DueKind::Delay)).await, Ticked::NotDue);
    let claimed = harness.claim_again(id).await;
    assert!(claimed.signals.is_empty());
    // A part of it is noted, and waited for no more.
    let both = Condition::All(vec![Condition::until(When::AfterMs(1)), on("go")]);
    harness.suspend(&claimed, vec![WaitDraft::new(both)]).await;
    harness.pass(1).await;
    harness.due(id, DueKind::Delay).await;
    assert_eq!(harness.state(id).await, StateName::Suspended);
    assert_eq!(harness.row(id).await.due(), None);
    assert_eq!(harness.tick(id, What::Due(DueKind::Delay)).await, Ticked::NotDue);
    assert_eq!(harness.signal(id, "go").await, Effect::Resumed);
    // One that is far away is no reason to do anything.
    let claimed = harness.claim_again(id).await;
    let far = Condition::until(When::AfterMs(3_600_000));
    assert_eq!(harness.suspend(&claimed, vec![WaitDraft::new(far)]).await.state, StateName::Suspended);
    assert_eq!(harness.tick(id, What::Due(DueKind::Delay)).await, Ticked::NotDue);
}

pub async fn an_operator_is_waited_for_or_lets_anything_go_on(harness: &Harness) {
    let both = Condition::All(vec![Condition::operator(), on("go")]);
    let id = harness.suspended(both).await.execution.id;
    assert_eq!(harness.resume(id).await.state.name(), StateName::Suspended, "the signal is still to come");
    assert_eq!(harness.signal(id, "go").await, Effect::Resumed);
    let claimed = harness.claim_again(id).await;
    assert_eq!(carried(&claimed), ["go"]);
    harness.suspend(&claimed, vec![WaitDraft::new(Condition::operator())]).await;
    assert_eq!(harness.signal(id, "anything").await, Effect::Buffered);
    assert_eq!(harness.resume(id).await.state, State::Waiting);
    let claimed = harness.claim_again(id).await;
    assert!(claimed.signals.is_empty());
    assert_eq!(claimed.execution.detail.record.resumed_by, Some(ResumedBy::Operator));
    // Where nothing waits for an operator, all that is waited for ends, with what had come of it.
    harness.suspend(&claimed, vec![WaitDraft::new(Condition::All(vec![on("a"), on("b")]))]).await;
    assert_eq!(harness.signal(id, "a").await, Effect::Counted);
    assert_eq!(harness.resume(id).await.state, State::Waiting);
    let claimed = harness.claim_again(id).await;
    assert_eq!(carried(&claimed), ["a"]);
    let refused = async |code: &str| {
        let answer = harness.operate(id, Action::Resume).await;
        assert_eq!(answer.expect_err("it is not suspended").code(), code);
    };
    refused("wrong_state").await;
    harness.complete(&claimed, b"1").await;
    refused("already_terminal").await;
    let missing = harness.operate(mint(), Action::Resume).await;
    assert_eq!(missing.expect_err("it is not there").code(), "not_found");
}

pub async fn what_has_come_already_makes_it_ready_at_once(harness: &Harness) {
    let now = harness.now().await;
    for (condition, sent) in [
        (on("go"), vec!["go"]),
        (Condition::All(vec![on("a"), on("b")]), vec!["b", "a"]),
        (Condition::Any(vec![on("never"), on("go")]), vec!["go"]),
        (count(2, &["a", "b", "c"], Distinct::Signals), vec!["c", "a"]),
        (Condition::until(When::At(now)), vec![]),
        (Condition::until(When::AfterMs(0)), vec![]),
        (Condition::children(), vec![]),
    ] {
        let claimed = harness.leased(Draft::new("kind")).await;
        let id = claimed.execution.id;
        for name in &sent {
            assert_eq!(harness.signal(id, name).await, Effect::Buffered);
        }
        let answer = harness.suspend(&claimed, vec![WaitDraft::new(condition.clone())]).await;
        assert_eq!(answer.state, StateName::Waiting, "{condition:?}");
        let claimed = harness.claim_again(id).await;
        assert_eq!(carried(&claimed), sent);
        assert_eq!(claimed.execution.detail.record.untaken, 0);
        harness.complete(&claimed, b"1").await;
    }
}

pub async fn signals_that_came_early_count_and_the_rest_stays_for_later(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    for name in ["a", "a", "x"] {
        harness.signal(id, name).await;
    }
    let both = Condition::All(vec![on("a"), on("b")]);
    assert_eq!(
        harness.suspend(&claimed, vec![WaitDraft::new(both.clone())]).await.state,
        StateName::Suspended
    );
    assert_eq!(harness.signal(id, "b").await, Effect::Resumed);
    let claimed = harness.claim_again(id).await;
    assert_eq!(carried(&claimed), ["a", "b"]);
    assert_eq!(harness.suspend(&claimed, vec![WaitDraft::new(both)]).await.state, StateName::Suspended);
    assert_eq!(harness.signal(id, "b").await, Effect::Resumed, "the second a was kept");
    let claimed = harness.claim_again(id).await;
    let numbers: Vec<u32> = claimed.signals.iter().map(|one| one.number).collect();
    assert_eq!(numbers, [2, 5]);
    assert_eq!(claimed.execution.detail.record.untaken, 1, "nobody asked for x");
}

pub async fn one_wait_of_several_is_enough_and_a_signal_counts_for_the_first_that_waits_for_it(
    harness: &Harness,
) {
    let waits = vec![
        waiting("both", Condition::All(vec![on("a"), on("b")])),
        waiting("one", on("a")),
        waiting("other", on("c")),
    ];
    let id = harness.suspended_for(waits).await.execution.id;
    assert_eq!(harness.signal(id, "a").await, Effect::Counted, "the first wait has it");
    assert_eq!(harness.signal(id, "a").await, Effect::Resumed, "the second wait has this one");
    let claimed = harness.claim_again(id).await;
    assert_eq!(claimed.signals.iter().map(|one| one.number).collect::<Vec<_>>(), [2]);
    assert_eq!(claimed.execution.detail.record.untaken, 1);
    assert_eq!(claimed.steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["one"]);
    // What the first wait had heard is heard again when it is waited for again.
    let again = vec![waiting("both", Condition::All(vec![on("a"), on("b")]))];
    assert_eq!(harness.suspend(&claimed, again).await.state, StateName::Suspended);
    assert_eq!(harness.signal(id, "b").await, Effect::Resumed);
    assert_eq!(carried(&harness.claim_again(id).await), ["a", "b"]);
}

pub async fn a_suspension_that_can_never_end_well_is_refused_and_changes_nothing(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let before = harness.row(claimed.execution.id).await;
    let deep = (0..5).fold(on("a"), |inner, _| Condition::All(vec![inner]));
    let wide = Condition::Any((0..101).map(|number| on(&number.to_string())).collect());
    let one = |condition| vec![WaitDraft::new(condition)];
    for (waits, pointer) in [
        (vec![], "/waits"),
        (one(deep), "/condition/all/0/all/0/all/0/all/0/all"),
        (one(wide), "/condition"),
        (one(Condition::Any(vec![])), "/condition/any"),
        (one(on("")), "/condition/signal"),
        (one(count(0, &["a"], Distinct::Signals)), "/condition/count/n"),
        (one(count(2, &["a"], Distinct::Signals)), "/condition/count/n"),
        (one(count(1, &[], Distinct::Sources)), "/condition/count/of"),
        (one(count(1, &["a", "b", "a"], Distinct::Waitpoints)), "/condition/count/of/2"),
        (one(Condition::until(When::AfterMs(-1))), "/condition/delay_ms"),
        (vec![at_most(-1, OnTimeout::Fail, on("a"))], "/timeout_ms"),
        (vec![waiting("s", on("a")), waiting("s", on("b"))], "/waits/1/step"),
    ] {
        let refused = harness.report(fence(&claimed), suspend(waits, vec![])).await;
        let refused = refused.expect_err("it is refused");
        assert_eq!((refused.code(), refused.pointer()), ("invalid_field", Some(pointer)), "{refused}");
    }
    assert_eq!(harness.row(claimed.execution.id).await, before);
    let deepest = (0..4).fold(on("a"), |inner, _| Condition::All(vec![inner]));
    assert_eq!(harness.suspend(&claimed, one(deepest)).await.state, StateName::Suspended);
    assert_eq!(harness.signal(claimed.execution.id, "a").await, Effect::Resumed);
}
