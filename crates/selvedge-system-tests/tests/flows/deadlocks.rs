//! Transactions of two servers that lock the same flow and other rows do not deadlock.

use crate::races::{finish, lock_flow, servers};
use selvedge_engine::Options;
use selvedge_engine::ReconcilerScope;
use selvedge_engine::core::flow::FlowState;
use selvedge_engine::core::plan::GraphDraft;
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::rules::operator::Action;
use selvedge_system_tests::flows::{check_and_stop, flow_draft, permanent_failure};
use selvedge_system_tests::server::{Server, claim_of, fence, passive_options};
use selvedge_system_tests::{Sandbox, in_background, joined, wait_until};

/// A worker claims one node of a flow with a changed session while its lease of another node expires: both transactions
/// write its session and the counts of the flow.
#[tokio::test]
async fn a_claim_and_an_expiry_of_one_worker_in_one_flow_do_not_deadlock() {
    let sandbox = Sandbox::new();
    let stores = [sandbox.store("a").await, sandbox.store("b").await];
    let options = Options { dispatch: false, ..passive_options() };
    let (a, b) = (
        Server::new(stores[0].clone(), options.clone()).await,
        Server::new(stores[1].clone(), options).await,
    );
    let plain = sandbox.plain().await;
    let flow = a.flow("x y").await;
    let expiring = a.claim_with_short_lease("one").await.execution.id;
    selvedge_system_tests::wait_until("the lease has expired", async || {
        let expired = a
            .engine
            .store()
            .expired_leases(&ReconcilerScope::ALL, None, 10)
            .await
            .expect("the leases are read");
        expired.iter().any(|row| row.execution == expiring)
    })
    .await;
    lock_flow(&plain, flow.id).await;
    // The worker adds a lane, so its session is written.
    let lanes = vec!["default".into(), "other".into()];
    let again = ClaimDraft { lease_ttl_ms: 500, lanes, ..claim_of("one", 1) };
    let claim = in_background!(b => b.claim_as(again));
    sandbox.waits_for_lock("b", 1).await;
    let expiry = in_background!(a => a.tick("lease_expiry"));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    let claimed = joined(claim).await;
    assert_eq!((claimed.len(), joined(expiry).await.done), (1, 1));
    assert_eq!((stores[0].conflicts(), stores[1].conflicts()), (0, 0), "no transaction was retried");
    b.complete(fence(&claimed[0])).await.expect("the lease is held");
    finish([&a, &b], &plain, &flow, "x:completed y:completed", FlowState::Completed).await;
}

/// A completion counts in its flow and makes a node waiting; a growth locks the flow and adds a waiting node of the same
/// class.
#[tokio::test]
async fn a_completion_and_a_growth_that_add_waiting_nodes_of_one_class_do_not_deadlock() {
    let sandbox = Sandbox::new();
    let stores = [sandbox.store("a").await, sandbox.store("b").await];
    let options = Options { dispatch: false, ..passive_options() };
    let (a, b) = (
        Server::new(stores[0].clone(), options.clone()).await,
        Server::new(stores[1].clone(), options).await,
    );
    let plain = sandbox.plain().await;
    // The class has no executions of this priority yet, so both transactions insert the pair.
    let urgent = |draft: &mut GraphDraft, name: &str| {
        let node = draft.nodes.iter_mut().find(|node| node.name == name);
        node.expect("the node is in the sketch").draft.priority = 7;
    };
    let mut draft = flow_draft("x -> y");
    urgent(&mut draft.graph, "y");
    let flow = a.flow_of(draft).await;
    let lease = fence(&b.claim_one("one").await);
    plain
        .run("begin; insert into class_priorities (class, priority, generation) select id, 7, 0 from classes")
        .await;
    let complete = in_background!(b => b.complete(lease));
    sandbox.waits_for_lock("b", 1).await;
    let (grown, id) = (a.namespace.clone(), flow.id);
    let mut graph = flow.onto("new");
    urgent(&mut graph, "new");
    let growth = tokio::spawn(async move { grown.grow_flow(id, graph, None).await });
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    joined(complete).await.expect("the lease is held");
    joined(growth).await.expect("the flow is still running");
    assert_eq!((stores[0].conflicts(), stores[1].conflicts()), (0, 0), "no transaction was retried");
    finish([&a, &b], &plain, &flow, "x:completed y:completed", FlowState::Completed).await;
}

/// The expiry of a lease locks the session of its worker and counts the flow. The replay locks the flow, and writes the
/// session of the waiting claim to which it hands the execution over.
#[tokio::test]
async fn the_expiry_of_a_lease_does_not_deadlock_with_a_replay_in_its_flow() {
    let sandbox = Sandbox::with_own_database().await;
    let (a, b, plain) = servers(&sandbox).await;
    let flow = a.flow("failing; expiring").await;
    let brief = |max| ClaimDraft { lease_ttl_ms: 500, ..claim_of("one", max) };
    let claimed = a.claim_as(brief(2)).await;
    let failing = claimed.iter().find(|one| one.execution.node() == Some("failing"));
    let failing = fence(failing.expect("both nodes are claimed"));
    a.report(failing, permanent_failure()).await.expect("the lease is held");
    let waiting = b.claim_waiting(brief(1), 1).await;
    wait_until("the lease has expired", async || {
        !a.engine
            .store()
            .expired_leases(&ReconcilerScope::ALL, None, 9)
            .await
            .expect("the leases are read")
            .is_empty()
    })
    .await;
    // A claim writes its session only if it was not seen for a while.
    plain.run("update sessions set seen_at = seen_at - interval '1 minute'").await;
    lock_flow(&plain, flow.id).await;
    let id = flow.nodes["failing"];
    let replay = in_background!(b => b.operate(id, Action::Replay));
    sandbox.waits_for_lock("b", 1).await;
    let expiry = in_background!(a => a.engine.tick("lease_expiry"));
    sandbox.waits_for_lock("a", 1).await;
    plain.release().await;
    joined(replay).await.expect("the node has ended");
    joined(expiry).await.expect("the tick runs");
    assert_eq!(waiting.await.expect("the claim is answered").len(), 1, "the replayed node is handed over");
    assert_eq!(flow.states().await, "expiring:waiting failing:active");
    check_and_stop(&[&a, &b]).await;
    drop((a, b, flow));
    wait_until("the servers have disconnected", async || {
        sandbox.connections("a").await + sandbox.connections("b").await == 0
    })
    .await;
    assert_eq!(sandbox.deadlocks().await, 0);
}
