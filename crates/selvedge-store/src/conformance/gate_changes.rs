//! Gates whose configuration changes while something runs or is held, and those that are held together and ask for different
//! things: what can go on does.
#![allow(missing_docs)]

use super::Bench;
use super::bench::fence;
use super::gate_bench::{at_most, at_most_each, ids, keyed, quoted, spending, starts, tokens};
use selvedge_core::fact::{Fact, Next};
use selvedge_core::gate::{BudgetScope, Config, GateName, LedgerEntry, OnHard};
use selvedge_core::rules::budget::{Breach, Spend};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use selvedge_core::{Changes, ExecutionId, Name, Outcome};

async fn submit_all(bench: &Bench, drafts: Vec<selvedge_core::Draft>) -> Vec<ExecutionId> {
    bench.submit_all(drafts).await.iter().map(|row| row.id).collect()
}

/// The part of a budget that counts a lone execution, which is its own flow.
fn part(budget: &GateName, id: ExecutionId) -> GateName {
    budget.clone().part(Name::trusted(&id.to_string()))
}

/// A gate is looked at within a second or so, and lets something go on then.
async fn goes_on_soon(bench: &Bench, gate: &GateName) {
    let due_at = bench.gate(gate).await.due_at.expect("it is looked at");
    assert!(due_at < bench.now().await.plus_ms(2000), "soon");
    assert!(bench.look_at(gate).await > 0, "something goes on");
}

pub async fn one_that_asks_for_more_than_is_left_keeps_nobody_behind_it_held(bench: &Bench) {
    let budget = bench.budget("month");
    bench.configure(&budget, at_most(100)).await;
    bench.spend("month", 60, None).await;
    let runs = bench.leased(spending("month", 40)).await;
    let all =
        submit_all(bench, vec![spending("month", 50), spending("month", 10), spending("month", 10)]).await;
    assert!(bench.claim(10).await.is_empty());
    for id in &all {
        bench.is_held(*id, &budget).await;
    }
    // 40 are left: not enough for the first, for the rest of the period.
    bench.complete(&runs, b"1").await;
    goes_on_soon(bench, &budget).await;
    assert_eq!(ids(&bench.claim(10).await), all[1..]);
    bench.is_held(all[0], &budget).await;
    bench.reset(&budget).await;
    assert_eq!(ids(&bench.claim(10).await), all[..1]);
}

pub async fn one_that_allows_fewer_keeps_nobody_behind_it_held_who_allows_more(bench: &Bench) {
    let key = bench.key("a");
    let all = submit_all(bench, vec![keyed("a", 3), keyed("a", 3), keyed("a", 3)]).await;
    let running = bench.claim(10).await;
    assert_eq!(ids(&running), all);
    let held = submit_all(bench, vec![keyed("a", 1), keyed("a", 3), keyed("a", 3)]).await;
    assert!(bench.claim(10).await.is_empty());
    bench.complete(&running[0], b"1").await;
    goes_on_soon(bench, &key).await;
    assert_eq!(ids(&bench.claim(10).await), held[1..2], "two are active, and it allows three");
    bench.is_held(held[0], &key).await;
}

pub async fn what_a_part_of_a_budget_holds_goes_on_when_parts_are_not_counted_any_more(bench: &Bench) {
    let budget = bench.budget("month");
    bench.configure(&budget, at_most_each(10, BudgetScope::Lane)).await;
    let runs = bench.leased(spending("month", 10)).await;
    bench.spend("month", 10, Some(runs.execution.id)).await;
    let id = bench.submit(spending("month", 1)).await.id;
    assert!(bench.claim(10).await.is_empty());
    let lane = budget.clone().part(Name::trusted("default"));
    bench.is_held(id, &lane).await;
    bench.configure(&budget, at_most(10)).await;
    bench.look_at(&lane).await;
    assert_eq!(ids(&bench.claim(10).await), [id], "nothing was spent of the budget as a whole");
    bench.complete(&runs, b"1").await;
    assert_eq!(
        bench.used_and_reserved(&lane).await.1,
        tokens(0),
        "what the part had reserved is given back to it"
    );
}

pub async fn what_many_wait_for_in_a_budget_that_is_removed_goes_on_to_the_last(bench: &Bench) {
    let budget = bench.budget("month");
    bench.configure(&budget, at_most_each(20, BudgetScope::Lane)).await;
    submit_all(bench, vec![spending("month", 10); 2]).await;
    let runs = bench.claim(2).await;
    let part = budget.clone().part(Name::trusted("default"));
    let count = 250;
    submit_all(bench, vec![spending("month", 10); count]).await;
    while bench.held_by(&part).await < count as u64 {
        assert!(bench.claim(100).await.is_empty());
    }
    bench.unconfigure(&budget).await;
    bench.look_at(&part).await;
    let held = bench.held_by(&part).await;
    assert!(held > 0, "not all in one go");
    // One that ends meanwhile does not make the rest be forgotten.
    bench.complete(&runs[0], b"1").await;
    assert!(bench.gate(&part).await.due_at.is_some(), "it is looked at");
    bench.complete(&runs[1], b"1").await;
    assert!(bench.gate(&part).await.due_at.is_some(), "it is looked at");
    for _ in 0..count / 100 {
        bench.look_at(&part).await;
    }
    assert_eq!(bench.held_by(&part).await, 0);
}

pub async fn a_period_that_a_budget_is_given_later_counts_for_its_parts_too(bench: &Bench) {
    let budget = bench.budget("month");
    bench.configure(&budget, at_most_each(10, BudgetScope::Flow)).await;
    let runs = bench.leased(spending("month", 1)).await;
    let part = part(&budget, runs.execution.id);
    bench.spend("month", 10, Some(runs.execution.id)).await;
    bench.report(fence(&runs), Op::Release).await.expect("it is put back");
    assert!(bench.claim(10).await.is_empty());
    bench.is_held(runs.execution.id, &part).await;
    bench
        .configure(&budget, Config { period_ms: Some(3_600_000), ..at_most_each(10, BudgetScope::Flow) })
        .await;
    bench.look_at(&part).await;
    let far = bench.gate(&part).await.state.resets_at.expect("its period ends");
    bench.configure(&budget, Config { period_ms: Some(5), ..at_most_each(10, BudgetScope::Flow) }).await;
    bench.look_at(&part).await;
    let near = bench.gate(&part).await.state.resets_at.expect("its period ends");
    assert!(near < far, "{near:?} is before {far:?}");
    bench.pass(5).await;
    bench.look_at_due().await;
    assert_eq!(ids(&bench.claim(10).await), [runs.execution.id]);
    bench.configure(&budget, at_most_each(10, BudgetScope::Flow)).await;
    bench.look_at(&part).await;
    assert_eq!(bench.gate(&part).await.state.resets_at, None, "it has no period any more");
}

pub async fn limits_that_are_lowered_below_what_is_used_stop_what_runs(bench: &Bench) {
    let budget = bench.budget("month");
    bench.configure(&budget, at_most(100)).await;
    let all = submit_all(bench, vec![spending("month", 10); 2]).await;
    assert_eq!(ids(&bench.claim(10).await), all);
    bench.spend("month", 50, Some(all[0])).await;
    bench.configure(&budget, Config { on_hard: OnHard::Suspend, ..at_most(60) }).await;
    bench.look_at_due().await;
    bench.stand(&all, &[StateName::Leased; 2]).await;
    bench.configure(&budget, Config { on_hard: OnHard::Suspend, ..at_most(50) }).await;
    bench.look_at_due().await;
    bench.stand(&all, &[StateName::Suspended; 2]).await;
    assert!(!bench.gate(&budget).await.state.stops, "that is done");
}

pub async fn one_that_spends_on_under_a_budget_that_is_used_up_is_stopped(bench: &Bench) {
    let budget = bench.budget("month");
    bench.configure(&budget, at_most_each(100, BudgetScope::Flow)).await;
    let runs = bench.leased(spending("month", 10)).await;
    bench.use_up(&runs, "month", 50).await.expect("it is counted");
    let lowered = Config { on_hard: OnHard::Fail, ..at_most_each(50, BudgetScope::Flow) };
    bench.configure(&budget, lowered).await;
    bench.look_at_due().await;
    assert_eq!(bench.state(runs.execution.id).await, StateName::Leased, "nobody knows of its part");
    bench.use_up(&runs, "month", 1).await.expect("it is counted");
    bench.look_at_due().await;
    assert_eq!(bench.state(runs.execution.id).await, StateName::Failed);
    bench.use_up(&runs, "month", 1).await.expect("what it spent before its end counts");
    let part = bench.gate(&part(&budget, runs.execution.id)).await;
    assert!(!part.state.stops, "nothing that runs is left to be stopped: {part:?}");
}

pub async fn one_that_was_asked_to_cancel_is_cancelled_when_its_budget_is_used_up(bench: &Bench) {
    for on_hard in [OnHard::Suspend, OnHard::Fail] {
        let name = on_hard.as_str();
        bench.configure(&bench.budget(name), Config { on_hard, ..at_most(10) }).await;
        let runs = bench.leased(spending(name, 10)).await;
        let id = runs.execution.id;
        let cancel = Action::Cancel { reason: None, grace_ms: 60_000 };
        bench.operate(id, cancel).await.expect("its worker is asked");
        bench.use_up(&runs, name, 10).await.expect("it is counted");
        bench.look_at_due().await;
        let row = bench.row(id).await;
        assert_eq!((row.state.outcome(), row.detail.cancel), (Some(Outcome::Cancelled), None));
        let facts: Vec<Fact> =
            row.history.lines().expect("they are read").into_iter().map(|line| line.fact).collect();
        assert!(
            matches!(facts.last(), Some(Fact::Breached { next: Next::Terminal(Outcome::Cancelled), .. })),
            "{facts:?}"
        );
        assert_eq!(bench.used_and_reserved(&bench.budget(name)).await, (tokens(10), tokens(0)));
    }
}

pub async fn what_was_spent_of_different_budgets_is_told_apart_whatever_their_names(bench: &Bench) {
    for (budget, key) in [("a", "b:c"), ("a:b", "c")] {
        bench.configure(&bench.budget(budget), at_most(100)).await;
        let spend =
            Spend { dedup_key: Some(Name::trusted(key)), ..bench.spend_command(budget, tokens(3), None) };
        assert_eq!(bench.run(spend.clone()).await, Ok(true));
        assert_eq!(bench.run(spend).await, Ok(false));
        assert_eq!(bench.used_and_reserved(&bench.budget(budget)).await.0, tokens(3));
    }
}

pub async fn one_that_a_budget_has_suspended_and_asks_for_less_than_the_held_goes_on_as_soon_as_there_is_room(
    bench: &Bench,
) {
    let budget = bench.budget("month");
    bench.configure(&budget, Config { on_hard: OnHard::Suspend, ..at_most(100) }).await;
    let (large, small) =
        (bench.leased(spending("month", 50)).await, bench.leased(spending("month", 5)).await);
    let held = bench.submit(spending("month", 60)).await.id;
    assert!(bench.claim(10).await.is_empty());
    bench.is_held(held, &budget).await;
    assert_eq!(bench.stop(&budget).await, 0);
    bench.spend("month", 100, None).await;
    let stopped = bench.run(Breach { execution: small.execution.id, gate: budget.clone() }).await;
    assert_eq!(stopped, Ok(true));
    // Someone corrects what was spent, without a look at what waits; 50 are reserved for the one that runs.
    let mut gate = bench.gate(&budget).await;
    let (expected, less) = (Some(gate.version), tokens(45));
    gate.state.used.clone_from(&less);
    gate.version += 1;
    let entry = LedgerEntry { gate: budget.id(), period: gate.state.period, execution: None, spent: less };
    bench.save(Changes { gates: vec![(gate, expected)], ledger: vec![entry], ..Changes::default() }).await;
    bench.complete(&large, b"1").await;
    assert_eq!(bench.state(small.execution.id).await, StateName::Ready, "55 are left, and it asks for 5");
    bench.is_held(held, &budget).await;
}

/// What is started of a quota by looking at it whenever it is due, for so long.
async fn started_within(bench: &Bench, ms: i64) -> usize {
    let until = bench.now().await.plus_ms(ms);
    let mut started = 0;
    while bench.now().await < until {
        started += bench.claim(100).await.len();
        bench.pass(1).await;
        bench.look_at_due().await;
    }
    started
}

pub async fn a_rate_is_used_to_the_full_by_what_is_held_although_nothing_ends(bench: &Bench) {
    bench.configure(&bench.quota("calls"), starts(5, 50)).await;
    submit_all(bench, vec![quoted(&["calls"]); 60]).await;
    // Ten windows; a store may need some time for each look.
    let started = started_within(bench, 500).await;
    assert!(started >= 25, "{started} were started in ten windows for five");
}
