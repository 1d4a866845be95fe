//! Transactions that compete for gates, for the executions that gates hold, and for other locks. Each race is made
//! certain: a third connection takes a lock, waits until the others wait for it in the order that the test needs, and
//! releases it.

use selvedge_conformance::{Sketch, invariants};
use selvedge_engine::ReconcilerScope;
use selvedge_engine::core::gate::draws::lane_gate;
use selvedge_engine::core::gate::{Config, GateKind, GateName, RequiredGates};
use selvedge_engine::core::rules::gates::budget::Spend;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, ExecutionId, Name};
use selvedge_postgres::{PostgresStore, Settings};
use selvedge_system_tests::gate_load::{
    concurrency_limit, configure, hard_limit, tokens, with_concurrency_key, with_fairness_key, with_quota,
};
use selvedge_system_tests::server::{
    Server, claim_of, claim_wait, complete_op, fence, ids, operator, passive_options,
};
use selvedge_system_tests::{PlainConnection, Sandbox, in_background, joined, stop, wait_until};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// A server with the name of its connections and its store.
struct Contender {
    name: &'static str,
    server: Server,
    store: Arc<PostgresStore>,
}

/// Starts a server without background work, with this number of connections for transactions. Its lock timeout is
/// longer than Postgres takes to detect a deadlock.
async fn contender(sandbox: &Sandbox, name: &'static str, writers: usize) -> Contender {
    let settings = Settings { writers, lock_timeout: Duration::from_secs(20), ..sandbox.settings() };
    let store = sandbox.store_with(name, settings).await;
    let server = Server::new(store.clone(), passive_options()).await;
    Contender { name, server, store }
}

/// Checks the invariants of all rows and of the whole log, stops the servers, and checks that no transaction deadlocked
/// or was retried.
async fn check_and_stop(sandbox: &Sandbox, contenders: &[&Contender]) {
    let broken = invariants::check(&*contenders[0].store).await;
    assert!(broken.is_empty(), "invariants are broken: {broken:#?}");
    stop(contenders.iter().map(|contender| &contender.server.engine)).await;
    for contender in contenders {
        wait_until("all connections are closed", async || sandbox.connections(contender.name).await == 0)
            .await;
    }
    assert_eq!(sandbox.deadlocks().await, 0, "transactions deadlocked");
    let conflicts: Vec<u64> = contenders.iter().map(|contender| contender.store.conflicts()).collect();
    assert_eq!(conflicts, vec![0; contenders.len()], "every changed row was locked before");
}

/// Begins a transaction that locks all gates.
async fn lock_gates(plain: &PlainConnection) {
    plain.run("begin; select from gates order by id for update").await;
}

/// Begins a transaction that locks one gate.
async fn lock_gate(plain: &PlainConnection, name: &GateName) {
    plain.run(&format!("begin; select from gates where id = {} for update", name.id().0)).await;
}

fn prioritise() -> Action {
    Action::Prioritise { priority: 5 }
}

/// Keeps the single writer of a server busy with an operation on `other`, whose row `plain` locks: calls that arrive
/// meanwhile share one batch.
async fn keep_busy(
    sandbox: &Sandbox,
    plain: &PlainConnection,
    narrow: &Server,
    other: ExecutionId,
) -> JoinHandle<()> {
    plain.lock_execution(other).await;
    let narrow = narrow.clone();
    let busy = tokio::spawn(async move {
        narrow.operate(other, prioritise()).await.expect("the priority is raised");
    });
    sandbox.waits_for_lock("narrow", 1).await;
    busy
}

/// Polls a call once, so that it is queued, and runs it in the background.
async fn queued<T>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T>
where
    T: Send + 'static,
{
    let mut future = Box::pin(future);
    assert!(tokio::time::timeout(Duration::ZERO, &mut future).await.is_err(), "the call is queued");
    tokio::spawn(future)
}

#[tokio::test]
async fn a_claim_that_commits_after_its_lane_was_limited_is_counted_later() {
    let sandbox = Sandbox::with_own_database().await;
    let contenders = [contender(&sandbox, "a", 4).await, contender(&sandbox, "b", 4).await];
    let (a, b, plain) = (&contenders[0].server, &contenders[1].server, sandbox.plain().await);
    a.submit_many(vec![Draft::new("kind"); 3]).await;
    let first = fence(&a.claim_one("one").await);
    a.complete(first).await.expect("the lease is held");
    // A claim with another scope writes its session. It has read the lane when it waits for the row of the session.
    plain.lock_sessions().await;
    let mut other_scope = claim_of("one", 1);
    other_scope.kinds = Some(vec!["kind".into()]);
    let claim = in_background!(a => a.claim_as(other_scope));
    sandbox.waits_for_lock("a", 1).await;
    configure(b, GateKind::Lane, "default", concurrency_limit(1)).await;
    plain.release().await;
    let claimed = joined(claim).await;
    assert_eq!(claimed[0].execution.detail.slots.lane, None, "it began before the limit was set");
    let lane = async || b.namespace.gate(GateKind::Lane, "default").await.expect("the lane exists").gate;
    assert_eq!(lane().await.active, 0);
    wait_until("the lane has counted once more", async || {
        b.tick("gate_release").await;
        lane().await.state.adoption.is_none()
    })
    .await;
    assert_eq!(lane().await.active, 1);
    assert!(b.claim("two", 5).await.is_empty());
    a.complete(fence(&claimed[0])).await.expect("the lease is held");
    assert_eq!(b.claim("two", 5).await.len(), 1);
    let broken = invariants::check(&*contenders[0].store).await;
    assert!(broken.is_empty(), "invariants are broken: {broken:#?}");
    stop(contenders.iter().map(|contender| &contender.server.engine)).await;
}

#[tokio::test]
async fn a_completion_and_a_cancel_of_the_same_lease_do_not_deadlock_at_its_gate() {
    let sandbox = Sandbox::with_own_database().await;
    let contenders = [contender(&sandbox, "a", 4).await, contender(&sandbox, "b", 4).await];
    let (a, b, plain) = (&contenders[0].server, &contenders[1].server, sandbox.plain().await);
    for gate in [GateKind::Quota, GateKind::Lane] {
        configure(a, gate, "default", concurrency_limit(1)).await;
        let draft = if gate == GateKind::Quota { with_quota("default") } else { Draft::new("kind") };
        let id = a.submit(draft).await;
        let lease = fence(&a.claim_one("one").await);
        lock_gates(&plain).await;
        let complete = in_background!(a => a.complete(lease));
        sandbox.waits_for_lock("a", 1).await;
        let cancel = in_background!(b => b.cancel(id));
        sandbox.waits_for_lock("b", 1).await;
        plain.release().await;
        joined(complete).await.expect("the first call succeeds");
        assert!(joined(cancel).await.is_err(), "the execution has ended");
        assert_eq!(a.state(id).await, StateName::Completed);
        a.namespace.configure(gate, "default", None, &operator()).await.expect("the gate is removed");
    }
    check_and_stop(&sandbox, &contenders.each_ref()).await;
}

#[tokio::test]
async fn a_heartbeat_in_a_batch_that_opens_a_gate_and_a_claim_of_the_same_worker_do_not_deadlock() {
    let sandbox = Sandbox::with_own_database().await;
    let contenders = [contender(&sandbox, "a", 4).await, contender(&sandbox, "narrow", 1).await];
    let (a, narrow) = (&contenders[0].server, &contenders[1].server);
    let (plain, gates) = (sandbox.plain().await, sandbox.plain().await);
    configure(a, GateKind::Quota, "few", concurrency_limit(2)).await;
    narrow.submit_many(vec![with_quota("few"); 2]).await;
    let lease = fence(&narrow.claim_one("one").await);
    let other = a.submit(Draft { priority: -5, ..Draft::new("other") }).await;
    let busy = keep_busy(&sandbox, &plain, narrow, other).await;
    let beat = queued({
        let narrow = narrow.clone();
        async move { narrow.heartbeat("one", &[lease]).await }
    })
    .await;
    let complete = queued({
        let narrow = narrow.clone();
        async move { narrow.complete(lease).await }
    })
    .await;
    lock_gates(&gates).await;
    // The worker claims with another scope, so that its session is written.
    let mut claim = claim_of("one", 1);
    claim.kinds = Some(vec!["kind".into()]);
    let claimed = in_background!(a => a.claim_as(claim));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    sandbox.waits_for_lock("narrow", 1).await;
    joined(busy).await;
    gates.release().await;
    assert_eq!(joined(claimed).await.len(), 1);
    joined(complete).await.expect("the lease is held");
    assert!(joined(beat).await.renewed.is_empty(), "the lease was completed in the same batch");
    check_and_stop(&sandbox, &contenders.each_ref()).await;
}

#[tokio::test]
async fn a_lease_that_expires_behind_a_gate_and_a_claim_of_its_worker_do_not_deadlock() {
    let sandbox = Sandbox::with_own_database().await;
    let contenders = [contender(&sandbox, "a", 4).await, contender(&sandbox, "b", 4).await];
    let (a, b, plain) = (&contenders[0].server, &contenders[1].server, sandbox.plain().await);
    configure(a, GateKind::Quota, "few", concurrency_limit(2)).await;
    let first = a.submit_many(vec![with_quota("few"); 2]).await[0];
    a.claim_with_short_lease("one").await;
    wait_until("the lease has expired", async || {
        !b.engine
            .store()
            .expired_leases(&ReconcilerScope::ALL, None, 10)
            .await
            .expect("the leases are read")
            .is_empty()
    })
    .await;
    lock_gates(&plain).await;
    let mut claim = claim_of("one", 1);
    (claim.kinds, claim.lease_ttl_ms) = (Some(vec!["kind".into()]), 500);
    let claimed = in_background!(a => a.claim_as(claim));
    sandbox.waits_for_lock("a", 1).await;
    let expiry = in_background!(b => b.tick("lease_expiry"));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    assert_eq!(joined(claimed).await.len(), 1);
    joined(expiry).await;
    wait_until("the execution is waiting again", async || {
        b.tick("lease_expiry").await;
        a.state(first).await == StateName::Waiting
    })
    .await;
    check_and_stop(&sandbox, &contenders.each_ref()).await;
}

#[tokio::test]
async fn a_node_that_spawns_does_not_wait_at_its_gates_for_a_completion_in_its_flow() {
    let sandbox = Sandbox::with_own_database().await;
    let contenders = [contender(&sandbox, "a", 4).await, contender(&sandbox, "b", 4).await];
    let (a, b, plain) = (&contenders[0].server, &contenders[1].server, sandbox.plain().await);
    configure(a, GateKind::Quota, "few", concurrency_limit(5)).await;
    let required_gates = RequiredGates { quotas: vec![Name::trusted("few")], ..RequiredGates::default() };
    let sketch =
        Sketch::from("x y -> z").of_kind("kind").each(|draft| draft.required_gates = required_gates.clone());
    let flow = a.flow_of(sketch.0).await;
    let leases = a.claim_nodes("one").await;
    let child = selvedge_system_tests::flows::flow_draft("child").graph;
    let spawn = b.namespace.spawn(child, false).await.expect("the graph is valid");
    lock_gates(&plain).await;
    let (x, y) = (leases["x"], leases["y"]);
    let complete = in_background!(a => a.complete(y));
    sandbox.waits_for_lock("a", 1).await;
    b.report(x, spawn).await.expect("the lease is held and stays held");
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    joined(complete).await.expect("the lease is held");
    a.complete(x).await.expect("the lease is held");
    a.run_to_end(&[flow.id]).await;
    check_and_stop(&sandbox, &contenders.each_ref()).await;
}

#[tokio::test]
async fn a_lane_that_is_configured_while_others_claim_from_several_is_locked_in_their_order() {
    let sandbox = Sandbox::with_own_database().await;
    let contenders = [contender(&sandbox, "a", 4).await, contender(&sandbox, "narrow", 1).await];
    let (a, narrow) = (&contenders[0].server, &contenders[1].server);
    let (plain, gates) = (sandbox.plain().await, sandbox.plain().await);
    let namespace = a.namespace.id();
    let mut lanes = ["one", "two"].map(|name| lane_gate(namespace, &Name::trusted(name)));
    lanes.sort_by_key(GateName::id);
    let names = lanes.clone().map(|lane| lane.name.to_string());
    for server in [a, narrow] {
        for name in &names {
            configure(server, GateKind::Lane, name, concurrency_limit(5)).await;
            server.submit(Draft { lane: name.clone(), ..Draft::new("kind") }).await;
        }
    }
    let other = a.submit(Draft::new("other")).await;
    let busy = keep_busy(&sandbox, &plain, narrow, other).await;
    let mut second = claim_of("narrow", 1);
    second.lanes = vec![names[1].clone()];
    let claim_second = queued({
        let narrow = narrow.clone();
        async move { narrow.claim_as(second).await }
    })
    .await;
    let configure_first = queued({
        let (narrow, first) = (narrow.clone(), names[0].clone());
        let config = Some(Config { weight: Some(2), ..concurrency_limit(5) });
        async move { narrow.namespace.configure(GateKind::Lane, &first, config, &operator()).await }
    })
    .await;
    lock_gate(&gates, &lanes[1]).await;
    plain.release().await;
    sandbox.waits_for_lock("narrow", 1).await;
    joined(busy).await;
    let mut both = claim_of("both", 2);
    both.lanes = names.to_vec();
    let claim_both = in_background!(a => a.claim_as(both));
    sandbox.waits_for_lock("a", 1).await;
    gates.release().await;
    assert_eq!(joined(claim_second).await.len(), 1);
    joined(configure_first).await.expect("the gate is configured");
    assert_eq!(joined(claim_both).await.len(), 2);
    check_and_stop(&sandbox, &contenders.each_ref()).await;
}

#[tokio::test]
async fn a_held_execution_is_released_although_an_operator_had_locked_it_when_the_gate_opened() {
    let sandbox = Sandbox::with_own_database().await;
    let contenders = [contender(&sandbox, "a", 4).await, contender(&sandbox, "b", 4).await];
    let (a, b, plain) = (&contenders[0].server, &contenders[1].server, sandbox.plain().await);
    let all = a.submit_many(vec![with_concurrency_key("key", 1); 2]).await;
    let first = a.claim("one", 2).await;
    assert_eq!(ids(&first), all[..1]);
    let held = all[1];
    plain.lock_execution(held).await;
    let raise = in_background!(b => b.operate(held, prioritise()));
    sandbox.waits_for_lock("b", 1).await;
    a.complete(fence(&first[0])).await.expect("the lease is held");
    plain.release().await;
    joined(raise).await.expect("the priority is raised");
    assert_eq!(a.state(held).await, StateName::Held);
    wait_until("the execution is released", async || {
        a.tick("gate_release").await;
        a.state(held).await == StateName::Waiting
    })
    .await;
    assert_eq!(ids(&a.claim("one", 1).await), [held]);
    check_and_stop(&sandbox, &contenders.each_ref()).await;
}

#[tokio::test]
async fn a_fairness_line_advances_although_an_operator_had_locked_the_next_when_the_first_was_claimed() {
    let sandbox = Sandbox::with_own_database().await;
    let contenders = [contender(&sandbox, "a", 4).await, contender(&sandbox, "b", 4).await];
    let (a, b, plain) = (&contenders[0].server, &contenders[1].server, sandbox.plain().await);
    let all = a.submit_many(vec![with_fairness_key("key"); 2]).await;
    let next = all[1];
    assert_eq!(a.state(next).await, StateName::Held);
    plain.lock_execution(next).await;
    let raise = in_background!(b => b.operate(next, prioritise()));
    sandbox.waits_for_lock("b", 1).await;
    assert_eq!(ids(&a.claim("one", 2).await), all[..1]);
    plain.release().await;
    joined(raise).await.expect("the priority is raised");
    wait_until("the execution is released", async || {
        a.tick("gate_release").await;
        a.state(next).await == StateName::Waiting
    })
    .await;
    assert_eq!(ids(&a.claim("one", 1).await), [next]);
    check_and_stop(&sandbox, &contenders.each_ref()).await;
}

#[tokio::test]
async fn usage_reported_for_a_lease_that_another_server_revoked_counts_once_and_gives_back_nothing() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.server("a").await, sandbox.server("b").await);
    configure(&a, GateKind::Lane, "default", concurrency_limit(2)).await;
    configure(&a, GateKind::Quota, "few", concurrency_limit(2)).await;
    configure(&a, GateKind::Budget, "month", hard_limit(100)).await;
    let required_gates = RequiredGates {
        budgets: vec![(Name::trusted("month"), tokens(60))],
        quotas: vec![Name::trusted("few")],
        concurrency: Some((Name::trusted("key"), 2)),
        ..RequiredGates::default()
    };
    let id = a.submit(Draft { required_gates, ..Draft::new("kind") }).await;
    // The first server caches the row of the lease.
    let lost = fence(&a.claim_one("one").await);
    b.operate(id, Action::Revoke { reason: None }).await.expect("the revocation succeeds");
    let current = fence(&b.claim_one("two").await);
    let usage = Spend {
        namespace: a.namespace.id(),
        budget: Name::trusted("month"),
        usage: tokens(10),
        dedup_key: None,
        execution: Some(id),
    };
    let ops = vec![Ok((lost, None, Op::Usage(usage))), Ok((lost, None, complete_op()))];
    let (results, _) = a.namespace.report(ops, None).await.expect("the call is answered");
    assert!(results[0].is_ok(), "a former holder of the lease is accepted: {results:?}");
    assert_eq!(results[1].as_ref().map(drop).map_err(|refusal| refusal.code()), Err("stale_lease"));
    let taken =
        async |gate: GateKind, name: &str| a.namespace.gate(gate, name).await.expect("it exists").gate;
    let month = taken(GateKind::Budget, "month").await.state;
    assert_eq!((month.used, month.reserved), (tokens(10), tokens(60)), "counted once, and still reserved");
    assert_eq!(taken(GateKind::Lane, "default").await.active, 1);
    assert_eq!(taken(GateKind::Quota, "few").await.active, 1);
    b.complete(current).await.expect("the lease is held");
    assert!(taken(GateKind::Budget, "month").await.state.reserved.is_empty());
    assert_eq!(taken(GateKind::Lane, "default").await.active, 0);
    assert_eq!(taken(GateKind::Quota, "few").await.active, 0);
    let broken = invariants::check(&**a.engine.store()).await;
    assert!(broken.is_empty(), "invariants are broken: {broken:#?}");
}

#[tokio::test]
async fn unreadable_held_rows_do_not_block_the_rows_behind_them() {
    let sandbox = Sandbox::new();
    let (server, plain) = (sandbox.server("server").await, sandbox.plain().await);
    let all = server.submit_many(vec![with_concurrency_key("key", 1); 200]).await;
    let first = server.claim("one", 200).await;
    assert_eq!(ids(&first), all[..1]);
    plain
        .run(
            "update executions set detail = '{' where id in (
               select id from executions where gate is not null order by ready_order, id limit 150
             )",
        )
        .await;
    server.complete(fence(&first[0])).await.expect("the lease is held");
    assert_eq!(ids(&server.claim("one", 10).await), all[151..152]);
    server.engine.shutdown().await;
}

#[tokio::test]
async fn a_claim_searches_behind_refused_executions() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let all = server.submit_many(vec![with_concurrency_key("key", 1); 40]).await;
    assert_eq!(ids(&server.claim("one", 1).await), all[..1]);
    let free = server.submit(Draft::new("kind")).await;
    // Like a worker with one slot, which waits for a while.
    let claim = claim_wait(claim_of("two", 1), Duration::from_secs(10));
    let claimed = server.namespace.claim(claim).await.expect("the claim is answered");
    assert_eq!(ids(&claimed), [free]);
    server.engine.shutdown().await;
}
