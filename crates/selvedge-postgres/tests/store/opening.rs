//! Opening a store: the first server runs the missing migrations, and a schema that is too new is refused.

use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::state::StateName;
use selvedge_core::{Draft, FlowId, Gate, GateId, NamespaceId};
use selvedge_postgres::PostgresStore;
use selvedge_store::{DueReads, Error, ExecutionReads, FlowReads, GateReads, Transactions};
use selvedge_system_tests::Sandbox;
use selvedge_system_tests::server::Server;
use std::sync::Arc;
use uuid::Uuid;

#[tokio::test]
async fn servers_that_open_an_empty_schema_at_once_all_succeed() {
    let sandbox = Sandbox::new();
    let opening = (0..4).map(|_| {
        let (url, settings) = (sandbox.url("opens"), sandbox.settings());
        tokio::spawn(async move { PostgresStore::connect_with(&url, settings).await })
    });
    for opened in opening.collect::<Vec<_>>() {
        let store = opened.await.expect("the task does not panic").expect("the store opens");
        store.ping().await.expect("the store answers");
    }
}

#[tokio::test]
async fn a_schema_that_needs_a_newer_program_is_refused_and_left_unchanged() {
    let sandbox = Sandbox::new();
    sandbox.store("first").await.close().await;
    let plain = sandbox.plain().await;
    plain.run("update schema_version set version = 99, minimum_reader = 98").await;
    let error = PostgresStore::connect_with(&sandbox.url("older"), sandbox.settings()).await.err();
    assert!(matches!(error, Some(Error::SchemaTooNew { found: 99, minimum: 98, .. })), "{error:?}");
    plain.run("update schema_version set minimum_reader = 1").await;
    let store = PostgresStore::connect_with(&sandbox.url("older"), sandbox.settings()).await;
    store
        .expect("a newer schema that an older reader understands opens")
        .ping()
        .await
        .expect("the store answers");
    assert_eq!(plain.number("select version::bigint from schema_version", &[]).await, 99);
}

#[tokio::test]
async fn an_unreachable_or_invalid_address_is_reported() {
    for (address, code) in
        [("postgres://nobody@127.0.0.1:1/none", "unavailable"), ("postgres://:bad:port", "bad")]
    {
        match PostgresStore::connect(address).await.err() {
            Some(Error::Unavailable(_)) => assert_eq!(code, "unavailable"),
            Some(Error::BadAddress(detail)) => {
                assert!(code == "bad" && detail.contains("postgres://USER"), "{detail}")
            }
            other => panic!("{address}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_schema_without_flows_is_migrated_and_keeps_its_rows() {
    let sandbox = Sandbox::new();
    let plain = sandbox.plain().await;
    plain.run(&format!("create schema {}", sandbox.schema)).await;
    plain.run(include_str!("../../src/migrations/0001_foundation.sql")).await;
    plain
        .run(
            "create table schema_version (version integer not null, minimum_reader integer not null);
             insert into schema_version values (1, 1);
             insert into namespaces (name) values ('default');
             insert into executions (
               id, submitted_at, namespace, class, partition, input, version, epoch, state, priority, ready_order, history
             )
             values ('00000000-0000-7000-8000-000000000001', now(), 1, 1, 0, 'null', 1, 0, 0, 0, now(), '')",
        )
        .await;
    let store = sandbox.store("store").await;
    assert_eq!(plain.number("select version::bigint from schema_version", &[]).await, 23);
    let alone = Uuid::parse_str("00000000-0000-7000-8000-000000000001").expect("the text is a UUID");
    let filter = Filter { flow: Some(FlowId(alone)), ..Filter::all(NamespaceId(1)) };
    let listed = store.list(&filter, None, 10, Payloads::NONE).await.expect("the list is read").rows;
    assert_eq!(listed.len(), 1, "an execution without a flow counts as a flow of its own");
}

#[tokio::test]
async fn a_schema_without_pools_is_migrated_and_a_crowded_lane_is_claimed_in_order() {
    let sandbox = Sandbox::new();
    let plain = sandbox.plain().await;
    plain.run(&format!("create schema {}", sandbox.schema)).await;
    plain.run(include_str!("../../src/migrations/0001_foundation.sql")).await;
    plain
        .run(
            "create table schema_version (version integer not null, minimum_reader integer not null);
             insert into schema_version values (1, 1);
             insert into namespaces (name) values ('default');
             insert into classes select n, 1, 'default', 'kind ' || n, '{}' from generate_series(1, 40) as n;
             insert into class_priorities select n, 0, 0 from generate_series(1, 40) as n;
             insert into executions (
               id, submitted_at, namespace, class, partition, input, version, epoch, state, priority, ready_order, history
             )
             select
               ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, now(), 1, n, 0, 'null', 1, 0, 0, 0,
               now() - n * interval '1 s', ''
             from generate_series(1, 40) as n",
        )
        .await;
    let server = sandbox.server("server").await;
    let claimed: Vec<i32> = server.claim("one", 100).await.iter().map(|one| one.execution.class.0).collect();
    assert_eq!(claimed, (1..=40).rev().collect::<Vec<i32>>());
    assert_eq!(plain.number("select count(*) from classes where pool = -33", &[]).await, 8);
    server.engine.shutdown().await;
}

#[tokio::test]
async fn a_schema_without_suspension_is_migrated_and_keeps_its_flows() {
    let sandbox = Sandbox::new();
    let plain = sandbox.plain().await;
    plain.run(&format!("create schema {}", sandbox.schema)).await;
    for migration in [
        include_str!("../../src/migrations/0001_foundation.sql"),
        include_str!("../../src/migrations/0002_flows.sql"),
        include_str!("../../src/migrations/0003_log.sql"),
        include_str!("../../src/migrations/0004_streams.sql"),
    ] {
        plain.run(migration).await;
    }
    plain
        .run(
            "create table schema_version (version integer not null, minimum_reader integer not null);
             insert into schema_version values (4, 4);
             insert into namespaces (name) values ('default');
             insert into flows
             values (
               '00000000-0000-7000-8000-000000000001', now(), 1, null, null, '{}', 1, 0, null, null, null,
               0, 1, 0, 0, 2, 0, 0, 0, 0, null
             )",
        )
        .await;
    let store = sandbox.store("store").await;
    let id = FlowId(Uuid::parse_str("00000000-0000-7000-8000-000000000001").expect("the text is a UUID"));
    let flow = store.fetch_flows(&[id]).await.expect("the read succeeds").pop().expect("it exists");
    let counted = [StateName::Waiting, StateName::Suspended, StateName::Completed];
    assert_eq!(counted.map(|state| flow.counts.of(state)), [1, 0, 2]);
}

#[tokio::test]
async fn a_schema_without_admission_is_migrated_and_keeps_suspended_executions_and_counts() {
    let sandbox = Sandbox::new();
    let plain = sandbox.plain().await;
    plain.run(&format!("create schema {}", sandbox.schema)).await;
    for migration in [
        include_str!("../../src/migrations/0001_foundation.sql"),
        include_str!("../../src/migrations/0002_flows.sql"),
        include_str!("../../src/migrations/0003_log.sql"),
        include_str!("../../src/migrations/0004_streams.sql"),
        include_str!("../../src/migrations/0005_suspension.sql"),
    ] {
        plain.run(migration).await;
    }
    plain
        .run(
            "create table schema_version (version integer not null, minimum_reader integer not null);
             insert into schema_version values (5, 5);
             insert into namespaces (name) values ('default');
             insert into executions (
               id, submitted_at, namespace, class, partition, input, version, epoch, state, priority, ready_order, history,
               suspension
             )
             values ('00000000-0000-7000-8000-000000000001', now(), 1, 1, 0, 'null', 1, 0, 4, 0, now(), '', '');
             insert into flows
             values (
               '00000000-0000-7000-8000-000000000001', now(), 1, null, null, '{}', 1, 0, null, null, null,
               0, 1, 0, 0, 2, 0, 0, 0, 0, null, 3
             )",
        )
        .await;
    let store = sandbox.store("store").await;
    let id = FlowId(Uuid::parse_str("00000000-0000-7000-8000-000000000001").expect("the text is a UUID"));
    let flow = store.fetch_flows(&[id]).await.expect("the read succeeds").pop().expect("it exists");
    let counted = [StateName::Waiting, StateName::Suspended, StateName::Held, StateName::Completed];
    assert_eq!(counted.map(|state| flow.counts.of(state)), [1, 3, 0, 2]);
    assert_eq!(store.held_by(GateId(1), 10).await.expect("the usage is counted"), 0);
    assert_eq!(store.overview().await.expect("the read succeeds").due.of::<Gate>(), None);
}

#[tokio::test]
async fn a_commit_waits_for_the_disk_even_if_the_database_is_configured_not_to() {
    let sandbox = Sandbox::new();
    sandbox.store("first").await.close().await;
    let plain = sandbox.plain().await;
    plain
        .run(
            "create table seen (setting text);
             create function see() returns trigger language plpgsql as $$
             begin insert into seen values (current_setting('synchronous_commit')); return new; end $$;
             create trigger see before insert on executions for each row execute function see();",
        )
        .await;
    let address = format!("{}&options=-csynchronous_commit%3Doff", sandbox.url("careless"));
    let store = PostgresStore::connect_with(&address, sandbox.settings()).await.expect("the store opens");
    let server = Server::new(Arc::new(store), selvedge_system_tests::server::passive_options()).await;
    server.submit(Draft::new("kind")).await;
    assert_eq!(plain.number("select count(*) from seen where setting = 'on'", &[]).await, 1);
}
