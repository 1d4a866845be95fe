//! Gates whose configuration changes while something runs or is held, and those that are held together and ask for different
//! things: what can go on does.
#![allow(missing_docs)]

use super::Harness;
use super::gate_harness::{at_most, at_most_each, ids, keyed, quoted, spending, starts, tokens};
use super::harness::fence;
use selvedge_core::fact::{Fact, Next};
use selvedge_core::gate::{BudgetScope, Config, GateName, LedgerEntry, OnHard};
use selvedge_core::rules::gates::budget::{Breach, Spend};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use selvedge_core::table::Guarded;
use selvedge_core::{Changes, ExecutionId, Name, Outcome};

async fn submit_all(harness: &Harness, drafts: Vec<selvedge_core::Draft>) -> Vec<ExecutionId> {
    harness.submit_all(drafts).await.iter().map(|row| row.id).collect()
}

/// The part of a budget that counts a lone execution, which is its own flow.
fn part(budget: &GateName, id: ExecutionId) -> GateName {
    budget.clone().part(Name::trusted(&id.to_string()))
}

/// A gate is looked at within a second or so, and lets something go on then.
async fn goes_on_soon(harness: &Harness, gate: &GateName) {
    let due_at = harness.gate(gate).await.due_at.expect("it is looked at");
    assert!(due_at < harness.now().await.plus_ms(2000), "soon");
    assert!(harness.look_at(gate).await > 0, "something goes on");
}

pub async fn one_that_asks_for_more_than_is_left_keeps_nobody_behind_it_held(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, at_most(100)).await;
    harness.spend("month", 60, None).await;
    let runs = harness.leased(spending("month", 40)).await;
    let all =
        submit_all(harness, vec![spending("month", 50), spending("month", 10), spending("month", 10)]).await;
    assert!(harness.claim(10).await.is_empty());
    for id in &all {
        harness.is_held(*id, &budget).await;
    }
    // 40 are left: not enough for the first, for the rest of the period.
    harness.complete(&runs, b"1").await;
    goes_on_soon(harness, &budget).await;
    assert_eq!(ids(&harness.claim(10).await), all[1..]);
    harness.is_held(all[0], &budget).await;
    harness.reset(&budget).await;
    assert_eq!(ids(&harness.claim(10).await), all[..1]);
}

pub async fn one_that_allows_fewer_keeps_nobody_behind_it_held_who_allows_more(harness: &Harness) {
    let key = harness.key("a");
    let all = submit_all(harness, vec![keyed("a", 3), keyed("a", 3), keyed("a", 3)]).await;
    let running = harness.claim(10).await;
    assert_eq!(ids(&running), all);
    let held = submit_all(harness, vec![keyed("a", 1), keyed("a", 3), keyed("a", 3)]).await;
    assert!(harness.claim(10).await.is_empty());
    harness.complete(&running[0], b"1").await;
    goes_on_soon(harness, &key).await;
    assert_eq!(ids(&harness.claim(10).await), held[1..2], "two are active, and it allows three");
    harness.is_held(held[0], &key).await;
}

pub async fn what_a_part_of_a_budget_holds_goes_on_when_parts_are_not_counted_any_more(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, at_most_each(10, BudgetScope::Lane)).await;
    let runs = harness.leased(spending("month", 10)).await;
    harness.spend("month", 10, Some(runs.execution.id)).await;
    let id = harness.submit(spending("month", 1)).await.id;
    assert!(harness.claim(10).await.is_empty());
    let lane = budget.clone().part(Name::trusted("default"));
    harness.is_held(id, &lane).await;
    harness.configure(&budget, at_most(10)).await;
    harness.look_at(&lane).await;
    assert_eq!(ids(&harness.claim(10).await), [id], "nothing was spent of the budget as a whole");
    harness.complete(&runs, b"1").await;
    assert_eq!(
        harness.used_and_reserved(&lane).await.1,
        tokens(0),
        "what the part had reserved is given back to it"
    );
}

pub async fn what_many_wait_for_in_a_budget_that_is_removed_goes_on_to_the_last(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, at_most_each(20, BudgetScope::Lane)).await;
    submit_all(harness, vec![spending("month", 10); 2]).await;
    let runs = harness.claim(2).await;
    let part = budget.clone().part(Name::trusted("default"));
    let count = 250;
    submit_all(harness, vec![spending("month", 10); count]).await;
    while harness.held_by(&part).await < count as u64 {
        assert!(harness.claim(100).await.is_empty());
    }
    harness.unconfigure(&budget).await;
    harness.look_at(&part).await;
    let held = harness.held_by(&part).await;
    assert!(held > 0, "not all in one go");
    // One that ends meanwhile does not make the rest be forgotten.
    harness.complete(&runs[0], b"1").await;
    assert!(harness.gate(&part).await.due_at.is_some(), "it is looked at");
    harness.complete(&runs[1], b"1").await;
    assert!(harness.gate(&part).await.due_at.is_some(), "it is looked at");
    for _ in 0..count / 100 {
        harness.look_at(&part).await;
    }
    assert_eq!(harness.held_by(&part).await, 0);
}

pub async fn a_period_that_a_budget_is_given_later_counts_for_its_parts_too(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, at_most_each(10, BudgetScope::Flow)).await;
    let runs = harness.leased(spending("month", 1)).await;
    let part = part(&budget, runs.execution.id);
    harness.spend("month", 10, Some(runs.execution.id)).await;
    harness.report(fence(&runs), Op::Release).await.expect("it is put back");
    assert!(harness.claim(10).await.is_empty());
    harness.is_held(runs.execution.id, &part).await;
    harness
        .configure(&budget, Config { period_ms: Some(3_600_000), ..at_most_each(10, BudgetScope::Flow) })
        .await;
    harness.look_at(&part).await;
    let far = harness.gate(&part).await.state.resets_at.expect("its period ends");
    harness.configure(&budget, Config { period_ms: Some(5), ..at_most_each(10, BudgetScope::Flow) }).await;
    harness.look_at(&part).await;
    let near = harness.gate(&part).await.state.resets_at.expect("its period ends");
    assert!(near < far, "{near:?} is before {far:?}");
    harness.pass(5).await;
    harness.look_at_due().await;
    assert_eq!(ids(&harness.claim(10).await), [runs.execution.id]);
    harness.configure(&budget, at_most_each(10, BudgetScope::Flow)).await;
    harness.look_at(&part).await;
    assert_eq!(harness.gate(&part).await.state.resets_at, None, "it has no period any more");
}

pub async fn limits_that_are_lowered_below_what_is_used_stop_what_runs(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, at_most(100)).await;
    let all = submit_all(harness, vec![spending("month", 10); 2]).await;
    assert_eq!(ids(&harness.claim(10).await), all);
    harness.spend("month", 50, Some(all[0])).await;
    harness.configure(&budget, Config { on_hard: OnHard::Suspend, ..at_most(60) }).await;
    harness.look_at_due().await;
    harness.stand(&all, &[StateName::Active; 2]).await;
    harness.configure(&budget, Config { on_hard: OnHard::Suspend, ..at_most(50) }).await;
    harness.look_at_due().await;
    harness.stand(&all, &[StateName::Suspended; 2]).await;
    assert!(!harness.gate(&budget).await.state.stops, "that is done");
}

pub async fn one_that_spends_on_under_a_budget_that_is_used_up_is_stopped(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, at_most_each(100, BudgetScope::Flow)).await;
    let runs = harness.leased(spending("month", 10)).await;
    harness.use_up(&runs, "month", 50).await.expect("it is counted");
    let lowered = Config { on_hard: OnHard::Fail, ..at_most_each(50, BudgetScope::Flow) };
    harness.configure(&budget, lowered).await;
    harness.look_at_due().await;
    assert_eq!(harness.state(runs.execution.id).await, StateName::Active, "nobody knows of its part");
    harness.use_up(&runs, "month", 1).await.expect("it is counted");
    harness.look_at_due().await;
    assert_eq!(harness.state(runs.execution.id).await, StateName::Failed);
    harness.use_up(&runs, "month", 1).await.expect("what it spent before its end counts");
    let part = harness.gate(&part(&budget, runs.execution.id)).await;
    assert!(!part.state.stops, "nothing that runs is left to be stopped: {part:?}");
}

pub async fn one_that_was_asked_to_cancel_is_cancelled_when_its_budget_is_used_up(harness: &Harness) {
    for on_hard in [OnHard::Suspend, OnHard::Fail] {
        let name = on_hard.as_str();
        harness.configure(&harness.budget(name), Config { on_hard, ..at_most(10) }).await;
        let runs = harness.leased(spending(name, 10)).await;
        let id = runs.execution.id;
        let cancel = Action::Cancel { reason: None, grace_ms: 60_000 };
        harness.operate(id, cancel).await.expect("its worker is asked");
        harness.use_up(&runs, name, 10).await.expect("it is counted");
        harness.look_at_due().await;
        let row = harness.row(id).await;
        assert_eq!((row.state.outcome(), row.detail.cancel), (Some(Outcome::Cancelled), None));
        let facts: Vec<Fact> =
            row.history.lines().expect("they are read").into_iter().map(|line| line.fact).collect();
        assert!(
            matches!(facts.last(), Some(Fact::Breached { next: Next::Terminal(Outcome::Cancelled), .. })),
            "{facts:?}"
        );
        assert_eq!(harness.used_and_reserved(&harness.budget(name)).await, (tokens(10), tokens(0)));
    }
}

pub async fn what_was_spent_of_different_budgets_is_told_apart_whatever_their_names(harness: &Harness) {
    for (budget, key) in [("a", "b:c"), ("a:b", "c")] {
        harness.configure(&harness.budget(budget), at_most(100)).await;
        let spend =
            Spend { dedup_key: Some(Name::trusted(key)), ..harness.spend_command(budget, tokens(3), None) };
        assert_eq!(harness.run(spend.clone()).await, Ok(true));
        assert_eq!(harness.run(spend).await, Ok(false));
        assert_eq!(harness.used_and_reserved(&harness.budget(budget)).await.0, tokens(3));
    }
}

pub async fn one_that_a_budget_has_suspended_and_asks_for_less_than_the_held_goes_on_as_soon_as_there_is_room(
    harness: &Harness,
) {
    let budget = harness.budget("month");
    harness.configure(&budget, Config { on_hard: OnHard::Suspend, ..at_most(100) }).await;
    let (large, small) =
        (harness.leased(spending("month", 50)).await, harness.leased(spending("month", 5)).await);
    let held = harness.submit(spending("month", 60)).await.id;
    assert!(harness.claim(10).await.is_empty());
    harness.is_held(held, &budget).await;
    assert_eq!(harness.stop(&budget).await, 0);
    harness.spend("month", 100, None).await;
    let stopped = harness.run(Breach { execution: small.execution.id, gate: budget.clone() }).await;
    assert_eq!(stopped, Ok(true));
    // Someone corrects what was spent, without a look at what waits; 50 are reserved for the one that runs.
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
    assert_eq!(harness.state(small.execution.id).await, StateName::Waiting, "55 are left, and it asks for 5");
    harness.is_held(held, &budget).await;
}

/// What is started of a quota by looking at it whenever it is due, for so long.
async fn started_within(harness: &Harness, ms: i64) -> usize {
    let until = harness.now().await.plus_ms(ms);
    let mut started = 0;
    while harness.now().await < until {
        started += harness.claim(100).await.len();
        harness.pass(1).await;
        harness.look_at_due().await;
    }
    started
}

pub async fn a_rate_is_used_to_the_full_by_what_is_held_although_nothing_ends(harness: &Harness) {
    harness.configure(&harness.quota("calls"), starts(5, 50)).await;
    submit_all(harness, vec![quoted(&["calls"]); 60]).await;
    // Ten windows; a store may need some time for each look.
    let started = started_within(harness, 500).await;
    assert!(started >= 25, "{started} were started in ten windows for five");
}
