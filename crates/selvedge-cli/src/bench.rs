//! `selvedge bench`: measures the engine next to a floor in the same run. What the scenarios are: docs/benchmarks.md.

use crate::failure::Failure;
use clap::{Args, ValueEnum};
use selvedge_bench::{Error, Load, Place, Report, backlog, floor, idle, latency, queue};
use std::time::Duration;

/// What to measure, and where.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// What to measure
    pub scenario: Scenario,
    /// Where: postgres://… (a schema of its own, dropped at the end) or sqlite:DIRECTORY (a file of its own, deleted at
    /// the end) [default: sqlite in the temporary directory]
    #[arg(long, env = "SELVEDGE_STORE", hide_env_values = true, value_name = "ADDRESS")]
    pub store: Option<String>,
    /// Go through the HTTP API of a server in this process
    #[arg(long)]
    pub http: bool,
    /// Print one JSON object on one line
    #[arg(long)]
    pub json: bool,
    /// How many executions [default: 150000, over HTTP 60000]
    #[arg(long, value_name = "N")]
    pub executions: Option<u64>,
    /// How many executions go in one call
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub batch: usize,
    /// How many submit at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub submitters: usize,
    /// How many workers claim at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub workers: usize,
    /// How many may be submitted and not yet completed; 0 lets the submitters run ahead as far as they can
    #[arg(long, value_name = "N", default_value_t = 800)]
    pub outstanding: u64,
    /// backlog: how many wait
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub waiting: u64,
    /// backlog: over how many lanes; each worker names ten of them
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub lanes: u64,
    /// backlog: how many have ended
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub finished: u64,
    /// backlog: for how long a foreign session holds an old snapshot, under load, before the rate is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub old_snapshot: u64,
}

const EXAMPLES: &str = "\
Examples:
  selvedge bench queue
  selvedge bench queue --store postgres://postgres@127.0.0.1/postgres --http
  selvedge bench latency --store postgres://postgres@127.0.0.1/postgres --json
  selvedge bench backlog --store postgres://postgres@127.0.0.1/postgres
  selvedge bench backlog --waiting 10000 --lanes 1 --finished 0 --old-snapshot 600 --store postgres://…";

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// Hand-written SQL on a plain table: what the rest is compared with
    Floor,
    /// Executions from submission to their end, as many as go
    Queue,
    /// From submission to the start of the handler: idle, and at half of the peak
    Latency,
    /// Claims when much waits and much has ended, or while an old snapshot is held (Postgres)
    Backlog,
    /// What an engine costs that has nothing to do
    Idle,
}

/// Measures, and prints what was found.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let report = measure(&arguments).await.map_err(|error| match error {
        Error::Usage(message) => Failure::Usage(message),
        other => Failure::Failed(other.to_string()),
    })?;
    if arguments.json {
        println!("{}", report.json());
    } else {
        print!("{report}");
    }
    Ok(())
}

async fn measure(arguments: &Arguments) -> Result<Report, Error> {
    let temporary = format!("sqlite:{}", std::env::temp_dir().display());
    let place = Place::parse(arguments.store.as_deref().unwrap_or(&temporary))?;
    let load = Load {
        executions: arguments.executions.unwrap_or(if arguments.http { 60_000 } else { 150_000 }),
        batch: arguments.batch.clamp(1, 1000),
        submitters: arguments.submitters.max(1),
        workers: arguments.workers.max(1),
        outstanding: arguments.outstanding,
        http: arguments.http,
    };
    match arguments.scenario {
        Scenario::Floor => floor::run(&place, load.batch, load.workers).await,
        Scenario::Queue => queue::run(&place, &load).await,
        Scenario::Latency => latency::run(&place, &load).await,
        Scenario::Idle => idle::run(&place).await,
        Scenario::Backlog => {
            let study = backlog::Study {
                waiting: arguments.waiting,
                lanes: arguments.lanes.max(1),
                named: arguments.lanes.clamp(1, 10),
                finished: arguments.finished,
                old_snapshot: Duration::from_secs(arguments.old_snapshot),
                ..backlog::Study::default()
            };
            backlog::run(&place, &load, &study).await
        }
    }
}
