//! What the embedded worker promises, on the store in memory.

mod cut_off;
mod flows;
mod runs;
mod stops;
mod store_away;
mod streams;
mod subscriptions;

use selvedge::{Action, Backoff, Engine, ExecutionId, Name, Namespace, Outcome, Submission};
use serde_json::Value;
use std::time::Duration;

/// Long enough for anything that should happen.
const LONG: Duration = Duration::from_secs(30);

async fn engine() -> (Engine, Namespace) {
    let engine = Engine::open("memory:").await.expect("the engine starts");
    let namespace = engine.namespace("default").await.expect("the namespace is there");
    (engine, namespace)
}

async fn submit(namespace: &Namespace, submission: Submission) -> ExecutionId {
    let submitted = submission.submit(namespace).await.expect("it is accepted");
    submitted.execution.id
}

/// How an execution ended: its outcome, and its result or its error.
async fn ended(namespace: &Namespace, id: ExecutionId) -> (Outcome, Value) {
    let ended = namespace.result(id, LONG).await.expect("it can be read");
    let ended = ended.expect("it ends in time");
    let told = match (ended.result, ended.error) {
        (Some(result), _) => serde_json::from_slice(&result).expect("the result is JSON"),
        (None, Some(error)) => Value::from(error.message),
        (None, None) => Value::Null,
    };
    (ended.outcome, told)
}

fn at_once() -> Backoff {
    Backoff::Fixed { delay_ms: 0 }
}

fn operator() -> Name {
    Name::trusted("operator")
}

async fn operate(namespace: &Namespace, id: ExecutionId, action: Action) {
    let done = namespace.operate(id, action, None, &operator()).await;
    done.expect("the action applies");
}
