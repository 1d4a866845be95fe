//! A program that follows what its workers do.

use super::{LONG, engine, submit};
use selvedge::events::{EventFilter, From, Notice};
use selvedge::{Context, Failure, Submission, Worker};
use std::collections::BTreeSet;
use tokio::time::timeout;

#[tokio::test]
async fn every_completion_is_told_once() {
    const MANY: usize = 50;
    let (engine, namespace) = engine().await;
    let mut ends = namespace.subscribe(EventFilter::completions(), From::Now).await.expect("it subscribes");
    let worker = Worker::new(namespace.clone(), "w")
        .concurrency(8)
        .handler("k", |ctx: Context| async move { Ok::<_, Failure>(ctx.attempt()) })
        .start()
        .expect("the worker starts");
    let mut open = BTreeSet::new();
    for _ in 0..MANY {
        open.insert(submit(&namespace, Submission::new("k")).await);
    }
    while !open.is_empty() {
        match timeout(LONG, ends.next()).await.expect("in time") {
            Some(Notice::Event(event)) => {
                assert_eq!(event.kind, "execution.succeeded");
                let id = event.execution.expect("it is about one");
                assert!(open.remove(&id), "{id} is told once");
            }
            other => panic!("an event comes, and not {other:?}"),
        }
    }
    worker.drain().await;
    engine.shutdown().await;
    assert_eq!(timeout(LONG, ends.next()).await.expect("in time"), None);
}
