//! Liveness of workers: leases expire, and unused sessions are deleted.

use super::sessions::{HOUR_MS, only_session};
use crate::harness::Harness;
use crate::harness::by_hand::{self, put_sessions, session};
use selvedge_core::rules::worker::{Depart, ForgetSessions};
use selvedge_core::{Execution, ExecutionId, Session, SessionId, Timestamp};
use selvedge_store::ReconcilerScope;
use std::collections::BTreeSet;

fn executions(rows: &[selvedge_store::DueRow]) -> Vec<ExecutionId> {
    rows.iter().map(|row| row.execution).collect()
}

/// Returns a row under a lease of a session.
async fn leased_row(harness: &Harness, session: &Session, claimed_at: Timestamp) -> Execution {
    let row = Execution {
        tags: [("of".into(), session.instance.to_string())].into(),
        ..by_hand::row(harness, harness.class("default", "kind").await, claimed_at)
    };
    by_hand::with_lease(row, session, claimed_at)
}

pub async fn a_lease_expires_when_its_first_term_and_its_session_are_both_over(harness: &Harness) {
    let now = harness.now().await;
    let ttl_ms = 30_000;
    let of = |instance: &str, renewed_at: Option<Timestamp>| Session {
        renewed_at,
        ..session(harness, instance, ttl_ms, now)
    };
    let (long_ago, lately) = (now.minus_ms(HOUR_MS), now.plus_ms(HOUR_MS));
    let (never_renewed, renewed_long_ago, renewed_lately, without_session) = (
        of("never renewed", None),
        of("renewed long ago", Some(long_ago)),
        of("renewed lately", Some(lately)),
        of("without a session", Some(lately)),
    );
    put_sessions(harness, &[never_renewed.clone(), renewed_long_ago.clone(), renewed_lately.clone()]).await;
    let live = [
        leased_row(harness, &never_renewed, lately).await,
        leased_row(harness, &renewed_long_ago, lately).await,
        leased_row(harness, &renewed_lately, long_ago).await,
        leased_row(harness, &without_session, lately).await,
    ];
    by_hand::insert(harness, &live).await;
    assert!(
        harness
            .store
            .expired_leases(&ReconcilerScope::ALL, None, 10)
            .await
            .expect("rows are read")
            .is_empty()
    );
    assert!(!harness.store.overview().await.expect("the overview is read").expired_leases);
    let expired = [
        leased_row(harness, &never_renewed, long_ago).await,
        leased_row(harness, &renewed_long_ago, long_ago.minus_ms(5)).await,
        leased_row(harness, &without_session, long_ago).await,
    ];
    by_hand::insert(harness, &expired).await;
    let found = harness.store.expired_leases(&ReconcilerScope::ALL, None, 10).await.expect("rows are read");
    let mut expected: Vec<ExecutionId> = expired.iter().map(|row| row.id).collect();
    expected.sort();
    assert_eq!(executions(&found), expected);
    for row in &found {
        let of = expired.iter().find(|expired| expired.id == row.execution).expect("it has expired");
        assert_eq!((row.namespace, &row.tags), (harness.namespace, &of.tags));
    }
    assert!(harness.store.overview().await.expect("the overview is read").expired_leases);
    let first = harness.store.expired_leases(&ReconcilerScope::ALL, None, 2).await.expect("rows are read");
    assert_eq!(executions(&first), expected[..2]);
    let rest = harness
        .store
        .expired_leases(&ReconcilerScope::ALL, Some(expected[1]), 2)
        .await
        .expect("rows are read");
    assert_eq!(executions(&rest), expected[2..]);
}

pub async fn an_unseen_session_without_leases_is_found(harness: &Harness) {
    let now = harness.now().await;
    let unseen =
        |instance: &str, hours: i64| session(harness, instance, 30_000, now.minus_ms(hours * HOUR_MS));
    let stale = async || harness.store.overview().await.expect("the overview is read").stale;
    let (seen, holding) = (unseen("seen", 0), unseen("holding", 9));
    put_sessions(harness, &[seen.clone(), holding.clone()]).await;
    by_hand::insert(harness, &[leased_row(harness, &holding, now).await]).await;
    let find = async |unseen_ms, limit| {
        let found = harness.store.unseen_sessions(unseen_ms, limit).await.expect("rows are read");
        found.into_iter().collect::<BTreeSet<SessionId>>()
    };
    assert!(find(HOUR_MS, 10).await.is_empty());
    let (older, oldest) = (unseen("older", 3), unseen("oldest", 9));
    put_sessions(harness, &[older.clone(), oldest.clone()]).await;
    assert!(stale().await);
    assert_eq!(find(2 * HOUR_MS, 10).await, BTreeSet::from([older.id, oldest.id]));
    assert_eq!(find(5 * HOUR_MS, 10).await, BTreeSet::from([oldest.id]));
    assert_eq!(find(2 * HOUR_MS, 1).await.len(), 1);
    let sessions = vec![seen.id, holding.id, older.id, oldest.id];
    let deleted = harness.run(ForgetSessions { sessions: sessions.clone() }).await;
    assert_eq!(deleted, 3, "the rule does not check leases");
    assert_eq!(only_session(harness).await, seen);
    assert!(!stale().await);
    let depart = Depart { namespace: harness.namespace, instance: seen.instance.clone(), incarnation: None };
    assert_eq!(harness.run(depart).await, Ok(Vec::new()));
    let departed = only_session(harness).await;
    assert!(!departed.is_live(harness.now().await), "a departed worker does not count as live");
    assert_eq!(departed.seen_at, seen.seen_at);
    assert_eq!((departed.renewed_at, departed.draining), (None, false));
}
