//! What time does to workers: leases lapse, and sessions that nobody uses are forgotten.
#![allow(missing_docs)]

use super::by_hand::{self, put_sessions, session};
use super::harness::Harness;
use super::sessions::{HOUR_MS, only_session};
use selvedge_core::rules::worker::{Depart, Forget};
use selvedge_core::{Execution, ExecutionId, Session, SessionId, Timestamp};
use std::collections::BTreeSet;

fn executions(rows: &[selvedge_store::DueRow]) -> Vec<ExecutionId> {
    rows.iter().map(|row| row.execution).collect()
}

/// A row under a lease of a session.
async fn held(harness: &Harness, session: &Session, claimed_at: Timestamp) -> Execution {
    let row = Execution {
        tags: [("of".into(), session.instance.to_string())].into(),
        ..by_hand::row(harness, harness.class("default", "kind").await, claimed_at)
    };
    by_hand::held(row, session, claimed_at)
}

pub async fn a_lease_lapses_when_its_first_term_and_its_session_both_have(harness: &Harness) {
    let now = harness.now().await;
    let ttl_ms = 30_000;
    let of = |instance: &str, renewed_at: Option<Timestamp>| Session {
        renewed_at,
        ..session(harness, instance, ttl_ms, now)
    };
    let (long_ago, lately) = (now.minus_ms(HOUR_MS), now.plus_ms(HOUR_MS));
    let (never, once, fresh, gone) = (
        of("never renewed", None),
        of("renewed long ago", Some(long_ago)),
        of("renewed lately", Some(lately)),
        of("gone", Some(lately)),
    );
    put_sessions(harness, &[never.clone(), once.clone(), fresh.clone()]).await;
    let live = [
        held(harness, &never, lately).await,
        held(harness, &once, lately).await,
        held(harness, &fresh, long_ago).await,
        held(harness, &gone, lately).await,
    ];
    by_hand::insert(harness, &live).await;
    assert!(harness.store.lapsed(None, 10).await.expect("is read").is_empty());
    assert!(!harness.store.overview().await.expect("is read").lapsed);
    let lapsed = [
        held(harness, &never, long_ago).await,
        held(harness, &once, long_ago.minus_ms(5)).await,
        held(harness, &gone, long_ago).await,
    ];
    by_hand::insert(harness, &lapsed).await;
    let found = harness.store.lapsed(None, 10).await.expect("is read");
    let mut expected: Vec<ExecutionId> = lapsed.iter().map(|row| row.id).collect();
    expected.sort();
    assert_eq!(executions(&found), expected);
    for row in &found {
        let of = lapsed.iter().find(|lapsed| lapsed.id == row.execution).expect("it lapsed");
        assert_eq!((row.namespace, &row.tags), (harness.namespace, &of.tags));
    }
    assert!(harness.store.overview().await.expect("is read").lapsed);
    let first = harness.store.lapsed(None, 2).await.expect("is read");
    assert_eq!(executions(&first), expected[..2]);
    let rest = harness.store.lapsed(Some(expected[1]), 2).await.expect("is read");
    assert_eq!(executions(&rest), expected[2..]);
}

pub async fn a_session_without_leases_that_was_not_seen_for_long_is_found(harness: &Harness) {
    let now = harness.now().await;
    let unseen =
        |instance: &str, hours: i64| session(harness, instance, 30_000, now.minus_ms(hours * HOUR_MS));
    let stale = async || harness.store.overview().await.expect("is read").stale;
    let (seen, holding) = (unseen("seen", 0), unseen("holding", 9));
    put_sessions(harness, &[seen.clone(), holding.clone()]).await;
    by_hand::insert(harness, &[held(harness, &holding, now).await]).await;
    let find = async |unseen_ms, limit| {
        let found = harness.store.unseen_sessions(unseen_ms, limit).await.expect("is read");
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
    let forgotten = harness.run(Forget { sessions: sessions.clone() }).await;
    assert_eq!(forgotten, 3, "the rule does not look at leases");
    assert_eq!(only_session(harness).await, seen);
    assert!(!stale().await);
    let depart = Depart { namespace: harness.namespace, instance: seen.instance.clone() };
    assert_eq!(harness.run(depart).await, Ok(Vec::new()));
    let departed = only_session(harness).await;
    assert!(departed.seen_at < seen.seen_at, "a worker that has gone does not count as live");
    assert_eq!((departed.renewed_at, departed.draining), (None, false));
}
