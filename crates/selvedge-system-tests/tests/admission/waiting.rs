//! Executions that gates refuse: they hide nothing behind them and are released in turn; and their reservations are given
//! back, even if a server or a connection dies between the reservation and the report.

use selvedge_engine::Error;
use selvedge_engine::core::amount::Amount;
use selvedge_engine::core::gate::{Amounts, GateKind, GateName};
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::rules::gates::budget::Spend;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, ExecutionId, Name};
use selvedge_engine::store::GateReads;
use selvedge_postgres::{PostgresStore, testing};
use selvedge_system_tests::gate_load::{
    configure, hard_limit, tokens, with_budget, with_concurrency_key, with_fairness_key,
};
use selvedge_system_tests::pages::pages;
use selvedge_system_tests::proxy::{Cut, Proxy};
use selvedge_system_tests::server::{Server, claim_of, claim_wait, complete_op, fence, ids, passive_options};
use selvedge_system_tests::{Sandbox, wait_until};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

fn gate(server: &Server, kind: GateKind, name: &str) -> GateName {
    GateName::new(server.namespace.id(), kind, Name::trusted(name))
}

/// Submits many executions in several calls.
async fn submit_all(server: &Server, draft: Draft, count: usize) -> Vec<ExecutionId> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(server.submit_many(vec![draft.clone(); 1000.min(count - all.len())]).await);
    }
    all
}

#[tokio::test]
async fn ten_thousand_held_executions_add_no_cost_to_a_claim_behind_them() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("server").await;
    let server = Server::new(store.clone(), passive_options()).await;
    let held = 10_000;
    let all = submit_all(&server, with_concurrency_key("full", 1), held + 1).await;
    assert_eq!(ids(&server.claim("one", 1).await), all[..1]);
    let full = gate(&server, GateKind::Key, "full").id();
    wait_until("all others are held", async || {
        assert!(server.claim("one", 1000).await.is_empty());
        store.held_by(full, 20_000).await.expect("the count succeeds") == held as u64
    })
    .await;
    let free = server.submit(Draft::new("kind")).await;
    // A lane with a single waiting execution.
    let empty = server.submit(Draft { lane: "empty".into(), ..Draft::new("kind") }).await;
    let mut read = Vec::new();
    let client =
        testing::connect(&sandbox.url("explains"), &sandbox.settings()).await.expect("the connection opens");
    let statements: HashMap<_, _> = testing::statements().into_iter().collect();
    for id in [free, empty] {
        let row = server.row(id).await;
        wait_until("claims start at the execution", async || {
            testing::refresh_bounds(&store, &[row.class]).await.expect("the bounds are refreshed");
            testing::bound(&store, row.class, 0).is_some_and(|bound| bound == row.ready_order)
        })
        .await;
        let arguments = format!(
            "'{{{}}}', {}, '{{1}}', '{{10}}', '{{}}', 1000",
            row.class.0,
            testing::bound_arguments(&store, row.class)
        );
        // The first run on a connection loads its caches.
        pages(&client, statements["executions/lock_candidates"], &arguments).await;
        read.push(pages(&client, statements["executions/lock_candidates"], &arguments).await);
    }
    assert!(read[0] <= read[1] + 10, "{read:?} pages, in the lane with held executions and in the empty one");
    let first_held = format!(
        "array[{}]::bigint[], '{{1}}', array[{}]::bigint[], array['00000000-0000-0000-0000-000000000000'::uuid], '{{}}'",
        full.0,
        i64::MIN
    );
    let read = pages(&client, statements["executions/lock_held"], &first_held).await;
    assert!(read < 30, "{read} pages to find the first held execution");
    assert_eq!(ids(&server.claim("two", 1).await), [free]);
    server.engine.shutdown().await;
}

#[tokio::test]
async fn another_fairness_key_gets_its_turn_at_once_however_many_wait_with_the_first() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let many = submit_all(&server, with_fairness_key("many"), 5000).await;
    assert_eq!(ids(&server.claim("one", 1).await), many[..1]);
    let other = server.submit(with_fairness_key("other")).await;
    let mut next = Vec::new();
    for _ in 0..4 {
        next.extend(ids(&server.claim("one", 1).await));
    }
    assert_eq!(next, [many[1], other, many[2], many[3]]);
    server.engine.shutdown().await;
}

#[tokio::test]
async fn a_released_execution_is_claimed_although_claims_start_behind_its_original_position() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("server").await;
    let server = Server::new(store.clone(), passive_options()).await;
    let plain = sandbox.plain().await;
    let all = server.submit_many(vec![with_concurrency_key("one", 1); 3]).await;
    let mut running = server.claim("one", 3).await;
    assert_eq!(ids(&running), all[..1]);
    for (index, priority) in [(1, 0), (2, 7)] {
        let held = server.row(all[index]).await;
        assert_eq!(held.state.name(), StateName::Held);
        server.operate(held.id, Action::Prioritise { priority }).await.expect("the priority is raised");
        wait_until("claims start behind the execution", async || {
            testing::refresh_bounds(&store, &[held.class]).await.expect("the bounds are refreshed");
            testing::bound(&store, held.class, 0).is_some_and(|bound| bound > held.ready_order)
        })
        .await;
        server.complete(fence(&running[0])).await.expect("the lease is held");
        let ready = server.row(held.id).await;
        assert!(ready.ready_order > held.ready_order, "it has a new position");
        running = server.claim("one", 1).await;
        assert_eq!(ids(&running), [held.id]);
    }
    let moved = plain.number("select count(*) from class_priorities where generation <> 0", &[]).await;
    assert_eq!(moved, 0, "no bound was invalidated");
    server.engine.shutdown().await;
}

/// Starts a server whose connections go through a proxy.
async fn behind_proxy(sandbox: &Sandbox) -> (Proxy, Server) {
    let proxy = Proxy::start(&sandbox.url("proxied")).await;
    let store = PostgresStore::connect_with(proxy.url(), sandbox.settings()).await;
    let server = Server::new(Arc::new(store.expect("the store opens")), passive_options()).await;
    (proxy, server)
}

/// Returns the usage and the reservations of a budget.
async fn usage(server: &Server, budget: &str) -> (Amounts, Amounts) {
    let gate = server.namespace.gate(GateKind::Budget, budget).await.expect("it exists").gate;
    (gate.state.used, gate.state.reserved)
}

/// Returns a claim with a lease of half a second.
fn brief_claim(instance: &str) -> ClaimDraft {
    ClaimDraft { lease_ttl_ms: 500, ..claim_of(instance, 1) }
}

/// Expires leases until nothing is reserved.
async fn wait_until_given_back(server: &Server, budget: &str) {
    wait_until("the reservation is given back", async || {
        server.tick("lease_expiry").await;
        usage(server, budget).await.1.is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_reservation_for_a_claim_whose_answer_was_lost_is_given_back_when_its_lease_expires() {
    let sandbox = Sandbox::new();
    let (proxy, cut) = behind_proxy(&sandbox).await;
    let server = sandbox.server("server").await;
    configure(&server, GateKind::Budget, "month", hard_limit(100)).await;
    for (number, lost) in [Cut::BeforeCommit, Cut::AfterCommit].into_iter().enumerate() {
        let all = server.submit_many(vec![with_budget("month", 60); 2]).await;
        proxy.cut_next(lost);
        let answer = cut.namespace.claim(claim_wait(brief_claim("lost"), Duration::ZERO)).await;
        assert!(matches!(answer, Err(Error::Store(_))), "{answer:?}");
        assert_eq!(proxy.cuts(), number + 1);
        let reserved = if lost == Cut::AfterCommit { tokens(60) } else { Amounts::new() };
        assert_eq!(usage(&server, "month").await, (Amounts::new(), reserved));
        if lost == Cut::AfterCommit {
            assert!(server.claim("one", 9).await.is_empty(), "the other exceeds the rest of the budget");
            assert_eq!(server.state(all[1]).await, StateName::Held);
        }
        wait_until_given_back(&server, "month").await;
        // Both run, one after the other.
        for _ in 0..2 {
            let claimed = server.claim("one", 9).await;
            assert_eq!(claimed.len(), 1);
            server.complete(fence(&claimed[0])).await.expect("the lease is held");
        }
    }
    assert_eq!(usage(&server, "month").await, (Amounts::new(), Amounts::new()));
}

#[tokio::test]
async fn a_report_whose_answer_was_lost_settles_and_gives_back_once() {
    let sandbox = Sandbox::new();
    let (proxy, cut) = behind_proxy(&sandbox).await;
    let server = sandbox.server("server").await;
    configure(&server, GateKind::Budget, "month", hard_limit(1000)).await;
    server.submit_many(vec![with_budget("month", 60); 3]).await;
    // Another one is active all the time: giving back twice would also take its reservation.
    server.claim_one("other").await;
    for (number, lost) in [Cut::BeforeCommit, Cut::AfterCommit].into_iter().enumerate() {
        let claimed = cut.claim("one", 1).await;
        let spend = Spend {
            namespace: cut.namespace.id(),
            budget: Name::trusted("month"),
            usage: tokens(10),
            dedup_key: Some(Name::trusted(&format!("call-{number}"))),
            execution: Some(claimed[0].execution.id),
        };
        let lease = fence(&claimed[0]);
        let ops = vec![Ok((lease, None, Op::Usage(spend.clone()))), Ok((lease, None, complete_op()))];
        proxy.cut_next(lost);
        let answer = cut.namespace.report(ops, None).await;
        assert!(matches!(answer, Err(Error::Store(_))), "the answer is lost");
        // The worker repeats the report through another server.
        server.report(lease, Op::Usage(spend)).await.expect("the usage is counted once");
        server.complete(lease).await.expect("a repeated completion is accepted");
        let used = tokens(10 * (number as u32 + 1));
        assert_eq!(usage(&server, "month").await, (used, tokens(60)));
        let spent_by = server.namespace.spent_by(lease.execution).await.expect("the read succeeds");
        assert_eq!(spent_by.len(), 1);
        assert_eq!(spent_by[0].entry.spent, tokens(10));
    }
}

#[tokio::test]
async fn reservations_under_a_server_that_dies_are_given_back_when_its_leases_expire() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let plain = sandbox.plain().await;
    configure(&server, GateKind::Budget, "month", hard_limit(100)).await;
    let all = server.submit_many(vec![with_budget("month", 60); 3]).await;
    let dies = sandbox.server("dies").await;
    let lost = dies.claim_as(brief_claim("lost")).await;
    assert_eq!(ids(&lost), all[..1]);
    let spend = Spend {
        namespace: server.namespace.id(),
        budget: Name::trusted("month"),
        usage: tokens(25),
        dedup_key: None,
        execution: Some(all[0]),
    };
    dies.report(fence(&lost[0]), Op::Usage(spend.clone())).await.expect("the usage is counted");
    let name = format!("{}_dies", sandbox.schema);
    let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = $1";
    plain.number(kill, &[&name]).await;
    drop(dies);
    assert!(
        server.claim("one", 9).await.is_empty(),
        "every other reservation exceeds the rest of the budget"
    );
    wait_until_given_back(&server, "month").await;
    // The usage of the attempt stays counted, and can still be reported later.
    server.report(fence(&lost[0]), Op::Usage(spend)).await.expect("a former holder of the lease is accepted");
    assert_eq!(usage(&server, "month").await, (tokens(50), Amounts::new()));
    assert!(server.claim("one", 9).await.is_empty(), "60 more tokens exceed the limit");
    configure(&server, GateKind::Budget, "month", hard_limit(110)).await;
    assert_eq!(server.claim("one", 9).await.len(), 1);
    let used = usage(&server, "month").await;
    assert_eq!(used, (tokens(50), tokens(60)));
    assert_eq!(used.0["tokens"] + used.1["tokens"], Amount::whole(110));
}

#[tokio::test]
async fn counting_at_a_gate_is_a_heap_only_update() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    server.submit(with_concurrency_key("key", 5)).await;
    server.claim_one("one").await;
    let client =
        testing::connect(&sandbox.url("plain"), &sandbox.settings()).await.expect("the connection opens");
    let statements: HashMap<_, _> = testing::statements().into_iter().collect();
    let begin = format!("begin; prepare count as {}", statements["gates/update"]);
    client.batch_execute(&begin).await.expect("the transaction begins");
    let id = gate(&server, GateKind::Key, "key").id().0;
    for version in 1..=20 {
        let count = format!(
            "execute count('{{{id}}}', '{{{version}}}', '{{{}}}', '{{true}}', '{{null}}', '{{{version}}}', '{{null}}', \
             '{{null}}')",
            version + 1
        );
        client.batch_execute(&count).await.expect("the usage is counted");
    }
    let text = "select n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables \
                where relname = 'gates' and schemaname = current_schema()";
    let row = client.query_one(text, &[]).await.expect("the read succeeds");
    client.batch_execute("rollback").await.expect("the flow ends");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (20, 20));
    server.engine.shutdown().await;
}
