//! Everybody at once for two seconds: workers that record, suspend and complete, senders, holders of tokens, operators that
//! cancel and resume, and everything that goes by time. No transaction waits for another in a circle.

use super::support::flows::holds;
use super::support::suspensions::{brief_waitpoint, name, on, step};
use super::support::test_server::{
    TestServer, claim_of, claim_wait, complete_op, fence, ids, passive_options,
};
use super::support::{self, Sandbox, until};
use super::{Busy, Race, patient};
use selvedge_engine::Options;
use selvedge_engine::core::rules::claim::Claimed;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::suspension::{Condition, OnTimeout, WaitDraft};
use selvedge_engine::core::{Draft, ExecutionId, Waitpoint};
use selvedge_postgres::Settings;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;

const PERIOD: Duration = Duration::from_secs(2);
/// How many executions they quarrel about.
const LIVE: usize = 60;
/// How many of them one call is about.
const TOGETHER: usize = 12;

/// What everybody shares.
#[derive(Default)]
struct Crowd {
    executions: Mutex<Vec<ExecutionId>>,
    waitpoints: Mutex<Vec<Waitpoint>>,
    happened: Mutex<BTreeMap<&'static str, usize>>,
    over: AtomicBool,
}

impl Crowd {
    fn happened(&self, what: &'static str, times: usize) {
        *self.happened.lock().expect("nobody panics with it").entry(what).or_default() += times;
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Some of those that were submitted last.
    fn some<T: Clone>(of: &Mutex<Vec<T>>, count: usize) -> Vec<T> {
        let of = of.lock().expect("nobody panics with it");
        let from = of.len().saturating_sub(LIVE);
        let one = |_| of.get(fastrand::usize(from..of.len())).cloned();
        if of.is_empty() { Vec::new() } else { (0..count).filter_map(one).collect() }
    }
}

/// What an attempt waits for.
fn wait() -> WaitDraft {
    let go = ["red", "green", "blue"][fastrand::usize(..3)];
    let condition = match fastrand::usize(..4) {
        0 => on(go).condition,
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

/// One attempt: a step, and then it suspends or is done. Its lease may be over by then.
async fn attempt(side: TestServer, claimed: Claimed, crowd: Arc<Crowd>) {
    let lease = fence(&claimed);
    if fastrand::bool() {
        let recorded = side.report(lease, step(&format!("step{}", lease.attempt), "1")).await;
        crowd.happened("recorded", usize::from(recorded.is_ok()));
    }
    if lease.attempt > 2 {
        let completed = side.complete(lease).await;
        crowd.happened("completed", usize::from(completed.is_ok()));
        return;
    }
    let waitpoints = if fastrand::bool() { vec![brief_waitpoint("green", 150)] } else { vec![] };
    let suspended = side.report(lease, side.namespace.suspend(vec![wait()], waitpoints)).await;
    crowd.happened("suspended", usize::from(suspended.is_ok()));
    if let Ok(mut suspended) = suspended {
        crowd.waitpoints.lock().expect("nobody panics with it").append(&mut suspended.waitpoints);
    }
}

/// Claims, and lets the attempts run side by side. Each second reports through the other server.
async fn work(here: TestServer, there: TestServer, instance: String, crowd: Arc<Crowd>) {
    while !crowd.is_over() {
        let claim = claim_wait(claim_of(&instance, 6), Duration::from_millis(20));
        let claimed = here.namespace.claim(claim).await.expect("the claim is answered");
        crowd.happened("claimed", claimed.len());
        let mut attempts = JoinSet::new();
        for (number, one) in claimed.into_iter().enumerate() {
            let side = if number % 2 == 0 { here.clone() } else { there.clone() };
            attempts.spawn(attempt(side, one, crowd.clone()));
        }
        attempts.join_all().await;
    }
}

/// Reports, and claims the next in the same call, as a worker does that is never idle.
async fn work_in_one_call(side: TestServer, instance: String, crowd: Arc<Crowd>) {
    while !crowd.is_over() {
        let claim = claim_wait(claim_of(&instance, 1), Duration::from_millis(20));
        let mut held = side.namespace.claim(claim).await.expect("the claim is answered");
        while let Some(one) = held.pop() {
            let ends = fastrand::bool();
            let op = if ends { complete_op() } else { side.namespace.suspend(vec![wait()], vec![]) };
            let next = (!crowd.is_over()).then(|| claim_of(&instance, 1));
            let reported = side.namespace.report(vec![Ok((fence(&one), None, op))], next).await;
            let (answers, next) = reported.expect("the report is answered");
            crowd.happened(if ends { "completed" } else { "suspended" }, answers.iter().flatten().count());
            crowd.happened("claimed with a report", next.len());
            held.extend(next);
        }
    }
}

/// Keeps enough of them live.
async fn submit(side: TestServer, crowd: Arc<Crowd>) {
    while !crowd.is_over() {
        let submitted = side.submit_many(vec![Draft::new("kind"); TOGETHER]).await;
        crowd.executions.lock().expect("nobody panics with it").extend(submitted);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Sends many signals at once, so that they share transactions with each other and with everything else.
async fn send(side: TestServer, crowd: Arc<Crowd>) {
    while !crowd.is_over() {
        let to = Crowd::some(&crowd.executions, TOGETHER);
        let sent = to.into_iter().map(|id| {
            let (side, signal) = (side.clone(), ["red", "green", "blue"][fastrand::usize(..3)]);
            async move { side.send(id, signal).await }
        });
        let sent = futures_util::future::join_all(sent).await;
        crowd.happened("signalled", sent.iter().filter(|answer| answer.is_ok()).count());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The same by token.
async fn deliver(side: TestServer, crowd: Arc<Crowd>) {
    while !crowd.is_over() {
        let through = Crowd::some(&crowd.waitpoints, TOGETHER);
        let delivered = through.iter().map(|waitpoint| side.deliver(waitpoint));
        let delivered = futures_util::future::join_all(delivered).await;
        let first = delivered.iter().flatten().filter(|delivered| !delivered.duplicate);
        crowd.happened("delivered", first.count());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Cancels some and lets some go on.
async fn operate(side: TestServer, crowd: Arc<Crowd>) {
    while !crowd.is_over() {
        for (number, id) in Crowd::some(&crowd.executions, 8).into_iter().enumerate() {
            let (what, answer) = match number {
                0 => ("cancelled", side.cancel(id).await),
                _ => ("resumed", side.resume(id).await),
            };
            crowd.happened(what, usize::from(answer.is_ok()));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What goes by time.
async fn tick(side: TestServer, crowd: Arc<Crowd>) {
    while !crowd.is_over() {
        for reconciler in ["suspension_timeout", "delay_promoter", "waitpoint_expiry", "lease_expiry"] {
            let tally = side.tick(reconciler).await;
            assert_eq!((tally.errors, tally.panics), (0, 0), "{reconciler}: {tally:?}");
            crowd.happened(reconciler, tally.done as usize);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Everything that is left goes on and completes.
async fn finish(side: &TestServer, crowd: &Crowd) {
    let mut live = crowd.executions.lock().expect("nobody panics with it").clone();
    until("everything has ended", async || {
        for one in side.claim("finisher", 100).await {
            side.complete(fence(&one)).await.expect("it holds the lease");
        }
        let mut left = Vec::new();
        for id in std::mem::take(&mut live) {
            let state = side.state(id).await;
            if state == StateName::Suspended {
                side.resume(id).await.expect("it is suspended");
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

/// How often Postgres found transactions that waited for each other, once all servers have left.
async fn circles(sandbox: &Sandbox) -> i64 {
    until("the servers have left", async || {
        let mut left = 0;
        for server in ["a", "b", "narrow"] {
            left += sandbox.connections(server).await;
        }
        left == 0
    })
    .await;
    sandbox.deadlocks().await
}

/// The report is saved from memory, after its claim has locked what it takes.
#[tokio::test]
async fn signals_to_what_is_reported_and_to_what_is_claimed_by_one_call_do_not_wait_for_it_in_a_circle() {
    let race = Race::on(Sandbox::alone().await).await;
    let settings = Settings { writers: 1, readers: 1, ..patient(&race.sandbox) };
    let narrow = TestServer::new(race.sandbox.store_with("narrow", settings).await, passive_options()).await;
    let (reported, lease) = race.a.leased().await;
    let next = race.a.submit(Draft::new("kind")).await;
    let busy = Busy::keep(&race, &narrow).await;
    race.plain.hold(reported).await;
    // Both signals go in one batch, which comes to the row that is held before the report does.
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
    first.and(second).expect("both are live");
    assert_eq!(answers[0].as_ref().expect("it holds the lease").state, StateName::Completed);
    assert_eq!(ids(&claimed), [next]);
    assert_eq!((race.a.signals(reported).await.len(), race.a.signals(next).await.len()), (1, 1));
    holds(&race.a).await;
    let Race { sandbox, stores, a, b, .. } = race;
    support::stop([&a.engine, &b.engine, &narrow.engine]).await;
    drop((stores, a, b, narrow));
    assert_eq!(circles(&sandbox).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_wakes_and_ends_what_waits_on_two_servers_never_waits_in_a_circle() {
    let sandbox = Sandbox::alone().await;
    let options = Options { notifications: true, poll: Duration::from_millis(100), ..passive_options() };
    let settings = patient(&sandbox);
    let a = TestServer::new(sandbox.store_with("a", settings.clone()).await, options.clone()).await;
    let b = TestServer::new(sandbox.store_with("b", settings).await, options).await;
    let crowd = Arc::new(Crowd::default());
    let mut everybody = JoinSet::new();
    for (number, (here, there)) in [(&a, &b), (&b, &a)].into_iter().enumerate() {
        let (here, there, crowd) = (|| here.clone(), || there.clone(), || crowd.clone());
        everybody.spawn(submit(here(), crowd()));
        for worker in 0..2 {
            everybody.spawn(work(here(), there(), format!("worker{number}{worker}"), crowd()));
            everybody.spawn(work_in_one_call(here(), format!("busy{number}{worker}"), crowd()));
        }
        for _ in 0..3 {
            everybody.spawn(send(here(), crowd()));
        }
        everybody.spawn(deliver(here(), crowd()));
        everybody.spawn(operate(here(), crowd()));
        everybody.spawn(tick(here(), crowd()));
    }
    tokio::time::sleep(PERIOD).await;
    crowd.over.store(true, Ordering::SeqCst);
    everybody.join_all().await;
    finish(&a, &crowd).await;
    holds(&a).await;
    support::stop([&a.engine, &b.engine]).await;
    drop((a, b));
    let happened = crowd.happened.lock().expect("nobody panics with it").clone();
    println!("{happened:?}");
    assert_eq!(circles(&sandbox).await, 0, "{happened:?}");
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
