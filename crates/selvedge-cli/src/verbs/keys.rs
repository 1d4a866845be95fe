//! `selvedge keys`: creates, lists and revokes API keys.

use super::resource;
use super::values::span;
use crate::failure::Failure;
use crate::remote::{Remote, Session};
use crate::terminal::{age, relative, state_text, text};
use clap::{Args, Subcommand};
use selvedge_api::api_keys::{ApiKey, ListKeys, RevokeKey};
use selvedge_api::times;
use selvedge_core::Timestamp;
use serde_json::json;
use std::time::Duration;

/// The arguments of `selvedge keys`.
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
    /// List keys, newest first (the default)
    #[command(after_help = "Example:\n  selvedge keys list --json")]
    List,
    /// Create a key and print it, this once
    #[command(
        after_help = "Example:\n  selvedge keys create image-workers --role worker --for images --expires 90d"
    )]
    Create {
        /// A name, which is the actor of what the key does
        name: String,
        /// What the key permits: reader, submitter, worker, operator, admin
        #[arg(long, value_name = "ROLE")]
        role: String,
        /// A namespace of the key; may be repeated, * means all
        #[arg(long = "for", value_name = "NAMESPACE", default_value = "default")]
        namespaces: Vec<String>,
        /// Let the key expire after this time
        #[arg(long, value_name = "TIME", value_parser = span)]
        expires: Option<Duration>,
    },
    /// Revoke a key, at once
    #[command(after_help = "Example:\n  selvedge keys revoke 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a")]
    Revoke {
        /// The id of the key
        id: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

const EXAMPLES: &str = "\
Examples:
  selvedge keys
  selvedge keys create image-workers --role worker --for images --expires 90d
  selvedge keys create ci --role submitter > ci.key
  selvedge keys revoke 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a";

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    match arguments.command.unwrap_or(Command::List) {
        Command::List => {
            let headings = ["id", "name", "role", "state", "used", "expires", "namespaces"];
            let empty = "There are no keys. Without keys a server listens on loopback only.";
            let keys = session.client.operation(&ListKeys::default()).items(resource::MOST).await?;
            resource::print_items(&session, &keys, &headings, empty, row)
        }
        Command::Create { name, role, namespaces, expires } => {
            create(&session, &name, &role, &namespaces, expires).await
        }
        Command::Revoke { id, yes } => {
            let revoke = RevokeKey { id: resource::id(&id)? };
            if !session.confirm(&format!("Requests with the key {id} will be refused."), yes)? {
                return Err(Failure::Failed("nothing was changed".into()));
            }
            let revoked = session.client.operation(&revoke).send().await?;
            resource::print_value(&session, &revoked, |_| format!("The key {id} is revoked."))
        }
    }
}

async fn create(
    session: &Session,
    name: &str,
    role: &str,
    namespaces: &[String],
    expires: Option<Duration>,
) -> Result<(), Failure> {
    let mut body = json!({"name": name, "role": role, "namespaces": namespaces});
    if let Some(expires) = expires {
        let time = jiff::Timestamp::now().checked_add(expires);
        let time = time.map_err(|error| Failure::Usage(format!("--expires: {error}")))?;
        body["expires_at"] = json!(format!("{time:.3}"));
    }
    let response = session.client.post(&["admin", "keys"]).json(&body).send().await?;
    if !session.out.json {
        session.out.note("This is the key. It is shown only now:");
    }
    // The server shows the key only now, so nothing else of the answer may keep it from being printed.
    resource::print(session, &response, |answer| text(answer, "/key").to_owned())
}

fn row(key: &ApiKey) -> Vec<String> {
    let text = |time: Option<Timestamp>| time.map(times::text).unwrap_or_default();
    let is_past = |time: &str| crate::terminal::since(time).is_some_and(|ago| ago > 0);
    let expires = text(key.expires_at);
    let state = match key.revoked_at {
        None if is_past(&expires) => state_text("expired"),
        None => state_text("active"),
        Some(_) => state_text("revoked"),
    };
    vec![
        key.id.to_string(),
        key.name.clone(),
        key.role.to_string(),
        state,
        age(&text(key.last_used_at)),
        relative(&expires),
        key.namespaces.join(", "),
    ]
}
