//! The worker of a scenario.

use crate::AdapterError;
use crate::actions::{End, Scope, run_list};
use selvedge::{Client, Context, Failure, Return, Worker};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Runs the worker until SIGTERM, then drains.
pub async fn run(client: Client, file: &str) -> Result<(), AdapterError> {
    let scenario: Value = serde_json::from_slice(&std::fs::read(file)?)?;
    let gates: Arc<PathBuf> = Arc::new(scenario["gates"].as_str().unwrap_or_default().into());
    let settings = &scenario["worker"];
    let mut stop = signal(SignalKind::terminate())?;
    let millis = |name: &str| Duration::from_millis(settings[name].as_u64().unwrap_or_default());
    let mut worker = Worker::new(client.namespace("default")?, settings["name"].as_str().unwrap_or("suite"))
        .concurrency(settings["concurrency"].as_u64().unwrap_or(10) as usize)
        .lease_ttl(millis("lease_ttl_ms"))
        .grace(millis("grace_ms"));
    for lane in texts(&settings["lanes"]) {
        worker = worker.lane(lane);
    }
    for capability in texts(&settings["capabilities"]) {
        worker = worker.capability(capability);
    }
    for (kind, task) in scenario["tasks"].as_object().into_iter().flatten() {
        worker = match task["batch"].as_u64() {
            Some(max) => {
                let actions = list(&task["actions"]);
                worker.batch(kind, max as usize, move |batch| run_batch(batch, actions.clone()))
            }
            None => {
                let (actions, gates) = (list(task), gates.clone());
                worker.handler(kind, move |ctx: Context| handle(ctx, actions.clone(), gates.clone()))
            }
        };
    }
    worker
        .run(async move {
            stop.recv().await;
        })
        .await?;
    Ok(())
}

fn list(actions: &Value) -> Vec<Value> {
    actions.as_array().cloned().unwrap_or_default()
}

fn texts(values: &Value) -> impl Iterator<Item = &str> {
    values.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// The variables that every handler has.
fn variables(ctx: &Context) -> Result<BTreeMap<String, Value>, Failure> {
    Ok(BTreeMap::from([
        ("input".into(), ctx.input()?),
        ("attempt".into(), ctx.attempt().into()),
        ("execution".into(), ctx.execution().to_string().into()),
        ("key".into(), ctx.idempotency_key().into()),
    ]))
}

async fn handle(ctx: Context, actions: Vec<Value>, gates: Arc<PathBuf>) -> Result<Return, Failure> {
    let scope = Scope { variables: variables(&ctx)?, gates };
    match run_list(ctx, actions, scope).await? {
        End::Value(value) => Return::complete(&value),
        End::Cancelled => Ok(Return::Cancelled),
    }
}

/// Interprets the list for each claim of a call, in order.
async fn run_batch(batch: Vec<Context>, actions: Vec<Value>) -> Vec<Result<Return, Failure>> {
    let count = batch.len();
    let mut results = Vec::with_capacity(count);
    for ctx in batch {
        let mut variables = match variables(&ctx) {
            Ok(variables) => variables,
            Err(failure) => {
                results.push(Err(failure));
                continue;
            }
        };
        variables.insert("batch".into(), count.into());
        let scope = Scope { variables, gates: Arc::default() };
        let end = run_list(ctx, actions.clone(), scope).await;
        results.push(end.and_then(|end| match end {
            End::Value(value) => Return::complete(&value),
            End::Cancelled => Ok(Return::Cancelled),
        }));
    }
    results
}
