//! Two servers do something to the same flow at the same moment. Each race is made certain: a third connection holds a row
//! until both are seen to wait, in the order that the test wants, and then lets go. Nobody dispatches by himself, so that
//! what a commit leaves to be done is done when the test wants it.

mod support;

use selvedge_conformance::Harness;
use selvedge_engine::core::flow::{CancelMode, FlowState};
use selvedge_engine::core::outbox::{OutboxKind, OutboxRow};
use selvedge_engine::core::plan::GraphDraft;
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::rules::dispatch::Dispatched;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Fence;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, FlowId};
use selvedge_engine::{Error, Options};
use std::collections::BTreeMap;
use std::time::Duration;
use support::flows::{Flow, broken, drawn, end};
use support::test_server::{TestServer, claim_of, fence, operator, passive_options};
use support::{Plain, Sandbox};
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

/// Two servers that leave what is to be done to others, and a connection to hold rows with.
async fn sides(sandbox: &Sandbox) -> (TestServer, TestServer, Plain) {
    let options = Options { dispatch: false, ..passive_options() };
    let (a, b) = (sandbox.side_with("a", options.clone()).await, sandbox.side_with("b", options).await);
    (a, b, sandbox.plain().await)
}

/// Does a chunk of a row of the outbox, through the store of `side`.
async fn dispatch(side: &TestServer, row: &OutboxRow) -> Dispatched {
    Harness::new(side.engine.store().clone()).await.dispatch(row).await
}

fn advanced(changed: u32) -> Dispatched {
    Dispatched::Advanced { changed, rest: None }
}

async fn cancel_all(side: &TestServer, flow: FlowId) -> Result<bool, Error> {
    let wait = Duration::ZERO;
    side.namespace.cancel_flow(flow, CancelMode::All, None, &operator(), wait).await.map(|(_, done)| done)
}

/// Begins a transaction that holds the row of a flow.
async fn hold_flow(plain: &Plain, flow: FlowId) {
    plain.run(&format!("begin; select from flows where id = '{}' for update", flow.0)).await;
}

/// Everything that is left runs; the flow ends so; all that must hold does.
async fn finish(sides: [&TestServer; 2], plain: &Plain, flow: &Flow, states: &str, state: FlowState) {
    sides[0].reconcile(plain).await;
    sides[0].work_off(&[flow.id]).await;
    sides[0].reconcile(plain).await;
    assert_eq!((flow.states().await.as_str(), sides[0].flow_state(flow.id).await), (states, state));
    end(&sides).await;
}

#[tokio::test]
async fn an_edge_that_is_added_before_its_upstream_completes_is_told_of_it() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = sides(&sandbox).await;
    let flow = a.flow("up; x -> w").await;
    let leases = a.claim_nodes("one").await;
    plain.hold(flow.nodes["up"]).await;
    let grown = flow.through(&b);
    let growth = meanwhile!(grown => grown.grow("up -> w; up -> new"));
    sandbox.waits_for_lock("b", 1).await;
    let up = leases["up"];
    let complete = meanwhile!(a => a.complete(up));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    let flow = joined(growth).await.expect("it waits still");
    joined(complete).await.expect("it holds the lease");
    assert!(flow.left("up", OutboxKind::Edges).await.is_some(), "who completed it did not know of the edges");
    a.reconcile(&plain).await;
    assert_eq!(flow.states().await, "new:waiting up:completed w:waiting_dependencies x:active");
    a.complete(leases["x"]).await.expect("it holds the lease");
    let all = "new:completed up:completed w:completed x:completed";
    finish([&a, &b], &plain, &flow, all, FlowState::Completed).await;
}

#[tokio::test]
async fn an_edge_that_is_added_after_its_upstream_completed_is_resolved_at_once() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = sides(&sandbox).await;
    let flow = a.flow("up; x -> w").await;
    let leases = a.claim_nodes("one").await;
    plain.hold(flow.nodes["up"]).await;
    let up = leases["up"];
    let complete = meanwhile!(a => a.complete(up));
    sandbox.waits_for_lock("a", 1).await;
    let grown = flow.through(&b);
    let growth = meanwhile!(grown => grown.grow("up -> w; up -> new"));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    joined(complete).await.expect("it holds the lease");
    let flow = joined(growth).await.expect("it waits still");
    assert!(a.outbox().await.is_empty());
    assert_eq!(flow.states().await, "new:waiting up:completed w:waiting_dependencies x:active");
    a.complete(leases["x"]).await.expect("it holds the lease");
    assert_eq!(flow.state("w").await, StateName::Waiting, "both edges are counted");
    let all = "new:completed up:completed w:completed x:completed";
    finish([&a, &b], &plain, &flow, all, FlowState::Completed).await;
}

#[tokio::test]
async fn of_two_growths_that_together_close_a_cycle_exactly_one_is_refused() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = sides(&sandbox).await;
    let flow = a.flow("x -> p q").await;
    plain.hold_log().await;
    let (of_a, of_b) = (flow.through(&a), flow.through(&b));
    let first = meanwhile!(of_a => of_a.grow("p -> q"));
    sandbox.waits_for_lock("a", 1).await;
    let second = meanwhile!(of_b => of_b.grow("q -> p"));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    joined(first).await.map(drop).expect("it closes nothing");
    let refused = joined(second).await.map(drop).expect_err("the other was first");
    let Error::Refused(refusal) = &refused else { panic!("{refused}") };
    assert_eq!(refusal.code(), "cycle", "{refusal}");
    finish([&a, &b], &plain, &flow, "p:completed q:completed x:completed", FlowState::Completed).await;
}

/// A race of `a` and `s` for `win`, which `a` has won, with `x` and `y` next to it that `other` waits for. Gives what is left
/// to be done about `s`, and the leases.
async fn won(a: &TestServer) -> (Flow, OutboxRow, BTreeMap<String, Fence>) {
    let flow = a.flow("a s -> win: any_of; x y -> other").await;
    let leases = a.claim_nodes("one").await;
    a.complete(leases["a"]).await.expect("it holds the lease");
    let row = flow.left("win", OutboxKind::Siblings).await.expect("the sibling is to be cancelled");
    (flow, row, leases)
}

#[tokio::test]
async fn a_sibling_that_another_join_was_made_to_need_first_is_not_cancelled() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = sides(&sandbox).await;
    let (flow, row, leases) = won(&a).await;
    plain.hold(flow.nodes["s"]).await;
    let grown = flow.through(&a);
    let growth = meanwhile!(grown => grown.grow("s -> other; s -> late"));
    sandbox.waits_for_lock("a", 1).await;
    let cancel = meanwhile!(b => dispatch(&b, &row));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    let flow = joined(growth).await.expect("it waits still");
    assert_eq!(joined(cancel).await, advanced(0), "it is needed");
    assert_eq!(flow.state("s").await, StateName::Active);
    for name in ["s", "x", "y"] {
        a.complete(leases[name]).await.expect("it holds the lease");
    }
    let all = "a:completed late:completed other:completed s:completed win:completed x:completed y:completed";
    finish([&a, &b], &plain, &flow, all, FlowState::Completed).await;
}

#[tokio::test]
async fn a_join_that_is_made_to_need_a_sibling_after_it_was_cancelled_sees_that_it_was() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = sides(&sandbox).await;
    let (flow, row, leases) = won(&a).await;
    plain.hold(flow.nodes["s"]).await;
    let cancel = meanwhile!(b => dispatch(&b, &row));
    sandbox.waits_for_lock("b", 1).await;
    let grown = flow.through(&a);
    let growth = meanwhile!(grown => grown.grow("s -> other; s? -> late"));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    assert_eq!(joined(cancel).await, advanced(1));
    let flow = joined(growth).await.expect("it waits still");
    assert_eq!(
        flow.states().await,
        "a:completed late:waiting other:skipped s:cancelled win:waiting x:active y:active"
    );
    assert_eq!(a.complete(leases["s"]).await.expect_err("it lost its lease").code(), "stale_lease");
    for name in ["x", "y"] {
        a.complete(leases[name]).await.expect("it holds the lease");
    }
    let all = "a:completed late:completed other:skipped s:cancelled win:completed x:completed y:completed";
    finish([&a, &b], &plain, &flow, all, FlowState::Completed).await;
}

#[tokio::test]
async fn a_sibling_that_completes_before_it_is_cancelled_stays_completed() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = sides(&sandbox).await;
    let (flow, row, leases) = won(&a).await;
    plain.hold(flow.nodes["s"]).await;
    let lease = leases["s"];
    let complete = meanwhile!(a => a.complete(lease));
    sandbox.waits_for_lock("a", 1).await;
    let cancel = meanwhile!(b => dispatch(&b, &row));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    joined(complete).await.expect("it holds the lease");
    assert_eq!(joined(cancel).await, advanced(0), "it has ended");
    assert_eq!(
        (flow.states().await, flow.decisions("win").await),
        ("a:completed other:waiting_dependencies s:completed win:waiting x:active y:active".into(), 1)
    );
    for name in ["x", "y"] {
        a.complete(leases[name]).await.expect("it holds the lease");
    }
    let all = "a:completed other:completed s:completed win:completed x:completed y:completed";
    finish([&a, &b], &plain, &flow, all, FlowState::Completed).await;
}

#[tokio::test]
async fn a_sibling_that_is_cancelled_before_it_completes_is_told_that_its_lease_is_over() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = sides(&sandbox).await;
    let (flow, row, leases) = won(&a).await;
    plain.hold(flow.nodes["s"]).await;
    let cancel = meanwhile!(b => dispatch(&b, &row));
    sandbox.waits_for_lock("b", 1).await;
    let lease = leases["s"];
    let complete = meanwhile!(a => a.complete(lease));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    assert_eq!(joined(cancel).await, advanced(1));
    assert_eq!(joined(complete).await.expect_err("it lost its lease").code(), "stale_lease");
    for name in ["x", "y"] {
        a.complete(leases[name]).await.expect("it holds the lease");
    }
    let all = "a:completed other:completed s:cancelled win:completed x:completed y:completed";
    finish([&a, &b], &plain, &flow, all, FlowState::Completed).await;
}

/// What is cancelled may have other downstreams, which the cancellation only looks at.
#[tokio::test]
async fn a_sibling_cancellation_does_not_wait_for_downstreams_of_the_sibling_that_it_does_not_lock() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = sides(&sandbox).await;
    let flow = a.flow("a s -> win: any_of let_run; b s -> won: any_of").await;
    let leases = a.claim_nodes("one").await;
    for name in ["a", "b"] {
        a.complete(leases[name]).await.expect("it holds the lease");
    }
    let row = flow.left("won", OutboxKind::Siblings).await.expect("the sibling is to be cancelled");
    plain.hold(flow.nodes["win"]).await;
    assert_eq!(dispatch(&b, &row).await, advanced(1), "nobody is in its way");
    plain.release().await;
    assert!(flow.left("s", OutboxKind::Edges).await.is_some(), "the other downstream is told later");
    let all = "a:completed b:completed s:cancelled win:completed won:completed";
    finish([&a, &b], &plain, &flow, all, FlowState::Completed).await;
}

#[tokio::test]
async fn what_is_spawned_before_its_flow_is_cancelled_is_cancelled_with_it() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = sides(&sandbox).await;
    let mut flow = a.flow("parent; x").await;
    let leases = a.claim_nodes("one").await;
    let spawn = a.namespace.spawn(drawn("child -> grandchild").graph, true).await.expect("it is valid");
    hold_flow(&plain, flow.id).await;
    let lease = leases["parent"];
    let spawned = meanwhile!(a => a.report(lease, spawn));
    sandbox.waits_for_lock("a", 1).await;
    let id = flow.id;
    let cancel = meanwhile!(b => cancel_all(&b, id));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    let spawned = joined(spawned).await.expect("it was first");
    flow.nodes.extend(spawned.spawned.into_iter().map(|(name, id)| (name.to_string(), id)));
    joined(cancel).await.expect("it is accepted");
    let all = "child:cancelled grandchild:cancelled parent:cancelled x:cancelled";
    finish([&a, &b], &plain, &flow, all, FlowState::Cancelled).await;
}

#[tokio::test]
async fn nothing_is_spawned_after_its_flow_was_cancelled() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = sides(&sandbox).await;
    let flow = a.flow("parent; x").await;
    let leases = a.claim_nodes("one").await;
    let spawn = a.namespace.spawn(drawn("child -> grandchild").graph, true).await.expect("it is valid");
    hold_flow(&plain, flow.id).await;
    let id = flow.id;
    let cancel = meanwhile!(b => cancel_all(&b, id));
    sandbox.waits_for_lock("b", 1).await;
    let lease = leases["parent"];
    let spawned = meanwhile!(a => a.report(lease, spawn));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    joined(cancel).await.expect("it is accepted");
    assert_eq!(joined(spawned).await.expect_err("its flow is being cancelled").code(), "flow_ended");
    finish([&a, &b], &plain, &flow, "parent:cancelled x:cancelled", FlowState::Cancelled).await;
}

/// An execution that is alone becomes a flow by spawning, just when it is cancelled as the flow that it is.
#[tokio::test]
async fn a_cancel_of_an_execution_that_becomes_a_flow_meanwhile_cancels_the_flow() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = sides(&sandbox).await;
    let id = a.submit(Draft::new("kind")).await;
    let lease = fence(&a.claim_one("one").await);
    let spawn = a.namespace.spawn(drawn("child -> grandchild").graph, true).await.expect("it is valid");
    plain.hold(id).await;
    let spawned = meanwhile!(a => a.report(lease, spawn));
    sandbox.waits_for_lock("a", 1).await;
    let cancel = meanwhile!(b => cancel_all(&b, FlowId(id.0)));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    let spawned = joined(spawned).await.expect("it was first");
    joined(cancel).await.expect("it is accepted");
    let nodes = spawned.spawned.into_iter().map(|(name, id)| (name.to_string(), id));
    let flow =
        Flow { side: a.clone(), id: FlowId(id.0), nodes: nodes.chain([("root".into(), id)]).collect() };
    let all = "child:cancelled grandchild:cancelled root:cancelled";
    finish([&a, &b], &plain, &flow, all, FlowState::Cancelled).await;
}

#[tokio::test]
async fn a_completion_before_the_cancel_of_its_flow_stands_and_what_it_made_ready_is_cancelled() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = sides(&sandbox).await;
    let flow = a.flow("x -> y -> z").await;
    let lease = fence(&a.claim_one("one").await);
    cancel_all(&b, flow.id).await.expect("it is accepted");
    let row = flow.left("x", OutboxKind::Flow).await.expect("its members are to be cancelled");
    plain.hold(flow.nodes["x"]).await;
    let complete = meanwhile!(a => a.complete(lease));
    sandbox.waits_for_lock("a", 1).await;
    let cancel = meanwhile!(b => dispatch(&b, &row));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    joined(complete).await.expect("it holds the lease");
    assert_eq!(joined(cancel).await, advanced(2));
    assert_eq!(flow.decisions("y").await, 1, "it was ready for a moment");
    finish([&a, &b], &plain, &flow, "x:completed y:cancelled z:cancelled", FlowState::Cancelled).await;
}

#[tokio::test]
async fn a_completion_after_the_cancel_of_its_flow_is_refused() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = sides(&sandbox).await;
    let flow = a.flow("x -> y -> z").await;
    let lease = fence(&a.claim_one("one").await);
    cancel_all(&b, flow.id).await.expect("it is accepted");
    let row = flow.left("x", OutboxKind::Flow).await.expect("its members are to be cancelled");
    plain.hold(flow.nodes["x"]).await;
    let cancel = meanwhile!(b => dispatch(&b, &row));
    sandbox.waits_for_lock("b", 1).await;
    let complete = meanwhile!(a => a.complete(lease));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    assert_eq!(joined(cancel).await, advanced(3));
    assert_eq!(joined(complete).await.expect_err("it lost its lease").code(), "stale_lease");
    finish([&a, &b], &plain, &flow, "x:cancelled y:cancelled z:cancelled", FlowState::Cancelled).await;
}

/// An upstream that failed, and whose downstream has not been told of it.
async fn failed_untold(a: &TestServer, b: &TestServer) -> (Flow, OutboxRow) {
    let flow = a.flow("up -> down -> last").await;
    let lease = fence(&a.claim_one("one").await);
    b.report(lease, broken()).await.expect("it holds the lease");
    let row = flow.left("up", OutboxKind::Edges).await.expect("its downstream is to be told");
    assert_eq!(flow.state("down").await, StateName::WaitingDependencies);
    (flow, row)
}

#[tokio::test]
async fn a_replay_before_the_dispatch_of_the_failure_leaves_its_downstream_waiting() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = sides(&sandbox).await;
    let (flow, row) = failed_untold(&a, &b).await;
    plain.hold(flow.nodes["up"]).await;
    let up = flow.nodes["up"];
    let replay = meanwhile!(a => a.operate(up, Action::Replay));
    sandbox.waits_for_lock("a", 1).await;
    let late = meanwhile!(b => dispatch(&b, &row));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    joined(replay).await.expect("it has ended");
    assert_eq!(joined(late).await, advanced(1), "it tells how the upstream stands now");
    assert_eq!(flow.states().await, "down:waiting_dependencies last:waiting_dependencies up:waiting");
    assert_eq!(flow.decisions("down").await, 0);
    finish([&a, &b], &plain, &flow, "down:completed last:completed up:completed", FlowState::Completed).await;
}

#[tokio::test]
async fn a_replay_after_the_dispatch_of_the_failure_opens_what_was_skipped() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = sides(&sandbox).await;
    let (flow, row) = failed_untold(&a, &b).await;
    plain.hold(flow.nodes["up"]).await;
    let first = meanwhile!(b => dispatch(&b, &row));
    sandbox.waits_for_lock("b", 1).await;
    let up = flow.nodes["up"];
    let replay = meanwhile!(a => a.operate(up, Action::Replay));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    assert_eq!(joined(first).await, advanced(1));
    joined(replay).await.expect("it has ended");
    a.reconcile(&plain).await;
    assert_eq!(flow.states().await, "down:waiting_dependencies last:waiting_dependencies up:waiting");
    finish([&a, &b], &plain, &flow, "down:completed last:completed up:completed", FlowState::Completed).await;
}

#[tokio::test]
async fn of_two_servers_that_dispatch_the_same_completion_the_second_says_that_there_is_nothing_to_do() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = sides(&sandbox).await;
    let flow = a.flow("up -> down").await;
    let lease = fence(&a.claim_one("one").await);
    b.complete(lease).await.expect("it holds the lease");
    let row = flow.left("up", OutboxKind::Edges).await.expect("its downstream is to be told");
    plain.hold(flow.nodes["down"]).await;
    let (of_a, of_b) = (row.clone(), row.clone());
    let first = meanwhile!(a => dispatch(&a, &of_a));
    sandbox.waits_for_lock("a", 1).await;
    let second = meanwhile!(b => dispatch(&b, &of_b));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    assert_eq!((joined(first).await, joined(second).await), (advanced(1), Dispatched::Nothing));
    assert_eq!(dispatch(&a, &row).await, Dispatched::Nothing, "and later ones too");
    assert_eq!(flow.decisions("down").await, 1);
    finish([&a, &b], &plain, &flow, "down:completed up:completed", FlowState::Completed).await;
}

/// A flow that has ended and whose retention is over.
async fn kept_long_enough(a: &TestServer, plain: &Plain) -> Flow {
    let mut draft = drawn("up -> down");
    draft.retention_ms = Some(1);
    let flow = a.flow_of(draft).await;
    a.work_off(&[flow.id]).await;
    let due = "select count(*) from flows where due_kind = 2 and due_at <= clock_timestamp()";
    support::until("it may be deleted", async || plain.number(due, &[]).await == 1).await;
    flow
}

#[tokio::test]
async fn a_flow_that_is_deleted_before_a_replay_is_gone() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = sides(&sandbox).await;
    let flow = kept_long_enough(&a, &plain).await;
    let up = flow.nodes["up"];
    plain.hold(up).await;
    let delete = meanwhile!(b => b.tick("retention"));
    sandbox.waits_for_lock("b", 1).await;
    let replay = meanwhile!(a => a.operate(up, Action::Replay));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    assert_eq!(joined(delete).await.done, 1);
    assert_eq!(joined(replay).await.expect_err("it is gone").code(), "not_found");
    assert!(a.is_deleted(up).await && a.is_deleted(flow.nodes["down"]).await);
    assert_eq!(plain.number("select count(*) from flows", &[]).await, 0);
    end(&[&a, &b]).await;
}

#[tokio::test]
async fn a_flow_that_is_replayed_before_it_is_deleted_runs_again() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = sides(&sandbox).await;
    let flow = kept_long_enough(&a, &plain).await;
    let up = flow.nodes["up"];
    plain.hold(up).await;
    let replay = meanwhile!(a => a.operate(up, Action::Replay));
    sandbox.waits_for_lock("a", 1).await;
    let delete = meanwhile!(b => b.tick("retention"));
    sandbox.waits_for_lock("b", 1).await;
    plain.release().await;
    joined(replay).await.expect("it has ended");
    let delete = joined(delete).await;
    assert_eq!((delete.scanned, delete.done, delete.lost), (1, 0, 1));
    assert_eq!(a.flow_state(flow.id).await, FlowState::Running);
    finish([&a, &b], &plain, &flow, "down:completed up:completed", FlowState::Completed).await;
}

#[tokio::test]
async fn a_completion_through_a_server_that_did_not_hand_out_the_lease_goes_by_the_outbox() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = sides(&sandbox).await;
    let flow = a.flow("up -> down").await;
    let lease = fence(&a.claim_one("one").await);
    b.complete(lease).await.expect("it holds the lease");
    assert_eq!(flow.states().await, "down:waiting_dependencies up:completed");
    let row = flow.left("up", OutboxKind::Edges).await.expect("its downstream is to be told");
    assert!(a.claim("two", 9).await.is_empty());
    assert_eq!(dispatch(&a, &row).await, advanced(1));
    let down = b.claim_one("two").await;
    assert_eq!(down.upstreams[0].result.as_deref(), Some(&b"\"done\""[..]));
    b.complete(fence(&down)).await.expect("it holds the lease");
    finish([&a, &b], &plain, &flow, "down:completed up:completed", FlowState::Completed).await;
}

/// A worker claims one node of a flow and is seen anew while its lease of another lapses: both write its session and the
/// counts of the flow.
#[tokio::test]
async fn a_claim_and_a_lapse_of_one_worker_in_one_flow_do_not_wait_for_each_other_in_a_circle() {
    let sandbox = Sandbox::new();
    let stores = [sandbox.store("a").await, sandbox.store("b").await];
    let options = Options { dispatch: false, ..passive_options() };
    let (a, b) = (
        TestServer::new(stores[0].clone(), options.clone()).await,
        TestServer::new(stores[1].clone(), options).await,
    );
    let plain = sandbox.plain().await;
    let flow = a.flow("x y").await;
    let lapsing = a.claim_with_short_lease("one").await.execution.id;
    support::until("the lease has lapsed", async || {
        let lapsed = a.engine.store().lapsed(None, 10).await.expect("leases are read");
        lapsed.iter().any(|row| row.execution == lapsing)
    })
    .await;
    hold_flow(&plain, flow.id).await;
    // It works on another lane from now on, so its session is written.
    let lanes = vec!["default".into(), "other".into()];
    let again = ClaimDraft { lease_ttl_ms: 500, lanes, ..claim_of("one", 1) };
    let claim = meanwhile!(b => b.claim_as(again));
    sandbox.waits_for_lock("b", 1).await;
    let lapse = meanwhile!(a => a.tick("lease_expiry"));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    let claimed = joined(claim).await;
    assert_eq!((claimed.len(), joined(lapse).await.done), (1, 1));
    assert_eq!((stores[0].conflicts(), stores[1].conflicts()), (0, 0), "nobody had to be sent back");
    b.complete(fence(&claimed[0])).await.expect("it holds the lease");
    finish([&a, &b], &plain, &flow, "x:completed y:completed", FlowState::Completed).await;
}

/// A completion counts its flow and makes a node ready, a growth holds the flow and makes another ready of the same class.
#[tokio::test]
async fn a_completion_and_a_growth_that_make_ready_of_one_class_do_not_wait_for_each_other_in_a_circle() {
    let sandbox = Sandbox::new();
    let stores = [sandbox.store("a").await, sandbox.store("b").await];
    let options = Options { dispatch: false, ..passive_options() };
    let (a, b) = (
        TestServer::new(stores[0].clone(), options.clone()).await,
        TestServer::new(stores[1].clone(), options).await,
    );
    let plain = sandbox.plain().await;
    // Nothing of this priority was ready before, so both write that there is now.
    let urgent = |draft: &mut GraphDraft, name: &str| {
        let node = draft.nodes.iter_mut().find(|node| node.name == name);
        node.expect("it is drawn").draft.priority = 7;
    };
    let mut draft = drawn("x -> y");
    urgent(&mut draft.graph, "y");
    let flow = a.flow_of(draft).await;
    let lease = fence(&b.claim_one("one").await);
    plain
        .run("begin; insert into class_priorities (class, priority, generation) select id, 7, 0 from classes")
        .await;
    let complete = meanwhile!(b => b.complete(lease));
    sandbox.waits_for_lock("b", 1).await;
    let (grown, id) = (a.namespace.clone(), flow.id);
    let mut graph = flow.onto("new");
    urgent(&mut graph, "new");
    let growth = tokio::spawn(async move { grown.grow_flow(id, graph, None).await });
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    joined(complete).await.expect("it holds the lease");
    joined(growth).await.expect("it runs still");
    assert_eq!((stores[0].conflicts(), stores[1].conflicts()), (0, 0), "nobody had to be sent back");
    finish([&a, &b], &plain, &flow, "x:completed y:completed", FlowState::Completed).await;
}
