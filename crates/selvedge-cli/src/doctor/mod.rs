//! `selvedge doctor`: examines a store and a server, and names a remedy for each finding.
//!
//! The store crates examine stores; `server` asks a server over its API; `report` prints.

mod report;
mod server;
mod work;

use crate::failure::Failure;
use crate::remote::Remote;
use clap::Args;
use report::Section;
use selvedge::Address;
use selvedge_store::Level;

/// The arguments of `selvedge doctor`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// Examine this store as well: sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE [default: only the server]
    #[arg(long, env = "SELVEDGE_STORE", hide_env_values = true, value_name = "ADDRESS")]
    store: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
Examples:
  selvedge doctor
  selvedge doctor --store postgres://ada@db/selvedge
  selvedge doctor --server https://selvedge.example.org --json | jq 'select(.level != \"ok\")'

Nothing is changed, and nothing waits for a lock: it is safe beside running servers. With --store, a server is examined
only if --server, SELVEDGE_SERVER or a profile names one.
Exit codes: 0 no errors; 1 at least one finding is an error, or nothing could be examined.";

/// Examines what the arguments name.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let out = arguments.remote.output();
    let mut sections = Vec::new();
    if let Some(store) = &arguments.store {
        let address: Address =
            store.parse().map_err(|error: selvedge::Error| Failure::Usage(error.to_string()))?;
        sections.push(Section { subject: format!("store {address}"), findings: address.diagnose().await });
    }
    if arguments.store.is_none() || arguments.remote.names_server()? {
        let session = arguments.remote.open()?;
        let findings = server::examine(&session.client).await;
        sections.push(Section { subject: format!("server {}", session.client.server()), findings });
    }
    report::print(&out, &sections)?;
    let errors = sections.iter().flat_map(|section| &section.findings);
    match errors.filter(|finding| finding.level == Level::Error).count() {
        0 => Ok(()),
        1 => Err(Failure::Failed("1 finding is an error; its remedy is above".into())),
        count => Err(Failure::Failed(format!("{count} findings are errors; their remedies are above"))),
    }
}
