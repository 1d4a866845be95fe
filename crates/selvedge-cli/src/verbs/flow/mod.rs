//! `selvedge flow`: submits flows from files, lists them, draws their graphs, follows, explains and cancels them.

mod file;
mod progress;
mod run;

pub use file::read_flow_file;
pub use progress::watch;

use super::values::{pair, span, tag_filter};
use super::{explain, resource, wait};
use crate::failure::Failure;
use crate::remote::{Remote, Session};
use crate::terminal::{Table, age, elapsed, heading, items, number, state_text, text, when};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// The arguments of `selvedge flow`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
#[group(skip)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Submit the flow in a YAML or JSON file
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
    /// List flows, newest first
    #[command(after_help = "Example:\n  selvedge flow list --state failed --limit 10")]
    List {
        /// Only those in this state: running, completed, failed, cancelled
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
        /// Only those of this name
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Only those with this tag
        #[arg(long, value_name = "NAME=VALUE", value_parser = tag_filter)]
        tag: Option<String>,
        /// List at most this many
        #[arg(long, value_name = "NUMBER", default_value_t = 50)]
        limit: usize,
    },
    /// Show a flow and its members
    #[command(after_help = "Example:\n  selvedge flow get 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a")]
    Get {
        /// The id of the flow
        id: String,
    },
    /// Print the graph of a flow
    #[command(
        after_help = "Examples:\n  selvedge flow graph ID\n  selvedge flow graph ID --format svg > flow.svg\n  selvedge flow graph ID --format dot | dot -Tpng > flow.png"
    )]
    Graph {
        /// The id of the flow
        id: String,
        /// Print it in this form
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        format: GraphFormat,
    },
    /// Draw a flow until it ends; the exit code is that of the outcome
    #[command(after_help = "Example:\n  selvedge flow watch 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a")]
    Watch {
        /// The id of the flow
        id: String,
    },
    /// Wait until a flow ends; the exit code is that of the outcome
    #[command(
        after_help = "Example:\n  selvedge flow wait 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a --timeout 1h"
    )]
    Wait {
        /// The id of the flow
        id: String,
        /// Wait at most this long
        #[arg(long, value_name = "TIME", value_parser = span)]
        timeout: Option<Duration>,
    },
    /// Say why a flow has not ended, or how its outcome came about
    #[command(after_help = "Example:\n  selvedge flow explain 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a")]
    Explain {
        /// The id of the flow
        id: String,
    },
    /// Cancel the members of a flow
    #[command(
        after_help = "Example:\n  selvedge flow cancel 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a --pending --reason 'not needed'"
    )]
    Cancel {
        /// The id of the flow
        id: String,
        /// Cancel only what has not started
        #[arg(long)]
        pending: bool,
        /// Give a reason
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

/// The arguments of `selvedge flow run`.
#[derive(Args, Clone, Debug)]
#[group(skip)]
pub struct Run {
    /// The file: YAML or JSON with the fields of POST /v1/flows, or - for standard input
    file: PathBuf,
    /// Set a variable, which the file names as ${NAME}; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// Return the existing flow if one has this key
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Draw the flow until it ends; the exit code is that of the outcome
    #[arg(long)]
    watch: bool,
    /// Wait until the flow ends; the exit code is that of the outcome
    #[arg(long, conflicts_with = "watch")]
    wait: bool,
    /// Wait at most this long
    #[arg(long, value_name = "TIME", value_parser = span, requires = "wait")]
    timeout: Option<Duration>,
}

/// A form of a graph.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum GraphFormat {
    /// Lines for a terminal.
    Text,
    /// Graphviz.
    Dot,
    /// A picture.
    Svg,
    /// The graph as the API describes it.
    Json,
}

const EXAMPLES: &str = "\
Examples:
  selvedge flow run nightly.yaml --set date=2026-03-01 --watch
  selvedge flow list --state failed
  selvedge flow graph 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a --format svg > flow.svg
  selvedge flow explain 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a";

const RUN_EXAMPLES: &str = "\
A file, with a default for its variable:

  name: report
  variables: {date: today}
  nodes:
    - {name: load, kind: demo.echo, input: {date: \"${date}\"}}
    - {name: print, kind: demo.echo}
  edges:
    - {from: load, to: print}

Examples:
  selvedge flow run report.yaml --set date=2026-03-01
  selvedge flow run report.yaml --watch
  generate-flow | selvedge flow run - --wait --timeout 1h --json";

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut remote = arguments.remote;
    if matches!(arguments.command, Command::Graph { format: GraphFormat::Json, .. }) {
        remote.json = true;
    }
    let session = remote.open()?;
    match arguments.command {
        Command::Run(run) => run::run(&session, run).await,
        Command::List { state, name, tag, limit } => list(&session, state, name, tag, limit).await,
        Command::Get { id } => get(&session, &id).await,
        Command::Graph { id, format } => graph(&session, &id, format).await,
        Command::Watch { id } => watch(&session, &id).await,
        Command::Wait { id, timeout } => wait::for_flow(&session, &id, timeout).await,
        Command::Explain { id } => explain::explain(&session, "flows", &id).await,
        Command::Cancel { id, pending, reason } => cancel(&session, &id, pending, reason).await,
    }
}

async fn list(
    session: &Session,
    state: Option<String>,
    name: Option<String>,
    tag: Option<String>,
    limit: usize,
) -> Result<(), Failure> {
    let request = session.client.get(&["flows"]).query_optional("state", state);
    let items = request.query_optional("name", name).query_optional("tag", tag).items(limit).await?;
    if session.out.json {
        return items.iter().try_for_each(|item| session.out.json_line(item.get()));
    }
    let mut table = Table::new(&["id", "name", "state", "members", "age", "took"]);
    for flow in super::get::values(&items) {
        table.row(vec![
            text(&flow, "/id").into(),
            text(&flow, "/name").into(),
            state_text(text(&flow, "/state")),
            ended_of_total(&flow),
            age(text(&flow, "/submitted_at")),
            elapsed(text(&flow, "/submitted_at"), text(&flow, "/ended_at")),
        ]);
    }
    match table.is_empty() {
        true => session.out.line("No flow matches. Submit one: selvedge flow run FILE"),
        false => session.out.table(&table),
    }
}

/// Returns how many members of a flow have ended, such as `3/7`.
fn ended_of_total(flow: &Value) -> String {
    let ended: i64 = ["completed", "failed", "cancelled", "expired", "skipped"]
        .iter()
        .map(|state| number(flow, &format!("/counts/{state}")))
        .sum();
    format!("{ended}/{}", number(flow, "/counts/total"))
}

/// Shows a flow and its members.
pub async fn get(session: &Session, id: &str) -> Result<(), Failure> {
    let response = session.client.get(&["flows", id]).send().await?;
    if session.out.json {
        return session.out.json_line(response.text()?);
    }
    let flow: Value = response.json()?;
    let graph: Value = session.client.get(&["flows", id, "graph"]).send().await?.json()?;
    let name = match text(&flow, "/name") {
        "" => "flow",
        name => name,
    };
    session.out.line(format!("{} {}", heading(name), state_text(text(&flow, "/state"))))?;
    session.out.line(format!("  id         {id}"))?;
    session.out.line(format!("  submitted  {}", when(text(&flow, "/submitted_at"))))?;
    if !text(&flow, "/ended_at").is_empty() {
        session.out.line(format!("  ended      {}", when(text(&flow, "/ended_at"))))?;
    }
    session.out.line("")?;
    session.out.table(&progress::graph_table(&graph, &progress::members(session, id).await?))
}

async fn graph(session: &Session, id: &str, format: GraphFormat) -> Result<(), Failure> {
    let request = session.client.get(&["flows", id, "graph"]);
    match format {
        GraphFormat::Text if !session.out.json => {
            let graph: Value = request.send().await?.json()?;
            session.out.table(&progress::graph_table(&graph, &progress::members(session, id).await?))
        }
        GraphFormat::Text | GraphFormat::Json => session.out.json_line(request.send().await?.text()?),
        GraphFormat::Dot => session.out.raw(request.query("format", "dot").send().await?.text()?),
        GraphFormat::Svg => session.out.raw(request.query("format", "svg").send().await?.text()?),
    }
}

async fn cancel(session: &Session, id: &str, pending: bool, reason: Option<String>) -> Result<(), Failure> {
    let mode = if pending { "pending" } else { "all" };
    let wait = Duration::from_secs(10);
    let body = json!({"mode": mode, "reason": reason, "wait_ms": 10_000});
    let request = session.client.post(&["flows", id, "cancel"]).json(&body).waits(wait);
    let response = request.send().await?;
    resource::print(session, &response, |answer| {
        format!("The flow {id} is {}.", state_text(text(answer, "/flow/state")))
    })
}

/// Returns the end of a flow as one line.
pub fn ended_text(answer: &Value) -> String {
    let counts = answer["flow"]["counts"].as_object().into_iter().flatten();
    let counts = counts.filter(|(name, count)| *name != "total" && count.as_i64() != Some(0));
    let counts: Vec<String> = counts.map(|(name, count)| format!("{count} {}", state_text(name))).collect();
    let failed: Vec<&str> =
        items(answer, "/failed").iter().filter_map(|member| member["node"].as_str()).collect();
    let failed = if failed.is_empty() { String::new() } else { format!(" ({})", failed.join(", ")) };
    format!("{}: {}{failed}", state_text(text(answer, "/outcome")), counts.join(", "))
}
