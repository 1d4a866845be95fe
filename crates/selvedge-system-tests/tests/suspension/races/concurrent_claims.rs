//! Many at once: claims that wait for executions that signals resume, and servers that start together.

use super::{Block, Race};
use selvedge_engine::core::rules::waitpoint::WaitpointDraft;
use selvedge_engine::core::signal::Effect;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, ExecutionId};
use selvedge_engine::{ClaimWait, Engine, Options};
use selvedge_system_tests::flows::check_and_stop;
use selvedge_system_tests::server::{Server, claim_of, claim_wait, fence, passive_options};
use selvedge_system_tests::suspensions::{for_signal, for_signals, name};
use selvedge_system_tests::{Sandbox, wait_until};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

const EXECUTIONS: usize = 100;
const CLAIMERS: usize = 16;
const SIGNALS: [&str; 3] = ["one", "two", "three"];

/// Submits executions and suspends them, through both servers.
async fn suspended(a: &Server, b: &Server) -> Vec<ExecutionId> {
    let submitted = a.submit_many(vec![Draft::new("kind"); EXECUTIONS]).await;
    let mut suspending = JoinSet::new();
    for (number, claimed) in a.claim("first", EXECUTIONS as u32).await.iter().enumerate() {
        let (server, lease) = (if number % 2 == 0 { a.clone() } else { b.clone() }, fence(claimed));
        suspending.spawn(async move { server.suspend(lease, for_signals(&SIGNALS)).await });
    }
    for reported in suspending.join_all().await {
        assert_eq!(reported.expect("the lease is held").state, StateName::Suspended);
    }
    submitted
}

/// Sends all signals to all executions, each signal in a task and an order of its own.
fn send_all(servers: [&Server; 2], executions: &[ExecutionId]) -> JoinSet<BTreeMap<Word, usize>> {
    let mut senders = JoinSet::new();
    for (number, signal) in SIGNALS.into_iter().enumerate() {
        let (server, mut to) = (servers[number % 2].clone(), executions.to_vec());
        fastrand::shuffle(&mut to);
        senders.spawn(async move {
            let mut effects = BTreeMap::new();
            for ids in to.chunks(10) {
                let sent = ids.iter().map(|id| server.send(*id, signal));
                for delivered in futures_util::future::join_all(sent).await {
                    let effect = delivered.expect("the execution is live").effect;
                    *effects.entry(effect.as_str()).or_default() += 1;
                }
            }
            effects
        });
    }
    senders
}

/// The name of an effect.
type Word = &'static str;

/// Claims executions, checks the signals that each claim carries, and completes, until all were claimed. Returns the
/// claimed executions.
async fn work(server: Server, instance: String, left: Arc<AtomicUsize>) -> Vec<ExecutionId> {
    let mut mine = Vec::new();
    while left.load(Ordering::SeqCst) > 0 {
        let claim = claim_wait(claim_of(&instance, 3), Duration::from_millis(50));
        let claimed = server.namespace.claim(claim).await.expect("the claim is answered");
        left.fetch_sub(claimed.len(), Ordering::SeqCst);
        for one in &claimed {
            let signals: BTreeSet<&str> = one.signals.iter().map(|signal| signal.name.as_str()).collect();
            assert_eq!((one.signals.len(), signals), (3, BTreeSet::from(SIGNALS)));
            assert!(one.signals.iter().all(|signal| signal.payload.is_some()));
            assert_eq!(fence(one).epoch, 2, "one claim before and one after the suspension");
            server.complete(fence(one)).await.expect("the lease is held");
            mine.push(one.execution.id);
        }
    }
    mine
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executions_resumed_by_three_signals_are_claimed_once_by_sixteen_claimers_with_all_three_signals() {
    let sandbox = Sandbox::new();
    let options = Options { notifications: true, ..passive_options() };
    let a = sandbox.server_with("a", options.clone()).await;
    let b = sandbox.server_with("b", options).await;
    let executions = suspended(&a, &b).await;
    let left = Arc::new(AtomicUsize::new(EXECUTIONS));
    let mut claimers = JoinSet::new();
    for number in 0..CLAIMERS {
        let server = if number % 2 == 0 { a.clone() } else { b.clone() };
        claimers.spawn(work(server, format!("claimer{number}"), left.clone()));
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
    check_and_stop(&[&a, &b]).await;
}

/// Without notifications, the next search of a claim finds an execution that another server has resumed.
#[tokio::test]
async fn a_claim_that_searches_while_a_signal_commits_finds_the_resumed_execution_when_it_searches_again() {
    let race = Race::new().await;
    let id = race.a.suspended(for_signal("go")).await;
    let claim = || ClaimWait { claim: claim_of("two", 1), wait: Duration::ZERO, call_key: None };
    let search = async { race.b.namespace.claim(claim()).await.expect("the claim is answered").len() };
    let (signal, found) = race.meanwhile(Block::Commits, ("a", race.a.send(id, "go")), search).await;
    assert_eq!((signal.expect("the execution is live").effect, found), (Effect::Resumed, 0));
    race.resumes(id, &["go"]).await;
    race.check_and_stop().await;
}

#[tokio::test]
async fn servers_that_start_at_once_on_an_empty_store_sign_with_one_secret() {
    let sandbox = Sandbox::new();
    let stores = [sandbox.store("a").await, sandbox.store("b").await];
    let plain = sandbox.plain().await;
    // Another transaction is about to store a secret, and rolls back.
    plain.run("begin; insert into kept_secret (secret) values ('never')").await;
    let [one, two] = stores.map(|store| Engine::start(store, passive_options()));
    let release = async {
        for server in ["a", "b"] {
            sandbox.waits_for_lock(server, 1).await;
        }
        plain.release().await;
    };
    let (one, two, ()) = tokio::join!(one, two, release);
    let mut servers = Vec::new();
    for engine in [one, two] {
        let engine = engine.expect("the engine starts");
        let namespace = engine.namespace("default").await.expect("the namespace exists");
        servers.push(Server { engine, namespace });
    }
    let (a, b) = (&servers[0], &servers[1]);
    assert_eq!(plain.number("select count(*) from kept_secret where secret <> 'never'", &[]).await, 1);
    let waitpoint = a.suspended_at(WaitpointDraft::new(name("approval"))).await;
    assert_eq!(a.namespace.token(&waitpoint), b.namespace.token(&waitpoint));
    assert_eq!(b.deliver(&waitpoint).await.expect("the key is valid").effect, Effect::Resumed);
    let late = sandbox.server("late").await;
    assert!(late.deliver(&waitpoint).await.expect("a repetition is accepted").duplicate);
    wait_until("the execution is waiting", async || {
        late.state(waitpoint.execution).await == StateName::Waiting
    })
    .await;
    check_and_stop(&[a, b, &late]).await;
}
