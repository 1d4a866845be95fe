//! The reports of a worker while the store is unavailable.

use super::TIMEOUT;
use super::unreliable_store::{Link, UnreliableLink};
use selvedge::{Context, Engine, Failure, Namespace, Options, Outcome, Submission, Worker, WorkerSummary};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// An active execution of a worker with one slot, during an outage of the store.
struct Outage {
    engine: Engine,
    namespace: Namespace,
    unreliable: Arc<UnreliableLink>,
    /// Lets the handler return.
    gate: Arc<Semaphore>,
    worker: selvedge::Handle,
    id: selvedge::ExecutionId,
}

/// Starts a handler, then sets the link to the store.
async fn outage(link: Link, grace: Duration) -> Outage {
    let store = selvedge::open("memory:").await.expect("the store opens");
    let unreliable = UnreliableLink::to(&*store);
    // The transactions of reconcilers would be counted as failures too.
    let options = Options { reconcilers: false, ..Options::default() };
    let engine = Engine::start(store, options).await.expect("the engine starts");
    let namespace = engine.namespace("default").await.expect("the namespace opens");
    let gate = Arc::new(Semaphore::new(0));
    let (started, mut starts) = mpsc::unbounded_channel();
    let worker = Worker::new(namespace.clone(), "w")
        .concurrency(1)
        .grace(grace)
        .handler("k", {
            let gate = gate.clone();
            move |ctx: Context| {
                let (gate, started) = (gate.clone(), started.clone());
                async move {
                    started.send(())?;
                    let _permit = gate.acquire().await?;
                    Ok::<_, Failure>(ctx.attempt())
                }
            }
        })
        .start()
        .expect("the worker starts");
    let submitted = Submission::new("k").submit(&namespace).await.expect("the submission is accepted");
    starts.recv().await.expect("the handler runs");
    unreliable.set_link(link);
    Outage { engine, namespace, unreliable, gate, worker, id: submitted.execution.id }
}

async fn completes_once_after_the_outage(link: Link) {
    let outage = outage(link, TIMEOUT).await;
    outage.gate.add_permits(1);
    // Heartbeats alone do not fail this often, so the report is among the failed transactions.
    outage.unreliable.wait_for_failures(3).await;
    outage.unreliable.set_link(Link::Up);
    let ended = outage.namespace.result(outage.id, TIMEOUT).await.expect("the result is read");
    let ended = ended.expect("the execution ends in time");
    assert_eq!(ended.outcome, Outcome::Completed);
    assert_eq!(ended.result.as_deref(), Some(b"0".as_slice()), "the result is that of the first attempt");
    let expected = WorkerSummary { completed: 1, ..WorkerSummary::default() };
    assert_eq!(outage.worker.drain().await, expected);
    let attempts = super::engine_namespace(&outage.engine)
        .await
        .attempts(outage.id)
        .await
        .expect("the attempts are listed");
    assert_eq!(attempts.len(), 1);
    outage.engine.shutdown().await;
}

#[tokio::test]
async fn a_report_that_does_not_reach_the_store_is_retried() {
    completes_once_after_the_outage(Link::Down).await;
}

#[tokio::test]
async fn a_report_whose_answer_was_lost_is_retried_and_counts_once() {
    completes_once_after_the_outage(Link::AnswersLost).await;
}

#[tokio::test]
async fn a_drain_ends_in_bounded_time_even_if_the_store_stays_unavailable() {
    let outage = outage(Link::Down, Duration::ZERO).await;
    let expected = WorkerSummary { aborted: 1, ..WorkerSummary::default() };
    assert_eq!(outage.worker.drain().await, expected);
    outage.unreliable.set_link(Link::Up);
    outage.engine.shutdown().await;
}
