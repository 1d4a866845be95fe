//! `selvedge namespaces`: creates, lists, changes and deletes namespaces.

use super::resource;
use super::values::{add, millis, span};
use crate::failure::Failure;
use crate::remote::Remote;
use crate::terminal::{duration_ms, number, state_text, text, truth};
use clap::{Args, Subcommand};
use serde_json::{Map, Value};
use std::time::Duration;

/// The arguments of `selvedge namespaces`.
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
    /// List namespaces (the default)
    #[command(after_help = "Example:\n  selvedge namespaces list --json")]
    List,
    /// Show one
    #[command(after_help = "Example:\n  selvedge namespaces get shop")]
    Get {
        /// The name of the namespace
        name: String,
    },
    /// Create one, or change it; what is not named stays
    #[command(after_help = "Example:\n  selvedge namespaces set shop --retention 30d")]
    Set {
        /// The name of the namespace
        name: String,
        /// Keep ended executions this long, unless they say otherwise
        #[arg(long, value_name = "TIME", value_parser = span)]
        retention: Option<Duration>,
        /// Give it this share among the namespaces of a worker's key
        #[arg(long, value_name = "NUMBER")]
        weight: Option<u32>,
        /// End suspensions after this time, unless they say otherwise
        #[arg(long, value_name = "TIME", value_parser = span)]
        suspension_timeout: Option<Duration>,
    },
    /// Delete one with everything in it, in the background
    #[command(after_help = "Example:\n  selvedge namespaces delete shop")]
    Delete {
        /// The name of the namespace
        name: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

const EXAMPLES: &str = "\
Examples:
  selvedge namespaces
  selvedge namespaces set shop --retention 30d
  selvedge namespaces delete shop";

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    match arguments.command.unwrap_or(Command::List) {
        Command::List => {
            let headings = ["name", "state", "weight", "retention", "suspension timeout"];
            resource::list(&session, &["admin", "namespaces"], &headings, "There are no namespaces.", row)
                .await
        }
        Command::Get { name } => resource::get(&session, &["admin", "namespaces", &name]).await,
        Command::Set { name, retention, weight, suspension_timeout } => {
            let mut change = Map::new();
            // A PUT replaces the settings, so those that are not named are kept from the existing namespace.
            let path = ["admin", "namespaces", name.as_str()];
            if let Ok(existing) = session.client.get(&path).send().await {
                let existing: Value = existing.json()?;
                for field in ["retention_ms", "weight", "suspension_timeout_ms"] {
                    let value = existing[field].clone();
                    add(&mut change, field, (!value.is_null()).then_some(value));
                }
            }
            add(&mut change, "retention_ms", retention.map(millis));
            add(&mut change, "weight", weight);
            add(&mut change, "suspension_timeout_ms", suspension_timeout.map(millis));
            let response = session.client.put(&path).json(&change).send().await?;
            resource::print(&session, &response, resource::fields)
        }
        Command::Delete { name, yes } => {
            let question = format!("The namespace {name} will be deleted with everything in it.");
            if !session.confirm(&question, yes)? {
                return Err(Failure::Failed("nothing was deleted".into()));
            }
            let response = session.client.delete(&["admin", "namespaces", &name]).send().await?;
            resource::print(&session, &response, |job| {
                format!(
                    "The namespace {name} is being deleted; follow it: selvedge bulk-jobs watch {}",
                    text(job, "/id")
                )
            })
        }
    }
}

fn row(namespace: &Value) -> Vec<String> {
    let span = |field: &str| match namespace[field].as_i64() {
        Some(ms) => duration_ms(ms),
        None => "–".to_owned(),
    };
    let state = if truth(namespace, "/deleting") { "deleting" } else { "active" };
    vec![
        text(namespace, "/name").into(),
        state_text(state),
        number(namespace, "/weight").to_string(),
        span("retention_ms"),
        span("suspension_timeout_ms"),
    ]
}
