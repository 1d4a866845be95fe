//! The Rust code of the guides in `docs/guides`, one module for each guide, of `README.md` and of `docs/sdk-rust.md`.
//! `scripts/docs-code` copies the regions into the pages.

mod budgets;
mod first_flow;
mod flows;
mod moving;
mod operating;
mod people;
mod readme;
mod sdk;
mod steps;
mod testing;
mod workers;

use selvedge::{Ended, Engine, ExecutionId, Namespace, State};
use std::time::Duration;

/// Upper bound for everything that is expected to happen.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An engine in memory with its namespace `default`.
async fn engine() -> (Engine, Namespace) {
    let engine = Engine::open("memory:").await.expect("the engine starts");
    let namespace = engine.namespace("default").await.expect("the namespace exists");
    (engine, namespace)
}

/// Waits for the end of an execution.
async fn ended(namespace: &Namespace, id: ExecutionId) -> Ended {
    namespace.result(id, TIMEOUT).await.expect("the execution exists").expect("the execution ends")
}

/// Waits until an execution is in a state.
async fn reaches(namespace: &Namespace, id: ExecutionId, state: State) {
    let wait = async {
        while namespace.get(id).await.expect("the execution exists").state != state {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, wait).await.expect("the state is reached in time");
}
