//! Many flows at once on two servers: hedges, fan-ins and joins that share upstreams, with siblings cancelled all the
//! time. No transactions deadlock, nothing stalls, and everything ends.

use selvedge_engine::Options;
use selvedge_engine::core::FlowId;
use selvedge_engine::core::submission::When;
use selvedge_postgres::Settings;
use selvedge_system_tests::Sandbox;
use selvedge_system_tests::flows::{check_invariants, flow_draft, permanent_failure};
use selvedge_system_tests::server::{Server, claim_of, claim_wait, complete_op, fence, passive_options};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The time during which new flows are submitted.
const PERIOD: Duration = Duration::from_secs(2);
/// The number of concurrent flows.
const SUBMITTERS: usize = 24;
/// The longest pause without a completion, on a busy machine.
const PAUSE: Duration = Duration::from_secs(3);

/// Shapes whose transactions compete: the same upstreams in several edge groups, groups that cancel each other's
/// upstreams, and plain fan-ins.
const SHAPES: [&str; 5] = [
    "a b c d -> win: any_of; win -> last",
    "a b c d e f g h -> join; join -> last",
    "a b c -> w1: any_of; b c d -> w2: any_of; c d a -> w3: quorum 2; w1 w2 w3 -> last",
    "s -> a b c d; a b c d -> win: quorum 2; a? b? c? d? -> tidy; win tidy -> last",
    "a b -> x: any_of; x -> c d; c d -> y: any_of; y -> last",
];

/// The state that the workers of a test share.
#[derive(Default)]
struct Shared {
    completed: AtomicU64,
    stopped: AtomicBool,
}

/// Claims and reports. Every third report goes through the other server, every seventh is a failure.
async fn work(here: Server, there: Server, number: u64, shared: Arc<Shared>) {
    let instance = format!("worker{number}");
    while !shared.stopped.load(Ordering::SeqCst) {
        let claim = claim_wait(claim_of(&instance, 3), Duration::from_millis(50));
        for one in here.namespace.claim(claim).await.expect("the claim is answered") {
            let count = shared.completed.fetch_add(1, Ordering::SeqCst);
            let op = if count % 7 == 6 { permanent_failure() } else { complete_op() };
            let server = if count % 3 == 2 { &there } else { &here };
            // The execution may have been cancelled because a sibling completed first.
            let _ = server.report(fence(&one), op).await;
        }
    }
}

/// Submits flows one after the other, each after the previous one has ended.
async fn submit(server: Server, number: usize, end: Instant) -> Vec<FlowId> {
    let mut flows = Vec::new();
    while Instant::now() < end {
        let mut draft = flow_draft(SHAPES[(number + flows.len()) % SHAPES.len()]);
        // Every fourth flow is a hedge: its second node is delayed.
        if flows.len() % 4 == 3 {
            draft.graph.nodes[1].draft.delay = Some(When::AfterMs(10));
        }
        let flow = server.flow_of(draft).await;
        let ended =
            server.namespace.flow_result(flow.id, Duration::from_secs(20)).await.expect("the read succeeds");
        assert!(ended.is_some(), "flow {} hangs: {}", flow.id, flow.states().await);
        flows.push(flow.id);
    }
    flows
}

/// Returns the longest time without a completion.
async fn longest_pause(shared: Arc<Shared>) -> Duration {
    let (mut longest, mut since, mut seen) = (Duration::ZERO, Instant::now(), 0);
    while !shared.stopped.load(Ordering::SeqCst) {
        let completed = shared.completed.load(Ordering::SeqCst);
        if completed != seen {
            (since, seen) = (Instant::now(), completed);
        }
        longest = longest.max(since.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    longest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hedges_and_fan_ins_that_end_together_on_two_servers_never_deadlock() {
    let sandbox = Sandbox::with_own_database().await;
    let options = Options {
        reconcilers: true,
        notifications: true,
        poll: Duration::from_millis(100),
        ..passive_options()
    };
    // Longer than Postgres takes to detect a deadlock.
    let settings = Settings { lock_timeout: Duration::from_secs(5), ..sandbox.settings() };
    let stores = [sandbox.store_with("a", settings.clone()).await, sandbox.store_with("b", settings).await];
    let a = Server::new(stores[0].clone(), options.clone()).await;
    let b = Server::new(stores[1].clone(), options).await;
    let shared = Arc::new(Shared::default());
    let mut workers = JoinSet::new();
    for number in 0..12 {
        let (here, there) = if number % 2 == 0 { (&a, &b) } else { (&b, &a) };
        workers.spawn(work(here.clone(), there.clone(), number, shared.clone()));
    }
    let pause = tokio::spawn(longest_pause(shared.clone()));
    let (began, mut submitters) = (Instant::now(), JoinSet::new());
    for number in 0..SUBMITTERS {
        let server = if number % 2 == 0 { &a } else { &b };
        submitters.spawn(submit(server.clone(), number, began + PERIOD));
    }
    let flows: usize = submitters.join_all().await.iter().map(Vec::len).sum();
    let took = began.elapsed();
    shared.stopped.store(true, Ordering::SeqCst);
    workers.join_all().await;
    let pause = pause.await.expect("the task does not panic");
    selvedge_system_tests::wait_until("the outbox is empty", async || a.outbox().await.is_empty()).await;
    check_invariants(&a).await;
    selvedge_system_tests::stop([&a.engine, &b.engine]).await;
    drop((a, b));
    let completed = shared.completed.load(Ordering::SeqCst);
    let conflicts: Vec<u64> = stores.iter().map(|store| store.conflicts()).collect();
    println!("{flows} flows, {completed} executions in {took:?}, longest pause {pause:?}");
    assert_eq!(conflicts, [0, 0], "every changed row was locked before, in order");
    drop(stores);
    selvedge_system_tests::wait_until("the servers have disconnected", async || {
        sandbox.connections("a").await + sandbox.connections("b").await == 0
    })
    .await;
    assert_eq!(sandbox.deadlocks().await, 0);
    assert!(pause < PAUSE, "nothing was completed for {pause:?}");
    assert!(flows >= 2 * SUBMITTERS, "{flows} flows in {took:?}");
}
