//! Lanes: what is paused or full gives nothing out and changes no row, and no number of claims passes a limit.
#![allow(missing_docs)]

use super::gate_harness::{at_once, ids, starts};
use super::harness::{Harness, fence};
use super::rule::Both;
use super::side_by_side;
use super::worker::Worker;
use selvedge_core::gate::{Config, LaneState};
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use selvedge_core::{Draft, Execution, ExecutionId};
use std::collections::BTreeSet;

/// So many in a lane.
async fn fill(harness: &Harness, lane: &str, count: usize) -> Vec<ExecutionId> {
    let drafts = vec![Draft { lane: lane.into(), ..Draft::new("kind") }; count];
    harness.submit_all(drafts).await.into_iter().map(|row| row.id).collect()
}

fn state(state: LaneState) -> Config {
    Config { state, ..Config::default() }
}

pub async fn a_paused_lane_gives_nothing_out_and_changes_no_row(harness: &Harness) {
    let both = Worker::new("one").on(&["default", "other"]);
    let (paused, served) = (fill(harness, "default", 2).await, fill(harness, "other", 2).await);
    let before: Vec<Execution> = vec![harness.row(paused[0]).await, harness.row(paused[1]).await];
    harness.configure(&harness.lane("default"), state(LaneState::Paused)).await;
    assert!(harness.claim(10).await.is_empty());
    assert_eq!(ids(&harness.claim_as(&both, 10).await), served, "what waits there hides nothing");
    assert_eq!([harness.row(paused[0]).await, harness.row(paused[1]).await], before[..]);
    harness.configure(&harness.lane("default"), state(LaneState::Active)).await;
    assert_eq!(ids(&harness.claim(10).await), paused);
}

pub async fn what_runs_in_a_lane_that_is_paused_runs_on(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    harness.configure(&harness.lane("default"), state(LaneState::Paused)).await;
    harness.report(fence(&claimed), Op::Release).await.expect("it is released");
    assert!(harness.claim(1).await.is_empty(), "and is not given out again");
    harness.configure(&harness.lane("default"), state(LaneState::Active)).await;
    let claimed = harness.claim_again(claimed.execution.id).await;
    harness.configure(&harness.lane("default"), state(LaneState::Paused)).await;
    harness.complete(&claimed, b"1").await;
    assert_eq!(harness.state(claimed.execution.id).await, StateName::Completed);
}

pub async fn a_draining_lane_gives_out_what_waits_in_it(harness: &Harness) {
    let all = fill(harness, "default", 2).await;
    harness.configure(&harness.lane("default"), state(LaneState::Draining)).await;
    assert_eq!(ids(&harness.claim(10).await), all);
}

pub async fn a_lane_never_has_more_active_than_its_limit(harness: &Harness) {
    let lane = harness.lane("default");
    harness.configure(&lane, at_once(3)).await;
    let all = fill(harness, "default", 10).await;
    let mut running: Vec<Claimed> = harness.claim(10).await;
    let mut seen = ids(&running);
    assert_eq!(seen, all[..3]);
    while !running.is_empty() {
        assert_eq!(harness.gate(&lane).await.active as usize, running.len());
        let ended = running.remove(0);
        harness.complete(&ended, b"1").await;
        let more = harness.claim(10).await;
        assert!(more.len() <= 1, "one slot was given back");
        seen.extend(ids(&more));
        running.extend(more);
    }
    assert_eq!(seen, all, "in order, and all of them");
    let gate = harness.gate(&lane).await;
    assert_eq!((gate.active, gate.due_at), (0, None));
}

pub async fn claims_made_at_once_do_not_pass_the_limit_of_a_lane_together(harness: &Harness) {
    let lane = harness.lane("default");
    harness.configure(&lane, at_once(5)).await;
    fill(harness, "default", 40).await;
    let mut distinct: BTreeSet<ExecutionId> = BTreeSet::new();
    for _ in 0..3 {
        let claims = side_by_side(8, |side| {
            let harness = harness.clone();
            async move { harness.claim_as(&Worker::new(&format!("side {side}")), 2).await }
        });
        let claimed: Vec<Claimed> = claims.await.into_iter().flatten().collect();
        distinct.extend(ids(&claimed));
        let more = harness.claim(10).await;
        distinct.extend(ids(&more));
        let running: Vec<Claimed> = claimed.into_iter().chain(more).collect();
        assert_eq!(running.len(), 5, "as many as may be, and no more");
        assert_eq!(harness.gate(&lane).await.active, 5);
        side_by_side(5, |place| {
            let (harness, one) = (harness.clone(), running[place].clone());
            async move { harness.complete(&one, b"1").await }
        })
        .await;
        assert_eq!(harness.gate(&lane).await.active, 0);
    }
    assert_eq!(distinct.len(), 15, "none was claimed twice");
}

/// Claims until everything was, and checks that no window has more starts than the rate allows.
pub(super) async fn starts_within(harness: &Harness, count: usize, window_ms: i64, all: &[ExecutionId]) {
    let mut claimed = harness.claim(100).await;
    assert_eq!(ids(&claimed), all[..count], "what the rate allows is given out at once");
    for _ in 0..1_000 {
        if claimed.len() == all.len() {
            break;
        }
        harness.pass(window_ms / 5).await;
        harness.look_at_due().await;
        claimed.extend(harness.claim(100).await);
    }
    assert_eq!(claimed.len(), all.len(), "all have started");
    let mut started: Vec<_> = claimed.iter().filter_map(|one| one.execution.started_at).collect();
    started.sort();
    for (place, first) in started.iter().enumerate() {
        let within = started[place..].iter().filter(|at| **at < first.plus_ms(window_ms)).count();
        assert!(within <= count, "{within} starts in one window: {started:?}");
    }
}

pub async fn a_lane_starts_no_more_in_any_window_than_its_rate(harness: &Harness) {
    harness.configure(&harness.lane("default"), starts(3, 50)).await;
    let all = fill(harness, "default", 10).await;
    starts_within(harness, 3, 50, &all).await;
}

pub async fn a_rate_of_a_lane_is_used_to_the_full_when_time_moves_on(harness: &Harness) {
    if !harness.is_manual() {
        return a_lane_starts_no_more_in_any_window_than_its_rate(harness).await;
    }
    harness.configure(&harness.lane("default"), starts(4, 1000)).await;
    fill(harness, "default", 20).await;
    assert_eq!(harness.claim(3).await.len(), 3);
    harness.pass(500).await;
    assert_eq!(harness.claim(9).await.len(), 1);
    harness.pass(490).await;
    assert!(harness.claim(9).await.is_empty(), "the first three still count");
    // A window is counted in hundred parts: the one in which it begins counts whole.
    harness.pass(20).await;
    assert_eq!(harness.claim(9).await.len(), 3);
    harness.pass(500).await;
    assert_eq!(harness.claim(9).await.len(), 1);
}

pub async fn a_limit_of_a_lane_that_is_changed_counts_at_once(harness: &Harness) {
    let lane = harness.lane("default");
    harness.configure(&lane, at_once(2)).await;
    fill(harness, "default", 10).await;
    let mut running = harness.claim(10).await;
    assert_eq!(running.len(), 2);
    harness.configure(&lane, at_once(4)).await;
    running.extend(harness.claim(10).await);
    assert_eq!(running.len(), 4);
    harness.configure(&lane, at_once(2)).await;
    for _ in 0..2 {
        assert!(harness.claim(10).await.is_empty(), "more are active than may be");
        harness.complete(&running.remove(0), b"1").await;
    }
    assert!(harness.claim(10).await.is_empty());
    harness.complete(&running.remove(0), b"1").await;
    running.extend(harness.claim(10).await);
    assert_eq!(running.len(), 2);
    harness.configure(&lane, at_once(0)).await;
    assert!(harness.claim(10).await.is_empty(), "a limit of nothing gives nothing out");
    harness.unconfigure(&lane).await;
    assert_eq!(harness.gate(&lane).await.active, 2, "what was taken is known until it is given back");
    running.extend(harness.claim(10).await);
    assert_eq!(running.len(), 7);
    for one in &running {
        harness.complete(one, b"1").await;
    }
    assert_eq!(harness.find_gate(&lane).await, None, "nothing is left of it");
}

pub async fn lanes_that_limit_nothing_count_nothing(harness: &Harness) {
    let both = Worker::new("one").on(&["default", "weighed"]);
    harness.configure(&harness.lane("weighed"), Config { weight: Some(9), ..Config::default() }).await;
    fill(harness, "default", 1).await;
    fill(harness, "weighed", 1).await;
    let before = harness.gate(&harness.lane("weighed")).await;
    for one in harness.claim_as(&both, 10).await {
        assert_eq!(one.execution.detail.slots.lane, None);
        harness.complete(&one, b"1").await;
    }
    assert_eq!(harness.gate(&harness.lane("weighed")).await, before, "its row was not written");
    assert_eq!(harness.find_gate(&harness.lane("default")).await, None);
}

pub async fn lanes_with_weights_share_a_claim_by_them(harness: &Harness) {
    for (lane, weight) in [("heavy", 3), ("light", 1)] {
        harness.configure(&harness.lane(lane), Config { weight: Some(weight), ..Config::default() }).await;
    }
    let light = fill(harness, "light", 40).await;
    let heavy = fill(harness, "heavy", 40).await;
    let worker = Worker::new("one").on(&["heavy", "light"]);
    let claimed = ids(&harness.claim_as(&worker, 40).await);
    let of =
        |lane: &[ExecutionId]| claimed.iter().copied().filter(|id| lane.contains(id)).collect::<Vec<_>>();
    assert_eq!((of(&heavy), of(&light)), (heavy[..30].to_vec(), light[..10].to_vec()));
    assert_eq!(
        harness.claim_as(&worker, 100).await.len(),
        40,
        "a share that is not used is given to the others"
    );
}

pub async fn the_kinds_of_a_lane_share_its_limit_and_namespaces_do_not(harness: &Harness) {
    let beside = harness.beside("beside").await;
    harness.configure(&harness.lane("default"), at_once(2)).await;
    let two = |kind: &str| vec![Draft::new(kind); 2];
    let all = harness.submit_all([two("a"), two("b")].concat()).await;
    beside.submit_all(two("a")).await;
    let claimed = harness.claim(10).await;
    assert_eq!(ids(&claimed), [all[0].id, all[1].id]);
    let others = Worker { kinds: Some(vec!["b".into()]), ..Worker::new("other") };
    assert!(harness.claim_as(&others, 10).await.is_empty());
    assert_eq!(beside.claim(10).await.len(), 2, "their lanes are their own");
    harness.complete(&claimed[0], b"1").await;
    assert_eq!(ids(&harness.claim_as(&others, 10).await), [all[2].id]);
}

pub async fn a_slot_that_is_given_back_beside_a_claim_is_taken_once(harness: &Harness) {
    let lane = harness.lane("default");
    harness.configure(&lane, at_once(1)).await;
    let all = fill(harness, "default", 3).await;
    let first = harness.claim(10).await.remove(0);
    let report = harness.report_command(fence(&first), Op::Complete { result: "1".into() });
    let claim = harness.claim_command(&Worker::new("one"), 10);
    let (reported, claimed) = harness.run(Both(report, claim)).await;
    reported.expect("it is completed");
    // The claim may have looked for candidates while the lane was full: then the next one finds them.
    let mut next = claimed.expect("it is not refused").claimed;
    next.extend(harness.claim(10).await);
    assert_eq!(ids(&next), all[1..2]);
    assert_eq!(harness.gate(&lane).await.active, 1);
}
