//! The examination of a store from outside: each fault that can be made is found, with its remedy.

use selvedge_core::Name;
use selvedge_postgres::diagnosis::{Limits, diagnose, schema_version};
use selvedge_store::{Finding, Level, Migrated, NamespaceStore, SchemaVersion, Transactions};
use selvedge_system_tests::cluster::Cluster;
use selvedge_system_tests::{PlainConnection, Sandbox, wait_until};
use std::time::Duration;

/// The version of the schema that this build knows.
const KNOWN: i32 = 23;

async fn examine(sandbox: &Sandbox) -> Vec<Finding> {
    examine_with(sandbox, &Limits::default()).await
}

async fn examine_with(sandbox: &Sandbox, limits: &Limits) -> Vec<Finding> {
    diagnose(&sandbox.url("doctor"), &sandbox.settings(), limits).await
}

/// Returns the findings of a check.
fn of<'a>(findings: &'a [Finding], check: &str) -> Vec<&'a Finding> {
    findings.iter().filter(|finding| finding.check == check).collect()
}

/// Returns the highest level of a check.
fn level(findings: &[Finding], check: &str) -> Level {
    let levels = of(findings, check).into_iter().map(|finding| finding.level);
    levels.max().unwrap_or_else(|| panic!("{check} is not in {findings:?}"))
}

/// Asserts that a check has a finding of a level whose message and remedy contain texts.
fn assert_found(findings: &[Finding], check: &str, expected: Level, message: &str, remedy: &str) {
    let is_expected = |finding: &&Finding| {
        finding.level == expected
            && finding.message.contains(message)
            && finding.remedy.as_ref().is_some_and(|text| text.contains(remedy))
    };
    assert!(of(findings, check).iter().any(is_expected), "{message:?}, {remedy:?}: {findings:#?}");
}

/// Announces that a server handles all namespaces, until it is aborted.
async fn announced(sandbox: &Sandbox) -> tokio::task::JoinHandle<()> {
    let store = sandbox.store("server").await;
    let announcing = tokio::spawn({
        let store = store.clone();
        async move { store.announce_coverage(None).await }
    });
    wait_until("the announcement is seen", async || !store.coverage().await.expect("it is read").is_empty())
        .await;
    announcing
}

/// Changes settings of the whole server, and waits until new sessions have them.
async fn alter_system(cluster: &Cluster, name: &str, value: &str) {
    let plain = PlainConnection::connect(&cluster.url("postgres"), "public").await;
    plain.run(&format!("alter system set {name} = {value}")).await;
    plain.run("select pg_reload_conf()").await;
    wait_until(&format!("{name} is {value}"), async || {
        let fresh = PlainConnection::connect(&cluster.url("postgres"), "public").await;
        let row = fresh.query_one("select current_setting($1)", &[&name]).await.expect("it is read");
        format!("'{}'", row.get::<_, String>(0)) == value
    })
    .await;
}

#[tokio::test]
async fn a_sound_server_has_no_findings_and_each_of_its_faults_has_one() {
    let cluster = Cluster::start_with(&[], &["max_connections=40", "max_prepared_transactions=2"]);
    let sandbox = Sandbox::on(&cluster.url("postgres"));
    let announcing = announced(&sandbox).await;
    let findings = examine(&sandbox).await;
    assert!(findings.iter().all(|finding| finding.level == Level::Ok), "{findings:#?}");
    assert_eq!(findings[0].check, "reachable");

    alter_system(&cluster, "full_page_writes", "'off'").await;
    alter_system(&cluster, "fsync", "'off'").await;
    alter_system(&cluster, "synchronous_commit", "'off'").await;
    alter_system(&cluster, "autovacuum", "'off'").await;
    let findings = examine(&sandbox).await;
    assert_found(&findings, "durability", Level::Error, "fsync is off", "set fsync = on");
    assert_found(&findings, "durability", Level::Warning, "full_page_writes", "full_page_writes = on");
    assert_found(&findings, "durability", Level::Notice, "synchronous_commit", "synchronous_commit = on");
    assert_found(&findings, "vacuum", Level::Warning, "autovacuum is off", "autovacuum = on");

    // The session may read although a commit would wait for a standby that is not there.
    alter_system(&cluster, "synchronous_standby_names", "'nobody'").await;
    let findings = examine(&sandbox).await;
    assert_found(&findings, "durability", Level::Error, "commits wait", "start the standby");
    alter_system(&cluster, "synchronous_commit", "'local'").await;
    let findings = examine(&sandbox).await;
    assert_found(&findings, "durability", Level::Warning, "is local", "synchronous_commit = on");
    alter_system(&cluster, "synchronous_standby_names", "''").await;

    let plain = sandbox.plain().await;
    plain.run("select pg_create_physical_replication_slot('forgotten', true)").await;
    plain.run("begin; create table scratch (n integer); prepare transaction 'undecided'").await;
    let findings =
        examine_with(&sandbox, &Limits { snapshot_age: Duration::ZERO, ..Limits::default() }).await;
    assert_found(
        &findings,
        "snapshots",
        Level::Warning,
        "slot \"forgotten\"",
        "pg_drop_replication_slot('forgotten')",
    );
    assert_found(&findings, "snapshots", Level::Warning, "\"undecided\"", "rollback prepared 'undecided'");
    plain.run("rollback prepared 'undecided'").await;

    let mut others = Vec::new();
    for _ in 0..25 {
        others.push(sandbox.plain().await);
    }
    let findings = examine(&sandbox).await;
    assert_found(&findings, "connections", Level::Warning, "of 37 connections", "max_connections");
    announcing.abort();
}

#[tokio::test]
async fn a_standby_and_a_read_only_database_are_errors() {
    let cluster = Cluster::start();
    let standby = cluster.standby();
    let sandbox = Sandbox::on(&standby.url("postgres"));
    let findings = examine(&sandbox).await;
    assert_found(&findings, "reachable", Level::Error, "is a standby", "the primary");
    let primary = examine(&Sandbox::on(&cluster.url("postgres"))).await;
    assert_found(&primary, "durability", Level::Notice, "asynchronously", "synchronous_standby_names");

    let sandbox = Sandbox::with_own_database().await;
    let plain = sandbox.plain().await;
    plain.run(&format!("alter database {} set default_transaction_read_only = on", sandbox.schema)).await;
    let findings = examine(&sandbox).await;
    assert_found(&findings, "reachable", Level::Error, "read-only", "default_transaction_read_only to off");
}

#[tokio::test]
async fn an_unreachable_server_and_an_invalid_address_are_one_finding() {
    let settings = Sandbox::new().settings();
    for (address, remedy) in
        [("postgres://nobody@127.0.0.1:1/none", "accepts connections"), ("postgres://:bad:port", "--store")]
    {
        let findings = diagnose(address, &settings, &Limits::default()).await;
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_found(&findings, "reachable", Level::Error, "", remedy);
    }
}

#[tokio::test]
async fn the_version_of_the_schema_is_compared_and_a_migration_returns_both_versions() {
    let sandbox = Sandbox::new();
    let (url, settings) = (sandbox.url("doctor"), sandbox.settings());
    let version = async || schema_version(&url, &settings).await.expect("the version is read");
    let none = SchemaVersion { found: 0, minimum_reader: 0, known: KNOWN };
    assert_eq!(version().await, none);
    assert_found(&examine(&sandbox).await, "schema", Level::Warning, "no schema", "selvedge migrate");
    let migrated = async || selvedge_postgres::migrate(&url, &settings).await;
    assert_eq!(migrated().await.expect("it migrates"), Migrated { from: 0, to: KNOWN });
    assert_eq!(migrated().await.expect("it migrates"), Migrated { from: KNOWN, to: KNOWN });
    assert_eq!(level(&examine(&sandbox).await, "schema"), Level::Ok);
    let plain = sandbox.plain().await;
    for (version, minimum, expected, remedy) in [
        (KNOWN - 1, 12, Level::Warning, "selvedge migrate"),
        (99, 1, Level::Notice, "upgrade"),
        (99, 98, Level::Error, "upgrade"),
    ] {
        plain
            .run(&format!("update schema_version set version = {version}, minimum_reader = {minimum}"))
            .await;
        let findings = examine(&sandbox).await;
        assert_found(&findings, "schema", expected, &format!("version {version}"), remedy);
    }
    assert!(migrated().await.is_err(), "a schema that is too new is refused");
    assert_eq!(version().await.found, 99, "and left alone");
}

#[tokio::test]
async fn an_open_transaction_is_named_with_its_process() {
    let sandbox = Sandbox::with_own_database().await;
    sandbox.store("store").await.close().await;
    let plain = sandbox.plain().await;
    let pid = plain.number("select pg_backend_pid()::bigint", &[]).await;
    let limits = Limits { snapshot_age: Duration::ZERO, ..Limits::default() };
    plain.run("begin; select count(*) from executions").await;
    let findings = examine_with(&sandbox, &limits).await;
    let (message, remedy) =
        (format!("idle transaction \"{}_plain\" of process {pid}", sandbox.schema), format!("({pid})"));
    assert_found(&findings, "snapshots", Level::Warning, &message, &remedy);
    assert_eq!(level(&examine(&sandbox).await, "snapshots"), Level::Ok, "it is not a minute old");
    plain.run("rollback").await;
    assert_eq!(level(&examine_with(&sandbox, &limits).await, "snapshots"), Level::Ok);
}

#[tokio::test]
async fn an_invalid_index_is_found() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("store").await;
    for name in ["one", "two"] {
        store.namespace(&Name::trusted(name)).await.expect("the namespace is created");
    }
    let plain = sandbox.plain().await;
    let failed =
        plain.batch_execute("create unique index concurrently failed on namespaces ((id > 0))").await;
    assert!(failed.is_err(), "the index is not unique");
    let remedy = format!("drop index concurrently {}.failed", sandbox.schema);
    assert_found(&examine(&sandbox).await, "indexes", Level::Warning, "failed is invalid", &remedy);
}

#[tokio::test]
async fn dead_rows_and_bloat_are_found() {
    let sandbox = Sandbox::with_own_database().await;
    sandbox.store("store").await.close().await;
    let plain = sandbox.plain().await;
    plain
        .run(
            "alter table outbox set (autovacuum_enabled = off);
             insert into outbox (id, kind, at, position, namespace)
             select gen_random_uuid(), 1, now(), 0, 1 from generate_series(1, 20000);
             delete from outbox where ctid <> (select max(ctid) from outbox);
             select pg_stat_force_next_flush()",
        )
        .await;
    let limits = Limits { dead_rows: 10_000, bloat_pages: 50, ..Limits::default() };
    wait_until("the statistics have the dead rows", async || {
        level(&examine_with(&sandbox, &limits).await, "vacuum") == Level::Warning
    })
    .await;
    let findings = examine_with(&sandbox, &limits).await;
    let remedy = format!("vacuum (analyze) {}.outbox", sandbox.schema);
    assert_found(&findings, "vacuum", Level::Warning, "outbox has 19999 dead", &remedy);
    // The last page has a row, so vacuum gives nothing back.
    plain.run("vacuum (analyze) outbox").await;
    let findings = examine_with(&sandbox, &limits).await;
    assert_eq!(level(&findings, "vacuum"), Level::Ok, "{findings:#?}");
    assert_found(&findings, "bloat", Level::Notice, "the table outbox", "vacuum full");
    assert_found(&findings, "bloat", Level::Notice, "the index outbox_waiting", "reindex index concurrently");
    assert_eq!(level(&examine(&sandbox).await, "bloat"), Level::Ok, "16 MiB are not reached");
}

#[tokio::test]
async fn a_missing_partition_of_the_log_is_found() {
    let sandbox = Sandbox::new();
    sandbox.store("store").await.close().await;
    assert_eq!(level(&examine(&sandbox).await, "partitions"), Level::Ok);
    let plain = sandbox.plain().await;
    plain
        .run(
            "do $$
             begin
               execute 'drop table log_' || to_char(now() at time zone 'UTC' + interval '1 day', 'YYYYMMDD');
             end
             $$",
        )
        .await;
    assert_found(
        &examine(&sandbox).await,
        "partitions",
        Level::Warning,
        "lacks the partitions log_",
        "server running",
    );
}

#[tokio::test]
async fn namespaces_without_background_work_are_named() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("store").await;
    let mut ids = Vec::new();
    for name in ["one", "two"] {
        ids.push(store.namespace(&Name::trusted(name)).await.expect("the namespace is created"));
    }
    assert_found(&examine(&sandbox).await, "scopes", Level::Warning, "no server does", "selvedge serve");
    let announcing = tokio::spawn({
        let (store, one) = (store.clone(), ids[0]);
        async move { store.announce_coverage(Some(one)).await }
    });
    wait_until("the announcement is seen", async || {
        store.coverage().await.expect("it is read") == [Some(ids[0])]
    })
    .await;
    let findings = examine(&sandbox).await;
    assert_found(&findings, "scopes", Level::Warning, "the namespaces two", "--reconciler-namespace");
    let all = announced(&sandbox).await;
    assert_eq!(level(&examine(&sandbox).await, "scopes"), Level::Ok);
    announcing.abort();
    all.abort();
}

#[tokio::test]
async fn rows_that_no_server_takes_are_found() {
    let sandbox = Sandbox::new();
    sandbox.store("store").await.close().await;
    assert_eq!(level(&examine(&sandbox).await, "waiting"), Level::Ok);
    let plain = sandbox.plain().await;
    plain
        .run(
            "insert into outbox (id, kind, at, position, namespace)
             select gen_random_uuid(), kind, now() - interval '3 hours', 0, 1 from generate_series(1, 5) as kind;
             insert into inbox (submitted_at, id, namespace, role, flow, body)
             values (now() - interval '10 minutes', gen_random_uuid(), 'default', 'ada', false, '{}')",
        )
        .await;
    let findings = examine(&sandbox).await;
    assert_found(
        &findings,
        "waiting",
        Level::Warning,
        "5 rows of the outbox wait, the oldest for 3 h",
        "the log",
    );
    assert_found(
        &findings,
        "waiting",
        Level::Warning,
        "1 rows of the inbox wait, the oldest for 10 min",
        "the log",
    );
}

#[tokio::test]
async fn a_locked_table_delays_nothing_and_the_other_checks_go_on() {
    let sandbox = Sandbox::new();
    sandbox.store("store").await.close().await;
    let plain = sandbox.plain().await;
    plain.run("begin; lock table outbox, executions, log_default in access exclusive mode").await;
    let examined = tokio::time::timeout(Duration::from_secs(20), examine(&sandbox)).await;
    let findings = examined.expect("no check waits for the lock");
    let waiting = of(&findings, "waiting");
    assert_eq!(waiting.len(), 1);
    assert!(waiting[0].message.contains("could not be checked"), "{waiting:?}");
    assert_eq!(level(&findings, "indexes"), Level::Ok);
    plain.release().await;
    assert_eq!(level(&examine(&sandbox).await, "waiting"), Level::Ok);
}
