//! Sixty-four upstreams of one join end at the same moment, on several connections of two servers. Each is counted once,
//! the join decides once and runs once, and its claim carries the outcomes of all upstreams.

use selvedge_conformance::Harness;
use selvedge_engine::Options;
use selvedge_engine::core::fact;
use selvedge_engine::core::fact::Fact;
use selvedge_engine::core::flow::FlowState;
use selvedge_engine::core::rules::claim::Claimed;
use selvedge_engine::core::rules::report::{Fence, Reported};
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{ExecutionId, Outcome, Refusal};
use selvedge_system_tests::flows::{Flow, check_and_stop};
use selvedge_system_tests::server::{Server, claim_of, claim_wait, fence, passive_options};
use selvedge_system_tests::{PlainConnection, Sandbox};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const WIDTH: usize = 64;
const ROUNDS: usize = 3;
/// The number of connections of each server that wait for the join before it is unlocked: one with a batch of completions
/// whose server knows the downstream, and one that dispatches the outbox rows of the others.
const WAITING: i64 = 2;
/// The longest duration of a round, which waits for no reconciler and no poll.
const BOUND: Duration = Duration::from_secs(10);

/// The outcome of one round.
struct Round {
    flow: Flow,
    /// The number of accepted reports.
    accepted: usize,
    /// The claim of the join.
    join: Claimed,
}

/// Starts two servers with dispatchers and no other background work.
async fn dispatching_servers(sandbox: &Sandbox) -> (Server, Server) {
    let options = Options { dispatch: true, ..passive_options() };
    (sandbox.server_with("a", options.clone()).await, sandbox.server_with("b", options).await)
}

/// Submits a join with this policy and claims all its upstreams, half through each server.
async fn claimed(a: &Server, b: &Server, policy: &str) -> (Flow, Vec<Fence>) {
    let names: Vec<String> = (0..WIDTH).map(|number| format!("n{number}")).collect();
    let flow = a.flow(&format!("{} -> join: {policy}", names.join(" "))).await;
    let mut fences: Vec<Fence> = a.claim("one", WIDTH as u32 / 2).await.iter().map(fence).collect();
    fences.extend(b.claim("two", WIDTH as u32 / 2).await.iter().map(fence));
    assert_eq!(fences.len(), WIDTH);
    (flow, fences)
}

/// Completes all upstreams at once: the join is locked until several connections of both servers wait for it. Every
/// fourth report goes through the server that did not hand out the lease, and so through the outbox.
async fn complete_all(
    sandbox: &Sandbox,
    plain: &PlainConnection,
    (a, b): (&Server, &Server),
    (flow, fences): (&Flow, Vec<Fence>),
) -> Vec<Result<Reported, Refusal>> {
    plain.lock_execution(flow.nodes["join"]).await;
    let barrier = Arc::new(Barrier::new(WIDTH));
    let mut tasks = JoinSet::new();
    for (number, fence) in fences.into_iter().enumerate() {
        let through_a = (number < WIDTH / 2) != (number % 4 == 0);
        let (server, barrier) = (if through_a { a.clone() } else { b.clone() }, barrier.clone());
        tasks.spawn(async move {
            barrier.wait().await;
            server.complete(fence).await
        });
    }
    selvedge_system_tests::wait_until("connections of both engines wait for the join", async || {
        sandbox.lock_waits("a").await >= WAITING && sandbox.lock_waits("b").await >= WAITING
    })
    .await;
    plain.release().await;
    tasks.join_all().await
}

async fn round(sandbox: &Sandbox, plain: &PlainConnection, a: &Server, b: &Server, policy: &str) -> Round {
    let began = Instant::now();
    let (flow, fences) = claimed(a, b, policy).await;
    let waiter = b.claim_waiting(claim_of("joins", 9), 1).await;
    let reported = complete_all(sandbox, plain, (a, b), (&flow, fences)).await;
    let accepted = reported.iter().filter(|one| one.is_ok()).count();
    for refusal in reported.iter().filter_map(|one| one.as_ref().err()) {
        assert_eq!(refusal.code(), "stale_lease", "{refusal}");
    }
    let mut joins = Vec::new();
    while joins.is_empty() && !waiter.is_finished() {
        // Without notifications and polling, a claim that waits at server b does not notice executions that server a made
        // waiting.
        let claim = claim_wait(claim_of("joins too", 9), Duration::from_millis(20));
        joins = a.namespace.claim(claim).await.expect("the claim is answered");
        assert!(began.elapsed() < BOUND, "the join never runs: {}", flow.states().await);
    }
    if joins.is_empty() {
        joins = waiter.await.expect("the task does not panic");
    } else {
        waiter.abort();
    }
    assert_eq!(joins.len(), 1, "the join runs once");
    let join = joins.remove(0);
    assert_eq!(join.execution.id, flow.nodes["join"]);
    a.complete(fence(&join)).await.expect("the lease is held");
    let ended = a.namespace.flow_result(flow.id, BOUND).await.expect("the read succeeds");
    assert_eq!(ended.expect("the flow ends").flow.state, FlowState::Completed);
    selvedge_system_tests::wait_until("the outbox is empty", async || a.outbox().await.is_empty()).await;
    assert_eq!(flow.decisions("join").await, 1);
    assert_eq!((join.upstreams.len(), fence(&join).epoch), (WIDTH, 1));
    assert!(began.elapsed() < BOUND, "a round took {:?}", began.elapsed());
    Round { flow, accepted, join }
}

/// Counts the events in the log by which the join learned of each upstream.
async fn propagations(server: &Server, join: ExecutionId) -> BTreeMap<ExecutionId, usize> {
    let mut counts = BTreeMap::new();
    let log = Harness::new(server.engine.store().clone()).await.log().await;
    let events = log.iter().flat_map(|(_, events)| events).filter(|event| event.execution == Some(join));
    for event in events {
        if let Fact::UpstreamChanged(fact::UpstreamChanged { edges })
        | Fact::Joined(fact::Joined { edges, .. }) = &event.fact
        {
            edges.iter().for_each(|edge| *counts.entry(edge.upstream).or_default() += 1);
        }
    }
    counts
}

fn ended_as(join: &Claimed, outcome: Outcome) -> usize {
    join.upstreams.iter().filter(|one| one.outcome == Some(outcome)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_upstreams_that_end_at_once_are_each_counted_once_and_the_join_runs_once() {
    let sandbox = Sandbox::new();
    let ((a, b), plain) = (dispatching_servers(&sandbox).await, sandbox.plain().await);
    for _ in 0..ROUNDS {
        let Round { flow, accepted, join } = round(&sandbox, &plain, &a, &b, "all_of").await;
        assert_eq!((accepted, ended_as(&join, Outcome::Completed)), (WIDTH, WIDTH));
        assert!(join.upstreams.iter().all(|one| one.result.as_deref() == Some(&b"\"done\""[..])));
        let counts = propagations(&a, flow.nodes["join"]).await;
        assert_eq!(counts.len(), WIDTH);
        assert!(counts.values().all(|times| *times == 1), "{counts:?}");
    }
    check_and_stop(&[&a, &b]).await;
}

/// Runs rounds of a join that needs this number of upstreams; the others are cancelled unless they complete first.
async fn some_upstreams_suffice(policy: &str, needed: usize) {
    let sandbox = Sandbox::new();
    let ((a, b), plain) = (dispatching_servers(&sandbox).await, sandbox.plain().await);
    for _ in 0..ROUNDS {
        let Round { flow, accepted, join } = round(&sandbox, &plain, &a, &b, policy).await;
        assert!(accepted >= needed && ended_as(&join, Outcome::Completed) >= needed);
        let view = a.namespace.flow(flow.id).await.expect("it exists").flow.counts;
        assert_eq!(view.of(StateName::Completed) as usize, accepted + 1, "accepted reports stand");
        assert_eq!(view.of(StateName::Cancelled) as usize, WIDTH - accepted, "all others were cancelled");
        let counts = propagations(&a, flow.nodes["join"]).await;
        assert!(counts.len() == WIDTH && counts.values().all(|times| *times == 1), "{counts:?}");
    }
    check_and_stop(&[&a, &b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_of_sixty_four_that_end_at_once_decides_and_all_end() {
    some_upstreams_suffice("any_of", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_two_of_sixty_four_that_end_at_once_decide_and_all_end() {
    some_upstreams_suffice("quorum 32", 32).await;
}
