//! Transactions that meet at gates, at what these hold, and at what else they lock. Each race is made certain: a third
//! connection holds a lock until the others are seen to wait for it, in the order that the test wants, and then lets go.

mod support;

use selvedge_conformance::{Sketch, invariants};
use selvedge_engine::core::gate::draws::lane_gate;
use selvedge_engine::core::gate::{Config, GateKind, GateName, RequiredGates};
use selvedge_engine::core::rules::gates::budget::Spend;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, ExecutionId, Name};
use selvedge_postgres::{PostgresStore, Settings};
use std::sync::Arc;
use std::time::Duration;
use support::admission::{at_once, configure, drawing, fair, hard, keyed, tokens};
use support::test_server::{
    TestServer, claim_of, claim_wait, complete_op, fence, ids, operator, passive_options,
};
use support::{Plain, Sandbox, stop, until};
use tokio::task::JoinHandle;

/// Does something in the background.
macro_rules! meanwhile {
    ($side:ident => $what:expr) => {{
        let $side = $side.clone();
        tokio::spawn(async move { $what.await })
    }};
}

async fn joined<T>(task: JoinHandle<T>) -> T {
    task.await.expect("it does not panic")
}

/// An engine, what its connections are called, and its store.
struct Server {
    who: &'static str,
    side: TestServer,
    store: Arc<PostgresStore>,
}

/// An engine that does only what it is asked to, with so many connections to write. It waits for a lock longer than it takes
/// Postgres to find a circle.
async fn server(sandbox: &Sandbox, who: &'static str, writers: usize) -> Server {
    let settings = Settings { writers, lock_timeout: Duration::from_secs(20), ..sandbox.settings() };
    let store = sandbox.store_with(who, settings).await;
    let side = TestServer::new(store.clone(), passive_options()).await;
    Server { who, side, store }
}

/// Checks everything that must hold of all rows and the whole log, stops the engines, and checks that no two transactions
/// waited for each other, and that none was begun again.
async fn end(sandbox: &Sandbox, servers: &[&Server]) {
    let broken = invariants::check(&*servers[0].store).await;
    assert!(broken.is_empty(), "invariants are broken: {broken:#?}");
    stop(servers.iter().map(|server| &server.side.engine)).await;
    for server in servers {
        until("its connections are closed", async || sandbox.connections(server.who).await == 0).await;
    }
    assert_eq!(sandbox.deadlocks().await, 0, "they waited for each other");
    let conflicts: Vec<u64> = servers.iter().map(|server| server.store.conflicts()).collect();
    assert_eq!(conflicts, vec![0; servers.len()], "what a transaction changes it has locked before");
}

/// Begins a transaction that holds all gates.
async fn hold_gates(plain: &Plain) {
    plain.run("begin; select from gates order by id for update").await;
}

/// Begins a transaction that holds one gate.
async fn hold_gate(plain: &Plain, name: &GateName) {
    plain.run(&format!("begin; select from gates where id = {} for update", name.id().0)).await;
}

fn prioritise() -> Action {
    Action::Prioritise { priority: 5 }
}

/// Keeps the only writer of a narrow engine busy with a command on `other`, whose row `plain` holds: what comes meanwhile goes
/// in one batch.
async fn keep_busy(
    sandbox: &Sandbox,
    plain: &Plain,
    narrow: &TestServer,
    other: ExecutionId,
) -> JoinHandle<()> {
    plain.hold(other).await;
    let narrow = narrow.clone();
    let busy = tokio::spawn(async move {
        narrow.operate(other, prioritise()).await.expect("it is raised");
    });
    sandbox.waits_for_lock("narrow", 1).await;
    busy
}

/// Polls once, so that what it asks for is in the queue.
async fn asked<T>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T>
where
    T: Send + 'static,
{
    let mut future = Box::pin(future);
    assert!(tokio::time::timeout(Duration::ZERO, &mut future).await.is_err(), "it waits");
    tokio::spawn(future)
}

#[tokio::test]
async fn a_completion_and_a_cancel_of_the_same_lease_do_not_wait_for_each_other_at_its_gate() {
    let sandbox = Sandbox::alone().await;
    let servers = [server(&sandbox, "a", 4).await, server(&sandbox, "b", 4).await];
    let (a, b, plain) = (&servers[0].side, &servers[1].side, sandbox.plain().await);
    for gate in [GateKind::Quota, GateKind::Lane] {
        configure(a, gate, "default", at_once(1)).await;
        let draft = if gate == GateKind::Quota { drawing("default") } else { Draft::new("kind") };
        let id = a.submit(draft).await;
        let lease = fence(&a.claim_one("one").await);
        hold_gates(&plain).await;
        let complete = meanwhile!(a => a.complete(lease));
        sandbox.waits_for_lock("a", 1).await;
        let cancel = meanwhile!(b => b.cancel(id));
        sandbox.waits_for_lock("b", 1).await;
        plain.release().await;
        joined(complete).await.expect("it was first");
        assert!(joined(cancel).await.is_err(), "it has ended");
        assert_eq!(a.state(id).await, StateName::Completed);
        a.namespace.configure(gate, "default", None, &operator()).await.expect("it is removed");
    }
    end(&sandbox, &servers.each_ref()).await;
}

#[tokio::test]
async fn a_heartbeat_in_a_batch_that_opens_a_gate_and_a_claim_of_the_same_worker_do_not_wait_for_each_other()
{
    let sandbox = Sandbox::alone().await;
    let servers = [server(&sandbox, "a", 4).await, server(&sandbox, "narrow", 1).await];
    let (a, narrow) = (&servers[0].side, &servers[1].side);
    let (plain, gates) = (sandbox.plain().await, sandbox.plain().await);
    configure(a, GateKind::Quota, "few", at_once(2)).await;
    narrow.submit_many(vec![drawing("few"); 2]).await;
    let lease = fence(&narrow.claim_one("one").await);
    let other = a.submit(Draft { priority: -5, ..Draft::new("other") }).await;
    let busy = keep_busy(&sandbox, &plain, narrow, other).await;
    let beat = asked({
        let narrow = narrow.clone();
        async move { narrow.heartbeat("one", &[lease]).await }
    })
    .await;
    let complete = asked({
        let narrow = narrow.clone();
        async move { narrow.complete(lease).await }
    })
    .await;
    hold_gates(&gates).await;
    // The worker claims with another scope, so that its session is written.
    let mut claim = claim_of("one", 1);
    claim.kinds = Some(vec!["kind".into()]);
    let claimed = meanwhile!(a => a.claim_as(claim));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    sandbox.waits_for_lock("narrow", 1).await;
    joined(busy).await;
    gates.release().await;
    assert_eq!(joined(claimed).await.len(), 1);
    joined(complete).await.expect("it holds the lease");
    assert!(joined(beat).await.renewed.is_empty(), "it was completed in the same batch");
    end(&sandbox, &servers.each_ref()).await;
}

#[tokio::test]
async fn a_lease_that_lapses_behind_a_gate_and_a_claim_of_its_worker_do_not_wait_for_each_other() {
    let sandbox = Sandbox::alone().await;
    let servers = [server(&sandbox, "a", 4).await, server(&sandbox, "b", 4).await];
    let (a, b, plain) = (&servers[0].side, &servers[1].side, sandbox.plain().await);
    configure(a, GateKind::Quota, "few", at_once(2)).await;
    let first = a.submit_many(vec![drawing("few"); 2]).await[0];
    a.claim_with_short_lease("one").await;
    until("the lease has lapsed", async || {
        !b.engine.store().lapsed(None, 10).await.expect("leases are read").is_empty()
    })
    .await;
    hold_gates(&plain).await;
    let mut claim = claim_of("one", 1);
    (claim.kinds, claim.lease_ttl_ms) = (Some(vec!["kind".into()]), 500);
    let claimed = meanwhile!(a => a.claim_as(claim));
    sandbox.waits_for_lock("a", 1).await;
    let lapse = meanwhile!(b => b.tick("lease_expiry"));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    assert_eq!(joined(claimed).await.len(), 1);
    joined(lapse).await;
    until("it is ready again", async || {
        b.tick("lease_expiry").await;
        a.state(first).await == StateName::Waiting
    })
    .await;
    end(&sandbox, &servers.each_ref()).await;
}

#[tokio::test]
async fn a_node_that_spawns_does_not_wait_at_its_gates_for_another_of_its_flow_that_ends() {
    let sandbox = Sandbox::alone().await;
    let servers = [server(&sandbox, "a", 4).await, server(&sandbox, "b", 4).await];
    let (a, b, plain) = (&servers[0].side, &servers[1].side, sandbox.plain().await);
    configure(a, GateKind::Quota, "few", at_once(5)).await;
    let required_gates = RequiredGates { quotas: vec![Name::trusted("few")], ..RequiredGates::default() };
    let sketch =
        Sketch::from("x y -> z").of_kind("kind").each(|draft| draft.required_gates = required_gates.clone());
    let flow = a.flow_of(sketch.0).await;
    let leases = a.claim_nodes("one").await;
    let child = support::flows::drawn("child").graph;
    let spawn = b.namespace.spawn(child, false).await.expect("it is valid");
    hold_gates(&plain).await;
    let (x, y) = (leases["x"], leases["y"]);
    let complete = meanwhile!(a => a.complete(y));
    sandbox.waits_for_lock("a", 1).await;
    b.report(x, spawn).await.expect("it holds the lease, and keeps it");
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    joined(complete).await.expect("it holds the lease");
    a.complete(x).await.expect("it holds the lease");
    a.work_off(&[flow.id]).await;
    end(&sandbox, &servers.each_ref()).await;
}

#[tokio::test]
async fn a_lane_that_is_configured_while_others_claim_from_several_is_locked_in_their_order() {
    let sandbox = Sandbox::alone().await;
    let servers = [server(&sandbox, "a", 4).await, server(&sandbox, "narrow", 1).await];
    let (a, narrow) = (&servers[0].side, &servers[1].side);
    let (plain, gates) = (sandbox.plain().await, sandbox.plain().await);
    let namespace = a.namespace.id();
    let mut lanes = ["one", "two"].map(|name| lane_gate(namespace, &Name::trusted(name)));
    lanes.sort_by_key(GateName::id);
    let names = lanes.clone().map(|lane| lane.name.to_string());
    for side in [a, narrow] {
        for name in &names {
            configure(side, GateKind::Lane, name, at_once(5)).await;
            side.submit(Draft { lane: name.clone(), ..Draft::new("kind") }).await;
        }
    }
    let other = a.submit(Draft::new("other")).await;
    let busy = keep_busy(&sandbox, &plain, narrow, other).await;
    let mut second = claim_of("narrow", 1);
    second.lanes = vec![names[1].clone()];
    let claim_second = asked({
        let narrow = narrow.clone();
        async move { narrow.claim_as(second).await }
    })
    .await;
    let configure_first = asked({
        let (narrow, first) = (narrow.clone(), names[0].clone());
        let config = Some(Config { weight: Some(2), ..at_once(5) });
        async move { narrow.namespace.configure(GateKind::Lane, &first, config, &operator()).await }
    })
    .await;
    hold_gate(&gates, &lanes[1]).await;
    plain.release().await;
    sandbox.waits_for_lock("narrow", 1).await;
    joined(busy).await;
    let mut both = claim_of("both", 2);
    both.lanes = names.to_vec();
    let claim_both = meanwhile!(a => a.claim_as(both));
    sandbox.waits_for_lock("a", 1).await;
    gates.release().await;
    assert_eq!(joined(claim_second).await.len(), 1);
    joined(configure_first).await.expect("it is configured");
    assert_eq!(joined(claim_both).await.len(), 2);
    end(&sandbox, &servers.each_ref()).await;
}

#[tokio::test]
async fn what_a_gate_holds_goes_on_although_an_operator_had_it_when_the_gate_opened() {
    let sandbox = Sandbox::alone().await;
    let servers = [server(&sandbox, "a", 4).await, server(&sandbox, "b", 4).await];
    let (a, b, plain) = (&servers[0].side, &servers[1].side, sandbox.plain().await);
    let all = a.submit_many(vec![keyed("key", 1); 2]).await;
    let first = a.claim("one", 2).await;
    assert_eq!(ids(&first), all[..1]);
    let held = all[1];
    plain.hold(held).await;
    let raise = meanwhile!(b => b.operate(held, prioritise()));
    sandbox.waits_for_lock("b", 1).await;
    a.complete(fence(&first[0])).await.expect("it holds the lease");
    plain.release().await;
    joined(raise).await.expect("it is raised");
    assert_eq!(a.state(held).await, StateName::Held);
    until("it goes on", async || {
        a.tick("gate_release").await;
        a.state(held).await == StateName::Waiting
    })
    .await;
    assert_eq!(ids(&a.claim("one", 1).await), [held]);
    end(&sandbox, &servers.each_ref()).await;
}

#[tokio::test]
async fn a_line_moves_up_although_an_operator_had_its_next_when_the_first_was_claimed() {
    let sandbox = Sandbox::alone().await;
    let servers = [server(&sandbox, "a", 4).await, server(&sandbox, "b", 4).await];
    let (a, b, plain) = (&servers[0].side, &servers[1].side, sandbox.plain().await);
    let all = a.submit_many(vec![fair("key"); 2]).await;
    let next = all[1];
    assert_eq!(a.state(next).await, StateName::Held);
    plain.hold(next).await;
    let raise = meanwhile!(b => b.operate(next, prioritise()));
    sandbox.waits_for_lock("b", 1).await;
    assert_eq!(ids(&a.claim("one", 2).await), all[..1]);
    plain.release().await;
    joined(raise).await.expect("it is raised");
    until("it goes on", async || {
        a.tick("gate_release").await;
        a.state(next).await == StateName::Waiting
    })
    .await;
    assert_eq!(ids(&a.claim("one", 1).await), [next]);
    end(&sandbox, &servers.each_ref()).await;
}

#[tokio::test]
async fn what_is_reported_of_a_lease_that_another_server_took_away_counts_once_and_gives_back_nothing() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.side("a").await, sandbox.side("b").await);
    configure(&a, GateKind::Lane, "default", at_once(2)).await;
    configure(&a, GateKind::Quota, "few", at_once(2)).await;
    configure(&a, GateKind::Budget, "month", hard(100)).await;
    let required_gates = RequiredGates {
        budgets: vec![(Name::trusted("month"), tokens(60))],
        quotas: vec![Name::trusted("few")],
        concurrency: Some((Name::trusted("key"), 2)),
        ..RequiredGates::default()
    };
    let id = a.submit(Draft { required_gates, ..Draft::new("kind") }).await;
    // The first server remembers the row of the lease that it has given out.
    let lost = fence(&a.claim_one("one").await);
    b.operate(id, Action::Revoke { reason: None }).await.expect("it is revoked");
    let current = fence(&b.claim_one("two").await);
    let usage = Spend {
        namespace: a.namespace.id(),
        budget: Name::trusted("month"),
        usage: tokens(10),
        dedup_key: None,
        execution: Some(id),
    };
    let ops = vec![Ok((lost, None, Op::Usage(usage))), Ok((lost, None, complete_op()))];
    let (results, _) = a.namespace.report(ops, None).await.expect("it is answered");
    assert!(results[0].is_ok(), "it once held the lease: {results:?}");
    assert_eq!(results[1].as_ref().map(drop).map_err(|refusal| refusal.code()), Err("stale_lease"));
    let taken =
        async |gate: GateKind, name: &str| a.namespace.gate(gate, name).await.expect("it is there").gate;
    let month = taken(GateKind::Budget, "month").await.state;
    assert_eq!((month.used, month.reserved), (tokens(10), tokens(60)), "counted once, and still reserved");
    assert_eq!(taken(GateKind::Lane, "default").await.active, 1);
    assert_eq!(taken(GateKind::Quota, "few").await.active, 1);
    b.complete(current).await.expect("it holds the lease");
    assert!(taken(GateKind::Budget, "month").await.state.reserved.is_empty());
    assert_eq!(taken(GateKind::Lane, "default").await.active, 0);
    assert_eq!(taken(GateKind::Quota, "few").await.active, 0);
    let broken = invariants::check(&**a.engine.store()).await;
    assert!(broken.is_empty(), "invariants are broken: {broken:#?}");
}

#[tokio::test]
async fn held_rows_that_cannot_be_read_do_not_keep_those_behind_them() {
    let sandbox = Sandbox::new();
    let (side, plain) = (sandbox.side("side").await, sandbox.plain().await);
    let all = side.submit_many(vec![keyed("key", 1); 200]).await;
    let first = side.claim("one", 200).await;
    assert_eq!(ids(&first), all[..1]);
    plain
        .run(
            "update executions set detail = '{' where id in (
               select id from executions where gate is not null order by ready_order, id limit 150
             )",
        )
        .await;
    side.complete(fence(&first[0])).await.expect("it holds the lease");
    assert_eq!(ids(&side.claim("one", 10).await), all[151..152]);
    side.engine.shutdown().await;
}

#[tokio::test]
async fn a_claim_looks_behind_what_is_refused() {
    let sandbox = Sandbox::new();
    let side = sandbox.side("side").await;
    let all = side.submit_many(vec![keyed("key", 1); 40]).await;
    assert_eq!(ids(&side.claim("one", 1).await), all[..1]);
    let free = side.submit(Draft::new("kind")).await;
    // As a worker with one slot asks: it waits for a while.
    let claim = claim_wait(claim_of("two", 1), Duration::from_secs(10));
    let claimed = side.namespace.claim(claim).await.expect("the claim is answered");
    assert_eq!(ids(&claimed), [free]);
    side.engine.shutdown().await;
}
