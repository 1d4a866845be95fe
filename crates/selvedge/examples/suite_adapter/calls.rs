//! The client of a scenario.

use crate::actions::amounts;
use crate::{AdapterError, print};
use selvedge::events::{EventFilter, From};
use selvedge::{
    Backoff, Client, EdgeCondition, Ended, Error, ExecutionId, Flow, FlowId, Join, Namespace, Retry, Signal,
    Submission, Submitted, WaitpointId,
};
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
        let (client, namespace) = (client.clone(), client.namespace("default")?);
        running.spawn(async move {
            let id = call["id"].clone();
            print(&match answer(&client, &namespace, &call).await {
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

async fn answer(client: &Client, namespace: &Namespace, call: &Value) -> Result<Value, CallError> {
    let text = |name: &str| call[name].as_str().unwrap_or_default();
    let id = |name: &str| Uuid::parse_str(text(name)).map_err(|_| wrong(name));
    let execution = || id("execution").map(ExecutionId);
    let wait = Duration::from_millis(call["timeout_ms"].as_u64().unwrap_or_default());
    let http = client.http();
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
        // Settings of these have no method of the SDK that takes their JSON; its HTTP client does.
        "put_budget" => sent(http.put(&["budgets", text("name")]).json(&call["budget"])).await,
        "put_schedule" => sent(http.put(&["schedules", text("name")]).json(&call["schedule"])).await,
        "run_schedule" => {
            let run = sent(http.post(&["schedules", text("name"), "run"])).await?;
            let id = if run["execution"].is_object() { &run["execution"]["id"] } else { &run["execution"] };
            Ok(json!({ "execution": id }))
        }
        "delete_schedule" => {
            sent(http.delete(&["schedules", text("name")])).await?;
            Ok(json!({ "removed": true }))
        }
        other => Err(wrong(&format!("the adapter does not know the call {other:?}"))),
    }
}

async fn sent(request: selvedge_client::Request) -> Result<Value, CallError> {
    let answer = request.send().await.map_err(Error::from)?;
    Ok(answer.json().map_err(Error::from)?)
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

fn submission(fields: &Value) -> Result<Submission, CallError> {
    let mut submission = Submission::new(fields["kind"].as_str().unwrap_or_default());
    if let Some(input) = fields.get("input") {
        submission = submission.input(input)?;
    }
    if let Some(lane) = fields["lane"].as_str() {
        submission = submission.lane(lane);
    }
    if let Some(key) = fields["idempotency_key"].as_str() {
        submission = submission.idempotency_key(key);
    }
    for (name, value) in fields["tags"].as_object().into_iter().flatten() {
        submission = submission.tag(name, value.as_str().unwrap_or_default());
    }
    if let Some(delay) = fields["delay_ms"].as_u64() {
        submission = submission.delay(Duration::from_millis(delay));
    }
    if fields["retry"].is_object() {
        submission = submission.retry(retry(&fields["retry"])?);
    }
    for budget in fields["budgets"].as_array().into_iter().flatten() {
        submission = match budget.as_str() {
            Some(name) => submission.budget(name),
            None => submission
                .budget_reserving(budget["name"].as_str().unwrap_or_default(), amounts(&budget["reserve"])),
        };
    }
    for capability in fields["capabilities"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        submission = submission.capability(capability);
    }
    Ok(submission)
}

fn retry(fields: &Value) -> Result<Retry, CallError> {
    let mut retry = Retry::default();
    if let Some(max) = fields["max_retries"].as_u64() {
        retry.max_retries = max as u32;
    }
    if let Some(max) = fields["max_interruptions"].as_u64() {
        retry.max_interruptions = max as u32;
    }
    let number = |name: &str, default: i64| fields["backoff"][name].as_i64().unwrap_or(default);
    match fields["backoff"]["type"].as_str() {
        Some("fixed") => retry.backoff = Backoff::Fixed { delay_ms: number("delay_ms", 0) },
        Some(_) => {
            retry.backoff = Backoff::Exponential {
                initial_ms: number("initial_ms", 1000),
                multiplier: fields["backoff"]["multiplier"].as_f64().unwrap_or(2.0),
                max_ms: number("max_ms", 60_000),
                jitter: fields["backoff"]["jitter"].as_bool().unwrap_or(true),
            }
        }
        None => {}
    }
    Ok(retry)
}

fn flow(fields: &Value) -> Result<Flow, CallError> {
    let mut flow = Flow::new();
    if let Some(name) = fields["name"].as_str() {
        flow = flow.name(name);
    }
    if let Some(key) = fields["idempotency_key"].as_str() {
        flow = flow.idempotency_key(key);
    }
    for node in fields["nodes"].as_array().into_iter().flatten() {
        let name = node["name"].as_str().unwrap_or_default();
        flow = flow.node(name, submission(node)?);
        let when = node["when"].as_str().and_then(EdgeCondition::parse).unwrap_or_default();
        for upstream in node["after"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            flow = flow.edge_when(upstream, name, when);
        }
        flow = match (node["policy"].as_str(), node["policy"]["quorum"].as_u64()) {
            (Some("any_of"), _) => flow.join(name, Join::any_of()),
            (_, Some(k)) => flow.join(name, Join::quorum(k as u32)),
            _ => flow,
        };
    }
    Ok(flow)
}
