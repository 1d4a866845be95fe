//! `selvedge bulk-jobs`: lists, follows and stops bulk jobs.

use super::get::values;
use crate::failure::Failure;
use crate::remote::{Remote, Session};
use crate::terminal::{Table, age, number, spinner, state_text, text};
use clap::{Args, Subcommand};
use serde_json::Value;
use std::time::Duration;

/// The time between two looks at a job.
const INTERVAL: Duration = Duration::from_millis(500);

/// The arguments of `selvedge bulk-jobs`.
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
    /// List bulk jobs, newest first (the default)
    #[command(after_help = "Example:\n  selvedge bulk-jobs list --json")]
    List,
    /// Show one
    #[command(after_help = "Example:\n  selvedge bulk-jobs get 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a")]
    Get {
        /// The id of the job
        id: String,
    },
    /// Follow one until it ends
    #[command(after_help = "Example:\n  selvedge bulk-jobs watch 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a")]
    Watch {
        /// The id of the job
        id: String,
    },
    /// Stop one; what it has done stays done
    #[command(after_help = "Example:\n  selvedge bulk-jobs stop 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a")]
    Stop {
        /// The id of the job
        id: String,
    },
}

const EXAMPLES: &str = "\
Bulk jobs are started by cancel, replay, priority, reschedule and tag, with --job or for more than 10 000 executions.

Examples:
  selvedge cancel --lane images --job --yes
  selvedge bulk-jobs
  selvedge bulk-jobs watch 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a";

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    match arguments.command.unwrap_or(Command::List) {
        Command::List => list(&session).await,
        Command::Get { id } => {
            let response = session.client.get(&["bulk-jobs", &id]).send().await?;
            match session.out.json {
                true => session.out.json_line(response.text()?),
                false => session.out.line(line(&response.json()?)),
            }
        }
        Command::Watch { id } => follow(&session, &id).await,
        Command::Stop { id } => {
            let response = session.client.delete(&["bulk-jobs", &id]).send().await?;
            match session.out.json {
                true => session.out.json_line(response.text()?),
                false => session.out.line(line(&response.json()?)),
            }
        }
    }
}

async fn list(session: &Session) -> Result<(), Failure> {
    let items = session.client.get(&["bulk-jobs"]).items(500).await?;
    if session.out.json {
        return items.iter().try_for_each(|item| session.out.json_line(item.get()));
    }
    let mut table = Table::new(&["id", "action", "state", "matched", "done", "refused", "age", "filter"]);
    for job in values(&items) {
        table.row(vec![
            text(&job, "/id").into(),
            text(&job, "/action/type").into(),
            state_text(text(&job, "/state")),
            number(&job, "/matched").to_string(),
            number(&job, "/done").to_string(),
            number(&job, "/refused_count").to_string(),
            age(text(&job, "/created_at")),
            job["filter"].to_string(),
        ]);
    }
    match table.is_empty() {
        true => session.out.line("There are no bulk jobs."),
        false => session.out.table(&table),
    }
}

/// Starts a job and follows it until it ends.
pub async fn start(session: &Session, body: &Value) -> Result<(), Failure> {
    let job: Value = session.client.post(&["bulk-jobs"]).json(body).send().await?.json()?;
    let id = text(&job, "/id").to_owned();
    session
        .out
        .note(format!("The bulk job {id} runs on the server; interrupting this command does not stop it."));
    follow(session, &id).await
}

async fn follow(session: &Session, id: &str) -> Result<(), Failure> {
    let progress = spinner(&session.out, "starting");
    let patient = session.patient();
    let mut asked = session;
    loop {
        let response = asked.client.get(&["bulk-jobs", id]).send().await?;
        asked = &patient;
        let job: Value = response.json()?;
        if text(&job, "/state") != "running" {
            progress.finish_and_clear();
            return match session.out.json {
                true => session.out.json_line(response.text()?),
                false => session.out.line(line(&job)),
            };
        }
        progress.set_message(line(&job));
        tokio::time::sleep(INTERVAL).await;
    }
}

fn line(job: &Value) -> String {
    format!(
        "{} {}: {} matched, {} changed, {} unchanged, {} refused",
        text(job, "/action/type"),
        state_text(text(job, "/state")),
        number(job, "/matched"),
        number(job, "/done"),
        number(job, "/unchanged"),
        number(job, "/refused_count"),
    )
}
