//! Handlers stop: because they are cancelled, because their lease is lost, because the worker drains.

use super::{ended, engine, operate, operator, submit};
use selvedge::core::state::StateName;
use selvedge::{Action, Context, Drained, Failure, Outcome, Submission, Worker};
use serde_json::json;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Tells when the future that holds it is dropped.
struct OnDrop(Option<oneshot::Sender<()>>);

impl Drop for OnDrop {
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
    let cancel = Action::Cancel { reason: None, grace_ms: 60_000 };
    operate(&namespace, id, cancel).await;
    let expected = (Outcome::Cancelled, json!("cleaned up"));
    assert_eq!(ended(&namespace, id).await, expected);
    assert_eq!(worker.drain().await.failed, 1);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_lost_lease_drops_the_handler_and_nothing_is_reported() {
    let (engine, namespace) = engine().await;
    let (started, mut running) = mpsc::unbounded_channel();
    let (dropped, gone) = oneshot::channel();
    let on_drop = std::sync::Mutex::new(Some(dropped));
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", move |ctx: Context| {
            let started = started.clone();
            let on_drop = OnDrop(on_drop.lock().expect("is free").take());
            async move {
                if ctx.attempt() == 0 {
                    let _on_drop = on_drop;
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
    let revoke = Action::Revoke { reason: None };
    operate(&namespace, id, revoke).await;
    gone.await.expect("the handler is dropped");
    // It is ready again, and this worker's second attempt of it is not confused with the first.
    assert_eq!(ended(&namespace, id).await, (Outcome::Completed, json!(1)));
    let expected = Drained { completed: 1, aborted: 1, ..Drained::default() };
    assert_eq!(worker.drain().await, expected);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_drain_hands_back_without_charge_what_does_not_end_in_time() {
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
    let expected = Drained { released: 1, ..Drained::default() };
    assert_eq!(worker.drain().await, expected);
    let row = namespace.get(id).await.expect("it is there").stored.execution;
    assert_eq!(row.state.name(), StateName::Waiting);
    assert_eq!((row.detail.retries, row.detail.interruptions), (0, 0));
    let workers = namespace.workers().await.expect("they can be listed");
    assert_eq!(workers, [], "it has taken leave");
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
    // The gate opens in the very step in which the worker is told to stop: no handler ends before that.
    let worker = tokio::spawn(worker.run(async move {
        stopped.await.expect("it is told to stop");
        gate.add_permits(2);
    }));
    let first = submit(&namespace, Submission::new("k")).await;
    running.recv().await.expect("the handler runs");
    let second = submit(&namespace, Submission::new("k")).await;
    stop.send(()).expect("the worker listens");
    let drained = worker.await.expect("it ends").expect("it was set up well");
    let expected = Drained { completed: 1, ..Drained::default() };
    assert_eq!(drained, expected);
    assert_eq!(ended(&namespace, first).await, (Outcome::Completed, json!(true)));
    let row = namespace.get(second).await.expect("it is there").stored.execution;
    assert_eq!((row.state.name(), row.epoch), (StateName::Waiting, 0));
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
    ended(&namespace, id).await;
    let instance = worker.instance().to_owned();
    assert!(instance.starts_with("w-"));
    let drained = namespace.drain_worker(&instance, &operator()).await;
    drained.expect("the instance is known");
    assert_eq!(worker.ended().await.completed, 1);
    let workers = namespace.workers().await.expect("they can be listed");
    assert_eq!(workers, [], "it has taken leave");
    engine.shutdown().await;
}

#[tokio::test]
async fn a_worker_ends_when_the_engine_shuts_down_under_it() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", |_: Context| async { Ok::<_, Failure>(()) })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k")).await;
    ended(&namespace, id).await;
    engine.shutdown().await;
    worker.ended().await;
}
