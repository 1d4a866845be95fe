//! Handlers that misbehave: they hang, ignore a cancellation, return too much, or block the thread of the runtime. A handler that
//! panics is tested in `handlers`.

use super::{TIMEOUT, engine, lock, no_delay, submit, wait_for_end, wait_for_events};
use selvedge::{Client, Context, Engine, Failure, Outcome, Submission, Worker, WorkerSummary};
use serde_json::json;
use std::future::pending;
use std::sync::{Arc, Mutex, mpsc as blocking};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tracing::field::{Field, Visit};
use tracing::span;

/// A handler of the kind `fine`, which shows that the worker goes on.
async fn fine(_: Context) -> Result<&'static str, Failure> {
    Ok("fine")
}

/// Tells a test that it was dropped.
struct TellOnDrop(mpsc::UnboundedSender<()>);

impl Drop for TellOnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test]
async fn a_handler_that_hangs_is_dropped_at_the_timeout_of_its_attempt_and_the_worker_continues() {
    let (engine, namespace) = engine().await;
    let (dropped, mut drops) = mpsc::unbounded_channel();
    let worker = Worker::new(namespace.clone(), "w")
        .concurrency(1)
        .lease_ttl(Duration::from_millis(600))
        .handler("hang", move |_: Context| {
            let tell = TellOnDrop(dropped.clone());
            async move {
                let _tell = tell;
                pending::<Result<(), Failure>>().await
            }
        })
        .handler("fine", fine)
        .start()
        .expect("the worker starts");
    let hang = Submission::new("hang")
        .attempt_timeout(Duration::from_millis(200))
        .max_retries(1)
        .backoff(no_delay());
    let hang = submit(&namespace, hang).await;
    let expected = (Outcome::Failed, json!("attempt 1 ran longer than 200 ms"));
    assert_eq!(wait_for_end(&namespace, hang).await, expected);
    assert_eq!(namespace.get(hang).await.expect("it is read").attempts, 2, "it was retried once");
    drops.recv().await.expect("the first handler is dropped");
    drops.recv().await.expect("the second handler is dropped");
    let next = submit(&namespace, Submission::new("fine")).await;
    assert_eq!(wait_for_end(&namespace, next).await, (Outcome::Completed, json!("fine")));
    assert_eq!(worker.drain().await, WorkerSummary { completed: 1, aborted: 2, ..WorkerSummary::default() });
    engine.shutdown().await;
}

#[tokio::test]
async fn a_handler_that_ignores_a_cancellation_is_dropped_after_the_grace_period() {
    let (engine, namespace) = engine().await;
    let (started, mut running) = mpsc::unbounded_channel();
    let (dropped, mut drops) = mpsc::unbounded_channel();
    let worker = Worker::new(namespace.clone(), "w")
        .concurrency(1)
        .handler("deaf", move |_: Context| {
            let (started, tell) = (started.clone(), TellOnDrop(dropped.clone()));
            async move {
                let _tell = tell;
                started.send(())?;
                pending::<Result<(), Failure>>().await
            }
        })
        .handler("fine", fine)
        .start()
        .expect("the worker starts");
    let deaf = submit(&namespace, Submission::new("deaf")).await;
    running.recv().await.expect("the handler runs");
    let cancelled = namespace.cancel(deaf).grace(Duration::from_millis(200)).await.expect("it is requested");
    assert!(cancelled.cancel_requested, "the handler has not answered");
    assert_eq!(wait_for_end(&namespace, deaf).await.0, Outcome::Cancelled);
    drops.recv().await.expect("the handler is dropped");
    let next = submit(&namespace, Submission::new("fine")).await;
    assert_eq!(wait_for_end(&namespace, next).await, (Outcome::Completed, json!("fine")));
    assert_eq!(worker.drain().await, WorkerSummary { completed: 1, aborted: 1, ..WorkerSummary::default() });
    engine.shutdown().await;
}

#[tokio::test]
async fn a_handler_that_returns_five_megabytes_fails_permanently_with_the_limit_in_the_message() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("large", |_: Context| async { Ok::<_, Failure>("x".repeat(5_000_000)) })
        .handler("step", |ctx: Context| async move {
            ctx.step("large", || async { Ok("x".repeat(5_000_000)) }).await
        })
        .handler("fine", fine)
        .start()
        .expect("the worker starts");
    for kind in ["large", "step"] {
        let large = submit(&namespace, Submission::new(kind).backoff(no_delay())).await;
        let (outcome, message) = wait_for_end(&namespace, large).await;
        assert_eq!(outcome, Outcome::Failed, "{kind}");
        let message = message.as_str().unwrap_or_default();
        assert!(message.contains("5000002") && message.contains("1048576"), "{kind}: {message}");
        assert_eq!(namespace.get(large).await.expect("it is read").attempts, 1, "{kind} is not retried");
    }
    let next = submit(&namespace, Submission::new("fine")).await;
    assert_eq!(wait_for_end(&namespace, next).await, (Outcome::Completed, json!("fine")));
    assert_eq!(worker.drain().await.failed, 2);
    engine.shutdown().await;
}

/// Runs an engine with a server in a thread of its own, whose runtime no handler of the test can block.
struct ServerThread {
    address: String,
    engine: Engine,
    runtime: tokio::runtime::Runtime,
}

impl ServerThread {
    fn start() -> ServerThread {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("the runtime starts");
        let (engine, address) = runtime.block_on(async {
            let engine = Engine::open("memory:").await.expect("the engine starts");
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
            let address = format!("http://{}", listener.local_addr().expect("the listener has an address"));
            tokio::spawn(selvedge_server::serve(engine.clone().into_inner(), listener, pending()));
            (engine, address)
        });
        ServerThread { address, engine, runtime }
    }

    fn namespace(&self) -> selvedge::Namespace {
        let client = Client::new(&self.address).expect("the address is valid");
        client.namespace("default").expect("the namespace is valid")
    }
}

#[test]
fn a_handler_that_blocks_a_thread_keeps_its_lease_if_the_runtime_has_another_one() {
    const LEASE: Duration = Duration::from_millis(500);
    let server = ServerThread::start();
    let namespace = server.namespace();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("the runtime starts").block_on(async {
        let (unblock, blocked) = blocking::channel();
        let blocked = Arc::new(Mutex::new(blocked));
        let worker = Worker::new(namespace.clone(), "w")
            .lease_ttl(LEASE)
            .handler("block", move |ctx: Context| {
                let blocked = blocked.clone();
                async move {
                    lock(&blocked).recv_timeout(TIMEOUT)?;
                    Ok::<_, Failure>(ctx.attempt())
                }
            })
            .handler("fine", fine)
            .start()
            .expect("the worker starts");
        let block = submit(&namespace, Submission::new("block")).await;
        // Ends long after the first lease, on the thread that is left.
        let later = submit(&namespace, Submission::new("fine").delay(3 * LEASE)).await;
        assert_eq!(wait_for_end(&namespace, later).await, (Outcome::Completed, json!("fine")));
        unblock.send(()).expect("the handler is blocked");
        assert_eq!(wait_for_end(&namespace, block).await, (Outcome::Completed, json!(0)));
        assert_eq!(worker.drain().await, WorkerSummary { completed: 2, ..WorkerSummary::default() });
    });
}

#[test]
fn a_handler_that_blocks_the_only_thread_loses_its_lease_and_the_log_says_so() {
    let server = ServerThread::start();
    let (namespace, engine) = (server.namespace(), server.engine.clone());
    let (expired, expiry) = blocking::channel();
    let (submitted, id) = oneshot::channel();
    server.runtime.spawn(async move {
        let embedded = engine.namespace("default").await.expect("the namespace opens");
        let id = id.await.expect("the test submits");
        wait_for_events(&embedded, id, "lease.expired", 1).await;
        expired.send(()).expect("the handler waits");
    });
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(log.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("the runtime starts").block_on(async {
        let expiry = Arc::new(Mutex::new(expiry));
        let worker = Worker::new(namespace.clone(), "w")
            .lease_ttl(Duration::from_millis(500))
            .handler("block", move |ctx: Context| {
                let expiry = expiry.clone();
                async move {
                    if ctx.attempt() == 0 {
                        lock(&expiry).recv_timeout(TIMEOUT)?;
                    }
                    Ok::<_, Failure>(ctx.attempt())
                }
            })
            .start()
            .expect("the worker starts");
        let id = submit(&namespace, Submission::new("block")).await;
        submitted.send(id).expect("the watcher runs");
        assert_eq!(wait_for_end(&namespace, id).await, (Outcome::Completed, json!(1)));
        let expected = WorkerSummary { completed: 1, aborted: 1, ..WorkerSummary::default() };
        assert_eq!(worker.drain().await, expected);
    });
    let log = lock(&log.0).join("\n");
    // Either the heartbeat or the report learns it first.
    let messages = ["a lease was lost and its handler aborted", "the end of an attempt was not accepted"];
    assert!(messages.iter().any(|message| log.contains(message)), "{log}");
}

/// Collects the log of the SDK.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("selvedge") && *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Fields(String);
        impl Visit for Fields {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{field}={value:?} ");
            }
        }
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        lock(&self.0).push(fields.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

over_http_too! {
    a_handler_that_hangs_is_dropped_at_the_timeout_of_its_attempt_and_the_worker_continues,
    a_handler_that_ignores_a_cancellation_is_dropped_after_the_grace_period,
    a_handler_that_returns_five_megabytes_fails_permanently_with_the_limit_in_the_message,
}
