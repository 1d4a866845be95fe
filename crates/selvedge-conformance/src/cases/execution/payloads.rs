//! Payloads: large ones are read only for what is handed out, and a claim is bounded in bytes.

use crate::harness::{FlowHarness, Harness, Worker, fence};
use bytes::Bytes;
use selvedge_core::rows::{Candidates, Payload, Queries, Relative};
use selvedge_core::rules::claim::{CLAIM_BYTES, RELATIVES_BYTES};
use selvedge_core::rules::report::Op;
use selvedge_core::rules::step::StepDraft;
use selvedge_core::step::StepKind;
use selvedge_core::table::Request;
use selvedge_core::{Draft, ExecutionId, FailureClass, Name, Needs, Outcome};

/// Returns a JSON string of this size, which begins with a number.
fn text(number: usize, bytes: usize) -> Bytes {
    let number = number.to_string();
    let rest = " ".repeat(bytes - number.len() - 2);
    format!("\"{number}{rest}\"").into()
}

/// Submits executions with inputs of this size.
async fn submit(harness: &Harness, count: usize, bytes: usize) -> Vec<ExecutionId> {
    let mut ids = Vec::new();
    for number in 0..count {
        let draft = Draft { input: text(number, bytes), ..Draft::new("kind") };
        ids.push(harness.submit(draft).await.id);
    }
    ids
}

pub async fn a_large_input_comes_as_its_size_unless_it_is_asked_for_whole(harness: &Harness) {
    const LARGE: usize = 100_000;
    let (large, small) = (submit(harness, 3, LARGE).await, submit(harness, 1, 10).await[0]);
    let class = harness.row(small).await.class;
    let candidates = vec![Candidates { classes: vec![class], limit: 100 }];
    let queries = Queries { candidates, ..Queries::default() };
    let found = harness.load(Needs { queries, ..Needs::default() }).await;
    assert_eq!(found.found.candidates, [large.as_slice(), &[small]].concat());
    let asked = || Request::reading(large.iter().copied().chain([small]));
    let read = harness.load(Needs { inputs: asked(), ..Needs::default() }).await;
    for mut inputs in [found.inputs, read.inputs] {
        inputs.sort_by_key(|(id, _)| *id);
        let mut expected: Vec<_> = large.iter().map(|id| (*id, Payload::Size(LARGE))).collect();
        expected.push((small, text(0, 10).into()));
        expected.sort_by_key(|(id, _)| *id);
        assert_eq!(inputs, expected);
    }
    let mut whole = harness.load(Needs { whole_inputs: asked(), ..Needs::default() }).await.inputs;
    whole.sort_by_key(|(id, _)| *id);
    let mut expected: Vec<_> =
        large.iter().enumerate().map(|(number, id)| (*id, text(number, LARGE).into())).collect();
    expected.push((small, text(0, 10).into()));
    expected.sort_by_key(|(id, _)| *id);
    assert_eq!(whole, expected);
}

pub async fn a_claim_of_large_inputs_hands_out_as_many_as_fit_and_each_whole(harness: &Harness) {
    const LARGE: usize = 1024 * 1024;
    let ids = submit(harness, 20, LARGE).await;
    let (mut got, mut calls) = (Vec::new(), 0);
    while got.len() < ids.len() {
        let claimed = harness.claim_as(&Worker::new("one"), 20).await;
        let bytes: usize = claimed.iter().map(|one| one.input.len()).sum();
        assert!(!claimed.is_empty() && bytes < CLAIM_BYTES + LARGE, "{bytes} bytes");
        got.extend(claimed.into_iter().map(|one| (one.execution.id, one.input)));
        calls += 1;
    }
    let expected: Vec<_> =
        ids.into_iter().enumerate().map(|(number, id)| (id, text(number, LARGE))).collect();
    assert_eq!(got, expected);
    assert_eq!(calls, 2, "a claim is not smaller than it needs to be");
}

/// Completes a node with a result of this size.
async fn complete_with(flow: &FlowHarness, number: usize, bytes: usize) {
    let claimed = flow.claim(&format!("n{number}")).await;
    flow.report(&claimed, Op::Complete { result: text(number, bytes) }).await;
}

pub async fn a_join_carries_results_up_to_a_bound_and_names_the_others(harness: &Harness) {
    const LARGE: usize = 1024 * 1024;
    let flow = harness.flow("n0 n1 n2 n3 n4? n5 n6 n7 -> join").await;
    for number in [0, 1, 2, 5, 6] {
        complete_with(&flow, number, LARGE).await;
    }
    complete_with(&flow, 3, 100).await;
    complete_with(&flow, 7, 200).await;
    let claimed = flow.claim("n4").await;
    let message = "x".repeat(60_000);
    let fail = Op::Fail { message: message.clone(), class: FailureClass::Permanent, retry_after_ms: None };
    flow.report(&claimed, fail).await;
    harness.drain().await;
    let claimed = flow.claim("join").await;
    let shown = |one: &Relative| (one.name.to_string(), one.outcome, one.left_out);
    let shown: Vec<_> = claimed.upstreams.iter().map(shown).collect();
    let expected = |number: usize, outcome, left_out| (format!("n{number}"), Some(outcome), left_out);
    let completed = |number, left_out| expected(number, Outcome::Completed, left_out);
    assert_eq!(
        shown,
        [
            completed(0, false),
            completed(1, false),
            completed(2, false),
            completed(3, false),
            expected(4, Outcome::Failed, false),
            completed(5, true),
            completed(6, true),
            completed(7, false),
        ]
    );
    let mut carried = 0;
    for (number, one) in claimed.upstreams.iter().enumerate() {
        let bytes = match number {
            3 => 100,
            7 => 200,
            _ => LARGE,
        };
        let result = Some(text(number, bytes)).filter(|_| !one.left_out && number != 4);
        assert!(one.result == result, "the result of n{number}");
        assert_eq!(one.error.as_ref().map(|error| error.message == message), (number == 4).then_some(true));
        carried += one.result.as_ref().map_or(0, Bytes::len);
    }
    assert!(carried <= RELATIVES_BYTES);
}

pub async fn children_share_the_bound_of_a_claim_with_upstreams(harness: &Harness) {
    const LARGE: usize = 1_000_000;
    let flow = harness.flow("n0 n1 -> parent").await;
    for number in 0..2 {
        complete_with(&flow, number, LARGE).await;
    }
    harness.drain().await;
    let claimed = flow.claim("parent").await;
    flow.spawn(&claimed, "n2 n3 n4").await;
    for number in 2..5 {
        complete_with(&flow, number, LARGE).await;
    }
    flow.report(&claimed, Op::Release).await;
    let again = flow.claim("parent").await;
    let left_out = |relatives: &[Relative]| relatives.iter().map(|one| one.left_out).collect::<Vec<_>>();
    assert_eq!(left_out(&again.upstreams), [false, false]);
    assert_eq!(left_out(&again.children), [false, false, true]);
}

pub async fn large_steps_are_carried_whole_and_count_against_the_bound(harness: &Harness) {
    const LARGE: usize = 900_000;
    let ids = submit(harness, 3, 10).await;
    for claimed in harness.claim_as(&Worker::new("one"), 3).await {
        let fence = fence(&claimed);
        for number in 0..10 {
            let name = Name::trusted(&format!("step {number}"));
            let (kind, result) = (StepKind::Step, text(number, LARGE));
            let step = StepDraft { name, kind, result, duration_ms: 1 };
            harness.report(fence, Op::Step(step)).await.expect("the step is recorded");
        }
        harness.report(fence, Op::Release).await.expect("it is put back");
    }
    // The second one reaches the bound.
    let mut claimed = harness.claim_as(&Worker::new("one"), 3).await;
    assert_eq!(claimed.iter().map(|one| one.execution.id).collect::<Vec<_>>(), ids[..2]);
    claimed.extend(harness.claim_as(&Worker::new("one"), 3).await);
    assert_eq!(claimed.len(), 3);
    for one in claimed {
        let results: Vec<Bytes> = one.steps.into_iter().filter_map(|step| step.result).collect();
        assert!(results == (0..10).map(|number| text(number, LARGE)).collect::<Vec<_>>());
    }
}
