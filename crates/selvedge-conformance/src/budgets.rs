//! Budgets: what a claim may spend is reserved, what was spent is counted always and once, and what is used up holds, and by
//! policy stops what runs.
#![allow(missing_docs)]

use super::gate_harness::{at_most, at_most_each, drawing, ids, spending, tokens};
use super::harness::{Harness, fence};
use super::rows::is_read_everywhere;
use super::rule::Each;
use super::side_by_side;
use super::sketch::Sketch;
use super::worker::Worker;
use selvedge_core::amount::Amount;
use selvedge_core::gate::{Amounts, BudgetScope, Config, Draws, Limit, OnHard};
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::gates::budget::{Reset, Spend};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use selvedge_core::{Draft, DueKind, ExecutionId, Fact, FailureClass, Name, Outcome, Policy, State};

async fn submit_all(harness: &Harness, drafts: Vec<Draft>) -> Vec<ExecutionId> {
    harness.submit_all(drafts).await.into_iter().map(|row| row.id).collect()
}

fn amounts(list: &[(&str, &str)]) -> Amounts {
    let amount = |text: &str| Amount::parse(text).expect("it is an amount");
    list.iter().map(|(dimension, text)| ((*dimension).to_owned(), amount(text))).collect()
}

/// What the log tells of budgets, in order.
async fn told(harness: &Harness) -> Vec<Fact> {
    let events = harness.log().await.into_iter().flat_map(|(_, events)| events);
    let of_budgets = |fact: &Fact| {
        matches!(fact, Fact::Spent { .. } | Fact::LimitReached { .. } | Fact::BudgetReset { .. })
    };
    events.map(|event| event.fact).filter(of_budgets).collect()
}

pub async fn a_claim_is_admitted_while_what_is_used_and_reserved_leaves_room(harness: &Harness) {
    // Used, reserve of its own, hard limit, and whether it starts.
    for (number, (used, own, hard, starts)) in [
        (0, 0, 1, true),
        (0, 1, 1, true),
        (0, 2, 1, false),
        (3, 4, 7, true),
        (3, 5, 7, false),
        (7, 0, 7, false),
        (8, 0, 7, false),
        (6, 0, 7, true),
        (0, 0, 0, false),
        (0, 1, 0, false),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("budget {number}");
        let budget = harness.budget(&name);
        harness.configure(&budget, at_most(hard)).await;
        if used > 0 {
            harness.spend(&name, used, None).await;
        }
        let id = harness.submit(spending(&name, own)).await.id;
        let claimed = harness.claim(10).await;
        assert_eq!(claimed.len(), usize::from(starts), "used {used}, own {own}, hard {hard}");
        if !starts {
            harness.is_held(id, &budget).await;
            assert!(harness.gate(&budget).await.due_at.is_some(), "it is looked at now and then");
        }
        assert_eq!(
            harness.used_and_reserved(&budget).await,
            (tokens(used), tokens(if starts { own } else { 0 }))
        );
    }
}

pub async fn what_is_reserved_counts_as_if_it_were_spent(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, at_most(100)).await;
    let all = submit_all(harness, vec![spending("month", 40); 3]).await;
    let small = submit_all(harness, vec![spending("month", 20), spending("month", 0)]).await;
    let claimed = harness.claim(10).await;
    assert_eq!(ids(&claimed), [all[0], all[1], small[0]], "what is refused hides nothing");
    harness.is_held(all[2], &budget).await;
    harness.is_held(small[1], &budget).await;
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(0), tokens(100)));
    // It spends less than it might have, and the rest is free again.
    harness.use_up(&claimed[0], "month", 10).await.expect("it is counted");
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(10), tokens(100)));
    harness.complete(&claimed[0], b"1").await;
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(10), tokens(60)));
    harness.is_held(all[2], &budget).await;
    harness.complete(&claimed[2], b"1").await;
    harness.stand(&[all[2], small[1]], &[StateName::Waiting, StateName::Held]).await;
    // An end lets as many go on as have ended. There is room for more, which is looked at.
    assert!(harness.gate(&budget).await.due_at.is_some());
    assert_eq!(harness.look_at(&budget).await, 1);
    assert_eq!(ids(&harness.claim(10).await), [all[2], small[1]]);
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(10), tokens(80)));
}

pub async fn claims_made_at_once_do_not_reserve_more_than_there_is(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, at_most(100)).await;
    submit_all(harness, vec![spending("month", 30); 20]).await;
    let claims = side_by_side(6, |side| {
        let harness = harness.clone();
        async move { harness.claim_as(&Worker::new(&format!("side {side}")), 2).await }
    });
    let claimed: Vec<Claimed> = claims.await.into_iter().flatten().collect();
    let claimed = claimed.into_iter().chain(harness.claim(10).await).count();
    assert_eq!(claimed, 3);
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(0), tokens(90)));
}

pub async fn amounts_are_exact_and_dimensions_are_apart(harness: &Harness) {
    let limit = |text: &str| Limit { hard: Amount::parse(text), soft: None };
    let limits = [("cost".to_owned(), limit("0.3")), ("tokens".to_owned(), limit("1000000"))].into();
    let budget = harness.budget("both");
    harness.configure(&budget, Config { limits, ..Config::default() }).await;
    let draws = |cost: &str| Draws {
        budgets: vec![(Name::trusted("both"), amounts(&[("cost", cost), ("other", "5")]))],
        ..Draws::default()
    };
    let all = submit_all(
        harness,
        [drawing(draws("0.1")), drawing(draws("0.2")), drawing(draws("0.000001"))].into(),
    )
    .await;
    let claimed = harness.claim(10).await;
    assert_eq!(ids(&claimed), all[..2], "a tenth and two tenths are three tenths");
    let spend = |cost: &str| Spend {
        usage: amounts(&[("cost", cost), ("tokens", "7")]),
        ..harness.spend_command("both", Amounts::new(), Some(all[0]))
    };
    for _ in 0..3 {
        assert_eq!(harness.run(spend("0.1")).await, Ok(true));
    }
    let gate = harness.gate(&budget).await;
    assert_eq!(gate.state.used, amounts(&[("cost", "0.3"), ("tokens", "21")]));
    assert_eq!(gate.state.reserved, amounts(&[("cost", "0.3"), ("other", "10")]));
    assert_eq!(harness.ledger_of(all[0]).await[0].spent, gate.state.used);
}

pub async fn what_was_spent_is_counted_once_for_its_key(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, at_most(100)).await;
    let claimed = harness.leased(spending("month", 5)).await;
    let by = Some(claimed.execution.id);
    let spend = |key: &str, count| Spend {
        dedup_key: Some(Name::trusted(key)),
        ..harness.spend_command("month", tokens(count), by)
    };
    let counted = side_by_side(6, |_| {
        let (harness, spend) = (harness.clone(), spend("call", 7));
        async move { harness.run(spend).await.expect("it is the same") }
    });
    assert_eq!(counted.await.into_iter().filter(|counted| *counted).count(), 1);
    let report = |spend| harness.report(fence(&claimed), Op::Usage(spend));
    report(spend("call", 7)).await.expect("the same again is accepted");
    let refused = report(spend("call", 8)).await.expect_err("it is something else");
    assert_eq!(refused.code(), "idempotency_mismatch");
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(7), tokens(5)));
    report(spend("another call", 8)).await.expect("it is counted");
    // The key is of the budget: another budget has its own.
    harness.configure(&harness.budget("year"), at_most(100)).await;
    let other = Spend { budget: Name::trusted("year"), ..spend("call", 9) };
    assert_eq!(harness.run(other).await, Ok(true));
    assert_eq!(harness.used_and_reserved(&budget).await.0, tokens(15));
    assert_eq!(harness.used_and_reserved(&harness.budget("year")).await.0, tokens(9));
}

pub async fn usage_is_accepted_from_any_attempt_that_once_held_a_lease(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, at_most(100)).await;
    let first = harness.leased(spending("month", 5)).await;
    let id = first.execution.id;
    harness.report(fence(&first), Op::Release).await.expect("it is released");
    harness.use_up(&first, "month", 1).await.expect("its lease is over, and it once held it");
    let second = harness.claim_again(id).await;
    harness.use_up(&first, "month", 2).await.expect("another holds it now");
    harness.use_up(&second, "month", 3).await.expect("it holds it");
    harness.complete(&second, b"1").await;
    for claimed in [&first, &second] {
        harness.use_up(claimed, "month", 10).await.expect("it has ended");
    }
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(26), tokens(0)));
    assert_eq!(harness.ledger_of(id).await[0].spent, tokens(26));
    let mut never = fence(&second);
    never.lease_id = fence(&first).lease_id;
    let spend = harness.spend_command("month", tokens(1), Some(id));
    let refused = harness.report(never, Op::Usage(spend)).await.expect_err("nobody held that");
    assert_eq!(refused.code(), "stale_lease");
    assert_eq!(harness.used_and_reserved(&budget).await.0, tokens(26));
}

pub async fn a_budget_that_nobody_has_configured_is_unknown_and_refuses_nothing(harness: &Harness) {
    let claimed = harness.leased(spending("unknown", 5)).await;
    assert_eq!(harness.used_and_reserved(&harness.budget("unknown")).await, (tokens(0), tokens(5)));
    let refused = harness.use_up(&claimed, "unknown", 1).await.expect_err("there is none");
    assert_eq!(refused.code(), "not_found");
    let refused =
        harness.run(harness.spend_command("unknown", tokens(1), None)).await.expect_err("there is none");
    assert_eq!(refused.code(), "not_found");
    let reset = Reset { gate: harness.budget("unknown"), actor: Name::trusted("operator") };
    assert_eq!(harness.run(reset).await.expect_err("there is none").code(), "not_found");
    // One that is configured while it runs counts what it may spend.
    harness.configure(&harness.budget("unknown"), at_most(8)).await;
    let next = harness.submit(spending("unknown", 4)).await.id;
    assert!(harness.claim(10).await.is_empty());
    harness.complete(&claimed, b"1").await;
    assert_eq!(ids(&harness.claim(10).await), [next]);
}

pub async fn a_limit_that_is_reached_is_told_once(harness: &Harness) {
    let limit = Limit { hard: Some(Amount::whole(10)), soft: Some(Amount::whole(5)) };
    let budget = harness.budget("month");
    harness
        .configure(&budget, Config { limits: [("tokens".to_owned(), limit)].into(), ..Config::default() })
        .await;
    for count in [4, 1, 2, 6, 3] {
        harness.spend("month", count, None).await;
    }
    let facts = told(harness).await;
    let reached: Vec<(bool, Amount, Amount)> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::LimitReached { hard, limit, used, .. } => Some((*hard, *limit, *used)),
            _ => None,
        })
        .collect();
    let whole = Amount::whole;
    assert_eq!(reached, [(false, whole(5), whole(5)), (true, whole(10), whole(13))]);
    assert_eq!(facts.iter().filter(|fact| matches!(fact, Fact::Spent { .. })).count(), 5);
    assert_eq!(harness.used_and_reserved(&budget).await.0, tokens(16), "what is beyond the limit is counted");
    harness.reset(&budget).await;
    harness.spend("month", 20, None).await;
    let again =
        told(harness).await.into_iter().filter(|fact| matches!(fact, Fact::LimitReached { .. })).count();
    assert_eq!(again, 4, "in each period once");
}

pub async fn a_budget_of_flows_counts_each_flow_on_its_own(harness: &Harness) {
    let budget = harness.budget("each");
    harness.configure(&budget, at_most_each(10, BudgetScope::Flow)).await;
    // Each that is alone is a flow of its own.
    let all = submit_all(harness, vec![spending("each", 8); 2]).await;
    let claimed = harness.claim(10).await;
    assert_eq!(ids(&claimed), all);
    let part = |id: ExecutionId| budget.clone().part(Name::trusted(&id.0.to_string()));
    harness.use_up(&claimed[0], "each", 3).await.expect("it is counted");
    assert_eq!(harness.used_and_reserved(&part(all[0])).await, (tokens(3), tokens(8)));
    assert_eq!(harness.used_and_reserved(&part(all[1])).await, (tokens(0), tokens(8)));
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(0), tokens(0)));
    // What nobody of a flow has spent is counted for the whole.
    harness.spend("each", 20, None).await;
    assert_eq!(harness.used_and_reserved(&budget).await.0, tokens(20));
    let parts = harness.store.parts_of(&budget, 9).await.expect("parts are read");
    assert_eq!(parts.len(), 2);
    harness.report(fence(&claimed[0]), Op::Release).await.expect("it is released");
    assert!(harness.claim(10).await.is_empty(), "three and eight are more than ten");
    harness.is_held(all[0], &part(all[0])).await;
    harness.configure(&budget, at_most_each(11, BudgetScope::Flow)).await;
    assert_eq!(harness.look_at(&part(all[0])).await, 1);
    assert_eq!(ids(&harness.claim(10).await), all[..1]);
}

pub async fn the_members_of_a_flow_share_its_part_of_a_budget(harness: &Harness) {
    let budget = harness.budget("each");
    harness.configure(&budget, at_most_each(10, BudgetScope::Flow)).await;
    let flow =
        harness.flow(Sketch::from("a b c").each(|draft| draft.draws = spending("each", 5).draws)).await;
    let claimed = harness.claim(10).await;
    assert_eq!(claimed.len(), 2);
    flow.stands("a=active b=active c=held").await;
    assert_eq!(flow.flow().await.counts.of(StateName::Held), 1, "the flow counts it");
    let part = budget.part(Name::trusted(&flow.id.0.to_string()));
    assert_eq!(harness.used_and_reserved(&part).await, (tokens(0), tokens(10)));
    harness.complete(&claimed[0], b"1").await;
    flow.stands("a=completed b=active c=waiting").await;
}

pub async fn a_budget_of_lanes_counts_each_lane_on_its_own(harness: &Harness) {
    let budget = harness.budget("each");
    harness.configure(&budget, at_most_each(10, BudgetScope::Lane)).await;
    let lane = |name: &str| Draft { lane: name.into(), ..spending("each", 6) };
    let all = submit_all(harness, vec![lane("a"), lane("a"), lane("b")]).await;
    let worker = Worker::new("one").on(&["a", "b"]);
    let claimed = harness.claim_as(&worker, 10).await;
    assert_eq!(ids(&claimed), [all[0], all[2]]);
    let [a, b] = ["a", "b"].map(|lane| budget.clone().part(Name::trusted(lane)));
    harness.is_held(all[1], &a).await;
    harness.use_up(&claimed[0], "each", 2).await.expect("it is counted");
    harness.complete(&claimed[0], b"1").await;
    harness.use_up(&claimed[0], "each", 1).await.expect("it is counted after its end too");
    assert_eq!(harness.used_and_reserved(&a).await, (tokens(3), tokens(0)));
    assert_eq!(harness.used_and_reserved(&b).await, (tokens(0), tokens(6)));
    assert_eq!(ids(&harness.claim_as(&worker, 10).await), [all[1]]);
}

pub async fn a_period_that_is_over_sets_the_usage_back_and_lets_go_on(harness: &Harness) {
    let budget = harness.budget("short");
    let before = harness.now().await;
    harness.configure(&budget, Config { period_ms: Some(20), ..at_most(5) }).await;
    let resets_at = harness.gate(&budget).await.state.resets_at.expect("it has a period");
    assert!(resets_at >= before.plus_ms(20));
    assert_eq!(harness.gate(&budget).await.due_at, Some(resets_at));
    harness.spend("short", 9, None).await;
    let id = harness.submit(spending("short", 5)).await.id;
    if harness.claim(10).await.is_empty() {
        harness.is_held(id, &budget).await;
    }
    // Periods that nobody was there for are passed over.
    harness.pass(70).await;
    harness.look_at_due().await;
    let gate = harness.gate(&budget).await;
    let now = harness.now().await;
    assert_eq!((gate.state.period, gate.state.used.is_empty()), (1, true));
    let next = gate.state.resets_at.expect("it has a period");
    assert_eq!(next.ms_since(resets_at) % 20, 0, "periods follow each other without a gap");
    assert!(next > resets_at.plus_ms(40) && gate.due_at == Some(next), "{now:?} {gate:?}");
    let resets =
        told(harness).await.into_iter().filter(|fact| matches!(fact, Fact::BudgetReset { period: 1, .. }));
    assert_eq!(resets.count(), 1);
    assert_eq!(harness.look_if_due(&budget).await, 0);
    assert_eq!(ids(&harness.claim(10).await), [id]);
    assert_eq!(harness.store.ledger(budget.id(), 0).await.expect("is read")[0].spent, tokens(9));
}

pub async fn a_reset_by_hand_begins_a_period_and_lets_go_on(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, at_most(5)).await;
    let runs = harness.leased(spending("month", 2)).await;
    harness.spend("month", 5, None).await;
    let all = submit_all(harness, vec![spending("month", 2); 2]).await;
    assert!(harness.claim(10).await.is_empty());
    harness.reset(&budget).await;
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(0), tokens(2)), "what runs may still spend");
    // There is room for one of them, beside what runs.
    harness.stand(&all, &[StateName::Waiting, StateName::Held]).await;
    assert_eq!(ids(&harness.claim(10).await), all[..1]);
    harness.use_up(&runs, "month", 1).await.expect("it is counted in the new period");
    let ledger = harness.ledger_of(runs.execution.id).await;
    assert_eq!((ledger.len(), ledger[0].period), (1, 1));
}

pub async fn a_limit_that_is_raised_or_removed_lets_go_on(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, at_most(0)).await;
    let all = submit_all(harness, vec![spending("month", 5); 3]).await;
    assert!(harness.claim(10).await.is_empty());
    harness.configure(&budget, at_most(7)).await;
    harness.stand(&all, &[StateName::Waiting, StateName::Held, StateName::Held]).await;
    let first = harness.claim(10).await.remove(0);
    harness.use_up(&first, "month", 6).await.expect("it is counted");
    harness.unconfigure(&budget).await;
    harness.stand(&all[1..], &[StateName::Waiting; 2]).await;
    let more = harness.claim(10).await;
    assert_eq!(ids(&more), all[1..]);
    // One of the same name later has used nothing, and knows what those may spend that run.
    harness.configure(&budget, at_most(20)).await;
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(0), tokens(15)));
    harness.spend("month", 2, None).await;
    for one in more.iter().chain([&first]) {
        harness.complete(one, b"1").await;
    }
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(2), tokens(0)));
}

pub async fn a_removed_budget_that_was_never_used_leaves_nothing(harness: &Harness) {
    let budget = harness.budget("never");
    harness.configure(&budget, Config { period_ms: Some(1000), ..at_most(5) }).await;
    harness.unconfigure(&budget).await;
    assert_eq!(harness.find_gate(&budget).await, None);
}

/// A budget that does this when it is used up, one that runs and draws on it, and one beside it that does not.
async fn used_up(harness: &Harness, on_hard: OnHard) -> (Claimed, Claimed) {
    let name = on_hard.as_str();
    harness.configure(&harness.budget(name), Config { on_hard, ..at_most(10) }).await;
    let claimed = harness.leased(spending(name, 4)).await;
    let beside = harness.leased(Draft::new("kind")).await;
    harness.use_up(&claimed, name, 10).await.expect("it is counted");
    (claimed, beside)
}

pub async fn a_budget_that_is_used_up_may_let_what_runs_run_on(harness: &Harness) {
    let (claimed, _) = used_up(harness, OnHard::Hold).await;
    harness.look_at_due().await;
    harness.complete(&claimed, b"1").await;
    assert_eq!(harness.state(claimed.execution.id).await, StateName::Completed);
}

pub async fn a_budget_that_is_used_up_may_fail_what_runs(harness: &Harness) {
    let (claimed, beside) = used_up(harness, OnHard::Fail).await;
    let budget = harness.budget("fail");
    harness.look_at_due().await;
    let row = harness.row(claimed.execution.id).await;
    assert_eq!(row.state, State::Terminal(Outcome::Failed));
    let error = row.detail.error.clone().expect("it says why");
    assert_eq!((error.class, error.message.as_str()), (FailureClass::Permanent, "budget fail is used up"));
    is_read_everywhere(harness, &row).await;
    assert_eq!(harness.state(beside.execution.id).await, StateName::Active, "it does not draw on it");
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(10), tokens(0)));
    assert!(!harness.gate(&budget).await.state.stops, "that is done");
    let late = harness.report(fence(&claimed), Op::Release).await.expect_err("its lease is over");
    assert_eq!(late.code(), "stale_lease");
    harness.use_up(&claimed, "fail", 3).await.expect("what it spent after that counts");
    assert_eq!(harness.used_and_reserved(&budget).await.0, tokens(13));
}

pub async fn a_budget_that_is_used_up_may_suspend_what_runs_until_there_is_room(harness: &Harness) {
    let (claimed, _) = used_up(harness, OnHard::Suspend).await;
    let (id, budget) = (claimed.execution.id, harness.budget("suspend"));
    harness.look_at_due().await;
    let row = harness.row(id).await;
    assert_eq!((row.state.name(), row.state.gate()), (StateName::Suspended, Some(&budget)));
    is_read_everywhere(harness, &row).await;
    assert_eq!(harness.held_by(&budget).await, 1);
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(10), tokens(0)));
    assert_eq!(harness.stop(&budget).await, 0, "it runs no more");
    harness.configure(&budget, Config { on_hard: OnHard::Suspend, ..at_most(13) }).await;
    assert_eq!(harness.state(id).await, StateName::Suspended, "there is not as much as it may spend");
    harness.configure(&budget, Config { on_hard: OnHard::Suspend, ..at_most(14) }).await;
    let again = harness.claim_again(id).await;
    assert_eq!(again.execution.epoch, 2);
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(10), tokens(4)));
}

pub async fn one_that_a_budget_has_suspended_goes_on_when_an_operator_says_so(harness: &Harness) {
    let (claimed, _) = used_up(harness, OnHard::Suspend).await;
    let (id, budget) = (claimed.execution.id, harness.budget("suspend"));
    harness.look_at_due().await;
    harness.resume(id).await;
    assert_eq!(harness.held_by(&budget).await, 0);
    assert!(harness.claim(10).await.is_empty(), "new claims are held all the same");
    harness.is_held(id, &budget).await;
    harness.reset(&budget).await;
    assert_eq!(ids(&harness.claim(10).await), [id]);
}

pub async fn what_is_to_be_stopped_is_not_forgotten_when_something_ends(harness: &Harness) {
    let budget = harness.budget("suspend");
    harness.configure(&budget, Config { on_hard: OnHard::Suspend, ..at_most(10) }).await;
    let all = submit_all(harness, vec![spending("suspend", 2); 2]).await;
    let claimed = harness.claim(10).await;
    // The one that uses it up ends in the same transaction.
    let spend = harness.spend_command("suspend", tokens(10), Some(all[0]));
    let reports = [Op::Usage(spend), Op::Complete { result: "1".into() }]
        .map(|op| harness.report_command(fence(&claimed[0]), op));
    for reply in harness.run(Each(reports.to_vec())).await {
        reply.expect("it is accepted");
    }
    let gate = harness.gate(&budget).await;
    assert!(gate.state.stops && gate.due_at.is_some(), "{gate:?}");
    harness.look_at_due().await;
    harness.stand(&all, &[StateName::Completed, StateName::Suspended]).await;
}

pub async fn a_breach_that_is_over_stops_nothing(harness: &Harness) {
    let (claimed, _) = used_up(harness, OnHard::Fail).await;
    let budget = harness.budget("fail");
    harness.configure(&budget, Config { on_hard: OnHard::Fail, ..at_most(100) }).await;
    harness.look_at_due().await;
    assert_eq!(harness.stop(&budget).await, 0);
    assert!(!harness.gate(&budget).await.state.stops);
    harness.complete(&claimed, b"1").await;
}

pub async fn what_a_deleted_execution_has_spent_stays_spent(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, at_most(100)).await;
    let policy = Policy { retention_ms: 0, ..Policy::default() };
    let mut gone = Vec::new();
    for count in [3, 4] {
        let claimed = harness.leased(Draft { policy: policy.clone(), ..spending("month", 5) }).await;
        harness.use_up(&claimed, "month", count).await.expect("it is counted");
        harness.complete(&claimed, b"1").await;
        gone.push(claimed.execution.id);
    }
    harness.spend("month", 10, None).await;
    let ledger = async || harness.store.ledger(budget.id(), 0).await.expect("the ledger is read");
    assert_eq!(ledger().await.len(), 3);
    for id in gone {
        harness.due(id, DueKind::Retention).await;
        assert!(harness.find(id).await.is_none() && harness.ledger_of(id).await.is_empty());
    }
    let left = ledger().await;
    assert_eq!((left.len(), left[0].execution, &left[0].spent), (1, None, &tokens(17)));
    assert_eq!(harness.used_and_reserved(&budget).await.0, tokens(17));
}

pub async fn what_a_budget_counts_for_a_flow_goes_with_the_flow(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, Config { scope: BudgetScope::Flow, ..at_most(100) }).await;
    let policy = Policy { retention_ms: 0, ..Policy::default() };
    let mut parts = Vec::new();
    for count in [3, 4] {
        let claimed = harness.leased(Draft { policy: policy.clone(), ..spending("month", 5) }).await;
        harness.use_up(&claimed, "month", count).await.expect("it is counted");
        harness.complete(&claimed, b"1").await;
        let id = claimed.execution.id;
        let part = budget.clone().part(Name::trusted(&id.to_string()));
        assert_eq!(harness.used_and_reserved(&part).await.0, tokens(count));
        parts.push((id, part));
    }
    let (gone, stays) = (&parts[0], &parts[1]);
    harness.due(gone.0, DueKind::Retention).await;
    assert_eq!(harness.find_gate(&gone.1).await, None);
    assert!(harness.store.ledger(gone.1.id(), 0).await.expect("the ledger is read").is_empty());
    assert_eq!(harness.used_and_reserved(&stays.1).await.0, tokens(4));
    assert_eq!(harness.store.ledger(stays.1.id(), 0).await.expect("the ledger is read").len(), 1);
}

pub async fn several_budgets_are_all_asked_and_the_first_that_refuses_holds(harness: &Harness) {
    let [wide, narrow] = ["wide", "narrow"].map(|name| harness.budget(name));
    harness.configure(&wide, at_most(100)).await;
    harness.configure(&narrow, at_most(5)).await;
    let draft = drawing(Draws {
        budgets: ["wide", "narrow"].map(|name| (Name::trusted(name), tokens(3))).to_vec(),
        ..Draws::default()
    });
    let all = submit_all(harness, vec![draft; 2]).await;
    let claimed = harness.claim(10).await;
    assert_eq!(ids(&claimed), all[..1]);
    harness.is_held(all[1], &narrow).await;
    assert_eq!(harness.used_and_reserved(&wide).await.1, tokens(3), "what is held has reserved nothing");
    harness.operate(all[0], Action::Cancel { reason: None, grace_ms: 0 }).await.expect("it is cancelled");
    assert_eq!(ids(&harness.claim(10).await), all[1..]);
}
