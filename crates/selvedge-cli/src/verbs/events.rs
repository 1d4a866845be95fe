//! `selvedge events`: prints the event log, and follows it.

use super::get::values;
use super::values::tag_filter;
use crate::failure::Failure;
use crate::remote::{Remote, Session};
use crate::terminal::{dim, heading, text};
use clap::Args;
use selvedge_client::Request;
use serde_json::Value;

/// The arguments of `selvedge events`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// Go on with new events until interrupted; resumes by itself when the connection breaks
    #[arg(long, short)]
    follow: bool,
    /// Only events of these types, separated by commas
    #[arg(long, value_name = "TYPES")]
    types: Option<String>,
    /// Only events about this execution
    #[arg(long, value_name = "ID")]
    execution: Option<String>,
    /// Only events about this flow
    #[arg(long, value_name = "ID")]
    flow: Option<String>,
    /// Only events about executions with this tag
    #[arg(long, value_name = "NAME=VALUE", value_parser = tag_filter)]
    tag: Option<String>,
    /// Begin after this cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Begin at now, beginning, or a time (RFC 3339) [default: beginning, with --follow now]
    #[arg(long, value_name = "WHERE", conflicts_with = "after")]
    from: Option<String>,
    /// Print at most this many; not with --follow
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    limit: usize,
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
Examples:
  selvedge events --follow
  selvedge events --follow --types execution.failed,flow.failed --json
  selvedge events --execution 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a
  selvedge events --from 2026-03-01T12:00:00Z --limit 1000 --json > events.jsonl";

pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    match arguments.follow {
        true => follow(&session, &arguments).await,
        false => page_through(&session, &arguments).await,
    }
}

/// Returns the request of the log from a cursor on, or from where the arguments begin.
fn request(session: &Session, arguments: &Arguments, after: Option<&String>) -> Request {
    let from = if after.is_some() { None } else { arguments.from.as_ref() };
    session
        .client
        .get(&["events"])
        .query_optional("types", arguments.types.as_ref())
        .query_optional("execution", arguments.execution.as_ref())
        .query_optional("flow", arguments.flow.as_ref())
        .query_optional("tag", arguments.tag.as_ref())
        .query_optional("from", from)
        .query_optional("after", after)
}

async fn page_through(session: &Session, arguments: &Arguments) -> Result<(), Failure> {
    let mut left = arguments.limit;
    let mut after = arguments.after.clone();
    while left > 0 {
        let request = request(session, arguments, after.as_ref()).query("limit", left.min(500));
        let page = request.send().await?.page()?;
        left -= page.items.len().min(left);
        for (item, event) in page.items.iter().zip(values(&page.items)) {
            print(session, item.get(), &event)?;
        }
        match page.next_cursor {
            Some(cursor) => after = Some(cursor),
            None => break,
        }
    }
    Ok(())
}

async fn follow(session: &Session, arguments: &Arguments) -> Result<(), Failure> {
    // The first request fails at once if the server cannot be reached. Without a position it asks for the present one: a
    // restart before the first event must not move the beginning.
    let mut events = if arguments.after.is_none() && arguments.from.is_none() {
        let now = session.client.get(&["events"]).query("from", "now").query("limit", 1).send().await?;
        let cursor = now.json::<Value>()?["resume_cursor"].as_str().map(str::to_owned);
        request(session, arguments, cursor.as_ref()).events()
    } else {
        let mut events = request(session, arguments, arguments.after.as_ref()).events();
        events.connect().await?;
        events
    };
    loop {
        let message = session.next(&mut events).await?;
        print(session, &message.data, &serde_json::from_str(&message.data).unwrap_or_default())?;
    }
}

fn print(session: &Session, json: &str, event: &Value) -> Result<(), Failure> {
    if session.out.json {
        return session.out.json_line(json);
    }
    let subject = match (text(event, "/execution"), text(event, "/flow")) {
        ("", "") => String::new(),
        ("", flow) => format!("flow {flow}"),
        (execution, _) => execution.to_owned(),
    };
    let data = match &event["data"] {
        Value::Object(data) if !data.is_empty() => dim(event["data"].to_string()),
        _ => String::new(),
    };
    let actor = match text(event, "/actor") {
        "" => String::new(),
        actor => format!(" by {actor}"),
    };
    let line = format!(
        "{} {} {subject}{actor} {data}",
        dim(text(event, "/at")),
        heading(format!("{:<24}", text(event, "/type")))
    );
    session.out.line(line.trim_end())
}
