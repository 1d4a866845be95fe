//! `selvedge workers`: lists workers, asks them to drain, removes those that are gone.

use super::resource;
use crate::failure::Failure;
use crate::remote::Remote;
use crate::terminal::{age, items, state_text, strings, text, truth};
use clap::{Args, Subcommand};
use serde_json::Value;

/// The arguments of `selvedge workers`.
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
    /// List workers, also those that ended within 15 minutes (the default)
    #[command(after_help = "Example:\n  selvedge workers list --json")]
    List,
    /// Ask a worker to finish what it has and claim nothing more
    #[command(after_help = "Example:\n  selvedge workers drain laptop-1")]
    Drain {
        /// The instance of the worker
        instance: String,
    },
    /// Say that a worker is gone: its executions are put back at once
    #[command(after_help = "Example:\n  selvedge workers delete laptop-1")]
    Delete {
        /// The instance of the worker
        instance: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

const EXAMPLES: &str = "\
Examples:
  selvedge workers
  selvedge workers drain laptop-1
  selvedge list --worker laptop-1 --state active";

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    match arguments.command.unwrap_or(Command::List) {
        Command::List => {
            let headings = ["instance", "worker", "state", "seen", "lanes", "capabilities", "kinds"];
            let empty = "There are no workers. Start one: selvedge worker exec --kind KIND -- COMMAND";
            resource::list(&session, &["workers"], &headings, empty, row).await
        }
        Command::Drain { instance } => {
            let response = session.client.post(&["workers", &instance, "drain"]).send().await?;
            resource::print(&session, &response, |_| format!("{instance} was asked to drain."))
        }
        Command::Delete { instance, yes } => {
            let question = format!("The executions of {instance} are given to other workers.");
            if !session.confirm(&question, yes)? {
                return Err(Failure::Failed("nothing was changed".into()));
            }
            let response = session.client.delete(&["workers", &instance]).send().await?;
            resource::print(&session, &response, |answer| {
                format!("{instance} is gone; {} executions were put back.", items(answer, "/released").len())
            })
        }
    }
}

fn row(worker: &Value) -> Vec<String> {
    let state = match (truth(worker, "/live"), truth(worker, "/draining"), text(worker, "/ended_reason")) {
        (true, false, _) => state_text("live"),
        (true, true, _) => state_text("draining"),
        (false, _, "") => state_text("dead"),
        (false, _, reason) => format!("{} ({reason})", state_text("dead")),
    };
    vec![
        text(worker, "/instance").into(),
        text(worker, "/worker").into(),
        state,
        age(text(worker, "/seen_at")),
        strings(worker, "/lanes"),
        strings(worker, "/capabilities"),
        strings(worker, "/kinds"),
    ]
}
