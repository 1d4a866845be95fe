//! Signals: stored with every field until a wait takes them, deduplicated by key, bounded, and deleted with their
//! execution.

use crate::harness::runner::{RuleList, RulePair, StoreRunner, WithCachedRow, run_with};
use crate::harness::signals::{name, on_signal, payload_of, signal, signal_names, suspend, with_timeout};
use crate::harness::{Harness, fence, new_id};
use crate::harness::{by_hand, concurrently};
use bytes::Bytes;
use selvedge_core::execution::RecordSummary;
use selvedge_core::rows::{Queries, UnreadWrites};
use selvedge_core::rows::{ResultChange, Updated};
use selvedge_core::rule::{LeaseEffect, Touch};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::signal::{Delivered, SignalDraft, SignalSender};
use selvedge_core::signal::{Effect, SIGNAL_LIMIT, SIGNALS_MAX};
use selvedge_core::state::StateName;
use selvedge_core::step::RECORD_LIMIT;
use selvedge_core::suspension::{Condition, OnTimeout, WaitDraft};
use selvedge_core::table::{Guarded, Request};
use selvedge_core::{
    Changes, Draft, DueKind, Execution, ExecutionId, Name, Needs, Policy, Refusal, Signal, WaitpointId,
};
use std::collections::BTreeSet;
use uuid::Uuid;

/// Returns signals that together have every field in every form.
fn every_form(execution: ExecutionId, now: selvedge_core::Timestamp) -> Vec<Signal> {
    let largest = format!("\"{}\"", "\u{1f9f5}".repeat((SIGNAL_LIMIT - 2) / 4));
    let payloads: [&[u8]; 6] = [b"", b"null", b" {\"a\" :  1}\n", b"\"\\u0000\"", largest.as_bytes(), b"0"];
    let form = |(index, payload): (usize, &&[u8])| {
        let number = index as u32 + 1;
        Signal {
            execution,
            number,
            name: name(["go", "sïgnal \"quoted\"", "\u{1f4a5}"][index % 3]),
            source: name(["caller", "ünknown"][index % 2]),
            waitpoint: (index % 2 == 1).then(|| (WaitpointId(Uuid::new_v4()), name("wäitpoint"))),
            key: (index % 3 == 1).then(|| name(&format!("kéy {index}"))),
            digest: [0, u64::MAX, 1 << 63][index % 3],
            at: now.plus_ms(index as i64),
            effect: Effect::ALL[index % 3],
            taken: (index % 3 == 2).then_some(number),
            payload: Some(Bytes::copy_from_slice(payload)),
        }
    };
    payloads.iter().enumerate().map(form).collect()
}

fn without_payload(signals: &[Signal]) -> Vec<Signal> {
    signals.iter().map(|signal| Signal { payload: None, ..signal.clone() }).collect()
}

/// Inserts an execution with six signals and returns both.
async fn with_signals(harness: &Harness) -> (ExecutionId, Vec<Signal>) {
    let id = by_hand::recorded(harness, RecordSummary { signals: 6, untaken: 4, ..RecordSummary::default() })
        .await
        .id;
    let signals = every_form(id, harness.now().await);
    let signals_added = signals.clone();
    let priority = raise_version(harness, id).await;
    harness
        .save(Changes {
            signals: signals_added,
            executions: Guarded::updating([priority]),
            ..Changes::default()
        })
        .await;
    (id, signals)
}

/// Returns the update that raises the version of a row: signals, steps and waitpoints never change without one.
pub(super) async fn raise_version(harness: &Harness, id: ExecutionId) -> Updated {
    let row = harness.row(id).await;
    let (expected_version, result) = (row.version, ResultChange::Keep);
    let execution = Execution { version: row.version + 1, ..row };
    Updated { execution, expected_version, result, rewired: false, input: None }
}

pub async fn signals_are_read_back_with_every_field_in_order_and_in_pages(harness: &Harness) {
    let (id, signals) = with_signals(harness).await;
    let (other, others) = with_signals(harness).await;
    assert_eq!(harness.signals(id).await, signals);
    assert_eq!(harness.signals(other).await, others);
    let page = async |after, limit| harness.store.signals(id, after, limit).await.expect("signals are read");
    assert_eq!(page(0, 2).await, signals[..2]);
    assert_eq!(page(2, 3).await, signals[2..5]);
    assert_eq!(page(5, 9).await, signals[5..]);
    for after in [6, 1_000_000, u32::MAX] {
        assert!(page(after, 9).await.is_empty(), "there is nothing after {after}");
    }
    assert!(harness.signals(new_id()).await.is_empty());
}

pub async fn only_requested_signals_are_loaded(harness: &Harness) {
    let (id, signals) = with_signals(harness).await;
    let (other, others) = with_signals(harness).await;
    let bare = by_hand::recorded(harness, RecordSummary::default()).await.id;
    let rows = harness
        .load(Needs {
            queries: Queries { records: vec![id, bare], ..Queries::default() },
            ..Needs::default()
        })
        .await;
    assert_eq!(rows.signals, signals, "all of them, with their payloads");
    let recorded: BTreeSet<ExecutionId> = rows.found.records.into_iter().collect();
    assert_eq!(recorded, BTreeSet::from([id, bare]), "also executions without signals");
    assert!(rows.steps.is_empty());
    let rows = harness
        .load(Needs {
            queries: Queries { untaken: vec![id, bare], ..Queries::default() },
            ..Needs::default()
        })
        .await;
    let kept: Vec<Signal> = signals.iter().filter(|signal| signal.taken.is_none()).cloned().collect();
    assert_eq!(kept.len(), 4);
    assert_eq!(rows.signals, without_payload(&kept));
    assert!(rows.found.records.is_empty(), "these are not all signals");
    let keyed = |of: ExecutionId, key: &str| (of, name(key));
    let keys = vec![
        keyed(id, "kéy 1"),
        keyed(id, "kéy 2"),
        keyed(id, "nobody's"),
        keyed(bare, "kéy 1"),
        keyed(other, "kéy 4"),
    ];
    let rows = harness
        .load(Needs { queries: Queries { signal_keys: keys, ..Queries::default() }, ..Needs::default() })
        .await;
    let mut found = rows.signals;
    found.sort_by_key(|signal| signal.number);
    assert_eq!(found, without_payload(&[signals[1].clone(), others[4].clone()]));
    let rows = harness.load(Needs { executions: Request::locking([id]), ..Needs::default() }).await;
    assert!(rows.signals.is_empty() && rows.found.records.is_empty());
}

pub async fn a_signal_may_be_taken_in_the_transaction_that_adds_it(harness: &Harness) {
    let (id, signals) = with_signals(harness).await;
    let new = Signal { number: 7, key: Some(name("new")), taken: None, ..signals[0].clone() };
    let changes = Changes {
        signals: vec![new.clone()],
        unread: UnreadWrites {
            signals_taken: vec![(id, 1, 9), (id, 2, 9), (id, 7, 9)],
            ..UnreadWrites::default()
        },
        executions: Guarded::updating([raise_version(harness, id).await]),
        ..Changes::default()
    };
    harness.save(changes).await;
    let mut expected = signals;
    expected.push(new);
    for number in [0, 1, 6] {
        expected[number].taken = Some(9);
    }
    assert_eq!(harness.signals(id).await, expected);
    let rows = harness
        .load(Needs { queries: Queries { untaken: vec![id], ..Queries::default() }, ..Needs::default() })
        .await;
    assert_eq!(rows.signals.iter().map(|signal| signal.number).collect::<Vec<_>>(), [4, 5]);
}

pub async fn a_change_whose_guard_fails_saves_no_signal_step_or_waitpoint(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let stale = claimed.execution.clone();
    let id = stale.id;
    harness.signal(id, "first").await;
    // The cached row is older than the first signal: the decision is begun again and takes the next number.
    let deliver = harness.signal_command(id, signal("second"), "caller");
    let caching = || StoreRunner::on(harness.store.clone()).caching(stale.clone());
    let touch =
        Touch { execution: id, fence: Some(fence(&claimed)), lease: LeaseEffect::Ends, may_finish: false };
    let (delivered, transaction) =
        run_with(&caching(), WithCachedRow { rule: deliver, touch }).await.expect("it is saved");
    assert_eq!((delivered.expect("it is delivered").number, transaction.tries), (2, 2));
    // The same for a suspension: a signal that arrived meanwhile is matched.
    let report =
        harness.report_command(fence(&claimed), suspend(vec![WaitDraft::new(on_signal("first"))], vec![]));
    let (reported, transaction) = run_with(&caching(), report).await.expect("it is saved");
    assert_eq!((reported.expect("it is accepted").state, transaction.tries), (StateName::Waiting, 2));
    let names: Vec<Name> = harness.signals(id).await.into_iter().map(|signal| signal.name).collect();
    assert_eq!(names, [name("first"), name("second")]);
}

pub async fn concurrent_signals_are_all_kept_and_the_last_required_one_resumes(harness: &Harness) {
    const TASKS: usize = 16;
    let names: Vec<String> = (0..TASKS).map(|task| format!("task {task}")).collect();
    let all = Condition::All(names.iter().map(|name| on_signal(name)).collect());
    let id = harness.suspended(all).await.execution.id;
    let effects = concurrently(TASKS, |task| {
        let (harness, name) = (harness.clone(), names[task].clone());
        async move { harness.signal(id, &name).await }
    });
    let effects = effects.await;
    assert_eq!(effects.iter().filter(|effect| **effect == Effect::Resumed).count(), 1, "it resumed once");
    assert_eq!(effects.iter().filter(|effect| **effect == Effect::Counted).count(), TASKS - 1);
    let claimed = harness.claim_again(id).await;
    let arrived: BTreeSet<&str> = signal_names(&claimed).into_iter().collect();
    assert_eq!(arrived, names.iter().map(String::as_str).collect());
    let numbers: Vec<u32> = harness.signals(id).await.iter().map(|signal| signal.number).collect();
    assert_eq!(numbers, (1..=TASKS as u32).collect::<Vec<_>>());
}

/// Returns a signal with a key.
fn keyed(sent: &str, key: &str) -> SignalDraft {
    SignalDraft { key: Some(key.into()), ..signal(sent) }
}

fn repeat_of(first: &Delivered) -> Result<Delivered, Refusal> {
    Ok(Delivered { duplicate: true, ..first.clone() })
}

pub async fn a_repeated_keyed_signal_gets_the_first_reply(harness: &Harness) {
    let id = harness.suspended(on_signal("go")).await.execution.id;
    let send = async |draft: SignalDraft| harness.try_signal(id, draft).await;
    let buffered = send(keyed("early", "one")).await.expect("it is delivered");
    assert_eq!((buffered.number, buffered.effect, buffered.duplicate), (1, Effect::Buffered, false));
    let resumed = send(keyed("go", "two")).await.expect("it is delivered");
    assert_eq!((resumed.number, resumed.effect), (2, Effect::Resumed));
    let before = harness.row(id).await;
    let assert_repeats = async || {
        assert_eq!(send(keyed("early", "one")).await, repeat_of(&buffered), "with its first effect");
        assert_eq!(send(keyed("go", "two")).await, repeat_of(&resumed));
        let other = SignalDraft { payload: "2".into(), ..keyed("go", "two") };
        for draft in [keyed("go", "one"), other] {
            let refused = send(draft).await.expect_err("the content differs");
            assert_eq!(
                (refused.code(), refused.pointer()),
                ("idempotency_mismatch", Some("/idempotency_key"))
            );
        }
        let by_another = harness.run(harness.signal_command(id, keyed("go", "two"), "another")).await;
        assert_eq!(by_another.expect_err("the source differs").code(), "idempotency_mismatch");
        assert_eq!(harness.signals(id).await.len(), 2);
    };
    assert_repeats().await;
    assert_eq!(harness.row(id).await, before, "a repeat changes nothing");
    let claimed = harness.claim_again(id).await;
    assert_repeats().await;
    harness.complete(&claimed, b"1").await;
    assert_repeats().await;
    let late = send(keyed("go", "three")).await.expect_err("it has ended");
    assert_eq!(late.code(), "already_terminal");
    let other = harness.leased(Draft::new("kind")).await.execution.id;
    let same_key = harness.try_signal(other, keyed("early", "one")).await.expect("it is delivered");
    assert!(!same_key.duplicate, "a key belongs to one execution");
}

pub async fn concurrent_signals_with_one_key_are_one_signal(harness: &Harness) {
    let id = harness.suspended(on_signal("go")).await.execution.id;
    let sent = concurrently(8, |_| {
        let harness = harness.clone();
        async move { harness.try_signal(id, keyed("go", "once")).await.expect("it is delivered") }
    });
    let sent = sent.await;
    assert_eq!(sent.iter().filter(|one| !one.duplicate).count(), 1);
    assert!(sent.iter().all(|one| (one.number, one.effect) == (1, Effect::Resumed)));
    assert_eq!(harness.signals(id).await.len(), 1);
    let claimed = harness.claim_again(id).await;
    harness.complete(&claimed, b"1").await;
    let id = harness.suspended(Condition::All(vec![on_signal("go"), on_signal("on")])).await.execution.id;
    let both = (0..2).map(|_| harness.signal_command(id, keyed("go", "once"), "caller")).collect::<Vec<_>>();
    let duplicates = harness.run(RuleList(both)).await;
    let duplicates: Vec<bool> =
        duplicates.into_iter().map(|one| one.expect("it is delivered").duplicate).collect();
    assert_eq!(duplicates, [false, true], "also in one transaction");
}

pub async fn a_signal_is_accepted_only_by_a_live_execution_of_the_callers_namespace(harness: &Harness) {
    let id = harness.submit(Draft::new("kind")).await.id;
    assert_eq!(harness.signal(id, "before it runs").await, Effect::Buffered);
    let other = harness.in_namespace("elsewhere").await;
    let not_found = async |harness: &Harness, id: ExecutionId| {
        let refused = harness.try_signal(id, signal("go")).await.expect_err("it does not exist");
        assert_eq!(refused.code(), "not_found");
    };
    not_found(&other, id).await;
    not_found(harness, new_id()).await;
    let claimed = harness.claim_again(id).await;
    assert!(claimed.signals.is_empty(), "no wait took it");
    let delay = Op::Delay { until: selvedge_core::submission::When::AfterMs(3_600_000) };
    harness.report(fence(&claimed), delay).await.expect("it is delayed");
    assert_eq!(harness.signal(id, "while it is delayed").await, Effect::Buffered);
    harness.operate(id, Action::Cancel { reason: None, grace_ms: 0 }).await.expect("it is cancelled");
    let before = harness.row(id).await;
    let refused = harness.try_signal(id, signal("late")).await.expect_err("it has ended");
    assert_eq!(refused.code(), "already_terminal");
    assert_eq!(harness.row(id).await, before);
    // Signals from before the end are available to the next generation.
    harness.operate(id, Action::Replay).await.expect("it is replayed");
    let claimed = harness.claim_again(id).await;
    let both = Condition::All(vec![on_signal("before it runs"), on_signal("while it is delayed")]);
    assert_eq!(harness.suspend(&claimed, vec![WaitDraft::new(both)]).await.state, StateName::Waiting);
    let flow = harness.flow("a -> b").await;
    assert_eq!(harness.signal(flow.id("b").await, "before its turn").await, Effect::Buffered);
}

pub async fn a_signal_beyond_the_limits_is_refused(harness: &Harness) {
    let id = harness.submit(Draft::new("kind")).await.id;
    let way = || SignalSender::Caller { namespace: harness.namespace, source: name("caller") };
    let long = Bytes::from(format!("\"{}\"", "x".repeat(SIGNAL_LIMIT - 1)));
    let refused =
        SignalDraft { payload: long, ..signal("go") }.check(id, way()).expect_err("it is too large");
    assert_eq!((refused.code(), refused.pointer()), ("payload_too_large", Some("/payload")));
    let refused =
        SignalDraft { payload: "{".into(), ..signal("go") }.check(id, way()).expect_err("it is not JSON");
    assert_eq!(refused.pointer(), Some("/payload"));
    let refused = SignalDraft { name: None, ..signal("go") }.check(id, way()).expect_err("it has no name");
    assert_eq!((refused.code(), refused.pointer()), ("invalid_field", Some("/name")));
    let largest = Bytes::from(format!("\"{}\"", "x".repeat(SIGNAL_LIMIT - 2)));
    let draft = SignalDraft { payload: largest.clone(), ..signal("go") };
    harness.try_signal(id, draft).await.expect("the largest payload is accepted");
    assert_eq!(harness.signals(id).await[0].payload, Some(largest));
}

pub async fn signals_beyond_the_limit_of_an_execution_are_refused(harness: &Harness) {
    let limits = [
        RecordSummary { signals: SIGNALS_MAX - 1, ..RecordSummary::default() },
        RecordSummary {
            signals: 1,
            bytes: RECORD_LIMIT - payload_of("go").len() as u64,
            ..RecordSummary::default()
        },
    ];
    for record in limits {
        let id = by_hand::recorded(harness, record).await.id;
        let last = harness.try_signal(id, keyed("go", "last")).await.expect("there is room for one more");
        let before = harness.row(id).await;
        for draft in [signal("go"), keyed("go", "more")] {
            let refused = harness.try_signal(id, draft).await.expect_err("there is no more room");
            assert_eq!(refused.code(), "limit_reached");
        }
        assert_eq!(harness.row(id).await, before);
        let again = harness.try_signal(id, keyed("go", "last")).await;
        assert_eq!(again, repeat_of(&last), "a repeat is still accepted");
    }
}

pub async fn signals_steps_and_waitpoints_are_deleted_with_their_execution_only(harness: &Harness) {
    let mut ids = Vec::new();
    for _ in 0..2 {
        let policy = Policy { retention_ms: 0, ..Policy::default() };
        let claimed = harness.leased(Draft { policy, ..Draft::new("kind") }).await;
        let id = claimed.execution.id;
        harness.step(&claimed, "done", "1").await;
        let created = harness
            .waitpoint(&claimed, selvedge_core::rules::waitpoint::WaitpointDraft::new(name("w")))
            .await;
        harness.signal(id, "kept").await;
        harness.suspend(&claimed, vec![with_timeout(0, OnTimeout::Cancel, on_signal("never"))]).await;
        harness.due(id, DueKind::SuspensionTimeout).await;
        ids.push((id, created.id));
    }
    let [(deleted, deleted_waitpoint), (kept, kept_waitpoint)] = ids[..] else { panic!("there are two") };
    harness.due(deleted, DueKind::Retention).await;
    let remaining = async |id: ExecutionId, point: WaitpointId| {
        let found = harness.store.waitpoint(point).await.expect("waitpoints are read").is_some();
        let recorded = (
            harness.signals(id).await.len(),
            harness.steps(id).await.len(),
            harness.waitpoints(id).await.len(),
        );
        let needs = Needs {
            steps: Request::reading([(id, name("done"))]),
            queries: Queries { records: vec![id], waitpoints: vec![id], ..Queries::default() },
            ..Needs::default()
        };
        let rows = harness.load(needs).await;
        assert_eq!(recorded.0, rows.signals.len());
        assert_eq!(recorded.2, rows.waitpoints.len());
        (recorded, found)
    };
    assert_eq!(remaining(deleted, deleted_waitpoint).await, ((0, 0, 0), false));
    assert_eq!(remaining(kept, kept_waitpoint).await, ((1, 1, 1), true));
    let again = harness.submit(Draft { id: Some(deleted.0), ..Draft::new("kind") }).await;
    assert_eq!(again.detail.record, RecordSummary::default());
    assert_eq!(harness.signal(deleted, "first").await, Effect::Buffered);
    let numbers: Vec<u32> = harness.signals(deleted).await.iter().map(|signal| signal.number).collect();
    assert_eq!(numbers, [1], "a new execution with the same id starts at 1");
}

pub async fn an_execution_deleted_and_submitted_again_in_one_transaction_keeps_no_signals_steps_or_waitpoints(
    harness: &Harness,
) {
    use selvedge_core::rules::timer::{FireTimer, Timer};
    let policy = Policy { retention_ms: 0, ..Policy::default() };
    let draft = Draft { policy, ..Draft::new("kind") };
    let claimed = harness.leased(draft.clone()).await;
    let id = claimed.execution.id;
    harness.signal(id, "before").await;
    let report = |op: Op| harness.report_command(fence(&claimed), op);
    let steps =
        vec![report(crate::harness::signals::step("done", "1")), report(Op::Complete { result: "1".into() })];
    let delete = FireTimer { execution: id, timer: Timer::Due(DueKind::Retention) };
    let submit_again = harness.submit_command(vec![Draft { id: Some(id.0), ..draft }]).await;
    let (reported, (deleted, submitted)) =
        harness.run(RulePair(RuleList(steps), RulePair(delete, submit_again))).await;
    assert!(reported.iter().all(Result::is_ok) && deleted.is_ok() && submitted.iter().all(Result::is_ok));
    let row = harness.row(id).await;
    assert_eq!((row.version, row.detail.record), (1, RecordSummary::default()));
    assert!(harness.steps(id).await.is_empty() && harness.signals(id).await.is_empty());
    let claimed = harness.claim_again(id).await;
    assert!(claimed.steps.is_empty() && claimed.signals.is_empty());
}
