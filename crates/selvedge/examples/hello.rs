//! A typed task, a worker and a result. The address is the first argument: `memory:`, `sqlite:PATH`, `postgres://…`, or a
//! server at `http://…`.

use selvedge::{Context, Failure, Submission, Task, Worker};
use std::time::Duration;

struct Greet;

impl Task for Greet {
    const KIND: &'static str = "greet";
    type Input = String;
    type Output = String;

    async fn run(&self, _ctx: Context, name: String) -> Result<String, Failure> {
        Ok(format!("Hello, {name}!"))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let connection = selvedge::connect(&address).await?;
    let namespace = connection.namespace("default").await?;
    let worker = Worker::new(namespace.clone(), "greeter").task(Greet).start()?;

    let id = Submission::task::<Greet>(&"Ada".into())?.submit(&namespace).await?.execution.id;
    let ended = namespace.result(id, Duration::from_secs(30)).await?.ok_or("the execution has not ended")?;
    println!("{}", ended.json::<String>()?);

    worker.drain().await;
    connection.close().await;
    Ok(())
}
