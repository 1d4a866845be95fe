//! The cost of suspension: suspended executions add nothing to claims, records are cheap to write and to find; and
//! parents learn of the end of their children in every order of commits.

use selvedge_engine::Options;
use selvedge_engine::core::outbox::OutboxKind;
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::rules::report::{Fence, Op};
use selvedge_engine::core::rules::step::StepDraft;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::step::StepKind;
use selvedge_engine::core::suspension::{Condition, WaitDraft};
use selvedge_engine::core::{Draft, ExecutionId, Name};
use selvedge_engine::store::SecretStore;
use selvedge_postgres::testing;
use selvedge_system_tests::Sandbox;
use selvedge_system_tests::flows::{age_outbox, check_and_stop, flow_draft, name};
use selvedge_system_tests::pages::pages;
use selvedge_system_tests::server::{Server, claim_of, fence, ids, passive_options};
use std::collections::{BTreeSet, HashMap};
use tokio_postgres::Client;
use uuid::Uuid;

fn id(number: u128) -> Uuid {
    Uuid::from_u128(0x0000_0000_0000_7000_8000_0000_0000_0000 + number)
}

/// Opens a connection that plans like the store's own, and returns it with all statements.
async fn prepared(sandbox: &Sandbox) -> (Client, HashMap<&'static str, &'static str>) {
    let client = testing::connect(&sandbox.url("pages"), &sandbox.settings()).await;
    (client.expect("the connection opens"), testing::statements().into_iter().collect())
}

/// Returns a statement that inserts waiting or suspended executions of one class.
fn fill(state: i16, from: u32, upto: u32) -> String {
    format!(
        "insert into executions (
           id, submitted_at, namespace, class, partition, input, version, epoch, state, claim_priority, ready_order, history, suspension
         )
         select
           ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, now(), 1, 1, 0, 'null', 1, 0, {state}, 0,
           timestamptz '2026-01-01' + n * interval '1 ms', '', case when {state} = 4 then ''::bytea end
         from generate_series({from}, {upto}) as n;"
    )
}

#[tokio::test]
async fn a_claim_touches_as_many_pages_among_a_hundred_thousand_suspended_executions_as_among_none() {
    let sandbox = Sandbox::new();
    sandbox.store("store").await;
    let plain = sandbox.plain().await;
    plain.run("insert into class_priorities values (1, 0, 0)").await;
    plain.run(&fill(0, 200_001, 200_020)).await;
    let (client, statements) = prepared(&sandbox).await;
    let claims = [
        ("executions/lock_candidates", "'{1}', '{}', '{}', '{}', '{1}', '{10}', '{}', 1000"),
        ("executions/lock_candidates", "'{1,2}', '{}', '{}', '{}', '{1,1}', '{10,10}', '{}', 1000"),
    ];
    let mut alone = Vec::new();
    for (claim, arguments) in claims {
        // The first run loads the caches of the connection.
        pages(&client, statements[claim], arguments).await;
        alone.push(pages(&client, statements[claim], arguments).await);
    }
    // Their positions are before those of the waiting ones.
    plain.run(&fill(4, 1, 100_000)).await;
    for ((claim, arguments), alone) in claims.into_iter().zip(alone) {
        let among = pages(&client, statements[claim], arguments).await;
        assert_eq!(among, alone, "{claim}");
    }
}

#[tokio::test]
async fn a_suspension_reads_only_untaken_signals_however_many_were_taken() {
    let sandbox = Sandbox::new();
    sandbox.store("store").await;
    let signals = |execution: u128, count: u32| {
        format!(
            "insert into signals (execution, number, at, digest, effect, taken, name, source, payload)
             select '{}', n, now(), 0, 0, case when n <= {count} - 3 then 1 end, 'name', 'source', '1'
             from generate_series(1, {count}) as n;",
            id(execution)
        )
    };
    let plain = sandbox.plain().await;
    plain.run(&signals(1, 3)).await;
    plain.run(&signals(2, 10_000)).await;
    let (client, statements) = prepared(&sandbox).await;
    let of = |execution| format!("'{{{}}}'", id(execution));
    pages(&client, statements["signals/list_untaken"], &of(3)).await;
    let few = pages(&client, statements["signals/list_untaken"], &of(1)).await;
    let many = pages(&client, statements["signals/list_untaken"], &of(2)).await;
    assert!(many <= few + 2 && many < 20, "{many} pages instead of {few}");
}

/// Writes a row twice and rolls back. Returns the number of heap-only updates.
async fn heap_only(client: &Client, table: &str, statement: &str, rows: [String; 2]) -> i64 {
    let [first, second] = rows;
    let text =
        format!("begin; prepare asked as {statement}; execute asked({first}); execute asked({second})");
    client.batch_execute(&text).await.expect("the row is written");
    let counted = format!("select pg_stat_get_xact_tuples_hot_updated('{table}'::regclass)");
    let row = client.query_one(&counted, &[]).await.expect("the usage is counted");
    client.batch_execute("rollback; deallocate asked").await.expect("the flow ends");
    row.get(0)
}

#[tokio::test]
async fn the_end_of_a_wait_is_a_heap_only_update() {
    let sandbox = Sandbox::new();
    sandbox.store("store").await;
    let (client, statements) = prepared(&sandbox).await;
    let step = |end: &str| {
        format!("'{{{}}}', '{{1}}', '{{name}}', '{{2}}', '{{1}}', '{{2026-01-01}}', {end}", id(1))
    };
    let wait = [step("'{null}', '{null}'"), step("'{2026-01-02}', '{1}'")];
    assert_eq!(heap_only(&client, "steps", statements["steps/upsert"], wait).await, 1);
}

#[tokio::test]
async fn servers_that_start_at_once_store_one_secret() {
    let sandbox = Sandbox::new();
    let mut stores = Vec::new();
    for number in 0..6 {
        stores.push(sandbox.store(&format!("store{number}")).await);
    }
    let keeping = stores.iter().cloned().zip(1_u8..).map(|(store, byte)| {
        tokio::spawn(async move { store.root_secret(&[byte; 32]).await.expect("there is one").bytes })
    });
    let mut kept = BTreeSet::new();
    for secret in keeping.collect::<Vec<_>>() {
        kept.insert(secret.await.expect("the task does not panic"));
    }
    let secret = kept.pop_first().expect("there is one");
    assert!(kept.is_empty(), "all servers have the same secret");
    assert!((1..=6).any(|byte| secret == [byte; 32]), "the secret is that of one server");
    assert_eq!(stores[0].root_secret(&[9; 32]).await.expect("the read succeeds").bytes, secret);
}

fn step(name: &str) -> Op {
    let draft =
        StepDraft { name: Name::trusted(name), kind: StepKind::Step, result: "1".into(), duration_ms: 0 };
    Op::Step(draft)
}

#[tokio::test]
async fn an_execution_with_an_unreadable_record_is_quarantined_and_no_other_is() {
    let sandbox = Sandbox::new();
    let (server, plain) = (sandbox.server("server").await, sandbox.plain().await);
    let submitted = server.submit_many(vec![Draft::new("kind"); 3]).await;
    for claimed in server.claim("one", 3).await {
        server.report(fence(&claimed), step("charge")).await.expect("the lease is held");
        server.report(fence(&claimed), Op::Release).await.expect("the lease is held");
    }
    let damage = format!(
        "alter table steps drop constraint known_kind; update steps set kind = 99 where execution = '{}'",
        submitted[0].0
    );
    plain.run(&damage).await;
    let claimed = server.claim("one", 3).await;
    let others: BTreeSet<ExecutionId> = submitted[1..].iter().copied().collect();
    assert_eq!(ids(&claimed).into_iter().collect::<BTreeSet<_>>(), others);
    assert!(claimed.iter().all(|one| one.steps.len() == 1));
    assert_eq!(server.state(submitted[0]).await, StateName::Waiting);
    plain.run("update steps set kind = 0").await;
    assert_eq!(server.claim_one("one").await.execution.id, submitted[0]);
    server.engine.shutdown().await;
}

/// Submits a parent that is suspended until its two active children have ended.
async fn suspended_parent(server: &Server) -> (ExecutionId, Vec<Fence>) {
    let parent = server.submit(Draft::new("parent")).await;
    let held = fence(&server.claim_one("parent").await);
    let spawn =
        server.namespace.spawn(flow_draft("first second").graph, false).await.expect("the graph is valid");
    server.report(held, spawn).await.expect("the lease is held");
    let wait = server.namespace.suspend(vec![WaitDraft::new(Condition::children())], vec![]);
    server.report(held, wait).await.expect("the lease is held");
    assert_eq!(server.state(parent).await, StateName::Suspended);
    let kinds = ClaimDraft { kinds: Some(vec!["kind".into()]), ..claim_of("child", 2) };
    let mut children = server.claim_as(kinds).await;
    children.sort_by_key(name);
    (parent, children.iter().map(fence).collect())
}

#[tokio::test]
async fn an_end_that_commits_while_the_parent_looks_for_a_live_child_is_noticed() {
    let sandbox = Sandbox::new();
    let options = || Options { dispatch: false, ..passive_options() };
    let a = sandbox.server_with("a", options()).await;
    let b = sandbox.server_with("b", options()).await;
    let plain = sandbox.plain().await;
    let (parent, children) = suspended_parent(&a).await;
    a.complete(children[0]).await.expect("the lease is held");
    age_outbox(&plain).await;
    // The second child ends: its row is written, and the commit is blocked.
    plain.block_commits().await;
    let second = tokio::spawn({
        let (b, child) = (b.clone(), children[1]);
        async move { b.complete(child).await }
    });
    sandbox.waits_for_lock("b", 1).await;
    // The dispatch of the suspension finds the second child locked, and leaves the outbox row to the next one.
    a.tick("dependency").await;
    plain.release().await;
    second.await.expect("the task does not panic").expect("the lease is held");
    assert_eq!(a.state(parent).await, StateName::Suspended);
    a.reconcile(&plain).await;
    assert_eq!(a.state(parent).await, StateName::Waiting);
    let left = a.outbox().await.into_iter().filter(|row| row.name.kind == OutboxKind::Parent);
    assert_eq!(left.count(), 0);
    check_and_stop(&[&a, &b]).await;
}

#[tokio::test]
async fn an_end_after_the_children_were_read_is_propagated_again() {
    let sandbox = Sandbox::new();
    let options = || Options { dispatch: false, ..passive_options() };
    let a = sandbox.server_with("a", options()).await;
    let b = sandbox.server_with("b", options()).await;
    let plain = sandbox.plain().await;
    let (parent, children) = suspended_parent(&a).await;
    a.complete(children[0]).await.expect("the lease is held");
    a.reconcile(&plain).await;
    assert_eq!(a.state(parent).await, StateName::Suspended);
    // As if another dispatch had read the children and were about to delete the outbox row.
    let other = format!(
        "begin; insert into outbox (id, kind, at, position, namespace, tags) values ('{}', 5, now(), 0, 1, '{{}}'); \
         delete from outbox",
        parent.0
    );
    plain.run(&other).await;
    let second = tokio::spawn({
        let (b, child) = (b.clone(), children[1]);
        async move { b.complete(child).await }
    });
    sandbox.waits_for_lock("b", 1).await;
    plain.run("commit").await;
    second.await.expect("the task does not panic").expect("the lease is held");
    assert_eq!(a.state(parent).await, StateName::Suspended);
    a.reconcile(&plain).await;
    assert_eq!(a.state(parent).await, StateName::Waiting);
    check_and_stop(&[&a, &b]).await;
}
