//! Workers: orphaned leases, drain, departure, and waiting heartbeats.

use crate::test_server::{self, fence, ids};
use crate::{TIMEOUT, memory_server, soon, until};
use selvedge_engine::core::Draft;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::{Fence, Op};
use selvedge_engine::core::session::EndReason;
use selvedge_engine::core::state::StateName;
use selvedge_engine::{HeartbeatResult, Namespace};
use tokio::task::JoinHandle;

/// Sends a waiting heartbeat in the background.
fn heartbeat_waiting(
    namespace: &Namespace,
    instance: &'static str,
    leases: Vec<Fence>,
) -> JoinHandle<HeartbeatResult> {
    let namespace = namespace.clone();
    tokio::spawn(async move {
        namespace.heartbeat(instance, None, leases, 3 * TIMEOUT).await.expect("the heartbeat is answered")
    })
}

#[tokio::test]
async fn a_lease_not_named_in_two_heartbeats_is_put_back_without_counting_an_interruption() {
    let (server, clock) = memory_server().await;
    let [named, unnamed] = server.submit_many(vec![Draft::new("kind"); 2]).await[..] else {
        panic!("two executions")
    };
    let claimed = server.claim("one", 2).await;
    let named = claimed.iter().find(|claimed| claimed.execution.id == named);
    let named = fence(named.expect("the first execution was claimed"));
    clock.advance_ms(10_001);
    let first = server.heartbeat("one", &[named]).await;
    assert_eq!(
        (first.renewed, first.orphaned),
        (vec![named], vec![]),
        "the reply to its claim may be under way"
    );
    clock.advance_ms(10_001);
    let second = server.heartbeat("one", &[named]).await;
    assert_eq!(second.orphaned.iter().map(|fence| fence.execution).collect::<Vec<_>>(), [unnamed]);
    let row = server.row(unnamed).await;
    assert_eq!((row.state.name(), row.detail.interruptions, row.detail.retries), (StateName::Waiting, 0, 0));
    assert_eq!(server.attempts(unnamed).await, [Some("orphaned")]);
    assert!(server.heartbeat("one", &[named]).await.orphaned.is_empty(), "an orphan is reported once");
    server.complete(named).await.expect("the lease is current");
}

#[tokio::test]
async fn a_lease_claimed_just_now_is_not_orphaned() {
    let (server, clock) = memory_server().await;
    let first = server.submit(Draft::new("kind")).await;
    let lease = fence(&server.claim_one("one").await);
    for _ in 0..3 {
        clock.advance_ms(10_001);
        server.heartbeat("one", &[lease]).await;
    }
    let second = server.submit(Draft::new("kind")).await;
    server.claim_one("one").await;
    clock.advance_ms(1);
    assert!(server.heartbeat("one", &[lease]).await.orphaned.is_empty());
    for id in [first, second] {
        assert_eq!(server.state(id).await, StateName::Active);
    }
}

#[tokio::test]
async fn a_draining_worker_gets_no_new_work_and_finishes_its_leases() {
    let (server, _) = memory_server().await;
    let [active, waiting] = server.submit_many(vec![Draft::new("kind"); 2]).await[..] else {
        panic!("two executions")
    };
    let lease = fence(&server.claim_one("one").await);
    let beat = heartbeat_waiting(&server.namespace, "one", vec![lease]);
    until("the heartbeat waits", async || server.engine.activity().0 >= 3).await;
    server
        .namespace
        .drain_worker("one", &test_server::operator())
        .await
        .expect("the drain request is accepted");
    let reply = soon(beat).await.expect("the task does not panic");
    assert!(reply.drain);
    assert_eq!(reply.renewed, [lease]);
    assert!(server.claim("one", 1).await.is_empty());
    assert!(server.heartbeat("one", &[lease]).await.drain, "the request is repeated");
    let why = server.namespace.explain(waiting).await.expect("the execution is explained");
    assert_eq!(why.reasons[0].code.as_str(), "workers_draining");
    server.complete(lease).await.expect("the lease is current");
    assert_eq!(server.state(active).await, StateName::Completed);
    assert_eq!(ids(&server.claim("two", 9).await), [waiting]);
}

#[tokio::test]
async fn draining_an_unknown_worker_is_refused() {
    let (server, _) = memory_server().await;
    let asked = server.namespace.drain_worker("nobody", &test_server::operator()).await;
    assert!(asked.expect_err("the name is unknown").to_string().contains("nobody"));
}

#[tokio::test]
async fn the_leases_of_a_departed_worker_are_put_back_without_counting_an_interruption_and_it_may_return() {
    let (server, _) = memory_server().await;
    let id = server.submit(Draft::new("kind")).await;
    let lease = fence(&server.claim_one("one").await);
    server
        .namespace
        .drain_worker("one", &test_server::operator())
        .await
        .expect("the drain request is accepted");
    assert_eq!(server.namespace.remove_worker("one", None).await.expect("the worker is known"), [lease]);
    let row = server.row(id).await;
    assert_eq!((row.state.name(), row.detail.interruptions), (StateName::Waiting, 0));
    let listed = server.namespace.workers().await.expect("the workers are listed");
    assert_eq!(
        listed.iter().map(|worker| worker.end.map(|end| end.reason)).collect::<Vec<_>>(),
        [Some(EndReason::Deleted)]
    );
    assert_eq!(server.complete(lease).await.expect_err("the lease was put back").code(), "stale_lease");
    assert_eq!(ids(&server.claim("one", 1).await), [id], "the returned worker does not drain");
    let listed = server.namespace.workers().await.expect("the workers are listed");
    assert!(listed[0].end.is_none());
}

#[tokio::test]
async fn a_waiting_heartbeat_returns_at_once_when_a_lease_is_lost() {
    let (server, _) = memory_server().await;
    let id = server.submit(Draft::new("kind")).await;
    let lease = fence(&server.claim_one("one").await);
    let beat = heartbeat_waiting(&server.namespace, "one", vec![lease]);
    until("the heartbeat waits", async || server.engine.activity().0 >= 3).await;
    server
        .operate(id, Action::Revoke { reason: Some("because".into()) })
        .await
        .expect("the lease is revoked");
    let reply = soon(beat).await.expect("the task does not panic");
    assert_eq!((reply.renewed, reply.lost.len()), (vec![], 1));
    assert_eq!(reply.lost[0].0, lease);
}

#[tokio::test]
async fn a_waiting_heartbeat_renews_the_leases_it_names() {
    let (server, clock) = memory_server().await;
    server.submit(Draft::new("kind")).await;
    let lease = fence(&server.claim_one("one").await);
    clock.advance_ms(29_000);
    let beat = heartbeat_waiting(&server.namespace, "one", vec![lease]);
    until("the heartbeat waits", async || server.engine.activity().0 >= 3).await;
    clock.advance_ms(29_000);
    assert_eq!(server.tick("lease_expiry").await.scanned, 0);
    beat.abort();
    server.report(lease, Op::Release).await.expect("the lease is current");
}

#[tokio::test]
async fn a_session_unused_for_an_hour_is_deleted() {
    let (server, clock) = memory_server().await;
    assert!(server.claim("one", 1).await.is_empty());
    clock.advance_ms(3_599_000);
    assert_eq!(server.tick("worker_liveness").await.scanned, 0);
    clock.advance_ms(2_000);
    assert_eq!(server.tick("worker_liveness").await.done, 1);
    let store = server.engine.store();
    assert!(store.sessions(None).await.expect("the sessions are read").is_empty());
}
