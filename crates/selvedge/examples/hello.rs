//! A typed task, a worker and a result. Arguments: see `run`.

mod run;

use run::ExampleError;
use selvedge::{Context, Failure, Namespace, Submission, Task, Worker};
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

fn worker(namespace: Namespace) -> Worker {
    Worker::new(namespace, "greeter").task(Greet)
}

async fn program(namespace: Namespace) -> Result<(), ExampleError> {
    let id = Submission::task::<Greet>(&"Ada".into())?.submit(&namespace).await?.execution.id;
    let ended = namespace.result(id, Duration::from_secs(30)).await?.ok_or("the execution has not ended")?;
    println!("{}", ended.json::<String>()?);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), ExampleError> {
    run::example(worker, program).await
}
