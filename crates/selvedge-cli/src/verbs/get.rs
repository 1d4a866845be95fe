//! `selvedge get`: shows an execution with its timeline, or a flow.

use super::execution_view;
use crate::failure::Failure;
use crate::remote::{Remote, Session};
use crate::terminal::heading;
use clap::Args;
use serde_json::Value;
use serde_json::value::RawValue;

/// The most attempts, steps and signals that a timeline shows.
const TIMELINE: usize = 200;

/// The arguments of `selvedge get`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// The id of an execution or a flow
    id: String,
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
Examples:
  selvedge get 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a
  selvedge get 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a --json | jq .result";

/// Shows the execution, or the flow if no execution has the id.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    let id = arguments.id.as_str();
    let response = match session.client.get(&["executions", id]).send().await {
        Err(error) if error.code() == Some("not_found") => {
            return super::flow::get(&session, id).await.map_err(|failure| neither(failure, id));
        }
        response => response?,
    };
    if session.out.json {
        return session.out.json_line(response.text()?);
    }
    session.out.raw(&view(&session, &response.json()?).await?)
}

/// Names both kinds of objects in the failure to find an id that may belong to either.
pub fn neither(failure: Failure, id: &str) -> Failure {
    match failure {
        Failure::NotFound(_) => Failure::NotFound(format!(
            "there is no execution and no flow {id}; `selvedge list` shows executions"
        )),
        other => other,
    }
}

/// Returns an execution as text, with its timeline.
pub async fn view(session: &Session, execution: &Value) -> Result<String, Failure> {
    let id = execution["id"].as_str().unwrap_or_default();
    let attempts = parts(session, id, "attempts").await?;
    let steps = parts(session, id, "steps").await?;
    let signals = parts(session, id, "signals").await?;
    let timeline = execution_view::timeline(execution, &attempts, &steps, &signals);
    let mut text = execution_view::fields(execution);
    if !timeline.is_empty() {
        text.push_str(&format!("\n{}\n{}", heading("Timeline"), timeline.draw(session.out.width)));
    }
    Ok(text)
}

async fn parts(session: &Session, id: &str, part: &str) -> Result<Vec<Value>, Failure> {
    let items = session.client.get(&["executions", id, part]).items(TIMELINE).await?;
    Ok(values(&items))
}

/// Parses the items of a list. The server sent them as JSON.
pub fn values(items: &[Box<RawValue>]) -> Vec<Value> {
    items.iter().filter_map(|item| serde_json::from_str(item.get()).ok()).collect()
}
