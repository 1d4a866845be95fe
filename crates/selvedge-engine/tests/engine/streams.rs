//! Streams: frames are ordered, fenced by the lease, kept according to their mode, and read by range or live.

use crate::faults::{Call, Fault};
use crate::test_server::{TestServer, fail_op, fence};
use crate::{draft_with, faulty_server, memory_server, soon, until};
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
use std::time::{Duration, Instant};

fn frame(mode: FrameMode, data: &Value) -> Op {
    Op::Frame { kind: FrameKind::Event, mode, data: data.to_string().into(), correlation_id: None }
}

fn durable(data: impl Into<Value>) -> Op {
    frame(FrameMode::Durable, &data.into())
}

fn data(frames: &[Frame]) -> Vec<Value> {
    frames.iter().map(|frame| serde_json::from_slice(&frame.data).expect("the frame is JSON")).collect()
}

fn numbers(frames: &[Frame]) -> Vec<u32> {
    frames.iter().map(|frame| frame.number).collect()
}

impl TestServer {
    /// Submits an execution and claims it.
    async fn start_execution(&self) -> (ExecutionId, Fence) {
        let id = self.submit(Draft::new("kind")).await;
        (id, fence(&self.claim_one("instance").await))
    }

    async fn append(&self, fence: Fence, op: Op) {
        self.report(fence, op).await.expect("the frame is appended");
    }

    /// Sends several reports, each with an operation id.
    async fn report_with_ids(&self, fence: Fence, ops: Vec<(&str, Op)>) -> Vec<Result<Reported, Refusal>> {
        let ops = ops.into_iter().map(|(op_id, op)| Ok((fence, Some(op_id.to_owned()), op))).collect();
        self.namespace.report(ops, None).await.expect("the report is answered").0
    }

    async fn frames(&self, id: ExecutionId) -> Frames {
        self.namespace.frames(id, None, 0, 10_000).await.expect("the frames are read")
    }
}

#[tokio::test]
async fn frames_keep_their_order_and_their_bytes() {
    let (server, _) = memory_server().await;
    let (id, fence) = server.start_execution().await;
    let version = server.row(id).await.version;
    for number in 0..5 {
        let raw = format!("{{ \"n\" : {number} }}");
        let op = Op::Frame {
            kind: FrameKind::Stdout,
            mode: FrameMode::Durable,
            data: raw.clone().into(),
            correlation_id: None,
        };
        server.append(fence, op).await;
        let frames = server.namespace.frames(id, Some(0), number, 10).await.expect("the frames are read");
        assert_eq!(numbers(&frames.frames), [number]);
        assert_eq!(frames.frames[0].data, raw);
        assert_eq!((frames.attempt, frames.next, frames.closed), (0, number + 1, false));
    }
    assert_eq!(server.row(id).await.version, version, "frames change no version");
    let page = server.namespace.frames(id, None, 1, 2).await.expect("the frames are read");
    assert_eq!((numbers(&page.frames), page.next), (vec![1, 2], 3));
}

#[tokio::test]
async fn a_frame_of_a_stale_lease_is_refused() {
    let (server, clock) = memory_server().await;
    let id = server.submit(Draft::new("kind")).await;
    let first = fence(&server.claim_with_short_lease("instance").await);
    server.append(first, durable("first attempt")).await;
    clock.advance_ms(5_000);
    // Past its time to live, but not yet expired: the lease is still current.
    server.append(first, durable("late")).await;
    assert_eq!(server.tick("lease_expiry").await.done, 1);
    let refused = server.report(first, durable("too late")).await;
    assert!(matches!(refused, Err(Refusal::StaleLease(_))), "{refused:?}");
    let second = fence(&server.claim_one("other").await);
    let refused = server.report(first, durable("too late")).await;
    assert!(matches!(refused, Err(Refusal::StaleLease(_))), "{refused:?}");
    let forged = Fence { attempt: second.attempt, ..first };
    assert!(matches!(server.report(forged, durable("forged")).await, Err(Refusal::StaleLease(_))));
    server.append(second, durable("second attempt")).await;
    let of =
        async |attempt| server.namespace.frames(id, Some(attempt), 0, 10).await.expect("the frames are read");
    assert_eq!(data(&of(0).await.frames), [json!("first attempt"), json!("late")]);
    assert_eq!(data(&of(1).await.frames), [json!("second attempt")]);
    assert_eq!(numbers(&of(1).await.frames), [0], "each attempt numbers its frames from 0");
    assert_eq!((of(0).await.closed, of(1).await.closed), (true, false));
}

#[tokio::test]
async fn a_stream_closes_with_its_attempt_and_marks_its_last_frames() {
    let (server, clock) = memory_server().await;
    let retry = Retry { backoff: Backoff::Fixed { delay_ms: 1000 }, ..Retry::default() };
    let id = server.submit(draft_with(Policy { retry, ..Policy::default() })).await;
    let waiting = server.frames(id).await;
    assert_eq!(
        (waiting.attempt, waiting.frames.len(), waiting.closed),
        (0, 0, false),
        "no attempt has begun"
    );
    let first = fence(&server.claim_one("instance").await);
    for number in 0..3 {
        server.append(first, durable(number)).await;
    }
    assert!(!server.frames(id).await.closed);
    server.report(first, fail_op()).await.expect("the report is accepted");
    assert!(server.frames(id).await.closed, "the attempt has ended, but not the execution");
    let part = server.namespace.frames(id, Some(0), 0, 3).await.expect("the frames are read");
    assert!(!part.closed, "the page is full, so more frames may follow");
    let rest = server.namespace.frames(id, Some(0), part.next, 3).await.expect("the frames are read");
    assert!(rest.frames.is_empty() && rest.closed);
    clock.advance_ms(1000);
    server.tick("delay_promoter").await;
    let second = fence(&server.claim_one("instance").await);
    let newest = server.frames(id).await;
    assert_eq!((newest.attempt, newest.frames.len(), newest.closed), (1, 0, false));
    server.complete(second).await.expect("the report is accepted");
    assert!(server.frames(id).await.closed);
    let unknown = server.namespace.frames(id, Some(2), 0, 1).await;
    assert!(matches!(unknown, Err(Error::Refused(Refusal::NotFound { .. }))), "{unknown:?}");
    let cancelled = server.submit(Draft::new("kind")).await;
    server.cancel(cancelled).await.expect("the execution is cancelled");
    assert!(server.frames(cancelled).await.closed, "a cancelled execution without an attempt gets no frames");
}

#[tokio::test]
async fn a_frame_with_a_repeated_operation_id_is_stored_once() {
    let (server, _) = memory_server().await;
    let (id, fence) = server.start_execution().await;
    for _ in 0..3 {
        server.report_with_ids(fence, vec![("a", durable("a"))]).await;
    }
    for _ in 0..3 {
        let both = vec![("b", durable("b")), ("c", durable("c"))];
        let answered = server.report_with_ids(fence, both).await;
        assert!(answered.iter().all(Result::is_ok));
    }
    // A repeated report may carry further operations after the repeated ones.
    let more = vec![("b", durable("b")), ("c", durable("c")), ("d", durable("d"))];
    server.report_with_ids(fence, more).await;
    for _ in 0..2 {
        server.append(fence, durable("no id")).await;
    }
    let expected = ["a", "b", "c", "d", "no id", "no id"].map(Value::from);
    assert_eq!(data(&server.frames(id).await.frames), expected);
    for _ in 0..2 {
        server.report_with_ids(fence, vec![("e", frame(FrameMode::Summary, &json!({ "e": 1 })))]).await;
    }
    let summary = server.namespace.summary(id, None).await.expect("the summary is read");
    assert_eq!(summary.summary_version, 1);
}

#[tokio::test]
async fn best_effort_frames_are_limited_in_number_and_age() {
    let (server, clock) = memory_server().await;
    let (id, fence) = server.start_execution().await;
    server.append(fence, durable("first")).await;
    let mut number = 0;
    for _ in 0..6 {
        // Every other frame is durable: durable frames in between must not affect the limit.
        let mut ops = Vec::new();
        for _ in 0..250 {
            ops.push(Ok((fence, None, frame(FrameMode::BestEffort, &json!(number)))));
            ops.push(Ok((fence, None, durable("kept"))));
            number += 1;
        }
        let (results, _) = server.namespace.report(ops, None).await.expect("the report is answered");
        assert!(results.iter().all(Result::is_ok));
    }
    let kept = server.frames(id).await.frames;
    let best_effort = kept.iter().filter(|frame| frame.best_effort).count();
    assert!(best_effort <= BEST_EFFORT_MAX as usize, "{best_effort}");
    assert_eq!(kept.len() - best_effort, 1 + 6 * 250, "all durable frames are kept");
    assert_eq!(kept.last().map(|frame| frame.number), Some(2 * 6 * 250));
    clock.advance_ms(BEST_EFFORT_MS);
    assert!(
        server.frames(id).await.frames.iter().all(|frame| !frame.best_effort),
        "best-effort frames are hidden once they are too old"
    );
    server.tick("retention").await;
    assert_eq!(server.frames(id).await.frames.len(), 1 + 6 * 250);
}

#[tokio::test]
async fn an_oversized_frame_or_summary_is_refused_and_changes_nothing() {
    let (server, _) = memory_server().await;
    let (id, fence) = server.start_execution().await;
    let text = |length: usize| Value::from("x".repeat(length - 2));
    server.append(fence, durable(text(FRAME_LIMIT))).await;
    let refused = server.report(fence, durable(text(FRAME_LIMIT + 1))).await;
    assert!(
        matches!(&refused, Err(Refusal::PayloadTooLarge { pointer, .. }) if pointer == "/data"),
        "{refused:?}"
    );
    let malformed =
        Op::Frame { kind: FrameKind::Blob, mode: FrameMode::Durable, data: "{".into(), correlation_id: None };
    assert!(matches!(server.report(fence, malformed).await, Err(Refusal::InvalidField { .. })));
    let patch =
        |name: usize| frame(FrameMode::Summary, &json!({ name.to_string(): text(FRAME_LIMIT - 100) }));
    let fit = SUMMARY_LIMIT / FRAME_LIMIT;
    for name in 0..fit {
        server.append(fence, patch(name)).await;
    }
    let refused = server.report(fence, patch(fit)).await;
    assert!(
        matches!(&refused, Err(Refusal::PayloadTooLarge { pointer, .. }) if pointer == "/data"),
        "{refused:?}"
    );
    let summary = server.namespace.summary(id, None).await.expect("the summary is read");
    assert_eq!(summary.summary_version as usize, fit);
    assert_eq!(server.frames(id).await.frames.len(), 1);
}

/// A decision that saves a stream unchecked.
struct SaveStream(Stream);

impl Decision for SaveStream {
    fn begin(&mut self, _again: u32) -> Needs {
        Needs::default()
    }

    fn next(&mut self, _rows: Rows) -> Demand {
        Demand::Save(Box::new(Changes { streams: vec![self.0.clone()], ..Changes::default() }))
    }
}

#[tokio::test]
async fn the_frames_and_bytes_of_an_attempt_are_limited() {
    let (server, _) = memory_server().await;
    let (id, fence) = server.start_execution().await;
    let name = StreamName { execution: id, attempt: fence.attempt };
    let full = [
        Stream { next: FRAMES_MAX - 1, ..Stream::new(name) },
        Stream { bytes: STREAM_LIMIT - 3, next: 1, ..Stream::new(name) },
    ];
    for (at, stream) in full.into_iter().enumerate() {
        let saved = server.engine.store().transact(Box::new(SaveStream(stream))).await;
        saved.expect("the stream is saved");
        server.append(fence, durable("x")).await;
        let refused = server.report(fence, durable("y")).await;
        assert!(
            matches!(&refused, Err(Refusal::InvalidField { pointer, .. }) if pointer == "/data"),
            "{refused:?}"
        );
        assert_eq!(server.frames(id).await.frames.len(), at + 1);
    }
    server.complete(fence).await.expect("a full stream does not prevent the end");
}

#[tokio::test]
async fn patches_are_merged_into_the_summary_of_their_attempt() {
    let (server, _) = memory_server().await;
    let (id, fence) = server.start_execution().await;
    let summary = async || {
        let stream = server.namespace.summary(id, None).await.expect("the summary is read");
        let document: Option<Value> =
            stream.summary.map(|bytes| serde_json::from_slice(&bytes).expect("the summary is JSON"));
        (stream.name.attempt, stream.summary_version, document)
    };
    assert_eq!(summary().await, (0, 0, None));
    for (version, patch, merged) in [
        (1, json!({ "a": { "b": 1 }, "c": [1] }), json!({ "a": { "b": 1 }, "c": [1] })),
        (2, json!({ "a": { "d": 2 }, "c": null }), json!({ "a": { "b": 1, "d": 2 } })),
        (3, json!("whole"), json!("whole")),
        (4, json!({ "again": true }), json!({ "again": true })),
    ] {
        server.append(fence, frame(FrameMode::Summary, &patch)).await;
        assert_eq!(summary().await, (0, version, Some(merged)));
    }
    assert!(server.frames(id).await.frames.is_empty(), "a patch is not stored as a frame");
    server.report(fence, Op::Release).await.expect("the report is accepted");
    let Claimed { execution, .. } = server.claim_one("instance").await;
    assert_eq!(summary().await, (execution.attempt().expect("the execution has an attempt"), 0, None));
}

#[tokio::test]
async fn a_live_reader_sees_every_frame_and_ends_with_the_attempt() {
    const FRAMES: u32 = 350;
    let (server, _) = memory_server().await;
    let (id, fence) = server.start_execution().await;
    let readers: Vec<_> = [0, 7]
        .into_iter()
        .map(|from| {
            let namespace = server.namespace.clone();
            tokio::spawn(async move {
                let mut tail = namespace.tail_frames(id, None, from).await.expect("the stream is followed");
                let mut seen = Vec::new();
                while let Some(frames) = tail.next().await.expect("the tail reads") {
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
        server.namespace.report(ops, None).await.expect("the report is answered");
        tokio::task::yield_now().await;
    }
    let last = vec![Ok((fence, None, durable("last"))), Ok((fence, None, fail_op()))];
    server.namespace.report(last, None).await.expect("the report is answered");
    for reader in readers {
        let (from, seen) = soon(reader).await.expect("the task does not panic");
        assert_eq!(seen, (from..=number).collect::<Vec<_>>());
    }
    // A reader that starts after the end gets the last frame too.
    let mut late = server.namespace.tail_frames(id, Some(0), number).await.expect("the stream is followed");
    assert_eq!(late.next().await.expect("the tail reads").map(|frames| numbers(&frames)), Some(vec![number]));
    assert_eq!(late.next().await.expect("the tail reads"), None);
}

#[tokio::test]
async fn a_live_reader_continues_after_the_store_failed_and_ends_with_the_engine() {
    let (server, faults, _) = faulty_server().await;
    let (id, fence) = server.start_execution().await;
    server.append(fence, durable("first")).await;
    let mut tail = server.namespace.tail_frames(id, None, 0).await.expect("the stream is followed");
    faults.inject(Call::Frames, Fault::Fail(StoreError::Unavailable("it is away".into())));
    assert!(tail.next().await.is_err());
    assert_eq!(data(&tail.next().await.expect("the tail reads").expect("a frame is returned")), ["first"]);
    let waiting = tokio::spawn(async move {
        let ended = tail.next().await.expect("the tail reads");
        (ended, tail.is_closed())
    });
    server.engine.shutdown().await;
    assert_eq!(
        soon(waiting).await.expect("the task does not panic"),
        (None, false),
        "the attempt has not ended"
    );
}

#[tokio::test]
async fn an_idle_live_reader_waits_for_a_notification_and_ends_with_the_attempt() {
    let (server, faults, _) = faulty_server().await;
    let (id, fence) = server.start_execution().await;
    let mut tail = server.namespace.tail_frames(id, None, 0).await.expect("the stream is followed");
    let waiting = tokio::spawn(async move { tail.next().await.expect("the tail reads") });
    until("the frames are read", async || faults.frame_reads() == 1).await;
    // The time that a reader which looks four times a second would need for several looks.
    let started = Instant::now();
    until("a second has passed", async || started.elapsed() >= Duration::from_secs(1)).await;
    assert_eq!(faults.frame_reads(), 1, "nothing has changed");
    server.report(fence, Op::Release).await.expect("the report is accepted");
    assert_eq!(soon(waiting).await.expect("the task does not panic"), None, "the attempt has ended");
    assert!(started.elapsed() < Duration::from_secs(8), "the end of the attempt wakes the reader");
}

#[tokio::test]
async fn a_page_of_frames_is_bounded_in_bytes() {
    const FRAMES: usize = 30;
    let (server, _) = memory_server().await;
    let (id, fence) = server.start_execution().await;
    for _ in 0..FRAMES {
        server.append(fence, durable("x".repeat(FRAME_LIMIT - 2))).await;
    }
    server.complete(fence).await.expect("the report is accepted");
    let (mut from, mut read) = (0, 0);
    loop {
        let page = server.namespace.frames(id, None, from, 500).await.expect("the frames are read");
        let bytes: usize = page.frames.iter().map(|frame| frame.data.len()).sum();
        assert!(bytes <= 1024 * 1024 + FRAME_LIMIT, "{bytes}");
        assert_eq!(page.closed, !page.is_cut);
        (from, read) = (page.next, read + page.frames.len());
        if page.closed {
            break;
        }
    }
    assert_eq!(read, FRAMES);
}
