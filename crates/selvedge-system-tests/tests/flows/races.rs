//! Two servers change the same flow at the same moment. Each race is made certain: a third connection locks a row, waits
//! until both servers wait for it in the order that the test needs, and releases it. No dispatcher runs, so outbox rows
//! are processed when the test asks for it.

use selvedge_conformance::Harness;
use selvedge_engine::core::flow::{CancelMode, FlowState};
use selvedge_engine::core::outbox::{OutboxKind, OutboxRow};
use selvedge_engine::core::rules::flows::dispatch::Dispatched;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Fence;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, FlowId};
use selvedge_engine::{Error, Options};
use selvedge_system_tests::flows::{Flow, check_and_stop, flow_draft, permanent_failure};
use selvedge_system_tests::server::{Server, fence, operator, passive_options};
use selvedge_system_tests::{PlainConnection, Sandbox, in_background, joined};
use std::collections::BTreeMap;
use std::time::Duration;

/// Starts two servers without dispatchers, and a connection to lock rows with.
pub async fn servers(sandbox: &Sandbox) -> (Server, Server, PlainConnection) {
    let options = Options { dispatch: false, ..passive_options() };
    let (a, b) = (sandbox.server_with("a", options.clone()).await, sandbox.server_with("b", options).await);
    (a, b, sandbox.plain().await)
}

/// Processes a chunk of an outbox row through the store of `server`.
async fn dispatch(server: &Server, row: &OutboxRow) -> Dispatched {
    Harness::new(server.engine.store().clone()).await.dispatch(row).await
}

fn advanced(changed: u32) -> Dispatched {
    Dispatched::Advanced { changed, rest: None }
}

async fn cancel_all(server: &Server, flow: FlowId) -> Result<bool, Error> {
    let wait = Duration::ZERO;
    server.namespace.cancel_flow(flow, CancelMode::All, None, &operator(), wait).await.map(|(_, done)| done)
}

/// Begins a transaction that locks the row of a flow.
pub async fn lock_flow(plain: &PlainConnection, flow: FlowId) {
    plain.run(&format!("begin; select from flows where id = '{}' for update", flow.0)).await;
}

/// Runs everything that remains, and checks the final states and the invariants.
pub async fn finish(
    servers: [&Server; 2],
    plain: &PlainConnection,
    flow: &Flow,
    states: &str,
    state: FlowState,
) {
    servers[0].reconcile(plain).await;
    servers[0].run_to_end(&[flow.id]).await;
    servers[0].reconcile(plain).await;
    assert_eq!((flow.states().await.as_str(), servers[0].flow_state(flow.id).await), (states, state));
    check_and_stop(&servers).await;
}

#[tokio::test]
async fn a_completion_reaches_an_edge_that_was_added_before_it() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = servers(&sandbox).await;
    let flow = a.flow("up; x -> w").await;
    let leases = a.claim_nodes("one").await;
    plain.lock_execution(flow.nodes["up"]).await;
    let grown = flow.through(&b);
    let growth = in_background!(grown => grown.grow("up -> w; up -> new"));
    sandbox.waits_for_lock("b", 1).await;
    let up = leases["up"];
    let complete = in_background!(a => a.complete(up));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    let flow = joined(growth).await.expect("the flow is still running");
    joined(complete).await.expect("the lease is held");
    assert!(
        flow.outbox_row("up", OutboxKind::Edges).await.is_some(),
        "the completing server did not know the edges"
    );
    a.reconcile(&plain).await;
    assert_eq!(flow.states().await, "new:waiting up:completed w:waiting_dependencies x:active");
    a.complete(leases["x"]).await.expect("the lease is held");
    let all = "new:completed up:completed w:completed x:completed";
    finish([&a, &b], &plain, &flow, all, FlowState::Completed).await;
}

#[tokio::test]
async fn an_edge_that_is_added_after_its_upstream_completed_is_resolved_at_once() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = servers(&sandbox).await;
    let flow = a.flow("up; x -> w").await;
    let leases = a.claim_nodes("one").await;
    plain.lock_execution(flow.nodes["up"]).await;
    let up = leases["up"];
    let complete = in_background!(a => a.complete(up));
    sandbox.waits_for_lock("a", 1).await;
    let grown = flow.through(&b);
    let growth = in_background!(grown => grown.grow("up -> w; up -> new"));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    joined(complete).await.expect("the lease is held");
    let flow = joined(growth).await.expect("the flow is still running");
    assert!(a.outbox().await.is_empty());
    assert_eq!(flow.states().await, "new:waiting up:completed w:waiting_dependencies x:active");
    a.complete(leases["x"]).await.expect("the lease is held");
    assert_eq!(flow.state("w").await, StateName::Waiting, "both edges are counted");
    let all = "new:completed up:completed w:completed x:completed";
    finish([&a, &b], &plain, &flow, all, FlowState::Completed).await;
}

#[tokio::test]
async fn of_two_growths_that_together_close_a_cycle_exactly_one_is_refused() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = servers(&sandbox).await;
    let flow = a.flow("x -> p q").await;
    plain.block_commits().await;
    let (of_a, of_b) = (flow.through(&a), flow.through(&b));
    let first = in_background!(of_a => of_a.grow("p -> q"));
    sandbox.waits_for_lock("a", 1).await;
    let second = in_background!(of_b => of_b.grow("q -> p"));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    joined(first).await.map(drop).expect("the first growth closes no cycle");
    let refused = joined(second).await.map(drop).expect_err("the other growth came first");
    let Error::Refused(refusal) = &refused else { panic!("{refused}") };
    assert_eq!(refusal.code(), "cycle", "{refusal}");
    finish([&a, &b], &plain, &flow, "p:completed q:completed x:completed", FlowState::Completed).await;
}

/// Submits a race of `a` and `s` for `win`, which `a` has won, next to `x` and `y`, for which `other` waits. Returns the
/// outbox row that cancels `s`, and the leases.
async fn won(a: &Server) -> (Flow, OutboxRow, BTreeMap<String, Fence>) {
    let flow = a.flow("a s -> win: any_of; x y -> other").await;
    let leases = a.claim_nodes("one").await;
    a.complete(leases["a"]).await.expect("the lease is held");
    let row =
        flow.outbox_row("win", OutboxKind::Siblings).await.expect("the outbox has a row for the siblings");
    (flow, row, leases)
}

#[tokio::test]
async fn a_sibling_that_another_join_needs_by_then_is_not_cancelled() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = servers(&sandbox).await;
    let (flow, row, leases) = won(&a).await;
    plain.lock_execution(flow.nodes["s"]).await;
    let grown = flow.through(&a);
    let growth = in_background!(grown => grown.grow("s -> other; s -> late"));
    sandbox.waits_for_lock("a", 1).await;
    let cancel = in_background!(b => dispatch(&b, &row));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    let flow = joined(growth).await.expect("the flow is still running");
    assert_eq!(joined(cancel).await, advanced(0), "the sibling is needed");
    assert_eq!(flow.state("s").await, StateName::Active);
    for name in ["s", "x", "y"] {
        a.complete(leases[name]).await.expect("the lease is held");
    }
    let all = "a:completed late:completed other:completed s:completed win:completed x:completed y:completed";
    finish([&a, &b], &plain, &flow, all, FlowState::Completed).await;
}

#[tokio::test]
async fn a_join_that_needs_a_sibling_after_its_cancellation_sees_the_cancellation() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = servers(&sandbox).await;
    let (flow, row, leases) = won(&a).await;
    plain.lock_execution(flow.nodes["s"]).await;
    let cancel = in_background!(b => dispatch(&b, &row));
    sandbox.waits_for_lock("b", 1).await;
    let grown = flow.through(&a);
    let growth = in_background!(grown => grown.grow("s -> other; s? -> late"));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    assert_eq!(joined(cancel).await, advanced(1));
    let flow = joined(growth).await.expect("the flow is still running");
    assert_eq!(
        flow.states().await,
        "a:completed late:waiting other:skipped s:cancelled win:waiting x:active y:active"
    );
    assert_eq!(a.complete(leases["s"]).await.expect_err("the lease was lost").code(), "stale_lease");
    for name in ["x", "y"] {
        a.complete(leases[name]).await.expect("the lease is held");
    }
    let all = "a:completed late:completed other:skipped s:cancelled win:completed x:completed y:completed";
    finish([&a, &b], &plain, &flow, all, FlowState::Completed).await;
}

#[tokio::test]
async fn a_sibling_that_completes_before_it_is_cancelled_stays_completed() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = servers(&sandbox).await;
    let (flow, row, leases) = won(&a).await;
    plain.lock_execution(flow.nodes["s"]).await;
    let lease = leases["s"];
    let complete = in_background!(a => a.complete(lease));
    sandbox.waits_for_lock("a", 1).await;
    let cancel = in_background!(b => dispatch(&b, &row));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    joined(complete).await.expect("the lease is held");
    assert_eq!(joined(cancel).await, advanced(0), "the sibling has ended");
    assert_eq!(
        (flow.states().await, flow.decisions("win").await),
        ("a:completed other:waiting_dependencies s:completed win:waiting x:active y:active".into(), 1)
    );
    for name in ["x", "y"] {
        a.complete(leases[name]).await.expect("the lease is held");
    }
    let all = "a:completed other:completed s:completed win:completed x:completed y:completed";
    finish([&a, &b], &plain, &flow, all, FlowState::Completed).await;
}

#[tokio::test]
async fn a_completion_of_a_sibling_after_its_cancellation_is_refused() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = servers(&sandbox).await;
    let (flow, row, leases) = won(&a).await;
    plain.lock_execution(flow.nodes["s"]).await;
    let cancel = in_background!(b => dispatch(&b, &row));
    sandbox.waits_for_lock("b", 1).await;
    let lease = leases["s"];
    let complete = in_background!(a => a.complete(lease));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    assert_eq!(joined(cancel).await, advanced(1));
    assert_eq!(joined(complete).await.expect_err("the lease was lost").code(), "stale_lease");
    for name in ["x", "y"] {
        a.complete(leases[name]).await.expect("the lease is held");
    }
    let all = "a:completed other:completed s:cancelled win:completed x:completed y:completed";
    finish([&a, &b], &plain, &flow, all, FlowState::Completed).await;
}

/// The cancelled sibling has another downstream, which the cancellation reads without a lock.
#[tokio::test]
async fn a_sibling_cancellation_does_not_wait_for_downstreams_of_the_sibling_that_it_does_not_lock() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = servers(&sandbox).await;
    let flow = a.flow("a s -> win: any_of let_run; b s -> won: any_of").await;
    let leases = a.claim_nodes("one").await;
    for name in ["a", "b"] {
        a.complete(leases[name]).await.expect("the lease is held");
    }
    let row =
        flow.outbox_row("won", OutboxKind::Siblings).await.expect("the outbox has a row for the siblings");
    plain.lock_execution(flow.nodes["win"]).await;
    assert_eq!(dispatch(&b, &row).await, advanced(1), "nothing is in the way");
    plain.release().await;
    assert!(flow.outbox_row("s", OutboxKind::Edges).await.is_some(), "the other downstream is updated later");
    let all = "a:completed b:completed s:cancelled win:completed won:completed";
    finish([&a, &b], &plain, &flow, all, FlowState::Completed).await;
}

#[tokio::test]
async fn an_execution_spawned_before_its_flow_is_cancelled_is_cancelled_with_it() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = servers(&sandbox).await;
    let mut flow = a.flow("parent; x").await;
    let leases = a.claim_nodes("one").await;
    let spawn =
        a.namespace.spawn(flow_draft("child -> grandchild").graph, true).await.expect("the graph is valid");
    lock_flow(&plain, flow.id).await;
    let lease = leases["parent"];
    let spawned = in_background!(a => a.report(lease, spawn));
    sandbox.waits_for_lock("a", 1).await;
    let id = flow.id;
    let cancel = in_background!(b => cancel_all(&b, id));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    let spawned = joined(spawned).await.expect("the first call succeeds");
    flow.nodes.extend(spawned.spawned.into_iter().map(|(name, id)| (name.to_string(), id)));
    joined(cancel).await.expect("the request is accepted");
    let all = "child:cancelled grandchild:cancelled parent:cancelled x:cancelled";
    finish([&a, &b], &plain, &flow, all, FlowState::Cancelled).await;
}

#[tokio::test]
async fn no_execution_is_spawned_after_its_flow_was_cancelled() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = servers(&sandbox).await;
    let flow = a.flow("parent; x").await;
    let leases = a.claim_nodes("one").await;
    let spawn =
        a.namespace.spawn(flow_draft("child -> grandchild").graph, true).await.expect("the graph is valid");
    lock_flow(&plain, flow.id).await;
    let id = flow.id;
    let cancel = in_background!(b => cancel_all(&b, id));
    sandbox.waits_for_lock("b", 1).await;
    let lease = leases["parent"];
    let spawned = in_background!(a => a.report(lease, spawn));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    joined(cancel).await.expect("the request is accepted");
    assert_eq!(joined(spawned).await.expect_err("the flow is being cancelled").code(), "flow_ended");
    finish([&a, &b], &plain, &flow, "parent:cancelled x:cancelled", FlowState::Cancelled).await;
}

/// A single execution becomes a flow by spawning while it is cancelled as a flow.
#[tokio::test]
async fn a_cancel_of_an_execution_that_becomes_a_flow_meanwhile_cancels_the_flow() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = servers(&sandbox).await;
    let id = a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_one("one").await);
    let spawn =
        a.namespace.spawn(flow_draft("child -> grandchild").graph, true).await.expect("the graph is valid");
    plain.lock_execution(id).await;
    let spawned = in_background!(a => a.report(lease, spawn));
    sandbox.waits_for_lock("a", 1).await;
    let cancel = in_background!(b => cancel_all(&b, FlowId(id.0)));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    let spawned = joined(spawned).await.expect("the first call succeeds");
    joined(cancel).await.expect("the request is accepted");
    let nodes = spawned.spawned.into_iter().map(|(name, id)| (name.to_string(), id));
    let flow =
        Flow { server: a.clone(), id: FlowId(id.0), nodes: nodes.chain([("root".into(), id)]).collect() };
    let all = "child:cancelled grandchild:cancelled root:cancelled";
    finish([&a, &b], &plain, &flow, all, FlowState::Cancelled).await;
}

#[tokio::test]
async fn a_completion_before_the_cancel_of_its_flow_stands_and_its_downstream_is_cancelled() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = servers(&sandbox).await;
    let flow = a.flow("x -> y -> z").await;
    let lease = fence(&a.claim_one("one").await);
    cancel_all(&b, flow.id).await.expect("the request is accepted");
    let row = flow.outbox_row("x", OutboxKind::Flow).await.expect("the outbox has a row for the flow");
    plain.lock_execution(flow.nodes["x"]).await;
    let complete = in_background!(a => a.complete(lease));
    sandbox.waits_for_lock("a", 1).await;
    let cancel = in_background!(b => dispatch(&b, &row));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    joined(complete).await.expect("the lease is held");
    assert_eq!(joined(cancel).await, advanced(2));
    assert_eq!(flow.decisions("y").await, 1, "it was waiting for a moment");
    finish([&a, &b], &plain, &flow, "x:completed y:cancelled z:cancelled", FlowState::Cancelled).await;
}

#[tokio::test]
async fn a_completion_after_the_cancel_of_its_flow_is_refused() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = servers(&sandbox).await;
    let flow = a.flow("x -> y -> z").await;
    let lease = fence(&a.claim_one("one").await);
    cancel_all(&b, flow.id).await.expect("the request is accepted");
    let row = flow.outbox_row("x", OutboxKind::Flow).await.expect("the outbox has a row for the flow");
    plain.lock_execution(flow.nodes["x"]).await;
    let cancel = in_background!(b => dispatch(&b, &row));
    sandbox.waits_for_lock("b", 1).await;
    let complete = in_background!(a => a.complete(lease));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    assert_eq!(joined(cancel).await, advanced(3));
    assert_eq!(joined(complete).await.expect_err("the lease was lost").code(), "stale_lease");
    finish([&a, &b], &plain, &flow, "x:cancelled y:cancelled z:cancelled", FlowState::Cancelled).await;
}

/// Returns a flow whose first node has failed, and the outbox row that has not been processed yet.
async fn unpropagated_failure(a: &Server, b: &Server) -> (Flow, OutboxRow) {
    let flow = a.flow("up -> down -> last").await;
    let lease = fence(&a.claim_one("one").await);
    b.report(lease, permanent_failure()).await.expect("the lease is held");
    let row = flow.outbox_row("up", OutboxKind::Edges).await.expect("the outbox has a row for the edges");
    assert_eq!(flow.state("down").await, StateName::WaitingDependencies);
    (flow, row)
}

#[tokio::test]
async fn a_replay_before_the_dispatch_of_the_failure_leaves_its_downstream_waiting() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = servers(&sandbox).await;
    let (flow, row) = unpropagated_failure(&a, &b).await;
    plain.lock_execution(flow.nodes["up"]).await;
    let up = flow.nodes["up"];
    let replay = in_background!(a => a.operate(up, Action::Replay));
    sandbox.waits_for_lock("a", 1).await;
    let late = in_background!(b => dispatch(&b, &row));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    joined(replay).await.expect("the execution has ended");
    assert_eq!(joined(late).await, advanced(1), "it propagates the current state of the upstream");
    assert_eq!(flow.states().await, "down:waiting_dependencies last:waiting_dependencies up:waiting");
    assert_eq!(flow.decisions("down").await, 0);
    finish([&a, &b], &plain, &flow, "down:completed last:completed up:completed", FlowState::Completed).await;
}

#[tokio::test]
async fn a_replay_after_the_dispatch_of_the_failure_reopens_skipped_nodes() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = servers(&sandbox).await;
    let (flow, row) = unpropagated_failure(&a, &b).await;
    plain.lock_execution(flow.nodes["up"]).await;
    let first = in_background!(b => dispatch(&b, &row));
    sandbox.waits_for_lock("b", 1).await;
    let up = flow.nodes["up"];
    let replay = in_background!(a => a.operate(up, Action::Replay));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    assert_eq!(joined(first).await, advanced(1));
    joined(replay).await.expect("the execution has ended");
    a.reconcile(&plain).await;
    assert_eq!(flow.states().await, "down:waiting_dependencies last:waiting_dependencies up:waiting");
    finish([&a, &b], &plain, &flow, "down:completed last:completed up:completed", FlowState::Completed).await;
}

#[tokio::test]
async fn of_two_servers_that_dispatch_the_same_completion_the_second_has_nothing_to_do() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = servers(&sandbox).await;
    let flow = a.flow("up -> down").await;
    let lease = fence(&a.claim_one("one").await);
    b.complete(lease).await.expect("the lease is held");
    let row = flow.outbox_row("up", OutboxKind::Edges).await.expect("the outbox has a row for the edges");
    plain.lock_execution(flow.nodes["down"]).await;
    let (of_a, of_b) = (row.clone(), row.clone());
    let first = in_background!(a => dispatch(&a, &of_a));
    sandbox.waits_for_lock("a", 1).await;
    let second = in_background!(b => dispatch(&b, &of_b));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    assert_eq!((joined(first).await, joined(second).await), (advanced(1), Dispatched::Nothing));
    assert_eq!(dispatch(&a, &row).await, Dispatched::Nothing, "a later dispatch has nothing to do either");
    assert_eq!(flow.decisions("down").await, 1);
    finish([&a, &b], &plain, &flow, "down:completed up:completed", FlowState::Completed).await;
}

/// Returns a flow that has ended and whose retention is over.
async fn flow_past_retention(a: &Server, plain: &PlainConnection) -> Flow {
    let mut draft = flow_draft("up -> down");
    draft.retention_ms = Some(1);
    let flow = a.flow_of(draft).await;
    a.run_to_end(&[flow.id]).await;
    let due = "select count(*) from flows where due_kind = 2 and due_at <= clock_timestamp()";
    selvedge_system_tests::wait_until("the flow is due to be deleted", async || {
        plain.number(due, &[]).await == 1
    })
    .await;
    flow
}

#[tokio::test]
async fn a_flow_that_is_deleted_before_a_replay_is_not_found() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = servers(&sandbox).await;
    let flow = flow_past_retention(&a, &plain).await;
    let up = flow.nodes["up"];
    plain.lock_execution(up).await;
    let delete = in_background!(b => b.tick("retention"));
    sandbox.waits_for_lock("b", 1).await;
    let replay = in_background!(a => a.operate(up, Action::Replay));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    assert_eq!(joined(delete).await.done, 1);
    assert_eq!(joined(replay).await.expect_err("the execution is deleted").code(), "not_found");
    assert!(a.is_deleted(up).await && a.is_deleted(flow.nodes["down"]).await);
    assert_eq!(plain.number("select count(*) from flows", &[]).await, 0);
    check_and_stop(&[&a, &b]).await;
}

#[tokio::test]
async fn a_flow_that_is_replayed_before_its_deletion_runs_again() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = servers(&sandbox).await;
    let flow = flow_past_retention(&a, &plain).await;
    let up = flow.nodes["up"];
    plain.lock_execution(up).await;
    let replay = in_background!(a => a.operate(up, Action::Replay));
    sandbox.waits_for_lock("a", 1).await;
    let delete = in_background!(b => b.tick("retention"));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    joined(replay).await.expect("the execution has ended");
    let delete = joined(delete).await;
    assert_eq!((delete.scanned, delete.done, delete.superseded), (1, 0, 1));
    assert_eq!(a.flow_state(flow.id).await, FlowState::Running);
    finish([&a, &b], &plain, &flow, "down:completed up:completed", FlowState::Completed).await;
}

#[tokio::test]
async fn a_completion_through_a_server_that_did_not_hand_out_the_lease_uses_the_outbox() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = servers(&sandbox).await;
    let flow = a.flow("up -> down").await;
    let lease = fence(&a.claim_one("one").await);
    b.complete(lease).await.expect("the lease is held");
    assert_eq!(flow.states().await, "down:waiting_dependencies up:completed");
    let row = flow.outbox_row("up", OutboxKind::Edges).await.expect("the outbox has a row for the edges");
    assert!(a.claim("two", 9).await.is_empty());
    assert_eq!(dispatch(&a, &row).await, advanced(1));
    let down = b.claim_one("two").await;
    assert_eq!(down.upstreams[0].result.as_deref(), Some(&b"\"done\""[..]));
    b.complete(fence(&down)).await.expect("the lease is held");
    finish([&a, &b], &plain, &flow, "down:completed up:completed", FlowState::Completed).await;
}
