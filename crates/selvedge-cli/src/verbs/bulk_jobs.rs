//! `selvedge bulk-jobs`: lists, follows and stops bulk jobs.

use super::resource;
use crate::failure::Failure;
use crate::remote::{Remote, Session};
use crate::terminal::{age, spinner, state_text};
use clap::{Args, Subcommand};
use selvedge_api::bulk_jobs::{BulkJob, GetBulkJob, ListBulkJobs, StartedBulkJob, StopBulkJob};
use selvedge_api::times;
use selvedge_core::bulk_job::{BulkJobId, BulkJobState};
use serde_json::{Value, json};
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
            let get = GetBulkJob { id: resource::id(&id)? };
            resource::print_value(&session, &session.client.operation(&get).send().await?, line)
        }
        Command::Watch { id } => follow(&session, resource::id(&id)?).await,
        Command::Stop { id } => {
            let stop = StopBulkJob { id: resource::id(&id)? };
            resource::print_value(&session, &session.client.operation(&stop).send().await?, line)
        }
    }
}

async fn list(session: &Session) -> Result<(), Failure> {
    let jobs = session.client.operation(&ListBulkJobs::default()).items(500).await?;
    let headings = ["id", "action", "state", "matched", "done", "refused", "age", "filter"];
    resource::print_items(session, &jobs, &headings, "There are no bulk jobs.", |job| {
        vec![
            job.id.to_string(),
            job.action.as_str().into(),
            state_text(job.state.as_str()),
            job.matched.to_string(),
            job.done.to_string(),
            job.refused_count.to_string(),
            age(&times::text(job.created_at)),
            json!(job.filter).to_string(),
        ]
    })
}

/// Starts a job and follows it until it ends.
pub async fn start(session: &Session, body: &Value) -> Result<(), Failure> {
    let response = session.client.post(&["bulk-jobs"]).json(body).send().await?;
    let StartedBulkJob { job, .. } = response.read()?;
    let id = job.id;
    session
        .out
        .note(format!("The bulk job {id} runs on the server; interrupting this command does not stop it."));
    follow(session, id).await
}

async fn follow(session: &Session, id: BulkJobId) -> Result<(), Failure> {
    let progress = spinner(&session.out, "starting");
    let patient = session.patient();
    let mut asked = session;
    loop {
        let answered = asked.client.operation(&GetBulkJob { id }).send().await?;
        asked = &patient;
        if answered.value.state != BulkJobState::Running.into() {
            progress.finish_and_clear();
            return resource::print_value(session, &answered, line);
        }
        progress.set_message(line(&answered.value));
        tokio::time::sleep(INTERVAL).await;
    }
}

fn line(job: &BulkJob) -> String {
    format!(
        "{} {}: {} matched, {} changed, {} unchanged, {} refused",
        job.action.as_str(),
        state_text(job.state.as_str()),
        job.matched,
        job.done,
        job.unchanged,
        job.refused_count,
    )
}
