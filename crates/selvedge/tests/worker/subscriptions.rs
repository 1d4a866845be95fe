//! A program that subscribes to the ends of its executions.

use super::{TIMEOUT, engine, submit};
use selvedge::events::{EventFilter, From};
use selvedge::{Context, Failure, Submission, Worker};
use std::collections::BTreeSet;
use tokio::time::timeout;

#[tokio::test]
async fn every_completion_is_delivered_to_a_subscriber_exactly_once() {
    const EXECUTIONS: usize = 50;
    let (engine, namespace) = engine().await;
    let mut ends =
        namespace.subscribe(EventFilter::completions(), From::Now).await.expect("the subscription starts");
    let worker = Worker::new(namespace.clone(), "w")
        .concurrency(8)
        .handler("k", |ctx: Context| async move { Ok::<_, Failure>(ctx.attempt()) })
        .start()
        .expect("the worker starts");
    let mut open = BTreeSet::new();
    for _ in 0..EXECUTIONS {
        open.insert(submit(&namespace, Submission::new("k")).await);
    }
    while !open.is_empty() {
        let event = timeout(TIMEOUT, ends.next()).await.expect("in time").expect("the event is read");
        assert_eq!(event.kind, "execution.completed");
        let id = event.execution.expect("the event names its execution");
        assert!(open.remove(&id), "{id} is delivered once");
    }
    worker.drain().await;
    engine.shutdown().await;
    // Over HTTP a subscription waits for the server to come back.
    if !crate::OVER_HTTP.get() {
        let ended = timeout(TIMEOUT, ends.next()).await.expect("in time");
        assert!(matches!(ended, Err(selvedge::Error::Closed)), "{ended:?}");
    }
}

over_http_too! {
    every_completion_is_delivered_to_a_subscriber_exactly_once,
}
