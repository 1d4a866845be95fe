//! `selvedge version`: the version of this program, and of the server if one answers.

use crate::failure::Failure;
use crate::remote::Remote;
use crate::terminal::text;
use clap::Args;
use selvedge_client::Retries;
use serde_json::{Value, json};

/// The arguments of `selvedge version`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  selvedge version\n  selvedge version --server https://selvedge.example.org --json"
)]
#[group(skip)]
pub struct Arguments {
    #[command(flatten)]
    remote: Remote,
}

/// Prints the versions. A server that does not answer is no failure.
pub async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    let own = env!("CARGO_PKG_VERSION");
    let health = session.client.request(hyper::Method::GET, "/healthz").retries(Retries::NONE).send().await;
    let server = health.ok().and_then(|health| health.json::<Value>().ok());
    let server = server.map(|health| text(&health, "/version").to_owned());
    let address = session.client.server();
    if session.out.json {
        return session.out.line(json!({"version": own, "server": server, "address": address}).to_string());
    }
    session.out.line(format!("selvedge {own}"))?;
    match server {
        Some(version) => session.out.line(format!("server   {version} at {address}")),
        None => session.out.line(format!("server   none answers at {address}")),
    }
}
