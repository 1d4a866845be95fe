//! `selvedge logs`: prints the stream of an execution's attempts, and follows it.

use super::get::values;
use crate::failure::Failure;
use crate::remote::{Remote, Session};
use crate::terminal::{dim, number, text};
use clap::Args;
use console::style;
use serde_json::Value;
use std::time::Duration;

/// The time between two looks for the next attempt.
const INTERVAL: Duration = Duration::from_millis(500);

/// The arguments of `selvedge logs`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// The id of the execution
    id: String,
    /// Print the frames of this attempt [default: the latest]
    #[arg(long, value_name = "NUMBER")]
    attempt: Option<u32>,
    /// Go on with new frames, also of later attempts, until the execution ends
    #[arg(long, short)]
    follow: bool,
    /// Print the time of each frame
    #[arg(long)]
    times: bool,
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
Frames of the kinds stdout and stderr are printed as they are; events and blobs as JSON, one on each line.

Examples:
  selvedge logs 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a
  selvedge logs 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a --follow
  selvedge logs 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a --attempt 0 --json";

/// Prints the frames.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    match arguments.follow {
        true => follow(&session, &arguments).await,
        false => page_through(&session, &arguments).await,
    }
}

async fn page_through(session: &Session, arguments: &Arguments) -> Result<(), Failure> {
    let mut after: Option<i64> = None;
    loop {
        let request = session.client.get(&["executions", &arguments.id, "stream"]).query("limit", 500);
        let request = request.query_optional("attempt", arguments.attempt).query_optional("after", after);
        let response = request.send().await?;
        let page = response.page()?;
        if page.items.is_empty() && after.is_none() {
            let attempt = number(&response.json()?, "/attempt");
            session.out.note(format!("Attempt {attempt} has no output; --attempt chooses another one."));
        }
        for (item, frame) in page.items.iter().zip(values(&page.items)) {
            print(session, arguments, item.get(), &frame)?;
            after = frame["number"].as_i64();
        }
        if page.next_cursor.is_none() || page.items.is_empty() {
            return Ok(());
        }
    }
}

async fn follow(session: &Session, arguments: &Arguments) -> Result<(), Failure> {
    let id = arguments.id.as_str();
    let mut attempt = arguments.attempt;
    let patient = session.patient();
    let mut asked = session;
    loop {
        let execution: Value = asked.client.get(&["executions", id]).send().await?.json()?;
        asked = &patient;
        let latest = number(&execution, "/attempts") - 1;
        let has_ended = !text(&execution, "/outcome").is_empty();
        let next = attempt.map_or(latest.max(0), i64::from);
        if next <= latest {
            tail(&patient, arguments, next).await?;
            if arguments.attempt.is_some() {
                return Ok(());
            }
            attempt = u32::try_from(next + 1).ok();
        } else if has_ended {
            return Ok(());
        } else {
            tokio::time::sleep(INTERVAL).await;
        }
    }
}

/// Prints the frames of an attempt until its stream is closed.
async fn tail(session: &Session, arguments: &Arguments, attempt: i64) -> Result<(), Failure> {
    let path = ["executions", arguments.id.as_str(), "stream", "tail"];
    let mut frames = session.client.get(&path).query("attempt", attempt).events();
    loop {
        let message = session.next(&mut frames).await?;
        if message.event == "closed" {
            return Ok(());
        }
        let frame: Value = serde_json::from_str(&message.data).unwrap_or_default();
        print(session, arguments, &message.data, &frame)?;
    }
}

fn print(session: &Session, arguments: &Arguments, json: &str, frame: &Value) -> Result<(), Failure> {
    if session.out.json {
        return session.out.json_line(json);
    }
    let time = match arguments.times {
        true => format!("{} ", dim(text(frame, "/at"))),
        false => String::new(),
    };
    let data = &frame["data"];
    match (text(frame, "/kind"), data.as_str()) {
        ("stdout", Some(data)) => session.out.raw(&format!("{time}{data}")),
        ("stderr", Some(data)) => session.out.raw(&format!("{time}{}", style(data).yellow())),
        (_, Some(data)) => session.out.line(format!("{time}{data}")),
        (_, None) => session.out.line(format!("{time}{data}")),
    }
}
