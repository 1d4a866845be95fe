//! `selvedge submit`: submits one execution, and waits for its result if asked to.

use super::values::{add, json_argument, millis, pair, span};
use super::wait;
use crate::failure::Failure;
use crate::remote::Remote;
use crate::terminal::text;
use clap::Args;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The arguments of `selvedge submit`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// The handler that runs it
    kind: String,
    /// The input: JSON, @FILE, or - for standard input [default: null]
    input: Option<String>,
    /// Put it into this lane
    #[arg(long, value_name = "NAME", default_value = "default")]
    lane: String,
    /// Submit it with this id, a UUID: a repeat is a duplicate
    #[arg(long, value_name = "UUID")]
    id: Option<String>,
    /// Return the existing execution if one has this key
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Return the existing execution if one with this key has not ended
    #[arg(long, value_name = "KEY")]
    unique_while_active: Option<String>,
    /// Start higher ones first, from -100 to 100
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Tag it; may be repeated
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = pair)]
    tags: Vec<(String, String)>,
    /// Require this capability of workers; may be repeated
    #[arg(long = "capability", value_name = "NAME")]
    capabilities: Vec<String>,
    /// Draw on this quota; may be repeated
    #[arg(long = "quota", value_name = "NAME")]
    quotas: Vec<String>,
    /// Draw on this budget; may be repeated
    #[arg(long = "budget", value_name = "NAME")]
    budgets: Vec<String>,
    /// Take turns with executions that have other fairness keys
    #[arg(long, value_name = "KEY")]
    fairness_key: Option<String>,
    /// Start it no earlier than after this time, such as 10m
    #[arg(long, value_name = "TIME", value_parser = span)]
    delay: Option<Duration>,
    /// Retry it at most this often
    #[arg(long, value_name = "NUMBER")]
    max_retries: Option<u32>,
    /// End an attempt after this time
    #[arg(long, value_name = "TIME", value_parser = span)]
    attempt_timeout: Option<Duration>,
    /// Expire it after this time, all attempts and waits included
    #[arg(long, value_name = "TIME", value_parser = span)]
    deadline: Option<Duration>,
    /// Set further fields of the submission, as a JSON object, @FILE or -
    #[arg(long, value_name = "JSON")]
    fields: Option<String>,
    /// Wait for the end and print the result; the exit code is that of the outcome
    #[arg(long)]
    wait: bool,
    /// Wait at most this long
    #[arg(long, value_name = "TIME", value_parser = span, requires = "wait")]
    timeout: Option<Duration>,
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
Examples:
  selvedge submit demo.echo '{\"hello\": \"world\"}'
  selvedge submit demo.echo '\"Ada\"' --wait
  selvedge submit resize @picture.json --lane images --priority 5 --tag team=web
  selvedge submit report --fields '{\"concurrency\": {\"key\": \"customer-7\", \"limit\": 2}}'";

/// Submits the execution.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    let body = arguments.body()?;
    let response = session.client.post(&["executions"]).json_text(body).send().await?;
    let submitted: Value = response.json()?;
    let id = text(&submitted, "/execution/id").to_owned();
    if arguments.wait {
        return wait::for_execution(&session, &id, arguments.timeout).await;
    }
    if session.out.json {
        return session.out.json_line(response.text()?);
    }
    if submitted["duplicate"] == json!(true) {
        session.out.note("This execution exists already.");
    }
    session.out.line(id)
}

impl Arguments {
    /// Returns the body. The input keeps its bytes.
    fn body(&self) -> Result<String, Failure> {
        let mut fields = match &self.fields {
            Some(argument) => {
                let raw = json_argument(argument, "--fields")?;
                serde_json::from_str::<Map<String, Value>>(raw.get())
                    .map_err(|error| Failure::Usage(format!("--fields is not a JSON object: {error}")))?
            }
            None => Map::new(),
        };
        fields.insert("kind".into(), json!(self.kind));
        fields.insert("lane".into(), json!(self.lane));
        add(&mut fields, "id", self.id.clone());
        add(&mut fields, "idempotency_key", self.idempotency_key.clone());
        add(&mut fields, "unique_while_active", self.unique_while_active.clone());
        add(&mut fields, "priority", self.priority);
        add(&mut fields, "fairness_key", self.fairness_key.clone());
        add(&mut fields, "delay_ms", self.delay.map(millis));
        add(&mut fields, "attempt_timeout_ms", self.attempt_timeout.map(millis));
        add(&mut fields, "deadline_ms", self.deadline.map(millis));
        if let Some(retries) = self.max_retries {
            let retry = fields.entry("retry").or_insert_with(|| json!({}));
            retry["max_retries"] = json!(retries);
        }
        for (name, list) in
            [("capabilities", &self.capabilities), ("quotas", &self.quotas), ("budgets", &self.budgets)]
        {
            if !list.is_empty() {
                fields.insert(name.into(), json!(list));
            }
        }
        if !self.tags.is_empty() {
            let tags: Map<String, Value> =
                self.tags.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            fields.insert("tags".into(), Value::Object(tags));
        }
        let mut raw: std::collections::BTreeMap<String, Box<RawValue>> = fields
            .into_iter()
            .map(|(name, value)| Ok((name, serde_json::value::to_raw_value(&value)?)))
            .collect::<Result<_, serde_json::Error>>()
            .map_err(|error| Failure::Failed(error.to_string()))?;
        if let Some(input) = &self.input {
            raw.insert("input".into(), json_argument(input, "the input")?);
        }
        serde_json::to_string(&raw).map_err(|error| Failure::Failed(error.to_string()))
    }
}
