//! Calls of a model against a budget of tokens. A call that finds the budget used up is held, and runs when a person has granted
//! more. Arguments: see `run`.

mod run;

use run::ExampleError;
use selvedge::events::{EventFilter, From};
use selvedge::limits::BudgetSettings;
use selvedge::{Amount, Context, ExecutionId, Failure, Namespace, Submission, Worker};
use std::time::Duration;

async fn ask(ctx: Context) -> Result<u32, Failure> {
    let tokens: u32 = ctx.input()?;
    // Counts once, also if the process dies before the call has ended.
    ctx.usage_once("tokens", ctx.idempotency_key(), [("tokens", Amount::whole(tokens))]).await?;
    Ok(tokens)
}

fn worker(namespace: Namespace) -> Worker {
    Worker::new(namespace, "models").concurrency(1).handler("ask", ask)
}

async fn program(namespace: Namespace) -> Result<(), ExampleError> {
    let budget = |tokens| BudgetSettings::new().limit("tokens", tokens, None);
    namespace.set_budget("tokens", budget(1000)).await?;
    let call = || Submission::new("ask").input(&1000).map(|call| call.budget("tokens"));
    let first = call()?.submit(&namespace).await?.execution.id;
    wait_for(&namespace, "budget.hard_breach", None).await?;
    println!("the budget is used up");

    let second = call()?.submit(&namespace).await?.execution.id;
    wait_for(&namespace, "execution.held", Some(second)).await?;
    println!("the second call is held");

    namespace.set_budget("tokens", budget(10_000)).await?;
    for id in [first, second] {
        let ended = namespace.result(id, Duration::from_secs(30)).await?.ok_or("a call has not ended")?;
        println!("spent {} tokens", ended.json::<u32>()?);
    }
    Ok(())
}

/// Waits for an event.
async fn wait_for(
    namespace: &Namespace,
    event: &str,
    execution: Option<ExecutionId>,
) -> Result<(), ExampleError> {
    let filter = EventFilter { types: vec![event.into()], execution, ..EventFilter::default() };
    namespace.subscribe(filter, From::Beginning).await?.next().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), ExampleError> {
    run::example(worker, program).await
}
