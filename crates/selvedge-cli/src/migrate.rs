//! `selvedge migrate`: brings the schema of a store up to the version of this program.

use crate::failure::Failure;
use crate::terminal::{ColorChoice, Output};
use clap::Args;
use selvedge::Address;
use selvedge_store::{Migrated, SchemaVersion};
use serde_json::json;

/// The arguments of `selvedge migrate`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// Migrate this store: sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE
    #[arg(
        long,
        env = "SELVEDGE_STORE",
        hide_env_values = true,
        value_name = "ADDRESS",
        default_value = "sqlite:selvedge.db"
    )]
    store: String,
    /// Change nothing; exit with 1 if a migration is needed
    #[arg(long)]
    check: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  selvedge migrate --store postgres://ada@db/selvedge
  selvedge migrate --store sqlite:/var/lib/selvedge/selvedge.db --check

A server migrates its store when it starts. This command does it before, or says whether it will.
Exit codes: 0 the schema is up to date; 1 a migration is needed (--check) or failed.";

/// Migrates the store, or says whether that is needed.
pub async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let out = Output::new(arguments.json, ColorChoice::Auto);
    let address: Address =
        arguments.store.parse().map_err(|error: selvedge::Error| Failure::Usage(error.to_string()))?;
    if arguments.check {
        return check(&out, &address).await;
    }
    let migrated = address.migrate().await.map_err(|error| Failure::of_store(&address, &error))?;
    let Migrated { from, to } = migrated;
    if out.json {
        let object = json!({"store": address.to_string(), "from": from, "to": to, "migrated": from != to});
        return out.line(object.to_string());
    }
    match (from, to) {
        (from, to) if from == to => {
            out.line(format!("The schema of {address} has version {to}: nothing to do."))
        }
        (0, to) => out.line(format!("The schema of {address} was created with version {to}.")),
        (from, to) => out.line(format!("The schema of {address} was migrated: {from} → {to}.")),
    }
}

async fn check(out: &Output, address: &Address) -> Result<(), Failure> {
    let version = address.schema_version().await.map_err(|error| Failure::of_store(address, &error))?;
    let SchemaVersion { found, minimum_reader, known } = version;
    if out.json {
        let needed = version.needs_migration();
        let object =
            json!({"store": address.to_string(), "from": found, "to": found.max(known), "needed": needed});
        out.line(object.to_string())?;
    }
    if version.is_too_new() {
        return Err(Failure::Failed(format!(
            "the schema of {address} has version {found} and needs a program that knows {minimum_reader}; this one knows \
             {known}: upgrade it"
        )));
    }
    if version.needs_migration() {
        return Err(Failure::Failed(format!(
            "the schema of {address} has version {found} and needs a migration to {known}; run selvedge migrate"
        )));
    }
    match out.json {
        true => Ok(()),
        false => out.line(format!("The schema of {address} has version {found}: no migration is needed.")),
    }
}
