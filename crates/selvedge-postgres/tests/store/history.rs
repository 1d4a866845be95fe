//! A database that lost commits, as after a failover or a restored backup: no work is claimed as that of another lane.

use selvedge_engine::Error;
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::{Draft, ExecutionId, Name};
use selvedge_system_tests::server::{Server, claim_of, claim_wait, ids};
use selvedge_system_tests::{LONG, PlainConnection, Sandbox, wait_until};
use std::time::{Duration, Instant};

fn in_lane(lane: &str) -> Draft {
    Draft { lane: lane.into(), ..Draft::new("kind") }
}

fn claim_from(lane: &str) -> ClaimDraft {
    ClaimDraft { lanes: vec![lane.into()], ..claim_of("instance", 10) }
}

/// Claims from a lane, and tries again while the store is unavailable.
async fn claim(server: &Server, lane: &str) -> Vec<ExecutionId> {
    let deadline = Instant::now() + LONG;
    loop {
        match server.namespace.claim(claim_wait(claim_from(lane), Duration::ZERO)).await {
            Ok(claimed) => return ids(&claimed),
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
}

/// Submits, and tries again while the store is unavailable.
async fn submit(server: &Server, draft: Draft) -> ExecutionId {
    let draft = Draft { id: Some(uuid::Uuid::now_v7()), ..draft };
    let deadline = Instant::now() + LONG;
    loop {
        match server.namespace.submit(draft.clone()).await {
            Ok(submitted) => return submitted.execution.id,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
}

/// Removes the classes after a number, with all that was written since, and ends all connections of a server.
async fn lose_classes(sandbox: &Sandbox, plain: &PlainConnection, after: i32, who: &str) {
    plain
        .run(&format!(
            "delete from executions where class > {after};
             delete from class_priorities where class > {after};
             delete from classes where id > {after};
             select pg_terminate_backend(pid)
             from pg_stat_activity
             where application_name = '{}_{who}'",
            sandbox.schema
        ))
        .await;
    wait_until("the connections are gone", async || sandbox.connections(who).await == 0).await;
}

async fn class_of(plain: &PlainConnection, lane: &str) -> i64 {
    plain.number("select id::bigint from classes where lane = $1", &[&lane]).await
}

#[tokio::test]
async fn lost_classes_are_inserted_again_with_their_ids_before_anybody_else_has_them() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let plain = sandbox.plain().await;
    submit(&server, in_lane("a")).await;
    submit(&server, in_lane("b")).await;
    let (first, second) = (class_of(&plain, "a").await, class_of(&plain, "b").await);
    lose_classes(&sandbox, &plain, first as i32, "server").await;

    let again = submit(&server, in_lane("b")).await;
    assert_eq!(class_of(&plain, "b").await, second);
    let other = sandbox.server("other").await;
    let third = submit(&other, in_lane("c")).await;
    assert!(class_of(&plain, "c").await > second);
    for server in [&server, &other] {
        let work = submit(server, in_lane("c")).await;
        assert!(claim(server, "c").await.contains(&work));
    }
    assert_eq!(claim(&other, "b").await, [again]);
    assert_ne!(third, again);
}

#[tokio::test]
async fn a_server_that_knows_a_class_by_an_id_that_now_is_another_one_does_nothing() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let plain = sandbox.plain().await;
    submit(&server, in_lane("a")).await;
    submit(&server, in_lane("b")).await;
    let (first, second) = (class_of(&plain, "a").await, class_of(&plain, "b").await);
    lose_classes(&sandbox, &plain, first as i32, "server").await;
    // Another server opens the database as it is now, and gives the id to another lane.
    let other = sandbox.server("other").await;
    let work = submit(&other, in_lane("c")).await;
    assert_eq!(class_of(&plain, "c").await, second, "the id is used again");

    // A lost connection may be noticed only when it is used.
    let is_refused = |error: Error| error.to_string().contains("another history");
    wait_until("submissions are refused", async || {
        is_refused(server.namespace.submit(in_lane("b")).await.expect_err("the call fails"))
    })
    .await;
    wait_until("claims are refused", async || {
        let claimed = server.namespace.claim(claim_wait(claim_from("b"), Duration::ZERO)).await;
        is_refused(claimed.expect_err("the call fails"))
    })
    .await;
    assert!(server.engine.ping().await.is_err(), "the server is not ready");

    // Started again, it has the names of the database.
    let restarted = sandbox.server("restarted").await;
    assert_eq!(claim(&restarted, "b").await, []);
    let of_b = submit(&restarted, in_lane("b")).await;
    assert_eq!(claim(&restarted, "b").await, [of_b]);
    assert_eq!(claim(&restarted, "c").await, [work]);
}

/// Ends all connections of a server, and waits until its new ones answer.
async fn reconnect(sandbox: &Sandbox, plain: &PlainConnection, server: &Server, who: &str) {
    plain
        .run(&format!(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = '{}_{who}'",
            sandbox.schema
        ))
        .await;
    wait_until("the connections are gone", async || sandbox.connections(who).await == 0).await;
    submit(server, in_lane("any")).await;
}

#[tokio::test]
async fn a_server_that_knew_a_deleted_namespace_accepts_a_database_in_which_its_name_is_used_again() {
    let sandbox = Sandbox::new();
    let (one, other) = (sandbox.server("one").await, sandbox.server("other").await);
    let plain = sandbox.plain().await;
    let old = one.engine.namespace("trial").await.expect("it is created");
    let known = other.engine.namespace("trial").await.expect("it exists");
    assert_eq!(known.id(), old.id());
    plain.run("update namespaces set deletion = 'done' where name = 'trial'").await;
    let new = one.engine.store().namespace(&Name::trusted("trial")).await.expect("it is created again");
    assert!(new > old.id());
    reconnect(&sandbox, &plain, &other, "other").await;

    // The database loses the new life of the name, and the first server, which knows it, inserts it again.
    plain.run(&format!("delete from namespaces where id = {}", new.0)).await;
    plain.run(&format!("update namespaces set name = 'trial' where id = {}", old.id().0)).await;
    reconnect(&sandbox, &plain, &one, "one").await;
    let found = one.engine.store().find_namespace(&Name::trusted("trial")).await.expect("it is read");
    assert_eq!(found, Some(new));
    reconnect(&sandbox, &plain, &other, "other").await;
}
