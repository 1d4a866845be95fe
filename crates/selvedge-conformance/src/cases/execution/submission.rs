//! Submissions: they are read back unchanged, and an id or a key refers to one execution.

use crate::harness::concurrently;
use crate::harness::sketch::Sketch;
use crate::harness::{Harness, fence, new_id};
use bytes::Bytes;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::submit::Submitted;
use selvedge_core::state::StateName;
use selvedge_core::submission::{PAYLOAD_LIMIT, When};
use selvedge_core::{Backoff, Draft, ExecutionId, FailureClass, FlowId, Policy, Refusal, Retry, State};
use std::collections::BTreeSet;

fn full_draft() -> Draft {
    Draft {
        id: Some(new_id().0),
        lane: "a lane, with \"marks\"".into(),
        input: Bytes::from_static(b" {\"b\" : 1, \"a\":\t[1.0, \"\\u0000\xe2\x98\x83\"] } "),
        idempotency_key: Some("idempotency 'key'".into()),
        idempotency_window_ms: Some(5_000),
        unique_while_active: Some("unique % key".into()),
        priority: -100,
        capabilities: vec!["gpu".into(), "a,b".into()],
        tags: [("team".into(), "käse:brot".into()), ("empty".into(), "".into())].into(),
        delay: Some(When::AfterMs(1_000_000)),
        policy: Policy {
            retry: Retry {
                max_retries: 7,
                max_interruptions: 0,
                retry_on: vec![FailureClass::Permanent],
                backoff: Backoff::Exponential { initial_ms: 3, multiplier: 1.7, max_ms: 900, jitter: false },
            },
            attempt_timeout_ms: Some(10_000),
            deadline_ms: Some(10_000_000_000_000),
            start_by_ms: Some(20_000_000),
            retention_ms: 1,
        },
        ..Draft::new("kind/of\\thing")
    }
}

pub async fn a_submission_is_read_back_with_every_field_and_its_payload_byte_for_byte(harness: &Harness) {
    let draft = full_draft();
    let row = harness.submit(draft.clone()).await;
    let stored = harness.stored(row.id).await;
    assert_eq!(stored.execution, row);
    assert_eq!(stored.input, draft.input);
    assert_eq!(stored.result, None);
    assert_eq!(stored.renewed_at, None);
    assert_eq!(row.id.0, draft.id.expect("the draft has an id"));
    assert_eq!(row.spec.policy, draft.policy);
    assert_eq!(row.tags, draft.tags);
    assert_eq!(row.priority, -100);
    let classes = harness.store.classes_after(selvedge_core::ClassId(0)).await;
    let classes = classes.expect("classes are read");
    let class = classes.iter().find(|(id, _)| *id == row.class).expect("it has a class");
    assert_eq!(class.1, draft.check().expect("is valid").class(harness.namespace));
}

pub async fn input_and_result_of_the_largest_size_are_kept_byte_for_byte(harness: &Harness) {
    let payload = |seed: u8| -> Bytes {
        let letters = (0..PAYLOAD_LIMIT - 2).map(|at| b'a' + ((usize::from(seed) + at % 251) % 26) as u8);
        [b"\"".to_vec(), letters.collect(), b"\"".to_vec()].concat().into()
    };
    let (input, result) = (payload(1), payload(200));
    let claimed = harness.leased(Draft { input: input.clone(), ..Draft::new("kind") }).await;
    assert_eq!(claimed.input, input);
    let op = Op::Complete { result: result.clone() };
    harness.report(fence(&claimed), op).await.expect("it is completed");
    let stored = harness.stored(claimed.execution.id).await;
    assert!(stored.input == input && stored.result == Some(result));
}

pub async fn a_null_result_is_not_a_missing_result(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    harness.complete(&claimed, b"null").await;
    let stored = harness.stored(claimed.execution.id).await;
    assert_eq!(stored.result, Some(Bytes::from_static(b"null")));
}

pub async fn a_replay_clears_the_result(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    harness.complete(&claimed, b"1").await;
    let id = claimed.execution.id;
    harness.operate(id, Action::Replay).await.expect("it has ended");
    let stored = harness.stored(id).await;
    assert_eq!((stored.execution.state, stored.result), (State::Waiting, None));
}

pub async fn an_invalid_item_is_refused_and_the_others_are_accepted(harness: &Harness) {
    let mut command = harness.submit_command(vec![Draft::new("kind"), Draft::new("kind")]).await;
    let refusal = Refusal::field("/kind", "is wrong");
    command.items[0].submission = Err(refusal.clone());
    let (bad, good) = (command.items[0].id, command.items[1].id);
    let replies = harness.run(command).await;
    assert_eq!(replies[0].as_ref().expect_err("it is refused"), &refusal);
    assert!(replies[1].is_ok());
    assert!(harness.find(bad).await.is_none() && harness.find(good).await.is_some());
}

/// Submits the same draft from many tasks at once and returns the replies.
async fn submit_concurrently(harness: &Harness, draft: Draft) -> Vec<Submitted> {
    let replies = concurrently(16, |_| {
        let (harness, draft) = (harness.clone(), draft.clone());
        async move { harness.try_submit(draft).await.expect("it is accepted") }
    });
    replies.await
}

fn assert_one_execution(replies: &[Submitted]) {
    let ids: BTreeSet<_> = replies.iter().map(|reply| reply.execution.id).collect();
    assert_eq!(ids.len(), 1, "all replies name one execution");
    let new = replies.iter().filter(|reply| !reply.duplicate);
    assert_eq!(new.count(), 1, "exactly one reply is not a duplicate");
}

pub async fn concurrent_submissions_of_one_id_create_one_execution(harness: &Harness) {
    let id = new_id();
    let draft = Draft { id: Some(id.0), ..Draft::new("kind") };
    let replies = submit_concurrently(harness, draft.clone()).await;
    assert_one_execution(&replies);
    let other = Draft { priority: 1, ..draft };
    let refusal = harness.try_submit(other).await.expect_err("the content differs");
    assert_eq!(refusal.code(), "idempotency_mismatch");
}

pub async fn concurrent_submissions_of_one_idempotency_key_create_one_execution(harness: &Harness) {
    let draft = Draft { idempotency_key: Some("key".into()), ..Draft::new("kind") };
    assert_one_execution(&submit_concurrently(harness, draft.clone()).await);
    let other = Draft { priority: 1, ..draft };
    let refusal = harness.try_submit(other).await.expect_err("the content differs");
    assert_eq!(refusal.code(), "idempotency_mismatch");
}

pub async fn concurrent_submissions_of_one_unique_key_create_one_execution_until_it_has_ended(
    harness: &Harness,
) {
    let draft = Draft { unique_while_active: Some("key".into()), ..Draft::new("kind") };
    let replies = submit_concurrently(harness, draft.clone()).await;
    assert_one_execution(&replies);
    let first = replies[0].execution.id;
    let cancel = Action::Cancel { reason: None, grace_ms: 0 };
    let ended = harness.operate(first, cancel).await.expect("it is cancelled");
    assert_eq!(ended.state.name(), StateName::Cancelled);
    let replies = submit_concurrently(harness, draft).await;
    assert_one_execution(&replies);
    assert_ne!(replies[0].execution.id, first);
}

pub async fn keys_of_different_namespaces_are_independent(harness: &Harness) {
    let draft = Draft {
        idempotency_key: Some("key".into()),
        unique_while_active: Some("key".into()),
        ..Draft::new("kind")
    };
    let here = harness.try_submit(draft.clone()).await.expect("it is accepted");
    let other = harness.in_namespace("elsewhere").await;
    let other = other.try_submit(draft).await.expect("it is accepted");
    assert!(!other.duplicate);
    assert_ne!(here.execution.id, other.execution.id);
}

pub async fn an_id_of_another_namespace_is_taken_whatever_it_names(harness: &Harness) {
    let other = harness.in_namespace("other").await;
    let parent = harness.leased(Draft::new("parent")).await;
    let (id, flow_id) = (new_id().0, new_id().0);
    let draft = |id| Draft { id: Some(id), ..Draft::new("kind") };
    let row = other.submit(draft(id)).await;
    let flow = other.flow(Sketch::from("a -> b").flow(|flow| flow.id = Some(flow_id))).await;
    for taken in [id, flow_id] {
        let mut refusals = Vec::new();
        for draft in [draft(taken), Draft { priority: 5, ..draft(taken) }] {
            refusals.push(harness.try_submit(draft).await.expect_err("the id is taken"));
        }
        let sketch = Sketch::from("a -> b").flow(|flow| flow.id = Some(taken));
        refusals.push(harness.try_submit_flow(sketch).await.expect_err("the id is taken"));
        for refusal in &refusals {
            assert_eq!(*refusal, Refusal::IdTaken { pointer: "/id".into() }, "nothing tells what has it");
        }
    }
    // A batch refuses only the item.
    let batch = harness.submit_command(vec![draft(id), Draft::new("kind")]).await;
    let replies = harness.run(batch).await;
    assert_eq!(replies[0].as_ref().err().map(Refusal::code), Some("id_taken"));
    assert!(replies[1].is_ok());

    let sketch = Sketch::from("a -> b").node("b", |draft| draft.id = Some(id));
    let refused = harness.try_submit_flow(sketch).await.expect_err("the id is taken");
    assert_eq!((refused.code(), refused.pointer()), ("id_taken", Some("/nodes/1/id")));
    let own = harness.flow("a -> b").await;
    let mut graph = own.sketched("c").await;
    graph.nodes[0].draft.id = Some(id);
    let refused = own.try_grow_with(graph.clone()).await.expect_err("the id is taken");
    assert_eq!((refused.code(), refused.pointer()), ("id_taken", Some("/nodes/0/id")));
    let children = harness.flow_of(FlowId(parent.execution.id.0));
    let refused = children.try_spawn(&parent, graph, false).await.expect_err("the id is taken");
    assert_eq!(refused.code(), "id_taken");

    assert_eq!(other.row(ExecutionId(id)).await, row, "nothing was changed");
    assert_eq!(flow.members().await.len(), 2);
}
