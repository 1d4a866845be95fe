//! Concurrency keys and quotas: no limit is ever passed, what is refused is held and hides nothing, and every end of a lease gives
//! back what the lease has taken.
#![allow(missing_docs)]

use super::gate_harness::{at_once, drawing, ids, keyed, quoted, starts, tokens};
use super::harness::{Harness, fence};
use super::lanes::starts_within;
use super::rule::{Both, Each};
use super::side_by_side;
use super::signal_harness::{on, suspend};
use super::sketch::Sketch;
use super::worker::Worker;
use selvedge_core::flow::CancelMode;
use selvedge_core::gate::{Config, Draws, GateName};
use selvedge_core::rows::UnreadWrites;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::clock::{Ticked, What};
use selvedge_core::rules::gates::release::CHUNK;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::worker::{Depart, PutBack, PutBackReason};
use selvedge_core::state::StateName;
use selvedge_core::submission::When;
use selvedge_core::suspension::WaitDraft;
use selvedge_core::{Changes, Draft, DueKind, ExecutionId, Fact, FailureClass, Name, Outcome, Policy, State};
use std::collections::BTreeSet;

const CANCEL: Action = Action::Cancel { reason: None, grace_ms: 0 };

async fn submit_all(harness: &Harness, drafts: Vec<Draft>) -> Vec<ExecutionId> {
    harness.submit_all(drafts).await.into_iter().map(|row| row.id).collect()
}

/// What the log tells of an execution.
async fn facts(harness: &Harness, id: ExecutionId) -> Vec<Fact> {
    let events = harness.log().await.into_iter().flat_map(|(_, events)| events);
    events.filter(|event| event.execution == Some(id)).map(|event| event.fact).collect()
}

pub async fn what_a_key_refuses_is_held_and_hides_nothing_behind_it(harness: &Harness) {
    let same = submit_all(harness, vec![keyed("a", 1); 3]).await;
    let behind = submit_all(harness, vec![keyed("b", 1), Draft::new("kind")]).await;
    let claimed = harness.claim(10).await;
    assert_eq!(ids(&claimed), [same[0], behind[0], behind[1]]);
    let key = harness.key("a");
    for id in &same[1..] {
        harness.is_held(*id, &key).await;
        let told = facts(harness, *id).await;
        assert!(
            matches!(&told[1], Fact::Held { gate, reason, until: None }
            if *gate == key && reason.contains("has 1 active and allows 1")),
            "{told:?}"
        );
    }
    assert_eq!((harness.gate(&key).await.active, harness.held_by(&key).await), (1, 2));
    assert_eq!(harness.gate(&key).await.due_at, None, "it is full: nobody looks at it");
    assert!(harness.claim(10).await.is_empty(), "what is held is not looked at again");
    harness.complete(&claimed[0], b"1").await;
    harness.stand(&same[1..], &[StateName::Waiting, StateName::Held]).await;
    assert_eq!(ids(&harness.claim(10).await), same[1..2]);
    assert_eq!((harness.look_at(&key).await, harness.held_by(&key).await), (0, 1));
    assert_eq!(harness.gate(&key).await.due_at, None, "it is full again");
}

pub async fn a_key_never_has_more_active_than_its_limit(harness: &Harness) {
    let all = submit_all(harness, vec![keyed("tenant", 3); 20]).await;
    let mut distinct: BTreeSet<ExecutionId> = BTreeSet::new();
    let mut rounds = 0;
    while distinct.len() < all.len() {
        let claims = side_by_side(4, |side| {
            let harness = harness.clone();
            async move { harness.claim_as(&Worker::new(&format!("side {side}")), 2).await }
        });
        let mut running: Vec<Claimed> = claims.await.into_iter().flatten().collect();
        running.extend(harness.claim(10).await);
        assert!(running.len() <= 3, "{} are active", running.len());
        assert_eq!(harness.gate(&harness.key("tenant")).await.active as usize, running.len());
        distinct.extend(ids(&running));
        side_by_side(running.len(), |place| {
            let (harness, one) = (harness.clone(), running[place].clone());
            async move { harness.complete(&one, b"1").await }
        })
        .await;
        harness.look_at(&harness.key("tenant")).await;
        rounds += 1;
        assert!(rounds < 100, "{} of {} have run", distinct.len(), all.len());
    }
    assert_eq!(harness.find_gate(&harness.key("tenant")).await, None, "nothing is left of it");
}

pub async fn what_is_held_goes_on_by_priority_and_then_by_age(harness: &Harness) {
    let first = harness.leased(keyed("a", 1)).await;
    let urgent = |priority| Draft { priority, ..keyed("a", 1) };
    let all = submit_all(harness, vec![urgent(0), urgent(5), urgent(0), urgent(9), urgent(5)]).await;
    assert!(harness.claim(10).await.is_empty());
    // One that is moved up while it is held goes on before the others.
    harness.operate(all[2], Action::Prioritise { priority: 7 }).await.expect("it is prioritised");
    harness.is_held(all[2], &harness.key("a")).await;
    let (mut running, mut order) = (first, Vec::new());
    for _ in &all {
        harness.complete(&running, b"1").await;
        let next = harness.claim(10).await;
        assert_eq!(next.len(), 1, "one at a time");
        order.extend(ids(&next));
        running = next.into_iter().next().expect("it is one");
    }
    assert_eq!(order, [all[3], all[2], all[1], all[4], all[0]]);
}

pub async fn a_quota_limits_whatever_refers_to_it(harness: &Harness) {
    harness.configure(&harness.quota("few"), at_once(2)).await;
    let lane = |name: &str| Draft { lane: name.into(), ..quoted(&["few"]) };
    let all = submit_all(
        harness,
        vec![lane("a"), lane("b"), lane("a"), Draft { kind: "other".into(), ..lane("b") }],
    )
    .await;
    let worker = Worker::new("one").on(&["a", "b"]);
    let claimed = harness.claim_as(&worker, 10).await;
    assert_eq!(ids(&claimed), all[..2]);
    harness.is_held(all[2], &harness.quota("few")).await;
    harness.is_held(all[3], &harness.quota("few")).await;
    let reports: Vec<_> = claimed
        .iter()
        .map(|one| harness.report_command(fence(one), Op::Complete { result: "1".into() }))
        .collect();
    harness.run(Each(reports)).await;
    harness.stand(&all[2..], &[StateName::Waiting; 2]).await;
    assert_eq!(ids(&harness.claim_as(&worker, 10).await), all[2..]);
}

pub async fn a_quota_that_nobody_has_configured_refuses_nothing_and_counts(harness: &Harness) {
    submit_all(harness, vec![quoted(&["free"]); 5]).await;
    let claimed = harness.claim(10).await;
    assert_eq!((claimed.len(), harness.gate(&harness.quota("free")).await.active), (5, 5));
    // A limit that comes later counts those that run.
    harness.configure(&harness.quota("free"), at_once(6)).await;
    let more = submit_all(harness, vec![quoted(&["free"]); 2]).await;
    assert_eq!(ids(&harness.claim(10).await), more[..1]);
    harness.is_held(more[1], &harness.quota("free")).await;
}

pub async fn a_quota_starts_no_more_in_any_window_than_its_rate(harness: &Harness) {
    let quota = harness.quota("calls");
    harness.configure(&quota, starts(3, 50)).await;
    let all = submit_all(harness, vec![quoted(&["calls"]); 10]).await;
    let first = harness.claim(1).await;
    assert_eq!(ids(&first), all[..1]);
    harness.complete(&first[0], b"1").await;
    // An end gives no start back.
    harness.pass(100).await;
    starts_within(harness, 3, 50, &all[1..]).await;
}

pub async fn what_a_rate_refuses_is_looked_at_when_the_window_has_room(harness: &Harness) {
    let quota = harness.quota("calls");
    harness.configure(&quota, starts(2, 3_600_000)).await;
    let all = submit_all(harness, vec![quoted(&["calls"]); 3]).await;
    let now = harness.now().await;
    assert_eq!(ids(&harness.claim(10).await), all[..2]);
    let due_at = harness.gate(&quota).await.due_at.expect("it is to be looked at");
    assert!(due_at > now.plus_ms(3_600_000) && due_at < now.plus_ms(3_700_000), "{now:?} {due_at:?}");
    let told = facts(harness, all[2]).await;
    assert!(matches!(told[1], Fact::Held { until: Some(until), .. } if until == due_at), "{told:?}");
    assert_eq!(harness.store.overview().await.expect("it is looked at").gates, Some(due_at));
    assert_eq!((harness.look_if_due(&quota).await, harness.look_at(&quota).await), (0, 0));
    assert_eq!(harness.gate(&quota).await.due_at, Some(due_at));
    harness.is_held(all[2], &quota).await;
    if harness.is_manual() {
        harness.pass(3_636_000).await;
        harness.look_at_due().await;
    } else {
        harness.configure(&quota, starts(3, 3_600_000)).await;
    }
    assert_eq!(ids(&harness.claim(10).await), all[2..]);
}

pub async fn a_rate_or_a_limit_of_nothing_is_opened_only_by_people(harness: &Harness) {
    for (name, config) in [("rate", starts(0, 50)), ("slots", at_once(0))] {
        let quota = harness.quota(name);
        harness.configure(&quota, config).await;
        let id = harness.submit(quoted(&[name])).await.id;
        assert!(harness.claim(10).await.is_empty());
        harness.is_held(id, &quota).await;
        assert_eq!(harness.gate(&quota).await.due_at, None, "there is no time to look at it");
        assert_eq!(harness.look_at(&quota).await, 0);
        harness.configure(&quota, at_once(1)).await;
        harness.complete(&harness.claim_again(id).await, b"1").await;
    }
}

pub async fn one_that_the_second_gate_refuses_takes_nothing_of_the_first(harness: &Harness) {
    harness.configure(&harness.quota("a"), at_once(2)).await;
    harness.configure(&harness.quota("b"), at_once(1)).await;
    let both = submit_all(harness, vec![quoted(&["a", "b"]), quoted(&["a", "b"])]).await;
    let only_a = submit_all(harness, vec![quoted(&["a"]); 2]).await;
    let claimed = harness.claim(10).await;
    assert_eq!(ids(&claimed), [both[0], only_a[0]]);
    harness.is_held(both[1], &harness.quota("b")).await;
    harness.is_held(only_a[1], &harness.quota("a")).await;
    assert_eq!(
        (harness.gate(&harness.quota("a")).await.active, harness.gate(&harness.quota("b")).await.active),
        (2, 1)
    );
    // Both gates are opened by one end: one of those that they hold takes the slot, the other is held again.
    harness.complete(&claimed[0], b"1").await;
    harness.stand(&[both[1], only_a[1]], &[StateName::Waiting; 2]).await;
    let next = harness.claim(10).await;
    assert_eq!(next.len(), 1);
    let other = if next[0].execution.id == both[1] { only_a[1] } else { both[1] };
    harness.is_held(other, &harness.quota("a")).await;
    for one in [&claimed[1], &next[0]] {
        harness.complete(one, b"1").await;
    }
    assert_eq!(ids(&harness.claim(10).await), [other]);
}

pub async fn a_gate_whose_turn_was_taken_in_vain_lets_the_next_go_on(harness: &Harness) {
    let quota = harness.quota("few");
    harness.configure(&quota, at_once(1)).await;
    let all = submit_all(harness, vec![quoted(&["few"]); 3]).await;
    let first = harness.claim(10).await.remove(0);
    harness.complete(&first, b"1").await;
    harness.stand(&all[1..], &[StateName::Waiting, StateName::Held]).await;
    // The one that was let go on never takes the slot.
    harness.operate(all[1], CANCEL).await.expect("it is cancelled");
    assert!(harness.gate(&quota).await.due_at.is_some(), "somebody will look");
    assert_eq!(harness.look_at(&quota).await, 1);
    assert_eq!(ids(&harness.claim(10).await), all[2..]);
    assert_eq!(harness.gate(&quota).await.due_at, None);
}

pub async fn a_limit_that_is_raised_lowered_or_removed_counts_at_once(harness: &Harness) {
    let quota = harness.quota("few");
    harness.configure(&quota, at_once(1)).await;
    let all = submit_all(harness, vec![quoted(&["few"]); 6]).await;
    let mut running = harness.claim(10).await;
    assert_eq!(harness.held_by(&quota).await, 5);
    let configured = harness.configure(&quota, at_once(3)).await;
    assert!(!configured.created && configured.gate.version > 1);
    harness.stand(&all[1..4], &[StateName::Waiting, StateName::Waiting, StateName::Held]).await;
    running.extend(harness.claim(10).await);
    assert_eq!(ids(&running), all[..3]);
    harness.configure(&quota, at_once(1)).await;
    harness.complete(&running.remove(0), b"1").await;
    harness.complete(&running.remove(0), b"1").await;
    assert!(harness.claim(10).await.is_empty(), "as many as may be are active");
    harness.complete(&running.remove(0), b"1").await;
    running.extend(harness.claim(10).await);
    assert_eq!(ids(&running), all[3..4]);
    harness.unconfigure(&quota).await;
    harness.stand(&all[4..], &[StateName::Waiting; 2]).await;
    running.extend(harness.claim(10).await);
    assert_eq!(ids(&running), all[3..]);
    let refused = harness.try_configure(&quota, None).await.expect_err("it is not configured");
    assert_eq!(refused.code(), "not_found");
    for one in &running {
        harness.complete(one, b"1").await;
    }
    assert_eq!(harness.find_gate(&quota).await, None, "nothing is left of it");
}

pub async fn what_is_held_goes_on_in_bounded_chunks(harness: &Harness) {
    let quota = harness.quota("none");
    harness.configure(&quota, at_once(0)).await;
    let chunk = CHUNK as usize;
    let all = submit_all(harness, vec![quoted(&["none"]); 2 * chunk + 50]).await;
    assert!(harness.claim(1_000).await.is_empty());
    assert_eq!(harness.held_by(&quota).await, all.len() as u64);
    harness.unconfigure(&quota).await;
    assert_eq!(harness.held_by(&quota).await as usize, chunk + 50, "one transaction lets so many go on");
    assert!(harness.gate(&quota).await.due_at.is_some(), "somebody will look at what is left");
    for left in [50, 0] {
        if harness.is_manual() {
            assert_eq!(harness.look_if_due(&quota).await, 0, "there is time");
            harness.pass(1_000).await;
            harness.look_at_due().await;
        } else {
            harness.look_at(&quota).await;
        }
        assert_eq!(harness.held_by(&quota).await, left);
    }
    assert_eq!(harness.find_gate(&quota).await, None, "it holds nothing, and nobody looks at it");
    let claimed = harness.claim(1_000).await;
    assert_eq!(ids(&claimed), all, "in their order");
}

/// One that draws on a key, a quota and a budget, in a lane that is limited.
async fn through_every_gate(harness: &Harness) -> (Draft, [GateName; 4]) {
    let gates =
        [harness.lane("default"), harness.key("key"), harness.quota("quota"), harness.budget("budget")];
    harness.configure(&gates[0], at_once(5)).await;
    harness.configure(&gates[2], at_once(5)).await;
    harness.configure(&gates[3], super::gate_harness::at_most(100)).await;
    let draft = drawing(Draws {
        budgets: vec![(Name::trusted("budget"), tokens(7))],
        quotas: vec![Name::trusted("quota")],
        concurrency: Some((Name::trusted("key"), 5)),
        fairness_key: None,
    });
    (draft, gates)
}

/// Asserts what is taken of these gates.
async fn taken(harness: &Harness, gates: &[GateName], active: u32, way: &str) {
    for gate in &gates[..3] {
        assert_eq!(harness.gate(gate).await.active, active, "{gate} after {way}");
    }
    let reserved = harness.gate(&gates[3]).await.state.reserved;
    assert_eq!(reserved, tokens(7 * active), "reserved after {way}");
}

pub async fn every_way_a_lease_ends_gives_back_what_it_has_taken(harness: &Harness) {
    let (draft, gates) = through_every_gate(harness).await;
    let fail = |class| Op::Fail { message: "it broke".into(), class, retry_after_ms: None };
    let reports = [
        ("complete", Op::Complete { result: "1".into() }),
        ("a failure that is tried again", fail(FailureClass::Transient)),
        ("a failure for good", fail(FailureClass::Permanent)),
        ("a delay", Op::Delay { until: When::AfterMs(3_600_000) }),
        ("a release", Op::Release),
        ("a suspension", suspend(vec![WaitDraft::new(on("go"))], vec![])),
        ("a suspension for what has come", suspend(vec![WaitDraft::new(on("come"))], vec![])),
    ];
    for (way, op) in reports {
        let claimed = harness.leased(draft.clone()).await;
        let id = claimed.execution.id;
        taken(harness, &gates, 1, "a claim").await;
        harness.signal(id, "come").await;
        harness.report(fence(&claimed), op).await.expect("it is accepted");
        taken(harness, &gates, 0, way).await;
        if harness.row(id).await.state.outcome().is_none() {
            harness.operate(id, CANCEL).await.expect("it is cancelled");
        }
    }
    for (way, why) in [
        ("an answer that was lost", PutBackReason::Orphaned),
        ("a worker that has gone", PutBackReason::Gone),
    ] {
        let claimed = harness.leased(draft.clone()).await;
        let instance = Name::trusted("one");
        if why == PutBackReason::Gone {
            let fences = harness.run(Depart { namespace: harness.namespace, instance }).await;
            assert_eq!(fences.expect("it was there"), [fence(&claimed)]);
            taken(harness, &gates, 1, "a departure, which leaves its leases to be put back").await;
        }
        let put_back = PutBack { namespace: harness.namespace, fence: fence(&claimed), why };
        assert_eq!(harness.run(put_back).await, Ok(true));
        taken(harness, &gates, 0, way).await;
        harness.operate(claimed.execution.id, CANCEL).await.expect("it is cancelled");
    }
    for (way, action, over) in
        [("a revocation", Action::Revoke { reason: None }, false), ("a cancel", CANCEL, true)]
    {
        let id = harness.leased(draft.clone()).await.execution.id;
        harness.operate(id, action).await.expect("it is done");
        taken(harness, &gates, 0, way).await;
        if !over {
            harness.operate(id, CANCEL).await.expect("it is cancelled");
        }
    }
}

pub async fn every_way_time_ends_a_lease_gives_back_what_it_has_taken(harness: &Harness) {
    let (draft, gates) = through_every_gate(harness).await;
    let with = |policy: Policy| Draft { policy, ..draft.clone() };
    let lapsing = Worker { ttl_ms: 1, ..Worker::new("short") };
    let ways = [
        ("a lapse", draft.clone(), What::Lapse),
        (
            "a deadline",
            with(Policy { deadline_ms: Some(1), ..Policy::default() }),
            What::Due(DueKind::Deadline),
        ),
        (
            "a timeout",
            with(Policy { attempt_timeout_ms: Some(1), ..Policy::default() }),
            What::Due(DueKind::AttemptTimeout),
        ),
        ("the end of a grace", draft.clone(), What::Due(DueKind::Deadline)),
    ];
    for (way, draft, what) in ways {
        let id = harness.submit(draft).await.id;
        let claimed = harness.claim_as(&lapsing, 1).await;
        assert_eq!(ids(&claimed), [id]);
        taken(harness, &gates, 1, "a claim").await;
        if way == "the end of a grace" {
            let cancel = Action::Cancel { reason: None, grace_ms: 1 };
            harness.operate(id, cancel).await.expect("it is asked for");
            taken(harness, &gates, 1, "a cancel that is only asked for").await;
        }
        harness.pass(1).await;
        assert_eq!(harness.tick(id, what).await, Ticked::Done, "{way}");
        taken(harness, &gates, 0, way).await;
        if harness.row(id).await.state.outcome().is_none() {
            harness.operate(id, CANCEL).await.expect("it is cancelled");
        }
    }
}

pub async fn the_cancel_of_a_flow_gives_back_what_its_members_have_taken(harness: &Harness) {
    let (draft, gates) = through_every_gate(harness).await;
    harness.configure(&gates[2], at_once(2)).await;
    let flow = harness.flow(Sketch::from("a b c").each(|node| node.draws = draft.draws.clone())).await;
    assert_eq!(harness.claim(10).await.len(), 2);
    flow.stands("a=active b=active c=held").await;
    taken(harness, &gates, 2, "a claim").await;
    flow.try_cancel(CancelMode::All).await.expect("it is cancelled");
    flow.comes_to("a=cancelled b=cancelled c=cancelled").await;
    taken(harness, &gates, 0, "the cancel of the flow").await;
    assert_eq!(harness.held_by(&gates[2]).await, 0);
}

/// One that is held by the key `a`, while another has its slot.
async fn held_by_a(harness: &Harness, draft: Draft) -> (Claimed, ExecutionId) {
    let runs = harness.leased(keyed("a", 1)).await;
    let id = harness.submit(Draft { draws: keyed("a", 1).draws, ..draft }).await.id;
    assert!(harness.claim(10).await.is_empty());
    harness.is_held(id, &harness.key("a")).await;
    (runs, id)
}

pub async fn what_is_held_is_cancelled_and_expires_like_what_waits(harness: &Harness) {
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
        let (runs, id) = held_by_a(harness, draft).await;
        match due {
            None => drop(harness.operate(id, CANCEL).await.expect("it is cancelled")),
            Some(kind) => {
                harness.pass(5).await;
                let found = harness.store.due(kind, None, 9).await.expect("is read");
                assert_eq!(found.iter().map(|row| row.execution).collect::<Vec<_>>(), [id]);
                harness.due(id, kind).await;
            }
        }
        assert_eq!(harness.row(id).await.state, State::Terminal(outcome));
        assert_eq!(harness.held_by(&harness.key("a")).await, 0);
        harness.complete(&runs, b"1").await;
        assert_eq!(harness.find_gate(&harness.key("a")).await, None);
    }
}

pub async fn what_is_held_may_be_rescheduled_and_is_asked_again(harness: &Harness) {
    let (runs, id) = held_by_a(harness, Draft::new("kind")).await;
    let until = |ms| Action::Reschedule { until: When::AfterMs(ms) };
    harness.operate(id, until(3_600_000)).await.expect("it is rescheduled");
    harness.stand(&[id], &[StateName::Delayed]).await;
    assert_eq!(harness.held_by(&harness.key("a")).await, 0);
    harness.operate(id, until(0)).await.expect("it is rescheduled");
    harness.stand(&[id], &[StateName::Waiting]).await;
    assert!(harness.claim(10).await.is_empty());
    harness.is_held(id, &harness.key("a")).await;
    harness.complete(&runs, b"1").await;
    assert_eq!(ids(&harness.claim(10).await), [id]);
}

pub async fn a_replay_draws_anew(harness: &Harness) {
    let (draft, gates) = through_every_gate(harness).await;
    let claimed = harness.leased(draft).await;
    let id = claimed.execution.id;
    harness.complete(&claimed, b"1").await;
    taken(harness, &gates, 0, "its end").await;
    harness.operate(id, Action::Replay).await.expect("it is replayed");
    taken(harness, &gates, 0, "a replay, which claims nothing").await;
    let claimed = harness.claim_again(id).await;
    taken(harness, &gates, 1, "its second claim").await;
    harness.complete(&claimed, b"2").await;
    taken(harness, &gates, 0, "its second end").await;
}

pub async fn an_end_and_a_claim_of_what_it_lets_go_on_share_one_transaction(harness: &Harness) {
    let all = submit_all(harness, vec![keyed("a", 1); 3]).await;
    let first = harness.claim(10).await.remove(0);
    let report = harness.report_command(fence(&first), Op::Complete { result: "1".into() });
    let claim = harness.claim_command(&Worker::new("one"), 10);
    let (reported, claimed) = harness.run(Both(report, claim)).await;
    reported.expect("it is completed");
    assert_eq!(ids(&claimed.expect("it is not refused").claimed), all[1..2]);
    harness.is_held(all[2], &harness.key("a")).await;
    assert_eq!(harness.gate(&harness.key("a")).await.active, 1);
}

pub async fn keys_of_different_namespaces_are_different(harness: &Harness) {
    let beside = harness.beside("beside").await;
    for side in [harness, &beside] {
        side.submit(keyed("tenant", 1)).await;
        assert_eq!(side.claim(10).await.len(), 1);
    }
}

pub async fn each_one_brings_the_limit_of_its_key_along(harness: &Harness) {
    let all = submit_all(harness, vec![keyed("a", 3), keyed("a", 3), keyed("a", 1), keyed("a", 3)]).await;
    let claimed = harness.claim(10).await;
    assert_eq!(ids(&claimed), [all[0], all[1], all[3]], "the third allows one, and two are active");
    harness.is_held(all[2], &harness.key("a")).await;
    for one in &claimed[..2] {
        harness.complete(one, b"1").await;
        harness.is_held(all[2], &harness.key("a")).await;
    }
    harness.complete(&claimed[2], b"1").await;
    assert_eq!(ids(&harness.claim(10).await), [all[2]]);
}

pub async fn slots_that_are_given_back_unseen_are_found(harness: &Harness) {
    let all = submit_all(harness, vec![keyed("a", 1); 2]).await;
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
    // Nobody knows what it holds: so it is due at once.
    assert_eq!(harness.look_if_due(&key).await, 1);
    assert_eq!(ids(&harness.claim(10).await), all[1..]);
}

pub async fn a_quota_that_limits_nothing_holds_nothing(harness: &Harness) {
    harness.configure(&harness.quota("open"), Config::default()).await;
    submit_all(harness, vec![quoted(&["open"]); 3]).await;
    assert_eq!(harness.claim(10).await.len(), 3);
}
