//! A handler that fails twice and is retried. Its durable step runs once, over all attempts. Arguments: see `run`.

mod run;

use run::ExampleError;
use selvedge::{Backoff, Context, Failure, Namespace, Submission, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

async fn order(ctx: Context, charged: Arc<AtomicU32>) -> Result<String, Failure> {
    let receipt: u32 = ctx
        .step("charge", || async move {
            // The key is the same in every attempt, so the payment service recognises a repeat.
            Ok(charged.fetch_add(1, Ordering::SeqCst) + 1)
        })
        .await?;
    if ctx.attempt() < 2 {
        return Err(Failure::transient("the warehouse does not answer"));
    }
    Ok(format!("shipped after {} attempts, charged {receipt} time", ctx.attempt() + 1))
}

fn worker(namespace: Namespace) -> Worker {
    let charged = Arc::new(AtomicU32::new(0));
    Worker::new(namespace, "shop").handler("order", move |ctx: Context| order(ctx, charged.clone()))
}

async fn program(namespace: Namespace) -> Result<(), ExampleError> {
    let order = Submission::new("order").max_retries(5).backoff(Backoff::Fixed { delay_ms: 10 });
    let id = order.submit(&namespace).await?.execution.id;
    let ended = namespace.result(id, Duration::from_secs(30)).await?.ok_or("the execution has not ended")?;
    println!("{}", ended.json::<String>()?);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), ExampleError> {
    run::example(worker, program).await
}
