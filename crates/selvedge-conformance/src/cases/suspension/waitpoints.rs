//! Waitpoints: created before a suspension or with it, found by id, and open until a delivery, their expiry or an
//! operator closes them.

use super::signals::raise_version;
use crate::harness::by_hand;
use crate::harness::signals::{create_waitpoint, name, on_count, on_signal, signal_names, suspend};
use crate::harness::{Harness, fence, new_id};
use selvedge_core::execution::RecordSummary;
use selvedge_core::fact;
use selvedge_core::rows::Queries;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::timer::{Timer, TimerReply};
use selvedge_core::rules::waitpoint::WaitpointDraft;
use selvedge_core::signal::Effect;
use selvedge_core::state::StateName;
use selvedge_core::suspension::{Condition, Distinct, WaitDraft};
use selvedge_core::table::Guarded;
use selvedge_core::token::TokenKeyId;
use selvedge_core::waitpoint::{WAITPOINTS_MAX, WaitpointFilter, WaitpointState, WaitpointStateName};
use selvedge_core::{
    Changes, Draft, DueKind, ExecutionId, Fact, FailureClass, NamespaceId, Needs, Timestamp, Waitpoint,
    WaitpointId,
};
use selvedge_store::ReconcilerScope;
use uuid::Uuid;

const HOUR_MS: i64 = 3_600_000;

fn draft(text: &str) -> WaitpointDraft {
    WaitpointDraft::new(name(text))
}

fn expiring_draft(text: &str, ms: i64) -> WaitpointDraft {
    WaitpointDraft { expires_ms: Some(ms), ..draft(text) }
}

fn ids(waitpoints: &[Waitpoint]) -> Vec<WaitpointId> {
    waitpoints.iter().map(|waitpoint| waitpoint.id).collect()
}

/// Returns waitpoints that together have every field in every form.
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
        signals: [None, Some(vec![name("yes"), name("\"n\u{f8}\"")])][index % 2].clone(),
        prompt: [None, Some(String::new()), Some("Pay \u{1f9f5} \"now\"?\n".into())][index % 3].clone(),
        issue: [0, 1, i32::MAX as u32][index % 3],
    };
    states.into_iter().enumerate().map(form).collect()
}

pub async fn waitpoints_are_read_back_with_every_field_by_id_and_by_execution(harness: &Harness) {
    let now = harness.now().await;
    let mut all = Vec::new();
    for _ in 0..2 {
        let row =
            by_hand::recorded(harness, RecordSummary { waitpoints: 6, ..RecordSummary::default() }).await;
        let waitpoints = every_form(harness.namespace, row.id, now);
        let updated = vec![raise_version(harness, row.id).await];
        harness
            .save(Changes {
                waitpoints: waitpoints.clone(),
                executions: Guarded::updating(updated),
                ..Changes::default()
            })
            .await;
        all.push((row.id, waitpoints));
    }
    let (id, mut waitpoints) = all.remove(0);
    let (other, others) = all.remove(0);
    assert_eq!(harness.waitpoints(id).await, waitpoints);
    let by_id = async |of: WaitpointId| harness.store.waitpoint(of).await.expect("a waitpoint is read");
    for waitpoint in waitpoints.iter().chain(&others) {
        assert_eq!(by_id(waitpoint.id).await.as_ref(), Some(waitpoint));
    }
    assert_eq!(by_id(WaitpointId(Uuid::new_v4())).await, None);
    let page = async |after, limit| harness.store.waitpoints(id, after, limit).await.expect("rows are read");
    assert_eq!(page(0, 2).await, waitpoints[..2]);
    assert_eq!(page(2, 3).await, waitpoints[2..5]);
    for after in [6, u32::MAX] {
        assert!(page(after, 9).await.is_empty());
    }
    assert!(harness.waitpoints(new_id()).await.is_empty());
    let rows = harness
        .load(Needs {
            queries: Queries { waitpoints: vec![id, new_id()], ..Queries::default() },
            ..Needs::default()
        })
        .await;
    assert_eq!(rows.waitpoints, waitpoints);
    // A waitpoint that is written again is replaced, for example after a delivery or with another key.
    waitpoints[0].state = WaitpointState::Delivered(3, Effect::Counted);
    (waitpoints[1].key, waitpoints[1].issue) = (TokenKeyId(9), 7);
    let updated = vec![raise_version(harness, id).await];
    harness
        .save(Changes {
            waitpoints: waitpoints[..2].to_vec(),
            executions: Guarded::updating(updated),
            ..Changes::default()
        })
        .await;
    assert_eq!(harness.waitpoints(id).await, waitpoints);
    assert_eq!(by_id(waitpoints[0].id).await.as_ref(), Some(&waitpoints[0]));
    assert_eq!(harness.waitpoints(other).await, others);
}

pub async fn waitpoints_are_listed_by_state_and_source_newest_first(harness: &Harness) {
    let now = harness.now().await;
    let mut all = Vec::new();
    for _ in 0..2 {
        let row =
            by_hand::recorded(harness, RecordSummary { waitpoints: 6, ..RecordSummary::default() }).await;
        let waitpoints = every_form(harness.namespace, row.id, now);
        let updated = vec![raise_version(harness, row.id).await];
        let executions = Guarded::updating(updated);
        harness.save(Changes { waitpoints: waitpoints.clone(), executions, ..Changes::default() }).await;
        all.extend(waitpoints);
    }
    all.sort_unstable_by_key(|waitpoint| std::cmp::Reverse(waitpoint.position()));
    let states = WaitpointStateName::ALL.map(Some).into_iter().chain([None]);
    for (state, source) in
        states.flat_map(|state| [None, Some("ann"), Some("bøb"), Some("x")].map(|one| (state, one)))
    {
        let filter =
            WaitpointFilter { state, source: source.map(name), ..WaitpointFilter::all(harness.namespace) };
        let expected: Vec<&Waitpoint> = all.iter().filter(|one| filter.selects(one)).collect();
        for limit in [1, 2, 5, 100] {
            let mut listed = Vec::new();
            loop {
                let after = listed.last().map(Waitpoint::position);
                let page = harness.store.list_waitpoints(&filter, after, limit).await.expect("rows are read");
                assert!(page.len() <= limit as usize);
                if page.is_empty() {
                    break;
                }
                listed.extend(page);
            }
            assert_eq!(listed.iter().collect::<Vec<_>>(), expected, "{filter:?} in pages of {limit}");
        }
        let elsewhere = WaitpointFilter { namespace: NamespaceId(i32::MAX), ..filter };
        let listed = harness.store.list_waitpoints(&elsewhere, None, 9).await.expect("rows are read");
        assert!(listed.is_empty());
    }
}

pub async fn a_waitpoint_is_created_before_the_suspension_or_with_it(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    let early = harness.waitpoint(&claimed, expiring_draft("early", HOUR_MS)).await;
    assert_eq!((early.number, early.source.as_str(), early.state), (1, "early", WaitpointState::Open));
    assert_eq!(early.expires_at, Some(early.created_at.plus_ms(HOUR_MS)));
    assert_eq!(harness.deliver(&early).await.expect("it is delivered").effect, Effect::Buffered);
    let with_source = WaitpointDraft { source: Some(name("ann")), ..draft("late") };
    let both = Condition::All(vec![on_signal("early"), on_signal("late")]);
    let report = suspend(vec![WaitDraft::new(both)], vec![with_source, draft("other")]);
    let reply = harness.report(fence(&claimed), report).await.expect("it is suspended");
    assert_eq!(reply.state, StateName::Suspended, "the early signal counts, and is not enough");
    let [late, other] = &reply.waitpoints[..] else { panic!("there are two") };
    assert_eq!((late.number, late.source.as_str(), other.number), (2, "ann", 3));
    assert_eq!((late.expires_at, harness.waitpoints(id).await.len()), (None, 3));
    let delivered = harness.deliver(late).await.expect("it is delivered");
    assert_eq!((delivered.effect, delivered.source.as_str()), (Effect::Resumed, "ann"));
    let claimed = harness.claim_again(id).await;
    assert_eq!(signal_names(&claimed), ["early", "late"]);
    let through: Vec<_> = claimed.signals.iter().map(|one| one.waitpoint.clone()).collect();
    assert_eq!(through, [Some((early.id, name("early"))), Some((late.id, name("late")))]);
    let record = &claimed.execution.detail.record;
    assert_eq!((record.waitpoints, record.expires_at), (3, None), "a delivered waitpoint no longer expires");
    let states: Vec<WaitpointState> = harness.waitpoints(id).await.iter().map(|one| one.state).collect();
    assert_eq!(
        states,
        [
            WaitpointState::Delivered(1, Effect::Buffered),
            WaitpointState::Delivered(2, Effect::Resumed),
            WaitpointState::Open
        ]
    );
}

pub async fn a_name_refers_to_the_same_waitpoint_until_its_signal_is_taken(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    let first = harness.waitpoint(&claimed, draft("w")).await;
    let before = harness.row(id).await;
    assert_eq!(harness.waitpoint(&claimed, draft("w")).await, first, "it is reused while open");
    assert_eq!(harness.row(id).await, before, "and nothing changes");
    let another = WaitpointDraft { source: Some(name("another")), ..draft("w") };
    let refused = harness.report(fence(&claimed), create_waitpoint(another.clone())).await;
    let refused = refused.expect_err("the source differs");
    assert_eq!((refused.code(), refused.pointer()), ("idempotency_mismatch", Some("/source")));
    harness.deliver(&first).await.expect("it is delivered");
    let kept = harness.waitpoint(&claimed, draft("w")).await;
    assert_eq!(kept.id, first.id, "it is reused while its signal is untaken");
    let twice = suspend(vec![WaitDraft::new(on_signal("w"))], vec![draft("w"), draft("v"), draft("v")]);
    let reply = harness.report(fence(&claimed), twice).await.expect("it is suspended");
    assert_eq!(reply.state, StateName::Waiting);
    assert_eq!(reply.waitpoints[0].id, first.id);
    assert_eq!(reply.waitpoints[1], reply.waitpoints[2], "also within one call");
    let claimed = harness.claim_again(id).await;
    let second = harness.waitpoint(&claimed, another).await;
    assert_ne!(second.id, first.id, "its signal was taken");
    assert_eq!((second.number, harness.waitpoints(id).await.len()), (3, 3));
    assert_eq!(harness.deliver(&second).await.expect("it is delivered").source, name("another"));
}

pub async fn a_waitpoint_that_accepts_no_delivery_is_created_anew(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    let expired = harness.waitpoint(&claimed, expiring_draft("w", 0)).await;
    let open = harness.waitpoint(&claimed, draft("w")).await;
    assert_ne!(open.id, expired.id, "it had expired, though it was not marked yet");
    let revoke = Action::RevokeWaitpoint { waitpoint: open.id };
    harness.operate(id, revoke).await.expect("it is revoked");
    let third = harness.waitpoint(&claimed, draft("w")).await;
    assert_ne!(third.id, open.id);
    assert_eq!(harness.waitpoint(&claimed, draft("w")).await.id, third.id);
    assert_eq!(ids(&harness.waitpoints(id).await), [expired.id, open.id, third.id]);
}

pub async fn an_expired_waitpoint_is_marked_and_logged(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    let soon = [
        harness.waitpoint(&claimed, expiring_draft("a", 1)).await,
        harness.waitpoint(&claimed, expiring_draft("b", 1)).await,
    ];
    let later = harness.waitpoint(&claimed, expiring_draft("c", HOUR_MS)).await;
    harness.suspend(&claimed, vec![WaitDraft::new(on_signal("go"))]).await;
    harness.advance_past(1).await;
    let found = harness
        .store
        .due(&ReconcilerScope::ALL, DueKind::WaitpointExpiry, None, 9)
        .await
        .expect("rows are read");
    assert_eq!(found.iter().map(|row| row.execution).collect::<Vec<_>>(), [id]);
    harness.due(id, DueKind::WaitpointExpiry).await;
    let states: Vec<WaitpointState> = harness.waitpoints(id).await.iter().map(|one| one.state).collect();
    assert_eq!(states, [WaitpointState::Expired, WaitpointState::Expired, WaitpointState::Open]);
    assert_eq!(harness.row(id).await.detail.record.expires_at, later.expires_at);
    assert_eq!(harness.tick(id, Timer::Due(DueKind::WaitpointExpiry)).await, TimerReply::NotDue);
    let log = harness.log().await;
    let logged = log.iter().flat_map(|(_, events)| events).filter_map(|event| match &event.fact {
        Fact::WaitpointExpired(fact::WaitpointExpired { waitpoint, .. }) => Some(*waitpoint),
        _ => None,
    });
    assert_eq!(logged.collect::<Vec<_>>(), ids(&soon));
    assert_eq!(harness.state(id).await, StateName::Suspended, "it stays suspended");
    // The waitpoints of an ended execution do not become due.
    harness.operate(id, Action::Cancel { reason: None, grace_ms: 0 }).await.expect("it is cancelled");
    assert_eq!(harness.row(id).await.due().map(|due| due.kind), Some(DueKind::Retention));
    assert_eq!(harness.tick(id, Timer::Due(DueKind::WaitpointExpiry)).await, TimerReply::NotDue);
}

pub async fn waitpoints_expire_in_every_live_state(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    harness.waitpoint(&claimed, expiring_draft("leased", 0)).await;
    harness.due(id, DueKind::WaitpointExpiry).await;
    harness.waitpoint(&claimed, expiring_draft("ready", 0)).await;
    harness.report(fence(&claimed), Op::Release).await.expect("it is released");
    let order = harness.row(id).await.ready_order;
    harness.due(id, DueKind::WaitpointExpiry).await;
    assert_eq!(harness.row(id).await.ready_order, order, "it keeps its claim order");
    let claimed = harness.claim_again(id).await;
    harness.waitpoint(&claimed, expiring_draft("delayed", 0)).await;
    let delay = Op::Delay { until: selvedge_core::submission::When::AfterMs(HOUR_MS) };
    harness.report(fence(&claimed), delay).await.expect("it is delayed");
    harness.due(id, DueKind::WaitpointExpiry).await;
    let states: Vec<WaitpointState> = harness.waitpoints(id).await.iter().map(|one| one.state).collect();
    assert_eq!(states, [WaitpointState::Expired; 3]);
    assert_eq!(harness.row(id).await.due().map(|due| due.kind), Some(DueKind::Delay));
}

pub async fn a_waitpoint_is_revoked_once_and_only_while_open(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    let open = harness.waitpoint(&claimed, expiring_draft("open", HOUR_MS)).await;
    let delivered = harness.waitpoint(&claimed, draft("delivered")).await;
    harness.deliver(&delivered).await.expect("it is delivered");
    let revoke = async |of: WaitpointId| {
        let action = Action::RevokeWaitpoint { waitpoint: of };
        harness.operate(id, action).await.map(|row| row.version)
    };
    let version = harness.row(id).await.version;
    assert_eq!(revoke(open.id).await, Ok(version + 1));
    assert_eq!(revoke(open.id).await, Ok(version + 1), "a repeat changes nothing");
    assert_eq!(revoke(delivered.id).await, Ok(version + 1), "a delivered waitpoint stays delivered");
    assert_eq!(harness.row(id).await.detail.record.expires_at, None);
    let states: Vec<WaitpointState> = harness.waitpoints(id).await.iter().map(|one| one.state).collect();
    assert_eq!(states, [WaitpointState::Revoked, WaitpointState::Delivered(1, Effect::Buffered)]);
    let unknown = revoke(WaitpointId(Uuid::new_v4())).await.expect_err("it does not exist");
    assert_eq!(unknown.code(), "not_found");
    let other = harness.leased(Draft::new("kind")).await;
    let theirs = harness.waitpoint(&other, draft("theirs")).await;
    assert_eq!(revoke(theirs.id).await.expect_err("it belongs to another execution").code(), "not_found");
    // The end of the execution has closed it.
    let last = harness.waitpoint(&claimed, draft("last")).await;
    harness.complete(&claimed, b"1").await;
    revoke(last.id).await.expect("a repeat changes nothing");
    assert_eq!(harness.waitpoints(id).await[2].state, WaitpointState::Expired);
}

pub async fn waitpoints_beyond_the_limit_of_an_execution_are_refused(harness: &Harness) {
    let now = harness.now().await;
    let session = by_hand::session(harness, "one", HOUR_MS, now);
    by_hand::put_sessions(harness, std::slice::from_ref(&session)).await;
    let class = harness.class("default", "kind").await;
    let record = RecordSummary { waitpoints: WAITPOINTS_MAX - 1, ..RecordSummary::default() };
    let detail = selvedge_core::execution::Detail { record, ..Default::default() };
    let row = selvedge_core::Execution { detail, ..by_hand::row(harness, class, now) };
    let row = by_hand::with_lease(row, &session, now);
    by_hand::insert(harness, std::slice::from_ref(&row)).await;
    let lease = selvedge_core::rules::report::Fence::of(&row).expect("it has a lease");
    let two = suspend(vec![WaitDraft::new(on_signal("a"))], vec![draft("a"), draft("b")]);
    assert_eq!(harness.report(lease, two).await.expect_err("there is room for one").code(), "limit_reached");
    assert_eq!(harness.row(row.id).await, row, "nothing was created");
    harness.report(lease, create_waitpoint(draft("last"))).await.expect("there is room for one");
    let more =
        harness.report(lease, create_waitpoint(draft("more"))).await.expect_err("there is no more room");
    assert_eq!(more.code(), "limit_reached");
    harness.report(lease, create_waitpoint(draft("last"))).await.expect("a repeat needs no room");
}

fn states(waitpoints: &[Waitpoint]) -> Vec<WaitpointStateName> {
    waitpoints.iter().map(|one| one.state.name()).collect()
}

pub async fn the_waitpoints_of_an_execution_are_closed_with_its_end_whatever_ended_it(harness: &Harness) {
    use WaitpointStateName::{Delivered, Expired};
    let ends: [Op; 2] = [
        Op::Complete { result: "1".into() },
        Op::Fail { message: "no".into(), class: FailureClass::Permanent, retry_after_ms: None },
    ];
    for end in ends {
        let claimed = harness.leased(Draft::new("kind")).await;
        let first = harness.waitpoint(&claimed, draft("first")).await;
        let second = harness.waitpoint(&claimed, expiring_draft("second", HOUR_MS)).await;
        harness.deliver(&first).await.expect("it is delivered");
        harness.report(fence(&claimed), end).await.expect("it ends");
        let id = claimed.execution.id;
        assert_eq!(states(&harness.waitpoints(id).await), [Delivered, Expired]);
        assert_eq!(harness.row(id).await.detail.record.expires_at, None);
        assert_eq!(harness.deliver(&second).await.map_err(|refusal| refusal.code()), Err("already_terminal"));
    }
    let claimed = harness.suspended(on_signal("go")).await;
    let id = claimed.execution.id;
    harness.signal(id, "go").await;
    let claimed = harness.claim_again(id).await;
    harness.waitpoint(&claimed, draft("late")).await;
    harness.suspend(&claimed, vec![WaitDraft::new(on_signal("late"))]).await;
    let cancelled = harness.operate(id, Action::Cancel { reason: None, grace_ms: 0 }).await;
    assert_eq!(states(&harness.waitpoints(id).await), [Expired]);
    let version = cancelled.expect("it is cancelled").version;
    assert_eq!(version, harness.row(id).await.version, "the reply has the version after the close");
    let filter =
        WaitpointFilter { state: Some(WaitpointStateName::Open), ..WaitpointFilter::all(harness.namespace) };
    let open = harness.store.list_waitpoints(&filter, None, 9).await.expect("rows are read");
    assert_eq!(open, []);
}

pub async fn the_other_waitpoints_of_a_vote_are_closed_with_it_and_those_of_later_waits_stay_open(
    harness: &Harness,
) {
    use WaitpointStateName::{Delivered, Expired, Open};
    let claimed = harness.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    let ann = harness.waitpoint(&claimed, draft("ann")).await;
    let bob = harness.waitpoint(&claimed, draft("bob")).await;
    harness.waitpoint(&claimed, draft("later")).await;
    let vote = || WaitDraft::new(on_count(1, &["ann", "bob"], Distinct::Sources));
    harness.suspend(&claimed, vec![vote()]).await;
    harness.deliver(&ann).await.expect("it is delivered");
    assert_eq!(states(&harness.waitpoints(id).await), [Delivered, Expired, Open]);
    assert_eq!(harness.deliver(&bob).await.map_err(|refusal| refusal.code()), Err("token_expired"));
    // A further vote of the same people opens the rest again, with the same tokens.
    let claimed = harness.claim_again(id).await;
    harness.suspend(&claimed, vec![vote()]).await;
    assert_eq!(states(&harness.waitpoints(id).await), [Delivered, Open, Open]);
    assert_eq!(harness.deliver(&bob).await.expect("it is open").effect, Effect::Resumed);
    assert_eq!(states(&harness.waitpoints(id).await), [Delivered, Delivered, Open]);
}

pub async fn a_wait_that_a_replay_repeats_opens_its_waitpoints_again(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    let ann = harness.waitpoint(&claimed, draft("ann")).await;
    let revoked = harness.waitpoint(&claimed, draft("bob")).await;
    harness.operate(id, Action::RevokeWaitpoint { waitpoint: revoked.id }).await.expect("it is revoked");
    let wait = || WaitDraft::new(on_count(1, &["ann", "bob"], Distinct::Sources));
    harness.suspend(&claimed, vec![wait()]).await;
    harness.operate(id, Action::Cancel { reason: None, grace_ms: 0 }).await.expect("it is cancelled");
    harness.operate(id, Action::Replay).await.expect("it is replayed");
    let claimed = harness.claim_again(id).await;
    harness.suspend(&claimed, vec![wait()]).await;
    let known = harness.waitpoints(id).await;
    assert_eq!(states(&known), [WaitpointStateName::Open, WaitpointStateName::Revoked]);
    assert_eq!(harness.deliver(&ann).await.expect("its token is valid again").effect, Effect::Resumed);
}
