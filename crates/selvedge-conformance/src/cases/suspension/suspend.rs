//! Suspension: an execution without a lease waits for its resume condition, and resumes when that holds.

use crate::cases::execution::rows::assert_read_everywhere;
use crate::harness::runner::RulePair;
use crate::harness::signals::{
    name, names, on_count, on_signal, payload_of, recorded_wait, secret, signal, signal_names, suspend,
    with_timeout,
};
use crate::harness::{Harness, fence};
use crate::harness::{Worker, by_hand, concurrently};
use selvedge_core::fact::LeaseRef;
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::rules::CallKey;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::{Op, Reported};
use selvedge_core::rules::timer::{Timer, TimerReply};
use selvedge_core::rules::waitpoint::WaitpointDraft;
use selvedge_core::signal::Effect;
use selvedge_core::state::StateName;
use selvedge_core::submission::When;
use selvedge_core::suspension::{Condition, Distinct, OnTimeout, ResumedBy, Wait, WaitDraft};
use selvedge_core::{
    Draft, DueKind, Execution, FailureClass, LeaseId, Outcome, Policy, State, Suspension, Timestamp,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

/// Returns a condition with every kind of leaf, with and without matches.
fn every_condition(now: Timestamp) -> Condition {
    let long = "\u{1f9f5}".repeat(50);
    let heard = |texts: &[&str]| texts.iter().zip(7..).map(|(text, number)| (name(text), number)).collect();
    Condition::Any(vec![
        Condition::Signal { name: name("heard"), received: Some(10_000) },
        on_signal("sïgnal \"quoted\""),
        Condition::All(vec![
            Condition::Count {
                n: 3,
                of: names(&["a", &long, "\u{1f4a5}"]),
                distinct: Distinct::Signals,
                received: heard(&["a", &long]),
            },
            Condition::Count {
                n: 2,
                of: names(&["w"]),
                distinct: Distinct::Waitpoints,
                received: heard(&["w"]),
            },
            Condition::Count { n: 1000, of: names(&["x"]), distinct: Distinct::Sources, received: vec![] },
            Condition::Any(vec![
                Condition::Until { at: When::At(now.minus_ms(1)), passed: true },
                Condition::All(vec![Condition::until(When::At(now.plus_ms(3_600_000)))]),
            ]),
        ]),
        Condition::Operator { resumed: true },
        Condition::operator(),
        Condition::Children { ended: true },
        Condition::children(),
    ])
}

pub async fn a_suspended_row_with_every_condition_is_read_back_equal_everywhere(harness: &Harness) {
    let now = harness.now().await;
    let class = harness.class("default", "kind").await;
    let wait = |condition: Condition, on_timeout: OnTimeout| Wait {
        step: Some(name(&format!("stép {on_timeout:?}"))),
        condition,
        timeout_at: Some(now.plus_ms(7_200_000)),
        on_timeout,
        escalated: on_timeout == OnTimeout::Escalate,
    };
    let mut waits: Vec<Wait> = OnTimeout::ALL.map(|on_timeout| wait(every_condition(now), on_timeout)).into();
    waits.push(by_hand::wait(Condition::operator()));
    let lease = LeaseRef {
        id: LeaseId(Uuid::new_v4()),
        epoch: 1_000_000,
        worker: name("wörker"),
        instance: name("\u{1f9f5}"),
    };
    let suspension = Suspension { number: 4_000_000, since: now.minus_ms(5), lease, waits };
    let row = |suspension: Suspension| Execution {
        state: State::Suspended(Arc::new(suspension)),
        ..by_hand::suspended(by_hand::row(harness, class, now), now, vec![])
    };
    let full = row(suspension.clone());
    let bare = row(Suspension { waits: vec![by_hand::wait(Condition::operator())], ..suspension.clone() });
    let large = {
        let texts: Vec<String> = (0..1000).map(|number| format!("{number:0>190}")).collect();
        let of: Vec<&str> = texts.iter().map(String::as_str).collect();
        let counts = (0..20).map(|_| on_count(500, &of, Distinct::Signals)).collect();
        row(Suspension { waits: vec![by_hand::wait(Condition::All(counts))], ..suspension })
    };
    let rows = [full, bare, large];
    by_hand::insert(harness, &rows).await;
    by_hand::insert(harness, &[by_hand::row(harness, class, now)]).await;
    for row in &rows {
        assert_read_everywhere(harness, row).await;
    }
    let suspended = Filter { states: vec![StateName::Suspended], ..Filter::all(harness.namespace) };
    let mut listed: Vec<Execution> = harness
        .store
        .list(&suspended, None, 10, Payloads::NONE)
        .await
        .expect("rows are listed")
        .rows
        .into_iter()
        .map(|one| one.execution)
        .collect();
    listed.sort_by_key(|row| row.id);
    let mut expected = rows.to_vec();
    expected.sort_by_key(|row| row.id);
    assert_eq!(listed, expected);
    assert_eq!(harness.store.count(&suspended, 10).await.expect("rows are counted"), 3);
    let others = Filter { states: vec![StateName::Waiting], ..Filter::all(harness.namespace) };
    assert_eq!(harness.store.count(&others, 10).await.expect("rows are counted"), 1);
}

pub async fn a_row_that_is_suspended_and_resumed_is_read_back_equal_everywhere(harness: &Harness) {
    let waits = vec![
        recorded_wait("first", Condition::All(vec![on_signal("a"), on_signal("b")])),
        with_timeout(3_600_000, OnTimeout::Resume, on_count(2, &["c"], Distinct::Sources)),
    ];
    let id = harness.suspended_for(waits).await.execution.id;
    assert_read_everywhere(harness, &harness.row(id).await).await;
    for (sent, effect) in [("a", Effect::Counted), ("c", Effect::Counted), ("b", Effect::Resumed)] {
        assert_eq!(harness.signal(id, sent).await, effect);
        assert_read_everywhere(harness, &harness.row(id).await).await;
    }
    let row = harness.row(id).await;
    assert_eq!((row.state, row.detail.record.untaken), (State::Waiting, 1));
}

pub async fn a_flow_counts_its_suspended_members(harness: &Harness) {
    let flow = harness.flow("a b").await;
    let counts = async || {
        let counts = flow.flow().await.counts;
        [StateName::Waiting, StateName::Active, StateName::Suspended].map(|state| counts.of(state))
    };
    for name in ["a", "b"] {
        let claimed = flow.claim(name).await;
        flow.report(&claimed, suspend(vec![WaitDraft::new(on_signal("go"))], vec![])).await;
    }
    flow.assert_states("a=suspended b=suspended").await;
    assert_eq!((counts().await, flow.flow().await.counts.live()), ([0, 0, 2], 2));
    harness.signal(flow.id("a").await, "go").await;
    assert_eq!(counts().await, [1, 0, 1]);
    flow.complete("a").await;
    flow.cancel_node("b").await;
    assert_eq!(counts().await, [0, 0, 0]);
    harness.drain().await;
}

pub async fn an_awaited_signal_resumes_and_the_claim_carries_it(harness: &Harness) {
    let first = harness.suspended(on_signal("go")).await;
    let id = first.execution.id;
    assert!(harness.claim(1).await.is_empty(), "a suspended execution is not claimed");
    assert_eq!(harness.signal(id, "other").await, Effect::Buffered);
    assert_eq!(harness.state(id).await, StateName::Suspended);
    assert_eq!(harness.signal(id, "go").await, Effect::Resumed);
    let claimed = harness.claim_again(id).await;
    assert_eq!(signal_names(&claimed), ["go"]);
    let sent = &claimed.signals[0];
    assert_eq!(
        (sent.number, sent.source.as_str(), sent.payload.clone()),
        (2, "caller", Some(payload_of("go")))
    );
    assert_eq!(claimed.execution.attempt(), Some(1), "it is a new attempt");
    let record = &harness.row(id).await.detail.record;
    assert_eq!((record.signals, record.untaken, record.suspensions), (2, 1, 1));
    assert_eq!(record.resumed_by, Some(ResumedBy::Condition));
    harness.complete(&claimed, b"1").await;
}

pub async fn the_lease_of_a_suspended_execution_is_over(harness: &Harness) {
    let first = harness.suspended(on_signal("go")).await;
    let id = first.execution.id;
    let stale = async |op: Op| {
        let refused = harness.report(fence(&first), op).await.expect_err("its lease is over");
        assert_eq!(refused.code(), "stale_lease");
    };
    stale(Op::Complete { result: "1".into() }).await;
    stale(suspend(vec![WaitDraft::new(on_signal("another"))], vec![])).await;
    assert_eq!(harness.tick(id, Timer::LeaseExpiry).await, TimerReply::Superseded);
    assert!(!harness.store.overview().await.expect("the overview is read").expired_leases);
    harness.signal(id, "go").await;
    stale(Op::Release).await;
    let second = harness.claim_again(id).await;
    stale(Op::Complete { result: "1".into() }).await;
    assert_eq!(second.execution.epoch, first.execution.epoch + 1);
    harness.complete(&second, b"2").await;
}

pub async fn a_repeated_suspension_gets_the_same_reply(harness: &Harness) {
    let first = harness.leased(Draft::new("kind")).await;
    let id = first.execution.id;
    let report = || {
        let waits = vec![WaitDraft::new(Condition::Any(vec![on_signal("w"), on_signal("go")]))];
        suspend(waits, vec![WaitpointDraft::new(name("w")), WaitpointDraft::new(name("v"))])
    };
    let reply = harness.report(fence(&first), report()).await.expect("it is suspended");
    assert_eq!((reply.state, reply.waitpoints.len()), (StateName::Suspended, 2));
    let before = harness.row(id).await;
    let again = async || harness.report(fence(&first), report()).await.expect("it is the same report");
    assert_eq!(again().await, reply);
    assert_eq!(harness.row(id).await, before);
    assert_eq!(harness.signal(id, "go").await, Effect::Resumed);
    assert_eq!(again().await, reply, "also after it was resumed");
    let second = harness.claim_again(id).await;
    assert_eq!(again().await, reply);
    harness.complete(&second, b"1").await;
    let tokens = |reply: &Reported| -> Vec<String> {
        reply.waitpoints.iter().map(|waitpoint| secret(1).sign(waitpoint)).collect()
    };
    let after = again().await;
    assert_eq!((after.state, tokens(&after)), (reply.state, tokens(&reply)), "also after it has ended");
    // A suspension that resumed at once gets the same reply again.
    let first = harness.leased(Draft::new("kind")).await;
    harness.signal(first.execution.id, "go").await;
    let reply = harness.report(fence(&first), report()).await.expect("it is suspended");
    assert_eq!(reply.state, StateName::Waiting);
    assert_eq!(harness.report(fence(&first), report()).await, Ok(reply));
}

/// Ends an attempt without a suspension; the execution is waiting after that.
async fn end_attempt(harness: &Harness, claimed: &Claimed, way: usize) {
    let (id, lease) = (claimed.execution.id, fence(claimed));
    match way {
        0 => {
            harness.advance_past(1).await;
            assert_eq!(harness.tick(id, Timer::LeaseExpiry).await, TimerReply::Fired);
        }
        1 => {
            let class = FailureClass::Transient;
            let fail = Op::Fail { message: "it broke".into(), class, retry_after_ms: Some(0) };
            harness.report(lease, fail).await.expect("it is accepted");
        }
        2 => drop(harness.report(lease, Op::Release).await.expect("it is accepted")),
        _ => drop(harness.operate(id, Action::Revoke { reason: None }).await.expect("it is revoked")),
    }
    assert_eq!(harness.state(id).await, StateName::Waiting);
}

pub async fn a_claim_carries_its_signals_again_until_the_next_suspension(harness: &Harness) {
    let id = harness.suspended(Condition::All(vec![on_signal("a"), on_signal("b")])).await.execution.id;
    for name in ["x", "b", "a"] {
        harness.signal(id, name).await;
    }
    let worker = Worker { ttl_ms: 1, ..Worker::new("short") };
    let claim = async || harness.claim_as(&worker, 1).await.remove(0);
    let first = claim().await;
    assert_eq!(signal_names(&first), ["b", "a"]);
    let mut last = first.clone();
    for way in 0..4 {
        end_attempt(harness, &last, way).await;
        last = claim().await;
        assert_eq!(last.signals, first.signals, "the same, with their payloads");
    }
    assert_eq!(
        harness.suspend(&last, vec![WaitDraft::new(on_signal("c"))]).await.state,
        StateName::Suspended
    );
    harness.signal(id, "c").await;
    last = claim().await;
    assert_eq!(signal_names(&last), ["c"]);
    assert_eq!(
        harness.suspend(&last, vec![WaitDraft::new(Condition::operator())]).await.state,
        StateName::Suspended
    );
    harness.resume(id).await;
    last = claim().await;
    assert!(last.signals.is_empty());
    end_attempt(harness, &last, 1).await;
    assert!(claim().await.signals.is_empty());
}

pub async fn operators_may_prioritise_tag_and_cancel_a_suspended_execution(harness: &Harness) {
    let id = harness.suspended(on_signal("go")).await.execution.id;
    for action in
        [Action::Revoke { reason: None }, Action::Reschedule { until: When::AfterMs(0) }, Action::Replay]
    {
        let refused = harness.operate(id, action).await.expect_err("it is not applicable");
        assert_eq!(refused.code(), "wrong_state");
    }
    let before = harness.row(id).await;
    harness.operate(id, Action::Prioritise { priority: 7 }).await.expect("it is changed");
    let tag = Action::Tag { set: [("a".into(), "b".into())].into(), remove: vec![] };
    harness.operate(id, tag).await.expect("it is tagged");
    let row = harness.row(id).await;
    assert_eq!((row.priority, &row.state, row.version), (7, &before.state, before.version + 2));
    assert_read_everywhere(harness, &row).await;
    // There is no worker to notify, so a grace period makes no difference.
    let cancel = Action::Cancel { reason: Some("enough".into()), grace_ms: 60_000 };
    let cancelled = harness.operate(id, cancel).await.expect("it is cancelled");
    assert_eq!(cancelled.state, State::Terminal(Outcome::Cancelled));
    assert_eq!(
        harness.try_signal(id, signal("go")).await.expect_err("it has ended").code(),
        "already_terminal"
    );
    harness.operate(id, Action::Replay).await.expect("it is replayed");
    assert!(harness.claim_again(id).await.signals.is_empty());
}

pub async fn the_deadline_of_a_suspended_execution_passes(harness: &Harness) {
    let policy = Policy { deadline_ms: Some(0), ..Policy::default() };
    let claimed = harness.leased(Draft { policy, ..Draft::new("kind") }).await;
    let id = claimed.execution.id;
    let waits = vec![with_timeout(3_600_000, OnTimeout::Resume, on_signal("go"))];
    assert_eq!(harness.suspend(&claimed, waits).await.state, StateName::Suspended);
    harness.due(id, DueKind::Deadline).await;
    let row = harness.row(id).await;
    assert_eq!(row.state, State::Terminal(Outcome::Expired));
    assert_read_everywhere(harness, &row).await;
    assert_eq!(harness.tick(id, Timer::Due(DueKind::SuspensionTimeout)).await, TimerReply::NotDue);
}

pub async fn suspending_an_execution_with_a_requested_cancellation_ends_it(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    let cancel = Action::Cancel { reason: None, grace_ms: 60_000 };
    harness.operate(id, cancel).await.expect("the cancellation is requested");
    let reply = harness.suspend(&claimed, vec![WaitDraft::new(on_signal("go"))]).await;
    assert_eq!(reply.state, StateName::Cancelled);
    let again = harness.suspend(&claimed, vec![WaitDraft::new(on_signal("go"))]).await;
    assert_eq!(again, reply);
    assert_eq!(harness.row(id).await.state, State::Terminal(Outcome::Cancelled));
}

pub async fn a_signal_and_the_claim_of_the_resumed_execution_share_one_transaction(harness: &Harness) {
    for recorded in [true, false] {
        let wait =
            if recorded { recorded_wait("wait", on_signal("go")) } else { WaitDraft::new(on_signal("go")) };
        let id = harness.suspended_for(vec![wait]).await.execution.id;
        let claim = harness.claim_command(&Worker::new("one"), 1);
        let deliver = harness.signal_command(id, signal("go"), "caller");
        let (delivered, claimed) = harness.run(RulePair(deliver, claim)).await;
        assert_eq!(delivered.expect("it is delivered").effect, Effect::Resumed);
        let claimed = claimed.expect("a claim without a key is not refused").claimed;
        assert_eq!(claimed.iter().map(|one| one.execution.id).collect::<Vec<_>>(), [id]);
        assert_eq!(signal_names(&claimed[0]), ["go"]);
        assert_eq!(claimed[0].signals[0].payload, Some(payload_of("go")));
        assert_eq!(claimed[0].steps.len(), usize::from(recorded));
        assert_eq!(harness.row(id).await, claimed[0].execution);
        assert_eq!(harness.signals(id).await, claimed[0].signals, "it is stored as taken");
    }
}

pub async fn a_repeated_keyed_claim_carries_the_same_signals(harness: &Harness) {
    let id = harness.suspended_for(vec![recorded_wait("wait", on_signal("go"))]).await.execution.id;
    harness.signal(id, "kept").await;
    harness.signal(id, "go").await;
    let mut claim = harness.claim_command(&Worker::new("one"), 1);
    claim.call_key = Some(CallKey { key: name("claim"), digest: 7 });
    let first = harness.run(claim.clone()).await.expect("it is claimed").claimed.remove(0);
    assert_eq!((signal_names(&first), first.steps.len()), (vec!["go"], 1));
    let again = harness.run(claim.clone()).await.expect("it is accepted").claimed.remove(0);
    assert_eq!((&again.signals, &again.steps), (&first.signals, &first.steps));
    assert_eq!((again.execution, again.input), (first.execution.clone(), first.input.clone()));
    harness.suspend(&first, vec![WaitDraft::new(on_signal("more"))]).await;
    assert!(harness.run(claim).await.expect("it is accepted").claimed.is_empty(), "its lease is over");
}

pub async fn a_signal_concurrent_with_the_suspension_is_not_lost(harness: &Harness) {
    for round in 0..12 {
        let claimed = harness.leased(Draft::new("kind")).await;
        let id = claimed.execution.id;
        let tasks = concurrently(3, |task| {
            let (harness, claimed) = (harness.clone(), claimed.clone());
            async move {
                match task {
                    0 => drop(
                        harness
                            .suspend(
                                &claimed,
                                vec![WaitDraft::new(Condition::All(vec![on_signal("a"), on_signal("b")]))],
                            )
                            .await,
                    ),
                    1 => drop(harness.signal(id, "a").await),
                    _ => drop(harness.signal(id, "b").await),
                }
            }
        });
        tasks.await;
        let claimed = harness.claim_again(id).await;
        let arrived: BTreeSet<&str> = signal_names(&claimed).into_iter().collect();
        assert_eq!(arrived, BTreeSet::from(["a", "b"]), "in round {round}");
        harness.complete(&claimed, b"1").await;
    }
}
