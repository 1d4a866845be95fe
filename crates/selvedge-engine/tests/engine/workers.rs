//! Workers: orphaned leases, drain, leaving, and heartbeats that wait.

use crate::side::{self, fence, ids};
use crate::{LONG, on_memory, soon, until};
use selvedge_engine::core::Draft;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::{Fence, Op};
use selvedge_engine::core::state::StateName;
use selvedge_engine::{Heartbeaten, Namespace};
use tokio::task::JoinHandle;

/// A heartbeat that waits in the background.
fn beat_waiting(
    namespace: &Namespace,
    instance: &'static str,
    leases: Vec<Fence>,
) -> JoinHandle<Heartbeaten> {
    let namespace = namespace.clone();
    tokio::spawn(
        async move { namespace.heartbeat(instance, leases, 3 * LONG).await.expect("it is answered") },
    )
}

#[tokio::test]
async fn a_lease_that_its_worker_does_not_name_is_put_back_at_the_second_heartbeat_without_charge() {
    let (side, clock) = on_memory().await;
    let [known, lost] = side.submit_many(vec![Draft::new("kind"); 2]).await[..] else { panic!("two") };
    let claimed = side.claim("one", 2).await;
    let (known, unknown) = (fence(claimed.iter().find(|one| one.execution.id == known).expect("it")), lost);
    clock.advance_ms(10_001);
    let first = side.beat("one", &[known]).await;
    assert_eq!((first.renewed, first.orphaned), (vec![known], vec![]), "its answer may be under way");
    clock.advance_ms(10_001);
    let second = side.beat("one", &[known]).await;
    assert_eq!(second.orphaned.iter().map(|fence| fence.execution).collect::<Vec<_>>(), [unknown]);
    let row = side.row(unknown).await;
    assert_eq!((row.state.name(), row.detail.interruptions, row.detail.retries), (StateName::Waiting, 0, 0));
    assert_eq!(side.attempts(unknown).await, [Some("orphaned")]);
    assert!(side.beat("one", &[known]).await.orphaned.is_empty(), "only once");
    side.complete(known).await.expect("it holds the lease");
}

#[tokio::test]
async fn a_lease_that_was_claimed_just_now_is_no_orphan() {
    let (side, clock) = on_memory().await;
    let first = side.submit(Draft::new("kind")).await;
    let lease = fence(&side.claim_one("one").await);
    for _ in 0..3 {
        clock.advance_ms(10_001);
        side.beat("one", &[lease]).await;
    }
    let second = side.submit(Draft::new("kind")).await;
    side.claim_one("one").await;
    clock.advance_ms(1);
    assert!(side.beat("one", &[lease]).await.orphaned.is_empty());
    for id in [first, second] {
        assert_eq!(side.state(id).await, StateName::Active);
    }
}

#[tokio::test]
async fn a_worker_that_is_asked_to_drain_gets_no_claims_is_told_and_finishes_what_it_has() {
    let (side, _) = on_memory().await;
    let [held, waits] = side.submit_many(vec![Draft::new("kind"); 2]).await[..] else { panic!("two") };
    let lease = fence(&side.claim_one("one").await);
    let beat = beat_waiting(&side.namespace, "one", vec![lease]);
    until("the heartbeat waits", async || side.engine.activity().0 >= 3).await;
    side.namespace.drain_worker("one", &side::operator()).await.expect("it is asked");
    let told = soon(beat).await.expect("it is answered");
    assert!(told.drain);
    assert_eq!(told.renewed, [lease]);
    assert!(side.claim("one", 1).await.is_empty());
    assert!(side.beat("one", &[lease]).await.drain, "also when it asks again");
    let why = side.namespace.explain(waits).await.expect("it is explained");
    assert_eq!(why.reasons[0].code, "workers_draining");
    side.complete(lease).await.expect("it holds the lease");
    assert_eq!(side.state(held).await, StateName::Completed);
    assert_eq!(ids(&side.claim("two", 9).await), [waits]);
}

#[tokio::test]
async fn a_worker_that_nobody_knows_cannot_be_asked_to_drain() {
    let (side, _) = on_memory().await;
    let asked = side.namespace.drain_worker("nobody", &side::operator()).await;
    assert!(asked.expect_err("there is none").to_string().contains("nobody"));
}

#[tokio::test]
async fn a_worker_that_has_gone_leaves_its_leases_ready_without_charge_and_may_come_back() {
    let (side, _) = on_memory().await;
    let id = side.submit(Draft::new("kind")).await;
    let lease = fence(&side.claim_one("one").await);
    side.namespace.drain_worker("one", &side::operator()).await.expect("it is asked");
    assert_eq!(side.namespace.remove_worker("one").await.expect("it is known"), [lease]);
    let row = side.row(id).await;
    assert_eq!((row.state.name(), row.detail.interruptions), (StateName::Waiting, 0));
    assert!(side.namespace.workers().await.expect("workers are read").is_empty());
    assert_eq!(side.complete(lease).await.expect_err("it was put back").code(), "stale_lease");
    assert_eq!(ids(&side.claim("one", 1).await), [id], "it drains no longer");
    assert_eq!(side.namespace.workers().await.expect("workers are read").len(), 1);
}

#[tokio::test]
async fn a_heartbeat_that_waits_returns_at_once_when_a_lease_is_lost() {
    let (side, _) = on_memory().await;
    let id = side.submit(Draft::new("kind")).await;
    let lease = fence(&side.claim_one("one").await);
    let beat = beat_waiting(&side.namespace, "one", vec![lease]);
    until("the heartbeat waits", async || side.engine.activity().0 >= 3).await;
    side.operate(id, Action::Revoke { reason: Some("because".into()) }).await.expect("it is revoked");
    let told = soon(beat).await.expect("it is answered");
    assert_eq!((told.renewed, told.lost.len()), (vec![], 1));
    assert_eq!(told.lost[0].0, lease);
}

#[tokio::test]
async fn a_heartbeat_that_waits_renews_what_it_names() {
    let (side, clock) = on_memory().await;
    side.submit(Draft::new("kind")).await;
    let lease = fence(&side.claim_one("one").await);
    clock.advance_ms(29_000);
    let beat = beat_waiting(&side.namespace, "one", vec![lease]);
    until("the heartbeat waits", async || side.engine.activity().0 >= 3).await;
    clock.advance_ms(29_000);
    assert_eq!(side.tick("lease_expiry").await.scanned, 0);
    beat.abort();
    side.report(lease, Op::Release).await.expect("it holds the lease");
}

#[tokio::test]
async fn a_session_that_nobody_used_for_long_is_forgotten() {
    let (side, clock) = on_memory().await;
    assert!(side.claim("one", 1).await.is_empty());
    clock.advance_ms(3_599_000);
    assert_eq!(side.tick("worker_liveness").await.scanned, 0);
    clock.advance_ms(2_000);
    assert_eq!(side.tick("worker_liveness").await.done, 1);
    let store = side.engine.store();
    assert!(store.sessions(None).await.expect("sessions are read").is_empty());
}
