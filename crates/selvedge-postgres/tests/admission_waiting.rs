//! What waits at gates: it hides nothing behind it, its turn comes, and what was reserved for it is given back, also where a
//! server or a connection dies between the reservation and the report.

mod support;

use selvedge_engine::Error;
use selvedge_engine::core::amount::Amount;
use selvedge_engine::core::gate::{Amounts, GateKind, GateName};
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::rules::gates::budget::Spend;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, ExecutionId, Name};
use selvedge_engine::store::Store;
use selvedge_postgres::{PostgresStore, testing};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use support::admission::{configure, fair, hard, keyed, spending, tokens};
use support::pages::pages;
use support::proxy::{Cut, Proxy};
use support::test_server::{TestServer, claim_of, claim_wait, complete_op, fence, ids, passive_options};
use support::{Sandbox, until};

fn gate(side: &TestServer, kind: GateKind, name: &str) -> GateName {
    GateName::new(side.namespace.id(), kind, Name::trusted(name))
}

/// Submits many in several calls.
async fn submit_all(side: &TestServer, draft: Draft, count: usize) -> Vec<ExecutionId> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(side.submit_many(vec![draft.clone(); 1000.min(count - all.len())]).await);
    }
    all
}

#[tokio::test]
async fn ten_thousand_that_are_held_cost_a_claim_behind_them_nothing() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("side").await;
    let side = TestServer::new(store.clone(), passive_options()).await;
    let held = 10_000;
    let all = submit_all(&side, keyed("full", 1), held + 1).await;
    assert_eq!(ids(&side.claim("one", 1).await), all[..1]);
    let full = gate(&side, GateKind::Key, "full").id();
    until("all others are held", async || {
        assert!(side.claim("one", 1000).await.is_empty());
        store.held_by(full, 20_000).await.expect("they are counted") == held as u64
    })
    .await;
    let free = side.submit(Draft::new("kind")).await;
    // A lane in which one waits, and nothing else ever did.
    let empty = side.submit(Draft { lane: "empty".into(), ..Draft::new("kind") }).await;
    let mut read = Vec::new();
    let client = testing::connect(&sandbox.url("explains"), &sandbox.settings()).await.expect("it connects");
    let statements: HashMap<_, _> = testing::statements().into_iter().collect();
    for id in [free, empty] {
        let row = side.row(id).await;
        until("claims begin where it is", async || {
            testing::refresh_bounds(&store, &[row.class]).await.expect("they are refreshed");
            testing::bound(&store, row.class, 0).is_some_and(|bound| bound == row.ready_order)
        })
        .await;
        let arguments = format!(
            "'{{{}}}', {}, '{{1}}', '{{10}}', '{{}}'",
            row.class.0,
            testing::bound_arguments(&store, row.class)
        );
        // As on a connection that has claimed before.
        pages(&client, statements["executions_candidates"], &arguments).await;
        read.push(pages(&client, statements["executions_candidates"], &arguments).await);
    }
    assert!(read[0] <= read[1] + 10, "{read:?} pages, in the lane of the held ones and in the empty one");
    let first_held = format!(
        "array[{}]::bigint[], '{{1}}', array[{}]::bigint[], array['00000000-0000-0000-0000-000000000000'::uuid], '{{}}'",
        full.0,
        i64::MIN
    );
    let read = pages(&client, statements["executions_lock_held"], &first_held).await;
    assert!(read < 30, "{read} pages to find the one that goes on first");
    assert_eq!(ids(&side.claim("two", 1).await), [free]);
    side.engine.shutdown().await;
}

#[tokio::test]
async fn the_turn_of_another_fairness_key_comes_at_once_however_many_wait_with_the_first() {
    let sandbox = Sandbox::new();
    let side = sandbox.side("side").await;
    let many = submit_all(&side, fair("many"), 5000).await;
    assert_eq!(ids(&side.claim("one", 1).await), many[..1]);
    let other = side.submit(fair("other")).await;
    let mut next = Vec::new();
    for _ in 0..4 {
        next.extend(ids(&side.claim("one", 1).await));
    }
    assert_eq!(next, [many[1], other, many[2], many[3]]);
    side.engine.shutdown().await;
}

#[tokio::test]
async fn one_that_goes_on_is_claimed_although_claims_begin_behind_the_place_where_it_was_refused() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("side").await;
    let side = TestServer::new(store.clone(), passive_options()).await;
    let plain = sandbox.plain().await;
    let all = side.submit_many(vec![keyed("one", 1); 3]).await;
    let mut running = side.claim("one", 3).await;
    assert_eq!(ids(&running), all[..1]);
    for (index, priority) in [(1, 0), (2, 7)] {
        let held = side.row(all[index]).await;
        assert_eq!(held.state.name(), StateName::Held);
        side.operate(held.id, Action::Prioritise { priority }).await.expect("it is raised");
        until("claims begin behind it", async || {
            testing::refresh_bounds(&store, &[held.class]).await.expect("they are refreshed");
            testing::bound(&store, held.class, 0).is_some_and(|bound| bound > held.ready_order)
        })
        .await;
        side.complete(fence(&running[0])).await.expect("it holds the lease");
        let ready = side.row(held.id).await;
        assert!(ready.ready_order > held.ready_order, "it has a new place");
        running = side.claim("one", 1).await;
        assert_eq!(ids(&running), [held.id]);
    }
    let moved = plain.number("select count(*) from class_priorities where generation <> 0", &[]).await;
    assert_eq!(moved, 0, "no bound was made void for it");
    side.engine.shutdown().await;
}

/// An engine whose connections go through a proxy.
async fn behind_proxy(sandbox: &Sandbox) -> (Proxy, TestServer) {
    let proxy = Proxy::start(&sandbox.url("proxied")).await;
    let store = PostgresStore::connect_with(proxy.url(), sandbox.settings()).await;
    let side = TestServer::new(Arc::new(store.expect("the store opens")), passive_options()).await;
    (proxy, side)
}

/// What is used of a budget, and what is reserved.
async fn spent(side: &TestServer, budget: &str) -> (Amounts, Amounts) {
    let gate = side.namespace.gate(GateKind::Budget, budget).await.expect("it is there").gate;
    (gate.state.used, gate.state.reserved)
}

/// A claim for half a second.
fn brief(instance: &str) -> ClaimDraft {
    ClaimDraft { lease_ttl_ms: 500, ..claim_of(instance, 1) }
}

/// Lets leases lapse until nothing is reserved.
async fn gives_back(side: &TestServer, budget: &str) {
    until("what was reserved is given back", async || {
        side.tick("lease_expiry").await;
        spent(side, budget).await.1.is_empty()
    })
    .await;
}

#[tokio::test]
async fn what_was_reserved_for_a_claim_whose_answer_was_lost_is_given_back_once_its_lease_lapses() {
    let sandbox = Sandbox::new();
    let (proxy, cut) = behind_proxy(&sandbox).await;
    let side = sandbox.side("side").await;
    configure(&side, GateKind::Budget, "month", hard(100)).await;
    for (number, lost) in [Cut::BeforeCommit, Cut::AfterCommit].into_iter().enumerate() {
        let all = side.submit_many(vec![spending("month", 60); 2]).await;
        proxy.cut_next(lost);
        let answer = cut.namespace.claim(claim_wait(brief("lost"), Duration::ZERO)).await;
        assert!(matches!(answer, Err(Error::Store(_))), "{answer:?}");
        assert_eq!(proxy.cuts(), number + 1);
        let reserved = if lost == Cut::AfterCommit { tokens(60) } else { Amounts::new() };
        assert_eq!(spent(&side, "month").await, (Amounts::new(), reserved));
        if lost == Cut::AfterCommit {
            assert!(side.claim("one", 9).await.is_empty(), "the other does not fit beside it");
            assert_eq!(side.state(all[1]).await, StateName::Held);
        }
        gives_back(&side, "month").await;
        // One after the other, both run.
        for _ in 0..2 {
            let claimed = side.claim("one", 9).await;
            assert_eq!(claimed.len(), 1);
            side.complete(fence(&claimed[0])).await.expect("it holds the lease");
        }
    }
    assert_eq!(spent(&side, "month").await, (Amounts::new(), Amounts::new()));
}

#[tokio::test]
async fn a_report_whose_answer_was_lost_settles_and_gives_back_once() {
    let sandbox = Sandbox::new();
    let (proxy, cut) = behind_proxy(&sandbox).await;
    let side = sandbox.side("side").await;
    configure(&side, GateKind::Budget, "month", hard(1000)).await;
    side.submit_many(vec![spending("month", 60); 3]).await;
    // Another runs all the time: what is given back twice would be taken from what is reserved for it.
    side.claim_one("other").await;
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
        assert!(matches!(answer, Err(Error::Store(_))), "its answer is lost");
        // The worker says it again, to another server.
        side.report(lease, Op::Usage(spend)).await.expect("it is counted once");
        side.complete(lease).await.expect("it is done once");
        let used = tokens(10 * (number as u32 + 1));
        assert_eq!(spent(&side, "month").await, (used, tokens(60)));
        let spent_by = side.namespace.spent_by(lease.execution).await.expect("it is read");
        assert_eq!(spent_by.len(), 1);
        assert_eq!(spent_by[0].entry.spent, tokens(10));
    }
}

#[tokio::test]
async fn what_was_reserved_under_a_server_that_dies_is_given_back_once_its_leases_lapse() {
    let sandbox = Sandbox::new();
    let side = sandbox.side("side").await;
    let plain = sandbox.plain().await;
    configure(&side, GateKind::Budget, "month", hard(100)).await;
    let all = side.submit_many(vec![spending("month", 60); 3]).await;
    let dies = sandbox.side("dies").await;
    let lost = dies.claim_as(brief("lost")).await;
    assert_eq!(ids(&lost), all[..1]);
    let spend = Spend {
        namespace: side.namespace.id(),
        budget: Name::trusted("month"),
        usage: tokens(25),
        dedup_key: None,
        execution: Some(all[0]),
    };
    dies.report(fence(&lost[0]), Op::Usage(spend.clone())).await.expect("it is counted");
    let name = format!("{}_dies", sandbox.schema);
    let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = $1";
    plain.number(kill, &[&name]).await;
    drop(dies);
    assert!(side.claim("one", 9).await.is_empty(), "nothing fits beside what is used and reserved");
    gives_back(&side, "month").await;
    // What its attempt has spent stays spent, and it may say so later too.
    side.report(fence(&lost[0]), Op::Usage(spend)).await.expect("it once held the lease");
    assert_eq!(spent(&side, "month").await, (tokens(50), Amounts::new()));
    assert!(side.claim("one", 9).await.is_empty(), "60 more are too many");
    configure(&side, GateKind::Budget, "month", hard(110)).await;
    assert_eq!(side.claim("one", 9).await.len(), 1);
    let used = spent(&side, "month").await;
    assert_eq!(used, (tokens(50), tokens(60)));
    assert_eq!(used.0["tokens"] + used.1["tokens"], Amount::whole(110));
}

#[tokio::test]
async fn counting_at_a_gate_is_a_heap_only_update() {
    let sandbox = Sandbox::new();
    let side = sandbox.side("side").await;
    side.submit(keyed("key", 5)).await;
    side.claim_one("one").await;
    let client = testing::connect(&sandbox.url("plain"), &sandbox.settings()).await.expect("it connects");
    let statements: HashMap<_, _> = testing::statements().into_iter().collect();
    let begin = format!("begin; prepare count as {}", statements["gates_update"]);
    client.batch_execute(&begin).await.expect("it begins");
    let id = gate(&side, GateKind::Key, "key").id().0;
    for version in 1..=20 {
        let count = format!(
            "execute count('{{{id}}}', '{{{version}}}', '{{{}}}', '{{true}}', '{{null}}', '{{{version}}}', '{{null}}', \
             '{{null}}')",
            version + 1
        );
        client.batch_execute(&count).await.expect("it is counted");
    }
    let text = "select n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables \
                where relname = 'gates' and schemaname = current_schema()";
    let row = client.query_one(text, &[]).await.expect("it is told");
    client.batch_execute("rollback").await.expect("it ends");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (20, 20));
    side.engine.shutdown().await;
}
