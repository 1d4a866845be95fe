//! Spawning: an active execution adds children to its flow, once. They are cancelled with it unless it completes.

use crate::harness::flow::{failure, result};
use crate::harness::sketch::{Sketch, graph};
use crate::harness::worker::Worker;
use crate::harness::{Harness, fence};
use selvedge_core::flow::FlowState;
use selvedge_core::outbox::OutboxKind;
use selvedge_core::plan::GraphDraft;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::report::Op;
use selvedge_core::{Draft, FlowId, Outcome};
use std::collections::BTreeSet;

fn sketched(text: &str) -> GraphDraft {
    graph(text, &BTreeSet::new())
}

/// Submits an execution without a flow, claims it, and returns it with the flow that a spawn would create.
async fn claimed_root(harness: &Harness, draft: Draft) -> (Claimed, crate::harness::FlowHarness) {
    let claimed = harness.leased(draft).await;
    let flow = harness.flow_of(FlowId(claimed.execution.id.0));
    (claimed, flow)
}

pub async fn an_execution_without_a_flow_becomes_the_root_of_its_own_flow(harness: &Harness) {
    let draft = Draft { tags: [("of".into(), "root".into())].into(), ..Draft::new("root") };
    let (root, flow) = claimed_root(harness, draft).await;
    assert!(flow.find().await.is_none());
    flow.spawn(&root, "a -> b").await;
    flow.assert_states("a=waiting b=waiting_dependencies root=active").await;
    let row = flow.flow().await;
    assert_eq!(
        (row.state, row.counts.total(), row.submitted_at),
        (FlowState::Running, 3, root.execution.submitted_at)
    );
    assert_eq!(row.tags, root.execution.tags);
    let parent = flow.row("root").await;
    assert_eq!((parent.flow, parent.wiring().children.len()), (Some(flow.id), 2));
    let child = flow.row("a").await;
    assert_eq!(child.spec.node.as_ref().and_then(|node| node.parent), Some(parent.id));
    flow.report(&root, Op::Complete { result: "1".into() }).await;
    flow.drain_and_assert("a=waiting b=waiting_dependencies root=completed").await;
    flow.complete("a").await;
    harness.drain().await;
    flow.complete("b").await;
    assert_eq!(flow.drained_state().await, FlowState::Completed);
}

pub async fn a_repeated_spawn_is_a_no_op(harness: &Harness) {
    let (root, flow) = claimed_root(harness, Draft::new("root")).await;
    flow.spawn(&root, "a -> b").await;
    let before = (flow.flow().await, flow.members().await, harness.log().await.len());
    flow.spawn(&root, "a -> b").await;
    assert_eq!((flow.flow().await, flow.members().await, harness.log().await.len()), before);
    flow.complete("a").await;
    harness.drain().await;
    let before = flow.members().await;
    flow.spawn(&root, "a -> b").await;
    assert_eq!(flow.members().await, before, "also after its nodes have changed");
}

pub async fn a_spawn_repeated_by_the_next_attempt_adds_only_new_nodes(harness: &Harness) {
    let (root, flow) = claimed_root(harness, Draft::new("root")).await;
    flow.spawn(&root, "a").await;
    flow.report(&root, Op::Release).await;
    let again = flow.claim("root").await;
    flow.spawn(&again, "a; b -> c").await;
    flow.assert_states("a=waiting b=waiting c=waiting_dependencies root=active").await;
    assert_eq!(flow.row("root").await.wiring().children.len(), 3);
    let names: Vec<String> = again.children.iter().map(|child| child.name.to_string()).collect();
    assert_eq!(names, ["a"], "the claim carried the children that existed");
    let stale = harness.report(fence(&root), Op::Progress { percent: None, message: None }).await;
    assert_eq!(stale.expect_err("its lease is over").code(), "stale_lease");
}

pub async fn a_spawn_with_other_content_is_a_conflict_and_changes_nothing(harness: &Harness) {
    let (root, flow) = claimed_root(harness, Draft::new("root")).await;
    flow.spawn(&root, "x y; x -> b; x y -> c: any_of").await;
    flow.grow("other").await;
    let mut other_input = sketched("new x");
    other_input.nodes[1].draft.input = "1".into();
    let named_root = sketched("new root");
    for (graph, pointer) in [
        (other_input, "/nodes/1/name"),
        (named_root, "/nodes/1/name"),
        (sketched("other"), "/nodes/0/name"),
        (sketched("x; x! -> b"), "/nodes/1/name"),
        (sketched("b"), "/nodes/0/name"),
        (sketched("x y -> b"), "/nodes/2/name"),
        (sketched("x y -> c: all_of"), "/nodes/2/name"),
    ] {
        let before = (flow.flow().await, flow.members().await);
        let refused = flow.try_spawn(&root, graph.clone(), false).await;
        let refused = refused.expect_err(&format!("{graph:?} is a conflict"));
        assert_eq!((refused.code(), refused.pointer()), ("idempotency_mismatch", Some(pointer)), "{refused}");
        assert_eq!((flow.flow().await, flow.members().await), before);
    }
    let same = sketched("x y; x -> b; x y -> c: any_of");
    let refused = flow.try_spawn(&root, same.clone(), true).await.expect_err("it was attached");
    assert_eq!((refused.code(), refused.pointer()), ("idempotency_mismatch", Some("/detach")));
    flow.try_spawn(&root, same, false).await.expect("a repeat is accepted");
}

pub async fn spawned_nodes_cannot_close_a_cycle(harness: &Harness) {
    let (root, flow) = claimed_root(harness, Draft::new("root")).await;
    flow.spawn(&root, "s -> a -> b").await;
    for text in ["a b; b -> a", "a b c; b -> c -> a", "c -> c", "c -> d -> c"] {
        let before = flow.members().await;
        let refused = flow.try_spawn(&root, sketched(text), false).await;
        assert!(refused.is_err(), "{text} is refused");
        assert_eq!(flow.members().await, before);
    }
}

pub async fn other_nodes_cannot_be_made_to_wait_for_spawned_ones(harness: &Harness) {
    let flow = harness.flow("p -> next").await;
    let parent = flow.claim("p").await;
    let children = graph("child -> next", &BTreeSet::from(["next".to_owned()]));
    let refused = flow.try_spawn(&parent, children, false).await.expect_err("next was not spawned");
    assert_eq!((refused.code(), refused.pointer()), ("invalid_field", Some("/edges/0/to")));
    let children = graph("p next -> child", &["p", "next"].map(String::from).into());
    flow.try_spawn(&parent, children, false).await.expect("they may wait for others");
    flow.assert_states("child=waiting_dependencies next=waiting_dependencies p=active").await;
    let children = graph("nobody -> child2", &BTreeSet::from(["nobody".to_owned()]));
    let refused = flow.try_spawn(&parent, children, false).await.expect_err("the node does not exist");
    assert_eq!((refused.code(), refused.pointer()), ("unknown_node", Some("/edges/0/from")));
}

pub async fn children_are_cancelled_when_their_parent_ends_without_completing(harness: &Harness) {
    for outcome in [Outcome::Completed, Outcome::Failed, Outcome::Cancelled, Outcome::Expired] {
        let draft = Draft::new("p");
        let sketch = Sketch::default().flow(|flow| {
            flow.graph = sketched("p keep");
            flow.graph.nodes[0].draft = draft;
            flow.graph.nodes[0].draft.policy.retry.max_interruptions = 0;
        });
        let flow = harness.flow(sketch).await;
        let worker = Worker { kinds: Some(vec!["p".into()]), ttl_ms: 1, ..Worker::new("flow") };
        let parent = harness.claim_as(&worker, 1).await.remove(0);
        flow.spawn(&parent, "done active waits; waits -> dependent").await;
        let detached = flow.try_spawn(&parent, sketched("free"), true).await;
        detached.expect("they are spawned");
        flow.complete("done").await;
        flow.claim("active").await;
        match outcome {
            Outcome::Completed => drop(flow.report(&parent, Op::Complete { result: result("p") }).await),
            Outcome::Failed => drop(flow.report(&parent, failure("p")).await),
            Outcome::Cancelled => flow.cancel_node("p").await,
            Outcome::Expired => flow.expire_lease("p").await,
            Outcome::Skipped => panic!("an active execution is not skipped"),
        }
        let p = flow.row("p").await.state.name().as_str();
        let expected = match outcome {
            Outcome::Completed => {
                "active=active dependent=waiting_dependencies done=completed free=waiting keep=waiting p={p} waits=waiting"
            }
            _ => {
                "active=cancelled dependent=cancelled done=completed free=waiting keep=waiting p={p} waits=cancelled"
            }
        };
        flow.drain_and_assert(&expected.replace("{p}", p)).await;
        for name in ["free", "keep"] {
            flow.cancel_node(name).await;
        }
        if outcome == Outcome::Completed {
            flow.cancel_node("waits").await;
        }
        harness.drain().await;
    }
}

pub async fn children_of_children_are_cancelled_with_them(harness: &Harness) {
    let (root, flow) = claimed_root(harness, Draft::new("root")).await;
    flow.spawn(&root, "child").await;
    let child = flow.claim("child").await;
    flow.spawn(&child, "grandchild").await;
    let depth = flow.row("grandchild").await.spec.node.as_ref().map(|node| node.depth);
    assert_eq!(depth, Some(2));
    flow.report(&root, failure("root")).await;
    assert!(
        flow.left("root", OutboxKind::Children).await.is_some(),
        "the end enqueued the cancellation of the children"
    );
    flow.drain_and_assert("child=cancelled grandchild=cancelled root=failed").await;
    assert_eq!(flow.flow().await.state, FlowState::Failed);
}

pub async fn a_retried_parent_keeps_its_children(harness: &Harness) {
    let (root, flow) = claimed_root(harness, Draft::new("root")).await;
    flow.spawn(&root, "a").await;
    let class = selvedge_core::FailureClass::Transient;
    let retry = Op::Fail { message: "again".into(), class, retry_after_ms: Some(0) };
    flow.report(&root, retry).await;
    flow.drain_and_assert("a=waiting root=waiting").await;
    flow.complete("a").await;
    let again = flow.claim("root").await;
    assert_eq!(again.children.len(), 1);
    assert_eq!(
        (again.children[0].outcome, again.children[0].result.clone()),
        (Some(Outcome::Completed), Some(result("a")))
    );
}

pub async fn a_flow_that_has_the_id_of_a_lone_execution_does_not_become_its_flow(harness: &Harness) {
    let (root, _) = claimed_root(harness, Draft::new("root")).await;
    let elsewhere = harness.in_namespace("elsewhere").await;
    for target in [&elsewhere, harness] {
        let sketch = Sketch::from("theirs").flow(|flow| flow.id = Some(root.execution.id.0));
        if let Ok(submitted) = target.try_submit_flow(sketch).await {
            let theirs = target.flow_of(submitted.flow.id);
            let refused = theirs.try_spawn(&root, sketched("a"), false).await;
            assert!(refused.is_err(), "nothing is spawned into a flow that is not its own");
            let mine = harness.flow_of(theirs.id).try_spawn(&root, sketched("a"), false).await;
            assert!(mine.is_err(), "nothing is spawned into a flow that is not its own");
            theirs.assert_states("theirs=waiting").await;
        }
    }
    assert_eq!(harness.row(root.execution.id).await.flow, None);
}

pub async fn an_execution_without_a_lease_spawns_nothing(harness: &Harness) {
    let (root, flow) = claimed_root(harness, Draft::new("root")).await;
    harness.report(fence(&root), Op::Release).await.expect("it is released");
    let refused = flow.try_spawn(&root, sketched("a"), false).await.expect_err("its lease is over");
    assert_eq!(refused.code(), "stale_lease");
    assert!(flow.find().await.is_none());
}
