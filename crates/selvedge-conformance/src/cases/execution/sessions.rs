//! Sessions: merging of writes, and the rows that a heartbeat loads.

use crate::harness::Worker;
use crate::harness::by_hand::{put_sessions, session};
use crate::harness::{Harness, fence};
use selvedge_core::rows::HeldLease;
use selvedge_core::rows::Queries;
use selvedge_core::rules::claim::{Claim, Claimed, Nothing};
use selvedge_core::rules::heartbeat::Heartbeat;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::{Op, Report};
use selvedge_core::rules::worker::{BeginIncarnation, Depart, Drain};
use selvedge_core::session::{EndReason, SessionDetail, SessionEnd, SupersededIncarnation};
use selvedge_core::table::{Entries, Request};
use selvedge_core::{Changes, ClaimScope, Draft, LeaseId, Name, Needs, Session, SessionId};
use std::collections::BTreeSet;

/// An hour, in milliseconds.
pub(super) const HOUR_MS: i64 = 3_600_000;

/// Returns the only session.
pub(super) async fn only_session(harness: &Harness) -> Session {
    let mut sessions = harness.store.sessions(None).await.expect("sessions are read");
    assert_eq!(sessions.len(), 1);
    sessions.remove(0)
}

pub async fn a_session_is_read_back_with_every_field(harness: &Harness) {
    let now = harness.now().await;
    let names = |words: &[&str]| -> Vec<Name> { words.iter().map(|word| Name::trusted(word)).collect() };
    let full = Session {
        scope: ClaimScope {
            namespace: harness.namespace,
            lanes: names(&["z", "a", "käse, brot"]),
            kinds: Some(names(&["k2", "k1"])),
            capabilities: names(&["gpu", "a,b"]).into_iter().collect(),
        },
        seen_at: now.minus_ms(1),
        renewed_at: Some(now.minus_ms(2)),
        draining: true,
        life: 7,
        detail: SessionDetail {
            incarnation: Some(Name::trusted("pod \"7\"")),
            ended: Some(SessionEnd { at: now.minus_ms(4), reason: EndReason::Superseded }),
            superseded: vec![SupersededIncarnation { incarnation: Name::trusted("6"), at: now.minus_ms(5) }],
        },
        ..session(harness, "ïnstance \"1\"", 3_600_000, now.minus_ms(3))
    };
    let mut plain = session(harness, "two", 500, now);
    plain.scope.kinds = Some(vec![]);
    put_sessions(harness, &[full.clone(), plain.clone()]).await;
    let mut expected = vec![full, plain];
    expected.sort_by_key(|session| session.id);
    let by_id = |mut sessions: Vec<Session>| {
        sessions.sort_by_key(|session| session.id);
        sessions
    };
    let read = harness.store.sessions(Some(harness.namespace)).await;
    assert_eq!(by_id(read.expect("sessions are read")), expected);
    let mut ids: Vec<SessionId> = expected.iter().map(|session| session.id).collect();
    ids.push(SessionId(7));
    let unlocked = Needs { sessions: Request::reading(ids.clone()), ..Needs::default() };
    let locked = Needs { sessions: Request::locking(ids), ..Needs::default() };
    assert_eq!(by_id(harness.load(unlocked).await.sessions), expected);
    assert_eq!(by_id(harness.load(locked).await.sessions), expected);
    let elsewhere = harness.in_namespace("elsewhere").await.namespace;
    let none = harness.store.sessions(Some(elsewhere)).await.expect("sessions are read");
    assert!(none.is_empty());
}

pub async fn times_of_a_session_never_go_back_and_a_requested_drain_stays_requested(harness: &Harness) {
    let now = harness.now().await;
    let at = |seconds: i64| now.minus_ms(HOUR_MS).plus_ms(seconds * 1_000);
    let written = |seen: i64, renewed: Option<i64>, draining| Session {
        registered_at: at(0),
        seen_at: at(seen),
        renewed_at: renewed.map(at),
        draining,
        ..session(harness, "one", 30_000, now)
    };
    for (write, expected) in [
        (written(100, None, false), written(100, None, false)),
        (written(90, Some(80), false), written(100, Some(80), false)),
        (written(200, None, true), written(200, Some(80), true)),
        (written(150, Some(70), false), written(200, Some(80), true)),
        (written(300, Some(300), false), written(300, Some(300), true)),
    ] {
        put_sessions(harness, &[write]).await;
        assert_eq!(only_session(harness).await, expected);
    }
    let mut changed = written(400, None, false);
    changed.worker = Name::trusted("another");
    changed.scope.lanes = vec![Name::trusted("other")];
    put_sessions(harness, std::slice::from_ref(&changed)).await;
    let merged = only_session(harness).await;
    assert_eq!((merged.worker, merged.scope), (changed.worker, changed.scope));
}

pub async fn a_session_that_is_deleted_and_written_in_one_transaction_is_not_merged(harness: &Harness) {
    let now = harness.now().await;
    let before = Session { renewed_at: Some(now), draining: true, ..session(harness, "one", 30_000, now) };
    let rewritten = session(harness, "one", 30_000, now.minus_ms(HOUR_MS));
    put_sessions(harness, &[before, session(harness, "two", 30_000, now)]).await;
    harness
        .save(Changes {
            sessions: Entries { removed: vec![rewritten.id], written: vec![rewritten.clone()] },
            ..Changes::default()
        })
        .await;
    let sessions = harness.store.sessions(None).await.expect("sessions are read");
    let one = sessions.iter().filter(|session| session.instance.as_str() == "one");
    assert_eq!((sessions.len(), one.collect::<Vec<_>>()), (2, vec![&rewritten]));
}

pub async fn a_write_of_an_earlier_life_of_a_session_is_ignored_and_one_of_a_later_life_replaces_it(
    harness: &Harness,
) {
    let now = harness.now().await;
    let incarnation =
        |name: &str| SessionDetail { incarnation: Some(Name::trusted(name)), ..SessionDetail::default() };
    let first = Session {
        renewed_at: Some(now),
        draining: true,
        detail: incarnation("first"),
        ..session(harness, "one", 30_000, now)
    };
    let second = Session {
        life: 1,
        registered_at: now.minus_ms(5),
        detail: incarnation("second"),
        ..session(harness, "one", 30_000, now.minus_ms(1))
    };
    put_sessions(harness, std::slice::from_ref(&first)).await;
    put_sessions(harness, std::slice::from_ref(&second)).await;
    let replaced = Session { seen_at: now, ..second };
    assert_eq!(only_session(harness).await, replaced, "only the time at which it was seen is merged");
    let late = Session { seen_at: now.plus_ms(9), worker: Name::trusted("late"), ..first };
    put_sessions(harness, std::slice::from_ref(&late)).await;
    assert_eq!(only_session(harness).await, replaced);
    let same = Session { draining: true, detail: incarnation("other"), ..replaced.clone() };
    put_sessions(harness, std::slice::from_ref(&same)).await;
    assert_eq!(only_session(harness).await, Session { draining: true, ..replaced }, "the detail stays");
}

pub async fn a_waiting_claim_gets_nothing_after_its_worker_has_departed_and_a_new_claim_registers_it(
    harness: &Harness,
) {
    let worker = Worker::new("one");
    let first = harness.run(harness.claim_command(&worker, 1)).await.expect("the claim is accepted");
    assert_eq!((first.nothing, first.life), (Some(Nothing::Ready), Some(0)));
    let waiting = || Claim { life: first.life, ..harness.claim_command(&worker, 1) };
    harness.submit(Draft::new("kind")).await;
    let instance = Name::trusted("one");
    let depart = Depart { namespace: harness.namespace, instance, incarnation: None };
    assert_eq!(harness.run(depart).await, Ok(Vec::new()));
    let now = harness.now().await;
    for _ in 0..2 {
        let claims = harness.run(waiting()).await.expect("the claim is accepted");
        assert_eq!((claims.nothing, claims.claimed.len()), (Some(Nothing::Ended), 0));
        assert!(!only_session(harness).await.is_live(now));
    }
    let fresh = harness.run(harness.claim_command(&worker, 1)).await.expect("the claim is accepted");
    assert_eq!((fresh.claimed.len(), fresh.life), (1, Some(2)));
    assert!(only_session(harness).await.is_live(now));
    let late = harness.run(waiting()).await.expect("the claim is accepted");
    assert_eq!(late.nothing, Some(Nothing::Ended), "also after the worker has returned");
}

pub async fn a_new_incarnation_supersedes_its_predecessor_in_all_sessions_of_the_instance(harness: &Harness) {
    let of = |incarnation: &str, ttl_ms| Worker {
        incarnation: Some(incarnation.into()),
        ttl_ms,
        ..Worker::new("one")
    };
    let begin = async |worker: &Worker| {
        let claim = harness.claim_command(worker, 1);
        let unregistered = harness.run(claim.clone()).await.expect("the claim is accepted");
        assert_eq!(unregistered.nothing, Some(Nothing::NewIncarnation));
        harness.run(BeginIncarnation { claim }).await
    };
    assert_eq!(begin(&of("a", 30_000)).await, Ok(vec![]));
    harness.submit(Draft::new("kind")).await;
    let lease = fence(&harness.claim_as(&of("a", 30_000), 1).await[0]);
    assert_eq!(begin(&of("a", 60_000)).await, Ok(vec![]), "the same incarnation has a second session");
    let instance = || Name::trusted("one");
    let drain =
        Drain { namespace: harness.namespace, instance: instance(), actor: Name::trusted("operator") };
    harness.run(drain).await.expect("the worker is known");

    assert_eq!(begin(&of("b", 60_000)).await, Ok(vec![lease]), "the lease of its predecessor");
    let beat = |incarnation: &str| Heartbeat {
        namespace: harness.namespace,
        instance: instance(),
        incarnation: Some(Name::trusted(incarnation)),
        leases: vec![],
        waits_since: None,
    };
    assert!(!harness.run(beat("b")).await.expect("it is current").drain, "the drain has ended");
    for ttl_ms in [30_000, 60_000, 90_000] {
        let refused = begin(&of("a", ttl_ms)).await.expect_err("it is superseded");
        assert_eq!(refused.code(), "superseded");
    }
    assert_eq!(harness.run(beat("a")).await.expect_err("it is superseded").code(), "superseded");
    let incarnation = Some(Name::trusted("a"));
    let depart = Depart { namespace: harness.namespace, instance: instance(), incarnation };
    assert_eq!(harness.run(depart).await.expect_err("it is superseded").code(), "superseded");
    let beat = harness.run(beat("c")).await.expect("it is new");
    assert_eq!(beat.of_predecessor, Some(vec![lease]), "nobody has put it back yet");
    assert_eq!(begin(&of("b", 60_000)).await.expect_err("it is superseded").code(), "superseded");
}

pub async fn a_heartbeat_does_not_count_a_lease_as_lost_that_its_worker_ended(harness: &Harness) {
    harness.submit_all(vec![Draft::new("kind"); 4]).await;
    let fences: Vec<_> = harness.claim(4).await.iter().map(fence).collect();
    let cancel = |grace_ms| Action::Cancel { reason: None, grace_ms };
    harness.operate(fences[0].execution, cancel(60_000)).await.expect("the cancellation is requested");
    harness.operate(fences[3].execution, cancel(0)).await.expect("it is cancelled");
    let ops = [Op::Cancelled { message: None }, Op::Complete { result: "1".into() }, Op::Release];
    for (fence, op) in fences.iter().zip(ops) {
        let report = Report { namespace: harness.namespace, fence: *fence, op_id: None, op };
        harness.run(report).await.expect("the lease is current");
    }
    let mut forged = fences[1];
    forged.lease_id = LeaseId(uuid::Uuid::max());
    let beat = Heartbeat {
        namespace: harness.namespace,
        instance: Name::trusted("one"),
        incarnation: None,
        leases: fences.iter().copied().chain([forged]).collect(),
        waits_since: None,
    };
    let beat = harness.run(beat).await.expect("the heartbeat names no incarnation");
    let lost: Vec<_> = beat.lost.iter().map(|(fence, _)| *fence).collect();
    assert_eq!((beat.renewed, lost), (vec![], vec![fences[3], forged]));
}

pub async fn a_heartbeat_that_waits_renews_leases_that_were_claimed_meanwhile(harness: &Harness) {
    harness.submit_all(vec![Draft::new("kind"); 2]).await;
    let before = fence(&harness.claim(1).await[0]);
    let beat = |waits_since| Heartbeat {
        namespace: harness.namespace,
        instance: Name::trusted("one"),
        incarnation: None,
        leases: vec![],
        waits_since,
    };
    let first = harness.run(beat(None)).await.expect("the heartbeat names no incarnation");
    assert_eq!(harness.stored(before.execution).await.renewed_at, None, "nothing is named");
    let meanwhile = fence(&harness.claim(1).await[0]);
    let cancel = Action::Cancel { reason: None, grace_ms: 60_000 };
    harness.operate(meanwhile.execution, cancel).await.expect("the cancellation is requested");
    let next = harness.run(beat(Some(first.now))).await.expect("the heartbeat names no incarnation");
    assert_eq!((next.renewed, next.cancel_requested), (vec![], vec![meanwhile]));
    assert!(harness.stored(meanwhile.execution).await.renewed_at.is_some());
}

pub async fn an_instance_is_loaded_with_its_sessions_and_their_leases(harness: &Harness) {
    let drafts = vec![Draft::new("kind"); 4];
    harness.submit_all(drafts).await;
    let long = Worker { ttl_ms: 60_000, ..Worker::new("one") };
    let mut mine: Vec<Claimed> = harness.claim(1).await;
    mine.extend(harness.claim_as(&long, 2).await);
    harness.claim_as(&Worker::new("two"), 1).await;
    let other = harness.in_namespace("elsewhere").await;
    other.leased(Draft::new("kind")).await;
    let cancel = Action::Cancel { reason: None, grace_ms: 60_000 };
    let cancelling =
        harness.operate(mine[1].execution.id, cancel).await.expect("the cancellation is requested");
    let rows = harness
        .load(Needs {
            queries: Queries {
                instances: vec![(harness.namespace, Name::trusted("one"))],
                ..Queries::default()
            },
            ..Needs::default()
        })
        .await;
    let sessions: BTreeSet<SessionId> = rows.sessions.iter().map(|session| session.id).collect();
    let of = |ttl_ms| SessionId::of(harness.namespace, "one", ttl_ms);
    assert_eq!(sessions, BTreeSet::from([of(30_000), of(60_000)]));
    let mut expected: Vec<HeldLease> = mine
        .iter()
        .map(|claimed| {
            let lease = claimed.execution.state.lease().expect("it has a lease");
            HeldLease {
                execution: claimed.execution.id,
                session: lease.session,
                lease_id: lease.id,
                epoch: 1,
                claimed_at: lease.claimed_at,
                cancel_requested: claimed.execution.id == cancelling.id,
            }
        })
        .collect();
    let mut leases = rows.found.leases;
    expected.sort_by_key(|lease| lease.execution);
    leases.sort_by_key(|lease| lease.execution);
    assert_eq!(leases, expected);
}

pub async fn a_heartbeat_renews_and_reports_cancellations_and_lost_leases(harness: &Harness) {
    harness.submit_all(vec![Draft::new("kind"); 3]).await;
    let claimed = harness.claim(3).await;
    let fences: Vec<_> = claimed.iter().map(fence).collect();
    let cancel = |grace_ms| Action::Cancel { reason: None, grace_ms };
    harness.operate(fences[1].execution, cancel(60_000)).await.expect("the cancellation is requested");
    harness.operate(fences[2].execution, cancel(0)).await.expect("it is cancelled");
    let drain = Drain {
        namespace: harness.namespace,
        instance: Name::trusted("one"),
        actor: Name::trusted("operator"),
    };
    harness.run(drain).await.expect("the worker is known");
    assert_eq!(harness.stored(fences[0].execution).await.renewed_at, None);
    let before = harness.row(fences[0].execution).await;
    let beat = harness
        .run(Heartbeat {
            namespace: harness.namespace,
            instance: Name::trusted("one"),
            incarnation: None,
            leases: fences.clone(),
            waits_since: None,
        })
        .await
        .expect("the heartbeat names no incarnation");
    assert_eq!(beat.renewed, fences[..2]);
    assert_eq!(beat.cancel_requested, [fences[1]]);
    assert_eq!((beat.lost.len(), beat.lost[0].0), (1, fences[2]));
    assert_eq!(beat.lost[0].1.code(), "stale_lease");
    assert!(beat.drain && beat.orphans.is_empty());
    let stored = harness.stored(fences[0].execution).await;
    assert_eq!(stored.execution, before, "a renewal raises no version");
    let session = only_session(harness).await;
    assert!(session.draining && session.renewed_at.is_some());
    assert_eq!(stored.renewed_at, session.renewed_at);
    assert_eq!(harness.stored(fences[2].execution).await.renewed_at, None, "it has no lease");
    assert!(harness.claim(1).await.is_empty(), "the worker is draining");
}
