//! Two servers on one database get in each other's way. Each race is made certain: a third connection holds a lock until
//! the others are seen to wait for it, in the order that the test wants, and then lets go.

mod support;

use selvedge_conformance::invariants;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::{Fence, Op};
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Backoff, Draft, ExecutionId, Policy, Refusal, Retry};
use selvedge_engine::{Error, Tally};
use std::collections::HashSet;
use std::sync::Arc;
use support::test_server::{self, TestServer, claim_of, complete_op, fence, ids};
use support::{Plain, Sandbox, stop, until};
use tokio::task::JoinHandle;

/// Does something in the background.
macro_rules! meanwhile {
    ($side:ident => $what:expr) => {{
        let $side = $side.clone();
        tokio::spawn(async move { $what.await })
    }};
}

async fn joined<T>(task: JoinHandle<T>) -> T {
    task.await.expect("it does not panic")
}

/// Checks everything that must hold of all rows and the whole log, and stops the engines.
async fn end(sides: &[&TestServer]) {
    let broken = invariants::check(&**sides[0].engine.store()).await;
    assert!(broken.is_empty(), "invariants are broken: {broken:#?}");
    stop(sides.iter().map(|side| &side.engine)).await;
}

/// Waits until the lease of an execution has lapsed.
async fn has_lapsed(side: &TestServer, id: ExecutionId) {
    until("the lease has lapsed", async || {
        let lapsed = side.engine.store().lapsed(None, 10).await.expect("leases are read");
        lapsed.iter().any(|row| row.execution == id)
    })
    .await;
}

/// The holder that a refused worker is told of: its instance and epoch.
fn holder(refusal: Refusal) -> (String, u32) {
    let Refusal::StaleLease(stale) = refusal else {
        panic!("another refusal: {refusal}");
    };
    let holder = stale.holder.expect("somebody holds it");
    (holder.instance, holder.epoch)
}

fn revoke() -> Action {
    Action::Revoke { reason: None }
}

#[tokio::test]
async fn a_zombie_whose_lease_lapsed_and_was_claimed_again_cannot_complete() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.side("a").await, sandbox.side("b").await);
    let id = a.submit(Draft::new("kind")).await;
    let zombie = fence(&a.claim_with_short_lease("zombie").await);
    has_lapsed(&b, id).await;
    assert_eq!(b.tick("lease_expiry").await.done, 1);
    let refused = a.complete(zombie).await.expect_err("its lease is over");
    assert_eq!(refused.code(), "stale_lease");
    let second = fence(&b.claim_one("second").await);
    for op in [complete_op(), Op::Release, test_server::fail_op()] {
        let refused = a.report(zombie, op).await.expect_err("its lease is over");
        assert_eq!(holder(refused), ("second".into(), 2));
    }
    let beat = a.heartbeat("zombie", &[zombie]).await;
    assert_eq!((beat.renewed.len(), beat.lost.len()), (0, 1));
    b.complete(second).await.expect("it holds the lease");
    assert_eq!(a.attempts(id).await, [Some("interrupted"), Some("completed")]);
    assert!(a.events(id).await.contains(&"lease.reclaimed"));
    assert!(a.complete(zombie).await.is_err(), "also after the end");
    end(&[&a, &b]).await;
}

#[tokio::test]
async fn a_late_completion_of_the_current_lease_is_accepted() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.side("a").await, sandbox.side("b").await);
    let id = a.submit(Draft::new("kind")).await;
    let late = fence(&a.claim_with_short_lease("late").await);
    has_lapsed(&a, id).await;
    a.complete(late).await.expect("nobody has taken it away yet");
    assert_eq!(b.tick("lease_expiry").await, Tally { ticks: 1, ..Tally::default() });
    assert_eq!(b.state(id).await, StateName::Completed);
    end(&[&a, &b]).await;
}

#[tokio::test]
async fn a_terminal_execution_is_not_revived_by_a_late_release_or_claim() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.side("a").await, sandbox.side("b").await, sandbox.plain().await);
    let held = a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_one("one").await);
    let ready = a.submit(Draft::new("kind")).await;
    plain.hold_log().await;
    let cancel_held = meanwhile!(b => b.cancel(held));
    sandbox.waits_for_lock("b", 1).await;
    let cancel_ready = meanwhile!(b => b.cancel(ready));
    sandbox.waits_for_lock("b", 2).await;
    let release = meanwhile!(a => a.report(lease, Op::Release));
    sandbox.waits_for_lock("a", 1).await;
    assert!(a.claim("two", 9).await.is_empty(), "what is being cancelled is passed over");
    plain.release().await;
    joined(cancel_held).await.expect("it is cancelled");
    joined(cancel_ready).await.expect("it is cancelled");
    assert_eq!(joined(release).await.expect_err("it has ended").code(), "stale_lease");
    assert!(a.claim("two", 9).await.is_empty());
    for id in [held, ready] {
        assert_eq!(a.state(id).await, StateName::Cancelled);
    }
    end(&[&a, &b]).await;
}

#[tokio::test]
async fn two_servers_that_find_the_same_lapsed_lease_charge_one_interruption() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.side("a").await, sandbox.side("b").await, sandbox.plain().await);
    let id = a.submit(Draft::new("kind")).await;
    a.claim_with_short_lease("dies").await;
    has_lapsed(&a, id).await;
    plain.hold_sessions().await;
    let first = meanwhile!(a => a.tick("lease_expiry"));
    sandbox.waits_for_lock("a", 1).await;
    let second = b.tick("lease_expiry").await;
    assert_eq!((second.scanned, second.done, second.lost), (1, 0, 1), "the other has it");
    plain.release().await;
    assert_eq!(joined(first).await.done, 1);
    assert_eq!(b.tick("lease_expiry").await.scanned, 0);
    let row = a.row(id).await;
    assert_eq!((row.detail.interruptions, row.version), (1, 3));
    let ended = a.events(id).await.into_iter().filter(|kind| *kind == "attempt.ended");
    assert_eq!(ended.count(), 1);
    end(&[&a, &b]).await;
}

/// Keeps the only writer of a narrow engine busy with a command on `other`, whose row `plain` holds.
async fn keep_busy(
    sandbox: &Sandbox,
    plain: &Plain,
    narrow: &TestServer,
    other: ExecutionId,
) -> JoinHandle<()> {
    plain.hold(other).await;
    let narrow = narrow.clone();
    let busy = tokio::spawn(async move {
        let raise = Action::Prioritise { priority: 5 };
        narrow.operate(other, raise).await.expect("it is raised");
    });
    sandbox.waits_for_lock("narrow", 1).await;
    busy
}

#[tokio::test]
async fn a_server_that_acts_on_a_lapsed_lease_after_another_did_charges_nothing() {
    let sandbox = Sandbox::new();
    let (a, narrow, plain) =
        (sandbox.side("a").await, sandbox.narrow_side("narrow").await, sandbox.plain().await);
    narrow.tick("lease_expiry").await;
    let id = a.submit(Draft::new("kind")).await;
    a.claim_with_short_lease("dies").await;
    has_lapsed(&a, id).await;
    let other = a.submit(Draft::new("kind")).await;
    let busy = keep_busy(&sandbox, &plain, &narrow, other).await;
    let since = sandbox.now().await;
    let late = meanwhile!(narrow => narrow.tick("lease_expiry"));
    sandbox.has_read("narrow", "-- Leases whose first term", &since).await;
    assert_eq!(a.tick("lease_expiry").await.done, 1);
    plain.release().await;
    joined(busy).await;
    let late = joined(late).await;
    assert_eq!((late.scanned, late.done, late.lost), (1, 0, 1));
    assert_eq!(a.row(id).await.detail.interruptions, 1);
    end(&[&a, &narrow]).await;
}

#[tokio::test]
async fn a_rescuer_that_read_a_lapsed_lease_before_it_was_completed_leaves_it_alone() {
    let sandbox = Sandbox::new();
    let (a, narrow, plain) =
        (sandbox.side("a").await, sandbox.narrow_side("narrow").await, sandbox.plain().await);
    narrow.tick("lease_expiry").await;
    let id = a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_with_short_lease("slow").await);
    has_lapsed(&a, id).await;
    let other = a.submit(Draft::new("kind")).await;
    let busy = keep_busy(&sandbox, &plain, &narrow, other).await;
    let since = sandbox.now().await;
    let rescue = meanwhile!(narrow => narrow.tick("lease_expiry"));
    sandbox.has_read("narrow", "-- Leases whose first term", &since).await;
    a.complete(lease).await.expect("nobody has taken it away yet");
    plain.release().await;
    joined(busy).await;
    let rescue = joined(rescue).await;
    assert_eq!((rescue.scanned, rescue.done, rescue.lost), (1, 0, 1));
    let row = a.row(id).await;
    assert_eq!((row.state.name(), row.version), (StateName::Completed, 3));
    assert_eq!(a.attempts(id).await, [Some("completed")]);
    end(&[&a, &narrow]).await;
}

#[tokio::test]
async fn a_rescuer_that_read_a_timed_out_attempt_before_it_was_completed_leaves_it_alone() {
    let sandbox = Sandbox::new();
    let (a, narrow, plain) =
        (sandbox.side("a").await, sandbox.narrow_side("narrow").await, sandbox.plain().await);
    narrow.tick("attempt_timeout").await;
    let policy = Policy { attempt_timeout_ms: Some(1), ..Policy::default() };
    let id = a.submit(Draft { policy, ..Draft::new("kind") }).await;
    let lease = fence(&a.claim_one("slow").await);
    let other = a.submit(Draft::new("kind")).await;
    let busy = keep_busy(&sandbox, &plain, &narrow, other).await;
    until("the attempt has run too long", async || {
        let store = a.engine.store();
        let due = store.due(selvedge_engine::core::DueKind::AttemptTimeout, None, 10).await;
        !due.expect("what is due is read").is_empty()
    })
    .await;
    let since = sandbox.now().await;
    let rescue = meanwhile!(narrow => narrow.tick("attempt_timeout"));
    sandbox.has_read("narrow", "-- What is due", &since).await;
    a.complete(lease).await.expect("nobody has taken it away yet");
    plain.release().await;
    joined(busy).await;
    let rescue = joined(rescue).await;
    assert_eq!((rescue.scanned, rescue.done, rescue.lost), (1, 0, 1));
    assert_eq!(a.attempts(id).await, [Some("completed")]);
    end(&[&a, &narrow]).await;
}

#[tokio::test]
async fn a_worker_that_always_dies_ends_as_expired_when_its_interruptions_are_used_up() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.side("a").await, sandbox.side("b").await);
    let policy = Policy {
        retry: Retry { max_interruptions: 2, backoff: Backoff::Fixed { delay_ms: 0 }, ..Retry::default() },
        ..Policy::default()
    };
    let id = a.submit(Draft { policy, ..Draft::new("kind") }).await;
    for interruptions in [1, 2, 2] {
        a.claim_with_short_lease("dies").await;
        has_lapsed(&a, id).await;
        let (one, two) = tokio::join!(a.tick("lease_expiry"), b.tick("lease_expiry"));
        assert_eq!(one.done + two.done, 1);
        assert_eq!(a.row(id).await.detail.interruptions, interruptions);
    }
    assert_eq!(a.state(id).await, StateName::Expired);
    assert_eq!(a.attempts(id).await, [Some("interrupted"); 3]);
    assert!(a.claim("again", 9).await.is_empty());
    end(&[&a, &b]).await;
}

#[tokio::test]
async fn an_engine_that_starts_leaves_leases_alone_that_are_live_in_the_same_process() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("shared").await;
    let a = TestServer::new(store.clone(), test_server::passive_options()).await;
    let id = a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_one("one").await);
    let b = TestServer::new(store, test_server::passive_options()).await;
    for reconciler in
        ["lease_expiry", "attempt_timeout", "execution_deadline", "worker_liveness", "retention"]
    {
        assert_eq!(b.tick(reconciler).await, Tally { ticks: 1, ..Tally::default() });
    }
    assert!(b.claim("two", 9).await.is_empty());
    assert_eq!(a.heartbeat("one", &[lease]).await.renewed, [lease]);
    a.complete(lease).await.expect("it holds the lease");
    assert_eq!(a.attempts(id).await, [Some("completed")]);
    end(&[&a]).await;
}

#[tokio::test]
async fn a_heartbeat_that_comes_before_the_lapse_keeps_the_lease() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.side("a").await, sandbox.side("b").await, sandbox.plain().await);
    let id = a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_with_short_lease("one").await);
    has_lapsed(&a, id).await;
    plain.hold_sessions().await;
    let beat = meanwhile!(a => a.heartbeat("one", &[lease]));
    sandbox.waits_for_lock("a", 1).await;
    let tick = meanwhile!(b => b.tick("lease_expiry"));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    assert_eq!(joined(beat).await.renewed, [lease]);
    let tick = joined(tick).await;
    assert_eq!((tick.scanned, tick.done, tick.lost), (1, 0, 1));
    a.complete(lease).await.expect("it holds the lease");
    assert_eq!(a.attempts(id).await, [Some("completed")]);
    end(&[&a, &b]).await;
}

#[tokio::test]
async fn a_heartbeat_that_comes_after_the_lapse_is_told_that_the_lease_is_lost() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.side("a").await, sandbox.side("b").await, sandbox.plain().await);
    let id = a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_with_short_lease("one").await);
    has_lapsed(&a, id).await;
    plain.hold_sessions().await;
    let tick = meanwhile!(b => b.tick("lease_expiry"));
    sandbox.waits_for_lock("b", 1).await;
    let beat = meanwhile!(a => a.heartbeat("one", &[lease]));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    assert_eq!(joined(tick).await.done, 1);
    let beat = joined(beat).await;
    assert!(beat.renewed.is_empty());
    assert_eq!(beat.lost.len(), 1);
    assert_eq!(a.state(id).await, StateName::Waiting);
    assert!(a.complete(lease).await.is_err());
    end(&[&a, &b]).await;
}

/// A heartbeat and a completion of the same worker go in one batch, while another server lets the lease lapse.
#[tokio::test]
async fn a_heartbeat_with_a_completion_and_a_lapse_do_not_wait_for_each_other_in_a_circle() {
    let sandbox = Sandbox::new();
    let a = sandbox.side("a").await;
    let lapsing = sandbox.store("b").await;
    let b = TestServer::new(lapsing.clone(), test_server::passive_options()).await;
    let store =
        sandbox.store_with("narrow", selvedge_postgres::Settings { writers: 1, ..sandbox.settings() }).await;
    let narrow = TestServer::new(store.clone(), test_server::passive_options()).await;
    let (plain, sessions) = (sandbox.plain().await, sandbox.plain().await);
    let id = narrow.submit(Draft::new("kind")).await;
    let lease = fence(&narrow.claim_with_short_lease("one").await);
    let other = a.submit(Draft::new("kind")).await;
    has_lapsed(&a, id).await;
    let busy = keep_busy(&sandbox, &plain, &narrow, other).await;
    let beat = meanwhile!(narrow => narrow.heartbeat("one", &[lease]));
    let complete = meanwhile!(narrow => narrow.complete(lease));
    tokio::task::yield_now().await;
    sessions.hold_sessions().await;
    plain.release().await;
    joined(busy).await;
    sandbox.waits_for_lock("narrow", 1).await;
    // Its execution is locked before the session is waited for: the lapse passes it over.
    let tick = b.tick("lease_expiry").await;
    sessions.release().await;
    let (beat, complete) = (joined(beat).await, joined(complete).await);
    assert_eq!((store.conflicts(), lapsing.conflicts()), (0, 0), "nobody had to be sent back");
    match tick.done {
        0 => assert!(complete.is_ok(), "it was completed in time"),
        _ => assert!(complete.is_err() && beat.lost.len() == 1, "it had lapsed"),
    }
    end(&[&a, &b, &narrow]).await;
}

#[tokio::test]
async fn a_completion_that_comes_before_a_cancel_stands() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.side("a").await, sandbox.side("b").await, sandbox.plain().await);
    let id = a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_one("one").await);
    plain.hold(id).await;
    let complete = meanwhile!(a => a.complete(lease));
    sandbox.waits_for_lock("a", 1).await;
    let cancel = meanwhile!(b => b.cancel(id));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    assert_eq!(joined(complete).await.expect("it is first").state, StateName::Completed);
    assert_eq!(joined(cancel).await.expect_err("it has ended").code(), "already_terminal");
    let stored = a.stored(id).await;
    assert_eq!((stored.execution.state.name(), stored.execution.version), (StateName::Completed, 3));
    assert_eq!(stored.result.as_deref(), Some(&b"\"done\""[..]));
    end(&[&a, &b]).await;
}

#[tokio::test]
async fn a_completion_that_comes_after_a_cancel_is_refused() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.side("a").await, sandbox.side("b").await, sandbox.plain().await);
    let id = a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_one("one").await);
    plain.hold(id).await;
    let cancel = meanwhile!(b => b.cancel(id));
    sandbox.waits_for_lock("b", 1).await;
    let complete = meanwhile!(a => a.complete(lease));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    joined(cancel).await.expect("it is first");
    assert_eq!(joined(complete).await.expect_err("it has ended").code(), "stale_lease");
    let stored = a.stored(id).await;
    assert_eq!((stored.execution.state.name(), stored.execution.version), (StateName::Cancelled, 3));
    assert_eq!((stored.result, a.attempts(id).await), (None, vec![Some("cancelled")]));
    end(&[&a, &b]).await;
}

#[tokio::test]
async fn a_completion_and_a_timeout_end_an_attempt_once_in_either_order() {
    for timeout_first in [true, false] {
        let sandbox = Sandbox::new();
        let (a, b, plain) = (sandbox.side("a").await, sandbox.side("b").await, sandbox.plain().await);
        let policy = Policy { attempt_timeout_ms: Some(1), ..Policy::default() };
        let id = a.submit(Draft { policy, ..Draft::new("kind") }).await;
        let lease = fence(&a.claim_one("slow").await);
        until("the attempt has run too long", async || {
            let overview = a.engine.store().overview().await.expect("the store is looked at");
            overview.next.iter().any(|(_, at)| *at <= overview.now)
        })
        .await;
        // Both stop before they commit, with the row locked: whoever is first.
        plain.hold_log().await;
        let (complete, timeout) = if timeout_first {
            let timeout = meanwhile!(b => b.tick("attempt_timeout"));
            sandbox.waits_for_lock("b", 1).await;
            let complete = meanwhile!(a => a.complete(lease));
            sandbox.waits_for_lock("a", 1).await;
            plain.release().await;
            (joined(complete).await, joined(timeout).await)
        } else {
            let complete = meanwhile!(a => a.complete(lease));
            sandbox.waits_for_lock("a", 1).await;
            let timeout = b.tick("attempt_timeout").await;
            plain.release().await;
            (joined(complete).await, timeout)
        };
        assert_eq!((complete.is_ok(), timeout.done), (!timeout_first, u64::from(timeout_first)));
        let outcome = if timeout_first { "timeout" } else { "completed" };
        assert_eq!(a.attempts(id).await, [Some(outcome)]);
        end(&[&a, &b]).await;
    }
}

#[tokio::test]
async fn a_claim_passes_over_what_another_server_is_about_to_take() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.side("a").await, sandbox.side("b").await, sandbox.plain().await);
    let first = a.submit(Draft::new("kind")).await;
    let second = a.submit(Draft::new("kind")).await;
    plain.hold_log().await;
    let one = meanwhile!(a => a.claim("one", 1));
    sandbox.waits_for_lock("a", 1).await;
    let two = meanwhile!(b => b.claim("two", 2));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    assert_eq!(ids(&joined(one).await), [first]);
    assert_eq!(ids(&joined(two).await), [second]);
    end(&[&a, &b]).await;
}

#[tokio::test]
async fn engines_that_claim_from_one_lane_never_share_an_execution_and_lose_none() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.side("a").await, sandbox.side("b").await);
    let same_store = TestServer::new(a.engine.store().clone(), test_server::passive_options()).await;
    let total = 600;
    let submitted: HashSet<ExecutionId> =
        a.submit_many(vec![Draft::new("kind"); total]).await.into_iter().collect();
    let left = Arc::new(std::sync::atomic::AtomicUsize::new(total));
    let mut tasks = Vec::new();
    for (number, side) in [&a, &a, &b, &b, &same_store, &same_store].into_iter().enumerate() {
        let (side, left) = (side.clone(), left.clone());
        tasks.push(tokio::spawn(async move {
            let mut mine: Vec<Fence> = Vec::new();
            while left.load(std::sync::atomic::Ordering::SeqCst) > 0 {
                let claimed = side.claim(&format!("worker{number}"), 7).await;
                left.fetch_sub(claimed.len(), std::sync::atomic::Ordering::SeqCst);
                for one in &claimed {
                    mine.push(fence(one));
                    side.complete(fence(one)).await.expect("it holds the lease");
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
    end(&[&a, &b]).await;
}

#[tokio::test]
async fn a_remembered_lease_that_was_revoked_through_another_server_is_refused() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.side("a").await, sandbox.side("b").await);
    let id = a.submit(Draft::new("kind")).await;
    let first = fence(&a.claim_one("one").await);
    b.operate(id, revoke()).await.expect("it is revoked");
    let refused = a.complete(first).await.expect_err("its lease is over");
    assert_eq!(refused.code(), "stale_lease");
    assert_eq!(a.state(id).await, StateName::Waiting);
    let second = fence(&b.claim_one("two").await);
    assert_eq!(holder(a.complete(first).await.expect_err("its lease is over")), ("two".into(), 2));
    // What one engine remembers, another may complete.
    a.complete(second).await.expect("the fence is right");
    assert_eq!(b.complete(second).await.expect("it is the same report").state, StateName::Completed);
    assert_eq!(a.attempts(id).await, [Some("revoked"), Some("completed")]);
    end(&[&a, &b]).await;
}

#[tokio::test]
async fn a_remembered_lease_of_a_later_claim_through_another_server_is_completed_there() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.side("a").await, sandbox.side("b").await);
    let id = a.submit(Draft::new("kind")).await;
    a.claim_one("one").await;
    b.operate(id, revoke()).await.expect("it is revoked");
    let second = fence(&b.claim_one("two").await);
    b.complete(second).await.expect("it holds the lease");
    assert_eq!(a.state(id).await, StateName::Completed);
    end(&[&a, &b]).await;
}

#[tokio::test]
async fn a_second_submission_with_a_key_waits_for_the_first_and_is_that_one() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.side("a").await, sandbox.side("b").await, sandbox.plain().await);
    for number in 0..3 {
        let keyed = Draft {
            id: (number == 0).then(uuid::Uuid::now_v7),
            idempotency_key: (number == 1).then(|| "idempotent".into()),
            unique_while_active: (number == 2).then(|| "unique".into()),
            ..Draft::new("kind")
        };
        a.namespace.submit(Draft::new("kind")).await.expect("its class is interned");
        plain.hold_log().await;
        let (namespace, draft) = (a.namespace.clone(), keyed.clone());
        let first = tokio::spawn(async move { namespace.submit(draft).await });
        sandbox.waits_for_lock("a", 1).await;
        let (namespace, draft) = (b.namespace.clone(), keyed);
        let second = tokio::spawn(async move { namespace.submit(draft).await });
        sandbox.waits_for_lock("b", 1).await;
        plain.release().await;
        let first = joined(first).await.expect("it is accepted");
        let second = joined(second).await.expect("it is accepted");
        assert_eq!((first.duplicate, second.duplicate), (false, true));
        assert_eq!(first.execution, second.execution);
    }
    end(&[&a, &b]).await;
}

#[tokio::test]
async fn a_claimer_that_goes_away_before_its_claim_commits_gets_its_leases_put_back() {
    let sandbox = Sandbox::new();
    let (a, plain) = (sandbox.side("a").await, sandbox.plain().await);
    let id = a.submit(Draft::new("kind")).await;
    plain.hold_log().await;
    let claim = meanwhile!(a => a.claim("gone", 1));
    sandbox.waits_for_lock("a", 1).await;
    claim.abort();
    assert!(claim.await.is_err());
    plain.release().await;
    until("the lease is put back", async || a.row(id).await.version == 3).await;
    let row = a.row(id).await;
    assert_eq!((row.state.name(), row.detail.interruptions), (StateName::Waiting, 0));
    assert_eq!(a.attempts(id).await, [Some("orphaned")]);
    assert_eq!(ids(&a.claim("there", 1).await), [id]);
    end(&[&a]).await;
}

#[tokio::test]
async fn a_row_that_is_held_too_long_is_left_for_later_and_nothing_has_happened() {
    let sandbox = Sandbox::new();
    let settings = selvedge_postgres::Settings {
        lock_timeout: std::time::Duration::from_millis(20),
        ..sandbox.settings()
    };
    let a = TestServer::new(sandbox.store_with("a", settings).await, test_server::passive_options()).await;
    let plain = sandbox.plain().await;
    let id = a.submit(Draft::new("kind")).await;
    plain.hold(id).await;
    let cancel = Action::Cancel { reason: None, grace_ms: 0 };
    let answer = a.namespace.operate(id, cancel, None, &test_server::operator()).await;
    let Err(Error::Store(error)) = answer else { panic!("{answer:?}") };
    assert!(error.is_transient(), "{error}");
    plain.release().await;
    assert_eq!(a.row(id).await.version, 1);
    a.cancel(id).await.expect("nobody is in the way any more");
    end(&[&a]).await;
}

#[tokio::test]
async fn what_an_operator_touches_while_a_claim_looks_is_claimed_as_soon_as_he_is_done() {
    let sandbox = Sandbox::new();
    let (a, plain) = (sandbox.side("a").await, sandbox.plain().await);
    let id = a.submit(Draft::new("kind")).await;
    plain.hold_log().await;
    let raise = meanwhile!(a => a.operate(id, Action::Prioritise { priority: 3 }));
    sandbox.waits_for_lock("a", 1).await;
    let claim = a.claim_waiting(claim_of("one", 1), 1).await;
    plain.release().await;
    joined(raise).await.expect("it is raised");
    assert_eq!(ids(&joined(claim).await), [id]);
    end(&[&a]).await;
}
