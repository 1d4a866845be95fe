//! `selvedge dev`: a server with a demonstration worker and a sample flow, and hints on what to try. Meant for newcomers.

mod kinds;
mod sample;

use crate::failure::Failure;
use crate::flag;
use crate::serve::{self, Server, print};
use crate::signals::Signals;
use clap::Args;
use selvedge::FlowId;
use selvedge_server::Chaos;
use uuid::Uuid;

/// The arguments of `selvedge dev`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// The arguments of the server.
    #[command(flatten)]
    pub serve: serve::Arguments,
    /// Let the worker run shell commands: the kind `demo.shell` with input {"command": "…"}. Everyone who can reach the
    /// server can then run commands
    #[arg(long, env = "SELVEDGE_ALLOW_SHELL", value_parser = flag::parser("SELVEDGE_ALLOW_SHELL"))]
    allow_shell: bool,
    /// Submit no sample flow
    #[arg(long, env = "SELVEDGE_NO_SAMPLE", value_parser = flag::parser("SELVEDGE_NO_SAMPLE"))]
    no_sample: bool,
    /// Start no demonstration worker and submit no sample flow, for tests of your own workers
    #[arg(long, env = "SELVEDGE_NO_DEMO", value_parser = flag::parser("SELVEDGE_NO_DEMO"))]
    no_demo: bool,
    /// Stop the clock of the store, which must be memory:, so that only POST /v1/clock/advance moves it: tests of days run
    /// in milliseconds
    #[arg(long, env = "SELVEDGE_MANUAL_CLOCK", value_parser = flag::parser("SELVEDGE_MANUAL_CLOCK"))]
    manual_clock: bool,
    /// Delay, repeat and lose this share of all calls, and lose leases, to test your own workers: from 0 to 1, 0.1 without a
    /// value [default: 0]
    #[arg(long, env = "SELVEDGE_CHAOS", value_name = "RATE", num_args = 0..=1, default_missing_value = "0.1", value_parser = chaos)]
    chaos: Option<Chaos>,
}

/// Parses the rate of faults.
fn chaos(text: &str) -> Result<Chaos, String> {
    text.parse().ok().and_then(Chaos::new).ok_or_else(|| "write a number from 0 to 1, for example 0.1".into())
}

const EXAMPLES: &str = "\
The demonstration worker handles these kinds, and no others, with these inputs:
  demo.echo     anything                                  returns its input; with null, the results of its upstreams
  demo.sleep    {\"ms\": 1000}                              completes after that many milliseconds
  demo.fail     {\"message\"?: \"…\", \"class\"?: \"permanent\"}  always fails
  demo.flaky    {\"failures\": 2}                           fails that many attempts, then completes
  demo.approve  anything                                  waits for the signal approve: selvedge signal ID approve
  demo.question {\"question\": \"…\", \"within_ms\"?: 60000}   waits for the answer yes or no on the page /approvals
  demo.sample   anything                                  submits the sample flow again
  demo.shell    {\"command\": \"date\"}                       runs the command; only with --allow-shell

Examples:
  selvedge dev
  selvedge dev --store memory: --listen 127.0.0.1:0
  selvedge dev --store memory: --manual-clock
  selvedge dev --no-demo                              only the server, for your own workers
  selvedge dev --chaos 0.2                            disturbs every fifth call: do your workers survive it?";

/// Serves the API and runs the worker until a signal.
pub async fn run(mut arguments: Arguments) -> Result<(), Failure> {
    arguments.serve.manual_clock = arguments.manual_clock;
    arguments.serve.chaos = arguments.chaos.unwrap_or_default();
    let mut signals = Signals::listen()?;
    let Some(server) = Server::open_unless_stopped(&arguments.serve, &mut signals).await? else {
        return Ok(());
    };
    let not_started =
        |error: selvedge::Error| Failure::Failed(format!("the demonstration worker did not start: {error}"));
    let namespace = server.engine.namespace("default").await.map_err(not_started)?;
    let worker = match arguments.no_demo {
        true => None,
        false => Some(kinds::worker(&namespace, arguments.allow_shell).start().map_err(not_started)?),
    };
    let sample = match arguments.no_demo || arguments.no_sample {
        true => None,
        false => sample::submit_if_empty(&namespace).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the sample flow was not submitted");
            None
        }),
    };
    print(&server.ready_line(arguments.serve.json))?;
    if !arguments.serve.json {
        let demo = worker.as_ref().map(|_| demonstration(&server.url, sample, arguments.allow_shell));
        print(&welcome(&server.url, demo.as_deref().unwrap_or_default()))?;
    }
    let drain = async {
        if let Some(worker) = worker {
            let drained = worker.drain().await;
            tracing::info!(?drained, "the demonstration worker has drained");
        }
    };
    server.serve(signals, drain).await
}

/// Returns the hints on what to try.
fn welcome(url: &str, demonstration: &str) -> String {
    format!(
        "
Open the overview page:
  {url}/

{demonstration}Press Ctrl-C to stop."
    )
}

/// Returns the hints on the demonstration worker and the sample flow. The commands work as printed.
fn demonstration(url: &str, sample: Option<FlowId>, allow_shell: bool) -> String {
    let id = Uuid::now_v7();
    let sample = match sample {
        Some(flow) => format!(
            "A sample flow is running. Its graph; selvedge submit demo.sample runs it again:
  {url}/flows/{flow}

"
        ),
        None => String::new(),
    };
    let shell = if allow_shell { ", demo.shell" } else { "" };
    format!(
        "{sample}A worker handles the kinds demo.echo, demo.sleep, demo.fail, demo.flaky, demo.approve, demo.question, demo.sample{shell} and no
others. Submit an echo and read its result:
  curl -s {url}/v1/executions -d '{{\"id\": \"{id}\", \"kind\": \"demo.echo\", \"input\": {{\"hello\": \"world\"}}}}'
  curl -s '{url}/v1/executions/{id}/result?wait_ms=5000'

"
    )
}
