//! Concurrency keys and quotas: no limit is exceeded, refused executions are held and do not block others, and every
//! end of a lease gives back its slots.

use super::lanes::assert_rate_is_kept;
use crate::harness::concurrently;
use crate::harness::gates::{concurrency, ids, rate, tokens, with_draws, with_key, with_quotas};
use crate::harness::runner::{RuleList, RulePair};
use crate::harness::signals::{on_signal, suspend};
use crate::harness::sketch::Sketch;
use crate::harness::worker::Worker;
use crate::harness::{Harness, fence};
use selvedge_core::fact;
use selvedge_core::flow::CancelMode;
use selvedge_core::gate::{Config, GateName, RequiredGates};
use selvedge_core::rows::UnreadWrites;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::gates::CHUNK;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::timer::{Timer, TimerReply};
use selvedge_core::rules::worker::{Depart, PutBack, PutBackReason};
use selvedge_core::state::StateName;
use selvedge_core::submission::When;
use selvedge_core::suspension::WaitDraft;
use selvedge_core::{
    Changes, Draft, DueKind, ExecutionId, Fact, FailureClass, Gate, Name, Outcome, Policy, State,
};
use selvedge_store::ReconcilerScope;
use std::collections::BTreeSet;

const CANCEL: Action = Action::Cancel { reason: None, grace_ms: 0 };

pub async fn an_execution_refused_by_a_key_is_held_and_does_not_block_others(harness: &Harness) {
    let same = harness.submit_ids(vec![with_key("a", 1); 3]).await;
    let behind = harness.submit_ids(vec![with_key("b", 1), Draft::new("kind")]).await;
    let claimed = harness.claim(10).await;
    assert_eq!(ids(&claimed), [same[0], behind[0], behind[1]]);
    let key = harness.key("a");
    for id in &same[1..] {
        harness.assert_held(*id, &key).await;
        let logged = harness.facts_of(*id).await;
        assert!(
            matches!(&logged[1], Fact::Held(fact::Held { gate, reason, until: None })
            if *gate == key && reason.contains("has 1 active and allows 1")),
            "{logged:?}"
        );
    }
    assert_eq!((harness.gate(&key).await.active, harness.held_by(&key).await), (1, 2));
    assert_eq!(harness.gate(&key).await.due_at, None, "a full gate is not checked");
    assert!(harness.claim(10).await.is_empty(), "held executions are not candidates");
    harness.complete(&claimed[0], b"1").await;
    harness.assert_states_of(&same[1..], &[StateName::Waiting, StateName::Held]).await;
    assert_eq!(ids(&harness.claim(10).await), same[1..2]);
    assert_eq!((harness.check_gate(&key).await, harness.held_by(&key).await), (0, 1));
    assert_eq!(harness.gate(&key).await.due_at, None, "a full gate is not checked");
}

pub async fn a_key_never_has_more_active_than_its_limit(harness: &Harness) {
    let all = harness.submit_ids(vec![with_key("tenant", 3); 20]).await;
    let mut distinct: BTreeSet<ExecutionId> = BTreeSet::new();
    let mut rounds = 0;
    while distinct.len() < all.len() {
        let claims = concurrently(4, |namespace| {
            let harness = harness.clone();
            async move { harness.claim_as(&Worker::new(&format!("task {namespace}")), 2).await }
        });
        let mut active: Vec<Claimed> = claims.await.into_iter().flatten().collect();
        active.extend(harness.claim(10).await);
        assert!(active.len() <= 3, "{} are active", active.len());
        assert_eq!(harness.gate(&harness.key("tenant")).await.active as usize, active.len());
        distinct.extend(ids(&active));
        concurrently(active.len(), |index| {
            let (harness, one) = (harness.clone(), active[index].clone());
            async move { harness.complete(&one, b"1").await }
        })
        .await;
        harness.check_gate(&harness.key("tenant")).await;
        rounds += 1;
        assert!(rounds < 100, "{} of {} have run", distinct.len(), all.len());
    }
    assert_eq!(harness.find_gate(&harness.key("tenant")).await, None, "its row is deleted");
}

pub async fn held_executions_are_released_by_priority_and_then_by_age(harness: &Harness) {
    let first = harness.leased(with_key("a", 1)).await;
    let urgent = |priority| Draft { priority, ..with_key("a", 1) };
    let all = harness.submit_ids(vec![urgent(0), urgent(5), urgent(0), urgent(9), urgent(5)]).await;
    assert!(harness.claim(10).await.is_empty());
    // A held execution with a raised priority is released before the others.
    harness.operate(all[2], Action::Prioritise { priority: 7 }).await.expect("it is prioritised");
    harness.assert_held(all[2], &harness.key("a")).await;
    let (mut active, mut order) = (first, Vec::new());
    for _ in &all {
        harness.complete(&active, b"1").await;
        let next = harness.claim(10).await;
        assert_eq!(next.len(), 1, "one at a time");
        order.extend(ids(&next));
        active = next.into_iter().next().expect("there is one");
    }
    assert_eq!(order, [all[3], all[2], all[1], all[4], all[0]]);
}

pub async fn a_quota_limits_all_executions_that_draw_on_it(harness: &Harness) {
    harness.configure(&harness.quota("few"), concurrency(2)).await;
    let lane = |name: &str| Draft { lane: name.into(), ..with_quotas(&["few"]) };
    let all = harness
        .submit_ids(vec![lane("a"), lane("b"), lane("a"), Draft { kind: "other".into(), ..lane("b") }])
        .await;
    let worker = Worker::new("one").on(&["a", "b"]);
    let claimed = harness.claim_as(&worker, 10).await;
    assert_eq!(ids(&claimed), all[..2]);
    harness.assert_held(all[2], &harness.quota("few")).await;
    harness.assert_held(all[3], &harness.quota("few")).await;
    let reports: Vec<_> = claimed
        .iter()
        .map(|one| harness.report_command(fence(one), Op::Complete { result: "1".into() }))
        .collect();
    harness.run(RuleList(reports)).await;
    harness.assert_states_of(&all[2..], &[StateName::Waiting; 2]).await;
    assert_eq!(ids(&harness.claim_as(&worker, 10).await), all[2..]);
}

pub async fn a_quota_that_was_removed_refuses_nothing_and_counts(harness: &Harness) {
    harness.configure(&harness.quota("free"), concurrency(1)).await;
    harness.submit_ids(vec![with_quotas(&["free"]); 5]).await;
    harness.unconfigure(&harness.quota("free")).await;
    let claimed = harness.claim(10).await;
    assert_eq!((claimed.len(), harness.gate(&harness.quota("free")).await.active), (5, 5));
    // A limit that is configured later counts active executions.
    harness.configure(&harness.quota("free"), concurrency(6)).await;
    let more = harness.submit_ids(vec![with_quotas(&["free"]); 2]).await;
    assert_eq!(ids(&harness.claim(10).await), more[..1]);
    harness.assert_held(more[1], &harness.quota("free")).await;
}

pub async fn a_quota_never_exceeds_its_rate_in_any_window(harness: &Harness) {
    let quota = harness.quota("calls");
    harness.configure(&quota, rate(3, 50)).await;
    let all = harness.submit_ids(vec![with_quotas(&["calls"]); 10]).await;
    let first = harness.claim(1).await;
    assert_eq!(ids(&first), all[..1]);
    harness.complete(&first[0], b"1").await;
    // The end of an execution gives no start back.
    harness.advance_past(100).await;
    assert_rate_is_kept(harness, 3, 50, &all[1..]).await;
}

pub async fn a_gate_whose_rate_refuses_is_checked_when_its_window_has_room(harness: &Harness) {
    let quota = harness.quota("calls");
    harness.configure(&quota, rate(2, 3_600_000)).await;
    let all = harness.submit_ids(vec![with_quotas(&["calls"]); 3]).await;
    let now = harness.now().await;
    assert_eq!(ids(&harness.claim(10).await), all[..2]);
    let due_at = harness.gate(&quota).await.due_at.expect("it is due for a check");
    assert!(due_at > now.plus_ms(3_600_000) && due_at < now.plus_ms(3_700_000), "{now:?} {due_at:?}");
    let logged = harness.facts_of(all[2]).await;
    assert!(
        matches!(logged[1], Fact::Held(fact::Held { until: Some(until), .. }) if until == due_at),
        "{logged:?}"
    );
    assert_eq!(harness.store.overview().await.expect("the overview is read").due.of::<Gate>(), Some(due_at));
    assert_eq!((harness.check_gate_if_due(&quota).await, harness.check_gate(&quota).await), (0, 0));
    assert_eq!(harness.gate(&quota).await.due_at, Some(due_at));
    harness.assert_held(all[2], &quota).await;
    if harness.has_manual_clock() {
        harness.advance_past(3_636_000).await;
        harness.check_due_gates().await;
    } else {
        harness.configure(&quota, rate(3, 3_600_000)).await;
    }
    assert_eq!(ids(&harness.claim(10).await), all[2..]);
}

pub async fn a_rate_or_a_limit_of_zero_is_opened_only_by_an_operator(harness: &Harness) {
    for (name, config) in [("rate", rate(0, 50)), ("slots", concurrency(0))] {
        let quota = harness.quota(name);
        harness.configure(&quota, config).await;
        let id = harness.submit(with_quotas(&[name])).await.id;
        assert!(harness.claim(10).await.is_empty());
        harness.assert_held(id, &quota).await;
        assert_eq!(harness.gate(&quota).await.due_at, None, "it is not due for a check");
        assert_eq!(harness.check_gate(&quota).await, 0);
        harness.configure(&quota, concurrency(1)).await;
        harness.complete(&harness.claim_again(id).await, b"1").await;
    }
}

pub async fn an_execution_refused_by_the_second_gate_takes_nothing_of_the_first(harness: &Harness) {
    harness.configure(&harness.quota("a"), concurrency(2)).await;
    harness.configure(&harness.quota("b"), concurrency(1)).await;
    let both = harness.submit_ids(vec![with_quotas(&["a", "b"]), with_quotas(&["a", "b"])]).await;
    let only_a = harness.submit_ids(vec![with_quotas(&["a"]); 2]).await;
    let claimed = harness.claim(10).await;
    assert_eq!(ids(&claimed), [both[0], only_a[0]]);
    harness.assert_held(both[1], &harness.quota("b")).await;
    harness.assert_held(only_a[1], &harness.quota("a")).await;
    assert_eq!(
        (harness.gate(&harness.quota("a")).await.active, harness.gate(&harness.quota("b")).await.active),
        (2, 1)
    );
    // One end opens both gates: one released execution takes the slot, the other is held again.
    harness.complete(&claimed[0], b"1").await;
    harness.assert_states_of(&[both[1], only_a[1]], &[StateName::Waiting; 2]).await;
    let next = harness.claim(10).await;
    assert_eq!(next.len(), 1);
    let other = if next[0].execution.id == both[1] { only_a[1] } else { both[1] };
    harness.assert_held(other, &harness.quota("a")).await;
    for one in [&claimed[1], &next[0]] {
        harness.complete(one, b"1").await;
    }
    assert_eq!(ids(&harness.claim(10).await), [other]);
}

pub async fn a_gate_releases_the_next_if_the_released_one_is_cancelled(harness: &Harness) {
    let quota = harness.quota("few");
    harness.configure(&quota, concurrency(1)).await;
    let all = harness.submit_ids(vec![with_quotas(&["few"]); 3]).await;
    let first = harness.claim(10).await.remove(0);
    harness.complete(&first, b"1").await;
    harness.assert_states_of(&all[1..], &[StateName::Waiting, StateName::Held]).await;
    // The released execution never takes the slot.
    harness.operate(all[1], CANCEL).await.expect("it is cancelled");
    assert!(harness.gate(&quota).await.due_at.is_some(), "it is due for a check");
    assert_eq!(harness.check_gate(&quota).await, 1);
    assert_eq!(ids(&harness.claim(10).await), all[2..]);
    assert_eq!(harness.gate(&quota).await.due_at, None);
}

pub async fn a_raised_lowered_or_removed_limit_applies_at_once(harness: &Harness) {
    let quota = harness.quota("few");
    harness.configure(&quota, concurrency(1)).await;
    let all = harness.submit_ids(vec![with_quotas(&["few"]); 6]).await;
    let mut active = harness.claim(10).await;
    assert_eq!(harness.held_by(&quota).await, 5);
    let configured = harness.configure(&quota, concurrency(3)).await;
    assert!(!configured.created && configured.gate.version > 1);
    harness.assert_states_of(&all[1..4], &[StateName::Waiting, StateName::Waiting, StateName::Held]).await;
    active.extend(harness.claim(10).await);
    assert_eq!(ids(&active), all[..3]);
    harness.configure(&quota, concurrency(1)).await;
    harness.complete(&active.remove(0), b"1").await;
    harness.complete(&active.remove(0), b"1").await;
    assert!(harness.claim(10).await.is_empty(), "the limit is reached");
    harness.complete(&active.remove(0), b"1").await;
    active.extend(harness.claim(10).await);
    assert_eq!(ids(&active), all[3..4]);
    harness.unconfigure(&quota).await;
    harness.assert_states_of(&all[4..], &[StateName::Waiting; 2]).await;
    active.extend(harness.claim(10).await);
    assert_eq!(ids(&active), all[3..]);
    let refused = harness.try_configure(&quota, None).await.expect_err("it is not configured");
    assert_eq!(refused.code(), "not_found");
    for one in &active {
        harness.complete(one, b"1").await;
    }
    assert_eq!(harness.find_gate(&quota).await, None, "its row is deleted");
}

pub async fn held_executions_are_released_in_bounded_chunks(harness: &Harness) {
    let quota = harness.quota("none");
    harness.configure(&quota, concurrency(0)).await;
    let chunk = CHUNK as usize;
    let all = harness.submit_ids(vec![with_quotas(&["none"]); 2 * chunk + 50]).await;
    assert!(harness.claim(1_000).await.is_empty());
    assert_eq!(harness.held_by(&quota).await, all.len() as u64);
    harness.unconfigure(&quota).await;
    assert_eq!(harness.held_by(&quota).await as usize, chunk + 50, "one transaction releases one chunk");
    assert!(harness.gate(&quota).await.due_at.is_some(), "it is due for a check");
    for held in [50, 0] {
        if harness.has_manual_clock() {
            assert_eq!(harness.check_gate_if_due(&quota).await, 0, "it is not due yet");
            harness.advance_past(1_000).await;
            harness.check_due_gates().await;
        } else {
            harness.check_gate(&quota).await;
        }
        assert_eq!(harness.held_by(&quota).await, held);
    }
    assert_eq!(harness.find_gate(&quota).await, None, "a gate that holds nothing is deleted");
    let claimed = harness.claim(1_000).await;
    assert_eq!(ids(&claimed), all, "in their order");
}

/// Returns a draft that draws on a key, a quota and a budget in a limited lane, and the four gates.
async fn draft_through_every_gate(harness: &Harness) -> (Draft, [GateName; 4]) {
    let gates =
        [harness.lane("default"), harness.key("key"), harness.quota("quota"), harness.budget("budget")];
    harness.configure(&gates[0], concurrency(5)).await;
    harness.configure(&gates[2], concurrency(5)).await;
    harness.configure(&gates[3], crate::harness::gates::token_limit(100)).await;
    let draft = with_draws(RequiredGates {
        budgets: vec![(Name::trusted("budget"), tokens(7))],
        quotas: vec![Name::trusted("quota")],
        concurrency: Some((Name::trusted("key"), 5)),
        fairness_key: None,
    });
    (draft, gates)
}

/// Asserts that `active` executions have taken slots and reservations of these gates.
async fn assert_taken(harness: &Harness, gates: &[GateName], active: u32, way: &str) {
    for gate in &gates[..3] {
        assert_eq!(harness.gate(gate).await.active, active, "{gate} after {way}");
    }
    let reserved = harness.gate(&gates[3]).await.state.reserved;
    assert_eq!(reserved, tokens(7 * active), "reserved after {way}");
}

pub async fn every_end_of_a_lease_gives_back_its_slots(harness: &Harness) {
    let (draft, gates) = draft_through_every_gate(harness).await;
    let fail = |class| Op::Fail { message: "it broke".into(), class, retry_after_ms: None };
    let reports = [
        ("complete", Op::Complete { result: "1".into() }),
        ("a retried failure", fail(FailureClass::Transient)),
        ("a permanent failure", fail(FailureClass::Permanent)),
        ("a delay", Op::Delay { until: When::AfterMs(3_600_000) }),
        ("a release", Op::Release),
        ("a suspension", suspend(vec![WaitDraft::new(on_signal("go"))], vec![])),
        ("a suspension that resumes at once", suspend(vec![WaitDraft::new(on_signal("come"))], vec![])),
    ];
    for (way, op) in reports {
        let claimed = harness.leased(draft.clone()).await;
        let id = claimed.execution.id;
        assert_taken(harness, &gates, 1, "a claim").await;
        harness.signal(id, "come").await;
        harness.report(fence(&claimed), op).await.expect("it is accepted");
        assert_taken(harness, &gates, 0, way).await;
        if harness.row(id).await.state.outcome().is_none() {
            harness.operate(id, CANCEL).await.expect("it is cancelled");
        }
    }
    for (way, why) in
        [("an orphaned lease", PutBackReason::Orphaned), ("a departed worker", PutBackReason::WorkerDeparted)]
    {
        let claimed = harness.leased(draft.clone()).await;
        let instance = Name::trusted("one");
        if why == PutBackReason::WorkerDeparted {
            let fences =
                harness.run(Depart { namespace: harness.namespace, instance, incarnation: None }).await;
            assert_eq!(fences.expect("the worker is known"), [fence(&claimed)]);
            assert_taken(harness, &gates, 1, "a departure, whose leases are put back later").await;
        }
        let put_back = PutBack { namespace: harness.namespace, fence: fence(&claimed), why };
        assert_eq!(harness.run(put_back).await, Ok(true));
        assert_taken(harness, &gates, 0, way).await;
        harness.operate(claimed.execution.id, CANCEL).await.expect("it is cancelled");
    }
    for (way, action, over) in
        [("a revocation", Action::Revoke { reason: None }, false), ("a cancellation", CANCEL, true)]
    {
        let id = harness.leased(draft.clone()).await.execution.id;
        harness.operate(id, action).await.expect("it is done");
        assert_taken(harness, &gates, 0, way).await;
        if !over {
            harness.operate(id, CANCEL).await.expect("it is cancelled");
        }
    }
}

pub async fn every_end_of_a_lease_by_time_gives_back_its_slots(harness: &Harness) {
    let (draft, gates) = draft_through_every_gate(harness).await;
    let with = |policy: Policy| Draft { policy, ..draft.clone() };
    let short_lived = Worker { ttl_ms: 1, ..Worker::new("short") };
    let ways = [
        ("an expiry", draft.clone(), Timer::LeaseExpiry),
        (
            "a deadline",
            with(Policy { deadline_ms: Some(1), ..Policy::default() }),
            Timer::Due(DueKind::Deadline),
        ),
        (
            "a timeout",
            with(Policy { attempt_timeout_ms: Some(1), ..Policy::default() }),
            Timer::Due(DueKind::AttemptTimeout),
        ),
        ("the end of a grace period", draft.clone(), Timer::Due(DueKind::Deadline)),
    ];
    for (way, draft, what) in ways {
        let id = harness.submit(draft).await.id;
        let claimed = harness.claim_as(&short_lived, 1).await;
        assert_eq!(ids(&claimed), [id]);
        assert_taken(harness, &gates, 1, "a claim").await;
        if way == "the end of a grace period" {
            let cancel = Action::Cancel { reason: None, grace_ms: 1 };
            harness.operate(id, cancel).await.expect("the cancellation is requested");
            assert_taken(harness, &gates, 1, "a requested cancellation").await;
        }
        harness.advance_past(1).await;
        assert_eq!(harness.tick(id, what).await, TimerReply::Fired, "{way}");
        assert_taken(harness, &gates, 0, way).await;
        if harness.row(id).await.state.outcome().is_none() {
            harness.operate(id, CANCEL).await.expect("it is cancelled");
        }
    }
}

pub async fn the_cancellation_of_a_flow_gives_back_the_slots_of_its_members(harness: &Harness) {
    let (draft, gates) = draft_through_every_gate(harness).await;
    harness.configure(&gates[2], concurrency(2)).await;
    let flow = harness
        .flow(Sketch::from("a b c").each(|node| node.required_gates = draft.required_gates.clone()))
        .await;
    assert_eq!(harness.claim(10).await.len(), 2);
    flow.assert_states("a=active b=active c=held").await;
    assert_taken(harness, &gates, 2, "a claim").await;
    flow.try_cancel(CancelMode::All).await.expect("it is cancelled");
    flow.drain_and_assert("a=cancelled b=cancelled c=cancelled").await;
    assert_taken(harness, &gates, 0, "the cancellation of the flow").await;
    assert_eq!(harness.held_by(&gates[2]).await, 0);
}

/// Returns an active execution that has the slot of the key `a`, and one that the key holds.
async fn held_by_a(harness: &Harness, draft: Draft) -> (Claimed, ExecutionId) {
    let active = harness.leased(with_key("a", 1)).await;
    let id = harness.submit(Draft { required_gates: with_key("a", 1).required_gates, ..draft }).await.id;
    assert!(harness.claim(10).await.is_empty());
    harness.assert_held(id, &harness.key("a")).await;
    (active, id)
}

pub async fn held_executions_are_cancelled_and_expire_like_waiting_ones(harness: &Harness) {
    let soon = |policy: Policy| Draft { policy, ..Draft::new("kind") };
    let ways = [
        (Draft::new("kind"), None, Outcome::Cancelled),
        (
            soon(Policy { deadline_ms: Some(5), ..Policy::default() }),
            Some(DueKind::Deadline),
            Outcome::Expired,
        ),
        (
            soon(Policy { start_by_ms: Some(5), ..Policy::default() }),
            Some(DueKind::Deadline),
            Outcome::Expired,
        ),
    ];
    for (draft, due, outcome) in ways {
        let (active, id) = held_by_a(harness, draft).await;
        match due {
            None => drop(harness.operate(id, CANCEL).await.expect("it is cancelled")),
            Some(kind) => {
                harness.advance_past(5).await;
                let found =
                    harness.store.due(&ReconcilerScope::ALL, kind, None, 9).await.expect("rows are read");
                assert_eq!(found.iter().map(|row| row.execution).collect::<Vec<_>>(), [id]);
                harness.due(id, kind).await;
            }
        }
        assert_eq!(harness.row(id).await.state, State::Terminal(outcome));
        assert_eq!(harness.held_by(&harness.key("a")).await, 0);
        harness.complete(&active, b"1").await;
        assert_eq!(harness.find_gate(&harness.key("a")).await, None);
    }
}

pub async fn a_held_execution_may_be_rescheduled_and_is_checked_again(harness: &Harness) {
    let (active, id) = held_by_a(harness, Draft::new("kind")).await;
    let until = |ms| Action::Reschedule { until: When::AfterMs(ms) };
    harness.operate(id, until(3_600_000)).await.expect("it is rescheduled");
    harness.assert_states_of(&[id], &[StateName::Delayed]).await;
    assert_eq!(harness.held_by(&harness.key("a")).await, 0);
    harness.operate(id, until(0)).await.expect("it is rescheduled");
    harness.assert_states_of(&[id], &[StateName::Waiting]).await;
    assert!(harness.claim(10).await.is_empty());
    harness.assert_held(id, &harness.key("a")).await;
    harness.complete(&active, b"1").await;
    assert_eq!(ids(&harness.claim(10).await), [id]);
}

pub async fn a_replay_draws_anew(harness: &Harness) {
    let (draft, gates) = draft_through_every_gate(harness).await;
    let claimed = harness.leased(draft).await;
    let id = claimed.execution.id;
    harness.complete(&claimed, b"1").await;
    assert_taken(harness, &gates, 0, "its end").await;
    harness.operate(id, Action::Replay).await.expect("it is replayed");
    assert_taken(harness, &gates, 0, "a replay, which claims nothing").await;
    let claimed = harness.claim_again(id).await;
    assert_taken(harness, &gates, 1, "its second claim").await;
    harness.complete(&claimed, b"2").await;
    assert_taken(harness, &gates, 0, "its second end").await;
}

pub async fn an_end_and_a_claim_of_the_released_execution_share_one_transaction(harness: &Harness) {
    let all = harness.submit_ids(vec![with_key("a", 1); 3]).await;
    let first = harness.claim(10).await.remove(0);
    let report = harness.report_command(fence(&first), Op::Complete { result: "1".into() });
    let claim = harness.claim_command(&Worker::new("one"), 10);
    let (reported, claimed) = harness.run(RulePair(report, claim)).await;
    reported.expect("it is completed");
    assert_eq!(ids(&claimed.expect("it is not refused").claimed), all[1..2]);
    harness.assert_held(all[2], &harness.key("a")).await;
    assert_eq!(harness.gate(&harness.key("a")).await.active, 1);
}

pub async fn concurrency_keys_of_different_namespaces_are_independent(harness: &Harness) {
    let other_namespace = harness.in_namespace("beside").await;
    for namespace in [harness, &other_namespace] {
        namespace.submit(with_key("tenant", 1)).await;
        assert_eq!(namespace.claim(10).await.len(), 1);
    }
}

pub async fn each_execution_brings_its_own_limit_of_the_key(harness: &Harness) {
    let all = harness
        .submit_ids(vec![with_key("a", 3), with_key("a", 3), with_key("a", 1), with_key("a", 3)])
        .await;
    let claimed = harness.claim(10).await;
    assert_eq!(ids(&claimed), [all[0], all[1], all[3]], "the third has a limit of one, and two are active");
    harness.assert_held(all[2], &harness.key("a")).await;
    for one in &claimed[..2] {
        harness.complete(one, b"1").await;
        harness.assert_held(all[2], &harness.key("a")).await;
    }
    harness.complete(&claimed[2], b"1").await;
    assert_eq!(ids(&harness.claim(10).await), [all[2]]);
}

pub async fn slots_given_back_without_loading_the_gate_are_found(harness: &Harness) {
    let all = harness.submit_ids(vec![with_key("a", 1); 2]).await;
    assert_eq!(harness.claim(10).await.len(), 1);
    let key = harness.key("a");
    assert_eq!(harness.gate(&key).await.due_at, None);
    harness
        .save(Changes {
            unread: UnreadWrites { slots_freed: vec![(key.id(), 1)], ..UnreadWrites::default() },
            ..Changes::default()
        })
        .await;
    assert_eq!(harness.gate(&key).await.active, 0);
    // The save does not know what the gate holds, so the gate is due at once.
    assert_eq!(harness.check_gate_if_due(&key).await, 1);
    assert_eq!(ids(&harness.claim(10).await), all[1..]);
}

pub async fn a_quota_without_limits_holds_nothing(harness: &Harness) {
    harness.configure(&harness.quota("open"), Config::default()).await;
    harness.submit_ids(vec![with_quotas(&["open"]); 3]).await;
    assert_eq!(harness.claim(10).await.len(), 3);
}
