//! `selvedge schedules`: lists, changes, runs and pauses schedules.

use super::flow::read_flow_file;
use super::get::values;
use super::resource;
use super::values::{add, json_argument, millis, span};
use crate::failure::Failure;
use crate::remote::{Remote, Session};
use crate::terminal::{Table, duration_ms, relative, state_text, text, truth, when};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// The arguments of `selvedge schedules`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// List schedules (the default)
    #[command(after_help = "Example:\n  selvedge schedules list --json")]
    List,
    /// Show one
    #[command(after_help = "Example:\n  selvedge schedules get report")]
    Get {
        /// The name of the schedule
        name: String,
    },
    /// Create one, or change it; what is not named stays
    #[command(
        after_help = "Example:\n  selvedge schedules set report --cron '30 6 * * mon-fri' --time-zone Europe/Berlin --kind report"
    )]
    Set(Box<Set>),
    /// Submit now what it would submit
    #[command(after_help = "Example:\n  selvedge schedules run report")]
    Run {
        /// The name of the schedule
        name: String,
    },
    /// Show its next times
    #[command(after_help = "Example:\n  selvedge schedules next report --count 10")]
    Next {
        /// The name of the schedule
        name: String,
        /// Show this many
        #[arg(long, value_name = "NUMBER", default_value_t = 5)]
        count: u32,
    },
    /// Show its last runs with their outcomes
    #[command(after_help = "Example:\n  selvedge schedules runs report")]
    Runs {
        /// The name of the schedule
        name: String,
    },
    /// Submit nothing until it is resumed
    #[command(after_help = "Example:\n  selvedge schedules pause report")]
    Pause {
        /// The name of the schedule
        name: String,
    },
    /// Submit again
    #[command(after_help = "Example:\n  selvedge schedules resume report")]
    Resume {
        /// The name of the schedule
        name: String,
    },
    /// Delete one; what it has submitted stays
    #[command(after_help = "Example:\n  selvedge schedules delete report")]
    Delete {
        /// The name of the schedule
        name: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

/// The arguments of `selvedge schedules set`.
#[derive(Args, Clone, Debug)]
#[group(skip)]
struct Set {
    /// The name of the schedule
    name: String,
    /// Fire at the times of this cron expression of five fields
    #[arg(long, value_name = "EXPRESSION", conflicts_with = "every")]
    cron: Option<String>,
    /// Read the expression in this time zone, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "cron")]
    time_zone: Option<String>,
    /// Fire again and again after this time
    #[arg(long, value_name = "TIME", value_parser = span)]
    every: Option<Duration>,
    /// Submit an execution of this kind
    #[arg(long, value_name = "KIND", conflicts_with_all = ["flow", "submission"])]
    kind: Option<String>,
    /// Give it this input: JSON, @FILE or -
    #[arg(long, value_name = "JSON", requires = "kind")]
    input: Option<String>,
    /// Put it into this lane
    #[arg(long, value_name = "NAME", requires = "kind")]
    lane: Option<String>,
    /// Submit an execution with these fields: a JSON object, @FILE or -
    #[arg(long, value_name = "JSON", conflicts_with = "flow")]
    submission: Option<String>,
    /// Submit the flow in this YAML or JSON file
    #[arg(long, value_name = "FILE")]
    flow: Option<PathBuf>,
    /// While the last run goes on: allow another, skip or queue it
    #[arg(long, value_name = "POLICY")]
    overlap: Option<String>,
    /// After times that were missed: none, one or all
    #[arg(long, value_name = "POLICY")]
    catch_up: Option<String>,
    /// Spread the times randomly by up to this
    #[arg(long, value_name = "TIME", value_parser = span)]
    jitter: Option<Duration>,
}

const EXAMPLES: &str = "\
Examples:
  selvedge schedules
  selvedge schedules set report --cron '30 6 * * mon-fri' --time-zone Europe/Berlin --kind report
  selvedge schedules set tick --every 10m --kind demo.echo --input '{\"a\": 1}' --overlap skip
  selvedge schedules next report --count 10
  selvedge schedules run report";

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    match arguments.command.unwrap_or(Command::List) {
        Command::List => {
            let headings = ["name", "state", "times", "next", "overlap", "catch up", "submits"];
            let empty = "There are no schedules. Create one: selvedge schedules set tick --every 10m --kind demo.echo";
            resource::list(&session, &["schedules"], &headings, empty, row).await
        }
        Command::Get { name } => resource::get(&session, &["schedules", &name]).await,
        Command::Set(set) => change(&session, &set).await,
        Command::Run { name } => {
            let response = session.client.post(&["schedules", &name, "run"]).json(&json!({})).send().await?;
            resource::print(&session, &response, |answer| match text(answer, "/execution/id") {
                "" => format!("Submitted the flow {}", text(answer, "/flow/id")),
                id => format!("Submitted {id}"),
            })
        }
        Command::Next { name, count } => next(&session, &name, count).await,
        Command::Runs { name } => runs(&session, &name).await,
        Command::Pause { name } => pause(&session, &name, true).await,
        Command::Resume { name } => pause(&session, &name, false).await,
        Command::Delete { name, yes } => {
            resource::delete(&session, &["schedules", &name], &format!("The schedule {name}"), yes).await
        }
    }
}

async fn change(session: &Session, set: &Set) -> Result<(), Failure> {
    let mut change = Map::new();
    add(&mut change, "cron", set.cron.clone());
    add(&mut change, "time_zone", set.time_zone.clone());
    add(&mut change, "interval_ms", set.every.map(millis));
    add(&mut change, "overlap", set.overlap.clone());
    add(&mut change, "catch_up", set.catch_up.clone());
    add(&mut change, "jitter_ms", set.jitter.map(millis));
    // A schedule has one kind of times: the other one is lifted.
    if set.cron.is_some() {
        change.insert("interval_ms".into(), Value::Null);
    } else if set.every.is_some() {
        change.insert("cron".into(), Value::Null);
        change.insert("time_zone".into(), Value::Null);
    }
    if let Some(mut submit) = submission(set)? {
        // A merge patch keeps what it does not name, and a schedule submits one thing: the other one is lifted.
        if let Ok(existing) = session.client.get(&["schedules", &set.name]).send().await {
            let existing: Value = existing.json()?;
            for kind in ["execution", "flow"] {
                if existing["submit"][kind].is_object() && submit.get(kind).is_none() {
                    submit[kind] = Value::Null;
                }
            }
        }
        change.insert("submit".into(), submit);
    }
    resource::require_change(&change, "--every 10m --kind demo.echo")?;
    let response = resource::set(session, &["schedules", &set.name], &change).await?;
    resource::print(session, &response, resource::fields)
}

fn submission(set: &Set) -> Result<Option<Value>, Failure> {
    let parse = |argument: &str, what: &str| -> Result<Value, Failure> {
        let raw = json_argument(argument, what)?;
        serde_json::from_str(raw.get()).map_err(|error| Failure::Usage(format!("{what}: {error}")))
    };
    if let Some(file) = &set.flow {
        return Ok(Some(json!({"flow": read_flow_file(file, &[])?})));
    }
    if let Some(submission) = &set.submission {
        return Ok(Some(json!({"execution": parse(submission, "--submission")?})));
    }
    let Some(kind) = &set.kind else { return Ok(None) };
    let mut execution = Map::from_iter([("kind".to_owned(), json!(kind))]);
    add(&mut execution, "lane", set.lane.clone());
    let input = set.input.as_deref().map(|input| parse(input, "--input")).transpose()?;
    add(&mut execution, "input", input);
    Ok(Some(json!({"execution": execution})))
}

async fn pause(session: &Session, name: &str, paused: bool) -> Result<(), Failure> {
    let response = session.client.patch(&["schedules", name]).json(&json!({"paused": paused})).send().await?;
    let state = if paused { "paused" } else { "active" };
    resource::print(session, &response, |_| format!("The schedule {name} is {state}."))
}

async fn next(session: &Session, name: &str, count: u32) -> Result<(), Failure> {
    let request = session.client.get(&["schedules", name, "next"]).query("count", count);
    let times = request.send().await?.page()?.items;
    if session.out.json {
        return times.iter().try_for_each(|time| session.out.json_line(time.get()));
    }
    values(&times).iter().try_for_each(|time| session.out.line(when(text(time, "/scheduled_at"))))
}

async fn runs(session: &Session, name: &str) -> Result<(), Failure> {
    let items = session.client.get(&["schedules", name, "runs"]).send().await?.page()?.items;
    if session.out.json {
        return items.iter().try_for_each(|run| session.out.json_line(run.get()));
    }
    let mut table = Table::new(&["scheduled", "state", "execution or flow"]);
    for run in values(&items) {
        let id = match (text(&run, "/execution"), text(&run, "/flow")) {
            ("", "") => String::new(),
            ("", flow) => format!("flow {flow}"),
            (id, _) => id.to_owned(),
        };
        // A time at which nothing was submitted has no state, only its result: skipped, refused or queued.
        let state = match text(&run, "/state") {
            "" => text(&run, "/result"),
            state => state,
        };
        table.row(vec![when(text(&run, "/scheduled_at")), state_text(state), id]);
    }
    match table.is_empty() {
        true => session.out.line("It has not run yet."),
        false => session.out.table(&table),
    }
}

fn row(schedule: &Value) -> Vec<String> {
    let times = match (text(schedule, "/cron"), schedule["interval_ms"].as_i64()) {
        ("", Some(interval)) => format!("every {}", duration_ms(interval)),
        (cron, _) => format!("{cron} {}", text(schedule, "/time_zone")),
    };
    let state = if truth(schedule, "/paused") { "paused" } else { "active" };
    let submits = match text(schedule, "/submit/execution/kind") {
        "" => format!("flow {}", text(schedule, "/submit/flow/name")),
        kind => kind.to_owned(),
    };
    vec![
        text(schedule, "/name").into(),
        state_text(state),
        times,
        relative(text(schedule, "/next_at")),
        text(schedule, "/overlap").into(),
        text(schedule, "/catch_up").into(),
        submits,
    ]
}
