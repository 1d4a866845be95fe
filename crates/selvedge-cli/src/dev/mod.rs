//! `selvedge dev`: a server with a built-in worker, a sample flow, and what to type next. The first thing a newcomer runs.

mod kinds;
mod sample;

use crate::failure::Failure;
use crate::serve::{self, Server, print};
use crate::signals::Signals;
use clap::Args;
use clap::builder::FalseyValueParser;
use selvedge::{FlowId, Handle, Namespace, Worker};
use uuid::Uuid;

/// What to serve, and what the worker may do.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    #[command(flatten)]
    serve: serve::Arguments,
    /// Let the worker run commands: the kind `shell` with input {"command": "…"}, for everybody who reaches the server
    #[arg(long, env = "SELVEDGE_ALLOW_SHELL", value_parser = FalseyValueParser::new())]
    allow_shell: bool,
}

const EXAMPLES: &str = "\
The worker runs these kinds, with their input:
  echo     anything                                  gives it back; null gives what its upstreams gave
  sleep    {\"ms\": 1000}                              ends after that long
  fail     {\"message\"?: \"…\", \"class\"?: \"permanent\"}  always fails
  flaky    {\"failures\": 2}                           fails that often, then succeeds
  approve  anything                                  waits for the signal approve: POST /v1/executions/ID/signals
  shell    {\"command\": \"date\"}                       runs it; only with --allow-shell

Examples:
  selvedge dev
  selvedge dev --store memory: --listen 127.0.0.1:0";

/// Serves, with a worker, until a signal.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let Some(server) = Server::open_unless_stopped(&arguments.serve, &mut signals).await? else {
        return Ok(());
    };
    let failed =
        |error: selvedge::Error| Failure::Failed(format!("the built-in worker did not start: {error}"));
    let namespace = server.engine.namespace("default").await.map_err(failed)?;
    let worker = start_worker(&namespace, arguments.allow_shell).map_err(failed)?;
    let sample = sample::submit_if_empty(&namespace).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the sample flow was not submitted");
        None
    });
    print(&server.ready(arguments.serve.json))?;
    if !arguments.serve.json {
        print(&welcome(&server.url, sample, arguments.allow_shell))?;
    }
    let drain = async {
        let drained = worker.drain().await;
        tracing::info!(?drained, "the built-in worker has drained");
    };
    server.serve(signals, drain).await
}

fn start_worker(namespace: &Namespace, allow_shell: bool) -> Result<Handle, selvedge::Error> {
    kinds::give(Worker::new(namespace.clone(), "dev"), allow_shell).start()
}

/// What to do now. Both commands work as they stand.
fn welcome(url: &str, sample: Option<FlowId>, allow_shell: bool) -> String {
    let id = Uuid::now_v7();
    let sample = match sample {
        Some(flow) => format!(
            "A sample flow runs. Its graph, to look at now and again in a few seconds:
  {url}/v1/flows/{flow}/graph?format=svg

"
        ),
        None => String::new(),
    };
    let shell = if allow_shell { ", shell" } else { "" };
    format!(
        "
A page to look at:
  {url}/

{sample}A worker runs the kinds echo, sleep, fail, flaky, approve{shell}. Submit an echo, and read its result:
  curl -s {url}/v1/executions -d '{{\"id\": \"{id}\", \"kind\": \"echo\", \"input\": {{\"hello\": \"world\"}}}}'
  curl -s '{url}/v1/executions/{id}/result?wait_ms=5000'

Ctrl-C stops it."
    )
}
