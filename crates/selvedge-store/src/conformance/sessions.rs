//! Sessions: how writes merge, what a heartbeat sees, when leases lapse and sessions are forgotten.
#![allow(missing_docs)]

use super::Worker;
use super::bench::{Bench, fence};
use super::by_hand::{put_sessions, session};
use selvedge_core::rows::HeldLease;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::heartbeat::Heartbeat;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::worker::Drain;
use selvedge_core::{Changes, Draft, Name, Needs, Scope, Session, SessionId};
use std::collections::BTreeSet;

/// An hour.
pub(super) const HOUR_MS: i64 = 3_600_000;

/// The only session there is.
pub(super) async fn only_session(bench: &Bench) -> Session {
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
    let loose = Needs { sessions: ids.clone(), ..Needs::default() };
    let locked = Needs { sessions_locked: ids, ..Needs::default() };
    assert_eq!(by_id(bench.load(loose).await.sessions), expected);
    assert_eq!(by_id(bench.load(locked).await.sessions), expected);
    let elsewhere = bench.beside("elsewhere").await.namespace;
    let none = bench.store.sessions(Some(elsewhere)).await.expect("sessions are read");
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

pub async fn a_session_that_is_forgotten_and_written_at_once_is_written_anew(bench: &Bench) {
    let now = bench.now().await;
    let before = Session { renewed_at: Some(now), draining: true, ..session(bench, "one", 30_000, now) };
    let anew = session(bench, "one", 30_000, now.minus_ms(HOUR_MS));
    put_sessions(bench, &[before, session(bench, "two", 30_000, now)]).await;
    bench
        .save(Changes { sessions_removed: vec![anew.id], sessions: vec![anew.clone()], ..Changes::default() })
        .await;
    let sessions = bench.store.sessions(None).await.expect("sessions are read");
    let one = sessions.iter().filter(|session| session.instance.as_str() == "one");
    assert_eq!((sessions.len(), one.collect::<Vec<_>>()), (2, vec![&anew]));
}

pub async fn an_instance_is_shown_with_its_sessions_and_their_leases(bench: &Bench) {
    let drafts = vec![Draft::new("kind"); 4];
    bench.submit_all(drafts).await;
    let long = Worker { ttl_ms: 60_000, ..Worker::new("one") };
    let mut mine: Vec<Claimed> = bench.claim(1).await;
    mine.extend(bench.claim_as(&long, 2).await);
    bench.claim_as(&Worker::new("two"), 1).await;
    let there = bench.beside("elsewhere").await;
    there.leased(Draft::new("kind")).await;
    let cancel = Action::Cancel { reason: None, grace_ms: 60_000 };
    let asked = bench.operate(mine[1].execution.id, cancel).await.expect("it is asked");
    let rows = bench
        .load(Needs { instances: vec![(bench.namespace, Name::trusted("one"))], ..Needs::default() })
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
    let cancel = |grace_ms| Action::Cancel { reason: None, grace_ms };
    bench.operate(fences[1].execution, cancel(60_000)).await.expect("it is asked");
    bench.operate(fences[2].execution, cancel(0)).await.expect("it is cancelled");
    let drain = Drain {
        namespace: bench.namespace,
        instance: Name::trusted("one"),
        actor: Name::trusted("operator"),
    };
    bench.run(drain).await.expect("the worker is known");
    assert_eq!(bench.stored(fences[0].execution).await.renewed_at, None);
    let before = bench.row(fences[0].execution).await;
    let beat = bench
        .run(Heartbeat { namespace: bench.namespace, instance: Name::trusted("one"), leases: fences.clone() })
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
    assert_eq!(bench.stored(fences[2].execution).await.renewed_at, None, "it has no lease");
    assert!(bench.claim(1).await.is_empty(), "it drains");
}
