//! First flow: one node, two that work on its result in parallel, and one that joins them. The address is the first argument.

use selvedge::{Context, Failure, Flow, Submission, Worker};
use std::time::Duration;

async fn download(ctx: Context) -> Result<String, Failure> {
    let picture: String = ctx.input()?;
    Ok(format!("bytes of {picture}"))
}

async fn resize(ctx: Context) -> Result<String, Failure> {
    let width: u32 = ctx.input()?;
    let picture: String = ctx.upstream("download")?;
    Ok(format!("{picture} at {width}"))
}

async fn publish(ctx: Context) -> Result<Vec<String>, Failure> {
    Ok(vec![ctx.upstream("small")?, ctx.upstream("large")?])
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:7878".into());
    let connection = selvedge::connect(&address).await?;
    let namespace = connection.namespace("default").await?;
    let worker = Worker::new(namespace.clone(), "pictures")
        .handler("download", download)
        .handler("resize", resize)
        .handler("publish", publish)
        .start()?;

    let flow = Flow::new()
        .name("picture")
        .node("download", Submission::new("download").input("cat.jpg")?)
        .node("small", Submission::new("resize").input(&200)?)
        .node("large", Submission::new("resize").input(&800)?)
        .node("publish", "publish")
        .after("small", ["download"])
        .after("large", ["download"])
        .after("publish", ["small", "large"]);
    let flow = namespace.submit_flow(flow).await?;
    let ended = flow.result(Duration::from_secs(60)).await?.ok_or("the flow has not ended")?;
    println!("{:?}", ended.of::<Vec<String>>("publish")?);

    worker.drain().await;
    connection.close().await;
    Ok(())
}
