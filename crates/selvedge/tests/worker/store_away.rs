//! What becomes of a worker's reports while the store is away.

use super::LONG;
use super::cut_off::{CutOff, Line};
use selvedge::{Context, Drained, Engine, Failure, Namespace, Options, Outcome, Submission, Worker};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};

/// One execution in the hands of a worker with one slot, on a line that is then set to `line`.
struct Running {
    engine: Engine,
    namespace: Namespace,
    store: Arc<CutOff>,
    gate: Arc<Semaphore>,
    worker: selvedge::Handle,
    id: selvedge::ExecutionId,
}

async fn running(line: Line, grace: Duration) -> Running {
    let store = CutOff::new(selvedge::open("memory:").await.expect("it opens"));
    // Reconcilers would spend failures of the line too.
    let options = Options { reconcilers: false, ..Options::default() };
    let engine = Engine::start(store.clone(), options).await.expect("it starts");
    let namespace = engine.namespace("default").await.expect("it is there");
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
    let submitted = Submission::new("k").submit(&namespace).await.expect("is accepted");
    starts.recv().await.expect("the handler runs");
    store.set(line);
    Running { engine, namespace, store, gate, worker, id: submitted.execution.id }
}

async fn completes_once_when_the_line_is_up_again(line: Line) {
    let running = running(line, LONG).await;
    running.gate.add_permits(1);
    // More than its heartbeats: its report is among them.
    running.store.failures(3).await;
    running.store.set(Line::Up);
    let ended = running.namespace.result(running.id, LONG).await.expect("it is read");
    let ended = ended.expect("it ends in time");
    assert_eq!(ended.outcome, Outcome::Completed);
    assert_eq!(ended.result.as_deref(), Some(b"0".as_slice()), "the first attempt's");
    let expected = Drained { completed: 1, ..Drained::default() };
    assert_eq!(running.worker.drain().await, expected);
    let attempts = running.namespace.attempts(running.id).await.expect("are kept");
    assert_eq!(attempts.len(), 1);
    running.engine.shutdown().await;
}

#[tokio::test]
async fn a_report_that_does_not_reach_the_store_is_repeated() {
    completes_once_when_the_line_is_up_again(Line::Down).await;
}

#[tokio::test]
async fn a_report_whose_answer_was_lost_is_repeated_and_counts_once() {
    completes_once_when_the_line_is_up_again(Line::Mute).await;
}

#[tokio::test]
async fn a_drain_ends_in_bounded_time_even_if_the_store_stays_away() {
    let running = running(Line::Down, Duration::ZERO).await;
    let drained = running.worker.drain().await;
    let expected = Drained { aborted: 1, ..Drained::default() };
    assert_eq!(drained, expected);
    running.store.set(Line::Up);
    running.engine.shutdown().await;
}
