//! `selvedge inbox`: shows submissions from SQL that were refused, and takes them in again.

use super::resource;
use crate::failure::Failure;
use crate::remote::Remote;
use crate::terminal::{age, number, text};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

/// The arguments of `selvedge inbox`.
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
    /// List refused submissions, newest first (the default)
    #[command(after_help = "Example:\n  selvedge inbox list --json")]
    List,
    /// Take a refused submission in again
    #[command(after_help = "Example:\n  selvedge inbox retry 17")]
    Retry {
        /// The number of the submission
        number: u64,
    },
    /// Delete a refused submission
    #[command(after_help = "Example:\n  selvedge inbox delete 17")]
    Delete {
        /// The number of the submission
        number: u64,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

const EXAMPLES: &str = "\
Examples:
  selvedge inbox
  selvedge inbox retry 17";

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    match arguments.command.unwrap_or(Command::List) {
        Command::List => {
            let headings = ["number", "type", "id", "role", "age", "problem"];
            resource::list(&session, &["inbox"], &headings, "No submission from SQL was refused.", row).await
        }
        Command::Retry { number } => {
            let path = ["inbox", &number.to_string(), "retry"];
            let response = session.client.post(&path).json(&json!({})).send().await?;
            resource::print(&session, &response, |_| format!("Submission {number} is taken in again."))
        }
        Command::Delete { number, yes } => {
            let what = format!("Submission {number}");
            resource::delete(&session, &["inbox", &number.to_string()], &what, yes).await
        }
    }
}

fn row(refused: &Value) -> Vec<String> {
    vec![
        number(refused, "/number").to_string(),
        text(refused, "/type").into(),
        text(refused, "/id").into(),
        text(refused, "/role").into(),
        age(text(refused, "/refused_at")),
        format!("{}: {}", text(refused, "/problem/code"), text(refused, "/problem/detail")),
    ]
}
