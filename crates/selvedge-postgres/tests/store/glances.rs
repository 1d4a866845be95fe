//! A glance at what is due costs the same however many sessions there are and however old the oldest snapshot is, and
//! misses nothing.

use super::plans::explain;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::{Draft, DueKind};
use selvedge_engine::store::DueReads;
use selvedge_postgres::{PostgresStore, testing};
use selvedge_system_tests::server::{claim_of, claim_wait, fence};
use selvedge_system_tests::{Sandbox, WRITERS_KEY, wait_until};
use std::collections::HashMap;
use std::time::Duration;

/// Pages that the statement of a glance may touch: a few for each index.
const PAGES: i64 = 150;

/// Returns the number of pages that the next glance and the complete overview touch.
async fn pages(sandbox: &Sandbox, store: &PostgresStore) -> (i64, i64) {
    let client =
        testing::connect(&sandbox.url("plans"), &sandbox.settings()).await.expect("the connection opens");
    let statements: HashMap<_, _> = testing::statements().into_iter().collect();
    let glance = explain(&client, statements["overview/glance"], &testing::glance_arguments(store)).await;
    let complete = "3600000, '{1,2,3,4,5}', '{1,2}', 600000, '{1,2,3,4,5,6}'";
    let complete = explain(&client, statements["overview/read"], complete).await;
    (glance.pages, complete.pages)
}

/// Looks several times, so that the times at which searches start are up to date.
async fn glance(store: &PostgresStore) {
    for _ in 0..12 {
        store.glance().await.expect("the glance succeeds");
    }
}

#[tokio::test]
async fn a_glance_costs_the_same_with_4000_sessions() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("store").await;
    let plain = sandbox.plain().await;
    plain
        .run(
            "insert into sessions (
               id, namespace, worker, instance, ttl_ms, lanes, kinds, capabilities, registered_at, seen_at, renewed_at,
               draining
             )
             select n, 1, 'worker', 'instance' || n, 30000, '{default}', null, '{}', now() - interval '1 h', now(), now(), false
             from generate_series(1, 4000) as n;
             insert into executions (
               id, submitted_at, namespace, class, partition, input, version, epoch, state, claim_priority, ready_order,
               session, until_at, lease_id, started_at, history
             )
             select
               gen_random_uuid(), now(), 1, 1, 0, 'null', 1, 1, 2, 0, now(), n, now() - interval '1 s', gen_random_uuid(), now(),
               ''
             from generate_series(1, 4000) as n;",
        )
        .await;
    glance(&store).await;
    let overview = store.glance().await.expect("the glance succeeds");
    assert!(!overview.expired_leases, "all sessions were renewed");
    let (glance, complete) = pages(&sandbox, &store).await;
    println!("4 000 sessions: {glance} pages, the complete overview {complete}");
    assert!(complete > 4_000, "the complete overview visits every session: {complete} pages");
    assert!(glance <= PAGES, "{glance} pages");
    plain.run("update sessions set renewed_at = now() - interval '1 min' where id = 7").await;
    let complete = store.overview().await.expect("the overview succeeds");
    assert!(complete.expired_leases);
}

#[tokio::test]
async fn a_glance_costs_the_same_under_an_old_snapshot() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("store").await;
    let (plain, old) = (sandbox.plain().await, sandbox.plain().await);
    old.run("begin isolation level repeatable read; select count(*) from executions").await;
    // Each was due for another reason, and has ended since: their entries stay while the snapshot does.
    plain
        .run(
            "insert into executions (
               id, submitted_at, namespace, class, partition, input, version, epoch, state, claim_priority, ready_order,
               due_kind, due_at, until_at, history
             )
             select
               gen_random_uuid(), now(), 1, 1, 0, 'null', 1, 0, 1, 0, now(), 1 + n % 6, now() - n * interval '1 ms', now(), ''
             from generate_series(1, 60000) as n;
             update executions set state = 10, due_kind = null, due_at = null, until_at = null, ended_at = now();
             insert into keys
             select 1, 3, 'key' || n, null, 0, '', now() - n * interval '1 ms' from generate_series(1, 20000) as n;
             delete from keys;",
        )
        .await;
    glance(&store).await;
    wait_until("the searches start behind the dead entries", async || {
        glance(&store).await;
        pages(&sandbox, &store).await.0 <= PAGES
    })
    .await;
    let (glance, complete) = pages(&sandbox, &store).await;
    println!("60 000 dead entries: {glance} pages, the complete overview {complete}");
    assert!(complete > 1_000, "the complete overview visits dead entries: {complete} pages");
    old.release().await;
}

#[tokio::test]
async fn a_glance_finds_what_becomes_due_and_leases_that_expire() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("store").await;
    let server = sandbox.server("server").await;
    glance(&store).await;
    server.submit(Draft { delay: Some(When::AfterMs(300)), ..Draft::new("kind") }).await;
    wait_until("the delay is over", async || {
        let overview = store.glance().await.expect("the glance succeeds");
        overview.next.iter().any(|(kind, at)| *kind == DueKind::Delay && *at <= overview.now)
    })
    .await;
    assert_eq!(server.tick("delay_promoter").await.done, 1);
    let claim = selvedge_engine::core::rules::claim::ClaimDraft { lease_ttl_ms: 500, ..claim_of("one", 1) };
    let claimed = server.namespace.claim(claim_wait(claim.clone(), Duration::ZERO)).await;
    let claimed = claimed.expect("the claim succeeds");
    assert!(!store.glance().await.expect("the glance succeeds").expired_leases);
    wait_until("the lease has expired", async || {
        store.glance().await.expect("the glance succeeds").expired_leases
    })
    .await;
    assert_eq!(server.tick("lease_expiry").await.done, 1);
    assert!(!store.glance().await.expect("the glance succeeds").expired_leases);
    assert!(server.complete(fence(&claimed[0])).await.is_err(), "its lease is gone");

    // The session has no lease now. A later one expires too.
    let claimed = server.namespace.claim(claim_wait(claim, Duration::ZERO)).await;
    assert_eq!(claimed.expect("the claim succeeds").len(), 1);
    wait_until("the lease has expired", async || {
        store.glance().await.expect("the glance succeeds").expired_leases
    })
    .await;
    server.engine.shutdown().await;
}

#[tokio::test]
async fn a_writer_of_unknown_start_delays_nothing() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("store").await;
    let server = sandbox.server("server").await;
    // Holds the lock of the writers outside of a transaction: nobody knows when its writes began.
    let unknown = sandbox.plain().await;
    unknown.run(&format!("select pg_advisory_lock_shared({WRITERS_KEY})")).await;
    glance(&store).await;
    let claim = selvedge_engine::core::rules::claim::ClaimDraft { lease_ttl_ms: 1_500, ..claim_of("one", 1) };
    server.submit(Draft::new("kind")).await;
    let claimed = server.namespace.claim(claim_wait(claim, Duration::ZERO)).await;
    assert_eq!(claimed.expect("the claim succeeds").len(), 1);
    wait_until("the lease has expired", async || {
        store.glance().await.expect("the glance succeeds").expired_leases
    })
    .await;
    assert_eq!(server.tick("lease_expiry").await.done, 1);
    // The session has no lease now.
    glance(&store).await;
    unknown.release().await;
    server.engine.shutdown().await;
}
