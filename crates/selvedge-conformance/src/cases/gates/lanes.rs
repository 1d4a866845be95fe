//! Lanes: a paused or full lane admits nothing and changes no row, and claims never exceed a limit.

use crate::harness::concurrently;
use crate::harness::gates::{concurrency, ids, rate};
use crate::harness::runner::RulePair;
use crate::harness::worker::Worker;
use crate::harness::{Harness, fence};
use selvedge_core::gate::{Adoption, Config, LaneState};
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::gates::adopt::Adopt;
use selvedge_core::rules::gates::configure::{Configure, Setting};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use selvedge_core::{Draft, Execution, ExecutionId, Fact, Name};
use std::collections::BTreeSet;

/// Submits `count` executions to a lane.
async fn submit_to(harness: &Harness, lane: &str, count: usize) -> Vec<ExecutionId> {
    let drafts = vec![Draft { lane: lane.into(), ..Draft::new("kind") }; count];
    harness.submit_all(drafts).await.into_iter().map(|row| row.id).collect()
}

fn state(state: LaneState) -> Config {
    Config { state, ..Config::default() }
}

pub async fn a_paused_lane_admits_nothing_and_changes_no_row(harness: &Harness) {
    let both = Worker::new("one").on(&["default", "other"]);
    let (paused, served) = (submit_to(harness, "default", 2).await, submit_to(harness, "other", 2).await);
    let before: Vec<Execution> = vec![harness.row(paused[0]).await, harness.row(paused[1]).await];
    harness.configure(&harness.lane("default"), state(LaneState::Paused)).await;
    assert!(harness.claim(10).await.is_empty());
    assert_eq!(ids(&harness.claim_as(&both, 10).await), served, "a paused lane does not block others");
    assert_eq!([harness.row(paused[0]).await, harness.row(paused[1]).await], before[..]);
    harness.configure(&harness.lane("default"), state(LaneState::Active)).await;
    assert_eq!(ids(&harness.claim(10).await), paused);
}

pub async fn active_executions_of_a_paused_lane_continue(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    harness.configure(&harness.lane("default"), state(LaneState::Paused)).await;
    harness.report(fence(&claimed), Op::Release).await.expect("it is released");
    assert!(harness.claim(1).await.is_empty(), "and it is not admitted again");
    harness.configure(&harness.lane("default"), state(LaneState::Active)).await;
    let claimed = harness.claim_again(claimed.execution.id).await;
    harness.configure(&harness.lane("default"), state(LaneState::Paused)).await;
    harness.complete(&claimed, b"1").await;
    assert_eq!(harness.state(claimed.execution.id).await, StateName::Completed);
}

pub async fn a_draining_lane_admits_its_waiting_executions(harness: &Harness) {
    let all = submit_to(harness, "default", 2).await;
    harness.configure(&harness.lane("default"), state(LaneState::Draining)).await;
    assert_eq!(ids(&harness.claim(10).await), all);
}

pub async fn a_lane_never_has_more_active_than_its_limit(harness: &Harness) {
    let lane = harness.lane("default");
    harness.configure(&lane, concurrency(3)).await;
    let all = submit_to(harness, "default", 10).await;
    let mut active: Vec<Claimed> = harness.claim(10).await;
    let mut seen = ids(&active);
    assert_eq!(seen, all[..3]);
    while !active.is_empty() {
        assert_eq!(harness.gate(&lane).await.active as usize, active.len());
        let ended = active.remove(0);
        harness.complete(&ended, b"1").await;
        let more = harness.claim(10).await;
        assert!(more.len() <= 1, "one slot was given back");
        seen.extend(ids(&more));
        active.extend(more);
    }
    assert_eq!(seen, all, "all of them, in order");
    harness.adopt(&lane).await;
    let gate = harness.gate(&lane).await;
    assert_eq!((gate.active, gate.due_at), (0, None));
}

pub async fn concurrent_claims_do_not_exceed_the_limit_of_a_lane(harness: &Harness) {
    let lane = harness.lane("default");
    harness.configure(&lane, concurrency(5)).await;
    submit_to(harness, "default", 40).await;
    let mut distinct: BTreeSet<ExecutionId> = BTreeSet::new();
    for _ in 0..3 {
        let claims = concurrently(8, |task| {
            let harness = harness.clone();
            async move { harness.claim_as(&Worker::new(&format!("task {task}")), 2).await }
        });
        let claimed: Vec<Claimed> = claims.await.into_iter().flatten().collect();
        distinct.extend(ids(&claimed));
        let more = harness.claim(10).await;
        distinct.extend(ids(&more));
        let active: Vec<Claimed> = claimed.into_iter().chain(more).collect();
        assert_eq!(active.len(), 5, "the limit is used and not exceeded");
        assert_eq!(harness.gate(&lane).await.active, 5);
        concurrently(5, |index| {
            let (harness, one) = (harness.clone(), active[index].clone());
            async move { harness.complete(&one, b"1").await }
        })
        .await;
        assert_eq!(harness.gate(&lane).await.active, 0);
    }
    assert_eq!(distinct.len(), 15, "none was claimed twice");
}

/// Claims until all executions have started, and asserts that no window has more starts than the rate allows.
pub(super) async fn assert_rate_is_kept(
    harness: &Harness,
    count: usize,
    window_ms: i64,
    all: &[ExecutionId],
) {
    let mut claimed = harness.claim(100).await;
    assert_eq!(ids(&claimed), all[..count], "the rate is fully used at once");
    for _ in 0..1_000 {
        if claimed.len() == all.len() {
            break;
        }
        harness.advance_past(window_ms / 5).await;
        harness.check_due_gates().await;
        claimed.extend(harness.claim(100).await);
    }
    assert_eq!(claimed.len(), all.len(), "all have started");
    let mut started: Vec<_> = claimed.iter().filter_map(|one| one.execution.started_at).collect();
    started.sort();
    for (index, first) in started.iter().enumerate() {
        let within = started[index..].iter().filter(|at| **at < first.plus_ms(window_ms)).count();
        assert!(within <= count, "{within} starts in one window: {started:?}");
    }
}

pub async fn a_lane_never_exceeds_its_rate_in_any_window(harness: &Harness) {
    harness.configure(&harness.lane("default"), rate(3, 50)).await;
    let all = submit_to(harness, "default", 10).await;
    assert_rate_is_kept(harness, 3, 50, &all).await;
}

pub async fn the_rate_of_a_lane_is_fully_used_as_time_passes(harness: &Harness) {
    if !harness.has_manual_clock() {
        return a_lane_never_exceeds_its_rate_in_any_window(harness).await;
    }
    harness.configure(&harness.lane("default"), rate(4, 1000)).await;
    submit_to(harness, "default", 20).await;
    assert_eq!(harness.claim(3).await.len(), 3);
    harness.advance_past(500).await;
    assert_eq!(harness.claim(9).await.len(), 1);
    harness.advance_past(490).await;
    assert!(harness.claim(9).await.is_empty(), "the first three still count");
    // A window is counted in a hundred parts, and its first part counts as a whole.
    harness.advance_past(20).await;
    assert_eq!(harness.claim(9).await.len(), 3);
    harness.advance_past(500).await;
    assert_eq!(harness.claim(9).await.len(), 1);
}

pub async fn a_changed_limit_of_a_lane_applies_at_once(harness: &Harness) {
    let lane = harness.lane("default");
    harness.configure(&lane, concurrency(2)).await;
    submit_to(harness, "default", 10).await;
    let mut active = harness.claim(10).await;
    assert_eq!(active.len(), 2);
    harness.configure(&lane, concurrency(4)).await;
    active.extend(harness.claim(10).await);
    assert_eq!(active.len(), 4);
    harness.configure(&lane, concurrency(2)).await;
    for _ in 0..2 {
        assert!(harness.claim(10).await.is_empty(), "more are active than the limit");
        harness.complete(&active.remove(0), b"1").await;
    }
    assert!(harness.claim(10).await.is_empty());
    harness.complete(&active.remove(0), b"1").await;
    active.extend(harness.claim(10).await);
    assert_eq!(active.len(), 2);
    harness.configure(&lane, concurrency(0)).await;
    assert!(harness.claim(10).await.is_empty(), "a limit of zero admits nothing");
    harness.unconfigure(&lane).await;
    assert_eq!(harness.gate(&lane).await.active, 2, "taken slots are counted until they are given back");
    active.extend(harness.claim(10).await);
    assert_eq!(active.len(), 7);
    for one in &active {
        harness.complete(one, b"1").await;
    }
    assert_eq!(harness.find_gate(&lane).await, None, "its row is deleted");
}

pub async fn lanes_without_limits_count_nothing(harness: &Harness) {
    let both = Worker::new("one").on(&["default", "weighed"]);
    harness.configure(&harness.lane("weighed"), Config { weight: Some(9), ..Config::default() }).await;
    submit_to(harness, "default", 1).await;
    submit_to(harness, "weighed", 1).await;
    let before = harness.gate(&harness.lane("weighed")).await;
    for one in harness.claim_as(&both, 10).await {
        assert_eq!(one.execution.detail.slots.lane, None);
        harness.complete(&one, b"1").await;
    }
    assert_eq!(harness.gate(&harness.lane("weighed")).await, before, "its row was not written");
    assert_eq!(harness.find_gate(&harness.lane("default")).await, None);
}

pub async fn lanes_share_a_claim_by_their_weights(harness: &Harness) {
    for (lane, weight) in [("heavy", 3), ("light", 1)] {
        harness.configure(&harness.lane(lane), Config { weight: Some(weight), ..Config::default() }).await;
    }
    let light = submit_to(harness, "light", 40).await;
    let heavy = submit_to(harness, "heavy", 40).await;
    let worker = Worker::new("one").on(&["heavy", "light"]);
    let claimed = ids(&harness.claim_as(&worker, 40).await);
    let of =
        |lane: &[ExecutionId]| claimed.iter().copied().filter(|id| lane.contains(id)).collect::<Vec<_>>();
    assert_eq!((of(&heavy), of(&light)), (heavy[..30].to_vec(), light[..10].to_vec()));
    assert_eq!(harness.claim_as(&worker, 100).await.len(), 40, "an unused share goes to the other lane");
}

pub async fn the_kinds_of_a_lane_share_its_limit_and_namespaces_do_not(harness: &Harness) {
    let other_namespace = harness.in_namespace("beside").await;
    harness.configure(&harness.lane("default"), concurrency(2)).await;
    let two = |kind: &str| vec![Draft::new(kind); 2];
    let all = harness.submit_all([two("a"), two("b")].concat()).await;
    other_namespace.submit_all(two("a")).await;
    let claimed = harness.claim(10).await;
    assert_eq!(ids(&claimed), [all[0].id, all[1].id]);
    let others = Worker { kinds: Some(vec!["b".into()]), ..Worker::new("other") };
    assert!(harness.claim_as(&others, 10).await.is_empty());
    assert_eq!(other_namespace.claim(10).await.len(), 2, "lanes belong to a namespace");
    harness.complete(&claimed[0], b"1").await;
    assert_eq!(ids(&harness.claim_as(&others, 10).await), [all[2].id]);
}

pub async fn a_slot_given_back_in_the_transaction_of_a_claim_is_taken_once(harness: &Harness) {
    let lane = harness.lane("default");
    harness.configure(&lane, concurrency(1)).await;
    let all = submit_to(harness, "default", 3).await;
    let first = harness.claim(10).await.remove(0);
    let report = harness.report_command(fence(&first), Op::Complete { result: "1".into() });
    let claim = harness.claim_command(&Worker::new("one"), 10);
    let (reported, claimed) = harness.run(RulePair(report, claim)).await;
    reported.expect("it is completed");
    // The claim may have searched for candidates while the lane was full; then the next claim finds them.
    let mut next = claimed.expect("it is not refused").claimed;
    next.extend(harness.claim(10).await);
    assert_eq!(ids(&next), all[1..2]);
    assert_eq!(harness.gate(&lane).await.active, 1);
}

pub async fn a_limit_counts_the_executions_that_are_already_active(harness: &Harness) {
    let lane = harness.lane("default");
    let all = submit_to(harness, "default", 9).await;
    let elsewhere = submit_to(harness, "other", 1).await;
    let before = harness.claim_as(&Worker::new("one").on(&["default"]), 7).await;
    let other = harness.claim_as(&Worker::new("one").on(&["other"]), 1).await;
    assert_eq!((ids(&before), ids(&other)), (all[..7].to_vec(), elsewhere));
    assert_eq!(harness.gate(&lane).await.active, 0, "a lane without limits counts nothing");
    harness.configure(&lane, concurrency(6)).await;
    assert_eq!(harness.gate(&lane).await.active, 7);
    assert_eq!(harness.row(other[0].execution.id).await.detail.slots.lane, None, "it is in another lane");
    assert!(harness.claim(10).await.is_empty());
    // Each end gives its slot back once, whether a report, an operator or a timer ends the lease.
    harness.complete(&before[0], b"1").await;
    harness.report(fence(&before[0]), Op::Complete { result: "1".into() }).await.expect("it is repeated");
    assert_eq!(harness.gate(&lane).await.active, 6);
    assert!(harness.claim(10).await.is_empty());
    harness.report(fence(&before[1]), Op::Release).await.expect("it is released");
    let cancel = Action::Cancel { reason: None, grace_ms: 0 };
    harness.operate(all[2], cancel).await.expect("it is cancelled");
    assert_eq!(harness.gate(&lane).await.active, 4);
    assert_eq!(harness.claim(10).await.len(), 2);
    assert_eq!(harness.gate(&lane).await.active, 6);
    let facts = harness.facts_of(all[3]).await;
    assert_eq!(facts.iter().filter(|fact| matches!(fact, Fact::Adopted { .. })).count(), 1);
}

pub async fn a_lane_admits_nothing_until_all_active_executions_are_counted(harness: &Harness) {
    let lane = harness.lane("default");
    let all = submit_to(harness, "default", 5).await;
    let before = harness.claim(3).await;
    let setting = Setting::Replace(concurrency(4));
    let configure = Configure { gate: lane.clone(), setting, actor: Name::trusted("operator") };
    let configured = harness.run(configure).await.expect("it is configured");
    assert_eq!(configured.gate.state.adoption, Some(Adoption::Counting));
    assert!(harness.claim(10).await.is_empty());
    // Two servers count at the same time. One of them stops in the middle.
    let adopt = |executions: &[ExecutionId], ends| Adopt {
        lane: lane.clone(),
        executions: executions.to_vec(),
        ends,
    };
    assert_eq!(harness.run(adopt(&all[..2], None)).await, 2);
    assert_eq!(harness.run(adopt(&all[1..2], None)).await, 0, "it has a slot already");
    assert!(harness.claim(10).await.is_empty());
    harness.complete(&before[0], b"1").await;
    assert_eq!(harness.gate(&lane).await.active, 1);
    // The reconciler finds the lane and continues.
    harness.check_due_gates().await;
    let gate = harness.gate(&lane).await;
    assert_eq!((gate.active, gate.state.adoption), (2, Some(Adoption::Recounting)));
    assert_eq!(ids(&harness.claim(10).await), all[3..]);
    // An outdated count ends nothing, and a claim that committed late is found by the second count.
    harness.run(adopt(&[], Some(Adoption::Counting))).await;
    assert_eq!(harness.gate(&lane).await.state.adoption, Some(Adoption::Recounting));
    assert_eq!(harness.adopt(&lane).await, 0);
    let gate = harness.gate(&lane).await;
    assert_eq!((gate.active, gate.state.adoption, gate.due_at), (4, None, None));
}

pub async fn a_lane_whose_limit_is_lifted_while_it_counts_admits_at_once(harness: &Harness) {
    let lane = harness.lane("default");
    let all = submit_to(harness, "default", 3).await;
    let before = harness.claim(2).await;
    let setting = Setting::Replace(concurrency(1));
    let configure = Configure { gate: lane.clone(), setting, actor: Name::trusted("operator") };
    harness.run(configure).await.expect("it is configured");
    let adopt = Adopt { lane: lane.clone(), executions: vec![all[0]], ends: None };
    assert_eq!(harness.run(adopt.clone()).await, 1);
    harness.unconfigure(&lane).await;
    assert_eq!(harness.run(Adopt { executions: vec![all[1]], ..adopt }).await, 0, "nothing is limited");
    assert_eq!(ids(&harness.claim(10).await), all[2..]);
    for claimed in &before {
        harness.complete(claimed, b"1").await;
    }
    assert_eq!(harness.find_gate(&lane).await, None, "the slots were given back");
}
