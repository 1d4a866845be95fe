//! The signals that a suspension takes and leaves, the ways it ends, and the signals and steps that the next claim
//! carries.

use super::helpers::{at_most, signal, signal_command, step_wait, suspend, wait};
use super::test_store::{TestStore, name};
use selvedge_core::fact::{self, Fact, SuspensionNotice};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::timer::TimerReply;
use selvedge_core::signal::{ENGINE, Effect, TIMEOUT};
use selvedge_core::state::StateName;
use selvedge_core::step::WaitResult;
use selvedge_core::submission::When;
use selvedge_core::suspension::{Condition, Distinct, OnTimeout, ResumedBy};
use selvedge_core::{DueKind, FailureClass, Outcome, Refusal, State};

#[test]
fn two_waits_for_the_same_name_need_two_signals() {
    let both = |other: &str| Condition::All(vec![signal("a"), signal(other)]);
    let mut store = TestStore::new();
    let id = store.suspended(vec![step_wait("one", both("b")), step_wait("two", both("c"))]);
    assert_eq!(store.signal(id, "a").effect, Effect::Counted);
    assert_eq!(store.signal(id, "c").effect, Effect::Counted, "the first wait has the first signal");
    assert_eq!(store.signal(id, "a").effect, Effect::Resumed);
    assert_eq!(store.wait_result(id, "one"), None);
    assert_eq!(store.wait_result(id, "two").map(|waited| waited.signals), Some(vec![2, 3]));
    assert_eq!(
        store.taken(id),
        [None, Some(1), Some(1)],
        "the signal that the first wait received is kept for it"
    );
    store.claim();
    let reported = store.suspend(id, vec![step_wait("one", both("b"))]);
    assert_eq!(reported.state, StateName::Suspended);
    assert_eq!(store.signal(id, "b").effect, Effect::Resumed);
    assert_eq!(store.wait_result(id, "one").map(|waited| waited.signals), Some(vec![1, 4]));
    assert_eq!(store.taken(id), [Some(2), Some(1), Some(1), Some(2)]);
}

#[test]
fn each_buffered_signal_goes_to_one_wait() {
    let mut store = TestStore::new();
    let id = store.active();
    store.signal(id, "a");
    let reported = store.suspend(id, vec![step_wait("one", signal("a")), step_wait("two", signal("a"))]);
    assert_eq!(reported.state, StateName::Waiting);
    assert_eq!(store.wait_result(id, "one").map(|waited| waited.signals), Some(vec![1]));
    assert_eq!(store.wait_result(id, "two"), None);

    let mut store = TestStore::new();
    let id = store.active();
    store.signal_all(id, &["a", "a", "a"]);
    store.suspend(id, vec![step_wait("one", signal("a")), step_wait("two", signal("a"))]);
    assert_eq!(store.wait_result(id, "one").map(|waited| waited.signals), Some(vec![1]));
    assert_eq!(store.wait_result(id, "two").map(|waited| waited.signals), Some(vec![2]));
    assert_eq!(store.taken(id), [Some(1), Some(1), None]);
}

#[test]
fn a_wait_that_holds_leaves_later_signals_to_the_others() {
    let mut store = TestStore::new();
    let id = store.active();
    store.signal_all(id, &["a", "b"]);
    let either = Condition::Any(vec![signal("b"), signal("a")]);
    store.suspend(id, vec![step_wait("either", either), step_wait("other", signal("b"))]);
    assert_eq!(store.wait_result(id, "either").map(|waited| waited.signals), Some(vec![1]));
    assert_eq!(store.wait_result(id, "other").map(|waited| waited.signals), Some(vec![2]));
}

#[test]
fn one_signal_serves_every_leaf_of_a_wait() {
    let mut store = TestStore::new();
    let names = ["a", "b"].map(name).to_vec();
    let count = Condition::count(1, names, Distinct::Signals);
    let id = store.suspended(vec![step_wait("wait", Condition::All(vec![signal("a"), signal("a"), count]))]);
    assert_eq!(store.signal(id, "a").effect, Effect::Resumed);
    assert_eq!(store.wait_result(id, "wait").map(|waited| waited.signals), Some(vec![1]));
}

#[test]
fn a_signal_that_no_wait_uses_is_kept_for_the_next_suspension() {
    let mut store = TestStore::new();
    let id = store.suspended(vec![wait(signal("a"))]);
    assert_eq!(store.signal(id, "b").effect, Effect::Buffered);
    assert_eq!(store.signal(id, "a").effect, Effect::Resumed);
    assert_eq!(store.taken(id), [None, Some(1)]);
    store.claim();
    assert_eq!(store.suspend(id, vec![wait(signal("b"))]).state, StateName::Waiting);
    assert_eq!(store.taken(id), [Some(2), Some(1)]);
    store.claim();
    assert_eq!(store.suspend(id, vec![wait(signal("b"))]).state, StateName::Suspended, "it was taken");
}

#[test]
fn a_claim_carries_the_signals_that_ended_the_latest_suspension() {
    let mut store = TestStore::new();
    let id = store.suspended(vec![step_wait("first", Condition::All(vec![signal("a"), signal("b")]))]);
    store.signal_all(id, &["b", "x", "a"]);
    let claimed = store.claim();
    let carried: Vec<(u32, &str)> =
        claimed.signals.iter().map(|signal| (signal.number, signal.name.as_str())).collect();
    assert_eq!(carried, [(1, "b"), (3, "a")], "in the order of their delivery");
    assert!(claimed.signals.iter().all(|signal| signal.payload.as_deref() == Some(b"1")));
    let step = &claimed.steps[0];
    let result: serde_json::Value =
        serde_json::from_slice(step.result.as_ref().expect("it is recorded")).expect("is JSON");
    assert_eq!(step.name.as_str(), "first");
    assert_eq!(result["resumed_by"], "condition");
    assert_eq!(result["signals"][1]["name"], "a");
    assert_eq!(result["signals"][1]["payload"], 1);
    store.suspend(id, vec![wait(signal("x"))]);
    let claimed = store.claim();
    assert_eq!(claimed.signals.iter().map(|signal| signal.number).collect::<Vec<_>>(), [2]);
    assert_eq!(claimed.steps.len(), 1, "earlier steps are carried too");
}

#[test]
fn a_timeout_that_resumes_takes_the_received_signals_and_adds_a_timeout_signal() {
    let mut store = TestStore::new();
    let both = Condition::All(vec![signal("a"), signal("b")]);
    let late = at_most(10, OnTimeout::Resume, step_wait("late", both));
    let id = store.suspended(vec![step_wait("other", Condition::All(vec![signal("c"), signal("b")])), late]);
    store.signal_all(id, &["a", "c"]);
    assert!(store.signals_of(id).all(|signal| signal.effect == Effect::Counted));
    assert_eq!(store.fire(id, DueKind::SuspensionTimeout), TimerReply::NotDue);
    store.advance_ms(10);
    assert_eq!(store.fire(id, DueKind::SuspensionTimeout), TimerReply::Fired);
    assert_eq!(store.row(id).detail.record.resumed_by, Some(ResumedBy::Timeout));
    let waited = WaitResult { resumed_by: ResumedBy::Timeout, signals: vec![1] };
    assert_eq!(store.wait_result(id, "late"), Some(waited));
    assert_eq!(store.wait_result(id, "other"), None, "the other wait stays open and keeps its signals");
    assert_eq!(store.taken(id), [Some(1), None]);
    let claimed = store.claim();
    let carried: Vec<(&str, &str)> =
        claimed.signals.iter().map(|signal| (signal.name.as_str(), signal.source.as_str())).collect();
    assert_eq!(carried, [("a", "somebody"), (TIMEOUT, ENGINE)]);
}

#[test]
fn a_wait_that_times_out_ends_the_execution_by_its_action() {
    let ends = [
        (OnTimeout::Fail, Outcome::Failed),
        (OnTimeout::Cancel, Outcome::Cancelled),
        (OnTimeout::Expire, Outcome::Expired),
    ];
    for (then, outcome) in ends {
        let mut store = TestStore::new();
        let id = store.suspended(vec![at_most(10, then, step_wait("wait", signal("a")))]);
        store.advance_ms(10);
        assert_eq!(store.fire(id, DueKind::SuspensionTimeout), TimerReply::Fired);
        let row = store.row(id);
        assert_eq!(row.state, State::Terminal(outcome));
        let error = row.detail.error.as_ref().expect("there is an error");
        assert_eq!(error.class, FailureClass::Timeout);
        assert_eq!(error.message, "timed out after waiting 10 ms for signal \"a\"");
        assert_eq!(store.wait_result(id, "wait"), None, "the step stays open");
    }
}

#[test]
fn an_escalated_wait_continues_without_a_timeout_and_is_recorded_once() {
    let mut store = TestStore::new();
    let id = store.suspended(vec![
        at_most(10, OnTimeout::Escalate, wait(signal("a"))),
        at_most(20, OnTimeout::Fail, wait(signal("b"))),
    ]);
    store.advance_ms(10);
    assert_eq!(store.fire(id, DueKind::SuspensionTimeout), TimerReply::Fired);
    assert_eq!(store.fire(id, DueKind::SuspensionTimeout), TimerReply::NotDue, "it is recorded once");
    let last = store.events.last().map(|event| event.fact.clone());
    assert_eq!(last, Some(Fact::Noticed(fact::Noticed { notice: SuspensionNotice::Escalated(0) })));
    assert_eq!(store.row(id).due().map(|due| due.at), Some(store.now.plus_ms(10)), "the other is still due");
    store.advance_ms(10);
    assert_eq!(store.fire(id, DueKind::SuspensionTimeout), TimerReply::Fired);
    assert_eq!(store.row(id).state, State::Terminal(Outcome::Failed));
}

#[test]
fn the_wait_that_times_out_first_is_handled_first() {
    let mut store = TestStore::new();
    let id = store.suspended(vec![
        at_most(20, OnTimeout::Fail, wait(signal("a"))),
        at_most(10, OnTimeout::Resume, step_wait("first", signal("b"))),
    ]);
    store.advance_ms(1_000);
    assert_eq!(store.fire(id, DueKind::SuspensionTimeout), TimerReply::Fired);
    assert_eq!(store.row(id).state, State::Waiting);
    assert_eq!(store.wait_result(id, "first").map(|waited| waited.resumed_by), Some(ResumedBy::Timeout));
    assert_eq!(store.fire(id, DueKind::SuspensionTimeout), TimerReply::NotDue);
}

#[test]
fn times_are_marked_one_by_one() {
    let until = |ms| Condition::until(When::AfterMs(ms));
    let mut store = TestStore::new();
    let id = store.suspended(vec![wait(Condition::All(vec![until(10), until(20)]))]);
    store.advance_ms(10);
    assert_eq!(store.fire(id, DueKind::Delay), TimerReply::Fired);
    assert_eq!(store.row(id).state.name(), StateName::Suspended);
    assert_eq!(store.fire(id, DueKind::Delay), TimerReply::NotDue);
    store.advance_ms(10);
    assert_eq!(store.fire(id, DueKind::Delay), TimerReply::Fired);
    assert_eq!(store.row(id).state, State::Waiting);
}

#[test]
fn an_operator_fulfils_the_conditions_that_wait_for_one() {
    let mut store = TestStore::new();
    let both = Condition::All(vec![Condition::operator(), signal("a")]);
    let id = store.suspended(vec![step_wait("both", both), step_wait("other", signal("b"))]);
    store.operate(id, Action::Resume).expect("it is accepted");
    assert_eq!(store.row(id).state.name(), StateName::Suspended, "the signal is missing");
    assert_eq!(store.signal(id, "a").effect, Effect::Resumed);
    let waited = WaitResult { resumed_by: ResumedBy::Condition, signals: vec![1] };
    assert_eq!(store.wait_result(id, "both"), Some(waited));
    assert_eq!(store.wait_result(id, "other"), None);
}

#[test]
fn an_operator_ends_all_waits_if_none_waits_for_an_operator() {
    let mut store = TestStore::new();
    let both = |other: &str| Condition::All(vec![signal(other), signal("never")]);
    let id = store.suspended(vec![step_wait("one", both("a")), step_wait("two", both("b"))]);
    store.signal_all(id, &["b", "x"]);
    store.operate(id, Action::Resume).expect("it is accepted");
    assert_eq!(store.row(id).state, State::Waiting);
    assert_eq!(store.row(id).detail.record.resumed_by, Some(ResumedBy::Operator));
    let by_operator = |signals| Some(WaitResult { resumed_by: ResumedBy::Operator, signals });
    assert_eq!(store.wait_result(id, "one"), by_operator(vec![]));
    assert_eq!(store.wait_result(id, "two"), by_operator(vec![1]));
    assert_eq!(store.taken(id), [Some(1), None]);
    let refused = store.operate(id, Action::Resume);
    assert!(matches!(refused, Err(Refusal::WrongState { .. })), "{refused:?}");
}

#[test]
fn a_repeated_suspension_gets_the_same_reply_and_changes_nothing() {
    let mut store = TestStore::new();
    for (early, expected) in [(false, StateName::Suspended), (true, StateName::Waiting)] {
        let id = store.active();
        if early {
            store.signal(id, "a");
        }
        let op = || {
            super::helpers::suspend_with(
                vec![wait(signal("a"))],
                vec![super::helpers::waitpoint_draft("approval", None)],
            )
        };
        let report = store.report_command(id, op());
        let first = store.run(&report).expect("it is accepted");
        assert_eq!(first.state, expected);
        let row = store.row(id).clone();
        assert_eq!(store.run(&report).as_ref(), Ok(&first));
        let other = selvedge_core::rules::report::Report { op: suspend(vec![wait(signal("b"))]), ..report };
        assert!(matches!(store.run(&other), Err(Refusal::StaleLease(_))));
        assert_eq!(store.row(id), &row);
        if early {
            store.claim();
        }
    }
}

#[test]
fn suspending_after_a_cancel_request_cancels_the_execution() {
    let mut store = TestStore::new();
    let id = store.active();
    store.signal(id, "a");
    store.operate(id, Action::Cancel { reason: None, grace_ms: 1_000 }).expect("it is accepted");
    assert_eq!(store.suspend(id, vec![wait(signal("a"))]).state, StateName::Cancelled);
    assert_eq!(store.taken(id), [None], "no signal is taken");
    assert_eq!(store.row(id).detail.record.resumed_by, None);
}

#[test]
fn a_signal_with_the_same_key_is_delivered_once() {
    let mut store = TestStore::new();
    let id = store.suspended(vec![wait(Condition::All(vec![signal("a"), signal("b")]))]);
    let keyed =
        |text| selvedge_core::rules::signal::Deliver { key: Some(name("key")), ..signal_command(id, text) };
    let first = store.run(&keyed("a")).expect("it is accepted");
    assert_eq!((first.effect, first.duplicate, first.number), (Effect::Counted, false, 1));
    store.signal(id, "b");
    let again = store.run(&keyed("a")).expect("it is accepted");
    assert_eq!((again.effect, again.duplicate, again.number), (Effect::Counted, true, 1), "the first reply");
    let other = store.run(&keyed("b"));
    assert!(
        matches!(&other, Err(Refusal::IdempotencyMismatch { pointer, .. }) if pointer == "/idempotency_key")
    );
    assert_eq!(store.taken(id), [Some(1), Some(1)]);
    store.claim();
    store
        .report(id, selvedge_core::rules::report::Op::Complete { result: "1".into() })
        .expect("it is completed");
    let ended = store.run(&keyed("a")).expect("the first delivery is still known");
    assert!(ended.duplicate);
}
