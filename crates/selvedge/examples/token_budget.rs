//! Calls of a model against a budget of tokens. A call that finds the budget used up is held, and runs when a person has reset
//! it. The address is the first argument.

use selvedge::limits::BudgetSettings;
use selvedge::{Amount, Context, Failure, Submission, Worker};
use std::time::Duration;

async fn ask(ctx: Context) -> Result<u32, Failure> {
    let tokens: u32 = ctx.input()?;
    ctx.usage("tokens", [("tokens", Amount::whole(tokens))]).await?;
    Ok(tokens)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let connection = selvedge::connect(&address).await?;
    let namespace = connection.namespace("default").await?;
    namespace.set_budget("tokens", BudgetSettings::new().limit("tokens", 1000, None)).await?;
    let worker = Worker::new(namespace.clone(), "models").concurrency(1).handler("ask", ask).start()?;

    let call = || Submission::new("ask").input(&1000).map(|call| call.budget("tokens"));
    let first = call()?.submit(&namespace).await?.execution.id;
    namespace.result(first, Duration::from_secs(30)).await?.ok_or("the first call has not ended")?;
    println!("spent {:?}", namespace.budget("tokens").await?.usage.keys().collect::<Vec<_>>());

    let second = call()?.submit(&namespace).await?.execution.id;
    let held = namespace.result(second, Duration::from_millis(300)).await?.is_none();
    println!("the second call is held: {held}");

    namespace.reset_budget("tokens").await?;
    namespace.result(second, Duration::from_secs(30)).await?.ok_or("the second call has not ended")?;
    println!("the second call ran after the reset");

    worker.drain().await;
    connection.close().await;
    Ok(())
}
