//! Waitpoints: made before a suspension or with it, found by their ids, and open until a delivery, their time or an operator
//! closes them.
#![allow(missing_docs)]

use super::bench::{Bench, fence, mint};
use super::by_hand;
use super::signal_bench::{carried, make, name, on, suspend};
use super::signals::raised;
use selvedge_core::execution::Record;
use selvedge_core::rules::clock::{Ticked, What};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::waitpoint::WaitpointDraft;
use selvedge_core::signal::Effect;
use selvedge_core::state::StateName;
use selvedge_core::suspension::{Condition, WaitDraft};
use selvedge_core::token::TokenKeyId;
use selvedge_core::waitpoint::{WAITPOINTS_MAX, WaitpointState};
use selvedge_core::{
    Changes, Draft, DueKind, ExecutionId, Fact, NamespaceId, Needs, Timestamp, Waitpoint, WaitpointId,
};
use uuid::Uuid;

const HOUR_MS: i64 = 3_600_000;

fn draft(text: &str) -> WaitpointDraft {
    WaitpointDraft::new(name(text))
}

fn for_ms(text: &str, ms: i64) -> WaitpointDraft {
    WaitpointDraft { expires_ms: Some(ms), ..draft(text) }
}

fn ids(waitpoints: &[Waitpoint]) -> Vec<WaitpointId> {
    waitpoints.iter().map(|waitpoint| waitpoint.id).collect()
}

/// Waitpoints that between them have every field in every form.
fn every_form(namespace: NamespaceId, execution: ExecutionId, now: Timestamp) -> Vec<Waitpoint> {
    let states = [
        WaitpointState::Open,
        WaitpointState::Delivered(1, Effect::Buffered),
        WaitpointState::Delivered(10_000, Effect::Counted),
        WaitpointState::Delivered(2, Effect::Resumed),
        WaitpointState::Expired,
        WaitpointState::Revoked,
    ];
    let form = |(index, state): (usize, WaitpointState)| Waitpoint {
        id: WaitpointId(Uuid::new_v4()),
        namespace,
        execution,
        number: index as u32 + 1,
        name: name(["approval", "\u{1f9f5} \"quoted\"", "approval"][index % 3]),
        source: name(["ann", "bøb"][index % 2]),
        key: TokenKeyId([1, i64::MAX, 7][index % 3]),
        created_at: now.plus_ms(index as i64),
        expires_at: (index % 2 == 1).then(|| now.plus_ms(HOUR_MS)),
        state,
    };
    states.into_iter().enumerate().map(form).collect()
}

pub async fn waitpoints_are_read_back_with_every_field_by_id_and_by_execution(bench: &Bench) {
    let now = bench.now().await;
    let mut all = Vec::new();
    for _ in 0..2 {
        let row = by_hand::recorded(bench, Record { waitpoints: 6, ..Record::default() }).await;
        let waitpoints = every_form(bench.namespace, row.id, now);
        let updated = vec![raised(bench, row.id).await];
        bench.save(Changes { waitpoints: waitpoints.clone(), updated, ..Changes::default() }).await;
        all.push((row.id, waitpoints));
    }
    let (id, mut waitpoints) = all.remove(0);
    let (other, others) = all.remove(0);
    assert_eq!(bench.waitpoints(id).await, waitpoints);
    let by_id = async |of: WaitpointId| bench.store.waitpoint(of).await.expect("a waitpoint is read");
    for waitpoint in waitpoints.iter().chain(&others) {
        assert_eq!(by_id(waitpoint.id).await.as_ref(), Some(waitpoint));
    }
    assert_eq!(by_id(WaitpointId(Uuid::new_v4())).await, None);
    let page = async |after, limit| bench.store.waitpoints(id, after, limit).await.expect("is read");
    assert_eq!(page(0, 2).await, waitpoints[..2]);
    assert_eq!(page(2, 3).await, waitpoints[2..5]);
    for after in [6, u32::MAX] {
        assert!(page(after, 9).await.is_empty());
    }
    assert!(bench.waitpoints(mint()).await.is_empty());
    let rows = bench.load(Needs { waitpoints: vec![id, mint()], ..Needs::default() }).await;
    assert_eq!(rows.waitpoints, waitpoints);
    // One that is written again is replaced: it was delivered to, or is signed with another key.
    waitpoints[0].state = WaitpointState::Delivered(3, Effect::Counted);
    waitpoints[1].key = TokenKeyId(9);
    let updated = vec![raised(bench, id).await];
    bench.save(Changes { waitpoints: waitpoints[..2].to_vec(), updated, ..Changes::default() }).await;
    assert_eq!(bench.waitpoints(id).await, waitpoints);
    assert_eq!(by_id(waitpoints[0].id).await.as_ref(), Some(&waitpoints[0]));
    assert_eq!(bench.waitpoints(other).await, others);
}

pub async fn a_waitpoint_is_made_before_the_suspension_or_with_it(bench: &Bench) {
    let claimed = bench.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    let early = bench.waitpoint(&claimed, for_ms("early", HOUR_MS)).await;
    assert_eq!((early.number, early.source.as_str(), early.state), (1, "early", WaitpointState::Open));
    assert_eq!(early.expires_at, Some(early.created_at.plus_ms(HOUR_MS)));
    assert_eq!(bench.deliver(&early).await.expect("it is delivered").effect, Effect::Buffered);
    let with_source = WaitpointDraft { source: Some(name("ann")), ..draft("late") };
    let both = Condition::All(vec![on("early"), on("late")]);
    let report = suspend(vec![WaitDraft::new(both)], vec![with_source, draft("other")]);
    let answer = bench.report(fence(&claimed), report).await.expect("it is suspended");
    assert_eq!(answer.state, StateName::Suspended, "what came early counts, and is not all");
    let [late, other] = &answer.waitpoints[..] else { panic!("there are two") };
    assert_eq!((late.number, late.source.as_str(), other.number), (2, "ann", 3));
    assert_eq!((late.expires_at, bench.waitpoints(id).await.len()), (None, 3));
    let delivered = bench.deliver(late).await.expect("it is delivered");
    assert_eq!((delivered.effect, delivered.source.as_str()), (Effect::Resumed, "ann"));
    let claimed = bench.claim_again(id).await;
    assert_eq!(carried(&claimed), ["early", "late"]);
    let through: Vec<_> = claimed.signals.iter().map(|one| one.waitpoint.clone()).collect();
    assert_eq!(through, [Some((early.id, name("early"))), Some((late.id, name("late")))]);
    let record = &claimed.execution.detail.record;
    assert_eq!((record.waitpoints, record.expires_at), (3, None), "what was delivered to expires no more");
    let states: Vec<WaitpointState> = bench.waitpoints(id).await.iter().map(|one| one.state).collect();
    assert_eq!(
        states,
        [
            WaitpointState::Delivered(1, Effect::Buffered),
            WaitpointState::Delivered(2, Effect::Resumed),
            WaitpointState::Open
        ]
    );
}

pub async fn the_same_name_is_the_same_waitpoint_until_its_signal_was_taken(bench: &Bench) {
    let claimed = bench.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    let first = bench.waitpoint(&claimed, draft("w")).await;
    let before = bench.row(id).await;
    assert_eq!(bench.waitpoint(&claimed, draft("w")).await, first, "while it is open");
    assert_eq!(bench.row(id).await, before, "and nothing changes");
    let another = WaitpointDraft { source: Some(name("another")), ..draft("w") };
    let refused = bench.report(fence(&claimed), make(another.clone())).await;
    let refused = refused.expect_err("it speaks for another");
    assert_eq!((refused.code(), refused.pointer()), ("idempotency_mismatch", Some("/source")));
    bench.deliver(&first).await.expect("it is delivered");
    let kept = bench.waitpoint(&claimed, draft("w")).await;
    assert_eq!(kept.id, first.id, "while its signal is kept");
    let twice = suspend(vec![WaitDraft::new(on("w"))], vec![draft("w"), draft("v"), draft("v")]);
    let answer = bench.report(fence(&claimed), twice).await.expect("it is suspended");
    assert_eq!(answer.state, StateName::Ready);
    assert_eq!(answer.waitpoints[0].id, first.id);
    assert_eq!(answer.waitpoints[1], answer.waitpoints[2], "also within one call");
    let claimed = bench.claim_again(id).await;
    let second = bench.waitpoint(&claimed, another).await;
    assert_ne!(second.id, first.id, "its signal was taken");
    assert_eq!((second.number, bench.waitpoints(id).await.len()), (3, 3));
    assert_eq!(bench.deliver(&second).await.expect("it takes one").source, name("another"));
}

pub async fn one_that_takes_no_delivery_any_more_is_made_anew(bench: &Bench) {
    let claimed = bench.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    let expired = bench.waitpoint(&claimed, for_ms("w", 0)).await;
    let open = bench.waitpoint(&claimed, draft("w")).await;
    assert_ne!(open.id, expired.id, "its time was over, though nobody had said so");
    let revoke = Action::RevokeWaitpoint { waitpoint: open.id };
    bench.operate(id, revoke).await.expect("it is revoked");
    let third = bench.waitpoint(&claimed, draft("w")).await;
    assert_ne!(third.id, open.id);
    assert_eq!(bench.waitpoint(&claimed, draft("w")).await.id, third.id);
    assert_eq!(ids(&bench.waitpoints(id).await), [expired.id, open.id, third.id]);
}

pub async fn a_waitpoint_whose_time_is_over_is_marked_and_told_of(bench: &Bench) {
    let claimed = bench.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    let soon =
        [bench.waitpoint(&claimed, for_ms("a", 1)).await, bench.waitpoint(&claimed, for_ms("b", 1)).await];
    let later = bench.waitpoint(&claimed, for_ms("c", HOUR_MS)).await;
    bench.suspend(&claimed, vec![WaitDraft::new(on("go"))]).await;
    bench.pass(1).await;
    let found = bench.store.due(DueKind::WaitpointExpiry, None, 9).await.expect("is read");
    assert_eq!(found.iter().map(|row| row.execution).collect::<Vec<_>>(), [id]);
    bench.due(id, DueKind::WaitpointExpiry).await;
    let states: Vec<WaitpointState> = bench.waitpoints(id).await.iter().map(|one| one.state).collect();
    assert_eq!(states, [WaitpointState::Expired, WaitpointState::Expired, WaitpointState::Open]);
    assert_eq!(bench.row(id).await.detail.record.expires_at, later.expires_at);
    assert_eq!(bench.tick(id, What::Due(DueKind::WaitpointExpiry)).await, Ticked::NotDue);
    let log = bench.log().await;
    let told = log.iter().flat_map(|(_, events)| events).filter_map(|event| match &event.fact {
        Fact::WaitpointExpired { waitpoint, .. } => Some(*waitpoint),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), ids(&soon));
    assert_eq!(bench.state(id).await, StateName::Suspended, "it waits as before");
    // One that has ended is not reminded of its waitpoints.
    bench.operate(id, Action::Cancel { reason: None, grace_ms: 0 }).await.expect("it is cancelled");
    assert_eq!(bench.row(id).await.due().map(|due| due.kind), Some(DueKind::Retention));
    assert_eq!(bench.tick(id, What::Due(DueKind::WaitpointExpiry)).await, Ticked::NotDue);
}

pub async fn waitpoints_expire_in_every_state_that_is_live(bench: &Bench) {
    let claimed = bench.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    bench.waitpoint(&claimed, for_ms("leased", 0)).await;
    bench.due(id, DueKind::WaitpointExpiry).await;
    bench.waitpoint(&claimed, for_ms("ready", 0)).await;
    bench.report(fence(&claimed), Op::Release).await.expect("it is released");
    let order = bench.row(id).await.ready_order;
    bench.due(id, DueKind::WaitpointExpiry).await;
    assert_eq!(bench.row(id).await.ready_order, order, "it keeps its place among the ready ones");
    let claimed = bench.claim_again(id).await;
    bench.waitpoint(&claimed, for_ms("delayed", 0)).await;
    let delay = Op::Delay { until: selvedge_core::submission::When::AfterMs(HOUR_MS) };
    bench.report(fence(&claimed), delay).await.expect("it is delayed");
    bench.due(id, DueKind::WaitpointExpiry).await;
    let states: Vec<WaitpointState> = bench.waitpoints(id).await.iter().map(|one| one.state).collect();
    assert_eq!(states, [WaitpointState::Expired; 3]);
    assert_eq!(bench.row(id).await.due().map(|due| due.kind), Some(DueKind::Delay));
}

pub async fn a_waitpoint_is_revoked_once_and_only_where_it_is_open(bench: &Bench) {
    let claimed = bench.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    let open = bench.waitpoint(&claimed, for_ms("open", HOUR_MS)).await;
    let delivered = bench.waitpoint(&claimed, draft("delivered")).await;
    bench.deliver(&delivered).await.expect("it is delivered");
    let revoke = async |of: WaitpointId| {
        let action = Action::RevokeWaitpoint { waitpoint: of };
        bench.operate(id, action).await.map(|row| row.version)
    };
    let version = bench.row(id).await.version;
    assert_eq!(revoke(open.id).await, Ok(version + 1));
    assert_eq!(revoke(open.id).await, Ok(version + 1), "the same again changes nothing");
    assert_eq!(revoke(delivered.id).await, Ok(version + 1), "what was delivered stays");
    assert_eq!(bench.row(id).await.detail.record.expires_at, None);
    let states: Vec<WaitpointState> = bench.waitpoints(id).await.iter().map(|one| one.state).collect();
    assert_eq!(states, [WaitpointState::Revoked, WaitpointState::Delivered(1, Effect::Buffered)]);
    let unknown = revoke(WaitpointId(Uuid::new_v4())).await.expect_err("it is not there");
    assert_eq!(unknown.code(), "not_found");
    let other = bench.leased(Draft::new("kind")).await;
    let theirs = bench.waitpoint(&other, draft("theirs")).await;
    assert_eq!(revoke(theirs.id).await.expect_err("it is of another").code(), "not_found");
    // Also of one that has ended.
    let last = bench.waitpoint(&claimed, draft("last")).await;
    bench.complete(&claimed, b"1").await;
    revoke(last.id).await.expect("it is revoked");
    assert_eq!(bench.waitpoints(id).await[2].state, WaitpointState::Revoked);
}

pub async fn an_execution_has_no_more_waitpoints_than_it_may(bench: &Bench) {
    let now = bench.now().await;
    let session = by_hand::session(bench, "one", HOUR_MS, now);
    by_hand::put_sessions(bench, std::slice::from_ref(&session)).await;
    let class = bench.class("default", "kind").await;
    let record = Record { waitpoints: WAITPOINTS_MAX - 1, ..Record::default() };
    let detail = selvedge_core::execution::Detail { record, ..Default::default() };
    let row = selvedge_core::Execution { detail, ..by_hand::row(bench, class, now) };
    let row = by_hand::held(row, &session, now);
    by_hand::insert(bench, std::slice::from_ref(&row)).await;
    let lease = selvedge_core::rules::report::Fence::of(&row).expect("it is leased");
    let two = suspend(vec![WaitDraft::new(on("a"))], vec![draft("a"), draft("b")]);
    assert_eq!(bench.report(lease, two).await.expect_err("there is room for one").code(), "limit_reached");
    assert_eq!(bench.row(row.id).await, row, "nothing was made");
    bench.report(lease, make(draft("last"))).await.expect("there is room for one");
    let more = bench.report(lease, make(draft("more"))).await.expect_err("there is no more room");
    assert_eq!(more.code(), "limit_reached");
    bench.report(lease, make(draft("last"))).await.expect("the same again needs no room");
}
