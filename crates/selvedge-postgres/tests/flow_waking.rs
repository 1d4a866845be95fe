//! What a completion makes ready is found by whoever waits for it, on any server, with notifications off; and nothing depends
//! on the dispatcher: with it switched off everywhere the reconcilers move a flow on, hop by hop, to its end.

mod support;

use selvedge_engine::Options;
use selvedge_engine::core::flow::FlowState;
use selvedge_engine::core::state::StateName;
use std::time::{Duration, Instant};
use support::flows::{Flow, broken, end, name};
use support::test_server::{TestServer, claim_of, complete_op, fence, passive_options};
use support::{LONG, Sandbox};

/// How many hops the chains have.
const DEPTH: usize = 20;
const POLL: Duration = Duration::from_millis(200);

/// A chain `n00 -> n01 -> …`.
fn chain() -> String {
    (0..=DEPTH).map(|number| format!("n{number:02}")).collect::<Vec<_>>().join(" -> ")
}

/// The states of a chain of which so many have completed and the rest stands like that.
fn states(completed: usize, rest: &str) -> String {
    let state = |number| if number < completed { "completed" } else { rest };
    (0..=DEPTH).map(|number| format!("n{number:02}:{}", state(number))).collect::<Vec<_>>().join(" ")
}

/// Through which server a completion goes: one that knows whom it moves, or one that leaves that to be done.
async fn reaches_a_claim_that_waits_elsewhere(through_the_outbox: bool) {
    let sandbox = Sandbox::new();
    let a = sandbox.side("a").await;
    let b = sandbox.side_with("b", Options { poll: POLL, ..passive_options() }).await;
    let other = sandbox.side("other").await;
    for _ in 0..5 {
        let flow = a.flow("up -> down").await;
        let up = fence(&a.claim_one("one").await);
        let waiter = b.claim_waiting(claim_of("two", 1), 1).await;
        let (began, completer) = (Instant::now(), if through_the_outbox { &other } else { &a });
        completer.complete(up).await.expect("it holds the lease");
        let claimed = waiter.await.expect("it does not panic");
        assert_eq!(claimed[0].execution.id, flow.nodes["down"]);
        assert_eq!(claimed[0].upstreams[0].result.as_deref(), Some(&b"\"done\""[..]));
        assert!(began.elapsed() < 25 * POLL, "it took {:?}", began.elapsed());
        b.complete(fence(&claimed[0])).await.expect("it holds the lease");
        assert_eq!(b.flow_state(flow.id).await, FlowState::Completed);
    }
    end(&[&a, &b, &other]).await;
}

#[tokio::test]
async fn a_claim_that_waits_at_one_server_gets_what_a_completion_at_another_made_ready() {
    reaches_a_claim_that_waits_elsewhere(false).await;
}

#[tokio::test]
async fn a_claim_that_waits_at_one_server_gets_what_the_dispatcher_of_another_made_ready() {
    reaches_a_claim_that_waits_elsewhere(true).await;
}

/// A wake-up between the look of a claim and its wait: the completion commits while the claim is being answered.
#[tokio::test]
async fn a_claim_that_looks_while_a_completion_is_about_to_commit_gets_what_it_makes_ready() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.side("a").await, sandbox.side("b").await, sandbox.plain().await);
    let flow = a.flow("up -> down").await;
    let up = fence(&b.claim_one("one").await);
    // Not remembered by a: told by its dispatcher, in a commit after that of the completion.
    plain.hold(flow.nodes["down"]).await;
    a.complete(up).await.expect("it holds the lease");
    sandbox.waits_for_lock("a", 1).await;
    let waiter = a.claim_waiting(claim_of("two", 1), 1).await;
    plain.release().await;
    let claimed = tokio::time::timeout(LONG, waiter).await.expect("it is woken").expect("it does not panic");
    assert_eq!(name(&claimed[0]), "down");
    a.complete(fence(&claimed[0])).await.expect("it holds the lease");
    end(&[&a, &b]).await;
}

/// Two servers without dispatchers. Each completion goes through the one that did not hand out the lease, so that no hop
/// shares its commit.
async fn without_dispatchers(sandbox: &Sandbox) -> (TestServer, TestServer) {
    let options = Options { dispatch: false, ..passive_options() };
    (sandbox.side_with("a", options.clone()).await, sandbox.side_with("b", options).await)
}

#[tokio::test]
async fn the_reconcilers_alone_carry_a_chain_from_its_first_node_to_its_last() {
    let sandbox = Sandbox::new();
    let ((a, b), plain) = (without_dispatchers(&sandbox).await, sandbox.plain().await);
    let flow = a.flow(&chain()).await;
    for number in 0..=DEPTH {
        let (claimer, completer) = if number % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let claimed = claimer.claim_one("one").await;
        assert_eq!(name(&claimed), format!("n{number:02}"));
        completer.complete(fence(&claimed)).await.expect("it holds the lease");
        assert!(claimer.claim("one", 9).await.is_empty(), "nobody has told the next one");
        assert_eq!(a.reconcile(&plain).await, 1);
    }
    assert_eq!(
        (flow.states().await, a.flow_state(flow.id).await),
        (states(DEPTH + 1, ""), FlowState::Completed)
    );
    end(&[&a, &b]).await;
}

#[tokio::test]
async fn a_chain_that_is_interrupted_anywhere_drains_fully() {
    let sandbox = Sandbox::new();
    let ((a, b), plain) = (without_dispatchers(&sandbox).await, sandbox.plain().await);
    for interrupted in 0..DEPTH {
        let flow = a.flow(&chain()).await;
        for number in 0..=interrupted {
            let claimed = a.claim_one("one").await;
            let op = if number == interrupted { broken() } else { complete_op() };
            let side = if number == interrupted { &b } else { &a };
            side.report(fence(&claimed), op).await.expect("it holds the lease");
        }
        assert_eq!(flow.state(&format!("n{:02}", interrupted + 1)).await, StateName::WaitingDependencies);
        // One hop in each transaction, and the end of the flow.
        assert_eq!(a.reconcile(&plain).await, DEPTH - interrupted + 1);
        let expected = states(interrupted, "skipped")
            .replace(&format!("n{interrupted:02}:skipped"), &format!("n{interrupted:02}:failed"));
        assert_eq!((flow.states().await, a.flow_state(flow.id).await), (expected, FlowState::Failed));
    }
    end(&[&a, &b]).await;
}

/// Waits until a flow has ended, which takes the reconcilers a second for each hop.
async fn ends(flow: &Flow, longest: Duration) -> FlowState {
    let deadline = Instant::now() + longest;
    loop {
        let ended =
            flow.side.namespace.flow_result(flow.id, Duration::from_secs(10)).await.expect("it is read");
        if let Some(ended) = ended {
            return ended.flow.state;
        }
        assert!(Instant::now() < deadline, "it hangs: {}", flow.states().await);
    }
}

#[tokio::test]
async fn slow_supervisors_without_dispatchers_drain_a_chain_in_about_a_second_for_each_hop() {
    let sandbox = Sandbox::new();
    let options = Options { dispatch: false, reconcilers: true, poll: POLL, ..passive_options() };
    let a = sandbox.side_with("a", options.clone()).await;
    let b = sandbox.side_with("b", options).await;
    let flow = a.flow(&chain()).await;
    let first = a.claim_one("one").await;
    b.report(fence(&first), broken()).await.expect("it holds the lease");
    assert_eq!(ends(&flow, Duration::from_secs(4 * DEPTH as u64)).await, FlowState::Failed);
    assert_eq!(flow.states().await, states(0, "skipped").replace("n00:skipped", "n00:failed"));
    let dispatched = a.tally("dependency").done + b.tally("dependency").done;
    assert!(dispatched >= DEPTH as u64, "{dispatched} of them by the reconcilers");
    end(&[&a, &b]).await;
}
