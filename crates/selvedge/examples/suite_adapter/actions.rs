//! The actions of a handler.

use crate::print;
use selvedge::{
    Amount, Context, Failure, FailureClass, FrameKind, Nodes, SignalWaitResult, Submission, Verdict,
    Waitpoint,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The variables of a list of actions, and the directory of gates.
#[derive(Clone)]
pub struct Scope {
    pub variables: BTreeMap<String, Value>,
    pub gates: Arc<PathBuf>,
}

/// The end of a list of actions.
pub enum End {
    Value(Value),
    /// The attempt is cancelled.
    Cancelled,
}

type ListFuture = Pin<Box<dyn Future<Output = Result<End, Failure>> + Send>>;

/// Interprets a list of actions. Its value is that of its first `return`.
pub fn run_list(ctx: Context, actions: Vec<Value>, mut scope: Scope) -> ListFuture {
    Box::pin(async move {
        for action in actions {
            let holds = |(name, wanted): (&String, &Value)| scope.variables.get(name) == Some(wanted);
            if !action["when"].as_object().into_iter().flatten().all(holds) {
                continue;
            }
            let value = match run_action(&ctx, &action, &scope).await? {
                Step::Return(value) => return Ok(End::Value(value)),
                Step::Cancelled => return Ok(End::Cancelled),
                Step::Value(value) => value,
            };
            if let Some(name) = action["as"].as_str() {
                scope.variables.insert(name.into(), value);
            }
        }
        Ok(End::Value(Value::Null))
    })
}

/// Runs a list whose cancellation is a failure, as in a step.
async fn run_inner(ctx: Context, actions: Vec<Value>, scope: Scope) -> Result<Value, Failure> {
    match run_list(ctx, actions, scope).await? {
        End::Value(value) => Ok(value),
        End::Cancelled => Err(Failure::transient("cancelled")),
    }
}

enum Step {
    Value(Value),
    Return(Value),
    Cancelled,
}

impl Scope {
    /// Replaces the variables in a value.
    fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => match text.strip_prefix('$') {
                Some(path) => {
                    let mut parts = path.split('.');
                    let first = parts.next().and_then(|name| self.variables.get(name));
                    let found = parts.try_fold(first.unwrap_or(&Value::Null), |value, part| value.get(part));
                    found.cloned().unwrap_or(Value::Null)
                }
                None => value.clone(),
            },
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| (name.clone(), self.value(value))).collect()
            }
            other => other.clone(),
        }
    }
}

async fn run_action(ctx: &Context, action: &Value, scope: &Scope) -> Result<Step, Failure> {
    let field = |name: &str| scope.value(&action[name]);
    let text = |name: &str| field(name).as_str().unwrap_or_default().to_owned();
    let millis = |name: &str| field(name).as_u64().map(Duration::from_millis);
    let list = |value: &Value| value["actions"].as_array().cloned().unwrap_or_default();
    let value = match action["do"].as_str().unwrap_or_default() {
        "return" => return Ok(Step::Return(field("value"))),
        "note" => {
            note(ctx, &text("note"), field("value"));
            Value::Null
        }
        "fail" => return Err(failure(&text("message"), &text("class"), millis("retry_after_ms"))),
        "step" => {
            let (inner, actions, mut scope) = (ctx.clone(), list(action), scope.clone());
            scope.variables.insert("step_key".into(), ctx.step_key(&text("name")).into());
            ctx.step(text("name"), || run_inner(inner, actions, scope)).await?
        }
        "sleep" => {
            ctx.sleep(text("name"), millis("ms").unwrap_or_default()).await?;
            Value::Null
        }
        "wait_for_signal" => {
            let mut wait = ctx.wait_for_signal(text("name"), text("name"));
            if let Some(timeout) = millis("timeout_ms") {
                wait = wait.timeout(timeout);
            }
            match wait.await? {
                SignalWaitResult::Signal(signal) => {
                    json!({ "payload": signal.payload::<Value>()?, "source": signal.source })
                }
                SignalWaitResult::TimedOut | SignalWaitResult::Operator => Value::Null,
            }
        }
        "approval" => {
            approval(ctx, &text("name"), &field("people"), &field("at_least"), millis("timeout_ms")).await?
        }
        "spawn" => {
            let child = Submission::new(text("kind")).input(&field("input"))?;
            ctx.spawn(Nodes::new().node(text("name"), child)).await?;
            Value::Null
        }
        "join" => {
            let mut children = serde_json::Map::new();
            for child in ctx.join("join").await? {
                let outcome = child.outcome.map(|outcome| outcome.as_str());
                let result: Value = match outcome {
                    Some("completed") => ctx.fetch_child(&child.name).await?,
                    _ => Value::Null,
                };
                children.insert(child.name, json!({ "outcome": outcome, "result": result }));
            }
            children.into()
        }
        "race" => {
            let mut race = ctx.race(text("name"));
            for branch in action["branches"].as_array().into_iter().flatten() {
                let (actions, scope) = (list(branch), scope.clone());
                race = race.branch(branch_name(branch), move |ctx| run_inner(ctx, actions, scope));
            }
            race.await?
        }
        "all" => {
            let mut all = ctx.all(text("name"));
            for branch in action["branches"].as_array().into_iter().flatten() {
                let (actions, scope) = (list(branch), scope.clone());
                all = all.branch(branch_name(branch), move |ctx| run_inner(ctx, actions, scope));
            }
            all.await?.into()
        }
        "upstream" => ctx.fetch_upstream(&text("node")).await?,
        "frame" => {
            let kind = FrameKind::parse(&text("kind")).unwrap_or(FrameKind::Event);
            match text("mode").as_str() {
                "best_effort" => ctx.emit_best_effort(kind, field("data")).await?,
                "summary" => ctx.summarise(field("data")).await?,
                _ => ctx.emit(kind, field("data")).await?,
            }
            Value::Null
        }
        "usage" => {
            let usage: Vec<(String, Amount)> = amounts(&field("usage"));
            let breached = match field("dedup_key").as_str() {
                Some(key) => ctx.usage_once(text("budget"), key, usage).await?,
                None => ctx.usage(text("budget"), usage).await?,
            };
            json!({ "breached": breached })
        }
        "progress" => {
            ctx.progress(field("percent").as_f64().unwrap_or_default(), text("message")).await?;
            Value::Null
        }
        "gate" => {
            let gate = scope.gates.join(text("name"));
            while !gate.exists() {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(10)) => {}
                    () = ctx.cancelled() => return Ok(Step::Cancelled),
                }
            }
            Value::Null
        }
        "block" => {
            std::thread::sleep(millis("ms").unwrap_or_default());
            Value::Null
        }
        "wait_for_cancel" => {
            let mut dropped = CleanUpOnDrop(Some((ctx.clone(), list(action), scope.clone())));
            ctx.cancelled().await;
            dropped.0 = None;
            let mut cleanup = run_list(ctx.clone(), list(action), scope.clone()).await?;
            if let End::Value(Value::Null) = cleanup {
                cleanup = End::Cancelled;
            }
            match cleanup {
                End::Value(value) => return Ok(Step::Return(value)),
                End::Cancelled => return Ok(Step::Cancelled),
            }
        }
        "slip" => {
            let number = "order_id".parse::<u32>().expect_err("it is not a number");
            note(ctx, "slipped", format!("cannot read the order: {number}").into());
            return Err(BadOrder(number).into());
        }
        "crash" => std::process::abort(),
        other => return Err(Failure::permanent(format!("the adapter does not know the action {other:?}"))),
    };
    Ok(Step::Value(value))
}

/// An error with a cause, as a handler meets it.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the order")]
struct BadOrder(#[source] std::num::ParseIntError);

/// Runs the clean-up of a handler that is dropped, which is how this SDK tells a handler that its lease has ended. Only notes
/// are possible then.
struct CleanUpOnDrop(Option<(Context, Vec<Value>, Scope)>);

impl Drop for CleanUpOnDrop {
    fn drop(&mut self) {
        let Some((ctx, actions, scope)) = self.0.take() else { return };
        for action in actions.iter().filter(|action| action["do"] == "note") {
            note(&ctx, action["note"].as_str().unwrap_or_default(), scope.value(&action["value"]));
        }
    }
}

fn branch_name(branch: &Value) -> String {
    branch["name"].as_str().unwrap_or_default().to_owned()
}

fn note(ctx: &Context, note: &str, value: Value) {
    let execution = ctx.execution().to_string();
    print(&json!({ "note": note, "execution": execution, "attempt": ctx.attempt(), "value": value }));
}

fn failure(message: &str, class: &str, retry_after: Option<Duration>) -> Failure {
    let class = FailureClass::parse(class).unwrap_or(FailureClass::Transient);
    let failure = Failure::new(class, message);
    match retry_after {
        Some(delay) => failure.retry_after(delay),
        None => failure,
    }
}

/// Reads amounts by dimension.
pub fn amounts(usage: &Value) -> Vec<(String, Amount)> {
    let entries = usage.as_object().into_iter().flatten();
    entries.filter_map(|(name, amount)| Some((name.clone(), Amount::parse(&amount.to_string())?))).collect()
}

async fn approval(
    ctx: &Context,
    name: &str,
    people: &Value,
    at_least: &Value,
    timeout: Option<Duration>,
) -> Result<Value, Failure> {
    let people: Vec<String> = serde_json::from_value(people.clone())?;
    let mut request = ctx.approval(name).of(people);
    if let Some(at_least) = at_least.as_u64() {
        request = request.at_least(at_least as usize);
    }
    if let Some(timeout) = timeout {
        request = request.within(timeout);
    }
    let asking = ctx.clone();
    let approval = request
        .ask(move |person: String, waitpoint: Waitpoint| {
            let value = json!({ "person": person, "waitpoint": waitpoint.id, "token": waitpoint.token });
            note(&asking, "asked", value);
            async { Ok(()) }
        })
        .await?;
    let verdict = match approval.verdict {
        Verdict::Approved => "approved",
        Verdict::Rejected => "rejected",
        Verdict::TimedOut => "timed_out",
        Verdict::Operator => "operator",
    };
    let mut votes = Vec::new();
    for vote in approval.votes {
        let payload: Value = vote.signal.payload()?;
        votes.push(json!({ "person": vote.person, "approves": vote.approves, "payload": payload }));
    }
    Ok(json!({ "verdict": verdict, "votes": votes }))
}
