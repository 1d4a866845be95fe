//! The client of a scenario.

use crate::settings::{self, flow, submission};
use crate::{AdapterError, print};
use selvedge::events::{EventFilter, From};
use selvedge::{Client, Ended, Error, ExecutionId, FlowId, Namespace, Signal, Submitted, WaitpointId};
use serde_json::{Value, json};
use std::io::BufRead;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use uuid::Uuid;

/// Answers the calls on standard input until its end.
pub async fn run(client: Client) -> Result<(), AdapterError> {
    let (lines, mut calls) = mpsc::unbounded_channel();
    // A thread of its own, because reading standard input blocks.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    let mut running = JoinSet::new();
    while let Some(line) = calls.recv().await {
        let call: Value = serde_json::from_str(&line)?;
        let namespace = client.namespace("default")?;
        running.spawn(async move {
            let id = call["id"].clone();
            print(&match answer(&namespace, &call).await {
                Ok(value) => json!({ "id": id, "ok": value }),
                Err(failed) => json!({ "id": id, "error": failed.0 }),
            });
        });
    }
    while let Some(done) = running.join_next().await {
        done?;
    }
    Ok(())
}

/// An error as the suite writes it.
struct CallError(Value);

impl std::convert::From<Error> for CallError {
    fn from(error: Error) -> CallError {
        CallError(match error.refusal() {
            Some(refusal) => json!({ "code": refusal.code, "status": refusal.status }),
            None => json!({ "code": "connection", "status": null, "detail": error.to_string() }),
        })
    }
}

fn timed_out() -> CallError {
    CallError(json!({ "code": "timeout", "status": null }))
}

fn wrong(what: &str) -> CallError {
    CallError(json!({ "code": "adapter", "status": null, "detail": what }))
}

async fn answer(namespace: &Namespace, call: &Value) -> Result<Value, CallError> {
    let text = |name: &str| call[name].as_str().unwrap_or_default();
    let id = |name: &str| Uuid::parse_str(text(name)).map_err(|_| wrong(name));
    let execution = || id("execution").map(ExecutionId);
    let wait = Duration::from_millis(call["timeout_ms"].as_u64().unwrap_or_default());
    match text("call") {
        "submit" => Ok(submitted(&namespace.submit(submission(call)?).await?)),
        "submit_batch" => {
            let all = call["executions"].as_array().into_iter().flatten();
            let all = all.map(submission).collect::<Result<Vec<_>, _>>()?;
            let results = namespace.submit_many(all).await?.into_iter().map(|result| match result {
                Ok(done) => submitted(&done),
                Err(error) => json!({ "error": CallError::from(error).0 }),
            });
            Ok(results.collect())
        }
        "submit_flow" => {
            let flow = namespace.submit_flow(flow(call)?).await?;
            Ok(json!({ "flow": flow.id(), "executions": flow.executions(), "duplicate": flow.duplicate() }))
        }
        "result" => match namespace.result(execution()?, wait).await? {
            Some(end) => Ok(ended(&end)),
            None => Err(timed_out()),
        },
        "flow_result" => match namespace.flow_result(FlowId(id("flow")?), wait).await? {
            Some(end) => {
                let results = end.results.iter().map(|(name, end)| (name.clone(), ended(end)));
                let results: serde_json::Map<String, Value> = results.collect();
                Ok(json!({ "outcome": end.state.as_str(), "results": results }))
            }
            None => Err(timed_out()),
        },
        "get" => {
            let found = namespace.get(execution()?).await?;
            Ok(json!({
                "id": found.id, "kind": found.kind, "lane": found.lane, "state": found.state.as_str(),
                "outcome": found.outcome, "flow_id": found.flow, "node": found.node, "priority": found.priority,
                "attempts": found.attempts, "generation": found.generation, "tags": found.tags,
                "input": found.input.as_deref().map(parsed), "result": found.result.as_deref().map(parsed),
                "error": found.error.map(|error| json!({ "message": error.message, "class": error.class })),
                "progress": found.progress.map(|progress| json!({ "percent": progress.percent, "message": progress.message })),
                "cancel_requested": found.cancel_requested, "version": found.version,
            }))
        }
        "cancel" => {
            let mut cancel = namespace.cancel(execution()?);
            if let Some(reason) = call["reason"].as_str() {
                cancel = cancel.reason(reason);
            }
            if let Some(grace) = call["grace_ms"].as_u64() {
                cancel = cancel.grace(Duration::from_millis(grace));
            }
            Ok(json!({ "state": cancel.await?.state.as_str() }))
        }
        "signal" => {
            let mut signal = Signal::new(text("name")).payload(&call["payload"])?;
            if let Some(key) = call["idempotency_key"].as_str() {
                signal = signal.idempotency_key(key);
            }
            let delivered = namespace.signal(execution()?, signal).await?;
            Ok(json!({ "effect": delivered.effect.as_str(), "duplicate": delivered.duplicate }))
        }
        "answer" => {
            let signal = match call["name"].as_str() {
                Some(name) => Signal::new(name),
                None => Signal::for_waitpoint(),
            };
            let signal = signal.payload(&call["payload"])?;
            let delivered = namespace.deliver(WaitpointId(id("waitpoint")?), text("token"), signal).await?;
            Ok(json!({ "effect": delivered.effect.as_str() }))
        }
        "events" => events(namespace, call).await,
        "tail" => {
            let mut tail = namespace.tail(execution()?, None, 0).await?;
            while let Some(frames) = tail.next().await? {
                for frame in frames {
                    let item = json!({ "number": frame.number, "kind": frame.kind.as_str(), "data": frame.json::<Value>()? });
                    print(&json!({ "id": call["id"], "item": item }));
                }
            }
            Ok(Value::Null)
        }
        "put_budget" => {
            namespace.set_budget(text("name"), settings::budget(&call["budget"])).await?;
            Ok(json!({ "name": text("name") }))
        }
        "put_schedule" => {
            let schedule =
                namespace.set_schedule(text("name"), settings::schedule(&call["schedule"])?).await?;
            Ok(json!({
                "name": schedule.name, "cron": schedule.cron, "time_zone": schedule.time_zone,
                "overlap": schedule.overlap.as_str(), "catch_up": schedule.catch_up.as_str(), "paused": schedule.paused,
            }))
        }
        "run_schedule" => {
            let run = namespace.run_schedule(text("name")).await?;
            Ok(json!({ "execution": run.execution() }))
        }
        "delete_schedule" => {
            namespace.remove_schedule(text("name")).await?;
            Ok(json!({ "removed": true }))
        }
        other => Err(wrong(&format!("the adapter does not know the call {other:?}"))),
    }
}

async fn events(namespace: &Namespace, call: &Value) -> Result<Value, CallError> {
    let types = call["types"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let execution = call["execution"].as_str().and_then(|id| Uuid::parse_str(id).ok());
    let filter = EventFilter {
        types: types.map(str::to_owned).collect(),
        execution: execution.map(ExecutionId),
        ..EventFilter::default()
    };
    let from = match call["after"].as_str() {
        Some(cursor) => From::Cursor(cursor.into()),
        None => From::Beginning,
    };
    let mut subscription = namespace.subscribe(filter, from).await?;
    for _ in 0..call["count"].as_u64().unwrap_or_default() {
        let event = subscription.next().await?;
        let item = json!({
            "cursor": event.cursor, "type": event.kind, "namespace": event.namespace, "execution": event.execution,
            "flow": event.flow, "version": event.version, "actor": event.actor, "data": event.data,
        });
        print(&json!({ "id": call["id"], "item": item }));
    }
    Ok(Value::Null)
}

fn parsed(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap_or(Value::Null)
}

fn submitted(done: &Submitted) -> Value {
    json!({ "execution": done.execution.id, "duplicate": done.duplicate })
}

fn ended(end: &Ended) -> Value {
    let error = end.error.as_ref().map(|error| json!({ "message": error.message, "class": error.class }));
    json!({ "outcome": end.outcome, "result": end.result.as_deref().map(parsed), "error": error })
}
