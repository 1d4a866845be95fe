//! `selvedge watch`: follows an execution or a flow until it ends, drawing it again with every change.

use super::{flow, get, wait};
use crate::failure::Failure;
use crate::remote::{Remote, Session};
use crate::terminal::{Live, state_text, text};
use clap::Args;
use selvedge_client::EventStream;
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;

/// The longest time between two drawings, so that running times advance.
const REDRAW: Duration = Duration::from_secs(1);

/// The arguments of `selvedge watch`.
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
The exit code is that of `selvedge wait`.

Examples:
  selvedge watch 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a
  selvedge watch $(selvedge submit demo.sleep '{\"ms\": 5000}')";

/// Follows the execution, or the flow if no execution has the id.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    let id = arguments.id.as_str();
    match execution(&session, id).await {
        Err(Failure::NotFound(_)) => {
            flow::watch(&session, id).await.map_err(|failure| get::neither(failure, id))
        }
        ended => ended,
    }
}

async fn execution(session: &Session, id: &str) -> Result<(), Failure> {
    // An id that does not exist is refused here, before the stream refuses it as a filter.
    session.client.get(&["executions", id]).send().await?;
    // The stream is opened before the first look, so that no change falls between the two.
    let mut events = session.client.get(&["events"]).query("execution", id).query("from", "now").events();
    events.connect().await?;
    let session = &session.patient();
    let mut live = Live::new(&session.out);
    let mut shown = String::new();
    loop {
        let response = session.client.get(&["executions", id]).send().await?;
        let execution: Value = response.json()?;
        let (state, outcome) =
            (text(&execution, "/state").to_owned(), text(&execution, "/outcome").to_owned());
        match &mut live {
            Some(live) => live.draw(get::view(session, &execution).await?.trim_end())?,
            None if session.out.json => {
                let version = execution["version"].to_string();
                if version != shown {
                    session.out.json_line(response.text()?)?;
                    shown = version;
                }
            }
            None if state != shown => {
                session.out.line(state_text(&state))?;
                shown = state;
            }
            None => {}
        }
        if !outcome.is_empty() {
            return wait::ended(&outcome, wait::message(id, &execution));
        }
        next_change(&mut events).await?;
    }
}

/// Waits for an event, and for those that follow at once; at most until the next drawing is due.
pub async fn next_change(events: &mut EventStream) -> Result<(), Failure> {
    const TOGETHER: Duration = Duration::from_millis(30);
    if let Ok(first) = timeout(REDRAW, events.next()).await {
        first?;
        while let Ok(further) = timeout(TOGETHER, events.next()).await {
            further?;
        }
    }
    Ok(())
}
