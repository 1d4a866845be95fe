//! Steps are recorded once, in order and within their limits. A wait with a step is one of them.

use super::helpers::{
    at_most, done, signal, signal_command, step_wait, suspend, token_command, waitpoint_draft,
};
use super::test_store::{TestStore, name};
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
fn recording_a_step_again_changes_nothing() {
    let mut store = TestStore::new();
    let id = store.active();
    store.report(id, done("pay", "1")).expect("it is recorded");
    let before = (store.row(id).clone(), store.steps.clone());
    store.advance_ms(5);
    store.report(id, done("pay", "1")).expect("it was recorded");
    assert_eq!((store.row(id).clone(), store.steps.clone()), before);
    store.report(id, Op::Release).expect("it is released");
    store.claim();
    store.report(id, done("pay", "1")).expect("an earlier attempt recorded it");
    assert_eq!(store.steps, before.1);
}

#[test]
fn another_result_under_the_name_of_a_step_is_refused_with_the_name() {
    let mut store = TestStore::new();
    let id = store.active();
    store.report(id, done("pay", "1")).expect("it is recorded");
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
        let before = (store.row(id).clone(), store.steps.clone());
        let refused = store.report(id, op).expect_err("it is refused");
        let Refusal::IdempotencyMismatch { pointer, detail } = &refused else { panic!("{refused:?}") };
        assert!(pointer == at && detail.contains("\"pay\""), "{refused:?}");
        assert_eq!((store.row(id).clone(), store.steps.clone()), before);
    }
}

#[test]
fn a_recorded_wait_cannot_be_waited_for_again() {
    let mut store = TestStore::new();
    let id = store.suspended(vec![step_wait("wait", signal("a"))]);
    store.signal(id, "a");
    store.claim();
    for op in [suspend(vec![step_wait("wait", signal("b"))]), done("wait", "1")] {
        let refused = store.report(id, op).expect_err("it is refused");
        assert!(matches!(&refused, Refusal::IdempotencyMismatch { .. }), "{refused:?}");
    }
}

#[test]
fn an_open_wait_cannot_be_recorded_by_the_worker() {
    let mut store = TestStore::new();
    let id = store.suspended(vec![step_wait("wait", signal("a"))]);
    store.operate(id, Action::Cancel { reason: None, grace_ms: 0 }).expect("it is cancelled");
    store.operate(id, Action::Replay).expect("it is replayed");
    store.claim();
    let by_hand = Op::Step(StepDraft {
        name: name("wait"),
        kind: StepKind::Wait,
        result: Bytes::from_static(b"1"),
        duration_ms: 0,
    });
    let refused = store.report(id, by_hand).expect_err("it is refused");
    assert!(matches!(&refused, Refusal::IdempotencyMismatch { .. }), "{refused:?}");
}

/// Changes the record summary of a row without the records themselves. Nothing may be saved afterwards.
fn with_record(store: &TestStore, id: ExecutionId, change: impl FnOnce(&mut RecordSummary)) -> TestStore {
    let mut store = store.clone();
    change(&mut store.executions.get_mut(&id).expect("it exists").detail.record);
    store
}

/// Returns the reply to a report, and the changes that it would save.
fn decided(store: &TestStore, id: ExecutionId, op: Op) -> (Result<(), Refusal>, Changes) {
    let report = store.report_command(id, op);
    let (reply, changes) = store.decide(&report);
    (reply.map(drop), changes)
}

#[test]
fn steps_signals_waitpoints_and_bytes_of_an_execution_are_limited() {
    let mut store = TestStore::new();
    let id = store.active();
    let waitpoint = store.waitpoint(id, waitpoint_draft("open", None));
    let limit = |what: &str, limit: u64| Refusal::LimitReached { execution: id, what: what.into(), limit };
    let create = |text| {
        let (draft, fingerprint) = (waitpoint_draft(text, None), super::helpers::secret().fingerprint());
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
                create("new"),
                super::helpers::suspend_with(
                    vec![step_wait("wait", signal("a"))],
                    vec![waitpoint_draft("new", None)],
                ),
            ],
        ),
    ];
    for ((set, most, what), ops) in counted {
        for op in ops {
            let room = with_record(&store, id, |record| set(record, 1));
            assert_eq!(decided(&room, id, op.clone()).0, Ok(()), "there is room for one");
            let full = with_record(&store, id, |record| set(record, 0));
            let (refused, changes) = decided(&full, id, op);
            assert_eq!(refused, Err(limit(what, most)));
            assert!(changes.is_empty(), "{changes:?}");
        }
    }
    let two = suspend(vec![step_wait("one", signal("a")), step_wait("two", signal("b"))]);
    let room = with_record(&store, id, |record| record.steps = STEPS_MAX - 1);
    assert_eq!(decided(&room, id, two).0, Err(limit("steps", STEPS_MAX.into())), "one, and not two");

    for deliver in [signal_command(id, "a"), token_command(&waitpoint, None)] {
        let room = with_record(&store, id, |record| record.signals = SIGNALS_MAX - 1);
        assert!(room.decide(&deliver).0.is_ok(), "there is room for one");
        let full = with_record(&store, id, |record| record.signals = SIGNALS_MAX);
        let (refused, changes) = full.decide(&deliver);
        assert_eq!(refused, Err(limit("signals", SIGNALS_MAX.into())));
        assert!(changes.is_empty());

        let bytes = "bytes of steps and signals";
        let room = with_record(&store, id, |record| record.bytes = RECORD_LIMIT - 1);
        assert!(room.decide(&deliver).0.is_ok(), "there is room for one byte");
        let full = with_record(&store, id, |record| record.bytes = RECORD_LIMIT);
        assert_eq!(full.decide(&deliver).0, Err(limit(bytes, RECORD_LIMIT)));
        assert_eq!(decided(&full, id, done("step", "1")).0, Err(limit(bytes, RECORD_LIMIT)));
        assert_eq!(decided(&full, id, suspend(vec![step_wait("wait", signal("a"))])).0, Ok(()));
    }
}

#[test]
fn the_payload_of_a_signal_must_be_json_within_the_limit() {
    let sender =
        || SignalSender::Caller { namespace: super::test_store::NAMESPACE, source: name("somebody") };
    let id = TestStore::new().active();
    let check = |payload: String| {
        SignalDraft { name: Some("a".into()), payload: payload.into(), key: None }
            .check(id, sender())
            .map(drop)
    };
    let of_bytes = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    assert_eq!(check(of_bytes(SIGNAL_LIMIT)), Ok(()));
    let (limit, actual) = (SIGNAL_LIMIT as u64, SIGNAL_LIMIT as u64 + 1);
    let refused = Refusal::PayloadTooLarge { pointer: "/payload".into(), limit, actual };
    assert_eq!(check(of_bytes(SIGNAL_LIMIT + 1)), Err(refused));
    assert!(check("{".into()).is_err_and(|refused| refused.pointer() == Some("/payload")));
    let unnamed = SignalDraft { name: None, payload: "1".into(), key: None }.check(id, sender());
    assert!(unnamed.is_err_and(|refused| refused.pointer() == Some("/name")));
}

/// Returns a sleep, a wait for a signal with a timeout, and a wait for another signal, each with a step.
fn timed() -> Vec<WaitDraft> {
    let until = Condition::until(When::AfterMs(100));
    let sleep = WaitDraft { step: Some((name("sleep"), StepKind::Sleep)), ..WaitDraft::new(until) };
    vec![sleep, at_most(200, OnTimeout::Fail, step_wait("wait", signal("a"))), step_wait("go", signal("go"))]
}

/// Returns the end of the sleep and the timeout of the wait.
fn ends(store: &TestStore, id: ExecutionId) -> (Option<Timestamp>, Option<Timestamp>) {
    let suspension = store.row(id).state.suspension().expect("it is suspended");
    (suspension.next_time(), suspension.times_out_at())
}

#[test]
fn durations_of_a_wait_count_from_its_first_suspension_and_start_anew_after_a_replay() {
    let mut store = TestStore::new();
    let id = store.suspended(timed());
    let since = store.now;
    assert_eq!(ends(&store, id), (Some(since.plus_ms(100)), Some(since.plus_ms(200))));
    store.advance_ms(50);
    store.signal(id, "go");
    store.claim();
    let mut again = timed();
    again.truncate(2);
    store.suspend(id, again.clone());
    assert_eq!(ends(&store, id), (Some(since.plus_ms(100)), Some(since.plus_ms(200))), "they continue");
    assert_eq!(store.step(id, "wait").started_at, since);
    assert_eq!(store.step(id, "wait").attempt, 0, "the attempt that began to wait for it");

    store.operate(id, Action::Cancel { reason: None, grace_ms: 0 }).expect("it is cancelled");
    store.advance_ms(50);
    store.operate(id, Action::Replay).expect("it is replayed");
    store.advance_ms(50);
    store.claim();
    store.suspend(id, again);
    let since = store.now;
    assert_eq!(ends(&store, id), (Some(since.plus_ms(100)), Some(since.plus_ms(200))), "they start anew");
    let step = store.step(id, "wait");
    assert_eq!((step.started_at, step.attempt, step.number), (since, 2, 2));
    assert_eq!(store.row(id).detail.record.steps, 3);
}

#[test]
fn steps_are_numbered_without_gaps_when_old_waits_start_anew_beside_new_ones() {
    let mut store = TestStore::new();
    let id = store.suspended(vec![step_wait("old", signal("a")), step_wait("older", signal("b"))]);
    store.operate(id, Action::Cancel { reason: None, grace_ms: 0 }).expect("it is cancelled");
    store.advance_ms(1);
    store.operate(id, Action::Replay).expect("it is replayed");
    store.claim();
    let waits = ["old", "new", "older", "newer"].map(|step| step_wait(step, signal("c"))).to_vec();
    assert_eq!(store.suspend(id, waits).state, StateName::Suspended);
    store.signal(id, "c");
    store.claim();
    store.report(id, done("last", "1")).expect("it is recorded");
    let steps: Vec<(u32, &str)> = store.steps_of(id).map(|step| (step.number, step.name.as_str())).collect();
    assert_eq!(steps, [(1, "old"), (2, "older"), (3, "new"), (4, "newer"), (5, "last")]);
}

#[test]
fn recorded_steps_survive_a_replay() {
    let mut store = TestStore::new();
    let id = store.active();
    store.report(id, done("pay", "1")).expect("it is recorded");
    store.signal(id, "a");
    store.suspend(id, vec![step_wait("wait", signal("a"))]);
    store.claim();
    store.report(id, Op::Complete { result: Bytes::from_static(b"1") }).expect("it is completed");
    store.operate(id, Action::Replay).expect("it is replayed");
    let claimed = store.claim();
    let carried: Vec<&str> = claimed.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(carried, ["pay", "wait"]);
    assert!(claimed.signals.is_empty(), "an earlier generation took them");
}
