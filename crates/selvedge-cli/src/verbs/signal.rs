//! `selvedge signal`: sends a signal to an execution.

use super::values::json_argument;
use crate::failure::Failure;
use crate::remote::Remote;
use crate::terminal::{text, truth};
use clap::Args;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The arguments of `selvedge signal`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// The id of the execution
    id: String,
    /// The name of the signal
    name: String,
    /// The payload: JSON, @FILE, or - for standard input [default: null]
    payload: Option<String>,
    /// Deliver a signal with this key once
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Name the sender; only operators may name another than themselves
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
Examples:
  selvedge signal 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a approve '{\"comment\": \"fine\"}' --source ann";

/// Sends the signal.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    let raw = |value: Value| {
        serde_json::value::to_raw_value(&value).map_err(|error| Failure::Failed(error.to_string()))
    };
    let mut body: BTreeMap<&str, Box<RawValue>> = BTreeMap::new();
    body.insert("name", raw(json!(arguments.name))?);
    if let Some(payload) = &arguments.payload {
        body.insert("payload", json_argument(payload, "the payload")?);
    }
    for (name, value) in [("idempotency_key", arguments.idempotency_key), ("source", arguments.source)] {
        if let Some(value) = value {
            body.insert(name, raw(json!(value))?);
        }
    }
    let response = session.client.post(&["executions", &arguments.id, "signals"]).json(&body).send().await?;
    if session.out.json {
        return session.out.json_line(response.text()?);
    }
    let answer: Value = response.json()?;
    let meaning = match text(&answer, "/effect") {
        "resumed" => "the execution resumes",
        "counted" => "it counts towards the condition, which needs more",
        "buffered" => "it is kept until the execution waits for it",
        other => other,
    };
    match truth(&answer, "/duplicate") {
        true => session.out.line(format!("Delivered before: {meaning}.")),
        false => session.out.line(format!("Delivered: {meaning}.")),
    }
}
