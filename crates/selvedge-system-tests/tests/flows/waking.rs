//! Claims on any server get the executions that a completion makes waiting, without notifications; and without
//! dispatchers the reconcilers alone propagate completions to the end of a flow.

use selvedge_engine::Options;
use selvedge_engine::core::flow::FlowState;
use selvedge_engine::core::state::StateName;
use selvedge_system_tests::flows::{Flow, check_and_stop, name, permanent_failure};
use selvedge_system_tests::server::{Server, claim_of, complete_op, fence, passive_options};
use selvedge_system_tests::{LONG, Sandbox};
use std::time::{Duration, Instant};

/// The number of edges of a chain.
const DEPTH: usize = 20;
const POLL: Duration = Duration::from_millis(200);

/// Returns the sketch of a chain: `n00 -> n01 -> …`.
fn chain() -> String {
    (0..=DEPTH).map(|number| format!("n{number:02}")).collect::<Vec<_>>().join(" -> ")
}

/// Returns the states of a chain whose first nodes have completed and whose other nodes have the state `rest`.
fn states(completed: usize, rest: &str) -> String {
    let state = |number| if number < completed { "completed" } else { rest };
    (0..=DEPTH).map(|number| format!("n{number:02}:{}", state(number))).collect::<Vec<_>>().join(" ")
}

/// Completes an upstream through a server that knows its downstreams, or through one that uses the outbox.
async fn a_claim_waiting_elsewhere_gets_the_downstream(through_the_outbox: bool) {
    let sandbox = Sandbox::new();
    let a = sandbox.server("a").await;
    let b = sandbox.server_with("b", Options { poll: POLL, ..passive_options() }).await;
    let other = sandbox.server("other").await;
    for _ in 0..5 {
        let flow = a.flow("up -> down").await;
        let up = fence(&a.claim_one("one").await);
        let waiter = b.claim_waiting(claim_of("two", 1), 1).await;
        let (began, completer) = (Instant::now(), if through_the_outbox { &other } else { &a });
        completer.complete(up).await.expect("the lease is held");
        let claimed = waiter.await.expect("the task does not panic");
        assert_eq!(claimed[0].execution.id, flow.nodes["down"]);
        assert_eq!(claimed[0].upstreams[0].result.as_deref(), Some(&b"\"done\""[..]));
        assert!(began.elapsed() < 25 * POLL, "it took {:?}", began.elapsed());
        b.complete(fence(&claimed[0])).await.expect("the lease is held");
        assert_eq!(b.flow_state(flow.id).await, FlowState::Completed);
    }
    check_and_stop(&[&a, &b, &other]).await;
}

#[tokio::test]
async fn a_claim_that_waits_at_one_server_gets_an_execution_that_a_completion_at_another_made_waiting() {
    a_claim_waiting_elsewhere_gets_the_downstream(false).await;
}

#[tokio::test]
async fn a_claim_that_waits_at_one_server_gets_an_execution_that_the_dispatcher_of_another_made_waiting() {
    a_claim_waiting_elsewhere_gets_the_downstream(true).await;
}

/// The completion commits after the claim has searched and before it waits.
#[tokio::test]
async fn a_claim_that_searches_while_a_completion_is_about_to_commit_gets_the_downstream() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.server("a").await, sandbox.server("b").await, sandbox.plain().await);
    let flow = a.flow("up -> down").await;
    let up = fence(&b.claim_one("one").await);
    // Server a has not cached the row, so its dispatcher propagates the completion in a later commit.
    plain.lock_execution(flow.nodes["down"]).await;
    a.complete(up).await.expect("the lease is held");
    sandbox.waits_for_lock("a", 1).await;
    let waiter = a.claim_waiting(claim_of("two", 1), 1).await;
    plain.release().await;
    let claimed = tokio::time::timeout(LONG, waiter)
        .await
        .expect("the claim is woken up")
        .expect("the task does not panic");
    assert_eq!(name(&claimed[0]), "down");
    a.complete(fence(&claimed[0])).await.expect("the lease is held");
    check_and_stop(&[&a, &b]).await;
}

/// Starts two servers without dispatchers. Each completion goes through the server that did not hand out the lease, so
/// that no propagation shares its commit.
async fn without_dispatchers(sandbox: &Sandbox) -> (Server, Server) {
    let options = Options { dispatch: false, ..passive_options() };
    (sandbox.server_with("a", options.clone()).await, sandbox.server_with("b", options).await)
}

#[tokio::test]
async fn the_reconcilers_alone_propagate_a_chain_from_its_first_node_to_its_last() {
    let sandbox = Sandbox::new();
    let ((a, b), plain) = (without_dispatchers(&sandbox).await, sandbox.plain().await);
    let flow = a.flow(&chain()).await;
    for number in 0..=DEPTH {
        let (claimer, completer) = if number % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let claimed = claimer.claim_one("one").await;
        assert_eq!(name(&claimed), format!("n{number:02}"));
        completer.complete(fence(&claimed)).await.expect("the lease is held");
        assert!(claimer.claim("one", 9).await.is_empty(), "the completion is not propagated yet");
        assert_eq!(a.reconcile(&plain).await, 1);
    }
    assert_eq!(
        (flow.states().await, a.flow_state(flow.id).await),
        (states(DEPTH + 1, ""), FlowState::Completed)
    );
    check_and_stop(&[&a, &b]).await;
}

#[tokio::test]
async fn a_chain_that_fails_anywhere_is_skipped_to_its_end() {
    let sandbox = Sandbox::new();
    let ((a, b), plain) = (without_dispatchers(&sandbox).await, sandbox.plain().await);
    for failing in 0..DEPTH {
        let flow = a.flow(&chain()).await;
        for number in 0..=failing {
            let claimed = a.claim_one("one").await;
            let op = if number == failing { permanent_failure() } else { complete_op() };
            let server = if number == failing { &b } else { &a };
            server.report(fence(&claimed), op).await.expect("the lease is held");
        }
        assert_eq!(flow.state(&format!("n{:02}", failing + 1)).await, StateName::WaitingDependencies);
        // One edge per transaction, and one to settle the flow.
        assert_eq!(a.reconcile(&plain).await, DEPTH - failing + 1);
        let expected = states(failing, "skipped")
            .replace(&format!("n{failing:02}:skipped"), &format!("n{failing:02}:failed"));
        assert_eq!((flow.states().await, a.flow_state(flow.id).await), (expected, FlowState::Failed));
    }
    check_and_stop(&[&a, &b]).await;
}

/// Waits until a flow has ended, which takes the reconcilers about a second per edge.
async fn ends(flow: &Flow, longest: Duration) -> FlowState {
    let deadline = Instant::now() + longest;
    loop {
        let ended = flow
            .server
            .namespace
            .flow_result(flow.id, Duration::from_secs(10))
            .await
            .expect("the read succeeds");
        if let Some(ended) = ended {
            return ended.flow.state;
        }
        assert!(Instant::now() < deadline, "it hangs: {}", flow.states().await);
    }
}

#[tokio::test]
async fn slow_supervisors_without_dispatchers_end_a_chain_in_about_a_second_per_edge() {
    let sandbox = Sandbox::new();
    let options = Options { dispatch: false, reconcilers: true, poll: POLL, ..passive_options() };
    let a = sandbox.server_with("a", options.clone()).await;
    let b = sandbox.server_with("b", options).await;
    let flow = a.flow(&chain()).await;
    let first = a.claim_one("one").await;
    b.report(fence(&first), permanent_failure()).await.expect("the lease is held");
    assert_eq!(ends(&flow, Duration::from_secs(4 * DEPTH as u64)).await, FlowState::Failed);
    assert_eq!(flow.states().await, states(0, "skipped").replace("n00:skipped", "n00:failed"));
    let dispatched = a.tally("dependency").done + b.tally("dependency").done;
    assert!(dispatched >= DEPTH as u64, "{dispatched} propagations by the reconcilers");
    check_and_stop(&[&a, &b]).await;
}
