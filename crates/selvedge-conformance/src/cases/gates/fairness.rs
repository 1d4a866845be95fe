//! Fairness keys: of the executions with the same key in a class only the head of the line may be claimed, so keys take
//! turns however many executions one of them has.

use crate::harness::concurrently;
use crate::harness::gates::{concurrency, ids, with_fairness_key};
use crate::harness::runner::RulePair;
use crate::harness::sketch::Sketch;
use crate::harness::worker::Worker;
use crate::harness::{Harness, fence};
use selvedge_core::gate::RequiredGates;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use selvedge_core::submission::When;
use selvedge_core::{Draft, ExecutionId, Name, State};
use std::collections::BTreeSet;

const CANCEL: Action = Action::Cancel { reason: None, grace_ms: 0 };

/// Claims one execution at a time, `times` times, and returns them in order. A claim that only found executions to hold
/// is repeated.
async fn claim_one_by_one(harness: &Harness, times: usize) -> Vec<ExecutionId> {
    let mut order = Vec::new();
    for _ in 0..times {
        harness.advance_past(0).await;
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

pub async fn one_execution_per_fairness_key_may_be_claimed_and_the_others_are_held(harness: &Harness) {
    let many = harness.submit_ids(vec![with_fairness_key("many"); 3]).await;
    let few = harness.submit_ids(vec![with_fairness_key("few")]).await;
    let line = harness.line("many").await;
    harness.assert_states_of(&many, &[StateName::Waiting, StateName::Held, StateName::Held]).await;
    harness.assert_states_of(&few, &[StateName::Waiting]).await;
    harness.assert_held(many[1], &line).await;
    assert!(
        harness.row(many[0]).await.detail.own_priority.is_some()
            && harness.row(many[1]).await.detail.own_priority.is_none()
    );
    assert_eq!((harness.gate(&line).await.active, harness.held_by(&line).await), (1, 2));
    assert_eq!(harness.gate(&harness.line("few").await).await.active, 1);
}

pub async fn fairness_keys_take_turns_however_many_executions_one_of_them_has(harness: &Harness) {
    let many = harness.submit_ids(vec![with_fairness_key("many"); 50]).await;
    let few = harness.submit_ids(vec![with_fairness_key("few"); 2]).await;
    let order = claim_one_by_one(harness, 6).await;
    assert_eq!(order, [many[0], few[0], many[1], few[1], many[2], many[3]]);
    assert_eq!(harness.find_gate(&harness.line("few").await).await, None, "the line is empty");
}

pub async fn executions_without_a_fairness_key_are_in_no_line(harness: &Harness) {
    let keyed = harness.submit_ids(vec![with_fairness_key("many"); 2]).await;
    let free = harness.submit_ids(vec![Draft::new("kind"); 2]).await;
    harness.assert_states_of(&free, &[StateName::Waiting; 2]).await;
    assert_eq!(claim_one_by_one(harness, 4).await, [keyed[0], free[0], free[1], keyed[1]]);
}

pub async fn priority_orders_executions_within_a_key_and_not_across_keys(harness: &Harness) {
    let urgent = |key: &str, priority| Draft { priority, ..with_fairness_key(key) };
    let a = harness.submit_ids(vec![urgent("a", 0), urgent("a", 0), urgent("a", 5), urgent("a", 9)]).await;
    let b = harness.submit_ids(vec![urgent("b", 7)]).await;
    // The head of a line stays the head until it is claimed.
    let late = harness.submit_ids(vec![urgent("b", 8)]).await;
    assert_eq!(claim_one_by_one(harness, 6).await, [a[3], b[0], a[2], late[0], a[0], a[1]]);
}

pub async fn the_head_of_a_line_keeps_its_turn_when_its_priority_changes(harness: &Harness) {
    let urgent = |key: &str, priority| Draft { priority, ..with_fairness_key(key) };
    let a = harness.submit_ids(vec![urgent("a", 3), urgent("a", 0)]).await;
    let b = harness.submit_ids(vec![urgent("b", 0)]).await;
    harness.operate(a[0], Action::Prioritise { priority: -9 }).await.expect("its priority is changed");
    assert_eq!(harness.row(a[0]).await.priority, -9);
    let claimed = harness.claim(1).await;
    assert_eq!((claimed[0].execution.id, claimed[0].execution.priority), (a[0], -9));
    harness.report(fence(&claimed[0]), Op::Release).await.expect("it is released");
    assert_eq!(claim_one_by_one(harness, 3).await, [b[0], a[1], a[0]], "it is the last of its line");
}

pub async fn a_line_advances_however_its_head_leaves(harness: &Harness) {
    let line = harness.line("a").await;
    let all = harness.submit_ids(vec![with_fairness_key("a"); 6]).await;
    harness.operate(all[0], CANCEL).await.expect("it is cancelled");
    harness.assert_states_of(&all[1..3], &[StateName::Waiting, StateName::Held]).await;
    harness
        .operate(all[1], Action::Reschedule { until: When::AfterMs(3_600_000) })
        .await
        .expect("it is delayed");
    harness.assert_states_of(&all[1..3], &[StateName::Delayed, StateName::Waiting]).await;
    let claimed = harness.claim(1).await;
    assert_eq!(ids(&claimed), [all[2]]);
    harness.assert_states_of(&all[3..], &[StateName::Waiting, StateName::Held, StateName::Held]).await;
    // A released execution, and one whose delay is over, go to the end of the line.
    harness.report(fence(&claimed[0]), Op::Release).await.expect("it is released");
    harness.operate(all[1], Action::Reschedule { until: When::AfterMs(0) }).await.expect("it is rescheduled");
    harness.assert_held(all[2], &line).await;
    harness.assert_held(all[1], &line).await;
    assert_eq!(claim_one_by_one(harness, 6).await, [all[3], all[4], all[5], all[2], all[1]]);
    assert_eq!(harness.find_gate(&line).await, None, "the line is empty");
}

pub async fn an_execution_submitted_as_the_head_leaves_goes_to_the_end_of_the_line(harness: &Harness) {
    let all = harness.submit_ids(vec![with_fairness_key("a"); 2]).await;
    let submit = harness.submit_command(vec![with_fairness_key("a")]).await;
    let (cancelled, mut submitted) =
        harness.run(RulePair(harness.operate_command(all[0], CANCEL), submit)).await;
    cancelled.expect("it is cancelled");
    let new = submitted.remove(0).expect("it is accepted").execution.id;
    harness.assert_states_of(&[all[1], new], &[StateName::Waiting, StateName::Held]).await;
    assert_eq!(claim_one_by_one(harness, 2).await, [all[1], new]);
}

pub async fn an_execution_that_leaves_the_middle_of_a_line_does_not_change_the_head(harness: &Harness) {
    let all = harness.submit_ids(vec![with_fairness_key("a"); 3]).await;
    harness.operate(all[1], CANCEL).await.expect("it is cancelled");
    harness.assert_states_of(&all, &[StateName::Waiting, StateName::Cancelled, StateName::Held]).await;
    assert_eq!(claim_one_by_one(harness, 2).await, [all[0], all[2]]);
}

pub async fn a_claim_of_many_never_leaves_a_line_without_a_head(harness: &Harness) {
    let all = harness.submit_ids(vec![with_fairness_key("a"); 150]).await;
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
        with_fairness_key("a"),
        Draft { kind: "other".into(), ..with_fairness_key("a") },
        Draft { lane: "other".into(), ..with_fairness_key("a") },
    ];
    let all = harness.submit_ids(drafts).await;
    harness.assert_states_of(&all, &[StateName::Waiting; 3]).await;
}

pub async fn an_execution_takes_its_turn_however_it_became_waiting(harness: &Harness) {
    // Nodes of a flow and replays are not put in a line when they become waiting: the claim that finds them does it.
    let sketch = Sketch::from("a b c d")
        .of_kind("kind")
        .each(|draft| draft.required_gates = with_fairness_key("flow").required_gates);
    let flow = harness.flow(sketch).await;
    let few = harness.submit_ids(vec![with_fairness_key("few"); 2]).await;
    let order = claim_one_by_one(harness, 6).await;
    let members: BTreeSet<ExecutionId> = flow.members().await.iter().map(|row| row.id).collect();
    let keys: Vec<&str> = order.iter().map(|id| if members.contains(id) { "flow" } else { "few" }).collect();
    assert_eq!(keys, ["flow", "few", "flow", "few", "flow", "flow"]);
    assert!(few.iter().all(|id| order.contains(id)));
    assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 6);
}

pub async fn a_replay_takes_its_turn(harness: &Harness) {
    let first = harness.leased(with_fairness_key("a")).await;
    harness.complete(&first, b"1").await;
    let others = harness.submit_ids(vec![with_fairness_key("a"); 2]).await;
    harness.operate(first.execution.id, Action::Replay).await.expect("it is replayed");
    let order = claim_one_by_one(harness, 3).await;
    assert_eq!(order, [others[0], others[1], first.execution.id], "behind earlier executions");
}

pub async fn an_execution_refused_by_a_gate_leaves_its_line_to_the_next(harness: &Harness) {
    let quota = harness.quota("few");
    harness.configure(&quota, concurrency(1)).await;
    let with_quota = |key: &str| {
        let mut draft = with_fairness_key(key);
        draft.required_gates = RequiredGates { quotas: vec![Name::trusted("few")], ..draft.required_gates };
        draft
    };
    let all = harness
        .submit_ids(vec![with_quota("a"), with_quota("a"), with_fairness_key("a"), with_quota("b")])
        .await;
    let claimed = harness.claim(10).await;
    assert_eq!(ids(&claimed), [all[0], all[2]], "a held execution does not block its line");
    harness.assert_held(all[1], &quota).await;
    harness.assert_held(all[3], &quota).await;
    harness.complete(&claimed[0], b"1").await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let next = harness.claim(10).await;
        seen.extend(ids(&next));
        for one in &next {
            harness.complete(one, b"1").await;
        }
    }
    assert_eq!(seen, [all[3], all[1]], "the execution that became waiting first");
    let states = [harness.row(all[1]).await.state, harness.row(all[3]).await.state];
    assert!(states.iter().all(|state| matches!(state, State::Terminal(_))), "{states:?}");
}

pub async fn concurrent_claims_and_submissions_leave_no_execution_stuck_in_a_line(harness: &Harness) {
    harness.submit_ids(vec![with_fairness_key("a"); 20]).await;
    let tasks = concurrently(6, |task| {
        let harness = harness.clone();
        async move {
            let mut done = 0;
            for round in 0..10 {
                if task % 2 == 0 && round < 5 {
                    harness.submit(with_fairness_key(if round % 2 == 0 { "a" } else { "b" })).await;
                }
                for one in harness.claim_as(&Worker::new(&format!("task {task}")), 3).await {
                    harness.complete(&one, b"1").await;
                    done += 1;
                }
            }
            done
        }
    });
    let mut done: usize = tasks.await.into_iter().sum();
    for _ in 0..100 {
        let claimed = harness.claim(10).await;
        for one in &claimed {
            harness.complete(one, b"1").await;
        }
        done += claimed.len();
        for key in ["a", "b"] {
            harness.check_gate(&harness.line(key).await).await;
        }
    }
    assert_eq!(done, 35, "all executions have run");
}
