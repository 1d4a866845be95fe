//! A flow in the form of a diamond: one node, two that run in parallel, and one that joins them. Arguments: see `run`.

mod run;

use run::ExampleError;
use selvedge::{Context, Failure, Flow, Namespace, Submission, Worker};
use std::time::Duration;

fn worker(namespace: Namespace) -> Worker {
    Worker::new(namespace, "numbers")
        .handler("load", |ctx: Context| async move { ctx.input::<Vec<u32>>() })
        .handler("sum", |ctx: Context| async move {
            Ok::<_, Failure>(ctx.upstream::<Vec<u32>>("load")?.iter().sum::<u32>())
        })
        .handler("largest", |ctx: Context| async move {
            Ok::<_, Failure>(ctx.upstream::<Vec<u32>>("load")?.into_iter().max())
        })
        .handler("report", |ctx: Context| async move {
            let (sum, largest): (u32, u32) = (ctx.upstream("sum")?, ctx.upstream("largest")?);
            Ok::<_, Failure>(format!("the sum is {sum}, the largest number {largest}"))
        })
}

async fn program(namespace: Namespace) -> Result<(), ExampleError> {
    let flow = Flow::new()
        .name("diamond")
        .node("load", Submission::new("load").input(&[3, 5, 7])?)
        .node("sum", "sum")
        .node("largest", "largest")
        .node("report", "report")
        .after("sum", ["load"])
        .after("largest", ["load"])
        .after("report", ["sum", "largest"]);
    let flow = namespace.submit_flow(flow).await?;
    let result = flow.result(Duration::from_secs(30)).await?.ok_or("the flow has not ended")?;
    println!("{}", result.of::<String>("report")?);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), ExampleError> {
    run::example(worker, program).await
}
