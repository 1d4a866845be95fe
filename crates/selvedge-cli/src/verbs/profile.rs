//! `selvedge profile`: names servers, so that other commands need no address and no key.

use crate::failure::Failure;
use crate::remote::{Profiles, Remote, ServerProfile};
use crate::terminal::{Table, confirm};
use clap::{Args, Subcommand};
use serde_json::json;

/// The arguments of `selvedge profile`.
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
    /// List profiles (the default)
    #[command(after_help = "Example:\n  selvedge profile list --json")]
    List,
    /// Create or replace one from --server, --key, --namespace and --ca-file
    #[command(
        after_help = "Example:\n  selvedge profile set production --server https://selvedge.example.org"
    )]
    Set {
        /// The name of the profile
        name: String,
    },
    /// Use one where no other is named
    #[command(after_help = "Example:\n  selvedge profile use production")]
    Use {
        /// The name of the profile
        name: String,
    },
    /// Delete one
    #[command(after_help = "Example:\n  selvedge profile delete production")]
    Delete {
        /// The name of the profile
        name: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

const EXAMPLES: &str = "\
Profiles are in ~/.config/selvedge/config.toml, which only you can read.

Examples:
  SELVEDGE_KEY=slv_… selvedge profile set production --server https://selvedge.example.org
  selvedge profile use production
  selvedge list --profile production";

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let (remote, out) = (&arguments.remote, arguments.remote.output());
    let mut profiles = Profiles::load()?;
    match arguments.command.unwrap_or(Command::List) {
        Command::List => list(&profiles, remote),
        Command::Set { name } => {
            let profile = ServerProfile {
                server: remote.server.clone(),
                key: remote.key.clone(),
                namespace: remote.namespace.clone(),
                ca_file: remote.ca_file.clone(),
            };
            if profile.server.is_none() {
                return Err(Failure::Usage("name the server with --server URL".into()));
            }
            profiles.profiles.insert(name.clone(), profile);
            if profiles.profiles.len() == 1 {
                profiles.profile = Some(name.clone());
            }
            let path = profiles.save()?;
            out.line(format!("The profile {name} is in {}.", path.display()))
        }
        Command::Use { name } => {
            if !profiles.profiles.contains_key(&name) {
                return Err(profiles.unknown(&name));
            }
            profiles.profile = Some(name.clone());
            profiles.save()?;
            out.line(format!("Commands use the profile {name} now."))
        }
        Command::Delete { name, yes } => {
            if !profiles.profiles.contains_key(&name) {
                return Err(profiles.unknown(&name));
            }
            if !confirm(&format!("The profile {name} will be deleted."), yes)? {
                return Err(Failure::Failed("nothing was deleted".into()));
            }
            profiles.profiles.remove(&name);
            profiles.profile = profiles.profile.take().filter(|chosen| *chosen != name);
            profiles.save()?;
            out.line(format!("The profile {name} is deleted."))
        }
    }
}

fn list(profiles: &Profiles, remote: &Remote) -> Result<(), Failure> {
    let out = remote.output();
    let mut table = Table::new(&["name", "used", "server", "key", "namespace"]);
    for (name, profile) in &profiles.profiles {
        let is_used = profiles.profile.as_ref() == Some(name);
        let (server, namespace) = (profile.server.clone(), profile.namespace.clone());
        if out.json {
            let has_key = profile.key.is_some();
            let line = json!({"name": name, "used": is_used, "server": server, "has_key": has_key, "namespace": namespace});
            out.line(line.to_string())?;
            continue;
        }
        table.row(vec![
            name.clone(),
            if is_used { "*".into() } else { String::new() },
            server.unwrap_or_default(),
            if profile.key.is_some() { "yes".into() } else { String::new() },
            namespace.unwrap_or_default(),
        ]);
    }
    match (out.json, table.is_empty()) {
        (true, _) => Ok(()),
        (false, true) => {
            out.line("There are no profiles. Create one: selvedge profile set NAME --server URL")
        }
        (false, false) => out.table(&table),
    }
}
