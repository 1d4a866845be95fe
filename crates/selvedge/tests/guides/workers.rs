//! The guide to workers: settings, retries, cancellation, drain.

use crate::{ended, engine, reaches};
use selvedge::{Context, Error, Failure, Namespace, Outcome, State, Submission, Worker, WorkerSummary};
use std::future::Future;
use std::time::Duration;
use tokio::sync::oneshot;

/// Stands for the work.
async fn convert_part(_film: &str, _part: u32) {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

// region: worker
async fn convert(ctx: Context) -> Result<String, Failure> {
    let (film, parts): (String, u32) = ctx.input()?;
    if parts == 0 {
        return Err(Failure::permanent(format!("{film} is empty"))); // not retried
    }
    for part in 0..parts {
        if ctx.is_cancelled() {
            return Err(Failure::transient("stopped")); // ends as cancelled
        }
        convert_part(&film, part).await;
        ctx.progress(100.0 * f64::from(part) / f64::from(parts), "converting").await?;
    }
    Ok(format!("{film}, {parts} parts"))
}

async fn run(
    namespace: Namespace,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<WorkerSummary, Error> {
    Worker::new(namespace, "media")
        .lane("media")
        .concurrency(4)
        .grace(Duration::from_secs(20))
        .handler("convert", convert)
        .run(shutdown) // drains when the future resolves, for example on a signal
        .await
}
// endregion: worker

#[tokio::test]
async fn a_worker_converts_films_until_it_is_stopped() -> Result<(), Error> {
    let (engine, namespace) = engine().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = tokio::spawn(run(namespace.clone(), async { drop(stopped.await) }));

    // region: submit
    let film = Submission::new("convert").input(&("cat.mov", 4))?.lane("media").max_retries(5);
    let id = film.idempotency_key("cat.mov").submit(&namespace).await?.execution.id;
    let ended_in_time = namespace.result(id, Duration::from_secs(60)).await?;
    // endregion: submit
    assert_eq!(ended_in_time.expect("the film is converted").json::<String>()?, "cat.mov, 4 parts");

    let empty = Submission::new("convert").input(&("dog.mov", 0))?.lane("media").submit(&namespace).await?;
    assert_eq!(ended(&namespace, empty.execution.id).await.outcome, Outcome::Failed);
    let long = Submission::new("convert").input(&("film.mov", 1_000_000))?.lane("media");
    let long = long.submit(&namespace).await?.execution.id;
    reaches(&namespace, long, State::Active).await;
    // region: cancel
    namespace.cancel(long).reason("the film was withdrawn").grace(Duration::from_secs(30)).await?;
    // endregion: cancel
    assert_eq!(ended(&namespace, long).await.outcome, Outcome::Cancelled);
    stop.send(()).expect("the worker runs");
    assert_eq!(worker.await.expect("the worker does not panic")?.completed, 1);
    engine.shutdown().await;
    Ok(())
}
