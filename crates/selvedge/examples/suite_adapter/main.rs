//! The adapter of the Rust SDK for the suite that the SDKs of all languages share (sdk/suite): translates scenarios into calls
//! of the SDK. It adds nothing of its own.
//!
//! - `suite_adapter worker --server URL --scenario FILE` runs the SDK's worker with the scenario's tasks;
//! - `suite_adapter client --server URL` runs the calls that it reads from standard input.

mod actions;
mod calls;
mod settings;
mod tasks;

use selvedge::Client;
use serde_json::Value;
use std::io::Write;

/// The error of the adapter itself.
pub type AdapterError = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), AdapterError> {
    let filter = tracing_subscriber::EnvFilter::new("warn,selvedge=info");
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["worker", "--server", server, "--scenario", file] => tasks::run(client(server)?, file).await,
        ["client", "--server", server] => calls::run(client(server)?).await,
        _ => Err("usage: worker --server URL --scenario FILE, or client --server URL".into()),
    }
}

fn client(server: &str) -> Result<Client, AdapterError> {
    Ok(Client::new(server)?)
}

/// Writes one line of the protocol.
pub fn print(line: &Value) {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{line}").and_then(|()| out.flush());
    written.expect("the harness reads standard output");
}
