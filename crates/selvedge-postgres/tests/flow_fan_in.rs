//! Sixty-four upstreams of one join end at the same moment, on several connections of two engines. Each is counted once, the
//! join decides once and runs once, and its claim carries what became of all of them.

mod support;

use selvedge_conformance::Harness;
use selvedge_engine::Options;
use selvedge_engine::core::fact::Fact;
use selvedge_engine::core::flow::FlowState;
use selvedge_engine::core::rules::claim::Claimed;
use selvedge_engine::core::rules::report::{Fence, Reported};
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{ExecutionId, Outcome, Refusal};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::flows::{Flow, end};
use support::test_server::{TestServer, claim_of, claim_wait, fence, passive_options};
use support::{Plain, Sandbox};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const WIDTH: usize = 64;
const ROUNDS: usize = 3;
/// How many connections of each engine wait for the join before it is let go: one with completions that know of it, which go
/// together, and one with what was left to be done by those that do not.
const WAITING: i64 = 2;
/// How long a round may take: nothing in it waits for a reconciler, a poll or a lock that is not let go.
const BOUND: Duration = Duration::from_secs(10);

/// What came of one round.
struct Round {
    flow: Flow,
    /// How many of the reports were accepted.
    accepted: usize,
    /// The claim of the join.
    join: Claimed,
}

/// The engines dispatch, and nothing else goes by itself.
async fn engines(sandbox: &Sandbox) -> (TestServer, TestServer) {
    let options = Options { dispatch: true, ..passive_options() };
    (sandbox.side_with("a", options.clone()).await, sandbox.side_with("b", options).await)
}

/// A join of this policy whose upstreams are all claimed, half through each engine.
async fn claimed(a: &TestServer, b: &TestServer, policy: &str) -> (Flow, Vec<Fence>) {
    let names: Vec<String> = (0..WIDTH).map(|number| format!("n{number}")).collect();
    let flow = a.flow(&format!("{} -> join: {policy}", names.join(" "))).await;
    let mut fences: Vec<Fence> = a.claim("one", WIDTH as u32 / 2).await.iter().map(fence).collect();
    fences.extend(b.claim("two", WIDTH as u32 / 2).await.iter().map(fence));
    assert_eq!(fences.len(), WIDTH);
    (flow, fences)
}

/// All upstreams complete at once: the join is held until several connections of both engines wait for it. Each fourth
/// reports through the engine that did not hand out its lease, which goes by the outbox.
async fn complete_all(
    sandbox: &Sandbox,
    plain: &Plain,
    (a, b): (&TestServer, &TestServer),
    (flow, fences): (&Flow, Vec<Fence>),
) -> Vec<Result<Reported, Refusal>> {
    plain.hold(flow.nodes["join"]).await;
    let barrier = Arc::new(Barrier::new(WIDTH));
    let mut tasks = JoinSet::new();
    for (number, fence) in fences.into_iter().enumerate() {
        let through_a = (number < WIDTH / 2) != (number % 4 == 0);
        let (side, barrier) = (if through_a { a.clone() } else { b.clone() }, barrier.clone());
        tasks.spawn(async move {
            barrier.wait().await;
            side.complete(fence).await
        });
    }
    support::until("connections of both engines wait for the join", async || {
        sandbox.lock_waits("a").await >= WAITING && sandbox.lock_waits("b").await >= WAITING
    })
    .await;
    plain.release().await;
    tasks.join_all().await
}

async fn round(sandbox: &Sandbox, plain: &Plain, a: &TestServer, b: &TestServer, policy: &str) -> Round {
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
        // Without notifications and poll a claim that waits at engine b does not hear of what engine a made ready.
        let claim = claim_wait(claim_of("joins too", 9), Duration::from_millis(20));
        joins = a.namespace.claim(claim).await.expect("the claim is answered");
        assert!(began.elapsed() < BOUND, "the join never runs: {}", flow.states().await);
    }
    if joins.is_empty() {
        joins = waiter.await.expect("it does not panic");
    } else {
        waiter.abort();
    }
    assert_eq!(joins.len(), 1, "the join runs once");
    let join = joins.remove(0);
    assert_eq!(join.execution.id, flow.nodes["join"]);
    a.complete(fence(&join)).await.expect("it holds the lease");
    let ended = a.namespace.flow_result(flow.id, BOUND).await.expect("it is read");
    assert_eq!(ended.expect("it ends").flow.state, FlowState::Completed);
    support::until("nothing is left to be done", async || a.outbox().await.is_empty()).await;
    assert_eq!(flow.decisions("join").await, 1);
    assert_eq!((join.upstreams.len(), fence(&join).epoch), (WIDTH, 1));
    assert!(began.elapsed() < BOUND, "a round took {:?}", began.elapsed());
    Round { flow, accepted, join }
}

/// How often the log says that the join heard of each upstream.
async fn heard(side: &TestServer, join: ExecutionId) -> BTreeMap<ExecutionId, usize> {
    let mut heard = BTreeMap::new();
    let log = Harness::new(side.engine.store().clone()).await.log().await;
    let events = log.iter().flat_map(|(_, events)| events).filter(|event| event.execution == Some(join));
    for event in events {
        if let Fact::UpstreamChanged { edges } | Fact::Joined { edges, .. } = &event.fact {
            edges.iter().for_each(|edge| *heard.entry(edge.upstream).or_default() += 1);
        }
    }
    heard
}

fn ended_as(join: &Claimed, outcome: Outcome) -> usize {
    join.upstreams.iter().filter(|one| one.outcome == Some(outcome)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_upstreams_that_end_at_once_are_each_counted_once_and_the_join_runs_once() {
    let sandbox = Sandbox::new();
    let ((a, b), plain) = (engines(&sandbox).await, sandbox.plain().await);
    for _ in 0..ROUNDS {
        let Round { flow, accepted, join } = round(&sandbox, &plain, &a, &b, "all_of").await;
        assert_eq!((accepted, ended_as(&join, Outcome::Completed)), (WIDTH, WIDTH));
        assert!(join.upstreams.iter().all(|one| one.result.as_deref() == Some(&b"\"done\""[..])));
        let heard = heard(&a, flow.nodes["join"]).await;
        assert_eq!(heard.len(), WIDTH);
        assert!(heard.values().all(|times| *times == 1), "{heard:?}");
    }
    end(&[&a, &b]).await;
}

/// The join needs so many; the rest is cancelled, unless it was quicker.
async fn some_are_needed(policy: &str, needed: usize) {
    let sandbox = Sandbox::new();
    let ((a, b), plain) = (engines(&sandbox).await, sandbox.plain().await);
    for _ in 0..ROUNDS {
        let Round { flow, accepted, join } = round(&sandbox, &plain, &a, &b, policy).await;
        assert!(accepted >= needed && ended_as(&join, Outcome::Completed) >= needed);
        let view = a.namespace.flow(flow.id).await.expect("it is there").flow.counts;
        assert_eq!(view.of(StateName::Completed) as usize, accepted + 1, "a report that was accepted stands");
        assert_eq!(view.of(StateName::Cancelled) as usize, WIDTH - accepted, "everybody else was cancelled");
        let heard = heard(&a, flow.nodes["join"]).await;
        assert!(heard.len() == WIDTH && heard.values().all(|times| *times == 1), "{heard:?}");
    }
    end(&[&a, &b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_of_sixty_four_that_end_at_once_decides_and_everybody_ends() {
    some_are_needed("any_of", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_two_of_sixty_four_that_end_at_once_decide_and_everybody_ends() {
    some_are_needed("quorum 32", 32).await;
}
