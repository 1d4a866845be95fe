//! `selvedge approvals`: lists the waitpoints at which executions wait for people, and answers them.

use super::resource;
use super::values::{json_argument, millis, span};
use crate::failure::Failure;
use crate::remote::{Remote, Session};
use crate::terminal::{age, flat, relative, state_text, text};
use clap::{Args, Subcommand};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The arguments of `selvedge approvals`.
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
    /// List waitpoints, newest first (the default: open ones)
    #[command(after_help = "Example:\n  selvedge approvals list --source ann --state delivered")]
    List {
        /// Only those in this state: open, delivered, expired, revoked
        #[arg(long, value_name = "STATE", default_value = "open")]
        state: String,
        /// Only those for this person or service
        #[arg(long, value_name = "NAME")]
        source: Option<String>,
        /// Only those of this execution
        #[arg(long, value_name = "ID")]
        execution: Option<String>,
    },
    /// Answer one as an operator
    #[command(
        after_help = "Example:\n  selvedge approvals answer 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a '{\"approved\": true}'"
    )]
    Answer {
        /// The id of the waitpoint
        id: String,
        /// The payload: JSON, @FILE, or - for standard input [default: null]
        payload: Option<String>,
        /// Send the signal of this name [default: that of the waitpoint]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// Give out a new token and end the old one
    #[command(
        after_help = "Example:\n  selvedge approvals reissue 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a --expires 2d"
    )]
    Reissue {
        /// The id of the waitpoint
        id: String,
        /// Let the token expire after this time
        #[arg(long, value_name = "TIME", value_parser = span)]
        expires: Option<Duration>,
    },
    /// End the token
    #[command(after_help = "Example:\n  selvedge approvals revoke 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a")]
    Revoke {
        /// The id of the waitpoint
        id: String,
    },
}

const EXAMPLES: &str = "\
Examples:
  selvedge approvals
  selvedge approvals answer 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a '{\"approved\": true}'
  selvedge approvals list --source ann --state delivered";

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    let open = || Command::List { state: "open".into(), source: None, execution: None };
    match arguments.command.unwrap_or_else(open) {
        Command::List { state, source, execution } => list(&session, &state, source, execution).await,
        Command::Answer { id, payload, name } => answer(&session, &id, payload, name).await,
        Command::Reissue { id, expires } => {
            let body = match expires {
                Some(expires) => json!({"expires_ms": millis(expires)}),
                None => json!({}),
            };
            let response = session.client.post(&["waitpoints", &id, "reissue"]).json(&body).send().await?;
            resource::print(&session, &response, |answer| text(answer, "/token").to_owned())
        }
        Command::Revoke { id } => {
            let response = session.client.post(&["waitpoints", &id, "revoke"]).send().await?;
            resource::print(&session, &response, |_| format!("The token of {id} is revoked."))
        }
    }
}

async fn list(
    session: &Session,
    state: &str,
    source: Option<String>,
    execution: Option<String>,
) -> Result<(), Failure> {
    let request = session.client.get(&["waitpoints"]).query("state", state);
    let request = request.query_optional("source", source).query_optional("execution", execution);
    let items = request.items(1000).await?;
    if session.out.json {
        return items.iter().try_for_each(|item| session.out.json_line(item.get()));
    }
    let headings = ["id", "name", "for", "state", "age", "expires", "prompt"];
    let mut table = crate::terminal::Table::new(&headings);
    for waitpoint in super::get::values(&items) {
        table.row(vec![
            text(&waitpoint, "/id").into(),
            text(&waitpoint, "/name").into(),
            text(&waitpoint, "/source").into(),
            state_text(text(&waitpoint, "/state")),
            age(text(&waitpoint, "/created_at")),
            relative(text(&waitpoint, "/expires_at")),
            flat(&waitpoint["prompt"]),
        ]);
    }
    match table.is_empty() {
        true => session.out.line(format!("No waitpoint is {state}.")),
        false => session.out.table(&table),
    }
}

async fn answer(
    session: &Session,
    id: &str,
    payload: Option<String>,
    name: Option<String>,
) -> Result<(), Failure> {
    let mut body: BTreeMap<&str, Box<RawValue>> = BTreeMap::new();
    if let Some(payload) = payload {
        body.insert("payload", json_argument(&payload, "the payload")?);
    }
    if let Some(name) = name {
        let name = serde_json::value::to_raw_value(&Value::from(name));
        body.insert("name", name.map_err(|error| Failure::Failed(error.to_string()))?);
    }
    let response = session.client.post(&["waitpoints", id, "answer"]).json(&body).send().await?;
    resource::print(session, &response, |answer| match text(answer, "/effect") {
        "resumed" => "Answered: the execution resumes.".into(),
        "counted" => "Answered: the execution waits for more answers.".into(),
        effect => format!("Answered: {effect}."),
    })
}
