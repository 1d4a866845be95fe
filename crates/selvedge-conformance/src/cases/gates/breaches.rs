//! Breaches: by policy, an exhausted budget suspends or fails the active executions that draw on it, or lets them continue.

use crate::cases::execution::rows::assert_read_everywhere;
use crate::harness::gates::{ids, token_limit, tokens, with_budget};
use crate::harness::runner::RuleList;
use crate::harness::{Harness, fence};
use selvedge_core::gate::{Config, OnHard};
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::{Op, Reports};
use selvedge_core::state::StateName;
use selvedge_core::submission::When;
use selvedge_core::{Draft, FailureClass, Outcome, State};

pub async fn an_attempt_that_a_budget_suspended_may_be_ended_until_the_next_claim(harness: &Harness) {
    let budget = harness.budget("month");
    harness.configure(&budget, Config { on_hard: OnHard::Suspend, ..token_limit(10) }).await;
    let complete = || Op::Complete { result: "1".into() };
    let fail =
        || Op::Fail { message: "it broke".into(), class: FailureClass::Transient, retry_after_ms: Some(0) };
    let breached = async || {
        let claimed = harness.leased(with_budget("month", 5)).await;
        let counted = harness.report_usage(&claimed, "month", 10).await.expect("it is counted");
        let stop = counted.stops.expect("its budget is used up");
        assert_eq!(harness.run(stop).await, Ok(true));
        assert_eq!(harness.state(claimed.execution.id).await, StateName::Suspended);
        claimed
    };
    // While it is suspended.
    let first = breached().await;
    let stale = harness.report(fence(&first), Op::Release).await.expect_err("only its end is accepted");
    assert_eq!(stale.code(), "stale_lease");
    let mut other = fence(&first);
    other.lease_id = selvedge_core::LeaseId(uuid::Uuid::now_v7());
    assert!(harness.report(other, complete()).await.is_err(), "another lease");
    let done = harness.report(fence(&first), complete()).await.expect("the result is not lost");
    assert_eq!(done.state, StateName::Completed);
    let again = harness.report(fence(&first), complete()).await.expect("it is the same report");
    assert_eq!(again.state, StateName::Completed);
    harness.reset(&budget).await;
    // After the budget has released it, and after an operator has put it off.
    let second = breached().await;
    harness.reset(&budget).await;
    assert_eq!(harness.state(second.execution.id).await, StateName::Waiting);
    let later = Action::Reschedule { until: When::AfterMs(3_600_000) };
    harness.operate(second.execution.id, later).await.expect("it is put off");
    let failed = harness.report(fence(&second), fail()).await.expect("the failure is not lost");
    assert_eq!(failed.state, StateName::Waiting);
    let late = harness.report(fence(&second), complete()).await.expect_err("the attempt has ended");
    assert_eq!(late.code(), "stale_lease");
    let claimed = harness.claim_again(second.execution.id).await;
    harness.complete(&claimed, b"1").await;
    // Not after the next claim.
    let third = breached().await;
    harness.reset(&budget).await;
    let next = harness.claim_again(third.execution.id).await;
    let late = harness.report(fence(&third), complete()).await.expect_err("another attempt has the lease");
    assert_eq!(late.code(), "stale_lease");
    harness.complete(&next, b"1").await;
    // Not after its end, nor in its next generation.
    let fourth = breached().await;
    let id = fourth.execution.id;
    harness.operate(id, Action::Cancel { reason: None, grace_ms: 0 }).await.expect("it is cancelled");
    assert!(harness.report(fence(&fourth), complete()).await.is_err(), "it has ended");
    harness.operate(id, Action::Replay).await.expect("it is replayed");
    assert!(harness.report(fence(&fourth), complete()).await.is_err(), "another generation");
}

pub async fn an_attempt_that_a_budget_failed_stays_failed(harness: &Harness) {
    harness.configure(&harness.budget("month"), Config { on_hard: OnHard::Fail, ..token_limit(10) }).await;
    let usage = |claimed: &Claimed| {
        let spend = harness.spend_command("month", tokens(10), Some(claimed.execution.id));
        harness.report_command(fence(claimed), Op::Usage(spend))
    };
    let complete =
        |claimed: &Claimed| harness.report_command(fence(claimed), Op::Complete { result: "1".into() });
    // A completion in the same report comes first.
    let first = harness.leased(with_budget("month", 5)).await;
    let mut replies = harness.run(Reports(vec![usage(&first), complete(&first)])).await.into_iter();
    let counted = replies.next().and_then(Result::ok).and_then(|reported| reported.usage);
    let stop = counted.and_then(|counted| counted.stops).expect("its budget is used up");
    assert_eq!(replies.next().expect("it is answered").expect("it is accepted").state, StateName::Completed);
    assert_eq!(harness.run(stop).await, Ok(false));
    assert_eq!(harness.state(first.execution.id).await, StateName::Completed);
    harness.reset(&harness.budget("month")).await;
    let second = harness.leased(with_budget("month", 5)).await;
    harness.run(usage(&second)).await.expect("it is counted");
    harness.check_due_gates().await;
    assert_eq!(harness.state(second.execution.id).await, StateName::Failed);
    let late = harness.run(complete(&second)).await.expect_err("terminal stays terminal");
    assert_eq!(late.code(), "stale_lease");
    assert_eq!(harness.state(second.execution.id).await, StateName::Failed);
}

/// Exhausts a budget with this policy. Returns an active execution that draws on it, and one that does not.
async fn exhaust_budget(harness: &Harness, on_hard: OnHard) -> (Claimed, Claimed) {
    let name = on_hard.as_str();
    harness.configure(&harness.budget(name), Config { on_hard, ..token_limit(10) }).await;
    let claimed = harness.leased(with_budget(name, 4)).await;
    let other = harness.leased(Draft::new("kind")).await;
    harness.report_usage(&claimed, name, 10).await.expect("it is counted");
    (claimed, other)
}

pub async fn an_exhausted_budget_may_let_active_executions_continue(harness: &Harness) {
    let (claimed, _) = exhaust_budget(harness, OnHard::Hold).await;
    harness.check_due_gates().await;
    harness.complete(&claimed, b"1").await;
    assert_eq!(harness.state(claimed.execution.id).await, StateName::Completed);
}

pub async fn an_exhausted_budget_may_fail_active_executions(harness: &Harness) {
    let (claimed, other) = exhaust_budget(harness, OnHard::Fail).await;
    let budget = harness.budget("fail");
    harness.check_due_gates().await;
    let row = harness.row(claimed.execution.id).await;
    assert_eq!(row.state, State::Terminal(Outcome::Failed));
    let error = row.detail.error.clone().expect("it has an error");
    assert_eq!((error.class, error.message.as_str()), (FailureClass::Permanent, "budget fail is used up"));
    assert_read_everywhere(harness, &row).await;
    assert_eq!(harness.state(other.execution.id).await, StateName::Active, "it does not draw on it");
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(10), tokens(0)));
    assert!(!harness.gate(&budget).await.state.stops, "all were stopped");
    let late = harness.report(fence(&claimed), Op::Release).await.expect_err("its lease is over");
    assert_eq!(late.code(), "stale_lease");
    harness.report_usage(&claimed, "fail", 3).await.expect("later usage is counted");
    assert_eq!(harness.used_and_reserved(&budget).await.0, tokens(13));
}

pub async fn an_exhausted_budget_may_suspend_active_executions_until_there_is_room(harness: &Harness) {
    let (claimed, _) = exhaust_budget(harness, OnHard::Suspend).await;
    let (id, budget) = (claimed.execution.id, harness.budget("suspend"));
    harness.check_due_gates().await;
    let row = harness.row(id).await;
    assert_eq!((row.state.name(), row.state.gate()), (StateName::Suspended, Some(&budget)));
    assert_read_everywhere(harness, &row).await;
    assert_eq!(harness.held_by(&budget).await, 1);
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(10), tokens(0)));
    assert_eq!(harness.stop(&budget).await, 0, "it is not active");
    harness.configure(&budget, Config { on_hard: OnHard::Suspend, ..token_limit(13) }).await;
    assert_eq!(harness.state(id).await, StateName::Suspended, "there is not enough for its reservation");
    harness.configure(&budget, Config { on_hard: OnHard::Suspend, ..token_limit(14) }).await;
    let again = harness.claim_again(id).await;
    assert_eq!(again.execution.epoch, 2);
    assert_eq!(harness.used_and_reserved(&budget).await, (tokens(10), tokens(4)));
}

pub async fn an_execution_suspended_by_a_budget_may_be_resumed_by_an_operator(harness: &Harness) {
    let (claimed, _) = exhaust_budget(harness, OnHard::Suspend).await;
    let (id, budget) = (claimed.execution.id, harness.budget("suspend"));
    harness.check_due_gates().await;
    harness.resume(id).await;
    assert_eq!(harness.held_by(&budget).await, 0);
    assert!(harness.claim(10).await.is_empty(), "a new claim is still refused");
    harness.assert_held(id, &budget).await;
    harness.reset(&budget).await;
    assert_eq!(ids(&harness.claim(10).await), [id]);
}

pub async fn executions_to_be_stopped_are_not_forgotten_when_another_ends(harness: &Harness) {
    let budget = harness.budget("suspend");
    harness.configure(&budget, Config { on_hard: OnHard::Suspend, ..token_limit(10) }).await;
    let all = harness.submit_ids(vec![with_budget("suspend", 2); 2]).await;
    let claimed = harness.claim(10).await;
    // The execution that exhausts the budget ends in the same transaction.
    let spend = harness.spend_command("suspend", tokens(10), Some(all[0]));
    let reports = [Op::Usage(spend), Op::Complete { result: "1".into() }]
        .map(|op| harness.report_command(fence(&claimed[0]), op));
    for reply in harness.run(RuleList(reports.to_vec())).await {
        reply.expect("it is accepted");
    }
    let gate = harness.gate(&budget).await;
    assert!(gate.state.stops && gate.due_at.is_some(), "{gate:?}");
    harness.check_due_gates().await;
    harness.assert_states_of(&all, &[StateName::Completed, StateName::Suspended]).await;
}

pub async fn a_breach_that_is_over_stops_nothing(harness: &Harness) {
    let (claimed, _) = exhaust_budget(harness, OnHard::Fail).await;
    let budget = harness.budget("fail");
    harness.configure(&budget, Config { on_hard: OnHard::Fail, ..token_limit(100) }).await;
    harness.check_due_gates().await;
    assert_eq!(harness.stop(&budget).await, 0);
    assert!(!harness.gate(&budget).await.state.stops);
    harness.complete(&claimed, b"1").await;
}
