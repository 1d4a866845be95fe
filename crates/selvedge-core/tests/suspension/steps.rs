//! Steps are recorded once, in order and within their limits; a wait that has a name is one of them.

use super::desk::{Desk, name};
use super::words::{
    at_most, done, signal, signal_command, step_wait, suspend, token_command, waitpoint_draft,
};
use bytes::Bytes;
use selvedge_core::execution::RecordSummary;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::signal::{SignalDraft, SignalSender};
use selvedge_core::rules::step::StepDraft;
use selvedge_core::signal::{SIGNAL_LIMIT, SIGNALS_MAX};
use selvedge_core::state::StateName;
use selvedge_core::step::{RECORD_LIMIT, STEPS_MAX, StepKind};
use selvedge_core::submission::When;
use selvedge_core::suspension::{Condition, OnTimeout, WaitDraft};
use selvedge_core::waitpoint::WAITPOINTS_MAX;
use selvedge_core::{Changes, ExecutionId, Refusal, Timestamp};

#[test]
fn a_step_that_is_recorded_again_changes_nothing() {
    let mut desk = Desk::new();
    let id = desk.leased();
    desk.report(id, done("pay", "1")).expect("it is recorded");
    let before = (desk.row(id).clone(), desk.steps.clone());
    desk.wait_ms(5);
    desk.report(id, done("pay", "1")).expect("it was recorded");
    assert_eq!((desk.row(id).clone(), desk.steps.clone()), before);
    desk.report(id, Op::Release).expect("it is released");
    desk.claim();
    desk.report(id, done("pay", "1")).expect("it was recorded by an attempt before");
    assert_eq!(desk.steps, before.1);
}

#[test]
fn another_result_under_the_name_of_a_step_is_refused_and_names_it() {
    let mut desk = Desk::new();
    let id = desk.leased();
    desk.report(id, done("pay", "1")).expect("it is recorded");
    let other_kind = Op::Step(StepDraft {
        name: name("pay"),
        kind: StepKind::Spawn,
        result: Bytes::from_static(b"1"),
        duration_ms: 0,
    });
    let as_a_wait = || step_wait("pay", signal("a"));
    let refused = [
        (done("pay", "2"), "/name"),
        (other_kind, "/name"),
        (suspend(vec![as_a_wait()]), "/step"),
        (suspend(vec![step_wait("other", signal("a")), as_a_wait()]), "/waits/1/step"),
    ];
    for (op, at) in refused {
        let before = (desk.row(id).clone(), desk.steps.clone());
        let refused = desk.report(id, op).expect_err("it is refused");
        let Refusal::IdempotencyMismatch { pointer, detail } = &refused else { panic!("{refused:?}") };
        assert!(pointer == at && detail.contains("\"pay\""), "{refused:?}");
        assert_eq!((desk.row(id).clone(), desk.steps.clone()), before);
    }
}

#[test]
fn a_wait_that_was_recorded_is_not_waited_for_again() {
    let mut desk = Desk::new();
    let id = desk.suspended(vec![step_wait("wait", signal("a"))]);
    desk.signal(id, "a");
    desk.claim();
    for op in [suspend(vec![step_wait("wait", signal("b"))]), done("wait", "1")] {
        let refused = desk.report(id, op).expect_err("it is refused");
        assert!(matches!(&refused, Refusal::IdempotencyMismatch { .. }), "{refused:?}");
    }
}

#[test]
fn a_step_that_is_waited_for_cannot_be_recorded_by_hand() {
    let mut desk = Desk::new();
    let id = desk.suspended(vec![step_wait("wait", signal("a"))]);
    desk.operate(id, Action::Cancel { reason: None, grace_ms: 0 }).expect("it is cancelled");
    desk.operate(id, Action::Replay).expect("it is replayed");
    desk.claim();
    let by_hand = Op::Step(StepDraft {
        name: name("wait"),
        kind: StepKind::Wait,
        result: Bytes::from_static(b"1"),
        duration_ms: 0,
    });
    let refused = desk.report(id, by_hand).expect_err("it is refused");
    assert!(matches!(&refused, Refusal::IdempotencyMismatch { .. }), "{refused:?}");
}

/// Changes what the row says of its record, without the rows that go with it: nothing may be saved after that.
fn with_record(desk: &Desk, id: ExecutionId, change: impl FnOnce(&mut RecordSummary)) -> Desk {
    let mut desk = desk.clone();
    change(&mut desk.executions.get_mut(&id).expect("it is there").detail.record);
    desk
}

/// What a report gives, and what it would save.
fn decided(desk: &Desk, id: ExecutionId, op: Op) -> (Result<(), Refusal>, Changes) {
    let report = desk.report_command(id, op);
    let (reply, changes) = desk.decide(&report);
    (reply.map(drop), changes)
}

#[test]
fn an_execution_has_so_many_steps_signals_waitpoints_and_bytes_and_no_more() {
    let mut desk = Desk::new();
    let id = desk.leased();
    let waitpoint = desk.waitpoint(id, waitpoint_draft("open", None));
    let limit = |what: &str, limit: u64| Refusal::LimitReached { execution: id, what: what.into(), limit };
    let make = |text| {
        let (draft, fingerprint) = (waitpoint_draft(text, None), super::words::secret().fingerprint());
        Op::Waitpoint { draft, fingerprint }
    };
    type Full = (fn(&mut RecordSummary, u32), u64, &'static str);
    let counted: [(Full, Vec<Op>); 2] = [
        (
            (|record, less| record.steps = STEPS_MAX - less, STEPS_MAX.into(), "steps"),
            vec![done("step", "1"), suspend(vec![step_wait("wait", signal("a"))])],
        ),
        (
            (|record, less| record.waitpoints = WAITPOINTS_MAX - less, WAITPOINTS_MAX.into(), "waitpoints"),
            vec![
                make("new"),
                super::words::suspend_with(
                    vec![step_wait("wait", signal("a"))],
                    vec![waitpoint_draft("new", None)],
                ),
            ],
        ),
    ];
    for ((set, most, what), ops) in counted {
        for op in ops {
            let room = with_record(&desk, id, |record| set(record, 1));
            assert_eq!(decided(&room, id, op.clone()).0, Ok(()), "there is room for one");
            let full = with_record(&desk, id, |record| set(record, 0));
            let (refused, changes) = decided(&full, id, op);
            assert_eq!(refused, Err(limit(what, most)));
            assert!(changes.is_empty(), "{changes:?}");
        }
    }
    let two = suspend(vec![step_wait("one", signal("a")), step_wait("two", signal("b"))]);
    let room = with_record(&desk, id, |record| record.steps = STEPS_MAX - 1);
    assert_eq!(decided(&room, id, two).0, Err(limit("steps", STEPS_MAX.into())), "one, and not two");

    for deliver in [signal_command(id, "a"), token_command(&waitpoint, None)] {
        let room = with_record(&desk, id, |record| record.signals = SIGNALS_MAX - 1);
        assert!(room.decide(&deliver).0.is_ok(), "there is room for one");
        let full = with_record(&desk, id, |record| record.signals = SIGNALS_MAX);
        let (refused, changes) = full.decide(&deliver);
        assert_eq!(refused, Err(limit("signals", SIGNALS_MAX.into())));
        assert!(changes.is_empty());

        let bytes = "bytes of steps and signals";
        let room = with_record(&desk, id, |record| record.bytes = RECORD_LIMIT - 1);
        assert!(room.decide(&deliver).0.is_ok(), "there is room for one byte");
        let full = with_record(&desk, id, |record| record.bytes = RECORD_LIMIT);
        assert_eq!(full.decide(&deliver).0, Err(limit(bytes, RECORD_LIMIT)));
        assert_eq!(decided(&full, id, done("step", "1")).0, Err(limit(bytes, RECORD_LIMIT)));
        assert_eq!(decided(&full, id, suspend(vec![step_wait("wait", signal("a"))])).0, Ok(()));
    }
}

#[test]
fn the_payload_of_a_signal_is_json_and_not_too_large() {
    let way = || SignalSender::Caller { namespace: super::desk::NAMESPACE, source: name("somebody") };
    let id = Desk::new().leased();
    let check = |payload: String| {
        SignalDraft { name: Some("a".into()), payload: payload.into(), key: None }.check(id, way()).map(drop)
    };
    let of_bytes = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    assert_eq!(check(of_bytes(SIGNAL_LIMIT)), Ok(()));
    let (limit, actual) = (SIGNAL_LIMIT as u64, SIGNAL_LIMIT as u64 + 1);
    let refused = Refusal::PayloadTooLarge { pointer: "/payload".into(), limit, actual };
    assert_eq!(check(of_bytes(SIGNAL_LIMIT + 1)), Err(refused));
    assert!(check("{".into()).is_err_and(|refused| refused.pointer() == Some("/payload")));
    let unnamed = SignalDraft { name: None, payload: "1".into(), key: None }.check(id, way());
    assert!(unnamed.is_err_and(|refused| refused.pointer() == Some("/name")));
}

/// A sleep, and a wait for a signal with a timeout, each a step.
fn timed() -> Vec<WaitDraft> {
    let until = Condition::until(When::AfterMs(100));
    let sleep = WaitDraft { step: Some((name("sleep"), StepKind::Sleep)), ..WaitDraft::new(until) };
    vec![sleep, at_most(200, OnTimeout::Fail, step_wait("wait", signal("a"))), step_wait("go", signal("go"))]
}

/// When the sleep ends, and when the wait has waited for too long.
fn ends(desk: &Desk, id: ExecutionId) -> (Option<Timestamp>, Option<Timestamp>) {
    let suspension = desk.row(id).state.suspension().expect("it is suspended");
    (suspension.next_time(), suspension.times_out_at())
}

#[test]
fn what_a_step_waits_for_counts_from_its_first_suspension_and_after_a_replay_anew() {
    let mut desk = Desk::new();
    let id = desk.suspended(timed());
    let since = desk.now;
    assert_eq!(ends(&desk, id), (Some(since.plus_ms(100)), Some(since.plus_ms(200))));
    desk.wait_ms(50);
    desk.signal(id, "go");
    desk.claim();
    let mut again = timed();
    again.truncate(2);
    desk.suspend(id, again.clone());
    assert_eq!(ends(&desk, id), (Some(since.plus_ms(100)), Some(since.plus_ms(200))), "they go on");
    assert_eq!(desk.step(id, "wait").started_at, since);
    assert_eq!(desk.step(id, "wait").attempt, 0, "the attempt that began to wait for it");

    desk.operate(id, Action::Cancel { reason: None, grace_ms: 0 }).expect("it is cancelled");
    desk.wait_ms(50);
    desk.operate(id, Action::Replay).expect("it is replayed");
    desk.wait_ms(50);
    desk.claim();
    desk.suspend(id, again);
    let since = desk.now;
    assert_eq!(ends(&desk, id), (Some(since.plus_ms(100)), Some(since.plus_ms(200))), "they begin anew");
    let step = desk.step(id, "wait");
    assert_eq!((step.started_at, step.attempt, step.number), (since, 2, 2));
    assert_eq!(desk.row(id).detail.record.steps, 3);
}

#[test]
fn steps_are_numbered_without_gaps_where_old_waits_are_begun_anew_beside_others() {
    let mut desk = Desk::new();
    let id = desk.suspended(vec![step_wait("old", signal("a")), step_wait("older", signal("b"))]);
    desk.operate(id, Action::Cancel { reason: None, grace_ms: 0 }).expect("it is cancelled");
    desk.wait_ms(1);
    desk.operate(id, Action::Replay).expect("it is replayed");
    desk.claim();
    let waits = ["old", "new", "older", "newer"].map(|step| step_wait(step, signal("c"))).to_vec();
    assert_eq!(desk.suspend(id, waits).state, StateName::Suspended);
    desk.signal(id, "c");
    desk.claim();
    desk.report(id, done("last", "1")).expect("it is recorded");
    let steps: Vec<(u32, &str)> = desk.steps_of(id).map(|step| (step.number, step.name.as_str())).collect();
    assert_eq!(steps, [(1, "old"), (2, "older"), (3, "new"), (4, "newer"), (5, "last")]);
}

#[test]
fn what_was_recorded_stays_recorded_after_a_replay() {
    let mut desk = Desk::new();
    let id = desk.leased();
    desk.report(id, done("pay", "1")).expect("it is recorded");
    desk.signal(id, "a");
    desk.suspend(id, vec![step_wait("wait", signal("a"))]);
    desk.claim();
    desk.report(id, Op::Complete { result: Bytes::from_static(b"1") }).expect("it is completed");
    desk.operate(id, Action::Replay).expect("it is replayed");
    let claimed = desk.claim();
    let carried: Vec<&str> = claimed.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(carried, ["pay", "wait"]);
    assert!(claimed.signals.is_empty(), "the suspension that took them was of the generation before");
}
