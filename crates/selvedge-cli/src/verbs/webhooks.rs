//! `selvedge webhooks`: lists, changes and pauses webhooks, and replays deliveries.

use super::get::values;
use super::resource;
use super::values::{add, millis, span, tag_filter};
use crate::failure::Failure;
use crate::remote::{Remote, Session};
use crate::terminal::{Table, age, number, state_text, strings, text, truth};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The arguments of `selvedge webhooks`.
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
    /// List webhooks (the default)
    #[command(after_help = "Example:\n  selvedge webhooks list --json")]
    List,
    /// Show one
    #[command(after_help = "Example:\n  selvedge webhooks get alerts")]
    Get {
        /// The name of the webhook
        name: String,
    },
    /// Create one and print its secret, this once; or change it: what is not named stays
    #[command(
        after_help = "Example:\n  selvedge webhooks set alerts --url https://example.org/hook --types execution.failed,flow.failed"
    )]
    Set {
        /// The name of the webhook
        name: String,
        /// Send events to this address
        #[arg(long, value_name = "URL")]
        url: Option<String>,
        /// Send events of these types, separated by commas; * means all
        #[arg(long, value_name = "TYPES", value_delimiter = ',')]
        types: Vec<String>,
        /// Only events about executions with this tag
        #[arg(long, value_name = "NAME=VALUE", value_parser = tag_filter)]
        tag: Option<String>,
    },
    /// Send nothing until it is resumed; nothing is lost while the log keeps it
    #[command(after_help = "Example:\n  selvedge webhooks pause alerts")]
    Pause {
        /// The name of the webhook
        name: String,
    },
    /// Send again
    #[command(after_help = "Example:\n  selvedge webhooks resume alerts")]
    Resume {
        /// The name of the webhook
        name: String,
    },
    /// List deliveries that failed, newest first
    #[command(after_help = "Example:\n  selvedge webhooks deliveries alerts --state dead")]
    Deliveries {
        /// The name of the webhook
        name: String,
        /// Only those in this state: pending, dead
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
    },
    /// Deliver again
    #[command(
        after_help = "Example:\n  selvedge webhooks replay alerts 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a"
    )]
    Replay {
        /// The name of the webhook
        name: String,
        /// The id of the delivery
        delivery: String,
    },
    /// Create a new secret and print it, this once
    #[command(after_help = "Example:\n  selvedge webhooks rotate-secret alerts --grace 24h")]
    RotateSecret {
        /// The name of the webhook
        name: String,
        /// Sign with the old secret too for this time
        #[arg(long, value_name = "TIME", value_parser = span, default_value = "24h")]
        grace: Duration,
    },
    /// Delete one with its deliveries
    #[command(after_help = "Example:\n  selvedge webhooks delete alerts")]
    Delete {
        /// The name of the webhook
        name: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

const EXAMPLES: &str = "\
Examples:
  selvedge webhooks set alerts --url https://example.org/hook --types execution.failed,flow.failed
  selvedge webhooks
  selvedge webhooks deliveries alerts --state dead
  selvedge webhooks replay alerts 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a";

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    match arguments.command.unwrap_or(Command::List) {
        Command::List => {
            let headings = ["name", "state", "delivered", "pending", "dead", "missed", "types", "url"];
            let empty = "There are no webhooks. Create one: selvedge webhooks set NAME --url URL --types execution.failed";
            resource::list(&session, &["webhooks"], &headings, empty, row).await
        }
        Command::Get { name } => resource::get(&session, &["webhooks", &name]).await,
        Command::Set { name, url, types, tag } => {
            let mut change = Map::new();
            add(&mut change, "url", url);
            add(&mut change, "types", (!types.is_empty()).then(|| json!(types)));
            add(&mut change, "filter", tag.map(|tag| json!({"tag": tag})));
            resource::require_change(&change, "--url URL --types execution.failed")?;
            let response = resource::set(&session, &["webhooks", &name], &change).await?;
            if response.status == 201 && !session.out.json {
                session.out.note("This is the secret. It is shown only now:");
                return session.out.line(text(&response.json()?, "/secret"));
            }
            resource::print(&session, &response, resource::fields)
        }
        Command::Pause { name } => pause(&session, &name, true).await,
        Command::Resume { name } => pause(&session, &name, false).await,
        Command::Deliveries { name, state } => deliveries(&session, &name, state).await,
        Command::Replay { name, delivery } => {
            let path = ["webhooks", name.as_str(), "deliveries", delivery.as_str(), "replay"];
            let response = session.client.post(&path).send().await?;
            resource::print(&session, &response, |_| format!("The delivery {delivery} is sent again."))
        }
        Command::RotateSecret { name, grace } => {
            let body = json!({"grace_ms": millis(grace)});
            let response =
                session.client.post(&["webhooks", &name, "rotate-secret"]).json(&body).send().await?;
            session.out.note("This is the secret. It is shown only now:");
            resource::print(&session, &response, |answer| text(answer, "/secret").to_owned())
        }
        Command::Delete { name, yes } => {
            let what = format!("The webhook {name} with its deliveries");
            resource::delete(&session, &["webhooks", &name], &what, yes).await
        }
    }
}

async fn pause(session: &Session, name: &str, paused: bool) -> Result<(), Failure> {
    let response = session.client.patch(&["webhooks", name]).json(&json!({"paused": paused})).send().await?;
    let state = if paused { "paused" } else { "active" };
    resource::print(session, &response, |_| format!("The webhook {name} is {state}."))
}

async fn deliveries(session: &Session, name: &str, state: Option<String>) -> Result<(), Failure> {
    let request = session.client.get(&["webhooks", name, "deliveries"]).query_optional("state", state);
    let items = request.items(500).await?;
    if session.out.json {
        return items.iter().try_for_each(|item| session.out.json_line(item.get()));
    }
    let mut table = Table::new(&["id", "type", "state", "tries", "age", "error"]);
    for delivery in values(&items) {
        table.row(vec![
            text(&delivery, "/id").into(),
            text(&delivery, "/type").into(),
            state_text(text(&delivery, "/state")),
            number(&delivery, "/attempts").to_string(),
            age(text(&delivery, "/created_at")),
            text(&delivery, "/last_error").into(),
        ]);
    }
    match table.is_empty() {
        true => session.out.line("There are no such deliveries."),
        false => session.out.table(&table),
    }
}

fn row(webhook: &Value) -> Vec<String> {
    let state = match (truth(webhook, "/paused"), text(webhook, "/failing_since_at")) {
        (true, _) => format!("{} ({})", state_text("paused"), text(webhook, "/paused_reason")),
        (false, "") => state_text("active"),
        (false, since) => format!("{} for {}", state_text("failed"), age(since)),
    };
    vec![
        text(webhook, "/name").into(),
        state,
        number(webhook, "/delivered").to_string(),
        number(webhook, "/pending").to_string(),
        number(webhook, "/dead").to_string(),
        number(webhook, "/missed").to_string(),
        strings(webhook, "/types"),
        text(webhook, "/url").into(),
    ]
}
