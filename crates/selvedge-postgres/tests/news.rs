//! Notification between servers on one database: what one makes ready or ends, the others hear of. The slow poll is a day away here
//! unless a test says otherwise, so only a notification can have done it.

mod support;

use selvedge_engine::Options;
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::{Draft, ExecutionId, Outcome};
use selvedge_engine::store::{Notification, Store};
use std::time::Duration;
use support::test_server::{TestServer, claim_of, fence, ids, operator, passive_options};
use support::{LONG, Sandbox, stop, until};

/// An engine that hears of others, and only by notification.
async fn hearing(sandbox: &Sandbox, who: &str) -> TestServer {
    let side = sandbox.side_with(who, Options { notifications: true, ..passive_options() }).await;
    listens(sandbox).await;
    side
}

/// Waits until every engine of this schema that will listen does.
async fn listens(sandbox: &Sandbox) {
    let plain = sandbox.plain().await;
    let text = "select count(*) from pg_stat_activity where query = $1 and state = 'idle'";
    let listen = format!("listen \"selvedge_{}\"", sandbox.schema);
    until("it listens", async || plain.number(text, &[&listen]).await > 0).await;
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, what).await.expect("it comes in time")
}

#[tokio::test]
async fn a_claim_that_waits_on_one_server_gets_what_is_submitted_on_another() {
    let sandbox = Sandbox::new();
    let a = hearing(&sandbox, "a").await;
    let b = sandbox.side_with("b", Options { notifications: true, ..passive_options() }).await;
    b.submit(Draft { lane: "other".into(), ..Draft::new("kind") }).await;
    for _ in 0..3 {
        let claim = a.claim_waiting(claim_of("one", 1), 1).await;
        let id = b.submit(Draft::new("kind")).await;
        assert_eq!(ids(&soon(claim).await.expect("it is answered")), [id]);
    }
    stop([&a.engine, &b.engine]).await;
}

#[tokio::test]
async fn a_kind_that_another_server_was_the_first_to_submit_is_claimed_where_a_newer_one_was_submitted() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.side("a").await, sandbox.side("b").await);
    let older = b.submit(Draft::new("older")).await;
    let newer = a.submit(Draft::new("newer")).await;
    assert_eq!(ids(&a.claim("one", 2).await), [older, newer]);
    stop([&a.engine, &b.engine]).await;
}

#[tokio::test]
async fn a_claim_that_waits_hears_of_a_lane_that_its_server_has_never_met() {
    let sandbox = Sandbox::new();
    let a = hearing(&sandbox, "a").await;
    let b = sandbox.side_with("b", Options { notifications: true, ..passive_options() }).await;
    let claim = ClaimDraft { lanes: vec!["new".into()], ..claim_of("one", 1) };
    let claim = a.claim_waiting(claim, 1).await;
    let id = b.submit(Draft { lane: "new".into(), ..Draft::new("kind") }).await;
    assert_eq!(ids(&soon(claim).await.expect("it is answered")), [id]);
    stop([&a.engine, &b.engine]).await;
}

#[tokio::test]
async fn what_is_put_back_or_becomes_due_on_one_server_wakes_a_claim_on_another() {
    let sandbox = Sandbox::new();
    let a = hearing(&sandbox, "a").await;
    let b = sandbox.side_with("b", Options { notifications: true, ..passive_options() }).await;
    let id = b.submit(Draft::new("kind")).await;
    b.claim_one("two").await;
    let claim = a.claim_waiting(claim_of("one", 1), 1).await;
    b.operate(id, Action::Revoke { reason: None }).await.expect("it is revoked");
    assert_eq!(ids(&soon(claim).await.expect("it is answered")), [id]);
    let later = b.submit(Draft { delay: Some(When::AfterMs(1)), ..Draft::new("kind") }).await;
    let claim = a.claim_waiting(claim_of("one", 1), 1).await;
    until("its delay is over", async || b.tick("delay_promoter").await.done == 1).await;
    assert_eq!(ids(&soon(claim).await.expect("it is answered")), [later]);
    stop([&a.engine, &b.engine]).await;
}

#[tokio::test]
async fn who_waits_for_a_result_on_one_server_hears_of_its_end_on_another() {
    let sandbox = Sandbox::new();
    let a = hearing(&sandbox, "a").await;
    let b = sandbox.side_with("b", Options { notifications: true, ..passive_options() }).await;
    let id = b.submit(Draft::new("kind")).await;
    let lease = fence(&b.claim_one("two").await);
    let namespace = a.namespace.clone();
    let result = tokio::spawn(async move { namespace.result(id, LONG).await });
    b.complete(lease).await.expect("it holds the lease");
    let ended = soon(result).await.expect("it does not panic").expect("it is read");
    assert_eq!(ended.expect("it has ended").outcome, Outcome::Completed);
    stop([&a.engine, &b.engine]).await;
}

#[tokio::test]
async fn a_heartbeat_that_waits_on_one_server_is_told_at_once_what_is_asked_or_taken_on_another() {
    let sandbox = Sandbox::new();
    let a = hearing(&sandbox, "a").await;
    let b = sandbox.side_with("b", Options { notifications: true, ..passive_options() }).await;
    let plain = sandbox.plain().await;
    let id = a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_one("one").await);
    let renewed = "select count(*) from sessions where renewed_at is not null";
    let beat = || {
        let namespace = a.namespace.clone();
        tokio::spawn(async move { namespace.heartbeat("one", vec![lease], Duration::from_secs(60)).await })
    };
    let waiting = beat();
    until("the heartbeat waits", async || plain.number(renewed, &[]).await == 1).await;
    b.operate(id, Action::Cancel { reason: None, grace_ms: 60_000 }).await.expect("it is asked");
    let told = soon(waiting).await.expect("it does not panic").expect("it is answered");
    assert_eq!(told.cancel_requested, [lease]);
    plain.run("update sessions set renewed_at = null").await;
    let waiting = beat();
    until("the heartbeat waits", async || plain.number(renewed, &[]).await == 1).await;
    b.cancel(id).await.expect("it is cancelled");
    let told = soon(waiting).await.expect("it does not panic").expect("it is answered");
    assert_eq!(told.lost.len(), 1);
    stop([&a.engine, &b.engine]).await;
}

#[tokio::test]
async fn a_heartbeat_that_waits_on_one_server_is_told_at_once_that_another_asked_it_to_drain() {
    let sandbox = Sandbox::new();
    let a = hearing(&sandbox, "a").await;
    let b = sandbox.side_with("b", Options { notifications: true, ..passive_options() }).await;
    a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_one("one").await);
    let namespace = a.namespace.clone();
    let beat =
        tokio::spawn(async move { namespace.heartbeat("one", vec![lease], Duration::from_secs(60)).await });
    let plain = sandbox.plain().await;
    let renewed = "select count(*) from sessions where renewed_at is not null";
    until("the heartbeat waits", async || plain.number(renewed, &[]).await == 1).await;
    let asked = std::time::Instant::now();
    b.namespace.drain_worker("one", &operator()).await.expect("it is asked");
    assert!(soon(beat).await.expect("it does not panic").expect("it is answered").drain);
    assert!(asked.elapsed() < Duration::from_secs(3), "before the heartbeat looks again by itself");
    stop([&a.engine, &b.engine]).await;
}

#[tokio::test]
async fn what_was_logged_or_streamed_on_one_server_is_told_to_another() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.store("a").await, sandbox.store("b").await);
    let hears = tokio::spawn(async move { b.news().await });
    listens(&sandbox).await;
    let id = ExecutionId(uuid::Uuid::now_v7());
    let news = Notification { logged: true, streamed: vec![id], ..Notification::default() };
    a.announce(news.clone()).await.expect("it is told");
    assert_eq!(soon(hears).await.expect("it does not panic"), Some(news));
}

#[tokio::test]
async fn with_notifications_off_everything_still_works_through_the_poll() {
    let sandbox = Sandbox::new();
    let polling = || Options { poll: Duration::from_millis(20), ..passive_options() };
    let a = sandbox.side_with("a", polling()).await;
    let b = sandbox.side_with("b", polling()).await;
    let claim = a.claim_waiting(ClaimDraft { lanes: vec!["new".into()], ..claim_of("one", 1) }, 1).await;
    let id = b.submit(Draft { lane: "new".into(), ..Draft::new("kind") }).await;
    let claimed = soon(claim).await.expect("it is answered");
    assert_eq!(ids(&claimed), [id]);
    let namespace = b.namespace.clone();
    let result = tokio::spawn(async move { namespace.result(id, LONG).await });
    a.complete(fence(&claimed[0])).await.expect("it holds the lease");
    let ended = soon(result).await.expect("it does not panic").expect("it is read");
    assert_eq!(ended.expect("it has ended").outcome, Outcome::Completed);
    stop([&a.engine, &b.engine]).await;
}

#[tokio::test]
async fn a_listener_whose_connection_was_cut_listens_again() {
    let sandbox = Sandbox::new();
    let a = hearing(&sandbox, "a").await;
    let b = sandbox.side_with("b", Options { notifications: true, ..passive_options() }).await;
    let plain = sandbox.plain().await;
    let ours = "select count(*) from pg_stat_activity where query = $1 and state = 'idle' and backend_start > $2::text::timestamptz";
    let listen = format!("listen \"selvedge_{}\"", sandbox.schema);
    until("both listen", async || plain.number(ours, &[&listen, &"-infinity"]).await == 2).await;
    let now: String =
        plain.query_one("select clock_timestamp()::text", &[]).await.expect("it is told").get(0);
    let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity where query = $1";
    assert_eq!(plain.number(cut, &[&listen]).await, 2);
    until("both listen again", async || plain.number(ours, &[&listen, &now]).await == 2).await;
    let claim = a.claim_waiting(claim_of("one", 1), 1).await;
    let id = b.submit(Draft::new("kind")).await;
    assert_eq!(ids(&soon(claim).await.expect("it is answered")), [id]);
    stop([&a.engine, &b.engine]).await;
}
