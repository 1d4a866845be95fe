//! What is suspended costs those who claim nothing, what is recorded beside executions is cheap to write and to find, and
//! parents hear of the end of their children whoever commits first.

mod support;

use selvedge_engine::Options;
use selvedge_engine::core::outbox::OutboxKind;
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::rules::report::{Fence, Op};
use selvedge_engine::core::rules::step::StepDraft;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::step::StepKind;
use selvedge_engine::core::suspension::{Condition, WaitDraft};
use selvedge_engine::core::{Draft, ExecutionId, Name};
use selvedge_engine::store::Store;
use selvedge_postgres::testing;
use std::collections::{BTreeSet, HashMap};
use support::Sandbox;
use support::flows::{age, drawn, end, name};
use support::pages::pages;
use support::test_server::{TestServer, claim_of, fence, ids, passive_options};
use tokio_postgres::Client;
use uuid::Uuid;

fn id(number: u128) -> Uuid {
    Uuid::from_u128(0x0000_0000_0000_7000_8000_0000_0000_0000 + number)
}

/// A connection that plans as the store's own do, and every statement.
async fn prepared(sandbox: &Sandbox) -> (Client, HashMap<&'static str, &'static str>) {
    let client = testing::connect(&sandbox.url("pages"), &sandbox.settings()).await;
    (client.expect("it connects"), testing::statements().into_iter().collect())
}

/// Ready executions of one class, or as many suspended ones among them.
fn fill(state: i16, from: u32, upto: u32) -> String {
    format!(
        "insert into executions (
           id, submitted_at, namespace, class, partition, input, version, epoch, state, priority, ready_order, history, suspension
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
        ("executions_candidates", "'{1}', '{}', '{}', '{}', '{1}', '{10}', '{}'"),
        ("executions_candidates", "'{1,2}', '{}', '{}', '{}', '{1,1}', '{10,10}', '{}'"),
    ];
    let mut alone = Vec::new();
    for (claim, arguments) in claims {
        // Once before, so that what is learnt about the tables is not counted.
        pages(&client, statements[claim], arguments).await;
        alone.push(pages(&client, statements[claim], arguments).await);
    }
    // Their places are before those of the ready ones.
    plain.run(&fill(4, 1, 100_000)).await;
    for ((claim, arguments), alone) in claims.into_iter().zip(alone) {
        let among = pages(&client, statements[claim], arguments).await;
        assert_eq!(among, alone, "{claim}");
    }
}

#[tokio::test]
async fn a_suspension_reads_the_signals_that_are_kept_however_many_were_taken() {
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
    pages(&client, statements["signals_untaken"], &of(3)).await;
    let few = pages(&client, statements["signals_untaken"], &of(1)).await;
    let many = pages(&client, statements["signals_untaken"], &of(2)).await;
    assert!(many <= few + 2 && many < 20, "{many} pages instead of {few}");
}

/// Writes a row twice; says how many heap-only updates that were. Nothing is kept.
async fn heap_only(client: &Client, table: &str, statement: &str, rows: [String; 2]) -> i64 {
    let [first, second] = rows;
    let text =
        format!("begin; prepare asked as {statement}; execute asked({first}); execute asked({second})");
    client.batch_execute(&text).await.expect("it is written");
    let counted = format!("select pg_stat_get_xact_tuples_hot_updated('{table}'::regclass)");
    let row = client.query_one(&counted, &[]).await.expect("it is counted");
    client.batch_execute("rollback; deallocate asked").await.expect("it ends");
    row.get(0)
}

#[tokio::test]
async fn the_end_of_a_wait_and_of_a_waitpoint_is_a_heap_only_update() {
    let sandbox = Sandbox::new();
    sandbox.store("store").await;
    let (client, statements) = prepared(&sandbox).await;
    let step = |end: &str| {
        format!("'{{{}}}', '{{1}}', '{{name}}', '{{2}}', '{{1}}', '{{2026-01-01}}', {end}", id(1))
    };
    let wait = [step("'{null}', '{null}'"), step("'{2026-01-02}', '{1}'")];
    assert_eq!(heap_only(&client, "steps", statements["steps_upsert"], wait).await, 1);
    let waitpoint = |end: &str| {
        format!(
            "'{{{}}}', '{{1}}', '{{{}}}', '{{1}}', '{{name}}', '{{source}}', '{{1}}', '{{2026-01-01}}', '{{null}}', {end}",
            id(1),
            id(2)
        )
    };
    let delivery = [waitpoint("'{0}', '{null}', '{null}'"), waitpoint("'{1}', '{1}', '{2}'")];
    assert_eq!(heap_only(&client, "waitpoints", statements["waitpoints_upsert"], delivery).await, 1);
}

#[tokio::test]
async fn servers_that_start_at_once_keep_one_secret() {
    let sandbox = Sandbox::new();
    let mut stores = Vec::new();
    for number in 0..6 {
        stores.push(sandbox.store(&format!("store{number}")).await);
    }
    let keeping = stores.iter().cloned().zip(1_u8..).map(|(store, byte)| {
        tokio::spawn(async move { store.kept_secret(&[byte; 32]).await.expect("there is one") })
    });
    let mut kept = BTreeSet::new();
    for secret in keeping.collect::<Vec<_>>() {
        kept.insert(secret.await.expect("it does not panic"));
    }
    let secret = kept.pop_first().expect("there is one");
    assert!(kept.is_empty(), "all have the same");
    assert!((1..=6).any(|byte| secret == [byte; 32]), "it is of one of them");
    assert_eq!(stores[0].kept_secret(&[9; 32]).await.expect("it is read"), secret);
}

fn step(name: &str) -> Op {
    let draft =
        StepDraft { name: Name::trusted(name), kind: StepKind::Step, result: "1".into(), duration_ms: 0 };
    Op::Step(draft)
}

#[tokio::test]
async fn an_execution_with_a_record_that_cannot_be_read_is_set_aside_and_no_other_is() {
    let sandbox = Sandbox::new();
    let (side, plain) = (sandbox.side("side").await, sandbox.plain().await);
    let submitted = side.submit_many(vec![Draft::new("kind"); 3]).await;
    for claimed in side.claim("one", 3).await {
        side.report(fence(&claimed), step("charge")).await.expect("it holds the lease");
        side.report(fence(&claimed), Op::Release).await.expect("it holds the lease");
    }
    let damage = format!(
        "alter table steps drop constraint known_kind; update steps set kind = 99 where execution = '{}'",
        submitted[0].0
    );
    plain.run(&damage).await;
    let claimed = side.claim("one", 3).await;
    let others: BTreeSet<ExecutionId> = submitted[1..].iter().copied().collect();
    assert_eq!(ids(&claimed).into_iter().collect::<BTreeSet<_>>(), others);
    assert!(claimed.iter().all(|one| one.steps.len() == 1));
    assert_eq!(side.state(submitted[0]).await, StateName::Waiting);
    plain.run("update steps set kind = 0").await;
    assert_eq!(side.claim_one("one").await.execution.id, submitted[0]);
    side.engine.shutdown().await;
}

/// A parent that waits for its two children, which are leased.
async fn parent_waits(side: &TestServer) -> (ExecutionId, Vec<Fence>) {
    let parent = side.submit(Draft::new("parent")).await;
    let held = fence(&side.claim_one("parent").await);
    let spawn = side.namespace.spawn(drawn("first second").graph, false).await.expect("it is valid");
    side.report(held, spawn).await.expect("it holds the lease");
    let wait = side.namespace.suspend(vec![WaitDraft::new(Condition::children())], vec![]);
    side.report(held, wait).await.expect("it holds the lease");
    assert_eq!(side.state(parent).await, StateName::Suspended);
    let kinds = ClaimDraft { kinds: Some(vec!["kind".into()]), ..claim_of("child", 2) };
    let mut children = side.claim_as(kinds).await;
    children.sort_by_key(name);
    (parent, children.iter().map(fence).collect())
}

#[tokio::test]
async fn an_end_that_commits_while_the_parent_is_told_of_another_is_heard() {
    let sandbox = Sandbox::new();
    let options = || Options { dispatch: false, ..passive_options() };
    let a = sandbox.side_with("a", options()).await;
    let b = sandbox.side_with("b", options()).await;
    let plain = sandbox.plain().await;
    let (parent, children) = parent_waits(&a).await;
    a.complete(children[0]).await.expect("it holds the lease");
    age(&plain).await;
    // The second child ends: its row and that of the outbox are written, and the commit is yet to come.
    plain.hold_log().await;
    let second = tokio::spawn({
        let (b, child) = (b.clone(), children[1]);
        async move { b.complete(child).await }
    });
    sandbox.waits_for_lock("b", 1).await;
    // The parent is told of the first: whoever does it waits for the row of the outbox, and looks at the children after that.
    let told = tokio::spawn({
        let a = a.clone();
        async move { a.tick("dependency").await }
    });
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    second.await.expect("it does not panic").expect("it holds the lease");
    assert_eq!(told.await.expect("it does not panic").done, 1);
    assert_eq!(a.state(parent).await, StateName::Waiting);
    let left = a.outbox().await.into_iter().filter(|row| row.name.kind == OutboxKind::Parent);
    assert_eq!(left.count(), 0);
    end(&[&a, &b]).await;
}

#[tokio::test]
async fn an_end_that_comes_after_the_children_were_looked_at_is_told_anew() {
    let sandbox = Sandbox::new();
    let options = || Options { dispatch: false, ..passive_options() };
    let a = sandbox.side_with("a", options()).await;
    let b = sandbox.side_with("b", options()).await;
    let plain = sandbox.plain().await;
    let (parent, children) = parent_waits(&a).await;
    a.complete(children[0]).await.expect("it holds the lease");
    age(&plain).await;
    // As if somebody had looked at the children and were about to take the row out of the outbox.
    plain.run("begin; delete from outbox").await;
    let second = tokio::spawn({
        let (b, child) = (b.clone(), children[1]);
        async move { b.complete(child).await }
    });
    sandbox.waits_for_lock("b", 1).await;
    plain.run("commit").await;
    second.await.expect("it does not panic").expect("it holds the lease");
    assert_eq!(a.state(parent).await, StateName::Suspended);
    a.reconcile(&plain).await;
    assert_eq!(a.state(parent).await, StateName::Waiting);
    end(&[&a, &b]).await;
}
