//! Sessions: how writes merge, what a heartbeat sees, when leases lapse and sessions are forgotten.
#![allow(missing_docs)]

use super::Worker;
use super::bench::{Bench, fence};
use super::by_hand::{self, put_sessions, session};
use selvedge_core::rows::HeldLease;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::heartbeat::Heartbeat;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::worker::{Depart, Drain, Forget};
use selvedge_core::{Draft, Execution, ExecutionId, Name, Needs, Scope, Session, SessionId, Timestamp};
use std::collections::BTreeSet;

const HOUR_MS: i64 = 3_600_000;

async fn only_session(bench: &Bench) -> Session {
    let mut sessions = bench.store.sessions(None).await.expect("sessions are read");
    assert_eq!(sessions.len(), 1);
    sessions.remove(0)
}

pub async fn a_session_is_read_back_with_every_field(bench: &Bench) {
    let now = bench.now().await;
    let names = |words: &[&str]| -> Vec<Name> { words.iter().map(|word| Name::trusted(word)).collect() };
    let full = Session {
        scope: Scope {
            namespace: bench.namespace,
            lanes: names(&["z", "a", "käse, brot"]),
            kinds: Some(names(&["k2", "k1"])),
            capabilities: names(&["gpu", "a,b"]).into_iter().collect(),
        },
        seen_at: now.minus_ms(1),
        renewed_at: Some(now.minus_ms(2)),
        draining: true,
        ..session(bench, "ïnstance \"1\"", 3_600_000, now.minus_ms(3))
    };
    let mut plain = session(bench, "two", 500, now);
    plain.scope.kinds = Some(vec![]);
    put_sessions(bench, &[full.clone(), plain.clone()]).await;
    let mut expected = vec![full, plain];
    expected.sort_by_key(|session| session.id);
    let by_id = |mut sessions: Vec<Session>| {
        sessions.sort_by_key(|session| session.id);
        sessions
    };
    let read = bench.store.sessions(Some(bench.namespace)).await;
    assert_eq!(by_id(read.expect("sessions are read")), expected);
    let mut ids: Vec<SessionId> = expected.iter().map(|session| session.id).collect();
    ids.push(SessionId(7));
    let loose = Needs {
        sessions: ids.clone(),
        ..Needs::default()
    };
    let locked = Needs {
        sessions_locked: ids,
        ..Needs::default()
    };
    assert_eq!(by_id(bench.load(loose).await.sessions), expected);
    assert_eq!(by_id(bench.load(locked).await.sessions), expected);
    let elsewhere = bench.beside("elsewhere").await.namespace;
    let none = bench
        .store
        .sessions(Some(elsewhere))
        .await
        .expect("sessions are read");
    assert!(none.is_empty());
}

pub async fn times_of_a_session_never_go_back_and_a_drain_stays_asked_for(bench: &Bench) {
    let now = bench.now().await;
    let at = |seconds: i64| now.minus_ms(HOUR_MS).plus_ms(seconds * 1_000);
    let written = |seen: i64, renewed: Option<i64>, draining| Session {
        registered_at: at(0),
        seen_at: at(seen),
        renewed_at: renewed.map(at),
        draining,
        ..session(bench, "one", 30_000, now)
    };
    for (write, expected) in [
        (written(100, None, false), written(100, None, false)),
        (written(90, Some(80), false), written(100, Some(80), false)),
        (written(200, None, true), written(200, Some(80), true)),
        (written(150, Some(70), false), written(200, Some(80), true)),
        (written(300, Some(300), false), written(300, Some(300), true)),
    ] {
        put_sessions(bench, &[write]).await;
        assert_eq!(only_session(bench).await, expected);
    }
    let mut moved = written(400, None, false);
    moved.worker = Name::trusted("another");
    moved.scope.lanes = vec![Name::trusted("other")];
    put_sessions(bench, std::slice::from_ref(&moved)).await;
    let merged = only_session(bench).await;
    assert_eq!((merged.worker, merged.scope), (moved.worker, moved.scope));
}

pub async fn an_instance_is_shown_with_its_sessions_and_their_leases(bench: &Bench) {
    let drafts = vec![Draft::new("kind"); 4];
    bench.submit_all(drafts).await;
    let long = Worker {
        ttl_ms: 60_000,
        ..Worker::new("one")
    };
    let mut mine: Vec<Claimed> = bench.claim(1).await;
    mine.extend(bench.claim_as(&long, 2).await);
    bench.claim_as(&Worker::new("two"), 1).await;
    let there = bench.beside("elsewhere").await;
    there.leased(Draft::new("kind")).await;
    let cancel = Action::Cancel {
        reason: None,
        grace_ms: 60_000,
    };
    let asked = bench
        .operate(mine[1].execution.id, cancel)
        .await
        .expect("it is asked");
    let rows = bench
        .load(Needs {
            instances: vec![(bench.namespace, Name::trusted("one"))],
            ..Needs::default()
        })
        .await;
    let sessions: BTreeSet<SessionId> = rows.sessions.iter().map(|session| session.id).collect();
    let of = |ttl_ms| SessionId::of(bench.namespace, "one", ttl_ms);
    assert_eq!(sessions, BTreeSet::from([of(30_000), of(60_000)]));
    let mut expected: Vec<HeldLease> = mine
        .iter()
        .map(|claimed| {
            let lease = claimed.execution.state.lease().expect("it is leased");
            HeldLease {
                execution: claimed.execution.id,
                session: lease.session,
                lease_id: lease.id,
                epoch: 1,
                claimed_at: lease.claimed_at,
                cancel_requested: claimed.execution.id == asked.id,
            }
        })
        .collect();
    let mut leases = rows.leases;
    expected.sort_by_key(|lease| lease.execution);
    leases.sort_by_key(|lease| lease.execution);
    assert_eq!(leases, expected);
}

pub async fn a_heartbeat_renews_and_tells_what_was_asked_and_lost(bench: &Bench) {
    bench.submit_all(vec![Draft::new("kind"); 3]).await;
    let claimed = bench.claim(3).await;
    let fences: Vec<_> = claimed.iter().map(fence).collect();
    let cancel = |grace_ms| Action::Cancel {
        reason: None,
        grace_ms,
    };
    bench
        .operate(fences[1].execution, cancel(60_000))
        .await
        .expect("it is asked");
    bench
        .operate(fences[2].execution, cancel(0))
        .await
        .expect("it is cancelled");
    let drain = Drain {
        namespace: bench.namespace,
        instance: Name::trusted("one"),
        actor: Name::trusted("operator"),
    };
    bench.run(drain).await.expect("the worker is known");
    assert_eq!(bench.stored(fences[0].execution).await.renewed_at, None);
    let before = bench.row(fences[0].execution).await;
    let beat = bench
        .run(Heartbeat {
            namespace: bench.namespace,
            instance: Name::trusted("one"),
            leases: fences.clone(),
        })
        .await;
    assert_eq!(beat.renewed, fences[..2]);
    assert_eq!(beat.cancel_requested, [fences[1]]);
    assert_eq!((beat.lost.len(), beat.lost[0].0), (1, fences[2]));
    assert_eq!(beat.lost[0].1.code(), "stale_lease");
    assert!(beat.drain && beat.orphans.is_empty());
    let stored = bench.stored(fences[0].execution).await;
    assert_eq!(stored.execution, before, "a renewal raises no version");
    let session = only_session(bench).await;
    assert!(session.draining && session.renewed_at.is_some());
    assert_eq!(stored.renewed_at, session.renewed_at);
    assert_eq!(
        bench.stored(fences[2].execution).await.renewed_at,
        None,
        "it has no lease"
    );
    assert!(bench.claim(1).await.is_empty(), "it drains");
}

fn executions(rows: &[crate::DueRow]) -> Vec<ExecutionId> {
    rows.iter().map(|row| row.execution).collect()
}

/// A row under a lease of a session.
async fn held(bench: &Bench, session: &Session, claimed_at: Timestamp) -> Execution {
    let row = Execution {
        tags: [("of".into(), session.instance.to_string())].into(),
        ..by_hand::row(bench, bench.class("default", "kind").await, claimed_at)
    };
    by_hand::held(row, session, claimed_at)
}

pub async fn a_lease_lapses_when_its_first_term_and_its_session_both_have(bench: &Bench) {
    let now = bench.now().await;
    let ttl_ms = 30_000;
    let of = |instance: &str, renewed_at: Option<Timestamp>| Session {
        renewed_at,
        ..session(bench, instance, ttl_ms, now)
    };
    let (long_ago, lately) = (now.minus_ms(HOUR_MS), now.plus_ms(HOUR_MS));
    let (never, once, fresh, gone) = (
        of("never renewed", None),
        of("renewed long ago", Some(long_ago)),
        of("renewed lately", Some(lately)),
        of("gone", Some(lately)),
    );
    put_sessions(bench, &[never.clone(), once.clone(), fresh.clone()]).await;
    let live = [
        held(bench, &never, lately).await,
        held(bench, &once, lately).await,
        held(bench, &fresh, long_ago).await,
        held(bench, &gone, lately).await,
    ];
    by_hand::insert(bench, &live).await;
    assert!(bench.store.lapsed(None, 10).await.expect("is read").is_empty());
    assert!(!bench.store.overview().await.expect("is read").lapsed);
    let lapsed = [
        held(bench, &never, long_ago).await,
        held(bench, &once, long_ago.minus_ms(5)).await,
        held(bench, &gone, long_ago).await,
    ];
    by_hand::insert(bench, &lapsed).await;
    let found = bench.store.lapsed(None, 10).await.expect("is read");
    let mut expected: Vec<ExecutionId> = lapsed.iter().map(|row| row.id).collect();
    expected.sort();
    assert_eq!(executions(&found), expected);
    for row in &found {
        let of = lapsed
            .iter()
            .find(|lapsed| lapsed.id == row.execution)
            .expect("it lapsed");
        assert_eq!((row.namespace, &row.tags), (bench.namespace, &of.tags));
    }
    assert!(bench.store.overview().await.expect("is read").lapsed);
    let first = bench.store.lapsed(None, 2).await.expect("is read");
    assert_eq!(executions(&first), expected[..2]);
    let rest = bench.store.lapsed(Some(expected[1]), 2).await.expect("is read");
    assert_eq!(executions(&rest), expected[2..]);
}

pub async fn a_session_without_leases_that_was_not_seen_for_long_is_found(bench: &Bench) {
    let now = bench.now().await;
    let unseen = |instance: &str, hours: i64| session(bench, instance, 30_000, now.minus_ms(hours * HOUR_MS));
    let stale = async || bench.store.overview().await.expect("is read").stale;
    let (seen, holding) = (unseen("seen", 0), unseen("holding", 9));
    put_sessions(bench, &[seen.clone(), holding.clone()]).await;
    by_hand::insert(bench, &[held(bench, &holding, now).await]).await;
    let find = async |unseen_ms, limit| {
        let found = bench
            .store
            .unseen_sessions(unseen_ms, limit)
            .await
            .expect("is read");
        found.into_iter().collect::<BTreeSet<SessionId>>()
    };
    assert!(find(HOUR_MS, 10).await.is_empty());
    let (older, oldest) = (unseen("older", 3), unseen("oldest", 9));
    put_sessions(bench, &[older.clone(), oldest.clone()]).await;
    assert!(stale().await);
    assert_eq!(find(2 * HOUR_MS, 10).await, BTreeSet::from([older.id, oldest.id]));
    assert_eq!(find(5 * HOUR_MS, 10).await, BTreeSet::from([oldest.id]));
    assert_eq!(find(2 * HOUR_MS, 1).await.len(), 1);
    let sessions = vec![seen.id, holding.id, older.id, oldest.id];
    let forgotten = bench
        .run(Forget {
            sessions: sessions.clone(),
        })
        .await;
    assert_eq!(forgotten, 3, "the rule does not look at leases");
    assert_eq!(only_session(bench).await, seen);
    assert!(!stale().await);
    let depart = Depart {
        namespace: bench.namespace,
        instance: seen.instance.clone(),
    };
    assert_eq!(bench.run(depart).await, Ok(Vec::new()));
    let departed = only_session(bench).await;
    assert!(
        departed.seen_at < seen.seen_at,
        "a worker that has gone does not count as live"
    );
    assert_eq!((departed.renewed_at, departed.draining), (None, false));
}
