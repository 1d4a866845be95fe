//! Handlers that stop early: through a cancellation, a lost lease, a drain, or a shutdown of the engine.

use super::{engine, engine_namespace, lock, submit, wait_for_end};
use selvedge::{Context, Failure, Outcome, State, Submission, Worker, WorkerSummary};
use selvedge_core::Name;
use serde_json::json;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Sends a message when it is dropped.
struct NotifyOnDrop(Option<oneshot::Sender<()>>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        if let Some(sender) = self.0.take() {
            let _ = sender.send(());
        }
    }
}

#[tokio::test]
async fn a_cancel_with_grace_reaches_the_handler_which_may_clean_up() {
    let (engine, namespace) = engine().await;
    let (started, mut running) = mpsc::unbounded_channel();
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", move |ctx: Context| {
            let started = started.clone();
            async move {
                started.send(())?;
                ctx.cancelled().await;
                assert!(ctx.is_cancelled());
                Err::<(), _>(Failure::transient("cleaned up"))
            }
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k")).await;
    running.recv().await.expect("the handler runs");
    let cancel = namespace.cancel(id).grace(Duration::from_secs(60)).await;
    cancel.expect("the cancellation is requested");
    let expected = (Outcome::Cancelled, json!("cleaned up"));
    assert_eq!(wait_for_end(&namespace, id).await, expected);
    assert_eq!(worker.drain().await.failed, 1);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_lost_lease_drops_the_handler_and_nothing_is_reported() {
    let (engine, namespace) = engine().await;
    let (started, mut running) = mpsc::unbounded_channel();
    let (sender, handler_dropped) = oneshot::channel();
    let sender = std::sync::Mutex::new(Some(sender));
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", move |ctx: Context| {
            let started = started.clone();
            let notify = NotifyOnDrop(lock(&sender).take());
            async move {
                if ctx.attempt() == 0 {
                    let _notify = notify;
                    started.send(())?;
                    pending::<()>().await;
                }
                Ok::<_, Failure>(ctx.attempt())
            }
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k")).await;
    running.recv().await.expect("the handler runs");
    namespace.revoke_lease(id).await.expect("the lease is revoked");
    handler_dropped.await.expect("the handler is dropped");
    // The execution is waiting again, and the worker does not confuse its second attempt with the first.
    assert_eq!(wait_for_end(&namespace, id).await, (Outcome::Completed, json!(1)));
    let expected = WorkerSummary { completed: 1, aborted: 1, ..WorkerSummary::default() };
    assert_eq!(worker.drain().await, expected);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_drain_puts_executions_back_without_a_charged_retry_when_the_grace_period_is_over() {
    let (engine, namespace) = engine().await;
    let (started, mut running) = mpsc::unbounded_channel();
    let worker = Worker::new(namespace.clone(), "w")
        .grace(Duration::ZERO)
        .handler("k", move |_: Context| {
            let started = started.clone();
            async move {
                started.send(())?;
                pending::<Result<(), Failure>>().await
            }
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k")).await;
    running.recv().await.expect("the handler runs");
    let expected = WorkerSummary { released: 1, ..WorkerSummary::default() };
    assert_eq!(worker.drain().await, expected);
    let row = namespace.get(id).await.expect("the execution is read");
    assert_eq!(row.state, State::Waiting);
    assert_eq!((row.retries, row.interruptions), (0, 0));
    let workers = engine_namespace(&engine).await.workers().await.expect("the workers are listed");
    assert!(workers.iter().all(|worker| worker.end.is_some()), "the worker has departed");
    engine.shutdown().await;
}

#[tokio::test]
async fn a_drain_waits_for_handlers_within_the_grace_period_and_claims_nothing_more() {
    let (engine, namespace) = engine().await;
    let gate = Arc::new(Semaphore::new(0));
    let (started, mut running) = mpsc::unbounded_channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = Worker::new(namespace.clone(), "w").concurrency(1).handler("k", {
        let gate = gate.clone();
        move |_: Context| {
            let (gate, started) = (gate.clone(), started.clone());
            async move {
                started.send(())?;
                Ok::<_, Failure>(gate.acquire().await.is_ok())
            }
        }
    });
    // The gate opens in the same poll that stops the worker, so no handler ends before that.
    let worker = tokio::spawn(worker.run(async move {
        stopped.await.expect("the test stops the worker");
        gate.add_permits(2);
    }));
    let first = submit(&namespace, Submission::new("k")).await;
    running.recv().await.expect("the handler runs");
    let second = submit(&namespace, Submission::new("k")).await;
    stop.send(()).expect("the worker runs");
    let summary = worker.await.expect("the worker ends").expect("the settings are valid");
    let expected = WorkerSummary { completed: 1, ..WorkerSummary::default() };
    assert_eq!(summary, expected);
    assert_eq!(wait_for_end(&namespace, first).await, (Outcome::Completed, json!(true)));
    let row = namespace.get(second).await.expect("the execution is read");
    assert_eq!((row.state, row.attempts), (State::Waiting, 0));
    engine.shutdown().await;
}

#[tokio::test]
async fn an_operator_can_ask_a_worker_to_drain() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", |_: Context| async { Ok::<_, Failure>(()) })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k")).await;
    wait_for_end(&namespace, id).await;
    let instance = worker.instance().to_owned();
    assert!(instance.starts_with("w-"));
    let drained = engine_namespace(&engine).await.drain_worker(&instance, &Name::trusted("operator")).await;
    drained.expect("the instance is known");
    assert_eq!(worker.ended().await.completed, 1);
    let workers = engine_namespace(&engine).await.workers().await.expect("the workers are listed");
    assert!(workers.iter().all(|worker| worker.end.is_some()), "the worker has departed");
    engine.shutdown().await;
}

#[tokio::test]
async fn a_worker_ends_when_the_engine_shuts_down() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", |_: Context| async { Ok::<_, Failure>(()) })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k")).await;
    wait_for_end(&namespace, id).await;
    engine.shutdown().await;
    worker.ended().await;
}

#[tokio::test]
async fn a_token_tells_a_thread_of_a_cancellation_and_of_a_lost_lease() {
    let (engine, namespace) = engine().await;
    let (started, mut running) = mpsc::unbounded_channel();
    let (stopped, mut stops) = mpsc::unbounded_channel();
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", move |ctx: Context| {
            let (started, stopped, token) = (started.clone(), stopped.clone(), ctx.cancellation());
            async move {
                let thread = tokio::task::spawn_blocking(move || {
                    while !token.is_cancelled() {
                        std::thread::yield_now();
                    }
                    stopped.send(())
                });
                started.send(())?;
                thread.await??;
                Err::<(), _>(Failure::permanent("stopped"))
            }
        })
        .start()
        .expect("the worker starts");
    let cancelled = submit(&namespace, Submission::new("k")).await;
    running.recv().await.expect("the handler runs");
    namespace.cancel(cancelled).grace(Duration::from_secs(60)).await.expect("it is requested");
    stops.recv().await.expect("the thread stops");
    assert_eq!(wait_for_end(&namespace, cancelled).await, (Outcome::Cancelled, json!("stopped")));

    let lost = submit(&namespace, Submission::new("k")).await;
    running.recv().await.expect("the handler runs");
    // Nothing claims the execution again.
    namespace.pause_lane("default").await.expect("the lane is paused");
    namespace.revoke_lease(lost).await.expect("the lease is revoked");
    stops.recv().await.expect("the thread stops");
    worker.drain().await;
    engine.shutdown().await;
}

over_http_too! {
    a_token_tells_a_thread_of_a_cancellation_and_of_a_lost_lease,
    a_cancel_with_grace_reaches_the_handler_which_may_clean_up,
    a_lost_lease_drops_the_handler_and_nothing_is_reported,
    a_drain_puts_executions_back_without_a_charged_retry_when_the_grace_period_is_over,
    a_drain_waits_for_handlers_within_the_grace_period_and_claims_nothing_more,
    an_operator_can_ask_a_worker_to_drain,
}
