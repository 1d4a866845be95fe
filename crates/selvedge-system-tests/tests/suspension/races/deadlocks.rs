//! Everything at once for two seconds: workers that record, suspend and complete, senders of signals, holders of tokens,
//! operators that cancel and resume, and all reconcilers. No transactions deadlock.

use super::{BusyWriter, Race, patient};
use selvedge_engine::Options;
use selvedge_engine::core::rules::claim::Claimed;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::suspension::{Condition, OnTimeout, WaitDraft};
use selvedge_engine::core::{Draft, ExecutionId, Waitpoint};
use selvedge_postgres::Settings;
use selvedge_system_tests::flows::check_invariants;
use selvedge_system_tests::server::{Server, claim_of, claim_wait, complete_op, fence, ids, passive_options};
use selvedge_system_tests::suspensions::{brief_waitpoint, for_signal, name, step};
use selvedge_system_tests::{Sandbox, wait_until};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;

const PERIOD: Duration = Duration::from_secs(2);
/// The number of executions that all tasks act on.
const LIVE: usize = 60;
/// The number of executions that one round acts on.
const TOGETHER: usize = 12;

/// The state that all tasks share.
#[derive(Default)]
struct Shared {
    executions: Mutex<Vec<ExecutionId>>,
    waitpoints: Mutex<Vec<Waitpoint>>,
    happened: Mutex<BTreeMap<&'static str, usize>>,
    over: AtomicBool,
}

impl Shared {
    fn happened(&self, what: &'static str, times: usize) {
        *self.happened.lock().expect("the mutex is not poisoned").entry(what).or_default() += times;
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Returns a random selection of the newest elements.
    fn some<T: Clone>(of: &Mutex<Vec<T>>, count: usize) -> Vec<T> {
        let of = of.lock().expect("the mutex is not poisoned");
        let from = of.len().saturating_sub(LIVE);
        let one = |_| of.get(fastrand::usize(from..of.len())).cloned();
        if of.is_empty() { Vec::new() } else { (0..count).filter_map(one).collect() }
    }
}

/// Returns a random wait.
fn wait() -> WaitDraft {
    let go = ["red", "green", "blue"][fastrand::usize(..3)];
    let condition = match fastrand::usize(..4) {
        0 => for_signal(go).condition,
        1 => Condition::Any(vec![
            Condition::signal(name(go)),
            Condition::until(When::AfterMs(fastrand::i64(1..80))),
        ]),
        2 => Condition::All(vec![Condition::signal(name("red")), Condition::signal(name("green"))]),
        _ => Condition::All(vec![Condition::signal(name(go)), Condition::operator()]),
    };
    let on_timeout = OnTimeout::ALL[fastrand::usize(..OnTimeout::ALL.len())];
    let timeout_ms = fastrand::bool().then(|| fastrand::i64(1..120));
    WaitDraft { timeout_ms, on_timeout, ..WaitDraft::new(condition) }
}

/// Runs one attempt: perhaps a step, then a suspension or a completion. Its lease may have been lost by then.
async fn attempt(server: Server, claimed: Claimed, shared: Arc<Shared>) {
    let lease = fence(&claimed);
    if fastrand::bool() {
        let recorded = server.report(lease, step(&format!("step{}", lease.attempt), "1")).await;
        shared.happened("recorded", usize::from(recorded.is_ok()));
    }
    if lease.attempt > 2 {
        let completed = server.complete(lease).await;
        shared.happened("completed", usize::from(completed.is_ok()));
        return;
    }
    let waitpoints = if fastrand::bool() { vec![brief_waitpoint("green", 150)] } else { vec![] };
    let suspended = server.report(lease, server.namespace.suspend(vec![wait()], waitpoints)).await;
    shared.happened("suspended", usize::from(suspended.is_ok()));
    if let Ok(mut suspended) = suspended {
        shared.waitpoints.lock().expect("the mutex is not poisoned").append(&mut suspended.waitpoints);
    }
}

/// Claims executions and runs their attempts concurrently. Every second attempt reports through the other server.
async fn work(here: Server, there: Server, instance: String, shared: Arc<Shared>) {
    while !shared.is_over() {
        let claim = claim_wait(claim_of(&instance, 6), Duration::from_millis(20));
        let claimed = here.namespace.claim(claim).await.expect("the claim is answered");
        shared.happened("claimed", claimed.len());
        let mut attempts = JoinSet::new();
        for (number, one) in claimed.into_iter().enumerate() {
            let server = if number % 2 == 0 { here.clone() } else { there.clone() };
            attempts.spawn(attempt(server, one, shared.clone()));
        }
        attempts.join_all().await;
    }
}

/// Reports and claims the next execution in the same call, like a worker that is never idle.
async fn work_in_one_call(server: Server, instance: String, shared: Arc<Shared>) {
    while !shared.is_over() {
        let claim = claim_wait(claim_of(&instance, 1), Duration::from_millis(20));
        let mut held = server.namespace.claim(claim).await.expect("the claim is answered");
        while let Some(one) = held.pop() {
            let ends = fastrand::bool();
            let op = if ends { complete_op() } else { server.namespace.suspend(vec![wait()], vec![]) };
            let next = (!shared.is_over()).then(|| claim_of(&instance, 1));
            let reported = server.namespace.report(vec![Ok((fence(&one), None, op))], next).await;
            let (answers, next) = reported.expect("the report is answered");
            shared.happened(if ends { "completed" } else { "suspended" }, answers.iter().flatten().count());
            shared.happened("claimed with a report", next.len());
            held.extend(next);
        }
    }
}

/// Submits executions, so that enough of them are live.
async fn submit(server: Server, shared: Arc<Shared>) {
    while !shared.is_over() {
        let submitted = server.submit_many(vec![Draft::new("kind"); TOGETHER]).await;
        shared.executions.lock().expect("the mutex is not poisoned").extend(submitted);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Sends many signals at once, so that they share transactions with each other and with other calls.
async fn send(server: Server, shared: Arc<Shared>) {
    while !shared.is_over() {
        let to = Shared::some(&shared.executions, TOGETHER);
        let sent = to.into_iter().map(|id| {
            let (server, signal) = (server.clone(), ["red", "green", "blue"][fastrand::usize(..3)]);
            async move { server.send(id, signal).await }
        });
        let sent = futures_util::future::join_all(sent).await;
        shared.happened("signalled", sent.iter().filter(|answer| answer.is_ok()).count());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Delivers through many waitpoints at once.
async fn deliver(server: Server, shared: Arc<Shared>) {
    while !shared.is_over() {
        let through = Shared::some(&shared.waitpoints, TOGETHER);
        let delivered = through.iter().map(|waitpoint| server.deliver(waitpoint));
        let delivered = futures_util::future::join_all(delivered).await;
        let first = delivered.iter().flatten().filter(|delivered| !delivered.duplicate);
        shared.happened("delivered", first.count());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Cancels some executions and resumes some.
async fn operate(server: Server, shared: Arc<Shared>) {
    while !shared.is_over() {
        for (number, id) in Shared::some(&shared.executions, 8).into_iter().enumerate() {
            let (what, answer) = match number {
                0 => ("cancelled", server.cancel(id).await),
                _ => ("resumed", server.resume(id).await),
            };
            shared.happened(what, usize::from(answer.is_ok()));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Runs the reconcilers.
async fn tick(server: Server, shared: Arc<Shared>) {
    while !shared.is_over() {
        for reconciler in ["suspension_timeout", "delay_promoter", "waitpoint_expiry", "lease_expiry"] {
            let tally = server.tick(reconciler).await;
            assert_eq!((tally.errors, tally.panics), (0, 0), "{reconciler}: {tally:?}");
            shared.happened(reconciler, tally.done as usize);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Resumes and completes all remaining executions.
async fn finish(server: &Server, shared: &Shared) {
    let mut live = shared.executions.lock().expect("the mutex is not poisoned").clone();
    wait_until("everything has ended", async || {
        for one in server.claim("finisher", 100).await {
            server.complete(fence(&one)).await.expect("the lease is held");
        }
        let mut left = Vec::new();
        for id in std::mem::take(&mut live) {
            let state = server.state(id).await;
            if state == StateName::Suspended {
                server.resume(id).await.expect("the execution is suspended");
            }
            if state.outcome().is_none() {
                left.push(id);
            }
        }
        live = left;
        live.is_empty()
    })
    .await;
}

/// Returns the number of deadlocks that Postgres has broken, once all servers have disconnected.
async fn deadlocks(sandbox: &Sandbox) -> i64 {
    wait_until("the servers have disconnected", async || {
        let mut left = 0;
        for server in ["a", "b", "narrow"] {
            left += sandbox.connections(server).await;
        }
        left == 0
    })
    .await;
    sandbox.deadlocks().await
}

/// The report is saved from a cached row, after its claim has locked the executions that it takes.
#[tokio::test]
async fn signals_to_a_reported_and_to_a_claimed_execution_of_one_call_do_not_deadlock_with_it() {
    let race = Race::in_sandbox(Sandbox::with_own_database().await).await;
    let settings = Settings { writers: 1, readers: 1, ..patient(&race.sandbox) };
    let narrow = Server::new(race.sandbox.store_with("narrow", settings).await, passive_options()).await;
    let (reported, lease) = race.a.leased().await;
    let next = race.a.submit(Draft::new("kind")).await;
    let busy = BusyWriter::keep(&race, &narrow).await;
    race.plain.lock_execution(reported).await;
    // Both signals share one batch, which waits for the locked row before the report does.
    let signals = async { tokio::join!(narrow.send(reported, "go"), narrow.send(next, "go")) };
    let report = async {
        tokio::task::yield_now().await;
        busy.release().await;
        race.sandbox.waits_for_lock("narrow", 1).await;
        let completion = vec![Ok((lease, None, complete_op()))];
        let reported = race.a.namespace.report(completion, Some(claim_of("one", 1))).await;
        reported.expect("the report is answered")
    };
    let release = async {
        race.sandbox.waits_for_lock("a", 1).await;
        race.plain.release().await;
    };
    let ((first, second), (answers, claimed), ()) = tokio::join!(signals, report, release);
    first.and(second).expect("both executions are live");
    assert_eq!(answers[0].as_ref().expect("the lease is held").state, StateName::Completed);
    assert_eq!(ids(&claimed), [next]);
    assert_eq!((race.a.signals(reported).await.len(), race.a.signals(next).await.len()), (1, 1));
    check_invariants(&race.a).await;
    let Race { sandbox, stores, a, b, .. } = race;
    selvedge_system_tests::stop([&a.engine, &b.engine, &narrow.engine]).await;
    drop((stores, a, b, narrow));
    assert_eq!(deadlocks(&sandbox).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resuming_and_ending_suspended_executions_on_two_servers_never_deadlocks() {
    let sandbox = Sandbox::with_own_database().await;
    let options = Options { notifications: true, poll: Duration::from_millis(100), ..passive_options() };
    let settings = patient(&sandbox);
    let a = Server::new(sandbox.store_with("a", settings.clone()).await, options.clone()).await;
    let b = Server::new(sandbox.store_with("b", settings).await, options).await;
    let shared = Arc::new(Shared::default());
    let mut tasks = JoinSet::new();
    for (number, (here, there)) in [(&a, &b), (&b, &a)].into_iter().enumerate() {
        let (here, there, shared) = (|| here.clone(), || there.clone(), || shared.clone());
        tasks.spawn(submit(here(), shared()));
        for worker in 0..2 {
            tasks.spawn(work(here(), there(), format!("worker{number}{worker}"), shared()));
            tasks.spawn(work_in_one_call(here(), format!("busy{number}{worker}"), shared()));
        }
        for _ in 0..3 {
            tasks.spawn(send(here(), shared()));
        }
        tasks.spawn(deliver(here(), shared()));
        tasks.spawn(operate(here(), shared()));
        tasks.spawn(tick(here(), shared()));
    }
    tokio::time::sleep(PERIOD).await;
    shared.over.store(true, Ordering::SeqCst);
    tasks.join_all().await;
    finish(&a, &shared).await;
    check_invariants(&a).await;
    selvedge_system_tests::stop([&a.engine, &b.engine]).await;
    drop((a, b));
    let happened = shared.happened.lock().expect("the mutex is not poisoned").clone();
    println!("{happened:?}");
    assert_eq!(deadlocks(&sandbox).await, 0, "{happened:?}");
    for what in [
        "claimed",
        "recorded",
        "suspended",
        "completed",
        "signalled",
        "delivered",
        "cancelled",
        "resumed",
        "suspension_timeout",
        "delay_promoter",
        "waitpoint_expiry",
    ] {
        assert!(happened.get(what).is_some_and(|times| *times > 0), "{what} never happened: {happened:?}");
    }
}
