//! `selvedge lanes`: lists lanes, limits, pauses and resumes them.

use super::resource;
use super::values::{add, limit, limit_text, rate, rate_text};
use crate::failure::Failure;
use crate::remote::Remote;
use crate::terminal::{number, state_text, text};
use clap::{Args, Subcommand};
use serde_json::{Map, Value};

/// The arguments of `selvedge lanes`.
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
    /// List lanes (the default)
    #[command(after_help = "Example:\n  selvedge lanes list --json")]
    List,
    /// Show one
    #[command(after_help = "Example:\n  selvedge lanes get images")]
    Get {
        /// The name of the lane
        name: String,
    },
    /// Change its limits; what is not named stays
    #[command(after_help = "Example:\n  selvedge lanes set images --concurrency 4 --rate 100/1m")]
    Set {
        /// The name of the lane
        name: String,
        /// Allow at most this many active executions; none lifts the limit
        #[arg(long, value_name = "NUMBER", value_parser = limit)]
        concurrency: Option<Value>,
        /// Allow at most this many starts in a window, such as 100/1m; none lifts the limit
        #[arg(long, value_name = "COUNT/WINDOW", value_parser = rate)]
        rate: Option<Value>,
        /// Give it this share among the lanes of a worker
        #[arg(long, value_name = "NUMBER")]
        weight: Option<u32>,
        /// Set the state: active, paused or draining
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
    },
    /// Hand out nothing until it is resumed
    #[command(after_help = "Example:\n  selvedge lanes pause images")]
    Pause {
        /// The name of the lane
        name: String,
    },
    /// Hand out executions again
    #[command(after_help = "Example:\n  selvedge lanes resume images")]
    Resume {
        /// The name of the lane
        name: String,
    },
    /// Remove its limits
    #[command(after_help = "Example:\n  selvedge lanes delete images")]
    Delete {
        /// The name of the lane
        name: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

const EXAMPLES: &str = "\
Examples:
  selvedge lanes
  selvedge lanes set images --concurrency 4 --rate 100/1m
  selvedge lanes set images --rate none
  selvedge lanes pause images";

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    match arguments.command.unwrap_or(Command::List) {
        Command::List => {
            let headings = ["name", "state", "waiting", "active", "concurrency", "rate", "weight"];
            let empty = "There are no lanes. One appears with its first execution.";
            resource::list(&session, &["lanes"], &headings, empty, row).await
        }
        Command::Get { name } => resource::get(&session, &["lanes", &name]).await,
        Command::Set { name, concurrency, rate, weight, state } => {
            let mut change = Map::new();
            add(&mut change, "concurrency", concurrency);
            add(&mut change, "rate", rate);
            add(&mut change, "weight", weight);
            add(&mut change, "state", state);
            resource::require_change(&change, "--concurrency 4")?;
            let response = resource::set(&session, &["lanes", &name], &change).await?;
            resource::print(&session, &response, resource::fields)
        }
        Command::Pause { name } => {
            let response = session.client.post(&["lanes", &name, "pause"]).send().await?;
            resource::print(&session, &response, |_| format!("The lane {name} is paused."))
        }
        Command::Resume { name } => {
            let response = session.client.post(&["lanes", &name, "resume"]).send().await?;
            resource::print(&session, &response, |_| format!("The lane {name} is active."))
        }
        Command::Delete { name, yes } => {
            let what = format!("The configuration of the lane {name}");
            resource::delete(&session, &["lanes", &name], &what, yes).await
        }
    }
}

fn row(lane: &Value) -> Vec<String> {
    vec![
        text(lane, "/name").into(),
        state_text(text(lane, "/state")),
        number(lane, "/waiting").to_string(),
        number(lane, "/active").to_string(),
        limit_text(&lane["concurrency"]),
        rate_text(&lane["rate"]),
        number(lane, "/weight").to_string(),
    ]
}
