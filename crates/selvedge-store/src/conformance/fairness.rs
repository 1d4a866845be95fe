//! Fairness keys: of those that wait with the same key in a class one may be claimed at a time, so keys take turns however many
//! wait with one of them.
#![allow(missing_docs)]

use super::bench::{Bench, fence};
use super::gate_bench::{at_once, ids, taking_turns};
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

async fn submit_all(bench: &Bench, drafts: Vec<Draft>) -> Vec<ExecutionId> {
    bench.submit_all(drafts).await.into_iter().map(|row| row.id).collect()
}

/// Claims one at a time, a little later each time, so often. One that gets nothing because what it came across was to be held
/// asks again.
async fn one_by_one(bench: &Bench, times: usize) -> Vec<ExecutionId> {
    let mut order = Vec::new();
    for _ in 0..times {
        bench.pass(0).await;
        for _ in 0..10 {
            let claimed = bench.claim(1).await;
            order.extend(ids(&claimed));
            if !claimed.is_empty() {
                break;
            }
        }
    }
    order
}

pub async fn one_of_each_key_may_be_claimed_and_the_others_are_held_by_their_line(bench: &Bench) {
    let many = submit_all(bench, vec![taking_turns("many"); 3]).await;
    let few = submit_all(bench, vec![taking_turns("few")]).await;
    let line = bench.line("many").await;
    bench.stand(&many, &[StateName::Ready, StateName::Held, StateName::Held]).await;
    bench.stand(&few, &[StateName::Ready]).await;
    bench.is_held(many[1], &line).await;
    assert!(bench.row(many[0]).await.detail.head.is_some() && bench.row(many[1]).await.detail.head.is_none());
    assert_eq!((bench.gate(&line).await.active, bench.held_by(&line).await), (1, 2));
    assert_eq!(bench.gate(&bench.line("few").await).await.active, 1);
}

pub async fn keys_take_turns_however_many_wait_with_one_of_them(bench: &Bench) {
    let many = submit_all(bench, vec![taking_turns("many"); 50]).await;
    let few = submit_all(bench, vec![taking_turns("few"); 2]).await;
    let order = one_by_one(bench, 6).await;
    assert_eq!(order, [many[0], few[0], many[1], few[1], many[2], many[3]]);
    assert_eq!(bench.find_gate(&bench.line("few").await).await, None, "nobody is in that line");
}

pub async fn those_without_a_key_stand_in_no_line(bench: &Bench) {
    let keyed = submit_all(bench, vec![taking_turns("many"); 2]).await;
    let free = submit_all(bench, vec![Draft::new("kind"); 2]).await;
    bench.stand(&free, &[StateName::Ready; 2]).await;
    assert_eq!(one_by_one(bench, 4).await, [keyed[0], free[0], free[1], keyed[1]]);
}

pub async fn priority_counts_inside_of_a_key_and_keys_take_turns_whatever_it_is(bench: &Bench) {
    let urgent = |key: &str, priority| Draft { priority, ..taking_turns(key) };
    let a = submit_all(bench, vec![urgent("a", 0), urgent("a", 0), urgent("a", 5), urgent("a", 9)]).await;
    let b = submit_all(bench, vec![urgent("b", 7)]).await;
    // The first of a line stays it, until it is claimed.
    let late = submit_all(bench, vec![urgent("b", 8)]).await;
    assert_eq!(one_by_one(bench, 6).await, [a[3], b[0], a[2], late[0], a[0], a[1]]);
}

pub async fn the_first_of_a_line_keeps_its_turn_and_its_priority_when_that_is_changed(bench: &Bench) {
    let urgent = |key: &str, priority| Draft { priority, ..taking_turns(key) };
    let a = submit_all(bench, vec![urgent("a", 3), urgent("a", 0)]).await;
    let b = submit_all(bench, vec![urgent("b", 0)]).await;
    bench.operate(a[0], Action::Prioritise { priority: -9 }).await.expect("it has another priority");
    assert_eq!(bench.row(a[0]).await.priority, -9);
    let claimed = bench.claim(1).await;
    assert_eq!((claimed[0].execution.id, claimed[0].execution.priority), (a[0], -9));
    bench.report(fence(&claimed[0]), Op::Release).await.expect("it is released");
    assert_eq!(one_by_one(bench, 3).await, [b[0], a[1], a[0]], "in its line it comes last");
}

pub async fn a_line_moves_up_however_its_first_one_leaves(bench: &Bench) {
    let line = bench.line("a").await;
    let all = submit_all(bench, vec![taking_turns("a"); 6]).await;
    bench.operate(all[0], CANCEL).await.expect("it is cancelled");
    bench.stand(&all[1..3], &[StateName::Ready, StateName::Held]).await;
    bench
        .operate(all[1], Action::Reschedule { until: When::AfterMs(3_600_000) })
        .await
        .expect("it is delayed");
    bench.stand(&all[1..3], &[StateName::Delayed, StateName::Ready]).await;
    let claimed = bench.claim(1).await;
    assert_eq!(ids(&claimed), [all[2]]);
    bench.stand(&all[3..], &[StateName::Ready, StateName::Held, StateName::Held]).await;
    // One that comes back, and one whose delay is over, go to the end.
    bench.report(fence(&claimed[0]), Op::Release).await.expect("it is released");
    bench.operate(all[1], Action::Reschedule { until: When::AfterMs(0) }).await.expect("it is to run");
    bench.is_held(all[2], &line).await;
    bench.is_held(all[1], &line).await;
    assert_eq!(one_by_one(bench, 6).await, [all[3], all[4], all[5], all[2], all[1]]);
    assert_eq!(bench.find_gate(&line).await, None, "nobody is in line any more");
}

pub async fn one_that_comes_as_the_first_leaves_goes_to_the_end_of_the_line(bench: &Bench) {
    let all = submit_all(bench, vec![taking_turns("a"); 2]).await;
    let submit = bench.submit_command(vec![taking_turns("a")]).await;
    let (cancelled, mut submitted) = bench.run(Both(bench.operate_command(all[0], CANCEL), submit)).await;
    cancelled.expect("it is cancelled");
    let new = submitted.remove(0).expect("it is accepted").execution.id;
    bench.stand(&[all[1], new], &[StateName::Ready, StateName::Held]).await;
    assert_eq!(one_by_one(bench, 2).await, [all[1], new]);
}

pub async fn one_that_leaves_its_line_from_behind_leaves_the_first_alone(bench: &Bench) {
    let all = submit_all(bench, vec![taking_turns("a"); 3]).await;
    bench.operate(all[1], CANCEL).await.expect("it is cancelled");
    bench.stand(&all, &[StateName::Ready, StateName::Cancelled, StateName::Held]).await;
    assert_eq!(one_by_one(bench, 2).await, [all[0], all[2]]);
}

pub async fn a_claim_of_many_never_leaves_a_line_without_a_first_one(bench: &Bench) {
    let all = submit_all(bench, vec![taking_turns("a"); 150]).await;
    let line = bench.line("a").await;
    let mut seen: Vec<ExecutionId> = Vec::new();
    for round in 0..100 {
        if seen.len() == all.len() {
            break;
        }
        assert_eq!(bench.gate(&line).await.active, 1, "in round {round}");
        let claimed = ids(&bench.claim(100).await);
        assert!(!claimed.is_empty(), "in round {round}");
        seen.extend(claimed);
    }
    assert_eq!(seen, all);
    assert_eq!(bench.find_gate(&line).await, None);
}

pub async fn keys_in_different_classes_do_not_share_a_line(bench: &Bench) {
    let drafts = vec![
        taking_turns("a"),
        Draft { kind: "other".into(), ..taking_turns("a") },
        Draft { lane: "other".into(), ..taking_turns("a") },
    ];
    let all = submit_all(bench, drafts).await;
    bench.stand(&all, &[StateName::Ready; 3]).await;
}

pub async fn one_that_became_ready_in_any_way_takes_its_turn(bench: &Bench) {
    // Nodes of a flow and replays are not put in line where they become ready: the claim that comes across them does it.
    let sketch =
        Sketch::from("a b c d").of_kind("kind").each(|draft| draft.draws = taking_turns("flow").draws);
    let flow = bench.flow(sketch).await;
    let few = submit_all(bench, vec![taking_turns("few"); 2]).await;
    let order = one_by_one(bench, 6).await;
    let members: BTreeSet<ExecutionId> = flow.members().await.iter().map(|row| row.id).collect();
    let words: Vec<&str> = order.iter().map(|id| if members.contains(id) { "flow" } else { "few" }).collect();
    assert_eq!(words, ["flow", "few", "flow", "few", "flow", "flow"]);
    assert!(few.iter().all(|id| order.contains(id)));
    assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 6);
}

pub async fn a_replay_takes_its_turn(bench: &Bench) {
    let first = bench.leased(taking_turns("a")).await;
    bench.complete(&first, b"1").await;
    let others = submit_all(bench, vec![taking_turns("a"); 2]).await;
    bench.operate(first.execution.id, Action::Replay).await.expect("it is replayed");
    let order = one_by_one(bench, 3).await;
    assert_eq!(order, [others[0], others[1], first.execution.id], "behind those that came before");
}

pub async fn one_that_a_gate_refuses_leaves_its_line_to_the_next(bench: &Bench) {
    let quota = bench.quota("few");
    bench.configure(&quota, at_once(1)).await;
    let quoted = |key: &str| {
        let mut draft = taking_turns(key);
        draft.draws = Draws { quotas: vec![Name::trusted("few")], ..draft.draws };
        draft
    };
    let all = submit_all(bench, vec![quoted("a"), quoted("a"), taking_turns("a"), quoted("b")]).await;
    let claimed = bench.claim(10).await;
    assert_eq!(ids(&claimed), [all[0], all[2]], "what is held is out of the way of its line");
    bench.is_held(all[1], &quota).await;
    bench.is_held(all[3], &quota).await;
    bench.complete(&claimed[0], b"1").await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let next = bench.claim(10).await;
        seen.extend(ids(&next));
        for one in &next {
            bench.complete(one, b"1").await;
        }
    }
    assert_eq!(seen, [all[3], all[1]], "the one that became ready first");
    let states = [bench.row(all[1]).await.state, bench.row(all[3]).await.state];
    assert!(states.iter().all(|state| matches!(state, State::Terminal(_))), "{states:?}");
}

pub async fn claims_and_submissions_made_at_once_leave_nobody_behind_in_a_line(bench: &Bench) {
    submit_all(bench, vec![taking_turns("a"); 20]).await;
    let sides = side_by_side(6, |side| {
        let bench = bench.clone();
        async move {
            let mut done = 0;
            for round in 0..10 {
                if side % 2 == 0 && round < 5 {
                    bench.submit(taking_turns(if round % 2 == 0 { "a" } else { "b" })).await;
                }
                for one in bench.claim_as(&Worker::new(&format!("side {side}")), 3).await {
                    bench.complete(&one, b"1").await;
                    done += 1;
                }
            }
            done
        }
    });
    let mut done: usize = sides.await.into_iter().sum();
    for _ in 0..100 {
        let claimed = bench.claim(10).await;
        for one in &claimed {
            bench.complete(one, b"1").await;
        }
        done += claimed.len();
        for key in ["a", "b"] {
            bench.look_at(&bench.line(key).await).await;
        }
    }
    assert_eq!(done, 35, "all have run");
}
