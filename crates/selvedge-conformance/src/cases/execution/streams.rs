//! Streams: frames are read back byte for byte and by number, best-effort frames are bounded, and all are deleted with
//! their execution.

use crate::harness::concurrently;
use crate::harness::runner::RuleList;
use crate::harness::runner::decision;
use crate::harness::{Harness, fence};
use bytes::Bytes;
use selvedge_core::rows::UnreadWrites;
use selvedge_core::rows::{ResultChange, Updated};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::{Fence, Op, Report};
use selvedge_core::rules::timer::{Timer, TimerReply};
use selvedge_core::stream::{
    BEST_EFFORT_MAX, BEST_EFFORT_MS, FRAME_LIMIT, Frame, FrameKind, FrameMode, Stream, StreamName,
};
use selvedge_core::table::{Guarded, Request};
use selvedge_core::{Changes, Draft, DueKind, FailureClass, Needs, Policy, Timestamp};
use selvedge_store::Demand;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn name(fence: Fence) -> StreamName {
    StreamName { execution: fence.execution, attempt: fence.attempt }
}

/// Submits an execution, claims it and returns its fence.
async fn active_lease(harness: &Harness) -> Fence {
    let draft = Draft { policy: Policy { retention_ms: 0, ..Policy::default() }, ..Draft::new("kind") };
    fence(&harness.leased(draft).await)
}

fn append_command(harness: &Harness, fence: Fence, kind: FrameKind, mode: FrameMode, data: &[u8]) -> Report {
    harness.report_command(
        fence,
        Op::Frame { kind, mode, data: Bytes::copy_from_slice(data), correlation_id: None },
    )
}

async fn append(harness: &Harness, fence: Fence, kind: FrameKind, mode: FrameMode, data: &[u8]) {
    harness.run(append_command(harness, fence, kind, mode, data)).await.expect("it is appended");
}

async fn frames(harness: &Harness, stream: StreamName, from: u32, limit: u32) -> Vec<Frame> {
    harness.store.frames(stream, from.into(), limit).await.expect("frames are read")
}

async fn stream(harness: &Harness, name: StreamName) -> Option<Stream> {
    let read = harness.store.stream(name).await.expect("the stream is read");
    let loaded =
        harness.load(Needs { summaries: Request::reading([name]), ..Needs::default() }).await.streams;
    assert_eq!(
        loaded,
        read.clone().into_iter().collect::<Vec<_>>(),
        "the same in a transaction and outside of it"
    );
    read
}

fn numbers(frames: &[Frame]) -> Vec<u32> {
    frames.iter().map(|frame| frame.number).collect()
}

pub async fn frames_are_read_back_byte_for_byte_from_any_number(harness: &Harness) {
    let lease = active_lease(harness).await;
    assert!(frames(harness, name(lease), 0, 10).await.is_empty());
    assert_eq!(stream(harness, name(lease)).await, None);
    let largest = format!("\"{}\"", "\u{1f9f5}".repeat((FRAME_LIMIT - 2) / 4));
    let data: [&[u8]; 7] =
        [b"1", b" {\"a\" :  1}\n", b"\"\\u0000\"", b"null", largest.as_bytes(), b"[]", b"\"end\""];
    for (bytes, kind) in data.iter().zip(FrameKind::ALL.into_iter().cycle()) {
        append(harness, lease, kind, FrameMode::Durable, bytes).await;
    }
    let all = frames(harness, name(lease), 0, 100).await;
    assert_eq!(numbers(&all), [0, 1, 2, 3, 4, 5, 6]);
    for ((frame, bytes), kind) in all.iter().zip(data).zip(FrameKind::ALL.into_iter().cycle()) {
        assert_eq!((&frame.data[..], frame.kind, frame.best_effort), (bytes, kind, false));
        assert_eq!(frame.stream, name(lease));
    }
    assert!(all.is_sorted_by_key(|frame| frame.at));
    assert_eq!(frames(harness, name(lease), 2, 3).await, all[2..5]);
    assert_eq!(frames(harness, name(lease), 6, 3).await, all[6..]);
    for beyond in [7, u32::MAX] {
        assert!(frames(harness, name(lease), beyond, 3).await.is_empty());
    }
    let whole = stream(harness, name(lease)).await.expect("there is a stream");
    let bytes: usize = data.iter().map(|bytes| bytes.len()).sum();
    assert_eq!((whole.next, whole.bytes, whole.summary), (7, bytes as u64, None));
}

pub async fn the_summary_is_one_document_with_a_version_and_no_frame(harness: &Harness) {
    let lease = active_lease(harness).await;
    let summary =
        async |data: &[u8]| append(harness, lease, FrameKind::Event, FrameMode::Summary, data).await;
    summary(b"{\"a\": 1, \"b\": {\"c\": 2}}").await;
    append(harness, lease, FrameKind::Stdout, FrameMode::Durable, b"\"between\"").await;
    summary(b"{\"a\": null, \"b\": {\"d\": 3}}").await;
    let after = stream(harness, name(lease)).await.expect("there is a stream");
    assert_eq!((after.summary_version, after.next), (2, 1));
    assert_eq!(after.summary.as_deref(), Some(&b"{\"b\":{\"c\":2,\"d\":3}}"[..]));
    assert_eq!(numbers(&frames(harness, name(lease), 0, 10).await), [0], "a patch is not stored as a frame");
    // Appending a frame keeps the document, even one that is stored outside of the row.
    let large = format!("{{\"large\":\"{}\"}}", "x".repeat(200_000));
    summary(large.as_bytes()).await;
    for _ in 0..3 {
        append(harness, lease, FrameKind::Stdout, FrameMode::BestEffort, b"1").await;
    }
    let after = stream(harness, name(lease)).await.expect("there is a stream");
    assert_eq!((after.summary_version, after.next), (3, 4));
    let document = after.summary.expect("there is a document");
    assert!(document.starts_with(b"{\"b\":{\"c\":2,\"d\":3},\"large\":\"xxx") && document.len() > 200_000);
}

pub async fn a_summary_is_kept_when_a_stream_is_written_without_it(harness: &Harness) {
    let lease = active_lease(harness).await;
    append(harness, lease, FrameKind::Event, FrameMode::Summary, b"{\"a\":1}").await;
    append(harness, lease, FrameKind::Event, FrameMode::Durable, b"1").await;
    let before = stream(harness, name(lease)).await.expect("it exists");
    let document = Some(Bytes::from_static(b"{\"a\":1}"));
    assert_eq!((before.next, before.summary_version, before.summary.clone()), (1, 1, document.clone()));
    let written = Stream { next: 2, summary: None, ..before };
    harness.save(Changes { streams: vec![written], ..Changes::default() }).await;
    let after = stream(harness, name(lease)).await.expect("it exists");
    assert_eq!((after.next, after.summary_version, after.summary), (2, 1, document));
}

pub async fn the_streams_of_attempts_and_executions_are_separate(harness: &Harness) {
    let first = active_lease(harness).await;
    append(harness, first, FrameKind::Stdout, FrameMode::Durable, b"\"first\"").await;
    let fail = Op::Fail { message: "no".into(), class: FailureClass::Transient, retry_after_ms: Some(0) };
    harness.report(first, fail).await.expect("it fails");
    if harness.row(first.execution).await.state.lease().is_none() {
        harness.tick(first.execution, Timer::Due(DueKind::Delay)).await;
    }
    let second = fence(&harness.claim(1).await[0]);
    assert_eq!((second.execution, second.attempt), (first.execution, first.attempt + 1));
    append(harness, second, FrameKind::Stderr, FrameMode::Durable, b"\"second\"").await;
    append(harness, second, FrameKind::Stderr, FrameMode::Durable, b"\"and more\"").await;
    let other = active_lease(harness).await;
    append(harness, other, FrameKind::Stdout, FrameMode::Durable, b"\"other\"").await;
    let late = append_command(harness, first, FrameKind::Stdout, FrameMode::Durable, b"\"late\"");
    assert!(harness.run(late).await.is_err(), "an ended attempt appends nothing");
    for (lease, count) in [(first, 1), (second, 2), (other, 1)] {
        let frames = frames(harness, name(lease), 0, 10).await;
        assert_eq!(numbers(&frames), (0..count).collect::<Vec<_>>());
        assert_eq!(stream(harness, name(lease)).await.expect("there is a stream").next, count);
    }
}

pub async fn frames_appended_in_one_transaction_or_concurrently_are_all_kept(harness: &Harness) {
    let lease = active_lease(harness).await;
    let text = |number: usize| number.to_string().into_bytes();
    let reports: Vec<Report> = (0..50)
        .map(|number| append_command(harness, lease, FrameKind::Event, FrameMode::Durable, &text(number)))
        .collect();
    assert!(harness.run(RuleList(reports)).await.iter().all(Result::is_ok));
    let tasks = concurrently(10, |task| {
        let harness = harness.clone();
        async move {
            for number in 0..5 {
                let data = text(1000 + task * 5 + number);
                append(&harness, lease, FrameKind::Event, FrameMode::Durable, &data).await;
            }
        }
    });
    tasks.await;
    let kept = frames(harness, name(lease), 0, 1000).await;
    assert_eq!(numbers(&kept), (0..100).collect::<Vec<_>>());
    let mut data: Vec<usize> = kept
        .iter()
        .map(|frame| String::from_utf8_lossy(&frame.data).parse().expect("it is a number"))
        .collect();
    assert_eq!(data[..50], (0..50).collect::<Vec<_>>());
    data[50..].sort_unstable();
    assert_eq!(data[50..], (1000..1050).collect::<Vec<_>>(), "each once");
}

pub async fn best_effort_frames_are_bounded_in_number_and_durable_ones_are_not(harness: &Harness) {
    let lease = active_lease(harness).await;
    let rounds = BEST_EFFORT_MAX / 100 + 5;
    for round in 0..rounds {
        let mut reports = Vec::new();
        for number in 0..100 {
            let mode = if number == 7 { FrameMode::Durable } else { FrameMode::BestEffort };
            let data = (round * 100 + number).to_string();
            reports.push(append_command(harness, lease, FrameKind::Stdout, mode, data.as_bytes()));
        }
        assert!(harness.run(RuleList(reports)).await.iter().all(Result::is_ok));
    }
    let kept = frames(harness, name(lease), 0, 10_000).await;
    let newest = rounds * 100 - 1;
    assert_eq!(kept.last().map(|frame| frame.number), Some(newest), "numbers continue");
    assert_eq!(stream(harness, name(lease)).await.expect("there is a stream").next, newest + 1);
    let durable: Vec<u32> =
        kept.iter().filter(|frame| !frame.best_effort).map(|frame| frame.number).collect();
    assert_eq!(durable, (0..rounds).map(|round| round * 100 + 7).collect::<Vec<_>>(), "all of them");
    let best_effort: Vec<u32> =
        kept.iter().filter(|frame| frame.best_effort).map(|frame| frame.number).collect();
    assert!(best_effort.len() <= (BEST_EFFORT_MAX + BEST_EFFORT_MAX / 10) as usize, "{}", best_effort.len());
    let bound = newest + 1 - BEST_EFFORT_MAX;
    let newer = (bound..=newest).filter(|number| number % 100 != 7).count();
    assert_eq!(
        best_effort.iter().filter(|number| **number >= bound).count(),
        newer,
        "the newest frames are all kept"
    );
    for frame in &kept {
        assert_eq!(frame.data, frame.number.to_string());
    }
}

/// Returns a frame.
fn frame(stream: StreamName, number: u32, best_effort: bool, at: Timestamp) -> Frame {
    let data = Bytes::from_static(b"1");
    Frame { stream, number, kind: FrameKind::Event, best_effort, at, data, correlation_id: None }
}

pub async fn best_effort_frames_that_are_too_old_are_omitted_and_deleted(harness: &Harness) {
    let lease = active_lease(harness).await;
    let (stream, now) = (name(lease), harness.now().await);
    let stale = async || harness.store.overview().await.expect("the overview is read").stale;
    let (old, young) = (now.minus_ms(BEST_EFFORT_MS + 1), now.minus_ms(BEST_EFFORT_MS / 2));
    harness
        .save(Changes {
            streams: vec![Stream { next: 3, bytes: 3, ..Stream::new(stream) }],
            frames: vec![
                frame(stream, 0, false, old),
                frame(stream, 1, true, young),
                frame(stream, 2, false, young),
            ],
            ..Changes::default()
        })
        .await;
    assert!(!stale().await, "nothing is too old");
    assert_eq!(harness.store.delete_old_frames(100).await.expect("rows are deleted"), 0);
    let more: Vec<Frame> =
        (3..10).map(|number| frame(stream, number, true, old.minus_ms(number.into()))).collect();
    harness
        .save(Changes {
            streams: vec![Stream { next: 10, bytes: 10, ..Stream::new(stream) }],
            frames: more,
            ..Changes::default()
        })
        .await;
    assert_eq!(numbers(&frames(harness, stream, 0, 100).await), [0, 1, 2], "old frames are omitted");
    assert_eq!(numbers(&frames(harness, stream, 1, 2).await), [1, 2], "and do not count towards the limit");
    assert!(stale().await);
    for (limit, deleted) in [(3, 3), (100, 4), (100, 0)] {
        assert_eq!(harness.store.delete_old_frames(limit).await.expect("rows are deleted"), deleted);
    }
    assert!(!stale().await);
    assert_eq!(numbers(&frames(harness, stream, 0, 100).await), [0, 1, 2]);
}

pub async fn only_best_effort_frames_with_smaller_numbers_are_dropped(harness: &Harness) {
    let (one, other) = (name(active_lease(harness).await), name(active_lease(harness).await));
    let now = harness.now().await;
    let put = |from: u32, dropped: Vec<(StreamName, u32)>| {
        let of = |stream| (from..from + 10).map(move |number| frame(stream, number, number % 2 == 0, now));
        let mut frames: Vec<Frame> = of(one).chain(of(other)).collect();
        frames.sort_by_key(|frame| (frame.stream, frame.number));
        let mut streams = [one, other].map(|name| Stream { next: from + 10, ..Stream::new(name) });
        streams.sort_by_key(|stream| stream.name);
        Changes {
            streams: streams.to_vec(),
            frames,
            unread: UnreadWrites { frames_dropped: dropped, ..UnreadWrites::default() },
            ..Changes::default()
        }
    };
    harness.save(put(0, vec![])).await;
    harness.save(put(10, vec![(one, 5)])).await;
    let odd = |below: u32| (0..below).filter(|number| number % 2 == 1);
    let expected: Vec<u32> = odd(5).chain(5..20).collect();
    assert_eq!(numbers(&frames(harness, one, 0, 100).await), expected);
    assert_eq!(numbers(&frames(harness, other, 0, 100).await), (0..20).collect::<Vec<_>>());
    let mut both = vec![(one, 17), (other, 12)];
    both.sort_unstable();
    harness.save(put(20, both)).await;
    let expected: Vec<u32> = odd(17).chain(17..30).collect();
    assert_eq!(numbers(&frames(harness, one, 0, 100).await), expected);
    let expected: Vec<u32> = odd(12).chain(12..30).collect();
    assert_eq!(numbers(&frames(harness, other, 0, 100).await), expected);
}

pub async fn a_stream_is_deleted_with_its_execution_and_with_no_other(harness: &Harness) {
    let [deleted, kept] = [active_lease(harness).await, active_lease(harness).await];
    for lease in [deleted, kept] {
        for mode in FrameMode::ALL {
            append(harness, lease, FrameKind::Stdout, mode, b"{\"a\": 1}").await;
        }
        harness
            .operate(lease.execution, Action::Cancel { reason: None, grace_ms: 0 })
            .await
            .expect("it ends");
    }
    let before = (stream(harness, name(kept)).await, frames(harness, name(kept), 0, 10).await);
    assert_eq!(before.1.len(), 2);
    assert_eq!(
        frames(harness, name(deleted), 0, 10).await.len(),
        2,
        "it is kept until its execution is deleted"
    );
    assert_eq!(harness.tick(deleted.execution, Timer::Due(DueKind::Retention)).await, TimerReply::Fired);
    assert!(harness.find(deleted.execution).await.is_none());
    assert_eq!(stream(harness, name(deleted)).await, None);
    assert!(frames(harness, name(deleted), 0, 10).await.is_empty());
    assert_eq!((stream(harness, name(kept)).await, frames(harness, name(kept), 0, 10).await), before);
}

pub async fn a_decision_that_is_begun_again_appends_once(harness: &Harness) {
    let begun: Arc<AtomicU32> = Arc::default();
    let lease = active_lease(harness).await;
    let (stream_name, now) = (name(lease), harness.now().await);
    let row = harness.row(lease.execution).await;
    let append = decision(
        {
            let begun = begun.clone();
            move |again| {
                begun.store(again, Ordering::SeqCst);
                Needs::default()
            }
        },
        move |_| {
            // The first try expects a version that does not exist.
            let expected_version = row.version + u32::from(begun.load(Ordering::SeqCst) == 0);
            let mut execution = row.clone();
            execution.version += 1;
            let updated = Updated {
                execution,
                expected_version,
                result: ResultChange::Keep,
                rewired: false,
                input: None,
            };
            Demand::Save(Box::new(Changes {
                executions: Guarded::updating([updated]),
                streams: vec![Stream { next: 1, bytes: 1, ..Stream::new(stream_name) }],
                frames: vec![frame(stream_name, 0, false, now)],
                ..Changes::default()
            }))
        },
    );
    harness.save(Changes::default()).await;
    let saved = harness.store.transact(append).await.expect("it is saved");
    assert_eq!(saved.tries, 2);
    assert_eq!(frames(harness, stream_name, 0, 10).await, [frame(stream_name, 0, false, now)]);
}
