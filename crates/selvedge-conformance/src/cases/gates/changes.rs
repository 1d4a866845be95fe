//! Changes of gates while executions are active or held, and held executions with different draws: every admissible one
//! is released.

use crate::harness::Harness;
use crate::harness::fence;
use crate::harness::gates::{
    ids, rate, token_limit, token_limit_each, tokens, with_budget, with_key, with_quotas,
};
use selvedge_core::fact::{self, Fact, Next};
use selvedge_core::gate::{BudgetScope, Config, GateName, LedgerEntry, OnHard};
use selvedge_core::rules::gates::budget::{Breach, Spend};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use selvedge_core::table::Guarded;
use selvedge_core::{Changes, ExecutionId, Name, Outcome};

/// Returns the part of a budget for an execution without a flow, which is its own flow.
fn part(budget: &GateName, id: ExecutionId) -> GateName {
    budget.clone().part(Name::trusted(&id.to_string()))
}

/// Asserts that a gate is due within two seconds and releases an execution when it is checked.
async fn assert_releases_soon(harness: &Harness, gate: &GateName) {
    let due_at = harness.gate(gate).await.due_at.expect("it is due for a check");
    assert!(due_at < harness.now().await.plus_ms(2000), "soon");
    assert!(harness.check_gate(gate).await > 0, "an execution is released");
}

pub async fn an_execution_that_needs_more_than_is_left_does_not_block_those_behind_it(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, token_limit(100)).await;
    harness.spend("month", 60, None).await;
    let active = harness.leased(with_budget("month", 40)).await;
    let all = harness
        .submit_ids(vec![with_budget("month", 50), with_budget("month", 10), with_budget("month", 10)])
        .await;
    assert!(harness.claim(10).await.is_empty());
    for id in &all {
        harness.assert_held(*id, &budget).await;
    }
    // 40 are left, which is not enough for the first execution until the period ends.
    harness.complete(&active, b"1").await;
    assert_releases_soon(harness, &budget).await;
    assert_eq!(ids(&harness.claim(10).await), all[1..]);
    harness.assert_held(all[0], &budget).await;
    harness.reset(&budget).await;
    assert_eq!(ids(&harness.claim(10).await), all[..1]);
}

pub async fn an_execution_with_a_lower_limit_does_not_block_one_with_a_higher_limit(harness: &Harness) {
    let key = harness.key("a");
    let all = harness.submit_ids(vec![with_key("a", 3), with_key("a", 3), with_key("a", 3)]).await;
    let active = harness.claim(10).await;
    assert_eq!(ids(&active), all);
    let held = harness.submit_ids(vec![with_key("a", 1), with_key("a", 3), with_key("a", 3)]).await;
    assert!(harness.claim(10).await.is_empty());
    harness.complete(&active[0], b"1").await;
    assert_releases_soon(harness, &key).await;
    assert_eq!(ids(&harness.claim(10).await), held[1..2], "two are active, and its limit is three");
    harness.assert_held(held[0], &key).await;
}

pub async fn executions_held_by_a_part_are_released_when_parts_are_no_longer_counted(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, token_limit_each(10, BudgetScope::Lane)).await;
    let active = harness.leased(with_budget("month", 10)).await;
    harness.spend("month", 10, Some(active.execution.id)).await;
    let id = harness.submit(with_budget("month", 1)).await.id;
    assert!(harness.claim(10).await.is_empty());
    let lane = budget.clone().part(Name::trusted("default"));
    harness.assert_held(id, &lane).await;
    harness.configure(&budget, token_limit(10)).await;
    harness.check_gate(&lane).await;
    assert_eq!(ids(&harness.claim(10).await), [id], "the budget as a whole has no usage");
    harness.complete(&active, b"1").await;
    assert_eq!(
        harness.used_and_reserved(&lane).await.1,
        tokens(0),
        "the reservation is given back to the part"
    );
}

pub async fn removing_a_budget_releases_all_of_its_held_executions(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, token_limit_each(20, BudgetScope::Lane)).await;
    harness.submit_ids(vec![with_budget("month", 10); 2]).await;
    let active = harness.claim(2).await;
    let part = budget.clone().part(Name::trusted("default"));
    let count = 250;
    harness.submit_ids(vec![with_budget("month", 10); count]).await;
    while harness.held_by(&part).await < count as u64 {
        assert!(harness.claim(100).await.is_empty());
    }
    harness.unconfigure(&budget).await;
    harness.check_gate(&part).await;
    let held = harness.held_by(&part).await;
    assert!(held > 0, "not all in one transaction");
    // An execution that ends meanwhile does not cancel the pending check.
    harness.complete(&active[0], b"1").await;
    assert!(harness.gate(&part).await.due_at.is_some(), "it is due for a check");
    harness.complete(&active[1], b"1").await;
    assert!(harness.gate(&part).await.due_at.is_some(), "it is due for a check");
    for _ in 0..count / 100 {
        harness.check_gate(&part).await;
    }
    assert_eq!(harness.held_by(&part).await, 0);
}

pub async fn a_period_configured_later_applies_to_parts_too(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, token_limit_each(10, BudgetScope::Flow)).await;
    let active = harness.leased(with_budget("month", 1)).await;
    let part = part(&budget, active.execution.id);
    harness.spend("month", 10, Some(active.execution.id)).await;
    harness.report(fence(&active), Op::Release).await.expect("it is put back");
    assert!(harness.claim(10).await.is_empty());
    harness.assert_held(active.execution.id, &part).await;
    harness
        .configure(&budget, Config { period_ms: Some(3_600_000), ..token_limit_each(10, BudgetScope::Flow) })
        .await;
    harness.check_gate(&part).await;
    let far = harness.gate(&part).await.state.resets_at.expect("it has a period");
    harness
        .configure(&budget, Config { period_ms: Some(5), ..token_limit_each(10, BudgetScope::Flow) })
        .await;
    harness.check_gate(&part).await;
    let near = harness.gate(&part).await.state.resets_at.expect("it has a period");
    assert!(near < far, "{near:?} is before {far:?}");
    harness.advance_past(5).await;
    harness.check_due_gates().await;
    assert_eq!(ids(&harness.claim(10).await), [active.execution.id]);
    harness.configure(&budget, token_limit_each(10, BudgetScope::Flow)).await;
    harness.check_gate(&part).await;
    assert_eq!(harness.gate(&part).await.state.resets_at, None, "it no longer has a period");
}

pub async fn limits_lowered_below_the_usage_stop_active_executions(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, token_limit(100)).await;
    let all = harness.submit_ids(vec![with_budget("month", 10); 2]).await;
    assert_eq!(ids(&harness.claim(10).await), all);
    harness.spend("month", 50, Some(all[0])).await;
    harness.configure(&budget, Config { on_hard: OnHard::Suspend, ..token_limit(60) }).await;
    harness.check_due_gates().await;
    harness.assert_states_of(&all, &[StateName::Active; 2]).await;
    harness.configure(&budget, Config { on_hard: OnHard::Suspend, ..token_limit(50) }).await;
    harness.check_due_gates().await;
    harness.assert_states_of(&all, &[StateName::Suspended; 2]).await;
    assert!(!harness.gate(&budget).await.state.stops, "all were stopped");
}

pub async fn an_execution_that_spends_on_under_an_exhausted_budget_is_stopped(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, token_limit_each(100, BudgetScope::Flow)).await;
    let active = harness.leased(with_budget("month", 10)).await;
    harness.report_usage(&active, "month", 50).await.expect("it is counted");
    let lowered = Config { on_hard: OnHard::Fail, ..token_limit_each(50, BudgetScope::Flow) };
    harness.configure(&budget, lowered).await;
    harness.check_due_gates().await;
    assert_eq!(
        harness.state(active.execution.id).await,
        StateName::Active,
        "a configuration does not check parts"
    );
    harness.report_usage(&active, "month", 1).await.expect("it is counted");
    harness.check_due_gates().await;
    assert_eq!(harness.state(active.execution.id).await, StateName::Failed);
    harness.report_usage(&active, "month", 1).await.expect("usage from before its end is counted");
    let part = harness.gate(&part(&budget, active.execution.id)).await;
    assert!(!part.state.stops, "no active execution is left to stop: {part:?}");
}

pub async fn an_execution_with_a_requested_cancellation_is_cancelled_when_its_budget_is_exhausted(
    harness: &Harness,
) {
    for on_hard in [OnHard::Suspend, OnHard::Fail] {
        let name = on_hard.as_str();
        harness.configure(&harness.budget(name), Config { on_hard, ..token_limit(10) }).await;
        let active = harness.leased(with_budget(name, 10)).await;
        let id = active.execution.id;
        let cancel = Action::Cancel { reason: None, grace_ms: 60_000 };
        harness.operate(id, cancel).await.expect("the cancellation is requested");
        harness.report_usage(&active, name, 10).await.expect("it is counted");
        harness.check_due_gates().await;
        let row = harness.row(id).await;
        assert_eq!((row.state.outcome(), row.detail.cancel), (Some(Outcome::Cancelled), None));
        let facts: Vec<Fact> =
            row.history.lines().expect("history is decoded").into_iter().map(|line| line.fact).collect();
        assert!(
            matches!(
                facts.last(),
                Some(Fact::Breached(fact::Breached { next: Next::Terminal(Outcome::Cancelled), .. }))
            ),
            "{facts:?}"
        );
        assert_eq!(harness.used_and_reserved(&harness.budget(name)).await, (tokens(10), tokens(0)));
    }
}

pub async fn usage_of_budgets_with_similar_names_is_counted_separately(harness: &Harness) {
    for (budget, key) in [("a", "b:c"), ("a:b", "c")] {
        harness.configure(&harness.budget(budget), token_limit(100)).await;
        let spend =
            Spend { dedup_key: Some(Name::trusted(key)), ..harness.spend_command(budget, tokens(3), None) };
        assert!(!harness.run(spend.clone()).await.expect("it is counted").duplicate);
        assert!(harness.run(spend).await.expect("it was counted before").duplicate);
        assert_eq!(harness.used_and_reserved(&harness.budget(budget)).await.0, tokens(3));
    }
}

pub async fn an_execution_suspended_by_a_budget_resumes_before_held_ones_that_need_more(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, Config { on_hard: OnHard::Suspend, ..token_limit(100) }).await;
    let (large, small) =
        (harness.leased(with_budget("month", 50)).await, harness.leased(with_budget("month", 5)).await);
    let held = harness.submit(with_budget("month", 60)).await.id;
    assert!(harness.claim(10).await.is_empty());
    harness.assert_held(held, &budget).await;
    assert_eq!(harness.stop(&budget).await, 0);
    harness.spend("month", 100, None).await;
    let stopped = harness.run(Breach { execution: small.execution.id, gate: budget.clone() }).await;
    assert_eq!(stopped, Ok(true));
    // The usage is corrected without a check of held executions; 50 are reserved for the active one.
    let mut gate = harness.gate(&budget).await;
    let (expected, less) = (Some(gate.version), tokens(45));
    gate.state.used.clone_from(&less);
    gate.version += 1;
    let entry = LedgerEntry { gate: budget.id(), period: gate.state.period, execution: None, spent: less };
    harness
        .save(Changes {
            gates: Guarded::writing([(gate, expected)]),
            ledger: vec![entry],
            ..Changes::default()
        })
        .await;
    harness.complete(&large, b"1").await;
    assert_eq!(harness.state(small.execution.id).await, StateName::Waiting, "55 are left, and it needs 5");
    harness.assert_held(held, &budget).await;
}

/// Checks due gates for `ms` milliseconds and returns the number of executions that started.
async fn started_within(harness: &Harness, ms: i64) -> usize {
    let until = harness.now().await.plus_ms(ms);
    let mut started = 0;
    while harness.now().await < until {
        started += harness.claim(100).await.len();
        harness.advance_past(1).await;
        harness.check_due_gates().await;
    }
    started
}

pub async fn held_executions_use_a_rate_fully_although_nothing_ends(harness: &Harness) {
    harness.configure(&harness.quota("calls"), rate(5, 50)).await;
    harness.submit_ids(vec![with_quotas(&["calls"]); 60]).await;
    // Ten windows; a store may need some time for each check.
    let started = started_within(harness, 500).await;
    assert!(started >= 25, "{started} were started in ten windows for five");
}
