//! Cancellation of a flow: of all members or of those that have not started, completed after a crash, and never of
//! ended members.

use crate::harness::Harness;
use crate::harness::flow::{failure, result};
use crate::harness::sketch::Sketch;
use selvedge_core::flow::{CancelMode, FlowState};
use selvedge_core::outbox::{OutboxKind, OutboxName};
use selvedge_core::rules::flows::dispatch::Dispatched;
use selvedge_core::rules::flows::join::CHUNK;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use selvedge_core::submission::When;
use selvedge_store::{FlowDue, ReconcilerScope};

pub async fn cancelling_all_ends_every_live_member_and_leaves_ended_ones_unchanged(harness: &Harness) {
    let sketch = Sketch::from("done failed active waits later; failed -> skipped; active -> dependent");
    let flow = harness.flow(sketch.node("later", |one| one.delay = Some(When::AfterMs(3_600_000)))).await;
    flow.complete("done").await;
    flow.fail("failed").await;
    let running = flow.claim("active").await;
    harness.drain().await;
    let before = [flow.row("done").await, flow.row("failed").await, flow.row("skipped").await];
    let stored = harness.stored(before[0].id).await.result;
    let requested = flow.try_cancel(CancelMode::All).await.expect("it is cancelled");
    assert!(requested.detail.cancel.is_some_and(|cancel| cancel.draining));
    let expected = "active=cancelled dependent=cancelled done=completed failed=failed later=cancelled \
                    skipped=skipped waits=cancelled";
    flow.drain_and_assert(expected).await;
    assert_eq!([flow.row("done").await, flow.row("failed").await, flow.row("skipped").await], before);
    assert_eq!(
        (harness.stored(before[0].id).await.result, stored),
        (Some(result("done")), Some(result("done")))
    );
    let late = harness.report(crate::harness::fence(&running), Op::Complete { result: "1".into() }).await;
    assert_eq!(late.expect_err("it was cancelled").code(), "stale_lease");
    let row = flow.flow().await;
    assert_eq!(row.state, FlowState::Cancelled);
    assert!(row.detail.cancel.is_some_and(|cancel| !cancel.draining));
    assert_eq!((row.counts.live(), row.counts.of(StateName::Cancelled)), (0, 4));
}

pub async fn cancelling_pending_ends_only_members_that_have_not_started(harness: &Harness) {
    let sketch = Sketch::from("done active retried waits later; active -> dependent");
    let flow = harness.flow(sketch.node("later", |one| one.delay = Some(When::AfterMs(3_600_000)))).await;
    flow.complete("done").await;
    let running = flow.claim("active").await;
    let retried = flow.claim("retried").await;
    let class = selvedge_core::FailureClass::Transient;
    let retry = Op::Fail { message: "later".into(), class, retry_after_ms: Some(3_600_000) };
    flow.report(&retried, retry).await;
    flow.try_cancel(CancelMode::Pending).await.expect("it is cancelled");
    let expected =
        "active=active dependent=cancelled done=completed later=cancelled retried=delayed waits=cancelled";
    flow.drain_and_assert(expected).await;
    assert_eq!(flow.flow().await.state, FlowState::Running);
    flow.report(&running, Op::Complete { result: "1".into() }).await;
    flow.cancel_node("retried").await;
    assert_eq!(flow.drained_state().await, FlowState::Cancelled);
}

pub async fn a_cancellation_interrupted_in_the_middle_is_completed(harness: &Harness) {
    const WIDTH: usize = 2 * CHUNK + 3;
    let names: Vec<String> = (0..WIDTH).map(|index| format!("n{index}")).collect();
    let flow = harness.flow(Sketch::from(&*names.join(" ")).of_kind("kind")).await;
    flow.try_cancel(CancelMode::All).await.expect("it is cancelled");
    let name = OutboxName { id: flow.id.0, kind: OutboxKind::Flow };
    let mut done = 0;
    while let Some(row) = harness.outbox().await.into_iter().find(|row| row.name == name) {
        assert_eq!(row.position, done);
        let Dispatched::Advanced { changed, .. } = harness.dispatch(&row).await else {
            panic!("the row is not finished")
        };
        done += changed;
        assert_eq!(flow.flow().await.counts.of(StateName::Cancelled), done as i32);
    }
    assert_eq!((done as usize, flow.drained_state().await), (WIDTH, FlowState::Cancelled));
}

pub async fn repeating_a_cancellation_changes_nothing_and_a_wider_one_widens_it(harness: &Harness) {
    let flow = harness.flow("a b -> c").await;
    let running = flow.claim("a").await;
    let first = flow.try_cancel(CancelMode::Pending).await.expect("it is cancelled");
    let again = flow.try_cancel(CancelMode::Pending).await.expect("the same cancellation is accepted");
    assert_eq!(first, again);
    flow.drain_and_assert("a=active b=cancelled c=cancelled").await;
    let wider = flow.try_cancel(CancelMode::All).await.expect("it is widened");
    assert!(wider.detail.cancel.is_some_and(|cancel| cancel.mode == CancelMode::All && cancel.draining));
    flow.drain_and_assert("a=cancelled b=cancelled c=cancelled").await;
    let narrower = flow.try_cancel(CancelMode::Pending).await.expect("the same cancellation is accepted");
    assert_eq!(narrower.detail.cancel.map(|cancel| cancel.mode), Some(CancelMode::All));
    let refused = harness.report(crate::harness::fence(&running), Op::Release).await;
    assert_eq!(refused.expect_err("it was cancelled").code(), "stale_lease");
}

pub async fn an_ended_or_unknown_flow_is_not_cancelled(harness: &Harness) {
    let flow = harness.flow("a").await;
    flow.complete("a").await;
    for settled in [false, true] {
        if settled {
            harness.drain().await;
        }
        let before = flow.flow().await;
        let refused = flow.try_cancel(CancelMode::All).await.expect_err("it has ended");
        assert_eq!(refused.code(), "flow_ended");
        assert_eq!(flow.flow().await, before);
    }
    assert_eq!(flow.flow().await.state, FlowState::Completed);
    let unknown = harness.flow_of(selvedge_core::FlowId(uuid::Uuid::now_v7()));
    assert_eq!(unknown.try_cancel(CancelMode::All).await.expect_err("it does not exist").code(), "not_found");
    let in_other_namespace = harness.in_namespace("elsewhere").await.flow_of(flow.id);
    assert_eq!(
        in_other_namespace
            .try_cancel(CancelMode::All)
            .await
            .expect_err("it belongs to another namespace")
            .code(),
        "not_found"
    );
}

pub async fn a_flow_that_is_being_cancelled_does_not_grow(harness: &Harness) {
    let flow = harness.flow("a b").await;
    let parent = flow.claim("a").await;
    flow.try_cancel(CancelMode::Pending).await.expect("it is cancelled");
    for drained in [false, true] {
        if drained {
            harness.drain().await;
        }
        assert_eq!(flow.try_grow("c").await.expect_err("it is being cancelled").code(), "flow_ended");
        let children = crate::harness::sketch::graph("child", &Default::default());
        let spawned = flow.try_spawn(&parent, children, false).await;
        assert_eq!(spawned.expect_err("it is being cancelled").code(), "flow_ended");
    }
    flow.assert_states("a=active b=cancelled").await;
}

pub async fn a_member_is_replayed_only_after_the_cancellation_of_its_flow_is_done(harness: &Harness) {
    let flow = harness.flow("a b").await;
    flow.complete("a").await;
    flow.try_cancel(CancelMode::All).await.expect("it is cancelled");
    let refused = flow.operate("a", Action::Replay).await.expect_err("its flow is being cancelled");
    assert_eq!(refused.code(), "wrong_state");
    flow.drain_and_assert("a=completed b=cancelled").await;
    assert_eq!(flow.flow().await.state, FlowState::Cancelled);
    flow.replay("a").await;
    let row = flow.flow().await;
    assert_eq!((row.state, row.ended_at, row.detail.cancel), (FlowState::Running, None, None));
    flow.complete("a").await;
    assert_eq!(flow.drained_state().await, FlowState::Completed, "its cancellation is over");
}

pub async fn cancelling_all_ends_members_that_its_own_cancellations_made_waiting(harness: &Harness) {
    let flow = harness.flow("a? -> clean; a! -> alarm").await;
    flow.claim("a").await;
    flow.try_cancel(CancelMode::All).await.expect("it is cancelled");
    flow.drain_and_assert("a=cancelled alarm=cancelled clean=cancelled").await;
    assert!(harness.claim(10).await.is_empty());
}

pub async fn a_cancellation_drained_by_concurrent_servers_ends_each_member_once(harness: &Harness) {
    let flow = harness.flow("a b c d -> e; e -> f").await;
    let claimed = flow.claim("a").await;
    flow.report(&claimed, failure("a")).await;
    flow.try_cancel(CancelMode::All).await.expect("it is cancelled");
    crate::harness::concurrently(4, |_| {
        let harness = harness.clone();
        async move { harness.drain().await }
    })
    .await;
    let state = flow.flow().await.state;
    assert_eq!(state, FlowState::Cancelled);
    assert!(
        harness
            .store
            .due_flows(&ReconcilerScope::ALL, FlowDue::Settle, None, 9)
            .await
            .expect("rows are read")
            .is_empty()
    );
    assert_eq!(flow.flow().await.counts.of(StateName::Failed), 1);
}
