//! An agent that calls tools in a loop until its model is satisfied. Every call of the model and of a tool is a durable step,
//! so a crash in the middle repeats none of them. The model is a stand-in. Arguments: see `run`.

mod run;

use run::ExampleError;
use selvedge::{Backoff, Context, Failure, Namespace, Submission, Worker};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Clone, Debug, Deserialize, Serialize)]
enum Decision {
    Multiply(u64, u64),
    Done(u64),
}

/// Stands in for a language model: decides by what it has seen so far.
fn model(goal: u64, seen: &[u64]) -> Decision {
    match seen.last() {
        Some(last) if *last >= goal => Decision::Done(*last),
        Some(last) => Decision::Multiply(*last, 2),
        None => Decision::Multiply(1, 3),
    }
}

async fn agent(ctx: Context) -> Result<String, Failure> {
    let goal: u64 = ctx.input()?;
    let mut seen = Vec::new();
    for turn in 0..20 {
        let decision = ctx.step(format!("model {turn}"), || async { Ok(model(goal, &seen)) }).await?;
        match decision {
            Decision::Done(answer) => return Ok(format!("{answer} after {turn} calls of the tool")),
            Decision::Multiply(a, b) => {
                seen.push(ctx.step(format!("multiply {turn}"), || async move { Ok(a * b) }).await?);
            }
        }
        // A crash: the next attempt passes through the recorded steps and continues here.
        if turn == 2 && ctx.attempt() == 0 {
            return Err(Failure::transient("the process was killed"));
        }
    }
    Err(Failure::permanent("the agent does not come to an end"))
}

fn worker(namespace: Namespace) -> Worker {
    Worker::new(namespace, "agents").handler("agent", agent)
}

async fn program(namespace: Namespace) -> Result<(), ExampleError> {
    let agent = Submission::new("agent").input(&40)?.backoff(Backoff::Fixed { delay_ms: 10 });
    let id = agent.submit(&namespace).await?.execution.id;
    let ended = namespace.result(id, Duration::from_secs(30)).await?.ok_or("the execution has not ended")?;
    println!("{}", ended.json::<String>()?);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), ExampleError> {
    run::example(worker, program).await
}
