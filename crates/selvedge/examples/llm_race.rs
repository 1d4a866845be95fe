//! Two models are asked; the first answer wins and the other call is cancelled. The tokens are streamed. The models are
//! stand-ins, so that the example needs no key. Arguments: see `run`.

mod run;

use run::ExampleError;
use selvedge::{Context, Failure, Flow, Namespace, Outcome, Submission, Worker};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Deserialize, Serialize)]
struct Question {
    model: String,
    token_ms: u64,
}

/// Streams an answer, one token at a time, until it is cancelled.
async fn ask(ctx: Context) -> Result<String, Failure> {
    let Question { model, token_ms } = ctx.input()?;
    let tokens = ["forty", "-", "two"];
    for token in tokens {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(token_ms)) => ctx.frame(token).await?,
            () = ctx.cancelled() => return Err(Failure::transient("another model was faster")),
        }
    }
    Ok(format!("{model}: {}", tokens.concat()))
}

fn worker(namespace: Namespace) -> Worker {
    Worker::new(namespace, "models")
        .handler("ask", ask)
        .handler("answer", |ctx: Context| async move { ctx.winner::<String>() })
}

async fn program(namespace: Namespace) -> Result<(), ExampleError> {
    let question =
        |model: &str, token_ms| Submission::new("ask").input(&Question { model: model.into(), token_ms });
    let race = Flow::race("answer", [question("fast", 10)?, question("thorough", 60_000)?]);
    let flow = namespace.submit_flow(race).await?;
    let result = flow.result(Duration::from_secs(30)).await?.ok_or("the flow has not ended")?;
    println!("{}", result.of::<String>("winner")?);

    let (fast, thorough) = (flow.execution("runner-1"), flow.execution("runner-2"));
    // The frames of the last attempt. A model that was interrupted began its answer again.
    let frames = namespace.frames(fast.ok_or("no such node")?, None, 0, 100).await?.frames;
    println!("streamed {} tokens", frames.len());
    let cancelled = namespace.result(thorough.ok_or("no such node")?, Duration::from_secs(30)).await?;
    let cancelled = cancelled.ok_or("the other call has not ended")?;
    println!("the other call was cancelled: {}", cancelled.outcome == Outcome::Cancelled);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), ExampleError> {
    run::example(worker, program).await
}
