//! What the embedded worker promises, on the store in memory.

use selvedge::core::execution::Progress;
use selvedge::core::state::StateName;
use selvedge::{
    Action, Backoff, Context, Drained, Engine, ExecutionId, Failure, Name, Namespace, Outcome, Return,
    Submission, Worker,
};
use serde_json::{Value, json};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};

const LONG: Duration = Duration::from_secs(30);

async fn engine() -> (Engine, Namespace) {
    let engine = Engine::open("memory:").await.expect("the engine starts");
    let namespace = engine.namespace("default").await.expect("the namespace is there");
    (engine, namespace)
}

async fn submit(namespace: &Namespace, submission: Submission) -> ExecutionId {
    let submitted = submission.submit(namespace).await.expect("it is accepted");
    submitted.execution.id
}

/// How an execution ended: its outcome, and its result or its error.
async fn ended(namespace: &Namespace, id: ExecutionId) -> (Outcome, Value) {
    let ended = namespace.result(id, LONG).await.expect("it can be read");
    let ended = ended.expect("it ends in time");
    let told = match (ended.result, ended.error) {
        (Some(result), _) => serde_json::from_slice(&result).expect("the result is JSON"),
        (None, Some(error)) => Value::from(error.message),
        (None, None) => Value::Null,
    };
    (ended.outcome, told)
}

fn at_once() -> Backoff {
    Backoff::Fixed { delay_ms: 0 }
}

fn operator() -> Name {
    Name::trusted("operator")
}

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
async fn handlers_run_by_kind_and_their_results_are_kept() {
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
    let double = Submission::new("double").lane("a").input(&21).expect("is JSON");
    let double = submit(&namespace, double).await;
    let describe = Submission::new("describe")
        .lane("b")
        .capability("gpu")
        .tag("colour", "red")
        .input_json("[ 1 ]");
    let describe = submit(&namespace, describe).await;
    assert_eq!(ended(&namespace, double).await, (Outcome::Success, json!(42)));
    let expected = json!({"kind": "describe", "lane": "b", "tag": "red", "raw": 5});
    assert_eq!(ended(&namespace, describe).await, (Outcome::Success, expected));
    let expected = Drained {
        completed: 2,
        ..Drained::default()
    };
    assert_eq!(worker.drain().await, expected);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_failed_attempt_is_retried_and_each_sees_its_number() {
    let (engine, namespace) = engine().await;
    let (seen, mut attempts) = mpsc::unbounded_channel();
    let worker = Worker::new(namespace.clone(), "w")
        .handler("flaky", move |ctx: Context| {
            let seen = seen.clone();
            async move {
                seen.send((ctx.attempt(), ctx.key()))?;
                if ctx.attempt() < 2 {
                    return Err(Failure::transient("not yet"));
                }
                Ok("at last")
            }
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("flaky").backoff(at_once())).await;
    assert_eq!(ended(&namespace, id).await, (Outcome::Success, json!("at last")));
    let drained = worker.drain().await;
    assert_eq!((drained.completed, drained.failed), (1, 2));
    let key = format!("{id}-0");
    for attempt in 0..3 {
        assert_eq!(attempts.recv().await, Some((attempt, key.clone())));
    }
    engine.shutdown().await;
}

#[tokio::test]
async fn a_replay_runs_in_a_new_generation_under_another_key() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", |ctx: Context| async move {
            Ok::<_, Failure>((ctx.attempt(), ctx.generation(), ctx.key()))
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k")).await;
    assert_eq!(ended(&namespace, id).await.1, json!([0, 0, format!("{id}-0")]));
    let replay = namespace.operate(id, Action::Replay, None, &operator());
    replay.await.expect("it can be replayed");
    assert_eq!(ended(&namespace, id).await.1, json!([1, 1, format!("{id}-1")]));
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn a_panic_becomes_a_failure_and_the_worker_goes_on() {
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
    let panics = submission.clone().input("panic").expect("is JSON");
    let panics = submit(&namespace, panics).await;
    let expected = (Outcome::Failed, json!("the handler panicked: out of paper"));
    assert_eq!(ended(&namespace, panics).await, expected);
    let fine = submit(&namespace, submission.input("fine").expect("is JSON")).await;
    assert_eq!(ended(&namespace, fine).await, (Outcome::Success, json!("fine")));
    let expected = Drained {
        completed: 1,
        failed: 1,
        ..Drained::default()
    };
    assert_eq!(worker.drain().await, expected);
    engine.shutdown().await;
}

#[tokio::test]
async fn input_of_another_shape_fails_without_a_retry() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", |ctx: Context| async move { ctx.input::<u32>() })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k").input("x").expect("is JSON")).await;
    let (outcome, message) = ended(&namespace, id).await;
    assert_eq!(outcome, Outcome::Failed);
    let message = message.as_str().expect("is text");
    assert!(
        message.starts_with("the input is not what k expects"),
        "{message}"
    );
    assert_eq!(worker.drain().await.failed, 1);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_handler_may_put_its_execution_back_without_charge() {
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
    assert_eq!(ended(&namespace, id).await, (Outcome::Success, json!("done")));
    let drained = worker.drain().await;
    assert_eq!((drained.completed, drained.released), (1, 2));
    engine.shutdown().await;
}

#[tokio::test]
async fn progress_is_visible_while_the_handler_runs() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", |ctx: Context| async move {
            ctx.progress(50.0, "half").await?;
            let view = ctx.namespace().get(ctx.execution()).await?;
            let progress = Progress {
                percent: Some(50.0),
                message: Some("half".into()),
            };
            Ok::<_, Failure>(view.stored.execution.detail.progress == Some(progress))
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k")).await;
    assert_eq!(ended(&namespace, id).await, (Outcome::Success, json!(true)));
    worker.drain().await;
    engine.shutdown().await;
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
    let cancel = Action::Cancel {
        reason: None,
        grace_ms: 60_000,
    };
    let cancel = namespace.operate(id, cancel, None, &operator());
    cancel.await.expect("it can be cancelled");
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
    let revoke = namespace.operate(id, revoke, None, &operator());
    revoke.await.expect("the lease can be revoked");
    gone.await.expect("the handler is dropped");
    // It is ready again, and this worker's second attempt of it is not confused with the first.
    assert_eq!(ended(&namespace, id).await, (Outcome::Success, json!(1)));
    let expected = Drained {
        completed: 1,
        aborted: 1,
        ..Drained::default()
    };
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
    let expected = Drained {
        released: 1,
        ..Drained::default()
    };
    assert_eq!(worker.drain().await, expected);
    let row = namespace.get(id).await.expect("it is there").stored.execution;
    assert_eq!(row.state.name(), StateName::Ready);
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
    let worker = tokio::spawn(worker.run(async {
        stopped.await.expect("it is told to stop");
    }));
    let first = submit(&namespace, Submission::new("k")).await;
    running.recv().await.expect("the handler runs");
    let second = submit(&namespace, Submission::new("k")).await;
    stop.send(()).expect("the worker listens");
    gate.add_permits(2);
    let drained = worker.await.expect("it ends").expect("it was set up well");
    let expected = Drained {
        completed: 1,
        ..Drained::default()
    };
    // Whether the worker heard of the end of its handler or of the stop first, it may have claimed the second one, which
    // it then ran or put back.
    let released = Drained {
        released: 1,
        ..expected
    };
    let both = Drained {
        completed: 2,
        ..expected
    };
    assert!([expected, released, both].contains(&drained), "{drained:?}");
    assert_eq!(ended(&namespace, first).await, (Outcome::Success, json!(true)));
    let row = namespace.get(second).await.expect("it is there").stored.execution;
    assert_eq!(row.detail.interruptions, 0);
    assert!(row.state.lease().is_none());
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
    let drain = namespace.drain_worker(&instance, &operator());
    drain.await.expect("the instance is known");
    assert_eq!(worker.ended().await.completed, 1);
    let workers = namespace.workers().await.expect("they can be listed");
    assert_eq!(workers, [], "it has taken leave");
    engine.shutdown().await;
}

#[tokio::test]
async fn at_most_as_many_handlers_run_at_once_as_there_are_slots() {
    const SLOTS: usize = 3;
    const MANY: usize = 20;
    let (engine, namespace) = engine().await;
    let gate = Arc::new(Semaphore::new(0));
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (started, mut starts) = mpsc::unbounded_channel();
    let worker = Worker::new(namespace.clone(), "w")
        .concurrency(SLOTS)
        .handler("k", {
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
    for _ in 0..MANY {
        ids.push(submit(&namespace, Submission::new("k")).await);
    }
    for _ in 0..SLOTS {
        starts.recv().await.expect("all slots fill");
    }
    for _ in SLOTS..MANY {
        gate.add_permits(1);
        starts
            .recv()
            .await
            .expect("the next takes the slot that was freed");
    }
    gate.add_permits(SLOTS);
    for id in ids {
        assert_eq!(ended(&namespace, id).await.0, Outcome::Success);
    }
    assert_eq!(most.load(Ordering::SeqCst), SLOTS);
    assert_eq!(worker.drain().await.completed, MANY as u64);
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

#[tokio::test]
async fn wrong_settings_are_refused_before_anything_runs() {
    let (engine, namespace) = engine().await;
    let refused = |worker: Worker| {
        let error = worker.start().expect_err("is refused");
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
