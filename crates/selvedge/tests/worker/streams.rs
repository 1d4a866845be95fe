//! The streams of handlers: durable and best-effort frames, and the summary document.

use super::unreliable_store::{Link, UnreliableLink};
use super::{TIMEOUT, engine, submit, wait_for_end};
use selvedge::{Context, Engine, Failure, Frame, FrameKind, Options, Outcome, Submission, Worker};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::time::timeout;

fn data(frames: &[Frame]) -> Vec<Value> {
    frames.iter().map(|frame| serde_json::from_slice(&frame.data).expect("valid JSON")).collect()
}

#[tokio::test]
async fn frames_are_delivered_live_and_the_summary_is_read_as_a_whole() {
    let (engine, namespace) = engine().await;
    let gate = Arc::new(Semaphore::new(0));
    let worker = Worker::new(namespace.clone(), "w")
        .handler("say", {
            let gate = gate.clone();
            move |ctx: Context| {
                let gate = gate.clone();
                async move {
                    for word in ["one", "two", "three"] {
                        gate.acquire().await?.forget();
                        ctx.emit(FrameKind::Event, word).await?;
                        ctx.summarise(&json!({ "last": word, word: true })).await?;
                    }
                    ctx.emit_best_effort(FrameKind::Stderr, &json!({ "warned": 1 })).await?;
                    Ok::<_, Failure>("said")
                }
            }
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("say")).await;
    let mut tail = namespace.tail(id, None, 0).await.expect("the tail starts");
    for word in ["one", "two", "three"] {
        gate.add_permits(1);
        let frames = timeout(TIMEOUT, tail.next()).await.expect("in time").expect("the stream is read");
        assert_eq!(data(&frames.expect("the stream is open"))[0], json!(word));
    }
    assert_eq!(wait_for_end(&namespace, id).await, (Outcome::Completed, json!("said")));
    while timeout(TIMEOUT, tail.next()).await.expect("in time").expect("the stream is read").is_some() {}
    let frames = namespace.frames(id, Some(0), 0, 10).await.expect("the frames are read");
    assert_eq!(data(&frames.frames), [json!("one"), json!("two"), json!("three"), json!({ "warned": 1 })]);
    let best_effort: Vec<bool> = frames.frames.iter().map(|frame| frame.best_effort).collect();
    assert_eq!((best_effort, frames.closed), (vec![false, false, false, true], true));
    let summary = namespace.summary(id, None).await.expect("the summary is read");
    let document: Value =
        serde_json::from_slice(&summary.document.expect("the attempt has a summary")).expect("valid JSON");
    assert_eq!(document, json!({ "last": "three", "one": true, "two": true, "three": true }));
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn a_frame_whose_answer_was_lost_is_retried_and_stored_once() {
    let store = selvedge::open("memory:").await.expect("the store opens");
    let unreliable = UnreliableLink::to(&*store);
    let options = Options { reconcilers: false, ..Options::default() };
    let engine = Engine::start(store, options).await.expect("the engine starts");
    let namespace = engine.namespace("default").await.expect("the namespace opens");
    let worker = Worker::new(namespace.clone(), "w").handler("say", {
        let unreliable = unreliable.clone();
        move |ctx: Context| {
            let unreliable = unreliable.clone();
            async move {
                ctx.emit(FrameKind::Stdout, "before").await?;
                unreliable.set_link(Link::AnswersLost);
                let restore = async {
                    unreliable.wait_for_failures(4).await;
                    unreliable.set_link(Link::Up);
                };
                let (emitted, ()) = tokio::join!(ctx.emit(FrameKind::Stdout, "lost"), restore);
                emitted?;
                ctx.emit(FrameKind::Stdout, "after").await?;
                Ok::<_, Failure>(ctx.attempt())
            }
        }
    });
    let worker = worker.start().expect("the worker starts");
    let id = submit(&namespace, Submission::new("say")).await;
    assert_eq!(wait_for_end(&namespace, id).await, (Outcome::Completed, json!(0)));
    let frames = namespace.frames(id, None, 0, 10).await.expect("the frames are read");
    assert_eq!(data(&frames.frames), [json!("before"), json!("lost"), json!("after")]);
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn a_frame_that_is_too_large_is_refused_and_the_lease_stays_valid() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("say", |ctx: Context| async move {
            let refused = ctx.emit(FrameKind::Blob, "x".repeat(300 * 1024)).await;
            Ok::<_, Failure>(refused.expect_err("the frame is refused").to_string())
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("say")).await;
    let (outcome, error) = wait_for_end(&namespace, id).await;
    assert_eq!(outcome, Outcome::Completed);
    assert!(error.as_str().is_some_and(|error| error.contains("/data")), "{error}");
    worker.drain().await;
    engine.shutdown().await;
}

over_http_too! {
    frames_are_delivered_live_and_the_summary_is_read_as_a_whole,
    a_frame_that_is_too_large_is_refused_and_the_lease_stays_valid,
}
