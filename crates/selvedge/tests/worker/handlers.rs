//! Handlers: results, retries, replays, panics, concurrency and the validation of settings.

use super::{engine, no_delay, submit, wait_for_end};
use selvedge::{Context, Failure, Outcome, Progress, Return, Submission, Worker, WorkerSummary};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

#[tokio::test]
async fn each_kind_runs_its_handler_and_the_result_is_stored() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .lane("a")
        .lane("b")
        .capability("gpu")
        .handler("double", |ctx: Context| async move {
            let n: i64 = ctx.input()?;
            Ok::<_, Failure>(2 * n)
        })
        .handler("describe", |ctx: Context| async move {
            let tag = ctx.tags()["colour"].clone();
            Ok::<_, Failure>(
                json!({"kind": ctx.kind(), "lane": ctx.lane(), "tag": tag, "raw": ctx.input_json().len()}),
            )
        })
        .start()
        .expect("the worker starts");
    let double = Submission::new("double").lane("a").input(&21).expect("valid JSON");
    let double = submit(&namespace, double).await;
    let describe =
        Submission::new("describe").lane("b").capability("gpu").tag("colour", "red").input_json("[ 1 ]");
    let describe = submit(&namespace, describe).await;
    assert_eq!(wait_for_end(&namespace, double).await, (Outcome::Completed, json!(42)));
    let expected = json!({"kind": "describe", "lane": "b", "tag": "red", "raw": 5});
    assert_eq!(wait_for_end(&namespace, describe).await, (Outcome::Completed, expected));
    let expected = WorkerSummary { completed: 2, ..WorkerSummary::default() };
    assert_eq!(worker.drain().await, expected);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_failed_attempt_is_retried_with_the_next_number_and_the_same_idempotency_key() {
    let (engine, namespace) = engine().await;
    let (sender, mut attempts) = mpsc::unbounded_channel();
    let worker = Worker::new(namespace.clone(), "w")
        .handler("flaky", move |ctx: Context| {
            let sender = sender.clone();
            async move {
                sender.send((ctx.attempt(), ctx.idempotency_key()))?;
                if ctx.attempt() < 2 {
                    return Err(Failure::transient("not yet"));
                }
                Ok("at last")
            }
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("flaky").backoff(no_delay())).await;
    assert_eq!(wait_for_end(&namespace, id).await, (Outcome::Completed, json!("at last")));
    let summary = worker.drain().await;
    assert_eq!((summary.completed, summary.failed), (1, 2));
    let key = id.to_string();
    for attempt in 0..3 {
        assert_eq!(attempts.recv().await, Some((attempt, key.clone())));
    }
    engine.shutdown().await;
}

#[tokio::test]
async fn a_replay_runs_in_a_new_generation_with_the_same_idempotency_keys() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", |ctx: Context| async move {
            Ok::<_, Failure>((ctx.attempt(), ctx.generation(), ctx.idempotency_key(), ctx.step_key("charge")))
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k")).await;
    assert_eq!(wait_for_end(&namespace, id).await.1, json!([0, 0, id, format!("{id}/charge")]));
    namespace.replay(id).await.expect("the execution is replayed");
    assert_eq!(wait_for_end(&namespace, id).await.1, json!([1, 1, id, format!("{id}/charge")]));
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn a_panic_becomes_a_failure_and_the_worker_continues() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", |ctx: Context| async move {
            let kind: String = ctx.input()?;
            if kind == "panic" {
                panic!("out of {}", "paper");
            }
            Ok::<_, Failure>(kind)
        })
        .start()
        .expect("the worker starts");
    let submission = Submission::new("k").max_retries(0);
    let panics = submission.clone().input("panic").expect("valid JSON");
    let panics = submit(&namespace, panics).await;
    let expected = (Outcome::Failed, json!("the handler panicked: out of paper"));
    assert_eq!(wait_for_end(&namespace, panics).await, expected);
    let fine = submit(&namespace, submission.input("fine").expect("valid JSON")).await;
    assert_eq!(wait_for_end(&namespace, fine).await, (Outcome::Completed, json!("fine")));
    let expected = WorkerSummary { completed: 1, failed: 1, ..WorkerSummary::default() };
    assert_eq!(worker.drain().await, expected);
    engine.shutdown().await;
}

#[tokio::test]
async fn input_of_another_type_fails_without_a_retry() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", |ctx: Context| async move { ctx.input::<u32>() })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k").input("x").expect("valid JSON")).await;
    let (outcome, message) = wait_for_end(&namespace, id).await;
    assert_eq!(outcome, Outcome::Failed);
    let message = message.as_str().expect("the value is a string");
    assert!(message.starts_with("the input is not what k expects"), "{message}");
    assert_eq!(worker.drain().await.failed, 1);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_handler_may_put_its_execution_back_without_a_charged_retry() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", |ctx: Context| async move {
            match ctx.attempt() {
                0 => Ok(Return::Release),
                1 => Ok(Return::delay(Duration::ZERO)),
                _ => Return::complete("done"),
            }
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k").max_retries(0)).await;
    assert_eq!(wait_for_end(&namespace, id).await, (Outcome::Completed, json!("done")));
    let summary = worker.drain().await;
    assert_eq!((summary.completed, summary.released), (1, 2));
    engine.shutdown().await;
}

#[tokio::test]
async fn progress_is_visible_while_the_handler_runs() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", |ctx: Context| async move {
            ctx.progress(50.0, "half").await?;
            let view = ctx.namespace().get(ctx.execution()).await?;
            let progress = Progress { percent: Some(50.0), message: Some("half".into()) };
            Ok::<_, Failure>(view.progress == Some(progress))
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k")).await;
    assert_eq!(wait_for_end(&namespace, id).await, (Outcome::Completed, json!(true)));
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn at_most_as_many_handlers_run_at_once_as_there_are_slots() {
    const SLOTS: usize = 3;
    const EXECUTIONS: usize = 20;
    let (engine, namespace) = engine().await;
    let gate = Arc::new(Semaphore::new(0));
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (started, mut starts) = mpsc::unbounded_channel();
    let worker = Worker::new(namespace.clone(), "w").concurrency(SLOTS).handler("k", {
        let (gate, running, most) = (gate.clone(), running.clone(), most.clone());
        move |_: Context| {
            let (gate, running, most) = (gate.clone(), running.clone(), most.clone());
            let started = started.clone();
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                started.send(())?;
                gate.acquire().await?.forget();
                running.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, Failure>(())
            }
        }
    });
    let worker = worker.start().expect("the worker starts");
    let mut ids = Vec::new();
    for _ in 0..EXECUTIONS {
        ids.push(submit(&namespace, Submission::new("k")).await);
    }
    for _ in 0..SLOTS {
        starts.recv().await.expect("every slot gets an execution");
    }
    for _ in SLOTS..EXECUTIONS {
        gate.add_permits(1);
        starts.recv().await.expect("the freed slot gets the next execution");
    }
    gate.add_permits(SLOTS);
    for id in ids {
        assert_eq!(wait_for_end(&namespace, id).await.0, Outcome::Completed);
    }
    assert_eq!(most.load(Ordering::SeqCst), SLOTS);
    assert_eq!(worker.drain().await.completed, EXECUTIONS as u64);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_worker_with_invalid_settings_does_not_start() {
    let (engine, namespace) = engine().await;
    let refused = |worker: Worker| {
        let error = worker.start().expect_err("the settings are refused");
        error.to_string()
    };
    let worker =
        || Worker::new(namespace.clone(), "w").handler("k", |_: Context| async { Ok::<_, Failure>(()) });
    let none = Worker::new(namespace.clone(), "w");
    assert!(refused(none).contains("/kinds is empty"));
    assert!(refused(worker().lane("")).contains("/lanes/0"));
    assert!(refused(worker().concurrency(0)).contains("/max is 0"));
    assert!(refused(worker().lease_ttl(Duration::ZERO)).contains("/lease_ttl_ms"));
    engine.shutdown().await;
}

over_http_too! {
    each_kind_runs_its_handler_and_the_result_is_stored,
    a_failed_attempt_is_retried_with_the_next_number_and_the_same_idempotency_key,
    a_replay_runs_in_a_new_generation_with_the_same_idempotency_keys,
    a_panic_becomes_a_failure_and_the_worker_continues,
    input_of_another_type_fails_without_a_retry,
    a_handler_may_put_its_execution_back_without_a_charged_retry,
    progress_is_visible_while_the_handler_runs,
    at_most_as_many_handlers_run_at_once_as_there_are_slots,
    a_worker_with_invalid_settings_does_not_start,
}
