//! Two servers compete for the same execution. Each race is made certain: a third connection takes a lock, waits until
//! the others wait for it in the order that the test needs, and releases it.

use selvedge_conformance::invariants;
use selvedge_engine::ReconcilerScope;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::{Fence, Op};
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Backoff, Draft, ExecutionId, Policy, Refusal, Retry};
use selvedge_engine::{Error, Tally};
use selvedge_system_tests::server::{self, Server, claim_of, complete_op, fence, ids};
use selvedge_system_tests::{PlainConnection, Sandbox, in_background, joined, stop, wait_until};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// Checks the invariants of all rows and of the whole log, and stops the servers.
pub async fn check_and_stop(servers: &[&Server]) {
    let broken = invariants::check(&**servers[0].engine.store()).await;
    assert!(broken.is_empty(), "invariants are broken: {broken:#?}");
    stop(servers.iter().map(|server| &server.engine)).await;
}

/// Waits until the lease of an execution has expired.
async fn lease_has_expired(server: &Server, id: ExecutionId) {
    wait_until("the lease has expired", async || {
        let expired = server
            .engine
            .store()
            .expired_leases(&ReconcilerScope::ALL, None, 10)
            .await
            .expect("the leases are read");
        expired.iter().any(|row| row.execution == id)
    })
    .await;
}

/// Returns the current holder that a refusal names: its instance and epoch.
fn holder(refusal: Refusal) -> (String, u32) {
    let Refusal::StaleLease(stale) = refusal else {
        panic!("another refusal: {refusal}");
    };
    let holder = stale.holder.expect("there is a holder");
    (holder.instance, holder.epoch)
}

fn revoke() -> Action {
    Action::Revoke { reason: None }
}

#[tokio::test]
async fn a_zombie_whose_lease_expired_and_was_reclaimed_cannot_complete() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.server("a").await, sandbox.server("b").await);
    let id = a.submit(Draft::new("kind")).await;
    let zombie = fence(&a.claim_with_short_lease("zombie").await);
    lease_has_expired(&b, id).await;
    assert_eq!(b.tick("lease_expiry").await.done, 1);
    let refused = a.complete(zombie).await.expect_err("the lease has ended");
    assert_eq!(refused.code(), "stale_lease");
    let second = fence(&b.claim_one("second").await);
    for op in [complete_op(), Op::Release, server::fail_op()] {
        let refused = a.report(zombie, op).await.expect_err("the lease has ended");
        assert_eq!(holder(refused), ("second".into(), 2));
    }
    let beat = a.heartbeat("zombie", &[zombie]).await;
    assert_eq!((beat.renewed.len(), beat.lost.len()), (0, 1));
    b.complete(second).await.expect("the lease is active");
    assert_eq!(a.attempts(id).await, [Some("interrupted"), Some("completed")]);
    assert!(a.events(id).await.contains(&"lease.reclaimed"));
    assert!(a.complete(zombie).await.is_err(), "a report after the end is refused too");
    check_and_stop(&[&a, &b]).await;
}

#[tokio::test]
async fn a_late_completion_of_the_current_lease_is_accepted() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.server("a").await, sandbox.server("b").await);
    let id = a.submit(Draft::new("kind")).await;
    let late = fence(&a.claim_with_short_lease("late").await);
    lease_has_expired(&a, id).await;
    a.complete(late).await.expect("the lease has not been reclaimed yet");
    assert_eq!(b.tick("lease_expiry").await, Tally { ticks: 1, ..Tally::default() });
    assert_eq!(b.state(id).await, StateName::Completed);
    check_and_stop(&[&a, &b]).await;
}

#[tokio::test]
async fn a_terminal_execution_is_not_revived_by_a_late_release_or_claim() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.server("a").await, sandbox.server("b").await, sandbox.plain().await);
    let active = a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_one("one").await);
    let waiting = a.submit(Draft::new("kind")).await;
    plain.block_commits().await;
    let cancel_active = in_background!(b => b.cancel(active));
    sandbox.waits_for_lock("b", 1).await;
    let cancel_waiting = in_background!(b => b.cancel(waiting));
    sandbox.waits_for_lock("b", 2).await;
    let release = in_background!(a => a.report(lease, Op::Release));
    sandbox.waits_for_lock("a", 1).await;
    assert!(a.claim("two", 9).await.is_empty(), "an execution that is being cancelled is skipped");
    plain.release().await;
    joined(cancel_active).await.expect("the cancellation succeeds");
    joined(cancel_waiting).await.expect("the cancellation succeeds");
    assert_eq!(joined(release).await.expect_err("the execution has ended").code(), "stale_lease");
    assert!(a.claim("two", 9).await.is_empty());
    for id in [active, waiting] {
        assert_eq!(a.state(id).await, StateName::Cancelled);
    }
    check_and_stop(&[&a, &b]).await;
}

#[tokio::test]
async fn two_servers_that_find_the_same_expired_lease_count_one_interruption() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.server("a").await, sandbox.server("b").await, sandbox.plain().await);
    let id = a.submit(Draft::new("kind")).await;
    a.claim_with_short_lease("dies").await;
    lease_has_expired(&a, id).await;
    plain.lock_sessions().await;
    let first = in_background!(a => a.tick("lease_expiry"));
    sandbox.waits_for_lock("a", 1).await;
    let second = b.tick("lease_expiry").await;
    assert_eq!(
        (second.scanned, second.done, second.superseded),
        (1, 0, 1),
        "the other transaction has locked it"
    );
    plain.release().await;
    assert_eq!(joined(first).await.done, 1);
    assert_eq!(b.tick("lease_expiry").await.scanned, 0);
    let row = a.row(id).await;
    assert_eq!((row.detail.interruptions, row.version), (1, 3));
    let ended = a.events(id).await.into_iter().filter(|kind| *kind == "attempt.ended");
    assert_eq!(ended.count(), 1);
    check_and_stop(&[&a, &b]).await;
}

/// Keeps the single writer of a server busy with an operation on `other`, whose row `plain` locks.
async fn keep_busy(
    sandbox: &Sandbox,
    plain: &PlainConnection,
    narrow: &Server,
    other: ExecutionId,
) -> JoinHandle<()> {
    plain.lock_execution(other).await;
    let narrow = narrow.clone();
    let busy = tokio::spawn(async move {
        let raise = Action::Prioritise { priority: 5 };
        narrow.operate(other, raise).await.expect("the priority is raised");
    });
    sandbox.waits_for_lock("narrow", 1).await;
    busy
}

#[tokio::test]
async fn a_server_that_acts_on_an_expired_lease_after_another_counts_no_interruption() {
    let sandbox = Sandbox::new();
    let (a, narrow, plain) =
        (sandbox.server("a").await, sandbox.single_writer_server("narrow").await, sandbox.plain().await);
    narrow.tick("lease_expiry").await;
    let id = a.submit(Draft::new("kind")).await;
    a.claim_with_short_lease("dies").await;
    lease_has_expired(&a, id).await;
    let other = a.submit(Draft::new("kind")).await;
    let busy = keep_busy(&sandbox, &plain, &narrow, other).await;
    let since = sandbox.now().await;
    let late = in_background!(narrow => narrow.tick("lease_expiry"));
    sandbox.has_read("narrow", "leases/list_expired", &since).await;
    assert_eq!(a.tick("lease_expiry").await.done, 1);
    plain.release().await;
    joined(busy).await;
    let late = joined(late).await;
    assert_eq!((late.scanned, late.done, late.superseded), (1, 0, 1));
    assert_eq!(a.row(id).await.detail.interruptions, 1);
    check_and_stop(&[&a, &narrow]).await;
}

#[tokio::test]
async fn a_reconciler_that_read_an_expired_lease_before_its_completion_leaves_it_unchanged() {
    let sandbox = Sandbox::new();
    let (a, narrow, plain) =
        (sandbox.server("a").await, sandbox.single_writer_server("narrow").await, sandbox.plain().await);
    narrow.tick("lease_expiry").await;
    let id = a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_with_short_lease("slow").await);
    lease_has_expired(&a, id).await;
    let other = a.submit(Draft::new("kind")).await;
    let busy = keep_busy(&sandbox, &plain, &narrow, other).await;
    let since = sandbox.now().await;
    let tick = in_background!(narrow => narrow.tick("lease_expiry"));
    sandbox.has_read("narrow", "leases/list_expired", &since).await;
    a.complete(lease).await.expect("the lease has not been reclaimed yet");
    plain.release().await;
    joined(busy).await;
    let tick = joined(tick).await;
    assert_eq!((tick.scanned, tick.done, tick.superseded), (1, 0, 1));
    let row = a.row(id).await;
    assert_eq!((row.state.name(), row.version), (StateName::Completed, 3));
    assert_eq!(a.attempts(id).await, [Some("completed")]);
    check_and_stop(&[&a, &narrow]).await;
}

#[tokio::test]
async fn a_reconciler_that_read_a_timed_out_attempt_before_its_completion_leaves_it_unchanged() {
    let sandbox = Sandbox::new();
    let (a, narrow, plain) =
        (sandbox.server("a").await, sandbox.single_writer_server("narrow").await, sandbox.plain().await);
    narrow.tick("attempt_timeout").await;
    let policy = Policy { attempt_timeout_ms: Some(1), ..Policy::default() };
    let id = a.submit(Draft { policy, ..Draft::new("kind") }).await;
    let lease = fence(&a.claim_one("slow").await);
    let other = a.submit(Draft::new("kind")).await;
    let busy = keep_busy(&sandbox, &plain, &narrow, other).await;
    wait_until("the attempt has timed out", async || {
        let store = a.engine.store();
        let due =
            store.due(&ReconcilerScope::ALL, selvedge_engine::core::DueKind::AttemptTimeout, None, 10).await;
        !due.expect("due executions are read").is_empty()
    })
    .await;
    let since = sandbox.now().await;
    let tick = in_background!(narrow => narrow.tick("attempt_timeout"));
    sandbox.has_read("narrow", "executions/list_due", &since).await;
    a.complete(lease).await.expect("the lease has not been reclaimed yet");
    plain.release().await;
    joined(busy).await;
    let tick = joined(tick).await;
    assert_eq!((tick.scanned, tick.done, tick.superseded), (1, 0, 1));
    assert_eq!(a.attempts(id).await, [Some("completed")]);
    check_and_stop(&[&a, &narrow]).await;
}

#[tokio::test]
async fn an_execution_whose_worker_always_dies_expires_when_its_interruptions_are_used_up() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.server("a").await, sandbox.server("b").await);
    let policy = Policy {
        retry: Retry { max_interruptions: 2, backoff: Backoff::Fixed { delay_ms: 0 }, ..Retry::default() },
        ..Policy::default()
    };
    let id = a.submit(Draft { policy, ..Draft::new("kind") }).await;
    for interruptions in [1, 2, 2] {
        a.claim_with_short_lease("dies").await;
        lease_has_expired(&a, id).await;
        let (one, two) = tokio::join!(a.tick("lease_expiry"), b.tick("lease_expiry"));
        assert_eq!(one.done + two.done, 1);
        assert_eq!(a.row(id).await.detail.interruptions, interruptions);
    }
    assert_eq!(a.state(id).await, StateName::Expired);
    assert_eq!(a.attempts(id).await, [Some("interrupted"); 3]);
    assert!(a.claim("again", 9).await.is_empty());
    check_and_stop(&[&a, &b]).await;
}

#[tokio::test]
async fn an_engine_that_starts_leaves_live_leases_of_the_same_process_unchanged() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("shared").await;
    let a = Server::new(store.clone(), server::passive_options()).await;
    let id = a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_one("one").await);
    let b = Server::new(store, server::passive_options()).await;
    for reconciler in
        ["lease_expiry", "attempt_timeout", "execution_deadline", "worker_liveness", "retention"]
    {
        assert_eq!(b.tick(reconciler).await, Tally { ticks: 1, ..Tally::default() });
    }
    assert!(b.claim("two", 9).await.is_empty());
    assert_eq!(a.heartbeat("one", &[lease]).await.renewed, [lease]);
    a.complete(lease).await.expect("the lease is active");
    assert_eq!(a.attempts(id).await, [Some("completed")]);
    check_and_stop(&[&a]).await;
}

#[tokio::test]
async fn a_heartbeat_that_comes_before_the_expiry_keeps_the_lease() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.server("a").await, sandbox.server("b").await, sandbox.plain().await);
    let id = a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_with_short_lease("one").await);
    lease_has_expired(&a, id).await;
    plain.lock_sessions().await;
    let beat = in_background!(a => a.heartbeat("one", &[lease]));
    sandbox.waits_for_lock("a", 1).await;
    let tick = in_background!(b => b.tick("lease_expiry"));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    assert_eq!(joined(beat).await.renewed, [lease]);
    let tick = joined(tick).await;
    assert_eq!((tick.scanned, tick.done, tick.superseded), (1, 0, 1));
    a.complete(lease).await.expect("the lease is active");
    assert_eq!(a.attempts(id).await, [Some("completed")]);
    check_and_stop(&[&a, &b]).await;
}

#[tokio::test]
async fn a_heartbeat_that_comes_after_the_expiry_reports_the_lease_as_lost() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.server("a").await, sandbox.server("b").await, sandbox.plain().await);
    let id = a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_with_short_lease("one").await);
    lease_has_expired(&a, id).await;
    plain.lock_sessions().await;
    let tick = in_background!(b => b.tick("lease_expiry"));
    sandbox.waits_for_lock("b", 1).await;
    let beat = in_background!(a => a.heartbeat("one", &[lease]));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    assert_eq!(joined(tick).await.done, 1);
    let beat = joined(beat).await;
    assert!(beat.renewed.is_empty());
    assert_eq!(beat.lost.len(), 1);
    assert_eq!(a.state(id).await, StateName::Waiting);
    assert!(a.complete(lease).await.is_err());
    check_and_stop(&[&a, &b]).await;
}

/// A heartbeat and a completion of the same worker share one batch, while another server expires the lease.
#[tokio::test]
async fn a_heartbeat_with_a_completion_and_an_expiry_do_not_deadlock() {
    let sandbox = Sandbox::new();
    let a = sandbox.server("a").await;
    let expiring = sandbox.store("b").await;
    let b = Server::new(expiring.clone(), server::passive_options()).await;
    let store =
        sandbox.store_with("narrow", selvedge_postgres::Settings { writers: 1, ..sandbox.settings() }).await;
    let narrow = Server::new(store.clone(), server::passive_options()).await;
    let (plain, sessions) = (sandbox.plain().await, sandbox.plain().await);
    let id = narrow.submit(Draft::new("kind")).await;
    let lease = fence(&narrow.claim_with_short_lease("one").await);
    let other = a.submit(Draft::new("kind")).await;
    lease_has_expired(&a, id).await;
    let busy = keep_busy(&sandbox, &plain, &narrow, other).await;
    let beat = in_background!(narrow => narrow.heartbeat("one", &[lease]));
    let complete = in_background!(narrow => narrow.complete(lease));
    tokio::task::yield_now().await;
    sessions.lock_sessions().await;
    plain.release().await;
    joined(busy).await;
    sandbox.waits_for_lock("narrow", 1).await;
    // The batch locks the execution before it waits for the session, so the expiry skips the execution.
    let tick = b.tick("lease_expiry").await;
    sessions.release().await;
    let (beat, complete) = (joined(beat).await, joined(complete).await);
    assert_eq!((store.conflicts(), expiring.conflicts()), (0, 0), "no transaction was retried");
    match tick.done {
        0 => assert!(complete.is_ok(), "the completion came first"),
        _ => assert!(complete.is_err() && beat.lost.len() == 1, "the expiry came first"),
    }
    check_and_stop(&[&a, &b, &narrow]).await;
}

#[tokio::test]
async fn a_completion_that_comes_before_a_cancel_stands() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.server("a").await, sandbox.server("b").await, sandbox.plain().await);
    let id = a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_one("one").await);
    plain.lock_execution(id).await;
    let complete = in_background!(a => a.complete(lease));
    sandbox.waits_for_lock("a", 1).await;
    let cancel = in_background!(b => b.cancel(id));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    assert_eq!(joined(complete).await.expect("the first call succeeds").state, StateName::Completed);
    assert_eq!(joined(cancel).await.expect_err("the execution has ended").code(), "already_terminal");
    let stored = a.stored(id).await;
    assert_eq!((stored.execution.state.name(), stored.execution.version), (StateName::Completed, 3));
    assert_eq!(stored.result.as_deref(), Some(&b"\"done\""[..]));
    check_and_stop(&[&a, &b]).await;
}

#[tokio::test]
async fn a_completion_that_comes_after_a_cancel_is_refused() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.server("a").await, sandbox.server("b").await, sandbox.plain().await);
    let id = a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_one("one").await);
    plain.lock_execution(id).await;
    let cancel = in_background!(b => b.cancel(id));
    sandbox.waits_for_lock("b", 1).await;
    let complete = in_background!(a => a.complete(lease));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    joined(cancel).await.expect("the first call succeeds");
    assert_eq!(joined(complete).await.expect_err("the execution has ended").code(), "stale_lease");
    let stored = a.stored(id).await;
    assert_eq!((stored.execution.state.name(), stored.execution.version), (StateName::Cancelled, 3));
    assert_eq!((stored.result, a.attempts(id).await), (None, vec![Some("cancelled")]));
    check_and_stop(&[&a, &b]).await;
}

#[tokio::test]
async fn a_completion_and_a_timeout_end_an_attempt_once_in_either_order() {
    for timeout_first in [true, false] {
        let sandbox = Sandbox::new();
        let (a, b, plain) = (sandbox.server("a").await, sandbox.server("b").await, sandbox.plain().await);
        let policy = Policy { attempt_timeout_ms: Some(1), ..Policy::default() };
        let id = a.submit(Draft { policy, ..Draft::new("kind") }).await;
        let lease = fence(&a.claim_one("slow").await);
        wait_until("the attempt has timed out", async || {
            let overview = a.engine.store().overview().await.expect("the overview is read");
            overview.next.iter().any(|(_, at)| *at <= overview.now)
        })
        .await;
        // Both are blocked before their commit; the first has locked the row.
        plain.block_commits().await;
        let (complete, timeout) = if timeout_first {
            let timeout = in_background!(b => b.tick("attempt_timeout"));
            sandbox.waits_for_lock("b", 1).await;
            let complete = in_background!(a => a.complete(lease));
            sandbox.waits_for_lock("a", 1).await;
            plain.release().await;
            (joined(complete).await, joined(timeout).await)
        } else {
            let complete = in_background!(a => a.complete(lease));
            sandbox.waits_for_lock("a", 1).await;
            let timeout = b.tick("attempt_timeout").await;
            plain.release().await;
            (joined(complete).await, timeout)
        };
        assert_eq!((complete.is_ok(), timeout.done), (!timeout_first, u64::from(timeout_first)));
        let outcome = if timeout_first { "timeout" } else { "completed" };
        assert_eq!(a.attempts(id).await, [Some(outcome)]);
        check_and_stop(&[&a, &b]).await;
    }
}

#[tokio::test]
async fn a_claim_skips_an_execution_that_another_server_is_about_to_claim() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.server("a").await, sandbox.server("b").await, sandbox.plain().await);
    let first = a.submit(Draft::new("kind")).await;
    let second = a.submit(Draft::new("kind")).await;
    plain.block_commits().await;
    let one = in_background!(a => a.claim("one", 1));
    sandbox.waits_for_lock("a", 1).await;
    let two = in_background!(b => b.claim("two", 2));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    assert_eq!(ids(&joined(one).await), [first]);
    assert_eq!(ids(&joined(two).await), [second]);
    check_and_stop(&[&a, &b]).await;
}

#[tokio::test]
async fn engines_that_claim_from_one_lane_never_share_an_execution_and_lose_none() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.server("a").await, sandbox.server("b").await);
    let same_store = Server::new(a.engine.store().clone(), server::passive_options()).await;
    let total = 600;
    let submitted: HashSet<ExecutionId> =
        a.submit_many(vec![Draft::new("kind"); total]).await.into_iter().collect();
    let left = Arc::new(std::sync::atomic::AtomicUsize::new(total));
    let mut tasks = Vec::new();
    for (number, server) in [&a, &a, &b, &b, &same_store, &same_store].into_iter().enumerate() {
        let (server, left) = (server.clone(), left.clone());
        tasks.push(tokio::spawn(async move {
            let mut mine: Vec<Fence> = Vec::new();
            while left.load(std::sync::atomic::Ordering::SeqCst) > 0 {
                let claimed = server.claim(&format!("worker{number}"), 7).await;
                left.fetch_sub(claimed.len(), std::sync::atomic::Ordering::SeqCst);
                for one in &claimed {
                    mine.push(fence(one));
                    server.complete(fence(one)).await.expect("the lease is active");
                }
            }
            mine
        }));
    }
    let mut claimed = Vec::new();
    for task in tasks {
        claimed.extend(joined(task).await);
    }
    assert_eq!(claimed.len(), total);
    assert!(claimed.iter().all(|fence| fence.epoch == 1));
    assert_eq!(claimed.iter().map(|fence| fence.execution).collect::<HashSet<_>>(), submitted);
    check_and_stop(&[&a, &b]).await;
}

#[tokio::test]
async fn a_cached_lease_that_was_revoked_through_another_server_is_refused() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.server("a").await, sandbox.server("b").await);
    let id = a.submit(Draft::new("kind")).await;
    let first = fence(&a.claim_one("one").await);
    b.operate(id, revoke()).await.expect("the revocation succeeds");
    let refused = a.complete(first).await.expect_err("the lease has ended");
    assert_eq!(refused.code(), "stale_lease");
    assert_eq!(a.state(id).await, StateName::Waiting);
    let second = fence(&b.claim_one("two").await);
    assert_eq!(holder(a.complete(first).await.expect_err("the lease has ended")), ("two".into(), 2));
    // A lease that one server has cached can be completed through another.
    a.complete(second).await.expect("the fence is current");
    assert_eq!(b.complete(second).await.expect("a repeated report is accepted").state, StateName::Completed);
    assert_eq!(a.attempts(id).await, [Some("revoked"), Some("completed")]);
    check_and_stop(&[&a, &b]).await;
}

#[tokio::test]
async fn a_later_claim_of_a_cached_lease_through_another_server_is_completed_there() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.server("a").await, sandbox.server("b").await);
    let id = a.submit(Draft::new("kind")).await;
    a.claim_one("one").await;
    b.operate(id, revoke()).await.expect("the revocation succeeds");
    let second = fence(&b.claim_one("two").await);
    b.complete(second).await.expect("the lease is active");
    assert_eq!(a.state(id).await, StateName::Completed);
    check_and_stop(&[&a, &b]).await;
}

#[tokio::test]
async fn a_second_submission_with_a_key_waits_for_the_first_and_returns_it() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.server("a").await, sandbox.server("b").await, sandbox.plain().await);
    for number in 0..3 {
        let keyed = Draft {
            id: (number == 0).then(uuid::Uuid::now_v7),
            idempotency_key: (number == 1).then(|| "idempotent".into()),
            unique_while_active: (number == 2).then(|| "unique".into()),
            ..Draft::new("kind")
        };
        a.namespace.submit(Draft::new("kind")).await.expect("the class is interned");
        plain.block_commits().await;
        let (namespace, draft) = (a.namespace.clone(), keyed.clone());
        let first = tokio::spawn(async move { namespace.submit(draft).await });
        sandbox.waits_for_lock("a", 1).await;
        let (namespace, draft) = (b.namespace.clone(), keyed);
        let second = tokio::spawn(async move { namespace.submit(draft).await });
        sandbox.waits_for_lock("b", 1).await;
        plain.release().await;
        let first = joined(first).await.expect("the request is accepted");
        let second = joined(second).await.expect("the request is accepted");
        assert_eq!((first.duplicate, second.duplicate), (false, true));
        assert_eq!(first.execution, second.execution);
    }
    check_and_stop(&[&a, &b]).await;
}

#[tokio::test]
async fn a_claim_whose_caller_goes_away_before_its_commit_is_put_back() {
    let sandbox = Sandbox::new();
    let (a, plain) = (sandbox.server("a").await, sandbox.plain().await);
    let id = a.submit(Draft::new("kind")).await;
    plain.block_commits().await;
    let claim = in_background!(a => a.claim("gone", 1));
    sandbox.waits_for_lock("a", 1).await;
    claim.abort();
    assert!(claim.await.is_err());
    plain.release().await;
    wait_until("the lease is put back", async || a.row(id).await.version == 3).await;
    let row = a.row(id).await;
    assert_eq!((row.state.name(), row.detail.interruptions), (StateName::Waiting, 0));
    assert_eq!(a.attempts(id).await, [Some("orphaned")]);
    assert_eq!(ids(&a.claim("there", 1).await), [id]);
    check_and_stop(&[&a]).await;
}

#[tokio::test]
async fn a_row_that_is_locked_too_long_fails_the_call_without_effect() {
    let sandbox = Sandbox::new();
    let settings = selvedge_postgres::Settings {
        lock_timeout: std::time::Duration::from_millis(20),
        ..sandbox.settings()
    };
    let a = Server::new(sandbox.store_with("a", settings).await, server::passive_options()).await;
    let plain = sandbox.plain().await;
    let id = a.submit(Draft::new("kind")).await;
    plain.lock_execution(id).await;
    let cancel = Action::Cancel { reason: None, grace_ms: 0 };
    let answer = a.namespace.operate(id, cancel, None, &server::operator()).await;
    let Err(Error::Store(error)) = answer else { panic!("{answer:?}") };
    assert!(error.is_transient(), "{error}");
    plain.release().await;
    assert_eq!(a.row(id).await.version, 1);
    a.cancel(id).await.expect("no lock is in the way any more");
    check_and_stop(&[&a]).await;
}

#[tokio::test]
async fn an_execution_that_an_operator_changes_during_a_claim_is_claimed_right_after() {
    let sandbox = Sandbox::new();
    let (a, plain) = (sandbox.server("a").await, sandbox.plain().await);
    let id = a.submit(Draft::new("kind")).await;
    plain.block_commits().await;
    let raise = in_background!(a => a.operate(id, Action::Prioritise { priority: 3 }));
    sandbox.waits_for_lock("a", 1).await;
    let claim = a.claim_waiting(claim_of("one", 1), 1).await;
    plain.release().await;
    joined(raise).await.expect("the priority is raised");
    assert_eq!(ids(&joined(claim).await), [id]);
    check_and_stop(&[&a]).await;
}
