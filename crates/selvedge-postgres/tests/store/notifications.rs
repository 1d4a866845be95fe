//! Notifications between servers on one database. The poll interval is a day unless a test sets another, so only a
//! notification can have woken the receiver.

use selvedge_engine::Options;
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::{Draft, ExecutionId, Outcome};
use selvedge_engine::store::{Notification, Transactions};
use selvedge_system_tests::server::{Server, claim_of, fence, ids, operator, passive_options};
use selvedge_system_tests::{LONG, Sandbox, stop, wait_until};
use std::time::Duration;

/// Starts a server that learns of others only by notifications.
async fn listening_server(sandbox: &Sandbox, who: &str) -> Server {
    let server = sandbox.server_with(who, Options { notifications: true, ..passive_options() }).await;
    wait_for_listener(sandbox).await;
    server
}

/// Waits until a server of this schema listens.
async fn wait_for_listener(sandbox: &Sandbox) {
    let plain = sandbox.plain().await;
    let text = "select count(*) from pg_stat_activity where query = $1 and state = 'idle'";
    let listen = format!("listen \"selvedge_{}\"", sandbox.schema);
    wait_until("the server listens", async || plain.number(text, &[&listen]).await > 0).await;
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, what).await.expect("it happens in time")
}

#[tokio::test]
async fn a_claim_that_waits_on_one_server_gets_an_execution_submitted_on_another() {
    let sandbox = Sandbox::new();
    let a = listening_server(&sandbox, "a").await;
    let b = sandbox.server_with("b", Options { notifications: true, ..passive_options() }).await;
    b.submit(Draft { lane: "other".into(), ..Draft::new("kind") }).await;
    for _ in 0..3 {
        let claim = a.claim_waiting(claim_of("one", 1), 1).await;
        let id = b.submit(Draft::new("kind")).await;
        assert_eq!(ids(&in_time(claim).await.expect("the call is answered")), [id]);
    }
    stop([&a.engine, &b.engine]).await;
}

#[tokio::test]
async fn a_class_first_submitted_on_another_server_is_claimed_where_a_newer_class_was_submitted() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.server("a").await, sandbox.server("b").await);
    let older = b.submit(Draft::new("older")).await;
    let newer = a.submit(Draft::new("newer")).await;
    assert_eq!(ids(&a.claim("one", 2).await), [older, newer]);
    stop([&a.engine, &b.engine]).await;
}

#[tokio::test]
async fn a_waiting_claim_is_woken_for_a_lane_that_its_server_does_not_know() {
    let sandbox = Sandbox::new();
    let a = listening_server(&sandbox, "a").await;
    let b = sandbox.server_with("b", Options { notifications: true, ..passive_options() }).await;
    let claim = ClaimDraft { lanes: vec!["new".into()], ..claim_of("one", 1) };
    let claim = a.claim_waiting(claim, 1).await;
    let id = b.submit(Draft { lane: "new".into(), ..Draft::new("kind") }).await;
    assert_eq!(ids(&in_time(claim).await.expect("the call is answered")), [id]);
    stop([&a.engine, &b.engine]).await;
}

#[tokio::test]
async fn an_execution_that_is_put_back_or_becomes_due_on_one_server_wakes_a_claim_on_another() {
    let sandbox = Sandbox::new();
    let a = listening_server(&sandbox, "a").await;
    let b = sandbox.server_with("b", Options { notifications: true, ..passive_options() }).await;
    let id = b.submit(Draft::new("kind")).await;
    b.claim_one("two").await;
    let claim = a.claim_waiting(claim_of("one", 1), 1).await;
    b.operate(id, Action::Revoke { reason: None }).await.expect("the revocation succeeds");
    assert_eq!(ids(&in_time(claim).await.expect("the call is answered")), [id]);
    let later = b.submit(Draft { delay: Some(When::AfterMs(1)), ..Draft::new("kind") }).await;
    let claim = a.claim_waiting(claim_of("one", 1), 1).await;
    wait_until("the delay is over", async || b.tick("delay_promoter").await.done == 1).await;
    assert_eq!(ids(&in_time(claim).await.expect("the call is answered")), [later]);
    stop([&a.engine, &b.engine]).await;
}

#[tokio::test]
async fn a_waiter_for_a_result_on_one_server_is_woken_by_its_end_on_another() {
    let sandbox = Sandbox::new();
    let a = listening_server(&sandbox, "a").await;
    let b = sandbox.server_with("b", Options { notifications: true, ..passive_options() }).await;
    let id = b.submit(Draft::new("kind")).await;
    let lease = fence(&b.claim_one("two").await);
    let namespace = a.namespace.clone();
    let result = tokio::spawn(async move { namespace.result(id, LONG).await });
    b.complete(lease).await.expect("the lease is held");
    let ended = in_time(result).await.expect("the task does not panic").expect("the read succeeds");
    assert_eq!(ended.expect("the execution has ended").outcome, Outcome::Completed);
    stop([&a.engine, &b.engine]).await;
}

#[tokio::test]
async fn a_heartbeat_that_waits_on_one_server_learns_at_once_of_a_cancel_or_a_lost_lease_on_another() {
    let sandbox = Sandbox::new();
    let a = listening_server(&sandbox, "a").await;
    let b = sandbox.server_with("b", Options { notifications: true, ..passive_options() }).await;
    let plain = sandbox.plain().await;
    let id = a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_one("one").await);
    let renewed = "select count(*) from sessions where renewed_at is not null";
    let beat = || {
        let namespace = a.namespace.clone();
        tokio::spawn(
            async move { namespace.heartbeat("one", None, vec![lease], Duration::from_secs(60)).await },
        )
    };
    let waiting = beat();
    wait_until("the heartbeat is waiting", async || plain.number(renewed, &[]).await == 1).await;
    b.operate(id, Action::Cancel { reason: None, grace_ms: 60_000 }).await.expect("the request is stored");
    let answer = in_time(waiting).await.expect("the task does not panic").expect("the call is answered");
    assert_eq!(answer.cancel_requested, [lease]);
    plain.run("update sessions set renewed_at = null").await;
    let waiting = beat();
    wait_until("the heartbeat is waiting", async || plain.number(renewed, &[]).await == 1).await;
    b.cancel(id).await.expect("the cancellation succeeds");
    let answer = in_time(waiting).await.expect("the task does not panic").expect("the call is answered");
    assert_eq!(answer.lost.len(), 1);
    stop([&a.engine, &b.engine]).await;
}

#[tokio::test]
async fn a_heartbeat_that_waits_on_one_server_learns_at_once_of_a_drain_requested_on_another() {
    let sandbox = Sandbox::new();
    let a = listening_server(&sandbox, "a").await;
    let b = sandbox.server_with("b", Options { notifications: true, ..passive_options() }).await;
    a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_one("one").await);
    let namespace = a.namespace.clone();
    let beat =
        tokio::spawn(
            async move { namespace.heartbeat("one", None, vec![lease], Duration::from_secs(60)).await },
        );
    let plain = sandbox.plain().await;
    let renewed = "select count(*) from sessions where renewed_at is not null";
    wait_until("the heartbeat is waiting", async || plain.number(renewed, &[]).await == 1).await;
    let asked = std::time::Instant::now();
    b.namespace.drain_worker("one", &operator()).await.expect("the request is stored");
    assert!(in_time(beat).await.expect("the task does not panic").expect("the call is answered").drain);
    assert!(asked.elapsed() < Duration::from_secs(3), "before the next poll of the heartbeat");
    stop([&a.engine, &b.engine]).await;
}

#[tokio::test]
async fn a_claim_that_waits_on_one_server_ends_at_once_when_its_worker_is_drained_or_deleted_on_another() {
    let sandbox = Sandbox::new();
    let a = listening_server(&sandbox, "a").await;
    let b = sandbox.server_with("b", Options { notifications: true, ..passive_options() }).await;
    let claim = a.claim_waiting(claim_of("one", 1), 1).await;
    b.namespace.drain_worker("one", &operator()).await.expect("the request is stored");
    assert!(in_time(claim).await.expect("the task does not panic").is_empty());
    let id = b.submit(Draft::new("kind")).await;
    assert!(a.claim("one", 1).await.is_empty(), "a draining worker gets nothing");
    b.cancel(id).await.expect("the cancellation succeeds");

    a.claim("two", 1).await;
    let claim = a.claim_waiting(claim_of("two", 1), 1).await;
    b.namespace.remove_worker("two", None).await.expect("the worker is known");
    assert!(in_time(claim).await.expect("the task does not panic").is_empty());
    let id = b.submit(Draft::new("kind")).await;
    assert_eq!(ids(&a.claim("two", 1).await), [id], "a later claim registers the worker again");
    stop([&a.engine, &b.engine]).await;
}

#[tokio::test]
async fn a_waiting_claim_of_a_deleted_worker_gets_nothing_even_without_notifications() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.server("a").await, sandbox.server("b").await);
    let claim = a.claim_waiting(claim_of("one", 1), 1).await;
    b.namespace.remove_worker("one", None).await.expect("the worker is known");
    // The submission hands the execution over to the waiting claim, which the transaction refuses.
    let id = a.submit(Draft::new("kind")).await;
    assert!(in_time(claim).await.expect("the task does not panic").is_empty());
    assert_eq!(a.state(id).await, StateName::Waiting);
    let workers = b.namespace.workers().await.expect("the workers are listed");
    assert!(workers.iter().all(|worker| worker.end.is_some()), "the submission does not revive it");
    stop([&a.engine, &b.engine]).await;
}

#[tokio::test]
async fn notifications_about_the_log_and_streams_reach_other_servers() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.store("a").await, sandbox.store("b").await);
    let received = tokio::spawn(async move { b.next_notification().await });
    wait_for_listener(&sandbox).await;
    let id = ExecutionId(uuid::Uuid::now_v7());
    let notification = Notification { logged: true, streamed: vec![id], ..Notification::default() };
    a.notify(notification.clone()).await.expect("the read succeeds");
    assert_eq!(in_time(received).await.expect("the task does not panic"), Some(notification));
}

#[tokio::test]
async fn without_notifications_everything_works_through_the_poll() {
    let sandbox = Sandbox::new();
    let polling = || Options { poll: Duration::from_millis(20), ..passive_options() };
    let a = sandbox.server_with("a", polling()).await;
    let b = sandbox.server_with("b", polling()).await;
    let claim = a.claim_waiting(ClaimDraft { lanes: vec!["new".into()], ..claim_of("one", 1) }, 1).await;
    let id = b.submit(Draft { lane: "new".into(), ..Draft::new("kind") }).await;
    let claimed = in_time(claim).await.expect("the call is answered");
    assert_eq!(ids(&claimed), [id]);
    let namespace = b.namespace.clone();
    let result = tokio::spawn(async move { namespace.result(id, LONG).await });
    a.complete(fence(&claimed[0])).await.expect("the lease is held");
    let ended = in_time(result).await.expect("the task does not panic").expect("the read succeeds");
    assert_eq!(ended.expect("the execution has ended").outcome, Outcome::Completed);
    stop([&a.engine, &b.engine]).await;
}

#[tokio::test]
async fn a_listener_whose_connection_was_cut_listens_again() {
    let sandbox = Sandbox::new();
    let a = listening_server(&sandbox, "a").await;
    let b = sandbox.server_with("b", Options { notifications: true, ..passive_options() }).await;
    let plain = sandbox.plain().await;
    let ours = "select count(*) from pg_stat_activity where query = $1 and state = 'idle' and backend_start > $2::text::timestamptz";
    let listen = format!("listen \"selvedge_{}\"", sandbox.schema);
    wait_until("both listen", async || plain.number(ours, &[&listen, &"-infinity"]).await == 2).await;
    let now: String =
        plain.query_one("select clock_timestamp()::text", &[]).await.expect("the read succeeds").get(0);
    let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity where query = $1";
    assert_eq!(plain.number(cut, &[&listen]).await, 2);
    wait_until("both listen again", async || plain.number(ours, &[&listen, &now]).await == 2).await;
    let claim = a.claim_waiting(claim_of("one", 1), 1).await;
    let id = b.submit(Draft::new("kind")).await;
    assert_eq!(ids(&in_time(claim).await.expect("the call is answered")), [id]);
    stop([&a.engine, &b.engine]).await;
}
