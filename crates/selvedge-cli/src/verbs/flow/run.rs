//! `selvedge flow run`: submits a flow from a file.

use super::{Run, read_flow_file, watch};
use crate::failure::Failure;
use crate::remote::Session;
use crate::terminal::{text, truth};
use crate::verbs::wait;
use serde_json::{Value, json};

/// Submits the flow, and follows it or waits for its end if asked to.
pub async fn run(session: &Session, arguments: Run) -> Result<(), Failure> {
    let mut body = read_flow_file(&arguments.file, &arguments.set)?;
    if let Some(key) = arguments.idempotency_key {
        body["idempotency_key"] = json!(key);
    }
    let response = session.client.post(&["flows"]).json(&body).send().await?;
    let answer: Value = response.json()?;
    let id = text(&answer, "/flow/id").to_owned();
    if truth(&answer, "/duplicate") {
        session.out.note("This flow exists already.");
    }
    if arguments.watch {
        return watch(session, &id).await;
    }
    if arguments.wait {
        return wait::for_flow(session, &id, arguments.timeout).await;
    }
    match session.out.json {
        true => session.out.json_line(response.text()?),
        false => session.out.line(id),
    }
}
