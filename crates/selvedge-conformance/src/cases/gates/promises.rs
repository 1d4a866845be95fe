//! Promises: what a gate lets go keeps its place. The slot, the start or the amount that a released execution needs is
//! kept for it for a short time, so that executions which came later do not take it first.

use crate::harness::gates::{
    concurrency, ids, rate, token_limit, tokens, with_budget, with_key, with_quotas,
};
use crate::harness::{Harness, fence};
use selvedge_core::gate::{Config, GateName};
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::gates::PROMISE_MS;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use selvedge_core::submission::When;
use selvedge_core::{Draft, ExecutionId};

/// Asserts that the gate is overloaded all the time, and that executions nevertheless start in the order of their
/// submission. Newcomers arrive before each end, and wait before the held executions that the end releases.
async fn assert_first_come_first_served(harness: &Harness, draft: Draft) {
    let mut all = harness.submit_ids(vec![draft.clone(); 4]).await;
    let mut active: Vec<Claimed> = harness.claim(10).await;
    assert_eq!(ids(&active), all[..1]);
    let mut started: Vec<ExecutionId> = ids(&active);
    for _ in 0..12 {
        all.extend(harness.submit_ids(vec![draft.clone(); 2]).await);
        harness.complete(&active[0], b"1").await;
        all.extend(harness.submit_ids(vec![draft.clone()]).await);
        active = harness.claim(1).await;
        assert_eq!(active.len(), 1, "there is room for one");
        started.extend(ids(&active));
    }
    assert_eq!(started, all[..started.len()]);
}

pub async fn held_executions_start_before_later_ones_although_their_key_is_always_full(harness: &Harness) {
    assert_first_come_first_served(harness, with_key("tenant", 1)).await;
}

pub async fn held_executions_start_before_later_ones_although_their_quota_is_always_full(harness: &Harness) {
    harness.configure(&harness.quota("few"), concurrency(1)).await;
    assert_first_come_first_served(harness, with_quotas(&["few"])).await;
}

pub async fn held_executions_start_before_later_ones_although_their_budget_is_always_full(harness: &Harness) {
    harness.configure(&harness.budget("month"), token_limit(15)).await;
    assert_first_come_first_served(harness, with_budget("month", 10)).await;
}

/// Fills a gate, holds one execution, and releases it by the end of the first. Returns the released one.
async fn released(harness: &Harness, draft: &Draft) -> ExecutionId {
    let first = harness.leased(draft.clone()).await;
    let held = harness.submit(draft.clone()).await.id;
    assert!(harness.claim(10).await.is_empty());
    harness.complete(&first, b"1").await;
    assert_eq!(harness.state(held).await, StateName::Waiting);
    held
}

async fn promises(harness: &Harness, gate: &GateName) -> Vec<ExecutionId> {
    let promised = harness.gate(gate).await.state.promised;
    promised.into_iter().map(|promise| promise.execution).collect()
}

pub async fn a_promise_ends_by_itself_if_the_released_execution_does_not_start(harness: &Harness) {
    let draft = Draft { lane: "other".into(), ..with_key("tenant", 1) };
    let other = crate::harness::worker::Worker::new("two").on(&["other"]);
    let key = harness.key("tenant");
    harness.submit(draft.clone()).await;
    let first = harness.claim_as(&other, 1).await.remove(0);
    let held = harness.submit(draft).await.id;
    assert!(harness.claim_as(&other, 1).await.is_empty());
    harness.complete(&first, b"1").await;
    assert_eq!(promises(harness, &key).await, [held]);
    // No worker of its lane claims it. A newcomer of another lane waits for the end of the promise.
    let newcomer = harness.submit(with_key("tenant", 1)).await.id;
    assert!(harness.claim(10).await.is_empty());
    harness.assert_held(newcomer, &key).await;
    let due_at = harness.gate(&key).await.due_at.expect("it is due when the promise ends");
    assert!(due_at <= harness.now().await.plus_ms(PROMISE_MS));
    if !harness.has_manual_clock() {
        return;
    }
    harness.advance_past(PROMISE_MS).await;
    harness.check_due_gates().await;
    let active = harness.claim(10).await;
    assert_eq!(ids(&active), [newcomer]);
    // The execution that did not start is held at its first place again.
    let last = harness.submit(with_key("tenant", 1)).await.id;
    assert!(harness.claim(10).await.is_empty());
    assert!(harness.claim_as(&other, 10).await.is_empty());
    harness.assert_held(held, &key).await;
    harness.complete(&active[0], b"1").await;
    harness.assert_states_of(&[held, last], &[StateName::Waiting, StateName::Held]).await;
    let row = harness.row(held).await;
    assert!(row.ready_order < harness.row(last).await.ready_order, "released again, it has its first place");
    assert_eq!(ids(&harness.claim_as(&other, 10).await), [held]);
    assert_eq!(harness.row(held).await.detail.place, None);
}

pub async fn an_execution_that_a_scan_passed_is_released_when_the_promise_ends_that_kept_it(
    harness: &Harness,
) {
    if !harness.has_manual_clock() {
        return;
    }
    let [first, second] =
        [harness.leased(with_key("tenant", 2)).await, harness.leased(with_key("tenant", 2)).await];
    let never_starts = harness.submit(with_key("tenant", 2)).await.id;
    let passed = harness.submit(with_key("tenant", 1)).await.id;
    assert!(harness.claim(10).await.is_empty());
    harness.complete(&first, b"1").await;
    let key = harness.key("tenant");
    assert_eq!(promises(harness, &key).await, [never_starts]);
    // The promise counts against the limit of one. Others may be behind it, so the scan is to continue.
    harness.complete(&second, b"1").await;
    harness.assert_held(passed, &key).await;
    assert!(harness.gate(&key).await.state.looked.is_some(), "the scan has not ended");
    // The promise ends before the scan continues.
    harness.advance_past(PROMISE_MS).await;
    for _ in 0..2 {
        harness.check_due_gates().await;
        harness.advance_past(1000).await;
    }
    assert_eq!(harness.state(passed).await, StateName::Waiting);
}

pub async fn an_execution_that_is_moved_before_a_pending_scan_is_released(harness: &Harness) {
    if !harness.has_manual_clock() {
        return;
    }
    let [first, _second] =
        [harness.leased(with_key("tenant", 2)).await, harness.leased(with_key("tenant", 2)).await];
    harness.submit(with_key("tenant", 1)).await;
    let moved = harness.submit(with_key("tenant", 2)).await.id;
    assert!(harness.claim(10).await.is_empty());
    // The first held execution needs both slots. The scan is to continue behind it.
    harness.complete(&first, b"1").await;
    let key = harness.key("tenant");
    harness.assert_held(moved, &key).await;
    assert!(harness.gate(&key).await.state.looked.is_some(), "the scan has not ended");
    harness.operate(moved, Action::Prioritise { priority: 1 }).await.expect("it is accepted");
    for _ in 0..2 {
        harness.advance_past(1000).await;
        harness.check_due_gates().await;
    }
    assert_eq!(harness.state(moved).await, StateName::Waiting);
}

pub async fn a_promise_is_dropped_when_the_released_execution_ends_or_is_delayed(harness: &Harness) {
    let key = harness.key("tenant");
    for action in
        [Action::Cancel { reason: None, grace_ms: 0 }, Action::Reschedule { until: When::AfterMs(3_600_000) }]
    {
        let gone = released(harness, &with_key("tenant", 1)).await;
        harness.operate(gone, action).await.expect("it is accepted");
        let newcomer = harness.leased(with_key("tenant", 1)).await;
        harness.complete(&newcomer, b"1").await;
    }
    assert_eq!(harness.find_gate(&key).await, None, "a gate that counts nothing has no row");
}

pub async fn a_promise_is_dropped_when_another_gate_refuses_the_released_execution(harness: &Harness) {
    let (key, quota) = (harness.key("tenant"), harness.quota("few"));
    harness.configure(&quota, concurrency(1)).await;
    let both = Draft {
        required_gates: selvedge_core::gate::RequiredGates {
            quotas: with_quotas(&["few"]).required_gates.quotas,
            ..with_key("tenant", 1).required_gates
        },
        ..Draft::new("kind")
    };
    let first = harness.leased(with_key("tenant", 1)).await;
    let held = harness.submit(both).await.id;
    assert!(harness.claim(10).await.is_empty());
    harness.assert_held(held, &key).await;
    let other = harness.leased(with_quotas(&["few"])).await;
    harness.complete(&first, b"1").await;
    assert_eq!(promises(harness, &key).await, [held]);
    assert!(harness.claim(10).await.is_empty());
    harness.assert_held(held, &quota).await;
    assert_eq!(promises(harness, &key).await, []);
    let newcomer = harness.leased(with_key("tenant", 1)).await;
    harness.complete(&newcomer, b"1").await;
    harness.complete(&other, b"1").await;
    assert_eq!(ids(&harness.claim(10).await), [held]);
}

pub async fn a_promised_start_counts_in_the_window_of_a_rate(harness: &Harness) {
    if !harness.has_manual_clock() {
        return;
    }
    harness.configure(&harness.quota("calls"), rate(1, 1000)).await;
    let all = harness.submit_ids(vec![with_quotas(&["calls"]); 2]).await;
    assert_eq!(ids(&harness.claim(10).await), all[..1]);
    let newcomers = harness.submit_ids(vec![with_quotas(&["calls"]); 2]).await;
    harness.advance_past(1010).await;
    harness.check_due_gates().await;
    assert_eq!(harness.state(all[1]).await, StateName::Waiting);
    assert_eq!(ids(&harness.claim(1).await), all[1..], "the newcomers do not take its start");
    harness.assert_states_of(&newcomers, &[StateName::Held; 2]).await;
}

pub async fn a_promise_of_a_budget_reserves_the_amounts(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, token_limit(100)).await;
    let first = harness.leased(with_budget("month", 80)).await;
    let large = harness.submit(with_budget("month", 70)).await.id;
    assert!(harness.claim(10).await.is_empty());
    let (small, tiny) = (
        harness.submit(with_budget("month", 40)).await.id,
        harness.submit(with_budget("month", 30)).await.id,
    );
    harness.report(fence(&first), Op::Release).await.expect("it is released");
    assert_eq!(promises(harness, &budget).await, [large]);
    let claimed = ids(&harness.claim(10).await);
    assert!(claimed.contains(&large) && claimed.contains(&tiny), "{claimed:?}");
    harness.assert_held(small, &budget).await;
    assert_eq!(harness.used_and_reserved(&budget).await.1, tokens(100));
    assert_eq!(promises(harness, &budget).await, []);
}

pub async fn a_gate_without_limits_promises_nothing(harness: &Harness) {
    let quota = harness.quota("few");
    harness.configure(&quota, concurrency(0)).await;
    let all = harness.submit_ids(vec![with_quotas(&["few"]); 3]).await;
    assert!(harness.claim(10).await.is_empty());
    harness.configure(&quota, Config::default()).await;
    assert_eq!(promises(harness, &quota).await, []);
    assert_eq!(ids(&harness.claim(10).await), all);
}
