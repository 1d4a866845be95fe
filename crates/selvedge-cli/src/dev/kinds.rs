//! The kinds that the demonstration worker handles: small tasks to try the engine with. Their names begin with `demo.`, so that the
//! worker never takes work of a user's own kind.

use super::sample;
use crate::{admin_key, secret};
use selvedge::{
    Context, Failure, FailureClass, FlowId, Namespace, Outcome, Return, SignalWaitResult, Until, Worker,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// The length of a command's error output in a failure message, in characters: its end is shown.
const STDERR_TAIL: usize = 2000;

/// Returns the worker of the namespace. It starts later.
pub fn worker(namespace: &Namespace, allow_shell: bool) -> Worker {
    let samples = namespace.clone();
    let worker = Worker::new(namespace.clone(), "dev")
        .handler("demo.echo", echo)
        .handler("demo.sleep", sleep)
        .handler("demo.fail", fail)
        .handler("demo.flaky", flaky)
        .handler("demo.approve", approve)
        .handler("demo.question", question)
        .handler("demo.sample", move |ctx| submit_sample(ctx, samples.clone()));
    match allow_shell {
        true => worker.handler("demo.shell", shell),
        false => worker,
    }
}

/// Returns the input byte for byte. Without an input and with upstreams, returns their outcomes, results and errors.
async fn echo(ctx: Context) -> Result<Return, Failure> {
    let has_input = ctx.input_json().as_ref() != b"null";
    if has_input || ctx.upstreams().is_empty() {
        return Ok(Return::Complete(ctx.input_json().clone()));
    }
    let mut upstreams = Map::new();
    for upstream in ctx.upstreams() {
        let result: Option<Value> = match upstream.outcome == Some(Outcome::Completed) {
            true => Some(ctx.fetch_upstream(&upstream.name).await?),
            false => None,
        };
        let error =
            upstream.error.as_ref().map(|error| json!({"message": error.message, "class": error.class}));
        let outcome = upstream.outcome.map(|outcome| outcome.as_str());
        let ended = json!({"outcome": outcome, "result": result, "error": error});
        upstreams.insert(upstream.name.clone(), ended);
    }
    Return::complete(&upstreams)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sleep {
    ms: u64,
}

/// Completes after the given time; fails if it is cancelled first.
async fn sleep(ctx: Context) -> Result<u64, Failure> {
    let Sleep { ms } = ctx.input()?;
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(ms)) => Ok(ms),
        () = ctx.cancelled() => Err(Failure::transient("cancelled while sleeping")),
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Fail {
    message: Option<String>,
    class: Option<FailureClass>,
}

/// Fails with the given message and class.
async fn fail(ctx: Context) -> Result<(), Failure> {
    let Fail { message, class } = ctx.input::<Option<Fail>>()?.unwrap_or_default();
    let class = class.unwrap_or(FailureClass::Transient);
    let message = message.unwrap_or_else(|| "failed as requested".into());
    Err(Failure::new(class, message))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Flaky {
    failures: u32,
}

/// Fails the given number of attempts, then completes.
async fn flaky(ctx: Context) -> Result<u32, Failure> {
    let Flaky { failures } = ctx.input()?;
    let attempt = ctx.attempt();
    if attempt < failures {
        let message = format!("attempt {attempt} fails, like the first {failures}");
        return Err(Failure::transient(message));
    }
    Ok(attempt)
}

/// Suspends until the signal `approve` arrives. Returns the signal's source and payload.
async fn approve(ctx: Context) -> Result<Value, Failure> {
    match ctx.wait_for_signal("approval", "approve").await? {
        SignalWaitResult::Signal(signal) => {
            Ok(json!({"by": signal.source, "says": signal.payload::<Value>()?}))
        }
        SignalWaitResult::TimedOut | SignalWaitResult::Operator => {
            Ok(json!({"by": "an operator", "says": null}))
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    question: String,
    within_ms: Option<u64>,
}

/// Asks a person and suspends until the signal `yes` or `no` arrives. Returns the answer; null if nobody answered in time.
async fn question(ctx: Context) -> Result<Option<String>, Failure> {
    let Question { question, within_ms } = ctx.input()?;
    let waitpoint = ctx.waitpoint("yes").prompt(question).signals(["yes", "no"]);
    let answer = ctx.wait("answer", Until::signals(1, ["yes", "no"]));
    let answer = match within_ms.map(Duration::from_millis) {
        Some(within) => {
            waitpoint.expires_after(within).await?;
            answer.timeout(within).await?
        }
        None => {
            waitpoint.await?;
            answer.await?
        }
    };
    Ok(answer.signals.into_iter().next().map(|signal| signal.name.to_string()))
}

/// Submits the sample flow and returns its id. A repeated attempt returns the same flow.
async fn submit_sample(ctx: Context, namespace: Namespace) -> Result<FlowId, Failure> {
    let flow = sample::flow()?.idempotency_key(ctx.idempotency_key());
    Ok(flow.submit(&namespace).await?.id())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shell {
    command: String,
}

/// The output of a command.
#[derive(Serialize)]
struct Output {
    stdout: String,
    stderr: String,
}

/// Runs a command and fails if its exit code is not 0. The shell is killed when the lease is lost or the execution is
/// cancelled.
async fn shell(ctx: Context) -> Result<Output, Failure> {
    let Shell { command } = ctx.input()?;
    let mut shell = Command::new("sh");
    // Callers that may run commands must not be able to sign tokens.
    shell.arg("-c").arg(command).env_remove(secret::VARIABLE).env_remove(admin_key::VARIABLE);
    shell.stdin(Stdio::null()).kill_on_drop(true);
    let output = shell.output();
    let output = tokio::select! {
        output = output => output?,
        () = ctx.cancelled() => return Err(Failure::transient("cancelled while the command was running")),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let stderr = text(&output.stderr);
    if !output.status.success() {
        let skipped = stderr.chars().count().saturating_sub(STDERR_TAIL);
        let tail: String = stderr.chars().skip(skipped).collect();
        return Err(Failure::transient(format!("{}: {}", output.status, tail.trim())));
    }
    Ok(Output { stdout: text(&output.stdout), stderr })
}
