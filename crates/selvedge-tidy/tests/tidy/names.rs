//! One public type name has one meaning in the workspace.

use selvedge_tidy::{assert_none, files, masked};
use std::collections::BTreeMap;

/// Names that several public types have, with the number of their definitions and the reason.
const SHARED: &[(&str, usize, &str)] = &[
    ("Access", 2, "to a row of a table; of a caller to a route"),
    ("Arguments", 30, "the arguments of each verb, in its module"),
    ("Caller", 2, "of a rule; of a route"),
    ("Claim", 2, "of an execution; of the ownership of a SQLite file"),
    ("Claimed", 2, "the fact; the reply of the rule"),
    ("Client", 2, "of the API; of a collector of traces"),
    ("Clock", 2, "of each store that has its own"),
    ("Connection", 2, "to Postgres; of a client"),
    ("Decision", 2, "of an answer to a waitpoint; of a transaction"),
    ("Ended", 2, "a command of `worker exec`; an execution"),
    ("Endpoint", 2, "of a collector of traces; of Postgres"),
    ("Entries", 2, "of a table; of the log"),
    ("Error", 3, "of each crate, named with it"),
    ("Failed", 3, "the fact; to run a command; to commit"),
    ("Failure", 2, "of the command line; of an attempt"),
    ("Fence", 2, "of a lease; of a server that is too old for the schema"),
    ("Fixed", 2, "a body of a known length; a column of a fixed size"),
    ("FlowEnded", 2, "the fact; the reply to a wait"),
    ("FlowSubmitted", 2, "the fact; the reply of the rule"),
    ("Limits", 2, "of the examination of each SQL store"),
    ("Loading", 2, "of a batch in core; of one load in Postgres"),
    ("Message", 2, "of an event stream; to a webhook"),
    ("Options", 3, "of each of client, engine and server, named with it"),
    ("Outcome", 2, "of an execution; of a delivery"),
    ("Page", 2, "of a list; of the web pages"),
    ("Passed", 2, "entries of the log; bounds of claims"),
    ("Position", 2, "in the queue of tasks; in the log"),
    ("Problem", 2, "as the client reads it; as the server writes it"),
    ("Request", 2, "of the API; for rows of a table"),
    ("Run", 2, "of a flow file; of a schedule"),
    ("Session", 2, "of a worker; of a verb with a server"),
    ("Setting", 2, "of a gate; of the server, as the pages show it"),
    ("Settings", 2, "of the command line; of connections to Postgres"),
    ("Slots", 2, "of a lease; of a histogram"),
    ("Source", 2, "of a list; of server-sent events"),
    ("Spent", 2, "the fact; the usage of an execution"),
    ("Step", 2, "of an execution; of reading the log"),
    ("Submitted", 2, "the fact; the reply of the rule"),
    ("Tls", 2, "of connections to Postgres; of the server"),
    ("Unreadable", 2, "an entry of the log; a row of Postgres"),
];

/// Crates whose types mirror those of others: the public crate has the words of core for its users and the API those of
/// core on the wire, the conformance suite has reference models, and each benchmark has the same parts.
const MIRRORS: [&str; 5] = [
    "crates/selvedge/",
    "crates/selvedge-api/",
    "crates/selvedge-conformance/",
    "crates/selvedge-bench/",
    "crates/selvedge-system-tests/",
];

/// Returns the name of the public type that a line defines.
fn defined(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let rest = ["struct ", "enum ", "trait ", "type "].iter().find_map(|kind| rest.strip_prefix(kind))?;
    let end = rest.find(|one: char| !one.is_alphanumeric() && one != '_').unwrap_or(rest.len());
    Some(&rest[..end])
}

#[test]
fn a_public_type_name_is_defined_once() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let is_mirror = |path: &str| MIRRORS.iter().any(|mirror| path.starts_with(mirror));
    let sources =
        files("rs").into_iter().filter(|file| file.path.contains("/src/") && !is_mirror(&file.path));
    for file in sources {
        for (at, line) in masked(&file.text).lines().enumerate() {
            if let Some(name) = defined(line).filter(|name| !name.is_empty()) {
                places.entry(name.to_owned()).or_default().push(format!("{}:{}", file.path, at + 1));
            }
        }
    }
    let mut findings = Vec::new();
    for (name, found) in &places {
        let allowed = SHARED.iter().find(|(shared, ..)| shared == name).map_or(1, |(_, count, _)| *count);
        if found.len() > allowed {
            findings.push(format!(
                "{}: {name} is also defined at {}; rename one",
                found[0],
                found[1..].join(", ")
            ));
        }
    }
    for (name, count, reason) in SHARED {
        let found = places.get(*name).map_or(0, Vec::len);
        if found < *count || *count < 2 || reason.is_empty() {
            findings.push(format!(
                "{name}: has {found} definitions, and {count} are allowed; lower or remove the exception"
            ));
        }
    }
    assert_none(&findings);
}

#[test]
fn only_public_types_have_a_name_for_the_workspace() {
    assert_eq!(defined("pub struct Row<T> {"), Some("Row"));
    assert_eq!(defined("    pub enum State;"), Some("State"));
    assert_eq!(defined("pub(crate) struct Row {"), None);
    assert_eq!(defined("pub fn state() {"), None);
}
