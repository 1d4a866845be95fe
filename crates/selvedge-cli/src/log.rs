//! Logging to standard error, in colour only on a terminal.

use crate::failure::Failure;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// The default filter.
const DEFAULT: &str = "warn,selvedge=info";

/// Starts logging with `filter`, else with the filter in `RUST_LOG`, else with the default.
pub fn start(filter: Option<&str>) -> Result<(), Failure> {
    let filter = match filter {
        Some(filter) => filter.to_owned(),
        None => std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default(),
    };
    let filter = match filter.trim() {
        "" => DEFAULT,
        filter => filter,
    };
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        Failure::Usage(format!("the log filter {filter:?} (of --log, SELVEDGE_LOG or RUST_LOG) is invalid ({error}); write for example {DEFAULT}"))
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}
