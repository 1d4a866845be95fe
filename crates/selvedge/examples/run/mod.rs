//! Runs an example: its worker and its program in one process, or each in a process of its own.
//!
//! - `EXAMPLE [ADDRESS]`: both. The address is `memory:` by default, or `sqlite:PATH`, `postgres://…`, or a server at `http://…`.
//! - `EXAMPLE ADDRESS worker`: the worker, until the process ends. SELVEDGE_INSTANCE names it, so that a process that is started
//!   again takes the executions of its predecessor over at once.
//! - `EXAMPLE ADDRESS program`: everything but the worker.

use selvedge::{Namespace, Worker};
use std::future::pending;

/// The error of an example.
pub type ExampleError = Box<dyn std::error::Error>;

/// Runs an example as the arguments say.
pub async fn example<F>(
    worker: impl FnOnce(Namespace) -> Worker,
    program: impl FnOnce(Namespace) -> F,
) -> Result<(), ExampleError>
where
    F: Future<Output = Result<(), ExampleError>>,
{
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "memory:".into());
    let connection = selvedge::connect(&address).await?;
    let namespace = connection.namespace("default").await?;
    match arguments.next().as_deref() {
        None => {
            let worker = worker(namespace.clone()).start()?;
            program(namespace).await?;
            worker.drain().await;
        }
        Some("worker") => {
            let worker = worker(namespace);
            let worker = match std::env::var("SELVEDGE_INSTANCE") {
                Ok(instance) => worker.with_instance(instance),
                Err(_) => worker,
            };
            worker.run(pending()).await?;
        }
        Some("program") => program(namespace).await?,
        Some(other) => return Err(format!("{other:?} is neither worker nor program").into()),
    }
    connection.close().await;
    Ok(())
}
