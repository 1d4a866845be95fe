//! Budgets: a claim reserves its amounts, usage is always counted and counted once, and an exhausted budget holds
//! executions.

use crate::harness::concurrently;
use crate::harness::gates::{ids, token_limit, token_limit_each, tokens, with_budget, with_draws};
use crate::harness::runner::RulePair;
use crate::harness::sketch::Sketch;
use crate::harness::worker::Worker;
use crate::harness::{Harness, fence};
use selvedge_core::amount::Amount;
use selvedge_core::fact;
use selvedge_core::gate::{Amounts, BudgetScope, Config, Limit, OnHard, RequiredGates};
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::gates::budget::{Reset, Spend};
use selvedge_core::rules::gates::configure::{Configure, Setting};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::submit::Submitted;
use selvedge_core::state::StateName;
use selvedge_core::{Draft, DueKind, ExecutionId, Fact, Name, Policy, Refusal};

fn amounts(list: &[(&str, &str)]) -> Amounts {
    let amount = |text: &str| Amount::parse(text).expect("it is an amount");
    list.iter().map(|(dimension, text)| ((*dimension).to_owned(), amount(text))).collect()
}

/// Returns the logged facts of budgets, in order.
async fn budget_facts(harness: &Harness) -> Vec<Fact> {
    let events = harness.log().await.into_iter().flat_map(|(_, events)| events);
    let of_budgets = |fact: &Fact| {
        matches!(fact, Fact::Spent { .. } | Fact::LimitReached { .. } | Fact::BudgetReset { .. })
    };
    events.map(|event| event.fact).filter(of_budgets).collect()
}

pub async fn a_claim_is_admitted_while_usage_and_reservations_leave_room(harness: &Harness) {
    // Used, own reservation, hard limit, and whether the execution starts.
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
        harness.configure(&budget, token_limit(hard)).await;
        if used > 0 {
            harness.spend(&name, used, None).await;
        }
        let id = harness.submit(with_budget(&name, own)).await.id;
        let claimed = harness.claim(10).await;
        assert_eq!(claimed.len(), usize::from(starts), "used {used}, own {own}, hard {hard}");
        if !starts {
            harness.assert_held(id, &budget).await;
            assert!(harness.gate(&budget).await.due_at.is_some(), "it is checked periodically");
        }
        assert_eq!(
            harness.used_and_reserved(&budget).await,
            (tokens(used), tokens(if starts { own } else { 0 }))
        );
    }
}

pub async fn reservations_count_like_usage(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, token_limit(100)).await;
    let all = harness.submit_ids(vec![with_budget("month", 40); 3]).await;
    let small = harness.submit_ids(vec![with_budget("month", 20), with_budget("month", 0)]).await;
    let claimed = harness.claim(10).await;
    assert_eq!(ids(&claimed), [all[0], all[1], small[0]], "a refused execution does not block others");
    harness.assert_held(all[2], &budget).await;
    harness.assert_held(small[1], &budget).await;
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(0), tokens(100)));
    // It spends less than it has reserved, and the rest is free again.
    harness.report_usage(&claimed[0], "month", 10).await.expect("it is counted");
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(10), tokens(100)));
    harness.complete(&claimed[0], b"1").await;
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(10), tokens(60)));
    harness.assert_held(all[2], &budget).await;
    harness.complete(&claimed[2], b"1").await;
    harness.assert_states_of(&[all[2], small[1]], &[StateName::Waiting, StateName::Held]).await;
    // An end releases as many executions as have ended. There is room for more, so the gate is due for a check.
    assert!(harness.gate(&budget).await.due_at.is_some());
    assert_eq!(harness.check_gate(&budget).await, 1);
    assert_eq!(ids(&harness.claim(10).await), [all[2], small[1]]);
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(10), tokens(80)));
}

pub async fn concurrent_claims_do_not_reserve_more_than_the_limit(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, token_limit(100)).await;
    harness.submit_ids(vec![with_budget("month", 30); 20]).await;
    let claims = concurrently(6, |task| {
        let harness = harness.clone();
        async move { harness.claim_as(&Worker::new(&format!("task {task}")), 2).await }
    });
    let claimed: Vec<Claimed> = claims.await.into_iter().flatten().collect();
    let claimed = claimed.into_iter().chain(harness.claim(10).await).count();
    assert_eq!(claimed, 3);
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(0), tokens(90)));
}

pub async fn amounts_are_exact_and_dimensions_are_independent(harness: &Harness) {
    let limit = |text: &str| Limit { hard: Amount::parse(text), soft: None };
    let limits = [("cost".to_owned(), limit("0.3")), ("tokens".to_owned(), limit("1000000"))].into();
    let budget = harness.budget("both");
    harness.configure(&budget, Config { limits, ..Config::default() }).await;
    let required_gates = |cost: &str| RequiredGates {
        budgets: vec![(Name::trusted("both"), amounts(&[("cost", cost), ("other", "5")]))],
        ..RequiredGates::default()
    };
    let all = harness
        .submit_ids(
            [
                with_draws(required_gates("0.1")),
                with_draws(required_gates("0.2")),
                with_draws(required_gates("0.000001")),
            ]
            .into(),
        )
        .await;
    let claimed = harness.claim(10).await;
    assert_eq!(ids(&claimed), all[..2], "0.1 and 0.2 add up to exactly 0.3");
    let spend = |cost: &str| Spend {
        usage: amounts(&[("cost", cost), ("tokens", "7")]),
        ..harness.spend_command("both", Amounts::new(), Some(all[0]))
    };
    for _ in 0..3 {
        assert!(!harness.run(spend("0.1")).await.expect("it is counted").duplicate);
    }
    let gate = harness.gate(&budget).await;
    assert_eq!(gate.state.used, amounts(&[("cost", "0.3"), ("tokens", "21")]));
    assert_eq!(gate.state.reserved, amounts(&[("cost", "0.3"), ("other", "10")]));
    assert_eq!(harness.ledger_of(all[0]).await[0].spent, gate.state.used);
}

pub async fn usage_is_counted_once_per_deduplication_key(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, token_limit(100)).await;
    let claimed = harness.leased(with_budget("month", 5)).await;
    let by = Some(claimed.execution.id);
    let spend = |key: &str, count| Spend {
        dedup_key: Some(Name::trusted(key)),
        ..harness.spend_command("month", tokens(count), by)
    };
    let counted = concurrently(6, |_| {
        let (harness, spend) = (harness.clone(), spend("call", 7));
        async move { harness.run(spend).await.expect("it is the same") }
    });
    assert_eq!(counted.await.into_iter().filter(|counted| !counted.duplicate).count(), 1);
    let report = |spend| harness.report(fence(&claimed), Op::Usage(spend));
    report(spend("call", 7)).await.expect("the same again is accepted");
    let refused = report(spend("call", 8)).await.expect_err("the content differs");
    assert_eq!(refused.code(), "idempotency_mismatch");
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(7), tokens(5)));
    report(spend("another call", 8)).await.expect("it is counted");
    // A deduplication key belongs to its budget.
    harness.configure(&harness.budget("year"), token_limit(100)).await;
    let other = Spend { budget: Name::trusted("year"), ..spend("call", 9) };
    assert!(!harness.run(other).await.expect("it is counted").duplicate);
    assert_eq!(harness.used_and_reserved(&budget).await.0, tokens(15));
    assert_eq!(harness.used_and_reserved(&harness.budget("year")).await.0, tokens(9));
}

pub async fn usage_is_accepted_from_any_attempt_that_once_held_a_lease(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, token_limit(100)).await;
    let first = harness.leased(with_budget("month", 5)).await;
    let id = first.execution.id;
    harness.report(fence(&first), Op::Release).await.expect("it is released");
    harness.report_usage(&first, "month", 1).await.expect("its lease is over, and it held one");
    let second = harness.claim_again(id).await;
    harness.report_usage(&first, "month", 2).await.expect("another attempt has the lease");
    harness.report_usage(&second, "month", 3).await.expect("it has the lease");
    harness.complete(&second, b"1").await;
    for claimed in [&first, &second] {
        harness.report_usage(claimed, "month", 10).await.expect("it has ended");
    }
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(26), tokens(0)));
    assert_eq!(harness.ledger_of(id).await[0].spent, tokens(26));
    let mut never = fence(&second);
    never.lease_id = fence(&first).lease_id;
    let spend = harness.spend_command("month", tokens(1), Some(id));
    let refused = harness.report(never, Op::Usage(spend)).await.expect_err("no attempt had that lease");
    assert_eq!(refused.code(), "stale_lease");
    assert_eq!(harness.used_and_reserved(&budget).await.0, tokens(26));
}

pub async fn a_budget_that_was_removed_is_unknown_and_refuses_nothing(harness: &Harness) {
    let budget = harness.budget("gone");
    harness.configure(&budget, token_limit(100)).await;
    let claimed = harness.leased(with_budget("gone", 5)).await;
    let waiting = harness.submit(with_budget("gone", 3)).await.id;
    harness.unconfigure(&budget).await;
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(0), tokens(5)));
    let other = harness.claim(10).await;
    assert_eq!(ids(&other), [waiting], "it was accepted while the budget existed");
    harness.complete(&other[0], b"1").await;
    let refused = harness.report_usage(&claimed, "gone", 1).await.expect_err("the budget does not exist");
    assert_eq!((refused.code(), refused.pointer()), ("unknown_budget", Some("/budget")));
    let refused = harness
        .run(harness.spend_command("gone", tokens(1), None))
        .await
        .expect_err("the budget does not exist");
    assert_eq!(refused.code(), "not_found");
    let reset = Reset { gate: budget.clone(), actor: Name::trusted("operator") };
    assert_eq!(harness.run(reset).await.expect_err("the budget does not exist").code(), "not_found");
    // A budget that is configured later counts the reservation of the active execution.
    harness.configure(&budget, token_limit(8)).await;
    let next = harness.submit(with_budget("gone", 4)).await.id;
    assert!(harness.claim(10).await.is_empty());
    harness.complete(&claimed, b"1").await;
    assert_eq!(ids(&harness.claim(10).await), [next]);
}

pub async fn a_submission_that_names_an_unknown_budget_or_quota_is_refused(harness: &Harness) {
    harness.configure(&harness.budget("month"), token_limit(100)).await;
    harness.configure(&harness.quota("calls"), Config::default()).await;
    let draws = |budgets: &[&str], quotas: &[&str]| {
        with_draws(RequiredGates {
            budgets: budgets.iter().map(|name| (Name::trusted(name), Amounts::new())).collect(),
            quotas: quotas.iter().map(|name| Name::trusted(name)).collect(),
            ..RequiredGates::default()
        })
    };
    let refusal = |reply: Result<Submitted, Refusal>| {
        let refused = reply.err();
        refused.map(|refused| (refused.code(), refused.pointer().unwrap_or_default().to_owned()))
    };
    for (draft, expected) in [
        (draws(&["month"], &["calls"]), None),
        (draws(&["month", "moth"], &[]), Some(("unknown_budget", "/budgets/1"))),
        (draws(&["month"], &["calls", "call"]), Some(("unknown_quota", "/quotas/1"))),
        // A lane or a quota of the same name is not a budget.
        (draws(&["calls"], &[]), Some(("unknown_budget", "/budgets/0"))),
        (draws(&[], &["month"]), Some(("unknown_quota", "/quotas/0"))),
    ] {
        let expected = expected.map(|(code, pointer)| (code, pointer.to_owned()));
        assert_eq!(refusal(harness.try_submit(draft).await), expected);
    }
    // The same transaction that creates a budget accepts submissions which name it, and one that removes it refuses.
    let setting = Setting::Replace(token_limit(5));
    let create = Configure { gate: harness.budget("new"), setting, actor: Name::trusted("operator") };
    let submit = harness.submit_command(vec![draws(&["new"], &[]), draws(&["old"], &[])]).await;
    let (created, mut submitted) = harness.run(RulePair(create, submit)).await;
    created.expect("it is created");
    let (old, new) = (submitted.pop(), submitted.pop());
    assert_eq!(new.map(refusal), Some(None));
    assert_eq!(old.map(refusal), Some(Some(("unknown_budget", "/budgets/0".to_owned()))));
    let flow = harness.try_submit_flow(Sketch::from("a b").each(|draft| *draft = draws(&["old"], &[]))).await;
    let refused = flow.map(|_| ()).expect_err("the budget does not exist");
    assert_eq!((refused.code(), refused.pointer()), ("unknown_budget", Some("/nodes/0/budgets/0")));
    harness.unconfigure(&harness.budget("month")).await;
    let refused = refusal(harness.try_submit(draws(&["month"], &[])).await);
    assert_eq!(refused, Some(("unknown_budget", "/budgets/0".to_owned())));
}

pub async fn usage_of_a_deleted_execution_is_counted_without_it(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, token_limit(100)).await;
    let policy = Policy { retention_ms: 0, ..Policy::default() };
    let claimed = harness.leased(Draft { policy, ..with_budget("month", 5) }).await;
    let id = claimed.execution.id;
    harness.complete(&claimed, b"1").await;
    let spend = |count| Spend {
        dedup_key: Some(Name::trusted("call")),
        ..harness.spend_command("month", tokens(count), Some(id))
    };
    harness.report(fence(&claimed), Op::Usage(spend(7))).await.expect("it is counted");
    harness.advance_past(1).await;
    harness.tick(id, selvedge_core::rules::timer::Timer::Due(DueKind::Retention)).await;
    assert!(harness.find(id).await.is_none(), "it is deleted");
    let repeated = harness.report(fence(&claimed), Op::Usage(spend(7))).await.expect("it was counted before");
    assert!(repeated.is_deleted && repeated.usage.is_some_and(|usage| usage.duplicate));
    harness.report_usage(&claimed, "month", 3).await.expect("what was spent is spent");
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(10), tokens(0)));
    let ledger = harness.store.ledger(budget.id(), 0).await.expect("the ledger is read");
    let entries: Vec<_> = ledger.into_iter().map(|entry| (entry.execution, entry.spent)).collect();
    assert_eq!(entries, [(None, tokens(10))]);
}

pub async fn usage_says_which_hard_limits_are_reached(harness: &Harness) {
    for on_hard in OnHard::ALL {
        let name = on_hard.as_str();
        let limit = |hard| Limit { hard: Amount::parse(hard), soft: None };
        let limits = [("cost".to_owned(), limit("1")), ("tokens".to_owned(), limit("10"))].into();
        harness.configure(&harness.budget(name), Config { limits, on_hard, ..Config::default() }).await;
        let claimed = harness.leased(with_budget(name, 5)).await;
        let before = harness.report_usage(&claimed, name, 9).await.expect("it is counted");
        assert_eq!((before.breached, before.stops), (vec![], None));
        let reached = harness.report_usage(&claimed, name, 1).await.expect("it is counted");
        assert_eq!(reached.breached, ["tokens"]);
        assert_eq!(reached.stops.is_some(), on_hard != OnHard::Hold, "{name}");
        let beyond = harness.report_usage(&claimed, name, 1).await.expect("it is counted");
        assert_eq!(beyond.breached, ["tokens"]);
        let nothing = harness.report_usage(&claimed, name, 0).await.expect("it is counted");
        assert_eq!((nothing.breached, nothing.stops), (vec![], None));
    }
}

pub async fn a_reached_limit_is_logged_once(harness: &Harness) {
    let limit = Limit { hard: Some(Amount::whole(10)), soft: Some(Amount::whole(5)) };
    let budget = harness.budget("month");
    harness
        .configure(&budget, Config { limits: [("tokens".to_owned(), limit)].into(), ..Config::default() })
        .await;
    for count in [4, 1, 2, 6, 3] {
        harness.spend("month", count, None).await;
    }
    let facts = budget_facts(harness).await;
    let reached: Vec<(bool, Amount, Amount)> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::LimitReached(fact::LimitReached { hard, limit, used, .. }) => Some((*hard, *limit, *used)),
            _ => None,
        })
        .collect();
    let whole = Amount::whole;
    assert_eq!(reached, [(false, whole(5), whole(5)), (true, whole(10), whole(13))]);
    assert_eq!(facts.iter().filter(|fact| matches!(fact, Fact::Spent { .. })).count(), 5);
    assert_eq!(harness.used_and_reserved(&budget).await.0, tokens(16), "usage beyond the limit is counted");
    harness.reset(&budget).await;
    harness.spend("month", 20, None).await;
    let again = budget_facts(harness)
        .await
        .into_iter()
        .filter(|fact| matches!(fact, Fact::LimitReached { .. }))
        .count();
    assert_eq!(again, 4, "once in each period");
}

pub async fn a_budget_per_flow_counts_each_flow_separately(harness: &Harness) {
    let budget = harness.budget("each");
    harness.configure(&budget, token_limit_each(10, BudgetScope::Flow)).await;
    // An execution without a flow is a flow of its own.
    let all = harness.submit_ids(vec![with_budget("each", 8); 2]).await;
    let claimed = harness.claim(10).await;
    assert_eq!(ids(&claimed), all);
    let part = |id: ExecutionId| budget.clone().part(Name::trusted(&id.0.to_string()));
    harness.report_usage(&claimed[0], "each", 3).await.expect("it is counted");
    assert_eq!(harness.used_and_reserved(&part(all[0])).await, (tokens(3), tokens(8)));
    assert_eq!(harness.used_and_reserved(&part(all[1])).await, (tokens(0), tokens(8)));
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(0), tokens(0)));
    // Usage without an execution is counted for the budget as a whole.
    harness.spend("each", 20, None).await;
    assert_eq!(harness.used_and_reserved(&budget).await.0, tokens(20));
    let parts = harness.store.parts_of(&budget, 9).await.expect("parts are read");
    assert_eq!(parts.len(), 2);
    harness.report(fence(&claimed[0]), Op::Release).await.expect("it is released");
    assert!(harness.claim(10).await.is_empty(), "3 and 8 exceed 10");
    harness.assert_held(all[0], &part(all[0])).await;
    harness.configure(&budget, token_limit_each(11, BudgetScope::Flow)).await;
    assert_eq!(harness.check_gate(&part(all[0])).await, 1);
    assert_eq!(ids(&harness.claim(10).await), all[..1]);
}

pub async fn the_members_of_a_flow_share_its_part_of_a_budget(harness: &Harness) {
    let budget = harness.budget("each");
    harness.configure(&budget, token_limit_each(10, BudgetScope::Flow)).await;
    let flow = harness
        .flow(
            Sketch::from("a b c").each(|draft| draft.required_gates = with_budget("each", 5).required_gates),
        )
        .await;
    let claimed = harness.claim(10).await;
    assert_eq!(claimed.len(), 2);
    flow.assert_states("a=active b=active c=held").await;
    assert_eq!(flow.flow().await.counts.of(StateName::Held), 1, "the flow counts it");
    let part = budget.part(Name::trusted(&flow.id.0.to_string()));
    assert_eq!(harness.used_and_reserved(&part).await, (tokens(0), tokens(10)));
    harness.complete(&claimed[0], b"1").await;
    flow.assert_states("a=completed b=active c=waiting").await;
}

pub async fn a_budget_per_lane_counts_each_lane_separately(harness: &Harness) {
    let budget = harness.budget("each");
    harness.configure(&budget, token_limit_each(10, BudgetScope::Lane)).await;
    let lane = |name: &str| Draft { lane: name.into(), ..with_budget("each", 6) };
    let all = harness.submit_ids(vec![lane("a"), lane("a"), lane("b")]).await;
    let worker = Worker::new("one").on(&["a", "b"]);
    let claimed = harness.claim_as(&worker, 10).await;
    assert_eq!(ids(&claimed), [all[0], all[2]]);
    let [a, b] = ["a", "b"].map(|lane| budget.clone().part(Name::trusted(lane)));
    harness.assert_held(all[1], &a).await;
    harness.report_usage(&claimed[0], "each", 2).await.expect("it is counted");
    harness.complete(&claimed[0], b"1").await;
    harness.report_usage(&claimed[0], "each", 1).await.expect("it is counted after its end too");
    assert_eq!(harness.used_and_reserved(&a).await, (tokens(3), tokens(0)));
    assert_eq!(harness.used_and_reserved(&b).await, (tokens(0), tokens(6)));
    assert_eq!(ids(&harness.claim_as(&worker, 10).await), [all[1]]);
}

pub async fn the_end_of_a_period_resets_the_usage_and_releases(harness: &Harness) {
    let budget = harness.budget("short");
    let before = harness.now().await;
    harness.configure(&budget, Config { period_ms: Some(20), ..token_limit(5) }).await;
    let resets_at = harness.gate(&budget).await.state.resets_at.expect("it has a period");
    assert!(resets_at >= before.plus_ms(20));
    assert_eq!(harness.gate(&budget).await.due_at, Some(resets_at));
    harness.spend("short", 9, None).await;
    let id = harness.submit(with_budget("short", 5)).await.id;
    if harness.claim(10).await.is_empty() {
        harness.assert_held(id, &budget).await;
    }
    // Periods without activity are skipped.
    harness.advance_past(70).await;
    harness.check_due_gates().await;
    let gate = harness.gate(&budget).await;
    let now = harness.now().await;
    assert_eq!((gate.state.period, gate.state.used.is_empty()), (1, true));
    let next = gate.state.resets_at.expect("it has a period");
    assert_eq!(next.ms_since(resets_at) % 20, 0, "periods have no gap");
    assert!(next > resets_at.plus_ms(40) && gate.due_at == Some(next), "{now:?} {gate:?}");
    let resets = budget_facts(harness)
        .await
        .into_iter()
        .filter(|fact| matches!(fact, Fact::BudgetReset(fact::BudgetReset { period: 1, .. })));
    assert_eq!(resets.count(), 1);
    assert_eq!(harness.check_gate_if_due(&budget).await, 0);
    assert_eq!(ids(&harness.claim(10).await), [id]);
    assert_eq!(harness.store.ledger(budget.id(), 0).await.expect("rows are read")[0].spent, tokens(9));
}

pub async fn a_manual_reset_begins_a_period_and_releases(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, token_limit(5)).await;
    let active = harness.leased(with_budget("month", 2)).await;
    harness.spend("month", 5, None).await;
    let all = harness.submit_ids(vec![with_budget("month", 2); 2]).await;
    assert!(harness.claim(10).await.is_empty());
    harness.reset(&budget).await;
    assert_eq!(
        harness.used_and_reserved(&budget).await,
        (tokens(0), tokens(2)),
        "the active execution keeps its reservation"
    );
    // There is room for one of them beside the active execution.
    harness.assert_states_of(&all, &[StateName::Waiting, StateName::Held]).await;
    assert_eq!(ids(&harness.claim(10).await), all[..1]);
    harness.report_usage(&active, "month", 1).await.expect("it is counted in the new period");
    let ledger = harness.ledger_of(active.execution.id).await;
    assert_eq!((ledger.len(), ledger[0].period), (1, 1));
}

pub async fn a_raised_or_removed_limit_releases(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, token_limit(0)).await;
    let all = harness.submit_ids(vec![with_budget("month", 5); 3]).await;
    assert!(harness.claim(10).await.is_empty());
    harness.configure(&budget, token_limit(7)).await;
    harness.assert_states_of(&all, &[StateName::Waiting, StateName::Held, StateName::Held]).await;
    let first = harness.claim(10).await.remove(0);
    harness.report_usage(&first, "month", 6).await.expect("it is counted");
    harness.unconfigure(&budget).await;
    harness.assert_states_of(&all[1..], &[StateName::Waiting; 2]).await;
    let more = harness.claim(10).await;
    assert_eq!(ids(&more), all[1..]);
    // A later budget of the same name has no usage, and knows the reservations of active executions.
    harness.configure(&budget, token_limit(20)).await;
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(0), tokens(15)));
    harness.spend("month", 2, None).await;
    for one in more.iter().chain([&first]) {
        harness.complete(one, b"1").await;
    }
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(2), tokens(0)));
}

pub async fn a_removed_unused_budget_leaves_nothing(harness: &Harness) {
    let budget = harness.budget("never");
    harness.configure(&budget, Config { period_ms: Some(1000), ..token_limit(5) }).await;
    harness.unconfigure(&budget).await;
    assert_eq!(harness.find_gate(&budget).await, None);
}

pub async fn the_usage_of_a_deleted_execution_is_kept(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, token_limit(100)).await;
    let policy = Policy { retention_ms: 0, ..Policy::default() };
    let mut deleted = Vec::new();
    for count in [3, 4] {
        let claimed = harness.leased(Draft { policy: policy.clone(), ..with_budget("month", 5) }).await;
        harness.report_usage(&claimed, "month", count).await.expect("it is counted");
        harness.complete(&claimed, b"1").await;
        deleted.push(claimed.execution.id);
    }
    harness.spend("month", 10, None).await;
    let ledger = async || harness.store.ledger(budget.id(), 0).await.expect("the ledger is read");
    assert_eq!(ledger().await.len(), 3);
    for id in deleted {
        harness.due(id, DueKind::Retention).await;
        assert!(harness.find(id).await.is_none() && harness.ledger_of(id).await.is_empty());
    }
    let remaining = ledger().await;
    assert_eq!((remaining.len(), remaining[0].execution, &remaining[0].spent), (1, None, &tokens(17)));
    assert_eq!(harness.used_and_reserved(&budget).await.0, tokens(17));
}

pub async fn the_part_of_a_budget_for_a_flow_is_deleted_with_the_flow(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, Config { scope: BudgetScope::Flow, ..token_limit(100) }).await;
    let policy = Policy { retention_ms: 0, ..Policy::default() };
    let mut parts = Vec::new();
    for count in [3, 4] {
        let claimed = harness.leased(Draft { policy: policy.clone(), ..with_budget("month", 5) }).await;
        harness.report_usage(&claimed, "month", count).await.expect("it is counted");
        harness.complete(&claimed, b"1").await;
        let id = claimed.execution.id;
        let part = budget.clone().part(Name::trusted(&id.to_string()));
        assert_eq!(harness.used_and_reserved(&part).await.0, tokens(count));
        parts.push((id, part));
    }
    let (deleted, kept) = (&parts[0], &parts[1]);
    harness.due(deleted.0, DueKind::Retention).await;
    assert_eq!(harness.find_gate(&deleted.1).await, None);
    assert!(harness.store.ledger(deleted.1.id(), 0).await.expect("the ledger is read").is_empty());
    assert_eq!(harness.used_and_reserved(&kept.1).await.0, tokens(4));
    assert_eq!(harness.store.ledger(kept.1.id(), 0).await.expect("the ledger is read").len(), 1);
}

pub async fn several_budgets_are_all_checked_and_the_first_that_refuses_holds(harness: &Harness) {
    let [wide, narrow] = ["wide", "narrow"].map(|name| harness.budget(name));
    harness.configure(&wide, token_limit(100)).await;
    harness.configure(&narrow, token_limit(5)).await;
    let draft = with_draws(RequiredGates {
        budgets: ["wide", "narrow"].map(|name| (Name::trusted(name), tokens(3))).to_vec(),
        ..RequiredGates::default()
    });
    let all = harness.submit_ids(vec![draft; 2]).await;
    let claimed = harness.claim(10).await;
    assert_eq!(ids(&claimed), all[..1]);
    harness.assert_held(all[1], &narrow).await;
    assert_eq!(harness.used_and_reserved(&wide).await.1, tokens(3), "a held execution has reserved nothing");
    harness.operate(all[0], Action::Cancel { reason: None, grace_ms: 0 }).await.expect("it is cancelled");
    assert_eq!(ids(&harness.claim(10).await), all[1..]);
}
