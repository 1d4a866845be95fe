//! Logging to standard error: as text, in colour only on a terminal, or as one JSON object per line.

use crate::failure::Failure;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// The default filter.
const DEFAULT: &str = "warn,selvedge=info";
/// The first word of a filter that chooses JSON.
const JSON: &str = "json";
/// The part of the filter that gives the lines of a request the request's id. JSON logs have it unless they set it.
const REQUESTS: &str = "selvedge_server::request";

/// The form of the log, and its filter.
#[derive(Debug, PartialEq)]
struct LogSettings {
    json: bool,
    filter: String,
}

/// Reads `json`, `json,FILTER` or `FILTER`. Without a filter the one in `RUST_LOG` applies, else the default.
fn read(given: Option<&str>, variable: Option<String>) -> LogSettings {
    let given = given.unwrap_or_default().trim();
    let (json, filter) = match given.strip_prefix(JSON).map(str::trim_start) {
        Some("") => (true, ""),
        Some(rest) if rest.starts_with(',') => (true, rest[1..].trim()),
        Some(_) | None => (false, given),
    };
    let variable = variable.unwrap_or_default();
    let filter = [filter, variable.trim(), DEFAULT].into_iter().find(|filter| !filter.is_empty());
    let mut filter = filter.unwrap_or(DEFAULT).to_owned();
    if json && !filter.contains(REQUESTS) {
        filter = format!("{filter},{REQUESTS}=debug");
    }
    LogSettings { json, filter }
}

/// Starts logging as `given`, else with the filter in `RUST_LOG`, else with the default.
pub fn start(given: Option<&str>) -> Result<(), Failure> {
    let LogSettings { json, filter } = read(given, std::env::var(EnvFilter::DEFAULT_ENV).ok());
    let filter = EnvFilter::try_new(&filter).map_err(|error| {
        Failure::Usage(format!(
            "the log filter {filter:?} (of --log, SELVEDGE_LOG or RUST_LOG) is invalid ({error}); write for example {DEFAULT}, \
             or json"
        ))
    })?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Otherwise a line that cannot be written is reported on standard error, too, and the failure of that panics: a
        // full disk with the log on it would end the thread that writes to the store.
        .log_internal_errors(false)
        .with_ansi(!json && std::io::stderr().is_terminal());
    match json {
        true => log.json().flatten_event(true).with_span_list(false).init(),
        false => log.init(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_may_begin_with_the_form_of_the_log() {
        let text = |filter: &str| LogSettings { json: false, filter: filter.into() };
        let json = |filter: &str| LogSettings { json: true, filter: format!("{filter},{REQUESTS}=debug") };
        assert_eq!(read(None, None), text(DEFAULT));
        assert_eq!(read(Some(" "), Some("info".into())), text("info"));
        assert_eq!(read(Some("debug"), Some("info".into())), text("debug"));
        assert_eq!(read(Some("jsonish=debug"), None), text("jsonish=debug"));
        assert_eq!(read(Some("json"), None), json(DEFAULT));
        assert_eq!(read(Some("json"), Some("info".into())), json("info"));
        assert_eq!(read(Some("json, selvedge=debug"), None), json("selvedge=debug"));
        let quiet = format!("info,{REQUESTS}=off");
        assert_eq!(read(Some(&format!("json,{quiet}")), None), LogSettings { json: true, filter: quiet });
    }
}
