//! Retention of flows: a flow is deleted as a whole when its retention is over, however many members it has.

use crate::harness::Harness;
use crate::harness::sketch::Sketch;
use selvedge_core::filter::Filter;
use selvedge_core::flow::{CancelMode, FlowFilter};
use selvedge_core::rows::{KeyName, KeyScope, Members};
use selvedge_core::rules::flows::whole::{DELETE_CHUNK, ForgetFlow};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::timer::{Timer, TimerReply};
use selvedge_core::rules::waitpoint::WaitpointDraft;
use selvedge_core::table::{Guarded, Request};
use selvedge_core::{DueKind, ExecutionId, FlowId, Name, Needs, Policy, WaitpointId};
use selvedge_store::{FlowDue, ReconcilerScope};

async fn due(harness: &Harness) -> Vec<FlowId> {
    let due = harness
        .store
        .due_flows(&ReconcilerScope::ALL, FlowDue::Delete, None, 100)
        .await
        .expect("due flows are read");
    due.into_iter().map(|one| one.flow).collect()
}

async fn delete(harness: &Harness, flow: FlowId) -> Option<bool> {
    harness.run(ForgetFlow { flow, at_once: false }).await.map(|deleted| deleted.goes_on)
}

pub async fn a_member_is_not_deleted_before_its_flow(harness: &Harness) {
    let sketch =
        Sketch::from("a -> b").each(|draft| draft.policy = Policy { retention_ms: 0, ..Policy::default() });
    let flow = harness.flow(sketch.flow(|flow| flow.retention_ms = Some(0))).await;
    flow.complete("a").await;
    harness.drain().await;
    assert_eq!(flow.tick("a", Timer::Due(DueKind::Retention)).await, TimerReply::NotDue);
    assert!(
        harness
            .store
            .due(&ReconcilerScope::ALL, DueKind::Retention, None, 9)
            .await
            .expect("rows are read")
            .is_empty()
    );
    assert_eq!((due(harness).await, delete(harness, flow.id).await), (vec![], None), "b has not ended");
    flow.complete("b").await;
    assert_eq!(delete(harness, flow.id).await, None, "its end is not settled");
    harness.drain().await;
    assert_eq!(due(harness).await, [flow.id]);
    let ids = [flow.id("a").await, flow.id("b").await];
    assert_eq!(delete(harness, flow.id).await, Some(false));
    for id in ids {
        assert!(harness.find(id).await.is_none());
    }
    assert!(flow.find().await.is_none());
    assert_eq!((due(harness).await, delete(harness, flow.id).await), (vec![], None));
}

pub async fn a_flow_is_kept_for_the_longest_retention_of_its_nodes_or_its_own(harness: &Harness) {
    let retention_ms = |ms| Policy { retention_ms: ms, ..Policy::default() };
    let sketch = Sketch::from("a b").node("a", |a| a.policy = retention_ms(0));
    let flow = harness.flow(sketch.node("b", |b| b.policy = retention_ms(5_000_000))).await;
    flow.complete("a").await;
    flow.complete("b").await;
    harness.drain().await;
    let row = flow.flow().await;
    assert_eq!(row.delete_at(), row.ended_at.map(|at| at.plus_ms(5_000_000)));
    assert_eq!((due(harness).await, delete(harness, flow.id).await), (vec![], None));
    assert_eq!(flow.members().await.len(), 2);
}

pub async fn a_flow_is_deleted_with_all_of_its_rows_and_nothing_else(harness: &Harness) {
    let sketch_with_key = |key: &str| {
        let sketch =
            Sketch::from("a -> b").each(|draft| draft.tags = [("kept".into(), "with it".into())].into());
        let key = key.to_owned();
        sketch.flow(move |flow| {
            flow.retention_ms = Some(0);
            flow.tags = [("of".into(), "flow".into())].into();
            flow.idempotency_key = Some(key);
        })
    };
    let [expired, kept] =
        [harness.flow(sketch_with_key("deleted")).await, harness.flow(sketch_with_key("kept")).await];
    for flow in [&expired, &kept] {
        flow.try_cancel(CancelMode::All).await.expect("it is cancelled");
    }
    harness.drain().await;
    assert_eq!(delete(harness, expired.id).await, None, "its key is still valid");
    let mut row = expired.flow().await;
    let expected = row.version;
    row.spec.kept_until = Some(row.submitted_at);
    row.version += 1;
    let changes =
        selvedge_core::Changes { flows: Guarded::updating([(row, expected)]), ..Default::default() };
    harness.save(changes).await;
    assert_eq!(due(harness).await, [expired.id]);
    let before = (kept.flow().await, kept.members().await);
    assert_eq!(delete(harness, expired.id).await, Some(false));
    assert_eq!((kept.flow().await, kept.members().await), before);
    assert!(expired.members().await.is_empty());
    let listed = harness.store.list_flows(&FlowFilter::all(harness.namespace), None, 9).await;
    assert_eq!(listed.expect("flows are listed").len(), 1);
    let tagged = FlowFilter { tag: Some("of:flow".into()), ..FlowFilter::all(harness.namespace) };
    assert_eq!(harness.store.list_flows(&tagged, None, 9).await.expect("flows are listed").len(), 1);
    let tagged = Filter { tags: vec!["kept:with it".into()], ..Filter::all(harness.namespace) };
    assert_eq!(harness.store.count(&tagged, 9).await.expect("rows are counted"), 2);
    let key =
        |key: &str| KeyName { namespace: harness.namespace, scope: KeyScope::Flow, key: Name::trusted(key) };
    let nodes = vec![(expired.id, Name::trusted("a")), (kept.id, Name::trusted("a"))];
    let rows = harness
        .load(Needs {
            keys: Request::reading([key("deleted"), key("kept")]),
            nodes: Request::reading(nodes),
            ..Needs::default()
        })
        .await;
    assert_eq!((rows.keys.len(), rows.nodes.len()), (1, 1));
    let again = harness.try_submit_flow(sketch_with_key("deleted")).await.expect("it is accepted");
    assert!(!again.duplicate, "the key is free again");
}

pub async fn a_large_flow_is_deleted_in_chunks_and_cannot_be_used_meanwhile(harness: &Harness) {
    let count = DELETE_CHUNK as usize + 200;
    let names: Vec<String> = (0..count).map(|index| format!("n{index}")).collect();
    let sketch = Sketch::from(&*names.join(" ")).of_kind("kind");
    let flow = harness.flow(sketch.flow(|flow| flow.retention_ms = Some(0))).await;
    flow.try_cancel(CancelMode::All).await.expect("it is cancelled");
    harness.drain().await;
    let members = Members { flow: flow.id, skip: DELETE_CHUNK, limit: 1 };
    let last = harness.store.members(members).await.expect("members are read").remove(0);
    assert_eq!(delete(harness, flow.id).await, Some(true), "not in one chunk");
    assert!(flow.flow().await.detail.deleting);
    assert_eq!(flow.members().await.len(), 200);
    assert_eq!(
        harness.operate(last.id, Action::Replay).await.expect_err("it is being deleted").code(),
        "not_found"
    );
    assert_eq!(flow.try_cancel(CancelMode::All).await.expect_err("it is being deleted").code(), "not_found");
    assert_eq!(due(harness).await, [flow.id]);
    assert_eq!(delete(harness, flow.id).await, Some(false));
    assert!(flow.find().await.is_none() && flow.members().await.is_empty());
    assert_eq!(harness.store.count(&Filter::all(harness.namespace), 9).await.expect("rows are counted"), 0);
}

pub async fn a_flow_that_reopens_before_its_deletion_is_kept(harness: &Harness) {
    let flow = harness.flow(Sketch::from("a").flow(|flow| flow.retention_ms = Some(0))).await;
    flow.complete("a").await;
    harness.drain().await;
    assert_eq!(due(harness).await, [flow.id]);
    flow.replay("a").await;
    assert_eq!((due(harness).await, delete(harness, flow.id).await), (vec![], None));
    flow.assert_states("a=waiting").await;
}

pub async fn an_execution_that_has_spawned_is_deleted_with_its_flow(harness: &Harness) {
    let policy = Policy { retention_ms: 0, ..Policy::default() };
    let root = harness.leased(selvedge_core::Draft { policy, ..selvedge_core::Draft::new("root") }).await;
    let flow = harness.flow_of(FlowId(root.execution.id.0));
    flow.spawn(&root, "a").await;
    harness.complete(&root, b"1").await;
    assert_eq!(harness.tick(root.execution.id, Timer::Due(DueKind::Retention)).await, TimerReply::NotDue);
    flow.complete("a").await;
    harness.drain().await;
    assert_eq!(delete(harness, flow.id).await, Some(false));
    assert!(harness.find(root.execution.id).await.is_none());
}

pub async fn signals_steps_and_waitpoints_of_members_are_deleted_with_their_flow(harness: &Harness) {
    let mut recorded = Vec::new();
    for name in ["deleted", "kept"] {
        let flow = harness.flow(Sketch::from(name).flow(|flow| flow.retention_ms = Some(0))).await;
        let claimed = flow.claim(name).await;
        let id = claimed.execution.id;
        harness.step(&claimed, "done", "1").await;
        let waitpoint = harness.waitpoint(&claimed, WaitpointDraft::new(Name::trusted("w"))).await;
        harness.signal(id, "kept").await;
        harness.complete(&claimed, b"1").await;
        harness.drain().await;
        recorded.push((flow, id, waitpoint.id));
    }
    let remaining = async |id: ExecutionId, waitpoint: WaitpointId| {
        let known = harness.store.waitpoint(waitpoint).await.expect("a waitpoint is read");
        (
            harness.signals(id).await.len(),
            harness.steps(id).await.len(),
            harness.waitpoints(id).await.len(),
            known.is_some(),
        )
    };
    let [(expired, id, waitpoint), (_, other, others)] = &recorded[..] else { panic!("there are two") };
    assert_eq!(delete(harness, expired.id).await, Some(false));
    assert_eq!(remaining(*id, *waitpoint).await, (0, 0, 0, false));
    assert_eq!(remaining(*other, *others).await, (1, 1, 1, true));
}
