//! Everything at once: a limited lane, a quota, concurrency keys, a budget and fairness keys, flows among them, workers that
//! fail, put back, spawn and renew, and operators who meddle. No limit is ever passed, no two transactions wait for each
//! other, and everything ends.

mod support;

use selvedge_conformance::Sketch;
use selvedge_engine::Error;
use selvedge_engine::core::gate::{Config, GateKind, RequiredGates};
use selvedge_engine::core::policy::{Backoff, Retry};
use selvedge_engine::core::rules::claim::Claimed;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::{Draft, Execution, ExecutionId, Name, Policy};
use selvedge_engine::store::Store;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::admission::{CLAIMERS, Crowd, Passage, at_once, configure, hard, spend_some, tokens};
use support::flows::drawn;
use support::test_server::{TestServer, claim_of, claim_wait, complete_op, fail_op, fence, operator};
use tokio::task::JoinSet;

const LANE: u32 = 6;
const QUOTA: u32 = 3;
const KEY: u32 = 2;
const HARD: u32 = 300;
const RESERVE: u32 = 40;

/// Goes through some of the gates.
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

/// Submits, alone and as flows; gives those that are alone.
async fn submit(side: &TestServer) -> Vec<ExecutionId> {
    let mut ids = Vec::new();
    for _ in 0..12 {
        ids.extend(side.submit_many((0..20).map(|_| draft()).collect()).await);
        let shape = ["a b c -> d", "a -> b c; b c -> d: any_of", "a b"][fastrand::usize(..3)];
        side.flow_of(Sketch::from(shape).of_kind("kind").each(|one| one.required_gates = required_gates()).0)
            .await;
    }
    ids
}

/// What a worker does with what it has claimed. Somebody may have taken it away meanwhile.
async fn work(side: &TestServer, claimed: Claimed, instance: &str) {
    let lease = fence(&claimed);
    if claimed.execution.spec.required_gates.budgets.iter().any(|(budget, _)| budget.as_str() == "month") {
        spend_some(side.clone(), claimed.clone(), "month", RESERVE).await;
    }
    match fastrand::u8(..12) {
        0 => drop(side.report(lease, fail_op()).await),
        1 => drop(side.report(lease, Op::Release).await),
        2 => {
            side.heartbeat(instance, &[lease]).await;
            drop(side.complete(lease).await);
        }
        3 if claimed.execution.epoch == 1 && claimed.execution.spec.node.is_none() => {
            let spawn = side.namespace.spawn(drawn("child").graph, false).await.expect("it is valid");
            let _ = side.report(lease, spawn).await;
            drop(side.complete(lease).await);
        }
        _ => drop(side.report(lease, complete_op()).await),
    }
}

/// What operators do meanwhile, on any server.
async fn meddle(sides: &[TestServer], ids: &[ExecutionId], lane: &Config) {
    for turn in 0..150 {
        let side = &sides[turn % sides.len()];
        let action = match fastrand::u8(..8) {
            0 => Action::Cancel { reason: None, grace_ms: 0 },
            1 => Action::Revoke { reason: None },
            2..5 => Action::Tag { set: [("turn".to_owned(), turn.to_string())].into(), remove: vec![] },
            _ => Action::Prioritise { priority: fastrand::i64(0..3) },
        };
        let id = ids[fastrand::usize(..ids.len())];
        // It may have ended.
        if let Err(Error::Store(error)) = side.namespace.operate(id, action, None, &operator()).await {
            panic!("the action is answered: {error}");
        }
        if turn % 10 == 0 {
            let config = Config { weight: Some(1 + turn as u32 % 3), ..lane.clone() };
            configure(side, GateKind::Lane, "default", config).await;
        }
    }
}

/// All executions.
async fn rows(
    store: &Arc<dyn Store>,
    ids: impl Iterator<Item = ExecutionId>,
) -> BTreeMap<ExecutionId, Execution> {
    let ids: Vec<ExecutionId> = ids.collect();
    let fetched = store.fetch(&ids).await.expect("they are read");
    fetched.into_iter().map(|stored| (stored.execution.id, stored.execution)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_storm_no_limit_is_passed_nobody_waits_in_a_circle_and_everything_ends() {
    storm(at_once(LANE)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_storm_in_a_lane_without_a_limit_no_other_is_passed_nobody_waits_in_a_circle_and_everything_ends()
 {
    storm(Config::default()).await;
}

async fn storm(lane: Config) {
    let crowd = Crowd::gather().await;
    configure(crowd.first(), GateKind::Lane, "default", lane.clone()).await;
    configure(crowd.first(), GateKind::Quota, "few", at_once(QUOTA)).await;
    let month = Config { period_ms: Some(300), ..hard(HARD) };
    configure(crowd.first(), GateKind::Budget, "month", month).await;
    let ids = submit(crowd.first()).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut workers = JoinSet::new();
    for number in 0..CLAIMERS {
        let (side, over) = (crowd.sides[number % 4].clone(), over.clone());
        workers.spawn(async move {
            let instance = format!("worker{number}");
            while !over.load(Ordering::SeqCst) {
                let claim = claim_wait(claim_of(&instance, fastrand::u32(1..4)), Duration::from_millis(200));
                for one in side.namespace.claim(claim).await.expect("the claim is answered") {
                    work(&side, one, &instance).await;
                }
            }
        });
    }
    meddle(&crowd.sides, &ids, &lane).await;
    let plain = crowd.plain().await;
    crowd.all_have_ended().await;
    over.store(true, Ordering::SeqCst);
    while let Some(ended) = workers.join_next().await {
        ended.expect("a worker does not panic");
    }
    let log = crowd.log().await;
    let all = rows(crowd.store(), log.iter().filter_map(|event| event.execution)).await;
    let required_gates = |id: &ExecutionId| &all[id].spec.required_gates;
    let most = lane.concurrency.map_or(usize::MAX, |most| most as usize);
    assert!(Passage::replay(&log, |_| true, 0).most_active() <= most, "the lane");
    let few = Passage::replay(&log, |id| !required_gates(&id).quotas.is_empty(), 0);
    assert!(few.most_active() <= QUOTA as usize, "the quota");
    for key in ["a", "b", "c"] {
        let of_key =
            |id| required_gates(&id).concurrency.as_ref().is_some_and(|(name, _)| name.as_str() == key);
        let passage = Passage::replay(&log, of_key, 0);
        assert!(passage.most_active() <= KEY as usize, "the key {key}");
    }
    let month = Passage::replay(&log, |id| !required_gates(&id).budgets.is_empty(), RESERVE);
    for (used, reserved) in &month.spent_at_claims {
        assert!(used + reserved <= u64::from(HARD), "{used} used and {reserved} reserved");
    }
    let taken = "select coalesce(sum(active), 0) from gates";
    assert_eq!(plain.number(taken, &[]).await, 0, "all slots are given back");
    println!("{} executions, {} held, {} begun again", all.len(), few.held, crowd.part().await);
}
