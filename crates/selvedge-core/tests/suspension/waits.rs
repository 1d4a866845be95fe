//! What a suspension takes and leaves, what ends it besides its condition, and what the next claim carries of that.

use super::desk::{Desk, name};
use super::words::{at_most, signal, signal_command, step_wait, suspend, wait};
use selvedge_core::fact::{Fact, SuspensionNotice};
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
    let mut desk = Desk::new();
    let id = desk.suspended(vec![step_wait("one", both("b")), step_wait("two", both("c"))]);
    assert_eq!(desk.signal(id, "a").effect, Effect::Counted);
    assert_eq!(desk.signal(id, "c").effect, Effect::Counted, "the first wait has the first one");
    assert_eq!(desk.signal(id, "a").effect, Effect::Resumed);
    assert_eq!(desk.waited(id, "one"), None);
    assert_eq!(desk.waited(id, "two").map(|waited| waited.signals), Some(vec![2, 3]));
    assert_eq!(desk.taken(id), [None, Some(1), Some(1)], "what the first wait has heard is kept for it");
    desk.claim();
    let reported = desk.suspend(id, vec![step_wait("one", both("b"))]);
    assert_eq!(reported.state, StateName::Suspended);
    assert_eq!(desk.signal(id, "b").effect, Effect::Resumed);
    assert_eq!(desk.waited(id, "one").map(|waited| waited.signals), Some(vec![1, 4]));
    assert_eq!(desk.taken(id), [Some(2), Some(1), Some(1), Some(2)]);
}

#[test]
fn signals_that_were_kept_go_to_one_wait_each() {
    let mut desk = Desk::new();
    let id = desk.leased();
    desk.signal(id, "a");
    let reported = desk.suspend(id, vec![step_wait("one", signal("a")), step_wait("two", signal("a"))]);
    assert_eq!(reported.state, StateName::Waiting);
    assert_eq!(desk.waited(id, "one").map(|waited| waited.signals), Some(vec![1]));
    assert_eq!(desk.waited(id, "two"), None);

    let mut desk = Desk::new();
    let id = desk.leased();
    desk.signal_all(id, &["a", "a", "a"]);
    desk.suspend(id, vec![step_wait("one", signal("a")), step_wait("two", signal("a"))]);
    assert_eq!(desk.waited(id, "one").map(|waited| waited.signals), Some(vec![1]));
    assert_eq!(desk.waited(id, "two").map(|waited| waited.signals), Some(vec![2]));
    assert_eq!(desk.taken(id), [Some(1), Some(1), None]);
}

#[test]
fn a_wait_that_holds_leaves_what_comes_after_to_the_others() {
    let mut desk = Desk::new();
    let id = desk.leased();
    desk.signal_all(id, &["a", "b"]);
    let either = Condition::Any(vec![signal("b"), signal("a")]);
    desk.suspend(id, vec![step_wait("either", either), step_wait("other", signal("b"))]);
    assert_eq!(desk.waited(id, "either").map(|waited| waited.signals), Some(vec![1]));
    assert_eq!(desk.waited(id, "other").map(|waited| waited.signals), Some(vec![2]));
}

#[test]
fn one_signal_serves_every_leaf_of_a_wait() {
    let mut desk = Desk::new();
    let names = ["a", "b"].map(name).to_vec();
    let count = Condition::count(1, names, Distinct::Signals);
    let id = desk.suspended(vec![step_wait("wait", Condition::All(vec![signal("a"), signal("a"), count]))]);
    assert_eq!(desk.signal(id, "a").effect, Effect::Resumed);
    assert_eq!(desk.waited(id, "wait").map(|waited| waited.signals), Some(vec![1]));
}

#[test]
fn a_signal_that_no_wait_uses_is_kept_for_the_next_suspension() {
    let mut desk = Desk::new();
    let id = desk.suspended(vec![wait(signal("a"))]);
    assert_eq!(desk.signal(id, "b").effect, Effect::Buffered);
    assert_eq!(desk.signal(id, "a").effect, Effect::Resumed);
    assert_eq!(desk.taken(id), [None, Some(1)]);
    desk.claim();
    assert_eq!(desk.suspend(id, vec![wait(signal("b"))]).state, StateName::Waiting);
    assert_eq!(desk.taken(id), [Some(2), Some(1)]);
    desk.claim();
    assert_eq!(desk.suspend(id, vec![wait(signal("b"))]).state, StateName::Suspended, "it was taken");
}

#[test]
fn a_claim_carries_the_signals_by_which_the_newest_suspension_ended() {
    let mut desk = Desk::new();
    let id = desk.suspended(vec![step_wait("first", Condition::All(vec![signal("a"), signal("b")]))]);
    desk.signal_all(id, &["b", "x", "a"]);
    let claimed = desk.claim();
    let carried: Vec<(u32, &str)> =
        claimed.signals.iter().map(|signal| (signal.number, signal.name.as_str())).collect();
    assert_eq!(carried, [(1, "b"), (3, "a")], "in the order of their delivery");
    assert!(claimed.signals.iter().all(|signal| signal.payload.as_deref() == Some(b"1")));
    let step = &claimed.steps[0];
    let told: serde_json::Value =
        serde_json::from_slice(step.result.as_ref().expect("it is recorded")).expect("is JSON");
    assert_eq!(step.name.as_str(), "first");
    assert_eq!(told["resumed_by"], "condition");
    assert_eq!(told["signals"][1]["name"], "a");
    assert_eq!(told["signals"][1]["payload"], 1);
    desk.suspend(id, vec![wait(signal("x"))]);
    let claimed = desk.claim();
    assert_eq!(claimed.signals.iter().map(|signal| signal.number).collect::<Vec<_>>(), [2]);
    assert_eq!(claimed.steps.len(), 1, "what was recorded before is carried on");
}

#[test]
fn a_timeout_that_resumes_takes_what_its_wait_has_heard_and_says_so_to_the_claim() {
    let mut desk = Desk::new();
    let both = Condition::All(vec![signal("a"), signal("b")]);
    let late = at_most(10, OnTimeout::Resume, step_wait("late", both));
    let id = desk.suspended(vec![step_wait("other", Condition::All(vec![signal("c"), signal("b")])), late]);
    desk.signal_all(id, &["a", "c"]);
    assert!(desk.signals_of(id).all(|signal| signal.effect == Effect::Counted));
    assert_eq!(desk.tick(id, DueKind::SuspensionTimeout), TimerReply::NotDue);
    desk.wait_ms(10);
    assert_eq!(desk.tick(id, DueKind::SuspensionTimeout), TimerReply::Fired);
    assert_eq!(desk.row(id).detail.record.resumed_by, Some(ResumedBy::Timeout));
    let waited = WaitResult { resumed_by: ResumedBy::Timeout, signals: vec![1] };
    assert_eq!(desk.waited(id, "late"), Some(waited));
    assert_eq!(desk.waited(id, "other"), None, "that one waits on, with what it has heard");
    assert_eq!(desk.taken(id), [Some(1), None]);
    let claimed = desk.claim();
    let carried: Vec<(&str, &str)> =
        claimed.signals.iter().map(|signal| (signal.name.as_str(), signal.source.as_str())).collect();
    assert_eq!(carried, [("a", "somebody"), (TIMEOUT, ENGINE)]);
}

#[test]
fn a_wait_that_waited_too_long_ends_the_execution_as_it_was_told_to() {
    let ends = [
        (OnTimeout::Fail, Outcome::Failed),
        (OnTimeout::Cancel, Outcome::Cancelled),
        (OnTimeout::Expire, Outcome::Expired),
    ];
    for (then, outcome) in ends {
        let mut desk = Desk::new();
        let id = desk.suspended(vec![at_most(10, then, step_wait("wait", signal("a")))]);
        desk.wait_ms(10);
        assert_eq!(desk.tick(id, DueKind::SuspensionTimeout), TimerReply::Fired);
        let row = desk.row(id);
        assert_eq!(row.state, State::Terminal(outcome));
        let error = row.detail.error.as_ref().expect("it says why");
        assert_eq!(error.class, FailureClass::Timeout);
        assert_eq!(error.message, "waited 10 ms for signal \"a\" in vain");
        assert_eq!(desk.waited(id, "wait"), None, "the step has not ended");
    }
}

#[test]
fn an_escalated_wait_waits_on_without_end_and_says_so_once() {
    let mut desk = Desk::new();
    let id = desk.suspended(vec![
        at_most(10, OnTimeout::Escalate, wait(signal("a"))),
        at_most(20, OnTimeout::Fail, wait(signal("b"))),
    ]);
    desk.wait_ms(10);
    assert_eq!(desk.tick(id, DueKind::SuspensionTimeout), TimerReply::Fired);
    assert_eq!(desk.tick(id, DueKind::SuspensionTimeout), TimerReply::NotDue, "it is said once");
    let last = desk.events.last().map(|event| event.fact.clone());
    assert_eq!(last, Some(Fact::Noticed { notice: SuspensionNotice::Escalated(0) }));
    assert_eq!(desk.row(id).due().map(|due| due.at), Some(desk.now.plus_ms(10)), "the other is still due");
    desk.wait_ms(10);
    assert_eq!(desk.tick(id, DueKind::SuspensionTimeout), TimerReply::Fired);
    assert_eq!(desk.row(id).state, State::Terminal(Outcome::Failed));
}

#[test]
fn what_times_out_first_is_dealt_with_first() {
    let mut desk = Desk::new();
    let id = desk.suspended(vec![
        at_most(20, OnTimeout::Fail, wait(signal("a"))),
        at_most(10, OnTimeout::Resume, step_wait("first", signal("b"))),
    ]);
    desk.wait_ms(1_000);
    assert_eq!(desk.tick(id, DueKind::SuspensionTimeout), TimerReply::Fired);
    assert_eq!(desk.row(id).state, State::Waiting);
    assert_eq!(desk.waited(id, "first").map(|waited| waited.resumed_by), Some(ResumedBy::Timeout));
    assert_eq!(desk.tick(id, DueKind::SuspensionTimeout), TimerReply::NotDue);
}

#[test]
fn times_are_marked_one_by_one() {
    let until = |ms| Condition::until(When::AfterMs(ms));
    let mut desk = Desk::new();
    let id = desk.suspended(vec![wait(Condition::All(vec![until(10), until(20)]))]);
    desk.wait_ms(10);
    assert_eq!(desk.tick(id, DueKind::Delay), TimerReply::Fired);
    assert_eq!(desk.row(id).state.name(), StateName::Suspended);
    assert_eq!(desk.tick(id, DueKind::Delay), TimerReply::NotDue);
    desk.wait_ms(10);
    assert_eq!(desk.tick(id, DueKind::Delay), TimerReply::Fired);
    assert_eq!(desk.row(id).state, State::Waiting);
}

#[test]
fn an_operator_is_heard_by_what_waits_for_one() {
    let mut desk = Desk::new();
    let both = Condition::All(vec![Condition::operator(), signal("a")]);
    let id = desk.suspended(vec![step_wait("both", both), step_wait("other", signal("b"))]);
    desk.operate(id, Action::Resume).expect("it is accepted");
    assert_eq!(desk.row(id).state.name(), StateName::Suspended, "the signal is still to come");
    assert_eq!(desk.signal(id, "a").effect, Effect::Resumed);
    let waited = WaitResult { resumed_by: ResumedBy::Condition, signals: vec![1] };
    assert_eq!(desk.waited(id, "both"), Some(waited));
    assert_eq!(desk.waited(id, "other"), None);
}

#[test]
fn an_operator_ends_every_wait_where_none_waits_for_one() {
    let mut desk = Desk::new();
    let both = |other: &str| Condition::All(vec![signal(other), signal("never")]);
    let id = desk.suspended(vec![step_wait("one", both("a")), step_wait("two", both("b"))]);
    desk.signal_all(id, &["b", "x"]);
    desk.operate(id, Action::Resume).expect("it is accepted");
    assert_eq!(desk.row(id).state, State::Waiting);
    assert_eq!(desk.row(id).detail.record.resumed_by, Some(ResumedBy::Operator));
    let by_operator = |signals| Some(WaitResult { resumed_by: ResumedBy::Operator, signals });
    assert_eq!(desk.waited(id, "one"), by_operator(vec![]));
    assert_eq!(desk.waited(id, "two"), by_operator(vec![1]));
    assert_eq!(desk.taken(id), [Some(1), None]);
    let refused = desk.operate(id, Action::Resume);
    assert!(matches!(refused, Err(Refusal::WrongState { .. })), "{refused:?}");
}

#[test]
fn a_suspension_that_is_reported_again_gets_the_same_answer_and_changes_nothing() {
    let mut desk = Desk::new();
    for (early, expected) in [(false, StateName::Suspended), (true, StateName::Waiting)] {
        let id = desk.leased();
        if early {
            desk.signal(id, "a");
        }
        let op = || {
            super::words::suspend_with(
                vec![wait(signal("a"))],
                vec![super::words::waitpoint_draft("approval", None)],
            )
        };
        let report = desk.report_command(id, op());
        let first = desk.run(&report).expect("it is accepted");
        assert_eq!(first.state, expected);
        let row = desk.row(id).clone();
        assert_eq!(desk.run(&report).as_ref(), Ok(&first));
        let other = selvedge_core::rules::report::Report { op: suspend(vec![wait(signal("b"))]), ..report };
        assert!(matches!(desk.run(&other), Err(Refusal::StaleLease(_))));
        assert_eq!(desk.row(id), &row);
        if early {
            desk.claim();
        }
    }
}

#[test]
fn a_suspension_where_a_cancel_was_asked_for_is_the_end() {
    let mut desk = Desk::new();
    let id = desk.leased();
    desk.signal(id, "a");
    desk.operate(id, Action::Cancel { reason: None, grace_ms: 1_000 }).expect("it is accepted");
    assert_eq!(desk.suspend(id, vec![wait(signal("a"))]).state, StateName::Cancelled);
    assert_eq!(desk.taken(id), [None], "it took nothing");
    assert_eq!(desk.row(id).detail.record.resumed_by, None);
}

#[test]
fn a_key_of_the_sender_makes_a_repeat_of_the_same_signal() {
    let mut desk = Desk::new();
    let id = desk.suspended(vec![wait(Condition::All(vec![signal("a"), signal("b")]))]);
    let keyed =
        |text| selvedge_core::rules::signal::Deliver { key: Some(name("key")), ..signal_command(id, text) };
    let first = desk.run(&keyed("a")).expect("it is accepted");
    assert_eq!((first.effect, first.duplicate, first.number), (Effect::Counted, false, 1));
    desk.signal(id, "b");
    let again = desk.run(&keyed("a")).expect("it is accepted");
    assert_eq!((again.effect, again.duplicate, again.number), (Effect::Counted, true, 1), "the first answer");
    let other = desk.run(&keyed("b"));
    assert!(
        matches!(&other, Err(Refusal::IdempotencyMismatch { pointer, .. }) if pointer == "/idempotency_key")
    );
    assert_eq!(desk.taken(id), [Some(1), Some(1)]);
    desk.claim();
    desk.report(id, selvedge_core::rules::report::Op::Complete { result: "1".into() })
        .expect("it is completed");
    let ended = desk.run(&keyed("a")).expect("what was delivered stays delivered");
    assert!(ended.duplicate);
}
