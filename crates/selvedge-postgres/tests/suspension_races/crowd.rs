//! Many at once: claimers that wait for what signals resume, and servers that start together.

use super::support::flows::end;
use super::support::suspensions::{name, on, on_all};
use super::support::test_server::{TestServer, claim_of, claim_wait, fence, passive_options};
use super::support::{Sandbox, until};
use super::{Hold, Race};
use selvedge_engine::core::rules::waitpoint::WaitpointDraft;
use selvedge_engine::core::signal::Effect;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, ExecutionId};
use selvedge_engine::{ClaimWait, Engine, Options};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

const EXECUTIONS: usize = 100;
const CLAIMERS: usize = 16;
const SIGNALS: [&str; 3] = ["one", "two", "three"];

/// Submits so many and suspends them, through both servers.
async fn suspended(a: &TestServer, b: &TestServer) -> Vec<ExecutionId> {
    let submitted = a.submit_many(vec![Draft::new("kind"); EXECUTIONS]).await;
    let mut suspending = JoinSet::new();
    for (number, claimed) in a.claim("first", EXECUTIONS as u32).await.iter().enumerate() {
        let (side, lease) = (if number % 2 == 0 { a.clone() } else { b.clone() }, fence(claimed));
        suspending.spawn(async move { side.suspend(lease, on_all(&SIGNALS)).await });
    }
    for reported in suspending.join_all().await {
        assert_eq!(reported.expect("it holds the lease").state, StateName::Suspended);
    }
    submitted
}

/// Sends every execution every signal, each signal through its own task, in an order of its own.
fn send_all(sides: [&TestServer; 2], executions: &[ExecutionId]) -> JoinSet<BTreeMap<Word, usize>> {
    let mut senders = JoinSet::new();
    for (number, signal) in SIGNALS.into_iter().enumerate() {
        let (side, mut to) = (sides[number % 2].clone(), executions.to_vec());
        fastrand::shuffle(&mut to);
        senders.spawn(async move {
            let mut effects = BTreeMap::new();
            for ids in to.chunks(10) {
                let sent = ids.iter().map(|id| side.send(*id, signal));
                for delivered in futures_util::future::join_all(sent).await {
                    let effect = delivered.expect("it is live").effect;
                    *effects.entry(effect.as_str()).or_default() += 1;
                }
            }
            effects
        });
    }
    senders
}

/// The word for what a delivery did.
type Word = &'static str;

/// Claims, checks what each claim carries, and completes, until everything was claimed. Gives what it was given.
async fn work(side: TestServer, instance: String, left: Arc<AtomicUsize>) -> Vec<ExecutionId> {
    let mut mine = Vec::new();
    while left.load(Ordering::SeqCst) > 0 {
        let claim = claim_wait(claim_of(&instance, 3), Duration::from_millis(50));
        let claimed = side.namespace.claim(claim).await.expect("the claim is answered");
        left.fetch_sub(claimed.len(), Ordering::SeqCst);
        for one in &claimed {
            let signals: BTreeSet<&str> = one.signals.iter().map(|signal| signal.name.as_str()).collect();
            assert_eq!((one.signals.len(), signals), (3, BTreeSet::from(SIGNALS)));
            assert!(one.signals.iter().all(|signal| signal.payload.is_some()));
            assert_eq!(fence(one).epoch, 2, "it is claimed once after its suspension");
            side.complete(fence(one)).await.expect("it holds the lease");
            mine.push(one.execution.id);
        }
    }
    mine
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_three_signals_resume_is_claimed_once_by_sixteen_claimers_and_each_claim_carries_all_three() {
    let sandbox = Sandbox::new();
    let options = Options { notifications: true, ..passive_options() };
    let a = sandbox.side_with("a", options.clone()).await;
    let b = sandbox.side_with("b", options).await;
    let executions = suspended(&a, &b).await;
    let left = Arc::new(AtomicUsize::new(EXECUTIONS));
    let mut claimers = JoinSet::new();
    for number in 0..CLAIMERS {
        let side = if number % 2 == 0 { a.clone() } else { b.clone() };
        claimers.spawn(work(side, format!("claimer{number}"), left.clone()));
    }
    let mut effects: BTreeMap<&str, usize> = BTreeMap::new();
    for sent in send_all([&a, &b], &executions).join_all().await {
        sent.into_iter().for_each(|(effect, count)| *effects.entry(effect).or_default() += count);
    }
    let expected = [(Effect::Counted.as_str(), 2 * EXECUTIONS), (Effect::Resumed.as_str(), EXECUTIONS)];
    assert_eq!(effects, BTreeMap::from(expected));
    let claimed: Vec<ExecutionId> = claimers.join_all().await.into_iter().flatten().collect();
    assert_eq!(claimed.len(), EXECUTIONS);
    assert_eq!(BTreeSet::from_iter(claimed), BTreeSet::from_iter(executions.clone()));
    for id in executions {
        let resumed = a.events(id).await.into_iter().filter(|kind| *kind == "execution.resumed");
        assert_eq!((a.state(id).await, resumed.count()), (StateName::Completed, 1));
    }
    end(&[&a, &b]).await;
}

/// A claim that waits at one server is woken by a signal that another server takes in, also where no news is told: its next
/// look at the store finds it.
#[tokio::test]
async fn a_claim_that_looks_while_a_signal_commits_finds_what_it_resumed_when_it_looks_again() {
    let race = Race::new().await;
    let id = race.a.suspended(on("go")).await;
    let claim = || ClaimWait { claim: claim_of("two", 1), wait: Duration::ZERO, call_key: None };
    let looks = async { race.b.namespace.claim(claim()).await.expect("the claim is answered").len() };
    let (signal, found) = race.meanwhile(Hold::Log, ("a", race.a.send(id, "go")), looks).await;
    assert_eq!((signal.expect("it is live").effect, found), (Effect::Resumed, 0));
    race.goes_on(id, &["go"]).await;
    race.end().await;
}

#[tokio::test]
async fn servers_that_start_at_once_on_an_empty_store_sign_under_one_secret() {
    let sandbox = Sandbox::new();
    let stores = [sandbox.store("a").await, sandbox.store("b").await];
    let plain = sandbox.plain().await;
    // Somebody else is about to keep one, and does not.
    plain.run("begin; insert into kept_secret (secret) values ('never')").await;
    let [one, two] = stores.map(|store| Engine::start(store, passive_options()));
    let release = async {
        for server in ["a", "b"] {
            sandbox.waits_for_lock(server, 1).await;
        }
        plain.release().await;
    };
    let (one, two, ()) = tokio::join!(one, two, release);
    let mut sides = Vec::new();
    for engine in [one, two] {
        let engine = engine.expect("the engine starts");
        let namespace = engine.namespace("default").await.expect("the namespace is there");
        sides.push(TestServer { engine, namespace });
    }
    let (a, b) = (&sides[0], &sides[1]);
    assert_eq!(plain.number("select count(*) from kept_secret where secret <> 'never'", &[]).await, 1);
    let waitpoint = a.suspended_at(WaitpointDraft::new(name("approval"))).await;
    assert_eq!(a.namespace.token(&waitpoint), b.namespace.token(&waitpoint));
    assert_eq!(b.deliver(&waitpoint).await.expect("its key is valid").effect, Effect::Resumed);
    let late = sandbox.side("late").await;
    assert!(late.deliver(&waitpoint).await.expect("it is the same").duplicate);
    until("it is ready", async || late.state(waitpoint.execution).await == StateName::Waiting).await;
    end(&[a, b, &late]).await;
}
