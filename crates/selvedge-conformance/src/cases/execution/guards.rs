//! Guards: a decision on rows that have changed since is begun again, and its changes are not saved.

use crate::harness::by_hand;
use crate::harness::runner::{StoreRunner, decision, locked, run_with};
use crate::harness::{Harness, fence, new_id};
use selvedge_core::filter::Filter;
use selvedge_core::rows::{KeyName, KeyRow, KeyScope, KeySubject, ResultChange, Updated};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use selvedge_core::table::{Entries, Request};
use selvedge_core::{Changes, Draft, Execution, ExecutionId, Name, Needs};
use selvedge_store::{Demand, Error};
use std::sync::{Arc, Mutex};

fn release(harness: &Harness, row: &Execution) -> selvedge_core::rules::report::Report {
    let fence = selvedge_core::rules::report::Fence::of(row).expect("it has a lease");
    harness.report_command(fence, Op::Release)
}

pub async fn a_current_cached_row_needs_no_second_try(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await.execution;
    let caching = StoreRunner::on(harness.store.clone()).caching(claimed.clone());
    let (reply, transaction) = run_with(&caching, release(harness, &claimed)).await.expect("it is saved");
    assert_eq!(reply.expect("it is accepted").state, StateName::Waiting);
    assert_eq!(transaction.tries, 1);
}

pub async fn a_decision_on_a_stale_cached_row_is_begun_again_and_sees_the_new_row(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let stale = claimed.execution.clone();
    let progress = Op::Progress { percent: Some(1.0), message: None };
    harness.report(fence(&claimed), progress).await.expect("it is accepted");
    let newest = harness.row(stale.id).await.version;
    let caching = StoreRunner::on(harness.store.clone()).caching(stale.clone());
    let (reply, transaction) = run_with(&caching, release(harness, &stale)).await.expect("it is saved");
    assert_eq!(reply.expect("it is accepted").state, StateName::Waiting);
    assert_eq!(transaction.tries, 2);
    assert_eq!(harness.row(stale.id).await.version, newest + 1);
}

pub async fn a_decision_on_a_cached_row_with_a_revoked_lease_is_refused(harness: &Harness) {
    let stale = harness.leased(Draft::new("kind")).await.execution;
    let revoke = Action::Revoke { reason: None };
    harness.operate(stale.id, revoke).await.expect("it is revoked");
    let before = harness.row(stale.id).await;
    let complete = harness.report_command(
        selvedge_core::rules::report::Fence::of(&stale).expect("it has a lease"),
        Op::Complete { result: "1".into() },
    );
    let caching = StoreRunner::on(harness.store.clone()).caching(stale);
    let (reply, transaction) = run_with(&caching, complete).await.expect("it is decided");
    assert_eq!(reply.expect_err("its lease is over").code(), "stale_lease");
    assert_eq!(transaction.entry, None);
    assert_eq!(harness.row(before.id).await, before);
    assert_eq!(harness.stored(before.id).await.result, None);
}

pub async fn a_submission_whose_reply_was_lost_finds_its_executions(harness: &Harness) {
    let command = harness.submit_command(vec![Draft::new("kind"); 3]).await;
    let first = harness.run(command.clone()).await;
    let (again, transaction) = harness.transact(command).await;
    assert_eq!((transaction.tries, transaction.entry), (2, None));
    for (first, again) in first.into_iter().zip(again) {
        let (first, again) = (first.expect("it is accepted"), again.expect("it is accepted"));
        assert_eq!(first.execution, again.execution);
    }
    assert_eq!(harness.store.count(&Filter::all(harness.namespace), 9).await.expect("rows are counted"), 3);
}

/// Runs a decision that saves `first` on its first try and nothing after that. Returns the counts with which it was
/// begun.
async fn save_on_first_try(harness: &Harness, first: Changes) -> Vec<u32> {
    let begun: Arc<Mutex<Vec<u32>>> = Arc::default();
    let (seen, now) = (begun.clone(), begun.clone());
    let decision = decision(
        move |again| {
            locked(&seen).push(again);
            Needs::default()
        },
        move |_| match locked(&now).len() {
            1 => Demand::Save(Box::new(first.clone())),
            _ => Demand::Save(Box::default()),
        },
    );
    let transaction = harness.store.transact(decision).await.expect("it commits");
    let begun = locked(&begun).clone();
    assert_eq!((transaction.entry, transaction.tries), (None, begun.len() as u32));
    begun
}

fn key(harness: &Harness, text: &str, execution: ExecutionId) -> KeyRow {
    KeyRow {
        name: KeyName { namespace: harness.namespace, scope: KeyScope::Unique, key: Name::trusted(text) },
        subject: Some(KeySubject::Execution(execution)),
        digest: 1,
        answer: Default::default(),
        expires_at: None,
    }
}

/// Returns changes whose guards all hold: a new execution with a tag, a key and a session.
async fn valid_changes(harness: &Harness) -> (Execution, Changes) {
    let now = harness.now().await;
    let row = Execution {
        tags: [("half".into(), "done".into())].into(),
        ..by_hand::row(harness, harness.class("default", "kind").await, now)
    };
    let changes = Changes {
        keys: Entries::writing([key(harness, "half", row.id)]),
        sessions: Entries::writing([by_hand::session(harness, "half", 1_000, now)]),
        ..by_hand::inserting(std::slice::from_ref(&row))
    };
    (row, changes)
}

/// Breaks one guard of otherwise valid changes, and asserts that the decision is begun again and none of them is saved.
pub async fn assert_nothing_saved(harness: &Harness, break_guard: impl FnOnce(&mut Changes)) {
    let (row, mut changes) = valid_changes(harness).await;
    break_guard(&mut changes);
    changes.executions.inserted.sort_by_key(|row| row.execution.id);
    changes.keys.written.sort_by(|a, b| a.name.cmp(&b.name));
    let entries = harness.log().await.len();
    assert_eq!(save_on_first_try(harness, changes).await, [0, 1]);
    assert!(harness.find(row.id).await.is_none());
    let rows = harness
        .load(Needs { keys: Request::reading([key(harness, "half", row.id).name]), ..Needs::default() })
        .await;
    assert!(rows.keys.is_empty());
    let sessions = harness.store.sessions(None).await.expect("sessions are read");
    assert!(sessions.iter().all(|session| session.instance.as_str() != "half"));
    let tagged = Filter { tags: vec!["half:done".into()], ..Filter::all(harness.namespace) };
    assert_eq!(harness.store.count(&tagged, 1).await.expect("rows are counted"), 0);
    assert_eq!(harness.log().await.len(), entries);
}

pub async fn inserting_an_existing_id_saves_nothing_and_is_begun_again(harness: &Harness) {
    let existing = harness.submit(Draft::new("kind")).await;
    let break_guard = by_hand::inserting(std::slice::from_ref(&existing)).executions.inserted;
    assert_nothing_saved(harness, |changes| changes.executions.inserted.extend(break_guard)).await;
    assert_eq!(harness.row(existing.id).await, existing);
}

pub async fn adding_an_existing_key_saves_nothing_and_is_begun_again(harness: &Harness) {
    let existing =
        harness.submit(Draft { unique_while_active: Some("taken".into()), ..Draft::new("kind") }).await;
    let (other, elsewhere) = (new_id(), new_id());
    assert_nothing_saved(harness, |changes| changes.keys.written.push(key(harness, "taken", other))).await;
    assert_nothing_saved(harness, |changes| {
        changes
            .keys
            .removed
            .push((key(harness, "taken", other).name, Some(KeySubject::Execution(elsewhere))));
        changes.keys.written.push(key(harness, "taken", other));
    })
    .await;
    let key = key(harness, "taken", other).name;
    let rows = harness.load(Needs { keys: Request::reading([key]), ..Needs::default() }).await;
    assert_eq!(rows.keys[0].execution(), Some(existing.id));
}

pub async fn updating_an_outdated_version_saves_nothing_and_is_begun_again(harness: &Harness) {
    let row = harness.submit(Draft::new("kind")).await;
    let update = |id, expected_version| Updated {
        rewired: false,
        execution: Execution { id, version: expected_version + 1, priority: 9, ..row.clone() },
        expected_version,
        result: ResultChange::Set("1".into()),
        input: None,
    };
    for break_guard in [update(row.id, 0), update(row.id, 2), update(new_id(), 1)] {
        assert_nothing_saved(harness, |changes| changes.executions.updated.push(break_guard)).await;
    }
    assert_eq!(harness.row(row.id).await, row);
    assert_eq!(harness.stored(row.id).await.result, None);
}

pub async fn deleting_an_outdated_version_saves_nothing_and_is_begun_again(harness: &Harness) {
    let row = harness.submit(Draft::new("kind")).await;
    for break_guard in [(row.id, 2), (new_id(), 1)] {
        assert_nothing_saved(harness, |changes| changes.executions.deleted.push(break_guard)).await;
    }
    assert_eq!(harness.row(row.id).await, row);
}

pub async fn a_decision_whose_guards_never_hold_fails_as_contended(harness: &Harness) {
    let existing = harness.submit(Draft::new("kind")).await;
    let changes = by_hand::inserting(&[existing]);
    let decision = decision(|_| Needs::default(), move |_| Demand::Save(Box::new(changes.clone())));
    let error = harness.store.transact(decision).await.expect_err("its guards never hold");
    assert!(matches!(error, Error::Contended(_)), "{error}");
}

pub async fn a_decision_without_changes_writes_nothing(harness: &Harness) {
    let row = harness.submit(Draft::new("kind")).await;
    let entries = harness.log().await.len();
    let refused = harness.operate_command(row.id, Action::Replay);
    let (reply, transaction) = harness.transact(refused).await;
    assert_eq!(reply.expect_err("it has not ended").code(), "wrong_state");
    assert_eq!((transaction.entry, transaction.tries), (None, 1));
    assert_eq!(harness.log().await.len(), entries);
    assert_eq!(harness.row(row.id).await, row);
}

pub async fn a_panicking_decision_fails_only_its_own_call(harness: &Harness) {
    let row = harness.submit(Draft::new("kind")).await;
    let load = Needs { executions: Request::locking([row.id]), ..Needs::default() };
    let on_begin = decision(|_| panic!("on purpose, when it is begun"), |_| Demand::Save(Box::default()));
    let on_next = decision(move |_| load.clone(), |_| panic!("on purpose, with a loaded row"));
    for panicking in [on_begin, on_next] {
        let error = harness.store.transact(panicking).await.expect_err("it panicked");
        assert!(matches!(error, Error::Failed(_)), "{error}");
        let raise = Action::Prioritise { priority: 1 };
        harness.operate(row.id, raise).await.expect("the row is not locked");
    }
    assert_eq!(harness.row(row.id).await.version, 2);
    harness.store.ping().await.expect("the store still answers");
}
