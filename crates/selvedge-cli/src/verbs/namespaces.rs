//! `selvedge namespaces`: creates, lists, changes and deletes namespaces.

use super::resource;
use super::values::{millis, span};
use crate::failure::Failure;
use crate::remote::Remote;
use crate::terminal::{duration_ms, state_text};
use clap::{Args, Subcommand};
use selvedge_api::namespaces::{DeleteNamespace, GetNamespace, ListNamespaces, Namespace, PutNamespace};
use selvedge_client::TypedResponse;
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
            let namespaces =
                session.client.operation(&ListNamespaces::default()).items(resource::MOST).await?;
            resource::print_items(&session, &namespaces, &headings, "There are no namespaces.", row)
        }
        Command::Get { name } => resource::get(&session, &["admin", "namespaces", &name]).await,
        Command::Set { name, retention, weight, suspension_timeout } => {
            let mut put = PutNamespace { name: name.clone(), ..PutNamespace::default() };
            // A PUT replaces the settings, so those that are not named are kept from the existing namespace.
            match session.client.operation(&GetNamespace { name }).send().await {
                Ok(TypedResponse { value: existing, .. }) => {
                    put.retention_ms = existing.retention_ms;
                    put.weight = Some(existing.weight);
                    put.suspension_timeout_ms = existing.suspension_timeout_ms;
                }
                Err(error) if error.code() == Some("not_found") => {}
                Err(error) => return Err(error.into()),
            }
            let ms = |time| i64::try_from(millis(time)).unwrap_or(i64::MAX);
            put.retention_ms = retention.map(ms).or(put.retention_ms);
            put.weight = weight.or(put.weight);
            put.suspension_timeout_ms = suspension_timeout.map(ms).or(put.suspension_timeout_ms);
            let answered = session.client.operation(&put).send().await?;
            resource::print(&session, &answered.response, resource::fields)
        }
        Command::Delete { name, yes } => {
            let question = format!("The namespace {name} will be deleted with everything in it.");
            if !session.confirm(&question, yes)? {
                return Err(Failure::Failed("nothing was deleted".into()));
            }
            let delete = DeleteNamespace { name: name.clone() };
            let job = session.client.operation(&delete).send().await?;
            resource::print_value(&session, &job, |job| {
                format!(
                    "The namespace {name} is being deleted; follow it: selvedge bulk-jobs watch {}",
                    job.id
                )
            })
        }
    }
}

fn row(namespace: &Namespace) -> Vec<String> {
    let span = |ms: Option<i64>| ms.map_or_else(|| "–".to_owned(), duration_ms);
    let state = if namespace.deleting { "deleting" } else { "active" };
    vec![
        namespace.name.clone(),
        state_text(state),
        namespace.weight.to_string(),
        span(namespace.retention_ms),
        span(namespace.suspension_timeout_ms),
    ]
}
