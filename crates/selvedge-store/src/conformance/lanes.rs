//! Lanes: what is paused or full gives nothing out and changes no row, and no number of claims passes a limit.
#![allow(missing_docs)]

use super::bench::{Bench, fence};
use super::gate_bench::{at_once, ids, starts};
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
async fn fill(bench: &Bench, lane: &str, count: usize) -> Vec<ExecutionId> {
    let drafts = vec![Draft { lane: lane.into(), ..Draft::new("kind") }; count];
    bench.submit_all(drafts).await.into_iter().map(|row| row.id).collect()
}

fn state(state: LaneState) -> Config {
    Config { state, ..Config::default() }
}

pub async fn a_paused_lane_gives_nothing_out_and_changes_no_row(bench: &Bench) {
    let both = Worker::new("one").on(&["default", "other"]);
    let (paused, served) = (fill(bench, "default", 2).await, fill(bench, "other", 2).await);
    let before: Vec<Execution> = vec![bench.row(paused[0]).await, bench.row(paused[1]).await];
    bench.configure(&bench.lane("default"), state(LaneState::Paused)).await;
    assert!(bench.claim(10).await.is_empty());
    assert_eq!(ids(&bench.claim_as(&both, 10).await), served, "what waits there hides nothing");
    assert_eq!([bench.row(paused[0]).await, bench.row(paused[1]).await], before[..]);
    bench.configure(&bench.lane("default"), state(LaneState::Active)).await;
    assert_eq!(ids(&bench.claim(10).await), paused);
}

pub async fn what_runs_in_a_lane_that_is_paused_runs_on(bench: &Bench) {
    let claimed = bench.leased(Draft::new("kind")).await;
    bench.configure(&bench.lane("default"), state(LaneState::Paused)).await;
    bench.report(fence(&claimed), Op::Release).await.expect("it is released");
    assert!(bench.claim(1).await.is_empty(), "and is not given out again");
    bench.configure(&bench.lane("default"), state(LaneState::Active)).await;
    let claimed = bench.claim_again(claimed.execution.id).await;
    bench.configure(&bench.lane("default"), state(LaneState::Paused)).await;
    bench.complete(&claimed, b"1").await;
    assert_eq!(bench.state(claimed.execution.id).await, StateName::Success);
}

pub async fn a_draining_lane_gives_out_what_waits_in_it(bench: &Bench) {
    let all = fill(bench, "default", 2).await;
    bench.configure(&bench.lane("default"), state(LaneState::Draining)).await;
    assert_eq!(ids(&bench.claim(10).await), all);
}

pub async fn a_lane_never_has_more_active_than_its_limit(bench: &Bench) {
    let lane = bench.lane("default");
    bench.configure(&lane, at_once(3)).await;
    let all = fill(bench, "default", 10).await;
    let mut running: Vec<Claimed> = bench.claim(10).await;
    let mut seen = ids(&running);
    assert_eq!(seen, all[..3]);
    while !running.is_empty() {
        assert_eq!(bench.gate(&lane).await.active as usize, running.len());
        let ended = running.remove(0);
        bench.complete(&ended, b"1").await;
        let more = bench.claim(10).await;
        assert!(more.len() <= 1, "one slot was given back");
        seen.extend(ids(&more));
        running.extend(more);
    }
    assert_eq!(seen, all, "in order, and all of them");
    let gate = bench.gate(&lane).await;
    assert_eq!((gate.active, gate.due_at), (0, None));
}

pub async fn claims_made_at_once_do_not_pass_the_limit_of_a_lane_together(bench: &Bench) {
    let lane = bench.lane("default");
    bench.configure(&lane, at_once(5)).await;
    fill(bench, "default", 40).await;
    let mut distinct: BTreeSet<ExecutionId> = BTreeSet::new();
    for _ in 0..3 {
        let claims = side_by_side(8, |side| {
            let bench = bench.clone();
            async move { bench.claim_as(&Worker::new(&format!("side {side}")), 2).await }
        });
        let claimed: Vec<Claimed> = claims.await.into_iter().flatten().collect();
        distinct.extend(ids(&claimed));
        let more = bench.claim(10).await;
        distinct.extend(ids(&more));
        let running: Vec<Claimed> = claimed.into_iter().chain(more).collect();
        assert_eq!(running.len(), 5, "as many as may be, and no more");
        assert_eq!(bench.gate(&lane).await.active, 5);
        side_by_side(5, |place| {
            let (bench, one) = (bench.clone(), running[place].clone());
            async move { bench.complete(&one, b"1").await }
        })
        .await;
        assert_eq!(bench.gate(&lane).await.active, 0);
    }
    assert_eq!(distinct.len(), 15, "none was claimed twice");
}

/// Claims until everything was, and checks that no window has more starts than the rate allows.
pub(super) async fn starts_within(bench: &Bench, count: usize, window_ms: i64, all: &[ExecutionId]) {
    let mut claimed = bench.claim(100).await;
    assert_eq!(ids(&claimed), all[..count], "what the rate allows is given out at once");
    for _ in 0..1_000 {
        if claimed.len() == all.len() {
            break;
        }
        bench.pass(window_ms / 5).await;
        bench.look_at_due().await;
        claimed.extend(bench.claim(100).await);
    }
    assert_eq!(claimed.len(), all.len(), "all have started");
    let mut started: Vec<_> = claimed.iter().filter_map(|one| one.execution.started_at).collect();
    started.sort();
    for (place, first) in started.iter().enumerate() {
        let within = started[place..].iter().filter(|at| **at < first.plus_ms(window_ms)).count();
        assert!(within <= count, "{within} starts in one window: {started:?}");
    }
}

pub async fn a_lane_starts_no_more_in_any_window_than_its_rate(bench: &Bench) {
    bench.configure(&bench.lane("default"), starts(3, 50)).await;
    let all = fill(bench, "default", 10).await;
    starts_within(bench, 3, 50, &all).await;
}

pub async fn a_rate_of_a_lane_is_used_to_the_full_when_time_moves_on(bench: &Bench) {
    if !bench.is_manual() {
        return a_lane_starts_no_more_in_any_window_than_its_rate(bench).await;
    }
    bench.configure(&bench.lane("default"), starts(4, 1000)).await;
    fill(bench, "default", 20).await;
    assert_eq!(bench.claim(3).await.len(), 3);
    bench.pass(500).await;
    assert_eq!(bench.claim(9).await.len(), 1);
    bench.pass(490).await;
    assert!(bench.claim(9).await.is_empty(), "the first three still count");
    // A window is counted in hundred parts: the one in which it begins counts whole.
    bench.pass(20).await;
    assert_eq!(bench.claim(9).await.len(), 3);
    bench.pass(500).await;
    assert_eq!(bench.claim(9).await.len(), 1);
}

pub async fn a_limit_of_a_lane_that_is_changed_counts_at_once(bench: &Bench) {
    let lane = bench.lane("default");
    bench.configure(&lane, at_once(2)).await;
    fill(bench, "default", 10).await;
    let mut running = bench.claim(10).await;
    assert_eq!(running.len(), 2);
    bench.configure(&lane, at_once(4)).await;
    running.extend(bench.claim(10).await);
    assert_eq!(running.len(), 4);
    bench.configure(&lane, at_once(2)).await;
    for _ in 0..2 {
        assert!(bench.claim(10).await.is_empty(), "more are active than may be");
        bench.complete(&running.remove(0), b"1").await;
    }
    assert!(bench.claim(10).await.is_empty());
    bench.complete(&running.remove(0), b"1").await;
    running.extend(bench.claim(10).await);
    assert_eq!(running.len(), 2);
    bench.configure(&lane, at_once(0)).await;
    assert!(bench.claim(10).await.is_empty(), "a limit of nothing gives nothing out");
    bench.unconfigure(&lane).await;
    assert_eq!(bench.gate(&lane).await.active, 2, "what was taken is known until it is given back");
    running.extend(bench.claim(10).await);
    assert_eq!(running.len(), 7);
    for one in &running {
        bench.complete(one, b"1").await;
    }
    assert_eq!(bench.find_gate(&lane).await, None, "nothing is left of it");
}

pub async fn lanes_that_limit_nothing_count_nothing(bench: &Bench) {
    let both = Worker::new("one").on(&["default", "weighed"]);
    bench.configure(&bench.lane("weighed"), Config { weight: Some(9), ..Config::default() }).await;
    fill(bench, "default", 1).await;
    fill(bench, "weighed", 1).await;
    let before = bench.gate(&bench.lane("weighed")).await;
    for one in bench.claim_as(&both, 10).await {
        assert_eq!(one.execution.detail.slots.lane, None);
        bench.complete(&one, b"1").await;
    }
    assert_eq!(bench.gate(&bench.lane("weighed")).await, before, "its row was not written");
    assert_eq!(bench.find_gate(&bench.lane("default")).await, None);
}

pub async fn lanes_with_weights_share_a_claim_by_them(bench: &Bench) {
    for (lane, weight) in [("heavy", 3), ("light", 1)] {
        bench.configure(&bench.lane(lane), Config { weight: Some(weight), ..Config::default() }).await;
    }
    let light = fill(bench, "light", 40).await;
    let heavy = fill(bench, "heavy", 40).await;
    let worker = Worker::new("one").on(&["heavy", "light"]);
    let claimed = ids(&bench.claim_as(&worker, 40).await);
    let of =
        |lane: &[ExecutionId]| claimed.iter().copied().filter(|id| lane.contains(id)).collect::<Vec<_>>();
    assert_eq!((of(&heavy), of(&light)), (heavy[..30].to_vec(), light[..10].to_vec()));
    assert_eq!(
        bench.claim_as(&worker, 100).await.len(),
        40,
        "a share that is not used is given to the others"
    );
}

pub async fn the_kinds_of_a_lane_share_its_limit_and_namespaces_do_not(bench: &Bench) {
    let beside = bench.beside("beside").await;
    bench.configure(&bench.lane("default"), at_once(2)).await;
    let two = |kind: &str| vec![Draft::new(kind); 2];
    let all = bench.submit_all([two("a"), two("b")].concat()).await;
    beside.submit_all(two("a")).await;
    let claimed = bench.claim(10).await;
    assert_eq!(ids(&claimed), [all[0].id, all[1].id]);
    let others = Worker { kinds: Some(vec!["b".into()]), ..Worker::new("other") };
    assert!(bench.claim_as(&others, 10).await.is_empty());
    assert_eq!(beside.claim(10).await.len(), 2, "their lanes are their own");
    bench.complete(&claimed[0], b"1").await;
    assert_eq!(ids(&bench.claim_as(&others, 10).await), [all[2].id]);
}

pub async fn a_slot_that_is_given_back_beside_a_claim_is_taken_once(bench: &Bench) {
    let lane = bench.lane("default");
    bench.configure(&lane, at_once(1)).await;
    let all = fill(bench, "default", 3).await;
    let first = bench.claim(10).await.remove(0);
    let report = bench.report_command(fence(&first), Op::Complete { result: "1".into() });
    let claim = bench.claim_command(&Worker::new("one"), 10);
    let (reported, claimed) = bench.run(Both(report, claim)).await;
    reported.expect("it is completed");
    // The claim may have looked for candidates while the lane was full: then the next one finds them.
    let mut next = claimed.expect("it is not refused").claimed;
    next.extend(bench.claim(10).await);
    assert_eq!(ids(&next), all[1..2]);
    assert_eq!(bench.gate(&lane).await.active, 1);
}
