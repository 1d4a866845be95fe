//! Guards: a decision that went by rows which have changed since is begun again, and what it wanted to save is not.
#![allow(missing_docs)]

use super::by_hand;
use super::harness::{Harness, fence, mint};
use super::rule::{Direct, decision, run_by};
use selvedge_core::filter::Filter;
use selvedge_core::rows::{KeyName, KeyRow, KeyScope, ResultChange, Updated};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use selvedge_core::table::{Entries, Request};
use selvedge_core::{Changes, Draft, Execution, ExecutionId, Name, Needs};
use selvedge_store::{Demand, Error};
use std::sync::{Arc, Mutex};

fn release(harness: &Harness, row: &Execution) -> selvedge_core::rules::report::Report {
    let fence = selvedge_core::rules::report::Fence::of(row).expect("it is leased");
    harness.report_command(fence, Op::Release)
}

pub async fn a_row_that_is_remembered_rightly_needs_no_second_try(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await.execution;
    let remembering = Direct::on(harness.store.clone()).caching(claimed.clone());
    let (reply, transaction) = run_by(&remembering, release(harness, &claimed)).await.expect("it is saved");
    assert_eq!(reply.expect("it is accepted").state, StateName::Waiting);
    assert_eq!(transaction.tries, 1);
}

pub async fn a_decision_that_remembers_an_older_version_is_begun_again_and_sees_the_new_row(
    harness: &Harness,
) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let stale = claimed.execution.clone();
    let progress = Op::Progress { percent: Some(1.0), message: None };
    harness.report(fence(&claimed), progress).await.expect("it is accepted");
    let newest = harness.row(stale.id).await.version;
    let remembering = Direct::on(harness.store.clone()).caching(stale.clone());
    let (reply, transaction) = run_by(&remembering, release(harness, &stale)).await.expect("it is saved");
    assert_eq!(reply.expect("it is accepted").state, StateName::Waiting);
    assert_eq!(transaction.tries, 2);
    assert_eq!(harness.row(stale.id).await.version, newest + 1);
}

pub async fn a_decision_that_remembers_a_lease_which_was_taken_away_is_refused_after_all(harness: &Harness) {
    let stale = harness.leased(Draft::new("kind")).await.execution;
    let revoke = Action::Revoke { reason: None };
    harness.operate(stale.id, revoke).await.expect("it is revoked");
    let before = harness.row(stale.id).await;
    let complete = harness.report_command(
        selvedge_core::rules::report::Fence::of(&stale).expect("it is leased"),
        Op::Complete { result: "1".into() },
    );
    let remembering = Direct::on(harness.store.clone()).caching(stale);
    let (reply, transaction) = run_by(&remembering, complete).await.expect("it is decided");
    assert_eq!(reply.expect_err("its lease is over").code(), "stale_lease");
    assert_eq!(transaction.entry, None);
    assert_eq!(harness.row(before.id).await, before);
    assert_eq!(harness.stored(before.id).await.result, None);
}

pub async fn a_submission_whose_answer_was_lost_finds_what_it_made(harness: &Harness) {
    let command = harness.submit_command(vec![Draft::new("kind"); 3]).await;
    let first = harness.run(command.clone()).await;
    let (again, transaction) = harness.transact(command).await;
    assert_eq!((transaction.tries, transaction.entry), (2, None));
    for (first, again) in first.into_iter().zip(again) {
        let (first, again) = (first.expect("it is accepted"), again.expect("it is accepted"));
        assert_eq!(first.execution, again.execution);
    }
    assert_eq!(harness.store.count(&Filter::all(harness.namespace), 9).await.expect("is counted"), 3);
}

/// Saves `first`, and after that nothing; says how often the decision was begun.
async fn saves_only_at_first(harness: &Harness, first: Changes) -> Vec<u32> {
    let begun: Arc<Mutex<Vec<u32>>> = Arc::default();
    let (seen, now) = (begun.clone(), begun.clone());
    let decision = decision(
        move |again| {
            seen.lock().expect("nobody panics here").push(again);
            Needs::default()
        },
        move |_| match now.lock().expect("nobody panics here").len() {
            1 => Demand::Save(Box::new(first.clone())),
            _ => Demand::Save(Box::default()),
        },
    );
    let transaction = harness.store.transact(decision).await.expect("it comes through");
    let begun = begun.lock().expect("nobody panics here").clone();
    assert_eq!((transaction.entry, transaction.tries), (None, begun.len() as u32));
    begun
}

fn key(harness: &Harness, text: &str, execution: ExecutionId) -> KeyRow {
    KeyRow {
        name: KeyName { namespace: harness.namespace, scope: KeyScope::Unique, key: Name::trusted(text) },
        execution: Some(execution),
        digest: 1,
        answer: Default::default(),
        expires_at: None,
    }
}

/// Changes whose guards all hold: a new execution with a tag, a key, a session.
async fn harmless(harness: &Harness) -> (Execution, Changes) {
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

/// Breaks one guard of otherwise harmless changes: the decision is begun again and nothing of them is there.
pub(super) async fn is_all_or_nothing(harness: &Harness, spoil: impl FnOnce(&mut Changes)) {
    let (row, mut changes) = harmless(harness).await;
    spoil(&mut changes);
    changes.executions.inserted.sort_by_key(|row| row.execution.id);
    changes.keys.written.sort_by(|a, b| a.name.cmp(&b.name));
    let entries = harness.log().await.len();
    assert_eq!(saves_only_at_first(harness, changes).await, [0, 1]);
    assert!(harness.find(row.id).await.is_none());
    let rows = harness
        .load(Needs { keys: Request::reading([key(harness, "half", row.id).name]), ..Needs::default() })
        .await;
    assert!(rows.keys.is_empty());
    let sessions = harness.store.sessions(None).await.expect("sessions are read");
    assert!(sessions.iter().all(|session| session.instance.as_str() != "half"));
    let tagged = Filter { tag: Some("half:done".into()), ..Filter::all(harness.namespace) };
    assert_eq!(harness.store.count(&tagged, 1).await.expect("is counted"), 0);
    assert_eq!(harness.log().await.len(), entries);
}

pub async fn an_insert_of_an_id_that_is_taken_saves_nothing_and_is_begun_again(harness: &Harness) {
    let taken = harness.submit(Draft::new("kind")).await;
    let spoil = by_hand::inserting(std::slice::from_ref(&taken)).executions.inserted;
    is_all_or_nothing(harness, |changes| changes.executions.inserted.extend(spoil)).await;
    assert_eq!(harness.row(taken.id).await, taken);
}

pub async fn a_key_that_is_taken_saves_nothing_and_is_begun_again(harness: &Harness) {
    let taken =
        harness.submit(Draft { unique_while_active: Some("taken".into()), ..Draft::new("kind") }).await;
    let (other, elsewhere) = (mint(), mint());
    is_all_or_nothing(harness, |changes| changes.keys.written.push(key(harness, "taken", other))).await;
    is_all_or_nothing(harness, |changes| {
        changes.keys.removed.push((key(harness, "taken", other).name, Some(elsewhere)));
        changes.keys.written.push(key(harness, "taken", other));
    })
    .await;
    let key = key(harness, "taken", other).name;
    let rows = harness.load(Needs { keys: Request::reading([key]), ..Needs::default() }).await;
    assert_eq!(rows.keys[0].execution, Some(taken.id));
}

pub async fn an_update_of_a_version_that_is_gone_saves_nothing_and_is_begun_again(harness: &Harness) {
    let row = harness.submit(Draft::new("kind")).await;
    let update = |id, expected_version| Updated {
        rewired: false,
        execution: Execution { id, version: expected_version + 1, priority: 9, ..row.clone() },
        expected_version,
        result: ResultChange::Set("1".into()),
    };
    for spoil in [update(row.id, 0), update(row.id, 2), update(mint(), 1)] {
        is_all_or_nothing(harness, |changes| changes.executions.updated.push(spoil)).await;
    }
    assert_eq!(harness.row(row.id).await, row);
    assert_eq!(harness.stored(row.id).await.result, None);
}

pub async fn a_deletion_of_a_version_that_is_gone_saves_nothing_and_is_begun_again(harness: &Harness) {
    let row = harness.submit(Draft::new("kind")).await;
    for spoil in [(row.id, 2), (mint(), 1)] {
        is_all_or_nothing(harness, |changes| changes.executions.deleted.push(spoil)).await;
    }
    assert_eq!(harness.row(row.id).await, row);
}

pub async fn a_decision_whose_guards_never_hold_ends_as_contended(harness: &Harness) {
    let taken = harness.submit(Draft::new("kind")).await;
    let changes = by_hand::inserting(&[taken]);
    let decision = decision(|_| Needs::default(), move |_| Demand::Save(Box::new(changes.clone())));
    let error = harness.store.transact(decision).await.expect_err("it never holds");
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

pub async fn a_panicking_decision_fails_alone(harness: &Harness) {
    let row = harness.submit(Draft::new("kind")).await;
    let load = Needs { executions: Request::locking([row.id]), ..Needs::default() };
    let at_first = decision(|_| panic!("on purpose, at its beginning"), |_| Demand::Save(Box::default()));
    let later = decision(move |_| load.clone(), |_| panic!("on purpose, with a row in its hands"));
    for panicking in [at_first, later] {
        let error = harness.store.transact(panicking).await.expect_err("it panicked");
        assert!(matches!(error, Error::Failed(_)), "{error}");
        let tag = Action::Prioritise { priority: 1 };
        harness.operate(row.id, tag).await.expect("the row is free");
    }
    assert_eq!(harness.row(row.id).await.version, 2);
    harness.store.ping().await.expect("the store goes on");
}
