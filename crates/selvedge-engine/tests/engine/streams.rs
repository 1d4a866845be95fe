//! Streams: frames in order and under their lease, kept as they were meant, read by range and live.

use crate::faulty::{Call, Fault};
use crate::side::{Side, failed, fence};
use crate::{on_faulty, on_memory, soon, with};
use selvedge_engine::core::rules::claim::Claimed;
use selvedge_engine::core::rules::report::{Fence, Op, Reported};
use selvedge_engine::core::stream::{
    BEST_EFFORT_MAX, BEST_EFFORT_MS, FRAME_LIMIT, FRAMES_MAX, Frame, FrameKind, FrameMode, STREAM_LIMIT,
    SUMMARY_LIMIT, Stream, StreamName,
};
use selvedge_engine::core::{Backoff, Changes, Draft, ExecutionId, Needs, Policy, Refusal, Retry, Rows};
use selvedge_engine::store::{Decision, Demand, Error as StoreError};
use selvedge_engine::{Error, Frames};
use serde_json::{Value, json};

fn frame(mode: FrameMode, data: &Value) -> Op {
    Op::Frame { kind: FrameKind::Event, mode, data: data.to_string().into() }
}

fn durable(data: impl Into<Value>) -> Op {
    frame(FrameMode::Durable, &data.into())
}

fn data(frames: &[Frame]) -> Vec<Value> {
    frames.iter().map(|frame| serde_json::from_slice(&frame.data).expect("it is JSON")).collect()
}

fn numbers(frames: &[Frame]) -> Vec<u32> {
    frames.iter().map(|frame| frame.number).collect()
}

impl Side {
    async fn started(&self) -> (ExecutionId, Fence) {
        let id = self.submit(Draft::new("kind")).await;
        (id, fence(&self.claim_one("instance").await))
    }

    async fn append(&self, fence: Fence, op: Op) {
        self.report(fence, op).await.expect("it is appended");
    }

    /// Reports several with names of their own.
    async fn report_named(&self, fence: Fence, ops: Vec<(&str, Op)>) -> Vec<Result<Reported, Refusal>> {
        let ops = ops.into_iter().map(|(name, op)| Ok((fence, Some(name.to_owned()), op))).collect();
        self.namespace.report(ops, None).await.expect("it is answered").0
    }

    async fn frames(&self, id: ExecutionId) -> Frames {
        self.namespace.frames(id, None, 0, 10_000).await.expect("they are read")
    }
}

#[tokio::test]
async fn frames_keep_their_order_and_their_bytes() {
    let (side, _) = on_memory().await;
    let (id, fence) = side.started().await;
    let version = side.row(id).await.version;
    for number in 0..5 {
        let raw = format!("{{ \"n\" : {number} }}");
        let op = Op::Frame { kind: FrameKind::Stdout, mode: FrameMode::Durable, data: raw.clone().into() };
        side.append(fence, op).await;
        let frames = side.namespace.frames(id, Some(0), number, 10).await.expect("they are read");
        assert_eq!(numbers(&frames.frames), [number]);
        assert_eq!(frames.frames[0].data, raw);
        assert_eq!((frames.attempt, frames.next, frames.closed), (0, number + 1, false));
    }
    assert_eq!(side.row(id).await.version, version, "frames change no version");
    let page = side.namespace.frames(id, None, 1, 2).await.expect("they are read");
    assert_eq!((numbers(&page.frames), page.next), (vec![1, 2], 3));
}

#[tokio::test]
async fn a_frame_of_a_stale_lease_is_refused() {
    let (side, clock) = on_memory().await;
    let id = side.submit(Draft::new("kind")).await;
    let first = fence(&side.claim_briefly("instance").await);
    side.append(first, durable("of the first")).await;
    clock.advance_ms(5_000);
    // Late, and still the current lease.
    side.append(first, durable("late")).await;
    assert_eq!(side.tick("lease_expiry").await.done, 1);
    let refused = side.report(first, durable("too late")).await;
    assert!(matches!(refused, Err(Refusal::StaleLease(_))), "{refused:?}");
    let second = fence(&side.claim_one("other").await);
    let refused = side.report(first, durable("too late")).await;
    assert!(matches!(refused, Err(Refusal::StaleLease(_))), "{refused:?}");
    let forged = Fence { attempt: second.attempt, ..first };
    assert!(matches!(side.report(forged, durable("forged")).await, Err(Refusal::StaleLease(_))));
    side.append(second, durable("of the second")).await;
    let of = async |attempt| side.namespace.frames(id, Some(attempt), 0, 10).await.expect("they are read");
    assert_eq!(data(&of(0).await.frames), [json!("of the first"), json!("late")]);
    assert_eq!(data(&of(1).await.frames), [json!("of the second")]);
    assert_eq!(numbers(&of(1).await.frames), [0], "each attempt counts from 0");
    assert_eq!((of(0).await.closed, of(1).await.closed), (true, false));
}

#[tokio::test]
async fn a_stream_closes_with_its_attempt_and_says_so_at_its_last_frame() {
    let (side, clock) = on_memory().await;
    let retry = Retry { backoff: Backoff::Fixed { delay_ms: 1000 }, ..Retry::default() };
    let id = side.submit(with(Policy { retry, ..Policy::default() })).await;
    let waiting = side.frames(id).await;
    assert_eq!((waiting.attempt, waiting.frames.len(), waiting.closed), (0, 0, false), "it has not begun");
    let first = fence(&side.claim_one("instance").await);
    for number in 0..3 {
        side.append(first, durable(number)).await;
    }
    assert!(!side.frames(id).await.closed);
    side.report(first, failed()).await.expect("it is accepted");
    assert!(side.frames(id).await.closed, "the attempt has ended, and the execution has not");
    let part = side.namespace.frames(id, Some(0), 0, 3).await.expect("they are read");
    assert!(!part.closed, "there may be more");
    let rest = side.namespace.frames(id, Some(0), part.next, 3).await.expect("they are read");
    assert!(rest.frames.is_empty() && rest.closed);
    clock.advance_ms(1000);
    side.tick("delay_promoter").await;
    let second = fence(&side.claim_one("instance").await);
    let newest = side.frames(id).await;
    assert_eq!((newest.attempt, newest.frames.len(), newest.closed), (1, 0, false));
    side.complete(second).await.expect("it is accepted");
    assert!(side.frames(id).await.closed);
    let unknown = side.namespace.frames(id, Some(2), 0, 1).await;
    assert!(matches!(unknown, Err(Error::Refused(Refusal::NotFound { .. }))), "{unknown:?}");
    let cancelled = side.submit(Draft::new("kind")).await;
    side.cancel(cancelled).await.expect("it is cancelled");
    assert!(side.frames(cancelled).await.closed, "it never ran, and never will");
}

#[tokio::test]
async fn a_frame_that_is_sent_again_is_there_once() {
    let (side, _) = on_memory().await;
    let (id, fence) = side.started().await;
    for _ in 0..3 {
        side.report_named(fence, vec![("a", durable("a"))]).await;
    }
    for _ in 0..3 {
        let both = vec![("b", durable("b")), ("c", durable("c"))];
        let answered = side.report_named(fence, both).await;
        assert!(answered.iter().all(Result::is_ok));
    }
    // The first part of a report that was lost may come again with more behind it.
    let more = vec![("b", durable("b")), ("c", durable("c")), ("d", durable("d"))];
    side.report_named(fence, more).await;
    for _ in 0..2 {
        side.append(fence, durable("nameless")).await;
    }
    let expected = ["a", "b", "c", "d", "nameless", "nameless"].map(Value::from);
    assert_eq!(data(&side.frames(id).await.frames), expected);
    for _ in 0..2 {
        side.report_named(fence, vec![("e", frame(FrameMode::Summary, &json!({ "e": 1 })))]).await;
    }
    let summary = side.namespace.summary(id, None).await.expect("it is read");
    assert_eq!(summary.summary_version, 1);
}

#[tokio::test]
async fn best_effort_frames_are_few_and_short_lived() {
    let (side, clock) = on_memory().await;
    let (id, fence) = side.started().await;
    side.append(fence, durable("first")).await;
    let mut number = 0;
    for _ in 0..6 {
        // Every other one is durable, and must not keep the others from being counted.
        let mut ops = Vec::new();
        for _ in 0..250 {
            ops.push(Ok((fence, None, frame(FrameMode::BestEffort, &json!(number)))));
            ops.push(Ok((fence, None, durable("kept"))));
            number += 1;
        }
        let (results, _) = side.namespace.report(ops, None).await.expect("it is answered");
        assert!(results.iter().all(Result::is_ok));
    }
    let kept = side.frames(id).await.frames;
    let best_effort = kept.iter().filter(|frame| frame.best_effort).count();
    assert!(best_effort <= BEST_EFFORT_MAX as usize, "{best_effort}");
    assert_eq!(kept.len() - best_effort, 1 + 6 * 250, "the durable ones are all there");
    assert_eq!(kept.last().map(|frame| frame.number), Some(2 * 6 * 250));
    clock.advance_ms(BEST_EFFORT_MS);
    assert!(side.frames(id).await.frames.iter().all(|frame| !frame.best_effort), "and then they are gone");
    side.tick("retention").await;
    assert_eq!(side.frames(id).await.frames.len(), 1 + 6 * 250);
}

#[tokio::test]
async fn what_is_too_large_is_refused_and_leaves_nothing() {
    let (side, _) = on_memory().await;
    let (id, fence) = side.started().await;
    let text = |length: usize| Value::from("x".repeat(length - 2));
    side.append(fence, durable(text(FRAME_LIMIT))).await;
    let refused = side.report(fence, durable(text(FRAME_LIMIT + 1))).await;
    assert!(
        matches!(&refused, Err(Refusal::PayloadTooLarge { pointer, .. }) if pointer == "/data"),
        "{refused:?}"
    );
    let no_json = Op::Frame { kind: FrameKind::Blob, mode: FrameMode::Durable, data: "{".into() };
    assert!(matches!(side.report(fence, no_json).await, Err(Refusal::InvalidField { .. })));
    let patch =
        |name: usize| frame(FrameMode::Summary, &json!({ name.to_string(): text(FRAME_LIMIT - 100) }));
    let fit = SUMMARY_LIMIT / FRAME_LIMIT;
    for name in 0..fit {
        side.append(fence, patch(name)).await;
    }
    let refused = side.report(fence, patch(fit)).await;
    assert!(
        matches!(&refused, Err(Refusal::PayloadTooLarge { pointer, .. }) if pointer == "/data"),
        "{refused:?}"
    );
    let summary = side.namespace.summary(id, None).await.expect("it is read");
    assert_eq!(summary.summary_version as usize, fit);
    assert_eq!(side.frames(id).await.frames.len(), 1);
}

/// Puts a stream into a store as it is.
struct Put(Stream);

impl Decision for Put {
    fn begin(&mut self, _again: u32) -> Needs {
        Needs::default()
    }

    fn next(&mut self, _rows: Rows) -> Demand {
        Demand::Save(Box::new(Changes { streams: vec![self.0.clone()], ..Changes::default() }))
    }
}

#[tokio::test]
async fn an_attempt_has_so_many_frames_and_bytes_and_no_more() {
    let (side, _) = on_memory().await;
    let (id, fence) = side.started().await;
    let name = StreamName { execution: id, attempt: fence.attempt };
    let full = [
        Stream { next: FRAMES_MAX - 1, ..Stream::new(name) },
        Stream { bytes: STREAM_LIMIT - 3, next: 1, ..Stream::new(name) },
    ];
    for (at, stream) in full.into_iter().enumerate() {
        let put = side.engine.store().transact(Box::new(Put(stream))).await;
        put.expect("it is put there");
        side.append(fence, durable("x")).await;
        let refused = side.report(fence, durable("y")).await;
        assert!(
            matches!(&refused, Err(Refusal::InvalidField { pointer, .. }) if pointer == "/data"),
            "{refused:?}"
        );
        assert_eq!(side.frames(id).await.frames.len(), at + 1);
    }
    side.complete(fence).await.expect("it can still end");
}

#[tokio::test]
async fn patches_are_merged_into_the_summary_of_their_attempt() {
    let (side, _) = on_memory().await;
    let (id, fence) = side.started().await;
    let summary = async || {
        let stream = side.namespace.summary(id, None).await.expect("it is read");
        let document: Option<Value> =
            stream.summary.map(|bytes| serde_json::from_slice(&bytes).expect("JSON"));
        (stream.name.attempt, stream.summary_version, document)
    };
    assert_eq!(summary().await, (0, 0, None));
    for (version, patch, merged) in [
        (1, json!({ "a": { "b": 1 }, "c": [1] }), json!({ "a": { "b": 1 }, "c": [1] })),
        (2, json!({ "a": { "d": 2 }, "c": null }), json!({ "a": { "b": 1, "d": 2 } })),
        (3, json!("whole"), json!("whole")),
        (4, json!({ "again": true }), json!({ "again": true })),
    ] {
        side.append(fence, frame(FrameMode::Summary, &patch)).await;
        assert_eq!(summary().await, (0, version, Some(merged)));
    }
    assert!(side.frames(id).await.frames.is_empty(), "a patch is no frame of its own");
    side.report(fence, Op::Release).await.expect("it is accepted");
    let Claimed { execution, .. } = side.claim_one("instance").await;
    assert_eq!(summary().await, (execution.attempt().expect("it runs"), 0, None));
}

#[tokio::test]
async fn a_live_reader_sees_every_frame_and_ends_with_the_attempt() {
    const FRAMES: u32 = 350;
    let (side, _) = on_memory().await;
    let (id, fence) = side.started().await;
    let readers: Vec<_> = [0, 7]
        .into_iter()
        .map(|from| {
            let namespace = side.namespace.clone();
            tokio::spawn(async move {
                let mut tail = namespace.tail_frames(id, None, from).await.expect("it follows");
                let mut seen = Vec::new();
                while let Some(frames) = tail.next().await.expect("it reads") {
                    seen.extend(numbers(&frames));
                }
                assert!(tail.is_closed());
                (from, seen)
            })
        })
        .collect();
    let mut number = 0;
    while number < FRAMES {
        let ops: Vec<_> = (0..number % 4 + 1).map(|_| Ok((fence, None, durable("x")))).collect();
        number += ops.len() as u32;
        side.namespace.report(ops, None).await.expect("it is answered");
        tokio::task::yield_now().await;
    }
    let last = vec![Ok((fence, None, durable("last"))), Ok((fence, None, failed()))];
    side.namespace.report(last, None).await.expect("it is answered");
    for reader in readers {
        let (from, seen) = soon(reader).await.expect("no panic");
        assert_eq!(seen, (from..=number).collect::<Vec<_>>());
    }
    // One that comes after the end gets it all too.
    let mut late = side.namespace.tail_frames(id, Some(0), number).await.expect("it follows");
    assert_eq!(late.next().await.expect("it reads").map(|frames| numbers(&frames)), Some(vec![number]));
    assert_eq!(late.next().await.expect("it reads"), None);
}

#[tokio::test]
async fn a_live_reader_goes_on_after_the_store_failed_and_ends_with_the_engine() {
    let (side, store, _) = on_faulty().await;
    let (id, fence) = side.started().await;
    side.append(fence, durable("first")).await;
    let mut tail = side.namespace.tail_frames(id, None, 0).await.expect("it follows");
    store.next(Call::Frames, Fault::Fail(StoreError::Unavailable("it is away".into())));
    assert!(tail.next().await.is_err());
    assert_eq!(data(&tail.next().await.expect("it reads").expect("a frame")), ["first"]);
    let waiting = tokio::spawn(async move {
        let ended = tail.next().await.expect("it reads");
        (ended, tail.is_closed())
    });
    side.engine.shutdown().await;
    assert_eq!(soon(waiting).await.expect("no panic"), (None, false), "the attempt has not ended");
}
