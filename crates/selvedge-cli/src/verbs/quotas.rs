//! `selvedge quotas`: lists and changes quotas.

use super::resource;
use super::values::{add, limit, limit_text, rate, rate_text};
use crate::failure::Failure;
use crate::remote::Remote;
use crate::terminal::{number, text};
use clap::{Args, Subcommand};
use serde_json::{Map, Value};

/// The arguments of `selvedge quotas`.
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
    /// List quotas (the default)
    #[command(after_help = "Example:\n  selvedge quotas list --json")]
    List,
    /// Show one
    #[command(after_help = "Example:\n  selvedge quotas get model")]
    Get {
        /// The name of the quota
        name: String,
    },
    /// Create one, or change its limits; what is not named stays
    #[command(after_help = "Example:\n  selvedge quotas set model --rate 60/1m --concurrency 8")]
    Set {
        /// The name of the quota
        name: String,
        /// Allow at most this many active executions; none lifts the limit
        #[arg(long, value_name = "NUMBER", value_parser = limit)]
        concurrency: Option<Value>,
        /// Allow at most this many starts in a window, such as 60/1m; none lifts the limit
        #[arg(long, value_name = "COUNT/WINDOW", value_parser = rate)]
        rate: Option<Value>,
    },
    /// Delete one and release what it held
    #[command(after_help = "Example:\n  selvedge quotas delete model")]
    Delete {
        /// The name of the quota
        name: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

const EXAMPLES: &str = "\
Examples:
  selvedge quotas
  selvedge quotas set model --rate 60/1m --concurrency 8
  selvedge submit ask --quota model";

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    match arguments.command.unwrap_or(Command::List) {
        Command::List => {
            let headings = ["name", "active", "concurrency", "rate", "held"];
            let empty = "There are no quotas. Create one: selvedge quotas set model --rate 60/1m";
            resource::list(&session, &["quotas"], &headings, empty, row).await
        }
        Command::Get { name } => resource::get(&session, &["quotas", &name]).await,
        Command::Set { name, concurrency, rate } => {
            let mut change = Map::new();
            add(&mut change, "concurrency", concurrency);
            add(&mut change, "rate", rate);
            resource::require_change(&change, "--rate 60/1m")?;
            let response = resource::set(&session, &["quotas", &name], &change).await?;
            resource::print(&session, &response, resource::fields)
        }
        Command::Delete { name, yes } => {
            resource::delete(&session, &["quotas", &name], &format!("The quota {name}"), yes).await
        }
    }
}

fn row(quota: &Value) -> Vec<String> {
    vec![
        text(quota, "/name").into(),
        number(quota, "/active").to_string(),
        limit_text(&quota["concurrency"]),
        rate_text(&quota["rate"]),
        number(quota, "/held").to_string(),
    ]
}
