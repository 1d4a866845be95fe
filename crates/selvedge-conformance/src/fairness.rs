//! Fairness keys: of those that wait with the same key in a class one may be claimed at a time, so keys take turns however many
//! wait with one of them.
#![allow(missing_docs)]

use super::gate_harness::{at_once, ids, taking_turns};
use super::harness::{Harness, fence};
use super::rule::Both;
use super::side_by_side;
use super::sketch::Sketch;
use super::worker::Worker;
use selvedge_core::gate::Draws;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use selvedge_core::submission::When;
use selvedge_core::{Draft, ExecutionId, Name, State};
use std::collections::BTreeSet;

const CANCEL: Action = Action::Cancel { reason: None, grace_ms: 0 };

async fn submit_all(harness: &Harness, drafts: Vec<Draft>) -> Vec<ExecutionId> {
    harness.submit_all(drafts).await.into_iter().map(|row| row.id).collect()
}

/// Claims one at a time, a little later each time, so often. One that gets nothing because what it came across was to be held
/// asks again.
async fn one_by_one(harness: &Harness, times: usize) -> Vec<ExecutionId> {
    let mut order = Vec::new();
    for _ in 0..times {
        harness.pass(0).await;
        for _ in 0..10 {
            let claimed = harness.claim(1).await;
            order.extend(ids(&claimed));
            if !claimed.is_empty() {
                break;
            }
        }
    }
    order
}

pub async fn one_of_each_key_may_be_claimed_and_the_others_are_held_by_their_line(harness: &Harness) {
    let many = submit_all(harness, vec![taking_turns("many"); 3]).await;
    let few = submit_all(harness, vec![taking_turns("few")]).await;
    let line = harness.line("many").await;
    harness.stand(&many, &[StateName::Waiting, StateName::Held, StateName::Held]).await;
    harness.stand(&few, &[StateName::Waiting]).await;
    harness.is_held(many[1], &line).await;
    assert!(
        harness.row(many[0]).await.detail.head.is_some() && harness.row(many[1]).await.detail.head.is_none()
    );
    assert_eq!((harness.gate(&line).await.active, harness.held_by(&line).await), (1, 2));
    assert_eq!(harness.gate(&harness.line("few").await).await.active, 1);
}

pub async fn keys_take_turns_however_many_wait_with_one_of_them(harness: &Harness) {
    let many = submit_all(harness, vec![taking_turns("many"); 50]).await;
    let few = submit_all(harness, vec![taking_turns("few"); 2]).await;
    let order = one_by_one(harness, 6).await;
    assert_eq!(order, [many[0], few[0], many[1], few[1], many[2], many[3]]);
    assert_eq!(harness.find_gate(&harness.line("few").await).await, None, "nobody is in that line");
}

pub async fn those_without_a_key_stand_in_no_line(harness: &Harness) {
    let keyed = submit_all(harness, vec![taking_turns("many"); 2]).await;
    let free = submit_all(harness, vec![Draft::new("kind"); 2]).await;
    harness.stand(&free, &[StateName::Waiting; 2]).await;
    assert_eq!(one_by_one(harness, 4).await, [keyed[0], free[0], free[1], keyed[1]]);
}

pub async fn priority_counts_inside_of_a_key_and_keys_take_turns_whatever_it_is(harness: &Harness) {
    let urgent = |key: &str, priority| Draft { priority, ..taking_turns(key) };
    let a = submit_all(harness, vec![urgent("a", 0), urgent("a", 0), urgent("a", 5), urgent("a", 9)]).await;
    let b = submit_all(harness, vec![urgent("b", 7)]).await;
    // The first of a line stays it, until it is claimed.
    let late = submit_all(harness, vec![urgent("b", 8)]).await;
    assert_eq!(one_by_one(harness, 6).await, [a[3], b[0], a[2], late[0], a[0], a[1]]);
}

pub async fn the_first_of_a_line_keeps_its_turn_and_its_priority_when_that_is_changed(harness: &Harness) {
    let urgent = |key: &str, priority| Draft { priority, ..taking_turns(key) };
    let a = submit_all(harness, vec![urgent("a", 3), urgent("a", 0)]).await;
    let b = submit_all(harness, vec![urgent("b", 0)]).await;
    harness.operate(a[0], Action::Prioritise { priority: -9 }).await.expect("it has another priority");
    assert_eq!(harness.row(a[0]).await.priority, -9);
    let claimed = harness.claim(1).await;
    assert_eq!((claimed[0].execution.id, claimed[0].execution.priority), (a[0], -9));
    harness.report(fence(&claimed[0]), Op::Release).await.expect("it is released");
    assert_eq!(one_by_one(harness, 3).await, [b[0], a[1], a[0]], "in its line it comes last");
}

pub async fn a_line_moves_up_however_its_first_one_leaves(harness: &Harness) {
    let line = harness.line("a").await;
    let all = submit_all(harness, vec![taking_turns("a"); 6]).await;
    harness.operate(all[0], CANCEL).await.expect("it is cancelled");
    harness.stand(&all[1..3], &[StateName::Waiting, StateName::Held]).await;
    harness
        .operate(all[1], Action::Reschedule { until: When::AfterMs(3_600_000) })
        .await
        .expect("it is delayed");
    harness.stand(&all[1..3], &[StateName::Delayed, StateName::Waiting]).await;
    let claimed = harness.claim(1).await;
    assert_eq!(ids(&claimed), [all[2]]);
    harness.stand(&all[3..], &[StateName::Waiting, StateName::Held, StateName::Held]).await;
    // One that comes back, and one whose delay is over, go to the end.
    harness.report(fence(&claimed[0]), Op::Release).await.expect("it is released");
    harness.operate(all[1], Action::Reschedule { until: When::AfterMs(0) }).await.expect("it is to run");
    harness.is_held(all[2], &line).await;
    harness.is_held(all[1], &line).await;
    assert_eq!(one_by_one(harness, 6).await, [all[3], all[4], all[5], all[2], all[1]]);
    assert_eq!(harness.find_gate(&line).await, None, "nobody is in line any more");
}

pub async fn one_that_comes_as_the_first_leaves_goes_to_the_end_of_the_line(harness: &Harness) {
    let all = submit_all(harness, vec![taking_turns("a"); 2]).await;
    let submit = harness.submit_command(vec![taking_turns("a")]).await;
    let (cancelled, mut submitted) = harness.run(Both(harness.operate_command(all[0], CANCEL), submit)).await;
    cancelled.expect("it is cancelled");
    let new = submitted.remove(0).expect("it is accepted").execution.id;
    harness.stand(&[all[1], new], &[StateName::Waiting, StateName::Held]).await;
    assert_eq!(one_by_one(harness, 2).await, [all[1], new]);
}

pub async fn one_that_leaves_its_line_from_behind_leaves_the_first_alone(harness: &Harness) {
    let all = submit_all(harness, vec![taking_turns("a"); 3]).await;
    harness.operate(all[1], CANCEL).await.expect("it is cancelled");
    harness.stand(&all, &[StateName::Waiting, StateName::Cancelled, StateName::Held]).await;
    assert_eq!(one_by_one(harness, 2).await, [all[0], all[2]]);
}

pub async fn a_claim_of_many_never_leaves_a_line_without_a_first_one(harness: &Harness) {
    let all = submit_all(harness, vec![taking_turns("a"); 150]).await;
    let line = harness.line("a").await;
    let mut seen: Vec<ExecutionId> = Vec::new();
    for round in 0..100 {
        if seen.len() == all.len() {
            break;
        }
        assert_eq!(harness.gate(&line).await.active, 1, "in round {round}");
        let claimed = ids(&harness.claim(100).await);
        assert!(!claimed.is_empty(), "in round {round}");
        seen.extend(claimed);
    }
    assert_eq!(seen, all);
    assert_eq!(harness.find_gate(&line).await, None);
}

pub async fn keys_in_different_classes_do_not_share_a_line(harness: &Harness) {
    let drafts = vec![
        taking_turns("a"),
        Draft { kind: "other".into(), ..taking_turns("a") },
        Draft { lane: "other".into(), ..taking_turns("a") },
    ];
    let all = submit_all(harness, drafts).await;
    harness.stand(&all, &[StateName::Waiting; 3]).await;
}

pub async fn one_that_became_ready_in_any_way_takes_its_turn(harness: &Harness) {
    // Nodes of a flow and replays are not put in line where they become ready: the claim that comes across them does it.
    let sketch =
        Sketch::from("a b c d").of_kind("kind").each(|draft| draft.draws = taking_turns("flow").draws);
    let flow = harness.flow(sketch).await;
    let few = submit_all(harness, vec![taking_turns("few"); 2]).await;
    let order = one_by_one(harness, 6).await;
    let members: BTreeSet<ExecutionId> = flow.members().await.iter().map(|row| row.id).collect();
    let words: Vec<&str> = order.iter().map(|id| if members.contains(id) { "flow" } else { "few" }).collect();
    assert_eq!(words, ["flow", "few", "flow", "few", "flow", "flow"]);
    assert!(few.iter().all(|id| order.contains(id)));
    assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 6);
}

pub async fn a_replay_takes_its_turn(harness: &Harness) {
    let first = harness.leased(taking_turns("a")).await;
    harness.complete(&first, b"1").await;
    let others = submit_all(harness, vec![taking_turns("a"); 2]).await;
    harness.operate(first.execution.id, Action::Replay).await.expect("it is replayed");
    let order = one_by_one(harness, 3).await;
    assert_eq!(order, [others[0], others[1], first.execution.id], "behind those that came before");
}

pub async fn one_that_a_gate_refuses_leaves_its_line_to_the_next(harness: &Harness) {
    let quota = harness.quota("few");
    harness.configure(&quota, at_once(1)).await;
    let quoted = |key: &str| {
        let mut draft = taking_turns(key);
        draft.draws = Draws { quotas: vec![Name::trusted("few")], ..draft.draws };
        draft
    };
    let all = submit_all(harness, vec![quoted("a"), quoted("a"), taking_turns("a"), quoted("b")]).await;
    let claimed = harness.claim(10).await;
    assert_eq!(ids(&claimed), [all[0], all[2]], "what is held is out of the way of its line");
    harness.is_held(all[1], &quota).await;
    harness.is_held(all[3], &quota).await;
    harness.complete(&claimed[0], b"1").await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let next = harness.claim(10).await;
        seen.extend(ids(&next));
        for one in &next {
            harness.complete(one, b"1").await;
        }
    }
    assert_eq!(seen, [all[3], all[1]], "the one that became ready first");
    let states = [harness.row(all[1]).await.state, harness.row(all[3]).await.state];
    assert!(states.iter().all(|state| matches!(state, State::Terminal(_))), "{states:?}");
}

pub async fn claims_and_submissions_made_at_once_leave_nobody_behind_in_a_line(harness: &Harness) {
    submit_all(harness, vec![taking_turns("a"); 20]).await;
    let sides = side_by_side(6, |side| {
        let harness = harness.clone();
        async move {
            let mut done = 0;
            for round in 0..10 {
                if side % 2 == 0 && round < 5 {
                    harness.submit(taking_turns(if round % 2 == 0 { "a" } else { "b" })).await;
                }
                for one in harness.claim_as(&Worker::new(&format!("side {side}")), 3).await {
                    harness.complete(&one, b"1").await;
                    done += 1;
                }
            }
            done
        }
    });
    let mut done: usize = sides.await.into_iter().sum();
    for _ in 0..100 {
        let claimed = harness.claim(10).await;
        for one in &claimed {
            harness.complete(one, b"1").await;
        }
        done += claimed.len();
        for key in ["a", "b"] {
            harness.look_at(&harness.line(key).await).await;
        }
    }
    assert_eq!(done, 35, "all have run");
}
