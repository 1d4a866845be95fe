//! Signals: kept with every field until a wait takes them, told apart by the keys of their senders, bounded, and gone with
//! their execution.
#![allow(missing_docs)]

use super::bench::{Bench, fence, mint};
use super::rule::{Both, Direct, Each, Trusting, run_by};
use super::signal_bench::{at_most, carried, name, on, said, signal, suspend};
use super::{by_hand, side_by_side};
use bytes::Bytes;
use selvedge_core::execution::Record;
use selvedge_core::rows::{ResultChange, Updated};
use selvedge_core::rule::{LeaseEffect, Touch};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::signal::{Delivered, SignalDraft, Way};
use selvedge_core::signal::{Effect, SIGNAL_LIMIT, SIGNALS_MAX};
use selvedge_core::state::StateName;
use selvedge_core::step::RECORD_LIMIT;
use selvedge_core::suspension::{Condition, OnTimeout, WaitDraft};
use selvedge_core::{
    Changes, Draft, DueKind, Execution, ExecutionId, Name, Needs, Policy, Refusal, Signal, WaitpointId,
};
use std::collections::BTreeSet;
use uuid::Uuid;

/// Signals that between them have every field in every form.
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

/// Rows of which so many signals are recorded, and changes that add these.
async fn with_signals(bench: &Bench) -> (ExecutionId, Vec<Signal>) {
    let id = by_hand::recorded(bench, Record { signals: 6, untaken: 4, ..Record::default() }).await.id;
    let signals = every_form(id, bench.now().await);
    let signals_added = signals.clone();
    let priority = raised(bench, id).await;
    bench.save(Changes { signals_added, updated: vec![priority], ..Changes::default() }).await;
    (id, signals)
}

/// The row with a higher version: what is recorded never changes without one.
pub(super) async fn raised(bench: &Bench, id: ExecutionId) -> Updated {
    let row = bench.row(id).await;
    let (expected_version, result) = (row.version, ResultChange::Keep);
    let execution = Execution { version: row.version + 1, ..row };
    Updated { execution, expected_version, result, rewired: false }
}

pub async fn signals_are_read_back_with_every_field_in_order_and_page_by_page(bench: &Bench) {
    let (id, signals) = with_signals(bench).await;
    let (other, others) = with_signals(bench).await;
    assert_eq!(bench.signals(id).await, signals);
    assert_eq!(bench.signals(other).await, others);
    let page = async |after, limit| bench.store.signals(id, after, limit).await.expect("signals are read");
    assert_eq!(page(0, 2).await, signals[..2]);
    assert_eq!(page(2, 3).await, signals[2..5]);
    assert_eq!(page(5, 9).await, signals[5..]);
    for after in [6, 1_000_000, u32::MAX] {
        assert!(page(after, 9).await.is_empty(), "there is nothing after {after}");
    }
    assert!(bench.signals(mint()).await.is_empty());
}

pub async fn what_is_asked_for_of_signals_is_loaded_and_nothing_else(bench: &Bench) {
    let (id, signals) = with_signals(bench).await;
    let (other, others) = with_signals(bench).await;
    let bare = by_hand::recorded(bench, Record::default()).await.id;
    let rows = bench.load(Needs { records: vec![id, bare], ..Needs::default() }).await;
    assert_eq!(rows.signals, signals, "all of them, with their payloads");
    let recorded: BTreeSet<ExecutionId> = rows.recorded.into_iter().collect();
    assert_eq!(recorded, BTreeSet::from([id, bare]), "also where there are none");
    assert!(rows.steps.is_empty());
    let rows = bench.load(Needs { untaken: vec![id, bare], ..Needs::default() }).await;
    let kept: Vec<Signal> = signals.iter().filter(|signal| signal.taken.is_none()).cloned().collect();
    assert_eq!(kept.len(), 4);
    assert_eq!(rows.signals, without_payload(&kept));
    assert!(rows.recorded.is_empty(), "these are not all of them");
    let keyed = |of: ExecutionId, key: &str| (of, name(key));
    let keys = vec![
        keyed(id, "kéy 1"),
        keyed(id, "kéy 2"),
        keyed(id, "nobody's"),
        keyed(bare, "kéy 1"),
        keyed(other, "kéy 4"),
    ];
    let rows = bench.load(Needs { signal_keys: keys, ..Needs::default() }).await;
    let mut found = rows.signals;
    found.sort_by_key(|signal| signal.number);
    assert_eq!(found, without_payload(&[signals[1].clone(), others[4].clone()]));
    let rows = bench.load(Needs { executions: vec![id], ..Needs::default() }).await;
    assert!(rows.signals.is_empty() && rows.recorded.is_empty());
}

pub async fn signals_are_taken_also_by_the_transaction_that_adds_them(bench: &Bench) {
    let (id, signals) = with_signals(bench).await;
    let new = Signal { number: 7, key: Some(name("new")), taken: None, ..signals[0].clone() };
    let changes = Changes {
        signals_added: vec![new.clone()],
        signals_taken: vec![(id, 1, 9), (id, 2, 9), (id, 7, 9)],
        updated: vec![raised(bench, id).await],
        ..Changes::default()
    };
    bench.save(changes).await;
    let mut expected = signals;
    expected.push(new);
    for number in [0, 1, 6] {
        expected[number].taken = Some(9);
    }
    assert_eq!(bench.signals(id).await, expected);
    let rows = bench.load(Needs { untaken: vec![id], ..Needs::default() }).await;
    assert_eq!(rows.signals.iter().map(|signal| signal.number).collect::<Vec<_>>(), [4, 5]);
}

pub async fn a_change_whose_guard_fails_records_nothing(bench: &Bench) {
    let claimed = bench.leased(Draft::new("kind")).await;
    let stale = claimed.execution.clone();
    let id = stale.id;
    bench.signal(id, "first").await;
    // The decision believes a row that another signal has raised since: it is begun again, and takes the next number.
    let deliver = bench.signal_command(id, signal("second"), "caller");
    let caching = || Direct::on(bench.store.clone()).caching(stale.clone());
    let touch =
        Touch { execution: id, fence: Some(fence(&claimed)), lease: LeaseEffect::Ends, may_finish: false };
    let (delivered, transaction) =
        run_by(&caching(), Trusting { rule: deliver, touch }).await.expect("it is saved");
    assert_eq!((delivered.expect("it is delivered").number, transaction.tries), (2, 2));
    // The same of a suspension: what came meanwhile is heard.
    let asked = bench.report_command(fence(&claimed), suspend(vec![WaitDraft::new(on("first"))], vec![]));
    let (reported, transaction) = run_by(&caching(), asked).await.expect("it is saved");
    assert_eq!((reported.expect("it is accepted").state, transaction.tries), (StateName::Ready, 2));
    let names: Vec<Name> = bench.signals(id).await.into_iter().map(|signal| signal.name).collect();
    assert_eq!(names, [name("first"), name("second")]);
}

pub async fn signals_delivered_at_once_are_all_kept_and_the_last_that_is_needed_lets_it_go_on(bench: &Bench) {
    const SIDES: usize = 16;
    let names: Vec<String> = (0..SIDES).map(|side| format!("side {side}")).collect();
    let all = Condition::All(names.iter().map(|name| on(name)).collect());
    let id = bench.suspended(all).await.execution.id;
    let effects = side_by_side(SIDES, |side| {
        let (bench, name) = (bench.clone(), names[side].clone());
        async move { bench.signal(id, &name).await }
    });
    let effects = effects.await;
    assert_eq!(effects.iter().filter(|effect| **effect == Effect::Resumed).count(), 1, "it went on once");
    assert_eq!(effects.iter().filter(|effect| **effect == Effect::Counted).count(), SIDES - 1);
    let claimed = bench.claim_again(id).await;
    let came: BTreeSet<&str> = carried(&claimed).into_iter().collect();
    assert_eq!(came, names.iter().map(String::as_str).collect());
    let numbers: Vec<u32> = bench.signals(id).await.iter().map(|signal| signal.number).collect();
    assert_eq!(numbers, (1..=SIDES as u32).collect::<Vec<_>>());
}

/// A signal with a key.
fn keyed(sent: &str, key: &str) -> SignalDraft {
    SignalDraft { key: Some(key.into()), ..signal(sent) }
}

fn repeat_of(first: &Delivered) -> Result<Delivered, Refusal> {
    Ok(Delivered { duplicate: true, ..first.clone() })
}

pub async fn the_same_signal_with_the_same_key_is_the_first_one(bench: &Bench) {
    let id = bench.suspended(on("go")).await.execution.id;
    let send = async |draft: SignalDraft| bench.try_signal(id, draft).await;
    let buffered = send(keyed("early", "one")).await.expect("it is delivered");
    assert_eq!((buffered.number, buffered.effect, buffered.duplicate), (1, Effect::Buffered, false));
    let resumed = send(keyed("go", "two")).await.expect("it is delivered");
    assert_eq!((resumed.number, resumed.effect), (2, Effect::Resumed));
    let before = bench.row(id).await;
    let all_the_same = async || {
        assert_eq!(send(keyed("early", "one")).await, repeat_of(&buffered), "with its first effect");
        assert_eq!(send(keyed("go", "two")).await, repeat_of(&resumed));
        let other = SignalDraft { payload: "2".into(), ..keyed("go", "two") };
        for draft in [keyed("go", "one"), other] {
            let refused = send(draft).await.expect_err("the content is another");
            assert_eq!(
                (refused.code(), refused.pointer()),
                ("idempotency_mismatch", Some("/idempotency_key"))
            );
        }
        let by_another = bench.run(bench.signal_command(id, keyed("go", "two"), "another")).await;
        assert_eq!(by_another.expect_err("the source is another").code(), "idempotency_mismatch");
        assert_eq!(bench.signals(id).await.len(), 2);
    };
    all_the_same().await;
    assert_eq!(bench.row(id).await, before, "a repeat changes nothing");
    let claimed = bench.claim_again(id).await;
    all_the_same().await;
    bench.complete(&claimed, b"1").await;
    all_the_same().await;
    let late = send(keyed("go", "three")).await.expect_err("it has ended");
    assert_eq!(late.code(), "already_terminal");
    let elsewhere = bench.leased(Draft::new("kind")).await.execution.id;
    let same_key = bench.try_signal(elsewhere, keyed("early", "one")).await.expect("it is delivered");
    assert!(!same_key.duplicate, "a key is of one execution");
}

pub async fn the_same_keyed_signal_sent_at_once_is_one(bench: &Bench) {
    let id = bench.suspended(on("go")).await.execution.id;
    let sent = side_by_side(8, |_| {
        let bench = bench.clone();
        async move { bench.try_signal(id, keyed("go", "once")).await.expect("it is delivered") }
    });
    let sent = sent.await;
    assert_eq!(sent.iter().filter(|one| !one.duplicate).count(), 1);
    assert!(sent.iter().all(|one| (one.number, one.effect) == (1, Effect::Resumed)));
    assert_eq!(bench.signals(id).await.len(), 1);
    let claimed = bench.claim_again(id).await;
    bench.complete(&claimed, b"1").await;
    let id = bench.suspended(Condition::All(vec![on("go"), on("on")])).await.execution.id;
    let both = (0..2).map(|_| bench.signal_command(id, keyed("go", "once"), "caller")).collect::<Vec<_>>();
    let answers = bench.run(Each(both)).await;
    let answers: Vec<bool> = answers.into_iter().map(|one| one.expect("it is delivered").duplicate).collect();
    assert_eq!(answers, [false, true], "also in one transaction");
}

pub async fn a_signal_goes_to_one_that_is_live_and_of_the_callers_namespace(bench: &Bench) {
    let id = bench.submit(Draft::new("kind")).await.id;
    assert_eq!(bench.signal(id, "before it runs").await, Effect::Buffered);
    let elsewhere = bench.beside("elsewhere").await;
    let not_found = async |bench: &Bench, id: ExecutionId| {
        let refused = bench.try_signal(id, signal("go")).await.expect_err("it is not there");
        assert_eq!(refused.code(), "not_found");
    };
    not_found(&elsewhere, id).await;
    not_found(bench, mint()).await;
    let claimed = bench.claim_again(id).await;
    assert!(claimed.signals.is_empty(), "nobody has waited for it");
    let delay = Op::Delay { until: selvedge_core::submission::When::AfterMs(3_600_000) };
    bench.report(fence(&claimed), delay).await.expect("it is delayed");
    assert_eq!(bench.signal(id, "while it is delayed").await, Effect::Buffered);
    bench.operate(id, Action::Cancel { reason: None, grace_ms: 0 }).await.expect("it is cancelled");
    let before = bench.row(id).await;
    let refused = bench.try_signal(id, signal("late")).await.expect_err("it has ended");
    assert_eq!(refused.code(), "already_terminal");
    assert_eq!(bench.row(id).await, before);
    // What came before the end is there for the next generation.
    bench.operate(id, Action::Replay).await.expect("it is replayed");
    let claimed = bench.claim_again(id).await;
    let both = Condition::All(vec![on("before it runs"), on("while it is delayed")]);
    assert_eq!(bench.suspend(&claimed, vec![WaitDraft::new(both)]).await.state, StateName::Ready);
    let blocked = bench.flow("a -> b").await;
    assert_eq!(bench.signal(blocked.id("b").await, "before its turn").await, Effect::Buffered);
}

pub async fn a_signal_beyond_the_limits_is_refused(bench: &Bench) {
    let id = bench.submit(Draft::new("kind")).await.id;
    let way = || Way::Direct { namespace: bench.namespace, source: name("caller") };
    let long = Bytes::from(format!("\"{}\"", "x".repeat(SIGNAL_LIMIT - 1)));
    let refused = SignalDraft { payload: long, ..signal("go") }.check(id, way()).expect_err("is too large");
    assert_eq!((refused.code(), refused.pointer()), ("payload_too_large", Some("/payload")));
    let refused =
        SignalDraft { payload: "{".into(), ..signal("go") }.check(id, way()).expect_err("is no JSON");
    assert_eq!(refused.pointer(), Some("/payload"));
    let refused = SignalDraft { name: None, ..signal("go") }.check(id, way()).expect_err("has no name");
    assert_eq!((refused.code(), refused.pointer()), ("invalid_field", Some("/name")));
    let largest = Bytes::from(format!("\"{}\"", "x".repeat(SIGNAL_LIMIT - 2)));
    let draft = SignalDraft { payload: largest.clone(), ..signal("go") };
    bench.try_signal(id, draft).await.expect("the largest is taken");
    assert_eq!(bench.signals(id).await[0].payload, Some(largest));
}

pub async fn an_execution_takes_no_more_signals_than_it_may_have(bench: &Bench) {
    let limits = [
        Record { signals: SIGNALS_MAX - 1, ..Record::default() },
        Record { signals: 1, bytes: RECORD_LIMIT - said("go").len() as u64, ..Record::default() },
    ];
    for record in limits {
        let id = by_hand::recorded(bench, record).await.id;
        let last = bench.try_signal(id, keyed("go", "last")).await.expect("there is room for one more");
        let before = bench.row(id).await;
        for draft in [signal("go"), keyed("go", "more")] {
            let refused = bench.try_signal(id, draft).await.expect_err("there is no more room");
            assert_eq!(refused.code(), "limit_reached");
        }
        assert_eq!(bench.row(id).await, before);
        let again = bench.try_signal(id, keyed("go", "last")).await;
        assert_eq!(again, repeat_of(&last), "what was taken before still was");
    }
}

pub async fn what_is_recorded_goes_with_its_execution_and_with_no_other(bench: &Bench) {
    let mut ids = Vec::new();
    for _ in 0..2 {
        let policy = Policy { retention_ms: 0, ..Policy::default() };
        let claimed = bench.leased(Draft { policy, ..Draft::new("kind") }).await;
        let id = claimed.execution.id;
        bench.step(&claimed, "done", "1").await;
        let made =
            bench.waitpoint(&claimed, selvedge_core::rules::waitpoint::WaitpointDraft::new(name("w"))).await;
        bench.signal(id, "kept").await;
        bench.suspend(&claimed, vec![at_most(0, OnTimeout::Cancel, on("never"))]).await;
        bench.due(id, DueKind::SuspensionTimeout).await;
        ids.push((id, made.id));
    }
    let [(gone, gone_point), (stays, stays_point)] = ids[..] else { panic!("there are two") };
    bench.due(gone, DueKind::Retention).await;
    let left = async |id: ExecutionId, point: WaitpointId| {
        let found = bench.store.waitpoint(point).await.expect("waitpoints are read").is_some();
        let recorded =
            (bench.signals(id).await.len(), bench.steps(id).await.len(), bench.waitpoints(id).await.len());
        let needs = Needs {
            records: vec![id],
            waitpoints: vec![id],
            steps: vec![(id, name("done"))],
            ..Needs::default()
        };
        let rows = bench.load(needs).await;
        assert_eq!(recorded.0, rows.signals.len());
        assert_eq!(recorded.2, rows.waitpoints.len());
        (recorded, found)
    };
    assert_eq!(left(gone, gone_point).await, ((0, 0, 0), false));
    assert_eq!(left(stays, stays_point).await, ((1, 1, 1), true));
    let again = bench.submit(Draft { id: Some(gone.0), ..Draft::new("kind") }).await;
    assert_eq!(again.detail.record, Record::default());
    assert_eq!(bench.signal(gone, "first").await, Effect::Buffered);
    let numbers: Vec<u32> = bench.signals(gone).await.iter().map(|signal| signal.number).collect();
    assert_eq!(numbers, [1], "one that is given the same id begins anew");
}

pub async fn what_is_recorded_of_one_that_is_deleted_and_submitted_again_at_once_is_gone(bench: &Bench) {
    use selvedge_core::rules::clock::{Tick, What};
    let policy = Policy { retention_ms: 0, ..Policy::default() };
    let draft = Draft { policy, ..Draft::new("kind") };
    let claimed = bench.leased(draft.clone()).await;
    let id = claimed.execution.id;
    bench.signal(id, "before").await;
    let report = |op: Op| bench.report_command(fence(&claimed), op);
    let steps =
        vec![report(super::signal_bench::step("done", "1")), report(Op::Complete { result: "1".into() })];
    let delete = Tick { execution: id, what: What::Due(DueKind::Retention) };
    let anew = bench.submit_command(vec![Draft { id: Some(id.0), ..draft }]).await;
    let (reported, (deleted, submitted)) = bench.run(Both(Each(steps), Both(delete, anew))).await;
    assert!(reported.iter().all(Result::is_ok) && deleted.is_ok() && submitted.iter().all(Result::is_ok));
    let row = bench.row(id).await;
    assert_eq!((row.version, row.detail.record), (1, Record::default()));
    assert!(bench.steps(id).await.is_empty() && bench.signals(id).await.is_empty());
    let claimed = bench.claim_again(id).await;
    assert!(claimed.steps.is_empty() && claimed.signals.is_empty());
}
