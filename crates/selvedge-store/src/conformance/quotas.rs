//! Concurrency keys and quotas: no limit is ever passed, what is refused is held and hides nothing, and every end of a lease gives
//! back what the lease has taken.
#![allow(missing_docs)]

use super::bench::{Bench, fence};
use super::gate_bench::{at_once, drawing, ids, keyed, quoted, starts, tokens};
use super::lanes::starts_within;
use super::rule::{Both, Each};
use super::side_by_side;
use super::signal_bench::{on, suspend};
use super::sketch::Sketch;
use super::worker::Worker;
use selvedge_core::flow::CancelMode;
use selvedge_core::gate::{Config, Draws, GateName};
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::clock::{Ticked, What};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::release::CHUNK;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::worker::{Depart, PutBack, Why};
use selvedge_core::state::StateName;
use selvedge_core::submission::When;
use selvedge_core::suspension::WaitDraft;
use selvedge_core::{Changes, Draft, DueKind, ExecutionId, Fact, FailureClass, Name, Outcome, Policy, State};
use std::collections::BTreeSet;

const CANCEL: Action = Action::Cancel { reason: None, grace_ms: 0 };

async fn submit_all(bench: &Bench, drafts: Vec<Draft>) -> Vec<ExecutionId> {
    bench.submit_all(drafts).await.into_iter().map(|row| row.id).collect()
}

/// What the log tells of an execution.
async fn facts(bench: &Bench, id: ExecutionId) -> Vec<Fact> {
    let events = bench.log().await.into_iter().flat_map(|(_, events)| events);
    events.filter(|event| event.execution == Some(id)).map(|event| event.fact).collect()
}

pub async fn what_a_key_refuses_is_held_and_hides_nothing_behind_it(bench: &Bench) {
    let same = submit_all(bench, vec![keyed("a", 1); 3]).await;
    let behind = submit_all(bench, vec![keyed("b", 1), Draft::new("kind")]).await;
    let claimed = bench.claim(10).await;
    assert_eq!(ids(&claimed), [same[0], behind[0], behind[1]]);
    let key = bench.key("a");
    for id in &same[1..] {
        bench.is_held(*id, &key).await;
        let told = facts(bench, *id).await;
        assert!(
            matches!(&told[1], Fact::Held { gate, reason, until: None }
            if *gate == key && reason.contains("has 1 active and allows 1")),
            "{told:?}"
        );
    }
    assert_eq!((bench.gate(&key).await.active, bench.held_by(&key).await), (1, 2));
    assert_eq!(bench.gate(&key).await.due_at, None, "it is full: nobody looks at it");
    assert!(bench.claim(10).await.is_empty(), "what is held is not looked at again");
    bench.complete(&claimed[0], b"1").await;
    bench.stand(&same[1..], &[StateName::Ready, StateName::Held]).await;
    assert_eq!(ids(&bench.claim(10).await), same[1..2]);
    assert_eq!((bench.look_at(&key).await, bench.held_by(&key).await), (0, 1));
    assert_eq!(bench.gate(&key).await.due_at, None, "it is full again");
}

pub async fn a_key_never_has_more_active_than_its_limit(bench: &Bench) {
    let all = submit_all(bench, vec![keyed("tenant", 3); 20]).await;
    let mut distinct: BTreeSet<ExecutionId> = BTreeSet::new();
    let mut rounds = 0;
    while distinct.len() < all.len() {
        let claims = side_by_side(4, |side| {
            let bench = bench.clone();
            async move { bench.claim_as(&Worker::new(&format!("side {side}")), 2).await }
        });
        let mut running: Vec<Claimed> = claims.await.into_iter().flatten().collect();
        running.extend(bench.claim(10).await);
        assert!(running.len() <= 3, "{} are active", running.len());
        assert_eq!(bench.gate(&bench.key("tenant")).await.active as usize, running.len());
        distinct.extend(ids(&running));
        side_by_side(running.len(), |place| {
            let (bench, one) = (bench.clone(), running[place].clone());
            async move { bench.complete(&one, b"1").await }
        })
        .await;
        bench.look_at(&bench.key("tenant")).await;
        rounds += 1;
        assert!(rounds < 100, "{} of {} have run", distinct.len(), all.len());
    }
    assert_eq!(bench.find_gate(&bench.key("tenant")).await, None, "nothing is left of it");
}

pub async fn what_is_held_goes_on_by_priority_and_then_by_age(bench: &Bench) {
    let first = bench.leased(keyed("a", 1)).await;
    let urgent = |priority| Draft { priority, ..keyed("a", 1) };
    let all = submit_all(bench, vec![urgent(0), urgent(5), urgent(0), urgent(9), urgent(5)]).await;
    assert!(bench.claim(10).await.is_empty());
    // One that is moved up while it is held goes on before the others.
    bench.operate(all[2], Action::Prioritise { priority: 7 }).await.expect("it is prioritised");
    bench.is_held(all[2], &bench.key("a")).await;
    let (mut running, mut order) = (first, Vec::new());
    for _ in &all {
        bench.complete(&running, b"1").await;
        let next = bench.claim(10).await;
        assert_eq!(next.len(), 1, "one at a time");
        order.extend(ids(&next));
        running = next.into_iter().next().expect("it is one");
    }
    assert_eq!(order, [all[3], all[2], all[1], all[4], all[0]]);
}

pub async fn a_quota_limits_whatever_refers_to_it(bench: &Bench) {
    bench.configure(&bench.quota("few"), at_once(2)).await;
    let lane = |name: &str| Draft { lane: name.into(), ..quoted(&["few"]) };
    let all =
        submit_all(bench, vec![lane("a"), lane("b"), lane("a"), Draft { kind: "other".into(), ..lane("b") }])
            .await;
    let worker = Worker::new("one").on(&["a", "b"]);
    let claimed = bench.claim_as(&worker, 10).await;
    assert_eq!(ids(&claimed), all[..2]);
    bench.is_held(all[2], &bench.quota("few")).await;
    bench.is_held(all[3], &bench.quota("few")).await;
    let reports: Vec<_> = claimed
        .iter()
        .map(|one| bench.report_command(fence(one), Op::Complete { result: "1".into() }))
        .collect();
    bench.run(Each(reports)).await;
    bench.stand(&all[2..], &[StateName::Ready; 2]).await;
    assert_eq!(ids(&bench.claim_as(&worker, 10).await), all[2..]);
}

pub async fn a_quota_that_nobody_has_configured_refuses_nothing_and_counts(bench: &Bench) {
    submit_all(bench, vec![quoted(&["free"]); 5]).await;
    let claimed = bench.claim(10).await;
    assert_eq!((claimed.len(), bench.gate(&bench.quota("free")).await.active), (5, 5));
    // A limit that comes later counts those that run.
    bench.configure(&bench.quota("free"), at_once(6)).await;
    let more = submit_all(bench, vec![quoted(&["free"]); 2]).await;
    assert_eq!(ids(&bench.claim(10).await), more[..1]);
    bench.is_held(more[1], &bench.quota("free")).await;
}

pub async fn a_quota_starts_no_more_in_any_window_than_its_rate(bench: &Bench) {
    let quota = bench.quota("calls");
    bench.configure(&quota, starts(3, 50)).await;
    let all = submit_all(bench, vec![quoted(&["calls"]); 10]).await;
    let first = bench.claim(1).await;
    assert_eq!(ids(&first), all[..1]);
    bench.complete(&first[0], b"1").await;
    // An end gives no start back.
    bench.pass(100).await;
    starts_within(bench, 3, 50, &all[1..]).await;
}

pub async fn what_a_rate_refuses_is_looked_at_when_the_window_has_room(bench: &Bench) {
    let quota = bench.quota("calls");
    bench.configure(&quota, starts(2, 3_600_000)).await;
    let all = submit_all(bench, vec![quoted(&["calls"]); 3]).await;
    let now = bench.now().await;
    assert_eq!(ids(&bench.claim(10).await), all[..2]);
    let due_at = bench.gate(&quota).await.due_at.expect("it is to be looked at");
    assert!(due_at > now.plus_ms(3_600_000) && due_at < now.plus_ms(3_700_000), "{now:?} {due_at:?}");
    let told = facts(bench, all[2]).await;
    assert!(matches!(told[1], Fact::Held { until: Some(until), .. } if until == due_at), "{told:?}");
    assert_eq!(bench.store.overview().await.expect("it is looked at").gates, Some(due_at));
    assert_eq!((bench.look_if_due(&quota).await, bench.look_at(&quota).await), (0, 0));
    assert_eq!(bench.gate(&quota).await.due_at, Some(due_at));
    bench.is_held(all[2], &quota).await;
    if bench.is_manual() {
        bench.pass(3_636_000).await;
        bench.look_at_due().await;
    } else {
        bench.configure(&quota, starts(3, 3_600_000)).await;
    }
    assert_eq!(ids(&bench.claim(10).await), all[2..]);
}

pub async fn a_rate_or_a_limit_of_nothing_is_opened_only_by_people(bench: &Bench) {
    for (name, config) in [("rate", starts(0, 50)), ("slots", at_once(0))] {
        let quota = bench.quota(name);
        bench.configure(&quota, config).await;
        let id = bench.submit(quoted(&[name])).await.id;
        assert!(bench.claim(10).await.is_empty());
        bench.is_held(id, &quota).await;
        assert_eq!(bench.gate(&quota).await.due_at, None, "there is no time to look at it");
        assert_eq!(bench.look_at(&quota).await, 0);
        bench.configure(&quota, at_once(1)).await;
        bench.complete(&bench.claim_again(id).await, b"1").await;
    }
}

pub async fn one_that_the_second_gate_refuses_takes_nothing_of_the_first(bench: &Bench) {
    bench.configure(&bench.quota("a"), at_once(2)).await;
    bench.configure(&bench.quota("b"), at_once(1)).await;
    let both = submit_all(bench, vec![quoted(&["a", "b"]), quoted(&["a", "b"])]).await;
    let only_a = submit_all(bench, vec![quoted(&["a"]); 2]).await;
    let claimed = bench.claim(10).await;
    assert_eq!(ids(&claimed), [both[0], only_a[0]]);
    bench.is_held(both[1], &bench.quota("b")).await;
    bench.is_held(only_a[1], &bench.quota("a")).await;
    assert_eq!(
        (bench.gate(&bench.quota("a")).await.active, bench.gate(&bench.quota("b")).await.active),
        (2, 1)
    );
    // Both gates are opened by one end: one of those that they hold takes the slot, the other is held again.
    bench.complete(&claimed[0], b"1").await;
    bench.stand(&[both[1], only_a[1]], &[StateName::Ready; 2]).await;
    let next = bench.claim(10).await;
    assert_eq!(next.len(), 1);
    let other = if next[0].execution.id == both[1] { only_a[1] } else { both[1] };
    bench.is_held(other, &bench.quota("a")).await;
    for one in [&claimed[1], &next[0]] {
        bench.complete(one, b"1").await;
    }
    assert_eq!(ids(&bench.claim(10).await), [other]);
}

pub async fn a_gate_whose_turn_was_taken_in_vain_lets_the_next_go_on(bench: &Bench) {
    let quota = bench.quota("few");
    bench.configure(&quota, at_once(1)).await;
    let all = submit_all(bench, vec![quoted(&["few"]); 3]).await;
    let first = bench.claim(10).await.remove(0);
    bench.complete(&first, b"1").await;
    bench.stand(&all[1..], &[StateName::Ready, StateName::Held]).await;
    // The one that was let go on never takes the slot.
    bench.operate(all[1], CANCEL).await.expect("it is cancelled");
    assert!(bench.gate(&quota).await.due_at.is_some(), "somebody will look");
    assert_eq!(bench.look_at(&quota).await, 1);
    assert_eq!(ids(&bench.claim(10).await), all[2..]);
    assert_eq!(bench.gate(&quota).await.due_at, None);
}

pub async fn a_limit_that_is_raised_lowered_or_removed_counts_at_once(bench: &Bench) {
    let quota = bench.quota("few");
    bench.configure(&quota, at_once(1)).await;
    let all = submit_all(bench, vec![quoted(&["few"]); 6]).await;
    let mut running = bench.claim(10).await;
    assert_eq!(bench.held_by(&quota).await, 5);
    let configured = bench.configure(&quota, at_once(3)).await;
    assert!(!configured.created && configured.gate.version > 1);
    bench.stand(&all[1..4], &[StateName::Ready, StateName::Ready, StateName::Held]).await;
    running.extend(bench.claim(10).await);
    assert_eq!(ids(&running), all[..3]);
    bench.configure(&quota, at_once(1)).await;
    bench.complete(&running.remove(0), b"1").await;
    bench.complete(&running.remove(0), b"1").await;
    assert!(bench.claim(10).await.is_empty(), "as many as may be are active");
    bench.complete(&running.remove(0), b"1").await;
    running.extend(bench.claim(10).await);
    assert_eq!(ids(&running), all[3..4]);
    bench.unconfigure(&quota).await;
    bench.stand(&all[4..], &[StateName::Ready; 2]).await;
    running.extend(bench.claim(10).await);
    assert_eq!(ids(&running), all[3..]);
    let refused = bench.try_configure(&quota, None).await.expect_err("it is not configured");
    assert_eq!(refused.code(), "not_found");
    for one in &running {
        bench.complete(one, b"1").await;
    }
    assert_eq!(bench.find_gate(&quota).await, None, "nothing is left of it");
}

pub async fn what_is_held_goes_on_in_bounded_chunks(bench: &Bench) {
    let quota = bench.quota("none");
    bench.configure(&quota, at_once(0)).await;
    let chunk = CHUNK as usize;
    let all = submit_all(bench, vec![quoted(&["none"]); 2 * chunk + 50]).await;
    assert!(bench.claim(1_000).await.is_empty());
    assert_eq!(bench.held_by(&quota).await, all.len() as u64);
    bench.unconfigure(&quota).await;
    assert_eq!(bench.held_by(&quota).await as usize, chunk + 50, "one transaction lets so many go on");
    assert!(bench.gate(&quota).await.due_at.is_some(), "somebody will look at what is left");
    for left in [50, 0] {
        if bench.is_manual() {
            assert_eq!(bench.look_if_due(&quota).await, 0, "there is time");
            bench.pass(1_000).await;
            bench.look_at_due().await;
        } else {
            bench.look_at(&quota).await;
        }
        assert_eq!(bench.held_by(&quota).await, left);
    }
    assert_eq!(bench.find_gate(&quota).await, None, "it holds nothing, and nobody looks at it");
    let claimed = bench.claim(1_000).await;
    assert_eq!(ids(&claimed), all, "in their order");
}

/// One that draws on a key, a quota and a budget, in a lane that is limited.
async fn through_every_gate(bench: &Bench) -> (Draft, [GateName; 4]) {
    let gates = [bench.lane("default"), bench.key("key"), bench.quota("quota"), bench.budget("budget")];
    bench.configure(&gates[0], at_once(5)).await;
    bench.configure(&gates[2], at_once(5)).await;
    bench.configure(&gates[3], super::gate_bench::at_most(100)).await;
    let draft = drawing(Draws {
        budgets: vec![(Name::trusted("budget"), tokens(7))],
        quotas: vec![Name::trusted("quota")],
        concurrency: Some((Name::trusted("key"), 5)),
        fairness_key: None,
    });
    (draft, gates)
}

/// Asserts what is taken of these gates.
async fn taken(bench: &Bench, gates: &[GateName], active: u32, way: &str) {
    for gate in &gates[..3] {
        assert_eq!(bench.gate(gate).await.active, active, "{gate} after {way}");
    }
    let reserved = bench.gate(&gates[3]).await.state.reserved;
    assert_eq!(reserved, tokens(7 * active), "reserved after {way}");
}

pub async fn every_way_a_lease_ends_gives_back_what_it_has_taken(bench: &Bench) {
    let (draft, gates) = through_every_gate(bench).await;
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
        let claimed = bench.leased(draft.clone()).await;
        let id = claimed.execution.id;
        taken(bench, &gates, 1, "a claim").await;
        bench.signal(id, "come").await;
        bench.report(fence(&claimed), op).await.expect("it is accepted");
        taken(bench, &gates, 0, way).await;
        if bench.row(id).await.state.outcome().is_none() {
            bench.operate(id, CANCEL).await.expect("it is cancelled");
        }
    }
    for (way, why) in [("an answer that was lost", Why::Orphaned), ("a worker that has gone", Why::Gone)] {
        let claimed = bench.leased(draft.clone()).await;
        let instance = Name::trusted("one");
        if why == Why::Gone {
            let fences = bench.run(Depart { namespace: bench.namespace, instance }).await;
            assert_eq!(fences.expect("it was there"), [fence(&claimed)]);
            taken(bench, &gates, 1, "a departure, which leaves its leases to be put back").await;
        }
        let put_back = PutBack { namespace: bench.namespace, fence: fence(&claimed), why };
        assert_eq!(bench.run(put_back).await, Ok(true));
        taken(bench, &gates, 0, way).await;
        bench.operate(claimed.execution.id, CANCEL).await.expect("it is cancelled");
    }
    for (way, action, over) in
        [("a revocation", Action::Revoke { reason: None }, false), ("a cancel", CANCEL, true)]
    {
        let id = bench.leased(draft.clone()).await.execution.id;
        bench.operate(id, action).await.expect("it is done");
        taken(bench, &gates, 0, way).await;
        if !over {
            bench.operate(id, CANCEL).await.expect("it is cancelled");
        }
    }
}

pub async fn every_way_time_ends_a_lease_gives_back_what_it_has_taken(bench: &Bench) {
    let (draft, gates) = through_every_gate(bench).await;
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
        let id = bench.submit(draft).await.id;
        let claimed = bench.claim_as(&lapsing, 1).await;
        assert_eq!(ids(&claimed), [id]);
        taken(bench, &gates, 1, "a claim").await;
        if way == "the end of a grace" {
            let cancel = Action::Cancel { reason: None, grace_ms: 1 };
            bench.operate(id, cancel).await.expect("it is asked for");
            taken(bench, &gates, 1, "a cancel that is only asked for").await;
        }
        bench.pass(1).await;
        assert_eq!(bench.tick(id, what).await, Ticked::Done, "{way}");
        taken(bench, &gates, 0, way).await;
        if bench.row(id).await.state.outcome().is_none() {
            bench.operate(id, CANCEL).await.expect("it is cancelled");
        }
    }
}

pub async fn the_cancel_of_a_flow_gives_back_what_its_members_have_taken(bench: &Bench) {
    let (draft, gates) = through_every_gate(bench).await;
    bench.configure(&gates[2], at_once(2)).await;
    let flow = bench.flow(Sketch::from("a b c").each(|node| node.draws = draft.draws.clone())).await;
    assert_eq!(bench.claim(10).await.len(), 2);
    flow.stands("a=active b=active c=held").await;
    taken(bench, &gates, 2, "a claim").await;
    flow.try_cancel(CancelMode::All).await.expect("it is cancelled");
    flow.comes_to("a=cancelled b=cancelled c=cancelled").await;
    taken(bench, &gates, 0, "the cancel of the flow").await;
    assert_eq!(bench.held_by(&gates[2]).await, 0);
}

/// One that is held by the key `a`, while another has its slot.
async fn held_by_a(bench: &Bench, draft: Draft) -> (Claimed, ExecutionId) {
    let runs = bench.leased(keyed("a", 1)).await;
    let id = bench.submit(Draft { draws: keyed("a", 1).draws, ..draft }).await.id;
    assert!(bench.claim(10).await.is_empty());
    bench.is_held(id, &bench.key("a")).await;
    (runs, id)
}

pub async fn what_is_held_is_cancelled_and_expires_like_what_waits(bench: &Bench) {
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
        let (runs, id) = held_by_a(bench, draft).await;
        match due {
            None => drop(bench.operate(id, CANCEL).await.expect("it is cancelled")),
            Some(kind) => {
                bench.pass(5).await;
                let found = bench.store.due(kind, None, 9).await.expect("is read");
                assert_eq!(found.iter().map(|row| row.execution).collect::<Vec<_>>(), [id]);
                bench.due(id, kind).await;
            }
        }
        assert_eq!(bench.row(id).await.state, State::Terminal(outcome));
        assert_eq!(bench.held_by(&bench.key("a")).await, 0);
        bench.complete(&runs, b"1").await;
        assert_eq!(bench.find_gate(&bench.key("a")).await, None);
    }
}

pub async fn what_is_held_may_be_rescheduled_and_is_asked_again(bench: &Bench) {
    let (runs, id) = held_by_a(bench, Draft::new("kind")).await;
    let until = |ms| Action::Reschedule { until: When::AfterMs(ms) };
    bench.operate(id, until(3_600_000)).await.expect("it is rescheduled");
    bench.stand(&[id], &[StateName::Delayed]).await;
    assert_eq!(bench.held_by(&bench.key("a")).await, 0);
    bench.operate(id, until(0)).await.expect("it is rescheduled");
    bench.stand(&[id], &[StateName::Ready]).await;
    assert!(bench.claim(10).await.is_empty());
    bench.is_held(id, &bench.key("a")).await;
    bench.complete(&runs, b"1").await;
    assert_eq!(ids(&bench.claim(10).await), [id]);
}

pub async fn a_replay_draws_anew(bench: &Bench) {
    let (draft, gates) = through_every_gate(bench).await;
    let claimed = bench.leased(draft).await;
    let id = claimed.execution.id;
    bench.complete(&claimed, b"1").await;
    taken(bench, &gates, 0, "its end").await;
    bench.operate(id, Action::Replay).await.expect("it is replayed");
    taken(bench, &gates, 0, "a replay, which claims nothing").await;
    let claimed = bench.claim_again(id).await;
    taken(bench, &gates, 1, "its second claim").await;
    bench.complete(&claimed, b"2").await;
    taken(bench, &gates, 0, "its second end").await;
}

pub async fn an_end_and_a_claim_of_what_it_lets_go_on_share_one_transaction(bench: &Bench) {
    let all = submit_all(bench, vec![keyed("a", 1); 3]).await;
    let first = bench.claim(10).await.remove(0);
    let report = bench.report_command(fence(&first), Op::Complete { result: "1".into() });
    let claim = bench.claim_command(&Worker::new("one"), 10);
    let (reported, claimed) = bench.run(Both(report, claim)).await;
    reported.expect("it is completed");
    assert_eq!(ids(&claimed.expect("it is not refused").claimed), all[1..2]);
    bench.is_held(all[2], &bench.key("a")).await;
    assert_eq!(bench.gate(&bench.key("a")).await.active, 1);
}

pub async fn keys_of_different_namespaces_are_different(bench: &Bench) {
    let beside = bench.beside("beside").await;
    for side in [bench, &beside] {
        side.submit(keyed("tenant", 1)).await;
        assert_eq!(side.claim(10).await.len(), 1);
    }
}

pub async fn each_one_brings_the_limit_of_its_key_along(bench: &Bench) {
    let all = submit_all(bench, vec![keyed("a", 3), keyed("a", 3), keyed("a", 1), keyed("a", 3)]).await;
    let claimed = bench.claim(10).await;
    assert_eq!(ids(&claimed), [all[0], all[1], all[3]], "the third allows one, and two are active");
    bench.is_held(all[2], &bench.key("a")).await;
    for one in &claimed[..2] {
        bench.complete(one, b"1").await;
        bench.is_held(all[2], &bench.key("a")).await;
    }
    bench.complete(&claimed[2], b"1").await;
    assert_eq!(ids(&bench.claim(10).await), [all[2]]);
}

pub async fn slots_that_are_given_back_unseen_are_found(bench: &Bench) {
    let all = submit_all(bench, vec![keyed("a", 1); 2]).await;
    assert_eq!(bench.claim(10).await.len(), 1);
    let key = bench.key("a");
    assert_eq!(bench.gate(&key).await.due_at, None);
    bench.save(Changes { gates_freed: vec![(key.id(), 1)], ..Changes::default() }).await;
    assert_eq!(bench.gate(&key).await.active, 0);
    // Nobody knows what it holds: so it is due at once.
    assert_eq!(bench.look_if_due(&key).await, 1);
    assert_eq!(ids(&bench.claim(10).await), all[1..]);
}

pub async fn a_quota_that_limits_nothing_holds_nothing(bench: &Bench) {
    bench.configure(&bench.quota("open"), Config::default()).await;
    submit_all(bench, vec![quoted(&["open"]); 3]).await;
    assert_eq!(bench.claim(10).await.len(), 3);
}
