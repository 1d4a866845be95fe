//! `selvedge worker exec`: a worker that runs a command for each execution.
//!
//! The worker is that of the Rust SDK: it claims, renews leases, reports, and drains on SIGTERM. The handler runs the command
//! (`command.rs`). A handler that loses its lease is dropped, and its processes are killed with it.

use super::command::{CommandLine, Ended};
use crate::failure::Failure;
use crate::remote::Remote;
use crate::signals::Signals;
use crate::terminal::{Output, dim, duration_ms, state_text};
use crate::verbs::values::{millis, span};
use clap::Args;
use selvedge::{Context, Return, Worker};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The arguments of `selvedge worker exec`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// Claim executions of this kind; may be repeated
    #[arg(long = "kind", value_name = "KIND", required = true)]
    kinds: Vec<String>,
    /// Claim from this lane; may be repeated [default: default]
    #[arg(long = "lane", value_name = "NAME")]
    lanes: Vec<String>,
    /// Offer this capability; may be repeated
    #[arg(long = "capability", value_name = "NAME")]
    capabilities: Vec<String>,
    /// Run at most this many commands at once
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    concurrency: usize,
    /// Give leases this time to live: after a crash of this machine, others take over after it
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "30s")]
    lease_ttl: Duration,
    /// Give commands this time to end after a cancellation or SIGTERM
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10s")]
    grace: Duration,
    /// Call the worker this [default: the name of the command]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Do not retry after this exit code; may be repeated
    #[arg(long = "permanent", value_name = "CODE", default_value = "65")]
    permanent: Vec<i32>,
    /// Exit when this many executions have ended
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
The command gets the input as JSON on standard input; where the input is null and the execution has upstreams, an object with
their results by name. Its standard output becomes the result: JSON as it is, any other text as a string. Each line of its
standard error becomes a frame, which `selvedge logs` shows. It finds SELVEDGE_EXECUTION, SELVEDGE_ATTEMPT, SELVEDGE_KIND,
SELVEDGE_LANE, SELVEDGE_NODE and SELVEDGE_IDEMPOTENCY_KEY in its environment.

Exit code 0 completes the execution. Any other one fails the attempt, which is retried unless the code is 65 (invalid data; see
--permanent), 126 or 127 (the command cannot be run). A cancellation sends SIGTERM to the command and all its processes, and
SIGKILL after --grace.

Examples:
  selvedge worker exec --kind upper -- tr a-z A-Z
  selvedge worker exec --kind resize --lane images --concurrency 4 -- ./resize.sh --quality 80
  selvedge worker exec --kind report -- python3 report.py";

/// Runs commands until SIGTERM or SIGINT, then drains.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let out = arguments.remote.output();
    let command = Arc::new(CommandLine::new(&arguments.command, &arguments.permanent, arguments.grace)?);
    let namespace = arguments.remote.namespace()?;
    let name = arguments.name.clone().unwrap_or_else(|| command.name());
    let mut worker = Worker::new(namespace, &name)
        .concurrency(arguments.concurrency)
        .lease_ttl(arguments.lease_ttl)
        .grace(arguments.grace);
    for lane in &arguments.lanes {
        worker = worker.lane(lane);
    }
    for capability in &arguments.capabilities {
        worker = worker.capability(capability);
    }
    let (ended, mut counted) = tokio::sync::mpsc::unbounded_channel::<()>();
    for kind in &arguments.kinds {
        let (command, ended) = (command.clone(), ended.clone());
        worker = worker.handler(kind, move |ctx: Context| {
            let (command, ended) = (command.clone(), ended.clone());
            async move {
                let began = Instant::now();
                tell_start(out, &ctx);
                let result = command.run(&ctx).await;
                tell_end(out, &ctx, &result, began.elapsed());
                // The worker has stopped counting when it drains.
                let _ = ended.send(());
                result.map(Return::from).map_err(Into::into)
            }
        });
    }
    let instance = worker.instance().to_owned();
    out.note(format!(
        "{instance} runs {} for {}; Ctrl-C drains it",
        arguments.command.join(" "),
        arguments.kinds.join(", ")
    ));
    let shutdown = async move {
        let enough = async {
            for _ in 0..arguments.count.unwrap_or(u64::MAX) {
                counted.recv().await;
            }
        };
        tokio::select! {
            signal = signals.next() => {
                tracing::info!("{signal}: draining");
                signals.exit_on_next();
            }
            () = enough => {}
        }
    };
    let summary = worker.run(shutdown).await.map_err(|error| Failure::Failed(error.to_string()))?;
    out.note(format!(
        "{instance} has drained: {} completed, {} failed, {} put back",
        summary.completed, summary.failed, summary.released
    ));
    Ok(())
}

fn tell_start(out: Output, ctx: &Context) {
    if !out.json {
        let _ = out.line(format!("{} {} attempt {}", ctx.execution(), dim(ctx.kind()), ctx.attempt()));
    }
}

fn tell_end(out: Output, ctx: &Context, result: &Result<Ended, super::command::Failed>, took: Duration) {
    let ms = i64::try_from(millis(took)).unwrap_or(i64::MAX);
    let (outcome, error) = match result {
        Ok(_) => ("completed", None),
        Err(failed) => ("failed", Some(failed.to_string())),
    };
    let line = match out.json {
        true => {
            let execution = ctx.execution().to_string();
            json!({"execution": execution, "kind": ctx.kind(), "attempt": ctx.attempt(), "outcome": outcome,
                   "error": error, "duration_ms": ms})
            .to_string()
        }
        false => {
            let error = error.map(|error| format!(": {error}")).unwrap_or_default();
            format!("{} {} after {}{error}", ctx.execution(), state_text(outcome), duration_ms(ms))
        }
    };
    // A closed output does not stop the worker.
    let _ = out.line(line);
}
