//! Measures handlers that do nothing, from submission to completion, through the worker of this SDK: the figure beside
//! `selvedge bench queue --http`, with the same numbers of submitters, workers and outstanding executions. Arguments: the
//! address, and the number of executions.

use selvedge::{Context, Error, Failure, Submission, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

/// The number of executions in one submission.
const BATCH: u64 = 100;
/// The number of tasks that submit.
const SUBMITTERS: u64 = 4;
/// The most executions that are submitted and not yet handled.
const OUTSTANDING: usize = 800;
/// The number of workers, and of the slots of each.
const WORKERS: (usize, usize) = (4, 100);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "memory:".into());
    let executions: u64 = arguments.next().map_or(Ok(1000), |number| number.parse())?;
    let connection = selvedge::connect(&address).await?;
    let namespace = connection.namespace("default").await?;
    let (window, handled, all) =
        (Arc::new(Semaphore::new(OUTSTANDING)), Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));

    let mut workers = Vec::new();
    for _ in 0..WORKERS.0 {
        let (window, handled, all) = (window.clone(), handled.clone(), all.clone());
        let worker = Worker::new(namespace.clone(), "noop").concurrency(WORKERS.1);
        workers.push(
            worker
                .handler("noop", move |_: Context| {
                    window.add_permits(1);
                    if handled.fetch_add(1, Ordering::SeqCst) + 1 == executions {
                        all.notify_one();
                    }
                    async { Ok::<_, Failure>(()) }
                })
                .start()?,
        );
    }
    let began = Instant::now();
    let batches = Arc::new(AtomicU64::new(0));
    let mut submitters = JoinSet::new();
    for _ in 0..SUBMITTERS {
        let (namespace, window, batches) = (namespace.clone(), window.clone(), batches.clone());
        submitters.spawn(async move {
            loop {
                let first = batches.fetch_add(1, Ordering::SeqCst) * BATCH;
                let size = BATCH.min(executions.saturating_sub(first));
                if size == 0 {
                    return Ok::<_, Error>(());
                }
                window.acquire_many(size as u32).await.expect("the window is never closed").forget();
                for submitted in namespace.submit_many((0..size).map(|_| Submission::new("noop"))).await? {
                    submitted?;
                }
            }
        });
    }
    for submitted in submitters.join_all().await {
        submitted?;
    }
    all.notified().await;
    let mut completed = 0;
    for worker in workers {
        completed += worker.drain().await.completed;
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{completed} completed, {:.0} per second", completed as f64 / seconds);
    connection.close().await;
    Ok(())
}
