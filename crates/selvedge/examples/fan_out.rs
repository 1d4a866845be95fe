//! A parent spawns a child for each document. A quota limits the calls of the service that all of them use, and a document that
//! the service refuses backs off. Arguments: see `run`.

mod run;

use run::ExampleError;
use selvedge::limits::{QuotaSettings, Rate};
use selvedge::{Backoff, Context, Failure, Namespace, Nodes, Submission, Worker};
use std::time::Duration;

async fn summarise(ctx: Context) -> Result<usize, Failure> {
    let document: String = ctx.input()?;
    if ctx.attempt() == 0 && document.ends_with('7') {
        return Err(Failure::transient("429: too many requests").retry_after(Duration::from_millis(100)));
    }
    Ok(document.len())
}

async fn summarise_all(ctx: Context) -> Result<String, Failure> {
    let documents: Vec<String> = ctx.input()?;
    let mut children = Nodes::new();
    for (number, document) in documents.iter().enumerate() {
        let backoff = Backoff::Exponential { initial_ms: 100, multiplier: 2.0, max_ms: 10_000, jitter: true };
        let child =
            Submission::new("summarise").input(document)?.quota("service").max_retries(5).backoff(backoff);
        children = children.node(format!("document-{number}"), child);
    }
    ctx.spawn(children).await?;
    // Occupies no worker while the children run.
    let children = ctx.join("summaries").await?;
    let mut characters = 0;
    for child in &children {
        characters += serde_json::from_slice::<usize>(child.result.as_deref().unwrap_or(b"0"))?;
    }
    Ok(format!("{} documents with {characters} characters", children.len()))
}

fn worker(namespace: Namespace) -> Worker {
    Worker::new(namespace, "documents")
        .concurrency(20)
        .handler("summarise", summarise)
        .handler("summarise_all", summarise_all)
}

async fn program(namespace: Namespace) -> Result<(), ExampleError> {
    let rate = Some(Rate { count: 200, window_ms: 1000 });
    namespace.set_quota("service", QuotaSettings { concurrency: Some(4), rate }).await?;
    let documents: Vec<String> = (0..20).map(|number| format!("document {number:02}")).collect();
    let id = Submission::new("summarise_all").input(&documents)?.submit(&namespace).await?.execution.id;
    let ended = namespace.result(id, Duration::from_secs(60)).await?.ok_or("the execution has not ended")?;
    println!("{}", ended.json::<String>()?);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), ExampleError> {
    run::example(worker, program).await
}
