//! All kinds of gates at once: a limited lane, a quota, concurrency keys, a budget and fairness keys, with flows,
//! workers that fail, release, spawn and renew, and operators. No limit is exceeded, no transactions deadlock, and all
//! executions end.

use selvedge_conformance::Sketch;
use selvedge_engine::Error;
use selvedge_engine::core::filter::Payloads;
use selvedge_engine::core::gate::{Config, GateKind, RequiredGates};
use selvedge_engine::core::policy::{Backoff, Retry};
use selvedge_engine::core::rules::claim::Claimed;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::{Draft, Execution, ExecutionId, Name, Policy};
use selvedge_engine::store::Store;
use selvedge_system_tests::flows::flow_draft;
use selvedge_system_tests::gate_load::{
    CLAIMERS, Fleet, GateReplay, concurrency_limit, configure, hard_limit, spend_some, tokens,
};
use selvedge_system_tests::server::{Server, claim_of, claim_wait, complete_op, fail_op, fence, operator};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

const LANE: u32 = 6;
const QUOTA: u32 = 3;
const KEY: u32 = 2;
const HARD: u32 = 300;
const RESERVE: u32 = 40;

/// Returns references to a random selection of gates.
fn required_gates() -> RequiredGates {
    let mut required_gates = RequiredGates::default();
    if fastrand::u8(..3) == 0 {
        required_gates.quotas = vec![Name::trusted("few")];
    }
    if fastrand::u8(..3) == 0 {
        required_gates.concurrency = Some((Name::trusted(["a", "b", "c"][fastrand::usize(..3)]), KEY));
    }
    if fastrand::u8(..3) == 0 {
        required_gates.budgets = vec![(Name::trusted("month"), tokens(RESERVE))];
    }
    if fastrand::u8(..3) == 0 {
        required_gates.fairness_key = Some(Name::trusted(["x", "y"][fastrand::usize(..2)]));
    }
    required_gates
}

fn draft() -> Draft {
    let retry = Retry { backoff: Backoff::Fixed { delay_ms: 1 }, ..Retry::default() };
    let policy = Policy { retry, ..Policy::default() };
    Draft { required_gates: required_gates(), policy, priority: fastrand::i64(0..3), ..Draft::new("kind") }
}

/// Submits single executions and flows. Returns the single executions.
async fn submit(server: &Server) -> Vec<ExecutionId> {
    let mut ids = Vec::new();
    for _ in 0..12 {
        ids.extend(server.submit_many((0..20).map(|_| draft()).collect()).await);
        let shape = ["a b c -> d", "a -> b c; b c -> d: any_of", "a b"][fastrand::usize(..3)];
        server
            .flow_of(Sketch::from(shape).of_kind("kind").each(|one| one.required_gates = required_gates()).0)
            .await;
    }
    ids
}

/// Processes a claimed execution as a worker. Its lease may have been lost meanwhile, so refusals are ignored.
async fn work(server: &Server, claimed: Claimed, instance: &str) {
    let lease = fence(&claimed);
    if claimed.execution.spec.required_gates.budgets.iter().any(|(budget, _)| budget.as_str() == "month") {
        spend_some(server.clone(), claimed.clone(), "month", RESERVE).await;
    }
    match fastrand::u8(..12) {
        0 => drop(server.report(lease, fail_op()).await),
        1 => drop(server.report(lease, Op::Release).await),
        2 => {
            server.heartbeat(instance, &[lease]).await;
            drop(server.complete(lease).await);
        }
        3 if claimed.execution.epoch == 1 && claimed.execution.spec.node.is_none() => {
            let spawn =
                server.namespace.spawn(flow_draft("child").graph, false).await.expect("the graph is valid");
            let _ = server.report(lease, spawn).await;
            drop(server.complete(lease).await);
        }
        _ => drop(server.report(lease, complete_op()).await),
    }
}

/// Runs random actions of operators on all servers.
async fn operate_at_random(servers: &[Server], ids: &[ExecutionId], lane: &Config) {
    for turn in 0..150 {
        let server = &servers[turn % servers.len()];
        let action = match fastrand::u8(..8) {
            0 => Action::Cancel { reason: None, grace_ms: 0 },
            1 => Action::Revoke { reason: None },
            2..5 => Action::Tag { set: [("turn".to_owned(), turn.to_string())].into(), remove: vec![] },
            _ => Action::Prioritise { priority: fastrand::i64(0..3) },
        };
        let id = ids[fastrand::usize(..ids.len())];
        // The execution may have ended, so refusals are ignored.
        if let Err(Error::Store(error)) = server.namespace.operate(id, action, None, &operator()).await {
            panic!("the action is answered: {error}");
        }
        if turn % 10 == 0 {
            let config = Config { weight: Some(1 + turn as u32 % 3), ..lane.clone() };
            configure(server, GateKind::Lane, "default", config).await;
        }
    }
}

/// Reads executions by id.
async fn rows(
    store: &Arc<dyn Store>,
    ids: impl Iterator<Item = ExecutionId>,
) -> BTreeMap<ExecutionId, Execution> {
    let ids: Vec<ExecutionId> = ids.collect();
    let fetched = store.fetch(&ids, Payloads::NONE).await.expect("the read succeeds");
    fetched.into_iter().map(|stored| (stored.execution.id, stored.execution)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn under_mixed_load_no_limit_is_exceeded_nothing_deadlocks_and_everything_ends() {
    run_mixed_load(concurrency_limit(LANE)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn under_mixed_load_in_an_unlimited_lane_no_limit_is_exceeded_nothing_deadlocks_and_everything_ends() {
    run_mixed_load(Config::default()).await;
}

async fn run_mixed_load(lane: Config) {
    let fleet = Fleet::start().await;
    configure(fleet.first(), GateKind::Lane, "default", lane.clone()).await;
    configure(fleet.first(), GateKind::Quota, "few", concurrency_limit(QUOTA)).await;
    let month = Config { period_ms: Some(300), ..hard_limit(HARD) };
    configure(fleet.first(), GateKind::Budget, "month", month).await;
    let ids = submit(fleet.first()).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut workers = JoinSet::new();
    for number in 0..CLAIMERS {
        let (server, over) = (fleet.servers[number % 4].clone(), over.clone());
        workers.spawn(async move {
            let instance = format!("worker{number}");
            while !over.load(Ordering::SeqCst) {
                let claim = claim_wait(claim_of(&instance, fastrand::u32(1..4)), Duration::from_millis(200));
                for one in server.namespace.claim(claim).await.expect("the claim is answered") {
                    work(&server, one, &instance).await;
                }
            }
        });
    }
    operate_at_random(&fleet.servers, &ids, &lane).await;
    let plain = fleet.plain().await;
    fleet.all_have_ended().await;
    over.store(true, Ordering::SeqCst);
    while let Some(ended) = workers.join_next().await {
        ended.expect("a worker does not panic");
    }
    let log = fleet.log().await;
    let all = rows(fleet.store(), log.iter().filter_map(|event| event.execution)).await;
    let required_gates = |id: &ExecutionId| &all[id].spec.required_gates;
    let most = lane.concurrency.map_or(usize::MAX, |most| most as usize);
    assert!(GateReplay::replay(&log, |_| true, 0).most_active() <= most, "the lane");
    let few = GateReplay::replay(&log, |id| !required_gates(&id).quotas.is_empty(), 0);
    assert!(few.most_active() <= QUOTA as usize, "the quota");
    for key in ["a", "b", "c"] {
        let of_key =
            |id| required_gates(&id).concurrency.as_ref().is_some_and(|(name, _)| name.as_str() == key);
        let replay = GateReplay::replay(&log, of_key, 0);
        assert!(replay.most_active() <= KEY as usize, "the key {key}");
    }
    let month = GateReplay::replay(&log, |id| !required_gates(&id).budgets.is_empty(), RESERVE);
    for (used, reserved) in &month.spent_at_claims {
        assert!(used + reserved <= u64::from(HARD), "{used} used and {reserved} reserved");
    }
    let taken = "select coalesce(sum(active), 0) from gates";
    assert_eq!(plain.number(taken, &[]).await, 0, "all slots are given back");
    println!("{} executions, {} held, {} retries", all.len(), few.held, fleet.check_and_stop().await);
}
